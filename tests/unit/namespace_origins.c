/* Origins of data sets in the namespace: when a set with one is sealed, who may go on with it, and that it ends with its set. */
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "common/rpc/messages.h"
#include "tests/lib/ns_set_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int say_all(struct ns_fixture *f, client_id client, inode_id file, uint64_t set,
                   const struct origin *origin)
{
    struct meta_op op = { .kind = OP_SET_ORIGIN, .client = client };
    struct buf record;
    int rv;

    buf_init(&record);
    origin_encode(origin, &record);
    op.set_origin.inode = file;
    op.set_origin.set = set;
    op.set_origin.record = buf_slice(&record);
    rv = ns_fixture_run(f, &op);
    buf_free(&record);
    return rv;
}

static int say(struct ns_fixture *f, client_id client, inode_id file, uint64_t set, const char *url,
               uint64_t size)
{
    struct origin origin;

    origin_init(&origin);
    (void)snprintf(origin.url, sizeof(origin.url), "%s", url);
    origin.size = size;
    return say_all(f, client, file, set, &origin);
}

static void it_is_sealed_when_it_is_all_of_its_origin(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(say(f, CLIENT, file, file, "http://h/x", WHOLE), 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_ORIGINS);
    assert_int_equal(store(f, CLIENT, file, morsel(0, BYTES)), 0);
    assert_false(seals(f, CLIENT, file, BYTES));
    assert_int_equal(store(f, CLIENT, file, morsel(2, 100)), 0);
    assert_false(seals(f, CLIENT, file, WHOLE)); /* As long as it should be, with a hole. */
    assert_int_equal(store(f, CLIENT, file, morsel(1, BYTES)), 0);
    assert_false(seals(f, CLIENT, file, WHOLE + 1));
    close_fixture(f);
}

/* Older managers do not know such a URL. */
static void one_of_the_cluster_needs_its_version(void **state)
{
    struct origin origin;
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(say(f, CLIENT, file, file, "morsel://4711/a", WHOLE), 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_INSIDE);
    assert_int_equal(ns_origin(f->ns, file, &origin, &f->err), 0);
    assert_string_equal(origin.url, "morsel://4711/a");
    close_fixture(f);
}

static void it_is_sealed_then(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(say(f, CLIENT, file, file, "http://h/x", ORIGIN_SIZE_UNKNOWN), 0);
    assert_int_equal(store(f, CLIENT, file, morsel(0, 100)), 0);
    assert_false(seals(f, CLIENT, file, 100)); /* Who knows whether that is all. */
    assert_int_equal(say(f, CLIENT, file, file, "http://h/x", 100), 0);
    assert_int_equal(say(f, CLIENT, file, file, "http://h/x", 101), MORSEL_EXIST);
    assert_true(seals(f, CLIENT, file, 100));
    assert_int_equal(say(f, CLIENT, file, file, "http://h/x", 100), MORSEL_PERM);
    close_fixture(f);
}

static void who_says_it_again_goes_on(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(say(f, CLIENT, file, file + 1, "http://h/x", WHOLE), MORSEL_STALE);
    assert_int_equal(say(f, CLIENT, file, file, "http://h/x", WHOLE), 0);
    assert_int_equal(store(f, CLIENT, file, morsel(0, BYTES)), 0);
    assert_int_equal(say(f, OTHER, file, file, "http://h/y", WHOLE), MORSEL_EXIST);
    assert_int_equal(store(f, OTHER, file, morsel(1, BYTES)), MORSEL_PERM);
    assert_int_equal(say(f, OTHER, file, file, "http://h/x", WHOLE), 0);
    assert_int_equal(store(f, CLIENT, file, morsel(1, BYTES)), MORSEL_PERM); /* He is fenced. */
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(store(f, CLIENT, file, morsel(1, BYTES)), MORSEL_PERM);
    assert_int_equal(store(f, OTHER, file, morsel(1, BYTES)), 0);
    assert_int_equal(store(f, OTHER, file, morsel(2, 100)), 0);
    assert_true(seals(f, OTHER, file, WHOLE));
    close_fixture(f);
}

static void bytes_from_elsewhere_get_none(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(store(f, CLIENT, file, morsel(0, 100)), 0);
    assert_int_equal(say(f, CLIENT, file, file, "http://h/x", WHOLE), MORSEL_EXIST);
    close_fixture(f);
}

static void it_ends_with_its_set(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);
    struct meta_op op = { .kind = OP_SETATTR };
    struct origin origin;

    (void)state;
    assert_int_equal(say(f, CLIENT, file, file, "http://h/x", WHOLE), 0);
    assert_int_equal(store(f, CLIENT, file, morsel(0, BYTES)), 0);
    assert_int_equal(ns_origin(f->ns, file, &origin, &f->err), 0);
    assert_string_equal(origin.url, "http://h/x");
    op.setattr.inode = file;
    op.setattr.valid = SETATTR_SIZE;
    ns_must(f, op); /* To zero: it begins anew. */
    assert_int_equal(ns_origin(f->ns, file, &origin, &f->err), MORSEL_NOENT);
    assert_null(sets_find(ns_sets(f->ns), file));
    close_fixture(f);
}

static void what_is_missing_is_told_in_ranges(void **state)
{
    static const uint32_t stored[] = { 0, 1, 3, 4, 300, 301 }; /* Two pages. */
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);
    const struct data_set *set;
    struct set_range range;
    struct set_morsel m = morsel(4, BYTES);

    (void)state;
    for (size_t i = 0; i < sizeof(stored) / sizeof(stored[0]); i++) {
        assert_int_equal(store(f, CLIENT, file, morsel(stored[i], stored[i] == 301 ? 10 : BYTES)),
                         0);
    }
    m.rewriting = true;
    assert_int_equal(store(f, CLIENT, file, m), 0);
    set = sets_find(ns_sets(f->ns), file);
    assert_true(set_missing(set, BYTES, 0, 302 * (uint64_t)BYTES, &range));
    assert_true(range.offset == 2 * (uint64_t)BYTES && range.length == BYTES);
    assert_true(set_missing(set, BYTES, 3 * (uint64_t)BYTES, 302 * (uint64_t)BYTES, &range));
    assert_true(range.offset == 4 * (uint64_t)BYTES && range.length == 296 * (uint64_t)BYTES);
    assert_true(set_missing(set, BYTES, 300 * (uint64_t)BYTES, 302 * (uint64_t)BYTES, &range));
    assert_true(range.offset == 301 * (uint64_t)BYTES && range.length == BYTES);
    assert_false(
        set_missing(set, BYTES, 300 * (uint64_t)BYTES, 301 * (uint64_t)BYTES + 10, &range));
    assert_true(set_missing(NULL, BYTES, 0, 5, &range));
    assert_true(range.offset == 0 && range.length == 5);
    assert_false(set_missing(NULL, BYTES, 0, 0, &range));
    close_fixture(f);
}

static void what_mounts_fetch_again_may_go(void **state)
{
    static const struct
    {
        const char *url, *etag;
        int64_t modified_s;
        bool proven, may_go;
    } cases[] = { { "http://h/x", "\"a\"", ORIGIN_TIME_UNKNOWN, true, true },
                  { "https://h/x", "", 5, true, true },
                  { "https://h/x", "", 5, false,
                    false }, /* It takes somebody's password, perhaps, or gives no ranges. */
                  { "https://h/x", "W/\"a\"", ORIGIN_TIME_UNKNOWN, true, false },
                  { "http://h/x", "", ORIGIN_TIME_UNKNOWN, true,
                    false }, /* Who knows what it has then. */
                  { "ftp://h/x", "", 5, true, false },
                  { "sftp://h/x", "", 5, true, false },
                  { "file:///x", "", 5, true, false } };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        inode_id file;
        struct ns_fixture *f = open_fixture(&file);
        struct origin origin;
        const struct data_set *set;

        origin_init(&origin);
        (void)snprintf(origin.url, sizeof(origin.url), "%s", cases[i].url);
        (void)snprintf(origin.etag, sizeof(origin.etag), "%s", cases[i].etag);
        origin.modified_s = cases[i].modified_s;
        origin.proven = cases[i].proven;
        assert_int_equal(say_all(f, CLIENT, file, file, &origin),
                         0); /* How long it is, is not known yet. */
        assert_false(set_may_go(&sets_find(ns_sets(f->ns), file)->head));
        assert_int_equal(store(f, CLIENT, file, morsel(0, 100)), 0);
        origin.size = 100;
        assert_int_equal(say_all(f, CLIENT, file, file, &origin), 0);
        assert_true(seals(f, CLIENT, file, 100));
        assert_int_equal(ns_fixture_reopen(f), 0);
        set = sets_find(ns_sets(f->ns), file);
        assert_int_equal(set_may_go(&set->head), cases[i].may_go);
        assert_false(set->head.scratch);
        assert_int_equal(ns_super(f->ns)->store_version,
                         cases[i].may_go ? STORE_VERSION_FETCHED : STORE_VERSION_ORIGINS);
        close_fixture(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_sealed_when_it_is_all_of_its_origin),
        cmocka_unit_test(one_of_the_cluster_needs_its_version),
        cmocka_unit_test(it_is_sealed_then),
        cmocka_unit_test(who_says_it_again_goes_on),
        cmocka_unit_test(bytes_from_elsewhere_get_none),
        cmocka_unit_test(it_ends_with_its_set),
        cmocka_unit_test(what_is_missing_is_told_in_ranges),
        cmocka_unit_test(what_mounts_fetch_again_may_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
