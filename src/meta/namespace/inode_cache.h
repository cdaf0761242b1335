/* A bounded cache of decoded inodes: 4-way sets, the oldest of a set gives way.
 *
 * Pure. Memory is fixed at inode_cache_new().
 */
#ifndef MORSEL_META_NAMESPACE_INODE_CACHE_H
#define MORSEL_META_NAMESPACE_INODE_CACHE_H

#include "meta/namespace/record.h"

struct inode_cache;

/* `capacity` is rounded up to a power of two. NULL: out of memory. */
struct inode_cache *inode_cache_new(uint32_t capacity);
void inode_cache_free(struct inode_cache *cache); /* NULL is allowed. */

/* NULL when it is not there. Valid until the next put or remove. */
const struct inode *inode_cache_get(const struct inode_cache *cache, inode_id id);
void inode_cache_put(struct inode_cache *cache, const struct inode *inode);
void inode_cache_remove(struct inode_cache *cache, inode_id id);

#endif
