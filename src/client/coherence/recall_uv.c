/* Giving leases back (recall_uv.h). */
#include "client/coherence/recall_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/opened_uv.h"
#include "client/data/file_uv.h"
#include "client/manager/behind_uv.h"
#include "client/manager/unread_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

/* What a lease that is on its way back needs here. */
struct recall_work
{
    struct lease_return back;
    struct client *client;
    uint64_t began_ns;
    struct kernel_known known; /* To the kernel, when it began. */
    struct file_flush flush;
    struct kernel_drop drop;
    uint64_t landed_before; /* file_landed_bytes(), when it began. */
};

static struct recall_work *work_of(struct lease_return *back)
{
    return CONTAINER_OF(back, struct recall_work, back);
}

static void feed(struct recall_work *work, struct lease_holder_event event)
{
    const struct file *file = file_find(work->client, work->back.inode);

    event.back = &work->back;
    event.may_land =
        (file != NULL && file_is_lease_pinned(file)) || behind_has(work->client, work->back.inode);
    lease_feed(work->client, &event);
}

/* ---- Actions ---- */

/* From here on nothing is answered from what goes, and writes go through. */
static void forget(struct client *client, const struct lease_return *back)
{
    meta_cache_set_recalling(client->cache, back->inode, true);
    meta_cache_drop(client->cache, back->inode, back->keeps);
    behind_push(client);
}

/* Whoever wrote hears of what was lost. What the manager has not heard, for want of memory here or
 * there, it must hear before anybody else looks. */
static void on_recall_flushed(struct file_flush *flush, int status)
{
    struct recall_work *work = CONTAINER_OF(flush, struct recall_work, flush);
    bool no_memory = status == MORSEL_NOMEM && !client_is_ending(work->client);

    if (status == 0) {
        file_note_lease_flushed(flush->file);
    }
    feed(work, (struct lease_holder_event){ .type = HOLDER_FLUSHED, .no_memory = no_memory });
}

static void recall_flush(struct recall_work *work)
{
    struct file *file = file_find(work->client, work->back.inode);

    if (work->back.granted == LEASE_W && file != NULL && file_is_dirty(file) &&
        file_flush_start(&work->flush, file, NULL, false, on_recall_flushed) == 0) {
        return;
    }
    feed(work, (struct lease_holder_event){ .type = HOLDER_FLUSHED });
}

static void on_kernel_dropped(struct kernel_drop *drop)
{
    struct recall_work *work = CONTAINER_OF(drop, struct recall_work, drop);
    struct client *client = work->client;
    inode_id inode = drop->inode;

    feed(work, (struct lease_holder_event){ .type = HOLDER_KERNEL_DROPPED });
    kernel_drop_ended(client, inode); /* The work may have come to its end. */
}

static void recall_drop(struct recall_work *work)
{
    struct client *client = work->client;
    inode_id inode = work->back.inode;
    struct file *file = file_find(client, inode);
    struct kernel_stale stale =
        kernel_known_stale(&work->known, file != NULL, work->back.keeps, rpc_boot_ns());

    if (file != NULL && work->back.keeps == LEASE_NONE) {
        file_forget(file, 0, UINT64_MAX);
    }
    work->drop.inode = inode;
    work->drop.attr = stale.attr;
    work->drop.pages = stale.pages;
    work->drop.names = stale.names;
    work->drop.unknown_until_ns = stale.unknown_until_ns;
    work->drop.done = on_kernel_dropped;
    kernel_drop_start(client, &work->drop);
}

static void send_return(struct client *client, const struct lease_return *back)
{
    const struct file *file = file_find(client, back->inode);
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    Morsel__Return returned = MORSEL__RETURN__INIT, *item = &returned;

    returned.recall = back->recall;
    returned.inode = back->inode;
    returned.keeps = back->keeps;
    returned.open = file == NULL ? 0 : file_has_writer(file) ? 2 : 1;
    opened_report(client);
    request.n_returns = 1;
    request.returns = &item;
    /* Lost with the connection? Then the next SESSION says what we hold. */
    rpc_send_oneway(client->manager, MSG_RETURN, &request.base);
}

static void recall_end(struct recall_work *work)
{
    struct client *client = work->client;

    meta_cache_set_recalling(client->cache, work->back.inode, false);
    if (!client_is_ending(client)) {
        send_return(client, &work->back);
    }
    client->counters.recalls++;
    client->counters.recall_ns += rpc_boot_ns() - work->began_ns;
    free(work);
}

static void send_busy(const struct recall_work *work)
{
    struct client *client = work->client;
    const struct file *file = file_find(client, work->back.inode);
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    Morsel__Busy busy = MORSEL__BUSY__INIT, *item = &busy;

    busy.recall = work->back.recall;
    busy.inode = work->back.inode;
    if (file != NULL && file_landed_bytes(file) > work->landed_before) {
        busy.landed = file_landed_bytes(file) - work->landed_before;
    }
    request.n_busy = 1;
    request.busy = &item;
    rpc_send_oneway(client->manager, MSG_RETURN, &request.base);
}

void recall_carry_out(struct client *client, const struct lease_holder_action *action)
{
    struct recall_work *work = work_of(action->back);

    switch (action->type) {
    case HOLDER_FORGET:
        forget(client, action->back);
        break;
    case HOLDER_FLUSH:
        recall_flush(work);
        break;
    case HOLDER_DROP:
        recall_drop(work);
        break;
    case HOLDER_RETURN:
        recall_end(work);
        break;
    case HOLDER_BUSY:
        send_busy(work);
        break;
    default:
        CHECK(false);
    }
}

/* ---- Events ---- */

static struct recall_work *work_new(struct client *client)
{
    struct recall_work *work = calloc(1, sizeof(*work));

    if (work != NULL) {
        work->client = client;
        work->began_ns = rpc_boot_ns();
    }
    return work;
}

static void recall_begin(struct client *client, const Morsel__Recall *recall)
{
    const struct file *file = file_find(client, recall->inode);
    struct lease_holder_event event = { .type = HOLDER_RECALL,
                                        .inode = recall->inode,
                                        .recall = recall->recall,
                                        .keeps = recall->keep };

    if (!lease_is_returning(client, recall->inode)) {
        struct recall_work *work = work_new(client);
        const struct kernel_known *known = meta_cache_kernel(client->cache, recall->inode);

        if (work != NULL) {
            work->landed_before = file == NULL ? 0 : file_landed_bytes(file);
            if (known != NULL) {
                work->known = *known;
            }
            event.room = &work->back;
        }
        event.granted = meta_cache_mode(client->cache, recall->inode);
        event.written = file != NULL && file_has_writer(file);
    }
    lease_feed(client, &event);
}

void recalls_on_notice(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__RecallNotice *notice;
    int rv = rpc_unpack_in(&room, &morsel__recall_notice__descriptor, body, body_count,
                           (void **)&notice);

    if (rv != 0) {
        manager_note_unread(client, "that recalls leases", rv);
        rpc_peer_break(client->manager);
        return;
    }
    for (size_t i = 0; i < notice->n_recalls; i++) {
        recall_begin(client, notice->recalls[i]);
    }
    rpc_room_free(&room, notice);
}

void recalls_give_back_evicted(struct client *client)
{
    struct meta_cache_evicted evicted;

    while (meta_cache_has_evicted(client->cache)) {
        struct lease_holder_event event = { .type = HOLDER_EVICTED };
        struct recall_work *work = work_new(client);

        if (work == NULL) {
            return; /* Another time. */
        }
        (void)meta_cache_pop_evicted(client->cache, &evicted);
        work->known = evicted.kernel;
        event.inode = evicted.inode;
        event.room = &work->back;
        lease_feed(client, &event);
    }
}

static void look(void *data, struct lease_return *back)
{
    (void)data;
    feed(work_of(back), (struct lease_holder_event){ .type = HOLDER_LOOKED });
}

void recalls_look(struct client *client)
{
    lease_each_return(client, look, NULL);
}

static void tell_busy(void *data, struct lease_return *back)
{
    (void)data;
    feed(work_of(back), (struct lease_holder_event){ .type = HOLDER_BACK_TICK });
}

void recalls_tick(struct client *client)
{
    recalls_look(client);
    lease_each_return(client, tell_busy, NULL);
}

static void abandon(void *data, struct lease_return *back)
{
    lease_abandon(data, back);
    free(work_of(back));
}

void recalls_close(struct client *client)
{
    lease_each_return(client, abandon, client);
}
