#include "tests/sim/world/fiber.h"

#include "tests/sim/world/world.h"

#include <stdlib.h>
#include <ucontext.h>

/* The sanitizers want to hear of each change of stack. */
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#define SWITCH_BEGINS(save, stack, size) __sanitizer_start_switch_fiber(save, stack, size)
#define SWITCH_ENDS(save, stack, size)   __sanitizer_finish_switch_fiber(save, stack, size)
#else
#define SWITCH_BEGINS(save, stack, size) ((void)(save), (void)(stack), (void)(size))
#define SWITCH_ENDS(save, stack, size)   ((void)(save), (void)(stack), (void)(size))
#endif

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define THREAD_NEW()    __tsan_create_fiber(0)
#define THREAD_SELF()   __tsan_get_current_fiber()
#define THREAD_BE(self) __tsan_switch_to_fiber(self, 0)
#else
#define THREAD_NEW()    NULL
#define THREAD_SELF()   NULL
#define THREAD_BE(self) ((void)(self))
#endif

enum { STACK_BYTES = 256 << 10 };

struct fiber
{
    ucontext_t context, outside;
    void (*body)(void *data);
    void *data;
    char *stack;
    void *fake, *outside_fake;
    const void *outside_stack;
    size_t outside_size;
    void *thread, *outside_thread;
    bool ended;
    int number;
    uint32_t user;
};

static struct fiber *running;
static int fibers_count;

struct fiber *fiber_self(void)
{
    return running;
}

int fiber_number(void)
{
    return running == NULL ? 0 : running->number;
}

void fiber_be(uint32_t user)
{
    running->user = user;
}

uint32_t fiber_user(void)
{
    return running == NULL ? 0 : running->user;
}

bool fiber_ended(const struct fiber *fiber)
{
    return fiber->ended;
}

static void leave(struct fiber *f)
{
    SWITCH_BEGINS(f->ended ? NULL : &f->fake, f->outside_stack, f->outside_size);
    THREAD_BE(f->outside_thread);
    (void)swapcontext(&f->context, &f->outside);
    SWITCH_ENDS(f->fake, &f->outside_stack, &f->outside_size);
}

static void begin(void)
{
    struct fiber *f = running;

    SWITCH_ENDS(NULL, &f->outside_stack, &f->outside_size);
    f->body(f->data);
    f->ended = true;
    leave(f);
}

static void resume(void *data)
{
    struct fiber *f = data;

    CHECK(running == NULL && !f->ended);
    running = f;
    f->outside_thread = THREAD_SELF();
    SWITCH_BEGINS(&f->outside_fake, f->stack, STACK_BYTES);
    THREAD_BE(f->thread);
    (void)swapcontext(&f->outside, &f->context);
    SWITCH_ENDS(f->outside_fake, NULL, NULL);
    running = NULL;
}

struct fiber *fiber_start(uint64_t delay_ns, void (*body)(void *data), void *data)
{
    struct fiber *f = calloc(1, sizeof(*f));

    CHECK(f != NULL);
    f->stack = malloc(STACK_BYTES);
    CHECK(f->stack != NULL && getcontext(&f->context) == 0);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->number = ++fibers_count;
    f->body = body;
    f->data = data;
    f->thread = THREAD_NEW();
    makecontext(&f->context, begin, 0);
    world_in(delay_ns, resume, f);
    return f;
}

void fiber_wait(void)
{
    leave(running);
}

void fiber_wake(struct fiber *fiber, uint64_t delay_ns)
{
    world_in(delay_ns, resume, fiber);
}

void fiber_sleep(uint64_t ns)
{
    fiber_wake(running, ns);
    fiber_wait();
}
