/* GETATTR: attributes, also as the kernel asks for itself before it reads from its pages. */
#include "client/fuse/attr_fuse.h"

#include "common/base/status.h"

void mount_size_cancel(struct mount_op *base)
{
    struct size_op *op = CONTAINER_OF(base, struct size_op, base);

    if (op->flush.waiting > 0) {
        file_flush_cancel(&op->flush);
    } else if (op->range.waiting > 0) {
        range_cancel(&op->range);
    } else {
        mount_op_cancel_asking(&op->base);
    }
}

/* ---- GETATTR, behind the truncations of this mount ----
 *
 * While a process of ours truncates a file the kernel takes over no size but the one of its answer;
 * so who asks before it reads, of a file that others change too, waits for that answer. He holds no
 * page, and so nobody waits for him. */

static void getattr_go(struct size_op *op);

static bool is_being_truncated(const struct mount *m, inode_id inode)
{
    LIST_FOREACH(node, &m->ops)
    {
        struct mount_op *base = LIST_ENTRY(node, struct mount_op, node);
        const struct size_op *other = CONTAINER_OF(base, struct size_op, base);

        if (base->kind == MOUNT_SETATTR && other->inode == inode &&
            (other->valid & SETATTR_SIZE) != 0) {
            return true;
        }
    }
    return false;
}

static void behind_cancel(struct mount_op *base)
{
    list_remove(&CONTAINER_OF(base, struct size_op, base)->behind);
    mount_op_fail(base, MORSEL_CANCELED);
}

/* False: nobody truncates it. */
static bool wait_behind_truncation(struct size_op *op)
{
    struct mount *m = op->base.mount;
    const struct file *file = file_find(m->client, op->inode);

    if (!op->by_handle || file == NULL || !file_is_shared(file) ||
        !is_being_truncated(m, op->inode)) {
        return false;
    }
    op->base.cancel = behind_cancel;
    op->drops_pages = false;
    kernel_question_delayed(&op->question);
    list_push_back(&m->behind_truncations, &op->behind);
    return true;
}

void mount_after_truncation(struct mount *m, inode_id inode)
{
    LIST_FOREACH_SAFE(node, &m->behind_truncations)
    {
        struct size_op *op = LIST_ENTRY(node, struct size_op, behind);

        if (op->inode == inode && !is_being_truncated(m, inode)) {
            list_remove(&op->behind);
            getattr_go(op);
        }
    }
}

/* ---- GETATTR ---- */

static struct kernel_view *view_of(const struct size_op *op)
{
    struct file *file = file_find(op->base.mount->client, op->inode);

    return file != NULL ? &file->kernel : NULL;
}

/* The request is answered; `by_handle`: the kernel asked for itself. */
static void kernel_asked(const struct size_op *op)
{
    struct kernel_view *view = op->by_handle ? view_of(op) : NULL;

    if (view != NULL) {
        kernel_view_asked(view, uv_now(op->base.mount->client->loop));
    }
}

static void attr_reply_now(void *data)
{
    struct size_op *op = data;
    struct file *file = file_find(op->base.mount->client, op->inode);

    kernel_asked(op);
    if (file != NULL) {
        file_note_kernel_changed(file);
    }
    if (!op->drops_pages) {
        mount_await(op->base.mount, &op->question, view_of(op),
                    (uint32_t)fuse_req_ctx(op->base.req)->pid);
    }
    (void)fuse_reply_attr(op->base.req, &op->st, op->seconds);
    if (op->handle != NULL) {
        file_close(op->handle);
    }
    mount_op_end(&op->base);
}

static void attr_reply(struct size_op *op)
{
    op->drops_pages |= kernel_question_crossed(
        &op->question, view_of(op), kernel_drops_are_under_way(op->base.mount->client),
        (uint32_t)fuse_req_ctx(op->base.req)->pid, uv_now(op->base.mount->client->loop));
    if (wait_behind_truncation(op)) { /* It began meanwhile. */
        kernel_asked(op);
        if (op->handle != NULL) {
            file_close(op->handle);
            op->handle = NULL;
        }
    } else if (op->drops_pages) {
        op->base.cancel = NULL; /* It ends when reads and writes of those pages do. */
        kernel_drop_then(op->base.mount->client, &op->drop, op->inode, (uint64_t)op->st.st_size,
                         attr_reply_now, op);
    } else {
        attr_reply_now(op);
    }
}

/* The manager has said once more where it lies. */
static void counted_there(struct mount_op *base, int status)
{
    struct size_op *op = CONTAINER_OF(base, struct size_op, base);

    if (status == 0 && !range_has_moved(&op->range)) {
        op->st.st_blocks = (blkcnt_t)op->range.blocks;
    }
    attr_reply(op);
}

static void on_blocks(struct range_op *range, int status)
{
    struct size_op *op = CONTAINER_OF(range, struct size_op, range);

    if (status == 0 && !range_is_sure(range)) {
        mount_refresh_size(&op->base, range->file, counted_there);
        return;
    }
    if (status == 0) {
        op->st.st_blocks = (blkcnt_t)range->blocks;
    }
    attr_reply(op); /* Without the servers the size is the best guess. */
}

static void on_blocks_flushed(struct file_flush *flush, int status)
{
    struct size_op *op = CONTAINER_OF(flush, struct size_op, flush);

    (void)status;
    if (range_blocks_start(&op->range, flush->file, on_blocks) != 0) {
        attr_reply(op);
    }
}

/* Only its servers know how much space a sparse file uses. */
static void ask_blocks(struct servers_wait *wait)
{
    struct size_op *op = CONTAINER_OF(wait, struct size_op, wait);

    if (file_flush_start(&op->flush, op->handle->file, NULL, false, on_blocks_flushed) != 0) {
        attr_reply(op);
    }
}

/* op->st is what the kernel is going to be told: a question of its own is answered as is good for its
 * pages, and stat(2) is told the truth. */
static void tell_kernel(struct size_op *op, struct file *file)
{
    struct kernel_answer answer = { .size = (uint64_t)op->st.st_size, .mtime = op->st.st_mtim };

    if (file != NULL && op->by_handle) {
        kernel_question_answer(&op->question, &file->kernel, file_own_lease(file),
                               &op->base.mount->never_twice, &answer);
        op->drops_pages = answer.drop;
        op->st.st_mtim = answer.mtime;
        op->seconds = answer.fleeting ? 0 : op->seconds;
    } else if (file != NULL) {
        mount_note_told(file, &op->st);
    }
}

static void on_node_attr(struct meta_call *call, int status, void *message)
{
    struct size_op *op = call->data;
    struct client *client = op->base.mount->client;
    Morsel__Node *node = message;
    struct file *file;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == MORSEL_NOENT || status == MORSEL_STALE) {
        const struct stat *last = mount_dir_removed_stat(op->base.mount, op->inode);

        if (last == NULL && !op->by_handle) {
            last = mount_lookup_stat(op->base.mount, op->inode);
        }
        if (last != NULL) {
            op->st = *last;
            attr_reply(op);
            return;
        }
    }
    if (status != 0) {
        /* The inode was deleted elsewhere: the name that led here is stale. */
        kernel_asked(op);
        mount_op_fail(&op->base, status == MORSEL_NOENT ? MORSEL_STALE : status);
        return;
    }
    file = file_find(client, node->attr->inode);
    if (file != NULL) {
        file_refresh(file, node->attr);
    }
    meta_cache_overlay(client->cache, node->attr);
    if (file != NULL) {
        file_overlay(file, node->attr);
    }
    mount_stat(node->attr, &op->st);
    op->seconds = mount_attr_seconds(op->base.mount, node->attr);
    tell_kernel(op, file);
    if (!node->attr->sparse && (file == NULL || !file_became_sparse(file))) {
        attr_reply(op);
        return;
    }
    op->wait.done = ask_blocks;
    if (file_open(client, node->attr, node->layout, false, false, &op->handle) != 0) {
        attr_reply(op);
    } else if (file_know_servers(op->handle->file, &op->wait)) {
        ask_blocks(&op->wait);
    }
}

bool mount_attr_reply_here(struct size_op *op)
{
    struct client *client = op->base.mount->client;
    struct file *file = file_find(client, op->inode);
    const Morsel__Attr *known =
        client_lease_valid(client) ? meta_cache_attr(client->cache, op->inode) : NULL;
    Morsel__Attr attr;

    if (known == NULL || known->sparse ||
        (file != NULL && (file_became_sparse(file) || file_is_shared(file)))) {
        return false;
    }
    attr = *known;
    if (file != NULL) {
        file_overlay(file, &attr);
    }
    mount_stat(&attr, &op->st);
    op->seconds =
        op->valid != 0 ? MOUNT_CHANGED_SECONDS : mount_attr_seconds(op->base.mount, &attr);
    tell_kernel(op, file);
    attr_reply(op);
    return true;
}

static void getattr_go(struct size_op *op)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;

    if (wait_behind_truncation(op)) {
        return;
    }
    kernel_question_begin(&op->question, view_of(op), uv_now(op->base.mount->client->loop));
    op->base.cancel = mount_size_cancel;
    if (mount_attr_reply_here(op)) {
        return;
    }
    request.inode = op->inode;
    request.layout = true;
    if (mount_op_ask(&op->base, MSG_GETATTR, &request.base, &morsel__node__descriptor,
                     on_node_attr) &&
        op->by_handle && view_of(op) != NULL) {
        kernel_view_asks(view_of(op));
    }
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct size_op *op = mount_op_new(req, MOUNT_GETATTR, sizeof(*op));

    if (op == NULL) {
        return;
    }
    op->inode = ino;
    op->by_handle = fi != NULL;
    list_init(&op->behind);
    getattr_go(op);
}

void mount_attr_operations(struct fuse_lowlevel_ops *ops)
{
    ops->getattr = on_getattr;
}
