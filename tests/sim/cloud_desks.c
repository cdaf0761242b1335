/* Desktops: their owners' habits, and their disks. */
#include "tests/sim/cloud.h"

#include "common/base/check.h"

enum { MINUTE_S = 60, HOUR_S = 3600, NEVER_DIES = 97, FIRST_TURN_S = 0 };

static const int64_t never_s = INT64_MAX / 2;

struct cloud_desk *desk_of(struct cloud *c, donor_id id)
{
    CHECK(id > 0 && id <= CLOUD_DESKS);
    return &c->desks[id - 1];
}

/* ---- Disks ---- */

bool holds(const struct cloud_morsel *m, donor_id id)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->holders[i] == id) {
            return true;
        }
    }
    return false;
}

bool desk_stores(struct cloud *c, donor_id id, struct cloud_morsel *m)
{
    struct cloud_desk *d = desk_of(c, id);

    if (holds(m, id)) {
        return true;
    }
    if (d->used >= d->room || m->count == CLOUD_HOLDERS_MAX) {
        return false;
    }
    d->used++;
    m->holders[m->count] = id;
    m->waste[m->count++] = false;
    return true;
}

static void wipe(struct cloud *c, donor_id id)
{
    for (uint32_t s = 0; s < CLOUD_SETS * 2; s++) {
        for (uint32_t i = 0; i < CLOUD_MORSELS; i++) {
            struct cloud_morsel *m = &c->sets_made[s].morsels[i];

            for (uint32_t j = m->count; c->sets_made[s].number != 0 && j-- > 0;) {
                if (m->holders[j] == id) {
                    m->count--;
                    m->holders[j] = m->holders[m->count];
                    m->waste[j] = m->waste[m->count];
                }
            }
        }
    }
    desk_of(c, id)->used = 0;
}

/* ---- Habits ---- */

static enum cloud_habit draw_habit(struct cloud *c)
{
    uint64_t percent = cloud_draw(c, 100);

    return percent < 76   ? HABIT_OFFICE
           : percent < 86 ? HABIT_ALWAYS
           : percent < 95 ? HABIT_EVENINGS
                          : HABIT_FLAPPING;
}

/* Around `middle_s`, by `by_s` at most, mostly less. */
static int64_t around(struct cloud *c, int64_t middle_s, int64_t by_s)
{
    return middle_s - by_s +
           (int64_t)(cloud_draw(c, (uint64_t)by_s) + cloud_draw(c, (uint64_t)by_s));
}

void desks_draw(struct cloud *c, uint32_t days)
{
    for (uint32_t i = 0; i < CLOUD_DESKS; i++) {
        struct cloud_desk *d = &c->desks[i];

        d->habit = draw_habit(c);
        d->arrives_s = d->habit == HABIT_EVENINGS ? around(c, 18 * HOUR_S, 2 * HOUR_S)
                                                  : around(c, 9 * HOUR_S, HOUR_S);
        d->leaves_s = d->arrives_s + (d->habit == HABIT_EVENINGS ? around(c, 4 * HOUR_S, HOUR_S)
                                                                 : around(c, 10 * HOUR_S, HOUR_S));
        d->room = 6 + (uint32_t)cloud_draw(c, 6);
        d->dies_at_s = cloud_draw(c, 100) < NEVER_DIES
                           ? never_s
                           : (int64_t)cloud_draw(c, (uint64_t)days * CLOUD_DAY_S);
        d->on_s = FIRST_TURN_S;
        d->off_s = (int64_t)cloud_draw(c, CLOUD_DAY_S);
    }
}

/* A day on which it is on; sick, on holiday, or nobody works. */
static bool works_on(struct cloud *c, struct cloud_desk *d, int64_t day)
{
    uint64_t permille = cloud_draw(c, 1000);

    if (d->habit == HABIT_OFFICE && (day % 7 >= 5 || day == c->holiday)) {
        return false;
    }
    if (day * CLOUD_DAY_S + d->arrives_s < d->absent_until_s) {
        return false;
    }
    if (permille < 12) {
        d->absent_until_s = (day + 1 + (int64_t)cloud_draw(c, 3)) * CLOUD_DAY_S;
    } else if (permille < 15) {
        d->absent_until_s = (day + 5 + (int64_t)cloud_draw(c, 10)) * CLOUD_DAY_S;
    }
    return permille >= 15;
}

/* When it is on next, and until when. Now and then its owner forgets to switch it off. */
static void plan(struct cloud *c, struct cloud_desk *d)
{
    int64_t day = c->now_s / CLOUD_DAY_S;

    if (d->habit == HABIT_ALWAYS) { /* A restart each fortnight. */
        d->on_s = c->now_s + around(c, 10 * MINUTE_S, 10 * MINUTE_S);
        d->off_s = d->on_s + around(c, 14 * CLOUD_DAY_S, 13 * CLOUD_DAY_S);
        return;
    }
    if (d->habit == HABIT_FLAPPING) {
        d->on_s = c->now_s + around(c, HOUR_S, HOUR_S);
        d->off_s = d->on_s + around(c, 2 * HOUR_S, 2 * HOUR_S);
        return;
    }
    if (c->now_s >= day * CLOUD_DAY_S + d->arrives_s - HOUR_S) {
        day++;
    }
    while (!works_on(c, d, day)) {
        day++;
    }
    d->on_s = day * CLOUD_DAY_S + around(c, d->arrives_s, HOUR_S / 2);
    d->off_s = day * CLOUD_DAY_S + around(c, d->leaves_s, HOUR_S);
    if (cloud_draw(c, 100) < 3) {
        d->off_s += CLOUD_DAY_S;
    }
}

static void goes(struct cloud *c, donor_id id)
{
    struct cloud_desk *d = desk_of(c, id);

    d->up = false;
    manager_left(c, id, cloud_draw(c, 2) == 0);
    plan(c, d);
}

static void dies(struct cloud *c, donor_id id)
{
    struct cloud_desk *d = desk_of(c, id);

    if (d->up) {
        goes(c, id);
    }
    d->dead = true;
    c->dead++;
    wipe(c, id);
}

void desks_turn(struct cloud *c)
{
    for (donor_id id = 1; id <= CLOUD_DESKS; id++) {
        struct cloud_desk *d = desk_of(c, id);

        if (!d->dead && d->dies_at_s <= c->now_s) {
            dies(c, id);
        }
        if (d->up && d->off_s <= c->now_s) {
            goes(c, id);
        } else if (!d->dead && !d->up && d->on_s <= c->now_s) {
            d->up = true;
            d->instance = ++c->instances;
            manager_came(c, id, false);
        } else if (d->up) {
            manager_report(c, id);
        }
    }
}
