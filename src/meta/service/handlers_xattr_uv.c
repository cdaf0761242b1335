/* Extended attributes, and the policy of directories, which user.morsel.* shows and changes. */
#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/fs/eviction.h"
#include "common/fs/origin.h"
#include "common/fs/policy_text.h"
#include "common/rpc/messages.h"
#include "meta/cluster/copies_rule.h"
#include "meta/cluster/groups_uv.h"
#include "meta/datasets/sets_uv.h"
#include "meta/namespace/permit.h"
#include "meta/service/handlers_uv.h"
#include "meta/service/identify_uv.h"
#include "meta/service/reply_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- user.morsel.* ---- */

static uint32_t *policy_field(struct file_policy *policy, enum policy_key key)
{
    switch (key) {
    case POLICY_CLASS:
        return &policy->class;
    case POLICY_REPLICAS:
        return &policy->replicas;
    case POLICY_MORSEL_SIZE:
        return &policy->morsel_bytes;
    case POLICY_STRIPE_SIZE:
        return &policy->stripe_morsels;
    case POLICY_STRIPE_WIDTH:
        return &policy->width;
    case POLICY_SCRATCH:
        return &policy->scratch;
    case POLICY_KEYS:
        break;
    }
    CHECK(!"a key of a policy");
    return NULL;
}

static struct policy_values policy_to_values(struct file_policy *policy)
{
    struct policy_values values = { .copies_from = POLICY_OF_DIRECTORY };

    for (int key = 0; key < POLICY_KEYS; key++) {
        values.values[key] = *policy_field(policy, key);
    }
    return values;
}

/* True when the name is one of ours. */
static bool is_virtual(struct slice name)
{
    return slice_starts_with(name, slice_text(POLICY_XATTR_PREFIX));
}

/* The name as text; false when it is longer than any of ours. */
static bool name_text(struct slice name, char text[64])
{
    if (name.count >= 64) {
        return false;
    }
    memcpy(text, name.data, name.count);
    text[name.count] = 0;
    return true;
}

/* Those who hold a place of it. */
static void group_text(const struct meta *meta, group_number number, struct layout_text_group *text)
{
    const struct group_made *group = groups_record_find(ns_groups(meta->ns), number);

    text->number = group != NULL ? number : 0;
    for (uint32_t i = 0; group != NULL && i < group->now.count; i++) {
        if (group->now.servers[i] != 0) {
            text->servers[text->count++] = group->now.servers[i];
        }
    }
}

static int virtual_layout(const struct meta *meta, const struct inode *inode,
                          char text[LAYOUT_TEXT_MAX])
{
    struct layout_text layout = { .layout_class = inode->layout.class,
                                  .replicas = inode->layout.replicas,
                                  .morsel_bytes = inode->layout.stripe.morsel_bytes,
                                  .stripe_morsels = inode->layout.stripe.stripe_morsels,
                                  .width = inode->layout.stripe.width,
                                  .set = inode_body(inode) };

    if (!mode_is_regular(inode->mode)) {
        return MORSEL_NODATA;
    }
    for (uint32_t i = 0; layout.layout_class != CLASS_SCAVENGED && i < layout.width; i++) {
        layout.servers[i] = first_server(meta, &inode->layout, i);
        if (layout.replicas > 1) {
            group_text(meta, inode->layout.groups[i], &layout.groups[i]);
        }
    }
    layout_format(&layout, text);
    return 0;
}

/* What a new file in the directory gets, and who says how many copies. */
static int effective_policy(struct meta *meta, inode_id directory, struct file_policy *policy,
                            enum policy_source *copies_from, struct errmsg *err)
{
    uint32_t rule;
    int rv = ns_policy_effective(meta->ns, directory, policy, err);

    *copies_from = POLICY_OF_DIRECTORY;
    if (rv == 0 && policy->replicas == 0 && policy->class == CLASS_SCAVENGED) {
        policy->replicas = SET_COPIES_DEFAULT;
        *copies_from = POLICY_OF_CLUSTER;
    } else if (rv == 0 && policy->replicas == 0) {
        groups_default_now(meta, &policy->replicas, &rule);
        *copies_from = rule == COPIES_AUTO ? POLICY_AUTO : POLICY_OF_CLUSTER;
    }
    return rv;
}

static int virtual_effective(struct meta *meta, const struct inode *inode,
                             char text[LAYOUT_TEXT_MAX], struct errmsg *err)
{
    struct policy_values values;
    struct file_policy policy;
    enum policy_source from;
    int rv;

    if (!mode_is_directory(inode->mode)) {
        return MORSEL_NODATA;
    }
    if ((rv = effective_policy(meta, inode->id, &policy, &from, err)) == 0) {
        values = policy_to_values(&policy);
        values.copies_from = from;
        policy_format(&values, text);
    }
    return rv;
}

static int virtual_pinned(const struct meta *meta, const struct inode *inode,
                          char text[LAYOUT_TEXT_MAX])
{
    const struct data_set *set =
        inode_is_scavenged(inode) ? sets_find(ns_sets(meta->ns), inode_body(inode)) : NULL;

    if (set == NULL) {
        return MORSEL_NODATA;
    }
    policy_value_format(POLICY_SCRATCH, set->head.pinned ? POLICY_YES : POLICY_NO, text);
    return 0;
}

static int virtual_largest(struct meta *meta, const struct inode *inode, char text[LAYOUT_TEXT_MAX],
                           struct errmsg *err)
{
    struct file_layout layout;
    struct file_policy policy;
    enum policy_source from;
    uint64_t bytes;
    int rv;

    if (!mode_is_directory(inode->mode)) {
        return MORSEL_NODATA;
    }
    if ((rv = effective_policy(meta, inode->id, &policy, &from, err)) != 0) {
        return rv;
    }
    if (policy.class != CLASS_SCAVENGED) {
        return MORSEL_NODATA;
    }
    sets_layout(&policy, &layout);
    if (!sets_largest(meta, layout.replicas, layout.stripe.morsel_bytes, &bytes)) {
        return MORSEL_NODATA;
    }
    (void)snprintf(text, LAYOUT_TEXT_MAX, "%" PRIu64, bytes);
    return 0;
}

static_assert(LAYOUT_TEXT_MAX >= POLICY_TEXT_MAX, "one buffer is for all values");

/* The value of a virtual attribute. */
static int virtual_get(struct meta *meta, struct slice name, struct inode *inode,
                       char text[LAYOUT_TEXT_MAX], struct errmsg *err)
{
    enum policy_key key;
    char wanted[64];

    if (!name_text(name, wanted)) {
        return MORSEL_NODATA;
    }
    if (strcmp(wanted, POLICY_XATTR_LAYOUT) == 0) {
        return virtual_layout(meta, inode, text);
    }
    if (strcmp(wanted, POLICY_XATTR_PINNED) == 0) {
        return virtual_pinned(meta, inode, text);
    }
    if (strcmp(wanted, POLICY_XATTR_LARGEST) == 0) {
        return virtual_largest(meta, inode, text, err);
    }
    if (strcmp(wanted, POLICY_XATTR_EFFECTIVE) == 0) {
        return virtual_effective(meta, inode, text, err);
    }
    if (!policy_key_find(wanted, &key) || !mode_is_directory(inode->mode) ||
        *policy_field(&inode->policy, key) == 0) {
        return MORSEL_NODATA;
    }
    policy_value_format(key, *policy_field(&inode->policy, key), text);
    return 0;
}

/* What a directory has that says nothing itself. */
static int inherited_class(struct meta *meta, inode_id directory, uint32_t *class,
                           struct errmsg *err)
{
    struct file_policy policy;
    struct inode inode;
    int rv = ns_inode(meta->ns, directory, &inode, err);

    *class = CLASS_DURABLE;
    if (rv != 0 || directory == INODE_ROOT || !mode_is_directory(inode.mode)) {
        return rv;
    }
    if ((rv = ns_policy_effective(meta->ns, inode.parent, &policy, err)) == 0) {
        *class = policy.class;
    }
    return rv;
}

/* What cannot be kept is not promised: copies of the durable class need as many storage servers. */
static int policy_supported(struct meta *meta, inode_id directory, const struct file_policy *policy,
                            struct errmsg *err)
{
    uint32_t class = policy->class;
    int rv = 0;

    if (!file_policy_valid(policy)) {
        errmsg_set(err, "a value of the policy is out of range");
        return MORSEL_INVAL;
    }
    if (class == CLASS_INHERIT) {
        rv = inherited_class(meta, directory, &class, err);
    }
    return rv == 0 && policy->replicas > 1 && class != CLASS_SCAVENGED
               ? groups_want(meta, policy->replicas, err)
               : rv;
}

/* A data set is pinned, or is not any more. */
static int pinned_set(struct meta *meta, const Morsel__XattrSetRequest *m,
                      const struct inode *inode, struct meta_op *op, struct errmsg *err)
{
    uint32_t answer = POLICY_NO;
    int rv = m->remove ? 0
                       : policy_value_parse(POLICY_SCRATCH, (const char *)m->value.data,
                                            m->value.len, &answer, NULL);

    if (rv != 0) {
        errmsg_set(err, "a data set is pinned or not: give yes or no");
        return rv;
    }
    if (!inode_is_scavenged(inode) || sets_find(ns_sets(meta->ns), inode_body(inode)) == NULL) {
        errmsg_set(err,
                   "only files of class scavenged can be pinned, and something has to be stored");
        return MORSEL_INVAL;
    }
    op->kind = OP_SET_MARK;
    op->set_mark.set = inode_body(inode);
    op->set_mark.pinned = answer == POLICY_YES;
    return 0;
}

/* Turn setting or removing a virtual attribute into a change of the policy, or of a data set. */
static int virtual_set(struct meta *meta, const Morsel__XattrSetRequest *m, struct meta_op *op,
                       struct errmsg *err)
{
    enum policy_key key;
    struct inode inode;
    char wanted[64];
    uint32_t value = 0;
    int rv;

    if ((rv = ns_inode(meta->ns, m->inode, &inode, err)) != 0) {
        return rv;
    }
    if (name_text(bytes_slice(m->name), wanted) && strcmp(wanted, POLICY_XATTR_PINNED) == 0) {
        return pinned_set(meta, m, &inode, op, err);
    }
    if (!name_text(bytes_slice(m->name), wanted) || !policy_key_find(wanted, &key)) {
        errmsg_set(
            err,
            "only class, replicas, morsel_size, stripe_size, stripe_width and scratch can be set");
        return MORSEL_PERM;
    }
    if (!mode_is_directory(inode.mode)) {
        errmsg_set(err, "policy is set on directories");
        return MORSEL_PERM;
    }
    if (m->remove && *policy_field(&inode.policy, key) == 0) {
        return MORSEL_NODATA;
    }
    if (!m->remove && (rv = policy_value_parse(key, (const char *)m->value.data, m->value.len,
                                               &value, err)) != 0) {
        return rv;
    }
    *policy_field(&inode.policy, key) = value;
    op->kind = OP_POLICY;
    op->policy.inode = m->inode;
    op->policy.policy = inode.policy;
    return policy_supported(meta, inode.id, &inode.policy, err);
}

static void virtual_list(struct inode *inode, struct buf *names)
{
    for (int key = 0; mode_is_directory(inode->mode) && key < POLICY_KEYS; key++) {
        const char *name = policy_key_name(key);

        if (*policy_field(&inode->policy, key) != 0) {
            buf_put(names, POLICY_XATTR_PREFIX, strlen(POLICY_XATTR_PREFIX));
            buf_put(names, name, strlen(name) + 1);
        }
    }
}

/* ---- Requests ---- */

static int answer_xattr(struct request *r)
{
    Morsel__XattrReply reply = MORSEL__XATTR_REPLY__INIT;

    reply.value = slice_bytes(buf_slice(&r->bytes));
    rpc_reply(r->rpc, &reply.base, NULL);
    return 0;
}

/* Where a file lies is no secret. */
static int may_get(struct request *r, const Morsel__XattrGetRequest *m, const struct inode *inode)
{
    struct credentials who = identify(r->meta, r->rpc, m->who);

    return is_virtual(bytes_slice(m->name))
               ? 0
               : permit_xattr_get(r->meta->ns, inode, bytes_slice(m->name), &who, &r->err);
}

static int get_value(struct request *r, struct slice name, struct inode *inode)
{
    char text[LAYOUT_TEXT_MAX] = "";
    int rv;

    if (!is_virtual(name)) {
        return ns_xattr_get(r->meta->ns, inode->id, name, &r->bytes, &r->err);
    }
    if (slice_equal(name, slice_text(ORIGIN_XATTR)) ||
        slice_equal(name, slice_text(MISSING_XATTR))) {
        return origin_text(r, name, inode);
    }
    if (slice_equal(name, slice_text(SOURCE_XATTR))) {
        return source_text(r, inode);
    }
    if (slice_equal(name, slice_text(POLICY_XATTR_RESERVED))) {
        return reserved_text(r, inode);
    }
    if (slice_equal(name, slice_text(EVICTION_XATTR)) ||
        slice_equal(name, slice_text(KEPT_XATTR))) {
        return evict_text(r, name, inode);
    }
    if ((rv = virtual_get(r->meta, name, inode, text, &r->err)) == 0) {
        buf_put(&r->bytes, text, strlen(text));
    }
    return rv;
}

int serve_xattr_get(struct request *r)
{
    const Morsel__XattrGetRequest *m = r->message;
    struct inode inode;
    int rv;

    if ((rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err)) != 0 ||
        (rv = may_get(r, m, &inode)) != 0 ||
        (rv = get_value(r, bytes_slice(m->name), &inode)) != 0) {
        return rv;
    }
    return answer_xattr(r);
}

int serve_xattr_list(struct request *r)
{
    const Morsel__XattrListRequest *m = r->message;
    struct inode inode;
    int rv;

    if ((rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err)) != 0 ||
        (rv = ns_xattr_list(r->meta->ns, m->inode, &r->bytes, &r->err)) != 0) {
        return rv;
    }
    virtual_list(&inode, &r->bytes);
    return r->bytes.failed ? MORSEL_NOMEM : answer_xattr(r);
}

int record_xattr_set(struct request *r)
{
    const Morsel__XattrSetRequest *m = r->message;
    struct meta_op *op = &r->op;

    if (slice_equal(bytes_slice(m->name), slice_text(ORIGIN_XATTR))) {
        return record_origin(r);
    }
    if (slice_equal(bytes_slice(m->name), slice_text(POLICY_XATTR_RESERVED))) {
        return record_reserve(r);
    }
    if (is_evict(m)) {
        return record_evict(r);
    }
    if (is_virtual(bytes_slice(m->name))) {
        return virtual_set(r->meta, m, op, &r->err);
    }
    op->xattr.inode = m->inode;
    op->xattr.name = bytes_slice(m->name);
    op->xattr.value = bytes_slice(m->value);
    op->xattr.flags = m->flags;
    op->xattr.remove = m->remove;
    return 0;
}

int reply_xattr_set(struct request *r)
{
    Morsel__Changed changed;

    hurry_evicted(r);
    changed_fill(r->meta, &changed)->inode = r->outcome.target;
    rpc_reply(r->rpc, &changed.base, NULL);
    return 0;
}

static void fill_policy(Morsel__Policy *message, const struct file_policy *policy)
{
    morsel__policy__init(message);
    message->class_ = policy->class;
    message->replicas = policy->replicas;
    message->morsel_bytes = policy->morsel_bytes;
    message->stripe_morsels = policy->stripe_morsels;
    message->width = policy->width;
    message->scratch = policy->scratch;
}

int reply_policy(struct request *r)
{
    Morsel__PolicyReply reply = MORSEL__POLICY_REPLY__INIT;
    Morsel__Policy own, effective;
    struct file_policy policy;
    enum policy_source from;
    struct inode inode;
    int rv = ns_inode(r->meta->ns, r->outcome.target, &inode, &r->err);

    if (rv == 0 && !mode_is_directory(inode.mode)) {
        errmsg_set(&r->err, "policy belongs to directories; a file has a layout");
        rv = MORSEL_NOTDIR;
    }
    if (rv != 0 || (rv = effective_policy(r->meta, inode.id, &policy, &from, &r->err)) != 0) {
        return rv;
    }
    fill_policy(&own, &inode.policy);
    fill_policy(&effective, &policy);
    reply.own = &own;
    reply.effective = &effective;
    rpc_reply(r->rpc, &reply.base, NULL);
    return 0;
}

/* Policies are not cached under leases: who only asks touches nothing. */
int look_policy(struct request *r)
{
    const Morsel__PolicyRequest *m = r->message;

    r->changes = m->set;
    if (m->set) {
        request_touch(r, m->inode, ACCESS_CHANGE);
    }
    return 0;
}

int serve_policy(struct request *r)
{
    const Morsel__PolicyRequest *m = r->message;

    r->outcome = (struct op_outcome){ .target = m->inode };
    return reply_policy(r);
}

int record_policy(struct request *r)
{
    const Morsel__PolicyRequest *m = r->message;
    struct file_policy *policy = &r->op.policy.policy;

    if (m->policy == NULL) {
        return MORSEL_MALFORMED;
    }
    r->op.policy.inode = m->inode;
    policy->class = m->policy->class_;
    policy->replicas = m->policy->replicas;
    policy->morsel_bytes = m->policy->morsel_bytes;
    policy->stripe_morsels = m->policy->stripe_morsels;
    policy->width = m->policy->width;
    policy->scratch = m->policy->scratch;
    return policy_supported(r->meta, m->inode, policy, &r->err);
}
