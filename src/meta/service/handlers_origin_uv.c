/* user.morsel.origin and user.morsel.missing: where the bytes of a data set come from, and what of them is not there. */
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "meta/datasets/sets_uv.h"
#include "meta/service/handlers_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Who stores it has ended or has closed the file; leases were taken back before, so that all of that is known here. */
int may_take_over(struct request *r, const struct inode *inode)
{
    const struct data_set *set = sets_find(ns_sets(r->meta->ns), inode_body(inode));
    client_id client = r->rpc->node_id;

    if (set != NULL && set->head.writer != client &&
        session_known(r->meta->sessions, set->head.writer) &&
        session_has_open(r->meta->sessions, inode->id, set->head.writer, true)) {
        errmsg_set(&r->err, "another mount is storing this file");
        return MORSEL_BUSY;
    }
    return 0;
}

int record_origin(struct request *r)
{
    const Morsel__XattrSetRequest *m = r->message;
    struct origin origin;
    struct inode inode;
    int rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    if (m->remove || !inode_is_scavenged(&inode)) {
        errmsg_set(&r->err, m->remove ? "a data set keeps its origin until it begins anew"
                                      : "only files of class scavenged have an origin");
        return MORSEL_PERM;
    }
    if (origin_parse(bytes_slice(m->value), &origin) != 0) {
        errmsg_set(&r->err, "the text is no origin of a data set");
        return MORSEL_INVAL;
    }
    if (origin_is_inside(&origin) && (rv = source_prove(r, &inode, &origin)) != 0) {
        return rv;
    }
    origin_encode(&origin, &r->bytes);
    r->op.kind = OP_SET_ORIGIN;
    r->op.set_origin.inode = inode.id;
    r->op.set_origin.set = inode_body(&inode);
    r->op.set_origin.record = buf_slice(&r->bytes);
    if (r->bytes.failed) {
        return MORSEL_NOMEM;
    }
    rv = may_take_over(r, &inode);
    return rv == 0 && origin.size != ORIGIN_SIZE_UNKNOWN
               ? sets_may_hold(r->meta, &inode, origin.size, &r->err)
               : rv;
}

/* The origin of the file's data set: MORSEL_NODATA. */
static int origin_of(struct request *r, const struct inode *inode, struct origin *origin)
{
    const struct data_set *set =
        inode_is_scavenged(inode) ? sets_find(ns_sets(r->meta->ns), inode_body(inode)) : NULL;

    return set != NULL && set->head.has_origin
               ? ns_origin(r->meta->ns, set->head.number, origin, &r->err)
               : MORSEL_NODATA;
}

/* How long the file is to be; as far as nobody has said that, or it is complete, how long it is. */
static uint64_t end_of(const struct set_head *head, const struct inode *inode,
                       const struct origin *origin)
{
    return head->sealed                          ? inode->size
           : head->reserved != 0                 ? head->reserved
           : origin->size != ORIGIN_SIZE_UNKNOWN ? origin->size
                                                 : inode->size;
}

static int missing_text(struct request *r, const struct inode *inode)
{
    const struct data_set *set =
        inode_is_scavenged(inode) ? sets_find(ns_sets(r->meta->ns), inode_body(inode)) : NULL;
    struct origin origin;
    uint64_t end;
    struct set_range range = { 0, 0 };
    char line[64];
    int rv;

    origin_init(&origin);
    if (set == NULL) {
        return MORSEL_NODATA;
    }
    if (set->head.has_origin &&
        (rv = ns_origin(r->meta->ns, set->head.number, &origin, &r->err)) != 0) {
        return rv;
    }
    end = end_of(&set->head, inode, &origin);
    (void)snprintf(line, sizeof(line), "sealed=%d size=%" PRIu64 " morsel_size=%" PRIu32 "\n",
                   set->head.sealed, inode->size, set->head.morsel_bytes);
    buf_put(&r->bytes, line, strlen(line));
    for (int i = 0; i < MISSING_RANGES_MAX && set_missing(set, set->head.morsel_bytes,
                                                          range.offset + range.length, end, &range);
         i++) {
        (void)snprintf(line, sizeof(line), "%" PRIu64 " %" PRIu64 "\n", range.offset, range.length);
        buf_put(&r->bytes, line, strlen(line));
    }
    return 0;
}

int origin_text(struct request *r, struct slice name, const struct inode *inode)
{
    struct origin origin;
    char text[ORIGIN_TEXT_MAX];
    int rv;

    if (slice_equal(name, slice_text(MISSING_XATTR))) {
        return missing_text(r, inode);
    }
    if ((rv = origin_of(r, inode, &origin)) != 0) {
        return rv;
    }
    origin_format(&origin, text);
    buf_put(&r->bytes, text, strlen(text));
    return 0;
}
