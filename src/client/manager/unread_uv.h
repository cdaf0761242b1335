/* Messages of the manager that were not read: the log says why. */
#ifndef MORSEL_CLIENT_MANAGER_UNREAD_UV_H
#define MORSEL_CLIENT_MANAGER_UNREAD_UV_H

#include "client/libmorsel_uv.h"

/* A message that the manager has sent us on its own, with such contents ("that ...", "about ..."),
 * was not read: MORSEL_NOMEM or MORSEL_MALFORMED. */
void manager_note_unread(const struct client *client, const char *what, int status);

#endif
