/* O_TMPFILE: a file that is made and opened without a name.
 *
 * The kernel sends FUSE_TMPFILE (protocol 7.37), which libfuse knows from 3.15 on. Requests pass
 * through our hands before libfuse sees them, so this one is answered here, in the kernel's own
 * format (linux/fuse.h), whatever the libfuse.
 */
#include "client/fuse/mount_fuse.h"

#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

struct tmpfile_op
{
    struct mount *mount;
    struct meta_call call;
    struct servers_wait wait;
    struct handle *handle;
    uint64_t unique;
    uint32_t flags; /* Of open(2). */
    struct fuse_entry_out entry;
};

void mount_refuse(const struct mount *m, uint64_t unique, int error)
{
    struct fuse_out_header header = { .len = sizeof(header), .error = -error, .unique = unique };
    ssize_t written = write(fuse_session_fd(m->session), &header, sizeof(header));

    (void)written; /* Interrupted: nobody waits for it. */
}

static void tmpfile_reply(struct tmpfile_op *op, int error, const struct fuse_open_out *open)
{
    struct fuse_out_header header = { .unique = op->unique };
    struct iovec iov[3] = { { &header, sizeof(header) },
                            { &op->entry, sizeof(op->entry) },
                            { (void *)(uintptr_t)open, sizeof(*open) } };
    ssize_t written = 0;

    if (open == NULL) {
        mount_refuse(op->mount, op->unique, error);
    } else {
        header.len = (uint32_t)(sizeof(header) + sizeof(op->entry) + sizeof(*open));
        written = writev(fuse_session_fd(op->mount->session), iov, 3);
    }
    if (written < 0 && errno == ENOENT && op->handle != NULL) {
        file_close(op->handle); /* Interrupted: the kernel will not release it. */
    }
    op->mount->ops_count--;
    free(op);
}

static void fill_entry(struct fuse_entry_out *entry, const struct stat *st)
{
    memset(entry, 0, sizeof(*entry)); /* Time-outs of 0: what has no name is not looked up. */
    entry->nodeid = st->st_ino;
    entry->attr.ino = st->st_ino;
    entry->attr.size = (uint64_t)st->st_size;
    entry->attr.blocks = (uint64_t)st->st_blocks;
    entry->attr.atime = (uint64_t)st->st_atim.tv_sec;
    entry->attr.atimensec = (uint32_t)st->st_atim.tv_nsec;
    entry->attr.mtime = (uint64_t)st->st_mtim.tv_sec;
    entry->attr.mtimensec = (uint32_t)st->st_mtim.tv_nsec;
    entry->attr.ctime = (uint64_t)st->st_ctim.tv_sec;
    entry->attr.ctimensec = (uint32_t)st->st_ctim.tv_nsec;
    entry->attr.mode = st->st_mode;
    entry->attr.nlink = (uint32_t)st->st_nlink;
    entry->attr.uid = st->st_uid;
    entry->attr.gid = st->st_gid;
    entry->attr.blksize = (uint32_t)st->st_blksize;
}

static void on_servers_known(struct servers_wait *wait)
{
    struct tmpfile_op *op = CONTAINER_OF(wait, struct tmpfile_op, wait);
    struct fuse_open_out open = { .fh = (uint64_t)(uintptr_t)op->handle };

    tmpfile_reply(op, 0, &open);
}

static void on_made(struct meta_call *call, int status, void *message)
{
    struct tmpfile_op *op = call->data;
    struct client *client = op->mount->client;
    Morsel__Node *node = message;
    struct stat st;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0) {
        status = file_open(client, node->attr, node->layout, (op->flags & O_ACCMODE) != O_RDONLY,
                           true, &op->handle);
    }
    if (status != 0) {
        tmpfile_reply(op, client_errno(client, status), NULL);
        return;
    }
    mount_stat(node->attr, &st);
    fill_entry(&op->entry, &st);
    op->wait.done = on_servers_known;
    if (file_know_servers(op->handle->file, &op->wait)) {
        on_servers_known(&op->wait);
    }
}

static void tmpfile_start(struct tmpfile_op *op, const struct fuse_in_header *in,
                          const struct fuse_create_in *arguments)
{
    Morsel__CreateRequest request = MORSEL__CREATE_REQUEST__INIT;
    struct mount_user user = { in->uid, in->gid, (pid_t)in->pid };
    struct mount_who who;
    int rv;

    request.parent = in->nodeid;
    request.mode = (arguments->mode & ~(uint32_t)S_IFMT) | S_IFREG;
    request.umask = arguments->umask;
    request.open = true;
    request.orphan = true;
    request.who = mount_who_of(op->mount, &who, &user,
                               (arguments->mode & S_ISGID) != 0 ? INODE_NONE : (inode_id)in->nodeid,
                               MAY_WRITE | MAY_EXECUTE);
    op->flags = arguments->flags;
    op->call.data = op;
    rv = meta_change_start(&op->call, op->mount->client, MSG_CREATE, &request.base, &request.op,
                           &morsel__node__descriptor, on_made);
    if (rv != 0) {
        tmpfile_reply(op, client_errno(op->mount->client, rv), NULL);
    }
}

bool mount_take_tmpfile(struct mount *m, const struct fuse_buf *buf)
{
    struct fuse_in_header in;
    struct fuse_create_in arguments;
    struct tmpfile_op *op;

    if (buf->size < sizeof(in) + sizeof(arguments)) {
        return false;
    }
    memcpy(&in, buf->mem, sizeof(in));
    if (in.opcode != FUSE_TMPFILE) {
        return false;
    }
    memcpy(&arguments, (const char *)buf->mem + sizeof(in), sizeof(arguments));
    op = calloc(1, sizeof(*op));
    if (op == NULL) {
        mount_refuse(m, in.unique,
                     ENOMEM); /* libfuse would say ENOSYS, and the kernel not ask again. */
        return true;
    }
    op->mount = m;
    op->unique = in.unique;
    m->ops_count++;
    tmpfile_start(op, &in, &arguments);
    return true;
}
