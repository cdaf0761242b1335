/* What the kernel writes of the machine, read. Pure; machine_file.h has the files (proc(5)).
 *
 * Each takes the text of a file, terminated, as it came, and adds what it finds to `m`; strange lines are passed over. False:
 * it is not there.
 */
#ifndef MORSEL_BENEFACTOR_MACHINE_H
#define MORSEL_BENEFACTOR_MACHINE_H

#include "benefactor/governor.h"

/* /proc/pressure/X: "some avg10=0.00 avg60=0.00 avg300=0.00 total=10553": microseconds. */
bool machine_parse_pressure(const char *text, uint64_t *some_us);

/* The first line of /proc/stat: all processors. */
bool machine_parse_cpu(const char *text, struct governor_machine *m);

/* The line of that disk in /proc/diskstats. */
bool machine_parse_disk(const char *text, unsigned major, unsigned minor,
                        struct governor_machine *m);

/* Lines of /proc/interrupts of the controller that keyboards and touchpads are at which are built in ("i8042"). Others share
 * theirs with disks. */
bool machine_parse_input(const char *text, struct governor_machine *m);

/* A power supply that feeds the machine, by its `type`, `scope` and `status`: a battery that is being emptied? One with the scope
 * "Device" is in a mouse. Texts may be empty. */
bool machine_is_emptied(const char *type, const char *scope, const char *status);

#endif
