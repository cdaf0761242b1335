/* A growing byte buffer, little-endian writers onto it, and a reader that cannot run past the end.
 *
 * Pure. Writing out of memory does not fail at once: the buffer remembers it (`failed`) and the
 * caller asks once at the end. A reader that meets the end early does the same, and returns zeros
 * from then on.
 */
#ifndef MORSEL_COMMON_BASE_BUF_H
#define MORSEL_COMMON_BASE_BUF_H

#include "common/base/types.h"

struct buf
{
    uint8_t *data; /* Owned; NULL while empty. */
    size_t count;
    size_t capacity;
    bool failed; /* A write was lost for want of memory. */
};

void buf_init(struct buf *b);
void buf_free(struct buf *b);  /* Leaves an empty buffer. */
void buf_clear(struct buf *b); /* Keeps the memory. */

/* Room for `count` more bytes; false (and `failed`) when there is no memory. */
bool buf_reserve(struct buf *b, size_t count);

void buf_put(struct buf *b, const void *bytes, size_t count);
void buf_put_u8(struct buf *b, uint8_t value);
void buf_put_u16(struct buf *b, uint16_t value);
void buf_put_u32(struct buf *b, uint32_t value);
void buf_put_u64(struct buf *b, uint64_t value);
void buf_put_u64_be(struct buf *b, uint64_t value); /* For keys that must sort by number. */
void buf_put_blob(struct buf *b, const void *bytes, size_t count); /* u32 length, then the bytes. */
struct slice buf_slice(const struct buf *b);

struct reader
{
    const uint8_t *at;
    const uint8_t *end;
    bool failed; /* Something was asked for that is not there. */
};

void reader_init(struct reader *r, const void *bytes, size_t count);
uint8_t reader_u8(struct reader *r);
uint16_t reader_u16(struct reader *r);
uint32_t reader_u32(struct reader *r);
uint64_t reader_u64(struct reader *r);
uint64_t reader_u64_be(struct reader *r);
struct slice reader_bytes(struct reader *r, size_t count); /* Points into the source. */
struct slice reader_blob(struct reader *r);                /* u32 length, then the bytes. */
struct slice reader_rest(struct reader *r);
bool reader_done(const struct reader *r); /* All was read, nothing was missing. */

/* Little-endian at fixed places. */
void put_le16(uint8_t *at, uint16_t value);
void put_le32(uint8_t *at, uint32_t value);
void put_le64(uint8_t *at, uint64_t value);
uint16_t get_le16(const uint8_t *at);
uint32_t get_le32(const uint8_t *at);
uint64_t get_le64(const uint8_t *at);

#endif
