/* Gives the root of a fresh cluster to whoever runs the command. */
#include "client/admin/cluster_owner_uv.h"

#include "client/admin/admin_uv.h"
#include "common/rpc/messages.h"

#include "meta.pb-c.h"

enum { CALL_MS_MAX = 5000 };

static int fetch_owner(struct admin *admin, uint32_t *uid_out, struct errmsg *err)
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;
    Morsel__Node *node;
    void *reply;
    int rv;

    request.inode = INODE_ROOT;
    rv = admin_call(admin, admin->manager, MSG_GETATTR, &request.base, &morsel__node__descriptor,
                    &reply, err);
    if (rv != 0) {
        return rv;
    }
    node = reply;
    *uid_out = node->attr == NULL ? 0 : node->attr->uid;
    morsel__node__free_unpacked(node, NULL);
    return 0;
}

static int change_owner(struct admin *admin, uint32_t uid, uint32_t gid, struct errmsg *err)
{
    Morsel__SetattrRequest request = MORSEL__SETATTR_REQUEST__INIT;
    Morsel__Credentials who = MORSEL__CREDENTIALS__INIT; /* root, who alone may give away */
    Morsel__OpId op = MORSEL__OP_ID__INIT;
    void *reply;
    int rv;

    op.client = admin->id;
    op.answered = admin->sequence;
    op.sequence = ++admin->sequence;
    request.op = &op;
    request.who = &who;
    request.inode = INODE_ROOT;
    request.valid = SETATTR_UID | SETATTR_GID;
    request.uid = uid;
    request.gid = gid;
    rv = admin_call(admin, admin->manager, MSG_SETATTR, &request.base, &morsel__node__descriptor,
                    &reply, err);
    if (rv == 0) {
        morsel__node__free_unpacked(reply, NULL);
    }
    return rv;
}

int cluster_own_root(const char *manager, uint32_t uid, uint32_t gid, struct errmsg *err)
{
    uint32_t owner = 0;
    struct admin admin;
    int rv;

    if (uid == 0) {
        return 0;
    }
    rv = admin_open(&admin, manager, CALL_MS_MAX, err);
    if (rv != 0) {
        return rv;
    }
    rv = fetch_owner(&admin, &owner, err);
    if (rv == 0 && owner == 0) {
        rv = change_owner(&admin, uid, gid, err);
    }
    admin_close(&admin);
    return rv;
}
