/* Where the bytes of data sets come from (common/fs/origin.h), and who goes on storing one that was interrupted.
 *
 * A set with an origin is not sealed before it is all that the origin has. Until then whoever says the same origin again stores it
 * from there on: the one who did before is refused from that operation on, as the map knows one writer. That he has ended, or has
 * closed the file, is what the manager's host looks at (handlers_origin_uv.c). */
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "meta/namespace/namespace_txn.h"

#include <string.h>

int ns_origin(struct ns *ns, uint64_t set, struct origin *origin, struct errmsg *err)
{
    struct record_key key = key_origin(set);
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    if (rv == 0 && (rv = origin_decode(buf_slice(&ns->value), origin)) != 0) {
        errmsg_set(err, "the record of the origin of data set %llu cannot be read: %s",
                   (unsigned long long)set, status_words(rv));
    }
    return rv;
}

void txn_origin_forget(struct ns_txn *t, const struct set_head *head)
{
    if (head->has_origin) {
        txn_delete(t, key_origin(head->number));
    }
}

int txn_origin_complete(struct ns_txn *t, const struct set_head *head, uint64_t size,
                        bool *complete)
{
    struct set_range missing;
    struct origin origin;
    int rv;

    *complete = true;
    if (!head->has_origin) {
        return 0;
    }
    if ((rv = ns_origin(t->ns, head->number, &origin, t->err)) != 0) {
        return rv;
    }
    *complete = size == origin.size && !set_missing(sets_find(&t->ns->sets, head->number),
                                                    head->morsel_bytes, 0, size, &missing);
    return 0;
}

/* May the origin of the set become this one? It is what it was; or its size has become known, at the end of a download. */
static int check_origin(struct ns_txn *t, const struct set_head *head, const struct inode *inode,
                        const struct origin *origin)
{
    const struct data_set *set = sets_find(&t->ns->sets, head->number);
    struct origin before;
    int rv;

    if (!head->has_origin) {
        if (inode->size == 0 && (set == NULL || set->morsels == 0)) {
            return 0;
        }
        errmsg_set(t->err, "the file has bytes that come from elsewhere: truncate it to zero");
        return MORSEL_EXIST;
    }
    if ((rv = ns_origin(t->ns, head->number, &before, t->err)) != 0) {
        return rv;
    }
    if (before.size == ORIGIN_SIZE_UNKNOWN) {
        before.size = origin->size;
    }
    if (before.size != origin->size || before.modified_s != origin->modified_s ||
        strcmp(before.etag, origin->etag) != 0 || strcmp(before.url, origin->url) != 0) {
        errmsg_set(t->err, "the file has another origin: truncate it to zero");
        return MORSEL_EXIST;
    }
    return 0;
}

int apply_set_origin(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct origin origin;
    struct set_head head;
    struct inode *inode;
    int rv = txn_set_file(t, op->set_origin.inode, op->set_origin.set, &inode);

    if (rv != 0) {
        return rv;
    }
    head = txn_set_head_of(t, inode);
    if (head.sealed) {
        errmsg_set(t->err, "the file is a data set that is complete");
        return MORSEL_PERM;
    }
    if (origin_decode(op->set_origin.record, &origin) != 0) {
        return MORSEL_INVAL;
    }
    if ((rv = check_origin(t, &head, inode, &origin)) != 0 || (rv = txn_set_make(t, &head)) != 0) {
        return rv;
    }
    head.writer = op->client;
    head.has_origin = true;
    head.reserved = 0; /* The origin says how large it is to be. */
    head.fetched = origin_stands_in(&origin);
    txn_set_head(t, &head);
    buf_clear(&t->ns->record);
    origin_encode(&origin, &t->ns->record);
    txn_record_put(t, key_origin(head.number));
    txn_needs_version(t, origin_is_inside(&origin) ? STORE_VERSION_INSIDE : STORE_VERSION_ORIGINS);
    txn_change(t, inode);
    t->op->target = inode->id;
    return 0;
}
