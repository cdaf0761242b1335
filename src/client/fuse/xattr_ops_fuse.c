/* Extended attributes; ACLs and user.morsel.* are among them, and the manager knows what they mean.
 */
#include "client/fuse/mount_fuse.h"

#include "common/base/status.h"
#include "common/fs/policy_text.h"

#include <errno.h>
#include <string.h>

struct xattr_op
{
    struct mount_op base;
    size_t size; /* Of the caller's buffer; 0: asks for the length. */
};

/* Under a lease it may be known that there are none: the kernel asks for security.capability before
 * each write. Attributes of ours (user.morsel.*) exist all the same. */
static bool known_to_have_none(fuse_req_t req, inode_id inode)
{
    struct client *client = ((struct mount *)fuse_req_userdata(req))->client;
    const Morsel__Attr *attr =
        client_lease_valid(client) ? meta_cache_attr(client->cache, inode) : NULL;

    return attr != NULL && !attr->xattrs;
}

static void on_value(struct meta_call *call, int status, void *message)
{
    struct xattr_op *op = call->data;
    Morsel__XattrReply *reply = message;

    if (status == 0 && op->size > 0 && reply->value.len > op->size) {
        status = MORSEL_RANGE;
    }
    if (status != 0) {
        mount_op_fail(&op->base, status);
        return;
    }
    if (op->size == 0) {
        (void)fuse_reply_xattr(op->base.req, reply->value.len);
    } else {
        (void)fuse_reply_buf(op->base.req, (char *)reply->value.data, reply->value.len);
    }
    mount_op_end(&op->base);
}

/* As on a local file system, trusted.* exists for root only. */
static void hide_trusted(ProtobufCBinaryData *names)
{
    size_t kept = 0;

    for (size_t at = 0; at < names->len;) {
        size_t length = strnlen((char *)names->data + at, names->len - at - 1) + 1;

        if (strncmp((char *)names->data + at, "trusted.", 8) != 0) {
            memmove(names->data + kept, names->data + at, length);
            kept += length;
        }
        at += length;
    }
    names->len = kept;
}

static void on_names(struct meta_call *call, int status, void *message)
{
    struct xattr_op *op = call->data;
    Morsel__XattrReply *reply = message;

    if (status == 0 && fuse_req_ctx(op->base.req)->uid != 0) {
        hide_trusted(&reply->value);
    }
    on_value(call, status, message);
}

static void on_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    Morsel__XattrGetRequest request = MORSEL__XATTR_GET_REQUEST__INIT;
    struct mount_who who;
    struct xattr_op *op;

    if (ino == FUSE_ROOT_ID && strcmp(name, STATISTICS_XATTR) == 0) {
        mount_reply_statistics(fuse_req_userdata(req), req, size);
        return;
    }
    if (strncmp(name, POLICY_XATTR_PREFIX, strlen(POLICY_XATTR_PREFIX)) != 0 &&
        known_to_have_none(req, ino)) {
        (void)fuse_reply_err(req, ENODATA);
        return;
    }
    op = mount_op_new(req, MOUNT_XATTR, sizeof(*op));
    if (op == NULL) {
        return;
    }
    op->size = size;
    request.inode = ino;
    request.name = mount_bytes(name);
    request.who = mount_who(op->base.mount, &who, req, ino, MAY_READ);
    (void)mount_op_ask(&op->base, MSG_XATTR_GET, &request.base, &morsel__xattr_reply__descriptor,
                       on_value);
}

static void on_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    Morsel__XattrListRequest request = MORSEL__XATTR_LIST_REQUEST__INIT;
    struct xattr_op *op;

    if (known_to_have_none(req, ino)) {
        (void)(size == 0 ? fuse_reply_xattr(req, 0) : fuse_reply_buf(req, NULL, 0));
        return;
    }
    op = mount_op_new(req, MOUNT_XATTR, sizeof(*op));
    if (op == NULL) {
        return;
    }
    op->size = size;
    request.inode = ino;
    (void)mount_op_ask(&op->base, MSG_XATTR_LIST, &request.base, &morsel__xattr_reply__descriptor,
                       on_names);
}

struct xattr_set_op
{
    struct mount_op base;
    inode_id inode;
};

/* Modes and times may have changed along. */
static void on_set(struct meta_call *call, int status, void *message)
{
    struct xattr_set_op *op =
        CONTAINER_OF((struct mount_op *)call->data, struct xattr_set_op, base);

    (void)message;
    meta_cache_forget_attr(op->base.mount->client->cache, op->inode);
    mount_op_fail(&op->base, status);
}

static void change(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
                   int flags, bool remove)
{
    Morsel__XattrSetRequest request = MORSEL__XATTR_SET_REQUEST__INIT;
    struct mount_who who;
    struct xattr_set_op *op = mount_op_new(req, MOUNT_XATTR_SET, sizeof(*op));

    if (op == NULL) {
        return;
    }
    op->inode = ino;
    /* While it is under way nobody may say that there is none. */
    meta_cache_forget_attr(op->base.mount->client->cache, ino);
    request.inode = ino;
    request.name = mount_bytes(name);
    request.value = (ProtobufCBinaryData){ size, (uint8_t *)(uintptr_t)value };
    request.flags = (uint32_t)flags;
    request.remove = remove;
    request.who = mount_who(op->base.mount, &who, req, INODE_NONE, MAY_WRITE);
    (void)mount_op_change(&op->base, MSG_XATTR_SET, &request.base, &request.op,
                          &morsel__changed__descriptor, on_set);
}

static void on_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value,
                        size_t size, int flags)
{
    change(req, ino, name, value, size, flags, false);
}

static void on_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    change(req, ino, name, NULL, 0, 0, true);
}

void mount_xattr_operations(struct fuse_lowlevel_ops *ops)
{
    ops->getxattr = on_getxattr;
    ops->listxattr = on_listxattr;
    ops->setxattr = on_setxattr;
    ops->removexattr = on_removexattr;
}
