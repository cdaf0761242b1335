/* What the kernel believes of an open file (kernel_view.h). */
#include "client/coherence/kernel_view.h"

#include "common/base/check.h"

/* What has just come in was asked since we looked last, about so long ago. */
enum { KERNEL_CROSSES_MS = 1, NS_PER_S = 1000000000 };

void kernel_view_init(struct kernel_view *v)
{
    *v = (struct kernel_view){ .size = 0 };
    list_init(&v->held);
}

bool kernel_view_is_idle(const struct kernel_view *v)
{
    return list_empty(&v->held);
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

void kernel_question_answer(struct kernel_question *q, struct kernel_view *v, bool shared,
                            uint32_t *never_twice, struct kernel_answer *answer)
{
    uint64_t before = v->size;

    answer->drop = false;
    if (shared) {
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
}

bool kernel_question_crossed(const struct kernel_question *q, struct kernel_view *v, bool drops)
{
    if (q->shorter == 0 || v == NULL ||
        (!q->crossed && v->changes == q->changes && v->writes == 0 && !drops)) {
        return false;
    }
    v->size = q->shorter;
    return true;
}

/* ---- What it is at ---- */

void kernel_view_asks(struct kernel_view *v)
{
    v->asks++;
}

/* The file may have been opened since it asked. */
void kernel_view_asked(struct kernel_view *v)
{
    v->asks -= v->asks > 0;
}

bool kernel_handle_is_direct(const struct kernel_handle *h)
{
    bool appends = h->append && h->writes;

    return h->maps_direct ? h->shared || appends : appends && !h->reads;
}

void kernel_view_reads(struct kernel_view *v)
{
    v->reads++;
}

void kernel_view_read_ends(struct kernel_view *v, struct list *free)
{
    CHECK(v->reads > 0);
    v->reads--;
    LIST_FOREACH_SAFE(node, &v->held)
    {
        struct kernel_write *w = LIST_ENTRY(node, struct kernel_write, node);

        if (--w->behind == 0) { /* Whichever READs ended: there were so many before it. */
            list_remove(node);
            list_push_back(free, node);
        }
        CHECK(w->behind <= v->reads);
    }
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
    if (end > v->size) {
        v->size = end;
    }
    list_init(&w->node);
    w->behind = more ? 0 : v->reads;
    if (w->behind > 0) {
        list_push_back(&v->held, &w->node);
    }
    return w->behind == 0;
}

void kernel_view_write_ends(struct kernel_view *v, uint64_t now_ms)
{
    CHECK(v->writes > 0);
    v->writes--;
    kernel_view_changed(v, now_ms);
}

/* ---- What is mapped ---- */

bool kernel_view_grows_old(struct kernel_view *v, bool shared)
{
    v->pages_old |= shared;
    return v->pages_old;
}

bool kernel_view_may_freshen(const struct kernel_view *v)
{
    return v->asks == 0;
}

void kernel_view_freshened(struct kernel_view *v, bool shared)
{
    v->pages_old = shared;
}
