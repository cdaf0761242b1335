/* What happens to connections on the way between two hosts.
 *
 * What is sent arrives in order, after the latency of both hosts and the time that it takes on the
 * sender's link; a cut delays it until it is over and has been noticed, and so does a machine
 * without power, which does not know the connection when it is back. Who is dead is noticed as the
 * kernel does it: by a reset when something is sent there, by TCP_USER_TIMEOUT, by keepalive. */
#include "tests/sim/world/world_sock.h"

#include <stdlib.h>
#include <string.h>

enum {
    WINDOW_BYTES = 256 << 10,
    USER_TIMEOUT_S = 10, /* conn_uv.c asks for it. */
    KEEPALIVE_S = 15     /* And for this, by both. */
};

struct world_sock *sock_new(struct world_process *p)
{
    struct world_sock *s = calloc(1, sizeof(*s));

    CHECK(s != NULL);
    s->process = p;
    s->number = (unsigned)++the_world->counts.accepts;
    list_init(&s->node);
    list_init(&s->flying);
    list_init(&s->received);
    list_init(&s->writes);
    list_init(&s->backlog);
    list_init(&s->waiting);
    list_push_back(&the_world->socks, &s->node);
    return s;
}

void sock_ready(struct world_sock *s)
{
    if (s->side != NULL && s->process->alive) {
        world_side_ready(s->side);
    }
}

uint64_t sock_latency_ns(const struct world_sock *from)
{
    const struct world_host *there =
        from->peer != NULL ? from->peer->process->host : from->process->host;

    return world_latency_ns(from->process->host) + world_latency_ns(there) +
           world_draw_skewed(the_world->latency_max_ns / 4);
}

void sock_drop_all(struct list *segments)
{
    struct list *node;

    while ((node = list_pop_front(segments)) != NULL) {
        free(LIST_ENTRY(node, struct segment, node));
    }
}

/* The connection is over for this end; what it has sent still flies. */
static void sock_break(struct world_sock *s, int error)
{
    if (s->state != SOCK_DEAD) {
        s->state = SOCK_DEAD;
        s->error = error;
        sock_drop_all(&s->received);
        sock_ready(s);
    }
}

/* Items of the queue that speak of it find nothing. */
static void sock_fail(struct world_sock *s, int error)
{
    if (s->state != SOCK_DEAD) {
        sock_break(s, error);
        sock_drop_all(&s->flying);
        s->flying_bytes = 0;
    }
}

/* ---- On the way ---- */

static void arrive(void *data);

static void on_reset(void *data)
{
    struct world_sock *s = data;

    the_world->counts.resets++;
    sock_fail(s, UV_ECONNRESET);
}

static void schedule_first(struct world_sock *s)
{
    struct list *node = list_front(&s->flying);

    if (node != NULL) {
        uint64_t at_ns = LIST_ENTRY(node, struct segment, node)->at_ns;

        world_at(at_ns > the_world->now_ns ? at_ns : the_world->now_ns, arrive, s);
    }
}

static void take_in(struct world_sock *from, struct world_sock *to, struct segment *g)
{
    if (to == NULL || to->state == SOCK_DEAD || (to->closed && !g->fin && !g->reset)) {
        if (!g->reset) {
            world_in(sock_latency_ns(from), on_reset, from);
        }
        free(g);
        return;
    }
    if (g->reset) {
        free(g);
        the_world->counts.resets++;
        sock_fail(to, UV_ECONNRESET);
        return;
    }
    to->ended |= g->fin;
    if (g->fin) {
        free(g);
    } else {
        list_push_back(&to->received, &g->node);
    }
    sock_ready(to);
}

/* The first that flies has come, if the way is open. */
static void arrive(void *data)
{
    struct world_sock *s = data;
    struct list *node = list_front(&s->flying);
    uint64_t until_ns;
    struct segment *g;

    if (node == NULL || (g = LIST_ENTRY(node, struct segment, node))->at_ns > the_world->now_ns) {
        return; /* It was dropped. */
    }
    if (s->peer != NULL && world_is_cut(s->process->host, s->peer->process->host, &until_ns)) {
        g->at_ns = until_ns + world_draw(500 * WORLD_MS);
        schedule_first(s);
        return;
    }
    list_remove(node);
    s->flying_bytes -= g->count;
    the_world->counts.segments++;
    take_in(s, s->peer, g);
    schedule_first(s);
}

static void send_segment(struct world_sock *s, struct segment *g)
{
    struct world_host *host = s->process->host;
    uint64_t start_ns =
        host->busy_until_ns > the_world->now_ns ? host->busy_until_ns : the_world->now_ns;
    bool first = list_empty(&s->flying);

    host->busy_until_ns = start_ns + world_sends_ns(host, g->count);
    g->at_ns = host->busy_until_ns + sock_latency_ns(s);
    if (g->at_ns <= s->last_at_ns) {
        g->at_ns = s->last_at_ns + 1;
    }
    s->last_at_ns = g->at_ns;
    s->sent_in_cut = true;
    list_init(&g->node);
    list_push_back(&s->flying, &g->node);
    if (first) {
        schedule_first(s);
    }
}

static struct segment *segment_new(const char *bytes, size_t count)
{
    struct segment *g = calloc(1, sizeof(*g) + count);

    CHECK(g != NULL);
    g->count = count;
    if (count > 0) {
        memcpy(g->bytes, bytes, count);
    }
    return g;
}

size_t sock_send(struct world_sock *s, const char *bytes, size_t count)
{
    size_t room = s->unread < WINDOW_BYTES ? WINDOW_BYTES - s->unread : 0;

    count = count < room ? count : room;
    for (size_t at = 0; at < count;) {
        size_t part = count - at < 65536 ? count - at : 65536;

        send_segment(s, segment_new(bytes + at, part));
        s->unread += part;
        s->flying_bytes += part;
        at += part;
    }
    return count;
}

void sock_end(struct world_sock *s, bool reset)
{
    if (s->state == SOCK_OPEN && !s->fin_sent) {
        struct segment *g = segment_new(NULL, 0);

        g->fin = !reset;
        g->reset = reset;
        s->fin_sent = true;
        send_segment(s, g);
    }
}

/* ---- Looking after the dead ---- */

static void look_after(struct world_sock *s)
{
    const struct world_sock *peer = s->peer;
    bool cut = world_is_cut(s->process->host, peer->process->host, NULL) ||
               world_is_cut(peer->process->host, s->process->host, NULL);
    uint64_t limit_ns = (s->sent_in_cut ? USER_TIMEOUT_S : KEEPALIVE_S) * WORLD_S;

    if (cut && s->cut_since_ns == 0) {
        s->cut_since_ns = the_world->now_ns;
        s->sent_in_cut = s->flying_bytes > 0;
    } else if (!cut) {
        s->cut_since_ns = 0;
        if (peer->state == SOCK_DEAD && s->peer_dead_since_ns == 0) {
            s->peer_dead_since_ns = the_world->now_ns;
        }
        if (s->peer_dead_since_ns != 0 && the_world->now_ns - s->peer_dead_since_ns > 5 * WORLD_S) {
            on_reset(s);
        }
    } else if (the_world->now_ns - s->cut_since_ns > limit_ns) {
        the_world->counts.timeouts++;
        sock_fail(s, UV_ETIMEDOUT);
    }
}

void world_socks_keepalive(void)
{
    LIST_FOREACH(node, &the_world->socks)
    {
        struct world_sock *s = LIST_ENTRY(node, struct world_sock, node);

        if (s->state == SOCK_OPEN && s->side != NULL && s->peer != NULL) {
            look_after(s);
        }
    }
}

void world_socks_of_killed(struct world_process *p)
{
    LIST_FOREACH(node, &the_world->socks)
    {
        struct world_sock *s = LIST_ENTRY(node, struct world_sock, node);

        if (s->process == p && !s->closed) {
            sock_end(s, !list_empty(&s->received) || world_chance(4));
            s->side = NULL;
            s->closed = true;
            if (s->state != SOCK_OPEN) {
                s->state = SOCK_DEAD;
            }
        }
    }
}

void world_socks_of_lost(struct world_process *p)
{
    LIST_FOREACH(node, &the_world->socks)
    {
        struct world_sock *s = LIST_ENTRY(node, struct world_sock, node);

        if (s->process == p && s->state != SOCK_DEAD) {
            if (!s->closed && world_chance(2)) {
                sock_drop_all(&s->flying); /* The rest was on its way already. */
            }
            sock_drop_all(&s->received);
            s->side = NULL;
            s->closed = true;
            s->state = SOCK_DEAD;
        }
    }
}

/* ---- Resets on the way ---- */

static void on_broken(void *data)
{
    struct world_sock *s = data;

    if (s->state != SOCK_OPEN || s->side == NULL) {
        return;
    }
    the_world->counts.broken++;
    world_trace(s->process->name, "** its connection to %s is reset", s->peer->process->name);
    if (world_chance(2)) {
        sock_break(s, UV_ECONNRESET);
    } else {
        sock_fail(s, UV_ECONNRESET);
    }
    world_in(world_draw_skewed(500 * WORLD_MS), on_reset, s->peer);
}

static bool is_busy(const struct world_sock *s, const struct world_host *host)
{
    return s->state == SOCK_OPEN && s->side != NULL && s->peer != NULL &&
           s->peer->state == SOCK_OPEN && s->peer->side != NULL && s->flying_bytes > 0 &&
           (host == NULL || s->process->host == host || s->peer->process->host == host);
}

bool world_socks_reset_one(const struct world_host *host)
{
    struct world_sock *chosen = NULL;
    uint64_t count = 0;

    LIST_FOREACH(node, &the_world->socks)
    {
        struct world_sock *s = LIST_ENTRY(node, struct world_sock, node);

        if (is_busy(s, host) && world_chance(++count)) {
            chosen = s;
        }
    }
    if (chosen != NULL) {
        world_in(world_draw_skewed(the_world->latency_max_ns + the_world->disk_max_ns), on_broken,
                 world_chance(2) ? chosen : chosen->peer);
    }
    return chosen != NULL;
}
