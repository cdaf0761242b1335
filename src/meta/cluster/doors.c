/* Whom clients can reach (doors.h). */
#include "meta/cluster/doors.h"

#include <string.h>

/* Counted anew each time: who has gone does not count. */
static void count(struct donors *d)
{
    d->shut = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        d->shut += d->items[i]->state == DONOR_HERE && d->items[i]->door.shut;
    }
}

static bool is_due(const struct donor *donor, uint64_t now_ms)
{
    return donor->state == DONOR_HERE && donor->address[0] != '\0' && !donor->door.knocking &&
           donor->door.due_ms <= now_ms;
}

struct donor *doors_next(struct donors *d, uint64_t now_ms)
{
    uint32_t behind = donors_from(d, d->knocked + 1);
    struct donor *next = NULL;

    count(d);
    for (uint32_t i = 0; i < d->count; i++) {
        struct donor *donor = d->items[(behind + i) % d->count];

        if (is_due(donor, now_ms) && (next == NULL || donor->door.due_ms == 0)) {
            next = donor;
            if (donor->door.due_ms == 0) {
                break;
            }
        }
    }
    if (next != NULL) {
        next->door.knocking = true;
        d->knocked = next->record.id;
    }
    return next;
}

enum door_news doors_knocked(struct donors *d, donor_id id, const char *address, bool open,
                             uint64_t now_ms)
{
    struct donor *donor = (struct donor *)(uintptr_t)donors_find(d, id);
    bool was;

    if (donor == NULL) {
        return DOOR_AS_BEFORE;
    }
    donor->door.knocking = false;
    if (strcmp(donor->address, address) != 0) { /* It is elsewhere by now. */
        donor->door.due_ms = 0;
        return DOOR_AS_BEFORE;
    }
    was = donor->door.shut;
    donor->door.failures = open                                   ? 0
                           : donor->door.failures < DOOR_FAILURES ? donor->door.failures + 1
                                                                  : DOOR_FAILURES;
    donor->door.shut = open ? false : was || donor->door.failures == DOOR_FAILURES;
    donor->door.due_ms = now_ms + (open               ? DOOR_OPEN_MS
                                   : donor->door.shut ? DOOR_SHUT_MS
                                                      : DOOR_AGAIN_MS);
    count(d);
    return donor->door.shut == was ? DOOR_AS_BEFORE : was ? DOOR_OPENED : DOOR_SHUT;
}

bool doors_is_shut(const struct donors *d, const struct donor *donor)
{
    return donor->door.shut && 2 * d->shut <= d->here;
}

bool doors_may_get(const struct donors *d, const struct donor *donor)
{
    return donor_takes(donor) && !doors_is_shut(d, donor);
}
