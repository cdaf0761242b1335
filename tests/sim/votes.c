/* Groups of servers decide their next in-sync sets, epoch after epoch, while the voters crash, lose
 * their disks and are changed one by one: src/common/vote and src/meta/cluster/voters.c over a
 * network that loses, delays and doubles what it carries. */
#include "tests/sim/votes.h"

#include "common/base/check.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>

struct world *world_of(struct sim *s)
{
    return s->world;
}

voter_id draw_id(struct sim *s, uint32_t node)
{
    return (voter_id)node * ID_NODE + ++world_of(s)->ids_drawn;
}

uint32_t node_of_id(voter_id id)
{
    return (uint32_t)(id / ID_NODE);
}

/* ---- A node ---- */

static void run_heartbeat(struct sim *s, uint32_t node, uint64_t number)
{
    struct vote_message m = { .word = WORD_HEARTBEAT };

    (void)number;
    m.id = world_of(s)->nodes[node].voter.id;
    sim_send_datagram(s, node, MANAGER, &m, sizeof(m));
    sim_after(s, node, HEARTBEAT_MS, run_heartbeat, 0);
}

static void node_start(struct sim *s, uint32_t node)
{
    voter_host_start(s, node);
    if (node == MANAGER) {
        manager_start(s);
    }
    members_start(s, node);
    run_heartbeat(s, node, 0);
}

static void node_stop(struct sim *s, uint32_t node, bool machine)
{
    members_stop(s, node);
    if (node == MANAGER) {
        manager_stop(s);
    }
    voter_host_stop(s, node, machine);
}

static void node_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct vote_message m;

    CHECK(message->size == sizeof(m));
    memcpy(&m, message->data, sizeof(m));
    switch (m.word) {
    case WORD_REQUEST:
    case WORD_CHANGE:
        voter_host_ask(s, node, message->from, &m);
        break;
    case WORD_ANSWER:
        members_answer(s, node, &m);
        break;
    case WORD_CHANGED:
        manager_answer(s, &m);
        break;
    case WORD_HEARTBEAT:
        manager_heartbeat(s, message->from, m.id);
        break;
    case WORD_SET:
        members_heard_set(s, node, m.version);
        break;
    }
}

static const struct sim_actor node_actor = { node_start, node_stop, node_receive, NULL };

/* ---- The scenario ---- */

/* The first set: the manager and some of the servers. */
static void first_set(struct sim *s, uint32_t count)
{
    struct world *w = world_of(s);
    struct voters_record *record = &w->manager.disk;

    record->set.version = record->version_last = 1;
    for (uint32_t node = 0; node < count; node++) {
        record->set.ids[record->set.count++] = w->nodes[node].voter.id;
        w->wanted |= 1U << node;
    }
}

static void draw_groups(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < SUBJECTS; i++) {
        uint32_t size =
            2 + (uint32_t)(s->scripted || w->node_count < 4 ? 0 : prng_below(&s->prng, 2));
        uint32_t first =
            1 + (uint32_t)(s->scripted ? 0 : prng_below(&s->prng, w->node_count - size));

        for (uint32_t k = 0; k < size; k++) {
            w->subjects[i].servers[k] = 100 * (i + 1) + first + k; /* No two are the same. */
            w->nodes[first + k].members[i].is_member = !s->scripted || i == 0;
        }
    }
}

static void scenario_open(struct sim *s)
{
    static const char *const names[] = { "meta", "s1", "s2", "s3", "s4", "s5" };
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    s->world = w;
    w->judge = judge_new();
    w->node_count = s->scripted ? 3 : 3 + (uint32_t)prng_below(&s->prng, NODES_MAX - 2);
    w->full_permille =
        s->scripted || prng_below(&s->prng, 2) == 0 ? 0 : (uint32_t)prng_below(&s->prng, 150);
    w->lost_permille = s->scripted || prng_below(&s->prng, 3) == 0 ? 0 : 800;
    for (uint32_t node = 0; node < w->node_count; node++) {
        (void)sim_node_add(s, names[node], &node_actor, true);
        w->nodes[node].voter.id = draw_id(s, node);
    }
    first_set(s, s->scripted ? 3 : 1 + (uint32_t)prng_below(&s->prng, w->node_count));
    draw_groups(s);
    for (uint32_t node = 0; node < w->node_count && !s->scripted; node++) {
        sim_start(s, node);
    }
}

static void scenario_close(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t node = 0; node < w->node_count; node++) {
        voter_free(w->nodes[node].voter.voter);
    }
    if (w->manager.ready) {
        voters_free(&w->manager.voters);
    }
    for (uint32_t i = 0; i < SETS_MAX; i++) {
        free(w->sets[i]);
    }
    judge_free(w->judge);
    free(w);
}

static bool scenario_check(struct sim *s)
{
    (void)s; /* What goes out is judged as it does. */
    return true;
}

static const char *const canaries[] = { "persist", "version", "seal",        "carryover",
                                        "revote",  "adopt",   "same_ballot", NULL };

/* In permille of the histories. */
static const struct sim_worth worth[] = {
    [WORTH_DECIDED] = { "epochs decided", 900 },
    [WORTH_FINISHED_OTHERS] = { "votes of others finished", 300 },
    [WORTH_NOTHING] = { "questions to which nothing is decided", 300 },
    [WORTH_CHANGED] = { "changes of the voter set", 500 },
    [WORTH_GIVEN_UP_PLAN] = { "changes that are given up", 50 },
    [WORTH_CARRIED] = { "open votes that are carried to a new set", 100 },
    [WORTH_LOST] = { "voters that lose their votes", 100 },
    [WORTH_OLD_SET] = { "ballots of an older set", 300 },
    [WORTH_NOT_ME] = { "questions for a voter that is not any more", 50 },
    [WORTH_FULL] = { "disks without room", 300 },
    { NULL, 0 }
};

static const struct sim_scenario scenario = { .name = "votes",
                                              .faults_ms = 6000,
                                              .healing_ms = 14000,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = scenario_check,
                                              .finish = judge_finish,
                                              .canaries = canaries,
                                              .worth = worth };

/* ---- Transcripts ---- */

static bool two_voters_of_three_decide(struct sim *s)
{
    sim_start(s, MANAGER);
    sim_start(s, 1);
    sim_run_until(s, 250);
    return sim_expect(s, "[    0] meta > voter set 1 of 3 is in effect\n"
                         "[  120] s1 > stands for epoch 1 of group 0\n"
                         "[  154] s1 > its value is decided for epoch 1 of group 0\n"
                         "[  154] s1 > hears what is decided for epoch 1 of group 0\n"
                         "[  205] s1 > stands for epoch 2 of group 0\n"
                         "[  248] s1 > its value is decided for epoch 2 of group 0\n"
                         "[  248] s1 > hears what is decided for epoch 2 of group 0\n");
}

static bool one_voter_of_three_decides_nothing(struct sim *s)
{
    sim_start(s, MANAGER);
    sim_start(s, 1);
    sim_run_until(s, 250);
    sim_skip(s);
    sim_crash(s, MANAGER, true);
    sim_run_until(s, 3000);
    sim_start(s, 2);
    sim_run_until(s, 4500);
    return sim_expect(s, "[  250] meta > ** power is lost\n"
                         "[  524] s1 > stands for epoch 3 of group 0\n"
                         "[ 4377] s1 > its value is decided for epoch 3 of group 0\n"
                         "[ 4377] s1 > hears what is decided for epoch 3 of group 0\n");
}

static const struct sim_transcript transcripts[] = {
    { "two voters of three decide", two_voters_of_three_decide, NULL },
    { "one voter of three decides nothing", one_voter_of_three_decides_nothing, NULL },
    { NULL, NULL, NULL }
};

int main(int argc, char **argv)
{
    return sim_main(argc, argv, &scenario, transcripts);
}
