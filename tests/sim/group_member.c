/* A member of the group scenario: the host of group_*.c and mirror_lease.c of production, with a disk
 * that forgets what was not synced. It orders one change of a region at a time. */
#include "common/base/check.h"
#include "tests/sim/group.h"

#include <string.h>

static struct member *member_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->member[node];
}

void host_send(struct sim *s, uint32_t node, uint32_t to, struct host_message *m)
{
    const struct world *w = world_of(s);

    m->from = node;
    if (node <= w->voter && to <= w->voter && w->cut_until_ms[node][to] > s->now_ms) {
        return;
    }
    sim_send_datagram(s, node, to, m, sizeof(*m));
}

static void send_to_set(struct sim *s, uint32_t node, struct host_message *m)
{
    const struct group *g = &member_of(s, node)->group;

    m->epoch = g->record.epoch;
    m->round = g->joined;
    for (uint32_t i = 0; i < g->count; i++) {
        if (i != node && (g->record.set >> i & 1) != 0) {
            host_send(s, node, i, m);
        }
    }
}

static void feed(struct sim *s, uint32_t node, struct group_event *event);

/* ---- The disk ---- */

static void sync_all(struct member *m)
{
    memcpy(m->disk.versions, m->versions, sizeof(m->versions));
}

/* A region is about to change here. */
static void log_dirty(struct member *m, uint32_t region)
{
    for (uint32_t i = 0; i < m->group.count; i++) {
        if ((m->group.record.set >> i & 1) == 0) {
            m->disk.dirty[i] |= 1U << region;
        }
    }
}

static void intend(struct member *m, uint32_t region)
{
    m->disk.intent |= 1U << region;
    log_dirty(m, region);
}

void member_format(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);

    m->disk.formatted = true;
    group_record_new(&m->disk.record, world_of(s)->members, 1);
    m->disk.boots = 1;
}

static void run_written(struct sim *s, uint32_t node, uint64_t number)
{
    struct member *m = member_of(s, node);
    struct group_record *r = &m->disk.record;

    (void)number;
    if (sim_canary(s, "whole_in_memory") && !r->whole) {
        *r = m->group.next;
        r->whole = false;
        return;
    }
    *r = m->group.persisting ? m->group.next : m->group.record;
    if (r->state == GROUP_RECOVERING) {
        m->lost = true;
    }
}

static void run_persisted(struct sim *s, uint32_t node, uint64_t number)
{
    struct group_event event = { .type = GROUP_PERSISTED };

    if (!sim_canary(s, "speaks_before_durable")) {
        run_written(s, node, number);
    }
    feed(s, node, &event);
}

static void persist(struct sim *s, uint32_t node)
{
    uint64_t delay_ms = prng_below(&s->prng, PERSIST_MS_MAX);

    if (sim_canary(s, "speaks_before_durable")) {
        sim_after(s, node, 300, run_written, 0);
        delay_ms = 0;
    }
    sim_after(s, node, delay_ms, run_persisted, 0);
}

/* The kernel writes back when it likes. */
static void run_write_back(struct sim *s, uint32_t node, uint64_t number)
{
    struct member *m = member_of(s, node);
    uint32_t region = (uint32_t)prng_below(&s->prng, REGIONS);

    (void)number;
    m->disk.versions[region] = m->versions[region];
    if (sim_canary(s, "clears_intent_alone")) {
        m->disk.intent &= ~(1U << region);
    }
    sim_after(s, node, 1 + prng_below(&s->prng, 1000), run_write_back, 0);
}

/* ---- Bytes from another member ---- */

static void run_copied(struct sim *s, uint32_t node, uint64_t round)
{
    struct member *m = member_of(s, node);
    struct group_event event = { .type = GROUP_COPIED, .round = round };

    if (!m->fetch.active || m->fetch.round != round) {
        return;
    }
    if (!sim_canary(s, "counts_before_flush")) {
        sync_all(m);
    }
    event.type = m->fetch.recovering ? GROUP_RECOVERED : GROUP_COPIED;
    m->fetch.active = false;
    feed(s, node, &event);
}

static void ask_for_bytes(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    struct host_message message = { .kind = HOST_FETCH };

    if (!m->fetch.active || m->fetch.got) {
        return;
    }
    message.epoch = m->fetch.epoch;
    message.round = m->fetch.round;
    message.recovering = m->fetch.recovering;
    message.mask = m->disk.intent;
    host_send(s, node, m->fetch.source, &message);
}

static void fetch(struct sim *s, uint32_t node, const struct group_action *action)
{
    struct member *m = member_of(s, node);

    m->fetch = (struct fetch){ .active = true, .source = action->member };
    m->fetch.round = action->round;
    m->fetch.epoch = action->epoch;
    m->fetch.recovering = action->type == GROUP_RECOVER;
    m->fetch.got = action->type == GROUP_FLUSH;
    if (action->type != GROUP_FLUSH) {
        memset(m->flights, 0, sizeof(m->flights)); /* Others decide what came of them. */
    }
    if (action->type == GROUP_COPY && sim_canary(s, "keeps_its_own") && m->disk.record.whole) {
        m->fetch.got = true;
    }
    if (m->fetch.got) {
        sim_after(s, node, prng_below(&s->prng, COPY_MS_MAX), run_copied, action->round);
    }
    ask_for_bytes(s, node);
}

static void on_fetch(struct sim *s, uint32_t node, const struct host_message *asked)
{
    struct member *m = member_of(s, node);
    const struct group *g = &m->group;
    struct host_message bytes = { .kind = HOST_BYTES, .round = asked->round };
    bool source = g->record.epoch == asked->epoch && g->promised == asked->round;
    bool left = g->record.state == GROUP_STALE && g->record.epoch + 1 == asked->epoch;

    if (asked->recovering ? !(group_orders(g) && g->record.epoch == asked->epoch)
                          : !(source || left)) {
        return;
    }
    if (left) {
        sim_worth(s, WORTH_UNBEGUN);
    }
    bytes.mask = asked->mask | m->disk.intent | m->disk.dirty[asked->from];
    bytes.recovering = asked->recovering;
    memcpy(bytes.versions, m->versions, sizeof(m->versions));
    memcpy(bytes.dirty, m->disk.dirty, sizeof(m->disk.dirty));
    host_send(s, node, asked->from, &bytes);
}

static void on_bytes(struct sim *s, uint32_t node, const struct host_message *bytes)
{
    struct member *m = member_of(s, node);

    if (!m->fetch.active || m->fetch.got || m->fetch.round != bytes->round ||
        m->fetch.recovering != bytes->recovering || m->fetch.source != bytes->from) {
        return;
    }
    for (uint32_t r = 0; r < REGIONS; r++) {
        if ((bytes->mask >> r & 1) != 0) {
            m->versions[r] = bytes->versions[r];
            if (!sim_canary(s, "forgets_survivors_intent")) {
                log_dirty(m, r);
            }
        }
    }
    for (uint32_t i = 0; i < m->group.count; i++) {
        m->disk.dirty[i] |= bytes->dirty[i];
    }
    m->fetch.got = true;
    sim_after(s, node, prng_below(&s->prng, COPY_MS_MAX), run_copied, bytes->round);
}

/* ---- Changes ---- */

static void finish_flight(struct sim *s, uint32_t node, uint32_t region)
{
    struct member *m = member_of(s, node);
    struct flight *f = &m->flights[region];
    struct host_message answer = { .kind = HOST_ANSWER, .call = f->call, .version = f->version };

    if (f->active && (f->have & m->group.record.set) == m->group.record.set) {
        f->active = false;
        host_send(s, node, f->client, &answer);
    }
}

static void forward(struct sim *s, uint32_t node, uint32_t region)
{
    const struct flight *f = &member_of(s, node)->flights[region];
    struct host_message message = { .kind = HOST_FORWARD, .region = region };

    message.version = f->version;
    message.sequence = f->sequence;
    send_to_set(s, node, &message);
}

static void carry_out(struct sim *s, uint32_t node, uint32_t region)
{
    struct member *m = member_of(s, node);
    struct flight *f = &m->flights[region];

    f->sequence = ++m->sequence;
    f->have = (group_set)(1U << node);
    intend(m, region);
    m->versions[region] = f->version;
    m->last[region] = f->sequence;
    forward(s, node, region);
    finish_flight(s, node, region);
}

static void on_write(struct sim *s, uint32_t node, const struct host_message *asked)
{
    struct member *m = member_of(s, node);
    struct flight *f = &m->flights[asked->region];
    struct host_message message = *asked;

    if (!group_orders(&m->group)) {
        if (m->group.joined != 0 && !asked->settled) {
            message.settled = true; /* Sent on once. */
            host_send(s, node, (uint32_t)__builtin_ctz(m->group.record.set), &message);
        }
        return;
    }
    if (f->active) {
        return;
    }
    if (m->versions[asked->region] >= asked->version) {
        message = (struct host_message){ .kind = HOST_ANSWER, .call = asked->call };
        host_send(s, node, asked->client, &message);
        return;
    }
    *f = (struct flight){ .active = true, .version = asked->version, .call = asked->call };
    f->client = asked->client;
    carry_out(s, node, asked->region);
}

static void on_forward(struct sim *s, uint32_t node, const struct host_message *f)
{
    struct member *m = member_of(s, node);
    struct host_message ack = { .kind = HOST_FORWARD_ACK, .region = f->region };

    if (!group_takes(&m->group, f->epoch, f->round) || f->sequence < m->last[f->region]) {
        return;
    }
    if (f->sequence > m->last[f->region]) {
        intend(m, f->region);
        m->versions[f->region] = f->version;
        m->last[f->region] = f->sequence;
    }
    ack.epoch = f->epoch;
    ack.round = f->round;
    ack.sequence = f->sequence;
    host_send(s, node, f->from, &ack);
}

static void on_forward_ack(struct sim *s, uint32_t node, const struct host_message *ack)
{
    struct member *m = member_of(s, node);
    struct flight *f = &m->flights[ack->region];

    if (f->active && group_takes(&m->group, ack->epoch, ack->round) &&
        f->sequence == ack->sequence) {
        f->have |= (group_set)(1U << ack->from);
        finish_flight(s, node, ack->region);
    }
}

/* ---- Syncs, and what they free ---- */

static bool is_quiet(const struct member *m)
{
    for (uint32_t r = 0; r < REGIONS; r++) {
        if (m->flights[r].active) {
            return false;
        }
    }
    return true;
}

/* What was under way when somebody left the set may be missing there: from here on his log says it. */
static void clear_intent(struct sim *s, struct member *m, uint64_t sequence)
{
    for (uint32_t r = 0; r < REGIONS; r++) {
        if (m->last[r] > sequence) {
            continue;
        }
        if ((m->disk.intent >> r & 1) != 0 && !sim_canary(s, "forgets_survivors_intent")) {
            log_dirty(m, r);
        }
        m->disk.intent &= ~(1U << r);
    }
}

static void answer_fsyncs(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);

    for (uint32_t r = 0; r < REGIONS; r++) {
        if (m->fsync_call[r] != 0 && m->fsync_taken[r]) {
            struct host_message answer = { .kind = HOST_ANSWER, .call = m->fsync_call[r] };

            answer.version = m->sync_versions[r];
            host_send(s, node, m->fsync_client[r], &answer);
            m->fsync_call[r] = 0;
        }
    }
}

static void finish_sync(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    struct host_message clear = { .kind = HOST_CLEAR, .sequence = m->sync_sequence };

    if (m->sync_sequence == 0 || (m->synced & m->group.record.set) != m->group.record.set) {
        return;
    }
    answer_fsyncs(s, node);
    if (group_all_joined(&m->group)) {
        clear_intent(s, m, m->sync_sequence);
        send_to_set(s, node, &clear);
    }
    m->sync_sequence = 0;
}

static void begin_sync(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    struct host_message message = { .kind = HOST_SYNC };

    if (!group_orders(&m->group)) {
        return;
    }
    if (m->sync_sequence == 0 && is_quiet(m)) {
        m->sync_sequence = ++m->sequence;
        m->synced = (group_set)(1U << node);
        sync_all(m);
        memcpy(m->sync_versions, m->versions, sizeof(m->versions));
        for (uint32_t r = 0; r < REGIONS; r++) {
            m->fsync_taken[r] = m->fsync_call[r] != 0;
        }
    }
    if (m->sync_sequence != 0) {
        message.sequence = m->sync_sequence;
        send_to_set(s, node, &message);
        finish_sync(s, node);
    }
}

static void run_sync(struct sim *s, uint32_t node, uint64_t number)
{
    (void)number;
    begin_sync(s, node);
    sim_after(s, node, 50 + prng_below(&s->prng, 400), run_sync, 0);
}

static void on_sync(struct sim *s, uint32_t node, const struct host_message *asked)
{
    struct member *m = member_of(s, node);
    struct host_message answer = { .kind = HOST_SYNCED, .sequence = asked->sequence };

    if (!group_takes(&m->group, asked->epoch, asked->round)) {
        return;
    }
    if (asked->kind == HOST_CLEAR) {
        clear_intent(s, m, asked->sequence);
        return;
    }
    sync_all(m);
    answer.epoch = asked->epoch;
    answer.round = asked->round;
    host_send(s, node, asked->from, &answer);
}

static void on_synced(struct sim *s, uint32_t node, const struct host_message *answer)
{
    struct member *m = member_of(s, node);

    if (group_takes(&m->group, answer->epoch, answer->round) &&
        answer->sequence == m->sync_sequence && m->sync_sequence != 0) {
        m->synced |= (group_set)(1U << answer->from);
        finish_sync(s, node);
    }
}

/* ---- Reads ---- */

static bool may_read(struct sim *s, uint32_t node)
{
    const struct group *g = &member_of(s, node)->group;

    if (sim_canary(s, "serves_unvouched") && group_in_sync(g->record.state)) {
        return true;
    }
    if (sim_canary(s, "reads_without_lease") && g->joined != 0) {
        return true;
    }
    if (sim_canary(s, "one_lease_is_enough") && g->joined != 0) {
        for (uint32_t i = 0; i < g->count; i++) {
            if (i != node && (g->record.set >> i & 1) != 0 &&
                mirror_lease_held(g->peers[i].lease, g->id, g->joined_ms, sim_clock_ms(s, node))) {
                return true;
            }
        }
    }
    return group_serves(g, sim_clock_ms(s, node));
}

static void on_read(struct sim *s, uint32_t node, const struct host_message *asked)
{
    struct member *m = member_of(s, node);
    struct host_message answer = { .kind = HOST_ANSWER, .call = asked->call };
    bool orders = group_orders(&m->group);

    if (!may_read(s, node) || (orders ? m->flights[asked->region].active : !asked->settled)) {
        return;
    }
    if (!orders) {
        sim_worth(s, WORTH_SECONDARY);
    }
    answer.version = m->versions[asked->region];
    answer.settled = true;
    host_send(s, node, asked->client, &answer);
}

/* ---- Votes ---- */

void member_decided(struct sim *s, uint32_t node, uint64_t epoch, group_set set)
{
    struct group_event event = { .type = GROUP_DECIDED, .epoch = epoch, .set = set };

    sim_trace(s, node, "epoch %llu is set %u", (unsigned long long)epoch, set);
    if (judge_decided(s, epoch, set)) {
        feed(s, node, &event);
    }
}

static void run_unvoted(struct sim *s, uint32_t node, uint64_t number)
{
    member_decided(s, node, number >> 8, (group_set)(number & 255));
}

static void start_vote(struct sim *s, uint32_t node, const struct group_action *action)
{
    uint64_t number = action->epoch << 8 | action->set;
    group_set before = member_of(s, node)->group.record.set;
    bool grows = (action->set & ~before) != 0;

    if (grows && sim_canary(s, "grows_without_vote")) {
        sim_after(s, node, 0, run_unvoted, number);
        return;
    }
    candidate_begin(s, node, action->epoch, action->set, before);
}

/* ---- The core ---- */

static void join(struct sim *s, uint32_t node, const struct group_action *action)
{
    struct member *m = member_of(s, node);
    bool orders = group_orders(&m->group);

    sim_trace(s, node, "joined in epoch %llu, set %u, with %llu %llu %llu",
              (unsigned long long)action->epoch, action->set, (unsigned long long)m->versions[0],
              (unsigned long long)m->versions[1], (unsigned long long)m->versions[2]);
    sim_worth(s, WORTH_VOUCHED);
    m->lost = false;
    m->sequence = m->sync_sequence = 0;
    memset(m->last, 0, sizeof(m->last));
    memset(m->fsync_call, 0, sizeof(m->fsync_call));
    for (uint32_t i = 0; i < m->group.count; i++) {
        if ((action->set >> i & 1) != 0) {
            m->disk.dirty[i] = 0;
        }
    }
    for (uint32_t r = 0; r < REGIONS; r++) {
        if (!orders) {
            m->flights[r].active = false;
        } else if (m->flights[r].active) {
            carry_out(s, node, r);
        }
    }
}

/* asks_one_only: who has agreed before is taken to agree, unasked. */
static void run_unasked(struct sim *s, uint32_t node, uint64_t member)
{
    const struct group *g = &member_of(s, node)->group;
    struct group_word word = g->peers[member].word;
    struct group_event event = { .type = GROUP_WORD, .word = &word };

    word.number++;
    word.promised = g->leading;
    word.equal = g->phase >= GROUP_EQUALISING ? g->leading : 0;
    word.joined = g->phase == GROUP_COMMITTING ? g->leading : 0;
    feed(s, node, &event);
}

static bool is_unasked(struct sim *s, const struct group *g, uint32_t member)
{
    const struct group_word *w = &g->peers[member].word;

    return sim_canary(s, "asks_one_only") && g->phase != GROUP_IDLE && w->agreed &&
           w->promised != 0 && w->epoch == g->record.epoch;
}

static void send_word(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    struct host_message message = { .kind = HOST_WORD };

    group_word(&m->group, &message.word);
    if (sim_canary(s, "newcomer_is_whole") && group_in_sync(message.word.state)) {
        message.word.complete = true;
    }
    for (uint32_t i = 0; i < m->group.count; i++) {
        if (i != node && is_unasked(s, &m->group, i)) {
            sim_after(s, node, 1, run_unasked, i);
        } else if (i != node) {
            host_send(s, node, i, &message);
        }
    }
}

static void perform(struct sim *s, uint32_t node, const struct group_action *action)
{
    switch (action->type) {
    case GROUP_SEND:
        send_word(s, node);
        return;
    case GROUP_PERSIST:
        sim_trace(s, node, "persists %s, epoch %llu, set %u%s",
                  group_state_name(action->record.state), (unsigned long long)action->record.epoch,
                  action->record.set, action->record.whole ? "" : ", not whole");
        persist(s, node);
        return;
    case GROUP_COPY:
    case GROUP_FLUSH:
    case GROUP_RECOVER:
        fetch(s, node, action);
        return;
    case GROUP_START_VOTE:
        start_vote(s, node, action);
        return;
    case GROUP_STOP_VOTE:
        candidate_stop(s, node);
        return;
    case GROUP_JOIN:
        join(s, node, action);
        return;
    case GROUP_LEAVE:
        sim_trace(s, node, "leaves");
        return;
    }
}

static void feed(struct sim *s, uint32_t node, struct group_event *event)
{
    struct group_actions out = { .count = 0 };

    event->now_ms = sim_clock_ms(s, node);
    group_step(&member_of(s, node)->group, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform(s, node, &out.items[i]);
    }
}

static void run_tick(struct sim *s, uint32_t node, uint64_t number)
{
    struct member *m = member_of(s, node);
    uint64_t now_ms = sim_clock_ms(s, node);
    struct group_event event = { .type = GROUP_TICK };
    struct host_message ask = { .kind = HOST_LEASE_ASK, .asked_ms = now_ms };

    (void)number;
    ask.start = m->disk.starts;
    for (uint32_t i = 0; i < m->group.count; i++) {
        if (i != node && now_ms >= mirror_lease_deadline_ms(&m->leases[i])) {
            mirror_lease_ask(&m->leases[i], now_ms);
            host_send(s, node, i, &ask);
        }
    }
    if (now_ms >= group_deadline_ms(&m->group)) {
        feed(s, node, &event);
    }
    ask_for_bytes(s, node);
    candidate_tick(s, node);
    for (uint32_t r = 0; r < REGIONS && group_orders(&m->group); r++) {
        if (m->flights[r].active) {
            forward(s, node, r);
        }
    }
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
        answer.not_covered = !group_covers(&m->group, message->from);
        mirror_lease_grant(lease, now_ms);
        if (sim_canary(s, "does_not_wait")) {
            mirror_lease_void(lease);
        }
        host_send(s, node, message->from, &answer);
        return;
    }
    if (message->not_covered) {
        mirror_exceptions_add(&exceptions, GROUP_ID);
    }
    mirror_lease_granted(lease, message->start, message->asked_ms, &exceptions, now_ms);
}

static void member_start(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    struct group_record record = m->disk.record;
    struct group_event event = { .type = GROUP_START, .record = &record };
    const struct mirror_lease *leases[REPLICAS_MAX];

    voter_start(s, node);
    m->disk.starts++;
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        mirror_lease_init(&m->leases[i], m->disk.starts, sim_clock_ms(s, node));
        leases[i] = &m->leases[i];
    }
    if (sim_canary(s, "does_not_wait")) {
        for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
            mirror_lease_void(&m->leases[i]);
        }
    }
    group_init(&m->group, GROUP_ID, world_of(s)->members, node, leases);
    event.start = m->disk.starts;
    event.boot = m->disk.boots;
    event.intent_empty = m->disk.intent == 0 || sim_canary(s, "stands_after_loss");
    if (sim_canary(s, "begins_unbegun")) {
        record.begun = record.epoch;
    }
    sim_trace(s, node, "starts, %s in epoch %llu", group_state_name(record.state),
              (unsigned long long)record.epoch);
    feed(s, node, &event);
    run_tick(s, node, 0);
    sim_after(s, node, prng_below(&s->prng, 400), run_sync, 0);
    sim_after(s, node, prng_below(&s->prng, 1000), run_write_back, 0);
}

static void member_stop(struct sim *s, uint32_t node, bool machine)
{
    struct member *m = member_of(s, node);
    bool anything =
        m->disk.intent != 0 || memcmp(m->versions, m->disk.versions, sizeof(m->versions)) != 0;
    struct group none = { .id = 0 };

    voter_stop(s, node, machine);
    m->group = none;
    memset(m->flights, 0, sizeof(m->flights));
    memset(m->fsync_call, 0, sizeof(m->fsync_call));
    m->fetch.active = false;
    m->sequence = m->sync_sequence = 0;
    if (machine) {
        memcpy(m->versions, m->disk.versions, sizeof(m->versions));
        m->disk.boots++;
        judge_loss(s, node, anything);
    }
}

static void member_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct host_message m;
    struct group_event event = { .type = GROUP_WORD, .word = &m.word };

    memcpy(&m, message->data, sizeof(m));
    if (voter_receive(s, node, &m)) {
        return;
    }
    switch (m.kind) {
    case HOST_WORD:
        feed(s, node, &event);
        return;
    case HOST_LEASE_ASK:
    case HOST_LEASE_ANSWER:
        on_lease(s, node, &m);
        return;
    case HOST_FORWARD:
        on_forward(s, node, &m);
        return;
    case HOST_FORWARD_ACK:
        on_forward_ack(s, node, &m);
        return;
    case HOST_SYNC:
    case HOST_CLEAR:
        on_sync(s, node, &m);
        return;
    case HOST_SYNCED:
        on_synced(s, node, &m);
        return;
    case HOST_FETCH:
        on_fetch(s, node, &m);
        return;
    case HOST_BYTES:
        on_bytes(s, node, &m);
        return;
    case HOST_WRITE:
        on_write(s, node, &m);
        return;
    case HOST_FSYNC:
        if (group_orders(&member_of(s, node)->group)) {
            member_of(s, node)->fsync_client[m.region] = m.client;
            if (member_of(s, node)->fsync_call[m.region] != m.call) {
                member_of(s, node)->fsync_call[m.region] = m.call;
                member_of(s, node)->fsync_taken[m.region] = false;
            }
            begin_sync(s, node);
        }
        return;
    case HOST_READ:
        on_read(s, node, &m);
        return;
    case HOST_VOTE_REQUEST:
    case HOST_VOTE_ANSWER:
    case HOST_ANSWER:
        return;
    }
}

const struct sim_actor group_member_actor = { member_start, member_stop, member_receive, NULL };
