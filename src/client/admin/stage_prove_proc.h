/* Is an origin one that mounts can fetch from? */
#ifndef MORSEL_CLIENT_ADMIN_STAGE_PROVE_PROC_H
#define MORSEL_CLIENT_ADMIN_STAGE_PROVE_PROC_H

#include "common/fs/origin.h"

/* Its last byte is fetched as a mount would: without rights, keys and passwords, from no address that is this machine's own affair, by its
 * range ("morsel origin-part"). Waits half a minute at most. False: it did not come; then copies of its bytes are no cache. */
bool stage_prove(const struct origin *origin);

#endif
