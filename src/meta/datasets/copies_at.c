/* Along the list of the sets of which a benefactor has a part. */
#include "meta/datasets/copies_at.h"

#include <string.h>

/* Is there anything to look for in the set? */
static bool is_wanted(const struct data_set *set, donor_id id, enum copies_kind kind)
{
    return set != NULL && (kind == COPIES_ALL || set->fat > 0) && set_morsels_at(set, id) > 0;
}

bool copies_at_next(const struct sets *sets, donor_id id, enum copies_kind kind,
                    struct repair_place *at, uint32_t *looks, bool *end,
                    const struct data_set **set, struct set_morsel *m)
{
    const struct donor_sets *of = sets_of_donor(sets, id);
    uint32_t i = of != NULL ? donor_sets_from(of, at->set) : 0;

    *end = false;
    for (; *looks > 0 && of != NULL && i < of->count; i++) {
        *set = sets_find(sets, of->sets[i]);
        if (of->sets[i] != at->set) {
            *at = (struct repair_place){ of->sets[i], 0 };
        }
        while (*looks > 0 && is_wanted(*set, id, kind) && set_next(*set, at->morsel, m)) {
            (*looks)--;
            at->morsel = m->number + 1;
            if (set_morsel_has(m, id)) {
                return true;
            }
        }
        if (*looks == 0) {
            return false;
        }
        (*looks)--;
        *at = (struct repair_place){ of->sets[i] + 1, 0 };
    }
    *end = of == NULL || i >= of->count;
    return false;
}

static bool counts(const struct repair *r, const struct data_set *set, const struct set_morsel *m,
                   const struct donor *donor, uint64_t now_ms)
{
    return donor != NULL && donor_takes(donor) &&
           !repair_has_failed(r, set->head.number, m->number, donor->record.id, now_ms);
}

uint32_t copies_elsewhere(const struct repair *r, const struct data_set *set,
                          const struct set_morsel *m, donor_id id, uint64_t now_ms)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->donor_count; i++) {
        n += m->donors[i] != id && counts(r, set, m, repair_donor(r, m->donors[i]), now_ms);
    }
    return n;
}

bool copies_on_other_host(const struct repair *r, const struct data_set *set,
                          const struct set_morsel *m, donor_id id, uint64_t now_ms)
{
    const struct donor *self = repair_donor(r, id), *first = NULL;

    for (uint32_t i = 0; i < m->donor_count; i++) {
        const struct donor *donor = repair_donor(r, m->donors[i]);

        if (m->donors[i] == id || !counts(r, set, m, donor, now_ms)) {
            continue;
        }
        if (first != NULL && strcmp(first->record.name, donor->record.name) != 0) {
            return false;
        }
        first = donor;
    }
    return first != NULL && strcmp(first->record.name, self->record.name) != 0;
}
