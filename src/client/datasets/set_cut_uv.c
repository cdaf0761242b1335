/* A file that is being stored is truncated: what becomes of its open morsels (set_parts_uv.h).
 *
 * The manager cuts its map. While it does nothing is reported (struct set_hold): a report that overtook the truncation, or was
 * overtaken, would bring back in the map what was cut off. Rounds that are on their way go on, and are told the cut: what they
 * report then goes no further. */
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

void open_morsel_end_at_cut(struct open_morsel *o)
{
    uint32_t cut = o->cut;

    if (!o->known) {
        return;
    }
    o->cut = UINT32_MAX;
    if (cut < o->stored) {
        o->stored = cut;
        o->rewriting = o->in_map && cut > 0; /* As the map says. */
    }
    if (cut < o->length) {
        o->length = cut;
        if (cut > 0) {
            open_morsel_note_crcs(o, cut - 1, cut);
        }
    }
}

static void cut(struct open_morsel *o, uint32_t length)
{
    if (length < o->cut) {
        o->cut = length;
    }
    if (o->state != OPEN_IDLE || !o->known) {
        return;
    }
    if (length == 0) {
        open_morsel_free(o);
        return;
    }
    if (length < o->length) { /* All of it is sent again. */
        for (uint32_t i = 0; i < o->copies_count; i++) {
            o->copies[i].whole = false;
        }
    }
    open_morsel_end_at_cut(o);
}

void open_morsels_cut(struct data_set *set, uint64_t size)
{
    uint32_t number = set_morsel_of(set, size);
    uint32_t within = (uint32_t)(size % set->morsel_bytes);
    struct open_morsel *o, *next;

    HASH_ITER(hh, set->open, o, next)
    {
        if (o->number >= number) {
            cut(o, o->number == number ? within : 0);
        }
    }
}

/* ---- The manager is told the digest of what is left ---- */

struct restore
{
    struct set_write write;
    struct data_set *set;
};

static void on_restored(struct set_write *write, int status)
{
    struct restore *restore = CONTAINER_OF(write, struct restore, write);
    struct data_set *set = restore->set;

    (void)status; /* It goes on without: its blocks have checksums. */
    free(restore);
    CHECK(set->restoring > 0);
    if (--set->restoring == 0) {
        set_seal_go(set);
    }
    set_unref(set);
}

void open_morsel_restore(struct data_set *set, uint64_t offset)
{
    struct restore *restore = calloc(1, sizeof(*restore));

    if (restore == NULL) {
        return;
    }
    restore->set = set_ref(set);
    restore->write.offset = offset;
    set->restoring++;
    if (set_write_start(&restore->write, set, on_restored) != 0) {
        on_restored(&restore->write, MORSEL_NOMEM);
    }
}
