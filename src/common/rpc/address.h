/* "host:port", "[2001:db8::1]:7460" or a port alone after a colon. Pure. */
#ifndef MORSEL_COMMON_RPC_ADDRESS_H
#define MORSEL_COMMON_RPC_ADDRESS_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

enum { ADDRESS_TEXT_MAX = 272 }; /* A DNS name of 253, brackets, colon, port */

struct address
{
    char host[256];
    char port[8];
    uint16_t port_number;
};

/* MORSEL_INVAL with a sentence that quotes the text. */
int address_parse(const char *text, struct address *address, struct errmsg *err);

#endif
