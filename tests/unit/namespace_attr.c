/* Attributes, extended attributes, access lists, policy and limits, case by case. */
#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/acl.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int setup(void **state)
{
    struct ns_fixture *f = test_calloc(1, sizeof(*f));

    ns_fixture_open(f, 1);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    ns_fixture_close(*state);
    test_free(*state);
    return 0;
}

static struct meta_op op_setattr(inode_id inode, uint32_t valid)
{
    struct meta_op op = { .kind = OP_SETATTR };

    op.setattr.inode = inode;
    op.setattr.valid = valid;
    return op;
}

static struct meta_op op_chmod(inode_id inode, uint32_t mode, uint32_t uid, uint32_t gid)
{
    struct meta_op op = op_setattr(inode, SETATTR_MODE);

    op.setattr.mode = mode;
    op.who.uid = uid;
    op.who.gid = gid;
    op.who.groups_known = true;
    return op;
}

/* ---- Owner and mode ---- */

static void setgid_directories_hand_down_their_group(void **state)
{
    struct ns_fixture *f = *state;
    inode_id dir = ns_must_make(f, INODE_ROOT, "d", 0042775);
    struct meta_op op = op_setattr(dir, SETATTR_GID), sub, file;
    struct inode inode;

    op.setattr.gid = 50;
    ns_must(f, op);
    sub = op_make(dir, "sub", 0040755);
    sub.who.uid = sub.who.gid = 7;
    assert_int_equal(ns_fixture_run(f, &sub), 0);
    inode = ns_must_inode(f, sub.target);
    assert_int_equal(inode.gid, 50);
    assert_int_equal(inode.mode, 0042755);
    file = op_make(dir, "file", 0102775);
    file.who.uid = file.who.gid = 7; /* Not in group 50: no set-group-id program for it. */
    assert_int_equal(ns_fixture_run(f, &file), 0);
    inode = ns_must_inode(f, file.target);
    assert_int_equal(inode.gid, 50);
    assert_int_equal(inode.mode, 0100775);
}

static void chmod_gives_setgid_to_members_only(void **state)
{
    const uint32_t groups[] = { 3, 50 };
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100755);
    struct meta_op op = op_setattr(file, SETATTR_UID | SETATTR_GID);

    op.setattr.uid = 7;
    op.setattr.gid = 50;
    ns_must(f, op);
    ns_must(f, op_chmod(file, 02755, 7, 7));
    assert_int_equal(ns_must_inode(f, file).mode, 0100755);
    op = op_chmod(file, 02755, 7, 7);
    op.who.groups = groups;
    op.who.groups_count = 2;
    ns_must(f, op);
    assert_int_equal(ns_must_inode(f, file).mode, 0102755);
    ns_must(f, op_chmod(file, 02700, 0, 0));
    assert_int_equal(ns_must_inode(f, file).mode, 0102700);
}

static void chown_clears_set_id_bits(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0106755);
    inode_id plain = ns_must_make(f, INODE_ROOT, "p", 0106644);
    inode_id dir = ns_must_make(f, INODE_ROOT, "d", 0042755);

    ns_must(f, op_setattr(file, SETATTR_UID));
    ns_must(f, op_setattr(plain, SETATTR_GID));
    ns_must(f, op_setattr(dir, SETATTR_UID));
    assert_int_equal(ns_must_inode(f, file).mode, 0100755);
    assert_int_equal(ns_must_inode(f, plain).mode,
                     0102644); /* Without x it means something else. */
    assert_int_equal(ns_must_inode(f, dir).mode, 0042755);
}

static void umask_counts_without_a_default_list(void **state)
{
    struct ns_fixture *f = *state;
    struct meta_op op = op_make(INODE_ROOT, "f", 0100666);

    op.make.umask = 027;
    assert_int_equal(ns_fixture_run(f, &op), 0);
    assert_int_equal(ns_must_inode(f, op.target).mode, 0100640);
}

/* ---- Size and times ---- */

static void size_and_times_follow_the_rules(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct inode before = ns_must_inode(f, file), after;
    struct meta_op op = op_setattr(file, SETATTR_SIZE);

    op.setattr.size = 1 << 30;
    ns_must(f, op);
    after = ns_must_inode(f, file);
    assert_int_equal(after.size, 1 << 30);
    assert_true(after.mtime_ns > before.mtime_ns && after.ctime_ns == after.mtime_ns);
    assert_int_equal(after.data_version, before.data_version + 1);
    assert_int_equal(after.version, before.version + 1);
    assert_int_equal(after.atime_ns, before.atime_ns);

    op.setattr.size = 5;
    ns_must(f, op);
    assert_int_equal(ns_must_inode(f, file).reach, 1 << 30); /* Objects may be there still. */

    op = op_setattr(file, SETATTR_ATIME | SETATTR_MTIME);
    op.setattr.atime_ns = -1;
    op.setattr.mtime_ns = 12;
    ns_must(f, op);
    after = ns_must_inode(f, file);
    assert_int_equal(after.atime_ns, -1);
    assert_int_equal(after.mtime_ns, 12);
    assert_int_equal(after.ctime_ns, f->time_ns);
}

static void sizes_have_limits_and_owners(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    inode_id dir = ns_must_make(f, INODE_ROOT, "d", 0040755);
    struct meta_op op = op_setattr(dir, SETATTR_SIZE);

    assert_int_equal(ns_fixture_run(f, &op), MORSEL_ISDIR);
    op = op_setattr(file, SETATTR_SIZE);
    op.setattr.size = (uint64_t)INT64_MAX + 1;
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_FBIG);
    op = op_setattr(file, SETATTR_KNOWN + 1);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    op = op_setattr(999, SETATTR_SIZE);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_STALE);
}

static void a_report_may_tell_of_a_truncation(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct meta_op op = { .kind = OP_SIZE_REPORT };
    struct inode inode;

    op.size_report.inode = file;
    op.size_report.size = 100;
    op.size_report.sparse = true;
    ns_must(f, op);
    op.size_report.sparse = false;
    op.size_report.truncates = true;
    op.size_report.truncate_size = 40; /* And then it was written up to 70. */
    op.size_report.size = 70;
    ns_must(f, op);
    inode = ns_must_inode(f, file);
    assert_int_equal(inode.size, 70);
    assert_int_equal(inode.flags & INODE_SPARSE, INODE_SPARSE);
    op.size_report.truncate_size = 200; /* A truncation lets nothing grow. */
    op.size_report.size = 0;
    ns_must(f, op);
    assert_int_equal(ns_must_inode(f, file).size, 70);
    op.size_report.truncate_size = 0;
    ns_must(f, op);
    inode = ns_must_inode(f, file);
    assert_int_equal(inode.size, 0);
    assert_int_equal(inode.reach, 100); /* Its objects are still there. */
    assert_int_equal(inode.flags & INODE_SPARSE, 0);
    op.size_report.truncate_size = (uint64_t)INT64_MAX + 1;
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_FBIG);
}

static bool tail_is_sure(struct ns_fixture *f, inode_id file)
{
    struct inode inode = ns_must_inode(f, file);

    return (inode.flags & INODE_TAILED) != 0 && inode.tail == ns_counters(f->ns)->lease_epochs_over;
}

static void nobody_is_sure_of_a_tail_once_a_lease_epoch_is_over(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct meta_op wrote = { .kind = OP_SIZE_REPORT }, holder = { .kind = OP_HOLDER };
    struct meta_op cut = op_setattr(file, SETATTR_SIZE);

    wrote.size_report.inode = file;
    wrote.size_report.size = 100;
    holder.holder.lease_epoch = 7;
    holder.holder.holds = true;
    ns_must(f, holder);
    ns_must(f, wrote);
    assert_true(tail_is_sure(f, file));
    holder.holder.holds = false;
    ns_must(f, holder);
    assert_false(tail_is_sure(f, file));
    ns_must(f, wrote);
    assert_false(tail_is_sure(f, file));
    wrote.size_report.tail_clean = true;
    ns_must(f, wrote);
    assert_true(tail_is_sure(f, file));
    ns_must(f, holder);
    assert_false(tail_is_sure(f, file));
    ns_must(f, cut);
    assert_true(tail_is_sure(f, file));
    assert_true(tail_is_sure(f, ns_must_make(f, INODE_ROOT, "younger", 0100644)));
}

static void a_report_only_lets_a_file_grow(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct meta_op op = { .kind = OP_SIZE_REPORT };
    struct inode inode;

    op.size_report.inode = file;
    op.size_report.size = 100;
    op.size_report.mtime_ns = 77;
    ns_must(f, op);
    op.size_report.size = 50;
    op.size_report.reach = 9 << 20;
    ns_must(f, op);
    inode = ns_must_inode(f, file);
    assert_int_equal(inode.size, 100);
    assert_int_equal(inode.reach, 9 << 20);
    assert_int_equal(inode.mtime_ns, 77);
    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    assert_int_equal(ns_counters(f->ns)->garbage, 2); /* Both columns were reached. */
}

static void a_report_may_take_set_id_bits_away(void **state)
{
    static const uint32_t modes[][2] = { { 0106755, 0100755 },
                                         { 0102745, 0102745 }, /* No execution by the group. */
                                         { 0102775, 0100775 },
                                         { 0101644, 0101644 } };
    struct ns_fixture *f = *state;

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct meta_op op = { .kind = OP_SIZE_REPORT };
        char name[] = { (char)('a' + i), '\0' };

        op.size_report.inode = ns_must_make(f, INODE_ROOT, name, modes[i][0]);
        ns_must(f, op);
        assert_int_equal(ns_must_inode(f, op.size_report.inode).mode, modes[i][0]);
        op.size_report.strips_ids = true;
        ns_must(f, op);
        assert_int_equal(ns_must_inode(f, op.size_report.inode).mode, modes[i][1]);
    }
}

static void a_file_moves_before_its_first_byte_only(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct inode before = ns_must_inode(f, file);
    struct meta_op op = { .kind = OP_SET_LAYOUT }, wrong, wrote = { .kind = OP_SIZE_REPORT };
    struct buf columns;

    op.set_layout.inode = file;
    op.set_layout.layout = before.layout;
    op.set_layout.layout.servers[0] = before.layout.servers[0] + 7;
    ns_must(f, op);
    assert_int_equal(ns_must_inode(f, file).layout.servers[0], before.layout.servers[0] + 7);
    wrong = op;
    wrong.set_layout.layout.stripe.morsel_bytes *= 2;
    assert_int_equal(ns_fixture_run(f, &wrong), MORSEL_INVAL);
    wrong = op;
    wrong.set_layout.inode = INODE_ROOT;
    assert_int_equal(ns_fixture_run(f, &wrong), MORSEL_INVAL);
    wrong.set_layout.inode = 999;
    assert_int_equal(ns_fixture_run(f, &wrong), MORSEL_STALE);
    wrote.size_report.inode = file;
    wrote.size_report.size = 1;
    ns_must(f, wrote);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    wrote.size_report.inode = op.set_layout.inode = ns_must_make(f, INODE_ROOT, "g", 0100644);
    wrote.size_report.size = 0;
    wrote.size_report.reach = 1; /* Space was reserved. */
    ns_must(f, wrote);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    wrote.size_report.inode = op.set_layout.inode = ns_must_make(f, INODE_ROOT, "h", 0100644);
    wrote.size_report.reach = 0;
    buf_init(&columns);
    op_unsynced_put(&columns, (struct unsynced_column){ .column = 0, .verifier = 7 });
    wrote.size_report.unsynced = buf_slice(&columns); /* Written, cut off, and known by column. */
    ns_must(f, wrote);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    buf_free(&columns);
}

/* ---- Names ---- */

static void names_are_checked(void **state)
{
    char longest[NAME_BYTES_MAX + 2];
    struct ns_fixture *f = *state;
    struct meta_op op;

    memset(longest, 'x', sizeof(longest));
    longest[NAME_BYTES_MAX + 1] = 0;
    op = op_make(INODE_ROOT, longest, 0100644);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_NAMETOOLONG);
    longest[NAME_BYTES_MAX] = 0;
    ns_must_make(f, INODE_ROOT, longest, 0100644);
    op = op_make(INODE_ROOT, "a/b", 0100644);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    op = op_make(INODE_ROOT, "", 0100644);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    op = op_make(INODE_ROOT, "..", 0040755);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_EXIST);
    op = op_unlink(INODE_ROOT, ".", true);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    op = op_make(INODE_ROOT, "t", 0170644);
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
}

static void dots_lead_where_they_should(void **state)
{
    struct ns_fixture *f = *state;
    inode_id dir = ns_must_make(f, INODE_ROOT, "d", 0040755);
    inode_id sub = ns_must_make(f, dir, "s", 0040755);
    struct inode inode;

    assert_int_equal(ns_lookup(f->ns, sub, text(".."), &inode, &f->err), 0);
    assert_int_equal(inode.id, dir);
    assert_int_equal(ns_lookup(f->ns, INODE_ROOT, text(".."), &inode, &f->err), 0);
    assert_int_equal(inode.id, INODE_ROOT);
    ns_must(f, op_rename(dir, "s", INODE_ROOT, "s", 0));
    assert_int_equal(ns_lookup(f->ns, sub, text(".."), &inode, &f->err), 0);
    assert_int_equal(inode.id, INODE_ROOT);
}

struct page
{
    uint32_t count, count_max;
    char last[NAME_BYTES_MAX + 1];
};

static bool visit_page(void *data, struct slice name, const struct dentry *dentry)
{
    struct page *page = data;

    (void)dentry;
    if (page->count == page->count_max) {
        return false;
    }
    assert_true(memcmp(page->last, name.data, name.count) != 0);
    memcpy(page->last, name.data, name.count);
    page->last[name.count] = 0;
    page->count++;
    return true;
}

static void a_directory_comes_in_pages(void **state)
{
    struct ns_fixture *f = *state;
    struct page page = { .count_max = 7 };
    uint32_t total = 0;
    bool end = false;

    for (char name[3] = "aa"; name[0] <= 'd'; name[0]++) {
        for (name[1] = 'a'; name[1] <= 'j'; name[1]++) {
            ns_must_make(f, INODE_ROOT, name, 0100644);
        }
    }
    while (!end) {
        char after[NAME_BYTES_MAX + 1];

        memcpy(after, page.last, sizeof(after));
        page.count = 0;
        assert_int_equal(
            ns_readdir(f->ns, INODE_ROOT, text(after), visit_page, &page, &end, &f->err), 0);
        total += page.count;
        assert_true(end || page.count == 7);
    }
    assert_int_equal(total, 40);
}

/* ---- Extended attributes ---- */

static int set_xattr(struct ns_fixture *f, inode_id inode, const char *name, uint32_t flags)
{
    struct meta_op op = op_xattr(inode, name, text("value"));

    op.xattr.flags = flags;
    return ns_fixture_run(f, &op);
}

static int remove_xattr(struct ns_fixture *f, inode_id inode, const char *name)
{
    struct meta_op op = op_xattr(inode, name, text(""));

    op.xattr.remove = true;
    return ns_fixture_run(f, &op);
}

static int get_xattr(struct ns_fixture *f, inode_id inode, const char *name)
{
    struct buf b;
    int rv;

    buf_init(&b);
    rv = ns_xattr_get(f->ns, inode, text(name), &b, &f->err);
    if (rv == 0) {
        assert_int_equal(b.count, 5);
        assert_memory_equal(b.data, "value", 5);
    }
    buf_free(&b);
    return rv;
}

static void attributes_come_and_go(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct buf names;

    assert_int_equal(get_xattr(f, file, "user.a"), MORSEL_NODATA);
    assert_int_equal(set_xattr(f, file, "user.a", XATTR_FLAG_REPLACE), MORSEL_NODATA);
    assert_int_equal(set_xattr(f, file, "user.a", XATTR_FLAG_CREATE), 0);
    assert_int_equal(set_xattr(f, file, "user.a", XATTR_FLAG_CREATE), MORSEL_EXIST);
    assert_int_equal(set_xattr(f, file, "trusted.b", 0), 0);
    assert_int_equal(get_xattr(f, file, "user.a"), 0);
    buf_init(&names);
    assert_int_equal(ns_xattr_list(f->ns, file, &names, &f->err), 0);
    assert_int_equal(names.count, sizeof("trusted.b") + sizeof("user.a"));
    assert_memory_equal(names.data, "trusted.b\0user.a", names.count);
    buf_free(&names);
    assert_int_equal(remove_xattr(f, file, "user.a"), 0);
    assert_int_equal(remove_xattr(f, file, "user.a"), MORSEL_NODATA);
    assert_int_equal(get_xattr(f, file, "user.a"), MORSEL_NODATA);
}

static void attributes_die_with_their_inode(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct record_key key = key_xattr(file, text("user.a"));
    struct buf value;

    assert_int_equal(set_xattr(f, file, "user.a", 0), 0);
    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    buf_init(&value);
    assert_int_equal(f->kv->get(f->kv, record_key_slice(&key), &value, NULL), MORSEL_NOENT);
    buf_free(&value);
}

static void attributes_have_limits(void **state)
{
    static uint8_t const big[XATTR_VALUE_BYTES_MAX + 1];
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    inode_id link = ns_must_make(f, INODE_ROOT, "l", 0120777);
    struct meta_op op = op_xattr(file, "user.big", (struct slice){ big, sizeof(big) });
    char name[XATTR_NAME_BYTES_MAX + 1];
    int rv = 0;

    assert_int_equal(ns_fixture_run(f, &op), MORSEL_2BIG);
    op.xattr.value.count--;
    assert_int_equal(ns_fixture_run(f, &op), 0);
    assert_int_equal(set_xattr(f, file, "other.a", 0), MORSEL_NOTSUP);
    assert_int_equal(set_xattr(f, link, "user.a", 0), MORSEL_PERM);
    assert_int_equal(set_xattr(f, link, "trusted.a", 0), 0);
    memset(name, 'n', sizeof(name));
    memcpy(name, "user.", 5);
    name[XATTR_NAME_BYTES_MAX] = 0;
    for (int i = 0; i < 300 && rv == 0; i++) {
        name[10] = (char)('0' + i / 64);
        name[11] = (char)('0' + i % 64);
        rv = set_xattr(f, file, name, 0);
    }
    assert_int_equal(rv, MORSEL_NOSPC); /* The list of names is full. */
}

/* ---- Access lists ---- */

static void put_acl(struct buf *b, const struct acl *acl)
{
    buf_init(b);
    acl_format(acl, b);
}

/* u::rwx u:5:rwx g::r-x m::rwx o::--- */
static const struct acl sample_acl = { 5,
                                       { { ACL_TAG_USER_OBJ, 7, UINT32_MAX },
                                         { ACL_TAG_USER, 7, 5 },
                                         { ACL_TAG_GROUP_OBJ, 5, UINT32_MAX },
                                         { ACL_TAG_MASK, 7, UINT32_MAX },
                                         { ACL_TAG_OTHER, 0, UINT32_MAX } } };

static int set_acl(struct ns_fixture *f, inode_id inode, const char *name, const struct acl *acl)
{
    struct meta_op op;
    struct buf b;
    int rv;

    put_acl(&b, acl);
    op = op_xattr(inode, name, buf_slice(&b));
    rv = ns_fixture_run(f, &op);
    buf_free(&b);
    return rv;
}

static void an_access_list_and_the_mode_agree(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct acl acl;
    struct buf b;

    assert_int_equal(set_acl(f, file, ACL_NAME_ACCESS, &sample_acl), 0);
    assert_int_equal(ns_must_inode(f, file).mode, 0100770);
    ns_must(f, op_chmod(file, 0750, 0, 0));
    buf_init(&b);
    assert_int_equal(ns_xattr_get(f->ns, file, text(ACL_NAME_ACCESS), &b, &f->err), 0);
    assert_int_equal(acl_parse(buf_slice(&b), &acl), 0);
    assert_int_equal(acl.entries[3].perm, 5);
    buf_free(&b);
    assert_int_equal(remove_xattr(f, file, ACL_NAME_ACCESS), 0);
    assert_int_equal(remove_xattr(f, file, ACL_NAME_ACCESS), 0);
    assert_int_equal(get_xattr(f, file, ACL_NAME_ACCESS), MORSEL_NODATA);
}

static void a_list_that_is_only_a_mode_is_not_kept(void **state)
{
    static const struct acl minimal = { 3,
                                        { { ACL_TAG_USER_OBJ, 6, UINT32_MAX },
                                          { ACL_TAG_GROUP_OBJ, 4, UINT32_MAX },
                                          { ACL_TAG_OTHER, 0, UINT32_MAX } } };
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100777);

    assert_int_equal(set_acl(f, file, ACL_NAME_ACCESS, &minimal), 0);
    assert_int_equal(ns_must_inode(f, file).mode, 0100640);
    assert_int_equal(get_xattr(f, file, ACL_NAME_ACCESS), MORSEL_NODATA);
}

static void a_default_list_is_inherited(void **state)
{
    struct ns_fixture *f = *state;
    inode_id dir = ns_must_make(f, INODE_ROOT, "d", 0040755);
    struct meta_op file = op_make(dir, "f", 0100666), sub = op_make(dir, "s", 0040777);
    struct inode inode;

    assert_int_equal(
        set_acl(f, ns_must_make(f, INODE_ROOT, "x", 0100644), ACL_NAME_DEFAULT, &sample_acl),
        MORSEL_ACCES);
    assert_int_equal(set_acl(f, dir, ACL_NAME_DEFAULT, &sample_acl), 0);
    file.make.umask = sub.make.umask = 0777; /* Does not count. */
    assert_int_equal(ns_fixture_run(f, &file), 0);
    inode = ns_must_inode(f, file.target);
    assert_int_equal(inode.mode, 0100660);
    assert_int_equal(inode.flags, INODE_HAS_XATTR | INODE_HAS_ACL | INODE_TAILED);
    assert_int_equal(ns_fixture_run(f, &sub), 0);
    inode = ns_must_inode(f, sub.target);
    assert_int_equal(inode.mode, 0040770);
    assert_int_equal(inode.flags, INODE_HAS_XATTR | INODE_HAS_ACL | INODE_HAS_DEFAULT_ACL);
}

/* ---- Policy ---- */

static void policy_is_inherited_field_by_field(void **state)
{
    struct ns_fixture *f = *state;
    inode_id dir = ns_must_make(f, INODE_ROOT, "d", 0040755);
    inode_id sub = ns_must_make(f, dir, "s", 0040755);
    struct meta_op op = { .kind = OP_POLICY };
    struct file_policy policy;

    assert_int_equal(ns_policy_effective(f->ns, sub, &policy, &f->err), 0);
    assert_int_equal(policy.width, STRIPE_WIDTH_DEFAULT);
    assert_int_equal(policy.replicas, 0); /* That is for the cluster to say. */
    op.policy.inode = dir;
    op.policy.policy.width = 2;
    op.policy.policy.morsel_bytes = 64 << 10;
    ns_must(f, op);
    op.policy.inode = sub;
    op.policy.policy = (struct file_policy){ .width = 3 };
    ns_must(f, op);
    assert_int_equal(ns_policy_effective(f->ns, sub, &policy, &f->err), 0);
    assert_int_equal(policy.width, 3);
    assert_int_equal(policy.morsel_bytes, 64 << 10);
    assert_int_equal(policy.class, CLASS_DURABLE);
    assert_int_equal(ns_counters(f->ns)->policies, 2);
    op.policy.policy.morsel_bytes = 12345;
    assert_int_equal(ns_fixture_run(f, &op), MORSEL_INVAL);
    ns_must(f, op_unlink(dir, "s", true));
    assert_int_equal(ns_counters(f->ns)->policies, 1);
}

/* ---- Garbage ---- */

/* Whatever comes and goes in the queues, a look at one finds its first records, as a set kept
 * beside tells. */
static void a_queue_is_found_from_its_floor(void **state)
{
    enum { SERVERS = 3, OBJECTS = 40, TURNS = 3000, PAGE = 5 };
    bool queued[SERVERS + 1][OBJECTS + 1] = { { false } };
    struct ns_fixture *f = *state;

    for (unsigned turn = 0; turn < TURNS; turn++) {
        server_id server = 1 + (server_id)prng_below(&f->prng, SERVERS);
        struct object_id object = { 1 + prng_below(&f->prng, OBJECTS), 7 }, found[PAGE];
        struct meta_op op = { .kind = prng_below(&f->prng, 3) == 0 ? OP_GARBAGE : OP_COLLECTED };
        uint32_t count, expected = 0;
        struct buf list;

        buf_init(&list);
        op_objects_put(&list, object);
        op.objects.server = server;
        op.objects.objects = buf_slice(&list);
        ns_must(f, op);
        buf_free(&list);
        queued[server][object.inode] = op.kind == OP_GARBAGE;
        server = 1 + (server_id)prng_below(&f->prng, SERVERS);
        assert_int_equal(ns_garbage(f->ns, server, found, PAGE, &count, &f->err), 0);
        for (inode_id inode = 1; inode <= OBJECTS && expected < PAGE; inode++) {
            if (queued[server][inode]) {
                assert_true(expected < count);
                assert_int_equal(found[expected++].inode, inode);
            }
        }
        assert_int_equal(count, expected);
    }
}

static void garbage_is_queued_by_server_and_reported_away(void **state)
{
    struct ns_fixture *f = *state;
    inode_id file = ns_must_make(f, INODE_ROOT, "f", 0100644);
    struct meta_op op = { .kind = OP_SIZE_REPORT };
    struct object_id objects[8];
    struct buf list;
    uint32_t count;

    op.size_report.inode = file;
    op.size_report.size = 3 << 20;
    ns_must(f, op);
    ns_must(f, op_unlink(INODE_ROOT, "f", false));
    assert_int_equal(ns_garbage(f->ns, 2, objects, 8, &count, &f->err), 0);
    assert_int_equal(count, 1);
    assert_int_equal(objects[0].inode, file);
    assert_int_equal(objects[0].column, 1);
    buf_init(&list);
    op_objects_put(&list, objects[0]);
    op_objects_put(&list, (struct object_id){ 1, 0 }); /* A, B, A */
    op_objects_put(&list, objects[0]);
    op_objects_sort(&list);
    op = (struct meta_op){ .kind = OP_COLLECTED };
    op.objects.server = 2;
    op.objects.objects = buf_slice(&list);
    ns_must(f, op);
    ns_must(f, op); /* The report comes again. */
    assert_int_equal(ns_counters(f->ns)->garbage, 1);
    assert_int_equal(ns_garbage(f->ns, 2, objects, 8, &count, &f->err), 0);
    assert_int_equal(count, 0);
    op.kind = OP_GARBAGE; /* Both come back, and are counted once. */
    ns_must(f, op);
    assert_int_equal(ns_counters(f->ns)->garbage, 3);
    buf_free(&list);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(setgid_directories_hand_down_their_group),
        TEST(chmod_gives_setgid_to_members_only),
        TEST(chown_clears_set_id_bits),
        TEST(umask_counts_without_a_default_list),
        TEST(size_and_times_follow_the_rules),
        TEST(sizes_have_limits_and_owners),
        TEST(a_report_only_lets_a_file_grow),
        TEST(a_report_may_tell_of_a_truncation),
        TEST(nobody_is_sure_of_a_tail_once_a_lease_epoch_is_over),
        TEST(a_report_may_take_set_id_bits_away),
        TEST(a_file_moves_before_its_first_byte_only),
        TEST(names_are_checked),
        TEST(dots_lead_where_they_should),
        TEST(a_directory_comes_in_pages),
        TEST(attributes_come_and_go),
        TEST(attributes_die_with_their_inode),
        TEST(attributes_have_limits),
        TEST(an_access_list_and_the_mode_agree),
        TEST(a_list_that_is_only_a_mode_is_not_kept),
        TEST(a_default_list_is_inherited),
        TEST(policy_is_inherited_field_by_field),
        TEST(a_queue_is_found_from_its_floor),
        TEST(garbage_is_queued_by_server_and_reported_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
