/* One ballot after the other, until one of them decides. */
#include "common/vote/candidate.h"

#include "common/base/check.h"

enum { ANSWERED_NO = 1, ANSWERED_YES = 2 }; /* A copy of the request may be refused before. */

void candidate_init(struct candidate *c, const struct candidate_setup *setup)
{
    const struct vote_request request = { .type = VOTE_PREPARE,
                                          .set_version = 1,
                                          .subject = setup->subject,
                                          .epoch = setup->epoch,
                                          .before = setup->before,
                                          .ballot = { 1, setup->number } };

    CHECK(vote_request_valid(&request) && setup->value.count <= VOTE_VALUE_BYTES_MAX);
    *c = (struct candidate){ .setup = *setup };
    prng_seed(&c->prng, setup->seed);
}

/* ---- Actions ---- */

static struct candidate_action *emit(struct candidate_actions *out)
{
    struct candidate_action *action;

    CHECK(out->count < CANDIDATE_ACTIONS_MAX);
    action = &out->items[out->count++];
    memset(action, 0, sizeof(*action));
    return action;
}

static void emit_send(const struct candidate *c, enum vote_request_type type,
                      struct candidate_actions *out)
{
    struct candidate_action *action = emit(out);

    action->type = CANDIDATE_SEND;
    action->request = (struct vote_request){ .type = type,
                                             .set_version = c->voters->version,
                                             .subject = c->setup.subject,
                                             .epoch = c->setup.epoch,
                                             .before = c->setup.before,
                                             .ballot = c->ballot };
    if (type != VOTE_PREPARE) {
        action->request.value = c->value;
    }
}

static void emit_end(struct candidate *c, enum candidate_outcome outcome, uint64_t epoch,
                     const struct vote_value *value, struct candidate_actions *out)
{
    struct candidate_action *action = emit(out);

    action->type = CANDIDATE_END;
    action->outcome = outcome;
    action->epoch = epoch;
    if (value != NULL) {
        action->value = *value;
    }
    c->state = CANDIDATE_ENDED;
    c->voters = NULL;
}

/* ---- Ballots ---- */

/* `unit` doubled with each ballot, up to `most`. */
static uint64_t doubled(const struct candidate *c, uint64_t unit, uint64_t most)
{
    for (uint32_t i = 1; i < c->ballots && unit < most; i++) {
        unit *= 2;
    }
    return unit < most ? unit : most;
}

static void enter(struct candidate *c, enum candidate_state state)
{
    c->state = state;
    c->yes = c->no = 0;
    memset(c->answered, 0, c->voters->count);
}

static void begin_ballot(struct candidate *c, uint64_t now_ms, struct candidate_actions *out)
{
    if (c->round_seen + 1 >= VOTE_ROUND_END) { /* Somebody's nonsense: it cannot be outdone. */
        emit_end(c, CANDIDATE_GIVEN_UP, 0, NULL, out);
        return;
    }
    c->ballots++;
    c->ballot = (struct vote_ballot){ ++c->round_seen, c->setup.number };
    c->best = (struct vote_ballot){ 0 };
    c->value = c->setup.value;
    c->due_ms = now_ms + doubled(c, CANDIDATE_BALLOT_MS_MIN, CANDIDATE_BALLOT_MS_MAX);
    enter(c, CANDIDATE_PREPARING);
    emit_send(c, VOTE_PREPARE, out);
}

static void begin_pause(struct candidate *c, uint64_t now_ms)
{
    uint64_t most_ms = doubled(c, CANDIDATE_PAUSE_MS_MIN, CANDIDATE_PAUSE_MS_MAX);

    c->due_ms = now_ms + 1 + prng_below(&c->prng, most_ms);
    c->state = CANDIDATE_PAUSING;
}

static void begin_accepting(struct candidate *c, struct candidate_actions *out)
{
    if (c->value.count == 0) { /* It only asks, and no majority can have voted below. */
        emit_end(c, CANDIDATE_NOTHING, 0, NULL, out);
        return;
    }
    enter(c, CANDIDATE_ACCEPTING);
    emit_send(c, VOTE_ACCEPT, out);
}

static void decided(struct candidate *c, struct candidate_actions *out)
{
    emit_send(c, VOTE_LEARN, out);
    emit_end(c, CANDIDATE_DECIDED, c->setup.epoch, &c->value, out);
}

/* ---- Answers ---- */

static bool is_yes(const struct candidate *c, const struct vote_answer *answer)
{
    return answer->type == (c->state == CANDIDATE_PREPARING ? VOTE_PROMISED : VOTE_ACCEPTED);
}

static void take_promise(struct candidate *c, const struct vote_answer *answer)
{
    if (c->state == CANDIDATE_PREPARING && vote_ballot_compare(answer->voted, c->best) > 0) {
        c->best = answer->voted;
        c->value = answer->value;
    }
}

/* A doubled copy of the request is outbid by the first one, which is no refusal. */
static bool is_no(const struct candidate *c, const struct vote_answer *answer)
{
    switch (answer->type) {
    case VOTE_OUTBID:
        return vote_ballot_compare(answer->voted, c->ballot) > 0;
    case VOTE_OLD_SET:
    case VOTE_NOT_ME:
    case VOTE_NO_ROOM:
    case VOTE_NONSENSE:
        return true;
    default:
        return false;
    }
}

/* One voter's word for or against the ballot. */
static void on_vote(struct candidate *c, const struct candidate_event *event,
                    struct candidate_actions *out)
{
    const struct vote_answer *answer = event->answer;
    uint32_t count = c->voters->count, at = voter_set_find(c->voters, answer->voter);

    if (c->state == CANDIDATE_PAUSING || at == count || c->answered[at] == ANSWERED_YES ||
        vote_ballot_compare(answer->ballot, c->ballot) != 0) {
        return;
    }
    if (is_yes(c, answer)) {
        take_promise(c, answer);
        c->no -= c->answered[at] == ANSWERED_NO;
        c->yes++;
        c->answered[at] = ANSWERED_YES;
    } else if (is_no(c, answer) && c->answered[at] == 0) {
        c->no++;
        c->answered[at] = ANSWERED_NO;
    }
    if (c->yes >= voter_majority(count)) {
        if (c->state == CANDIDATE_PREPARING) {
            begin_accepting(c, out);
        } else {
            decided(c, out);
        }
    } else if (c->no > count - voter_majority(count)) {
        begin_pause(c, event->now_ms);
    }
}

static void on_answer(struct candidate *c, const struct candidate_event *event,
                      struct candidate_actions *out)
{
    const struct vote_answer *answer = event->answer;

    if (answer->type == VOTE_KNOWN && answer->epoch >= c->setup.epoch) {
        emit_end(c, CANDIDATE_DECIDED, answer->epoch, &answer->value, out);
        return;
    }
    if (answer->type == VOTE_OUTBID && answer->voted.round > c->round_seen) {
        c->round_seen = answer->voted.round;
    }
    on_vote(c, event, out);
}

/* ---- Events ---- */

static void on_tick(struct candidate *c, uint64_t now_ms, struct candidate_actions *out)
{
    if (now_ms >= c->setup.give_up_ms) {
        emit_end(c, CANDIDATE_GIVEN_UP, 0, NULL, out);
    } else if (now_ms >= c->due_ms) {
        if (c->state == CANDIDATE_PAUSING) {
            begin_ballot(c, now_ms, out);
        } else {
            begin_pause(c, now_ms);
        }
    }
}

void candidate_step(struct candidate *c, const struct candidate_event *event,
                    struct candidate_actions *out)
{
    if (c->state == CANDIDATE_ENDED) {
        return;
    }
    switch (event->type) {
    case CANDIDATE_START:
    case CANDIDATE_VOTERS:
        CHECK((event->type == CANDIDATE_START) == (c->state == CANDIDATE_NEW));
        CHECK(voter_set_valid(event->voters));
        CHECK(c->voters == NULL || event->voters->version > c->voters->version);
        c->voters = event->voters;
        begin_ballot(c, event->now_ms, out);
        break;
    case CANDIDATE_ANSWER:
        CHECK(c->state != CANDIDATE_NEW);
        if (event->answer->ballot.candidate == c->setup.number) {
            on_answer(c, event, out);
        }
        break;
    case CANDIDATE_TICK:
        CHECK(c->state != CANDIDATE_NEW);
        on_tick(c, event->now_ms, out);
        break;
    }
}

uint64_t candidate_deadline_ms(const struct candidate *c)
{
    if (c->state == CANDIDATE_NEW || c->state == CANDIDATE_ENDED) {
        return UINT64_MAX;
    }
    return c->due_ms < c->setup.give_up_ms ? c->due_ms : c->setup.give_up_ms;
}
