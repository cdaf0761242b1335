/* When benefactors are usually here: what their comings and goings of the last weeks say.
 *
 * Pure. A desktop that is off at night is not lost. For each benefactor there is
 *  - for each hour of the week (168, of the manager's local time) the *share* of that hour in which it is usually here: of the
 *    first such hour that was seen, its own; of each later one a quarter, and three of what was known;
 *  - how many of its *absences* lasted how long, in steps of two from a quarter of an hour on; at the end of each week three
 *    quarters of that count are kept.
 * So what was months ago has no weight, and a machine with new habits is known by them after two or three weeks.
 *
 * Of one that is away is known besides what it has *missed*: the hours since it left, each multiplied by the share that it is
 * usually here, and by the turnout: which part of those that are usually here just then is. Where less than half of them is here
 * it counts nothing: that is a holiday, or our own network. Then
 *
 *   gone / (gone + stays * 2^-missed)     is how likely it stays away for good,
 *
 * where `gone` is 1/HOURS_GONE_PART, 2^-missed goes in straight lines between whole hours, and `stays` the part of its absences that lasted as long as this one, or longer, at least a
 * quarter of an absence of one more. One that has missed less than half an hour is only not here at a time at which it never is: 0.
 *
 * Nobody is known before HOURS_KNOWN_MIN hours of the week are: of him these answers say nothing, and others decide.
 *
 * Time. Durations go by a clock that never jumps, hours of the week by the local one. When that is set, or goes over to summer
 * time, or the manager did not look in time, the hour in which this happened is not counted for anybody.
 *
 * What is learned is kept in the store, one record a benefactor (hours_record.h), when it has not been for an hour.
 *
 * Bounded: DONORS_MAX, of some 300 bytes each.
 */
#ifndef MORSEL_META_CLUSTER_HOURS_H
#define MORSEL_META_CLUSTER_HOURS_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum {
    HOURS_WEEK = 168,
    HOURS_SHARE_MAX = 254, /* All of the hour. */
    HOURS_SHARE_NONE = 255,
    HOURS_KNOWN_MIN = 144, /* Hours of the week: six days. */
    HOURS_ABSENCES = 12,   /* The first: up to HOURS_ABSENCE_S; the next: up to twice that; ... */
    HOURS_ABSENCE_S = 900,
    HOURS_ABSENCE_WEIGHT = 16,
    HOURS_GONE_PART = 32,       /* One of so many absences is taken to have no end. */
    HOURS_AWAY_MAX_S = 604800,  /* Who is away for longer is gone, whatever its habits are. */
    HOURS_AWAKE_WORDS = 3,      /* A bit for each hour of the week. */
    HOURS_MISSED_MAX = 2000000, /* Thousandths of an hour. */
    HOURS_KEEP_S = 3600
};

static_assert(HOURS_AWAKE_WORDS * 64 >= HOURS_WEEK, "each hour of the week has its bit");

struct hours_time
{
    int64_t s;       /* Monotonic. */
    int64_t local_s; /* What the clock on the wall shows, since 1970-01-01 (a Thursday) there. */
};

/* What is kept. */
struct hours_record
{
    int64_t left_local_s; /* It is away since then; 0: it is here. */
    donor_id id;
    uint32_t missed;                   /* Thousandths of an hour. */
    uint16_t absences[HOURS_ABSENCES]; /* HOURS_ABSENCE_WEIGHT each. */
    /* In 1/HOURS_SHARE_MAX; HOURS_SHARE_NONE: never seen. From Thursday 0:00 on. */
    uint8_t share[HOURS_WEEK];
};

struct hours_donor
{
    struct hours_record record;
    uint64_t awake[HOURS_AWAKE_WORDS]; /* Hours in which it is here for half the time or more. */
    uint32_t known;                    /* Hours of the week of which there is a share. */
    bool here,
        sure;     /* `sure`: of when it left, not only that it was away when the manager began. */
    bool changed; /* The record, since it was kept. */
    int64_t since_s; /* Of its last coming or going. */
    int64_t kept_s;
    int64_t from_s;          /* Counted up to here: */
    uint32_t seen_s, here_s; /* of this hour. */
};

struct hours
{
    struct hours_donor *items; /* Ascending by id; room for so many: */
    uint32_t count, room;
    bool begun;
    int64_t offset_s; /* Local time less monotonic. */
    int64_t hour;     /* Of local time, since 1970. */
    uint64_t usual,
        present; /* Shares of this hour: of all that are known, of those of them that are here. */
    uint32_t keep_at; /* Where hours_keep() goes on. */
};

void hours_init(struct hours *h);
void hours_free(struct hours *h);

/* What was kept of one, when the manager starts: it is away until it comes. MORSEL_NOMEM; MORSEL_CORRUPT: it is there, or there
 * are too many. */
int hours_load(struct hours *h, const struct hours_record *record, const struct hours_time *now);

/* It has come, or gone; once more is nothing. Without memory nothing is learned of it. */
void hours_come(struct hours *h, donor_id id, const struct hours_time *now);
void hours_go(struct hours *h, donor_id id, const struct hours_time *now);

/* Nothing is known of it any more. */
void hours_forget(struct hours *h, donor_id id);

/* For how many seconds it is away, also by what was kept of it; 0: it is here, or nothing is known of it. */
int64_t hours_away_s(const struct hours *h, donor_id id, const struct hours_time *now);

/* Time passes. When it must be said again, in monotonic seconds: at the end of the hour. */
void hours_tick(struct hours *h, const struct hours_time *now);
int64_t hours_deadline_s(const struct hours *h);

/* ---- Answers ---- */

/* Is enough known of it? */
bool hours_known(const struct hours *h, donor_id id);

/* How usual it is that it is here then, in permille. Only of one that is known. */
uint32_t hours_usual(const struct hours *h, donor_id id, int64_t local_s);

/* In how many seconds the next hour begins in which it is here for half the time or more; 0: this is one. INT64_MAX: there is
 * none, or it is not known. */
int64_t hours_back_in(const struct hours *h, donor_id id);

/* How likely does it stay away for good, in permille? 0: it is here. Only of one that is known. */
uint32_t hours_gone(const struct hours *h, donor_id id, int64_t now_s);

/* Hours of the week in which it is here; NULL: not known. */
const uint64_t *hours_awake(const struct hours *h, donor_id id);

/* ---- Keeping ---- */

/* Up to `max` records that are to be written now: how many. They count as kept. */
uint32_t hours_keep(struct hours *h, int64_t now_s, struct hours_record *out, uint32_t max);

/* CHECKs the invariants. Walks all of them. */
void hours_check(const struct hours *h);

#endif
