/* Plain structs of the cores into messages, and bytes of messages into slices. */
#ifndef MORSEL_META_REPLY_UV_H
#define MORSEL_META_REPLY_UV_H

#include "meta/meta_uv.h"

/* A Node message and all that it points to. */
struct node_reply
{
    Morsel__Node node;
    Morsel__Attr attr;
    Morsel__Layout layout;
    uint32_t servers[STRIPE_WIDTH_MAX];
};

void attr_fill(Morsel__Attr *attr, const struct inode *inode);
void node_fill(struct node_reply *reply, const struct inode *inode, bool layout, uint32_t cache_ms);

/* Answer with a Node; `layout` for regular files only. */
void reply_node(struct meta *meta, struct rpc_request *request, const struct inode *inode,
                bool layout);

/* Answer with a failure; `err` may be empty. */
void reply_error(struct meta *meta, struct rpc_request *request, int status,
                 const struct errmsg *err);

/* All members; both arrays have room for SERVERS_MAX. */
void members_fill(struct meta *meta, Morsel__Member *messages, Morsel__Member **pointers);

struct slice bytes_slice(ProtobufCBinaryData bytes);
ProtobufCBinaryData slice_bytes(struct slice slice);

/* Free an unpacked message. */
void message_free(void *message);

#endif
