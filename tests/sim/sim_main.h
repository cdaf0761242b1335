/* The runner of a scenario: many seeds, one seed with its trace, canaries, transcripts.
 *
 *   sim_NAME                          1,000 seeds and the transcripts
 *   sim_NAME --seed N [--canary C]    one seed, with its trace
 *   sim_NAME --from N --count M       so many seeds
 *   sim_NAME --transcripts            the transcripts
 *   sim_NAME --canaries               each deliberate fault must be caught
 *
 * Exit code 0: all is well. A seed that fails prints the line that reproduces it, and its trace.
 */
#ifndef MORSEL_TESTS_SIM_SIM_MAIN_H
#define MORSEL_TESTS_SIM_SIM_MAIN_H

#include "tests/sim/sim.h"

/* A transcript: drives a history of its own, false when something was not as expected. */
struct sim_transcript
{
    const char *name;
    bool (*run)(struct sim *s);          /* Opened without faults, traced. */
    const struct sim_scenario *scenario; /* NULL: that of the runner. */
};

/* `transcripts` ends with a NULL name. Returns the exit code. */
int sim_main(int argc, char **argv, const struct sim_scenario *scenario,
             const struct sim_transcript *transcripts);

#endif
