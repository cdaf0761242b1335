/* A table of clients, each with a ring of answers; the client that was heard least recently makes
 * room. */
#include "common/serve/repeats.h"

#include "common/base/check.h"
#include "common/base/list.h"
#include "common/base/table.h"

#include <stdlib.h>

struct slot
{
    op_sequence number; /* 0: empty. */
    union {
        void *runner;      /* While it is at work. */
        uint64_t verifier; /* Of its answer. */
    };
    int32_t status;
    bool running;
};

struct client
{
    UT_hash_handle hh;
    struct list in_use; /* Most recently used first. */
    client_id id;
    op_sequence ended;
    op_sequence floor; /* What comes again and is not above may have been forgotten. */
    uint32_t slots_count;
    struct slot *slots; /* At number modulo their count, a power of two. */
};

struct repeats
{
    uint32_t clients_max, slots_max;
    struct repeats_counts counts;
    struct list in_use;
    struct client *clients;
};

static_assert((DATA_OPS_PENDING_MAX & (DATA_OPS_PENDING_MAX - 1)) == 0, "slots double up to it");
static_assert((DATA_OPS_SLOTS_MIN & (DATA_OPS_SLOTS_MIN - 1)) == 0, "slots double from it");

static struct slot *slot_of(const struct client *c, op_sequence number)
{
    return &c->slots[number & (c->slots_count - 1)];
}

struct repeats *repeats_new(uint32_t clients_max, uint32_t slots_max)
{
    struct repeats *r = calloc(1, sizeof(*r));

    CHECK(clients_max >= 1 && slots_max >= DATA_OPS_PENDING_MAX);
    if (r == NULL) {
        return NULL;
    }
    r->clients_max = clients_max;
    r->slots_max = slots_max;
    list_init(&r->in_use);
    return r;
}

static void client_free(struct repeats *r, struct client *c)
{
    CHECK(r->clients != NULL && r->counts.clients > 0 && r->counts.slots >= c->slots_count);
    r->counts.clients--;
    r->counts.slots -= c->slots_count;
    HASH_DEL(r->clients, c);
    list_remove(&c->in_use);
    free(c->slots);
    free(c);
}

void repeats_free(struct repeats *r)
{
    if (r == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, &r->in_use)
    {
        client_free(r, LIST_ENTRY(node, struct client, in_use));
    }
    CHECK(r->counts.clients == 0 && r->counts.slots == 0);
    free(r);
}

/* NULL: it is not known. */
static struct client *client_find(const struct repeats *r, client_id id)
{
    struct client *c;

    HASH_FIND(hh, r->clients, &id, sizeof(id), c);
    return c;
}

/* Room for another client, if `clients` is 1, and for so many slots; not at the expense of `but`
 * (may be NULL), which has been used last. */
static void make_room(struct repeats *r, uint32_t clients, uint32_t slots, const struct client *but)
{
    while (r->counts.clients + clients > r->clients_max || r->counts.slots + slots > r->slots_max) {
        struct client *quiet = LIST_ENTRY(r->in_use.prev, struct client, in_use);

        CHECK(!list_empty(&r->in_use) && quiet != but);
        client_free(r, quiet);
        r->counts.forgotten++;
    }
}

static struct client *client_new(struct repeats *r, const struct repeats_change *change)
{
    struct client *c;

    make_room(r, 1, DATA_OPS_SLOTS_MIN, NULL);
    c = calloc(1, sizeof(*c));
    if (c != NULL && (c->slots = calloc(DATA_OPS_SLOTS_MIN, sizeof(*c->slots))) != NULL) {
        c->id = change->client;
        HASH_ADD(hh, r->clients, id, sizeof(c->id), c);
    }
    if (c == NULL || !TABLE_ADDED(c)) {
        free(c == NULL ? NULL : c->slots);
        free(c);
        return NULL;
    }
    c->ended = change->ended;
    c->floor = r->counts.forgotten > 0 ? change->number - 1 : 0;
    c->slots_count = DATA_OPS_SLOTS_MIN;
    list_init(&c->in_use);
    list_push_front(&r->in_use, &c->in_use);
    r->counts.clients++;
    r->counts.slots += c->slots_count;
    return c;
}

/* So many slots that no two changes between `ended` and `number` share one, but for those that the
 * client keeps apart itself. False: out of memory. */
static bool client_grow(struct repeats *r, struct client *c, op_sequence number)
{
    uint32_t old_count = c->slots_count, count = old_count;
    struct slot *old = c->slots;

    while (count < DATA_OPS_PENDING_MAX && number - c->ended > count) {
        count *= 2;
    }
    if (count == old_count) {
        return true;
    }
    make_room(r, 0, count - old_count, c);
    c->slots = calloc(count, sizeof(*c->slots));
    if (c->slots == NULL) {
        c->slots = old;
        return false;
    }
    c->slots_count = count;
    r->counts.slots += count - old_count;
    for (uint32_t i = 0; i < old_count; i++) {
        if (old[i].number > c->ended) {
            *slot_of(c, old[i].number) = old[i];
        }
    }
    free(old);
    return true;
}

static enum repeats_verdict find_slot(const struct client *c, const struct repeats_change *change,
                                      void **runner, struct repeats_answer *answer)
{
    const struct slot *slot = slot_of(c, change->number);

    if (change->number <= c->ended || slot->number > change->number) {
        return REPEATS_OVER;
    }
    if (slot->number < change->number) {
        return change->again && change->number <= c->floor ? REPEATS_UNKNOWN : REPEATS_NEW;
    }
    if (slot->running) {
        *runner = slot->runner;
        return REPEATS_RUNNING;
    }
    *answer = (struct repeats_answer){ slot->status, slot->verifier };
    return REPEATS_DONE;
}

enum repeats_verdict repeats_find(struct repeats *r, const struct repeats_change *change,
                                  void **runner, struct repeats_answer *answer)
{
    struct client *c = client_find(r, change->client);

    CHECK(change->number != 0);
    if (c != NULL) {
        list_remove(&c->in_use);
        list_push_front(&r->in_use, &c->in_use);
        if (change->ended > c->ended) {
            c->ended = change->ended;
        }
        return find_slot(c, change, runner, answer);
    }
    if (change->number <= change->ended) {
        return REPEATS_OVER;
    }
    return change->again && r->counts.forgotten > 0 ? REPEATS_UNKNOWN : REPEATS_NEW;
}

bool repeats_begin(struct repeats *r, const struct repeats_change *change, void *runner)
{
    struct client *c = client_find(r, change->client);
    struct slot *slot;

    if ((c == NULL && (c = client_new(r, change)) == NULL) || !client_grow(r, c, change->number)) {
        return false;
    }
    slot = slot_of(c, change->number);
    CHECK(change->number > c->ended && slot->number < change->number);
    *slot = (struct slot){ .number = change->number, .runner = runner, .running = true };
    return true;
}

void repeats_end(struct repeats *r, client_id client, op_sequence number,
                 const struct repeats_answer *answer)
{
    struct client *c = client_find(r, client);
    struct slot *slot = c == NULL ? NULL : slot_of(c, number);

    if (slot == NULL || slot->number != number) {
        return;
    }
    slot->running = false;
    slot->status = answer->status;
    slot->verifier = answer->verifier;
}

void repeats_count(const struct repeats *r, struct repeats_counts *counts)
{
    *counts = r->counts;
}
