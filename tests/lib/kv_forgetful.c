#include "tests/lib/kv_forgetful.h"

#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

struct record
{
    struct buf key, value;
};

struct table
{
    struct record *records; /* Ascending by key. */
    size_t count, capacity;
};

enum { WARM_KEYS = 256, WARM_RANGES = 4 };

/* Loaded a moment ago: what lies there is in memory. */
struct warm_range
{
    struct buf first, last;
    bool end; /* To the end of the store. */
};

struct kv_forgetful
{
    struct kv kv;
    struct prng *prng;
    struct table now;     /* What readers see. */
    struct table durable; /* What is left after a crash, at least. */
    struct kv_batch *unsynced;
    uint32_t unsynced_count, unsynced_capacity;
    int failing;
    uint32_t cold_one_in, full_one_in;
    bool room_made;
    uint64_t refused, full;
    uint64_t warm[WARM_KEYS]; /* Hashes of keys that were loaded; newer ones take their places. */
    struct warm_range ranges[WARM_RANGES];
    uint32_t ranges_loaded;
};

static struct kv_forgetful *forgetful_of(const struct kv *kv)
{
    return (struct kv_forgetful *)(uintptr_t)((const char *)kv - offsetof(struct kv_forgetful, kv));
}

/* Where the key is, or would be. */
static size_t table_find(const struct table *t, struct slice key, bool *found)
{
    size_t low = 0, high = t->count;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = slice_compare(buf_slice(&t->records[middle].key), key);

        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = false;
    return low;
}

static void table_put(struct table *t, struct slice key, struct slice value)
{
    bool found;
    size_t at = table_find(t, key, &found);
    struct record *r;

    if (!found) {
        if (t->count == t->capacity) {
            t->capacity = t->capacity ? t->capacity * 2 : 64;
            t->records = realloc(t->records, t->capacity * sizeof(t->records[0]));
            CHECK(t->records != NULL);
        }
        memmove(&t->records[at + 1], &t->records[at], (t->count - at) * sizeof(t->records[0]));
        t->count++;
        buf_init(&t->records[at].key);
        buf_init(&t->records[at].value);
        buf_put(&t->records[at].key, key.data, key.count);
    }
    r = &t->records[at];
    buf_clear(&r->value);
    buf_put(&r->value, value.data, value.count);
    CHECK(!r->key.failed && !r->value.failed);
}

static void table_delete(struct table *t, struct slice key)
{
    bool found;
    size_t at = table_find(t, key, &found);

    if (found) {
        buf_free(&t->records[at].key);
        buf_free(&t->records[at].value);
        t->count--;
        memmove(&t->records[at], &t->records[at + 1], (t->count - at) * sizeof(t->records[0]));
    }
}

static void table_apply(struct table *t, const struct kv_batch *batch)
{
    struct kv_change change;
    size_t offset = 0;

    while (kv_batch_next(batch, &offset, &change)) {
        if (change.put) {
            table_put(t, change.key, change.value);
        } else {
            table_delete(t, change.key);
        }
    }
}

static void table_clear(struct table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        buf_free(&t->records[i].key);
        buf_free(&t->records[i].value);
    }
    free(t->records);
    memset(t, 0, sizeof(*t));
}

static void table_copy(struct table *to, const struct table *from)
{
    table_clear(to);
    for (size_t i = 0; i < from->count; i++) {
        table_put(to, buf_slice(&from->records[i].key), buf_slice(&from->records[i].value));
    }
}

static uint64_t hash_of(struct slice key)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a */

    for (size_t i = 0; i < key.count; i++) {
        hash = (hash ^ key.data[i]) * 1099511628211U;
    }
    return hash;
}

static bool is_cold(struct kv_forgetful *f, struct slice key)
{
    uint64_t hash = hash_of(key);

    return f->kv.wanted != NULL && f->cold_one_in != 0 && f->warm[hash % WARM_KEYS] != hash &&
           prng_below(f->prng, f->cold_one_in) == 0;
}

static int on_get(struct kv *kv, struct slice key, struct buf *value, struct errmsg *err)
{
    struct kv_forgetful *f = forgetful_of(kv);
    bool found;
    size_t at = table_find(&f->now, key, &found);

    (void)err;
    if (is_cold(f, key)) {
        f->refused++;
        return kv_want(kv, key);
    }
    if (!found) {
        return MORSEL_NOENT;
    }
    buf_clear(value);
    buf_put(value, f->now.records[at].value.data, f->now.records[at].value.count);
    return value->failed ? MORSEL_NOMEM : 0;
}

static void forget_unsynced(struct kv_forgetful *f, uint32_t survivors)
{
    for (uint32_t i = 0; i < f->unsynced_count; i++) {
        if (i < survivors) {
            table_apply(&f->durable, &f->unsynced[i]);
        }
        kv_batch_free(&f->unsynced[i]);
    }
    f->unsynced_count = 0;
}

static int on_sync(struct kv *kv, struct errmsg *err)
{
    struct kv_forgetful *f = forgetful_of(kv);

    (void)err;
    forget_unsynced(f, f->unsynced_count);
    return 0;
}

static int on_commit(struct kv *kv, const struct kv_batch *batch, bool sync, struct errmsg *err)
{
    struct kv_forgetful *f = forgetful_of(kv);
    struct kv_batch *copy;

    if (f->failing != 0) {
        errmsg_set(err, "injected failure");
        return f->failing;
    }
    if (f->unsynced_count == f->unsynced_capacity) {
        f->unsynced_capacity = f->unsynced_capacity ? f->unsynced_capacity * 2 : 64;
        f->unsynced = realloc(f->unsynced, f->unsynced_capacity * sizeof(f->unsynced[0]));
        CHECK(f->unsynced != NULL);
    }
    f->room_made = false;
    copy = &f->unsynced[f->unsynced_count++];
    kv_batch_init(copy);
    buf_put(&copy->bytes, batch->bytes.data, batch->bytes.count);
    CHECK(!copy->bytes.failed);
    table_apply(&f->now, batch);
    return sync ? on_sync(kv, err) : 0;
}

/* For a scan. */
static bool record_is_cold(struct kv_forgetful *f, struct slice key)
{
    if (f->kv.wanted == NULL || f->cold_one_in == 0 || prng_below(f->prng, f->cold_one_in) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < WARM_RANGES && i < f->ranges_loaded; i++) {
        const struct warm_range *r = &f->ranges[i];

        if (slice_compare(key, buf_slice(&r->first)) >= 0 &&
            (r->end || slice_compare(key, buf_slice(&r->last)) <= 0)) {
            return false;
        }
    }
    return true;
}

static int on_scan(struct kv *kv, struct slice from, kv_visit visit, void *data, struct errmsg *err)
{
    struct kv_forgetful *f = forgetful_of(kv);
    bool found;
    size_t begin = table_find(&f->now, from, &found);

    (void)err;
    for (size_t i = begin; i < f->now.count; i++) {
        struct slice key = buf_slice(&f->now.records[i].key);

        if (record_is_cold(f, key)) {
            f->refused++;
            return kv_want_range(kv, from, (uint32_t)(i - begin));
        }
        if (!visit(data, key, buf_slice(&f->now.records[i].value))) {
            break;
        }
    }
    return 0;
}

/* What comes behind those that were there already may be less than was asked for, but is something. */
static void load_range(struct kv_forgetful *f, struct slice from, uint32_t records)
{
    struct warm_range *r = &f->ranges[f->ranges_loaded++ % WARM_RANGES];
    uint32_t certain = records < KV_RANGE_RECORDS ? 0 : records - KV_RANGE_RECORDS;
    uint32_t count = certain + 1 + (uint32_t)prng_below(f->prng, records - certain);
    bool found;
    size_t at = table_find(&f->now, from, &found);

    buf_clear(&r->first);
    buf_clear(&r->last);
    buf_put(&r->first, from.data, from.count);
    r->end = f->now.count - at < count;
    if (!r->end) {
        const struct buf *last = &f->now.records[at + count - 1].key;

        buf_put(&r->last, last->data, last->count);
    }
}

static void on_load(struct kv *kv, const struct kv_wanted *wanted)
{
    struct kv_forgetful *f = forgetful_of(kv);
    size_t offset = 0;
    uint32_t records;
    struct slice key;

    while (kv_wanted_next(wanted, &offset, &key, &records)) {
        uint64_t hash = hash_of(key);

        if (records == 0) {
            f->warm[hash % WARM_KEYS] = hash;
        } else {
            load_range(f, key, records);
        }
    }
}

static bool on_has_room(struct kv *kv)
{
    struct kv_forgetful *f = forgetful_of(kv);
    bool room = f->room_made || f->full_one_in == 0 || prng_below(f->prng, f->full_one_in) != 0;

    f->full += !room;
    return room;
}

static void on_make_room(struct kv *kv)
{
    forgetful_of(kv)->room_made = true;
}

static void on_close(struct kv *kv)
{
    struct kv_forgetful *f = forgetful_of(kv);

    forget_unsynced(f, 0);
    free(f->unsynced);
    for (uint32_t i = 0; i < WARM_RANGES; i++) {
        buf_free(&f->ranges[i].first);
        buf_free(&f->ranges[i].last);
    }
    table_clear(&f->now);
    table_clear(&f->durable);
    free(f);
}

struct kv *kv_forgetful_open(struct prng *prng)
{
    struct kv_forgetful *f = calloc(1, sizeof(*f));

    if (f == NULL) {
        return NULL;
    }
    f->kv = (struct kv){ on_get,      on_commit,    on_scan,  on_sync, on_load,
                         on_has_room, on_make_room, on_close, NULL };
    f->prng = prng;
    for (uint32_t i = 0; i < WARM_RANGES; i++) {
        buf_init(&f->ranges[i].first);
        buf_init(&f->ranges[i].last);
    }
    return &f->kv;
}

uint32_t kv_forgetful_crash(struct kv *kv)
{
    struct kv_forgetful *f = forgetful_of(kv);
    uint32_t survivors = (uint32_t)prng_below(f->prng, f->unsynced_count + 1U);

    forget_unsynced(f, survivors);
    table_copy(&f->now, &f->durable);
    return survivors;
}

uint32_t kv_forgetful_unsynced(const struct kv *kv)
{
    return forgetful_of(kv)->unsynced_count;
}

void kv_forgetful_fail(struct kv *kv, int status)
{
    forgetful_of(kv)->failing = status;
}

void kv_forgetful_cold(struct kv *kv, uint32_t one_in)
{
    struct kv_forgetful *f = forgetful_of(kv);

    f->cold_one_in = one_in;
    f->ranges_loaded = 0;
    memset(f->warm, 0, sizeof(f->warm));
}

void kv_forgetful_full(struct kv *kv, uint32_t one_in)
{
    forgetful_of(kv)->full_one_in = one_in;
}

uint64_t kv_forgetful_found_full(const struct kv *kv)
{
    return forgetful_of(kv)->full;
}

uint64_t kv_forgetful_refused(const struct kv *kv)
{
    return forgetful_of(kv)->refused;
}

void kv_forgetful_dump(const struct kv *kv, struct buf *out)
{
    const struct kv_forgetful *f = forgetful_of(kv);

    for (size_t i = 0; i < f->now.count; i++) {
        const struct record *r = &f->now.records[i];

        buf_put_blob(out, r->key.data, r->key.count);
        buf_put_blob(out, r->value.data, r->value.count);
    }
}
