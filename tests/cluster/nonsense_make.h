/* Requests made from their descriptors, with values that nobody would send. */
#ifndef MORSEL_TESTS_NONSENSE_MAKE_H
#define MORSEL_TESTS_NONSENSE_MAKE_H

#include "common/base/prng.h"
#include "common/rpc/messages.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every request of the wire. */
struct request_type
{
    const ProtobufCMessageDescriptor *body;
    enum message_type type;
    bool iod; /* For an I/O daemon; the manager otherwise. */
};

extern const struct request_type request_types[];
extern const size_t request_types_count;

/* Either `prng` draws the values, plausible_percent of them plausible; or, without it, every value
 * is plausible but that of `place`, which takes its `choice`-th strange one. */
struct maker
{
    struct prng *prng;
    unsigned plausible_percent;
    size_t place, choice;

    uint64_t inode, directory; /* Plausible ones. */
    uint64_t client, sequence, number;
    char token[16];

    /* Of the last request */
    size_t places;  /* It had. */
    size_t choices; /* That `place` has. */
    size_t used, aim;
    uint8_t memory[8 << 20];
};

/* Valid until the next call. */
const ProtobufCMessage *maker_run(struct maker *m, const struct request_type *type);

#endif
