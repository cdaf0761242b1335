/* Rates from counters that were read twice. */
#include "client/admin/rates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct counter_list before, after;
static struct kind_table table;

static int setup(void **state)
{
    (void)state;
    before.count = after.count = table.count = 0;
    return 0;
}

static const struct kind_rates *kind(const char *where, const char *name)
{
    for (size_t i = 0; i < table.count; i++) {
        if (strcmp(table.items[i].where, where) == 0 && strcmp(table.items[i].name, name) == 0) {
            return &table.items[i];
        }
    }
    return NULL;
}

static void a_program(void **state)
{
    struct daemon_rates rates;

    (void)state;
    counters_add(&before, NULL, "cpu_ns", 1000000000);
    counters_add(&after, NULL, "cpu_ns", 2000000000);
    counters_add(&before, NULL, "bytes_in", 500);
    counters_add(&after, NULL, "bytes_in", 1500);
    counters_add(&after, NULL, "bytes_out", 300); /* Not counted before. */
    counters_add(&before, NULL, "resident_bytes", 99);
    counters_add(&after, NULL, "resident_bytes", 77);
    counters_add(&before, "read", "served", 10);
    counters_add(&after, "read", "served", 14);
    counters_add(&after, "write", "served", 6);
    rates_of_daemon(&before, &after, 2.0, &rates);
    assert_float_equal(rates.cpu_percent, 50, 0.01);
    assert_float_equal(rates.bytes_in, 500, 0.01);
    assert_float_equal(rates.bytes_out, 150, 0.01);
    assert_float_equal(rates.requests, 5, 0.01);
    assert_int_equal(rates.resident_bytes, 77);
}

static void a_program_that_was_started_again(void **state)
{
    struct daemon_rates rates;

    (void)state;
    counters_add(&before, "read", "served", 1000);
    counters_add(&after, "read", "served", 8);
    rates_of_daemon(&before, &after, 4.0, &rates);
    assert_float_equal(rates.requests, 2, 0.01);
}

static void kinds_of_all_servers_are_added_up(void **state)
{
    (void)state;
    counters_add(&before, "read", "served", 1);
    counters_add(&after, "read", "served", 3);
    counters_add(&after, "read", "served_ns", 700);
    counters_add(&after, "read", "queued_ns", 200);
    counters_add(&after, "read", "busy_ns", 400);
    counters_add(&after, "read", "served_bytes", 8192);
    counters_add(&after, "read", "failed", 1);
    counters_add(&after, "read", "called", 5);
    counters_add(&after, NULL, "bytes_in", 12345);
    rates_add_kinds(&table, "server", "asks", &before, &after);
    rates_add_kinds(&table, "server", "asks", &before, &after);
    assert_int_equal(table.count, 2);
    assert_int_equal(kind("server", "read")->count, 4);
    assert_int_equal(kind("server", "read")->ns, 1400);
    assert_int_equal(kind("server", "read")->queued_ns, 400);
    assert_int_equal(kind("server", "read")->busy_ns, 800);
    assert_int_equal(kind("server", "read")->bytes, 16384);
    assert_int_equal(kind("server", "read")->failed, 2);
    assert_int_equal(kind("asks", "read")->count, 10);
}

static void what_the_kernel_asks_a_mount(void **state)
{
    (void)state;
    counters_add(&after, "fuse.lookup", "served", 7);
    counters_add(&after, "fuse.lookup", "served_ns", 70);
    counters_add(&after, "lookup", "called", 2);
    counters_add(&after, "lookup", "called_ns", 90);
    counters_add(&before, "fuse.read", "served", 7);
    counters_add(&after, "fuse.read", "served", 7); /* Nothing happened. */
    rates_add_kinds(&table, "mount", "mount asks", &before, &after);
    rates_sort_kinds(&table);
    assert_int_equal(table.count, 2);
    assert_string_equal(table.items[0].where, "mount asks"); /* It took longer. */
    assert_int_equal(kind("mount", "lookup")->count, 7);
}

static void too_much_is_left_out(void **state)
{
    char name[64];

    (void)state;
    counters_add(&after, "a_kind_with_a_name_that_is_much_too_long_to_keep", "served", 1);
    for (unsigned i = 0; i < COUNTERS_MAX + 10; i++) {
        (void)snprintf(name, sizeof(name), "%u_kind_with_a_name_that_is_much_too_long", i);
        counters_add(&after, name, "served", 1);
    }
    assert_int_equal(after.count, COUNTERS_MAX);
    assert_int_equal(strlen(after.items[0].name), COUNTER_NAME_BYTES - 1);
    rates_add_kinds(&table, "server", "asks", &before, &after);
    assert_int_equal(table.count, KINDS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_program, setup),
        cmocka_unit_test_setup(a_program_that_was_started_again, setup),
        cmocka_unit_test_setup(kinds_of_all_servers_are_added_up, setup),
        cmocka_unit_test_setup(what_the_kernel_asks_a_mount, setup),
        cmocka_unit_test_setup(too_much_is_left_out, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
