/* An order of changes as tests ask it: member `me` of a set, in round 10 of epoch 1, object 5, client 1; what it shows is what is expected, or the
 * test fails. */
#ifndef MORSEL_TESTS_LIB_ORDER_ASKED_H
#define MORSEL_TESTS_LIB_ORDER_ASKED_H

#include "iod/replica/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { LATE_MS = 1000000 };

static inline struct order_change change_of(client_id client, op_sequence number, uint64_t start,
                                            uint64_t end)
{
    return (struct order_change){ .op = { client, number },
                                  .object = { 5, 0 },
                                  .generation = 1,
                                  .span = { start, end },
                                  .not_after_ms = LATE_MS };
}

/* All of the set join it at once. */
static inline void join_all(struct order *o, uint64_t epoch, uint64_t round, group_set set)
{
    order_join(o, epoch, round, set);
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        if ((set >> i & 1U) != 0) {
            (void)order_has_joined(o, i);
        }
    }
}

static inline void open_order(struct order *o, uint32_t me, group_set set)
{
    assert_true(order_init(o, me, 8, 64));
    join_all(o, 1, 10, set);
    order_check(o);
}

static inline enum order_verdict ask(struct order *o, op_sequence number, uint64_t start,
                                     uint64_t end, uint64_t token)
{
    struct order_change change = change_of(1, number, start, end);
    enum order_verdict verdict = order_request(o, &change, token);

    order_check(o);
    return verdict;
}

static inline struct order_action expect(struct order *o, enum order_action_type type,
                                         uint64_t token)
{
    struct order_action a = { .token = 0 };

    assert_true(order_next(o, 1, &a));
    order_check(o);
    assert_int_equal(a.type, type);
    assert_int_equal(a.token, token);
    return a;
}

static inline void expect_answer(struct order *o, uint64_t token, int status)
{
    struct order_action a = expect(o, ORDER_ANSWER, token);

    assert_int_equal(a.answer.status, status);
}

static inline void expect_nothing(struct order *o)
{
    struct order_action a;

    assert_false(order_next(o, 1, &a));
}

#endif
