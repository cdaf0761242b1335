/* What was asked and answered, and whether one memory could have answered so.
 *
 * Knows calls and answers and nothing of MorselFS. An object is a register: a write sets its value,
 * a read says it, and no value is written twice. So it is plain which write each read saw, and
 * linearizability is decided in a moment (Gibbons and Korach 1997, "Testing shared memories"):
 * every value has a time in which it must have stood, or one within which it may have; no two of
 * the first overlap, and none of the second lies within one of the first.
 *
 * A write that ended with an error, or not at all, may have happened, not have happened, or be
 * undone: what reads see of it counts only if it comes from nowhere.
 */
#ifndef MORSEL_TESTS_SIM_JUDGE_H
#define MORSEL_TESTS_SIM_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct judge_call
{
    unsigned object;
    bool write;
    bool good; /* It ended without an error. */
    uint64_t value;
    uint64_t from_ns, until_ns;
};

struct judge
{
    struct judge_call *calls;
    size_t count, capacity;
};

void judge_note(struct judge *j, const struct judge_call *call);

/* False: with why, in words. Every object begins with the value 0. */
bool judge_registers(const struct judge *j, char *why, size_t size);

#endif
