/* Which copy of a morsel is asked, and when another one beside it.
 *
 * Pure. The copy is asked that would be here first: bytes that are under way from its benefactor already, and these, at the rate at which
 * it gives them out (donor_speed.h). So a slow one gets as little as it can give out in the time that others need, one that has nothing to do
 * gets something, and nobody has to be told who is slow. Where that hardly differs each has its turn by the number of the morsel, so that
 * readers spread over the benefactors, and each of these is asked for the same morsels by all.
 *
 * A copy that is not here after SET_HEDGE_NS_MIN, nor after SET_HEDGE_TIMES as long as was expected, is not waited for alone any longer if
 * another one is expected sooner than it has been waited for already. Where that is not so all of them are slow, and asking twice makes
 * them slower. */
#ifndef MORSEL_CLIENT_DATASETS_SET_CHOICE_H
#define MORSEL_CLIENT_DATASETS_SET_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define SET_HEDGE_NS_MIN UINT64_C(300000000)

enum { SET_HEDGE_TIMES = 2 };

struct set_copy_state
{
    bool tried;     /* It is not to be asked (again). */
    bool well;      /* Nothing speaks against it. */
    uint64_t asked; /* Bytes that are under way from there, */
    uint64_t rate;  /* per second; 0: not known. */
};

struct set_choice
{
    uint32_t copy;    /* The count of them: all were tried. */
    uint64_t wait_ns; /* In which it should be here; 0: not known. */
};

/* The copy of morsel `number`, of `length` bytes, to ask next of `count` whose states these are. Those in whose way nothing is go first. `best`:
 * the rate of the fastest benefactor that is known, for which those are taken that are not. 0: none is. */
struct set_choice set_choose_copy(uint32_t number, uint32_t length, uint64_t best,
                                  const struct set_copy_state *states, uint32_t count);

/* Is another one to be asked, that should be here in `other_ns`, where one was expected in `expected_ns` and is not here after `waited_ns`?
 * 0 of what is expected: not known. */
bool set_hedge_is_due(uint64_t waited_ns, uint64_t expected_ns, uint64_t other_ns);

#endif
