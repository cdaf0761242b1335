/* How far the scrub is, on a server's disk: what is written comes back, and what is damaged does not. */
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "iod/scrub_kept_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture
{
    char dir[64], path[80];
    struct scrub s;
    bool found;
    struct scrub_position position;
    struct scrub_finding findings[SCRUB_FINDINGS_MAX];
    uint32_t count;
    struct errmsg err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));

    CHECK(f != NULL);
    (void)snprintf(f->dir, sizeof(f->dir), "/tmp/morsel-scrub-XXXXXX");
    CHECK(mkdtemp(f->dir) != NULL);
    (void)snprintf(f->path, sizeof(f->path), "%s/scrub", f->dir);
    f->s.position = (struct scrub_position){ .running = true,
                                             .began_s = 1700000000,
                                             .ended_s = 1690000000,
                                             .after = UINT64_C(0xfedcba9876543210),
                                             .object = { .inode = 77, .column = 0x503 },
                                             .offset = UINT64_C(7) << 40,
                                             .objects = 12,
                                             .bytes = UINT64_C(1) << 41 };
    for (uint32_t i = 0; i < SCRUB_FINDINGS_MAX; i++) {
        f->s.findings[i] = (struct scrub_finding){ .object = { .inode = i + 1, .column = i },
                                                   .start = (uint64_t)i * BLOCK_BYTES,
                                                   .end = (uint64_t)i * BLOCK_BYTES * 2,
                                                   .blocks = i,
                                                   .unreadable = i % 3 == 0,
                                                   .waits = i % 2 == 0,
                                                   .seen_s = 1700000000 - i };
    }
    f->s.findings_count = SCRUB_FINDINGS_MAX;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    (void)unlink(f->path);
    CHECK(rmdir(f->dir) == 0);
    free(f);
    return 0;
}

static int keep(struct fixture *f)
{
    struct buf bytes;
    int rv = MORSEL_MALFORMED;

    buf_init(&bytes);
    if (scrub_kept_fill(&f->s, &bytes)) {
        rv = scrub_kept_write(f->dir, &bytes, &f->err);
    }
    buf_free(&bytes);
    return rv;
}

static int get(struct fixture *f)
{
    return scrub_kept_read(f->dir, &f->found, &f->position, f->findings, &f->count, &f->err);
}

static void what_is_kept_comes_back(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(get(f), 0);
    assert_false(f->found);
    assert_int_equal(keep(f), 0);
    assert_int_equal(get(f), 0);
    assert_true(f->found);
    assert_true(f->position.running);
    assert_true(f->position.after == f->s.position.after);
    assert_int_equal(f->position.began_s, f->s.position.began_s);
    assert_int_equal(f->position.ended_s, f->s.position.ended_s);
    assert_int_equal(f->position.object.inode, 77);
    assert_int_equal(f->position.object.column, 0x503);
    assert_true(f->position.offset == f->s.position.offset);
    assert_int_equal(f->position.objects, 12);
    assert_true(f->position.bytes == f->s.position.bytes);
    assert_int_equal(f->count, SCRUB_FINDINGS_MAX);
    for (uint32_t i = 0; i < f->count; i++) {
        const struct scrub_finding *a = &f->findings[i], *b = &f->s.findings[i];

        assert_int_equal(a->object.inode, b->object.inode);
        assert_int_equal(a->object.column, b->object.column);
        assert_int_equal(a->start, b->start);
        assert_int_equal(a->end, b->end);
        assert_int_equal(a->blocks, b->blocks);
        assert_int_equal(a->unreadable, b->unreadable);
        assert_int_equal(a->waits, b->waits);
        assert_int_equal(a->seen_s, b->seen_s);
    }
}

/* Whichever byte is another one, and wherever it is cut off. */
static void what_is_damaged_does_not(void **state)
{
    struct fixture *f = *state;
    uint8_t bytes[8192];
    size_t count;
    FILE *file;

    assert_int_equal(keep(f), 0);
    file = fopen(f->path, "rb");
    count = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    assert_true(count > 100 && count < sizeof(bytes));
    for (size_t i = 0; i < count; i += 1 + count / 200) {
        bytes[i] ^= 0x20;
        file = fopen(f->path, "wb");
        assert_int_equal(fwrite(bytes, 1, count, file), count);
        assert_int_equal(fclose(file), 0);
        assert_int_not_equal(get(f), 0);
        assert_false(f->found);
        assert_non_null(strstr(f->err.text, "scrub"));
        bytes[i] ^= 0x20;
        assert_int_equal(truncate(f->path, (off_t)i), 0);
        assert_int_not_equal(get(f), 0);
        assert_false(f->found);
    }
}

/* What no server writes. */
static void what_makes_no_sense_is_not_kept(void **state)
{
    struct fixture *f = *state;

    f->s.position.offset = 5;
    assert_int_not_equal(keep(f), 0);
    f->s.position.offset = 0;
    f->s.findings[3].start = f->s.findings[3].end + BLOCK_BYTES;
    assert_int_not_equal(keep(f), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_kept_comes_back),
        TEST(what_is_damaged_does_not),
        TEST(what_makes_no_sense_is_not_kept),
    };

    return cmocka_run_group_tests_name("scrub_kept", tests, NULL, NULL);
}
