/* A ring of answers for each client. */
#include "meta/service/reply_cache.h"

#include "common/base/check.h"
#include "common/base/list.h"

#include <stdlib.h>

enum { BUCKETS = 1024 };

struct reply_slot
{
    op_sequence sequence; /* 0: empty. */
    struct op_outcome outcome;
};

struct reply_client
{
    struct list in_bucket;
    struct list in_use; /* Most recently used first. */
    client_id id;
    op_sequence answered;
    struct reply_slot slots[CLIENT_OPS_PENDING_MAX]; /* At sequence modulo their number. */
};

struct reply_cache
{
    uint32_t count;
    struct list in_use;
    struct list buckets[BUCKETS];
};

static struct list *bucket_of(struct reply_cache *w, client_id client)
{
    return &w->buckets[(client * 0x9e3779b97f4a7c15U) >> 54];
}

static_assert(BUCKETS == 1 << (64 - 54), "the shift picks a bucket");

struct reply_cache *reply_cache_new(void)
{
    struct reply_cache *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return NULL;
    }
    list_init(&w->in_use);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        list_init(&w->buckets[i]);
    }
    return w;
}

static void client_free(struct reply_cache *w, struct reply_client *c)
{
    list_remove(&c->in_bucket);
    list_remove(&c->in_use);
    free(c);
    w->count--;
}

void reply_cache_free(struct reply_cache *w)
{
    if (w == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, &w->in_use)
    {
        free(LIST_ENTRY(node, struct reply_client, in_use));
    }
    free(w);
}

uint32_t reply_cache_clients(const struct reply_cache *w)
{
    return w->count;
}

/* The client, now the most recently used; NULL when it is not known. */
static struct reply_client *client_find(struct reply_cache *w, client_id id)
{
    LIST_FOREACH(node, bucket_of(w, id))
    {
        struct reply_client *c = LIST_ENTRY(node, struct reply_client, in_bucket);

        if (c->id == id) {
            list_remove(&c->in_use);
            list_push_front(&w->in_use, &c->in_use);
            return c;
        }
    }
    return NULL;
}

bool reply_cache_reserve(struct reply_cache *w, client_id client)
{
    struct reply_client *c;

    if (client_find(w, client) != NULL) {
        return true;
    }
    if (w->count == REPLY_CACHE_CLIENTS_MAX) {
        client_free(w, LIST_ENTRY(w->in_use.prev, struct reply_client, in_use));
    }
    if ((c = calloc(1, sizeof(*c))) == NULL) {
        return false;
    }
    c->id = client;
    list_init(&c->in_bucket);
    list_init(&c->in_use);
    list_push_front(bucket_of(w, client), &c->in_bucket);
    list_push_front(&w->in_use, &c->in_use);
    w->count++;
    return true;
}

static struct reply_slot *slot_of(struct reply_client *c, op_sequence sequence)
{
    return &c->slots[sequence % CLIENT_OPS_PENDING_MAX];
}

enum reply_cache_verdict reply_cache_find(struct reply_cache *w, client_id client,
                                          op_sequence sequence, op_sequence answered,
                                          struct op_outcome *outcome)
{
    struct reply_client *c = client_find(w, client);
    const struct reply_slot *slot;

    if (c != NULL && answered > c->answered) {
        c->answered = answered;
    }
    if (c != NULL && c->answered > answered) {
        answered = c->answered;
    }
    if (sequence <= answered) {
        return REPLY_CACHE_FORGOTTEN;
    }
    if (c == NULL) {
        return REPLY_CACHE_NEW;
    }
    slot = slot_of(c, sequence);
    if (slot->sequence != sequence) {
        return slot->sequence > sequence ? REPLY_CACHE_FORGOTTEN : REPLY_CACHE_NEW;
    }
    *outcome = slot->outcome;
    return REPLY_CACHE_KNOWN;
}

bool reply_cache_note(struct reply_cache *w, client_id client, op_sequence sequence,
                      op_sequence answered, const struct op_outcome *outcome)
{
    struct reply_client *c;
    struct reply_slot *slot;

    if (client == 0) {
        return true;
    }
    if (!reply_cache_reserve(w, client)) {
        return false;
    }
    c = client_find(w, client);
    if (answered > c->answered) {
        c->answered = answered;
    }
    slot = slot_of(c, sequence);
    if (sequence > slot->sequence) {
        slot->sequence = sequence;
        slot->outcome = *outcome;
    }
    return true;
}
