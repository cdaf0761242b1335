/* Gives and takes until nothing helps any more. */
#include "meta/cluster/rebalance.h"

#include "common/base/check.h"
#include "meta/cluster/placement.h"

#include <string.h>

/* One copy that could move. */
struct candidate
{
    uint32_t group, place; /* In the record, and in the group. */
    const struct member *to;
    double gain;
};

/* ---- Disks ---- */

static struct rebalance_disk *disk_of(struct rebalance_plan *p, size_t server)
{
    return &p->disks[p->disks[server].first];
}

static double fill(const struct rebalance_disk *d)
{
    return (double)d->used / (double)d->total;
}

/* By so much the sum of total * fill^2 falls when `bytes` go from the one to the other. */
static double gain_of(const struct rebalance_disk *from, const struct rebalance_disk *to,
                      uint64_t bytes)
{
    double b = (double)bytes;

    return b * (2 * (fill(from) - fill(to)) - b / (double)from->total - b / (double)to->total);
}

static bool helps(const struct rebalance_disk *from, const struct rebalance_disk *to,
                  uint64_t bytes)
{
    double f = fill(from), t = fill(to), b = (double)bytes, least = (f - t) / REBALANCE_PARTS;

    return f - t > REBALANCE_SPREAD && t + b / (double)to->total <= f - least &&
           f - b / (double)from->total >= t + least;
}

static void look_at_disks(const struct mend_world *w, struct rebalance_plan *p)
{
    uint64_t used = 0, total = 0;

    for (uint32_t i = 0; i < w->members->count; i++) {
        const struct member *m = &w->members->items[i];
        struct rebalance_disk *d = &p->disks[i];

        d->first = i;
        d->counts =
            m->up && m->connected && member_gets_new(m) && member_stays(m) && m->bytes_total != 0;
        for (uint32_t o = 0; d->counts && d->first == i && o < i; o++) {
            bool shared = p->disks[o].counts && m->disk.device != 0 &&
                          w->members->items[o].disk.device == m->disk.device;

            d->first = shared ? p->disks[o].first : i;
        }
        if (d->counts && d->first == i) {
            d->total = m->bytes_total;
            d->used = d->before = m->bytes_total - m->bytes_free;
            used += d->used;
            total += d->total;
        }
    }
    p->mean = total == 0 ? 0 : (double)used / (double)total;
}

/* Is the disk of the one emptier than that of the other? */
static bool is_emptier(struct rebalance_plan *p, uint32_t a, uint32_t b)
{
    return fill(disk_of(p, a)) < fill(disk_of(p, b));
}

/* Those below the mean, by fill. One by one: they are few that change place when one of them takes. */
static void sort_takers(struct rebalance_plan *p)
{
    for (uint32_t i = 1; i < p->takers_count; i++) {
        uint32_t server = p->takers[i], at = i;

        for (; at > 0 && is_emptier(p, server, p->takers[at - 1]); at--) {
            p->takers[at] = p->takers[at - 1];
        }
        p->takers[at] = server;
    }
}

static void look_for_takers(const struct mend_world *w, struct rebalance_plan *p)
{
    for (uint32_t i = 0; i < w->members->count; i++) {
        if (p->disks[i].counts && fill(disk_of(p, i)) < p->mean) {
            p->takers[p->takers_count++] = i;
        }
    }
    sort_takers(p);
}

/* ---- Copies ---- */

/* What lies on which disk; groups that are not to be touched are said to have moved. */
static void look_at_groups(const struct mend_world *w, struct rebalance_plan *p)
{
    for (uint32_t i = 0; i < w->record->count; i++) {
        const struct group_made *g = &w->record->items[i];
        bool quiet = mend_is_quiet(w, g), known = p->sizes[i] != REBALANCE_UNKNOWN;

        p->unquiet += !quiet;
        p->unknown += quiet && !known;
        p->moved[i] = !quiet || !known || p->sizes[i] == 0;
        for (uint32_t place = 0; place < g->now.count; place++) {
            const struct member *m = members_find(w->members, g->now.servers[place]);
            uint32_t at = i * REPLICAS_MAX + place;

            if (m != NULL && p->disks[m - w->members->items].counts) {
                struct rebalance_disk *d = disk_of(p, (size_t)(m - w->members->items));

                p->next[at] = d->places;
                d->places = at + 1;
            }
        }
    }
}

/* The most that it shares with one of the others. */
static enum sharing shares(const struct mend_world *w, const struct group_made *g, uint32_t place,
                           const struct member *m)
{
    enum sharing most = SHARE_NOTHING;

    for (uint32_t i = 0; i < g->now.count; i++) {
        const struct member *o = members_find(w->members, g->now.servers[i]);
        enum sharing s = i != place && o != NULL ? group_roll_sharing(o, m) : SHARE_NOTHING;

        most = s > most ? s : most;
    }
    return most;
}

/* Would files still find space there behind it? */
static bool has_room(const struct rebalance_disk *d, uint64_t bytes)
{
    uint64_t reserve = d->total >> PLACEMENT_RESERVE_SHIFT;

    reserve = reserve > PLACEMENT_RESERVE_BYTES ? reserve : PLACEMENT_RESERVE_BYTES;
    return d->used <= d->total && d->total - d->used > reserve &&
           d->total - d->used - reserve > bytes;
}

/* The emptiest of those who share least, and no more than who has it. */
static const struct member *find_taker(const struct mend_world *w, struct rebalance_plan *p,
                                       uint32_t group, uint32_t place, struct rebalance_disk *from)
{
    const struct group_made *g = &w->record->items[group];
    const struct member *giver = members_find(w->members, g->now.servers[place]);
    enum sharing least = shares(w, g, place, giver) + 1;
    const struct member *best = NULL;

    for (uint32_t i = 0; i < p->takers_count && least > SHARE_NOTHING; i++) {
        const struct member *m = &w->members->items[p->takers[i]];
        const struct rebalance_disk *to = disk_of(p, p->takers[i]);
        enum sharing s;

        if (fill(from) - fill(to) <= REBALANCE_SPREAD || fill(to) >= p->mean) {
            break;
        }
        if (!helps(from, to, p->sizes[group]) || !has_room(to, p->sizes[group]) ||
            !mend_may_join(w, g, m) || (s = shares(w, g, place, m)) >= least) {
            continue;
        }
        least = s;
        best = m;
    }
    return best;
}

/* ---- Giving ---- */

static void make(struct mend_world *w, struct rebalance_plan *p, struct rebalance_disk *from,
                 const struct candidate *c)
{
    const struct group_made *g = &w->record->items[c->group];
    size_t to = (size_t)(c->to - w->members->items);
    uint64_t bytes = p->sizes[c->group];

    CHECK(p->count < GROUPS_KEPT_MAX);
    p->moves[p->count++] =
        (struct rebalance_move){ g->number, g->now.servers[c->place], c->to->record.id, bytes };
    p->moved[c->group] = true;
    w->groups[to]++;
    disk_of(p, to)->took = true;
    from->used -= bytes;
    disk_of(p, to)->used += bytes;
    sort_takers(p);
}

/* False: it has nothing that would help. */
static bool give(struct mend_world *w, struct rebalance_plan *p, struct rebalance_disk *from)
{
    struct candidate best = { .to = NULL };

    for (uint32_t at = from->places; at != 0; at = p->next[at - 1]) {
        struct candidate c = { .group = (at - 1) / REPLICAS_MAX, .place = (at - 1) % REPLICAS_MAX };

        if (p->moved[c.group] || p->sizes[c.group] > from->used ||
            (c.to = find_taker(w, p, c.group, c.place, from)) == NULL) {
            continue;
        }
        c.gain = gain_of(from, disk_of(p, (size_t)(c.to - w->members->items)), p->sizes[c.group]);
        if (best.to == NULL || c.gain > best.gain) {
            best = c;
        }
    }
    if (best.to != NULL) {
        make(w, p, from, &best);
    }
    return best.to != NULL;
}

/* The fullest above the mean that has something to give, as far as is known. NULL: none. */
static struct rebalance_disk *fullest(const struct mend_world *w, struct rebalance_plan *p,
                                      const bool stuck[SERVERS_MAX])
{
    struct rebalance_disk *best = NULL;

    for (uint32_t i = 0; i < w->members->count; i++) {
        struct rebalance_disk *d = &p->disks[i];

        if (d->counts && d->first == i && !stuck[i] && !d->took && fill(d) > p->mean &&
            (best == NULL || fill(d) > fill(best))) {
            best = d;
        }
    }
    return best;
}

/* ---- Taking back ---- */

static struct rebalance_disk *disk_named(const struct mend_world *w, struct rebalance_plan *p,
                                         server_id server)
{
    const struct member *m = members_find(w->members, server);

    CHECK(m != NULL);
    return disk_of(p, (size_t)(m - w->members->items));
}

/* What came later may have done what a move was for. */
static bool take_back_one(const struct mend_world *w, struct rebalance_plan *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        const struct rebalance_move move = p->moves[i];
        struct rebalance_disk *from = disk_named(w, p, move.from), *to = disk_named(w, p, move.to);

        if (gain_of(to, from, move.bytes) > 0) {
            to->used -= move.bytes;
            from->used += move.bytes;
            memmove(&p->moves[i], &p->moves[i + 1], (--p->count - i) * sizeof(move));
            sort_takers(p);
            return true;
        }
    }
    return false;
}

/* All that help. */
static void give_all(struct mend_world *w, struct rebalance_plan *p)
{
    bool stuck[SERVERS_MAX] = { false };
    struct rebalance_disk *from;

    while ((from = fullest(w, p, stuck)) != NULL) {
        stuck[from - p->disks] = !give(w, p, from);
    }
}

void rebalance_plan(struct mend_world *world, const uint64_t *sizes, struct rebalance_plan *plan)
{
    memset(plan, 0, sizeof(*plan));
    plan->sizes = sizes;
    mend_count(world);
    look_at_disks(world, plan);
    look_for_takers(world, plan);
    look_at_groups(world, plan);
    do {
        give_all(world, plan);
    } while (take_back_one(world, plan));
    for (uint32_t i = 0; i < plan->count; i++) {
        plan->bytes += plan->moves[i].bytes;
    }
}
