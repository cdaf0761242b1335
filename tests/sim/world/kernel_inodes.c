/* Inodes and their attributes, and what the mount tells of them unasked: fs/fuse/inode.c, dev.c. */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum { JIFFY_NS = 4000000, NOTIFY_INC_EPOCH = 8 };

uint64_t jiffies_now(void)
{
    return the_world->now_ns / JIFFY_NS;
}

/* 0: at no time. */
uint64_t jiffies_in(double seconds)
{
    return seconds > 0 ? jiffies_now() + (uint64_t)(seconds * 1e9 + JIFFY_NS - 1) / JIFFY_NS : 0;
}

struct knode *knode_find(const struct fuse_session *k, fuse_ino_t number)
{
    LIST_FOREACH(at, &k->nodes)
    {
        struct knode *node = LIST_ENTRY(at, struct knode, node);

        if (node->number == number) {
            return node;
        }
    }
    return NULL;
}

struct knode *knode_of(const struct fuse_session *k, fuse_ino_t number)
{
    struct knode *node = knode_find(k, number);

    CHECK(node != NULL);
    return node;
}

struct knode *knode_keep(struct knode *node)
{
    node->references++;
    return node;
}

/* Of one to which nothing leads any more. */
static void evict(struct knode *node)
{
    struct fuse_session *k = node->kernel;
    struct fuse_req *req = calloc(1, sizeof(*req));

    CHECK(req != NULL && node->references == 0 && !pages_any_locked(node));
    *req = (struct fuse_req){
        .kernel = k, .opcode = FUSE_FORGET, .inode = node->number, .count_forgotten = node->lookups
    };
    k->evictions++;
    (void)ask_only(req);
    list_remove(&node->node);
    pages_drop_some(node);
    free(node->pages);
    free(node);
}

void knode_put(struct knode *node)
{
    CHECK(node->references > 0);
    if (--node->references == 0 && !pages_any_locked(node) &&
        (node->st.st_nlink == 0 || world_chance(4))) {
        evict(node);
    }
}

/* One of `n` names, and so on. */
static void press(struct fuse_session *k, uint64_t names_n, uint64_t nodes_n)
{
    LIST_FOREACH_SAFE(at, &k->names)
    {
        struct kdentry *d = LIST_ENTRY(at, struct kdentry, node);

        if (d->pins == 0 && world_chance(names_n)) {
            dentry_drop(d);
        }
    }
    LIST_FOREACH_SAFE(at, &k->nodes)
    {
        struct knode *node = LIST_ENTRY(at, struct knode, node);

        if (world_chance(8)) {
            pages_drop_some(node);
        }
        if (node->references == 0 && !pages_any_locked(node) && world_chance(nodes_n)) {
            evict(node);
        }
    }
}

void kernel_forget_all(struct fuse_session *k)
{
    if (k->process != NULL && k->process->alive) {
        press(k, 1, 1);
    }
}

void kernel_presses(void *data)
{
    struct fuse_session *k = data;

    if (!k->process->alive) {
        return;
    }
    press(k, 8, 2);
    world_in(world_draw(4 * WORLD_S), kernel_presses, k);
}

/* ---- Attributes ---- */

void change_attributes_at_once(struct knode *node, const struct stat *st, double seconds)
{
    node->stale = node->stale_atime = false;
    node->version = ++node->kernel->version;
    node->jiffies_until = jiffies_in(seconds);
    node->st = *st;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

void change_attributes(struct knode *node, const struct stat *st, double seconds, uint64_t version)
{
    struct timespec modified = node->st.st_mtim;
    uint64_t size = node->size;

    if ((version != 0 && node->version > version) || node->unstable) {
        node->kernel->counts.passed_over++;
        return;
    }
    change_attributes_at_once(node, st, seconds);
    node->size = (uint64_t)st->st_size;
    if (!S_ISREG(st->st_mode)) {
        return;
    }
    if (size != node->size) {
        pages_truncate(node, node->size);
        pages_invalidate(node);
    } else if (!same_time(&modified, &st->st_mtim)) {
        pages_invalidate(node);
    }
}

struct knode *knode_get(struct fuse_session *k, const struct fuse_entry_param *entry,
                        uint64_t version, uint64_t evictions)
{
    struct knode *node = knode_find(k, entry->ino);

    if (node == NULL) {
        node = calloc(1, sizeof(*node));
        CHECK(node != NULL);
        node->kernel = k;
        node->number = entry->ino;
        node->st = entry->attr;
        node->size = (uint64_t)entry->attr.st_size;
        list_init(&node->node);
        list_init(&node->page_waiting);
        list_init(&node->lock.waiting);
        list_push_back(&k->nodes, &node->node);
        change_attributes_at_once(node, &entry->attr, entry->attr_timeout);
        /* Something was forgotten meanwhile, perhaps this one, and what was told of it then. */
        node->stale = evictions != 0 && evictions != k->evictions;
        node->lookups = 1;
        return knode_keep(node);
    }
    node->lookups++;
    (void)knode_keep(node);
    change_attributes(node, &entry->attr, entry->attr_timeout, version);
    return node;
}

/* What was written here: the file is at least so long. */
void write_update_attributes(struct knode *node, uint64_t end)
{
    node->version = ++node->kernel->version;
    node->size = node->size < end ? end : node->size;
    node->stale = true;
}

int ask_attributes(struct knode *node, struct fuse_file_info *info, struct stat *st)
{
    struct fuse_req req = {
        .kernel = node->kernel, .opcode = FUSE_GETATTR, .inode = node->number, .info = info
    };
    uint64_t version = node->kernel->version;
    int rv = ask_and_wait(&req);

    if (rv == 0) {
        change_attributes(node, &req.st, req.seconds, version);
    }
    if (rv == 0 && st != NULL) {
        *st = req.st;
    }
    return rv;
}

/* ---- What the mount says unasked: from its pool, or from its loop ---- */

struct inval
{
    struct knode *node;
    struct world_work *work;
};

static void invalidate(void *data)
{
    struct inval *inval = data;

    pages_invalidate(inval->node);
    knode_put(inval->node);
    world_work_release(inval->work);
    free(inval);
}

/* The thread that says it waits until no page is locked any more. */
int fuse_lowlevel_notify_inval_inode(struct fuse_session *k, fuse_ino_t inode, off_t offset,
                                     off_t length)
{
    struct knode *node = knode_find(k, inode);
    struct inval *inval;

    CHECK(length == 0);
    if (!k->process->alive || node == NULL) {
        return -ENOENT;
    }
    k->counts.notified++;
    node->version = ++k->version;
    node->stale = node->stale_atime = true;
    if (offset < 0) {
        return 0;
    }
    (void)knode_keep(node);
    if (!pages_any_locked(node)) {
        pages_invalidate(node);
        knode_put(node);
        return 0;
    }
    inval = malloc(sizeof(*inval));
    CHECK(inval != NULL);
    *inval = (struct inval){ node, world_work_hold() };
    (void)fiber_start(0, invalidate, inval);
    return 0;
}

/* FUSE_NOTIFY_STORE of a byte that cannot be read: only the size is taken over. */
static int store_size(struct fuse_session *k, const struct fuse_notify_store_out *store)
{
    struct knode *node = knode_find(k, store->nodeid);

    if (node == NULL) {
        return ENOENT;
    }
    if (store->offset + store->size > node->size) {
        write_update_attributes(node, store->offset + store->size);
    }
    return EFAULT;
}

static struct fuse_session *kernel_of(int fd)
{
    return fd >= 0 && fd < KERNEL_FDS_MAX ? kernel_of_fd[fd] : NULL;
}

bool kernel_device_write(int fd, const struct iovec *iov, int count, ssize_t *result)
{
    struct fuse_session *k = kernel_of(fd);
    struct fuse_out_header header;
    struct fuse_notify_store_out store;
    int error = EINVAL;

    if (k == NULL) {
        return false;
    }
    CHECK(iov[0].iov_len == sizeof(header));
    memcpy(&header, iov[0].iov_base, sizeof(header));
    if (header.error == NOTIFY_INC_EPOCH && k->has_epochs) {
        k->epoch++;
        error = 0;
    } else if (header.error == FUSE_NOTIFY_STORE) {
        CHECK(count == 3 && iov[1].iov_len == sizeof(store));
        memcpy(&store, iov[1].iov_base, sizeof(store));
        error = store_size(k, &store);
    }
    errno = error;
    *result = error == 0 ? (ssize_t)header.len : -1;
    return true;
}
