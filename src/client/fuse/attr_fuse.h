/* What GETATTR (attr_ops_fuse.c) and SETATTR (setattr_ops_fuse.c) have in common. */
#ifndef MORSEL_CLIENT_FUSE_ATTR_FUSE_H
#define MORSEL_CLIENT_FUSE_ATTR_FUSE_H

#include "client/coherence/size_lock_uv.h"
#include "client/fuse/mount_fuse.h"

struct size_op
{
    struct mount_op base;
    struct handle *handle; /* Ours, for the time of the operation. */
    struct file_flush flush;
    struct range_op range;
    struct servers_wait wait;
    /* SETATTR */
    inode_id inode;
    uint32_t valid;
    struct stat st;
    double seconds;   /* How long the kernel may keep the attributes. */
    bool by_handle;   /* The kernel asks for itself, before it reads from its pages. */
    bool drops_pages; /* Those go before the answer. */
    struct kernel_question question;
    struct kernel_drop_waiter drop;
    struct list behind;         /* In mount->behind_truncations. */
    struct size_lock size_lock; /* To truncate a shared file. */
    struct file *truncating;    /* Pinned. */
    bool cutting;               /* The manager was asked to cut the map of a data set. */
    uint64_t
        lease_epoch; /* Of our client when it might truncate: it holds the right under this one. */
};

/* For op->cancel. */
void mount_size_cancel(struct mount_op *base);

/* Answer with the attributes in the table, under a lease. False: the manager must be asked. */
bool mount_attr_reply_here(struct size_op *op);

/* A SETATTR of the inode has been answered, and is gone: GETATTRs may have waited for it. */
void mount_after_truncation(struct mount *m, inode_id inode);

#endif
