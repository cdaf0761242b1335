/* What lies in the donated directory, as the manager hears of it, and what it wants deleted.
 *
 *     COUNTING --all directories were looked at--> COUNTED --the manager has heard all pages--> TOLD
 *
 * COUNTING takes stock of the store: from then on it is known what is used. In COUNTED the manager is told what is here
 * (held.h), once in the life of the process: what its maps name and is not here is lost, and what is here and in no map is to
 * be deleted. Nothing may be written before all of that is over, for it would be taken for such; reads are served from the
 * start. A TOLD one is never told again: later the manager knows better than the disk, on which a morsel may lie of which it is
 * about to hear.
 *
 * Beside that, replies to reports name stretches that belong to no map any more. They are deleted, and the next report says
 * so; until it does, the manager says them again.
 */
#ifndef MORSEL_BENEFACTOR_HOLDINGS_UV_H
#define MORSEL_BENEFACTOR_HOLDINGS_UV_H

#include "benefactor/collector_uv.h"
#include "dataset.pb-c.h"
#include "meta.pb-c.h"

enum holdings_state { HOLDINGS_COUNTING, HOLDINGS_COUNTED, HOLDINGS_TOLD };

struct holdings
{
    /* The owner's; set before holdings_start(), all else is zero. */
    struct object_server *server;
    void (*counted)(void *data); /* It is known what is used. Once. */
    void (*news)(void *data);    /* There is something to say to the manager. */
    void *data;

    enum holdings_state state;

    /* The module's own. */
    struct job *counting;    /* NULL: not under way. */
    uint32_t step;           /* Of store_take_stock(). */
    struct object_list list; /* Found so far. */
    bool failed_said;
    struct held held;
    struct held_page page; /* That was sent last; its runs: */
    struct morsel_run page_runs[SET_RUNS_MAX];
    struct collector collector;
    bool collecting; /* It is at work for a report: what it deletes is said in one. */
    struct morsel_run collect[SET_RUNS_MAX]; /* That was asked for, as it was said; */
    size_t collect_count;
    bool collected, collected_sent; /* and is gone, and was said. */
    bool stopped;
};

/* Begin to count. The server has been started. */
void holdings_start(struct holdings *h);

/* Now and then: what has failed is tried again. */
void holdings_look(struct holdings *h);

/* The manager is another connection: what it has not heard to the end is told from the beginning. */
void holdings_joined(struct holdings *h);

/* Is a page to be told now? */
bool holdings_to_tell(const struct holdings *h);

/* Tell it, as benefactor `id`; status of rpc_call_start(). */
int holdings_tell(struct holdings *h, struct rpc_call *call, struct rpc_peer *manager, uint32_t id,
                  uint64_t instance, uint64_t timeout_ms, rpc_call_cb done);

/* It was answered. */
void holdings_told(struct holdings *h, const Morsel__DonorHeldReply *reply);

/* What a report says of it, until holdings_report_free(). Without memory it says nothing. */
void holdings_report_fill(struct holdings *h, Morsel__DonorReportRequest *request);
void holdings_report_free(Morsel__DonorReportRequest *request);

/* A report was answered. */
void holdings_reported(struct holdings *h, const Morsel__DonorReportReply *reply);

/* Nothing is said any more. */
void holdings_stop(struct holdings *h);

/* After the loop has ended. */
void holdings_free(struct holdings *h);

#endif
