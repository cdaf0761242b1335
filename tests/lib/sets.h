/* Benefactors and clients that store data sets, for tests of the manager. */
#ifndef MORSEL_TESTS_LIB_SETS_H
#define MORSEL_TESTS_LIB_SETS_H

#include "tests/lib/meta_fixture.h"

#include <string.h>

enum { SETS_MORSEL = 64 << 10, SETS_DONATED_MORSELS = 1000 };

/* A process that serves a directory. */
struct sets_desk
{
    struct client c;
    uint8_t directory;
    uint64_t instance;
    uint32_t id;
    const char *name; /* Of its machine. */
    uint64_t donated, used, excess, pressed;
    bool leaving;
    unsigned orders; /* To fetch a morsel, which it has heard and does not follow. */
    unsigned asked;  /* So often it was asked to report at once. */
};

static inline int sets_desk_join(struct sets_desk *desk, bool told)
{
    Morsel__DonorJoinRequest request = MORSEL__DONOR_JOIN_REQUEST__INIT;
    Morsel__DonorReport report = MORSEL__DONOR_REPORT__INIT;
    Morsel__DonorJoinReply *reply = NULL;
    uint8_t token[16] = { desk->directory };
    int rv;

    report.donated = desk->donated;
    report.used = desk->used;
    request.token = (ProtobufCBinaryData){ sizeof(token), token };
    request.id = desk->id;
    request.instance = desk->instance;
    request.address = (char *)(uintptr_t) "10.0.0.1:7";
    request.name = (char *)(uintptr_t)desk->name;
    request.report = &report;
    request.held_told = told;
    rv = call(&desk->c, MSG_DONOR_JOIN, &request.base, &morsel__donor_join_reply__descriptor,
              &reply);
    if (rv == 0) {
        desk->id = reply->id;
        morsel__donor_join_reply__free_unpacked(reply, NULL);
    }
    return rv;
}

static inline void sets_desk_on_push(void *data, enum message_type type, const uint8_t *body,
                                     size_t body_count)
{
    struct sets_desk *desk = data;

    (void)body;
    (void)body_count;
    desk->orders += type == MSG_DONOR_FETCH;
    desk->asked += type == MSG_DONOR_WANTED;
}

/* The manager looks after copies by itself, and may tell a benefactor something at any time. */
static inline void sets_desk_connect(struct sets_desk *desk, struct fixture *f)
{
    client_open(&desk->c, f, ROLE_BENEFACTOR, 0);
    rpc_peer_watch(desk->c.peer, NULL, NULL, desk);
    rpc_peer_on_push(desk->c.peer, sets_desk_on_push);
}

/* Connects, and joins as a process that has nothing to tell any more. */
static inline void sets_desk_open(struct sets_desk *desk, struct fixture *f, uint8_t directory,
                                  uint64_t instance)
{
    *desk = (struct sets_desk){ .directory = directory,
                                .instance = instance,
                                .name = directory % 2 == 0 ? "even" : "odd",
                                .donated = (uint64_t)SETS_DONATED_MORSELS * SETS_MORSEL };
    sets_desk_connect(desk, f);
    assert_int_equal(sets_desk_join(desk, true), 0);
}

/* The next process on the same directory, which has not said what it has. */
static inline void sets_desk_again(struct sets_desk *desk, struct fixture *f, uint64_t instance)
{
    client_close(&desk->c);
    sets_desk_connect(desk, f);
    desk->instance = instance;
    while (sets_desk_join(desk, false) == MORSEL_BUSY) {
        uv_run(&f->loop, UV_RUN_ONCE); /* The end of the connection before has not been heard. */
    }
}

/* A report; the reply is the caller's. */
static inline Morsel__DonorReportReply *sets_report(struct sets_desk *desk,
                                                    Morsel__SetRun **collected, size_t count)
{
    Morsel__DonorReportRequest request = MORSEL__DONOR_REPORT_REQUEST__INIT;
    Morsel__DonorReport numbers = MORSEL__DONOR_REPORT__INIT;
    Morsel__DonorReportReply *reply = NULL;

    numbers.donated = desk->donated;
    numbers.used = desk->used;
    numbers.excess = desk->excess;
    numbers.pressed = desk->pressed;
    numbers.leaving = desk->leaving;
    request.id = desk->id;
    request.instance = desk->instance;
    request.report = &numbers;
    request.collected = collected;
    request.n_collected = count;
    assert_int_equal(call(&desk->c, MSG_DONOR_REPORT, &request.base,
                          &morsel__donor_report_reply__descriptor, &reply),
                     0);
    return reply;
}

/* A page of what it holds, from there on (NULL: from the first of all). */
static inline int sets_held_from(struct sets_desk *desk, Morsel__SetRun *from,
                                 Morsel__SetRun **held, size_t count, bool last,
                                 Morsel__DonorHeldReply **reply)
{
    Morsel__DonorHeldRequest request = MORSEL__DONOR_HELD_REQUEST__INIT;

    request.id = desk->id;
    request.instance = desk->instance;
    request.from = from;
    request.held = held;
    request.n_held = count;
    request.last = last;
    return call(&desk->c, MSG_DONOR_HELD, &request.base, &morsel__donor_held_reply__descriptor,
                reply);
}

static inline int sets_held(struct sets_desk *desk, Morsel__SetRun **held, size_t count, bool last,
                            Morsel__DonorHeldReply **reply)
{
    return sets_held_from(desk, NULL, held, count, last, reply);
}

/* ---- A client ---- */

struct sets_file
{
    inode_id inode;
    uint64_t set;
};

static inline void sets_policy(struct client *c, inode_id directory, uint32_t replicas)
{
    Morsel__PolicyRequest request = MORSEL__POLICY_REQUEST__INIT;
    Morsel__Policy policy = MORSEL__POLICY__INIT;
    Morsel__OpId op = next_op(c);

    policy.class_ = CLASS_SCAVENGED;
    policy.replicas = replicas;
    policy.morsel_bytes = SETS_MORSEL;
    policy.width = 2;
    request.op = &op;
    request.inode = directory;
    request.set = true;
    request.policy = &policy;
    assert_int_equal(call(c, MSG_POLICY, &request.base, NULL, NULL), 0);
}

static inline struct sets_file sets_make(struct client *c, const char *name)
{
    struct sets_file file;

    file.inode = make(c, INODE_ROOT, name, 0100644, true);
    file.set = file.inode;
    return file;
}

static inline int sets_place_in(struct client *c, struct sets_file file, uint32_t first,
                                uint32_t count, uint32_t failed, Morsel__SetPlaceReply **reply)
{
    Morsel__SetPlaceRequest request = MORSEL__SET_PLACE_REQUEST__INIT;

    request.inode = file.inode;
    request.set = file.set;
    request.first = first;
    request.count = count;
    request.failed = &failed;
    request.n_failed = failed != 0;
    return call(c, MSG_SET_PLACE, &request.base, &morsel__set_place_reply__descriptor, reply);
}

/* One morsel, full, at these benefactors, of which the first `parts` were sent a part of it; or it is announced that it is going
 * to be written anew. */
static inline int sets_stored_in(struct client *c, struct sets_file file, uint32_t number,
                                 struct sets_desk *const *desks, size_t count, size_t parts,
                                 bool rewriting)
{
    Morsel__SetStoredRequest request = MORSEL__SET_STORED_REQUEST__INIT;
    Morsel__SetMorsel morsel = MORSEL__SET_MORSEL__INIT, *morsels = &morsel;
    Morsel__DonorPlace places[4], *pointers[4];
    uint32_t donors[4];
    Morsel__OpId op = next_op(c);

    for (size_t i = 0; i < count; i++) {
        morsel__donor_place__init(&places[i]);
        places[i].id = donors[i] = desks[i]->id;
        places[i].instance = desks[i]->instance;
        pointers[i] = &places[i];
    }
    morsel.number = number;
    morsel.length = SETS_MORSEL;
    morsel.digest = 1000 + number;
    morsel.rewriting = rewriting;
    morsel.donors = donors;
    morsel.n_donors = count;
    morsel.parts = donors;
    morsel.n_parts = parts;
    request.op = &op;
    request.inode = file.inode;
    request.set = file.set;
    request.morsels = &morsels;
    request.n_morsels = 1;
    request.places = pointers;
    request.n_places = count;
    request.size = (uint64_t)(number + 1) * SETS_MORSEL;
    request.durable = true;
    return call(c, MSG_SET_STORED, &request.base, NULL, NULL);
}

static inline int sets_stored_as(struct client *c, struct sets_file file, uint32_t number,
                                 struct sets_desk *const *desks, size_t count, bool rewriting)
{
    return sets_stored_in(c, file, number, desks, count, 0, rewriting);
}

static inline int sets_stored(struct client *c, struct sets_file file, uint32_t number,
                              struct sets_desk *const *desks, size_t count)
{
    return sets_stored_as(c, file, number, desks, count, false);
}

static inline int sets_seal_file(struct client *c, struct sets_file file, uint64_t size)
{
    Morsel__SetSealRequest request = MORSEL__SET_SEAL_REQUEST__INIT;
    Morsel__OpId op = next_op(c);

    request.op = &op;
    request.inode = file.inode;
    request.set = file.set;
    request.size = size;
    return call(c, MSG_SET_SEAL, &request.base, NULL, NULL);
}

static inline int sets_map(struct client *c, struct sets_file file, Morsel__SetMapReply **reply)
{
    Morsel__SetMapRequest request = MORSEL__SET_MAP_REQUEST__INIT;

    request.inode = file.inode;
    request.set = file.set;
    request.count = SET_MAP_MAX;
    return call(c, MSG_SET_MAP, &request.base, &morsel__set_map_reply__descriptor, reply);
}

/* Truncate; the number of the set then. */
static inline int sets_truncate(struct client *c, struct sets_file *file, uint64_t size)
{
    Morsel__SetattrRequest request = MORSEL__SETATTR_REQUEST__INIT;
    Morsel__OpId op = next_op(c);
    Morsel__Node *node = NULL;
    int rv;

    request.op = &op;
    request.inode = file->inode;
    request.valid = SETATTR_SIZE;
    request.size = size;
    rv = call(c, MSG_SETATTR, &request.base, &morsel__node__descriptor, &node);
    if (rv == 0) {
        file->set = node->layout->body != 0 ? node->layout->body : file->inode;
        morsel__node__free_unpacked(node, NULL);
    }
    return rv;
}

#endif
