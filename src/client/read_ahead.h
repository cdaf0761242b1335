/* How far to fetch ahead of a reader.
 *
 * Pure. One per open handle. A reader that goes on where it stopped (or close to it: the kernel
 * sends several requests at once, not always in order) is sequential and its window doubles up to
 * the bound; a jump closes the window until the reader has been sequential again.
 */
#ifndef MORSEL_CLIENT_READ_AHEAD_H
#define MORSEL_CLIENT_READ_AHEAD_H

#include "common/types.h"

struct read_ahead
{
    uint64_t next;    /* Where a sequential reader reads next. */
    uint64_t fetched; /* Fetching has been asked for up to here. */
    uint32_t window;  /* Bytes ahead of the reader; 0: not sequential. */
    uint32_t window_max;
};

enum { READ_AHEAD_FIRST_BYTES = 512 << 10, READ_AHEAD_SLACK_BYTES = 1 << 20 };

struct read_ahead_advice
{
    bool sequential;
    uint64_t from, to; /* Fetch this too, behind the request; empty when from == to. */
};

void read_ahead_init(struct read_ahead *r, uint32_t window_max);

/* The reader asks for [offset, offset + length). */
struct read_ahead_advice read_ahead_step(struct read_ahead *r, uint64_t offset, uint32_t length);

#endif
