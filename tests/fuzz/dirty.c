/* A file of write intent and logs of changes: any bytes are refused, or are exactly what we write for
 * what was read; and a set that takes them up holds them all. */
#include "common/base/check.h"
#include "iod/replica/dirty_format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_again(struct slice bytes, uint64_t number, struct dirty_entry *entry)
{
    struct dirty_record *records = calloc(entry->count, sizeof(*records));
    struct changed *changed = changed_new(4, 8, BLOCK_BYTES);
    struct buf again;

    CHECK(records != NULL && changed != NULL);
    for (uint32_t i = 0; i < entry->count; i++) {
        CHECK(dirty_record_get(&entry->records, &records[i]));
        if (records[i].kind != DIRTY_SETTLED) {
            changed_add(changed, &records[i].change);
            CHECK(changed_covers(changed, &records[i].change));
        }
    }
    CHECK(reader_done(&entry->records));
    for (uint32_t i = 0; i < entry->count; i++) {
        CHECK(records[i].kind == DIRTY_SETTLED || changed_covers(changed, &records[i].change));
    }
    changed_check(changed);
    changed_free(changed);
    buf_init(&again);
    dirty_entry_put(&again, number, records, entry->count);
    CHECK(again.count == entry->bytes && memcmp(again.data, bytes.data, again.count) == 0);
    buf_free(&again);
    free(records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = { data, size };
    struct dirty_entry entry;
    uint64_t number = 1;
    group_id group;

    if (dirty_header_parse(rest, &group) == 0) {
        CHECK(group != 0);
        rest.data += DIRTY_HEADER_BYTES;
        rest.count -= DIRTY_HEADER_BYTES;
    }
    while (dirty_entry_parse(rest, number, &entry) == DIRTY_ENTRY) {
        CHECK(entry.bytes <= rest.count && entry.count > 0);
        same_again(rest, number++, &entry);
        rest.data += entry.bytes;
        rest.count -= entry.bytes;
    }
    CHECK(entry.bytes == 0);
    return 0;
}
