/* Names that the kernel was told: when a look-up may be the second one of a rename, how it is
 * answered then, and that nobody is sent round for ever. */
#include "client/coherence/kernel_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    DIR = 2,
    FILE_1 = 10,
    FILE_2 = 11,
    FILE_3 = 12,
    FILE_4 = 13,
    SOCKET = 14,
    ME = 100,
    OTHER = 101,
    LEASE_MS = 4500
};

static int setup(void **state)
{
    *state = kernel_names_new();
    return *state == NULL;
}

static int teardown(void **state)
{
    kernel_names_free(*state);
    return 0;
}

/* A LOOKUP, as the mount answers it. */
static enum kernel_names_answer look(struct kernel_names *k, uint32_t thread, const char *name,
                                     inode_id inode, uint64_t now_ms, uint64_t until_ms)
{
    enum kernel_names_answer answer =
        kernel_names_found(k, thread, DIR, name, inode, inode == SOCKET, now_ms);

    if (answer == KERNEL_NAMES_PLAIN) {
        kernel_names_told(k, DIR, name, inode, now_ms, until_ms);
    }
    return answer;
}

static void test_rename_without_kept_names(void **state)
{
    struct kernel_names *k = *state;

    assert_int_equal(look(k, ME, "from", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, ME, "to", FILE_1, 1, 0), KERNEL_NAMES_STRANGER);
    /* What the kernel knew was not so: it asks again. */
    assert_int_equal(look(k, ME, "to", FILE_1, 1, 0), KERNEL_NAMES_STRANGER);
    kernel_names_other(k, ME); /* RENAME, or whatever else was to be done. */
    assert_int_equal(look(k, ME, "to", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
}

/* The kernel asks whether the name is still what it was, hears that it is not, and asks afresh:
 * meanwhile it is another file again. */
static void test_second_name_changes_twice(void **state)
{
    struct kernel_names *k = *state;

    assert_int_equal(look(k, ME, "from", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, ME, "to", FILE_2, 1, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, ME, "to", FILE_1, 1, 0), KERNEL_NAMES_STRANGER);
    kernel_names_other(k, ME);
    assert_int_equal(look(k, ME, "from", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
    kernel_names_absent(k, ME, DIR, "to");
    assert_int_equal(look(k, ME, "to", FILE_1, 1, 0), KERNEL_NAMES_STRANGER);
}

static void test_others_see_nothing(void **state)
{
    struct kernel_names *k = *state;

    assert_int_equal(look(k, ME, "from", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, OTHER, "to", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, 0, "from", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, 0, "to", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
}

static void test_other_files(void **state)
{
    struct kernel_names *k = *state;

    assert_int_equal(look(k, ME, "from", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, ME, "to", FILE_2, 1, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, ME, "third", FILE_1, 1, 0), KERNEL_NAMES_PLAIN);
}

static void test_rename_of_our_own(void **state)
{
    struct kernel_names *k = *state;

    assert_int_equal(look(k, ME, "from", FILE_1, 1, LEASE_MS), KERNEL_NAMES_PLAIN);
    /* By another thread. */
    kernel_names_gone(k, DIR, "from");
    kernel_names_moved(k, DIR, "to", FILE_1, 2, LEASE_MS);
    assert_int_equal(look(k, ME, "to", FILE_1, 3, LEASE_MS), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, OTHER, "to", FILE_1, 3, LEASE_MS), KERNEL_NAMES_PLAIN);
    /* Others have renamed it back, and there again. */
    kernel_names_other(k, ME);
    assert_int_equal(look(k, ME, "from", FILE_1, 4, 0), KERNEL_NAMES_STRANGER);
    kernel_names_sent_back(k, ME, 4);
    assert_int_equal(look(k, ME, "from", FILE_1, 4, 0), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, ME, "to", FILE_1, 4, 0), KERNEL_NAMES_STRANGER);
}

/* The name is in the kernel: nobody has asked for it. What makes a name is not begun anew, so
 * nobody is told to. */
static void test_kept_name(void **state)
{
    struct kernel_names *k = *state;

    kernel_names_told(k, DIR, "from", FILE_1, 1, LEASE_MS);
    assert_int_equal(look(k, ME, "to", FILE_1, 2, 0), KERNEL_NAMES_STRANGER);
    assert_int_equal(look(k, OTHER, "to", FILE_1, 2, 0), KERNEL_NAMES_PLAIN);
    kernel_names_sent_back(k, ME, 2);
    assert_int_equal(look(k, ME, "to", FILE_1, 2, 0), KERNEL_NAMES_PLAIN);
}

/* What is used without a further question. */
static void test_kept_name_of_a_socket(void **state)
{
    struct kernel_names *k = *state;

    kernel_names_told(k, DIR, "from", SOCKET, 1, LEASE_MS);
    kernel_names_dropped(k, 2000);
    assert_int_equal(look(k, ME, "to", SOCKET, 2900, 0), KERNEL_NAMES_AGAIN);
    /* Never twice in a row, whoever asks. */
    assert_int_equal(look(k, ME, "to", SOCKET, 2900, 0), KERNEL_NAMES_PLAIN);
    kernel_names_told(k, DIR, "from", SOCKET, 2901, 2901 + LEASE_MS);
    assert_int_equal(look(k, OTHER, "to", SOCKET, 2902, 0), KERNEL_NAMES_PLAIN);
    kernel_names_told(k, DIR, "from", SOCKET, 2903, 2903 + LEASE_MS);
    kernel_names_gone(k, DIR, "to");
    assert_int_equal(look(k, OTHER, "to", SOCKET, 4000, 0), KERNEL_NAMES_AGAIN);
}

/* The kernel tries a call twice and no more: whoever was sent back is not sent back again,
 * whichever file the name is by then; but a rename that finds one file twice in its second try is
 * told apart. */
static void test_second_try(void **state)
{
    struct kernel_names *k = *state;

    kernel_names_told(k, DIR, "kept", SOCKET, 1, LEASE_MS);
    kernel_names_told(k, DIR, "kept too", FILE_2, 1, LEASE_MS);
    kernel_names_told(k, DIR, "over", FILE_3, 1, LEASE_MS);
    assert_int_equal(look(k, ME, "to", SOCKET, 2, 0), KERNEL_NAMES_AGAIN);
    kernel_names_sent_back(k, ME, 2);
    assert_int_equal(look(k, ME, "to", FILE_2, 3, LEASE_MS), KERNEL_NAMES_PLAIN);
    assert_int_equal(look(k, ME, "over", FILE_2, 3, LEASE_MS), KERNEL_NAMES_STRANGER);
    kernel_names_other(k, ME);
    /* The next call is a first try. */
    kernel_names_told(k, DIR, "kept too", FILE_3, 4, LEASE_MS);
    assert_int_equal(look(k, ME, "another", FILE_3, 5, 0), KERNEL_NAMES_STRANGER);
    /* So is one that comes late. */
    kernel_names_told(k, DIR, "kept", FILE_4, 6, LEASE_MS);
    kernel_names_sent_back(k, ME, 6);
    assert_int_equal(look(k, ME, "late", FILE_4, 1006, 0), KERNEL_NAMES_STRANGER);
}

/* Who was answered otherwise has renamed the file since: that was of another name than the one which the kernel keeps now. */
static void test_doubt_ends_with_a_rename_of_our_own(void **state)
{
    struct kernel_names *k = *state;

    kernel_names_told(k, DIR, "from", FILE_1, 1, LEASE_MS);
    assert_int_equal(look(k, ME, "to", FILE_1, 2, 0), KERNEL_NAMES_STRANGER);
    kernel_names_other(k, ME);
    kernel_names_gone(k, DIR, "from");
    kernel_names_moved(k, DIR, "ours", FILE_1, 3, LEASE_MS);
    assert_int_equal(look(k, ME, "theirs", FILE_1, 4, 0), KERNEL_NAMES_STRANGER);
}

static void test_kept_name_is_old(void **state)
{
    struct kernel_names *k = *state;

    kernel_names_told(k, DIR, "from", FILE_1, 1, LEASE_MS);
    kernel_names_dropped(k, 2000);
    assert_int_equal(look(k, ME, "to", FILE_1, 3001, 0), KERNEL_NAMES_PLAIN);
    kernel_names_told(k, DIR, "from", FILE_2, 3001, 3001 + LEASE_MS);
    assert_int_equal(look(k, ME, "to", FILE_2, 3001 + LEASE_MS + 1001, 0), KERNEL_NAMES_PLAIN);
}

static void test_kept_name_is_gone(void **state)
{
    struct kernel_names *k = *state;

    kernel_names_told(k, DIR, "from", FILE_1, 1, LEASE_MS);
    kernel_names_gone(k, DIR, "from");
    assert_int_equal(look(k, ME, "to", FILE_1, 2, 0), KERNEL_NAMES_PLAIN);
}

/* Of a name that the kernel knows it asks twice, and the first answer is lost. */
static void test_kept_name_over_another(void **state)
{
    struct kernel_names *k = *state;

    kernel_names_told(k, DIR, "from", FILE_1, 1, LEASE_MS);
    kernel_names_told(k, DIR, "to", FILE_2, 1, LEASE_MS);
    assert_int_equal(look(k, ME, "to", FILE_1, 2, 0), KERNEL_NAMES_STRANGER);
    assert_int_equal(look(k, ME, "to", FILE_1, 2, 0), KERNEL_NAMES_STRANGER);
    kernel_names_other(k, ME);
    assert_int_equal(look(k, ME, "to", FILE_1, 2, 0), KERNEL_NAMES_PLAIN);
}

static void test_strangers(void **state)
{
    struct kernel_names *k = *state;
    inode_id first = kernel_names_stranger(k);

    assert_true(kernel_names_is_stranger(first));
    assert_true(first != kernel_names_stranger(k));
    assert_false(kernel_names_is_stranger(INODE_ROOT));
    assert_false(kernel_names_is_stranger(INODE_LOCKS));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rename_without_kept_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_name_changes_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_see_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rename_of_our_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_name_of_a_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_try, setup, teardown),
        cmocka_unit_test_setup_teardown(test_doubt_ends_with_a_rename_of_our_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_name_is_old, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_name_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kept_name_over_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strangers, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
