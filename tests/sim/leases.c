/* Leases: src/meta/coherence/lease_step.c with clients that keep values under them, hold writes
 * back, are slow to answer recalls, fall silent, are cut off and die, on clocks that drift, while the
 * manager is killed and loses power.
 *
 * The clients' word with the manager, their lease periods and what they give back are
 * src/client/coherence/lease_holder.c, and what they hold is meta_cache.c (leases_copies.c). The
 * checkers: an answer from a client's copy is what the manager has, or what this client holds back;
 * the manager serves nobody while another client relies on a lease that this would break; and
 * nothing that was written to the storage server under a lease lands there after somebody else has
 * been served (leases_store.c). */
#include "tests/sim/leases.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>
#include <string.h>

enum {
    RECONNECT_MS = 50,
    TICK_MS = 200,
    BACKOFF_MS_MAX = 800,
    THINK_MS_MAX = 400,
    QUIET_MS = 4 * LEASE_MS /* A holder that is fenced, and its lease period; and once more. */
};

struct world *world_of(struct sim *s)
{
    return s->world;
}

const char *name_of(struct sim *s, client_id client)
{
    const struct world *w = world_of(s);

    for (uint32_t node = CLIENT_FIRST; node < CLIENT_FIRST + w->client_count; node++) {
        if (w->clients[node].id == client) {
            return s->nodes[node].name;
        }
    }
    return "somebody who is no more";
}

uint64_t holder_clock_ns(const struct sim *s, uint32_t node)
{
    return sim_clock_ms(s, node) * NS_PER_MS;
}

/* ---- Checkers ---- */

void check_served(struct sim *s, client_id client, uint32_t reg, enum lease_access access)
{
    struct world *w = world_of(s);

    for (uint32_t node = CLIENT_FIRST; node < CLIENT_FIRST + w->client_count; node++) {
        if (w->clients[node].id != client &&
            copy_is_relied_on(s, node, reg, access == ACCESS_READ ? LEASE_W : LEASE_R)) {
            (void)sim_fail(s, "register %u is %s while %s relies on its lease", reg,
                           access == ACCESS_READ ? "read" : "changed", s->nodes[node].name);
        }
    }
}

uint64_t others_served(const struct world *w, client_id client, uint32_t reg)
{
    for (uint32_t i = 0; i < w->lives_count; i++) {
        if (w->lives[i].client == client) {
            return w->served[reg] - w->lives[i].served[reg];
        }
    }
    return w->served[reg];
}

void note_served(struct world *w, client_id client, uint32_t reg)
{
    uint32_t i = 0;

    while (i < w->lives_count && w->lives[i].client != client) {
        i++;
    }
    if (i == w->lives_count) {
        CHECK(i < LIVES_MAX);
        w->lives_count++;
        w->lives[i].client = client;
    }
    w->lives[i].served[reg]++;
    w->served[reg]++;
}

/* ---- A client ---- */

static void run_connect(struct sim *s, uint32_t node, uint64_t number);

void client_send(struct sim *s, uint32_t node, struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];

    m->client = c->id;
    if (c->conn != 0) {
        sim_send(s, node, c->conn, m, sizeof(*m));
    }
}

void holder_feed(struct sim *s, uint32_t node, enum lease_holder_event_type type)
{
    holder_step(s, node, (struct lease_holder_event){ .type = type });
}

static void send_join(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    memset(&c->join, 0, sizeof(c->join));
    c->join.word = WORD_JOIN;
    c->join.call = ++c->calls;
    c->join.lease_epoch = lease_holder_epoch(&c->holder);
    copies_fill_join(s, node, &c->join);
    locks_fill_join(s, node, &c->join);
    c->join_sent_ms = sim_clock_ms(s, node);
    client_send(s, node, &c->join);
}

static void send_renew(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];
    struct lease_message m = { .word = WORD_RENEW, .call = ++c->calls };

    c->renew_call = m.call;
    c->renew_sent_ms = sim_clock_ms(s, node);
    client_send(s, node, &m);
}

static void carry_out(struct sim *s, uint32_t node, const struct lease_holder_action *action)
{
    struct client *c = &world_of(s)->clients[node];
    bool join = action->type == HOLDER_JOIN;

    if (action->back != NULL) {
        copies_carry_out(s, node, action);
    } else if (action->type == HOLDER_BREAK && c->conn != 0) {
        sim_break(s, c->conn);
    } else if ((join || action->type == HOLDER_RENEW) && c->conn != 0) {
        (join ? send_join : send_renew)(s, node);
        holder_step(s, node, (struct lease_holder_event){ .type = HOLDER_ASKED, .join = join });
    }
}

void holder_step(struct sim *s, uint32_t node, struct lease_holder_event event)
{
    struct lease_holder *h = &world_of(s)->clients[node].holder;
    struct lease_holder_actions out = { .count = 0 };

    event.now_ns = holder_clock_ns(s, node);
    event.now_ms = sim_clock_ms(s, node);
    lease_holder_step(h, &event, &out);
    lease_holder_check(h);
    for (uint32_t i = 0; i < out.count; i++) {
        carry_out(s, node, &out.items[i]);
    }
}

static void run_connect(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];

    (void)number;
    c->conn = sim_connect(s, node, MANAGER);
    if (c->conn == 0) {
        sim_after(s, node, RECONNECT_MS, run_connect, 0);
        return;
    }
    holder_feed(s, node, HOLDER_CONNECTED); /* First of all. */
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        if (c->pending[i].active) {
            client_send(s, node, &c->pending[i].message);
        }
    }
    copies_client_up(s, node);
    locks_client_up(s, node);
}

static void begin_call(struct sim *s, uint32_t node, struct call *call, enum word word,
                       uint32_t reg, uint64_t value)
{
    *call = (struct call){ .active = true, .since_ms = s->now_ms };
    call->sent_ms = sim_clock_ms(s, node);
    call->message.word = word;
    call->message.call = ++world_of(s)->clients[node].calls;
    call->message.reg = reg;
    call->message.value = value;
    sim_trace(s, node, "%s register %u",
              word == WORD_READ    ? "reads"
              : word == WORD_WRITE ? "writes"
                                   : "opens",
              reg);
    client_send(s, node, &call->message);
}

static void run_think(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    struct client *c = &w->clients[node];
    struct call *call = &c->pending[prng_below(&s->prng, CALLS_MAX)];
    uint32_t reg = (uint32_t)prng_below(&s->prng, REGISTERS);
    uint64_t dice = prng_below(&s->prng, 100);

    (void)number;
    if (w->quiet) {
        return;
    }
    if (dice < 6 && copy_is_relied_on(s, node, reg, LEASE_W)) {
        copy_report(s, node, reg);
    } else if (!copy_use(s, node, reg, dice < 40) && !call->active) {
        begin_call(s, node, call,
                   dice < 20   ? WORD_WRITE
                   : dice < 40 ? WORD_OPEN
                               : WORD_READ,
                   reg, dice < 20 ? ++w->last_value : 0);
    }
    sim_after(s, node, prng_below(&s->prng, THINK_MS_MAX), run_think, 0);
}

/* Now and then a word, and a look at the clock. */
static void run_tick(struct sim *s, uint32_t node, uint64_t number)
{
    (void)number;
    copies_tick(s, node);
    holder_feed(s, node, HOLDER_TICK);
    holder_feed(s, node, HOLDER_ASK_TICK);
    sim_after(s, node, TICK_MS, run_tick, 0);
}

static void client_free(struct client *c)
{
    copies_client_free(c);
    lock_holder_free(&c->locks);
}

static void client_start(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    client_free(c);
    memset(c, 0, sizeof(*c));
    lease_holder_init(&c->holder);
    c->id = prng_next(&s->prng) | 1;
    copies_client_start(s, node);
    locks_client_start(s, node);
    run_connect(s, node, 0);
    store_client_start(s, node);
    sim_after(s, node, 0, run_think, 0);
    sim_after(s, node, TICK_MS, run_tick, 0);
}

static void client_down(struct sim *s, uint32_t node, uint32_t conn)
{
    struct client *c = &world_of(s)->clients[node];
    uint64_t most_ms = prng_below(&s->prng, 3) > 0 ? RECONNECT_MS : BACKOFF_MS_MAX;

    if (c->store.conn == conn) {
        store_client_down(s, node);
    }
    if (c->conn == conn) {
        c->conn = 0;
        c->renew_call = 0;
        while (c->holder.asked > 0) {
            holder_step(s, node,
                        (struct lease_holder_event){ .type = HOLDER_SESSION_FAILED,
                                                     .join = lease_holder_is_joining(&c->holder) });
        }
        copies_client_down(c);
        sim_after(s, node, prng_below(&s->prng, most_ms), run_connect, 0);
    }
}

/* From when the lease period is counted that an answer gives, whose question was sent then. */
static uint64_t counts_from_ns(const struct sim *s, uint32_t node, uint64_t sent_ms)
{
    uint64_t from_ms = sim_canary(s, "counts_from_reply") ? sim_clock_ms(s, node) : sent_ms;

    return (from_ms + (sim_canary(s, "no_margin") ? LEASE_MARGIN_MS : 0)) * NS_PER_MS;
}

/* The answer to a question about the session. */
static void take_session(struct sim *s, uint32_t node, bool join, const struct lease_message *m)
{
    const struct client *c = &world_of(s)->clients[node];
    struct lease_holder_event event = { .type = HOLDER_SESSION_ANSWERED, .join = join };

    if (m->status == MORSEL_NO_SESSION) {
        event.type = HOLDER_SESSION_REFUSED;
    }
    event.sent_ns = counts_from_ns(s, node, join ? c->join_sent_ms : c->renew_sent_ms);
    event.lease_ms = LEASE_MS;
    event.lease_epoch = m->lease_epoch;
    holder_step(s, node, event);
}

static void take_joined(struct sim *s, uint32_t node, const struct lease_message *m)
{
    take_session(s, node, true, m);
    copies_joined(s, node, m);
    locks_client_joined(s, node, m);
    holder_feed(s, node, HOLDER_LOSSES_TAKEN);
}

static void take_answer(struct sim *s, uint32_t node, struct call *call,
                        const struct lease_message *m)
{
    if (m->status == MORSEL_NO_SESSION) {
        holder_feed(s, node, HOLDER_IN_DOUBT);
        client_send(s, node, &call->message); /* Again, behind the JOIN. */
        return;
    }
    call->active = false;
    sim_trace(s, node, "has its answer for register %u, and holds %d", m->reg, (int)m->mode);
    lease_holder_answered(&world_of(s)->clients[node].holder,
                          counts_from_ns(s, node, call->sent_ms), sim_clock_ms(s, node));
    copies_learn(s, node, m);
}

static void client_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct client *c = &world_of(s)->clients[node];
    struct lease_message m;

    if (message->conn == c->store.conn) {
        store_client_receive(s, node, message);
        return;
    }
    if (message->conn != c->conn) {
        return;
    }
    memcpy(&m, message->data, sizeof(m));
    if (m.word == WORD_RECALL) {
        copies_recall(s, node, &m);
        return;
    }
    if (locks_client_answered(s, node, &m)) {
        return;
    }
    if (lease_holder_is_joining(&c->holder) && m.call == c->join.call) {
        take_joined(s, node, &m);
        return;
    }
    if (c->renew_call != 0 && m.call == c->renew_call) {
        c->renew_call = 0;
        take_session(s, node, false, &m);
        return;
    }
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        if (c->pending[i].active && c->pending[i].message.call == m.call) {
            take_answer(s, node, &c->pending[i], &m);
            return;
        }
    }
    if (m.status == MORSEL_NO_SESSION) {
        holder_feed(s, node, HOLDER_IN_DOUBT);
    } else {
        copies_reported(s, node, &m);
    }
}

/* ---- The scenario ---- */

static const struct sim_actor client_actor = { client_start, NULL, client_receive, client_down };

/* Nothing happens but that the manager stands still at times, and that the storage server is slow.
 */
static void be_calm(struct sim *s)
{
    s->options = (struct sim_options){ .delay_ms_max = s->options.delay_ms_max % 30,
                                       .drift_ppm_max = s->options.drift_ppm_max,
                                       .pause_permille = 4,
                                       .pause_ms_max = 2 * LEASE_MS };
    world_of(s)->calm = true;
    sim_worth(s, WORTH_CALM);
}

static void scenario_open(struct sim *s)
{
    static const char *const names[] = { "anna", "ben", "cleo", "dan" };
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    s->world = w;
    w->client_count = s->scripted ? 2 : 2 + (uint32_t)prng_below(&s->prng, CLIENTS_MAX - 1);
    if (s->canary == NULL || sim_canary(s, "counts_stalls") || sim_canary(s, "never_busy")) {
        s->options.pause_permille =
            prng_below(&s->prng, 2) == 0 ? 0 : (uint32_t)prng_below(&s->prng, 5);
        s->options.pause_ms_max = 2 * LEASE_MS;
        if (!s->scripted && prng_below(&s->prng, 5) == 0) {
            be_calm(s);
        }
    }
    w->give_up_ms = prng_below(&s->prng, 2) == 0 ? 1500 : 30000;
    if (sim_canary(s, "greets_at_once") || sim_canary(s, "keeps_lost_writes")) {
        s->options.break_permille += 60; /* Writes are sent again and again. */
        s->options.partition_permille += sim_canary(s, "keeps_lost_writes") ? 60 : 0;
        w->give_up_ms = 30000;
    }
    if (sim_canary(s, "locks_before_durable")) {
        s->options.break_permille += 30; /* Mounts that ask for their first lock again. */
    }
    if (sim_canary(s, "persist_late")) {
        s->options.power_permille += 15;
        s->options.crash_permille += 15;
        s->options.partition_permille += 20;
    }
    if (sim_canary(s, "no_margin") || sim_canary(s, "believes_overtaken")) {
        s->options.partition_permille += 20;
    }
    /* Answers that take longer than the margin, recalls that are not answered: make them likely. */
    if (sim_canary(s, "counts_from_reply") || sim_canary(s, "frees_before_told")) {
        s->options.delay_ms_max = 3 * LEASE_MARGIN_MS;
        s->options.partition_permille += 20;
    }
    (void)sim_node_add(s, "meta", &leases_manager, true);
    (void)sim_node_add(s, "store", &leases_store, true);
    db_init(&w->db, s, MANAGER);
    sim_start(s, MANAGER);
    sim_start(s, STORE);
    for (uint32_t i = 0; i < w->client_count; i++) {
        uint32_t node = sim_node_add(s, names[i], &client_actor, true);

        if (sim_canary(s, "no_margin")) {
            s->nodes[node].drift_ppm = -45000;
            s->nodes[MANAGER].drift_ppm = 45000;
        }
        if (!s->scripted) {
            sim_start_later(s, node, prng_below(&s->prng, 1000));
        }
    }
}

static void scenario_close(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t node = CLIENT_FIRST; node < CLIENT_FIRST + w->client_count; node++) {
        client_free(&w->clients[node]);
    }
    lease_table_free(w->leases);
    lock_table_free(w->lock_table);
    db_free(&w->db);
    free(w);
}

/* The tables are what they should be. (Not those of deliberate faults.) */
static bool scenario_check(struct sim *s)
{
    const struct world *w = world_of(s);

    if (s->canary != NULL || s->failed) {
        return !s->failed;
    }
    for (uint32_t node = CLIENT_FIRST; node < CLIENT_FIRST + w->client_count; node++) {
        if (s->nodes[node].up) {
            meta_cache_check(w->clients[node].cache);
            lock_holder_check(&w->clients[node].locks);
        }
    }
    if (w->lock_table != NULL) {
        lock_table_check(w->lock_table);
    }
    return true;
}

/* Clients begin nothing new: what waits comes to its end. */
static bool scenario_finish(struct sim *s)
{
    struct world *w = world_of(s);

    w->quiet = true;
    if (!sim_run_until(s, s->now_ms + QUIET_MS)) {
        return false;
    }
    for (uint32_t node = CLIENT_FIRST; node < CLIENT_FIRST + w->client_count; node++) {
        for (uint32_t i = 0; i < CALLS_MAX; i++) {
            if (w->clients[node].pending[i].active) {
                return sim_fail(s, "%s waits in vain although all is well again",
                                s->nodes[node].name);
            }
        }
        if (!lease_holder_is_joined(&w->clients[node].holder)) {
            return sim_fail(s, "%s has not joined although all is well again", s->nodes[node].name);
        }
    }
    if (lease_in_grace(w->leases) || w->parked_count > 0) {
        return sim_fail(s, "the manager makes wait although all is well again");
    }
    return locks_finish(s);
}

static const char *const canaries[] = { "grant_during_recall",
                                        "counts_from_reply",
                                        "no_grace",
                                        "persist_late",
                                        "no_margin",
                                        "greets_at_once",
                                        "never_too_late",
                                        "returns_unsure",
                                        "keeps_lost_locks",
                                        "believes_overtaken",
                                        "steps_down_unsaid",
                                        "converts_unsaid",
                                        "frees_when_gone",
                                        "frees_before_told",
                                        "locks_before_durable",
                                        "keeps_lost_writes",
                                        "counts_stalls",
                                        "never_busy",
                                        NULL };

/* In permille of the histories. */
static const struct sim_worth worth[] = {
    [WORTH_CACHED_READ] = { "reads from copies", 900 },
    [WORTH_HELD_BACK] = { "writes that are held back", 700 },
    [WORTH_STORED] = { "writes that land", 700 },
    [WORTH_TOO_LATE] = { "writes that are refused as too late", 60 },
    [WORTH_LOCKED] = { "locks that are had", 900 },
    [WORTH_STEPPED_DOWN] = { "steps down over a larger range", 300 },
    [WORTH_CONVERTED] = { "flocks that are converted", 900 },
    [WORTH_FENCED] = { "holders that are fenced", 10 },
    [WORTH_EXPIRED] = { "lease periods that end", 150 },
    [WORTH_HELD_UP] = { "holders that say that they are busy", 100 },
    [WORTH_EVICTED] = { "leases that are given back for want of room", 300 },
    [WORTH_CALM] = { "calm histories", 100 },
    { NULL, 0 }
};

static const struct sim_scenario scenario = { .name = "leases",
                                              .faults_ms = 16000,
                                              .healing_ms = 3000,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = scenario_check,
                                              .finish = scenario_finish,
                                              .canaries = canaries,
                                              .worth = worth };

int main(int argc, char **argv)
{
    static const struct sim_transcript transcripts[] = { { NULL, NULL, NULL } };

    return sim_main(argc, argv, &scenario, transcripts);
}
