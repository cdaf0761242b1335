/* What was reported of a file's bytes and is not known to be on the disks of its servers. */
#include "common/base/status.h"
#include "meta/namespace/namespace_txn.h"

#include <string.h>

int ns_unsynced(struct ns *ns, const struct inode *inode, struct buf *out, struct errmsg *err)
{
    struct record_key key = key_unsynced(inode->id);
    struct slice columns;
    int rv;

    if ((inode->flags & INODE_UNSYNCED) == 0) {
        return 0;
    }
    if ((rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err)) != 0 ||
        (rv = plain_decode(buf_slice(&ns->value), &columns)) != 0) {
        return rv == MORSEL_NOENT ? MORSEL_CORRUPT : rv;
    }
    if (columns.count % OP_UNSYNCED_BYTES != 0 || op_unsynced_count(columns) > OP_UNSYNCED_MAX) {
        return MORSEL_CORRUPT;
    }
    buf_put(out, columns.data, columns.count);
    return out->failed ? MORSEL_NOMEM : 0;
}

static size_t count_of(struct slice columns, uint32_t column)
{
    size_t count = 0;

    for (size_t i = 0; i < op_unsynced_count(columns); i++) {
        count += op_unsynced_at(columns, i).column == column;
    }
    return count;
}

static bool has(struct slice columns, struct unsynced_column wanted)
{
    for (size_t i = 0; i < op_unsynced_count(columns); i++) {
        struct unsynced_column c = op_unsynced_at(columns, i);

        if (c.column == wanted.column && c.verifier == wanted.verifier) {
            return true;
        }
    }
    return false;
}

static void write_back(struct ns_txn *t, struct inode *inode, const struct buf *columns)
{
    txn_keep(t, inode);
    if (columns->count > 0) {
        inode->flags |= INODE_UNSYNCED;
        txn_plain_put(t, key_unsynced(inode->id), buf_slice(columns));
    } else {
        inode->flags &= ~(uint32_t)INODE_UNSYNCED;
        txn_delete(t, key_unsynced(inode->id));
    }
}

/* Instead of all that the record names of the column. */
static void name_any(struct buf *columns, uint32_t column)
{
    size_t kept = 0;

    for (size_t i = 0; i < op_unsynced_count(buf_slice(columns)); i++) {
        uint8_t *at = columns->data + i * OP_UNSYNCED_BYTES;

        if (op_unsynced_at(buf_slice(columns), i).column != column) {
            memmove(columns->data + kept, at, OP_UNSYNCED_BYTES);
            kept += OP_UNSYNCED_BYTES;
        }
    }
    columns->count = kept;
    op_unsynced_put(columns, (struct unsynced_column){ column, VERIFIER_ANY });
}

/* Each verifier is kept: what was written under one may be lost, and told, before what was written
 * under the next. */
static void name(struct buf *columns, struct unsynced_column c)
{
    const struct unsynced_column any = { c.column, VERIFIER_ANY };

    if (has(buf_slice(columns), c) || has(buf_slice(columns), any)) {
        return;
    }
    if (c.verifier == VERIFIER_ANY ||
        count_of(buf_slice(columns), c.column) == UNSYNCED_VERIFIERS_MAX) {
        name_any(columns, c.column);
    } else {
        op_unsynced_put(columns, c);
    }
}

int txn_unsynced_add(struct ns_txn *t, struct inode *inode, struct slice columns)
{
    struct buf now;
    int rv;

    if (columns.count == 0) {
        return 0;
    }
    if (op_unsynced_count(columns) > OP_UNSYNCED_MAX) {
        return MORSEL_INVAL; /* Some are named twice. */
    }
    buf_init(&now);
    rv = ns_unsynced(t->ns, inode, &now, t->err);
    for (size_t i = 0; rv == 0 && i < op_unsynced_count(columns); i++) {
        struct unsynced_column c = op_unsynced_at(columns, i);

        if (c.column >= inode->layout.stripe.width) {
            rv = MORSEL_INVAL;
        } else {
            name(&now, c);
        }
    }
    if (rv == 0 && now.failed) {
        rv = MORSEL_NOMEM;
    }
    if (rv == 0) {
        write_back(t, inode, &now);
    }
    buf_free(&now);
    return rv;
}

int apply_synced(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct inode *inode;
    struct buf before, after;
    int rv;

    if (op_unsynced_count(op->synced.columns) > OP_UNSYNCED_MAX) {
        return MORSEL_INVAL;
    }
    if ((rv = txn_inode(t, op->synced.inode, &inode)) != 0) {
        return rv;
    }
    t->op->target = inode->id;
    if (op->synced.data_version != 0 && op->synced.data_version != inode->data_version) {
        return 0; /* More was reported since, and not synced. */
    }
    buf_init(&before);
    buf_init(&after);
    rv = ns_unsynced(t->ns, inode, &before, t->err);
    for (size_t i = 0; rv == 0 && i < op_unsynced_count(buf_slice(&before)); i++) {
        struct unsynced_column c = op_unsynced_at(buf_slice(&before), i);

        if (!has(op->synced.columns, c)) {
            op_unsynced_put(&after, c);
        }
    }
    if (rv == 0 && after.failed) {
        rv = MORSEL_NOMEM;
    }
    if (rv == 0 && after.count != before.count) {
        write_back(t, inode, &after);
    }
    buf_free(&before);
    buf_free(&after);
    return rv;
}
