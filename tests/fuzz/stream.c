/* The parser of a connection: any bytes in any pieces. Frames that are sound arrive whole and in
 * order; the first that is not closes the connection, and nothing behind it is delivered.
 *
 * The parser's own file is included, so that bytes can be handed to its callbacks without a socket.
 * The loop, the noise of which bodies and payloads are made and the memory of the wire are made
 * once, for they would cost more than the parser; what the connection holds is new for each input,
 * so that the sanitizer sees what is left and what is touched too late.
 *
 * What decides is how a size compares with the connection's own buffer, not how large it is. So
 * most inputs get a buffer of a few hundred bytes, which makes each of them cheap, and one seed in
 * 32 the buffer and the sizes of production.
 *
 * Input: a byte that seeds the sizes of the pieces, then frames: a control byte, one or two bytes
 * of the size of the body, the body unless it is long and of noise, and two bytes of the size of
 * the payload if it has one. */
#include "../../src/common/rpc/conn_uv.c" /* NOLINT(bugprone-suspicious-include): said above */

#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/prng.h"

enum {
    FRAMES_MAX = 10,
    SMALL_IN_BYTES = 64, /* Times 1, 2, 4 or 8. */
    SMALL_BYTES_MAX = 1000,
    LARGE_BYTES_MAX = 20000,
    NOISE_BYTES = LARGE_BYTES_MAX + 256,
    /* Bits of the control byte: payload, and a body that is long (the buffer must grow). */
    CONTROL_PAYLOAD = 4,
    CONTROL_LONG = 8
};
static_assert((int)SMALL_IN_BYTES >= (int)FRAME_HEADER_BYTES, "a buffer holds a header");
static_assert((int)LARGE_BYTES_MAX > (int)IN_BYTES, "what is large does not fit the buffer");

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* How a frame is spoilt; anything else: not at all. */
enum { SPOIL_NOISE = 1, SPOIL_HEADER = 2, SPOIL_BODY = 3, SPOIL_VERSION = 4, SPOIL_LENGTH = 5 };

struct expected
{
    struct frame_header header;
    size_t body_at, payload_at; /* In the wire. */
};

/* What lives as long as the process. */
struct bench
{
    uv_loop_t loop;
    uint8_t noise[NOISE_BYTES];
    struct buf wire; /* Emptied for each input. */
};

struct run
{
    struct bench *bench;
    uint8_t seed;
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
    const uint8_t *wire = run->bench->wire.data;

    CHECK(run->delivered < run->frames_count);
    CHECK(header->type == expected->header.type && header->flags == expected->header.flags);
    CHECK(header->request_id == expected->header.request_id);
    CHECK(header->body_length == expected->header.body_length);
    CHECK(memcmp(body, wire + expected->body_at, header->body_length) == 0);
    CHECK((*payload != NULL) == (expected->header.payload_length > 0));
    if (*payload != NULL) {
        CHECK((*payload)->count == expected->header.payload_length);
        CHECK(memcmp((*payload)->data, wire + expected->payload_at, (*payload)->count) == 0);
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

/* The head of the next frame, spoilt as the control byte says. */
static struct frame_header make_header(const struct run *run, uint8_t control, struct slice body,
                                       uint32_t payload_length)
{
    unsigned spoil = control >> 4;

    return (struct frame_header){
        .version = spoil == SPOIL_VERSION ? 7 : FRAME_VERSION,
        .flags = control & FRAME_FLAGS_KNOWN,
        .type = control,
        .request_id = run->frames_count,
        .body_length = (uint32_t)body.count,
        .body_crc = crc32c(0, body.data, body.count) + (spoil == SPOIL_BODY),
        .payload_length = spoil == SPOIL_LENGTH ? FRAME_PAYLOAD_BYTES_MAX + 1 : payload_length,
    };
}

static bool is_large(uint8_t seed)
{
    return seed % 32 == 31;
}

static uint32_t bytes_max(uint8_t seed)
{
    return is_large(seed) ? LARGE_BYTES_MAX : SMALL_BYTES_MAX;
}

static void add_frame(struct run *run, struct reader *r)
{
    uint8_t control = reader_u8(r), head[FRAME_HEADER_BYTES];
    unsigned spoil = control >> 4;
    struct buf *wire = &run->bench->wire;
    const uint8_t *noise = run->bench->noise;
    struct slice body = (control & CONTROL_LONG) != 0
                            ? (struct slice){ noise, reader_u16(r) % bytes_max(run->seed) }
                            : reader_bytes(r, reader_u8(r));
    uint32_t payload_length =
        (control & CONTROL_PAYLOAD) != 0 ? reader_u16(r) % bytes_max(run->seed) : 0;
    struct frame_header header;

    if (r->failed || (spoil == SPOIL_NOISE && body.count + payload_length == 0)) {
        return;
    }
    header = make_header(run, control, body, payload_length);
    frame_encode(&header, head);
    head[control % FRAME_HEADER_BYTES] ^= spoil == SPOIL_HEADER ? 0x10 : 0;
    run->spoilt = run->spoilt || (spoil >= SPOIL_NOISE && spoil <= SPOIL_LENGTH);
    if (spoil != SPOIL_NOISE) {
        buf_put(wire, head, sizeof(head));
    }
    if (!run->spoilt) {
        run->frames[run->frames_count++] =
            (struct expected){ header, wire->count, wire->count + body.count };
    }
    buf_put(wire, body.data, body.count);
    buf_put(wire, noise + control, payload_length);
}

/* Give the connection a buffer that is soon full. It has none yet. */
static void shrink_in(struct conn *conn, uint8_t seed)
{
    size_t capacity = (size_t)SMALL_IN_BYTES << seed % 4;

    conn->in = malloc(capacity);
    CHECK(conn->in != NULL);
    conn->in_capacity = capacity;
}

/* Hand the wire to the connection as the loop would, in pieces. */
static void feed(struct conn *conn, const struct run *run)
{
    const struct buf *wire = &run->bench->wire;
    struct prng prng;
    size_t at = 0;

    prng_seed(&prng, run->seed);
    while (at < wire->count && !conn->closing) {
        size_t piece = 1 + prng_below(&prng, prng_below(&prng, 4) == 0 ? 60 : bytes_max(run->seed));
        uv_buf_t buf;

        if (conn->in == NULL && !is_large(run->seed)) {
            shrink_in(conn, run->seed);
        }
        on_alloc(&conn->handle, 65536, &buf);
        CHECK(buf.len > 0);
        piece = piece < wire->count - at ? piece : wire->count - at;
        piece = piece < buf.len ? piece : buf.len;
        memcpy(buf.base, wire->data + at, piece);
        at += piece;
        on_read(&conn->stream, (ssize_t)piece, &buf);
    }
}

static struct bench *bench_new(void)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    struct prng prng;

    CHECK(bench != NULL && uv_loop_init(&bench->loop) == 0);
    prng_seed(&prng, 1);
    for (size_t i = 0; i < NOISE_BYTES; i += 8) {
        put_le64(bench->noise + i, prng_next(&prng));
    }
    buf_init(&bench->wire);
    return bench;
}

/* The whole life of a connection to which the wire comes. */
static void receive(struct run *run)
{
    static const struct conn_hooks hooks = { .frame = on_frame,
                                             .closed = on_down,
                                             .freed = on_freed };
    struct rpc_statistics statistics = { .bytes_in = 0 };
    struct payload_pool *pool = payload_pool_new(1 << 20);
    uv_loop_t *loop = &run->bench->loop;
    struct list dirty;
    struct conn *conn;

    list_init(&dirty);
    conn = conn_new(loop, pool, &statistics, &hooks, run, &dirty);
    CHECK(conn != NULL);
    conn->handle.data = conn;
    conn_ref(conn);
    feed(conn, run);
    CHECK(run->delivered == run->frames_count);
    CHECK(run->spoilt || !conn->closing);
    conn_close(conn, "the end");
    conn_drop(conn);
    uv_run(loop, UV_RUN_DEFAULT);
    CHECK(run->closed == 1 && run->freed == 1);
    CHECK(!uv_loop_alive(loop));
    payload_pool_free(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bench *bench;
    struct run run = { .delivered = 0 };
    struct reader r;

    if (bench == NULL) {
        bench = bench_new();
    }
    buf_clear(&bench->wire);
    run.bench = bench;
    reader_init(&r, data, size);
    run.seed = reader_u8(&r);
    for (unsigned i = 0; i < FRAMES_MAX && !r.failed; i++) {
        add_frame(&run, &r);
    }
    CHECK(!bench->wire.failed);
    receive(&run);
    return 0;
}
