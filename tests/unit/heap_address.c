/* The heap against a sorted search, and addresses. */
#include "common/base/heap.h"

#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/rpc/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { NODES = 300 };

static uint64_t smallest(const struct heap_node *nodes)
{
    uint64_t key = UINT64_MAX;

    for (int i = 0; i < NODES; i++) {
        if (nodes[i].place != 0 && nodes[i].key < key) {
            key = nodes[i].key;
        }
    }
    return key;
}

static void heap_agrees_with_a_search(void **state)
{
    static struct heap_node nodes[NODES];
    struct heap heap;
    struct prng prng;

    (void)state;
    memset(nodes, 0, sizeof(nodes));
    prng_seed(&prng, 7);
    heap_init(&heap);
    for (int turn = 0; turn < 20000; turn++) {
        struct heap_node *node = &nodes[prng_below(&prng, NODES)];

        if (prng_below(&prng, 3) == 0 && (node->place != 0 || heap_reserve(&heap, NODES))) {
            heap_move(&heap, node, prng_below(&prng, 1000));
        } else if (node->place != 0) {
            heap_remove(&heap, node);
            assert_int_equal(node->place, 0);
            heap_remove(&heap, node); /* Harmless. */
        } else {
            assert_true(heap_push(&heap, node, prng_below(&prng, 1000)));
        }
        if (heap_min(&heap) == NULL) {
            assert_int_equal(smallest(nodes), UINT64_MAX);
        } else {
            assert_int_equal(heap_min(&heap)->key, smallest(nodes));
        }
    }
    heap_free(&heap);
}

static void addresses_are_taken_apart(void **state)
{
    struct address a;

    (void)state;
    assert_int_equal(address_parse("node7.lab:7460", &a, NULL), 0);
    assert_string_equal(a.host, "node7.lab");
    assert_int_equal(a.port_number, 7460);
    assert_int_equal(address_parse("[2001:db8::1]:65535", &a, NULL), 0);
    assert_string_equal(a.host, "2001:db8::1");
    assert_int_equal(a.port_number, 65535);
}

static void bad_addresses_are_quoted(void **state)
{
    static const char *const bad[] = { "",           "host",    ":7460",   "host:",
                                       "host:65536", "host:-1", "host:7x", "::1:7460",
                                       "[::1]",      "[]:1",    "a b:1",   "host:000000001" };
    struct address a;
    struct errmsg err;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err.text[0] = '\0';
        assert_int_equal(address_parse(bad[i], &a, &err), MORSEL_INVAL);
        assert_non_null(strstr(err.text, bad[i]));
        assert_non_null(strstr(err.text, "HOST:PORT"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heap_agrees_with_a_search),
        cmocka_unit_test(addresses_are_taken_apart),
        cmocka_unit_test(bad_addresses_are_quoted),
    };

    return cmocka_run_group_tests_name("heap and addresses", tests, NULL, NULL);
}
