/* Sessions in the store. */
#include "meta/coherence/session.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void run_sessions_op(struct ns_fixture *f, uint64_t run, const struct session_kept *kept,
                            uint32_t count)
{
    struct meta_op op = { .kind = OP_SESSIONS };
    struct buf clients;

    buf_init(&clients);
    for (uint32_t i = 0; i < count; i++) {
        op_session_put(&clients, kept[i].client, kept[i].waited_ms);
    }
    op.sessions.run = run;
    op.sessions.clients = buf_slice(&clients);
    assert_int_equal(ns_fixture_run(f, &op), 0);
    buf_free(&clients);
}

static void sessions_are_there_until_they_are_struck_out(void **state)
{
    const struct session_kept begun[] = { { 0, 0 }, { 7, 0 }, { UINT64_MAX, 0 } };
    const struct session_kept later[] = { { 7, 900 }, { UINT64_MAX, SESSION_STRUCK_OUT } };
    const struct session_kept over[] = { { 0, SESSION_STRUCK_OUT } };
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct session_kept back[3];
    uint32_t count;
    uint64_t run;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    assert_int_equal(ns_sessions(f->ns, back, 3, &count, &run, &f->err), 0);
    assert_true(count == 0 && run == 0); /* As in a database of before. */
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_FIRST);
    run_sessions_op(f, 42, begun, 3);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_SESSIONS);
    run_sessions_op(f, 0, later, 2);
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(ns_super(f->ns)->store_version, STORE_VERSION_SESSIONS);
    assert_int_equal(ns_sessions(f->ns, back, 3, &count, &run, &f->err), 0);
    assert_true(count == 2 && run == 42);
    assert_true(back[0].client == SESSION_UNTOLD && back[0].waited_ms == 0);
    assert_true(back[1].client == 7 && back[1].waited_ms == 900);
    assert_int_equal(ns_sessions(f->ns, back, 1, &count, &run, &f->err), 0);
    assert_true(count == 1 && run == 0); /* There are more. */
    run_sessions_op(f, 42, over, 1);
    assert_int_equal(ns_sessions(f->ns, back, 3, &count, &run, &f->err), 0);
    assert_true(count == 1 && run == 42 && back[0].client == 7);
    ns_fixture_close(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_are_there_until_they_are_struck_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
