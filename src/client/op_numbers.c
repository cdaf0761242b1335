#include "client/op_numbers.h"

#include "common/check.h"

#include <string.h>

static op_sequence *place_of(struct op_numbers *n, op_sequence sequence)
{
    return &n->out[sequence % CLIENT_OPS_PENDING_MAX];
}

/* Numbers that were passed over are not out either. */
static void advance(struct op_numbers *n)
{
    while (n->answered < n->last && *place_of(n, n->answered + 1) != n->answered + 1) {
        n->answered++;
    }
}

void op_numbers_init(struct op_numbers *n)
{
    memset(n, 0, sizeof(*n));
}

op_sequence op_numbers_take(struct op_numbers *n, uint32_t leave)
{
    if (CLIENT_OPS_PENDING_MAX - n->count <= leave) {
        return 0;
    }
    advance(n);
    do {
        n->last++;
    } while (*place_of(n, n->last) != 0);
    *place_of(n, n->last) = n->last;
    n->count++;
    return n->last;
}

void op_numbers_return(struct op_numbers *n, op_sequence sequence)
{
    CHECK(sequence != 0 && *place_of(n, sequence) == sequence);
    *place_of(n, sequence) = 0;
    n->count--;
    advance(n);
}
