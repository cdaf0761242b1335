/* From the ids on the wire to a user of this cluster, and what that user may. */
#include "meta/service/identify_uv.h"

#include "common/base/status.h"
#include "meta/namespace/permit.h"

bool identify_trusts(const struct meta *meta, const struct rpc_request *request)
{
    return meta->trust.squash == SQUASH_NONE ||
           trust_holds(&meta->trust, rpc_request_peer(request));
}

struct credentials identify(const struct meta *meta, const struct rpc_request *request,
                            const Morsel__Credentials *who)
{
    struct credentials credentials = { .uid = UID_ROOT, .groups_known = true };

    if (who != NULL) {
        credentials.uid = who->uid;
        credentials.gid = who->gid;
        credentials.groups = who->groups;
        credentials.groups_count = (uint32_t)who->n_groups;
        credentials.groups_known = who->groups_known || who->n_groups > 0;
    }
    if (!identify_trusts(meta, request)) {
        trust_squash(&meta->trust, &credentials);
    }
    return credentials;
}

int identify_access(struct meta *meta, const struct rpc_request *request,
                    const Morsel__Credentials *who, const struct inode *inode, uint32_t wanted,
                    struct errmsg *err)
{
    struct credentials credentials;

    if (who == NULL && (identify_trusts(meta, request) ||
                        session_has_open(meta->sessions, inode->id, request->node_id,
                                         (wanted & MAY_WRITE) != 0))) {
        return 0;
    }
    credentials = identify(meta, request, who);
    return permit_access(meta->ns, inode, &credentials, wanted, err);
}

Morsel__Squash *identify_squash(const struct meta *meta, const struct rpc_request *request,
                                Morsel__Squash *message)
{
    if (identify_trusts(meta, request)) {
        return NULL;
    }
    morsel__squash__init(message);
    message->all = meta->trust.squash == SQUASH_ALL;
    message->uid = meta->trust.uid;
    message->gid = meta->trust.gid;
    return message;
}
