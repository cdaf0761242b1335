/* Plain structs of the cores into messages, and bytes of messages into slices. */
#ifndef MORSEL_META_SERVICE_REPLY_UV_H
#define MORSEL_META_SERVICE_REPLY_UV_H

#include "meta/coherence/leases_uv.h"

/* A Node message and all that it points to. */
struct node_reply
{
    Morsel__Node node;
    Morsel__Attr attr;
    Morsel__Layout layout;
    uint32_t servers[STRIPE_WIDTH_MAX];
    Morsel__Group groups[STRIPE_WIDTH_MAX], *group_pointers[STRIPE_WIDTH_MAX];
    uint32_t group_servers[STRIPE_WIDTH_MAX][REPLICAS_MAX];
    Morsel__Attr parent;
};

/* Where its bytes lie, as one number (placing.h). PLACE_UNKNOWN: it is no regular file. */
uint32_t reply_place(const struct inode *inode);

void attr_fill(const struct meta *meta, Morsel__Attr *attr, const struct inode *inode);

/* `lease`: what the client holds on the inode. The layout goes along for regular files. */
void node_fill(const struct meta *meta, struct node_reply *reply, const struct inode *inode,
               bool layout, enum lease_mode lease);

/* Of a column: its server, or the first one of its group. */
server_id first_server(const struct meta *meta, const struct file_layout *layout, uint32_t column);

/* In the answer to a change that has just been applied. */
Morsel__Changed *changed_fill(const struct meta *meta, Morsel__Changed *changed);

/* What is on our disk. */
struct durable_reply
{
    Morsel__Durable durable;
    Morsel__Changed before[RUNS_KEPT], *pointers[RUNS_KEPT];
};
Morsel__Durable *durable_fill(const struct meta *meta, struct durable_reply *reply);

/* Add the directory as it is now, and what the client holds on it. */
void node_add_parent(struct meta *meta, struct rpc_request *request, struct node_reply *reply,
                     const struct inode *parent);

/* Answer with a failure; `err` may be empty. */
void reply_error(struct meta *meta, struct rpc_request *request, int status,
                 const struct errmsg *err);

/* `rv` is why a request could not be answered. Where that is only that something must be read first
 * (MORSEL_AGAIN), `again` is called when it has been. */
void meta_not_answered(struct meta *meta, struct rpc_request *request, int rv,
                       const struct errmsg *err, load_again again, uint64_t subject);

/* All members, by place in `messages`; in `pointers` those of the cluster: as many as it returns. Both arrays have room
 * for SERVERS_MAX. */
uint32_t members_fill(struct meta *meta, Morsel__Member *messages, Morsel__Member **pointers);

/* Memory of what is said of a member's scrub. */
struct member_scrub_message
{
    Morsel__Scrub scrub;
    Morsel__ScrubFinding findings[SCRUB_TOLD_MAX], *pointers[SCRUB_TOLD_MAX];
};

/* Into the messages of all members, in their order. Owned: to be freed when these are packed. NULL: no memory, and nothing is said
 * of scrubs. */
struct member_scrub_message *member_scrubs_fill(const struct members *members,
                                                Morsel__Member *messages);

struct slice bytes_slice(ProtobufCBinaryData bytes);
ProtobufCBinaryData slice_bytes(struct slice slice);

/* Free an unpacked message. */
void message_free(void *message);

#endif
