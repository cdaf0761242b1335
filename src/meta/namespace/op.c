/* Encodes and decodes operations for the log. */
#include "meta/namespace/op.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/lease_mode.h"
#include "common/fs/origin.h"
#include "meta/cluster/hours_record.h"
#include "meta/namespace/groups_record.h"
#include "meta/namespace/voters_record.h"

#include <string.h>

enum { OP_VERSION = 1 };
enum {
    SIZE_REPORT_SPARSE = 1,
    SIZE_REPORT_STRIPS_IDS = 2,
    SIZE_REPORT_UNSYNCED = 4,
    SIZE_REPORT_TRUNCATES = 8,
    SIZE_REPORT_TAIL = 16
};
enum {
    SIZE_REPORT_KNOWN = SIZE_REPORT_SPARSE | SIZE_REPORT_STRIPS_IDS | SIZE_REPORT_UNSYNCED |
                        SIZE_REPORT_TRUNCATES | SIZE_REPORT_TAIL
};

/* Bits of the header's flag byte. */
enum { FLAG_IN_GROUP = 1, FLAG_OPEN = 2, FLAG_DELETED = 4, FLAGS_KNOWN = 7 };

const char *op_kind_name(enum op_kind kind)
{
    static const char *const names[OP_KIND_END] = {
        [OP_FORMAT] = "format",
        [OP_CREATE] = "create",
        [OP_UNLINK] = "unlink",
        [OP_RENAME] = "rename",
        [OP_LINK] = "link",
        [OP_SETATTR] = "setattr",
        [OP_SIZE_REPORT] = "size_report",
        [OP_XATTR] = "xattr",
        [OP_POLICY] = "policy",
        [OP_COLLECT] = "collect",
        [OP_COLLECTED] = "collected",
        [OP_MEMBER] = "member",
        [OP_GARBAGE] = "garbage",
        [OP_REPAIR] = "repair",
        [OP_GRANTEE] = "grantee",
        [OP_START] = "start",
        [OP_SET_LAYOUT] = "set_layout",
        [OP_EXCHANGE] = "exchange",
        [OP_SYNCED] = "synced",
        [OP_HOLDER] = "holder",
        [OP_VOTERS] = "voters",
        [OP_GROUPS] = "groups",
        [OP_SESSIONS] = "sessions",
        [OP_DONOR] = "donor",
        [OP_SET_STORED] = "set_stored",
        [OP_SET_SEAL] = "set_seal",
        [OP_SET_ORIGIN] = "set_origin",
        [OP_SET_COLLECTED] = "set_collected",
        [OP_SET_LOST] = "set_lost",
        [OP_SET_COPY] = "set_copy",
        [OP_DONOR_HOURS] = "donor_hours",
        [OP_SET_USED] = "set_used",
        [OP_SET_EVICT] = "set_evict",
        [OP_SET_MARK] = "set_mark",
        [OP_SET_RESERVE] = "set_reserve",
        [OP_SET_LET_GO] = "set_let_go",
        [OP_DONOR_FORGET] = "donor_forget",
    };

    return kind > 0 && kind < OP_KIND_END && names[kind] != NULL ? names[kind] : "unknown";
}

bool op_kind_known(enum op_kind kind)
{
    return strcmp(op_kind_name(kind), "unknown") != 0;
}

static void put_slice(struct buf *out, struct slice s)
{
    buf_put_blob(out, s.data, s.count);
}

/* ---- Encoding ---- */

static void make_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->make.parent);
    put_slice(out, op->make.name);
    buf_put_u8(out, op->make.orphan);
    buf_put_u32(out, op->make.mode);
    buf_put_u32(out, op->make.umask);
    buf_put_u64(out, op->make.rdev);
    put_slice(out, op->make.link_target);
    if (mode_is_regular(op->make.mode)) {
        file_layout_encode(&op->make.layout, out);
    }
}

static void rename_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->rename.parent);
    put_slice(out, op->rename.name);
    buf_put_u64(out, op->rename.new_parent);
    put_slice(out, op->rename.new_name);
    buf_put_u32(out, op->rename.flags);
}

static void size_report_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->size_report.inode);
    buf_put_u64(out, op->size_report.size);
    buf_put_u64(out, op->size_report.reach);
    buf_put_u64(out, (uint64_t)op->size_report.mtime_ns);
    buf_put_u8(out, (uint8_t)((op->size_report.sparse ? SIZE_REPORT_SPARSE : 0) |
                              (op->size_report.strips_ids ? SIZE_REPORT_STRIPS_IDS : 0) |
                              (op->size_report.truncates ? SIZE_REPORT_TRUNCATES : 0) |
                              (op->size_report.tail_clean ? SIZE_REPORT_TAIL : 0) |
                              (op->size_report.unsynced.count > 0 ? SIZE_REPORT_UNSYNCED : 0)));
    if (op->size_report.truncates) {
        buf_put_u64(out, op->size_report.truncate_size);
    }
    if (op->size_report.unsynced.count > 0) {
        put_slice(out, op->size_report.unsynced);
    }
}

static void setattr_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->setattr.inode);
    buf_put_u32(out, op->setattr.valid);
    buf_put_u32(out, op->setattr.mode);
    buf_put_u32(out, op->setattr.uid);
    buf_put_u32(out, op->setattr.gid);
    buf_put_u64(out, op->setattr.size);
    buf_put_u64(out, (uint64_t)op->setattr.atime_ns);
    buf_put_u64(out, (uint64_t)op->setattr.mtime_ns);
}

static void xattr_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->xattr.inode);
    put_slice(out, op->xattr.name);
    put_slice(out, op->xattr.value);
    buf_put_u32(out, op->xattr.flags);
    buf_put_u8(out, op->xattr.remove);
}

static void repair_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u8(out, (uint8_t)op->repair.what);
    buf_put_u64(out, op->repair.inode);
    buf_put_u64(out, op->repair.parent);
    put_slice(out, op->repair.name);
    buf_put_u32(out, op->repair.nlink);
    buf_put_u64(out, op->repair.entries);
}

static void unlink_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->unlink.parent);
    put_slice(out, op->unlink.name);
    buf_put_u8(out, op->unlink.directory);
}

static void link_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->link.inode);
    buf_put_u64(out, op->link.new_parent);
    put_slice(out, op->link.new_name);
}

static void holder_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->holder.lease_epoch);
    buf_put_u8(out, op->holder.holds);
    if (op->holder.holds && op->holder.lease_period_ms != 0 &&
        op->holder.lease_period_ms != LEASE_MS) {
        buf_put_u32(out, op->holder.lease_period_ms);
    }
}

static void set_stored_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->set_stored.inode);
    buf_put_u64(out, op->set_stored.set);
    buf_put_u64(out, op->set_stored.size);
    buf_put_u64(out, (uint64_t)op->set_stored.mtime_ns);
    buf_put_u8(out, op->set_stored.strips_ids);
    put_slice(out, op->set_stored.morsels);
    put_slice(out, op->set_stored.waste);
}

static void set_copy_encode(const struct meta_op *op, struct buf *out)
{
    buf_put_u64(out, op->set_copy.set);
    buf_put_u32(out, op->set_copy.morsel);
    buf_put_u32(out, op->set_copy.length);
    buf_put_u32(out, op->set_copy.digest);
    buf_put_u8(out, (uint8_t)op->set_copy.change);
    buf_put_u32(out, op->set_copy.donor);
    buf_put_u32(out, op->set_copy.instead);
}

static void body_encode(const struct meta_op *op, struct buf *out)
{
    switch (op->kind) {
    case OP_FORMAT:
        buf_put(out, op->format.cluster.bytes, sizeof(op->format.cluster.bytes));
        if (op->format.auto_copies) {
            buf_put_u8(out, op->format.auto_copies);
        }
        break;
    case OP_CREATE:
        make_encode(op, out);
        break;
    case OP_UNLINK:
        unlink_encode(op, out);
        break;
    case OP_RENAME:
        rename_encode(op, out);
        break;
    case OP_LINK:
        link_encode(op, out);
        break;
    case OP_SETATTR:
        setattr_encode(op, out);
        break;
    case OP_SIZE_REPORT:
        size_report_encode(op, out);
        break;
    case OP_XATTR:
        xattr_encode(op, out);
        break;
    case OP_POLICY:
        buf_put_u64(out, op->policy.inode);
        file_policy_encode(&op->policy.policy, out);
        break;
    case OP_SYNCED:
        buf_put_u64(out, op->synced.inode);
        buf_put_u64(out, op->synced.data_version);
        put_slice(out, op->synced.columns);
        break;
    case OP_EXCHANGE:
        buf_put_u64(out, op->exchange.inode);
        buf_put_u64(out, op->exchange.with);
        break;
    case OP_SET_LAYOUT:
        buf_put_u64(out, op->set_layout.inode);
        file_layout_encode(&op->set_layout.layout, out);
        break;
    case OP_COLLECT:
        buf_put_u64(out, op->collect.inode);
        break;
    case OP_COLLECTED:
    case OP_GARBAGE:
        buf_put_u32(out, op->objects.server);
        put_slice(out, op->objects.objects);
        break;
    case OP_MEMBER:
        buf_put_u32(out, op->member.id);
        member_encode(&op->member, out);
        break;
    case OP_DONOR:
        buf_put_u32(out, op->donor.id);
        donor_encode(&op->donor, out);
        break;
    case OP_DONOR_HOURS:
        buf_put_u32(out, op->hours.id);
        hours_encode(&op->hours, out);
        break;
    case OP_SET_STORED:
        set_stored_encode(op, out);
        break;
    case OP_SET_SEAL:
        buf_put_u64(out, op->set_seal.inode);
        buf_put_u64(out, op->set_seal.set);
        buf_put_u64(out, op->set_seal.size);
        break;
    case OP_SET_ORIGIN:
        buf_put_u64(out, op->set_origin.inode);
        buf_put_u64(out, op->set_origin.set);
        put_slice(out, op->set_origin.record);
        break;
    case OP_SET_COLLECTED:
    case OP_SET_LOST:
        buf_put_u32(out, op->set_runs.donor);
        put_slice(out, op->set_runs.runs);
        break;
    case OP_SET_COPY:
        set_copy_encode(op, out);
        break;
    case OP_SET_USED:
        buf_put_u64(out, op->set_used.set);
        buf_put_u64(out, (uint64_t)op->set_used.first_ns);
        set_uses_encode(&op->set_used.uses, out);
        break;
    case OP_SET_EVICT:
        buf_put_u64(out, op->set_evict.set);
        buf_put_u32(out, op->set_evict.kept);
        break;
    case OP_SET_MARK:
        buf_put_u64(out, op->set_mark.set);
        buf_put_u8(out, op->set_mark.pinned);
        break;
    case OP_SET_RESERVE:
        buf_put_u64(out, op->set_reserve.inode);
        buf_put_u64(out, op->set_reserve.set);
        buf_put_u64(out, op->set_reserve.size);
        break;
    case OP_SET_LET_GO:
        buf_put_u64(out, op->set_let_go.set);
        break;
    case OP_DONOR_FORGET:
        buf_put_u32(out, op->donor_forget.donor);
        break;
    case OP_REPAIR:
        repair_encode(op, out);
        break;
    case OP_GRANTEE:
        buf_put_u64(out, op->grantee.client);
        break;
    case OP_HOLDER:
        holder_encode(op, out);
        break;
    case OP_VOTERS:
        buf_put(out, op->voters.record.data, op->voters.record.count);
        break;
    case OP_GROUPS:
        buf_put(out, op->groups.record.data, op->groups.record.count);
        break;
    case OP_SESSIONS:
        buf_put_u64(out, op->sessions.run);
        put_slice(out, op->sessions.clients);
        break;
    case OP_START:
        break;
    case OP_KIND_END:
        CHECK(!"an operation has a kind");
    }
}

void op_encode(const struct meta_op *op, struct buf *out)
{
    uint8_t flags = (uint8_t)((op->in_group ? FLAG_IN_GROUP : 0) | (op->open ? FLAG_OPEN : 0) |
                              (op->deleted ? FLAG_DELETED : 0));

    buf_put_u8(out, OP_VERSION);
    buf_put_u8(out, (uint8_t)op->kind);
    buf_put_u8(out, flags);
    buf_put_u64(out, (uint64_t)op->time_ns);
    buf_put_u64(out, op->client);
    buf_put_u64(out, op->client_sequence);
    buf_put_u64(out, op->answered);
    buf_put_u32(out, op->who.uid);
    buf_put_u32(out, op->who.gid);
    buf_put_u64(out, op->target);
    body_encode(op, out);
}

/* ---- Decoding ---- */

static struct slice get_name(struct reader *r)
{
    struct slice name = reader_blob(r);

    if (name.count > NAME_BYTES_MAX) {
        r->failed = true;
    }
    return name;
}

static bool get_bool(struct reader *r)
{
    uint8_t value = reader_u8(r);

    if (value > 1) {
        r->failed = true;
    }
    return value == 1;
}

static void make_decode(struct reader *r, struct meta_op *op)
{
    op->make.parent = reader_u64(r);
    op->make.name = reader_blob(r);
    op->make.orphan = get_bool(r);
    if (op->make.name.count > NAME_BYTES_MAX && !op->make.orphan) {
        r->failed = true; /* Managers once took any name with `orphan`, and did nothing with it. */
    }
    op->make.mode = reader_u32(r);
    op->make.umask = reader_u32(r);
    op->make.rdev = reader_u64(r);
    op->make.link_target = reader_blob(r);
    if (mode_is_regular(op->make.mode) && !file_layout_decode(r, &op->make.layout)) {
        r->failed = true;
    }
}

static void rename_decode(struct reader *r, struct meta_op *op)
{
    op->rename.parent = reader_u64(r);
    op->rename.name = get_name(r);
    op->rename.new_parent = reader_u64(r);
    op->rename.new_name = get_name(r);
    op->rename.flags = reader_u32(r);
}

static void setattr_decode(struct reader *r, struct meta_op *op)
{
    op->setattr.inode = reader_u64(r);
    op->setattr.valid = reader_u32(r);
    op->setattr.mode = reader_u32(r);
    op->setattr.uid = reader_u32(r);
    op->setattr.gid = reader_u32(r);
    op->setattr.size = reader_u64(r);
    op->setattr.atime_ns = (int64_t)reader_u64(r);
    op->setattr.mtime_ns = (int64_t)reader_u64(r);
}

static void xattr_decode(struct reader *r, struct meta_op *op)
{
    op->xattr.inode = reader_u64(r);
    op->xattr.name = get_name(r);
    op->xattr.value = reader_blob(r);
    op->xattr.flags = reader_u32(r);
    op->xattr.remove = get_bool(r);
}

static void objects_decode(struct reader *r, struct meta_op *op)
{
    op->objects.server = reader_u32(r);
    op->objects.objects = reader_blob(r);
    if (op->objects.objects.count % OP_OBJECT_BYTES != 0 ||
        op_objects_count(op->objects.objects) > OP_OBJECTS_MAX) {
        r->failed = true;
    }
}

static void repair_decode(struct reader *r, struct meta_op *op)
{
    op->repair.what = reader_u8(r);
    op->repair.inode = reader_u64(r);
    op->repair.parent = reader_u64(r);
    op->repair.name = get_name(r);
    op->repair.nlink = reader_u32(r);
    op->repair.entries = reader_u64(r);
    if (op->repair.what < REPAIR_COUNTS || op->repair.what > REPAIR_SET) {
        r->failed = true;
    }
}

static void format_decode(struct reader *r, struct meta_op *op)
{
    struct slice id = reader_bytes(r, sizeof(op->format.cluster.bytes));

    if (!r->failed) {
        memcpy(op->format.cluster.bytes, id.data, id.count);
    }
    if (!r->failed && !reader_done(r)) {
        op->format.auto_copies = get_bool(r);
        r->failed |= !op->format.auto_copies; /* That is written as nothing. */
    }
}

static void member_op_decode(struct reader *r, struct meta_op *op)
{
    server_id id = reader_u32(r);

    if (member_decode(id, reader_rest(r), &op->member) != 0) {
        r->failed = true;
    }
}

static void donor_op_decode(struct reader *r, struct meta_op *op)
{
    donor_id id = reader_u32(r);

    if (donor_decode(id, reader_rest(r), &op->donor) != 0) {
        r->failed = true;
    }
}

static void hours_op_decode(struct reader *r, struct meta_op *op)
{
    donor_id id = reader_u32(r);

    if (hours_decode(id, reader_rest(r), &op->hours) != 0) {
        r->failed = true;
    }
}

static struct slice unsynced_decode(struct reader *r)
{
    struct slice columns = reader_blob(r);

    if (columns.count % OP_UNSYNCED_BYTES != 0 || op_unsynced_count(columns) > OP_UNSYNCED_MAX) {
        r->failed = true;
    }
    return columns;
}

static void size_report_decode(struct reader *r, struct meta_op *op)
{
    uint8_t flags;

    op->size_report.inode = reader_u64(r);
    op->size_report.size = reader_u64(r);
    op->size_report.reach = reader_u64(r);
    op->size_report.mtime_ns = (int64_t)reader_u64(r);
    flags = reader_u8(r);
    op->size_report.sparse = (flags & SIZE_REPORT_SPARSE) != 0;
    op->size_report.strips_ids = (flags & SIZE_REPORT_STRIPS_IDS) != 0;
    op->size_report.truncates = (flags & SIZE_REPORT_TRUNCATES) != 0;
    op->size_report.tail_clean = (flags & SIZE_REPORT_TAIL) != 0;
    r->failed |= (flags & ~SIZE_REPORT_KNOWN) != 0;
    if (op->size_report.truncates) {
        op->size_report.truncate_size = reader_u64(r);
    }
    if ((flags & SIZE_REPORT_UNSYNCED) != 0) {
        op->size_report.unsynced = unsynced_decode(r);
    }
}

static void unlink_decode(struct reader *r, struct meta_op *op)
{
    op->unlink.parent = reader_u64(r);
    op->unlink.name = get_name(r);
    op->unlink.directory = get_bool(r);
}

static void link_decode(struct reader *r, struct meta_op *op)
{
    op->link.inode = reader_u64(r);
    op->link.new_parent = reader_u64(r);
    op->link.new_name = get_name(r);
}

static void holder_decode(struct reader *r, struct meta_op *op)
{
    op->holder.lease_epoch = reader_u64(r);
    op->holder.holds = get_bool(r);
    op->holder.lease_period_ms = op->holder.holds ? LEASE_MS : 0;
    if (op->holder.holds && !reader_done(r)) {
        op->holder.lease_period_ms = reader_u32(r);
        r->failed |= op->holder.lease_period_ms == 0 || op->holder.lease_period_ms > LEASE_MS_MAX;
    }
}

static void sessions_decode(struct reader *r, struct meta_op *op)
{
    op->sessions.run = reader_u64(r);
    op->sessions.clients = reader_blob(r);
    r->failed |= !op_sessions_sound(op);
}

static void groups_op_decode(struct reader *r, struct meta_op *op)
{
    op->groups.record = reader_rest(r);
    r->failed |= groups_record_check(op->groups.record) != 0;
}

static void voters_op_decode(struct reader *r, struct meta_op *op)
{
    struct voters_record record;
    struct voter_seats seats;

    op->voters.record = reader_rest(r);
    r->failed |= voters_record_decode(op->voters.record, &record, &seats) != 0;
}

static struct slice runs_decode(struct reader *r)
{
    struct slice runs = reader_blob(r);

    r->failed |= runs.count % OP_RUN_BYTES != 0 || op_runs_count(runs) > SET_RUNS_MAX;
    return runs;
}

/* One that cannot be read must not get into the log. */
static struct slice origin_op_decode(struct reader *r)
{
    struct slice record = reader_blob(r);
    struct origin origin;

    r->failed |= origin_decode(record, &origin) != 0;
    return record;
}

static void set_stored_decode(struct reader *r, struct meta_op *op)
{
    struct slice morsels;
    struct set_morsel morsel;
    size_t count = 0;

    op->set_stored.inode = reader_u64(r);
    op->set_stored.set = reader_u64(r);
    op->set_stored.size = reader_u64(r);
    op->set_stored.mtime_ns = (int64_t)reader_u64(r);
    op->set_stored.strips_ids = get_bool(r);
    op->set_stored.morsels = morsels = reader_blob(r);
    op->set_stored.waste = runs_decode(r);
    while (op_morsel_next(&morsels, &morsel)) {
        count++;
    }
    r->failed |= morsels.count > 0 || count > SET_STORED_MAX;
}

static void set_copy_decode(struct reader *r, struct meta_op *op)
{
    op->set_copy.set = reader_u64(r);
    op->set_copy.morsel = reader_u32(r);
    op->set_copy.length = reader_u32(r);
    op->set_copy.digest = reader_u32(r);
    op->set_copy.change = (enum op_copy)reader_u8(r);
    op->set_copy.donor = reader_u32(r);
    op->set_copy.instead = reader_u32(r);
    r->failed |= op->set_copy.change < OP_COPY_ADD || op->set_copy.change > OP_COPY_YIELD;
}

static void body_decode(struct reader *r, struct meta_op *op)
{
    switch (op->kind) {
    case OP_FORMAT:
        format_decode(r, op);
        break;
    case OP_CREATE:
        make_decode(r, op);
        break;
    case OP_UNLINK:
        unlink_decode(r, op);
        break;
    case OP_RENAME:
        rename_decode(r, op);
        break;
    case OP_LINK:
        link_decode(r, op);
        break;
    case OP_SETATTR:
        setattr_decode(r, op);
        break;
    case OP_SIZE_REPORT:
        size_report_decode(r, op);
        break;
    case OP_XATTR:
        xattr_decode(r, op);
        break;
    case OP_POLICY:
        op->policy.inode = reader_u64(r);
        file_policy_decode(r, &op->policy.policy);
        break;
    case OP_EXCHANGE:
        op->exchange.inode = reader_u64(r);
        op->exchange.with = reader_u64(r);
        break;
    case OP_SET_LAYOUT:
        op->set_layout.inode = reader_u64(r);
        if (!file_layout_decode(r, &op->set_layout.layout)) {
            r->failed = true;
        }
        break;
    case OP_SYNCED:
        op->synced.inode = reader_u64(r);
        op->synced.data_version = reader_u64(r);
        op->synced.columns = unsynced_decode(r);
        break;
    case OP_COLLECT:
        op->collect.inode = reader_u64(r);
        break;
    case OP_COLLECTED:
    case OP_GARBAGE:
        objects_decode(r, op);
        break;
    case OP_MEMBER:
        member_op_decode(r, op);
        break;
    case OP_DONOR:
        donor_op_decode(r, op);
        break;
    case OP_DONOR_HOURS:
        hours_op_decode(r, op);
        break;
    case OP_SET_STORED:
        set_stored_decode(r, op);
        break;
    case OP_SET_SEAL:
        op->set_seal.inode = reader_u64(r);
        op->set_seal.set = reader_u64(r);
        op->set_seal.size = reader_u64(r);
        break;
    case OP_SET_ORIGIN:
        op->set_origin.inode = reader_u64(r);
        op->set_origin.set = reader_u64(r);
        op->set_origin.record = origin_op_decode(r);
        break;
    case OP_SET_COLLECTED:
    case OP_SET_LOST:
        op->set_runs.donor = reader_u32(r);
        op->set_runs.runs = runs_decode(r);
        break;
    case OP_SET_COPY:
        set_copy_decode(r, op);
        break;
    case OP_SET_USED:
        op->set_used.set = reader_u64(r);
        op->set_used.first_ns = (int64_t)reader_u64(r);
        set_uses_decode(r, &op->set_used.uses);
        break;
    case OP_SET_EVICT:
        op->set_evict.set = reader_u64(r);
        op->set_evict.kept = reader_u32(r);
        break;
    case OP_SET_MARK:
        op->set_mark.set = reader_u64(r);
        op->set_mark.pinned = get_bool(r);
        break;
    case OP_SET_RESERVE:
        op->set_reserve.inode = reader_u64(r);
        op->set_reserve.set = reader_u64(r);
        op->set_reserve.size = reader_u64(r);
        break;
    case OP_SET_LET_GO:
        op->set_let_go.set = reader_u64(r);
        break;
    case OP_DONOR_FORGET:
        op->donor_forget.donor = reader_u32(r);
        break;
    case OP_REPAIR:
        repair_decode(r, op);
        break;
    case OP_GRANTEE:
        op->grantee.client = reader_u64(r);
        break;
    case OP_HOLDER:
        holder_decode(r, op);
        break;
    case OP_VOTERS:
        voters_op_decode(r, op);
        break;
    case OP_GROUPS:
        groups_op_decode(r, op);
        break;
    case OP_SESSIONS:
        sessions_decode(r, op);
        break;
    case OP_START:
        break;
    default:
        r->failed = true;
    }
}

int op_decode(struct slice bytes, struct meta_op *op)
{
    struct reader r;
    uint8_t version, flags;

    memset(op, 0, sizeof(*op));
    reader_init(&r, bytes.data, bytes.count);
    version = reader_u8(&r);
    if (version == 0) {
        return MORSEL_CORRUPT;
    }
    if (version > OP_VERSION) {
        return MORSEL_VERSION;
    }
    op->kind = reader_u8(&r);
    flags = reader_u8(&r);
    op->in_group = (flags & FLAG_IN_GROUP) != 0;
    op->open = (flags & FLAG_OPEN) != 0;
    op->deleted = (flags & FLAG_DELETED) != 0;
    op->time_ns = (int64_t)reader_u64(&r);
    op->client = reader_u64(&r);
    op->client_sequence = reader_u64(&r);
    op->answered = reader_u64(&r);
    op->who.uid = reader_u32(&r);
    op->who.gid = reader_u32(&r);
    op->target = reader_u64(&r);
    body_decode(&r, op);
    return (flags & ~FLAGS_KNOWN) == 0 && reader_done(&r) ? 0 : MORSEL_CORRUPT;
}
