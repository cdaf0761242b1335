/* A benefactor in one process with a manager and a client that the test plays itself, all on one loop. */
#ifndef MORSEL_TESTS_BENEFACTOR_BENCH_H
#define MORSEL_TESTS_BENEFACTOR_BENCH_H

#include "benefactor/benefactor_uv.h"
#include "common/rpc/address.h"
#include "data.pb-c.h"
#include "dataset.pb-c.h"
#include "meta.pb-c.h"

enum { CALL_MS = 10000, DONOR = 9, HELD_MAX = 20000 };

struct bench
{
    uv_loop_t loop;
    char dir[64];
    struct benefactor_settings settings;
    struct benefactor benefactor;
    unsigned ready, failed, left;

    struct rpc *manager; /* Played by the test. */
    struct rpc_server *manager_server;
    struct cluster_id cluster;
    unsigned joins, reports, leaves, refusals, gone;
    unsigned refuse; /* So many of the next JOINs, */
    int refuse_with; /* with this. */
    bool forget;     /* The next report is of nobody that is known. */
    bool silent;     /* A report that it leaves has no answer. */
    uint32_t report_ms;
    uint64_t donate;       /* What the owner gives; 1 MiB unless a test says otherwise. */
    bool held_told;        /* In its last JOIN. */
    unsigned pages, lasts; /* HELD: how many, and how many of them were the last one. */
    unsigned pages_before; /* So many of the next ones are answered; */
    unsigned pages_lost;   /* so many of the next ones have no answer, and the connection ends; */
    unsigned pages_again;  /* of so many the answer is that they come again. */
    struct morsel_run held[HELD_MAX]; /* That they have named since the last first one. */
    size_t held_count;
    struct morsel_run drop;       /* The answer to the next one; count 0: nothing. */
    struct morsel_run collect[4]; /* To be said in answer to each report until it is confirmed. */
    size_t collect_count;
    size_t collected_last;  /* How many were confirmed last. */
    unsigned collected;     /* Reports that have confirmed them. */
    bool forgets_collected; /* Those are not heard. */
    rpc_handler other; /* Requests to the manager that it does not know itself; NULL: refused. */
    void *other_data;
    uint8_t token[16];
    uint32_t id_told;
    uint64_t instance, donated, used, up_s;
    char address[ADDRESS_TEXT_MAX], name[256];

    struct rpc *client;
    struct rpc_peer *peer;
    struct rpc_call call;
    bool answered;
    int status;
    char text[256];
    uint8_t got[FRAME_PAYLOAD_BYTES_MAX]; /* The payload of the last answer. */
    size_t got_count;
    const char *counter_name;
    uint64_t counter;
    unsigned counters, closed;
};

void bench_init(struct bench *b);

/* Play the manager, at that address. */
void bench_start_manager(struct bench *b, const char *address);

/* Start the benefactor. */
int bench_start(struct bench *b, struct errmsg *err);

/* Run the loop until the counter, which something on it counts up, has that value. */
void bench_until(struct bench *b, const unsigned *counter, unsigned value);

/* Run the loop until morsels are taken. */
void bench_until_open(struct bench *b);

/* Only the benefactor ends, and its directory may be opened again. */
void bench_end_benefactor(struct bench *b);
void bench_close(struct bench *b, struct rpc **rpc);

/* Stops everything; the loop must run empty by itself. */
void bench_end(struct bench *b);

/* For benefactor_leave(). */
void bench_left(void *data);

/* Play a client, too. */
void bench_connect(struct bench *b);

/* A request of the client; its status. */
int bench_call(struct bench *b, enum message_type type, const ProtobufCMessage *request);

/* One that must be there. */
uint64_t bench_counter(struct bench *b, const char *name);

/* Requests for a morsel; their status. */
int bench_write(struct bench *b, uint64_t set, uint32_t morsel, uint64_t offset, const void *bytes,
                size_t count);
int bench_read(struct bench *b, uint64_t set, uint32_t morsel, uint64_t offset, size_t count);
int bench_sync(struct bench *b, uint64_t set, uint32_t morsel);

#endif
