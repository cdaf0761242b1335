/* Directories: OPENDIR, READDIR, READDIRPLUS, RELEASEDIR, FSYNCDIR.
 *
 * A directory is read from the manager in pages ordered by name. A handle keeps one page; the
 * kernel's offset of an entry is its place in the order in which this handle has met the entries (1
 * is ".", 2 is ".."), and the next page begins behind the last name, so entries that come or go
 * elsewhere never shift what is still to be read. Offset 0 begins again.
 */
#include "client/fuse/mount_fuse.h"

#include "client/manager/changes.h"

#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

struct dir
{
    struct list node; /* In mount->dirs. */
    inode_id inode;
    bool removed;               /* By this mount, while open. */
    bool lost;                  /* Names that were here may be gone: fsync is to say so. */
    struct stat last;           /* Then: what fstat(2) says. */
    Morsel__ReaddirReply *page; /* NULL: none yet. */
    uint64_t page_first;        /* Place of the page's first entry; places of names begin at 2. */
    bool plus;                  /* The page carries attributes. */
    uint64_t listing;           /* meta_cache_listing() when the first page came; 0: no lease. */
};

struct dir_op
{
    struct mount_op base;
    struct dir *dir;
    bool plus;
    size_t size;
    uint64_t offset; /* Entries that the kernel has. */
    bool fresh;      /* The page has just come. */
};

static struct dir *dir_of(const struct fuse_file_info *fi)
{
    return (struct dir *)(uintptr_t)fi->fh;
}

static void page_drop(struct dir *dir)
{
    if (dir->page != NULL) {
        morsel__readdir_reply__free_unpacked(dir->page, NULL);
        dir->page = NULL;
    }
}

static void on_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct mount *m = fuse_req_userdata(req);
    uint32_t thread = (uint32_t)fuse_req_ctx(req)->pid;
    struct dir *dir;

    if (kernel_names_is_stranger(ino)) {
        kernel_names_sent_back(m->names, thread, client_present_ms(m->client));
        (void)fuse_reply_err(req, ESTALE);
        return;
    }
    kernel_names_other(m->names, thread);
    dir = calloc(1, sizeof(*dir));
    if (dir == NULL) {
        (void)fuse_reply_err(req, ENOMEM);
        return;
    }
    dir->inode = ino;
    dir->lost = changes_lost(m->client->data.changes, ino);
    list_init(&dir->node);
    list_push_back(&m->dirs, &dir->node);
    fi->fh = (uint64_t)(uintptr_t)dir;
    if (fuse_reply_open(req, fi) == -ENOENT) {
        list_remove(&dir->node);
        free(dir);
    }
}

void mount_dir_removed(struct mount *m, const Morsel__Attr *attr)
{
    LIST_FOREACH(node, &m->dirs)
    {
        struct dir *dir = LIST_ENTRY(node, struct dir, node);

        if (dir->inode == attr->inode) {
            mount_stat(attr, &dir->last);
            dir->last.st_nlink = 0;
            dir->removed = true;
        }
    }
}

const struct stat *mount_dir_removed_stat(struct mount *m, inode_id inode)
{
    LIST_FOREACH(node, &m->dirs)
    {
        struct dir *dir = LIST_ENTRY(node, struct dir, node);

        if (dir->inode == inode && dir->removed) {
            return &dir->last;
        }
    }
    return NULL;
}

static void on_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct dir *dir = dir_of(fi);

    (void)ino;
    page_drop(dir);
    list_remove(&dir->node);
    free(dir);
    (void)fuse_reply_err(req, 0);
}

/* ---- Filling the kernel's buffer ---- */

struct filling
{
    char *buffer;
    size_t size, used;
};

/* What a page says is true when it comes; of an older one only what is known under leases is: names
 * may have gone since, here or elsewhere. NULL: the kernel is to ask for the name. */
static const Morsel__Attr *attr_now(const struct dir_op *op, const char *name,
                                    const Morsel__DirectoryEntry *from)
{
    struct client *client = op->base.mount->client;
    inode_id inode;

    if (op->fresh || from->attr == NULL) {
        return from->attr;
    }
    return client_lease_valid(client) &&
                   meta_cache_find(client->cache, op->dir->inode, name, &inode) ==
                       META_CACHE_FOUND &&
                   inode == from->inode
               ? meta_cache_attr(client->cache, inode)
               : NULL;
}

/* Add one entry; false when it does not fit any more. */
static bool add_entry(struct dir_op *op, struct filling *f, const char *name,
                      const Morsel__Attr *attr, const Morsel__DirectoryEntry *from, uint64_t next)
{
    struct fuse_entry_param entry = { .ino = 0 };
    char *at = f->buffer + f->used;
    size_t left = f->size - f->used, need;

    if (op->plus && attr != NULL) {
        mount_entry(op->base.mount, op->dir->inode, name, attr, &entry);
    } else {
        entry.attr.st_ino = from->inode;
        entry.attr.st_mode = from->type;
    }
    need = op->plus ? fuse_add_direntry_plus(op->base.req, at, left, name, &entry, (off_t)next)
                    : fuse_add_direntry(op->base.req, at, left, name, &entry.attr, (off_t)next);
    if (need > left) {
        return false;
    }
    f->used += need;
    return true;
}

static bool add_dots(struct dir_op *op, struct filling *f)
{
    Morsel__DirectoryEntry dot = MORSEL__DIRECTORY_ENTRY__INIT;

    dot.type = S_IFDIR;
    dot.inode = op->dir->inode;
    if (op->offset == 0 && !add_entry(op, f, ".", NULL, &dot, 1)) {
        return false;
    }
    dot.inode = op->dir->page->parent;
    return op->offset > 1 || add_entry(op, f, "..", NULL, &dot, 2);
}

static bool add_name(struct dir_op *op, struct filling *f, const Morsel__DirectoryEntry *from,
                     uint64_t place)
{
    char name[NAME_BYTES_MAX + 1];

    if (from->name.len > NAME_BYTES_MAX) {
        return true; /* No kernel could have made it. */
    }
    memcpy(name, from->name.data, from->name.len);
    name[from->name.len] = '\0';
    return add_entry(op, f, name, attr_now(op, name, from), from, place + 1);
}

static void reply_entries(struct dir_op *op)
{
    struct dir *dir = op->dir;
    struct filling f = { malloc(op->size), op->size, 0 };
    uint64_t place = op->offset < 2 ? 2 : op->offset;

    if (f.buffer == NULL) {
        mount_op_fail(&op->base, MORSEL_NOMEM);
        return;
    }
    if (add_dots(op, &f)) {
        while (place - dir->page_first < dir->page->n_entries &&
               add_name(op, &f, dir->page->entries[place - dir->page_first], place)) {
            place++;
        }
    }
    (void)fuse_reply_buf(op->base.req, f.buffer, f.used);
    free(f.buffer);
    mount_op_end(&op->base);
}

/* ---- Fetching pages ---- */

static void next_page(struct dir_op *op);

/* Attributes are wanted from `place` on, which the page has without: it ends there, so that what
 * follows is asked for behind its last name. To begin again and count would be wrong: names may have
 * gone or come since. Where the page begins there is no such name, and it stays as it is. */
static void page_cut(struct dir *dir, uint64_t place)
{
    Morsel__ReaddirReply *page = dir->page;
    uint64_t left = place - dir->page_first;

    if (place == 2) {
        page_drop(dir);
    } else if (left > 0 && left < page->n_entries) {
        while (page->n_entries > left) {
            morsel__directory_entry__free_unpacked(page->entries[--page->n_entries], NULL);
        }
        page->end = false;
    }
}

/* Go on until the page holds what the kernel asks for, or the directory ends. */
static void advance(struct dir_op *op)
{
    struct dir *dir = op->dir;
    uint64_t place = op->offset < 2 ? 2 : op->offset;

    if (dir->page != NULL && place < dir->page_first) {
        page_drop(dir); /* Backwards. */
    } else if (dir->page != NULL && op->plus && !dir->plus) {
        page_cut(dir, place);
    }
    if (dir->page == NULL || (place >= dir->page_first + dir->page->n_entries && !dir->page->end)) {
        next_page(op);
        return;
    }
    reply_entries(op);
}

/* A directory that was read from end to end under one lease has no other names. */
void mount_learn_page(struct mount *m, inode_id directory, uint64_t listing,
                      const Morsel__ReaddirReply *page)
{
    struct meta_cache *cache = m->client->cache;
    char name[NAME_BYTES_MAX + 1];

    for (size_t i = 0; listing != 0 && i < page->n_entries; i++) {
        const Morsel__DirectoryEntry *entry = page->entries[i];

        if (entry->name.len <= NAME_BYTES_MAX) {
            memcpy(name, entry->name.data, entry->name.len);
            name[entry->name.len] = '\0';
            meta_cache_learn_name(cache, directory, name, entry->inode);
        }
    }
    if (page->end) {
        meta_cache_listed(cache, directory, listing);
    }
}

static void on_page(struct meta_call *call, int status, void *message)
{
    struct dir_op *op = call->data;
    struct dir *dir = op->dir;
    Morsel__ReaddirReply *reply = message;

    if (status != 0) {
        mount_op_fail(&op->base, status);
        return;
    }
    dir->page_first = dir->page == NULL ? 2 : dir->page_first + dir->page->n_entries;
    page_drop(dir);
    /* The message is freed behind this callback: keep its contents and leave it an empty one. */
    dir->page = malloc(sizeof(*dir->page));
    if (dir->page == NULL) {
        mount_op_fail(&op->base, MORSEL_NOMEM);
        return;
    }
    *dir->page = *reply;
    reply->entries = NULL;
    reply->n_entries = 0;
    reply->attr = NULL;
    reply->base.unknown_fields = NULL;
    reply->base.n_unknown_fields = 0;
    dir->plus = op->plus;
    if (dir->page->n_entries == 0) {
        dir->page->end = true; /* Whatever the manager says, there is nothing to go on behind. */
    }
    op->fresh = true;
    if (dir->page_first == 2) {
        dir->listing = meta_cache_listing(op->base.mount->client->cache, dir->inode);
    }
    mount_learn_page(op->base.mount, dir->inode, dir->listing, dir->page);
    advance(op);
}

static void next_page(struct dir_op *op)
{
    Morsel__ReaddirRequest request = MORSEL__READDIR_REQUEST__INIT;
    struct dir *dir = op->dir;
    struct mount_who who;

    request.inode = dir->inode;
    request.plus = op->plus;
    if (dir->page != NULL && dir->page->n_entries > 0) {
        request.after = dir->page->entries[dir->page->n_entries - 1]->name;
    }
    if (client_squash(op->base.mount->client)->any) {
        /* Elsewhere the kernel looked when the directory was opened, and the handle goes on. */
        request.who = mount_who(op->base.mount, &who, op->base.req, dir->inode, MAY_READ);
    }
    (void)mount_op_ask(&op->base, MSG_READDIR, &request.base, &morsel__readdir_reply__descriptor,
                       on_page);
}

static void read_dir(fuse_req_t req, size_t size, off_t offset, struct fuse_file_info *fi,
                     bool plus)
{
    struct dir_op *op = mount_op_new(req, MOUNT_READDIR, sizeof(*op));

    if (op == NULL) {
        return;
    }
    op->dir = dir_of(fi);
    op->plus = plus;
    op->size = size;
    op->offset = (uint64_t)offset;
    if (offset == 0) {
        page_drop(op->dir);
    }
    advance(op);
}

static void on_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                       struct fuse_file_info *fi)
{
    (void)ino;
    read_dir(req, size, offset, fi, false);
}

static void on_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                           struct fuse_file_info *fi)
{
    (void)ino;
    read_dir(req, size, offset, fi, true);
}

void mount_dir_lost(void *data, inode_id inode)
{
    struct mount *m = data;

    LIST_FOREACH(node, &m->dirs)
    {
        struct dir *dir = LIST_ENTRY(node, struct dir, node);

        dir->lost = dir->lost || inode == INODE_NONE || inode == dir->inode;
    }
}

static void on_synced(struct meta_call *call, int status, void *message)
{
    struct dir_op *op = CONTAINER_OF(call->data, struct dir_op, base);
    struct dir *dir = op->dir;

    (void)message;
    if (status == 0 && dir->lost) {
        dir->lost = false;
        changes_told(op->base.mount->client->data.changes, dir->inode);
        status = MORSEL_IO;
    }
    mount_op_fail(&op->base, status);
}

static void on_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    Morsel__FsyncRequest request = MORSEL__FSYNC_REQUEST__INIT;
    struct dir_op *op = mount_op_new(req, MOUNT_FSYNC, sizeof(*op));

    (void)ino;
    (void)datasync;
    if (op != NULL) {
        op->dir = dir_of(fi);
        (void)mount_op_ask(&op->base, MSG_FSYNC, &request.base, &morsel__fsync_reply__descriptor,
                           on_synced);
    }
}

void mount_dir_operations(struct fuse_lowlevel_ops *ops)
{
    ops->opendir = on_opendir;
    ops->readdir = on_readdir;
    ops->readdirplus = on_readdirplus;
    ops->releasedir = on_releasedir;
    ops->fsyncdir = on_fsyncdir;
}
