/* The benefactor in one process with a manager and a client that the test plays itself, all on one loop. */
#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/benefactor_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- Tests ---- */

static void it_joins_and_reports(void **state)
{
    struct bench b;
    char expected[ADDRESS_TEXT_MAX];

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    assert_int_equal(b.ready, 0); /* The cluster is not known yet. */
    bench_until(&b, &b.ready, 1);
    assert_int_equal(b.id_told, 0);
    assert_int_equal(b.benefactor.morsels.server.datadir.node, DONOR);
    assert_memory_equal(b.token, b.benefactor.morsels.server.datadir.token, sizeof(b.token));
    assert_true(b.donated == 1 << 20 && b.used == 0 && b.up_s > 0);
    assert_true(b.name[0] != 0);
    /* It listens everywhere: the address is the one from which the manager is reached. */
    snprintf(expected, sizeof(expected), "127.0.0.1%s",
             strrchr(rpc_server_address(b.benefactor.morsels.server.listener), ':'));
    assert_string_equal(b.address, expected);
    bench_until(&b, &b.reports, 3);
    assert_int_equal(b.joins, 1);
    bench_end(&b);
}

static void what_the_owner_says_of_addresses_is_told(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    snprintf(b.settings.advertise, sizeof(b.settings.advertise), "desk.example:7000");
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    assert_string_equal(b.address, "desk.example:7000");
    bench_end(&b);
}

static void it_is_the_same_one_behind_a_restart(void **state)
{
    struct bench b;
    uint64_t instance;
    uint8_t token[16];

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    bench_until(&b, &b.reports, 1);
    instance = b.instance;
    memcpy(token, b.token, sizeof(token));
    bench_end_benefactor(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    assert_int_equal(b.ready, 2); /* At once: the cluster is known. */
    bench_until(&b, &b.joins, 2);
    assert_int_equal(b.id_told, DONOR);
    assert_memory_equal(token, b.token, sizeof(token));
    assert_true(instance != b.instance);
    bench_end(&b);
}

static void a_manager_that_comes_back_hears_who_it_is(void **state)
{
    struct bench b;
    uint64_t instance;

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.reports, 1);
    instance = b.instance;
    bench_close(&b, &b.manager);
    bench_start_manager(&b, b.settings.manager);
    bench_until(&b, &b.joins, 2);
    assert_true(b.instance == instance && b.id_told == DONOR);
    b.reports = 0;
    bench_until(&b, &b.reports, 2);
    b.forget = true; /* It knows nobody by that number. */
    bench_until(&b, &b.joins, 3);
    assert_int_equal(b.failed, 0);
    bench_end(&b);
}

static void who_is_wanted_answers_at_once(void **state)
{
    Morsel__DonorWanted wanted = MORSEL__DONOR_WANTED__INIT;
    struct bench b;

    (void)state;
    bench_init(&b);
    b.report_ms = 3600000;
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.ready, 1);
    for (unsigned i = 1; i <= 3; i++) {
        assert_true(
            rpc_push(b.manager_server, ROLE_BENEFACTOR, DONOR, MSG_DONOR_WANTED, &wanted.base));
        bench_until(&b, &b.reports, i);
    }
    bench_end(&b);
}

static void one_that_is_busy_is_tried_again(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    b.refuse = 2;
    b.refuse_with = MORSEL_BUSY;
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    assert_int_equal(b.refusals, 2);
    assert_int_equal(b.failed, 0);
    bench_end(&b);
}

static void who_is_not_welcome_ends(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    b.refuse = 1000;
    b.refuse_with = MORSEL_INVAL;
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.failed, 1);
    assert_int_equal(b.refusals, 1);
    bench_end(&b);
}

static void another_cluster_is_refused(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    bench_until(&b, &b.reports, 1);
    bench_close(&b, &b.manager);
    memset(b.cluster.bytes, 0x43, sizeof(b.cluster.bytes));
    bench_start_manager(&b, b.settings.manager);
    bench_until(&b, &b.failed, 1);
    assert_int_equal(b.joins, 1);
    bench_end(&b);
}

static void it_says_that_it_leaves(void **state)
{
    struct bench b;
    uint64_t before;

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.reports, 1);
    benefactor_leave(&b.benefactor, bench_left);
    bench_until(&b, &b.left, 1);
    assert_int_equal(b.leaves, 1);
    bench_end_benefactor(&b);

    b.silent = true; /* One that does not answer is waited for, but not for long. */
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 2);
    bench_until(&b, &b.ready, 2);
    b.reports = 0;
    bench_until(&b, &b.reports, 1);
    before = uv_hrtime();
    benefactor_leave(&b.benefactor, bench_left);
    benefactor_leave(&b.benefactor, bench_left);
    bench_until(&b, &b.left, 2);
    assert_true(uv_hrtime() - before < UINT64_C(4) * JOINING_LEAVE_MS * 1000000);
    assert_int_equal(b.left, 2);
    bench_end(&b);
}

static void a_directory_that_is_deleted_ends_it(void **state)
{
    struct bench b;
    char command[128];

    (void)state;
    bench_init(&b);
    assert_int_equal(bench_start(&b, NULL), 0);
    bench_until(&b, &b.joins, 1);
    snprintf(command, sizeof(command), "rm -rf '%s/data'", b.dir);
    assert_int_equal(system(command), 0);
    bench_until(&b, &b.failed, 1);
    assert_true(b.benefactor.deleted);
    bench_end(&b);
}

static void requests_are_answered_or_refused(void **state)
{
    Morsel__Empty empty = MORSEL__EMPTY__INIT;
    struct bench *b = calloc(1, sizeof(*b));

    (void)state;
    CHECK(b != NULL);
    bench_init(b);
    assert_int_equal(bench_start(b, NULL), 0);
    bench_until(b, &b->joins, 1);
    bench_connect(b);
    assert_int_equal(bench_call(b, MSG_CLOCK, &empty.base), 0);
    assert_true(rpc_peer_start_id(b->peer) ==
                b->instance); /* Clients know the process by the same number. */
    assert_int_equal(bench_counter(b, "donated_bytes"), 1 << 20);
    assert_int_equal(bench_call(b, MSG_CLOCK, &empty.base), 0);
    assert_int_equal(bench_call(b, MSG_VOTE, &empty.base), MORSEL_UNKNOWN_TYPE);
    assert_string_equal(b->text, "a benefactor does not know this request");
    bench_end(b);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_joins_and_reports),
        cmocka_unit_test(what_the_owner_says_of_addresses_is_told),
        cmocka_unit_test(it_is_the_same_one_behind_a_restart),
        cmocka_unit_test(a_manager_that_comes_back_hears_who_it_is),
        cmocka_unit_test(who_is_wanted_answers_at_once),
        cmocka_unit_test(one_that_is_busy_is_tried_again),
        cmocka_unit_test(who_is_not_welcome_ends),
        cmocka_unit_test(another_cluster_is_refused),
        cmocka_unit_test(it_says_that_it_leaves),
        cmocka_unit_test(a_directory_that_is_deleted_ends_it),
        cmocka_unit_test(requests_are_answered_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
