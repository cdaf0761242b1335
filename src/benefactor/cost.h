/* What the benefactor costs its machine: rates from counts that only grow.
 *
 * Pure. The host looks every few seconds; a rate is that between the last two looks which are COST_SPAN_MS apart at least.
 */
#ifndef MORSEL_BENEFACTOR_COST_H
#define MORSEL_BENEFACTOR_COST_H

#include <stdbool.h>
#include <stdint.h>

enum { COST_SPAN_MS = 1000 };

/* Of this process, since its start. */
struct cost_counts
{
    uint64_t cpu_us;
    uint64_t read, written;  /* Bytes from and to the disk. */
    uint64_t received, sent; /* Bytes, network. */
};

struct cost
{
    bool looked; /* `counts` and `at_ms` are of the last look. */
    uint64_t at_ms;
    struct cost_counts counts;
    struct cost_counts rate; /* A second; 0 before the second look. */
};

/* `now_ms`: of a clock that only goes on. */
void cost_look(struct cost *c, const struct cost_counts *counts, uint64_t now_ms);

#endif
