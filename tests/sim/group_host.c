/* What members and voters of the group scenario have for a network and for clocks. */
#include "tests/sim/group.h"

void host_send(struct sim *s, uint32_t node, uint32_t to, struct host_message *m)
{
    const struct world *w = world_of(s);

    m->from = node;
    if (node <= w->voter && to <= w->voter && w->cut_until_ms[node][to] > s->now_ms) {
        return;
    }
    sim_send_datagram(s, node, to, m, sizeof(*m));
}

uint64_t true_of_clock(struct sim *s, uint32_t node, uint64_t clock_ms)
{
    int64_t left_ms = (int64_t)(clock_ms - sim_clock_ms(s, node));

    return clock_ms == UINT64_MAX ? clock_ms : (uint64_t)((int64_t)s->now_ms + left_ms);
}

uint64_t clock_of_true(struct sim *s, uint32_t node, uint64_t true_ms)
{
    int64_t clock_ms = (int64_t)(sim_clock_ms(s, node) + true_ms - s->now_ms);

    return true_ms == UINT64_MAX ? true_ms : clock_ms < 0 ? 0 : (uint64_t)clock_ms;
}
