/* What the files of replica.h share. Pure. */
#ifndef MORSEL_IOD_REPLICA_REPLICA_INNER_H
#define MORSEL_IOD_REPLICA_REPLICA_INNER_H

#include "iod/replica/replica.h"

/* ---- replica_step.c ---- */

void replica_feed(struct replica *r, struct group_event *event, uint64_t now_ms);

/* A message to `to`, to be filled in. */
struct replica_message *replica_say(const struct replica *r, struct replica_action *out,
                                    enum replica_message_type type, uint32_t to);

/* An APPLY, or with id 0 the piece that is taken: true when its write intent is on the disk; otherwise
 * it is shown when it is. */
bool replica_intend(struct replica *r, uint64_t id, uint64_t token, const struct change *change);

/* That stretch has changed here: for whoever is outside. */
void replica_log(struct replica *r, const struct change *change);

/* ---- replica_sync.c ---- */

/* The forwards of a newer cut have begun. */
void replica_cut(struct replica *r, uint64_t cut);

/* The round is over: nothing more is synced for it, nobody's write intent leaves. */
void replica_drop_syncs(struct replica *r);
void replica_resend_syncs(struct replica *r);
void replica_receive_sync(struct replica *r, const struct replica_message *m);
bool replica_next_sync(struct replica *r, struct replica_action *out);

/* ---- replica_copy.c ---- */

void replica_fetch(struct replica *r, const struct group_action *action);
bool replica_receive_copy(struct replica *r, const struct replica_message *m, uint64_t token);
bool replica_next_copy(struct replica *r, struct replica_action *out);

/* The sync and the rewriting that a fetch waits for. */
void replica_fetch_synced(struct replica *r, uint64_t id, uint64_t now_ms);
void replica_fetch_rewritten(struct replica *r, uint64_t now_ms);

#endif
