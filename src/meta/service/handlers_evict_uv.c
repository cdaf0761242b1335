/* user.morsel.kept and user.morsel.eviction: a user gives back what the end of a data set takes, by the rules of the automatic eviction.
 *
 * What is open is not evicted, and under a lease a mount opens a file without a word, also the mount that asks: so all leases on the
 * file are taken back before (look_xattr_set()). */
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/fs/eviction.h"
#include "meta/datasets/evictions_uv.h"
#include "meta/datasets/sets_uv.h"
#include "meta/service/handlers_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* NULL: nothing of it was stored on benefactors. */
static const struct data_set *set_of(const struct request *r, const struct inode *inode)
{
    return inode_is_scavenged(inode) ? sets_find(ns_sets(r->meta->ns), inode_body(inode)) : NULL;
}

/* Behind it there is nothing that could go. */
static uint64_t kept_bytes(const struct data_set *set, const struct inode *inode)
{
    uint32_t end = set->head.evicted ? evict_end(set) : SET_MORSELS_MAX;
    uint64_t kept =
        (uint64_t)(end > set->head.kept ? end : set->head.kept) * set->head.morsel_bytes;

    return set->head.evicted && kept < inode->size ? kept : inode->size;
}

int evict_text(struct request *r, struct slice name, const struct inode *inode)
{
    const struct data_set *set = set_of(r, inode);
    char text[EVICTION_TEXT_MAX];

    if (set == NULL) {
        return MORSEL_NODATA;
    }
    if (slice_equal(name, slice_text(EVICTION_XATTR))) {
        (void)snprintf(text, sizeof(text), "%s", eviction_word(evictions_state(r->meta, set)));
    } else {
        (void)snprintf(text, sizeof(text), "%" PRIu64, kept_bytes(set, inode));
    }
    buf_put(&r->bytes, text, strlen(text));
    return 0;
}

bool is_evict(const Morsel__XattrSetRequest *m)
{
    return slice_equal(bytes_slice(m->name), slice_text(KEPT_XATTR));
}

int look_xattr_set(struct request *r)
{
    r->own_too = is_evict(r->message);
    return 0;
}

static bool parse_bytes(struct slice value, uint64_t *bytes)
{
    char text[EVICTION_TEXT_MAX];
    int end = 0;

    if (value.count == 0 || value.count >= sizeof(text)) {
        return false;
    }
    memcpy(text, value.data, value.count);
    text[value.count] = '\0';
    return strspn(text, "0123456789") == value.count && value.count < 20 &&
           sscanf(text, "%" SCNu64 "%n", bytes, &end) == 1 && end == (int)value.count;
}

/* May it go now, because its owner says so? It may though it was stored a moment ago. */
static int may_evict(struct request *r, const struct data_set *set)
{
    switch (evictions_state(r->meta, set)) {
    case EVICTION_FREE:
    case EVICTION_YOUNG:
        return 0;
    case EVICTION_DATA:
        errmsg_set(&r->err, "it is data, of which nobody else has a copy, and is never evicted; "
                            "delete it to have its space");
        return MORSEL_PERM;
    case EVICTION_STORING:
        errmsg_set(&r->err, "it is not stored to its end; try again when it is");
        return MORSEL_BUSY;
    case EVICTION_PINNED:
        errmsg_set(&r->err, "it is pinned; take that back first");
        return MORSEL_BUSY;
    case EVICTION_OPEN:
    case EVICTION_UNKNOWN:
    case EVICTION_STATES:
        break;
    }
    errmsg_set(&r->err, "a mount has it open; try again when it is closed");
    return MORSEL_BUSY;
}

int record_evict(struct request *r)
{
    const Morsel__XattrSetRequest *m = r->message;
    const struct data_set *set;
    struct inode inode;
    uint64_t bytes, kept;
    int rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    if ((set = set_of(r, &inode)) == NULL || m->remove ||
        !parse_bytes(bytes_slice(m->value), &bytes)) {
        errmsg_set(&r->err, "say how many bytes of a data set are to be kept");
        return MORSEL_INVAL;
    }
    if ((rv = may_evict(r, set)) != 0) {
        return rv;
    }
    if (bytes >= kept_bytes(set, &inode)) {
        errmsg_set(&r->err, "no more than that is left of it");
        return MORSEL_INVAL;
    }
    kept = (bytes + set->head.morsel_bytes - 1) / set->head.morsel_bytes;
    r->op.kind = OP_SET_EVICT;
    r->op.set_evict.set = set->head.number;
    r->op.set_evict.kept = evict_down_to(set, (uint32_t)kept, OP_EVICT_MAX);
    if (r->op.set_evict.kept == SET_MORSELS_MAX) {
        errmsg_set(&r->err,
                   "so much of it is still to be deleted by benefactors; try again when it is");
        return MORSEL_BUSY;
    }
    return 0;
}

void hurry_evicted(const struct request *r)
{
    const struct data_set *set = r->op.kind == OP_SET_EVICT && !r->known
                                     ? sets_find(ns_sets(r->meta->ns), r->op.set_evict.set)
                                     : NULL;

    if (set != NULL) {
        evictions_hurry(r->meta, set);
    }
}
