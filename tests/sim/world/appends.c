/* Records that programs append to one file (O_APPEND), through all mounts: in the end each that was
 * synced is there once, none twice, and nothing lies between them but the places of those that
 * failed. */
#include "tests/sim/world/programs.h"

#include <fcntl.h>
#include <stdlib.h>

enum { RECORDS_MAX = HISTORY_RECORDS_MAX };

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
}
