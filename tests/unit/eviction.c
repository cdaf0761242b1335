/* Words of eviction, and what is to be kept of a set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/fs/eviction.h"

#include <string.h>

static void words_come_back(void **state)
{
    (void)state;
    for (unsigned i = 0; i < EVICTION_STATES; i++) {
        const char *word = eviction_word((enum eviction_state)i);

        assert_true(strlen(word) < EVICTION_TEXT_MAX);
        assert_int_equal(eviction_find(word, strlen(word)), i);
        assert_int_equal(eviction_find(word, strlen(word) - 1), EVICTION_UNKNOWN);
    }
    assert_string_equal(eviction_word((enum eviction_state)EVICTION_STATES), "unknown");
    assert_int_equal(eviction_find("", 0), EVICTION_UNKNOWN);
}

static void assert_keeps(const char *text, uint64_t size, uint64_t bytes)
{
    struct eviction_keep keep;

    assert_true(eviction_keep_parse(text, &keep));
    assert_int_equal(eviction_keep_of(&keep, size), bytes);
}

static void sizes_and_parts_are_read(void **state)
{
    static const char *const wrong[] = { "",    "%",   "101%", "1000%", "-1%", "5 %",
                                         "5%%", "0x5", "-5",   "half",  "5.5%" };
    struct eviction_keep keep;

    (void)state;
    assert_keeps("0", 1000, 0);
    assert_keeps("2K", 1000, 2048);
    assert_keeps("0%", 1000, 0);
    assert_keeps("50%", 1001, 500);
    assert_keeps("100%", UINT64_MAX, UINT64_MAX);
    assert_keeps("99%", 1, 0);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(eviction_keep_parse(wrong[i], &keep));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_come_back),
        cmocka_unit_test(sizes_and_parts_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
