/* Only one storage server at a time is struck, and the next one when all groups are whole again: killed, stopped,
 * frozen, without power, cut off from all or from some, in both directions or in one, its connections reset, its link or its
 * disk slow. All
 * files have copies, and a majority of voters is always there: so no call may fail, none may take longer than a
 * fail-over, and everything that was written is there, synced or not. */
#include "tests/sim/world/history.h"

#include <stdlib.h>

enum strike {
    STRIKE_KILL,
    STRIKE_END,
    STRIKE_FREEZE,
    STRIKE_POWER,
    STRIKE_CUT,         /* From everybody. */
    STRIKE_CUT_SERVERS, /* From the other storage servers, */
    STRIKE_CUT_TO,      /* in one direction, */
    STRIKE_CUT_FROM,    /* in the other; */
    STRIKE_CUT_MANAGER,
    STRIKE_RESET,
    STRIKE_SLOW,
    STRIKE_DISK, /* Slow, or it hangs. */
    STRIKES_COUNT
};

enum {
    AWAY_MS_MAX = 4000,
    LURK_MS_MAX = 300, /* So long it waits for a moment in which there is something to lose. */
    SETTLE_MS = 1500,  /* A silence may be noticed, and voted on, so long behind its end. */
    WHOLE_S_MAX =
        10, /* So long behind the end of a strike, with writers who never pause, groups are whole. */
    REST_MS_MAX = 300,
    RESETS_MAX = 6,
    SLOW_TIMES_MAX = 20,
    DISK_TIMES_MAX = 100
};

struct striker
{
    struct history *history;
    enum strike kind;
    unsigned number;
    uint64_t until_ns; /* Of what waits; then of what was struck. */
    uint64_t whole_ns; /* So long all groups are whole. */
    unsigned resets;
};

static const char *const strike_names[] = {
    [STRIKE_KILL] = "killed",
    [STRIKE_END] = "stopped",
    [STRIKE_FREEZE] = "frozen",
    [STRIKE_POWER] = "without power",
    [STRIKE_CUT] = "cut off",
    [STRIKE_CUT_SERVERS] = "cut off from the other servers",
    [STRIKE_CUT_TO] = "not heard by the other servers",
    [STRIKE_CUT_FROM] = "deaf for the other servers",
    [STRIKE_CUT_MANAGER] = "cut off from the manager",
    [STRIKE_RESET] = "reset",
    [STRIKE_SLOW] = "slow",
    [STRIKE_DISK] = "slow at its disk",
};

static void look_after(void *data);

static void cut(struct striker *s, const struct world_host *not_from, bool to, bool from)
{
    struct world *w = s->history->world;
    struct world_host *victim = s->history->iod_hosts[s->number];

    for (unsigned i = 0; i < w->hosts_count; i++) {
        struct world_host *other = &w->hosts[i];

        if (other == victim || (not_from != NULL && other != not_from)) {
            continue;
        }
        if (to) {
            world_cut(victim, other, s->until_ns);
        }
        if (from) {
            world_cut(other, victim, s->until_ns);
        }
    }
}

static void cut_servers(struct striker *s, bool to, bool from)
{
    for (unsigned i = 0; i < s->history->iods_count; i++) {
        if (i != s->number) {
            cut(s, s->history->iod_hosts[i], to, from);
        }
    }
}

static void reset_some(void *data)
{
    struct striker *s = data;
    struct history *h = s->history;

    s->whole_ns = h->world->now_ns;
    s->resets -= world_socks_reset_one(h->iod_hosts[s->number]);
    if (s->resets == 0 || !h->faults || h->world->now_ns > s->until_ns) {
        look_after(s);
    } else {
        world_in(world_draw(20 * WORLD_MS), reset_some, s);
    }
}

/* True: the process is gone, and comes back. */
static bool strike_process(struct striker *s, struct host_iod *iod)
{
    struct history *h = s->history;

    switch (s->kind) {
    case STRIKE_KILL:
        h->counts.kills++;
        host_iod_kill(iod);
        break;
    case STRIKE_END:
        h->counts.ends++;
        host_iod_stop(iod);
        break;
    case STRIKE_POWER:
        h->counts.losses++;
        host_iod_lose_power(iod, s->until_ns);
        break;
    default:
        return false;
    }
    faults_iod_back(h, s->number, s->until_ns + world_draw(WORLD_S));
    return true;
}

static void strike_now(struct striker *s)
{
    struct history *h = s->history;
    struct host_iod *iod = h->iods[s->number];

    h->counts.struck++;
    world_trace(host_iod_process(iod)->name, "** is struck: %s", strike_names[s->kind]);
    s->until_ns = h->world->now_ns + 20 * WORLD_MS + world_draw_skewed(AWAY_MS_MAX * WORLD_MS);
    if (s->kind == STRIKE_SLOW) {
        h->counts.slow++;
        world_slow(h->iod_hosts[s->number], 2 + world_draw(SLOW_TIMES_MAX), s->until_ns);
    } else if (s->kind == STRIKE_DISK) {
        h->counts.slow_disks++;
        s->until_ns += world_draw(AWAY_MS_MAX * WORLD_MS); /* What is short is no slowness. */
        h->hung = world_chance(2);
        h->slow_from_ns = h->world->now_ns;
        h->slow_until_ns = s->until_ns;
        world_disk_slow(h->iod_hosts[s->number], h->hung ? 0 : 10 + world_draw(DISK_TIMES_MAX - 9),
                        s->until_ns);
    } else if (s->kind == STRIKE_FREEZE) {
        h->counts.freezes++;
        world_process_freeze(host_iod_process(iod), s->until_ns);
    } else if (s->kind == STRIKE_RESET) {
        s->resets = 1 + (unsigned)world_draw(RESETS_MAX);
        reset_some(s);
        return;
    } else if (!strike_process(s, iod)) {
        h->counts.cuts++;
        if (s->kind == STRIKE_CUT) {
            cut(s, NULL, true, true);
        } else if (s->kind == STRIKE_CUT_MANAGER) {
            cut(s, h->meta_host, true, true);
        } else {
            cut_servers(s, s->kind != STRIKE_CUT_FROM, s->kind != STRIKE_CUT_TO);
        }
    }
    s->whole_ns = s->until_ns;
    world_at(s->until_ns, look_after, s);
}

/* Until there is something on the way to the disk. */
static void lurk(void *data)
{
    struct striker *s = data;
    struct history *h = s->history;

    if (!h->faults) {
        free(s);
    } else if (h->world->now_ns > s->until_ns ||
               (world_disk_differs(h->iod_hosts[s->number]) && world_chance(3))) {
        strike_now(s);
    } else {
        world_in(world_draw(WORLD_MS), lurk, s);
    }
}

/* The next one, when all is well behind this one. */
static void strike_next(void *data)
{
    struct striker *s = data;
    struct history *h = s->history;

    s->kind = world_chance(3) ? STRIKE_KILL : (enum strike)world_draw(STRIKES_COUNT);
    s->number = (unsigned)world_draw(h->iods_count);
    s->until_ns = h->world->now_ns + world_draw(LURK_MS_MAX * WORLD_MS);
    lurk(s);
}

static void look_after(void *data)
{
    struct striker *s = data;
    struct history *h = s->history;
    uint64_t now_ns = h->world->now_ns;
    uint64_t begun_ns = h->moved_ns > s->until_ns ? h->moved_ns : s->until_ns;
    bool whole = copies_are_well(h) && !copies_degraded(h);

    if (!whole || copies_vote_is_open(h)) {
        s->whole_ns = now_ns;
    }
    if (!h->faults) {
        free(s);
    } else if (whole && now_ns > begun_ns + WHOLE_S_MAX * WORLD_S) {
        /* What some voters have accepted is what the next vote decides first, without the server that is well again. */
        world_trace("world", "a vote was given up: nobody else is struck");
        free(s);
    } else if (now_ns - s->whole_ns >= SETTLE_MS * WORLD_MS) {
        world_trace("world", "all groups are whole");
        world_in(world_draw(REST_MS_MAX * WORLD_MS), strike_next, s);
    } else {
        if (now_ns > begun_ns + WHOLE_S_MAX * WORLD_S) {
            world_fail("iod%u: %s until %.3f ms, and its groups are not whole yet", s->number + 1,
                       strike_names[s->kind], (double)s->until_ns / 1e6);
        }
        world_in(50 * WORLD_MS, look_after, s);
    }
}

void strikes_begin(struct history *h)
{
    struct striker *s = calloc(1, sizeof(*s));

    CHECK(s != NULL);
    s->history = h;
    s->whole_ns = s->until_ns = h->world->now_ns;
    world_trace("world", "one of %u servers at a time is struck; files have %u copies",
                h->iods_count, h->copies);
    look_after(s);
}
