/* Takes "host:port" apart. */
#include "common/rpc/address.h"

#include "common/base/status.h"

#include <string.h>

/* 0 to 65535, or -1. */
static int port_number(const char *text)
{
    int port = 0;

    if (*text == '\0') {
        return -1;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return -1;
        }
        port = port * 10 + (*text - '0');
        if (port > 65535) {
            return -1;
        }
    }
    return port;
}

static bool split(const char *text, struct address *a)
{
    const char *colon = strrchr(text, ':');
    size_t host = colon == NULL ? 0 : (size_t)(colon - text);

    if (colon == NULL || host == 0 || host >= sizeof(a->host) ||
        strlen(colon + 1) >= sizeof(a->port) || port_number(colon + 1) < 0) {
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
    a->port_number = (uint16_t)port_number(colon + 1);
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
