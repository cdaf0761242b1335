/* Holders: how they join, under which lease epochs, until when their leases last, and the grace period
 * after a restart. */
#include "meta/coherence/lease_table.h"

#include "common/base/check.h"

static void drop_all(struct lease_table *t, struct holder *holder, struct lease_actions *out)
{
    struct list *node;

    while ((node = list_front(&holder->leases)) != NULL) {
        lease_lower(t, LIST_ENTRY(node, struct lease, in_holder), LEASE_NONE, out);
    }
}

/* The lease period that goes with it. 0: nobody expects it. */
static uint32_t take_expected(struct lease_table *t, uint64_t lease_epoch)
{
    for (uint32_t i = 0; i < t->expected; i++) {
        if (t->expected_lease_epochs[i].lease_epoch == lease_epoch) {
            uint32_t lease_period_ms = t->expected_lease_epochs[i].lease_period_ms;

            t->expected_lease_epochs[i] = t->expected_lease_epochs[--t->expected];
            return lease_period_ms;
        }
    }
    return 0;
}

/* Who has not come back is not waited for any more, once its lease epoch cannot come back either. */
static void begin_grace_end(struct lease_table *t, uint64_t now_ms, struct lease_actions *out)
{
    t->grace_ending = true;
    t->grace_until_ms =
        now_ms + t->lease_period_ms; /* The host may have failed by then: once more. */
    for (uint32_t i = 0; i < t->expected; i++) {
        (void)lease_emit(
            t, out,
            (struct lease_action){ .type = LEASE_FORGET,
                                   .lease_epoch = t->expected_lease_epochs[i].lease_epoch });
    }
}

void lease_end_grace_if_due(struct lease_table *t, uint64_t now_ms, struct lease_actions *out)
{
    if (!t->in_grace || (t->expected > 0 && now_ms < t->grace_until_ms)) {
        return;
    }
    if (t->expected > 0) {
        begin_grace_end(t, now_ms, out);
        return;
    }
    t->in_grace = false;
    (void)lease_emit(t, out, (struct lease_action){ .type = LEASE_GRACE_OVER });
    lease_end_tickets(t, out);
}

/* The client says that it holds `held`. False: it does not. */
static bool join_one(struct lease_table *t, struct holder *holder, const struct lease_held *held,
                     bool was_expected)
{
    struct lease_inode *inode;
    struct lease *lease;

    if (holder->fenced || held->mode == LEASE_NONE || held->mode > LEASE_W ||
        (inode = lease_get_inode(t, held->inode)) == NULL) {
        return false;
    }
    lease = lease_find(inode, holder->id);
    /* After a restart what it says is all there is; what others say decides whether it can be true. */
    if (lease == NULL && was_expected && t->in_grace && t->counters.leases < LEASES_MAX &&
        lease_fits_beside_others(inode, holder->id, held->mode, false, false)) {
        lease = lease_add(t, inode, holder, held->mode);
    }
    if (lease == NULL) {
        lease_free_inode_if_idle(inode);
        return false;
    }
    lease->mode = held->mode < lease->mode ? held->mode : lease->mode;
    lease->named = true;
    lease_check_inode(inode);
    return true;
}

/* What it does not name it does not use any more. What was being recalled is recalled again: the
 * message may be lost. */
static void settle_named(struct lease_table *t, struct holder *holder, uint64_t now_ms,
                         struct lease_actions *out)
{
    LIST_FOREACH_SAFE(node, &holder->leases)
    {
        struct lease *lease = LIST_ENTRY(node, struct lease, in_holder);

        if (!lease->named) {
            lease_lower(t, lease, LEASE_NONE, out);
            continue;
        }
        lease->named = false;
        if (lease->recall == 0) {
            continue;
        }
        if (lease->mode > lease->recall_keeps) {
            lease_recall(t, lease, lease->recall_keeps, now_ms, out);
        } else {
            lease->recall = 0;
            heap_remove(&t->recalls, &lease->due);
            lease_lower(t, lease, lease->mode, out);
        }
    }
}

static void note_lease(struct lease_table *t, struct holder *holder)
{
    if (holder->due.place == 0) { /* Otherwise it is put right when it comes up. */
        heap_move(&t->periods, &holder->due, holder->heard_ms + holder->lease_period_ms);
    }
}

static void make_durable(struct lease_table *t, struct holder *holder, struct lease_actions *out)
{
    if (!holder->persisted && !holder->persisting) {
        holder->persisting = lease_emit(
            t, out,
            (struct lease_action){
                .type = LEASE_PERSIST, .client = holder->id, .lease_epoch = holder->lease_epoch });
    }
}

/* A client that is not known yet, under a lease epoch of before or under a new one. */
static struct holder *add_holder(struct lease_table *t, client_id client,
                                 uint64_t expected_lease_epoch, uint32_t expected_period_ms)
{
    struct holder *holder = lease_add_holder(t, client);

    if (holder != NULL) {
        holder->persisted = expected_lease_epoch != 0;
        holder->lease_epoch =
            expected_lease_epoch != 0 ? expected_lease_epoch : ++t->last_lease_epoch;
        holder->lease_period_ms =
            expected_lease_epoch != 0 ? expected_period_ms : t->lease_period_ms;
    }
    return holder;
}

void lease_admit(struct lease_table *t, uint64_t now_ms, client_id client,
                 struct lease_actions *out)
{
    struct holder *holder = lease_find_holder(t, client);

    if (holder == NULL && (holder = add_holder(t, client, 0, 0)) != NULL) {
        holder->joined = true;
        holder->heard_ms = now_ms;
        note_lease(t, holder);
    }
    if (holder != NULL) {
        make_durable(t, holder, out);
    }
}

void lease_not_persisted(struct lease_table *t, client_id client, uint64_t lease_epoch)
{
    struct holder *holder = lease_find_holder(t, client);

    if (holder != NULL && holder->lease_epoch == lease_epoch) {
        holder->persisting = false;
    }
}

uint64_t lease_epoch_of(const struct lease_table *t, client_id client)
{
    const struct holder *holder = lease_find_holder(t, client);

    return holder == NULL ? 0 : holder->lease_epoch;
}

uint32_t lease_period_ms(const struct lease_table *t, client_id client)
{
    const struct holder *holder = lease_find_holder(t, client);

    return holder == NULL || holder->fenced ? t->lease_period_ms : holder->lease_period_ms;
}

bool lease_is_fenced(const struct lease_table *t, client_id client)
{
    const struct holder *holder = lease_find_holder(t, client);

    return holder != NULL && holder->fenced;
}

bool lease_join_is_late(const struct lease_table *t, client_id client, uint64_t number)
{
    const struct holder *holder = lease_find_holder(t, client);

    return holder != NULL && number < holder->join_number;
}

void lease_on_join(struct lease_table *t, const struct lease_event *event,
                   struct lease_actions *out)
{
    struct holder *holder = lease_find_holder(t, event->client);
    uint32_t expected_period_ms = 0;
    bool was_expected = false, knows;

    if (holder != NULL && event->number < holder->join_number) {
        return;
    }
    if (holder == NULL) {
        if (event->lease_epoch != 0 && !t->grace_ending) {
            expected_period_ms = take_expected(t, event->lease_epoch);
            was_expected = expected_period_ms != 0;
        }
        holder =
            add_holder(t, event->client, was_expected ? event->lease_epoch : 0, expected_period_ms);
    }
    knows = holder != NULL && event->lease_epoch == holder->lease_epoch;
    for (size_t i = 0; i < event->held_count; i++) {
        if (!knows || !join_one(t, holder, &event->held[i], was_expected)) {
            (void)lease_emit(t, out,
                             (struct lease_action){ .type = LEASE_LOST,
                                                    .client = event->client,
                                                    .inode = event->held[i].inode });
        }
    }
    if (holder == NULL) {
        return;
    }
    holder->join_number = event->number;
    holder->joined = true;
    holder->caches = event->caches;
    if (!holder->fenced) {
        holder->heard_ms = event->now_ms;
        settle_named(t, holder, event->now_ms, out);
    }
    note_lease(t, holder);
    if (holder->caches) {
        make_durable(t, holder, out);
    }
    lease_end_grace_if_due(t, event->now_ms, out);
}

/* It has left. */
static void forget(struct lease_table *t, struct holder *holder, struct lease_actions *out)
{
    drop_all(t, holder, out);
    if (holder->persisted || holder->persisting) {
        (void)lease_emit(t, out,
                         (struct lease_action){ .type = LEASE_FORGET,
                                                .client = holder->id,
                                                .lease_epoch = holder->lease_epoch });
    }
    lease_free_holder(t, holder);
}

/* Once in a while, for the host may fail. */
static void ask_to_forget(struct lease_table *t, struct holder *holder, uint64_t now_ms,
                          struct lease_actions *out)
{
    if (now_ms >= holder->forget_again_ms) {
        holder->forget_again_ms = now_ms + t->lease_period_ms;
        (void)lease_emit(t, out,
                         (struct lease_action){ .type = LEASE_FORGET,
                                                .client = holder->id,
                                                .lease_epoch = holder->void_lease_epoch });
    }
    heap_move(&t->periods, &holder->due, holder->forget_again_ms);
}

/* What it says does not count any more, and what it names under its lease epoch will not either. The old
 * lease epoch stays on the disk until its lease period is over: after a restart that is waited for. */
static void take_lease_epoch(struct lease_table *t, struct holder *holder)
{
    CHECK(!holder->fenced);
    LIST_FOREACH(node, &holder->leases)
    {
        heap_remove(&t->recalls, &LIST_ENTRY(node, struct lease, in_holder)->due);
    }
    holder->fenced = true;
    holder->joined = false;
    holder->void_lease_epoch = holder->lease_epoch;
    holder->lease_epoch = ++t->last_lease_epoch;
    holder->forgotten = !holder->persisted && !holder->persisting;
    holder->persisted = holder->persisting = false;
    holder->forget_again_ms = 0;
}

/* Its lease period is over. */
static void expire(struct lease_table *t, struct holder *holder, uint64_t now_ms,
                   struct lease_actions *out)
{
    if (!holder->fenced) {
        take_lease_epoch(t, holder);
    }
    if (!holder->forgotten) {
        ask_to_forget(t, holder, now_ms, out);
        return; /* LEASE_FORGOTTEN goes on. */
    }
    t->counters.expired += holder->count;
    (void)lease_emit(t, out,
                     (struct lease_action){
                         .type = LEASE_EXPIRED, .client = holder->id, .count = holder->count });
    drop_all(t, holder, out);
    if (!holder->joined) {
        forget(t, holder, out);
        return;
    }
    holder->fenced = false; /* It has joined again, and was granted nothing so far. */
    holder->lease_period_ms = t->lease_period_ms;
    holder->heard_ms = now_ms;
    note_lease(t, holder);
}

static bool is_over(const struct holder *holder, uint64_t now_ms)
{
    return now_ms >= holder->heard_ms + holder->lease_period_ms;
}

void lease_on_forgotten(struct lease_table *t, struct holder *holder,
                        const struct lease_event *event, struct lease_actions *out)
{
    if (take_expected(t, event->lease_epoch) != 0) {
        lease_end_grace_if_due(t, event->now_ms, out);
    }
    if (holder != NULL && holder->fenced && holder->void_lease_epoch == event->lease_epoch) {
        holder->forgotten = true;
        if (is_over(holder, event->now_ms)) {
            expire(t, holder, event->now_ms, out);
        }
    }
}

void lease_fence(struct lease_table *t, struct holder *holder, struct lease_actions *out)
{
    t->counters.fenced++;
    (void)lease_emit(t, out, (struct lease_action){ .type = LEASE_FENCE, .client = holder->id });
    take_lease_epoch(t, holder);
}

void lease_end_periods(struct lease_table *t, uint64_t now_ms, struct lease_actions *out)
{
    struct heap_node *due;

    while ((due = heap_min(&t->periods)) != NULL && due->key <= now_ms) {
        struct holder *holder = CONTAINER_OF(due, struct holder, due);

        heap_remove(&t->periods, &holder->due);
        if (is_over(holder, now_ms)) {
            expire(t, holder, now_ms, out);
        } else {
            note_lease(t, holder);
        }
    }
}

void lease_on_leave(struct lease_table *t, struct holder *holder, uint64_t now_ms,
                    struct lease_actions *out)
{
    forget(t, holder, out);
    lease_end_grace_if_due(t, now_ms, out);
}

bool lease_heard(struct lease_table *t, client_id client, uint64_t now_ms)
{
    struct holder *holder = lease_find_holder(t, client);

    if (holder == NULL) {
        return t->holders == LEASE_CLIENTS_MAX;
    }
    if (!holder->joined) {
        return false;
    }
    if (!holder->fenced) {
        holder->heard_ms = now_ms;
    }
    return true;
}

bool lease_in_grace(const struct lease_table *t)
{
    return t->in_grace;
}
