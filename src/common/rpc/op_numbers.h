/* Numbers of a client's changing operations, and up to where all have ended.
 *
 * Pure. A server keeps the answers of a client's operations in a fixed number of places, at number
 * modulo their count (the manager: reply_cache.h; an I/O daemon: repeats.h). So at most that many
 * numbers are out at once, no two of them have one place, and one that nobody will repeat must be
 * returned. Numbers whose place is taken by one that is still out are passed over: an operation
 * that takes long keeps its own place and holds up nobody else.
 */
#ifndef MORSEL_COMMON_RPC_OP_NUMBERS_H
#define MORSEL_COMMON_RPC_OP_NUMBERS_H

#include "common/base/types.h"

struct op_numbers
{
    op_sequence last;     /* Given out, or passed over. */
    op_sequence answered; /* No number up to here is out. */
    uint32_t count;       /* Out. */
    uint32_t places;
    op_sequence *out; /* By place; 0: free. */
};

/* `out` has room for `places` numbers, is the caller's, and stays. */
void op_numbers_init(struct op_numbers *n, op_sequence *out, uint32_t places);

/* Are more than `leave` places free? */
bool op_numbers_has_room(const struct op_numbers *n, uint32_t leave);

/* The next number; 0 unless more than `leave` places are free. */
op_sequence op_numbers_take(struct op_numbers *n, uint32_t leave);

/* The operation is over, whatever came of it. `sequence` must be out. */
void op_numbers_return(struct op_numbers *n, op_sequence sequence);

#endif
