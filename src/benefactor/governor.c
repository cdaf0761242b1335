/* What others needed between two looks; down at once, up step by step. */
#include "benefactor/governor.h"

#include "common/base/check.h"

/* What was counted between two looks. */
struct span
{
    uint64_t ms;
    uint64_t memory_us, io_us, cpu_busy, cpu_all, operations, bytes;
    uint64_t own_ticks, own_bytes;
};

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* a - b, or 0. */
static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static struct span span_of(const struct governor *g, const struct governor_machine *m,
                           const struct governor_own *own, uint64_t now_ms)
{
    const struct governor_machine *was = &g->machine;

    return (struct span){ .ms = now_ms - g->looked_ms,
                          .memory_us = beyond(m->memory_us, was->memory_us),
                          .io_us = beyond(m->io_us, was->io_us),
                          .cpu_busy = beyond(m->cpu_busy, was->cpu_busy),
                          .cpu_all = beyond(m->cpu_all, was->cpu_all),
                          .operations = beyond(m->disk_operations, was->disk_operations),
                          .bytes = beyond(m->disk_bytes, was->disk_bytes),
                          .own_ticks = beyond(own->cpu_ticks, g->own.cpu_ticks),
                          .own_bytes = beyond(own->bytes, g->own.bytes) };
}

/* Of `us` microseconds in the span, was it so for so many percent? */
static bool waited(const struct span *s, uint64_t us)
{
    return us / 10 >= s->ms * GOVERNOR_WAITED_PERCENT;
}

/* Has the disk done more than our work? */
static bool others_use_disk(struct governor *g, const struct span *s)
{
    const uint64_t ours = lesser(g->owed_bytes + s->own_bytes, s->bytes);
    const uint64_t bytes = s->bytes - ours;
    const uint64_t operations = beyond(s->operations, ours / GOVERNOR_OPERATION_BYTES + 1);

    g->owed_bytes = lesser(g->owed_bytes + s->own_bytes - ours, UINT32_MAX);
    g->owed_bytes -= g->owed_bytes / 16; /* It may have been deleted before it was written. */
    return bytes > GOVERNOR_OTHERS_BYTES * s->ms / 1000 ||
           operations > GOVERNOR_OTHERS_OPERATIONS * s->ms / 1000;
}

static bool others_use_cpu(const struct span *s)
{
    return s->cpu_all > 0 &&
           beyond(s->cpu_busy, s->own_ticks) * 100 > s->cpu_all * GOVERNOR_CPU_PERCENT;
}

static void note_input(struct governor *g, const struct governor_machine *m, uint64_t now_ms)
{
    if (m->input_known && g->machine.input_known && m->input_events > g->machine.input_events) {
        g->used = true;
        g->used_ms = now_ms;
    }
}

/* Who needs the machine? FREE: nobody. */
static enum governor_reason reason_of(struct governor *g, const struct governor_machine *m,
                                      const struct span *s, uint64_t now_ms)
{
    const bool pressure = m->pressure_known && g->machine.pressure_known;
    const bool disk = m->disk_known && g->machine.disk_known;
    const bool others = disk ? others_use_disk(g, s) : pressure;

    note_input(g, m, now_ms);
    if (m->on_battery) {
        return GOVERNOR_BATTERY;
    }
    if (pressure && waited(s, s->memory_us)) {
        return GOVERNOR_MEMORY;
    }
    if (others && (!pressure || waited(s, s->io_us))) {
        return GOVERNOR_DISK;
    }
    if (m->cpu_known && g->machine.cpu_known && others_use_cpu(s)) {
        return GOVERNOR_CPU;
    }
    if (g->used && now_ms - g->used_ms < GOVERNOR_INPUT_MS) {
        return GOVERNOR_INPUT;
    }
    return pressure ? GOVERNOR_FREE : GOVERNOR_UNSURE;
}

/* The level that is not to be left upwards for this reason. */
static uint32_t level_most(enum governor_reason reason)
{
    switch (reason) {
    case GOVERNOR_FREE:
        return GOVERNOR_LEVELS;
    case GOVERNOR_INPUT:
        return GOVERNOR_LEVEL_INPUT;
    case GOVERNOR_UNSURE:
        return GOVERNOR_LEVEL_UNSURE;
    default:
        return 0;
    }
}

void governor_init(struct governor *g, uint64_t now_ms)
{
    *g = (struct governor){ .reason = GOVERNOR_START,
                            .reason_since_ms = now_ms,
                            .calm_since_ms = now_ms };
}

void governor_init_off(struct governor *g, uint64_t now_ms)
{
    *g = (struct governor){ .level = GOVERNOR_LEVELS,
                            .reason = GOVERNOR_OFF,
                            .reason_since_ms = now_ms };
}

static void conclude(struct governor *g, enum governor_reason reason, uint64_t now_ms)
{
    const uint32_t most = level_most(reason);

    if (most == 0) {
        g->calm_since_ms = now_ms;
    }
    if (g->level > most) {
        g->level = most;
    } else if (g->level < most && now_ms - g->calm_since_ms >= GOVERNOR_CALM_MS) {
        g->level++;
    }
    if (g->reason != reason) {
        g->reason = reason;
        g->reason_since_ms = now_ms;
    }
}

/* Behind the last look, for it to tell anything. A count that is less than before begins anew. */
static bool is_too_soon(const struct governor *g, const struct governor_machine *m, uint64_t now_ms)
{
    const struct governor_machine *was = &g->machine;
    const bool counted = m->cpu_known && was->cpu_known && m->cpu_all >= was->cpu_all;

    return now_ms < g->looked_ms + GOVERNOR_SOON_MS ||
           (counted && m->cpu_all - was->cpu_all < GOVERNOR_SOON_TICKS);
}

bool governor_look(struct governor *g, const struct governor_machine *machine,
                   const struct governor_own *own, uint64_t now_ms)
{
    const uint32_t level = g->level;
    const enum governor_reason reason = g->reason;

    if (g->looked && is_too_soon(g, machine, now_ms)) {
        return false;
    }
    if (!g->looked || now_ms - g->looked_ms > GOVERNOR_GAP_MS) {
        g->calm_since_ms = now_ms;
        g->owed_bytes = 0;
    } else {
        const struct span span = span_of(g, machine, own, now_ms);

        conclude(g, reason_of(g, machine, &span, now_ms), now_ms);
    }
    g->looked = true;
    g->looked_ms = now_ms;
    g->machine = *machine;
    g->own = *own;
    return g->level != level || g->reason != reason;
}

uint64_t governor_rate(const struct governor *g)
{
    CHECK(g->level <= GOVERNOR_LEVELS);
    return g->level == GOVERNOR_LEVELS ? UINT64_MAX : (uint64_t)GOVERNOR_RATE_MIN << 2 * g->level;
}

uint32_t governor_jobs(const struct governor *g, uint32_t most)
{
    return g->level < GOVERNOR_LEVEL_INPUT ? 1 : most;
}

const char *governor_words(enum governor_reason reason)
{
    static const char *const words[] = {
        [GOVERNOR_FREE] = "nobody else needs the machine",
        [GOVERNOR_BATTERY] = "the machine runs on its battery",
        [GOVERNOR_MEMORY] = "programs wait for memory",
        [GOVERNOR_DISK] = "other programs need the disk",
        [GOVERNOR_CPU] = "other programs need the processors",
        [GOVERNOR_INPUT] = "somebody is at the keyboard or the mouse",
        [GOVERNOR_UNSURE] = "this kernel does not say whether programs wait (no /proc/pressure)",
        [GOVERNOR_OFF] = "it is set not to mind who uses the machine (gentle = no)",
        [GOVERNOR_START] = "it has not seen yet who needs the machine",
    };

    return words[reason];
}
