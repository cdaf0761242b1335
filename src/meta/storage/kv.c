/* The batch; the stores themselves are elsewhere. */
#include "meta/storage/kv.h"

#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"

/* A change is one byte (1 put, 0 delete), the key as a blob and, with a put, the value as a blob.
 */

void kv_batch_init(struct kv_batch *batch)
{
    buf_init(&batch->bytes);
    batch->count = 0;
}

void kv_batch_free(struct kv_batch *batch)
{
    buf_free(&batch->bytes);
    batch->count = 0;
}

void kv_batch_clear(struct kv_batch *batch)
{
    buf_clear(&batch->bytes);
    batch->count = 0;
}

void kv_batch_put(struct kv_batch *batch, struct slice key, struct slice value)
{
    buf_put_u8(&batch->bytes, 1);
    buf_put_blob(&batch->bytes, key.data, key.count);
    buf_put_blob(&batch->bytes, value.data, value.count);
    batch->count++;
}

void kv_batch_delete(struct kv_batch *batch, struct slice key)
{
    buf_put_u8(&batch->bytes, 0);
    buf_put_blob(&batch->bytes, key.data, key.count);
    batch->count++;
}

static bool read_change(struct reader *r, struct kv_change *change)
{
    change->put = reader_u8(r) != 0;
    change->key = reader_blob(r);
    change->value = change->put ? reader_blob(r) : (struct slice){ NULL, 0 };
    return !r->failed;
}

bool kv_batch_is_sound(struct slice bytes)
{
    struct kv_change change;
    struct reader r;
    bool sound = true;

    reader_init(&r, bytes.data, bytes.count);
    while (sound && !reader_done(&r)) {
        sound = read_change(&r, &change);
    }
    return sound;
}

bool kv_batch_next(const struct kv_batch *batch, size_t *offset, struct kv_change *change)
{
    struct reader r;

    CHECK(*offset <= batch->bytes.count);
    if (*offset == batch->bytes.count) {
        return false;
    }
    reader_init(&r, batch->bytes.data + *offset, batch->bytes.count - *offset);
    CHECK(read_change(&r, change));
    *offset = (size_t)(r.at - batch->bytes.data);
    return true;
}

/* ---- What is not in memory ---- */

void kv_wanted_init(struct kv_wanted *wanted)
{
    buf_init(&wanted->bytes);
    wanted->count = 0;
    wanted->room = false;
    wanted->tries = 0;
}

void kv_wanted_free(struct kv_wanted *wanted)
{
    buf_free(&wanted->bytes);
    wanted->count = 0;
}

void kv_wanted_clear(struct kv_wanted *wanted)
{
    buf_clear(&wanted->bytes);
    wanted->count = 0;
    wanted->room = false;
}

bool kv_wanted_next(const struct kv_wanted *wanted, size_t *offset, struct slice *key,
                    uint32_t *records)
{
    struct reader r;

    if (wanted->bytes.failed || *offset >= wanted->bytes.count) {
        return false;
    }
    reader_init(&r, wanted->bytes.data + *offset, wanted->bytes.count - *offset);
    *key = reader_blob(&r);
    *records = reader_u32(&r);
    CHECK(!r.failed);
    *offset = (size_t)(r.at - wanted->bytes.data);
    return true;
}

int kv_room(struct kv *kv)
{
    if (kv->wanted == NULL || kv->has_room(kv)) {
        return 0;
    }
    kv->wanted->room = true;
    return MORSEL_AGAIN;
}

struct kv_wanted *kv_be_patient(struct kv *kv)
{
    struct kv_wanted *before = kv->wanted;

    kv->wanted = NULL;
    return before;
}

static int want(struct kv_wanted *w, struct slice key, uint32_t records)
{
    if (w->count++ < KV_WANTED_MAX) {
        buf_put_blob(&w->bytes, key.data, key.count);
        buf_put_u32(&w->bytes, records);
    }
    return MORSEL_AGAIN;
}

int kv_want(struct kv *kv, struct slice key)
{
    return want(kv->wanted, key, 0);
}

int kv_want_range(struct kv *kv, struct slice from, uint32_t visited)
{
    uint32_t more = KV_RANGE_RECORDS;

    for (unsigned i = 0; i < kv->wanted->tries && more < KV_RANGE_RECORDS_MAX; i++) {
        more *= KV_RANGE_GROWS;
    }
    more = more < KV_RANGE_RECORDS_MAX ? more : KV_RANGE_RECORDS_MAX;
    return want(kv->wanted, from, visited < UINT32_MAX - more ? visited + more : UINT32_MAX);
}
