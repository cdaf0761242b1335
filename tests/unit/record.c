/* Records and operations: what is encoded comes back, and no bytes whatever are trusted. */
#include "meta/namespace/record.h"
#include "common/base/prng.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/op.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct inode sample_file(void)
{
    struct inode inode = { .id = 5,
                           .mode = 0100640,
                           .nlink = 2,
                           .uid = 3,
                           .gid = 4,
                           .size = 99,
                           .reach = 1000,
                           .atime_ns = -5,
                           .mtime_ns = 6,
                           .ctime_ns = 7,
                           .version = 8,
                           .data_version = 9,
                           .tail = 10,
                           .flags = INODE_HAS_XATTR | INODE_TAILED };

    inode.layout.class = CLASS_DURABLE;
    inode.layout.replicas = 1;
    inode.layout.stripe = (struct stripe){ MORSEL_BYTES_DEFAULT, 2, 3 };
    inode.layout.servers[0] = 7;
    inode.layout.servers[1] = 8;
    inode.layout.servers[2] = 9;
    return inode;
}

static struct inode sample_directory(void)
{
    struct inode inode = {
        .id = 6, .mode = 0040755, .nlink = 2, .parent = 1, .entries = 3, .version = 1
    };

    inode.policy.width = 2;
    return inode;
}

static void assert_inode_round_trip(const struct inode *inode)
{
    struct inode back;
    struct buf b;

    buf_init(&b);
    inode_encode(inode, &b);
    assert_int_equal(inode_decode(inode->id, buf_slice(&b), &back), 0);
    assert_memory_equal(inode, &back, sizeof(back));
    for (size_t cut = 0; cut < b.count; cut++) {
        assert_int_equal(inode_decode(inode->id, (struct slice){ b.data, cut }, &back),
                         MORSEL_CORRUPT);
    }
    buf_put_u8(&b, 0);
    assert_int_equal(inode_decode(inode->id, buf_slice(&b), &back), MORSEL_CORRUPT);
    b.data[0] = INODE_VERSION_BODY + 1;
    assert_int_equal(inode_decode(inode->id, buf_slice(&b), &back), MORSEL_VERSION);
    buf_free(&b);
}

static void inodes_come_back(void **state)
{
    struct inode file = sample_file(), directory = sample_directory();
    struct inode device = { .id = 7, .mode = 0020600, .nlink = 1, .rdev = 0x501 };

    (void)state;
    assert_inode_round_trip(&file);
    file.body = 44;
    assert_inode_round_trip(&file);
    assert_inode_round_trip(&directory);
    assert_inode_round_trip(&device);
}

static void keys_sort_by_number_and_come_apart(void **state)
{
    struct record_key a = key_inode(255), b = key_inode(256);
    struct record_key d = key_dentry(3, (struct slice){ (const uint8_t *)"xy", 2 });
    struct record_key g = key_garbage(9, (struct object_id){ 1234567890123, 4 });
    struct object_id object;
    struct slice name;
    server_id server;
    inode_id inode;

    (void)state;
    assert_true(memcmp(a.bytes, b.bytes, a.count) < 0);
    assert_true(key_inode_parse(record_key_slice(&b), RECORD_INODE, &inode));
    assert_int_equal(inode, 256);
    assert_false(key_inode_parse(record_key_slice(&b), RECORD_LOG, &inode));
    assert_true(key_name_parse(record_key_slice(&d), RECORD_DENTRY, &inode, &name));
    assert_int_equal(inode, 3);
    assert_int_equal(name.count, 2);
    assert_true(key_garbage_parse(record_key_slice(&g), &server, &object));
    assert_int_equal(server, 9);
    assert_int_equal(object.inode, 1234567890123);
    assert_int_equal(object.column, 4);
}

static void small_records_come_back(void **state)
{
    struct dentry dentry = { 77, 0040000 }, dentry_back;
    struct counters counters = { 1, 2, 3, 4, 5, 6, 7, 8 }, counters_back;
    struct super super = { STORE_VERSION, { "0123456789abcde" }, 55, false }, super_back;
    struct member_record member = { .id = 3, .address = "h:1", .name = "n", .bytes_total = 9 };
    struct member_record member_back;
    struct buf b;

    (void)state;
    buf_init(&b);
    dentry_encode(&dentry, &b);
    assert_int_equal(dentry_decode(buf_slice(&b), &dentry_back), 0);
    assert_int_equal(dentry_back.inode, 77);
    buf_clear(&b);
    counters_encode(&counters, &b);
    assert_int_equal(counters_decode(buf_slice(&b), &counters_back), 0);
    assert_memory_equal(&counters, &counters_back, sizeof(counters));
    buf_clear(&b);
    super_encode(&super, &b);
    assert_int_equal(super_decode(buf_slice(&b), &super_back), 0);
    assert_memory_equal(&super.cluster, &super_back.cluster, sizeof(super.cluster));
    assert_false(super_back.auto_copies);
    assert_int_equal(b.data[0], RECORD_VERSION); /* As older versions wrote it, and can read it. */
    buf_clear(&b);
    super.auto_copies = true;
    super_encode(&super, &b);
    assert_int_equal(super_decode(buf_slice(&b), &super_back), 0);
    assert_true(super_back.auto_copies);
    assert_int_equal(b.data[0], SUPER_VERSION_COPIES);
    b.data[0]++;
    assert_int_equal(super_decode(buf_slice(&b), &super_back), MORSEL_VERSION);
    buf_clear(&b);
    super.store_version++;
    super_encode(&super, &b);
    assert_int_equal(super_decode(buf_slice(&b), &super_back), MORSEL_VERSION);
    buf_clear(&b);
    member_encode(&member, &b);
    assert_int_equal(member_decode(3, buf_slice(&b), &member_back), 0);
    assert_string_equal(member_back.address, "h:1");
    assert_int_equal(member_back.starts.confirmed, 0); /* As in records from before. */
    member.starts = (struct starts_known){ .confirmed = 4, .tentative = 5, .count = 6 };
    buf_clear(&b);
    member_encode(&member, &b);
    assert_int_equal(member_decode(3, buf_slice(&b), &member_back), 0);
    assert_memory_equal(&member_back.starts, &member.starts, sizeof(member.starts));
    for (size_t cut = 1; cut < 8; cut++) {
        struct slice part = { b.data, b.count - cut };

        assert_int_equal(member_decode(3, part, &member_back), MORSEL_CORRUPT);
    }
    memset(b.data + b.count - 8, 0, 8); /* No count is written as nothing. */
    assert_int_equal(member_decode(3, buf_slice(&b), &member_back), MORSEL_CORRUPT);
    member.starts.count = 0; /* As in records from before it was told. */
    buf_clear(&b);
    member_encode(&member, &b);
    assert_int_equal(member_decode(3, buf_slice(&b), &member_back), 0);
    assert_memory_equal(&member_back.starts, &member.starts, sizeof(member.starts));
    for (size_t cut = 1; cut < 16; cut++) {
        struct slice part = { b.data, b.count - cut };

        assert_int_equal(member_decode(3, part, &member_back), MORSEL_CORRUPT);
    }
    memset(b.data + b.count - 16, 0, 16); /* No marks are written as nothing. */
    assert_int_equal(member_decode(3, buf_slice(&b), &member_back), MORSEL_CORRUPT);
    assert_false(member_back.removed);
    member.removed = true; /* Older managers must not let it in again. */
    buf_clear(&b);
    member_encode(&member, &b);
    assert_int_equal(b.data[0], RECORD_VERSION + 1);
    assert_int_equal(member_decode(3, buf_slice(&b), &member_back), 0);
    assert_true(member_back.removed && !member_back.waits);
    member.removed = false;
    member.waits = true; /* Likewise. */
    buf_clear(&b);
    member_encode(&member, &b);
    assert_int_equal(b.data[0], RECORD_VERSION + 2);
    assert_int_equal(member_decode(3, buf_slice(&b), &member_back), 0);
    assert_true(member_back.waits && !member_back.removed);
    b.data[0]++;
    assert_int_equal(member_decode(3, buf_slice(&b), &member_back), MORSEL_VERSION);
    buf_free(&b);
}

static void donors_come_back(void **state)
{
    struct donor_record donor = { .id = 3, .name = "desk", .token = "0123456789abcde" }, back;
    struct record_key a = key_donor(255), b = key_donor(256);
    struct buf bytes;

    (void)state;
    assert_true(a.count == 5 && memcmp(a.bytes, b.bytes, a.count) < 0);
    buf_init(&bytes);
    donor_encode(&donor, &bytes);
    assert_int_equal(donor_decode(3, buf_slice(&bytes), &back), 0);
    assert_memory_equal(&back, &donor, sizeof(donor));
    for (size_t cut = 0; cut < bytes.count; cut++) {
        assert_int_equal(donor_decode(3, (struct slice){ bytes.data, cut }, &back), MORSEL_CORRUPT);
    }
    buf_put_u8(&bytes, 0);
    assert_int_equal(donor_decode(3, buf_slice(&bytes), &back), MORSEL_CORRUPT);
    bytes.data[0] = RECORD_VERSION + 1;
    assert_int_equal(donor_decode(3, buf_slice(&bytes), &back), MORSEL_VERSION);
    memset(donor.name, 'n', sizeof(donor.name) - 1); /* As long as a name may be, */
    buf_clear(&bytes);
    donor_encode(&donor, &bytes);
    assert_int_equal(donor_decode(3, buf_slice(&bytes), &back), 0);
    assert_string_equal(back.name, donor.name);
    buf_clear(&bytes); /* and one more. */
    buf_put_u8(&bytes, RECORD_VERSION);
    buf_put(&bytes, donor.token, sizeof(donor.token));
    buf_put_blob(&bytes, donor.name, sizeof(donor.name));
    assert_int_equal(donor_decode(3, buf_slice(&bytes), &back), MORSEL_CORRUPT);
    buf_free(&bytes);
}

/* ---- Operations ---- */

/* Version 1, of voter 2 of server 0, and no change; voters_record.h. */
static const uint8_t one_voter[] = { 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
                                     2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };

/* Version 1, and no group; groups_record.h. */
static const uint8_t no_group[] = { 1, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0 };

/* With two donors, while it is being written anew; op.h. */
static const uint8_t one_morsel[] = { 0x12, 5, 0, 0, 0, 9, 0, 0, 0, 8, 7,
                                      6,    5, 1, 0, 0, 0, 2, 0, 0, 0 };
/* http://h/x, "e", 5 bytes; common/fs/origin.h. */
static const uint8_t one_origin[] = { 1,   10,  0, 0, 0, 'h', 't', 't', 'p', ':', '/', '/', 'h',
                                      '/', 'x', 3, 0, 0, 0,   '"', 'e', '"', 5,   0,   0,   0,
                                      0,   0,   0, 0, 6, 0,   0,   0,   0,   0,   0,   0 };
static const uint8_t one_run[] = { 4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0 };

/* One of each kind, with something in every field. */
static struct meta_op sample_op(enum op_kind kind, const struct buf *objects)
{
    struct meta_op op = { .kind = kind,
                          .time_ns = -3,
                          .client = 4,
                          .client_sequence = 5,
                          .answered = 2,
                          .who = { .uid = 6, .gid = 7 },
                          .open = true,
                          .target = 8 };

    switch (kind) {
    case OP_CREATE:
        op.make.parent = 1;
        op.make.name = slice_text("name");
        op.make.mode = 0100644;
        op.make.umask = 022;
        op.make.layout = sample_file().layout;
        break;
    case OP_RENAME:
        op.rename.name = slice_text("a");
        op.rename.new_name = slice_text("b");
        op.rename.flags = RENAME_FLAG_EXCHANGE;
        break;
    case OP_UNLINK:
        op.unlink.name = slice_text("u");
        break;
    case OP_LINK:
        op.link.new_name = slice_text("l");
        break;
    case OP_XATTR:
        op.xattr.name = slice_text("user.x");
        op.xattr.value = slice_text("value");
        break;
    case OP_COLLECTED:
    case OP_GARBAGE:
        op.objects.server = 3;
        op.objects.objects = buf_slice(objects);
        break;
    case OP_MEMBER:
        op.member.id = 3;
        (void)memcpy(op.member.address, "h:1", 4);
        break;
    case OP_DONOR_HOURS:
        op.hours.id = 3;
        op.hours.share[5] = 77;
        op.hours.absences[2] = 16;
        op.hours.left_local_s = 88;
        op.hours.missed = 99;
        break;
    case OP_DONOR:
        op.donor.id = 3;
        (void)memcpy(op.donor.name, "desk", 5);
        break;
    case OP_SET_STORED:
        op.set_stored.inode = 10;
        op.set_stored.set = 11;
        op.set_stored.size = 12;
        op.set_stored.mtime_ns = -4;
        op.set_stored.strips_ids = true;
        op.set_stored.morsels = (struct slice){ one_morsel, sizeof(one_morsel) };
        op.set_stored.waste = (struct slice){ one_run, sizeof(one_run) };
        break;
    case OP_SET_SEAL:
        op.set_seal.inode = 10;
        op.set_seal.set = 11;
        op.set_seal.size = 12;
        break;
    case OP_SET_ORIGIN:
        op.set_origin.inode = 10;
        op.set_origin.set = 11;
        op.set_origin.record = (struct slice){ one_origin, sizeof(one_origin) };
        break;
    case OP_SET_COLLECTED:
    case OP_SET_LOST:
        op.set_runs.donor = 3;
        op.set_runs.runs = (struct slice){ one_run, sizeof(one_run) };
        break;
    case OP_SET_COPY:
        op.set_copy.set = 11;
        op.set_copy.morsel = 12;
        op.set_copy.length = 13;
        op.set_copy.digest = 14;
        op.set_copy.change = OP_COPY_ADD;
        op.set_copy.donor = 15;
        op.set_copy.instead = 16;
        break;
    case OP_SET_USED:
        op.set_used.set = 11;
        op.set_used.first_ns = 5;
        op.set_used.uses = (struct lru_k_uses){ .count = 2, .times_ns = { 7, 6 }, .last_ns = 8 };
        break;
    case OP_SET_EVICT:
        op.set_evict.set = 11;
        op.set_evict.kept = 12;
        break;
    case OP_SET_MARK:
        op.set_mark.set = 11;
        op.set_mark.pinned = true;
        break;
    case OP_SET_RESERVE:
        op.set_reserve.inode = 10;
        op.set_reserve.set = 11;
        op.set_reserve.size = 12;
        break;
    case OP_SET_LET_GO:
        op.set_let_go.set = 11;
        break;
    case OP_DONOR_FORGET:
        op.donor_forget.donor = 11;
        break;
    case OP_SIZE_REPORT:
        op.size_report.size = 9;
        op.size_report.sparse = op.size_report.strips_ids = op.size_report.truncates =
            op.size_report.tail_clean = true;
        op.size_report.truncate_size = 8;
        op.size_report.unsynced = buf_slice(objects); /* Of as many bytes each. */
        break;
    case OP_SYNCED:
        op.synced.inode = 11;
        op.synced.data_version = 12;
        op.synced.columns = buf_slice(objects);
        break;
    case OP_VOTERS:
        op.voters.record = (struct slice){ one_voter, sizeof(one_voter) };
        break;
    case OP_GROUPS:
        op.groups.record = (struct slice){ no_group, sizeof(no_group) };
        break;
    case OP_SET_LAYOUT:
        op.set_layout.inode = 10;
        op.set_layout.layout = sample_file().layout;
        break;
    case OP_EXCHANGE:
        op.exchange.inode = 10;
        op.exchange.with = 11;
        break;
    case OP_SESSIONS:
        op.sessions.clients = buf_slice(objects); /* Of as many bytes each. */
        break;
    case OP_REPAIR:
        op.repair.what = REPAIR_DENTRY;
        op.repair.name = slice_text("r");
        break;
    default:
        break;
    }
    return op;
}

static void operations_come_back(void **state)
{
    struct buf objects, once, twice;

    (void)state;
    buf_init(&objects);
    buf_init(&once);
    buf_init(&twice);
    op_objects_put(&objects, (struct object_id){ 1, 2 });
    op_objects_put(&objects, (struct object_id){ 3, 4 });
    for (int kind = OP_FORMAT; kind < OP_KIND_END; kind++) {
        struct meta_op op = sample_op((enum op_kind)kind, &objects), back;

        if (!op_kind_known((enum op_kind)kind)) {
            continue;
        }
        buf_clear(&once);
        buf_clear(&twice);
        op_encode(&op, &once);
        assert_int_equal(op_decode(buf_slice(&once), &back), 0);
        op_encode(&back, &twice);
        assert_int_equal(once.count, twice.count);
        assert_memory_equal(once.data, twice.data, once.count);
        for (size_t cut = 0; cut < once.count; cut++) {
            assert_int_equal(op_decode((struct slice){ once.data, cut }, &back), MORSEL_CORRUPT);
        }
    }
    assert_int_equal(op_objects_count(buf_slice(&objects)), 2);
    assert_int_equal(op_object_at(buf_slice(&objects), 1).column, 4);
    buf_free(&objects);
    buf_free(&once);
    buf_free(&twice);
}

static void sessions_come_back(void **state)
{
    const struct session_record untold = { 9, SESSION_STRUCK_OUT }, here = { 0, 1234 };
    struct session_record back;
    struct buf b;

    (void)state;
    buf_init(&b);
    session_record_encode(&untold, &b);
    assert_int_equal(session_record_decode(0, buf_slice(&b), &back), 0);
    assert_true(back.run == 9 && back.waited_ms == SESSION_STRUCK_OUT);
    assert_int_equal(session_record_decode(5, buf_slice(&b), &back), MORSEL_CORRUPT);
    buf_clear(&b);
    session_record_encode(&here, &b);
    assert_int_equal(session_record_decode(5, buf_slice(&b), &back), 0);
    assert_true(back.run == 0 && back.waited_ms == 1234);
    assert_int_equal(session_record_decode(0, buf_slice(&b), &back), MORSEL_CORRUPT);
    b.data[0]++;
    assert_int_equal(session_record_decode(5, buf_slice(&b), &back), MORSEL_VERSION);
    buf_free(&b);
}

/* Whose run is told with nobody, or not told with client 0, is not taken; nor is nothing. */
static void sessions_in_operations_are_looked_at(void **state)
{
    struct meta_op op = { .kind = OP_SESSIONS };
    struct buf clients;

    (void)state;
    buf_init(&clients);
    assert_false(op_sessions_sound(&op));
    op_session_put(&clients, 7, 1);
    op.sessions.clients = buf_slice(&clients);
    assert_true(op_sessions_sound(&op));
    op.sessions.run = 3;
    assert_false(op_sessions_sound(&op));
    op_session_put(&clients, 0, 1);
    op.sessions.clients = buf_slice(&clients);
    assert_true(op_sessions_sound(&op));
    op.sessions.run = 0;
    assert_false(op_sessions_sound(&op));
    op.sessions.run = 3;
    op.sessions.clients.count--;
    assert_false(op_sessions_sound(&op));
    buf_clear(&clients);
    for (client_id client = 1; client <= OP_SESSIONS_MAX + 1; client++) {
        op_session_put(&clients, client, 0);
    }
    op.sessions.run = 0;
    op.sessions.clients = buf_slice(&clients);
    assert_false(op_sessions_sound(&op));
    buf_free(&clients);
}

/* The first of a log: in an older one nothing is said of copies. */
static void a_format_says_whose_default_holds(void **state)
{
    struct meta_op op = { .kind = OP_FORMAT }, back;
    struct buf older, newer;

    (void)state;
    buf_init(&older);
    buf_init(&newer);
    op_encode(&op, &older);
    op.format.auto_copies = true;
    op_encode(&op, &newer);
    assert_int_equal(newer.count, older.count + 1);
    assert_int_equal(op_decode(buf_slice(&older), &back), 0);
    assert_false(back.format.auto_copies);
    assert_int_equal(op_decode(buf_slice(&newer), &back), 0);
    assert_true(back.format.auto_copies);
    newer.data[newer.count - 1] = 0; /* Nobody writes that. */
    assert_int_equal(op_decode(buf_slice(&newer), &back), MORSEL_CORRUPT);
    buf_free(&older);
    buf_free(&newer);
}

/* ---- Noise ---- */

/* Whatever decodes must encode to the same bytes; nothing may be read beyond the end (the sanitizer
 * looks). */
static void decode_all(const uint8_t *bytes, size_t count)
{
    struct slice s = { bytes, count };
    struct member_record member;
    struct donor_record donor;
    struct counters counters;
    struct dentry dentry;
    struct super super;
    struct inode inode;
    struct meta_op op;
    struct buf b;

    buf_init(&b);
    if (inode_decode(1, s, &inode) == 0) {
        inode_encode(&inode, &b);
        assert_int_equal(b.count, count);
        assert_memory_equal(b.data, bytes, count);
    }
    (void)dentry_decode(s, &dentry);
    (void)super_decode(s, &super);
    (void)counters_decode(s, &counters);
    (void)member_decode(1, s, &member);
    (void)donor_decode(1, s, &donor);
    (void)op_decode(s, &op);
    buf_free(&b);
}

static void random_bytes_are_survived(void **state)
{
    struct inode file = sample_file();
    struct prng prng = { 42 };
    struct buf b;

    (void)state;
    buf_init(&b);
    for (int i = 0; i < 20000; i++) {
        buf_clear(&b);
        if (i % 2 == 0) {
            inode_encode(&file, &b); /* Nearly right is where mistakes hide. */
            b.data[prng_below(&prng, b.count)] ^= (uint8_t)(1U << prng_below(&prng, 8));
        } else {
            size_t count = prng_below(&prng, 120);

            for (size_t n = 0; n < count; n++) {
                buf_put_u8(&b, n == 0 ? 1 : (uint8_t)prng_next(&prng));
            }
        }
        decode_all(b.data, b.count);
    }
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inodes_come_back),
        cmocka_unit_test(keys_sort_by_number_and_come_apart),
        cmocka_unit_test(small_records_come_back),
        cmocka_unit_test(donors_come_back),
        cmocka_unit_test(operations_come_back),
        cmocka_unit_test(sessions_come_back),
        cmocka_unit_test(sessions_in_operations_are_looked_at),
        cmocka_unit_test(a_format_says_whose_default_holds),
        cmocka_unit_test(random_bytes_are_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
