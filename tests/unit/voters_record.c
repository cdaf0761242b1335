/* The record of the voter set: what is written comes back, and whatever else lies there is refused
 * with words. */
#include "meta/namespace/voters_record.h"
#include "common/base/status.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct kept
{
    struct voters_record record;
    struct voter_seats seats;
};

/* The manager and servers 1 and 2, and server 3 is to come. */
static void sample(struct kept *k)
{
    memset(k, 0, sizeof(*k));
    k->record.version_last = 9;
    k->record.set = (struct voter_set){ .version = 7, .count = 3, .ids = { 10, 20, 30 } };
    k->record.next = (struct voter_set){ .version = 8, .count = 4, .ids = { 10, 20, 25, 30 } };
    k->seats =
        (struct voter_seats){ .count = 4, .items = { { 10, 2 }, { 20, 0 }, { 25, 3 }, { 30, 1 } } };
}

static int again(const struct kept *from, struct kept *to)
{
    struct buf b;
    int rv;

    buf_init(&b);
    voters_record_encode(&from->record, &from->seats, &b);
    rv = voters_record_decode(buf_slice(&b), &to->record, &to->seats);
    buf_free(&b);
    return rv;
}

static void comes_back(void **state)
{
    struct kept k, back;

    (void)state;
    sample(&k);
    assert_int_equal(again(&k, &back), 0);
    assert_memory_equal(&k.record, &back.record, sizeof(k.record));
    assert_memory_equal(&k.seats, &back.seats, sizeof(k.seats));
    assert_int_equal(voter_seats_find(&back.seats, 25)->server, 3);
    assert_null(voter_seats_find(&back.seats, 26));
    k.record.next = (struct voter_set){ 0 };
    assert_int_equal(again(&k, &back), 0);
    assert_int_equal(back.record.next.version, 0);
    assert_int_equal(back.seats.count, 3);
}

static void refuse(const struct kept *k)
{
    struct kept back;

    assert_int_equal(again(k, &back), MORSEL_CORRUPT);
}

static void what_is_no_set_is_refused(void **state)
{
    struct kept k;

    (void)state;
    sample(&k);
    k.record.set.version = 0;
    refuse(&k);
    sample(&k);
    k.record.set.ids[1] = 10; /* Twice. */
    refuse(&k);
    sample(&k);
    k.record.set.count = 0;
    refuse(&k);
    sample(&k);
    k.record.version_last = 6; /* Below the one in effect. */
    k.record.next.version = 0;
    refuse(&k);
    sample(&k);
    k.record.next.version = 10; /* Above the last. */
    refuse(&k);
    sample(&k);
    k.record.next.version = 7; /* Not above the one in effect. */
    refuse(&k);
    sample(&k);
    k.record.version_last = VOTE_VERSION_END / 2; /* No room for another one. */
    refuse(&k);
}

static void changes_are_by_one(void **state)
{
    struct kept k, back;

    (void)state;
    sample(&k);
    k.record.next = (struct voter_set){ .version = 8, .count = 1, .ids = { 20 } };
    refuse(&k);
    k.record.next = (struct voter_set){ .version = 8, .count = 3, .ids = { 10, 20, 25 } };
    refuse(&k);
    k.record.next = (struct voter_set){ .version = 8, .count = 2, .ids = { 10, 25 } };
    refuse(&k);
    k.record.next = (struct voter_set){ .version = 8, .count = 2, .ids = { 10, 30 } };
    assert_int_equal(again(&k, &back), 0);
    k.record.next = (struct voter_set){ .version = 8, .count = 3, .ids = { 10, 20, 30 } };
    assert_int_equal(again(&k, &back), 0);
}

/* Each cut, and each byte changed: refused, or another sound record. */
static void damage_is_refused(void **state)
{
    struct kept k, back, third;
    struct buf b;

    (void)state;
    sample(&k);
    buf_init(&b);
    voters_record_encode(&k.record, &k.seats, &b);
    for (size_t cut = 0; cut < b.count; cut++) {
        assert_int_equal(
            voters_record_decode((struct slice){ b.data, cut }, &back.record, &back.seats),
            MORSEL_CORRUPT);
    }
    for (size_t at = 0; at < b.count; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            b.data[at] ^= (uint8_t)(1 << bit);
            if (voters_record_decode(buf_slice(&b), &back.record, &back.seats) == 0) {
                assert_int_equal(again(&back, &third), 0);
                assert_memory_equal(&back.record, &third.record, sizeof(back.record));
            }
            b.data[at] ^= (uint8_t)(1 << bit);
        }
    }
    b.data[0] = 2;
    assert_int_equal(voters_record_decode(buf_slice(&b), &back.record, &back.seats),
                     MORSEL_VERSION);
    b.data[0] = 1;
    buf_put_u8(&b, 0);
    assert_int_equal(voters_record_decode(buf_slice(&b), &back.record, &back.seats),
                     MORSEL_CORRUPT);
    buf_free(&b);
}

/* Two servers for one voter: in the set it is the one's, in the change the other's. */
static void a_voter_has_one_server(void **state)
{
    struct kept k, back;
    struct buf b;

    (void)state;
    sample(&k);
    buf_init(&b);
    voters_record_encode(&k.record, &k.seats, &b);
    b.data[b.count - 4] ^= 8; /* The server of the last voter. */
    assert_int_equal(voters_record_decode(buf_slice(&b), &back.record, &back.seats),
                     MORSEL_CORRUPT);
    buf_free(&b);
}

/* ---- In the store ---- */

static int execute(struct ns_fixture *f, struct slice record)
{
    struct meta_op op = { .kind = OP_VOTERS };

    op.voters.record = record;
    return ns_execute(f->ns, &op, &f->err);
}

static void the_store_keeps_the_newest(void **state)
{
    struct ns_fixture *f = *state;
    struct kept k, back;
    struct buf b;

    assert_int_equal(ns_voters(f->ns, &back.record, &back.seats, &f->err), MORSEL_NOENT);
    sample(&k);
    buf_init(&b);
    voters_record_encode(&k.record, &k.seats, &b);
    assert_int_equal(execute(f, buf_slice(&b)), 0);
    assert_int_equal(ns_voters(f->ns, &back.record, &back.seats, &f->err), 0);
    assert_memory_equal(&k.record, &back.record, sizeof(k.record));
    assert_int_equal(execute(f, (struct slice){ b.data, b.count - 1 }), MORSEL_INVAL);
    k.record.next.version = 0;
    buf_clear(&b);
    voters_record_encode(&k.record, &k.seats, &b);
    assert_int_equal(execute(f, buf_slice(&b)), 0);
    assert_int_equal(ns_voters(f->ns, &back.record, &back.seats, &f->err), 0);
    assert_int_equal(back.record.next.version, 0);
    buf_free(&b);
}

static void put_raw(struct ns_fixture *f, const void *bytes, size_t count)
{
    struct kv *kv = ns_kv(f->ns);
    struct record_key key = key_voters();
    struct kv_batch batch;

    kv_batch_init(&batch);
    kv_batch_put(&batch, record_key_slice(&key), (struct slice){ bytes, count });
    assert_int_equal(kv->commit(kv, &batch, false, &f->err), 0);
    kv_batch_free(&batch);
}

static void damage_in_the_store_is_said(void **state)
{
    struct ns_fixture *f = *state;
    struct kept back;

    put_raw(f, "\1nonsense", 9);
    assert_int_equal(ns_voters(f->ns, &back.record, &back.seats, &f->err), MORSEL_CORRUPT);
    assert_non_null(strstr(f->err.text, "voter set is damaged"));
    put_raw(f, "\2", 1);
    assert_int_equal(ns_voters(f->ns, &back.record, &back.seats, &f->err), MORSEL_VERSION);
    assert_non_null(strstr(f->err.text, "newer version"));
}

static int setup(void **state)
{
    struct ns_fixture *f = test_calloc(1, sizeof(*f));

    ns_fixture_open(f, 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    ns_fixture_close(*state);
    test_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(what_is_no_set_is_refused),
        cmocka_unit_test(changes_are_by_one),
        cmocka_unit_test(damage_is_refused),
        cmocka_unit_test(a_voter_has_one_server),
        cmocka_unit_test_setup_teardown(the_store_keeps_the_newest, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_in_the_store_is_said, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
