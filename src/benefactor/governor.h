/* The governor: how fast morsels go, so that the owner of the machine does not notice.
 *
 * Pure: looks at the machine go in, a rate and its reason come out. Time is of a clock that only goes on, and counts on while
 * the machine sleeps. All that is counted is so since the machine was started, and looked at as differences between two looks.
 *
 * Somebody needs the machine
 *  - BATTERY   as long as it runs on one;
 *  - MEMORY    when somebody has waited for memory for GOVERNOR_WAITED_PERCENT of the time (the kernel's pressure-stall
 *              information). We need little of it, and always the same;
 *  - DISK      when somebody has waited for disks for so long, and the disk has done more than what we asked of it: by that much
 *              more than GOVERNOR_OTHERS_BYTES, or GOVERNOR_OTHERS_OPERATIONS, a second. When the disk does our work alone, those
 *              who wait are we, and that is no reason to do less. An operation of ours is taken to have GOVERNOR_OPERATION_BYTES, what the kernel reads
 *              ahead: morsels are read in order. Small reads here and there, which keep a disk from everybody, so count in part as
 *              those of others. What we have written, the disk does later: it is kept in mind for a while. Where it is unknown what the disk
 *              does, all waiting is that of others;
 *  - CPU       when others had more than GOVERNOR_CPU_PERCENT of all processors. (The kernel's pressure of processors says
 *              little here: those who wait are mostly we, with our low priority. What costs the others is what the kernel does for our
 *              bytes, which has no priority.)
 *  - INPUT     when somebody has used keyboard or mouse in the last GOVERNOR_INPUT_MS. Programs that run do not need the
 *              machine then, a person does: no more than GOVERNOR_LEVEL_INPUT.
 * A kernel that tells no pressure (UNSURE) is not asked for more than GOVERNOR_LEVEL_UNSURE, and whenever the disk does more than
 * what is ours, somebody waits for it.
 *
 * Levels, each four times as fast as the one below it; the highest has no limit.
 *
 *     any level --somebody needs it--> the lowest (INPUT: at most its own)        at once, at the first look
 *     level --nobody has for GOVERNOR_CALM_MS--> the next one, and the next at each further look, to the highest
 *
 * So it gives way at the next look, and with looks every GOVERNOR_LOOK_MS it is at full speed again GOVERNOR_CALM_MS +
 * GOVERNOR_LEVELS * GOVERNOR_LOOK_MS behind the last look at which somebody needed the machine: less than 5 s. The lowest
 * level is not nothing: what is stored here may be nowhere else.
 *
 * A look that comes later than GOVERNOR_GAP_MS behind the last one (the machine slept, the first look) tells nothing of what was in
 * between, nor does a count that is less than before: nothing is concluded from it, and the calm begins anew.
 *
 * A look that comes sooner than GOVERNOR_SOON_MS behind the last one, or before the processors have counted GOVERNOR_SOON_TICKS, would find
 * that nobody has done anything: it is passed over, and the next one tells of all that time. On a machine that is all taken we have the
 * processor late, with our low priority, and what was due meanwhile is done at once.
 */
#ifndef MORSEL_BENEFACTOR_GOVERNOR_H
#define MORSEL_BENEFACTOR_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GOVERNOR_LOOK_MS = 500,
    GOVERNOR_GAP_MS = 5000,
    GOVERNOR_SOON_MS = GOVERNOR_LOOK_MS / 2,
    GOVERNOR_SOON_TICKS = 20, /* A hundred a second, of each processor. */
    GOVERNOR_CALM_MS = 1000,
    GOVERNOR_INPUT_MS = 2000,
    GOVERNOR_WAITED_PERCENT = 5,
    GOVERNOR_CPU_PERCENT = 60,
    GOVERNOR_OTHERS_BYTES = 1 << 20,
    GOVERNOR_OTHERS_OPERATIONS = 20,
    GOVERNOR_OPERATION_BYTES = 128 << 10,
    GOVERNOR_LEVELS = 5, /* The highest. */
    GOVERNOR_LEVEL_INPUT = 3,
    GOVERNOR_LEVEL_UNSURE = 3,
    GOVERNOR_RATE_MIN = 1 << 20 /* Of the lowest level, bytes a second. */
};

enum governor_reason {
    GOVERNOR_FREE, /* Nobody needs the machine. */
    GOVERNOR_BATTERY,
    GOVERNOR_MEMORY,
    GOVERNOR_DISK,
    GOVERNOR_CPU,
    GOVERNOR_INPUT,
    GOVERNOR_UNSURE,
    GOVERNOR_OFF,  /* It is not asked: governor_init_off(). */
    GOVERNOR_START /* It has not looked yet, or knows nothing of the time just gone. */
};

/* What the machine says. Counts are of all its programs. */
struct governor_machine
{
    bool pressure_known, cpu_known, disk_known, input_known, on_battery;
    uint64_t memory_us, io_us;  /* Pressure: somebody has waited. */
    uint64_t cpu_busy, cpu_all; /* Ticks of all processors together. */
    uint64_t disk_operations,
        disk_bytes;        /* Read and written, of the disk of the donated directory. */
    uint64_t input_events; /* Of keyboard and mouse. */
};

/* Of that, what was ours. */
struct governor_own
{
    uint64_t cpu_ticks;
    uint64_t bytes; /* Read from the disk, and written. */
};

struct governor
{
    uint32_t level;
    enum governor_reason reason; /* Why it is at its level, */
    uint64_t reason_since_ms;

    /* The core's own. */
    bool looked;
    uint64_t looked_ms;
    struct governor_machine machine;
    struct governor_own own;
    uint64_t owed_bytes; /* We have asked for them, and the disk has not done them yet. */
    uint64_t calm_since_ms;
    bool used;        /* Keyboard or mouse were, */
    uint64_t used_ms; /* last then. */
};

/* At the lowest level. */
void governor_init(struct governor *g, uint64_t now_ms);

/* At the highest level, for ever: whoever owns the machine does not mind. */
void governor_init_off(struct governor *g, uint64_t now_ms);

/* True: the level, or the reason, is another one than before. */
bool governor_look(struct governor *g, const struct governor_machine *machine,
                   const struct governor_own *own, uint64_t now_ms);

/* Bytes a second; UINT64_MAX at the highest level. */
uint64_t governor_rate(const struct governor *g);

/* How many jobs may be at work at once, of `most`. */
uint32_t governor_jobs(const struct governor *g, uint32_t most);

/* "nobody needs the machine", constant text. */
const char *governor_words(enum governor_reason reason);

#endif
