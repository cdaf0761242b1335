/* A file of votes: any bytes are refused, or are exactly what we write for what was read. */
#include "common/base/check.h"
#include "common/vote/votes_format.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_again(struct slice bytes, uint64_t number, struct votes_entry *entry)
{
    struct vote_record *records = calloc(entry->count + 1U, sizeof(*records));
    struct buf again;

    CHECK(records != NULL);
    for (uint32_t i = 0; i < entry->count; i++) {
        records[i] = votes_record_get(&entry->records);
        CHECK(vote_record_valid(&records[i]));
    }
    CHECK(reader_done(&entry->records));
    buf_init(&again);
    votes_entry_put(&again, number, entry->set_version, records, entry->count);
    CHECK(again.count == entry->bytes && memcmp(again.data, bytes.data, again.count) == 0);
    buf_free(&again);
    free(records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice rest = { data, size };
    struct votes_entry entry;
    uint64_t number = 1;
    voter_id id;

    if (votes_header_parse(rest, &id) == 0) {
        CHECK(id != 0);
        rest.data += VOTES_HEADER_BYTES;
        rest.count -= VOTES_HEADER_BYTES;
    }
    while (votes_entry_parse(rest, number, &entry) == VOTES_ENTRY) {
        CHECK(entry.bytes <= rest.count);
        same_again(rest, number++, &entry);
        rest.data += entry.bytes;
        rest.count -= entry.bytes;
    }
    CHECK(entry.bytes == 0 && entry.count == 0);
    return 0;
}
