/* rename(2) with RENAME_NOREPLACE and RENAME_EXCHANGE. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/namespace_txn.h"

#include <string.h>

/* The parties. `replaced` is NULL when the new name is free. */
struct rename_plan
{
    struct inode *parent, *new_parent;
    struct inode *moved, *replaced;
    struct dentry entry, new_entry;
};

/* Is `directory` the inode `ancestor`, or below it? */
static int is_below(struct ns_txn *t, inode_id directory, inode_id ancestor, bool *below)
{
    uint64_t steps = 0;
    struct inode inode;

    *below = true;
    while (directory != ancestor) {
        int rv;

        if (directory == INODE_ROOT) {
            *below = false;
            return 0;
        }
        if ((rv = ns_inode(t->ns, directory, &inode, t->err)) != 0) {
            return rv;
        }
        if (++steps > t->counters.inodes) {
            errmsg_set(t->err, "parents of directory inode %llu run in a circle",
                       (unsigned long long)directory);
            return MORSEL_CORRUPT;
        }
        directory = inode.parent;
    }
    return 0;
}

static int load_plan(struct ns_txn *t, struct rename_plan *p)
{
    const struct meta_op *op = t->op;
    int rv;

    memset(p, 0, sizeof(*p));
    if ((op->rename.flags & ~(uint32_t)RENAME_FLAGS_KNOWN) != 0 ||
        op->rename.flags == RENAME_FLAGS_KNOWN) {
        return MORSEL_INVAL;
    }
    if ((rv = txn_directory(t, op->rename.parent, &p->parent)) != 0 ||
        (rv = txn_directory(t, op->rename.new_parent, &p->new_parent)) != 0) {
        return rv;
    }
    if ((rv = name_check_old(op->rename.name)) != 0 ||
        (rv = name_check_old(op->rename.new_name)) != 0) {
        return rv == MORSEL_NAMETOOLONG ? rv : MORSEL_INVAL;
    }
    if ((rv = txn_dentry_get(t, p->parent->id, op->rename.name, &p->entry)) != 0 ||
        (rv = txn_inode(t, p->entry.inode, &p->moved)) != 0) {
        return rv;
    }
    rv = txn_dentry_get(t, p->new_parent->id, op->rename.new_name, &p->new_entry);
    if (rv == MORSEL_NOENT) {
        return 0;
    }
    return rv != 0 ? rv : txn_inode(t, p->new_entry.inode, &p->replaced);
}

/* A directory must not end up inside itself. */
static int check_circles(struct ns_txn *t, const struct rename_plan *p, bool exchange)
{
    bool below = false;
    int rv = 0;

    if (p->parent == p->new_parent) {
        return 0;
    }
    if (mode_is_directory(p->moved->mode) &&
        (rv = is_below(t, p->new_parent->id, p->moved->id, &below)) == 0 && below) {
        return MORSEL_INVAL;
    }
    if (rv == 0 && p->replaced != NULL && mode_is_directory(p->replaced->mode) &&
        (rv = is_below(t, p->parent->id, p->replaced->id, &below)) == 0 && below) {
        return exchange ? MORSEL_INVAL : MORSEL_NOTEMPTY;
    }
    return rv;
}

static int check_replace(const struct rename_plan *p)
{
    bool directory = mode_is_directory(p->moved->mode);

    if (p->replaced == NULL) {
        return directory && p->parent != p->new_parent && p->new_parent->nlink >= LINKS_MAX
                   ? MORSEL_MLINK
                   : 0;
    }
    if (mode_is_directory(p->replaced->mode) != directory) {
        return directory ? MORSEL_NOTDIR : MORSEL_ISDIR;
    }
    return directory && p->replaced->entries > 0 ? MORSEL_NOTEMPTY : 0;
}

/* `inode` leaves `from` for `to`: link counts of both, and where ".." leads. */
static void move_directory(struct inode *inode, struct inode *from, struct inode *to)
{
    if (mode_is_directory(inode->mode)) {
        from->nlink--;
        to->nlink++;
        inode->parent = to->id;
    }
}

static int exchange(struct ns_txn *t, struct rename_plan *p)
{
    const struct meta_op *op = t->op;

    txn_dentry_delete(t, p->parent->id, op->rename.name, &p->entry);
    txn_dentry_delete(t, p->new_parent->id, op->rename.new_name, &p->new_entry);
    txn_dentry_put(t, p->parent->id, op->rename.name, &p->new_entry);
    txn_dentry_put(t, p->new_parent->id, op->rename.new_name, &p->entry);
    move_directory(p->moved, p->parent, p->new_parent);
    move_directory(p->replaced, p->new_parent, p->parent);
    txn_change(t, p->replaced);
    return 0;
}

static int move(struct ns_txn *t, struct rename_plan *p)
{
    const struct meta_op *op = t->op;
    int rv = 0;

    if (p->replaced != NULL) {
        txn_dentry_delete(t, p->new_parent->id, op->rename.new_name, &p->new_entry);
        p->new_parent->entries--;
        p->new_parent->nlink -= mode_is_directory(p->replaced->mode);
        rv = txn_drop_name(t, p->replaced);
    }
    txn_dentry_delete(t, p->parent->id, op->rename.name, &p->entry);
    txn_dentry_put(t, p->new_parent->id, op->rename.new_name, &p->entry);
    p->parent->entries--;
    p->new_parent->entries++;
    move_directory(p->moved, p->parent, p->new_parent);
    return rv;
}

int apply_rename(struct ns_txn *t)
{
    bool swap = (t->op->rename.flags & RENAME_FLAG_EXCHANGE) != 0;
    struct rename_plan p;
    int rv;

    if ((rv = load_plan(t, &p)) != 0) {
        return rv;
    }
    if (p.replaced != NULL && (t->op->rename.flags & RENAME_FLAG_NOREPLACE) != 0) {
        return MORSEL_EXIST;
    }
    if (p.replaced == NULL && swap) {
        return MORSEL_NOENT;
    }
    if ((rv = check_circles(t, &p, swap)) != 0) {
        return rv;
    }
    if (p.replaced == p.moved) {
        return 0; /* Two names of one file: POSIX wants both to stay. */
    }
    if (!swap && (rv = check_replace(&p)) != 0) {
        return rv;
    }
    rv = swap ? exchange(t, &p) : move(t, &p);
    txn_change(t, p.moved);
    txn_change_entries(t, p.parent);
    txn_change_entries(t, p.new_parent);
    return rv;
}
