/* How fast calls go out: as the link to their peer takes them (pace.h). */
#include "common/rpc/rpc_internal_uv.h"

enum {
    US_PER_MS = 1000,
    TRIP_US = 100000,            /* The kernel is asked for the round trip this often at most. */
    STALLED_MS = 1000,           /* Nothing has moved: it is no question of pace any more. */
    QUEUED_BYTES_MAX = 256 << 10 /* What is in the connection's queue has its bound already: more
                                    waits outside. */
};

static uint64_t now_us(void)
{
    return uv_hrtime() / US_PER_MS;
}

void rpc_pace_begin(struct rpc_peer *peer)
{
    pace_init(&peer->sends);
    pace_init(&peer->fetches);
    peer->fetching = peer->acknowledged = 0;
    peer->all_acknowledged = true;
    peer->trip_at_us = 0;
    peer->moved_ms = uv_now(peer->rpc->loop);
}

void rpc_pace_connected(struct rpc_peer *peer)
{
    peer->sends.round_trip_us = peer->fetches.round_trip_us = conn_round_trip_us(peer->conn);
}

uint64_t rpc_pace_look(struct rpc_peer *peer)
{
    uint64_t under_way = conn_under_way(peer->conn), now = now_us();
    uint64_t acknowledged = peer->conn->out_total - under_way;

    if (acknowledged != peer->acknowledged || under_way == 0 || peer->all_acknowledged) {
        peer->acknowledged = acknowledged;
        peer->moved_ms = uv_now(peer->rpc->loop);
    }
    peer->all_acknowledged = under_way == 0;
    if (pace_observe(&peer->sends, now, acknowledged, under_way) &&
        now - peer->trip_at_us >= TRIP_US) {
        peer->trip_at_us = now;
        peer->sends.round_trip_us = conn_round_trip_us(peer->conn);
    }
    return under_way;
}

bool rpc_peer_hears(struct rpc_peer *peer, uint64_t age_ms)
{
    return peer->state == PEER_UP &&
           (rpc_pace_look(peer) == 0 || uv_now(peer->rpc->loop) < peer->moved_ms + age_ms);
}

bool rpc_pace_may_go(struct rpc_peer *peer, enum call_kind kind)
{
    switch (kind) {
    case CALL_FETCHES:
        return pace_has_room(&peer->fetches, peer->fetching);
    case CALL_SENDS:
        return peer->conn->out_bytes < QUEUED_BYTES_MAX &&
               pace_has_room(&peer->sends, rpc_pace_look(peer));
    case CALL_SMALL:
    case CALL_KINDS:
        break;
    }
    return true;
}

static uint64_t payload_bytes(const struct rpc_call_state *s)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < s->pieces_count; i++) {
        bytes += s->pieces[i].count;
    }
    return bytes;
}

void rpc_pace_waits(struct rpc_peer *peer, struct rpc_call_state *s, bool front)
{
    struct list *waiting = &peer->waiting[s->kind];

    if (front) {
        list_push_front(waiting, &s->node);
    } else {
        list_push_back(waiting, &s->node);
    }
    s->place = CALL_WAITING;
    peer->waiting_bytes += payload_bytes(s);
}

void rpc_pace_sent(struct rpc_peer *peer, struct rpc_call_state *s)
{
    rpc_pace_ended(peer, s);
    list_push_back(&peer->sent, &s->node);
    s->place = CALL_SENT;
    s->out_end = peer->conn->out_total;
    s->sent_ns = uv_hrtime();
    if (s->kind == CALL_FETCHES) {
        peer->fetching += s->call->fetches;
    }
}

void rpc_pace_answered(struct rpc_peer *peer, const struct rpc_call_state *s, uint64_t bytes)
{
    struct pace *p = &peer->fetches;
    uint64_t trip_us = (uv_hrtime() - s->sent_ns) / US_PER_MS;

    if (p->round_trip_us == 0 || trip_us < p->round_trip_us) {
        p->round_trip_us = trip_us;
    }
    if (s->kind == CALL_FETCHES && conn_flows_faster(peer->conn, PACE_GROWTH * p->rate)) {
        pace_came_whole(p, bytes);
    }
}

void rpc_pace_ended(struct rpc_peer *peer, struct rpc_call_state *s)
{
    if (s->place == CALL_SENT && s->kind == CALL_FETCHES) {
        CHECK(peer->fetching >= s->call->fetches);
        peer->fetching -= s->call->fetches;
    } else if (s->place == CALL_WAITING) {
        peer->waiting_bytes -= payload_bytes(s);
    }
    list_remove(&s->node);
    s->place = CALL_NOWHERE;
}

void rpc_pace_go_on(struct rpc_peer *peer)
{
    if (peer->state != PEER_UP) {
        return;
    }
    rpc_calls_send(peer);
    if (peer->room != NULL && ((peer->room_wanted && rpc_peer_has_room(peer)) ||
                               (peer->fetch_room_wanted && rpc_peer_has_fetch_room(peer)))) {
        peer->room_wanted = peer->fetch_room_wanted = false;
        peer->room(peer->watch_data);
    }
}

/* ---- The public face ---- */

bool rpc_peer_has_room(struct rpc_peer *peer)
{
    if (peer->state != PEER_UP ||
        pace_has_room(&peer->sends, peer->waiting_bytes + rpc_pace_look(peer))) {
        return true;
    }
    peer->room_wanted = true;
    return uv_now(peer->rpc->loop) >= peer->moved_ms + STALLED_MS;
}

bool rpc_peer_has_fetch_room(struct rpc_peer *peer)
{
    if (peer->state != PEER_UP ||
        (list_empty(&peer->waiting[CALL_FETCHES]) && rpc_pace_may_go(peer, CALL_FETCHES))) {
        return true;
    }
    peer->fetch_room_wanted = true;
    return false;
}

uint32_t rpc_peer_frame_bytes(const struct rpc_peer *peer)
{
    return pace_frame_bytes(&peer->sends);
}

uint32_t rpc_peer_fetch_bytes(const struct rpc_peer *peer)
{
    return pace_frame_bytes(&peer->fetches);
}

void rpc_peer_on_room(struct rpc_peer *peer, void (*room)(void *data))
{
    peer->room = room;
}
