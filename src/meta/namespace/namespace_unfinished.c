/* A data set that nobody goes on with is let go (datasets/unfinished.h): its file begins anew, empty, as by a truncation to zero. */
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "meta/datasets/unfinished.h"
#include "meta/namespace/namespace_txn.h"

/* The file has a set again, with nothing in it but where it comes from: who says that origin again begins there. */
static int begin_from_origin(struct ns_txn *t, const struct data_set *set,
                             const struct inode *inode, const struct origin *origin)
{
    struct set_head head = set->head;
    int rv;

    head.number = inode_body(inode);
    head.made_ns = t->op->time_ns;
    head.reserved = 0;
    if ((rv = txn_set_make(t, &head)) != 0) {
        return rv;
    }
    buf_clear(&t->ns->record);
    origin_encode(origin, &t->ns->record);
    txn_record_put(t, key_origin(head.number));
    return 0;
}

int apply_set_let_go(struct ns_txn *t)
{
    const struct data_set *set = sets_find(&t->ns->sets, t->op->set_let_go.set);
    enum unfinished_fate fate;
    struct origin origin;
    struct inode *inode;
    int rv;

    if (set == NULL) {
        return MORSEL_NODATA;
    }
    if ((rv = txn_set_file(t, set->head.inode, set->head.number, &inode)) != 0) {
        return rv;
    }
    fate = unfinished_fate(set, inode->size);
    if (fate == UNFINISHED_NOTHING || fate == UNFINISHED_STAYS) {
        return MORSEL_INVAL;
    }
    if (fate == UNFINISHED_RESTART &&
        (rv = ns_origin(t->ns, set->head.number, &origin, t->err)) != 0) {
        return rv;
    }
    if ((rv = txn_set_truncate(t, inode, 0)) != 0) {
        return rv;
    }
    txn_needs_version(t, STORE_VERSION_LET_GO);
    txn_change(t, inode);
    inode->size = 0;
    inode->flags &= ~(uint32_t)INODE_SPARSE;
    inode->mtime_ns = t->op->time_ns;
    inode->data_version++;
    t->op->target = inode->id;
    return fate == UNFINISHED_RESTART ? begin_from_origin(t, set, inode, &origin) : 0;
}
