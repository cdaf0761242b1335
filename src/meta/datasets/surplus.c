/* One benefactor after the other, each from the beginning of what it has. */
#include "meta/datasets/surplus.h"

static bool can_go(struct repair *r, const struct surplus_walk *walk, const struct data_set *set,
                   const struct set_morsel *m, uint64_t now_ms)
{
    return m->donor_count > set->head.copies && !m->rewriting &&
           set->waste_count < REPAIR_WASTE_MAX &&
           repair_task_of(r, set->head.number, m->number) == NULL &&
           copies_elsewhere(r, set, m, walk->donor, now_ms) >= set->head.copies &&
           (set->head.copies == 1 || !copies_on_other_host(r, set, m, walk->donor, now_ms)) &&
           (walk->hot_too || !heat_is_hot(r->heat, set->head.number, m->number));
}

/* From where the walk is to the end of what the benefactor has. */
static enum surplus_found go_on(struct repair *r, struct surplus_walk *walk, uint64_t now_ms,
                                uint32_t *looks, struct repair_task *task)
{
    const struct data_set *set;
    struct set_morsel m;
    bool end = false;

    while (copies_at_next(r->sets, walk->donor, COPIES_OF_FAT_SETS, &walk->at, looks, &end, &set,
                          &m)) {
        if (can_go(r, walk, set, &m, now_ms)) {
            *task = (struct repair_task){ .set = set->head.number,
                                          .morsel = m.number,
                                          .length = m.length,
                                          .target = walk->donor };
            walk->at.morsel = m.number; /* It is found again where it could not be written down. */
            return SURPLUS_FOUND;
        }
    }
    return end ? SURPLUS_NONE : SURPLUS_LATER;
}

enum surplus_found surplus_next(struct repair *r, struct surplus_walk *walk, donor_id id,
                                uint64_t now_ms, uint32_t *looks, struct repair_task *task)
{
    struct donor *donor = repair_donor(r, id);
    enum surplus_found found;

    if (r->sets->fat == 0 || donor->repair.no_surplus_until_ms > now_ms) {
        return SURPLUS_NONE;
    }
    if (walk->donor != id) {
        *walk = (struct surplus_walk){ .donor = id };
    }
    found = go_on(r, walk, now_ms, looks, task);
    if (found == SURPLUS_NONE && !walk->hot_too && r->heat != NULL && r->heat->hot_count > 0) {
        *walk = (struct surplus_walk){ .donor = id, .hot_too = true };
        found = go_on(r, walk, now_ms, looks, task);
    }
    if (found == SURPLUS_NONE) {
        *walk = (struct surplus_walk){ .donor = 0 };
        donor->repair.no_surplus_until_ms = now_ms + r->period_ms;
    }
    return found;
}

void surplus_gone(struct repair *r, const struct repair_task *task)
{
    repair_donor(r, task->target)->repair.gone += repair_file_bytes(task->length);
    r->dropped++;
}
