/* Files that exchange their bytes (common/fs/exchange.h).
 *
 *   FLUSHING --> SETTLING --> ASKING --> LOOKING --> end
 *                   |                     |   ^
 *                   '--> end (BUSY)       '---' the manager did not say: again
 *
 *   FLUSHING   what was written to the file without a name goes to the disks
 *   SETTLING   until all has come to its end that was begun on either: for a moment, or never mind
 *   ASKING     the manager was asked for the exchange, and takes back the leases of others who read
 *   LOOKING    whatever it has answered: where do the files lie now?
 *
 * Both files are held all that time, and what the kernel asks about them is kept (kept_fuse.c) until the end.
 *
 * The answers of the manager are waited for however long that takes, for until then nobody knows where the files lie;
 * but only for io_timeout by those who have asked. Then the op is *given up*: its request and those that were kept end
 * with EIO, and what comes is refused by the files (file_give_up_place()) until the op ends as ever. */
#include "client/fuse/mount_fuse.h"

#include "common/base/status.h"
#include "common/fs/exchange.h"

#include <errno.h>
#include <string.h>

enum {
    SETTLE_MS = 300, /* Then somebody else is at it. */
    SETTLE_POLL_MS = 1,
    LOOK_AGAIN_MS = 100
};

struct exchange_op
{
    struct mount_op base;
    struct list node; /* In mount.exchanges. */
    struct mount_hold hold;
    enum { EXCHANGE_FLUSHING, EXCHANGE_SETTLING, EXCHANGE_ASKING, EXCHANGE_LOOKING } step;
    struct file *files[2]; /* Held: the file, and the one without a name. */
    unsigned looks;        /* LOOKING: for which of them. */
    bool look_again;
    bool late; /* io_timeout was over while it flushed. */
    bool due;  /* on_wake() has still to come to it. */
    struct exchange_state state;
    inode_id body; /* Of the file, before. */
    uint64_t until_ms;
    int status; /* ASKING: what the manager has answered. */
    struct mount_user user;
    struct file_flush flush;
};

/* ---- The end ---- */

static void wake(struct mount *m, uint64_t after_ms);

static void exchange_end(struct exchange_op *op, int status)
{
    struct mount *m = op->base.mount;

    list_remove(&op->node);
    mount_hold_end(&op->hold);
    file_let_go(op->files[0]);
    file_let_go(op->files[1]);
    lease_unpinned(m->client);
    if (status == 0 && !op->base.given_up) {
        (void)fuse_reply_ioctl(op->base.req, 0, NULL, 0);
        mount_op_end(&op->base);
    } else {
        mount_op_fail(&op->base, status);
    }
    mount_take_up_kept(m);
}

/* ---- Where they lie ---- */

static void look(struct exchange_op *op);

static void look_later(struct exchange_op *op)
{
    op->look_again = true;
    wake(op->base.mount, LOOK_AGAIN_MS);
}

static void on_looked(struct meta_call *call, int status, void *message)
{
    struct exchange_op *op = CONTAINER_OF((struct mount_op *)call->data, struct exchange_op, base);
    struct file *file = op->files[op->looks];
    const Morsel__Node *node = message;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0 && op->base.given_up && !file_is_quiet(file)) {
        file_lose_place(file); /* Something is just being refused: it is found behind that. */
    } else if (status == 0 && (status = file_move(file, node->layout)) == 0) {
        file_refresh(file, node->attr);
    }
    if (status != 0 && status != MORSEL_STALE && status != MORSEL_NOENT) {
        look_later(op);
        return;
    }
    if (++op->looks < ARRAY_COUNT(op->files)) {
        look(op);
        return;
    }
    status = op->status != 0 ? op->status : MORSEL_IO;
    exchange_end(op, file_body(op->files[0]) != op->body ? MORSEL_OK : status);
}

static void look(struct exchange_op *op)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;

    op->step = EXCHANGE_LOOKING;
    op->look_again = false;
    request.inode = op->files[op->looks]->inode;
    request.layout = true;
    op->base.call.bounded = false;
    op->base.call.patient = true;
    if (meta_call_start(&op->base.call, op->base.mount->client, MSG_GETATTR, &request.base,
                        &morsel__node__descriptor, on_looked) != 0) {
        look_later(op);
    }
}

/* ---- The exchange ---- */

static void on_exchanged(struct meta_call *call, int status, void *message)
{
    struct exchange_op *op = CONTAINER_OF((struct mount_op *)call->data, struct exchange_op, base);

    (void)message;
    op->status = status;
    op->looks = 0;
    look(op);
}

static void ask(struct exchange_op *op)
{
    Morsel__ExchangeRequest request = MORSEL__EXCHANGE_REQUEST__INIT;
    struct mount *m = op->base.mount;
    struct mount_who who;
    int rv;

    op->step = EXCHANGE_ASKING;
    request.inode = op->files[0]->inode;
    request.with = op->files[1]->inode;
    request.who = mount_who_of(m, &who, &op->user, op->files[0]->inode, 0);
    op->base.call.bounded = true;
    op->base.call.patient = true;
    rv = meta_change_start(&op->base.call, m->client, MSG_EXCHANGE, &request.base, &request.op,
                           &morsel__node__descriptor, on_exchanged);
    if (rv != 0) {
        exchange_end(op, rv);
    }
}

/* Does this mount know that nobody else changes the file, and since when? It may be open for reading alone, here and
 * elsewhere: who opens it for writing on another mount takes this one's lease. */
static int state_of(const struct file *file, struct exchange_state *state)
{
    struct client *client = file->client;

    *state = (struct exchange_state){ client_lease_since(client, file->inode), file_changes(file) };
    if (!client->options.cache) {
        return MORSEL_NOTSUP;
    }
    return file_is_shared(file) || file_is_unsure(file) || lease_is_returning(client, file->inode)
               ? MORSEL_BUSY
               : MORSEL_OK;
}

static int may_go(const struct exchange_op *op)
{
    struct exchange_state now, with;
    int rv = state_of(op->files[0], &now);

    if (rv == 0) {
        rv = state_of(op->files[1], &with);
    }
    if (rv == 0 && (now.lease != op->state.lease || now.changes != op->state.changes ||
                    file_is_dirty(op->files[0]))) {
        rv = MORSEL_AGAIN;
    }
    return rv;
}

static void settle(struct exchange_op *op)
{
    struct mount *m = op->base.mount;
    int rv = may_go(op);

    if (rv == 0 && op->late) {
        rv = MORSEL_TIMEDOUT;
    }
    if (rv == 0 && file_is_quiet(op->files[0]) && file_is_quiet(op->files[1])) {
        if (file_size(op->files[0]) != file_size(op->files[1])) {
            exchange_end(op, MORSEL_AGAIN);
            return;
        }
        op->body = file_body(op->files[0]);
        ask(op);
        return;
    }
    if (rv == 0 && uv_now(m->client->loop) >= op->until_ms) {
        rv = MORSEL_BUSY;
    }
    if (rv != 0) {
        exchange_end(op, rv);
    } else {
        wake(m, SETTLE_POLL_MS);
    }
}

static struct exchange_op *next_due(const struct mount *m)
{
    LIST_FOREACH(node, &m->exchanges)
    {
        struct exchange_op *op = LIST_ENTRY(node, struct exchange_op, node);

        if (op->due) {
            return op;
        }
    }
    return NULL;
}

/* All stay in the list meanwhile: the end of one takes up what was kept of it, and of no other. */
static void on_wake(uv_timer_t *timer)
{
    struct mount *m = timer->data;
    struct exchange_op *op;

    LIST_FOREACH(node, &m->exchanges)
    {
        op = LIST_ENTRY(node, struct exchange_op, node);
        op->due = op->step == EXCHANGE_SETTLING || (op->step == EXCHANGE_LOOKING && op->look_again);
    }
    while ((op = next_due(m)) != NULL) {
        op->due = false;
        if (op->step == EXCHANGE_SETTLING) {
            settle(op);
        } else {
            look(op);
        }
    }
}

static void wake(struct mount *m, uint64_t after_ms)
{
    if (!uv_is_active((uv_handle_t *)&m->exchange_timer) ||
        uv_timer_get_due_in(&m->exchange_timer) > after_ms) {
        (void)uv_timer_start(&m->exchange_timer, on_wake, after_ms, 0);
    }
}

static void on_flushed(struct file_flush *flush, int status)
{
    struct exchange_op *op = CONTAINER_OF(flush, struct exchange_op, flush);

    if (status != 0) {
        exchange_end(op, status);
        return;
    }
    op->step = EXCHANGE_SETTLING; /* The flush holds its file until this returns. */
    op->until_ms = uv_now(op->base.mount->client->loop) + SETTLE_MS;
    wake(op->base.mount, 0);
}

/* Where the manager was asked only its answer ends it. */
static void exchange_cancel(struct mount_op *base)
{
    struct exchange_op *op = CONTAINER_OF(base, struct exchange_op, base);

    if (op->step == EXCHANGE_FLUSHING) {
        file_flush_cancel(&op->flush);
    } else if (op->step == EXCHANGE_SETTLING) {
        exchange_end(op, MORSEL_CANCELED);
    }
}

static void exchange_give_up(struct mount_op *base)
{
    struct exchange_op *op = CONTAINER_OF(base, struct exchange_op, base);
    struct mount *m = base->mount;

    if (op->step == EXCHANGE_FLUSHING || op->step == EXCHANGE_SETTLING) {
        op->late = true; /* Either ends soon. */
        return;
    }
    log_warning(
        m->client->options.log,
        "inode %lu: the manager has not said within io_timeout whether its bytes lie "
        "elsewhere now; what is asked of it says EIO until it has: see whether the manager runs",
        (unsigned long)op->files[0]->inode);
    file_give_up_place(op->files[0]);
    file_give_up_place(op->files[1]);
    mount_op_give_up(base);
    mount_hold_give_up(m, &op->hold);
}

static void commit(fuse_req_t req, struct handle *handle, const struct exchange_commit *wanted)
{
    struct exchange_op *op = mount_op_new(req, MOUNT_EXCHANGE, sizeof(*op));
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    int rv = 0;

    if (op == NULL) {
        return;
    }
    list_init(&op->node);
    op->state = wanted->state;
    op->user = (struct mount_user){ ctx->uid, ctx->gid, ctx->pid };
    op->files[0] = handle->file;
    op->files[1] = file_find(op->base.mount->client, wanted->with);
    if (op->files[1] == NULL || op->files[1] == op->files[0] || !file_has_writer(op->files[1])) {
        rv = MORSEL_INVAL;
    } else if (file_is_held(op->files[0]) || file_is_held(op->files[1])) {
        rv = MORSEL_BUSY;
    } else {
        rv = may_go(op);
    }
    if (rv != 0) {
        mount_op_fail(&op->base, rv);
        return;
    }
    op->base.cancel = exchange_cancel;
    mount_op_bound(&op->base, exchange_give_up);
    list_push_back(&op->base.mount->exchanges, &op->node);
    mount_hold_begin(op->base.mount, &op->hold, op->files[0]->inode, op->files[1]->inode);
    file_hold(op->files[0]);
    file_hold(op->files[1]);
    /* What went wrong with the copy it says here, if nowhere else. */
    rv = file_flush_start(&op->flush, op->files[1], file_writer(op->files[1]), true, on_flushed);
    if (rv != 0) {
        exchange_end(op, rv);
    }
}

/* ---- The beginning ---- */

struct begin_op
{
    struct mount_op base;
    struct handle *handle;
    struct file_flush flush;
};

static void on_begun(struct file_flush *flush, int status)
{
    struct begin_op *op = CONTAINER_OF(flush, struct begin_op, flush);
    struct exchange_state state;

    /* A hole that is being punched, say: the kernel may give whoever copies now the bytes of before, and its end is no
     * change that COMMIT would notice. */
    if (status == 0 && file_is_changing(flush->file)) {
        status = MORSEL_AGAIN;
    }
    if (status == 0) {
        status = state_of(flush->file, &state);
    }
    if (status != 0) {
        mount_op_fail(&op->base, status);
        return;
    }
    (void)fuse_reply_ioctl(op->base.req, 0, &state, sizeof(state));
    mount_op_end(&op->base);
}

static void begin_cancel(struct mount_op *base)
{
    file_flush_cancel(&CONTAINER_OF(base, struct begin_op, base)->flush);
}

static void begin(fuse_req_t req, struct handle *handle)
{
    struct begin_op *op = mount_op_new(req, MOUNT_EXCHANGE, sizeof(*op));
    struct exchange_state state;
    int rv;

    if (op == NULL) {
        return;
    }
    op->handle = handle;
    op->base.cancel = begin_cancel;
    rv = state_of(handle->file, &state);
    if (rv == 0) {
        rv = file_flush_start(&op->flush, handle->file, handle, true, on_begun);
    }
    if (rv != 0) {
        mount_op_fail(&op->base, rv);
    }
}

/* ---- The pause ---- */

static void on_paused(struct meta_call *call, int status, void *message)
{
    struct mount_op *op = call->data;

    (void)message;
    if (status == 0) {
        (void)fuse_reply_ioctl(op->req, 0, NULL, 0);
        mount_op_end(op);
    } else {
        mount_op_fail(op, status);
    }
}

/* Where all hold still, the lease comes with the answer; where they need not any more, the answer is empty. */
static void pause_others(fuse_req_t req, const struct handle *handle, bool over)
{
    Morsel__PauseRequest request = MORSEL__PAUSE_REQUEST__INIT;
    struct mount_op *op = mount_op_new(req, MOUNT_EXCHANGE, sizeof(*op));
    struct mount_who who;

    if (op != NULL) {
        request.inode = handle->file->inode;
        request.over = over;
        request.who = mount_who(op->mount, &who, req, request.inode, 0);
        (void)mount_op_ask(op, MSG_PAUSE, &request.base, over ? NULL : &morsel__node__descriptor,
                           on_paused);
    }
}

static void on_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned int cmd, void *arg,
                     struct fuse_file_info *fi, unsigned flags, const void *in_buf, size_t in_size,
                     size_t out_size)
{
    struct handle *handle = (struct handle *)(uintptr_t)fi->fh;
    struct exchange_commit wanted;
    struct exchange_watch watch;

    (void)ino;
    (void)arg;
    if ((flags & FUSE_IOCTL_DIR) == 0 && cmd == EXCHANGE_BEGIN &&
        out_size >= sizeof(struct exchange_state)) {
        begin(req, handle);
    } else if ((flags & FUSE_IOCTL_DIR) == 0 && cmd == EXCHANGE_COMMIT &&
               in_size >= sizeof(wanted)) {
        memcpy(&wanted, in_buf, sizeof(wanted));
        commit(req, handle, &wanted);
    } else if ((flags & FUSE_IOCTL_DIR) == 0 && (cmd == EXCHANGE_PAUSE || cmd == EXCHANGE_RESUME)) {
        pause_others(req, handle, cmd == EXCHANGE_RESUME);
    } else if ((flags & FUSE_IOCTL_DIR) == 0 && cmd == EXCHANGE_WATCH && in_size >= sizeof(watch) &&
               out_size >= sizeof(watch)) {
        memcpy(&watch, in_buf, sizeof(watch));
        mount_watch(req, handle, &watch);
    } else {
        (void)fuse_reply_err(req, ENOTTY);
    }
}

/* ---- Life ---- */

void mount_exchanges_start(struct mount *m)
{
    list_init(&m->exchanges);
    (void)uv_timer_init(m->client->loop, &m->exchange_timer);
    m->exchange_timer.data = m;
}

void mount_exchanges_stop(struct mount *m)
{
    uv_close((uv_handle_t *)&m->exchange_timer, NULL);
}

void mount_exchange_operations(struct fuse_lowlevel_ops *ops)
{
    ops->ioctl = on_ioctl;
}
