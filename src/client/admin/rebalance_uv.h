/* morsel rebalance: what groups of servers and files with one copy take on each server, for the plan of the
 * manager (meta/cluster/rebalance.h), which knows no sizes. */
#ifndef MORSEL_CLIENT_ADMIN_REBALANCE_UV_H
#define MORSEL_CLIENT_ADMIN_REBALANCE_UV_H

#include "client/admin/admin_uv.h"
#include "common/fs/placing.h"

#include "meta.pb-c.h"

/* What one server has of files with one copy. */
struct rebalance_alone
{
    uint32_t server;
    uint64_t bytes;
};

struct rebalance_sizes
{
    uint64_t here[PLACING_GROUPS_MAX];  /* By group: of the server that is being measured. */
    uint64_t bytes[PLACING_GROUPS_MAX]; /* Of the largest copy. */
    bool known[PLACING_GROUPS_MAX];
    size_t alone_count;
    struct rebalance_alone alone[SERVERS_MAX];
};

/* Measure all servers that are up. One that cannot be measured is named on standard error, and what only it has is not
 * known. ADMIN_OK, or why is printed; `sizes` is zero before. */
int rebalance_measure(const struct admin_arguments *arguments, const Morsel__StatusReply *status,
                      struct rebalance_sizes *sizes);

#endif
