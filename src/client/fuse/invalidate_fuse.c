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
    kernel_names_dropped(m->names, client_present_ms(m->client));
}

bool mount_probe_drops_names(struct fuse_session *session)
{
    return notify_names(session) == 0;
}

/* ---- In the pool ---- */

struct drop_job
{
    uv_work_t work;
    struct mount *mount;
    bool waits; /* A single one, which may have to wait for a page. */
    struct list drops;
};

/* Pages may have to wait for a read that is in our hands, and that for a server. */
static bool may_wait(const struct kernel_drop *drop)
{
    return drop->pages || drop->size > 0;
}

static void run(uv_work_t *work)
{
    struct drop_job *job = work->data;
    struct fuse_session *session = job->mount->session;
    bool names = false;

    LIST_FOREACH(node, &job->drops)
    {
        struct kernel_drop *drop = LIST_ENTRY(node, struct kernel_drop, node);
        int rv = 0;

        if (drop->size > 0) {
            notify_size(job->mount, drop->inode, drop->size);
        }
        if (drop->pages) {
            rv = fuse_lowlevel_notify_inval_inode(session, drop->inode, 0, 0);
        } else if (drop->attr) {
            rv = fuse_lowlevel_notify_inval_inode(session, drop->inode, -1, 0);
        }
        /* It does not know the inode: or not yet, and will believe what we have answered. */
        drop->again = rv == -ENOENT && uv_hrtime() < drop->unknown_until_ns;
        names |= drop->names;
    }
    if (names) {
        (void)notify_names(session);
    }
}

static void start_jobs(struct mount *m);

static void on_retry(uv_timer_t *timer)
{
    struct mount *m = timer->data;
    struct list *node;

    while ((node = list_pop_front(&m->drops_again)) != NULL) {
        list_push_back(&m->drops, node);
    }
    start_jobs(m);
}

static void retry_later(struct mount *m)
{
    if (!uv_is_active((uv_handle_t *)&m->drop_retry)) {
        (void)uv_timer_start(&m->drop_retry, on_retry, DROP_RETRY_MS, 0);
    }
}

static void drop_ended(struct mount *m, struct kernel_drop *drop)
{
    if (drop->names) {
        kernel_names_dropped(m->names, client_present_ms(m->client));
    }
    /* Once it has said that it has forgotten the inode there is nothing more to come. */
    if (drop->again && m->mounted &&
        !kernel_known_is_forgotten(meta_cache_kernel(m->client->cache, drop->inode))) {
        list_push_back(&m->drops_again, &drop->node);
        retry_later(m);
        return;
    }
    drop->done(drop);
}

static void on_run(uv_work_t *work, int status)
{
    struct drop_job *job = work->data;
    struct mount *m = job->mount;
    struct list *node;

    (void)status;
    while ((node = list_pop_front(&job->drops)) != NULL) {
        drop_ended(m, LIST_ENTRY(node, struct kernel_drop, node));
    }
    if (job->waits) {
        m->drops_waiting--;
    } else {
        m->drops_quick--;
    }
    free(job);
    start_jobs(m);
}

static void start_job(struct drop_job *job)
{
    if (uv_queue_work(job->mount->client->loop, &job->work, run, on_run) != 0) {
        on_run(&job->work, UV_ECANCELED);
    }
}

static struct drop_job *job_new(struct mount *m, bool waits)
{
    struct drop_job *job = calloc(1, sizeof(*job));

    if (job != NULL) {
        job->mount = m;
        job->work.data = job;
        job->waits = waits;
        list_init(&job->drops);
        m->drops_waiting += waits;
        m->drops_quick += !waits;
    }
    return job;
}

/* What waits for nothing and has come together goes together. What may have to wait goes alone: so
 * it holds up nobody else, as long as fewer than DROPS_WAITING_MAX do. Without memory it is
 * tried again, as long as we are mounted. */
static void start_jobs(struct mount *m)
{
    struct drop_job *quick = NULL, *job;

    LIST_FOREACH_SAFE(node, &m->drops)
    {
        bool waits = may_wait(LIST_ENTRY(node, struct kernel_drop, node));

        if (waits ? m->drops_waiting == DROPS_WAITING_MAX : quick == NULL && m->drops_quick > 0) {
            continue;
        }
        job = waits || quick == NULL ? job_new(m, waits) : quick;
        if (job == NULL && m->mounted) {
            retry_later(m);
            break;
        }
        if (job == NULL) {
            struct kernel_drop *drop = LIST_ENTRY(node, struct kernel_drop, node);

            list_remove(node);
            drop->done(drop); /* There is nobody any more to be told. */
            continue;
        }
        list_remove(node);
        list_push_back(&job->drops, node);
        if (waits) {
            start_job(job);
        } else {
            quick = job;
        }
    }
    if (quick != NULL) {
        start_job(quick);
    }
}

void mount_kernel_drop(void *mount, struct kernel_drop *drop)
{
    struct mount *m = mount;

    list_push_back(&m->drops, &drop->node);
    start_jobs(m);
}

void mount_drops_end(struct mount *m)
{
    struct list *node;

    m->mounted = false;
    while ((node = list_pop_front(&m->drops_again)) != NULL) {
        struct kernel_drop *drop = LIST_ENTRY(node, struct kernel_drop, node);

        drop->done(drop);
    }
}
