/* Which version of a file's bytes the kernel's pages may hold. Pure. */
#ifndef MORSEL_CLIENT_COHERENCE_DATA_VERSIONS_H
#define MORSEL_CLIENT_COHERENCE_DATA_VERSIONS_H

#include "common/base/types.h"

struct data_version_cache;
struct data_version_cache *data_version_cache_new(void);
void data_version_cache_free(struct data_version_cache *c);

/* True when `version` is the one remembered; remembers it in any case. */
bool data_version_same(struct data_version_cache *c, inode_id inode, uint64_t version);

/* We changed the file: `version` is what the manager says now. Forgets the file when somebody else
 * changed it too. */
void data_version_advance(struct data_version_cache *c, inode_id inode, uint64_t version);

/* Another run of the manager counts now: one that lost its power may have forgotten versions that
 * it gave out, and gives them out again, for other bytes. */
void data_version_forget_all(struct data_version_cache *c);

#endif
