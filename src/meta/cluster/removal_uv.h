/* A storage server that is gone for good is taken out of the cluster (`morsel iod remove`).
 *
 *   refused while it is up, or may be; while a group needs it; while too few voters are there
 *   look      which files with one copy lie on it, some thousand inodes with each request
 *             some, and nobody has said that they are lost: refused, with how many
 *   forget    what was to be deleted there, a page with each request
 *   remove    -> record M, synced -> nobody is told of it any more, whoever shows its token is refused
 *             -> its vote is taken out of the set (voters_uv.h)
 *
 * A look belongs to one server, and ends when that is heard of, when another one begins, and with the
 * manager; who asks then begins again. All before the record is in effect changes nothing that anybody
 * needs, so the manager may be killed at any point; and who asks again for what is done is told so.
 *
 * What only that server had is lost: whoever reads or writes such a part of a file is told EIO by his
 * mount, at once, which has heard of the removal with the list of servers. */
#ifndef MORSEL_META_CLUSTER_REMOVAL_UV_H
#define MORSEL_META_CLUSTER_REMOVAL_UV_H

#include "meta/meta_uv.h"

/* RECOVER_REMOVE. 0: it is answered, now or later. Otherwise why not, in words; MORSEL_STALE: begin again;
 * MORSEL_AGAIN: something must be read first. */
int removal_serve(struct meta *meta, struct rpc_request *request,
                  const Morsel__RecoverRequest *message, struct errmsg *err);

#endif
