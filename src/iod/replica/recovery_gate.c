/* A queue in front of a rate. */
#include "iod/replica/recovery_gate.h"

#include "common/base/check.h"

enum { US_PER_S = 1000000 };

void recovery_gate_init(struct recovery_gate *g, uint64_t rate)
{
    *g = (struct recovery_gate){ .rate = rate };
    list_init(&g->waiting);
}

uint32_t recovery_piece_bytes(const struct recovery_gate *g)
{
    uint64_t bytes = g != NULL && g->rate != 0 ? g->rate / RECOVERY_PIECES_A_SECOND : UINT64_MAX;

    bytes = bytes < RECOVERY_PIECE_BYTES ? bytes : RECOVERY_PIECE_BYTES;
    bytes = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    return (uint32_t)(bytes - bytes % BLOCK_BYTES);
}

static uint64_t time_of(const struct recovery_gate *g, uint64_t bytes)
{
    return (uint64_t)((double)bytes * US_PER_S / (double)g->rate);
}

static void count(struct recovery_gate *g, uint64_t bytes, uint64_t now_us)
{
    uint64_t oldest_us = now_us > RECOVERY_CREDIT_US ? now_us - RECOVERY_CREDIT_US : 0;

    g->next_us = (g->next_us > oldest_us ? g->next_us : oldest_us) + time_of(g, bytes);
}

bool recovery_enter(struct recovery_gate *g, struct recovery_wait *wait, uint64_t now_us)
{
    list_init(&wait->node);
    if (g->rate == 0) {
        return true;
    }
    if (!list_empty(&g->waiting) || g->next_us > now_us) {
        list_push_back(&g->waiting, &wait->node);
        return false;
    }
    count(g, wait->bytes, now_us);
    return true;
}

void recovery_leave(struct recovery_wait *wait)
{
    list_remove(&wait->node);
}

void recovery_unused(struct recovery_gate *g, uint64_t bytes)
{
    uint64_t us = g->rate == 0 ? 0 : time_of(g, bytes);

    g->next_us -= us < g->next_us ? us : g->next_us;
}

uint64_t recovery_due_us(const struct recovery_gate *g)
{
    return list_empty(&g->waiting) ? UINT64_MAX : g->next_us;
}

void recovery_run(struct recovery_gate *g, uint64_t now_us)
{
    CHECK_IMPLIES(g->rate == 0, list_empty(&g->waiting));
    while (!list_empty(&g->waiting) && g->next_us <= now_us) {
        struct recovery_wait *wait =
            LIST_ENTRY(list_pop_front(&g->waiting), struct recovery_wait, node);

        count(g, wait->bytes, now_us);
        wait->go(wait);
    }
}
