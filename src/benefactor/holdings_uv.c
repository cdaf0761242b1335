/* Counts in the pool, tells in pages, and keeps what is to be deleted until that was heard. */
#include "benefactor/holdings_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { STOCK_STEPS = 64 /* Directories that one job looks at. */ };

/* ---- Counting ---- */

static void run_count(struct job *job)
{
    struct holdings *h = job->owner;

    if (h->step == 0) {
        store_begin_stock(h->server->store);
    }
    for (unsigned i = 0; i < STOCK_STEPS && h->step < STORE_STOCK_STEPS && job->status == 0; i++) {
        job->status = store_take_stock(h->server->store, h->step++, &h->list, &job->err);
    }
}

static void count_failed(struct holdings *h, int status, const char *text)
{
    free(h->list.ids);
    h->list = (struct object_list){ .ids = NULL };
    h->step = 0;
    if (status != MORSEL_SHUTDOWN && !h->failed_said) {
        h->failed_said = true;
        log_error(h->server->log,
                  "%s: see what lies there: %s: morsels that are here can be read, and no new ones "
                  "are taken until that works; trying again",
                  h->server->datadir.path, text[0] != 0 ? text : status_words(status));
    }
}

static void start_count(struct holdings *h);

static void on_count(struct job *job)
{
    struct holdings *h = job->owner;
    int status = job->status;

    h->counting = NULL;
    if (status != 0) {
        count_failed(h, status, job->err.text);
    }
    job_free(job);
    if (status != 0 || h->stopped) {
        return;
    }
    if (h->step < STORE_STOCK_STEPS) {
        start_count(h);
        return;
    }
    held_take(&h->held, h->list.ids, h->list.count);
    h->list = (struct object_list){ .ids = NULL };
    h->state = HOLDINGS_COUNTED;
    h->counted(h->data);
    h->news(h->data);
}

static void start_count(struct holdings *h)
{
    struct job *job = job_new(&h->server->jobs, h);
    int rv = job == NULL ? MORSEL_NOMEM : job_start(job, run_count, on_count, true);

    if (rv != 0) {
        if (job != NULL) {
            job_free(job);
        }
        count_failed(h, rv, "");
        return;
    }
    h->counting = job;
}

void holdings_look(struct holdings *h)
{
    if (h->state == HOLDINGS_COUNTING && h->counting == NULL) {
        start_count(h);
    }
}

/* ---- Messages ---- */

/* An array of messages and what it points to, in one piece of memory; NULL: there is none. */
static Morsel__SetRun **pack_runs(const struct morsel_run *runs, size_t count)
{
    Morsel__SetRun **pointers =
        calloc(count + 1, sizeof(Morsel__SetRun *) + sizeof(Morsel__SetRun));
    Morsel__SetRun *messages = pointers == NULL ? NULL : (Morsel__SetRun *)(pointers + count + 1);

    for (size_t i = 0; pointers != NULL && i < count; i++) {
        morsel__set_run__init(&messages[i]);
        messages[i].set = runs[i].set;
        messages[i].first = runs[i].first;
        messages[i].count = runs[i].count;
        pointers[i] = &messages[i];
    }
    return pointers;
}

static void unpack_runs(Morsel__SetRun *const *messages, size_t count, struct morsel_run *runs)
{
    for (size_t i = 0; i < count; i++) {
        runs[i] = (struct morsel_run){ .set = messages[i]->set,
                                       .first = messages[i]->first,
                                       .count = messages[i]->count };
    }
}

/* ---- What is here ---- */

void holdings_joined(struct holdings *h)
{
    held_again(&h->held);
}

bool holdings_to_tell(const struct holdings *h)
{
    return h->state == HOLDINGS_COUNTED && !h->held.over && !h->collector.busy;
}

int holdings_tell(struct holdings *h, struct rpc_call *call, struct rpc_peer *manager, uint32_t id,
                  uint64_t instance, uint64_t timeout_ms, rpc_call_cb done)
{
    Morsel__DonorHeldRequest request = MORSEL__DONOR_HELD_REQUEST__INIT;
    Morsel__SetRun from = MORSEL__SET_RUN__INIT;
    struct held_page *page = &h->page;
    int rv;

    page->runs = h->page_runs;
    held_page(&h->held, page);
    request.id = id;
    request.instance = instance;
    from.set = page->from.inode;
    from.first = page->from.column;
    request.from = page->begins ? NULL : &from;
    request.held = pack_runs(page->runs, page->runs_count);
    if (request.held == NULL) {
        return MORSEL_NOMEM;
    }
    request.n_held = page->runs_count;
    request.last = page->last;
    rv = rpc_call_start(call, manager, MSG_DONOR_HELD, &request.base, NULL, 0, timeout_ms, done);
    free(request.held);
    return rv;
}

/* All pages were answered, and what they say is to go has gone: from now on morsels are taken. */
static void open_if_told(struct holdings *h)
{
    if (h->state != HOLDINGS_COUNTED || !h->held.over || h->collector.busy) {
        return;
    }
    log_info(h->server->log, "%s: the manager knows what is here: %llu bytes",
             h->server->datadir.path, (unsigned long long)store_used(h->server->store));
    held_free(&h->held);
    h->state = HOLDINGS_TOLD;
}

/* What cannot be deleted now is said again when this directory is opened the next time. */
static void drop(struct holdings *h, const Morsel__DonorHeldReply *reply)
{
    struct morsel_run *runs = malloc(reply->n_drop * sizeof(*runs));

    h->collecting = false;
    if (runs != NULL) {
        unpack_runs(reply->drop, reply->n_drop, runs);
        (void)collector_start(&h->collector, runs, reply->n_drop);
    }
    free(runs);
}

void holdings_told(struct holdings *h, const Morsel__DonorHeldReply *reply)
{
    if (h->state != HOLDINGS_COUNTED) {
        return;
    }
    if (reply->n_drop > 0) {
        drop(h, reply);
    }
    if (!reply->again) {
        held_told(&h->held, &h->page);
    }
    open_if_told(h);
}

/* ---- What is to go ---- */

/* What is left of it the manager says again. */
static void keep_what_is_gone(struct holdings *h)
{
    size_t kept = 0;

    for (size_t i = 0; i < h->collect_count; i++) {
        if (!collector_failed(&h->collector, &h->collect[i])) {
            h->collect[kept++] = h->collect[i];
        }
    }
    h->collect_count = kept;
}

static void on_collected(void *data, int status)
{
    struct holdings *h = data;

    if (h->stopped) {
        return;
    }
    if (h->collecting) {
        h->collecting = false;
        keep_what_is_gone(h);
        h->collected = status == 0 && h->collect_count > 0;
        h->collected_sent = false;
    }
    open_if_told(h);
    h->news(h->data);
}

void holdings_report_fill(struct holdings *h, Morsel__DonorReportRequest *request)
{
    h->collected_sent = false;
    if (!h->collected) {
        return;
    }
    request->collected = pack_runs(h->collect, h->collect_count);
    if (request->collected != NULL) {
        request->n_collected = h->collect_count;
        h->collected_sent = true;
    }
}

void holdings_report_free(Morsel__DonorReportRequest *request)
{
    free(request->collected);
    request->collected = NULL;
    request->n_collected = 0;
}

void holdings_reported(struct holdings *h, const Morsel__DonorReportReply *reply)
{
    if (h->collected_sent) {
        h->collected = h->collected_sent = false;
    }
    /* While all is counted nothing may change. The manager says it again. */
    if (h->state == HOLDINGS_COUNTING || reply->n_collect == 0 || h->collector.busy ||
        h->collected) {
        return;
    }
    h->collect_count = reply->n_collect < SET_RUNS_MAX ? reply->n_collect : SET_RUNS_MAX;
    unpack_runs(reply->collect, h->collect_count, h->collect);
    h->collecting = collector_start(&h->collector, h->collect, h->collect_count) == 0;
}

/* ---- Start and end ---- */

void holdings_start(struct holdings *h)
{
    h->collector.server = h->server;
    h->collector.done = on_collected;
    h->collector.data = h;
    start_count(h);
}

void holdings_stop(struct holdings *h)
{
    h->stopped = true;
}

void holdings_free(struct holdings *h)
{
    free(h->list.ids);
    h->list = (struct object_list){ .ids = NULL };
    held_free(&h->held);
    collector_free(&h->collector);
}
