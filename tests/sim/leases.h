/* The leases scenario: what its manager (leases_manager.c) and its clients (leases.c) share. */
#ifndef MORSEL_TESTS_SIM_LEASES_H
#define MORSEL_TESTS_SIM_LEASES_H

#include "meta/lease.h"
#include "tests/sim/db.h"

enum {
    MANAGER = 0,
    CLIENTS_MAX = 4,
    REGISTERS = 5,
    CALLS_MAX = 3,
    PARKED_MAX = 64,
    CONNS_MAX = 1 << 12
};

enum word {
    WORD_JOIN,
    WORD_RENEW,
    WORD_READ,   /* The register, and R. */
    WORD_WRITE,  /* Through: the manager has the value when it answers. */
    WORD_OPEN,   /* W is wanted. */
    WORD_REPORT, /* What was held back under W. */
    WORD_RETURN,
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
    enum lease_mode held[REGISTERS]; /* JOIN */
    bool lost[REGISTERS];            /* The reply to JOIN. */
    int status;
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
    bool joined; /* The manager has answered JOIN, and takes our word. */
    bool joining;
    uint64_t term_until_ms; /* On its own clock. */
    uint64_t calls, join_sent_ms;
    struct lease_message join;
    struct call pending[CALLS_MAX];
    struct copy
    {
        enum lease_mode mode;
        bool known;
        uint64_t value;
        bool dirty;      /* Held back: nobody else has the value. */
        bool reporting;  /* Reported, and not answered yet: perhaps nobody else has it. */
        uint64_t recall; /* To be answered; what may be kept is in `keep`. */
        enum lease_mode keep;
    } copies[REGISTERS];
};

struct world
{
    struct db db;
    uint32_t client_count;
    struct client clients[CLIENTS_MAX + 1]; /* By node. */
    uint64_t values[REGISTERS];             /* What the manager has. */
    uint64_t last_value;

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

    bool quiet;                       /* Clients begin nothing new. */
    uint64_t cached_reads, held_back; /* The history was worth its time. */
};

struct world *world_of(struct sim *s);
const char *name_of(struct sim *s, client_id client);

extern const struct sim_actor leases_manager;

/* The manager reads (or changes) a register for `client`: nobody else may rely on it. In leases.c.
 */
void check_served(struct sim *s, client_id client, uint32_t reg, enum lease_access access);

#endif
