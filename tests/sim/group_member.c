/* A member of the group scenario: the host of replica.h and mirror_lease.h of production. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/group.h"

#include <stdlib.h>
#include <string.h>

static struct member *member_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->member[node];
}

static void drain(struct sim *s, uint32_t node);

/* ---- Tickets and works ---- */

/* From 1; 0: there is no room. */
static uint64_t take_ticket(struct member *m)
{
    for (uint32_t i = 0; i < TOKENS_MAX; i++) {
        if (!m->tickets[i].used) {
            memset(&m->tickets[i], 0, sizeof(m->tickets[i]));
            m->tickets[i].used = true;
            return i + 1;
        }
    }
    return 0;
}

static struct ticket *ticket_of(struct member *m, uint64_t token)
{
    CHECK(token > 0 && m->tickets[token - 1].used);
    return &m->tickets[token - 1];
}

static uint64_t begin_work(struct sim *s, uint32_t node, const struct replica_action *a)
{
    struct member *m = member_of(s, node);
    uint64_t i = 0;

    while (m->works[i].type != REPLICA_SEND) {
        CHECK(++i < TOKENS_MAX);
    }
    m->works[i] = (struct work){ .type = a->type, .id = a->id, .token = a->token };
    m->works[i].round = a->round;
    m->works[i].everything = a->everything;
    m->works[i].object = a->object;
    m->works[i].piece = a->piece;
    m->works[i].after = a->type == REPLICA_LIST ? a->page->after : 0;
    m->works[i].forced = a->forced;
    m->works[i].step = a->step;
    m->works[i].bytes = m->bytes;
    if (a->change != NULL) {
        m->works[i].change = *a->change;
    }
    return i;
}

/* ---- Bytes ---- */

/* One object, or two more rarely: logs with room for one say everything again then. Where each is is its number. */
static void give_list(struct sim *s, uint32_t node, const struct work *w)
{
    uint64_t upto = w->after + 1 + prng_below(&s->prng, 3) / 2;
    struct object_id objects[OBJECTS];
    uint32_t count = 0;

    for (uint64_t o = w->after + 1; o <= upto && o <= OBJECTS; o++) {
        objects[count++] = (struct object_id){ o, 0 };
    }
    sim_worth(s, WORTH_SWEPT);
    replica_listed(member_of(s, node)->replica, w->id, objects,
                   prng_below(&s->prng, 8) == 0 ? UINT32_MAX : count,
                   upto >= OBJECTS ? UINT64_MAX : upto);
}

/* Only what is forced: disks of this world lose bytes, they do not change them. */
static void mend(struct sim *s, uint32_t node, const struct work *w)
{
    struct member *m = member_of(s, node);

    CHECK(w->forced && w->token != 0);
    if (!sim_canary(s, "repairs_nothing")) {
        bytes_take(s, node, w);
    }
    ticket_of(m, w->token)->used = false;
    replica_mended(m->replica, w->id, MORSEL_OK);
}

/* ---- Answers ---- */

static void answer_call(struct sim *s, uint32_t node, const struct call *call, int status,
                        uint64_t verifier)
{
    struct member *m = member_of(s, node);
    struct host_message out = { .kind = HOST_ANSWER };
    uint64_t values[OBJECTS][CELLS];

    if (status == MORSEL_AGAIN) {
        return; /* It asks again by itself, elsewhere. */
    }
    bytes_show(m, values);
    out.answer.number = call->number;
    out.answer.status = status;
    out.answer.verifier = verifier;
    if (call->act == ACT_READ) {
        memcpy(out.answer.values, values[call->change.object.inode - 1], sizeof(out.answer.values));
    }
    host_send(s, node, world_of(s)->first_client + call->client, &out);
}

static void answer_ticket(struct sim *s, uint32_t node, const struct replica_action *a)
{
    struct ticket *t = ticket_of(member_of(s, node), a->token);
    int status = a->answer.status;

    if (t->call.act == ACT_SETTLE && status == MORSEL_OK) {
        sim_worth(s, WORTH_SETTLED);
    }
    if (status == MORSEL_TOO_LATE) {
        sim_worth(s, WORTH_LATE);
    } else if (status == MORSEL_UNSURE) {
        sim_worth(s, WORTH_BEHIND);
    }
    answer_call(s, node, &t->call, status, a->answer.verifier);
    t->used = false;
}

/* ---- What was begun is done ---- */

/* reads_while_it_leaves: as if it had not said that it does not. */
static bool serves_still(struct sim *s, uint32_t node)
{
    struct group g = member_of(s, node)->replica->group;

    g.quits = false;
    return group_serves(&g, sim_clock_ms(s, node));
}

/* May what was read be answered? */
static bool may_answer(struct sim *s, uint32_t node, bool yes)
{
    const struct group *g = &member_of(s, node)->replica->group;

    if (sim_canary(s, "serves_unvouched") && group_in_sync(g->record.state)) {
        return true;
    }
    if (sim_canary(s, "reads_while_it_leaves") && g->quits && !group_orders(g)) {
        return serves_still(s, node);
    }
    if (sim_canary(s, "reads_without_lease") && g->joined != 0) {
        return true;
    }
    for (uint32_t i = 0; i < g->count && g->joined != 0; i++) {
        if (sim_canary(s, "one_lease_is_enough") && i != node && (g->record.set >> i & 1) != 0 &&
            mirror_lease_held(g->peers[i].lease, g->id, g->joined_ms, sim_clock_ms(s, node))) {
            return true;
        }
    }
    return yes;
}

static void trace_work(struct sim *s, uint32_t node, const struct work *w)
{
    bool takes = w->type == REPLICA_TAKE;
    struct object_id object = takes ? w->piece.object : w->change.object;
    struct span span = takes ? w->piece.span : w->change.span;

    if (takes || w->type == REPLICA_APPLY) {
        sim_trace(s, node, "%s object %llu from %llu to %llu%s",
                  takes                    ? "takes"
                  : act_copies(&w->change) ? "copies to"
                                           : "writes",
                  (unsigned long long)object.inode, (unsigned long long)(span.start / CELL_BYTES),
                  (unsigned long long)(span.end / CELL_BYTES),
                  takes && (w->piece.whole || w->piece.everything) ? ", whole" : "");
    }
}

static void run_done(struct sim *s, uint32_t node, uint64_t number)
{
    struct member *m = member_of(s, node);
    struct work w = m->works[number];
    uint64_t now_ms = sim_clock_ms(s, node);
    bool served;

    m->works[number].type = REPLICA_SEND;
    if (w.type == REPLICA_TAKE && w.piece.everything) {
        world_of(s)->swept_ms = s->now_ms;
    }
    trace_work(s, node, &w);
    switch (w.type) {
    case REPLICA_APPLY:
        bytes_apply(s, node, &w, true);
        replica_applied(m->replica, w.id);
        if (sim_canary(s, "answers_alone") && ticket_of(m, w.token)->call.number != 0) {
            answer_call(s, node, &ticket_of(m, w.token)->call, MORSEL_OK,
                        m->replica->order.verifier);
        }
        break;
    case REPLICA_SERVE:
        served = replica_served(m->replica, w.id, w.round, now_ms);
        if (may_answer(s, node, served)) {
            answer_call(s, node, &ticket_of(m, w.token)->call, MORSEL_OK,
                        m->replica->order.verifier);
        }
        break;
    case REPLICA_TAKE:
        bytes_take(s, node, &w);
        replica_taken(m->replica);
        if (w.token != 0) {
            ticket_of(m, w.token)->used = false;
        }
        break;
    case REPLICA_LIST:
        give_list(s, node, &w);
        break;
    case REPLICA_LOOK_HERE:
        verify_see(s, node, &w);
        break;
    case REPLICA_MEND:
        mend(s, node, &w);
        break;
    default:
        CHECK(w.type == REPLICA_SYNC_HERE);
        disk_synced(s, node, &w);
        replica_synced(m->replica, w.id, now_ms);
        break;
    }
    drain(s, node);
}

static void begin(struct sim *s, uint32_t node, const struct replica_action *a)
{
    struct member *m = member_of(s, node);
    uint64_t i = begin_work(s, node, a);

    if (a->type == REPLICA_APPLY) {
        bytes_note_copy(s, node, &m->works[i]);
        bytes_apply(s, node, &m->works[i], false);
    }
    sim_after(s, node,
              disk_delay_ms(s, node, a->type == REPLICA_SYNC_HERE ? DISK_MS_MAX : APPLY_MS_MAX),
              run_done, i);
}

/* ---- Between members ---- */

static void send_message(struct sim *s, uint32_t node, const struct replica_action *a)
{
    struct member *m = member_of(s, node);
    struct host_message out = { .kind = HOST_REPLICA, .replica.message = a->message };
    struct replica_message *message = &out.replica.message;

    if (message->type == REPLICA_FORWARD) {
        out.replica.values[0][0] = ticket_of(m, a->token)->call.value;
        message->change.not_after_ms = true_of_clock(s, node, message->change.not_after_ms);
    } else if (message->type == REPLICA_PIECE || message->type == REPLICA_BLOCKS) {
        bytes_show(m, out.replica.values);
    }
    if (message->type == REPLICA_PIECE && message->piece == PIECE_OPERATIONS) {
        for (uint32_t i = 0; i < message->count; i++) {
            message->ops[i].until_ms = true_of_clock(s, node, message->ops[i].until_ms);
        }
        message->count = sim_canary(s, "hands_no_memory_over") ? 0 : message->count;
    }
    if (message->type == REPLICA_PIECE && m->replica->group.record.state == GROUP_STALE) {
        sim_worth(s, WORTH_UNBEGUN);
    }
    host_send(s, node, a->member, &out);
    if (message->type == REPLICA_PIECE) {
        const struct replica_giving *v = &m->replica->giving[a->member];

        replica_gave(m->replica, a->member, &a->message, 0);
        if (v->number > v->answered + 1) {
            sim_worth(s, WORTH_SEVERAL);
        }
    }
}

static void receive_message(struct sim *s, uint32_t node, const struct host_message *in)
{
    struct member *m = member_of(s, node);
    struct replica_message message = in->replica.message;
    uint64_t token = take_ticket(m);
    struct ticket *t;

    if (token == 0) {
        return;
    }
    t = ticket_of(m, token);
    memcpy(t->values, in->replica.values, sizeof(t->values));
    t->call.value = in->replica.values[0][0];
    message.change.not_after_ms = clock_of_true(s, node, message.change.not_after_ms);
    if (message.type == REPLICA_PIECE && message.piece == PIECE_OPERATIONS) {
        for (uint32_t i = 0; i < message.count; i++) {
            message.ops[i].until_ms = clock_of_true(s, node, message.ops[i].until_ms);
        }
    }
    if (message.type == REPLICA_PIECE && sim_canary(s, "takes_any_piece")) {
        message.number = m->replica->fetch.intake.number + 1;
    }
    t->used = replica_receive(m->replica, &message, token, sim_clock_ms(s, node));
    drain(s, node);
}

/* asks_one_only: who has agreed before is taken to agree, unasked. */
static void run_unasked(struct sim *s, uint32_t node, uint64_t member)
{
    struct replica *r = member_of(s, node)->replica;
    const struct group *g = &r->group;
    struct group_word word = g->peers[member].word;

    word.number++;
    word.promised = g->leading;
    word.equal = g->phase >= GROUP_EQUALISING ? g->leading : 0;
    word.joined = g->phase == GROUP_COMMITTING ? g->leading : 0;
    replica_heard(r, &word, sim_clock_ms(s, node));
    drain(s, node);
}

static bool is_unasked(struct sim *s, const struct group *g, uint32_t member)
{
    const struct group_word *w = &g->peers[member].word;

    return sim_canary(s, "asks_one_only") && g->phase != GROUP_IDLE && w->agreed &&
           w->promised != 0 && w->epoch == g->record.epoch;
}

static void send_word(struct sim *s, uint32_t node)
{
    struct group *g = &member_of(s, node)->replica->group;
    struct host_message message = { .kind = HOST_WORD };

    group_word(g, &message.word);
    if (sim_canary(s, "newcomer_is_whole") && group_in_sync(message.word.state)) {
        message.word.complete = true;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (i != node && is_unasked(s, g, i)) {
            sim_after(s, node, 1, run_unasked, i);
        } else if (i != node) {
            host_send(s, node, i, &message);
        }
    }
}

/* ---- Votes ---- */

void member_decided(struct sim *s, uint32_t node, uint64_t epoch, group_set set)
{
    sim_trace(s, node, "epoch %llu is set %u", (unsigned long long)epoch, set);
    if (judge_decided(s, epoch, set)) {
        replica_decided(member_of(s, node)->replica, epoch, set, sim_clock_ms(s, node));
        drain(s, node);
    }
}

static void run_unvoted(struct sim *s, uint32_t node, uint64_t number)
{
    member_decided(s, node, number >> 8, (group_set)(number & 255));
}

static void start_vote(struct sim *s, uint32_t node, const struct replica_action *a)
{
    group_set before = member_of(s, node)->replica->group.record.set;

    if ((a->set & ~before) != 0 && sim_canary(s, "grows_without_vote")) {
        sim_after(s, node, 0, run_unvoted, a->epoch << 8 | a->set);
        return;
    }
    candidate_begin(s, node, a->epoch, a->set, before);
}

/* ---- The core ---- */

static void perform(struct sim *s, uint32_t node, const struct replica_action *a)
{
    struct member *m = member_of(s, node);

    switch (a->type) {
    case REPLICA_SEND:
        send_message(s, node, a);
        return;
    case REPLICA_WORD:
        send_word(s, node);
        return;
    case REPLICA_RECORD:
        sim_trace(s, node, "persists %s, epoch %llu, set %u%s", group_state_name(a->record.state),
                  (unsigned long long)a->record.epoch, a->record.set,
                  a->record.whole ? "" : ", not whole");
        disk_record(s, node, &a->record);
        return;
    case REPLICA_NOTE:
        disk_note(s, node, a);
        return;
    case REPLICA_REWRITE:
        disk_rewrite(s, node);
        return;
    case REPLICA_APPLY:
    case REPLICA_SERVE:
    case REPLICA_SYNC_HERE:
    case REPLICA_TAKE:
    case REPLICA_LIST:
    case REPLICA_LOOK_HERE:
    case REPLICA_MEND:
        begin(s, node, a);
        return;
    case REPLICA_FOUND:
        verify_found(s, node, &a->found);
        return;
    case REPLICA_ANSWER:
        answer_ticket(s, node, a);
        return;
    case REPLICA_RELEASE:
        ticket_of(m, a->token)->used = false;
        return;
    case REPLICA_VOTE:
        start_vote(s, node, a);
        return;
    case REPLICA_STOP_VOTE:
        candidate_stop(s, node);
        return;
    case REPLICA_REPAIRED: /* Nothing is damaged here. */
        CHECK(false);
        return;
    }
}

static void note_joined(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    const struct group_record *r = &m->replica->group.record;

    if (m->joined == 0) {
        sim_trace(s, node, "leaves");
        return;
    }
    sim_trace(s, node, "joined in epoch %llu, set %u, verifier %llu", (unsigned long long)r->epoch,
              r->set, (unsigned long long)r->verifier);
    sim_worth(s, WORTH_VOUCHED);
    if (r->verifier > 1) {
        sim_worth(s, WORTH_VERIFIER);
    }
    m->lost = false;
}

static void drain(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    struct replica_action a;

    while (replica_next(m->replica, sim_clock_ms(s, node), &a)) {
        perform(s, node, &a);
    }
    replica_check(m->replica);
    if (m->replica->group.joined != m->joined) {
        m->joined = m->replica->group.joined;
        note_joined(s, node);
    }
}

static void run_flush(struct sim *s, uint32_t node, uint64_t number)
{
    (void)number;
    replica_flush(member_of(s, node)->replica);
    drain(s, node);
    sim_after(s, node, 50 + prng_below(&s->prng, 400), run_flush, 0);
}

static void run_write_back(struct sim *s, uint32_t node, uint64_t number)
{
    (void)number;
    disk_write_back(s, node);
    sim_after(s, node, 1 + prng_below(&s->prng, 1000), run_write_back, 0);
}

void member_quit(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);

    if (m->quit_ms == 0) {
        sim_trace(s, node, "is to stop");
        m->quit_ms = s->now_ms + QUIT_MS;
        m->ordered = group_orders(&m->replica->group);
        replica_quit(m->replica);
    }
}

/* True: it is at its end. */
static bool quit(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    const struct group *g = &m->replica->group;
    bool may = group_may_end(g);

    if (m->quit_ms == 0 || !(may || s->now_ms >= m->quit_ms)) {
        return false;
    }
    sim_trace(s, node, may ? "stops" : "stops, although others wait for it");
    if (may && !group_in_sync(g->record.state)) {
        sim_worth(s, m->ordered ? WORTH_HANDED_OVER : WORTH_LEFT);
    }
    sim_crash(s, node, false);
    if (!s->scripted) {
        sim_start_later(s, node, 100 + prng_below(&s->prng, 2000));
    }
    return true;
}

static void run_tick(struct sim *s, uint32_t node, uint64_t number)
{
    struct member *m = member_of(s, node);
    uint64_t now_ms = sim_clock_ms(s, node);
    struct host_message ask = { .kind = HOST_LEASE_ASK };

    (void)number;
    if (quit(s, node)) {
        return;
    }
    ask.lease.start = m->disk.starts;
    ask.lease.asked_ms = now_ms;
    for (uint32_t i = 0; i < world_of(s)->members; i++) {
        if (i != node && now_ms >= mirror_lease_deadline_ms(&m->leases[i])) {
            mirror_lease_ask(&m->leases[i], now_ms);
            host_send(s, node, i, &ask);
        }
    }
    verify_run(s, node);
    if (now_ms >= replica_deadline_ms(m->replica)) {
        replica_tick(m->replica, now_ms);
    }
    if (now_ms >= m->resend_ms) {
        if (!s->scripted && prng_below(&s->prng, LOST_ONE_IN) == 0) {
            replica_lost(m->replica);
        }
        replica_resend(m->replica);
        m->resend_ms = now_ms + RESEND_MS;
    }
    drain(s, node);
    candidate_tick(s, node);
    sim_after(s, node, MEMBER_TICK_MS, run_tick, 0);
}

static void on_lease(struct sim *s, uint32_t node, const struct host_message *message)
{
    struct member *m = member_of(s, node);
    struct mirror_lease *lease = &m->leases[message->from];
    uint64_t now_ms = sim_clock_ms(s, node);
    struct host_message answer = *message;
    struct mirror_exceptions exceptions = { .count = 0 };

    if (message->kind == HOST_LEASE_ASK) {
        answer.kind = HOST_LEASE_ANSWER;
        answer.lease.not_covered = !group_covers(&m->replica->group, message->from);
        mirror_lease_grant(lease, now_ms);
        if (sim_canary(s, "does_not_wait")) {
            mirror_lease_void(lease);
        }
        host_send(s, node, message->from, &answer);
        return;
    }
    if (message->lease.not_covered) {
        mirror_exceptions_add(&exceptions, GROUP_ID);
    }
    mirror_lease_granted(lease, message->lease.start, message->lease.asked_ms, &exceptions, now_ms);
}

/* ---- Calls ---- */

/* Who does not order sends it on, once. */
static void send_on(struct sim *s, uint32_t node, const struct call *call)
{
    const struct group *g = &member_of(s, node)->replica->group;
    struct host_message out = { .kind = HOST_CALL, .call = *call };

    if (g->joined != 0 && !call->sent_on) {
        out.call.sent_on = true;
        host_send(s, node, (uint32_t)__builtin_ctz(g->record.set), &out);
    }
}

/* A read that any member may answer: nobody changes what it reads. */
static void read_here(struct sim *s, uint32_t node, const struct call *call)
{
    const struct replica *r = member_of(s, node)->replica;

    if (may_answer(s, node, replica_serves(r, sim_clock_ms(s, node)) != 0)) {
        if (!group_orders(&r->group)) {
            sim_worth(s, WORTH_SECONDARY);
        }
        answer_call(s, node, call, MORSEL_OK, r->order.verifier);
    }
}

static enum order_verdict ask_core(struct sim *s, uint32_t node, const struct call *call,
                                   uint64_t token)
{
    struct replica *r = member_of(s, node)->replica;
    struct order_change change = call->change;

    switch (call->act) {
    case ACT_WRITE:
    case ACT_COPY:
        change.not_after_ms = clock_of_true(s, node, call->not_after_ms);
        if (sim_canary(s, "takes_what_is_behind")) {
            change.verifier = r->order.verifier;
        }
        if (sim_canary(s, "copies_what_may_change")) {
            change.reads.end = change.reads.start;
        }
        return replica_change(r, &change, token);
    case ACT_READ:
        return replica_read(r, change.object, change.span, token);
    case ACT_SETTLE:
        return replica_settle(r, change.object, token);
    default:
        return replica_sync(r, change.object, token);
    }
}

static void on_call(struct sim *s, uint32_t node, const struct call *call)
{
    struct member *m = member_of(s, node);
    uint64_t token;
    enum order_verdict verdict;

    if (call->act == ACT_SETTLE && sim_canary(s, "settles_at_once")) {
        answer_call(s, node, call, MORSEL_OK, m->replica->order.verifier);
        return;
    }
    if (call->settled) {
        read_here(s, node, call);
        return;
    }
    token = take_ticket(m);
    if (token == 0) {
        return;
    }
    ticket_of(m, token)->call = *call;
    verdict = ask_core(s, node, call, token);
    if (verdict != ORDER_YES) {
        ticket_of(m, token)->used = false;
    }
    if (verdict == ORDER_NO) {
        send_on(s, node, call);
    }
    drain(s, node);
}

/* ---- Life ---- */

static void start_replica(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    const struct mirror_lease *leases[REPLICAS_MAX];
    struct replica_setup setup = { .id = GROUP_ID, .count = world_of(s)->members, .me = node };

    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        mirror_lease_init(&m->leases[i], m->disk.starts, sim_clock_ms(s, node));
        leases[i] = &m->leases[i];
        if (sim_canary(s, "does_not_wait")) {
            mirror_lease_void(&m->leases[i]);
        }
    }
    setup.slow_limit_ms = world_of(s)->slow_limit_ms;
    setup.slow_pause_ms = SLOW_PAUSE_MS;
    setup.leases = leases;
    setup.clients_max = CLIENTS;
    setup.ops_max = OPERATIONS_MAX / 2;
    setup.objects_max = world_of(s)->coarse ? 1 : OBJECTS;
    setup.spans_max = 2 * OBJECTS;
    m->replica = calloc(1, sizeof(*m->replica));
    CHECK(m->replica != NULL && replica_init(m->replica, &setup));
    disk_load(s, node);
}

static void member_start(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    struct group_record record;

    if (m->replaced && !sim_canary(s, "replaced_keep_what_they_have")) {
        member_renew(s, node);
    }
    m->replaced = false;
    record = m->disk.record;
    voter_start(s, node);
    m->disk.starts++;
    m->resend_ms = 0;
    start_replica(s, node);
    if (sim_canary(s, "begins_unbegun")) {
        record.begun = record.epoch;
    }
    if (sim_canary(s, "stands_after_loss")) {
        record.boot = m->disk.boots;
    }
    sim_trace(s, node, "starts, %s in epoch %llu", group_state_name(record.state),
              (unsigned long long)record.epoch);
    replica_start(m->replica, &record, m->disk.boots, m->disk.starts, sim_clock_ms(s, node));
    drain(s, node);
    run_tick(s, node, 0);
    sim_after(s, node, prng_below(&s->prng, 400), run_flush, 0);
    sim_after(s, node, prng_below(&s->prng, 1000), run_write_back, 0);
}

static void member_stop(struct sim *s, uint32_t node, bool machine)
{
    struct member *m = member_of(s, node);
    bool anything = disk_stop(s, node, machine);

    voter_stop(s, node, machine);
    replica_free(m->replica);
    free(m->replica);
    m->replica = NULL;
    m->joined = m->quit_ms = 0;
    memset(m->tickets, 0, sizeof(m->tickets));
    memset(m->works, 0, sizeof(m->works));
    if (machine) {
        judge_loss(s, node, anything);
    }
}

static void member_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct member *m = member_of(s, node);
    struct host_message in;

    memcpy(&in, message->data, sizeof(in));
    if (voter_receive(s, node, &in)) {
        return;
    }
    switch (in.kind) {
    case HOST_WORD:
        replica_heard(m->replica, &in.word, sim_clock_ms(s, node));
        drain(s, node);
        return;
    case HOST_LEASE_ASK:
    case HOST_LEASE_ANSWER:
        on_lease(s, node, &in);
        return;
    case HOST_REPLICA:
        receive_message(s, node, &in);
        return;
    case HOST_CALL:
        on_call(s, node, &in.call);
        return;
    default:
        return;
    }
}

const struct sim_actor group_member_actor = { member_start, member_stop, member_receive, NULL };
