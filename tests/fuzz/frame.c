/* frame_decode(): what it accepts encodes to the same bytes again, and keeps every limit. */
#include "common/rpc/frame.h"
#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[FRAME_HEADER_BYTES], again[FRAME_HEADER_BYTES];
    struct frame_header header;

    if (size < FRAME_HEADER_BYTES) {
        return 0;
    }
    memcpy(bytes, data, sizeof(bytes));
    if (size >
        FRAME_HEADER_BYTES) { /* A byte more: get past the checksum, which no fuzzer can guess. */
        memcpy(bytes, "MRSL", 4);
        put_le32(bytes + 36, crc32c(0, bytes, 36));
    }
    if (frame_decode(bytes, &header) != MORSEL_OK) {
        return 0;
    }
    CHECK(header.version == FRAME_VERSION);
    CHECK(header.body_length <= FRAME_BODY_BYTES_MAX);
    CHECK(header.payload_length <= FRAME_PAYLOAD_BYTES_MAX);
    CHECK(header.status <= 0);
    frame_encode(&header, again);
    CHECK(memcmp(bytes, again, sizeof(again)) == 0);
    return 0;
}
