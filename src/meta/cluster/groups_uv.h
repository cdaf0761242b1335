/* The host of the groups (group_roll.h): makes them when somebody wants copies, or files have them by
 * default, keeps them in the
 * database, tells the servers, and places files on them.
 *
 *   policy with copies -> plan -> OP_GROUPS, synced -> told with the answers to heartbeats
 *   a server comes up  -> plan       heartbeat: "have version 7" -> a group that all have is *told*
 *
 * Files are placed on groups that are told. Who asks for a policy whose groups are not told yet waits for
 * that, a few heartbeats at most; so does who makes the first files that have copies by default. */
#ifndef MORSEL_META_CLUSTER_GROUPS_UV_H
#define MORSEL_META_CLUSTER_GROUPS_UV_H

#include "meta/cluster/group_roll.h"
#include "meta/meta_uv.h"
#include "meta/storage/loads_uv.h"

/* GROUP_STATE_UNKNOWN: CopyState.state where nobody has said anything; no enum group_state. */
enum {
    GROUP_STATE_UNKNOWN = 255,
    GROUPS_WAIT_HEARTBEATS = 5,
    GROUPS_MEND_MS = 250, /* Between two looks at what is lost. */
    GROUP_COPIES_TOLD_MAX = SERVER_GROUPS_MAX
};

int groups_host_open(struct meta *meta, struct errmsg *err);
void groups_host_start(struct meta *meta);
/* `closed` runs once, later. */
void groups_host_close(struct meta *meta, void (*closed)(struct meta *meta));
void groups_host_free(struct meta *meta); /* After the loop has ended. */

/* May directories have a policy of so many copies? 0: yes. MORSEL_AGAIN: not yet; groups_park() is next.
 * Otherwise why not, in words. */
int groups_want(struct meta *meta, uint32_t copies, struct errmsg *err);

/* How many copies a new file has of which no directory says how many (copies_rule.h). MORSEL_AGAIN: not
 * known yet; groups_park() is next. */
int groups_default(struct meta *meta, uint32_t *copies_out);

/* The same, to be shown: what it most likely comes to where somebody would have to wait; and by which
 * rule. */
void groups_default_now(const struct meta *meta, uint32_t *copies_out, uint32_t *rule_out);

/* Those that wait are answered with this, at the end. */
void groups_refuse_waiting(struct meta *meta, int status);

/* The request was told MORSEL_AGAIN by groups_want() or groups_default(): it waits here, and `again` is called when its groups
 * are told, or will not be soon. False: it was not, or there is no memory. */
bool groups_park(struct meta *meta, struct rpc_request *request, load_again again,
                 uint64_t subject);

/* A server came up, or has gone down. */
void groups_members_changed(struct meta *meta);

/* The record of a server changes, and with it perhaps its address: its groups are told again. */
void groups_moved(struct meta *meta, server_id server);

/* It has started again, or lost us: what it said of its copies may not be so any more. */
void groups_forget(struct meta *meta, server_id server);

/* With its heartbeat: what is on its disk, and which of its copies are not well. */
void groups_heard(struct meta *meta, server_id server, uint64_t version,
                  Morsel__CopyState *const *copies, size_t count);

/* What that server is to be told; NULL: nothing, or no memory. For groups_told_free(). */
Morsel__GroupSet *groups_told(struct meta *meta, server_id server);
void groups_told_free(Morsel__GroupSet *set); /* NULL is allowed. */

/* Place a new file: 0, or MORSEL_NO_SERVERS with words. */
int groups_place(struct meta *meta, inode_id inode, uint32_t copies, uint32_t width,
                 struct file_layout *layout, struct errmsg *err);

/* ---- Servers that are replaced (group_mend.h) ---- */

/* MORSEL_INVAL with words: there is no such server, or it cannot be done now. What they change is durable with
 * the next sync. */
int groups_pause(struct meta *meta, bool paused, struct errmsg *err);
int groups_leave(struct meta *meta, server_id server, server_id to, struct errmsg *err);
int groups_stay(struct meta *meta, server_id server, struct errmsg *err);

/* ---- Space is evened out (rebalance.h) ---- */

/* With `look` 0 a plan is made with the sizes that the request has, to be shown; otherwise the one of that number is
 * carried out from now on, which is durable with the next sync. MORSEL_INVAL with words; MORSEL_STALE: that plan is not
 * the one that was shown last, or the groups have changed; MORSEL_NOMEM. */
int groups_rebalance(struct meta *meta, const Morsel__RecoverRequest *message, struct errmsg *err);

/* Copies that have not begun to move are to stay; durable with the next sync. MORSEL_INVAL with words: there are none. */
int groups_rebalance_stop(struct meta *meta, struct errmsg *err);
uint32_t groups_moves_left(const struct meta *meta); /* Groups of which a copy is to move still. */

/* The plan that was shown last, in memory of its own; NULL: none, or no memory. */
struct rebalance_told;
struct rebalance_told *groups_rebalance_told(struct meta *meta, Morsel__RecoverReply *reply);
void groups_rebalance_told_free(struct rebalance_told *told); /* NULL is allowed. */

/* False: there never was one. */
bool groups_rebalance_status(const struct meta *meta, Morsel__RebalanceStatus *to);

/* Has the server no place in any group, and none needs what it had? 0, or MORSEL_INVAL with words. */
int groups_may_remove(const struct meta *meta, server_id server, struct errmsg *err);
/* It is about to be removed: nobody leaves to it, and it need not leave. What that changes is durable with the next sync. */
int groups_remove(struct meta *meta, server_id server, struct errmsg *err);

/* The copy of that server is named as the one that counts (group_force.h), if the table has still that version; 0: may
 * it be? Likewise. */
int groups_force(struct meta *meta, group_number group, server_id server, uint64_t version,
                 struct errmsg *err);

/* What is known of the copies of that group; in the memory of `shown`. */
struct force_shown
{
    Morsel__ForceCopy items[REPLICAS_MAX], *pointers[REPLICAS_MAX];
    Morsel__CopyState copies[REPLICAS_MAX];
};
void groups_force_fill(struct meta *meta, group_number group, Morsel__RecoverReply *reply,
                       struct force_shown *shown);

/* ---- Comparisons of copies, which a restart of the manager forgets ---- */

/* The copies of that group, or with 0 of all, are to be compared from now on. MORSEL_INVAL with words: there is no such
 * group; MORSEL_NOMEM. */
int groups_verify(struct meta *meta, group_number group, uint64_t *run_out, uint32_t *count_out,
                  struct errmsg *err);

/* With a heartbeat: how far the server is; and which are wanted of its groups. False: no memory for that. */
void groups_verified(struct meta *meta, server_id server, Morsel__VerifyState *const *said,
                     size_t count);
bool groups_verify_told(struct meta *meta, server_id server, Morsel__HeartbeatReply *reply);

/* How many places the server holds, or keeps copies for; in how many of them `other` has a copy. */
uint32_t groups_places(const struct meta *meta, server_id server, server_id other, uint32_t *both);

/* How `morsel status` shows the members: who is to leave, and what it still has. */
void groups_members_fill(struct meta *meta, Morsel__Member *messages);

/* Those of which a place has changed hands, for mounts; in memory of their own. NULL: none, or no memory. */
struct groups_changed;
struct groups_changed *groups_changed_new(struct meta *meta, Morsel__MembersReply *reply);
void groups_changed_free(struct groups_changed *changed); /* NULL is allowed. */

/* For `morsel status`: all groups, in memory of their own. NULL: none, or no memory. */
struct groups_status;
struct groups_status *groups_status_new(struct meta *meta, Morsel__StatusReply *reply);
void groups_status_free(struct groups_status *status); /* NULL is allowed. */

#endif
