/* Hours of benefactors: drawn histories beside a model that keeps each minute of them, and counts anew for each answer; and some by
 * hand. */
#include "meta/cluster/hours.h"
#include "common/base/check.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    DONORS = 6,
    DAY = 1440,
    WEEK = 7 * DAY,
    MINUTES = 5 * WEEK,
    START_S = 1000000,
    LOCAL_S = 1700000040, /* Within an hour. */
    SEEDS = 3,
    MACHINES = 6 /* Of a history by hand. */
};

/* ---- The model ---- */

struct model
{
    uint8_t here[DONORS][MINUTES];
    int64_t local_min[MINUTES];     /* What the wall shows in each minute. */
    uint8_t jumped[MINUTES];        /* The clock was set just before. */
    int shares[DONORS][HOURS_WEEK]; /* -1: none. */
    double missed[DONORS];
    unsigned absences[DONORS][HOURS_ABSENCES];
};

static int known_of(const struct model *m, int d)
{
    int n = 0;

    for (int i = 0; i < HOURS_WEEK; i++) {
        n += m->shares[d][i] >= 0;
    }
    return n;
}

static int usual_of(const struct model *m, int d, int slot)
{
    return known_of(m, d) >= 144 && m->shares[d][slot] > 0 ? m->shares[d][slot] : 0;
}

static int minutes_here(const struct model *m, int d, int from, int to)
{
    int n = 0;

    for (int i = from; i < to; i++) {
        n += m->here[d][i];
    }
    return n;
}

/* Since when it is away: 0, the beginning, where it was never here. */
static int left_at(const struct model *m, int d, int now)
{
    while (now > 0 && !m->here[d][now - 1]) {
        now--;
    }
    return now;
}

static double turnout(const struct model *m, int slot, int from, int to)
{
    int usual = 0, present = 0;

    for (int d = 0; d < DONORS; d++) {
        usual += usual_of(m, d, slot) * (to - from);
        present += usual_of(m, d, slot) * minutes_here(m, d, from, to);
    }
    return usual > 0 && present * 2 >= usual ? (double)present / usual : 0;
}

static double missed_between(const struct model *m, int d, int slot, int from, int to, double turn)
{
    int left = left_at(m, d, to), since = left > from ? left : from;
    double share = m->shares[d][slot] > 0 ? m->shares[d][slot] / 254.0 : 0;

    return m->here[d][to - 1] ? 0 : share * (to - since) / 60.0 * turn;
}

static void end_hour(struct model *m, int slot, int from, int to)
{
    double turn = turnout(m, slot, from, to);

    for (int d = 0; d < DONORS; d++) {
        m->missed[d] = m->here[d][to - 1] ? 0
                       : left_at(m, d, to) >= from
                           ? missed_between(m, d, slot, from, to, turn)
                           : m->missed[d] + missed_between(m, d, slot, from, to, turn);
    }
    for (int d = 0; d < DONORS; d++) {
        int seen = (to - from) * 60, was = m->shares[d][slot];
        int share = (minutes_here(m, d, from, to) * 60 * 254 + seen / 2) / seen;

        if (seen >= 1800) {
            m->shares[d][slot] = was < 0 ? share : (3 * was + share + 2) / 4;
        }
        for (int i = 0; i < HOURS_ABSENCES && slot == HOURS_WEEK - 1; i++) {
            m->absences[d][i] = m->absences[d][i] * 3 / 4;
        }
    }
}

static int bucket_of(int minutes)
{
    int i = 0;

    for (int most = 15; i < 11 && minutes > most; most *= 2) {
        i++;
    }
    return i;
}

/* All of the history before `now`, hour by hour. Returns where the current one began. */
static int replay(struct model *m, int now)
{
    int from = 0;

    memset(m->shares, -1, sizeof(m->shares));
    memset(m->missed, 0, sizeof(m->missed));
    memset(m->absences, 0, sizeof(m->absences));
    for (int i = 1; i <= now; i++) {
        if (m->jumped[i]) {
            from = i;
        } else if (m->local_min[i] / 60 != m->local_min[i - 1] / 60) {
            end_hour(m, (int)(m->local_min[i - 1] / 60 % HOURS_WEEK), from, i);
            from = i;
        }
        for (int d = 0; d < DONORS && i < now; d++) {
            if (m->here[d][i] && !m->here[d][i - 1]) {
                m->absences[d][bucket_of(i - left_at(m, d, i))] += HOURS_ABSENCE_WEIGHT;
            }
            m->missed[d] = m->here[d][i] ? 0 : m->missed[d];
        }
    }
    return from;
}

static double gone_of(const struct model *m, int d, int now, int from)
{
    int slot = (int)(m->local_min[now] / 60 % HOURS_WEEK), away = now - left_at(m, d, now);
    double all = 16, longer = 4, missed = m->missed[d];
    int usual = 0, present = 0;

    if (m->here[d][now - 1] || known_of(m, d) < 144) {
        return 0;
    }
    if (away > WEEK) {
        return 1000;
    }
    for (int i = 0; i < DONORS; i++) {
        usual += usual_of(m, i, slot);
        present += m->here[i][now - 1] ? usual_of(m, i, slot) : 0;
    }
    missed = left_at(m, d, now) >= from ? 0 : missed;
    if (now > from && usual > 0 && present * 2 >= usual) {
        missed += missed_between(m, d, slot, from, now, (double)present / usual);
    }
    for (int i = 0; i < HOURS_ABSENCES; i++) {
        all += m->absences[d][i];
        longer += i >= bucket_of(away) ? m->absences[d][i] : 0;
    }
    if (missed > 0.49 && missed < 0.52) {
        return -1; /* The core rounds, once an hour: either. */
    }
    if (missed < 0.5) {
        return 0;
    }
    return 1000 /
           (1 + 32 * longer / all * pow(0.5, floor(missed)) * (1 - (missed - floor(missed)) / 2));
}

/* ---- Histories ---- */

static void draw_habits(struct model *m, struct prng *prng)
{
    for (int d = 0; d < DONORS; d++) {
        uint64_t kind = prng_below(prng, 4), state = 0;

        for (int i = 0; i < MINUTES; i++) {
            int minute = i % DAY, day = i / DAY % 7;

            if (kind == 0) { /* Office hours, now and then a day off. */
                state = minute == 0 ? prng_below(prng, 10) : state;
                m->here[d][i] = day < 5 && state > 0 && minute >= 540 && minute < 1080;
            } else if (kind == 1) { /* Now and then a restart. */
                state = state > 0 ? state - 1 : prng_below(prng, 3000) == 0 ? 20 : 0;
                m->here[d][i] = state == 0;
            } else { /* As it likes, and for good in the end, or with a long break. */
                state ^= prng_below(prng, kind == 2 ? 40 : 900) == 0;
                m->here[d][i] = (uint8_t)(state != 0 && (i < 3 * WEEK || i > 4 * WEEK + DAY * d));
            }
        }
    }
}

static void draw_clock(struct model *m, struct prng *prng)
{
    int64_t local = LOCAL_S / 60;

    for (int i = 0; i < MINUTES; i++, local++) {
        m->local_min[i] = local;
        if (i > 0 && prng_below(prng, 6000) == 0) { /* An hour, either way, or anything. */
            uint64_t what = prng_below(prng, 3);

            local += what == 0 ? 60 : what == 1 ? -60 : (int64_t)prng_below(prng, 5000) - 5100;
            m->local_min[i] = local;
            m->jumped[i] = 1;
        }
    }
}

static struct hours_time time_of(const struct model *m, int minute)
{
    return (struct hours_time){ START_S + minute * 60, m->local_min[minute] * 60 };
}

static void compare(struct model *m, const struct hours *h, int now)
{
    int from = replay(m, now), hour = (int)(m->local_min[now] / 60 % HOURS_WEEK);

    for (int d = 0; d < DONORS; d++) {
        donor_id id = (donor_id)d + 1;
        double gone = gone_of(m, d, now, from);
        int64_t back = INT64_MAX;

        assert_int_equal(hours_known(h, id), known_of(m, d) >= 144);
        for (int i = HOURS_WEEK - 1; hours_known(h, id) && i >= 0; i--) {
            int slot = (hour + i) % HOURS_WEEK, share = m->shares[d][slot];

            assert_int_equal(hours_usual(h, id, (m->local_min[now] / 60 + i) * 3600),
                             share < 0 ? 0 : share * 1000 / 254);
            back = share >= 128 ? i * 3600 : back;
        }
        assert_true(hours_back_in(h, id) == back);
        if (gone >= 0 && fabs(gone - hours_gone(h, id, START_S + now * 60)) > 4) {
            fail_msg("minute %d, donor %u: %u, and not %f", now, id,
                     hours_gone(h, id, START_S + now * 60), gone);
        }
    }
}

static void one_history(struct model *m, uint64_t seed)
{
    struct hours h;
    struct prng prng;

    memset(m, 0, sizeof(*m));
    prng_seed(&prng, seed);
    draw_habits(m, &prng);
    draw_clock(m, &prng);
    hours_init(&h);
    for (int i = 0; i < MINUTES; i++) {
        struct hours_time now = time_of(m, i);

        if (m->jumped[i] || hours_deadline_s(&h) <= now.s || i == 0) {
            hours_tick(&h, &now);
        }
        for (int d = 0; d < DONORS; d++) {
            if (i == 0) { /* All are known from the beginning on. */
                hours_come(&h, (donor_id)d + 1, &now);
            }
            if (m->here[d][i]) {
                hours_come(&h, (donor_id)d + 1, &now);
            } else {
                hours_go(&h, (donor_id)d + 1, &now);
            }
        }
        if (i > 0 && i + 1 < MINUTES && prng_below(&prng, 900) == 0) {
            struct hours_time next = time_of(m, i + 1);

            if (!m->jumped[i + 1]) {
                hours_tick(&h, &next);
                hours_check(&h);
                compare(m, &h, i + 1);
            }
        }
    }
    hours_free(&h);
}

static void answers_are_those_of_all_minutes(void **state)
{
    struct model *m = malloc(sizeof(*m));
    uint64_t first = test_seed_first();

    (void)state;
    assert_non_null(m);
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        one_history(m, seed);
    }
    free(m);
}

/* ---- By hand: weeks from a Monday, 0:00, on ---- */

struct desk
{
    struct hours h;
    int64_t s, local_s;
};

static struct hours_time now_of(const struct desk *k)
{
    return (struct hours_time){ k->s, k->local_s };
}

static void pass(struct desk *k, int64_t minutes)
{
    for (int64_t i = 0; i < minutes; i++) {
        struct hours_time now;

        k->s += 60;
        k->local_s += 60;
        now = now_of(k);
        if (hours_deadline_s(&k->h) <= k->s) {
            hours_tick(&k->h, &now);
        }
    }
}

static void come(struct desk *k, donor_id id)
{
    struct hours_time now = now_of(k);

    hours_come(&k->h, id, &now);
}

static void go(struct desk *k, donor_id id)
{
    struct hours_time now = now_of(k);

    hours_go(&k->h, id, &now);
}

/* 1 works from nine to six, the others never end. It is 0:00. */
static void days(struct desk *k, int count, int first_day)
{
    for (int day = first_day; day < first_day + count; day++) {
        pass(k, 540);
        if (day % 7 < 5) {
            come(k, 1);
        }
        pass(k, 540);
        go(k, 1);
        pass(k, 360);
    }
}

static struct desk *weeks(int count)
{
    struct desk *k = calloc(1, sizeof(*k));

    assert_non_null(k);
    hours_init(&k->h);
    k->s = START_S;
    k->local_s = (int64_t)4 * 86400 + (int64_t)7 * 86400 * 2000; /* A Monday. */
    for (donor_id id = 1; id <= MACHINES; id++) {
        come(k, id);
    }
    go(k, 1);
    days(k, 7 * count, 0);
    return k;
}

static void end(struct desk *k)
{
    hours_check(&k->h);
    hours_free(&k->h);
    free(k);
}

static void without_history_nothing_is_said(void **state)
{
    struct desk *k = weeks(0);

    (void)state;
    days(k, 5, 0);
    assert_false(hours_known(&k->h, 1));
    assert_null(hours_awake(&k->h, 1));
    assert_int_equal(hours_gone(&k->h, 1, k->s), 0);
    assert_true(hours_back_in(&k->h, 1) == INT64_MAX);
    assert_false(hours_known(&k->h, 77));
    days(k, 2, 5);
    assert_true(hours_known(&k->h, 1));
    end(k);
}

static void who_is_off_at_night_is_expected_in_the_morning(void **state)
{
    struct desk *k = weeks(4);

    (void)state;
    assert_true(hours_back_in(&k->h, 1) == 9 * 3600);
    assert_int_equal(hours_usual(&k->h, 1, k->local_s), 0);
    assert_int_equal(hours_usual(&k->h, 1, k->local_s + 10 * 3600), 1000);
    pass(k, 539);
    assert_int_equal(hours_gone(&k->h, 1, k->s), 0);
    pass(k, 25);
    assert_int_equal(hours_gone(&k->h, 1, k->s), 0); /* Somewhat late. */
    pass(k, 6 * 60);
    assert_true(hours_gone(&k->h, 1, k->s) > 500); /* It does not come. */
    come(k, 1);
    assert_int_equal(hours_gone(&k->h, 1, k->s), 0);
    end(k);
}

static void one_that_never_ends_is_missed_soon(void **state)
{
    struct desk *k = weeks(4);

    (void)state;
    go(k, 2);
    pass(k, 20);
    assert_int_equal(hours_gone(&k->h, 2, k->s), 0);
    pass(k, 160);
    assert_true(hours_gone(&k->h, 2, k->s) > 250);
    end(k);
}

/* All of them are away: nobody is missed; but a week is the end of all patience. */
static void on_a_holiday_nobody_is_missed(void **state)
{
    struct desk *k = weeks(4);

    (void)state;
    for (donor_id id = 2; id <= MACHINES; id++) {
        go(k, id);
    }
    pass(k, 3 * DAY);
    for (donor_id id = 1; id <= MACHINES; id++) {
        assert_int_equal(hours_gone(&k->h, id, k->s), 0);
    }
    pass(k, 5 * DAY);
    assert_int_equal(hours_gone(&k->h, 2, k->s), 1000);
    end(k);
}

static void a_clock_that_is_set_takes_nothing_away(void **state)
{
    struct desk *k = weeks(4);

    (void)state;
    k->local_s += 3600; /* Summer time. */
    come(k, 2);
    assert_true(hours_back_in(&k->h, 1) == 8 * 3600);
    k->local_s -= (int64_t)40 * 86400; /* Set back. */
    come(k, 2);
    assert_true(hours_known(&k->h, 1) && hours_gone(&k->h, 1, k->s) == 0);
    pass(k, 6 * DAY);
    assert_true(hours_gone(&k->h, 2, k->s) == 0);
    end(k);
}

static void new_habits_are_known_in_three_weeks(void **state)
{
    struct desk *k = weeks(6);

    (void)state;
    for (int day = 0; day < 21; day++) { /* From now on at night. */
        come(k, 1);
        pass(k, 360);
        go(k, 1);
        pass(k, DAY - 360);
    }
    assert_true(hours_usual(&k->h, 1, k->local_s + 3600) > 500);
    assert_true(hours_usual(&k->h, 1, k->local_s + 10 * 3600) < 500);
    assert_true(hours_back_in(&k->h, 1) == 0);
    end(k);
}

/* As it is behind a restart of the manager. */
static void what_is_kept_says_the_same(void **state)
{
    struct desk *k = weeks(3);
    struct hours_record records[MACHINES + 1];
    struct hours again;
    struct hours_time now;

    (void)state;
    assert_int_equal(hours_keep(&k->h, k->s, records, MACHINES + 1), MACHINES);
    assert_int_equal(hours_keep(&k->h, k->s, records, 1), 0); /* Once an hour. */
    pass(k, 600);
    now = now_of(k);
    hours_init(&again);
    for (int i = 0; i < MACHINES; i++) {
        assert_int_equal(hours_load(&again, &records[i], &now), 0);
    }
    assert_int_equal(hours_load(&again, &records[0], &now), MORSEL_CORRUPT);
    for (donor_id id = 2; id <= MACHINES; id++) {
        hours_come(&again, id, &now);
    }
    hours_check(&again);
    assert_true(hours_back_in(&again, 1) == 0 && hours_known(&again, 1));
    now.s += 3500;
    now.local_s += 3500;
    hours_tick(&again, &now);
    assert_true(hours_gone(&again, 1, now.s) > 0);
    hours_free(&again);
    end(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_all_minutes),
        cmocka_unit_test(without_history_nothing_is_said),
        cmocka_unit_test(who_is_off_at_night_is_expected_in_the_morning),
        cmocka_unit_test(one_that_never_ends_is_missed_soon),
        cmocka_unit_test(on_a_holiday_nobody_is_missed),
        cmocka_unit_test(a_clock_that_is_set_takes_nothing_away),
        cmocka_unit_test(new_habits_are_known_in_three_weeks),
        cmocka_unit_test(what_is_kept_says_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
