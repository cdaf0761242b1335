/* Benefactors in the namespace: one is forgotten when no map names it, and its number stays taken, also behind a restart. */
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/cluster/hours.h"
#include "meta/datasets/sets.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BYTES = MORSEL_BYTES_DEFAULT };

static void join(struct ns_fixture *f, donor_id id)
{
    struct meta_op op = { .kind = OP_DONOR };

    op.donor.id = id;
    memset(op.donor.token, (int)id, sizeof(op.donor.token));
    assert_int_equal(ns_fixture_run(f, &op), 0);
}

static int forget(struct ns_fixture *f, donor_id id)
{
    struct meta_op op = { .kind = OP_DONOR_FORGET };

    op.donor_forget.donor = id;
    return ns_fixture_run(f, &op);
}

static int add(void *data, const struct donor_record *record)
{
    uint64_t *sum = data;

    *sum = *sum * 10 + record->id;
    return 0;
}

/* The numbers of those that are known, as digits; and the one below which none is given. */
static void knows(struct ns_fixture *f, uint64_t digits, donor_id floor)
{
    uint64_t sum = 0;
    donor_id next;

    assert_int_equal(ns_donors(f->ns, add, &sum, &f->err), 0);
    assert_int_equal(sum, digits);
    assert_int_equal(ns_donor_floor(f->ns, &next, &f->err), 0);
    assert_int_equal(next, floor);
}

static void a_number_stays_taken(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    for (donor_id id = 1; id <= 4; id++) {
        join(f, id);
    }
    knows(f, 1234, 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_DONORS);
    assert_int_equal(forget(f, 4), 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_LET_GO);
    knows(f, 123, 5);
    assert_int_equal(forget(f, 2), 0);
    assert_int_equal(forget(f, 2), MORSEL_NOENT);
    assert_int_equal(forget(f, 0), MORSEL_INVAL);
    assert_int_equal(ns_fixture_reopen(f), 0);
    knows(f, 13, 5);
    ns_fixture_close(f);
    free(f);
}

static void one_that_maps_name_is_not_forgotten(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op make = op_make(INODE_ROOT, "f", 0100644), store = { .kind = OP_SET_STORED };
    const struct set_morsel m = { .length = BYTES, .donor_count = 2, .donors = { 1, 2 } };
    struct buf list;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    join(f, 1);
    make.make.layout =
        (struct file_layout){ .class = CLASS_SCAVENGED, .replicas = 2, .stripe = { BYTES, 1, 4 } };
    ns_must(f, make);
    buf_init(&list);
    op_morsel_put(&list, &m);
    store.client = 7;
    store.set_stored.inode = store.set_stored.set = ns_counters(f->ns)->inode_next - 1;
    store.set_stored.size = BYTES;
    store.set_stored.morsels = buf_slice(&list);
    assert_int_equal(ns_fixture_run(f, &store), 0);
    buf_free(&list);
    assert_int_equal(forget(f, 1), MORSEL_INVAL);
    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    assert_int_equal(forget(f, 1), MORSEL_INVAL); /* It is to delete that, still. */
    knows(f, 1, 0);
    ns_fixture_close(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_stays_taken),
        cmocka_unit_test(one_that_maps_name_is_not_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
