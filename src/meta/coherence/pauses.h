/* Files that several mounts have open for writing, held still while one of them has a file moved (common/fs/exchange.h).
 *
 * Pure: which pauses there are, who takes part, and who holds still; the host (pauses_uv.h) has the requests.
 *
 *     begin                 all of the writers hold still: the host gives who asked its lease
 *   --------> GATHERING -----------------------------------------------------------------> HELD
 *                 |                                                                          |
 *                 | refused, late, who asked has gone        the exchange, over, late, broken,
 *                 v                                          who asked has gone
 *                end <-----------------------------------------------------------------------'
 *
 * A mount holds still from its PAUSED, which says so under the number of the pause, until the manager has answered that,
 * however long it takes: it may be cut off, stopped or dead. So who has said it, and was not answered, holds still for
 * certain, and no clock is needed to know it. It is answered at the end of the pause, and whoever asks under the
 * number of one that has ended, or of another run of the manager, at once. Numbers are never used again: a PAUSED that comes
 * late, over a connection that was given up, counts for no other pause.
 *
 * Broken: somebody has opened the file for writing since, who holds still or not. That is looked at when it counts: with the
 * exchange, and with each look of the host.
 *
 * Times are only to end what would last too long.
 *
 * Invariants: one pause of an inode; each member once; members are not the owner. */
#ifndef MORSEL_META_COHERENCE_PAUSES_H
#define MORSEL_META_COHERENCE_PAUSES_H

#include "common/base/limits.h"
#include "common/base/types.h"
#include "common/fs/exchange.h"

#include <assert.h>

enum {
    PAUSES_MAX = 16,
    PAUSE_MEMBERS_MAX = 64, /* Mounts that have one file open for writing, beside who asks. */
    PAUSE_GATHER_MS = 3000, /* So long who asks waits until all hold still, */
    PAUSE_HELD_MS = 5000    /* and so long they do then at most. */
};

static_assert(PAUSE_GATHER_MS + PAUSE_HELD_MS <= EXCHANGE_PAUSED_MS, "mounts wait for so long");

struct pause_member
{
    client_id client;
    bool paused;
};

struct pause
{
    inode_id inode; /* INODE_NONE: this one is free. */
    uint64_t number;
    client_id owner; /* Who asked for it. */
    bool held;
    uint64_t until_ms; /* Of GATHERING, or of HELD. */
    uint32_t count;
    struct pause_member members[PAUSE_MEMBERS_MAX];
};

struct pauses
{
    uint64_t last_number;
    uint32_t count;
    struct pause items[PAUSES_MAX];
};

/* Numbers are counted on from `number`: something random. */
void pauses_init(struct pauses *p, uint64_t number);

/* The pause of the inode; NULL: there is none. */
struct pause *pauses_find(struct pauses *p, inode_id inode);

/* That pause, if it is the one with this number. */
struct pause *pauses_numbered(struct pauses *p, inode_id inode, uint64_t number);

/* A new one, of an inode that has none: all of `writers` but the owner are to hold still. NULL: there are too many pauses, or
 * writers. */
struct pause *pauses_begin(struct pauses *p, uint64_t now_ms, inode_id inode, client_id owner,
                           const client_id *writers, uint32_t count);

/* The client holds still. Nothing happens where it does not take part. */
void pause_note_paused(struct pause *pause, client_id client);

/* Does the client take part? */
bool pause_has_member(const struct pause *pause, client_id client);

/* The client has opened the inode for writing, or says that it has it open: it is to say again that it holds still. */
void pauses_note_opened(struct pauses *p, inode_id inode, client_id client);

/* Do all of these who have the file open for writing hold still, but for the owner? */
bool pause_is_whole(const struct pause *pause, const client_id *writers, uint32_t count);

/* It was, and who asked is going to be told so: HELD. Harmless when it is already. */
void pause_hold(struct pause *pause, uint64_t now_ms);

/* Its time is over. */
bool pause_is_late(const struct pause *pause, uint64_t now_ms);

void pauses_end(struct pauses *p, struct pause *pause);

#endif
