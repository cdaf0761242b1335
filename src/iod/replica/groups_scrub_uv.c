/* Whose copy it is that the scrub has found damage in. */
#include "iod/replica/groups_inner_uv.h"

enum groups_scrub groups_scrub(struct groups *g, struct object_id object, uint64_t start,
                               uint64_t end, void (*done)(void *data, enum copy_scrubbed result),
                               void *data)
{
    const struct group_entry *e = groups_find(g, placing_group(object.column));

    if (e == NULL) {
        return GROUPS_SCRUB_NOT_OURS;
    }
    return !g->closing && e->copy != NULL && copy_scrub(e->copy, object, start, end, done, data)
               ? GROUPS_SCRUB_BEGUN
               : GROUPS_SCRUB_LATER;
}
