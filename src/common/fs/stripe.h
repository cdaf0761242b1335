/* Where the bytes of a striped file lie: file range <-> runs of (column, object offset, length).
 *
 * Pure. The file is dealt out in stripes of `stripe_morsels` morsels to `width` columns,
 * round-robin; a column's stripes follow each other in its data object. Settlemyer 2006,
 * section 2.1 ("simple stripe"); Tammineedi 2005, section 3.2.
 *
 *   width 3, stripe of 2 morsels:   column 0: 0 1 6 7   column 1: 2 3 8 9   column 2: 4 5 10 11
 */
#ifndef MORSEL_COMMON_FS_STRIPE_H
#define MORSEL_COMMON_FS_STRIPE_H

#include "common/base/limits.h"
#include "common/base/types.h"

struct stripe
{
    uint32_t morsel_bytes;   /* A power of two, MORSEL_BYTES_MIN to MORSEL_BYTES_MAX. */
    uint32_t stripe_morsels; /* 1 to STRIPE_MORSELS_MAX. */
    uint32_t width;          /* 1 to STRIPE_WIDTH_MAX. */
};

/* A stretch that is contiguous both in the file and in one data object. */
struct stripe_run
{
    uint32_t column;
    uint64_t object_offset;
    uint64_t file_offset;
    uint64_t length;
};

/* True when all three numbers are in range. */
bool stripe_valid(const struct stripe *s);

/* The run that starts at `file_offset`, at most `length` bytes long: up to the next stripe border.
 * `length` must not be 0. */
struct stripe_run stripe_run_at(const struct stripe *s, uint64_t file_offset, uint64_t length);

/* The file offset of byte `object_offset` of `column`. */
uint64_t stripe_file_offset(const struct stripe *s, uint32_t column, uint64_t object_offset);

/* How many bytes of the column's object lie below `file_size`: its length when the file ends there.
 */
uint64_t stripe_object_size(const struct stripe *s, uint32_t column, uint64_t file_size);

#endif
