/* The voter set on a server's disk: what is written comes back, and nothing else does. */
#include "common/base/status.h"
#include "iod/voters_kept_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture
{
    char dir[64], path[80];
    Morsel__Voter voters[2], *pointers[2];
    Morsel__VoterSet told, *kept;
    struct buf bytes;
    struct errmsg err;
};

static int setup(void **state)
{
    struct fixture *f = test_calloc(1, sizeof(*f));

    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/morsel-voters-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof(f->path), "%s/voters", f->dir);
    morsel__voter_set__init(&f->told);
    f->told.mark = 77;
    f->told.version = 3;
    f->told.n_voters = 2;
    f->told.voters = f->pointers;
    for (uint32_t i = 0; i < 2; i++) {
        morsel__voter__init(&f->voters[i]);
        f->voters[i].id = 10 + i;
        f->voters[i].server = i;
        f->voters[i].address = (char *)(uintptr_t)(i == 0 ? "" : "192.0.2.1:7461");
        f->pointers[i] = &f->voters[i];
    }
    buf_init(&f->bytes);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    morsel__voter_set__free_unpacked(f->kept, NULL);
    buf_free(&f->bytes);
    (void)remove(f->path);
    (void)remove(f->dir);
    test_free(f);
    return 0;
}

static int read_again(struct fixture *f)
{
    morsel__voter_set__free_unpacked(f->kept, NULL);
    f->err.text[0] = '\0';
    return voters_kept_read(f->dir, &f->kept, &f->err);
}

static void keep(struct fixture *f)
{
    buf_clear(&f->bytes);
    assert_true(voters_kept_fill(&f->told, &f->bytes));
    assert_int_equal(voters_kept_write(f->dir, &f->bytes, &f->err), 0);
}

static void put_file(struct fixture *f, const void *bytes, size_t count)
{
    FILE *file = fopen(f->path, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void what_is_kept_comes_back(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(read_again(f), 0);
    assert_null(f->kept);
    keep(f);
    assert_int_equal(read_again(f), 0);
    assert_int_equal(f->kept->mark, 77);
    assert_int_equal(f->kept->n_voters, 2);
    assert_int_equal(f->kept->voters[1]->id, 11);
    assert_string_equal(f->kept->voters[1]->address, "192.0.2.1:7461");
    f->told.version = 4;
    keep(f);
    assert_int_equal(read_again(f), 0);
    assert_int_equal(f->kept->version, 4);
}

static void what_is_no_set_is_not_kept(void **state)
{
    struct fixture *f = *state;

    f->told.version = 0;
    assert_false(voters_kept_fill(&f->told, &f->bytes));
    f->told.version = 3;
    f->told.mark = 0;
    assert_false(voters_kept_fill(&f->told, &f->bytes));
    f->told.mark = 1;
    f->voters[1].id = 10;
    assert_false(voters_kept_fill(&f->told, &f->bytes));
    f->told.n_voters = 0;
    assert_false(voters_kept_fill(&f->told, &f->bytes));
}

static void damage_is_said(void **state)
{
    struct fixture *f = *state;

    keep(f);
    for (size_t cut = 0; cut < f->bytes.count; cut++) {
        put_file(f, f->bytes.data, cut);
        assert_int_equal(read_again(f), MORSEL_CORRUPT);
        assert_null(f->kept);
        assert_non_null(strstr(f->err.text, "is damaged"));
    }
    for (size_t at = 0; at < f->bytes.count; at++) {
        f->bytes.data[at] ^= 0x10;
        put_file(f, f->bytes.data, f->bytes.count);
        assert_int_equal(read_again(f), at >= 8 && at < 12 ? MORSEL_VERSION : MORSEL_CORRUPT);
        f->bytes.data[at] ^= 0x10;
    }
    keep(f); /* It is replaced whatever it was. */
    assert_int_equal(read_again(f), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_kept_comes_back),
        TEST(what_is_no_set_is_not_kept),
        TEST(damage_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
