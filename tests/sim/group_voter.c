/* The votes of the group scenario: each member and the manager is a voter, members stand. Hosts of
 * voter.c and candidate.c of production; what decides epoch e + 1 of the group is vote e. */
#include "common/base/check.h"
#include "common/vote/voter.h"
#include "tests/sim/group.h"

#include <stdlib.h>

enum { VOTE_DISK_MS_MAX = 10, GIVE_UP_MS = 5000 };

static struct voter_host *host_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->voters[node];
}

static struct vote_subject subject_of(const struct world *w)
{
    struct vote_subject subject = { { 0 } };

    for (uint32_t i = 0; i < w->members; i++) {
        subject.servers[i] = i + 1;
    }
    return subject;
}

static struct vote_value value_of(group_set set)
{
    return (struct vote_value){ .count = set != 0, .bytes = { set } };
}

/* ---- A voter ---- */

static void run_voted(struct sim *s, uint32_t node, uint64_t number);

static void feed_voter(struct sim *s, uint32_t node, const struct voter_event *event)
{
    struct voter_host *h = host_of(s, node);
    struct voter_actions out = { .count = 0 };

    voter_step(h->voter, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        const struct voter_action *action = &out.items[i];
        struct host_message m = { .kind = HOST_VOTE_ANSWER };

        if (action->type == VOTER_PERSIST) {
            while (voter_pop(h->voter, &h->popped)) {
            }
            sim_after(s, node, disk_delay_ms(s, node, VOTE_DISK_MS_MAX), run_voted, action->number);
            continue;
        }
        m.vote_answer = action->answer;
        host_send(s, node, (uint32_t)action->tag, &m);
    }
}

static void run_voted(struct sim *s, uint32_t node, uint64_t number)
{
    struct voter_host *h = host_of(s, node);
    struct voter_event event = { .type = VOTER_PERSISTED, .persisted.number = number };

    if (!sim_canary(s, "votes_in_memory")) {
        h->disk = h->popped;
    }
    feed_voter(s, node, &event);
}

void voter_start(struct sim *s, uint32_t node)
{
    struct voter_host *h = host_of(s, node);

    h->voter = voter_new(node + 1, world_of(s)->voter_set.version);
    CHECK(h->voter != NULL);
    if (h->disk.subject.servers[0] != 0) {
        CHECK(voter_load(h->voter, &h->disk));
    }
}

void voter_stop(struct sim *s, uint32_t node, bool machine)
{
    struct voter_host *h = host_of(s, node);

    (void)machine;
    voter_free(h->voter);
    h->voter = NULL;
    h->standing = false;
}

void voter_learn(struct sim *s, uint32_t node, uint64_t epoch, group_set set)
{
    struct voter_host *h = host_of(s, node);
    struct vote_request learn = { .type = VOTE_LEARN, .voter = node + 1, .epoch = epoch - 1 };
    struct voter_event event = { .type = VOTER_ASKED, .tag = node, .request = &learn };

    learn.set_version = world_of(s)->voter_set.version;
    learn.ballot = (struct vote_ballot){ 1, 1 };
    learn.subject = subject_of(world_of(s));
    learn.before = learn.value = value_of(set);
    feed_voter(s, node, &event);
    h->disk = h->popped;
}

/* ---- A candidate ---- */

static void feed_candidate(struct sim *s, uint32_t node, struct candidate_event *event)
{
    struct voter_host *h = host_of(s, node);
    struct candidate_actions out = { .count = 0 };

    event->now_ms = sim_clock_ms(s, node);
    candidate_step(&h->candidate, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        const struct candidate_action *action = &out.items[i];

        if (action->type == CANDIDATE_SEND) {
            for (uint32_t v = 0; v <= world_of(s)->voter; v++) {
                struct host_message m = { .kind = HOST_VOTE_REQUEST, .vote = action->request };

                m.vote.voter = v + 1;
                host_send(s, node, v, &m);
            }
            continue;
        }
        h->standing = false;
        if (action->outcome == CANDIDATE_DECIDED) {
            member_decided(s, node, action->epoch + 1, action->value.bytes[0]);
        }
    }
}

void candidate_begin(struct sim *s, uint32_t node, uint64_t epoch, group_set set, group_set before)
{
    struct voter_host *h = host_of(s, node);
    struct candidate_setup setup = { .epoch = epoch - 1, .value = value_of(set) };
    struct candidate_event event = { .type = CANDIDATE_START };

    if (h->standing && h->candidate.setup.epoch == setup.epoch &&
        vote_value_equal(&h->candidate.setup.value, &setup.value)) {
        return;
    }
    setup.before = value_of(epoch > 2 ? before : 0);
    setup.subject = subject_of(world_of(s));
    setup.number = prng_next(&s->prng) | 1;
    setup.seed = prng_next(&s->prng);
    setup.give_up_ms = sim_clock_ms(s, node) + GIVE_UP_MS;
    candidate_init(&h->candidate, &setup);
    h->standing = true;
    event.voters = &world_of(s)->voter_set;
    feed_candidate(s, node, &event);
}

void candidate_stop(struct sim *s, uint32_t node)
{
    host_of(s, node)->standing = false;
}

void candidate_tick(struct sim *s, uint32_t node)
{
    struct voter_host *h = host_of(s, node);
    struct candidate_event event = { .type = CANDIDATE_TICK };

    if (h->standing && sim_clock_ms(s, node) >= candidate_deadline_ms(&h->candidate)) {
        feed_candidate(s, node, &event);
    }
}

/* ---- What comes ---- */

bool voter_receive(struct sim *s, uint32_t node, const struct host_message *m)
{
    struct voter_event asked = { .type = VOTER_ASKED, .tag = m->from };
    struct candidate_event answered = { .type = CANDIDATE_ANSWER };

    if (m->kind == HOST_VOTE_REQUEST) {
        CHECK(vote_request_valid(&m->vote));
        asked.request = &m->vote;
        feed_voter(s, node, &asked);
        return true;
    }
    if (m->kind == HOST_VOTE_ANSWER) {
        answered.answer = &m->vote_answer;
        if (host_of(s, node)->standing) {
            feed_candidate(s, node, &answered);
        }
        return true;
    }
    return false;
}
