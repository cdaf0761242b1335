/* Connections that say nothing (doors_uv.h). */
#include "meta/cluster/doors_uv.h"

#include "meta/cluster/donors_uv.h"

#include <string.h>

enum { LOOK_MS = 1000, WARN_MS = 3600000 };

/* So many cannot all be shut: the manager cannot tell. */
static void warn_most(struct meta *meta)
{
    uint64_t now_ms = meta_now_ms(meta);

    if (meta->doors.warned_ms != 0 && now_ms - meta->doors.warned_ms < WARN_MS) {
        return;
    }
    meta->doors.warned_ms = now_ms;
    log_warning(
        meta->log,
        "nobody opens to the manager at %u of the %u benefactors that are here: its own firewall "
        "or network may not let it out, and none of them is taken for shut; let this machine "
        "connect to their ports, so that nothing is placed where clients find nobody",
        meta->donors.shut, meta->donors.here);
}

static void on_knocked(void *data, enum knock_outcome outcome)
{
    struct door_knock *k = data;
    struct meta *meta = k->meta;
    enum door_news news = doors_knocked(&meta->donors, k->donor, k->address, outcome == KNOCK_OPEN,
                                        meta_now_ms(meta));
    const struct donor *donor = donors_find(&meta->donors, k->donor);

    k->knock = NULL;
    if (donor == NULL || news == DOOR_AS_BEFORE) {
        return;
    }
    if (news == DOOR_SHUT && !doors_is_shut(&meta->donors, donor)) {
        warn_most(meta);
    } else {
        donors_host_log_door(meta, donor, news == DOOR_SHUT);
    }
}

static bool knock(struct meta *meta, struct door_knock *k, const struct donor *donor)
{
    k->meta = meta;
    k->donor = donor->record.id;
    memcpy(k->address, donor->address, sizeof(k->address));
    k->knock = knock_start(meta->loop, k->address, DOOR_KNOCK_MS, on_knocked, k);
    if (k->knock == NULL) { /* No memory, or not a number: nothing is known of it. */
        (void)doors_knocked(&meta->donors, k->donor, k->address, true, meta_now_ms(meta));
    }
    return k->knock != NULL;
}

void doors_pulse(struct meta *meta, uint64_t now_ms)
{
    struct doors *d = &meta->doors;
    const struct donor *donor = NULL;

    if (now_ms - d->looked_ms < LOOK_MS || meta->closing) {
        return;
    }
    d->looked_ms = now_ms;
    for (uint32_t i = 0; i < DOORS_AT_ONCE; i++) {
        struct door_knock *k = &d->knocks[i];

        if (k->knock == NULL &&
            ((donor = doors_next(&meta->donors, now_ms)) == NULL || !knock(meta, k, donor))) {
            return;
        }
    }
}

void doors_close(struct meta *meta)
{
    for (uint32_t i = 0; i < DOORS_AT_ONCE; i++) {
        struct door_knock *k = &meta->doors.knocks[i];

        if (k->knock != NULL) {
            knock_cancel(k->knock);
            k->knock = NULL;
        }
    }
}
