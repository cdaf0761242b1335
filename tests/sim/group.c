/* One group of one to three members that hold the same regions, and clients that write, sync and
 * read them at whichever member they like: src/iod/replica/group_*.c and mirror_lease.c while members
 * are killed, lose power and are cut off.
 *
 * Each region has one client that writes it, version after version; so what a read must give at
 * least, and may give at most, is known exactly. Members that do not order are read only while
 * nobody writes the region: in the product the manager's leases see to that. Bytes and the memory
 * of operations are one here: the version. */
#include "tests/sim/group.h"

#include "common/base/check.h"
#include "tests/sim/sim_main.h"

#include <stdlib.h>
#include <string.h>

struct world *world_of(struct sim *s)
{
    return s->world;
}

/* ---- A client ---- */

static struct client *client_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->clients[node - world_of(s)->first_client];
}

static void send_call(struct sim *s, uint32_t node)
{
    static const enum host_kind kinds[] = {
        [ACT_WRITE] = HOST_WRITE, [ACT_FSYNC] = HOST_FSYNC, [ACT_READ] = HOST_READ
    };
    const struct client *c = client_of(s, node);
    struct host_message m = { .from = node, .client = node, .region = c->region };

    m.kind = kinds[c->act];
    m.call = c->call;
    m.version = c->version;
    m.settled = c->act == ACT_READ && c->settled;
    sim_send_datagram(s, node, (uint32_t)((c->call + c->tries) % world_of(s)->members), &m,
                      sizeof(m));
}

static void run_retry(struct sim *s, uint32_t node, uint64_t call)
{
    struct client *c = client_of(s, node);

    if (c->act != ACT_NONE && c->call == call) {
        sim_worth(s, WORTH_RETRIED);
        c->tries++; /* At the next member. */
        send_call(s, node);
        sim_after(s, node, CLIENT_RETRY_MS, run_retry, call);
    }
}

static uint64_t larger_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Draws what to do. False: nothing, this time. */
static bool draw_call(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    struct client *c = client_of(s, node);
    uint32_t own = node - w->first_client;
    uint64_t drawn = prng_below(&s->prng, 10);
    struct region *region;

    c->act = drawn < 4 ? ACT_WRITE : drawn < 5 ? ACT_FSYNC : ACT_READ;
    c->region = c->act == ACT_READ ? (uint32_t)prng_below(&s->prng, REGIONS) : own;
    region = &w->regions[c->region];
    if (c->act == ACT_WRITE) {
        if (region->readers > 0) {
            c->act = ACT_NONE;
            return false;
        }
        c->version = region->sent = ++c->next_version;
        region->writing = true;
    } else if (c->act == ACT_READ) {
        c->settled = !region->writing;
        region->readers += c->settled;
        c->floor = larger_of(larger_of(region->acked, region->seen), region->durable);
    }
    c->losses = w->losses;
    return true;
}

static void run_next(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = client_of(s, node);

    (void)number;
    if (s->now_ms > FAULTS_MS + HEALING_MS - QUIET_MS) {
        return;
    }
    if (!draw_call(s, node)) {
        sim_after(s, node, 1 + prng_below(&s->prng, 20), run_next, 0);
        return;
    }
    c->call++;
    c->begun_ms = s->now_ms;
    send_call(s, node);
    sim_after(s, node, CLIENT_RETRY_MS, run_retry, c->call);
}

static void has_read(struct sim *s, uint32_t node, const struct host_message *m)
{
    struct client *c = client_of(s, node);
    struct region *region = &world_of(s)->regions[c->region];
    bool lost = c->losses != world_of(s)->losses;

    region->readers -= c->settled;
    sim_trace(s, node, "reads %llu in region %u at %s", (unsigned long long)m->version, c->region,
              s->nodes[m->from].name);
    if (m->version > region->sent) {
        (void)sim_fail(s, "region %u: read %llu, which nobody wrote", c->region,
                       (unsigned long long)m->version);
    } else if (!lost && m->version < c->floor) {
        (void)sim_fail(s, "region %u: %s gives %llu after %llu", c->region, s->nodes[m->from].name,
                       (unsigned long long)m->version, (unsigned long long)c->floor);
    } else if (!lost) {
        region->seen = larger_of(region->seen, m->version);
    }
}

static void client_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct client *c = client_of(s, node);
    struct region *region = &world_of(s)->regions[c->region];
    bool lost = c->losses != world_of(s)->losses;
    struct host_message m;

    memcpy(&m, message->data, sizeof(m));
    if (c->act == ACT_NONE || m.call != c->call) {
        return;
    }
    if (c->act == ACT_READ) {
        has_read(s, node, &m);
    } else if (c->act == ACT_WRITE) {
        sim_trace(s, node, "has written %llu to region %u", (unsigned long long)c->version,
                  c->region);
        region->writing = false;
        region->acked = lost ? region->acked : c->version;
    } else {
        sim_trace(s, node, "has %llu on the disks", (unsigned long long)m.version);
        region->durable = larger_of(region->durable, m.version);
    }
    c->act = ACT_NONE;
    sim_after(s, node, 1 + prng_below(&s->prng, CLIENT_IDLE_MS_MAX), run_next, 0);
}

static void run_trouble(struct sim *s, uint32_t node, uint64_t number);

static void client_start(struct sim *s, uint32_t node)
{
    run_next(s, node, 0);
    if (node == world_of(s)->first_client && !s->scripted) {
        run_trouble(s, node, 0);
    }
}

/* ---- The scenario ---- */

static void run_fall(struct sim *s, uint32_t node, uint64_t member)
{
    (void)node;
    if (s->nodes[member].up) {
        sim_crash(s, (uint32_t)member, true);
        sim_start_later(s, (uint32_t)member, 100 + prng_below(&s->prng, 300));
    }
}

/* Links that carry nothing, one way or both, and members that fall almost together. */
static void run_trouble(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);

    (void)number;
    if (s->now_ms >= FAULTS_MS) {
        memset(w->cut_until_ms, 0, sizeof(w->cut_until_ms));
        return;
    }
    if (w->cuts && prng_below(&s->prng, 100) < 4) {
        uint32_t a = (uint32_t)prng_below(&s->prng, w->members);
        uint32_t b = (uint32_t)prng_below(&s->prng, w->voter + 1);
        uint64_t until_ms = s->now_ms + prng_below(&s->prng, 5000);

        sim_trace(s, a, "** is cut off from %s", s->nodes[b].name);
        w->cut_until_ms[a][b] = until_ms;
        w->cut_until_ms[b][a] = prng_below(&s->prng, 3) == 0 ? 0 : until_ms;
        if (w->storms && a != b && b < w->members && w->members == 3 &&
            prng_below(&s->prng, 2) == 0) {
            sim_after(s, node, 300 + prng_below(&s->prng, 1500), run_fall, 3 - a - b);
        }
    }
    if (w->storms && prng_below(&s->prng, 100) < 2) {
        for (uint32_t i = 0; i <= w->voter; i++) {
            if (s->nodes[i].up && prng_below(&s->prng, 2) == 0) {
                sim_crash(s, i, prng_below(&s->prng, 2) == 0);
                sim_start_later(s, i, 100 + prng_below(&s->prng, 1500));
            }
        }
    }
    sim_after(s, node, 100, run_trouble, 0);
}

static void manager_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct host_message m;

    memcpy(&m, message->data, sizeof(m));
    (void)voter_receive(s, node, &m);
}

static const struct sim_actor voter_actor = { voter_start, voter_stop, manager_receive, NULL };
static const struct sim_actor client_actor = { client_start, NULL, client_receive, NULL };

static uint32_t draw_members(struct sim *s)
{
    uint64_t drawn = prng_below(&s->prng, 16);

    return drawn == 0 ? 1 : drawn < 5 ? 2 : 3;
}

static void scenario_open(struct sim *s)
{
    static const char *const names[] = { "m0", "m1", "m2", "anna", "bert", "cleo" };
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL && sizeof(struct host_message) <= SIM_MESSAGE_BYTES_MAX);
    s->world = w;
    w->members = s->scripted ? 3 : draw_members(s);
    w->cuts = prng_below(&s->prng, 2) == 0;
    w->storms = prng_below(&s->prng, 3) == 0;
    w->newest = 1;
    w->decided[1] = (group_set)((1U << w->members) - 1);
    s->options.crash_permille = (s->options.crash_permille + 2) / 3;
    s->options.power_permille = (s->options.power_permille + 1) / 2;
    for (uint32_t i = 0; i < w->members; i++) {
        (void)sim_node_add(s, names[i], &group_member_actor, true);
        member_format(s, i);
    }
    w->voter = sim_node_add(s, "meta", &voter_actor, true);
    w->first_client = w->voter + 1;
    w->voter_set.version = 1;
    for (uint32_t i = 0; i <= w->voter; i++) {
        w->voter_set.ids[w->voter_set.count++] = i + 1;
    }
    for (uint32_t i = 0; i < REGIONS; i++) {
        (void)sim_node_add(s, names[REPLICAS_MAX + i], &client_actor, false);
    }
    for (uint32_t i = 0; i < s->node_count && !s->scripted; i++) {
        sim_start(s, i);
    }
}

static void scenario_close(struct sim *s)
{
    for (uint32_t i = 0; i <= world_of(s)->voter; i++) {
        if (s->nodes[i].up) {
            voter_stop(s, i, false);
        }
    }
    free(s->world);
}

/* With the rule of docs/replication.md that each breaks. One more takes thousands of histories to
 * be seen, and is looked for at night: one_lease_is_enough (lease). */
static const char *const canaries[] = {
    "reads_without_lease",      /* lease */
    "does_not_wait",            /* wait */
    "speaks_before_durable",    /* persist */
    "votes_in_memory",          /* persist */
    "serves_unvouched",         /* rejoin */
    "stands_after_loss",        /* stand */
    "clears_intent_alone",      /* intent */
    "forgets_survivors_intent", /* intent */
    "counts_before_flush",      /* flush */
    "keeps_its_own",            /* agree */
    "asks_one_only",            /* vouchall */
    "grows_without_vote",       /* vote, order */
    "newcomer_is_whole",        /* newcomer */
    "begins_unbegun",           /* unbegun */
    "whole_in_memory",          /* known: on the disk */
    NULL,
};

/* In permille of the histories. */
static const struct sim_worth worth[] = {
    [WORTH_VOTE] = { "sets that shrink", 500 },
    [WORTH_GROWN] = { "sets that grow", 500 },
    [WORTH_SECONDARY] = { "reads beside the first member", 800 },
    [WORTH_VOUCHED] = { "sets that agree", 990 },
    [WORTH_UNBEGUN] = { "bytes of who has left", 1 },
    [WORTH_LOSS] = { "bytes that nobody has any more", 20 },
    [WORTH_SURVIVED] = { "losses of power that cost nothing", 250 },
    [WORTH_RETRIED] = { "calls that come again", 990 },
    { NULL, 0 }
};

static const struct sim_scenario scenario = { .name = "group",
                                              .faults_ms = FAULTS_MS,
                                              .healing_ms = HEALING_MS,
                                              .open = scenario_open,
                                              .close = scenario_close,
                                              .check = group_judge_check,
                                              .finish = group_judge_finish,
                                              .canaries = canaries,
                                              .worth = worth };

/* ---- Transcript ---- */

/* One of three loses its power: the others vote it out, wait for the lease that it may hold, go on;
 * it returns, recovers, and is voted in. */
static bool a_member_falls_and_returns(struct sim *s)
{
    for (uint32_t i = 0; i <= world_of(s)->voter; i++) {
        sim_start(s, i);
    }
    sim_run_until(s, 1000);
    sim_crash(s, 2, true);
    sim_run_until(s, 6000);
    sim_start(s, 2);
    sim_run_until(s, 8000);
    return sim_expect(s, "[    0] m0 > starts, consistent in epoch 1\n"
                         "[    0] m0 > persists consistent, epoch 1, set 7\n"
                         "[    0] m1 > starts, consistent in epoch 1\n"
                         "[    0] m1 > persists consistent, epoch 1, set 7\n"
                         "[    0] m2 > starts, consistent in epoch 1\n"
                         "[    0] m2 > persists consistent, epoch 1, set 7\n"
                         "[   23] m0 > joined in epoch 1, set 7, with 0 0 0\n"
                         "[   23] m1 > joined in epoch 1, set 7, with 0 0 0\n"
                         "[   23] m2 > joined in epoch 1, set 7, with 0 0 0\n"
                         "[ 1000] m2 > ** power is lost\n"
                         "[ 1636] m0 > epoch 2 is set 3\n"
                         "[ 1636] m0 > leaves\n"
                         "[ 1636] m0 > persists standalone, epoch 2, set 3\n"
                         "[ 1645] m1 > leaves\n"
                         "[ 1645] m1 > persists standalone, epoch 2, set 3\n"
                         "[ 1650] m1 > epoch 2 is set 3\n"
                         "[ 3227] m0 > persists standalone, epoch 2, set 3\n"
                         "[ 3239] m0 > joined in epoch 2, set 3, with 0 0 0\n"
                         "[ 3239] m1 > persists standalone, epoch 2, set 3\n"
                         "[ 3252] m1 > joined in epoch 2, set 3, with 0 0 0\n"
                         "[ 6000] m2 > starts, consistent in epoch 1\n"
                         "[ 6000] m2 > persists consistent, epoch 1, set 7\n"
                         "[ 6015] m2 > persists stale, epoch 1, set 7\n"
                         "[ 6525] m2 > persists recovering, epoch 2, set 3, not whole\n"
                         "[ 6579] m0 > epoch 3 is set 7\n"
                         "[ 6579] m0 > leaves\n"
                         "[ 6579] m0 > persists consistent, epoch 3, set 7\n"
                         "[ 6588] m1 > leaves\n"
                         "[ 6588] m1 > persists consistent, epoch 3, set 7\n"
                         "[ 6588] m2 > persists consistent, epoch 3, set 7, not whole\n"
                         "[ 6615] m0 > persists consistent, epoch 3, set 7\n"
                         "[ 6621] m0 > joined in epoch 3, set 7, with 0 0 0\n"
                         "[ 6621] m1 > persists consistent, epoch 3, set 7\n"
                         "[ 6621] m2 > persists consistent, epoch 3, set 7\n"
                         "[ 6627] m1 > joined in epoch 3, set 7, with 0 0 0\n"
                         "[ 6634] m2 > joined in epoch 3, set 7, with 0 0 0\n");
}

int main(int argc, char **argv)
{
    static const struct sim_transcript transcripts[] = {
        { "a_member_falls_and_returns", a_member_falls_and_returns },
        { NULL, NULL },
    };

    return sim_main(argc, argv, &scenario, transcripts);
}
