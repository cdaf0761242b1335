/* Servers of a group, which the test plays, and a client that calls them, on one loop. */
#ifndef MORSEL_TESTS_GROUP_BENCH_H
#define MORSEL_TESTS_GROUP_BENCH_H

#include "client/manager/groups_uv.h"
#include "client/manager/servers_uv.h"

enum {
    ROUNDING_MS = 10,
    SERVERS = 2,
    GROUP = 3,
    SEEN_MAX = 64,
    CALL_MS = 30000,
    CALLS = GROUP_CHANGES_MAX + 1
};

static const uint64_t NS_PER_S = 1000000000;

enum says { ANSWERS, IS_NOT_HERE, IS_SILENT, IS_TOO_LATE };

struct seen
{
    op_sequence number, ended;
    uint64_t verifier, size;
    uint32_t not_after;
    bool again, handed_on;
    uint8_t first; /* Of its bytes. */
};

struct fixture;

struct member
{
    struct fixture *f;
    struct rpc *rpc;
    struct rpc_server *server;
    struct rpc_peer *peer;
    char address[64];
    enum says says;
    struct rpc_request *held[SEEN_MAX];
    unsigned held_count, count;
    struct seen seen[SEEN_MAX];
    bool heard;  /* It has told its clock lately. */
    bool talks;  /* It does, whatever it does not answer. */
    bool silent; /* The client has noted that. */
};

struct fixture
{
    uv_loop_t loop;
    struct client client;
    struct member members[SERVERS];
    struct client_group *group;
    uint64_t until_ns, epoch;
    bool ending;
    unsigned refreshed, closed, ended;
    int status;
    uint64_t took_ms;
    uv_timer_t tick;
};

struct call
{
    struct fixture *f;
    struct group_call group;
    uint64_t started_ns;
};

int group_bench_begin(void **state);
int group_bench_end(void **state);
void group_bench_start(struct fixture *f, struct call *call, bool changes, uint64_t timeout_ms,
                       uint64_t offset);
int group_bench_change(struct fixture *f, uint64_t offset);
void member_start(struct member *m, const char *address);
void run_until(struct fixture *f, const unsigned *counter, unsigned value);
void member_kill(struct member *m);
void assert_same(const struct seen *a, const struct seen *b);

#endif
