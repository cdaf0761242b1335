/* The client's half of the leases (docs/leases.md): the host of their core (lease_holder.h), and what
 * replies say of them.
 *
 * Which leases are held is in client->cache (meta_cache.h), which this file keeps true as far as
 * replies go. What the core wants done, and what a reply means for others, goes out through struct
 * lease_hooks: joining and renewing is session_uv.h's, giving back recall_uv.h's, what is lost
 * held_uv.h's.
 */
#ifndef MORSEL_CLIENT_COHERENCE_LEASE_UV_H
#define MORSEL_CLIENT_COHERENCE_LEASE_UV_H

#include "client/coherence/lease_holder.h"
#include "client/coherence/meta_cache.h"
#include "client/libmorsel_uv.h"
#include "common/fs/lease_mode.h"

/* All run on the loop. */
struct lease_hooks
{
    void (*join)(struct client *client, uint64_t number); /* HOLDER_JOIN */
    void (*renew)(struct client *client);                 /* HOLDER_RENEW */
    void (*forget_all)(struct client *client);            /* HOLDER_FORGET_ALL */
    /* What the core says of action->back: HOLDER_FORGET and those behind it. */
    void (*give_back)(struct client *client, const struct lease_holder_action *action);
    /* A reply has brought these attributes, and we hold `mode` on the inode now. */
    void (*learned)(struct client *client, const Morsel__Attr *attr, enum lease_mode mode);
    /* The table had no room for some that are held: they are to be given back. */
    void (*evicted)(struct client *client);
    /* lease_unpinned() */
    void (*unpinned)(struct client *client);
};

/* client->leases, and client->cache; the hooks must stay. MORSEL_NOMEM. */
int lease_open(struct client *client, const struct lease_hooks *hooks);

/* None is on its way back. Harmless when they were never opened. */
void lease_close(struct client *client);

/* ---- What is good right now ---- */

/* Are the leases in the table good right now? */
bool client_lease_valid(const struct client *client);

/* How long the kernel may use what a lease covers; 0: not at all. */
uint32_t client_lease_left_ms(const struct client *client);

/* What we hold on the inode, right now. */
enum lease_mode client_lease(const struct client *client, inode_id inode);

/* meta_cache_since() of what we hold right now; 0: nothing. */
uint64_t client_lease_since(const struct client *client, inode_id inode);

/* May dirty data be written? A lease that is being given back is ours until it is. */
bool lease_is_for_writing(const struct client *client, inode_id inode);

/* Under which number we hold leases now; with them it is lost. 0: none yet. */
uint64_t lease_epoch(const struct client *client);

/* When they end, on rpc_boot_ns(). */
uint64_t lease_until_ns(const struct client *client);

/* How long the manager's lease period is. */
uint32_t client_lease_period_ms(const struct client *client);

/* Can nothing land any more whose end we do not know? */
bool lease_is_sure(const struct client *client);

/* Does the manager take our word? And is it being asked to, again? */
bool lease_is_joined(const struct client *client);
bool lease_is_joining(const struct client *client);

/* Is the inode's lease on its way back? */
bool lease_is_returning(const struct client *client, inode_id inode);

/* ---- What has happened ---- */

/* Tell the core, and do what it says. The times of the event are filled in. */
void lease_feed(struct client *client, struct lease_holder_event *event);

/* A request was refused for want of a session: nothing is valid until we have joined again. */
void lease_refused(struct client *client);

/* A change that was sent may still be carried out, or not: we do not know its end. */
void lease_unsure(struct client *client);

/* The manager has answered what was asked at `sent_ns`, and knows us. */
void lease_answered(struct client *client, uint64_t sent_ns);

/* What a reply says of inodes and leases, before its owner sees it. */
void lease_learn(struct client *client, const ProtobufCMessageDescriptor *type,
                 const void *message);

/* Something of a file that kept its lease here has ended: a recall may have waited for that. */
void lease_unpinned(struct client *client);

/* Every CLIENT_TICK_MS: is the lease period over? */
void lease_tick(struct client *client);

/* Connections go by when the leases end. */
void lease_bind(struct client *client, struct rpc *rpc);

/* ---- For those who say what is held, and give it back ---- */

/* As lease_holder_named(). */
enum lease_mode lease_named(const struct client *client, inode_id inode, enum lease_mode mode);

/* Each that is on its way back; `each` may end it. Harmless when they were never opened. */
void lease_each_return(struct client *client, void (*each)(void *data, struct lease_return *back),
                       void *data);

/* As lease_holder_abandon(). */
void lease_abandon(struct client *client, struct lease_return *back);

#endif
