/* Operations of the manager itself: members, garbage, repairs. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/lease_mode.h"
#include "meta/cluster/hours_record.h"
#include "meta/namespace/groups_record.h"
#include "meta/namespace/namespace_txn.h"
#include "meta/namespace/voters_record.h"

int apply_member(struct ns_txn *t)
{
    if (t->op->member.id == 0 ||
        (ns_is_removed(t->ns, t->op->member.id) && !t->op->member.removed)) {
        return MORSEL_INVAL;
    }
    buf_clear(&t->ns->record);
    member_encode(&t->op->member, &t->ns->record);
    txn_record_put(t, key_member(t->op->member.id));
    return 0;
}

/* Older programs cannot read the log with one in it. */
int apply_donor(struct ns_txn *t)
{
    if (t->op->donor.id == 0) {
        return MORSEL_INVAL;
    }
    buf_clear(&t->ns->record);
    donor_encode(&t->op->donor, &t->ns->record);
    txn_record_put(t, key_donor(t->op->donor.id));
    txn_needs_version(t, STORE_VERSION_DONORS);
    return 0;
}

int apply_donor_hours(struct ns_txn *t)
{
    if (t->op->hours.id == 0) {
        return MORSEL_INVAL;
    }
    buf_clear(&t->ns->record);
    hours_encode(&t->op->hours, &t->ns->record);
    txn_record_put(t, key_hours(t->op->hours.id));
    txn_needs_version(t, STORE_VERSION_HOURS);
    return 0;
}

bool ns_is_removed(const struct ns *ns, server_id server)
{
    for (uint32_t i = 0; i < ns->removed.count; i++) {
        if (ns->removed.ids[i] == server) {
            return true;
        }
    }
    return false;
}

void publish_member(struct ns *ns, const struct member_record *member)
{
    if (member->removed && !ns_is_removed(ns, member->id) && ns->removed.count < SERVERS_MAX) {
        ns->removed.ids[ns->removed.count++] = member->id;
    }
}

int apply_grantee(struct ns_txn *t)
{
    t->counters.grantee = t->op->grantee.client;
    return 0;
}

int apply_holder(struct ns_txn *t)
{
    struct record_key key = key_holder(t->op->holder.lease_epoch);
    uint8_t period[4];
    struct slice value = { NULL, 0 };

    put_le32(period, t->op->holder.lease_period_ms);
    if (t->op->holder.holds) {
        if (t->op->holder.lease_period_ms != 0 && t->op->holder.lease_period_ms != LEASE_MS) {
            value = (struct slice){ period, sizeof(period) };
        }
        txn_plain_put(t, key, value);
    } else {
        txn_delete(t, key);
        t->counters.lease_epochs_over++;
    }
    return 0;
}

/* Older programs would leave out sessions of their own. */
int apply_sessions(struct ns_txn *t)
{
    struct slice clients = t->op->sessions.clients;

    if (!op_sessions_sound(t->op)) {
        return MORSEL_INVAL;
    }
    for (size_t i = 0; i < op_sessions_count(clients); i++) {
        struct session_record record;
        client_id client = op_session_at(clients, i, &record.waited_ms);

        if (client != 0 && record.waited_ms == SESSION_STRUCK_OUT) {
            txn_delete(t, key_session(client));
            continue;
        }
        record.run = client == 0 ? t->op->sessions.run : 0;
        buf_clear(&t->ns->record);
        session_record_encode(&record, &t->ns->record);
        txn_record_put(t, key_session(client));
    }
    txn_needs_version(t, STORE_VERSION_SESSIONS);
    return 0;
}

int apply_voters(struct ns_txn *t)
{
    struct voters_record record;
    struct voter_seats seats;

    if (voters_record_decode(t->op->voters.record, &record, &seats) != 0) {
        return MORSEL_INVAL;
    }
    buf_clear(&t->ns->record);
    buf_put(&t->ns->record, t->op->voters.record.data, t->op->voters.record.count);
    txn_record_put(t, key_voters());
    return 0;
}

/* In effect when it is committed. From then on files may lie on groups, which older programs would take
 * for servers: they find a database that is newer than they are. */
int apply_groups(struct ns_txn *t)
{
    struct ns *ns = t->ns;

    if (groups_record_decode(t->op->groups.record, ns->groups_next) != 0 ||
        ns->groups_next->version < ns->groups->version) {
        return MORSEL_INVAL;
    }
    buf_clear(&ns->record);
    buf_put(&ns->record, t->op->groups.record.data, t->op->groups.record.count);
    txn_record_put(t, key_groups());
    txn_needs_version(t, STORE_VERSION_GROUPS);
    return 0;
}

void publish_groups(struct ns *ns)
{
    struct groups_record *before = ns->groups;

    ns->groups = ns->groups_next;
    ns->groups_next = before;
}

/* A loss of power may have taken back the newest operations, and the ids of the inodes that they
 * made. Clients and storage servers have seen these ids: another file must not get one. */
int apply_start(struct ns_txn *t)
{
    t->counters.inode_next += NS_START_GAP;
    return 0;
}

int apply_collected(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct slice list = op->objects.objects;
    size_t count = op_objects_count(list);

    if (count > OP_OBJECTS_MAX) {
        return MORSEL_INVAL;
    }
    for (size_t i = 0; i < count; i++) {
        struct object_id object = op_object_at(list, i);
        bool garbage;
        int rv = ns_is_garbage(t->ns, op->objects.server, object, &garbage, t->err);

        if (rv != 0 && (rv != MORSEL_AGAIN || kv_wants_enough(t->ns->kv))) {
            return rv;
        }
        /* A report that comes twice, or names an object twice, counts once. */
        if (garbage && !op_object_repeats(list, i)) {
            txn_delete(t, key_garbage(op->objects.server, object));
            t->counters.garbage--;
        }
    }
    return 0;
}

void txn_queue_object(struct ns_txn *t, server_id server, struct object_id object)
{
    if (ns_is_removed(t->ns, server)) {
        return; /* Nobody will ever ask for it. */
    }
    txn_plain_put(t, key_garbage(server, object), (struct slice){ NULL, 0 });
    t->counters.garbage++;
    garbage_floor_lower(&t->ns->floors, server, object); /* Too low, if this fails, is safe. */
}

int apply_garbage(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct slice list = op->objects.objects;
    size_t count = op_objects_count(list);

    if (count > OP_OBJECTS_MAX) {
        return MORSEL_INVAL;
    }
    for (size_t i = 0; i < count; i++) {
        struct object_id object = op_object_at(list, i);
        bool garbage;
        int rv = ns_is_garbage(t->ns, op->objects.server, object, &garbage, t->err);

        if (rv != 0 && (rv != MORSEL_AGAIN || kv_wants_enough(t->ns->kv))) {
            return rv;
        }
        if (!garbage && !op_object_repeats(list, i)) {
            txn_queue_object(t, op->objects.server, object);
        }
    }
    return 0;
}

/* ---- Repairs ---- */

static int repair_counts(struct ns_txn *t)
{
    struct inode *inode;
    int rv = txn_inode(t, t->op->repair.inode, &inode);

    if (rv == 0) {
        inode->nlink = t->op->repair.nlink;
        inode->entries = t->op->repair.entries;
        txn_change(t, inode);
    }
    return rv;
}

static int repair_parent(struct ns_txn *t)
{
    struct inode *inode;
    int rv = txn_inode(t, t->op->repair.inode, &inode);

    if (rv == 0) {
        inode->parent = t->op->repair.parent;
        txn_change(t, inode);
    }
    return rv;
}

/* Remove an entry, or give it the type of its inode. Counts are repaired when their turn comes. */
static int repair_dentry(struct ns_txn *t, bool remove)
{
    const struct meta_op *op = t->op;
    struct dentry dentry;
    struct inode *inode;
    int rv = txn_dentry_get(t, op->repair.parent, op->repair.name, &dentry);

    if (remove) {
        if (rv == MORSEL_CORRUPT) {
            dentry = (struct dentry){ INODE_NONE, 0 }; /* Unreadable: it goes all the same. */
            rv = 0;
        }
        if (rv == 0) {
            txn_dentry_delete(t, op->repair.parent, op->repair.name, &dentry);
        }
        return rv;
    }
    if (rv != 0 || (rv = txn_inode(t, dentry.inode, &inode)) != 0) {
        return rv;
    }
    txn_dentry_delete(t, op->repair.parent, op->repair.name, &dentry);
    dentry.type = mode_type(inode->mode);
    txn_dentry_put(t, op->repair.parent, op->repair.name, &dentry);
    return 0;
}

/* A nameless inode becomes "lost+INODE" in the root. The operation carries the name. */
static int repair_attach(struct ns_txn *t)
{
    const struct meta_op *op = t->op;
    struct inode *root, *inode;
    struct dentry dentry;
    int rv;

    if ((rv = txn_inode(t, INODE_ROOT, &root)) != 0 ||
        (rv = txn_inode(t, op->repair.inode, &inode)) != 0) {
        return rv;
    }
    rv = txn_dentry_get(t, INODE_ROOT, op->repair.name, &dentry);
    if (rv != MORSEL_NOENT) {
        return rv == 0 ? MORSEL_EXIST : rv;
    }
    dentry = (struct dentry){ inode->id, mode_type(inode->mode) };
    txn_dentry_put(t, INODE_ROOT, op->repair.name, &dentry);
    root->entries++;
    if (mode_is_directory(inode->mode)) {
        root->nlink++;
        inode->parent = INODE_ROOT;
    } else {
        inode->nlink = 1;
    }
    txn_change(t, inode);
    txn_change_entries(t, root);
    return 0;
}

/* MORSEL_NOENT: it is that of its file after all. */
static int repair_set(struct ns_txn *t)
{
    uint64_t number = t->op->repair.entries;
    const struct data_set *set = sets_find(&t->ns->sets, number);
    struct inode inode;
    int rv = set != NULL ? ns_inode(t->ns, set->head.inode, &inode, t->err) : MORSEL_NOENT;

    if (rv == 0 && inode_body(&inode) == number) {
        return MORSEL_NOENT;
    }
    return rv == 0 || rv == MORSEL_STALE ? txn_set_forget(t, number) : rv;
}

int apply_repair(struct ns_txn *t)
{
    const struct meta_op *op = t->op;

    switch (op->repair.what) {
    case REPAIR_COUNTS:
        return repair_counts(t);
    case REPAIR_DENTRY:
        return repair_dentry(t, true);
    case REPAIR_TYPE:
        return repair_dentry(t, false);
    case REPAIR_ATTACH:
        return repair_attach(t);
    case REPAIR_PARENT:
        return repair_parent(t);
    case REPAIR_COUNTERS:
        t->counters.inodes = op->repair.entries;
        return 0;
    case REPAIR_SET:
        return repair_set(t);
    case REPAIR_ORPHAN:
        txn_orphan_delete(t, op->repair.inode);
        return 0;
    }
    return MORSEL_INVAL;
}
