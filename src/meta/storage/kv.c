/* The batch; the stores themselves are elsewhere. */
#include "meta/storage/kv.h"

#include "common/base/check.h"

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
