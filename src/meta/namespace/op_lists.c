/* Lists inside operations: objects, columns, sessions, stretches of morsels, morsels. */
#include "meta/namespace/op.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

void op_objects_put(struct buf *out, struct object_id object)
{
    buf_put_u64(out, object.inode);
    buf_put_u32(out, object.column);
}

static int compare_objects(const void *a, const void *b)
{
    return memcmp(a, b, OP_OBJECT_BYTES);
}

void op_objects_sort(struct buf *objects)
{
    if (objects->count > 0) {
        qsort(objects->data, objects->count / OP_OBJECT_BYTES, OP_OBJECT_BYTES, compare_objects);
    }
}

bool op_object_repeats(struct slice objects, size_t index)
{
    const uint8_t *at = objects.data + index * OP_OBJECT_BYTES;

    return index > 0 && memcmp(at, at - OP_OBJECT_BYTES, OP_OBJECT_BYTES) == 0;
}

size_t op_objects_count(struct slice objects)
{
    return objects.count / OP_OBJECT_BYTES;
}

struct object_id op_object_at(struct slice objects, size_t index)
{
    const uint8_t *at = objects.data + index * OP_OBJECT_BYTES;

    CHECK(index < op_objects_count(objects));
    return (struct object_id){ get_le64(at), get_le32(at + 8) };
}

void op_unsynced_put(struct buf *out, struct unsynced_column column)
{
    buf_put_u64(out, column.verifier);
    buf_put_u32(out, column.column);
}

size_t op_unsynced_count(struct slice columns)
{
    return columns.count / OP_UNSYNCED_BYTES;
}

struct unsynced_column op_unsynced_at(struct slice columns, size_t index)
{
    const uint8_t *at = columns.data + index * OP_UNSYNCED_BYTES;

    CHECK(index < op_unsynced_count(columns));
    return (struct unsynced_column){ get_le32(at + 8), get_le64(at) };
}

void op_session_put(struct buf *out, client_id client, uint32_t waited_ms)
{
    buf_put_u64(out, client);
    buf_put_u32(out, waited_ms);
}

size_t op_sessions_count(struct slice clients)
{
    return clients.count / OP_SESSION_BYTES;
}

client_id op_session_at(struct slice clients, size_t index, uint32_t *waited_ms)
{
    const uint8_t *at = clients.data + index * OP_SESSION_BYTES;

    CHECK(index < op_sessions_count(clients));
    *waited_ms = get_le32(at + 8);
    return get_le64(at);
}

void op_run_put(struct buf *out, struct op_run run)
{
    buf_put_u64(out, run.set);
    buf_put_u32(out, run.first);
    buf_put_u32(out, run.count);
}

size_t op_runs_count(struct slice runs)
{
    return runs.count / OP_RUN_BYTES;
}

struct op_run op_run_at(struct slice runs, size_t index)
{
    const uint8_t *at = runs.data + index * OP_RUN_BYTES;

    CHECK(index < op_runs_count(runs));
    return (struct op_run){ get_le64(at), get_le32(at + 8), get_le32(at + 12) };
}

/* In one byte: how many donors, and a flag. */
enum { STORED_DONORS = 0x0f, STORED_REWRITING = 0x10 };
enum { STORED_HEAD_BYTES = 13, STORED_DONOR_BYTES = 4 };

void op_morsel_put(struct buf *out, const struct set_morsel *morsel)
{
    CHECK(morsel->donor_count <= SET_DONORS_MAX);
    buf_put_u8(out, (uint8_t)(morsel->donor_count | (morsel->rewriting ? STORED_REWRITING : 0)));
    buf_put_u32(out, morsel->number);
    buf_put_u32(out, morsel->length);
    buf_put_u32(out, morsel->digest);
    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        buf_put_u32(out, morsel->donors[i]);
    }
}

bool op_morsel_next(struct slice *morsels, struct set_morsel *morsel)
{
    const uint8_t *at = morsels->data;
    size_t bytes = STORED_HEAD_BYTES;

    if (morsels->count < bytes || (at[0] & STORED_DONORS) > SET_DONORS_MAX ||
        (at[0] & ~(STORED_DONORS | STORED_REWRITING)) != 0) {
        return false;
    }
    memset(morsel, 0, sizeof(*morsel));
    morsel->donor_count = at[0] & STORED_DONORS;
    morsel->rewriting = (at[0] & STORED_REWRITING) != 0;
    morsel->number = get_le32(at + 1);
    morsel->length = get_le32(at + 5);
    morsel->digest = get_le32(at + 9);
    bytes += (size_t)morsel->donor_count * STORED_DONOR_BYTES;
    if (morsels->count < bytes) {
        return false;
    }
    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        morsel->donors[i] = get_le32(at + STORED_HEAD_BYTES + i * STORED_DONOR_BYTES);
    }
    *morsels = (struct slice){ at + bytes, morsels->count - bytes };
    return true;
}

bool op_sessions_sound(const struct meta_op *op)
{
    struct slice clients = op->sessions.clients;
    size_t count = op_sessions_count(clients);
    bool tells_run = false;

    if (count == 0 || count > OP_SESSIONS_MAX || clients.count % OP_SESSION_BYTES != 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t waited_ms;

        tells_run |= op_session_at(clients, i, &waited_ms) == 0;
    }
    return tells_run == (op->sessions.run != 0);
}
