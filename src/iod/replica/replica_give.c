/* Who gives bytes, memory and logs to another member (replica.h). */
#include "iod/replica/group_inner.h"
#include "iod/replica/replica_inner.h"

#include "common/base/check.h"

#include <string.h>

static bool may_give(const struct replica *r, bool recovering, uint64_t epoch, uint64_t round)
{
    const struct group *g = &r->group;
    bool source = g->record.epoch == epoch && g->promised == round;
    bool left = g->record.state == GROUP_STALE && g->record.whole && g->record.epoch < epoch;

    if (recovering) {
        return group_orders(g) && g->record.epoch == epoch;
    }
    return (source || left) && g->joined == 0 && r->applying == 0;
}

static bool may_give_on(const struct replica *r, const struct replica_giving *v)
{
    return may_give(r, v->recovering, v->epoch, v->round);
}

static uint64_t entries_of(const struct changed *set)
{
    struct changed_counts n;

    changed_count(set, &n);
    return n.entries;
}

static void begin_lap(const struct replica *r, struct replica_giving *v, uint32_t to)
{
    v->kind = PIECE_BYTES;
    v->lap = entries_of(r->logs[to].open) + r->logs[to].has_rest;
}

/* The first one under way is carried out. */
static void piece_is_given(struct replica *r, struct replica_giving *v, uint32_t to)
{
    uint64_t logged = v->logged[++v->answered % RECOVERY_PIECES_MAX];

    if (v->kind != PIECE_BYTES) {
        v->cursor += v->count;
    } else if (logged != 0) {
        dirty_log_answered(&r->logs[to], v->session, logged);
    } else {
        v->swept += v->page.count;
        v->listed = false;
        v->sweeping = v->page.upto != UINT64_MAX;
        v->page = (struct replica_page){ .after = v->page.upto };
    }
}

static void given_up_to(struct replica *r, struct replica_giving *v, uint32_t to, uint64_t number)
{
    while (v->answered < number && v->answered < v->number) {
        piece_is_given(r, v, to);
    }
    v->sent = v->sent > v->answered ? v->sent : v->answered;
}

/* Something is under way: pieces of objects, or one of another kind. */
static void push(struct replica_giving *v, uint64_t logged)
{
    v->logged[++v->number % RECOVERY_PIECES_MAX] = logged;
}

bool replica_progress(const struct replica *r, struct replica_progress *p)
{
    bool gives = false;

    *p = (struct replica_progress){ .share = REPLICA_SHARE };
    for (uint32_t i = 0; i < r->group.count && group_orders(&r->group); i++) {
        const struct replica_giving *v = &r->giving[i];

        if (v->session != 0 && v->recovering && v->asks) {
            gives = true;
            p->gave += v->gave;
            p->grown += v->grown;
            p->share = v->share < p->share ? v->share : p->share;
        }
    }
    return gives;
}

/* What may differ without a change that is in the log. In a session that goes on it is there. */
static void begin_session(struct replica *r, struct replica_giving *v, uint32_t to)
{
    struct dirty_log *l = &r->logs[to];

    v->sweeping = false;
    v->gave = v->grown = v->lap_gave = v->lap_before = 0;
    v->share = REPLICA_SHARE;
    v->page = (struct replica_page){ .after = 0 };
    dirty_log_add_all(l, r->intent.open);
    dirty_log_add_all(l, r->intent.syncing);
    dirty_log_add_all(l, r->intent.disk);
}

/* Another round, or another session. */
static void begin_giving(struct replica *r, struct replica_giving *v,
                         const struct replica_message *m)
{
    bool same = v->session == m->session;

    dirty_log_begin(&r->logs[m->from], m->session);
    if (same && v->kind == PIECE_BYTES) {
        given_up_to(r, v, m->from, m->have);
    }
    if (!same) {
        begin_session(r, v, m->from);
    }
    dirty_log_drop(&r->logs[m->from]); /* What it does not have. */
    v->page.count = 0;
    v->number = v->answered = v->sent = m->have;
    v->session = m->session;
    v->epoch = m->epoch;
    v->round = m->round;
    v->pass = m->pass;
    v->recovering = m->recovering;
    v->ready = v->asks = v->held = v->listed = v->list_wanted = false;
    v->listing = v->reading = v->again = 0;
    v->page_number = v->cursor = 0;
    v->kind = PIECE_BYTES;
    v->member = 0;
}

void replica_asked(struct replica *r, const struct replica_message *m)
{
    struct replica_giving *v = &r->giving[m->from];

    if (m->session == 0 || !may_give(r, m->recovering, m->epoch, m->round) ||
        m->session < v->session || (m->session == v->session && m->pass < v->pass)) {
        return;
    }
    if (v->session != m->session || v->pass != m->pass) {
        begin_giving(r, v, m);
    }
    if (m->number == v->page_number + 1) {
        for (uint32_t i = 0; i < m->count; i++) {
            dirty_log_add(&r->logs[m->from], &m->changes[i]);
        }
        v->page_number++;
        v->ready = m->last;
        begin_lap(r, v, m->from);
        v->kind = v->recovering ? PIECE_BYTES : PIECE_OPERATIONS;
    }
    v->say_fetched = m->number == v->page_number;
}

/* The next entries of the log of somebody else who is outside. */
static bool page_of_log(const struct replica *r, struct replica_giving *v, uint32_t to)
{
    struct change items[REPLICA_PAGE_MAX];

    for (; v->member < r->group.count; v->member++, v->cursor = 0) {
        if (v->member != to && v->member != r->group.me) {
            changed_clear(r->scratch);
            dirty_log_copy(&r->logs[v->member], r->scratch);
            v->count = replica_entries(r->scratch, v->cursor, items).count;
            if (v->count > 0) {
                return true;
            }
        }
    }
    return false;
}

struct operations
{
    struct op_known *items; /* NULL: they are only counted. */
    uint64_t skip;
    uint32_t count;
};

static bool put_operation(void *data, const struct op_known *known)
{
    struct operations *p = data;

    if (p->skip > 0) {
        p->skip--;
        return true;
    }
    if (p->count == REPLICA_PAGE_MAX) {
        return false;
    }
    if (p->items != NULL) {
        p->items[p->count] = *known;
    }
    p->count++;
    return true;
}

/* The object is new to the set, or all of them are. False: the lap is over when nothing is under way, or the
 * host is to list. */
static bool next_bytes(struct replica *r, struct replica_giving *v, uint32_t to)
{
    struct dirty_log *l = &r->logs[to];
    const struct change everything = { .everything = true };
    struct change piece;

    if (v->listed && changed_covers(l->open, &everything)) {
        return false; /* Its page is over first. */
    }
    if ((v->lap > 0 || !v->recovering) && dirty_log_take(l, &piece)) {
        v->lap -= v->lap > 0;
        if (!piece.everything) {
            push(v, l->number);
            return true;
        }
        dirty_log_answered(l, v->session, l->number); /* From here on object by object. */
        v->sweeping = true;
        v->swept = v->swept_bytes = 0;
        v->page = (struct replica_page){ .after = 0 };
    }
    if (v->sweeping && !v->listed) {
        v->listing = ++r->lists;
        v->list_wanted = true;
    }
    return false;
}

/* A lap of which nothing is under way any more: was it shorter than the one before? */
static void end_lap(struct replica_giving *v)
{
    uint64_t bytes = v->gave - v->lap_gave;

    if (v->lap_before != 0 && bytes / 3 >= v->lap_before / 4) {
        v->share = v->share * REPLICA_SHARE / 100;
        v->share = v->share > REPLICA_SHARE_MIN ? v->share : REPLICA_SHARE_MIN;
    }
    v->lap_before = bytes;
    v->lap_gave = v->gave;
}

/* What comes next, if that is known yet. */
static void next_piece(struct replica *r, struct replica_giving *v, uint32_t to)
{
    struct operations ops = { .skip = v->cursor };

    if (v->kind == PIECE_END && v->recovering) {
        begin_lap(r, v, to);
    }
    if (v->kind == PIECE_OPERATIONS) {
        (void)op_memory_each(r->order.memory, put_operation, &ops);
        v->count = ops.count;
        if (v->count > 0) {
            push(v, 0);
            return;
        }
        v->kind = PIECE_BYTES;
    }
    if (v->kind == PIECE_BYTES) {
        if (next_bytes(r, v, to) || v->listing != 0 || v->number != v->answered) {
            return;
        }
        v->kind = v->recovering ? PIECE_END : PIECE_LOG;
        v->cursor = 0;
        end_lap(v);
    }
    if (v->kind == PIECE_LOG && !page_of_log(r, v, to)) {
        v->kind = PIECE_END;
    }
    push(v, 0);
}

/* What was asked for once more comes next; behind what is being read, if anything is. */
static void go_back(struct replica_giving *v)
{
    uint64_t have = v->again - 1;

    if (v->again == 0 || v->reading != 0) {
        return;
    }
    v->again = 0;
    if (have < v->sent) {
        v->sent = have > v->answered ? have : v->answered;
    }
}

void replica_given(struct replica *r, const struct replica_message *m)
{
    struct replica_giving *v = &r->giving[m->from];

    if (v->session == 0 || m->session != v->session || m->pass != v->pass || !v->ready ||
        m->number > v->number || !may_give_on(r, v)) {
        return;
    }
    given_up_to(r, v, m->from, m->number);
    v->asks = true;
    v->held = false;
    v->again = m->last ? m->have + 1 : v->again;
    go_back(v);
}

void replica_give_again(struct replica *r)
{
    for (uint32_t i = 0; i < r->group.count; i++) {
        struct replica_giving *v = &r->giving[i];

        v->sent = v->reading == 0 ? v->answered : v->sent;
    }
}

/* Its objects come behind it. */
static void add_page(struct replica *r, struct replica_giving *v, uint32_t to)
{
    for (uint32_t i = 0; i < v->page.count; i++) {
        const struct change whole = { .object = v->page.objects[i],
                                      .generation = 1,
                                      .whole = true };

        dirty_log_add(&r->logs[to], &whole);
    }
    begin_lap(r, v, to);
}

void replica_listed(struct replica *r, uint64_t id, const struct object_id *objects, uint32_t count,
                    uint64_t upto)
{
    for (uint32_t i = 0; i < r->group.count; i++) {
        struct replica_giving *v = &r->giving[i];

        if (id == 0 || v->listing != id || v->session == 0) {
            continue;
        }
        v->listing = 0;
        if (count > REPLICA_PAGE_MAX) {
            v->held = true; /* It is asked for again. */
            return;
        }
        memcpy(v->page.objects, objects, count * sizeof(objects[0]));
        v->page.count = count;
        v->page.upto = upto;
        v->listed = true;
        push(v, 0);
        add_page(r, v, i);
    }
}

static bool is_reading(const struct replica_giving *v, const struct replica_message *m)
{
    return v->session != 0 && v->session == m->session && v->pass == m->pass && v->reading != 0 &&
           v->reading == m->number;
}

void replica_gave(struct replica *r, uint32_t member, const struct replica_message *m,
                  uint64_t bytes)
{
    struct replica_giving *v = &r->giving[member];

    if (is_reading(v, m)) {
        v->sent = v->reading > v->answered ? v->reading : v->answered;
        v->reading = 0;
        v->swept_bytes += bytes;
        v->gave += bytes;
        go_back(v);
    }
}

void replica_not_given(struct replica *r, uint32_t member, const struct replica_message *m)
{
    struct replica_giving *v = &r->giving[member];

    if (is_reading(v, m)) {
        v->reading = 0;
        v->held = true;
    }
}

struct sum
{
    uint64_t objects, bytes;
    uint64_t whole,
        rests; /* Of the objects those of which nobody knows how long they are; of these the end is to come. */
};

static bool add_up(void *data, const struct change *change)
{
    struct sum *sum = data;

    sum->objects++;
    if (!change->whole && change->span.end < OBJECT_BYTES_MAX) {
        sum->bytes += change->span.end - change->span.start;
    } else if (!change->whole && change->span.start > 0) {
        sum->rests++;
    } else {
        sum->whole++;
    }
    return true;
}

uint64_t replica_doubt(const struct replica *r)
{
    struct sum sum = { .objects = 0 };

    (void)changed_each(r->intent.disk, add_up, &sum);
    return sum.bytes;
}

/* Objects lie in the order of stores as if they were drawn, so those of which nothing is known yet are as many and as large
 * as those of before. The page that is under way is known, and its objects are in the log. Before the first object has
 * been given nothing is known of their length. */
static void add_sweep(const struct replica_giving *v, struct sum *sum)
{
    uint64_t known = v->swept + (v->listed ? v->page.count : 0);
    double part = (double)(v->listed ? v->page.upto : v->page.after) / (double)UINT64_MAX;
    double behind = v->sweeping && part > 0 ? (double)known * (1 - part) / part : 0;
    double done = (double)known - (double)sum->whole - (double)sum->rests / 2;

    sum->objects += (uint64_t)behind;
    if (done > 0) {
        sum->bytes += (uint64_t)((behind + (double)known - done) * (double)v->swept_bytes / done);
    }
}

uint64_t replica_bytes_given(const struct replica *r)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < r->group.count; i++) {
        bytes += r->giving[i].session != 0 ? r->giving[i].gave : 0;
    }
    return bytes;
}

void replica_left(const struct replica *r, uint64_t *objects, uint64_t *bytes)
{
    *objects = *bytes = 0;
    for (uint32_t i = 0; i < r->group.count; i++) {
        struct sum sum = { .objects = 0 };

        if (r->giving[i].session != 0) {
            (void)changed_each(r->logs[i].open, add_up, &sum);
            (void)dirty_log_each_under_way(&r->logs[i], add_up, &sum);
            if (r->giving[i].sweeping || r->giving[i].swept > 0) {
                add_sweep(&r->giving[i], &sum);
            }
        }
        *objects += sum.objects;
        *bytes += sum.bytes;
    }
}

/* ---- What is to be done ---- */

static void say_list(const struct replica_giving *v, struct replica_message *m)
{
    m->after = v->page.after;
    m->upto = v->page.upto;
    m->count = v->page.count;
    for (uint32_t i = 0; i < v->page.count; i++) {
        m->changes[i] = (struct change){ .object = v->page.objects[i], .generation = 1 };
    }
}

static void say_piece(struct replica *r, struct replica_giving *v, uint32_t to,
                      struct replica_action *out)
{
    struct replica_message *m = replica_say(r, out, REPLICA_PIECE, to);
    struct operations ops = { .items = m->ops, .skip = v->cursor };
    uint64_t number = v->sent + 1, logged = v->logged[number % RECOVERY_PIECES_MAX];

    m->number = number;
    m->piece = v->kind == PIECE_BYTES && logged == 0 ? PIECE_LIST : v->kind;
    m->member = v->member;
    if (m->piece == PIECE_BYTES) {
        m->changes[0] = *dirty_log_piece(&r->logs[to], logged);
        m->count = 1;
        v->reading = number;
        return;
    }
    v->sent = number;
    if (m->piece == PIECE_LIST) {
        say_list(v, m);
    } else if (v->kind == PIECE_OPERATIONS) {
        (void)op_memory_each(r->order.memory, put_operation, &ops);
        m->count = ops.count;
    } else if (v->kind == PIECE_LOG) {
        changed_clear(r->scratch);
        dirty_log_copy(&r->logs[v->member], r->scratch);
        m->count = replica_entries(r->scratch, v->cursor, m->changes).count;
    }
}

bool replica_cut_piece(struct replica *r, uint32_t member, struct replica_message *m, uint64_t end)
{
    struct replica_giving *v = &r->giving[member];
    struct dirty_log *l = &r->logs[member];

    uint64_t logged = v->logged[m->number % RECOVERY_PIECES_MAX];
    const struct change *piece = dirty_log_piece(l, logged);

    if (!is_reading(v, m)) {
        return false;
    }
    if (piece == NULL) { /* It was answered, late, while it was read once more. */
        v->reading = 0;
        return false;
    }
    if (piece->whole || piece->span.end > end) {
        dirty_log_cut(l, logged, end);
        v->lap++;
    }
    m->changes[0] = *piece;
    return true;
}

/* Another one may be under way. Of other kinds only one is. */
static bool has_turn(const struct replica_giving *v)
{
    uint64_t most = v->kind == PIECE_BYTES ? RECOVERY_PIECES_MAX : 1;

    return v->sent == v->number && v->number - v->answered < most && v->listing == 0;
}

bool replica_next_giving(struct replica *r, uint32_t to, struct replica_action *out)
{
    struct replica_giving *v = &r->giving[to];
    bool gives = v->asks && v->reading == 0 && !v->held && may_give_on(r, v);

    if (gives && has_turn(v)) {
        next_piece(r, v, to);
    }
    if (v->list_wanted) {
        v->list_wanted = false;
        out->type = REPLICA_LIST;
        out->id = v->listing;
        out->page = &v->page;
        return true;
    }

    if (v->say_fetched) {
        v->say_fetched = false;
        replica_say(r, out, REPLICA_FETCHED, to)->number = v->page_number;
    } else if (gives && v->sent < v->number) {
        say_piece(r, v, to, out);
    } else {
        return false;
    }
    out->message.session = v->session;
    out->message.epoch = v->epoch;
    out->message.round = v->round;
    out->message.pass = v->pass;
    out->message.recovering = v->recovering;
    return true;
}
