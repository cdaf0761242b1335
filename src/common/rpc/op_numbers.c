/* A ring of places: each is free, or holds the number of an operation that has no answer yet. */
#include "common/rpc/op_numbers.h"

#include "common/base/check.h"

#include <string.h>

static op_sequence *place_of(struct op_numbers *n, op_sequence sequence)
{
    return &n->out[sequence % n->places];
}

/* Numbers that were passed over are not out either. */
static void advance(struct op_numbers *n)
{
    while (n->answered < n->last && *place_of(n, n->answered + 1) != n->answered + 1) {
        n->answered++;
    }
}

void op_numbers_init(struct op_numbers *n, op_sequence *out, uint32_t places)
{
    *n = (struct op_numbers){ .places = places, .out = out };
    memset(out, 0, places * sizeof(*out));
}

bool op_numbers_has_room(const struct op_numbers *n, uint32_t leave)
{
    return n->places - n->count > leave;
}

op_sequence op_numbers_take(struct op_numbers *n, uint32_t leave)
{
    if (!op_numbers_has_room(n, leave)) {
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
