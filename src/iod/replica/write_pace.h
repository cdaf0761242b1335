/* Who writes waits for a recovery that would not end otherwise: at who orders, before a change has its place in the
 * order.
 *
 * Pure: no clock. A recovery ends when less becomes outstanding than is given: laps shrink (replica.h). Looked at
 * over some time, with what was given (`gave`), by how much what is outstanding grew through changes (`grown`), and
 * how many bytes changed (`let`):
 *
 *   grown <= `share` of gave                nobody waits
 *   otherwise                               let / grown * share * gave a second are let through
 *
 * So laps shrink by the rest at least, and a change of what is outstanding anyway costs nothing. Nothing given: it
 * is not writers that hold the recovery up, and nobody waits. The bound moves by WRITE_STEP at a time at most.
 *
 * Fair: clients take turns, each in the order of its changes. Bounded: a change waits WRITE_WAIT_US at most, and a
 * client has one let through every WRITE_TURN_US, so that it hears of its server (GROUP_SILENT_MS of clients), and
 * who flushes for a recall goes on. What a client has under way it can therefore always write in WRITE_WAIT_US; the
 * host sees to it that this is little (rpc_server_set_client_share()), so it is the client's link that seems slow,
 * which it is used to.
 *
 * Invariants (write_pace_check()): without a bound nobody waits; who waits is in the list of one client, which is in
 * the ring. */
#ifndef MORSEL_IOD_REPLICA_WRITE_PACE_H
#define MORSEL_IOD_REPLICA_WRITE_PACE_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"
#include "iod/replica/replica.h"

enum {
    WRITE_LOOK_US = 250000,
    WRITE_SPAN_US = 1500000,   /* What was seen counts so long, and less and less. */
    WRITE_SETTLED_US = 450000, /* Before that nothing is concluded. */
    WRITE_STEP_PERCENT = 150,
    WRITE_CREDIT_US = 20000, /* Of a timer that is late. */
    WRITE_WAIT_US = 1500000,
    WRITE_TURN_US = 750000,
    WRITE_RATE_MIN = 1 << 20 /* The bound is never lower. */
};

struct write_client
{
    UT_hash_handle hh;
    struct list node; /* In the ring. */
    client_id id;
    struct list waiting; /* struct write_wait, oldest first. */
    uint64_t let_us;     /* When its last change was let through, or it came. */
};

struct write_wait
{
    struct list node;
    struct write_client *client;
    uint64_t bytes, since_us;
};

struct write_pace
{
    uint64_t rate; /* Bytes per second; 0: no bound. */
    uint64_t next_us;
    struct write_client *clients; /* By id. */
    struct list ring;
    /* Of the last WRITE_SPAN_US, weighted; and what was let through since the last look. */
    double gave, grown, let, seconds;
    uint64_t let_now, looked_us, gave_before, grown_before;
    bool looking;
};

void write_pace_init(struct write_pace *p);

/* Somebody is being brought up to date without a limit, from here. Every WRITE_LOOK_US. */
void write_pace_look(struct write_pace *p, const struct replica_progress *progress,
                     uint64_t now_us);

/* Nobody is: all may go, by write_pace_next(). */
void write_pace_stop(struct write_pace *p);

/* A change of a client: true, it goes on now. False: it waits, and comes out of write_pace_next() or
 * write_pace_leave(), once. */
bool write_pace_enter(struct write_pace *p, struct write_wait *wait, client_id client,
                      uint64_t bytes, uint64_t now_us);
void write_pace_leave(struct write_pace *p, struct write_wait *wait);

/* Whose turn it is; NULL: nobody's, or nobody waits. Ask until it is. */
struct write_wait *write_pace_next(struct write_pace *p, uint64_t now_us);

/* When write_pace_next() has somebody; UINT64_MAX: nobody waits. */
uint64_t write_pace_due_us(const struct write_pace *p);

void write_pace_check(const struct write_pace *p);

#endif
