/* The holder of a lease stops first: the client's count of its lease period
 * (src/client/coherence/lease_holder.c) beside the manager's (src/meta/coherence/lease_step.c), on
 * clocks that drift against each other as far as the margin allows, with questions and answers that
 * are late or lost. docs/leases.md says why that is safe.
 */
#include "client/coherence/lease_holder.h"
#include "common/base/prng.h"
#include "meta/coherence/lease.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    HOLDER = 101,
    FILE_1 = 11,
    QUESTIONS = 8,
    PER_MILLE = 1000,
    STEPS = 500,
    NS_PER_MS = 1000000
};

struct question
{
    enum { NOT_ASKED, ASKED, HEARD } state;
    bool join;
    uint64_t sent_ns; /* On the client's clock. */
    uint64_t due_ms;  /* On nobody's clock, as all that is not said to be on one. */
};

struct history
{
    struct prng prng;
    struct lease_table *manager;
    struct lease_holder client;
    uint32_t lease_period_ms;
    uint64_t now_ms, client_rate, manager_rate;
    uint64_t asks_due_ms, silent_from_ms;
    uint64_t answered_ns; /* The youngest question with an answer, on the client's clock. */
    struct question questions[QUESTIONS];
    unsigned valid, expired;
};

static uint64_t client_ns(const struct history *h)
{
    return h->now_ms * h->client_rate * (NS_PER_MS / PER_MILLE);
}

static uint64_t manager_ms(const struct history *h)
{
    return h->now_ms * h->manager_rate / PER_MILLE;
}

/* Its disk is quick. */
static void feed(struct history *h, struct lease_event event)
{
    struct lease_actions out;

    lease_actions_init(&out);
    event.now_ms = manager_ms(h);
    lease_step(h->manager, &event, &out);
    for (size_t i = 0; i < out.count; i++) {
        struct lease_event next = { .client = out.items[i].client,
                                    .lease_epoch = out.items[i].lease_epoch };

        if (out.items[i].type == LEASE_PERSIST || out.items[i].type == LEASE_FORGET) {
            next.type = out.items[i].type == LEASE_PERSIST ? LEASE_PERSISTED : LEASE_FORGOTTEN;
            feed(h, next);
        }
    }
    lease_actions_free(&out);
}

static bool is_held(const struct history *h)
{
    return lease_held_by(h->manager, HOLDER, FILE_1) == LEASE_W;
}

static void ask(struct history *h, bool join)
{
    for (unsigned i = 0; i < QUESTIONS; i++) {
        struct question *q = &h->questions[i];

        if (q->state == NOT_ASKED) {
            q->state = ASKED;
            q->join = join;
            q->sent_ns = client_ns(h);
            q->due_ms = h->now_ms + prng_below(&h->prng, prng_below(&h->prng, 4) == 0
                                                             ? h->lease_period_ms / 2
                                                             : h->lease_period_ms / STEPS + 1);
            return;
        }
    }
}

static void arrives(struct history *h, struct question *q)
{
    if (q->join) {
        feed(h, (struct lease_event){
                    .type = LEASE_JOIN, .client = HOLDER, .number = 1, .caches = true });
        assert_int_equal(
            lease_grant(h->manager, manager_ms(h), HOLDER, FILE_1, LEASE_W, true, false, false),
            LEASE_W);
    } else if (prng_below(&h->prng, 8) == 0 || !lease_heard(h->manager, HOLDER, manager_ms(h))) {
        q->state = NOT_ASKED; /* Lost, or refused. */
        return;
    }
    q->state = HEARD;
    q->due_ms = h->now_ms + prng_below(&h->prng, h->lease_period_ms / 4);
}

static void tell(struct history *h, struct lease_holder_event event)
{
    struct lease_holder_actions out = { .count = 0 };

    event.now_ns = client_ns(h);
    event.now_ms = event.now_ns / NS_PER_MS;
    lease_holder_step(&h->client, &event, &out);
    assert_int_equal(out.count, 0);
}

static void is_answered(struct history *h, struct question *q)
{
    q->state = NOT_ASKED;
    if (q->join) {
        tell(h, (struct lease_holder_event){ .type = HOLDER_ASKED, .join = true });
        tell(h, (struct lease_holder_event){ .type = HOLDER_SESSION_ANSWERED,
                                             .join = true,
                                             .lease_epoch = 1,
                                             .lease_ms = lease_period_ms(h->manager, HOLDER),
                                             .sent_ns = q->sent_ns });
    } else {
        lease_holder_answered(&h->client, q->sent_ns, client_ns(h) / NS_PER_MS);
    }
    h->answered_ns = q->sent_ns > h->answered_ns ? q->sent_ns : h->answered_ns;
}

/* Whatever time it is: what the client takes for its own, the manager gives to nobody else; and the
 * client uses what it has, but for the margin. */
static void check(struct history *h)
{
    bool valid = lease_holder_left_ns(&h->client, client_ns(h)) > 0;
    uint64_t lease_period_ns = (uint64_t)h->lease_period_ms * NS_PER_MS;

    feed(h, (struct lease_event){ .type = LEASE_TICK });
    if (lease_holder_is_joined(&h->client)) {
        assert_true(!valid || is_held(h));
        assert_true(valid || client_ns(h) - h->answered_ns >= lease_period_ns / 10 * 9);
        h->valid += valid;
        h->expired += !is_held(h);
    }
}

static void step(struct history *h)
{
    h->now_ms += 1 + h->lease_period_ms / STEPS;
    if (h->now_ms >= h->asks_due_ms && h->now_ms < h->silent_from_ms) {
        ask(h, false);
        h->asks_due_ms = h->now_ms + prng_below(&h->prng, h->lease_period_ms / 2);
    }
    for (unsigned i = 0; i < QUESTIONS; i++) {
        struct question *q = &h->questions[i];

        if (q->state != NOT_ASKED && h->now_ms >= q->due_ms) {
            (q->state == ASKED ? arrives : is_answered)(h, q);
        }
    }
    check(h);
}

static void run(uint64_t seed)
{
    static const uint32_t lease_periods_ms[] = { LEASE_MS_MIN, 1000, 2000, LEASE_MS, LEASE_MS_MAX };
    struct history *h = calloc(1, sizeof(*h));
    struct lease_options options = { .last_lease_epoch = 5000 };

    assert_non_null(h);
    prng_seed(&h->prng, seed);
    h->lease_period_ms = lease_periods_ms[prng_below(&h->prng, sizeof(lease_periods_ms) /
                                                                   sizeof(lease_periods_ms[0]))];
    /* The manager's goes faster by up to 10 % of its own rate, or slower; less what is missing when
     * it counts whole milliseconds, of a lease period of LEASE_MS_MIN. */
    h->manager_rate = PER_MILLE - 50 + prng_below(&h->prng, 101);
    h->client_rate = h->manager_rate * (prng_below(&h->prng, 2) == 0 ? 900 : 1100) / PER_MILLE + 3;
    h->now_ms = 1000000;
    options.lease_period_ms = h->lease_period_ms;
    options.now_ms = manager_ms(h);
    h->manager = lease_table_new(&options);
    assert_non_null(h->manager);
    lease_holder_init(&h->client);
    ask(h, true);
    h->asks_due_ms = h->now_ms + h->lease_period_ms;
    h->silent_from_ms = h->now_ms + prng_below(&h->prng, 6 * (uint64_t)h->lease_period_ms);
    for (unsigned i = 0; i < 10 * STEPS; i++) {
        step(h);
    }
    assert_true(h->valid > 0);
    assert_true(h->expired > 0);
    lease_table_free(h->manager);
    free(h);
}

static void the_holder_stops_first(void **state)
{
    uint64_t first = test_seed_first();

    (void)state;
    for (uint64_t seed = first; seed < first + 200; seed++) {
        run(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_holder_stops_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
