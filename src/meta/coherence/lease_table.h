/* The tables of the lease core: clients, inodes, leases, requests that wait. For lease_step.c,
 * lease_periods.c and lease_table.c only; lease.h is the interface. Pure. */
#ifndef MORSEL_META_COHERENCE_LEASE_TABLE_H
#define MORSEL_META_COHERENCE_LEASE_TABLE_H

#include "common/base/heap.h"
#include "common/base/list.h"
#include "meta/coherence/lease.h"

enum { LEASE_INODE_BUCKETS = 1 << 16, LEASE_CLIENT_BUCKETS = 1 << 10 };

/* A client that may hold leases. */
struct holder
{
    struct list in_bucket;
    struct list in_all;
    client_id id;
    uint64_t lease_epoch;     /* Under which it holds, or will. */
    uint32_t lease_period_ms; /* Of what it holds; while it is fenced, of the lease epoch before. */
    bool joined;              /* It has said what it holds, and is served. */
    bool caches;
    bool persisting, persisted; /* The lease epoch. */
    bool fenced; /* Its leases end with its lease period; until then it is granted nothing. */
    uint64_t void_lease_epoch; /* Fenced: under which it held. */
    bool forgotten;            /* That lease epoch. */
    uint64_t forget_again_ms;  /* Asked, and to be asked again. */
    uint64_t heard_ms;
    struct heap_node due; /* In t->periods: not later than it is to be looked at. */
    uint64_t join_number; /* Of its newest JOIN. */
    struct list leases;
    uint64_t count;
};

/* One client holds one inode. */
struct lease
{
    struct list in_inode;
    struct list in_holder;
    struct heap_node due; /* In t->recalls, while a recall is under way and can be answered. */
    struct holder *holder;
    struct lease_inode *inode;
    enum lease_mode mode; /* Never LEASE_NONE. */
    bool named;           /* During JOIN: the client still uses it. */
    uint64_t recall;      /* 0: none is under way. */
    enum lease_mode recall_keeps;
    uint64_t landed;      /* As the holder said. */
    uint64_t progress_ms; /* When that grew last, or the recall began. */
    bool busy;            /* The holder has said so. */
};

/* An inode that somebody holds, waits for, or that is quiet. */
struct lease_inode
{
    struct list in_bucket;
    struct list in_quiet;
    inode_id id;
    uint64_t quiet_until_ms; /* 0: not quiet. */
    unsigned pins;           /* It is being worked on. */
    struct list leases;
    struct list waits;
};

/* A request waits for leases on up to LEASE_TOUCHED_MAX inodes. */
struct ticket
{
    struct list in_all;
    uint64_t number;
    client_id client;
    bool told; /* For whom it waits. */
    unsigned waits_count;
    struct ticket_wait
    {
        struct list in_inode;
        struct ticket *ticket;
        struct lease_inode *inode;
        enum lease_access access;
    } waits[LEASE_TOUCHED_MAX];
};

struct lease_table
{
    bool in_grace;
    uint64_t grace_until_ms;
    uint32_t lease_period_ms; /* Of new lease epochs. */
    struct lease_epoch_kept
        expected_lease_epochs[LEASE_CLIENTS_MAX]; /* Of before the restart, not named since. */
    uint32_t expected;
    bool grace_ending; /* They are being forgotten. */
    uint64_t last_lease_epoch;
    uint64_t last_number; /* Of recalls and tickets. */
    uint64_t step_ms;     /* Of the last step. */
    bool retry;           /* Something could not be told for want of memory. */
    uint32_t untold_count;
    client_id untold_locks[LEASE_CLIENTS_MAX]; /* Of LOCKS_OVER. Until it is told: no new locks. */
    uint32_t holders;
    struct lease_counters counters;
    struct list all;     /* struct holder */
    struct heap periods; /* Likewise; room for all. */
    struct heap recalls; /* struct lease; room for all. */
    struct list quiet;   /* struct lease_inode, by quiet_until_ms */
    struct list tickets;
    struct list clients[LEASE_CLIENT_BUCKETS];
    struct list inodes[LEASE_INODE_BUCKETS];
};

/* Room for so many things for the host. False: no memory. */
bool lease_reserve(struct lease_actions *out, size_t more);

/* Note something for the host. False: no memory; t->retry says so. */
bool lease_emit(struct lease_table *t, struct lease_actions *out, struct lease_action action);

/* NULL: unknown. */
struct holder *lease_find_holder(const struct lease_table *t, client_id id);
struct lease_inode *lease_find_inode(const struct lease_table *t, inode_id id);
struct lease *lease_find(const struct lease_inode *inode, client_id client);

/* An inode with a W lease has one holder. */
void lease_check_inode(const struct lease_inode *inode);

/* NULL: no memory, or at the limit. */
struct holder *lease_add_holder(struct lease_table *t, client_id id);
struct lease_inode *lease_get_inode(struct lease_table *t, inode_id id);
struct lease *lease_add(struct lease_table *t, struct lease_inode *inode, struct holder *holder,
                        enum lease_mode mode);

/* Its leases must be gone. */
void lease_free_holder(struct lease_table *t, struct holder *holder);
void lease_free_inode_if_idle(struct lease_inode *inode);

/* Takes it out of everything; who waits is not told. The inode stays. */
void lease_remove(struct lease_table *t, struct lease *lease);

/* A ticket and its places among those who wait. */
void lease_free_ticket(struct lease_table *t, struct ticket *ticket);

/* The client's locks are over: told now, or when there is memory. */
void lease_tell_locks_over(struct lease_table *t, client_id client, struct lease_actions *out);
void lease_tell_again(struct lease_table *t, struct lease_actions *out);

/* Inodes that have been quiet for long enough are so no more. */
void lease_end_quiet(struct lease_table *t, uint64_t now_ms);

/* ---- lease_step.c ---- */

/* Ask its holder to come down to `keeps`. If there is no memory for it, it is tried again later. */
void lease_recall(struct lease_table *t, struct lease *lease, enum lease_mode keeps,
                  uint64_t now_ms, struct lease_actions *out);

/* Come down to `mode`; whoever waits may go on. */
void lease_lower(struct lease_table *t, struct lease *lease, enum lease_mode mode,
                 struct lease_actions *out);

bool lease_fits_beside_others(const struct lease_inode *inode, client_id client,
                              enum lease_mode wanted, bool others_open, bool others_write);

/* All requests that wait are to be tried again. */
void lease_end_tickets(struct lease_table *t, struct lease_actions *out);

/* ---- lease_periods.c ---- */

void lease_on_join(struct lease_table *t, const struct lease_event *event,
                   struct lease_actions *out);
void lease_on_leave(struct lease_table *t, struct holder *holder, uint64_t now_ms,
                    struct lease_actions *out);

/* `holder` may be NULL. */
void lease_on_forgotten(struct lease_table *t, struct holder *holder,
                        const struct lease_event *event, struct lease_actions *out);

/* It did not give back what was asked for: its leases end with its lease period. */
void lease_fence(struct lease_table *t, struct holder *holder, struct lease_actions *out);

/* Of those who have been silent for too long. */
void lease_end_periods(struct lease_table *t, uint64_t now_ms, struct lease_actions *out);
void lease_end_grace_if_due(struct lease_table *t, uint64_t now_ms, struct lease_actions *out);

#endif
