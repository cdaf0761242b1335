/* CRC32C by ISA-L, which takes the processor's own instruction. */
#include "common/base/crc32c.h"

#include "common/base/limits.h"

#include <isa-l/crc.h>

uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;

    crc = ~crc;
    while (count > 0) {
        int part = count > (1U << 30) ? 1 << 30 : (int)count;

        crc = crc32_iscsi((unsigned char *)(uintptr_t)at, part, crc);
        at += part;
        count -= (size_t)part;
    }
    return ~crc;
}

uint32_t crc32c_pieces(uint64_t offset, uint64_t length)
{
    if (length == 0) {
        return 0;
    }
    return (uint32_t)((offset + length - 1) / BLOCK_BYTES - offset / BLOCK_BYTES + 1);
}

void crc32c_of_pieces(uint64_t offset, const void *bytes, size_t length, uint32_t *crcs)
{
    const uint8_t *at = bytes;

    while (length > 0) {
        size_t part = BLOCK_BYTES - offset % BLOCK_BYTES;

        if (part > length) {
            part = length;
        }
        *crcs++ = crc32c(0, at, part);
        at += part;
        offset += part;
        length -= part;
    }
}
