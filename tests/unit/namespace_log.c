/* Whatever is taken can be read again from the log, and does the same once more: operations with
 * strange values in every field, as a faulty mount or a stranger may send them. */
#include "common/base/status.h"
#include "common/fs/lease_mode.h"
#include "common/rpc/messages.h"
#include "meta/coherence/lease.h"
#include "meta/datasets/sets.h"
#include "meta/namespace/groups_record.h"
#include "meta/namespace/voters_record.h"
#include "tests/lib/evict_op.h"
#include "tests/lib/groups.h"
#include "tests/lib/ns_fixture.h"
#include "tests/lib/seed.h"
#include "tests/lib/strange_origin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 30, OPS = 1500, BYTES_MAX = 70000, MADE = 32 };

struct strange
{
    struct ns_fixture f;
    struct ns_fixture again; /* To this one everything happens a second time, from the log. */
    struct buf lists;        /* What the operation borrows. */
    uint32_t taken[OP_KIND_END];
    inode_id made[MADE]; /* The newest, and the root. */
    uint32_t made_count;
    uint8_t noise[BYTES_MAX];
};

static uint64_t below(struct strange *s, uint64_t bound)
{
    return prng_below(&s->f.prng, bound);
}

/* Small, at an edge, or anything. */
static uint64_t number(struct strange *s)
{
    static const uint64_t edges[] = { 0,          1,          63,         64,           65,
                                      255,        256,        257,        4096,         65535,
                                      65536,      1U << 20,   UINT32_MAX, LEASE_MS_MAX, INT64_MAX,
                                      1ULL << 32, 1ULL << 63, UINT64_MAX };

    switch (below(s, 4)) {
    case 0:
        return edges[below(s, sizeof(edges) / sizeof(edges[0]))];
    case 1:
        return prng_next(&s->f.prng);
    default:
        return below(s, 12);
    }
}

static uint32_t sound_or_not(struct strange *s, uint64_t sound)
{
    return (uint32_t)(below(s, 10) == 0 ? number(s) : sound);
}

/* Mostly one that may be there. */
static inode_id inode(struct strange *s)
{
    return below(s, 10) == 0 ? number(s) : s->made[below(s, MADE)];
}

static inode_id directory(struct strange *s)
{
    return below(s, 2) == 0 ? INODE_ROOT : inode(s);
}

static struct slice bytes(struct strange *s)
{
    static const size_t counts[] = { 0, 1, 2, 254, 255, 256, 300, 4095, 4096, 65536, BYTES_MAX };

    return (struct slice){ s->noise, counts[below(s, sizeof(counts) / sizeof(counts[0]))] };
}

/* Mostly one that may be there. */
static struct slice name(struct strange *s)
{
    static const char *const names[] = { "a", "b", "c", "d",  "e", "f",
                                         "g", "h", ".", "..", "",  "a/b" };

    return below(s, 6) == 0 ? bytes(s) : text(names[below(s, sizeof(names) / sizeof(names[0]))]);
}

static struct slice xattr_name(struct strange *s)
{
    static const char *const names[] = { "user.x",
                                         "user.",
                                         "trusted.y",
                                         "security.capability",
                                         "system.posix_acl_access",
                                         "system.posix_acl_default" };

    return below(s, 6) == 0 ? bytes(s) : text(names[below(s, sizeof(names) / sizeof(names[0]))]);
}

static uint32_t mode(struct strange *s)
{
    static const uint32_t types[] = { 0010000, 0020000, 0040000, 0060000, 0100000,
                                      0120000, 0140000, 0100000, 0040000 };

    return below(s, 8) == 0
               ? (uint32_t)number(s)
               : types[below(s, sizeof(types) / sizeof(types[0]))] | (uint32_t)below(s, 010000);
}

/* The manager decides layouts. */
static struct file_layout layout(struct strange *s)
{
    struct file_layout l = { .class = CLASS_DURABLE,
                             .replicas = 1,
                             .stripe = { MORSEL_BYTES_DEFAULT, 1, 2 },
                             .servers = { 1, 2 } };

    l.stripe.width = below(s, 8) == 0 ? STRIPE_WIDTH_MAX : 1 + (uint32_t)below(s, 3);
    if (below(s, 2) == 0) {
        l.class = CLASS_SCAVENGED;
        l.scratch = below(s, 3) > 0;
        l.replicas = 1 + (uint32_t)below(s, REPLICAS_MAX);
        return l;
    }
    if (below(s, 3) == 0) {
        l.replicas = 2;
        for (uint32_t i = 0; i < l.stripe.width; i++) {
            l.groups[i] = 1 + (uint32_t)below(s, 4);
        }
    }
    return l;
}

static struct slice columns(struct strange *s)
{
    uint64_t count = below(s, 4) == 0 ? below(s, 80) : below(s, 4);

    for (uint64_t i = 0; i < count; i++) {
        uint32_t column = below(s, 40) == 0 ? (uint32_t)number(s) : (uint32_t)below(s, 3);

        op_unsynced_put(&s->lists, (struct unsynced_column){ column, below(s, 3) });
    }
    return buf_slice(&s->lists);
}

static struct slice objects(struct strange *s)
{
    uint64_t count = below(s, 60) == 0 ? OP_OBJECTS_MAX - 1 + below(s, 3) : below(s, 5);

    for (uint64_t i = 0; i < count; i++) {
        op_objects_put(&s->lists, (struct object_id){ number(s), (uint32_t)number(s) });
    }
    op_objects_sort(&s->lists);
    return buf_slice(&s->lists);
}

/* One of `made` that is a file on storage servers as that one is: of that size, with names or without. Or any. */
static inode_id file_like(struct strange *s, const struct inode *like, bool named)
{
    uint64_t first = below(s, MADE);
    struct inode found;

    for (uint64_t i = 0; i < MADE; i++) {
        inode_id id = s->made[(first + i) % MADE];

        if (id != like->id && ns_inode(s->f.ns, id, &found, &s->f.err) == 0 &&
            mode_is_regular(found.mode) && !inode_is_scavenged(&found) &&
            found.size == like->size && found.reach == like->reach &&
            (found.flags & INODE_UNSYNCED) == 0 && (found.nlink > 0) == named) {
            return id;
        }
    }
    return inode(s);
}

/* Mostly the one that the file has. */
static uint64_t set_of(struct strange *s, inode_id file)
{
    struct inode found;

    return below(s, 8) == 0 || ns_inode(s->f.ns, file, &found, &s->f.err) != 0 ? number(s)
                                                                               : inode_body(&found);
}

static struct set_morsel morsel(struct strange *s, uint32_t from)
{
    struct set_morsel m = { .number = from + (uint32_t)below(s, 300),
                            .length = (uint32_t)below(s, MORSEL_BYTES_DEFAULT + 2),
                            .digest = (uint32_t)number(s),
                            .rewriting = below(s, 4) == 0,
                            .donor_count = (uint32_t)below(s, REPLICAS_MAX + 1) };

    for (uint32_t i = 0; i < m.donor_count; i++) {
        m.donors[i] = 1 + (uint32_t)below(s, 5);
    }
    return m;
}

/* Ascending, or nearly so; what follows in `lists` is waste. Returns how many bytes. */
static size_t morsels_and_waste(struct strange *s)
{
    uint32_t from = below(s, 20) == 0 ? SET_MORSELS_MAX - 200 : 0;
    size_t bytes;

    for (uint64_t i = below(s, 4); i > 0; i--) {
        struct set_morsel m = morsel(s, from);

        from = m.number + (below(s, 10) != 0);
        op_morsel_put(&s->lists, &m);
    }
    bytes = s->lists.count;
    for (uint64_t i = below(s, 3); i > 0; i--) {
        op_run_put(&s->lists, (struct op_run){ 1 + below(s, 5), (uint32_t)below(s, 300), 1 });
    }
    return bytes;
}

static struct slice runs(struct strange *s)
{
    uint64_t set = 1 + below(s, 8);

    for (uint64_t i = below(s, 5); i > 0; i--) {
        bool all = below(s, 3) == 0;

        op_run_put(&s->lists, (struct op_run){ set, all ? 0 : (uint32_t)below(s, 300),
                                               all ? UINT32_MAX : 1 + (uint32_t)below(s, 40) });
        set += 1 + below(s, 3);
    }
    return buf_slice(&s->lists);
}

static struct slice part(const struct strange *s, size_t from, size_t to)
{
    return from == to ? text("") : (struct slice){ s->lists.data + from, to - from };
}

static void fill_sets(struct strange *s, struct meta_op *op)
{
    size_t bytes;

    switch (op->kind) {
    case OP_SET_STORED:
        op->set_stored.inode = inode(s);
        op->set_stored.set = set_of(s, op->set_stored.inode);
        op->set_stored.size = below(s, 8) == 0 ? number(s) : below(s, 1U << 30);
        op->set_stored.mtime_ns = (int64_t)number(s);
        op->set_stored.strips_ids = below(s, 2) == 0;
        bytes = morsels_and_waste(s);
        op->set_stored.morsels = part(s, 0, bytes);
        op->set_stored.waste = part(s, bytes, s->lists.count);
        break;
    case OP_SET_SEAL:
        op->set_seal.set = set_of(s, op->set_seal.inode = inode(s));
        op->set_seal.size = below(s, 2) == 0 ? 0 : number(s);
        break;
    case OP_SET_ORIGIN:
        strange_origin(op, inode(s), below(s, 40), &s->lists);
        break;
    case OP_SET_RESERVE:
        op->set_reserve.set = set_of(s, op->set_reserve.inode = inode(s));
        op->set_reserve.size = below(s, 4) == 0 ? number(s) : 1 + below(s, 3);
        break;
    default: /* OP_SET_COLLECTED, OP_SET_LOST */
        op->set_runs.donor = (donor_id)below(s, 6);
        op->set_runs.runs = runs(s);
    }
}

/* Mostly of a morsel that there is, as it is. */
static void fill_copy(struct strange *s, struct meta_op *op)
{
    const struct sets *sets = ns_sets(s->f.ns);
    struct set_morsel m = { .number = (uint32_t)number(s), .length = 1, .digest = 1 };

    op->set_copy.set = number(s) | 1ULL << 40; /* None that will ever be there. */
    if (sets->count > 0 && below(s, 8) > 0) {
        const struct data_set *set = sets->items[below(s, sets->count)];

        op->set_copy.set = set->head.number;
        (void)set_next(set, (uint32_t)below(s, 300), &m);
    }
    op->set_copy.morsel = m.number;
    op->set_copy.length = m.length + (below(s, 10) == 0);
    op->set_copy.digest = m.digest;
    op->set_copy.change = (enum op_copy)(OP_COPY_ADD + below(s, 4));
    op->set_copy.donor = (donor_id)below(s, 6);
    op->set_copy.instead = below(s, 3) == 0   ? OP_COPY_BACK
                           : below(s, 2) == 0 ? 0
                                              : (donor_id)below(s, 6);
}

static void fill_names(struct strange *s, struct meta_op *op)
{
    switch (op->kind) {
    case OP_CREATE:
        op->make.parent = directory(s);
        op->make.orphan = below(s, 3) == 0;
        op->make.name = op->make.orphan && below(s, 3) != 0 ? text("") : name(s);
        op->make.mode = mode(s);
        op->make.umask = (uint32_t)number(s);
        op->make.rdev = number(s);
        op->make.link_target =
            mode_is_symlink(op->make.mode) || below(s, 8) == 0 ? bytes(s) : text("");
        op->make.layout = layout(s);
        break;
    case OP_UNLINK:
        op->unlink.parent = directory(s);
        op->unlink.name = name(s);
        op->unlink.directory = below(s, 2) == 0;
        break;
    case OP_RENAME:
        op->rename.parent = directory(s);
        op->rename.name = name(s);
        op->rename.new_parent = directory(s);
        op->rename.new_name = name(s);
        op->rename.flags = below(s, 2) == 0 ? 0 : (uint32_t)number(s);
        break;
    default: /* OP_LINK */
        op->link.inode = inode(s);
        op->link.new_parent = directory(s);
        op->link.new_name = name(s);
    }
}

static void fill_attributes(struct strange *s, struct meta_op *op)
{
    if (op->kind == OP_SETATTR) {
        op->setattr.inode = inode(s);
        op->setattr.valid =
            below(s, 4) == 0 ? (uint32_t)number(s) : (uint32_t)below(s, SETATTR_KNOWN + 1);
        op->setattr.mode = (uint32_t)number(s);
        op->setattr.uid = (uint32_t)number(s);
        op->setattr.gid = (uint32_t)number(s);
        op->setattr.size = number(s);
        op->setattr.atime_ns = (int64_t)number(s);
        op->setattr.mtime_ns = (int64_t)number(s);
        return;
    }
    op->xattr.inode = inode(s);
    op->xattr.name = xattr_name(s);
    op->xattr.value = bytes(s);
    op->xattr.flags = (uint32_t)number(s);
    op->xattr.remove = below(s, 3) == 0;
}

static void fill_bytes(struct strange *s, struct meta_op *op)
{
    const struct inode empty = { .id = INODE_NONE };

    switch (op->kind) {
    case OP_SIZE_REPORT:
        op->size_report.inode = inode(s);
        op->size_report.size = number(s);
        op->size_report.reach = number(s);
        op->size_report.mtime_ns = (int64_t)number(s);
        op->size_report.sparse = below(s, 2) == 0;
        op->size_report.strips_ids = below(s, 2) == 0;
        op->size_report.truncates = below(s, 2) == 0;
        op->size_report.truncate_size = number(s); /* Also without `truncates`. */
        op->size_report.tail_clean = below(s, 2) == 0;
        op->size_report.unsynced = columns(s);
        break;
    case OP_SYNCED:
        op->synced.inode = inode(s);
        op->synced.data_version = number(s);
        op->synced.columns = columns(s);
        break;
    case OP_SET_LAYOUT:
        op->set_layout.inode = file_like(s, &empty, true);
        op->set_layout.layout = layout(s);
        break;
    case OP_EXCHANGE:
        op->exchange.inode = file_like(s, &empty, true);
        op->exchange.with = below(s, 4) == 0 ? inode(s) : file_like(s, &empty, false);
        break;
    default: /* OP_POLICY */
        op->policy.inode = inode(s);
        op->policy.policy.class = sound_or_not(s, below(s, 3));
        op->policy.policy.replicas = sound_or_not(s, below(s, 3));
        op->policy.policy.morsel_bytes = sound_or_not(s, MORSEL_BYTES_DEFAULT);
        op->policy.policy.stripe_morsels = sound_or_not(s, below(s, 5));
        op->policy.policy.width = sound_or_not(s, below(s, 5));
    }
}

/* The manager and a server, whose voter has any id: also 0, or the manager's. */
static struct slice voters(struct strange *s)
{
    struct voters_record record = { .set = { .version = 1, .count = 2 }, .version_last = 1 };
    struct voter_seats seats = { .count = 2, .items = { { 7, 0 }, { 0, 1 } } };

    record.set.ids[0] = 7;
    record.set.ids[1] = seats.items[1].id = below(s, 2) == 0 ? number(s) : 8;
    if (seats.items[1].id < 7) {
        seats.items[0] = (struct voter_seat){ seats.items[1].id, 1 };
        seats.items[1] = (struct voter_seat){ 7, 0 };
    }
    voters_record_encode(&record, &seats, &s->lists);
    return buf_slice(&s->lists);
}

/* Two or three groups, one of which may be of servers that cannot be. */
static struct slice groups(struct strange *s)
{
    struct groups_record *record = test_calloc(1, sizeof(*record));
    struct slice bytes;

    *record = (struct groups_record){ .version = 1 + below(s, 3), .wanted = 1 << 2, .count = 3 };
    record->items[0] = test_group(1, 1, below(s, 2) == 0, 2, 1, 2, 0);
    record->items[1] = test_group(2, 1, true, 3, 2, 3, 1);
    record->items[2] = test_group(3, 1, false, 2, sound_or_not(s, 7), 1, 0);
    groups_record_encode(record, &s->lists);
    test_free(record);
    bytes = buf_slice(&s->lists);
    bytes.count -= below(s, 10) == 0;
    return bytes;
}

/* Some, none, or half of one; client 0 may be among them. */
static struct slice sessions(struct strange *s)
{
    struct slice bytes;

    for (uint64_t i = below(s, 4); i > 0; i--) {
        op_session_put(&s->lists, below(s, 4) == 0 ? 0 : number(s), (uint32_t)number(s));
    }
    bytes = buf_slice(&s->lists);
    bytes.count -= bytes.count > 0 && below(s, 10) == 0;
    return bytes;
}

/* What the manager says of itself and of storage servers. */
static void fill_rest(struct strange *s, struct meta_op *op)
{
    switch (op->kind) {
    case OP_COLLECT:
        op->collect.inode = inode(s);
        break;
    case OP_COLLECTED:
    case OP_GARBAGE:
        op->objects.server = (uint32_t)number(s);
        op->objects.objects = objects(s);
        break;
    case OP_MEMBER:
        op->member.id = (uint32_t)number(s);
        memset(op->member.address, 'h', below(s, MEMBER_ADDRESS_BYTES_MAX + 1));
        memset(op->member.name, 0xff, below(s, MEMBER_NAME_BYTES_MAX + 1));
        op->member.bytes_total = number(s);
        op->member.bytes_free = number(s);
        op->member.removed = below(s, 4) == 0;
        break;
    case OP_DONOR:
        op->donor.id = (uint32_t)number(s);
        memset(op->donor.name, 0xff, below(s, MEMBER_NAME_BYTES_MAX + 1));
        break;
    case OP_DONOR_HOURS:
        op->hours = (struct hours_record){ .id = (uint32_t)number(s), .missed = 7 };
        break;
    case OP_GRANTEE:
        op->grantee.client = number(s);
        break;
    case OP_HOLDER:
        op->holder.lease_epoch = number(s);
        op->holder.holds = below(s, 2) == 0;
        op->holder.lease_period_ms =
            LEASE_MS_MIN + (uint32_t)below(s, LEASE_MS_MAX - LEASE_MS_MIN + 1);
        break;
    case OP_VOTERS:
        op->voters.record = voters(s);
        break;
    case OP_GROUPS:
        op->groups.record = groups(s);
        break;
    case OP_SESSIONS:
        op->sessions.run = below(s, 2) == 0 ? number(s) : 0;
        op->sessions.clients = sessions(s);
        break;
    default: /* OP_REPAIR: which mends what is wrong, and nothing is. OP_START. */
        op->kind = OP_START;
    }
}

static void draw(struct strange *s, struct meta_op *op)
{
    static void (*const fill[OP_KIND_END])(struct strange *, struct meta_op *) = {
        [OP_CREATE] = fill_names,      [OP_UNLINK] = fill_names,       [OP_RENAME] = fill_names,
        [OP_LINK] = fill_names,        [OP_SETATTR] = fill_attributes, [OP_XATTR] = fill_attributes,
        [OP_SIZE_REPORT] = fill_bytes, [OP_SYNCED] = fill_bytes,       [OP_SET_LAYOUT] = fill_bytes,
        [OP_POLICY] = fill_bytes,      [OP_COLLECT] = fill_rest,       [OP_COLLECTED] = fill_rest,
        [OP_GARBAGE] = fill_rest,      [OP_MEMBER] = fill_rest,        [OP_GRANTEE] = fill_rest,
        [OP_HOLDER] = fill_rest,       [OP_REPAIR] = fill_rest,        [OP_START] = fill_rest,
        [OP_VOTERS] = fill_rest,       [OP_GROUPS] = fill_rest,        [OP_EXCHANGE] = fill_bytes,
        [OP_SESSIONS] = fill_rest,     [OP_DONOR] = fill_rest,         [OP_SET_STORED] = fill_sets,
        [OP_SET_SEAL] = fill_sets,     [OP_SET_COLLECTED] = fill_sets, [OP_SET_LOST] = fill_sets,
        [OP_SET_COPY] = fill_copy,     [OP_DONOR_HOURS] = fill_rest,   [OP_SET_ORIGIN] = fill_sets,
        [OP_SET_RESERVE] = fill_sets,
    };

    memset(op, 0, sizeof(*op));
    buf_clear(&s->lists);
    do {
        op->kind =
            below(s, 3) == 0 ? OP_CREATE : (enum op_kind)(OP_CREATE + below(s, OP_KIND_END - 2));
    } while (!op_kind_known(op->kind));
    if (!draw_evict_op(&s->f.prng, ns_sets(s->f.ns), op)) {
        fill[op->kind](s, op);
    }
    op->client = below(s, 2) == 0 ? 7 : number(s);
    op->client_sequence = number(s);
    op->answered = number(s);
    op->who.uid = (uint32_t)number(s);
    op->who.gid = (uint32_t)number(s);
}

/* The record of operation `sequence` is read, and the operation applied to the second one. */
struct replay
{
    struct strange *s;
    uint64_t sequence;
    int status;
};

static bool replay_one(void *data, uint64_t sequence, const struct meta_op *op)
{
    struct replay *r = data;
    struct meta_op copy = *op;

    r->sequence = sequence;
    r->status = ns_replay(r->s->again.ns, &copy, &r->s->again.err);
    return false;
}

static void assert_same(struct strange *s)
{
    struct buf want, have;

    buf_init(&want);
    buf_init(&have);
    kv_forgetful_dump(s->f.kv, &want);
    kv_forgetful_dump(s->again.kv, &have);
    assert_int_equal(have.count, want.count);
    assert_memory_equal(have.data, want.data, want.count);
    buf_free(&want);
    buf_free(&have);
}

static void run_one(struct strange *s)
{
    uint64_t before = ns_counters(s->f.ns)->sequence;
    struct replay r = { s, 0, 0 };
    struct meta_op op;
    int rv;

    draw(s, &op);
    s->f.err.text[0] = 0;
    rv = ns_fixture_run(&s->f, &op);
    assert_int_equal(ns_counters(s->f.ns)->sequence, before + (rv == 0));
    if (ns_unreadable(s->f.ns) != 0) {
        fail_msg("%s: nothing but the log objected", op_kind_name(op.kind));
    }
    if (rv != 0) {
        return;
    }
    s->taken[op.kind]++;
    if (op.kind == OP_CREATE) {
        s->made[1 + s->made_count++ % (MADE - 1)] = op.target;
    }
    rv = ns_log(s->f.ns, before + 1, replay_one, &r, &s->f.err);
    if (rv != 0 || r.status != 0) {
        print_error("%s: %s %s\n", op_kind_name(op.kind), s->f.err.text, s->again.err.text);
    }
    assert_int_equal(rv, 0);
    assert_int_equal(r.status, 0);
    assert_int_equal(r.sequence, before + 1);
}

/* Read from the store, for the namespace was opened again. */
static void assert_inodes_are_sound(struct strange *s)
{
    struct inode found;

    for (int i = 0; i < MADE; i++) {
        int rv = ns_inode(s->f.ns, s->made[i], &found, &s->f.err);

        assert_true(rv == 0 || rv == MORSEL_STALE);
    }
}

/* One namespace has followed operations, the other one was filled from the store. */
static void assert_sets_are_the_same(struct strange *s)
{
    const struct sets *loaded = ns_sets(s->f.ns), *kept = ns_sets(s->again.ns);

    sets_check(loaded);
    sets_check(kept);
    assert_int_equal(loaded->count, kept->count);
    for (uint32_t i = 0; i < kept->count; i++) {
        const struct data_set *a = loaded->items[i], *b = kept->items[i];
        struct set_morsel m, n;

        assert_true(a->head.number == b->head.number && a->head.sealed == b->head.sealed);
        assert_true(a->morsels == b->morsels && a->thin == b->thin);
        assert_int_equal(a->waste_count, b->waste_count);
        for (uint32_t from = 0; set_next(b, from, &m); from = m.number + 1) {
            assert_true(set_get(a, m.number, &n) && m.length == n.length && m.digest == n.digest);
            assert_true(m.rewriting == n.rewriting && m.donor_count == n.donor_count);
            assert_memory_equal(m.donors, n.donors, m.donor_count * sizeof(donor_id));
        }
    }
    for (donor_id donor = 1; donor <= 5; donor++) {
        const struct donor_sets *a = sets_of_donor(loaded, donor), *b = sets_of_donor(kept, donor);

        assert_int_equal(a != NULL ? a->waste : 0, b != NULL ? b->waste : 0);
    }
}

static void what_is_taken_comes_back_from_the_log(void **state)
{
    const uint64_t first = test_seed_first();
    struct strange *s = calloc(1, sizeof(*s));

    (void)state;
    assert_non_null(s);
    memset(s->noise, 'n', sizeof(s->noise));
    buf_init(&s->lists);
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        ns_fixture_open(&s->f, seed);
        ns_fixture_open(&s->again, seed);
        for (int i = 0; i < MADE; i++) {
            s->made[i] = INODE_ROOT;
        }
        for (int i = 0; i < OPS; i++) {
            run_one(s);
        }
        assert_same(s);
        assert_int_equal(ns_fixture_reopen(&s->f), 0);
        assert_inodes_are_sound(s);
        assert_sets_are_the_same(s);
        ns_fixture_close(&s->f);
        ns_fixture_close(&s->again);
    }
    for (int kind = OP_CREATE; kind < OP_KIND_END; kind++) {
        if (kind != OP_REPAIR && op_kind_known((enum op_kind)kind) && s->taken[kind] == 0) {
            fail_msg("no %s was ever taken", op_kind_name((enum op_kind)kind));
        }
    }
    buf_free(&s->lists);
    free(s);
}

/* It has no name that anybody would read. */
static void a_file_without_a_name_has_none(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = op_make(INODE_ROOT, "", 0100600);
    uint8_t name_bytes[NAME_BYTES_MAX + 1];

    (void)state;
    assert_non_null(f);
    memset(name_bytes, 'n', sizeof(name_bytes));
    ns_fixture_open(f, 1);
    op.make.orphan = true;
    op.make.name = (struct slice){ name_bytes, sizeof(name_bytes) };
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    op.make.name.count = 1;
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    op.make.name.count = 0;
    assert_int_equal(ns_fixture_run(f, &op), 0);
    ns_fixture_close(f);
    free(f);
}

/* A lease period that the manager never gives stands for whatever is not checked where it should be. */
static void what_the_log_cannot_hold_is_refused(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = { .kind = OP_HOLDER };
    struct lease_epoch_kept lease_epochs[1];
    uint32_t count;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    op.holder.lease_epoch = 7;
    op.holder.lease_period_ms = LEASE_MS_MAX + 1;
    op.holder.holds = true;
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    assert_non_null(strstr(f->err.text, "holder"));
    assert_int_equal(ns_unreadable(f->ns), 1);
    assert_int_equal(ns_counters(f->ns)->sequence, 1);
    assert_int_equal(ns_holders(f->ns, lease_epochs, 1, &count, &f->err), 0);
    assert_int_equal(count, 0);
    op.holder.lease_period_ms--; /* And all goes on. */
    assert_int_equal(ns_fixture_run(f, &op), 0);
    assert_int_equal(ns_fixture_reopen(f), 0);
    ns_fixture_close(f);
    free(f);
}

static bool visit_none(void *data, uint64_t sequence, const struct meta_op *op)
{
    (void)data;
    (void)sequence;
    (void)op;
    return true;
}

/* What managers before this check may have logged. */
static void an_older_log_may_name_a_file_without_a_name(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));
    struct meta_op op = op_make(INODE_ROOT, "", 0100600), back;
    uint8_t name_bytes[NAME_BYTES_MAX + 1] = { 'n' };
    struct buf record;

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    buf_init(&record);
    op.make.name = (struct slice){ name_bytes, sizeof(name_bytes) };
    op_encode(&op, &record);
    assert_int_equal(op_decode(buf_slice(&record), &back), MORSEL_CORRUPT);
    op.make.orphan = true;
    op.target = ns_counters(f->ns)->inode_next;
    buf_clear(&record);
    op_encode(&op, &record);
    assert_int_equal(op_decode(buf_slice(&record), &back), 0);
    assert_int_equal(ns_replay(f->ns, &back, &f->err), 0);
    assert_int_equal(ns_fixture_reopen(f), 0);
    assert_int_equal(ns_log(f->ns, 1, visit_none, NULL, &f->err), 0);
    buf_free(&record);
    ns_fixture_close(f);
    free(f);
}

static void damage_record(struct ns_fixture *f, size_t at, uint8_t value)
{
    struct record_key key = key_log(ns_counters(f->ns)->sequence);
    struct kv_batch batch;
    struct buf record;

    buf_init(&record);
    kv_batch_init(&batch);
    assert_int_equal(f->kv->get(f->kv, record_key_slice(&key), &record, NULL), 0);
    record.data[at < record.count ? at : record.count - 1] = value;
    record.count -= at < record.count ? 0 : 1;
    kv_batch_put(&batch, record_key_slice(&key), buf_slice(&record));
    assert_int_equal(f->kv->commit(f->kv, &batch, false, NULL), 0);
    kv_batch_free(&batch);
    buf_free(&record);
}

static void a_damaged_record_is_named(void **state)
{
    struct ns_fixture *f = calloc(1, sizeof(*f));

    (void)state;
    assert_non_null(f);
    ns_fixture_open(f, 1);
    (void)ns_must_make(f, INODE_ROOT, "a", 0100644);
    damage_record(f, SIZE_MAX, 0); /* The last byte is missing. */
    assert_int_equal(ns_log(f->ns, 1, visit_none, NULL, &f->err), MORSEL_CORRUPT);
    assert_non_null(strstr(f->err.text, "operation 2 of the log (create) is damaged"));
    damage_record(f, 0, 200);
    assert_int_equal(ns_log(f->ns, 1, visit_none, NULL, &f->err), MORSEL_VERSION);
    assert_non_null(strstr(f->err.text, "newer version"));
    ns_fixture_close(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_taken_comes_back_from_the_log),
        cmocka_unit_test(a_file_without_a_name_has_none),
        cmocka_unit_test(an_older_log_may_name_a_file_without_a_name),
        cmocka_unit_test(what_the_log_cannot_hold_is_refused),
        cmocka_unit_test(a_damaged_record_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
