/* Mirror leases: while a member of a group holds one of every other member of the in-sync set, none
 * of them acts without it (docs/replication.md).
 *
 * Pure: no clock, no I/O, no memory of its own. One object a server, for all its groups: a server
 * asks each peer once per MIRROR_LEASE_RENEW_MS, and the answer names the groups that it does *not*
 * cover. A lease is counted by who holds it from when it asked, by who grants it from when it
 * answered, and longer by MIRROR_LEASE_SKEW_MS: clocks may drift apart by a tenth meanwhile
 * (Gray and Cheriton, "Leases", SOSP 1989, section 2).
 *
 *   holder                                        grantor
 *   asked_ms --------- ask (start, asked_ms) -------->  mirror_lease_grant()
 *   mirror_lease_granted() <--- answer (both, not covered) ---
 *   held until asked_ms + MIRROR_LEASE_MS         may be held until its now + MS + SKEW_MS
 *
 * Invariants:
 *  - what a holder believes ends before what its grantor believes;
 *  - who starts holds nothing, and may have granted everything a moment ago;
 *  - of two answers the one to the later question counts; one to another start counts for nothing.
 */
#ifndef MORSEL_IOD_REPLICA_MIRROR_LEASE_H
#define MORSEL_IOD_REPLICA_MIRROR_LEASE_H

#include "common/base/types.h"

enum {
    MIRROR_LEASE_MS = 2000,
    MIRROR_LEASE_RENEW_MS = 500,
    MIRROR_LEASE_SKEW_MS = MIRROR_LEASE_MS / 10,
    MIRROR_LEASE_EXCEPTIONS_MAX = 64 /* With more groups in trouble an answer covers none. */
};

typedef uint64_t group_id; /* Never reused within a cluster; 0 is none. */

/* What an answer leaves out. */
struct mirror_exceptions
{
    uint32_t count;
    bool all;
    group_id groups[MIRROR_LEASE_EXCEPTIONS_MAX];
};

/* The leases between this server and one peer, both ways. */
struct mirror_lease
{
    uint64_t start; /* Of this server: the count of its starts. */
    uint64_t ask_ms;
    uint64_t asked_ms; /* Of the newest question that was granted; 0: none. */
    struct mirror_exceptions exceptions;
    uint64_t granted_until_ms; /* What the peer may hold of us. */
};

/* This server has just started, for the `start`th time (from 1). */
void mirror_lease_init(struct mirror_lease *l, uint64_t start, uint64_t now_ms);

/* When the next question is due. */
uint64_t mirror_lease_deadline_ms(const struct mirror_lease *l);

/* A question goes out, with this server's start and now_ms, which the answer repeats. */
void mirror_lease_ask(struct mirror_lease *l, uint64_t now_ms);

/* The next question is due at once: there is something new that it would cover. */
void mirror_lease_hurry(struct mirror_lease *l);

/* The peer's question is answered, but for what the answer leaves out. */
void mirror_lease_grant(struct mirror_lease *l, uint64_t now_ms);

/* The peer's process is known to be dead: it holds nothing. */
void mirror_lease_void(struct mirror_lease *l);

/* An answer has come. From the wire: what fits nothing that was asked is passed over. */
void mirror_lease_granted(struct mirror_lease *l, uint64_t start, uint64_t asked_ms,
                          const struct mirror_exceptions *exceptions, uint64_t now_ms);

/* Does the peer grant us a lease for this group that was asked for since then? */
bool mirror_lease_held(const struct mirror_lease *l, group_id group, uint64_t since_ms,
                       uint64_t now_ms);

/* The answer does not cover this group. */
void mirror_exceptions_add(struct mirror_exceptions *exceptions, group_id group);
bool mirror_exceptions_has(const struct mirror_exceptions *exceptions, group_id group);

#endif
