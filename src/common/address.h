/* "host:port", "[2001:db8::1]:7460" or a port alone after a colon. Pure text work, and numeric
 * addresses. */
#ifndef MORSEL_COMMON_ADDRESS_H
#define MORSEL_COMMON_ADDRESS_H

#include "common/errmsg.h"
#include "common/types.h"

struct sockaddr_storage;

enum { ADDRESS_TEXT_MAX = 272 }; /* A DNS name of 253, brackets, colon, port */

struct address
{
    char host[256];
    char port[8];
};

/* MORSEL_INVAL with a sentence that quotes the text. */
int address_parse(const char *text, struct address *address, struct errmsg *err);

/* Fill in a socket address when `host` is numeric; false when a name must be looked up. */
bool address_numeric(const struct address *address, struct sockaddr_storage *socket_address);

#endif
