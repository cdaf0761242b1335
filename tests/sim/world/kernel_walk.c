/* Names: fs/namei.c, fs/fuse/dir.c. A name that is not there is not kept. */
#include "tests/sim/world/kernel_cache.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

struct kdentry *dentry_find(const struct fuse_session *k, const struct knode *parent,
                            const char *name)
{
    LIST_FOREACH(at, &k->names)
    {
        struct kdentry *d = LIST_ENTRY(at, struct kdentry, node);

        if (d->parent == parent && strcmp(d->name, name) == 0) {
            return d;
        }
    }
    return NULL;
}

static void dentry_put(struct kdentry *d)
{
    if (d->pins == 0 && !d->hashed) {
        knode_put(d->inode);
        knode_put(d->parent);
        free(d);
    }
}

static void dentry_unpin(struct kdentry *d)
{
    d->pins--;
    dentry_put(d);
}

void dentry_drop(struct kdentry *d)
{
    if (d->hashed) {
        d->hashed = false;
        list_remove(&d->node);
        dentry_put(d);
    }
}

/* A directory has one name: it moves (d_splice_alias()). */
static void drop_names_of(struct knode *directory)
{
    LIST_FOREACH_SAFE(at, &directory->kernel->names)
    {
        struct kdentry *d = LIST_ENTRY(at, struct kdentry, node);

        if (d->inode == directory) {
            dentry_drop(d);
        }
    }
}

void dentry_add(struct knode *parent, const char *name, struct knode *inode, double seconds,
                uint64_t epoch)
{
    struct fuse_session *k = parent->kernel;
    struct kdentry *old = dentry_find(k, parent, name), *d = calloc(1, sizeof(*d));

    CHECK(d != NULL && strlen(name) < NAME_MAX_HERE);
    if (old != NULL) {
        dentry_drop(old);
    }
    if (S_ISDIR(inode->st.st_mode)) {
        drop_names_of(inode);
    }
    *d = (struct kdentry){ .parent = knode_keep(parent),
                           .inode = knode_keep(inode),
                           .jiffies_until = jiffies_in(seconds),
                           .epoch = epoch,
                           .hashed = true };
    (void)snprintf(d->name, sizeof(d->name), "%s", name);
    list_init(&d->node);
    list_push_back(&k->names, &d->node);
}

bool dentry_is_below(const struct knode *below, const struct knode *above)
{
    const struct knode *at = below;

    while (at != NULL && at != above) {
        const struct knode *parent = NULL;

        LIST_FOREACH(node, &at->kernel->names)
        {
            const struct kdentry *d = LIST_ENTRY(node, struct kdentry, node);

            parent = d->inode == at ? d->parent : parent;
        }
        at = parent;
    }
    return at == above;
}

static int ask_name(struct knode *directory, const char *name, struct fuse_entry_param *entry)
{
    struct fuse_req req = {
        .kernel = directory->kernel, .opcode = FUSE_LOOKUP, .inode = directory->number, .name = name
    };
    int rv = ask_and_wait(&req);

    *entry = req.entry;
    return rv == 0 && req.entry.ino == 0 ? ENOENT : rv;
}

static void forget_one(struct fuse_session *k, fuse_ino_t number)
{
    struct fuse_req *req = calloc(1, sizeof(*req));

    CHECK(req != NULL);
    *req = (struct fuse_req){
        .kernel = k, .opcode = FUSE_FORGET, .inode = number, .count_forgotten = 1
    };
    (void)ask_only(req);
}

/* fuse_dentry_revalidate() */
static bool is_still_so(struct kdentry *d, unsigned flags)
{
    struct fuse_session *k = d->parent->kernel;
    struct fuse_entry_param entry;
    uint64_t version = k->version;

    if (d->epoch < k->epoch) {
        return false;
    }
    if (jiffies_now() <= d->jiffies_until && (flags & (WALK_AGAIN | WALK_TARGET)) == 0) {
        k->counts.names_kept++;
        return true;
    }
    if (ask_name(d->parent, d->name, &entry) != 0) {
        return false;
    }
    if (entry.ino != d->inode->number) {
        forget_one(k, entry.ino);
        return false;
    }
    d->inode->lookups++;
    change_attributes(d->inode, &entry.attr, entry.attr_timeout, version);
    d->jiffies_until = jiffies_in(entry.entry_timeout);
    return true;
}

/* lookup_fast(): NULL: not known. */
static struct knode *find_known(struct knode *directory, const char *name, unsigned flags)
{
    struct kdentry *d = dentry_find(directory->kernel, directory, name);
    struct knode *node = NULL;

    if (d == NULL) {
        return NULL;
    }
    d->pins++;
    if (is_still_so(d, flags)) {
        node = knode_keep(d->inode);
    } else {
        dentry_drop(d);
    }
    dentry_unpin(d);
    return node;
}

/* Somebody who is looking the same name up. */
struct looking
{
    struct list node;
    const struct knode *directory;
    const char *name;
};

static bool is_looked_up(const struct knode *directory, const char *name)
{
    LIST_FOREACH(at, &directory->kernel->looking)
    {
        const struct looking *l = LIST_ENTRY(at, struct looking, node);

        if (l->directory == directory && strcmp(l->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* fuse_lookup() */
static int look_up(struct knode *directory, const char *name, struct knode **node)
{
    struct fuse_session *k = directory->kernel;
    struct looking looking = { .directory = directory, .name = name };
    uint64_t version = k->version, epoch = k->epoch, evictions = k->evictions;
    struct fuse_entry_param entry;
    int rv;

    list_init(&looking.node);
    list_push_back(&k->looking, &looking.node);
    rv = ask_name(directory, name, &entry);
    if (rv == 0) {
        *node = knode_get(k, &entry, version, evictions);
        dentry_add(directory, name, *node, entry.entry_timeout, epoch);
    }
    list_remove(&looking.node);
    wake_all(&k->looking_waiting);
    return rv;
}

/* As the kernel does it, the epoch is that of now, and not that of the question. */
void dentry_plus(struct knode *directory, const char *name, const struct fuse_entry_param *entry,
                 uint64_t version, uint64_t evictions)
{
    struct fuse_session *k = directory->kernel;
    uint64_t epoch = k->epoch;
    struct kdentry *d;
    struct knode *node;

    if (entry->ino == 0 || name[0] == '.') {
        return;
    }
    while (is_looked_up(directory, name)) {
        wait_in(&k->looking_waiting);
    }
    d = dentry_find(k, directory, name);
    k->counts.linked++;
    if (d != NULL && d->inode->number == entry->ino) {
        d->inode->lookups++;
        d->epoch = epoch;
        d->jiffies_until = jiffies_in(entry->entry_timeout);
        change_attributes(d->inode, &entry->attr, entry->attr_timeout, version);
        return;
    }
    if (d != NULL) {
        dentry_drop(d);
    }
    node = knode_get(k, entry, version, evictions);
    dentry_add(directory, name, node, entry->entry_timeout, epoch);
    knode_put(node);
}

/* lookup_slow() */
static int walk_slowly(struct knode *directory, const char *name, unsigned flags,
                       struct knode **node)
{
    while (is_looked_up(directory, name)) {
        wait_in(&directory->kernel->looking_waiting);
    }
    *node = find_known(directory, name, flags);
    if (*node != NULL) {
        return 0;
    }
    if (is_looked_up(directory, name)) {
        return walk_slowly(directory, name, flags, node);
    }
    return look_up(directory, name, node);
}

int walk(struct knode *directory, const char *name, unsigned flags, struct knode **node)
{
    int rv;

    *node = find_known(directory, name, flags);
    if (*node != NULL) {
        return 0;
    }
    if ((flags & WALK_LOCKED) != 0) {
        return walk_slowly(directory, name, flags, node);
    }
    klock_take(&directory->lock, false);
    rv = walk_slowly(directory, name, flags, node);
    klock_give(&directory->lock, false);
    return rv;
}
