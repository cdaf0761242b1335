/* Sequence numbers of a client's changing operations, and up to where all are answered.
 *
 * Pure. The manager keeps the answers of operations until it hears that the client has them
 * (OpId.answered); so at most CLIENT_OPS_PENDING_MAX numbers may be out at once, and one that
 * nobody will repeat must be returned.
 */
#ifndef MORSEL_CLIENT_OP_NUMBERS_H
#define MORSEL_CLIENT_OP_NUMBERS_H

#include "common/limits.h"
#include "common/types.h"

struct op_numbers
{
    op_sequence last;                      /* Given out. */
    op_sequence answered;                  /* Every number up to here has been returned. */
    bool returned[CLIENT_OPS_PENDING_MAX]; /* Of answered + 1 + i, as a ring by number. */
};

void op_numbers_init(struct op_numbers *n);

/* The next number, or 0 when too many are out. */
op_sequence op_numbers_take(struct op_numbers *n);

/* The operation is over, whatever came of it. `sequence` must be out. */
void op_numbers_return(struct op_numbers *n, op_sequence sequence);

#endif
