/* Copies that lie where nobody believes what comes from there. */
#include "meta/datasets/repair.h"

bool repair_drop_distrusted(struct repair *r, const struct data_set *set,
                            const struct set_morsel *m, struct repair_actions *out)
{
    struct repair_task task = { .set = set->head.number, .morsel = m->number };
    bool dropped = false;

    for (uint32_t i = 0;
         i < m->donor_count && out->count < REPAIR_DROPS_MAX && set->waste_count < REPAIR_WASTE_MAX;
         i++) {
        const struct donor *donor = repair_donor(r, m->donors[i]);

        if (donor != NULL && donor_gives(donor) && donor->blame.distrusted != BLAME_NONE) {
            task.target = donor->record.id;
            (void)repair_emit(out, REPAIR_DROP, &task);
            r->dropped++;
            dropped = true;
        }
    }
    return dropped;
}
