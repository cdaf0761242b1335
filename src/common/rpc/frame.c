/* Encodes and decodes the head of a frame. */
#include "common/rpc/frame.h"

#include "common/base/buf.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <string.h>

static const uint8_t frame_magic[4] = { 'M', 'R', 'S', 'L' };

void frame_encode(const struct frame_header *header, uint8_t bytes[FRAME_HEADER_BYTES])
{
    memcpy(bytes, frame_magic, 4);
    bytes[4] = header->version;
    bytes[5] = header->flags;
    put_le16(bytes + 6, header->type);
    put_le64(bytes + 8, header->request_id);
    put_le32(bytes + 16, header->body_length);
    put_le32(bytes + 20, header->payload_length);
    put_le32(bytes + 24,
             (header->flags & FRAME_REPLY) != 0 ? header->clock_ms : header->deadline_ms);
    put_le32(bytes + 28,
             (header->flags & FRAME_REPLY) != 0 ? (uint32_t)header->status : header->not_after);
    put_le32(bytes + 32, header->body_crc);
    put_le32(bytes + 36, crc32c(0, bytes, 36));
}

int frame_decode(const uint8_t bytes[FRAME_HEADER_BYTES], struct frame_header *header)
{
    memset(header, 0, sizeof(*header));
    if (memcmp(bytes, frame_magic, 4) != 0 || get_le32(bytes + 36) != crc32c(0, bytes, 36)) {
        return MORSEL_MALFORMED;
    }
    header->version = bytes[4];
    header->flags = bytes[5];
    header->type = get_le16(bytes + 6);
    header->request_id = get_le64(bytes + 8);
    header->body_length = get_le32(bytes + 16);
    header->payload_length = get_le32(bytes + 20);
    if ((header->flags & FRAME_REPLY) != 0) {
        header->clock_ms = get_le32(bytes + 24);
        header->status = (int32_t)get_le32(bytes + 28);
    } else {
        header->deadline_ms = get_le32(bytes + 24);
        header->not_after = get_le32(bytes + 28);
    }
    header->body_crc = get_le32(bytes + 32);
    if (header->body_length > FRAME_BODY_BYTES_MAX ||
        header->payload_length > FRAME_PAYLOAD_BYTES_MAX) {
        return MORSEL_MALFORMED;
    }
    if (header->version != FRAME_VERSION) {
        return MORSEL_VERSION;
    }
    if ((header->flags & ~FRAME_FLAGS_KNOWN) != 0 || header->status > 0) {
        return MORSEL_MALFORMED;
    }
    return MORSEL_OK;
}

uint32_t frame_not_after(uint64_t until_ms, uint64_t server_ms, uint64_t noted_ms)
{
    uint64_t left_ms = until_ms > noted_ms ? until_ms - noted_ms : 0;
    uint32_t bound = (uint32_t)(server_ms + left_ms - left_ms * FRAME_DRIFT_PERCENT / 100);

    if (left_ms == 0) {
        bound--; /* It is over, also in the millisecond in which the server told its time. */
    }
    return bound != 0 ? bound : UINT32_MAX; /* 0 means none. */
}

void frame_clock_note(struct frame_clock *clock, uint32_t server_ms, uint64_t now_ms)
{
    uint64_t passed_ms = now_ms - clock->noted_ms;
    uint32_t at_least =
        clock->server_ms + (uint32_t)(passed_ms - passed_ms * FRAME_DRIFT_PERCENT / 100);

    if (clock->known && (int32_t)(server_ms - at_least) < 0) {
        return;
    }
    *clock = (struct frame_clock){ true, server_ms, now_ms };
}

uint32_t frame_clock_told(uint64_t server_ms)
{
    return (uint32_t)server_ms != 0 ? (uint32_t)server_ms : UINT32_MAX; /* 0 means not told. */
}

bool frame_is_late(uint32_t not_after, uint64_t server_ms)
{
    return not_after != 0 && (int32_t)((uint32_t)server_ms - not_after) > 0;
}
