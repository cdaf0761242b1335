/* The members of groups: every now and then one of them stands for its epoch + 1, or asks what has
 * been decided. What it knows is on its disk before it stands for the next. */
#include "common/base/check.h"
#include "tests/sim/votes.h"

static struct member *member_of(struct sim *s, uint32_t node, uint32_t subject)
{
    return &world_of(s)->nodes[node].members[subject];
}

static void step(struct sim *s, uint32_t node, uint32_t subject, struct candidate_event event);

/* ---- What is decided ---- */

static void run_learned(struct sim *s, uint32_t node, uint64_t subject)
{
    struct member *m = member_of(s, node, (uint32_t)subject);

    CHECK(m->learned_epoch > m->epoch);
    m->epoch = m->learned_epoch;
    m->value = m->learned;
    m->learned_epoch = 0;
}

static void on_end(struct sim *s, uint32_t node, uint32_t subject,
                   const struct candidate_action *end)
{
    struct member *m = member_of(s, node, subject);

    m->standing = false;
    judge_outcome(s, node, subject, m, end);
    if (end->outcome == CANDIDATE_DECIDED) {
        m->learned_epoch = end->epoch;
        m->learned = end->value;
        sim_after(s, node, 1 + prng_below(&s->prng, SYNC_MS_MAX), run_learned, subject);
    }
}

/* ---- The candidate ---- */

static void send_all(struct sim *s, uint32_t node, uint32_t subject,
                     const struct vote_request *request)
{
    const struct voter_set *set = member_of(s, node, subject)->candidate.voters;
    struct vote_message m = { .word = WORD_REQUEST, .subject = subject, .request = *request };

    if (set == NULL) { /* It has ended with this. */
        set = world_of(s)->sets[request->set_version];
    }
    for (uint32_t i = 0; i < set->count; i++) {
        m.request.voter = set->ids[i];
        sim_send_datagram(s, node, node_of_id(set->ids[i]), &m, sizeof(m));
    }
}

static void run_tick(struct sim *s, uint32_t node, uint64_t subject)
{
    struct member *m = member_of(s, node, (uint32_t)subject);

    m->armed_ms = UINT64_MAX;
    if (m->standing) {
        step(s, node, (uint32_t)subject, (struct candidate_event){ .type = CANDIDATE_TICK });
    }
}

static void arm(struct sim *s, uint32_t node, uint32_t subject)
{
    struct member *m = member_of(s, node, subject);
    uint64_t due_ms = m->standing ? candidate_deadline_ms(&m->candidate) : UINT64_MAX;
    uint64_t now_ms = sim_clock_ms(s, node);

    if (due_ms < m->armed_ms) {
        m->armed_ms = due_ms;
        sim_after(s, node, due_ms > now_ms ? due_ms - now_ms : 0, run_tick, subject);
    }
}

static void step(struct sim *s, uint32_t node, uint32_t subject, struct candidate_event event)
{
    struct member *m = member_of(s, node, subject);
    struct candidate_actions out = { 0 };

    event.now_ms = sim_clock_ms(s, node);
    candidate_step(&m->candidate, &event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        if (out.items[i].type == CANDIDATE_SEND) {
            send_all(s, node, subject, &out.items[i].request);
        } else {
            on_end(s, node, subject, &out.items[i]);
        }
    }
    arm(s, node, subject);
}

static struct vote_value draw_value(struct sim *s, uint32_t node, uint32_t subject, uint64_t epoch)
{
    struct vote_value value = { .count = 8 };

    value.bytes[0] = (uint8_t)subject;
    value.bytes[1] = (uint8_t)epoch;
    value.bytes[2] = (uint8_t)node;
    value.bytes[3] = 1;
    put_le32(value.bytes + 4, (uint32_t)++world_of(s)->values_drawn);
    return value;
}

static void stand(struct sim *s, uint32_t node, uint32_t subject, bool asks, uint64_t give_up_ms)
{
    struct world *w = world_of(s);
    struct member *m = member_of(s, node, subject);
    struct candidate_setup setup = { .number = prng_next(&s->prng) | 1,
                                     .seed = prng_next(&s->prng),
                                     .subject = w->subjects[subject],
                                     .epoch = m->epoch + 1,
                                     .before = m->value };

    CHECK(m->epoch + 1 < EPOCHS_MAX);
    if (sim_canary(s, "same_ballot")) {
        setup.number = 1 + node;
    }
    if (!asks) {
        setup.value = draw_value(s, node, subject, m->epoch + 1);
    }
    setup.give_up_ms = sim_clock_ms(s, node) + give_up_ms;
    sim_trace(s, node, "%s epoch %llu of group %u", asks ? "asks for" : "stands for",
              (unsigned long long)m->epoch + 1, subject);
    candidate_init(&m->candidate, &setup);
    m->standing = true;
    m->began_ms = s->now_ms;
    step(s, node, subject,
         (struct candidate_event){ .type = CANDIDATE_START,
                                   .voters = w->sets[w->nodes[node].set_version] });
}

static void run_stand(struct sim *s, uint32_t node, uint64_t subject)
{
    struct world *w = world_of(s);
    struct member *m = member_of(s, node, (uint32_t)subject);
    bool asks_only = w->healed_ms != 0 && s->now_ms > w->healed_ms + STANDING_MS;

    if (!s->faulty && !s->scripted && w->healed_ms == 0) {
        w->healed_ms = s->now_ms;
    }
    sim_after(s, node, 1 + prng_below(&s->prng, asks_only ? ASK_AGAIN_MS_MAX : STAND_MS_MAX),
              run_stand, subject);
    if (m->standing || m->learned_epoch != 0 || w->nodes[node].set_version == 0) {
        return;
    }
    stand(s, node, (uint32_t)subject, asks_only || prng_below(&s->prng, 5) == 0,
          asks_only ? ASK_MS : 100 + prng_below(&s->prng, GIVE_UP_MS_MAX));
}

void members_answer(struct sim *s, uint32_t node, const struct vote_message *m)
{
    struct vote_answer answer = m->answer;

    if (!member_of(s, node, m->subject)->standing) {
        return;
    }
    if (sim_canary(s, "adopt")) {
        answer.voted = (struct vote_ballot){ 0 };
    }
    step(s, node, m->subject,
         (struct candidate_event){ .type = CANDIDATE_ANSWER, .answer = &answer });
}

void members_heard_set(struct sim *s, uint32_t node, uint64_t version)
{
    struct world *w = world_of(s);

    if (version <= w->nodes[node].set_version) {
        return;
    }
    w->nodes[node].set_version = version;
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        if (member_of(s, node, i)->standing) {
            step(s, node, i,
                 (struct candidate_event){ .type = CANDIDATE_VOTERS, .voters = w->sets[version] });
        }
    }
}

/* ---- Life ---- */

void members_start(struct sim *s, uint32_t node)
{
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        if (member_of(s, node, i)->is_member) {
            member_of(s, node, i)->armed_ms = UINT64_MAX;
            sim_after(s, node, prng_below(&s->prng, STAND_MS_MAX), run_stand, i);
        }
    }
}

void members_stop(struct sim *s, uint32_t node)
{
    world_of(s)->nodes[node].set_version = 0;
    for (uint32_t i = 0; i < SUBJECTS; i++) {
        member_of(s, node, i)->standing = false;
        member_of(s, node, i)->learned_epoch = 0;
    }
}
