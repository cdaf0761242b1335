/* Files that are open here, as the manager is to know them: those that a lease let us open without
 * asking are told soon, and those that others have open too are looked after.
 *
 * A file whose lease does not cover what its handles do (file_is_shared()) asks for it again and
 * again, for it may be ours by now; and as long as it is not, what is mapped of it is kept fresh.
 */
#ifndef MORSEL_CLIENT_COHERENCE_OPENED_UV_H
#define MORSEL_CLIENT_COHERENCE_OPENED_UV_H

#include "client/libmorsel_uv.h"

/* Tell the manager of files that were opened without asking it, before it hears what may depend on
 * them. */
void opened_report(struct client *client);

/* SESSION names all that are open, and so they are told: `open_inodes` and `open_write`, to be freed.
 * False: no memory. */
bool opened_session_fill(struct client *client, Morsel__SessionRequest *request);

enum { OPENED_TICK_MS = 1000 };

/* Every OPENED_TICK_MS: a file that is open without its lease asks again, and a local open is told.
 */
void opened_tick(struct client *client);

#endif
