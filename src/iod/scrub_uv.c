/* Carries out what the core of the scrub wants. */
#include "iod/scrub_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/placing.h"
#include "iod/scrub_kept_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void step(struct scrubber *s, struct scrub_event *event);

static uint64_t wall_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec;
}

/* ---- The log ---- */

static void describe(const struct scrub_finding *f, char words[256])
{
    if (f->end == 0) {
        (void)snprintf(words, 256, "its header is damaged, so none of it can be read");
    } else {
        (void)snprintf(words, 256, "%" PRIu64 " of its blocks %" PRIu64 " to %" PRIu64 " %s",
                       f->blocks, f->start / BLOCK_BYTES, f->end / BLOCK_BYTES - 1,
                       f->unreadable ? "cannot be read or do not match their checksums"
                                     : "do not match their checksums");
    }
}

static void say(const struct scrubber *s, const struct scrub_finding *f)
{
    group_number group = placing_group(f->object.column);
    uint32_t server = s->server->datadir.node;
    char words[256], others[96] = "there is no other copy";

    describe(f, words);
    if (group != 0) {
        (void)snprintf(others, sizeof(others),
                       "no other server of group %" PRIu32 " that takes part could repair that",
                       group);
    }
    log_error(s->server->log,
              "scrub: object %" PRIu64 ".%" PRIu32 ": %s on server %" PRIu32
              ", and %s: check its disk, find the file with `find MOUNTPOINT -inum %" PRIu64
              "`, and restore it from elsewhere",
              f->object.inode, f->object.column, words, server, others, f->object.inode);
}

static void say_gone(const struct scrubber *s, const struct scrub_finding *f)
{
    log_info(s->server->log, "scrub: object %" PRIu64 ".%" PRIu32 ": is good by now, or gone",
             f->object.inode, f->object.column);
}

static void say_end(const struct scrubber *s)
{
    const struct scrub_position *p = &s->core.position;
    uint64_t blocks;
    uint32_t damaged = scrub_damaged(&s->core, &blocks);

    log_info(s->server->log,
             "scrub: a pass has ended: %" PRIu64 " objects, %" PRIu64 " bytes read, %" PRIu32
             " objects are damaged",
             p->objects, p->bytes, damaged);
}

/* ---- The file ---- */

struct keeping
{
    struct scrubber *scrubber;
    struct buf bytes;
};

static void keep(struct scrubber *s);

static void run_keep(struct job *job)
{
    struct keeping *k = job->data;

    job->status = scrub_kept_write(k->scrubber->server->datadir.path, &k->bytes, &job->err);
}

static void on_kept(struct job *job)
{
    struct keeping *k = job->data;
    struct scrubber *s = k->scrubber;
    bool failed = job->status != MORSEL_OK;

    if (failed && !s->keep_failed && job->status != MORSEL_SHUTDOWN) {
        log_warning(s->server->log, "scrub: keep how far it is: %s: trying again", job->err.text);
    }
    s->keep_failed = failed;
    s->keeping = false;
    buf_free(&k->bytes);
    free(k);
    job_free(job);
    if (s->keep_again && !s->stopping) {
        keep(s);
    }
}

/* What cannot be written now is written with the next change. */
static void keep(struct scrubber *s)
{
    struct keeping *k;
    struct job *job;

    s->keep_again = s->keeping;
    if (s->keeping) {
        return;
    }
    k = calloc(1, sizeof(*k));
    job = k == NULL ? NULL : job_new(&s->server->jobs, s);
    if (job != NULL) {
        k->scrubber = s;
        job->data = k;
        if (scrub_kept_fill(&s->core, &k->bytes) &&
            job_start(job, run_keep, on_kept, true) == MORSEL_OK) {
            s->keeping = true;
            return;
        }
        job_free(job);
        buf_free(&k->bytes);
    }
    free(k);
}

/* ---- The disk ---- */

struct scrubbing
{
    struct scrubber *scrubber;
    struct object_id object;
    uint64_t offset;
    struct store_scrubbed found;
    size_t count;
    struct object_id ids[SCRUB_IDS_MAX];
};

static void run_list(struct job *job)
{
    struct scrubbing *l = job->data;
    uint64_t cursor = l->offset;

    job->status = store_list(l->scrubber->server->store, &cursor, l->ids, SCRUB_IDS_MAX, &l->count,
                             &job->err);
    l->found.next = cursor;
}

static void run_read(struct job *job)
{
    struct scrubbing *l = job->data;
    struct scrubber *s = l->scrubber;

    job->status =
        store_scrub(s->server->store, l->object, l->offset, s->bytes, &l->found, &job->err);
}

static void failed(const struct scrubber *s, const struct job *job, struct scrub_event *event)
{
    event->outcome = SCRUB_FAILED;
    if (job->status != MORSEL_SHUTDOWN) {
        log_warning(s->server->log, "scrub: %s: trying again, and then going on without it",
                    job->err.text[0] != 0 ? job->err.text : status_words(job->status));
    }
}

/* True: it is to be gone on with. */
static bool is_wanted(const struct scrubber *s, const struct job *job)
{
    return !s->stopping && job->status != MORSEL_SHUTDOWN;
}

static void on_listed(struct job *job)
{
    struct scrubbing *l = job->data;
    struct scrubber *s = l->scrubber;
    struct scrub_event event = {
        .type = SCRUB_LISTED,
        .list = { .ids = l->ids, .count = l->count, .last = l->found.next == UINT64_MAX }
    };

    if (job->status != MORSEL_OK) {
        failed(s, job, &event);
    }
    if (is_wanted(s, job)) {
        step(s, &event);
    }
    free(l);
    job_free(job);
}

static void fill_read(const struct scrubber *s, const struct job *job, struct scrub_event *event)
{
    const struct scrubbing *l = job->data;
    const struct store_damage *d = &l->found.damage;

    event->read.exists = l->found.exists;
    event->read.bytes = l->found.bytes;
    event->read.next = l->found.next;
    event->read.bad_start = d->start;
    event->read.bad_end = d->end;
    event->read.bad_blocks = d->blocks;
    event->read.bad_unreadable = d->unreadable > 0;
    if (job->status == MORSEL_CORRUPT) {
        event->outcome = SCRUB_UNREADABLE;
        event->read.next = UINT64_MAX;
    } else if (job->status != MORSEL_OK && l->found.unreadable) {
        event->outcome = SCRUB_UNREADABLE;
        event->read.bad_start = l->offset;
        event->read.bad_end = (l->offset / VERIFY_BYTES + 1) * VERIFY_BYTES;
        event->read.bad_blocks = (event->read.bad_end - l->offset) / BLOCK_BYTES;
    } else if (job->status != MORSEL_OK) {
        failed(s, job, event);
    }
}

static void on_read(struct job *job)
{
    struct scrubbing *l = job->data;
    struct scrubber *s = l->scrubber;
    struct scrub_event event = { .type = SCRUB_HAS_READ };

    if (is_wanted(s, job)) {
        fill_read(s, job, &event);
        step(s, &event);
    }
    free(l);
    job_free(job);
}

/* Without memory it is as if the disk could not be asked. */
static void start(struct scrubber *s, const struct scrub_action *a)
{
    struct scrubbing *l = calloc(1, sizeof(*l));
    struct job *job = l == NULL ? NULL : job_new(&s->server->jobs, s);
    bool list = a->type == SCRUB_LIST;
    struct scrub_event event = { .type = list ? SCRUB_LISTED : SCRUB_HAS_READ,
                                 .outcome = SCRUB_FAILED };

    if (job != NULL) {
        l->scrubber = s;
        l->object = a->object;
        l->offset = list ? a->after : a->start;
        job->data = l;
        if (job_start(job, list ? run_list : run_read, list ? on_listed : on_read, true) ==
            MORSEL_OK) {
            return;
        }
        job_free(job);
    }
    free(l);
    step(s, &event);
}

/* ---- Other servers ---- */

static void on_mended(void *data, enum copy_scrubbed result)
{
    struct scrubber *s = data;
    struct scrub_event event = { .type = SCRUB_MENDED,
                                 .mend = result == COPY_SCRUB_MENDED ? SCRUB_REPAIRED
                                         : result == COPY_SCRUB_LOST ? SCRUB_LOST
                                                                     : SCRUB_LATER };

    if (!s->stopping) {
        step(s, &event);
    }
}

static void mend(struct scrubber *s, const struct scrub_action *a)
{
    struct scrub_event event = { .type = SCRUB_MENDED, .mend = SCRUB_LATER };

    switch (groups_scrub(s->groups, a->object, a->start, a->end, on_mended, s)) {
    case GROUPS_SCRUB_BEGUN:
        return;
    case GROUPS_SCRUB_NOT_OURS:
        event.mend = SCRUB_NOT_OURS;
        break;
    case GROUPS_SCRUB_LATER:
        break;
    }
    step(s, &event);
}

/* ---- Steps ---- */

static void perform(struct scrubber *s, const struct scrub_action *a)
{
    switch (a->type) {
    case SCRUB_LIST:
    case SCRUB_READ:
        start(s, a);
        break;
    case SCRUB_MEND:
        mend(s, a);
        break;
    case SCRUB_SAY:
        say(s, &a->finding);
        break;
    case SCRUB_SAY_GONE:
        say_gone(s, &a->finding);
        break;
    case SCRUB_SAY_END:
        say_end(s);
        break;
    case SCRUB_KEEP:
        keep(s);
        break;
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct scrubber *s = CONTAINER_OF(timer, struct scrubber, timer);
    struct scrub_event event = { .type = SCRUB_TICK };

    event.busy = s->server->jobs.running + s->server->jobs.waiting_count > s->keeping;
    step(s, &event);
}

static void rearm(struct scrubber *s)
{
    uint64_t due_ms = scrub_deadline_ms(&s->core), now_ms = uv_now(s->server->loop);

    if (due_ms == UINT64_MAX) {
        uv_timer_stop(&s->timer);
    } else {
        uv_timer_start(&s->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

/* What is done with the last action may step again. */
static void step(struct scrubber *s, struct scrub_event *event)
{
    struct scrub_actions out;

    event->now_ms = uv_now(s->server->loop);
    event->wall_s = wall_s();
    scrub_step(&s->core, event, &out);
    s->server->scrub_bytes = s->core.bytes;
    s->server->scrub_passes = s->core.passes;
    s->server->scrub_damaged = scrub_damaged(&s->core, &s->server->scrub_damaged_blocks);
    rearm(s);
    for (uint32_t i = 0; i < out.count; i++) {
        perform(s, &out.items[i]);
    }
}

/* ---- Start and end ---- */

/* What was kept is worth a pass, and no more. */
static void begin(struct scrubber *s)
{
    struct scrub_finding findings[SCRUB_FINDINGS_MAX];
    struct scrub_position position;
    struct errmsg err = { "" };
    uint32_t count;
    bool found;

    if (scrub_kept_read(s->server->datadir.path, &found, &position, findings, &count, &err) != 0) {
        log_warning(s->server->log, "scrub: %s: it begins again from the first object", err.text);
    } else if (!found) {
        log_info(s->server->log,
                 "scrub: there was none in this directory yet: it begins from the first object");
    } else if (position.running) {
        log_info(s->server->log,
                 "scrub: goes on with a pass, behind %" PRIu64 " objects and %" PRIu64 " bytes",
                 position.objects, position.bytes);
    }
    scrub_init(&s->core, s->rate, s->every_ms / 1000, found ? &position : NULL, findings, count,
               uv_now(s->server->loop), wall_s());
}

int scrubber_open(struct scrubber *s, struct errmsg *err)
{
    if (s->rate == 0) {
        return MORSEL_OK;
    }
    if (s->rate < SCRUB_RATE_MIN) {
        errmsg_set(
            err,
            "scrub-rate = %" PRIu64
            " bytes a second is too low: a pass would not end; give at least 64K, or 0 for none",
            s->rate);
        return MORSEL_INVAL;
    }
    s->bytes = aligned_alloc(4096, STORE_SCRUB_BYTES);
    if (s->bytes == NULL) {
        errmsg_set(err, "no memory for the scrub");
        return MORSEL_NOMEM;
    }
    begin(s);
    uv_timer_init(s->server->loop, &s->timer);
    s->open = true;
    rearm(s);
    return MORSEL_OK;
}

void scrubber_stop(struct scrubber *s)
{
    if (s->open && !s->stopping) {
        s->stopping = true;
        uv_close((uv_handle_t *)&s->timer, NULL);
    }
}

void scrubber_free(struct scrubber *s)
{
    struct errmsg err = { "" };
    struct buf bytes;

    if (s->open) {
        buf_init(&bytes);
        if (!scrub_kept_fill(&s->core, &bytes) ||
            scrub_kept_write(s->server->datadir.path, &bytes, &err) != 0) {
            log_warning(s->server->log,
                        "scrub: keep how far it is: %s: the next start reads some of it again",
                        err.text[0] != 0 ? err.text : "no memory");
        }
        buf_free(&bytes);
    }
    free(s->bytes);
    s->bytes = NULL;
    s->open = false;
}

Morsel__Scrub *scrubber_tell(const struct scrubber *s, struct scrub_told *told)
{
    const struct scrub_position *p = &s->core.position;
    Morsel__Scrub *m = &told->message;

    if (!s->open) {
        return NULL;
    }
    morsel__scrub__init(m);
    m->rate = s->rate;
    m->running = p->running;
    m->began_s = p->began_s;
    m->ended_s = p->ended_s;
    m->part = scrub_part(&s->core);
    m->objects = p->objects;
    m->bytes = p->bytes;
    m->damaged = scrub_damaged(&s->core, &m->damaged_blocks);
    for (uint32_t i = 0; i < s->core.findings_count && m->n_findings < SCRUB_TOLD_MAX; i++) {
        if (!s->core.findings[i].waits) {
            told->pointers[m->n_findings] = &told->findings[m->n_findings];
            scrub_finding_fill(&s->core.findings[i], &told->findings[m->n_findings++]);
        }
    }
    m->findings = told->pointers;
    return m;
}
