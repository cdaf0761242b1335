/* SETATTR, with its truncation: what concerns the manager and all servers of a file.
 *
 * Truncation: the file's layout is needed, then what is buffered goes out, then the objects are
 * truncated, and last the manager takes the new size, so that a crash in between never shows bytes
 * that were cut off:
 *
 *   (OPEN for writing, unless W is held) -> flush -> truncate the objects -> SETATTR -> reply
 *
 * A file that grows is truncated at its old end: what a client that died may have left there must
 * not come to light.
 */
#include "client/fuse/attr_fuse.h"

#include "client/coherence/data_versions.h"
#include "client/data/append_uv.h"
#include "client/manager/behind_uv.h"
#include "common/base/status.h"
#include "common/fs/mode.h"

#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

/* Until it has ended no lease on the file is given back. */
static void truncation_begin(struct size_op *op, struct file *file)
{
    op->truncating = file;
    file_pin(file);
    file_pin_lease(file);
}

static void truncation_end(struct size_op *op)
{
    struct client *client = op->base.mount->client;

    if (op->truncating != NULL) {
        file_unpin_lease(op->truncating);
        file_unpin(op->truncating);
        op->truncating = NULL;
        lease_unpinned(client);
    }
    size_lock_end(&op->size_lock);
}

/* Interrupted. Once the manager was asked to cut the map of a data set only its answer says whether it did: who waits is answered
 * now, and what is stored is not reported before that answer (struct set_hold), for what was cut off would come back with it. */
static void setattr_cancel(struct mount_op *base)
{
    struct size_op *op = CONTAINER_OF(base, struct size_op, base);

    if (!op->cutting) {
        mount_size_cancel(base);
    } else if (!base->given_up) {
        mount_op_answer(base, MORSEL_CANCELED);
    }
}

static void size_op_fail(struct size_op *op, int status)
{
    struct mount *m = op->base.mount;
    inode_id inode = op->inode;

    if (op->cutting) {
        scavenged_may_be_cut(op->truncating);
    }
    truncation_end(op);
    set_hold_end(&op->range.hold);
    if (op->handle != NULL) {
        file_close(op->handle);
    }
    mount_op_fail(&op->base, status);
    mount_after_truncation(m, inode);
}

static void on_attr_set(struct meta_call *call, int status, void *message)
{
    struct size_op *op = call->data;
    Morsel__Node *node = message;
    struct mount *m = op->base.mount;
    struct client *client = m->client;
    inode_id inode = op->inode;
    struct file *file;
    struct stat st;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status != 0) {
        size_op_fail(op, status);
        return;
    }
    truncation_end(op);
    file = file_find(client, node->attr->inode);
    if (file != NULL) {
        if ((op->valid & SETATTR_SIZE) != 0) {
            file_note_resized(file, node->attr->size);
        }
        file_refresh(file, node->attr);
        if (file_is_scavenged(file) && (op->valid & SETATTR_SIZE) != 0) {
            scavenged_resized(file, node->attr->size, node->layout);
        }
        file_overlay(file, node->attr);
    }
    set_hold_end(&op->range.hold);
    if ((op->valid & SETATTR_SIZE) != 0) {
        data_version_advance(client->data.versions, node->attr->inode, node->attr->data_version);
    }
    mount_stat(node->attr, &st);
    if (file != NULL && !op->base.given_up) {
        mount_note_told(file, &st);
        file_note_kernel_changed(file);
    }
    if (op->base.given_up) {
        kernel_drop_inode(client, inode); /* It has not heard of it. */
    } else {
        (void)fuse_reply_attr(op->base.req, &st, MOUNT_CHANGED_SECONDS);
    }
    if (op->handle != NULL) {
        file_close(op->handle);
    }
    mount_op_end(&op->base);
    mount_after_truncation(m, inode);
}

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)((int64_t)t->tv_sec * 1000000000 + t->tv_nsec);
}

static void fill_setattr(const struct size_op *op, Morsel__SetattrRequest *request,
                         struct mount_who *who)
{
    bool groups = (op->valid & SETATTR_GID) != 0 ||
                  ((op->valid & SETATTR_MODE) != 0 && (op->st.st_mode & S_ISGID) != 0);

    request->inode = op->inode;
    request->valid = op->valid;
    request->mode = op->st.st_mode;
    request->uid = op->st.st_uid;
    request->gid = op->st.st_gid;
    request->size = (uint64_t)op->st.st_size;
    request->atime_ns = ns_of(&op->st.st_atim);
    request->mtime_ns = ns_of(&op->st.st_mtim);
    request->who =
        mount_who(op->base.mount, who, op->base.req, groups ? INODE_NONE : op->inode, MAY_WRITE);
}

static void send_setattr(struct size_op *op)
{
    Morsel__SetattrRequest request = MORSEL__SETATTR_REQUEST__INIT;
    struct mount_who who;
    int rv;

    fill_setattr(op, &request, &who);
    op->base.call.bounded = (op->valid & SETATTR_SIZE) != 0;
    rv = meta_change_start(&op->base.call, op->base.mount->client, MSG_SETATTR, &request.base,
                           &request.op, &morsel__node__descriptor, on_attr_set);
    if (rv != 0) {
        size_op_fail(op, rv);
        return;
    }
    op->cutting = op->range.hold.set != NULL;
}

/* Lease and size lock may have been lost since the truncation began: others have them. */
static int still_ours(const struct size_op *op)
{
    return op->lease_epoch == lease_epoch(op->base.mount->client) ? MORSEL_OK : MORSEL_TOO_LATE;
}

static void on_truncated(struct range_op *range, int status)
{
    struct size_op *op = CONTAINER_OF(range, struct size_op, range);

    if (status == 0) {
        status = still_ours(op);
    }
    if (status != 0) {
        size_op_fail(op, status);
        return;
    }
    send_setattr(op);
}

static void on_setattr_flushed(struct file_flush *flush, int status)
{
    struct size_op *op = CONTAINER_OF(flush, struct size_op, flush);
    struct file *file = flush->file;
    uint64_t size = (uint64_t)op->st.st_size;

    if (status == 0) {
        status = still_ours(op);
    }
    if (status != 0) {
        size_op_fail(op, status);
        return;
    }
    if ((op->valid & SETATTR_SIZE) == 0 ||
        (size == 0 && file_size(file) == 0 && !file_is_tail_unsure(file))) {
        send_setattr(op);
        return;
    }
    status = range_start(&op->range, file, RANGE_TRUNCATE,
                         size < file_size(file) ? size : file_size(file), 0, on_truncated);
    if (status != 0) {
        size_op_fail(op, status);
    }
}

static void setattr_with_file(struct servers_wait *wait);

static void setattr_know(struct size_op *op)
{
    op->wait.done = setattr_with_file;
    if (file_know_servers(op->handle->file, &op->wait)) {
        setattr_with_file(&op->wait);
    }
}

static void on_placed(struct mount_op *base, int status)
{
    struct size_op *op = CONTAINER_OF(base, struct size_op, base);

    if (status != 0) {
        size_op_fail(op, status);
    } else {
        setattr_know(op);
    }
}

/* The file may have been moved while it was open here to read. */
static void setattr_when_known(struct size_op *op)
{
    if (file_astray(op->handle->file) == MORSEL_STALE) {
        mount_refresh_size(&op->base, op->handle->file, on_placed);
    } else {
        setattr_know(op);
    }
}

static void setattr_flush(struct mount_op *base, int status)
{
    struct size_op *op = CONTAINER_OF(base, struct size_op, base);

    if (status == 0) {
        truncation_begin(op, op->handle->file);
        status = file_flush_start(&op->flush, op->handle->file, NULL, false, on_setattr_flushed);
    }
    if (status != 0) {
        size_op_fail(op, status);
    }
}

static void on_size_lock(struct size_lock *size_lock, int status)
{
    struct size_op *op = CONTAINER_OF(size_lock, struct size_op, size_lock);

    op->base.cancel = setattr_cancel;
    op->lease_epoch = lease_epoch(op->base.mount->client);
    if (status == 0) {
        mount_refresh_size(&op->base, op->handle->file, setattr_flush);
    } else {
        size_op_fail(op, status);
    }
}

static void truncation_cancel(struct mount_op *base)
{
    size_lock_cancel(&CONTAINER_OF(base, struct size_op, base)->size_lock);
}

/* Between the truncation of the objects and the new size nobody may write: their bytes would be cut
 * off and reported all the same, or stay behind the end. */
static void truncate_under_size_lock(struct size_op *op)
{
    op->base.cancel = truncation_cancel;
    size_lock_take(&op->size_lock, op->base.mount->client, op->inode, LOCK_EXCLUSIVE, on_size_lock);
}

static void setattr_with_file(struct servers_wait *wait)
{
    struct size_op *op = CONTAINER_OF(wait, struct size_op, wait);

    if (file_is_shared(op->handle->file)) {
        truncate_under_size_lock(op);
    } else {
        op->lease_epoch = lease_epoch(op->base.mount->client);
        setattr_flush(&op->base, MORSEL_OK);
    }
}

static void on_layout(struct meta_call *call, int status, void *message)
{
    struct size_op *op = call->data;
    struct client *client = op->base.mount->client;
    Morsel__Node *node = message;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0 && !S_ISREG(node->attr->mode)) {
        status = S_ISDIR(node->attr->mode) ? MORSEL_ISDIR : MORSEL_INVAL;
    }
    if (status == 0) {
        status = file_open(client, node->attr, node->layout, false, true, &op->handle);
    }
    if (status != 0) {
        client_close_inode(client, op->inode); /* The manager may have counted it as open. */
        size_op_fail(op, status);
        return;
    }
    setattr_when_known(op);
}

/* ---- Attributes that are set behind ---- */

/* Modes, owners and times of a file that is ours alone, where it is plain what becomes of them. */
static bool may_set_behind(struct size_op *op)
{
    static const uint32_t plain = SETATTR_MODE | SETATTR_UID | SETATTR_GID | SETATTR_ATIME |
                                  SETATTR_MTIME | SETATTR_ATIME_NOW | SETATTR_MTIME_NOW;
    struct client *client = op->base.mount->client;
    const Morsel__Attr *attr = client_lease(client, op->inode) == LEASE_W
                                   ? meta_cache_attr(client->cache, op->inode)
                                   : NULL;

    return attr != NULL && (op->valid & ~plain) == 0 && S_ISREG(attr->mode) && !attr->xattrs &&
           ((attr->mode | op->st.st_mode) & MODE_SET_IDS) == 0;
}

/* What the manager is to hear of it. Our kernel has permitted it, and the times are those of now;
 * but the change time moves on, although our idea of the manager's clock may be a little behind. */
static void fill_change(const struct size_op *op, struct attr_change *change)
{
    const struct client *client = op->base.mount->client;
    const Morsel__Attr *attr = meta_cache_attr(client->cache, op->inode);
    bool atime_now = (op->valid & SETATTR_ATIME_NOW) != 0;
    bool mtime_now = (op->valid & SETATTR_MTIME_NOW) != 0;

    change->valid = op->valid & ~(uint32_t)(SETATTR_ATIME_NOW | SETATTR_MTIME_NOW);
    change->valid |= (atime_now ? SETATTR_ATIME : 0) | (mtime_now ? SETATTR_MTIME : 0);
    change->mode = op->st.st_mode;
    change->uid = op->st.st_uid;
    change->gid = op->st.st_gid;
    change->set_ns = client_clock_ns(client);
    if (attr != NULL && change->set_ns <= attr->ctime_ns) {
        change->set_ns = attr->ctime_ns + 1;
    }
    change->atime_ns = atime_now ? change->set_ns : ns_of(&op->st.st_atim);
    change->mtime_ns = mtime_now ? change->set_ns : ns_of(&op->st.st_mtim);
    change->lease_epoch = lease_epoch(client);
}

static void apply_here(struct client *client, inode_id inode, const struct attr_change *change)
{
    Morsel__Attr *attr = meta_cache_attr_mut(client->cache, inode);
    struct file *file = file_find(client, inode);

    if ((change->valid & SETATTR_MODE) != 0) {
        attr->mode = mode_with_bits(attr->mode, change->mode);
    }
    if ((change->valid & SETATTR_UID) != 0) {
        attr->uid = change->uid;
    }
    if ((change->valid & SETATTR_GID) != 0) {
        attr->gid = change->gid;
    }
    if ((change->valid & SETATTR_ATIME) != 0) {
        attr->atime_ns = change->atime_ns;
    }
    if ((change->valid & SETATTR_MTIME) != 0) {
        attr->mtime_ns = change->mtime_ns;
        if (file != NULL) {
            file_note_mtime(file, change->mtime_ns);
        }
    }
    attr->ctime_ns = change->set_ns;
}

/* Reply now, tell the manager behind. False: nothing was done. */
static bool set_behind(struct size_op *op)
{
    struct client *client = op->base.mount->client;
    struct attr_change change;

    if (client_squash(client)->any || !may_set_behind(op)) {
        return false;
    }
    fill_change(op, &change);
    if (change.valid == 0 || !behind_set(client, op->inode, &change)) {
        return false;
    }
    apply_here(client, op->inode, &change);
    return mount_attr_reply_here(op);
}

/* ---- Truncations that are set behind ---- */

/* Of a file that is open for writing and ours alone, where nothing else comes of it: who has it
 * open hears of errors. */
static bool may_truncate_behind(const struct size_op *op, const struct file *file)
{
    const struct client *client = op->base.mount->client;
    const Morsel__Attr *attr = meta_cache_attr(client->cache, op->inode);
    uint64_t size = (uint64_t)op->st.st_size;

    return (op->valid & ~(uint32_t)SETATTR_STRIP_IDS) == SETATTR_SIZE &&
           !client_squash(client)->any && client_lease_valid(client) &&
           client_lease(client, op->inode) == LEASE_W && file_has_writer(file) && attr != NULL &&
           !attr->xattrs && (attr->mode & MODE_SET_IDS) == 0 && size <= INT64_MAX &&
           file_may_reach(file, size) && file_astray(file) == 0 && !file_is_scavenged(file);
}

/* False: nothing was done. */
static bool truncate_behind(struct size_op *op, struct file *file)
{
    struct client *client = op->base.mount->client;
    Morsel__Attr attr;
    struct stat st;

    if (file == NULL || !may_truncate_behind(op, file) ||
        !file_truncate(file, (uint64_t)op->st.st_size)) {
        return false;
    }
    attr = *meta_cache_attr(client->cache, op->inode);
    file_overlay(file, &attr);
    mount_stat(&attr, &st);
    mount_note_told(file, &st);
    (void)fuse_reply_attr(op->base.req, &st, MOUNT_CHANGED_SECONDS);
    mount_op_end(&op->base);
    return true;
}

/* Nobody else may have dirty bytes, or begin to, while objects are truncated: so it is opened for
 * writing. Also for an open file, whose size may have changed elsewhere. */
static void truncate_begin(struct size_op *op, bool by_handle)
{
    struct client *client = op->base.mount->client;
    Morsel__OpenRequest request = MORSEL__OPEN_REQUEST__INIT;
    const Morsel__Attr *attr = meta_cache_attr(client->cache, op->inode);
    const Morsel__Layout *layout = meta_cache_layout(client->cache, op->inode);
    struct mount_who who;

    if (!client_squash(client)->any && client_lease(client, op->inode) == LEASE_W && attr != NULL &&
        layout != NULL && file_open(client, attr, layout, false, false, &op->handle) == 0) {
        setattr_when_known(op);
        return;
    }
    request.inode = op->inode;
    request.write = true;
    if (!by_handle) { /* A handle may write, whatever became of the mode. */
        request.who = mount_who(op->base.mount, &who, op->base.req, op->inode, MAY_WRITE);
    }
    (void)mount_op_ask(&op->base, MSG_OPEN, &request.base, &morsel__node__descriptor, on_layout);
}

static uint32_t valid_of(int to_set)
{
    static const struct
    {
        int fuse;
        uint32_t ours;
    } map[] = {
        { FUSE_SET_ATTR_MODE, SETATTR_MODE },
        { FUSE_SET_ATTR_UID, SETATTR_UID },
        { FUSE_SET_ATTR_GID, SETATTR_GID },
        { FUSE_SET_ATTR_SIZE, SETATTR_SIZE },
        { FUSE_SET_ATTR_ATIME, SETATTR_ATIME },
        { FUSE_SET_ATTR_MTIME, SETATTR_MTIME },
        { FUSE_SET_ATTR_ATIME_NOW, SETATTR_ATIME_NOW },
        { FUSE_SET_ATTR_MTIME_NOW, SETATTR_MTIME_NOW },
    };
    uint32_t valid = 0;

    for (size_t i = 0; i < ARRAY_COUNT(map); i++) {
        if ((to_set & map[i].fuse) != 0) {
            valid |= map[i].ours;
        }
    }
    /* The kernel sets both, with the time of this machine; ours are the manager's. */
    if ((valid & SETATTR_ATIME_NOW) != 0) {
        valid &= ~(uint32_t)SETATTR_ATIME;
    }
    if ((valid & SETATTR_MTIME_NOW) != 0) {
        valid &= ~(uint32_t)SETATTR_MTIME;
    }
    return valid;
}

/* The kernel says so with a new size, and libfuse does not pass it on. */
static bool truncation_strips_ids(const struct mount *m)
{
    struct fuse_setattr_in in;

    memcpy(&in, m->receive->data + sizeof(struct fuse_in_header), sizeof(in));
    return m->strips_ids && (in.valid & FATTR_SIZE) != 0 && (in.valid & FATTR_KILL_SUIDGID) != 0;
}

static void on_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                       struct fuse_file_info *fi)
{
    struct size_op *op = mount_op_new(req, MOUNT_SETATTR, sizeof(*op));
    struct file *file;

    if (op == NULL) {
        return;
    }
    op->base.cancel = setattr_cancel;
    op->inode = ino;
    op->valid = valid_of(to_set) | (truncation_strips_ids(op->base.mount) ? SETATTR_STRIP_IDS : 0);
    op->st = *attr;
    op->lease_epoch = lease_epoch(op->base.mount->client);
    file = file_find(op->base.mount->client, ino);
    if (file != NULL && (op->valid & SETATTR_SIZE) != 0) {
        append_end_all(file);
    }
    if (truncate_behind(op, file)) {
        return;
    }
    if ((op->valid & SETATTR_SIZE) != 0 &&
        (file == NULL || !file_has_news(file) || file_is_shared(file))) {
        truncate_begin(op, fi != NULL);
    } else if (set_behind(op)) {
        return;
    } else if (file != NULL && file_is_unreported(file)) {
        /* Our time of the last write must reach the manager before the one that is set here. */
        if ((op->valid & SETATTR_SIZE) != 0) {
            truncation_begin(op, file);
        }
        if (file_flush_start(&op->flush, file, NULL, false, on_setattr_flushed) != 0) {
            size_op_fail(op, MORSEL_NOMEM);
        }
    } else {
        send_setattr(op);
    }
}

void mount_setattr_operations(struct fuse_lowlevel_ops *ops)
{
    ops->setattr = on_setattr;
}
