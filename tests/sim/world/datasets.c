/* Data sets: benefactors come and go, while programs on several mounts store sets, and others read them.
 *
 * What close(2) has said is stored is read by every mount, byte for byte, from then on: a program may be told EIO while
 * something goes wrong, and never reads another byte. Where nothing goes wrong but that one benefactor at a time is away,
 * nobody may be told anything. In the end, when all is well, all of it is there: but for what was not synced when a
 * machine lost its power (docs/benefactors.md, "When close(2) returns"). */
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DONORS = 4,
    WRITERS = 3,
    READERS = 3,
    SETS_MAX = 48, /* What they hold fits into what is donated. */
    SET_BYTES_MAX = 5 << 19,
    PIECE_BYTES_MAX = 600 << 10,
    FAULTS_S_MIN = 8,
    FAULTS_S_MAX = 20,
    HEALED_S = 90, /* In the end: all is there again after so long. */
    AWAY_S_MAX = 12
};

struct set
{
    char name[24];
    uint64_t value, size;
    unsigned losses; /* Of power, before it was begun. */
    bool synced;
    bool unknown;        /* Deleted, or being stored anew, or that went wrong. */
    unsigned generation; /* It goes up with each beginning and end of that. */
};

/* One in a world. */
static struct
{
    struct history *history;
    struct world_host *hosts[DONORS];
    struct host_donor *donors[DONORS];
    unsigned losses; /* Of power of benefactors. */
    uint64_t begun;
    unsigned count;
    struct set sets[SETS_MAX];
} these;

static uint8_t byte_of(uint64_t value, uint64_t offset)
{
    return (uint8_t)(1 + (value * 151 + offset * 7 + (offset >> 9)) % 255);
}

static unsigned losses_now(void)
{
    return these.losses + these.history->meta_losses;
}

static bool may_be_gone(const struct set *set)
{
    return set->unknown || (!set->synced && set->losses != losses_now());
}

/* ---- Storing ---- */

static int write_piece(struct kernel_file *file, uint64_t value, uint64_t offset, size_t size)
{
    uint8_t *bytes = malloc(size);
    int rv;

    CHECK(bytes != NULL);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = byte_of(value, offset + i);
    }
    if (these.history->canary != NULL && strcmp(these.history->canary, "lost-byte") == 0 &&
        world_chance(20)) {
        bytes[size / 2] ^= 1;
    }
    rv = kernel_write(file, offset, bytes, size);
    free(bytes);
    return rv;
}

/* From the beginning to the end; or from the end, as some programs do. */
static int write_all(struct kernel_file *file, const struct set *set)
{
    bool backwards = world_chance(6);
    uint64_t done = 0;
    int rv = 0;

    while (rv == 0 && done < set->size) {
        uint64_t left = set->size - done;
        size_t size = (size_t)(1 + world_draw(left < PIECE_BYTES_MAX ? left : PIECE_BYTES_MAX));

        rv = write_piece(file, set->value, backwards ? left - size : done, size);
        done += size;
        if (rv == 0 && world_chance(20)) {
            rv = kernel_fsync(file);
        }
        if (world_chance(5)) {
            fiber_sleep(world_draw(50 * WORLD_MS));
        }
    }
    return rv;
}

/* Longer than it is to be, and cut before it is closed. */
static int store_in(struct kernel_file *file, const struct set *set)
{
    uint64_t more = world_chance(5) ? 1 + world_draw(PIECE_BYTES_MAX) : 0;
    int rv = write_all(file, set), closed;

    if (rv == 0 && more > 0) {
        rv = write_piece(file, set->value + 1, set->size, more);
        rv = rv == 0 ? kernel_truncate(file, set->size) : rv;
    }
    rv = rv == 0 && set->synced ? kernel_fsync(file) : rv;
    closed = kernel_close(file);
    return rv != 0 ? rv : closed;
}

static int sync_directory(struct act *a)
{
    struct kernel_file dir;
    int rv = kernel_open_dir(a->kernel, a->directory, &dir);

    if (rv == 0) {
        rv = kernel_fsync_dir(&dir);
        kernel_close_dir(&dir);
    }
    return rv;
}

static void store(struct program *p)
{
    struct act a;
    struct kernel_file file;
    struct set set = { .value = 2 * ++p->history->last_value,
                       .size = 1 + world_draw_skewed(SET_BYTES_MAX),
                       .losses = losses_now(),
                       .synced = world_chance(2) };
    int rv;

    (void)snprintf(set.name, sizeof(set.name), "set%llu", (unsigned long long)++these.begun);
    rv = act_begin_in(&a, p, "s"); /* Others may begin one meanwhile. */
    if (rv == 0 && (rv = act_open(&a, set.name, O_RDWR, &file)) == 0) {
        rv = store_in(&file, &set);
        rv = rv == 0 && set.synced ? sync_directory(&a) : rv;
    }
    if (rv == 0) {
        p->history->counts.stored++;
        these.sets[these.count++] = set;
    }
    act_end(&a, set.synced ? "store synced" : "store", set.name, set.size, rv);
}

/* What is sealed begins anew when it is cut to nothing. Whoever reads behind that reads the new one, through any mount. */
static void store_again(struct program *p)
{
    struct act a;
    struct kernel_file file;
    struct set *set = &these.sets[world_draw(these.count)];
    int rv;

    if (set->unknown) {
        return;
    }
    set->unknown = true;
    set->generation++;
    set->value = 2 * ++p->history->last_value;
    set->size = 1 + world_draw_skewed(SET_BYTES_MAX);
    set->losses = losses_now();
    set->synced = world_chance(2);
    rv = act_begin_in(&a, p, "s");
    if (rv == 0 && (rv = kernel_open_name(a.kernel, a.directory, set->name, O_RDWR, &file)) == 0) {
        rv = kernel_truncate(&file, 0);
        if (rv == 0) {
            rv = store_in(&file, set);
        } else {
            (void)kernel_close(&file);
        }
    }
    set->generation++;
    set->unknown = rv != 0;
    p->history->counts.stored_again += rv == 0;
    /* A manager that has forgotten that it began anew, or the file, says so. */
    rv = (rv == ENOENT || rv == EPERM) && p->history->meta_losses > 0 ? EIO : rv;
    act_end(&a, set->synced ? "store again synced" : "store again", set->name, set->size, rv);
}

/* ---- Reading ---- */

static void compare(const struct program *p, const struct set *set, const struct kernel_file *file,
                    uint64_t offset, const uint8_t *bytes, size_t got, size_t wanted)
{
    if (got != wanted && !may_be_gone(set)) {
        world_fail("%s: %zu bytes and not %zu are at %llu of %s as %s says", p->name, got, wanted,
                   (unsigned long long)offset, set->name, file->kernel->process->name);
    }
    for (size_t i = 0; i < got && !may_be_gone(set); i++) {
        if (bytes[i] != byte_of(set->value, offset + i)) {
            world_fail("%s: byte %llu of %s is %u and not %u as %s says", p->name,
                       (unsigned long long)offset + i, set->name, bytes[i],
                       byte_of(set->value, offset + i), file->kernel->process->name);
        }
    }
}

static int read_piece(struct program *p, const struct set *set, struct kernel_file *file,
                      uint64_t offset, size_t size)
{
    uint64_t left = set->size > offset ? set->size - offset : 0;
    unsigned generation = set->generation;
    uint8_t *bytes = malloc(size);
    size_t got = 0;
    int rv;

    CHECK(bytes != NULL);
    rv = kernel_read(file, offset, bytes, size, &got);
    if (rv == 0 && set->generation == generation) {
        compare(p, set, file, offset, bytes, got, size < left ? size : (size_t)left);
        p->history->counts.set_reads++;
    }
    free(bytes);
    return rv;
}

static int read_set(struct program *p, const struct act *a, const struct set *set, bool all)
{
    struct kernel_file file;
    unsigned generation = set->generation;
    uint64_t offset = 0;
    int rv = kernel_open_name(a->kernel, a->directory, set->name, O_RDONLY, &file), closed;

    if (rv != 0) {
        return (rv == ENOENT || rv == ESTALE) && may_be_gone(set) ? 0 : rv;
    }
    for (unsigned i = 0; rv == 0 && generation == set->generation &&
                         (all ? (uint64_t)i * PIECE_BYTES_MAX < set->size : i < 3);
         i++) {
        size_t size = all ? PIECE_BYTES_MAX : 1 + (size_t)world_draw_skewed(PIECE_BYTES_MAX);

        offset = all ? (uint64_t)i * PIECE_BYTES_MAX : world_draw(set->size);
        rv = read_piece(p, set, &file, offset, size);
    }
    closed = kernel_close(&file);
    rv = rv != 0 ? rv : closed;
    return rv == ESTALE && may_be_gone(set) ? 0 : rv;
}

static void read_some(struct program *p)
{
    struct act a;
    const struct set *set = &these.sets[world_draw(these.count)];
    int rv = act_begin_in(&a, p, "s");

    if (rv == 0) {
        rv = read_set(p, &a, set, world_chance(3));
    }
    p->history->counts.set_troubles += rv != 0;
    act_end(&a, "read", set->name, set->size, rv);
}

/* Everything, in the end: somebody may still be on his way back. */
static void read_at_last(struct program *p, const struct set *set)
{
    uint64_t until_ns = p->history->world->now_ns + HEALED_S * WORLD_S;
    struct act a;
    int rv;

    do {
        rv = act_begin_in(&a, p, "s");
        if (rv == 0) {
            rv = read_set(p, &a, set, true);
        }
        act_end(&a, "read at last", set->name, set->size, rv);
        if (rv == 0 || may_be_gone(set)) {
            return;
        }
        fiber_sleep(500 * WORLD_MS);
    } while (p->history->world->now_ns < until_ns);
    world_fail("%s: %s is not there although all is well: %s", p->name, set->name, strerror(rv));
}

static void take_set_away(struct program *p)
{
    struct act a;
    struct set *set = &these.sets[world_draw(these.count)];
    int rv = act_begin_in(&a, p, "s");

    if (rv == 0 && !set->unknown) {
        set->unknown = true;
        set->generation++;
        rv = kernel_unlink(a.kernel, a.directory, set->name);
        rv = rv == ENOENT ? 0 : rv;
        p->history->counts.sets_deleted += rv == 0;
    }
    act_end(&a, "unlink", set->name, 0, rv);
}

/* ---- Programs ---- */

static void run_writer(void *data)
{
    struct program *p = data;

    while (!p->history->ended) {
        if (these.begun < SETS_MAX) {
            store(p);
        }
        if (these.count > 4 && world_chance(8)) {
            take_set_away(p);
        }
        if (these.count > 0 && world_chance(3)) {
            store_again(p);
        }
        fiber_sleep(world_draw(1000 * WORLD_MS));
    }
    p->history->programs_running--;
}

static void run_reader(void *data)
{
    struct program *p = data;

    while (!p->history->ended) {
        if (these.count > 0) {
            read_some(p);
        }
        fiber_sleep(world_chance(3) ? world_draw(500 * WORLD_MS) : world_draw(20 * WORLD_MS));
    }
    p->history->programs_running--;
}

static void run_last(void *data)
{
    struct program *p = data;

    for (unsigned i = 0; i < these.count; i++) {
        read_at_last(p, &these.sets[i]);
    }
    p->history->programs_running--;
}

static void run_first(void *data)
{
    struct program *p = data;
    struct act a;
    struct kernel_file root;
    int rv;

    while (!p->history->mounts[0]->ready) {
        fiber_sleep(50 * WORLD_MS);
    }
    a.kernel = &p->history->mounts[0]->session;
    rv = kernel_open_dir(a.kernel, FUSE_ROOT_ID, &root);
    if (rv != 0 || (rv = kernel_mkdir(a.kernel, FUSE_ROOT_ID, "s")) != 0 ||
        (rv = kernel_set_xattr(a.kernel, FUSE_ROOT_ID, "s", "user.morsel.class", "scavenged", 9,
                               0)) != 0 ||
        (rv = kernel_set_xattr(a.kernel, FUSE_ROOT_ID, "s", "user.morsel.morsel_size", "262144", 6,
                               0)) != 0 ||
        (rv = kernel_fsync_dir(&root)) != 0) {
        world_fail("the first call says \"%s\"", strerror(rv));
    }
    kernel_close_dir(&root);
    p->history->programs_running--;
}

/* ---- What happens to benefactors ---- */

static void donor_comes_back(void *data)
{
    unsigned number = (unsigned)(uintptr_t)data;
    const struct world_process *process = host_donor_process(these.donors[number]);
    char name[WORLD_NAME_MAX];

    if (process->alive && process->over != NULL) {
        world_in(100 * WORLD_MS, donor_comes_back, data);
    } else if (!process->alive) {
        (void)snprintf(name, sizeof(name), "donor%u", number + 1);
        these.donors[number] =
            host_donor_start(these.hosts[number], name, these.history->meta_host);
    }
}

static void comes_back_at(unsigned number, uint64_t at_ns)
{
    world_at(at_ns, donor_comes_back, (void *)(uintptr_t)number);
}

static void strike(unsigned number)
{
    struct history *h = these.history;
    struct host_donor *d = these.donors[number];
    uint64_t back_ns = h->world->now_ns + 100 * WORLD_MS + world_draw_skewed(AWAY_S_MAX * WORLD_S);
    unsigned kind = (unsigned)world_draw(h->calm ? 2 : 4);

    if (!host_donor_process(d)->alive || host_donor_process(d)->over != NULL) {
        return;
    }
    h->counts.donor_strikes++;
    h->counts.calm_strikes += h->calm;
    if (kind == 0) {
        host_donor_kill(d);
    } else if (kind == 1) {
        host_donor_stop(d);
    } else if (kind == 2) {
        world_process_freeze(host_donor_process(d), back_ns);
        return;
    } else {
        these.losses++;
        host_donor_lose_power(d, back_ns);
    }
    comes_back_at(number, back_ns);
}

static bool all_are_members(void)
{
    unsigned members = 0;

    for (unsigned i = 0; i < DONORS; i++) {
        members += host_donor_is_member(these.donors[i]);
    }
    return members == DONORS;
}

/* Where nobody may notice it, one at a time, and the next one only when all that it had counts again. */
static void strike_donors(void *data)
{
    struct history *h = data;

    if (!h->faults) {
        return;
    }
    if (!h->calm || all_are_members()) {
        strike((unsigned)world_draw(DONORS));
    }
    world_in(world_draw(4 * WORLD_S), strike_donors, h);
}

static void donors_end(void)
{
    for (unsigned i = 0; i < DONORS; i++) {
        host_donor_process(these.donors[i])->frozen_until_ns = 0;
        comes_back_at(i, these.history->world->now_ns);
    }
}

/* ---- A history ---- */

static void begin_donors(struct history *h)
{
    char name[WORLD_NAME_MAX];

    for (unsigned i = 0; i < DONORS; i++) {
        (void)snprintf(name, sizeof(name), "donor%u", i + 1);
        these.hosts[i] = world_host_add(name);
        these.donors[i] = host_donor_start(these.hosts[i], name, h->meta_host);
    }
    world_run_until(h->world->now_ns + 5 * WORLD_S);
    if (!all_are_members()) {
        world_fail("not all benefactors are here");
    }
}

void datasets_run(struct history *h, struct world *world, const char *canary)
{
    memset(h, 0, sizeof(*h));
    memset(&these, 0, sizeof(these));
    these.history = h;
    h->world = world;
    h->canary = canary;
    h->copies = h->iods_count = 1;
    history_begin_cluster(h);
    begin_donors(h);
    program_begin(h, "first", 0, 0, run_first);
    history_wait_for_programs(h);
    for (unsigned i = 0; i < WRITERS; i++) {
        program_begin(h, "writer", i, HISTORY_MOUNTS, run_writer);
    }
    for (unsigned i = 0; i < READERS; i++) {
        program_begin(h, "reader", i, i, run_reader);
    }
    faults_begin(h);
    strike_donors(h);
    world_run_until(world->now_ns + FAULTS_S_MIN * WORLD_S +
                    world_draw_skewed((FAULTS_S_MAX - FAULTS_S_MIN) * WORLD_S));
    faults_end(h);
    donors_end();
    world_run_until(world->now_ns + HISTORY_CALM_S * WORLD_S);
    h->ended = true;
    history_wait_for_programs(h);
    for (unsigned i = 0; i < HISTORY_MOUNTS; i++) {
        program_begin(h, "last", i, i, run_last);
    }
    history_wait_for_programs(h);
    history_sum_up(h);
}
