/* What is on disk, here and with the storage servers: FSYNC, SIZE_REPORT, SYNCED. */
#include "common/base/status.h"
#include "meta/coherence/pauses_uv.h"
#include "meta/datasets/sets_uv.h"
#include "meta/service/handlers_uv.h"

struct unsynced_list
{
    size_t count;
    Morsel__Unsynced columns[OP_UNSYNCED_MAX], *pointers[OP_UNSYNCED_MAX];
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
    for (size_t i = 0; i < count && i < OP_UNSYNCED_MAX; i++) {
        op_unsynced_put(out, (struct unsynced_column){ columns[i]->column, columns[i]->verifier });
    }
    return count > OP_UNSYNCED_MAX ? MORSEL_MALFORMED : out->failed ? MORSEL_NOMEM : MORSEL_OK;
}

static void answer_fsync(void *data, struct rpc_request *request, uint64_t id)
{
    struct meta *meta = data;
    Morsel__FsyncReply reply = MORSEL__FSYNC_REPLY__INIT;
    struct durable_reply durable;
    struct unsynced_list list;
    struct errmsg err = { "" };
    struct inode inode;
    int rv = 0;

    list.count = 0;
    if (id != INODE_NONE && (rv = ns_inode(meta->ns, id, &inode, &err)) == 0) {
        rv = unsynced_fill(meta, &inode, &list, &err);
        reply.place = reply_place(&inode);
    }
    if (rv != 0) {
        meta_not_answered(meta, request, rv, &err, answer_fsync, id);
        return;
    }
    reply.n_unsynced = list.count;
    reply.unsynced = list.pointers;
    reply.durable = durable_fill(meta, &durable);
    rpc_reply(request, &reply.base, NULL);
}

int serve_fsync(struct request *r)
{
    const Morsel__FsyncRequest *m = r->message;

    meta_reply_durable(r->meta, r->rpc, answer_fsync, m->inode);
    return 0;
}

static void answer_wrote(void *data, struct rpc_request *request, uint64_t inode)
{
    struct meta *meta = data;
    struct durable_reply durable;
    struct node_reply reply;
    struct unsynced_list list;
    struct errmsg err = { "" };
    struct inode now;
    int rv = ns_inode(meta->ns, inode, &now, &err);

    if (rv != 0 || (rv = unsynced_fill(meta, &now, &list, &err)) != 0) {
        meta_not_answered(meta, request, rv, &err, answer_wrote, inode);
        return;
    }
    node_fill(meta, &reply, &now, true, leases_held(meta, request, inode));
    reply.node.n_unsynced = list.count;
    reply.node.unsynced = list.pointers;
    reply.node.durable = durable_fill(meta, &durable);
    rpc_reply(request, &reply.node.base, NULL);
}

/* Who reports a file that lies elsewhere by now names verifiers of other servers than those that have it, or
 * of other objects: compared with theirs they would tell of a loss that was none. It hears so with the answer. */
static int take_unsynced(struct request *r, const Morsel__SizeReportRequest *m)
{
    struct inode inode;
    int rv;

    if (m->n_unsynced > 0 && m->place != PLACE_UNKNOWN) {
        rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err);
        if (rv != 0 || reply_place(&inode) != m->place) {
            return rv;
        }
    }
    return unsynced_take(m->unsynced, m->n_unsynced, &r->bytes);
}

int record_wrote(struct request *r)
{
    const Morsel__SizeReportRequest *m = r->message;
    struct meta_op *op = &r->op;
    int rv = m->truncates && m->truncate_size == 0
                 ? 0
                 : sets_may_change_file(r->meta, m->inode, op->client, &r->err);

    if (rv != 0) {
        return rv;
    }
    op->size_report.inode = m->inode;
    op->size_report.size = m->size;
    op->size_report.reach = m->reach;
    op->size_report.mtime_ns = (int64_t)m->mtime_ns;
    op->size_report.sparse = m->sparse;
    op->size_report.truncates = m->truncates;
    op->size_report.truncate_size = m->truncate_size;
    op->size_report.tail_clean = m->tail_clean;
    op->size_report.strips_ids = m->strips_ids;
    rv = take_unsynced(r, m);
    op->size_report.unsynced = buf_slice(&r->bytes);
    return rv;
}

int reply_wrote_durable(struct request *r)
{
    meta_reply_durable(r->meta, r->rpc, answer_wrote, r->outcome.target);
    return 0;
}

int reply_size_report(struct request *r)
{
    const Morsel__SizeReportRequest *m = r->message;

    return m->durable ? reply_wrote_durable(r) : reply_node(r);
}

/* Who is answered writes to the objects of now from then on: so nothing may bring back those of before. */
int reply_exchange(struct request *r)
{
    meta_reply_durable(r->meta, r->rpc, answer_wrote, r->outcome.target);
    pauses_over(r->meta, r->outcome.target);
    return 0;
}

int record_synced(struct request *r)
{
    const Morsel__SyncedRequest *m = r->message;
    struct meta_op *op = &r->op;
    int rv;

    op->synced.inode = m->inode;
    op->synced.data_version = m->data_version;
    rv = unsynced_take(m->synced, m->n_synced, &r->bytes);
    op->synced.columns = buf_slice(&r->bytes);
    return rv;
}
