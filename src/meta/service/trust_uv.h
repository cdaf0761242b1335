/* Whose word about its users is taken: which mounts may speak for root.
 *
 * Between the mounts and the manager user ids are the clients' word, as under NFS with AUTH_SYS. A
 * machine whose root the cluster does not trust can be kept from acting as root ("squash = root",
 * as root_squash of exports(5)) or as anybody ("squash = all"): such ids become squash-uid and
 * squash-gid. Addresses that `trusted` names are exempt.
 */
#ifndef MORSEL_META_SERVICE_TRUST_UV_H
#define MORSEL_META_SERVICE_TRUST_UV_H

#include "common/base/errmsg.h"
#include "common/fs/permission.h"

enum squash { SQUASH_NONE, SQUASH_ROOT, SQUASH_ALL };

enum { TRUST_NETWORKS_MAX = 64 };

struct trust
{
    enum squash squash;
    uint32_t uid, gid; /* What squashed ids become. */
    uint32_t count;
    struct trust_network
    {
        uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
        uint32_t bits;       /* Of the prefix, 0 to 128. */
    } networks[TRUST_NETWORKS_MAX];
};

/* "none", "root" or "all". MORSEL_INVAL with a sentence. */
int squash_parse(const char *text, enum squash *squash, struct errmsg *err);

/* Fill in the networks: addresses, each perhaps with /BITS, separated by commas or spaces; empty:
 * none. MORSEL_INVAL with a sentence. */
int trust_parse(const char *text, struct trust *trust, struct errmsg *err);

/* Is the peer ("10.1.2.3:711", "[fd00::7]:711") to be believed whoever it speaks for? */
bool trust_holds(const struct trust *trust, const char *peer);

/* What a user of a peer that is not believed counts as. */
void trust_squash(const struct trust *trust, struct credentials *who);

#endif
