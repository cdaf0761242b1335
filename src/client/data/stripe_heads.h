/* Of a file that is dealt out in stripes: what to fetch of them beside the window of a reader, so that all servers have something to do.
 *
 * Pure. A window is one range, and a long stripe is all one server's. So of each of the next stripes the head is fetched, too:
 *
 * - While the window is shorter than a round of stripes, which it is at first, those of the round are begun with as many bytes as the window
 *   has. All servers are at work as soon as the reader goes on, as if the stripes were short.
 * - Later one morsel is fetched of those behind the round. For all servers end their stripes together, and the reader has to go through all
 *   of that before the window reaches what is theirs next: meanwhile each has this.
 *
 *   width 4, R reads, w: the window, h: heads      |R ww      |hh        |hh        |hh        |
 *                                                  |Rwwwwwwwww|wwwwwwwwww|wwwwwwwwww|wwwwwwwwww|ww        |h         |h         |h         |
 */
#ifndef MORSEL_CLIENT_DATA_STRIPE_HEADS_H
#define MORSEL_CLIENT_DATA_STRIPE_HEADS_H

#include "common/fs/stripe.h"

struct stripe_heads
{
    uint32_t count;    /* 0: nothing. */
    uint64_t first;    /* Where the first one begins, */
    uint64_t distance; /* how far apart they are, */
    uint64_t length;   /* and how long: at most the distance. */
};

/* Of a reader that goes on at `next`, with so many bytes of window, which may become `bound`. Heads of the round end within that;
 * behind the round they are `width - 1` morsels in all. */
struct stripe_heads stripe_heads(const struct stripe *dealt, uint64_t next, uint64_t window,
                                 uint64_t bound);

#endif
