/* What a member of a group is, and how it becomes something else (group.h). What it does with the
 * others of its set, rounds and votes, is in group_agree.c. */
#include "iod/replica/group_inner.h"

#include "common/base/check.h"

#define TO(state) (1U << (state))

static const struct
{
    const char *name;
    unsigned may_become;
} states[GROUP_STATES] = {
    [GROUP_CONSISTENT] = { "consistent",
                           TO(GROUP_CONSISTENT) | TO(GROUP_STANDALONE) | TO(GROUP_STALE) },
    [GROUP_STANDALONE] = { "standalone",
                           TO(GROUP_STANDALONE) | TO(GROUP_CONSISTENT) | TO(GROUP_STALE) },
    [GROUP_STALE] = { "stale", TO(GROUP_STALE) | TO(GROUP_RECOVERING) },
    [GROUP_RECOVERING] = { "recovering", TO(GROUP_RECOVERING) | TO(GROUP_STALE) |
                                             TO(GROUP_CONSISTENT) | TO(GROUP_STANDALONE) },
};

const char *group_state_name(enum group_state state)
{
    CHECK(state < GROUP_STATES);
    return states[state].name;
}

bool group_in_sync(enum group_state state)
{
    return state == GROUP_CONSISTENT || state == GROUP_STANDALONE;
}

static group_set everybody(uint32_t count)
{
    return (group_set)((1U << count) - 1);
}

static enum group_state state_in(uint32_t count, group_set set)
{
    return set == everybody(count) ? GROUP_CONSISTENT : GROUP_STANDALONE;
}

bool group_has(group_set set, uint32_t member)
{
    return (set >> member & 1U) != 0;
}

uint32_t group_first(group_set set)
{
    CHECK(set != 0);
    return (uint32_t)__builtin_ctz(set);
}

/* ---- Invariants ---- */

void group_check(const struct group *g)
{
    const struct group_record *r = &g->record;
    bool in_sync = group_in_sync(r->state);

    CHECK_IMPLIES(in_sync, group_has(r->set, g->me) && r->state == state_in(g->count, r->set));
    CHECK_IMPLIES(r->state == GROUP_RECOVERING, !r->whole);
    CHECK_IMPLIES(g->joined != 0, in_sync && r->whole && r->begun == r->epoch && g->agreed);
    CHECK_IMPLIES(g->joined != 0, !g->persisting && g->joined == g->promised);
    CHECK_IMPLIES(g->joined != 0, g->equal == g->promised && g->copying == 0);
    CHECK_IMPLIES(g->phase != GROUP_IDLE, in_sync && group_first(r->set) == g->me);
    CHECK_IMPLIES(g->phase != GROUP_IDLE, g->leading != 0);
    CHECK_IMPLIES(g->ready, r->state == GROUP_RECOVERING);
    CHECK_IMPLIES(g->standing != 0, in_sync && g->standing != r->set);
    CHECK((g->slow & ~everybody(g->count)) == 0);
}

/* ---- What is asked of it ---- */

void group_init(struct group *g, group_id id, uint32_t count, uint32_t me,
                const struct mirror_lease *const *leases)
{
    CHECK(id != 0 && count >= 1 && count <= REPLICAS_MAX && me < count);
    *g = (struct group){ .id = id, .count = count, .me = me, .pause_ms = GROUP_PAUSE_MS };
    for (uint32_t i = 0; i < count; i++) {
        g->peers[i].lease = leases[i];
    }
}

void group_set_vacant(struct group *g, group_set vacant)
{
    g->vacant = vacant & everybody(g->count);
}

void group_record_new(struct group_record *record, uint32_t count, uint64_t boot)
{
    *record = (struct group_record){ .state = GROUP_CONSISTENT, .epoch = 1, .whole = true };
    record->set = everybody(count);
    record->boot = boot;
    record->begun = 1;
    record->verifier = 1;
}

void group_record_newcomer(struct group_record *record, uint32_t count, uint32_t me, uint64_t boot)
{
    *record = (struct group_record){ .state = GROUP_STALE, .boot = boot, .verifier = 1 };
    record->set = (group_set)(everybody(count) & ~(1U << me));
}

uint64_t group_forced_epoch(uint64_t version)
{
    CHECK(version != 0 && version < GROUP_FORCED_VERSION_END);
    return version << GROUP_FORCED_SHIFT;
}

bool group_is_forced(uint64_t epoch)
{
    return epoch != 0 && (epoch & ((UINT64_C(1) << GROUP_FORCED_SHIFT) - 1)) == 0;
}

void group_record_force(struct group_record *record, uint32_t me, uint64_t version)
{
    uint64_t epoch = group_forced_epoch(version);

    CHECK(epoch > record->epoch && epoch > record->verifier);
    *record = (struct group_record){ .state = GROUP_STANDALONE, .boot = record->boot };
    record->epoch = record->verifier = epoch;
    record->set = (group_set)(1U << me);
}

void group_record_fit(struct group_record *record, uint32_t count)
{
    if (group_in_sync(record->state)) {
        record->state = state_in(count, record->set);
    }
}

void group_set_leaving(struct group *g, group_set leaving)
{
    g->leaving = leaving & everybody(g->count);
}

void group_set_displaced(struct group *g, group_set displaced)
{
    g->displaced = displaced & everybody(g->count);
}

void group_set_slow(struct group *g, group_set slow)
{
    g->news = g->news || g->slow != slow;
    g->slow = slow & everybody(g->count);
}

void group_set_unsure(struct group *g, bool unsure)
{
    g->news = g->news || g->unsure != unsure;
    g->unsure = unsure;
}

group_set group_left_slow(const struct group *g)
{
    group_set left = 0;

    for (uint32_t i = 0; i < g->count; i++) {
        if (g->peers[i].back_ms != 0 && !group_has(g->record.set, i)) {
            left |= (group_set)(1U << i);
        }
    }
    return left;
}

/* Others are believed of themselves alone. */
bool group_is_slow(const struct group *g, uint32_t member)
{
    const struct group_word *w = &g->peers[member].word;

    return group_has(g->slow, member) ||
           (member != g->me && w->start != 0 && group_has(w->slow, member));
}

group_set group_slow(const struct group *g)
{
    group_set slow = 0;

    for (uint32_t i = 0; i < g->count; i++) {
        slow |= group_is_slow(g, i) ? (group_set)(1U << i) : 0;
    }
    return slow & g->record.set;
}

bool group_is_out(const struct group *g)
{
    return !group_in_sync(g->persisting ? g->next.state : g->record.state);
}

void group_quit(struct group *g)
{
    g->quits = true;
    g->news = true;
    g->word_ms = 0;
}

group_set group_quitting(const struct group *g)
{
    group_set set = (group_set)(g->quits << g->me);

    for (uint32_t i = 0; i < g->count; i++) {
        if (i != g->me && g->peers[i].word.leaves) {
            set |= (group_set)(1U << i);
        }
    }
    return set;
}

group_set group_leaving(const struct group *g)
{
    return g->leaving | g->displaced | group_quitting(g);
}

static bool talks(const struct group *g, uint32_t member)
{
    const struct group_peer *peer = &g->peers[member];

    return member != g->me && peer->word.start != 0 && peer->suspect_ms > g->now_ms;
}

/* In sync: somebody may take over, at once or when it has been brought up to date. */
static bool has_heir(const struct group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (talks(g, i) && !group_has(group_leaving(g), i)) {
            return true;
        }
    }
    return false;
}

/* Outside: is the newest set at work, or will it be? */
static bool is_succeeded(const struct group *g, bool *awaited)
{
    *awaited = false;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct group_word *w = &g->peers[i].word;

        if (!talks(g, i) || !group_has(g->learned_set, i)) {
            continue;
        }
        if (group_in_sync(w->state) && w->epoch >= g->learned_epoch && w->joined != 0) {
            return true;
        }
        *awaited = true;
    }
    return false;
}

bool group_may_end(const struct group *g)
{
    bool awaited;

    if (!g->started || g->persisting) {
        return !g->started;
    }
    if (group_in_sync(g->record.state)) {
        return !has_heir(g);
    }
    return is_succeeded(g, &awaited) || !awaited;
}

bool group_is_alone(const struct group *g)
{
    bool others = false;

    for (uint32_t i = 0; i < g->count; i++) {
        others = others || (talks(g, i) && group_in_step(g, i) && g->peers[i].word.joined != 0 &&
                            !group_has(group_quitting(g), i));
    }
    return group_in_sync(g->record.state) && !others;
}

bool group_orders(const struct group *g)
{
    return g->joined != 0 && group_first(g->record.set) == g->me;
}

uint32_t group_orderer(const struct group *g)
{
    group_set set = g->learned_epoch > g->record.epoch ? g->learned_set : g->record.set;

    return set != 0 ? group_first(set) : g->count;
}

bool group_takes(const struct group *g, uint64_t epoch, uint64_t round)
{
    return g->joined != 0 && g->record.epoch == epoch && g->joined == round;
}

bool group_serves(const struct group *g, uint64_t now_ms)
{
    if (g->joined == 0 || (g->quits && group_first(g->record.set) != g->me)) {
        return false;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (i != g->me && group_has(g->record.set, i) &&
            !mirror_lease_held(g->peers[i].lease, g->id, g->joined_ms, now_ms)) {
            return false;
        }
    }
    return true;
}

bool group_lacks_lease(const struct group *g, uint32_t member, uint64_t now_ms)
{
    const struct group_peer *peer = &g->peers[member];

    return g->joined != 0 && member != g->me && group_has(g->record.set, member) &&
           group_in_step(g, member) && peer->word.joined == g->joined &&
           !mirror_lease_held(peer->lease, g->id, g->joined_ms, now_ms);
}

bool group_covers(const struct group *g, uint32_t member)
{
    return g->joined != 0 && group_has(g->record.set, member) &&
           (g->standing == 0 || group_has(g->standing, member));
}

bool group_has_joined(const struct group *g, uint32_t member)
{
    return g->joined != 0 && group_has(g->record.set, member) && group_in_step(g, member) &&
           g->peers[member].word.joined == g->joined;
}

bool group_all_joined(const struct group *g)
{
    if (g->joined == 0) {
        return false;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (i != g->me && group_has(g->record.set, i) && !group_has_joined(g, i)) {
            return false;
        }
    }
    return true;
}

/* Who may recover from us. */
static group_set offered(const struct group *g)
{
    group_set set = 0;

    if (!group_orders(g) || !group_all_joined(g)) {
        return 0;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        const struct group_word *w = &g->peers[i].word;

        if (w->start != 0 && !group_in_sync(w->state) && !group_has(g->record.set, i) &&
            !group_has(group_leaving(g), i) && !group_is_slow(g, i) &&
            g->now_ms >= g->peers[i].back_ms) {
            set |= (group_set)(1U << i);
        }
    }
    return set;
}

static void say(const struct group *g, struct group_word *word)
{
    const struct group_record *r = &g->record;

    *word = (struct group_word){ .group = g->id, .from = g->me, .start = g->start };
    word->number = g->number;
    word->state = r->state;
    word->epoch = r->epoch;
    word->set = r->set;
    word->agreed = g->agreed;
    word->complete = r->whole;
    word->begun = r->begun;
    word->ready = g->ready;
    word->promised = g->promised;
    word->equal = g->equal;
    word->joined = g->joined;
    word->phase = g->phase;
    word->leading = g->leading;
    word->source = g->source;
    word->verifier = g->phase >= GROUP_EQUALISING ? g->verifier : r->verifier;
    word->offered = offered(g);
    word->slow = g->slow;
    word->leaves = g->quits;
    word->unsure = g->unsure;
    word->decided_epoch = g->learned_epoch;
    word->decided = g->learned_set;
    for (uint32_t i = 0; i < g->count; i++) {
        /* Of those in the set: who takes part. Of the others: who is offered something. */
        word->starts[i] =
            group_has(r->set, i) && g->phase != GROUP_IDLE ? g->starts[i] : g->peers[i].word.start;
    }
}

void group_word(struct group *g, struct group_word *word)
{
    g->number++;
    say(g, word);
}

void group_see_self(struct group *g)
{
    say(g, &g->peers[g->me].word);
}

bool group_in_step(const struct group *g, uint32_t member)
{
    const struct group_word *w = &g->peers[member].word;

    return w->start != 0 && group_in_sync(w->state) && w->epoch == g->record.epoch &&
           w->set == g->record.set;
}

/* ---- Moves ---- */

struct group_action *group_emit(struct group_actions *out, enum group_action_type type)
{
    struct group_action *action = &out->items[out->count++];

    CHECK(out->count <= GROUP_ACTIONS_MAX);
    *action = (struct group_action){ .type = type };
    return action;
}

void group_unjoin(struct group *g, struct group_actions *out)
{
    if (g->joined != 0) {
        (void)group_emit(out, GROUP_LEAVE);
    }
    g->joined = g->equal = g->copying = 0;
    g->news = true;
}

void group_persist(struct group *g, const struct group_record *next, struct group_actions *out)
{
    CHECK(!g->persisting && (states[g->record.state].may_become & TO(next->state)) != 0);
    g->next = *next;
    g->persisting = true;
    group_emit(out, GROUP_PERSIST)->record = *next;
}

/* Who goes out of the set because it is slow stays there for a while: longer, if it has come back a short
 * while ago. We stood without it, or who orders has named it. */
static void pause_slow(struct group *g, group_set next)
{
    uint64_t at_most_ms = g->pause_ms * GROUP_PAUSES_MAX;
    group_set named = g->peers[group_first(g->record.set)].word.slow | g->blamed;

    for (uint32_t i = 0; i < g->count; i++) {
        struct group_peer *peer = &g->peers[i];

        if (i == g->me || !group_has(g->record.set, i) || group_has(next, i) ||
            !(group_is_slow(g, i) || group_has(named, i))) {
            continue;
        }
        if (peer->back_ms == 0 || g->now_ms > peer->back_ms + at_most_ms) {
            peer->pause_ms = g->pause_ms;
        } else {
            peer->pause_ms = peer->pause_ms < at_most_ms / 2 ? 2 * peer->pause_ms : at_most_ms;
        }
        peer->back_ms = g->now_ms + peer->pause_ms;
    }
}

/* May it hold a lease of ours of the set that it is no part of any more? Who orders among those who are about to end
 * reads until it hears of the new set. */
static bool may_hold(const struct group *g, uint32_t member)
{
    const struct group_word *w = &g->peers[member].word;
    bool gave_up = w->leaves && group_in_step(g, member) && group_first(g->record.set) != member;

    return w->start == 0 || (group_in_sync(w->state) && !gave_up);
}

/* To another epoch, or out of the set: what was agreed means nothing there. */
static void move(struct group *g, const struct group_record *next, struct group_actions *out)
{
    group_unjoin(g, out);
    if (g->standing != 0) {
        (void)group_emit(out, GROUP_STOP_VOTE);
    }
    g->agreed = g->ready = false;
    g->promised = g->leading = 0;
    g->phase = GROUP_IDLE;
    g->standing = 0;
    g->recovering_from = 0;
    if (group_in_sync(g->record.state) && group_in_sync(next->state)) {
        pause_slow(g, next->set);
    }
    g->blamed = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        struct group_peer *peer = &g->peers[i];

        peer->slow_ms = 0;
        peer->suspect_ms = g->now_ms + GROUP_SILENCE_MS;
        if (i != g->me && group_in_sync(next->state) && !group_has(next->set, i) &&
            may_hold(g, i)) {
            peer->wait_ms = peer->lease->granted_until_ms;
        }
    }
    group_persist(g, next, out);
}

/* A set was decided that comes after ours. */
static bool follow_vote(struct group *g, struct group_actions *out)
{
    struct group_record next = g->record;

    if (g->learned_epoch <= g->record.epoch || g->record.state == GROUP_STALE) {
        return false;
    }
    if (g->learned_epoch == g->record.epoch + 1 && group_has(g->learned_set, g->me)) {
        next.state = state_in(g->count, g->learned_set);
        next.epoch = g->learned_epoch;
        next.set = g->learned_set;
    } else {
        next.state = GROUP_STALE;
    }
    move(g, &next, out);
    if (g->quits && next.state == GROUP_STALE) {
        (void)group_emit(out, GROUP_SEND); /* Who goes on need not wait for our disk. */
    }
    return true;
}

/* Somebody who serves offers what it has. In our own epoch, too, where we gave up taking it over for a set that came behind,
 * and of which all its members have lost the record before it began. */
static bool recover(struct group *g, struct group_actions *out)
{
    struct group_record *r = &g->record;
    struct group_action *action;

    for (uint32_t i = 0; i < g->count && !group_in_sync(r->state); i++) {
        const struct group_word *w = &g->peers[i].word;

        if (!group_has(w->offered, g->me) || w->starts[g->me] != g->start ||
            (w->epoch < g->learned_epoch && !group_has(g->learned_set, g->me))) {
            continue;
        }
        if (w->epoch > r->epoch || (w->epoch == r->epoch && r->state == GROUP_STALE)) {
            struct group_record next = { .state = GROUP_RECOVERING, .epoch = w->epoch };

            next.set = w->set;
            next.boot = r->boot;
            next.verifier = r->verifier;

            move(g, &next, out);
            return true;
        }
        if (w->epoch == r->epoch && r->state == GROUP_RECOVERING &&
            g->recovering_from != w->start) {
            g->recovering_from = w->start;
            g->copying = w->joined;
            g->ready = false;
            action = group_emit(out, GROUP_RECOVER);
            action->member = i;
            action->round = w->joined;
            action->epoch = w->epoch;
            g->news = true;
            return true;
        }
    }
    return false;
}

/* ---- Events ---- */

static void on_start(struct group *g, const struct group_event *event, struct group_actions *out)
{
    struct group_record next = *event->record;

    CHECK(!g->started && event->start != 0);
    g->started = true;
    g->start = event->start;
    g->record = *event->record;
    next.whole = next.whole && (next.boot == event->boot || event->intent_empty);
    next.boot = event->boot;
    for (uint32_t i = 0; i < g->count; i++) {
        g->peers[i].suspect_ms = g->now_ms + GROUP_SILENCE_MS;
        if (i != g->me && next.begun != next.epoch && !group_has(next.set, i)) {
            g->peers[i].wait_ms = g->peers[i].lease->granted_until_ms;
        }
    }
    group_persist(g, &next, out); /* Before it is asked, or changed: a second crash forgets more. */
}

static bool is_sound(const struct group *g, const struct group_word *w)
{
    return w->group == g->id && w->from < g->count && w->from != g->me && w->start != 0 &&
           w->number != 0 && w->verifier != 0 && w->state < GROUP_STATES && w->set != 0 &&
           w->set <= everybody(g->count) && w->slow <= everybody(g->count) &&
           w->phase <= GROUP_COMMITTING && w->source < g->count &&
           (!group_in_sync(w->state) || group_has(w->set, w->from)) &&
           w->decided <= everybody(g->count) && (w->decided_epoch == 0 || w->decided != 0);
}

static void learn(struct group *g, uint64_t epoch, group_set set)
{
    if (epoch > g->learned_epoch) {
        g->learned_epoch = epoch;
        g->learned_set = set;
    }
}

static void on_word(struct group *g, const struct group_word *w)
{
    struct group_peer *peer;

    if (!is_sound(g, w)) {
        return;
    }
    peer = &g->peers[w->from];
    if (w->start < peer->word.start ||
        (w->start == peer->word.start && w->number <= peer->word.number)) {
        return;
    }
    g->news = g->news || w->start != peer->word.start || w->leaves != peer->word.leaves;
    peer->word = *w;
    learn(g, w->decided_epoch, w->decided);
    if (group_in_sync(w->state)) {
        learn(g, w->epoch, w->set);
    } else {
        peer->wait_ms = 0; /* It knows that it is outside, and serves nothing. */
    }
    if (group_in_step(g, w->from) || !group_has(g->record.set, w->from)) {
        peer->suspect_ms = g->now_ms + GROUP_SILENCE_MS;
    }
}

static void on_dead(struct group *g, uint32_t member)
{
    CHECK(member < g->count && member != g->me);
    g->peers[member].wait_ms = 0;
    if (g->peers[member].suspect_ms > g->now_ms) {
        g->peers[member].suspect_ms = g->now_ms;
    }
}

static void on_event(struct group *g, const struct group_event *event, struct group_actions *out)
{
    switch (event->type) {
    case GROUP_START:
        on_start(g, event, out);
        return;
    case GROUP_TICK:
        return;
    case GROUP_WORD:
        on_word(g, event->word);
        return;
    case GROUP_PERSISTED:
        CHECK(g->persisting);
        g->persisting = false;
        g->record = g->next;
        g->news = true;
        return;
    case GROUP_DECIDED:
        learn(g, event->epoch, event->set);
        return;
    case GROUP_COPIED:
        if (event->round == g->copying && event->round == g->promised && g->copying != 0) {
            g->equal = g->promised;
            g->copying = 0;
            g->news = true;
        }
        return;
    case GROUP_RECOVERED:
        if (event->round == g->copying && g->record.state == GROUP_RECOVERING) {
            g->ready = true;
            g->copying = 0;
            g->news = true;
        }
        return;
    case GROUP_DEAD:
        on_dead(g, event->member);
        return;
    }
}

/* Since when is who slow? */
static void see_slow(struct group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (!group_is_slow(g, i)) {
            g->peers[i].slow_ms = 0;
        } else if (g->peers[i].slow_ms == 0) {
            g->peers[i].slow_ms = g->now_ms + (g->now_ms == 0);
        }
    }
}

void group_step(struct group *g, const struct group_event *event, struct group_actions *out)
{
    CHECK(event->type == GROUP_START || g->started);
    g->now_ms = event->now_ms;
    on_event(g, event, out);
    see_slow(g);
    while (!g->persisting && (follow_vote(g, out) || group_agree(g, out) || recover(g, out))) {
    }
    if (!g->persisting) {
        group_stand(g, out);
        if (g->news || g->now_ms >= g->word_ms) {
            bool open = g->standing != 0 || !group_all_joined(g);

            (void)group_emit(out, GROUP_SEND);
            g->word_ms = g->now_ms + (open ? GROUP_RETRY_MS : GROUP_WORD_MS);
            g->news = false;
        }
    }
    group_check(g);
}

uint64_t group_deadline_ms(const struct group *g)
{
    uint64_t deadline_ms = g->word_ms;

    if (!g->started || g->persisting) {
        return UINT64_MAX;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t turn_ms = g->peers[i].suspect_ms + (uint64_t)g->me * GROUP_TURN_MS;
        uint64_t slow_ms =
            g->peers[i].slow_ms == 0 ? 0 : g->peers[i].slow_ms + (uint64_t)g->me * GROUP_TURN_MS;
        uint64_t times[] = { g->peers[i].suspect_ms, g->peers[i].wait_ms, turn_ms, slow_ms };

        for (unsigned k = 0; k < ARRAY_COUNT(times); k++) {
            if (i != g->me && times[k] > g->now_ms && times[k] < deadline_ms) {
                deadline_ms = times[k];
            }
        }
    }
    return deadline_ms;
}
