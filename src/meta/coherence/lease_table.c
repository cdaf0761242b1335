/* Finding, making and forgetting of clients, inodes, leases and requests that wait. */
#include "meta/coherence/lease_table.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

enum { ACTIONS_MIN = 16 };

/* ---- Actions ---- */

void lease_actions_init(struct lease_actions *out)
{
    memset(out, 0, sizeof(*out));
}

void lease_actions_free(struct lease_actions *out)
{
    free(out->items);
    lease_actions_init(out);
}

bool lease_reserve(struct lease_actions *out, size_t more)
{
    size_t capacity = out->capacity == 0 ? ACTIONS_MIN : out->capacity;
    struct lease_action *items;

    if (out->count + more <= out->capacity) {
        return true;
    }
    while (capacity < out->count + more) {
        capacity *= 2;
    }
    items = realloc(out->items, capacity * sizeof(*items));
    if (items != NULL) {
        out->items = items;
        out->capacity = capacity;
    }
    return items != NULL;
}

bool lease_emit(struct lease_table *t, struct lease_actions *out, struct lease_action action)
{
    if (!lease_reserve(out, 1)) {
        out->failed = t->retry = true;
        return false;
    }
    out->items[out->count++] = action;
    return true;
}

static bool is_untold(const struct lease_table *t, client_id client)
{
    for (uint32_t i = 0; i < t->untold_count; i++) {
        if (t->untold_locks[i] == client) {
            return true;
        }
    }
    return false;
}

void lease_tell_locks_over(struct lease_table *t, client_id client, struct lease_actions *out)
{
    if (!lease_emit(t, out, (struct lease_action){ .type = LEASE_LOCKS_OVER, .client = client }) &&
        !is_untold(t, client)) {
        CHECK(t->untold_count < LEASE_CLIENTS_MAX); /* lease_add_holder() leaves room. */
        t->untold_locks[t->untold_count++] = client;
    }
}

void lease_tell_again(struct lease_table *t, struct lease_actions *out)
{
    while (t->untold_count > 0 &&
           lease_emit(t, out,
                      (struct lease_action){ .type = LEASE_LOCKS_OVER,
                                             .client = t->untold_locks[t->untold_count - 1] })) {
        t->untold_count--;
    }
}

/* ---- Tables ---- */

static uint64_t hash(uint64_t id)
{
    return (id * 0x9e3779b97f4a7c15U) >> 40;
}

struct holder *lease_find_holder(const struct lease_table *t, client_id id)
{
    LIST_FOREACH(node, &t->clients[hash(id) % LEASE_CLIENT_BUCKETS])
    {
        struct holder *holder = LIST_ENTRY(node, struct holder, in_bucket);

        if (holder->id == id) {
            return holder;
        }
    }
    return NULL;
}

struct holder *lease_add_holder(struct lease_table *t, client_id id)
{
    struct holder *holder;

    if (t->holders + t->untold_count >= LEASE_CLIENTS_MAX || is_untold(t, id) ||
        !heap_reserve(&t->periods, t->holders + 1) ||
        (holder = calloc(1, sizeof(*holder))) == NULL) {
        return NULL;
    }
    holder->id = id;
    list_init(&holder->in_bucket);
    list_init(&holder->in_all);
    list_init(&holder->leases);
    list_push_front(&t->clients[hash(id) % LEASE_CLIENT_BUCKETS], &holder->in_bucket);
    list_push_back(&t->all, &holder->in_all);
    t->holders++;
    return holder;
}

void lease_free_holder(struct lease_table *t, struct holder *holder)
{
    CHECK(list_empty(&holder->leases) && holder->count == 0);
    list_remove(&holder->in_bucket);
    list_remove(&holder->in_all);
    heap_remove(&t->periods, &holder->due);
    t->holders--;
    free(holder);
}

struct lease_inode *lease_find_inode(const struct lease_table *t, inode_id id)
{
    LIST_FOREACH(node, &t->inodes[hash(id) % LEASE_INODE_BUCKETS])
    {
        struct lease_inode *inode = LIST_ENTRY(node, struct lease_inode, in_bucket);

        if (inode->id == id) {
            return inode;
        }
    }
    return NULL;
}

struct lease_inode *lease_get_inode(struct lease_table *t, inode_id id)
{
    struct lease_inode *inode = lease_find_inode(t, id);

    if (inode != NULL || (inode = calloc(1, sizeof(*inode))) == NULL) {
        return inode;
    }
    inode->id = id;
    list_init(&inode->in_bucket);
    list_init(&inode->in_quiet);
    list_init(&inode->leases);
    list_init(&inode->waits);
    list_push_front(&t->inodes[hash(id) % LEASE_INODE_BUCKETS], &inode->in_bucket);
    return inode;
}

void lease_free_inode_if_idle(struct lease_inode *inode)
{
    if (list_empty(&inode->leases) && list_empty(&inode->waits) && inode->quiet_until_ms == 0 &&
        inode->pins == 0) {
        list_remove(&inode->in_bucket);
        free(inode);
    }
}

struct lease *lease_find(const struct lease_inode *inode, client_id client)
{
    LIST_FOREACH(node, &inode->leases)
    {
        struct lease *lease = LIST_ENTRY(node, struct lease, in_inode);

        if (lease->holder->id == client) {
            return lease;
        }
    }
    return NULL;
}

struct lease *lease_add(struct lease_table *t, struct lease_inode *inode, struct holder *holder,
                        enum lease_mode mode)
{
    struct lease *lease;

    if (!heap_reserve(&t->recalls, t->counters.leases + 1) ||
        (lease = calloc(1, sizeof(*lease))) == NULL) {
        return NULL;
    }
    lease->holder = holder;
    lease->inode = inode;
    lease->mode = mode;
    list_init(&lease->in_inode);
    list_init(&lease->in_holder);
    list_push_back(&inode->leases, &lease->in_inode);
    list_push_back(&holder->leases, &lease->in_holder);
    holder->count++;
    t->counters.leases++;
    return lease;
}

void lease_remove(struct lease_table *t, struct lease *lease)
{
    list_remove(&lease->in_inode);
    list_remove(&lease->in_holder);
    heap_remove(&t->recalls, &lease->due);
    CHECK(lease->holder->count > 0 && t->counters.leases > 0);
    lease->holder->count--;
    t->counters.leases--;
    free(lease);
}

void lease_free_ticket(struct lease_table *t, struct ticket *ticket)
{
    list_remove(&ticket->in_all);
    for (unsigned i = 0; i < ticket->waits_count; i++) {
        list_remove(&ticket->waits[i].in_inode);
        lease_free_inode_if_idle(ticket->waits[i].inode);
    }
    t->counters.tickets--;
    free(ticket);
}

/* ---- Invariants ---- */

void lease_check_inode(const struct lease_inode *inode)
{
    const struct list *first = inode->leases.next;

    LIST_FOREACH(node, &inode->leases)
    {
        CHECK_IMPLIES(LIST_ENTRY(node, struct lease, in_inode)->mode == LEASE_W,
                      node == first && node->next == &inode->leases);
    }
}

static uint64_t check_leases_of(const struct lease_table *t, const struct holder *holder)
{
    uint64_t count = 0;

    LIST_FOREACH(node, &holder->leases)
    {
        const struct lease *lease = LIST_ENTRY(node, struct lease, in_holder);

        CHECK(lease->holder == holder && lease->mode != LEASE_NONE && !lease->named);
        CHECK(lease_find_inode(t, lease->inode->id) == lease->inode);
        CHECK(lease_find(lease->inode, holder->id) == lease);
        CHECK((lease->due.place != 0) == (lease->recall != 0 && !holder->fenced));
        CHECK_IMPLIES(lease->due.place != 0,
                      lease->due.key <= lease->progress_ms + LEASE_FLUSH_MS ||
                          lease->due.key <= lease->progress_ms + t->lease_period_ms);
        CHECK(lease->recall <= t->last_number);
        lease_check_inode(lease->inode);
        count++;
    }
    CHECK(count == holder->count);
    return count;
}

void lease_check(const struct lease_table *t)
{
    uint64_t leases = 0, tickets = 0;
    uint32_t holders = 0;

    LIST_FOREACH(node, &t->all)
    {
        const struct holder *holder = LIST_ENTRY(node, struct holder, in_all);

        CHECK(lease_find_holder(t, holder->id) == holder);
        CHECK(holder->due.place != 0 && !(holder->persisting && holder->persisted));
        CHECK(holder->due.key <= holder->heard_ms + holder->lease_period_ms ||
              (holder->fenced && holder->due.key <= holder->forget_again_ms));
        CHECK_IMPLIES(holder->count > 0 && !holder->fenced, holder->joined && holder->persisted);
        leases += check_leases_of(t, holder);
        holders++;
    }
    LIST_FOREACH(node, &t->tickets)
    {
        const struct ticket *ticket = LIST_ENTRY(node, struct ticket, in_all);

        for (unsigned i = 0; i < ticket->waits_count; i++) {
            CHECK(!list_empty(&ticket->waits[i].in_inode));
        }
        tickets++;
    }
    CHECK(holders == t->holders && leases == t->counters.leases && tickets == t->counters.tickets);
    CHECK(t->periods.count == holders);
}

void lease_end_quiet(struct lease_table *t, uint64_t now_ms)
{
    struct list *node;

    while ((node = list_front(&t->quiet)) != NULL) {
        struct lease_inode *inode = LIST_ENTRY(node, struct lease_inode, in_quiet);

        if (inode->quiet_until_ms > now_ms) {
            return;
        }
        list_remove(node);
        inode->quiet_until_ms = 0;
        lease_free_inode_if_idle(inode);
    }
}

/* ---- Beginning and end ---- */

struct lease_table *lease_table_new(const struct lease_options *options)
{
    struct lease_table *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        return NULL;
    }
    list_init(&t->all);
    heap_init(&t->periods);
    heap_init(&t->recalls);
    list_init(&t->quiet);
    list_init(&t->tickets);
    for (uint32_t i = 0; i < LEASE_CLIENT_BUCKETS; i++) {
        list_init(&t->clients[i]);
    }
    for (uint32_t i = 0; i < LEASE_INODE_BUCKETS; i++) {
        list_init(&t->inodes[i]);
    }
    t->in_grace = options->expected_count > 0;
    t->lease_period_ms = options->lease_period_ms != 0 ? options->lease_period_ms : LEASE_MS;
    t->grace_until_ms = options->now_ms;
    t->last_lease_epoch = options->last_lease_epoch;
    t->last_number = options->last_lease_epoch >> 1; /* It never comes round to 0, "unasked". */
    CHECK(options->expected_count <= LEASE_CLIENTS_MAX);
    for (size_t i = 0; i < options->expected_count; i++) {
        uint64_t ends_ms = options->now_ms + options->expected[i].lease_period_ms;

        t->grace_until_ms = ends_ms > t->grace_until_ms ? ends_ms : t->grace_until_ms;
        t->expected_lease_epochs[t->expected++] = options->expected[i];
    }
    return t;
}

void lease_table_free(struct lease_table *t)
{
    struct list *node;

    if (t == NULL) {
        return;
    }
    while ((node = list_front(&t->tickets)) != NULL) {
        lease_free_ticket(t, LIST_ENTRY(node, struct ticket, in_all));
    }
    while ((node = list_front(&t->all)) != NULL) {
        struct holder *holder = LIST_ENTRY(node, struct holder, in_all);

        LIST_FOREACH_SAFE(at, &holder->leases)
        {
            struct lease *lease = LIST_ENTRY(at, struct lease, in_holder);
            struct lease_inode *inode = lease->inode;

            lease_remove(t, lease);
            lease_free_inode_if_idle(inode);
        }
        lease_free_holder(t, holder);
    }
    lease_end_quiet(t, UINT64_MAX);
    heap_free(&t->periods);
    heap_free(&t->recalls);
    free(t);
}
