/* What an object file looks like (docs/store.md). Pure.
 *
 *   group 0                                     group 1
 *   +--------+-------------+------------------+--------+---------- ...
 *   | header | 256 checksums    | 1 MiB of data    | zeros  | 256 checksums
 *   0        2048          4096               1052672  + 2048
 *
 * A sum holds two checksums of its block, `cur` and `prev`. Both are stored as crc32c(block) XOR
 * crc32c(block of zeros), so that zero is the sum of a hole and a page that was never written is
 * right as it is. The block at the end of the object counts as filled up with zeros.
 */
#ifndef MORSEL_COMMON_STORE_STORE_FORMAT_H
#define MORSEL_COMMON_STORE_STORE_FORMAT_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum {
    STORE_VERSION = 1,
    GROUP_BYTES = 1 << 20, /* Of data: one morsel of the default size */
    GROUP_BLOCKS = GROUP_BYTES / BLOCK_BYTES,
    CHECKSUMS_AT = 2048, /* Of the checksums in their page: they end where the data begins */
    CHECKSUMS_PAGE_BYTES =
        4096, /* A page of the kernel's cache, so that data stays aligned to its pages */
    GROUP_SPAN = CHECKSUMS_PAGE_BYTES + GROUP_BYTES,
    STORE_HEADER_BYTES = 64, /* Within one sector: never torn by a power cut */
    STORE_NAME_BYTES = 40,   /* "fff/0123456789abcdef.4294967295" and a zero */
    STORE_SUBDIRS = 4096
};

/* Offsets in an object stay below 2^62, so that no sum of two overflows. */
#define STORE_OFFSET_MAX (UINT64_C(1) << 62)

struct store_sum
{
    uint32_t cur;  /* The block as it should be. */
    uint32_t prev; /* As it was before the last change, for a crash between sum and data. */
};

static_assert(sizeof(struct store_sum) * GROUP_BLOCKS == CHECKSUMS_PAGE_BYTES - CHECKSUMS_AT,
              "they fill it");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "sums are read as they lie in the file");

/* Where the checksums of a group lie. */
static inline uint64_t place_of_group(uint64_t group)
{
    return group * GROUP_SPAN;
}

/* Where byte `offset` of the object lies. */
static inline uint64_t place_of_byte(uint64_t offset)
{
    return place_of_group(offset / GROUP_BYTES) + CHECKSUMS_PAGE_BYTES + offset % GROUP_BYTES;
}

/* The byte of the object at or behind `place` of the file. */
static inline uint64_t byte_at_place(uint64_t place)
{
    uint64_t inside = place % GROUP_SPAN;

    return place / GROUP_SPAN * GROUP_BYTES +
           (inside < CHECKSUMS_PAGE_BYTES ? 0 : inside - CHECKSUMS_PAGE_BYTES);
}

/* Length of the file of an object of `size` bytes. The first page is always there. */
static inline uint64_t place_of_end(uint64_t size)
{
    return size == 0 ? CHECKSUMS_PAGE_BYTES : place_of_byte(size - 1) + 1;
}

/* How many groups a file of `end` bytes has a page of, in whole or in part. */
static inline uint64_t groups_in_file(uint64_t end)
{
    return (end + GROUP_SPAN - 1) / GROUP_SPAN;
}

/* True when [offset, offset + length) stays below STORE_OFFSET_MAX. */
static inline bool store_range_valid(uint64_t offset, uint64_t length)
{
    return length <= STORE_OFFSET_MAX && offset <= STORE_OFFSET_MAX - length;
}

/* The head of an object file. `checkpoint` is the store's checkpoint of the last change
 * (store_checkpoint_file.h). `lacks`: on a shared disk, a loss of power may have taken some of what was acknowledged, and it
 * reads as zeros (store_lacks()). Older programs do not know that, and leave it out.
 */
struct store_header
{
    struct object_id id;
    bool lacks;
    uint64_t checkpoint;
};

void store_header_encode(const struct store_header *header, uint8_t bytes[STORE_HEADER_BYTES]);

/* MORSEL_NODATA: all zero, was never written. MORSEL_CORRUPT, MORSEL_VERSION. */
int store_header_decode(const uint8_t bytes[STORE_HEADER_BYTES], struct store_header *header);

/* Spreads objects over the subdirectories (upper 12 bits) and orders store_list(). Never 0 nor
 * UINT64_MAX. */
uint64_t store_hash(struct object_id id);

/* "fff/0123456789abcdef.7", relative to the objects directory. */
void store_name(struct object_id id, char name[STORE_NAME_BYTES]);

/* The id in a file name without its directory; false for a name that store_name() does not make. */
bool store_name_parse(const char *file_name, struct object_id *id);

#endif
