/* The members scenario: what its manager (members_manager.c) and its servers (members.c) share. */
#ifndef MORSEL_TESTS_SIM_MEMBERS_H
#define MORSEL_TESTS_SIM_MEMBERS_H

#include "meta/cluster/members.h"
#include "tests/sim/db.h"

enum {
    MANAGER = 0,
    PROCESSES_MAX = 6, /* Five servers and the twin of one. */
    HEARTBEAT_MS = 200,
    LIMIT_MS = HEARTBEAT_MS * MEMBERS_MISSED_MAX,
    CALL_MS = 1000,
    JOIN_MS_MAX = 6000, /* Servers are new at different times. */
    RETRY_MS = 150,
    RECONNECT_MS = 50,
    PERSIST_MS_MAX = 20,
    REQUESTS_MAX = 4096,
    IDS_MAX = 64,
    CONNS_MAX = 1 << 14
};

enum word { WORD_REGISTER, WORD_HEARTBEAT, WORD_REPLY };

struct member_message
{
    enum word word;
    uint64_t call;
    uint32_t token; /* Number of the data directory. */
    server_id hello_id, id;
    int status;
};

/* A process that serves a data directory. */
struct process
{
    uint32_t token; /* Number of its directory. */
    uint32_t conn;
    server_id hello_id; /* What it said when it connected. */
    bool registered, calling;
    enum word word;
    uint64_t call;
};

struct request
{
    uint32_t conn, token;
    uint64_t call;
    bool refused, answered;
};

/* What the checkers know, from what they saw go in and out. */
struct seen
{
    uint32_t token_of_id[IDS_MAX]; /* Plus 1; 0: never told. */
    server_id id_of_token[PROCESSES_MAX];
    uint64_t heard_ms[IDS_MAX];         /* On the manager's clock. */
    uint32_t owner_node[PROCESSES_MAX]; /* Of the token; 0: nobody. */
    uint32_t owner_conn[PROCESSES_MAX]; /* The one on which it was welcomed. */
    uint64_t owner_tag[PROCESSES_MAX];  /* Its registration. */
    uint64_t owner_heard_ms[PROCESSES_MAX];
};

struct world
{
    struct db db;
    struct members members;
    bool slow_persist; /* PERSIST takes time, as the header allows. */
    uint64_t timer_ms;
    uint32_t request_count;
    struct request requests[REQUESTS_MAX];
    server_id conn_id[CONNS_MAX]; /* Whose end would mean that this server is gone; 0: nobody. */
    struct member_record persisting[REQUESTS_MAX];
    uint32_t persisting_count;
    uint64_t persisted_ms; /* When the last of them is written. */
    uint32_t process_count;
    struct process processes[PROCESSES_MAX + 1]; /* By node. */
    server_id directory_id[PROCESSES_MAX];       /* What a directory remembers. */
    struct seen seen;
};

/* The history was worth its time. */
enum { WORTH_REFUSED, WORTH_DOWN, WORTH_WELCOME };

struct world *world_of(struct sim *s);

extern const struct sim_actor members_manager;

/* No two members share an id or a directory, and who is shown up was heard of. False after
 * sim_fail(). */
bool members_check(struct sim *s);

#endif
