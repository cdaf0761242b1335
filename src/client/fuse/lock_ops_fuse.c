/* Locks: GETLK, SETLK, SETLKW of fcntl(2) (of processes and of open files, which the kernel tells
 * apart by their owners), and flock(2).
 *
 * A lock of a process ends with any close of the file by it: FLUSH says whose. A lock of an open
 * file ends with its RELEASE. Bytes are with the servers, or under a lease that others recall,
 * before a lock is freed.
 */
#include "client/fuse/mount_fuse.h"

#include "client/coherence/lock_uv.h"
#include "common/base/status.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>

struct lock_op
{
    struct mount_op base;
    struct lock_call lock;
};

static int status_of(int status, enum lock_answer answer)
{
    if (status != 0) {
        return status;
    }
    switch (answer) {
    case LOCK_GRANTED:
        return MORSEL_OK;
    case LOCK_HELD_BY_OTHERS:
        return MORSEL_AGAIN;
    case LOCK_DEADLOCK:
        return MORSEL_DEADLK;
    case LOCK_LIMIT:
        return MORSEL_NOLCK;
    case LOCK_CANCELED:
    case LOCK_ASK_AGAIN:
        break;
    }
    return MORSEL_CANCELED;
}

static void on_set(struct lock_call *call, int status, enum lock_answer answer,
                   const struct byte_lock *conflict)
{
    struct lock_op *op = CONTAINER_OF(call, struct lock_op, lock);

    (void)conflict;
    mount_op_fail(&op->base, status_of(status, answer));
}

static void lock_op_cancel(struct mount_op *base)
{
    lock_cancel(&CONTAINER_OF(base, struct lock_op, base)->lock);
}

static struct handle *handle_of(const struct fuse_file_info *fi)
{
    return (struct handle *)(uintptr_t)fi->fh;
}

static void start(struct lock_op *op, const struct fuse_file_info *fi, const struct byte_lock *lock,
                  enum lock_how how,
                  void (*done)(struct lock_call *call, int status, enum lock_answer answer,
                               const struct byte_lock *conflict))
{
    int rv = lock_start(&op->lock, op->base.mount->client, handle_of(fi), lock, how, done);

    if (rv != 0) {
        mount_op_fail(&op->base, rv);
        return;
    }
    op->base.cancel = lock_op_cancel;
    op->base.cancel_at_once = true;
    if (op->base.interrupted_ms != 0) {
        lock_op_cancel(&op->base); /* Before we came to look. */
    }
}

static enum lock_type type_of(short type)
{
    return type == F_RDLCK ? LOCK_SHARED : type == F_WRLCK ? LOCK_EXCLUSIVE : LOCK_NONE;
}

/* The kernel has made start and length plain: from the beginning of the file, and not negative. */
static struct byte_lock range_of(fuse_ino_t ino, const struct fuse_file_info *fi,
                                 const struct flock *flock)
{
    struct byte_lock lock = { .inode = ino,
                              .kind = LOCK_RANGE,
                              .owner = { 0, fi->lock_owner },
                              .type = type_of(flock->l_type),
                              .start = (uint64_t)flock->l_start,
                              .end = INT64_MAX,
                              .pid = flock->l_pid };

    if (flock->l_len > 0) {
        lock.end = lock.start + (uint64_t)flock->l_len - 1;
    }
    return lock;
}

static void on_tested(struct lock_call *call, int status, enum lock_answer answer,
                      const struct byte_lock *conflict)
{
    struct lock_op *op = CONTAINER_OF(call, struct lock_op, lock);
    struct flock flock = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

    if (status == 0 && answer == LOCK_HELD_BY_OTHERS) {
        flock.l_type = conflict->type == LOCK_EXCLUSIVE ? F_WRLCK : F_RDLCK;
        flock.l_start = (off_t)conflict->start;
        flock.l_len = conflict->end == INT64_MAX ? 0 : (off_t)(conflict->end - conflict->start + 1);
        flock.l_pid = conflict->pid;
    } else if (status != 0 || answer != LOCK_GRANTED) {
        mount_op_fail(&op->base, status_of(status, answer));
        return;
    }
    (void)fuse_reply_lock(op->base.req, &flock);
    mount_op_end(&op->base);
}

static void on_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *flock)
{
    struct lock_op *op = mount_op_new(req, MOUNT_LOCK, sizeof(*op));
    struct byte_lock lock = range_of(ino, fi, flock);

    if (op != NULL) {
        start(op, fi, &lock, LOCK_TEST, on_tested);
    }
}

static void on_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *flock,
                     int sleep)
{
    struct lock_op *op = mount_op_new(req, MOUNT_LOCK, sizeof(*op));
    struct byte_lock lock = range_of(ino, fi, flock);

    if (op != NULL) {
        start(op, fi, &lock, sleep != 0 ? LOCK_WAIT : LOCK_TRY, on_set);
    }
}

static void on_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int operation)
{
    struct lock_op *op = mount_op_new(req, MOUNT_LOCK, sizeof(*op));
    struct byte_lock lock = { .inode = ino,
                              .kind = LOCK_FLOCK,
                              .owner = { 0, fi->lock_owner },
                              .type = (operation & LOCK_UN) != 0   ? LOCK_NONE
                                      : (operation & LOCK_EX) != 0 ? LOCK_EXCLUSIVE
                                                                   : LOCK_SHARED,
                              .end = INT64_MAX };

    if (op != NULL) {
        start(op, fi, &lock, (operation & LOCK_NB) != 0 ? LOCK_TRY : LOCK_WAIT, on_set);
    }
}

/* ---- The ends of locks ---- */

/* Freed without anybody waiting for it. */
struct unlock
{
    struct lock_call call;
    struct mount_op *op; /* Waits; NULL: nobody does. */
    void (*then)(struct mount_op *op);
};

static void on_unlocked(struct lock_call *call, int status, enum lock_answer answer,
                        const struct byte_lock *conflict)
{
    struct unlock *unlock = CONTAINER_OF(call, struct unlock, call);

    (void)status; /* We know what we hold, and say so in the next SESSION. */
    (void)answer;
    (void)conflict;
    if (unlock->op != NULL) {
        unlock->then(unlock->op);
    }
    free(unlock);
}

/* False: no memory to say so; the lock goes all the same, soon. */
static bool unlock_start(struct client *client, const struct byte_lock *lock, struct mount_op *op,
                         void (*then)(struct mount_op *op))
{
    struct unlock *unlock = calloc(1, sizeof(*unlock));

    if (unlock != NULL) {
        unlock->op = op;
        unlock->then = then;
        if (lock_start(&unlock->call, client, NULL, lock, LOCK_TRY, on_unlocked) == 0) {
            return true;
        }
    }
    free(unlock);
    lock_let_go(client, lock);
    return false;
}

void mount_unlock_process(struct mount *m, struct mount_op *op, inode_id inode, uint64_t owner,
                          void (*then)(struct mount_op *op))
{
    struct client *client = m->client;
    struct byte_lock all = {
        .inode = inode, .kind = LOCK_RANGE, .owner = { 0, owner }, .end = INT64_MAX
    };

    if ((!lock_has(client, inode, LOCK_RANGE, owner) || !unlock_start(client, &all, op, then)) &&
        op != NULL) {
        then(op);
    }
}

void mount_unlock_handle(struct mount *m, const struct handle *handle)
{
    struct byte_lock lock;

    while (lock_of_handle(m->client, handle, &lock)) {
        (void)unlock_start(m->client, &lock, NULL, NULL);
    }
    lock_forget_handle(m->client, handle);
}

void mount_lock_operations(struct fuse_lowlevel_ops *ops)
{
    ops->getlk = on_getlk;
    ops->setlk = on_setlk;
    ops->flock = on_flock;
}
