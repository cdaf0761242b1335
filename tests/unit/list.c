#include "common/base/list.h"

#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct item
{
    int number;
    struct list node;
};

enum { ITEMS = 12 };

static struct item *item_of(struct list *node)
{
    return LIST_ENTRY(node, struct item, node);
}

static void a_queue_keeps_the_order(void **state)
{
    struct item items[3] = { { .number = 0 }, { .number = 1 }, { .number = 2 } };
    struct list l;

    (void)state;
    list_init(&l);
    assert_true(list_empty(&l));
    assert_null(list_front(&l));
    assert_null(list_pop_front(&l));
    for (int i = 0; i < 3; i++) {
        list_init(&items[i].node);
        list_push_back(&l, &items[i].node);
    }
    assert_int_equal(item_of(list_front(&l))->number, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(item_of(list_pop_front(&l))->number, i);
    }
    assert_true(list_empty(&l));
}

static void removing_twice_is_harmless(void **state)
{
    struct item a = { .number = 1 }, b = { .number = 2 };
    struct list l;

    (void)state;
    list_init(&l);
    list_init(&a.node);
    list_init(&b.node);
    list_push_front(&l, &a.node);
    list_push_front(&l, &b.node);
    list_remove(&a.node);
    list_remove(&a.node);
    assert_true(list_empty(&a.node));
    assert_int_equal(item_of(list_front(&l))->number, 2);
    list_push_back(&l, &a.node);
    assert_int_equal(item_of(l.prev)->number, 1);
}

static void the_safe_walk_survives_removal(void **state)
{
    struct item items[ITEMS];
    struct list l;
    int seen = 0;

    (void)state;
    list_init(&l);
    for (int i = 0; i < ITEMS; i++) {
        items[i].number = i;
        list_init(&items[i].node);
        list_push_back(&l, &items[i].node);
    }
    LIST_FOREACH_SAFE(node, &l)
    {
        assert_int_equal(item_of(node)->number, seen);
        seen++;
        if (seen % 2 == 0) {
            list_remove(node);
            memset(node, 0, sizeof(*node)); /* Its memory may be gone by now. */
        }
    }
    assert_int_equal(seen, ITEMS);
    seen = 0;
    LIST_FOREACH(node, &l)
    {
        assert_int_equal(item_of(node)->number, 2 * seen);
        seen++;
    }
    assert_int_equal(seen, ITEMS / 2);
}

/* Random pushes and removals against an array. */
static void agrees_with_an_array(void **state)
{
    struct item items[ITEMS];
    int order[ITEMS];
    int count = 0;
    struct list l;
    struct prng prng;

    (void)state;
    prng_seed(&prng, 13);
    list_init(&l);
    for (int i = 0; i < ITEMS; i++) {
        items[i].number = i;
        list_init(&items[i].node);
    }
    for (int round = 0; round < 20000; round++) {
        int pick = (int)prng_below(&prng, ITEMS);
        int at = 0;

        while (at < count && order[at] != pick) {
            at++;
        }
        if (at < count) {
            list_remove(&items[pick].node);
            memmove(order + at, order + at + 1, sizeof(int) * (size_t)(count - at - 1));
            count--;
        } else if (prng_below(&prng, 2) == 0) {
            list_push_back(&l, &items[pick].node);
            order[count++] = pick;
        } else {
            list_push_front(&l, &items[pick].node);
            memmove(order + 1, order, sizeof(int) * (size_t)count);
            order[0] = pick;
            count++;
        }
        at = 0;
        LIST_FOREACH(node, &l)
        {
            assert_true(at < count);
            assert_int_equal(item_of(node)->number, order[at]);
            assert_ptr_equal(node->next->prev, node);
            at++;
        }
        assert_int_equal(at, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_keeps_the_order),
        cmocka_unit_test(removing_twice_is_harmless),
        cmocka_unit_test(the_safe_walk_survives_removal),
        cmocka_unit_test(agrees_with_an_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
