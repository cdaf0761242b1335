/* Calls that must not take effect twice: their numbers. */
#include "common/base/buf.h"
#include "common/base/status.h"
#include "common/rpc/rpc_internal_uv.h"

#include <stdlib.h>

/* Tags of data.proto, the same in each request that is a change: fixed64 number = 13, fixed64 ended
 * = 14, bool again = 15. A packed message with fields behind it is a packed message. */
enum { TAG_NUMBER = 13 << 3 | 1, TAG_ENDED = 14 << 3 | 1, TAG_AGAIN = 15 << 3 | 0 };

static_assert(RPC_ONCE_BYTES == 1 + 8 + 1 + 8 + 1 + 1, "three tags and their values");

int rpc_once_begin(struct rpc_peer *peer)
{
    if (peer->numbers_out != NULL) {
        return MORSEL_OK;
    }
    peer->numbers_out = calloc(DATA_OPS_PENDING_MAX, sizeof(*peer->numbers_out));
    if (peer->numbers_out == NULL) {
        return MORSEL_NOMEM;
    }
    op_numbers_init(&peer->numbers, peer->numbers_out, DATA_OPS_PENDING_MAX);
    return MORSEL_OK;
}

/* What brings bytes leaves some to what does not. */
static uint32_t leave(const struct rpc_call_state *s)
{
    return s->kind == CALL_SENDS ? DATA_OPS_RESERVED : 0;
}

bool rpc_once_may_go(struct rpc_peer *peer, const struct rpc_call_state *s)
{
    bool may = !s->call->once || s->number != 0 || op_numbers_has_room(&peer->numbers, leave(s));

    peer->number_wanted |= !may;
    return may;
}

/* It was sent before, and the server that it was sent to is there no more. */
static bool is_unsure(const struct rpc_peer *peer, const struct rpc_call_state *s)
{
    return s->sent_to != 0 && s->sent_to != peer->start_id && !s->call->exclusive;
}

int rpc_once_send(struct rpc_peer *peer, struct rpc_call_state *s, uint8_t *end)
{
    if (is_unsure(peer, s)) {
        return MORSEL_UNSURE;
    }
    if (s->number == 0) {
        s->number = op_numbers_take(&peer->numbers, leave(s));
        CHECK(s->number != 0);
    }
    end[0] = TAG_NUMBER;
    put_le64(end + 1, s->number);
    end[9] = TAG_ENDED;
    put_le64(end + 10, peer->numbers.answered);
    end[18] = TAG_AGAIN;
    end[19] = s->sent_to != 0 && !s->call->exclusive;
    s->sent_to = peer->start_id;
    return MORSEL_OK;
}

void rpc_once_ended(struct rpc_call_state *s)
{
    struct rpc_peer *peer = s->peer;

    if (s->number == 0) {
        return;
    }
    op_numbers_return(&peer->numbers, s->number);
    s->number = 0;
    s->sent_to = 0;
    if (peer->number_wanted) {
        peer->rpc->numbers_freed = true;
    }
}

void rpc_once_go_on(struct rpc *rpc)
{
    if (!rpc->numbers_freed) {
        return;
    }
    rpc->numbers_freed = false;
    LIST_FOREACH_SAFE(node, &rpc->peers)
    {
        struct rpc_peer *peer = LIST_ENTRY(node, struct rpc_peer, node);

        if (peer->number_wanted) {
            peer->number_wanted = false;
            rpc_pace_go_on(peer);
        }
    }
}
