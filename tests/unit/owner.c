/* What the owner has said while the benefactor ran: whose word holds behind restarts, how long a pause lasts, and what is kept. The histories
 * are drawn from a seed, and judged from all that was said. */
#include "benefactor/owner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "benefactor/cost.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

#include <stdio.h>
#include <string.h>

#define GIB (UINT64_C(1) << 30)

enum { STEPS = 300, HISTORIES = 200 };

static const struct donation_wish settings = { { false, 50 * GIB }, { true, 20 } };

static struct owner begun(const struct donation_wish *says)
{
    static const struct owner_kept none;
    struct owner o;

    assert_false(owner_begin(&o, &none, says, 1000, 5));
    return o;
}

/* ---- Whose word holds ---- */

static bool wish_is(const struct owner *o, bool percent, uint64_t donate, uint64_t keep_percent)
{
    struct donation_wish wish;

    owner_wish(o, &wish);
    return wish.donate.percent == percent && wish.donate.value == donate &&
           wish.keep_free.percent && wish.keep_free.value == keep_percent;
}

static void the_owners_word_holds_until_the_settings_change(void **state)
{
    const struct donation_share third = { true, 30 }, quarter = { true, 25 };
    struct donation_wish later = settings;
    struct owner o = begun(&settings), next;

    (void)state;
    assert_true(wish_is(&o, false, 50 * GIB, 20));
    owner_set(&o, &third, NULL);
    assert_true(wish_is(&o, true, 30, 20));
    owner_set(&o, NULL, &quarter);
    assert_true(wish_is(&o, true, 30, 25));
    assert_false(owner_begin(&next, &o.kept, &settings, 1000, 0)); /* A restart. */
    assert_true(wish_is(&next, true, 30, 25));
    later.donate.value =
        80 * GIB; /* Somebody has written into the configuration: that came later. */
    assert_true(owner_begin(&next, &o.kept, &later, 1000, 0));
    assert_true(
        wish_is(&next, false, 80 * GIB, 25)); /* Of the other one they say what they said. */
    o = next;
    assert_true(wish_is(&o, false, 80 * GIB, 25));
    assert_false(
        owner_begin(&next, &o.kept, &settings, 1000, 0)); /* Written back: it stays forgotten. */
    assert_true(wish_is(&next, false, 50 * GIB, 25));
}

static void the_same_in_another_unit_is_another_word(void **state)
{
    const struct donation_share nothing = { false, 0 };
    struct donation_wish later = { { true, 0 }, { true, 20 } },
                         now = { { false, 0 }, { true, 20 } };
    struct owner o = begun(&now), next;

    (void)state;
    owner_set(&o, &nothing, NULL);
    assert_true(owner_begin(&next, &o.kept, &later, 1000, 0));
    assert_false(next.kept.donate.said);
}

/* ---- Pauses ---- */

static void a_pause_ends_by_itself(void **state)
{
    struct owner o = begun(&settings);

    (void)state;
    assert_false(owner_is_paused(&o));
    assert_false(owner_tick(&o, 1000000));
    owner_pause(&o, 1000, 77, 500);
    assert_true(owner_is_paused(&o));
    assert_int_equal(owner_pause_left_ms(&o, 600), 900);
    assert_false(owner_tick(&o, 1499));
    assert_true(owner_is_paused(&o));
    assert_true(owner_tick(&o, 1500));
    assert_false(owner_is_paused(&o));
    assert_false(owner_tick(&o, 1501));
    owner_pause(&o, 0, 77, 500);
    assert_false(owner_tick(&o, UINT64_MAX - 1));
    assert_int_equal(owner_pause_left_ms(&o, 600), 0);
    owner_resume(&o);
    assert_false(owner_is_paused(&o));
}

/* Begin again with the wall clock at `wall_ms`; what is left of a pause of 1000 ms that began at 10000. */
static uint64_t left_at(uint64_t wall_ms, bool *paused)
{
    const struct owner_kept kept = { .pause_at_ms = 10000, .pause_ms = 1000 };
    struct owner o;
    bool written = owner_begin(&o, &kept, &settings, wall_ms, 70);

    *paused = owner_is_paused(&o);
    assert_true(written != *paused);
    return owner_pause_left_ms(&o, 70);
}

static void a_pause_goes_on_behind_a_restart(void **state)
{
    const struct owner_kept endless = { .pause_at_ms = 10000, .pause_ms = 0 };
    struct owner o;
    bool paused;

    (void)state;
    assert_int_equal(left_at(10400, &paused), 600);
    assert_true(paused);
    assert_int_equal(left_at(11000, &paused), 0);
    assert_false(paused);
    assert_int_equal(left_at(UINT64_MAX, &paused), 0);
    assert_false(paused);
    assert_int_equal(left_at(3, &paused),
                     1000); /* The clock was put back: not longer than it is long. */
    assert_true(paused);
    assert_false(owner_begin(&o, &endless, &settings, 99999999, 0));
    assert_true(owner_is_paused(&o) && !owner_tick(&o, UINT64_MAX - 1));
    owner_pause(&o, UINT64_MAX, 1, UINT64_MAX - 5); /* No sum runs over. */
    assert_false(owner_tick(&o, 10));
}

/* ---- The text ---- */

static struct owner_kept read_back(const struct owner_kept *kept)
{
    char text[OWNER_TEXT_BYTES_MAX];
    struct owner_kept again;
    size_t count = owner_format(kept, text);

    assert_int_equal(
        owner_parse((struct slice){ (const uint8_t *)text, count }, "/srv", &again, NULL), 0);
    return again;
}

static int parse(const char *text, struct errmsg *err)
{
    struct owner_kept kept;
    int rv = owner_parse((struct slice){ (const uint8_t *)text, strlen(text) }, "/srv", &kept, err);

    assert_true(rv == 0 || (!kept.donate.said && !kept.keep_free.said && kept.pause_at_ms == 0));
    return rv;
}

static void the_text_is_the_one_of_the_header(void **state)
{
    const struct owner_kept kept = {
        .donate = { true, { true, 30 }, { false, 50 * GIB } },
        .pause_at_ms = UINT64_C(1732642234000),
        .pause_ms = 1800000,
    };
    char text[OWNER_TEXT_BYTES_MAX];

    (void)state;
    owner_format(&kept, text);
    assert_string_equal(text, "format = 1\ndonate = 30% instead of 53687091200\n"
                              "keep-free = - instead of -\npause = 1732642234000 for 1800000\n");
}

static void other_texts_are_refused_in_words(void **state)
{
    static const char *const bad[] = {
        "",
        "format = 1\n",
        "format = 0\ndonate = - instead of -\nkeep-free = - instead of -\npause = 0 for 0\n",
        "format = 1\ndonate = - instead of 5\nkeep-free = - instead of -\npause = 0 for 0\n",
        "format = 1\ndonate = 5 instead of -\nkeep-free = - instead of -\npause = 0 for 0\n",
        "format = 1\ndonate = 5G instead of 5\nkeep-free = - instead of -\npause = 0 for 0\n",
        "format = 1\ndonate = 101% instead of 5\nkeep-free = - instead of -\npause = 0 for 0\n",
        "format = 1\ndonate = - instead of -\nkeep-free = - instead of -\npause = -1 for 0\n",
        ("format = 1\ndonate = - instead of -\nkeep-free = - instead of -\npause = 0 for "
         "99999999999999999999\n"),
        "format = 1\ndonate = - instead of -\nkeep-free = - instead of -\npause = 0 for 0",
        "format = 1\ndonate = - instead of -\nkeep-free = - instead of -\npause = 0 for 0\n\n",
        "format = 1 donate = - instead of - keep-free = - instead of - pause = 0 for 0\n",
    };
    struct errmsg err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(parse(bad[i], &err), MORSEL_CORRUPT);
        assert_non_null(strstr(err.text, "/srv/owner"));
        assert_non_null(strstr(err.text, "delete the file"));
    }
    assert_int_equal(parse("format = 2\n", &err), MORSEL_VERSION);
    assert_non_null(strstr(err.text, "/srv/owner"));
    assert_int_equal(
        parse("format = 1\ndonate = - instead of -\nkeep-free = - instead of -\npause = 0 for 0\n",
              NULL),
        0);
}

/* ---- Drawn histories ---- */

static struct donation_share draw_share(struct prng *prng)
{
    return prng_below(prng, 2) == 0 ? (struct donation_share){ true, prng_below(prng, 3) }
                                    : (struct donation_share){ false, prng_below(prng, 3) };
}

/* What was said last of one of the two, and by whom. */
struct last_word
{
    struct donation_share settings, holds;
};

static bool same(const struct donation_share *a, const struct donation_share *b)
{
    return a->percent == b->percent && a->value == b->value;
}

static void restart(struct owner *o, struct prng *prng, struct last_word *donate,
                    struct last_word *keep, const uint64_t *now_ms)
{
    const struct donation_wish was = o->settings;
    struct owner_kept kept = read_back(&o->kept);
    struct donation_wish next = was;
    const uint64_t left = owner_pause_left_ms(o, *now_ms);
    const bool paused = owner_is_paused(o);

    if (prng_below(prng, 3) == 0) {
        next.donate = draw_share(prng);
    }
    if (prng_below(prng, 3) == 0) {
        next.keep_free = draw_share(prng);
    }
    if (!same(&next.donate, &donate->settings)) {
        donate->settings = donate->holds = next.donate;
    }
    if (!same(&next.keep_free, &keep->settings)) {
        keep->settings = keep->holds = next.keep_free;
    }
    (void)owner_begin(o, &kept, &next, *now_ms, *now_ms); /* The wall clock is a good one. */
    assert_true(owner_is_paused(o) == paused && owner_pause_left_ms(o, *now_ms) == left);
}

static void the_last_word_holds(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, test_seed_first());
    for (unsigned history = 0; history < HISTORIES; history++) {
        struct last_word donate, keep;
        struct donation_wish first, wish;
        uint64_t now_ms = 1 + prng_below(&prng, 1000), end_ms = 0; /* 0: not paused. */
        struct owner o;

        memset(&first, 0, sizeof(first));
        first.donate = donate.settings = donate.holds = draw_share(&prng);
        first.keep_free = keep.settings = keep.holds = draw_share(&prng);
        o = begun(&first);
        for (unsigned step = 0; step < STEPS; step++) {
            struct donation_share share = draw_share(&prng);
            uint64_t length = prng_below(&prng, 50);

            now_ms += prng_below(&prng, 10);
            assert_int_equal(owner_tick(&o, now_ms), end_ms != 0 && now_ms >= end_ms);
            end_ms = now_ms >= end_ms ? 0 : end_ms;
            switch (prng_below(&prng, 5)) {
            case 0:
                owner_set(&o, &share, NULL);
                donate.holds = share;
                break;
            case 1:
                owner_set(&o, NULL, &share);
                keep.holds = share;
                break;
            case 2:
                owner_pause(&o, length, now_ms, now_ms);
                end_ms = length == 0 ? UINT64_MAX : now_ms + length;
                break;
            case 3:
                owner_resume(&o);
                end_ms = 0;
                break;
            default:
                restart(&o, &prng, &donate, &keep, &now_ms);
                break;
            }
            owner_wish(&o, &wish);
            assert_true(same(&donate.holds, &wish.donate));
            assert_true(same(&keep.holds, &wish.keep_free));
            assert_int_equal(owner_is_paused(&o), end_ms != 0);
        }
    }
}

/* ---- What it costs ---- */

static void rates_are_of_the_time_between(void **state)
{
    struct cost cost = { .looked = false };
    struct cost_counts counts = { 1000, 10, 20, 30, 40 };

    (void)state;
    cost_look(&cost, &counts, 5000);
    assert_true(cost.rate.cpu_us == 0 && cost.rate.sent == 0); /* Nobody knows since when. */
    counts = (struct cost_counts){ 3000, 20, 60, 30, UINT64_MAX };
    cost_look(&cost, &counts, 5000 + COST_SPAN_MS - 1); /* Too short for a rate. */
    assert_true(cost.rate.cpu_us == 0);
    cost_look(&cost, &counts, 7000);
    assert_true(cost.rate.cpu_us == 1000 && cost.rate.read == 5 && cost.rate.written == 20 &&
                cost.rate.received == 0 && cost.rate.sent == (UINT64_MAX - 40) / 2);
    counts = (struct cost_counts){ 2999, 20, 60, 30, 0 }; /* What gets less says nothing. */
    cost_look(&cost, &counts, 9000);
    assert_true(cost.rate.cpu_us == 0 && cost.rate.sent == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owners_word_holds_until_the_settings_change),
        cmocka_unit_test(the_same_in_another_unit_is_another_word),
        cmocka_unit_test(a_pause_ends_by_itself),
        cmocka_unit_test(a_pause_goes_on_behind_a_restart),
        cmocka_unit_test(the_text_is_the_one_of_the_header),
        cmocka_unit_test(other_texts_are_refused_in_words),
        cmocka_unit_test(the_last_word_holds),
        cmocka_unit_test(rates_are_of_the_time_between),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
