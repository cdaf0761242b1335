/* What the files of replica.h share. Pure. */
#ifndef MORSEL_IOD_REPLICA_REPLICA_INNER_H
#define MORSEL_IOD_REPLICA_REPLICA_INNER_H

#include "iod/replica/replica.h"

/* ---- replica_step.c ---- */

void replica_feed(struct replica *r, struct group_event *event, uint64_t now_ms);

/* A message to `to`, to be filled in. */
struct replica_message *replica_say(const struct replica *r, struct replica_action *out,
                                    enum replica_message_type type, uint32_t to);

/* An APPLY, a piece that is taken, or a repair: true when its write intent is on the disk; otherwise
 * it is shown when it is. */
bool replica_intend(struct replica *r, uint64_t id, uint64_t token, const struct change *change);

/* That stretch has changed here: for whoever is outside. */
void replica_log(struct replica *r, const struct change *change);

/* ---- replica_sync.c ---- */

/* The forwards of a newer cut have begun. */
void replica_cut(struct replica *r, uint64_t cut);

/* As replica_flush(), also where this member has no write intent: others may have it. */
void replica_flush_all(struct replica *r);

/* The round is over: nothing more is synced for it, nobody's write intent leaves. */
void replica_drop_syncs(struct replica *r);
void replica_resend_syncs(struct replica *r);
void replica_receive_sync(struct replica *r, const struct replica_message *m);
bool replica_next_sync(struct replica *r, struct replica_action *out);

/* ---- replica_copy.c: who takes ---- */

void replica_fetch(struct replica *r, const struct group_action *action);
bool replica_receive_copy(struct replica *r, const struct replica_message *m, uint64_t token,
                          uint64_t now_ms);
bool replica_next_copy(struct replica *r, struct replica_action *out);

/* Some time is over: did pieces come? */
void replica_fetch_silence(struct replica *r);

/* The sync and the rewriting that a fetch waits for. */
void replica_fetch_synced(struct replica *r, uint64_t id, uint64_t now_ms);
void replica_fetch_rewritten(struct replica *r, uint64_t now_ms);

/* Entries of a set, as many as fit into a message. */
struct entries
{
    struct change *items; /* Room for REPLICA_PAGE_MAX. */
    uint64_t skip;
    uint32_t count;
    bool more;
};

/* Those behind the first `skip`. */
struct entries replica_entries(const struct changed *set, uint64_t skip, struct change *items);

/* ---- replica_give.c: who gives ---- */

void replica_asked(struct replica *r, const struct replica_message *m); /* FETCH */
void replica_given(struct replica *r, const struct replica_message *m); /* GIVEN */

/* What the member at `to` is sent. */
bool replica_next_giving(struct replica *r, uint32_t to, struct replica_action *out);

/* ---- replica_slow.c ---- */

/* Something came to its end on the disk here. */
void replica_moved(struct replica *r);

/* Who holds up changes? When it is time to look, the group is told. */
void replica_look(struct replica *r, uint64_t now_ms);
uint64_t replica_look_ms(const struct replica *r);

/* ---- replica_repair.c ---- */

/* The round is over; a change begins here. */
void replica_repair_left(struct replica *r);
void replica_repair_meets(struct replica *r, const struct order_change *change);
bool replica_receive_repair(struct replica *r, const struct replica_message *m, uint64_t token);
bool replica_next_repair(struct replica *r, struct replica_action *out);

/* The step gives the member another one's bytes, or length. */
void replica_repair_begin(struct replica *r, const struct verify_step *step);

/* ---- replica_verify.c ---- */

void replica_verify_left(struct replica *r);
void replica_verify_held(struct replica *r, uint64_t hold, uint64_t now_ms);
void replica_verify_unheld(struct replica *r);
void replica_verify_taken(struct replica *r, bool done); /* replica_repair_begin() is over. */
bool replica_verify_asks(const struct replica *r);       /* Others are to answer. */
void replica_verify_ask_again(struct replica *r);
uint64_t replica_verify_due_ms(const struct replica *r);
void replica_receive_verify(struct replica *r, const struct replica_message *m);
bool replica_next_verify(struct replica *r, uint64_t now_ms, struct replica_action *out);

#endif
