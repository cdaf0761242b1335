/* What is wanted of morsels: of those that are open here, and of those that are had from benefactors (set_uv.h). */
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"

void set_read_take(struct set_read *read, struct set_load *load)
{
    uint32_t within = (uint32_t)(read->offset % read->set->morsel_bytes);
    uint32_t length = load->entry.length;

    if (read->opens != NULL) {
        open_morsel_take(read->opens, load);
        return;
    }
    read->payload = NULL;
    read->count = 0;
    if (within < length) {
        uint32_t left = length - within;

        read->payload = payload_ref(load->pieces[within / SET_PIECE_BYTES]);
        read->payload_offset = within % SET_PIECE_BYTES;
        read->count = left < read->length ? left : read->length;
        load->taken_to += within == load->taken_to ? read->count : 0;
    }
}

/* What the map says at once: MORSEL_OK, nothing was stored there; MORSEL_IO, it was evicted and comes from nowhere else; MORSEL_AGAIN: neither, or it is not known. */
static int look_up(const struct set_read *read)
{
    uint32_t morsel = set_morsel_of(read->set, read->offset);
    struct set_entry entry;

    if ((read->fresh && !read->set->sealed) || !set_map_get(&read->set->map, morsel, &entry)) {
        return MORSEL_AGAIN;
    }
    if (!entry.stored || entry.length == 0) {
        return MORSEL_OK;
    }
    if (entry.evicted && !set_origin_may(read->set) && !set_may_ask_anew(read->set)) {
        set_log_evicted(read->set, morsel);
        return MORSEL_IO;
    }
    return MORSEL_AGAIN;
}

int set_read_start(struct set_read *read, void (*done)(struct set_read *read, int status))
{
    struct data_set *set = read->set;
    struct set_load *load;
    int rv = read->opens != NULL ? MORSEL_AGAIN : open_morsel_read(read);

    if (rv != MORSEL_AGAIN) {
        return rv;
    }
    read->done = done;
    read->payload = NULL;
    read->count = 0;
    list_init(&read->node);
    if (read->opens == NULL && (rv = look_up(read)) != MORSEL_AGAIN) {
        return rv;
    }
    load = set_load_get(set, set_morsel_of(set, read->offset), read->fresh);
    if (load == NULL) {
        return MORSEL_NOMEM;
    }
    if (load->here) {
        set_read_take(read, load);
        set_load_used(load);
        return MORSEL_OK;
    }
    read->load = load;
    list_push_back(&load->readers, &read->node);
    if (load->is_new) {
        set_load_begin(load);
    }
    return MORSEL_AGAIN;
}

void set_read_cancel(struct set_read *read)
{
    if (read->load != NULL) {
        read->load = NULL;
        list_remove(&read->node);
        read->done(read, MORSEL_CANCELED);
    }
}
