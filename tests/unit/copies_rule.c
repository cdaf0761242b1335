/* The default number of copies: what may be set, and what it comes to. */
#include "meta/cluster/copies_rule.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void four_words_are_understood(void **state)
{
    static const char *const wrong[] = { "0", "4", "10", "1 ", "two", "Auto", "auto2", "-1" };
    struct errmsg err = { "" };
    uint32_t rule = 77;

    (void)state;
    assert_int_equal(copies_rule_parse("", &rule, &err), 0);
    assert_int_equal(rule, COPIES_RULE_OF_DATABASE);
    assert_int_equal(copies_rule_parse("auto", &rule, &err), 0);
    assert_int_equal(rule, COPIES_AUTO);
    for (uint32_t copies = 1; copies <= REPLICAS_MAX; copies++) {
        char text[2] = { (char)('0' + copies), '\0' };

        assert_int_equal(copies_rule_parse(text, &rule, &err), 0);
        assert_int_equal(rule, copies);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(copies_rule_parse(wrong[i], &rule, &err), MORSEL_INVAL);
        assert_non_null(strstr(err.text, "auto, 1, 2 or 3"));
    }
}

static void an_older_database_has_one_copy_unless_it_is_set(void **state)
{
    (void)state;
    assert_int_equal(copies_rule_of(COPIES_RULE_OF_DATABASE, true), COPIES_AUTO);
    assert_int_equal(copies_rule_of(COPIES_RULE_OF_DATABASE, false), 1);
    assert_int_equal(copies_rule_of(COPIES_AUTO, false), COPIES_AUTO);
    assert_int_equal(copies_rule_of(3, true), 3);
    assert_int_equal(copies_rule_of(1, true), 1);
}

/* All there is: each rule, from no server to four, told or not, waited or not. */
static void each_world_has_its_number(void **state)
{
    (void)state;
    for (uint32_t rule = COPIES_AUTO; rule <= REPLICAS_MAX; rule++) {
        for (uint32_t servers = 0; servers <= 4; servers++) {
            for (int bits = 0; bits < 4; bits++) {
                struct copies_around around = { servers, (bits & 1) != 0, (bits & 2) != 0 };
                uint32_t wanted = rule == COPIES_AUTO ? 2 : rule;
                uint32_t copies = copies_rule_choose(rule, &around);
                bool waits = wanted > 1 && servers >= wanted && !around.told && !around.waited;

                assert_int_equal(copies_rule_wanted(rule), wanted);
                assert_int_equal(copies == 0, waits);
                if (!waits && rule == COPIES_AUTO) {
                    assert_int_equal(copies, around.told ? 2 : 1);
                } else if (!waits) {
                    assert_int_equal(copies, rule);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_words_are_understood),
        cmocka_unit_test(an_older_database_has_one_copy_unless_it_is_set),
        cmocka_unit_test(each_world_has_its_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
