/* Ranges of one owner are disjoint and as long as can be; a lock splits and joins them. */
#include "common/fs/byte_locks.h"

#include "common/base/check.h"
#include "common/base/list.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/table.h"

struct range
{
    struct list node; /* In place->ranges, by start. */
    struct byte_lock lock;
};

/* An inode that has locks of a kind. */
struct place
{
    struct
    {
        inode_id inode;
        uint64_t kind;
    } key;
    struct list ranges;
    UT_hash_handle hh;
};

struct owner
{
    struct lock_owner key;
    uint32_t ranges;
    UT_hash_handle hh;
};

struct byte_locks
{
    struct place *places;
    struct owner *owners;
    uint32_t count, count_max;
};

bool lock_owner_equal(const struct lock_owner *a, const struct lock_owner *b)
{
    return a->client == b->client && a->id == b->id;
}

static bool overlap(const struct byte_lock *a, const struct byte_lock *b)
{
    return a->start <= b->end && b->start <= a->end;
}

bool byte_lock_conflicts(const struct byte_lock *a, const struct byte_lock *b)
{
    return a->inode == b->inode && a->kind == b->kind && overlap(a, b) &&
           !lock_owner_equal(&a->owner, &b->owner) && a->type != LOCK_NONE &&
           b->type != LOCK_NONE && (a->type == LOCK_EXCLUSIVE || b->type == LOCK_EXCLUSIVE);
}

bool byte_lock_valid(const struct byte_lock *lock)
{
    return lock->inode != INODE_NONE && lock->kind < LOCK_KINDS && lock->type < LOCK_TYPES &&
           lock->start <= lock->end && lock->end <= INT64_MAX &&
           (lock->kind == LOCK_RANGE || (lock->start == 0 && lock->end == INT64_MAX)) &&
           (lock->part == LOCK_ALL ||
            (lock->part < LOCK_PARTS && lock->kind != LOCK_SIZE && lock->type == LOCK_SHARED));
}

struct byte_locks *byte_locks_new(uint32_t ranges_max)
{
    struct byte_locks *t = calloc(1, sizeof(*t));

    if (t != NULL) {
        t->count_max = ranges_max;
    }
    return t;
}

/* ---- Places and owners ---- */

static struct place *find_place(const struct byte_locks *t, inode_id inode, enum lock_kind kind)
{
    struct place probe = { .key = { inode, kind } };
    struct place *place;

    HASH_FIND(hh, t->places, &probe.key, sizeof(probe.key), place);
    return place;
}

static struct place *get_place(struct byte_locks *t, inode_id inode, enum lock_kind kind)
{
    struct place *place = find_place(t, inode, kind);

    if (place == NULL && (place = calloc(1, sizeof(*place))) != NULL) {
        place->key.inode = inode;
        place->key.kind = kind;
        list_init(&place->ranges);
        HASH_ADD(hh, t->places, key, sizeof(place->key), place);
        if (!TABLE_ADDED(place)) {
            free(place);
            place = NULL;
        }
    }
    return place;
}

static void free_place_if_empty(struct byte_locks *t, struct place *place)
{
    if (place != NULL && list_empty(&place->ranges)) {
        HASH_DEL(t->places, place);
        free(place);
    }
}

static struct owner *find_owner(const struct byte_locks *t, const struct lock_owner *key)
{
    struct owner *owner;

    HASH_FIND(hh, t->owners, key, sizeof(*key), owner);
    return owner;
}

static struct owner *get_owner(struct byte_locks *t, const struct lock_owner *key)
{
    struct owner *owner = find_owner(t, key);

    if (owner == NULL && (owner = calloc(1, sizeof(*owner))) != NULL) {
        owner->key = *key;
        HASH_ADD(hh, t->owners, key, sizeof(owner->key), owner);
        if (!TABLE_ADDED(owner)) {
            free(owner);
            owner = NULL;
        }
    }
    return owner;
}

static void free_owner_if_idle(struct byte_locks *t, struct owner *owner)
{
    if (owner != NULL && owner->ranges == 0) {
        HASH_DEL(t->owners, owner);
        free(owner);
    }
}

void byte_locks_free(struct byte_locks *t)
{
    struct place *place, *next;
    struct owner *owner, *next_owner;

    if (t == NULL) {
        return;
    }
    HASH_ITER(hh, t->places, place, next)
    {
        struct list *node;

        while ((node = list_pop_front(&place->ranges)) != NULL) {
            free(LIST_ENTRY(node, struct range, node));
        }
        HASH_DEL(t->places, place);
        free(place);
    }
    HASH_ITER(hh, t->owners, owner, next_owner)
    {
        HASH_DEL(t->owners, owner);
        free(owner);
    }
    free(t);
}

/* ---- Questions ---- */

const struct byte_lock *byte_locks_conflict(const struct byte_locks *t,
                                            const struct byte_lock *wanted)
{
    const struct place *place = find_place(t, wanted->inode, wanted->kind);

    if (place == NULL) {
        return NULL;
    }
    LIST_FOREACH(node, &place->ranges)
    {
        const struct range *range = LIST_ENTRY(node, struct range, node);

        if (byte_lock_conflicts(&range->lock, wanted)) {
            return &range->lock;
        }
    }
    return NULL;
}

uint32_t byte_locks_held_by(const struct byte_locks *t, const struct lock_owner *key)
{
    const struct owner *owner = find_owner(t, key);

    return owner == NULL ? 0 : owner->ranges;
}

bool byte_locks_has(const struct byte_locks *t, inode_id inode, enum lock_kind kind,
                    const struct lock_owner *owner)
{
    const struct place *place =
        byte_locks_held_by(t, owner) == 0 ? NULL : find_place(t, inode, kind);

    if (place == NULL) {
        return false;
    }
    LIST_FOREACH(node, &place->ranges)
    {
        if (lock_owner_equal(&LIST_ENTRY(node, struct range, node)->lock.owner, owner)) {
            return true;
        }
    }
    return false;
}

void byte_locks_each_of(const struct byte_locks *t, inode_id inode, enum lock_kind kind,
                        byte_locks_visit visit, void *data)
{
    const struct place *place = find_place(t, inode, kind);

    if (place == NULL) {
        return;
    }
    LIST_FOREACH(node, &place->ranges)
    {
        visit(data, &LIST_ENTRY(node, struct range, node)->lock);
    }
}

void byte_locks_each(const struct byte_locks *t, byte_locks_visit visit, void *data)
{
    struct place *place, *next;

    HASH_ITER(hh, t->places, place, next)
    {
        byte_locks_each_of(t, place->key.inode, (enum lock_kind)place->key.kind, visit, data);
    }
}

struct coverage
{
    const struct byte_lock *lock;
    uint64_t bytes;
};

static void cover_one(void *data, const struct byte_lock *held)
{
    struct coverage *c = data;
    uint64_t start = held->start > c->lock->start ? held->start : c->lock->start;
    uint64_t end = held->end < c->lock->end ? held->end : c->lock->end;

    if (lock_owner_equal(&held->owner, &c->lock->owner) && start <= end) {
        c->bytes += end - start + 1;
    }
}

bool byte_locks_covers(const struct byte_locks *t, const struct byte_lock *lock)
{
    struct coverage c = { lock, 0 };

    byte_locks_each_of(t, lock->inode, lock->kind, cover_one, &c);
    return c.bytes == lock->end - lock->start + 1; /* Ranges of one owner do not overlap. */
}

static void find_exclusive(void *data, const struct byte_lock *held)
{
    struct coverage *c = data;

    if (held->type == LOCK_EXCLUSIVE) {
        cover_one(c, held);
    }
}

bool byte_locks_exclusive(const struct byte_locks *t, const struct byte_lock *lock)
{
    struct coverage c = { lock, 0 };

    byte_locks_each_of(t, lock->inode, lock->kind, find_exclusive, &c);
    return c.bytes > 0;
}

uint32_t byte_locks_count(const struct byte_locks *t)
{
    return t->count;
}

/* ---- Invariants ---- */

static uint32_t check_place(const struct byte_locks *t, const struct place *place)
{
    uint32_t count = 0;

    CHECK(!list_empty(&place->ranges));
    LIST_FOREACH(node, &place->ranges)
    {
        const struct byte_lock *a = &LIST_ENTRY(node, struct range, node)->lock;

        CHECK(byte_lock_valid(a) && a->type != LOCK_NONE && a->part == LOCK_ALL);
        CHECK(a->inode == place->key.inode && a->kind == place->key.kind);
        CHECK(find_owner(t, &a->owner) != NULL);
        for (struct list *other = node->next; other != &place->ranges; other = other->next) {
            const struct byte_lock *b = &LIST_ENTRY(other, struct range, node)->lock;
            bool same = lock_owner_equal(&a->owner, &b->owner);

            CHECK(a->start <= b->start && !byte_lock_conflicts(a, b));
            CHECK(!same || a->end < b->start);
            CHECK(!same || a->end + 1 < b->start || a->type != b->type);
        }
        count++;
    }
    return count;
}

void byte_locks_check(const struct byte_locks *t)
{
    struct place *place, *next;
    struct owner *owner, *next_owner;
    uint32_t count = 0, owned = 0;

    HASH_ITER(hh, t->places, place, next)
    {
        count += check_place(t, place);
    }
    HASH_ITER(hh, t->owners, owner, next_owner)
    {
        CHECK(owner->ranges > 0);
        owned += owner->ranges;
    }
    CHECK(count == t->count && owned == count && count <= t->count_max);
}

/* ---- Changes ---- */

static void drop(struct byte_locks *t, struct owner *owner, struct range *range)
{
    list_remove(&range->node);
    free(range);
    t->count--;
    owner->ranges--;
}

/* The ranges that come of a request, one after the other; neighbours of one type become one. */
struct outcome
{
    const struct byte_lock *lock;
    struct list *spares; /* The ranges are made of these; NULL: they are counted only. */
    struct list made;
    uint32_t count;
    uint64_t end; /* Of the last one. */
    enum lock_type type;
};

/* `who` says whose it is. */
static void add_range(struct outcome *o, const struct byte_lock *who, enum lock_type type,
                      uint64_t start, uint64_t end)
{
    bool grows = o->count > 0 && o->type == type && o->end + 1 == start;
    struct range *range;
    struct list *node;

    if (type == LOCK_NONE || start > end) {
        return;
    }
    o->count += !grows;
    o->type = type;
    o->end = end;
    if (o->spares != NULL && grows) {
        LIST_ENTRY(o->made.prev, struct range, node)->lock.end = end;
    } else if (o->spares != NULL) {
        node = list_pop_front(o->spares);
        CHECK(node != NULL); /* They were counted. */
        range = LIST_ENTRY(node, struct range, node);
        range->lock = *who;
        range->lock.part = LOCK_ALL;
        range->lock.type = type;
        range->lock.start = start;
        range->lock.end = end;
        list_push_back(&o->made, node);
    }
}

/* What becomes of bytes in the range of the request that are of `held` now. */
static enum lock_type type_after(const struct byte_lock *lock, enum lock_type held)
{
    bool is_meant =
        lock->part == LOCK_ALL || (held == LOCK_EXCLUSIVE) == (lock->part == LOCK_STEP_DOWN);

    return is_meant ? lock->type : held;
}

static bool touches(const struct byte_lock *held, const struct byte_lock *lock)
{
    return held->start <= lock->end + 1 && lock->start <= held->end + 1 &&
           lock_owner_equal(&held->owner, &lock->owner);
}

/* What becomes of a range of the owner that touches the request. */
static void add_own(struct outcome *o, const struct byte_lock *own)
{
    const struct byte_lock *lock = o->lock;
    uint64_t start = own->start > lock->start ? own->start : lock->start;
    uint64_t end = own->end < lock->end ? own->end : lock->end;
    enum lock_type after = type_after(lock, own->type);

    if (own->start < lock->start) {
        add_range(o, own, own->type, own->start,
                  own->end < lock->start ? own->end : lock->start - 1);
    }
    add_range(o, after == own->type ? own : lock, after, start, end);
    if (own->end > lock->end) {
        add_range(o, own, own->type, own->start > lock->end ? own->start : lock->end + 1, own->end);
    }
}

/* What comes of the request. The owner's ranges that touch it are moved to `old`; NULL: they stay.
 * Returns how many these are. */
static uint32_t work_out(struct outcome *o, struct place *place, struct list *old)
{
    enum lock_type gap = type_after(o->lock, LOCK_NONE);
    uint64_t at = o->lock->start;
    uint32_t old_count = 0;

    LIST_FOREACH_SAFE(node, &place->ranges)
    {
        const struct byte_lock *own = &LIST_ENTRY(node, struct range, node)->lock;

        if (!touches(own, o->lock)) {
            continue;
        }
        if (own->start > at) {
            add_range(o, o->lock, gap, at,
                      own->start > o->lock->end ? o->lock->end : own->start - 1);
        }
        add_own(o, own);
        at = own->end + 1 > at ? own->end + 1 : at;
        old_count++;
        if (old != NULL) {
            list_remove(node);
            list_push_back(old, node);
        }
    }
    add_range(o, o->lock, gap, at, o->lock->end);
    return old_count;
}

static bool starts_before(struct list *node, uint64_t at)
{
    const struct range *range = LIST_ENTRY(node, struct range, node);

    /* The analyzer takes the head of the list of old ranges, which is not in the place, for one.
     * NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
    return range->lock.start < at;
}

static void put_back(struct place *place, struct list *made)
{
    struct list *before = place->ranges.next, *node;

    while ((node = list_pop_front(made)) != NULL) {
        const uint64_t start = LIST_ENTRY(node, struct range, node)->lock.start;

        while (before != &place->ranges && starts_before(before, start)) {
            before = before->next;
        }
        list_push_back(before, node); /* In front of it. */
    }
}

static void free_ranges(struct list *ranges)
{
    struct list *node;

    while ((node = list_pop_front(ranges)) != NULL) {
        free(LIST_ENTRY(node, struct range, node));
    }
}

/* False: no memory. */
static bool make_spares(struct list *spares, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct range *spare = calloc(1, sizeof(*spare));

        if (spare == NULL) {
            free_ranges(spares);
            return false;
        }
        list_init(&spare->node);
        list_push_back(spares, &spare->node);
    }
    return true;
}

static bool change(struct byte_locks *t, struct place *place, struct owner *owner,
                   const struct byte_lock *lock)
{
    struct list spares, old;
    struct outcome counted = { .lock = lock }, o = { .lock = lock, .spares = &spares };
    uint32_t old_count = work_out(&counted, place, NULL);

    list_init(&spares);
    list_init(&old);
    list_init(&o.made);
    if ((counted.count > old_count && t->count - old_count + counted.count > t->count_max) ||
        !make_spares(&spares, counted.count)) {
        return false;
    }
    (void)work_out(&o, place, &old);
    put_back(place, &o.made);
    free_ranges(&old);
    t->count += o.count - old_count;
    owner->ranges += o.count - old_count;
    return true;
}

bool byte_locks_set(struct byte_locks *t, const struct byte_lock *lock)
{
    bool frees = lock->type == LOCK_NONE, good;
    struct place *place =
        frees ? find_place(t, lock->inode, lock->kind) : get_place(t, lock->inode, lock->kind);
    struct owner *owner = frees ? find_owner(t, &lock->owner) : get_owner(t, &lock->owner);

    CHECK(byte_lock_valid(lock));
    if (frees && (place == NULL || owner == NULL)) {
        return true;
    }
    good = place != NULL && owner != NULL && change(t, place, owner, lock);
    free_place_if_empty(t, place);
    free_owner_if_idle(t, owner);
    return good;
}

void byte_locks_drop_client(struct byte_locks *t, client_id client)
{
    struct place *place, *next;

    HASH_ITER(hh, t->places, place, next)
    {
        LIST_FOREACH_SAFE(node, &place->ranges)
        {
            struct range *range = LIST_ENTRY(node, struct range, node);
            struct owner *owner = find_owner(t, &range->lock.owner);

            if (range->lock.owner.client == client) {
                drop(t, owner, range);
                free_owner_if_idle(t, owner);
            }
        }
        free_place_if_empty(t, place);
    }
}
