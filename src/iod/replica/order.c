/* Items in one list, in order of arrival. Each knows how many before it exclude it; the last of them
 * that goes lets it begin. */
#include "iod/replica/order.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_BEGIN = 1, WORD_WORK = 2, WORD_ACK = 4, WORD_ANSWER = 8, WORD_RELEASE = 16 };

static bool at_work(const struct order_item *i)
{
    return i->state == ORDER_UNDER_WAY || i->state == ORDER_READING || i->state == ORDER_TAKEN;
}

bool order_orders(const struct order *o)
{
    return o->joined && (uint32_t)__builtin_ctz(o->set) == o->me;
}

/* ---- Items ---- */

static bool same_object(struct object_id a, struct object_id b)
{
    return a.inode == b.inode && a.column == b.column;
}

static bool meet(struct object_id a, struct span a_span, struct object_id b, struct span b_span)
{
    return same_object(a, b) && a_span.start < b_span.end && b_span.start < a_span.end;
}

/* Does `a` copy what `b` may change? */
static bool copies_from(const struct order_item *a, const struct order_item *b)
{
    return a->change.reads.start < a->change.reads.end &&
           (b->kind == ORDER_CHANGE || b->kind == ORDER_HOLD) &&
           meet(a->change.source, a->change.reads, b->change.object, b->change.span);
}

static bool exclude(const struct order_item *a, const struct order_item *b)
{
    bool changes = a->kind == ORDER_CHANGE || b->kind == ORDER_CHANGE;

    return (changes && meet(a->change.object, a->change.span, b->change.object, b->change.span)) ||
           copies_from(a, b) || copies_from(b, a);
}

static void say(struct order *o, struct order_item *i, unsigned words)
{
    i->words |= words;
    if (list_empty(&i->todo)) {
        list_push_back(&o->todo, &i->todo);
    }
}

static struct order_item *add(struct order *o, enum order_item_kind kind,
                              enum order_item_state state, uint64_t token)
{
    struct list *node;
    struct order_item *i;

    if (kind != ORDER_CHANGE && o->reads == ORDER_READS_MAX) {
        return NULL;
    }
    node = list_pop_front(&o->unused);
    if (node == NULL) {
        return NULL;
    }
    i = LIST_ENTRY(node, struct order_item, all);
    *i = (struct order_item){ .kind = kind, .state = state, .token = token };
    i->serial = ++o->serial;
    i->answer.verifier = o->verifier;
    list_init(&i->all);
    list_init(&i->todo);
    list_push_back(&o->all, &i->all);
    o->count++;
    o->reads += kind != ORDER_CHANGE;
    return i;
}

/* Whoever waits for it alone may begin. */
static void let_go(struct order *o, const struct order_item *i)
{
    for (struct list *node = i->all.next; node != &o->all; node = node->next) {
        struct order_item *later = LIST_ENTRY(node, struct order_item, all);

        if (later->state == ORDER_WAITING && exclude(i, later)) {
            CHECK(later->before > 0);
            if (--later->before == 0) {
                say(o, later, WORD_BEGIN);
            }
        }
    }
}

/* It excludes nobody any more. What is left is to say so. */
static void finish(struct order *o, struct order_item *i, int status, unsigned words)
{
    bool taken = i->state == ORDER_TAKEN; /* Nobody waits for what others have ordered. */

    CHECK(i->state != ORDER_OVER && i->state != ORDER_FREE);
    i->state = ORDER_OVER;
    i->answer.status = status;
    i->words = 0;
    i->send = 0;
    say(o, i, words);
    if (!taken) {
        let_go(o, i);
    }
}

static void drop(struct order *o, struct order_item *i)
{
    list_remove(&i->todo);
    list_remove(&i->all);
    i->state = ORDER_FREE;
    o->count--;
    o->reads -= i->kind != ORDER_CHANGE;
    list_push_back(&o->unused, &i->all);
}

/* An id names an item and the use of it. */
static uint64_t id_of(const struct order *o, const struct order_item *i)
{
    return i->serial * ORDER_ITEMS_MAX + (uint64_t)(i - o->items);
}

/* NULL: it is over. */
static struct order_item *item_of(const struct order *o, uint64_t id)
{
    struct order_item *i = &o->items[id % ORDER_ITEMS_MAX];

    return i->state != ORDER_FREE && i->serial == id / ORDER_ITEMS_MAX && at_work(i) ? i : NULL;
}

bool order_init(struct order *o, uint32_t me, uint32_t clients_max, uint32_t ops_max)
{
    CHECK(me < REPLICAS_MAX);
    *o = (struct order){ .me = me };
    list_init(&o->all);
    list_init(&o->todo);
    list_init(&o->unused);
    o->items = calloc(ORDER_ITEMS_MAX, sizeof(*o->items));
    o->memory = op_memory_new(clients_max, ops_max);
    for (uint32_t k = 0; k < ORDER_ITEMS_MAX && o->items != NULL; k++) {
        list_init(&o->items[k].all);
        list_init(&o->items[k].todo);
        list_push_back(&o->unused, &o->items[k].all);
    }
    return o->items != NULL && o->memory != NULL;
}

void order_free(struct order *o)
{
    free(o->items);
    op_memory_free(o->memory);
    o->items = NULL;
    o->memory = NULL;
}

/* ---- Rounds ---- */

/* Forwarded, for the first time or again. */
static void send_all(struct order *o, struct order_item *i)
{
    i->sequence = ++o->sequence;
    i->had_ms = 0;
    i->have = i->applied ? (group_set)(1U << o->me) : 0;
    i->send = o->set & (group_set) ~(1U << o->me);
    i->rest = i->rested = 1;
    say(o, i, 0);
}

static void finish_if_all(struct order *o, struct order_item *i)
{
    if (o->joined && (i->have & o->set) == o->set) {
        finish(o, i, i->answer.status, WORD_ANSWER);
    }
}

/* Others decide what came of it; that it was carried out here stays known. */
static void forget(struct order *o, struct order_item *i)
{
    op_memory_drop(o->memory, i->change.op);
    finish(o, i, MORSEL_AGAIN, WORD_ANSWER);
}

static void work_again(struct order *o, struct order_item *i)
{
    if (i->put_off) {
        i->put_off = false;
        say(o, i, WORD_WORK);
    }
}

void order_join(struct order *o, uint64_t epoch, uint64_t round, group_set set)
{
    CHECK(!o->joined && set != 0 && (set >> o->me & 1U) != 0);
    o->joined = true;
    o->epoch = epoch;
    o->round = round;
    o->set = set;
    o->there = (group_set)(1U << o->me);
    o->sequence = o->floor = 0;
    memset(o->top, 0, sizeof(o->top));
    memset(o->window, 0, sizeof(o->window));
    LIST_FOREACH_SAFE(node, &o->all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->state != ORDER_UNDER_WAY) {
            continue;
        }
        if (!order_orders(o)) {
            forget(o, i);
            continue;
        }
        send_all(o, i);
        work_again(o, i);
        finish_if_all(o, i);
    }
}

/* What has waited for it goes out, in the order in which it came. */
bool order_has_joined(struct order *o, uint32_t member)
{
    if (!order_orders(o) || (o->there >> member & 1U) != 0) {
        return false;
    }
    o->there |= (group_set)(1U << member);
    LIST_FOREACH(node, &o->all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if ((i->send >> member & 1U) != 0) {
            i->rest = i->rested = 1;
            say(o, i, 0);
        }
    }
    return true;
}

void order_leave(struct order *o)
{
    o->joined = false;
    LIST_FOREACH_SAFE(node, &o->all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        i->send = 0;
        if (i->state == ORDER_WAITING) {
            finish(o, i, MORSEL_AGAIN, WORD_ANSWER);
        } else if (i->state == ORDER_TAKEN && (i->words & WORD_WORK) != 0) {
            op_memory_drop(o->memory, i->change.op); /* Nobody has begun with it. */
            finish(o, i, MORSEL_AGAIN, WORD_RELEASE);
        }
    }
}

void order_taken_over(struct order *o)
{
    CHECK(!o->joined);
    LIST_FOREACH_SAFE(node, &o->all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->state == ORDER_UNDER_WAY) {
            forget(o, i);
        } else if (i->state == ORDER_TAKEN) {
            finish(o, i, MORSEL_OK, WORD_RELEASE);
        }
    }
    op_memory_stop(o->memory);
}

void order_set_verifier(struct order *o, uint64_t verifier)
{
    CHECK(verifier >= o->verifier);
    o->verifier = verifier;
}

/* ---- Who orders ---- */

static void queue(struct order *o, struct order_item *i)
{
    LIST_FOREACH(node, &o->all)
    {
        const struct order_item *earlier = LIST_ENTRY(node, struct order_item, all);

        i->before += earlier != i && earlier->state != ORDER_OVER &&
                     earlier->state != ORDER_TAKEN && exclude(earlier, i);
    }
    if (i->before == 0) {
        say(o, i, WORD_BEGIN);
    }
}

/* The same operation, waiting or under way; NULL: there is none. */
static struct order_item *find_op(struct order *o, struct op_id op)
{
    LIST_FOREACH(node, &o->all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->kind == ORDER_CHANGE && (i->state == ORDER_WAITING || i->state == ORDER_UNDER_WAY) &&
            i->change.op.client == op.client && i->change.op.number == op.number) {
            return i;
        }
    }
    return NULL;
}

enum order_verdict order_request(struct order *o, const struct order_change *change, uint64_t token)
{
    struct order_item *i;

    CHECK(change->span.start < change->span.end);
    if (!order_orders(o) || change->verifier > o->verifier) {
        return ORDER_NO;
    }
    op_memory_ended(o->memory, change->op.client, change->ended);
    i = find_op(o, change->op);
    if (i != NULL && i->change.not_after_ms < change->not_after_ms) {
        i->change.not_after_ms = change->not_after_ms; /* Its client still waits. */
    }
    if (i != NULL && i->has_again) {
        return ORDER_NO; /* Two wait for it; a third may ask later. */
    }
    if (i != NULL) {
        i->again = token;
        i->has_again = true;
        return ORDER_YES;
    }
    i = add(o, ORDER_CHANGE, ORDER_WAITING, token);
    if (i == NULL) {
        return ORDER_FULL;
    }
    i->change = *change;
    queue(o, i);
    return ORDER_YES;
}

static enum order_verdict read_range(struct order *o, enum order_item_kind kind,
                                     struct object_id object, struct span span, uint64_t token)
{
    struct order_item *i;

    CHECK(span.start < span.end);
    if (!order_orders(o)) {
        return ORDER_NO;
    }
    i = add(o, kind, ORDER_WAITING, token);
    if (i == NULL) {
        return ORDER_FULL;
    }
    i->change.object = object;
    i->change.span = span;
    queue(o, i);
    return ORDER_YES;
}

enum order_verdict order_read(struct order *o, struct object_id object, struct span span,
                              uint64_t token)
{
    return read_range(o, ORDER_READ, object, span, token);
}

enum order_verdict order_settle(struct order *o, struct object_id object, uint64_t token)
{
    return read_range(o, ORDER_SETTLE, object, (struct span){ 0, UINT64_MAX }, token);
}

enum order_verdict order_hold(struct order *o, struct object_id object, struct span span)
{
    return read_range(o, ORDER_HOLD, object, span, 0);
}

/* Bytes that are to go to the disk. */
static uint64_t bytes_brought(const struct order_change *change)
{
    return change->bare ? 0 : order_bytes(change);
}

/* A change has its range: carried out, or answered now. */
static void begin_change(struct order *o, struct order_item *i, uint64_t now_ms)
{
    struct op_answer known;
    enum op_verdict verdict = op_memory_find(o->memory, i->change.op, &known);

    if (verdict == OP_DONE) {
        i->answer.verifier = known.verifier;
        finish(o, i, known.status, WORD_ANSWER);
    } else if (verdict == OP_OVER) {
        finish(o, i, MORSEL_CANCELED, WORD_ANSWER);
    } else if (i->change.verifier < o->verifier) {
        finish(o, i, MORSEL_UNSURE, WORD_ANSWER);
    } else if (now_ms > i->change.not_after_ms) {
        finish(o, i, MORSEL_TOO_LATE, WORD_ANSWER);
    } else if (!op_memory_begin(o->memory, i->change.op, i->change.not_after_ms, now_ms)) {
        finish(o, i, MORSEL_OVERLOAD, WORD_ANSWER);
    } else {
        i->state = ORDER_UNDER_WAY;
        o->bytes += bytes_brought(&i->change);
        say(o, i, WORD_WORK);
        send_all(o, i);
    }
}

static void begin(struct order *o, struct order_item *i, uint64_t now_ms)
{
    CHECK(i->state == ORDER_WAITING && i->before == 0);
    i->answer.verifier = o->verifier;
    if (i->kind == ORDER_CHANGE) {
        begin_change(o, i, now_ms);
    } else if (i->kind == ORDER_SETTLE) {
        finish(o, i, MORSEL_OK, WORD_ANSWER);
    } else {
        i->state = ORDER_READING;
        say(o, i, WORD_WORK);
    }
}

void order_acked(struct order *o, uint32_t from, uint64_t epoch, uint64_t round, uint64_t sequence)
{
    if (!order_orders(o) || epoch != o->epoch || round != o->round || from >= REPLICAS_MAX) {
        return;
    }
    LIST_FOREACH_SAFE(node, &o->all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->state == ORDER_UNDER_WAY && i->sequence == sequence) {
            o->acked[from]++;
            o->top[from] = sequence > o->top[from] ? sequence : o->top[from];
            i->have |= (group_set)(1U << from);
            i->send &= (group_set) ~(1U << from);
            finish_if_all(o, i);
            return;
        }
    }
}

/* To whom it is to be forwarded now. */
static group_set due(const struct order *o, const struct order_item *i)
{
    return i->send & o->there;
}

static group_set lacking(const struct order *o, const struct order_item *i)
{
    return o->set & (group_set) ~(i->have | 1U << o->me);
}

void order_lost(struct order *o)
{
    LIST_FOREACH(node, &o->all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->state == ORDER_UNDER_WAY && order_orders(o)) {
            i->send = lacking(o, i);
            i->rest = i->rested = 1;
            say(o, i, 0);
        }
    }
}

/* Which of those that lack it seem to have lost it? */
static group_set lost_at(const struct order *o, const struct order_item *i)
{
    group_set lost = 0;

    for (uint32_t k = 0; k < REPLICAS_MAX; k++) {
        if (((lacking(o, i) & ~i->send) >> k & 1U) != 0 &&
            (o->acked[k] == o->heard[k] || i->sequence < o->top[k])) {
            lost |= (group_set)(1U << k);
        }
    }
    return lost;
}

static void look_again(struct order *o, struct order_item *i)
{
    group_set lost;

    if (i->rest > 0) {
        i->rest--;
        return;
    }
    lost = lost_at(o, i);
    if (lost != 0) {
        i->send |= lost;
        i->rested = i->rested < ORDER_REST_MAX / 2 ? 2 * i->rested : ORDER_REST_MAX;
        i->rest = i->rested;
        say(o, i, 0);
    }
}

void order_resend(struct order *o)
{
    LIST_FOREACH(node, &o->all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->state == ORDER_UNDER_WAY && order_orders(o)) {
            look_again(o, i);
        }
    }
    memcpy(o->heard, o->acked, sizeof(o->heard));
}

/* What cuts or punches has no bytes of its own, and takes no longer than some. */
uint64_t order_bytes(const struct order_change *change)
{
    uint64_t bytes = change->span.end - change->span.start;

    return bytes < FRAME_PAYLOAD_BYTES_MAX ? bytes : FRAME_PAYLOAD_BYTES_MAX;
}

bool order_is_under_way(const struct order *o, uint64_t sequence)
{
    LIST_FOREACH(node, &o->all)
    {
        const struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->state == ORDER_UNDER_WAY && i->sequence <= sequence) {
            return true;
        }
    }
    return false;
}

/* ---- Who takes ---- */

static bool was_applied(const struct order *o, uint64_t sequence)
{
    return sequence <= o->floor ||
           (o->window[sequence % ORDER_WINDOW / 64] >> sequence % 64 & 1) != 0;
}

static void note_applied(struct order *o, uint64_t sequence)
{
    o->window[sequence % ORDER_WINDOW / 64] |= UINT64_C(1) << sequence % 64;
    while (was_applied(o, o->floor + 1)) {
        o->floor++;
        o->window[o->floor % ORDER_WINDOW / 64] &= ~(UINT64_C(1) << o->floor % 64);
    }
}

static bool is_taken(const struct order *o, uint64_t sequence)
{
    LIST_FOREACH(node, &o->all)
    {
        const struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->state == ORDER_TAKEN && i->sequence == sequence && i->epoch == o->epoch &&
            i->round == o->round) {
            return true;
        }
    }
    return false;
}

enum order_verdict order_forwarded(struct order *o, uint32_t from, uint64_t epoch, uint64_t round,
                                   uint64_t sequence, const struct order_change *change,
                                   uint64_t token, uint64_t now_ms)
{
    struct order_item *i;

    if (!o->joined || order_orders(o) || epoch != o->epoch || round != o->round || sequence == 0 ||
        from != (uint32_t)__builtin_ctz(o->set)) {
        return ORDER_NO;
    }
    if (sequence > o->floor && sequence - o->floor >= ORDER_WINDOW) {
        return ORDER_FULL;
    }
    if (was_applied(o, sequence)) {
        return ORDER_HAS_IT;
    }
    if (is_taken(o, sequence)) {
        return ORDER_NO; /* Its acknowledgement comes. */
    }
    if (!op_memory_begin(o->memory, change->op, change->not_after_ms, now_ms)) {
        return ORDER_FULL;
    }
    i = add(o, ORDER_CHANGE, ORDER_TAKEN, token);
    if (i == NULL) {
        op_memory_drop(o->memory, change->op);
        return ORDER_FULL;
    }
    i->change = *change;
    o->bytes += bytes_brought(change);
    i->sequence = sequence;
    i->epoch = epoch;
    i->round = round;
    say(o, i, WORD_WORK);
    return ORDER_YES;
}

/* ---- Done, and to do ---- */

const struct order_change *order_at_work(const struct order *o, uint64_t id)
{
    const struct order_item *i = item_of(o, id);

    return i == NULL ? NULL : &i->change;
}

static void applied(struct order *o, uint64_t id, int status)
{
    struct order_item *i = item_of(o, id);

    if (i == NULL) {
        return;
    }
    i->answer.status = status;
    if (i->state == ORDER_READING) {
        finish(o, i, MORSEL_OK, WORD_RELEASE);
        return;
    }
    op_memory_end(o->memory, i->change.op, i->answer);
    op_memory_ended(o->memory, i->change.op.client, i->change.ended);
    i->applied = true;
    o->acked[o->me]++;
    if (i->state == ORDER_UNDER_WAY) {
        i->have |= (group_set)(1U << o->me);
        finish_if_all(o, i);
    } else if (o->joined && i->epoch == o->epoch && i->round == o->round) {
        note_applied(o, i->sequence);
        finish(o, i, MORSEL_OK, WORD_ACK | WORD_RELEASE);
    } else {
        finish(o, i, MORSEL_OK, WORD_RELEASE);
    }
}

void order_applied(struct order *o, uint64_t id)
{
    applied(o, id, MORSEL_OK);
}

void order_unapplied(struct order *o, uint64_t id, int status)
{
    applied(o, id, status);
}

void order_put_off(struct order *o, uint64_t id)
{
    struct order_item *i = item_of(o, id);

    if (i == NULL) {
        return;
    }
    CHECK(i->kind == ORDER_CHANGE);
    i->put_off = true;
    if (o->joined &&
        (i->state == ORDER_UNDER_WAY || (i->epoch == o->epoch && i->round == o->round))) {
        work_again(o, i);
    } else if (i->state == ORDER_TAKEN) {
        op_memory_drop(o->memory, i->change.op); /* It comes again, if it comes. */
        finish(o, i, MORSEL_AGAIN, WORD_RELEASE);
    }
}

/* The last words of an item. False: there are none. */
static bool last_word(struct order *o, struct order_item *i, struct order_action *out)
{
    out->answer = i->answer;
    if ((i->words & WORD_ACK) != 0) {
        i->words &= ~(unsigned)WORD_ACK;
        out->type = ORDER_ACK;
        out->epoch = i->epoch;
        out->round = i->round;
        return true;
    }
    if ((i->words & WORD_ANSWER) != 0 && i->has_again) {
        i->has_again = false;
        out->type = ORDER_ANSWER;
        out->token = i->again;
        return true;
    }
    out->type = (i->words & WORD_ANSWER) != 0 ? ORDER_ANSWER : ORDER_RELEASE;
    CHECK((i->words & (WORD_ANSWER | WORD_RELEASE)) != 0);
    drop(o, i);
    return true;
}

static bool work_of(struct order *o, struct order_item *i, struct order_action *out)
{
    out->change = &i->change;
    if ((i->words & WORD_WORK) != 0) {
        i->words &= ~(unsigned)WORD_WORK;
        out->type = i->state == ORDER_READING ? ORDER_SERVE : ORDER_APPLY;
        return true;
    }
    if (due(o, i) != 0) {
        out->type = ORDER_FORWARD;
        out->member = (uint32_t)__builtin_ctz(due(o, i));
        out->epoch = o->epoch;
        out->round = o->round;
        i->send &= (group_set) ~(1U << out->member);
        return true;
    }
    list_remove(&i->todo);
    return false;
}

bool order_next(struct order *o, uint64_t now_ms, struct order_action *out)
{
    struct list *node;

    while ((node = list_front(&o->todo)) != NULL) {
        struct order_item *i = LIST_ENTRY(node, struct order_item, todo);

        *out = (struct order_action){ .id = id_of(o, i), .token = i->token };
        out->kind = i->kind;
        out->sequence = i->sequence;
        if ((i->words & WORD_BEGIN) != 0) {
            i->words &= ~(unsigned)WORD_BEGIN;
            begin(o, i, now_ms);
        } else if (i->state == ORDER_OVER ? last_word(o, i, out) : work_of(o, i, out)) {
            return true;
        }
    }
    return false;
}

/* ---- Invariants ---- */

static void check_item(const struct order *o, const struct order_item *i)
{
    uint32_t before = 0;

    LIST_FOREACH(node, &o->all)
    {
        const struct order_item *k = LIST_ENTRY(node, struct order_item, all);

        if (k == i) {
            break;
        }
        before += k->state != ORDER_OVER && k->state != ORDER_TAKEN && exclude(k, i);
    }
    CHECK_IMPLIES(i->state == ORDER_WAITING, order_orders(o) && i->before == before);
    CHECK_IMPLIES(i->state == ORDER_UNDER_WAY || i->state == ORDER_READING, before == 0);
    CHECK_IMPLIES(i->state == ORDER_UNDER_WAY, !o->joined || order_orders(o));
    CHECK_IMPLIES(i->send != 0, i->state == ORDER_UNDER_WAY && order_orders(o));
    CHECK_IMPLIES(i->words != 0 || due(o, i) != 0, !list_empty(&i->todo) || !o->joined);
}

void order_check(const struct order *o)
{
    uint32_t count = 0, reads = 0;

    LIST_FOREACH(node, &o->all)
    {
        const struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        CHECK(i->state != ORDER_FREE);
        check_item(o, i);
        count++;
        reads += i->kind != ORDER_CHANGE;
    }
    CHECK(count == o->count && reads == o->reads && reads <= ORDER_READS_MAX);
    op_memory_check(o->memory);
}
