/* Programs with two large files each, of one program alone, through whichever mount: they write,
 * cut, punch, allocate, zero and copy ranges that begin and end anywhere, and look for data and
 * holes. What is read must be what a plain array of bytes says that was written.
 *
 * A call that fails may have done a part of its work: then both files are given up, and others
 * begun. What was not synced may be lost with a server or a mount; so it is looked at where nothing
 * goes wrong, and what was synced, always. */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FILES = 2,
    BULK_BYTES_MAX = 5 << 20,
    WRITE_BYTES_MAX = 3 << 19,
    ROUNDS_MAX = 12,
    STEPS_MAX = 8
};

struct bulk_file
{
    char name[WORLD_NAME_MAX + 16];
    uint8_t *bytes; /* What must be there. */
    uint64_t size;
    bool dirty; /* Not all of it is synced. */
    struct kernel_file file;
};

struct bulk
{
    struct program *program;
    struct bulk_file files[FILES];
    uint8_t *read;
    uint64_t generation;
};

struct range
{
    uint64_t offset, size;
};

/* Mostly small; on the borders of pages at times. */
static struct range some_range(uint64_t offset_max, uint64_t size_max)
{
    struct range r = { world_draw(offset_max), 1 + world_draw_skewed(size_max - 1) };

    if (world_chance(3)) {
        r.offset = r.offset / 4096 * 4096;
        r.size = (r.size + 4095) / 4096 * 4096;
    }
    if (r.size > BULK_BYTES_MAX - r.offset) {
        r.size = BULK_BYTES_MAX - r.offset;
    }
    return r;
}

static void set_size(struct bulk_file *f, uint64_t size)
{
    if (size < f->size) {
        memset(f->bytes + size, 0, f->size - size);
    }
    f->size = size;
}

static void grow_to(struct bulk_file *f, uint64_t size)
{
    f->size = f->size < size ? size : f->size;
}

/* ---- Looking ---- */

static bool is_known(const struct bulk *b, const struct bulk_file *f)
{
    return !f->dirty || b->program->history->calm;
}

static int read_and_compare(struct bulk *b, const struct bulk_file *f, struct kernel_file *file,
                            struct range r)
{
    uint64_t left = f->size > r.offset ? f->size - r.offset : 0;
    uint64_t wanted = r.size < left ? r.size : left;
    size_t got = 0;
    int rv = kernel_read(file, r.offset, b->read, r.size, &got);

    if (rv != 0 || !is_known(b, f)) {
        return rv;
    }
    if (got != wanted) {
        world_fail("%s: %zu bytes and not %llu are at %llu of %s as %s says", b->program->name, got,
                   (unsigned long long)wanted, (unsigned long long)r.offset, f->name,
                   file->kernel->process->name);
    }
    for (uint64_t i = 0; memcmp(b->read, f->bytes + r.offset, got) != 0 && i < got; i++) {
        uint64_t at = r.offset + i;

        if (b->read[i] != f->bytes[at]) {
            world_fail("%s: byte %llu of %s is %u and not %u as %s says", b->program->name,
                       (unsigned long long)at, f->name, b->read[i], f->bytes[at],
                       file->kernel->process->name);
        }
    }
    return 0;
}

static int look_elsewhere(struct bulk *b, struct bulk_file *f, struct range r)
{
    struct act a;
    struct kernel_file file;
    uint64_t size = 0;
    int rv = act_begin(&a, b->program), closed;

    if (rv == 0 && (rv = kernel_open_name(a.kernel, a.directory, f->name, O_RDONLY, &file)) == 0) {
        rv = read_and_compare(b, f, &file, r);
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    rv = rv != 0 ? rv : kernel_size(a.kernel, a.directory, f->name, &size);
    if (rv == 0 && is_known(b, f) && size != f->size) {
        world_fail("%s: %s has %llu bytes and not %llu as %s says", b->program->name, f->name,
                   (unsigned long long)size, (unsigned long long)f->size, a.kernel->process->name);
    }
    if (rv == ENOENT && f->dirty && b->program->history->forgetful) {
        rv = ESTALE; /* Nobody has synced it. */
    }
    act_end(&a, "look at bulk", f->name, r.offset, rv);
    return rv;
}

/* Everything between here and there is zero. */
static void expect_zeros(const struct bulk *b, const struct bulk_file *f, uint64_t from,
                         uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        if (f->bytes[i] != 0) {
            world_fail("%s: byte %llu of %s is said to lie in a hole", b->program->name,
                       (unsigned long long)i, f->name);
        }
    }
}

static int seek(struct bulk *b, struct bulk_file *f)
{
    uint64_t from = world_draw(f->size + 1), found = 0;
    bool hole = world_chance(2);
    int rv = kernel_seek(&f->file, from, hole ? SEEK_HOLE : SEEK_DATA, &found);

    if ((rv != 0 && rv != ENXIO) || !is_known(b, f)) {
        return rv == ENXIO ? 0 : rv;
    }
    b->program->history->counts.sought++;
    if (rv == ENXIO) {
        if (hole && from < f->size) {
            world_fail("%s: no hole is at the end of %s", b->program->name, f->name);
        }
        expect_zeros(b, f, from, f->size);
    } else if (found < from || found > f->size) {
        world_fail("%s: what is sought from %llu on lies at %llu of %s", b->program->name,
                   (unsigned long long)from, (unsigned long long)found, f->name);
    } else if (hole) {
        expect_zeros(b, f, found, found < f->size ? found + 1 : found);
    } else {
        expect_zeros(b, f, from, found);
    }
    return 0;
}

/* ---- Changing ---- */

static int write_range(struct bulk *b, struct bulk_file *f)
{
    struct range r = some_range(world_chance(4) ? BULK_BYTES_MAX : f->size + 1, WRITE_BYTES_MAX);
    uint64_t value = ++b->program->history->last_value;

    for (uint64_t i = 0; i < r.size; i++) {
        f->bytes[r.offset + i] = (uint8_t)(1 + (value * 151 + i * 7 + (i >> 9)) % 255);
    }
    grow_to(f, r.offset + r.size);
    memcpy(b->read, f->bytes + r.offset, r.size);
    if (act_is_canary(b->program, "lost-byte", 10)) {
        b->read[r.size / 2] ^= 1;
    }
    b->program->history->counts.bulk_mib += (r.size + (1 << 19)) >> 20;
    return kernel_write(&f->file, r.offset, b->read, r.size);
}

static int cut(struct bulk *b, struct bulk_file *f)
{
    set_size(f, world_draw(world_chance(3) ? BULK_BYTES_MAX : f->size + 1));
    b->program->history->counts.extents++;
    return kernel_truncate(&f->file, f->size);
}

static int change_extent(struct bulk *b, struct bulk_file *f)
{
    static const int modes[] = { 0,
                                 FALLOC_FL_KEEP_SIZE,
                                 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 FALLOC_FL_ZERO_RANGE,
                                 FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE };
    struct range r = some_range(world_chance(4) ? BULK_BYTES_MAX : f->size + 1, BULK_BYTES_MAX);
    int mode = modes[world_draw(sizeof(modes) / sizeof(modes[0]))];

    if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0) {
        memset(f->bytes + r.offset, 0, r.size);
    }
    if ((mode & FALLOC_FL_KEEP_SIZE) == 0) {
        grow_to(f, r.offset + r.size);
    }
    b->program->history->counts.extents++;
    return kernel_fallocate(&f->file, mode, r.offset, r.size);
}

/* From one file into the other; at the same place mostly, so that the servers can do it. */
static int copy(struct bulk *b, struct bulk_file *from, struct bulk_file *to)
{
    struct range r = some_range(from->size + 1, BULK_BYTES_MAX);
    uint64_t offset = world_chance(3) ? some_range(BULK_BYTES_MAX, 1).offset : r.offset;
    uint64_t by_kernel = from->file.kernel->counts.copied_here;
    struct history *h = b->program->history;
    bool known = is_known(b, from);
    size_t copied = 0;
    int rv;

    r.size = r.size > BULK_BYTES_MAX - offset ? BULK_BYTES_MAX - offset : r.size;
    rv = kernel_copy(&from->file, r.offset, &to->file, offset, r.size, &copied);
    if (rv != 0) {
        return rv;
    }
    if (!known || copied > r.size || r.offset + copied > from->size) {
        if (known) {
            world_fail("%s: %zu bytes were copied, of %llu", b->program->name, copied,
                       (unsigned long long)from->size);
        }
        return EIO; /* Nobody knows what that was. */
    }
    memcpy(to->bytes + offset, from->bytes + r.offset, copied);
    if (copied > 0) {
        grow_to(to, offset + copied);
    }
    h->counts.copied += copied > 0;
    h->counts.copied_in_groups +=
        copied > 0 && h->copies > 1 && from->file.kernel->counts.copied_here == by_kernel;
    return 0;
}

static int sync_file(struct bulk *b, struct bulk_file *f)
{
    int rv = kernel_fsync(&f->file);

    f->dirty = f->dirty && rv != 0;
    b->program->history->counts.fsyncs += rv == 0;
    return rv;
}

static int step(struct bulk *b)
{
    unsigned number = (unsigned)world_draw(FILES), kind = (unsigned)world_draw(10);
    struct bulk_file *f = &b->files[number];
    struct act a = { .program = b->program, .kernel = f->file.kernel };
    static const char *const words[] = { "read all", "seek",     "sync bulk",
                                         "copy",     "cut bulk", "change extents" };
    int rv;

    if (f->size == 0 && b->files[!number].size > 0 && world_chance(2)) {
        kind =
            3; /* A new one is laid as what it is copied from, and so later copies are the servers' too. */
    }
    a.from_ns = b->program->history->world->now_ns;
    f->dirty = f->dirty || kind > 2;
    switch (kind) {
    case 0:
        rv = read_and_compare(b, f, &f->file, some_range(f->size + 1, BULK_BYTES_MAX));
        break;
    case 1:
        rv = seek(b, f);
        break;
    case 2:
        rv = sync_file(b, f);
        break;
    case 3:
        rv = copy(b, &b->files[!number], f);
        break;
    case 4:
        rv = cut(b, f);
        break;
    case 5:
    case 6:
        rv = change_extent(b, f);
        break;
    default:
        rv = write_range(b, f);
        break;
    }
    act_end(&a, kind < 6 ? words[kind] : kind == 6 ? words[5] : "write bulk", f->name, f->size, rv);
    return rv;
}

/* ---- The program ---- */

static bool open_both(struct bulk *b)
{
    struct act a;
    int rv = act_begin(&a, b->program);
    unsigned i = 0;

    for (; rv == 0 && i < FILES; i++) {
        rv = act_open(&a, b->files[i].name, O_RDWR, &b->files[i].file);
    }
    while (rv != 0 && i > 1) {
        (void)kernel_close(&b->files[--i - 1].file);
    }
    act_end(&a, "open bulk", b->files[0].name, 0, rv);
    return rv == 0;
}

static bool close_both(struct bulk *b)
{
    bool good = true;

    for (unsigned i = 0; i < FILES; i++) {
        good = kernel_close(&b->files[i].file) == 0 && good;
    }
    return good;
}

/* Others, in the place of those of which it is not known what they are. */
static void begin_anew(struct bulk *b)
{
    struct act a;
    int rv;

    b->generation++;
    for (unsigned i = 0; i < FILES; i++) {
        struct bulk_file *f = &b->files[i];

        rv = b->generation == 1 ? ENOENT : act_begin(&a, b->program);
        if (b->generation > 1) {
            rv = rv == 0 ? kernel_unlink(a.kernel, a.directory, f->name) : rv;
            act_end(&a, "unlink bulk", f->name, 0, rv == ENOENT ? 0 : rv);
        }
        (void)snprintf(f->name, sizeof(f->name), "b%s.%u.%llu", b->program->name, i,
                       (unsigned long long)b->generation);
        memset(f->bytes, 0, f->size);
        f->size = 0;
        f->dirty = true;
    }
}

static int go_on(struct bulk *b)
{
    unsigned steps = 1 + (unsigned)world_draw(STEPS_MAX);
    int rv = 0;

    while (rv == 0 && steps-- > 0) {
        rv = step(b);
        fiber_sleep(world_draw_skewed(100 * WORLD_MS));
    }
    if (rv == 0 && world_chance(2)) {
        struct bulk_file *f = &b->files[world_draw(FILES)];

        rv = look_elsewhere(b, f, some_range(f->size + 1, BULK_BYTES_MAX));
    }
    return rv;
}

static bool run_once(struct bulk *b)
{
    unsigned rounds = 1 + (unsigned)world_draw(ROUNDS_MAX);
    int rv = 0;

    if (!open_both(b)) {
        return true; /* They are what they were. */
    }
    while (rv == 0 && rounds-- > 0 && !b->program->history->ended) {
        rv = go_on(b);
    }
    for (unsigned i = 0; rv == 0 && i < FILES; i++) {
        rv = b->files[i].dirty ? sync_file(b, &b->files[i]) : 0;
    }
    return close_both(b) && rv == 0;
}

void bulk_run(void *data)
{
    struct program *p = data;
    struct bulk *b = calloc(1, sizeof(*b));

    CHECK(b != NULL);
    b->program = p;
    b->read = malloc(BULK_BYTES_MAX);
    CHECK(b->read != NULL);
    for (unsigned i = 0; i < FILES; i++) {
        b->files[i].bytes = calloc(1, BULK_BYTES_MAX);
        CHECK(b->files[i].bytes != NULL);
    }
    begin_anew(b);
    while (!p->history->ended) {
        if (!run_once(b)) {
            begin_anew(b);
        }
        fiber_sleep(world_draw(1000 * WORLD_MS));
    }
    for (unsigned i = 0; i < FILES && !b->files[i].dirty; i++) {
        (void)look_elsewhere(b, &b->files[i], (struct range){ 0, BULK_BYTES_MAX });
    }
    p->history->programs_running--;
}
