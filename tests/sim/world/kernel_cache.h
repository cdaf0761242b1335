/* What the kernel above a mount keeps: names, inodes with their attributes, pages. As Linux 6.18
 * does it (fs/fuse, fs/namei.c, mm/filemap.c); the functions are named after what they do there.
 * For the files kernel*.c alone.
 *
 * All of it runs in fibers, and may wait; what does not says so. */
#ifndef MORSEL_TESTS_SIM_KERNEL_CACHE_H
#define MORSEL_TESTS_SIM_KERNEL_CACHE_H

#include "tests/sim/world/kernel.h"

enum { PAGE = 4096, REQUEST_BYTES_MAX = 1 << 20, NAME_MAX_HERE = 40 };

/* ---- Waiting: kernel_lock.c ---- */

/* Fibers that wait for something to change. */
void wait_in(struct list *waiting);

/* Does not wait. */
void wake_all(struct list *waiting);

void klock_take(struct klock *lock, bool alone);
void klock_give(struct klock *lock, bool alone);

/* ---- Requests: kernel.c ---- */

struct fuse_req
{
    struct list node;
    struct fuse_session *kernel;
    struct fuse_ctx context;
    uint32_t opcode;
    uint64_t unique;
    fuse_ino_t inode, inode_to;
    uint64_t count_forgotten;
    const char *name, *name_to;
    const void *bytes;
    size_t size;
    uint64_t offset;
    struct stat set;
    int valid; /* Of what is set. */
    struct fuse_file_info *info;
    struct fuse_file_info own_info; /* Of one that nobody waits for. */
    struct flock *lock;
    int flock; /* What flock(2) was told. */
    int flags; /* Of RENAME2, FALLOCATE, SETXATTR; LSEEK's whence. */
    uint64_t length;
    uint64_t offset_to; /* COPY_FILE_RANGE */
    struct fuse_file_info *info_to;
    uint64_t of;           /* INTERRUPT: the request. */
    uint64_t interrupt_ns; /* It is sent so much later; 0: never. */
    bool interrupted;
    void (*on_interrupt)(struct fuse_req *req, void *data);
    void *on_interrupt_data;
    /* The answer */
    struct fiber *asker;               /* NULL: nobody waits for it, and it is freed. */
    void (*end)(struct fuse_req *req); /* Then this comes before. */
    bool done;
    int error;
    struct fuse_entry_param entry;
    struct stat st;
    double seconds;
    struct fuse_file_info info_answered;
    struct statvfs space;
    void *into;
    size_t count;
    /* A READ for pages */
    struct knode *pages_of;
    uint64_t version;
};

int ask_and_wait(struct fuse_req *req);

/* The mount has answered, or is gone. */
int kernel_answer(struct fuse_req *req, int error);

/* Of one from calloc(): does not wait. False: the mount is gone, it has been freed. */
bool ask_only(struct fuse_req *req);

/* ---- Inodes: kernel_inodes.c ---- */

struct kpage
{
    bool fresh; /* Its bytes are those of the file. */
    bool locked;
    uint8_t bytes[PAGE];
};

struct knode
{
    struct list node;
    struct fuse_session *kernel;
    fuse_ino_t number;
    uint64_t lookups;
    unsigned references; /* Names, files and calls. */
    struct stat st;
    uint64_t size; /* i_size */
    uint64_t jiffies_until;
    bool stale, stale_atime; /* inval_mask: all that counts; what only stat(2) wants to know. */
    uint64_t version;        /* attr_version */
    bool unstable;           /* FUSE_I_SIZE_UNSTABLE */
    struct kpage **pages;
    uint64_t pages_count; /* Room in `pages`. */
    uint64_t read_last;   /* The page behind the last read. */
    struct list page_waiting;
    struct klock lock;
};

uint64_t jiffies_now(void);
uint64_t jiffies_in(double seconds);

struct knode *knode_find(const struct fuse_session *k, fuse_ino_t number);

/* Of one that a program has a reference to. */
struct knode *knode_of(const struct fuse_session *k, fuse_ino_t number);
struct knode *knode_keep(struct knode *node);
void knode_put(struct knode *node);

/* What a LOOKUP or CREATE has answered; with a reference. `version`, `evictions`: when it was
 * asked; 0: it is believed whatever came since. */
struct knode *knode_get(struct fuse_session *k, const struct fuse_entry_param *entry,
                        uint64_t version, uint64_t evictions);
void change_attributes(struct knode *node, const struct stat *st, double seconds, uint64_t version);
void change_attributes_at_once(struct knode *node, const struct stat *st, double seconds);
void write_update_attributes(struct knode *node, uint64_t end);
/* `st`, unless NULL: what the answer says, also where it is passed over for what is kept
 * (fuse_do_getattr()). */
int ask_attributes(struct knode *node, struct fuse_file_info *info, struct stat *st);

/* Forget what nobody uses, at times. */
void kernel_presses(void *kernel);

/* ---- Pages: kernel_pages.c ---- */

struct kpage *page_find(const struct knode *node, uint64_t number);
bool pages_any_locked(const struct knode *node);

/* invalidate_inode_pages2(): waits for each that is locked. */
void pages_invalidate(struct knode *node);

/* truncate_pagecache() */
void pages_truncate(struct knode *node, uint64_t size);

/* truncate_pagecache_range(): the bytes of it are zeros, whole pages go. `whole`: those that it
 * begins or ends in, too. */
void pages_punch(struct knode *node, uint64_t offset, uint64_t length, bool whole);

/* Those that nobody uses. Does not wait. */
void pages_drop_some(struct knode *node);
int pages_read(struct kernel_file *file, uint64_t offset, void *bytes, size_t size, size_t *got);
int pages_write(struct kernel_file *file, uint64_t offset, const void *bytes, size_t size);

/* ---- Names: kernel_walk.c ---- */

struct kdentry
{
    struct list node;
    struct knode *parent, *inode;
    char name[NAME_MAX_HERE];
    uint64_t jiffies_until;
    uint64_t epoch;
    unsigned pins;
    bool hashed;
};

enum {
    WALK_AGAIN = 1,  /* LOOKUP_REVAL */
    WALK_TARGET = 2, /* LOOKUP_RENAME_TARGET, LOOKUP_EXCL */
    WALK_LOCKED = 4  /* The directory's lock is ours. */
};

/* With a reference. */
int walk(struct knode *directory, const char *name, unsigned flags, struct knode **node);

struct kdentry *dentry_find(const struct fuse_session *k, const struct knode *parent,
                            const char *name);
void dentry_add(struct knode *parent, const char *name, struct knode *inode, double seconds,
                uint64_t epoch);
void dentry_drop(struct kdentry *d);

/* Is `below` the directory `above`, or somewhere in it, as far as the names are known? */
bool dentry_is_below(const struct knode *below, const struct knode *above);

/* fuse_direntplus_link(): what READDIRPLUS says of a name that it knows or not. `version` and
 * `evictions` are those of when it was asked. */
void dentry_plus(struct knode *directory, const char *name, const struct fuse_entry_param *entry,
                 uint64_t version, uint64_t evictions);

/* What begins anew when it was told ESTALE, once, and asks for every name then. */
#define RETRY_STALE(rv, flags, call)                                                               \
    unsigned flags = 0;                                                                            \
    int rv = (call);                                                                               \
    if (rv == ESTALE) {                                                                            \
        flags = WALK_AGAIN;                                                                        \
        rv = (call);                                                                               \
    }

/* ---- System calls among themselves: kernel_calls.c ---- */

/* write(2) under the file's lock. */
int write_there(struct kernel_file *file, uint64_t offset, const void *bytes, size_t size);

#endif
