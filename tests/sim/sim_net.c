/* The network of the simulator: connections as TCP gives them, and datagrams. */
#include "tests/sim/sim.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

enum { LATE_MS_MAX = 2000 }; /* How long a dead connection may go unnoticed. */

static struct sim_conn *conn_of(const struct sim *s, uint32_t conn)
{
    CHECK(conn >= 1 && conn <= s->conn_count);
    return &s->conns[conn - 1];
}

static uint64_t latest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t draw_delay_ms(struct sim *s)
{
    return prng_below(&s->prng, s->options.delay_ms_max + 1U);
}

static bool draw(struct sim *s, uint32_t permille)
{
    return permille > 0 && prng_below(&s->prng, 1000) < permille;
}

/* Until when nothing passes between the two. */
static uint64_t cut_until_ms(const struct sim *s, uint32_t a, uint32_t b)
{
    return latest(s->nodes[a].cut_until_ms, s->nodes[b].cut_until_ms);
}

static int end_of(const struct sim_conn *c, uint32_t node)
{
    CHECK(c->ends[0] == node || c->ends[1] == node);
    return c->ends[0] == node ? 0 : 1;
}

uint32_t sim_peer(const struct sim *s, uint32_t node, uint32_t conn)
{
    const struct sim_conn *c = conn_of(s, conn);

    return c->ends[1 - end_of(c, node)];
}

uint32_t sim_connect(struct sim *s, uint32_t from, uint32_t to)
{
    struct sim_conn *c;

    if (!s->nodes[to].up || cut_until_ms(s, from, to) > s->now_ms) {
        return 0;
    }
    if (s->conn_count == s->conn_capacity) {
        s->conn_capacity = s->conn_capacity ? 2 * s->conn_capacity : 64;
        s->conns = realloc(s->conns, s->conn_capacity * sizeof(s->conns[0]));
        CHECK(s->conns != NULL);
    }
    c = &s->conns[s->conn_count++];
    memset(c, 0, sizeof(*c));
    c->ends[0] = from;
    c->ends[1] = to;
    c->open[0] = c->open[1] = true;
    return s->conn_count;
}

/* ---- Sending ---- */

static struct sim_item *message_item(struct sim *s, uint32_t from, uint32_t to, uint32_t conn,
                                     uint64_t due_ms, const void *data, uint32_t size)
{
    struct sim_item *item = sim_item_new(s, to, due_ms);

    CHECK(size <= SIM_MESSAGE_BYTES_MAX);
    item->is_message = true;
    item->message.from = from;
    item->message.to = to;
    item->message.conn = conn;
    item->message.size = size;
    memcpy(item->message.data, data, size);
    return item;
}

void sim_send(struct sim *s, uint32_t from, uint32_t conn, const void *data, uint32_t size)
{
    struct sim_conn *c = conn_of(s, conn);
    int end = end_of(c, from);
    uint32_t to = c->ends[1 - end];
    uint64_t due_ms;

    if (!c->open[end] || c->broken) {
        return;
    }
    /* What meets a partition is sent again when it is over. */
    due_ms = latest(s->now_ms, cut_until_ms(s, from, to)) + draw_delay_ms(s);
    due_ms = latest(due_ms, c->last_ms[1 - end]);
    c->last_ms[1 - end] = due_ms;
    sim_item_push(s, message_item(s, from, to, conn, due_ms, data, size));
    if (draw(s, s->options.break_permille)) {
        sim_break(s, conn);
    }
}

void sim_send_datagram(struct sim *s, uint32_t from, uint32_t to, const void *data, uint32_t size)
{
    uint32_t copies = 1U + draw(s, s->options.duplicate_permille);

    if (cut_until_ms(s, from, to) > s->now_ms) {
        return;
    }
    for (uint32_t i = 0; i < copies; i++) {
        if (!draw(s, s->options.loss_permille)) {
            /* A copy may come much later than what was sent after it. */
            uint64_t due_ms = s->now_ms + draw_delay_ms(s) + (i > 0 ? 10 * draw_delay_ms(s) : 0);

            sim_item_push(s, message_item(s, from, to, 0, due_ms, data, size));
        }
    }
}

/* ---- Ends ---- */

/* The end hears of it, behind the last message that still arrives. */
static void tell_end(struct sim *s, uint32_t conn, int end, uint64_t delay_ms)
{
    struct sim_conn *c = conn_of(s, conn);
    struct sim_item *item;
    uint64_t due_ms = latest(s->now_ms + delay_ms, c->lost_ms[end]);

    due_ms = latest(due_ms, cut_until_ms(s, c->ends[0], c->ends[1]));
    item = sim_item_new(s, c->ends[end], due_ms);
    item->message.conn = conn;
    sim_item_push(s, item);
}

/* The side that connected mostly notices first; the other may hear of it much later. */
static uint64_t draw_notice_ms(struct sim *s, int end)
{
    return end == 1 && draw(s, s->options.late_permille) ? prng_below(&s->prng, LATE_MS_MAX)
                                                         : prng_below(&s->prng, 10);
}

void sim_break(struct sim *s, uint32_t conn)
{
    struct sim_conn *c = conn_of(s, conn);

    if (c->broken) {
        return;
    }
    c->broken = true;
    sim_trace(s, c->ends[0], "** connection %u breaks", conn);
    for (int end = 0; end < 2; end++) {
        c->lost_ms[end] = s->now_ms + draw_delay_ms(s);
        tell_end(s, conn, end, draw_notice_ms(s, end));
    }
}

void sim_hang_up(struct sim *s, uint32_t node, uint32_t conn)
{
    struct sim_conn *c = conn_of(s, conn);
    int end = end_of(c, node);

    c->open[end] = false;
    if (!c->broken) {
        c->broken = true;
        c->lost_ms[end] = s->now_ms;
        c->lost_ms[1 - end] = latest(s->now_ms, c->last_ms[1 - end]);
        tell_end(s, conn, 1 - end, draw_delay_ms(s));
    }
}

void sim_net_crashed(struct sim *s, uint32_t node)
{
    for (uint32_t i = 0; i < s->conn_count; i++) {
        struct sim_conn *c = &s->conns[i];

        if (c->ends[0] != node && c->ends[1] != node) {
            continue;
        }
        if (!c->broken) {
            sim_break(s, i + 1);
        }
        c->open[end_of(c, node)] = false;
    }
}

/* ---- Arriving ---- */

void sim_net_deliver(struct sim *s, struct sim_item *item)
{
    const struct sim_node *node = &s->nodes[item->node];
    struct sim_conn *c = item->message.conn == 0 ? NULL : conn_of(s, item->message.conn);

    if (!node->up) {
        return;
    }
    if (c != NULL) {
        int end = end_of(c, item->node);

        if (!c->open[end] || (item->is_message && c->broken && item->due_ms > c->lost_ms[end])) {
            return;
        }
        if (!item->is_message) {
            c->open[end] = false;
            if (node->actor->down != NULL) {
                node->actor->down(s, item->node, item->message.conn);
            }
            return;
        }
    }
    node->actor->receive(s, item->node, &item->message);
}
