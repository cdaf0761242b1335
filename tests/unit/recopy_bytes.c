/* What `morsel recopy` copies again of a file that is changed while it is copied. The file lies on the file system of the test; what its
 * servers say was changed of it since is said here. */
#include "client/admin/recopy_file.h"

#include "common/base/check.h"
#include "common/fs/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIZE = 20 << 20, PIECE = 64 << 10 };

static struct world
{
    struct recopy r;
    uint64_t copied;
    uint64_t *paused_bytes, bytes_paused;
    struct errmsg why;
    /* What is said of changes: */
    int error;
    uint32_t count;
    struct exchange_stretch stretches[2 * EXCHANGE_STRETCHES_MAX];
    uint64_t begun; /* The last watch. */
    void (*on_read)(void);
} * w;

int __wrap_ioctl(int fd, unsigned long command, struct exchange_watch *watch);
int __wrap_ioctl(int fd, unsigned long command, struct exchange_watch *watch)
{
    uint32_t at = 0;

    assert_int_equal(fd, w->r.from);
    assert_int_equal(command, EXCHANGE_WATCH);
    if (w->error != 0) {
        errno = w->error;
        return -1;
    }
    w->begun = watch->begin != 0 ? watch->begin : w->begun;
    watch->count = 0;
    watch->next = UINT64_MAX;
    while (watch->since != 0 && at < w->count && w->stretches[at].start < watch->from) {
        at++;
    }
    for (; watch->since != 0 && at < w->count; at++) {
        if (watch->count == EXCHANGE_STRETCHES_MAX) {
            watch->next = w->stretches[at].start;
            return 0;
        }
        watch->stretches[watch->count++] = w->stretches[at];
    }
    return 0;
}

ssize_t __real_pread(int fd, void *bytes, size_t count, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t count, off_t offset)
{
    void (*on_read)(void) = w->on_read;

    w->on_read = NULL;
    if (on_read != NULL) {
        on_read();
    }
    return __real_pread(fd, bytes, count, offset);
}

static bool go_on(void *data, uint64_t bytes)
{
    (void)data;
    w->copied += bytes;
    return true;
}

static int file_new(void)
{
    char name[] = "/tmp/morsel-recopy-XXXXXX";
    int fd = mkstemp(name);

    CHECK(fd >= 0 && unlink(name) == 0);
    return fd;
}

static void fill(uint64_t at, uint64_t length, uint8_t value)
{
    uint8_t *bytes = malloc(length);

    CHECK(bytes != NULL);
    memset(bytes, value, length);
    assert_int_equal(pwrite(w->r.from, bytes, length, (off_t)at), (ssize_t)length);
    free(bytes);
}

static int begin(void **state)
{
    w = calloc(1, sizeof(*w));
    CHECK(w != NULL);
    *state = w;
    w->bytes_paused = RECOPY_PAUSED_BYTES;
    w->r = (struct recopy){ .from = file_new(),
                            .to = file_new(),
                            .bytes = malloc(RECOPY_PIECE_BYTES),
                            .go_on = go_on,
                            .paused_bytes = &w->bytes_paused,
                            .why = &w->why };
    CHECK(w->r.bytes != NULL);
    fill(0, SIZE, 1);
    return 0;
}

static int end(void **state)
{
    (void)state;
    (void)close(w->r.from);
    (void)close(w->r.to);
    free(w->r.bytes);
    free(w);
    return 0;
}

static void assert_same(void)
{
    off_t size = lseek(w->r.from, 0, SEEK_END);
    uint8_t *a = malloc((size_t)size), *b = malloc((size_t)size);

    CHECK(a != NULL && b != NULL);
    assert_int_equal(lseek(w->r.to, 0, SEEK_END), size);
    assert_int_equal(__real_pread(w->r.from, a, (size_t)size, 0), size);
    assert_int_equal(__real_pread(w->r.to, b, (size_t)size, 0), size);
    assert_memory_equal(a, b, (size_t)size);
    free(a);
    free(b);
}

static void copy_all(void)
{
    assert_true(recopy_watch(&w->r));
    assert_int_equal(recopy_all(&w->r), RECOPY_DONE);
    w->copied = 0;
}

static void changed(uint64_t start, uint64_t end)
{
    w->stretches[w->count++] = (struct exchange_stretch){ start, end };
}

static void what_was_changed_is_copied_again_and_nothing_else(void **state)
{
    (void)state;
    copy_all();
    assert_same();
    fill(5 * PIECE + 10, 100, 2);
    changed(5 * PIECE, 6 * PIECE);
    assert_int_equal(
        fallocate(w->r.from, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8 << 20, 4 << 20), 0);
    changed(8 << 20, 13 << 20);
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_same();
    assert_int_equal(w->copied, PIECE + (1 << 20)); /* Of a hole nothing. */
    assert_int_equal(w->r.watch, w->begun);
    w->count = 0;
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_int_equal(w->r.changed, 0);
}

static void changes_are_asked_for_until_there_are_no_more(void **state)
{
    (void)state;
    assert_int_equal(ftruncate(w->r.from, (off_t)4 * EXCHANGE_STRETCHES_MAX * PIECE), 0);
    copy_all();
    for (uint64_t i = 0; i < 2 * EXCHANGE_STRETCHES_MAX; i++) {
        fill(2 * i * PIECE, 1, (uint8_t)(i + 2));
        changed(2 * i * PIECE, (2 * i + 1) * PIECE);
    }
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_same();
}

/* Bytes may lie at the servers before the watch begins, and the file becomes so long behind the reading. No server says that
 * they were changed since. Found by sim/cluster. */
static void behind_the_end_that_was_read_nothing_is_known(void **state)
{
    (void)state;
    copy_all();
    fill(SIZE, PIECE, 3);
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_same();
    assert_int_equal(w->copied, PIECE);
    fill(SIZE + PIECE, PIECE, 4);
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_same();
}

static void shorten(void)
{
    assert_int_equal(ftruncate(w->r.from, 3 * PIECE + 17), 0);
}

/* It is cut while it is read, and longer again before anybody looks. */
static void what_ended_early_is_copied_later(void **state)
{
    (void)state;
    assert_true(recopy_watch(&w->r));
    w->on_read = shorten;
    assert_int_equal(recopy_all(&w->r), RECOPY_DONE);
    assert_true(w->r.ended);
    fill(3 * PIECE + 17, SIZE - 3 * PIECE - 17, 5);
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_same();
}

static void shorten_to_hole(void)
{
    assert_int_equal(ftruncate(w->r.from, 2 << 20), 0);
}

/* The same, where what is left behind the place is taken for a hole. */
static void a_hole_up_to_the_end_may_be_an_end(void **state)
{
    (void)state;
    assert_int_equal(
        fallocate(w->r.from, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 20, 1 << 20), 0);
    assert_true(recopy_watch(&w->r));
    w->on_read = shorten_to_hole;
    assert_int_equal(recopy_all(&w->r), RECOPY_DONE);
    fill(2 << 20, SIZE - (2 << 20), 6);
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_same();
}

static void without_a_watch_an_early_end_is_a_change(void **state)
{
    (void)state;
    w->on_read = shorten;
    assert_int_equal(recopy_all(&w->r), RECOPY_BUSY);
    assert_true(w->r.written);
}

static void where_nobody_knows_all_is_copied_again(void **state)
{
    (void)state;
    copy_all();
    fill(7 * PIECE, PIECE, 7);
    w->error = ENODATA;
    assert_int_equal(recopy_changes(&w->r), RECOPY_BUSY); /* Nor can it be watched. */
    assert_int_equal(w->copied, 0);
    w->r.begun = true;
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_same();
    assert_int_equal(w->copied, SIZE);
    assert_int_equal(w->r.watch, 0);
    assert_true(w->r.anew);
}

static void an_error_is_no_reason_to_copy_all_of_it(void **state)
{
    uint64_t watch;

    (void)state;
    copy_all();
    watch = w->r.watch;
    w->error = EIO;
    assert_int_equal(recopy_changes(&w->r), RECOPY_FAILED);
    assert_int_equal(w->r.watch, watch);
    assert_int_equal(w->copied, 0);
}

static void nobody_holds_still_for_all_of_it(void **state)
{
    (void)state;
    copy_all();
    w->error = ENODATA;
    w->r.paused_ms = recopy_now_ms();
    assert_int_equal(recopy_changes(&w->r), RECOPY_BUSY);
    assert_int_equal(w->copied, 0);
    assert_int_equal(w->r.watch, 0);
}

/* What was not copied in time is copied the next time, with its tail. */
static void what_took_too_long_is_asked_for_again(void **state)
{
    uint64_t watch;

    (void)state;
    copy_all();
    watch = w->r.watch;
    fill(SIZE, 3 * PIECE, 8);
    fill(5 * PIECE, 2 * PIECE, 9);
    changed(5 * PIECE, 7 * PIECE);
    w->r.paused_ms = 1; /* Long ago. */
    assert_int_equal(recopy_changes(&w->r), RECOPY_BUSY);
    assert_int_equal(w->r.watch, watch);
    assert_int_equal(w->bytes_paused, RECOPY_PAUSED_BYTES);
    w->r.copied = 10 << 20;
    assert_int_equal(recopy_changes(&w->r), RECOPY_BUSY);
    assert_in_range(w->bytes_paused, 10 << 20, 11 << 20);
    w->r.paused_ms = 0;
    assert_int_equal(recopy_changes(&w->r), RECOPY_DONE);
    assert_same();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_changed_is_copied_again_and_nothing_else, begin,
                                        end),
        cmocka_unit_test_setup_teardown(changes_are_asked_for_until_there_are_no_more, begin, end),
        cmocka_unit_test_setup_teardown(behind_the_end_that_was_read_nothing_is_known, begin, end),
        cmocka_unit_test_setup_teardown(what_ended_early_is_copied_later, begin, end),
        cmocka_unit_test_setup_teardown(a_hole_up_to_the_end_may_be_an_end, begin, end),
        cmocka_unit_test_setup_teardown(without_a_watch_an_early_end_is_a_change, begin, end),
        cmocka_unit_test_setup_teardown(where_nobody_knows_all_is_copied_again, begin, end),
        cmocka_unit_test_setup_teardown(an_error_is_no_reason_to_copy_all_of_it, begin, end),
        cmocka_unit_test_setup_teardown(nobody_holds_still_for_all_of_it, begin, end),
        cmocka_unit_test_setup_teardown(what_took_too_long_is_asked_for_again, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
