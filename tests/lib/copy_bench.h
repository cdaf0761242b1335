/* Two copies of a group in one process, each with a store of its own. The test plays clients and voters,
 * and carries what members say to each other, or loses it. */
#ifndef MORSEL_TESTS_COPY_BENCH_H
#define MORSEL_TESTS_COPY_BENCH_H

#include "common/base/prng.h"
#include "iod/replica/copy_uv.h"

enum {
    MEMBERS = 2,
    GROUP = 5,
    CLIENT = 77,
    HELD_MAX = 64,
    WORDS_MAX = 256,
    EPOCHS_MAX = 64,
    CALL_MS = 60000,
    PATIENCE_MS = 60000,
    STEP_MS = 10,
    LEASE_MS = 100,
    PART = 65536
};

struct bench;

struct node
{
    struct bench *bench;
    uint32_t me;
    char dir[128];
    struct object_server server;
    struct copy *copy;
    struct rpc_peer *to[MEMBERS]; /* Of its own rpc. */
    struct rpc_peer *from_client;
    struct mirror_lease leases[REPLICAS_MAX];
    const struct mirror_lease *lease_pointers[REPLICAS_MAX];
    bool up, known, closed;
};

struct held
{
    uint32_t to;
    Morsel__ReplicaMessage *message;
    struct rpc_request *request;
};

struct said
{
    uint32_t from;
    struct group_word word;
};

struct asked
{
    struct rpc_call call;
    bool answered;
    int status;
    uint8_t bytes[PART];
    size_t count;
};

struct bench
{
    uv_loop_t loop;
    uv_timer_t timer;
    char dir[64];
    struct node nodes[MEMBERS];
    struct rpc *client;
    uint64_t starts, leased_ms;
    group_set decided[EPOCHS_MAX]; /* By epoch; 0: not yet. */
    uint64_t wanted[MEMBERS];      /* For which epoch it waits; 0: none. */
    struct said words[WORDS_MAX];
    uint32_t words_count;
    struct held held[HELD_MAX];
    uint32_t held_count;
    struct prng prng;
    uint32_t loss, delay;   /* Of messages between members, in 100. */
    bool words_stop;        /* Those that say what a member is are lost, */
    bool words_come;        /* or come whatever is lost. */
    bool deaf;              /* All of them are lost. */
    bool settled;           /* Reads are of somebody who knows that nobody changes what he reads. */
    bool full;              /* The disk of one of them is. */
    unsigned lost_forwards; /* Of those. */
    uint64_t said_bytes;    /* Of payload, between members. */
    op_sequence number;     /* Of the last change of the client. */
    uint64_t verifier;      /* That it names with a write; 0: it knows none. */
    size_t gone;
    bool deleted;
};

#define UNTIL(b, condition)                                                                        \
    do {                                                                                           \
        uint64_t until_ms = rpc_boot_ms() + PATIENCE_MS;                                           \
                                                                                                   \
        while (!(condition)) {                                                                     \
            if (rpc_boot_ms() > until_ms) {                                                        \
                fail_msg("this did not come: %s", #condition);                                     \
            }                                                                                      \
            uv_run(&(b)->loop, UV_RUN_ONCE);                                                       \
        }                                                                                          \
    } while (0)

/* cmocka's setup and teardown. They are in sync, and the first one serves. */
int bench_begin(void **state);
int bench_end(void **state);

/* A member begins again with what its directory has, and ends without writing anything that a process
 * which is killed would not have written; with bench_kill() the other one knows. */
void bench_start(struct bench *b, uint32_t i);
void bench_stop(struct bench *b, uint32_t i);
void bench_kill(struct bench *b, uint32_t i);

bool bench_joined(const struct bench *b, uint32_t i);
bool bench_orders(const struct bench *b, uint32_t i);
bool bench_serves(const struct bench *b,
                  uint32_t i);             /* It orders, and holds the leases for reads. */
bool bench_in_sync(const struct bench *b); /* Both, and joined. */

/* ---- A client: the status that it is answered ---- */

struct object_id bench_object(inode_id inode);
void bench_ask_write(struct bench *b, uint32_t i, struct asked *a, inode_id inode, uint64_t offset,
                     const void *bytes, size_t count, op_sequence number);
void bench_ask_read(struct bench *b, uint32_t i, struct asked *a, inode_id inode, uint32_t length);
int bench_write_as(struct bench *b, uint32_t i, inode_id inode, uint64_t offset, const void *bytes,
                   size_t count, op_sequence number);
int bench_write_text(struct bench *b, uint32_t i, inode_id inode, uint64_t offset,
                     const char *text);

/* Of `length` bytes of one object to another one, or to elsewhere in it. */
struct bench_copy
{
    inode_id from, to;
    uint64_t from_offset, to_offset;
    uint32_t length;
};
void bench_ask_copy(struct bench *b, uint32_t i, struct asked *a, const struct bench_copy *copy,
                    op_sequence number);
int bench_copy_as(struct bench *b, uint32_t i, const struct bench_copy *copy, op_sequence number);

/* At whoever orders by now, the same change again and again. */
int bench_write_on(struct bench *b, inode_id inode, uint64_t offset, const void *bytes,
                   size_t count);
int bench_truncate(struct bench *b, uint32_t i, inode_id inode, uint64_t size);
int bench_sync(struct bench *b, uint32_t i, inode_id inode);

/* copy_delete(): how many are gone. */
size_t bench_delete(struct bench *b, uint32_t i, inode_id inode);

/* ---- What is on the disks ---- */

void bench_assert_text(struct bench *b, uint32_t i, inode_id inode, const char *text);
void bench_assert_same(struct bench *b, inode_id inode); /* Length, bytes, and where holes are. */

#endif
