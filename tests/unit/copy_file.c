/* The files of a copy: what was written is found by the next start, what a loss of power left is told from
 * damage, and generations of the memory of operations take each other's place. */
#include "iod/replica/copy_file.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/faulty_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { BOOT = 3, FOUND_MAX = 64 };

static const struct copy_name named = { .group = 9, .count = 2, .me = 1, .servers = { 4, 7 } };

static struct copy_name name; /* What is opened. */

struct bench
{
    char dir[64];
    struct copy_file *file;
    struct copy_file_found found;
    struct errmsg err;
    struct dirty_record dirty[FOUND_MAX];
    struct copy_operation operations[FOUND_MAX]; /* The latest first. */
    uint32_t dirty_count, operations_count;
};

static bool on_dirty(void *data, const struct dirty_record *record)
{
    struct bench *b = data;

    assert_true(b->dirty_count < FOUND_MAX);
    b->dirty[b->dirty_count++] = *record;
    return true;
}

static bool on_operation(void *data, const struct copy_operation *op)
{
    struct bench *b = data;

    assert_true(b->operations_count < FOUND_MAX);
    b->operations[b->operations_count++] = *op;
    return true;
}

static int open_file(struct bench *b, bool known, uint64_t boot)
{
    copy_file_close(b->file);
    b->dirty_count = b->operations_count = 0;
    b->found = (struct copy_file_found){ .dirty = on_dirty, .operation = on_operation, .data = b };
    return copy_file_open(b->dir, &name, known ? COPY_FILE_KNOWN : COPY_FILE_NEW, boot, &b->found,
                          &b->file, &b->err);
}

static int begin(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));

    CHECK(b != NULL);
    name = named;
    snprintf(b->dir, sizeof(b->dir), "/tmp/morsel-copyfile-XXXXXX");
    CHECK(mkdtemp(b->dir) != NULL);
    assert_int_equal(open_file(b, false, BOOT), MORSEL_OK);
    assert_false(b->found.state);
    assert_int_equal(b->found.record.set, 3);
    *state = b;
    return 0;
}

static int end(void **state)
{
    struct bench *b = *state;
    char command[128];

    copy_file_close(b->file);
    snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
    CHECK(system(command) == 0);
    free(b);
    return 0;
}

static void path_of(const struct bench *b, const char *what, char path[128])
{
    snprintf(path, 128, "%s/copies/9.%s", b->dir, what);
}

/* `count` bytes from `place` on, or from the end, as they might have come to the disk. */
static void put(const struct bench *b, const char *what, off_t place, int whence, int byte,
                size_t count)
{
    uint8_t bytes[COPY_OPERATION_BYTES];
    char path[128];
    int fd;

    path_of(b, what, path);
    fd = open(path, O_RDWR);
    CHECK(fd >= 0 && count <= sizeof(bytes) && lseek(fd, place, whence) >= 0);
    memset(bytes, byte, count);
    CHECK(write(fd, bytes, count) == (ssize_t)count);
    close(fd);
}

static bool there(const struct bench *b, const char *what)
{
    char path[128];

    path_of(b, what, path);
    return access(path, F_OK) == 0;
}

static void add(struct bench *b, op_sequence number, bool done)
{
    struct copy_operation op = { .done = done, .boot = BOOT, .known.op = { 5, number } };

    assert_int_equal(copy_file_operation(b->file, &op, &b->err), MORSEL_OK);
}

static const struct dirty_record records[2] = {
    { .kind = DIRTY_INTENT,
      .change = { .object = { 5, 0 }, .generation = 1, .span = { 0, 4096 } } },
    { .kind = DIRTY_SETTLED, .members = 1 }
};

static void what_was_written_is_found(void **state)
{
    struct bench *b = *state;
    struct group_record record = b->found.record;

    record.epoch = 8;
    assert_int_equal(copy_file_state(b->file, &record, &b->err), MORSEL_OK);
    assert_int_equal(copy_file_note(b->file, records, 1, &b->err), MORSEL_OK);
    assert_int_equal(copy_file_note(b->file, records + 1, 1, &b->err), MORSEL_OK);
    add(b, 1, false);
    add(b, 1, true);
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_true(b->found.state);
    assert_int_equal(b->found.record.epoch, 8);
    assert_int_equal(b->dirty_count, 2);
    assert_int_equal(b->dirty[0].change.object.inode, 5);
    assert_int_equal(b->dirty[1].kind, DIRTY_SETTLED);
    assert_int_equal(b->operations_count, 2);
    assert_true(b->operations[0].done);
    put(b, "dirty", 0, SEEK_END, 0, 30); /* Torn: written over by what comes next. */
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_int_equal(b->dirty_count, 2);
    assert_int_equal(copy_file_note(b->file, records, 1, &b->err), MORSEL_OK);
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_int_equal(b->dirty_count, 3);
}

static bool keep_second(void *data)
{
    add(data, 2, true);
    return true;
}

static void a_generation_takes_the_place_of_older_ones(void **state)
{
    struct bench *b = *state;

    add(b, 1, true);
    assert_true(there(b, "ops-1"));
    assert_int_equal(copy_file_renew(b->file, keep_second, b, &b->err), MORSEL_OK);
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK); /* Not synced: both count. */
    assert_int_equal(b->operations_count, 2);
    assert_int_equal(b->operations[0].known.op.number, 2);
    assert_int_equal(copy_file_renew(b->file, keep_second, b, &b->err), MORSEL_OK);
    assert_int_equal(copy_file_sync(b->file, &b->err), MORSEL_OK);
    assert_false(there(b, "ops-1"));
    assert_false(there(b, "ops-2"));
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_int_equal(b->operations_count, 1);
    assert_int_equal(b->operations[0].known.op.number, 2);
}

/* It alone is up to date: nobody else can make up for anything. */
static void stand_alone(struct bench *b)
{
    struct group_record record = b->found.record;

    record.state = GROUP_STANDALONE;
    record.epoch = 2;
    record.set = 2;
    assert_int_equal(copy_file_state(b->file, &record, &b->err), MORSEL_OK);
}

/* Nobody else may know what it did, so it has lost something. */
static void assert_forgot(struct bench *b, uint64_t boot)
{
    assert_int_equal(open_file(b, true, boot), MORSEL_OK);
    assert_true(b->found.state && b->found.forgot && !b->found.record.whole);
    assert_int_equal(b->found.record.state, GROUP_STANDALONE);
    assert_non_null(strstr(b->found.trouble.text, "is damaged: what clients have sent before"));
}

static void assert_sound(struct bench *b, uint64_t boot)
{
    assert_int_equal(open_file(b, true, boot), MORSEL_OK);
    assert_true(!b->found.forgot && b->found.record.whole);
    assert_int_equal(b->found.trouble.text[0], '\0');
}

/* What was not synced may be anything when the machine was reset; otherwise it is damage. */
static void a_loss_of_power_is_told_from_damage(void **state)
{
    struct bench *b = *state;

    stand_alone(b);
    add(b, 1, true);
    add(b, 2, true);
    put(b, "ops-1", COPY_MEMORY_HEADER_BYTES, SEEK_SET, 0, COPY_OPERATION_BYTES);
    assert_forgot(b, BOOT);
    assert_non_null(strstr(b->found.trouble.text, "9.ops-1 is damaged"));
    assert_sound(b, BOOT + 1);
    assert_int_equal(b->operations_count, 1);
    assert_int_equal(b->operations[0].known.op.number, 2);
    assert_int_equal(copy_file_renew(b->file, keep_second, b, &b->err), MORSEL_OK);
    put(b, "ops-2", 0, SEEK_SET, 0, COPY_MEMORY_HEADER_BYTES);
    assert_forgot(b, BOOT);
    assert_sound(b, BOOT + 1);
    put(b, "ops-1", 0, SEEK_SET, 0, COPY_MEMORY_HEADER_BYTES); /* This one was on the disk. */
    assert_forgot(b, BOOT + 1);
    assert_int_equal(copy_file_renew(b->file, keep_second, b, &b->err), MORSEL_OK);
    assert_int_equal(copy_file_sync(b->file, &b->err), MORSEL_OK); /* With that it has one again. */
    assert_sound(b, BOOT + 1);
}

/* The kernel tells of it once, and takes what it could not write for written: only what was written anew is sure. */
static void nothing_is_believed_behind_a_sync_that_failed(void **state)
{
    struct bench *b = *state;

    stand_alone(b);
    add(b, 1, true);
    assert_int_equal(copy_file_renew(b->file, keep_second, b, &b->err), MORSEL_OK);
    disk_fail(CALL_FDATASYNC, EIO);
    assert_int_equal(copy_file_sync(b->file, &b->err), MORSEL_IO);
    assert_int_equal(copy_file_sync(b->file, &b->err), MORSEL_IO);
    assert_non_null(strstr(b->err.text, "the disk has failed a sync"));
    put(b, "ops-2", 0, SEEK_SET, 0, COPY_MEMORY_HEADER_BYTES); /* It was not written, */
    assert_sound(b, BOOT + 1);                                 /* and the power goes. */
    assert_int_equal(b->operations_count, 1);
    assert_int_equal(copy_file_renew(b->file, keep_second, b, &b->err), MORSEL_OK);
    assert_int_equal(copy_file_sync(b->file, &b->err), MORSEL_OK);
    assert_false(there(b, "ops-1") || there(b, "ops-2"));
    assert_sound(b, BOOT);
}

/* What a loss of power has left of the memory is no damage at the second start behind it either. */
static void two_starts_behind_one_loss_of_power(void **state)
{
    struct bench *b = *state;
    struct group_record record;

    add(b, 1, true);
    assert_int_equal(copy_file_renew(b->file, keep_second, b, &b->err), MORSEL_OK);
    put(b, "ops-2", COPY_MEMORY_HEADER_BYTES, SEEK_SET, 0, COPY_OPERATION_BYTES);
    assert_int_equal(open_file(b, true, BOOT + 1), MORSEL_OK);
    record = b->found.record;
    record.boot = BOOT + 1;
    assert_int_equal(copy_file_renew(b->file, keep_second, b, &b->err), MORSEL_OK);
    assert_int_equal(copy_file_state(b->file, &record, &b->err), MORSEL_OK);
    assert_int_equal(open_file(b, true, BOOT + 1), MORSEL_OK);
    assert_int_equal(b->operations_count, 1);
    assert_int_equal(b->operations[0].known.op.number, 2);
}

static void an_entry_that_was_not_finished_is_left_out(void **state)
{
    struct bench *b = *state;

    add(b, 1, true);
    put(b, "ops-1", 0, SEEK_END, 0x55, COPY_OPERATION_BYTES - 1);
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_int_equal(b->operations_count, 1);
}

static void assert_newcomer(struct bench *b, const char *why)
{
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_false(b->found.state);
    assert_int_equal(b->found.record.state, GROUP_STALE);
    assert_int_equal(b->found.record.epoch, 0);
    assert_int_equal(b->found.record.set, 1);
    assert_false(b->found.record.whole);
    assert_non_null(strstr(b->found.trouble.text, why));
    assert_true(b->dirty[0].kind == DIRTY_INTENT && b->dirty[0].change.everything);
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK); /* So it is from now on. */
    assert_true(b->found.state);
    assert_int_equal(b->found.record.state, GROUP_STALE);
    assert_int_equal(b->found.trouble.text[0], '\0');
    assert_true(b->dirty[0].kind == DIRTY_INTENT && b->dirty[0].change.everything);
    assert_int_equal(b->operations_count, 0);
}

/* The state of another place says nothing of this one. */
static void what_is_lost_the_others_make_up_for(void **state)
{
    struct bench *b = *state;
    char path[128];

    add(b, 1, true);
    path_of(b, "ops-1", path);
    CHECK(unlink(path) == 0);
    assert_newcomer(b, "missing");
    path_of(b, "state", path);
    CHECK(unlink(path) == 0);
    assert_newcomer(b, "9.state is missing");
    name.servers[1] = 5;
    assert_newcomer(b, "of another place");
    name.since = 8;
    assert_newcomer(b, "of an earlier time");
    put(b, "state", 20, SEEK_SET, 0x55, 8);
    assert_newcomer(b, "9.state is damaged");
}

/* Others hold the other places: it is the same copy. */
static void others_may_hold_the_other_places(void **state)
{
    struct bench *b = *state;

    name.servers[0] = 12;
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_true(b->found.state);
    name.servers[0] = 0;
    assert_int_equal(copy_file_state(b->file, &b->found.record, &b->err), MORSEL_OK);
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_true(b->found.state);
    name.count = 3;
    name.servers[2] = 13;
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_true(b->found.state);
}

/* Of a damaged log everything counts as changed, for everybody. */
static void a_damaged_log_says_everything(void **state)
{
    struct bench *b = *state;

    stand_alone(b);
    assert_int_equal(copy_file_note(b->file, records, 2, &b->err), MORSEL_OK);
    put(b, "dirty", DIRTY_HEADER_BYTES + DIRTY_ENTRY_HEADER_BYTES, SEEK_SET, 0x55, 8);
    for (unsigned again = 0; again < 2; again++) {
        assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
        assert_int_equal(b->found.record.state, GROUP_STANDALONE);
        assert_int_equal(b->found.trouble.text[0] != '\0', again == 0);
        assert_int_equal(b->dirty_count, 2);
        assert_true(b->dirty[0].kind == DIRTY_INTENT && b->dirty[0].change.everything);
        assert_true(b->dirty[1].kind == DIRTY_CHANGED && b->dirty[1].change.everything);
        assert_int_equal(b->dirty[1].members, 1);
    }
    assert_int_equal(copy_file_note(b->file, records, 1, &b->err), MORSEL_OK);
    assert_int_equal(open_file(b, true, BOOT), MORSEL_OK);
    assert_int_equal(b->dirty_count, 3);
}

static void who_comes_later_is_a_newcomer(void **state)
{
    struct bench *b = *state;

    assert_int_equal(copy_file_remove(b->dir, name.group, &b->err), MORSEL_OK);
    copy_file_close(b->file);
    assert_int_equal(
        copy_file_open(b->dir, &name, COPY_FILE_NEWCOMER, BOOT, &b->found, &b->file, &b->err),
        MORSEL_OK);
    assert_int_equal(b->found.record.state, GROUP_STALE);
    assert_int_equal(b->found.trouble.text[0], '\0');
    assert_false(there(b, "ops-2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_found, begin, end),
        cmocka_unit_test_setup_teardown(a_generation_takes_the_place_of_older_ones, begin, end),
        cmocka_unit_test_setup_teardown(a_loss_of_power_is_told_from_damage, begin, end),
        cmocka_unit_test_setup_teardown(nothing_is_believed_behind_a_sync_that_failed, begin, end),
        cmocka_unit_test_setup_teardown(two_starts_behind_one_loss_of_power, begin, end),
        cmocka_unit_test_setup_teardown(an_entry_that_was_not_finished_is_left_out, begin, end),
        cmocka_unit_test_setup_teardown(what_is_lost_the_others_make_up_for, begin, end),
        cmocka_unit_test_setup_teardown(others_may_hold_the_other_places, begin, end),
        cmocka_unit_test_setup_teardown(a_damaged_log_says_everything, begin, end),
        cmocka_unit_test_setup_teardown(who_comes_later_is_a_newcomer, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
