#include "tests/sim/sim_main.h"

#include "common/base/check.h"
#include "tests/lib/seed.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SEEDS_DEFAULT = 1000,
    CANARY_SEEDS = 1000,      /* A canary must be caught within so many. */
    DETERMINISM_SEEDS = 20,   /* So many are run twice. */
    WORTH_SEEDS_MIN = 500,    /* Of fewer the floors say nothing, */
    WORTH_TIMES_MIN = 5,      /* nor does one that asks for fewer than so many: that is chance. */
    TRACE_BYTES_SHOWN = 20000 /* The end of a failing seed's trace. */
};

struct arguments
{
    uint64_t from, count;
    const char *canary;
    bool one, canaries, transcripts;
};

/* What is running, for the case that a CHECK ends the process. */
static char running[128];

static void on_abort(int signal_number)
{
    static const char words[] = "sim: aborted; reproduce with: ";

    (void)signal_number;
    (void)!write(STDERR_FILENO, words, sizeof(words) - 1);
    (void)!write(STDERR_FILENO, running, strlen(running));
    (void)!write(STDERR_FILENO, "\n", 1);
}

static void note_running(const struct sim_scenario *scenario, uint64_t seed, const char *canary)
{
    (void)snprintf(running, sizeof(running), "sim_%s --seed %llu%s%s", scenario->name,
                   (unsigned long long)seed, canary == NULL ? "" : " --canary ",
                   canary == NULL ? "" : canary);
}

/* One history from its beginning to the end. */
static bool run_history(struct sim *s)
{
    sim_harm(s);
    if (!sim_run_until(s, s->scenario->faults_ms)) {
        return false;
    }
    sim_trace(s, 0, "** healed");
    sim_heal(s);
    return sim_run_until(s, s->scenario->faults_ms + s->scenario->healing_ms) &&
           s->scenario->finish(s);
}

static void print_trace(const struct sim *s, size_t bytes_max)
{
    size_t skip = s->trace.count > bytes_max ? s->trace.count - bytes_max : 0;

    if (s->trace.count > 0) {
        (void)printf("%s%.*s", skip > 0 ? "...\n" : "", (int)(s->trace.count - skip),
                     (const char *)s->trace.data + skip);
    }
}

/* Run again with the trace on, and show it. */
static bool show_seed(const struct sim_scenario *scenario, uint64_t seed, const char *canary,
                      size_t bytes_max)
{
    struct sim *s = malloc(sizeof(*s));
    bool good;

    CHECK(s != NULL);
    note_running(scenario, seed, canary);
    sim_open(s, scenario, seed, canary, true);
    good = run_history(s);
    print_trace(s, bytes_max);
    (void)printf("%s: %s\n", running, good ? "all is well" : s->failure);
    if (!good) {
        (void)printf("reproduce with: %s\n", running);
    }
    sim_close(s);
    free(s);
    return good;
}

/* What is to be summed up over the histories. */
struct sum
{
    uint64_t histories, events;
    uint64_t worth[SIM_WORTH_MAX]; /* Histories in which it happened. */
};

static bool run_seed(const struct sim_scenario *scenario, uint64_t seed, const char *canary,
                     uint64_t *digest, struct sum *sum)
{
    struct sim *s = malloc(sizeof(*s));
    bool good;

    CHECK(s != NULL);
    note_running(scenario, seed, canary);
    sim_open(s, scenario, seed, canary, false);
    good = run_history(s);
    *digest = s->digest;
    sum->histories++;
    sum->events += s->events;
    for (unsigned i = 0; i < SIM_WORTH_MAX; i++) {
        sum->worth[i] += s->worth[i];
    }
    sim_close(s);
    free(s);
    return good;
}

/* Did what must happen happen often enough? */
static bool was_worth_it(const struct sim_scenario *scenario, const struct sum *sum)
{
    bool good = true;

    for (const struct sim_worth *w = scenario->worth; w->what != NULL; w++) {
        uint64_t permille =
            sum->worth[w - scenario->worth] * 1000 / (sum->histories > 0 ? sum->histories : 1);
        bool says = sum->histories >= WORTH_SEEDS_MIN &&
                    w->permille * sum->histories >= WORTH_TIMES_MIN * 1000;
        bool enough = permille >= w->permille || !says;

        (void)printf("sim_%s: %s in %llu permille of the histories%s\n", scenario->name, w->what,
                     (unsigned long long)permille, enough ? "" : ": TOO FEW");
        if (!enough) {
            (void)printf("sim_%s: at least %u are expected\n", scenario->name, w->permille);
            good = false;
        }
    }
    return good;
}

static bool run_seeds(const struct sim_scenario *scenario, const struct arguments *a)
{
    struct sum sum = { 0 };
    uint64_t digest, again;

    for (uint64_t seed = a->from; seed < a->from + a->count; seed++) {
        if (!run_seed(scenario, seed, a->canary, &digest, &sum)) {
            (void)show_seed(scenario, seed, a->canary, TRACE_BYTES_SHOWN);
            return false;
        }
        if (seed < a->from + DETERMINISM_SEEDS &&
            (!run_seed(scenario, seed, a->canary, &again, &sum) || again != digest)) {
            (void)printf("sim_%s: seed %llu gives two different histories\n", scenario->name,
                         (unsigned long long)seed);
            return false;
        }
    }
    (void)printf("sim_%s: seeds %llu to %llu, %llu events: all is well\n", scenario->name,
                 (unsigned long long)a->from, (unsigned long long)(a->from + a->count - 1),
                 (unsigned long long)sum.events);
    return was_worth_it(scenario, &sum);
}

/* A checker that a deliberate fault cannot wake is asleep. */
static bool run_canaries(const struct sim_scenario *scenario)
{
    bool good = true;

    for (const char *const *canary = scenario->canaries; *canary != NULL; canary++) {
        struct sum sum = { 0 };
        uint64_t digest, seed = 1;

        while (seed <= CANARY_SEEDS && run_seed(scenario, seed, *canary, &digest, &sum)) {
            seed++;
        }
        (void)printf("sim_%s: canary %s %s %llu\n", scenario->name, *canary,
                     seed <= CANARY_SEEDS ? "caught by seed" : "NOT CAUGHT within seed",
                     (unsigned long long)(seed <= CANARY_SEEDS ? seed : CANARY_SEEDS));
        good = good && seed <= CANARY_SEEDS;
    }
    return good;
}

static bool run_transcripts(const struct sim_scenario *scenario, const struct sim_transcript *t,
                            const char *canary)
{
    bool good = true;

    for (; t->name != NULL; t++) {
        struct sim *s = malloc(sizeof(*s));
        bool passed;

        CHECK(s != NULL);
        note_running(scenario, 1, NULL);
        sim_open_scripted(s, t->scenario != NULL ? t->scenario : scenario);
        s->canary = canary;
        passed = t->run(s) && !s->failed;
        (void)printf("sim_%s: transcript %s: %s\n", scenario->name, t->name,
                     passed ? "as expected" : s->failure);
        good = good && passed;
        sim_close(s);
        free(s);
    }
    return good;
}

static int usage(const struct sim_scenario *scenario)
{
    (void)fprintf(stderr,
                  "usage: sim_%s [--seed N | --from N --count N | --canaries | --transcripts] "
                  "[--canary NAME]\n",
                  scenario->name);
    return 2;
}

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;

    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == 0;
}

static bool parse(int argc, char **argv, struct arguments *a)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--canaries") == 0) {
            a->canaries = true;
            continue;
        }
        if (strcmp(argv[i], "--transcripts") == 0) {
            a->transcripts = true;
            continue;
        }
        if (strcmp(argv[i], "--canary") == 0 && value[0] != 0) {
            a->canary = value;
        } else if (strcmp(argv[i], "--seed") == 0 && parse_number(value, &a->from)) {
            a->one = true;
        } else if (!(strcmp(argv[i], "--from") == 0 && parse_number(value, &a->from)) &&
                   !(strcmp(argv[i], "--count") == 0 && parse_number(value, &a->count))) {
            return false;
        }
        i++;
    }
    return true;
}

int sim_main(int argc, char **argv, const struct sim_scenario *scenario,
             const struct sim_transcript *transcripts)
{
    struct arguments a = { .from = test_seed_first(), .count = SEEDS_DEFAULT };
    bool good;

    if (!parse(argc, argv, &a)) {
        return usage(scenario);
    }
    (void)signal(SIGABRT, on_abort);
    if (a.canaries) {
        good = run_canaries(scenario);
    } else if (a.transcripts) {
        good = run_transcripts(scenario, transcripts, a.canary);
    } else if (a.one) {
        good = show_seed(scenario, a.from, a.canary, SIZE_MAX);
    } else {
        good =
            run_seeds(scenario, &a) && (argc > 1 || run_transcripts(scenario, transcripts, NULL));
    }
    return good ? 0 : 1;
}
