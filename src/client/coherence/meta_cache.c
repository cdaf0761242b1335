/* The table of inodes, what is known of each, and the order in which they make room. */
#include "client/coherence/meta_cache.h"

#include "client/coherence/dir_names.h"
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
    uint64_t since; /* meta_cache_since() */
    bool attr_known;
    unsigned dirty; /* Changes of ours under way. */
    bool recalling;
    unsigned pins;
    struct kernel_known kernel;
    Morsel__Attr attr;
    Morsel__Layout *layout; /* With its servers in one piece of memory; NULL: not known. */
    struct dir_names names; /* Of a directory. */
};

struct meta_cache
{
    uint32_t inodes_max;
    uint32_t inodes;
    uint32_t buckets; /* A power of two. */
    struct list *inode_buckets;
    struct list inode_lru; /* Least recently used first. */
    struct name_table names;
    struct meta_cache_evicted evicted[EVICTED_MAX];
    uint32_t evicted_count;
    uint64_t grants;
    struct meta_cache_counters counters;
};

/* ---- Table ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0x9e3779b97f4a7c15U;
    return x ^ x >> 29;
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

static void touch(struct meta_cache *c, struct cached_inode *inode)
{
    list_remove(&inode->in_lru);
    list_push_back(&c->inode_lru, &inode->in_lru);
}

static void free_inode(struct meta_cache *c, struct cached_inode *inode)
{
    dir_names_drop(&c->names, &inode->names);
    list_remove(&inode->in_bucket);
    list_remove(&inode->in_lru);
    c->inodes--;
    free(inode->layout);
    free(inode);
}

/* Without a lease it is here only for what is under way. */
static void free_if_unused(struct meta_cache *c, struct cached_inode *inode)
{
    if (inode->mode == LEASE_NONE && inode->pins == 0 && !inode->recalling && inode->dirty == 0) {
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
        if (inode->pins > 0 || inode->recalling || inode->dirty > 0) {
            touch(c, inode);
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
    dir_names_init(&c->names, &inode->names, id);
    list_init(&inode->in_bucket);
    list_init(&inode->in_lru);
    list_push_front(&c->inode_buckets[mix(id) & (c->buckets - 1)], &inode->in_bucket);
    list_push_back(&c->inode_lru, &inode->in_lru);
    c->inodes++;
    return inode;
}

/* ---- Invariants ---- */

/* What is here a lease allows; without one only what is under way keeps it here. */
static void check_inode(const struct meta_cache *c, const struct cached_inode *inode)
{
    CHECK(find_inode(c, inode->id) == inode);
    if (inode->mode == LEASE_NONE) {
        CHECK(inode->pins > 0 || inode->recalling || inode->dirty > 0);
        CHECK(!inode->attr_known && !inode->names.complete && list_empty(&inode->names.names));
    }
}

void meta_cache_check(const struct meta_cache *c)
{
    uint32_t inodes = 0, names = 0;

    LIST_FOREACH(node, &c->inode_lru)
    {
        const struct cached_inode *inode = LIST_ENTRY(node, struct cached_inode, in_lru);

        check_inode(c, inode);
        names += dir_names_check(&c->names, &inode->names);
        inodes++;
    }
    name_table_check(&c->names);
    CHECK(inodes == c->inodes && names == c->names.count && c->evicted_count <= EVICTED_MAX);
}

/* ---- Life ---- */

struct meta_cache *meta_cache_new(uint32_t inodes_max, uint32_t names_max)
{
    struct meta_cache *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        return NULL;
    }
    c->inodes_max = inodes_max;
    c->buckets = 1024;
    while (c->buckets < names_max) {
        c->buckets *= 2;
    }
    list_init(&c->inode_lru);
    c->inode_buckets = calloc(c->buckets, sizeof(c->inode_buckets[0]));
    if (name_table_init(&c->names, names_max) != 0 || c->inode_buckets == NULL) {
        meta_cache_free(c);
        return NULL;
    }
    for (uint32_t i = 0; i < c->buckets; i++) {
        list_init(&c->inode_buckets[i]);
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
    name_table_free(&c->names);
    free(c);
}

/* ---- Inodes ---- */

static bool same_group(const Morsel__Group *a, const Morsel__Group *b)
{
    return a->number == b->number && a->n_servers == b->n_servers &&
           memcmp(a->servers, b->servers, a->n_servers * sizeof(a->servers[0])) == 0;
}

static bool same_layout(const Morsel__Layout *a, const Morsel__Layout *b)
{
    if (a->class_ != b->class_ || a->replicas != b->replicas || a->body != b->body ||
        a->morsel_bytes != b->morsel_bytes || a->stripe_morsels != b->stripe_morsels ||
        a->width != b->width || a->sealed != b->sealed || a->n_servers != b->n_servers ||
        a->n_groups != b->n_groups ||
        (a->n_servers > 0 &&
         memcmp(a->servers, b->servers, a->n_servers * sizeof(a->servers[0])) != 0)) {
        return false;
    }
    for (size_t i = 0; i < a->n_groups; i++) {
        if (!same_group(a->groups[i], b->groups[i])) {
            return false;
        }
    }
    return true;
}

static void copy_groups(Morsel__Layout *copy, const Morsel__Layout *layout, void *room)
{
    Morsel__Group **pointers = room;
    Morsel__Group *groups = (Morsel__Group *)(pointers + layout->n_groups);
    uint32_t *servers = (uint32_t *)(groups + layout->n_groups);

    for (size_t i = 0; i < layout->n_groups; i++) {
        groups[i] = *layout->groups[i];
        groups[i].since = NULL; /* Nobody here wants to know it. */
        groups[i].n_since = 0;
        groups[i].servers = servers;
        memcpy(servers, layout->groups[i]->servers, groups[i].n_servers * sizeof(*servers));
        servers += groups[i].n_servers;
        pointers[i] = &groups[i];
    }
    copy->groups = pointers;
    copy->servers = servers;
    if (layout->n_servers > 0) { /* A scavenged file has none. */
        memcpy(servers, layout->servers, layout->n_servers * sizeof(*servers));
    }
}

static void learn_layout(struct cached_inode *inode, const Morsel__Layout *layout)
{
    size_t bytes = layout->n_servers * sizeof(layout->servers[0]);
    Morsel__Layout *copy;

    /* It changes before the first byte is written (SET_LAYOUT), and when the bytes are copied into
     * another one (EXCHANGE); with its groups; and with the data set of a scavenged file, or when that is sealed. */
    if (inode->layout != NULL && same_layout(inode->layout, layout)) {
        return;
    }
    free(inode->layout);
    inode->layout = NULL;
    for (size_t i = 0; i < layout->n_groups; i++) {
        bytes += sizeof(Morsel__Group *) + sizeof(Morsel__Group) +
                 layout->groups[i]->n_servers * sizeof(layout->servers[0]);
    }
    if ((copy = malloc(sizeof(*copy) + bytes)) == NULL) {
        return;
    }
    *copy = *layout;
    copy_groups(copy, layout, copy + 1);
    inode->layout = copy;
}

/* Times are numbers of nanoseconds with a sign. */
static void advance(uint64_t *time_ns, uint64_t to_ns)
{
    if ((int64_t)to_ns > (int64_t)*time_ns) {
        *time_ns = to_ns;
    }
}

static void overlay(const struct cached_inode *inode, Morsel__Attr *attr)
{
    const Morsel__Attr *mine = &inode->attr;

    if (inode->dirty > 0 && inode->attr_known) {
        attr->mode = mine->mode;
        attr->uid = mine->uid;
        attr->gid = mine->gid;
        attr->atime_ns = mine->atime_ns;
        attr->mtime_ns = mine->mtime_ns;
        advance(&attr->ctime_ns, mine->ctime_ns);
    }
}

static void learn_attr(struct cached_inode *inode, const Morsel__Attr *attr)
{
    Morsel__Attr now = *attr;

    overlay(inode, &now);
    inode->attr = now;
    inode->attr_known = true;
}

void meta_cache_overlay(const struct meta_cache *c, Morsel__Attr *attr)
{
    const struct cached_inode *inode = find_inode(c, attr->inode);

    if (inode != NULL && inode->mode != LEASE_NONE) {
        overlay(inode, attr);
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
    if (inode->mode == LEASE_NONE) {
        inode->since = ++c->grants;
    }
    inode->mode = mode;
    if (mode == LEASE_NONE) {
        return;
    }
    touch(c, inode);
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

uint64_t meta_cache_since(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *inode = find_inode(c, id);

    return inode == NULL || inode->mode == LEASE_NONE ? 0 : inode->since;
}

const Morsel__Attr *meta_cache_attr(struct meta_cache *c, inode_id id)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode == NULL || inode->mode == LEASE_NONE || !inode->attr_known) {
        return NULL;
    }
    touch(c, inode);
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

void meta_cache_dirty(struct meta_cache *c, inode_id id, int change)
{
    struct cached_inode *inode = change > 0 ? get_inode(c, id) : find_inode(c, id);

    if (inode == NULL || (change < 0 && inode->dirty == 0)) {
        return; /* There was no memory for it. */
    }
    inode->dirty += (unsigned)change;
    free_if_unused(c, inode);
}

void meta_cache_wrote(struct meta_cache *c, inode_id id, uint64_t mtime_ns, uint64_t ctime_ns)
{
    struct cached_inode *inode = find_inode(c, id);

    if (inode == NULL || !inode->attr_known || inode->dirty == 0) {
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
    dir_names_drop(&c->names, &inode->names);
    inode->attr_known = false;
    free(inode->layout); /* Others may have the file copied into another one. */
    inode->layout = NULL;
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
    inode_id inode = INODE_NONE;

    if (directory == NULL || directory->mode == LEASE_NONE) {
        c->counters.missed++;
        return META_CACHE_MISS;
    }
    if (!dir_names_find(&c->names, &directory->names, name, &inode) && !directory->names.complete) {
        directory->names.misses++;
        c->counters.missed++;
        return META_CACHE_MISS;
    }
    touch(c, directory);
    if (inode == INODE_NONE) {
        c->counters.absent++;
        return META_CACHE_ABSENT;
    }
    c->counters.found++;
    *inode_out = inode;
    return META_CACHE_FOUND;
}

void meta_cache_learn_name(struct meta_cache *c, inode_id parent, const char *text, inode_id inode)
{
    struct cached_inode *directory = find_inode(c, parent);

    if (directory != NULL && directory->mode != LEASE_NONE && !directory->recalling) {
        dir_names_learn(&c->names, &directory->names, text, inode);
    }
}

void meta_cache_forget_name(struct meta_cache *c, inode_id parent, const char *text)
{
    struct cached_inode *directory = find_inode(c, parent);

    if (directory != NULL) {
        dir_names_forget(&c->names, &directory->names, text);
    }
}

void meta_cache_born(struct meta_cache *c, inode_id id)
{
    struct cached_inode *directory = find_inode(c, id);

    if (directory != NULL && directory->mode != LEASE_NONE && list_empty(&directory->names.names)) {
        directory->names.complete = true;
    }
}

uint64_t meta_cache_listing(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *directory = find_inode(c, id);

    return directory == NULL || directory->mode == LEASE_NONE ? 0 : directory->names.listing;
}

void meta_cache_listed(struct meta_cache *c, inode_id id, uint64_t began)
{
    struct cached_inode *directory = find_inode(c, id);

    if (directory != NULL && began != 0 && meta_cache_listing(c, id) == began) {
        directory->names.complete = true;
    }
}

bool meta_cache_complete(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *directory = find_inode(c, id);

    return directory != NULL && directory->mode != LEASE_NONE && directory->names.complete;
}

uint32_t meta_cache_misses(const struct meta_cache *c, inode_id id)
{
    const struct cached_inode *directory = find_inode(c, id);

    return directory == NULL || directory->names.prefetched ? 0 : directory->names.misses;
}

void meta_cache_note_prefetch(struct meta_cache *c, inode_id id)
{
    struct cached_inode *directory = find_inode(c, id);

    if (directory != NULL) {
        directory->names.prefetched = true;
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
    counters->names = c->names.count;
}
