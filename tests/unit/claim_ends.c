/* What a mount has to say of claims while the manager is away: a bounded number of words waits for it. */
#include "client/datasets/set_parts_uv.h"
#include "common/base/errmsg.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static void on_ready(void *data, int status, const char *text)
{
    (void)data;
    (void)status;
    (void)text;
}

static struct client *client_of_nobody(uv_loop_t *loop)
{
    const struct client_options options = { .manager = "127.0.0.1:1", /* Where nobody listens. */
                                            .io_timeout_ms = RPC_NO_DEADLINE,
                                            .cache = true,
                                            .program = "unit test" };
    struct client *client;
    struct errmsg err = { "" };

    assert_int_equal(client_new(loop, &options, &client, on_ready, NULL, &err), 0);
    return client;
}

static void while_the_manager_is_away_they_are_bounded(void **state)
{
    struct data_set *sets[2];
    struct client *client;
    bool closed = false;
    uv_loop_t loop;

    (void)state;
    assert_int_equal(uv_loop_init(&loop), 0);
    client = client_of_nobody(&loop);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(data_set_new(client, 7 + i, 3 + i, 1 << 20, false, &sets[i]), 0);
    }
    for (uint32_t i = 0; i < 2 * SET_CLAIM_ENDS_MAX; i++) {
        set_claim_end(sets[i % 2], i, 1);
        set_claim_end(sets[i % 2], i, 0); /* Of none nothing is said. */
        assert_int_equal(client->data.sets->claim_ends,
                         i < SET_CLAIM_ENDS_MAX ? i + 1 : SET_CLAIM_ENDS_MAX);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(sets[i]->references, 1 + SET_CLAIM_ENDS_MAX / 2);
        data_set_drop(sets[i]);
    }
    client_close(client, on_closed, &closed); /* All of them end, and let go of their sets. */
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_true(closed);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_the_manager_is_away_they_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
