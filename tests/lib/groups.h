/* A group as it is made, for tests. */
#ifndef MORSEL_TESTS_LIB_GROUPS_H
#define MORSEL_TESTS_LIB_GROUPS_H

#include "meta/namespace/groups_record.h"

/* Of `copies` servers; `third` only counts where there are three. */
static inline struct group_made test_group(group_number number, uint64_t version, bool told,
                                           uint32_t copies, server_id first, server_id second,
                                           server_id third)
{
    struct group_made g = { .number = number,
                            .copies = copies,
                            .now = { .count = copies, .servers = { first, second } },
                            .version = version,
                            .changed = version,
                            .told = told };

    g.now.servers[2] = copies > 2 ? third : 0;
    for (uint32_t i = 0; i < copies; i++) {
        g.now.since[i] = version;
    }
    return g;
}

#endif
