/* The manager's permission checks against those of this machine's kernel: random users do random
 * things to files with random owners, modes and access lists, on a local file system and in a
 * namespace that looks the same, and both must say the same. Needs root. */
#include "meta/namespace/permit.h"

#include "common/base/status.h"
#include "common/rpc/messages.h"
#include "meta/namespace/acl.h"
#include "tests/lib/ns_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

enum { ROUNDS = 12000, ROUNDS_PER_NAMESPACE = 100, USERS = 4, GROUPS = 4, FIRST_ID = 5000 };

/* What both sides have: `one` and `two` are directories, `f` and `g` lie in them. */
enum place { ONE, TWO, F, G, PLACES };

struct world
{
    struct ns_fixture ns;
    struct prng prng;
    char path[64];
    inode_id ids[PLACES];
    struct credentials who;
    uint32_t groups[2];
    unsigned round;
};

static uint32_t below(struct world *w, uint32_t limit)
{
    return (uint32_t)prng_below(&w->prng, limit);
}

static uint32_t random_id(struct world *w, uint32_t count)
{
    uint32_t id = below(w, count + 1);

    return id == 0 ? 0 : FIRST_ID + id;
}

static const char *const names[PLACES] = { "one", "two", "one/f", "two/g" };

static void must(bool condition, const char *what)
{
    if (!condition) {
        fail_msg("%s: %s", what, strerror(errno));
    }
}

/* ---- The same state on both sides ---- */

static void random_acl(struct world *w, uint32_t mode, struct acl *acl)
{
    *acl =
        (struct acl){ 6,
                      { { ACL_TAG_USER_OBJ, (uint16_t)(mode >> 6 & 7), UINT32_MAX },
                        { ACL_TAG_USER, (uint16_t)below(w, 8), FIRST_ID + 1 + below(w, USERS) },
                        { ACL_TAG_GROUP_OBJ, (uint16_t)below(w, 8), UINT32_MAX },
                        { ACL_TAG_GROUP, (uint16_t)below(w, 8), FIRST_ID + 1 + below(w, GROUPS) },
                        { ACL_TAG_MASK, (uint16_t)(mode >> 3 & 7), UINT32_MAX },
                        { ACL_TAG_OTHER, (uint16_t)(mode & 7), UINT32_MAX } } };
}

/* Owner, mode and perhaps an access list. */
static void dress(struct world *w, enum place place, uint32_t special)
{
    uint32_t mode = below(w, 01000) | (below(w, 3) == 0 ? special : 0);
    struct meta_op op = { .kind = OP_SETATTR };
    struct acl acl;
    struct buf text_of_acl;

    op.setattr.inode = w->ids[place];
    op.setattr.valid = SETATTR_UID | SETATTR_GID | SETATTR_MODE;
    op.setattr.uid = random_id(w, USERS);
    op.setattr.gid = random_id(w, GROUPS);
    op.setattr.mode = mode;
    ns_must(&w->ns, op);
    must(chown(names[place], op.setattr.uid, op.setattr.gid) == 0, "chown");
    must(chmod(names[place], mode) == 0, "chmod");
    if (below(w, 3) == 0) {
        random_acl(w, mode, &acl);
        buf_init(&text_of_acl);
        acl_format(&acl, &text_of_acl);
        ns_must(&w->ns, op_xattr(w->ids[place], ACL_NAME_ACCESS, buf_slice(&text_of_acl)));
        must(setxattr(names[place], ACL_NAME_ACCESS, text_of_acl.data, text_of_acl.count, 0) == 0,
             "setxattr");
        buf_free(&text_of_acl);
    }
}

static void make(struct world *w, enum place place, inode_id parent, bool directory)
{
    const char *name = strrchr(names[place], '/');

    w->ids[place] = ns_must_make(&w->ns, parent, name != NULL ? name + 1 : names[place],
                                 directory ? 0040700 : 0100600);
    must(directory ? mkdir(names[place], 0700) == 0 : mknod(names[place], S_IFREG | 0600, 0) == 0,
         names[place]);
}

static void begin_round(struct world *w)
{
    char name[32];
    inode_id base;

    (void)snprintf(name, sizeof(name), "round%u", ++w->round);
    base = ns_must_make(&w->ns, INODE_ROOT, name, 0040777);
    must(mkdir(name, 0777) == 0 && chmod(name, 0777) == 0 && chdir(name) == 0, "mkdir");
    make(w, ONE, base, true);
    make(w, TWO, base, true);
    make(w, F, w->ids[ONE], below(w, 4) == 0);
    make(w, G, w->ids[TWO], below(w, 4) == 0);
    for (int place = PLACES - 1; place >= 0; place--) {
        dress(w, (enum place)place, place < F ? 01000 : 06000);
    }
    w->who.uid = random_id(w, USERS);
    w->who.gid = random_id(w, GROUPS);
    w->who.groups = w->groups;
    w->who.groups_count = below(w, 3);
    w->who.groups_known = true;
    w->groups[0] = FIRST_ID + 1 + below(w, GROUPS);
    w->groups[1] = FIRST_ID + 1 + below(w, GROUPS);
}

/* As the user; undone by become_root(). */
static void become(const struct world *w)
{
    gid_t groups[2] = { w->groups[0], w->groups[1] };

    must(setgroups(w->who.groups_count, groups) == 0, "setgroups");
    (void)setfsgid(w->who.gid);
    (void)setfsuid(w->who.uid);
}

static void become_root(void)
{
    (void)setfsuid(0);
    (void)setfsgid(0);
    must(setgroups(0, NULL) == 0, "setgroups");
}

static void end_round(struct world *w)
{
    char command[96];

    must(chdir(w->path) == 0, "chdir");
    (void)snprintf(command, sizeof(command), "round%u", w->round);
    /* The tree is small, and what is left of it has one of four names. */
    for (int i = 0; i < 2; i++) {
        static const char *const places[] = { "one/f", "one/g", "one/n", "one/l", "two/f",
                                              "two/g", "two/n", "one",   "two" };
        char path[128];

        for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
            (void)snprintf(path, sizeof(path), "%s/%s", command, places[p]);
            (void)remove(path);
        }
    }
    must(rmdir(command) == 0, command);
}

/* ---- Operations ---- */

/* The status that the kernel gave, as far as permissions go. */
static int kernel_status(int rv)
{
    return rv >= 0 ? 0 : errno == EACCES ? MORSEL_ACCES : errno == EPERM ? MORSEL_PERM : 0;
}

/* 0, or what the walk to a path in `directory` says: the manager is asked for that by LOOKUP. */
static int walk(struct world *w, enum place directory)
{
    struct inode inode = ns_must_inode(&w->ns, w->ids[directory]);

    return permit_access(w->ns.ns, &inode, &w->who, MAY_EXECUTE, &w->ns.err);
}

static int check(struct world *w, struct meta_op *op)
{
    op->client = 1;
    op->who = w->who;
    return permit_op(w->ns.ns, op, false, &w->ns.err);
}

struct trial
{
    const char *what;
    int ours, kernels;
};

static void try_access(struct world *w, struct trial *t)
{
    enum place place = (enum place)below(w, PLACES);
    uint32_t wanted = 1 + below(w, 7);
    struct inode inode = ns_must_inode(&w->ns, w->ids[place]);

    t->what = "access";
    t->ours = place >= F ? walk(w, place - F) : 0;
    if (t->ours == 0) {
        t->ours = permit_access(w->ns.ns, &inode, &w->who, wanted, &w->ns.err);
    }
    become(w);
    t->kernels = kernel_status(faccessat(AT_FDCWD, names[place], (int)wanted, AT_EACCESS));
}

static void try_make(struct world *w, struct trial *t)
{
    struct meta_op op = op_make(w->ids[ONE], "n", 0100644);

    t->what = "make";
    t->ours = check(w, &op);
    become(w);
    t->kernels = kernel_status(mknod("one/n", S_IFREG | 0644, 0));
}

static void try_unlink(struct world *w, struct trial *t)
{
    bool directory = mode_is_directory(ns_must_inode(&w->ns, w->ids[F]).mode);
    struct meta_op op = op_unlink(w->ids[ONE], "f", directory);

    t->what = "unlink";
    t->ours = check(w, &op);
    become(w);
    t->kernels = kernel_status(directory ? rmdir("one/f") : unlink("one/f"));
}

static void try_rename(struct world *w, struct trial *t)
{
    static const char *const targets[] = { "two/n", "two/g", "one/n" };
    uint32_t which = below(w, 3), flags = which == 1 ? RENAME_EXCHANGE * below(w, 2) : 0;
    struct meta_op op =
        op_rename(w->ids[ONE], "f", w->ids[which == 2 ? ONE : TWO], targets[which] + 4, flags);

    t->what = flags != 0 ? "exchange" : "rename";
    t->ours = walk(w, ONE);
    t->ours = t->ours != 0 || which == 2 ? t->ours : walk(w, TWO);
    t->ours = t->ours != 0 ? t->ours : check(w, &op);
    become(w);
    t->kernels = kernel_status(renameat2(AT_FDCWD, "one/f", AT_FDCWD, targets[which], flags));
    if (t->kernels == 0 && errno != 0) {
        t->ours =
            0; /* Another error came first: kinds that do not fit, or a directory with names. */
    }
}

static void try_chmod(struct world *w, struct trial *t)
{
    struct meta_op op = { .kind = OP_SETATTR };

    op.setattr.inode = w->ids[F];
    op.setattr.valid = SETATTR_MODE;
    op.setattr.mode = below(w, 010000);
    t->what = "chmod";
    t->ours = walk(w, ONE);
    t->ours = t->ours != 0 ? t->ours : check(w, &op);
    become(w);
    t->kernels = kernel_status(chmod("one/f", op.setattr.mode));
    if (t->ours == 0 && t->kernels == MORSEL_PERM && w->who.uid != 0) {
        struct inode inode = ns_must_inode(&w->ns, w->ids[F]);

        /* A writer's kernel takes set-id bits away this way. */
        if (((inode.mode ^ op.setattr.mode) & 07777 & ~06000U) == 0) {
            t->ours = MORSEL_PERM;
        }
    }
}

static void try_chown(struct world *w, struct trial *t)
{
    uint32_t which = 1 + below(w, 3);
    struct meta_op op = { .kind = OP_SETATTR };

    op.setattr.inode = w->ids[F];
    op.setattr.valid = ((which & 1) != 0 ? SETATTR_UID : 0) | ((which & 2) != 0 ? SETATTR_GID : 0);
    op.setattr.uid = random_id(w, USERS);
    op.setattr.gid = random_id(w, GROUPS);
    t->what = "chown";
    t->ours = walk(w, ONE);
    t->ours = t->ours != 0 ? t->ours : check(w, &op);
    become(w);
    t->kernels = kernel_status(chown("one/f", (which & 1) != 0 ? op.setattr.uid : (uid_t)-1,
                                     (which & 2) != 0 ? op.setattr.gid : (gid_t)-1));
}

static void try_times(struct world *w, struct trial *t)
{
    bool now = below(w, 2) == 0;
    struct timespec times[2] = { { 5, 5 }, { 6, 6 } };
    struct meta_op op = { .kind = OP_SETATTR };

    op.setattr.inode = w->ids[F];
    op.setattr.valid = now ? SETATTR_ATIME_NOW | SETATTR_MTIME_NOW : SETATTR_ATIME | SETATTR_MTIME;
    t->what = now ? "touch" : "utimes";
    t->ours = walk(w, ONE);
    t->ours = t->ours != 0 ? t->ours : check(w, &op);
    become(w);
    t->kernels = kernel_status(utimensat(AT_FDCWD, "one/f", now ? NULL : times, 0));
}

static void try_truncate(struct world *w, struct trial *t)
{
    struct meta_op op = { .kind = OP_SETATTR };

    op.setattr.inode = w->ids[F];
    op.setattr.valid = SETATTR_SIZE;
    op.setattr.size = 10;
    t->what = "truncate";
    t->ours = walk(w, ONE);
    t->ours = t->ours != 0 ? t->ours : check(w, &op);
    become(w);
    t->kernels = kernel_status(truncate("one/f", 10));
    if (mode_is_directory(ns_must_inode(&w->ns, w->ids[F]).mode)) {
        t->ours = t->kernels; /* EISDIR comes first. */
    }
}

static void try_xattr(struct world *w, struct trial *t)
{
    enum place place = below(w, 2) == 0 ? ONE : F;
    struct meta_op op = op_xattr(w->ids[place], "user.a", text("1"));

    t->what = "setxattr";
    t->ours = place == F ? walk(w, ONE) : 0;
    t->ours = t->ours != 0 ? t->ours : check(w, &op);
    become(w);
    t->kernels = kernel_status(setxattr(names[place], "user.a", "1", 1, 0));
}

static void try_getxattr(struct world *w, struct trial *t)
{
    struct inode inode = ns_must_inode(&w->ns, w->ids[F]);
    char value[4];

    must(setxattr(names[F], "user.a", "1", 1, 0) == 0, "setxattr");
    t->what = "getxattr";
    t->ours = walk(w, ONE);
    if (t->ours == 0) {
        t->ours = permit_xattr_get(w->ns.ns, &inode, text("user.a"), &w->who, &w->ns.err);
    }
    become(w);
    t->kernels = kernel_status((int)getxattr(names[F], "user.a", value, sizeof(value)));
}

static void try_acl(struct world *w, struct trial *t)
{
    struct acl acl;
    struct buf b;
    struct meta_op op;

    random_acl(w, 0640, &acl);
    buf_init(&b);
    acl_format(&acl, &b);
    op = op_xattr(w->ids[F], ACL_NAME_ACCESS, buf_slice(&b));
    t->what = "set access list";
    t->ours = walk(w, ONE);
    t->ours = t->ours != 0 ? t->ours : check(w, &op);
    become(w);
    t->kernels = kernel_status(setxattr(names[F], ACL_NAME_ACCESS, b.data, b.count, 0));
    buf_free(&b);
}

static void run_round(struct world *w)
{
    static void (*const trials[])(struct world *, struct trial *) = {
        try_access, try_access,   try_make,  try_unlink,   try_rename, try_rename, try_chmod,
        try_chown,  try_truncate, try_times, try_getxattr, try_xattr,  try_acl
    };
    struct trial t = { "", 0, 0 };
    int with_groups;

    begin_round(w);
    errno = 0;
    trials[below(w, sizeof(trials) / sizeof(trials[0]))](w, &t);
    with_groups = t.ours;
    become_root();
    if (with_groups != t.kernels) {
        fail_msg("round %u: %s as %u/%u: the manager says %s, the kernel %s", w->round, t.what,
                 w->who.uid, w->who.gid, status_name(t.ours), status_name(t.kernels));
    }
    end_round(w);
}

static void the_manager_agrees_with_the_kernel(void **state)
{
    char directory[] = "permit-XXXXXX";
    static struct world world;
    struct world *w = &world;

    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    must(mkdtemp(directory) != NULL && chmod(directory, 0755) == 0 && chdir(directory) == 0 &&
             getcwd(w->path, sizeof(w->path)) != NULL,
         "directory");
    (void)umask(0);
    prng_seed(&w->prng, 11);
    for (int i = 0; i < ROUNDS; i++) {
        if (i % ROUNDS_PER_NAMESPACE == 0) {
            ns_fixture_open(&w->ns, 11);
        }
        run_round(w);
        if ((i + 1) % ROUNDS_PER_NAMESPACE == 0) {
            ns_fixture_close(&w->ns);
        }
    }
    must(chdir("..") == 0 && rmdir(directory) == 0, "rmdir");
}

/* ---- Without knowing the groups ---- */

/* Whoever is not told the groups either says what it would say with them, or asks for them. */
static void groups_are_asked_for_where_they_decide(void **state)
{
    static const uint32_t groups[] = { 50 };
    unsigned asked = 0;

    (void)state;
    for (uint32_t mode = 0; mode < 01000; mode++) {
        for (uint32_t wanted = 1; wanted < 8; wanted++) {
            struct credentials none = { .uid = 7, .gid = 7, .groups_known = true };
            struct credentials member = none, unknown = { .uid = 7, .gid = 7 };
            enum verdict verdict = permission_by_mode(mode, 1, 50, &unknown, wanted);
            enum verdict as_other = permission_by_mode(mode, 1, 50, &none, wanted);

            member.groups = groups;
            member.groups_count = 1;
            if (permission_by_mode(mode, 1, 50, &member, wanted) == as_other) {
                assert_int_equal(verdict, as_other);
            } else {
                assert_int_equal(verdict, VERDICT_GROUPS);
                asked++;
            }
        }
    }
    assert_true(asked > 0);
}

static void a_request_without_groups_is_stale_where_they_decide(void **state)
{
    static const uint32_t groups[] = { 50 };
    struct ns_fixture f;
    struct meta_op op;
    inode_id directory;

    (void)state;
    ns_fixture_open(&f, 3);
    directory = ns_must_make(&f, INODE_ROOT, "d", 0040770);
    op = (struct meta_op){ .kind = OP_SETATTR };
    op.setattr.inode = directory;
    op.setattr.valid = SETATTR_GID;
    op.setattr.gid = 50;
    ns_must(&f, op);
    op = op_make(directory, "f", 0100644);
    op.client = 1;
    op.who = (struct credentials){ .uid = 7, .gid = 7 };
    assert_int_equal(permit_op(f.ns, &op, false, &f.err), MORSEL_STALE);
    op.who.groups_known = true;
    assert_int_equal(permit_op(f.ns, &op, false, &f.err), MORSEL_ACCES);
    op.who.groups = groups;
    op.who.groups_count = 1;
    assert_int_equal(permit_op(f.ns, &op, false, &f.err), 0);
    ns_fixture_close(&f);
}

/* What a handle was opened for outlives the mode; and nothing else does. */
static void an_open_file_may_be_cut_and_lose_its_set_ids(void **state)
{
    struct ns_fixture f;
    struct meta_op op = { .kind = OP_SETATTR };

    (void)state;
    ns_fixture_open(&f, 3);
    op.setattr.inode = ns_must_make(&f, INODE_ROOT, "f", 0104755);
    op.client = 1;
    op.who = (struct credentials){ .uid = 7, .gid = 7, .groups_known = true };
    op.setattr.valid = SETATTR_SIZE;
    assert_int_equal(permit_op(f.ns, &op, false, &f.err), MORSEL_ACCES);
    assert_int_equal(permit_op(f.ns, &op, true, &f.err), 0);
    op.setattr.valid = SETATTR_MODE;
    op.setattr.mode = 0755;
    assert_int_equal(permit_op(f.ns, &op, false, &f.err), MORSEL_PERM);
    assert_int_equal(permit_op(f.ns, &op, true, &f.err), 0);
    op.setattr.mode = 0777;
    assert_int_equal(permit_op(f.ns, &op, true, &f.err), MORSEL_PERM);
    ns_fixture_close(&f);
}

/* Whoever may write a data set may not keep others from its room with it, nor the owner from his. */
static void only_its_owner_pins_a_data_set(void **state)
{
    struct set_morsel m = { .length = 9, .donor_count = 1, .donors = { 1 } };
    struct meta_op made = op_make(INODE_ROOT, "f", 0100666), op = { .kind = OP_SET_STORED };
    struct ns_fixture f;
    struct buf list;

    (void)state;
    ns_fixture_open(&f, 3);
    made.make.layout = (struct file_layout){ .class = CLASS_SCAVENGED,
                                             .scratch = true,
                                             .replicas = 1,
                                             .stripe = { MORSEL_BYTES_DEFAULT, 1, 4 } };
    ns_must(&f, made);
    made = (struct meta_op){ .kind = OP_SETATTR };
    made.setattr.inode = ns_counters(f.ns)->inode_next - 1;
    made.setattr.valid = SETATTR_UID;
    made.setattr.uid = 7;
    ns_must(&f, made);
    buf_init(&list);
    op_morsel_put(&list, &m);
    op.client = 1;
    op.set_stored.inode = op.set_stored.set = ns_counters(f.ns)->inode_next - 1;
    op.set_stored.size = m.length;
    op.set_stored.morsels = buf_slice(&list);
    ns_must(&f, op);
    buf_free(&list);
    op = (struct meta_op){ .kind = OP_SET_MARK, .client = 1 };
    op.set_mark.set = ns_counters(f.ns)->inode_next - 1;
    op.set_mark.pinned = true;
    op.who = (struct credentials){ .uid = 8, .gid = 7, .groups_known = true };
    assert_int_equal(permit_op(f.ns, &op, true, &f.err), MORSEL_PERM);
    op.who.uid = 7;
    assert_int_equal(permit_op(f.ns, &op, true, &f.err), 0);
    op.who.uid = 0;
    assert_int_equal(permit_op(f.ns, &op, true, &f.err), 0);
    op.set_mark.set++;
    assert_int_equal(permit_op(f.ns, &op, true, &f.err), MORSEL_NODATA);
    ns_fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manager_agrees_with_the_kernel),
        cmocka_unit_test(groups_are_asked_for_where_they_decide),
        cmocka_unit_test(a_request_without_groups_is_stale_where_they_decide),
        cmocka_unit_test(an_open_file_may_be_cut_and_lose_its_set_ids),
        cmocka_unit_test(only_its_owner_pins_a_data_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
