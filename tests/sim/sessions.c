/* Sessions and open files: src/meta/coherence/session.c with clients that come, go, fall silent and
 * are cut off, on clocks that drift, while the manager is killed and loses power.
 *
 * The clients behave as src/client/manager/session_uv.c. */
#include "tests/sim/sessions.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>
#include <string.h>

enum {
    RECONNECT_MS = 50,
    BACKOFF_MS_MAX = 800,
    THINK_MS_MAX = 150,
    QUIET_MS = 1500,
    SETTLED_MS = 3500 /* After healing: what was stuck has come through. */
};

struct world *world_of(struct sim *s)
{
    return s->world;
}

/* ---- Checkers ---- */

/* Heard of within the session time, or the manager has started since and waits for it, that time in
 * all. */
static bool session_lives(struct sim *s, uint32_t node)
{
    const struct world *w = world_of(s);
    uint64_t now_ms = sim_clock_ms(s, MANAGER);

    if (w->heard_ms[node] != 0) {
        return now_ms < w->heard_ms[node] + SESSION_MS;
    }
    return now_ms < w->started_ms + SESSION_MS &&
           now_ms + w->waited_ms[node] < w->started_ms + PATIENCE_MS + SESSION_MS;
}

void check_destroyed(struct sim *s, inode_id inode)
{
    struct world *w = world_of(s);

    for (uint32_t node = 1; node <= w->client_count; node++) {
        const struct client *c = &w->clients[node];

        for (uint32_t i = 0; s->nodes[node].up && i < c->open_count; i++) {
            if (c->open[i] == inode && session_lives(s, node)) {
                (void)sim_fail(s, "inode %llu is destroyed while %s holds it open",
                               (unsigned long long)inode, s->nodes[node].name);
            }
        }
    }
}

/* ---- A client ---- */

static void send_message(struct sim *s, uint32_t node, struct session_message *m)
{
    struct client *c = &world_of(s)->clients[node];

    m->client = c->id;
    if (c->conn != 0) {
        sim_send(s, node, c->conn, m, sizeof(*m));
    }
}

/* Each request is its own; only the newest one counts. */
static void send_ask(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    memset(&c->ask, 0, sizeof(c->ask));
    c->ask.word = WORD_ASK;
    c->ask.call = ++c->calls;
    c->ask.opens_count = c->open_count;
    memcpy(c->ask.opens, c->open, sizeof(c->open));
    c->asking = true;
    send_message(s, node, &c->ask);
}

static void run_ask(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];

    (void)number;
    if (!c->asking && c->conn != 0) {
        send_ask(s, node);
    }
    sim_after(s, node, SESSION_MS / 3, run_ask, 0);
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
    send_ask(s, node); /* First of all. */
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        if (c->pending[i].active) {
            send_message(s, node, &c->pending[i].message);
        }
    }
}

/* Tell the manager, unless the file is open through another descriptor or about to be. Lost with
 * the connection: the next ASK lists what is open. */
static void send_close(struct sim *s, uint32_t node, inode_id inode)
{
    struct client *c = &world_of(s)->clients[node];
    struct session_message m = { .word = WORD_CLOSE, .inode = inode };

    for (uint32_t i = 0; i < c->open_count; i++) {
        if (c->open[i] == inode) {
            return;
        }
    }
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        if (c->pending[i].active && c->pending[i].message.inode == inode) {
            return;
        }
    }
    sim_trace(s, node, "closes inode %llu", (unsigned long long)inode);
    send_message(s, node, &m);
}

static void close_one(struct sim *s, uint32_t node, uint32_t which)
{
    struct client *c = &world_of(s)->clients[node];
    inode_id inode = c->open[which];

    c->open[which] = c->open[--c->open_count];
    send_close(s, node, inode);
}

static void begin_call(struct sim *s, uint32_t node, struct call *call, enum word word, char name,
                       inode_id inode)
{
    *call = (struct call){ .active = true, .started_ms = s->now_ms };
    call->message.word = word;
    call->message.call = ++world_of(s)->clients[node].calls;
    call->message.name[0] = name;
    call->message.inode = inode;
    send_message(s, node, &call->message);
}

static void draw_call(struct sim *s, uint32_t node, struct call *call)
{
    static const enum word words[] = { WORD_READ, WORD_MAKE, WORD_UNLINK, WORD_OPEN };
    const struct world *w = world_of(s);
    enum word word = words[prng_below(&s->prng, ARRAY_COUNT(words))];
    char name = (char)('a' + prng_below(&s->prng, 4));
    uint32_t newest = w->made_count < 4 ? w->made_count : 4;
    inode_id inode = INODE_NONE;

    if (word == WORD_OPEN && newest > 0) {
        inode = w->made[w->made_count - 1 - prng_below(&s->prng, newest)];
    }
    begin_call(s, node, call, inode == INODE_NONE && word == WORD_OPEN ? WORD_READ : word, name,
               inode);
}

static void run_think(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];
    struct call *call = &c->pending[prng_below(&s->prng, CALLS_MAX)];

    (void)number;
    if (world_of(s)->quiet) {
        return;
    }
    if (c->open_count > 0 && (c->open_count > 4 || prng_below(&s->prng, 4) == 0)) {
        close_one(s, node, (uint32_t)prng_below(&s->prng, c->open_count));
    } else if (!call->active) {
        draw_call(s, node, call);
    }
    sim_after(s, node, prng_below(&s->prng, THINK_MS_MAX), run_think, 0);
}

static void client_start(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct client *c = &w->clients[node];

    memset(c, 0, sizeof(*c));
    c->id = prng_next(&s->prng) | 1;
    run_connect(s, node, 0);
    sim_after(s, node, 0, run_think, 0);
    sim_after(s, node, SESSION_MS / 3, run_ask, 0);
}

static void client_down(struct sim *s, uint32_t node, uint32_t conn)
{
    struct client *c = &world_of(s)->clients[node];
    uint64_t most_ms;

    if (c->conn == conn) {
        c->conn = 0;
        /* Some come back at once, some after a longer backoff: others may be served before them. */
        most_ms = s->scripted || prng_below(&s->prng, 3) > 0 ? RECONNECT_MS : BACKOFF_MS_MAX;
        sim_after(s, node, prng_below(&s->prng, most_ms), run_connect, 0);
    }
}

static void take_answer(struct sim *s, uint32_t node, struct call *call,
                        const struct session_message *m)
{
    struct world *w = world_of(s);
    struct client *c = &w->clients[node];

    call->active = false;
    if (m->status == 0 && call->message.word == WORD_OPEN) {
        CHECK(c->open_count < OPENS_MAX);
        c->open[c->open_count++] = call->message.inode;
        sim_trace(s, node, "holds inode %llu open", (unsigned long long)call->message.inode);
    }
    if (m->status != 0 && call->message.word == WORD_OPEN) {
        send_close(s, node, call->message.inode); /* A close may have relied on this open. */
    }
    if (m->status == MORSEL_NO_SESSION && w->healed_ms > 0 &&
        call->started_ms > w->healed_ms + SETTLED_MS) {
        (void)sim_fail(s, "%s has no session although all is well again", s->nodes[node].name);
    }
}

static void client_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct client *c = &world_of(s)->clients[node];
    struct session_message m;

    memcpy(&m, message->data, sizeof(m));
    if (message->conn != c->conn) {
        return;
    }
    if (c->asking && m.call == c->ask.call) {
        c->asking = false;
        return;
    }
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        if (c->pending[i].active && c->pending[i].message.call == m.call) {
            take_answer(s, node, &c->pending[i], &m);
            return;
        }
    }
}

/* ---- The scenario ---- */

static const struct sim_actor client_actor = { client_start, NULL, client_receive, client_down };

static void scenario_open(struct sim *s)
{
    static const char *const names[] = { "", "anna", "ben", "cleo", "dan" };
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    s->world = w;
    if (!s->scripted) {
        s->options.crash_permille += 4; /* Restarts are what this scenario is about. */
    }
    if (sim_canary(s, "old_connections")) { /* A rare meeting: make it likely. */
        s->options.late_permille = 1000;
        s->options.break_permille = 60;
        s->options.delay_ms_max = 200;
    }
    w->quiet = s->scripted;
    w->run = 1;
    w->client_count = 2 + (uint32_t)prng_below(&s->prng, CLIENTS_MAX - 1);
    (void)sim_node_add(s, "meta", &sessions_manager, true);
    db_init(&w->db, s, MANAGER);
    sim_start(s, MANAGER);
    for (uint32_t i = 1; i <= w->client_count; i++) {
        uint32_t node = sim_node_add(s, names[i], &client_actor, true);

        if (!s->scripted) {
            sim_start_later(s, node, i == 1 ? 0 : prng_below(&s->prng, s->scenario->faults_ms));
        }
    }
}

static void scenario_close(struct sim *s)
{
    struct world *w = world_of(s);

    session_table_free(w->sessions);
    db_free(&w->db);
    free(w);
}

static bool scenario_check(struct sim *s)
{
    if (!s->faulty && world_of(s)->healed_ms == 0) {
        world_of(s)->healed_ms = s->now_ms;
    }
    return !s->failed;
}

static bool somebody_holds(const struct world *w, inode_id inode)
{
    for (uint32_t node = 1; node <= w->client_count; node++) {
        for (uint32_t i = 0; i < w->clients[node].open_count; i++) {
            if (w->clients[node].open[i] == inode) {
                return true;
            }
        }
    }
    return false;
}

/* Clients begin nothing new: calls end, and orphans that nobody holds go. */
static bool scenario_finish(struct sim *s)
{
    struct world *w = world_of(s);
    inode_id orphans[64];
    struct errmsg err;
    uint32_t count = 0;
    int rv;

    w->quiet = true;
    if (!sim_run_until(s, s->now_ms + QUIET_MS)) {
        return false;
    }
    rv = ns_orphans(w->db.ns, 1, orphans, 64, &count, &err);
    CHECK(rv == 0);
    for (uint32_t i = 0; i < count; i++) {
        if (!somebody_holds(w, orphans[i])) {
            return sim_fail(s, "nobody holds the unlinked inode %llu, but it stays",
                            (unsigned long long)orphans[i]);
        }
    }
    for (uint32_t node = 1; node <= w->client_count; node++) {
        for (uint32_t i = 0; i < CALLS_MAX; i++) {
            if (w->clients[node].pending[i].active) {
                return sim_fail(s, "%s waits in vain although all is well again",
                                s->nodes[node].name);
            }
        }
    }
    return true;
}

static const char *const canaries[] = { "old_connections", "no_grace", "collects_held",
                                        "keeps_no_sessions", NULL };

/* In permille of the histories. */
static const struct sim_worth worth[] = {
    [WORTH_SILENT] = { "sessions that end in silence", 50 },
    [WORTH_GONE] = { "inodes that go for good", 500 },
    [WORTH_GRACE] = { "grace periods that end", 100 },
    [WORTH_WAITED] = { "clients that are waited for in more than one start", 20 },
    { NULL, 0 }
};

static const struct sim_scenario scenario = { .name = "sessions",
                                              .faults_ms = 4000,
                                              .healing_ms = 4000,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = scenario_check,
                                              .finish = scenario_finish,
                                              .canaries = canaries,
                                              .worth = worth };

/* ---- Transcripts ---- */

enum { ANNA = 1 };

static void tell(struct sim *s, uint32_t node, enum word word, inode_id inode)
{
    begin_call(s, node, &world_of(s)->clients[node].pending[0], word, 'a', inode);
    sim_run_until(s, s->now_ms + 1);
}

static bool an_open_file_outlives_name_and_manager(struct sim *s)
{
    sim_start(s, ANNA);
    sim_run_until(s, 1);
    tell(s, ANNA, WORD_MAKE, INODE_NONE);
    tell(s, ANNA, WORD_OPEN, world_of(s)->made[0]);
    tell(s, ANNA, WORD_UNLINK, INODE_NONE);
    sim_run_until(s, 300);
    sim_crash(s, MANAGER, false);
    sim_start(s, MANAGER);
    sim_run_until(s, 3000);
    close_one(s, ANNA, 0);
    sim_run_until(s, 3100);
    return sim_expect(s, "[    0] meta > start\n"
                         "[    0] meta > admit anna\n"
                         "[    2] anna > holds inode 131074 open\n"
                         "[  300] meta > ** process is killed\n"
                         "[  300] anna > ** connection 1 breaks\n"
                         "[  300] meta > start, grace begins\n"
                         "[  314] meta > admit anna\n"
                         "[  414] meta > grace is over\n"
                         "[ 3000] anna > closes inode 131074\n"
                         "[ 3000] meta > inode 131074 is gone for good\n");
}

int main(int argc, char **argv)
{
    static const struct sim_transcript transcripts[] = {
        { "an_open_file_outlives_name_and_manager", an_open_file_outlives_name_and_manager, NULL },
        { NULL, NULL, NULL },
    };

    return sim_main(argc, argv, &scenario, transcripts);
}
