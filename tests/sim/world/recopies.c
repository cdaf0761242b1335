/* `morsel recopy` while others use the files: any file of the directory that all share is written anew by its side, and
 * the two exchange their bytes (common/fs/exchange.h); so are files of this program, in a directory whose policy says
 * another number of copies each time. What others write to moves while they hold still. Who reads and writes them notices nothing of
 * it. */
#include "common/fs/exchange.h"
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    COPY_BYTES = 1 << 20,
    OWN_FILES = 3,
    OWN_FIRST = 20, /* Of the judge's objects. */
    OWN_STRIDE = 900 << 10,
    OWN_PIECES = 3,
    REST_MS_MAX = 500
};

/* A file, and the one by its side. */
struct recopy
{
    struct act *act;
    const char *name;
    struct kernel_file from, to;
    uint8_t *bytes; /* COPY_BYTES */
    uint64_t watch; /* The copy is as the file was, but for what was changed since; 0: it is not, */
    uint64_t known; /* and for what lies behind this. */
    bool paused;
};

/* ---- The exchange, as the command does it (src/client/admin/recopy_file.c) ---- */

static int ended_early(struct recopy *r, uint64_t at)
{
    r->known = at < r->known ? at : r->known;
    return r->watch != 0 ? 0 : EAGAIN;
}

static int copy_range(struct recopy *r, uint64_t at, uint64_t end)
{
    int rv = 0;

    while (rv == 0 && at < end) {
        size_t wanted = end - at < COPY_BYTES ? (size_t)(end - at) : COPY_BYTES, got;

        rv = kernel_read(&r->from, at, r->bytes, wanted, &got);
        if (rv == 0 && got == 0) {
            return ended_early(r, at); /* Somebody has made it shorter. */
        }
        if (rv == 0 && !act_is_canary(r->act->program, "lost-copy", 1)) {
            rv = kernel_write(&r->to, at, r->bytes, got);
        }
        at += rv == 0 ? got : 0;
    }
    return rv;
}

static int copy_bytes(struct recopy *r)
{
    uint64_t size = 0, at = 0, data, hole;
    int rv = kernel_size(r->act->kernel, r->act->directory, r->name, &size);

    /* A try before may have left bytes where a hole is now. */
    rv = rv != 0 ? rv : kernel_truncate(&r->to, 0);
    rv = rv != 0 ? rv : kernel_truncate(&r->to, size);
    r->known = size;
    while (rv == 0 && at < size) {
        rv = kernel_seek(&r->from, at, SEEK_DATA, &data);
        if (rv == ENXIO) {
            (void)ended_early(r, at);
            return 0; /* The rest is a hole, or it has ended. */
        }
        rv = rv != 0 ? rv : kernel_seek(&r->from, data, SEEK_HOLE, &hole);
        if (rv == ENXIO) {
            return ended_early(r, data);
        }
        if (rv == 0) {
            at = hole < size ? hole : size;
            rv = copy_range(r, data, at);
        }
    }
    return rv;
}

static int ask_changes(struct recopy *r, struct exchange_watch *watch)
{
    return kernel_ioctl(&r->from, EXCHANGE_WATCH, watch, sizeof(*watch), watch, sizeof(*watch));
}

static int watch(struct recopy *r)
{
    struct exchange_watch wanted = { .begin = ++r->act->program->history->last_value };
    int rv = ask_changes(r, &wanted);

    r->watch = rv == 0 ? wanted.begin : 0;
    return rv;
}

/* Those of one answer. */
static int copy_stretches(struct recopy *r, const struct exchange_watch *wanted, uint64_t size)
{
    int rv = 0;

    for (uint32_t i = 0; rv == 0 && i < wanted->count; i++) {
        const struct exchange_stretch *s = &wanted->stretches[i];

        if (!act_is_canary(r->act->program, "lost-change", 1)) {
            rv = copy_range(r, s->start, s->end < size ? s->end : size);
        }
    }
    return rv;
}

/* The copy becomes as long as the file. What may have been written behind its end before the watch began nobody has read. */
static int take_size(struct recopy *r, uint64_t *size, uint64_t *from)
{
    int rv = kernel_size(r->act->kernel, r->act->directory, r->name, size);

    *from = r->known;
    r->known = *size;
    return rv != 0 ? rv : kernel_truncate(&r->to, *size);
}

static int copy_changes(struct recopy *r)
{
    struct exchange_watch wanted = { .begin = ++r->act->program->history->last_value };
    uint64_t since = r->watch, next = wanted.begin, size = 0, from = 0;
    int rv = 0;

    do {
        wanted.since = since;
        rv = ask_changes(r, &wanted);
        if (rv != 0) {
            r->watch = 0;
            return r->paused ? EBUSY : copy_bytes(r); /* Nobody knows. */
        }
        rv = wanted.begin != 0 ? take_size(r, &size, &from) : 0;
        rv = rv == 0 ? copy_stretches(r, &wanted, size) : rv;
        wanted.begin = 0;
        wanted.from = wanted.next;
    } while (rv == 0 && wanted.next != UINT64_MAX);
    rv = rv == 0 ? copy_range(r, from, size) : rv;
    r->watch = rv == 0 ? next : r->watch;
    return rv;
}

static int copy_and_exchange(struct recopy *r)
{
    struct exchange_commit commit = { .with = r->to.inode };
    int rv = kernel_ioctl(&r->from, EXCHANGE_BEGIN, NULL, 0, &commit.state, sizeof(commit.state));

    rv = rv != 0 ? rv : r->watch != 0 ? copy_changes(r) : copy_bytes(r);
    if (rv == 0) {
        rv = kernel_ioctl(&r->from, EXCHANGE_COMMIT, &commit, sizeof(commit), NULL, 0);
    }
    return rv;
}

/* Others write to it: while they hold still. Where one server at a time is struck no call may take as long as that may. */
static int pause_and_exchange(struct recopy *r)
{
    struct history *h = r->act->program->history;
    int rv = h->one_struck ? EBUSY : kernel_ioctl(&r->from, EXCHANGE_PAUSE, NULL, 0, NULL, 0);

    if (rv != 0) {
        return EBUSY;
    }
    r->paused = true;
    rv = copy_and_exchange(r);
    r->paused = false;
    h->counts.recopies_paused += rv == 0;
    (void)kernel_ioctl(&r->from, EXCHANGE_RESUME, NULL, 0, NULL, 0);
    return rv;
}

/* It is taken for a large one: copied while others go on writing, with a rest, for these files are small, and once more what they
 * have changed meanwhile. */
static int copy_beforehand(struct recopy *r)
{
    int rv = watch(r);

    if (rv == 0) {
        rv = copy_bytes(r);
        fiber_sleep(world_draw(REST_MS_MAX * WORLD_MS));
        rv = rv == 0 && world_draw(2) == 0 ? copy_changes(r) : rv;
    }
    return rv;
}

/* It has a name for a moment; the command makes one without. */
static int open_copy(struct recopy *r)
{
    char name[24];
    int rv;

    (void)snprintf(name, sizeof(name), "x%llu",
                   (unsigned long long)++r->act->program->history->last_value);
    rv = kernel_open_name(r->act->kernel, r->act->directory, name, O_RDWR | O_CREAT | O_EXCL,
                          &r->to);
    if (rv == 0 && (rv = kernel_unlink(r->act->kernel, r->act->directory, name)) != 0) {
        (void)kernel_close(&r->to);
    }
    return rv;
}

static int recopy(struct recopy *r)
{
    int rv = kernel_open_name(r->act->kernel, r->act->directory, r->name, O_RDONLY, &r->from);

    if (rv != 0) {
        return rv;
    }
    rv = open_copy(r);
    if (rv == 0) {
        rv = world_draw(2) == 0 ? copy_beforehand(r) : 0;
        rv = rv == 0 ? copy_and_exchange(r) : rv;
        rv = rv == EBUSY ? pause_and_exchange(r) : rv;
        (void)kernel_close(&r->to);
    }
    (void)kernel_close(&r->from);
    return rv;
}

/* Others write it, have renamed it, or there is no place for it: it is left. */
static bool is_left(int error)
{
    return error == EBUSY || error == EAGAIN || error == ENOENT || error == ESTALE ||
           error == ENOSPC;
}

static void recopy_name(struct program *p, const char *directory, const char *name)
{
    struct act a;
    struct stat st;
    struct recopy r = { .act = &a, .name = name, .bytes = malloc(COPY_BYTES) };
    int rv = act_begin_in(&a, p, directory);

    CHECK(r.bytes != NULL);
    rv = rv != 0 ? rv : kernel_stat(a.kernel, a.directory, name, &st);
    if (rv == 0 && S_ISREG(st.st_mode)) {
        rv = recopy(&r);
        p->history->counts.recopied += rv == 0;
        p->history->counts.recopies_beforehand += rv == 0 && r.watch != 0;
        p->history->counts.recopies_left += is_left(rv);
    }
    free(r.bytes);
    world_trace(p->name, "recopy %s/%s: %s", directory, name, strerror(rv));
    act_end(&a, "recopy", name, 0, is_left(rv) ? 0 : rv);
}

/* ---- What others have ---- */

struct choice
{
    char name[WORLD_NAME_MAX + 16];
    uint64_t seen;
};

/* Each with the same chance; of those that nobody writes only some. */
static void choose(void *data, const char *name)
{
    struct choice *c = data;

    if (name[0] != '.' && name[0] != 's' && strlen(name) < sizeof(c->name) &&
        world_draw(++c->seen) == 0) {
        (void)snprintf(c->name, sizeof(c->name), "%s", name);
    }
}

static void recopy_any(struct program *p)
{
    struct choice c = { .seen = 0 };
    struct kernel_file dir;
    struct act a;
    int rv = act_begin(&a, p);

    if (rv == 0 && (rv = kernel_open_dir(a.kernel, a.directory, &dir)) == 0) {
        rv = kernel_list(&dir, choose, &c);
        kernel_close_dir(&dir);
    }
    act_end(&a, "list", "d", 0, rv);
    if (rv == 0 && c.seen > 0) {
        recopy_name(p, "d", c.name);
    }
}

/* ---- Our own ---- */

static void own_name(char name[16], unsigned number)
{
    (void)snprintf(name, 16, "r%u", number);
}

static void put_own(struct program *p)
{
    uint64_t value = ++p->history->last_value;
    unsigned number = (unsigned)world_draw(OWN_FILES);
    struct kernel_file file;
    struct act a;
    char name[16];
    int rv = act_begin_in(&a, p, "r"), closed;

    own_name(name, number);
    if (rv == 0 && (rv = act_open(&a, name, O_RDWR, &file)) == 0) {
        for (unsigned i = 0; rv == 0 && i < OWN_PIECES; i++) {
            rv = kernel_write(&file, i * (uint64_t)OWN_STRIDE, &value, sizeof(value));
        }
        rv = rv == 0 ? kernel_fsync(&file) : rv;
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    for (unsigned i = 0; i < OWN_PIECES; i++) {
        act_note(&a, OWN_FIRST + number * OWN_PIECES + i, true, value, rv);
    }
    act_end(&a, "put", name, value, rv == ENOSPC ? 0 : rv);
}

static void get_own(struct program *p, unsigned number, unsigned piece)
{
    struct kernel_file file;
    uint64_t value = 0;
    size_t got;
    struct act a;
    char name[16];
    int rv = act_begin_in(&a, p, "r"), closed;

    own_name(name, number);
    if (rv == 0 && (rv = kernel_open_name(a.kernel, a.directory, name, O_RDONLY, &file)) == 0) {
        rv = kernel_read(&file, piece * (uint64_t)OWN_STRIDE, &value, sizeof(value), &got);
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    rv = rv == ENOENT ? 0 : rv; /* Nobody has made it yet. */
    act_note(&a, OWN_FIRST + number * OWN_PIECES + piece, false, value, rv);
    act_end(&a, "get", name, value, rv);
}

/* Where one server at a time is struck, there are two at least. */
static void change_policy(struct program *p)
{
    struct history *h = p->history;
    unsigned least = h->one_struck ? 2 : 1, most = h->iods_count < 3 ? h->iods_count : 3;
    char value[4];
    struct act a;
    int rv = act_begin_in(&a, p, "r");

    (void)snprintf(value, sizeof(value), "%u", least + (unsigned)world_draw(most - least + 1));
    if (rv == 0) {
        rv = kernel_set_xattr(a.kernel, FUSE_ROOT_ID, "r", "user.morsel.replicas", value,
                              strlen(value), 0);
    }
    h->counts.policies += rv == 0;
    act_end(&a, "set the copies of", "r", 0, rv == ENOSPC ? 0 : rv);
}

static void recopy_own(struct program *p)
{
    char name[16];

    change_policy(p);
    own_name(name, (unsigned)world_draw(OWN_FILES));
    recopy_name(p, "r", name);
}

/* ---- The program ---- */

void recopy_run(void *data)
{
    static void (*const acts[])(struct program * p) = { recopy_any, recopy_any, recopy_any,
                                                        recopy_own, recopy_own, put_own };
    struct program *p = data;

    while (!p->history->ended) {
        acts[world_draw(sizeof(acts) / sizeof(acts[0]))](p);
        if (world_chance(2)) {
            get_own(p, (unsigned)world_draw(OWN_FILES), (unsigned)world_draw(OWN_PIECES));
        }
        fiber_sleep(world_draw(REST_MS_MAX * WORLD_MS));
    }
    p->history->programs_running--;
}

void recopy_check(struct program *p)
{
    for (unsigned i = 0; i < OWN_FILES * OWN_PIECES; i++) {
        get_own(p, i / OWN_PIECES, i % OWN_PIECES);
    }
}
