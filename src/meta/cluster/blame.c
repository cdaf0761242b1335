/* The times of the last ones: too often is when the oldest of them is young. */
#include "meta/cluster/blame.h"

#include <string.h>

/* True: there are `most`, and the oldest is not too long ago. */
static bool add(uint64_t *times_ms, uint32_t *count, uint32_t most, uint64_t now_ms)
{
    if (*count == most) {
        memmove(times_ms, times_ms + 1, (most - 1) * sizeof(*times_ms));
        (*count)--;
    }
    times_ms[(*count)++] = now_ms;
    return *count == most && now_ms - times_ms[0] <= BLAME_WITHIN_MS;
}

/* Does it belong to the incident before? */
static bool is_of_last(const struct donor_blame *b, uint64_t now_ms)
{
    return b->incidents > 0 && now_ms - b->incidents_ms[b->incidents - 1] < BLAME_INCIDENT_MS;
}

bool blame_note(struct donor_blame *b, enum blame_kind kind, uint64_t now_ms)
{
    bool often = false;

    if (kind == BLAME_LIED) {
        b->lied++;
        often = add(b->lies_ms, &b->lies, BLAME_LIES, now_ms);
    } else if (kind == BLAME_DAMAGED) {
        b->damaged++;
        often =
            !is_of_last(b, now_ms) && add(b->incidents_ms, &b->incidents, BLAME_INCIDENTS, now_ms);
    }
    if (!often || b->distrusted != BLAME_NONE) {
        return false;
    }
    b->distrusted = kind;
    b->since_ms = now_ms;
    return true;
}

void blame_forgive(struct donor_blame *b)
{
    memset(b, 0, sizeof(*b));
}
