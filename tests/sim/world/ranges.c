/* Ranges of bytes that programs lock in one file, through all mounts (fcntl(2)). Each slot is a value
 * and the byte that stands for it: whoever has that byte alone, with any others around it or to the
 * end of all bytes, reads the value and writes another one over it, as in locks.c, which judges.
 * Many ranges have one byte in common alone, their first or their last. Who waits is interrupted at
 * times; who has a range asks for another one, so that some wait in a circle. */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
    SLOTS = 4,
    SLOT_BYTES = 1000,
    HELD_MS_MAX = 200,
    INTERRUPTED_MS_MAX = 500,
    RUSH_MS_MAX = 3000
};

/* The bytes from `start` to `last`; the last that there is: no end. */
struct span
{
    uint64_t start, last;
};

static uint64_t byte_of(unsigned slot)
{
    return (uint64_t)SLOT_BYTES * (slot + 1);
}

static bool has_slot(struct span s, unsigned slot)
{
    return s.start <= byte_of(slot) && byte_of(slot) <= s.last;
}

/* From one slot's byte to another's, mostly exactly. */
static struct span some_span(void)
{
    unsigned first = (unsigned)world_draw(SLOTS);
    unsigned last = first + (unsigned)world_draw_skewed(SLOTS - first);
    struct span s = { byte_of(first), byte_of(last) };

    if (world_chance(4)) {
        s.start -= world_draw(first == 0 ? SLOT_BYTES + 1 : SLOT_BYTES);
    }
    if (world_chance(4)) {
        s.last += world_draw(SLOT_BYTES);
    } else if (last == SLOTS - 1 && world_chance(2)) {
        s.last = INT64_MAX;
    }
    return s;
}

/* One of the slots whose bytes are in it. */
static unsigned some_slot(struct span s)
{
    unsigned slot;

    do {
        slot = (unsigned)world_draw(SLOTS);
    } while (!has_slot(s, slot));
    return slot;
}

static struct flock lock_of(struct span s, short type)
{
    return (struct flock){ .l_type = type,
                           .l_whence = SEEK_SET,
                           .l_start = (off_t)s.start,
                           .l_len = s.last == INT64_MAX ? 0 : (off_t)(s.last - s.start + 1),
                           .l_pid = 1000 };
}

static struct span span_of(const struct flock *lock)
{
    return (struct span){ (uint64_t)lock->l_start,
                          lock->l_len == 0 ? INT64_MAX
                                           : (uint64_t)lock->l_start + (uint64_t)lock->l_len - 1 };
}

static bool meet(struct span a, struct span b)
{
    return a.start <= b.last && b.start <= a.last;
}

/* It is no trouble not to get it. */
static bool is_refusal(int rv)
{
    return rv == EAGAIN || rv == EINTR || rv == EDEADLK;
}

static int take(struct program *p, struct kernel_file *file, struct span s, short type,
                uint64_t owner)
{
    struct flock lock = lock_of(s, type);
    bool wait = !world_chance(4);
    uint64_t interrupt_ns =
        wait && world_chance(3) ? 1 + world_draw(INTERRUPTED_MS_MAX) * WORLD_MS : 0;
    int rv;

    if (act_is_canary(p, "lock-nothing", 5)) {
        return 0;
    }
    world_trace(p->name, "%s bytes %llu to %lld by %s for %llu",
                type == F_WRLCK ? "wants" : "wants to share", (unsigned long long)s.start,
                s.last == INT64_MAX ? -1 : (long long)s.last, file->kernel->process->name,
                (unsigned long long)owner);
    rv = lock_told(p, kernel_lock_range(file, &lock, owner, wait, interrupt_ns));
    world_trace(p->name, "%llu is told: %s", (unsigned long long)owner, strerror(rv));
    p->history->counts.lock_interrupts += rv == EINTR;
    p->history->counts.lock_circles += rv == EDEADLK;
    if ((rv == EINTR && interrupt_ns == 0) || (rv == EAGAIN && wait)) {
        world_fail("%s: a lock says \"%s\" to who %s", p->name, strerror(rv),
                   wait ? "waits" : "does not wait");
    }
    return rv;
}

/* Reads, and writes if it is alone, one slot of the span. */
static int work(struct program *p, struct kernel_file *file, unsigned slot,
                struct lock_section *section)
{
    uint64_t offset = slot * (uint64_t)SLOT_BYTES;
    size_t got;
    int rv = kernel_read(file, offset, &section->before, sizeof(section->before), &got);

    fiber_sleep(world_draw(HELD_MS_MAX * WORLD_MS));
    if (rv == 0 && section->alone) {
        section->after = ++p->history->last_value;
        rv = kernel_write(file, offset, &section->after, sizeof(section->after));
        return rv != 0 ? rv : kernel_fsync(file);
    }
    return rv != 0 ? rv : kernel_read(file, offset, &section->after, sizeof(section->after), &got);
}

/* Who is in the way has a lock there. */
static int test(struct program *p, struct kernel_file *file, struct span s, uint64_t owner)
{
    struct flock found = lock_of(s, F_WRLCK);
    int rv = lock_told(p, kernel_test_lock(file, &found, owner));

    if (rv == 0 && found.l_type != F_UNLCK && !meet(span_of(&found), s)) {
        world_fail("%s: a lock of [%lld, +%lld) is in the way of bytes %llu to %llu", p->name,
                   (long long)found.l_start, (long long)found.l_len, (unsigned long long)s.start,
                   (unsigned long long)s.last);
    }
    return rv;
}

/* Gives bytes back. */
static int give(struct program *p, struct kernel_file *file, struct span s, uint64_t owner)
{
    struct flock unlock = lock_of(s, F_UNLCK);

    return lock_told(p, kernel_lock_range(file, &unlock, owner, false, 0));
}

/* With the first range: perhaps another one, or less of the first; then work in a slot of it. */
static int work_locked(struct program *p, struct kernel_file *file, struct span s, uint64_t owner,
                       struct lock_section *section)
{
    unsigned slot = some_slot(s);
    struct span other = some_span();
    int rv = 0;

    section->file = LOCK_RANGES_FIRST + slot;
    if (!world_chance(3) && !meet(other, s)) {
        fiber_sleep(world_draw(HELD_MS_MAX * WORLD_MS));
        rv = take(p, file, other, F_WRLCK, owner);
        rv = is_refusal(rv) ? 0 : rv;
    } else if (world_chance(2) && !has_slot(other, slot)) {
        rv = give(p, file, other, owner);
    }
    rv = rv != 0 ? rv : work(p, file, slot, section);
    if (rv == 0 && world_chance(2)) {
        rv = give(p, file, some_span(), owner);
    }
    return rv;
}

void range_some(struct program *p)
{
    struct history *h = p->history;
    struct lock_section *section = lock_section_new(h);
    struct act a;
    struct kernel_file file;
    struct span s = some_span();
    uint64_t losses = h->counts.losses, owner = ++h->last_value;
    bool had = false;
    int rv, closed;

    if (section == NULL) {
        return;
    }
    if (world_chance(8)) {
        h->rush_until_ns = h->world->now_ns + world_draw(RUSH_MS_MAX) * WORLD_MS;
    }
    section->alone = !world_chance(3);
    rv = act_begin(&a, p);
    if (rv == 0 && (rv = act_open(&a, "ranges", O_RDWR, &file)) == 0) {
        rv = world_chance(4) ? test(p, &file, s, owner) : 0;
        rv = rv != 0 ? rv : take(p, &file, s, section->alone ? F_WRLCK : F_RDLCK, owner);
        had = rv == 0;
        rv = had ? work_locked(p, &file, s, owner, section) : is_refusal(rv) ? 0 : rv;
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    section->good = had && rv == 0 && (section->alone || h->counts.losses == losses);
    h->counts.ranges_locked += section->good;
    act_end(&a, section->alone ? "lock range" : "share range", "ranges", section->after, rv);
}
