/* Deletes morsels that belong to no map, in the pool, a few at a time, so that clients find their turn in between. Those of a
 * long list of numbers, or of whole sets, are looked for in the directories instead of being named one by one. What cannot be deleted does not keep
 * the others from it. */
#ifndef MORSEL_BENEFACTOR_COLLECTOR_UV_H
#define MORSEL_BENEFACTOR_COLLECTOR_UV_H

#include "benefactor/held.h"
#include "common/serve/object_server_uv.h"

enum { COLLECTOR_FAILED_MAX = 64 };

struct collector
{
    /* The owner's; set before the first use, all else is zero. */
    struct object_server *server;
    /* What was started has ended: with 0 all is gone but what collector_failed() says; otherwise more than it knows is left. Why
     * was logged. */
    void (*done)(void *data, int status);
    void *data;

    /* The module's own. */
    bool busy;
    struct morsel_run *runs; /* Joined (runs_join()). */
    size_t count;
    size_t run;       /* By numbers: in which stretch, */
    uint32_t number;  /* and which of it is next. */
    bool walks;       /* Through the directories instead: */
    uint64_t cursor;  /* store_list() */
    bool failed_said; /* In the log: the manager asks again and again. */
    struct object_id failed[COLLECTOR_FAILED_MAX];
    size_t failed_count; /* One more than there is room for: too many. */
    bool all;            /* That was the last step. */
    /* Morsels, since the start of the process; those by numbers may not have been there. */
    uint64_t deleted;
};

/* Delete all that there is of `runs`; they are copied. `done` comes later, unless this fails: MORSEL_NOMEM, MORSEL_SHUTDOWN, or
 * MORSEL_BUSY while it is at work. */
int collector_start(struct collector *c, const struct morsel_run *runs, size_t count);

/* Is one of that stretch left, of what was started last? For done(). */
bool collector_failed(const struct collector *c, const struct morsel_run *run);

/* After the loop has ended. */
void collector_free(struct collector *c);

#endif
