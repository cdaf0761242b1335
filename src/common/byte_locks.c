#include "common/byte_locks.h"

#include "common/check.h"
#include "common/list.h"

#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 /* Then the element has no table. */
#include "common/table.h"

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
           (lock->kind == LOCK_RANGE || (lock->start == 0 && lock->end == INT64_MAX));
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
        if (place->hh.tbl == NULL) {
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
        if (owner->hh.tbl == NULL) {
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

uint32_t byte_locks_count(const struct byte_locks *t)
{
    return t->count;
}

/* ---- Changes ---- */

static void insert(struct byte_locks *t, struct place *place, struct owner *owner,
                   struct range *range)
{
    struct list *before = place->ranges.next;

    while (before != &place->ranges &&
           LIST_ENTRY(before, struct range, node)->lock.start < range->lock.start) {
        before = before->next;
    }
    list_init(&range->node);
    list_push_back(before, &range->node); /* In front of `before`. */
    t->count++;
    owner->ranges++;
}

static void drop(struct byte_locks *t, struct owner *owner, struct range *range)
{
    list_remove(&range->node);
    free(range);
    t->count--;
    owner->ranges--;
}

/* Take [lock->start, lock->end] out of a range of the same owner. `spare` becomes its second half
 * where it falls in two. */
static void cut(struct byte_locks *t, struct place *place, struct owner *owner, struct range *range,
                const struct byte_lock *lock, struct range **spare)
{
    struct byte_lock *held = &range->lock;

    if (held->start < lock->start && held->end > lock->end) {
        CHECK(*spare != NULL); /* Ranges of an owner do not overlap: only one falls in two. */
        (*spare)->lock = *held;
        (*spare)->lock.start = lock->end + 1;
        held->end = lock->start - 1;
        insert(t, place, owner, *spare);
        *spare = NULL;
    } else if (held->start < lock->start) {
        held->end = lock->start - 1;
    } else if (held->end > lock->end) {
        struct byte_lock rest = *held;

        /* It begins later now, and the list is in order. */
        rest.start = lock->end + 1;
        list_remove(&range->node);
        t->count--;
        owner->ranges--;
        range->lock = rest;
        insert(t, place, owner, range);
    } else {
        drop(t, owner, range);
    }
}

/* Make the owner's other ranges fit around `merged`, which grows over its neighbours of the same
 * type. */
static void make_room(struct byte_locks *t, struct place *place, struct owner *owner,
                      const struct byte_lock *lock, struct byte_lock *merged, struct range **spare)
{
    LIST_FOREACH_SAFE(node, &place->ranges)
    {
        struct range *range = LIST_ENTRY(node, struct range, node);
        const struct byte_lock *held = &range->lock;
        bool touches = held->start <= lock->end + 1 && lock->start <= held->end + 1;

        if (!touches || !lock_owner_equal(&held->owner, &lock->owner)) {
            continue;
        }
        if (held->type == lock->type) {
            merged->start = held->start < merged->start ? held->start : merged->start;
            merged->end = held->end > merged->end ? held->end : merged->end;
            drop(t, owner, range);
        } else if (overlap(held, lock)) {
            cut(t, place, owner, range, lock, spare);
        }
    }
}

/* Does a range of the owner reach out of the lock on both sides, with another type? Then it becomes
 * two. */
static bool splits(const struct place *place, const struct byte_lock *lock)
{
    LIST_FOREACH(node, &place->ranges)
    {
        const struct byte_lock *held = &LIST_ENTRY(node, struct range, node)->lock;

        if (lock_owner_equal(&held->owner, &lock->owner) && held->type != lock->type &&
            held->start < lock->start && held->end > lock->end) {
            return true;
        }
    }
    return false;
}

bool byte_locks_set(struct byte_locks *t, const struct byte_lock *lock)
{
    struct place *place = get_place(t, lock->inode, lock->kind);
    struct owner *owner = get_owner(t, &lock->owner);
    struct range *fresh = calloc(1, sizeof(*fresh)), *spare = calloc(1, sizeof(*spare));
    bool good = place != NULL && owner != NULL && fresh != NULL && spare != NULL;
    uint32_t more;

    CHECK(byte_lock_valid(lock));
    if (good) {
        more = (lock->type != LOCK_NONE) + splits(place, lock);
        good = lock->type == LOCK_NONE && more == 0 ? true : t->count + more <= t->count_max;
    }
    if (good) {
        fresh->lock = *lock;
        make_room(t, place, owner, lock, &fresh->lock, &spare);
        if (lock->type != LOCK_NONE) {
            insert(t, place, owner, fresh);
            fresh = NULL;
        }
    }
    free(fresh);
    free(spare);
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
