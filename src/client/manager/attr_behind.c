/* One entry per inode: what is set again before it was sent is merged into it. */
#include "client/manager/attr_behind.h"

#include "common/base/check.h"
#include "common/base/list.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"

#include "common/base/table.h"

#include <stdlib.h>

struct held
{
    inode_id inode;
    UT_hash_handle hh;
    struct list node;           /* In waiting, oldest stamp first, or in refused. */
    struct attr_change pending; /* Nothing: valid is 0. */
    struct attr_change sent;
    uint64_t pending_first, sent_first; /* Numbers of the oldest that is merged into each. */
    uint64_t stamp;
    bool under_way;
    bool refused; /* In that list, */
    int refusal;  /* for this reason. */
};

struct attr_behind
{
    uint32_t inodes_max;
    struct held *table;
    struct list waiting, refused;
    uint32_t waiting_count;
    uint64_t stamp;
    uint64_t set; /* So many were set so far: the number of the last. */
};

struct attr_behind *attr_behind_new(uint32_t inodes_max)
{
    struct attr_behind *b = calloc(1, sizeof(*b));

    if (b != NULL) {
        b->inodes_max = inodes_max;
        list_init(&b->waiting);
        list_init(&b->refused);
    }
    return b;
}

void attr_behind_free(struct attr_behind *b)
{
    struct held *held, *next;

    if (b == NULL) {
        return;
    }
    HASH_ITER(hh, b->table, held, next)
    {
        HASH_DEL(b->table, held);
        free(held);
    }
    free(b);
}

static struct held *find(const struct attr_behind *b, inode_id inode)
{
    struct held *held;

    HASH_FIND(hh, b->table, &inode, sizeof(inode), held);
    return held;
}

static void wait_here(struct attr_behind *b, struct held *held)
{
    held->stamp = ++b->stamp;
    list_push_back(&b->waiting, &held->node);
    b->waiting_count++;
}

/* Out of whichever list it is in. */
static void unlist(struct attr_behind *b, struct held *held)
{
    list_remove(&held->node);
    b->waiting_count -= !held->refused;
    held->refused = false;
}

static void free_held(struct attr_behind *b, struct held *held)
{
    HASH_DEL(b->table, held);
    free(held);
}

/* `older`, where `newer` says nothing of it. */
static void fill_in(struct attr_change *newer, const struct attr_change *older)
{
    uint32_t add = older->valid & ~newer->valid;

    newer->mode = (add & SETATTR_MODE) != 0 ? older->mode : newer->mode;
    newer->uid = (add & SETATTR_UID) != 0 ? older->uid : newer->uid;
    newer->gid = (add & SETATTR_GID) != 0 ? older->gid : newer->gid;
    newer->atime_ns = (add & SETATTR_ATIME) != 0 ? older->atime_ns : newer->atime_ns;
    newer->mtime_ns = (add & SETATTR_MTIME) != 0 ? older->mtime_ns : newer->mtime_ns;
    newer->set_ns = newer->set_ns > older->set_ns ? newer->set_ns : older->set_ns;
    newer->valid |= add;
}

/* What is in `held->pending` came first. */
static void merge(struct held *held, const struct attr_change *change, uint64_t number)
{
    struct attr_change merged = *change;

    if (held->pending.valid != 0 && held->pending.lease_epoch == change->lease_epoch) {
        fill_in(&merged, &held->pending);
    }
    held->pending_first = held->pending.valid != 0 ? held->pending_first : number;
    held->pending = merged;
}

enum attr_behind_verdict attr_behind_set(struct attr_behind *b, inode_id inode,
                                         const struct attr_change *change)
{
    struct held *held = find(b, inode);
    bool known = held != NULL;

    if (!known) {
        if (HASH_COUNT(b->table) >= b->inodes_max || (held = calloc(1, sizeof(*held))) == NULL) {
            return ATTR_BEHIND_FULL;
        }
        held->inode = inode;
        list_init(&held->node);
        HASH_ADD(hh, b->table, inode, sizeof(held->inode), held);
        if (!TABLE_ADDED(held)) {
            free(held);
            return ATTR_BEHIND_FULL;
        }
    }
    merge(held, change, ++b->set);
    if (list_empty(&held->node)) {
        wait_here(b, held);
    }
    return known ? ATTR_BEHIND_MERGED : ATTR_BEHIND_TAKEN;
}

inode_id attr_behind_next(struct attr_behind *b, struct attr_change *change)
{
    LIST_FOREACH(node, &b->waiting)
    {
        struct held *held = LIST_ENTRY(node, struct held, node);

        if (!held->under_way) {
            unlist(b, held);
            held->under_way = true;
            held->sent = *change = held->pending;
            held->sent_first = held->pending_first;
            held->pending.valid = 0;
            return held->inode;
        }
    }
    return INODE_NONE;
}

void attr_behind_put_back(struct attr_behind *b, inode_id inode)
{
    struct held *held = find(b, inode);

    CHECK(held != NULL && held->under_way && held->pending.valid == 0);
    held->under_way = false;
    held->pending = held->sent;
    held->pending_first = held->sent_first;
    list_push_front(&b->waiting, &held->node);
    b->waiting_count++;
}

bool attr_behind_ended(struct attr_behind *b, inode_id inode, int refusal)
{
    struct held *held = find(b, inode);

    CHECK(held != NULL && held->under_way);
    held->under_way = false;
    if (refusal != 0) {
        if (held->pending.valid == 0) {
            held->pending = held->sent;
            held->refused = true;
            held->refusal = refusal;
            list_push_back(&b->refused, &held->node);
        } else if (held->pending.lease_epoch == held->sent.lease_epoch) {
            fill_in(&held->pending, &held->sent);
        }
        held->pending_first = held->sent_first;
    }
    if (held->pending.valid != 0) {
        return false;
    }
    free_held(b, held);
    return true;
}

void attr_behind_retry(struct attr_behind *b)
{
    struct list *node;

    while ((node = list_pop_front(&b->refused)) != NULL) {
        LIST_ENTRY(node, struct held, node)->refused = false;
        wait_here(b, LIST_ENTRY(node, struct held, node));
    }
}

bool attr_behind_has(const struct attr_behind *b, inode_id inode)
{
    return find(b, inode) != NULL;
}

uint64_t attr_behind_mark(const struct attr_behind *b)
{
    return b->set;
}

int attr_behind_owes(const struct attr_behind *b, inode_id inode, uint64_t mark)
{
    const struct held *held = find(b, inode);

    if (held == NULL) {
        return MORSEL_OK;
    }
    if (held->under_way && held->sent_first <= mark) {
        return MORSEL_AGAIN;
    }
    if (held->pending.valid != 0 && held->pending_first <= mark) {
        return held->refused ? held->refusal : MORSEL_AGAIN;
    }
    return MORSEL_OK;
}

uint64_t attr_behind_stamp(const struct attr_behind *b)
{
    return b->stamp;
}

bool attr_behind_waits(const struct attr_behind *b, uint64_t stamp)
{
    struct list *first = list_front(&b->waiting);

    return first != NULL && LIST_ENTRY(first, struct held, node)->stamp <= stamp;
}

uint32_t attr_behind_count(const struct attr_behind *b)
{
    return HASH_COUNT(b->table);
}

uint32_t attr_behind_waiting(const struct attr_behind *b)
{
    return b->waiting_count;
}

void attr_behind_lose(struct attr_behind *b, bool (*lost)(void *data, inode_id inode), void *data,
                      void (*gone)(void *data, inode_id inode))
{
    struct held *held, *next;

    HASH_ITER(hh, b->table, held, next)
    {
        inode_id inode = held->inode;

        if (held->pending.valid == 0 || !lost(data, inode)) {
            continue;
        }
        unlist(b, held);
        held->pending.valid = 0;
        if (!held->under_way) {
            free_held(b, held);
            gone(data, inode);
        }
    }
}
