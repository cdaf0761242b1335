/* A benefactor and its manager: it joins, says what is here, reports, and says when it leaves.
 *
 *     APART --JOIN--> MEMBER --REPORT, every report_ms--> MEMBER --REPORT that it leaves--> (ends)
 *       ^  BUSY: again   |
 *       +----------------+ the connection is a new one, or the manager does not know us
 *
 * Who we are is the token of the data directory; the id is the manager's short name for it. *instance* is random in each
 * process, and what clients hear of it with HELLO (rpc_start_id()), so that the manager sees two processes of one directory, or of a copy of it: the second one hears BUSY as long
 * as the first one is there, and tries again.
 *
 * The cluster is learned when we join first, and kept: a manager of another one is refused for ever.
 *
 * Where clients reach us is told with each JOIN: what the owner says, or else where we listen; and if that is every
 * address of the machine, the one from which the manager is reached. A laptop that wakes up in another network has lost its
 * connection, joins on the next one, and so tells its new address.
 *
 * Behind the first JOIN it tells what lies in the directory, once that is known: as many HELD as it takes, one after the other,
 * and between them the reports that are due (holdings_uv.h).
 *
 * While the manager is away, or does not take us yet, it is tried again and again, which is said in the log once. The
 * first report behind a JOIN comes at any time within the period, and each of the next up to a quarter before it is due:
 * after a restart of the manager all benefactors join at once, and should not go on so.
 *
 * (I/O daemons register: src/common/serve/membership_uv.h. They have a store whose starts are told apart, and reports that
 * lead to work.)
 */
#ifndef MORSEL_BENEFACTOR_JOINING_UV_H
#define MORSEL_BENEFACTOR_JOINING_UV_H

#include "benefactor/fetching_uv.h"
#include "benefactor/holdings_uv.h"
#include "benefactor/hottest.h"
#include "common/base/prng.h"
#include "common/daemon/datadir_file.h"
#include "common/daemon/log.h"
#include "common/rpc/address.h"
#include "common/rpc/rpc_uv.h"
#include "meta.pb-c.h"

enum {
    JOINING_LEAVE_MS = 1000 /* So long the manager is waited for at the end. */
};

/* What is said of the donor, as in meta.proto. */
struct joining_figures
{
    uint64_t donated, used; /* Bytes. */
    uint32_t load;          /* Percent of a processor. */
    uint64_t up_s;
    bool paused, leaving;
    uint64_t excess, pressed;
};

struct joining
{
    /* The owner's; set before joining_start(), all else is zero. */
    uv_loop_t *loop;
    struct log *log;
    struct datadir *datadir;
    struct rpc *rpc;
    struct rpc_peer *manager;
    struct holdings *holdings;   /* What lies here, and is to be said of it. */
    struct fetching *fetching;   /* What is to come here. */
    struct hottest *hottest;     /* What was read most, which each report tells. */
    const char *listens;         /* Where we listen, */
    const char *advertise;       /* and where clients reach us; empty: see above. */
    void (*joined)(void *data);  /* The cluster is known; once. */
    void (*refused)(void *data); /* It never takes us; the reason was logged. */
    void (*figures)(void *data, struct joining_figures *figures);
    void (*told_left)(void *data,
                      const Morsel__DonorLeft *left); /* What is still to be moved off. */
    void *data;

    /* The module's own. */
    uint64_t instance;
    struct rpc_call call; /* JOIN, HELD or REPORT; one at a time. */
    struct rpc_call last; /* That it leaves. */
    uv_timer_t timer;     /* The next of them. */
    struct prng prng;
    uint32_t report_ms, retry_ms;
    bool started, leaving, stopping;
    bool member; /* The manager knows us, and where we are. */
    bool wanted; /* A report is due, at once or behind the call that is under way. */
    bool soon;   /* The manager wants the next one so. */
    bool shut;   /* It says that clients cannot reach us at */
    char door[ADDRESS_TEXT_MAX]; /* this address, the last one that it was told. */
    bool joined_told;
    bool away_said, busy_said, keep_failed_said, unreachable_said;
    void (*left)(void *data);
};

/* Begin to join. */
void joining_start(struct joining *j);

/* There is something to report: now. */
void joining_hurry(struct joining *j);

/* Does the manager know that we are here? */
bool joining_is_member(const struct joining *j);

/* Say that we leave; then `left`, once, with `data`: perhaps at once, and after JOINING_LEAVE_MS at most. joining_stop() is
 * due then. A second time nothing comes of it. */
void joining_leave(struct joining *j, void (*left)(void *data));

/* No more is said. Harmless when repeated, or when nothing was started. */
void joining_stop(struct joining *j);

#endif
