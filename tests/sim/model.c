#include "tests/sim/model.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <string.h>

void model_init(struct model *m)
{
    memset(m, 0, sizeof(*m));
    m->inodes[0] = (struct model_inode){ INODE_ROOT, INODE_ROOT, true, 1 };
    m->inode_count = 1;
}

static struct model_inode *find_inode(struct model *m, inode_id id)
{
    for (uint32_t i = 0; i < m->inode_count; i++) {
        if (m->inodes[i].id == id) {
            return &m->inodes[i];
        }
    }
    return NULL;
}

static struct model_entry *find_entry(struct model *m, inode_id parent, const char *name)
{
    for (uint32_t i = 0; i < m->entry_count; i++) {
        if (m->entries[i].parent == parent && strcmp(m->entries[i].name, name) == 0) {
            return &m->entries[i];
        }
    }
    return NULL;
}

uint32_t model_children(const struct model *m, inode_id directory)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->entry_count; i++) {
        count += m->entries[i].parent == directory;
    }
    return count;
}

static void add_entry(struct model *m, inode_id parent, const char *name, inode_id inode)
{
    struct model_entry *e = &m->entries[m->entry_count++];

    CHECK(m->entry_count <= MODEL_INODES_MAX);
    e->parent = parent;
    e->inode = inode;
    memcpy(e->name, name, MODEL_NAME_BYTES);
}

static void remove_entry(struct model *m, struct model_entry *e)
{
    *e = m->entries[--m->entry_count];
}

/* One name less. Returns the inode when that was the last one. */
static inode_id drop_name(struct model *m, inode_id id)
{
    struct model_inode *inode = find_inode(m, id);

    if (--inode->names > 0) {
        return INODE_NONE;
    }
    *inode = m->inodes[--m->inode_count];
    return id;
}

static int check_directory(struct model *m, inode_id id)
{
    const struct model_inode *inode = find_inode(m, id);

    if (inode == NULL) {
        return MORSEL_STALE;
    }
    return inode->directory ? 0 : MORSEL_NOTDIR;
}

static int apply_make(struct model *m, const struct change *c, inode_id made)
{
    int rv = check_directory(m, c->parent);

    if (rv != 0 || find_entry(m, c->parent, c->name) != NULL) {
        return rv != 0 ? rv : MORSEL_EXIST;
    }
    CHECK(m->inode_count < MODEL_INODES_MAX);
    m->inodes[m->inode_count++] =
        (struct model_inode){ made, c->parent, c->kind == CHANGE_MAKE_DIR, 1 };
    add_entry(m, c->parent, c->name, made);
    return 0;
}

static int apply_unlink(struct model *m, const struct change *c, inode_id *gone)
{
    bool want_directory = c->kind == CHANGE_RMDIR;
    struct model_entry *e;
    int rv = check_directory(m, c->parent);

    if (rv != 0 || (e = find_entry(m, c->parent, c->name)) == NULL) {
        return rv != 0 ? rv : MORSEL_NOENT;
    }
    if (find_inode(m, e->inode)->directory != want_directory) {
        return want_directory ? MORSEL_NOTDIR : MORSEL_ISDIR;
    }
    if (model_children(m, e->inode) > 0) {
        return MORSEL_NOTEMPTY;
    }
    *gone = drop_name(m, e->inode);
    remove_entry(m, e);
    return 0;
}

static int apply_link(struct model *m, const struct change *c)
{
    struct model_inode *inode = find_inode(m, c->inode);
    int rv;

    if (inode == NULL) {
        return MORSEL_NOENT;
    }
    if ((rv = check_directory(m, c->new_parent)) != 0) {
        return rv;
    }
    if (inode->directory) {
        return MORSEL_PERM;
    }
    if (find_entry(m, c->new_parent, c->new_name) != NULL) {
        return MORSEL_EXIST;
    }
    inode->names++;
    add_entry(m, c->new_parent, c->new_name, c->inode);
    return 0;
}

/* Is the directory `ancestor`, or somewhere in it? */
static bool is_below(struct model *m, inode_id directory, inode_id ancestor)
{
    while (directory != ancestor && directory != INODE_ROOT) {
        directory = find_inode(m, directory)->parent;
    }
    return directory == ancestor;
}

static int check_rename(struct model *m, const struct change *c, const struct model_inode *moved,
                        const struct model_inode *replaced)
{
    bool elsewhere = c->parent != c->new_parent;

    if (elsewhere && moved->directory && is_below(m, c->new_parent, moved->id)) {
        return MORSEL_INVAL;
    }
    if (replaced == NULL || replaced == moved) {
        return 0;
    }
    if (elsewhere && replaced->directory && is_below(m, c->parent, replaced->id)) {
        return MORSEL_NOTEMPTY;
    }
    if (moved->directory != replaced->directory) {
        return moved->directory ? MORSEL_NOTDIR : MORSEL_ISDIR;
    }
    return model_children(m, replaced->id) > 0 ? MORSEL_NOTEMPTY : 0;
}

static int apply_rename(struct model *m, const struct change *c, inode_id *gone)
{
    struct model_entry *from, *to;
    struct model_inode *moved;
    inode_id id;
    int rv;

    if ((rv = check_directory(m, c->parent)) != 0 ||
        (rv = check_directory(m, c->new_parent)) != 0) {
        return rv;
    }
    if ((from = find_entry(m, c->parent, c->name)) == NULL) {
        return MORSEL_NOENT;
    }
    to = find_entry(m, c->new_parent, c->new_name);
    moved = find_inode(m, from->inode);
    rv = check_rename(m, c, moved, to == NULL ? NULL : find_inode(m, to->inode));
    if (rv != 0 || (to != NULL && to->inode == moved->id)) {
        return rv;
    }
    id = moved->id;
    moved->parent = c->new_parent;
    if (to != NULL) {
        *gone = drop_name(m, to->inode);
        remove_entry(m, to);
    }
    remove_entry(m, find_entry(m, c->parent, c->name));
    add_entry(m, c->new_parent, c->new_name, id);
    return 0;
}

int model_apply(struct model *m, const struct change *change, inode_id made, inode_id *gone)
{
    *gone = INODE_NONE;
    switch (change->kind) {
    case CHANGE_MAKE_FILE:
    case CHANGE_MAKE_DIR:
        return apply_make(m, change, made);
    case CHANGE_UNLINK:
    case CHANGE_RMDIR:
        return apply_unlink(m, change, gone);
    case CHANGE_RENAME:
        return apply_rename(m, change, gone);
    case CHANGE_LINK:
        return apply_link(m, change);
    }
    return MORSEL_INVAL;
}
