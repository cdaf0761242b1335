/* How fast the bytes of a connection come and go (pace.h). */
#include "common/rpc/conn_uv.h"
#include "common/rpc/tcp_state_uv.h"

#include <netinet/tcp.h>

enum {
    US_PER_S = 1000000,
    UNSENT_BYTES_MAX = 256 << 10, /* What the kernel may hold that it cannot send yet: what is
                                     written to it cannot be taken back, nor given a later bound. */
    FLOW_BYTES_MIN = 1 << 20,     /* A rate of what comes is taken over so much, that moments in
                                     which this machine had other things to do count little, */
    FLOW_US_MIN = 100000          /* or so long. */
};

/* On a long way the sender's TCP begins with a few packets and waits a round trip for word of them
 * before it sends the rest of a frame: that is not the link's doing. On a short one it would hardly
 * be seen, and a gap of that length may be what others send meanwhile. */
static bool waited_for_word(const struct conn *conn, uint64_t gap_us)
{
    uint64_t trip_us;

    if (gap_us < FLOW_US_MIN * 3 / 4) {
        return false;
    }
    trip_us = conn_round_trip_us(conn);
    return trip_us >= FLOW_US_MIN && gap_us >= trip_us * 3 / 4;
}

/* A frame of which a part has come is ready at the sender: how fast the rest comes is the link's
 * doing, if we have taken all that was there and wait for more. What did not fit into the buffer of
 * the last read had come, too, and says nothing. */
void conn_note_flow(struct conn *conn, size_t count, bool drained)
{
    uint64_t now_us = uv_hrtime() / 1000;
    bool waited = conn->flow_at_us != 0;

    if (waited && !waited_for_word(conn, now_us - conn->flow_at_us)) {
        conn->flow_bytes += count;
        conn->flow_us += now_us - conn->flow_at_us;
    }
    conn->flow_at_us = 0;
    if ((waited || drained) && (conn->payload != NULL || conn->in_count > 0)) {
        conn->flow_at_us = now_us;
    }
    if (conn->flow_bytes >= FLOW_BYTES_MIN || conn->flow_us >= FLOW_US_MIN) {
        conn->hooks->flowed(conn, conn->flow_bytes, conn->flow_us);
        conn->flow_bytes = conn->flow_us = 0;
    }
}

bool conn_flows_faster(const struct conn *conn, uint64_t rate)
{
    return !conn->flowed || conn->flow_us * rate < conn->flow_bytes * US_PER_S;
}

uint64_t conn_received_of(const struct conn *conn, uint64_t request_id)
{
    if (!conn->have_header || conn->header.request_id != request_id) {
        return 0;
    }
    return conn->payload == NULL
               ? conn->in_count
               : FRAME_HEADER_BYTES + conn->header.body_length + conn->payload_filled;
}

void conn_keep_little(struct conn *conn)
{
    int fd, unsent = UNSENT_BYTES_MAX;

    if (uv_fileno(&conn->handle, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    }
}

uint64_t conn_under_way(const struct conn *conn)
{
    int fd;

    return conn->out_bytes + (uv_fileno(&conn->handle, &fd) == 0 ? tcp_kept_bytes(fd) : 0);
}

uint64_t conn_round_trip_us(const struct conn *conn)
{
    int fd;

    return uv_fileno(&conn->handle, &fd) == 0 ? tcp_round_trip_us(fd) : 0;
}
