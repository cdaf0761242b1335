/* The host of the lease core: requests that wait for a recall, recalls that go out, what comes
 * back.
 *
 *   handler -> leases_touch(): GO, or the request waits here and its handler is called again
 *           -> the change or the look-up
 *           -> leases_grant(): what the reply may allow
 */
#ifndef MORSEL_META_COHERENCE_LEASES_UV_H
#define MORSEL_META_COHERENCE_LEASES_UV_H

#include "meta/meta_uv.h"

/* True: go ahead. False: the request has been taken over; its handler will be called again, or it
 * has been answered. Inode 0 is passed over. */
bool leases_touch(struct meta *meta, struct rpc_request *request, const struct lease_touch *touched,
                  unsigned touched_count);

/* The same, and what the client itself holds of the inodes comes back as well: it says then whether it has them open. */
bool leases_touch_own(struct meta *meta, struct rpc_request *request,
                      const struct lease_touch *touched, unsigned touched_count);

/* The first for one inode. */
bool leases_touch_one(struct meta *meta, struct rpc_request *request, inode_id inode,
                      enum lease_access access);

/* Does a request of the same type, of another client, wait for leases on that inode, which it touches first? */
bool leases_another_waits(const struct meta *meta, const struct rpc_request *request,
                          inode_id inode);

/* What the reply to this request gives its client on `inode` (lease_grant()). */
enum lease_mode leases_grant(struct meta *meta, const struct rpc_request *request, inode_id inode,
                             enum lease_mode wanted, bool eager);

/* Likewise to who has all others that have it open for writing held still (pauses.h): R, or W where it has it open for writing
 * itself. */
enum lease_mode leases_grant_held(struct meta *meta, const struct rpc_request *request,
                                  inode_id inode);

/* The client of the request may hold locks. False: not before the next sync of the store. */
bool leases_grant_locks(struct meta *meta, const struct rpc_request *request);

/* The inode is gone, and what was held on it. */
void leases_forget(struct meta *meta, inode_id inode);

/* What the client holds, as far as a reply may say so, without asking for more. */
enum lease_mode leases_held(struct meta *meta, const struct rpc_request *request, inode_id inode);

/* What it holds until it has answered a recall: under that it opened files without a word, and goes on with what it began. */
enum lease_mode leases_still_held(struct meta *meta, const struct rpc_request *request,
                                  inode_id inode);

/* The client's first request on a connection said what it holds: `lost` (room for the sum of the
 * lists) gets what it does not hold any more. `actions` are due for leases_perform(), in any case;
 * before that, nobody is served who has waited for it to come back.
 * MORSEL_NOMEM: the list is not complete; the client must not be answered, and say it again. */
int leases_join(struct meta *meta, client_id client, const Morsel__SessionRequest *m,
                inode_id *lost, size_t *lost_count, struct lease_actions *actions);

/* Do what the core has said, and free the list. */
void leases_perform(struct meta *meta, struct lease_actions *actions);
void leases_gone(struct meta *meta, client_id client);
void leases_leave(struct meta *meta, client_id client);

/* May the client speak for its leases? False: it must join first. */
bool leases_heard(struct meta *meta, const struct rpc_request *request);

/* An inode is changed without asking anybody (fsck): whoever caches it is told. False: some hold leases on it still. */
bool leases_recall_all(struct meta *meta, inode_id inode);

void leases_tick(struct meta *meta, uint64_t now_ms);

/* Take out a request of the client that waits, and that `matches`: it is to be answered. NULL: there
 * is none. */
struct rpc_request *leases_take(struct meta *meta, client_id client,
                                bool (*matches)(const struct rpc_request *request, uint64_t number),
                                uint64_t number);

/* Refuse what waits. */
void leases_refuse_waiting(struct meta *meta, int status);

/* Make the core, with the durable holders of the time before. MORSEL_NOMEM and errors of the store.
 */
int leases_open(struct meta *meta, struct errmsg *err);
void leases_free(struct meta *meta);

#endif
