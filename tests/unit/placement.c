/* Placement: even, on live servers, away from full ones. */
#include "meta/cluster/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)

static void fill(struct placement_server *servers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        servers[i] = (struct placement_server){ 10 + i, true, 100 * GIB, 50 * GIB };
    }
}

static void first_columns_are_dealt_out_evenly(void **state)
{
    struct placement_server servers[4];
    server_id chosen[STRIPE_WIDTH_MAX];
    uint32_t first[4] = { 0 };

    (void)state;
    fill(servers, 4);
    for (inode_id inode = 100; inode < 500; inode++) {
        assert_int_equal(placement_choose(servers, 4, inode, 4, chosen), 4);
        first[chosen[0] - 10]++;
        for (uint32_t i = 0; i < 4; i++) {
            for (uint32_t j = 0; j < i; j++) {
                assert_int_not_equal(chosen[i], chosen[j]);
            }
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(first[i], 100);
    }
}

static void dead_and_full_servers_are_left_out(void **state)
{
    struct placement_server servers[4];
    server_id chosen[STRIPE_WIDTH_MAX];

    (void)state;
    fill(servers, 4);
    servers[1].live = false;
    servers[2].bytes_free = 10 << 20;
    for (inode_id inode = 1; inode < 20; inode++) {
        assert_int_equal(placement_choose(servers, 4, inode, 4, chosen), 2);
        assert_true(chosen[0] != 11 && chosen[0] != 12 && chosen[1] != 11 && chosen[1] != 12);
    }
}

static void when_all_are_full_the_live_ones_are_taken(void **state)
{
    struct placement_server servers[3];
    server_id chosen[STRIPE_WIDTH_MAX];

    (void)state;
    fill(servers, 3);
    for (int i = 0; i < 3; i++) {
        servers[i].bytes_free = 0;
    }
    servers[0].live = false;
    assert_int_equal(placement_choose(servers, 3, 7, 4, chosen), 2);
    servers[1].live = servers[2].live = false;
    assert_int_equal(placement_choose(servers, 3, 7, 4, chosen), 0);
    assert_int_equal(placement_choose(servers, 0, 7, 4, chosen), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_columns_are_dealt_out_evenly),
        cmocka_unit_test(dead_and_full_servers_are_left_out),
        cmocka_unit_test(when_all_are_full_the_live_ones_are_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
