/* Locks that programs take through all mounts, of a process (fcntl(2)) or of an open file
 * (flock(2)). Who has one alone reads a value and writes another one over it: so no two of them
 * have read the same, unless one was told of trouble. Who shares one reads twice, and reads the
 * same. */
#include "tests/sim/world/programs.h"

#include "tests/sim/world/fiber.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

enum { HELD_MS_MAX = 300, CONVERSIONS_MAX = 4 };

/* The first file's locks are of processes, those of the others of open files. */
static bool is_flock(const struct lock_section *section)
{
    return section->file > 0;
}

int lock_told(const struct program *p, int error)
{
    return error == ESTALE && !p->history->calm ? EIO : error;
}

static int take(struct program *p, struct kernel_file *file, const struct lock_section *section,
                uint64_t owner, short type)
{
    if (act_is_canary(p, "lock-nothing", 5)) {
        return 0;
    }
    return lock_told(p, kernel_lock(file, is_flock(section), owner, type, !world_chance(3)));
}

/* A flock is asked for in the other type first, at times, and converted, there and back; where that
 * is refused it has none any more, and asks again. */
static int lock(struct program *p, struct kernel_file *file, const struct lock_section *section)
{
    uint64_t owner = ++p->history->last_value;
    short wanted = section->alone ? F_WRLCK : F_RDLCK, other = section->alone ? F_RDLCK : F_WRLCK;
    unsigned times =
        is_flock(section) && world_chance(2) ? 1 + (unsigned)world_draw(CONVERSIONS_MAX) : 0;
    int rv = 0;

    for (unsigned i = 0; i < times && (rv == 0 || rv == EAGAIN); i++) {
        rv = take(p, file, section, owner, (times - i) % 2 == 1 ? other : wanted);
        p->history->counts.converted += rv == 0;
        fiber_sleep(world_draw(HELD_MS_MAX * WORLD_MS));
    }
    return rv != 0 && rv != EAGAIN ? rv : take(p, file, section, owner, wanted);
}

/* What it is told while it has the lock, and when it closes the file: the loss of a lock, too. */
static int work(struct program *p, struct kernel_file *file, struct lock_section *section)
{
    size_t got;
    int rv = kernel_read(file, 0, &section->before, sizeof(section->before), &got);

    fiber_sleep(world_draw(HELD_MS_MAX * WORLD_MS));
    if (rv == 0 && section->alone) {
        section->after = ++p->history->last_value;
        rv = kernel_write(file, 0, &section->after, sizeof(section->after));
        return rv != 0 ? rv : kernel_fsync(file);
    }
    return rv != 0 ? rv : kernel_read(file, 0, &section->after, sizeof(section->after), &got);
}

struct lock_section *lock_section_new(struct history *h)
{
    if (h->sections_count == HISTORY_SECTIONS_MAX) {
        return NULL;
    }
    h->sections =
        h->sections != NULL ? h->sections : calloc(HISTORY_SECTIONS_MAX, sizeof(h->sections[0]));
    CHECK(h->sections != NULL);
    return &h->sections[h->sections_count++];
}

void lock_some(struct program *p)
{
    struct history *h = p->history;
    struct lock_section *section = lock_section_new(h);
    struct act a;
    struct kernel_file file;
    uint64_t losses = h->counts.losses;
    bool had = false;
    char name[16];
    int rv, closed;

    if (section == NULL) {
        return;
    }
    section->file = (unsigned)world_draw(LOCK_RANGES_FIRST);
    section->alone = !world_chance(3);
    (void)snprintf(name, sizeof(name), "l%u", section->file);
    rv = act_begin(&a, p);
    if (rv == 0 && (rv = act_open(&a, name, O_RDWR, &file)) == 0) {
        rv = lock(p, &file, section);
        had = rv == 0;
        rv = rv == 0 ? work(p, &file, section) : rv == EAGAIN ? 0 : rv;
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    /* A write that was not synced, and its name, may have gone with the power meanwhile. */
    section->good = had && rv == 0 && (section->alone || h->counts.losses == losses);
    h->counts.locked += section->good;
    act_end(&a, section->alone ? "lock" : "share", name, section->after, rv);
}

static const struct lock_section *writer_of(const struct history *h, uint64_t value)
{
    for (size_t i = 0; i < h->sections_count; i++) {
        if (h->sections[i].alone && h->sections[i].after == value) {
            return &h->sections[i];
        }
    }
    return NULL;
}

/* What a write that failed was to bring may still come, as long as the lease of its mount lasts (docs/status.md), also while others have
 * the lock; it comes once. */
static bool came_late(const struct history *h, uint64_t value)
{
    const struct lock_section *writer = writer_of(h, value);

    return writer != NULL && !writer->good;
}

void locks_judge(const struct history *h)
{
    for (size_t i = 0; i < h->sections_count; i++) {
        const struct lock_section *one = &h->sections[i];

        if (one->good && !one->alone && one->before != one->after && !came_late(h, one->after)) {
            world_fail("who shared the lock of lock %u has read %llu and then %llu", one->file,
                       (unsigned long long)one->before, (unsigned long long)one->after);
        }
        if (one->good && one->before != 0 && writer_of(h, one->before) == NULL) {
            world_fail("nobody has written %llu under lock %u", (unsigned long long)one->before,
                       one->file);
        }
        for (size_t k = 0; k < i && one->good && one->alone; k++) {
            const struct lock_section *other = &h->sections[k];

            if (other->good && other->alone && other->file == one->file &&
                other->before == one->before) {
                world_fail("%llu and %llu were both written over %llu under the lock of lock %u",
                           (unsigned long long)other->after, (unsigned long long)one->after,
                           (unsigned long long)one->before, one->file);
            }
        }
    }
}
