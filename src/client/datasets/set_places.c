/* Stretches of places (set_places.h). */
#include "client/datasets/set_places.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <string.h>

void set_places_init(struct set_places *p)
{
    memset(p, 0, sizeof(*p));
    p->ahead = SET_PLACES_FIRST;
}

uint32_t set_places_get(const struct set_places *p, uint32_t number, donor_id *donors)
{
    const donor_id *of;

    if (number < p->first || number - p->first >= p->count) {
        return 0;
    }
    of = p->donors + (size_t)(number - p->first) * REPLICAS_MAX;
    for (uint32_t i = 0; i < p->copies; i++) {
        donors[i] = of[i];
    }
    return p->copies;
}

static uint32_t capped(uint32_t first, uint32_t count)
{
    uint32_t end = first < SET_MORSELS_MAX ? SET_MORSELS_MAX : UINT32_MAX;

    return count <= end - first ? count : end - first;
}

bool set_places_wants(struct set_places *p, uint32_t number, uint32_t *first, uint32_t *count)
{
    uint32_t end = p->first + p->count;
    bool known = number >= p->first && number < end;

    if (known && end - number > p->ahead / 2) {
        return false;
    }
    if (known || (number == end && p->count > 0)) {
        p->ahead = 2 * p->ahead < SET_PLACES_AHEAD ? 2 * p->ahead : SET_PLACES_AHEAD;
        *first = end;
    } else {
        p->ahead = SET_PLACES_FIRST;
        *first = number;
    }
    *count = capped(*first, p->ahead);
    return *count > 0;
}

static void keep(struct set_places *p, uint32_t first, uint32_t copies, const donor_id *donors,
                 uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        donor_id *to = p->donors + (size_t)(first - p->first + i) * REPLICAS_MAX;

        memset(to, 0, REPLICAS_MAX * sizeof(*to));
        memcpy(to, donors + (size_t)i * copies, copies * sizeof(*to));
    }
}

bool set_places_learn(struct set_places *p, uint32_t first, uint32_t copies, const donor_id *donors,
                      size_t donors_count)
{
    uint32_t count, gone;

    if (copies == 0 || copies > REPLICAS_MAX || donors_count == 0 || donors_count % copies != 0 ||
        donors_count / copies > SET_PLACE_MAX) {
        return false;
    }
    count = (uint32_t)(donors_count / copies);
    if (p->count == 0 || copies != p->copies || first != p->first + p->count) {
        p->first = first;
        p->count = 0;
        p->copies = copies;
    }
    if (p->count + count > SET_PLACES_MAX) {
        gone = p->count + count - SET_PLACES_MAX;
        gone = gone < p->count ? gone : p->count;
        memmove(p->donors, p->donors + (size_t)gone * REPLICAS_MAX,
                (size_t)(p->count - gone) * REPLICAS_MAX * sizeof(p->donors[0]));
        p->first += gone;
        p->count -= gone;
    }
    keep(p, first, copies, donors, count);
    p->count += count;
    return true;
}

bool set_question_ends(const struct set_question *q, int status, uint32_t number)
{
    bool of_first = status == MORSEL_NOSPC || status == MORSEL_DQUOT || status == MORSEL_FBIG;

    return !q->ahead && number >= q->first && number - q->first < (of_first ? 1 : q->count);
}

void set_places_failed(struct set_places *p, donor_id donor, bool full, uint64_t now_ms,
                       uint64_t for_ms)
{
    uint32_t at = 0;

    p->count = 0; /* What was placed otherwise may be worth more now. */
    while (at < p->failed_count && p->failed[at].donor != donor) {
        at++;
    }
    if (at == SET_FAILED_MAX) { /* The oldest has had its time. */
        memmove(p->failed, p->failed + 1, (SET_FAILED_MAX - 1) * sizeof(p->failed[0]));
        at = --p->failed_count;
    }
    if (at == p->failed_count) {
        p->failed_count++;
    }
    p->failed[at] = (struct set_failed){ donor, now_ms + for_ms, full };
}

void set_places_forgive_full(struct set_places *p)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->failed_count; i++) {
        if (!p->failed[i].full) {
            p->failed[kept++] = p->failed[i];
        }
    }
    p->failed_count = kept;
}

uint32_t set_places_list_failed(struct set_places *p, uint64_t now_ms, donor_id *donors)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->failed_count; i++) {
        if (p->failed[i].until_ms > now_ms) {
            p->failed[kept] = p->failed[i];
            donors[kept++] = p->failed[i].donor;
        }
    }
    p->failed_count = kept;
    return kept;
}
