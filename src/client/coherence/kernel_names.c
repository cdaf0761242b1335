/* Direct-mapped tables of inodes, of threads and of known names, by their hashes. */
#include "client/coherence/kernel_names.h"

#include <stdlib.h>
#include <string.h>

enum {
    INODES_KEPT = 4096,
    THREADS_KEPT = 512,
    NAMES_KEPT = 1 << 16,
    DOUBT_MS = 1000 /* A thread that has found a name uses it within that time, */
};

/* The manager counts inodes up from 1. */
static const inode_id STRANGERS = UINT64_C(1) << 63;

/* Where the kernel was told last that the inode is. */
struct inode_name
{
    inode_id inode;
    uint64_t name; /* Its hash, with the directory's. */
    bool moved;    /* By a rename of its own. */
    uint64_t told_ms, until_ms;
    uint64_t doubted_ms; /* When it was answered otherwise; 0: never. */
};

struct answer
{
    uint64_t name; /* Its hash; 0: none. */
    inode_id inode;
};

/* What a thread was answered last, if that was of a name, and of another one before that. */
struct asker
{
    uint32_t thread;
    struct answer last, before;
    uint64_t sent_back_ms; /* When it was told to begin again; 0: it was not. */
};

struct kernel_names
{
    struct inode_name inodes[INODES_KEPT];
    struct asker askers[THREADS_KEPT];
    uint8_t known[NAMES_KEPT / 8]; /* A bit for names that the kernel was told. */
    uint64_t dropped_ms;
    uint64_t strangers;
};

struct kernel_names *kernel_names_new(void)
{
    return calloc(1, sizeof(struct kernel_names));
}

void kernel_names_free(struct kernel_names *k)
{
    free(k);
}

static uint64_t hash_of(inode_id parent, const char *name)
{
    uint64_t h = 0xcbf29ce484222325U ^ parent * 0x9e3779b97f4a7c15U; /* FNV-1a */

    for (; *name != '\0'; name++) {
        h = (h ^ (uint8_t)*name) * 0x100000001b3U;
    }
    return h ^ h >> 29;
}

static struct inode_name *slot_of(struct kernel_names *k, inode_id inode)
{
    return &k->inodes[inode % INODES_KEPT];
}

static struct asker *asker_of(struct kernel_names *k, uint32_t thread)
{
    return &k->askers[thread % THREADS_KEPT];
}

static bool is_known(const struct kernel_names *k, uint64_t name)
{
    return (k->known[name % NAMES_KEPT / 8] >> name % 8 & 1) != 0;
}

static void set_known(struct kernel_names *k, uint64_t name)
{
    k->known[name % NAMES_KEPT / 8] |= (uint8_t)(1U << name % 8);
}

void kernel_names_told(struct kernel_names *k, inode_id parent, const char *name, inode_id inode,
                       uint64_t now_ms, uint64_t until_ms)
{
    struct inode_name *slot = slot_of(k, inode);
    uint64_t hash = hash_of(parent, name);

    if (slot->inode != inode) {
        slot->doubted_ms = 0;
    }
    slot->moved = slot->moved && slot->inode == inode && slot->name == hash;
    slot->inode = inode;
    slot->name = hash;
    slot->told_ms = now_ms;
    slot->until_ms = until_ms;
    set_known(k, slot->name);
}

void kernel_names_moved(struct kernel_names *k, inode_id parent, const char *name, inode_id inode,
                        uint64_t now_ms, uint64_t until_ms)
{
    kernel_names_told(k, parent, name, inode, now_ms, until_ms);
    slot_of(k, inode)->moved = true;
    slot_of(k, inode)->doubted_ms = 0; /* That was about a name which the kernel has no more. */
}

void kernel_names_gone(struct kernel_names *k, inode_id parent, const char *name)
{
    uint64_t hash = hash_of(parent, name);

    k->known[hash % NAMES_KEPT / 8] &= (uint8_t) ~(1U << hash % 8);
}

void kernel_names_dropped(struct kernel_names *k, uint64_t now_ms)
{
    k->dropped_ms = now_ms;
}

void kernel_names_other(struct kernel_names *k, uint32_t thread)
{
    struct asker *asker = asker_of(k, thread);

    if (asker->thread == thread) {
        *asker = (struct asker){ .thread = thread };
    }
}

void kernel_names_sent_back(struct kernel_names *k, uint32_t thread, uint64_t now_ms)
{
    *asker_of(k, thread) = (struct asker){ .thread = thread, .sent_back_ms = now_ms };
}

/* Its second try asks for every name, so nothing is in its hands; and there is no third one. */
static bool is_second_try(const struct asker *asker, uint32_t thread, uint64_t now_ms)
{
    return asker->thread == thread && asker->sent_back_ms != 0 &&
           now_ms < asker->sent_back_ms + DOUBT_MS;
}

static void note_answer(struct asker *asker, uint32_t thread, uint64_t name, inode_id inode)
{
    if (asker->thread != thread) {
        *asker = (struct asker){ .thread = thread };
    }
    if (asker->last.name != name) {
        asker->before = asker->last;
    }
    asker->last = (struct answer){ name, inode };
}

void kernel_names_absent(struct kernel_names *k, uint32_t thread, inode_id parent, const char *name)
{
    kernel_names_gone(k, parent, name);
    note_answer(asker_of(k, thread), thread, hash_of(parent, name), INODE_NONE);
}

/* Has the thread, when it came to this name, just been told that the inode has another one? Of a
 * name that the kernel knows it may ask twice. */
static bool has_come_from(const struct asker *asker, uint32_t thread, uint64_t name, inode_id inode)
{
    const struct answer *from = asker->last.name == name ? &asker->before : &asker->last;

    return asker->thread == thread && from->name != 0 && from->name != name && from->inode == inode;
}

inode_id kernel_names_stranger(struct kernel_names *k)
{
    return STRANGERS + ++k->strangers;
}

bool kernel_names_is_stranger(inode_id inode)
{
    return inode > STRANGERS;
}

/* May a thread have found the inode under the name that the kernel was told, without asking us, and
 * not have come to an end with that? */
static bool is_in_hands(const struct kernel_names *k, const struct inode_name *slot,
                        uint64_t now_ms)
{
    uint64_t until_ms = slot->until_ms;

    if (until_ms == 0 || !is_known(k, slot->name) ||
        (slot->doubted_ms != 0 && now_ms < slot->doubted_ms + DOUBT_MS)) {
        return false;
    }
    if (k->dropped_ms > slot->told_ms && k->dropped_ms < until_ms) {
        until_ms = k->dropped_ms;
    }
    return now_ms <= until_ms + DOUBT_MS;
}

/* Where the kernel knows the name it asks whether what it knows is still so, and asks again without
 * a word to whoever called when it is not: so AGAIN would be lost there. */
static enum kernel_names_answer doubt(const struct kernel_names *k, struct inode_name *slot,
                                      struct asker *asker, uint32_t thread, uint64_t name,
                                      bool asks_no_more, uint64_t now_ms)
{
    slot->doubted_ms = now_ms;
    if (asks_no_more && !is_known(k, name)) {
        return KERNEL_NAMES_AGAIN;
    }
    *asker = (struct asker){ .thread = thread, .last = { slot->name, slot->inode } };
    return KERNEL_NAMES_STRANGER;
}

enum kernel_names_answer kernel_names_found(struct kernel_names *k, uint32_t thread,
                                            inode_id parent, const char *name, inode_id inode,
                                            bool asks_no_more, uint64_t asked_ms)
{
    struct inode_name *slot = slot_of(k, inode);
    struct asker *asker = asker_of(k, thread);
    uint64_t hash = hash_of(parent, name);

    if (thread == 0) {
        return KERNEL_NAMES_PLAIN;
    }
    if (has_come_from(asker, thread, hash, inode) &&
        !(slot->inode == inode && slot->name == hash && slot->moved)) {
        if (slot->inode == inode) {
            slot->doubted_ms = asked_ms;
        }
        return KERNEL_NAMES_STRANGER; /* Until it asks for something else. */
    }
    if (slot->inode == inode && slot->name != hash && is_in_hands(k, slot, asked_ms) &&
        !is_second_try(asker, thread, asked_ms)) {
        return doubt(k, slot, asker, thread, hash, asks_no_more, asked_ms);
    }
    note_answer(asker, thread, hash, inode);
    return KERNEL_NAMES_PLAIN;
}
