/* The object store when it is killed and when the machine stops. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/store/store.h"
#include "common/store/store_format.h"
#include "tests/lib/store_fixture.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Killed ---- */

enum {
    KILLED_BYTES = GROUP_BYTES + (GROUP_BYTES >> 2),
    KILLED_LENGTH_MAX = 90000,
    KILLED_ROUNDS = 50,
    STOPPED_ROUNDS = 400
};

/* Change number `sequence`, the same in the child that does it and in the parent that checks it. */
struct change
{
    enum { CHANGE_WRITE, CHANGE_PUNCH, CHANGE_TRUNCATE } kind;
    uint64_t offset;
    size_t length; /* Of what differs afterwards. */
    uint8_t bytes[KILLED_BYTES];
};

static void change_draw(struct change *c, uint64_t sequence)
{
    struct prng prng;
    uint64_t dice;

    prng_seed(&prng, sequence);
    dice = prng_below(&prng, 10);
    c->kind = dice == 0 ? CHANGE_TRUNCATE : dice < 3 ? CHANGE_PUNCH : CHANGE_WRITE;
    c->offset = prng_below(&prng, KILLED_BYTES - KILLED_LENGTH_MAX);
    c->length = 1 + prng_below(&prng, KILLED_LENGTH_MAX);
    if (prng_below(&prng, 2) == 0) {
        c->offset -= c->offset % BLOCK_BYTES;
    }
    if (c->kind == CHANGE_TRUNCATE) {
        c->length = KILLED_BYTES - c->offset;
    }
    for (size_t i = 0; i < c->length; i++) {
        uint8_t byte = (uint8_t)(sequence + (c->offset + i) / BLOCK_BYTES * 7);

        c->bytes[i] = c->kind == CHANGE_WRITE ? byte : 0;
    }
}

static int change_apply(struct store_fixture *f, struct object_id id, const struct change *c)
{
    switch (c->kind) {
    case CHANGE_WRITE:
        return fixture_write(f, id, c->offset, c->bytes, c->length);
    case CHANGE_PUNCH:
        return store_punch(f->store, id, c->offset, c->length, NULL, NULL);
    case CHANGE_TRUNCATE:
        return store_truncate(f->store, id, c->offset, NULL, NULL);
    }
    return MORSEL_INVAL;
}

/* How many system calls that change a file this process may still make; the one after them is done
 * in part, and ends it. -1: any number. */
static int *calls_left(void)
{
    static int left = -1;

    return &left;
}

static bool call_is_last(void)
{
    int *left = calls_left();

    if (*left > 0) {
        --*left;
    }
    return *left == 0;
}

ssize_t __real_pwritev(int fd, const struct iovec *vectors, int count, off_t place);
ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int count, off_t place);
ssize_t __real_pwrite(int fd, const void *bytes, size_t count, off_t place);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t place);
int __real_ftruncate(int fd, off_t length);
int __wrap_ftruncate(int fd, off_t length);
int __real_fallocate(int fd, int mode, off_t place, off_t length);
int __wrap_fallocate(int fd, int mode, off_t place, off_t length);

extern const char __executable_start[], _end[];

/* How much of it the kernel copies before it looks for signals. It does so page by page of the file;
 * but a page of ours that is not mapped ends the copy in its middle. So it may be with what nobody
 * has looked at for long, as constants of the program; all else was just made. */
static size_t copied_at_last(const struct iovec *vectors, int count, off_t place)
{
    const char *from = vectors[0].iov_base;
    size_t to_border = BLOCK_BYTES - (uintptr_t)from % BLOCK_BYTES;
    size_t bytes = 0;

    if (from >= __executable_start && from < _end && to_border < vectors[0].iov_len) {
        return to_border;
    }
    for (int i = 0; i < count; i++) {
        bytes += vectors[i].iov_len;
    }
    bytes = (size_t)((place + (off_t)bytes / 2) / BLOCK_BYTES * BLOCK_BYTES);
    return bytes > (size_t)place ? bytes - (size_t)place : 0;
}

ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int count, off_t place)
{
    size_t left;

    if (!call_is_last()) {
        return __real_pwritev(fd, vectors, count, place);
    }
    left = copied_at_last(vectors, count, place);
    for (int i = 0; i < count && left > 0; i++) {
        size_t part = vectors[i].iov_len < left ? vectors[i].iov_len : left;

        CHECK(__real_pwrite(fd, vectors[i].iov_base, part, place) == (ssize_t)part);
        place += (off_t)part;
        left -= part;
    }
    _exit(0);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t place)
{
    if (call_is_last()) {
        _exit(0);
    }
    return __real_pwrite(fd, bytes, count, place);
}

int __wrap_ftruncate(int fd, off_t length)
{
    if (call_is_last()) {
        _exit(0);
    }
    return __real_ftruncate(fd, length);
}

int __wrap_fallocate(int fd, int mode, off_t place, off_t length)
{
    if (call_is_last()) {
        _exit(0);
    }
    return __real_fallocate(fd, mode, place, length);
}

/* Makes changes until it is killed; says each number once the change is acknowledged. */
_Noreturn static void killed_child(struct store_fixture *f, struct object_id id, uint64_t sequence,
                                   int pipe_fd, int calls)
{
    struct change *c = malloc(sizeof(*c));

    fixture_open(f);
    *calls_left() = calls;
    CHECK(c != NULL);
    for (;; sequence++) {
        change_draw(c, sequence);
        CHECK(change_apply(f, id, c) == 0);
        CHECK(write(pipe_fd, &sequence, sizeof(sequence)) == (ssize_t)sizeof(sequence));
        if (sequence % 64 == 0) {
            CHECK(store_checkpoint(f->store, 0, NULL) == 0);
        }
    }
}

/* Let a child work, kill it after some acknowledgements (or let it end after some system calls),
 * apply those to the model; the first number that was not acknowledged. */
static uint64_t killed_round(struct store_fixture *f, struct object_id id, uint64_t sequence,
                             uint64_t acks, int calls, uint8_t *model)
{
    struct change *c = malloc(sizeof(*c));
    uint64_t said;
    int fds[2];
    pid_t child;
    int status;

    assert_non_null(c);
    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(fds[0]);
        killed_child(f, id, sequence, fds[1], calls);
    }
    close(fds[1]);
    for (uint64_t i = 0; read(fds[0], &said, sizeof(said)) == (ssize_t)sizeof(said); i++) {
        if (i == acks) {
            kill(child, SIGKILL);
        }
        assert_int_equal(said, sequence);
        change_draw(c, sequence++);
        memcpy(model + c->offset, c->bytes, c->length);
    }
    close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) || WTERMSIG(status) == SIGKILL);
    free(c);
    return sequence;
}

/* Each block is as the model says or, within the change that was under way, new; the model follows.
 */
static void killed_check(struct store_fixture *f, struct object_id id, uint64_t sequence,
                         uint8_t *model)
{
    struct change *c = malloc(sizeof(*c));
    uint8_t *is = malloc(KILLED_BYTES);
    uint8_t *new = malloc(KILLED_BYTES);
    uint64_t bad;

    CHECK(c != NULL && is != NULL && new != NULL);
    assert_int_equal(fixture_read(f, id, 0, is, KILLED_BYTES), 0);
    change_draw(c, sequence);
    memcpy(new, model, KILLED_BYTES);
    memcpy(new + c->offset, c->bytes, c->length);
    for (uint64_t at = 0; at < KILLED_BYTES; at += BLOCK_BYTES) {
        if (memcmp(is + at, model + at, BLOCK_BYTES) != 0) {
            assert_memory_equal(is + at, new + at, BLOCK_BYTES);
        }
    }
    memcpy(model, is, KILLED_BYTES);
    if (sequence % 3 == 0) {
        assert_int_equal(store_verify(f->store, id, &bad, NULL), 0);
        assert_int_equal(bad, 0);
    }
    if (sequence % 5 == 0) {
        assert_int_equal(store_checkpoint(f->store, 0, NULL), 0);
    }
    free(new);
    free(is);
    free(c);
}

/* Between most rounds nobody reads: what one crash leaves behind must not trip over the next. */
static void survive(int rounds, bool by_calls)
{
    struct object_id id = { .inode = 11, .column = 2 };
    uint8_t *model = calloc(1, KILLED_BYTES);
    uint64_t sequence = 1;
    struct store_fixture f;
    struct prng prng;

    assert_non_null(model);
    prng_seed(&prng, 1);
    fixture_init(&f);
    for (int round = 0; round < rounds; round++) {
        uint64_t acks = by_calls ? UINT64_MAX : prng_below(&prng, 40);
        int calls = by_calls ? 1 + (int)prng_below(&prng, 9) : -1;

        sequence = killed_round(&f, id, sequence, acks, calls, model);
        fixture_open(&f);
        killed_check(&f, id, sequence++, model);
        fixture_close(&f);
        assert_int_equal(f.lines, 0);
    }
    fixture_free(&f);
    free(model);
}

static void survives_kill(void **state)
{
    (void)state;
    survive(KILLED_ROUNDS, false);
}

static void survives_an_end_between_any_two_calls(void **state)
{
    (void)state;
    survive(STOPPED_ROUNDS, true);
}

/* Two crashes at the same block with nobody reading in between: the block of the first must not be
 * taken for damage after the second. */
static void survives_crash_after_crash(void **state)
{
    struct object_id id = { .inode = 18, .column = 0 };
    uint8_t bytes[3 * BLOCK_BYTES];
    struct store_fixture f;

    (void)state;
    for (int calls = 1; calls <= 5; calls++) {
        fixture_init(&f);
        fixture_open(&f);
        memset(bytes, 1, sizeof(bytes));
        assert_int_equal(fixture_write(&f, id, 0, bytes, sizeof(bytes)), 0);
        fixture_close(&f);
        for (int round = 2; round < 6; round++) {
            pid_t child = fork();

            assert_true(child >= 0);
            if (child == 0) {
                fixture_open(&f);
                memset(bytes, round, sizeof(bytes));
                *calls_left() = calls;
                CHECK(fixture_write(&f, id, BLOCK_BYTES, bytes, 2 * BLOCK_BYTES) == 0);
                _exit(0);
            }
            assert_int_equal(waitpid(child, NULL, 0), child);
        }
        fixture_open(&f);
        assert_int_equal(fixture_read(&f, id, 0, bytes, sizeof(bytes)), 0);
        assert_int_equal(bytes[0], 1);
        assert_in_range(bytes[BLOCK_BYTES], 1, 5);
        assert_int_equal(bytes[BLOCK_BYTES], bytes[2 * BLOCK_BYTES - 1]);
        assert_int_equal(f.lines, 0);
        fixture_free(&f);
    }
}

/* ---- The machine stopped ---- */

/* Three blocks are on disk for good, then the one in the middle changes, and in its place something
 * else is found: neither old nor new. `covered` puts the change far enough back that the store
 * covers it. */
static int read_torn_block(bool covered, uint64_t boot_after, unsigned *lines)
{
    struct object_id id = { .inode = 12, .column = 0 };
    uint8_t bytes[3 * BLOCK_BYTES];
    struct store_fixture f;
    char path[512];
    int rv;

    fixture_init(&f);
    fixture_open(&f);
    memset(bytes, 1, sizeof(bytes));
    assert_int_equal(fixture_write(&f, id, 0, bytes, sizeof(bytes)), 0);
    assert_int_equal(fixture_write(&f, id, BLOCK_BYTES, bytes, 7), 0);
    for (int i = 0; covered && i < 3; i++) {
        assert_int_equal(store_checkpoint(f.store, 0, NULL), 0);
        assert_int_equal(fixture_write(&f, (struct object_id){ 99, 9 }, 0, bytes, 1), 0);
    }
    fixture_path(&f, id, path);
    fixture_flip(path, CHECKSUMS_PAGE_BYTES + BLOCK_BYTES + 5);
    f.options.boot_id = boot_after;
    fixture_crash(&f);
    rv = fixture_read(&f, id, 0, bytes, sizeof(bytes));
    assert_int_equal(fixture_read(&f, id, 0, bytes, 10), 0);
    if (rv == 0) {
        assert_int_equal(bytes[BLOCK_BYTES + 5], 1 ^ 0x10);
        assert_int_equal(f.lines, 1);
        assert_int_equal(store_checkpoint(f.store, 0, NULL), 0);
        assert_int_equal(fixture_read(&f, id, 0, bytes, sizeof(bytes)), 0);
    }
    *lines = f.lines;
    fixture_free(&f);
    return rv;
}

static void tells_a_power_cut_from_damage(void **state)
{
    unsigned lines;

    (void)state;
    assert_int_equal(read_torn_block(false, 2, &lines), 0);
    assert_int_equal(lines, 1);
    assert_int_equal(read_torn_block(false, 1, &lines), MORSEL_CHECKSUM);
    assert_int_equal(read_torn_block(true, 2, &lines), MORSEL_CHECKSUM);
    assert_int_equal(read_torn_block(true, 1, &lines), MORSEL_CHECKSUM);
}

/* An object that was verified after a crash is trusted again. */
static void verifies_after_a_crash(void **state)
{
    struct object_id id = { .inode = 13, .column = 0 };
    struct store_fixture f;
    uint8_t bytes[BLOCK_BYTES] = { 1 };
    char path[512];

    (void)state;
    fixture_init(&f);
    fixture_open(&f);
    assert_int_equal(fixture_write(&f, id, 0, bytes, sizeof(bytes)), 0);
    f.options.boot_id = 2;
    fixture_crash(&f);
    assert_int_equal(fixture_read(&f, id, 0, bytes, sizeof(bytes)), 0);
    assert_int_equal(store_checkpoint(f.store, 0, NULL), 0);
    fixture_close(&f);
    fixture_path(&f, id, path);
    fixture_flip(path, CHECKSUMS_PAGE_BYTES);
    f.options.boot_id = 3;
    fixture_open(&f);
    assert_int_equal(fixture_read(&f, id, 0, bytes, sizeof(bytes)), MORSEL_CHECKSUM);
    fixture_free(&f);
}

/* Without its record of checkpoints the store trusts nothing that it finds, and works. A damaged
 * one is refused. */
static void lives_without_its_record(void **state)
{
    struct object_id id = { .inode = 14, .column = 0 };
    struct store_fixture f;
    uint8_t bytes[BLOCK_BYTES] = { 1 };
    struct errmsg err = { "" };
    char path[512], record[512];

    (void)state;
    fixture_init(&f);
    fixture_open(&f);
    assert_int_equal(fixture_write(&f, id, 0, bytes, sizeof(bytes)), 0);
    fixture_close(&f);
    fixture_path(&f, id, path);
    fixture_flip(path, CHECKSUMS_PAGE_BYTES);
    snprintf(record, sizeof(record), "%s/epochs", f.dir);
    fixture_flip(record, 20);
    assert_int_equal(store_open(f.dir, &f.options, &f.store, &err), MORSEL_CORRUPT);
    assert_non_null(strstr(err.text, "epochs is damaged"));
    assert_int_equal(unlink(record), 0);
    fixture_open(&f);
    assert_int_equal(fixture_read(&f, id, 0, bytes, sizeof(bytes)), 0);
    assert_int_equal(f.lines, 1);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survives_kill),
        cmocka_unit_test(survives_an_end_between_any_two_calls),
        cmocka_unit_test(survives_crash_after_crash),
        cmocka_unit_test(tells_a_power_cut_from_damage),
        cmocka_unit_test(verifies_after_a_crash),
        cmocka_unit_test(lives_without_its_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
