/* A world for the programs themselves: one clock, one seed, hosts with processes, and the network
 * between them.
 *
 * The product is linked against world_loop.c and world_tcp.c instead of libuv, and against
 * world_os.c for what it asks of the system by other ways. Everything that happens is an item of
 * one queue, in virtual time, and everything that is drawn comes from one seed. There is one world
 * in a process of ours, because uv_hrtime() and getrandom() say nothing of who asks: `the_world`.
 */
#ifndef MORSEL_TESTS_SIM_WORLD_H
#define MORSEL_TESTS_SIM_WORLD_H

#include "common/base/list.h"
#include "common/base/prng.h"
#include "common/daemon/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/uio.h>
#include <uv.h>

enum { WORLD_HOSTS_MAX = 16, WORLD_NAME_MAX = 16 };

#define WORLD_MS UINT64_C(1000000)
#define WORLD_S  UINT64_C(1000000000)

/* What a disk refuses. */
enum world_disk_fault {
    WORLD_DISK_SYNCS, /* EIO, and the kernel takes what it could not write for written (Linux does); */
    WORLD_DISK_WRITES, /* EIO, and nothing of it is there; also cuts and holes; */
    WORLD_DISK_READS,  /* EIO; */
    WORLD_DISK_FULL,   /* there is no room for anybody who asks how much there is. */
    WORLD_DISK_FAULTS
};

/* A machine: its clocks, and since when nothing comes through from it to others. */
struct world_host
{
    char name[WORLD_NAME_MAX];
    int64_t drift_ppm;       /* So much faster its clocks go. */
    uint64_t boot_offset_ns; /* Of CLOCK_MONOTONIC and CLOCK_BOOTTIME, */
    int64_t wall_offset_ns;  /* of CLOCK_REALTIME. */
    uint64_t boot_id;
    uint16_t next_port;
    uint64_t latency_ns; /* Half a round trip to the switch. */
    uint64_t byte_ns_x1024;
    uint64_t busy_until_ns;                 /* Its link, outwards. */
    uint64_t cut_until_ns[WORLD_HOSTS_MAX]; /* What it sends there does not arrive until then. */
    uint64_t off_until_ns;                  /* It has no power until then. */
    uint64_t slow_until_ns;                 /* Its link is slow until then: */
    uint64_t slow_times;                    /* so many times as slow. */
    uint64_t disk_slow_until_ns;            /* Likewise its disk; */
    uint64_t disk_slow_times;               /* 0: it hangs until then. */
    uint64_t disk_others_blocks;            /* So much of its disk others have. */
    enum world_disk_fault disk_fault;       /* What it refuses, now and then, */
    uint64_t disk_fails_until_ns;           /* until then. */
    bool disk_spares;                       /* The next write is not refused. */
    bool disk_refused;                      /* It did, syncs or writes, once at least. */
};

/* A program that runs: one event loop and what it has of the network. Never freed: what is under
 * way for a dead one finds it dead. */
struct world_process
{
    char name[WORLD_NAME_MAX];
    struct world_host *host;
    struct world_loop *loop;
    bool alive;
    uint64_t frozen_until_ns;
    unsigned threads; /* Of the pool, */
    unsigned working; /* and those that are at work. */
    struct list work; /* Waits for a thread. */
    struct log *log;
    void (*over)(void *data); /* world_process_when_over() */
    void *over_data;
};

struct world_item
{
    uint64_t at_ns, sequence;
    void (*run)(void *data);
    void *data;
};

struct world_counts
{
    uint64_t iterations, connects, accepts, segments, resets, timeouts, works, cancels, broken;
    uint64_t pages_lost, names_lost, batches_lost, names_asked, disk_refusals;
};

struct world
{
    uint64_t now_ns;
    uint64_t seed;
    struct prng prng;
    uint64_t digest;
    bool trace;
    bool bytes_refused;      /* Some disk has refused reads. */
    uint64_t latency_max_ns; /* How slow everything may be in this history. */
    uint64_t disk_max_ns;
    bool drifts;              /* Clocks go at rates of their own. */
    struct world_item *items; /* A heap. */
    size_t items_count, items_capacity;
    uint64_t sequence;
    struct world_host hosts[WORLD_HOSTS_MAX];
    unsigned hosts_count;
    struct world_process *current; /* Whose code runs; NULL: ours. */
    struct list socks;             /* struct world_sock, world_tcp.c */
    struct world_counts counts;
    void (*heard)(void *data, const char *program, const char *line); /* Of logs; NULL: nobody. */
    void *heard_data;
};

extern struct world *the_world;

/* ---- world.c ---- */

void world_init(struct world *w, uint64_t seed, bool trace);
void world_at(uint64_t at_ns, void (*run)(void *data), void *data);
void world_in(uint64_t delay_ns, void (*run)(void *data), void *data);

/* Run what is due until then. */
void world_run_until(uint64_t until_ns);

/* Uniform in [0, bound); 0 for 0. Mostly near 0, rarely near `bound`. One of `n` times. */
uint64_t world_draw(uint64_t bound);
uint64_t world_draw_skewed(uint64_t bound);
bool world_chance(uint64_t n);

/* Part of the history: it counts for the digest, and is printed with --seed. */
void world_trace(const char *who, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_vtrace(const char *who, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* A fault of the product was seen, or of ours: the history ends here. */
_Noreturn void world_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct world_host *world_host_add(const char *name);
unsigned world_host_index(const struct world_host *host);

/* How long it has been so there since the world began; what passes here meanwhile. */
uint64_t world_host_passed_ns(const struct world_host *host);
uint64_t world_host_takes_ns(const struct world_host *host, uint64_t ns);
struct world_process *world_process_new(struct world_host *host, const char *name);

/* As kill -9: its sockets close, nothing of it runs any more. */
void world_process_kill(struct world_process *p);

/* The machine loses its power, and has it again then: the process is gone and nobody hears of it,
 * the disk has forgotten what was not synced, boot id and clocks begin anew. */
void world_host_loses_power(struct world_process *p, uint64_t back_ns);

/* It has come to its end by itself. */
void world_process_end(struct world_process *p);

/* As SIGSTOP: its loop and its pool stand still until then. */
void world_process_freeze(struct world_process *p, uint64_t until_ns);

/* Its link is so many times as slow until then. */
void world_slow(struct world_host *host, uint64_t times, uint64_t until_ns);

/* Its disk is so many times as slow until then, or hangs (0): what the pools of its programs begin or end. */
void world_disk_slow(struct world_host *host, uint64_t times, uint64_t until_ns);

/* Its disk refuses that, now and then (WORLD_DISK_FULL: always), until then. */
void world_disk_fails(struct world_host *host, enum world_disk_fault fault, uint64_t until_ns);
uint64_t world_latency_ns(const struct world_host *host);
uint64_t world_sends_ns(const struct world_host *host, uint64_t bytes);

/* Until then nothing that `from` sends comes to `to`; one that has no power hears nothing. */
void world_cut(struct world_host *from, struct world_host *to, uint64_t until_ns);
bool world_is_cut(const struct world_host *from, const struct world_host *to, uint64_t *until_ns);

/* The machine of that name; NULL: there is none. */
struct world_host *world_host_named(const char *name);

/* "10.0.0.N", the address of the host. */
void world_host_address(const struct world_host *host, char *text, size_t size);

/* ---- world_loop.c ---- */

/* Something came for the loop: it runs soon. */
void world_loop_wake(struct world_loop *loop, uint64_t at_ns);

/* What a handle has beside itself. */
struct world_side
{
    struct list node;  /* Of its loop's handles; of those that close. */
    struct list ready; /* Among those for which something came. */
    uv_handle_t *handle;
    struct world_loop *loop;
    bool active, closing;
    void (*on_ready)(struct world_side *side);
    void (*on_close)(struct world_side *side); /* In the closing phase, before close_cb. */
    struct world_sock *sock;
    uint64_t due_ms, order, repeat_ms; /* Timers */
    union {
        uv_timer_cb timer;
        uv_idle_cb idle;
        uv_prepare_cb prepare;
        uv_check_cb check;
        uv_poll_cb poll;
    } cb;
    int events, events_wanted; /* Of a poll handle. */
};

struct world_side *world_side_new(uv_loop_t *loop, uv_handle_t *handle, uv_handle_type type);
struct world_side *world_side_of(const uv_handle_t *handle);
void world_side_ready(struct world_side *side);
struct world_process *world_loop_process(const struct world_loop *loop);

/* The next uv_loop_init() is this process's. */
void world_process_adopt_loop(struct world_process *p, uv_loop_t *loop);

/* `over` runs once the loop has nothing left: there uv_run() returns. */
void world_process_when_over(struct world_process *p, void (*over)(void *data), void *data);

/* The thread of the pool that runs goes on only when it is released. */
struct world_work *world_work_hold(void);
void world_work_release(struct world_work *work);

/* The descriptor of a poll handle can be read. */
void world_poll_readable(uv_poll_t *poll);

/* ---- world_sock.c ---- */

void world_socks_of_killed(struct world_process *p);

/* Gone without a word. */
void world_socks_of_lost(struct world_process *p);

/* Look after dead connections; every second. */
void world_socks_keepalive(void);

/* One connection over which something is under way now, to or from the host unless it is NULL, is
 * reset in a moment: one end hears of it before the other, and what flies may still come. False:
 * there is none. */
bool world_socks_reset_one(const struct world_host *host);

/* ---- kernel_inodes.c ---- */

/* A write to the device of the kernel above a mount. False: it is another descriptor. */
bool kernel_device_write(int fd, const struct iovec *iov, int count, ssize_t *result);

/* ---- world_disk.c ---- */

/* It has lost its power. */
void world_disk_forgets(struct world_host *host);

/* Does the disk of whose code runs refuse that now? */
bool world_disk_refuses(enum world_disk_fault fault);

/* There are bytes that it could forget. */
bool world_disk_differs(const struct world_host *host);

#endif
