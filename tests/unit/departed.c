/* Replaced inodes: how long they stay, in which order they go, and that there is an end to them. */
#include "meta/namespace/departed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct departed d;

static void they_go_in_their_order_when_their_time_is_over(void **state)
{
    (void)state;
    departed_init(&d);
    assert_int_equal(departed_add(&d, 11, 100), INODE_NONE);
    assert_int_equal(departed_add(&d, 12, 200), INODE_NONE);
    assert_true(departed_has(&d, 11) && departed_has(&d, 12) && !departed_has(&d, 13));
    assert_int_equal(departed_pop(&d, 99 + DEPARTED_MS), INODE_NONE);
    assert_int_equal(departed_pop(&d, 100 + DEPARTED_MS), 11);
    assert_int_equal(departed_pop(&d, 100 + DEPARTED_MS), INODE_NONE);
    assert_false(departed_has(&d, 11));
    assert_int_equal(departed_pop(&d, 9000), 12);
    assert_int_equal(departed_pop(&d, 9000), INODE_NONE);
}

static void what_does_not_fit_goes_earlier(void **state)
{
    (void)state;
    departed_init(&d);
    for (inode_id inode = 1; inode <= 3 * DEPARTED_MAX; inode++) {
        inode_id gone = departed_add(&d, inode, 100);

        assert_int_equal(gone, inode > DEPARTED_MAX ? inode - DEPARTED_MAX : INODE_NONE);
        assert_true(departed_has(&d, inode));
    }
    assert_int_equal(d.count, DEPARTED_MAX);
    for (inode_id inode = 2 * DEPARTED_MAX + 1; inode <= 3 * DEPARTED_MAX; inode++) {
        assert_int_equal(departed_pop(&d, 9000), inode);
    }
    assert_int_equal(d.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_go_in_their_order_when_their_time_is_over),
        cmocka_unit_test(what_does_not_fit_goes_earlier),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
