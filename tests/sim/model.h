/* A namespace that is too simple to be wrong: two flat lists, searched from end to end. Nothing is
 * ever open, so that an inode goes with its last name.
 *
 * Shares nothing with src/meta but statuses and ids. */
#ifndef MORSEL_TESTS_SIM_MODEL_H
#define MORSEL_TESTS_SIM_MODEL_H

#include "common/base/types.h"

enum { MODEL_INODES_MAX = 1024, MODEL_NAME_BYTES = 4 };

enum change_kind {
    CHANGE_MAKE_FILE,
    CHANGE_MAKE_DIR,
    CHANGE_UNLINK,
    CHANGE_RMDIR,
    CHANGE_RENAME,
    CHANGE_LINK
};

/* What a client asks for. */
struct change
{
    enum change_kind kind;
    inode_id parent, new_parent; /* LINK, RENAME: the new one. */
    inode_id inode;              /* LINK */
    char name[MODEL_NAME_BYTES], new_name[MODEL_NAME_BYTES];
};

struct model
{
    uint32_t inode_count, entry_count;
    struct model_inode
    {
        inode_id id, parent; /* Parent: of directories. */
        bool directory;
        uint32_t names;
    } inodes[MODEL_INODES_MAX];
    struct model_entry
    {
        inode_id parent, inode;
        char name[MODEL_NAME_BYTES];
    } entries[MODEL_INODES_MAX];
};

/* The root alone. */
void model_init(struct model *m);

/* Apply the change, if it is possible, and return the status that it must have. `made` is the id
 * that a new inode got. What goes for good is returned through `gone` (0: nothing). */
int model_apply(struct model *m, const struct change *change, inode_id made, inode_id *gone);

/* Names in the directory. */
uint32_t model_children(const struct model *m, inode_id directory);

#endif
