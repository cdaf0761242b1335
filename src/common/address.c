#include "common/address.h"

#include "common/status.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static bool split(const char *text, struct address *a)
{
    const char *colon = strrchr(text, ':');
    size_t host = colon == NULL ? 0 : (size_t)(colon - text);

    if (colon == NULL || host == 0 || host >= sizeof(a->host) || strlen(colon + 1) > 5 ||
        colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        atoi(colon + 1) > 65535) {
        return false;
    }
    if (text[0] == '[') {
        if (text[host - 1] != ']' || host < 4) {
            return false;
        }
        text++;
        host -= 2;
    } else if (memchr(text, ':', host) != NULL) {
        return false; /* IPv6 without brackets: where would the port begin? */
    }
    memcpy(a->host, text, host);
    a->host[host] = '\0';
    memcpy(a->port, colon + 1, strlen(colon + 1) + 1);
    return a->host[strcspn(a->host, " \t/\\")] == '\0';
}

int address_parse(const char *text, struct address *address, struct errmsg *err)
{
    memset(address, 0, sizeof(*address));
    if (!split(text, address)) {
        errmsg_set(err, "\"%s\" is not an address: write HOST:PORT, for IPv6 [HOST]:PORT", text);
        return MORSEL_INVAL;
    }
    return MORSEL_OK;
}

bool address_numeric(const struct address *address, struct sockaddr_storage *socket_address)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)socket_address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)socket_address;
    uint16_t port = htons((uint16_t)atoi(address->port));

    memset(socket_address, 0, sizeof(*socket_address));
    if (inet_pton(AF_INET, address->host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = port;
        return true;
    }
    if (inet_pton(AF_INET6, address->host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = port;
        return true;
    }
    return false;
}
