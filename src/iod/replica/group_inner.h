/* What group_step.c and group_agree.c share. Pure. */
#ifndef MORSEL_IOD_REPLICA_GROUP_INNER_H
#define MORSEL_IOD_REPLICA_GROUP_INNER_H

#include "iod/replica/group.h"

bool group_has(group_set set, uint32_t member);
uint32_t group_first(group_set set); /* Of a set that is not empty. */

/* Was it last heard in sync, in our epoch? Of ourselves: as group_see_self() saw it. */
bool group_in_step(const struct group *g, uint32_t member);

/* Does it hold up changes, as far as is known here? */
bool group_is_slow(const struct group *g, uint32_t member);
/* Those who have said that they are about to end, ourselves perhaps; and who is to leave for whichever reason. */
group_set group_quitting(const struct group *g);
group_set group_leaving(const struct group *g);

/* Our own word is among those of the others. */
void group_see_self(struct group *g);

/* To be filled in. */
struct group_action *group_emit(struct group_actions *out, enum group_action_type type);

/* It takes part in a round no more. */
void group_unjoin(struct group *g, struct group_actions *out);

/* Nothing else is being written. */
void group_persist(struct group *g, const struct group_record *next, struct group_actions *out);

/* ---- group_agree.c ---- */

/* The next step towards a set that agrees, ours or that of all, if there is one. */
bool group_agree(struct group *g, struct group_actions *out);

/* Ask for a vote, again, or no more. */
void group_stand(struct group *g, struct group_actions *out);

#endif
