/* POSIX access control lists: the format of the attributes system.posix_acl_access and
 * system.posix_acl_default, and what they do to mode bits.
 *
 * Pure. Format of Linux (uapi/linux/posix_acl_xattr.h): u32 version 2, then entries of u16 tag, u16
 * permissions, u32 id, all little-endian. Meaning: POSIX.1e draft 17, section 23, as in acl(5).
 *
 * The mode of an inode always mirrors its access list: owner bits are USER_OBJ, other bits are
 * OTHER, group bits are MASK where there is one and GROUP_OBJ otherwise.
 */
#ifndef MORSEL_META_NAMESPACE_ACL_H
#define MORSEL_META_NAMESPACE_ACL_H

#include "common/base/buf.h"
#include "common/base/types.h"
#include "common/fs/permission.h"

enum { ACL_ENTRIES_MAX = 512 };

enum acl_tag {
    ACL_TAG_USER_OBJ = 0x01,
    ACL_TAG_USER = 0x02,
    ACL_TAG_GROUP_OBJ = 0x04,
    ACL_TAG_GROUP = 0x08,
    ACL_TAG_MASK = 0x10,
    ACL_TAG_OTHER = 0x20
};

#define ACL_NAME_ACCESS  "system.posix_acl_access"
#define ACL_NAME_DEFAULT "system.posix_acl_default"

struct acl
{
    uint32_t count;
    struct acl_entry
    {
        uint16_t tag;
        uint16_t perm; /* rwx: 0 to 7 */
        uint32_t id;   /* Of USER and GROUP; 0xffffffff otherwise. */
    } entries[ACL_ENTRIES_MAX];
};

/* Parse and validate: one USER_OBJ, GROUP_OBJ and OTHER, in the order of the tags, no id twice, a
 * MASK as soon as a USER or GROUP is there. MORSEL_INVAL; MORSEL_NOTSUP for another version;
 * MORSEL_2BIG. */
int acl_parse(struct slice bytes, struct acl *acl);
void acl_format(const struct acl *acl, struct buf *out);

/* The nine permission bits that mirror the list. */
uint32_t acl_mode(const struct acl *acl);

/* True when the list says no more than those nine bits. */
bool acl_is_mode(const struct acl *acl);

/* chmod: put the nine bits of `mode` into the list. */
void acl_chmod(struct acl *acl, uint32_t mode);

/* A file is made with `mode` in a directory whose default list is `acl`: make the file's access
 * list of it, and return the mode, in which only bits that both grant are left. */
uint32_t acl_inherit(struct acl *acl, uint32_t mode);

/* May `who` have all of `wanted` (MAY_*) of an inode with this access list, mode, owner and group?
 * As in acl(5), "Access check algorithm". */
enum verdict acl_permission(const struct acl *acl, uint32_t mode, uint32_t uid, uint32_t gid,
                            const struct credentials *who, uint32_t wanted);

#endif
