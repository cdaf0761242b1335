/* The scrub against a world of objects that is too simple to be wrong: everything is read, no faster than it may be; what is found is told once,
 * repaired where others have it, and followed until it is gone. */
#include "iod/scrub.h"

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/fs/placing.h"
#include "common/store/store_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    OBJECTS = 90,
    STRETCH = 256,
    BLOCKS_MAX = 20 * STRETCH,
    RATE = 4 << 20,
    EVERY_S = 36000,
    PAGE = 16
};

struct thing
{
    struct object_id id;
    bool there, headless, silent;            /* silent: what is bad the disk does not give. */
    uint32_t blocks, reads, hole_end;        /* Up to there nothing was written. */
    bool bad[BLOCKS_MAX], worse[BLOCKS_MAX]; /* worse: the disk gives an error. */
    bool lost[BLOCKS_MAX];                   /* Others do not have it either. */
};

struct world
{
    struct scrub s;
    struct thing things[OBJECTS]; /* In the order of the store. */
    uint32_t count;
    uint64_t now_ms, wall_s, read_bytes, stretches;
    bool busy, fails_list, fails_read;
    enum scrub_mend others; /* What they answer. */
    struct scrub_action under_way;
    struct scrub_finding said[4 * OBJECTS];
    uint32_t said_count, gone_count, ends, mends;
    struct scrub_position kept;
    struct scrub_finding kept_findings[SCRUB_FINDINGS_MAX];
    uint32_t kept_count;
};

static int compare(const void *a, const void *b)
{
    uint64_t x = store_hash(((const struct thing *)a)->id),
             y = store_hash(((const struct thing *)b)->id);

    return (x > y) - (x < y);
}

/* Every third one has copies, of a group. */
static void fill(struct world *w, uint32_t count)
{
    w->count = count;
    for (uint32_t i = 0; i < count; i++) {
        w->things[i] = (struct thing){ .there = true, .blocks = 1 + i % 7 * 100 };
        w->things[i].id.inode = 1000 + i;
        w->things[i].id.column = placing_object(i % 3 == 0 ? 5 : 0, i % 2);
    }
    qsort(w->things, count, sizeof(w->things[0]), compare);
}

static struct thing *thing_of(struct world *w, struct object_id id)
{
    uint32_t i = 0;

    while (i < w->count &&
           (w->things[i].id.inode != id.inode || w->things[i].id.column != id.column)) {
        i++;
    }
    CHECK(i < w->count);
    return &w->things[i];
}

/* One of them that has copies, or has none, and enough blocks. */
static struct thing *some(struct world *w, bool copies, uint32_t nth)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if ((placing_group(w->things[i].id.column) != 0) == copies && w->things[i].blocks > 200 &&
            nth-- == 0) {
            return &w->things[i];
        }
    }
    fail_msg("not enough objects");
    return NULL;
}

static void step(struct world *w, struct scrub_event *e)
{
    struct scrub_actions out;

    e->now_ms = w->now_ms;
    e->wall_s = w->wall_s;
    e->busy = w->busy;
    scrub_step(&w->s, e, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        const struct scrub_action *a = &out.items[i];

        switch (a->type) {
        case SCRUB_LIST:
        case SCRUB_READ:
        case SCRUB_MEND:
            assert_int_equal(i, out.count - 1);
            w->under_way = *a;
            break;
        case SCRUB_SAY:
            w->said[w->said_count++] = a->finding;
            break;
        case SCRUB_SAY_GONE:
            w->gone_count++;
            break;
        case SCRUB_SAY_END:
            w->ends++;
            break;
        case SCRUB_KEEP:
            w->kept = w->s.position;
            w->kept_count = w->s.findings_count;
            memcpy(w->kept_findings, w->s.findings, sizeof(w->kept_findings));
            break;
        }
    }
}

static void list(struct world *w)
{
    struct object_id ids[PAGE];
    struct scrub_event e = { .type = SCRUB_LISTED, .list = { .ids = ids, .last = true } };

    if (w->fails_list) {
        e.outcome = SCRUB_FAILED;
        step(w, &e);
        return;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        if (!w->things[i].there || store_hash(w->things[i].id) <= w->under_way.after) {
            continue;
        }
        if (e.list.count == PAGE) {
            e.list.last = false;
            break;
        }
        ids[e.list.count++] = w->things[i].id;
    }
    step(w, &e);
}

static void fill_damage(const struct thing *t, uint32_t from, uint32_t to, struct scrub_event *e)
{
    while (from < to && !t->bad[from]) {
        from++;
    }
    e->read.bad_start = (uint64_t)from * BLOCK_BYTES;
    for (; from < to && t->bad[from]; from++) {
        e->read.bad_blocks++;
    }
    e->read.bad_end = (uint64_t)from * BLOCK_BYTES;
    e->read.bad_unreadable = e->read.bad_blocks > 0 && t->silent;
}

static void fill_read(struct world *w, struct scrub_event *e)
{
    struct thing *t = thing_of(w, w->under_way.object);
    uint32_t from = (uint32_t)(w->under_way.start / BLOCK_BYTES),
             to = (from / STRETCH + 1) * STRETCH;

    assert_int_equal(w->under_way.start % BLOCK_BYTES, 0);
    e->read.exists = t->there;
    e->read.next = to < t->blocks ? (uint64_t)to * BLOCK_BYTES : UINT64_MAX;
    if (!t->there || from >= t->blocks) {
        e->read.next = UINT64_MAX;
        return;
    }
    if (from < t->hole_end) {
        e->read.next = (uint64_t)t->hole_end * BLOCK_BYTES;
        return;
    }
    to = to < t->blocks ? to : t->blocks;
    t->reads++;
    if (t->headless) {
        e->outcome = SCRUB_UNREADABLE;
        e->read.next = UINT64_MAX;
    } else if (t->worse[from]) {
        e->outcome = SCRUB_UNREADABLE;
        e->read.bad_start = w->under_way.start;
        e->read.bad_end = (uint64_t)to * BLOCK_BYTES;
        e->read.bad_blocks = to - from;
    } else {
        e->read.bytes = (uint64_t)(to - from) * BLOCK_BYTES;
        fill_damage(t, from, to, e);
    }
    w->read_bytes += e->read.bytes;
    w->stretches++;
}

/* The first block of the stretch is lost, or those before the first one that is are repaired. */
static void mend(struct world *w, struct scrub_event *e)
{
    struct thing *t = thing_of(w, w->under_way.object);
    uint32_t at = (uint32_t)(w->under_way.start / BLOCK_BYTES),
             end = (uint32_t)(w->under_way.end / BLOCK_BYTES);

    assert_true(at < end && t->bad[at]);
    e->mend = w->others == SCRUB_REPAIRED && t->lost[at] ? SCRUB_LOST : w->others;
    for (; e->mend == SCRUB_REPAIRED && at < end && !t->lost[at]; at++) {
        t->bad[at] = false;
    }
}

static void answer(struct world *w)
{
    struct scrub_event e = { .type = SCRUB_TICK };

    switch (w->s.state) {
    case SCRUB_LISTS:
        list(w);
        return;
    case SCRUB_READS:
        e.type = SCRUB_HAS_READ;
        e.outcome = w->fails_read ? SCRUB_FAILED : SCRUB_FINE;
        if (!w->fails_read) {
            fill_read(w, &e);
        }
        break;
    case SCRUB_MENDS:
        e.type = SCRUB_MENDED;
        w->mends++;
        assert_int_not_equal(placing_group(w->under_way.object.column), 0);
        mend(w, &e);
        break;
    case SCRUB_RESTS:
        break;
    }
    step(w, &e);
}

/* To the next thing that happens. */
static void go(struct world *w)
{
    uint64_t due_ms = scrub_deadline_ms(&w->s);

    if (w->s.state == SCRUB_RESTS && due_ms > w->now_ms) {
        w->wall_s += due_ms / 1000 - w->now_ms / 1000;
        w->now_ms = due_ms;
    }
    answer(w);
}

static void go_for(struct world *w, uint64_t seconds)
{
    uint64_t until_ms = w->now_ms + seconds * 1000;

    while (w->s.state != SCRUB_RESTS || scrub_deadline_ms(&w->s) <= until_ms) {
        go(w);
    }
    w->wall_s += until_ms / 1000 - w->now_ms / 1000;
    w->now_ms = until_ms;
}

static void to_the_end(struct world *w)
{
    uint32_t ends = w->ends;

    while (w->ends == ends) {
        go(w);
    }
}

static void start(struct world *w, bool kept)
{
    scrub_init(&w->s, RATE, EVERY_S, kept ? &w->kept : NULL, w->kept_findings,
               kept ? w->kept_count : 0, w->now_ms, w->wall_s);
}

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    CHECK(w != NULL);
    w->now_ms = 77777;
    w->wall_s = 1700000000;
    w->others = SCRUB_REPAIRED;
    fill(w, OBJECTS);
    start(w, false);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static uint64_t all_bytes(const struct world *w)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < w->count; i++) {
        bytes += w->things[i].there ? (uint64_t)w->things[i].blocks * BLOCK_BYTES : 0;
    }
    return bytes;
}

static void all_is_read_no_faster_than_it_may_be(void **state)
{
    struct world *w = *state;
    uint64_t begun_ms;

    go(w);
    begun_ms = w->now_ms;
    assert_true(begun_ms - 77777 >= SCRUB_START_MS); /* Clients first. */
    to_the_end(w);
    assert_int_equal(w->read_bytes, all_bytes(w));
    assert_int_equal(w->s.position.bytes, all_bytes(w));
    assert_int_equal(w->s.position.objects, OBJECTS);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        assert_int_equal(w->things[i].reads, (w->things[i].blocks + STRETCH - 1) / STRETCH);
    }
    assert_true(w->now_ms - begun_ms >= all_bytes(w) * 1000 / RATE - 1000);
    assert_true(w->now_ms - begun_ms <=
                (all_bytes(w) + OBJECTS * SCRUB_OBJECT_BYTES) * 1000 / RATE + OBJECTS);
    assert_int_equal(w->said_count + w->gone_count + w->mends, 0);
    assert_int_equal(w->s.position.ended_s, w->wall_s);
    assert_int_equal(w->kept.ended_s, w->wall_s);
}

static void the_next_pass_begins_behind_the_time_between(void **state)
{
    struct world *w = *state;
    uint64_t began_s;

    to_the_end(w);
    began_s = w->s.position.began_s;
    to_the_end(w);
    assert_true(w->s.position.began_s >= began_s + EVERY_S);
    assert_true(w->s.position.began_s <= began_s + EVERY_S + 2);
    assert_int_equal(w->s.passes, 2);
    w->wall_s -= 3 * EVERY_S; /* Somebody sets the clock. */
    go_for(w, 2 * 3600);
    assert_int_equal(w->s.passes, 3);
}

static void nothing_is_read_when_it_is_off(void **state)
{
    struct world *w = *state;
    struct scrub_event e = { .type = SCRUB_TICK };

    scrub_init(&w->s, 0, EVERY_S, NULL, NULL, 0, w->now_ms, w->wall_s);
    assert_true(scrub_deadline_ms(&w->s) == UINT64_MAX);
    w->now_ms += 1000000000;
    step(w, &e);
    assert_int_equal(w->s.state, SCRUB_RESTS);
}

static void an_empty_store_is_a_pass(void **state)
{
    struct world *w = *state;

    w->count = 0;
    to_the_end(w);
    assert_int_equal(w->s.position.objects, 0);
    assert_false(w->s.position.running);
}

static void what_has_no_copy_is_told_once(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, false, 1);
    uint64_t blocks;

    t->bad[5] = t->bad[6] = t->bad[90] = true;
    to_the_end(w);
    assert_int_equal(w->said_count, 1);
    assert_int_equal(w->said[0].object.inode, t->id.inode);
    assert_int_equal(w->said[0].start, 5 * BLOCK_BYTES);
    assert_int_equal(w->said[0].end, 91 * BLOCK_BYTES);
    assert_int_equal(w->said[0].blocks, 3);
    assert_int_equal(w->mends, 0);
    assert_int_equal(scrub_damaged(&w->s, &blocks), 1);
    assert_int_equal(blocks, 3);
    to_the_end(w);
    assert_int_equal(w->said_count, 1);
    start(w, true); /* Nor behind a start. */
    to_the_end(w);
    assert_int_equal(w->said_count, 1);
    t->bad[200] = true;
    to_the_end(w);
    assert_int_equal(w->said_count, 2);
    assert_int_equal(w->said[1].blocks, 4);
    assert_int_equal(scrub_damaged(&w->s, &blocks), 1);
    assert_int_equal(w->gone_count, 0);
}

/* It is deleted, or written anew: that is seen long before the next pass. */
static void what_is_gone_is_told(void **state)
{
    struct world *w = *state;
    struct thing *deleted = some(w, false, 1), *written = some(w, false, 2),
                 *half = some(w, false, 3);
    uint64_t blocks;

    deleted->bad[5] = written->bad[6] = half->bad[7] = half->bad[100] = true;
    to_the_end(w);
    assert_int_equal(scrub_damaged(&w->s, &blocks), 3);
    deleted->there = written->bad[6] = half->bad[7] = false;
    go_for(w, 2 * SCRUB_AGAIN_MS / 1000);
    assert_int_equal(w->s.passes, 1);
    assert_int_equal(w->gone_count, 2);
    assert_int_equal(scrub_damaged(&w->s, &blocks), 1);
    assert_int_equal(blocks, 1);
    assert_int_equal(w->said_count, 3);
    half->there = false; /* Its id is listed no more, */
    w->s.again_ms = UINT64_MAX;
    to_the_end(w); /* and the pass forgets it. */
    assert_int_equal(scrub_damaged(&w->s, &blocks), 0);
}

static void what_others_have_is_repaired(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, true, 1);

    for (uint32_t i = 0; i < 60; i++) {
        t->bad[2 * i] = true;
    }
    to_the_end(w);
    assert_int_equal(w->mends, 60);
    for (uint32_t i = 0; i < t->blocks; i++) {
        assert_false(t->bad[i]);
    }
    assert_int_equal(w->said_count + w->gone_count, 0);
}

static void what_nobody_has_is_told(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, true, 1);

    t->bad[1] = t->bad[180] = true;
    w->others = SCRUB_LOST;
    to_the_end(w);
    assert_int_equal(w->said_count, 1);
    assert_int_equal(w->said[0].blocks, 2);
    w->others = SCRUB_LATER; /* What was told stays told. */
    to_the_end(w);
    w->others = SCRUB_LOST;
    to_the_end(w);
    assert_int_equal(w->said_count, 1);
    w->others = SCRUB_REPAIRED; /* A server has come back. */
    go_for(w, 2 * SCRUB_AGAIN_MS / 1000);
    assert_int_equal(w->gone_count, 1);
    assert_false(t->bad[1] || t->bad[180]);
}

static void who_can_be_asked_later_is_asked_later(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, true, 1), *lost = some(w, true, 2), *left = some(w, true, 3);
    uint64_t blocks;

    t->bad[4] = lost->bad[3] = true;
    w->others = SCRUB_LATER;
    to_the_end(w);
    assert_int_equal(w->said_count, 0);
    assert_int_equal(scrub_damaged(&w->s, &blocks), 0);
    start(w, true);
    w->others = SCRUB_REPAIRED;
    while (t->bad[4]) {
        go(w);
    }
    w->others = SCRUB_LOST;
    lost->bad[3] = true;
    go_for(w, 2 * SCRUB_AGAIN_MS / 1000);
    assert_int_equal(w->gone_count, 0);
    w->others = SCRUB_NOT_OURS; /* The group has moved away: not ours to tell. */
    left->bad[2] = lost->bad[3] = true;
    w->said_count = 0;
    to_the_end(w);
    assert_int_equal(w->said_count, 0);
    assert_int_equal(scrub_damaged(&w->s, &blocks), 0);
}

/* A disk that says it has written, and gives wrong bytes all the same. */
static void repairs_end(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, true, 1);

    t->bad[3] = true;
    w->others = SCRUB_REPAIRED;
    for (uint32_t i = 0; w->said_count == 0 && i < 100000; i++) {
        go(w);
        t->bad[3] = true;
    }
    assert_int_equal(w->said_count, 1);
    assert_true(w->mends <= SCRUB_MENDS_MAX + 1);
}

static void what_the_disk_refuses_is_told(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, false, 0), *headless = some(w, true, 1);

    t->worse[0] = true;
    headless->headless = true;
    to_the_end(w);
    assert_int_equal(w->said_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(w->said[i].unreadable);
        assert_int_equal(w->said[i].end == 0, w->said[i].object.inode == headless->id.inode);
    }
    to_the_end(w);
    assert_int_equal(w->said_count, 2);
    t->worse[0] = headless->headless = false;
    go_for(w, 2 * SCRUB_AGAIN_MS / 1000);
    assert_int_equal(w->gone_count, 2);
}

/* Blocks that it refuses another server has; of what none has it is said what is wrong. */
static void blocks_that_the_disk_refuses_are_repaired(void **state)
{
    struct world *w = *state;
    struct thing *alone = some(w, false, 0), *t = some(w, true, 0), *lost = some(w, true, 1);

    alone->silent = t->silent = lost->silent = true;
    alone->bad[7] = t->bad[3] = lost->bad[4] = lost->bad[150] = true;
    lost->lost[4] = true;
    w->others = SCRUB_REPAIRED;
    to_the_end(w);
    assert_false(t->bad[3]);
    assert_false(lost->bad[150]);
    assert_int_equal(w->said_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(w->said[i].unreadable);
        assert_int_equal(w->said[i].blocks, 1);
    }
    go_for(w, 2 * SCRUB_AGAIN_MS / 1000);
    to_the_end(w);
    assert_int_equal(w->said_count, 2);
    alone->bad[7] = lost->bad[4] = false;
    go_for(w, 2 * SCRUB_AGAIN_MS / 1000);
    assert_int_equal(w->gone_count, 2);
}

/* What says nothing about the bytes is no damage. */
static void other_failures_are_passed_over(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, false, 1);
    uint64_t blocks, wait_ms;

    w->fails_list = true;
    go(w);
    go(w);
    wait_ms = scrub_deadline_ms(&w->s) - w->now_ms;
    assert_true(wait_ms >= SCRUB_RETRY_MS - 10);
    w->fails_list = false;
    t->bad[9] = true;
    to_the_end(w);
    assert_int_equal(w->said_count, 1);
    w->fails_read = true;
    w->s.every_s = 1000000; /* Each is tried for minutes. */
    w->s.again_ms = UINT64_MAX;
    w->s.position.began_s = 0;
    to_the_end(w);
    assert_int_equal(w->said_count, 1);
    assert_int_equal(w->gone_count, 0);
    assert_int_equal(scrub_damaged(&w->s, &blocks), 1);
    assert_int_equal(w->s.position.objects, OBJECTS);
}

static void it_goes_on_where_it_was(void **state)
{
    struct world *w = *state;
    uint64_t all;

    w->things[40].blocks = BLOCKS_MAX; /* Much larger than what is read between two starts. */
    all = all_bytes(w);
    while (w->ends == 0) {
        uint64_t read = w->read_bytes;

        while (w->ends == 0 && w->read_bytes < read + (4 << 20)) {
            go(w);
        }
        w->kept = w->s.position; /* As an orderly end keeps it. */
        if (w->ends == 0) {
            start(w, true);
            w->s.ready_us = 0;
        }
    }
    assert_int_equal(w->read_bytes, all);
    assert_int_equal(w->s.position.bytes, all);
    assert_int_equal(w->s.position.objects, OBJECTS);
}

/* What was found of an object before a start is not forgotten behind it, nor is what was told taken for good. */
static void what_was_found_of_an_object_outlives_a_start(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, false, 1);
    uint64_t blocks;

    t->blocks = BLOCKS_MAX;
    t->bad[300] = true;
    for (uint32_t pass = 0; pass < 2; pass++) {
        while (w->s.position.object.inode != t->id.inode || w->s.scan.offset < 8 << 20) {
            go(w);
        }
        w->kept = w->s.position; /* As an orderly end keeps it. */
        w->kept_count = w->s.findings_count;
        memcpy(w->kept_findings, w->s.findings, sizeof(w->kept_findings));
        start(w, true);
        w->s.again_ms = UINT64_MAX;
        to_the_end(w);
        assert_int_equal(scrub_damaged(&w->s, &blocks), 1);
        assert_int_equal(blocks, 1);
        assert_int_equal(w->said_count, 1);
        assert_int_equal(w->gone_count, 0);
    }
}

/* A kill takes what was read since the position was kept, and no more. */
static void a_kill_costs_a_minute(void **state)
{
    struct world *w = *state;
    uint64_t read;

    fill(w, OBJECTS);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        w->things[i].blocks = BLOCKS_MAX;
    }
    for (uint32_t i = 0; i < 2000; i++) {
        go(w);
    }
    read = w->s.position.bytes;
    assert_true(read - w->kept.bytes <= (uint64_t)RATE * (SCRUB_KEEP_MS / 1000 + 1));
    start(w, true);
    to_the_end(w);
    assert_true(w->read_bytes <= all_bytes(w) + (uint64_t)RATE * (SCRUB_KEEP_MS / 1000 + 1));
}

static void others_come_first_for_a_while(void **state)
{
    struct world *w = *state;
    uint64_t begun_ms;

    go(w);
    begun_ms = w->now_ms;
    w->busy = true;
    go_for(w, 20);
    assert_true(w->stretches >= 10 && w->stretches <= 21);
    w->busy = false;
    to_the_end(w);
    assert_true(w->now_ms - begun_ms < 20000 + 2 * all_bytes(w) * 1000 / RATE);
}

/* More than there is room for: each is told, and counted. */
static void findings_have_a_bound(void **state)
{
    struct world *w = *state;
    uint64_t blocks;

    for (uint32_t i = 0; i < OBJECTS; i++) {
        w->things[i].bad[0] = true;
    }
    w->others = SCRUB_LOST;
    w->s.again_ms = UINT64_MAX;
    to_the_end(w);
    assert_int_equal(w->said_count, OBJECTS);
    assert_int_equal(w->s.findings_count, SCRUB_FINDINGS_MAX);
    assert_int_equal(scrub_damaged(&w->s, &blocks), OBJECTS);
    assert_true(blocks >= SCRUB_FINDINGS_MAX);
    to_the_end(w);
    assert_int_equal(scrub_damaged(&w->s, &blocks), OBJECTS);
    assert_int_equal(w->said_count, OBJECTS + OBJECTS - SCRUB_FINDINGS_MAX);
}

/* Of a large one a part is looked at again each time. */
static void a_large_finding_is_followed_in_parts(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, false, 1);
    uint32_t reads;

    t->blocks = BLOCKS_MAX;
    t->bad[0] = t->bad[BLOCKS_MAX - 1] = true;
    to_the_end(w);
    assert_int_equal(w->said[0].blocks, 2);
    reads = t->reads;
    go_for(w, SCRUB_AGAIN_MS / 1000 + 60);
    assert_true(t->reads - reads <= SCRUB_AGAIN_BYTES / (STRETCH * BLOCK_BYTES) + 2);
    t->bad[0] = false;
    go_for(w, SCRUB_AGAIN_MS / 1000);
    assert_int_equal(w->gone_count, 0);
    assert_true(w->s.findings[0].start > 0);
    t->bad[BLOCKS_MAX - 1] = false;
    go_for(w, 3 * SCRUB_AGAIN_MS / 1000);
    assert_int_equal(w->gone_count, 1);
    assert_int_equal(w->said_count, 1);
}

/* Nothing is left where it was: what is looked at next lies behind it. */
static void a_large_finding_that_has_become_a_hole_is_gone(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, false, 1);

    t->blocks = BLOCKS_MAX;
    t->bad[0] = t->bad[18 * STRETCH] = true;
    to_the_end(w);
    t->bad[0] = t->bad[18 * STRETCH] = false;
    t->hole_end = 19 * STRETCH;
    go_for(w, SCRUB_AGAIN_MS / 1000 + 60);
    assert_int_equal(w->gone_count, 1);
    for (uint32_t i = 0; i < w->kept_count; i++) {
        assert_true(w->kept_findings[i].start <= w->kept_findings[i].end);
    }
}

/* A stretch of damage of which another server has all but some blocks: these are lost, and no others. */
static void what_others_have_of_a_stretch_is_repaired(void **state)
{
    struct world *w = *state;
    struct thing *t = some(w, true, 1);

    for (uint32_t i = 10; i < 110; i++) {
        t->bad[i] = true;
        t->lost[i] = i == 40 || i == 41 || i == 109;
    }
    to_the_end(w);
    for (uint32_t i = 0; i < t->blocks; i++) {
        assert_int_equal(t->bad[i], t->lost[i]);
    }
    assert_int_equal(w->said_count, 1);
    assert_int_equal(w->said[0].blocks, 3);
    assert_true(w->mends < 30);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_is_read_no_faster_than_it_may_be),
        TEST(the_next_pass_begins_behind_the_time_between),
        TEST(nothing_is_read_when_it_is_off),
        TEST(an_empty_store_is_a_pass),
        TEST(what_has_no_copy_is_told_once),
        TEST(what_is_gone_is_told),
        TEST(what_others_have_is_repaired),
        TEST(what_nobody_has_is_told),
        TEST(who_can_be_asked_later_is_asked_later),
        TEST(repairs_end),
        TEST(what_the_disk_refuses_is_told),
        TEST(blocks_that_the_disk_refuses_are_repaired),
        TEST(other_failures_are_passed_over),
        TEST(it_goes_on_where_it_was),
        TEST(what_was_found_of_an_object_outlives_a_start),
        TEST(a_kill_costs_a_minute),
        TEST(others_come_first_for_a_while),
        TEST(findings_have_a_bound),
        TEST(a_large_finding_is_followed_in_parts),
        TEST(a_large_finding_that_has_become_a_hole_is_gone),
        TEST(what_others_have_of_a_stretch_is_repaired),
    };

    return cmocka_run_group_tests_name("scrub", tests, NULL, NULL);
}
