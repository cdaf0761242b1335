/* What the kernel believes of an open file (kernel_view.h). */
#include "client/coherence/kernel_view.h"

#include "common/base/check.h"

/* What has just come in was asked since we looked last, about so long ago. */
enum { KERNEL_CROSSES_MS = 1, NS_PER_S = 1000000000 };

void kernel_view_init(struct kernel_view *v)
{
    *v = (struct kernel_view){ .size = 0 };
    list_init(&v->held);
    list_init(&v->awaited);
}

void kernel_view_end(struct kernel_view *v)
{
    CHECK(list_empty(&v->held));
    list_remove(&v->awaited);
}

/* ---- What it is told ---- */

void kernel_view_changed(struct kernel_view *v, uint64_t now_ms)
{
    v->changes++;
    v->changed_ms = now_ms;
}

void kernel_view_told(struct kernel_view *v, uint64_t size, const struct timespec *mtime)
{
    v->mtime = *mtime;
    v->size = size;
    v->written = v->written < size ? v->written : size;
}

void kernel_question_begin(struct kernel_question *q, const struct kernel_view *v, uint64_t now_ms)
{
    q->changes = v != NULL ? v->changes : 0;
    q->crossed |= v != NULL && v->changed_ms + KERNEL_CROSSES_MS >= now_ms;
}

void kernel_question_delayed(struct kernel_question *q)
{
    q->crossed = true;
}

static bool is_known(const struct timespec *t)
{
    return t->tv_sec != 0 || t->tv_nsec != 0;
}

static bool is_same(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

void kernel_question_answer(struct kernel_question *q, struct kernel_view *v, uint64_t lease,
                            uint32_t *never_twice, struct kernel_answer *answer)
{
    uint64_t before = v->size;

    answer->drop = false;
    if (lease == 0) {
        answer->drop = answer->size >= before;
        if (!answer->drop) {
            answer->mtime.tv_nsec = (answer->mtime.tv_nsec + ++*never_twice) % NS_PER_S;
        }
        v->pages_shared = true;
        answer->fleeting = true;
    } else if (v->pages_shared) {
        v->pages_shared = false; /* They end now. */
        answer->drop = true;
        answer->fleeting = true;
    } else if (is_known(&v->mtime) && !is_same(&v->mtime, &answer->mtime)) {
        answer->mtime = v->mtime;
        answer->fleeting = true;
    }
    kernel_view_told(v, answer->size, &answer->mtime);
    q->shorter = !answer->drop && answer->size < before ? before : 0;
    q->size = answer->size;
    q->lease = lease;
}

/* Has nobody but perhaps the thread an answer to a WRITE that is to be taken in? */
static bool have_written(const struct kernel_view *v, uint32_t thread, uint64_t now_ms)
{
    return now_ms >= v->wrote_ms + KERNEL_WRITER_MS || (thread != 0 && v->writer == thread);
}

/* Others may have made it longer before this lease of ours; but not where the last bytes are of the
 * kernel's own writing, and their answers taken in. */
static bool may_be_behind(const struct kernel_question *q, const struct kernel_view *v,
                          bool taken_in)
{
    return q->lease != 0 && q->lease != v->lease && q->size > (taken_in ? v->written : 0);
}

bool kernel_question_crossed(const struct kernel_question *q, struct kernel_view *v, bool drops,
                             uint32_t thread, uint64_t now_ms)
{
    bool written, crossed;

    if (v == NULL) {
        return false;
    }
    written = v->writes == 0 && have_written(v, thread, now_ms);
    crossed = q->crossed || v->changes != q->changes || drops || !written;
    if (crossed && q->shorter == 0 && !may_be_behind(q, v, written)) {
        return false;
    }
    if (q->lease != 0) {
        v->lease = q->lease;
    }
    if (crossed && q->shorter > 0) {
        v->size = q->shorter;
    } else if (crossed && v->size < q->size) {
        v->size = q->size; /* Something else was told since. */
    }
    return crossed;
}

/* ---- Has it been taken in? ---- */

static bool is_awaited(const struct kernel_view *v)
{
    return !list_empty(&v->awaited);
}

/* Those go that have nothing to wait for any more. */
static void free_held(struct kernel_view *v, struct list *free)
{
    LIST_FOREACH_SAFE(node, &v->held)
    {
        if (LIST_ENTRY(node, struct kernel_write, node)->behind == 0 && !is_awaited(v)) {
            list_remove(node);
            list_push_back(free, node);
        }
    }
}

/* Of several answers the last one counts: when it is taken in the file is as short as that. */
void kernel_question_answered(const struct kernel_question *q, struct kernel_view *v,
                              uint32_t thread, uint64_t now_ms, struct list *awaited)
{
    if (v == NULL || q->shorter == 0) {
        return;
    }
    list_remove(&v->awaited);
    list_push_back(awaited, &v->awaited);
    v->taker = thread;
    v->taken_in_ms = now_ms + KERNEL_TAKES_IN_MS;
}

void kernel_views_heard(struct list *awaited, uint32_t thread, struct list *free)
{
    LIST_FOREACH_SAFE(node, awaited)
    {
        struct kernel_view *v = LIST_ENTRY(node, struct kernel_view, awaited);

        if (thread != 0 && v->taker == thread) {
            list_remove(node);
            free_held(v, free);
        }
    }
}

void kernel_views_late(struct list *awaited, uint64_t now_ms, struct list *free)
{
    while (kernel_views_due_ms(awaited) <= now_ms) {
        struct kernel_view *v = LIST_ENTRY(list_front(awaited), struct kernel_view, awaited);

        list_remove(&v->awaited);
        free_held(v, free);
    }
}

uint64_t kernel_views_due_ms(const struct list *awaited)
{
    struct list *first = list_front(awaited);

    return first == NULL ? UINT64_MAX : LIST_ENTRY(first, struct kernel_view, awaited)->taken_in_ms;
}

/* ---- What it is at ---- */

void kernel_view_asks(struct kernel_view *v)
{
    v->asks++;
}

/* The file may have been opened since it asked. */
void kernel_view_asked(struct kernel_view *v, uint64_t now_ms)
{
    v->asks -= v->asks > 0;
    v->asked_ms = now_ms;
    v->read_follows = true;
}

static bool has_asked(const struct kernel_view *v, uint64_t now_ms)
{
    return v->asks > 0 || now_ms < v->asked_ms + KERNEL_QUIET_MS;
}

bool kernel_handle_is_direct(const struct kernel_handle *h)
{
    bool appends = h->append && h->writes;

    return h->maps_direct ? h->shared || appends : appends && !h->reads;
}

void kernel_view_reads(struct kernel_view *v, struct kernel_read *r, uint64_t now_ms)
{
    *r = (struct kernel_read){ .counts = true, .asked = has_asked(v, now_ms) || v->read_follows };
    v->read_follows = false;
    v->read_ms = v->reads == 0 ? now_ms : v->read_ms;
    v->reads++;
    v->asked_reads += r->asked;
    v->pages_shared = true; /* Its bytes may be old when the file is ours again. */
}

void kernel_view_read_ends(struct kernel_view *v, const struct kernel_read *r, uint64_t now_ms,
                           struct list *free)
{
    if (!r->counts) {
        return;
    }
    CHECK(v->reads > 0 && v->asked_reads >= r->asked);
    v->reads--;
    v->asked_reads -= r->asked;
    v->read_ms = now_ms;
    v->asked_ms = r->asked ? now_ms : v->asked_ms;
    LIST_FOREACH(node, &v->held)
    {
        struct kernel_write *w = LIST_ENTRY(node, struct kernel_write, node);

        w->behind -= w->behind > 0; /* Whichever READ ended: there were so many before it. */
        CHECK(w->behind <= v->reads);
    }
    free_held(v, free);
}

void kernel_view_writes(struct kernel_view *v)
{
    v->writes++;
}

bool kernel_view_wrote(struct kernel_view *v, struct kernel_write *w, bool direct, uint64_t end,
                       bool more)
{
    /* Somebody may have read the old bytes into the pages meanwhile: the next who reads through them
     * asks, and they go. */
    v->pages_shared |= direct;
    v->size = v->size > end ? v->size : end;
    v->written = v->written > end ? v->written : end;
    list_init(&w->node);
    w->behind = v->reads;
    if (more || (w->behind == 0 && !is_awaited(v))) {
        return true;
    }
    list_push_back(&v->held, &w->node);
    return false;
}

void kernel_view_write_ends(struct kernel_view *v, uint32_t thread, uint64_t now_ms)
{
    CHECK(v->writes > 0);
    v->writes--;
    v->writer = have_written(v, thread, now_ms) ? thread : 0;
    v->wrote_ms = now_ms;
    kernel_view_changed(v, now_ms);
}

/* ---- What is mapped ---- */

bool kernel_view_grows_old(struct kernel_view *v, bool shared)
{
    v->pages_old |= shared;
    return v->pages_old;
}

bool kernel_view_may_freshen(const struct kernel_view *v, uint64_t now_ms)
{
    return !has_asked(v, now_ms) && v->asked_reads == 0 &&
           (v->reads == 0 || now_ms < v->read_ms + KERNEL_READ_LONG_MS);
}

void kernel_view_freshened(struct kernel_view *v, bool shared)
{
    v->pages_old = shared;
}
