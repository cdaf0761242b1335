/* The steps of each request: what request_table_uv.c is made of. What a step is for, when it runs
 * and what must hold behind it stands in request_uv.h. */
#ifndef MORSEL_META_SERVICE_HANDLERS_UV_H
#define MORSEL_META_SERVICE_HANDLERS_UV_H

#include "meta/service/request_uv.h"

/* Names, attributes, layout: handlers_change_uv.c */
int record_make(struct request *r);
int reply_make(struct request *r);
int record_link(struct request *r);
int reply_link(struct request *r);
int look_unlink(struct request *r);
int record_unlink(struct request *r);
int look_rename(struct request *r);
int record_rename(struct request *r);
int reply_removed(struct request *r);
int record_setattr(struct request *r);
int record_align(struct request *r);
int look_exchange(struct request *r);
int record_exchange(struct request *r);

/* What changes nothing: handlers_read_uv.c */
int look_lookup(struct request *r);
int serve_lookup(struct request *r);
int serve_getattr(struct request *r);
int serve_readlink(struct request *r);
int look_open(struct request *r);
int serve_open(struct request *r);
int serve_close(struct request *r);
int serve_readdir(struct request *r);

/* Files that are held still: coherence/pauses_uv.c */
int look_pause(struct request *r);
int serve_pause(struct request *r);
int look_paused(struct request *r);
int serve_paused(struct request *r);

/* What is on disk: handlers_durable_uv.c */
int serve_fsync(struct request *r);
int record_wrote(struct request *r);
int reply_size_report(struct request *r);
int reply_wrote_durable(struct request *r); /* The Node, when it is on the disk. */
int reply_exchange(struct request *r);
int record_synced(struct request *r);

/* Extended attributes, policy: handlers_xattr_uv.c */
int serve_xattr_get(struct request *r);
int serve_xattr_list(struct request *r);
int record_xattr_set(struct request *r);
int reply_xattr_set(struct request *r);
int reply_policy(struct request *r);
int look_policy(struct request *r);
int serve_policy(struct request *r);
int record_policy(struct request *r);

/* Storage servers: handlers_member_uv.c */
int serve_register(struct request *r);
int serve_heartbeat(struct request *r);

/* The address of a server or a benefactor, as it says it. False, with words: it is none. */
bool take_address(char *to, size_t capacity, const char *from, struct errmsg *err);

/* Benefactors: handlers_donor_uv.c */
int serve_donor_join(struct request *r);
int serve_donor_report(struct request *r);
int serve_donor_list(struct request *r);
int serve_donor_forget(struct request *r); /* cluster/forgets_uv.c */

/* Those that are distrusted (cluster/blame.h), the first ones, for whoever asks how the cluster is. Returns how many. */
enum { DISTRUSTED_NAMED_MAX = 16 };
struct distrusted_list
{
    Morsel__Donor donors[DISTRUSTED_NAMED_MAX], *pointers[DISTRUSTED_NAMED_MAX];
    Morsel__DonorBlame blame[DISTRUSTED_NAMED_MAX];
};
size_t donors_distrusted_fill(struct meta *meta, struct distrusted_list *list);

/* What they hold, and are to delete: handlers_held_uv.c */
int serve_donor_held(struct request *r);
bool donor_is_serving(struct request *r, donor_id id, uint64_t instance);
int take_set_collected(struct request *r); /* What a report says is deleted leaves the queue. */

/* Data sets: handlers_set_uv.c */
int serve_set_place(struct request *r);
int record_set_stored(struct request *r);
int reply_set_stored(struct request *r);
int record_set_seal(struct request *r);
int reply_set_seal(struct request *r);

/* Setting user.morsel.origin; and the value of that or of user.morsel.missing, into r->bytes: MORSEL_NODATA. */
int record_origin(struct request *r);
int origin_text(struct request *r, struct slice name, const struct inode *inode);

/* handlers_source_uv.c: origins that are files of class durable of this cluster.
 *
 * source_may_open: may the client of this OPEN read the inode as the origin of the data set of `for_set`? The rights are those of who
 * owns that file. MORSEL_ACCES; MORSEL_STALE: it was changed since, or deleted. */
int source_may_open(struct request *r, const struct inode *inode);

/* Is the origin, which somebody says of the file, one that he reaches by its path? `proven` is what is so: it is durable, and the owner of the
 * file may read it. MORSEL_INVAL, MORSEL_STALE (it is another one by now), and why he does not reach it. */
int source_prove(struct request *r, const struct inode *file, struct origin *origin);

/* SOURCE_XATTR, into the bytes of the request. */
int source_text(struct request *r, const struct inode *inode);

/* May the client store the file's set from now on? MORSEL_BUSY: another one holds the file open for writing, and stores it. */
int may_take_over(struct request *r, const struct inode *inode);

/* Setting user.morsel.reserved; and its value as digits, into r->bytes: MORSEL_NODATA. */
int record_reserve(struct request *r);
int reserved_text(struct request *r, const struct inode *inode);
/* Setting user.morsel.kept, which takes all leases back before; and the value of that or of user.morsel.eviction, as above. */
int look_xattr_set(struct request *r);
bool is_evict(const Morsel__XattrSetRequest *m);
int record_evict(struct request *r);

/* Was that the change? Then, behind it, who had what has gone is asked to delete it soon. */
void hurry_evicted(const struct request *r);
int evict_text(struct request *r, struct slice name, const struct inode *inode);
int serve_set_map(struct request *r);
int serve_set_list(struct request *r);
int serve_set_claim(struct request *r); /* handlers_claim_uv.c */
int serve_set_returned(struct request *r);
int serve_donor_fetched(struct request *r); /* handlers_repair_uv.c */

/* Copies that are wrong: handlers_damage_uv.c */
int serve_set_damaged(struct request *r);
int serve_donor_checked(struct request *r);
int serve_donor_trust(struct request *r);

/* They have no message to unpack: handlers_admin_uv.c, handlers_member_uv.c */
void handle_statfs(struct meta *meta, struct rpc_request *request);
void handle_members(struct meta *meta, struct rpc_request *request);
void handle_probe(struct meta *meta, struct rpc_request *request);
void handle_vote(struct meta *meta, struct rpc_request *request);
void handle_status(struct meta *meta, struct rpc_request *request);
void handle_statistics(struct meta *meta, struct rpc_request *request);

/* `morsel fsck`: handlers_fsck_uv.c */
int serve_fsck(struct request *r);
int serve_fsck_objects(struct request *r);
int serve_writers(struct request *r);
int serve_recover(struct request *r);

#endif
