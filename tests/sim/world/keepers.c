/* Programs that keep files open for long, each file through two handles of one mount, write large
 * pieces and sync them now and then. Nobody else writes to the file, so each word of it must be the
 * last that a yes of fsync has covered, or one that was written since, whichever mount is asked.
 *
 * A yes covers what was written before, through whichever handle of the mount, unless this very
 * handle has been told of a loss since it was written. Each handle for itself: what one was told
 * excuses no other. */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum {
    HANDLES = 2,
    PIECES = 4,
    PIECE_WORDS = 20000,   /* Of 8 bytes, over several blocks, and one of them over both servers. */
    PIECE_STRIDE = 900000, /* No word is torn. */
    ROUNDS_MAX = 30
};

struct kept_handle
{
    struct kernel_file file;
    uint64_t told; /* The newest value when it was told of a loss. */
    unsigned tellings;
};

struct keeper
{
    struct program *program;
    char name[WORLD_NAME_MAX + 1];
    uint64_t good[PIECES];     /* The last that these handles wrote without an error, */
    uint64_t newest[PIECES];   /* with or without, */
    uint64_t promised[PIECES]; /* and the last that a yes has covered. */
    uint64_t *words;
    struct kept_handle handles[HANDLES];
    /* The newest value when any handle was told of a loss: what was before is told to nobody who
     * opens the file later. */
    uint64_t told;
    uint64_t failures; /* Writes that said EIO since (fsync says it again), and closes. */
    unsigned mount;    /* Of these handles. */
    /* Losses of power until the handles before these were opened, for each mount; those of which one
     * has asked, by fsync. What was lost before them the mount has told. And until these were. */
    uint64_t losses[HISTORY_MOUNTS], losses_now;
    bool asked; /* One of these has, and was answered. */
    bool slow;  /* A call waited for so long that it may have given up since. */
};

static unsigned number_of(const struct history *h, const struct world_host *mount)
{
    unsigned i = 0;

    while (h->mount_hosts[i] != mount) {
        CHECK(++i < HISTORY_MOUNTS);
    }
    return i;
}

static bool open_all(struct keeper *k)
{
    struct act a;
    int rv = act_begin(&a, k->program);
    unsigned i = 0;

    if (k->asked) {
        k->losses[k->mount] = k->losses_now;
    }
    k->asked = false;
    k->mount = number_of(k->program->history, a.kernel->process->host);
    k->losses_now = k->program->history->counts.losses;
    k->slow = false;
    /* What was closed a yes covers, too, or the loss was told before: where only power is lost, no mount dies or loses its lease
     * behind the close. But what a write or the close has said somebody knows. */
    if (!k->program->history->only_power || k->failures > 0) {
        memset(k->good, 0, sizeof(k->good));
    }
    k->failures = 0;
    for (; rv == 0 && i < HANDLES; i++) {
        k->handles[i] = (struct kept_handle){ .told = k->told };
        rv = act_open(&a, k->name, O_RDWR, &k->handles[i].file);
    }
    while (rv != 0 && i > 1) {
        (void)kernel_close(&k->handles[--i - 1].file);
    }
    act_end(&a, "keep", k->name, 0, rv);
    return rv == 0;
}

static void begin(const struct keeper *k, struct act *a, unsigned handle)
{
    *a = (struct act){ .program = k->program, .kernel = k->handles[handle].file.kernel };
    a->from_ns = k->program->history->world->now_ns;
}

static void end(struct keeper *k, struct act *a, const char *what, uint64_t value, int rv)
{
    struct world *w = k->program->history->world;

    k->slow = k->slow || w->now_ns - a->from_ns > HOST_IO_TIMEOUT_MS * WORLD_MS / 2;
    act_end(a, what, k->name, value, rv);
}

static int write_piece(struct keeper *k, unsigned handle, unsigned piece)
{
    uint64_t value = ++k->program->history->last_value;
    struct act a;
    int rv;

    begin(k, &a, handle);
    for (unsigned i = 0; i < PIECE_WORDS; i++) {
        k->words[i] = value;
    }
    k->newest[piece] = value;
    rv = kernel_write(&k->handles[handle].file, piece * (uint64_t)PIECE_STRIDE, k->words,
                      PIECE_WORDS * sizeof(uint64_t));
    if (rv == 0) {
        k->good[piece] = value;
    }
    k->failures += rv == EIO || rv == ENOSPC;
    end(k, &a, "write", value, rv);
    return rv;
}

/* Is it told more often than there was something to tell? Only power was lost, and nobody waited
 * for so long that the mount gave up. A mount that knows of a loss and has told no fsync of it tells
 * who opens the file there next, whatever was told through others. A write that said EIO itself may
 * have failed behind the loss that was told already, and fsync says so once more: as with NFS, what
 * a write was told of bytes that were buffered before takes nothing from who asks whether they are
 * safe. */
static void count_tellings(struct keeper *k, struct kept_handle *h)
{
    struct history *history = k->program->history;
    uint64_t losses = history->counts.losses - k->losses[k->mount];

    h->told = k->told = history->last_value;
    h->tellings++;
    history->counts.tellings++;
    /* Not counted of files with copies: a group tells of a loss when its servers have agreed, later. */
    if (history->only_power && history->copies == 1 && !k->slow &&
        h->tellings > losses + k->failures) {
        world_fail("%s: fsync of %s by %s has said EIO %u times behind %u losses", k->program->name,
                   k->name, h->file.kernel->process->name, h->tellings, (unsigned)losses);
    }
}

static int sync_all(struct keeper *k, unsigned handle)
{
    struct kept_handle *h = &k->handles[handle];
    struct act a;
    int rv;

    begin(k, &a, handle);
    rv = kernel_fsync(&h->file);
    for (unsigned i = 0; rv == 0 && i < PIECES; i++) {
        if (k->good[i] > h->told && k->good[i] > k->promised[i]) {
            k->promised[i] = k->good[i];
        }
    }
    /* An fsync that says once more what a write has said has asked nobody. */
    k->asked = k->asked || rv == 0 || (rv == EIO && k->failures == 0);
    end(k, &a, "fsync", handle, rv);
    if (rv == EIO || rv == ENOSPC) { /* One word for all that went wrong since the last one. */
        count_tellings(k, h);
    }
    k->program->history->counts.fsyncs += rv == 0;
    return rv;
}

/* Through any mount. */
static void look_at_piece(struct keeper *k, unsigned piece)
{
    struct act a;
    struct kernel_file file;
    size_t got = 0;
    int rv = act_begin(&a, k->program);

    memset(k->words, 0, PIECE_WORDS * sizeof(uint64_t));
    if (rv == 0 && (rv = act_open(&a, k->name, O_RDWR, &file)) == 0) {
        rv = kernel_read(&file, piece * (uint64_t)PIECE_STRIDE, k->words,
                         PIECE_WORDS * sizeof(uint64_t), &got);
        (void)kernel_close(&file);
    }
    for (unsigned i = 0; rv == 0 && i < PIECE_WORDS; i++) {
        if (k->words[i] < k->promised[piece] || k->words[i] > k->newest[piece]) {
            world_fail(
                "%s: word %u of piece %u of %s is %llu as %s says; %llu was synced, and %llu "
                "written last",
                k->program->name, i, piece, k->name, (unsigned long long)k->words[i],
                a.kernel->process->name, (unsigned long long)k->promised[piece],
                (unsigned long long)k->newest[piece]);
        }
    }
    act_end(&a, "look at", k->name, piece, rv);
}

/* Until it is closed, or its mount has gone. */
static void keep_open(struct keeper *k)
{
    unsigned rounds = 1 + (unsigned)world_draw(ROUNDS_MAX);
    int rv = 0;

    while (rounds-- > 0 && rv != ENOTCONN && !k->program->history->ended) {
        unsigned piece = (unsigned)world_draw(PIECES), handle = (unsigned)world_draw(HANDLES);

        rv = write_piece(k, handle, piece);
        fiber_sleep(world_chance(3) ? world_draw(1000 * WORLD_MS) : world_draw(50 * WORLD_MS));
        for (unsigned i = 0; i < HANDLES && rv != ENOTCONN; i++) {
            if (world_chance(3)) {
                rv = sync_all(k, (handle + i) % HANDLES);
            }
        }
        if (world_chance(3)) {
            look_at_piece(k, piece);
        }
    }
    for (unsigned i = 0; i < HANDLES; i++) {
        k->failures += kernel_close(&k->handles[i].file) != 0;
    }
}

void keep_run(void *data)
{
    struct program *p = data;
    struct keeper *k = calloc(1, sizeof(*k));

    CHECK(k != NULL);
    k->program = p;
    k->words = calloc(PIECE_WORDS, sizeof(uint64_t));
    CHECK(k->words != NULL);
    (void)snprintf(k->name, sizeof(k->name), "k%s", p->name);
    while (!p->history->ended) {
        if (open_all(k)) {
            keep_open(k);
        }
        fiber_sleep(world_draw(1000 * WORLD_MS));
    }
    for (unsigned i = 0; i < PIECES; i++) {
        look_at_piece(k, i);
    }
    free(k->words);
    free(k);
    p->history->programs_running--;
}
