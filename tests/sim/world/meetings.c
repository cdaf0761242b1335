/* Programs of all mounts that do the same at the same moment, in rounds: they rename one file from
 * and to the same names; look at a file that is hardly ever touched while one of them changes it;
 * write and read one place of one file for a while; exchange names, each its own; append large
 * records to one file; read what they have under a lease while they are cut off from the manager,
 * and others write it. */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>

enum {
    ROUND_MS = 150,
    SPREAD_MS_MAX = 3, /* So late some come, */
    HOT_MS = 100,      /* and so long they stay at one place. */
    QUIET_FILES = 12,  /* Each is changed once in as many rounds: its leases are granted again. */
    LOOKS = 3,
    STRIKES_N = 40,
    LARGE_N = 20,
    APART_N = 6,
    DEAF_MS_MAX = 1500, /* So long a mount does not hear the manager, which hears it; */
    APART_MS = 2500     /* then neither hears the other, for longer than a lease lasts. */
};

/* Objects of the judge. */
enum { OBJECT_HOT = HISTORY_MEETINGS_FIRST, OBJECT_QUIET };

enum kind {
    KIND_RENAME,
    KIND_LOOK,
    KIND_HOT,
    KIND_EXCHANGE,
    KINDS_OFTEN,
    KIND_APPEND = KINDS_OFTEN, /* These once: one moves much, the other lasts long. */
    KIND_APART
};

/* A round: who comes first says what it is. */
struct meeting
{
    uint64_t round;
    enum kind kind;
    unsigned joined, ended; /* Of a renaming: who has begun, and ended; */
    unsigned won;           /* so many have done it. */
    bool unsure;            /* It is not known who has. */
    bool making;            /* The file. */
    uint64_t from, to;      /* Of names; from 0: there is no file. */
    unsigned losses;        /* When it was made. */
    uint64_t apart_until_ns;
};

static int begin_in_quiet(struct act *a, struct program *p)
{
    return act_begin_in(a, p, "q");
}

static void file_name(char *name, size_t size, uint64_t value)
{
    (void)snprintf(name, size, "m%llu", (unsigned long long)value);
}

/* ---- The same rename ---- */

static void make_file(struct program *p, struct meeting *m)
{
    struct act a;
    struct kernel_file file;
    uint64_t value = ++p->history->last_value;
    unsigned losses = p->history->meta_losses;
    char name[24];
    int rv = begin_in_quiet(&a, p);

    file_name(name, sizeof(name), value);
    if (rv == 0 && (rv = act_open(&a, name, O_RDWR | O_EXCL, &file)) == 0) {
        rv = kernel_close(&file);
    }
    if (rv == 0) {
        m->from = value;
        m->losses = losses;
    }
    act_end(&a, "make for all", name, value, rv);
}

/* The last of them has ended: one has done it, or it is not known. */
static void judge_renames(struct program *p, struct meeting *m)
{
    bool lost = m->losses != p->history->meta_losses;

    if (!lost && (m->won > 1 || (m->won == 0 && !m->unsure))) {
        world_fail("%s: %u of %u who have renamed m%llu to m%llu were told that they did", p->name,
                   m->won, m->joined, (unsigned long long)m->from, (unsigned long long)m->to);
    }
    p->history->counts.met += m->joined > 1 && m->won == 1;
    m->from = m->won == 1 && !m->unsure && !lost ? m->to : 0;
}

static void rename_together(struct program *p, struct meeting *m)
{
    struct act a;
    char from[24], to[24];
    int rv;

    if (m->from == 0 || m->ended > 0) {
        if (m->from == 0 && !m->making) {
            m->making = true;
            make_file(p, m);
            m->making = false;
        }
        return;
    }
    if (m->joined++ == 0) {
        m->to = ++p->history->last_value;
        m->won = 0;
        m->unsure = false;
    }
    file_name(from, sizeof(from), m->from);
    file_name(to, sizeof(to), m->to);
    rv = begin_in_quiet(&a, p);
    if (rv == 0) {
        rv = kernel_rename(a.kernel, a.directory, from, to);
    }
    m->won += rv == 0;
    m->unsure = m->unsure || act_is_trouble(rv);
    /* The kernel tries twice, and the file may have gone on both times (docs/status.md). */
    act_end(&a, rv == 0 ? "rename first" : "rename too", to, m->to,
            rv == ENOENT || rv == ESTALE ? 0 : rv);
    if (++m->ended == m->joined) {
        judge_renames(p, m);
        m->joined = m->ended = 0;
    }
}

/* ---- Files that are hardly ever touched ---- */

static void quiet_name(char *name, size_t size, unsigned number)
{
    (void)snprintf(name, size, "w%u", number);
}

static void look_once(struct program *p, unsigned number)
{
    struct act a;
    struct stat st;
    uint64_t value = 0;
    char name[16];
    int rv = begin_in_quiet(&a, p);

    quiet_name(name, sizeof(name), number);
    rv = rv != 0 ? rv : kernel_stat(a.kernel, a.directory, name, &st);
    if (rv == 0) {
        value = st.st_mtim.tv_sec > 0 && (uint64_t)st.st_mtim.tv_sec <= p->history->last_value
                    ? (uint64_t)st.st_mtim.tv_sec
                    : 0;
    }
    act_note(&a, OBJECT_QUIET + number, false, value, rv);
    act_end(&a, "look at quiet", name, value, rv);
}

static void touch_quiet(struct program *p, unsigned number)
{
    uint64_t value = ++p->history->last_value;
    struct stat st = { .st_mtim = { .tv_sec = (time_t)value } };
    struct act a;
    char name[16];
    int rv = begin_in_quiet(&a, p);

    quiet_name(name, sizeof(name), number);
    rv =
        rv != 0 ? rv : kernel_set_attributes(a.kernel, a.directory, name, &st, FUSE_SET_ATTR_MTIME);
    p->history->counts.touched += rv == 0;
    act_note(&a, OBJECT_QUIET + number, true, value, rv == 0 && !p->history->calm ? -1 : rv);
    act_end(&a, "touch quiet", name, value, rv);
}

/* The kernels of the others have heard of it never, or forgotten it. */
static void look_together(struct program *p, const struct meeting *m)
{
    unsigned number = (unsigned)(m->round % QUIET_FILES);

    if (m->round / QUIET_FILES % HISTORY_MOUNTS == p->mount) {
        touch_quiet(p, number);
        return;
    }
    kernel_forget_all(&p->history->mounts[p->mount]->session);
    for (unsigned i = 0; i < LOOKS; i++) {
        look_once(p, number);
        fiber_sleep(world_draw(20 * WORLD_MS));
    }
}

/* ---- One place ---- */

static int hot_once(struct program *p, struct kernel_file *file, bool write)
{
    struct history *h = p->history;
    struct act a = { .program = p, .kernel = file->kernel, .from_ns = h->world->now_ns };
    bool synced = !h->calm && !world_chance(3);
    uint64_t value = 0;
    size_t got;
    int rv;

    if (write) {
        value = ++h->last_value;
        rv = kernel_write(file, 0, &value, sizeof(value));
        rv = rv == 0 && world_chance(3) ? act_set_back_time(file, "q", "hot") : rv;
        rv = rv == 0 && synced ? kernel_fsync(file) : rv;
    } else {
        rv = kernel_read(file, 0, &value, sizeof(value), &got);
    }
    h->counts.hot += rv == 0;
    act_note(&a, OBJECT_HOT, write, value, rv == 0 && write && !synced && !h->calm ? -1 : rv);
    act_end(&a, write ? "write hot" : "read hot", "hot", value, rv);
    return rv;
}

static void stay_together(struct program *p)
{
    uint64_t until_ns = p->history->world->now_ns + HOT_MS * WORLD_MS;
    struct act a;
    struct kernel_file file;
    int rv = begin_in_quiet(&a, p);
    bool open = false;

    if (rv == 0 && (rv = act_open(&a, "hot", O_RDWR, &file)) == 0) {
        open = true;
    }
    act_end(&a, "come", "hot", 0, rv);
    while (open && rv != ENOTCONN && p->history->world->now_ns < until_ns) {
        rv = hot_once(p, &file, world_chance(3));
        if (world_chance(STRIKES_N)) {
            faults_strike(p->history, false);
        }
        fiber_sleep(world_draw(WORLD_MS));
    }
    if (open) {
        (void)kernel_close(&file);
    }
}

/* Reads on as long as it can, from what it has under its lease. */
static void read_apart(struct program *p, struct kernel_file *file)
{
    struct history *h = p->history;
    struct world_host *mount = h->mount_hosts[p->mount];
    uint64_t deaf_ns = world_chance(2) ? world_draw(DEAF_MS_MAX * WORLD_MS) : 0;
    uint64_t now_ns = h->world->now_ns;
    bool cut = deaf_ns == 0;
    int rv = 0;

    h->counts.apart++;
    world_cut(h->meta_host, mount, now_ns + deaf_ns + cut * APART_MS * WORLD_MS);
    h->meeting->apart_until_ns = now_ns + deaf_ns + (APART_MS + ROUND_MS) * WORLD_MS;
    while (rv == 0 && h->faults && h->world->now_ns < h->meeting->apart_until_ns) {
        rv = hot_once(p, file, false);
        if (!cut && h->world->now_ns > now_ns + deaf_ns + ROUND_MS * WORLD_MS) {
            world_cut(h->meta_host, mount, h->world->now_ns + APART_MS * WORLD_MS);
            cut = true;
        }
        if (cut && !world_is_cut(mount, h->meta_host, &(uint64_t){ 0 })) {
            world_cut(mount, h->meta_host, h->meeting->apart_until_ns);
        }
        fiber_sleep(world_draw(2 * WORLD_MS));
    }
}

/* The first one is cut off, the others write until it hears again. */
static void go_apart(struct program *p, struct meeting *m)
{
    struct history *h = p->history;
    bool first = m->apart_until_ns == 0, open = false;
    struct act a;
    struct kernel_file file;
    int rv;

    m->apart_until_ns = first ? h->world->now_ns + ROUND_MS * WORLD_MS : m->apart_until_ns;
    rv = begin_in_quiet(&a, p);
    if (rv == 0 && (rv = act_open(&a, "hot", O_RDWR, &file)) == 0) {
        open = true;
    }
    act_end(&a, "come", "hot", 0, rv);
    if (open && first && hot_once(p, &file, false) == 0) {
        read_apart(p, &file);
    }
    while (open && !first && rv == 0 && h->faults && h->world->now_ns < m->apart_until_ns) {
        fiber_sleep(world_draw(ROUND_MS * WORLD_MS));
        rv = hot_once(p, &file, true);
    }
    if (open) {
        (void)kernel_close(&file);
    }
}

/* ---- Rounds ---- */

static enum kind some_kind(const struct history *h, const struct meeting *m)
{
    if (h->large_count == 0 && world_chance(LARGE_N)) {
        return KIND_APPEND;
    }
    if (m->apart_until_ns == 0 && h->faults && h->cuts && world_chance(APART_N)) {
        return KIND_APART;
    }
    return (enum kind)world_draw(KINDS_OFTEN);
}

static void take_part(struct program *p, struct meeting *m)
{
    uint64_t now_ns = p->history->world->now_ns, round = now_ns / (ROUND_MS * WORLD_MS) + 1;

    fiber_sleep(round * ROUND_MS * WORLD_MS - now_ns + world_draw_skewed(SPREAD_MS_MAX * WORLD_MS));
    if (m->round < round) {
        m->round = round;
        m->kind = some_kind(p->history, m);
    }
    switch (m->kind) {
    case KIND_RENAME:
        rename_together(p, m);
        break;
    case KIND_LOOK:
        look_together(p, m);
        break;
    case KIND_HOT:
        stay_together(p);
        break;
    case KIND_APART:
        go_apart(p, m);
        break;
    case KIND_APPEND:
        if (p->history->large_count < HISTORY_MOUNTS) {
            append_large(p);
        }
        break;
    default:
        own_exchange(p);
    }
}

void meet_run(void *data)
{
    struct program *p = data;
    struct history *h = p->history;

    if (h->meeting == NULL) {
        h->meeting = calloc(1, sizeof(*h->meeting));
        CHECK(h->meeting != NULL);
    }
    while (!h->ended) {
        take_part(p, h->meeting);
    }
    h->programs_running--;
}

int meet_make(const struct history *h, struct fuse_session *k)
{
    struct kernel_file dir, file;
    fuse_ino_t q;
    char name[16];
    int rv = kernel_mkdir(k, FUSE_ROOT_ID, "q");

    if (rv != 0 || (rv = copies_policy(h, k, "q")) != 0 ||
        (rv = kernel_lookup(k, FUSE_ROOT_ID, "q", &q)) != 0 ||
        (rv = kernel_open_dir(k, q, &dir)) != 0) {
        return rv;
    }
    for (unsigned i = 0; rv == 0 && i <= QUIET_FILES; i++) {
        quiet_name(name, sizeof(name), i);
        rv = kernel_open_name(k, q, i < QUIET_FILES ? name : "hot", O_RDWR | O_CREAT, &file);
        rv = rv == 0 ? kernel_close(&file) : rv;
    }
    rv = rv == 0 ? kernel_fsync_dir(&dir) : rv;
    kernel_close_dir(&dir);
    kernel_forget(k, q);
    return rv;
}

/* Nothing is under way any more. */
void meet_check(struct program *p)
{
    for (unsigned i = 0; i < QUIET_FILES; i++) {
        look_once(p, i);
    }
}
