/* How large a data set is to be, said before its bytes are there.
 *
 * A set that is reserved is not sealed before it has all of these bytes. Until then whoever says the same size again stores it
 * from there on, as with an origin (namespace_origins.c). Room is not kept for it: a reservation says that the cloud is large
 * enough, and benefactors may go as they like. It ends with the seal, or with its set. */
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/namespace_txn.h"

bool txn_reserved_complete(const struct ns_txn *t, const struct set_head *head, uint64_t size)
{
    struct set_range missing;

    return head->reserved == 0 ||
           (size == head->reserved && !set_missing(sets_find(&t->ns->sets, head->number),
                                                   head->morsel_bytes, 0, size, &missing));
}

/* May so many bytes be reserved? They are already; or nothing is there that would count for something else. */
static int check_reserve(struct ns_txn *t, const struct set_head *head, const struct inode *inode)
{
    const struct data_set *set = sets_find(&t->ns->sets, head->number);
    uint64_t size = t->op->set_reserve.size;

    if (size == 0) {
        return MORSEL_INVAL;
    }
    if (size > INT64_MAX || (size - 1) / head->morsel_bytes >= SET_MORSELS_MAX) {
        errmsg_set(t->err, "a data set has at most %d morsels: use larger ones (morsel_size)",
                   SET_MORSELS_MAX);
        return MORSEL_FBIG;
    }
    if (head->sealed) {
        errmsg_set(t->err, "the file is a data set that is complete");
        return MORSEL_PERM;
    }
    if (head->reserved == size ||
        (!head->has_origin && inode->size == 0 && (set == NULL || set->morsels == 0))) {
        return 0;
    }
    errmsg_set(t->err, "the file has bytes, or an origin, of something else: truncate it to zero");
    return MORSEL_EXIST;
}

int apply_set_reserve(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct set_head head;
    struct inode *inode;
    int rv = txn_set_file(t, op->set_reserve.inode, op->set_reserve.set, &inode);

    if (rv != 0) {
        return rv;
    }
    head = txn_set_head_of(t, inode);
    if ((rv = check_reserve(t, &head, inode)) != 0 || (rv = txn_set_make(t, &head)) != 0) {
        return rv;
    }
    head.writer = op->client;
    head.reserved = op->set_reserve.size;
    txn_set_head(t, &head);
    txn_needs_version(t, STORE_VERSION_RESERVED);
    txn_change(t, inode);
    t->op->target = inode->id;
    return 0;
}
