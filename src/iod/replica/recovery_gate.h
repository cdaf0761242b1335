/* How fast a server gives and takes what others recover: the limit that the administrator has set.
 *
 * Pure: no clock, no memory of its own. One for a server, with all its groups. Who wants to move bytes asks,
 * counts them when it begins, and waits its turn behind those who asked before. The limit is a rate and no
 * more: `next_us` is when the bytes that were counted so far are over at that rate. Who comes late is let in
 * sooner the next time, RECOVERY_CREDIT_US at most, so a timer that fires late costs nothing, and nobody saves
 * up for a burst.
 *
 * Invariant: without a limit nobody waits. */
#ifndef MORSEL_IOD_REPLICA_RECOVERY_GATE_H
#define MORSEL_IOD_REPLICA_RECOVERY_GATE_H

#include "common/base/limits.h"
#include "common/base/list.h"
#include "common/base/types.h"

enum {
    RECOVERY_CREDIT_US = 250000,
    RECOVERY_PIECES_A_SECOND = 8 /* At least: pieces are shorter when the limit is low. */
};

struct recovery_gate
{
    uint64_t rate; /* Bytes per second; 0: no limit. */
    uint64_t next_us;
    struct list waiting; /* struct recovery_wait */
};

struct recovery_wait
{
    struct list node;
    uint64_t bytes;
    void (*go)(struct recovery_wait *wait); /* It has its turn; not from within recovery_enter(). */
};

void recovery_gate_init(struct recovery_gate *g, uint64_t rate);

/* How long a piece is to be: whole blocks. NULL: no limit. */
uint32_t recovery_piece_bytes(const struct recovery_gate *g);

/* True: its `bytes` are counted, it goes on now. False: it waits, and `go` is called once. */
bool recovery_enter(struct recovery_gate *g, struct recovery_wait *wait, uint64_t now_us);

/* It does not wait any more, and goes on, if at all, by itself. Who is not waiting is passed over. */
void recovery_leave(struct recovery_wait *wait);

/* Of the bytes that were counted so many were not moved. */
void recovery_unused(struct recovery_gate *g, uint64_t bytes);

/* When recovery_run() is due; UINT64_MAX: nobody waits. Those whose turn it is go. */
uint64_t recovery_due_us(const struct recovery_gate *g);
void recovery_run(struct recovery_gate *g, uint64_t now_us);

#endif
