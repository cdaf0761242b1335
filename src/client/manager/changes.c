/* A table of fixed size; what it has no room for counts as lost if anything is. */
#include "client/manager/changes.h"

#include <assert.h>
#include <string.h>

static_assert(CHANGES_SLOTS == 1 << 12, "as many as the hash has values");

static size_t hash(inode_id inode)
{
    return (size_t)((inode * UINT64_C(0x9e3779b97f4a7c15)) >> 52);
}

static struct change *slot_of(struct changes *c, inode_id inode)
{
    return &c->slots[hash(inode)];
}

void changes_init(struct changes *c)
{
    memset(c, 0, sizeof(*c));
    list_init(&c->used);
    list_init(&c->others.node);
    for (size_t i = 0; i < CHANGES_SLOTS; i++) {
        list_init(&c->slots[i].node);
    }
}

static void forget(struct change *change)
{
    change->inode = INODE_NONE;
    change->lost = false;
    list_remove(&change->node);
}

/* There is nothing to wait for any more. */
static void settle(struct change *change)
{
    if (change->lost) {
        change->run = change->number = 0;
    } else {
        forget(change);
    }
}

static void note(struct changes *c, struct change *change, inode_id inode, uint64_t run,
                 uint64_t number)
{
    if (change->inode != INODE_NONE && change->run == run && change->number > number) {
        number = change->number;
    }
    list_remove(&change->node);
    list_push_back(&c->used, &change->node);
    change->inode = inode;
    change->run = run;
    change->number = number;
}

void changes_note(struct changes *c, inode_id inode, uint64_t run, uint64_t number)
{
    struct change *slot = slot_of(c, inode);

    if (run == 0 || inode == INODE_NONE) {
        return; /* Of a manager that tells none. */
    }
    if (slot->inode != inode && slot->lost) {
        forget(slot); /* Nobody has asked for it; most likely it is gone as a whole. */
    }
    if (slot->inode != INODE_NONE && slot->inode != inode) {
        slot = &c->others;
    }
    note(c, slot, slot == &c->others ? INODE_ROOT : inode, run, number);
}

void changes_durable(struct changes *c, uint64_t run, uint64_t number)
{
    LIST_FOREACH_SAFE(node, &c->used)
    {
        struct change *change = LIST_ENTRY(node, struct change, node);

        if (change->run != run) {
            continue;
        }
        if (change->number > number) {
            return; /* The later ones too. */
        }
        settle(change);
    }
}

/* True: it is lost. */
static bool judge(struct change *change, const struct changes_held *held, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (change->run != held[i].run) {
            continue;
        }
        if (change->number <= held[i].number) {
            settle(change);
            return false;
        }
        return i > 0; /* Of the run that goes on it is still to be synced. */
    }
    return count > 0;
}

void changes_heard(struct changes *c, const struct changes_held *held, size_t count,
                   void (*lost)(void *data, inode_id inode), void *data)
{
    LIST_FOREACH_SAFE(node, &c->used)
    {
        struct change *change = LIST_ENTRY(node, struct change, node);

        if (change->run != 0 && judge(change, held, count)) {
            bool news = !change->lost; /* Otherwise they wait to be told already. */

            change->lost = true;
            settle(change);
            if (news) {
                lost(data, change == &c->others ? INODE_NONE : change->inode);
            }
        }
    }
}

void changes_lose(struct changes *c, inode_id inode)
{
    struct change *slot = slot_of(c, inode);

    if (slot->inode != INODE_NONE && slot->inode != inode) {
        slot = &c->others;
    }
    if (slot->inode == INODE_NONE) {
        note(c, slot, slot == &c->others ? INODE_ROOT : inode, 0, 0);
    }
    slot->lost = true;
}

bool changes_lost(const struct changes *c, inode_id inode)
{
    const struct change *slot = &c->slots[hash(inode)];

    return c->others.lost || (slot->inode == inode && slot->lost);
}

/* What was changed since is still to be synced. */
static void told(struct change *change)
{
    change->lost = false;
    if (change->run == 0) {
        forget(change);
    }
}

void changes_told(struct changes *c, inode_id inode)
{
    struct change *slot = slot_of(c, inode);

    if (slot->inode == inode && slot->lost) {
        told(slot);
    }
    if (c->others.lost) {
        told(&c->others);
    }
}
