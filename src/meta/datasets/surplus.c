/* One benefactor after the other, each from the beginning of what it has. */
#include "meta/datasets/surplus.h"

static bool can_go(struct repair *r, donor_id id, const struct data_set *set,
                   const struct set_morsel *m, uint64_t now_ms)
{
    return m->donor_count > set->head.copies && !m->rewriting &&
           set->waste_count < REPAIR_WASTE_MAX &&
           repair_task_of(r, set->head.number, m->number) == NULL &&
           copies_elsewhere(r, set, m, id, now_ms) >= set->head.copies;
}

enum surplus_found surplus_next(struct repair *r, struct surplus_walk *walk, donor_id id,
                                uint64_t now_ms, uint32_t *looks, struct repair_task *task)
{
    struct donor *donor = repair_donor(r, id);
    const struct data_set *set;
    struct set_morsel m;
    bool end = false;

    if (r->sets->fat == 0 || donor->repair.no_surplus_until_ms > now_ms) {
        return SURPLUS_NONE;
    }
    if (walk->donor != id) {
        *walk = (struct surplus_walk){ .donor = id };
    }
    while (copies_at_next(r->sets, id, COPIES_OF_FAT_SETS, &walk->at, looks, &end, &set, &m)) {
        if (can_go(r, id, set, &m, now_ms)) {
            *task = (struct repair_task){
                .set = set->head.number, .morsel = m.number, .length = m.length, .target = id
            };
            donor->repair.gone += repair_file_bytes(m.length);
            r->dropped++;
            return SURPLUS_FOUND;
        }
    }
    if (!end) {
        return SURPLUS_LATER;
    }
    *walk = (struct surplus_walk){ .donor = 0 };
    donor->repair.no_surplus_until_ms = now_ms + r->period_ms;
    return SURPLUS_NONE;
}
