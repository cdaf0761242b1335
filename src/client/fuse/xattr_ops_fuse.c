/* Extended attributes; ACLs and user.morsel.* are among them, and the manager knows what they mean.
 */
#include "client/fuse/mount_fuse.h"

#include "common/status.h"

#include <string.h>

static const char capability_name[] = "security.capability";

enum { NO_CAPABILITY_MS = 1000 };

struct xattr_op
{
    struct mount_op base;
    size_t size; /* Of the caller's buffer; 0: asks for the length. */
    inode_id inode;
    bool capability;
};

static void on_value(struct meta_call *call, int status, void *message)
{
    struct xattr_op *op = call->data;
    Morsel__XattrReply *reply = message;
    struct file *file = file_find(op->base.mount->client, op->inode);

    if (op->capability && status == MORSEL_NODATA && file != NULL) {
        file->no_capability_until_ms = uv_now(op->base.mount->client->loop) + NO_CAPABILITY_MS;
    }
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
    struct xattr_op *op = mount_op_new(req, sizeof(*op));
    struct file *file;

    if (op == NULL) {
        return;
    }
    op->size = size;
    op->inode = ino;
    op->capability = strcmp(name, capability_name) == 0;
    file = file_find(op->base.mount->client, ino);
    if (op->capability && file != NULL &&
        uv_now(op->base.mount->client->loop) < file->no_capability_until_ms) {
        mount_op_fail(&op->base, MORSEL_NODATA); /* The kernel asks before each write. */
        return;
    }
    request.inode = ino;
    request.name = mount_bytes(name);
    (void)mount_op_ask(&op->base, MSG_XATTR_GET, &request.base, &morsel__xattr_reply__descriptor,
                       on_value);
}

static void on_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    Morsel__XattrListRequest request = MORSEL__XATTR_LIST_REQUEST__INIT;
    struct xattr_op *op = mount_op_new(req, sizeof(*op));

    if (op == NULL) {
        return;
    }
    op->size = size;
    op->inode = ino;
    request.inode = ino;
    (void)mount_op_ask(&op->base, MSG_XATTR_LIST, &request.base, &morsel__xattr_reply__descriptor,
                       on_names);
}

static void on_set(struct meta_call *call, int status, void *message)
{
    (void)message;
    mount_op_fail(call->data, status);
}

static void change(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
                   int flags, bool remove)
{
    Morsel__XattrSetRequest request = MORSEL__XATTR_SET_REQUEST__INIT;
    Morsel__Credentials who;
    struct mount_op *op = mount_op_new(req, sizeof(*op));
    struct file *file;

    if (op == NULL) {
        return;
    }
    file = file_find(op->mount->client, ino);
    if (file != NULL) {
        file->no_capability_until_ms = 0;
    }
    mount_credentials(req, &who);
    request.inode = ino;
    request.name = mount_bytes(name);
    request.value = (ProtobufCBinaryData){ size, (uint8_t *)(uintptr_t)value };
    request.flags = (uint32_t)flags;
    request.remove = remove;
    request.who = &who;
    (void)mount_op_change(op, MSG_XATTR_SET, &request.base, &request.op, NULL, on_set);
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
