/* Which addresses are visited for somebody else: a URL that a user has written down is followed by machines at which he is not.
 *
 * Pure. A machine has services for itself alone (on loopback), and networks have some for their neighbours (link-local: the metadata of
 * clouds among them), which trust whoever reaches them. Those are not to be reached by way of a mount.
 */
#ifndef MORSEL_CLIENT_ADMIN_VISIT_H
#define MORSEL_CLIENT_ADMIN_VISIT_H

#include "common/base/types.h"

/* An IPv4 or IPv6 address, 4 or 16 bytes as on the wire. Others are none. */
bool visit_may(const uint8_t *address, size_t count);

#endif
