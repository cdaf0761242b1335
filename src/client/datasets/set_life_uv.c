/* Data sets of open files, and what their parts have in common (set_uv.h). */
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

struct data_set *set_ref(struct data_set *set)
{
    set->references++;
    return set;
}

void set_unref(struct data_set *set)
{
    CHECK(set->references > 0);
    if (--set->references > 0) {
        return;
    }
    CHECK(set->open == NULL && list_empty(&set->asks) && list_empty(&set->loads));
    CHECK(set->holds == 0);
    set_map_free(&set->map);
    set_origin_free(set);
    list_remove(&set->node);
    free(set->unsynced);
    free(set);
}

uint64_t set_deadline_ms(const struct data_set *set)
{
    uint64_t timeout_ms = set->client->options.io_timeout_ms;

    return timeout_ms == RPC_NO_DEADLINE ? UINT64_MAX : uv_now(set->client->loop) + timeout_ms;
}

int data_set_new(struct client *client, inode_id inode, uint64_t number, uint32_t morsel_bytes,
                 bool ours, struct data_set **set_out)
{
    struct data_set *set = calloc(1, sizeof(*set));

    *set_out = NULL;
    if (set == NULL) {
        return MORSEL_NOMEM;
    }
    set->client = client;
    set->inode = inode;
    set->number = number;
    set->morsel_bytes = morsel_bytes;
    set->references = 1;
    set_map_init(&set->map, ours);
    set_places_init(&set->places);
    list_init(&set->node);
    list_init(&set->asks);
    list_init(&set->loads);
    list_init(&set->kept);
    list_init(&set->placing);
    list_init(&set->idle);
    list_init(&set->unreported);
    list_init(&set->holding);
    list_init(&set->paused);
    list_init(&set->syncs_now);
    list_init(&set->syncs_next);
    list_push_back(&client->data.sets->all, &set->node);
    *set_out = set;
    return MORSEL_OK;
}

/* Of one that is sealed what was read is right for ever, whoever opens the file again. */
static void leave_kept(struct data_set *set)
{
    struct list *node;

    while ((node = list_front(&set->kept)) != NULL) {
        struct set_load *load = LIST_ENTRY(node, struct set_load, node);

        list_remove(node);
        load->set = NULL;
        if (!set->sealed) {
            set_load_unlist(load);
        }
    }
}

void data_set_drop(struct data_set *set)
{
    if (set == NULL) {
        return;
    }
    CHECK(!set->dropped);
    set->dropped = true;
    open_morsels_free_idle(set);
    leave_kept(set);
    set_loads_leave(set);
    set_origin_leave(set);
    set_unref(set);
}

uint64_t data_set_number(const struct data_set *set)
{
    return set->number;
}

bool data_set_is_sealed(const struct data_set *set)
{
    return set->sealed || set->sealing;
}

void data_set_note_sealed(struct data_set *set)
{
    set->sealed = true;
}

bool data_set_is_stored_here(const struct data_set *set)
{
    return set->stored_here;
}

void data_set_forget(struct data_set *set)
{
    if (set->sealed) {
        return;
    }
    set->changes++;
    set_map_forget_all(&set->map);
    LIST_FOREACH_SAFE(node, &set->loads)
    {
        set_load_unlist(LIST_ENTRY(node, struct set_load, node));
    }
    LIST_FOREACH_SAFE(node, &set->kept)
    {
        set_load_unlist(LIST_ENTRY(node, struct set_load, node));
    }
}

void data_set_cut(struct data_set *set, uint64_t size)
{
    open_morsels_cut(set, size);
    data_set_forget(set);
    if (set->stored_here && !set->sealed && size % set->morsel_bytes != 0) {
        open_morsel_restore(set, size);
    }
}

/* ---- Open morsels that stay in memory ---- */

void open_morsel_unlist(struct open_morsel *o)
{
    if (!list_empty(&o->idle_node)) {
        o->set->idle_bytes -= o->set->morsel_bytes;
        o->set->client->data.sets->idle_bytes -= o->set->morsel_bytes;
    }
    list_remove(&o->idle_node);
    list_remove(&o->node);
}

void open_morsel_list_idle(struct open_morsel *o)
{
    struct data_set *set = o->set;
    struct data_sets *sets = set->client->data.sets;

    open_morsel_unlist(o);
    list_push_back(&set->idle, &o->node);
    list_push_back(&sets->idle, &o->idle_node);
    set->idle_bytes += set->morsel_bytes;
    sets->idle_bytes += set->morsel_bytes;
    while (set->idle_bytes > SET_IDLE_BYTES_MAX) {
        open_morsel_free(LIST_ENTRY(list_front(&set->idle), struct open_morsel, node));
    }
    while (sets->idle_bytes > SETS_IDLE_BYTES_MAX) {
        open_morsel_free(LIST_ENTRY(list_front(&sets->idle), struct open_morsel, idle_node));
    }
}

/* ---- Sealing ---- */

struct seal
{
    struct meta_call call;
    struct data_set *set;
    uint64_t size;
    void (*done)(void *data, int status);
    void *data;
};

static void on_sealed(struct meta_call *call, int status, void *message)
{
    struct seal *seal = CONTAINER_OF(call, struct seal, call);
    struct data_set *set = seal->set;
    const Morsel__Node *node = message;

    set->sealing = false;
    if (status == 0) {
        /* Not, for instance, while it is shorter than its origin says. */
        set->sealed = node->layout == NULL || node->layout->sealed;
    } else if (status !=
                   MORSEL_PERM /* It is somebody else's now, who may not be through with it. */
               && status != MORSEL_STALE && status != MORSEL_NOENT && status != MORSEL_CANCELED &&
               status != MORSEL_SHUTDOWN) {
        log_warning(set->client->options.log,
                    "inode %lu: manager %s did not seal its data set %lu: %s; open the file for "
                    "writing and close it again, and it is tried once more",
                    (unsigned long)set->inode, rpc_peer_address(set->client->manager),
                    (unsigned long)set->number, status_words(status));
    }
    seal->done(seal->data, status);
    set_unref(set);
    free(seal);
}

void set_seal_go(struct data_set *set)
{
    Morsel__SetSealRequest request = MORSEL__SET_SEAL_REQUEST__INIT;
    struct seal *seal = set->seal;
    int rv;

    if (seal == NULL) {
        return;
    }
    set->seal = NULL;
    seal->call.patient = true;
    request.inode = set->inode;
    request.set = set->number;
    request.size = seal->size;
    rv = meta_change_start(&seal->call, set->client, MSG_SET_SEAL, &request.base, &request.op,
                           &morsel__node__descriptor, on_sealed);
    if (rv != 0) {
        on_sealed(&seal->call, rv, NULL);
    }
}

int set_seal_start(struct data_set *set, uint64_t size, void (*done)(void *data, int status),
                   void *data)
{
    struct seal *seal = calloc(1, sizeof(*seal));

    if (seal == NULL) {
        return MORSEL_NOMEM;
    }
    CHECK(set->seal == NULL);
    seal->set = set_ref(set);
    seal->size = size;
    seal->done = done;
    seal->data = data;
    set->seal = seal;
    set->sealing = true;
    if (set->restoring == 0) {
        set_seal_go(set);
    }
    return MORSEL_OK;
}

/* ---- All of them ---- */

void data_sets_tick(struct client *client)
{
    uint64_t now_ms = uv_now(client->loop);

    struct list due, *node;

    list_init(&due);
    while ((node = list_pop_front(&client->data.sets->all)) != NULL) {
        list_push_back(&due, node);
    }
    while ((node = list_pop_front(&due)) != NULL) { /* One may be the end of others. */
        struct data_set *set = set_ref(LIST_ENTRY(node, struct data_set, node));

        list_push_back(&client->data.sets->all, node);
        open_morsels_tick(set, now_ms);
        set_loads_tick(set, now_ms);
        set_origin_tick(set, now_ms);
        set_sync_tick(set);
        set_unref(set);
    }
    set_damage_tick(client, now_ms);
}

uint64_t data_sets_cached_bytes(const struct client *client)
{
    return client->data.sets->cached_bytes;
}

uint64_t data_sets_idle_bytes(const struct client *client)
{
    return client->data.sets->idle_bytes;
}

int data_sets_open(struct client *client)
{
    client->data.sets = calloc(1, sizeof(*client->data.sets));
    if (client->data.sets == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&client->data.sets->all);
    list_init(&client->data.sets->cached);
    list_init(&client->data.sets->idle);
    list_init(&client->data.sets->waiting);
    return MORSEL_OK;
}

void data_sets_empty(struct client *client)
{
    struct list *node;

    while ((node = list_front(&client->data.sets->cached)) != NULL) {
        set_load_free(LIST_ENTRY(node, struct set_load, queue));
    }
}

void data_sets_close(struct client *client)
{
    struct data_sets *sets = client->data.sets;

    if (sets == NULL) {
        return;
    }
    CHECK(list_empty(&sets->all) && list_empty(&sets->cached) && list_empty(&sets->idle));
    set_damage_free(sets);
    free(sets);
    client->data.sets = NULL;
}
