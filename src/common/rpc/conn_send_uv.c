/* What goes out of a connection: frames queue up, and leave many at once (conn_uv.h). */
#include "common/rpc/conn_uv.h"

#include "common/base/crc32c.h"

#include <stdlib.h>

enum { WRITE_BUFS_MAX = 64 /* Stretches of memory in one system call. */ };

struct out_frame
{
    struct list node;
    uint8_t header[FRAME_HEADER_BYTES];
    uint8_t *body;
    size_t body_count;
    size_t total; /* Bytes of the whole frame. */
    unsigned pieces_count;
    struct rpc_piece pieces[];
};

static void out_frame_free(struct out_frame *f)
{
    for (unsigned i = 0; i < f->pieces_count; i++) {
        payload_drop(f->pieces[i].payload);
    }
    free(f->body);
    free(f);
}

bool conn_send(struct conn *conn, struct frame_header *header, uint8_t *body, size_t body_count,
               const struct rpc_piece *pieces, unsigned pieces_count)
{
    struct out_frame *f = NULL;
    size_t payload_bytes = 0;

    CHECK(body_count <= FRAME_BODY_BYTES_MAX && pieces_count <= RPC_PIECES_MAX);
    if (!conn->closing) {
        f = malloc(sizeof(*f) + pieces_count * sizeof(f->pieces[0]));
    }
    if (f == NULL) {
        free(body);
        return false;
    }
    for (unsigned i = 0; i < pieces_count; i++) {
        f->pieces[i] = pieces[i];
        payload_ref(pieces[i].payload);
        payload_bytes += pieces[i].count;
    }
    CHECK(payload_bytes <= FRAME_PAYLOAD_BYTES_MAX);
    header->version = FRAME_VERSION;
    header->body_length = (uint32_t)body_count;
    header->payload_length = (uint32_t)payload_bytes;
    header->body_crc = crc32c(0, body, body_count);
    frame_encode(header, f->header);
    f->body = body;
    f->body_count = body_count;
    f->pieces_count = pieces_count;
    f->total = FRAME_HEADER_BYTES + body_count + payload_bytes;
    list_init(&f->node);
    list_push_back(&conn->out, &f->node);
    if (conn->out_bytes == 0) {
        conn->moved_ms = uv_now(conn->handle.loop);
    }
    conn->out_bytes += f->total;
    conn_charge(conn, f->total);
    conn->out_total += f->total;
    if (list_empty(&conn->dirty_node) && !conn->writing) {
        list_push_back(conn->dirty, &conn->dirty_node);
    }
    return true;
}

struct gather
{
    uv_buf_t bufs[WRITE_BUFS_MAX];
    unsigned count;
    size_t skip; /* Bytes at the start that are already out. */
};

static void gather_add(struct gather *g, uint8_t *base, size_t count)
{
    if (g->skip >= count) {
        g->skip -= count;
        return;
    }
    g->bufs[g->count++] = uv_buf_init((char *)base + g->skip, (unsigned)(count - g->skip));
    g->skip = 0;
}

/* As many whole frames as fit, at least one and `frames` at most. */
static void gather_frames(struct conn *conn, struct gather *g, unsigned frames)
{
    g->count = 0;
    g->skip = conn->out_offset;
    LIST_FOREACH(node, &conn->out)
    {
        struct out_frame *f = LIST_ENTRY(node, struct out_frame, node);

        if (g->count + 2 + f->pieces_count > WRITE_BUFS_MAX || frames-- == 0) {
            break;
        }
        gather_add(g, f->header, FRAME_HEADER_BYTES);
        gather_add(g, f->body, f->body_count);
        for (unsigned i = 0; i < f->pieces_count; i++) {
            gather_add(g, f->pieces[i].payload->data + f->pieces[i].offset, f->pieces[i].count);
        }
    }
}

/* `count` more bytes are out. */
static void sent(struct conn *conn, size_t count)
{
    conn->statistics->bytes_out += count;
    conn->out_bytes -= count;
    conn->out_offset += count;
    conn->moved_ms = uv_now(conn->handle.loop);
    while (!list_empty(&conn->out)) {
        struct out_frame *f = LIST_ENTRY(list_front(&conn->out), struct out_frame, node);

        if (conn->out_offset < f->total) {
            break;
        }
        conn->out_offset -= f->total;
        conn_discharge(conn, f->total);
        list_remove(&f->node);
        out_frame_free(f);
    }
    if (conn->hooks->sent != NULL) {
        conn->hooks->sent(conn);
    }
}

static void on_written(uv_write_t *write, int status)
{
    struct conn *conn = CONTAINER_OF(write, struct conn, write);
    size_t bytes = (size_t)(uintptr_t)write->data;

    conn->writing = false;
    if (conn->closing) {
        return;
    }
    if (status != 0) {
        conn_close(conn, uv_strerror(status));
        return;
    }
    sent(conn, bytes);
    conn_flush(conn);
}

void conn_flush(struct conn *conn)
{
    struct gather g;
    size_t bytes = 0;
    int rv;

    list_remove(&conn->dirty_node);
    if (conn->broken != NULL) {
        conn_close(conn, conn->broken);
    }
    while (!conn->writing && !conn->closing && !list_empty(&conn->out)) {
        gather_frames(conn, &g, WRITE_BUFS_MAX);
        rv = uv_try_write(&conn->stream, g.bufs, g.count);
        if (rv < 0 && rv != UV_EAGAIN) {
            conn_close(conn, uv_strerror(rv));
            return;
        }
        if (rv > 0) {
            sent(conn, (size_t)rv);
            continue;
        }
        /* The socket is full. What is behind the first frame stays with us until there is room. */
        gather_frames(conn, &g, 1);
        for (unsigned i = 0; i < g.count; i++) {
            bytes += g.bufs[i].len;
        }
        conn->write.data = (void *)(uintptr_t)bytes;
        conn->writing = true;
        rv = uv_write(&conn->write, &conn->stream, g.bufs, g.count, on_written);
        if (rv != 0) {
            conn->writing = false;
            conn_close(conn, uv_strerror(rv));
        }
    }
}

void conn_forget_queued(struct conn *conn)
{
    struct list *node;

    while ((node = list_pop_front(&conn->out)) != NULL) {
        struct out_frame *f = LIST_ENTRY(node, struct out_frame, node);

        conn_discharge(conn, f->total);
        out_frame_free(f);
    }
}
