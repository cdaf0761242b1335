/* Entries with two checksums: that of the header says whether its length can be believed. */
#include "iod/replica/dirty_format.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <string.h>

static const char magic[8] = { 'M', 'O', 'R', 'S', 'D', 'I', 'R', 'T' };

enum { FLAG_WHOLE = 1, FLAG_EVERYTHING = 2 };

static bool record_valid(const struct dirty_record *r)
{
    const struct change *c = &r->change;
    bool zero = c->object.inode == 0 && c->object.column == 0 && c->generation == 0 &&
                c->span.start == 0 && c->span.end == 0 && !c->whole;

    if (r->kind < DIRTY_INTENT || r->kind > DIRTY_SETTLED ||
        (r->kind == DIRTY_INTENT) != (r->members == 0) || r->members >> REPLICAS_MAX != 0) {
        return false;
    }
    if (r->kind == DIRTY_SETTLED || c->everything) {
        return zero && c->everything == (r->kind != DIRTY_SETTLED);
    }
    return c->object.inode != 0 && c->generation != 0 && c->span.start <= c->span.end &&
           c->span.end <= OBJECT_BYTES_MAX && !(c->whole && c->span.end != 0);
}

/* ---- Writing ---- */

void dirty_header_put(struct buf *b, group_id group)
{
    uint8_t bytes[DIRTY_HEADER_BYTES] = { 0 };

    CHECK(group != 0);
    memcpy(bytes, magic, sizeof(magic));
    put_le32(bytes + 8, DIRTY_FORMAT);
    put_le64(bytes + 16, group);
    put_le32(bytes + 12, crc32c(0, bytes, sizeof(bytes)));
    buf_put(b, bytes, sizeof(bytes));
}

static void record_put(struct buf *b, const struct dirty_record *record)
{
    const struct change *c = &record->change;
    uint8_t flags = (uint8_t)((c->whole ? FLAG_WHOLE : 0) | (c->everything ? FLAG_EVERYTHING : 0));

    CHECK(record_valid(record));
    buf_put_u8(b, (uint8_t)record->kind);
    buf_put_u8(b, record->members);
    buf_put_u16(b, flags);
    buf_put_u32(b, c->object.column);
    buf_put_u64(b, c->object.inode);
    buf_put_u64(b, c->generation);
    buf_put_u64(b, c->span.start);
    buf_put_u64(b, c->span.end);
}

void dirty_entry_put(struct buf *b, uint64_t number, const struct dirty_record *records,
                     uint32_t count)
{
    static const uint8_t room[DIRTY_ENTRY_HEADER_BYTES];
    size_t at = b->count;
    uint8_t *header;

    CHECK(count >= 1 && count <= DIRTY_RECORDS_MAX);
    buf_put(b, room, sizeof(room));
    for (uint32_t i = 0; i < count; i++) {
        record_put(b, &records[i]);
    }
    if (b->failed) {
        return;
    }
    header = b->data + at;
    put_le32(header, (uint32_t)(b->count - at - DIRTY_ENTRY_HEADER_BYTES));
    put_le32(header + 4, crc32c(0, header + DIRTY_ENTRY_HEADER_BYTES, get_le32(header)));
    put_le64(header + 8, number);
    put_le32(header + 16, crc32c(0, header, 16));
}

/* ---- Reading ---- */

int dirty_header_parse(struct slice bytes, group_id *group)
{
    uint8_t header[DIRTY_HEADER_BYTES];
    uint32_t sum;

    *group = 0;
    if (bytes.count < sizeof(header) || memcmp(bytes.data, magic, sizeof(magic)) != 0) {
        return MORSEL_CORRUPT;
    }
    memcpy(header, bytes.data, sizeof(header));
    sum = get_le32(header + 12);
    put_le32(header + 12, 0);
    if (crc32c(0, header, sizeof(header)) != sum || get_le64(header + 16) == 0) {
        return MORSEL_CORRUPT;
    }
    if (get_le32(header + 8) != DIRTY_FORMAT) {
        return MORSEL_VERSION;
    }
    *group = get_le64(header + 16);
    return MORSEL_OK;
}

bool dirty_record_get(struct reader *r, struct dirty_record *record)
{
    uint16_t flags;

    *record = (struct dirty_record){ .kind = (enum dirty_kind)reader_u8(r) };
    record->members = reader_u8(r);
    flags = reader_u16(r);
    record->change.object.column = reader_u32(r);
    record->change.object.inode = reader_u64(r);
    record->change.generation = reader_u64(r);
    record->change.span.start = reader_u64(r);
    record->change.span.end = reader_u64(r);
    record->change.whole = (flags & FLAG_WHOLE) != 0;
    record->change.everything = (flags & FLAG_EVERYTHING) != 0;
    return !r->failed && flags <= (FLAG_WHOLE | FLAG_EVERYTHING) && record_valid(record);
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

static bool body_parse(struct slice body, struct dirty_entry *entry)
{
    struct reader r;

    if (body.count == 0 || body.count % DIRTY_RECORD_BYTES != 0 ||
        body.count / DIRTY_RECORD_BYTES > DIRTY_RECORDS_MAX) {
        return false;
    }
    entry->count = (uint32_t)(body.count / DIRTY_RECORD_BYTES);
    reader_init(&r, body.data, body.count);
    entry->records = r;
    for (uint32_t i = 0; i < entry->count; i++) {
        struct dirty_record record;

        if (!dirty_record_get(&r, &record)) {
            return false;
        }
    }
    return reader_done(&r);
}

enum dirty_piece dirty_entry_parse(struct slice bytes, uint64_t number, struct dirty_entry *entry)
{
    struct slice body;

    memset(entry, 0, sizeof(*entry));
    if (bytes.count == 0) {
        return DIRTY_END;
    }
    if (bytes.count < DIRTY_ENTRY_HEADER_BYTES || all_zero(bytes)) {
        return DIRTY_TORN;
    }
    if (crc32c(0, bytes.data, 16) != get_le32(bytes.data + 16) ||
        get_le64(bytes.data + 8) != number) {
        return DIRTY_DAMAGED;
    }
    body.count = get_le32(bytes.data);
    body.data = bytes.data + DIRTY_ENTRY_HEADER_BYTES;
    if (body.count > bytes.count - DIRTY_ENTRY_HEADER_BYTES) {
        return DIRTY_TORN;
    }
    if (crc32c(0, body.data, body.count) != get_le32(bytes.data + 4) || !body_parse(body, entry)) {
        memset(entry, 0, sizeof(*entry));
        return DIRTY_DAMAGED;
    }
    entry->bytes = DIRTY_ENTRY_HEADER_BYTES + body.count;
    return DIRTY_ENTRY;
}
