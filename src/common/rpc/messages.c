/* Names of the messages, for logs and counters. */
#include "common/rpc/messages.h"

const char *message_name(unsigned type)
{
#define X(name, wire, words)                                                                       \
    case wire:                                                                                     \
        return words;
    switch (type) {
        MESSAGE_MAP(X)
    default:
        return "unknown";
    }
#undef X
}
