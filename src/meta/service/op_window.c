/* A ring of answers for each client. */
#include "meta/service/op_window.h"

#include "common/base/check.h"
#include "common/base/list.h"

#include <stdlib.h>

enum { BUCKETS = 1024 };

struct window_slot
{
    op_sequence sequence; /* 0: empty. */
    struct op_outcome outcome;
};

struct window_client
{
    struct list in_bucket;
    struct list in_use; /* Most recently used first. */
    client_id id;
    op_sequence answered;
    struct window_slot slots[CLIENT_OPS_PENDING_MAX]; /* At sequence modulo their number. */
};

struct op_window
{
    uint32_t count;
    struct list in_use;
    struct list buckets[BUCKETS];
};

static struct list *bucket_of(struct op_window *w, client_id client)
{
    return &w->buckets[(client * 0x9e3779b97f4a7c15U) >> 54];
}

static_assert(BUCKETS == 1 << (64 - 54), "the shift picks a bucket");

struct op_window *op_window_new(void)
{
    struct op_window *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return NULL;
    }
    list_init(&w->in_use);
    for (uint32_t i = 0; i < BUCKETS; i++) {
        list_init(&w->buckets[i]);
    }
    return w;
}

static void client_free(struct op_window *w, struct window_client *c)
{
    list_remove(&c->in_bucket);
    list_remove(&c->in_use);
    free(c);
    w->count--;
}

void op_window_free(struct op_window *w)
{
    if (w == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, &w->in_use)
    {
        free(LIST_ENTRY(node, struct window_client, in_use));
    }
    free(w);
}

uint32_t op_window_clients(const struct op_window *w)
{
    return w->count;
}

/* The client, now the most recently used; NULL when it is not known. */
static struct window_client *client_find(struct op_window *w, client_id id)
{
    LIST_FOREACH(node, bucket_of(w, id))
    {
        struct window_client *c = LIST_ENTRY(node, struct window_client, in_bucket);

        if (c->id == id) {
            list_remove(&c->in_use);
            list_push_front(&w->in_use, &c->in_use);
            return c;
        }
    }
    return NULL;
}

bool op_window_reserve(struct op_window *w, client_id client)
{
    struct window_client *c;

    if (client_find(w, client) != NULL) {
        return true;
    }
    if (w->count == OP_WINDOW_CLIENTS_MAX) {
        client_free(w, LIST_ENTRY(w->in_use.prev, struct window_client, in_use));
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

static struct window_slot *slot_of(struct window_client *c, op_sequence sequence)
{
    return &c->slots[sequence % CLIENT_OPS_PENDING_MAX];
}

enum op_window_verdict op_window_find(struct op_window *w, client_id client, op_sequence sequence,
                                      op_sequence answered, struct op_outcome *outcome)
{
    struct window_client *c = client_find(w, client);
    const struct window_slot *slot;

    if (c != NULL && answered > c->answered) {
        c->answered = answered;
    }
    if (c != NULL && c->answered > answered) {
        answered = c->answered;
    }
    if (sequence <= answered) {
        return OP_WINDOW_FORGOTTEN;
    }
    if (c == NULL) {
        return OP_WINDOW_NEW;
    }
    slot = slot_of(c, sequence);
    if (slot->sequence != sequence) {
        return slot->sequence > sequence ? OP_WINDOW_FORGOTTEN : OP_WINDOW_NEW;
    }
    *outcome = slot->outcome;
    return OP_WINDOW_KNOWN;
}

bool op_window_note(struct op_window *w, client_id client, op_sequence sequence,
                    op_sequence answered, const struct op_outcome *outcome)
{
    struct window_client *c;
    struct window_slot *slot;

    if (client == 0) {
        return true;
    }
    if (!op_window_reserve(w, client)) {
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
