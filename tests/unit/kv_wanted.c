/* What is not in memory and must be loaded first: lists of it, and scans that come upon it
 * (src/meta/storage/kv.h), on the store in memory that says so at times. */
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/storage/kv.h"
#include "tests/lib/kv_forgetful.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RECORDS = 2000, TRIES_MAX = 1000 };

static struct slice key_of(char key[16], uint64_t number)
{
    (void)snprintf(key, 16, "k%08u", (unsigned)number);
    return (struct slice){ (uint8_t *)key, strlen(key) };
}

static void change(struct kv *kv, uint64_t number, bool put)
{
    struct kv_batch batch;
    char key[16];

    kv_batch_init(&batch);
    if (put) {
        kv_batch_put(&batch, key_of(key, number), key_of(key, number));
    } else {
        kv_batch_delete(&batch, key_of(key, number));
    }
    assert_int_equal(kv->commit(kv, &batch, false, NULL), 0);
    kv_batch_free(&batch);
}

struct visited
{
    struct buf keys;
    uint32_t count, count_max;
};

static bool visit(void *data, struct slice key, struct slice value)
{
    struct visited *v = data;

    (void)value;
    buf_put_blob(&v->keys, key.data, key.count);
    return ++v->count < v->count_max;
}

/* As it would be without haste, and again and again with it; things change meanwhile. How many tries. */
static unsigned scan_both(struct kv *kv, struct kv_wanted *wanted, struct prng *prng)
{
    struct visited expected = { .count_max = 1 + (uint32_t)prng_below(prng, RECORDS) };
    struct visited got = { .count_max = expected.count_max };
    unsigned tries = 0;
    char key[16];
    struct slice from = key_of(key, prng_below(prng, RECORDS));
    int rv;

    buf_init(&expected.keys);
    buf_init(&got.keys);
    do {
        kv_wanted_clear(wanted);
        wanted->tries = tries;
        got.count = 0;
        buf_clear(&got.keys);
        kv->wanted = wanted;
        rv = kv->scan(kv, from, visit, &got, NULL);
        kv->wanted = NULL;
        if (rv == MORSEL_AGAIN) {
            assert_int_equal(wanted->count, 1);
            kv->load(kv, wanted);
            change(kv, prng_below(prng, RECORDS), prng_below(prng, 2) == 0);
        }
        assert_true(++tries < TRIES_MAX);
    } while (rv == MORSEL_AGAIN);
    assert_int_equal(rv, 0);
    assert_int_equal(kv->scan(kv, from, visit, &expected, NULL), 0);
    assert_int_equal(got.count, expected.count);
    assert_int_equal(got.keys.count, expected.keys.count);
    if (got.keys.count > 0) {
        assert_memory_equal(got.keys.data, expected.keys.data, got.keys.count);
    }
    buf_free(&expected.keys);
    buf_free(&got.keys);
    return tries;
}

static void a_scan_in_haste_sees_the_same(void **state)
{
    uint64_t seed = test_seed_first();
    struct kv_wanted wanted;
    unsigned tries = 0;
    struct prng prng;
    struct kv *kv;

    (void)state;
    prng_seed(&prng, seed);
    kv = kv_forgetful_open(&prng);
    assert_non_null(kv);
    kv_wanted_init(&wanted);
    for (uint32_t i = 0; i < RECORDS; i++) {
        change(kv, prng_below(&prng, RECORDS), true);
    }
    for (unsigned round = 0; round < 100; round++) {
        kv_forgetful_cold(kv, 3);
        tries += scan_both(kv, &wanted, &prng);
    }
    assert_in_range(tries, 200, 1000); /* They had to wait, and not for each of their records. */
    kv_forgetful_cold(kv, 0);
    assert_int_equal(scan_both(kv, &wanted, &prng), 1);
    kv_wanted_free(&wanted);
    kv->close(kv);
}

static void what_is_wanted_can_be_walked_and_is_bounded(void **state)
{
    struct kv_wanted wanted;
    struct kv kv = { .wanted = &wanted };
    uint32_t records = 0, count = 0;
    size_t offset = 0;
    struct slice key;
    char text[16];

    (void)state;
    kv_wanted_init(&wanted);
    assert_false(kv_wants(&kv));
    for (uint32_t i = 0; i < KV_WANTED_MAX + 10; i++) {
        assert_int_equal(kv_wants_enough(&kv), i >= KV_WANTED_MAX);
        assert_int_equal(kv_want(&kv, key_of(text, i)), MORSEL_AGAIN);
        assert_true(kv_wants(&kv));
    }
    while (kv_wanted_next(&wanted, &offset, &key, &records)) {
        assert_int_equal(slice_compare(key, key_of(text, count)), 0);
        assert_int_equal(records, 0);
        count++;
    }
    assert_int_equal(count, KV_WANTED_MAX);
    kv_wanted_clear(&wanted);
    assert_false(kv_wants(&kv));
    kv.wanted = NULL;
    assert_false(kv_wants(&kv));
    kv_wanted_free(&wanted);
}

static uint32_t records_wanted(unsigned tries, uint32_t visited)
{
    struct kv_wanted wanted;
    struct kv kv = { .wanted = &wanted };
    uint32_t records = 0;
    size_t offset = 0;
    struct slice key;
    char text[16];

    kv_wanted_init(&wanted);
    wanted.tries = tries;
    assert_int_equal(kv_want_range(&kv, key_of(text, 5), visited), MORSEL_AGAIN);
    assert_true(kv_wanted_next(&wanted, &offset, &key, &records));
    assert_int_equal(slice_compare(key, key_of(text, 5)), 0);
    kv_wanted_free(&wanted);
    return records;
}

/* It begins where the scan did, and goes on behind what was there: further with each try. */
static void more_of_a_range_is_wanted_with_each_try(void **state)
{
    (void)state;
    assert_int_equal(records_wanted(0, 0), KV_RANGE_RECORDS);
    assert_int_equal(records_wanted(0, 7), 7 + KV_RANGE_RECORDS);
    assert_int_equal(records_wanted(1, 7), 7 + KV_RANGE_RECORDS * KV_RANGE_GROWS);
    assert_int_equal(records_wanted(99, 7), 7 + KV_RANGE_RECORDS_MAX);
    assert_true(records_wanted(0, UINT32_MAX - 1) == UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_wanted_can_be_walked_and_is_bounded),
        cmocka_unit_test(more_of_a_range_is_wanted_with_each_try),
        cmocka_unit_test(a_scan_in_haste_sees_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
