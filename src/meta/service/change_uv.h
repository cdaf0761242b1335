/* What all changing requests have in common: who asks, the operation id, and the answer to a retry.
 */
#ifndef MORSEL_META_SERVICE_CHANGE_UV_H
#define MORSEL_META_SERVICE_CHANGE_UV_H

#include "meta/service/reply_uv.h"

/* Answer a request whose operation was applied, now or earlier. */
typedef void (*change_answer)(struct meta *meta, struct rpc_request *request,
                              const struct op_outcome *outcome);

/* Fill the head of `op` (`kind` is set, everything else 0) and look for an earlier answer. False:
 * the request has been answered, as a retry or with a failure. */
bool change_begin(struct meta *meta, struct rpc_request *request, struct meta_op *op,
                  const Morsel__OpId *id, const Morsel__Credentials *who, change_answer answer);

/* Apply the operation, remember the outcome and answer. */
void change_finish(struct meta *meta, struct rpc_request *request, struct meta_op *op,
                   change_answer answer);

/* Answer with the Node of outcome->target, with layout. */
void answer_node(struct meta *meta, struct rpc_request *request, const struct op_outcome *outcome);

#endif
