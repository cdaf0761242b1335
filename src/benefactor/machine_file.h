/* Looks at the machine for the governor. */
#ifndef MORSEL_BENEFACTOR_MACHINE_FILE_H
#define MORSEL_BENEFACTOR_MACHINE_FILE_H

#include "benefactor/machine.h"

/* Look at it; `fd` is an open file on the disk of the donated directory. What the kernel does not say is not known then, which is
 * normal. It may wait, for batteries are slow to answer. */
void machine_look(int fd, struct governor_machine *m);

/* From now on this thread, and all that it makes, get processors and disks only when nobody else wants them, as far as the kernel lets
 * them: SCHED_IDLE, for with nice 19 alone four threads that have work take a twentieth of a processor from a program there; nice 19, where that
 * is refused; and the idle class of ioprio_set(2). */
void machine_stand_back(void);

#endif
