/* Decodes and encodes access lists, checks what may stand in them, and carries them into mode
 * bits. */
#include "meta/namespace/acl.h"

#include "common/base/check.h"
#include "common/base/status.h"

enum { ACL_VERSION = 2, ACL_HEADER_BYTES = 4, ACL_ENTRY_BYTES = 8 };

#define ACL_ID_NONE UINT32_MAX

/* The entry with `tag`, one of those that exist once; NULL when there is none. */
static struct acl_entry *acl_find(struct acl *acl, enum acl_tag tag)
{
    for (uint32_t i = 0; i < acl->count; i++) {
        if (acl->entries[i].tag == tag) {
            return &acl->entries[i];
        }
    }
    return NULL;
}

static uint32_t perm_of(const struct acl *acl, enum acl_tag tag, uint32_t otherwise)
{
    for (uint32_t i = 0; i < acl->count; i++) {
        if (acl->entries[i].tag == tag) {
            return acl->entries[i].perm;
        }
    }
    return otherwise;
}

static uint32_t count_of(const struct acl *acl, enum acl_tag tag)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < acl->count; i++) {
        count += acl->entries[i].tag == tag;
    }
    return count;
}

static bool tag_has_id(uint16_t tag)
{
    return tag == ACL_TAG_USER || tag == ACL_TAG_GROUP;
}

/* Tags ascend; among equal ones (USER, GROUP) every id is there once. Lists are short or sorted in
 * practice, and their length is bounded. */
static bool acl_ordered(const struct acl *acl)
{
    for (uint32_t i = 0; i < acl->count; i++) {
        const struct acl_entry *e = &acl->entries[i];

        if (e->perm > 7 || (tag_has_id(e->tag) && e->id == ACL_ID_NONE) ||
            (i > 0 && acl->entries[i - 1].tag > e->tag)) {
            return false;
        }
        for (uint32_t j = i; j > 0 && acl->entries[j - 1].tag == e->tag; j--) {
            if (acl->entries[j - 1].id == e->id) {
                return false;
            }
        }
    }
    return true;
}

static bool acl_valid(const struct acl *acl)
{
    uint32_t named = count_of(acl, ACL_TAG_USER) + count_of(acl, ACL_TAG_GROUP);
    uint32_t masks = count_of(acl, ACL_TAG_MASK);

    return acl_ordered(acl) && count_of(acl, ACL_TAG_USER_OBJ) == 1 &&
           count_of(acl, ACL_TAG_GROUP_OBJ) == 1 && count_of(acl, ACL_TAG_OTHER) == 1 &&
           masks <= 1 && (named == 0 || masks == 1) && acl->count == 3 + named + masks;
}

int acl_parse(struct slice bytes, struct acl *acl)
{
    struct reader r;

    acl->count = 0;
    reader_init(&r, bytes.data, bytes.count);
    if (bytes.count < ACL_HEADER_BYTES || (bytes.count - ACL_HEADER_BYTES) % ACL_ENTRY_BYTES != 0) {
        return MORSEL_INVAL;
    }
    if (reader_u32(&r) != ACL_VERSION) {
        return MORSEL_NOTSUP;
    }
    if ((bytes.count - ACL_HEADER_BYTES) / ACL_ENTRY_BYTES > ACL_ENTRIES_MAX) {
        return MORSEL_2BIG;
    }
    while (!reader_done(&r)) {
        struct acl_entry *e = &acl->entries[acl->count++];

        e->tag = reader_u16(&r);
        e->perm = reader_u16(&r);
        e->id = reader_u32(&r);
        if (!tag_has_id(e->tag)) {
            e->id = ACL_ID_NONE;
        }
    }
    return acl_valid(acl) ? 0 : MORSEL_INVAL;
}

void acl_format(const struct acl *acl, struct buf *out)
{
    buf_put_u32(out, ACL_VERSION);
    for (uint32_t i = 0; i < acl->count; i++) {
        buf_put_u16(out, acl->entries[i].tag);
        buf_put_u16(out, acl->entries[i].perm);
        buf_put_u32(out, acl->entries[i].id);
    }
}

uint32_t acl_mode(const struct acl *acl)
{
    uint32_t group = perm_of(acl, ACL_TAG_MASK, perm_of(acl, ACL_TAG_GROUP_OBJ, 0));

    return perm_of(acl, ACL_TAG_USER_OBJ, 0) << 6 | group << 3 | perm_of(acl, ACL_TAG_OTHER, 0);
}

bool acl_is_mode(const struct acl *acl)
{
    return acl->count == 3;
}

/* The entry that the group bits of the mode stand for. */
static struct acl_entry *group_class(struct acl *acl)
{
    struct acl_entry *mask = acl_find(acl, ACL_TAG_MASK);

    return mask != NULL ? mask : acl_find(acl, ACL_TAG_GROUP_OBJ);
}

void acl_chmod(struct acl *acl, uint32_t mode)
{
    struct acl_entry *user = acl_find(acl, ACL_TAG_USER_OBJ), *group = group_class(acl);
    struct acl_entry *other = acl_find(acl, ACL_TAG_OTHER);

    CHECK(user != NULL && group != NULL && other != NULL);
    user->perm = (uint16_t)(mode >> 6 & 7);
    group->perm = (uint16_t)(mode >> 3 & 7);
    other->perm = (uint16_t)(mode & 7);
}

uint32_t acl_inherit(struct acl *acl, uint32_t mode)
{
    struct acl_entry *user = acl_find(acl, ACL_TAG_USER_OBJ), *group = group_class(acl);
    struct acl_entry *other = acl_find(acl, ACL_TAG_OTHER);

    CHECK(user != NULL && group != NULL && other != NULL);
    user->perm &= (uint16_t)(mode >> 6 & 7);
    group->perm &= (uint16_t)(mode >> 3 & 7);
    other->perm &= (uint16_t)(mode & 7);
    return (mode & ~0777U) | acl_mode(acl);
}

/* ---- The check ---- */

static bool covers(uint32_t perm, uint32_t wanted)
{
    return (perm & wanted) == wanted;
}

/* The groups of the list: the first that the user is in and that grants decides; being in one that
 * does not is a denial. `*matched`: the user is in one of them. */
static enum verdict group_permission(const struct acl *acl, uint32_t gid, uint32_t mask,
                                     const struct credentials *who, uint32_t wanted, bool *matched)
{
    bool unsure = false;

    *matched = false;
    for (uint32_t i = 0; i < acl->count; i++) {
        const struct acl_entry *e = &acl->entries[i];
        enum verdict member;

        if (e->tag != ACL_TAG_GROUP && e->tag != ACL_TAG_GROUP_OBJ) {
            continue;
        }
        member = credentials_in_group(who, e->tag == ACL_TAG_GROUP ? e->id : gid);
        if (member == VERDICT_GRANTED && covers(e->perm & mask, wanted)) {
            return VERDICT_GRANTED;
        }
        *matched |= member == VERDICT_GRANTED;
        unsure |= member == VERDICT_GROUPS;
    }
    return unsure ? VERDICT_GROUPS : VERDICT_DENIED;
}

enum verdict acl_permission(const struct acl *acl, uint32_t mode, uint32_t uid, uint32_t gid,
                            const struct credentials *who, uint32_t wanted)
{
    uint32_t mask = perm_of(acl, ACL_TAG_MASK, 7), perm = 0;
    enum verdict verdict;
    bool matched = false;

    if (who->uid == UID_ROOT) {
        return permission_of_root(mode, wanted) ? VERDICT_GRANTED : VERDICT_DENIED;
    }
    if (who->uid == uid) {
        perm = perm_of(acl, ACL_TAG_USER_OBJ, 0);
        return covers(perm, wanted) ? VERDICT_GRANTED : VERDICT_DENIED;
    }
    for (uint32_t i = 0; i < acl->count; i++) {
        if (acl->entries[i].tag == ACL_TAG_USER && acl->entries[i].id == who->uid) {
            perm = acl->entries[i].perm & mask;
            return covers(perm, wanted) ? VERDICT_GRANTED : VERDICT_DENIED;
        }
    }
    verdict = group_permission(acl, gid, mask, who, wanted, &matched);
    if (verdict != VERDICT_DENIED || matched) {
        return verdict;
    }
    perm = perm_of(acl, ACL_TAG_OTHER, 0);
    return covers(perm, wanted) ? VERDICT_GRANTED : VERDICT_DENIED;
}
