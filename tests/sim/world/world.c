#include "tests/sim/world/world.h"

#include <stdlib.h>
#include <string.h>

struct world *the_world;

/* Two clocks may part by 10 %. */
enum { DRIFT_PPM_MAX = 40000 };

static void on_keepalive(void *data)
{
    (void)data;
    world_socks_keepalive();
    world_in(WORLD_S, on_keepalive, NULL);
}

void world_init(struct world *w, uint64_t seed, bool trace)
{
    memset(w, 0, sizeof(*w));
    the_world = w;
    w->seed = seed;
    w->trace = trace;
    prng_seed(&w->prng, seed);
    list_init(&w->socks);
    w->latency_max_ns = world_chance(4) ? 5 * WORLD_MS : WORLD_MS / 5;
    w->drifts = !world_chance(3);
    w->disk_max_ns = world_chance(4) ? 50 * WORLD_MS : WORLD_MS;
    world_in(WORLD_S, on_keepalive, NULL);
}

/* ---- The queue ---- */

static bool before(const struct world_item *a, const struct world_item *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

static void sift_up(struct world_item *items, size_t at)
{
    while (at > 0 && before(&items[at], &items[(at - 1) / 2])) {
        struct world_item item = items[at];

        items[at] = items[(at - 1) / 2];
        items[(at - 1) / 2] = item;
        at = (at - 1) / 2;
    }
}

static void sift_down(struct world_item *items, size_t count)
{
    size_t at = 0;

    for (;;) {
        size_t least = at;

        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++) {
            least = before(&items[child], &items[least]) ? child : least;
        }
        if (least == at) {
            return;
        }
        struct world_item item = items[at];
        items[at] = items[least];
        items[least] = item;
        at = least;
    }
}

void world_at(uint64_t at_ns, void (*run)(void *data), void *data)
{
    struct world *w = the_world;

    if (w->items_count == w->items_capacity) {
        w->items_capacity = w->items_capacity * 2 + 64;
        w->items = realloc(w->items, w->items_capacity * sizeof(w->items[0]));
        CHECK(w->items != NULL);
    }
    w->items[w->items_count] = (struct world_item){ at_ns, ++w->sequence, run, data };
    sift_up(w->items, w->items_count++);
}

void world_in(uint64_t delay_ns, void (*run)(void *data), void *data)
{
    world_at(the_world->now_ns + delay_ns, run, data);
}

static void mix(uint64_t value)
{
    the_world->digest = (the_world->digest ^ value) * UINT64_C(0x100000001b3);
    the_world->digest ^= the_world->digest >> 29;
}

void world_run_until(uint64_t until_ns)
{
    struct world *w = the_world;

    while (w->items_count > 0 && w->items[0].at_ns <= until_ns) {
        struct world_item item = w->items[0];

        w->items[0] = w->items[--w->items_count];
        sift_down(w->items, w->items_count);
        if (item.at_ns > w->now_ns) {
            w->now_ns = item.at_ns;
        }
        mix(item.at_ns);
        mix(item.sequence);
        item.run(item.data);
        w->current = NULL;
    }
    if (until_ns > w->now_ns) {
        w->now_ns = until_ns;
    }
}

/* ---- Chance ---- */

uint64_t world_draw(uint64_t bound)
{
    return bound == 0 ? 0 : prng_below(&the_world->prng, bound);
}

uint64_t world_draw_skewed(uint64_t bound)
{
    return world_draw((bound >> world_draw(8)) + 1);
}

bool world_chance(uint64_t n)
{
    return world_draw(n) == 0;
}

/* ---- What is told ---- */

void world_vtrace(const char *who, const char *format, va_list args)
{
    char line[512];

    (void)vsnprintf(line, sizeof(line), format, args);
    for (const char *at = line; *at != '\0'; at++) {
        mix((uint8_t)*at);
    }
    if (the_world->trace) {
        (void)printf("[%9.3f] %s > %s\n", (double)the_world->now_ns / 1e6, who, line);
    }
}

void world_trace(const char *who, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    world_vtrace(who, format, args);
    va_end(args);
}

void world_fail(const char *format, ...)
{
    va_list args;

    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "sim_cluster --seed %llu: at %.3f ms: ", (unsigned long long)the_world->seed,
                  (double)the_world->now_ns / 1e6);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "\n");
    _Exit(1);
}

/* ---- Hosts and processes ---- */

static void host_boots(struct world_host *host)
{
    host->wall_offset_ns = (int64_t)world_draw(4 * WORLD_S) - (int64_t)(2 * WORLD_S);
    host->boot_id = prng_next(&the_world->prng) | 1;
    host->next_port = (uint16_t)(32768 + world_draw(16384));
}

struct world_host *world_host_add(const char *name)
{
    struct world *w = the_world;
    struct world_host *host = &w->hosts[w->hosts_count++];

    CHECK(w->hosts_count <= WORLD_HOSTS_MAX);
    (void)snprintf(host->name, sizeof(host->name), "%s", name);
    host->boot_offset_ns = (1 + world_draw(100000)) * WORLD_S;
    if (w->drifts) {
        host->drift_ppm = (int64_t)world_draw_skewed(2 * DRIFT_PPM_MAX) - DRIFT_PPM_MAX;
    }
    host_boots(host);
    host->latency_ns = 5000 + world_draw_skewed(w->latency_max_ns);
    host->byte_ns_x1024 = 1024 + world_draw_skewed(world_chance(3) ? 100 * 1024 : 8 * 1024);
    return host;
}

uint64_t world_host_passed_ns(const struct world_host *host)
{
    int64_t now_ns = (int64_t)the_world->now_ns;

    return (uint64_t)(now_ns + now_ns * host->drift_ppm / 1000000);
}

uint64_t world_host_takes_ns(const struct world_host *host, uint64_t ns)
{
    return ns * 1000000 / (uint64_t)(1000000 + host->drift_ppm) + 1;
}

unsigned world_host_index(const struct world_host *host)
{
    return (unsigned)(host - the_world->hosts);
}

struct world_host *world_host_named(const char *name)
{
    for (unsigned i = 0; i < the_world->hosts_count; i++) {
        if (strcmp(the_world->hosts[i].name, name) == 0) {
            return &the_world->hosts[i];
        }
    }
    return NULL;
}

void world_host_address(const struct world_host *host, char *text, size_t size)
{
    (void)snprintf(text, size, "10.0.0.%u", world_host_index(host) + 1);
}

struct world_process *world_process_new(struct world_host *host, const char *name)
{
    struct world_process *p = calloc(1, sizeof(*p));

    CHECK(p != NULL);
    (void)snprintf(p->name, sizeof(p->name), "%s", name);
    p->host = host;
    p->alive = true;
    list_init(&p->work);
    return p;
}

void world_process_kill(struct world_process *p)
{
    if (p->alive) {
        p->alive = false;
        world_trace(p->name, "** process is killed");
        world_socks_of_killed(p);
    }
}

void world_process_end(struct world_process *p)
{
    world_trace(p->name, "has ended");
    p->alive = false;
}

void world_host_loses_power(struct world_process *p, uint64_t back_ns)
{
    struct world_host *host = p->host;

    world_trace(host->name, "** has no power until %.3f", (double)back_ns / 1e6);
    p->alive = false;
    world_socks_of_lost(p);
    world_disk_forgets(host);
    host->off_until_ns = back_ns;
    host->boot_offset_ns = world_draw(20 * WORLD_S) - world_host_passed_ns(host);
    host_boots(host);
}

void world_process_freeze(struct world_process *p, uint64_t until_ns)
{
    world_trace(p->name, "** stands still until %.3f", (double)until_ns / 1e6);
    p->frozen_until_ns = until_ns;
}

static uint64_t slow_times(const struct world_host *host)
{
    return host->slow_until_ns > the_world->now_ns ? host->slow_times : 1;
}

void world_slow(struct world_host *host, uint64_t times, uint64_t until_ns)
{
    world_trace(host->name, "** its link is %llu times as slow until %.3f",
                (unsigned long long)times, (double)until_ns / 1e6);
    host->slow_times = times;
    host->slow_until_ns = until_ns;
}

void world_disk_slow(struct world_host *host, uint64_t times, uint64_t until_ns)
{
    world_trace(host->name, "** its disk is %llu times as slow (0: hangs) until %.3f",
                (unsigned long long)times, (double)until_ns / 1e6);
    host->disk_slow_times = times;
    host->disk_slow_until_ns = until_ns;
}

void world_disk_fails(struct world_host *host, enum world_disk_fault fault, uint64_t until_ns)
{
    static const char *const refused[WORLD_DISK_FAULTS] = { "syncs", "writes", "reads", "room" };

    world_trace(host->name, "** its disk refuses %s until %.3f", refused[fault],
                (double)until_ns / 1e6);
    host->disk_fault = fault;
    host->disk_fails_until_ns = until_ns;
}

uint64_t world_latency_ns(const struct world_host *host)
{
    return host->latency_ns * slow_times(host);
}

uint64_t world_sends_ns(const struct world_host *host, uint64_t bytes)
{
    return bytes * host->byte_ns_x1024 / 1024 * slow_times(host);
}

void world_cut(struct world_host *from, struct world_host *to, uint64_t until_ns)
{
    world_trace(from->name, "** is cut off from %s until %.3f", to->name, (double)until_ns / 1e6);
    from->cut_until_ns[world_host_index(to)] = until_ns;
}

bool world_is_cut(const struct world_host *from, const struct world_host *to, uint64_t *until_ns)
{
    uint64_t until = from->cut_until_ns[world_host_index(to)];

    until = until < to->off_until_ns ? to->off_until_ns : until;
    if (until_ns != NULL) {
        *until_ns = until;
    }
    return until > the_world->now_ns;
}
