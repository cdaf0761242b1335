/* A direct-mapped table: what is forgotten there is fetched again. */
#include "client/coherence/data_versions.h"

#include <stdlib.h>
#include <string.h>

enum { VERSIONS_KEPT = 1 << 14 };

/* Direct-mapped by inode: a newer file takes the place of an older one, which then just reads
 * afresh. */
struct data_version_cache
{
    struct data_version
    {
        inode_id inode;
        uint64_t version;
    } slots[VERSIONS_KEPT];
};

struct data_version_cache *data_version_cache_new(void)
{
    return calloc(1, sizeof(struct data_version_cache));
}

void data_version_cache_free(struct data_version_cache *c)
{
    free(c);
}

bool data_version_same(struct data_version_cache *c, inode_id inode, uint64_t version)
{
    struct data_version *slot = &c->slots[inode % VERSIONS_KEPT];
    bool same = slot->inode == inode && slot->version == version;

    slot->inode = inode;
    slot->version = version;
    return same;
}

void data_version_advance(struct data_version_cache *c, inode_id inode, uint64_t version)
{
    struct data_version *slot = &c->slots[inode % VERSIONS_KEPT];

    if (slot->inode != inode) {
        return;
    }
    if (version == slot->version + 1) {
        slot->version = version;
    } else if (version != slot->version) {
        slot->inode = INODE_NONE;
    }
}

void data_version_forget_all(struct data_version_cache *c)
{
    memset(c->slots, 0, sizeof(c->slots));
}
