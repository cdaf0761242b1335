/* Two files exchange their bytes, and whose objects are whose.
 *
 * The objects of a file are called by the number of the inode for which they were made, its body. So a
 * file whose bytes have been copied into another layout has the body of the file into which they were
 * copied, and that one, which has no name and is collected soon, has the old one. No number of an
 * object is ever used again: a deletion that comes late, or twice, meets nobody's bytes but those that
 * it was meant for. */
#include "common/base/status.h"
#include "meta/namespace/namespace_txn.h"

/* Flags that go with the bytes. */
static const uint32_t flags_of_bytes = INODE_SPARSE | INODE_TAILED;

/* `with` has no name: nobody but who made it knows it. Unsynced bytes are known by column. Who writes the file meanwhile,
 * or has just closed it, makes that differ for a while. */
static int may_exchange(const struct inode *inode, const struct inode *with)
{
    if (inode->id == with->id || !mode_is_regular(inode->mode) || !mode_is_regular(with->mode) ||
        with->nlink != 0) {
        return MORSEL_INVAL;
    }
    if (inode_is_scavenged(inode) || inode_is_scavenged(with)) {
        return MORSEL_NOTSUP; /* A data set has its file in its head. */
    }
    return inode->size != with->size || ((inode->flags | with->flags) & INODE_UNSYNCED) != 0
               ? MORSEL_BUSY
               : MORSEL_OK;
}

static void give_body(struct inode *inode, inode_id body)
{
    inode->body = body == inode->id ? INODE_NONE : body;
}

/* What differs is written; the file whose own number its objects have needs no record. */
static void write_body(struct ns_txn *t, const struct inode *inode)
{
    if (inode->body == INODE_NONE) {
        txn_delete(t, key_body(inode->id));
    } else {
        buf_clear(&t->ns->record);
        body_owner_encode(inode->id, &t->ns->record);
        txn_record_put(t, key_body(inode->body));
    }
}

static void exchange(struct inode *a, struct inode *b)
{
    struct inode before = *a;
    inode_id body = inode_body(a);

    a->layout = b->layout;
    a->reach = b->reach;
    a->tail = b->tail;
    a->flags = (a->flags & ~flags_of_bytes) | (b->flags & flags_of_bytes);
    give_body(a, inode_body(b));
    b->layout = before.layout;
    b->reach = before.reach;
    b->tail = before.tail;
    b->flags = (b->flags & ~flags_of_bytes) | (before.flags & flags_of_bytes);
    give_body(b, body);
}

int apply_exchange(struct ns_txn *t)
{
    struct inode *inode, *with;
    int rv;

    if ((rv = txn_inode(t, t->op->exchange.inode, &inode)) != 0 ||
        (rv = txn_inode(t, t->op->exchange.with, &with)) != 0) {
        return rv;
    }
    if ((rv = may_exchange(inode, with)) != 0) {
        return rv;
    }
    t->op->target = inode->id;
    txn_change(t, inode);
    txn_change(t, with);
    exchange(inode, with);
    write_body(t, inode);
    write_body(t, with);
    txn_needs_version(t, STORE_VERSION_BODIES);
    return 0;
}

int ns_object_file(struct ns *ns, inode_id body, struct inode *inode, struct errmsg *err)
{
    struct record_key key = key_body(body);
    inode_id file = body;
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    if (rv == 0) {
        rv = body_owner_decode(buf_slice(&ns->value), &file);
    } else if (rv == MORSEL_NOENT) {
        rv = 0;
    }
    if (rv == 0) {
        rv = ns_inode(ns, file, inode, err);
    }
    return rv == 0 && inode_body(inode) != body ? MORSEL_STALE : rv;
}
