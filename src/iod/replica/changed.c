/* A table of objects, each with a sorted array of stretches that grows by doubling. */
#include "iod/replica/changed.h"

#include "common/base/check.h"
#include "common/base/table.h"

#include <stdlib.h>

struct object
{
    UT_hash_handle hh; /* In the order in which they came. */
    uint64_t key[2];   /* Inode and column: without padding. */
    uint64_t generation;
    struct span *spans;
    uint32_t count, capacity;
    bool whole;
};

struct changed
{
    struct object *objects;
    uint64_t grain;
    uint32_t objects_max, spans_max;
    uint32_t spans; /* For how many there is memory. */
    bool everything;
};

static uint64_t up(uint64_t at, uint64_t grain)
{
    return (at + grain - 1) & ~(grain - 1);
}

static struct span rounded(const struct changed *c, struct span span)
{
    CHECK(span.start <= span.end && span.end <= OBJECT_BYTES_MAX);
    return (struct span){ span.start & ~(c->grain - 1), up(span.end, c->grain) };
}

static void key_set(uint64_t key[2], struct object_id id)
{
    key[0] = id.inode;
    key[1] = id.column;
}

static struct object *find(const struct changed *c, struct object_id id)
{
    uint64_t key[2];
    struct object *o;

    key_set(key, id);
    HASH_FIND(hh, c->objects, key, sizeof(key), o);
    return o;
}

struct changed *changed_new(uint32_t objects_max, uint32_t spans_max, uint64_t grain)
{
    struct changed *c = calloc(1, sizeof(*c));

    CHECK(grain >= BLOCK_BYTES && (grain & (grain - 1)) == 0);
    if (c != NULL) {
        c->grain = grain;
        c->objects_max = objects_max;
        c->spans_max = spans_max;
    }
    return c;
}

static void drop_spans(struct changed *c, struct object *o)
{
    CHECK(c->spans >= o->capacity);
    c->spans -= o->capacity;
    free(o->spans);
    o->spans = NULL;
    o->count = o->capacity = 0;
}

static void remove_object(struct changed *c, struct object *o)
{
    CHECK(c->objects != NULL);
    drop_spans(c, o);
    HASH_DEL(c->objects, o);
    free(o);
}

void changed_clear(struct changed *c)
{
    while (c->objects != NULL) {
        remove_object(c, c->objects);
    }
    c->everything = false;
}

void changed_free(struct changed *c)
{
    if (c != NULL) {
        changed_clear(c);
        free(c);
    }
}

/* ---- What comes in ---- */

static void set_everything(struct changed *c)
{
    changed_clear(c);
    c->everything = true;
}

/* NULL: there is no room for it. */
static struct object *add_object(struct changed *c, struct object_id id)
{
    struct object *o;

    if (HASH_COUNT(c->objects) >= c->objects_max || (o = calloc(1, sizeof(*o))) == NULL) {
        return NULL;
    }
    key_set(o->key, id);
    HASH_ADD(hh, c->objects, key, sizeof(o->key), o);
    if (!TABLE_ADDED(o)) {
        free(o);
        return NULL;
    }
    return o;
}

/* Room for one more stretch. */
static bool grow(struct changed *c, struct object *o)
{
    uint32_t more = o->capacity == 0 ? 1 : o->capacity;
    struct span *spans;

    if (o->count < o->capacity) {
        return true;
    }
    if (o->capacity == CHANGED_SPANS_MAX || c->spans + more > c->spans_max ||
        (spans = realloc(o->spans, (o->capacity + more) * sizeof(*spans))) == NULL) {
        return false;
    }
    o->spans = spans;
    o->capacity += more;
    c->spans += more;
    return true;
}

/* Stretches [at, at + count) become one that reaches from the first to the last of them. */
static void join(struct object *o, uint32_t at, uint32_t count)
{
    CHECK(count >= 1 && at + count <= o->count);
    o->spans[at].end = o->spans[at + count - 1].end;
    memmove(&o->spans[at + 1], &o->spans[at + count],
            (o->count - at - count) * sizeof(o->spans[0]));
    o->count -= count - 1;
}

static void join_nearest(struct object *o)
{
    uint32_t nearest = 0;

    for (uint32_t i = 1; i + 1 < o->count; i++) {
        if (o->spans[i + 1].start - o->spans[i].end <
            o->spans[nearest + 1].start - o->spans[nearest].end) {
            nearest = i;
        }
    }
    join(o, nearest, 2);
}

/* The first stretch that ends at `start` or behind it: what touches is one. */
static uint32_t lower(const struct object *o, uint64_t start)
{
    uint32_t at = 0;

    while (at < o->count && o->spans[at].end < start) {
        at++;
    }
    return at;
}

static void insert(struct changed *c, struct object *o, struct span span)
{
    uint32_t at = lower(o, span.start), met = 0;

    while (at + met < o->count && o->spans[at + met].start <= span.end) {
        met++;
    }
    if (met > 0) {
        join(o, at, met);
        o->spans[at].start = span.start < o->spans[at].start ? span.start : o->spans[at].start;
        o->spans[at].end = span.end > o->spans[at].end ? span.end : o->spans[at].end;
        return;
    }
    if (!grow(c, o)) {
        if (o->count == 0) {
            o->whole = true;
            return;
        }
        if (o->count > 1) { /* Room is where the two closest become one. */
            join_nearest(o);
            insert(c, o, span);
            return;
        }
        o->spans[0].start = at == 0 ? span.start : o->spans[0].start;
        o->spans[0].end = at == 0 ? o->spans[0].end : span.end;
        return;
    }
    memmove(&o->spans[at + 1], &o->spans[at], (o->count - at) * sizeof(o->spans[0]));
    o->spans[at] = span;
    o->count++;
}

void changed_add(struct changed *c, const struct change *change)
{
    struct object *o;

    if (c->everything) {
        return;
    }
    if (change->everything ||
        ((o = find(c, change->object)) == NULL && (o = add_object(c, change->object)) == NULL)) {
        set_everything(c);
        return;
    }
    o->generation = change->generation > o->generation ? change->generation : o->generation;
    if (change->whole) {
        drop_spans(c, o);
        o->whole = true;
    } else if (!o->whole && change->span.start != change->span.end) {
        insert(c, o, rounded(c, change->span));
    }
}

static bool add_one(void *data, const struct change *change)
{
    changed_add(data, change);
    return true;
}

void changed_add_all(struct changed *c, const struct changed *from)
{
    (void)changed_each(from, add_one, c);
}

/* ---- What goes out ---- */

bool changed_empty(const struct changed *c)
{
    return !c->everything && c->objects == NULL;
}

bool changed_covers(const struct changed *c, const struct change *change)
{
    const struct object *o = c->everything ? NULL : find(c, change->object);
    uint32_t at;

    if (o == NULL || change->everything) {
        return c->everything;
    }
    if (o->whole || change->whole || change->span.start == change->span.end) {
        return o->whole || !change->whole;
    }
    at = lower(o, change->span.start + 1);
    return at < o->count && o->spans[at].start <= change->span.start &&
           change->span.end <= o->spans[at].end;
}

uint64_t changed_bytes(const struct changed *c, struct object_id id)
{
    const struct object *o = c->everything ? NULL : find(c, id);
    uint64_t bytes = 0;

    if (c->everything || (o != NULL && o->whole)) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; o != NULL && i < o->count; i++) {
        bytes += o->spans[i].end - o->spans[i].start;
    }
    return bytes;
}

bool changed_take(struct changed *c, uint64_t bytes_max, struct change *piece)
{
    struct object *o = c->objects;
    uint64_t length_max = bytes_max < c->grain ? c->grain : bytes_max & ~(c->grain - 1);

    *piece = (struct change){ .everything = c->everything };
    if (c->everything || o == NULL) {
        c->everything = false;
        return piece->everything;
    }
    piece->object = (struct object_id){ o->key[0], (uint32_t)o->key[1] };
    piece->generation = o->generation;
    piece->whole = o->whole;
    if (o->count > 0) {
        piece->span = o->spans[0];
        if (piece->span.end - piece->span.start > length_max) {
            o->spans[0].start = piece->span.end = piece->span.start + length_max;
            return true;
        }
        o->count--;
        memmove(&o->spans[0], &o->spans[1], o->count * sizeof(o->spans[0]));
    }
    if (o->count == 0) {
        remove_object(c, o);
    }
    return true;
}

typedef bool (*change_visit)(void *data, const struct change *change);

static bool show(const struct object *o, change_visit visit, void *data)
{
    struct change change = { .generation = o->generation, .whole = o->whole };

    change.object = (struct object_id){ o->key[0], (uint32_t)o->key[1] };
    for (uint32_t i = 0; i < o->count; i++) {
        change.span = o->spans[i];
        if (!visit(data, &change)) {
            return false;
        }
    }
    return o->count > 0 || visit(data, &change);
}

bool changed_each(const struct changed *c, change_visit visit, void *data)
{
    struct change everything = { .everything = true };
    struct object *o, *next;

    if (c->everything) {
        return visit(data, &everything);
    }
    HASH_ITER(hh, c->objects, o, next)
    {
        if (!show(o, visit, data)) {
            return false;
        }
    }
    return true;
}

void changed_count(const struct changed *c, struct changed_counts *counts)
{
    struct object *o, *next;

    *counts = (struct changed_counts){ .everything = c->everything, .entries = c->everything };
    HASH_ITER(hh, c->objects, o, next)
    {
        counts->objects++;
        counts->entries += o->count > 0 ? o->count : 1;
        counts->whole += o->whole;
        counts->spans += o->count;
    }
}

void changed_check(const struct changed *c)
{
    struct object *o, *next;
    uint32_t spans = 0;

    CHECK_IMPLIES(c->everything, c->objects == NULL);
    CHECK(HASH_COUNT(c->objects) <= c->objects_max);
    HASH_ITER(hh, c->objects, o, next)
    {
        uint64_t grains = 0;

        CHECK(o->count <= o->capacity && o->capacity <= CHANGED_SPANS_MAX);
        CHECK_IMPLIES(o->whole, o->capacity == 0);
        for (uint32_t i = 0; i < o->count; i++) {
            CHECK(o->spans[i].start < o->spans[i].end);
            CHECK(i == 0 || o->spans[i - 1].end < o->spans[i].start);
            grains |= o->spans[i].start | o->spans[i].end;
        }
        CHECK((grains & (c->grain - 1)) == 0);
        spans += o->capacity;
    }
    CHECK(spans == c->spans && spans <= c->spans_max);
}
