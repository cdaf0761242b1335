/* The group sync's end: who still waits, or comes to wait when the last sync is over. */
#include "meta/storage/sync_uv.h"
#include "common/base/status.h"
#include "tests/lib/kv_forgetful.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct fixture
{
    uv_loop_t loop;
    uv_check_t check; /* Runs between the last sync and the end. */
    struct prng prng;
    struct kv *kv;
    struct sync_uv sync;
    struct sync_waiter first, late, later;
    int first_status, late_status;
    unsigned told, closed;
};

enum { UNTOLD = -1000 };

static uint64_t on_number(void *data)
{
    (void)data;
    return 1;
}

static void on_failed(void *data, int status, const struct errmsg *err)
{
    (void)data;
    fail_msg("the sync failed: %d, %s", status, err->text);
}

static void on_first(struct sync_waiter *waiter, int status)
{
    struct fixture *f = CONTAINER_OF(waiter, struct fixture, first);

    f->first_status = status;
}

static void on_later(struct sync_waiter *waiter, int status)
{
    (void)waiter;
    (void)status;
    fail_msg("it was told at once, or behind the end");
}

/* It asks for more, as hosts do that try again. */
static void on_late(struct sync_waiter *waiter, int status)
{
    struct fixture *f = CONTAINER_OF(waiter, struct fixture, late);

    f->late_status = status;
    f->told++;
    assert_int_equal(f->closed, 0);
    sync_wait(&f->sync, &f->later, on_later);
}

static void on_check(uv_check_t *check)
{
    struct fixture *f = check->data;

    if (uv_is_closing((uv_handle_t *)&f->sync.timer)) {
        sync_wait(&f->sync, &f->late, on_late);
        assert_int_equal(f->told, 0);
        uv_close((uv_handle_t *)check, NULL);
    }
}

static void on_closed(void *data)
{
    struct fixture *f = data;

    f->closed++;
}

static void who_comes_behind_the_last_sync_is_told(void **state)
{
    struct fixture f = { .first_status = UNTOLD, .late_status = UNTOLD };

    (void)state;
    prng_seed(&f.prng, 1);
    f.kv = kv_forgetful_open(&f.prng);
    assert_non_null(f.kv);
    assert_int_equal(uv_loop_init(&f.loop), 0);
    f.sync = (struct sync_uv){ .number = on_number, .failed = on_failed, .data = &f };
    sync_init(&f.sync, &f.loop, f.kv);
    list_init(&f.first.node);
    list_init(&f.late.node);
    list_init(&f.later.node);
    uv_check_init(&f.loop, &f.check);
    f.check.data = &f;
    uv_check_start(&f.check, on_check);
    sync_wait(&f.sync, &f.first, on_first);
    sync_close(&f.sync, on_closed);
    uv_run(&f.loop, UV_RUN_DEFAULT);
    assert_int_equal(f.first_status, 0);
    assert_int_equal(f.late_status, MORSEL_SHUTDOWN);
    assert_int_equal(f.told, 1);
    assert_int_equal(f.closed, 1);
    assert_int_equal(uv_loop_close(&f.loop), 0);
    f.kv->close(f.kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_behind_the_last_sync_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
