/* Entries with two checksums: that of the header says whether its length can be believed. */
#include "common/vote/votes_format.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

static const char magic[8] = { 'M', 'O', 'R', 'S', 'V', 'O', 'T', 'E' };

/* ---- Writing ---- */

void votes_header_put(struct buf *b, voter_id id)
{
    uint8_t bytes[VOTES_HEADER_BYTES] = { 0 };

    CHECK(id != 0);
    memcpy(bytes, magic, sizeof(magic));
    put_le32(bytes + 8, VOTES_FORMAT);
    put_le64(bytes + 16, id);
    put_le32(bytes + 12, crc32c(0, bytes, sizeof(bytes)));
    buf_put(b, bytes, sizeof(bytes));
}

static void ballot_put(struct buf *b, struct vote_ballot ballot)
{
    buf_put_u64(b, ballot.round);
    buf_put_u64(b, ballot.candidate);
}

static void value_put(struct buf *b, const struct vote_value *value)
{
    buf_put_u8(b, (uint8_t)value->count);
    buf_put(b, value->bytes, value->count);
}

static void record_put(struct buf *b, const struct vote_record *record)
{
    CHECK(vote_record_valid(record));
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        buf_put_u32(b, record->subject.servers[i]);
    }
    buf_put_u64(b, record->decided_epoch);
    ballot_put(b, record->promised);
    ballot_put(b, record->ballot);
    value_put(b, &record->decided);
    value_put(b, &record->value);
}

void votes_entry_put(struct buf *b, uint64_t number, uint64_t set_version,
                     const struct vote_record *records, uint32_t count)
{
    static const uint8_t room[VOTES_ENTRY_HEADER_BYTES];
    size_t at = b->count;
    uint8_t *header;

    CHECK(count <= VOTE_SUBJECTS_MAX);
    buf_put(b, room, sizeof(room));
    buf_put_u64(b, set_version);
    buf_put_u32(b, count);
    for (uint32_t i = 0; i < count; i++) {
        record_put(b, &records[i]);
    }
    if (b->failed) {
        return;
    }
    header = b->data + at;
    put_le32(header, (uint32_t)(b->count - at - VOTES_ENTRY_HEADER_BYTES));
    put_le32(header + 4, crc32c(0, header + VOTES_ENTRY_HEADER_BYTES, get_le32(header)));
    put_le64(header + 8, number);
    put_le32(header + 16, crc32c(0, header, 16));
}

/* ---- Reading ---- */

int votes_header_parse(struct slice bytes, voter_id *id)
{
    uint8_t header[VOTES_HEADER_BYTES];
    uint32_t sum;

    *id = 0;
    if (bytes.count < sizeof(header) || memcmp(bytes.data, magic, sizeof(magic)) != 0) {
        return MORSEL_CORRUPT;
    }
    memcpy(header, bytes.data, sizeof(header));
    sum = get_le32(header + 12);
    put_le32(header + 12, 0);
    if (crc32c(0, header, sizeof(header)) != sum || get_le64(header + 16) == 0) {
        return MORSEL_CORRUPT;
    }
    if (get_le32(header + 8) != VOTES_FORMAT) {
        return MORSEL_VERSION;
    }
    *id = get_le64(header + 16);
    return MORSEL_OK;
}

static struct vote_ballot ballot_get(struct reader *r)
{
    struct vote_ballot ballot = { .round = reader_u64(r) };

    ballot.candidate = reader_u64(r);
    return ballot;
}

static struct vote_value value_get(struct reader *r)
{
    struct vote_value value = { .count = reader_u8(r) };
    struct slice bytes = { NULL, 0 };

    if (value.count <= VOTE_VALUE_BYTES_MAX) { /* Else the record is not valid. */
        bytes = reader_bytes(r, value.count);
    }
    if (bytes.count > 0) {
        memcpy(value.bytes, bytes.data, bytes.count);
    }
    return value;
}

struct vote_record votes_record_get(struct reader *r)
{
    struct vote_record record = { 0 };

    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        record.subject.servers[i] = reader_u32(r);
    }
    record.decided_epoch = reader_u64(r);
    record.promised = ballot_get(r);
    record.ballot = ballot_get(r);
    record.decided = value_get(r);
    record.value = value_get(r);
    return record;
}

static bool all_zero(struct slice bytes)
{
    for (size_t i = 0; i < bytes.count; i++) {
        if (bytes.data[i] != 0) {
            return false;
        }
    }
    return true;
}

static bool body_parse(struct slice body, struct votes_entry *entry)
{
    struct reader r;

    reader_init(&r, body.data, body.count);
    entry->set_version = reader_u64(&r);
    entry->count = reader_u32(&r);
    entry->records = r;
    if (entry->set_version >= VOTE_VERSION_END || entry->count > VOTE_SUBJECTS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < entry->count; i++) {
        struct vote_record record = votes_record_get(&r);

        if (r.failed || !vote_record_valid(&record)) {
            return false;
        }
    }
    return reader_done(&r);
}

enum votes_piece votes_entry_parse(struct slice bytes, uint64_t number, struct votes_entry *entry)
{
    struct slice body;

    memset(entry, 0, sizeof(*entry));
    if (bytes.count == 0) {
        return VOTES_END;
    }
    if (bytes.count < VOTES_ENTRY_HEADER_BYTES || all_zero(bytes)) {
        return VOTES_TORN;
    }
    if (crc32c(0, bytes.data, 16) != get_le32(bytes.data + 16) ||
        get_le64(bytes.data + 8) != number) {
        return VOTES_DAMAGED;
    }
    body.count = get_le32(bytes.data);
    body.data = bytes.data + VOTES_ENTRY_HEADER_BYTES;
    if (body.count > bytes.count - VOTES_ENTRY_HEADER_BYTES) {
        return VOTES_TORN;
    }
    if (crc32c(0, body.data, body.count) != get_le32(bytes.data + 4) || !body_parse(body, entry)) {
        memset(entry, 0, sizeof(*entry));
        return VOTES_DAMAGED;
    }
    entry->bytes = VOTES_ENTRY_HEADER_BYTES + body.count;
    return VOTES_ENTRY;
}
