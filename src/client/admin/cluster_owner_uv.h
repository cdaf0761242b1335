/* Who may write in a development cluster: the user who runs it. */
#ifndef MORSEL_CLIENT_ADMIN_CLUSTER_OWNER_UV_H
#define MORSEL_CLIENT_ADMIN_CLUSTER_OWNER_UV_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

/* Give the root directory, which a new cluster makes for root, to an ordinary user. Nothing is done
 * for root, and once the directory has another owner. */
int cluster_own_root(const char *manager, uint32_t uid, uint32_t gid, struct errmsg *err);

#endif
