/* Origins are visited by a process of their own (`morsel origin-part`, which has nobody's rights): no URL that a user has written down is
 * looked at within the mount, which can end the process whenever it takes too long. */
#ifndef MORSEL_CLIENT_FUSE_ORIGIN_CHILD_PROC_H
#define MORSEL_CLIENT_FUSE_ORIGIN_CHILD_PROC_H

#include "client/datasets/origin_power.h"

#include <uv.h>

enum { ORIGIN_PROGRAM_MAX = 4096 };

struct origin_children
{
    uv_loop_t *loop;
    char program[ORIGIN_PROGRAM_MAX]; /* morsel(1): the one beside us, or that of PATH. */
    struct origin_power power;
};

/* `children` stays where it is as long as the loop runs. */
void origin_children_init(struct origin_children *children, uv_loop_t *loop);

#endif
