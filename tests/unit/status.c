#include "common/base/status.h"

#include "common/base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define X(name, wire, unix_errno, words) { name, wire, unix_errno, #name },
static const struct
{
    int status;
    int wire;
    int unix_errno;
    const char *name;
} rows[] = { STATUS_MAP(X) };
#undef X

static void numbers_are_negative_and_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_true(rows[i].status < 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(rows[i].status, rows[j].status);
        }
    }
}

/* The wire format of version 1: a number that moves breaks every older peer. */
static void numbers_on_the_wire_stay(void **state)
{
    (void)state;
    assert_int_equal(MORSEL_OK, 0);
    assert_int_equal(MORSEL_MALFORMED, -1);
    assert_int_equal(MORSEL_CHECKSUM, -4);
    assert_int_equal(MORSEL_NO_SESSION, -15);
    assert_int_equal(MORSEL_TOO_LARGE, -17);
    assert_int_equal(MORSEL_NOENT, -30);
    assert_int_equal(MORSEL_NOSPC, -40);
    assert_int_equal(MORSEL_STALE, -47);
    assert_int_equal(MORSEL_AGAIN, -52);
}

static void every_row_has_a_name_words_and_errno(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *words = status_words(rows[i].status);

        assert_string_equal(status_name(rows[i].status), rows[i].name);
        assert_true(strlen(words) > 0);
        assert_string_not_equal(words, status_words(-9999));
        assert_int_not_equal(words[strlen(words) - 1], '.');
        assert_int_equal(status_to_errno(rows[i].status), rows[i].unix_errno);
        assert_true(rows[i].unix_errno > 0);
    }
    assert_int_equal(status_to_errno(MORSEL_OK), 0);
    assert_string_equal(status_name(MORSEL_OK), "MORSEL_OK");
}

static void numbers_from_nowhere_are_an_io_error(void **state)
{
    static const int strangers[] = { 1, 4711, -18, -29, -99, -9999, INT32_MAX, INT32_MIN };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(strangers); i++) {
        assert_int_equal(status_to_errno(strangers[i]), EIO);
        assert_string_equal(status_words(strangers[i]), "unknown status");
        assert_string_equal(status_name(strangers[i]), "MORSEL_?");
    }
}

/* What a local file system said must reach the user of the mount unchanged. */
static void errno_survives_the_way_there_and_back(void **state)
{
    static const int file_errors[] = {
        ENOENT,       EEXIST,     ENOTDIR, EISDIR, ENOTEMPTY, EACCES,  EPERM,  EXDEV, EINVAL,
        ENAMETOOLONG, ENOSPC,     EDQUOT,  EFBIG,  EMLINK,    ENODATA, ERANGE, EROFS, ESTALE,
        EBUSY,        EOPNOTSUPP, ENXIO,   E2BIG,  EAGAIN,    ENOMEM,  EINTR,  EIO,   ETIMEDOUT
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(file_errors); i++) {
        int status = status_from_errno(file_errors[i]);

        assert_true(status < 0);
        assert_int_equal(status_to_errno(status), file_errors[i]);
    }
    assert_int_equal(status_from_errno(0), MORSEL_OK);
    assert_int_equal(status_from_errno(ENOSPC), MORSEL_NOSPC);
    assert_int_equal(status_from_errno(ECONNREFUSED), MORSEL_UNREACHABLE);
    assert_int_equal(status_from_errno(EPIPE), MORSEL_UNREACHABLE);
    assert_int_equal(status_from_errno(ELIBBAD), MORSEL_IO);
    assert_int_equal(status_from_errno(EIO), MORSEL_IO);
}

/* EAGAIN has a meaning: a lock is held by somebody else, a read would block. Linux makes EOPNOTSUPP
 * of it for setxattr(2). So nothing that merely failed for now may say it. */
static void only_try_again_says_eagain(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_int_equal(status_to_errno(rows[i].status) == EAGAIN, rows[i].status == MORSEL_AGAIN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_negative_and_unique),
        cmocka_unit_test(numbers_on_the_wire_stay),
        cmocka_unit_test(every_row_has_a_name_words_and_errno),
        cmocka_unit_test(numbers_from_nowhere_are_an_io_error),
        cmocka_unit_test(errno_survives_the_way_there_and_back),
        cmocka_unit_test(only_try_again_says_eagain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
