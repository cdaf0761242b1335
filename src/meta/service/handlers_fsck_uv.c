/* Requests of `morsel fsck`. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/fsck.h"
#include "meta/namespace/groups_record.h"
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

/* Does the file have that object on that server? */
static bool has_object(const struct meta *meta, const struct inode *inode, server_id server,
                       struct object_id object)
{
    const struct file_layout *layout = &inode->layout;
    uint32_t column = placing_column(object.column);
    const struct group_made *group;

    if (column >= layout->stripe.width) {
        return false;
    }
    if (layout->replicas == 1) {
        return object.column == column && layout->servers[column] == server;
    }
    group = groups_record_find(ns_groups(meta->ns), layout->groups[column]);
    return group != NULL && placing_group(object.column) == group->number &&
           group_concerns(group, server);
}

/* Is it to be deleted? Of a group by whoever orders: a server may have been given it after its file was deleted, and
 * has no record of its own then. */
static int on_way_out(const struct meta *meta, server_id server, struct object_id object,
                      bool *garbage, struct errmsg *err)
{
    const struct group_made *group =
        groups_record_find(ns_groups(meta->ns), placing_group(object.column));
    int rv = ns_is_garbage(meta->ns, server, object, garbage, err);

    if (group == NULL || !group_concerns(group, server)) {
        return rv; /* Nobody deletes it but this server. */
    }
    for (uint32_t i = 0; rv == 0 && !*garbage && i < group->now.count; i++) {
        if (group->now.servers[i] != 0 && group->now.servers[i] != server) {
            rv = ns_is_garbage(meta->ns, group->now.servers[i], object, garbage, err);
        }
    }
    return rv;
}

/* Does the object belong to no file, and is it not on the way out either? */
static int is_stray(struct meta *meta, server_id server, struct object_id object, bool *stray,
                    struct errmsg *err)
{
    struct inode inode;
    bool garbage;
    int rv = ns_object_file(meta->ns, object.inode, &inode, err);

    *stray = false;
    if (rv == MORSEL_CORRUPT || rv == MORSEL_VERSION) {
        return 0; /* Not knowing is no reason to delete. */
    }
    if (rv != 0 && rv != MORSEL_STALE) {
        return rv;
    }
    if (rv == 0 && has_object(meta, &inode, server, object)) {
        return 0;
    }
    rv = on_way_out(meta, server, object, &garbage, err);
    *stray = rv == 0 && !garbage;
    return rv;
}

/* On which server an object is to be collected. */
struct stray
{
    server_id server;
    struct object_id object;
};

/* Who does not order changes of its group deletes nothing alone, so it is queued for all that hold it. Who has no place
 * in the group deletes it alone; the others may need what they have of it, for their copies are of a file that is there. */
static size_t add_stray(const struct meta *meta, server_id found_on, struct object_id object,
                        struct stray *strays)
{
    const struct group_made *group =
        groups_record_find(ns_groups(meta->ns), placing_group(object.column));
    size_t count = 0;

    strays[count++] = (struct stray){ found_on, object };
    group = group != NULL && group_concerns(group, found_on) ? group : NULL;
    for (uint32_t i = 0; group != NULL && i < group->now.count; i++) {
        if (group->now.servers[i] != 0 && group->now.servers[i] != found_on) {
            strays[count++] = (struct stray){ group->now.servers[i], object };
        }
    }
    return count;
}

static int by_server(const void *a, const void *b)
{
    const struct stray *x = a, *y = b;

    return (x->server > y->server) - (x->server < y->server);
}

/* Those of one server. */
static int queue_for(struct meta *meta, const struct stray *strays, size_t count,
                     struct errmsg *err)
{
    struct meta_op op = { .kind = OP_GARBAGE, .time_ns = meta_clock_ns() };
    struct buf objects;
    int rv;

    buf_init(&objects);
    for (size_t i = 0; i < count; i++) {
        op_objects_put(&objects, strays[i].object);
    }
    op_objects_sort(&objects);
    op.objects.server = strays[0].server;
    op.objects.objects = buf_slice(&objects);
    rv = objects.failed ? MORSEL_NOMEM : meta_execute(meta, &op, err);
    buf_free(&objects);
    return rv;
}

/* Queue the strays of the list for collection. Behind the first change the others are made in this very try: another one
 * would find these objects on their way out, and queue them for nobody else. They are few, and what they need was read
 * to see that these are strays. */
static int queue_strays(struct meta *meta, const Morsel__FsckObjects *m, struct errmsg *err)
{
    struct stray *strays = calloc(m->n_inode * (1 + REPLICAS_MAX), sizeof(*strays));
    struct kv_wanted *before = meta->kv->wanted;
    size_t count = 0;
    int rv = strays != NULL ? 0 : MORSEL_NOMEM;

    for (size_t i = 0; rv == 0 && i < m->n_inode; i++) {
        struct object_id object = { m->inode[i], m->column[i] };

        count += add_stray(meta, m->server, object, strays + count);
    }
    if (count > 0) {
        qsort(strays, count, sizeof(*strays), by_server);
    }
    for (size_t i = 0, same = 1; rv == 0 && i < count; i += same, same = 1) {
        while (i + same < count && strays[i + same].server == strays[i].server) {
            same++;
        }
        rv = queue_for(meta, strays + i, same, err);
        if (rv == 0) {
            (void)kv_be_patient(meta->kv);
        }
    }
    meta->kv->wanted = before;
    free(strays);
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
