/* What is read next, and what comes of damage. */
#include "iod/scrub.h"

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/fs/placing.h"
#include "common/store/store_format.h"

#include <string.h>

enum { US_PER_MS = 1000, MS_PER_S = 1000, WALL_LOOK_MS = 3600000 };

static bool same(struct object_id a, struct object_id b)
{
    return a.inode == b.inode && a.column == b.column;
}

static struct scrub_action *act(struct scrub_actions *out, enum scrub_action_type type)
{
    struct scrub_action *a = &out->items[out->count++];

    CHECK(out->count <= SCRUB_ACTIONS_MAX);
    *a = (struct scrub_action){ .type = type };
    return a;
}

static void say(struct scrub_actions *out, enum scrub_action_type type,
                const struct scrub_finding *f)
{
    act(out, type)->finding = *f;
}

static void keep(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    s->kept_ms = e->now_ms;
    (void)act(out, SCRUB_KEEP);
}

/* ---- When ---- */

/* The clock may have been set back. */
static bool pass_is_due(const struct scrub *s, uint64_t wall_s)
{
    return wall_s >= s->position.began_s + s->every_s || wall_s < s->position.began_s;
}

/* The wall clock is looked at again now and then, for it may be set. */
static void note_pass(struct scrub *s, const struct scrub_event *e)
{
    uint64_t due_s = s->position.began_s + s->every_s;
    uint64_t wait_ms = pass_is_due(s, e->wall_s) ? 0
                       : due_s - e->wall_s >= WALL_LOOK_MS / MS_PER_S
                           ? WALL_LOOK_MS
                           : (due_s - e->wall_s) * MS_PER_S;

    s->pass_ms = e->now_ms + wait_ms;
}

/* So much was read: the next step comes when the rate allows it. What was late is not made up for. */
static void charge(struct scrub *s, uint64_t bytes)
{
    uint64_t counted = bytes < SCRUB_OBJECT_BYTES ? SCRUB_OBJECT_BYTES : bytes;

    s->ready_us += counted * MS_PER_S * US_PER_MS / s->rate;
    s->bytes += bytes;
}

static void wait_ms(struct scrub *s, const struct scrub_event *e, uint64_t ms)
{
    s->ready_us = (e->now_ms + ms) * US_PER_MS;
}

static bool looks_again(const struct scrub *s)
{
    return s->again && s->again_at < s->findings_count;
}

static bool has_work(const struct scrub *s)
{
    return s->scan.active || looks_again(s) || s->position.running;
}

uint64_t scrub_deadline_ms(const struct scrub *s)
{
    uint64_t ready_ms = (s->ready_us + US_PER_MS - 1) / US_PER_MS, due_ms;

    if (s->rate == 0 || s->state != SCRUB_RESTS) {
        return UINT64_MAX;
    }
    if (has_work(s)) {
        return ready_ms;
    }
    due_ms = s->findings_count > 0 && s->again_ms < s->pass_ms ? s->again_ms : s->pass_ms;
    return due_ms > ready_ms ? due_ms : ready_ms;
}

/* ---- Findings ---- */

static struct scrub_finding *find(struct scrub *s, struct object_id object)
{
    for (uint32_t i = 0; i < s->findings_count; i++) {
        if (same(s->findings[i].object, object)) {
            return &s->findings[i];
        }
    }
    return NULL;
}

static void drop(struct scrub *s, struct scrub_finding *f)
{
    uint32_t i = (uint32_t)(f - s->findings);

    s->findings_count--;
    memmove(f, f + 1, (s->findings_count - i) * sizeof(*f));
    if (s->again_at > i) {
        s->again_at--;
    }
}

static bool is_something(const struct scrub_finding *f)
{
    return f->blocks > 0 || f->unreadable;
}

static bool is_more(const struct scrub_finding *f, const struct scrub_finding *than)
{
    return than->waits || f->start < than->start || f->end > than->end ||
           f->blocks > than->blocks || (f->unreadable && !than->unreadable);
}

static void note(struct scrub *s, const struct scrub_event *e, const struct scrub_finding *found,
                 struct scrub_finding *known)
{
    if (known != NULL) {
        *known = *found;
    } else if (s->findings_count < SCRUB_FINDINGS_MAX) {
        if (s->findings_count == 0) {
            s->again_ms = e->now_ms + SCRUB_AGAIN_MS;
        }
        s->findings[s->findings_count++] = *found;
    } else {
        s->unlisted += !found->waits;
    }
}

/* All of the object was read, or of the finding: this is what is wrong with it. */
static void settle(struct scrub *s, const struct scrub_event *e, struct scrub_finding *found,
                   struct scrub_actions *out)
{
    struct scrub_finding *known = find(s, found->object);

    if (is_something(found)) {
        found->waits &= known == NULL || known->waits; /* What was told stays told. */
        if (!found->waits && (known == NULL || is_more(found, known))) {
            say(out, SCRUB_SAY, found);
        }
        note(s, e, found, known);
        keep(s, e, out);
    } else if (known != NULL) {
        if (!known->waits) {
            say(out, SCRUB_SAY_GONE, known);
        }
        drop(s, known);
        keep(s, e, out);
    }
}

/* `later`: nobody could be asked for it. */
static void add(struct scrub_finding *f, uint64_t start, uint64_t end, uint64_t blocks, bool later)
{
    f->waits = later && (f->waits || !is_something(f));
    if (f->blocks == 0) {
        f->start = start;
    }
    f->end = end;
    f->blocks += blocks;
}

/* ---- An object ---- */

static void begin_scan(struct scrub *s, struct object_id object, uint64_t from, uint64_t end,
                       bool again)
{
    s->scan = (struct scrub_scan){ .active = true, .again = again, .object = object };
    s->scan.offset = from;
    s->scan.end = end;
    s->scan.ask = SCRUB_ASK_BYTES_MAX;
    s->scan.found.object = object;
    s->scan.found.seen_s = s->position.began_s;
}

static void forget_ids(struct scrub *s)
{
    s->ids_count = s->ids_at = 0;
    s->ids_last = false;
}

static void end_object(struct scrub *s)
{
    s->position.after = store_hash(s->scan.object);
    s->position.object = (struct object_id){ .inode = 0 };
    s->position.offset = 0;
    s->position.objects++;
    s->ids_at++;
}

/* Of a large finding only a part was looked at: what is good by now at its beginning is left out, all else stays as it was. */
static void settle_part(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    struct scrub_finding *known = find(s, s->scan.object);

    if (known != NULL && !is_something(&s->scan.found)) {
        known->start = s->scan.offset;
        keep(s, e, out);
    }
}

static void end_again(struct scrub *s, const struct scrub_event *e, bool ended,
                      struct scrub_actions *out)
{
    const struct scrub_finding *known = find(s, s->scan.object);

    s->again_at++;
    if (known == NULL) {
        return;
    }
    s->scan.found.seen_s = known->seen_s;
    if (ended || s->scan.offset >= known->end) {
        settle(s, e, &s->scan.found, out);
    } else {
        settle_part(s, e, out);
    }
}

/* `ended`: there is no more of the object. */
static void end_scan(struct scrub *s, const struct scrub_event *e, bool ended,
                     struct scrub_actions *out)
{
    s->scan.active = false;
    if (s->scan.again) {
        end_again(s, e, ended, out);
    } else {
        end_object(s);
        settle(s, e, &s->scan.found, out);
    }
}

/* Behind what is damaged for good the position does not go: who begins again there finds it again. */
static void go_on(struct scrub *s, const struct scrub_event *e, uint64_t offset,
                  struct scrub_actions *out)
{
    struct scrub_scan *scan = &s->scan;

    scan->tries = 0;
    if (offset > scan->offset) {
        scan->mends = 0;
    }
    scan->offset = offset;
    if (offset == UINT64_MAX || offset >= scan->end) {
        end_scan(s, e, offset == UINT64_MAX, out);
    } else if (!scan->again && !is_something(&scan->found)) {
        s->position.object = scan->object;
        s->position.offset = offset;
    }
}

/* Something that says nothing about the bytes: again after a while, and then without them. */
static void on_failed(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    const struct scrub_finding *known = find(s, s->scan.object);

    wait_ms(s, e, SCRUB_RETRY_MS);
    if (++s->scan.tries < SCRUB_TRIES_MAX) {
        return;
    }
    if (known != NULL && !is_something(&s->scan.found)) { /* It is not known to be good. */
        s->scan.found = *known;
        s->scan.found.seen_s = s->position.began_s;
    }
    end_scan(s, e, true, out);
}

/* For what is bad, or its beginning. */
static void ask_others(struct scrub *s, struct scrub_actions *out)
{
    struct scrub_action *a = act(out, SCRUB_MEND);
    struct scrub_scan *scan = &s->scan;
    uint64_t left = scan->bad_end - scan->bad_start;

    s->state = SCRUB_MENDS;
    a->object = scan->object;
    a->start = scan->bad_start;
    a->end = scan->bad_start + (left < scan->ask ? left : scan->ask);
}

/* The first damage of what was read. */
static void on_damage(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    struct scrub_scan *scan = &s->scan;

    if (placing_group(scan->object.column) == 0) {
        add(&scan->found, e->read.bad_start, e->read.bad_end, e->read.bad_blocks, false);
        scan->found.unreadable |= e->read.bad_unreadable;
        go_on(s, e, e->read.bad_end, out);
        return;
    }
    scan->bad_unreadable = e->read.bad_unreadable;
    scan->bad_start = e->read.bad_start;
    scan->bad_end = e->read.bad_end;
    ask_others(s, out);
}

static void on_unreadable(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    struct scrub_finding *found = &s->scan.found;

    if (e->read.bad_blocks > 0) {
        add(found, e->read.bad_start, e->read.bad_end, e->read.bad_blocks, false);
    }
    found->unreadable = true;
    found->waits = false;
    go_on(s, e, e->read.next, out);
}

static void on_read(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    CHECK(s->state == SCRUB_READS);
    s->state = SCRUB_RESTS;
    if (e->outcome == SCRUB_FAILED) {
        on_failed(s, e, out);
        return;
    }
    charge(s, e->read.bytes);
    s->position.bytes += s->scan.again ? 0 : e->read.bytes;
    if (e->outcome == SCRUB_UNREADABLE) {
        on_unreadable(s, e, out);
    } else if (!e->read.exists || e->read.bad_blocks == 0) {
        go_on(s, e, e->read.exists ? e->read.next : UINT64_MAX, out);
    } else {
        on_damage(s, e, out);
    }
}

/* It is read again from there: behind what was repaired there may be more. */
static void on_repaired(struct scrub *s)
{
    struct scrub_scan *scan = &s->scan;

    if (scan->bad_start > scan->offset) {
        scan->offset = scan->bad_start;
        scan->mends = 0;
    }
    scan->mends++;
    scan->ask = scan->ask < SCRUB_ASK_BYTES_MAX ? 2 * scan->ask : SCRUB_ASK_BYTES_MAX;
}

/* Its first block: those behind it somebody may have. */
static void on_lost(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    struct scrub_scan *scan = &s->scan;

    add(&scan->found, scan->bad_start, scan->bad_start + BLOCK_BYTES, 1, false);
    scan->found.unreadable |= scan->bad_unreadable;
    scan->bad_start += BLOCK_BYTES;
    scan->ask = BLOCK_BYTES;
    if (scan->bad_start < scan->bad_end) {
        ask_others(s, out);
    } else {
        go_on(s, e, scan->bad_end, out);
    }
}

static void on_mended(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    struct scrub_scan *scan = &s->scan;

    CHECK(s->state == SCRUB_MENDS);
    s->state = SCRUB_RESTS;
    if (e->mend == SCRUB_NOT_OURS) {
        scan->found = (struct scrub_finding){ .object = scan->object };
        end_scan(s, e, true, out);
    } else if (e->mend == SCRUB_REPAIRED && scan->mends < SCRUB_MENDS_MAX) {
        on_repaired(s);
    } else if (e->mend == SCRUB_LOST) {
        on_lost(s, e, out);
    } else {
        add(&scan->found, scan->bad_start, scan->bad_end,
            (scan->bad_end - scan->bad_start) / BLOCK_BYTES, e->mend == SCRUB_LATER);
        scan->found.unreadable |= scan->bad_unreadable;
        go_on(s, e, scan->bad_end, out);
    }
}

/* ---- Passes ---- */

static void list(struct scrub *s, struct scrub_actions *out)
{
    s->state = SCRUB_LISTS;
    act(out, SCRUB_LIST)->after = s->position.after;
}

static void on_listed(struct scrub *s, const struct scrub_event *e)
{
    CHECK(s->state == SCRUB_LISTS && e->list.count <= SCRUB_IDS_MAX);
    s->state = SCRUB_RESTS;
    if (e->outcome != SCRUB_FINE) {
        wait_ms(s, e, SCRUB_RETRY_MS);
        return;
    }
    s->ids_at = 0;
    s->ids_count = (uint32_t)e->list.count;
    s->ids_last = e->list.last;
    memcpy(s->ids, e->list.ids, e->list.count * sizeof(*s->ids));
}

static void begin_pass(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    s->position = (struct scrub_position){ .running = true,
                                           .began_s = e->wall_s,
                                           .ended_s = s->position.ended_s };
    s->unlisted = 0;
    forget_ids(s);
    keep(s, e, out);
    list(s, out);
}

/* What this pass has not seen any more is gone: its object is. */
static void end_pass(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    for (uint32_t i = s->findings_count; i > 0; i--) {
        if (s->findings[i - 1].seen_s != s->position.began_s) {
            drop(s, &s->findings[i - 1]);
        }
    }
    s->position.running = false;
    s->position.ended_s = e->wall_s;
    s->passes++;
    forget_ids(s);
    note_pass(s, e);
    (void)act(out, SCRUB_SAY_END);
    keep(s, e, out);
}

static void read_on(struct scrub *s, struct scrub_actions *out)
{
    struct scrub_action *a = act(out, SCRUB_READ);

    s->state = SCRUB_READS;
    a->object = s->scan.object;
    a->start = s->scan.offset;
}

static void next_object(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    struct object_id id;

    if (s->ids_at == s->ids_count) {
        if (s->ids_last) {
            end_pass(s, e, out);
        } else {
            list(s, out);
        }
        return;
    }
    id = s->ids[s->ids_at];
    begin_scan(s, id, same(id, s->position.object) ? s->position.offset : 0, UINT64_MAX, false);
    read_on(s, out);
}

static void next_finding(struct scrub *s, struct scrub_actions *out)
{
    const struct scrub_finding *f = &s->findings[s->again_at];
    uint64_t end = f->end - f->start > SCRUB_AGAIN_BYTES ? f->start + SCRUB_AGAIN_BYTES : f->end;

    begin_scan(s, f->object, f->start, end, true);
    read_on(s, out);
}

static void next_step(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    if (!s->scan.active && s->findings_count > 0 && e->now_ms >= s->again_ms) {
        s->again = true;
        s->again_at = 0;
        s->again_ms = e->now_ms + SCRUB_AGAIN_MS;
    }
    if (s->scan.active) {
        read_on(s, out);
    } else if (looks_again(s)) {
        next_finding(s, out);
    } else if (s->position.running) {
        s->again = false;
        next_object(s, e, out);
    } else {
        s->again = false;
        if (pass_is_due(s, e->wall_s)) {
            begin_pass(s, e, out);
        } else {
            note_pass(s, e);
        }
    }
}

/* True: others come first. */
static bool gives_way(struct scrub *s, const struct scrub_event *e)
{
    if (!e->busy) {
        s->busy_ms = 0;
        return false;
    }
    if (s->busy_ms == 0) {
        s->busy_ms = e->now_ms;
    }
    if (e->now_ms - s->busy_ms >= SCRUB_BUSY_MS) {
        s->busy_ms = 0;
        return false;
    }
    wait_ms(s, e, SCRUB_BUSY_LOOK_MS);
    return true;
}

static void on_tick(struct scrub *s, const struct scrub_event *e, struct scrub_actions *out)
{
    if (s->rate == 0 || s->state != SCRUB_RESTS || e->now_ms < scrub_deadline_ms(s) ||
        gives_way(s, e)) {
        return;
    }
    if (s->ready_us < e->now_ms * US_PER_MS) {
        s->ready_us = e->now_ms * US_PER_MS;
    }
    next_step(s, e, out);
}

void scrub_step(struct scrub *s, const struct scrub_event *event, struct scrub_actions *out)
{
    bool answered = event->type == SCRUB_HAS_READ || event->type == SCRUB_MENDED;

    out->count = 0;
    switch (event->type) {
    case SCRUB_TICK:
        on_tick(s, event, out);
        break;
    case SCRUB_LISTED:
        on_listed(s, event);
        break;
    case SCRUB_HAS_READ:
        on_read(s, event, out);
        break;
    case SCRUB_MENDED:
        on_mended(s, event, out);
        break;
    }
    if (answered && s->state == SCRUB_RESTS && event->now_ms >= s->kept_ms + SCRUB_KEEP_MS) {
        keep(s, event, out);
    }
}

void scrub_init(struct scrub *s, uint64_t rate, uint64_t every_s,
                const struct scrub_position *position, const struct scrub_finding *findings,
                uint32_t findings_count, uint64_t now_ms, uint64_t wall_s)
{
    const struct scrub_event begin = { .now_ms = now_ms, .wall_s = wall_s };
    uint64_t start_ms = every_s * MS_PER_S < SCRUB_START_MS ? every_s * MS_PER_S : SCRUB_START_MS;

    CHECK(every_s > 0 && findings_count <= SCRUB_FINDINGS_MAX);
    *s = (struct scrub){ .rate = rate, .every_s = every_s };
    if (position != NULL) {
        s->position = *position;
    }
    if (findings_count > 0) {
        memcpy(s->findings, findings, findings_count * sizeof(*findings));
    }
    s->findings_count = findings_count;
    s->kept_ms = now_ms;
    s->again_ms = now_ms + SCRUB_AGAIN_MS;
    wait_ms(s, &begin, start_ms);
    note_pass(s, &begin);
}

uint32_t scrub_part(const struct scrub *s)
{
    const uint64_t whole = 1000000;

    return s->position.running ? (uint32_t)((s->position.after >> 32) * whole >> 32) : 0;
}

uint32_t scrub_damaged(const struct scrub *s, uint64_t *blocks)
{
    uint32_t count = (uint32_t)s->unlisted;

    *blocks = 0;
    for (uint32_t i = 0; i < s->findings_count; i++) {
        if (!s->findings[i].waits) {
            count++;
            *blocks += s->findings[i].blocks;
        }
    }
    return count;
}
