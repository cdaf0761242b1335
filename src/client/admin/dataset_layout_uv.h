/* `morsel layout` of a file whose bytes lie in morsels on benefactors. */
#ifndef MORSEL_CLIENT_ADMIN_DATASET_LAYOUT_UV_H
#define MORSEL_CLIENT_ADMIN_DATASET_LAYOUT_UV_H

#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"
#include "common/fs/policy_text.h"

struct dataset_file
{
    const char *path;
    uint64_t inode, size;
    const struct layout_text *layout;
};

/* Ask the manager of the settings for its map and show it, or, with `files`, append it there. ADMIN_PROBLEM: of a part of it no copy is
 * here; others: why is printed. */
int dataset_layout(const struct admin_settings *settings, const struct dataset_file *file,
                   json_t *files);

#endif
