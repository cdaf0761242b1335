#include "tests/sim/sim.h"

#include "common/base/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCE_BITS = 24, MILLION = 1000000 };

struct sim_options sim_options_draw(struct prng *prng)
{
    struct sim_options o = { 0 };

    /* Each kind of trouble is absent in some histories, so that the others are seen alone. */
    o.delay_ms_max = 1 + (uint32_t)prng_below(prng, prng_below(prng, 4) == 0 ? 400 : 30);
    o.loss_permille = prng_below(prng, 3) == 0 ? 0 : (uint32_t)prng_below(prng, 300);
    o.duplicate_permille = prng_below(prng, 3) == 0 ? 0 : (uint32_t)prng_below(prng, 200);
    o.break_permille = prng_below(prng, 3) == 0 ? 0 : (uint32_t)prng_below(prng, 60);
    o.late_permille = prng_below(prng, 2) == 0 ? 0 : (uint32_t)prng_below(prng, 1000);
    o.partition_permille = prng_below(prng, 2) == 0 ? 0 : (uint32_t)prng_below(prng, 10);
    o.crash_permille = prng_below(prng, 3) == 0 ? 0 : (uint32_t)prng_below(prng, 10);
    o.power_permille = prng_below(prng, 3) == 0 ? 0 : (uint32_t)prng_below(prng, 6);
    o.drift_ppm_max = prng_below(prng, 3) == 0 ? 0 : 45000;
    return o;
}

static void init(struct sim *s, const struct sim_scenario *scenario, uint64_t seed)
{
    memset(s, 0, sizeof(*s));
    s->seed = seed;
    s->scenario = scenario;
    s->digest = 14695981039346656037U;
    prng_seed(&s->prng, seed);
    heap_init(&s->queue);
    buf_init(&s->trace);
}

void sim_open(struct sim *s, const struct sim_scenario *scenario, uint64_t seed, const char *canary,
              bool tracing)
{
    init(s, scenario, seed);
    s->canary = canary;
    s->tracing = tracing;
    s->options = sim_options_draw(&s->prng);
    scenario->open(s);
}

void sim_open_scripted(struct sim *s, const struct sim_scenario *scenario)
{
    init(s, scenario, 1);
    s->tracing = s->scripted = true;
    scenario->open(s);
}

void sim_close(struct sim *s)
{
    struct heap_node *first;

    s->scenario->close(s);
    while ((first = heap_min(&s->queue)) != NULL) {
        heap_remove(&s->queue, first);
        free(CONTAINER_OF(first, struct sim_item, place));
    }
    for (uint32_t i = 0; i < s->node_count; i++) {
        while ((first = heap_min(&s->nodes[i].waiting)) != NULL) {
            heap_remove(&s->nodes[i].waiting, first);
            free(CONTAINER_OF(first, struct sim_item, place));
        }
        heap_free(&s->nodes[i].waiting);
    }
    heap_free(&s->queue);
    buf_free(&s->trace);
    free(s->conns);
}

bool sim_canary(const struct sim *s, const char *name)
{
    return s->canary != NULL && strcmp(s->canary, name) == 0;
}

void sim_worth(struct sim *s, unsigned index)
{
    CHECK(index < SIM_WORTH_MAX);
    s->worth[index] = true;
}

/* ---- Items ---- */

struct sim_item *sim_item_new(struct sim *s, uint32_t node, uint64_t due_ms)
{
    struct sim_item *item = calloc(1, sizeof(*item));

    CHECK(item != NULL && due_ms >= s->now_ms);
    item->node = node;
    item->due_ms = due_ms;
    item->life = s->nodes[node].life;
    return item;
}

void sim_item_push(struct sim *s, struct sim_item *item)
{
    bool pushed;

    CHECK(s->sequence < 1U << SEQUENCE_BITS && item->due_ms < UINT64_MAX >> SEQUENCE_BITS);
    pushed = heap_push(&s->queue, &item->place, item->due_ms << SEQUENCE_BITS | s->sequence++);
    CHECK(pushed);
}

static void digest_add(struct sim *s, uint64_t value)
{
    s->digest = (s->digest ^ value) * 1099511628211U;
}

static void run_item(struct sim *s, struct sim_item *item)
{
    const struct sim_node *node = &s->nodes[item->node];

    if (item->run == NULL) {
        sim_net_deliver(s, item);
    } else if (item->life == 0 || (node->up && node->life == item->life)) {
        item->run(s, item->node, item->number);
    }
}

/* Timers come before messages, and each in their order. */
static void lie_there(struct sim *s, struct sim_item *item)
{
    struct heap *waiting = &s->nodes[item->node].waiting;
    uint64_t order = (item->run == NULL ? 1ULL << 63 : 0) | waiting->count;
    bool pushed = heap_push(waiting, &item->place, order);

    CHECK(pushed);
}

bool sim_step(struct sim *s)
{
    struct heap_node *first = heap_min(&s->queue);
    struct sim_item *item;

    if (first == NULL || s->failed) {
        return false;
    }
    heap_remove(&s->queue, first);
    item = CONTAINER_OF(first, struct sim_item, place);
    CHECK(item->due_ms >= s->now_ms);
    s->now_ms = item->due_ms;
    s->events++;
    digest_add(s, item->due_ms << 8 | item->node);
    digest_add(s, item->number + item->message.size);
    if (item->life != 0 || item->run == NULL) {
        if (s->nodes[item->node].paused) {
            lie_there(s, item);
            return true;
        }
    }
    run_item(s, item);
    free(item);
    return !s->failed && s->scenario->check(s);
}

bool sim_run_until(struct sim *s, uint64_t time_ms)
{
    struct heap_node *first;

    while (!s->failed && (first = heap_min(&s->queue)) != NULL &&
           first->key >> SEQUENCE_BITS <= time_ms) {
        (void)sim_step(s);
    }
    if (s->now_ms < time_ms) {
        s->now_ms = time_ms;
    }
    return !s->failed;
}

/* ---- Nodes and time ---- */

uint32_t sim_node_add(struct sim *s, const char *name, const struct sim_actor *actor, bool crashes)
{
    struct sim_node *node = &s->nodes[s->node_count];

    CHECK(s->node_count < SIM_NODES_MAX);
    node->name = name;
    node->actor = actor;
    node->crashes = crashes;
    node->drift_ppm = (int64_t)prng_below(&s->prng, 2 * s->options.drift_ppm_max + 1U) -
                      (int64_t)s->options.drift_ppm_max;
    node->boot_clock_ms = prng_below(&s->prng, 100000);
    return s->node_count++;
}

uint64_t sim_clock_ms(const struct sim *s, uint32_t node)
{
    const struct sim_node *n = &s->nodes[node];

    return n->boot_clock_ms +
           (s->now_ms - n->boot_ms) * (uint64_t)(MILLION + n->drift_ppm) / MILLION;
}

void sim_after(struct sim *s, uint32_t node, uint64_t delay_ms, sim_run run, uint64_t number)
{
    uint64_t rate = (uint64_t)(MILLION + s->nodes[node].drift_ppm);
    struct sim_item *item =
        sim_item_new(s, node, s->now_ms + (delay_ms * MILLION + rate - 1) / rate);

    item->run = run;
    item->number = number;
    sim_item_push(s, item);
}

void sim_start(struct sim *s, uint32_t node)
{
    struct sim_node *n = &s->nodes[node];

    CHECK(!n->up);
    n->up = true;
    n->life++;
    if (n->actor->start != NULL) {
        n->actor->start(s, node);
    }
}

void sim_crash(struct sim *s, uint32_t node, bool machine)
{
    struct sim_node *n = &s->nodes[node];

    CHECK(n->up);
    sim_trace(s, node, machine ? "** power is lost" : "** process is killed");
    n->up = false;
    n->life++;
    sim_net_crashed(s, node);
    if (n->actor->stop != NULL) {
        n->actor->stop(s, node, machine);
    }
    if (machine) {
        n->boot_ms = s->now_ms;
        n->boot_clock_ms = prng_below(&s->prng, 1000);
    }
}

void sim_partition(struct sim *s, uint32_t node, uint64_t duration_ms)
{
    sim_trace(s, node, "** cut off for %llu ms", (unsigned long long)duration_ms);
    s->nodes[node].cut_until_ms = s->now_ms + duration_ms;
}

static void run_resume(struct sim *s, uint32_t node, uint64_t number)
{
    struct sim_node *n = &s->nodes[node];
    struct heap_node *first;

    (void)number;
    n->paused = false;
    while ((first = heap_min(&n->waiting)) != NULL) {
        struct sim_item *item = CONTAINER_OF(first, struct sim_item, place);

        heap_remove(&n->waiting, first);
        if (!s->failed) {
            run_item(s, item);
        }
        free(item);
    }
}

/* ---- Faults ---- */

static bool draw(struct sim *s, uint32_t permille)
{
    return permille > 0 && prng_below(&s->prng, 1000) < permille;
}

static void run_restart(struct sim *s, uint32_t node, uint64_t number)
{
    (void)number;
    if (!s->nodes[node].up) {
        sim_start(s, node);
    }
}

/* The world's own items belong to no life. */
static void world_after(struct sim *s, uint64_t delay_ms, uint32_t node, sim_run run)
{
    struct sim_item *item = sim_item_new(s, node, s->now_ms + delay_ms);

    item->run = run;
    item->life = 0;
    sim_item_push(s, item);
}

void sim_start_later(struct sim *s, uint32_t node, uint64_t delay_ms)
{
    world_after(s, delay_ms, node, run_restart);
}

static uint32_t draw_node(struct sim *s)
{
    return prng_below(&s->prng, 2) == 0 ? 0 : (uint32_t)prng_below(&s->prng, s->node_count);
}

static void fault_crash(struct sim *s, uint32_t node, bool machine)
{
    uint64_t most_ms = prng_below(&s->prng, 2) == 0 ? 200 : 2500;
    uint64_t down_ms = (machine ? SIM_REBOOT_MS_MIN : 0) + prng_below(&s->prng, most_ms);

    if (s->nodes[node].up && s->nodes[node].crashes) {
        sim_crash(s, node, machine);
        world_after(s, down_ms, node, run_restart);
    }
}

void sim_pause(struct sim *s, uint32_t node, uint64_t duration_ms)
{
    if (s->nodes[node].up && !s->nodes[node].paused) {
        sim_trace(s, node, "** stands still for %llu ms", (unsigned long long)duration_ms);
        s->nodes[node].paused = true;
        world_after(s, duration_ms, node, run_resume);
    }
}

static void fault_round(struct sim *s, uint32_t node, uint64_t number)
{
    (void)node;
    (void)number;
    if (!s->faulty) {
        return;
    }
    if (draw(s, s->options.crash_permille)) {
        fault_crash(s, draw_node(s), false);
    }
    if (draw(s, s->options.power_permille)) {
        fault_crash(s, draw_node(s), true);
    }
    if (draw(s, s->options.partition_permille)) {
        uint32_t cut = draw_node(s);

        sim_partition(s, cut, 1 + prng_below(&s->prng, 2000));
    }
    if (draw(s, s->options.pause_permille)) {
        sim_pause(s, 0, 1 + prng_below(&s->prng, s->options.pause_ms_max));
    }
    world_after(s, SIM_FAULT_ROUND_MS, 0, fault_round);
}

void sim_harm(struct sim *s)
{
    s->faulty = true;
    world_after(s, 0, 0, fault_round);
}

void sim_heal(struct sim *s)
{
    s->faulty = false;
    s->options.loss_permille = s->options.duplicate_permille = s->options.break_permille = 0;
    s->options.delay_ms_max = s->options.delay_ms_max < 30 ? s->options.delay_ms_max : 30;
    for (uint32_t i = 0; i < s->node_count; i++) {
        s->nodes[i].cut_until_ms = 0;
        if (s->nodes[i].paused) {
            run_resume(s, i, 0);
        }
        if (!s->nodes[i].up && s->nodes[i].crashes) {
            sim_start(s, i);
        }
    }
}

/* ---- Trace ---- */

bool sim_fail(struct sim *s, const char *format, ...)
{
    va_list arguments;

    if (!s->failed) {
        va_start(arguments, format);
        (void)vsnprintf(s->failure, sizeof(s->failure), format, arguments);
        va_end(arguments);
        s->failed = true;
    }
    return false;
}

void sim_trace(struct sim *s, uint32_t node, const char *format, ...)
{
    char head[64], text[512];
    va_list arguments;

    if (!s->tracing) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)snprintf(head, sizeof(head), "[%5llu] %s > ", (unsigned long long)s->now_ms,
                   s->nodes[node].name);
    buf_put(&s->trace, head, strlen(head));
    buf_put(&s->trace, text, strlen(text));
    buf_put(&s->trace, "\n", 1);
}

bool sim_expect(struct sim *s, const char *text)
{
    size_t count = s->trace.count - s->expected;
    const char *have = count == 0 ? "" : (const char *)s->trace.data + s->expected;

    s->expected = s->trace.count;
    if (count == strlen(text) && memcmp(have, text, count) == 0) {
        return true;
    }
    (void)fprintf(stderr, "transcript differs; expected:\n%s---- but got:\n%.*s----\n", text,
                  (int)count, have);
    return sim_fail(s, "transcript differs");
}

void sim_skip(struct sim *s)
{
    s->expected = s->trace.count;
}
