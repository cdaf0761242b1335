/* Fields one behind the other, and a checksum over them. */
#include "iod/replica/copy_format.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"

#include <string.h>

static const char state_magic[8] = { 'M', 'O', 'R', 'S', 'C', 'O', 'P', 'Y' };
static const char memory_magic[8] = { 'M', 'O', 'R', 'S', 'O', 'P', 'E', 'R' };

enum { HEAD_BYTES = 16, OPERATION_BEGUN = 1, OPERATION_DONE = 2 };

static void head_put(struct buf *b, const char magic[8], const struct buf *rest)
{
    buf_put(b, magic, 8);
    buf_put_u32(b, COPY_FORMAT);
    buf_put_u32(b, rest->failed ? 0 : crc32c(0, rest->data, rest->count));
    buf_put(b, rest->data, rest->count);
    b->failed = b->failed || rest->failed;
}

/* The rest, behind the head, of `count` bytes. */
static int head_parse(struct slice bytes, const char magic[8], size_t count, struct reader *rest)
{
    struct reader r;
    uint32_t format, sum;
    struct slice found;

    reader_init(&r, bytes.data, bytes.count);
    found = reader_bytes(&r, 8);
    format = reader_u32(&r);
    sum = reader_u32(&r);
    if (r.failed || memcmp(found.data, magic, 8) != 0 || format == 0) {
        return MORSEL_CORRUPT;
    }
    if (format > COPY_FORMAT) {
        return MORSEL_VERSION;
    }
    found = reader_bytes(&r, count);
    if (r.failed || crc32c(0, found.data, found.count) != sum) {
        return MORSEL_CORRUPT;
    }
    reader_init(rest, found.data, found.count);
    return MORSEL_OK;
}

/* ---- State ---- */

void copy_state_put(struct buf *b, const struct copy_name *name, const struct group_record *record)
{
    struct buf rest;

    buf_init(&rest);
    buf_put_u32(&rest, name->group);
    buf_put_u8(&rest, (uint8_t)name->count);
    buf_put_u8(&rest, (uint8_t)name->me);
    buf_put_u8(&rest, (uint8_t)record->state);
    buf_put_u8(&rest, record->set);
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        buf_put_u32(&rest, i < name->count ? name->servers[i] : 0);
    }
    buf_put_u32(&rest, record->whole);
    buf_put_u64(&rest, name->since);
    buf_put_u64(&rest, record->epoch);
    buf_put_u64(&rest, record->boot);
    buf_put_u64(&rest, record->begun);
    buf_put_u64(&rest, record->verifier);
    CHECK(rest.failed || rest.count == COPY_STATE_BYTES - HEAD_BYTES);
    head_put(b, state_magic, &rest);
    buf_free(&rest);
}

static bool name_valid(const struct copy_name *n)
{
    if (n->group == 0 || n->group >= PLACING_GROUPS_MAX || n->count < 1 ||
        n->count > REPLICAS_MAX || n->me >= n->count) {
        return false;
    }
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        if (n->servers[i] != 0 ? i >= n->count : i == n->me) {
            return false;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (n->servers[i] != 0 && n->servers[i] == n->servers[j]) {
                return false;
            }
        }
    }
    return true;
}

static bool record_valid(const struct group_record *r, uint32_t count)
{
    return r->state < GROUP_STATES && r->set != 0 && r->set >> count == 0 && r->verifier != 0 &&
           r->begun <= r->epoch;
}

int copy_state_parse(struct slice bytes, struct copy_name *name, struct group_record *record)
{
    struct reader r;
    int rv = head_parse(bytes, state_magic, COPY_STATE_BYTES - HEAD_BYTES, &r);
    uint32_t whole;

    *name = (struct copy_name){ 0 };
    *record = (struct group_record){ 0 };
    if (rv != MORSEL_OK || bytes.count != COPY_STATE_BYTES) {
        return rv == MORSEL_OK ? MORSEL_CORRUPT : rv;
    }
    name->group = reader_u32(&r);
    name->count = reader_u8(&r);
    name->me = reader_u8(&r);
    record->state = reader_u8(&r);
    record->set = reader_u8(&r);
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        name->servers[i] = reader_u32(&r);
    }
    whole = reader_u32(&r);
    record->whole = whole != 0;
    name->since = reader_u64(&r);
    record->epoch = reader_u64(&r);
    record->boot = reader_u64(&r);
    record->begun = reader_u64(&r);
    record->verifier = reader_u64(&r);
    if (whole > 1 || !name_valid(name) || !record_valid(record, name->count)) {
        *name = (struct copy_name){ 0 };
        *record = (struct group_record){ 0 };
        return MORSEL_CORRUPT;
    }
    return MORSEL_OK;
}

/* ---- Memory of operations ---- */

void copy_memory_header_put(struct buf *b, group_number group)
{
    struct buf rest;

    buf_init(&rest);
    buf_put_u32(&rest, group);
    buf_put_u32(&rest, COPY_OPERATION_BYTES);
    head_put(b, memory_magic, &rest);
    buf_free(&rest);
}

int copy_memory_header_parse(struct slice bytes, group_number *group)
{
    struct reader r;
    int rv = head_parse(bytes, memory_magic, COPY_MEMORY_HEADER_BYTES - HEAD_BYTES, &r);

    *group = 0;
    if (rv != MORSEL_OK) {
        return rv;
    }
    *group = reader_u32(&r);
    if (*group == 0 || *group >= PLACING_GROUPS_MAX || reader_u32(&r) != COPY_OPERATION_BYTES) {
        *group = 0;
        return MORSEL_CORRUPT;
    }
    return MORSEL_OK;
}

void copy_operation_put(uint8_t bytes[COPY_OPERATION_BYTES], const struct copy_operation *op)
{
    const struct op_known *k = &op->known;

    memset(bytes, 0, COPY_OPERATION_BYTES);
    put_le32(bytes + 4, op->done ? OPERATION_DONE : OPERATION_BEGUN);
    put_le64(bytes + 8, k->op.client);
    put_le64(bytes + 16, k->op.number);
    put_le64(bytes + 24, k->ended);
    put_le64(bytes + 32, k->until_ms);
    put_le64(bytes + 40, op->boot);
    put_le64(bytes + 48, k->answer.verifier);
    put_le32(bytes + 56, (uint32_t)k->answer.status);
    put_le32(bytes, crc32c(0, bytes + 4, COPY_OPERATION_BYTES - 4));
}

bool copy_operation_parse(const uint8_t bytes[COPY_OPERATION_BYTES], struct copy_operation *op)
{
    struct op_known *k = &op->known;
    uint32_t kind = get_le32(bytes + 4);

    *op = (struct copy_operation){ .done = kind == OPERATION_DONE, .boot = get_le64(bytes + 40) };
    k->op.client = get_le64(bytes + 8);
    k->op.number = get_le64(bytes + 16);
    k->ended = get_le64(bytes + 24);
    k->until_ms = get_le64(bytes + 32);
    k->answer.verifier = get_le64(bytes + 48);
    k->answer.status = (int32_t)get_le32(bytes + 56);
    return get_le32(bytes) == crc32c(0, bytes + 4, COPY_OPERATION_BYTES - 4) &&
           (kind == OPERATION_BEGUN || kind == OPERATION_DONE) && get_le32(bytes + 60) == 0 &&
           k->op.client != 0 && (k->op.number == 0 || k->ended < k->op.number);
}
