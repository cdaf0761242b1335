/* Which start of a data directory, or of a copy of it, is let in: the marks of both sides.
 *
 * Pure. Each start draws a mark, a number that nobody else has, and is let in in two steps:
 *
 *   server: kept on disk (confirmed, pending)          manager: confirmed, tentative, both durable
 *     PROPOSE confirmed, pending, mark  ------>  knows its confirmed one in either: tentative = mark
 *                                       <------  which of the two it was, x
 *     kept = (x, mark)
 *     CONFIRM x, mark                   ------>  tentative or confirmed is mark: confirmed = mark
 *     kept = (mark, none), one more     <------  yes
 *     is let in
 *
 * After that a copy of the directory, made while nothing ran, shows marks that the manager has left
 * behind: it is refused for ever. Whoever is let in repeats CONFIRM on each new connection. The mark
 * of a directory, or of a manager's record, that has never been through this is 0.
 *
 * The manager's database may be put back to an older state, and then knows older marks than its
 * servers have. So both keep the count of the confirmed mark, how many were confirmed up to it, and
 * the server says its own with each word. Marks that are not known and have a greater count were
 * confirmed by a later state of the database: the manager takes over mark and count. A count of 0 is
 * not known (of a program, or in a record, from before it was told): all else is as above.
 *
 * tests/model/starts_model.py breaks each rule once.
 */
#ifndef MORSEL_COMMON_DAEMON_STARTS_H
#define MORSEL_COMMON_DAEMON_STARTS_H

#include <stdbool.h>
#include <stdint.h>

/* What a data directory keeps. */
struct starts_kept
{
    uint64_t confirmed, pending; /* Marks; 0: none. */
    uint64_t count;              /* Starts that were let in, up to the confirmed one. */
};

/* What the manager keeps of a server. */
struct starts_known
{
    uint64_t confirmed, tentative; /* Marks; 0: none. */
    uint64_t count;                /* Of the confirmed one; 0: not known. */
};

/* What a server says when it registers. */
struct starts_word
{
    uint64_t mark; /* Of this start; 0: of a program that knows of no marks. */
    uint64_t confirmed, pending;
    uint64_t count; /* Of the confirmed one. */
    bool confirms;  /* CONFIRM, otherwise PROPOSE. */
};

enum starts_verdict {
    STARTS_TAKEN,
    STARTS_TAKEN_OVER, /* And it was let in later than we know: our database was put back. */
    STARTS_AGAIN, /* Another one proposed meanwhile, and none is confirmed yet: propose again. */
    STARTS_OLD    /* Left behind: it is never taken. */
};

/* The manager hears `word`. When it is taken (over), `known` is to be durable before the answer; otherwise
 * `known` stays as it is. `by_pending`: the pending mark was the one that it knew. */
enum starts_verdict starts_hear(struct starts_known *known, const struct starts_word *word,
                                bool *by_pending);

/* One start, at the server. */
struct start
{
    enum { START_ASKS, START_CONFIRMS, START_LET_IN } step;
    uint64_t mark; /* Not 0. */
};

/* What to say next. */
struct starts_word start_word(const struct start *start, const struct starts_kept *kept);

/* The manager took the word. `kept` is to be durable before the next one is said, and before this
 * start counts as let in; if it cannot be written, put both back. False: it was no news. */
bool start_taken(struct start *start, struct starts_kept *kept, bool by_pending);

/* The manager said STARTS_AGAIN. */
void start_again(struct start *start);

#endif
