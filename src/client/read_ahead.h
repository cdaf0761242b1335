/* How far to fetch ahead of a reader.
 *
 * Pure. One per open handle. A handle may be read by several readers at once (threads, or one that
 * merges several parts of a file): each that goes on where it stopped is a stream of its own. A
 * stream is sequential when it goes on (or close to it: the kernel sends several requests at once,
 * not always in order), and its window doubles up to the bound. A read that continues no stream
 * begins a new one in the place of the least recently used; a random reader is advised nothing.
 * Streams share the bound.
 */
#ifndef MORSEL_CLIENT_READ_AHEAD_H
#define MORSEL_CLIENT_READ_AHEAD_H

#include "common/types.h"

enum {
    READ_AHEAD_STREAMS = 4,
    READ_AHEAD_FIRST_BYTES = 512 << 10,
    READ_AHEAD_SLACK_BYTES = 1 << 20,
    READ_AHEAD_IDLE_TURNS =
        64 /* A stream that was not read for so many reads does not count any more. */
};

struct read_ahead
{
    uint32_t window_max;
    uint64_t turn; /* Of the last read. */
    struct read_ahead_stream
    {
        uint64_t next;    /* Where it reads next. */
        uint64_t fetched; /* Fetching has been asked for up to here. */
        uint32_t window;  /* Bytes ahead of it; 0: it has not gone on yet. */
        uint64_t turn;    /* When it was read last. */
    } streams[READ_AHEAD_STREAMS];
};

struct read_ahead_advice
{
    bool sequential;
    uint64_t from, to; /* Fetch this too, behind the request; empty when from == to. */
};

void read_ahead_init(struct read_ahead *r, uint32_t window_max);

/* The reader asks for [offset, offset + length). */
struct read_ahead_advice read_ahead_step(struct read_ahead *r, uint64_t offset, uint32_t length);

#endif
