#include "common/base/errmsg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void context_is_put_in_front(void **state)
{
    struct errmsg err = { "" };

    (void)state;
    errmsg_set(&err, "%s", "no such file");
    errmsg_wrap(&err, "read %s", "MANIFEST");
    errmsg_wrap(&err, "load root inode");
    assert_string_equal(err.text, "load root inode: read MANIFEST: no such file");
    errmsg_set(&err, "%d", 42);
    assert_string_equal(err.text, "42");
}

static void nobody_listening_is_fine(void **state)
{
    (void)state;
    errmsg_set(NULL, "lost");
    errmsg_wrap(NULL, "lost %d", 1);
}

static void what_does_not_fit_is_cut(void **state)
{
    struct errmsg err = { "" };
    char longer[2 * sizeof(err.text)];

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    errmsg_set(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    errmsg_wrap(&err, "short");
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_int_equal(strncmp(err.text, "short: xxx", 10), 0);
    errmsg_wrap(&err, "%s", longer); /* The context alone fills it. */
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_int_equal(err.text[0], 'x');
}

static void a_percent_sign_in_the_text_stays_one(void **state)
{
    struct errmsg err = { "" };
    char copy[sizeof(err.text)];

    (void)state;
    errmsg_set(&err, "100%% full"); /* A percent sign in the text is no format later on. */
    errmsg_wrap(&err, "disk");
    memcpy(copy, err.text, sizeof(copy));
    assert_string_equal(copy, "disk: 100% full");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_is_put_in_front),
        cmocka_unit_test(nobody_listening_is_fine),
        cmocka_unit_test(what_does_not_fit_is_cut),
        cmocka_unit_test(a_percent_sign_in_the_text_stays_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
