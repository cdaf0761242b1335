/* Giving leases back (recall_uv.h). */
#include "client/coherence/recall_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/manager/behind_uv.h"
#include "client/manager/session_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

enum {
    KERNEL_LATE_MS = 1000 /* Whoever asked runs again within that time, and takes in our answer. */
};

static void send_return(struct client *client, Morsel__Return *item)
{
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;

    lease_tell_opened(client);
    request.n_returns = 1;
    request.returns = &item;
    /* Lost with the connection? Then the next SESSION says what we hold. */
    rpc_send_oneway(client->manager, MSG_RETURN, &request.base);
}

static void recall_drop(struct recall_work *work);

static void on_kernel_dropped(struct kernel_drop *drop)
{
    struct recall_work *work = CONTAINER_OF(drop, struct recall_work, drop);
    struct client *client = work->client;
    inode_id inode = work->inode;
    const struct file *file = file_find(client, inode);
    Morsel__Return item = MORSEL__RETURN__INIT;

    work->dropping = false;
    if (work->lowered) {
        work->lowered = false;
        recall_drop(work); /* It may come to its end in there. */
        kernel_drop_ended(client, inode);
        return;
    }
    list_remove(&work->node);
    meta_cache_set_recalling(client->cache, work->inode, false);
    if (!client->stopping) {
        item.recall = work->recall;
        item.inode = work->inode;
        item.keeps = work->keeps;
        item.open = file == NULL ? 0 : file_has_writer(file) ? 2 : 1;
        send_return(client, &item);
    }
    client->counters.recalls++;
    client->counters.recall_ns += rpc_boot_ns() - work->began_ns;
    kernel_drop_ended(client, work->inode);
    free(work);
}

static void recall_drop(struct recall_work *work)
{
    struct client *client = work->client;
    uint64_t now_ns = rpc_boot_ns();
    struct file *file = file_find(client, work->inode);

    if (file != NULL && work->keeps == LEASE_NONE) {
        file_forget(file, 0, UINT64_MAX);
    }
    work->drop.inode = work->inode;
    work->drop.attr = file != NULL || work->kernel_attr_until_ns > now_ns;
    work->drop.pages = file != NULL && work->keeps == LEASE_NONE;
    work->drop.names = work->kernel_names_until_ns > now_ns;
    if (work->kernel_entry_ns > 0) {
        work->drop.unknown_until_ns = work->kernel_entry_ns + (uint64_t)KERNEL_LATE_MS * 1000000;
    }
    work->drop.done = on_kernel_dropped;
    work->dropping = true;
    kernel_drop_start(client, &work->drop);
}

/* Everything has come to its end, or may still land; then it cannot be given back yet. */
static void recall_settle(struct recall_work *work)
{
    const struct file *file = file_find(work->client, work->inode);

    work->unsettled = work->unflushed ||
                      (work->had == LEASE_W && rpc_boot_ns() < work->client->unsure_until_ns) ||
                      (file != NULL && file->lease_pins > 0) ||
                      behind_has(work->client, work->inode);
    if (!work->unsettled) {
        recall_drop(work);
    }
}

static void recall_flush(struct recall_work *work);

void recalls_settle(struct client *client)
{
    LIST_FOREACH_SAFE(node, &client->recalls)
    {
        struct recall_work *work = LIST_ENTRY(node, struct recall_work, node);

        if (work->unsettled && work->unflushed) {
            recall_flush(work);
        } else if (work->unsettled) {
            recall_settle(work);
        }
    }
}

void lease_unpinned(struct client *client)
{
    recalls_settle(client);
}

/* Whoever wrote hears of what was lost. What the manager has not heard, for want of memory here or
 * there, it must hear before anybody else looks. */
static void on_recall_flushed(struct file_flush *flush, int status)
{
    struct recall_work *work = CONTAINER_OF(flush, struct recall_work, flush);

    work->unflushed = status == MORSEL_NOMEM && !work->client->stopping;
    recall_settle(work);
}

static void recall_flush(struct recall_work *work)
{
    struct file *file = file_find(work->client, work->inode);

    work->unflushed = work->unsettled = false;
    if (work->had == LEASE_W && file != NULL && file_is_ahead(file) &&
        file_flush_start(&work->flush, file, NULL, false, on_recall_flushed) == 0) {
        return;
    }
    recall_settle(work);
}

struct recall_work *recall_find(const struct client *client, inode_id inode)
{
    LIST_FOREACH(node, &client->recalls)
    {
        struct recall_work *work = LIST_ENTRY(node, struct recall_work, node);

        if (work->inode == inode) {
            return work;
        }
    }
    return NULL;
}

static void recall_start(struct recall_work *work)
{
    struct client *client = work->client;

    /* From here on nothing is answered from what goes, and writes go through. */
    meta_cache_set_recalling(client->cache, work->inode, true);
    meta_cache_drop(client->cache, work->inode, work->keeps);
    list_push_back(&client->recalls, &work->node);
    behind_push(client);
    recall_flush(work);
}

static void recall_begin(struct client *client, const Morsel__Recall *recall)
{
    struct recall_work *work = recall_find(client, recall->inode);
    const struct file *file = file_find(client, recall->inode);

    if (work != NULL) { /* Asked again: the newest number is the one that counts. */
        work->recall = recall->recall;
        if (work->keeps > recall->keep) {
            work->keeps = LEASE_NONE;
            work->lowered = work->dropping; /* Else the drop is still to come. */
            meta_cache_drop(client->cache, recall->inode, LEASE_NONE);
        }
        return;
    }
    if ((work = calloc(1, sizeof(*work))) == NULL) {
        rpc_peer_break(client->manager); /* It recalls again what we then say that we hold. */
        return;
    }
    work->client = client;
    work->recall = recall->recall;
    work->began_ns = rpc_boot_ns();
    work->inode = recall->inode;
    work->busy_due_ms = uv_now(client->loop) + lease_renew_ms(client->lease_ms) / 2;
    work->landed_before = file == NULL ? 0 : file->landed_bytes;
    work->had = meta_cache_mode(client->cache, recall->inode);
    work->keeps = recall->keep < work->had ? (enum lease_mode)recall->keep : work->had;
    if (work->keeps == LEASE_R && file != NULL && file_has_writer(file)) {
        work->keeps = LEASE_NONE; /* Its writes go through from now on; reads must ask too. */
    }
    work->kernel_attr_until_ns = meta_cache_kernel_attr_until_ns(client->cache, recall->inode);
    work->kernel_names_until_ns = meta_cache_kernel_names_until_ns(client->cache, recall->inode);
    work->kernel_entry_ns = meta_cache_kernel_entry_ns(client->cache, recall->inode);
    list_init(&work->node);
    recall_start(work);
}

void lease_on_recall(struct client *client, const uint8_t *body, size_t body_count)
{
    struct rpc_room room;
    Morsel__RecallNotice *notice;
    int rv = rpc_unpack_in(&room, &morsel__recall_notice__descriptor, body, body_count,
                           (void **)&notice);

    if (rv != 0) {
        session_note_unread(client, "that recalls leases", rv);
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
        struct recall_work *work = calloc(1, sizeof(*work));

        if (work == NULL) {
            return; /* Another time. */
        }
        (void)meta_cache_pop_evicted(client->cache, &evicted);
        work->client = client;
        work->inode = evicted.inode;
        work->began_ns = rpc_boot_ns();
        work->kernel_attr_until_ns = evicted.kernel_attr_until_ns;
        work->kernel_names_until_ns = evicted.kernel_names_until_ns;
        work->kernel_entry_ns = evicted.kernel_entry_ns;
        list_init(&work->node);
        recall_start(work);
    }
}

static void send_busy(struct recall_work *work)
{
    struct client *client = work->client;
    const struct file *file = file_find(client, work->inode);
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    Morsel__Busy busy = MORSEL__BUSY__INIT, *item = &busy;

    busy.recall = work->recall;
    busy.inode = work->inode;
    if (file != NULL && file->landed_bytes > work->landed_before) {
        busy.landed = file->landed_bytes - work->landed_before;
    }
    request.n_busy = 1;
    request.busy = &item;
    rpc_send_oneway(client->manager, MSG_RETURN, &request.base);
}

void recalls_tell_busy(struct client *client, uint64_t now_ms)
{
    LIST_FOREACH(node, &client->recalls)
    {
        struct recall_work *work = LIST_ENTRY(node, struct recall_work, node);

        if (work->recall != 0 && now_ms >= work->busy_due_ms) {
            work->busy_due_ms = now_ms + lease_renew_ms(client->lease_ms);
            send_busy(work);
        }
    }
}

void recalls_close(struct client *client)
{
    LIST_FOREACH_SAFE(node, &client->recalls)
    {
        struct recall_work *work = LIST_ENTRY(node, struct recall_work, node);

        CHECK(work->unsettled); /* The others were waited for. */
        list_remove(&work->node);
        free(work);
    }
}
