/* Reservations of data sets in the namespace: when a set that was reserved is sealed, who may go on with it, and what ends it. */
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "common/rpc/messages.h"
#include "tests/lib/ns_set_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int reserve(struct ns_fixture *f, client_id client, inode_id file, uint64_t size)
{
    struct meta_op op = { .kind = OP_SET_RESERVE, .client = client };

    op.set_reserve.inode = op.set_reserve.set = file;
    op.set_reserve.size = size;
    return ns_fixture_run(f, &op);
}

static uint64_t reserved(struct ns_fixture *f, inode_id file)
{
    const struct data_set *set = sets_find(ns_sets(f->ns), file);

    return set != NULL ? set->head.reserved : 0;
}

static void it_is_sealed_when_all_of_it_is_there(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(reserve(f, CLIENT, file, WHOLE), 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_RESERVED);
    assert_false(seals(f, CLIENT, file, 0));
    assert_int_equal(store(f, CLIENT, file, morsel(0, BYTES)), 0);
    assert_false(seals(f, CLIENT, file, BYTES));
    assert_int_equal(store(f, CLIENT, file, morsel(2, 100)), 0);
    assert_false(seals(f, CLIENT, file, WHOLE)); /* As long as it should be, with a hole. */
    assert_int_equal(store(f, CLIENT, file, morsel(1, BYTES)), 0);
    assert_true(seals(f, CLIENT, file, WHOLE));
    assert_int_equal(reserved(f, file), 0);
    assert_int_equal(reserve(f, CLIENT, file, WHOLE), MORSEL_PERM);
    close_fixture(f);
}

static void what_is_longer_is_not_sealed(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(reserve(f, CLIENT, file, 100), 0);
    assert_int_equal(store(f, CLIENT, file, morsel(0, 101)), 0);
    assert_false(seals(f, CLIENT, file, 101));
    close_fixture(f);
}

static void who_says_it_again_goes_on(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(reserve(f, CLIENT, file, WHOLE), 0);
    assert_int_equal(store(f, CLIENT, file, morsel(0, BYTES)), 0);
    assert_int_equal(reserve(f, OTHER, file, WHOLE + 1), MORSEL_EXIST);
    assert_int_equal(store(f, OTHER, file, morsel(1, BYTES)), MORSEL_PERM);
    assert_int_equal(reserve(f, OTHER, file, WHOLE), 0);
    assert_int_equal(store(f, CLIENT, file, morsel(1, BYTES)), MORSEL_PERM); /* He is fenced. */
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_true(reserved(f, file) == WHOLE);
    assert_int_equal(store(f, OTHER, file, morsel(1, BYTES)), 0);
    assert_int_equal(store(f, OTHER, file, morsel(2, 100)), 0);
    assert_true(seals(f, OTHER, file, WHOLE));
    close_fixture(f);
}

static void what_has_bytes_of_something_else_is_not_reserved(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);

    (void)state;
    assert_int_equal(reserve(f, CLIENT, file, 0), MORSEL_INVAL);
    assert_int_equal(reserve(f, CLIENT, file, (uint64_t)INT64_MAX + 1), MORSEL_FBIG);
    assert_int_equal(reserve(f, CLIENT, file, (uint64_t)BYTES * SET_MORSELS_MAX + 1), MORSEL_FBIG);
    assert_int_equal(reserve(f, CLIENT, file, (uint64_t)BYTES * SET_MORSELS_MAX), 0);
    assert_int_equal(reserve(f, CLIENT, file, 7), 0); /* Nothing is there: as he likes. */
    assert_int_equal(store(f, CLIENT, file, morsel(0, 3)), 0);
    assert_int_equal(reserve(f, CLIENT, file, 8), MORSEL_EXIST);
    close_fixture(f);
}

/* It ends with its set; or an origin tells the size. */
static void a_reservation_ends(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file);
    struct meta_op op = { .kind = OP_SETATTR }, origin_op = { .kind = OP_SET_ORIGIN };
    struct origin origin;
    struct buf record;

    (void)state;
    assert_int_equal(reserve(f, CLIENT, file, WHOLE), 0);
    origin_init(&origin);
    memcpy(origin.url, "http://h/x", sizeof("http://h/x"));
    buf_init(&record);
    origin_encode(&origin, &record);
    origin_op.client = CLIENT;
    origin_op.set_origin.inode = origin_op.set_origin.set = file;
    origin_op.set_origin.record = buf_slice(&record);
    assert_int_equal(ns_fixture_run(f, &origin_op), 0);
    assert_int_equal(reserved(f, file), 0);
    assert_int_equal(reserve(f, CLIENT, file, WHOLE), MORSEL_EXIST);
    buf_free(&record);
    op.setattr.inode = file;
    op.setattr.valid = SETATTR_SIZE;
    ns_must(f, op); /* To zero: it begins anew. */
    assert_null(sets_find(ns_sets(f->ns), file));
    close_fixture(f);
}

/* As a record: every part of it is needed, and no value is believed that cannot be. */
static void it_is_kept_in_the_head(void **state)
{
    struct set_head head = {
        .number = 5, .inode = 6, .copies = 2, .morsel_bytes = 65536, .reserved = 1234
    };
    struct set_head read;
    struct buf bytes;

    (void)state;
    buf_init(&bytes);
    for (int scratch = 0; scratch < 2; scratch++) {
        head.scratch = scratch != 0;
        buf_clear(&bytes);
        set_head_encode(&head, &bytes);
        assert_int_equal(set_head_decode(5, buf_slice(&bytes), &read), 0);
        assert_true(read.reserved == 1234 && read.scratch == head.scratch);
        for (size_t i = 0; i < bytes.count; i++) {
            assert_int_not_equal(set_head_decode(5, (struct slice){ bytes.data, i }, &read), 0);
        }
        memset(bytes.data + bytes.count - 8, 0, 8);
        assert_int_equal(set_head_decode(5, buf_slice(&bytes), &read), MORSEL_CORRUPT);
    }
    buf_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_sealed_when_all_of_it_is_there),
        cmocka_unit_test(what_is_longer_is_not_sealed),
        cmocka_unit_test(who_says_it_again_goes_on),
        cmocka_unit_test(what_has_bytes_of_something_else_is_not_reserved),
        cmocka_unit_test(a_reservation_ends),
        cmocka_unit_test(it_is_kept_in_the_head),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
