/* The pure parts of the client: operation numbers, read-ahead, mount options. */
#include "client/coherence/data_versions.h"
#include "client/data/read_ahead.h"
#include "client/data/unsynced.h"
#include "client/fuse/options.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/rpc/op_numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>

/* ---- Operation numbers ---- */

static void numbers_end_where_too_many_are_out(void **state)
{
    struct op_numbers n;
    op_sequence places[CLIENT_OPS_PENDING_MAX];

    (void)state;
    op_numbers_init(&n, places, CLIENT_OPS_PENDING_MAX);
    for (op_sequence i = 1; i <= CLIENT_OPS_PENDING_MAX - 1; i++) {
        assert_int_equal(op_numbers_take(&n, 1), i);
    }
    assert_int_equal(op_numbers_take(&n, 1), 0);
    assert_int_equal(op_numbers_take(&n, 0), CLIENT_OPS_PENDING_MAX);
    assert_int_equal(op_numbers_take(&n, 0), 0);
    /* The first is still out: nothing may be forgotten, and its place is passed over. */
    op_numbers_return(&n, 2);
    assert_int_equal(n.answered, 0);
    assert_int_equal(op_numbers_take(&n, 0), CLIENT_OPS_PENDING_MAX + 2);
    op_numbers_return(&n, 1);
    assert_int_equal(n.answered, 2);
    assert_int_equal(op_numbers_take(&n, 0), 2 * CLIENT_OPS_PENDING_MAX + 1);
}

/* Against a table of booleans. */
static void numbers_agree_with_a_model(void **state)
{
    enum { TURNS = 20000, SLOW = 5 };
    static bool out[TURNS * 4];
    struct op_numbers n;
    op_sequence places[CLIENT_OPS_PENDING_MAX];
    struct prng prng;
    op_sequence last = 0, taken, answered;
    uint32_t count = 0;

    (void)state;
    memset(out, 0, sizeof(out));
    prng_seed(&prng, 1);
    op_numbers_init(&n, places, CLIENT_OPS_PENDING_MAX);
    for (int turn = 0; turn < TURNS; turn++) {
        uint32_t leave = prng_below(&prng, 2) * CLIENT_OPS_RESERVED;

        if (prng_below(&prng, 3) != 0 && (taken = op_numbers_take(&n, leave)) != 0) {
            assert_true(taken > last && count + leave < CLIENT_OPS_PENDING_MAX);
            for (op_sequence i = 1; i < taken; i++) { /* Its place is free, and was the first. */
                assert_false(out[i] &&
                             i % CLIENT_OPS_PENDING_MAX == taken % CLIENT_OPS_PENDING_MAX);
            }
            assert_true(taken - last <= count + 1);
            last = taken;
            out[taken] = true;
            count++;
        } else if (count > 0) {
            op_sequence pick = 1 + prng_below(&prng, last);

            /* Some take very long. */
            if (out[pick] && (pick % SLOW != 0 || prng_below(&prng, 100) == 0)) {
                out[pick] = false;
                count--;
                op_numbers_return(&n, pick);
            }
        }
        for (answered = 0; answered < last && !out[answered + 1]; answered++) {
        }
        assert_int_equal(n.count, count);
        assert_true(n.answered <= answered);
        assert_true(n.answered == answered || count == 0);
    }
    assert_true(last > 2 * CLIENT_OPS_PENDING_MAX);
}

/* ---- What is unsynced ---- */

/* What a report would name of the column: these, in this order; 0: no more. */
static void assert_named(const struct unsynced *u, uint32_t column, uint64_t first, uint64_t second)
{
    uint64_t verifiers[UNSYNCED_OWN_MAX] = { 0, 0 };
    uint32_t count = unsynced_verifiers(u, column, verifiers);

    assert_int_equal(count, (first != 0) + (second != 0));
    assert_int_equal(verifiers[0], first);
    assert_int_equal(verifiers[1], second);
}

static void what_is_lost_is_named_until_somebody_is_told(void **state)
{
    struct unsynced *u = unsynced_new(2, true);

    (void)state;
    assert_false(unsynced_acked(u, 0, 7, false));
    assert_true(unsynced_is_unlisted(u));
    unsynced_listed(u, 0);
    assert_false(unsynced_is_unlisted(u));
    assert_false(unsynced_acked(u, 1, 70, false)); /* Behind the report. */
    assert_true(unsynced_is_unlisted(u));
    unsynced_listed(u, 1);
    assert_true(unsynced_acked(u, 0, 8, false));
    assert_named(u, 0, 7, 8);
    assert_true(unsynced_is_unlisted(u)); /* What is written since is not what was named. */
    unsynced_listed(u, 0);
    assert_false(unsynced_is_unlisted(u));
    assert_false(unsynced_synced(u, 0, unsynced_mark(u, 0), 8));
    assert_named(u, 0, 7, 0); /* Still: nobody was told. */
    assert_false(unsynced_is_unlisted(u));
    assert_false(unsynced_gone(u, 0, 7)); /* The record is no news. */
    unsynced_told(u);
    assert_named(u, 0, 0, 0);
    assert_true(unsynced_gone(u, 0, 5));
    assert_false(unsynced_gone(u, 0, 5));
    unsynced_free(u);
}

/* Who is told of the last loss is told of those before: not so the other way round. */
static void of_several_losses_the_last_is_named(void **state)
{
    struct unsynced *u = unsynced_new(1, true);

    (void)state;
    assert_false(unsynced_acked(u, 0, 7, false));
    unsynced_listed(u, 0);
    assert_true(unsynced_acked(u, 0, 8, false));
    assert_true(unsynced_acked(u, 0, 9, true));
    assert_named(u, 0, 8, 0);
    assert_true(unsynced_is_unlisted(u));
    unsynced_listed(u, 0);
    assert_false(unsynced_is_unlisted(u));
    unsynced_free(u);
}

static void a_column_is_synced_when_the_answer_covers_it(void **state)
{
    struct unsynced *u = unsynced_new(2, true);
    uint64_t mark;

    (void)state;
    assert_false(unsynced_is(u, 0));
    assert_false(unsynced_acked(u, 0, 7, true)); /* On disk with its answer. */
    assert_false(unsynced_is(u, 0));
    assert_false(unsynced_acked(u, 0, 7, false));
    mark = unsynced_mark(u, 0);
    assert_true(unsynced_is(u, 0)); /* Sent is not answered. */
    assert_false(unsynced_acked(u, 0, 7, false));
    assert_false(unsynced_synced(u, 0, mark, 7));
    assert_true(unsynced_is(u, 0)); /* What was acknowledged meanwhile is not covered. */
    assert_named(u, 0, 7, 0);
    assert_int_equal(unsynced_fate(u, 0, 7, 7, 7), UNSYNCED_OPEN);
    assert_false(unsynced_synced(u, 0, unsynced_mark(u, 0), 7));
    assert_false(unsynced_is(u, 0));
    assert_int_equal(unsynced_fate(u, 0, 7, 7, 7), UNSYNCED_SYNCED);
    assert_named(u, 0, 0, 0);
    assert_false(unsynced_is(u, 1));
    mark = unsynced_mark(u, 1);
    unsynced_forget(u);
    assert_false(unsynced_synced(u, 1, mark, 7));
    assert_true(unsynced_is(u, 0) && unsynced_is(u, 1)); /* Others may have written since. */
    assert_int_equal(unsynced_fate(u, 0, 7, 7, 7), UNSYNCED_OPEN);
    unsynced_free(u);
}

/* The manager answers a flush late: meanwhile the server has lost its power, and more was written. */
static void a_flush_does_not_judge_what_was_written_since(void **state)
{
    struct unsynced *u = unsynced_new(1, true);

    (void)state;
    assert_false(unsynced_acked(u, 0, 7, false));
    assert_false(unsynced_synced(u, 0, unsynced_mark(u, 0), 7));
    assert_false(unsynced_acked(u, 0, 8, false));
    assert_int_equal(unsynced_fate(u, 0, 8, 7, 8), UNSYNCED_OPEN);
    assert_int_equal(unsynced_fate(u, 0, 8, 7, 9), UNSYNCED_GONE); /* Lost in its turn. */
    assert_int_equal(unsynced_fate(u, 0, VERIFIER_ANY, 7, 8), UNSYNCED_OPEN);
    assert_int_equal(unsynced_fate(u, 0, 6, 7, 8), UNSYNCED_GONE);
    assert_int_equal(unsynced_fate(u, 0, 6, 0, 0),
                     UNSYNCED_OPEN); /* Nobody knows what the server has. */
    unsynced_free(u);
}

/* And what it had synced before is no loss: not for it, and not for the next one. */
static void what_was_synced_stays_synced(void **state)
{
    struct unsynced *u = unsynced_new(1, true);

    (void)state;
    assert_false(unsynced_acked(u, 0, 7, false));
    assert_false(unsynced_synced(u, 0, unsynced_mark(u, 0), 7));
    assert_false(unsynced_acked(u, 0, 8, false));
    assert_int_equal(unsynced_fate(u, 0, 7, 7, 8), UNSYNCED_SYNCED);
    assert_false(unsynced_synced(u, 0, unsynced_mark(u, 0), 8));
    assert_int_equal(unsynced_fate(u, 0, 7, 8, 8), UNSYNCED_SYNCED);
    assert_int_equal(unsynced_fate(u, 0, 8, 8, 8), UNSYNCED_SYNCED);
    assert_int_equal(unsynced_fate(u, 0, VERIFIER_ANY, 8, 8), UNSYNCED_SYNCED);
    assert_false(unsynced_acked(u, 0, 7, false)); /* An answer of before that was late. */
    assert_int_equal(unsynced_fate(u, 0, 7, 8, 8), UNSYNCED_GONE);
    assert_int_equal(unsynced_fate(u, 0, 8, 8, 8), UNSYNCED_SYNCED);
    assert_false(unsynced_acked(u, 0, 0, false)); /* Whatever it was under. */
    assert_int_equal(unsynced_fate(u, 0, 8, 8, 8), UNSYNCED_OPEN);
    unsynced_free(u);
}

static void a_loss_is_told_once(void **state)
{
    struct unsynced *u = unsynced_new(3, false);

    (void)state;
    assert_true(unsynced_is(u, 2)); /* Nothing is known of it. */
    assert_false(unsynced_acked(u, 0, 7, false));
    assert_true(unsynced_synced(u, 0, unsynced_mark(u, 0), 8));
    assert_false(unsynced_is(u, 0));
    assert_false(unsynced_acked(u, 0, 8, false));
    assert_false(unsynced_synced(u, 0, unsynced_mark(u, 0), 8));
    assert_false(unsynced_acked(u, 1, 7, false)); /* A write learns of it too. */
    assert_true(unsynced_acked(u, 1, 8, false));
    assert_false(unsynced_synced(u, 1, unsynced_mark(u, 1), 8));
    assert_false(unsynced_acked(u, 2, 7, false)); /* And one that is durable itself. */
    assert_true(unsynced_acked(u, 2, 8, true));
    assert_false(unsynced_synced(u, 2, unsynced_mark(u, 2), 8));
    assert_false(unsynced_acked(u, 2, 0, false)); /* A server that tells nothing loses nothing. */
    assert_false(unsynced_synced(u, 2, unsynced_mark(u, 2), 9));
    unsynced_free(u);
}

/* ---- Read-ahead ---- */

static const struct read_ahead_clock unmeasured = { 0, 0 };

static void a_sequential_reader_gets_a_growing_window(void **state)
{
    struct read_ahead r;
    struct read_ahead_advice advice;
    uint64_t fetched = 0;

    (void)state;
    read_ahead_init(&r, 8 << 20);
    for (uint64_t at = 0; at < 64 << 20; at += 128 << 10) {
        advice = read_ahead_step(&r, &unmeasured, at, 128 << 10);
        assert_true(advice.sequential);
        assert_true(advice.from >= fetched ||
                    advice.from == advice.to); /* Nothing is asked for twice. */
        assert_true(advice.to <= at + (128 << 10) + (8 << 20));
        fetched = advice.to > fetched ? advice.to : fetched;
    }
    assert_int_equal(fetched, (64 << 20) + (8 << 20));
}

static void readers_by_turns_are_sequential_each(void **state)
{
    enum { READERS = 3, PIECE = 128 << 10 };
    struct read_ahead r;
    uint64_t fetched[READERS] = { 0 }, ahead = 0;

    (void)state;
    read_ahead_init(&r, 6 << 20);
    for (uint64_t i = 0; i < 100; i++) {
        ahead = 0;
        for (uint64_t reader = 0; reader < READERS; reader++) {
            uint64_t at = (reader << 32) + i * PIECE;
            struct read_ahead_advice advice = read_ahead_step(&r, &unmeasured, at, PIECE);

            assert_true(advice.sequential || i == 0);
            fetched[reader] = advice.to > fetched[reader] ? advice.to : fetched[reader];
            ahead += i == 0 ? 0 : fetched[reader] - (at + PIECE);
        }
        assert_true(ahead <= 9 << 20); /* The bound, and what was fetched before the others came. */
    }
    assert_true(ahead >= 4 << 20);
}

static void a_random_reader_gets_none(void **state)
{
    struct read_ahead r;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 3);
    read_ahead_init(&r, 8 << 20);
    (void)read_ahead_step(&r, &unmeasured, 4096, 4096);
    for (int i = 0; i < 1000; i++) {
        struct read_ahead_advice advice =
            read_ahead_step(&r, &unmeasured, (1 + prng_below(&prng, 1 << 20)) * 65536, 4096);

        assert_false(advice.sequential);
        assert_int_equal(advice.from, advice.to);
        assert_int_equal(advice.count, 0);
    }
}

/* What is fetched is exactly what is read later, once each. */
static void read_with_stride(uint64_t first, int64_t distance, uint32_t length, unsigned reads)
{
    struct read_ahead r;
    uint64_t next = 0;
    unsigned fetched = 0, served = 0;

    read_ahead_init(&r, 8 << 20);
    for (unsigned i = 0; i < reads; i++) {
        uint64_t at = first + (uint64_t)(distance * (int64_t)i);
        struct read_ahead_advice advice = read_ahead_step(&r, &unmeasured, at, length);

        assert_false(advice.sequential && i > 1);
        served += fetched > i;
        if (advice.count > 0) {
            assert_int_equal(advice.distance, distance);
            assert_true(fetched == 0 ? advice.first == at + (uint64_t)distance
                                     : advice.first == next);
            fetched = (fetched == 0 ? i + 1 : fetched) + advice.count;
            next = advice.first + (uint64_t)(distance * (int64_t)advice.count);
            assert_true(fetched - i <= READ_AHEAD_STRIDED_MAX + 1);
        }
    }
    assert_true(served >= reads - 4);
}

static void a_strided_reader_gets_what_it_will_read(void **state)
{
    (void)state;
    read_with_stride(1 << 20, 1 << 20, 65536, 200);
    read_with_stride(12345, 8192, 512, 200);
    read_with_stride(1000 << 20, -(2 << 20), 4096, 200); /* Backwards */
}

static void a_stride_ends_where_the_numbers_end(void **state)
{
    struct read_ahead r;
    struct read_ahead_advice advice;

    (void)state;
    read_ahead_init(&r, 8 << 20);
    for (uint64_t at = 50 << 20; at <= 50 << 20; at -= 10 << 20) { /* Until it is below 0. */
        advice = read_ahead_step(&r, &unmeasured, at, 4096);
        assert_true(advice.count <= at / (10 << 20));
    }
    (void)read_ahead_step(&r, &unmeasured, 7 << 20, 4096); /* Another distance: all over. */
    advice = read_ahead_step(&r, &unmeasured, 9 << 20, 4096);
    assert_int_equal(advice.count, 0);
}

/* A slow reader on a fast network has no use for megabytes. */
static void the_window_follows_what_is_measured(void **state)
{
    struct read_ahead slow, fast;
    struct read_ahead_clock clock = { .now_us = 1, .fetch_us = 1000 };
    struct read_ahead_advice advice = { .sequential = false };

    (void)state;
    read_ahead_init(&slow, 8 << 20);
    read_ahead_init(&fast, 8 << 20);
    for (uint64_t at = 0; at < 64 << 20; at += 128 << 10) {
        clock.now_us += 5000; /* 26 MB/s: 26 kB in the time of a fetch. */
        advice = read_ahead_step(&slow, &clock, at, 128 << 10);
    }
    assert_true(slow.streams[0].next + READ_AHEAD_FIRST_BYTES <= advice.to);
    assert_true(advice.to <= slow.streams[0].next + (1 << 20));
    clock.fetch_us = 20000; /* A far network: 20 ms. */
    for (uint64_t at = 0; at < 256 << 20; at += 128 << 10) {
        clock.now_us += 100; /* 1.3 GB/s: 26 MB in the time of a fetch. */
        advice = read_ahead_step(&fast, &clock, at, 128 << 10);
    }
    assert_int_equal(advice.to, fast.streams[0].next + (8 << 20));
}

static void requests_that_overtake_each_other_stay_sequential(void **state)
{
    static const uint64_t order[] = { 0, 2, 1, 3, 5, 4, 7, 6 };
    struct read_ahead r;

    (void)state;
    read_ahead_init(&r, 4 << 20);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        assert_true(read_ahead_step(&r, &unmeasured, order[i] * 131072, 131072).sequential);
    }
}

/* The link took only a part of each window: the rest is fetched when it takes more, whoever reads
 * next. */
static void what_was_not_fetched_is_left(void **state)
{
    enum { PIECE = 128 << 10 };
    struct read_ahead r;
    struct read_ahead_advice advice;
    uint64_t from, to, apart = (uint64_t)1 << 32;

    (void)state;
    read_ahead_init(&r, 8 << 20);
    for (unsigned i = 0; i < 2; i++) {
        if (i == 1) {
            (void)read_ahead_step(&r, &unmeasured, apart, PIECE); /* Sequential from now on. */
        }
        advice = read_ahead_step(&r, &unmeasured, i == 0 ? 0 : apart + PIECE, PIECE);
        assert_false(read_ahead_left(&r, i, &from, &to)); /* It may be fetched just now. */
        read_ahead_stopped(&r, advice.to, advice.from + 1000);
    }
    for (unsigned i = 0; i < 2; i++) {
        uint64_t next = i == 0 ? PIECE : apart + 2 * PIECE;

        assert_true(read_ahead_left(&r, i, &from, &to));
        assert_int_equal(from, next + 1000);
        assert_int_equal(to, next + READ_AHEAD_FIRST_BYTES);
        read_ahead_reached(&r, i, from + 500);
        assert_true(read_ahead_left(&r, i, &from, &to));
        assert_int_equal(from, next + 1500);
        read_ahead_reached(&r, i, to);
        assert_false(read_ahead_left(&r, i, &from, &to));
    }
    for (unsigned i = 2; i < READ_AHEAD_STREAMS; i++) {
        assert_false(read_ahead_left(&r, i, &from, &to)); /* Nobody reads there. */
    }
    read_ahead_reached(&r, 0, PIECE);
    assert_true(read_ahead_left(&r, 0, &from, &to));
    for (uint64_t i = 0; i < READ_AHEAD_IDLE_TURNS; i++) {
        (void)read_ahead_step(&r, &unmeasured, apart + (2 + i) * PIECE, PIECE);
    }
    assert_false(read_ahead_left(&r, 0, &from, &to)); /* Nor there any more. */
}

static void a_window_of_nothing_is_allowed(void **state)
{
    struct read_ahead r;
    struct read_ahead_advice advice;

    (void)state;
    read_ahead_init(&r, 0);
    for (uint64_t at = 0; at < 1 << 20; at += 4096) {
        advice = read_ahead_step(&r, &unmeasured, at, 4096);
        assert_int_equal(advice.from, advice.to);
    }
}

/* ---- Mount options ---- */

static int parse(struct mount_settings *settings, const char *text, char *kernel,
                 struct errmsg *err)
{
    memset(settings, 0, sizeof(*settings));
    memset(err, 0, sizeof(*err));
    config_defaults(mount_option_table(), settings);
    (void)snprintf(settings->options, sizeof(settings->options), "%s", text);
    return mount_options_parse(settings, kernel, err);
}

static void options_are_sorted_by_whom_they_concern(void **state)
{
    struct mount_settings s;
    char kernel[MOUNT_KERNEL_OPTIONS_MAX];
    struct errmsg err;

    (void)state;
    assert_int_equal(parse(&s,
                           "ro,allow_other,noatime,_netdev,x-systemd.automount,io_timeout=5,nodev",
                           kernel, &err),
                     0);
    assert_true(s.read_only && s.allow_other);
    assert_int_equal(s.io_timeout_ms, 5000);
    assert_string_equal(kernel, ",noatime,nodev");
    assert_int_equal(parse(&s, "kernel=6.1", kernel, &err), 0);
    assert_int_equal(s.kernel_version, MOUNT_KERNEL(6, 1));
    assert_true(s.kernel_version < MOUNT_KERNEL(6, 16));
    assert_int_equal(parse(&s, "", kernel, &err), 0);
    assert_false(s.read_only || s.kernel_version != 0);
    assert_int_equal(s.io_timeout_ms, 30000);
}

static void bad_options_are_named(void **state)
{
    static const struct
    {
        const char *text, *words;
    } cases[] = { { "io_timout=5", "io_timeout" },
                  { "soft,hard", "exclude" },
                  { "ro,rw", "exclude" },
                  { "io_timeout", "needs a value" },
                  { "io_timeout=soon", "soon" },
                  { "write_buffer=1", "write_buffer" },
                  { "kernel=6.1.2", "such as 6.1" },
                  { "kernel=new", "such as 6.1" } };
    struct mount_settings s;
    char kernel[MOUNT_KERNEL_OPTIONS_MAX];
    struct errmsg err;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(parse(&s, cases[i].text, kernel, &err), MORSEL_INVAL);
        assert_non_null(strstr(err.text, cases[i].words));
    }
}

static void a_remount_changes_the_flags_that_it_names(void **state)
{
    struct mount_settings s;
    char kernel[MOUNT_KERNEL_OPTIONS_MAX], name[CONFIG_STRING_MAX];
    struct errmsg err;
    unsigned long flags = mount_flags_apply("rw,nosuid,relatime,user_id=0,allow_other", 0);

    (void)state;
    assert_int_equal(flags, MS_NOSUID | MS_RELATIME);
    assert_int_equal(mount_flags_apply("ro,remount,noatime", flags),
                     MS_RDONLY | MS_NOSUID | MS_RELATIME | MS_NOATIME);
    assert_int_equal(mount_flags_apply("suid,dev,rw", flags), MS_RELATIME);
    /* As mount(8) hands it back to us. */
    assert_int_equal(parse(&s,
                           "ro,remount,nosuid,relatime,user_id=0,group_id=0,default_permissions,"
                           "allow_other,max_read=1048576",
                           kernel, &err),
                     0);
    assert_true(s.remount && s.read_only);
    assert_false(mount_options_fixed(&s, name));
    assert_int_equal(parse(&s, "remount,rw,io_timeout=5,soft", kernel, &err), 0);
    assert_true(mount_options_fixed(&s, name));
    assert_string_equal(name, "io_timeout");
}

/* ---- Versions of data ---- */

static void pages_are_kept_while_their_version_is_known(void **state)
{
    struct data_version_cache *c = data_version_cache_new();

    (void)state;
    assert_non_null(c);
    assert_false(data_version_same(c, 7, 3));
    assert_true(data_version_same(c, 7, 3));
    data_version_advance(c, 7, 4); /* Our own change. */
    assert_true(data_version_same(c, 7, 4));
    data_version_advance(c, 7, 6); /* Somebody else's is among them. */
    assert_false(data_version_same(c, 7, 6));
    assert_true(data_version_same(c, 7, 6));
    data_version_forget_all(c);
    assert_false(data_version_same(c, 7, 6));
    data_version_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lost_is_named_until_somebody_is_told),
        cmocka_unit_test(of_several_losses_the_last_is_named),
        cmocka_unit_test(numbers_end_where_too_many_are_out),
        cmocka_unit_test(numbers_agree_with_a_model),
        cmocka_unit_test(a_column_is_synced_when_the_answer_covers_it),
        cmocka_unit_test(a_flush_does_not_judge_what_was_written_since),
        cmocka_unit_test(what_was_synced_stays_synced),
        cmocka_unit_test(a_loss_is_told_once),
        cmocka_unit_test(a_sequential_reader_gets_a_growing_window),
        cmocka_unit_test(readers_by_turns_are_sequential_each),
        cmocka_unit_test(a_random_reader_gets_none),
        cmocka_unit_test(a_strided_reader_gets_what_it_will_read),
        cmocka_unit_test(a_stride_ends_where_the_numbers_end),
        cmocka_unit_test(the_window_follows_what_is_measured),
        cmocka_unit_test(requests_that_overtake_each_other_stay_sequential),
        cmocka_unit_test(what_was_not_fetched_is_left),
        cmocka_unit_test(a_window_of_nothing_is_allowed),
        cmocka_unit_test(pages_are_kept_while_their_version_is_known),
        cmocka_unit_test(options_are_sorted_by_whom_they_concern),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(a_remount_changes_the_flags_that_it_names),
    };

    return cmocka_run_group_tests_name("client cores", tests, NULL, NULL);
}
