/* Programs on the mounts: each call is noted for the judge with its answer, and some are judged
 * here, because nobody else touches what they speak of. */
#include "tests/sim/world/programs.h"

#include "tests/sim/world/fiber.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CUT_FILES = 2,
    STAYS_MAX = 12,
    FILES = 3,
    SLOTS = 4, /* Of 8 bytes, on both servers. */
    SLOT_STRIDE = 700 << 10,
    NAMES = 4
};
_Static_assert(FILES *SLOTS <= HISTORY_SLOTS_MAX, "got_before[]");

bool act_is_canary(const struct program *p, const char *name, uint64_t n)
{
    const char *canary = p->history->canary;

    return canary != NULL && strcmp(canary, name) == 0 && world_chance(n);
}

static struct host_mount *any_mount(struct program *p)
{
    for (;;) {
        struct host_mount *m =
            p->history->mounts[p->mount < HISTORY_MOUNTS ? p->mount : world_draw(HISTORY_MOUNTS)];

        if (m->ready && m->process->alive) {
            return m;
        }
        fiber_sleep(50 * WORLD_MS);
    }
}

int act_begin_in(struct act *a, struct program *p, const char *directory)
{
    int rv;

    *a = (struct act){ .program = p, .kernel = &any_mount(p)->session };
    a->from_ns = p->history->world->now_ns;
    rv = kernel_lookup(a->kernel, FUSE_ROOT_ID, directory, &a->directory);
    if (rv == ENOENT) {
        world_fail("%s: the directory is gone", p->name);
    }
    return rv;
}

int act_begin(struct act *a, struct program *p)
{
    return act_begin_in(a, p, "d");
}

bool act_is_trouble(int error)
{
    return error == EIO || error == ENOTCONN || error == ENOSPC;
}

/* How much longer a disk makes a call that began then. Where it hangs the server is left behind when its limit is over
 * and the excuse of what was not synced. Where it is slow a single operation may last until it is so no more, while others
 * come to their end: then it is not left behind (replica_slow.c), and who waits for that one waits as long. */
static uint64_t slow_disk_ns(const struct history *h, uint64_t from_ns)
{
    uint64_t start_ns = from_ns > h->slow_from_ns ? from_ns : h->slow_from_ns;
    uint64_t until_ns = h->world->now_ns < h->slow_until_ns ? h->world->now_ns : h->slow_until_ns;

    if (until_ns <= start_ns) {
        return 0;
    }
    return h->hung ? HISTORY_EXCUSE_S * WORLD_S : until_ns - start_ns;
}

static uint64_t longest_ns(const struct history *h, const char *what, uint64_t from_ns)
{
    bool locks = strncmp(what, "lock", 4) == 0 || strncmp(what, "share", 5) == 0;
    bool many = strcmp(what, "recopy") == 0; /* Calls, of which each may find its group moving. */

    if (!h->one_struck) {
        return HISTORY_CALL_S * WORLD_S;
    }
    return (locks || many ? HISTORY_STRUCK_LONG_S : HISTORY_STRUCK_S) * WORLD_S +
           slow_disk_ns(h, from_ns);
}

void act_end(struct act *a, const char *what, const char *object, uint64_t value, int error)
{
    struct history *h = a->program->history;
    uint64_t took_ns = h->world->now_ns - a->from_ns;

    if (a->directory != 0) {
        kernel_forget(a->kernel, a->directory);
    }
    h->counts.calls++;
    h->counts.good += error == 0;
    world_trace(a->program->name, "%s %s %llu by %s: %s (%.3f ms)", what, object,
                (unsigned long long)value, a->kernel->process->name,
                error == 0 ? "done" : strerror(error), (double)took_ns / 1e6);
    /* A file that the manager has forgotten is not there any more for who has it open. Where nothing
     * may be noticed, nothing may be said. */
    if (error != 0 &&
        (h->calm || (!act_is_trouble(error) && !(error == ESTALE && h->meta_losses > 0)))) {
        world_fail("%s: %s %s by %s says \"%s\", which it may not", a->program->name, what, object,
                   a->kernel->process->name, strerror(error));
    }
    if (took_ns > longest_ns(h, what, a->from_ns)) {
        world_fail("%s: %s %s by %s took %.3f s", a->program->name, what, object,
                   a->kernel->process->name, (double)took_ns / 1e9);
    }
}

void act_note(struct act *a, unsigned object, bool write, uint64_t value, int error)
{
    struct history *h = a->program->history;
    struct judge_call call = { .object = object,
                               .write = write,
                               .good = error == 0,
                               .value = value,
                               .from_ns = a->from_ns,
                               .until_ns = h->world->now_ns };

    judge_note(&h->judge, &call);
    if (error == 0 && (object < FILES * SLOTS || object == HISTORY_MEETINGS_FIRST) &&
        copies_degraded(h)) {
        h->counts.read_on += !write; /* Of bytes. */
        h->counts.written_on += write;
    }
}

/* ---- Counters in files ---- */

int act_open(struct act *a, const char *name, int flags, struct kernel_file *file)
{
    return kernel_open_name(a->kernel, a->directory, name, flags | O_CREAT, file);
}

int act_set_back_time(const struct kernel_file *file, const char *directory, const char *name)
{
    struct stat st = { .st_mtim = { .tv_sec = 1000 } };
    fuse_ino_t inode;
    int rv = kernel_lookup(file->kernel, FUSE_ROOT_ID, directory, &inode);

    if (rv == 0) {
        rv = kernel_set_attributes(file->kernel, inode, name, &st, FUSE_SET_ATTR_MTIME);
        kernel_forget(file->kernel, inode);
    }
    return rv == ENOENT ? ESTALE : rv; /* Its name was not synced, and has gone with the power. */
}

static void put(struct program *p)
{
    struct act a;
    struct kernel_file file;
    unsigned number = (unsigned)world_draw(FILES), slot = (unsigned)world_draw(SLOTS);
    uint64_t value = ++p->history->last_value;
    char name[16];
    int rv = act_begin(&a, p), closed;
    bool lose = act_is_canary(p, "lost-put", 10), synced = !world_chance(3);

    (void)snprintf(name, sizeof(name), "f%u", number);
    if (rv == 0 && (rv = act_open(&a, name, O_RDWR, &file)) == 0) {
        if (!lose) {
            rv = kernel_write(&file, slot * (uint64_t)SLOT_STRIDE, &value, sizeof(value));
            rv = rv == 0 && world_chance(2) ? act_set_back_time(&file, "d", name) : rv;
        }
        if (rv == 0 && synced) {
            rv = kernel_fsync(&file);
        }
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    /* What is closed and not synced is lost with its mount, or with its lease. */
    act_note(&a, number * SLOTS + slot, true, value,
             rv == 0 && !synced && !p->history->calm ? -1 : rv);
    act_end(&a, synced ? "put" : "put unsynced", name, value, rv);
}

static void get_slot(struct program *p, unsigned number, unsigned slot)
{
    struct act a;
    struct kernel_file file;
    uint64_t value = 0;
    size_t got;
    char name[16];
    int rv = act_begin(&a, p), closed;

    (void)snprintf(name, sizeof(name), "f%u", number);
    if (rv == 0 && (rv = kernel_open_name(a.kernel, a.directory, name, O_RDONLY, &file)) == 0) {
        rv = kernel_read(&file, slot * (uint64_t)SLOT_STRIDE, &value, sizeof(value), &got);
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    rv = rv == ENOENT ? 0 : rv; /* Nobody has made it yet. */
    if (rv == 0 && act_is_canary(p, "old-get", 50)) {
        value = p->history->got_before[number * SLOTS + slot];
    } else if (rv == 0 && world_chance(20)) {
        p->history->got_before[number * SLOTS + slot] = value;
    }
    act_note(&a, number * SLOTS + slot, false, value, rv);
    act_end(&a, "get", name, value, rv);
}

static void get(struct program *p)
{
    get_slot(p, (unsigned)world_draw(FILES), (unsigned)world_draw(SLOTS));
}

/* Who has the file open for longer sees what others write meanwhile. */
static int stay_once(struct program *p, struct kernel_file *file, unsigned number)
{
    struct act a = { .program = p, .kernel = file->kernel };
    unsigned slot = (unsigned)world_draw(SLOTS);
    uint64_t offset = slot * (uint64_t)SLOT_STRIDE, value = 0;
    bool write = world_chance(3), synced = !world_chance(3);
    size_t got;
    int rv;

    a.from_ns = p->history->world->now_ns;
    if (write) {
        value = ++p->history->last_value;
        rv = kernel_write(file, offset, &value, sizeof(value));
        rv = rv == 0 && synced ? kernel_fsync(file) : rv;
    } else {
        rv = kernel_read(file, offset, &value, sizeof(value), &got);
    }
    p->history->counts.stayed += rv == 0;
    act_note(&a, number * SLOTS + slot, write, value,
             rv == 0 && write && !synced && !p->history->calm ? -1 : rv);
    act_end(&a, write ? "stay and write" : "stay and read", "f", value, rv);
    return rv;
}

static void stay(struct program *p)
{
    struct act a;
    struct kernel_file file;
    unsigned number = (unsigned)world_draw(FILES), times = 1 + (unsigned)world_draw(STAYS_MAX);
    char name[16];
    int rv = act_begin(&a, p);
    bool open = false;

    (void)snprintf(name, sizeof(name), "f%u", number);
    if (rv == 0 && (rv = act_open(&a, name, O_RDWR, &file)) == 0) {
        open = true;
    }
    act_end(&a, "stay", name, 0, rv);
    while (times-- > 0 && open && rv != ENOTCONN) {
        rv = stay_once(p, &file, number);
        fiber_sleep(world_chance(3) ? world_draw(300 * WORLD_MS) : world_draw(5 * WORLD_MS));
    }
    if (open) {
        (void)kernel_close(&file);
    }
}

/* ---- Lengths ---- */

static unsigned length_object(unsigned number)
{
    return FILES * SLOTS + NAMES + number;
}

/* The length is the value: a few pages at times, or a few servers' worth. */
static void cut(struct program *p)
{
    struct act a;
    struct kernel_file file;
    unsigned number = (unsigned)world_draw(CUT_FILES);
    uint64_t value = ++p->history->last_value + world_draw(3) * (1 << 20);
    char name[16];
    int rv = act_begin(&a, p), closed;
    bool synced = !world_chance(3);

    (void)snprintf(name, sizeof(name), "c%u", number);
    if (rv == 0 && (rv = act_open(&a, name, O_RDWR, &file)) == 0) {
        rv = kernel_truncate(&file, value);
        rv = rv == 0 && synced ? kernel_fsync(&file) : rv;
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    p->history->counts.cut += rv == 0;
    act_note(&a, length_object(number), true, value,
             rv == 0 && !synced && !p->history->calm ? -1 : rv);
    act_end(&a, synced ? "cut" : "cut unsynced", name, value, rv);
}

static void measure_at(struct program *p, unsigned number)
{
    struct act a;
    uint64_t value = 0;
    char name[16];
    int rv = act_begin(&a, p);

    (void)snprintf(name, sizeof(name), "c%u", number);
    rv = rv != 0 ? rv : kernel_size(a.kernel, a.directory, name, &value);
    rv = rv == ENOENT ? 0 : rv;
    act_note(&a, length_object(number), false, value, rv);
    act_end(&a, "measure", name, value, rv);
}

static void measure(struct program *p)
{
    measure_at(p, (unsigned)world_draw(CUT_FILES));
}

/* ---- Listings ---- */

static void count_name(void *data, const char *name)
{
    unsigned *times = data;

    if (name[0] == 's') {
        times[strtoul(name + 1, NULL, 10)]++;
    }
}

/* What is there all the time is listed once. */
static void list_all(struct program *p)
{
    unsigned times[HISTORY_STEADY] = { 0 };
    struct act a;
    struct kernel_file dir;
    int rv = act_begin(&a, p);

    if (rv == 0 && (rv = kernel_open_dir(a.kernel, a.directory, &dir)) == 0) {
        rv = kernel_list(&dir, count_name, times);
        kernel_close_dir(&dir);
    }
    p->history->counts.listed += rv == 0;
    for (unsigned i = 0; rv == 0 && i < HISTORY_STEADY; i++) {
        if (times[i] != 1) {
            world_fail("%s: s%u is listed %u times by %s", p->name, i, times[i],
                       a.kernel->process->name);
        }
    }
    act_end(&a, "list", "d", 0, rv);
}

/* ---- Names ---- */

static void look_at(struct program *p, unsigned number)
{
    struct act a;
    fuse_ino_t inode = 0;
    char name[16];
    int rv = act_begin(&a, p);

    (void)snprintf(name, sizeof(name), "n%u", number);
    if (rv == 0 && (rv = kernel_lookup(a.kernel, a.directory, name, &inode)) == 0) {
        kernel_forget(a.kernel, inode);
    }
    rv = rv == ENOENT ? 0 : rv;
    act_note(&a, FILES * SLOTS + number, false, inode, rv);
    act_end(&a, "look", name, inode, rv);
}

static void look(struct program *p)
{
    look_at(p, (unsigned)world_draw(NAMES));
}

/* What the manager had not synced it may have lost since. */
static bool may_be_lost(const struct program *p, unsigned losses)
{
    return p->history->meta_losses != losses;
}

/* A name that is ours alone leads to this inode, or to nothing, whichever mount is asked; where the
 * manager has lost its power since, to what it led to before, `other`, or to nothing. */
static void expect(struct program *p, const char *name, fuse_ino_t inode, fuse_ino_t other,
                   unsigned losses)
{
    struct act a;
    fuse_ino_t found = 0;
    int rv = act_begin(&a, p);

    if (rv == 0 && (rv = kernel_lookup(a.kernel, a.directory, name, &found)) == 0) {
        kernel_forget(a.kernel, found);
    }
    rv = rv == ENOENT ? 0 : rv;
    if (rv == 0 && found != inode && !(may_be_lost(p, losses) && (found == other || found == 0))) {
        world_fail("%s: %s is inode %llu and not %llu as %s says", p->name, name,
                   (unsigned long long)inode, (unsigned long long)found, a.kernel->process->name);
    }
    act_end(&a, "expect", name, found, rv);
}

/* What was done to names is there for good; the directory was open before. */
static int sync_names(struct act *a, struct kernel_file *dir, int rv)
{
    if (rv == 0) {
        rv = kernel_fsync_dir(dir);
        a->program->history->counts.dir_syncs += rv == 0;
    }
    kernel_close_dir(dir);
    return rv;
}

static fuse_ino_t make(struct program *p, const char *name)
{
    struct act a;
    struct kernel_file file = { .inode = 0 };
    int rv = act_begin(&a, p);

    if (rv == 0 && (rv = kernel_open_name(a.kernel, a.directory, name, O_RDWR | O_CREAT | O_EXCL,
                                          &file)) == 0) {
        (void)kernel_close(&file);
    }
    act_end(&a, "make", name, file.inode, rv);
    return rv == 0 ? file.inode : 0;
}

static void take_away(struct program *p, const char *name, fuse_ino_t inode, unsigned losses)
{
    struct act a;
    int rv = act_begin(&a, p);

    if (rv == 0) {
        rv = kernel_unlink(a.kernel, a.directory, name);
    }
    rv = rv == ENOENT && may_be_lost(p, losses) ? 0 : rv;
    act_end(&a, "unlink", name, 0, rv);
    if (rv == 0) {
        expect(p, name, 0, inode, losses);
    }
}

static void rename_over(struct program *p, const char *name, fuse_ino_t inode, unsigned losses)
{
    struct act a;
    struct kernel_file dir;
    unsigned number = (unsigned)world_draw(NAMES);
    char to[16];
    bool synced = p->history->forgetful && !world_chance(5);
    int rv = act_begin(&a, p), done = rv;

    (void)snprintf(to, sizeof(to), "n%u", number);
    if (rv == 0 && (!synced || (rv = kernel_open_dir(a.kernel, a.directory, &dir)) == 0)) {
        done = kernel_rename(a.kernel, a.directory, name, to);
        rv = synced ? sync_names(&a, &dir, done) : done;
    }
    if (rv == ENOENT && may_be_lost(p, losses)) {
        done = rv = EIO;
    }
    act_note(&a, FILES * SLOTS + number, true, inode,
             rv == 0 && !synced && p->history->forgetful ? -1 : rv);
    act_end(&a, synced ? "rename" : "rename unsynced", name, inode, rv);
    if (done == 0) {
        expect(p, name, 0, inode, synced && rv == 0 ? p->history->meta_losses : losses);
    }
}

static void make_and_move(struct program *p)
{
    char name[24];
    unsigned losses = p->history->meta_losses;
    fuse_ino_t inode;

    (void)snprintf(name, sizeof(name), "t%llu", (unsigned long long)++p->history->last_value);
    inode = make(p, name);
    if (inode == 0) {
        return;
    }
    expect(p, name, inode, inode, losses);
    if (world_chance(3)) {
        take_away(p, name, inode, losses);
    } else {
        rename_over(p, name, inode, losses);
    }
}

/* ---- Programs ---- */

static void run_program(void *data)
{
    static void (*const acts[])(struct program * p) = {
        put,        put,       get,      get,      get,      look,      append_some,  make_and_move,
        lock_some,  lock_some, stay,     cut,      measure,  measure,   list_all,     range_some,
        range_some, attr_set,  attr_get, attr_get, own_some, tree_move, make_and_move
    };
    struct program *p = data;

    while (!p->history->ended) {
        if (act_is_canary(p, "lost-answer", 500)) {
            fiber_wait();
        }
        if (p->history->world->now_ns < p->history->rush_until_ns && !world_chance(4)) {
            range_some(p); /* All want the same. */
        } else {
            acts[world_draw(sizeof(acts) / sizeof(acts[0]))](p);
        }
        fiber_sleep(world_chance(3) ? world_draw(1000 * WORLD_MS) : world_draw(20 * WORLD_MS));
    }
    p->history->programs_running--;
}

static int make_steady(struct fuse_session *k)
{
    struct kernel_file dir, file;
    fuse_ino_t d;
    char name[16];
    int rv = kernel_lookup(k, FUSE_ROOT_ID, "d", &d);

    if (rv != 0 || (rv = kernel_open_dir(k, d, &dir)) != 0) {
        return rv;
    }
    for (unsigned i = 0; rv == 0 && i < HISTORY_STEADY; i++) {
        (void)snprintf(name, sizeof(name), "s%u", i);
        rv = kernel_open_name(k, d, name, O_RDWR | O_CREAT, &file);
        rv = rv == 0 ? kernel_close(&file) : rv;
    }
    rv = rv == 0 ? kernel_fsync_dir(&dir) : rv;
    kernel_close_dir(&dir);
    kernel_forget(k, d);
    return rv;
}

static void run_first(void *data)
{
    struct program *p = data;
    struct host_mount *m = any_mount(p);
    struct kernel_file root;
    int rv = kernel_open_dir(&m->session, FUSE_ROOT_ID, &root);

    if (rv != 0 || (rv = kernel_mkdir(&m->session, FUSE_ROOT_ID, "d")) != 0 ||
        (rv = copies_policy(p->history, &m->session, "d")) != 0 ||
        (rv = kernel_mkdir(&m->session, FUSE_ROOT_ID, "r")) != 0 ||
        (rv = copies_policy(p->history, &m->session, "r")) != 0 ||
        (rv = tree_make(p->history, &m->session)) != 0 ||
        (rv = meet_make(p->history, &m->session)) != 0 || (rv = kernel_fsync_dir(&root)) != 0 ||
        (rv = make_steady(&m->session)) != 0) {
        world_fail("the first call says \"%s\"", strerror(rv));
    }
    kernel_close_dir(&root);
    p->history->programs_running--;
}

static void run_last(void *data)
{
    struct program *p = data;

    for (unsigned i = 0; i < FILES * SLOTS; i++) {
        get_slot(p, i / SLOTS, i % SLOTS);
    }
    for (unsigned i = 0; i < NAMES; i++) {
        look_at(p, i);
    }
    for (unsigned i = 0; i < CUT_FILES; i++) {
        measure_at(p, i);
    }
    list_all(p);
    append_check(p);
    attr_check(p);
    tree_check(p);
    meet_check(p);
    recopy_check(p);
    p->history->programs_running--;
}

void program_begin(struct history *h, const char *kind, unsigned number, unsigned mount,
                   void (*run)(void *data))
{
    struct program *p = calloc(1, sizeof(*p));

    CHECK(p != NULL);
    *p = (struct program){ .history = h, .mount = mount };
    (void)snprintf(p->name, sizeof(p->name), "%s%u", kind, number + 1);
    h->programs_running++;
    (void)fiber_start(world_draw(10 * WORLD_MS), run, p);
}

void programs_first(struct history *h)
{
    program_begin(h, "first", 0, 0, run_first);
}

void programs_begin(struct history *h)
{
    for (unsigned i = 0; i < HISTORY_PROGRAMS; i++) {
        program_begin(h, "prog", i, i < 2 ? i : HISTORY_MOUNTS, run_program);
    }
    for (unsigned i = 0; i < HISTORY_KEEPERS; i++) {
        program_begin(h, "keep", i, HISTORY_MOUNTS, keep_run);
    }
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        program_begin(h, "meet", i, i, meet_run);
    }
    program_begin(h, "bulk", 0, HISTORY_MOUNTS, bulk_run);
    program_begin(h, "admin", 0, HISTORY_MOUNTS, admin_run);
    program_begin(h, "recopy", 0, HISTORY_MOUNTS, recopy_run);
    program_begin(h, "servers", 0, HISTORY_MOUNTS, servers_run);
}

void programs_look(struct history *h, unsigned mounts)
{
    for (unsigned i = 0; i < mounts; i++) {
        program_begin(h, "last", i, i, run_last);
    }
}

void programs_check(struct history *h)
{
    program_begin(h, "check", 0, HISTORY_MOUNTS, admin_check);
}
