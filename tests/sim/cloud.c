/* Runs clouds: docs/simulator.md.
 *
 *   sim_cloud                                one, of 28 days
 *   sim_cloud --from N --count M             so many
 *   sim_cloud --days N                       so long
 *   sim_cloud --seed N [--canary C]          one; with a deliberate fault, which is to be found
 *   sim_cloud --canaries                     each of them must be
 *   sim_cloud --without-hours                nobody's hours are known: what it costs then
 */
#include "tests/sim/cloud.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const canaries[] = { "takes_away_for_gone", "deletes_what_the_map_has",
                                        "believes_what_is_not_done" };

struct arguments
{
    uint64_t from, count;
    uint32_t days;
    const char *canary;
    bool canaries, without_hours;
};

uint64_t cloud_draw(struct cloud *c, uint64_t below)
{
    return prng_below(&c->prng, below);
}

bool cloud_is(const struct cloud *c, const char *canary)
{
    return c->canary != NULL && strcmp(c->canary, canary) == 0;
}

bool cloud_fail(struct cloud *c, const char *format, ...)
{
    va_list args;

    if (!c->failed) {
        c->failed = true;
        va_start(args, format);
        (void)vsnprintf(c->failure, sizeof(c->failure), format, args);
        va_end(args);
    }
    return false;
}

static bool run(struct cloud *c, uint32_t days)
{
    int64_t end_s = (int64_t)days * CLOUD_DAY_S;
    bool good = true;

    sets_init(&c->sets);
    c->holiday = (int64_t)(7 + cloud_draw(c, 21));
    desks_draw(c, days);
    manager_start(c, (uint64_t)CLOUD_TURN_S * 1000 * 1000);
    for (; good && c->now_s < end_s; c->now_s += CLOUD_TURN_S) {
        uint64_t began_ms = c->now_ms / CLOUD_TURN_S / 1000 * CLOUD_TURN_S * 1000;

        desks_turn(c);
        manager_turn(c);
        good = judge_turn(c);
        if (c->now_ms - began_ms < (uint64_t)CLOUD_TURN_S * 1000) {
            c->now_ms = began_ms + (uint64_t)CLOUD_TURN_S * 1000;
        } else {
            c->now_ms = (c->now_ms / CLOUD_TURN_S / 1000 + 1) * CLOUD_TURN_S * 1000;
        }
    }
    good = good && judge_end(c, days);
    sets_check(&c->sets);
    manager_stop(c);
    sets_free(&c->sets);
    return good;
}

/* Says what is wrong, and how it is seen again. */
static bool run_seed(const struct arguments *a, uint64_t seed, const char *canary)
{
    struct cloud *c = calloc(1, sizeof(*c));
    bool good;

    if (c == NULL) {
        return false;
    }
    c->seed = seed;
    c->canary = canary;
    c->without_hours = a->without_hours;
    prng_seed(&c->prng, seed);
    good = run(c, a->days);
    if (!good) {
        (void)printf("sim_cloud --seed %llu --days %u%s%s: day %lld: %s\n",
                     (unsigned long long)seed, a->days, canary != NULL ? " --canary " : "",
                     canary != NULL ? canary : "", (long long)(c->now_s / CLOUD_DAY_S), c->failure);
    }
    free(c);
    return good;
}

static bool find_canaries(const struct arguments *a)
{
    bool good = true;

    for (size_t i = 0; i < sizeof(canaries) / sizeof(canaries[0]); i++) {
        if (run_seed(a, a->from, canaries[i])) {
            (void)printf("sim_cloud: nobody has seen %s\n", canaries[i]);
            good = false;
        }
    }
    return good;
}

static bool parse(int argc, char **argv, struct arguments *a)
{
    *a = (struct arguments){ .from = 1, .count = 1, .days = 28 };
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--canaries") == 0) {
            a->canaries = true;
        } else if (strcmp(argv[i], "--without-hours") == 0) {
            a->without_hours = true;
        } else if (strcmp(argv[i], "--canary") == 0) {
            a->canary = value;
            i++;
        } else if (strcmp(argv[i], "--from") == 0 || strcmp(argv[i], "--seed") == 0) {
            a->from = strtoull(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--count") == 0) {
            a->count = strtoull(value, NULL, 10);
            i++;
        } else if (strcmp(argv[i], "--days") == 0) {
            a->days = (uint32_t)strtoul(value, NULL, 10);
            i++;
        } else {
            return false;
        }
    }
    return a->days > 0 && a->days <= CLOUD_DAYS_MAX;
}

int main(int argc, char **argv)
{
    struct arguments a;
    bool good = true;

    if (!parse(argc, argv, &a)) {
        (void)fprintf(stderr, "usage: sim_cloud [--from N | --seed N] [--count M] [--days N] "
                              "[--canary C | --canaries] [--without-hours]\n");
        return EXIT_FAILURE;
    }
    if (a.canaries) {
        return find_canaries(&a) ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    for (uint64_t seed = a.from; good && seed < a.from + a.count; seed++) {
        good = run_seed(&a, seed, a.canary);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
