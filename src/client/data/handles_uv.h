/* Handles that nobody closes any more. */
#ifndef MORSEL_CLIENT_DATA_HANDLES_UV_H
#define MORSEL_CLIENT_DATA_HANDLES_UV_H

#include "client/libmorsel_uv.h"

/* Close all that only read. A kernel that was reading ahead when it let go of the mount does not say that it has closed those: no request of its
 * may be under way. */
void files_close_readers(struct client *client);

#endif
