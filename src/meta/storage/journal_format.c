/* Encodes and decodes blocks of the journal. */
#include "meta/storage/journal_format.h"

#include "common/base/crc32c.h"

#include <assert.h>

enum { MAGIC = 0x4c4e4a4d, CRC_AT = 4, COVERED_AT = 8 }; /* "MJNL" */

static_assert(JOURNAL_BYTES % JOURNAL_SECTOR_BYTES == 0, "entries are whole sectors");

static size_t in_sectors(size_t bytes)
{
    return (bytes + JOURNAL_SECTOR_BYTES - 1) / JOURNAL_SECTOR_BYTES * JOURNAL_SECTOR_BYTES;
}

void journal_entry_encode(struct buf *out, const struct journal_entry *entry)
{
    static const uint8_t zeros[JOURNAL_SECTOR_BYTES];
    size_t start = out->count, whole = JOURNAL_HEADER_BYTES + entry->batches.count;

    if (!buf_reserve(out, in_sectors(whole))) {
        return;
    }
    buf_put_u32(out, MAGIC);
    buf_put_u32(out, 0);
    buf_put_u64(out, entry->generation);
    buf_put_u64(out, entry->first);
    buf_put_u64(out, entry->last);
    buf_put_u32(out, (uint32_t)entry->batches.count);
    buf_put_u32(out, 0);
    buf_put(out, entry->batches.data, entry->batches.count);
    put_le32(out->data + start + CRC_AT,
             crc32c(0, out->data + start + COVERED_AT, whole - COVERED_AT));
    buf_put(out, zeros, in_sectors(whole) - whole);
}

static bool entry_decode(struct slice bytes, struct journal_entry *entry)
{
    uint32_t magic, crc, count;
    struct reader r;

    reader_init(&r, bytes.data, bytes.count);
    magic = reader_u32(&r);
    crc = reader_u32(&r);
    entry->generation = reader_u64(&r);
    entry->first = reader_u64(&r);
    entry->last = reader_u64(&r);
    count = reader_u32(&r);
    (void)reader_u32(&r);
    entry->batches = reader_bytes(&r, count);
    return !r.failed && magic == MAGIC && entry->generation != 0 && entry->first != 0 &&
           entry->last >= entry->first &&
           crc == crc32c(0, bytes.data + COVERED_AT, JOURNAL_HEADER_BYTES - COVERED_AT + count);
}

bool journal_entry_next(struct slice file, size_t *offset, struct journal_entry *entry)
{
    struct journal_entry next;

    if (*offset >= file.count ||
        !entry_decode((struct slice){ file.data + *offset, file.count - *offset }, &next)) {
        return false;
    }
    if (entry->generation != 0 &&
        (next.generation != entry->generation || next.first != entry->last + 1)) {
        return false;
    }
    *offset += in_sectors(JOURNAL_HEADER_BYTES + next.batches.count);
    *entry = next;
    return true;
}
