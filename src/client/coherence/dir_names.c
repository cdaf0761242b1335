/* The table of names, and the order in which they make room (dir_names.h). */
#include "client/coherence/dir_names.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_MIN = 1024 };

struct dir_name
{
    struct list in_bucket;
    struct list in_lru;
    struct list in_directory;
    struct dir_names *directory;
    inode_id inode; /* INODE_NONE: there is no such name. */
    size_t length;
    char text[];
};

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0x9e3779b97f4a7c15U;
    return x ^ x >> 29;
}

static struct list *bucket_of(const struct name_table *t, inode_id directory, const char *text,
                              size_t length)
{
    uint64_t h = 0xcbf29ce484222325U; /* FNV-1a */

    for (size_t i = 0; i < length; i++) {
        h = (h ^ (uint8_t)text[i]) * 0x100000001b3U;
    }
    return &t->table[mix(h ^ mix(directory)) & (t->buckets - 1)];
}

static bool is(const struct dir_name *name, const struct dir_names *d, const char *text,
               size_t length)
{
    return name->directory == d && name->length == length && memcmp(name->text, text, length) == 0;
}

static struct dir_name *find_in(const struct list *bucket, const struct dir_names *d,
                                const char *text, size_t length)
{
    LIST_FOREACH(node, bucket)
    {
        struct dir_name *name = LIST_ENTRY(node, struct dir_name, in_bucket);

        if (is(name, d, text, length)) {
            return name;
        }
    }
    return NULL;
}

static void touch(struct name_table *t, struct dir_name *name)
{
    list_remove(&name->in_lru);
    list_push_back(&t->lru, &name->in_lru);
}

/* A listing that is under way misses what goes now. */
static void void_listing(struct name_table *t, struct dir_names *d)
{
    d->complete = false;
    d->listing = ++t->last_listing;
}

static void free_name(struct name_table *t, struct dir_name *name)
{
    list_remove(&name->in_bucket);
    list_remove(&name->in_lru);
    list_remove(&name->in_directory);
    t->count--;
    free(name);
}

static void evict(struct name_table *t)
{
    struct list *node = list_front(&t->lru);

    if (node != NULL) {
        struct dir_name *name = LIST_ENTRY(node, struct dir_name, in_lru);

        void_listing(t, name->directory);
        free_name(t, name);
    }
}

/* ---- Directories ---- */

void dir_names_init(struct name_table *t, struct dir_names *d, inode_id directory)
{
    *d = (struct dir_names){ .directory = directory, .listing = ++t->last_listing };
    list_init(&d->names);
}

void dir_names_drop(struct name_table *t, struct dir_names *d)
{
    struct list *node;

    while ((node = list_front(&d->names)) != NULL) {
        free_name(t, LIST_ENTRY(node, struct dir_name, in_directory));
    }
    void_listing(t, d);
    d->misses = 0;
    d->prefetched = false;
}

bool dir_names_find(struct name_table *t, const struct dir_names *d, const char *text,
                    inode_id *inode_out)
{
    size_t length = strlen(text);
    struct dir_name *name = find_in(bucket_of(t, d->directory, text, length), d, text, length);

    if (name == NULL) {
        return false;
    }
    if (name->inode != INODE_NONE) { /* What does not exist is not kept for being asked for. */
        touch(t, name);
    }
    *inode_out = name->inode;
    return true;
}

void dir_names_learn(struct name_table *t, struct dir_names *d, const char *text, inode_id inode)
{
    size_t length = strlen(text);
    struct list *bucket = bucket_of(t, d->directory, text, length);
    struct dir_name *name = find_in(bucket, d, text, length);

    if (name != NULL) {
        name->inode = inode;
        touch(t, name);
        return;
    }
    if (inode == INODE_NONE && d->complete) {
        return; /* Known already. */
    }
    if (t->count >= t->max) {
        evict(t);
    }
    if ((name = malloc(sizeof(*name) + length)) == NULL) {
        void_listing(t, d);
        return;
    }
    name->directory = d;
    name->inode = inode;
    name->length = length;
    memcpy(name->text, text, length);
    list_init(&name->in_bucket);
    list_init(&name->in_lru);
    list_init(&name->in_directory);
    list_push_front(bucket, &name->in_bucket);
    list_push_back(&t->lru, &name->in_lru);
    list_push_back(&d->names, &name->in_directory);
    t->count++;
}

void dir_names_forget(struct name_table *t, struct dir_names *d, const char *text)
{
    size_t length = strlen(text);
    struct dir_name *name = find_in(bucket_of(t, d->directory, text, length), d, text, length);

    void_listing(t, d);
    if (name != NULL) {
        free_name(t, name);
    }
}

/* ---- All of them ---- */

int name_table_init(struct name_table *t, uint32_t max)
{
    *t = (struct name_table){ .max = max, .buckets = BUCKETS_MIN };
    list_init(&t->lru);
    while (t->buckets < max) {
        t->buckets *= 2;
    }
    t->table = calloc(t->buckets, sizeof(t->table[0]));
    if (t->table == NULL) {
        return MORSEL_NOMEM;
    }
    for (uint32_t i = 0; i < t->buckets; i++) {
        list_init(&t->table[i]);
    }
    return MORSEL_OK;
}

void name_table_free(struct name_table *t)
{
    CHECK(t->count == 0);
    free(t->table);
}

uint32_t dir_names_check(const struct name_table *t, const struct dir_names *d)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &d->names)
    {
        const struct dir_name *name = LIST_ENTRY(node, struct dir_name, in_directory);
        uint32_t found = 0;

        CHECK(name->directory == d);
        LIST_FOREACH(other, bucket_of(t, d->directory, name->text, name->length))
        {
            found += is(LIST_ENTRY(other, struct dir_name, in_bucket), d, name->text, name->length);
        }
        CHECK(found == 1);
        count++;
    }
    return count;
}

void name_table_check(const struct name_table *t)
{
    uint32_t used = 0;

    LIST_FOREACH(node, &t->lru)
    {
        used++;
    }
    CHECK(used == t->count && t->count <= t->max);
}
