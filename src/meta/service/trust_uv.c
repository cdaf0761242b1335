/* Finds the rule for a host, and maps ids by it. */
#include "meta/service/trust_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { IPV4_BITS = 32, IPV6_BITS = 128, MAPPED_BITS = 96, NETWORK_TEXT_MAX = 64 };

int squash_parse(const char *text, enum squash *squash, struct errmsg *err)
{
    static const char *const names[] = {
        [SQUASH_NONE] = "none", [SQUASH_ROOT] = "root", [SQUASH_ALL] = "all"
    };

    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *squash = (enum squash)i;
            return MORSEL_OK;
        }
    }
    errmsg_set(err, "squash \"%s\": give none, root or all", text);
    return MORSEL_INVAL;
}

/* `*bits`: how many an address of this family has. */
static bool address_parse(const char *text, uint8_t address[16], uint32_t *bits)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

    if (uv_inet_pton(AF_INET, text, address + sizeof(mapped)) == 0) {
        memcpy(address, mapped, sizeof(mapped));
        *bits = IPV4_BITS;
        return true;
    }
    *bits = IPV6_BITS;
    return uv_inet_pton(AF_INET6, text, address) == 0;
}

static bool network_parse(char *text, struct trust_network *network)
{
    char *slash = strchr(text, '/'), *end;
    uint32_t bits;
    unsigned long prefix;

    if (slash != NULL) {
        *slash = '\0';
    }
    if (!address_parse(text, network->address, &bits)) {
        return false;
    }
    prefix = bits;
    if (slash != NULL) {
        prefix = strtoul(slash + 1, &end, 10);
        if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || prefix > bits) {
            return false;
        }
    }
    network->bits = (uint32_t)prefix + (bits == IPV4_BITS ? MAPPED_BITS : 0);
    return true;
}

int trust_parse(const char *text, struct trust *trust, struct errmsg *err)
{
    trust->count = 0;
    for (text += strspn(text, ", "); *text != '\0'; text += strspn(text, ", ")) {
        size_t count = strcspn(text, ", ");
        char one[NETWORK_TEXT_MAX];

        if (trust->count == TRUST_NETWORKS_MAX) {
            errmsg_set(err, "trusted: more than %d networks", TRUST_NETWORKS_MAX);
            return MORSEL_INVAL;
        }
        (void)snprintf(one, sizeof(one), "%.*s", (int)count, text);
        if (count >= sizeof(one) || !network_parse(one, &trust->networks[trust->count])) {
            errmsg_set(err,
                       "trusted \"%.*s\": give addresses or networks such as 10.1.0.0/16, "
                       "separated by commas",
                       (int)count, text);
            return MORSEL_INVAL;
        }
        trust->count++;
        text += count;
    }
    return MORSEL_OK;
}

static bool network_holds(const struct trust_network *network, const uint8_t address[16])
{
    uint32_t bytes = network->bits / 8, rest = network->bits % 8;

    return memcmp(network->address, address, bytes) == 0 &&
           (rest == 0 || (network->address[bytes] ^ address[bytes]) >> (8 - rest) == 0);
}

/* The address without the port and the brackets. */
static void host_of(const char *peer, char host[NETWORK_TEXT_MAX])
{
    const char *colon = strrchr(peer, ':');
    size_t count = colon != NULL ? (size_t)(colon - peer) : strlen(peer);

    if (count >= 2 && peer[0] == '[' && peer[count - 1] == ']') {
        peer++;
        count -= 2;
    }
    (void)snprintf(host, NETWORK_TEXT_MAX, "%.*s", (int)count, peer);
}

bool trust_holds(const struct trust *trust, const char *peer)
{
    char host[NETWORK_TEXT_MAX];
    uint8_t address[16];
    uint32_t bits;

    if (trust->squash == SQUASH_NONE) {
        return true;
    }
    host_of(peer, host);
    if (!address_parse(host, address, &bits)) {
        return false;
    }
    for (uint32_t i = 0; i < trust->count; i++) {
        if (network_holds(&trust->networks[i], address)) {
            return true;
        }
    }
    return false;
}

void trust_squash(const struct trust *trust, struct credentials *who)
{
    if (trust->squash == SQUASH_ALL || who->uid == UID_ROOT) {
        *who = (struct credentials){ .uid = trust->uid, .gid = trust->gid, .groups_known = true };
    }
}
