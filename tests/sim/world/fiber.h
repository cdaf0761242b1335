/* A program of the world's: straight code on a stack of its own, which sleeps in virtual time. */
#ifndef MORSEL_TESTS_SIM_FIBER_H
#define MORSEL_TESTS_SIM_FIBER_H

#include <stdbool.h>
#include <stdint.h>

struct fiber;

/* Begins to run after `delay_ns`. Never freed. */
struct fiber *fiber_start(uint64_t delay_ns, void (*body)(void *data), void *data);
bool fiber_ended(const struct fiber *fiber);

/* ---- In a fiber ---- */

struct fiber *fiber_self(void);

/* As the kernel would count threads, from 1; 0: not in a fiber. */
int fiber_number(void);

/* Whose program it is from now on, who is in the group of the same number; first it is root's. */
void fiber_be(uint32_t user);
uint32_t fiber_user(void);
void fiber_sleep(uint64_t ns);

/* Sleep until somebody calls fiber_wake(), once. */
void fiber_wait(void);

/* ---- Outside ---- */

void fiber_wake(struct fiber *fiber, uint64_t delay_ns);

#endif
