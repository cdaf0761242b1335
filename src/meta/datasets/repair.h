/* Which morsels get another copy, where from and where to; and which copies are too many.
 *
 * Pure. It looks at the maps (sets.h) and at who is here (donors.h), and says what is to be done; it changes neither, but for
 * what it counts of each benefactor (struct donor_repair).
 *
 * A copy *counts* when its benefactor is HERE and has said what its directory holds. It is *expected* when it counts, or when its
 * benefactor is asked just now, or away for less than `after_ms`, the time in which a desktop that was restarted is back. A morsel
 * is *short* when fewer copies are expected than its set wants, and one of them counts: then it is fetched by another benefactor,
 * from one of those. While only one copy counts, which may be the last that there is, others are expected for a quarter of that time
 * only. Of whom the hours are known (cluster/hours.h) is expected for longer: as long as it is less likely than REPAIR_GONE_LAST (while
 * only one copy counts), or REPAIR_GONE_REST, that it stays away for good. What is being rewritten is left alone, and what has no bytes.
 *
 *   short --FETCH--> under way --done--> ADD: the map names the new copy, if the morsel is still what was fetched
 *     ^                   |
 *     +-------------------+ failed, the target is gone, or too late (REPAIR_FETCH_MS) --> FORGET: what the target may have of it
 *                                                                                   is to be deleted there
 *
 * One that has been away and comes back is taken by what it says that it has: its copies count again, nothing is copied for that.
 * So a morsel may have a copy more than is wanted (SET_SURPLUS). That one is kept, for a machine that was away is soon away
 * again: it goes (DROP, the newest first) when all benefactors of the morsel that count have been here for KEEP_TIMES * `after_ms`,
 * which is a day and more, so that desktops which are off at night are not filled anew each night; or for `after_ms`, where its
 * benefactor has less than a sixteenth of its room left; surplus.h takes it where room is needed now. When there is a surplus already and two are gone, the new copy takes
 * the place of the one whose benefactor is away for longest: that one is given up, and deleted should it come back.
 *
 * What a benefactor has that *leaves* (`morsel donate leave`: it says until when it stays) does not count, but can be read: it is the
 * source where there is no other. When the map of a morsel has no room for the new copy, the leaving one's is given up for it;
 * otherwise it stays named, for who leaves may come back. How much is still to be copied because of it is counted (struct
 * donor_left), so that it can go as soon as nothing is. When it is away it is not expected.
 *
 * What one has that is *distrusted* (cluster/blame.h) is as what has one that leaves; but as soon as enough copies count without its
 * own, that one goes (DROP).
 *
 * Order. All sets are walked, a few hundred morsels at a step, in passes: first the morsels that only those have who leave, then
 * those of which one copy counts, then the others; in each of them those first that are read most (heat.h), and then the oldest set. The second is interrupted by another first one each `period_ms`. Where
 * benefactors have enough to do the walk waits, having looked a bit further, for what others could do (WINDOW).
 *
 * Bounds: REPAIR_FLIGHT_MAX fetches, of which REPAIR_DONOR_MAX at each target and as many from each source, REPAIR_LEAVING_MAX from one that leaves or gives less; no list of what is
 * short. Of one morsel one fetch is under way at most.
 *
 * Invariants (repair_check()): those bounds; struct donor_repair has what the tasks say; target and source differ.
 */
#ifndef MORSEL_META_DATASETS_REPAIR_H
#define MORSEL_META_DATASETS_REPAIR_H

#include "meta/cluster/donors.h"
#include "meta/cluster/hours.h"
#include "meta/datasets/heat.h"
#include "meta/datasets/sets.h"

enum {
    REPAIR_FLIGHT_MAX = 64,
    REPAIR_DONOR_MAX = 2,
    REPAIR_LEAVING_MAX = 8,   /* From one whose owner waits for his space. */
    REPAIR_FETCH_MS = 120000, /* A target gives up before (benefactor/fetching_uv.h). */
    REPAIR_KEEP_TIMES = 100,
    REPAIR_GONE_LAST = 250, /* Permille. */
    REPAIR_GONE_REST = 500,
    REPAIR_FAILURES_MAX = 128, /* That are remembered; older ones are tried again at once. */
    REPAIR_ACTIONS_MAX = 2 * REPAIR_FLIGHT_MAX
};

/* What came of a fetch. Numbers of the wire. */
enum repair_outcome {
    REPAIR_DONE = 1,
    REPAIR_UNREACHABLE, /* The source. */
    REPAIR_DAMAGED,     /* What the source has is not what the map says. */
    REPAIR_NO_ROOM,     /* At the target. */
    REPAIR_FAILED       /* At the target, otherwise. */
};

struct repair_task
{
    uint64_t order; /* 0: none. Never recurs in one run of the manager. */
    uint64_t set;
    uint32_t morsel, length, digest;
    donor_id source, target;
    donor_id off; /* It is moved off this one, whose copy is given up for the new one; 0: no. */
    uint64_t target_instance;
    uint64_t due_ms;
};

enum repair_event_type {
    REPAIR_TICK,
    REPAIR_FETCHED /* A target says so. */
};

struct repair_event
{
    uint64_t now_ms; /* As in donors.h. */
    enum repair_event_type type;
    struct repair_task fetched; /* order, set, morsel, length, digest and target are looked at. */
    enum repair_outcome outcome;
};

struct repair_action
{
    enum {
        REPAIR_FETCH, /* Tell the target of `task`. */
        REPAIR_ADD,   /* The target has a copy of it; `instead` (0: nobody) is given up for that. */
        REPAIR_FORGET, /* What the target may have of it does not count, unless the map names it. */
        REPAIR_DROP,   /* The copy at the target is one too many. */
        REPAIR_YIELD /* The disk of the target has no room for its copy, and another one counts. */
    } type;
    struct repair_task task;
    donor_id instead;
    enum repair_outcome outcome; /* FORGET: why. */
};

struct repair_actions
{
    uint32_t count;
    struct repair_action items[REPAIR_ACTIONS_MAX];
};

/* Where in all sets. */
struct repair_place
{
    uint64_t set;
    uint32_t morsel;
};

struct repair_failure
{
    uint64_t set, until_ms;
    uint32_t morsel;
    donor_id donor;
};

/* How far relocate.h is: at one that gives way, and where among what it has. */
struct relocate
{
    donor_id donor;
    uint32_t pass;
    struct repair_place at;
    bool found; /* Something that could go, since the first pass. */
    uint64_t due_ms;
};

enum repair_pass { REPAIR_PASS_ONLY, REPAIR_PASS_LAST, REPAIR_PASS_REST, REPAIR_PASS_END };

struct repair_walk
{
    struct repair_place at;
    bool passed;               /* Something was left because benefactors have enough to do: */
    struct repair_place first; /* the first of that, */
    uint32_t beyond;           /* and so many morsels were looked at behind it. */
};

struct repair
{
    const struct sets *sets; /* Borrowed. */
    struct donors *donors;
    const struct hours *hours; /* Borrowed, set behind repair_init(); NULL: no hours are known. */
    const struct heat *heat;   /* Likewise; NULL: nothing is hotter than the rest. */
    uint64_t after_ms, period_ms;

    struct repair_task tasks[REPAIR_FLIGHT_MAX];
    uint32_t task_count;
    uint64_t orders;                                     /* Given so far. */
    struct repair_failure failures[REPAIR_FAILURES_MAX]; /* A ring. */
    uint32_t failure_next;

    enum repair_pass pass;
    struct repair_walk walks[REPAIR_PASS_END];
    bool hottest_due;     /* What is read most is to be looked at before the walk goes on. */
    bool waits;           /* For a task to end, or the next first pass. */
    uint64_t pass_due_ms; /* The next first pass. */
    uint32_t leaving;     /* Benefactors that left when that was said. */
    uint64_t step_due_ms; /* The next step of what is not over. */

    struct repair_place counted; /* The walk that counts. */
    bool counting;
    uint64_t count_began_ms;
    uint64_t count_due_ms;
    uint64_t short_count, away_count; /* So far. */

    /* For whoever asks: */
    uint64_t morsels_short; /* At the last count: fewer copies count than are wanted; */
    uint64_t morsels_away;  /* none does. */
    uint64_t added, added_bytes, failed, dropped; /* Since the start; */
    uint64_t moved, moved_bytes, yielded;         /* of these and beside them, relocate.h's. */

    struct relocate relocate;
};

/* `after_ms` 0: nobody is expected. */
void repair_init(struct repair *r, const struct sets *sets, struct donors *donors,
                 uint64_t after_ms, uint64_t now_ms);

/* Advance by one event. The actions are to be carried out, in order, before the next step. */
void repair_step(struct repair *r, const struct repair_event *event, struct repair_actions *out);

/* When REPAIR_TICK is due. Ask again after each step. */
uint64_t repair_deadline_ms(const struct repair *r);

/* Is a fetch of that morsel to that benefactor under way? */
bool repair_is_fetching(const struct repair *r, uint64_t set, uint32_t morsel, donor_id target);

/* CHECKs the invariants. */
void repair_check(const struct repair *r);

/* ---- One copy more of what is hottest: repair_extra.c ---- */

/* So often one of its copies is read, aged (heat.h): to have one more, and to keep it. */
enum { REPAIR_EXTRA_READS = 16, REPAIR_EXTRA_KEPT_READS = 4 };

/* Fetches of such copies begin, as long as there is room for fetches and benefactors have nothing else to do. */
void repair_extra_fetch(struct repair *r, uint64_t now_ms, struct repair_actions *out);

/* Does the copy that is one too many stay for that reason? */
bool repair_extra_stays(const struct repair *r, const struct data_set *set, uint32_t morsel);

/* ---- What relocate.h, which is built on this, needs besides ---- */

enum {
    REPAIR_STEP_LOOKS = 512, /* Morsels, or sets that have nothing to look for, of one step; */
    REPAIR_STEP_MS = 5,      /* and the next one comes so much later. */
    REPAIR_DROPS_MAX = 16,   /* Of one step. */
    REPAIR_WASTE_MAX = SET_WASTE_MAX / 4 /* With so much of a set to be deleted, no more is. */
};

/* BUSY: those that could have enough to do. NONE: there is none. */
enum repair_chosen { REPAIR_CHOSEN, REPAIR_CHOSEN_BUSY, REPAIR_CHOSEN_NONE };

/* NULL: unknown. */
struct donor *repair_donor(const struct repair *r, donor_id id);

/* The fetch of that morsel that is under way; NULL: there is none. */
struct repair_task *repair_task_of(struct repair *r, uint64_t set, uint32_t morsel);

/* Have it fetched by one that has room; `off` (0: nobody) gives its copy up for that. There is room for one more fetch. */
enum repair_chosen repair_fetch(struct repair *r, const struct data_set *set,
                                const struct set_morsel *m, donor_id off, uint64_t now_ms,
                                struct repair_actions *out);

/* Has it failed with that one a moment ago? */
bool repair_has_failed(const struct repair *r, uint64_t set, uint32_t morsel, donor_id donor,
                       uint64_t now_ms);

/* Is there one that could take a copy, and one that could give it, busy or not, and whatever has failed a moment ago? Who is
 * awaited might: behind a start of the manager, or where a connection has just ended, nothing is given up in haste. */
bool repair_could(const struct repair *r, const struct data_set *set, const struct set_morsel *m,
                  uint64_t now_ms);

struct repair_action *repair_emit(struct repair_actions *out, int type,
                                  const struct repair_task *task);

/* Enough copies count: those at benefactors that are distrusted (cluster/blame.h) go. False: there are none, or it is for later. */
bool repair_drop_distrusted(struct repair *r, const struct data_set *set,
                            const struct set_morsel *m, struct repair_actions *out);

/* The benefactor that is given up for the new copy: the one that it was moved off; otherwise, when the map has no room for one
 * more, one that leaves or is away. 0: there is room, or none is. */
donor_id repair_given_up(const struct repair *r, const struct data_set *set,
                         const struct set_morsel *m, donor_id off, uint64_t now_ms);

/* Do those that count beside that benefactor's, which is known, all lie on one machine (by name), and its own on another one?
 * copies_at.c */
bool copies_on_other_host(const struct repair *r, const struct data_set *set,
                          const struct set_morsel *m, donor_id id, uint64_t now_ms);

/* What a morsel takes of a benefactor's disk: whole blocks. */
uint64_t repair_file_bytes(uint32_t length);

#endif
