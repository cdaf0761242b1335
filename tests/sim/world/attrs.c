/* Attributes of files that all programs share: each is a register, whichever mount sets or reads it;
 * and names, links and kinds of files that one program makes for itself. */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum {
    MODES = 0777, /* So many are there, and none is set twice: */
    MODE_FIRST = 0644,
    XATTR_BYTES_MAX = 3000,
    TIME_SECONDS_MAX = 1000000000 /* What no clock of the world says. */
};

static const char *const xattr_names[] = { "user.v", "trusted.v", "system.posix_acl_access" };

/* ---- Registers ---- */

static struct stat with_value(enum attribute kind, uint64_t value)
{
    struct stat st = { .st_mode = 0 };

    switch (kind) {
    case ATTRIBUTE_MODE:
        st.st_mode = (mode_t)(S_IFREG | (value <= MODE_FIRST ? value - 1 : value));
        break;
    case ATTRIBUTE_OWNER:
        st.st_uid = (uid_t)value;
        break;
    default:
        st.st_mtim.tv_sec = (time_t)value;
        st.st_mtim.tv_nsec = (long)(value * 7919 % 1000000000);
        break;
    }
    return st;
}

static uint64_t value_in(enum attribute kind, const struct stat *st)
{
    uint64_t mode = st->st_mode & 07777;

    switch (kind) {
    case ATTRIBUTE_MODE:
        return mode == MODE_FIRST ? 0 : mode < MODE_FIRST ? mode + 1 : mode;
    case ATTRIBUTE_OWNER:
        return st->st_uid;
    default:
        return st->st_mtim.tv_sec >= TIME_SECONDS_MAX ? 0 : (uint64_t)st->st_mtim.tv_sec;
    }
}

struct acl
{
    uint32_t version;
    struct
    {
        uint16_t tag, permissions;
        uint32_t id;
    } entries[5];
};

/* Owner, one user, group, mask, others. */
static size_t fill_acl(void *bytes, uint64_t value)
{
    struct acl acl = { 2,
                       { { 1, 6, UINT32_MAX },
                         { 2, 6, (uint32_t)value },
                         { 4, 4, UINT32_MAX },
                         { 16, 6, UINT32_MAX },
                         { 32, 4, UINT32_MAX } } };

    memcpy(bytes, &acl, sizeof(acl));
    return sizeof(acl);
}

static bool is_acl(enum attribute kind)
{
    return kind == ATTRIBUTE_ACL;
}

static int set_xattr(struct act *a, const char *file, enum attribute kind, uint64_t value)
{
    size_t size = sizeof(value) + world_draw_skewed(XATTR_BYTES_MAX);
    uint8_t *bytes = calloc(1, size + sizeof(struct acl));
    int rv;

    CHECK(bytes != NULL);
    memcpy(bytes, &value, sizeof(value));
    size = is_acl(kind) ? fill_acl(bytes, value) : size;
    rv = kernel_set_xattr(a->kernel, a->directory, file, xattr_names[kind - ATTRIBUTE_USER], bytes,
                          size, 0);
    free(bytes);
    return rv;
}

static int get_xattr(struct act *a, const char *file, enum attribute kind, uint64_t *value)
{
    uint8_t bytes[sizeof(*value) + XATTR_BYTES_MAX + 1];
    struct acl acl;
    size_t got;
    int rv = kernel_get_xattr(a->kernel, a->directory, file, xattr_names[kind - ATTRIBUTE_USER],
                              bytes, sizeof(bytes), &got);

    *value = 0;
    if (rv == ENODATA) {
        return 0;
    }
    if (rv == 0 && got < (is_acl(kind) ? sizeof(acl) : sizeof(*value))) {
        world_fail("%s: %s of %s has %zu bytes", a->program->name,
                   xattr_names[kind - ATTRIBUTE_USER], file, got);
    }
    if (rv == 0 && is_acl(kind)) {
        memcpy(&acl, bytes, sizeof(acl));
        *value = acl.entries[1].id;
    } else if (rv == 0) {
        memcpy(value, bytes, sizeof(*value));
    }
    return rv;
}

static int set_value(struct act *a, const char *file, enum attribute kind, uint64_t value)
{
    static const int valid[] = { FUSE_SET_ATTR_MODE, FUSE_SET_ATTR_UID, FUSE_SET_ATTR_MTIME };
    struct stat st;

    if (kind >= ATTRIBUTE_USER) {
        return set_xattr(a, file, kind, value);
    }
    st = with_value(kind, value);
    return kernel_set_attributes(a->kernel, a->directory, file, &st, valid[kind]);
}

static int get_value(struct act *a, const char *file, enum attribute kind, uint64_t *value)
{
    struct stat st;
    int rv;

    *value = 0;
    if (kind >= ATTRIBUTE_USER) {
        return get_xattr(a, file, kind, value);
    }
    rv = kernel_stat(a->kernel, a->directory, file, &st);
    *value = rv == 0 ? value_in(kind, &st) : 0;
    return rv;
}

/* Modes and owners of one file, times of another, extended attributes of a third, an ACL of a
 * fourth. */
static void name_of(enum attribute kind, char *name, size_t size)
{
    static const unsigned file[] = { 0, 0, 1, 2, 2, 3 };

    (void)snprintf(name, size, "a%u", file[kind]);
}

void attr_set(struct program *p)
{
    enum attribute kind = (enum attribute)world_draw(ATTRIBUTES_COUNT);
    struct history *h = p->history;
    struct act a;
    struct kernel_file file;
    uint64_t value = kind == ATTRIBUTE_MODE ? ++h->last_mode : ++h->last_value;
    bool synced = !world_chance(3), lose = act_is_canary(p, "lost-attribute", 10);
    char name[16];
    int rv, closed;

    if (kind == ATTRIBUTE_MODE && value > MODES) {
        return;
    }
    name_of(kind, name, sizeof(name));
    rv = act_begin(&a, p);
    /* Who cannot write is told of what was lost, too. */
    if (rv == 0 && (rv = act_open(&a, name, world_chance(2) ? O_RDWR : O_RDONLY, &file)) == 0) {
        rv = lose ? 0 : set_value(&a, name, kind, value);
        rv = rv == 0 && synced ? kernel_fsync(&file) : rv;
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    if (rv == ENOENT && h->meta_losses > 0) {
        rv = ESTALE; /* Its name was not synced, and has gone with the power meanwhile. */
    }
    h->counts.attributes_set += rv == 0;
    act_note(&a, HISTORY_ATTRIBUTES_FIRST + kind, true, value,
             rv == 0 && !synced && !h->calm ? -1 : rv);
    act_end(&a, synced ? "set attribute" : "set attribute unsynced", name, value, rv);
}

static void get_at(struct program *p, enum attribute kind)
{
    struct act a;
    uint64_t value = 0;
    char name[16];
    int rv = act_begin(&a, p);

    name_of(kind, name, sizeof(name));
    rv = rv != 0 ? rv : get_value(&a, name, kind, &value);
    rv = rv == ENOENT ? 0 : rv;
    act_note(&a, HISTORY_ATTRIBUTES_FIRST + kind, false, value, rv);
    act_end(&a, "get attribute", name, value, rv);
}

void attr_get(struct program *p)
{
    get_at(p, (enum attribute)world_draw(ATTRIBUTES_COUNT));
}

void attr_check(struct program *p)
{
    for (unsigned i = 0; i < ATTRIBUTES_COUNT; i++) {
        get_at(p, (enum attribute)i);
    }
}

/* ---- What one program makes for itself ---- */

/* A program's own names; nobody else touches them. After trouble it is not known what became of
 * them, and after a loss of power of the manager neither. */
struct own
{
    struct program *program;
    char name[2][24];
    unsigned losses;
    bool good;
};

static bool own_begin(struct own *o, struct act *a)
{
    if (!o->good || o->program->history->meta_losses != o->losses) {
        o->good = false;
        return false;
    }
    o->good = act_begin(a, o->program) == 0;
    if (!o->good) {
        act_end(a, "own", o->name[0], 0, EIO);
    }
    return o->good;
}

/* `wanted`: what it must say, unless there is trouble, or the manager has lost its power. */
static void own_end(struct own *o, struct act *a, const char *what, int rv, int wanted)
{
    bool lost = o->program->history->meta_losses != o->losses;

    if (!lost && rv != wanted && !act_is_trouble(rv)) {
        world_fail("%s: %s of %s by %s says \"%s\" and not \"%s\"", o->program->name, what,
                   o->name[0], a->kernel->process->name, strerror(rv), strerror(wanted));
    }
    o->good = !lost && rv == wanted;
    act_end(a, what, o->name[0], 0, act_is_trouble(rv) ? rv : 0);
}

static void own_make(struct own *o, unsigned number)
{
    struct act a;
    struct kernel_file file;
    int rv;

    if (own_begin(o, &a)) {
        rv = kernel_open_name(a.kernel, a.directory, o->name[number], O_RDWR | O_CREAT | O_EXCL,
                              &file);
        if (rv == 0) {
            rv = kernel_close(&file);
        }
        own_end(o, &a, "make own", rv, 0);
    }
}

static void own_unlink(struct own *o, unsigned number, int wanted)
{
    struct act a;

    if (own_begin(o, &a)) {
        own_end(o, &a, "unlink own", kernel_unlink(a.kernel, a.directory, o->name[number]), wanted);
    }
}

/* So many names lead to it, or it is not there. */
static void own_expect(struct own *o, unsigned number, unsigned links, fuse_ino_t inode)
{
    struct act a;
    struct stat st = { .st_nlink = 0 };
    int rv;

    if (!own_begin(o, &a)) {
        return;
    }
    rv = kernel_stat(a.kernel, a.directory, o->name[number], &st);
    if (rv == 0 && o->program->history->meta_losses == o->losses &&
        (st.st_nlink != links || (inode != 0 && st.st_ino != inode))) {
        world_fail("%s: %s has %u links and not %u as %s says; inode %llu, %llu", o->program->name,
                   o->name[number], (unsigned)st.st_nlink, links, a.kernel->process->name,
                   (unsigned long long)st.st_ino, (unsigned long long)inode);
    }
    own_end(o, &a, "expect own", rv, links > 0 ? 0 : ENOENT);
}

static fuse_ino_t own_inode(struct own *o, unsigned number)
{
    struct act a;
    struct stat st = { .st_ino = 0 };
    int rv;

    if (own_begin(o, &a)) {
        rv = kernel_stat(a.kernel, a.directory, o->name[number], &st);
        own_end(o, &a, "stat own", rv, 0);
    }
    return o->good ? st.st_ino : 0;
}

/* Two names of one file, and then the other one alone. */
static void link_own(struct own *o)
{
    struct act a;
    fuse_ino_t inode;

    own_make(o, 0);
    inode = own_inode(o, 0);
    if (own_begin(o, &a)) {
        own_end(o, &a, "link own", kernel_link(a.kernel, a.directory, o->name[0], o->name[1]), 0);
    }
    own_expect(o, 0, 2, inode);
    own_expect(o, 1, 2, inode);
    own_unlink(o, 0, 0);
    own_expect(o, 0, 0, 0);
    own_expect(o, 1, 1, inode);
    o->program->history->counts.linked += o->good;
    own_unlink(o, 1, 0);
}

/* Two files change their names, or one may not take the other's. */
static void exchange_own(struct own *o)
{
    struct act a;
    fuse_ino_t inode[2];
    bool refused = world_chance(2);

    own_make(o, 0);
    own_make(o, 1);
    inode[0] = own_inode(o, 0);
    inode[1] = own_inode(o, 1);
    if (own_begin(o, &a)) {
        if (world_chance(2)) {
            faults_strike(o->program->history, true);
        }
        own_end(o, &a, refused ? "rename own" : "exchange own",
                kernel_rename_to(a.kernel, a.directory, o->name[0], a.directory, o->name[1],
                                 refused ? RENAME_NOREPLACE : RENAME_EXCHANGE),
                refused ? EEXIST : 0);
    }
    own_expect(o, 0, 1, inode[!refused]);
    own_expect(o, 1, 1, inode[refused]);
    o->program->history->counts.exchanged += o->good;
    own_unlink(o, 0, 0);
    own_unlink(o, 1, 0);
}

static void symlink_own(struct own *o)
{
    struct act a;
    char target[64] = "";
    int rv;

    if (own_begin(o, &a)) {
        own_end(o, &a, "symlink own", kernel_symlink(a.kernel, a.directory, o->name[0], o->name[1]),
                0);
    }
    if (own_begin(o, &a)) {
        rv = kernel_readlink(a.kernel, a.directory, o->name[0], target, sizeof(target));
        if (rv == 0 && o->program->history->meta_losses == o->losses &&
            strcmp(target, o->name[1]) != 0) {
            world_fail("%s: %s leads to %s and not to %s", o->program->name, o->name[0], target,
                       o->name[1]);
        }
        own_end(o, &a, "readlink own", rv, 0);
    }
    own_unlink(o, 0, 0);
}

/* A directory that has a name in it does not go. */
static void directory_own(struct own *o)
{
    struct act a;
    fuse_ino_t inode = 0;
    int rv;

    if (own_begin(o, &a)) {
        own_end(o, &a, "mkdir own", kernel_mkdir(a.kernel, a.directory, o->name[0]), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (own_begin(o, &a)) {
            rv = kernel_lookup(a.kernel, a.directory, o->name[0], &inode);
            if (rv == 0) {
                rv = i == 0 ? kernel_mkfifo(a.kernel, inode, o->name[1])
                            : kernel_unlink(a.kernel, inode, o->name[1]);
                kernel_forget(a.kernel, inode);
            }
            own_end(o, &a, i == 0 ? "mkfifo own" : "unlink in own", rv, 0);
        }
        if (own_begin(o, &a)) {
            own_end(o, &a, "rmdir own", kernel_rmdir(a.kernel, a.directory, o->name[0]),
                    i == 0 ? ENOTEMPTY : 0);
        }
    }
    own_expect(o, 0, 0, 0);
}

static bool lists(const char *names, size_t size, const char *name)
{
    for (size_t at = 0; at < size; at += strlen(names + at) + 1) {
        if (strcmp(names + at, name) == 0) {
            return true;
        }
    }
    return false;
}

/* One extended attribute comes and goes. */
static void xattr_own(struct own *o)
{
    struct act a;
    char names[256];
    size_t got = 0;
    int rv;

    own_make(o, 0);
    for (unsigned i = 0; i < 2; i++) {
        if (own_begin(o, &a)) {
            rv = i == 0 ? kernel_set_xattr(a.kernel, a.directory, o->name[0], "user.x", "y", 1, 1)
                        : kernel_remove_xattr(a.kernel, a.directory, o->name[0], "user.x");
            own_end(o, &a, i == 0 ? "set own xattr" : "remove own xattr", rv, 0);
        }
        if (own_begin(o, &a)) {
            rv = kernel_list_xattrs(a.kernel, a.directory, o->name[0], names, sizeof(names), &got);
            if (rv == 0 && o->program->history->meta_losses == o->losses &&
                lists(names, got, "user.x") != (i == 0)) {
                world_fail("%s: user.x of %s is%s listed by %s", o->program->name, o->name[0],
                           i == 0 ? " not" : "", a.kernel->process->name);
            }
            own_end(o, &a, "list own xattrs", rv, 0);
        }
    }
    own_unlink(o, 0, 0);
}

static void statfs_own(struct own *o)
{
    struct act a;
    struct statvfs space = { .f_blocks = 0 };
    int rv;

    if (own_begin(o, &a)) {
        rv = kernel_statfs(a.kernel, &space);
        if (rv == 0 && space.f_bavail > space.f_blocks) {
            world_fail("%s: more is free than there is", o->program->name);
        }
        own_end(o, &a, "statfs", rv, 0);
    }
}

/* ---- Who may do what, and how new files lie ---- */

enum { USER_FIRST = 1001, USERS = 3 };

/* Something that a user does with the first name: it is allowed, or refused with that. */
static void own_as(struct own *o, uint32_t user, const char *what,
                   int (*call)(struct own *o, struct act *a), int wanted)
{
    struct act a;
    int rv;

    if (own_begin(o, &a)) {
        fiber_be(user);
        rv = call(o, &a);
        fiber_be(0);
        own_end(o, &a, what, rv, wanted);
    }
}

static int call_make(struct own *o, struct act *a)
{
    struct kernel_file file;
    int rv =
        kernel_open_name(a->kernel, a->directory, o->name[1], O_RDWR | O_CREAT | O_EXCL, &file);

    return rv == 0 ? kernel_close(&file) : rv;
}

static int call_unlink(struct own *o, struct act *a)
{
    return kernel_unlink(a->kernel, a->directory, o->name[0]);
}

static int call_set_xattr(struct own *o, struct act *a)
{
    return kernel_set_xattr(a->kernel, a->directory, o->name[0], "user.x", "y", 1, 0);
}

static int call_chmod(struct own *o, struct act *a)
{
    struct stat st = { .st_mode = S_IFREG | 0600 };

    return kernel_set_attributes(a->kernel, a->directory, o->name[0], &st, FUSE_SET_ATTR_MODE);
}

/* To the first of the users. */
static int call_chown(struct own *o, struct act *a)
{
    struct stat st = { .st_uid = USER_FIRST };

    return kernel_set_attributes(a->kernel, a->directory, o->name[0], &st, FUSE_SET_ATTR_UID);
}

/* The first of the users may read and write it. */
static int call_allow(struct own *o, struct act *a)
{
    struct acl acl;
    size_t size = fill_acl(&acl, USER_FIRST);

    return kernel_set_xattr(a->kernel, a->directory, o->name[0], "system.posix_acl_access", &acl,
                            size, 0);
}

/* The first has an entry in the ACL, and owns it later; the others are nobody. */
static void user_own(struct own *o)
{
    uint32_t other = USER_FIRST + 1 + (uint32_t)world_draw(USERS - 1);

    own_as(o, USER_FIRST, "make as a user", call_make, EACCES);
    own_make(o, 0);
    own_as(o, USER_FIRST, "set xattr as a user", call_set_xattr, EACCES);
    own_as(o, 0, "allow", call_allow, 0);
    own_as(o, USER_FIRST, "set xattr as who is allowed to", call_set_xattr, 0);
    own_as(o, other, "set xattr as another user", call_set_xattr, EACCES);
    own_as(o, USER_FIRST, "chmod as a user", call_chmod, EPERM);
    own_as(o, other, "chown as a user", call_chown, EPERM);
    own_as(o, 0, "chown", call_chown, 0);
    own_as(o, USER_FIRST, "chmod as its owner", call_chmod, 0);
    own_as(o, USER_FIRST, "unlink as a user", call_unlink, EACCES);
    own_unlink(o, 0, 0);
    o->program->history->counts.users += o->good;
}

struct policy_xattr
{
    const char *name, *value, *wrong;
};

/* A value is set, read back and taken away again; one that it cannot have is refused. */
static void policy_once(struct own *o, const struct policy_xattr *policy)
{
    struct act a;
    char value[256] = "";
    size_t got = 0;
    int rv;

    if (own_begin(o, &a)) {
        rv = kernel_set_xattr(a.kernel, a.directory, o->name[0], policy->name, policy->wrong,
                              strlen(policy->wrong), 0);
        own_end(o, &a, "set a wrong policy", rv, EINVAL);
    }
    if (own_begin(o, &a)) {
        rv = kernel_set_xattr(a.kernel, a.directory, o->name[0], policy->name, policy->value,
                              strlen(policy->value), 0);
        own_end(o, &a, "set policy", rv, 0);
    }
    if (own_begin(o, &a)) {
        rv = kernel_get_xattr(a.kernel, a.directory, o->name[0], policy->name, value,
                              sizeof(value) - 1, &got);
        if (rv == 0 && o->program->history->meta_losses == o->losses &&
            strcmp(value, policy->value) != 0) {
            world_fail("%s: %s of %s is %s and not %s", o->program->name, policy->name, o->name[0],
                       value, policy->value);
        }
        own_end(o, &a, "get policy", rv, 0);
    }
    if (own_begin(o, &a)) {
        rv = kernel_get_xattr(a.kernel, a.directory, o->name[0], "user.morsel.policy", value,
                              sizeof(value) - 1, &got);
        own_end(o, &a, "get the whole policy", rv, 0);
    }
    if (own_begin(o, &a)) {
        rv = kernel_remove_xattr(a.kernel, a.directory, o->name[0], policy->name);
        own_end(o, &a, "remove policy", rv, 0);
    }
}

static void policy_own(struct own *o)
{
    static const struct policy_xattr policies[] = { { "user.morsel.morsel_size", "65536", "3" },
                                                    { "user.morsel.stripe_size", "2", "2000" },
                                                    { "user.morsel.stripe_width", "1", "x" },
                                                    { "user.morsel.class", "durable", "fast" } };
    struct act a;

    if (own_begin(o, &a)) {
        own_end(o, &a, "mkdir own", kernel_mkdir(a.kernel, a.directory, o->name[0]), 0);
    }
    policy_once(o, &policies[world_draw(sizeof(policies) / sizeof(policies[0]))]);
    o->program->history->counts.policies += o->good;
    if (own_begin(o, &a)) {
        own_end(o, &a, "rmdir own", kernel_rmdir(a.kernel, a.directory, o->name[0]), 0);
    }
}

static void own_do(struct program *p, void (*what)(struct own *o))
{
    struct own o = { .program = p, .losses = p->history->meta_losses, .good = true };
    uint64_t value = ++p->history->last_value;

    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(o.name[i], sizeof(o.name[i]), "o%llu%c", (unsigned long long)value,
                       'a' + (int)i);
    }
    what(&o);
    p->history->counts.own += o.good;
}

void own_exchange(struct program *p)
{
    own_do(p, exchange_own);
}

void own_some(struct program *p)
{
    static void (*const kinds[])(struct own * o) = { link_own,      exchange_own, symlink_own,
                                                     directory_own, xattr_own,    statfs_own,
                                                     user_own,      policy_own };

    own_do(p, kinds[world_draw(sizeof(kinds) / sizeof(kinds[0]))]);
}
