/* Reading ranges of records: attributes, garbage, orphans, members, files of one server, the log. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/lease_mode.h"
#include "meta/cluster/hours_record.h"
#include "meta/coherence/lease.h"
#include "meta/coherence/session.h"
#include "meta/namespace/namespace_txn.h"
#include "meta/namespace/voters_record.h"

/* ---- Extended attributes ---- */

int ns_xattr_get(struct ns *ns, inode_id id, struct slice name, struct buf *out, struct errmsg *err)
{
    struct inode inode;
    struct slice value;
    int rv;

    if (name.count == 0 || name.count > XATTR_NAME_BYTES_MAX) {
        return MORSEL_RANGE;
    }
    if ((rv = ns_inode(ns, id, &inode, err)) != 0) {
        return rv;
    }
    if ((inode.flags & INODE_HAS_XATTR) == 0) {
        return MORSEL_NODATA;
    }
    if ((rv = ns_plain_get(ns, key_xattr(id, name), &value, err)) != 0) {
        return rv == MORSEL_NOENT ? MORSEL_NODATA : rv;
    }
    buf_put(out, value.data, value.count);
    return out->failed ? MORSEL_NOMEM : 0;
}

struct xattr_walk
{
    inode_id inode;
    struct buf *out;
};

static bool visit_xattr(void *data, struct slice key, struct slice value)
{
    struct xattr_walk *walk = data;
    struct slice name;
    inode_id inode;

    (void)value;
    if (!key_name_parse(key, RECORD_XATTR, &inode, &name) || inode != walk->inode) {
        return false;
    }
    buf_put(walk->out, name.data, name.count);
    buf_put_u8(walk->out, 0);
    return true;
}

int ns_xattr_list(struct ns *ns, inode_id id, struct buf *out, struct errmsg *err)
{
    struct xattr_walk walk = { id, out };
    struct record_key key = key_xattr(id, (struct slice){ NULL, 0 });
    struct inode inode;
    int rv = ns_inode(ns, id, &inode, err);

    if (rv != 0 || (inode.flags & INODE_HAS_XATTR) == 0) {
        return rv;
    }
    rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_xattr, &walk, err);
    return rv == 0 && out->failed ? MORSEL_NOMEM : rv;
}

/* ---- Garbage and orphans ---- */

struct garbage_walk
{
    server_id server;
    struct object_id *objects;
    uint32_t count, count_max;
};

static bool visit_garbage(void *data, struct slice key, struct slice value)
{
    struct garbage_walk *walk = data;
    struct object_id object;
    server_id server;

    (void)value;
    if (walk->count == walk->count_max || !key_garbage_parse(key, &server, &object) ||
        server != walk->server) {
        return false;
    }
    walk->objects[walk->count++] = object;
    return true;
}

int ns_garbage(struct ns *ns, server_id server, struct object_id *objects, uint32_t count_max,
               uint32_t *count, struct errmsg *err)
{
    struct garbage_walk walk = { server, objects, 0, count_max };
    struct object_id from;
    int rv = 0;

    if (ns->counters.garbage > 0 && garbage_floor_from(&ns->floors, server, &from)) {
        struct record_key key = key_garbage(server, from);

        rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_garbage, &walk, err);
        if (rv == 0 && count_max > 0) {
            garbage_floor_found(&ns->floors, server, walk.count == 0 ? NULL : objects);
        }
    }
    *count = walk.count;
    return rv;
}

/* Is there a record `key`? */
static int record_exists(struct ns *ns, struct record_key key, bool *exists, struct errmsg *err)
{
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    *exists = rv == 0;
    return rv == MORSEL_NOENT ? 0 : rv;
}

int ns_is_garbage(struct ns *ns, server_id server, struct object_id object, bool *garbage,
                  struct errmsg *err)
{
    return record_exists(ns, key_garbage(server, object), garbage, err);
}

int ns_is_orphan(struct ns *ns, inode_id inode, bool *orphan, struct errmsg *err)
{
    *orphan = false;
    return ns->counters.orphans == 0 ? 0 : record_exists(ns, key_orphan(inode), orphan, err);
}

struct orphan_walk
{
    inode_id *inodes;
    uint32_t count, count_max;
};

static bool visit_orphan(void *data, struct slice key, struct slice value)
{
    struct orphan_walk *walk = data;
    inode_id inode;

    (void)value;
    if (walk->count == walk->count_max || !key_inode_parse(key, RECORD_ORPHAN, &inode)) {
        return false;
    }
    walk->inodes[walk->count++] = inode;
    return true;
}

int ns_orphans(struct ns *ns, inode_id from, inode_id *inodes, uint32_t count_max, uint32_t *count,
               struct errmsg *err)
{
    struct orphan_walk walk = { inodes, 0, count_max };
    struct record_key key = key_orphan(from);
    int rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_orphan, &walk, err);

    *count = walk.count;
    return rv;
}

/* ---- Members and the log ---- */

struct member_walk
{
    struct member_record *members;
    uint32_t count;
    int status;
};

static bool visit_member(void *data, struct slice key, struct slice value)
{
    struct member_walk *walk = data;
    struct reader r;
    server_id id;

    if (key.count != 5 || key.data[0] != RECORD_MEMBER || walk->count == SERVERS_MAX) {
        return false;
    }
    reader_init(&r, key.data + 1, 4);
    id = __builtin_bswap32(reader_u32(&r));
    walk->status =
        id == 0 ? MORSEL_CORRUPT : member_decode(id, value, &walk->members[walk->count++]);
    return walk->status == 0;
}

int ns_members(struct ns *ns, struct member_record *members, uint32_t *count, struct errmsg *err)
{
    struct member_walk walk = { members, 0, 0 };
    struct record_key key = key_member(0);
    int rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_member, &walk, err);

    *count = walk.count;
    if (rv == 0 && walk.status != 0) {
        errmsg_set(err, walk.status == MORSEL_VERSION
                            ? "the record of a storage server is of a newer version: use a newer "
                              "morsel-meta"
                            : "the record of a storage server is damaged");
        return walk.status;
    }
    return rv;
}

struct donor_walk
{
    ns_donor_visit visit;
    void *data;
    int status;
};

static bool key_of_donor(struct slice key, enum record_kind kind, donor_id *id)
{
    struct reader r;

    if (key.count != 5 || key.data[0] != kind) {
        return false;
    }
    reader_init(&r, key.data + 1, 4);
    *id = __builtin_bswap32(reader_u32(&r));
    return true;
}

static bool visit_donor(void *data, struct slice key, struct slice value)
{
    struct donor_walk *walk = data;
    struct donor_record record;
    donor_id id;

    if (!key_of_donor(key, RECORD_DONOR, &id)) {
        return false;
    }
    walk->status = id == 0 ? MORSEL_CORRUPT : donor_decode(id, value, &record);
    if (walk->status == 0) {
        walk->status = walk->visit(walk->data, &record);
    }
    return walk->status == 0;
}

int ns_donors(struct ns *ns, ns_donor_visit visit, void *data, struct errmsg *err)
{
    struct donor_walk walk = { visit, data, 0 };
    struct record_key key = key_donor(1);
    int rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_donor, &walk, err);

    if (rv == 0 && walk.status != 0 && walk.status != MORSEL_NOMEM) {
        errmsg_set(err, walk.status == MORSEL_VERSION
                            ? "the record of a benefactor is of a newer version: use a newer "
                              "morsel-meta"
                            : "the record of a benefactor is damaged");
    }
    return rv != 0 ? rv : walk.status;
}

struct hours_walk
{
    ns_hours_visit visit;
    void *data;
    int status;
};

/* What is damaged says nothing: it is learned anew. */
static bool visit_hours(void *data, struct slice key, struct slice value)
{
    struct hours_walk *walk = data;
    struct hours_record record;
    donor_id id;

    if (!key_of_donor(key, RECORD_HOURS, &id)) {
        return false;
    }
    if (hours_decode(id, value, &record) == 0) {
        walk->status = walk->visit(walk->data, &record);
    }
    return walk->status == 0;
}

int ns_hours(struct ns *ns, ns_hours_visit visit, void *data, struct errmsg *err)
{
    struct hours_walk walk = { visit, data, 0 };
    struct record_key key = key_hours(0);
    int rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_hours, &walk, err);

    return rv != 0 ? rv : walk.status;
}

/* ---- What would be lost with a server ---- */

struct lying_walk
{
    server_id server;
    uint32_t records, records_max;
    inode_id last; /* That was looked at. */
    struct ns_lying lying;
    int status;
};

static void add_lying(struct ns_lying *lying, const struct inode *inode, server_id server)
{
    const struct file_layout *layout = &inode->layout;
    uint64_t end = inode->size > inode->reach ? inode->size : inode->reach, bytes = 0;
    bool there = false;

    for (uint32_t i = 0; i < layout->stripe.width; i++) {
        if (layout->servers[i] == server) {
            there = true;
            bytes += stripe_object_size(&layout->stripe, i, end);
        }
    }
    lying->files += there;
    lying->bytes += bytes;
    if (bytes > 0 && lying->holding++ < NS_LYING_SHOWN) {
        lying->shown[lying->holding - 1] = inode->id;
    }
}

static bool visit_lying(void *data, struct slice key, struct slice value)
{
    struct lying_walk *walk = data;
    struct inode inode;
    inode_id id;

    if (!key_inode_parse(key, RECORD_INODE, &id)) {
        return false;
    }
    if (walk->records == walk->records_max) {
        walk->lying.next = id;
        return false;
    }
    walk->last = id;
    walk->status = inode_decode(id, value, &inode);
    if (walk->status != 0) {
        return false;
    }
    if (inode.layout.stripe.width > 0 && inode.layout.replicas == 1) {
        add_lying(&walk->lying, &inode, walk->server);
    }
    walk->records++;
    return true;
}

int ns_lying_on(struct ns *ns, server_id server, uint32_t records_max, struct ns_lying *lying,
                struct errmsg *err)
{
    struct lying_walk walk = { .server = server, .records_max = records_max, .lying = *lying };
    struct record_key key = key_inode(lying->next);
    int rv;

    walk.lying.next = INODE_NONE;
    rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_lying, &walk, err);
    if (rv == MORSEL_AGAIN && walk.records > 0) {
        walk.lying.next = walk.last + 1; /* A short step; the next one wants the same again. */
        kv_wanted_clear(ns->kv->wanted);
        rv = 0;
    }
    if (rv == 0 && walk.status != 0) {
        errmsg_set(err, "the record of inode %llu is damaged: `morsel fsck` says more",
                   (unsigned long long)walk.last);
        rv = walk.status;
    }
    if (rv == 0) {
        *lying = walk.lying;
    }
    return rv;
}

int ns_voters(struct ns *ns, struct voters_record *record, struct voter_seats *seats,
              struct errmsg *err)
{
    struct record_key key = key_voters();
    int rv = ns->kv->get(ns->kv, record_key_slice(&key), &ns->value, err);

    if (rv != 0) {
        return rv;
    }
    rv = voters_record_decode(buf_slice(&ns->value), record, seats);
    if (rv == MORSEL_VERSION) {
        errmsg_set(err, "the record of the voter set is of a newer version: use a newer "
                        "morsel-meta");
    } else if (rv != 0) {
        errmsg_set(err, "the record of the voter set is damaged: restore the manager's database "
                        "from a backup");
    }
    return rv;
}

struct holder_walk
{
    struct lease_epoch_kept *lease_epochs;
    uint32_t count, count_max;
};

/* A record without a lease period, or one that is damaged, is waited for all the same. */
static uint32_t lease_period_of(struct slice record)
{
    struct slice value;
    uint32_t lease_period_ms;

    if (plain_decode(record, &value) != 0 || value.count != sizeof(lease_period_ms)) {
        return LEASE_MS;
    }
    lease_period_ms = get_le32(value.data);
    return lease_period_ms == 0 || lease_period_ms > LEASE_MS_MAX ? LEASE_MS_MAX : lease_period_ms;
}

static bool visit_holder(void *data, struct slice key, struct slice value)
{
    struct holder_walk *walk = data;
    struct lease_epoch_kept *kept = &walk->lease_epochs[walk->count];

    if (walk->count == walk->count_max ||
        !key_inode_parse(key, RECORD_HOLDER, &kept->lease_epoch)) {
        return false;
    }
    kept->lease_period_ms = lease_period_of(value);
    walk->count++;
    return true;
}

int ns_holders(struct ns *ns, struct lease_epoch_kept *lease_epochs, uint32_t count_max,
               uint32_t *count, struct errmsg *err)
{
    struct holder_walk walk = { lease_epochs, 0, count_max };
    struct record_key key = key_holder(0);
    int rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_holder, &walk, err);

    *count = walk.count;
    return rv;
}

struct session_walk
{
    struct session_kept *sessions;
    uint32_t count, count_max;
    uint64_t run;
};

/* One that is damaged is waited for as one that was here; without the run others may be missing. */
static bool visit_session(void *data, struct slice key, struct slice value)
{
    struct session_walk *walk = data;
    struct session_record record;
    client_id client;

    if (!key_inode_parse(key, RECORD_SESSION, &client)) {
        return false;
    }
    if (session_record_decode(client, value, &record) != 0) {
        record = (struct session_record){ .waited_ms = 0 };
    }
    if (client == SESSION_UNTOLD) {
        walk->run = record.run;
        if (record.waited_ms == SESSION_STRUCK_OUT) {
            return true;
        }
    }
    if (walk->count == walk->count_max) {
        walk->run = 0;
        return false;
    }
    walk->sessions[walk->count++] = (struct session_kept){ client, record.waited_ms };
    return true;
}

int ns_sessions(struct ns *ns, struct session_kept *sessions, uint32_t count_max, uint32_t *count,
                uint64_t *run, struct errmsg *err)
{
    struct session_walk walk = { .sessions = sessions, .count_max = count_max };
    struct record_key key = key_session(SESSION_UNTOLD);
    int rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_session, &walk, err);

    *count = walk.count;
    *run = walk.run;
    return rv;
}

struct log_walk
{
    ns_log_visit visit;
    void *data;
    int status;
    uint64_t sequence;
    enum op_kind kind; /* Of the one that is damaged. */
};

static bool visit_log(void *data, struct slice key, struct slice value)
{
    struct log_walk *walk = data;
    struct meta_op op;

    if (!key_inode_parse(key, RECORD_LOG, &walk->sequence)) {
        return false;
    }
    if ((walk->status = op_decode(value, &op)) != 0) {
        walk->kind = op.kind;
        return false;
    }
    return walk->visit(walk->data, walk->sequence, &op);
}

static void log_unreadable(const struct log_walk *walk, struct errmsg *err)
{
    unsigned long long sequence = walk->sequence;

    if (walk->status == MORSEL_VERSION) {
        errmsg_set(err,
                   "operation %llu of the log was written by a newer version of morsel-meta: start "
                   "that one",
                   sequence);
        return;
    }
    errmsg_set(err,
               "operation %llu of the log (%s) is damaged: keep the database as it is, report it, "
               "and start from a copy of it or with a newer morsel-meta that can read it",
               sequence, op_kind_name(walk->kind));
}

int ns_log(struct ns *ns, uint64_t sequence, ns_log_visit visit, void *data, struct errmsg *err)
{
    struct log_walk walk = { .visit = visit, .data = data };
    struct record_key key = key_log(sequence);
    int rv = ns->kv->scan(ns->kv, record_key_slice(&key), visit_log, &walk, err);

    if (rv == 0 && walk.status != 0) {
        log_unreadable(&walk, err);
        return walk.status;
    }
    return rv;
}
