/* The supplementary groups of a process. */
#ifndef MORSEL_CLIENT_FUSE_GROUPS_FILE_H
#define MORSEL_CLIENT_FUSE_GROUPS_FILE_H

#include "common/base/types.h"

#include <sys/types.h>

enum { GROUPS_MAX = 1024 };

/* Fill in at most GROUPS_MAX groups of thread `pid`; returns how many. 0 also when the process has
 * ended, or is not to be seen from here (another pid name space). Reads /proc: about 20
 * microseconds. */
uint32_t groups_of_process(pid_t pid, uint32_t groups[GROUPS_MAX]);

#endif
