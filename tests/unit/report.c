/* What the manager is to hear of a file, and hears: the states, and that no size is ever lost. */
#include "client/data/report.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct report_news send_all(struct file_report *r)
{
    struct report_news said = report_say(r, UINT64_MAX);

    report_sent(r, &said, UINT64_MAX, 0);
    return said;
}

static void news_wait_go_and_are_known(void **state)
{
    struct file_report r = { .state = REPORT_CLEAN };
    struct report_news said;

    (void)state;
    report_note_end(&r, 100, 5);
    report_note_end(&r, 70, 6);
    assert_int_equal(r.state, REPORT_NEWS);
    assert_int_equal(r.since_ms, 5);
    said = send_all(&r);
    assert_int_equal(said.end, 100);
    assert_false(said.truncated);
    assert_int_equal(r.state, REPORT_REPORTING);
    assert_int_equal(r.news.end, 0);
    report_note_end(&r, 120, 7);
    assert_int_equal(r.state, REPORT_BOTH);
    report_end(&r);
    assert_int_equal(r.state, REPORT_NEWS);
    assert_int_equal(send_all(&r).end, 120);
    report_end(&r);
    assert_int_equal(r.state, REPORT_CLEAN);
}

static void what_was_not_taken_is_news_again(void **state)
{
    struct file_report r = { .state = REPORT_CLEAN };
    struct report_news said;

    (void)state;
    report_note_end(&r, 100, 5);
    r.news.sparse = r.news.tail_clean = r.news.strips_ids = true;
    said = send_all(&r);
    assert_false(r.news.sparse || r.news.tail_clean || r.news.strips_ids);
    report_note_truncation(&r, 30, 6); /* What was said of 100 is not so any more. */
    report_end(&r);
    report_again(&r, &said, 7);
    said = send_all(&r);
    assert_int_equal(said.end, 30);
    assert_true(said.truncated && said.sparse && said.tail_clean && said.strips_ids);
    assert_int_equal(said.truncate_size, 30);
    assert_true(report_has_truncation(&r));
    report_end(&r);
    assert_false(report_has_truncation(&r));
}

static void behind_a_truncation_that_is_not_made_nothing_is_told(void **state)
{
    struct file_report r = { .state = REPORT_CLEAN };
    struct report_news said;

    (void)state;
    report_note_truncation(&r, 40, 1);
    report_note_end(&r, 90, 1);
    r.news.tail_clean = r.news.strips_ids = true;
    said = report_say(&r, 20);
    assert_int_equal(said.end, 20);
    assert_int_equal(said.truncate_size, 20);
    assert_false(said.tail_clean);
    report_sent(&r, &said, 20, 9);
    assert_int_equal(r.state, REPORT_BOTH);
    assert_int_equal(r.since_ms, 9);
    assert_false(r.news.strips_ids); /* Told. */
    report_end(&r);
    said = send_all(&r);
    assert_int_equal(said.end, 90);
    assert_int_equal(said.truncate_size, 40);
    assert_true(said.truncated && said.tail_clean);
}

static void what_is_lost_is_not_told_again(void **state)
{
    struct file_report r = { .state = REPORT_CLEAN };
    struct report_news said;

    (void)state;
    report_note_truncation(&r, 40, 1);
    report_note_end(&r, 90, 1);
    said = send_all(&r);
    report_note_end(&r, 95, 1);
    report_lose(&r);
    assert_int_equal(r.state, REPORT_REPORTING);
    report_end(&r);
    report_again(&r, &said, 2); /* Others may have truncated the file since. */
    assert_int_equal(r.state, REPORT_CLEAN);
    report_note_end(&r, 10, 3);
    report_lose(&r);
    assert_int_equal(r.state, REPORT_CLEAN);
    assert_int_equal(r.losses, 2);
}

/* ---- A file, its mount and its manager ---- */

struct world
{
    struct prng prng;
    struct file_report report;
    struct report_news said;
    uint64_t size, managers; /* Of the file, as mount and manager have it. */
};

static void take(struct world *w)
{
    if (w->said.truncated && w->managers > w->said.truncate_size) {
        w->managers = w->said.truncate_size;
    }
    if (w->managers < w->said.end) {
        w->managers = w->said.end;
    }
}

static void change(struct world *w)
{
    uint64_t at = 1 + prng_below(&w->prng, 1000);

    if (prng_below(&w->prng, 3) == 0 && at < w->size) {
        report_note_truncation(&w->report, at, 0);
        w->size = at;
    } else if (at > w->size) {
        w->size = at;
    }
    report_note_end(&w->report, at, 0);
}

static void tell(struct world *w)
{
    uint64_t limit = prng_below(&w->prng, 3) == 0 ? prng_below(&w->prng, 1000) : UINT64_MAX;

    if (w->report.state != REPORT_NEWS) {
        return;
    }
    w->said = report_say(&w->report, limit);
    assert_true(w->said.end <= limit && w->said.truncate_size <= limit);
    report_sent(&w->report, &w->said, limit, 0);
}

/* The manager takes it, or not; in either case the answer may not come. */
static void answer(struct world *w)
{
    bool taken = prng_below(&w->prng, 2) == 0;

    if (!report_is_busy(&w->report)) {
        return;
    }
    if (taken) {
        take(w);
    }
    report_end(&w->report);
    if (!taken || prng_below(&w->prng, 3) == 0) {
        report_again(&w->report, &w->said, 0);
    }
}

static void the_manager_knows_the_size_in_the_end(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct world w = { .size = 0 };

        prng_seed(&w.prng, seed);
        for (unsigned i = 0; i < 30; i++) {
            static void (*const steps[])(struct world * w) = { change, tell, answer };

            steps[prng_below(&w.prng, 3)](&w);
        }
        while (w.report.state != REPORT_CLEAN) {
            tell(&w);
            answer(&w);
        }
        assert_int_equal(w.managers, w.size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(news_wait_go_and_are_known),
        cmocka_unit_test(what_was_not_taken_is_news_again),
        cmocka_unit_test(behind_a_truncation_that_is_not_made_nothing_is_told),
        cmocka_unit_test(what_is_lost_is_not_told_again),
        cmocka_unit_test(the_manager_knows_the_size_in_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
