/* The cases of docs/replication.md, each by its number: a pair, the manager as the third voter, and a client that asks the members it is told to, one
 * call at a time. What may be read is judged as in any history (group_judge.c). The same cases on real processes: tests/cluster/replicas*.sh; 13 and
 * 14, a full disk and a wrong checksum, are there alone, for these cores know neither. */
#include "tests/sim/group.h"

#include "common/base/status.h"

enum { P, S, MANAGER, PATIENCE_MS = 5000, BACK_MS = 8000, FIRST_MS = 200, UNDER_WAY_MS = 40 };

#define EXPECT(s, condition)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return sim_fail(s, "at %llu ms: not %s", (unsigned long long)(s)->now_ms, #condition); \
        }                                                                                          \
    } while (0)

static uint32_t client(struct sim *s)
{
    return world_of(s)->first_client;
}

/* Of the whole first object. */
static void begin(struct sim *s, enum act act, uint64_t value)
{
    struct client *c = &world_of(s)->clients[0];
    struct call call = { .act = act, .value = value, .not_after_ms = s->now_ms + PATIENCE_MS };

    call.change.object.inode = 1;
    call.change.span = (struct span){ 0, CELLS * CELL_BYTES };
    call.change.verifier = c->verifier;
    if (act == ACT_WRITE) {
        call.change.op = (struct op_id){ 1, ++c->operations };
        call.change.ended = c->operations - 1;
        call.change.generation = 1;
        world_of(s)->objects[0].writers++;
    }
    client_begins(s, client(s), &call);
}

/* By turns at the members of `at`, until one answers. */
static bool ask(struct sim *s, enum act act, uint64_t value, group_set at)
{
    struct client *c = &world_of(s)->clients[0];

    begin(s, act, value);
    for (uint32_t try = 0; c->call.act != ACT_NONE && s->now_ms < c->call.not_after_ms; try++) {
        client_asks(s, client(s), at == 3 ? try % 2 : at >> 1);
        if (!sim_run_until(s, s->now_ms + CLIENT_RETRY_MS)) {
            return false;
        }
    }
    if (c->call.act != ACT_NONE) {
        client_gives_up(s, client(s));
    }
    return c->answered;
}

static bool writes(struct sim *s, uint64_t value, group_set at)
{
    return ask(s, ACT_WRITE, value, at);
}

static bool syncs(struct sim *s, group_set at)
{
    return ask(s, ACT_FSYNC, 0, at);
}

static bool reads(struct sim *s, uint64_t value, group_set at)
{
    return ask(s, ACT_READ, 0, at) && world_of(s)->clients[0].last.values[0] == value;
}

static enum group_state state(struct sim *s, uint32_t member)
{
    return world_of(s)->member[member].replica->group.record.state;
}

static bool serves(struct sim *s, uint32_t member)
{
    return s->nodes[member].up && world_of(s)->member[member].replica->group.joined != 0;
}

static bool all_is_well(struct sim *s)
{
    return serves(s, P) && serves(s, S) && state(s, P) == GROUP_CONSISTENT &&
           state(s, S) == GROUP_CONSISTENT;
}

static bool is_well_again(struct sim *s)
{
    uint64_t until_ms = s->now_ms + BACK_MS;

    while (!all_is_well(s) && s->now_ms < until_ms) {
        if (!sim_run_until(s, s->now_ms + 10)) {
            return false;
        }
    }
    return all_is_well(s);
}

static bool begins(struct sim *s)
{
    return sim_run_until(s, FIRST_MS) && all_is_well(s) && writes(s, 10, 3);
}

static void cut(struct sim *s, uint32_t a, uint32_t b, uint64_t duration_ms)
{
    world_of(s)->cut_until_ms[a][b] = world_of(s)->cut_until_ms[b][a] = s->now_ms + duration_ms;
}

/* ---- The cases ---- */

static bool case_1_the_secondary_is_away(struct sim *s)
{
    EXPECT(s, begins(s));
    sim_crash(s, S, true);
    EXPECT(s, writes(s, 11, 1U << P));
    EXPECT(s, state(s, P) == GROUP_STANDALONE);
    EXPECT(s, reads(s, 11, 1U << P));
    sim_start(s, S);
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 11, 3));
    return true;
}

static bool case_2_the_primary_is_away(struct sim *s)
{
    EXPECT(s, begins(s));
    sim_crash(s, P, true);
    EXPECT(s, writes(s, 11, 3));
    EXPECT(s, state(s, S) == GROUP_STANDALONE);
    EXPECT(s, reads(s, 11, 3));
    sim_start(s, P);
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 11, 3));
    return true;
}

static bool case_3_both_are_away(struct sim *s)
{
    EXPECT(s, begins(s));
    sim_crash(s, P, false);
    sim_crash(s, S, false);
    EXPECT(s, !writes(s, 11, 3));
    sim_start(s, P);
    sim_start(s, S);
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 10, 3));
    EXPECT(s, writes(s, 12, 3));
    return true;
}

/* `back` knows less than the other one, which is there, but not for it: it serves nothing, and who goes on asking is served by the other. */
static bool stale_one_is_back(struct sim *s, uint32_t back)
{
    EXPECT(s, begins(s));
    sim_crash(s, back, true);
    EXPECT(s, writes(s, 11, 3));
    cut(s, P, S, PATIENCE_MS + 1000);
    sim_start(s, back);
    EXPECT(s, !ask(s, ACT_READ, 0, (group_set)(1U << back)));
    EXPECT(s, !serves(s, back));
    EXPECT(s, reads(s, 11, 3));
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 11, 3));
    return true;
}

static bool case_4_the_secondary_is_back_and_stale(struct sim *s)
{
    return stale_one_is_back(s, S);
}

static bool case_5_the_primary_is_back_and_stale(struct sim *s)
{
    return stale_one_is_back(s, P);
}

/* `alone` went on alone and is away; `stale` is back and alone now: nothing, until the other one returns. */
static bool only_the_stale_one_is_there(struct sim *s, uint32_t alone, uint32_t stale)
{
    EXPECT(s, begins(s));
    sim_crash(s, stale, true);
    EXPECT(s, writes(s, 11, 3));
    sim_crash(s, alone, false);
    sim_start(s, stale);
    EXPECT(s, !writes(s, 12, 3));
    EXPECT(s, !serves(s, stale));
    sim_start(s, alone);
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 11, 3));
    EXPECT(s, writes(s, 13, 3));
    return true;
}

static bool case_6_who_stood_alone_as_primary_is_away(struct sim *s)
{
    return only_the_stale_one_is_there(s, P, S);
}

static bool case_7_who_stood_alone_as_secondary_is_away(struct sim *s)
{
    return only_the_stale_one_is_there(s, S, P);
}

static bool case_8_no_majority(struct sim *s)
{
    EXPECT(s, begins(s));
    sim_crash(s, S, true);
    sim_crash(s, MANAGER, true);
    EXPECT(s, !writes(s, 11, 1U << P));
    EXPECT(s, state(s, P) == GROUP_CONSISTENT && world_of(s)->newest == 1);
    sim_start(s, MANAGER);
    EXPECT(s, writes(s, 12, 1U << P));
    sim_start(s, S);
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 12, 3));
    return true;
}

static bool case_9_both_fall_together(struct sim *s)
{
    EXPECT(s, begins(s));
    EXPECT(s, writes(s, 11, 3) && syncs(s, 3));
    sim_crash(s, P, true);
    sim_crash(s, S, true);
    EXPECT(s, sim_run_until(s, s->now_ms + SIM_REBOOT_MS_MIN));
    sim_start(s, P);
    sim_start(s, S);
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 11, 3));
    return true;
}

/* Before anybody noticed. */
static bool case_9a_power_is_lost_for_a_moment(struct sim *s)
{
    EXPECT(s, begins(s));
    for (uint32_t i = P; i <= S; i++) {
        EXPECT(s, writes(s, 11 + i, 3));
        sim_crash(s, i, true);
        EXPECT(s, sim_run_until(s, s->now_ms + SIM_REBOOT_MS_MIN));
        sim_start(s, i);
        EXPECT(s, !serves(s, i));
        EXPECT(s, reads(s, 11 + i, 3));
        EXPECT(s, is_well_again(s));
    }
    return true;
}

/* With a change under way, and one never returns: nobody guesses, until it is named. */
static bool case_9b_both_fall_and_one_never_returns(struct sim *s)
{
    EXPECT(s, begins(s));
    EXPECT(s, writes(s, 11, 3) && syncs(s, 3));
    begin(s, ACT_WRITE, 12);
    client_asks(s, client(s), P);
    EXPECT(s, sim_run_until(s, s->now_ms + UNDER_WAY_MS));
    sim_crash(s, P, true);
    sim_crash(s, S, true);
    client_gives_up(s, client(s));
    EXPECT(s, sim_run_until(s, s->now_ms + SIM_REBOOT_MS_MIN));
    sim_start(s, S);
    EXPECT(s, !ask(s, ACT_READ, 0, 3) && !serves(s, S));
    sim_crash(s, S, false);
    judge_force(s, S);
    member_force(s, S);
    world_of(s)->member[P].replaced = true;
    sim_start(s, S);
    EXPECT(s, ask(s, ACT_READ, 0, 3));
    return true;
}

/* For longer than any lease: one side writes, and both are equal behind it. */
static bool case_10_the_two_are_cut_off_from_each_other(struct sim *s)
{
    EXPECT(s, begins(s));
    cut(s, P, S, 2 * PATIENCE_MS);
    EXPECT(s, writes(s, 11, 3));
    EXPECT(s, serves(s, P) != serves(s, S));
    EXPECT(s, sim_run_until(s, s->now_ms + 1000));
    EXPECT(s, writes(s, 12, 3) && reads(s, 12, 3));
    EXPECT(s, serves(s, P) != serves(s, S));
    EXPECT(s, sim_run_until(s, s->now_ms + 2 * PATIENCE_MS));
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 12, 3));
    return true;
}

static bool case_11_the_client_reaches_one_only(struct sim *s)
{
    EXPECT(s, begins(s));
    EXPECT(s, writes(s, 11, 1U << S) && reads(s, 11, 1U << S));
    EXPECT(s, writes(s, 12, 1U << P) && reads(s, 12, 1U << P));
    EXPECT(s, all_is_well(s) && world_of(s)->newest == 1);
    return true;
}

static bool case_12_the_disk_of_one_hangs(struct sim *s)
{
    EXPECT(s, begins(s));
    world_of(s)->member[S].slow_until_ms = s->now_ms + PATIENCE_MS;
    world_of(s)->member[S].slow_factor = 0;
    EXPECT(s, writes(s, 11, 1U << P));
    EXPECT(s, state(s, P) == GROUP_STANDALONE);
    EXPECT(s, reads(s, 11, 1U << P));
    EXPECT(s, sim_run_until(s, s->now_ms + PATIENCE_MS));
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 11, 3));
    return true;
}

static bool knows_all_its_operations(struct sim *s, uint32_t member)
{
    return op_memory_is_sure(world_of(s)->member[member].replica->order.memory);
}

/* A process ends and begins at once, as a copy that is opened again for another table does. */
static void restart(struct sim *s, uint32_t member)
{
    sim_crash(s, member, false);
    sim_start(s, member);
}

/* Who orders is opened again, and is taking over what the other one has in place of a change that it had begun, when that one is opened again, too:
 * whether the change was made is known there, and the client, which lives, is told so. */
static bool both_are_opened_again(struct sim *s)
{
    uint64_t until_ms = s->now_ms + PATIENCE_MS;

    EXPECT(s, begins(s));
    world_of(s)->cut_until_ms[P][S] = s->now_ms + UNDER_WAY_MS;
    begin(s, ACT_WRITE, 11);
    client_asks(s, client(s), P);
    EXPECT(s, sim_run_until(s, s->now_ms + UNDER_WAY_MS));
    restart(s, P);
    while (knows_all_its_operations(s, P) && s->now_ms < until_ms) {
        EXPECT(s, sim_run_until(s, s->now_ms + 1));
    }
    EXPECT(s, !knows_all_its_operations(s, P));
    restart(s, S);
    while (world_of(s)->clients[0].call.act != ACT_NONE && s->now_ms < until_ms) {
        client_asks(s, client(s), P);
        EXPECT(s, sim_run_until(s, s->now_ms + CLIENT_RETRY_MS));
    }
    EXPECT(s, world_of(s)->clients[0].answered && world_of(s)->clients[0].last.status == MORSEL_OK);
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 11, 3));
    return true;
}

/* It is one voter: all goes on without it, also that a process restarts. */
static bool case_15_the_manager_is_away(struct sim *s)
{
    EXPECT(s, begins(s));
    sim_crash(s, MANAGER, true);
    EXPECT(s, writes(s, 11, 3));
    sim_crash(s, S, false);
    sim_start(s, S);
    EXPECT(s, writes(s, 12, 3) && reads(s, 12, 3));
    EXPECT(s, is_well_again(s));
    return true;
}

static bool case_16_an_empty_disk_comes_back(struct sim *s)
{
    EXPECT(s, begins(s));
    sim_crash(s, S, true);
    EXPECT(s, writes(s, 11, 3) && syncs(s, 3));
    member_renew(s, S);
    cut(s, P, S, PATIENCE_MS + 1000);
    sim_start(s, S);
    EXPECT(s, !ask(s, ACT_READ, 0, 1U << S) && !serves(s, S));
    EXPECT(s, is_well_again(s));
    EXPECT(s, reads(s, 11, 3));
    sim_crash(s, P, true);
    EXPECT(s, reads(s, 11, 1U << S));
    return true;
}

const struct sim_transcript group_cases[] = {
    { "case_1_the_secondary_is_away", case_1_the_secondary_is_away, &group_pair_scenario },
    { "case_2_the_primary_is_away", case_2_the_primary_is_away, &group_pair_scenario },
    { "case_3_both_are_away", case_3_both_are_away, &group_pair_scenario },
    { "case_4_the_secondary_is_back_and_stale", case_4_the_secondary_is_back_and_stale,
      &group_pair_scenario },
    { "case_5_the_primary_is_back_and_stale", case_5_the_primary_is_back_and_stale,
      &group_pair_scenario },
    { "case_6_who_stood_alone_as_primary_is_away", case_6_who_stood_alone_as_primary_is_away,
      &group_pair_scenario },
    { "case_7_who_stood_alone_as_secondary_is_away", case_7_who_stood_alone_as_secondary_is_away,
      &group_pair_scenario },
    { "case_8_no_majority", case_8_no_majority, &group_pair_scenario },
    { "case_9_both_fall_together", case_9_both_fall_together, &group_pair_scenario },
    { "case_9a_power_is_lost_for_a_moment", case_9a_power_is_lost_for_a_moment,
      &group_pair_scenario },
    { "case_9b_both_fall_and_one_never_returns", case_9b_both_fall_and_one_never_returns,
      &group_pair_scenario },
    { "case_10_the_two_are_cut_off_from_each_other", case_10_the_two_are_cut_off_from_each_other,
      &group_pair_scenario },
    { "case_11_the_client_reaches_one_only", case_11_the_client_reaches_one_only,
      &group_pair_scenario },
    { "case_12_the_disk_of_one_hangs", case_12_the_disk_of_one_hangs, &group_pair_scenario },
    { "case_15_the_manager_is_away", case_15_the_manager_is_away, &group_pair_scenario },
    { "both_are_opened_again", both_are_opened_again, &group_pair_scenario },
    { "case_16_an_empty_disk_comes_back", case_16_an_empty_disk_comes_back, &group_pair_scenario },
    { NULL, NULL, NULL }
};
