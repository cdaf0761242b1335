/* Operation ids and retries: clients change one namespace through src/common/rpc/op_numbers.c and
 * src/meta/service/reply_cache.c, over datagrams that get lost, doubled and reordered, or over
 * connections that break, while the manager is killed and loses power.
 *
 * The checkers keep every change that was applied, in the order of the log, and a model of the
 * namespace; after a loss of power the model is made again from what is left. */
#include "tests/sim/ops.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>
#include <string.h>

struct world *world_of(struct sim *s)
{
    return s->world;
}

/* ---- A client ---- */

static void send_message(struct sim *s, uint32_t node, const struct op_message *m)
{
    struct world *w = world_of(s);

    if (w->datagrams) {
        sim_send_datagram(s, node, MANAGER, m, sizeof(*m));
    } else if (w->clients[node].conn != 0) {
        sim_send(s, node, w->clients[node].conn, m, sizeof(*m));
    }
}

static void send_fsync(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];
    struct op_message m = { .word = WORD_FSYNC, .client = c->id };

    m.sequence = c->fsync;
    send_message(s, node, &m);
}

/* Everything that waits is sent: after so long without an answer, or on a new connection. */
static void send_all(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        if (c->pending[i].active) {
            send_message(s, node, &c->pending[i].message);
        }
    }
    if (c->fsync != 0) {
        send_fsync(s, node);
    }
}

static void run_connect(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];

    (void)number;
    c->conn = sim_connect(s, node, MANAGER);
    if (c->conn == 0) {
        sim_after(s, node, RECONNECT_MS, run_connect, 0);
    } else {
        send_all(s, node);
    }
}

static void end_pending(struct sim *s, uint32_t node, struct pending *p)
{
    struct client *c = &world_of(s)->clients[node];

    p->active = false;
    op_numbers_return(&c->numbers, p->message.sequence);
}

static void run_retry(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);
    struct client *c = &w->clients[node];

    (void)number;
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        struct pending *p = &c->pending[i];

        if (p->active && s->now_ms >= p->started_ms + TIMEOUT_MS) {
            if (!s->faulty && p->started_ms > w->healed_ms && w->healed_ms > 0) {
                (void)sim_fail(s, "%s waits in vain although all is well again",
                               s->nodes[node].name);
            }
            end_pending(s, node, p);
        }
        if (p->active && sim_canary(s, "early_return") && s->now_ms > p->started_ms + RETRY_MS) {
            p->message.answered = p->message.sequence; /* As if it had the answer. */
        }
    }
    if (w->datagrams) {
        send_all(s, node);
    }
    sim_after(s, node, RETRY_MS, run_retry, 0);
}

static inode_id draw_known(struct sim *s, const struct client *c)
{
    inode_id id = c->known[prng_below(&s->prng, KNOWN_MAX)];

    return id == INODE_NONE || prng_below(&s->prng, 2) == 0 ? INODE_ROOT : id;
}

static void draw_name(struct sim *s, char name[MODEL_NAME_BYTES])
{
    name[0] = (char)('a' + prng_below(&s->prng, 5));
    name[1] = 0;
}

static void draw_change(struct sim *s, const struct client *c, struct change *change)
{
    memset(change, 0, sizeof(*change));
    change->kind = (enum change_kind)prng_below(&s->prng, CHANGE_LINK + 1);
    change->parent = draw_known(s, c);
    change->new_parent = draw_known(s, c);
    change->inode = draw_known(s, c);
    draw_name(s, change->name);
    draw_name(s, change->new_name);
}

static void begin(struct sim *s, uint32_t node, struct pending *p, const struct change *change)
{
    struct client *c = &world_of(s)->clients[node];

    *p = (struct pending){ .active = true, .started_ms = s->now_ms };
    p->message.word = WORD_CHANGE;
    p->message.client = c->id;
    p->message.sequence = op_numbers_take(&c->numbers, 0);
    p->message.answered = c->numbers.answered;
    p->message.change = *change;
    CHECK(p->message.sequence != 0);
    send_message(s, node, &p->message);
}

/* Begin something new, or not. */
static void run_think(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = &world_of(s)->clients[node];
    struct pending *p = &c->pending[prng_below(&s->prng, PENDING_MAX)];
    struct change change;

    (void)number;
    if (s->scripted) {
        return;
    }
    sim_after(s, node, prng_below(&s->prng, THINK_MS_MAX), run_think, 0);
    if (!p->active) {
        draw_change(s, c, &change);
        begin(s, node, p, &change);
    } else if (c->fsync == 0 && prng_below(&s->prng, 4) == 0) {
        c->fsync = s->now_ms + 1;
        send_fsync(s, node);
    }
}

static void client_start(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    memset(c, 0, sizeof(*c));
    c->id = prng_next(&s->prng) | 1;
    op_numbers_init(&c->numbers, c->numbers_out, CLIENT_OPS_PENDING_MAX);
    if (!world_of(s)->datagrams) {
        run_connect(s, node, 0);
    }
    sim_after(s, node, 0, run_think, 0);
    sim_after(s, node, RETRY_MS, run_retry, 0);
}

static void client_down(struct sim *s, uint32_t node, uint32_t conn)
{
    struct client *c = &world_of(s)->clients[node];

    if (c->conn == conn) {
        c->conn = 0;
        sim_after(s, node, prng_below(&s->prng, RECONNECT_MS), run_connect, 0);
    }
}

static void take_answer(struct sim *s, uint32_t node, struct pending *p, const struct op_message *m)
{
    struct world *w = world_of(s);
    struct applied *a = find_applied(w, m->client, m->sequence);

    if (m->status != 0) {
        CHECK(w->refused_count < REFUSED_MAX);
        w->refused[w->refused_count++] = (struct refused){ m->client, m->sequence };
        if (a != NULL && !w->datagrams) {
            (void)sim_fail(s, "%s takes a no for change %llu, which was applied",
                           s->nodes[node].name, (unsigned long long)m->sequence);
        }
    } else if (m->outcome.target != INODE_NONE && !m->outcome.deleted) {
        w->clients[node].known[prng_below(&s->prng, KNOWN_MAX)] = m->outcome.target;
    }
    end_pending(s, node, p);
}

static void client_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct client *c = &world_of(s)->clients[node];
    struct op_message m;

    memcpy(&m, message->data, sizeof(m));
    if (message->conn != c->conn) {
        return;
    }
    if (m.client == 0) {
        c->fsync = m.sequence == c->fsync ? 0 : c->fsync;
        return;
    }
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        if (m.client == c->id && c->pending[i].active &&
            c->pending[i].message.sequence == m.sequence) {
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
    w->datagrams = s->scripted || prng_below(&s->prng, 2) == 0;
    if (sim_canary(s, "old_connections")) { /* A rare meeting: make it likely. */
        w->datagrams = false;
        s->options.late_permille = 1000;
        s->options.break_permille = 100;
        s->options.delay_ms_max = 200;
    }
    w->client_count = 1 + (uint32_t)prng_below(&s->prng, CLIENTS_MAX);
    (void)sim_node_add(s, "meta", &ops_manager, true);
    db_init(&w->db, s, MANAGER);
    model_init(&w->model);
    w->count = w->durable = 1; /* OP_FORMAT */
    sim_start(s, MANAGER);
    for (uint32_t i = 1; i <= w->client_count; i++) {
        uint32_t node = sim_node_add(s, names[i], &client_actor, true);

        sim_start(s, node);
    }
}

static void scenario_close(struct sim *s)
{
    struct world *w = world_of(s);

    reply_cache_free(w->window);
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

static bool scenario_finish(struct sim *s)
{
    check_namespace(s);
    return !s->failed;
}

static const char *const canaries[] = { "no_window",    "empty_window",    "lying_fsync",
                                        "early_return", "old_connections", NULL };

/* In permille of the histories. */
static const struct sim_worth worth[] = {
    [WORTH_AGAIN] = { "retries that get the old answer", 300 },
    [WORTH_DONE] = { "operations", 990 },
    [WORTH_TAKEN_BACK] = { "operations that a loss of power takes back", 15 },
    { NULL, 0 }
};

static const struct sim_scenario scenario = { .name = "ops",
                                              .faults_ms = 2500,
                                              .healing_ms = 3500,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = scenario_check,
                                              .finish = scenario_finish,
                                              .canaries = canaries,
                                              .worth = worth };

/* ---- Transcripts ---- */

enum { ANNA = 1 };

/* The change arrives, its answer does not. */
static void ask_in_vain(struct sim *s, enum change_kind kind)
{
    struct change change = { .kind = kind, .parent = INODE_ROOT, .name = "a" };

    begin(s, ANNA, &world_of(s)->clients[ANNA].pending[0], &change);
    s->options.loss_permille = 1000;
    sim_run_until(s, s->now_ms + 1);
    s->options.loss_permille = 0;
}

static bool a_lost_answer(struct sim *s)
{
    ask_in_vain(s, CHANGE_MAKE_FILE);
    sim_run_until(s, 200);
    ask_in_vain(s, CHANGE_MAKE_FILE);
    sim_run_until(s, 400);
    return sim_expect(s, "[    0] meta > start behind operation 1 of 1\n"
                         "[    0] meta > anna 1: done\n"
                         "[   60] meta > anna 1: done (again)\n"
                         "[  200] meta > anna 2: MORSEL_EXIST\n"
                         "[  240] meta > anna 2: MORSEL_EXIST\n");
}

static bool a_lost_answer_and_a_restart(struct sim *s)
{
    ask_in_vain(s, CHANGE_MAKE_FILE);
    sim_crash(s, MANAGER, false);
    sim_run_until(s, 100);
    sim_start(s, MANAGER);
    sim_run_until(s, 200);
    return sim_expect(s, "[    0] meta > start behind operation 1 of 1\n"
                         "[    0] meta > anna 1: done\n"
                         "[    1] meta > ** process is killed\n"
                         "[  100] meta > start behind operation 3 of 3\n"
                         "[  120] meta > anna 1: done (again)\n");
}

static bool a_lost_answer_and_a_loss_of_power(struct sim *s)
{
    ask_in_vain(s, CHANGE_MAKE_FILE);
    sim_crash(s, MANAGER, true);
    sim_run_until(s, 100);
    sim_start(s, MANAGER);
    sim_run_until(s, 200);
    return sim_expect(s, "[    0] meta > start behind operation 1 of 1\n"
                         "[    0] meta > anna 1: done\n"
                         "[    1] meta > ** power is lost\n"
                         "[    1] meta > 0 of 1 unsynced batches survived\n"
                         "[  100] meta > start behind operation 2 of 3\n"
                         "[  120] meta > anna 1: done\n");
}

int main(int argc, char **argv)
{
    static const struct sim_transcript transcripts[] = {
        { "a_lost_answer", a_lost_answer, NULL },
        { "a_lost_answer_and_a_restart", a_lost_answer_and_a_restart, NULL },
        { "a_lost_answer_and_a_loss_of_power", a_lost_answer_and_a_loss_of_power, NULL },
        { NULL, NULL, NULL },
    };

    return sim_main(argc, argv, &scenario, transcripts);
}
