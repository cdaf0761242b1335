/* Waiting until a manager counts its storage servers as up: only then can files be made; and until they
 * have taken over the groups on which files have copies. */
#ifndef MORSEL_CLIENT_ADMIN_CLUSTER_WAIT_UV_H
#define MORSEL_CLIENT_ADMIN_CLUSTER_WAIT_UV_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

/* MORSEL_TIMEDOUT when fewer than `servers` are up after `timeout_ms`; what admin_call() says when
 * the manager does not answer. */
int cluster_wait_servers(const char *manager, uint32_t servers, uint64_t timeout_ms,
                         struct errmsg *err);

/* Wait for copies that are about to be complete: of servers that are new, or back. Who has missed much
 * takes longer, and that is no failure. What admin_call() says when the manager does not answer. */
int cluster_wait_copies(const char *manager, uint64_t timeout_ms, struct errmsg *err);

#endif
