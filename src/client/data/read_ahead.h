/* How far to fetch ahead of a reader.
 *
 * Pure. One per open handle. A handle may be read by several readers at once (threads, or one that
 * merges several parts of a file): each that goes on where it stopped is a stream of its own. A
 * stream is sequential when it goes on (or close to it: the kernel sends several requests at once,
 * not always in order), and its window doubles up to the bound, or to what it needs: a few times
 * what it reads in the time that a fetch takes, both measured. A read that continues no stream
 * begins a new one in the place of the least recently used. Streams share the bound.
 *
 * Reads of one length at a constant distance, with gaps of that length at least or backwards, are
 * strided (a column of a matrix, every n-th record): after three of them the next ones are fetched,
 * up to READ_AHEAD_STRIDED_MAX. A random reader is advised nothing.
 */
#ifndef MORSEL_CLIENT_DATA_READ_AHEAD_H
#define MORSEL_CLIENT_DATA_READ_AHEAD_H

#include "common/base/types.h"

enum {
    READ_AHEAD_STREAMS = 4,
    READ_AHEAD_FIRST_BYTES = 512 << 10,
    READ_AHEAD_SLACK_BYTES = 1 << 20,
    READ_AHEAD_IDLE_TURNS =
        64, /* A stream that was not read for so many reads does not count any more. */
    READ_AHEAD_STRIDED_MAX = 16,
    READ_AHEAD_ROUND_TRIPS = 4, /* The window in fetch times, where those are known. */
    READ_AHEAD_RATE_US = 20000  /* Rates are taken over so long at least. */
};

struct read_ahead
{
    uint32_t window_max;
    uint64_t turn; /* Of the last read. */
    struct read_ahead_stream
    {
        uint64_t next;            /* Where it reads next. */
        uint64_t fetched;         /* Fetching has been asked for up to here. */
        uint32_t window;          /* Bytes ahead of it; 0: it has not gone on yet. */
        uint64_t turn;            /* When it was read last. */
        uint64_t since_us, bytes; /* What it read since then. */
        uint64_t rate;            /* Bytes per second, over the time before; 0: not known. */
    } streams[READ_AHEAD_STREAMS];
    struct read_ahead_stride
    {
        uint64_t last; /* Where the last read began. */
        int64_t distance;
        uint32_t length;
        uint32_t times;  /* That the distance was the same. */
        uint32_t window; /* Reads to fetch ahead. */
        uint32_t ahead;  /* Of those, asked for already. */
    } stride;
};

/* What the host has measured. */
struct read_ahead_clock
{
    uint64_t now_us;   /* Monotonic */
    uint32_t fetch_us; /* How long a fetch takes; 0: not known. */
};

struct read_ahead_advice
{
    bool sequential;
    uint64_t from, to; /* Fetch this too, behind the request; empty when from == to. */
    uint64_t next;     /* Of a sequential reader: where it goes on, */
    uint32_t window;   /* how much it has ahead of that, */
    uint32_t bound;    /* and may have one day. */
    uint32_t count;    /* Strided: fetch so many ranges of the request's length, the first at */
    uint64_t first;    /* here, */
    int64_t distance;  /* and so far apart. */
};

void read_ahead_init(struct read_ahead *r, uint32_t window_max);

/* The reader asks for [offset, offset + length). */
struct read_ahead_advice read_ahead_step(struct read_ahead *r, const struct read_ahead_clock *clock,
                                         uint64_t offset, uint32_t length);

/* Of what the last advice said, nothing was fetched from `at` on: it is advised again. `to`: as the
 * advice had it. */
void read_ahead_stopped(struct read_ahead *r, uint64_t to, uint64_t at);

/* Between two reads: what is left of the window of stream `i`, below READ_AHEAD_STREAMS, where
 * fetching was stopped before its end. False: nothing, or nobody has read there for long. */
bool read_ahead_left(const struct read_ahead *r, unsigned i, uint64_t *from, uint64_t *to);

/* Of that, everything before `at` is fetched. */
void read_ahead_reached(struct read_ahead *r, unsigned i, uint64_t at);

#endif
