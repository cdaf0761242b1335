/* Changes of data take effect once at most: between requests and what is remembered (repeats.h).
 *
 * A request that is a change with a number is shown to once_admit() before anything is done for it,
 * also before it is judged too late: a copy of what was carried out must hear that, and not that it
 * was refused. If it is to be carried out, once_begin() notes it, and once_end() its answer.
 */
#ifndef MORSEL_COMMON_SERVE_ONCE_UV_H
#define MORSEL_COMMON_SERVE_ONCE_UV_H

#include "common/serve/repeats.h"

#include <stdbool.h>

struct job;

struct once
{
    struct repeats *repeats;
    uint64_t answered; /* Copies that got the first answer. */
    uint64_t refused;  /* Copies of which nothing is known any more. */
};

/* MORSEL_NOMEM. */
int once_init(struct once *once);
void once_free(struct once *once);

/* job->request has come, and job->change is what it says of itself. True: to be carried out. False: the request has
 * been answered, or waits for the answer of its first copy; it is the job's no more. */
bool once_admit(struct once *once, struct job *job);

/* It is carried out from here on. MORSEL_NOMEM: it must not be. */
int once_begin(struct once *once, struct job *job);

/* It has come to its end: job->status, job->err, job->verifier. Copies are answered; the request
 * itself is not. */
void once_end(struct once *once, struct job *job);

#endif
