/* Sequence numbers of a client's changing operations, and up to where all are answered.
 *
 * Pure. The manager keeps the answers of a client's operations in CLIENT_OPS_PENDING_MAX places, at
 * number modulo their count (op_window.h). So at most that many numbers are out at once, no two of
 * them have one place, and one that nobody will repeat must be returned. Numbers whose place is
 * taken by one that is still out are passed over: an operation that takes long keeps its own place
 * and holds up nobody else.
 */
#ifndef MORSEL_CLIENT_OP_NUMBERS_H
#define MORSEL_CLIENT_OP_NUMBERS_H

#include "common/limits.h"
#include "common/types.h"

struct op_numbers
{
    op_sequence last;                        /* Given out, or passed over. */
    op_sequence answered;                    /* No number up to here is out. */
    uint32_t count;                          /* Out. */
    op_sequence out[CLIENT_OPS_PENDING_MAX]; /* By place; 0: free. */
};

void op_numbers_init(struct op_numbers *n);

/* The next number; 0 unless more than `leave` places are free. */
op_sequence op_numbers_take(struct op_numbers *n, uint32_t leave);

/* The operation is over, whatever came of it. `sequence` must be out. */
void op_numbers_return(struct op_numbers *n, op_sequence sequence);

#endif
