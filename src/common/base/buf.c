/* Growing, writing and reading of byte buffers. */
#include "common/base/buf.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

void put_le16(uint8_t *at, uint16_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

void put_le32(uint8_t *at, uint32_t value)
{
    put_le16(at, (uint16_t)value);
    put_le16(at + 2, (uint16_t)(value >> 16));
}

void put_le64(uint8_t *at, uint64_t value)
{
    put_le32(at, (uint32_t)value);
    put_le32(at + 4, (uint32_t)(value >> 32));
}

uint16_t get_le16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

uint32_t get_le32(const uint8_t *at)
{
    return get_le16(at) | (uint32_t)get_le16(at + 2) << 16;
}

uint64_t get_le64(const uint8_t *at)
{
    return get_le32(at) | (uint64_t)get_le32(at + 4) << 32;
}

void buf_init(struct buf *b)
{
    memset(b, 0, sizeof(*b));
}

void buf_free(struct buf *b)
{
    free(b->data);
    buf_init(b);
}

void buf_clear(struct buf *b)
{
    b->count = 0;
    b->failed = false;
}

bool buf_reserve(struct buf *b, size_t count)
{
    size_t capacity = b->capacity ? b->capacity : 64;
    uint8_t *data;

    if (b->failed || count > SIZE_MAX / 4 - b->count) {
        b->failed = true;
        return false;
    }
    if (b->count + count <= b->capacity) {
        return true;
    }
    while (capacity < b->count + count) {
        capacity *= 2;
    }
    data = realloc(b->data, capacity);
    if (data == NULL) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

void buf_put(struct buf *b, const void *bytes, size_t count)
{
    if (count == 0 || !buf_reserve(b, count)) {
        return;
    }
    memcpy(b->data + b->count, bytes, count);
    b->count += count;
}

void buf_put_u8(struct buf *b, uint8_t value)
{
    buf_put(b, &value, 1);
}

void buf_put_u16(struct buf *b, uint16_t value)
{
    uint8_t bytes[2];

    put_le16(bytes, value);
    buf_put(b, bytes, sizeof(bytes));
}

void buf_put_u32(struct buf *b, uint32_t value)
{
    uint8_t bytes[4];

    put_le32(bytes, value);
    buf_put(b, bytes, sizeof(bytes));
}

void buf_put_u64(struct buf *b, uint64_t value)
{
    uint8_t bytes[8];

    put_le64(bytes, value);
    buf_put(b, bytes, sizeof(bytes));
}

void buf_put_u64_be(struct buf *b, uint64_t value)
{
    uint8_t bytes[8];

    put_le64(bytes, __builtin_bswap64(value));
    buf_put(b, bytes, sizeof(bytes));
}

void buf_put_blob(struct buf *b, const void *bytes, size_t count)
{
    CHECK(count <= UINT32_MAX);
    buf_put_u32(b, (uint32_t)count);
    buf_put(b, bytes, count);
}

struct slice buf_slice(const struct buf *b)
{
    return (struct slice){ b->data, b->count };
}

void reader_init(struct reader *r, const void *bytes, size_t count)
{
    r->at = bytes;
    r->end = r->at == NULL ? NULL : r->at + count;
    r->failed = false;
}

struct slice reader_bytes(struct reader *r, size_t count)
{
    struct slice slice = { r->at, count };

    if (r->failed || count > (size_t)(r->end - r->at)) {
        r->failed = true;
        return (struct slice){ NULL, 0 };
    }
    if (count > 0) {
        r->at += count;
    }
    return slice;
}

struct slice reader_rest(struct reader *r)
{
    return reader_bytes(r, r->failed ? 0 : (size_t)(r->end - r->at));
}

uint8_t reader_u8(struct reader *r)
{
    struct slice s = reader_bytes(r, 1);

    return r->failed ? 0 : s.data[0];
}

uint16_t reader_u16(struct reader *r)
{
    struct slice s = reader_bytes(r, 2);

    return r->failed ? 0 : get_le16(s.data);
}

uint32_t reader_u32(struct reader *r)
{
    struct slice s = reader_bytes(r, 4);

    return r->failed ? 0 : get_le32(s.data);
}

uint64_t reader_u64(struct reader *r)
{
    struct slice s = reader_bytes(r, 8);

    return r->failed ? 0 : get_le64(s.data);
}

uint64_t reader_u64_be(struct reader *r)
{
    return __builtin_bswap64(reader_u64(r));
}

struct slice reader_blob(struct reader *r)
{
    return reader_bytes(r, reader_u32(r));
}

bool reader_done(const struct reader *r)
{
    return !r->failed && r->at == r->end;
}
