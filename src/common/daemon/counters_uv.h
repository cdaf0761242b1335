/* Where the counters of a program come from that all programs have, and where they go. */
#ifndef MORSEL_COMMON_DAEMON_COUNTERS_UV_H
#define MORSEL_COMMON_DAEMON_COUNTERS_UV_H

#include "common/daemon/counters.h"
#include "common/daemon/log.h"
#include "common/rpc/rpc_uv.h"

/* Requests and calls by kind, bytes, connections; CPU time and memory of the process. */
void counters_add_program(struct counter_list *c, const struct rpc *rpc);

/* How many connections there are, of how many strangers, and what they hold. */
void counters_add_server(struct counter_list *c, const struct rpc_server *server);

/* Resident memory of this process; 0: cannot be had. */
uint64_t counters_resident_bytes(void);

/* Answer MSG_STATISTICS. */
void counters_reply(struct rpc_request *request, const struct counter_list *c);

/* A line each. */
void counters_log(struct log *log, const struct counter_list *c);

#endif
