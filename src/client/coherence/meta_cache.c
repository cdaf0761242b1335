/* Tables of inodes and of names, and the order in which they make room. */
#include "client/coherence/meta_cache.h"

#include "common/base/check.h"
#include "common/base/list.h"

#include <stdlib.h>
#include <string.h>

enum { EVICTED_MAX = 1024 };

struct cached_inode
{
    struct list in_bucket;
    struct list in_lru;
    inode_id id;
    enum lease_mode mode;
    bool attr_known;
    unsigned ahead; /* Changes of ours under way. */
    bool recalling;
    bool complete;
    unsigned pins;
    uint32_t misses;
    bool prefetched; /* Read as a whole, or as much of it as that takes. */
    uint64_t listing;
    struct kernel_known kernel;
    Morsel__Attr attr;
    Morsel__Layout *layout; /* With its servers in one piece of memory; NULL: not known. */
    struct list names;      /* Of a directory. */
};

struct cached_name
{
    struct list in_bucket;
    struct list in_lru;
    struct list in_directory;
    struct cached_inode *directory;
    inode_id inode; /* INODE_NONE: there is no such name. */
    size_t length;
    char text[];
};

struct meta_cache
{
    uint32_t inodes_max, names_max;
    uint32_t inodes, names;
    uint32_t buckets; /* Of either table; a power of two. */
    struct list *inode_buckets, *name_buckets;
    struct list inode_lru, name_lru; /* Least recently used first. */
    uint64_t last_listing;
    struct meta_cache_evicted evicted[EVICTED_MAX];
    uint32_t evicted_count;
    struct meta_cache_counters counters;
};

/* ---- Tables ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0x9e3779b97f4a7c15U;
    return x ^ x >> 29;
}

static uint64_t hash_name(inode_id parent, const char *name, size_t length)
{
    uint64_t h = 0xcbf29ce484222325U; /* FNV-1a */

    for (size_t i = 0; i < length; i++) {
        h = (h ^ (uint8_t)name[i]) * 0x100000001b3U;
    }
    return mix(h ^ mix(parent));
}

static struct cached_inode *find_inode(const struct meta_cache *c, inode_id id)
{
    struct list *bucket = &c->inode_buckets[mix(id) & (c->buckets - 1)];

    LIST_FOREACH(node, bucket)
    {
        struct cached_inode *inode = LIST_ENTRY(node, struct cached_inode, in_bucket);

        if (inode->id == id) {
            return inode;
        }
    }
    return NULL;
}

static struct cached_name *find_name(const struct meta_cache *c, inode_id parent, const char *text)
{
    size_t length = strlen(text);
    struct list *bucket = &c->name_buckets[hash_name(parent, text, length) & (c->buckets - 1)];

    LIST_FOREACH(node, bucket)
    {
        struct cached_name *name = LIST_ENTRY(node, struct cached_name, in_bucket);

        if (name->directory->id == parent && name->length == length &&
            memcmp(name->text, text, length) == 0) {
            return name;
        }
    }
    return NULL;
}

static void touch(struct list *lru, struct list *node)
{
    list_remove(node);
    list_push_back(lru, node);
}

/* A listing that is under way misses what goes now. */
static void void_listing(struct meta_cache *c, struct cached_inode *directory)
{
    directory->complete = false;
    directory->listing = ++c->last_listing;
}

static void free_name(struct meta_cache *c, struct cached_name *name)
{
    list_remove(&name->in_bucket);
    list_remove(&name->in_lru);
    list_remove(&name->in_directory);
    c->names--;
    free(name);
}

static void drop_names(struct meta_cache *c, struct cached_inode *directory)
{
    struct list *node;

    while ((node = list_front(&directory->names)) != NULL) {
        free_name(c, LIST_ENTRY(node, struct cached_name, in_directory));
    }
    void_listing(c, directory);
    directory->misses = 0;
    directory->prefetched = false;
}

static void free_inode(struct meta_cache *c, struct cached_inode *inode)
{
    drop_names(c, inode);
    list_remove(&inode->in_bucket);
    list_remove(&inode->in_lru);
    c->inodes--;
    free(inode->layout);
    free(inode);
}

/* Without a lease it is here only for what is under way. */
static void free_if_unused(struct meta_cache *c, struct cached_inode *inode)
{
    if (inode->mode == LEASE_NONE && inode->pins == 0 && !inode->recalling && inode->ahead == 0) {
        free_inode(c, inode);
    }
}

/* The least recently used that may go. A few that may not are passed over. */
static void evict_inode(struct meta_cache *c)
{
    unsigned tries = 0;

    LIST_FOREACH_SAFE(node, &c->inode_lru)
    {
        struct cached_inode *inode = LIST_ENTRY(node, struct cached_inode, in_lru);

        if (++tries > 64 || c->evicted_count == EVICTED_MAX) {
            return;
        }
        if (inode->pins > 0 || inode->recalling || inode->ahead > 0) {
            touch(&c->inode_lru, node);
            continue;
        }
        c->counters.evicted++;
        if (inode->mode == LEASE_NONE) {
            free_inode(c, inode);
            return;
        }
        /* It stays, empty, until its lease has been given back: nothing may be learned of it
         * meanwhile. */
        c->evicted[c->evicted_count++] = (struct meta_cache_evicted){ inode->id, inode->kernel };
        inode->recalling = true;
        meta_cache_drop(c, inode->id, LEASE_NONE);
        return;
    }
}

static struct cached_inode *get_inode(struct meta_cache *c, inode_id id)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode != NULL) {
        return inode;
    }
    if (c->inodes >= c->inodes_max) {
        evict_inode(c);
    }
    if ((inode = calloc(1, sizeof(*inode))) == NULL) {
        return NULL;
    }
    inode->id = id;
    inode->listing = ++c->last_listing;
    list_init(&inode->in_bucket);
    list_init(&inode->in_lru);
    list_init(&inode->names);
    list_push_front(&c->inode_buckets[mix(id) & (c->buckets - 1)], &inode->in_bucket);
    list_push_back(&c->inode_lru, &inode->in_lru);
    c->inodes++;
    return inode;
}

/* ---- Invariants ---- */

/* Names in their bucket that are this one. */
static uint32_t found(const struct meta_cache *c, const struct cached_name *name)
{
    uint64_t hash = hash_name(name->directory->id, name->text, name->length);
    uint32_t count = 0;

    LIST_FOREACH(node, &c->name_buckets[hash & (c->buckets - 1)])
    {
        const struct cached_name *other = LIST_ENTRY(node, struct cached_name, in_bucket);

        count += other->directory == name->directory && other->length == name->length &&
                 memcmp(other->text, name->text, name->length) == 0;
    }
    return count;
}

static uint32_t check_names(const struct meta_cache *c, const struct cached_inode *directory)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &directory->names)
    {
        const struct cached_name *name = LIST_ENTRY(node, struct cached_name, in_directory);

        CHECK(name->directory == directory);
        CHECK(found(c, name) == 1);
        count++;
    }
    return count;
}

/* What is here a lease allows; without one only what is under way keeps it here. */
static void check_inode(const struct meta_cache *c, const struct cached_inode *inode)
{
    CHECK(find_inode(c, inode->id) == inode);
    if (inode->mode == LEASE_NONE) {
        CHECK(inode->pins > 0 || inode->recalling || inode->ahead > 0);
        CHECK(!inode->attr_known && !inode->complete && list_empty(&inode->names));
    }
}

void meta_cache_check(const struct meta_cache *c)
{
    uint32_t inodes = 0, names = 0, used = 0;

    LIST_FOREACH(node, &c->inode_lru)
    {
        const struct cached_inode *inode = LIST_ENTRY(node, struct cached_inode, in_lru);

        check_inode(c, inode);
        names += check_names(c, inode);
        inodes++;
    }
    LIST_FOREACH(node, &c->name_lru)
    {
        used++;
    }
    CHECK(inodes == c->inodes && names == c->names && used == names);
    CHECK(names <= c->names_max && c->evicted_count <= EVICTED_MAX);
}

struct meta_cache *meta_cache_new(uint32_t inodes_max, uint32_t names_max)
{
    struct meta_cache *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return NULL;
    }
    c->inodes_max = inodes_max;
    c->names_max = names_max;
    c->buckets = 1024;
    while (c->buckets < names_max) {
        c->buckets *= 2;
    }
    c->inode_buckets = calloc(c->buckets, sizeof(c->inode_buckets[0]));
    c->name_buckets = calloc(c->buckets, sizeof(c->name_buckets[0]));
    list_init(&c->inode_lru);
    list_init(&c->name_lru);
    if (c->inode_buckets == NULL || c->name_buckets == NULL) {
        meta_cache_free(c);
        return NULL;
    }
    for (uint32_t i = 0; i < c->buckets; i++) {
        list_init(&c->inode_buckets[i]);
        list_init(&c->name_buckets[i]);
    }
    return c;
}

void meta_cache_free(struct meta_cache *c)
{
    struct list *node;

    if (c == NULL) {
        return;
    }
    while ((node = list_front(&c->inode_lru)) != NULL) {
        free_inode(c, LIST_ENTRY(node, struct cached_inode, in_lru));
    }
    free(c->inode_buckets);
    free(c->name_buckets);
    free(c);
}

/* ---- Inodes ---- */

static void learn_layout(struct cached_inode *inode, const Morsel__Layout *layout)
{
    size_t servers = layout->n_servers * sizeof(layout->servers[0]);
    Morsel__Layout *copy;

    /* It changes at most once, before the first byte is written (SET_LAYOUT). */
    if (inode->layout != NULL && inode->layout->n_servers == layout->n_servers &&
        memcmp(inode->layout->servers, layout->servers, servers) == 0) {
        return;
    }
    free(inode->layout);
    inode->layout = NULL;
    if ((copy = malloc(sizeof(*copy) + servers)) == NULL) {
        return;
    }
    *copy = *layout;
    copy->servers = (uint32_t *)(copy + 1);
    memcpy(copy->servers, layout->servers, servers);
    inode->layout = copy;
}

/* Times are numbers of nanoseconds with a sign. */
static void advance(uint64_t *time_ns, uint64_t to_ns)
{
    if ((int64_t)to_ns > (int64_t)*time_ns) {
        *time_ns = to_ns;
    }
}

static void learn_attr(struct cached_inode *inode, const Morsel__Attr *attr)
{
    Morsel__Attr mine = inode->attr;
    bool keep = inode->ahead > 0 && inode->attr_known;

    inode->attr = *attr;
    inode->attr_known = true;
    if (keep) {
        inode->attr.mode = mine.mode;
        inode->attr.uid = mine.uid;
        inode->attr.gid = mine.gid;
        inode->attr.atime_ns = mine.atime_ns;
        inode->attr.mtime_ns = mine.mtime_ns;
        advance(&inode->attr.ctime_ns, mine.ctime_ns);
    }
}

void meta_cache_learn(struct meta_cache *c, const Morsel__Attr *attr, enum lease_mode mode,
                      const Morsel__Layout *layout)
{
    struct cached_inode *inode =
        mode == LEASE_NONE ? find_inode(c, attr->inode) : get_inode(c, attr->inode);

    if (inode == NULL) {
        return;
    }
    if (inode->recalling) {
        mode = inode->mode; /* What is kept is what we say; but it must not grow old. */
    }
    if (mode < inode->mode) {
        meta_cache_drop(c, attr->inode, mode);
        if (mode == LEASE_NONE) {
            return;
        }
    }
    inode->mode = mode;
    if (mode == LEASE_NONE) {
        return;
    }
    touch(&c->inode_lru, &inode->in_lru);
    learn_attr(inode, attr);
    if (layout != NULL) {
        learn_layout(inode, layout);
    }
}

enum lease_mode meta_cache_mode(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *inode = find_inode(c, id);

    return inode == NULL ? LEASE_NONE : inode->mode;
}

const Morsel__Attr *meta_cache_attr(struct meta_cache *c, inode_id id)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode == NULL || inode->mode == LEASE_NONE || !inode->attr_known) {
        return NULL;
    }
    touch(&c->inode_lru, &inode->in_lru);
    return &inode->attr;
}

Morsel__Attr *meta_cache_attr_mut(struct meta_cache *c, inode_id id)
{
    struct cached_inode *inode = find_inode(c, id);

    return inode == NULL || inode->mode != LEASE_W || !inode->attr_known ? NULL : &inode->attr;
}

const Morsel__Layout *meta_cache_layout(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *inode = find_inode(c, id);

    return inode == NULL || inode->mode == LEASE_NONE ? NULL : inode->layout;
}

void meta_cache_ahead(struct meta_cache *c, inode_id id, int change)
{
    struct cached_inode *inode = change > 0 ? get_inode(c, id) : find_inode(c, id);

    if (inode == NULL || (change < 0 && inode->ahead == 0)) {
        return; /* There was no memory for it. */
    }
    inode->ahead += (unsigned)change;
    free_if_unused(c, inode);
}

void meta_cache_wrote(struct meta_cache *c, inode_id id, uint64_t mtime_ns, uint64_t ctime_ns)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode == NULL || !inode->attr_known || inode->ahead == 0) {
        return;
    }
    advance(&inode->attr.mtime_ns, mtime_ns);
    advance(&inode->attr.ctime_ns, ctime_ns);
}

void meta_cache_drop(struct meta_cache *c, inode_id id, enum lease_mode keep)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode == NULL || keep >= inode->mode) {
        return;
    }
    inode->mode = keep;
    if (keep != LEASE_NONE) {
        return;
    }
    drop_names(c, inode);
    inode->attr_known = false;
    free_if_unused(c, inode);
}

void meta_cache_drop_all(struct meta_cache *c)
{
    LIST_FOREACH_SAFE(node, &c->inode_lru)
    {
        struct cached_inode *inode = LIST_ENTRY(node, struct cached_inode, in_lru);

        meta_cache_drop(c, inode->id, LEASE_NONE);
    }
    c->evicted_count = 0;
}

void meta_cache_set_recalling(struct meta_cache *c, inode_id id, bool recalling)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode == NULL) {
        return;
    }
    inode->recalling = recalling;
    free_if_unused(c, inode);
}

void meta_cache_pin(struct meta_cache *c, inode_id id)
{
    struct cached_inode *inode = get_inode(c, id);

    if (inode != NULL) {
        inode->pins++;
    }
}

void meta_cache_unpin(struct meta_cache *c, inode_id id)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode == NULL || inode->pins == 0) {
        return; /* There was no memory for it. */
    }
    inode->pins--;
    free_if_unused(c, inode);
}

void meta_cache_forget_attr(struct meta_cache *c, inode_id id)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode != NULL) {
        inode->attr_known = false;
    }
}

bool meta_cache_has_evicted(const struct meta_cache *c)
{
    return c->evicted_count > 0;
}

bool meta_cache_pop_evicted(struct meta_cache *c, struct meta_cache_evicted *evicted)
{
    if (c->evicted_count == 0) {
        return false;
    }
    *evicted = c->evicted[--c->evicted_count];
    return true;
}

void meta_cache_each(const struct meta_cache *c, meta_cache_visit visit, void *data)
{
    LIST_FOREACH_SAFE(node, &c->inode_lru)
    {
        const struct cached_inode *inode = LIST_ENTRY(node, struct cached_inode, in_lru);

        if (inode->mode != LEASE_NONE) {
            visit(data, inode->id, inode->mode);
        }
    }
}

/* ---- Names ---- */

enum meta_cache_answer meta_cache_find(struct meta_cache *c, inode_id parent, const char *name,
                                       inode_id *inode_out)
{
    struct cached_inode *directory = find_inode(c, parent);
    struct cached_name *found;

    if (directory == NULL || directory->mode == LEASE_NONE) {
        c->counters.missed++;
        return META_CACHE_MISS;
    }
    found = find_name(c, parent, name);
    if (found == NULL && !directory->complete) {
        directory->misses++;
        c->counters.missed++;
        return META_CACHE_MISS;
    }
    touch(&c->inode_lru, &directory->in_lru);
    if (found == NULL || found->inode == INODE_NONE) {
        c->counters.absent++;
        return META_CACHE_ABSENT;
    }
    touch(&c->name_lru, &found->in_lru);
    c->counters.found++;
    *inode_out = found->inode;
    return META_CACHE_FOUND;
}

static void evict_name(struct meta_cache *c)
{
    struct list *node = list_front(&c->name_lru);

    if (node != NULL) {
        struct cached_name *name = LIST_ENTRY(node, struct cached_name, in_lru);

        void_listing(c, name->directory);
        free_name(c, name);
    }
}

void meta_cache_learn_name(struct meta_cache *c, inode_id parent, const char *text, inode_id inode)
{
    struct cached_inode *directory = find_inode(c, parent);
    struct cached_name *name;
    size_t length = strlen(text);

    if (directory == NULL || directory->mode == LEASE_NONE || directory->recalling) {
        return;
    }
    if ((name = find_name(c, parent, text)) != NULL) {
        name->inode = inode;
        touch(&c->name_lru, &name->in_lru);
        return;
    }
    if (inode == INODE_NONE && directory->complete) {
        return; /* Known already. */
    }
    if (c->names >= c->names_max) {
        evict_name(c);
    }
    if ((name = malloc(sizeof(*name) + length)) == NULL) {
        void_listing(c, directory);
        return;
    }
    name->directory = directory;
    name->inode = inode;
    name->length = length;
    memcpy(name->text, text, length);
    list_init(&name->in_bucket);
    list_init(&name->in_lru);
    list_init(&name->in_directory);
    list_push_front(&c->name_buckets[hash_name(parent, text, length) & (c->buckets - 1)],
                    &name->in_bucket);
    list_push_back(&c->name_lru, &name->in_lru);
    list_push_back(&directory->names, &name->in_directory);
    c->names++;
}

void meta_cache_forget_name(struct meta_cache *c, inode_id parent, const char *text)
{
    struct cached_name *name = find_name(c, parent, text);

    if (name != NULL) {
        void_listing(c, name->directory);
        free_name(c, name);
    } else if (find_inode(c, parent) != NULL) {
        void_listing(c, find_inode(c, parent));
    }
}

void meta_cache_born(struct meta_cache *c, inode_id id)
{
    struct cached_inode *directory = find_inode(c, id);

    if (directory != NULL && directory->mode != LEASE_NONE && list_empty(&directory->names)) {
        directory->complete = true;
    }
}

uint64_t meta_cache_listing(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *directory = find_inode(c, id);

    return directory == NULL || directory->mode == LEASE_NONE ? 0 : directory->listing;
}

void meta_cache_listed(struct meta_cache *c, inode_id id, uint64_t began)
{
    struct cached_inode *directory = find_inode(c, id);

    if (directory != NULL && began != 0 && meta_cache_listing(c, id) == began) {
        directory->complete = true;
    }
}

bool meta_cache_complete(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *directory = find_inode(c, id);

    return directory != NULL && directory->mode != LEASE_NONE && directory->complete;
}

uint32_t meta_cache_misses(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *directory = find_inode(c, id);

    return directory == NULL || directory->prefetched ? 0 : directory->misses;
}

void meta_cache_note_prefetch(struct meta_cache *c, inode_id id)
{
    struct cached_inode *directory = find_inode(c, id);

    if (directory != NULL) {
        directory->prefetched = true;
    }
}

struct kernel_known *meta_cache_kernel(struct meta_cache *c, inode_id id)
{
    struct cached_inode *inode = find_inode(c, id);

    return inode == NULL ? NULL : &inode->kernel;
}

void meta_cache_count(const struct meta_cache *c, struct meta_cache_counters *counters)
{
    *counters = c->counters;
    counters->inodes = c->inodes;
    counters->names = c->names;
}
