/* A manager on the loop of the test, and clients and storage servers that call it, for tests. */
#ifndef MORSEL_TESTS_META_FIXTURE_H
#define MORSEL_TESTS_META_FIXTURE_H

#include "meta/meta_uv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { CALL_MS = 20000 };

struct fixture
{
    char root[64];
    uv_loop_t loop;
    struct meta_settings settings;
    struct datadir datadir;
    struct meta *meta;
    uint32_t closing;
    uint32_t clients; /* That are open. */
};

struct client
{
    struct fixture *f;
    struct rpc *rpc;
    struct rpc_peer *peer;
    uint64_t id;
    uint64_t sequence;
    bool caches;
    bool pauses;           /* It says that it knows how to hold files still. */
    unsigned recalls;      /* Received. */
    Morsel__Recall recall; /* The last one. */
    inode_id lock_revoke;
};

struct waiting_call
{
    struct rpc_call call;
    bool done;
    int status;
    const ProtobufCMessageDescriptor *reply_type;
    void *reply;
};

void meta_up(struct fixture *f);

void wait_closed(struct fixture *f);

void meta_down(struct fixture *f);

int setup(void **state);

/* Of a test that failed in the middle nothing is run any more: what is still open lay on its stack. */
int teardown(void **state);

void start(struct client *c, struct waiting_call *w, enum message_type type,
           const ProtobufCMessage *request);

/* Call and wait. The reply, if wanted, goes to `reply` and is the caller's. */
int call(struct client *c, enum message_type type, const ProtobufCMessage *request,
         const ProtobufCMessageDescriptor *reply_type, void *reply);

void client_open(struct client *c, struct fixture *f, enum rpc_role role, uint64_t id);

void client_close(struct client *c);

int ask_session(struct client *c);

void client_join(struct client *c, struct fixture *f, uint64_t id);

Morsel__OpId next_op(struct client *c);

ProtobufCBinaryData bytes(const char *s);

/* Register a storage server and return its id. */
uint32_t register_server(struct client *c, uint8_t number);

int make_with(struct client *c, Morsel__OpId op, inode_id parent, const char *name, uint32_t mode,
              bool open, inode_id *inode);

inode_id make(struct client *c, inode_id parent, const char *name, uint32_t mode, bool open);

int unlink_with(struct client *c, Morsel__OpId op, const char *name, Morsel__Removed **reply);

int lookup(struct client *c, const char *name, enum lease_mode *lease);

void wrote(struct client *c, inode_id inode, uint64_t size);

uint64_t garbage_of(struct fixture *f);

/* One heartbeat that reports what the last one brought; how many objects are to be deleted now. */
size_t beat(struct client *iod, uint32_t id, Morsel__HeartbeatReply **last);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
