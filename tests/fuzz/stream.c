/* The parser of a connection: any bytes in any pieces. Frames that are sound arrive whole and in
 * order; the first that is not closes the connection, and nothing behind it is delivered.
 *
 * The parser's own file is included, so that bytes can be handed to its callbacks without a socket.
 *
 * Input: a byte that seeds the sizes of the pieces, then frames: a control byte, three bytes of
 * sizes, and the body. */
#include "../../src/common/conn_uv.c" /* NOLINT(bugprone-suspicious-include): said above */

#include "common/buf.h"
#include "common/check.h"
#include "common/prng.h"

enum { FRAMES_MAX = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How a frame is spoilt; anything else: not at all. */
enum { SPOIL_NOISE = 1, SPOIL_HEADER = 2, SPOIL_BODY = 3, SPOIL_VERSION = 4, SPOIL_LENGTH = 5 };

struct expected
{
    struct frame_header header;
    uint32_t payload_crc;
};

struct run
{
    struct buf wire;
    struct expected frames[FRAMES_MAX];
    unsigned frames_count; /* Sound ones before the first that is not. */
    bool spoilt;
    unsigned delivered;
    unsigned closed, freed;
};

static void on_frame(struct conn *conn, const struct frame_header *header, const uint8_t *body,
                     struct payload **payload)
{
    struct run *run = conn->owner;
    const struct expected *expected = &run->frames[run->delivered];

    CHECK(run->delivered < run->frames_count);
    CHECK(header->type == expected->header.type && header->flags == expected->header.flags);
    CHECK(header->request_id == expected->header.request_id);
    CHECK(header->body_length == expected->header.body_length);
    CHECK(crc32c(0, body, header->body_length) == expected->header.body_crc);
    CHECK((*payload != NULL) == (expected->header.payload_length > 0));
    if (*payload != NULL) {
        CHECK((*payload)->count == expected->header.payload_length);
        CHECK(crc32c(0, (*payload)->data, (*payload)->count) == expected->payload_crc);
    }
    if (run->delivered % 3 == 0) { /* Some users keep the payload. */
        payload_drop(*payload);
        *payload = NULL;
    }
    run->delivered++;
}

static void on_down(struct conn *conn, const char *why)
{
    struct run *run = conn->owner;

    CHECK(why != NULL);
    run->closed++;
    conn_drop(conn);
}

static void on_freed(void *owner)
{
    struct run *run = owner;

    run->freed++;
}

static void add_frame(struct run *run, struct reader *r)
{
    struct frame_header header = { .version = FRAME_VERSION };
    uint8_t control = reader_u8(r), head[FRAME_HEADER_BYTES];
    unsigned spoil = control >> 4;
    struct slice body = reader_bytes(r, reader_u8(r));
    uint32_t payload_length = (control & 4) != 0 ? reader_u16(r) % 20000U : 0;
    size_t payload_at;

    if (r->failed || (spoil == SPOIL_NOISE && body.count + payload_length == 0)) {
        return;
    }
    header.flags = control & FRAME_FLAGS_KNOWN;
    header.type = control;
    header.request_id = run->frames_count;
    header.body_length = (uint32_t)body.count;
    header.body_crc = crc32c(0, body.data, body.count);
    header.payload_length = payload_length;
    header.version = spoil == SPOIL_VERSION ? 7 : FRAME_VERSION;
    if (spoil == SPOIL_LENGTH) {
        header.payload_length = FRAME_PAYLOAD_BYTES_MAX + 1;
    }
    header.body_crc += spoil == SPOIL_BODY;
    frame_encode(&header, head);
    head[control % FRAME_HEADER_BYTES] ^= spoil == SPOIL_HEADER ? 0x10 : 0;
    run->spoilt = run->spoilt || (spoil >= SPOIL_NOISE && spoil <= SPOIL_LENGTH);
    if (spoil != SPOIL_NOISE) {
        buf_put(&run->wire, head, sizeof(head));
    }
    buf_put(&run->wire, body.data, body.count);
    payload_at = run->wire.count;
    for (uint32_t i = 0; i < payload_length; i += 8) {
        buf_put_u64(&run->wire, i * 0x9e3779b97f4a7c15U);
    }
    run->wire.count = payload_at + payload_length;
    if (!run->spoilt) {
        run->frames[run->frames_count].header = header;
        run->frames[run->frames_count].payload_crc =
            payload_length > 0 ? crc32c(0, run->wire.data + payload_at, payload_length) : 0;
        run->frames_count++;
    }
}

/* Hand the wire to the connection as the loop would, in pieces. */
static void feed(struct conn *conn, const struct run *run, uint8_t seed)
{
    struct prng prng;
    size_t at = 0;

    prng_seed(&prng, seed);
    while (at < run->wire.count && !conn->closing) {
        size_t piece = 1 + prng_below(&prng, prng_below(&prng, 4) == 0 ? 60 : 20000);
        uv_buf_t buf;

        on_alloc(&conn->handle, 65536, &buf);
        CHECK(buf.len > 0);
        piece = piece < run->wire.count - at ? piece : run->wire.count - at;
        piece = piece < buf.len ? piece : buf.len;
        memcpy(buf.base, run->wire.data + at, piece);
        at += piece;
        on_read(&conn->stream, (ssize_t)piece, &buf);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct conn_hooks hooks = { on_frame, on_down, on_freed };
    struct rpc_statistics statistics = { .bytes_in = 0 };
    struct run run = { .delivered = 0 };
    struct payload_pool *pool = payload_pool_new(1 << 20);
    struct list dirty;
    struct reader r;
    struct conn *conn;
    uv_loop_t loop;
    uint8_t seed;

    reader_init(&r, data, size);
    seed = reader_u8(&r);
    for (unsigned i = 0; i < FRAMES_MAX && !r.failed; i++) {
        add_frame(&run, &r);
    }
    list_init(&dirty);
    CHECK(uv_loop_init(&loop) == 0);
    conn = conn_new(&loop, pool, &statistics, &hooks, &run, &dirty);
    CHECK(conn != NULL);
    conn->handle.data = conn;
    conn_ref(conn);
    feed(conn, &run, seed);
    CHECK(run.delivered == run.frames_count || conn->closing);
    CHECK(run.spoilt || !conn->closing);
    conn_close(conn, "the end");
    conn_drop(conn);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(run.closed == 1 && run.freed == 1);
    CHECK(uv_loop_close(&loop) == 0);
    payload_pool_free(pool);
    buf_free(&run.wire);
    return 0;
}
