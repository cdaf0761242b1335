#include "client/op_numbers.h"

#include "common/check.h"

#include <string.h>

void op_numbers_init(struct op_numbers *n)
{
    memset(n, 0, sizeof(*n));
}

op_sequence op_numbers_take(struct op_numbers *n)
{
    if (n->last - n->answered == CLIENT_OPS_PENDING_MAX) {
        return 0;
    }
    n->last++;
    n->returned[n->last % CLIENT_OPS_PENDING_MAX] = false;
    return n->last;
}

void op_numbers_return(struct op_numbers *n, op_sequence sequence)
{
    CHECK(sequence > n->answered && sequence <= n->last);
    CHECK(!n->returned[sequence % CLIENT_OPS_PENDING_MAX]);
    n->returned[sequence % CLIENT_OPS_PENDING_MAX] = true;
    while (n->answered < n->last && n->returned[(n->answered + 1) % CLIENT_OPS_PENDING_MAX]) {
        n->answered++;
    }
}
