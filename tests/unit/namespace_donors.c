/* Records of benefactors. */
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct donors_seen
{
    struct donor_record records[4];
    uint32_t count, max;
};

static int see_donor(void *data, const struct donor_record *record)
{
    struct donors_seen *seen = data;

    if (seen->count == seen->max) {
        return MORSEL_NOMEM;
    }
    seen->records[seen->count++] = *record;
    return 0;
}

static void put_donor_raw(struct ns_fixture *f, donor_id id, const void *bytes, size_t count)
{
    struct record_key key = key_donor(id);
    struct kv_batch batch;

    kv_batch_init(&batch);
    kv_batch_put(&batch, record_key_slice(&key), (struct slice){ bytes, count });
    assert_int_equal(f->kv->commit(f->kv, &batch, false, &f->err), 0);
    kv_batch_free(&batch);
}

/* An older program could not read the log with one in it. */
static void benefactors_are_kept_and_make_the_database_a_newer_one(void **state)
{
    static const uint8_t newer[] = { RECORD_VERSION + 1 };
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = { .kind = OP_DONOR };
    struct donors_seen seen = { .max = 4 };

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    assert_int_equal(ns_donors(f->ns, see_donor, &seen, &f->err), 0);
    assert_int_equal(ns_execute(f->ns, &op, &f->err), MORSEL_INVAL); /* None has number 0. */
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_FIRST);
    for (donor_id id = 300; id >= 100; id -= 100) {
        op.donor.id = id;
        memset(op.donor.token, (int)(id / 100), sizeof(op.donor.token));
        memcpy(op.donor.name, "desk", sizeof("desk"));
        assert_int_equal(ns_fixture_run(f, &op), 0);
    }
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_DONORS);
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_DONORS);
    assert_int_equal(ns_donors(f->ns, see_donor, &seen, &f->err), 0);
    assert_int_equal(seen.count, 3);
    assert_true(seen.records[0].id == 100 && seen.records[2].id == 300);
    assert_true(seen.records[1].token[15] == 2);
    assert_string_equal(seen.records[1].name, "desk");
    seen = (struct donors_seen){ .max = 2 };
    assert_int_equal(ns_donors(f->ns, see_donor, &seen, &f->err), MORSEL_NOMEM);
    put_donor_raw(f, 400, newer, sizeof(newer));
    seen = (struct donors_seen){ .max = 4 };
    assert_int_equal(ns_donors(f->ns, see_donor, &seen, &f->err), MORSEL_VERSION);
    assert_non_null(strstr(f->err.text, "use a newer morsel-meta"));
    put_donor_raw(f, 400, "x", 0);
    seen = (struct donors_seen){ .max = 4 };
    assert_int_equal(ns_donors(f->ns, see_donor, &seen, &f->err), MORSEL_CORRUPT);
    assert_non_null(strstr(f->err.text, "benefactor is damaged"));
    ns_fixture_close(f);
    free(f);
}

static int see_hours(void *data, const struct hours_record *record)
{
    uint32_t *sum = data;

    *sum += record->id * 1000 + record->share[3];
    return 0;
}

/* What is damaged is as if it were not there. */
static void hours_are_kept_as_far_as_they_can_be_read(void **state)
{
    static const uint8_t damaged[] = { 1, 2 };
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = { .kind = OP_DONOR_HOURS };
    struct record_key key = key_hours(9);
    struct kv_batch batch;
    uint32_t sum = 0;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    assert_int_equal(ns_execute(f->ns, &op, &f->err), MORSEL_INVAL);
    for (donor_id id = 1; id <= 3; id++) {
        op.hours.id = id;
        op.hours.share[3] = (uint8_t)(id + 10);
        assert_int_equal(ns_fixture_run(f, &op), 0);
    }
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_HOURS);
    kv_batch_init(&batch);
    kv_batch_put(&batch, record_key_slice(&key), (struct slice){ damaged, sizeof(damaged) });
    assert_int_equal(f->kv->commit(f->kv, &batch, false, &f->err), 0);
    kv_batch_free(&batch);
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(ns_hours(f->ns, see_hours, &sum, &f->err), 0);
    assert_int_equal(sum, 6036);
    ns_fixture_close(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hours_are_kept_as_far_as_they_can_be_read),
        cmocka_unit_test(benefactors_are_kept_and_make_the_database_a_newer_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
