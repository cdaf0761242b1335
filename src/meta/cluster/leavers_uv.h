/* Which files with one copy need a server that is to leave the cluster (`morsel iod drain`).
 *
 *   every moment   some thousand inodes are looked at for one of these servers, as removal_uv.h does it
 *   behind all     how many files name the server is kept with it (struct member_left), for `morsel status`;
 *                  somewhat later the look begins again, for files are moved away (`morsel recopy`) and deleted
 *
 * Groups move by themselves; these files do not. Also one that has no byte there needs the server: what is written
 * to it next may go there. So a server has left when nothing names it, and not when it has no object.
 *
 * Nothing is kept on the disk: a manager that starts again knows nothing before it has looked. */
#ifndef MORSEL_META_CLUSTER_LEAVERS_UV_H
#define MORSEL_META_CLUSTER_LEAVERS_UV_H

#include "meta/meta_uv.h"

/* The timer is closed by who closes the manager. */
void leavers_start(struct meta *meta);

#endif
