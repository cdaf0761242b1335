/* The sessions scenario: what its manager (sessions_manager.c) and its clients (sessions.c) share.
 */
#ifndef MORSEL_TESTS_SIM_SESSIONS_H
#define MORSEL_TESTS_SIM_SESSIONS_H

#include "meta/coherence/session.h"
#include "tests/sim/db.h"

enum {
    MANAGER = 0,
    CLIENTS_MAX = 4,
    SESSION_MS = 2400,
    PATIENCE_MS = 300,
    SETTLE_MS = 100,
    KEPT_MAX = 256, /* Sessions that end while the manager is down are struck out later. */
    OPENS_MAX = 8,
    CALLS_MAX = 4,
    PARKED_MAX = 64,
    INODES_MAX = 1024,
    CONNS_MAX = 1 << 12
};

enum word {
    WORD_ASK,
    WORD_LEAVE,
    WORD_READ,
    WORD_MAKE,
    WORD_UNLINK,
    WORD_OPEN,
    WORD_CLOSE,
    WORD_REPLY
};

struct session_message
{
    enum word word;
    client_id client;
    uint64_t call;
    inode_id inode; /* OPEN, CLOSE; in the reply to MAKE and OPEN. */
    char name[4];   /* MAKE, UNLINK */
    uint32_t opens_count;
    inode_id opens[OPENS_MAX]; /* ASK */
    int status;
};

/* A call that waits for its answer; sent again on each new connection. */
struct call
{
    bool active;
    uint64_t started_ms;
    struct session_message message;
};

struct client
{
    client_id id;
    uint32_t conn;
    bool asking;
    uint64_t calls; /* Ever made; numbers them. */
    struct session_message ask;
    struct call pending[CALLS_MAX];
    uint32_t open_count;
    inode_id open[OPENS_MAX]; /* Files that it holds open. */
};

struct world
{
    struct db db;
    uint32_t client_count;
    struct client clients[CLIENTS_MAX + 1]; /* By node. */
    uint32_t made_count;
    inode_id made[INODES_MAX];

    struct session_table *sessions;
    uint64_t run; /* Another one when the manager has lost its power. */
    uint64_t started_ms, timer_ms;
    client_id conn_client[CONNS_MAX];
    uint32_t parked_count;
    struct parked
    {
        uint32_t conn;
        struct session_message message;
    } parked[PARKED_MAX];

    /* What the checkers know. By node: when the manager heard from it last, on the manager's clock.
     */
    uint64_t heard_ms[CLIENTS_MAX + 1];
    uint64_t waited_ms[CLIENTS_MAX + 1]; /* In starts before this one, since it was heard. */
    client_id admitted[CLIENTS_MAX + 1]; /* For the trace: who is told of only once. */
    uint64_t healed_ms;
    bool quiet; /* Clients begin nothing new. */
};

/* The history was worth its time. */
enum { WORTH_SILENT, WORTH_GONE, WORTH_GRACE, WORTH_WAITED };

struct world *world_of(struct sim *s);

extern const struct sim_actor sessions_manager;

/* ---- Checkers, in sessions.c ---- */

/* The inode and its bytes go for good: no live client may hold it open. */
void check_destroyed(struct sim *s, inode_id inode);

#endif
