/* The journal of the database: any bytes end the walk or are entries that follow each other, and
 * the batches in them are walked without a step outside. Checksums of 0 are made sound first, or
 * nothing would get behind them. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "meta/storage/journal_format.h"
#include "meta/storage/kv.h"

#include <string.h>

enum { CRC_AT = 4, COVERED_AT = 8, COUNT_AT = 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_sound(struct buf *file)
{
    for (size_t at = 0; at + JOURNAL_HEADER_BYTES <= file->count; at += JOURNAL_SECTOR_BYTES) {
        uint8_t *entry = file->data + at;
        size_t whole = JOURNAL_HEADER_BYTES + (size_t)get_le32(entry + COUNT_AT);

        if (get_le32(entry + CRC_AT) == 0 && whole <= file->count - at) {
            put_le32(entry + CRC_AT, crc32c(0, entry + COVERED_AT, whole - COVERED_AT));
        }
    }
}

static void walk_batches(struct slice batches)
{
    struct kv_change change;
    struct reader r;

    reader_init(&r, batches.data, batches.count);
    while (!r.failed && !reader_done(&r)) {
        struct slice bytes = reader_blob(&r);
        struct kv_batch batch;
        size_t offset = 0;

        if (!kv_batch_is_sound(bytes)) {
            return;
        }
        kv_batch_init(&batch);
        buf_put(&batch.bytes, bytes.data, bytes.count);
        while (kv_batch_next(&batch, &offset, &change)) {
            CHECK(change.key.count + change.value.count <= bytes.count);
        }
        kv_batch_free(&batch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct journal_entry entry = { 0 };
    struct buf file, again;
    size_t offset = 0, before = 0;
    uint64_t last = 0;

    buf_init(&file);
    buf_init(&again);
    buf_put(&file, data, size);
    make_sound(&file);
    while (journal_entry_next(buf_slice(&file), &offset, &entry)) {
        CHECK(entry.first == last + 1 || last == 0);
        CHECK(entry.last >= entry.first && offset > before && offset % JOURNAL_SECTOR_BYTES == 0);
        last = entry.last;
        walk_batches(entry.batches);
        buf_clear(&again);
        journal_entry_encode(&again, &entry);
        CHECK(again.count == offset - before);
        CHECK(memcmp(again.data + COVERED_AT, file.data + before + COVERED_AT,
                     COUNT_AT + 4 - COVERED_AT) == 0);
        before = offset;
    }
    buf_free(&file);
    buf_free(&again);
    return 0;
}
