/* What we hold, as SESSION says it: leases, open files and locks; and what becomes of bytes, names and
 * attributes when the manager answers that some of it is lost.
 *
 * What is dirty under a lease or a size lock that is gone must not be written any more, for others
 * may have written since: whoever wrote it is told EIO.
 */
#ifndef MORSEL_CLIENT_COHERENCE_HELD_UV_H
#define MORSEL_CLIENT_COHERENCE_HELD_UV_H

#include "client/libmorsel_uv.h"

/* Name it all. To be freed with held_unfill(), whatever it says. False: no memory. */
bool held_fill(struct client *client, Morsel__SessionRequest *request);
void held_unfill(Morsel__SessionRequest *request);

/* The manager has heard it, and says what is lost. */
void held_answered(struct client *client, const Morsel__SessionReply *reply);

/* Behind each that joined: where files lie that no lease covers is to be asked before their bytes are (file_uv.h,
 * Astray). */
void held_doubt_places(struct client *client);

/* The manager lost its power and may have forgotten what it told us: nothing clean is kept. */
void held_forget_clean(struct client *client);

/* Nothing that was fetched counts any more, here or in the kernel. Time-outs of what is not open have
 * ended with the lease period. */
void held_drop_all(struct client *client);

#endif
