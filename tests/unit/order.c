/* The order of changes: what waits for what, what is judged when, and histories of three members
 * whose messages are late, lost and double, and whose rounds break off. */
#include "common/base/check.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/order_asked.h"

#include <string.h>

/* Rule `inflight`, and the range locks. */
static void what_overlaps_waits_in_order(void **state)
{
    struct order o;
    struct order_action first, second;

    (void)state;
    open_order(&o, 0, 3);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    assert_int_equal(ask(&o, 2, 5, 15, 101), ORDER_YES);
    assert_int_equal(order_read(&o, (struct object_id){ 5, 0 }, (struct span){ 8, 9 }, 102),
                     ORDER_YES);
    assert_int_equal(ask(&o, 3, 20, 30, 103), ORDER_YES);
    first = expect(&o, ORDER_APPLY, 100);
    assert_int_equal(expect(&o, ORDER_FORWARD, 100).sequence, 1);
    (void)expect(&o, ORDER_APPLY, 103);
    (void)expect(&o, ORDER_FORWARD, 103);
    expect_nothing(&o);
    order_applied(&o, first.id);
    expect_nothing(&o); /* Not all have it. */
    order_acked(&o, 1, 1, 9, 1);
    order_acked(&o, 1, 2, 10, 1);
    expect_nothing(&o); /* Of another round, of another epoch. */
    order_acked(&o, 1, 1, 10, 1);
    expect_answer(&o, 100, MORSEL_OK);
    second = expect(&o, ORDER_APPLY, 101);
    (void)expect(&o, ORDER_FORWARD, 101);
    order_applied(&o, first.id); /* Late: of nothing any more. */
    order_applied(&o, second.id);
    expect_nothing(&o);
    order_acked(&o, 1, 1, 10, 3);
    expect_answer(&o, 101, MORSEL_OK);
    first = expect(&o, ORDER_SERVE, 102);
    assert_int_equal(ask(&o, 4, 8, 9, 104), ORDER_YES);
    expect_nothing(&o); /* It would change what is being read. */
    order_applied(&o, first.id);
    (void)expect(&o, ORDER_RELEASE, 102);
    (void)expect(&o, ORDER_APPLY, 104);
    order_free(&o);
}

static void settle_waits_for_what_came_before(void **state)
{
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 0, 1);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    assert_int_equal(order_settle(&o, (struct object_id){ 5, 0 }, 101), ORDER_YES);
    assert_int_equal(order_settle(&o, (struct object_id){ 6, 0 }, 102), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    expect_answer(&o, 102, MORSEL_OK);
    expect_nothing(&o);
    order_applied(&o, a.id);
    expect_answer(&o, 100, MORSEL_OK);
    expect_answer(&o, 101, MORSEL_OK);
    order_free(&o);
}

/* Rules `notafter` and `sentbefore`: judged when a change has its range, not when it comes. */
static void a_change_is_judged_once_it_has_its_range(void **state)
{
    struct order_change change = change_of(1, 2, 0, 5);
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 0, 1);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    change.not_after_ms = 50;
    assert_int_equal(order_request(&o, &change, 101), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    order_applied(&o, a.id);
    expect_answer(&o, 100, MORSEL_OK);
    assert_true(order_next(&o, 51, &a));
    assert_int_equal(a.answer.status, MORSEL_TOO_LATE);
    order_set_verifier(&o, 7);
    change = change_of(1, 3, 0, 5);
    change.verifier = 6;
    assert_int_equal(order_request(&o, &change, 102), ORDER_YES);
    expect_answer(&o, 102, MORSEL_UNSURE);
    change.verifier = 7;
    assert_int_equal(order_request(&o, &change, 104), ORDER_YES);
    order_set_verifier(&o, 8);
    a = expect(&o, ORDER_ANSWER, 104); /* Judged by the verifier of now, which it is told. */
    assert_int_equal(a.answer.status, MORSEL_UNSURE);
    assert_int_equal(a.answer.verifier, 8);
    change.verifier = 9;
    assert_int_equal(order_request(&o, &change, 103), ORDER_NO);
    change.verifier = 8;
    assert_int_equal(order_request(&o, &change, 103), ORDER_YES);
    (void)expect(&o, ORDER_APPLY, 103);
    order_free(&o);
}

/* An answer names the verifier under which its change was ordered, also when it is given again: a newer
 * one would speak for bytes that may be lost. */
static void an_answer_keeps_its_verifier(void **state)
{
    struct order_change change = change_of(1, 1, 0, 10);
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 0, 1);
    order_set_verifier(&o, 3);
    change.verifier = 3;
    assert_int_equal(order_request(&o, &change, 100), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    order_set_verifier(&o, 4);
    order_applied(&o, a.id);
    assert_int_equal(expect(&o, ORDER_ANSWER, 100).answer.verifier, 3);
    order_set_verifier(&o, 5);
    assert_int_equal(order_request(&o, &change, 101), ORDER_YES);
    a = expect(&o, ORDER_ANSWER, 101);
    assert_int_equal(a.answer.status, MORSEL_OK);
    assert_int_equal(a.answer.verifier, 3);
    order_free(&o);
}

/* Rules `oldstart` and `again`. */
static void a_new_round_forwards_again(void **state)
{
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 0, 3);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    assert_int_equal(ask(&o, 2, 0, 10, 101), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    order_leave(&o);
    order_check(&o);
    expect_answer(&o, 101, MORSEL_AGAIN);
    order_applied(&o, a.id);
    expect_nothing(&o);
    assert_int_equal(ask(&o, 3, 40, 50, 102), ORDER_NO);
    join_all(&o, 1, 11, 7);
    order_check(&o);
    assert_int_equal(expect(&o, ORDER_FORWARD, 100).member, 1);
    a = expect(&o, ORDER_FORWARD, 100);
    assert_int_equal(a.member, 2);
    assert_int_equal(a.round, 11);
    order_acked(&o, 1, 1, 10, 1);
    order_acked(&o, 2, 1, 11, 1);
    expect_nothing(&o);
    order_lost(&o);
    assert_int_equal(expect(&o, ORDER_FORWARD, 100).member, 1);
    expect_nothing(&o);
    order_acked(&o, 1, 1, 11, 1);
    expect_answer(&o, 100, MORSEL_OK);
    order_free(&o);
}

/* It was not carried out before the round was over: who leads the next one is shown it again. */
static void what_was_put_off_is_shown_again(void **state)
{
    struct order_change change = change_of(1, 1, 0, 10);
    struct order o;
    struct order_action a;
    struct op_answer answer;

    (void)state;
    open_order(&o, 0, 3);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    (void)expect(&o, ORDER_FORWARD, 100);
    order_put_off(&o, a.id); /* The round goes on. */
    a = expect(&o, ORDER_APPLY, 100);
    order_leave(&o);
    order_put_off(&o, a.id);
    expect_nothing(&o);
    join_all(&o, 2, 20, 1);
    order_check(&o);
    a = expect(&o, ORDER_APPLY, 100);
    order_unapplied(&o, a.id, MORSEL_CHECKSUM);
    expect_answer(&o, 100, MORSEL_CHECKSUM);
    assert_int_equal(op_memory_find(o.memory, change.op, &answer), OP_DONE);
    assert_int_equal(answer.status, MORSEL_CHECKSUM);
    order_free(&o);

    open_order(&o, 1, 3);
    assert_int_equal(order_forwarded(&o, 0, 1, 10, 1, &change, 100, 1), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    order_leave(&o);
    order_put_off(&o, a.id);
    (void)expect(&o, ORDER_RELEASE, 100);
    join_all(&o, 1, 11, 3);
    assert_int_equal(order_forwarded(&o, 0, 1, 11, 1, &change, 101, 1), ORDER_YES);
    order_unapplied(&o, expect(&o, ORDER_APPLY, 101).id,
                    MORSEL_CHECKSUM); /* Who orders finds so for itself. */
    assert_int_equal(expect(&o, ORDER_ACK, 101).sequence, 1);
    (void)expect(&o, ORDER_RELEASE, 101);
    order_free(&o);
}

static void who_takes_acknowledges_once_it_has_it(void **state)
{
    struct order_change change = change_of(1, 1, 0, 10);
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 1, 3);
    assert_int_equal(order_forwarded(&o, 0, 1, 9, 1, &change, 100, 1), ORDER_NO);
    assert_int_equal(order_forwarded(&o, 2, 1, 10, 1, &change, 100, 1), ORDER_NO);
    assert_int_equal(order_forwarded(&o, 0, 1, 10, ORDER_WINDOW, &change, 100, 1), ORDER_FULL);
    assert_int_equal(order_forwarded(&o, 0, 1, 10, 2, &change, 100, 1), ORDER_YES);
    assert_int_equal(order_forwarded(&o, 0, 1, 10, 2, &change, 101, 1), ORDER_NO);
    a = expect(&o, ORDER_APPLY, 100);
    expect_nothing(&o);
    order_applied(&o, a.id);
    assert_int_equal(expect(&o, ORDER_ACK, 100).sequence, 2);
    (void)expect(&o, ORDER_RELEASE, 100);
    assert_int_equal(order_forwarded(&o, 0, 1, 10, 2, &change, 102, 1), ORDER_HAS_IT);
    for (uint64_t sequence = 1; sequence < 5 * ORDER_WINDOW; sequence++) {
        change.op.number = 1 + sequence % 7;
        if (sequence != 2) {
            assert_int_equal(order_forwarded(&o, 0, 1, 10, sequence, &change, 103, 1), ORDER_YES);
            a = expect(&o, ORDER_APPLY, 103);
            order_applied(&o, a.id);
            (void)expect(&o, ORDER_ACK, 103);
            (void)expect(&o, ORDER_RELEASE, 103);
        }
    }
    assert_int_equal(o.floor, 5 * ORDER_WINDOW - 1);
    order_free(&o);
}

/* What was acknowledged in an old round says nothing of the new one: meanwhile a member may have taken
 * the bytes of another. Nor is anybody answered between rounds. */
static void acknowledgements_count_in_their_round(void **state)
{
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 0, 3);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    (void)expect(&o, ORDER_FORWARD, 100);
    order_acked(&o, 1, 1, 10, 1);
    order_leave(&o);
    order_applied(&o, a.id);
    expect_nothing(&o);
    join_all(&o, 1, 11, 3);
    (void)expect(&o, ORDER_FORWARD, 100);
    expect_nothing(&o);
    order_acked(&o, 1, 1, 11, 1);
    expect_answer(&o, 100, MORSEL_OK);
    order_free(&o);
}

/* Who has acknowledged is not forwarded to, although it was to be shown. */
static void who_has_it_is_not_sent_it(void **state)
{
    struct order o;

    (void)state;
    open_order(&o, 0, 7);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    (void)expect(&o, ORDER_APPLY, 100);
    assert_int_equal(expect(&o, ORDER_FORWARD, 100).member, 1);
    assert_int_equal(expect(&o, ORDER_FORWARD, 100).member, 2);
    order_lost(&o);
    order_acked(&o, 1, 1, 10, 1);
    assert_int_equal(expect(&o, ORDER_FORWARD, 100).member, 2);
    expect_nothing(&o);
    order_free(&o);
}

/* Nothing is carried out behind order_leave(). Whoever orders next: what was carried out here is
 * remembered, what was not is not. */
static void what_another_decides_is_remembered_as_it_is(void **state)
{
    struct op_answer known;
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 1, 2);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    assert_int_equal(ask(&o, 2, 20, 30, 101), ORDER_YES);
    order_leave(&o);
    join_all(&o, 1, 11, 6);
    order_check(&o);
    expect_answer(&o, 100, MORSEL_AGAIN);
    expect_answer(&o, 101, MORSEL_AGAIN);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    assert_int_equal(ask(&o, 2, 20, 30, 101), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    (void)expect(&o, ORDER_FORWARD, 100);
    order_applied(&o, a.id);
    (void)expect(&o, ORDER_APPLY, 101);
    order_leave(&o);
    expect_nothing(&o);
    join_all(&o, 2, 12, 3);
    order_check(&o);
    expect_answer(&o, 100, MORSEL_AGAIN);
    expect_answer(&o, 101, MORSEL_AGAIN);
    assert_int_equal(op_memory_find(o.memory, (struct op_id){ 1, 1 }, &known), OP_DONE);
    assert_int_equal(op_memory_find(o.memory, (struct op_id){ 1, 2 }, &known), OP_NEW);
    order_free(&o);
}

/* Rounds number their forwards anew: what was taken in an old one, carried out or not, is not what
 * comes under the same number in the next. */
static void numbers_of_old_rounds_mean_nothing(void **state)
{
    struct order_change change = change_of(1, 1, 0, 10), other = change_of(1, 2, 20, 30);
    struct order o;
    struct order_action a;

    (void)state;
    open_order(&o, 1, 3);
    assert_int_equal(order_forwarded(&o, 0, 2, 10, 1, &change, 100, 1), ORDER_NO);
    assert_int_equal(order_forwarded(&o, 0, 1, 10, 1, &change, 100, 1), ORDER_YES);
    assert_int_equal(order_forwarded(&o, 0, 1, 10, 3, &other, 101, 1), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 100);
    order_applied(&o, expect(&o, ORDER_APPLY, 101).id);
    (void)expect(&o, ORDER_ACK, 101);
    (void)expect(&o, ORDER_RELEASE, 101);
    order_leave(&o);
    join_all(&o, 1, 11, 3);
    other.op.number = 3;
    assert_int_equal(order_forwarded(&o, 0, 1, 11, 1, &other, 102, 1), ORDER_YES);
    order_applied(&o, a.id); /* Nobody is told: it belongs to the round before. */
    (void)expect(&o, ORDER_APPLY, 102);
    (void)expect(&o, ORDER_RELEASE, 100);
    expect_nothing(&o);
    other.op.number = 4;
    assert_int_equal(order_forwarded(&o, 0, 1, 11, 3, &other, 103, 1), ORDER_YES);
    order_leave(&o);
    (void)expect(&o, ORDER_RELEASE, 103);
    assert_int_equal(op_memory_find(o.memory, other.op, &(struct op_answer){ 0 }), OP_NEW);
    order_free(&o);
}

static void everything_is_bounded(void **state)
{
    struct object_id object = { 5, 0 };
    struct order o;

    (void)state;
    assert_true(order_init(&o, 0, 2, 4));
    join_all(&o, 1, 1, 1);
    for (uint64_t i = 0; i < ORDER_READS_MAX; i++) {
        assert_int_equal(order_read(&o, object, (struct span){ 0, 1 }, i), ORDER_YES);
    }
    assert_int_equal(order_read(&o, object, (struct span){ 0, 1 }, 1), ORDER_FULL);
    for (uint64_t i = 0; i < ORDER_ITEMS_MAX - ORDER_READS_MAX; i++) {
        assert_int_equal(ask(&o, 1 + i, 10 * i + 10, 10 * i + 20, 1000 + i), ORDER_YES);
    }
    assert_int_equal(ask(&o, 5000, 0, 1, 1), ORDER_FULL);
    order_check(&o);
    for (uint64_t i = 0; i < ORDER_READS_MAX; i++) {
        (void)expect(&o, ORDER_SERVE, i);
    }
    for (uint64_t i = 0; i < 4; i++) { /* So many operations are remembered. */
        (void)expect(&o, ORDER_APPLY, 1000 + i);
    }
    expect_answer(&o, 1004, MORSEL_OVERLOAD);
    order_free(&o);
}

/* What finds no room leaves nothing behind. */
static void a_forward_without_room_is_not_remembered(void **state)
{
    struct order_change change = change_of(1, 1, 0, 10);
    struct order o;

    (void)state;
    assert_true(order_init(&o, 1, 2, 2 * ORDER_ITEMS_MAX));
    join_all(&o, 1, 10, 3);
    for (uint64_t i = 1; i <= ORDER_ITEMS_MAX; i++) {
        change.op.number = i;
        assert_int_equal(order_forwarded(&o, 0, 1, 10, i, &change, i, 1), ORDER_YES);
    }
    change.op.number = ORDER_ITEMS_MAX + 1;
    assert_int_equal(order_forwarded(&o, 0, 1, 10, ORDER_ITEMS_MAX + 1, &change, 1, 1), ORDER_FULL);
    assert_int_equal(op_memory_count(o.memory), ORDER_ITEMS_MAX);
    order_check(&o);
    order_free(&o);
}

/* Items are used again, ids are not: that of something long over does not end what has its place. */
static void an_id_names_one_use_of_an_item(void **state)
{
    struct order o;
    struct order_action first, a;

    (void)state;
    open_order(&o, 0, 1);
    assert_int_equal(ask(&o, 1, 0, 10, 100), ORDER_YES);
    first = expect(&o, ORDER_APPLY, 100);
    order_applied(&o, first.id);
    expect_answer(&o, 100, MORSEL_OK);
    for (uint64_t i = 1; i < ORDER_ITEMS_MAX; i++) {
        assert_int_equal(order_settle(&o, (struct object_id){ 5, 0 }, i), ORDER_YES);
        expect_answer(&o, i, MORSEL_OK);
    }
    assert_int_equal(ask(&o, 2, 0, 10, 101), ORDER_YES);
    a = expect(&o, ORDER_APPLY, 101);
    assert_int_equal(a.id % ORDER_ITEMS_MAX, first.id % ORDER_ITEMS_MAX);
    order_applied(&o, first.id);
    expect_nothing(&o);
    order_applied(&o, a.id);
    expect_answer(&o, 101, MORSEL_OK);
    order_free(&o);
}

/* ---- Histories ---- */

enum { MEMBERS = 3, BLOCKS = 4, CLIENTS = 3, OPS_MAX = 4096, BAG_MAX = 64, STEPS = 1500 };

enum paper_kind { PAPER_REQUEST, PAPER_FORWARD, PAPER_ACK };

struct paper
{
    enum paper_kind kind;
    uint32_t from, to;
    uint64_t epoch, round, sequence;
    struct order_change change;
};

struct writer
{
    struct order_change change;
    uint64_t value;
    bool busy;
    bool before[OPS_MAX]; /* What must be gone when it is done. */
};

struct history
{
    struct prng prng;
    struct order orders[MEMBERS];
    uint64_t bytes[MEMBERS][BLOCKS];
    struct paper bag[BAG_MAX];
    uint32_t bag_count;
    struct writer writers[CLIENTS];
    uint64_t values; /* Given so far: the number of an operation is its value. */
    bool seen[BLOCKS][OPS_MAX], gone[BLOCKS][OPS_MAX];
    uint64_t epoch, now_ms;
    group_set set;
    uint32_t done, again;
};

static void put_paper(struct history *h, const struct paper *paper)
{
    if (h->bag_count < BAG_MAX) {
        h->bag[h->bag_count++] = *paper;
    }
}

/* Values are client * OPS_MAX / CLIENTS + number. */
static uint64_t value_of(struct op_id op)
{
    return (op.client - 1) * (OPS_MAX / CLIENTS) + op.number;
}

static void write_bytes(struct history *h, uint32_t member, const struct order_change *change)
{
    for (uint64_t b = change->span.start; b < change->span.end; b++) {
        h->bytes[member][b] = value_of(change->op);
    }
}

static void see(struct history *h, uint64_t block, uint64_t value)
{
    assert_false(h->gone[block][value]);
    for (uint64_t v = 0; v < OPS_MAX; v++) {
        h->gone[block][v] = h->gone[block][v] || (h->seen[block][v] && v != value);
    }
    h->seen[block][value] = true;
}

static void answered(struct history *h, uint64_t token, int status)
{
    struct writer *w = &h->writers[token % CLIENTS];

    if (!w->busy || value_of(w->change.op) != token / CLIENTS || status == MORSEL_AGAIN ||
        status == MORSEL_OVERLOAD) {
        return;
    }
    w->busy = false;
    if (status != MORSEL_OK) {
        assert_int_equal(status, MORSEL_TOO_LATE);
        return;
    }
    h->done++;
    for (uint64_t b = w->change.span.start; b < w->change.span.end; b++) {
        for (uint64_t v = 0; v < OPS_MAX; v++) {
            h->gone[b][v] = h->gone[b][v] || (w->before[v] && v != w->value);
        }
        h->seen[b][w->value] = true;
    }
}

static void perform(struct history *h, uint32_t member, const struct order_action *a)
{
    struct order *o = &h->orders[member];
    struct paper paper = { .from = member, .epoch = a->epoch, .round = a->round };

    paper.sequence = a->sequence;
    if (a->type == ORDER_APPLY) {
        write_bytes(h, member, a->change);
        order_applied(o, a->id);
    } else if (a->type == ORDER_SERVE) {
        see(h, a->change->span.start, h->bytes[member][a->change->span.start]);
        order_applied(o, a->id);
    } else if (a->type == ORDER_FORWARD) {
        paper.kind = PAPER_FORWARD;
        paper.to = a->member;
        paper.change = *a->change;
        put_paper(h, &paper);
    } else if (a->type == ORDER_ACK) {
        paper.kind = PAPER_ACK;
        paper.to = (uint32_t)__builtin_ctz(o->set);
        put_paper(h, &paper);
    } else if (a->type == ORDER_ANSWER && a->token != UINT64_MAX) {
        answered(h, a->token, a->answer.status);
    }
}

static void run_member(struct history *h, uint32_t member)
{
    struct order_action a;

    order_check(&h->orders[member]);
    while (prng_below(&h->prng, 8) != 0 && order_next(&h->orders[member], h->now_ms, &a)) {
        perform(h, member, &a);
        order_check(&h->orders[member]);
    }
}

/* It comes now; at times it stays in the bag as well, and at times it is lost. */
static void deliver(struct history *h)
{
    uint32_t at = (uint32_t)prng_below(&h->prng, h->bag_count);
    struct paper p = h->bag[at];
    struct order *o = &h->orders[p.to];

    if (prng_below(&h->prng, 4) != 0) {
        h->bag[at] = h->bag[--h->bag_count];
    }
    if (prng_below(&h->prng, 10) == 0) {
        return;
    }
    if (p.kind == PAPER_REQUEST) {
        uint64_t token = value_of(p.change.op) * CLIENTS + p.change.op.client - 1;

        (void)order_request(o, &p.change, token);
    } else if (p.kind == PAPER_ACK) {
        order_acked(o, p.from, p.epoch, p.round, p.sequence);
    } else if (order_forwarded(o, p.from, p.epoch, p.round, p.sequence, &p.change, UINT64_MAX,
                               h->now_ms) == ORDER_HAS_IT) {
        struct paper ack = { .kind = PAPER_ACK, .from = p.to, .to = p.from, .epoch = p.epoch };

        ack.round = p.round;
        ack.sequence = p.sequence;
        put_paper(h, &ack);
    }
}

static void write_something(struct history *h)
{
    uint32_t client = (uint32_t)prng_below(&h->prng, CLIENTS);
    struct writer *w = &h->writers[client];
    struct paper p = { .kind = PAPER_REQUEST, .to = (uint32_t)prng_below(&h->prng, MEMBERS) };

    if (!w->busy && w->change.op.number + 2 < OPS_MAX / CLIENTS) {
        uint64_t start = prng_below(&h->prng, BLOCKS);
        op_sequence number = w->change.op.number + 1;

        w->change = change_of(client + 1, number, start, start + 1);
        w->change.span.end += start + 1 < BLOCKS ? prng_below(&h->prng, 2) : 0;
        w->change.ended = number > 6 ? number - 6 : 0;
        w->change.not_after_ms = h->now_ms + 2000;
        w->value = value_of(w->change.op);
        w->busy = true;
        for (uint64_t v = 0; v < OPS_MAX; v++) {
            w->before[v] =
                h->seen[start][v] && (w->change.span.end == start + 1 || h->seen[start + 1][v]);
        }
    }
    h->again += w->busy;
    p.change = w->change; /* Late copies of what has ended, too. */
    put_paper(h, &p);
}

static bool hand_over(void *data, const struct op_known *known)
{
    assert_true(op_memory_load(data, known));
    return true;
}

/* The round ends; the bytes and the memory of one of its members become those of the next one's. */
static void next_round(struct history *h)
{
    uint32_t source = (uint32_t)prng_below(&h->prng, MEMBERS);
    group_set set = (group_set)(1 + prng_below(&h->prng, 7));

    while ((h->set >> source & 1) == 0) {
        source = (source + 1) % MEMBERS;
    }
    set |= (group_set)(1U << source);
    h->epoch++;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct order_action a;

        order_leave(&h->orders[i]);
        while (order_next(&h->orders[i], h->now_ms, &a)) {
            perform(h, i, &a);
        }
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if ((set >> i & 1) != 0 && i != source) {
            order_taken_over(&h->orders[i]);
            op_memory_doubt(h->orders[i].memory);
            memcpy(h->bytes[i], h->bytes[source], sizeof(h->bytes[i]));
            (void)op_memory_each(h->orders[source].memory, hand_over, h->orders[i].memory);
            op_memory_settle(h->orders[i].memory);
        }
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if ((set >> i & 1) != 0) {
            order_join(&h->orders[i], h->epoch, h->epoch * 3, set);
        }
    }
    h->set = set;
}

/* Its word that it has joined comes to the others, sooner or later. */
static void hear(struct history *h, uint32_t member)
{
    for (uint32_t i = 0; i < MEMBERS && h->orders[member].joined; i++) {
        (void)order_has_joined(&h->orders[i], member);
    }
}

static void run_step(struct history *h)
{
    uint64_t drawn = prng_below(&h->prng, 100);
    uint32_t member = (uint32_t)prng_below(&h->prng, MEMBERS);
    uint64_t block = prng_below(&h->prng, BLOCKS);

    h->now_ms += prng_below(&h->prng, 10);
    if (prng_below(&h->prng, 2) == 0) {
        hear(h, (uint32_t)prng_below(&h->prng, MEMBERS));
    }
    if (drawn < 15) {
        write_something(h);
    } else if (drawn < 25) {
        (void)order_read(&h->orders[member], (struct object_id){ 5, 0 },
                         (struct span){ block, block + 1 }, UINT64_MAX);
    } else if (drawn < 27) {
        next_round(h);
    } else if (drawn < 32) {
        order_lost(&h->orders[member]);
    } else if (drawn < 35) {
        order_resend(&h->orders[member]);
    } else if (drawn < 65 && h->bag_count > 0) {
        deliver(h);
    } else {
        run_member(h, member);
    }
}

static void nothing_is_lost_doubled_or_undone(void **state)
{
    static struct history h;
    uint32_t done = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        memset(&h, 0, sizeof(h));
        prng_seed(&h.prng, seed);
        h.set = 7;
        for (uint32_t i = 0; i < MEMBERS; i++) {
            assert_true(order_init(&h.orders[i], i, CLIENTS, 4096));
        }
        next_round(&h);
        for (int step = 0; step < STEPS; step++) {
            run_step(&h);
        }
        for (uint32_t i = 0; i < MEMBERS; i++) {
            order_free(&h.orders[i]);
        }
        done += h.done;
    }
    assert_true(done > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_overlaps_waits_in_order),
        cmocka_unit_test(settle_waits_for_what_came_before),
        cmocka_unit_test(a_change_is_judged_once_it_has_its_range),
        cmocka_unit_test(an_answer_keeps_its_verifier),
        cmocka_unit_test(a_new_round_forwards_again),
        cmocka_unit_test(what_was_put_off_is_shown_again),
        cmocka_unit_test(who_takes_acknowledges_once_it_has_it),
        cmocka_unit_test(acknowledgements_count_in_their_round),
        cmocka_unit_test(who_has_it_is_not_sent_it),
        cmocka_unit_test(what_another_decides_is_remembered_as_it_is),
        cmocka_unit_test(numbers_of_old_rounds_mean_nothing),
        cmocka_unit_test(everything_is_bounded),
        cmocka_unit_test(a_forward_without_room_is_not_remembered),
        cmocka_unit_test(an_id_names_one_use_of_an_item),
        cmocka_unit_test(nothing_is_lost_doubled_or_undone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
