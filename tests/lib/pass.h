/* Time goes by on a loop, for tests that say that something does not happen meanwhile. */
#ifndef MORSEL_TESTS_LIB_PASS_H
#define MORSEL_TESTS_LIB_PASS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

static inline void pass_over(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Runs the loop for so long. */
static inline void pass(uv_loop_t *loop, uint64_t ms)
{
    bool over = false;
    uv_timer_t timer = { .data = &over };

    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, pass_over, ms, 0);
    while (!over) {
        uv_run(loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

#endif
