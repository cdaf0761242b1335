/* Requests of `morsel fsck`. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/fsck.h"
#include "meta/service/handlers_uv.h"
#include "meta/service/identify_uv.h"

#include <stdlib.h>

/* The check that the cursor belongs to; an empty cursor begins a new one. */
static int fsck_of(struct meta *meta, struct slice cursor, struct errmsg *err)
{
    if (cursor.count == 0) {
        fsck_free(meta->fsck);
        meta->fsck = fsck_new(meta->ns);
        return meta->fsck == NULL ? MORSEL_NOMEM : 0;
    }
    if (meta->fsck == NULL || !fsck_cursor_matches(meta->fsck, cursor)) {
        errmsg_set(err, "this check was ended by another one or by a restart of the manager; "
                        "start it again");
        return MORSEL_STALE;
    }
    return 0;
}

static void answer_fsck(struct meta *meta, struct rpc_request *request, struct fsck_result *result)
{
    Morsel__FsckReply reply = MORSEL__FSCK_REPLY__INIT;
    char *texts[FSCK_FINDINGS_MAX];
    uint8_t cursor[FSCK_CURSOR_BYTES];

    for (uint32_t i = 0; i < result->count; i++) {
        texts[i] = result->findings[i].text.text;
    }
    reply.n_problems = result->count;
    reply.problems = texts;
    reply.checked = result->checked;
    reply.repaired = result->repaired;
    if (result->done) {
        fsck_free(meta->fsck);
        meta->fsck = NULL;
    } else {
        fsck_cursor(meta->fsck, cursor);
        reply.cursor = (ProtobufCBinaryData){ sizeof(cursor), cursor };
    }
    rpc_reply(request, &reply.base, NULL);
}

/* Whoever caches what was repaired hears of it behind the fact: what they had was wrong anyway. */
static void recall_mended(struct meta *meta, const struct fsck_result *result)
{
    for (uint32_t i = 0; i < result->count; i++) {
        const struct meta_op *op = &result->findings[i].repair;

        if (result->findings[i].mendable && op->kind == OP_REPAIR) {
            leases_recall_all(meta, op->repair.inode);
            leases_recall_all(meta, op->repair.parent);
        }
    }
}

/* Mending is for those who may do everything. */
static int may_repair(const struct meta *meta, const struct rpc_request *request, bool repair,
                      struct errmsg *err)
{
    if (!repair || identify_trusts(meta, request)) {
        return 0;
    }
    errmsg_set(err, "this machine is not trusted with repairs; run it on one that the manager's "
                    "setting \"trusted\" names");
    return MORSEL_PERM;
}

static int check_step(struct request *r, struct fsck_result *result)
{
    const Morsel__FsckRequest *m = r->message;
    struct meta *meta = r->meta;
    int rv;

    if ((rv = may_repair(meta, r->rpc, m->repair, &r->err)) != 0 ||
        (rv = fsck_of(meta, bytes_slice(m->cursor), &r->err)) != 0 ||
        (rv = fsck_step(meta->fsck, FSCK_STEP_RECORDS, m->repair, meta_clock_ns(), result,
                        &r->err)) != 0) {
        return rv;
    }
    if (result->repaired > 0) {
        sync_changed(&meta->sync);
        recall_mended(meta, result);
    }
    answer_fsck(meta, r->rpc, result);
    return 0;
}

int serve_fsck(struct request *r)
{
    struct fsck_result *result = malloc(sizeof(*result));
    int rv = result != NULL ? check_step(r, result) : MORSEL_NOMEM;

    free(result);
    return rv;
}

/* Does the object belong to no file, and is it not on the way out either? */
static int is_stray(struct meta *meta, server_id server, struct object_id object, bool *stray,
                    struct errmsg *err)
{
    struct inode inode;
    bool garbage;
    int rv = ns_inode(meta->ns, object.inode, &inode, err);

    *stray = false;
    if (rv == MORSEL_CORRUPT || rv == MORSEL_VERSION) {
        return 0; /* Not knowing is no reason to delete. */
    }
    if (rv != 0 && rv != MORSEL_STALE) {
        return rv;
    }
    if (rv == 0 && object.column < inode.layout.stripe.width &&
        inode.layout.servers[object.column] == server) {
        return 0;
    }
    rv = ns_is_garbage(meta->ns, server, object, &garbage, err);
    *stray = rv == 0 && !garbage;
    return rv;
}

/* Queue the strays of the list for collection. */
static int queue_strays(struct meta *meta, const Morsel__FsckObjects *m, struct errmsg *err)
{
    struct meta_op op = { .kind = OP_GARBAGE, .time_ns = meta_clock_ns() };
    struct buf objects;
    int rv;

    buf_init(&objects);
    for (size_t i = 0; i < m->n_inode; i++) {
        op_objects_put(&objects, (struct object_id){ m->inode[i], m->column[i] });
    }
    op_objects_sort(&objects);
    op.objects.server = m->server;
    op.objects.objects = buf_slice(&objects);
    rv = objects.failed ? MORSEL_NOMEM : meta_execute(meta, &op, err);
    buf_free(&objects);
    return rv;
}

int serve_fsck_objects(struct request *r)
{
    Morsel__FsckObjects *m = r->message;
    size_t count = 0;
    int rv;

    if (m->n_inode != m->n_column || m->n_inode > OP_OBJECTS_MAX) {
        return MORSEL_MALFORMED;
    }
    rv = may_repair(r->meta, r->rpc, m->repair, &r->err);
    for (size_t i = 0; i < m->n_inode && rv == 0; i++) {
        struct object_id object = { m->inode[i], m->column[i] };
        bool stray;

        rv = is_stray(r->meta, m->server, object, &stray, &r->err);
        if (rv == MORSEL_AGAIN && !kv_wants_enough(r->meta->kv)) {
            rv = 0; /* All that must be read is read together. */
        } else if (rv == 0 && stray) {
            m->inode[count] = object.inode;
            m->column[count++] = object.column;
        }
    }
    if (kv_wants(r->meta->kv)) {
        return MORSEL_AGAIN;
    }
    m->n_inode = m->n_column = count;
    if (rv == 0 && m->repair && count > 0) {
        rv = queue_strays(r->meta, m, &r->err);
    }
    if (rv == 0) {
        rpc_reply(r->rpc, &m->base, NULL);
    }
    return rv;
}
