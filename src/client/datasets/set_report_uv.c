/* The manager hears which morsels are where (SET_STORED): of all that are through, while the report before is on its way. */
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { DONORS_NAMED_MAX = SET_STORED_MAX * REPLICAS_MAX };

struct report
{
    struct meta_call call;
    struct data_set *set;
    struct list morsels; /* struct open_morsel */
    uint32_t count;
    bool changes; /* Bytes, and does not only announce that. */

    /* The message. */
    Morsel__SetMorsel items[SET_STORED_MAX], *item_pointers[SET_STORED_MAX];
    uint32_t donors[SET_STORED_MAX][REPLICAS_MAX];
    uint32_t parts[SET_STORED_MAX][REPLICAS_MAX];
    Morsel__DonorPlace places[DONORS_NAMED_MAX], *place_pointers[DONORS_NAMED_MAX];
    size_t places_count;
};

static void report_next(struct data_set *set);

/* ---- Nothing is reported for a while ---- */

int set_hold_start(struct set_hold *hold, struct data_set *set,
                   void (*done)(struct set_hold *hold, int status))
{
    hold->set = set_ref(set);
    hold->done = done;
    list_init(&hold->node);
    set->holds++;
    if (!set->reporting) {
        return MORSEL_OK;
    }
    list_push_back(&set->holding, &hold->node);
    return MORSEL_AGAIN;
}

void set_hold_end(struct set_hold *hold)
{
    struct data_set *set = hold->set;

    if (set == NULL) {
        return;
    }
    hold->set = NULL;
    list_remove(&hold->node);
    CHECK(set->holds > 0);
    set->holds--;
    report_next(set);
    set_unref(set);
}

void set_hold_cancel(struct set_hold *hold)
{
    if (hold->set != NULL && !list_empty(&hold->node)) {
        set_hold_end(hold);
        hold->done(hold, MORSEL_CANCELED);
    }
}

/* The report before is answered. */
static void tell_held(struct data_set *set)
{
    struct list *node;

    while ((node = list_pop_front(&set->holding)) != NULL) {
        struct set_hold *hold = LIST_ENTRY(node, struct set_hold, node);

        hold->done(hold, MORSEL_OK);
    }
}

/* ---- Reports ---- */

static void fill_place(struct report *r, const struct open_copy *copy)
{
    for (size_t i = 0; i < r->places_count; i++) {
        if (r->places[i].id == copy->donor && r->places[i].instance == copy->instance) {
            return;
        }
    }
    morsel__donor_place__init(&r->places[r->places_count]);
    r->places[r->places_count].id = copy->donor;
    r->places[r->places_count].instance = copy->instance;
    r->place_pointers[r->places_count] = &r->places[r->places_count];
    r->places_count++;
}

static void fill_morsel(struct report *r, struct open_morsel *o)
{
    Morsel__SetMorsel *item = &r->items[r->count];

    open_morsel_end_at_cut(o);
    morsel__set_morsel__init(item);
    item->number = o->number;
    item->length = o->announcing ? o->stored : o->length;
    item->digest = o->announcing ? 0 : open_morsel_digest(o);
    item->rewriting = o->announcing;
    item->donors = r->donors[r->count];
    item->parts = r->parts[r->count];
    for (uint32_t i = 0; i < o->copies_count; i++) {
        item->donors[item->n_donors++] = o->copies[i].donor;
        if (o->copies[i].part && !o->announcing) {
            item->parts[item->n_parts++] = o->copies[i].donor;
        }
        fill_place(r, &o->copies[i]);
    }
    item->left = o->left;
    item->n_left = o->announcing ? 0 : o->left_count;
    r->changes = r->changes || !o->announcing;
    r->item_pointers[r->count] = item;
    r->count++;
}

static int by_number(const void *a, const void *b)
{
    const Morsel__SetMorsel *const *x = a, *const *y = b;

    return (*x)->number < (*y)->number ? -1 : (*x)->number > (*y)->number;
}

static void unlist_load(struct data_set *set, uint32_t number)
{
    struct set_load_key key = { set->number, number };
    struct set_load *load;

    HASH_FIND(hh, set->client->data.sets->loads, &key, sizeof(key), load);
    if (load != NULL) {
        set_load_unlist(load);
    }
}

/* What is known of the map and of morsels here follows. */
static void note_entry(struct open_morsel *o)
{
    struct data_set *set = o->set;
    struct set_entry entry = { .stored = true,
                               .rewriting = o->announcing,
                               .length = o->announcing ? o->stored : o->length,
                               .digest = o->announcing ? 0 : open_morsel_digest(o) };

    for (uint32_t i = 0; i < o->copies_count; i++) {
        entry.donors[entry.donor_count++] = o->copies[i].donor;
    }
    set->changes++;
    set_map_put(&set->map, o->number, &entry);
    unlist_load(set, o->number);
    if (!o->announcing) {
        set->stored_here = true;
        set_note_stored(set, o);
    }
}

static void on_reported(struct meta_call *call, int status, void *message)
{
    struct report *r = CONTAINER_OF(call, struct report, call);
    struct data_set *set = r->set;
    struct list *node;

    (void)message;
    if (status != 0 && status != MORSEL_AGAIN && status != MORSEL_CANCELED) {
        log_warning(
            set->client->options.log,
            "inode %lu: manager %s did not take %u morsels of data set %lu into its map: %s",
            (unsigned long)set->inode, rpc_peer_address(set->client->manager), r->count,
            (unsigned long)set->number, status_words(status));
    }
    set->reporting = false;
    while ((node = list_pop_front(&r->morsels)) != NULL) {
        struct open_morsel *o = LIST_ENTRY(node, struct open_morsel, node);

        if (status == 0) {
            note_entry(o);
        } else if (status != MORSEL_AGAIN) { /* It may have been done. */
            set->changes++;
            set_map_forget(&set->map, o->number);
            unlist_load(set, o->number);
        }
        open_morsel_reported(o, status);
    }
    free(r);
    tell_held(set);
    report_next(set);
    set_unref(set);
}

static int report_send(struct report *r)
{
    Morsel__SetStoredRequest request = MORSEL__SET_STORED_REQUEST__INIT;
    struct data_set *set = r->set;

    qsort(r->item_pointers, r->count, sizeof(Morsel__SetMorsel *), by_number);
    request.inode = set->inode;
    request.set = set->number;
    request.n_morsels = r->count;
    request.morsels = r->item_pointers;
    request.n_places = r->places_count;
    request.places = r->place_pointers;
    request.mtime_ns = r->changes ? client_clock_ns(set->client) : 0;
    return meta_change_start(&r->call, set->client, MSG_SET_STORED, &request.base, &request.op,
                             &morsel__node__descriptor, on_reported);
}

/* Without memory they go on with a tick. */
static void later(struct data_set *set, struct list *morsels)
{
    struct list *node;

    while ((node = list_pop_front(morsels)) != NULL) {
        struct open_morsel *o = LIST_ENTRY(node, struct open_morsel, node);

        o->state = OPEN_PAUSED;
        o->retry_ms = uv_now(set->client->loop) + SET_PAUSE_MS;
        list_push_back(&set->paused, node);
    }
}

static void report_next(struct data_set *set)
{
    struct report *r;
    struct list *node;

    if (set->reporting || set->holds > 0 || list_empty(&set->unreported)) {
        return;
    }
    r = calloc(1, sizeof(*r));
    if (r == NULL) {
        later(set, &set->unreported);
        return;
    }
    r->set = set;
    list_init(&r->morsels);
    while (r->count < SET_STORED_MAX && (node = list_pop_front(&set->unreported)) != NULL) {
        list_push_back(&r->morsels, node);
        fill_morsel(r, LIST_ENTRY(node, struct open_morsel, node));
    }
    if (report_send(r) != 0) {
        later(set, &r->morsels);
        free(r);
        return;
    }
    set->reporting = true;
    (void)set_ref(set);
}

void open_morsel_report(struct open_morsel *o)
{
    struct data_set *set = o->set;

    list_push_back(&set->unreported, &o->node);
    report_next(set);
}
