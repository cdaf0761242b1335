/* user.morsel.reserved: how many bytes a data set is to have (namespace_reserve.c). */
#include "common/base/status.h"
#include "common/fs/policy_text.h"
#include "meta/datasets/sets_uv.h"
#include "meta/service/handlers_uv.h"

#include <inttypes.h>
#include <stdio.h>

enum { DIGITS_MAX = 19 }; /* Of INT64_MAX. */

/* Digits, and nothing else. */
static int parse_size(ProtobufCBinaryData value, uint64_t *size)
{
    *size = 0;
    if (value.len == 0 || value.len > DIGITS_MAX) {
        return MORSEL_INVAL;
    }
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') {
            return MORSEL_INVAL;
        }
        *size = *size * 10 + (uint64_t)(value.data[i] - '0');
    }
    return *size > 0 && *size <= INT64_MAX ? 0 : MORSEL_INVAL;
}

int record_reserve(struct request *r)
{
    const Morsel__XattrSetRequest *m = r->message;
    struct inode inode;
    uint64_t size;
    int rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    if (m->remove || !inode_is_scavenged(&inode)) {
        errmsg_set(&r->err, m->remove
                                ? "a reservation ends when the file is removed or truncated to zero"
                                : "only files of class scavenged can be reserved");
        return MORSEL_PERM;
    }
    if (parse_size(m->value, &size) != 0) {
        errmsg_set(&r->err, "a reservation is a number of bytes, from 1 on");
        return MORSEL_INVAL;
    }
    r->op.kind = OP_SET_RESERVE;
    r->op.set_reserve.inode = inode.id;
    r->op.set_reserve.set = inode_body(&inode);
    r->op.set_reserve.size = size;
    rv = may_take_over(r, &inode);
    return rv != 0 ? rv : sets_may_hold(r->meta, &inode, size, &r->err);
}

int reserved_text(struct request *r, const struct inode *inode)
{
    const struct data_set *set =
        inode_is_scavenged(inode) ? sets_find(ns_sets(r->meta->ns), inode_body(inode)) : NULL;
    char text[DIGITS_MAX + 1];

    if (set == NULL || set->head.reserved == 0) {
        return MORSEL_NODATA;
    }
    buf_put(&r->bytes, text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, set->head.reserved));
    return 0;
}
