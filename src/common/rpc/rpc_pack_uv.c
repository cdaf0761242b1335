/* Messages into bytes, and back. */
#include "common/base/status.h"
#include "common/rpc/rpc_internal_uv.h"

#include <stdlib.h>
#include <string.h>

uint8_t *rpc_pack(const ProtobufCMessage *message, size_t *count)
{
    uint8_t *body;

    *count = message == NULL ? 0 : protobuf_c_message_get_packed_size(message);
    if (*count == 0) {
        return NULL;
    }
    body = *count <= FRAME_BODY_BYTES_MAX ? malloc(*count) : NULL;
    if (body == NULL) {
        *count = SIZE_MAX;
        return NULL;
    }
    (void)protobuf_c_message_pack(message, body);
    return body;
}

/* ---- Unpacking ---- */

static void *room_alloc(void *data, size_t bytes)
{
    struct rpc_room *room = data;
    size_t aligned = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    void *memory;

    if (aligned >= bytes && aligned <= sizeof(room->bytes) - room->used) {
        memory = room->bytes + room->used;
        room->used += aligned;
        return memory;
    }
    memory = malloc(bytes);
    room->failed |= memory == NULL;
    return memory;
}

static void room_free(void *data, void *memory)
{
    const struct rpc_room *room = data;
    uintptr_t at = (uintptr_t)memory, start = (uintptr_t)room->bytes;

    if (at < start || at >= start + sizeof(room->bytes)) {
        free(memory);
    }
}

static int unpack(struct rpc_room *room, const ProtobufCMessageDescriptor *type,
                  const uint8_t *body, size_t body_count, void **message)
{
    room->allocator = (ProtobufCAllocator){ room_alloc, room_free, room };
    room->failed = false;
    *message = protobuf_c_message_unpack(type, &room->allocator, body_count, body);
    return *message != NULL ? MORSEL_OK : room->failed ? MORSEL_NOMEM : MORSEL_MALFORMED;
}

void *rpc_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *body, size_t body_count)
{
    return protobuf_c_message_unpack(type, NULL, body_count, body);
}

int rpc_try_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *body, size_t body_count,
                   void **message)
{
    struct rpc_room room;

    room.used = sizeof(room.bytes); /* It outlives that. */
    return unpack(&room, type, body, body_count, message);
}

int rpc_unpack_in(struct rpc_room *room, const ProtobufCMessageDescriptor *type,
                  const uint8_t *body, size_t body_count, void **message)
{
    room->used = 0;
    return unpack(room, type, body, body_count, message);
}

void rpc_room_free(struct rpc_room *room, void *message)
{
    if (message != NULL) {
        protobuf_c_message_free_unpacked(message, &room->allocator);
    }
}
