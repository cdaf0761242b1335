/* Origins of data sets that are files of the same cluster: the client reads them itself (datasets/origin_power.h).
 *
 *   start -> OPEN for the set's file -> bytes, piece by piece -> ended
 *
 * No other process and no path takes part: a read of the mount that went through the kernel again could wait for itself. The manager is
 * asked each time, for it says whether the owner of the data set may read the file, and whether it is what it was; and with its answer
 * leases of others are taken back, so that what they have written is seen. */
#ifndef MORSEL_CLIENT_DATA_SOURCE_UV_H
#define MORSEL_CLIENT_DATA_SOURCE_UV_H

#include "client/libmorsel_uv.h"

/* client->data.inside. MORSEL_NOMEM. */
int sources_open(struct client *client);
void sources_close(struct client *client);

/* Every CLIENT_TICK_MS: those that wait for a file that was being moved go on. */
void sources_tick(struct client *client);

/* Files that are read so are closed, now or as soon as what is under way has ended; nothing comes of them any more, nor do they end. */
void sources_let_go(struct client *client);

#endif
