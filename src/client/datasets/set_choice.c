/* The copy that would be here first (set_choice.h). */
#include "client/datasets/set_choice.h"

#define NS_PER_S UINT64_C(1000000000)

/* Waits that differ by less than a half are alike. */
static bool is_alike(uint64_t wait, uint64_t soonest)
{
    return wait <= soonest + soonest / 2;
}

static uint64_t fastest(const struct set_copy_state *states, uint32_t count, uint64_t rate)
{
    for (uint32_t i = 0; i < count; i++) {
        rate = states[i].rate > rate ? states[i].rate : rate;
    }
    return rate;
}

static uint64_t wait_of(const struct set_copy_state *state, uint32_t length, uint64_t rate)
{
    uint64_t bytes = state->asked + length;

    rate = state->rate != 0 ? state->rate : rate;
    rate = rate != 0 ? rate : NS_PER_S; /* Nothing is known of any of them: the bytes decide. */
    return bytes > UINT64_MAX / NS_PER_S ? UINT64_MAX / 2 : bytes * NS_PER_S / rate;
}

struct set_choice set_choose_copy(uint32_t number, uint32_t length, uint64_t best,
                                  const struct set_copy_state *states, uint32_t count)
{
    uint64_t rate = fastest(states, count, best), soonest = UINT64_MAX / 2;
    struct set_choice choice = { .copy = count };
    bool well = false;

    for (uint32_t i = 0; i < count; i++) {
        well = well || (!states[i].tried && states[i].well);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!states[i].tried && states[i].well == well) {
            uint64_t wait = wait_of(&states[i], length, rate);

            soonest = wait < soonest ? wait : soonest;
        }
    }
    for (uint32_t k = 0; k < count && choice.copy == count; k++) {
        uint32_t i = (number + k) % count;
        uint64_t wait = wait_of(&states[i], length, rate);

        if (!states[i].tried && states[i].well == well && is_alike(wait, soonest)) {
            choice = (struct set_choice){ .copy = i, .wait_ns = rate == 0 ? 0 : wait };
        }
    }
    return choice;
}

bool set_hedge_is_due(uint64_t waited_ns, uint64_t expected_ns, uint64_t other_ns)
{
    return waited_ns >= SET_HEDGE_NS_MIN && waited_ns / SET_HEDGE_TIMES >= expected_ns &&
           other_ns <= waited_ns;
}
