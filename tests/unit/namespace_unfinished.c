/* A data set that nobody goes on with, in the namespace: what is let go, what never is, and that it is all the same behind a restart. */
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "common/rpc/messages.h"
#include "meta/datasets/sets.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CLIENT = 7, OTHER = 8, BYTES = MORSEL_BYTES_DEFAULT, WASTE_ROOM = 10 };

static struct ns_fixture *open_fixture(inode_id *file, bool scratch)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = op_make(INODE_ROOT, "f", 0100644);

    assert_non_null(f);
    ns_fixture_open(f, 1);
    op.make.layout = (struct file_layout){
        .class = CLASS_SCAVENGED, .replicas = 2, .scratch = scratch, .stripe = { BYTES, 1, 4 }
    };
    ns_must(f, op);
    *file = ns_counters(f->ns)->inode_next - 1;
    return f;
}

static void close_fixture(struct ns_fixture *f)
{
    assert_int_equal(ns_fixture_reopen(f), 0); /* The store has the same. */
    sets_check(ns_sets(f->ns));
    ns_fixture_close(f);
    free(f);
}

static uint64_t set_of(struct ns_fixture *f, inode_id file)
{
    struct inode inode = ns_must_inode(f, file);

    return inode_body(&inode);
}

static const struct data_set *data_of(struct ns_fixture *f, inode_id file)
{
    return sets_find(ns_sets(f->ns), set_of(f, file));
}

static int let_go(struct ns_fixture *f, uint64_t set)
{
    struct meta_op op = { .kind = OP_SET_LET_GO };

    op.set_let_go.set = set;
    return ns_fixture_run(f, &op);
}

static int reserve(struct ns_fixture *f, inode_id file, uint64_t size)
{
    struct meta_op op = { .kind = OP_SET_RESERVE, .client = CLIENT };

    op.set_reserve.inode = file;
    op.set_reserve.set = set_of(f, file);
    op.set_reserve.size = size;
    return ns_fixture_run(f, &op);
}

static int stage(struct ns_fixture *f, client_id client, inode_id file)
{
    struct meta_op op = { .kind = OP_SET_ORIGIN, .client = client };
    struct origin origin;
    struct buf record;
    int rv;

    origin_init(&origin);
    (void)snprintf(origin.url, sizeof(origin.url), "http://h/x");
    origin.size = 2 * (uint64_t)BYTES;
    buf_init(&record);
    origin_encode(&origin, &record);
    op.set_origin.inode = file;
    op.set_origin.set = set_of(f, file);
    op.set_origin.record = buf_slice(&record);
    rv = ns_fixture_run(f, &op);
    buf_free(&record);
    return rv;
}

static void store(struct ns_fixture *f, client_id client, inode_id file, uint32_t number)
{
    const struct set_morsel m = {
        .number = number, .length = BYTES, .donor_count = 2, .donors = { 1, 2 }
    };
    struct meta_op op = { .kind = OP_SET_STORED, .client = client };
    struct buf list;

    buf_init(&list);
    op_morsel_put(&list, &m);
    op.set_stored.inode = file;
    op.set_stored.set = set_of(f, file);
    op.set_stored.size = (number + 1) * (uint64_t)BYTES;
    op.set_stored.morsels = buf_slice(&list);
    assert_int_equal(ns_fixture_run(f, &op), 0);
    buf_free(&list);
}

static bool seals(struct ns_fixture *f, client_id client, inode_id file)
{
    struct meta_op op = { .kind = OP_SET_SEAL, .client = client };

    op.set_seal.inode = file;
    op.set_seal.set = set_of(f, file);
    assert_int_equal(ns_fixture_run(f, &op), 0);
    return data_of(f, file)->head.sealed;
}

/* All of the set is to be deleted on both, and nothing else. */
static void is_waste(struct ns_fixture *f, uint64_t set)
{
    for (donor_id donor = 1; donor <= 2; donor++) {
        struct op_run runs[WASTE_ROOM];
        uint32_t count;

        assert_int_equal(ns_waste(f->ns, donor, runs, WASTE_ROOM, &count, &f->err), 0);
        assert_int_equal(count, 1);
        assert_int_equal(runs[0].set, set);
        assert_int_equal(runs[0].count, UINT32_MAX);
    }
}

static void is_empty(struct ns_fixture *f, inode_id file, uint64_t set_before)
{
    assert_int_equal(ns_must_inode(f, file).size, 0);
    assert_int_not_equal(set_of(f, file), set_before);
    assert_null(sets_find(ns_sets(f->ns), set_before));
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_LET_GO);
}

static void a_reservation_is_taken_back(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file, false);
    uint64_t set = set_of(f, file);

    (void)state;
    assert_int_equal(let_go(f, set), MORSEL_NODATA); /* There is none yet. */
    assert_int_equal(reserve(f, file, 100), 0);
    assert_int_equal(let_go(f, set), 0);
    is_empty(f, file, set);
    assert_null(data_of(f, file));
    assert_int_equal(reserve(f, file, 200), 0);
    close_fixture(f);
}

static void what_was_staged_keeps_its_origin(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file, false);
    uint64_t set = set_of(f, file);
    struct origin origin;

    (void)state;
    assert_int_equal(stage(f, CLIENT, file), 0);
    store(f, CLIENT, file, 0);
    assert_int_equal(let_go(f, set), 0);
    is_empty(f, file, set);
    is_waste(f, set);
    assert_int_equal(ns_origin(f->ns, set, &origin, &f->err), MORSEL_NOENT);
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_true(data_of(f, file)->head.has_origin);
    assert_int_equal(ns_origin(f->ns, set_of(f, file), &origin, &f->err), 0);
    assert_string_equal(origin.url, "http://h/x");
    assert_int_equal(let_go(f, set_of(f, file)), MORSEL_INVAL); /* There is nothing more to go. */
    assert_int_equal(stage(f, OTHER, file), 0);
    store(f, OTHER, file, 0);
    assert_false(seals(f, OTHER, file));
    store(f, OTHER, file, 1);
    assert_true(seals(f, OTHER, file));
    assert_int_equal(let_go(f, set_of(f, file)), MORSEL_INVAL);
    close_fixture(f);
}

static void what_is_scratch_is_emptied(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file, true);
    uint64_t set = set_of(f, file);

    (void)state;
    store(f, CLIENT, file, 0);
    assert_int_equal(let_go(f, set), 0);
    is_empty(f, file, set);
    is_waste(f, set);
    store(f, OTHER, file, 0);
    assert_true(seals(f, OTHER, file));
    close_fixture(f);
}

static void data_is_never_let_go(void **state)
{
    inode_id file;
    struct ns_fixture *f = open_fixture(&file, false);
    uint64_t set = set_of(f, file);

    (void)state;
    assert_int_equal(reserve(f, file, 2 * (uint64_t)BYTES), 0);
    store(f, CLIENT, file, 0);
    assert_int_equal(let_go(f, set), MORSEL_INVAL);
    assert_int_equal(data_of(f, file)->morsels, 1);
    assert_int_equal(ns_must_inode(f, file).size, BYTES);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reservation_is_taken_back),
        cmocka_unit_test(what_was_staged_keeps_its_origin),
        cmocka_unit_test(what_is_scratch_is_emptied),
        cmocka_unit_test(data_is_never_let_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
