/* The judge of the votes scenario: it counts the votes itself, as they leave the voters. */
#include "common/base/check.h"
#include "tests/sim/votes.h"

#include <stdlib.h>

enum {
    BALLOTS_MAX = 1 << 14,
    VOTERS_OF_BALLOT_MAX = 16,
    PROMISES_MAX = 1 << 14,
    FOUND_MS = 4000 /* All members ask; so soon each has heard of what is decided. */
};

/* A ballot in which somebody has given a vote. */
struct ballot_seen
{
    uint32_t subject;
    uint64_t epoch, version;
    struct vote_ballot ballot;
    struct vote_value value;
    uint32_t count;
    voter_id voters[VOTERS_OF_BALLOT_MAX];
};

/* The highest ballot that a voter has promised, of a subject and epoch. */
struct promise_seen
{
    voter_id voter;
    uint32_t subject;
    uint64_t epoch;
    struct vote_ballot ballot;
};

struct chosen
{
    bool is;
    uint64_t ms;
    struct vote_value value;
};

struct judge
{
    uint32_t ballot_count, promise_count;
    struct ballot_seen ballots[BALLOTS_MAX];
    struct promise_seen promises[PROMISES_MAX];
    struct chosen chosen[SUBJECTS][EPOCHS_MAX];
};

struct judge *judge_new(void)
{
    struct judge *j = calloc(1, sizeof(*j));

    CHECK(j != NULL);
    return j;
}

void judge_free(struct judge *j)
{
    free(j);
}

static bool same_ballot(struct vote_ballot a, struct vote_ballot b)
{
    return a.round == b.round && a.candidate == b.candidate;
}

static bool below(struct vote_ballot a, struct vote_ballot b)
{
    return a.round < b.round || (a.round == b.round && a.candidate < b.candidate);
}

static bool same_value(const struct vote_value *a, const struct vote_value *b)
{
    return a->count == b->count && memcmp(a->bytes, b->bytes, a->count) == 0;
}

/* ---- One voter ---- */

static struct promise_seen *promise_of(struct judge *j, voter_id voter, uint32_t subject,
                                       uint64_t epoch)
{
    struct promise_seen *p;

    for (uint32_t i = j->promise_count; i > 0; i--) {
        p = &j->promises[i - 1];
        if (p->voter == voter && p->subject == subject && p->epoch == epoch) {
            return p;
        }
    }
    CHECK(j->promise_count < PROMISES_MAX);
    p = &j->promises[j->promise_count++];
    *p = (struct promise_seen){ .voter = voter, .subject = subject, .epoch = epoch };
    return p;
}

/* A promise is given once, and kept; a vote is not given below it. */
static bool check_promise(struct sim *s, const struct vote_message *question,
                          const struct vote_answer *answer)
{
    struct promise_seen *p =
        promise_of(world_of(s)->judge, answer->voter, question->subject, question->request.epoch);

    if (below(answer->ballot, p->ballot)) {
        return sim_fail(s, "voter %llu answers ballot %llu, and has promised %llu",
                        (unsigned long long)answer->voter, (unsigned long long)answer->ballot.round,
                        (unsigned long long)p->ballot.round);
    }
    if (answer->type == VOTE_PROMISED && same_ballot(answer->ballot, p->ballot)) {
        return sim_fail(s, "voter %llu promises ballot %llu twice",
                        (unsigned long long)answer->voter,
                        (unsigned long long)answer->ballot.round);
    }
    p->ballot = answer->ballot;
    return true;
}

/* ---- All of them ---- */

static struct ballot_seen *ballot_of(struct judge *j, const struct vote_message *question)
{
    const struct vote_request *r = &question->request;
    struct ballot_seen *b;

    for (uint32_t i = j->ballot_count; i > 0; i--) {
        b = &j->ballots[i - 1];
        if (b->subject == question->subject && b->epoch == r->epoch &&
            same_ballot(b->ballot, r->ballot)) {
            return b;
        }
    }
    CHECK(j->ballot_count < BALLOTS_MAX);
    b = &j->ballots[j->ballot_count++];
    *b = (struct ballot_seen){ .subject = question->subject,
                               .epoch = r->epoch,
                               .version = r->set_version,
                               .ballot = r->ballot,
                               .value = r->value };
    return b;
}

static bool counts(const struct ballot_seen *b, const struct voter_set *set, voter_id voter)
{
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->voters[i] == voter) {
            return false;
        }
    }
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->ids[i] == voter) {
            return true;
        }
    }
    return false;
}

static void note_chosen(struct sim *s, const struct ballot_seen *b)
{
    struct chosen *chosen = &world_of(s)->judge->chosen[b->subject][b->epoch];

    if (chosen->is && !same_value(&chosen->value, &b->value)) {
        (void)sim_fail(s, "two values are decided for group %u, epoch %llu", b->subject,
                       (unsigned long long)b->epoch);
    }
    if (!chosen->is) {
        *chosen = (struct chosen){ true, s->now_ms, b->value };
        sim_worth(s, WORTH_DECIDED);
        sim_trace(s, b->value.bytes[2], "its value is decided for epoch %llu of group %u",
                  (unsigned long long)b->epoch, b->subject);
    }
}

static void note_vote(struct sim *s, const struct vote_message *question,
                      const struct vote_answer *answer)
{
    struct ballot_seen *b = ballot_of(world_of(s)->judge, question);
    const struct voter_set *set = world_of(s)->sets[b->version];

    if (b->version != question->request.set_version ||
        !same_value(&b->value, &question->request.value)) {
        (void)sim_fail(s, "a ballot is for two values, or in two sets");
    } else if (counts(b, set, answer->voter)) {
        CHECK(b->count < VOTERS_OF_BALLOT_MAX);
        b->voters[b->count++] = answer->voter;
        if (2 * b->count > set->count) {
            note_chosen(s, b);
        }
    }
}

void judge_answer(struct sim *s, const struct vote_message *question,
                  const struct vote_answer *answer)
{
    static const int worth[] = { [VOTE_OLD_SET] = WORTH_OLD_SET, [VOTE_NOT_ME] = WORTH_NOT_ME };

    if (answer->type == VOTE_OLD_SET || answer->type == VOTE_NOT_ME) {
        sim_worth(s, (unsigned)worth[answer->type]);
    }
    if (answer->type != VOTE_PROMISED && answer->type != VOTE_ACCEPTED) {
        return;
    }
    if (check_promise(s, question, answer) && answer->type == VOTE_ACCEPTED) {
        note_vote(s, question, answer);
    }
}

/* ---- Candidates ---- */

static void judge_decided(struct sim *s, uint32_t node, uint32_t subject,
                          const struct candidate_action *end)
{
    const struct chosen *chosen = &world_of(s)->judge->chosen[subject][end->epoch];

    if (!chosen->is || !same_value(&chosen->value, &end->value)) {
        (void)sim_fail(s, "%s takes for decided what is not, for epoch %llu of group %u",
                       s->nodes[node].name, (unsigned long long)end->epoch, subject);
    } else if (end->value.bytes[0] != subject || end->value.bytes[1] != (uint8_t)end->epoch) {
        (void)sim_fail(s, "a value is decided that was for another epoch or group");
    } else if (end->value.bytes[2] != node) {
        sim_worth(s, WORTH_FINISHED_OTHERS);
    }
}

void judge_outcome(struct sim *s, uint32_t node, uint32_t subject, const struct member *m,
                   const struct candidate_action *end)
{
    const struct world *w = world_of(s);
    const struct chosen *chosen = &w->judge->chosen[subject][m->epoch + 1];
    bool quiet = w->healed_ms != 0 && m->began_ms > w->healed_ms + STANDING_MS;

    sim_trace(s, node, "hears %s for epoch %llu of group %u",
              end->outcome == CANDIDATE_DECIDED   ? "what is decided"
              : end->outcome == CANDIDATE_NOTHING ? "that nothing is"
                                                  : "no answer",
              (unsigned long long)m->epoch + 1, subject);
    switch (end->outcome) {
    case CANDIDATE_DECIDED:
        judge_decided(s, node, subject, end);
        break;
    case CANDIDATE_NOTHING:
        sim_worth(s, WORTH_NOTHING);
        if (chosen->is && chosen->ms < m->began_ms) {
            (void)sim_fail(s, "%s hears that nothing is decided, and it was before it asked",
                           s->nodes[node].name);
        }
        world_of(s)->nodes[node].members[subject].has_asked = quiet;
        break;
    case CANDIDATE_GIVEN_UP:
        if (quiet) {
            (void)sim_fail(s, "%s gives up although all is well", s->nodes[node].name);
        }
        break;
    }
}

/* ---- The end ---- */

static bool check_member(struct sim *s, uint32_t node, uint32_t subject)
{
    const struct world *w = world_of(s);
    const struct member *m = &w->nodes[node].members[subject];
    const struct chosen *chosen = w->judge->chosen[subject];
    uint64_t newest = EPOCHS_MAX - 1;

    while (newest > 0 && (!chosen[newest].is || chosen[newest].ms + FOUND_MS > s->now_ms)) {
        newest--;
    }
    if (m->epoch < newest || (m->epoch > 0 && !same_value(&m->value, &chosen[m->epoch].value))) {
        return sim_fail(s, "%s knows epoch %llu of group %u, and %llu is decided",
                        s->nodes[node].name, (unsigned long long)m->epoch, subject,
                        (unsigned long long)newest);
    }
    if (!m->has_asked) {
        return sim_fail(s, "%s got no answer about group %u", s->nodes[node].name, subject);
    }
    return true;
}

static bool check_set(struct sim *s)
{
    const struct world *w = world_of(s);
    const struct voter_set *set = &w->manager.disk.set;
    uint32_t wanted = 0;

    for (uint32_t node = 0; node < w->node_count; node++) {
        wanted += w->wanted >> node & 1;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t node = node_of_id(set->ids[i]);

        if ((w->wanted >> node & 1) == 0 || w->nodes[node].voter.id != set->ids[i]) {
            return sim_fail(s, "voter %llu should not be one", (unsigned long long)set->ids[i]);
        }
    }
    if (set->count != wanted || w->manager.disk.next.version != 0) {
        return sim_fail(s, "the voter set is not as it is wanted");
    }
    return true;
}

bool judge_finish(struct sim *s)
{
    const struct world *w = world_of(s);

    for (uint32_t node = 0; node < w->node_count; node++) {
        if (voter_count(w->nodes[node].voter.voter) > SUBJECTS) {
            return sim_fail(s, "%s does not forget", s->nodes[node].name);
        }
        for (uint32_t i = 0; i < SUBJECTS; i++) {
            if (w->nodes[node].members[i].is_member && !check_member(s, node, i)) {
                return false;
            }
        }
    }
    return check_set(s);
}
