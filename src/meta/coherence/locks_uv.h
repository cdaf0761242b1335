/* The host of the locks: requests that wait, clients that say again what they hold, and those that
 * are gone. docs/locks.md is the protocol. */
#ifndef MORSEL_META_COHERENCE_LOCKS_UV_H
#define MORSEL_META_COHERENCE_LOCKS_UV_H

#include "meta/meta_uv.h"

/* The client's SESSION says what its processes hold. False: it holds nothing of that any more. */
bool locks_join(struct meta *meta, client_id client, const Morsel__SessionRequest *m);

/* The client's connection ended: what waits here will be asked again. */
void locks_gone(struct meta *meta, client_id client);

/* The lease period of a client may be over: who waited for that goes on. */
void locks_tick(struct meta *meta);

/* Every PRESENCE_PULSE_MS: holders that do not answer hold. */
void locks_pulse(struct meta *meta, uint64_t now_ms);

/* Refuse what waits. */
void locks_refuse_waiting(struct meta *meta, int status);

#endif
