/* The one timer of all copies, and who gets what. Which copies there are is in groups_open_uv.c. */
#include "iod/replica/groups_inner_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum { TICK_MS_MAX = 250, WAIT_MS = 500, LEAVE_LOOK_MS = 10 };

struct group_entry *groups_find(const struct groups *g, group_number number)
{
    struct group_entry *e;

    HASH_FIND(hh, g->table, &number, sizeof(number), e);
    return e;
}

/* `count`: that server is no member. */
static uint32_t place_of(const struct group_entry *e, uint64_t server)
{
    uint32_t place = 0;

    while (place < e->count && e->servers[place] != server) {
        place++;
    }
    return place;
}

/* ---- Time ---- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void look_at_disk(struct groups *g, uint64_t now_ms)
{
    room_tell(&g->peers.room, store_room_left(g->server->store) + 1, now_ms / ROOM_LOOK_MS);
}

static uint64_t smaller_bound(uint64_t a, uint64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* Clients are to have little under way while they are held up: what they have waits here. What a connection
 * carries is let through in about WAIT_MS. */
static void hold_up_clients(struct groups *g, uint64_t now_ms)
{
    uint64_t rate = 0, bytes = 0, lag_ms = 0;
    struct group_entry *e, *next;
    uint32_t clients = 1;

    HASH_ITER(hh, g->table, e, next)
    {
        uint32_t waiting = 0;
        uint64_t late_ms = e->copy != NULL ? copy_lag_ms(e->copy) : 0;

        rate += e->copy != NULL ? copy_write_rate(e->copy, &waiting) : 0;
        lag_ms = late_ms > lag_ms ? late_ms : lag_ms;
        clients = waiting > clients ? waiting : clients;
    }
    if (rate > 0) {
        bytes = rate * WAIT_MS / 1000 / clients;
        bytes = bytes > RECOVERY_PIECE_BYTES ? bytes : RECOVERY_PIECE_BYTES;
    }
    bytes = smaller_bound(bytes, backlog_share(&g->backlog, lag_ms, now_ms));
    rpc_server_set_client_share(g->server->listener, bytes);
}

static void tick(struct groups *g)
{
    uint64_t now_ms = rpc_boot_ms();
    struct group_entry *e, *next;

    g->ticking = true;
    look_at_disk(g, now_ms);
    peers_tick(&g->peers, now_ms);
    HASH_ITER(hh, g->table, e, next)
    {
        if (e->copy != NULL && now_ms >= copy_deadline_ms(e->copy)) {
            copy_tick(e->copy);
        }
    }
    hold_up_clients(g, now_ms);
    recovery_run(&g->gate, uv_hrtime() / 1000);
    groups_verify_next(g);
    ballots_tick(&g->ballots, now_ms);
    hand_ons_look(&g->hand_ons);
    g->ticking = false;
    peers_flush(&g->peers);
}

/* Of what waits at the gate, on rpc_boot_ms(). */
static uint64_t gate_due_ms(const struct groups *g, uint64_t now_ms)
{
    uint64_t due_us = recovery_due_us(&g->gate), now_us = uv_hrtime() / 1000;

    return due_us == UINT64_MAX ? UINT64_MAX
                                : now_ms + (due_us > now_us ? (due_us - now_us) / 1000 + 1 : 0);
}

static void on_timer(uv_timer_t *timer)
{
    struct groups *g = timer->data;

    tick(g);
    groups_look_leave(g);
    groups_rearm(g);
}

void groups_rearm(struct groups *g)
{
    uint64_t now_ms = rpc_boot_ms(), due_ms = now_ms + TICK_MS_MAX;
    struct group_entry *e, *next;

    if (!g->timer_open || g->closing) {
        return;
    }
    HASH_ITER(hh, g->table, e, next)
    {
        if (e->copy != NULL) {
            due_ms = earlier(due_ms, copy_deadline_ms(e->copy));
        }
    }
    due_ms = earlier(due_ms, peers_due_ms(&g->peers));
    due_ms = earlier(due_ms, ballots_due_ms(&g->ballots));
    due_ms = earlier(due_ms, gate_due_ms(g, now_ms));
    due_ms = g->left != NULL ? earlier(due_ms, now_ms + LEAVE_LOOK_MS) : due_ms;
    g->due_ms = due_ms;
    (void)uv_timer_start(&g->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 1, 0);
}

/* A round that was just joined reads when it has leases: it does not wait until they are due. */
static void hurry_leases(struct group_entry *e)
{
    const struct group *group = &copy_replica(e->copy)->group;
    bool hurries = false;

    for (uint32_t i = 0; i < e->count; i++) {
        if (e->peers[i] != NULL && group_lacks_lease(group, i, rpc_boot_ms()) &&
            e->hurried[i] != group->joined) {
            e->hurried[i] = group->joined;
            mirror_lease_hurry(&e->peers[i]->lease);
            hurries = true;
        }
    }
    if (hurries) {
        groups_rearm(e->groups);
    }
}

/* Something has been fed to the copy from outside of a tick; NULL: to several. */
static void fed(struct groups *g, const struct group_entry *e)
{
    if (g->ticking) {
        return;
    }
    peers_flush(&g->peers);
    if (e == NULL || (e->copy != NULL && copy_deadline_ms(e->copy) < g->due_ms)) {
        groups_rearm(g);
    }
}

/* ---- What copies want ---- */

/* Who waits for all copies, or for the loss of one, hears of it soon. */
static void note_well(struct group_entry *e, const struct copy *copy)
{
    struct groups *g = e->groups;

    if (copy_is_well(copy) != e->well) {
        e->well = !e->well;
        g->has_news = true;
        g->news(g->news_data);
    }
}

static void on_word(void *data, struct copy *copy, const struct group_word *word)
{
    struct group_entry *e = data;

    note_well(e, copy);
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->peers[i] != NULL) {
            peer_say(e->peers[i], word);
        }
    }
    if (!e->groups->ticking) {
        peers_flush(&e->groups->peers);
    }
    if (e->copy != NULL) {
        hurry_leases(e);
    }
}

static void on_send(void *data, struct copy *copy, uint32_t member, const Morsel__ReplicaMessage *m,
                    struct payload *payload)
{
    struct group_entry *e = data;

    (void)copy;
    if (member < e->count && e->peers[member] != NULL) {
        peer_send(e->peers[member], m, payload);
    }
}

static void on_vote(void *data, struct copy *copy, uint64_t epoch, group_set set, group_set before)
{
    struct group_entry *e = data;

    (void)copy;
    log_info(e->groups->server->log, "group %u: %s in epoch %llu", e->number,
             set != 0 ? "wants to go on with another set of servers, and asks the voters"
                      : "asks the voters what was decided",
             (unsigned long long)epoch);
    ballots_begin(&e->groups->ballots, e->number, epoch, set, before);
    fed(e->groups, NULL);
}

static void on_stop_vote(void *data, struct copy *copy)
{
    struct group_entry *e = data;

    (void)copy;
    ballots_end(&e->groups->ballots, e->number);
}

static enum room_verdict on_has_room(void *data, struct copy *copy, uint64_t bytes)
{
    struct group_entry *e = data;
    struct groups *g = e->groups;
    group_set set = copy_replica(copy)->group.record.set;
    enum room_verdict verdict;

    look_at_disk(g, rpc_boot_ms());
    verdict = room_ask(&g->peers.room, bytes, e->count);
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->peers[i] != NULL && (set >> i & 1) != 0) {
            enum room_verdict of_peer = room_ask(&e->peers[i]->room, bytes, e->count);

            verdict = of_peer > verdict ? of_peer : verdict;
        }
    }
    if (verdict != ROOM_YES) {
        return verdict;
    }
    room_use(&g->peers.room, bytes);
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->peers[i] != NULL) {
            room_use(&e->peers[i]->room, bytes);
        }
    }
    return ROOM_YES;
}

static uint32_t on_way(void *data, struct copy *copy, uint32_t member)
{
    const struct group_entry *e = data;
    struct rpc_peer *peer =
        member < e->count && e->peers[member] != NULL ? e->peers[member]->messages : NULL;

    (void)copy;
    return peer != NULL && rpc_peer_has_room(peer) ? rpc_peer_frame_bytes(peer) : 0;
}

static void on_gated(void *data, struct copy *copy)
{
    struct group_entry *e = data;

    (void)copy;
    if (!e->groups->ticking) {
        groups_rearm(e->groups);
    }
}

static void on_due(void *data, struct copy *copy)
{
    struct group_entry *e = data;

    if (!e->groups->ticking && e->copy != NULL && copy_deadline_ms(copy) < e->groups->due_ms) {
        groups_rearm(e->groups);
    }
}

const struct copy_hooks groups_copy_hooks = { .word = on_word,
                                              .send = on_send,
                                              .vote = on_vote,
                                              .stop_vote = on_stop_vote,
                                              .has_room = on_has_room,
                                              .way = on_way,
                                              .gated = on_gated,
                                              .due = on_due };

void groups_decided(void *data, group_number group, uint64_t epoch, group_set set)
{
    struct groups *g = data;
    struct group_entry *e = groups_find(g, group);

    if (e != NULL && e->copy != NULL && !g->closing) {
        log_info(g->server->log,
                 "group %u: in epoch %llu the servers in sync are those at places 0x%x", group,
                 (unsigned long long)epoch, set);
        copy_decided(e->copy, epoch, set);
        fed(g, NULL);
    }
}

/* ---- What peers want ---- */

static void on_exceptions(void *data, server_id server, struct mirror_exceptions *out)
{
    struct groups *g = data;
    struct group_entry *e, *next;

    HASH_ITER(hh, g->table, e, next)
    {
        uint32_t place = place_of(e, server);

        if (place < e->count && (e->copy == NULL || copy_trouble(e->copy) != NULL ||
                                 !group_covers(&copy_replica(e->copy)->group, place))) {
            mirror_exceptions_add(out, e->number);
        }
    }
}

/* Reads that waited for a lease are looked at again with the next tick. */
static void on_leased(void *data, server_id server)
{
    struct groups *g = data;
    struct group_entry *e, *next;

    HASH_ITER(hh, g->table, e, next)
    {
        if (e->copy != NULL && place_of(e, server) < e->count) {
            copy_tick(e->copy);
        }
    }
    fed(g, NULL);
}

/* A majority of the voters is refused by that server's machine, too. */
void groups_dead(void *data, server_id server)
{
    struct groups *g = data;
    struct peer *peer = peers_find(&g->peers, server);
    struct group_entry *e, *next;

    if (peer == NULL || g->closing) {
        return;
    }
    if (!peer->dead) {
        log_warning(g->server->log,
                    "storage server %u has no process any more: its groups go on without it",
                    server);
    }
    peer->dead = true;
    mirror_lease_void(&peer->lease);
    HASH_ITER(hh, g->table, e, next)
    {
        uint32_t place = place_of(e, server);

        if (e->copy != NULL && place < e->count) {
            copy_dead(e->copy, place);
        }
    }
    fed(g, NULL);
}

static void on_refused(void *data, server_id server)
{
    struct groups *g = data;
    struct peer *peer = peers_find(&g->peers, server);

    if (peer != NULL) {
        probe_begin(&g->probes, server, rpc_peer_address(peer->words));
    }
}

static void on_connected(void *data, server_id server)
{
    struct groups *g = data;
    struct peer *peer = peers_find(&g->peers, server);
    struct group_entry *e, *next;

    if (peer != NULL) {
        peer->dead = false;
    }
    HASH_ITER(hh, g->table, e, next)
    {
        if (e->copy != NULL && place_of(e, server) < e->count) {
            copy_lost(e->copy);
        }
    }
    fed(g, NULL);
}

const struct peers_hooks groups_peers_hooks = { .exceptions = on_exceptions,
                                                .leased = on_leased,
                                                .connected = on_connected,
                                                .refused = on_refused };

/* ---- Requests ---- */

/* It has answered within the last second or so: it is asked for a lease that often. */
static bool answers(const struct peer *peer)
{
    return peer->lease.asked_ms + GROUP_SILENCE_MS + MIRROR_LEASE_RENEW_MS > rpc_boot_ms();
}

/* Who is closed knows what was so before. */
static struct rpc_peer *on_orderer(void *data, group_number number)
{
    struct groups *g = data;
    const struct group_entry *e = groups_find(g, number);
    uint32_t place;

    if (e == NULL || e->copy == NULL) {
        return NULL;
    }
    place = group_orderer(&copy_replica(e->copy)->group);
    if (copy_trouble(e->copy) != NULL && e->count > 1) {
        place = place == e->me || place >= e->count ? (e->me + 1) % e->count : place;
    }
    return place < e->count && e->peers[place] != NULL && answers(e->peers[place])
               ? e->peers[place]->messages
               : NULL;
}

static bool is_member(void *data, uint64_t server)
{
    struct groups *g = data;

    return peers_find(&g->peers, (server_id)server) != NULL;
}

void groups_hand_ons_begin(struct groups *g)
{
    g->hand_ons.server = g->server;
    g->hand_ons.orderer = on_orderer;
    g->hand_ons.is_member = is_member;
    g->hand_ons.data = g;
}

static void on_words(struct groups *g, const Morsel__GroupWords *m, uint64_t server)
{
    for (size_t i = 0; i < m->n_words; i++) {
        const Morsel__GroupWord *w = m->words[i];
        struct group_entry *e = groups_find(g, w->group);
        struct group_word word = { .group = w->group,
                                   .from = w->from,
                                   .start = w->start,
                                   .number = w->number,
                                   .state = w->state,
                                   .epoch = w->epoch,
                                   .set = (group_set)w->set,
                                   .agreed = w->agreed,
                                   .complete = w->complete,
                                   .begun = w->begun,
                                   .ready = w->ready,
                                   .promised = w->promised,
                                   .equal = w->equal,
                                   .joined = w->joined,
                                   .phase = w->phase,
                                   .leading = w->leading,
                                   .source = w->source,
                                   .verifier = w->verifier,
                                   .offered = (group_set)w->offered,
                                   .slow = (group_set)w->slow,
                                   .leaves = w->leaves,
                                   .unsure = w->unsure,
                                   .decided_epoch = w->decided_epoch,
                                   .decided = (group_set)w->decided };

        for (size_t j = 0; j < w->n_starts && j < REPLICAS_MAX; j++) {
            word.starts[j] = w->starts[j];
        }
        if (e != NULL && e->copy != NULL && place_of(e, server) == w->from && w->set <= UINT8_MAX &&
            w->offered <= UINT8_MAX && w->slow <= UINT8_MAX && w->decided <= UINT8_MAX &&
            w->state < GROUP_STATES && w->phase <= GROUP_COMMITTING) {
            copy_heard(e->copy, &word);
            hurry_leases(e);
        }
    }
}

static void take_words(struct groups *g, struct peer *peer, struct rpc_request *request)
{
    Morsel__GroupWords *m = rpc_request_unpack(request, &morsel__group_words__descriptor);

    if (m == NULL) {
        return;
    }
    room_tell(&peer->room, m->bytes_free, m->look);
    g->ticking = true; /* Answers of several groups go out together. */
    on_words(g, m, request->node_id);
    g->ticking = false;
    fed(g, NULL);
    morsel__group_words__free_unpacked(m, NULL);
    rpc_reply(request, NULL, NULL);
}

static void take_message(struct groups *g, struct rpc_request *request)
{
    Morsel__ReplicaMessage *m = rpc_request_unpack(request, &morsel__replica_message__descriptor);
    struct group_entry *e;
    uint32_t place;

    if (m == NULL) {
        return;
    }
    e = groups_find(g, m->group);
    place = e != NULL ? place_of(e, request->node_id) : 0;
    if (e == NULL || e->copy == NULL || place == e->count) {
        rpc_reply_failure(request, MORSEL_NOT_HERE, "this server and that one have no such group");
    } else {
        copy_receive(e->copy, place, m, request);
        fed(g, e);
    }
    morsel__replica_message__free_unpacked(m, NULL);
}

void groups_handle(struct groups *g, struct rpc_request *request)
{
    struct peer *peer = request->role == ROLE_IOD && request->node_id != 0
                            ? peers_find(&g->peers, (server_id)request->node_id)
                            : NULL;

    if (request->type == MSG_HAND_ON) {
        hand_on_take(&g->hand_ons, request);
    } else if (peer == NULL || g->closing) {
        rpc_reply_failure(request, g->closing ? MORSEL_SHUTDOWN : MORSEL_PERM,
                          "only the other servers of our groups ask this");
    } else if (request->type == MSG_GROUP_WORDS) {
        take_words(g, peer, request);
    } else if (request->type == MSG_MIRROR_LEASE) {
        peer_lease_asked(peer, request, rpc_boot_ms());
    } else {
        take_message(g, request);
    }
}

void groups_confirmed(struct groups *g, uint64_t version)
{
    g->confirmed = g->confirmed || version == groups_version(g) || version == 0;
}

/* It was the only one in its set when it started, and may have been given up meanwhile. */
static bool is_unsure(const struct groups *g, const struct group_entry *e)
{
    return !g->confirmed && e->unsure_ms > rpc_boot_ms();
}

void groups_route(void *data, struct job *job, const struct object_handler *handler)
{
    struct groups *g = data;
    struct object_reach reach;
    struct group_entry *e;

    handler->reach(job, &reach);
    e = groups_find(g, placing_group(reach.object.column));
    if (e == NULL || e->copy == NULL || g->closing || is_unsure(g, e)) {
        errmsg_set(&job->err, "this server has no copy of group %u",
                   placing_group(reach.object.column));
        job->status = MORSEL_NOT_HERE;
        object_done(job, handler);
        return;
    }
    copy_request(e->copy, job, handler);
    fed(g, e);
}

/* ---- Deletions ---- */

struct deletion
{
    struct groups *groups;
    struct object_id *ids;
    size_t count, at, gone, under_way;
    void (*done)(void *data, size_t gone);
    void *data;
};

static void deletion_go_on(struct deletion *d);

static void on_gone(void *data, size_t gone)
{
    struct deletion *d = data;
    struct object_id swap;

    for (size_t i = 0; i < gone; i++) {
        swap = d->ids[d->gone];
        d->ids[d->gone] = d->ids[d->at + i];
        d->ids[d->at + i] = swap;
        d->gone++;
    }
    d->at += d->under_way;
    deletion_go_on(d);
}

static bool same_group(const struct object_id *a, const struct object_id *b)
{
    return placing_group(a->column) == placing_group(b->column);
}

static void deletion_go_on(struct deletion *d)
{
    size_t end = d->at;
    struct group_entry *e;

    if (d->at == d->count) {
        d->done(d->data, d->gone);
        free(d);
        return;
    }
    while (end < d->count && same_group(&d->ids[end], &d->ids[d->at])) {
        end++;
    }
    d->under_way = end - d->at;
    e = groups_find(d->groups, placing_group(d->ids[d->at].column));
    if (e == NULL || e->copy == NULL || d->groups->closing) {
        on_gone(d, 0);
    } else {
        copy_delete(e->copy, d->ids + d->at, d->under_way, on_gone, d);
    }
}

bool groups_hold(const struct groups *g, group_number number)
{
    return groups_find(g, number) != NULL;
}

void groups_delete(struct groups *g, struct object_id *ids, size_t count,
                   void (*done)(void *data, size_t gone), void *data)
{
    struct deletion *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        done(data, 0);
        return;
    }
    *d = (struct deletion){ .groups = g, .ids = ids, .count = count, .done = done, .data = data };
    deletion_go_on(d);
}

/* ---- What is told ---- */

uint64_t groups_version(const struct groups *g)
{
    return g->kept != NULL ? g->kept->version : 0;
}

static uint32_t reached(const struct group_entry *e)
{
    uint32_t places = 0;

    for (uint32_t i = 0; i < e->count; i++) {
        places |= e->peers[i] != NULL && answers(e->peers[i]) ? 1U << i : 0;
    }
    return places;
}

static bool fill_state(struct group_entry *e, Morsel__CopyState *state)
{
    const struct group *group;
    const char *trouble;

    morsel__copy_state__init(state);
    state->group = e->number;
    if (e->copy == NULL) {
        state->state = GROUP_STALE;
        state->closed = true;
        state->opening = e->closing;
        state->trouble =
            (char *)(uintptr_t)(e->closing ? "it is being opened again"
                                           : "it could not be opened: its server's log says why");
        return true;
    }
    group = &copy_replica(e->copy)->group;
    trouble = copy_trouble(e->copy);
    state->state = group->record.state;
    state->serves = trouble == NULL && group->joined != 0;
    state->epoch = group->record.epoch;
    state->rate_limit = e->groups->gate.rate;
    state->set = group->record.set;
    copy_slow_words(e->copy, &e->slow);
    state->trouble = (char *)(uintptr_t)(trouble != NULL ? trouble : e->slow.text);
    state->begun = group->record.begun;
    state->whole = group->record.whole;
    state->reaches = reached(e);
    state->doubt_bytes = replica_doubt(copy_replica(e->copy));
    state->closed = trouble != NULL;
    state->bytes_given = replica_bytes_given(copy_replica(e->copy));
    replica_left(copy_replica(e->copy), &state->objects_left, &state->bytes_left);
    return !copy_is_well(e->copy);
}

size_t groups_states(struct groups *g, Morsel__CopyState *states, size_t max)
{
    struct group_entry *e, *next;
    size_t count = 0;

    g->has_news = false;
    HASH_ITER(hh, g->table, e, next)
    {
        if (count < max && fill_state(e, &states[count])) {
            count++;
        }
    }
    return count;
}

void groups_voters_changed(struct groups *g)
{
    ballots_voters_changed(&g->ballots);
}

/* ---- End ---- */

void groups_copy_closed(void *data)
{
    struct groups *g = data;

    if (--g->open == 0 && g->closed != NULL) {
        g->closed(g->closed_data);
    }
}

void groups_close(struct groups *g, void (*closed)(void *data), void *data)
{
    struct group_entry *e, *next;

    g->closing = true;
    g->left = NULL;
    g->closed = closed;
    g->closed_data = data;
    g->open++;
    if (g->timer_open) {
        uv_close((uv_handle_t *)&g->timer, NULL);
    }
    probes_close(&g->probes);
    hand_ons_close(&g->hand_ons);
    ballots_close(&g->ballots);
    peers_close(&g->peers);
    HASH_ITER(hh, g->table, e, next)
    {
        struct copy *copy = e->copy;

        e->copy = NULL;
        if (copy != NULL) {
            copy_close(copy, groups_copy_closed, g);
        }
    }
    groups_copy_closed(g);
}

void groups_free(struct groups *g)
{
    struct group_entry *e, *next;

    HASH_ITER(hh, g->table, e, next)
    {
        HASH_DEL(g->table, e);
        free(e);
    }
    probes_free(&g->probes);
    ballots_free(&g->ballots);
    peers_free(&g->peers);
    morsel__group_set__free_unpacked(g->kept, NULL);
    g->kept = NULL;
}
