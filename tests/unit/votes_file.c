/* Votes on disk: what was written is there, and what may be lost is never guessed at. */
#include "common/vote/votes_file.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/vote/votes_format.h"
#include "tests/lib/faulty_disk.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { ID = 77, BYTES_MAX = 1 << 16 };

/* A directory of its own, which is the one in which we are. */
static int make_place(void **state)
{
    char *place = strdup("/tmp/morsel-votes-XXXXXX");

    CHECK(place != NULL && mkdtemp(place) != NULL && chdir(place) == 0);
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    disk_reset();
    *state = place;
    return 0;
}

static int remove_place(void **state)
{
    char command[128];

    CHECK(chdir("/") == 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", (char *)*state);
    CHECK(system(command) == 0);
    free(*state);
    return 0;
}

static struct vote_record record_of(server_id group, uint64_t round)
{
    return (struct vote_record){ .subject = { { group, group + 1 } },
                                 .decided_epoch = 1,
                                 .decided = { 2, { 4, 5 } },
                                 .promised = { round, 9 },
                                 .ballot = { round, 9 },
                                 .value = { 3, { 1, 2, (uint8_t)round } } };
}

static struct votes_file *open_file(struct voter **voter)
{
    struct errmsg err = { "" };
    struct votes_file *f;
    int rv = votes_file_open(".", ID, &f, voter, &err);

    if (rv != MORSEL_OK) {
        fail_msg("%s", err.text);
    }
    return f;
}

static int put(struct votes_file *f, bool all, uint64_t version, server_id group, uint64_t round)
{
    struct vote_record record = record_of(group, round);
    struct errmsg err = { "" };
    int rv = votes_file_write(f, all, version, &record, 1, &err);

    assert_int_equal(err.text[0] == 0, rv == MORSEL_OK);
    return rv;
}

static uint64_t round_of(const struct voter *v, server_id group)
{
    struct vote_subject before = { { group } };
    struct vote_record record;

    return voter_page(v, &before, 1, &record) == 1 && record.subject.servers[0] == group
               ? record.ballot.round
               : 0;
}

static size_t read_votes(uint8_t bytes[BYTES_MAX])
{
    FILE *file = fopen("votes", "r");
    size_t count;

    CHECK(file != NULL);
    count = fread(bytes, 1, BYTES_MAX, file);
    CHECK(count < BYTES_MAX && fclose(file) == 0);
    return count;
}

static void write_votes(const uint8_t *bytes, size_t count)
{
    FILE *file = fopen("votes", "w");

    CHECK(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

static void expect_refused(int status, const char *words)
{
    struct errmsg err = { "" };
    struct votes_file *f;
    struct voter *v;

    assert_int_equal(votes_file_open(".", ID + 1, &f, &v, &err), status);
    assert_non_null(strstr(err.text, words));
    assert_null(strchr(err.text, '\n'));
    assert_true(f == NULL && v == NULL);
}

/* A whole file and two entries behind it; their beginnings. */
static size_t make_file(size_t *second, size_t *third)
{
    struct voter *v;
    struct votes_file *f = open_file(&v);
    static uint8_t bytes[BYTES_MAX];

    assert_int_equal(put(f, true, 1, 10, 1), MORSEL_OK);
    *second = read_votes(bytes);
    assert_int_equal(put(f, false, 2, 20, 2), MORSEL_OK);
    *third = read_votes(bytes);
    assert_int_equal(put(f, false, 3, 10, 3), MORSEL_OK);
    votes_file_close(f);
    voter_free(v);
    return read_votes(bytes);
}

static void what_was_written_is_there(void **state)
{
    size_t second, third;
    struct votes_file *f;
    struct voter *v;

    (void)state;
    (void)make_file(&second, &third);
    disk_reset();
    f = open_file(&v);
    assert_true(voter_name(v) == ID && voter_set_version(v) == 3);
    assert_int_equal(voter_count(v), 2);
    assert_true(round_of(v, 10) == 3 && round_of(v, 20) == 2);
    assert_false(votes_file_wants_all(f));
    assert_int_equal(put(f, false, 3, 10, 4), MORSEL_OK);
    assert_true(disk_was_synced("/votes")); /* Before it says yes. */
    votes_file_close(f);
    voter_free(v);
}

/* The file ends within the last entry, or its blocks never came to the disk. */
static void a_torn_end_is_left_out(void **state)
{
    static uint8_t bytes[BYTES_MAX];
    size_t second, third, count = make_file(&second, &third);
    struct votes_file *f;
    struct voter *v;

    (void)state;
    assert_int_equal(read_votes(bytes), count);
    for (size_t cut = third; cut <= count;
         cut += cut < count && cut + 9 > count ? count - cut : 9) {
        bool zeros = cut == count;

        if (zeros) {
            memset(bytes + third, 0, count - third);
        }
        write_votes(bytes, cut);
        f = open_file(&v);
        assert_true(voter_name(v) == ID && voter_set_version(v) == 2);
        assert_true(round_of(v, 10) == 1 && round_of(v, 20) == 2);
        assert_int_equal(votes_file_wants_all(f), cut > third);
        assert_int_equal(put(f, cut > third, 5, 10, 5), MORSEL_OK);
        votes_file_close(f);
        voter_free(v);
        f = open_file(&v);
        assert_false(votes_file_wants_all(f));
        assert_int_equal(round_of(v, 10), 5);
        votes_file_close(f);
        voter_free(v);
    }
}

static void damage_is_never_taken_for_an_end(void **state)
{
    static uint8_t bytes[BYTES_MAX];
    size_t second, third, count = make_file(&second, &third);

    (void)state;
    assert_int_equal(read_votes(bytes), count);
    for (size_t at = 0; at < count; at++) {
        bytes[at] ^= 0x10;
        write_votes(bytes, count);
        expect_refused(MORSEL_CORRUPT, "./votes is damaged at byte");
        bytes[at] ^= 0x10;
    }
    for (size_t cut = 0; cut < second; cut++) { /* The first entry came with the file. */
        write_votes(bytes, cut);
        expect_refused(MORSEL_CORRUPT, "./votes is damaged at byte");
    }
    memmove(bytes + second, bytes + third, count - third); /* An entry is gone. */
    write_votes(bytes, count - (third - second));
    expect_refused(MORSEL_CORRUPT, "votes may be lost");
}

static void a_damaged_file_is_put_aside_and_the_id_is_new(void **state)
{
    struct errmsg err = { "" };
    struct votes_file *f;
    struct voter *v;

    (void)state;
    write_votes((const uint8_t *)"nonsense", 8);
    expect_refused(MORSEL_CORRUPT, "damaged");
    assert_int_equal(votes_file_renew(".", &err), MORSEL_OK);
    assert_int_equal(access("votes.damaged", F_OK), 0);
    assert_int_equal(votes_file_open(".", ID + 5, &f, &v, &err), MORSEL_OK);
    assert_true(voter_name(v) == ID + 5 && voter_count(v) == 0);
    votes_file_close(f);
    voter_free(v);
    f = open_file(&v); /* It stays. */
    assert_true(voter_name(v) == ID + 5);
    votes_file_close(f);
    voter_free(v);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes == 0 ? limit.rlim_max : bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* A vote that finds no room is refused, at whichever byte, and what was there stays. */
static void a_full_disk_refuses_and_forgets_nothing(void **state)
{
    size_t second, third, count = make_file(&second, &third);
    struct votes_file *f;
    struct voter *v;

    (void)state;
    for (size_t room = 0; room < 40; room += 13) {
        f = open_file(&v);
        voter_free(v);
        limit_files(count + room);
        assert_int_not_equal(put(f, false, 4, 30, 4), MORSEL_OK);
        assert_true(votes_file_wants_all(f));
        limit_files(20);
        assert_int_not_equal(put(f, true, 4, 30, 4), MORSEL_OK);
        assert_true(votes_file_wants_all(f));
        limit_files(0);
        votes_file_close(f);
        f = open_file(&v);
        assert_true(round_of(v, 10) == 3 && round_of(v, 20) == 2 && round_of(v, 30) == 0);
        votes_file_close(f);
        voter_free(v);
    }
    f = open_file(&v);
    assert_int_equal(put(f, true, 4, 30, 4), MORSEL_OK); /* There is room again. */
    votes_file_close(f);
    voter_free(v);
}

/* A disk says once that a sync has failed: what follows is not believed to be there either. */
static void behind_a_failed_sync_all_is_written_again(void **state)
{
    size_t second, third;
    struct votes_file *f;
    struct voter *v;

    (void)state;
    (void)make_file(&second, &third);
    f = open_file(&v);
    disk_fail(CALL_FSYNC, EIO);
    assert_int_equal(put(f, true, 4, 30, 4), MORSEL_IO);
    assert_true(votes_file_wants_all(f));
    disk_reset();
    assert_int_equal(put(f, true, 4, 30, 4), MORSEL_OK);
    disk_fail(CALL_FDATASYNC, EIO);
    assert_int_equal(put(f, false, 4, 30, 4), MORSEL_IO);
    assert_true(votes_file_wants_all(f));
    disk_reset();
    disk_fail(CALL_FSYNC, EIO);
    assert_int_equal(put(f, true, 4, 30, 4), MORSEL_IO);
    assert_true(votes_file_wants_all(f));
    disk_reset();
    assert_int_equal(put(f, true, 4, 30, 5), MORSEL_OK);
    assert_false(votes_file_wants_all(f));
    assert_true(disk_was_synced("/votes.tmp"));
    assert_int_equal(put(f, false, 4, 30, 6), MORSEL_OK);
    votes_file_close(f);
    voter_free(v);
    f = open_file(&v);
    assert_int_equal(round_of(v, 30), 6);
    votes_file_close(f);
    voter_free(v);
}

static void the_file_does_not_grow_for_ever(void **state)
{
    struct vote_record records[64];
    struct voter *v;
    struct votes_file *f = open_file(&v);
    struct stat st;
    off_t most = 0;
    bool all = false;

    (void)state;
    for (uint64_t round = 1; !all; round++) {
        all = votes_file_wants_all(f);
        for (server_id group = 0; group < ARRAY_COUNT(records); group++) {
            records[group] = record_of(group + 1, round);
        }
        assert_int_equal(votes_file_write(f, all, 4, records, ARRAY_COUNT(records), NULL), 0);
        assert_int_equal(stat("votes", &st), 0);
        most = st.st_size > most ? st.st_size : most;
        CHECK(round < 10000);
    }
    assert_in_range(most, VOTES_APPENDED_BYTES_MAX, VOTES_APPENDED_BYTES_MAX + sizeof(records));
    assert_true((size_t)st.st_size < sizeof(records));
    votes_file_close(f);
    voter_free(v);
}

static void a_newer_format_is_refused_with_a_word(void **state)
{
    static uint8_t bytes[BYTES_MAX];
    size_t second, third, count = make_file(&second, &third);

    (void)state;
    assert_int_equal(read_votes(bytes), count);
    bytes[8]++;
    memset(bytes + 12, 0, 4);
    put_le32(bytes + 12, crc32c(0, bytes, VOTES_HEADER_BYTES));
    write_votes(bytes, count);
    expect_refused(MORSEL_VERSION, "use a newer version");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_place, remove_place)
    const struct CMUnitTest tests[] = {
        TEST(what_was_written_is_there),
        TEST(a_torn_end_is_left_out),
        TEST(damage_is_never_taken_for_an_end),
        TEST(a_damaged_file_is_put_aside_and_the_id_is_new),
        TEST(a_full_disk_refuses_and_forgets_nothing),
        TEST(behind_a_failed_sync_all_is_written_again),
        TEST(the_file_does_not_grow_for_ever),
        TEST(a_newer_format_is_refused_with_a_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
