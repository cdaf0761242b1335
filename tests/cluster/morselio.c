/* Morsels at one benefactor, without a mount and without a map.
 *
 *   morselio put ADDRESS SET FIRST COUNT BYTES [sync]   write (and sync) so many morsels of so many bytes, several at a time; a
 *                                                line with its number for each that was acknowledged
 *   morselio get ADDRESS SET FIRST COUNT BYTES   read them, and check each byte; a line for each: "good N", "short N", "wrong N"
 *                                                or "failed N WORDS"
 *
 * What is in a morsel follows from its set, its number and its length. The exit code is 0 unless a put has failed, whose words
 * are on standard error then.
 */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "common/rpc/rpc_uv.h"
#include "data.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLYING = 4, CALL_MS = 20000 };

struct tool;

/* One morsel on its way. */
struct flight
{
    struct tool *tool;
    struct rpc_call call;
    uint32_t morsel;
    bool syncs; /* It was written, and is being synced. */
};

struct tool
{
    uv_loop_t loop;
    struct rpc *rpc;
    struct rpc_peer *peer;
    bool puts, sync, failed;
    uint64_t set;
    uint64_t next, end; /* Morsels that were not begun. */
    size_t bytes;
    unsigned flying;
    struct flight flights[FLYING];
};

static void fill(const struct tool *t, uint32_t morsel, uint8_t *bytes)
{
    struct prng prng;

    prng_seed(&prng, t->set * 1000003 + morsel * 17 + t->bytes);
    for (size_t i = 0; i < t->bytes; i++) {
        bytes[i] = (uint8_t)prng_next(&prng);
    }
}

static void begin_next(struct flight *f);

static void on_got(struct flight *f, int status, const struct rpc_reply *reply)
{
    uint8_t *bytes = malloc(f->tool->bytes);

    CHECK(bytes != NULL);
    fill(f->tool, f->morsel, bytes);
    if (status != 0) {
        printf("failed %u %s\n", f->morsel,
               reply->text[0] != 0 ? reply->text : status_words(status));
    } else if (reply->payload == NULL || reply->payload->count != f->tool->bytes) {
        printf("short %u\n", f->morsel);
    } else {
        printf("%s %u\n",
               memcmp(bytes, reply->payload->data, f->tool->bytes) == 0 ? "good" : "wrong",
               f->morsel);
    }
    free(bytes);
}

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct flight *f = call->data;
    struct tool *t = f->tool;
    Morsel__SyncRequest sync = MORSEL__SYNC_REQUEST__INIT;
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;

    if (!t->puts) {
        on_got(f, status, reply);
    } else if (status != 0) {
        fprintf(stderr, "morsel %u: %s: %s\n", f->morsel, status_words(status), reply->text);
        t->failed = true;
        t->next = t->end;
    } else if (t->sync && !f->syncs) {
        f->syncs = true;
        id.inode = t->set;
        id.column = f->morsel;
        sync.object = &id;
        CHECK(rpc_call_start(&f->call, t->peer, MSG_SYNC, &sync.base, NULL, 0, CALL_MS,
                             on_answer) == 0);
        return;
    } else {
        printf("%u\n", f->morsel);
    }
    fflush(stdout);
    begin_next(f);
}

static void begin_get(struct flight *f, Morsel__ObjectId *id)
{
    Morsel__ReadRequest request = MORSEL__READ_REQUEST__INIT;

    request.object = id;
    request.length = (uint32_t)f->tool->bytes;
    CHECK(rpc_call_start(&f->call, f->tool->peer, MSG_READ, &request.base, NULL, 0, CALL_MS,
                         on_answer) == 0);
}

static void begin_put(struct flight *f, Morsel__ObjectId *id)
{
    struct rpc_piece piece = { .count = f->tool->bytes };
    uint32_t pieces = crc32c_pieces(0, f->tool->bytes);
    Morsel__WriteRequest request = MORSEL__WRITE_REQUEST__INIT;
    uint32_t *crcs = calloc(pieces, sizeof(*crcs));

    piece.payload = payload_new(rpc_payloads(f->tool->rpc), f->tool->bytes);
    CHECK(piece.payload != NULL && crcs != NULL);
    fill(f->tool, f->morsel, piece.payload->data);
    crc32c_of_pieces(0, piece.payload->data, f->tool->bytes, crcs);
    request.object = id;
    request.crcs.data = (uint8_t *)crcs;
    request.crcs.len = pieces * sizeof(*crcs);
    CHECK(rpc_call_start(&f->call, f->tool->peer, MSG_WRITE, &request.base, &piece, 1, CALL_MS,
                         on_answer) == 0);
    payload_drop(piece.payload);
    free(crcs);
}

static void begin_next(struct flight *f)
{
    struct tool *t = f->tool;
    Morsel__ObjectId id = MORSEL__OBJECT_ID__INIT;

    if (t->next == t->end) {
        if (--t->flying == 0) {
            rpc_close(t->rpc, NULL, NULL);
        }
        return;
    }
    f->syncs = false;
    f->morsel = (uint32_t)t->next++;
    id.inode = t->set;
    id.column = f->morsel;
    if (t->puts) {
        begin_put(f, &id);
    } else {
        begin_get(f, &id);
    }
}

int main(int argc, char **argv)
{
    struct rpc_options options = { .role = ROLE_CLIENT, .program = "morselio" };
    struct tool *t = calloc(1, sizeof(*t));
    struct errmsg err = { "" };
    bool failed;

    CHECK(t != NULL);
    if (argc < 7) {
        fprintf(stderr, "use: morselio put|get ADDRESS SET FIRST COUNT BYTES [sync]\n");
        return 2;
    }
    t->puts = strcmp(argv[1], "put") == 0;
    t->sync = argc > 7;
    t->set = strtoull(argv[3], NULL, 10);
    t->next = strtoull(argv[4], NULL, 10);
    t->end = t->next + strtoull(argv[5], NULL, 10);
    t->bytes = strtoul(argv[6], NULL, 10);
    CHECK(t->bytes > 0 && t->bytes <= FRAME_PAYLOAD_BYTES_MAX && t->next < t->end);
    CHECK(uv_loop_init(&t->loop) == 0 && rpc_new(&t->loop, &options, &t->rpc) == 0);
    if (rpc_peer_new(t->rpc, argv[2], &t->peer, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    t->flying = FLYING;
    for (unsigned i = 0; i < FLYING; i++) {
        t->flights[i].tool = t;
        t->flights[i].call.data = &t->flights[i];
        begin_next(&t->flights[i]);
    }
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&t->loop) == 0);
    failed = t->failed;
    free(t);
    return failed ? 1 : 0;
}
