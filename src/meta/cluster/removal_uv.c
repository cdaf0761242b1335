/* Looks, forgets, writes it down, and tells those who must know. */
#include "meta/cluster/removal_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/cluster/groups_uv.h"
#include "meta/cluster/voters_uv.h"

#include <inttypes.h>
#include <stdlib.h>

enum { REMOVAL_STEP_RECORDS = 2000 };

/* RecoverReply.look is the inode to look on from; behind all of them this. */
#define LOOK_FORGETS UINT64_MAX

/* ---- What is said ---- */

static void answer(struct rpc_request *request, struct ns_lying *lying, uint64_t look, bool done)
{
    Morsel__RecoverReply reply = MORSEL__RECOVER_REPLY__INIT;

    reply.look = look;
    reply.done = done;
    reply.files = lying->files;
    reply.files_holding = lying->holding;
    reply.bytes_holding = lying->bytes;
    reply.n_holding = lying->holding < NS_LYING_SHOWN ? lying->holding : NS_LYING_SHOWN;
    reply.holding = lying->shown;
    rpc_reply(request, &reply.base, NULL);
}

static void ask_again(struct meta *meta, struct rpc_request *request, uint64_t look)
{
    meta->removal.look = look;
    answer(request, &meta->removal.lying, look, false);
}

/* ---- May it be done? ---- */

static int check(const struct meta *meta, const struct member *member, struct errmsg *err)
{
    const char *why = members_may_remove(&meta->members, member->record.id);
    int rv;

    if (why != NULL) {
        errmsg_set(err, "server %u %s", member->record.id, why);
        return MORSEL_INVAL;
    }
    rv = groups_may_remove(meta, member->record.id, err);
    return rv != 0 ? rv : voters_may_lose(meta, member->record.id, err);
}

/* ---- Look ---- */

static int begin_or_go_on(struct meta *meta, const struct member *member, uint64_t look,
                          struct errmsg *err)
{
    struct removal *removal = &meta->removal;

    if (look == 0) {
        *removal = (struct removal){ .server = member->record.id,
                                     .heard_ms = member->heard_ms,
                                     .look = INODE_ROOT,
                                     .lying = { .next = INODE_ROOT } };
        return 0;
    }
    if (removal->server != member->record.id || removal->heard_ms != member->heard_ms ||
        removal->look != look) {
        errmsg_set(err,
                   "the removal of server %u was not gone on with: the manager or the server "
                   "was started meanwhile, or somebody else removes one; begin again",
                   member->record.id);
        return MORSEL_STALE;
    }
    return 0;
}

static int look_on(struct meta *meta, struct rpc_request *request,
                   const Morsel__RecoverRequest *message, struct errmsg *err)
{
    struct ns_lying *lying = &meta->removal.lying;
    int rv = ns_lying_on(meta->ns, message->server, REMOVAL_STEP_RECORDS, lying, err);

    if (rv != 0) {
        return rv;
    }
    if (lying->next != INODE_NONE) {
        ask_again(meta, request, lying->next);
    } else if (lying->files > 0 && !message->lost) {
        ask_again(meta, request, 0);
        meta->removal.server = 0;
    } else {
        ask_again(meta, request, LOOK_FORGETS);
    }
    return 0;
}

/* ---- Forget ---- */

/* Nobody will delete these any more. */
static int forget(struct meta *meta, server_id server, uint32_t *count, struct errmsg *err)
{
    struct meta_op op = { .kind = OP_COLLECTED, .time_ns = meta_clock_ns() };
    struct object_id objects[NS_GARBAGE_PAGE_MAX];
    struct buf list;
    int rv = ns_garbage(meta->ns, server, objects, NS_GARBAGE_PAGE_MAX, count, err);

    if (rv != 0 || *count == 0) {
        return rv;
    }
    buf_init(&list);
    for (uint32_t i = 0; i < *count; i++) {
        op_objects_put(&list, objects[i]);
    }
    op_objects_sort(&list);
    op.objects.server = server;
    op.objects.objects = buf_slice(&list);
    rv = list.failed ? MORSEL_NOMEM : meta_execute(meta, &op, err);
    buf_free(&list);
    return rv;
}

/* ---- Remove ---- */

/* It is being made durable. */
struct removing
{
    struct sync_waiter waiter;
    struct meta *meta;
    server_id server;
    struct rpc_request *request;
    struct ns_lying lying;
};

static void removed(struct meta *meta, server_id server, int status)
{
    struct members_event event = { .now_ms = meta_now_ms(meta), .type = MEMBERS_REMOVED };

    event.removed.id = server;
    event.removed.status = status;
    meta_members_step(meta, &event);
}

static void on_durable(struct sync_waiter *waiter, int status)
{
    struct removing *r = CONTAINER_OF(waiter, struct removing, waiter);
    const struct member *member = members_find(&r->meta->members, r->server);

    if (status != 0) {
        rpc_reply_failure(r->request, status, "the manager's database could not be synced");
    } else {
        removed(r->meta, r->server, 0);
        log_warning(r->meta->log,
                    "storage server %u (%s, %s) was removed from the cluster; %" PRIu64
                    " files with one copy have lost what was there, and %" PRIu64
                    " more cannot grow there",
                    r->server, member->record.address, member->record.name, r->lying.holding,
                    r->lying.files - r->lying.holding);
        voters_removed(r->meta, r->server);
        groups_members_changed(r->meta);
        answer(r->request, &r->lying, 0, true);
    }
    free(r);
}

static int write_down(struct meta *meta, const struct member *member, struct errmsg *err)
{
    struct meta_op op = { .kind = OP_MEMBER, .time_ns = meta_clock_ns() };

    op.member = member->record;
    op.member.removed = true;
    return meta_execute(meta, &op, err);
}

static int remove_server(struct meta *meta, struct rpc_request *request,
                         const struct member *member, struct errmsg *err)
{
    struct members_event event = { .now_ms = meta_now_ms(meta), .type = MEMBERS_REMOVE };
    struct removing *r = calloc(1, sizeof(*r));
    int rv = r != NULL ? groups_remove(meta, member->record.id, err) : MORSEL_NOMEM;

    if (rv != 0) {
        free(r);
        return rv;
    }
    event.remove = member->record.id;
    meta_members_step(meta, &event);
    rv = write_down(meta, member, err);
    if (rv != 0) {
        removed(meta, member->record.id, rv);
        free(r);
        return rv;
    }
    r->meta = meta;
    r->server = member->record.id;
    r->request = request;
    r->lying = meta->removal.lying;
    meta->removal.server = 0;
    list_init(&r->waiter.node);
    sync_wait(&meta->sync, &r->waiter, on_durable);
    return 0;
}

/* The last page goes with the server. */
static int forget_and_remove(struct meta *meta, struct rpc_request *request,
                             const struct member *member, struct errmsg *err)
{
    uint32_t count;
    int rv = forget(meta, member->record.id, &count, err);

    if (rv != 0) {
        return rv;
    }
    if (count == NS_GARBAGE_PAGE_MAX) {
        ask_again(meta, request, LOOK_FORGETS);
        return 0;
    }
    return remove_server(meta, request, member, err);
}

int removal_serve(struct meta *meta, struct rpc_request *request,
                  const Morsel__RecoverRequest *message, struct errmsg *err)
{
    const struct member *member = members_find(&meta->members, message->server);
    struct ns_lying nothing = { .next = INODE_NONE };
    int rv;

    if (member == NULL) {
        errmsg_set(err, "there is no storage server %u: `morsel status` lists them",
                   message->server);
        return MORSEL_INVAL;
    }
    if (!member_stays(member)) {
        answer(request, &nothing, 0, true);
        return 0;
    }
    loads_begin(&meta->loads);
    if ((rv = check(meta, member, err)) != 0 ||
        (rv = begin_or_go_on(meta, member, message->look, err)) != 0) {
        return rv;
    }
    if (message->look == LOOK_FORGETS) {
        return forget_and_remove(meta, request, member, err);
    }
    return look_on(meta, request, message, err);
}
