/* What calls (rpc_uv.h) and the connections below them (conn_uv.h) both speak of. */
#ifndef MORSEL_COMMON_RPC_RPC_TYPES_H
#define MORSEL_COMMON_RPC_RPC_TYPES_H

#include "common/rpc/messages.h"
#include "common/rpc/payload.h"

#include <stddef.h>
#include <stdint.h>

/* Numbers of the wire. */
enum rpc_role {
    ROLE_MANAGER = 1,
    ROLE_IOD = 2,
    ROLE_CLIENT = 3,
    ROLE_ADMIN = 4,
    ROLE_BENEFACTOR = 5
};

enum { RPC_PIECES_MAX = 16 };

/* Part of a payload that goes out with a request. */
struct rpc_piece
{
    struct payload *payload;
    size_t offset;
    size_t count;
};

/* Counters by message type, always on. */
struct rpc_statistics
{
    struct rpc_type_statistics
    {
        uint64_t served;       /* Requests answered. */
        uint64_t failed;       /* Of those, with a failure. */
        uint64_t served_ns;    /* From arrival to answer, summed. */
        uint64_t queued_ns;    /* From arrival until somebody began, where that was not at once. */
        uint64_t busy_ns;      /* A thread at work on it, waiting for the disk included. */
        uint64_t served_bytes; /* Bodies and payloads, in and out. */
        uint64_t called;       /* Calls ended. */
        uint64_t called_ns;    /* From start to end, summed. */
        uint64_t called_bytes;
    } types[MESSAGE_TYPES_MAX];
    uint64_t bytes_in, bytes_out;
    uint64_t connections_accepted;
    uint64_t connections_shed; /* Closed because there were too many, or they held too much. */
    uint64_t strangers_closed; /* Had not said HELLO. */
    uint64_t frames_malformed;
};

#endif
