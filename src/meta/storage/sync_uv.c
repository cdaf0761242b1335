/* One sync in the pool, and a queue of those who wait for the next. */
#include "meta/storage/sync_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"

static void start(struct sync_uv *s);

static void on_work(uv_work_t *work)
{
    struct sync_uv *s = work->data;

    s->status = s->kv->sync(s->kv, &s->err);
}

/* Some may have come behind the last sync, and come again when they hear that there is no other. */
static void on_timer_closed(uv_handle_t *handle)
{
    struct sync_uv *s = handle->data;
    struct list late, *node;

    list_init(&late);
    while ((node = list_pop_front(&s->waiting)) != NULL) {
        list_push_back(&late, node);
    }
    while ((node = list_pop_front(&late)) != NULL) {
        struct sync_waiter *waiter = LIST_ENTRY(node, struct sync_waiter, node);

        waiter->done(waiter, MORSEL_SHUTDOWN);
    }
    s->closed(s->data);
}

/* What was asked for while the sync ran. */
static void go_on(struct sync_uv *s)
{
    if (!list_empty(&s->waiting) || (s->closing && s->changed && s->status == 0)) {
        start(s);
    } else if (s->closing) {
        s->ended = true;
        uv_close((uv_handle_t *)&s->timer, on_timer_closed);
    } else if (s->changed) {
        sync_changed(s);
    }
}

static void on_work_done(uv_work_t *work, int uv_status)
{
    struct sync_uv *s = work->data;
    struct list *node;

    CHECK(uv_status == 0); /* It is never cancelled. */
    s->syncs++;
    if (s->status == 0) {
        s->durable = s->begun;
    } else {
        s->failed(s->data, s->status, &s->err);
    }
    while ((node = list_pop_front(&s->served)) != NULL) {
        struct sync_waiter *waiter = LIST_ENTRY(node, struct sync_waiter, node);

        waiter->done(waiter, s->status);
    }
    s->running = false; /* Not before: whoever asks again inside done() waits for the next sync. */
    go_on(s);
}

static void start(struct sync_uv *s)
{
    struct list *node;
    int rv;

    if (s->running || s->ended) {
        return;
    }
    s->running = true;
    s->changed = false;
    s->begun = s->number(s->data);
    uv_timer_stop(&s->timer);
    while ((node = list_pop_front(&s->waiting)) != NULL) {
        list_push_back(&s->served, node);
    }
    rv = uv_queue_work(s->loop, &s->work, on_work, on_work_done);
    CHECK(rv == 0); /* Fails only without a work function. */
}

static void on_timer(uv_timer_t *timer)
{
    start(timer->data);
}

void sync_init(struct sync_uv *s, uv_loop_t *loop, struct kv *kv)
{
    s->loop = loop;
    s->kv = kv;
    s->running = s->changed = s->closing = s->ended = false;
    s->syncs = 0;
    s->status = 0;
    s->begun = s->durable = 0;
    s->work.data = s;
    list_init(&s->waiting);
    list_init(&s->served);
    (void)uv_timer_init(loop, &s->timer);
    s->timer.data = s;
}

void sync_changed(struct sync_uv *s)
{
    s->changed = true;
    if (!s->running && !s->closing && !uv_is_active((uv_handle_t *)&s->timer)) {
        uv_timer_start(&s->timer, on_timer, SYNC_DELAY_MS, 0);
    }
}

void sync_wait(struct sync_uv *s, struct sync_waiter *waiter,
               void (*done)(struct sync_waiter *waiter, int status))
{
    waiter->done = done;
    list_push_back(&s->waiting, &waiter->node);
    start(s);
}

bool sync_is_done(const struct sync_uv *s)
{
    return !s->changed && !s->running;
}

void sync_close(struct sync_uv *s, void (*closed)(void *data))
{
    CHECK(!s->closing);
    s->closing = true;
    s->closed = closed;
    s->changed = true;
    uv_timer_stop(&s->timer);
    start(s);
}
