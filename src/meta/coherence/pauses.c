/* A small table: who holds still for whom (pauses.h). */
#include "meta/coherence/pauses.h"

#include "common/base/check.h"

#include <stddef.h>
#include <string.h>

void pauses_init(struct pauses *p, uint64_t number)
{
    memset(p, 0, sizeof(*p));
    p->last_number = number;
}

struct pause *pauses_find(struct pauses *p, inode_id inode)
{
    for (unsigned i = 0; p->count > 0 && inode != INODE_NONE && i < PAUSES_MAX; i++) {
        if (p->items[i].inode == inode) {
            return &p->items[i];
        }
    }
    return NULL;
}

struct pause *pauses_numbered(struct pauses *p, inode_id inode, uint64_t number)
{
    struct pause *pause = pauses_find(p, inode);

    return pause != NULL && pause->number == number ? pause : NULL;
}

static struct pause *find_free(struct pauses *p)
{
    for (unsigned i = 0; i < PAUSES_MAX; i++) {
        if (p->items[i].inode == INODE_NONE) {
            return &p->items[i];
        }
    }
    return NULL;
}

struct pause *pauses_begin(struct pauses *p, uint64_t now_ms, inode_id inode, client_id owner,
                           const client_id *writers, uint32_t count)
{
    struct pause *pause = find_free(p);

    CHECK(inode != INODE_NONE && pauses_find(p, inode) == NULL);
    if (pause == NULL) {
        return NULL;
    }
    *pause = (struct pause){ .number = p->last_number + 1,
                             .owner = owner,
                             .until_ms = now_ms + PAUSE_GATHER_MS };
    for (uint32_t i = 0; i < count; i++) {
        if (writers[i] == owner) {
            continue;
        }
        if (pause->count == PAUSE_MEMBERS_MAX) {
            return NULL;
        }
        pause->members[pause->count++].client = writers[i];
    }
    pause->inode = inode;
    p->last_number++;
    p->count++;
    return pause;
}

static const struct pause_member *find_member(const struct pause *pause, client_id client)
{
    for (uint32_t i = 0; i < pause->count; i++) {
        if (pause->members[i].client == client) {
            return &pause->members[i];
        }
    }
    return NULL;
}

static void set_paused(struct pause *pause, client_id client, bool paused)
{
    for (uint32_t i = 0; i < pause->count; i++) {
        if (pause->members[i].client == client) {
            pause->members[i].paused = paused;
        }
    }
}

void pause_note_paused(struct pause *pause, client_id client)
{
    set_paused(pause, client, true);
}

bool pause_has_member(const struct pause *pause, client_id client)
{
    return find_member(pause, client) != NULL;
}

void pauses_note_opened(struct pauses *p, inode_id inode, client_id client)
{
    struct pause *pause = pauses_find(p, inode);

    if (pause != NULL) {
        set_paused(pause, client, false);
    }
}

bool pause_is_whole(const struct pause *pause, const client_id *writers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct pause_member *member = find_member(pause, writers[i]);

        if (writers[i] != pause->owner && (member == NULL || !member->paused)) {
            return false;
        }
    }
    return true;
}

void pause_hold(struct pause *pause, uint64_t now_ms)
{
    if (!pause->held) {
        pause->held = true;
        pause->until_ms = now_ms + PAUSE_HELD_MS;
    }
}

bool pause_is_late(const struct pause *pause, uint64_t now_ms)
{
    return now_ms >= pause->until_ms;
}

void pauses_end(struct pauses *p, struct pause *pause)
{
    CHECK(pause->inode != INODE_NONE && p->count > 0);
    pause->inode = INODE_NONE;
    p->count--;
}
