/* The nine mode bits, and whether it matters who asks. */
#include "common/fs/permission.h"

#include "common/fs/mode.h"

enum verdict credentials_in_group(const struct credentials *who, uint32_t gid)
{
    if (who->gid == gid) {
        return VERDICT_GRANTED;
    }
    if (!who->groups_known) {
        return VERDICT_GROUPS;
    }
    for (uint32_t i = 0; i < who->groups_count; i++) {
        if (who->groups[i] == gid) {
            return VERDICT_GRANTED;
        }
    }
    return VERDICT_DENIED;
}

bool permission_of_root(uint32_t mode, uint32_t wanted)
{
    return (wanted & MAY_EXECUTE) == 0 || mode_is_directory(mode) || (mode & MODE_ANY_EXECUTE) != 0;
}

static enum verdict verdict_of(bool granted)
{
    return granted ? VERDICT_GRANTED : VERDICT_DENIED;
}

enum verdict permission_by_mode(uint32_t mode, uint32_t uid, uint32_t gid,
                                const struct credentials *who, uint32_t wanted)
{
    bool as_group = (mode >> 3 & wanted) == wanted, as_other = (mode & wanted) == wanted;

    if (who->uid == UID_ROOT) {
        return verdict_of(permission_of_root(mode, wanted));
    }
    if (who->uid == uid) {
        return verdict_of((mode >> 6 & wanted) == wanted);
    }
    if (as_group == as_other) {
        return verdict_of(as_group);
    }
    switch (credentials_in_group(who, gid)) {
    case VERDICT_GRANTED:
        return verdict_of(as_group);
    case VERDICT_DENIED:
        return verdict_of(as_other);
    case VERDICT_GROUPS:
        break;
    }
    return VERDICT_GROUPS;
}
