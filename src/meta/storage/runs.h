/* The manager's run: a number that changes whenever changes that it has acknowledged may have been
 * lost, and what is left of the runs before. Pure; run_file.h keeps it.
 *
 * Numbers of operations recur after a loss of power, so a client that was told one must be told
 * under which run. A run goes on over an orderly restart and over one that a killed process made
 * necessary. It ends when the machine was reset without an orderly end of the manager, and when a
 * sync failed; then the database may have forgotten the newest operations, and everything up to the
 * number that it was found at is there.
 */
#ifndef MORSEL_META_STORAGE_RUNS_H
#define MORSEL_META_STORAGE_RUNS_H

#include "common/base/types.h"

enum { RUNS_KEPT = 16, RUNS_TEXT_BYTES_MAX = 1024 };

struct runs
{
    uint64_t run;     /* Never 0. */
    uint64_t boot_id; /* Of the machine, when the manager was started last. */
    bool closed;      /* It has come to an orderly end: everything is on disk. */
    uint32_t count;
    struct run_before
    {
        uint64_t run;
        uint64_t number; /* Everything up to here outlived it. */
    } before[RUNS_KEPT]; /* The newest first. */
};

/* At a start: `known` (NULL: there is none) is what was read, `number` that of the last operation
 * in the database, `fresh` random and not 0. */
void runs_begin(struct runs *runs, const struct runs *known, uint64_t boot_id, uint64_t number,
                uint64_t fresh);

/* Up to which number operations of `run` are on disk; `durable` is the answer for our own. 0: we do
 * not know that run. */
uint64_t runs_held(const struct runs *runs, uint64_t run, uint64_t durable);

/* As a text, and back: false when it is none of ours. */
size_t runs_format(const struct runs *runs, char text[RUNS_TEXT_BYTES_MAX]);
bool runs_parse(struct runs *runs, const char *text);

#endif
