/* What must be in the directory of a database, checked before anything touches it.
 *
 * LevelDB notices many kinds of damage, but not all: a MANIFEST that ends early is taken for the
 * trace of a crash, and what it no longer mentions is deleted. So the directory holds a file
 * INVENTORY with lines "NAME BYTES": each of these files must be there and be at least that long.
 * While the database is open the list holds the MANIFEST, which only grows, and the journal, which
 * does not change its length; after an orderly close it holds every file.
 */
#ifndef MORSEL_META_STORAGE_INVENTORY_FILE_H
#define MORSEL_META_STORAGE_INVENTORY_FILE_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

/* MORSEL_CORRUPT when something is missing. A directory without a list is fine: it is new, or its
 * daemon was killed in its first moments. `dir` is for messages. */
int inventory_check(int dir_fd, const char *dir, struct errmsg *err);

/* Before the database is opened, which replaces files. */
int inventory_remove(int dir_fd, const char *dir, struct errmsg *err);

/* Write the list, durably: of every file (`all`), or of the MANIFEST and the journal. */
int inventory_write(int dir_fd, const char *dir, bool all, struct errmsg *err);

/* The length of the MANIFEST; 0 when there is none. */
uint64_t inventory_manifest_bytes(int dir_fd);

#endif
