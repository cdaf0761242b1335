/* What must hold, from what is really on the disks; and what the days have cost. */
#include "tests/sim/cloud.h"

#include <stdio.h>

enum { COPIED_PERCENT_MAX = 5, WEEK_DAYS = 7 };

/* Is it on, and does the manager know what it has? */
static bool serves(struct cloud *c, donor_id id)
{
    const struct donor *donor = donors_find(&c->donors, id);

    return desk_of(c, id)->up && donor != NULL && donor_takes(donor);
}

/* The map's copies are there, and none of them was deleted. */
static bool judge_map(struct cloud *c, uint64_t set, const struct set_morsel *m,
                      const struct cloud_morsel *truth)
{
    for (uint32_t i = 0; i < m->donor_count; i++) {
        if (!desk_of(c, m->donors[i])->dead && !holds(truth, m->donors[i])) {
            return cloud_fail(c, "the map has morsel %u of set %llu at %u, which has deleted it",
                              m->number, (unsigned long long)set, m->donors[i]);
        }
    }
    return true;
}

/* What is there must be found. */
static bool judge_disks(struct cloud *c, uint64_t set, const struct set_morsel *m,
                        const struct cloud_morsel *truth, bool *on)
{
    uint32_t left = 0, named = 0, here = 0, named_here = 0;

    for (uint32_t i = 0; i < truth->count; i++) {
        bool is_named = set_morsel_has(m, truth->holders[i]);
        bool is_here = serves(c, truth->holders[i]);

        left++;
        named += is_named;
        here += is_here && !truth->waste[i];
        named_here += is_here && is_named;
    }
    *on = named_here > 0;
    if (left > 0 && named == 0) {
        return cloud_fail(c, "morsel %u of set %llu is lost, and %u that have it live", m->number,
                          (unsigned long long)set, left);
    }
    if (here > 0 && named_here == 0) {
        return cloud_fail(c, "morsel %u of set %llu is not to be had, and %u that have it are on",
                          m->number, (unsigned long long)set, here);
    }
    return true;
}

static uint32_t copies_here(struct cloud *c, const struct set_morsel *m)
{
    uint32_t here = 0;

    for (uint32_t i = 0; i < m->donor_count; i++) {
        here += serves(c, m->donors[i]);
    }
    return here;
}

static bool judge_set(struct cloud *c, const struct cloud_set *set, struct cloud_day *day)
{
    const struct data_set *s = sets_find(&c->sets, set->number);

    for (uint32_t i = 0; i < CLOUD_MORSELS; i++) {
        struct set_morsel m;
        bool on;

        if (s == NULL || !set_get(s, i, &m)) {
            return cloud_fail(c, "morsel %u of set %llu is in no map", i,
                              (unsigned long long)set->number);
        }
        if (!judge_map(c, set->number, &m, &set->morsels[i]) ||
            !judge_disks(c, set->number, &m, &set->morsels[i], &on)) {
            return false;
        }
        day->all++;
        day->stored += CLOUD_COPIES;
        day->away += !on;
        day->thin += copies_here(c, &m) < CLOUD_COPIES;
    }
    return true;
}

bool judge_turn(struct cloud *c)
{
    struct cloud_day *day = &c->days[c->now_s / CLOUD_DAY_S];
    uint64_t lost = 0;

    day->turns++;
    for (uint32_t i = 0; i < CLOUD_SETS * 2; i++) {
        const struct cloud_set *set = &c->sets_made[i];

        if (set->number != 0 && !set->deleted && !judge_set(c, set, day)) {
            return false;
        }
        for (uint32_t j = 0; set->number != 0 && !set->deleted && j < CLOUD_MORSELS; j++) {
            lost += set->morsels[j].count == 0;
        }
    }
    c->lost = lost;
    return !c->failed;
}

static double percent(uint64_t part, uint64_t of)
{
    return of > 0 ? 100.0 * (double)part / (double)of : 0;
}

/* Copied on that day, of what was stored in the middle of its turns. */
static double copied_of(const struct cloud_day *day)
{
    return percent(day->copied * (day->turns > 0 ? day->turns : 1), day->stored);
}

bool judge_end(struct cloud *c, uint32_t days)
{
    double most = 0, sum = 0;
    uint64_t away = 0, thin = 0, all = 0;

    for (uint32_t i = 0; i < days; i++) {
        double copied = copied_of(&c->days[i]);

        if (i >= WEEK_DAYS) {
            sum += copied;
            most = copied > most ? copied : most;
            away += c->days[i].away;
            thin += c->days[i].thin;
            all += c->days[i].all;
        }
    }
    sum = days > WEEK_DAYS ? sum / (days - WEEK_DAYS) : 0;
    (void)printf("sim_cloud --seed %llu: from the second week on %.1f%% of all copies made anew a "
                 "day (first day %.1f%%, most %.1f%%); morsels without a copy that is on %.1f%%, "
                 "with fewer than wanted %.1f%%; %llu machines died, %llu morsels lost with all of "
                 "theirs, %llu copies, %llu given up, %llu dropped, %llu sets deleted, %llu "
                 "restarts\n",
                 (unsigned long long)c->seed, sum, copied_of(&c->days[0]), most, percent(away, all),
                 percent(thin, all), (unsigned long long)c->dead, (unsigned long long)c->lost,
                 (unsigned long long)c->copied, (unsigned long long)c->given_up,
                 (unsigned long long)c->dropped, (unsigned long long)c->deleted,
                 (unsigned long long)c->restarts);
    if (sum > COPIED_PERCENT_MAX && !c->without_hours) {
        return cloud_fail(c, "%.1f%% of all copies are made anew each day", sum);
    }
    return true;
}
