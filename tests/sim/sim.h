/* Deterministic simulator: virtual time, seeded faults, a network, nodes that crash.
 *
 * The cores of production run in here unchanged; a scenario (members.c, ops.c, ...) is the host
 * that performs their actions. Everything random comes from the seed, so that a seed is a history:
 * the same seed gives the same events in the same order, always.
 *
 * Time jumps to the next due item; items that are due together run in the order in which they were
 * made. After each of them the scenario's checker runs. It must not share code with the cores.
 *
 * A node is a process on a machine of its own. It has a clock that drifts. When the process crashes
 * its timers are gone; when the machine does, its clock begins anew as well, and the scenario lets
 * the disk forget what was not synced. Its life grows with each start.
 *
 * Faults are drawn until sim_heal(): after that nothing is lost, nobody crashes, and what the
 * system promises "in the end" must come true within a bound.
 */
#ifndef MORSEL_TESTS_SIM_SIM_H
#define MORSEL_TESTS_SIM_SIM_H

#include "common/base/buf.h"
#include "common/base/heap.h"
#include "common/base/prng.h"

enum {
    SIM_NODES_MAX = 16,
    SIM_MESSAGE_BYTES_MAX = 1600,
    SIM_FAULT_ROUND_MS = 10, /* Crashes and partitions are drawn this often. */
    SIM_WORTH_MAX = 32,
    SIM_REBOOT_MS_MIN = 100 /* A machine that lost power is not back sooner. */
};

struct sim;

/* What can go wrong, and how often. Permille of messages, or of fault rounds. */
struct sim_options
{
    uint32_t delay_ms_max;
    uint32_t loss_permille;      /* Datagrams. */
    uint32_t duplicate_permille; /* Datagrams; delays reorder them by themselves. */
    uint32_t break_permille;     /* Connections, by message. */
    uint32_t late_permille;      /* Broken connections whose server end hears of it late. */
    uint32_t partition_permille; /* By round: one node is cut off for a while. */
    uint32_t crash_permille;     /* By round: a process ends. */
    uint32_t power_permille;     /* By round: a machine loses power. */
    uint32_t drift_ppm_max;      /* Of clocks, either way. */
    uint32_t pause_permille;     /* By round: the process of node 0 stands still for a while. Not
                                    drawn; a scenario sets it. */
    uint32_t pause_ms_max;
};

/* One draw a field, in the order of the fields. */
struct sim_options sim_options_draw(struct prng *prng);

/* A transport end sees a message as bytes that the sender chose. */
struct sim_message
{
    uint32_t from, to;
    uint32_t conn; /* 0: a datagram. */
    uint32_t size;
    uint8_t data[SIM_MESSAGE_BYTES_MAX];
};

/* What a scenario does for a node. Any of them may be NULL. */
struct sim_actor
{
    void (*start)(struct sim *s, uint32_t node);
    void (*stop)(struct sim *s, uint32_t node, bool machine); /* Crash: drop what was in memory. */
    void (*receive)(struct sim *s, uint32_t node, const struct sim_message *message);
    void (*down)(struct sim *s, uint32_t node, uint32_t conn); /* Its connection has ended. */
};

struct sim_node
{
    const char *name;
    const struct sim_actor *actor;
    bool crashes; /* Faults may end it. Half of them hit node 0, which is the one under test. */
    bool up;
    uint32_t life;
    int64_t drift_ppm;
    uint64_t boot_ms, boot_clock_ms; /* The clock showed boot_clock_ms at boot_ms. */
    uint64_t cut_until_ms;           /* Nothing gets through to or from it before. */
    bool paused; /* Its process stands still: what is due lies there until it goes on, timers
                    first, as in an event loop. */
    struct heap waiting;
};

struct sim_conn
{
    uint32_t ends[2]; /* Nodes: who connected, who accepted. */
    bool open[2];     /* What each end believes. */
    bool broken;
    uint64_t last_ms[2]; /* When the last message towards ends[i] is due. */
    uint64_t lost_ms[2]; /* Broken: what is due later towards ends[i] does not arrive. */
};

/* Something that must have happened in so many of a scenario's histories: otherwise they test less
 * than they seem to. */
struct sim_worth
{
    const char *what;
    uint32_t permille; /* Of the histories, at least. */
};

/* A scenario, as the runner (sim_main.h) sees it. */
struct sim_scenario
{
    const char *name;
    uint64_t faults_ms;           /* Faults end then ... */
    uint64_t healing_ms;          /* ... and so much later finish() asks whether all is well. */
    void (*open)(struct sim *s);  /* Add nodes, set s->world. */
    void (*close)(struct sim *s); /* Free s->world. */
    bool (*check)(struct sim *s); /* After every event. False after sim_fail(). */
    bool (*finish)(struct sim *s);
    const char *const *canaries;   /* Names of deliberate faults; NULL at the end. */
    const struct sim_worth *worth; /* A `what` of NULL at the end; at most SIM_WORTH_MAX. */
};

struct sim
{
    uint64_t seed;
    struct prng prng;
    struct sim_options options;
    const struct sim_scenario *scenario;
    const char *canary; /* The deliberate fault that is on, or NULL. */
    void *world;

    uint64_t now_ms; /* True time. Cores see the clock of their node. */
    uint64_t sequence;
    struct heap queue;
    struct sim_node nodes[SIM_NODES_MAX];
    uint32_t node_count;
    struct sim_conn *conns;
    uint32_t conn_count, conn_capacity;
    bool faulty;
    bool scripted; /* A transcript: the scenario's nodes are there, and do only what they are told.
                    */

    bool tracing;
    struct buf trace;
    size_t expected; /* The trace was compared up to here. */
    uint64_t events;
    uint64_t digest;           /* Of all events: equal for equal histories. */
    bool worth[SIM_WORTH_MAX]; /* It has happened. */
    bool failed;
    char failure[512];
};

/* ---- A history ---- */

/* Options are drawn from the seed. Nothing runs yet. */
void sim_open(struct sim *s, const struct sim_scenario *scenario, uint64_t seed, const char *canary,
              bool tracing);

/* For a transcript: traced, without faults, delays and drift. */
void sim_open_scripted(struct sim *s, const struct sim_scenario *scenario);
void sim_close(struct sim *s);

/* Run the next event and the checker. False: nothing is left to happen, or a check failed. */
bool sim_step(struct sim *s);

/* Run everything that is due up to then. False: a check failed. */
bool sim_run_until(struct sim *s, uint64_t time_ms);

/* Begin to draw crashes and partitions; end all faults and start what is down. */
void sim_harm(struct sim *s);
void sim_heal(struct sim *s);

/* Is the deliberate fault `name` on? */
bool sim_canary(const struct sim *s, const char *name);

/* What scenario->worth[index] names has happened. */
void sim_worth(struct sim *s, unsigned index);

/* Note the first failure; always false. */
bool sim_fail(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Nodes and time ---- */

/* Returns the node; it is down until sim_start(). */
uint32_t sim_node_add(struct sim *s, const char *name, const struct sim_actor *actor, bool crashes);
void sim_start(struct sim *s, uint32_t node);
void sim_start_later(struct sim *s, uint32_t node, uint64_t delay_ms);

/* Its process ends, or its machine. It stays down until sim_start(). */
void sim_crash(struct sim *s, uint32_t node, bool machine);

/* Cut the node off for so long. */
void sim_partition(struct sim *s, uint32_t node, uint64_t duration_ms);

/* Its process stands still for so long; its clock goes on. */
void sim_pause(struct sim *s, uint32_t node, uint64_t duration_ms);

/* What the node's monotonic clock shows. */
uint64_t sim_clock_ms(const struct sim *s, uint32_t node);

typedef void (*sim_run)(struct sim *s, uint32_t node, uint64_t number);

/* Run so much later on the node's clock, unless its process ends before. */
void sim_after(struct sim *s, uint32_t node, uint64_t delay_ms, sim_run run, uint64_t number);

/* ---- Network ---- */

/* Connect. 0: the other end is down or out of reach. Messages can be sent at once. */
uint32_t sim_connect(struct sim *s, uint32_t from, uint32_t to);

/* Send to the other end of a connection: in order, nothing twice, nothing lost before it breaks.
 * Dropped when the sender's end is closed. */
void sim_send(struct sim *s, uint32_t from, uint32_t conn, const void *data, uint32_t size);

/* Send a datagram: it may get lost, come late, come twice. */
void sim_send_datagram(struct sim *s, uint32_t from, uint32_t to, const void *data, uint32_t size);

/* The connection breaks: of what is under way a part arrives, then each end hears of it. */
void sim_break(struct sim *s, uint32_t conn);

/* `node` closes its end, and hears no more of it; the other end hears of it as of a break. */
void sim_hang_up(struct sim *s, uint32_t node, uint32_t conn);

/* The node that is at the other end. */
uint32_t sim_peer(const struct sim *s, uint32_t node, uint32_t conn);

/* ---- Trace ---- */

/* A line "[  240] name > ..." when tracing. */
void sim_trace(struct sim *s, uint32_t node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The trace since the last call is exactly this. */
bool sim_expect(struct sim *s, const char *text);

/* Forget the trace so far: sim_expect() compares what comes. */
void sim_skip(struct sim *s);

/* ---- For sim.c and sim_net.c ---- */

struct sim_item
{
    struct heap_node place; /* In the queue, by time and order. */
    uint64_t due_ms;
    uint32_t node, life;
    sim_run run; /* NULL: a message, or the news that a connection ended. */
    uint64_t number;
    bool is_message;
    struct sim_message message;
};

struct sim_item *sim_item_new(struct sim *s, uint32_t node, uint64_t due_ms);
void sim_item_push(struct sim *s, struct sim_item *item);
void sim_net_deliver(struct sim *s, struct sim_item *item);
void sim_net_crashed(struct sim *s, uint32_t node);

#endif
