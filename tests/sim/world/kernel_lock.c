#include "tests/sim/world/fiber.h"
#include "tests/sim/world/kernel_cache.h"

struct waiter
{
    struct list node;
    struct fiber *fiber;
};

void wait_in(struct list *waiting)
{
    struct waiter w = { .fiber = fiber_self() };

    CHECK(w.fiber != NULL);
    list_init(&w.node);
    list_push_back(waiting, &w.node);
    fiber_wait();
}

void wake_all(struct list *waiting)
{
    struct list *node;

    while ((node = list_pop_front(waiting)) != NULL) {
        fiber_wake(LIST_ENTRY(node, struct waiter, node)->fiber, 1000 + world_draw(5000));
    }
}

void klock_take(struct klock *lock, bool alone)
{
    while (lock->taken || (alone && lock->sharers > 0)) {
        wait_in(&lock->waiting);
    }
    lock->taken = alone;
    lock->sharers += !alone;
}

void klock_give(struct klock *lock, bool alone)
{
    CHECK(alone ? lock->taken : lock->sharers > 0);
    if (alone) {
        lock->taken = false;
    } else {
        lock->sharers--;
    }
    wake_all(&lock->waiting);
}
