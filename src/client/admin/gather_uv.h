/* Reading the counters of a program: of daemons by a call, of mounts through an attribute of their
 * root. */
#ifndef MORSEL_CLIENT_ADMIN_GATHER_UV_H
#define MORSEL_CLIENT_ADMIN_GATHER_UV_H

#include "client/admin/admin_uv.h"
#include "common/daemon/counters.h"

/* Ask a daemon and wait; see admin_call(). */
int gather_daemon(struct admin *admin, struct rpc_peer *peer, struct counter_list *list,
                  struct errmsg *err);

/* Ask the mount at `point`. Blocks for as long as the mount does not answer: from a thread that may
 * wait. MORSEL_INVAL when that is no MorselFS. */
int gather_mount(const char *point, struct counter_list *list, struct errmsg *err);

#endif
