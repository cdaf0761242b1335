/* Words gathered, leases asked for and given, messages with their bytes. */
#include "iod/replica/peers_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "iod/replica/group.h"

#include <stdlib.h>

struct peer *peers_find(const struct peers *p, server_id id)
{
    struct peer *peer;

    HASH_FIND(hh, p->table, &id, sizeof(id), peer);
    return peer;
}

/* ---- Beginning and end ---- */

static void on_refused(void *data)
{
    struct peer *peer = data;

    if (!peer->peers->closing) {
        peer->peers->hooks->refused(peer->peers->data, peer->id);
    }
}

static void ask(struct peer *peer, uint64_t now_ms);

/* A lease is asked for at once. That this is set has the connection made again as soon as it is lost, so
 * that a dead process is noticed in an instant. */
static void on_up(void *data)
{
    struct peer *peer = data;

    if (!peer->peers->closing) {
        ask(peer, rpc_boot_ms());
    }
}

static void on_messages_up(void *data)
{
    struct peer *peer = data;

    if (!peer->peers->closing) {
        peer->peers->hooks->connected(peer->peers->data, peer->id);
    }
}

static struct rpc_peer *connect_to(struct peer *peer, const char *address, struct errmsg *err)
{
    struct rpc_peer *made = NULL;

    if (rpc_peer_new(peer->peers->rpc, address, &made, err) == MORSEL_OK) {
        rpc_peer_expect(made, peer->id);
    }
    return made;
}

static struct peer *peer_new(struct peers *p, server_id id, const char *address, struct errmsg *err)
{
    struct peer *peer = calloc(1, sizeof(*peer));

    if (peer == NULL) {
        errmsg_set(err, "out of memory");
        return NULL;
    }
    peer->peers = p;
    peer->id = id;
    peer->words = connect_to(peer, address, err);
    peer->messages = peer->words == NULL ? NULL : connect_to(peer, address, err);
    if (peer->messages == NULL) {
        if (peer->words != NULL) {
            rpc_peer_close(peer->words);
        }
        free(peer);
        return NULL;
    }
    rpc_peer_watch(peer->words, on_up, NULL, peer);
    rpc_peer_on_refused(peer->words, on_refused);
    rpc_peer_watch(peer->messages, on_messages_up, NULL, peer);
    mirror_lease_init(&peer->lease, p->start, rpc_boot_ms());
    HASH_ADD(hh, p->table, id, sizeof(peer->id), peer);
    return peer;
}

struct peer *peers_add(struct peers *p, server_id id, const char *address, struct errmsg *err)
{
    struct peer *peer = peers_find(p, id);

    if (peer == NULL) {
        return peer_new(p, id, address, err);
    }
    if (rpc_peer_set_address(peer->words, address, err) != MORSEL_OK ||
        rpc_peer_set_address(peer->messages, address, err) != MORSEL_OK) {
        return NULL;
    }
    return peer;
}

void peers_close(struct peers *p)
{
    struct peer *peer, *next;

    p->closing = true;
    HASH_ITER(hh, p->table, peer, next)
    {
        rpc_peer_close(peer->words);
        rpc_peer_close(peer->messages);
    }
}

void peers_free(struct peers *p)
{
    struct peer *peer, *next;

    HASH_ITER(hh, p->table, peer, next)
    {
        HASH_DEL(p->table, peer);
        free(peer);
    }
}

/* ---- Words ---- */

static void fill_word(Morsel__GroupWord *to, const struct group_word *from, uint64_t *starts)
{
    morsel__group_word__init(to);
    to->group = (uint32_t)from->group;
    to->from = from->from;
    to->start = from->start;
    to->number = from->number;
    to->state = from->state;
    to->epoch = from->epoch;
    to->set = from->set;
    to->agreed = from->agreed;
    to->complete = from->complete;
    to->begun = from->begun;
    to->ready = from->ready;
    to->promised = from->promised;
    to->equal = from->equal;
    to->joined = from->joined;
    to->phase = from->phase;
    to->leading = from->leading;
    to->source = from->source;
    to->verifier = from->verifier;
    to->offered = from->offered;
    to->slow = from->slow;
    to->leaves = from->leaves;
    to->unsure = from->unsure;
    to->decided_epoch = from->decided_epoch;
    to->decided = from->decided;
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        starts[i] = from->starts[i];
    }
    to->n_starts = REPLICAS_MAX;
    to->starts = starts;
}

static void flush(struct peer *peer)
{
    Morsel__GroupWords message = MORSEL__GROUP_WORDS__INIT;
    Morsel__GroupWord words[PEER_WORDS_MAX], *pointers[PEER_WORDS_MAX];
    uint64_t starts[PEER_WORDS_MAX][REPLICAS_MAX];

    if (peer->words_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < peer->words_count; i++) {
        fill_word(&words[i], &peer->pending[i], starts[i]);
        pointers[i] = &words[i];
    }
    message.n_words = peer->words_count;
    message.words = pointers;
    message.bytes_free = peer->peers->room.told;
    message.look = peer->peers->room.look;
    peer->words_count = 0;
    rpc_send_oneway(peer->words, MSG_GROUP_WORDS, &message.base);
}

void peer_say(struct peer *peer, const struct group_word *word)
{
    for (uint32_t i = 0; i < peer->words_count; i++) {
        if (peer->pending[i].group == word->group) {
            peer->pending[i] = *word;
            return;
        }
    }
    if (peer->words_count == PEER_WORDS_MAX) {
        flush(peer);
    }
    peer->pending[peer->words_count++] = *word;
}

void peers_flush(struct peers *p)
{
    struct peer *peer, *next;

    HASH_ITER(hh, p->table, peer, next)
    {
        flush(peer);
    }
}

/* ---- Messages ---- */

struct sending
{
    struct rpc_call call;
    struct peer *peer;
};

static void on_sent(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct sending *s = CONTAINER_OF(call, struct sending, call);

    (void)status;
    (void)reply;
    s->peer->under_way--;
    free(s);
}

/* Behind a broken connection it is not sent again: the core does that, with what holds by then. */
void peer_send(struct peer *peer, const Morsel__ReplicaMessage *m, struct payload *payload)
{
    struct rpc_piece piece = { .payload = payload };
    struct sending *s = NULL;

    if (peer->peers->closing || peer->under_way >= PEER_MESSAGES_MAX ||
        (s = calloc(1, sizeof(*s))) == NULL) {
        return;
    }
    if (payload != NULL) {
        piece.count = payload->count;
    }
    s->peer = peer;
    s->call.impatient = true;
    if (rpc_call_start(&s->call, peer->messages, MSG_REPLICA, &m->base,
                       payload != NULL ? &piece : NULL, payload != NULL ? 1 : 0,
                       GROUP_SILENCE_MS * 4, on_sent) != MORSEL_OK) {
        free(s);
        return;
    }
    peer->under_way++;
}

/* ---- Leases ---- */

static void on_lease(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct peer *peer = CONTAINER_OF(call, struct peer, asking);
    struct mirror_exceptions exceptions = { .count = 0 };
    Morsel__MirrorLeaseReply *m = NULL;

    if (peer->again) {
        peer->again = false;
        mirror_lease_hurry(&peer->lease);
    }
    if (status != MORSEL_OK || peer->peers->closing) {
        return;
    }
    m = rpc_unpack(&morsel__mirror_lease_reply__descriptor, reply->body, reply->body_count);
    if (m == NULL) {
        return;
    }
    exceptions.all = m->all;
    for (size_t i = 0; i < m->n_groups; i++) {
        mirror_exceptions_add(&exceptions, m->groups[i]);
    }
    mirror_lease_granted(&peer->lease, m->start, m->asked_ms, &exceptions, rpc_boot_ms());
    morsel__mirror_lease_reply__free_unpacked(m, NULL);
    peer->peers->hooks->leased(peer->peers->data, peer->id);
}

static void ask(struct peer *peer, uint64_t now_ms)
{
    Morsel__MirrorLeaseRequest request = MORSEL__MIRROR_LEASE_REQUEST__INIT;

    mirror_lease_ask(&peer->lease, now_ms);
    if (rpc_call_active(&peer->asking)) {
        peer->again = true; /* What it brings is older; but it comes, or its time is over soon. */
        return;
    }
    request.start = peer->peers->start;
    request.asked_ms = now_ms;
    peer->asking.impatient = true;
    (void)rpc_call_start(&peer->asking, peer->words, MSG_MIRROR_LEASE, &request.base, NULL, 0,
                         PEER_LEASE_CALL_MS, on_lease);
}

uint64_t peers_due_ms(const struct peers *p)
{
    uint64_t due_ms = UINT64_MAX;
    struct peer *peer, *next;

    HASH_ITER(hh, p->table, peer, next)
    {
        uint64_t ask_ms = mirror_lease_deadline_ms(&peer->lease);

        due_ms = ask_ms < due_ms ? ask_ms : due_ms;
    }
    return due_ms;
}

void peers_tick(struct peers *p, uint64_t now_ms)
{
    struct peer *peer, *next;

    HASH_ITER(hh, p->table, peer, next)
    {
        if (now_ms >= mirror_lease_deadline_ms(&peer->lease)) {
            ask(peer, now_ms);
        }
    }
}

void peer_lease_asked(struct peer *peer, struct rpc_request *request, uint64_t now_ms)
{
    Morsel__MirrorLeaseRequest *m =
        rpc_request_unpack(request, &morsel__mirror_lease_request__descriptor);
    Morsel__MirrorLeaseReply reply = MORSEL__MIRROR_LEASE_REPLY__INIT;
    struct mirror_exceptions exceptions = { .count = 0 };
    uint32_t groups[MIRROR_LEASE_EXCEPTIONS_MAX];

    if (m == NULL) {
        return;
    }
    peer->peers->hooks->exceptions(peer->peers->data, peer->id, &exceptions);
    mirror_lease_grant(&peer->lease, now_ms);
    reply.start = m->start;
    reply.asked_ms = m->asked_ms;
    reply.all = exceptions.all;
    for (uint32_t i = 0; i < exceptions.count; i++) {
        groups[i] = (uint32_t)exceptions.groups[i];
    }
    reply.n_groups = exceptions.count;
    reply.groups = groups;
    rpc_reply(request, &reply.base, NULL);
    morsel__mirror_lease_request__free_unpacked(m, NULL);
}
