/* Bytes, memory and logs from one member to another (replica.h). */
#include "iod/replica/group_inner.h"
#include "iod/replica/replica_inner.h"

#include "common/base/check.h"
#include "common/base/status.h"

enum { SESSIONS_OF_A_START = 1 << 20 };

/* ---- Pages of a set ---- */

struct page
{
    struct change *items;
    uint64_t skip;
    uint32_t count;
    bool more;
};

/* False: the page is full, and there is more. */
static bool put(void *data, const struct change *change)
{
    struct page *p = data;

    if (p->skip > 0) {
        p->skip--;
        return true;
    }
    if (p->count == REPLICA_PAGE_MAX) {
        p->more = true;
        return false;
    }
    p->items[p->count++] = *change;
    return true;
}

/* The entries of `set` behind the first `skip`, as many as fit into a page. */
static struct page page_of(const struct changed *set, uint64_t skip, struct change *items)
{
    struct page p = { .items = items, .skip = skip };

    (void)changed_each(set, put, &p);
    return p;
}

static void all_of(const struct intent *n, struct changed *to)
{
    changed_clear(to);
    changed_add_all(to, n->open);
    changed_add_all(to, n->syncing);
    changed_add_all(to, n->disk);
}

/* ---- Who takes ---- */

static void new_session(struct replica *r)
{
    CHECK(r->sessions < SESSIONS_OF_A_START - 1);
    r->fetch.intake = (struct dirty_intake){ .session = r->group.start * SESSIONS_OF_A_START };
    r->fetch.intake.session += ++r->sessions;
}

void replica_fetch(struct replica *r, const struct group_action *action)
{
    struct replica_fetch *f = &r->fetch;
    uint64_t start = r->group.peers[action->member].word.start;
    bool same = f->intake.session != 0 && f->source == action->member && f->source_start == start;

    f->flush = action->type == GROUP_FLUSH;
    f->recovering = action->type == GROUP_RECOVER;
    f->epoch = action->epoch;
    f->round = action->round;
    f->pass++;
    f->source = action->member;
    f->source_start = start;
    f->state = FETCH_WAITING;
    f->say = false;
    if (f->flush) {
        f->intake = (struct dirty_intake){ .session = 0 };
    } else if (!same) {
        new_session(r);
    }
}

/* Nothing is half carried out. */
static void begin_fetch(struct replica *r)
{
    struct replica_fetch *f = &r->fetch;

    if (f->flush) {
        f->state = FETCH_SYNC;
        return;
    }
    order_taken_over(&r->order);
    all_of(&r->intent, r->asked);
    f->page = 1;
    f->state = FETCH_ASKING;
    f->say = true;
}

/* Memory that is not all there is none: it is given again from the beginning. */
static bool take_operations(struct replica *r, const struct replica_message *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (!op_memory_load(r->order.memory, &m->ops[i])) {
            return false;
        }
    }
    return true;
}

static void take_log(struct replica *r, const struct replica_message *m)
{
    if (m->member >= r->group.count || m->member == r->group.me) {
        return;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        dirty_log_add(&r->logs[m->member], &m->changes[i]);
    }
}

/* True: the bytes are kept, and carried out with next. */
static bool take(struct replica *r, const struct replica_message *m)
{
    struct replica_fetch *f = &r->fetch;

    switch (m->piece) {
    case PIECE_BYTES:
        f->piece = m->changes[0];
        f->taking = true;
        f->take_wanted = replica_intend(r, 0, f->token, &f->piece);
        r->applying++;
        return true;
    case PIECE_OPERATIONS:
        if (!take_operations(r, m)) {
            new_session(r);
            f->state = FETCH_WAITING;
        }
        break;
    case PIECE_LOG:
        take_log(r, m);
        break;
    case PIECE_END:
        f->state = FETCH_SYNC;
        break;
    }
    f->say = f->state == FETCH_TAKING;
    return false;
}

static bool on_piece(struct replica *r, const struct replica_message *m, uint64_t token)
{
    struct replica_fetch *f = &r->fetch;

    if (f->state != FETCH_TAKING || f->taking || m->pass != f->pass || m->from != f->source ||
        m->piece > PIECE_END || (m->piece == PIECE_BYTES && m->count != 1)) {
        return false;
    }
    switch (dirty_intake_judge(&f->intake, m->session, m->number)) {
    case DIRTY_TAKE:
        f->token = token;
        return take(r, m);
    case DIRTY_AGAIN:
        f->say = true;
        return false;
    case DIRTY_STALE:
        return false;
    }
    return false;
}

void replica_taken(struct replica *r)
{
    struct replica_fetch *f = &r->fetch;

    CHECK(f->taking && r->applying > 0);
    f->taking = false;
    r->applying--;
    replica_log(r, &f->piece);
    f->say = f->state == FETCH_TAKING;
}

static void on_fetched(struct replica *r, const struct replica_message *m)
{
    struct replica_fetch *f = &r->fetch;

    if (f->state != FETCH_ASKING || m->session != f->intake.session || m->pass != f->pass ||
        m->from != f->source || m->number != f->page) {
        return;
    }
    f->say = true;
    if (f->last) {
        f->state = FETCH_TAKING; /* And asks for the first piece. */
    } else {
        f->page++;
    }
}

static void end_fetch(struct replica *r, uint64_t now_ms)
{
    struct group_event event = { .type = GROUP_COPIED, .round = r->fetch.round };

    event.type = r->fetch.recovering ? GROUP_RECOVERED : GROUP_COPIED;
    r->fetch.state = FETCH_NONE;
    replica_feed(r, &event, now_ms);
}

void replica_fetch_synced(struct replica *r, uint64_t id, uint64_t now_ms)
{
    struct replica_fetch *f = &r->fetch;

    if (f->state != FETCH_SYNCING || f->sync != id) {
        return;
    }
    if (!f->flush && !f->recovering) {
        f->state = FETCH_REWRITE;
        r->rewrite_wanted = true;
    } else {
        end_fetch(r, now_ms);
    }
}

void replica_fetch_rewritten(struct replica *r, uint64_t now_ms)
{
    if (r->fetch.state == FETCH_REWRITING) {
        end_fetch(r, now_ms);
    }
}

/* ---- Who gives ---- */

static bool may_give(const struct replica *r, const struct replica_message *m)
{
    const struct group *g = &r->group;
    bool source = g->record.epoch == m->epoch && g->promised == m->round;
    bool left = g->record.state == GROUP_STALE && g->record.epoch + 1 == m->epoch;

    if (m->recovering) {
        return group_orders(g) && g->record.epoch == m->epoch;
    }
    return (source || left) && g->joined == 0 && r->applying == 0;
}

/* Another round, or another session. */
static void begin_giving(struct replica *r, struct replica_giving *v,
                         const struct replica_message *m)
{
    struct dirty_log *l = &r->logs[m->from];
    bool same = v->session == m->session;

    if (same && v->under_way && v->kind == PIECE_BYTES && v->number == m->have) {
        dirty_log_answered(l, m->session, l->number);
        v->under_way = false;
    }
    if (!same || v->kind != PIECE_BYTES) {
        v->under_way = false;
    }
    v->number = v->under_way ? v->number : m->have;
    v->session = m->session;
    v->epoch = m->epoch;
    v->round = m->round;
    v->pass = m->pass;
    v->recovering = m->recovering;
    v->ready = v->say = false;
    v->page = v->cursor = 0;
    v->kind = PIECE_BYTES;
    v->member = 0;
    dirty_log_begin(l, m->session);
    dirty_log_add_all(l, r->intent.open);
    dirty_log_add_all(l, r->intent.syncing);
    dirty_log_add_all(l, r->intent.disk);
}

static void on_fetch(struct replica *r, const struct replica_message *m)
{
    struct replica_giving *v = &r->giving[m->from];

    if (m->session == 0 || !may_give(r, m) || m->session < v->session ||
        (m->session == v->session && m->pass < v->pass)) {
        return;
    }
    if (v->session != m->session || v->pass != m->pass) {
        begin_giving(r, v, m);
    }
    if (m->number == v->page + 1) {
        for (uint32_t i = 0; i < m->count; i++) {
            dirty_log_add(&r->logs[m->from], &m->changes[i]);
        }
        v->page++;
        v->ready = m->last;
    }
    v->say_fetched = m->number == v->page;
}

/* The next entries of the log of somebody else who is outside. */
static bool page_of_log(const struct replica *r, struct replica_giving *v, uint32_t to)
{
    struct change items[REPLICA_PAGE_MAX];

    for (; v->member < r->group.count; v->member++, v->cursor = 0) {
        if (v->member != to && v->member != r->group.me) {
            changed_clear(r->scratch);
            dirty_log_copy(&r->logs[v->member], r->scratch);
            v->count = page_of(r->scratch, v->cursor, items).count;
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

static void next_piece(struct replica *r, struct replica_giving *v, uint32_t to)
{
    struct operations ops = { .skip = v->cursor };

    if (v->kind == PIECE_BYTES && dirty_log_take(&r->logs[to], &v->piece)) {
        return;
    }
    if (v->kind == PIECE_BYTES) {
        v->kind = v->recovering ? PIECE_END : PIECE_OPERATIONS;
        v->cursor = 0;
    }
    if (v->kind == PIECE_OPERATIONS) {
        (void)op_memory_each(r->order.memory, put_operation, &ops);
        v->count = ops.count;
        if (v->count > 0) {
            return;
        }
        v->kind = PIECE_LOG;
        v->cursor = 0;
    }
    if (v->kind == PIECE_LOG && !page_of_log(r, v, to)) {
        v->kind = PIECE_END;
    }
}

static void on_given(struct replica *r, const struct replica_message *m)
{
    struct replica_giving *v = &r->giving[m->from];
    struct dirty_log *l = &r->logs[m->from];

    if (v->session == 0 || m->session != v->session || m->pass != v->pass || !v->ready ||
        !may_give(r, m)) {
        return;
    }
    if (v->under_way && m->number == v->number) {
        v->under_way = false;
        v->cursor += v->kind == PIECE_BYTES ? 0 : v->count;
        if (v->kind == PIECE_BYTES) {
            dirty_log_answered(l, v->session, l->number);
        }
    }
    if (!v->under_way && m->number == v->number) {
        next_piece(r, v, m->from);
        v->number++;
        v->under_way = true;
    }
    v->say = v->under_way && m->number + 1 == v->number;
}

bool replica_receive_copy(struct replica *r, const struct replica_message *m, uint64_t token)
{
    switch (m->type) {
    case REPLICA_FETCH:
        on_fetch(r, m);
        return false;
    case REPLICA_FETCHED:
        on_fetched(r, m);
        return false;
    case REPLICA_PIECE:
        return on_piece(r, m, token);
    default:
        on_given(r, m);
        return false;
    }
}

/* ---- What is to be done ---- */

static void say_page(struct replica *r, struct replica_action *out)
{
    struct replica_fetch *f = &r->fetch;
    struct replica_message *m = replica_say(r, out, REPLICA_FETCH, f->source);
    struct page p = page_of(r->asked, (f->page - 1) * REPLICA_PAGE_MAX, m->changes);

    m->number = f->page;
    m->have = f->intake.number;
    m->count = p.count;
    m->last = f->last = !p.more;
}

static void say_to_source(struct replica *r, struct replica_action *out)
{
    struct replica_fetch *f = &r->fetch;

    f->say = false;
    if (f->state == FETCH_ASKING) {
        say_page(r, out);
    } else {
        replica_say(r, out, REPLICA_GIVEN, f->source)->number = f->intake.number;
    }
    out->message.session = f->intake.session;
    out->message.epoch = f->epoch;
    out->message.round = f->round;
    out->message.pass = f->pass;
    out->message.recovering = f->recovering;
}

static void say_piece(struct replica *r, struct replica_giving *v, uint32_t to,
                      struct replica_action *out)
{
    struct replica_message *m = replica_say(r, out, REPLICA_PIECE, to);
    struct operations ops = { .items = m->ops, .skip = v->cursor };

    v->say = false;
    m->number = v->number;
    m->piece = v->kind;
    m->member = v->member;
    if (v->kind == PIECE_BYTES) {
        v->piece = r->logs[to].piece;
        m->changes[0] = v->piece;
        m->count = 1;
    } else if (v->kind == PIECE_OPERATIONS) {
        (void)op_memory_each(r->order.memory, put_operation, &ops);
        m->count = ops.count;
    } else if (v->kind == PIECE_LOG) {
        changed_clear(r->scratch);
        dirty_log_copy(&r->logs[v->member], r->scratch);
        m->count = page_of(r->scratch, v->cursor, m->changes).count;
    }
}

static bool say_to_taker(struct replica *r, uint32_t to, struct replica_action *out)
{
    struct replica_giving *v = &r->giving[to];

    if (v->say_fetched) {
        v->say_fetched = false;
        replica_say(r, out, REPLICA_FETCHED, to)->number = v->page;
    } else if (v->say) {
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

bool replica_next_copy(struct replica *r, struct replica_action *out)
{
    struct replica_fetch *f = &r->fetch;

    if (f->state == FETCH_WAITING && r->applying == 0) {
        begin_fetch(r);
    }
    if (f->take_wanted) {
        f->take_wanted = false;
        out->type = REPLICA_TAKE;
        out->piece = f->piece;
        out->token = f->token;
        return true;
    }
    if (f->state == FETCH_SYNC) {
        f->state = FETCH_SYNCING;
        f->sync = out->id = ++r->sync_number;
        out->type = REPLICA_SYNC_HERE;
        out->everything = true;
        return true;
    }
    if (f->say) {
        say_to_source(r, out);
        return true;
    }
    for (uint32_t i = 0; i < r->group.count; i++) {
        if (say_to_taker(r, i, out)) {
            return true;
        }
    }
    return false;
}
