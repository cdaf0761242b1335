/* The leases scenario: what its manager (leases_manager.c) and its clients (leases.c) share. */
#ifndef MORSEL_TESTS_SIM_LEASES_H
#define MORSEL_TESTS_SIM_LEASES_H

#include "client/coherence/lease_holder.h"
#include "client/coherence/lock_holder.h"
#include "client/coherence/meta_cache.h"
#include "common/base/presence.h"
#include "meta/coherence/lease.h"
#include "meta/coherence/lock_table.h"
#include "tests/sim/db.h"

enum {
    MANAGER = 0,
    STORE = 1, /* The storage server. */
    CLIENT_FIRST = 2,
    CLIENTS_MAX = 4,
    NS_PER_MS = 1000000,
    REGISTERS = 5,
    REG_LOCKS = REGISTERS, /* Stands for INODE_LOCKS. */
    REGISTER_INODE_FIRST = 100,
    PROCESSES = 3,  /* Of a client: each has locks of ranges. */
    OPEN_FILES = 2, /* Each has a flock, and two threads ask for it. */
    OWNERS = PROCESSES + OPEN_FILES,
    LOCK_CALLS = PROCESSES + 2 * OPEN_FILES,
    LOCK_FILES = 2,
    LOCK_FILE_FIRST = 500,
    LOCK_BYTES = 8,              /* Locks begin below. */
    LOCK_CELLS = LOCK_BYTES + 2, /* One for all bytes behind, one for the flock. */
    LOCKS_NAMED_MAX = 12,        /* In a JOIN. */
    CALLS_MAX = 3,
    PARKED_MAX = 64,
    LEASE_EPOCHS_MAX = 256,
    CONNS_MAX = 1 << 12,
    STORE_WRITES_MAX = 4,
    STORE_JOBS_MAX = 16,
    LIVES_MAX = 1024 /* Clients that were ever served, the dead included. */
};

enum word {
    WORD_JOIN,
    WORD_RENEW,
    WORD_READ,   /* The register, and R. */
    WORD_WRITE,  /* Through: the manager has the value when it answers. */
    WORD_OPEN,   /* W is wanted. */
    WORD_REPORT, /* What was dirty under W. */
    WORD_RETURN,
    WORD_BUSY,
    WORD_LOCK,
    WORD_CANCEL,
    WORD_RECALL, /* Pushed. */
    WORD_REPLY
};

struct lease_message
{
    enum word word;
    client_id client;
    uint64_t call;
    uint64_t recall;
    uint32_t reg;
    uint64_t value;
    enum lease_mode mode;            /* RECALL: to keep; RETURN: kept; REPLY: held. */
    uint64_t lease_epoch;            /* JOIN, and its reply. */
    enum lease_mode held[REGISTERS]; /* JOIN */
    bool lost[REGISTERS];            /* The reply to JOIN. */
    bool locks_lost;
    struct byte_lock lock; /* LOCK */
    bool wait;
    enum lock_answer verdict;
    uint32_t named_count; /* JOIN */
    struct named_lock
    {
        uint32_t inode;
        uint8_t owner, kind, type;
        uint64_t start, end;
    } named[LOCKS_NAMED_MAX];
    int status;
};
static_assert(sizeof(struct lease_message) <= SIM_MESSAGE_BYTES_MAX, "it must fit");

enum store_word { STORE_CLOCK, STORE_WRITE, STORE_DONE };

struct store_message
{
    enum store_word word;
    client_id client;
    uint64_t call;
    uint32_t reg;
    uint32_t not_after;
    uint64_t served;   /* For the checker: how often others had been served when it was sent. */
    uint64_t clock_ms; /* Of the server. */
    int status;
};

struct store_job
{
    bool active;
    uint64_t number;
    uint32_t conn;
    struct store_message message;
};

/* A write to the storage server that has not come to its end. */
struct store_write
{
    bool active;
    uint64_t call;
    uint32_t reg;
    uint64_t sent_ms; /* On the client's clock. */
    uint64_t served;  /* others_served() then. */
};

/* A call that waits for its answer; sent again on each new connection. */
struct call
{
    bool active;
    uint64_t sent_ms;  /* On the client's clock, the first time. */
    uint64_t since_ms; /* True time. */
    struct lease_message message;
};

struct client
{
    client_id id;
    uint32_t conn;
    struct lease_holder holder; /* On its own clock. */
    struct meta_cache *cache;   /* A register is an inode, and its value a time. */
    uint64_t returns_begun;
    uint64_t calls, join_sent_ms, renew_sent_ms, renew_call;
    struct lease_message join;
    struct call pending[CALLS_MAX];
    struct copy
    {
        uint64_t value; /* Held back. */
        bool dirty;     /* Nobody else has it. */
        bool reporting; /* Reported, and not answered yet: perhaps nobody else has it. */
        bool unsure;    /* A write to the storage server was given up, and may still land. */
        bool pinned;    /* In the table. */
    } copies[REGISTERS];
    struct lock_holder locks; /* Of its processes. */
    struct lock_call
    {
        bool active;
        bool granted; /* At its end. */
        struct lock_request request;
    } lock_calls[LOCK_CALLS]; /* Of the processes, and then of the open files. */
    struct store_side
    {
        uint32_t conn;
        bool greeted;
        uint64_t clock_ms, noted_ms; /* The server's clock, when ours was so. */
        uint64_t asked_ms, calls;
        struct store_write writes[STORE_WRITES_MAX];
    } store;
};

struct world
{
    struct db db;
    uint32_t client_count;
    struct client clients[CLIENT_FIRST + CLIENTS_MAX]; /* By node. */
    uint64_t values[REGISTERS];                        /* What the manager has. */
    uint64_t last_value;

    bool calm; /* The manager stands still at times; otherwise all is well. */
    struct presence presence;
    struct lease_table *leases;
    uint64_t timer_ms;
    client_id conn_client[CONNS_MAX];
    uint32_t parked_count;
    struct parked
    {
        uint64_t ticket;
        uint32_t conn;
        struct lease_message message;
    } parked[PARKED_MAX];
    struct kept
    {
        client_id client;
        uint64_t lease_epoch;
        bool holds;
    } kept[LEASE_EPOCHS_MAX];
    uint64_t lease_epochs_count;
    struct lock_table *lock_table;
    /* Who has what, as enum lock_type. */
    uint8_t judged[CLIENT_FIRST + CLIENTS_MAX][OWNERS][LOCK_FILES][LOCK_CELLS];
    uint32_t locking_count, undurable_count;
    struct parked locking[PARKED_MAX];   /* They wait for a lock ... */
    struct parked undurable[PARKED_MAX]; /* ... or for the disk. */
    uint64_t tickets;

    struct store_job store_jobs[STORE_JOBS_MAX];
    uint64_t store_jobs_begun;
    uint64_t give_up_ms;               /* Nobody knows then what becomes of a write. */
    client_id store_client[CONNS_MAX]; /* Of the connection; 0: has not spoken yet. */
    bool store_greeted[CONNS_MAX];
    uint64_t served[REGISTERS]; /* How often anybody was served. */
    uint32_t lives_count;
    struct life
    {
        client_id client;
        uint64_t served[REGISTERS];
    } lives[LIVES_MAX];

    bool quiet; /* Clients begin nothing new. */
};

/* The history was worth its time. */
enum {
    WORTH_CACHED_READ,
    WORTH_HELD_BACK,
    WORTH_STORED,
    WORTH_TOO_LATE,
    WORTH_LOCKED,
    WORTH_STEPPED_DOWN,
    WORTH_CONVERTED,
    WORTH_FENCED,
    WORTH_EXPIRED,
    WORTH_HELD_UP,
    WORTH_EVICTED,
    WORTH_CALM
};

struct world *world_of(struct sim *s);
const char *name_of(struct sim *s, client_id client);

static inline inode_id inode_of(uint32_t reg)
{
    return reg == REG_LOCKS ? INODE_LOCKS : REGISTER_INODE_FIRST + reg;
}

/* leases.c: something has happened to the holder; the times are filled in. */
void holder_step(struct sim *s, uint32_t node, struct lease_holder_event event);
void holder_feed(struct sim *s, uint32_t node, enum lease_holder_event_type type);
uint64_t holder_clock_ns(const struct sim *s, uint32_t node);
void client_send(struct sim *s, uint32_t node, struct lease_message *m);

/* leases_copies.c: what a client holds, holds back and gives back. */
void copies_client_start(struct sim *s, uint32_t node);
void copies_client_free(struct client *c);
void copies_client_up(struct sim *s, uint32_t node); /* JOIN was sent over a new connection. */
void copies_client_down(struct client *c);
void copies_tick(struct sim *s, uint32_t node);
void copies_fill_join(struct sim *s, uint32_t node, struct lease_message *m);
void copies_joined(struct sim *s, uint32_t node, const struct lease_message *m);
void copies_recall(struct sim *s, uint32_t node, const struct lease_message *m);
void copies_carry_out(struct sim *s, uint32_t node, const struct lease_holder_action *action);
void copies_learn(struct sim *s, uint32_t node, const struct lease_message *m);

/* Perhaps the answer to copy_report(). */
void copies_reported(struct sim *s, uint32_t node, const struct lease_message *m);

/* A write to the storage server has ended. */
void copies_settle(struct sim *s, uint32_t node);

bool copy_is_relied_on(struct sim *s, uint32_t node, uint32_t reg, enum lease_mode mode);

/* Read or write, where the lease allows it. False: the manager must be asked. */
bool copy_use(struct sim *s, uint32_t node, uint32_t reg, bool write);

/* The manager is to have what is dirty. */
void copy_report(struct sim *s, uint32_t node, uint32_t reg);

/* leases_manager.c, for leases_locks.c. */
uint64_t manager_clock_ms(struct sim *s);
void leases_dispatch(struct sim *s, uint32_t conn, const struct lease_message *m);
void leases_admit(struct sim *s, client_id client);

/* leases_locks.c: a client's side ... */
void locks_client_start(struct sim *s, uint32_t node);
void locks_client_up(struct sim *s, uint32_t node); /* JOIN was sent over a new connection. */
void locks_fill_join(struct sim *s, uint32_t node, struct lease_message *m);
void locks_client_joined(struct sim *s, uint32_t node, const struct lease_message *m);

/* False: it is not the answer to a lock, or one that is to be looked at otherwise too. */
bool locks_client_answered(struct sim *s, uint32_t node, const struct lease_message *m);

/* ... and the manager's. */
void locks_serve(struct sim *s, uint32_t conn, const struct lease_message *m);
void locks_cancel(struct sim *s, const struct lease_message *m);
void locks_tick(struct sim *s);
bool locks_join(struct sim *s, const struct lease_message *m); /* False: all are lost. */
void locks_gone(struct sim *s, client_id client);
void locks_over(struct sim *s, client_id client);
bool locks_finish(struct sim *s);

/* leases_judge.c: the client was granted this, or frees it; it has nothing any more; may everybody
 * have what he has? */
void judge_lock(struct sim *s, uint32_t node, const struct byte_lock *lock);
void judge_no_locks(struct sim *s, uint32_t node);
void judge_locks(struct sim *s, uint32_t node);

extern const struct sim_actor leases_manager, leases_store;

/* How often the manager has served others than the client; note that it has served somebody. */
uint64_t others_served(const struct world *w, client_id client, uint32_t reg);
void note_served(struct world *w, client_id client, uint32_t reg);

/* leases_store.c: a client writes a register that it holds under W. */
void store_write_begin(struct sim *s, uint32_t node, uint32_t reg);

/* Is a write to the register on its way, and not given up? */
bool store_is_written(const struct client *c, uint32_t reg);

/* The lease is lost: what has not been sent yet never will be. */
void store_lose(struct sim *s, uint32_t node, uint32_t reg);
void store_client_start(struct sim *s, uint32_t node);
void store_client_down(struct sim *s, uint32_t node);
void store_client_receive(struct sim *s, uint32_t node, const struct sim_message *message);

/* The manager reads (or changes) a register for `client`: nobody else may rely on it. In leases.c.
 */
void check_served(struct sim *s, client_id client, uint32_t reg, enum lease_access access);

#endif
