/* Fills messages; what they point to lives as long as the reply is being packed. */
#include "meta/service/reply_uv.h"
#include "meta/cluster/groups_uv.h"
#include "meta/datasets/sets.h"

#include "common/base/status.h"
#include "common/rpc/messages.h"

uint32_t reply_place(const struct inode *inode)
{
    const struct file_layout *layout = &inode->layout;
    const struct placing placing = { .body = inode_body(inode),
                                     .layout_class = layout->class,
                                     .replicas = layout->replicas,
                                     .stripe = layout->stripe,
                                     .columns =
                                         layout->replicas > 1 ? layout->groups : layout->servers };

    return mode_is_regular(inode->mode) ? placing_place(&placing) : PLACE_UNKNOWN;
}

void attr_fill(const struct meta *meta, Morsel__Attr *attr, const struct inode *inode)
{
    morsel__attr__init(attr);
    attr->inode = inode->id;
    attr->mode = inode->mode;
    attr->nlink = inode->nlink;
    attr->uid = inode->uid;
    attr->gid = inode->gid;
    attr->rdev = inode->rdev;
    attr->size = ns_attr_size(inode);
    attr->atime_ns = (uint64_t)inode->atime_ns;
    attr->mtime_ns = (uint64_t)inode->mtime_ns;
    attr->ctime_ns = (uint64_t)inode->ctime_ns;
    attr->version = inode->version;
    attr->data_version = inode->data_version;
    attr->sparse = (inode->flags & INODE_SPARSE) != 0;
    attr->tail_unsure =
        mode_is_regular(inode->mode) && ((inode->flags & INODE_TAILED) == 0 ||
                                         inode->tail != ns_counters(meta->ns)->lease_epochs_over);
    attr->place = reply_place(inode);
    /* The policy of a directory is listed among its extended attributes. */
    attr->xattrs = (inode->flags & INODE_HAS_XATTR) != 0 ||
                   (mode_is_directory(inode->mode) && !file_policy_empty(&inode->policy));
}

server_id first_server(const struct meta *meta, const struct file_layout *layout, uint32_t column)
{
    const struct group_made *group =
        layout->replicas > 1 ? groups_record_find(ns_groups(meta->ns), layout->groups[column])
                             : NULL;

    return group != NULL ? group_first_held(group) : layout->servers[column];
}

/* A group that the table does not have is named without servers: nobody can be asked. */
static void groups_fill(const struct meta *meta, struct node_reply *reply,
                        const struct file_layout *layout)
{
    for (uint32_t i = 0; i < layout->stripe.width; i++) {
        const struct group_made *group = groups_record_find(ns_groups(meta->ns), layout->groups[i]);

        morsel__group__init(&reply->groups[i]);
        reply->groups[i].number = layout->groups[i];
        for (uint32_t j = 0; group != NULL && j < group->now.count; j++) {
            reply->group_servers[i][j] = group->now.servers[j];
        }
        reply->groups[i].n_servers = group != NULL ? group->now.count : 0;
        reply->groups[i].copies = group != NULL ? group->copies : 0;
        reply->groups[i].servers = reply->group_servers[i];
        reply->group_pointers[i] = &reply->groups[i];
    }
    reply->layout.n_groups = layout->stripe.width;
    reply->layout.groups = reply->group_pointers;
}

static void layout_fill(const struct meta *meta, struct node_reply *reply,
                        const struct inode *inode)
{
    const struct file_layout *layout = &inode->layout;

    morsel__layout__init(&reply->layout);
    reply->node.layout = &reply->layout;
    reply->layout.body = inode->body;
    reply->layout.class_ = layout->class;
    reply->layout.replicas = layout->replicas;
    reply->layout.morsel_bytes = layout->stripe.morsel_bytes;
    reply->layout.stripe_morsels = layout->stripe.stripe_morsels;
    if (layout->class == CLASS_SCAVENGED) {
        const struct data_set *set = sets_find(ns_sets(meta->ns), inode_body(inode));

        reply->layout.width = layout->stripe.width;
        reply->layout.sealed = set != NULL && set->head.sealed;
        return;
    }
    for (uint32_t i = 0; i < layout->stripe.width; i++) {
        reply->servers[i] = first_server(meta, layout, i);
    }
    reply->layout.n_servers = layout->stripe.width;
    reply->layout.servers = reply->servers;
    if (layout->replicas > 1) {
        groups_fill(meta, reply, layout);
    }
}

void node_fill(const struct meta *meta, struct node_reply *reply, const struct inode *inode,
               bool layout, enum lease_mode lease)
{
    morsel__node__init(&reply->node);
    attr_fill(meta, &reply->attr, inode);
    reply->node.attr = &reply->attr;
    reply->node.lease = lease;
    if (layout && mode_is_regular(inode->mode)) {
        layout_fill(meta, reply, inode);
    }
}

Morsel__Changed *changed_fill(const struct meta *meta, Morsel__Changed *changed)
{
    morsel__changed__init(changed);
    changed->run = meta->runs.run;
    changed->number = ns_counters(meta->ns)->sequence;
    changed->durable = meta->sync.durable;
    return changed;
}

Morsel__Durable *durable_fill(const struct meta *meta, struct durable_reply *reply)
{
    morsel__durable__init(&reply->durable);
    reply->durable.run = meta->runs.run;
    reply->durable.number = meta->sync.durable;
    reply->durable.n_before = meta->runs.count;
    reply->durable.before = reply->pointers;
    for (uint32_t i = 0; i < meta->runs.count; i++) {
        morsel__changed__init(&reply->before[i]);
        reply->before[i].run = meta->runs.before[i].run;
        reply->before[i].number = meta->runs.before[i].number;
        reply->pointers[i] = &reply->before[i];
    }
    return &reply->durable;
}

void node_add_parent(struct meta *meta, struct rpc_request *request, struct node_reply *reply,
                     const struct inode *parent)
{
    attr_fill(meta, &reply->parent, parent);
    reply->node.parent = &reply->parent;
    reply->node.parent_lease = leases_grant(meta, request, parent->id, LEASE_R, false);
}

void meta_not_answered(struct meta *meta, struct rpc_request *request, int rv,
                       const struct errmsg *err, load_again again, uint64_t subject)
{
    if (kv_wants(meta->kv)) {
        (void)loads_wait(&meta->loads, request, again, subject);
    } else if (rv != MORSEL_AGAIN || !groups_park(meta, request, again, subject)) {
        reply_error(meta, request, rv, err);
    }
}

void reply_error(struct meta *meta, struct rpc_request *request, int status,
                 const struct errmsg *err)
{
    if (status == MORSEL_CORRUPT || status == MORSEL_IO) {
        log_error(meta->log, "%s: %s", message_name(request->type),
                  err->text[0] != 0 ? err->text : status_words(status));
    }
    rpc_reply_failure(request, status, err->text);
}

struct slice bytes_slice(ProtobufCBinaryData bytes)
{
    return (struct slice){ bytes.data, bytes.len };
}

ProtobufCBinaryData slice_bytes(struct slice slice)
{
    /* Messages that are packed are only read; protobuf-c has one type for both directions. */
    return (ProtobufCBinaryData){ slice.count, (uint8_t *)(uintptr_t)slice.data };
}

void message_free(void *message)
{
    if (message != NULL) {
        protobuf_c_message_free_unpacked(message, NULL);
    }
}
