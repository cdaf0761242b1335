/* Daemons and mounts are killed and come back, daemons lose their power while the mounts live on,
 * links are cut, processes stand still. Which of it happens, and how often, is drawn for each
 * history. */
#include "tests/sim/world/history.h"

#include <stdio.h>
#include <stdlib.h>

enum fault {
    FAULT_META,
    FAULT_IOD,
    FAULT_MOUNT,
    FAULT_CUT,
    FAULT_FREEZE,
    FAULT_META_POWER,
    FAULT_IOD_POWER,
    FAULT_MOUNT_POWER,
    FAULT_RESET,
    FAULT_ALL_POWER,
    FAULT_SLOW,
    FAULT_DISK,
    FAULTS_COUNT
};

enum {
    AWAY_GENTLE_MS_MAX = 300, /* So short a time is the manager away in a gentle one. */
    META_RESTS_S = 5,
    FLAPS_MAX = 8,
    RESETS_MAX = 4,
    DISK_FAILS_MS_MAX = 5000,
    SLOW_TIMES_MAX = 200
};

struct plan
{
    struct history *history;
    bool wanted[FAULTS_COUNT];
    uint64_t every_ns;
};

struct comeback
{
    struct history *history;
    unsigned number;
};

static uint64_t some_time_ns(const struct history *h)
{
    return 20 * WORLD_MS +
           world_draw_skewed(h->gentle ? AWAY_GENTLE_MS_MAX * WORLD_MS : 12 * WORLD_S);
}

static struct comeback *comeback_new(struct history *h, unsigned number)
{
    struct comeback *c = malloc(sizeof(*c));

    CHECK(c != NULL);
    *c = (struct comeback){ h, number };
    return c;
}

/* ---- Coming back: not of who is to be away (history.c) ---- */

static void meta_comes_back(void *data)
{
    struct history *h = data;

    if (h->resting) {
        return;
    }
    if (!host_meta_process(h->meta)->alive) {
        h->meta = host_meta_start(h->meta_host, "meta");
    } else if (host_meta_process(h->meta)->over != NULL) {
        world_in(100 * WORLD_MS, meta_comes_back, h);
    }
}

static void iod_comes_back(void *data)
{
    struct comeback *c = data;
    struct history *h = c->history;
    char name[WORLD_NAME_MAX];

    if (!h->resting && host_iod_process(h->iods[c->number])->alive &&
        host_iod_process(h->iods[c->number])->over != NULL) {
        world_in(100 * WORLD_MS, iod_comes_back, c);
        return;
    }
    (void)snprintf(name, sizeof(name), "iod%u", c->number + 1);
    if (!h->resting && !host_iod_process(h->iods[c->number])->alive) {
        h->iod_hosts[c->number]->disk_fails_until_ns = 0; /* Somebody has looked. */
        h->disk_failed[c->number] = false;
        h->iods[c->number] = host_iod_start(h->iod_hosts[c->number], name, h->meta_host);
    }
    free(c);
}

void faults_iod_back(struct history *h, unsigned number, uint64_t back_ns)
{
    world_at(back_ns, iod_comes_back, comeback_new(h, number));
}

static void mount_comes_back(void *data)
{
    struct comeback *c = data;
    struct history *h = c->history;
    char name[WORLD_NAME_MAX];

    (void)snprintf(name, sizeof(name), "mount%u", c->number + 1);
    if (!h->resting && !h->mounts[c->number]->process->alive) {
        h->mounts[c->number] =
            host_mount_start(h->mount_hosts[c->number], name, h->meta_host, h->by_name);
    }
    free(c);
}

/* ---- What goes wrong ---- */

/* Some starts fail one after the other: whoever waits sees many managers come and go. */
static void meta_flaps(void *data)
{
    struct history *h = data;

    if (h->faults && host_meta_process(h->meta)->alive &&
        host_meta_process(h->meta)->over == NULL) {
        h->counts.kills++;
        host_meta_kill(h->meta);
        world_in(20 * WORLD_MS + world_draw(AWAY_GENTLE_MS_MAX * WORLD_MS), meta_comes_back, h);
    }
}

static void kill_meta(struct history *h)
{
    unsigned flaps = !h->gentle && world_chance(4) ? FLAPS_MAX : 0;

    uint64_t now_ns = h->world->now_ns;

    if (h->gentle && now_ns < h->meta_rests_ns) {
        return; /* Leases are renewed before it goes again. */
    }
    h->meta_rests_ns = now_ns + META_RESTS_S * WORLD_S;
    if (host_meta_process(h->meta)->alive) {
        if (host_meta_process(h->meta)->over == NULL && world_chance(3)) {
            h->counts.ends++;
            host_meta_stop(h->meta);
        } else {
            h->counts.kills++;
            host_meta_kill(h->meta);
        }
        world_in(some_time_ns(h), meta_comes_back, h);
        for (unsigned i = 0; i < flaps; i++) {
            world_in(world_draw(flaps * 2 * AWAY_GENTLE_MS_MAX * WORLD_MS), meta_flaps, h);
        }
    }
}

static void kill_iod(struct history *h)
{
    unsigned number = (unsigned)world_draw(h->iods_count);

    if (host_iod_process(h->iods[number])->alive) {
        if (host_iod_process(h->iods[number])->over == NULL && world_chance(3)) {
            h->counts.ends++;
            host_iod_stop(h->iods[number]);
        } else {
            h->counts.kills++;
            host_iod_kill(h->iods[number]);
        }
        world_in(some_time_ns(h), iod_comes_back, comeback_new(h, number));
    }
}

static void kill_mount(struct history *h)
{
    unsigned number = (unsigned)world_draw(HISTORY_MOUNTS);

    if (h->mounts[number]->process->alive) {
        h->counts.mount_kills++;
        host_mount_kill(h->mounts[number]);
        world_in(some_time_ns(h), mount_comes_back, comeback_new(h, number));
    }
}

/* Also of a machine whose daemon was killed a moment ago. Where losses are counted, nobody gives up
 * for want of an answer. */
static uint64_t back_at_ns(const struct history *h, const struct world_process *p)
{
    uint64_t off_ns = h->only_power ? world_draw(WORLD_S) : some_time_ns(h);

    return h->world->now_ns + (p->alive ? 100 * WORLD_MS + off_ns : 0);
}

static void meta_loses_power(struct history *h, unsigned number)
{
    uint64_t back_ns = back_at_ns(h, host_meta_process(h->meta));

    h->counts.losses++;
    (void)number;
    h->meta_losses++;
    host_meta_lose_power(h->meta, back_ns);
    world_at(back_ns + world_draw(WORLD_S), meta_comes_back, h);
}

static void iod_loses_power(struct history *h, unsigned number)
{
    uint64_t back_ns = back_at_ns(h, host_iod_process(h->iods[number]));

    h->counts.losses++;
    host_iod_lose_power(h->iods[number], back_ns);
    world_at(back_ns + world_draw(WORLD_S), iod_comes_back, comeback_new(h, number));
}

/* Mostly the power waits for a moment in which there is something to lose. */
struct lurker
{
    struct history *history;
    void (*strike)(struct history *h, unsigned number);
    unsigned number;
    uint64_t until_ns;
};

static void lurk(void *data)
{
    struct lurker *l = data;
    struct history *h = l->history;
    bool any = l->strike == meta_loses_power ? host_meta_unsynced() > 0
                                             : world_disk_differs(h->iod_hosts[l->number]);

    if (!h->faults) {
        free(l);
    } else if ((any && world_chance(3)) || h->world->now_ns > l->until_ns) {
        l->strike(h, l->number);
        free(l);
    } else {
        world_in(world_draw(WORLD_MS), lurk, l);
    }
}

static void lurk_for(struct history *h, void (*strike)(struct history *h, unsigned number),
                     unsigned number)
{
    struct lurker *l = malloc(sizeof(*l));

    CHECK(l != NULL);
    *l = (struct lurker){ h, strike, number, h->world->now_ns + world_draw(2 * WORLD_S) };
    lurk(l);
}

static void meta_power(struct history *h)
{
    lurk_for(h, meta_loses_power, 0);
}

static void iod_power(struct history *h)
{
    lurk_for(h, iod_loses_power, (unsigned)world_draw(h->iods_count));
}

/* A blackout: of all storage servers, almost together. */
static void all_power(struct history *h)
{
    uint64_t back_ns = h->world->now_ns + 100 * WORLD_MS + world_draw(WORLD_S);

    h->counts.blackouts++;
    for (unsigned i = 0; i < h->iods_count; i++) {
        h->counts.losses++;
        host_iod_lose_power(h->iods[i], back_ns);
        faults_iod_back(h, i, back_ns + world_draw(WORLD_S));
    }
}

static void slow_link(struct history *h)
{
    struct world *w = h->world;

    h->counts.slow++;
    world_slow(&w->hosts[world_draw(w->hosts_count)], 2 + world_draw_skewed(SLOW_TIMES_MAX),
               w->now_ns + some_time_ns(h));
}

/* Nobody says goodbye: the session has to expire. */
static void mount_loses_power(struct history *h)
{
    unsigned number = (unsigned)world_draw(HISTORY_MOUNTS);
    uint64_t back_ns = back_at_ns(h, h->mounts[number]->process);

    if (h->mounts[number]->process->alive) {
        h->counts.mount_losses++;
        host_mount_lose_power(h->mounts[number], back_ns);
        world_at(back_ns + world_draw(WORLD_S), mount_comes_back, comeback_new(h, number));
    }
}

static void cut_link(struct history *h)
{
    struct world *w = h->world;
    struct world_host *a = &w->hosts[world_draw(w->hosts_count)];
    struct world_host *b = &w->hosts[world_draw(w->hosts_count)];
    uint64_t until_ns = w->now_ns + some_time_ns(h);

    if (a == b) {
        return;
    }
    h->counts.cuts++;
    world_cut(a, b, until_ns);
    if (!world_chance(3)) {
        world_cut(b, a, until_ns);
    }
}

/* A few connections, each when something is under way over it. */
struct resets
{
    struct history *history;
    struct world_host *host; /* NULL: whosever. */
    unsigned left;
    uint64_t one_of, every_ns, until_ns;
};

static void reset_some(void *data)
{
    struct resets *r = data;

    r->left -= world_chance(r->one_of) && world_socks_reset_one(r->host);
    if (r->left == 0 || !r->history->faults || r->history->world->now_ns > r->until_ns) {
        free(r);
    } else {
        world_in(world_draw(r->every_ns), reset_some, r);
    }
}

static void begin_resets(const struct resets *how)
{
    struct resets *r = malloc(sizeof(*r));

    CHECK(r != NULL);
    *r = *how;
    reset_some(r);
}

static void reset(struct history *h)
{
    struct resets how = { .history = h,
                          .host = world_chance(2) ? h->meta_host : NULL,
                          .one_of = 3,
                          .every_ns = WORLD_MS,
                          .until_ns = h->world->now_ns + WORLD_S };

    how.left = 1 + (unsigned)world_draw(RESETS_MAX);
    begin_resets(&how);
}

/* ---- Disks that fail ---- */

/* The administrator does what the log says: he looks at the disk, which is well again, and starts the daemon anew. */
static void mend_disk(struct history *h, unsigned number)
{
    struct host_iod *iod = h->iods[number];

    h->disk_failed[number] = false;
    h->iod_hosts[number]->disk_fails_until_ns = 0;
    world_trace(h->iod_hosts[number]->name, "** its disk is well again");
    if (host_iod_process(iod)->alive && host_iod_process(iod)->over == NULL) {
        if (world_chance(3)) {
            host_iod_stop(iod);
        } else if (world_chance(2)) {
            host_iod_kill(iod);
        } else {
            iod_loses_power(h, number);
            return;
        }
    }
    faults_iod_back(h, number, h->world->now_ns + world_draw(WORLD_S));
}

static void disk_is_seen_to(void *data)
{
    struct comeback *c = data;

    if (c->history->disk_failed[c->number] && !c->history->resting) {
        mend_disk(c->history, c->number);
    }
    free(c);
}

static void fail_disk(struct history *h)
{
    unsigned number = (unsigned)world_draw(h->iods_count);
    enum world_disk_fault fault = (enum world_disk_fault)world_draw(WORLD_DISK_FAULTS);
    uint64_t until_ns = h->world->now_ns + world_draw(DISK_FAILS_MS_MAX * WORLD_MS);

    if (h->iod_hosts[number]->disk_fails_until_ns > h->world->now_ns || h->disk_failed[number] ||
        !host_iod_process(h->iods[number])->alive) {
        return;
    }
    h->counts.disk_faults++;
    world_disk_fails(h->iod_hosts[number], fault, until_ns);
    if (fault != WORLD_DISK_FULL) {
        h->disk_failed[number] = true;
        world_at(until_ns + world_draw(2 * WORLD_S), disk_is_seen_to, comeback_new(h, number));
    }
}

static struct world_process *any_process(struct history *h)
{
    unsigned number = (unsigned)world_draw(1 + h->iods_count + HISTORY_MOUNTS);

    if (number == 0) {
        return host_meta_process(h->meta);
    }
    return number <= h->iods_count ? host_iod_process(h->iods[number - 1])
                                   : h->mounts[number - 1 - h->iods_count]->process;
}

static void freeze(struct history *h)
{
    struct world_process *p = any_process(h);

    if (p->alive) {
        h->counts.freezes++;
        world_process_freeze(p, h->world->now_ns + some_time_ns(h));
    }
}

static void go_wrong(void *data)
{
    static void (*const kinds[])(struct history * h) = {
        [FAULT_META] = kill_meta,      [FAULT_IOD] = kill_iod,
        [FAULT_MOUNT] = kill_mount,    [FAULT_CUT] = cut_link,
        [FAULT_FREEZE] = freeze,       [FAULT_META_POWER] = meta_power,
        [FAULT_IOD_POWER] = iod_power, [FAULT_MOUNT_POWER] = mount_loses_power,
        [FAULT_RESET] = reset,         [FAULT_ALL_POWER] = all_power,
        [FAULT_SLOW] = slow_link,      [FAULT_DISK] = fail_disk
    };
    struct plan *plan = data;
    unsigned kind = (unsigned)world_draw(FAULTS_COUNT);

    if (!plan->history->faults) {
        return;
    }
    /* Those that are wanted shall happen often enough. */
    for (unsigned i = 0; i < 2 && !plan->wanted[kind]; i++) {
        kind = (unsigned)world_draw(FAULTS_COUNT);
    }
    if (plan->wanted[kind]) {
        kinds[kind](plan->history);
    }
    world_in(world_draw(2 * plan->every_ns), go_wrong, plan);
}

/* A mount whose manager could not be had when it began has given up; somebody begins it again. */
static void look_after_mounts(void *data)
{
    struct history *h = data;

    for (unsigned i = 0; !h->resting && i < HISTORY_MOUNTS; i++) {
        if (h->mounts[i]->refused && h->mounts[i]->process->alive) {
            host_mount_kill(h->mounts[i]);
            world_in(500 * WORLD_MS, mount_comes_back, comeback_new(h, i));
        }
    }
    world_in(200 * WORLD_MS, look_after_mounts, h);
}

void faults_strike(struct history *h, bool manager)
{
    struct resets next = { .history = h,
                           .host = manager ? h->meta_host : NULL,
                           .left = 1,
                           .one_of = 1,
                           .every_ns = WORLD_MS / 20,
                           .until_ns = h->world->now_ns + 2 * WORLD_MS };

    if (h->faults && h->resets) {
        begin_resets(&next);
    }
    if (h->faults && h->iod_kills && !manager && world_chance(20)) {
        kill_iod(h);
    }
}

void faults_begin(struct history *h)
{
    struct plan *plan = calloc(1, sizeof(*plan));

    CHECK(plan != NULL);
    plan->history = h;
    h->faults = true;
    h->gentle = world_chance(4);
    for (unsigned i = 0; i < FAULTS_COUNT; i++) {
        plan->wanted[i] =
            (!h->gentle || i == FAULT_META || i == FAULT_RESET) && !world_chance(h->gentle ? 2 : 3);
    }
    h->calm = h->gentle && !plan->wanted[FAULT_RESET];
    h->one_struck = h->copies > 1 && !h->gentle && world_chance(3);
    h->only_power = !h->gentle && !h->one_struck && world_chance(4);
    for (unsigned i = 0; h->only_power && i < FAULTS_COUNT; i++) {
        plan->wanted[i] = i == FAULT_META_POWER || i == FAULT_IOD_POWER || i == FAULT_ALL_POWER ||
                          (i == FAULT_RESET && plan->wanted[i]);
    }
    for (unsigned i = 0; h->one_struck && i < FAULTS_COUNT; i++) {
        plan->wanted[i] = false;
    }
    h->calm = h->calm || h->one_struck;
    if (h->calm) {
        host_meta_is_warm();
    }
    h->resets = plan->wanted[FAULT_RESET];
    h->cuts = plan->wanted[FAULT_CUT];
    h->iod_kills = plan->wanted[FAULT_IOD];
    h->forgetful = plan->wanted[FAULT_META_POWER];
    plan->every_ns = 100 * WORLD_MS + world_draw_skewed(3 * WORLD_S);
    world_in(plan->every_ns, go_wrong, plan);
    look_after_mounts(h);
    if (h->one_struck) {
        strikes_begin(h);
    }
}

void faults_end(struct history *h)
{
    struct world *w = h->world;

    h->faults = false;
    world_trace("world", "** healed");
    for (unsigned a = 0; a < w->hosts_count; a++) {
        w->hosts[a].off_until_ns = 0;
        w->hosts[a].slow_until_ns = 0;
        w->hosts[a].disk_slow_until_ns = 0;
        for (unsigned b = 0; b < w->hosts_count; b++) {
            w->hosts[a].cut_until_ns[b] = 0;
        }
    }
    world_in(0, meta_comes_back, h);
    for (unsigned i = 0; i < h->iods_count; i++) {
        h->iod_hosts[i]->disk_fails_until_ns = 0;
        if (h->disk_failed[i]) {
            mend_disk(h, i);
        } else {
            world_in(0, iod_comes_back, comeback_new(h, i));
        }
    }
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        world_in(0, mount_comes_back, comeback_new(h, i));
    }
}
