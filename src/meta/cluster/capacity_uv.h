/* How much space the cluster has, now: what the storage servers said with their last heartbeats is
 * up to a second old, and who has just written something looks for it in df(1).
 *
 * Requests that tell it wait while the servers that are up are asked (SPACE_WANTED) and have
 * looked, for CAPACITY_WAIT_MS at most: a server that does not answer counts with what it said
 * last. Requests that come meanwhile start a round of their own, for what was written meanwhile. */
#ifndef MORSEL_META_CLUSTER_CAPACITY_UV_H
#define MORSEL_META_CLUSTER_CAPACITY_UV_H

#include "common/base/list.h"
#include "common/rpc/rpc_uv.h"
#include "meta/cluster/members.h"

enum { CAPACITY_WAIT_MS = 250 };

struct capacity_uv
{
    uv_loop_t *loop;
    struct members *members;
    struct list waiting; /* struct capacity_wait, oldest first */
    uint64_t number;     /* Of the last round. */
    uv_timer_t timer;    /* The oldest has waited long enough. Its data is the host's. */
};

/* Both outlive it. */
void capacity_start(struct capacity_uv *c, uv_loop_t *loop, struct members *members);

/* Call `answer` when the servers, which are connected to `server`, have looked. MORSEL_OVERLOAD is
 * answered when there is no memory. */
typedef void (*capacity_answer)(void *data, struct rpc_request *request);
void capacity_ask(struct capacity_uv *c, struct rpc_server *server, struct rpc_request *request,
                  capacity_answer answer, void *data);

/* A server has told its space. */
void capacity_told(struct capacity_uv *c);

/* Answer all that wait, at the end. */
void capacity_refuse_waiting(struct capacity_uv *c, int status);

#endif
