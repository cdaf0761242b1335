/* The walk over all that one benefactor has. */
#include "meta/datasets/forget.h"

#include "common/base/limits.h"

static_assert((int)FORGET_LOOKS <= (int)SET_HELD_MAX && (int)FORGET_RUNS <= (int)SET_RUNS_MAX,
              "a step is one operation");

void forget_begin(struct forget *f, donor_id donor, bool forced)
{
    *f = (struct forget){ .donor = donor, .forced = forced };
}

/* Does a benefactor have it that is here, stays, and is trusted (cluster/blame.h)? */
static bool is_elsewhere(const struct set_morsel *m, donor_id donor, const struct donors *donors)
{
    for (uint32_t i = 0; i < m->donor_count; i++) {
        const struct donor *other =
            m->donors[i] != donor ? donors_find(donors, m->donors[i]) : NULL;

        if (other != NULL && donor_takes(other)) {
            return true;
        }
    }
    return false;
}

/* The next morsel that it has, as far as the looks go. False: `done` says whether it was the last. */
static bool next(struct forget *f, const struct sets *sets, uint32_t *looks, bool *done,
                 const struct data_set **set_out, struct set_morsel *m)
{
    const struct donor_sets *d = sets_of_donor(sets, f->donor);

    *done = false;
    while (*looks > 0) {
        uint32_t at = d != NULL ? donor_sets_from(d, f->set) : 0;
        const struct data_set *set;

        if (d == NULL || at == d->count) {
            *done = true;
            return false;
        }
        f->morsel = d->sets[at] == f->set ? f->morsel : 0;
        f->set = d->sets[at];
        set = sets_find(sets, f->set);
        (*looks)--;
        if (set == NULL || set_morsels_at(set, f->donor) == 0 || !set_next(set, f->morsel, m)) {
            f->set++;
            f->morsel = 0;
            continue;
        }
        f->morsel = m->number + 1;
        if (set_morsel_has(m, f->donor)) {
            *set_out = set;
            return true;
        }
    }
    return false;
}

/* Scratch that its owner has pinned is not to go; what mounts fetch again comes back all the same. */
static bool is_needless(const struct set_head *head)
{
    return set_may_go(head) && (head->fetched || !head->pinned);
}

/* Would its bytes be gone? */
static bool is_last(struct forget *f, const struct data_set *set, const struct set_morsel *m,
                    const struct donors *donors)
{
    if (is_needless(&set->head) || is_elsewhere(m, f->donor, donors)) {
        return false;
    }
    f->sets += f->last_set != set->head.number;
    f->last_set = set->head.number;
    f->morsels++;
    return true;
}

bool forget_look(struct forget *f, const struct sets *sets, const struct donors *donors)
{
    uint32_t looks = FORGET_LOOKS;
    const struct data_set *set;
    struct set_morsel m;
    bool done;

    while (next(f, sets, &looks, &done, &set, &m)) {
        (void)is_last(f, set, &m, donors);
    }
    return done;
}

bool forget_lose(struct forget *f, const struct sets *sets, const struct donors *donors,
                 struct op_run *runs, uint32_t *count)
{
    uint32_t looks = FORGET_LOOKS;
    const struct data_set *set;
    struct set_morsel m;
    bool done;

    *count = 0;
    while (*count < FORGET_RUNS && next(f, sets, &looks, &done, &set, &m)) {
        struct op_run *last = *count > 0 ? &runs[*count - 1] : NULL;

        if (is_last(f, set, &m, donors) && !f->forced) {
            return true;
        }
        if (last != NULL && last->set == f->set && last->first + last->count == m.number) {
            last->count++;
        } else {
            runs[(*count)++] = (struct op_run){ f->set, m.number, 1 };
        }
    }
    return *count < FORGET_RUNS && done;
}
