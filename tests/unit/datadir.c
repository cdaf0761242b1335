/* Whose a directory is, and what is refused. */
#include "common/daemon/datadir_file.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void (*before_lock)(void);
int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

int __wrap_flock(int fd, int operation)
{
    void (*run)(void) = before_lock;

    before_lock = NULL;
    if (run != NULL) {
        run();
    }
    return __real_flock(fd, operation);
}

/* A directory of its own; tests work in `data` under it. */
static int make_place(void **state)
{
    char *place = strdup("/tmp/morsel-datadir-XXXXXX");

    CHECK(place != NULL && mkdtemp(place) != NULL && chdir(place) == 0);
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

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void refused(const char *path, const char *role, int status, const char *words)
{
    struct errmsg err = { "" };
    struct datadir d;

    assert_int_equal(datadir_open(&d, path, role, &err), status);
    assert_non_null(strstr(err.text, words));
    assert_int_equal(d.lock_fd, -1);
}

static void remembers_who_it_is(void **state)
{
    struct errmsg err = { "" };
    struct datadir d, again;

    (void)state;
    assert_int_equal(datadir_open(&d, "data", "iod", &err), 0);
    assert_true(d.fresh);
    assert_int_equal(d.node, 0);
    refused("data", "iod", MORSEL_EXISTS_LOCKED, "in use");
    d.node = 12;
    d.starts = (struct starts_kept){ .confirmed = UINT64_MAX, .pending = 5, .count = 7 };
    memset(d.cluster.bytes, 0xab, sizeof(d.cluster.bytes));
    assert_int_equal(datadir_save(&d, &err), 0);
    datadir_close(&d);
    assert_int_equal(datadir_open(&again, "data", "iod", &err), 0);
    assert_false(again.fresh);
    assert_int_equal(again.node, 12);
    assert_memory_equal(&again.starts, &d.starts, sizeof(d.starts));
    assert_memory_equal(again.token, d.token, sizeof(d.token));
    assert_memory_equal(again.cluster.bytes, d.cluster.bytes, sizeof(d.cluster.bytes));
    datadir_close(&again);
    datadir_close(&again); /* Harmless. */
}

/* Another process begins and ends between our look at the directory and our lock. */
static struct datadir another;

static void begin_and_end(void)
{
    struct errmsg err = { "" };

    CHECK(datadir_open(&another, "data", "iod", &err) == 0);
    another.node = 12;
    CHECK(datadir_save(&another, &err) == 0);
    datadir_close(&another);
}

static void what_counts_is_there_under_the_lock(void **state)
{
    struct errmsg err = { "" };
    struct datadir d;

    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* New; then known. */
        before_lock = begin_and_end;
        assert_int_equal(datadir_open(&d, "data", "iod", &err), 0);
        assert_null(before_lock);
        assert_false(d.fresh);
        assert_int_equal(d.node, 12);
        assert_memory_equal(d.token, another.token, sizeof(d.token));
        d.node = 5;
        assert_int_equal(datadir_save(&d, &err), 0);
        datadir_close(&d);
    }
}

static void tokens_differ(void **state)
{
    struct errmsg err = { "" };
    struct datadir a, b;

    (void)state;
    assert_int_equal(datadir_open(&a, "a", "iod", &err), 0);
    assert_int_equal(datadir_open(&b, "b", "iod", &err), 0);
    assert_memory_not_equal(a.token, b.token, sizeof(a.token));
    datadir_close(&a);
    datadir_close(&b);
}

static void refuses_what_is_not_its_own(void **state)
{
    struct errmsg err = { "" };
    struct datadir d;

    (void)state;
    assert_int_equal(mkdir("foreign", 0700), 0);
    put_file("foreign/thesis.tex", "years of work");
    refused("foreign", "iod", MORSEL_NOTEMPTY, "holds other things");
    assert_int_not_equal(access("foreign/lock", F_OK), 0);
    put_file("file", "");
    refused("file", "iod", MORSEL_NOTDIR, "file");
    refused("", "iod", MORSEL_INVAL, "empty");
    refused("no/such/parent", "iod", MORSEL_NOENT, "no/such/parent");
    assert_int_equal(datadir_open(&d, "data", "meta", &err), 0);
    datadir_close(&d);
    refused("data", "iod", MORSEL_INVAL, "morsel-meta");
}

static void refuses_damage_and_newer_formats(void **state)
{
    static const char *const damaged[] = { "", "format = 1\n",
                                           "format = 1\nrole = iod\ncluster = zz\n", "nonsense",
                                           "format = x\n" };
    struct errmsg err = { "" };
    struct datadir d;

    (void)state;
    assert_int_equal(datadir_open(&d, "data", "iod", &err), 0);
    datadir_close(&d);
    for (size_t i = 0; i < ARRAY_COUNT(damaged); i++) {
        put_file("data/identity", damaged[i]);
        refused("data", "iod", MORSEL_CORRUPT, "damaged");
    }
    put_file("data/identity", "format = 3\nsomething = new\n");
    refused("data", "iod", MORSEL_VERSION, "newer version");
}

#define HEX   "0123456789abcdef0123456789abcdef"
#define MARKS "confirmed = 0123456789abcdef\npending = fedcba9876543210\n"

/* What an older version wrote is read, and stays as it is until something is learned. */
static void format_1_is_taken_over(void **state)
{
    static const char old[] =
        "format = 1\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n";
    struct errmsg err = { "" };
    struct datadir d;

    (void)state;
    assert_int_equal(mkdir("data", 0700), 0);
    put_file("data/identity", old);
    assert_int_equal(datadir_open(&d, "data", "iod", &err), 0);
    assert_int_equal(d.format, 1);
    assert_int_equal(d.node, 3);
    assert_int_equal(d.starts.confirmed + d.starts.pending + d.starts.count, 0);
    d.starts.confirmed = 0xabc;
    assert_int_equal(datadir_save(&d, &err), 0);
    datadir_close(&d);
    assert_int_equal(datadir_open(&d, "data", "iod", &err), 0);
    assert_int_equal(d.format, DATADIR_FORMAT);
    assert_int_equal(d.node, 3);
    assert_int_equal(d.starts.confirmed, 0xabc);
    datadir_close(&d);
}

/* One byte otherwise than we write it, and it is not ours: blanks, signs, numbers too large, what
 * stands behind the end. */
static void identity_is_read_only_as_it_is_written(void **state)
{
    static const char good[] =
        "format = 2\nrole = iod\ncluster = " HEX "\nnode = 4294967295\ntoken = " HEX "\n" MARKS
        "start = 18446744073709551615\n";
    static const char *const bad[] = {
        "format = 0\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n",
        "format = 1\nrole = iod\ncluster = " HEX "\nnode = 4294967296\ntoken = " HEX "\n",
        "format = 1\nrole = iod\ncluster = " HEX "\nnode = -3\ntoken = " HEX "\n",
        "format = 1\nrole = iod\ncluster = " HEX "\nnode = 03\ntoken = " HEX "\n",
        "format = 1role = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n",
        "format = 1\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "0\n",
        "format = 1\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n\n",
        "format = 1\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX,
        "format = 1\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n" MARKS
        "start = 3\n",
        "format = 2\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n",
        "format = 2\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n" MARKS,
        "format = 2\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n" MARKS
        "start = -1\n",
        "format = 2\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n" MARKS
        "start = 18446744073709551616\n",
        "format = 2\nrole = iod\ncluster = " HEX "\nnode = 3\ntoken = " HEX "\n"
        "confirmed = 1\npending = 0000000000000000\nstart = 3\n",
    };
    char text[IDENTITY_TEXT_BYTES_MAX] = "";
    struct errmsg err = { "" };
    struct identity identity;

    (void)state;
    assert_int_equal(
        identity_parse((struct slice){ (const uint8_t *)good, strlen(good) }, "D", &identity, &err),
        MORSEL_OK);
    assert_int_equal(identity.node, UINT32_MAX);
    assert_string_equal(identity.role, "iod");
    assert_int_equal(identity_format(&identity, text), strlen(good));
    assert_string_equal(text, good);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct slice bytes = { (const uint8_t *)bad[i], strlen(bad[i]) };

        assert_int_equal(identity_parse(bytes, "D", &identity, &err), MORSEL_CORRUPT);
        assert_string_equal(err.text, "D/identity is damaged: restore the file from a backup");
        assert_int_equal(identity.node, 0);
    }
    text[3] = '\0'; /* A zero inside, and a file too long. */
    assert_int_equal(
        identity_parse((struct slice){ (const uint8_t *)text, strlen(good) }, "D", &identity, &err),
        MORSEL_CORRUPT);
    memset(text, 'f', sizeof(text));
    assert_int_equal(
        identity_parse((struct slice){ (const uint8_t *)text, sizeof(text) }, "D", &identity, &err),
        MORSEL_CORRUPT);
}

static void hex_is_read_as_written(void **state)
{
    uint8_t bytes[16], again[16];
    char text[33];

    (void)state;
    random_bytes(bytes, sizeof(bytes));
    hex16(bytes, text);
    assert_int_equal(strlen(text), 32);
    assert_true(hex16_parse(text, again));
    assert_memory_equal(bytes, again, sizeof(bytes));
    text[31] = 'x';
    assert_false(hex16_parse(text, again));
    text[31] = 0;
    assert_false(hex16_parse(text, again));
    assert_int_not_equal(boot_id(), 0);
    assert_int_equal(boot_id(), boot_id());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(remembers_who_it_is, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_counts_is_there_under_the_lock, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(tokens_differ, make_place, remove_place),
        cmocka_unit_test_setup_teardown(refuses_what_is_not_its_own, make_place, remove_place),
        cmocka_unit_test_setup_teardown(refuses_damage_and_newer_formats, make_place, remove_place),
        cmocka_unit_test_setup_teardown(format_1_is_taken_over, make_place, remove_place),
        cmocka_unit_test(identity_is_read_only_as_it_is_written),
        cmocka_unit_test(hex_is_read_as_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
