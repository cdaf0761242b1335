/* What is asked of origins at a time, and which addresses are visited for somebody else. */
#include "client/admin/visit.h"
#include "client/datasets/origin_pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>

enum { MIB = 1 << 20 };

static void who_reads_in_order_asks_seldom(void **state)
{
    struct origin_pace pace = { .count = 0 };
    uint32_t morsel = 7, questions = 0;

    (void)state;
    while (morsel < 7 + 1000) {
        uint32_t count = origin_pace_count(&pace, morsel, MIB);

        assert_in_range(count, 1, ORIGIN_PART_BYTES_MAX / MIB);
        assert_true(questions > 0 || count == 1); /* Nobody knows yet that he goes on. */
        origin_pace_took(&pace, morsel, count);
        morsel += count;
        questions++;
    }
    assert_in_range(questions, 1, 1000 * MIB / ORIGIN_PART_BYTES_MAX + 6);
}

static void who_jumps_gets_what_he_wants_alone(void **state)
{
    struct origin_pace pace = { .count = 0 };

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(origin_pace_count(&pace, i * 10, MIB), 1);
        origin_pace_took(&pace, i * 10, 1);
    }
    assert_int_equal(origin_pace_count(&pace, 991, MIB), 2);
    origin_pace_took(&pace, 991, 1); /* There was no more. */
    assert_int_equal(origin_pace_count(&pace, 992, MIB), 2);
    assert_int_equal(origin_pace_count(&pace, 991, MIB), 1);
}

static void what_others_fetch_breaks_no_order(void **state)
{
    struct origin_pace pace = { .count = 0 };

    (void)state;
    origin_pace_skip(&pace, 0, 16); /* Nothing was asked for yet. */
    assert_int_equal(origin_pace_count(&pace, 16, MIB), 1);
    origin_pace_took(&pace, 16, 4);
    origin_pace_skip(&pace, 20, 16);
    assert_int_equal(origin_pace_count(&pace, 36, MIB), 8);
    origin_pace_skip(&pace, 40, 16); /* It is somewhere else. */
    assert_int_equal(origin_pace_count(&pace, 36, MIB), 8);
    assert_int_equal(origin_pace_count(&pace, 56, MIB), 1);
}

static void large_morsels_go_one_by_one(void **state)
{
    struct origin_pace pace = { .count = 0 };

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(origin_pace_count(&pace, i, ORIGIN_PART_BYTES_MAX), 1);
        origin_pace_took(&pace, i, 1);
    }
}

static bool may(const char *text)
{
    uint8_t address[16];
    bool six = inet_pton(AF_INET6, text, address) == 1;

    assert_true(six || inet_pton(AF_INET, text, address) == 1);
    return visit_may(address, six ? 16 : 4);
}

static void what_is_a_machines_own_affair_is_not_visited(void **state)
{
    static const char *const good[] = { "192.0.2.1",       "10.0.0.1",        "128.0.0.1",
                                        "126.255.255.255", "169.253.1.1",     "223.1.1.1",
                                        "2001:db8::1",     "fd00::1",         "fec0::1",
                                        "64:ff9b::a00:1",  "::ffff:192.0.2.1" };
    static const char *const barred[] = { "127.0.0.1",
                                          "127.255.1.1",
                                          "0.0.0.0",
                                          "0.1.2.3",
                                          "169.254.169.254",
                                          "224.0.0.1",
                                          "255.255.255.255",
                                          "::",
                                          "::1",
                                          "::127.0.0.1",
                                          "fe80::1",
                                          "febf::1",
                                          "ff02::1",
                                          "::ffff:127.0.0.1",
                                          "::ffff:169.254.169.254",
                                          "64:ff9b::7f00:1" };
    uint8_t odd[8] = { 10, 1, 1, 1 };

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(may(good[i]));
    }
    for (size_t i = 0; i < sizeof(barred) / sizeof(barred[0]); i++) {
        assert_false(may(barred[i]));
    }
    assert_false(visit_may(odd, sizeof(odd)));
    assert_false(visit_may(odd, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_reads_in_order_asks_seldom),
        cmocka_unit_test(who_jumps_gets_what_he_wants_alone),
        cmocka_unit_test(what_others_fetch_breaks_no_order),
        cmocka_unit_test(large_morsels_go_one_by_one),
        cmocka_unit_test(what_is_a_machines_own_affair_is_not_visited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
