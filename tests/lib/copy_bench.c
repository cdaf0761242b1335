/* The loop, the wire between two copies, and their directories. */
#include "tests/lib/copy_bench.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Between members ---- */

static void say_word(void *data, struct copy *copy, const struct group_word *word)
{
    struct node *n = data;
    struct bench *b = n->bench;

    (void)copy;
    if (b->words_count < WORDS_MAX) {
        b->words[b->words_count++] = (struct said){ n->me, *word };
    }
}

struct sending
{
    struct rpc_call call;
};

static void on_sent(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    (void)status;
    (void)reply;
    free(call);
}

static uint32_t way(void *data, struct copy *copy, uint32_t member)
{
    (void)data;
    (void)copy;
    (void)member;
    return RECOVERY_PIECE_BYTES;
}

static void send_message(void *data, struct copy *copy, uint32_t member,
                         const Morsel__ReplicaMessage *m, struct payload *payload)
{
    struct node *n = data;
    struct rpc_piece piece = { .payload = payload, .count = payload != NULL ? payload->count : 0 };
    struct sending *s;

    (void)copy;
    CHECK(member < MEMBERS && member != n->me);
    if (n->to[member] == NULL) {
        return; /* It is dead. */
    }
    s = calloc(1, sizeof(*s));
    CHECK(s != NULL);
    n->bench->said_bytes += piece.count;
    CHECK(rpc_call_start(&s->call, n->to[member], MSG_REPLICA, &m->base, &piece, payload != NULL,
                         CALL_MS, on_sent) == 0);
}

static void vote(void *data, struct copy *copy, uint64_t epoch, group_set set, group_set before)
{
    struct node *n = data;
    struct bench *b = n->bench;

    (void)copy;
    (void)before;
    CHECK(epoch < EPOCHS_MAX);
    if (b->decided[epoch] == 0) {
        b->decided[epoch] = set;
    }
    b->wanted[n->me] = epoch;
}

static void stop_vote(void *data, struct copy *copy)
{
    struct node *n = data;

    (void)copy;
    n->bench->wanted[n->me] = 0;
}

static enum room_verdict has_room(void *data, struct copy *copy, uint64_t bytes)
{
    (void)copy;
    (void)bytes;
    return ((struct node *)data)->bench->full ? ROOM_NO : ROOM_YES;
}

/* It is ticked when it is due in any case. */
static void due(void *data, struct copy *copy)
{
    (void)data;
    (void)copy;
}

static const struct copy_hooks hooks = { .word = say_word,
                                         .way = way,
                                         .send = send_message,
                                         .vote = vote,
                                         .stop_vote = stop_vote,
                                         .has_room = has_room,
                                         .due = due };

static void deliver(struct bench *b, struct held h)
{
    struct node *n = &b->nodes[h.to];

    if (n->copy != NULL) {
        copy_receive(n->copy, h.message->from, h.message, h.request);
    } else {
        rpc_reply(h.request, NULL, NULL);
    }
    morsel__replica_message__free_unpacked(h.message, NULL);
}

static void on_other(void *data, struct rpc_request *request)
{
    struct node *n = data;
    struct bench *b = n->bench;
    Morsel__ReplicaMessage *m = rpc_request_unpack(request, &morsel__replica_message__descriptor);
    struct held h = { n->me, m, request };

    CHECK(m != NULL && request->type == MSG_REPLICA);
    if (b->deaf || prng_below(&b->prng, 100) < b->loss) {
        b->lost_forwards += m->type == REPLICA_FORWARD;
        morsel__replica_message__free_unpacked(m, NULL);
        rpc_reply(request, NULL, NULL);
    } else if (b->held_count < HELD_MAX && prng_below(&b->prng, 100) < b->delay) {
        b->held[b->held_count++] = h;
    } else {
        deliver(b, h);
    }
}

static void route(void *data, struct job *job, const struct object_handler *handler)
{
    struct node *n = data;

    if (n->copy == NULL) {
        job->status = MORSEL_NOT_HERE;
        object_done(job, handler);
        return;
    }
    copy_request(n->copy, job, handler);
}

/* ---- Time ---- */

static void lease(struct node *n, struct node *peer, uint64_t now_ms)
{
    struct mirror_exceptions exceptions = { .count = 0 };

    if (peer->copy == NULL || copy_trouble(peer->copy) != NULL ||
        !group_covers(&copy_replica(peer->copy)->group, n->me)) {
        mirror_exceptions_add(&exceptions, GROUP);
    }
    mirror_lease_ask(&n->leases[peer->me], now_ms);
    mirror_lease_grant(&peer->leases[n->me], now_ms);
    mirror_lease_granted(&n->leases[peer->me], n->leases[peer->me].start, now_ms, &exceptions,
                         now_ms);
}

static void carry_words(struct bench *b)
{
    uint32_t count = b->words_count;
    struct said *said = calloc(count + 1, sizeof(*said));

    CHECK(said != NULL);
    memcpy(said, b->words, count * sizeof(*said));
    b->words_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct node *to = &b->nodes[1 - said[i].from];

        if (to->copy != NULL && !b->words_stop &&
            (b->words_come || prng_below(&b->prng, 100) >= b->loss)) {
            copy_heard(to->copy, &said[i].word);
        }
    }
    free(said);
}

static void on_timer(uv_timer_t *timer)
{
    struct bench *b = timer->data;
    uint64_t now_ms = rpc_boot_ms();

    if (now_ms >= b->leased_ms + LEASE_MS && b->nodes[0].up && b->nodes[1].up) {
        lease(&b->nodes[0], &b->nodes[1], now_ms);
        lease(&b->nodes[1], &b->nodes[0], now_ms);
        b->leased_ms = now_ms;
    }
    while (b->held_count > 0) {
        uint32_t at = (uint32_t)prng_below(&b->prng, b->held_count);
        struct held h = b->held[at];

        b->held[at] = b->held[--b->held_count];
        deliver(b, h);
    }
    carry_words(b);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct copy *copy = b->nodes[i].copy;
        uint64_t epoch = b->wanted[i];

        if (copy != NULL && epoch != 0 && b->decided[epoch] != 0) {
            b->wanted[i] = 0;
            copy_decided(copy, epoch, b->decided[epoch]);
        }
        if (copy != NULL && now_ms >= copy_deadline_ms(copy)) {
            copy_tick(copy);
        }
    }
}

/* ---- Start and end ---- */

static void connect_all(struct bench *b, struct node *n)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct node *other = &b->nodes[i];

        if (other != n && other->up) {
            CHECK(rpc_peer_new(n->server.rpc, object_server_address(&other->server), &n->to[i],
                               NULL) == 0);
            CHECK(rpc_peer_new(other->server.rpc, object_server_address(&n->server),
                               &other->to[n->me], NULL) == 0);
        }
    }
    CHECK(rpc_peer_new(b->client, object_server_address(&n->server), &n->from_client, NULL) == 0);
}

static void open_copy(struct node *n)
{
    struct copy_setup setup = { .number = GROUP,
                                .count = MEMBERS,
                                .me = n->me,
                                .servers = { 11, 12 },
                                .start = ++n->bench->starts,
                                .kind = n->known ? COPY_FILE_KNOWN : COPY_FILE_NEW,
                                .leases = n->lease_pointers,
                                .server = &n->server,
                                .hooks = &hooks,
                                .data = n };
    struct errmsg err = { "" };

    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        mirror_lease_init(&n->leases[i], setup.start, rpc_boot_ms());
        n->lease_pointers[i] = &n->leases[i];
    }
    n->known = true;
    assert_int_equal(copy_open(&setup, &n->copy, &err), 0);
}

void bench_start(struct bench *b, uint32_t i)
{
    struct node *n = &b->nodes[i];
    struct errmsg err = { "" };

    memset(&n->server, 0, sizeof(n->server));
    n->server.options = (struct object_server_options){ .kind = "iod",
                                                        .program = "test",
                                                        .role = ROLE_IOD,
                                                        .data_dir = n->dir,
                                                        .listen = "127.0.0.1:0",
                                                        .manager = "127.0.0.1:1",
                                                        .advertise = "",
                                                        .open_files = 64,
                                                        .threads = 4,
                                                        .queue = 64 };
    n->server.loop = &b->loop;
    n->server.route = route;
    n->server.route_data = n;
    n->server.other = on_other;
    n->server.other_data = n;
    if (object_server_start(&n->server, &err) != 0) {
        fail_msg("%s", err.text);
    }
    n->up = true;
    n->closed = false;
    connect_all(b, n);
    open_copy(n);
}

static void on_copy_closed(void *data)
{
    ((struct node *)data)->closed = true;
}

static void on_down(void *data)
{
    *(bool *)data = true;
}

/* Nothing is written at its end that a process that is killed would not have written. */
void bench_stop(struct bench *b, uint32_t i)
{
    struct node *n = &b->nodes[i];
    struct copy *copy = n->copy;
    bool down = false;

    while (b->held_count > 0) {
        deliver(b, b->held[--b->held_count]);
    }
    n->copy = NULL;
    b->wanted[i] = 0;
    copy_close(copy, on_copy_closed, n);
    UNTIL(b, n->closed);
    rpc_peer_close(n->from_client);
    for (uint32_t k = 0; k < MEMBERS; k++) {
        if (b->nodes[k].up && b->nodes[k].to[i] != NULL) {
            rpc_peer_close(b->nodes[k].to[i]);
            b->nodes[k].to[i] = NULL;
        }
    }
    rpc_close(n->server.rpc, on_down, &down);
    n->server.rpc = NULL;
    UNTIL(b, down);
    object_server_stop(&n->server);
    object_server_release(&n->server);
    memset(n->to, 0, sizeof(n->to));
    n->up = false;
}

/* It is known to be dead. */
void bench_kill(struct bench *b, uint32_t i)
{
    bench_stop(b, i);
    copy_dead(b->nodes[1 - i].copy, i);
}

bool bench_joined(const struct bench *b, uint32_t i)
{
    return b->nodes[i].copy != NULL && copy_replica(b->nodes[i].copy)->group.joined != 0;
}

bool bench_orders(const struct bench *b, uint32_t i)
{
    return b->nodes[i].copy != NULL && order_orders(&copy_replica(b->nodes[i].copy)->order);
}

bool bench_in_sync(const struct bench *b)
{
    return bench_joined(b, 0) && bench_joined(b, 1) &&
           copy_replica(b->nodes[0].copy)->group.record.set == 3 &&
           copy_replica(b->nodes[1].copy)->group.record.set == 3;
}

/* It orders, and holds the leases for reads. */
bool bench_serves(const struct bench *b, uint32_t i)
{
    return bench_orders(b, i) && replica_serves(copy_replica(b->nodes[i].copy), rpc_boot_ms()) != 0;
}

int bench_begin(void **state)
{
    struct rpc_options options = { .role = ROLE_CLIENT, .node_id = CLIENT, .program = "test" };
    struct bench *b = calloc(1, sizeof(*b));

    CHECK(b != NULL && uv_loop_init(&b->loop) == 0);
    prng_seed(&b->prng, test_seed_first());
    snprintf(b->dir, sizeof(b->dir), "/tmp/morsel-copy-XXXXXX");
    CHECK(mkdtemp(b->dir) != NULL);
    CHECK(rpc_new(&b->loop, &options, &b->client) == 0);
    CHECK(uv_timer_init(&b->loop, &b->timer) == 0);
    b->timer.data = b;
    CHECK(uv_timer_start(&b->timer, on_timer, STEP_MS, STEP_MS) == 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        b->nodes[i].bench = b;
        b->nodes[i].me = i;
        snprintf(b->nodes[i].dir, sizeof(b->nodes[i].dir), "%s/%u", b->dir, i);
        bench_start(b, i);
    }
    UNTIL(b, bench_in_sync(b) && bench_serves(b, 0));
    *state = b;
    return 0;
}

int bench_end(void **state)
{
    struct bench *b = *state;
    char command[128];
    bool down = false;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (b->nodes[i].up) {
            bench_stop(b, i);
        }
    }
    rpc_close(b->client, on_down, &down);
    UNTIL(b, down);
    uv_close((uv_handle_t *)&b->timer, NULL);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&b->loop) == 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
    CHECK(system(command) == 0);
    free(b);
    return 0;
}

/* ---- A client ---- */

struct object_id bench_object(inode_id inode)
{
    return (struct object_id){ inode, placing_object(GROUP, 0) };
}

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct asked *a = CONTAINER_OF(call, struct asked, call);

    a->answered = true;
    a->status = status;
    a->count = reply->payload == NULL ? 0 : reply->payload->count;
    CHECK(a->count <= sizeof(a->bytes));
    if (a->count > 0) {
        memcpy(a->bytes, reply->payload->data, a->count);
    }
}

static void ask(struct bench *b, uint32_t i, struct asked *a, enum message_type type,
                const ProtobufCMessage *request, const void *bytes, size_t count)
{
    struct rpc_piece piece = { .count = count };

    *a = (struct asked){ .answered = false };
    if (count > 0) {
        piece.payload = payload_new(rpc_payloads(b->client), count);
        CHECK(piece.payload != NULL);
        memcpy(piece.payload->data, bytes, count);
    }
    CHECK(rpc_call_start(&a->call, b->nodes[i].from_client, type, request, &piece, count > 0,
                         CALL_MS, on_answer) == 0);
    payload_drop(piece.payload);
}

void bench_ask_write(struct bench *b, uint32_t i, struct asked *a, inode_id inode, uint64_t offset,
                     const void *bytes, size_t count, op_sequence number)
{
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    uint32_t crcs[PART / BLOCK_BYTES + 2];

    crc32c_of_pieces(offset, bytes, count, crcs);
    id.inode = inode;
    id.column = bench_object(inode).column;
    request.object = &id;
    request.offset = offset;
    request.number = number;
    request.verifier = b->verifier;
    request.crcs.data = (uint8_t *)crcs;
    request.crcs.len = crc32c_pieces(offset, count) * sizeof(crcs[0]);
    ask(b, i, a, MSG_WRITE, &request.base, bytes, count);
}

int bench_write_as(struct bench *b, uint32_t i, inode_id inode, uint64_t offset, const void *bytes,
                   size_t count, op_sequence number)
{
    struct asked *a = calloc(1, sizeof(*a));
    int status;

    CHECK(a != NULL);
    bench_ask_write(b, i, a, inode, offset, bytes, count, number);
    UNTIL(b, a->answered);
    status = a->status;
    free(a);
    return status;
}

int bench_write_text(struct bench *b, uint32_t i, inode_id inode, uint64_t offset, const char *text)
{
    return bench_write_as(b, i, inode, offset, text, strlen(text), ++b->number);
}

void bench_ask_copy(struct bench *b, uint32_t i, struct asked *a, const struct bench_copy *copy,
                    op_sequence number)
{
    Morsel__CopyRequest request = MORSEL__COPY_REQUEST__INIT;
    Morsel__ObjectId from = MORSEL__OBJECT_ID__INIT, to = MORSEL__OBJECT_ID__INIT;

    from.inode = copy->from;
    from.column = bench_object(copy->from).column;
    to.inode = copy->to;
    to.column = bench_object(copy->to).column;
    request.from = &from;
    request.from_offset = copy->from_offset;
    request.to = &to;
    request.to_offset = copy->to_offset;
    request.length = copy->length;
    request.number = number;
    ask(b, i, a, MSG_COPY, &request.base, NULL, 0);
}

int bench_copy_as(struct bench *b, uint32_t i, const struct bench_copy *copy, op_sequence number)
{
    struct asked *a = calloc(1, sizeof(*a));
    int status;

    CHECK(a != NULL);
    bench_ask_copy(b, i, a, copy, number);
    UNTIL(b, a->answered);
    status = a->status;
    free(a);
    return status;
}

/* As a client does: whoever orders by now, the same change. */
int bench_write_on(struct bench *b, inode_id inode, uint64_t offset, const void *bytes,
                   size_t count)
{
    uint64_t until_ms = rpc_boot_ms() + PATIENCE_MS;
    int status = MORSEL_NOT_HERE;

    b->number++;
    while (status == MORSEL_NOT_HERE && rpc_boot_ms() < until_ms) {
        uv_run(&b->loop, UV_RUN_ONCE);
        if (bench_orders(b, 0) || bench_orders(b, 1)) {
            status = bench_write_as(b, bench_orders(b, 0) ? 0 : 1, inode, offset, bytes, count,
                                    b->number);
        }
    }
    return status;
}

int bench_truncate(struct bench *b, uint32_t i, inode_id inode, uint64_t size)
{
    Morsel__TruncateRequest request = MORSEL__TRUNCATE_REQUEST__INIT;
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    struct asked *a = calloc(1, sizeof(*a));
    int status;

    CHECK(a != NULL);
    id.inode = inode;
    id.column = bench_object(inode).column;
    request.object = &id;
    request.size = size;
    request.number = ++b->number;
    ask(b, i, a, MSG_TRUNCATE, &request.base, NULL, 0);
    UNTIL(b, a->answered);
    status = a->status;
    free(a);
    return status;
}

void bench_ask_read(struct bench *b, uint32_t i, struct asked *a, inode_id inode, uint32_t length)
{
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;

    id.inode = inode;
    id.column = bench_object(inode).column;
    request.object = &id;
    request.length = length;
    request.settled = b->settled;
    ask(b, i, a, MSG_READ, &request.base, NULL, 0);
}

int bench_sync(struct bench *b, uint32_t i, inode_id inode)
{
    Morsel__SyncRequest request = MORSEL__SYNC_REQUEST__INIT;
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;
    struct asked *a = calloc(1, sizeof(*a));
    int status;

    CHECK(a != NULL);
    id.inode = inode;
    id.column = bench_object(inode).column;
    request.object = &id;
    ask(b, i, a, MSG_SYNC, &request.base, NULL, 0);
    UNTIL(b, a->answered);
    status = a->status;
    free(a);
    return status;
}

/* ---- What is on the disks ---- */

static struct store *store_of(struct bench *b, uint32_t i)
{
    return b->nodes[i].server.store;
}

void bench_assert_text(struct bench *b, uint32_t i, inode_id inode, const char *text)
{
    uint8_t bytes[64] = { 0 };
    uint32_t crcs[4];
    size_t count;
    struct errmsg err;

    assert_int_equal(store_read(store_of(b, i), bench_object(inode), 0, bytes, sizeof(bytes),
                                &count, crcs, &err),
                     0);
    assert_int_equal(count, strlen(text));
    assert_memory_equal(bytes, text, count);
}

/* Where data begins from there on, the same at both; UINT64_MAX: nowhere. */
static uint64_t next_data(struct bench *b, inode_id inode, uint64_t at)
{
    uint64_t data[MEMBERS];
    struct errmsg err;
    bool found[MEMBERS];

    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(
            store_seek(store_of(b, i), bench_object(inode), at, false, &found[i], &data[i], &err),
            0);
    }
    assert_int_equal(found[0], found[1]);
    assert_int_equal(data[0], data[1]);
    return found[0] ? data[0] : UINT64_MAX;
}

static void assert_part_same(struct bench *b, inode_id inode, uint64_t at)
{
    static uint8_t bytes[MEMBERS][PART];
    uint32_t crcs[PART / BLOCK_BYTES + 2];
    struct errmsg err;
    size_t count[MEMBERS];

    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(store_read(store_of(b, i), bench_object(inode), at, bytes[i], PART,
                                    &count[i], crcs, &err),
                         0);
    }
    assert_int_equal(count[0], count[1]);
    assert_memory_equal(bytes[0], bytes[1], count[0]);
}

/* Length, bytes, and where holes are, of which nothing is read: some are long. */
void bench_assert_same(struct bench *b, inode_id inode)
{
    struct store_stat stat[MEMBERS];
    struct errmsg err;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(store_stat(store_of(b, i), bench_object(inode), &stat[i], &err), 0);
    }
    assert_int_equal(stat[0].exists, stat[1].exists);
    assert_int_equal(stat[0].size, stat[1].size);
    for (uint64_t at = 0; at < stat[0].size; at += PART) {
        uint64_t data = next_data(b, inode, at);

        if (data == UINT64_MAX) {
            return;
        }
        at = data - data % PART;
        assert_part_same(b, inode, at);
    }
}

static void on_deleted(void *data, size_t gone)
{
    struct bench *b = data;

    b->gone = gone;
    b->deleted = true;
}

size_t bench_delete(struct bench *b, uint32_t i, inode_id inode)
{
    struct object_id ids[1] = { bench_object(inode) };

    b->deleted = false;
    copy_delete(b->nodes[i].copy, ids, 1, on_deleted, b);
    UNTIL(b, b->deleted);
    return b->gone;
}
