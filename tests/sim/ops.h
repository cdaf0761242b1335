/* The ops scenario: what its manager (ops_manager.c) and its clients (ops.c) share. */
#ifndef MORSEL_TESTS_SIM_OPS_H
#define MORSEL_TESTS_SIM_OPS_H

#include "common/rpc/op_numbers.h"
#include "meta/service/reply_cache.h"
#include "tests/sim/db.h"
#include "tests/sim/model.h"

enum {
    MANAGER = 0,
    CLIENTS_MAX = 4,
    PENDING_MAX = 6,
    RETRY_MS = 60,
    TIMEOUT_MS = 3000, /* As io_timeout. */
    RECONNECT_MS = 50,
    THINK_MS_MAX = 60,
    APPLIED_MAX = 4096,
    REFUSED_MAX = 8192,
    KNOWN_MAX = 8
};

enum word { WORD_CHANGE, WORD_FSYNC, WORD_REPLY };

struct op_message
{
    enum word word;
    client_id client;
    op_sequence sequence, answered;
    struct change change;
    int status;
    struct op_outcome outcome;
};

struct pending
{
    bool active;
    uint64_t started_ms;
    struct op_message message;
};

struct client
{
    client_id id;
    struct op_numbers numbers;
    op_sequence numbers_out[CLIENT_OPS_PENDING_MAX];
    uint32_t conn;
    uint64_t fsync; /* Number of the one that waits; 0: none. */
    struct pending pending[PENDING_MAX];
    inode_id known[KNOWN_MAX]; /* Inodes that it has heard of. */
};

/* What was seen of one record of the log. `client` 0: nothing that a client asked for. */
struct applied
{
    client_id client;
    op_sequence sequence;
    struct change change;
    struct op_outcome outcome;
    uint64_t committed_ms;
};

struct refused
{
    client_id client;
    op_sequence sequence;
};

struct world
{
    struct db db;
    struct reply_cache *window;
    bool datagrams;
    uint32_t client_count;
    struct client clients[CLIENTS_MAX + 1]; /* By node. */
    uint64_t count, durable;
    struct applied log[APPLIED_MAX + 1];
    uint32_t refused_count;
    struct refused refused[REFUSED_MAX]; /* What clients believe to have failed. */
    struct model model;
    uint64_t fsyncs;
    struct
    {
        uint32_t conn, node;
        uint64_t number, count;
    } fsync[APPLIED_MAX];
    uint64_t healed_ms;
};

/* The history was worth its time. */
enum { WORTH_AGAIN, WORTH_DONE, WORTH_TAKEN_BACK };

struct world *world_of(struct sim *s);

extern const struct sim_actor ops_manager;

/* The change in the log; NULL: it was not applied, or a loss of power took it back. */
struct applied *find_applied(struct world *w, client_id client, op_sequence sequence);

/* Names, links and numbers of the namespace are those of the model. */
void check_namespace(struct sim *s);

#endif
