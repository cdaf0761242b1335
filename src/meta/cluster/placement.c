/* Servers that live and have space, from one that the inode number says. */
#include "meta/cluster/placement.h"

#include "common/base/check.h"

static bool has_space(const struct placement_server *s)
{
    uint64_t reserve = s->bytes_total >> PLACEMENT_RESERVE_SHIFT;

    /* A disk of a few hundred MiB, as tests have, is not full for that. */
    if (reserve < PLACEMENT_RESERVE_BYTES && s->bytes_total / 8 > PLACEMENT_RESERVE_BYTES) {
        reserve = PLACEMENT_RESERVE_BYTES;
    }
    return s->bytes_free > reserve;
}

/* Ids of live servers into `able`; with `space` only those that have some. */
static uint32_t select_able(const struct placement_server *servers, uint32_t count, bool space,
                            server_id able[SERVERS_MAX])
{
    uint32_t able_count = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (servers[i].live && (!space || has_space(&servers[i]))) {
            able[able_count++] = servers[i].id;
        }
    }
    return able_count;
}

uint32_t placement_choose(const struct placement_server *servers, uint32_t count, inode_id inode,
                          uint32_t width, server_id chosen[STRIPE_WIDTH_MAX])
{
    server_id able[SERVERS_MAX];
    uint32_t able_count;

    CHECK(count <= SERVERS_MAX && width >= 1 && width <= STRIPE_WIDTH_MAX);
    able_count = select_able(servers, count, true, able);
    if (able_count == 0) {
        /* The file is made all the same, and its first write says ENOSPC. */
        able_count = select_able(servers, count, false, able);
    }
    if (width > able_count) {
        width = able_count;
    }
    for (uint32_t i = 0; i < width; i++) {
        chosen[i] = able[(inode + i) % able_count];
    }
    return width;
}
