/* What the kernel believes of an open file, and what it is to be told (kernel_view.h, kernel_known.h). */
#include "client/coherence/kernel_view.h"

#include "client/coherence/kernel_known.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Behind no question. */
static struct kernel_read a_read = { .counts = true };

static const struct timespec before = { 100, 7 }, now = { 200, 999999999 };

/* It was told that the file has `size` bytes, long ago. */
static void told(struct kernel_view *v, uint64_t size)
{
    kernel_view_init(v);
    kernel_view_told(v, size, &before);
}

static struct kernel_answer answer_under(struct kernel_question *q, struct kernel_view *v,
                                         uint64_t lease, uint64_t size)
{
    static uint32_t never_twice;
    struct kernel_answer answer = { .size = size, .mtime = now };

    kernel_question_begin(q, v, 1000);
    kernel_question_answer(q, v, lease, &never_twice, &answer);
    return answer;
}

static struct kernel_answer answer_to(struct kernel_question *q, struct kernel_view *v, bool shared,
                                      uint64_t size)
{
    return answer_under(q, v, shared ? 0 : 1, size);
}

static bool is_time(const struct timespec *t, const struct timespec *expected)
{
    return t->tv_sec == expected->tv_sec && t->tv_nsec == expected->tv_nsec;
}

/* ---- Questions ---- */

static void of_our_own_file_it_hears_the_time_that_it_knows(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };
    struct kernel_answer answer;

    (void)state;
    told(&v, 10);
    answer = answer_to(&q, &v, false, 20);
    assert_false(answer.drop);
    assert_true(answer.fleeting); /* stat(2) is to be told the truth. */
    assert_true(is_time(&answer.mtime, &before));
    assert_int_equal(answer.size, 20);
    kernel_view_told(&v, 20, &now);
    answer = answer_to(&q, &v, false, 20);
    assert_false(answer.fleeting);
    kernel_view_init(&v); /* It knows none. */
    answer = answer_to(&q, &v, false, 20);
    assert_true(!answer.drop && !answer.fleeting && is_time(&answer.mtime, &now));
}

static void of_a_shared_file_the_pages_go_before_each_answer(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };

    (void)state;
    told(&v, 10);
    for (uint64_t size = 10; size < 13; size++) {
        struct kernel_answer answer = answer_to(&q, &v, true, size);

        assert_true(answer.drop && answer.fleeting);
        assert_true(is_time(&answer.mtime, &now));
        assert_int_equal(q.shorter, 0);
    }
}

static void pages_of_a_time_of_sharing_go_once_more(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };

    (void)state;
    told(&v, 10);
    (void)answer_to(&q, &v, true, 10);
    assert_true(answer_to(&q, &v, false, 10).drop);
    assert_false(answer_to(&q, &v, false, 10).drop);
    /* Shorter meanwhile: the pages have gone, there is nothing to betray it. */
    (void)answer_to(&q, &v, true, 10);
    assert_true(answer_to(&q, &v, false, 5).drop);
    assert_int_equal(q.shorter, 0);
}

static void only_the_answer_tells_that_a_file_is_shorter(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };
    struct kernel_answer first, second;

    (void)state;
    told(&v, 10);
    first = answer_to(&q, &v, true, 9);
    assert_true(!first.drop && first.fleeting);
    assert_int_equal(q.shorter, 10);
    assert_false(kernel_question_crossed(&q, &v, false, 0, 1010));
    second = answer_to(&q, &v, true, 8);
    assert_false(is_time(&first.mtime, &second.mtime));
    assert_true(first.mtime.tv_nsec < 1000000000 && second.mtime.tv_nsec < 1000000000);
    assert_true(answer_to(&q, &v, true, 8).drop); /* It has been told. */
}

/* What may come between a question and its answer. */
enum crossing { NOTHING, CHANGED, WRITING, DROPPING, JUST_BEFORE, DELAYED, CROSSINGS };

static void where_it_may_be_passed_over_the_pages_go_all_the_same(void **state)
{
    (void)state;
    for (enum crossing crossing = NOTHING; crossing < CROSSINGS; crossing++) {
        struct kernel_view v;
        struct kernel_question q = { .changes = 0 };
        bool crossed;

        told(&v, 10);
        if (crossing == JUST_BEFORE) {
            kernel_view_changed(&v, 999);
        }
        (void)answer_to(&q, &v, true, 9);
        if (crossing == CHANGED) {
            kernel_view_changed(&v, 1005);
        } else if (crossing == WRITING) {
            kernel_view_writes(&v);
        } else if (crossing == DELAYED) {
            kernel_question_delayed(&q);
        }
        crossed = kernel_question_crossed(&q, &v, crossing == DROPPING, 0, 1010);
        assert_int_equal(crossed, crossing != NOTHING);
        /* It has not heard, perhaps: the next answer tells it again. */
        assert_int_equal(answer_to(&q, &v, true, 9).drop, !crossed);
    }
}

/* A question under the lease, which another change crosses, or nothing: do the pages go? */
static bool goes(struct kernel_view *v, uint64_t lease, uint64_t size, bool crossed)
{
    struct kernel_question q = { .changes = 0 };

    assert_false(answer_under(&q, v, lease, size).drop);
    if (crossed) {
        kernel_view_changed(v, 900); /* Long before the next question. */
    }
    return kernel_question_crossed(&q, v, false, 0, 1010);
}

/* A lease was lost while it asked, others wrote, and the file is ours again when it is answered: it
 * would go on with the end that it knew. */
static void what_is_ours_again_may_have_become_longer(void **state)
{
    struct kernel_view v;

    (void)state;
    told(&v, 10);
    assert_true(goes(&v, 7, 20, true));
    assert_false(goes(&v, 7, 20, true)); /* It has heard. */
    assert_false(goes(&v, 7, 30, true)); /* Nobody but itself has made it longer. */
    assert_true(goes(&v, 8, 30, true));  /* The same again, and as long as it was told. */
    assert_false(goes(&v, 9, 30, false));
    assert_false(goes(&v, 9, 40, true)); /* That answer did for this lease. */
    told(&v, 0);
    assert_false(goes(&v, 7, 0, true)); /* There is nothing to be behind. */
}

static void what_was_told_meanwhile_is_not_the_last_word(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };

    (void)state;
    told(&v, 10);
    (void)answer_under(&q, &v, 7, 20);
    kernel_view_told(&v, 5, &before);
    kernel_view_changed(&v, 1001);
    assert_true(kernel_question_crossed(&q, &v, false, 0, 1010));
    (void)answer_to(&q, &v, true, 15);
    assert_int_equal(q.shorter, 20); /* For so many it has been told since. */
}

/* Who writes and reads what he has written keeps his pages. */
static void of_what_it_has_written_itself_it_knows_the_end(void **state)
{
    enum { ASKS = 1, WRITES };
    static const struct
    {
        uint64_t size;
        uint32_t thread;
        bool behind;
    } cases[] = {
        { 20, WRITES, false },
        { 20, ASKS, true },   /* The answer to the write is perhaps not taken in. */
        { 21, WRITES, true }, /* Somebody else wrote more. */
    };
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };
    struct kernel_write w;

    (void)state;
    told(&v, 0);
    kernel_view_writes(&v);
    assert_true(kernel_view_wrote(&v, &w, false, 20, false));
    assert_true(goes(&v, 1, 20, true)); /* Not answered. */
    kernel_view_write_ends(&v, WRITES, 1000);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)answer_under(&q, &v, 2 + i, cases[i].size);
        assert_int_equal(kernel_question_crossed(&q, &v, false, cases[i].thread, 1001),
                         cases[i].behind);
    }
    kernel_view_told(&v, 3, &before); /* It was cut, and others made it as long again. */
    (void)answer_under(&q, &v, 9, 20);
    assert_true(kernel_question_crossed(&q, &v, false, WRITES, 1001));
}

static void what_was_told_long_before_crosses_nothing(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };

    (void)state;
    told(&v, 10);
    kernel_view_changed(&v, 998);
    (void)answer_to(&q, &v, true, 9);
    assert_false(kernel_question_crossed(&q, &v, false, 0, 1010));
    kernel_view_writes(&v);
    kernel_view_write_ends(&v, 0, 1001); /* Answered in between. */
    assert_true(kernel_question_crossed(&q, &v, false, 0, 1010));
    /* Nothing that is not shorter. */
    (void)answer_to(&q, &v, true, 20);
    kernel_view_changed(&v, 1001);
    assert_false(kernel_question_crossed(&q, &v, true, 0, 1010));
}

static void of_a_file_that_is_not_open_nothing_is_known(void **state)
{
    struct kernel_question q = { .changes = 3 };

    (void)state;
    kernel_question_begin(&q, NULL, 1000);
    assert_int_equal(q.changes, 0);
    assert_false(q.crossed);
    q.shorter = 5; /* It was open then. */
    kernel_question_delayed(&q);
    assert_false(kernel_question_crossed(&q, NULL, true, 0, 1010));
}

/* ---- What it is at ---- */

static void who_passes_by_the_pages(void **state)
{
    static const struct
    {
        struct kernel_handle handle;
        bool direct;
    } cases[] = {
        { { .maps_direct = true, .reads = true }, false },
        { { .maps_direct = true, .reads = true, .shared = true }, true },
        { { .maps_direct = true, .writes = true, .append = true }, true },
        { { .maps_direct = true, .reads = true, .writes = true, .append = true }, true },
        { { .maps_direct = true, .reads = true, .append = true }, false },
        { { .reads = true, .writes = true, .shared = true }, false },
        { { .reads = true, .writes = true, .append = true }, false },
        { { .writes = true, .append = true }, true },
        { { .reads = true, .append = true, .shared = true }, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(kernel_handle_is_direct(&cases[i].handle), cases[i].direct);
    }
}

/* How many WRITEs may be answered when a READ ends. */
static unsigned freed_by_a_read(struct kernel_view *v)
{
    struct list free;
    unsigned count = 0;

    list_init(&free);
    kernel_view_read_ends(v, &a_read, 1000, &free);
    while (list_pop_front(&free) != NULL) {
        count++;
    }
    return count;
}

static bool writes(struct kernel_view *v, struct kernel_write *w, bool more)
{
    kernel_view_writes(v);
    return kernel_view_wrote(v, w, false, 5, more);
}

static void writes_are_answered_behind_the_reads_before_them(void **state)
{
    struct kernel_view v;
    struct kernel_write w[4];

    (void)state;
    told(&v, 10);
    assert_true(writes(&v, &w[0], false));
    kernel_view_reads(&v, &a_read, 1000);
    assert_false(writes(&v, &w[1], false));
    kernel_view_reads(&v, &a_read, 1000); /* Behind it. */
    assert_false(writes(&v, &w[2], false));
    assert_true(writes(&v, &w[3], true)); /* It goes on. */
    assert_int_equal(freed_by_a_read(&v), 1);
    assert_int_equal(freed_by_a_read(&v), 1);
    kernel_view_end(&v);
}

/* The pages that it fills may be old when the file is ours again. */
static void a_read_of_a_time_of_sharing_makes_pages_old(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };

    (void)state;
    told(&v, 10);
    kernel_view_reads(&v, &a_read, 1000);
    (void)freed_by_a_read(&v);
    assert_true(answer_to(&q, &v, false, 10).drop);
    assert_false(answer_to(&q, &v, false, 10).drop);
}

static void with_the_last_read_all_of_them_are_answered(void **state)
{
    struct kernel_view v;
    struct kernel_write w[2];
    struct list free;

    (void)state;
    told(&v, 10);
    kernel_view_reads(&v, &a_read, 1000);
    assert_false(writes(&v, &w[0], false));
    assert_false(writes(&v, &w[1], false));
    list_init(&free);
    kernel_view_read_ends(&v, &a_read, 1000, &free);
    assert_ptr_equal(list_pop_front(&free), &w[0].node); /* The older one first. */
    assert_ptr_equal(list_pop_front(&free), &w[1].node);
    assert_true(list_empty(&free));
}

/* ---- Has it been taken in? ---- */

enum { ASKER = 7, OTHER = 8, NOW_MS = 1000 };

static unsigned count(struct list *free)
{
    unsigned n = 0;

    while (list_pop_front(free) != NULL) {
        n++;
    }
    return n;
}

static unsigned heard(struct list *awaited, uint32_t thread)
{
    struct list free;

    list_init(&free);
    kernel_views_heard(awaited, thread, &free);
    return count(&free);
}

static unsigned late(struct list *awaited, uint64_t now_ms)
{
    struct list free;

    list_init(&free);
    kernel_views_late(awaited, now_ms, &free);
    return count(&free);
}

/* It was told that the file is shorter, and it has asked in this thread. */
static void told_shorter(struct kernel_view *v, uint32_t thread, uint64_t now_ms,
                         struct list *awaited)
{
    struct kernel_question q = { .changes = 0 };

    told(v, 10);
    (void)answer_to(&q, v, true, 5);
    assert_false(kernel_question_crossed(&q, v, false, 0, 1010));
    kernel_question_answered(&q, v, thread, now_ms, awaited);
}

static void nothing_crosses_an_answer_that_is_not_taken_in(void **state)
{
    struct kernel_view v;
    struct kernel_write w[3];
    struct list awaited;

    (void)state;
    list_init(&awaited);
    assert_true(kernel_views_due_ms(&awaited) == UINT64_MAX);
    told_shorter(&v, ASKER, NOW_MS, &awaited);
    assert_false(writes(&v, &w[0], false));
    assert_true(writes(&v, &w[1], true)); /* It goes on. */
    assert_int_equal(heard(&awaited, OTHER), 0);
    assert_int_equal(heard(&awaited, ASKER), 1);
    assert_true(writes(&v, &w[2], false));
    assert_true(list_empty(&awaited));
    kernel_view_end(&v);
}

static void after_a_while_it_has_been_taken_in(void **state)
{
    struct kernel_view v, second;
    struct kernel_write w[2];
    struct list awaited;

    (void)state;
    list_init(&awaited);
    told_shorter(&v, 0, NOW_MS, &awaited); /* Nobody knows who asked. */
    told_shorter(&second, ASKER, NOW_MS + 1, &awaited);
    assert_false(writes(&v, &w[0], false));
    assert_false(writes(&second, &w[1], false));
    assert_int_equal(heard(&awaited, 0), 0);
    assert_int_equal(kernel_views_due_ms(&awaited), NOW_MS + KERNEL_TAKES_IN_MS);
    assert_int_equal(late(&awaited, NOW_MS + KERNEL_TAKES_IN_MS - 1), 0);
    assert_int_equal(late(&awaited, NOW_MS + KERNEL_TAKES_IN_MS), 1);
    assert_int_equal(kernel_views_due_ms(&awaited), NOW_MS + 1 + KERNEL_TAKES_IN_MS);
    assert_int_equal(late(&awaited, UINT64_MAX - 1), 1);
    assert_true(list_empty(&awaited));
}

static void a_write_may_wait_for_both(void **state)
{
    struct kernel_view v;
    struct kernel_write w[2];
    struct list awaited;

    (void)state;
    list_init(&awaited);
    told_shorter(&v, ASKER, NOW_MS, &awaited);
    assert_false(writes(&v, &w[0], false));
    kernel_view_reads(&v, &a_read, 1000);
    assert_false(writes(&v, &w[1], false));
    assert_int_equal(freed_by_a_read(&v), 0);
    assert_int_equal(heard(&awaited, ASKER), 2);
    told_shorter(&v, ASKER, NOW_MS, &awaited);
    kernel_view_reads(&v, &a_read, 1000);
    assert_false(writes(&v, &w[0], false));
    assert_int_equal(heard(&awaited, ASKER), 0);
    assert_int_equal(freed_by_a_read(&v), 1);
}

static void the_last_answer_counts(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };
    struct kernel_write w;
    struct list awaited;

    (void)state;
    list_init(&awaited);
    told_shorter(&v, ASKER, NOW_MS, &awaited);
    (void)answer_to(&q, &v, true, 3);
    kernel_question_answered(&q, &v, OTHER, NOW_MS + 5, &awaited);
    assert_false(writes(&v, &w, false));
    assert_int_equal(heard(&awaited, ASKER), 0);
    assert_int_equal(kernel_views_due_ms(&awaited), NOW_MS + 5 + KERNEL_TAKES_IN_MS);
    assert_int_equal(heard(&awaited, OTHER), 1);
}

/* Of a question of the thread, so long after a WRITE of ASKER was answered. */
static bool crossed(struct kernel_view *v, uint32_t thread, uint64_t behind_ms)
{
    struct kernel_question q = { .changes = 0 };

    kernel_view_told(v, 10, &before);
    (void)answer_to(&q, v, true, 5);
    return kernel_question_crossed(&q, v, false, thread, 100 + behind_ms);
}

static void the_answer_to_a_write_crosses_when_it_is_taken_in(void **state)
{
    struct kernel_view v;

    (void)state;
    told(&v, 10);
    kernel_view_writes(&v);
    kernel_view_write_ends(&v, ASKER, 100);
    assert_true(crossed(&v, OTHER, KERNEL_WRITER_MS - 1));
    assert_true(crossed(&v, 0, KERNEL_WRITER_MS - 1));
    assert_false(crossed(&v, OTHER, KERNEL_WRITER_MS));
    assert_false(crossed(&v, ASKER, 0)); /* It runs. */
    kernel_view_writes(&v);              /* Another one. */
    kernel_view_write_ends(&v, OTHER, 100);
    assert_true(crossed(&v, ASKER, 0));
    assert_true(crossed(&v, OTHER, 0));
    assert_true(crossed(&v, 0, 0));
    assert_false(crossed(&v, OTHER, KERNEL_WRITER_MS));
    kernel_view_writes(&v); /* The last one alone. */
    kernel_view_write_ends(&v, ASKER, 100 + KERNEL_WRITER_MS);
    assert_false(crossed(&v, ASKER, KERNEL_WRITER_MS));
    assert_true(crossed(&v, OTHER, KERNEL_WRITER_MS));
}

static void only_a_shorter_end_is_waited_for(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };
    struct list awaited;

    (void)state;
    list_init(&awaited);
    told(&v, 10);
    (void)answer_to(&q, &v, true, 10);
    kernel_question_answered(&q, &v, ASKER, NOW_MS, &awaited);
    assert_true(list_empty(&awaited));
    (void)answer_to(&q, &v, true, 5);
    kernel_question_answered(&q, NULL, ASKER, NOW_MS, &awaited); /* Closed since. */
    assert_true(list_empty(&awaited));
    kernel_question_answered(&q, &v, ASKER, NOW_MS, &awaited);
    assert_false(list_empty(&awaited));
    kernel_view_end(&v);
    assert_true(list_empty(&awaited));
}

static void what_is_written_makes_it_longer(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };
    struct kernel_write w;

    (void)state;
    told(&v, 10);
    kernel_view_writes(&v);
    assert_true(kernel_view_wrote(&v, &w, false, 30, false));
    kernel_view_write_ends(&v, 0, 5);
    (void)answer_to(&q, &v, true, 29);
    assert_int_equal(q.shorter, 30);
    assert_false(kernel_question_crossed(&q, &v, false, 0, 1010)); /* It has been answered. */
    kernel_view_writes(&v);
    assert_true(kernel_view_wrote(&v, &w, false, 0, false)); /* It has failed. */
    kernel_view_write_ends(&v, 0, 5);
    assert_true(answer_to(&q, &v, true, 29).drop);
}

static void what_passes_by_the_pages_makes_them_old(void **state)
{
    struct kernel_view v;
    struct kernel_question q = { .changes = 0 };
    struct kernel_write w;

    (void)state;
    told(&v, 10);
    kernel_view_writes(&v);
    assert_true(kernel_view_wrote(&v, &w, true, 0, false));
    kernel_view_write_ends(&v, 0, 5);
    assert_true(answer_to(&q, &v, false, 10).drop);
    assert_false(answer_to(&q, &v, false, 10).drop);
}

static void what_is_mapped_is_dropped_between_questions(void **state)
{
    struct kernel_view v;

    (void)state;
    told(&v, 10);
    assert_false(kernel_view_grows_old(&v, false));
    assert_true(kernel_view_grows_old(&v, true));
    assert_true(kernel_view_grows_old(&v, false)); /* Until they have gone for the last time. */
    assert_true(kernel_view_may_freshen(&v, 1000));
    kernel_view_asks(&v);
    assert_false(kernel_view_may_freshen(&v, 1000));
    assert_true(kernel_view_grows_old(&v, false));
    kernel_view_asked(&v, 1000);
    assert_false(kernel_view_may_freshen(&v, 1000 + KERNEL_QUIET_MS - 1)); /* It is taking it in. */
    assert_true(kernel_view_may_freshen(&v, 1000 + KERNEL_QUIET_MS));
    kernel_view_freshened(&v, true);
    assert_true(kernel_view_grows_old(&v, false));
    kernel_view_freshened(&v, false);
    assert_false(kernel_view_grows_old(&v, false));
    kernel_view_asked(&v, 2000); /* It was opened since the question. */
    assert_true(kernel_view_may_freshen(&v, 2000 + KERNEL_QUIET_MS));
}

/* A drop makes it pass over how little a READ brings. */
static void what_is_mapped_stays_while_who_has_asked_reads(void **state)
{
    struct kernel_view v;
    struct kernel_read asked = { 0 }, mapped = { 0 };
    struct list free;

    (void)state;
    told(&v, 10);
    list_init(&free);
    kernel_view_asks(&v);
    kernel_view_asked(&v, 1000);
    kernel_view_reads(&v, &asked, 1001);
    kernel_view_reads(&v, &mapped, 1001 + KERNEL_QUIET_MS);
    assert_true(asked.asked && !mapped.asked);
    assert_false(kernel_view_may_freshen(&v, 1001 + KERNEL_QUIET_MS));
    kernel_view_read_ends(&v, &asked, 1400, &free);
    assert_false(kernel_view_may_freshen(&v, 1400 + KERNEL_QUIET_MS - 1));
    assert_true(kernel_view_may_freshen(&v, 1400 + KERNEL_QUIET_MS)); /* Beside the other one. */
    kernel_view_reads(&v, &asked, 1400 + KERNEL_QUIET_MS);
    assert_false(asked.asked);
    kernel_view_asks(&v); /* It has asked what is not answered yet. */
    kernel_view_reads(&v, &asked, 5000);
    assert_true(asked.asked);
    kernel_view_asked(&v, 5000);
    kernel_view_reads(&v, &asked, 9000); /* We did not run meanwhile. */
    assert_true(asked.asked);
    kernel_view_reads(&v, &mapped, 9000);
    assert_false(mapped.asked);
}

/* A READ that is not answered holds its pages: who waits to drop them gets them when it has failed, before who reads. */
static void what_is_mapped_stays_while_a_read_stands(void **state)
{
    struct kernel_view v;
    struct kernel_read first, second;
    struct list free;

    (void)state;
    told(&v, 10);
    list_init(&free);
    kernel_view_reads(&v, &first, 1000);
    assert_true(kernel_view_may_freshen(&v, 1000 + KERNEL_READ_LONG_MS - 1));
    assert_false(kernel_view_may_freshen(&v, 1000 + KERNEL_READ_LONG_MS));
    kernel_view_reads(&v, &second, 1400); /* Others behind it do not make it younger, */
    assert_false(kernel_view_may_freshen(&v, 1000 + KERNEL_READ_LONG_MS));
    kernel_view_read_ends(&v, &first, 2000, &free); /* but one that ends does: they go on. */
    assert_true(kernel_view_may_freshen(&v, 2000));
    kernel_view_read_ends(&v, &second, 2100, &free);
    assert_true(kernel_view_may_freshen(&v, 9000));
}

/* ---- What goes with a lease ---- */

static void what_goes_with_a_lease(void **state)
{
    struct kernel_known k = { .attr_until_ns = 50, .names_until_ns = 60 };
    struct kernel_stale stale = kernel_known_stale(&k, false, LEASE_NONE, 49);

    (void)state;
    assert_true(stale.attr && stale.names && !stale.pages);
    stale = kernel_known_stale(&k, false, LEASE_NONE, 50);
    assert_true(!stale.attr && stale.names);
    stale = kernel_known_stale(&k, true, LEASE_NONE, 60);
    assert_true(stale.attr && stale.pages && !stale.names);
    stale = kernel_known_stale(&k, true, LEASE_R, 60);
    assert_true(stale.attr && !stale.pages);
    assert_int_equal(stale.unknown_until_ns, 0);
    kernel_known_entry(&k, 7, true);
    stale = kernel_known_stale(&k, false, LEASE_NONE, 60);
    assert_int_equal(stale.unknown_until_ns, 1000000007);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_our_own_file_it_hears_the_time_that_it_knows),
        cmocka_unit_test(of_a_shared_file_the_pages_go_before_each_answer),
        cmocka_unit_test(pages_of_a_time_of_sharing_go_once_more),
        cmocka_unit_test(only_the_answer_tells_that_a_file_is_shorter),
        cmocka_unit_test(where_it_may_be_passed_over_the_pages_go_all_the_same),
        cmocka_unit_test(what_is_ours_again_may_have_become_longer),
        cmocka_unit_test(what_was_told_meanwhile_is_not_the_last_word),
        cmocka_unit_test(of_what_it_has_written_itself_it_knows_the_end),
        cmocka_unit_test(what_was_told_long_before_crosses_nothing),
        cmocka_unit_test(of_a_file_that_is_not_open_nothing_is_known),
        cmocka_unit_test(who_passes_by_the_pages),
        cmocka_unit_test(writes_are_answered_behind_the_reads_before_them),
        cmocka_unit_test(a_read_of_a_time_of_sharing_makes_pages_old),
        cmocka_unit_test(with_the_last_read_all_of_them_are_answered),
        cmocka_unit_test(nothing_crosses_an_answer_that_is_not_taken_in),
        cmocka_unit_test(after_a_while_it_has_been_taken_in),
        cmocka_unit_test(a_write_may_wait_for_both),
        cmocka_unit_test(the_last_answer_counts),
        cmocka_unit_test(the_answer_to_a_write_crosses_when_it_is_taken_in),
        cmocka_unit_test(only_a_shorter_end_is_waited_for),
        cmocka_unit_test(what_is_written_makes_it_longer),
        cmocka_unit_test(what_passes_by_the_pages_makes_them_old),
        cmocka_unit_test(what_is_mapped_is_dropped_between_questions),
        cmocka_unit_test(what_is_mapped_stays_while_who_has_asked_reads),
        cmocka_unit_test(what_is_mapped_stays_while_a_read_stands),
        cmocka_unit_test(what_goes_with_a_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
