/* What is on disk, here and with the storage servers: FSYNC, WROTE, SYNCED. */
#include "common/base/status.h"
#include "meta/service/change_uv.h"

struct unsynced_list
{
    size_t count;
    Morsel__Unsynced columns[STRIPE_WIDTH_MAX], *pointers[STRIPE_WIDTH_MAX];
};

static int unsynced_fill(struct meta *meta, const struct inode *inode, struct unsynced_list *list,
                         struct errmsg *err)
{
    struct buf columns;
    int rv;

    buf_init(&columns);
    rv = ns_unsynced(meta->ns, inode, &columns, err);
    list->count = rv == 0 ? op_unsynced_count(buf_slice(&columns)) : 0;
    for (size_t i = 0; i < list->count; i++) {
        struct unsynced_column c = op_unsynced_at(buf_slice(&columns), i);

        morsel__unsynced__init(&list->columns[i]);
        list->columns[i].column = c.column;
        list->columns[i].verifier = c.verifier;
        list->pointers[i] = &list->columns[i];
    }
    buf_free(&columns);
    return rv;
}

/* MORSEL_MALFORMED: too many. */
static int unsynced_take(Morsel__Unsynced **columns, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count && i < STRIPE_WIDTH_MAX; i++) {
        op_unsynced_put(out, (struct unsynced_column){ columns[i]->column, columns[i]->verifier });
    }
    return count > STRIPE_WIDTH_MAX ? MORSEL_MALFORMED : out->failed ? MORSEL_NOMEM : MORSEL_OK;
}

static void reply_fsync(struct meta *meta, struct rpc_request *request)
{
    Morsel__FsyncReply reply = MORSEL__FSYNC_REPLY__INIT;
    inode_id id = (inode_id)(uintptr_t)request->data;
    struct durable_reply durable;
    struct unsynced_list list;
    struct errmsg err = { "" };
    struct inode inode;
    int rv = 0;

    list.count = 0;
    if (id != INODE_NONE && (rv = ns_inode(meta->ns, id, &inode, &err)) == 0) {
        rv = unsynced_fill(meta, &inode, &list, &err);
    }
    if (rv != 0 && rv != MORSEL_STALE) { /* A file that is gone has nothing to lose. */
        reply_error(meta, request, rv, &err);
        return;
    }
    reply.n_unsynced = list.count;
    reply.unsynced = list.pointers;
    reply.durable = durable_fill(meta, &durable);
    rpc_reply(request, &reply.base, NULL);
}

void handle_fsync(struct meta *meta, struct rpc_request *request)
{
    Morsel__FsyncRequest *m = rpc_request_unpack(request, &morsel__fsync_request__descriptor);

    if (m != NULL) {
        request->data = (void *)(uintptr_t)m->inode;
        message_free(m);
        meta_reply_durable(meta, request, reply_fsync);
    }
}

static void reply_wrote(struct meta *meta, struct rpc_request *request)
{
    inode_id inode = (inode_id)(uintptr_t)request->data;
    struct durable_reply durable;
    struct node_reply reply;
    struct unsynced_list list;
    struct errmsg err = { "" };
    struct inode now;
    int rv = ns_inode(meta->ns, inode, &now, &err);

    if (rv != 0 || (rv = unsynced_fill(meta, &now, &list, &err)) != 0) {
        reply_error(meta, request, rv, &err);
        return;
    }
    node_fill(meta, &reply, &now, true, leases_held(meta, request, inode));
    reply.node.n_unsynced = list.count;
    reply.node.unsynced = list.pointers;
    reply.node.durable = durable_fill(meta, &durable);
    rpc_reply(request, &reply.node.base, NULL);
}

static void answer_wrote_durable(struct meta *meta, struct rpc_request *request,
                                 const struct op_outcome *outcome)
{
    request->data = (void *)(uintptr_t)outcome->target;
    meta_reply_durable(meta, request, reply_wrote);
}

void handle_wrote(struct meta *meta, struct rpc_request *request)
{
    Morsel__WroteRequest *m = rpc_request_unpack(request, &morsel__wrote_request__descriptor);
    struct meta_op op = { .kind = OP_WROTE };
    change_answer answer;
    struct buf columns;
    int rv;

    if (m == NULL) {
        return;
    }
    buf_init(&columns);
    answer = m->durable ? answer_wrote_durable : answer_node;
    if (leases_touch_one(meta, request, m->inode, ACCESS_CHANGE) &&
        change_begin(meta, request, &op, m->op, NULL, answer)) {
        op.wrote.inode = m->inode;
        op.wrote.size = m->size;
        op.wrote.reach = m->reach;
        op.wrote.mtime_ns = (int64_t)m->mtime_ns;
        op.wrote.sparse = m->sparse;
        op.wrote.cuts = m->cuts;
        op.wrote.cut_size = m->cut_size;
        op.wrote.tail_clean = m->tail_clean;
        op.wrote.strips_ids = m->strips_ids;
        if ((rv = unsynced_take(m->unsynced, m->n_unsynced, &columns)) == 0) {
            op.wrote.unsynced = buf_slice(&columns);
            change_finish(meta, request, &op, answer);
        } else {
            rpc_reply_failure(request, rv, NULL);
        }
    }
    buf_free(&columns);
    message_free(m);
}

static void answer_synced(struct meta *meta, struct rpc_request *request,
                          const struct op_outcome *outcome)
{
    (void)meta;
    (void)outcome;
    rpc_reply(request, NULL, NULL);
}

void handle_synced(struct meta *meta, struct rpc_request *request)
{
    Morsel__SyncedRequest *m = rpc_request_unpack(request, &morsel__synced_request__descriptor);
    struct meta_op op = { .kind = OP_SYNCED };
    struct buf columns;
    int rv;

    if (m == NULL) {
        return;
    }
    buf_init(&columns);
    if (change_begin(meta, request, &op, m->op, NULL, answer_synced)) {
        op.synced.inode = m->inode;
        op.synced.data_version = m->data_version;
        if ((rv = unsynced_take(m->synced, m->n_synced, &columns)) == 0) {
            op.synced.columns = buf_slice(&columns);
            change_finish(meta, request, &op, answer_synced);
        } else {
            rpc_reply_failure(request, rv, NULL);
        }
    }
    buf_free(&columns);
    message_free(m);
}
