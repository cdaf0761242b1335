/* Requests, recalls and returns: what may be cached meets what is to be changed. */
#include "meta/coherence/lease_table.h"

#include "common/base/check.h"

#include <stdlib.h>

enum { RETRY_MS = 100 /* What could not be told for want of memory is tried again so soon. */ };

/* ---- Conflicts ---- */

/* What `lease` may stay at while `client` does `access`. */
static enum lease_mode allowed(const struct lease *lease, client_id client,
                               enum lease_access access)
{
    if (lease->holder->id == client) {
        return LEASE_W;
    }
    return access == ACCESS_CHANGE ? LEASE_NONE : LEASE_R;
}

static bool conflicts(const struct lease_inode *inode, client_id client, enum lease_access access)
{
    LIST_FOREACH(node, &inode->leases)
    {
        const struct lease *lease = LIST_ENTRY(node, struct lease, in_inode);

        if (lease->mode > allowed(lease, client, access)) {
            return true;
        }
    }
    return false;
}

void lease_recall(struct lease_table *t, struct lease *lease, enum lease_mode keeps,
                  uint64_t now_ms, struct lease_actions *out)
{
    lease->recall = ++t->last_number;
    lease->recall_keeps = keeps;
    /* One that is under way is replaced, and its time goes on. */
    if (lease->due.place == 0) {
        lease->landed = 0;
        lease->progress_ms = now_ms;
        lease->busy = false;
        heap_move(&t->recalls, &lease->due, now_ms + t->lease_period_ms);
    }
    t->counters.recalled++;
    (void)lease_emit(t, out,
                     (struct lease_action){ .type = LEASE_RECALL,
                                            .client = lease->holder->id,
                                            .recall = lease->recall,
                                            .inode = lease->inode->id,
                                            .keeps = keeps });
}

static void make_quiet(struct lease_table *t, struct lease_inode *inode, uint64_t now_ms)
{
    list_remove(&inode->in_quiet);
    inode->quiet_until_ms = now_ms + LEASE_QUIET_MS;
    list_push_back(&t->quiet, &inode->in_quiet);
}

/* A fenced holder is waited out. */
static bool is_to_be_recalled(const struct lease *lease, enum lease_mode keeps)
{
    return lease->mode > keeps && !lease->holder->fenced &&
           (lease->recall == 0 || lease->recall_keeps > keeps);
}

static size_t count_to_be_recalled(const struct lease_inode *inode, client_id client,
                                   enum lease_access access)
{
    size_t count = 0;

    LIST_FOREACH(node, &inode->leases)
    {
        const struct lease *lease = LIST_ENTRY(node, struct lease, in_inode);

        count += is_to_be_recalled(lease, allowed(lease, client, access));
    }
    return count;
}

static void recall_conflicting(struct lease_table *t, struct lease_inode *inode, client_id client,
                               enum lease_access access, uint64_t now_ms, struct lease_actions *out)
{
    LIST_FOREACH(node, &inode->leases)
    {
        struct lease *lease = LIST_ENTRY(node, struct lease, in_inode);
        enum lease_mode keeps = allowed(lease, client, access);

        if (lease->mode <= keeps) {
            continue;
        }
        if (access == ACCESS_CHANGE) {
            make_quiet(t, inode, now_ms);
        }
        if (is_to_be_recalled(lease, keeps)) {
            lease_recall(t, lease, keeps, now_ms, out);
        }
    }
}

/* ---- Tickets ---- */

static bool is_ready(const struct lease_table *t, const struct ticket *ticket)
{
    if (t->in_grace) {
        return false;
    }
    for (unsigned i = 0; i < ticket->waits_count; i++) {
        if (conflicts(ticket->waits[i].inode, ticket->client, ticket->waits[i].access)) {
            return false;
        }
    }
    return true;
}

/* The request is to be tried again. Without memory to say so, later. */
static void end_ticket(struct lease_table *t, struct ticket *ticket, struct lease_actions *out)
{
    if (lease_emit(t, out,
                   (struct lease_action){ .type = LEASE_READY, .ticket = ticket->number })) {
        lease_free_ticket(t, ticket);
    }
}

static void try_ticket(struct lease_table *t, struct ticket *ticket, struct lease_actions *out)
{
    if (is_ready(t, ticket)) {
        end_ticket(t, ticket, out);
    }
}

/* Somebody gave back: who waits for the inode may go on. The inode may be freed. */
static void wake(struct lease_table *t, struct lease_inode *inode, struct lease_actions *out)
{
    struct list tried;
    struct list *node;

    list_init(&tried);
    inode->pins++;
    while ((node = list_pop_front(&inode->waits)) != NULL) {
        struct ticket_wait *wait = LIST_ENTRY(node, struct ticket_wait, in_inode);

        list_push_back(&tried, node);
        try_ticket(t, wait->ticket, out);
    }
    while ((node = list_pop_front(&tried)) != NULL) {
        list_push_back(&inode->waits, node);
    }
    inode->pins--;
    lease_free_inode_if_idle(inode);
}

static void wake_all(struct lease_table *t, struct lease_actions *out)
{
    LIST_FOREACH_SAFE(node, &t->tickets)
    {
        try_ticket(t, LIST_ENTRY(node, struct ticket, in_all), out);
    }
}

/* Whoever waited for the grace has recalled nothing yet: when it asks again, it will. */
void lease_end_tickets(struct lease_table *t, struct lease_actions *out)
{
    LIST_FOREACH_SAFE(node, &t->tickets)
    {
        end_ticket(t, LIST_ENTRY(node, struct ticket, in_all), out);
    }
}

static struct ticket *new_ticket(struct lease_table *t, client_id client,
                                 const struct lease_touch *touched, unsigned touched_count)
{
    struct ticket *ticket =
        t->counters.tickets == LEASE_TICKETS_MAX ? NULL : calloc(1, sizeof(*ticket));

    if (ticket == NULL) {
        return NULL;
    }
    ticket->number = ++t->last_number;
    ticket->client = client;
    list_init(&ticket->in_all);
    list_push_back(&t->tickets, &ticket->in_all);
    t->counters.tickets++;
    for (unsigned i = 0; i < touched_count; i++) {
        struct ticket_wait *wait = &ticket->waits[i];

        wait->inode = lease_get_inode(t, touched[i].inode);
        if (wait->inode == NULL) {
            lease_free_ticket(t, ticket);
            return NULL;
        }
        wait->ticket = ticket;
        wait->access = touched[i].access;
        list_init(&wait->in_inode);
        list_push_back(&wait->inode->waits, &wait->in_inode);
        ticket->waits_count++;
    }
    return ticket;
}

enum lease_verdict lease_acquire(struct lease_table *t, uint64_t now_ms, client_id client,
                                 const struct lease_touch *touched, unsigned touched_count,
                                 uint64_t *ticket_out, struct lease_actions *out)
{
    struct ticket *ticket = NULL;
    bool wait = t->in_grace;
    size_t recalls = 0;

    CHECK(touched_count <= LEASE_TOUCHED_MAX);
    for (unsigned i = 0; i < touched_count && !wait; i++) {
        const struct lease_inode *inode = lease_find_inode(t, touched[i].inode);

        wait = inode != NULL && conflicts(inode, client, touched[i].access);
    }
    if (!wait) {
        return LEASE_GO;
    }
    for (unsigned i = 0; i < touched_count; i++) {
        const struct lease_inode *inode = lease_find_inode(t, touched[i].inode);

        recalls += inode == NULL ? 0 : count_to_be_recalled(inode, client, touched[i].access);
    }
    /* A recall that is begun and cannot be told would cost its holder what it holds. */
    if (lease_reserve(out, recalls)) {
        ticket = new_ticket(t, client, touched, touched_count);
    }
    if (ticket == NULL) {
        t->counters.refused_full++;
        return LEASE_FULL;
    }
    for (unsigned i = 0; i < touched_count && !t->in_grace; i++) {
        recall_conflicting(t, ticket->waits[i].inode, client, touched[i].access, now_ms, out);
    }
    *ticket_out = ticket->number;
    return LEASE_WAIT;
}

void lease_ticket_drop(struct lease_table *t, uint64_t number)
{
    LIST_FOREACH_SAFE(node, &t->tickets)
    {
        struct ticket *ticket = LIST_ENTRY(node, struct ticket, in_all);

        if (ticket->number == number) {
            lease_free_ticket(t, ticket);
            return;
        }
    }
}

/* ---- Granting ---- */

static bool may_be_granted(const struct lease_table *t, const struct holder *holder, inode_id id)
{
    return holder != NULL && holder->joined && (holder->caches || id == INODE_LOCKS) &&
           holder->persisted && !holder->fenced && !t->in_grace;
}

bool lease_fits_beside_others(const struct lease_inode *inode, client_id client,
                              enum lease_mode wanted, bool others_open, bool others_write)
{
    return wanted == LEASE_W ? !others_open && !conflicts(inode, client, ACCESS_CHANGE)
                             : !others_write && !conflicts(inode, client, ACCESS_READ);
}

enum lease_mode lease_told(const struct lease_table *t, client_id client, inode_id id)
{
    const struct lease_inode *inode = lease_find_inode(t, id);
    const struct lease *lease = inode == NULL ? NULL : lease_find(inode, client);

    /* While it is being recalled the client decides what remains, and says so. */
    return lease == NULL || lease->recall != 0 || lease->holder->fenced ? LEASE_NONE : lease->mode;
}

enum lease_mode lease_grant(struct lease_table *t, uint64_t now_ms, client_id client, inode_id id,
                            enum lease_mode wanted, bool eager, bool others_open, bool others_write)
{
    struct holder *holder = lease_find_holder(t, client);
    enum lease_mode had = lease_told(t, client, id);
    struct lease_inode *inode;
    struct lease *lease;

    if (had >= wanted || !may_be_granted(t, holder, id) ||
        (inode = lease_get_inode(t, id)) == NULL) {
        return had;
    }
    lease = lease_find(inode, client);
    if ((lease != NULL && lease->recall != 0) || !list_empty(&inode->waits) ||
        !lease_fits_beside_others(inode, client, wanted, others_open, others_write)) {
        lease_free_inode_if_idle(inode);
        return had;
    }
    if (!eager && inode->quiet_until_ms > now_ms) {
        t->counters.refused_quiet++;
        return had;
    }
    if (lease == NULL && t->counters.leases < LEASES_MAX) {
        lease = lease_add(t, inode, holder, wanted);
    }
    if (lease == NULL) {
        t->counters.refused_full++;
        lease_free_inode_if_idle(inode);
        return LEASE_NONE;
    }
    lease->mode = wanted;
    lease_check_inode(inode);
    t->counters.granted++;
    return wanted;
}

enum lease_mode lease_held_by(const struct lease_table *t, client_id client, inode_id id)
{
    const struct lease_inode *inode = lease_find_inode(t, id);
    const struct lease *lease = inode == NULL ? NULL : lease_find(inode, client);

    return lease == NULL || lease->holder->fenced ? LEASE_NONE : lease->mode;
}

bool lease_written_elsewhere(const struct lease_table *t, client_id client, inode_id id)
{
    const struct lease_inode *inode = lease_find_inode(t, id);

    return inode != NULL && conflicts(inode, client, ACCESS_READ);
}

void lease_forget_inode(struct lease_table *t, inode_id id, struct lease_actions *out)
{
    struct lease_inode *inode = lease_find_inode(t, id);

    if (inode == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, &inode->leases)
    {
        lease_remove(t, LIST_ENTRY(node, struct lease, in_inode));
    }
    wake(t, inode, out);
}

/* ---- Giving back ---- */

/* Come down to `mode`; whoever waits may go on. */
void lease_lower(struct lease_table *t, struct lease *lease, enum lease_mode mode,
                 struct lease_actions *out)
{
    struct lease_inode *inode = lease->inode;

    if (mode == LEASE_NONE) {
        if (inode->id == INODE_LOCKS) {
            lease_tell_locks_over(t, lease->holder->id, out);
        }
        lease_remove(t, lease);
    } else if (mode < lease->mode) {
        lease->mode = mode;
    }
    wake(t, inode, out);
}

static void on_return(struct lease_table *t, const struct lease_event *event,
                      struct lease_actions *out)
{
    struct lease_inode *inode = lease_find_inode(t, event->inode);
    struct lease *lease = inode == NULL ? NULL : lease_find(inode, event->client);
    enum lease_mode keeps = event->keeps;

    if (lease == NULL || lease->holder->fenced) {
        return;
    }
    /* Unasked: an answer of ours that says that it holds the lease may be on its way. A recall
     * comes behind it. */
    if (event->recall == 0) {
        if (lease->recall == 0 && keeps < lease->mode && lease_reserve(out, 1)) {
            lease_recall(t, lease, keeps, event->now_ms, out);
        }
        return;
    }
    if (event->recall != lease->recall) {
        return; /* An answer to a recall that is settled. */
    }
    t->counters.returned++;
    keeps = keeps > lease->recall_keeps ? lease->recall_keeps : keeps;
    lease->recall = 0;
    heap_remove(&t->recalls, &lease->due);
    lease_lower(t, lease, keeps > lease->mode ? lease->mode : keeps, out);
}

/* Whoever waits for the inode hears for whom; each client once for all its requests. */
static void tell_waiting(struct lease_table *t, const struct lease *lease,
                         struct lease_actions *out)
{
    struct lease_action held_up = { .type = LEASE_HELD_UP,
                                    .holder = lease->holder->id,
                                    .inode = lease->inode->id,
                                    .count = lease->landed };

    LIST_FOREACH(node, &lease->inode->waits)
    {
        struct ticket *ticket = LIST_ENTRY(node, struct ticket_wait, in_inode)->ticket;

        if (!ticket->told && ticket->client != 0 && ticket->client != held_up.client) {
            held_up.client = ticket->client;
            (void)lease_emit(t, out, held_up);
        }
        ticket->told = true;
    }
}

/* The holder is at it: it has time, as long as something moves. */
static void on_busy(struct lease_table *t, const struct lease_event *event,
                    struct lease_actions *out)
{
    struct lease_inode *inode = lease_find_inode(t, event->inode);
    struct lease *lease = inode == NULL ? NULL : lease_find(inode, event->client);
    uint64_t due_ms = event->now_ms + t->lease_period_ms;

    if (lease == NULL || lease->holder->fenced || lease->recall == 0 ||
        event->recall != lease->recall) {
        return;
    }
    if (event->landed > lease->landed) {
        lease->landed = event->landed;
        lease->progress_ms = event->now_ms;
    }
    if (due_ms > lease->progress_ms + LEASE_FLUSH_MS) {
        due_ms = lease->progress_ms + LEASE_FLUSH_MS;
    }
    if (due_ms > lease->due.key) {
        heap_move(&t->recalls, &lease->due, due_ms);
    }
    if (!lease->busy) {
        lease->busy = true;
        t->counters.busy++;
        (void)lease_emit(t, out,
                         (struct lease_action){ .type = LEASE_HELD_UP,
                                                .holder = lease->holder->id,
                                                .inode = inode->id,
                                                .count = lease->landed });
    }
    tell_waiting(t, lease, out);
}

static void on_tick(struct lease_table *t, uint64_t now_ms, struct lease_actions *out)
{
    struct heap_node *due;

    lease_end_periods(t, now_ms, out);
    while ((due = heap_min(&t->recalls)) != NULL && due->key <= now_ms) {
        lease_fence(t, CONTAINER_OF(due, struct lease, due)->holder, out);
    }
    lease_end_grace_if_due(t, now_ms, out);
    if (t->retry) {
        t->retry = false;
        lease_tell_again(t, out);
        wake_all(t, out);
    }
}

/* ---- The public face ---- */

static void check_invariants(const struct lease_table *t)
{
    CHECK(t->holders <= LEASE_CLIENTS_MAX && t->expected <= LEASE_CLIENTS_MAX);
    CHECK(t->counters.leases <= LEASES_MAX && t->counters.tickets <= LEASE_TICKETS_MAX);
    CHECK_IMPLIES(t->holders == 0, t->counters.leases == 0);
    CHECK_IMPLIES(!t->in_grace, t->expected == 0);
    CHECK(t->recalls.count <= t->counters.leases && t->periods.count == t->holders);
}

void lease_step(struct lease_table *t, const struct lease_event *event, struct lease_actions *out)
{
    struct holder *holder = lease_find_holder(t, event->client);

    check_invariants(t);
    t->step_ms = event->now_ms;
    lease_end_quiet(t, event->now_ms);
    switch (event->type) {
    case LEASE_JOIN:
        lease_on_join(t, event, out);
        break;
    case LEASE_GONE:
        break; /* Silent from now on, that is all. */
    case LEASE_LEAVE:
        if (holder != NULL) {
            lease_on_leave(t, holder, event->now_ms, out);
        }
        break;
    case LEASE_BUSY:
        on_busy(t, event, out);
        break;
    case LEASE_RETURN:
        on_return(t, event, out);
        break;
    case LEASE_PERSISTED:
        if (holder != NULL && event->lease_epoch == holder->lease_epoch && holder->persisting) {
            holder->persisted = true;
            holder->persisting = false;
        }
        break;
    case LEASE_FORGOTTEN:
        lease_on_forgotten(t, holder, event, out);
        break;
    case LEASE_TICK:
        on_tick(t, event->now_ms, out);
        break;
    }
    check_invariants(t);
}

uint64_t lease_deadline_ms(const struct lease_table *t)
{
    const struct heap_node *period = heap_min(&t->periods), *recall = heap_min(&t->recalls);
    uint64_t due_ms = period == NULL ? UINT64_MAX : period->key;

    if (t->in_grace && t->grace_until_ms < due_ms) {
        due_ms = t->grace_until_ms;
    }
    if (recall != NULL && recall->key < due_ms) {
        due_ms = recall->key;
    }
    if (t->retry && t->step_ms + RETRY_MS < due_ms) {
        due_ms = t->step_ms + RETRY_MS;
    }
    return due_ms;
}

void lease_count(const struct lease_table *t, struct lease_counters *counters)
{
    *counters = t->counters;
    counters->clients = t->holders;
}
