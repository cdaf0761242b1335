/* What an operation reads and writes until it is committed as one batch. */
#include "meta/namespace/namespace_txn.h"

#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"

#include <string.h>

/* ---- Inodes ---- */

static struct txn_slot *slot_of(struct inode *inode)
{
    return CONTAINER_OF(inode, struct txn_slot, inode);
}

int txn_inode(struct ns_txn *t, inode_id id, struct inode **inode_out)
{
    struct txn_slot *slot;
    int rv;

    *inode_out = NULL;
    for (uint32_t i = 0; i < t->slot_count; i++) {
        if (t->slots[i].inode.id == id) {
            *inode_out = &t->slots[i].inode;
            return t->slots[i].state == SLOT_REMOVED ? MORSEL_STALE : 0;
        }
    }
    CHECK(t->slot_count < TXN_INODES_MAX);
    slot = &t->slots[t->slot_count];
    if ((rv = ns_inode(t->ns, id, &slot->inode, t->err)) != 0) {
        return rv;
    }
    slot->state = SLOT_CLEAN;
    t->slot_count++;
    *inode_out = &slot->inode;
    return 0;
}

int txn_directory(struct ns_txn *t, inode_id id, struct inode **inode_out)
{
    int rv = txn_inode(t, id, inode_out);

    if (rv != 0) {
        return rv;
    }
    if (!mode_is_directory((*inode_out)->mode)) {
        return MORSEL_NOTDIR;
    }
    return (*inode_out)->nlink == 0 ? MORSEL_NOENT : 0; /* Removed, and still open somewhere. */
}

struct inode *txn_inode_new(struct ns_txn *t)
{
    struct txn_slot *slot = &t->slots[t->slot_count++];

    CHECK(t->slot_count <= TXN_INODES_MAX);
    memset(slot, 0, sizeof(*slot));
    slot->state = SLOT_DIRTY;
    slot->inode.id = t->counters.inode_next++;
    slot->inode.version = 1;
    t->counters.inodes++;
    return &slot->inode;
}

void txn_tail_is_clean(const struct ns_txn *t, struct inode *inode)
{
    inode->flags |= INODE_TAILED;
    inode->tail = t->counters.lease_epochs_over;
}

void txn_change(struct ns_txn *t, struct inode *inode)
{
    struct txn_slot *slot = slot_of(inode);

    CHECK(slot >= t->slots && slot < t->slots + t->slot_count);
    CHECK(slot->state != SLOT_REMOVED);
    if (slot->state == SLOT_CLEAN) {
        slot->state = SLOT_DIRTY;
        inode->version++;
    }
    inode->ctime_ns = t->op->time_ns;
}

void txn_keep(struct ns_txn *t, struct inode *inode)
{
    struct txn_slot *slot = slot_of(inode);

    CHECK(slot >= t->slots && slot < t->slots + t->slot_count);
    if (slot->state == SLOT_CLEAN) {
        slot->state = SLOT_DIRTY;
    }
}

void txn_change_entries(struct ns_txn *t, struct inode *directory)
{
    txn_change(t, directory);
    directory->mtime_ns = t->op->time_ns;
}

/* ---- Records ---- */

void txn_delete(struct ns_txn *t, struct record_key key)
{
    kv_batch_delete(&t->ns->batch, record_key_slice(&key));
}

void txn_record_put(struct ns_txn *t, struct record_key key)
{
    struct buf *record = &t->ns->record;

    t->ns->batch.bytes.failed |= record->failed;
    kv_batch_put(&t->ns->batch, record_key_slice(&key), buf_slice(record));
}

void txn_needs_version(struct ns_txn *t, uint32_t store_version)
{
    struct super super = t->ns->super;

    if (t->store_version < store_version) {
        t->store_version = super.store_version = store_version;
        buf_clear(&t->ns->record);
        super_encode(&super, &t->ns->record);
        txn_record_put(t, key_super());
    }
}

void txn_plain_put(struct ns_txn *t, struct record_key key, struct slice value)
{
    buf_clear(&t->ns->record);
    plain_encode(value, &t->ns->record);
    txn_record_put(t, key);
}

int txn_dentry_get(struct ns_txn *t, inode_id parent, struct slice name, struct dentry *dentry)
{
    struct record_key key = key_dentry(parent, name);
    int rv = t->ns->kv->get(t->ns->kv, record_key_slice(&key), &t->ns->value, t->err);

    if (rv == 0 && (rv = dentry_decode(buf_slice(&t->ns->value), dentry)) != 0) {
        errmsg_set(t->err, "directory entry of inode %llu is damaged", (unsigned long long)parent);
    }
    return rv;
}

static void note_name(struct ns_txn *t, inode_id parent, struct slice name,
                      const struct dentry *dentry, int change)
{
    CHECK(t->name_count < TXN_NAMES_MAX);
    t->names[t->name_count++] = (struct txn_name){ parent, name, *dentry, change };
}

void txn_dentry_put(struct ns_txn *t, inode_id parent, struct slice name,
                    const struct dentry *dentry)
{
    buf_clear(&t->ns->record);
    dentry_encode(dentry, &t->ns->record);
    txn_record_put(t, key_dentry(parent, name));
    note_name(t, parent, name, dentry, 1);
}

void txn_dentry_delete(struct ns_txn *t, inode_id parent, struct slice name,
                       const struct dentry *dentry)
{
    txn_delete(t, key_dentry(parent, name));
    note_name(t, parent, name, dentry, -1);
}

void txn_orphan_put(struct ns_txn *t, inode_id inode)
{
    txn_plain_put(t, key_orphan(inode), (struct slice){ NULL, 0 });
    t->counters.orphans++;
}

void txn_orphan_delete(struct ns_txn *t, inode_id inode)
{
    txn_delete(t, key_orphan(inode));
    t->counters.orphans--;
}

/* ---- Decisions ---- */

bool txn_in_group(struct ns_txn *t, uint32_t gid)
{
    struct meta_op *op = t->op;

    if (t->replay) {
        return op->in_group;
    }
    op->in_group =
        op->who.uid == UID_ROOT || credentials_in_group(&op->who, gid) == VERDICT_GRANTED;
    return op->in_group;
}

static int name_check(struct slice name)
{
    if (name.count > NAME_BYTES_MAX) {
        return MORSEL_NAMETOOLONG;
    }
    if (name.count == 0 || memchr(name.data, '/', name.count) != NULL ||
        memchr(name.data, 0, name.count) != NULL) {
        return MORSEL_INVAL;
    }
    return 0;
}

int name_check_new(struct slice name)
{
    int rv = name_check(name);

    if (rv == 0 && (slice_equal(name, slice_text(".")) || slice_equal(name, slice_text("..")))) {
        return MORSEL_EXIST;
    }
    return rv;
}

int name_check_old(struct slice name)
{
    int rv = name_check(name);

    if (rv == 0 && slice_equal(name, slice_text("."))) {
        return MORSEL_INVAL;
    }
    return rv == 0 && slice_equal(name, slice_text("..")) ? MORSEL_NOTEMPTY : rv;
}

/* ---- The end of an operation ---- */

static void write_inodes(struct ns_txn *t)
{
    struct ns *ns = t->ns;

    for (uint32_t i = 0; i < t->slot_count; i++) {
        struct inode *inode = &t->slots[i].inode;

        if (t->slots[i].state == SLOT_DIRTY) {
            buf_clear(&ns->record);
            inode_encode(inode, &ns->record);
            txn_record_put(t, key_inode(inode->id));
        } else if (t->slots[i].state == SLOT_REMOVED) {
            txn_delete(t, key_inode(inode->id));
        }
    }
}

/* What is being logged can be read again. Otherwise the manager would never start again: better
 * that one caller is refused. Each operation is to be checked by what applies it, so this one does
 * not know what is wrong with it. */
static bool is_readable(struct ns_txn *t)
{
    struct ns *ns = t->ns;
    struct meta_op back;

    if (ns->record.failed || op_decode(buf_slice(&ns->record), &back) == 0) {
        return true;
    }
    ns->unreadable++;
    errmsg_set(t->err, "the log cannot hold this operation (%s)", op_kind_name(t->op->kind));
    return false;
}

/* The operation itself and the counters. Each operation drops the one NS_LOG_KEPT before it.
 * MORSEL_INVAL: it cannot be logged. */
static int write_log(struct ns_txn *t)
{
    struct ns *ns = t->ns;

    t->counters.sequence++;
    buf_clear(&ns->record);
    op_encode(t->op, &ns->record);
    if (!is_readable(t)) {
        return MORSEL_INVAL;
    }
    txn_record_put(t, key_log(t->counters.sequence));
    if (t->counters.sequence > NS_LOG_KEPT) {
        txn_delete(t, key_log(t->counters.sequence - NS_LOG_KEPT));
    }
    buf_clear(&ns->record);
    counters_encode(&t->counters, &ns->record);
    txn_record_put(t, key_counters());
    return 0;
}

/* What was committed becomes visible. */
static void publish(struct ns_txn *t)
{
    struct ns *ns = t->ns;

    ns->counters = t->counters;
    if (t->op->kind == OP_FORMAT) {
        ns->super = super_of_format(t->op);
    } else {
        ns->super.store_version = t->store_version;
    }
    if (t->op->kind == OP_GROUPS) {
        publish_groups(ns);
    }
    if (t->op->kind == OP_MEMBER) {
        publish_member(ns, &t->op->member);
    }
    publish_sets(t);
    for (uint32_t i = 0; i < t->slot_count; i++) {
        if (t->slots[i].state == SLOT_DIRTY) {
            inode_cache_put(ns->cache, &t->slots[i].inode);
        } else if (t->slots[i].state == SLOT_REMOVED) {
            inode_cache_remove(ns->cache, t->slots[i].inode.id);
        }
    }
    for (uint32_t i = 0; i < t->name_count && ns->hooks.name_changed != NULL; i++) {
        const struct txn_name *n = &t->names[i];

        ns->hooks.name_changed(ns->hooks.data, n->parent, n->name, &n->dentry, n->change);
    }
}

/* Who is alive, who votes, who holds what together and who may have leases or files open is written down even while changes have to wait: a
 * few bytes, seldom, and not to be done again later. So are copies of morsels, of which few
 * are made at a time, and what is evicted to make room. For a benefactor there was room a moment ago (handlers_donor_uv.c). */
static bool needs_room(const struct meta_op *op)
{
    return op->kind != OP_MEMBER && op->kind != OP_HOLDER && op->kind != OP_VOTERS &&
           op->kind != OP_GROUPS && op->kind != OP_SESSIONS && op->kind != OP_DONOR &&
           op->kind != OP_SET_COPY && op->kind != OP_SET_EVICT;
}

static int commit(struct ns_txn *t)
{
    struct ns *ns = t->ns;
    int rv;

    if (kv_wants(ns->kv)) {
        return MORSEL_AGAIN; /* Whatever was made of it. */
    }
    if (needs_room(t->op) && (rv = kv_room(ns->kv)) != 0) {
        return rv;
    }
    write_inodes(t);
    if ((rv = write_log(t)) != 0) {
        return rv;
    }
    if (ns->batch.bytes.failed) {
        return MORSEL_NOMEM; /* Nothing was written. */
    }
    if ((rv = ns->kv->commit(ns->kv, &ns->batch, false, t->err)) != 0) {
        errmsg_wrap(t->err, "write operation %llu (%s)", (unsigned long long)t->counters.sequence,
                    op_kind_name(t->op->kind));
        ns->broken = rv;
        return rv;
    }
    publish(t);
    return 0;
}

static int apply(struct ns_txn *t)
{
    static int (*const appliers[OP_KIND_END])(struct ns_txn *) = {
        [OP_FORMAT] = apply_format,
        [OP_CREATE] = apply_make,
        [OP_UNLINK] = apply_unlink,
        [OP_RENAME] = apply_rename,
        [OP_LINK] = apply_link,
        [OP_SETATTR] = apply_setattr,
        [OP_SIZE_REPORT] = apply_size_report,
        [OP_XATTR] = apply_xattr,
        [OP_POLICY] = apply_policy,
        [OP_COLLECT] = apply_collect,
        [OP_COLLECTED] = apply_collected,
        [OP_MEMBER] = apply_member,
        [OP_DONOR] = apply_donor,
        [OP_DONOR_HOURS] = apply_donor_hours,
        [OP_SET_STORED] = apply_set_stored,
        [OP_SET_SEAL] = apply_set_seal,
        [OP_SET_ORIGIN] = apply_set_origin,
        [OP_SET_COLLECTED] = apply_set_collected,
        [OP_SET_LOST] = apply_set_lost,
        [OP_SET_COPY] = apply_set_copy,
        [OP_SET_USED] = apply_set_used,
        [OP_SET_EVICT] = apply_set_evict,
        [OP_SET_MARK] = apply_set_mark,
        [OP_SET_RESERVE] = apply_set_reserve,
        [OP_SET_LET_GO] = apply_set_let_go,
        [OP_DONOR_FORGET] = apply_donor_forget,
        [OP_GARBAGE] = apply_garbage,
        [OP_REPAIR] = apply_repair,
        [OP_GRANTEE] = apply_grantee,
        [OP_START] = apply_start,
        [OP_SYNCED] = apply_synced,
        [OP_HOLDER] = apply_holder,
        [OP_VOTERS] = apply_voters,
        [OP_GROUPS] = apply_groups,
        [OP_SESSIONS] = apply_sessions,
        [OP_SET_LAYOUT] = apply_set_layout,
        [OP_EXCHANGE] = apply_exchange,
    };

    CHECK(op_kind_known(t->op->kind));
    if (ns_formatted(t->ns) == (t->op->kind == OP_FORMAT)) {
        return MORSEL_INVAL;
    }
    return appliers[t->op->kind](t);
}

static int run(struct ns *ns, struct meta_op *op, bool replay, struct errmsg *err)
{
    struct ns_txn t;
    int rv;

    if (ns->broken != 0) {
        errmsg_set(err, "the database could not be written; see the manager's log");
        return ns->broken;
    }
    t.ns = ns;
    t.op = op;
    t.replay = replay;
    t.err = err;
    t.counters = ns->counters;
    t.store_version = ns->super.store_version;
    t.set_made.number = t.set_changed.number = 0;
    t.slot_count = t.name_count = t.sets_gone_count = 0;
    ns->notes.change_count = ns->notes.waste_count = 0;
    kv_batch_clear(&ns->batch);
    rv = apply(&t);
    return rv != 0 ? rv : commit(&t);
}

int ns_execute(struct ns *ns, struct meta_op *op, struct errmsg *err)
{
    op->in_group = false;
    op->open = false;
    op->deleted = false;
    op->target = INODE_NONE;
    return run(ns, op, false, err);
}

int ns_replay(struct ns *ns, struct meta_op *op, struct errmsg *err)
{
    int rv = run(ns, op, true, err);

    if (rv != 0 && ns->broken == 0 && rv != MORSEL_NOMEM) {
        errmsg_wrap(err, "operation %llu (%s) of the log does not fit the state: %s",
                    (unsigned long long)ns->counters.sequence + 1, op_kind_name(op->kind),
                    status_words(rv));
        return MORSEL_CORRUPT;
    }
    return rv;
}
