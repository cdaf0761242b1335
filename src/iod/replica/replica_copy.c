/* Who takes bytes, memory and logs from another member (replica.h); who gives is in replica_give.c. */
#include "iod/replica/group_inner.h"
#include "iod/replica/replica_inner.h"

#include "common/base/check.h"
#include "common/base/status.h"

enum { SESSIONS_OF_A_START = 1 << 20 };

/* ---- Pages of a set ---- */

/* False: the page is full, and there is more. */
static bool put(void *data, const struct change *change)
{
    struct entries *p = data;

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

struct entries replica_entries(const struct changed *set, uint64_t skip, struct change *items)
{
    struct entries p = { .items = items, .skip = skip };

    (void)changed_each(set, put, &p);
    return p;
}

static void all_of(const struct intent *n, struct changed *to)
{
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
    r->fetch.asked = false;
    r->fetch.repeated = 0;
    r->fetch.patience = REPLICA_SILENCES;
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
    f->before_ms = 0;
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

/* Nothing is half carried out. What was taken in this session need not be asked for: whoever gives knows what
 * has changed since, and nothing else has touched it. */
static void begin_fetch(struct replica *r)
{
    struct replica_fetch *f = &r->fetch;

    if (f->flush) {
        f->state = FETCH_SYNC;
        return;
    }
    order_taken_over(&r->order);
    f->carried = f->intake.number;
    f->again = f->gap = f->doubted = false;
    f->silences = 0;
    changed_clear(r->asked);
    if (!f->asked) {
        all_of(&r->intent, r->asked);
    }
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

/* It is carried out in its turn, when its write intent is on the disk. */
static void queue(struct replica *r, const struct change *change, uint64_t token)
{
    struct replica_fetch *f = &r->fetch;
    uint32_t at = (f->first + f->count) % RECOVERY_PIECES_MAX;
    struct replica_piece *p = &f->queue[at];

    CHECK(f->count < RECOVERY_PIECES_MAX);
    *p = (struct replica_piece){ .change = *change, .number = f->intake.number, .token = token };
    f->count++;
    r->applying++;
    p->ready = replica_intend(r, REPLICA_ID_PIECE + at, token, change);
}

static bool has_list(const struct replica_fetch *f)
{
    bool has = false;

    for (uint32_t i = 0; i < f->count; i++) {
        has = has || f->queue[(f->first + i) % RECOVERY_PIECES_MAX].change.everything;
    }
    return has;
}

static void queue_list(struct replica *r, const struct replica_message *m)
{
    struct replica_fetch *f = &r->fetch;
    const struct change everything = { .everything = true };

    f->list = (struct replica_page){ .after = m->after, .upto = m->upto, .count = m->count };
    for (uint32_t i = 0; i < m->count; i++) {
        f->list.objects[i] = m->changes[i].object;
    }
    queue(r, &everything, 0);
}

/* True: the bytes are kept, and carried out with next. */
static bool take(struct replica *r, const struct replica_message *m, uint64_t token,
                 uint64_t now_ms)
{
    struct replica_fetch *f = &r->fetch;

    if (!f->doubted) { /* Of a source that ends before that nothing has come, and what is here is ours. */
        f->doubted = true;
        op_memory_doubt(r->order.memory);
    }
    switch (m->piece) {
    case PIECE_BYTES:
        queue(r, &m->changes[0], token);
        return true;
    case PIECE_LIST:
        queue_list(r, m);
        return false;
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
        if (!f->recovering) { /* Else no memory has come. */
            op_memory_settle(r->order.memory);
        }
        f->state = FETCH_SYNC;
        f->took_ms = now_ms - f->lap_ms;
        break;
    }
    f->carried = f->intake.number;
    f->say = f->state == FETCH_TAKING;
    return false;
}

/* What a source that goes by the rules sends, as far as this can tell. */
static bool fits(const struct replica_fetch *f, const struct replica_message *m)
{
    if (f->state != FETCH_TAKING || m->pass != f->pass || m->from != f->source) {
        return false;
    }
    switch (m->piece) {
    case PIECE_BYTES:
        return m->count == 1 && !m->changes[0].everything && f->count < RECOVERY_PIECES_MAX;
    case PIECE_LIST:
        return f->count < RECOVERY_PIECES_MAX && !has_list(f);
    case PIECE_OPERATIONS:
    case PIECE_LOG:
    case PIECE_END:
        return f->count == 0;
    }
    return false;
}

/* One is missing: once, until it comes. */
static void note_gap(struct replica_fetch *f, const struct replica_message *m)
{
    if (m->session == f->intake.session && m->number > f->intake.number + 1 && !f->gap) {
        f->say = f->again = f->gap = true;
        f->repeated = 0; /* What comes twice now says nothing of the link. */
    }
}

/* It was asked for again although it was under way. */
static void note_second(struct replica_fetch *f, uint64_t number)
{
    f->silences = 0;
    if (f->repeated == number) {
        f->patience = f->patience < REPLICA_SILENCES_MAX ? 2 * f->patience : REPLICA_SILENCES_MAX;
        f->repeated = 0;
    }
}

static bool on_piece(struct replica *r, const struct replica_message *m, uint64_t token,
                     uint64_t now_ms)
{
    struct replica_fetch *f = &r->fetch;

    if (!fits(f, m)) {
        return false;
    }
    switch (dirty_intake_judge(&f->intake, m->session, m->number)) {
    case DIRTY_TAKE:
        f->gap = false;
        f->silences = 0;
        return take(r, m, token, now_ms);
    case DIRTY_AGAIN:
        f->say = true;
        note_second(f, m->number);
        return false;
    case DIRTY_STALE:
        if (m->session == f->intake.session && m->number < f->intake.number) {
            note_second(f, m->number);
        }
        note_gap(f, m);
        return false;
    }
    return false;
}

void replica_fetch_silence(struct replica *r)
{
    struct replica_fetch *f = &r->fetch;

    if (f->state == FETCH_TAKING && f->count == 0 && ++f->silences >= f->patience) {
        f->silences = 0;
        f->again = true;
        f->repeated = f->intake.number + 1;
    }
}

void replica_fetch_lost(struct replica *r)
{
    struct replica_fetch *f = &r->fetch;

    f->patience = REPLICA_SILENCES;
    f->silences = REPLICA_SILENCES - 1;
    f->repeated = 0;
}

void replica_taken(struct replica *r)
{
    struct replica_fetch *f = &r->fetch;
    const struct replica_piece *p = &f->queue[f->first];

    CHECK(f->taking && f->count > 0 && r->applying > 0);
    replica_moved(r);
    f->taking = false;
    r->applying--;
    replica_log(r, &p->change);
    f->carried = p->number;
    f->first = (f->first + 1) % RECOVERY_PIECES_MAX;
    f->count--;
    f->say = f->state == FETCH_TAKING;
}

static void on_fetched(struct replica *r, const struct replica_message *m, uint64_t now_ms)
{
    struct replica_fetch *f = &r->fetch;

    if (f->state != FETCH_ASKING || m->session != f->intake.session || m->pass != f->pass ||
        m->from != f->source || m->number != f->page) {
        return;
    }
    f->say = true;
    if (f->last) {
        f->state = FETCH_TAKING; /* And asks for the first piece. */
        f->asked = true;
        f->lap_ms = now_ms;
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

/* As near as it gets? */
static bool is_last_lap(const struct replica_fetch *f)
{
    return f->took_ms <= REPLICA_LAP_MS || (f->took_ms <= REPLICA_LAP_MS_MAX && f->before_ms != 0 &&
                                            f->took_ms * 4 >= f->before_ms * 3);
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
    } else if (f->recovering && !is_last_lap(f)) {
        f->state = FETCH_TAKING; /* Another lap. */
        f->before_ms = f->took_ms;
        f->lap_ms = now_ms;
        f->say = true;
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

bool replica_receive_copy(struct replica *r, const struct replica_message *m, uint64_t token,
                          uint64_t now_ms)
{
    switch (m->type) {
    case REPLICA_FETCH:
        replica_asked(r, m);
        return false;
    case REPLICA_FETCHED:
        on_fetched(r, m, now_ms);
        return false;
    case REPLICA_PIECE:
        return on_piece(r, m, token, now_ms);
    default:
        replica_given(r, m);
        return false;
    }
}

/* ---- What is to be done ---- */

static void say_page(struct replica *r, struct replica_action *out)
{
    struct replica_fetch *f = &r->fetch;
    struct replica_message *m = replica_say(r, out, REPLICA_FETCH, f->source);
    struct entries p = replica_entries(r->asked, (f->page - 1) * REPLICA_PAGE_MAX, m->changes);

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
        struct replica_message *m = replica_say(r, out, REPLICA_GIVEN, f->source);

        m->number = f->carried;
        m->have = f->intake.number;
        m->last = f->again;
        f->again = false;
    }
    out->message.session = f->intake.session;
    out->message.epoch = f->epoch;
    out->message.round = f->round;
    out->message.pass = f->pass;
    out->message.recovering = f->recovering;
}

bool replica_next_copy(struct replica *r, struct replica_action *out)
{
    struct replica_fetch *f = &r->fetch;

    if (f->state == FETCH_WAITING && r->applying == 0) {
        begin_fetch(r);
    }
    if (f->count > 0 && !f->taking && f->queue[f->first].ready) {
        f->taking = true;
        out->type = REPLICA_TAKE;
        out->piece = f->queue[f->first].change;
        out->page = &f->list;
        out->token = f->queue[f->first].token;
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
        if (replica_next_giving(r, i, out)) {
            return true;
        }
    }
    return false;
}
