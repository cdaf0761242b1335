/* The storage server of the leases scenario, and how its clients write to it: as
 * src/common/rpc/rpc_*_uv.c, src/common/serve/jobs_uv.c and src/client/data/chunk_uv.c do. The
 * server knows nothing of leases; each write says until when it may land (common/rpc/frame.h).
 *
 * The checker: what a client has sent under a lease does not land once the manager has served
 * anybody else. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "tests/sim/leases.h"

#include <string.h>

enum {
    STORE_CLOCK_MS = 2000, /* Between questions for its clock. */
    STORE_LOOK_MS = 100,
    STORE_RECONNECT_MS = 50,
    STORE_SLOW_MS_MAX = 8000 /* A write that waits for the disk, at times. */
};

/* ---- The server ---- */

static void answer(struct sim *s, uint32_t conn, const struct store_message *m, int status)
{
    struct store_message r = { .word = STORE_DONE, .call = m->call, .status = status };

    r.clock_ms = sim_clock_ms(s, STORE);
    sim_send(s, STORE, conn, &r, sizeof(r));
}

static bool is_busy_for(const struct world *w, client_id client, uint32_t conn)
{
    for (uint32_t i = 0; i < STORE_JOBS_MAX; i++) {
        if (w->store_jobs[i].active && w->store_jobs[i].message.client == client &&
            w->store_jobs[i].conn != conn) {
            return true;
        }
    }
    return false;
}

static void greet(struct sim *s, uint32_t conn)
{
    struct world *w = world_of(s);
    struct store_message m = { .word = STORE_CLOCK };

    if (is_busy_for(w, w->store_client[conn], conn) && !sim_canary(s, "greets_at_once")) {
        return; /* When the last of its jobs has ended. */
    }
    w->store_greeted[conn] = true;
    answer(s, conn, &m, 0);
}

static void run_job(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < STORE_JOBS_MAX; i++) {
        struct store_job *job = &w->store_jobs[i];
        const struct store_message *m = &job->message;
        bool late =
            frame_is_late(m->not_after, sim_clock_ms(s, node)) && !sim_canary(s, "never_too_late");

        if (!job->active || job->number != number) {
            continue;
        }
        job->active = false;
        if (!late && others_served(w, m->client, m->reg) != m->served) {
            (void)sim_fail(s,
                           "a write of %s to register %u lands although others were served since",
                           name_of(s, m->client), m->reg);
        }
        sim_worth(s, late ? WORTH_TOO_LATE : WORTH_STORED);
        answer(s, job->conn, m, late ? MORSEL_TOO_LATE : 0);
    }
    for (uint32_t conn = 1; conn <= s->conn_count && conn < CONNS_MAX; conn++) {
        if (w->store_client[conn] != 0 && !w->store_greeted[conn] && s->conns[conn - 1].open[1]) {
            greet(s, conn);
        }
    }
}

static void begin_job(struct sim *s, uint32_t conn, const struct store_message *m)
{
    struct world *w = world_of(s);
    uint64_t delay_ms = prng_below(&s->prng, 12) == 0 ? prng_below(&s->prng, STORE_SLOW_MS_MAX)
                                                      : prng_below(&s->prng, 3);

    for (uint32_t i = 0; i < STORE_JOBS_MAX; i++) {
        struct store_job *job = &w->store_jobs[i];

        if (!job->active) {
            *job = (struct store_job){ true, ++w->store_jobs_begun, conn, *m };
            sim_after(s, STORE, delay_ms, run_job, job->number);
            return;
        }
    }
    answer(s, conn, m, MORSEL_OVERLOAD);
}

/* A client that connects anew has given up its other connections. */
static void supersede(struct sim *s, client_id client, uint32_t conn)
{
    const struct world *w = world_of(s);

    for (uint32_t i = 1; i <= s->conn_count && i < CONNS_MAX; i++) {
        if (i != conn && w->store_client[i] == client && s->conns[i - 1].open[1]) {
            sim_hang_up(s, STORE, i);
        }
    }
}

static void store_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct world *w = world_of(s);
    struct store_message m;

    (void)node;
    memcpy(&m, message->data, sizeof(m));
    CHECK(message->conn < CONNS_MAX);
    if (w->store_client[message->conn] == 0) {
        w->store_client[message->conn] = m.client;
        supersede(s, m.client, message->conn);
        greet(s, message->conn);
    } else if (m.word == STORE_CLOCK) {
        answer(s, message->conn, &m, 0);
    } else {
        begin_job(s, message->conn, &m);
    }
}

static void store_start(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);

    (void)node;
    for (uint32_t i = 0; i < STORE_JOBS_MAX; i++) {
        w->store_jobs[i].active = false;
    }
}

const struct sim_actor leases_store = { store_start, NULL, store_receive, NULL };

/* ---- A client's side ---- */

static void send_clock(struct sim *s, uint32_t node)
{
    const struct client *c = &world_of(s)->clients[node];
    struct store_message m = { .word = STORE_CLOCK, .client = c->id };

    sim_send(s, node, c->store.conn, &m, sizeof(m));
}

static void run_connect(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];

    (void)number;
    c->store.greeted = false;
    c->store.conn = sim_connect(s, node, STORE);
    if (c->store.conn == 0) {
        sim_after(s, node, STORE_RECONNECT_MS, run_connect, 0);
    } else {
        send_clock(s, node);
    }
}

static void send_write(struct sim *s, uint32_t node, struct store_write *write)
{
    const struct client *c = &world_of(s)->clients[node];
    struct store_message m = { .word = STORE_WRITE, .client = c->id, .call = write->call };

    m.reg = write->reg;
    m.served = write->served;
    m.not_after = frame_not_after(lease_holder_until_ns(&c->holder) / NS_PER_MS, c->store.clock_ms,
                                  c->store.noted_ms);
    sim_send(s, node, c->store.conn, &m, sizeof(m));
}

void store_write_begin(struct sim *s, uint32_t node, uint32_t reg)
{
    struct world *w = world_of(s);
    struct client *c = &w->clients[node];

    for (uint32_t i = 0; i < STORE_WRITES_MAX; i++) {
        struct store_write *write = &c->store.writes[i];

        if (!write->active) {
            *write = (struct store_write){ .active = true, .call = ++c->store.calls, .reg = reg };
            write->sent_ms = sim_clock_ms(s, node);
            write->served = others_served(w, c->id, reg);
            if (c->store.greeted) {
                send_write(s, node, write);
            }
            return;
        }
    }
}

bool store_is_written(const struct client *c, uint32_t reg)
{
    for (uint32_t i = 0; i < STORE_WRITES_MAX; i++) {
        if (c->store.writes[i].active && c->store.writes[i].reg == reg) {
            return true;
        }
    }
    return false;
}

static void give_up(struct sim *s, uint32_t node, struct store_write *write)
{
    write->active = false;
    if (!sim_canary(s, "returns_unsure")) {
        holder_feed(s, node, HOLDER_UNSURE);
        world_of(s)->clients[node].copies[write->reg].unsure = true;
    }
    copies_settle(s, node);
}

void store_lose(struct sim *s, uint32_t node, uint32_t reg)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t i = 0; i < STORE_WRITES_MAX && !sim_canary(s, "keeps_lost_writes"); i++) {
        if (c->store.writes[i].reg == reg) {
            c->store.writes[i].active = false;
        }
    }
}

static void run_look(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];
    uint64_t now_ms = sim_clock_ms(s, node);

    for (uint32_t i = 0; i < STORE_WRITES_MAX; i++) {
        if (c->store.writes[i].active &&
            now_ms > c->store.writes[i].sent_ms + world_of(s)->give_up_ms) {
            give_up(s, node, &c->store.writes[i]);
        }
    }
    if (c->store.greeted && now_ms >= c->store.asked_ms + STORE_CLOCK_MS) {
        c->store.asked_ms = now_ms;
        send_clock(s, node);
    }
    sim_after(s, node, STORE_LOOK_MS, run_look, number);
}

void store_client_start(struct sim *s, uint32_t node)
{
    run_connect(s, node, 0);
    run_look(s, node, 0);
}

void store_client_down(struct sim *s, uint32_t node)
{
    world_of(s)->clients[node].store.conn = 0;
    world_of(s)->clients[node].store.greeted = false;
    sim_after(s, node, prng_below(&s->prng, STORE_RECONNECT_MS), run_connect, 0);
}

static void take_clock(struct sim *s, uint32_t node, uint64_t clock_ms)
{
    struct client *c = &world_of(s)->clients[node];

    c->store.clock_ms = clock_ms;
    c->store.noted_ms = sim_clock_ms(s, node);
    if (c->store.greeted) {
        return;
    }
    c->store.greeted = true;
    for (uint32_t i = 0; i < STORE_WRITES_MAX; i++) {
        if (c->store.writes[i].active) {
            send_write(s, node, &c->store.writes[i]);
        }
    }
}

void store_client_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct client *c = &world_of(s)->clients[node];
    struct store_message m;

    memcpy(&m, message->data, sizeof(m));
    if (m.call == 0) {
        take_clock(s, node, m.clock_ms);
    }
    for (uint32_t i = 0; i < STORE_WRITES_MAX; i++) {
        struct store_write *write = &c->store.writes[i];

        if (write->active && write->call == m.call && m.status == MORSEL_OVERLOAD) {
            give_up(s, node, write);
        } else if (write->active && write->call == m.call) {
            write->active = false; /* Done; or refused for good, which is as well here. */
            copies_settle(s, node);
        }
    }
}
