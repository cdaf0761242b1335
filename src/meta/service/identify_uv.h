/* Who asks, and whether that user may: credentials of requests, mapped by the rules of trust_uv.h.
 */
#ifndef MORSEL_META_SERVICE_IDENTIFY_UV_H
#define MORSEL_META_SERVICE_IDENTIFY_UV_H

#include "meta/meta_uv.h"

/* Is the sender of the request believed, whoever it speaks for? */
bool identify_trusts(const struct meta *meta, const struct rpc_request *request);

/* Who asks. `who` may be NULL: the client itself, which is root where it is believed. Borrows the
 * groups of `who`. */
struct credentials identify(const struct meta *meta, const struct rpc_request *request,
                            const Morsel__Credentials *who);

/* May a request that changes nothing have `wanted` (MAY_*) of the inode? What a client itself asks
 * for has been looked at by its kernel if the client is believed, and concerns what it has open
 * (for writing, if `wanted` says so) if it is not. */
int identify_access(struct meta *meta, const struct rpc_request *request,
                    const Morsel__Credentials *who, const struct inode *inode, uint32_t wanted,
                    struct errmsg *err);

/* Part of the answer to SESSION: NULL, or `message` filled in. */
Morsel__Squash *identify_squash(const struct meta *meta, const struct rpc_request *request,
                                Morsel__Squash *message);

#endif
