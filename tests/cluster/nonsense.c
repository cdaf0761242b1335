/* Sound frames with nonsense inside: every request of the wire, filled with values that nobody
 * would send, to a real manager and a real I/O daemon. Each must be answered, whatever the answer,
 * on a connection that stays up.
 *
 *   nonsense MANAGER-PORT IOD-PORT MEMBER INODE DIRECTORY SEED ROUNDS
 *
 * First each field of each request in turn takes each of the strange values while the others are
 * plausible, from a client with a session; then ROUNDS requests are drawn at random, from all kinds
 * of peers. MEMBER is a server that has a group with that I/O daemon, and for which one of the peers
 * passes itself off: the group may come to harm. INODE and DIRECTORY are ids of a file and a directory that may come to harm.
 */
#include "common.pb-c.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "data.pb-c.h"
#include "lib/wire.h"
#include "meta.pb-c.h"
#include "nonsense_make.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ANSWER_MS = 60000,
    CANCEL_MS = 50,  /* A lock that waits so long is given up. */
    PEER_CLIENT = 0, /* Places in the list of peers. */
    PEER_OF_IOD = 1,
    PEER_SERVER = 5,
    PEER_CANDIDATE = 8,
    PEER_MANAGER = 9,
    PEER_MEMBER = 10,
    PEER_BENEFACTOR = 11,
    PEERS = 12,
    PAYLOAD_BYTES = 64 << 10
};

/* Whom the servers believe to talk to. */
struct peer
{
    bool iod; /* Of which it asks. */
    enum wire_role role;
    bool joins;
    int fd;
    uint64_t node_id;
    uint64_t last_id;
};

struct test
{
    uint16_t meta_port, iod_port;
    uint64_t member;
    struct prng prng;
    struct maker maker;
    struct peer peers[PEERS];
    uint64_t sent, answered[2]; /* Well; with a failure. */
    uint64_t by_status[64];
    uint8_t payload[PAYLOAD_BYTES];
};

static void fail_request(const struct test *t, const struct peer *peer,
                         const struct request_type *type, const char *what)
{
    printf("FAILED: request %" PRIu64 ", %s to the %s as role %d: %s (place %zu, choice %zu)\n",
           t->sent, message_name(type->type), peer->iod ? "I/O daemon" : "manager", peer->role,
           what, t->maker.place, t->maker.choice);
    exit(1);
}

/* ---- Peers ---- */

static bool join(struct peer *peer)
{
    Morsel__SessionRequest request = MORSEL__SESSION_REQUEST__INIT;
    struct frame_header header = { .type = MSG_SESSION, .request_id = ++peer->last_id };
    struct wire_frame reply;

    request.cache = true;
    request.number = 1;
    if (!wire_send_message(peer->fd, &header, &request.base) ||
        wire_receive(peer->fd, ANSWER_MS, &reply) != 0) {
        return false;
    }
    free(reply.body);
    return reply.header.status == 0;
}

/* Anew, as somebody who was never here. */
static void peer_open(struct test *t, struct peer *peer)
{
    if (peer->fd >= 0) {
        (void)close(peer->fd);
    }
    peer->node_id = peer == &t->peers[PEER_MEMBER] ? t->member : prng_next(&t->prng) | 1;
    peer->last_id = 1;
    peer->fd = wire_connect(peer->iod ? t->iod_port : t->meta_port);
    if (peer->fd < 0 || !wire_greet(peer->fd, peer->role, peer->node_id) ||
        (peer->joins && !join(peer))) {
        printf("FAILED: the %s does not take a connection after %" PRIu64 " requests\n",
               peer->iod ? "I/O daemon" : "manager", t->sent);
        exit(1);
    }
}

/* What is recalled is given back, so that nobody is waited for. */
static void answer_push(struct peer *peer, const struct wire_frame *frame)
{
    Morsel__RecallNotice *notice;
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    struct frame_header header = { .type = MSG_RETURN, .flags = FRAME_ONEWAY };

    if (frame->header.type != MSG_RECALL) {
        return;
    }
    notice = (Morsel__RecallNotice *)protobuf_c_message_unpack(
        &morsel__recall_notice__descriptor, NULL, frame->header.body_length, frame->body);
    CHECK(notice != NULL);
    for (size_t i = 0; i < notice->n_recalls; i++) {
        Morsel__Return given = MORSEL__RETURN__INIT, *list = &given;

        given.recall = notice->recalls[i]->recall;
        given.inode = notice->recalls[i]->inode;
        request.n_returns = 1;
        request.returns = &list;
        header.request_id = ++peer->last_id;
        (void)wire_send_message(peer->fd, &header, &request.base);
    }
    protobuf_c_message_free_unpacked(&notice->base, NULL);
}

static void cancel_lock(struct peer *peer, uint64_t number)
{
    Morsel__LockCancel cancel = MORSEL__LOCK_CANCEL__INIT;
    struct frame_header header = { .type = MSG_LOCK_CANCEL,
                                   .flags = FRAME_ONEWAY,
                                   .request_id = ++peer->last_id };

    cancel.number = number;
    (void)wire_send_message(peer->fd, &header, &cancel.base);
}

/* The others must not leave a recall unanswered while one waits. */
static void serve_others(struct test *t, const struct peer *asking)
{
    for (unsigned i = 0; i < PEERS; i++) {
        struct wire_frame frame;

        while (&t->peers[i] != asking && t->peers[i].joins &&
               wire_receive(t->peers[i].fd, 0, &frame) == 0) {
            answer_push(&t->peers[i], &frame);
            free(frame.body);
        }
    }
}

/* ---- Requests ---- */

/* A file that was just made is the next to come to harm, for those before it may be gone. */
static void take_inode(struct test *t, const struct wire_frame *frame)
{
    Morsel__Node *node = (Morsel__Node *)protobuf_c_message_unpack(
        &morsel__node__descriptor, NULL, frame->header.body_length, frame->body);

    CHECK(node != NULL);
    if (node->attr != NULL) {
        t->maker.inode = node->attr->inode;
    }
    protobuf_c_message_free_unpacked(&node->base, NULL);
}

static void wait_answer(struct test *t, struct peer *peer, const struct request_type *type,
                        uint64_t id, uint64_t lock_number)
{
    uint64_t until_ms = wire_now_ms() + ANSWER_MS;
    struct wire_frame frame;

    for (;;) {
        if (wire_receive(peer->fd, CANCEL_MS, &frame) == 0) {
            bool is_answer =
                (frame.header.flags & FRAME_REPLY) != 0 && frame.header.request_id == id;

            answer_push(peer, &frame);
            if (is_answer && type->type == MSG_CREATE && frame.header.status == 0) {
                take_inode(t, &frame);
            }
            free(frame.body);
            if (is_answer) {
                break;
            }
        } else if (errno != ETIMEDOUT) {
            fail_request(t, peer, type, "the connection was closed instead of an answer");
        } else if (wire_now_ms() > until_ms) {
            fail_request(t, peer, type, "no answer");
        } else if (type->type == MSG_LOCK) {
            cancel_lock(peer, lock_number);
        }
        serve_others(t, peer);
    }
    t->answered[frame.header.status != 0]++;
    t->by_status[(unsigned)-frame.header.status % 64]++;
    if (peer->joins && (frame.header.status == MORSEL_NO_SESSION || type->type == MSG_SESSION)) {
        peer_open(t, peer);
    }
}

/* Bytes for a WRITE, mostly with the checksums that it needs. */
static size_t add_payload(struct test *t, const struct request_type *type, Morsel__WriteRequest *m,
                          uint32_t crcs[PAYLOAD_BYTES / BLOCK_BYTES + 1])
{
    size_t count = type->type == MSG_WRITE || prng_below(&t->prng, 50) == 0
                       ? 1 + prng_below(&t->prng, PAYLOAD_BYTES)
                       : 0;

    if (type->type != MSG_WRITE || prng_below(&t->prng, 4) == 0) {
        return count;
    }
    crc32c_of_pieces(m->offset, t->payload, count, crcs);
    m->crcs.data = (uint8_t *)crcs;
    m->crcs.len = crc32c_pieces(m->offset, count) * sizeof(crcs[0]);
    return count;
}

static uint64_t lock_number_of(const struct request_type *type, const ProtobufCMessage *message)
{
    return type->type == MSG_LOCK ? ((const Morsel__LockRequest *)message)->number : 0;
}

static void send_one(struct test *t, struct peer *peer, const struct request_type *type)
{
    uint32_t crcs[PAYLOAD_BYTES / BLOCK_BYTES + 1];
    struct frame_header header = { .type = (uint16_t)type->type };
    ProtobufCMessage *message;
    size_t payload_count, count;
    uint8_t *body;

    t->maker.client = peer->node_id;
    t->maker.sequence++;
    t->maker.number++;
    message = (ProtobufCMessage *)(uintptr_t)maker_run(&t->maker, type);
    payload_count = add_payload(t, type, (Morsel__WriteRequest *)message, crcs);
    count = protobuf_c_message_get_packed_size(message);
    if (count > FRAME_BODY_BYTES_MAX) {
        return;
    }
    body = malloc(count + 1);
    CHECK(body != NULL);
    (void)protobuf_c_message_pack(message, body);
    header.request_id = ++peer->last_id;
    if (t->maker.prng != NULL && prng_below(&t->prng, 8) == 0) {
        header.deadline_ms = prng_below(&t->prng, 2) == 0 ? 1 : UINT32_MAX;
        header.not_after = (uint32_t)prng_next(&t->prng);
    }
    t->sent++;
    if (!wire_send(peer->fd, &header, body, count, t->payload, payload_count)) {
        fail_request(t, peer, type, "the connection was closed while it was sent");
    }
    free(body);
    wait_answer(t, peer, type, header.request_id, lock_number_of(type, message));
}

/* The peer who may. */
static unsigned asks_for(enum message_type type, bool iod)
{
    switch (type) {
    case MSG_REGISTER:
    case MSG_HEARTBEAT:
        return PEER_SERVER;
    case MSG_DONOR_JOIN:
    case MSG_DONOR_REPORT:
    case MSG_DONOR_HELD:
        return PEER_BENEFACTOR;
    case MSG_VOTE:
        return iod ? PEER_CANDIDATE : PEER_SERVER;
    case MSG_VOTES_READ:
    case MSG_VOTES_CARRY:
        return PEER_MANAGER;
    case MSG_GROUP_WORDS:
    case MSG_MIRROR_LEASE:
    case MSG_REPLICA:
        return PEER_MEMBER;
    case MSG_PROBE:
        return PEER_CANDIDATE;
    default:
        return iod ? PEER_OF_IOD : PEER_CLIENT;
    }
}

/* Every place of every request, every value. */
static void in_turn(struct test *t)
{
    t->maker.prng = NULL;
    for (size_t i = 0; i < request_types_count; i++) {
        enum message_type type = request_types[i].type;
        struct peer *peer = &t->peers[asks_for(type, request_types[i].iod)];

        for (t->maker.place = 0;; t->maker.place++) {
            size_t choices = 0;

            t->maker.choice = 0;
            do {
                send_one(t, peer, &request_types[i]);
                choices = t->maker.choices;
            } while (++t->maker.choice < choices);
            if (t->maker.place >= t->maker.places) {
                break;
            }
        }
    }
}

static void at_random(struct test *t, uint64_t rounds)
{
    static const unsigned percents[] = { 20, 60, 85, 95 };

    t->maker.prng = &t->prng;
    for (uint64_t i = 0; i < rounds; i++) {
        struct peer *peer = &t->peers[prng_below(&t->prng, PEERS)];
        const struct request_type *type;
        struct request_type unknown;

        do {
            type = &request_types[prng_below(&t->prng, request_types_count)];
        } while (type->iod != peer->iod && prng_below(&t->prng, 20) != 0);

        t->maker.plausible_percent = percents[prng_below(&t->prng, ARRAY_COUNT(percents))];
        if (prng_below(&t->prng, 50) == 0) {
            unknown = *type;
            unknown.type = (enum message_type)prng_below(&t->prng, UINT16_MAX + 1);
            type = &unknown; /* The body of one under the number of another. */
        }
        send_one(t, peer, type);
        if (prng_below(&t->prng, 500) == 0) {
            peer_open(t, peer);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct peer kinds[PEERS] = {
        { false, WIRE_CLIENT, true, -1, 0, 0 },   { true, WIRE_CLIENT, false, -1, 0, 0 },
        { false, WIRE_CLIENT, true, -1, 0, 0 },   { false, WIRE_CLIENT, false, -1, 0, 0 },
        { false, WIRE_ADMIN, false, -1, 0, 0 },   { false, WIRE_IOD, false, -1, 0, 0 },
        { false, WIRE_MANAGER, false, -1, 0, 0 }, { true, WIRE_ADMIN, false, -1, 0, 0 },
        { true, WIRE_IOD, false, -1, 0, 0 },      { true, WIRE_MANAGER, false, -1, 0, 0 },
        { true, WIRE_IOD, false, -1, 0, 0 },      { false, WIRE_BENEFACTOR, false, -1, 0, 0 },
    };
    static struct test t;
    uint64_t numbers[7];

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; i < 7; i++) {
        if (argc != 8) {
            fprintf(stderr, "usage: nonsense MANAGER-PORT IOD-PORT MEMBER INODE DIRECTORY SEED "
                            "ROUNDS\n");
            return 2;
        }
        numbers[i] = strtoull(argv[i + 1], NULL, 0);
    }
    t.meta_port = (uint16_t)numbers[0];
    t.iod_port = (uint16_t)numbers[1];
    t.member = numbers[2];
    t.maker.inode = numbers[3];
    t.maker.directory = numbers[4];
    prng_seed(&t.prng, numbers[5]);
    memcpy(t.peers, kinds, sizeof(kinds));
    for (unsigned i = 0; i < PEERS; i++) {
        peer_open(&t, &t.peers[i]);
    }
    in_turn(&t);
    at_random(&t, numbers[6]);
    printf("nonsense: seed %" PRIu64 ", %" PRIu64 " requests, %" PRIu64 " carried out, %" PRIu64
           " refused\n",
           numbers[5], t.sent, t.answered[0], t.answered[1]);
    for (unsigned i = 0; i < 64; i++) {
        if (t.by_status[i] != 0) {
            printf("  %8" PRIu64 " %s\n", t.by_status[i], status_words(-(int)i));
        }
    }
    return 0;
}
