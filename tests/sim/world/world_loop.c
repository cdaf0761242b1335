/* libuv's event loop on the world's queue: timers, idle, prepare, check and poll handles, the pool.
 *
 * An iteration runs as libuv's does: timers, idle, prepare, what has come, check, closing. It comes
 * a drawn moment after what woke it, and again until nothing is left to do. */
#include "tests/sim/world/world.h"

#include <stdlib.h>
#include <string.h>

enum { WATCHERS_MAX = 64 };

struct world_loop
{
    struct world_process *process;
    struct list handles, ready, closing;
    struct list ended; /* struct world_work: of the pool. */
    uint64_t time_ms;
    uint64_t wake_at_ns, wake_sequence; /* The next iteration; UINT64_MAX: none is due. */
    uint64_t timers_started;
    unsigned works; /* Queued, or under way. */
};

struct world_work
{
    struct list node;
    struct world_process *process;
    uv_loop_t *loop;
    uv_req_t *req;
    void (*work)(struct world_work *w);
    void (*after)(struct world_work *w, int status);
    int status;
    unsigned holds; /* It has not ended yet. */
};

struct wake
{
    struct world_loop *loop;
    uint64_t sequence;
};

static uint64_t host_ns(const struct world_process *p)
{
    return p == NULL ? the_world->now_ns : world_host_passed_ns(p->host) + p->host->boot_offset_ns;
}

struct world_process *world_loop_process(const struct world_loop *loop)
{
    return loop->process;
}

static struct world_loop *loop_of(const uv_loop_t *loop)
{
    return loop->internal_fields;
}

/* ---- The loop ---- */

void world_process_adopt_loop(struct world_process *p, uv_loop_t *loop)
{
    CHECK(uv_loop_init(loop) == 0);
    p->loop = loop_of(loop);
    p->loop->process = p;
    p->loop->time_ms = host_ns(p) / 1000000;
}

int uv_loop_init(uv_loop_t *loop)
{
    struct world_loop *l = calloc(1, sizeof(*l));

    CHECK(l != NULL);
    memset(loop, 0, sizeof(*loop));
    loop->internal_fields = l;
    list_init(&l->handles);
    list_init(&l->ready);
    list_init(&l->closing);
    list_init(&l->ended);
    l->wake_at_ns = UINT64_MAX;
    return 0;
}

void uv_update_time(uv_loop_t *loop)
{
    loop_of(loop)->time_ms = host_ns(loop_of(loop)->process) / 1000000;
}

uint64_t uv_now(const uv_loop_t *loop)
{
    return loop_of(loop)->time_ms;
}

/* Looking at the clock takes time too: who waits for it to move does not wait for ever. */
int uv_gettimeofday(uv_timeval64_t *tv)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now); /* The world's. */
    tv->tv_sec = now.tv_sec;
    tv->tv_usec = (int32_t)(now.tv_nsec / 1000);
    return 0;
}

uint64_t uv_hrtime(void)
{
    the_world->now_ns += 500;
    return host_ns(the_world->current);
}

static unsigned run_timers(struct world_loop *l)
{
    unsigned ran = 0;

    while (ran < 10000) {
        struct world_side *next = NULL;

        LIST_FOREACH(node, &l->handles)
        {
            struct world_side *side = LIST_ENTRY(node, struct world_side, node);

            if (side->handle->type == UV_TIMER && side->active && side->due_ms <= l->time_ms &&
                (next == NULL || side->due_ms < next->due_ms ||
                 (side->due_ms == next->due_ms && side->order < next->order))) {
                next = side;
            }
        }
        if (next == NULL) {
            return ran;
        }
        uv_timer_t *timer = (uv_timer_t *)next->handle;
        next->active = false;
        if (next->repeat_ms != 0) {
            (void)uv_timer_start(timer, next->cb.timer, next->repeat_ms, next->repeat_ms);
        }
        next->cb.timer(timer);
        ran++;
    }
    world_fail("%s runs timers for ever", l->process->name);
}

/* Any of them may stop or close others: none is freed before the closing phase. */
static unsigned run_watchers(struct world_loop *l, uv_handle_type type)
{
    struct world_side *sides[WATCHERS_MAX];
    unsigned count = 0, ran = 0;

    LIST_FOREACH(node, &l->handles)
    {
        struct world_side *side = LIST_ENTRY(node, struct world_side, node);

        if (side->handle->type == type && side->active) {
            CHECK(count < WATCHERS_MAX);
            sides[count++] = side;
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (!sides[i]->active) {
            continue;
        }
        ran++;
        if (type == UV_IDLE) {
            sides[i]->cb.idle((uv_idle_t *)sides[i]->handle);
        } else if (type == UV_PREPARE) {
            sides[i]->cb.prepare((uv_prepare_t *)sides[i]->handle);
        } else {
            sides[i]->cb.check((uv_check_t *)sides[i]->handle);
        }
    }
    return ran;
}

static unsigned run_ended_work(struct world_loop *l)
{
    struct list *node;
    unsigned ran = 0;

    while ((node = list_pop_front(&l->ended)) != NULL) {
        l->works--;
        struct world_work *w = LIST_ENTRY(node, struct world_work, node);

        w->after(w, w->status);
        free(w);
        ran++;
    }
    return ran;
}

/* What came before we looked; what comes meanwhile is for the next time. */
static unsigned run_ready(struct world_loop *l)
{
    struct list now;
    struct list *node;
    unsigned ran = run_ended_work(l);

    list_init(&now);
    while ((node = list_pop_front(&l->ready)) != NULL) {
        list_push_back(&now, node);
    }
    while ((node = list_pop_front(&now)) != NULL) {
        struct world_side *side = LIST_ENTRY(node, struct world_side, ready);

        side->on_ready(side);
        ran++;
    }
    return ran;
}

static unsigned run_closing(struct world_loop *l)
{
    struct list *node;
    struct list now;
    unsigned ran = 0;

    list_init(&now);
    while ((node = list_pop_front(&l->closing)) != NULL) {
        list_push_back(&now, node);
    }
    while ((node = list_pop_front(&now)) != NULL) {
        struct world_side *side = LIST_ENTRY(node, struct world_side, node);
        uv_handle_t *handle = side->handle;

        if (side->on_close != NULL) {
            side->on_close(side);
        }
        handle->u.reserved[0] = NULL;
        free(side);
        if (handle->close_cb != NULL) {
            handle->close_cb(handle);
        }
        ran++;
    }
    return ran;
}

static void arm_timers(struct world_loop *l)
{
    uint64_t due_ms = UINT64_MAX;

    LIST_FOREACH(node, &l->handles)
    {
        struct world_side *side = LIST_ENTRY(node, struct world_side, node);

        if (side->handle->type == UV_TIMER && side->active && side->due_ms < due_ms) {
            due_ms = side->due_ms;
        }
    }
    if (due_ms != UINT64_MAX) {
        uint64_t due_ns = due_ms * 1000000, now_ns = host_ns(l->process);

        uint64_t wait_ns = due_ns > now_ns ? due_ns - now_ns : 0;

        world_loop_wake(l, the_world->now_ns + world_host_takes_ns(l->process->host, wait_ns));
    }
}

/* uv_run() returns when no handle and no request is left. */
static void end_if_over(struct world_loop *l)
{
    struct world_process *p = l->process;
    void (*over)(void *data) = p->over;

    if (over != NULL && list_empty(&l->handles) && list_empty(&l->closing) && l->works == 0) {
        p->over = NULL;
        over(p->over_data);
    }
}

void world_process_when_over(struct world_process *p, void (*over)(void *data), void *data)
{
    p->over = over;
    p->over_data = data;
    world_loop_wake(p->loop, the_world->now_ns);
}

static void iterate(void *data)
{
    struct wake *wake = data;
    struct world_loop *l = wake->loop;
    struct world_process *p = l->process;
    unsigned ran;

    if (wake->sequence != l->wake_sequence || !p->alive) {
        free(wake);
        return;
    }
    if (p->frozen_until_ns > the_world->now_ns) {
        world_at(p->frozen_until_ns, iterate, wake);
        return;
    }
    free(wake);
    l->wake_at_ns = UINT64_MAX;
    the_world->current = p;
    the_world->counts.iterations++;
    l->time_ms = host_ns(p) / 1000000;
    ran = run_timers(l);
    ran += run_watchers(l, UV_IDLE);
    (void)run_watchers(l, UV_PREPARE);
    l->time_ms = host_ns(p) / 1000000;
    ran += run_ready(l);
    (void)run_watchers(l, UV_CHECK);
    ran += run_closing(l);
    if (ran > 0 || !list_empty(&l->ready)) {
        world_loop_wake(l, the_world->now_ns + 1000 + world_draw_skewed(20000));
    }
    arm_timers(l);
    end_if_over(l);
    the_world->current = NULL;
}

void world_loop_wake(struct world_loop *l, uint64_t at_ns)
{
    struct wake *wake;

    if (at_ns >= l->wake_at_ns) {
        return;
    }
    wake = malloc(sizeof(*wake));
    CHECK(wake != NULL);
    l->wake_at_ns = at_ns;
    *wake = (struct wake){ l, ++l->wake_sequence };
    world_at(at_ns, iterate, wake);
}

/* The scheduler lets it run a moment later. */
static void wake_soon(struct world_loop *l)
{
    uint64_t delay_ns =
        world_chance(1000) ? world_draw(20 * WORLD_MS) : 2000 + world_draw_skewed(200000);

    if (l->wake_at_ns > the_world->now_ns + 2000) {
        world_loop_wake(l, the_world->now_ns + delay_ns);
    }
}

/* ---- Handles ---- */

struct world_side *world_side_of(const uv_handle_t *handle)
{
    return handle->u.reserved[0];
}

struct world_side *world_side_new(uv_loop_t *loop, uv_handle_t *handle, uv_handle_type type)
{
    struct world_side *side = calloc(1, sizeof(*side));

    CHECK(side != NULL);
    handle->loop = loop;
    handle->type = type;
    handle->close_cb = NULL;
    handle->flags = 0;
    handle->u.reserved[0] = side;
    side->handle = handle;
    side->loop = loop_of(loop);
    list_init(&side->node);
    list_init(&side->ready);
    list_push_back(&side->loop->handles, &side->node);
    return side;
}

void world_side_ready(struct world_side *side)
{
    if (!side->closing && list_empty(&side->ready)) {
        list_push_back(&side->loop->ready, &side->ready);
        wake_soon(side->loop);
    }
}

void uv_close(uv_handle_t *handle, uv_close_cb close_cb)
{
    struct world_side *side = world_side_of(handle);

    CHECK(side != NULL && !side->closing);
    side->closing = true;
    side->active = false;
    handle->close_cb = close_cb;
    list_remove(&side->ready);
    list_remove(&side->node);
    list_push_back(&side->loop->closing, &side->node);
    wake_soon(side->loop);
}

int uv_is_closing(const uv_handle_t *handle)
{
    const struct world_side *side = world_side_of(handle);

    return side == NULL || side->closing;
}

int uv_is_active(const uv_handle_t *handle)
{
    const struct world_side *side = world_side_of(handle);

    return side != NULL && side->active;
}

void uv_unref(uv_handle_t *handle)
{
    (void)handle; /* They are closed before a loop of ours ends. */
}

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer)
{
    (void)world_side_new(loop, (uv_handle_t *)timer, UV_TIMER);
    return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
    struct world_side *side = world_side_of((uv_handle_t *)timer);

    if (side == NULL || side->closing || cb == NULL) {
        return UV_EINVAL;
    }
    side->cb.timer = cb;
    side->due_ms =
        side->loop->time_ms + timeout < timeout ? UINT64_MAX : side->loop->time_ms + timeout;
    side->repeat_ms = repeat;
    side->order = ++side->loop->timers_started;
    side->active = true;
    if (the_world->current != side->loop->process) {
        arm_timers(side->loop);
    } else {
        wake_soon(side->loop);
    }
    return 0;
}

uint64_t uv_timer_get_due_in(const uv_timer_t *timer)
{
    const struct world_side *side = world_side_of((const uv_handle_t *)timer);

    return side == NULL || side->due_ms <= side->loop->time_ms ? 0
                                                               : side->due_ms - side->loop->time_ms;
}

int uv_timer_stop(uv_timer_t *timer)
{
    struct world_side *side = world_side_of((uv_handle_t *)timer);

    if (side != NULL) {
        side->active = false;
    }
    return 0;
}

#define WATCHER(name, type)                                                                        \
    int uv_##name##_init(uv_loop_t *loop, uv_##name##_t *handle)                                   \
    {                                                                                              \
        (void)world_side_new(loop, (uv_handle_t *)handle, type);                                   \
        return 0;                                                                                  \
    }                                                                                              \
    int uv_##name##_start(uv_##name##_t *handle, uv_##name##_cb cb)                                \
    {                                                                                              \
        struct world_side *side = world_side_of((uv_handle_t *)handle);                            \
                                                                                                   \
        side->cb.name = cb;                                                                        \
        side->active = true;                                                                       \
        wake_soon(side->loop);                                                                     \
        return 0;                                                                                  \
    }                                                                                              \
    int uv_##name##_stop(uv_##name##_t *handle)                                                    \
    {                                                                                              \
        struct world_side *side = world_side_of((uv_handle_t *)handle);                            \
                                                                                                   \
        if (side != NULL) {                                                                        \
            side->active = false;                                                                  \
        }                                                                                          \
        return 0;                                                                                  \
    }
WATCHER(idle, UV_IDLE)
WATCHER(prepare, UV_PREPARE)
WATCHER(check, UV_CHECK)

/* A descriptor can always be written to, and be read when world_poll_readable() has said so. */
static void on_poll_ready(struct world_side *side)
{
    int events = side->events & side->events_wanted;

    events |= side->events_wanted & UV_WRITABLE;
    side->events &= ~UV_READABLE;
    if (side->active && events != 0) {
        side->cb.poll((uv_poll_t *)side->handle, 0, events);
        if (!side->closing && side->active && (side->events_wanted & UV_WRITABLE) != 0) {
            world_side_ready(side);
        }
    }
}

int uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd)
{
    struct world_side *side = world_side_new(loop, (uv_handle_t *)poll, UV_POLL);

    (void)fd;
    side->on_ready = on_poll_ready;
    return 0;
}

int uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb cb)
{
    struct world_side *side = world_side_of((uv_handle_t *)poll);

    side->cb.poll = cb;
    side->events_wanted = events;
    side->active = true;
    world_side_ready(side);
    return 0;
}

int uv_poll_stop(uv_poll_t *poll)
{
    world_side_of((uv_handle_t *)poll)->active = false;
    return 0;
}

void world_poll_readable(uv_poll_t *poll)
{
    struct world_side *side = world_side_of((uv_handle_t *)poll);

    if (side != NULL) {
        side->events |= UV_READABLE;
        world_side_ready(side);
    }
}

/* ---- The pool ---- */

static struct world_work *working_now;

static void pool_feed(struct world_process *p);

static uint64_t work_takes_ns(const struct world_process *p)
{
    uint64_t ns =
        3000 + world_draw_skewed(world_chance(500) ? 1000 * WORLD_MS : the_world->disk_max_ns);
    const struct world_host *host = p->host;
    uint64_t left_ns;

    if (host->disk_slow_until_ns <= the_world->now_ns) {
        return ns;
    }
    left_ns = host->disk_slow_until_ns - the_world->now_ns;
    if (host->disk_slow_times == 0) {
        return left_ns + ns;
    }
    return ns * host->disk_slow_times <= left_ns ? ns * host->disk_slow_times
                                                 : left_ns + ns - left_ns / host->disk_slow_times;
}

static void on_work_ended(void *data)
{
    struct world_work *w = data;

    if (!w->process->alive) {
        free(w);
        return;
    }
    if (w->process->frozen_until_ns > the_world->now_ns) {
        world_at(w->process->frozen_until_ns, on_work_ended, w);
        return;
    }
    w->process->working--;
    list_push_back(&w->process->loop->ended, &w->node);
    wake_soon(w->process->loop);
    pool_feed(w->process);
}

static void on_work_due(void *data)
{
    struct world_work *w = data;

    if (!w->process->alive) {
        free(w);
        return;
    }
    if (w->process->frozen_until_ns > the_world->now_ns) {
        world_at(w->process->frozen_until_ns, on_work_due, w);
        return;
    }
    the_world->current = w->process;
    the_world->counts.works++;
    w->holds = 1;
    working_now = w;
    w->work(w);
    working_now = NULL;
    world_work_release(w);
}

struct world_work *world_work_hold(void)
{
    CHECK(working_now != NULL);
    working_now->holds++;
    return working_now;
}

void world_work_release(struct world_work *w)
{
    if (--w->holds == 0) {
        world_in(work_takes_ns(w->process), on_work_ended, w);
    }
}

static void pool_feed(struct world_process *p)
{
    struct list *node;

    while (p->working < p->threads && (node = list_pop_front(&p->work)) != NULL) {
        p->working++;
        world_in(work_takes_ns(p), on_work_due, LIST_ENTRY(node, struct world_work, node));
    }
}

static struct world_work *queue(uv_loop_t *loop, uv_req_t *req, void (*run)(struct world_work *w),
                                void (*after)(struct world_work *w, int status))
{
    struct world_work *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    *w = (struct world_work){
        .process = loop_of(loop)->process, .loop = loop, .req = req, .work = run, .after = after
    };
    list_init(&w->node);
    list_push_back(&w->process->work, &w->node);
    w->process->loop->works++;
    pool_feed(w->process);
    return w;
}

static void run_work(struct world_work *w)
{
    uv_work_t *req = (uv_work_t *)w->req;
    void (*run)(uv_work_t * req) = req->work_cb;

    run(req);
}

static void after_work(struct world_work *w, int status)
{
    uv_work_t *req = (uv_work_t *)w->req;

    if (req->after_work_cb != NULL) {
        req->after_work_cb(req, status);
    }
}

int uv_queue_work(uv_loop_t *loop, uv_work_t *req, uv_work_cb work_cb, uv_after_work_cb after_cb)
{
    req->type = UV_WORK;
    req->loop = loop;
    req->work_cb = work_cb;
    req->after_work_cb = after_cb;
    (void)queue(loop, (uv_req_t *)req, run_work, after_work);
    return 0;
}

/* What has not begun is dropped, as libuv does it. */
int uv_cancel(uv_req_t *req)
{
    struct world_process *p = the_world->current;

    LIST_FOREACH_SAFE(node, &p->work)
    {
        struct world_work *w = LIST_ENTRY(node, struct world_work, node);

        if (w->req == req) {
            list_remove(node);
            w->status = UV_ECANCELED;
            the_world->counts.cancels++;
            list_push_back(&p->loop->ended, node);
            wake_soon(p->loop);
            return 0;
        }
    }
    return UV_EBUSY;
}

/* ---- Disks and names, by the pool ---- */

static void run_statfs(struct world_work *w)
{
    (void)w;
}

static void after_statfs(struct world_work *w, int status)
{
    uv_fs_t *req = (uv_fs_t *)w->req;
    uv_statfs_t *fs = calloc(1, sizeof(*fs));

    CHECK(fs != NULL);
    fs->f_bsize = 4096;
    fs->f_blocks = fs->f_bfree = fs->f_bavail = 1 << 24;
    req->ptr = fs;
    req->result = status;
    req->cb(req);
}

int uv_fs_statfs(uv_loop_t *loop, uv_fs_t *req, const char *path, uv_fs_cb cb)
{
    (void)path;
    req->type = UV_FS;
    req->loop = loop;
    req->cb = cb;
    req->ptr = NULL;
    (void)queue(loop, (uv_req_t *)req, run_statfs, after_statfs);
    return 0;
}

void uv_fs_req_cleanup(uv_fs_t *req)
{
    free(req->ptr);
    req->ptr = NULL;
}
