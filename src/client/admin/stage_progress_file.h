/* How far a download is, on standard error if that is a terminal: one line that is written again and again. */
#ifndef MORSEL_CLIENT_ADMIN_STAGE_PROGRESS_FILE_H
#define MORSEL_CLIENT_ADMIN_STAGE_PROGRESS_FILE_H

#include "common/base/types.h"

struct stage_progress
{
    bool shows, shown;
    uint64_t from,
        whole; /* Bytes that were there at `begun_ms`; all of them, UINT64_MAX: not known. */
    uint64_t begun_ms, last_ms;
};

/* `wanted`: the user did not ask for silence. */
void stage_progress_init(struct stage_progress *p, bool wanted);

void stage_progress_begin(struct stage_progress *p, uint64_t from, uint64_t whole);
void stage_progress_show(struct stage_progress *p, uint64_t now);

/* Somebody else is at it. */
void stage_progress_wait(struct stage_progress *p, uint64_t now, uint64_t whole);

/* The line is taken away. */
void stage_progress_end(struct stage_progress *p);

#endif
