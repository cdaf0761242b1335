/* May this user do that? The rule of the nine mode bits, for the manager, whose word counts, and
 * for the mount, which wants to know beforehand whether supplementary groups will decide.
 *
 * Pure. Source: POSIX.1-2017, 4.5 (File Access Permissions); access lists are in
 * meta/namespace/acl.h. Root may read and write everything, search every directory, and execute
 * what anybody may execute.
 */
#ifndef MORSEL_COMMON_FS_PERMISSION_H
#define MORSEL_COMMON_FS_PERMISSION_H

#include "common/base/types.h"

/* As in the mode bits. */
enum { MAY_EXECUTE = 1, MAY_WRITE = 2, MAY_READ = 4 };

enum { UID_ROOT = 0 };

/* Who asks. */
struct credentials
{
    uint32_t uid, gid;
    const uint32_t *groups; /* Supplementary ones; borrowed. */
    uint32_t groups_count;
    bool groups_known; /* False: `groups` is empty because finding them out costs something. */
};

enum verdict {
    VERDICT_DENIED,
    VERDICT_GRANTED,
    VERDICT_GROUPS /* Supplementary groups decide, and they are not known. */
};

/* Is the user a member? VERDICT_GRANTED: yes. */
enum verdict credentials_in_group(const struct credentials *who, uint32_t gid);

/* May `who` have all of `wanted` (MAY_*) of an inode with this mode (type included), owner and
 * group? */
enum verdict permission_by_mode(uint32_t mode, uint32_t uid, uint32_t gid,
                                const struct credentials *who, uint32_t wanted);

/* What root may: the same under every mode and list. */
bool permission_of_root(uint32_t mode, uint32_t wanted);

#endif
