/* A cloud of a thousand desktops that come and go for weeks, around the manager's cores: benefactors, their hours, data sets,
 * placement and repair. Time is virtual, in turns of TURN_S. Everything random comes from one seed.
 *
 * desks      their owners' habits: who is on when, whose machine dies; and what lies on each disk
 * manager    the host of the cores: clients store and delete data sets, what repair wants is carried out, and it is restarted
 * judge      what must hold behind each turn, from the disks; and what is measured
 */
#ifndef MORSEL_TESTS_SIM_CLOUD_H
#define MORSEL_TESTS_SIM_CLOUD_H

#include "common/base/prng.h"
#include "meta/cluster/hours.h"
#include "meta/datasets/repair.h"
#include "meta/datasets/set_placement.h"

enum {
    CLOUD_DESKS = 1000,
    CLOUD_DAYS_MAX = 56,
    CLOUD_SETS = 70,    /* At a time. */
    CLOUD_MORSELS = 16, /* Of each. */
    CLOUD_BYTES = 1 << 20,
    CLOUD_COPIES = 2,
    CLOUD_HOLDERS_MAX = 12,
    CLOUD_TURN_S = 1200,
    CLOUD_DAY_S = 86400
};

enum cloud_habit { HABIT_OFFICE, HABIT_ALWAYS, HABIT_EVENINGS, HABIT_FLAPPING };

struct cloud_desk
{
    enum cloud_habit habit;
    bool up, dead;
    uint64_t instance;
    int64_t arrives_s, leaves_s;       /* Of its day, usually. */
    int64_t on_s, off_s;               /* Today, or next; true time. */
    int64_t absent_until_s, dies_at_s; /* On holiday; for good. */
    uint32_t room, used;               /* Morsels. */
};

/* A morsel as it really is. */
struct cloud_morsel
{
    donor_id holders[CLOUD_HOLDERS_MAX]; /* On whose disk it is; */
    bool waste[CLOUD_HOLDERS_MAX];       /* and is to be deleted. */
    uint32_t count;
};

struct cloud_set
{
    uint64_t number; /* 0: none. */
    bool deleted;    /* It is in no map any more; some may still have to delete. */
    struct cloud_morsel morsels[CLOUD_MORSELS];
};

/* What a day has cost. */
struct cloud_day
{
    uint64_t copied, stored; /* Morsels; stored: copies, summed over the turns. */
    uint64_t turns, away, thin,
        all; /* Morsels without a copy that is on, with fewer than wanted; of all; summed likewise. */
};

struct cloud
{
    uint64_t seed;
    struct prng prng;
    const char *canary; /* NULL: none. */
    bool without_hours;
    int64_t now_s;   /* True time, since the first Monday. */
    uint64_t now_ms; /* The manager's. */
    struct donors donors;
    struct hours hours;
    struct sets sets;
    struct repair repair;
    struct hours_record kept[CLOUD_DESKS]; /* The store: id 0: nothing. */
    struct repair_task orders[REPAIR_FLIGHT_MAX];
    uint32_t order_count;
    struct cloud_desk desks[CLOUD_DESKS]; /* Number i + 1. */
    struct cloud_set sets_made[CLOUD_SETS * 2];
    struct place_candidate candidates[CLOUD_DESKS];
    uint64_t numbers, instances;
    int64_t holiday;   /* That day all are off who work. */
    int64_t restart_s; /* Of the manager, next. */
    struct cloud_day days[CLOUD_DAYS_MAX];
    uint64_t copied, dropped, given_up, dead, restarts, deleted, lost;
    bool failed;
    char failure[256];
};

uint64_t cloud_draw(struct cloud *c, uint64_t below);
bool cloud_is(const struct cloud *c, const char *canary);
/* Notes the first; always false. */
bool cloud_fail(struct cloud *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Desks ---- */

void desks_draw(struct cloud *c, uint32_t days);
/* Those that come and go in this turn, and what those say that are on. */
void desks_turn(struct cloud *c);
struct cloud_desk *desk_of(struct cloud *c, donor_id id);
struct cloud_morsel *truth_of(struct cloud *c, uint64_t set, uint32_t morsel);
bool holds(const struct cloud_morsel *m, donor_id id);
/* On its disk. False: there is no room. */
bool desk_stores(struct cloud *c, donor_id id, struct cloud_morsel *m);

/* ---- Manager ---- */

void manager_start(struct cloud *c, uint64_t now_ms);
void manager_stop(struct cloud *c);
void manager_came(struct cloud *c, donor_id id, bool again);
void manager_left(struct cloud *c, donor_id id, bool orderly);
void manager_report(struct cloud *c, donor_id id);
/* Sets come and go; repair does what it wants. */
void manager_turn(struct cloud *c);

/* ---- Judge ---- */

bool judge_turn(struct cloud *c);
bool judge_end(struct cloud *c, uint32_t days);

#endif
