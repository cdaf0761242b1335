/* Requests that wait for leases, and recalls on their way to the mounts. */
#include "meta/coherence/leases_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/address.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECALLS_MAX = 256 /* In one message */ };

/* A request that waits for recalls. */
struct leased_request
{
    struct list node;
    uint64_t ticket;
    inode_id inode; /* The first that it touches. */
    struct rpc_request *request;
};

/* ---- Performing what the core says ---- */

struct holder_persist
{
    struct sync_waiter waiter;
    struct meta *meta;
    client_id client;
    uint64_t lease_epoch;
    bool holds;
};

static void lease_event(struct meta *meta, const struct lease_event *event);

static void on_holder_durable(struct sync_waiter *waiter, int status)
{
    struct holder_persist *p = CONTAINER_OF(waiter, struct holder_persist, waiter);
    struct meta *meta = p->meta;
    struct lease_event event = { .now_ms = meta_now_ms(meta) };

    event.type = p->holds ? LEASE_PERSISTED : LEASE_FORGOTTEN;
    event.client = p->client;
    event.lease_epoch = p->lease_epoch;
    free(p);
    if (status == 0 && !meta->closing) {
        lease_event(meta, &event);
    }
}

/* A loss of power must not take the record back while its client caches, nor bring it back once
 * others do. */
static void persist_lease_epoch(struct meta *meta, client_id client, uint64_t lease_epoch,
                                bool holds)
{
    struct meta_op op = { .kind = OP_HOLDER, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    struct holder_persist *p = calloc(1, sizeof(*p));
    int rv;

    op.holder.lease_epoch = lease_epoch;
    op.holder.holds = holds;
    op.holder.lease_period_ms = (uint32_t)meta->settings->lease_ms;
    rv = p == NULL ? MORSEL_NOMEM : meta_execute(meta, &op, &err);
    if (rv == 0) {
        p->meta = meta;
        p->client = client;
        p->lease_epoch = lease_epoch;
        p->holds = holds;
        list_init(&p->waiter.node);
        sync_wait(&meta->sync, &p->waiter, on_holder_durable);
        return;
    }
    free(p); /* Without it nothing is granted. */
    if (holds) {
        lease_not_persisted(meta->leases, client, lease_epoch);
    }
    if (rv == MORSEL_NOMEM && holds) {
        rpc_disconnect(meta->server, ROLE_CLIENT, client, "out of memory"); /* It joins again. */
    }
}

/* All recalls of one client in as few messages as fit. */
static void push_recalls(struct meta *meta, struct lease_actions *actions, size_t from)
{
    Morsel__RecallNotice notice = MORSEL__RECALL_NOTICE__INIT;
    Morsel__Recall recalls[RECALLS_MAX], *pointers[RECALLS_MAX];
    client_id client = actions->items[from].client;

    for (size_t i = from; i < actions->count && notice.n_recalls < RECALLS_MAX; i++) {
        struct lease_action *action = &actions->items[i];
        Morsel__Recall *recall = &recalls[notice.n_recalls];

        if (action->type != LEASE_RECALL || action->client != client) {
            continue;
        }
        morsel__recall__init(recall);
        recall->recall = action->recall;
        recall->inode = action->inode;
        recall->keep = action->keeps;
        pointers[notice.n_recalls++] = recall;
        action->client = 0; /* Done. */
    }
    notice.recalls = pointers;
    /* A client that is not connected is waited out. */
    (void)rpc_push(meta->server, ROLE_CLIENT, client, MSG_RECALL, &notice.base);
}

static void fence(struct meta *meta, client_id client)
{
    log_warning(meta->log,
                "client %016" PRIx64
                " did not give back a lease within %u ms: what it had not written back "
                "is lost; it is refused until it joins again",
                client, (unsigned)meta->settings->lease_ms);
    rpc_disconnect(meta->server, ROLE_CLIENT, client, "did not answer a recall");
}

/* Somebody waits for a holder that is busy: the log, and who waits. */
static void held_up(struct meta *meta, const struct lease_action *action)
{
    char holder[ADDRESS_TEXT_MAX];
    Morsel__HeldUp notice = MORSEL__HELD_UP__INIT;

    if (!rpc_node_address(meta->server, ROLE_CLIENT, action->holder, holder)) {
        (void)snprintf(holder, sizeof(holder), "client %016" PRIx64, action->holder);
    }
    if (action->client == 0) {
        log_warning(meta->log,
                    "the mount at %s still writes back inode %" PRIu64 " (%" PRIu64
                    " bytes so far) for which others wait; is one of its storage servers slow?",
                    holder, action->inode, action->count);
        return;
    }
    notice.inode = action->inode;
    notice.holder = holder;
    notice.landed = action->count;
    (void)rpc_push(meta->server, ROLE_CLIENT, action->client, MSG_HELD_UP, &notice.base);
}

static struct leased_request *find_waiting(struct meta *meta, uint64_t ticket)
{
    LIST_FOREACH(node, &meta->leased)
    {
        struct leased_request *w = LIST_ENTRY(node, struct leased_request, node);

        if (w->ticket == ticket) {
            return w;
        }
    }
    return NULL;
}

static void try_again(struct meta *meta, uint64_t ticket)
{
    struct leased_request *w = find_waiting(meta, ticket);
    struct rpc_request *request;
    uint64_t now_ns = uv_hrtime();

    if (w != NULL) {
        request = w->request;
        list_remove(&w->node);
        free(w);
        rpc_request_worked(request, now_ns, now_ns); /* It waited until now. */
        meta_dispatch(meta, request);
    }
}

static void perform(struct meta *meta, struct lease_actions *actions, size_t i)
{
    const struct lease_action *action = &actions->items[i];

    switch (action->type) {
    case LEASE_RECALL:
        if (action->client != 0) {
            push_recalls(meta, actions, i);
        }
        break;
    case LEASE_HELD_UP:
        held_up(meta, action);
        break;
    case LEASE_READY:
        try_again(meta, action->ticket);
        break;
    case LEASE_FENCE:
        fence(meta, action->client);
        break;
    case LEASE_EXPIRED:
        log_info(meta->log,
                 "client %016" PRIx64 " was silent too long: %" PRIu64 " leases are over",
                 action->client, action->count);
        break;
    case LEASE_PERSIST:
    case LEASE_FORGET:
        persist_lease_epoch(meta, action->client, action->lease_epoch,
                            action->type == LEASE_PERSIST);
        break;
    case LEASE_LOCKS_OVER:
        meta_locks_over(meta, action->client);
        break;
    case LEASE_GRACE_OVER:
        log_info(meta->log, "all holders of leases are back, or their time is over");
        break;
    case LEASE_LOST:
        break; /* leases_join() has read them. */
    }
}

/* Performing may bring new events, each with actions of its own; what is being performed is never
 * the list that grows. */
void leases_perform(struct meta *meta, struct lease_actions *actions)
{
    for (size_t i = 0; i < actions->count; i++) {
        perform(meta, actions, i);
    }
    lease_actions_free(actions);
    meta_arm(meta);
}

static void lease_event(struct meta *meta, const struct lease_event *event)
{
    struct lease_actions actions;

    lease_actions_init(&actions);
    lease_step(meta->leases, event, &actions);
    leases_perform(meta, &actions);
}

/* ---- Requests ---- */

static client_id client_of(const struct rpc_request *request)
{
    return request->role == ROLE_CLIENT ? request->node_id : 0;
}

static bool wait_for(struct meta *meta, struct rpc_request *request, uint64_t ticket,
                     inode_id inode)
{
    struct leased_request *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        lease_ticket_drop(meta->leases, ticket);
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return false;
    }
    w->ticket = ticket;
    w->inode = inode;
    w->request = request;
    list_init(&w->node);
    list_push_back(&meta->leased, &w->node);
    return false;
}

/* `client`: whose leases are not in the way. */
static bool touch(struct meta *meta, struct rpc_request *request, client_id client,
                  const struct lease_touch *touched, unsigned touched_count)
{
    struct lease_touch real[LEASE_TOUCHED_MAX];
    struct lease_actions actions;
    enum lease_verdict verdict;
    uint64_t ticket = 0;
    unsigned count = 0;
    bool go = false;

    CHECK(touched_count <= LEASE_TOUCHED_MAX);
    for (unsigned i = 0; i < touched_count; i++) {
        if (touched[i].inode != INODE_NONE) {
            real[count++] = touched[i];
        }
    }
    lease_actions_init(&actions);
    verdict =
        lease_acquire(meta->leases, meta_now_ms(meta), client, real, count, &ticket, &actions);
    if (verdict == LEASE_GO) {
        go = true;
    } else if (verdict == LEASE_WAIT) {
        (void)wait_for(meta, request, ticket, count > 0 ? real[0].inode : INODE_NONE);
    } else {
        rpc_reply_failure(request, MORSEL_OVERLOAD, "too many requests wait for leases");
    }
    if (actions.count > 0 || actions.failed) {
        leases_perform(meta, &actions);
    } else {
        lease_actions_free(&actions);
    }
    return go;
}

bool leases_touch(struct meta *meta, struct rpc_request *request, const struct lease_touch *touched,
                  unsigned touched_count)
{
    return touch(meta, request, client_of(request), touched, touched_count);
}

bool leases_touch_own(struct meta *meta, struct rpc_request *request,
                      const struct lease_touch *touched, unsigned touched_count)
{
    return touch(meta, request, 0, touched, touched_count);
}

bool leases_another_waits(const struct meta *meta, const struct rpc_request *request,
                          inode_id inode)
{
    LIST_FOREACH(node, &meta->leased)
    {
        const struct leased_request *w = LIST_ENTRY(node, struct leased_request, node);

        if (w->inode == inode && w->request->type == request->type &&
            w->request->node_id != request->node_id) {
            return true;
        }
    }
    return false;
}

bool leases_touch_one(struct meta *meta, struct rpc_request *request, inode_id inode,
                      enum lease_access access)
{
    struct lease_touch touched = { inode, access };

    return leases_touch(meta, request, &touched, 1);
}

enum lease_mode leases_grant(struct meta *meta, const struct rpc_request *request, inode_id inode,
                             enum lease_mode wanted, bool eager)
{
    bool others_open = false, others_write = false;

    if (request->role != ROLE_CLIENT) {
        return LEASE_NONE;
    }
    session_open_elsewhere(meta->sessions, inode, request->node_id, &others_open, &others_write);
    if (pauses_find(&meta->pauses, inode) != NULL) {
        others_open = others_write = true; /* Who holds still could not give it back. */
    }
    return lease_grant(meta->leases, meta_now_ms(meta), request->node_id, inode, wanted, eager,
                       others_open, others_write);
}

enum lease_mode leases_grant_held(struct meta *meta, const struct rpc_request *request,
                                  inode_id inode)
{
    bool writes = session_has_open(meta->sessions, inode, request->node_id, true);

    return lease_grant(meta->leases, meta_now_ms(meta), request->node_id, inode,
                       writes ? LEASE_W : LEASE_R, true, false, false);
}

bool leases_grant_locks(struct meta *meta, const struct rpc_request *request)
{
    uint64_t now_ms = meta_now_ms(meta);
    struct lease_actions actions;

    lease_actions_init(&actions);
    lease_admit(meta->leases, now_ms, request->node_id, &actions);
    leases_perform(meta, &actions);
    return lease_grant(meta->leases, now_ms, request->node_id, INODE_LOCKS, LEASE_R, true, false,
                       false) != LEASE_NONE;
}

enum lease_mode leases_held(struct meta *meta, const struct rpc_request *request, inode_id inode)
{
    return request->role == ROLE_CLIENT ? lease_told(meta->leases, request->node_id, inode)
                                        : LEASE_NONE;
}

enum lease_mode leases_still_held(struct meta *meta, const struct rpc_request *request,
                                  inode_id inode)
{
    return request->role == ROLE_CLIENT ? lease_held_by(meta->leases, request->node_id, inode)
                                        : LEASE_NONE;
}

/* ---- Coming and going ---- */

static void hold(struct lease_held *held, size_t *count, const uint64_t *inodes,
                 size_t inodes_count, enum lease_mode mode)
{
    for (size_t i = 0; i < inodes_count; i++) {
        held[(*count)++] = (struct lease_held){ inodes[i], mode };
    }
}

int leases_join(struct meta *meta, client_id client, const Morsel__SessionRequest *m,
                inode_id *lost, size_t *lost_count, struct lease_actions *actions)
{
    struct lease_event event = { .now_ms = meta_now_ms(meta), .type = LEASE_JOIN };
    struct lease_held *held = malloc((m->n_held_read + m->n_held_write + 1) * sizeof(*held));
    size_t count = 0;

    lease_actions_init(actions);
    *lost_count = 0;
    if (held == NULL) {
        return MORSEL_NOMEM;
    }
    event.client = client;
    event.lease_epoch = m->lease_epoch;
    event.number = m->number;
    event.caches = m->cache;
    hold(held, &count, m->held_read, m->n_held_read, LEASE_R);
    hold(held, &count, m->held_write, m->n_held_write, LEASE_W);
    event.held = held;
    event.held_count = count;
    lease_step(meta->leases, &event, actions);
    for (size_t i = 0; i < actions->count; i++) {
        if (actions->items[i].type == LEASE_LOST && *lost_count < count) {
            lost[(*lost_count)++] = actions->items[i].inode;
        }
    }
    free(held);
    /* What could not be told for want of memory is lost at its next try, too. */
    return actions->failed ? MORSEL_NOMEM : MORSEL_OK;
}

/* What waits for the client is not to be done behind its back: it will ask again. */
static void drop_waiting(struct meta *meta, client_id client, int status)
{
    struct list mine;
    struct list *node;

    list_init(&mine);
    LIST_FOREACH_SAFE(at, &meta->leased)
    {
        const struct leased_request *w = LIST_ENTRY(at, struct leased_request, node);

        if (client == 0 || client_of(w->request) == client) {
            list_remove(at);
            list_push_back(&mine, at);
        }
    }
    while ((node = list_pop_front(&mine)) != NULL) {
        struct leased_request *w = LIST_ENTRY(node, struct leased_request, node);

        lease_ticket_drop(meta->leases, w->ticket);
        rpc_reply_failure(w->request, status, NULL);
        free(w);
    }
}

struct rpc_request *leases_take(struct meta *meta, client_id client,
                                bool (*matches)(const struct rpc_request *request, uint64_t number),
                                uint64_t number)
{
    LIST_FOREACH_SAFE(at, &meta->leased)
    {
        struct leased_request *w = LIST_ENTRY(at, struct leased_request, node);
        struct rpc_request *request = w->request;

        if (client_of(request) == client && matches(request, number)) {
            lease_ticket_drop(meta->leases, w->ticket);
            list_remove(at);
            free(w);
            return request;
        }
    }
    return NULL;
}

void leases_gone(struct meta *meta, client_id client)
{
    struct lease_event event = { .now_ms = meta_now_ms(meta), .type = LEASE_GONE };

    event.client = client;
    drop_waiting(meta, client, MORSEL_NO_SESSION);
    lease_event(meta, &event);
}

void leases_leave(struct meta *meta, client_id client)
{
    struct lease_event event = { .now_ms = meta_now_ms(meta), .type = LEASE_LEAVE };

    event.client = client;
    lease_event(meta, &event);
}

bool leases_heard(struct meta *meta, const struct rpc_request *request)
{
    return lease_heard(meta->leases, request->node_id, meta_now_ms(meta));
}

void leases_forget(struct meta *meta, inode_id inode)
{
    struct lease_actions actions;

    lease_actions_init(&actions);
    lease_forget_inode(meta->leases, inode, &actions);
    leases_perform(meta, &actions);
}

bool leases_recall_all(struct meta *meta, inode_id inode)
{
    struct lease_touch touched = { inode, ACCESS_CHANGE };
    struct lease_actions actions;
    uint64_t ticket;
    enum lease_verdict verdict;

    if (inode == INODE_NONE) {
        return true;
    }
    lease_actions_init(&actions);
    verdict = lease_acquire(meta->leases, meta_now_ms(meta), 0, &touched, 1, &ticket, &actions);
    if (verdict == LEASE_WAIT) {
        lease_ticket_drop(meta->leases, ticket);
    }
    leases_perform(meta, &actions);
    return verdict == LEASE_GO; /* And not, for instance, where there is no room to ask for it. */
}

void leases_tick(struct meta *meta, uint64_t now_ms)
{
    struct lease_event event = { .now_ms = now_ms, .type = LEASE_TICK };

    lease_event(meta, &event);
}

void leases_refuse_waiting(struct meta *meta, int status)
{
    drop_waiting(meta, 0, status);
}

/* ---- RETURN ---- */

/* False: there was no room for it. */
static bool note_open(struct meta *meta, client_id client, const inode_id *inodes, size_t count,
                      bool write)
{
    struct session_event event = { .now_ms = meta_now_ms(meta), .type = SESSION_OPENED };

    if (count == 0) {
        return true;
    }
    event.client = client;
    if (write) {
        event.write_inodes = inodes;
        event.write_inodes_count = count;
    } else {
        event.inodes = inodes;
        event.inodes_count = count;
    }
    return meta_session_step(meta, &event) == 0;
}

void handle_return(struct meta *meta, struct rpc_request *request)
{
    client_id client = request->node_id;
    Morsel__ReturnRequest *m = rpc_request_unpack(request, &morsel__return_request__descriptor);
    bool good;

    if (m == NULL) {
        return;
    }
    good = note_open(meta, client, m->opened, m->n_opened, false);
    for (size_t i = 0; i < m->n_returns; i++) {
        const Morsel__Return *r = m->returns[i];
        struct lease_event event = { .now_ms = meta_now_ms(meta), .type = LEASE_RETURN };

        if (r->open != 0) {
            good &= note_open(meta, client, &r->inode, 1, r->open == 2);
        }
        event.client = client;
        event.recall = r->recall;
        event.inode = r->inode;
        event.keeps = r->keeps > LEASE_R ? LEASE_W : (enum lease_mode)r->keeps;
        lease_event(meta, &event);
    }
    for (size_t i = 0; i < m->n_busy; i++) {
        struct lease_event event = { .now_ms = meta_now_ms(meta), .type = LEASE_BUSY };

        event.client = client;
        event.recall = m->busy[i]->recall;
        event.inode = m->busy[i]->inode;
        event.landed = m->busy[i]->landed;
        lease_event(meta, &event);
    }
    morsel__return_request__free_unpacked(m, NULL);
    if (good) {
        rpc_reply(request, NULL, NULL);
    } else {
        rpc_request_lost(request); /* With a new connection it says again what it has open. */
    }
}

/* ---- Beginning and end ---- */

int leases_open(struct meta *meta, struct errmsg *err)
{
    struct lease_options options = { .now_ms = meta_now_ms(meta),
                                     .lease_period_ms = (uint32_t)meta->settings->lease_ms };
    struct lease_epoch_kept *expected = calloc(LEASE_CLIENTS_MAX, sizeof(*expected));
    uint32_t count;
    int rv;

    if (expected == NULL) {
        return MORSEL_NOMEM;
    }
    rv = ns_holders(meta->ns, expected, LEASE_CLIENTS_MAX, &count, err);
    if (rv == 0) {
        random_bytes(&options.last_lease_epoch, sizeof(options.last_lease_epoch));
        options.expected = expected;
        options.expected_count = count;
        meta->leases = lease_table_new(&options);
        rv = meta->leases == NULL ? MORSEL_NOMEM : 0;
    }
    free(expected);
    return rv;
}

void leases_free(struct meta *meta)
{
    lease_table_free(meta->leases);
}
