/* Records that programs append to one file (O_APPEND), through all mounts: in the end each that was
 * synced is there once, none twice, and nothing lies between them but the places of those that
 * failed. */
#include "tests/sim/world/programs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

enum {
    RECORDS_MAX = HISTORY_RECORDS_MAX,
    LARGE_WORDS = ((1 << 20) + (64 << 10)) / 8 /* Two requests of the kernel. */
};

void append_some(struct program *p)
{
    struct history *h = p->history;
    struct history_record *record;
    struct act a;
    struct kernel_file file;
    bool synced = !world_chance(3);
    int rv, closed;

    if (h->records_count == RECORDS_MAX) {
        return;
    }
    record = &h->records[h->records_count++];
    *record = (struct history_record){ .value = ++h->last_value };
    rv = act_begin(&a, p);
    if (rv == 0 && (rv = act_open(&a, "log", O_RDWR | O_APPEND, &file)) == 0) {
        rv = kernel_append(&file, &record->value, sizeof(record->value));
        if (rv == 0 && act_is_canary(p, "append-twice", 50)) {
            rv = kernel_append(&file, &record->value, sizeof(record->value));
        }
        if (rv == 0 && synced) {
            rv = kernel_fsync(&file);
        }
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    h->counts.appends += rv == 0;
    record->good = rv == 0 && (synced || h->calm);
    act_end(&a, synced ? "append" : "append unsynced", "log", record->value, rv);
}

/* A record that the kernel asks for in two pieces, of which nobody else's comes between. */
void append_large(struct program *p)
{
    struct history *h = p->history;
    uint64_t *words = malloc(LARGE_WORDS * sizeof(uint64_t));
    struct history_record *record = &h->large[h->large_count++];
    struct act a;
    struct kernel_file file;
    int rv = act_begin(&a, p), closed;

    CHECK(words != NULL && h->large_count <= HISTORY_MOUNTS);
    *record = (struct history_record){ .value = ++h->last_value };
    for (size_t i = 0; i < LARGE_WORDS; i++) {
        words[i] = record->value;
    }
    if (rv == 0 && (rv = act_open(&a, "large", O_RDWR | O_APPEND, &file)) == 0) {
        rv = kernel_append(&file, words, LARGE_WORDS * sizeof(uint64_t));
        rv = rv == 0 ? kernel_fsync(&file) : rv;
        closed = kernel_close(&file);
        rv = rv != 0 ? rv : closed;
    }
    free(words);
    record->good = rv == 0;
    h->counts.large_appends += rv == 0;
    act_end(&a, "append large", "large", record->value, rv);
}

/* How many words from there on are that value. */
static size_t run_of(const uint64_t *words, size_t count, size_t at)
{
    size_t i = at;

    while (i < count && words[i] == words[at]) {
        i++;
    }
    return i - at;
}

static void large_check(struct program *p)
{
    struct history *h = p->history;
    size_t size = (HISTORY_MOUNTS + 1) * LARGE_WORDS * sizeof(uint64_t), got = 0, run;
    uint64_t *words = calloc(1, size);
    unsigned whole[HISTORY_MOUNTS] = { 0 };
    struct act a;
    struct kernel_file file;
    int rv = act_begin(&a, p);

    CHECK(words != NULL);
    if (rv == 0 && (rv = kernel_open_name(a.kernel, a.directory, "large", O_RDONLY, &file)) == 0) {
        rv = kernel_read(&file, 0, words, size, &got);
        (void)kernel_close(&file);
    }
    for (size_t at = 0; rv == 0 && at < got / sizeof(uint64_t); at += run) {
        run = run_of(words, got / sizeof(uint64_t), at);
        for (unsigned i = 0; i < h->large_count; i++) {
            whole[i] += words[at] == h->large[i].value && run == LARGE_WORDS;
        }
    }
    /* Where a disk has refused reads bytes may be gone: the kernel then reads up to there, and no further. */
    for (unsigned i = 0; rv == 0 && !h->world->bytes_refused && i < h->large_count; i++) {
        if (h->large[i].good && whole[i] != 1) {
            world_fail("%s: the large record %llu stands in its file in one piece %u times",
                       p->name, (unsigned long long)h->large[i].value, whole[i]);
        }
    }
    free(words);
    act_end(&a, "read", "large", got, rv == ENOENT && h->counts.large_appends == 0 ? 0 : rv);
}

/* What is left of one that was not synced when the power went: its first bytes, or none. */
static bool is_rest(const struct history *h, uint64_t value)
{
    bool rest = value == 0;

    for (size_t i = 0; i < h->records_count; i++) {
        uint64_t whole = h->records[i].value;

        if (whole == value) {
            return false;
        }
        for (unsigned bytes = 1; bytes < sizeof(whole); bytes++) {
            rest = rest || value == (whole & ((UINT64_C(1) << 8 * bytes) - 1));
        }
    }
    return rest;
}

/* How often each stands in the file. One that failed may have left its place empty, or a part of it there. */
static void compare(struct program *p, const uint64_t *values, size_t count)
{
    struct history *h = p->history;
    size_t found = 0, vain = 0;

    for (size_t i = 0; i < h->records_count; i++) {
        size_t times = 0;

        for (size_t k = 0; k < count; k++) {
            times += values[k] == h->records[i].value;
        }
        found += times;
        vain += times == 0;
        if (times > 1 || (times == 0 && h->records[i].good)) {
            world_fail("%s: record %llu stands in the log %zu times", p->name,
                       (unsigned long long)h->records[i].value, times);
        }
    }
    for (size_t k = 0; k < count; k++) {
        bool rest = vain > 0 && is_rest(h, values[k]);

        found += rest;
        vain -= rest;
    }
    if (found != count) {
        world_fail("%s: of %zu records in the log only %zu were appended", p->name, count, found);
    }
}

void append_check(struct program *p)
{
    size_t size = RECORDS_MAX * sizeof(uint64_t), got = 0;
    uint64_t *values = calloc(1, size);
    struct act a;
    struct kernel_file file;
    int rv = act_begin(&a, p);

    CHECK(values != NULL);
    if (rv == 0 && (rv = act_open(&a, "log", O_RDWR, &file)) == 0) {
        rv = kernel_read(&file, 0, values, size, &got);
        (void)kernel_close(&file);
    }
    act_end(&a, "read", "log", got, rv);
    if (got % sizeof(uint64_t) != 0) {
        world_fail("%s: the log has %zu bytes", p->name, got);
    }
    if (rv == 0) {
        compare(p, values, got / sizeof(uint64_t));
    }
    free(values);
    if (p->history->large_count > 0) {
        large_check(p);
    }
}
