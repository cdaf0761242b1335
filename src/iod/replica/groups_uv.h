/* The groups of an I/O daemon: their copies here (copy_uv.h), the other servers (peers_uv.h), votes
 * (ballots_uv.h), and who is told what.
 *
 * Which groups there are the manager says with heartbeats; the server keeps it on its disk
 * (groups_kept_file.h), and opens its copies at the next start before it hears of the manager. Without
 * any group there is no timer, no connection and no file.
 *
 * A dead process. When the machine of another server says that nobody listens at its address, the voters
 * are asked whether they are told the same (MSG_PROBE); if a majority is, ourselves included, that
 * process holds no lease any more, and the others need not wait for its end. A link that is cut refuses
 * nothing. */
#ifndef MORSEL_IOD_REPLICA_GROUPS_UV_H
#define MORSEL_IOD_REPLICA_GROUPS_UV_H

#include "iod/replica/backlog.h"
#include "iod/replica/ballots_uv.h"
#include "iod/replica/copy_uv.h"
#include "iod/replica/hand_on_uv.h"
#include "iod/replica/peers_uv.h"
#include "iod/replica/probe_uv.h"
#include "meta.pb-c.h"

struct group_entry;
struct dropping;

enum { GROUPS_UNSURE_MS = 1500 }; /* The manager may be away. */

struct groups
{
    /* The owner's; all else is zero. */
    struct object_server *server;
    struct voter_uv *voter;
    const Morsel__VoterSet *(*voters)(void *data); /* As the manager has told it last. */
    void *voters_data;
    uint64_t slow_limit_ms, slow_pause_ms; /* Of struct replica_setup. */
    uint64_t recovery_rate;                /* Bytes per second; 0: no limit. */
    void (*news)(void *data);              /* groups_states() has something new to say. */
    void *news_data;

    /* The module's own. */
    uv_timer_t timer;
    bool timer_open, closing, confirmed;
    uint64_t due_ms; /* Of the timer. */
    uint64_t start;
    Morsel__GroupSet *kept; /* NULL: none. */
    struct group_entry *table;
    struct peers peers;
    struct recovery_gate gate;
    struct backlog backlog;
    struct ballots ballots;
    struct probes probes;
    struct hand_ons hand_ons;
    struct dropping *dropping; /* Copies that are being deleted. */
    uint32_t open;             /* Copies that are not closed yet, or deleted. */
    void (*closed)(void *data);
    void *closed_data;
    void (*left)(void *data); /* NULL: it is not to end, or was told so. */
    void *left_data;
    uint64_t leave_ms;      /* Until then at the latest; 0: it is not to end. */
    bool ticking, has_news; /* has_news: since groups_states(). */
};

/* Open what the disk has; `server` has been started. Blocks. A copy that cannot be opened is closed,
 * and says why; what keeps all of them from being opened fails, in one sentence. */
int groups_open(struct groups *g, struct errmsg *err);

/* May another set be taken over? Not while a server would lose its place that is in the in-sync set of a copy
 * here: where two stay without it, it is voted out (group_set_displaced()). Nor while a copy is being closed or deleted of
 * a group that is in it: that ends soon then. */
bool groups_may_take_over(struct groups *g, const Morsel__GroupSet *set);

/* Before the first set of all is on the disk: this start is counted there. A server that has groups and does not know how
 * often it was started is never let in again, so that must come first. Harmless later. Errors of the disk, in words. */
int groups_begin(struct groups *g, struct errmsg *err);

/* The manager has told another set, which is on the disk by now, behind groups_begin(); it is taken over: copies are opened that
 * are new, opened again when others hold the group's places, and deleted when the group is not ours any more. */
void groups_take_over(struct groups *g, Morsel__GroupSet *set);
uint64_t groups_version(const struct groups *g); /* 0: none. */

/* The manager has nothing newer to tell than what it has in that version; 0: it does not say so. Until then a copy that
 * started as the only one in its set may have been given up (group.h, Forced): for GROUPS_UNSURE_MS it serves nobody. */
void groups_confirmed(struct groups *g, uint64_t version);

/* For the heartbeat: up to `max` of those that are not well, with `states` as memory. Words are borrowed until
 * the loop goes on. */
size_t groups_states(struct groups *g, Morsel__CopyState *states, size_t max);

/* Whose copies the manager wants to be compared, with each heartbeat anew; one group at a time is. And how far they
 * are, as above. */
void groups_set_verify(struct groups *g, const uint32_t *numbers, const uint64_t *runs,
                       size_t count);
size_t groups_verify_states(const struct groups *g, Morsel__VerifyState *states, size_t max);

/* Damage in an object of a group, which the scrub has found: copy_scrub(). `done` comes with BEGUN, and only then. */
enum groups_scrub {
    GROUPS_SCRUB_BEGUN,
    GROUPS_SCRUB_LATER,
    GROUPS_SCRUB_NOT_OURS /* This server holds no place of that group. */
};
enum groups_scrub groups_scrub(struct groups *g, struct object_id object, uint64_t start,
                               uint64_t end, void (*done)(void *data, enum copy_scrubbed result),
                               void *data);

/* One of MSG_GROUP_WORDS, MSG_MIRROR_LEASE, MSG_REPLICA, MSG_HAND_ON. */
void groups_handle(struct groups *g, struct rpc_request *request);

/* Has this server a place of that group, as far as it was told? */
bool groups_hold(const struct groups *g, group_number number);

/* Objects that belong to no file, all of groups: `done` hears how many of `ids`, in front, are gone. */
void groups_delete(struct groups *g, struct object_id *ids, size_t count,
                   void (*done)(void *data, size_t gone), void *data);

/* There may be another voter set. */
void groups_voters_changed(struct groups *g);

enum { GROUPS_LEAVE_MS = 3000 };

/* The daemon is about to end, and works on until then: the other servers of its groups are to go on without it, and
 * clients to ask them. `left`, once, later: they do, or there are none who could, or GROUPS_LEAVE_MS are over. */
void groups_quit(struct groups *g, void (*left)(void *data), void *data);

/* Copies end when what is at work is done; then `closed`, once, perhaps at once. */
void groups_close(struct groups *g, void (*closed)(void *data), void *data);
void groups_free(struct groups *g); /* After the loop has ended. */

#endif
