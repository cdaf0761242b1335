/* A member's cores together: the group's actions carried out, changes between the order and the disk,
 * and the dirty file (replica.h). */
#include "iod/replica/group_inner.h"
#include "iod/replica/replica_inner.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <string.h>

static struct change change_of(const struct order_change *c)
{
    return (struct change){ .object = c->object, .generation = c->generation, .span = c->span };
}

/* ---- The group ---- */

static void join(struct replica *r, const struct group_action *action)
{
    CHECK(r->applying == 0 && r->fetch.state == FETCH_NONE);
    for (uint32_t i = 0; i < r->group.count; i++) {
        if (i != r->group.me && group_has(action->set, i)) {
            dirty_log_settle(&r->logs[i]);
            r->giving[i] = (struct replica_giving){ .session = 0 };
        }
    }
    r->fetch.intake = (struct dirty_intake){ .session = 0 };
    r->cut = r->cut_sequence = r->clear = 0;
    r->rewrite_wanted = true;
    order_set_verifier(&r->order, action->verifier);
    order_join(&r->order, action->epoch, action->round, action->set);
}

static void leave(struct replica *r)
{
    order_leave(&r->order);
    replica_drop_syncs(r);
    replica_repair_left(r);
    replica_verify_left(r);
    r->ack_count = 0;
}

static void perform(struct replica *r, const struct group_action *action)
{
    switch (action->type) {
    case GROUP_SEND:
        r->say_word = true;
        return;
    case GROUP_PERSIST:
        r->next = action->record;
        r->record_wanted = true;
        return;
    case GROUP_COPY:
    case GROUP_FLUSH:
    case GROUP_RECOVER:
        replica_fetch(r, action);
        return;
    case GROUP_START_VOTE:
        r->vote = *action;
        r->vote_wanted = true;
        r->stop_wanted = false;
        return;
    case GROUP_STOP_VOTE:
        r->vote_wanted = false;
        r->stop_wanted = true;
        return;
    case GROUP_JOIN:
        join(r, action);
        return;
    case GROUP_LEAVE:
        leave(r);
        return;
    }
}

/* What it was asked before it had joined it has passed over. */
static void look_who_joined(struct replica *r)
{
    for (uint32_t i = 0; i < r->group.count; i++) {
        if (i != r->group.me && group_has_joined(&r->group, i) && order_has_joined(&r->order, i)) {
            replica_resend_syncs(r);
        }
    }
}

void replica_feed(struct replica *r, struct group_event *event, uint64_t now_ms)
{
    struct group_actions out = { .count = 0 };

    event->now_ms = now_ms;
    group_set_unsure(&r->group, group_in_sync(r->group.record.state) && r->group.joined == 0 &&
                                    !op_memory_is_sure(r->order.memory));
    group_step(&r->group, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform(r, &out.items[i]);
    }
    look_who_joined(r);
}

void replica_tick(struct replica *r, uint64_t now_ms)
{
    struct group_event event = { .type = GROUP_TICK };

    replica_look(r, now_ms);
    replica_feed(r, &event, now_ms);
}

uint64_t replica_deadline_ms(const struct replica *r)
{
    uint64_t group_ms = group_deadline_ms(&r->group), look_ms = replica_look_ms(r);
    uint64_t verify_ms = replica_verify_due_ms(r);

    look_ms = verify_ms < look_ms ? verify_ms : look_ms;
    return group_ms < look_ms ? group_ms : look_ms;
}

void replica_set_leaving(struct replica *r, group_set leaving)
{
    group_set_leaving(&r->group, leaving);
}

void replica_set_displaced(struct replica *r, group_set displaced)
{
    group_set_displaced(&r->group, displaced);
}

void replica_quit(struct replica *r)
{
    group_quit(&r->group);
}

void replica_heard(struct replica *r, const struct group_word *word, uint64_t now_ms)
{
    struct group_event event = { .type = GROUP_WORD, .word = word };

    replica_feed(r, &event, now_ms);
}

void replica_decided(struct replica *r, uint64_t epoch, group_set set, uint64_t now_ms)
{
    struct group_event event = { .type = GROUP_DECIDED, .epoch = epoch, .set = set };

    replica_feed(r, &event, now_ms);
}

void replica_dead(struct replica *r, uint32_t member, uint64_t now_ms)
{
    struct group_event event = { .type = GROUP_DEAD, .member = member };

    replica_feed(r, &event, now_ms);
}

void replica_recorded(struct replica *r, uint64_t now_ms)
{
    struct group_event event = { .type = GROUP_PERSISTED };

    replica_feed(r, &event, now_ms);
}

/* ---- Beginning and end ---- */

bool replica_init(struct replica *r, const struct replica_setup *setup)
{
    bool have;

    memset(r, 0, sizeof(*r));
    r->slow_limit_ms = setup->slow_limit_ms;
    r->forced.number = 1; /* Odd ones; those of other repairs are even. */
    group_init(&r->group, setup->id, setup->count, setup->me, setup->leases);
    group_set_vacant(&r->group, setup->vacant);
    r->group.pause_ms = setup->slow_pause_ms != 0 ? setup->slow_pause_ms : GROUP_PAUSE_MS;
    have = order_init(&r->order, setup->me, setup->clients_max, setup->ops_max);
    have = intent_init(&r->intent, setup->objects_max, setup->spans_max) && have;
    r->asked = changed_new(setup->objects_max, setup->spans_max, INTENT_REGION_BYTES);
    r->scratch = changed_new(setup->objects_max, setup->spans_max, BLOCK_BYTES);
    for (uint32_t i = 0; i < setup->count; i++) {
        have = dirty_log_init(&r->logs[i], setup->objects_max, setup->spans_max) && have;
    }
    return have && r->asked != NULL && r->scratch != NULL;
}

void replica_free(struct replica *r)
{
    order_free(&r->order);
    intent_free(&r->intent);
    changed_free(r->asked);
    changed_free(r->scratch);
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        dirty_log_free(&r->logs[i]);
    }
    r->asked = r->scratch = NULL;
}

void replica_load_dirty(struct replica *r, const struct dirty_record *record)
{
    CHECK(!r->group.started);
    if (record->kind == DIRTY_INTENT) {
        changed_add(r->asked, &record->change);
    }
    for (uint32_t i = 0; i < r->group.count; i++) {
        if (i == r->group.me || !group_has(record->members, i)) {
            continue;
        }
        if (record->kind == DIRTY_SETTLED) {
            dirty_log_settle(&r->logs[i]);
        } else {
            dirty_log_add(&r->logs[i], &record->change);
        }
    }
}

bool replica_load_operation(struct replica *r, const struct op_known *known)
{
    CHECK(!r->group.started);
    return op_memory_load(r->order.memory, known);
}

/* Whatever the others have done, this copy was named as the one that counts. */
static void miss_everything(struct replica *r)
{
    const struct change all = { .everything = true };

    for (uint32_t i = 0; i < r->group.count; i++) {
        if (i != r->group.me) {
            dirty_log_add(&r->logs[i], &all);
        }
    }
}

void replica_start(struct replica *r, const struct group_record *record, uint64_t boot,
                   uint64_t start, uint64_t now_ms)
{
    struct group_event event = { .type = GROUP_START, .record = record, .boot = boot };

    if (group_is_forced(record->epoch) && group_in_sync(record->state)) {
        miss_everything(r);
    }
    intent_load(&r->intent, r->asked);
    r->rewrite_wanted = !intent_empty(&r->intent);
    changed_clear(r->asked);
    order_set_verifier(&r->order, record->verifier);
    event.start = start;
    event.intent_empty = intent_empty(&r->intent);
    replica_feed(r, &event, now_ms);
}

/* ---- Who asks ---- */

enum order_verdict replica_change(struct replica *r, const struct order_change *change,
                                  uint64_t token)
{
    return order_request(&r->order, change, token);
}

enum order_verdict replica_read(struct replica *r, struct object_id object, struct span span,
                                uint64_t token)
{
    return order_read(&r->order, object, span, token);
}

enum order_verdict replica_settle(struct replica *r, struct object_id object, uint64_t token)
{
    return order_settle(&r->order, object, token);
}

uint64_t replica_serves(const struct replica *r, uint64_t now_ms)
{
    return group_serves(&r->group, now_ms) ? r->group.joined : 0;
}

bool replica_served(struct replica *r, uint64_t id, uint64_t round, uint64_t now_ms)
{
    replica_moved(r);
    order_applied(&r->order, id);
    return replica_serves(r, now_ms) == round && round != 0;
}

/* ---- Changes here ---- */

/* What of it is not open anyway makes the recovery longer. */
static void log_one(struct replica *r, uint32_t to, const struct change *change)
{
    const struct changed *open = r->logs[to].open;
    uint64_t before = changed_bytes(open, change->object), after;

    dirty_log_add(&r->logs[to], change);
    after = changed_bytes(open, change->object);
    if (before == UINT64_MAX) {
        return;
    }
    if (after == UINT64_MAX || change->span.end == OBJECT_BYTES_MAX) {
        after = before + RECOVERY_PIECE_BYTES; /* Who knows; the end of an object is not long. */
    }
    r->giving[to].grown += after - before;
}

/* Who is brought up to date may be in the set by now, and not have it: what was half carried out when the
 * set changed is nowhere else. */
void replica_log(struct replica *r, const struct change *change)
{
    for (uint32_t i = 0; i < r->group.count; i++) {
        bool has_it = group_has(r->group.record.set, i) && r->giving[i].session == 0;

        if (i != r->group.me && !has_it) {
            log_one(r, i, change);
        }
    }
}

/* It is in the logs from here on; until then write intent has it. So a piece that is read meanwhile
 * is read again. */
void replica_applied(struct replica *r, uint64_t id)
{
    const struct order_change *change = order_at_work(&r->order, id);
    struct change logged;

    CHECK(change != NULL && r->applying > 0);
    logged = change_of(change);
    r->applying--;
    replica_moved(r);
    replica_log(r, &logged);
    order_applied(&r->order, id);
}

/* Carried out nowhere, or not now: others may have missed what was here before, as with one that was. */
void replica_unapplied(struct replica *r, uint64_t id, int status)
{
    const struct order_change *change = order_at_work(&r->order, id);
    struct change logged;

    CHECK(change != NULL && r->applying > 0);
    logged = change_of(change);
    r->applying--;
    replica_moved(r);
    replica_log(r, &logged);
    order_unapplied(&r->order, id, status);
}

void replica_put_off(struct replica *r, uint64_t id)
{
    CHECK(order_at_work(&r->order, id) != NULL && r->applying > 0);
    r->applying--;
    replica_moved(r);
    order_put_off(&r->order, id);
}

static struct change noted(const struct replica *r, const struct replica_note *n)
{
    if (n->id == REPLICA_ID_REPAIR || n->id == REPLICA_ID_FORCED) {
        return n->id == REPLICA_ID_REPAIR ? r->repair.stretch : r->forced.stretch;
    }
    return n->id < REPLICA_ID_REPAIR ? r->fetch.queue[n->id].change
                                     : change_of(order_at_work(&r->order, n->id));
}

bool replica_intend(struct replica *r, uint64_t id, uint64_t token, const struct change *change)
{
    if (intent_add(&r->intent, change)) {
        return true;
    }
    CHECK(r->note_count < REPLICA_NOTES_MAX);
    r->notes[r->note_count++] = (struct replica_note){ NOTE_WAITING, id, token };
    return false;
}

void replica_noted(struct replica *r)
{
    CHECK(r->filing);
    r->filing = false;
    replica_moved(r);
    for (uint32_t i = 0; i < r->note_count; i++) {
        struct replica_note *n = &r->notes[i];

        if (n->state == NOTE_WRITING) {
            struct change change = noted(r, n);

            intent_written(&r->intent, &change);
            n->state = NOTE_READY;
        }
    }
}

static bool apply(struct replica *r, uint64_t id, uint64_t token, struct replica_action *out)
{
    out->type = REPLICA_APPLY;
    out->id = id;
    out->token = token;
    out->change = order_at_work(&r->order, id);
    CHECK(out->change != NULL);
    return true;
}

/* Whose write intent is on the disk by now. */
static bool next_ready(struct replica *r, struct replica_action *out)
{
    for (uint32_t i = 0; i < r->note_count; i++) {
        struct replica_note ready = r->notes[i];

        if (ready.state != NOTE_READY) {
            continue;
        }
        r->notes[i--] = r->notes[--r->note_count];
        if (ready.id < REPLICA_ID_REPAIR) {
            r->fetch.queue[ready.id].ready = true; /* replica_next_copy() shows it, */
        } else if (ready.id == REPLICA_ID_REPAIR) {
            r->repair.take_wanted = true; /* and this replica_next_repair(). */
        } else if (ready.id == REPLICA_ID_FORCED) {
            r->forced.take_wanted = true;
        } else {
            return apply(r, ready.id, ready.token, out);
        }
    }
    return false;
}

/* ---- The dirty file ---- */

static bool next_note(struct replica *r, struct replica_action *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->note_count; i++) {
        struct replica_note *n = &r->notes[i];

        if (n->state == NOTE_WAITING) {
            n->state = NOTE_WRITING;
            r->note_records[count] = (struct dirty_record){ .kind = DIRTY_INTENT };
            r->note_records[count++].change = noted(r, n);
        }
    }
    out->type = REPLICA_NOTE;
    out->notes = r->note_records;
    out->count = count;
    r->filing = count > 0;
    return r->filing;
}

static bool next_filing(struct replica *r, struct replica_action *out)
{
    if (r->filing) {
        return false;
    }
    if (!r->rewrite_wanted) {
        return next_note(r, out);
    }
    r->rewrite_wanted = false;
    r->filing = true;
    intent_begin_rewrite(&r->intent);
    if (r->fetch.state == FETCH_REWRITE) {
        r->fetch.state = FETCH_REWRITING;
    }
    out->type = REPLICA_REWRITE;
    return true;
}

void replica_rewritten(struct replica *r, uint64_t now_ms)
{
    CHECK(r->filing);
    r->filing = false;
    replica_moved(r);
    intent_end_rewrite(&r->intent, true);
    replica_fetch_rewritten(r, now_ms);
}

struct dirty_visit
{
    bool (*visit)(void *data, const struct dirty_record *record);
    void *data;
    struct dirty_record record;
};

static bool visit_change(void *data, const struct change *change)
{
    struct dirty_visit *v = data;

    v->record.change = *change;
    return v->visit(v->data, &v->record);
}

bool replica_dirty(const struct replica *r,
                   bool (*visit)(void *data, const struct dirty_record *record), void *data)
{
    struct dirty_visit v = { .visit = visit, .data = data, .record.kind = DIRTY_INTENT };

    if (!changed_each(intent_next(&r->intent), visit_change, &v)) {
        return false;
    }
    v.record.kind = DIRTY_CHANGED;
    for (uint32_t i = 0; i < r->group.count; i++) {
        const struct dirty_log *l = &r->logs[i];

        v.record.members = (uint8_t)(1U << i);
        if (i != r->group.me &&
            !(changed_each(l->open, visit_change, &v) && changed_each(l->given, visit_change, &v) &&
              dirty_log_each_under_way(l, visit_change, &v))) {
            return false;
        }
    }
    return true;
}

/* ---- Messages ---- */

struct replica_message *replica_say(const struct replica *r, struct replica_action *out,
                                    enum replica_message_type type, uint32_t to)
{
    out->type = REPLICA_SEND;
    out->member = to;
    out->message = (struct replica_message){ .type = type, .from = r->group.me };
    out->message.epoch = r->group.record.epoch;
    out->message.round = r->group.joined;
    return &out->message;
}

static bool receive_forward(struct replica *r, const struct replica_message *m, uint64_t token,
                            uint64_t now_ms)
{
    enum order_verdict verdict = order_forwarded(&r->order, m->from, m->epoch, m->round, m->number,
                                                 &m->change, token, now_ms);

    if (verdict == ORDER_HAS_IT && r->ack_count < REPLICA_ACKS_MAX) {
        r->acks[r->ack_count++] = (struct replica_ack){ m->from, m->epoch, m->round, m->number };
    }
    if (verdict == ORDER_YES) {
        replica_cut(r, m->cut);
    }
    return verdict == ORDER_YES;
}

bool replica_receive(struct replica *r, const struct replica_message *m, uint64_t token,
                     uint64_t now_ms)
{
    if (m->from >= r->group.count || m->from == r->group.me || m->count > REPLICA_PAGE_MAX) {
        return false;
    }
    switch (m->type) {
    case REPLICA_FORWARD:
        return receive_forward(r, m, token, now_ms);
    case REPLICA_ACK:
        order_acked(&r->order, m->from, m->epoch, m->round, m->number);
        return false;
    case REPLICA_SYNC:
    case REPLICA_SYNCED:
    case REPLICA_CLEAR:
        replica_receive_sync(r, m);
        return false;
    case REPLICA_FETCH:
    case REPLICA_FETCHED:
    case REPLICA_PIECE:
    case REPLICA_GIVEN:
        return replica_receive_copy(r, m, token, now_ms);
    case REPLICA_WANTED:
    case REPLICA_BLOCKS:
        return replica_receive_repair(r, m, token);
    case REPLICA_LOOK:
    case REPLICA_SEEN:
        replica_receive_verify(r, m);
        return false;
    }
    return false;
}

bool replica_takes(const struct replica *r)
{
    return r->fetch.state == FETCH_ASKING || r->fetch.state == FETCH_TAKING ||
           r->repair.state == REPAIR_ASKING || r->forced.state == REPAIR_ASKING ||
           replica_verify_asks(r);
}

void replica_ask_again(struct replica *r)
{
    r->fetch.say = r->fetch.say || r->fetch.state == FETCH_ASKING ||
                   (r->fetch.state == FETCH_TAKING && r->fetch.count == 0);
    r->repair.say = r->repair.say || r->repair.state == REPAIR_ASKING;
    r->forced.say = r->forced.say || r->forced.state == REPAIR_ASKING;
    replica_verify_ask_again(r);
}

void replica_lost(struct replica *r)
{
    order_lost(&r->order);
    replica_resend_syncs(r);
}

void replica_resend(struct replica *r)
{
    order_resend(&r->order);
    replica_resend_syncs(r);
    replica_fetch_silence(r);
    replica_ask_again(r);
}

/* ---- What is to be done ---- */

/* What the order shows. False: it goes on elsewhere, or nobody is told. */
static bool from_order(struct replica *r, const struct order_action *a, uint64_t now_ms,
                       struct replica_action *out)
{
    struct replica_message *m;
    struct change change;

    out->id = a->id;
    out->token = a->token;
    out->answer = a->answer;
    switch (a->type) {
    case ORDER_APPLY:
        r->applying++;
        change = change_of(a->change);
        replica_repair_meets(r, a->change);
        return replica_intend(r, a->id, a->token, &change) && apply(r, a->id, a->token, out);
    case ORDER_FORWARD:
    case ORDER_ACK:
        m = replica_say(r, out, a->type == ORDER_ACK ? REPLICA_ACK : REPLICA_FORWARD,
                        a->type == ORDER_ACK ? group_first(r->group.record.set) : a->member);
        m->epoch = a->epoch;
        m->round = a->round;
        m->number = a->sequence;
        m->cut = r->cut;
        if (a->change != NULL) {
            m->change = *a->change;
        }
        return true;
    case ORDER_SERVE:
        if (a->kind == ORDER_HOLD) {
            replica_verify_held(r, a->id, now_ms);
            return false;
        }
        out->type = REPLICA_SERVE;
        out->change = a->change;
        out->round = r->group.joined;
        return true;
    case ORDER_ANSWER:
        if (a->kind == ORDER_HOLD) {
            replica_verify_unheld(r);
            return false;
        }
        out->type = REPLICA_ANSWER;
        if (a->kind == ORDER_SETTLE && !group_serves(&r->group, now_ms)) {
            out->answer.status = MORSEL_AGAIN; /* Others may have gone on without us. */
        }
        return true;
    case ORDER_RELEASE:
        out->type = REPLICA_RELEASE;
        return a->kind != ORDER_HOLD; /* Nobody has it. */
    }
    return false;
}

static bool next_change(struct replica *r, uint64_t now_ms, struct replica_action *out)
{
    struct order_action a;

    if (next_ready(r, out)) {
        return true;
    }
    while (order_next(&r->order, now_ms, &a)) {
        if (from_order(r, &a, now_ms, out)) {
            return true;
        }
    }
    if (r->ack_count > 0) {
        const struct replica_ack *ack = &r->acks[--r->ack_count];
        struct replica_message *m = replica_say(r, out, REPLICA_ACK, ack->member);

        m->epoch = ack->epoch;
        m->round = ack->round;
        m->number = ack->sequence;
        return true;
    }
    return false;
}

static bool next_of_group(struct replica *r, struct replica_action *out)
{
    if (r->record_wanted) {
        r->record_wanted = false;
        out->type = REPLICA_RECORD;
        out->record = r->next;
        return true;
    }
    if (r->say_word) {
        r->say_word = false;
        out->type = REPLICA_WORD;
        return true;
    }
    if (r->vote_wanted || r->stop_wanted) {
        out->type = r->vote_wanted ? REPLICA_VOTE : REPLICA_STOP_VOTE;
        out->epoch = r->vote.epoch;
        out->set = r->vote.set;
        r->vote_wanted = r->stop_wanted = false;
        return true;
    }
    return false;
}

bool replica_next(struct replica *r, uint64_t now_ms, struct replica_action *out)
{
    memset(out, 0, offsetof(struct replica_action, message));
    return next_of_group(r, out) || next_change(r, now_ms, out) || next_filing(r, out) ||
           replica_next_sync(r, out) || replica_next_copy(r, out) || replica_next_repair(r, out) ||
           replica_next_verify(r, now_ms, out);
}

/* ---- Invariants ---- */

void replica_check(const struct replica *r)
{
    uint32_t waiting = 0;

    group_check(&r->group);
    order_check(&r->order);
    intent_check(&r->intent);
    for (uint32_t i = 0; i < r->group.count; i++) {
        dirty_log_check(&r->logs[i]);
    }
    for (uint32_t i = 0; i < r->note_count; i++) {
        CHECK(r->notes[i].id <= REPLICA_ID_FORCED ||
              order_at_work(&r->order, r->notes[i].id) != NULL);
        waiting += r->notes[i].state == NOTE_WRITING;
    }
    CHECK(r->applying >= r->note_count);
    CHECK_IMPLIES(waiting > 0, r->filing);
    CHECK(r->order.joined == (r->group.joined != 0));
    CHECK_IMPLIES(r->fetch.state != FETCH_NONE, !r->order.joined);
    CHECK_IMPLIES(r->repair.state == REPAIR_ASKING, r->order.joined);
    CHECK_IMPLIES(r->repair.state == REPAIR_TAKING, r->applying > 0);
    CHECK_IMPLIES(r->forced.state == REPAIR_ASKING, r->order.joined);
    CHECK_IMPLIES(r->forced.state == REPAIR_TAKING, r->applying > 0);
    CHECK_IMPLIES(r->verify.held,
                  order_orders(&r->order) && order_at_work(&r->order, r->verify.hold) != NULL);
}
