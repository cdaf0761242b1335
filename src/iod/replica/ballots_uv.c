/* Candidates, and whom they ask. */
#include "iod/replica/ballots_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/datadir_file.h"
#include "common/vote/vote_words.h"

#include <stdlib.h>
#include <string.h>

static_assert((uint64_t)GROUP_FORCED_VERSION_END << GROUP_FORCED_SHIFT < VOTE_EPOCH_END,
              "voters know the epochs of copies that were named");

struct ballot
{
    UT_hash_handle hh;
    group_number group;
    struct candidate candidate;
    struct voter_set voters[2]; /* The one that the candidate has, and the one that it gets next. */
    uint32_t at;                /* Which it has. */
};

/* A voter on another server. */
struct elector
{
    UT_hash_handle hh;
    uint32_t server;
    struct rpc_peer *peer;
};

struct question
{
    struct voter_question own; /* For our own voter. */
    struct rpc_call call;      /* For the others. */
    struct ballots *ballots;
    group_number group;
};

static void feed(struct ballots *b, struct ballot *ballot, struct candidate_event *event);

static struct ballot *find(const struct ballots *b, group_number group)
{
    struct ballot *ballot;

    HASH_FIND(hh, b->table, &group, sizeof(group), ballot);
    return ballot;
}

/* ---- Answers ---- */

static void take(struct ballots *b, group_number group, const struct vote_answer *answer)
{
    struct ballot *ballot = find(b, group);
    struct candidate_event event = { .type = CANDIDATE_ANSWER, .answer = answer };

    if (ballot != NULL && !b->closing) {
        feed(b, ballot, &event);
    }
}

static void on_own(struct voter_question *own, const struct vote_answer *answer)
{
    struct question *q = CONTAINER_OF(own, struct question, own);

    q->ballots->calls--;
    take(q->ballots, q->group, answer);
    free(q);
}

static void on_voted(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct question *q = CONTAINER_OF(call, struct question, call);
    struct vote_answer answer;
    Morsel__VoteReply *m;

    q->ballots->calls--;
    if (status == MORSEL_OK &&
        (m = rpc_unpack(&morsel__vote_reply__descriptor, reply->body, reply->body_count)) != NULL) {
        if (vote_answer_read(m, &answer)) {
            take(q->ballots, q->group, &answer);
        }
        morsel__vote_reply__free_unpacked(m, NULL);
    }
    free(q);
}

/* ---- Questions ---- */

struct rpc_peer *ballots_voter(struct ballots *b, const Morsel__Voter *voter)
{
    struct elector *e;
    struct errmsg err;

    if (voter->server == 0) {
        return b->manager;
    }
    HASH_FIND(hh, b->electors, &voter->server, sizeof(voter->server), e);
    if (e == NULL) {
        e = calloc(1, sizeof(*e));
        if (e == NULL || rpc_peer_new(b->rpc, voter->address, &e->peer, &err) != MORSEL_OK) {
            free(e);
            return NULL;
        }
        e->server = voter->server;
        rpc_peer_expect(e->peer, voter->server);
        HASH_ADD(hh, b->electors, server, sizeof(e->server), e);
    }
    return rpc_peer_set_address(e->peer, voter->address, &err) == MORSEL_OK ? e->peer : NULL;
}

static void ask_other(struct ballots *b, struct question *q, const Morsel__Voter *voter,
                      const struct vote_request *r)
{
    Morsel__VoteRequest m = MORSEL__VOTE_REQUEST__INIT;
    Morsel__VoteBallot ballot = MORSEL__VOTE_BALLOT__INIT;
    uint32_t subject[REPLICAS_MAX];
    struct rpc_peer *peer = ballots_voter(b, voter);

    memcpy(subject, r->subject.servers, sizeof(subject));
    m.voter = voter->id;
    m.set_version = r->set_version;
    m.type = r->type;
    m.n_subject = vote_subject_count(&r->subject);
    m.subject = subject;
    m.epoch = r->epoch;
    ballot.round = r->ballot.round;
    ballot.candidate = r->ballot.candidate;
    m.ballot = &ballot;
    m.before = (ProtobufCBinaryData){ r->before.count, (uint8_t *)(uintptr_t)r->before.bytes };
    m.value = (ProtobufCBinaryData){ r->value.count, (uint8_t *)(uintptr_t)r->value.bytes };
    q->call.impatient = true;
    b->calls++;
    if (peer == NULL || rpc_call_start(&q->call, peer, MSG_VOTE, &m.base, NULL, 0, BALLOT_CALL_MS,
                                       on_voted) != MORSEL_OK) {
        b->calls--;
        free(q);
    }
}

static void ask(struct ballots *b, group_number group, const Morsel__Voter *voter,
                const struct vote_request *request)
{
    struct question *q = b->calls < BALLOT_CALLS_MAX ? calloc(1, sizeof(*q)) : NULL;
    struct vote_request own = *request;
    struct voter_event event = { .type = VOTER_ASKED, .request = &own };

    if (q == NULL) {
        return; /* The ballot goes on without this one, or is begun again. */
    }
    q->ballots = b;
    q->group = group;
    own.voter = voter->id;
    if (voter->id != voter_name(b->voter->voter)) {
        ask_other(b, q, voter, request);
        return;
    }
    q->own.answered = on_own;
    b->calls++;
    voter_uv_ask(b->voter, &event, &q->own);
}

static void ask_all(struct ballots *b, group_number group, const struct vote_request *request)
{
    const Morsel__VoterSet *set = b->voters(b->voters_data);

    for (size_t i = 0; set != NULL && i < set->n_voters; i++) {
        ask(b, group, set->voters[i], request);
    }
}

/* ---- Candidates ---- */

static void ballot_free(struct ballots *b, struct ballot *ballot)
{
    HASH_DEL(b->table, ballot);
    free(ballot);
}

/* What is decided for an epoch is for the group to hear; that nothing is, nobody needs to know: it asks
 * again by itself. */
static void end(struct ballots *b, struct ballot *ballot, const struct candidate_action *a)
{
    group_number group = ballot->group;
    bool decided = a->outcome == CANDIDATE_DECIDED && a->value.count == 1;

    ballot_free(b, ballot);
    if (decided) {
        b->decided(b->data, group, a->epoch, a->value.bytes[0]);
    }
}

static void feed(struct ballots *b, struct ballot *ballot, struct candidate_event *event)
{
    struct candidate_actions out = { .count = 0 };
    group_number group = ballot->group;

    event->now_ms = rpc_boot_ms();
    candidate_step(&ballot->candidate, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        if (out.items[i].type == CANDIDATE_END) {
            end(b, ballot, &out.items[i]);
            return;
        }
        ask_all(b, group, &out.items[i].request);
        ballot = find(b, group);
        if (ballot == NULL) {
            return; /* Our own voter has answered at once, and that was the last word. */
        }
    }
}

static struct vote_value value_of(group_set set)
{
    struct vote_value value = { .count = set != 0 };

    value.bytes[0] = set;
    return value;
}

void ballots_begin(struct ballots *b, group_number group, uint64_t epoch, group_set set,
                   group_set before)
{
    const Morsel__VoterSet *known = b->voters(b->voters_data);
    struct candidate_event event = { .type = CANDIDATE_START };
    struct candidate_setup setup = { .subject.servers = { group },
                                     .epoch = epoch,
                                     .value = value_of(set),
                                     .give_up_ms = rpc_boot_ms() + BALLOT_GIVE_UP_MS };
    struct ballot *ballot;

    ballots_end(b, group);
    if (known == NULL || b->closing || epoch == 0 ||
        (ballot = calloc(1, sizeof(*ballot))) == NULL) {
        return; /* The group asks again. */
    }
    if (!voter_set_read(known, &ballot->voters[0])) {
        free(ballot);
        return;
    }
    setup.before = value_of(epoch > 1 ? before : 0);
    random_bytes(&setup.number, sizeof(setup.number));
    random_bytes(&setup.seed, sizeof(setup.seed));
    setup.number |= 1;
    ballot->group = group;
    candidate_init(&ballot->candidate, &setup);
    HASH_ADD(hh, b->table, group, sizeof(ballot->group), ballot);
    event.voters = &ballot->voters[0];
    feed(b, ballot, &event);
}

void ballots_end(struct ballots *b, group_number group)
{
    struct ballot *ballot = find(b, group);

    if (ballot != NULL) {
        ballot_free(b, ballot);
    }
}

uint64_t ballots_due_ms(const struct ballots *b)
{
    uint64_t due_ms = UINT64_MAX;
    struct ballot *ballot, *next;

    HASH_ITER(hh, b->table, ballot, next)
    {
        uint64_t own_ms = candidate_deadline_ms(&ballot->candidate);

        due_ms = own_ms < due_ms ? own_ms : due_ms;
    }
    return due_ms;
}

void ballots_tick(struct ballots *b, uint64_t now_ms)
{
    struct ballot *ballot, *next;

    HASH_ITER(hh, b->table, ballot, next)
    {
        struct candidate_event event = { .type = CANDIDATE_TICK };

        if (now_ms >= candidate_deadline_ms(&ballot->candidate)) {
            feed(b, ballot, &event);
        }
    }
}

void ballots_voters_changed(struct ballots *b)
{
    const Morsel__VoterSet *known = b->voters(b->voters_data);
    struct ballot *ballot, *next;

    HASH_ITER(hh, b->table, ballot, next)
    {
        struct voter_set *newer = &ballot->voters[1 - ballot->at];
        struct candidate_event event = { .type = CANDIDATE_VOTERS, .voters = newer };

        if (known != NULL && known->version > ballot->voters[ballot->at].version &&
            voter_set_read(known, newer)) {
            ballot->at = 1 - ballot->at;
            feed(b, ballot, &event);
        }
    }
}

void ballots_close(struct ballots *b)
{
    struct elector *e, *next;

    b->closing = true;
    HASH_ITER(hh, b->electors, e, next)
    {
        rpc_peer_close(e->peer);
    }
}

void ballots_free(struct ballots *b)
{
    struct ballot *ballot, *next_ballot;
    struct elector *e, *next;

    HASH_ITER(hh, b->table, ballot, next_ballot)
    {
        ballot_free(b, ballot);
    }
    HASH_ITER(hh, b->electors, e, next)
    {
        HASH_DEL(b->electors, e);
        free(e);
    }
}
