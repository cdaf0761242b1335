/* Looks through the inodes, step by step, for one server that is to leave after the other. */
#include "meta/cluster/leavers_uv.h"

#include "common/base/status.h"

enum {
    LEAVERS_STEP_RECORDS = 2000,
    LEAVERS_STEP_MS = 20,    /* Between two steps of a look; */
    LEAVERS_IDLE_MS = 500,   /* between two of nothing. */
    LEAVERS_AGAIN_MS = 1000, /* A look begins again so long behind one that has found something, */
    LEAVERS_NONE_MS = 30000  /* or nothing: new files lie there only while no other server is up. */
};

static void on_timer(uv_timer_t *timer);

static void step_later(struct meta *meta, uint64_t after_ms)
{
    (void)uv_timer_start(&meta->leavers.timer, on_timer, after_ms, 0);
}

/* Of the servers that are due the one that has waited longest; NULL: none is. */
static struct member *next_due(struct meta *meta)
{
    struct member *due = NULL;

    for (uint32_t i = 0; i < meta->members.count; i++) {
        struct member *m = &meta->members.items[i];

        if (m->leaves && member_stays(m) && m->left.again_ms <= meta_now_ms(meta) &&
            (due == NULL || m->left.again_ms < due->left.again_ms)) {
            due = m;
        }
    }
    return due;
}

/* The server that is looked at, as long as it is to leave. */
static struct member *looked_at(struct meta *meta)
{
    const struct member *m = members_find(&meta->members, meta->leavers.server);

    return m != NULL && m->leaves && member_stays(m) ? &meta->members.items[m - meta->members.items]
                                                     : NULL;
}

static void look_ended(struct meta *meta, struct member *m, bool known)
{
    const struct ns_lying *lying = &meta->leavers.lying;

    m->left = (struct member_left){ .known = known,
                                    .files = known ? lying->files : 0,
                                    .bytes = known ? lying->bytes : 0,
                                    .again_ms = meta_now_ms(meta) + (known && lying->files > 0
                                                                         ? LEAVERS_AGAIN_MS
                                                                         : LEAVERS_NONE_MS) };
    meta->leavers.server = 0;
}

static void step(struct meta *meta);

static void on_loaded(void *data, struct rpc_request *request, uint64_t subject)
{
    struct meta *meta = data;

    (void)request;
    (void)subject;
    if (!meta->closing) {
        step(meta);
    }
}

/* Something must be read first. It goes on behind that, or later when there is no room to wait. */
static void wait_for_disk(struct meta *meta)
{
    if (!loads_wait(&meta->loads, NULL, on_loaded, 0)) {
        loads_begin(&meta->loads);
        step_later(meta, LEAVERS_IDLE_MS);
    }
}

static void look_on(struct meta *meta, struct member *m)
{
    struct ns_lying *lying = &meta->leavers.lying;
    struct errmsg err = { "" };
    int rv;

    loads_begin(&meta->loads);
    rv = ns_lying_on(meta->ns, m->record.id, LEAVERS_STEP_RECORDS, lying, &err);
    if (rv == MORSEL_AGAIN) {
        wait_for_disk(meta);
        return;
    }
    if (rv != 0) {
        log_warning(meta->log,
                    "cannot look which files lie on server %u, which is to leave, and does not "
                    "say that it has: %s; looking again in %d s",
                    m->record.id, err.text[0] != '\0' ? err.text : status_words(rv),
                    LEAVERS_NONE_MS / 1000);
    }
    if (rv != 0 || lying->next == INODE_NONE) {
        look_ended(meta, m, rv == 0);
    }
    step_later(meta, LEAVERS_STEP_MS);
}

static void step(struct meta *meta)
{
    struct member *m = looked_at(meta);

    if (m == NULL && (m = next_due(meta)) != NULL) {
        meta->leavers.server = m->record.id;
        meta->leavers.lying = (struct ns_lying){ .next = INODE_ROOT };
    }
    if (m == NULL || ns_broken(meta->ns) != 0) {
        meta->leavers.server = 0;
        step_later(meta, LEAVERS_IDLE_MS);
        return;
    }
    look_on(meta, m);
}

static void on_timer(uv_timer_t *timer)
{
    struct meta *meta = timer->data;

    if (!meta->closing) {
        step(meta);
    }
}

void leavers_start(struct meta *meta)
{
    (void)uv_timer_init(meta->loop, &meta->leavers.timer);
    meta->leavers.timer.data = meta;
    step_later(meta, LEAVERS_IDLE_MS);
}
