/* The host of the pauses (pauses.h): PAUSE, which waits until all hold still, and PAUSED, which waits for the end of the
 * pause. */
#ifndef MORSEL_META_COHERENCE_PAUSES_UV_H
#define MORSEL_META_COHERENCE_PAUSES_UV_H

#include "meta/meta_uv.h"

/* Has another client the inode open for writing that does not hold still for this one? */
bool pauses_others_write(struct meta *meta, inode_id inode, client_id client);

/* The pause of the inode, if there is one, is over; they go on with the next look. */
void pauses_over(struct meta *meta, inode_id inode);

/* What a client says that it has open. */
void pauses_opened(struct meta *meta, const struct session_event *event);

/* The client's connection ended: what waits here will be asked again, and nobody holds still for it. */
void pauses_gone(struct meta *meta, client_id client);

/* Behind each request, and every PRESENCE_PULSE_MS: who waits goes on where it may. */
void pauses_look(struct meta *meta);

/* Refuse what waits. */
void pauses_refuse_waiting(struct meta *meta, int status);

/* Once, when the manager starts. */
void pauses_open(struct meta *meta);

#endif
