/* The wire spoken by hand, for tests that say what no client of ours would say. Blocking. */
#ifndef MORSEL_TESTS_WIRE_H
#define MORSEL_TESTS_WIRE_H

#include "common/rpc/frame.h"
#include "common/rpc/messages.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

enum wire_role {
    WIRE_MANAGER = 1,
    WIRE_IOD = 2,
    WIRE_CLIENT = 3,
    WIRE_ADMIN = 4,
    WIRE_BENEFACTOR = 5
};

/* A frame that came in; the body is in malloc'd memory. */
struct wire_frame
{
    struct frame_header header;
    uint8_t *body;
};

/* A port of the loopback, IPv4. -1: refused, with errno. */
int wire_connect(uint16_t port);

/* `header->type`, `flags`, `request_id`, `deadline_ms` and `not_after` are the caller's, the rest
 * is filled in. False: the connection is down, or took nothing for a minute. */
bool wire_send(int fd, struct frame_header *header, const void *body, size_t body_count,
               const void *payload, size_t payload_count);
bool wire_send_message(int fd, struct frame_header *header, const ProtobufCMessage *message);

/* Wait for a frame; free its body. 0, or -1 with errno: ETIMEDOUT, or ECONNRESET when it was
 * closed. */
int wire_receive(int fd, int timeout_ms, struct wire_frame *frame);

/* HELLO and its answer. */
bool wire_greet(int fd, enum wire_role role, uint64_t node_id);

uint64_t wire_now_ms(void);

#endif
