#include "tests/sim/world/judge.h"

#include <stdio.h>
#include <stdlib.h>

void judge_note(struct judge *j, const struct judge_call *call)
{
    if (j->count == j->capacity) {
        j->capacity = j->capacity * 2 + 256;
        j->calls = realloc(j->calls, j->capacity * sizeof(j->calls[0]));
        if (j->calls == NULL) {
            abort();
        }
    }
    j->calls[j->count++] = *call;
}

/* A value of an object: from the first end to the last beginning of the calls that speak of it. */
struct zone
{
    unsigned object;
    uint64_t value, first_end_ns, last_start_ns;
};

static int by_value(const void *a, const void *b)
{
    const struct judge_call *x = a, *y = b;

    if (x->object != y->object) {
        return x->object < y->object ? -1 : 1;
    }
    if (x->value != y->value) {
        return x->value < y->value ? -1 : 1;
    }
    return (int)y->write - (int)x->write; /* The write first. */
}

static uint64_t low_of(const struct zone *z)
{
    return z->first_end_ns < z->last_start_ns ? z->first_end_ns : z->last_start_ns;
}

static uint64_t high_of(const struct zone *z)
{
    return z->first_end_ns < z->last_start_ns ? z->last_start_ns : z->first_end_ns;
}

static bool must_stand(const struct zone *z)
{
    return z->first_end_ns < z->last_start_ns;
}

static bool clash(const struct zone *a, const struct zone *b)
{
    if (a->object != b->object || (!must_stand(a) && !must_stand(b))) {
        return false;
    }
    if (must_stand(a) && must_stand(b)) {
        return low_of(a) < high_of(b) && low_of(b) < high_of(a);
    }
    if (must_stand(a)) {
        return low_of(a) < low_of(b) && high_of(b) < high_of(a);
    }
    return clash(b, a);
}

/* The calls of one value, beginning at `at`; false: a read of what nobody wrote. The zone is left
 * out (*with false) where the write did not end well. */
static bool zone_of(const struct judge_call *calls, size_t at, size_t end, struct zone *z,
                    bool *with, char *why, size_t size)
{
    bool initial = calls[at].value == 0;
    uint64_t written_ns = initial ? 0 : calls[at].from_ns;

    if (!initial && !calls[at].write) {
        (void)snprintf(why, size, "object %u: value %llu was read at %.3f ms and never written",
                       calls[at].object, (unsigned long long)calls[at].value,
                       (double)calls[at].until_ns / 1e6);
        return false;
    }
    *with = initial || calls[at].good;
    *z = (struct zone){ calls[at].object, calls[at].value, initial ? 0 : UINT64_MAX, 0 };
    for (; at < end; at++) {
        if (calls[at].until_ns < written_ns) {
            (void)snprintf(why, size, "object %u: value %llu was read at %.3f ms, before its write",
                           calls[at].object, (unsigned long long)calls[at].value,
                           (double)calls[at].until_ns / 1e6);
            return false;
        }
        z->first_end_ns =
            calls[at].until_ns < z->first_end_ns ? calls[at].until_ns : z->first_end_ns;
        z->last_start_ns =
            calls[at].from_ns > z->last_start_ns ? calls[at].from_ns : z->last_start_ns;
    }
    return true;
}

static bool compare_all(const struct zone *zones, size_t count, char *why, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count && zones[k].object == zones[i].object; k++) {
            if (clash(&zones[i], &zones[k])) {
                (void)snprintf(
                    why, size,
                    "object %u: no order explains value %llu (first ended %.3f ms, last "
                    "begun %.3f ms) beside value %llu (%.3f ms, %.3f ms)",
                    zones[i].object, (unsigned long long)zones[i].value,
                    (double)zones[i].first_end_ns / 1e6, (double)zones[i].last_start_ns / 1e6,
                    (unsigned long long)zones[k].value, (double)zones[k].first_end_ns / 1e6,
                    (double)zones[k].last_start_ns / 1e6);
                return false;
            }
        }
    }
    return true;
}

bool judge_registers(const struct judge *j, char *why, size_t size)
{
    struct judge_call *calls = calloc(j->count + 1, sizeof(calls[0]));
    struct zone *zones = calloc(j->count + 1, sizeof(zones[0]));
    size_t count = 0, zones_count = 0, end;
    bool good = true;

    if (calls == NULL || zones == NULL) {
        abort();
    }
    for (size_t i = 0; i < j->count; i++) {
        if (j->calls[i].good || j->calls[i].write) { /* A read that failed says nothing. */
            calls[count++] = j->calls[i];
        }
    }
    qsort(calls, count, sizeof(calls[0]), by_value);
    for (size_t at = 0; good && at < count; at = end) {
        bool with = false;

        for (end = at; end < count && calls[end].object == calls[at].object &&
                       calls[end].value == calls[at].value;) {
            end++;
        }
        good = zone_of(calls, at, end, &zones[zones_count], &with, why, size);
        zones_count += with;
    }
    good = good && compare_all(zones, zones_count, why, size);
    free(zones);
    free(calls);
    return good;
}
