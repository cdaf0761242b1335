/* Giving leases back, asked by the manager or for want of room in the table: what was written under
 * one is flushed, what is kept is dropped, here and in the kernel, and the manager is told. When
 * which of that happens is the core's (lease_holder.h).
 */
#ifndef MORSEL_CLIENT_COHERENCE_RECALL_UV_H
#define MORSEL_CLIENT_COHERENCE_RECALL_UV_H

#include "client/coherence/lease_uv.h"

/* What the core says of action->back: HOLDER_FORGET and those behind it. */
void recall_carry_out(struct client *client, const struct lease_holder_action *action);

/* The manager asks for leases. */
void recalls_on_notice(struct client *client, const uint8_t *body, size_t body_count);

/* Those that waited until nothing of ours can land any more go on, if that is so. */
void recalls_look(struct client *client);

/* Every CLIENT_TICK_MS. Of those that take their time: without a word the manager would take us for
 * dead. */
void recalls_tick(struct client *client);

/* What the table had no room for. */
void recalls_give_back_evicted(struct client *client);

/* Those that wait are forgotten; the others have ended. */
void recalls_close(struct client *client);

#endif
