/* What a user may do: the manager's own check, whatever the kernel of a mount said before.
 *
 * Pure. The rules are those of Linux: mode bits and access lists (common/fs/permission.h, acl.h),
 * ownership for chmod and the like, sticky directories, the name spaces of extended attributes.
 * Statuses: MORSEL_ACCES and MORSEL_PERM as the system calls say them, and MORSEL_STALE when
 * supplementary groups decide that the request does not tell: the kernel of the mount then looks
 * again and asks again, and the mount tells them.
 *
 * Not looked at: what a file handle was opened for before a chmod. Whoever holds an inode open for
 * writing may go on changing its bytes and size.
 */
#ifndef MORSEL_META_NAMESPACE_PERMIT_H
#define MORSEL_META_NAMESPACE_PERMIT_H

#include "meta/namespace/namespace.h"

/* May op->who carry out `op`, which has been filled in by the handler? `writes`: the client holds
 * the inode of the operation open for writing. Operations of the manager itself (client 0) may all
 * be. What is not there is no matter of permissions: 0, and ns_execute() will say so. */
int permit_op(struct ns *ns, const struct meta_op *op, bool writes, struct errmsg *err);

/* May `who` have all of `wanted` (MAY_*) of the inode? */
int permit_access(struct ns *ns, const struct inode *inode, const struct credentials *who,
                  uint32_t wanted, struct errmsg *err);

/* May `who` read the extended attribute? */
int permit_xattr_get(struct ns *ns, const struct inode *inode, struct slice name,
                     const struct credentials *who, struct errmsg *err);

#endif
