/* Is an origin one that mounts can fetch from? */
#ifndef MORSEL_CLIENT_ADMIN_STAGE_PROVE_PROC_H
#define MORSEL_CLIENT_ADMIN_STAGE_PROVE_PROC_H

#include "common/base/errmsg.h"
#include "common/fs/origin.h"

/* Its last byte is fetched as a mount would: without rights, keys and passwords, from no address that is this machine's own affair, by its
 * range ("morsel origin-part"). Waits half a minute at most. False: it did not come, and `why` says in a clause why not; then copies of its
 * bytes are no cache. */
bool stage_prove(const struct origin *origin, struct errmsg *why);

/* Why that need not be tried, in a clause; NULL: it may come. Constant text. */
const char *stage_unfit(const struct origin *origin);

#endif
