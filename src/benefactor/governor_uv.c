/* Looks in the pool; requests wait in a list for tokens. */
#include "benefactor/governor_uv.h"

#include "benefactor/host_file.h"
#include "benefactor/machine_file.h"
#include "common/base/status.h"

#include <stdlib.h>

enum { TICKS_A_SECOND = 100 /* Of /proc/stat. */ };

/* A look, in the pool. */
struct governor_eye
{
    int fd;
    struct governor_machine machine;
    struct governor_own own;
};

/* A request that waits. */
struct held
{
    struct list node;
    struct rpc_request *request;
    uint64_t bytes;
    uint64_t since_ms;
};

static void drain(struct governor_uv *g);
static void look(struct governor_uv *g);

/* ---- Looks ---- */

static void run_look(uv_work_t *work)
{
    struct governor_eye *eye = work->data;
    struct cost_counts counts = { 0 };

    machine_look(eye->fd, &eye->machine);
    host_cost(&counts);
    eye->own.cpu_ticks = counts.cpu_us * TICKS_A_SECOND / 1000000;
    eye->own.bytes = counts.read + counts.written;
}

static void adapt(struct governor_uv *g, uint64_t now_ms)
{
    const uint64_t rate = governor_rate(&g->governor);

    bucket_change(&g->bucket, rate,
                  rate == UINT64_MAX ? GOVERNOR_BURST_BYTES
                                     : (uint64_t)GOVERNOR_BURST_BYTES << 2 * g->governor.level,
                  now_ms);
    g->changed(g->data);
    drain(g);
}

static void on_looked(uv_work_t *work, int canceled)
{
    struct governor_uv *g = CONTAINER_OF(work, struct governor_uv, work);
    const uint64_t now_ms = rpc_boot_ms();
    struct governor_eye *eye = g->eye;
    const enum governor_reason before = g->governor.reason;

    g->eye = NULL;
    if (canceled == 0 && !g->stopped &&
        governor_look(&g->governor, &eye->machine, &eye->own, now_ms)) {
        if (g->governor.reason != before) {
            log_debug(g->log, "governor: %s", governor_words(g->governor.reason));
        }
        adapt(g, now_ms);
    }
    free(eye);
}

static void on_look_timer(uv_timer_t *timer)
{
    struct governor_uv *g = timer->data;

    if (g->held_count == 0 && rpc_boot_ms() - g->asked_ms > GOVERNOR_AWAKE_MS) {
        g->awake = false;
        uv_timer_stop(timer);
    } else {
        look(g);
    }
}

static void look(struct governor_uv *g)
{
    struct governor_eye *eye;

    if (g->eye != NULL || (eye = calloc(1, sizeof(*eye))) == NULL) {
        return;
    }
    eye->fd = g->fd;
    g->work.data = eye;
    if (uv_queue_work(g->loop, &g->work, run_look, on_looked) != 0) {
        free(eye);
        return;
    }
    g->eye = eye;
}

/* ---- Requests ---- */

static void on_token_timer(uv_timer_t *timer)
{
    drain(timer->data);
}

/* Who asks gives up after a while, and asks again: what was served then would be for nobody, and once it begins, all is. So who has
 * waited for long goes, whatever the rate: in the debt of nobody, for the next ones could not pay it back either. */
static uint64_t wait_ms(struct governor_uv *g, const struct held *held)
{
    const uint64_t now_ms = rpc_boot_ms(), until_ms = held->since_ms + GOVERNOR_HELD_MS_MAX;
    uint64_t tokens_ms;

    if (now_ms >= until_ms || bucket_take(&g->bucket, held->bytes, now_ms)) {
        return 0;
    }
    tokens_ms = bucket_wait_ms(&g->bucket, now_ms);
    return tokens_ms < until_ms - now_ms ? tokens_ms : until_ms - now_ms;
}

static void drain(struct governor_uv *g)
{
    while (g->held_count > 0) {
        struct held *held = LIST_ENTRY(list_front(&g->held), struct held, node);
        const uint64_t left_ms = wait_ms(g, held);

        if (left_ms > 0) {
            uv_timer_start(&g->token_timer, on_token_timer, left_ms, 0);
            return;
        }
        list_remove(&held->node);
        g->held_count--;
        g->pass(g->data, held->request);
        free(held);
    }
}

static bool hold(struct governor_uv *g, struct rpc_request *request, uint64_t bytes)
{
    struct held *held = g->held_count < GOVERNOR_HELD_MAX ? malloc(sizeof(*held)) : NULL;

    if (held == NULL) {
        rpc_reply_failure(request, MORSEL_OVERLOAD,
                          "the owner of this benefactor needs his machine, and too many wait");
        return false;
    }
    held->request = request;
    held->bytes = bytes;
    held->since_ms = rpc_boot_ms();
    list_init(&held->node);
    list_push_back(&g->held, &held->node);
    g->held_count++;
    g->held_total++;
    drain(g);
    return false;
}

bool governor_ask(struct governor_uv *g, struct rpc_request *request, uint64_t bytes)
{
    const uint64_t now_ms = rpc_boot_ms();

    if (!g->gentle) {
        return true;
    }
    g->asked_ms = now_ms;
    if (!g->awake) {
        g->awake = true;
        look(g);
        uv_timer_start(&g->look_timer, on_look_timer, GOVERNOR_LOOK_MS, GOVERNOR_LOOK_MS);
    }
    return (g->held_count == 0 && bucket_take(&g->bucket, bytes, now_ms)) ||
           hold(g, request, bytes);
}

/* ---- Start and end ---- */

void governor_start(struct governor_uv *g)
{
    const uint64_t now_ms = rpc_boot_ms();

    list_init(&g->held);
    if (g->gentle) {
        governor_init(&g->governor, now_ms);
    } else {
        governor_init_off(&g->governor, now_ms);
    }
    bucket_init(&g->bucket, governor_rate(&g->governor), GOVERNOR_BURST_BYTES, now_ms);
    uv_timer_init(g->loop, &g->look_timer);
    uv_timer_init(g->loop, &g->token_timer);
    g->look_timer.data = g->token_timer.data = g;
    g->started = true;
}

void governor_stop(struct governor_uv *g)
{
    if (!g->started || g->stopped) {
        return;
    }
    g->stopped = true;
    uv_close((uv_handle_t *)&g->look_timer, NULL);
    uv_close((uv_handle_t *)&g->token_timer, NULL);
    if (g->eye != NULL) {
        (void)uv_cancel((uv_req_t *)&g->work);
    }
    while (g->held_count > 0) {
        struct held *held = LIST_ENTRY(list_front(&g->held), struct held, node);

        list_remove(&held->node);
        g->held_count--;
        rpc_reply_failure(held->request, MORSEL_SHUTDOWN, NULL);
        free(held);
    }
}
