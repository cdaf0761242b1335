/* Membership of a storage server: registers with the manager, and reports to it regularly.
 *
 *   APART --REGISTER--> REGISTERED --(manager does not know us, or the connection is new)--> APART
 *
 * REGISTER is two steps, of which common/daemon/starts.h tells: a data directory that is an old copy
 * of another one's is refused for ever.
 *
 * The token, random since the directory was made, is who we are; the id is the manager's short name
 * for it. The cluster is learned at the first registration and remembered: a manager of another
 * cluster is refused for ever. While the manager is away we go on serving and try again.
 *
 * How much space there is is measured before each registration and each report. What a report says,
 * and what its answer leads to, is the matter of whoever serves: `report` starts one call, and its
 * answer leads to membership_reported() or membership_report_failed().
 */
#ifndef MORSEL_COMMON_SERVE_MEMBERSHIP_UV_H
#define MORSEL_COMMON_SERVE_MEMBERSHIP_UV_H

#include "common/serve/object_server_uv.h"

struct membership
{
    /* The owner's; set before membership_start(), all else is zero. */
    struct object_server *server;
    void (*joined)(void *data);          /* The cluster is known; at the first registration ever. */
    void (*refused)(void *data);         /* It never takes us; the reason was logged. */
    int (*report)(struct membership *m); /* Starts `call`. A failure: it has not, and is to be
                                              called again. */
    void *data;

    /* For reports. */
    struct rpc_call call;     /* REGISTER or a report; one at a time. Its data is the membership. */
    struct store_space space; /* At the last look. */
    uint64_t wanted;          /* The number of the last SPACE_WANTED, */
    uint64_t measured;        /* and of the last one before that look. */
    uint32_t report_ms;       /* How often the manager wants to hear. */
    bool stopping;            /* An answer that comes now is for nobody. */
    bool let_in;              /* This start was let in, for good: no other one of this directory, or
                                 of a copy, is from now on. It is number `datadir.starts.count`.
                                 Never where the manager knows of no marks. */

    /* The module's own. */
    uv_timer_t timer; /* The next registration or report. */
    struct start start;
    bool started, registered;
    bool joined_told;       /* joined() was called, or at an earlier start */
    bool keep_failed;       /* Said in the log that an answer could not be kept. */
    bool away;              /* Said in the log that the manager is away. */
    bool busy;              /* membership_wait() */
    struct job *measuring;  /* NULL: not under way. */
    uint64_t measuring_for; /* `wanted` when it began. */
};

/* Begin to register. The server has been started. */
void membership_start(struct membership *m);
void membership_stop(struct membership *m);

/* A report was answered, and all that its answer asked for is done: the next one is due in
 * `delay_ms`. */
void membership_reported(struct membership *m, uint64_t delay_ms);

/* There is something to report: now, unless a report is under way. */
void membership_hurry(struct membership *m);

/* What the answer asks for takes time: no report until membership_reported() is called. */
void membership_wait(struct membership *m);

/* A report had no answer, or was refused: `status` and `text` of the call. */
void membership_report_failed(struct membership *m, int status, const char *text);

#endif
