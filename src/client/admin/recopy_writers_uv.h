/* Which mounts have a file open for writing, for whom `morsel recopy` leaves it: the manager says so. */
#ifndef MORSEL_CLIENT_ADMIN_RECOPY_WRITERS_UV_H
#define MORSEL_CLIENT_ADMIN_RECOPY_WRITERS_UV_H

#include "client/admin/to_manager_uv.h"

enum { RECOPY_WRITERS_BYTES = 1024 };

/* Their addresses as a list in `text`, cut off where there is no more room; this mount is among them when it has the file open
 * for writing itself. False: the manager does not say, and `text` is empty. Empty as well when there is none. */
bool recopy_writers(struct admin *admin, uint64_t inode, char text[RECOPY_WRITERS_BYTES]);

#endif
