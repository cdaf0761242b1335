/* Storage servers register, send heartbeats, fall silent and come back, while the manager is killed
 * and loses power: src/meta/cluster/members.c over connections that break.
 *
 * The servers behave as src/common/serve/membership_uv.c and src/iod/heartbeat_uv.c. One token is
 * served by two processes at times. */
#include "tests/sim/members.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>
#include <string.h>

struct world *world_of(struct sim *s)
{
    return s->world;
}

/* ---- A server ---- */

static struct process *process_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->processes[node];
}

static void run_connect(struct sim *s, uint32_t node, uint64_t number);
static void run_word(struct sim *s, uint32_t node, uint64_t number);

static void send_word(struct sim *s, uint32_t node)
{
    struct process *p = process_of(s, node);
    struct member_message m = { .word = p->word, .call = p->call, .token = p->token };

    m.hello_id = p->hello_id;
    m.id = world_of(s)->directory_id[p->token];
    sim_send(s, node, p->conn, &m, sizeof(m));
}

static void run_call_expired(struct sim *s, uint32_t node, uint64_t number)
{
    struct process *p = process_of(s, node);

    if (p->calling && p->call == number) {
        p->calling = p->registered = false;
        sim_after(s, node, RETRY_MS, run_word, p->call);
    }
}

/* The next word to the manager. `number` is the call that went before. */
static void run_word(struct sim *s, uint32_t node, uint64_t number)
{
    struct process *p = process_of(s, node);

    if (p->calling || p->call != number) {
        return;
    }
    p->calling = true;
    p->call++;
    p->word = p->registered ? WORD_HEARTBEAT : WORD_REGISTER;
    sim_after(s, node, CALL_MS, run_call_expired, p->call);
    if (p->conn != 0) {
        send_word(s, node);
    }
}

static void run_connect(struct sim *s, uint32_t node, uint64_t number)
{
    struct process *p = process_of(s, node);

    (void)number;
    p->hello_id = world_of(s)->directory_id[p->token];
    p->conn = sim_connect(s, node, MANAGER);
    if (p->conn == 0) {
        sim_after(s, node, RECONNECT_MS, run_connect, 0);
    } else if (p->calling) {
        send_word(s, node); /* Sent again on the new connection. */
    } else {
        p->registered = false;
        run_word(s, node, p->call);
    }
}

static void process_start(struct sim *s, uint32_t node)
{
    struct process *p = process_of(s, node);

    p->conn = 0;
    p->registered = p->calling = false;
    p->call = s->now_ms << 16; /* Numbers of an earlier life mean nothing. */
    run_connect(s, node, 0);
}

static void process_down(struct sim *s, uint32_t node, uint32_t conn)
{
    struct process *p = process_of(s, node);

    if (p->conn == conn) {
        p->conn = 0;
        p->registered = false;
        sim_after(s, node, prng_below(&s->prng, RECONNECT_MS), run_connect, 0);
    }
}

static void process_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct process *p = process_of(s, node);
    struct member_message m;

    memcpy(&m, message->data, sizeof(m));
    if (!p->calling || m.call != p->call || message->conn != p->conn) {
        return;
    }
    p->calling = false;
    if (m.status != 0) {
        p->registered = false;
        sim_after(s, node, RETRY_MS, run_word, p->call);
        return;
    }
    if (p->word == WORD_REGISTER) {
        sim_trace(s, node, "I am server %u", m.id);
        world_of(s)->directory_id[p->token] = m.id;
        p->registered = true;
    }
    sim_after(s, node, HEARTBEAT_MS, run_word, p->call);
}

/* ---- The scenario ---- */

static const struct sim_actor process_actor = { process_start, NULL, process_receive,
                                                process_down };

static void scenario_open(struct sim *s)
{
    static const char *const names[] = { "s1", "s2", "s3", "s4", "s5", "twin" };
    struct world *w = calloc(1, sizeof(*w));
    uint32_t servers = s->scripted ? 2 : 2 + (uint32_t)prng_below(&s->prng, PROCESSES_MAX - 2);
    bool twin = s->scripted || prng_below(&s->prng, 2) == 0;

    CHECK(w != NULL);
    s->world = w;
    (void)sim_node_add(s, "meta", &members_manager, true);
    db_init(&w->db, s, MANAGER);
    w->slow_persist = !s->scripted && prng_below(&s->prng, 2) == 0;
    w->process_count = servers + twin;
    sim_start(s, MANAGER);
    for (uint32_t i = 0; i < w->process_count; i++) {
        bool is_twin = i == servers;
        uint32_t node =
            sim_node_add(s, names[is_twin ? PROCESSES_MAX - 1 : i], &process_actor, true);

        w->processes[node].token = is_twin ? 0 : i;
        if (!s->scripted) {
            sim_start_later(s, node, i == 0 ? 0 : prng_below(&s->prng, JOIN_MS_MAX));
        }
    }
}

static void scenario_close(struct sim *s)
{
    db_free(&world_of(s)->db);
    free(s->world);
}

static bool scenario_finish(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t node = 1; node <= w->process_count; node++) {
        server_id id = w->directory_id[w->processes[node].token];
        const struct member *member = id == 0 ? NULL : members_find(&w->members, id);

        if (member == NULL || !member->up) {
            return sim_fail(s, "%s is not up although all is well again", s->nodes[node].name);
        }
    }
    return true;
}

static const char *const canaries[] = { "speaks_before_durable", "no_tick", "gone_by_name", NULL };

/* In permille of the histories. */
static const struct sim_worth worth[] = { [WORTH_REFUSED] = { "servers that are refused", 100 },
                                          [WORTH_DOWN] = { "servers that are down", 100 },
                                          [WORTH_WELCOME] = { "servers that register", 990 },
                                          { NULL, 0 } };

static const struct sim_scenario scenario = { .name = "members",
                                              .faults_ms = 6000,
                                              .healing_ms = 4000,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = members_check,
                                              .finish = scenario_finish,
                                              .canaries = canaries,
                                              .worth = worth };

/* ---- Transcripts ---- */

enum { S1 = 1, TWIN = 3 };

static bool silence_and_return(struct sim *s)
{
    sim_start(s, S1);
    sim_run_until(s, 500);
    sim_partition(s, S1, 1000);
    sim_run_until(s, 2000);
    return sim_expect(s, "[    0] meta > start, 0 members known\n"
                         "[    0] meta > persist server 1\n"
                         "[    0] meta > up server 1\n"
                         "[    0] meta > welcome server 1\n"
                         "[   20] s1 > I am server 1\n"
                         "[  500] s1 > ** cut off for 1000 ms\n"
                         "[ 1020] meta > down server 1\n"
                         "[ 1500] meta > up server 1\n");
}

static bool restart_of_the_manager(struct sim *s)
{
    sim_start(s, S1);
    sim_run_until(s, 500);
    sim_crash(s, MANAGER, false);
    sim_run_until(s, 600);
    sim_start(s, MANAGER);
    sim_run_until(s, 1000);
    return sim_expect(s, "[    0] meta > start, 0 members known\n"
                         "[    0] meta > persist server 1\n"
                         "[    0] meta > up server 1\n"
                         "[    0] meta > welcome server 1\n"
                         "[   20] s1 > I am server 1\n"
                         "[  500] meta > ** process is killed\n"
                         "[  500] s1 > ** connection 1 breaks\n"
                         "[  600] meta > start, 1 members known\n"
                         "[  623] meta > up server 1\n"
                         "[  623] meta > welcome server 1\n"
                         "[  643] s1 > I am server 1\n");
}

static bool two_processes_on_one_directory(struct sim *s)
{
    sim_start(s, S1);
    sim_run_until(s, 100);
    sim_start(s, TWIN);
    sim_run_until(s, 200);
    sim_crash(s, S1, false);
    sim_run_until(s, 300);
    sim_start(s, S1);
    sim_run_until(s, 400);
    return sim_expect(s, "[    0] meta > start, 0 members known\n"
                         "[    0] meta > persist server 1\n"
                         "[    0] meta > up server 1\n"
                         "[    0] meta > welcome server 1\n"
                         "[   20] s1 > I am server 1\n"
                         "[  100] meta > refuse: another process serves this data directory from "
                         "another address; stop it first\n"
                         "[  200] s1 > ** process is killed\n"
                         "[  200] s1 > ** connection 1 breaks\n"
                         "[  209] meta > connection 1 of server 1 has ended\n"
                         "[  250] meta > persist server 1\n"
                         "[  250] meta > welcome server 1\n"
                         "[  270] twin > I am server 1\n"
                         "[  300] meta > refuse: another process serves this data directory from "
                         "another address; stop it first\n");
}

int main(int argc, char **argv)
{
    static const struct sim_transcript transcripts[] = {
        { "silence_and_return", silence_and_return, NULL },
        { "restart_of_the_manager", restart_of_the_manager, NULL },
        { "two_processes_on_one_directory", two_processes_on_one_directory, NULL },
        { NULL, NULL, NULL },
    };

    return sim_main(argc, argv, &scenario, transcripts);
}
