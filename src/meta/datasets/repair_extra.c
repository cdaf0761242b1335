/* What is read most gets a copy more than its set wants, while there is plenty of room (design: scavenging.md, Cache).
 *
 * A morsel is hot enough as long as one of its copies is read REPAIR_EXTRA_READS times, aged; all copies share the reads, so one more
 * makes it less hot by itself. There is plenty of room while half of what all benefactors give is free.
 *
 *   wanted copies --hot enough, plenty of room--> one more (the map has room for SET_SURPLUS)
 *   one more --as hot as REPAIR_EXTRA_KEPT_READS, and a quarter is free--> it stays
 *            --otherwise--> a surplus as any other: repair.h drops it after a day, surplus.h as soon as room is wanted
 *
 * Nobody's morsel goes for one, no morsel that is short waits for one: they come behind all that is short and hot.
 */
#include "meta/datasets/repair.h"

enum { PLENTY_PARTS = 2, ENOUGH_PARTS = 4 };

/* Is that part of what all give free? */
static bool is_free(const struct repair *r, uint32_t parts)
{
    uint64_t donated = 0, room = 0;

    for (uint32_t i = 0; i < r->donors->count; i++) {
        const struct donor *donor = r->donors->items[i];

        if (donor_takes(donor)) {
            donated += donor->report.donated;
            room += donor_room(donor);
        }
    }
    return room > donated / parts;
}

/* All that name it count, and they are as many as are wanted. */
static bool is_whole(const struct repair *r, const struct data_set *set, const struct set_morsel *m)
{
    for (uint32_t i = 0; i < m->donor_count; i++) {
        const struct donor *donor = repair_donor(r, m->donors[i]);

        if (donor == NULL || !donor_takes(donor)) {
            return false;
        }
    }
    return m->donor_count == set->head.copies && !m->rewriting && m->length > 0;
}

void repair_extra_fetch(struct repair *r, uint64_t now_ms, struct repair_actions *out)
{
    uint32_t count = r->heat != NULL ? r->heat->hot_count : 0;

    if (count == 0 || !is_free(r, PLENTY_PARTS)) {
        return;
    }
    for (uint32_t i = 0; i < count && r->task_count < REPAIR_FLIGHT_MAX; i++) {
        const struct heat_hot *hot = &r->heat->hot[i];
        const struct data_set *set = sets_find(r->sets, hot->set);
        struct set_morsel m;

        if (hot->heat < (uint64_t)REPAIR_EXTRA_READS * HEAT_ONE) {
            return;
        }
        if (set != NULL && set_get(set, hot->morsel, &m) && is_whole(r, set, &m) &&
            repair_task_of(r, hot->set, hot->morsel) == NULL) {
            (void)repair_fetch(r, set, &m, 0, now_ms, out);
        }
    }
}

bool repair_extra_stays(const struct repair *r, const struct data_set *set, uint32_t morsel)
{
    uint64_t reads = r->heat != NULL ? heat_reads(r->heat, set->head.number, morsel) : 0;

    return reads >= (uint64_t)REPAIR_EXTRA_KEPT_READS * HEAT_ONE * (set->head.copies + 1) &&
           is_free(r, ENOUGH_PARTS);
}

/* How gladly its copy is given up: one that leaves, then one that is away, for as long as it was not heard of. 0: not at all. */
static uint64_t give_up_rank(const struct donor *donor, uint64_t now_ms)
{
    if (donor == NULL || (donor->state != DONOR_AWAY && !donor->report.leaving)) {
        return 0;
    }
    return donor->report.leaving ? UINT64_MAX : now_ms - donor->heard_ms + 1;
}

donor_id repair_given_up(const struct repair *r, const struct data_set *set,
                         const struct set_morsel *m, donor_id off, uint64_t now_ms)
{
    uint64_t most = 0;
    donor_id best = 0;

    if (off != 0 && set_morsel_has(m, off)) {
        return off;
    }
    for (uint32_t i = 0; m->donor_count >= set->head.copies + SET_SURPLUS && i < m->donor_count;
         i++) {
        uint64_t rank = give_up_rank(repair_donor(r, m->donors[i]), now_ms);

        if (rank > most) {
            most = rank;
            best = m->donors[i];
        }
    }
    return best;
}
