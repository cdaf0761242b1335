/* What the kernel is to drop, told from the pool: it may need an answer from the loop before it
 * returns. */
#include "client/fuse/mount_fuse.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/uio.h>

/* Newer than the headers of Debian 12: every name that was looked up before is looked up again when
 * it is used. Takes no lock. */
enum { NOTIFY_INC_EPOCH = 8 };

static int notify_names(struct fuse_session *session)
{
    struct fuse_out_header header = { .len = sizeof(header), .error = NOTIFY_INC_EPOCH };
    ssize_t written = write(fuse_session_fd(session), &header, sizeof(header));

    return written < 0 ? -errno : 0;
}

/* A page fault does not ask how long the file is: it goes by what the kernel believes, and ends the
 * process beyond that. Nor does the kernel take over the answer to its own question when somebody
 * has written meanwhile. Storing the last byte tells it, and it only ever makes the file longer.
 *
 * But a byte that were stored might lie in a page that holds a write which has not reached us yet:
 * so it comes from an address that nobody can read. The kernel takes over the size, finds no byte
 * (EFAULT), and leaves the page as it is. */
static void notify_size(const struct mount *m, inode_id inode, uint64_t size)
{
    struct fuse_notify_store_out store = { .nodeid = inode, .offset = size - 1, .size = 1 };
    struct fuse_out_header header = { .len = sizeof(header) + sizeof(store) + 1,
                                      .error = FUSE_NOTIFY_STORE };
    struct iovec iov[3] = { { &header, sizeof(header) },
                            { &store, sizeof(store) },
                            { m->unreadable, 1 } };

    (void)writev(fuse_session_fd(m->session), iov, 3); /* ENOENT: it does not know the inode. */
}

void mount_drop_names(struct mount *m)
{
    (void)notify_names(m->session);
}

bool mount_probe_drops_names(struct fuse_session *session)
{
    return notify_names(session) == 0;
}

struct drop_batch
{
    uv_work_t work;
    struct mount *mount;
    struct list drops;
};

static void run(uv_work_t *work)
{
    struct drop_batch *batch = work->data;
    struct fuse_session *session = batch->mount->session;
    bool names = false;

    LIST_FOREACH(node, &batch->drops)
    {
        const struct kernel_drop *drop = LIST_ENTRY(node, struct kernel_drop, node);

        if (drop->size > 0) {
            notify_size(batch->mount, drop->inode, drop->size);
        }
        /* An inode that the kernel does not know is none that it could drop. */
        if (drop->pages) {
            (void)fuse_lowlevel_notify_inval_inode(session, drop->inode, 0, 0);
        } else if (drop->attr) {
            (void)fuse_lowlevel_notify_inval_inode(session, drop->inode, -1, 0);
        }
        names |= drop->names;
    }
    if (names) {
        (void)notify_names(session);
    }
}

static void start_batch(struct mount *m);

static void on_run(uv_work_t *work, int status)
{
    struct drop_batch *batch = work->data;
    struct mount *m = batch->mount;
    struct list *node;

    (void)status;
    while ((node = list_pop_front(&batch->drops)) != NULL) {
        struct kernel_drop *drop = LIST_ENTRY(node, struct kernel_drop, node);

        drop->done(drop);
    }
    free(batch);
    m->batches--;
    start_batch(m);
}

/* What has come together goes together. Pages may have to wait for a read that is in our hands, and
 * that for a server: so a batch with pages does not hold up the next. */
static void start_batch(struct mount *m)
{
    struct drop_batch *batch;
    struct list *node;

    if (list_empty(&m->drops) || m->batches == DROP_BATCHES_MAX ||
        (batch = calloc(1, sizeof(*batch))) == NULL) {
        return; /* The next to end, or to come, tries again. */
    }
    batch->mount = m;
    batch->work.data = batch;
    list_init(&batch->drops);
    while ((node = list_pop_front(&m->drops)) != NULL) {
        list_push_back(&batch->drops, node);
    }
    m->batches++;
    if (uv_queue_work(m->client->loop, &batch->work, run, on_run) != 0) {
        on_run(&batch->work, UV_ECANCELED);
    }
}

void mount_kernel_drop(void *mount, struct kernel_drop *drop)
{
    struct mount *m = mount;

    list_push_back(&m->drops, &drop->node);
    start_batch(m);
}
