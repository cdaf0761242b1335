/* What the manager's store keeps of the voter set (record V): the set in effect, the change that is
 * under way, and whose each voter is.
 *
 * Pure. Decoding trusts nothing, as in record.h: sets that are none, changes by more than one voter,
 * and voters of nobody are MORSEL_CORRUPT. */
#ifndef MORSEL_META_NAMESPACE_VOTERS_RECORD_H
#define MORSEL_META_NAMESPACE_VOTERS_RECORD_H

#include "common/base/buf.h"
#include "common/vote/vote.h"

struct voters_record
{
    struct voter_set set;  /* In effect. */
    struct voter_set next; /* Version 0: no change is under way. */
    uint64_t version_last; /* No plan had a higher version. */
};

/* Whose a voter is. */
struct voter_seat
{
    voter_id id;
    server_id server; /* 0: the manager itself. */
};

enum { VOTER_SEATS_MAX = VOTERS_MAX + 1 }; /* Of a set, and of who is to come. */

struct voter_seats
{
    uint32_t count;
    struct voter_seat items[VOTER_SEATS_MAX]; /* Ascending by id. */
};

/* Where it has its seat; NULL: nowhere. */
const struct voter_seat *voter_seats_find(const struct voter_seats *seats, voter_id id);

/* `seats` has all that are in the record. */
void voters_record_encode(const struct voters_record *record, const struct voter_seats *seats,
                          struct buf *out);

/* MORSEL_CORRUPT, MORSEL_VERSION. */
int voters_record_decode(struct slice bytes, struct voters_record *record,
                         struct voter_seats *seats);

#endif
