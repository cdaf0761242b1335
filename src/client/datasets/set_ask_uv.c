/* The manager says who has which morsels: a page of the map, or one morsel of now (set_parts_uv.h). */
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

struct set_ask
{
    struct meta_call call;
    struct data_set *set;
    struct list node;  /* In set->asks, while somebody may join it. */
    struct list waits; /* struct set_ask_wait */
    uint32_t first, count;
    uint64_t changes; /* Of the set, when it was asked. */
    bool fresh;
};

static void take_entry(const Morsel__SetMorsel *m, struct set_entry *entry)
{
    *entry = (struct set_entry){ .stored = true,
                                 .rewriting = m->rewriting,
                                 .evicted = m->evicted,
                                 .length = m->length,
                                 .digest = m->digest };
    for (size_t i = 0; i < m->n_donors && i < SET_COPIES_MAX; i++) {
        entry->donors[entry->donor_count++] = m->donors[i];
    }
}

/* Only what was asked for counts; what is no morsel's length is nobody's. */
static int check_map(const struct set_ask *ask, const Morsel__SetMapReply *reply)
{
    for (size_t i = 0; i < reply->n_morsels; i++) {
        const Morsel__SetMorsel *m = reply->morsels[i];

        if (m->number < ask->first || m->number - ask->first >= ask->count ||
            m->length > ask->set->morsel_bytes) {
            return MORSEL_MALFORMED;
        }
    }
    return MORSEL_OK;
}

static bool is_placed(const Morsel__SetMapReply *reply, donor_id id)
{
    for (size_t i = 0; i < reply->n_places; i++) {
        if (reply->places[i]->id == id) {
            return true;
        }
    }
    return false;
}

/* Where those are that are here; the others are away. */
static void learn_donors(struct client *client, const Morsel__SetMapReply *reply)
{
    donors_learn(client, reply->places, reply->n_places);
    for (size_t i = 0; i < reply->n_morsels; i++) {
        for (size_t j = 0; j < reply->morsels[i]->n_donors; j++) {
            if (!is_placed(reply, reply->morsels[i]->donors[j])) {
                donor_note_away(client, reply->morsels[i]->donors[j]);
            }
        }
    }
}

static void keep_page(struct set_ask *ask, const Morsel__SetMapReply *reply)
{
    struct set_map *map = &ask->set->map;

    if (ask->fresh || ask->changes != ask->set->changes || set_map_begin(map, ask->first) != 0) {
        return;
    }
    for (size_t i = 0; i < reply->n_morsels; i++) {
        struct set_entry entry;

        take_entry(reply->morsels[i], &entry);
        set_map_put(map, reply->morsels[i]->number, &entry);
    }
}

static void tell(struct set_ask *ask, int status, const Morsel__SetMapReply *reply)
{
    struct list *node;

    while ((node = list_pop_front(&ask->waits)) != NULL) {
        struct set_ask_wait *wait = LIST_ENTRY(node, struct set_ask_wait, node);
        struct set_entry entry = { .stored = false };

        for (size_t i = 0; status == 0 && i < reply->n_morsels; i++) {
            if (reply->morsels[i]->number == wait->morsel) {
                take_entry(reply->morsels[i], &entry);
            }
        }
        wait->done(wait, status, &entry);
    }
}

static void on_map(struct meta_call *call, int status, void *message)
{
    struct set_ask *ask = CONTAINER_OF(call, struct set_ask, call);
    const Morsel__SetMapReply *reply = message;
    struct data_set *set = ask->set;

    list_remove(&ask->node);
    if (status == 0) {
        status = check_map(ask, reply);
    }
    if (status == 0) {
        learn_donors(set->client, reply);
        set->sealed = set->sealed || reply->sealed;
        keep_page(ask, reply);
    }
    tell(ask, status, reply);
    free(ask);
    set_unref(set);
}

static struct set_ask *find_ask(struct data_set *set, uint32_t first)
{
    LIST_FOREACH(node, &set->asks)
    {
        struct set_ask *ask = LIST_ENTRY(node, struct set_ask, node);

        if (ask->first == first && ask->changes == set->changes) {
            return ask;
        }
    }
    return NULL;
}

static struct set_ask *begin(struct data_set *set, uint32_t first, uint32_t count, bool fresh)
{
    Morsel__SetMapRequest request = MORSEL__SET_MAP_REQUEST__INIT;
    struct set_ask *ask = calloc(1, sizeof(*ask));

    if (ask == NULL) {
        return NULL;
    }
    ask->set = set;
    ask->first = first;
    ask->count = count;
    ask->fresh = fresh;
    ask->changes = set->changes;
    list_init(&ask->node);
    list_init(&ask->waits);
    request.inode = set->inode;
    request.set = set->number;
    request.first = first;
    request.count = count;
    if (meta_call_start(&ask->call, set->client, MSG_SET_MAP, &request.base,
                        &morsel__set_map_reply__descriptor, on_map) != 0) {
        free(ask);
        return NULL;
    }
    if (!fresh) {
        list_push_back(&set->asks, &ask->node);
    }
    (void)set_ref(set);
    return ask;
}

int set_ask(struct data_set *set, struct set_ask_wait *wait, uint32_t morsel, bool fresh)
{
    uint32_t first = fresh ? morsel : morsel - morsel % SET_MAP_PAGE;
    struct set_ask *ask = fresh ? NULL : find_ask(set, first);

    if (ask == NULL) {
        ask = begin(set, first, fresh ? 1 : SET_MAP_PAGE, fresh);
    }
    if (ask == NULL) {
        return MORSEL_NOMEM;
    }
    wait->morsel = morsel;
    list_init(&wait->node);
    list_push_back(&ask->waits, &wait->node);
    return MORSEL_OK;
}
