#include "common/rpc/payload.h"

#include "common/base/limits.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void buffers_are_aligned_and_large_enough(void **state)
{
    struct payload_pool *pool = payload_pool_new(0);
    static const size_t sizes[] = { 0,
                                    1,
                                    4096,
                                    4097,
                                    8192,
                                    65536,
                                    1 << 20,
                                    (1 << 20) + 4096,
                                    (1 << 20) + 4097,
                                    4 << 20,
                                    (4 << 20) + 4096 };

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct payload *payload = payload_new(pool, sizes[i]);

        assert_non_null(payload);
        assert_int_equal((uintptr_t)payload->data % 4096, 0);
        assert_int_equal(payload->count, sizes[i]);
        assert_true(payload->capacity >= sizes[i]);
        assert_true(payload->capacity <= 2 * sizes[i] + 8192); /* No class wastes more than half. */
        memset(payload->data, 0x5a, payload->capacity);        /* The sanitizer looks on. */
        payload_drop(payload);
    }
    assert_null(payload_new(pool, (4 << 20) + 4097));
    assert_null(payload_new(pool, SIZE_MAX));
    payload_pool_free(pool);
}

static void a_mebibyte_with_a_head_takes_no_larger_class(void **state)
{
    struct payload_pool *pool = payload_pool_new(0);
    struct payload *payload = payload_new(pool, (1 << 20) + 4096);

    (void)state;
    assert_int_equal(payload->capacity, (1 << 20) + 4096);
    payload_drop(payload);
    payload_pool_free(pool);
}

static void the_last_reference_frees(void **state)
{
    struct payload_pool *pool = payload_pool_new(0);
    struct payload *payload = payload_new(pool, 100);

    (void)state;
    assert_ptr_equal(payload_ref(payload), payload);
    payload_drop(payload);
    assert_true(payload_pool_bytes(pool) > 0);
    payload->data[0] = 1; /* Still ours. */
    payload_drop(payload);
    assert_int_equal(payload_pool_bytes(pool), 0); /* Nothing may idle here. */
    payload_drop(NULL);
    payload_pool_free(pool);
}

static void an_idle_buffer_is_used_again(void **state)
{
    struct payload_pool *pool = payload_pool_new(64 << 20);
    struct payload *first = payload_new(pool, 1 << 20);
    uint8_t *data = first->data;
    struct payload *other;
    size_t bytes = payload_pool_bytes(pool);

    (void)state;
    payload_drop(first);
    assert_int_equal(payload_pool_bytes(pool), bytes);
    other = payload_new(pool, 4096); /* Another class: not this buffer. */
    assert_ptr_not_equal(other->data, data);
    first = payload_new(pool, (1 << 20) + 17);
    assert_ptr_equal(first->data, data);
    assert_int_equal(first->count, (1 << 20) + 17);
    assert_int_equal(first->references, 1);
    for (int i = 0; i < 200; i++) { /* More in sum than may idle at once. */
        payload_drop(first);
        first = payload_new(pool, 1 << 20);
        assert_ptr_equal(first->data, data);
    }
    payload_drop(first);
    payload_drop(other);
    payload_pool_free(pool);
}

static void idle_memory_stays_within_its_bound(void **state)
{
    enum { LIVE_MAX = 24, IDLE_BYTES_MAX = 3 << 20 };
    struct payload_pool *pool = payload_pool_new(IDLE_BYTES_MAX);
    struct payload *live[LIVE_MAX] = { NULL };
    size_t live_bytes = 0;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 9);
    for (int i = 0; i < 20000; i++) {
        uint64_t slot = prng_below(&prng, LIVE_MAX);

        if (live[slot] == NULL) {
            live[slot] = payload_new(pool, 1U << prng_below(&prng, 21));
            live[slot]->data[0] = (uint8_t)slot;
            live_bytes += live[slot]->capacity;
        } else {
            assert_int_equal(live[slot]->data[0], slot); /* Nobody else got this buffer. */
            live_bytes -= live[slot]->capacity;
            payload_drop(live[slot]);
            live[slot] = NULL;
        }
        assert_true(payload_pool_bytes(pool) >= live_bytes);
        assert_true(payload_pool_bytes(pool) <= live_bytes + IDLE_BYTES_MAX);
    }
    for (int i = 0; i < LIVE_MAX; i++) {
        payload_drop(live[i]);
    }
    assert_true(payload_pool_bytes(pool) <= IDLE_BYTES_MAX);
    payload_pool_free(pool);
    payload_pool_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_aligned_and_large_enough),
        cmocka_unit_test(a_mebibyte_with_a_head_takes_no_larger_class),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(an_idle_buffer_is_used_again),
        cmocka_unit_test(idle_memory_stays_within_its_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
