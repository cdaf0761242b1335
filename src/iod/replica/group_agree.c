/* Rounds in which an in-sync set agrees, and votes for the next set (group.h). */
#include "iod/replica/group_inner.h"

#include "common/base/check.h"

enum { LEADS_MAX = 1 << 20 }; /* Rounds of one start. */

/* ---- Following a round ---- */

static bool leases_are_over(const struct group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (i != g->me && !group_has(g->record.set, i) && g->peers[i].wait_ms > g->now_ms) {
            return false;
        }
    }
    return true;
}

/* Our bytes become those of the source. */
static void equalise(struct group *g, uint32_t source, struct group_actions *out)
{
    struct group_action *action = group_emit(out, source == g->me ? GROUP_FLUSH : GROUP_COPY);

    g->copying = g->promised;
    action->member = source;
    action->epoch = g->record.epoch;
    action->round = g->promised;
}

/* That nothing is missing here is on the disk before anything is changed: otherwise who is killed
 * next would not know it. */
static bool join(struct group *g, uint64_t verifier, struct group_actions *out)
{
    struct group_record next = g->record;
    struct group_action *action;

    if (!next.whole || next.begun != next.epoch || next.verifier != verifier) {
        next.whole = true;
        next.verifier = verifier;
        next.begun = next.epoch;
        group_persist(g, &next, out);
        return true;
    }
    g->joined = g->promised;
    g->joined_ms = g->now_ms;
    g->agreed = true;
    action = group_emit(out, GROUP_JOIN);
    action->epoch = next.epoch;
    action->round = g->joined;
    action->set = next.set;
    action->verifier = verifier;
    g->news = true;
    return true;
}

static bool follow(struct group *g, struct group_actions *out)
{
    uint32_t leader = group_first(g->record.set);
    const struct group_word *w = &g->peers[leader].word;

    if (!group_in_step(g, leader) || w->phase == GROUP_IDLE || w->starts[g->me] != g->start) {
        return false;
    }
    if (w->leading > g->promised && leases_are_over(g)) {
        group_unjoin(g, out);
        g->promised = w->leading;
        return true;
    }
    if (w->leading != g->promised || w->phase == GROUP_PREPARING) {
        return false;
    }
    if (g->equal != g->promised && g->copying != g->promised) {
        equalise(g, w->source, out);
        return true;
    }
    return w->phase == GROUP_COMMITTING && g->equal == g->promised && g->joined != g->promised &&
           join(g, w->verifier, out);
}

/* ---- Leading it ---- */

/* A member of our round has started since. */
static bool is_broken(const struct group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (group_has(g->record.set, i) && group_in_step(g, i) &&
            g->peers[i].word.start != g->starts[i]) {
            return true;
        }
    }
    return false;
}

static bool begin(struct group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (group_has(g->record.set, i) && !group_in_step(g, i)) {
            return false;
        }
    }
    CHECK(g->leads < LEADS_MAX - 1);
    g->leading = g->start * LEADS_MAX + ++g->leads;
    g->phase = GROUP_PREPARING;
    for (uint32_t i = 0; i < g->count; i++) {
        g->starts[i] = g->peers[i].word.start;
    }
    g->news = true;
    return true;
}

/* The last epoch in which anything may have been acknowledged, where nobody of the set has begun ours. Who remembers in
 * which it was joined last was in all sets since, each of which needed it; who was brought up to date since remembers none. */
static uint64_t acknowledged_in(const struct group *g)
{
    uint64_t epoch = g->record.epoch - 1;

    for (uint32_t i = 0; i < g->count; i++) {
        const struct group_word *w = &g->peers[i].word;

        if (group_has(g->record.set, i) && group_in_step(g, i) && w->begun != 0 &&
            w->begun < epoch) {
            epoch = w->begun;
        }
    }
    return epoch;
}

static bool left_with_all(const struct group *g, uint32_t member)
{
    const struct group_word *w = &g->peers[member].word;

    return w->start != 0 && w->state == GROUP_STALE && w->complete && w->epoch < g->record.epoch &&
           w->epoch >= acknowledged_in(g) && g->peers[member].suspect_ms > g->now_ms;
}

/* Everybody who might have left with all is here, and says that he has not. */
static bool all_lost(const struct group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const struct group_peer *peer = &g->peers[i];

        if (!group_has(g->record.set, i) && !group_has(g->vacant, i) &&
            (peer->word.start == 0 || group_in_sync(peer->word.state) || left_with_all(g, i) ||
             g->now_ms >= peer->suspect_ms)) {
            return false;
        }
    }
    return true;
}

/* How much is a member's copy worth? 0: nothing. `guess`: what was acknowledged and not synced is
 * nowhere any more, or never went beyond this set. Then those are worth most that were joined last: what was
 * synced is with them, and who came to the set by recovery may lack what was written behind it. Of those that lost
 * nothing who is sure comes first: what was under way when it stopped it knows, and its clients are told. */
static uint64_t worth(const struct group *g, uint32_t member, bool guess)
{
    const struct group_word *w = &g->peers[member].word;
    const uint64_t knows = g->record.epoch; /* Above all epochs but this one. */

    if (!group_has(g->record.set, member)) {
        return left_with_all(g, member) ? knows : 0;
    }
    if (w->agreed || w->complete || w->begun == g->record.epoch ||
        group_is_forced(g->record.epoch)) {
        return w->agreed     ? knows + 4 + (member == g->me)
               : w->complete ? knows + 2 + !w->unsure
                             : knows + 1;
    }
    return guess ? w->begun : 0;
}

/* REPLICAS_MAX: nobody has what is needed. */
static uint32_t choose_source(const struct group *g)
{
    uint32_t best = REPLICAS_MAX;
    uint64_t best_worth = 0;
    bool guess = all_lost(g);

    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t w = worth(g, i, guess);

        if (w > best_worth) {
            best = i;
            best_worth = w;
        }
    }
    return best;
}

static bool all_are(const struct group *g, size_t field)
{
    for (uint32_t i = 0; i < g->count; i++) {
        const char *word = (const char *)&g->peers[i].word;

        if (group_has(g->record.set, i) &&
            !(group_in_step(g, i) && g->peers[i].word.start == g->starts[i] &&
              *(const uint64_t *)(const void *)(word + field) == g->leading)) {
            return false;
        }
    }
    return true;
}

/* Above those of all who may have joined: a source that lost something makes a new one. */
static uint64_t verifier_from(const struct group *g, uint32_t source)
{
    const struct group_word *w = &g->peers[source].word;
    uint64_t verifier = w->verifier;

    for (uint32_t i = 0; i < g->count; i++) {
        if (group_has(g->record.set, i) && g->peers[i].word.verifier > verifier) {
            verifier = g->peers[i].word.verifier;
        }
    }
    return verifier + !(w->agreed || w->complete);
}

static bool advance(struct group *g, enum group_phase phase)
{
    g->phase = phase;
    g->news = true;
    return true;
}

static bool lead(struct group *g)
{
    if (g->phase == GROUP_IDLE || is_broken(g)) {
        return begin(g);
    }
    if (g->phase == GROUP_PREPARING && all_are(g, offsetof(struct group_word, promised))) {
        uint32_t source = choose_source(g);

        if (source == REPLICAS_MAX) {
            return false; /* Nobody here may guess. */
        }
        g->source = source;
        g->verifier = verifier_from(g, source);
        return advance(g, GROUP_EQUALISING);
    }
    if (g->phase != GROUP_EQUALISING) {
        return false;
    }
    if (!group_has(g->record.set, g->source) &&
        (!left_with_all(g, g->source) || g->peers[g->source].word.start != g->starts[g->source])) {
        return begin(g);
    }
    return all_are(g, offsetof(struct group_word, equal)) ? advance(g, GROUP_COMMITTING) : false;
}

bool group_agree(struct group *g, struct group_actions *out)
{
    if (!group_in_sync(g->record.state)) {
        return false;
    }
    group_see_self(g);
    return follow(g, out) || (group_first(g->record.set) == g->me && lead(g));
}

/* ---- Votes ---- */

/* May it belong to the next set as what it is? */
static bool is_able(const struct group *g, uint32_t member)
{
    const struct group_word *w = &g->peers[member].word;

    return group_in_step(g, member) && (w->agreed || w->complete);
}

static bool is_silent(const struct group *g, uint32_t member)
{
    return member != g->me && g->now_ms >= g->peers[member].suspect_ms;
}

/* Since when it holds up the others, silent or slow; UINT64_MAX: it does not. */
static uint64_t missed_since_ms(const struct group *g, uint32_t member)
{
    const struct group_peer *peer = &g->peers[member];

    if (is_silent(g, member)) {
        return peer->suspect_ms;
    }
    return peer->slow_ms != 0 ? peer->slow_ms : UINT64_MAX;
}

/* Since when somebody else of the set does; UINT64_MAX: nobody does. */
static uint64_t missing_since_ms(const struct group *g)
{
    uint64_t since_ms = 0;
    bool missing = false;

    for (uint32_t i = 0; i < g->count; i++) {
        uint64_t missed_ms = missed_since_ms(g, i);

        if (i != g->me && group_has(g->record.set, i) && missed_ms != UINT64_MAX) {
            missing = true;
            since_ms = missed_ms > since_ms ? missed_ms : since_ms;
        }
    }
    return missing ? since_ms : UINT64_MAX;
}

/* Has it lost its disk since it was voted in? It says so to who has started as we have, and a set that needs both of us
 * cannot have been joined since. */
static bool is_bare(const struct group *g, uint32_t member)
{
    const struct group_word *w = &g->peers[member].word;

    return w->start != 0 && w->starts[g->me] == g->start && w->state == GROUP_STALE &&
           w->epoch < g->record.epoch && !w->complete;
}

/* Would the set wait for ever? Who is in step has lost something, and all others are bare: no more than that is left of
 * it, so those may stand. With whose bytes they go on is for them to agree on, as when all have lost their power; so one
 * of them was joined before, and has what was synced. */
static bool is_left_over(const struct group *g)
{
    bool bare = false, was_joined = false;

    for (uint32_t i = 0; i < g->count; i++) {
        bool in_step = group_in_step(g, i);

        if (!group_has(g->record.set, i)) {
            continue;
        }
        if (is_able(g, i) || !(in_step ? !is_silent(g, i) : is_bare(g, i))) {
            return false;
        }
        bare = bare || !in_step;
        was_joined = was_joined || (in_step && g->peers[i].word.begun != 0);
    }
    return bare && was_joined;
}

/* Those of the set who may belong to the next one: without the slow ones, where somebody is left. */
static group_set fit(const struct group *g)
{
    group_set able = 0, fast = 0, silent = 0;
    bool left_over = is_left_over(g);

    for (uint32_t i = 0; i < g->count; i++) {
        group_set bit = (group_set)(1U << i);

        if (group_has(g->record.set, i)) {
            silent |= is_silent(g, i) ? bit : 0;
            able |=
                !is_silent(g, i) && (is_able(g, i) || (left_over && group_in_step(g, i))) ? bit : 0;
            fast |= g->peers[i].slow_ms == 0 ? bit : 0;
        }
    }
    return (able & fast) != 0 ? able & fast : silent != 0 ? able : 0;
}

/* The set without those who are silent or slow; 0: it is not for us to change yet. */
static group_set smaller(const struct group *g, uint64_t since_ms)
{
    group_set set = fit(g);

    for (uint32_t i = 0; i < g->count; i++) {
        since_ms += group_has(set, i) && i < g->me ? GROUP_TURN_MS : 0;
    }
    return group_has(set, g->me) && g->now_ms >= since_ms ? set : 0;
}

/* The set with one that has recovered; 0: there is none. */
static group_set larger(const struct group *g)
{
    if (!group_orders(g) || !group_all_joined(g)) {
        return 0;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        const struct group_word *w = &g->peers[i].word;

        if (!group_has(g->record.set, i) && !group_has(group_leaving(g), i) && w->start != 0 &&
            w->state == GROUP_RECOVERING && w->ready && w->epoch == g->record.epoch &&
            g->peers[i].suspect_ms > g->now_ms && !group_is_slow(g, i)) {
            return (group_set)(g->record.set | 1U << i);
        }
    }
    return 0;
}

/* The set without those that are to leave; 0: nobody is, or not now. All who stay are joined: they have what was
 * acknowledged. */
static group_set orderly(const struct group *g, group_set leaving)
{
    group_set rest = (group_set)(g->record.set & ~leaving);

    return rest != g->record.set && rest != 0 && group_orders(g) && group_all_joined(g) ? rest : 0;
}

static group_set without_leavers(const struct group *g)
{
    group_set set = orderly(g, group_leaving(g)); /* The displaced among them. */

    /* Two stay. */
    return (set & (set - 1)) != 0 ? set : orderly(g, g->leaving | group_quitting(g));
}

static group_set next_set(const struct group *g, uint64_t since_ms)
{
    group_set set;

    if (since_ms != UINT64_MAX) {
        return smaller(g, since_ms);
    }
    set = orderly(g, group_quitting(g)); /* Who is about to end does not wait long. */
    set = set == 0 ? larger(g) : set;
    return set == 0 ? without_leavers(g) : set;
}

static void ask(struct group *g, group_set set, struct group_actions *out)
{
    struct group_action *action = group_emit(out, GROUP_START_VOTE);

    action->set = set;
    action->epoch = g->record.epoch + 1;
    g->vote_ms = g->now_ms + GROUP_VOTE_MS;
}

void group_stand(struct group *g, struct group_actions *out)
{
    bool forced = group_is_forced(g->record.epoch) && group_in_sync(g->record.state);
    group_set set = 0;
    uint64_t since_ms = UINT64_MAX;

    if (group_in_sync(g->record.state)) {
        group_see_self(g);
        since_ms = missing_since_ms(g);
        set = next_set(g, since_ms);
    }
    for (uint32_t i = 0; i < g->count && set != 0; i++) {
        if (group_has(g->record.set & (group_set)~set, i) && g->peers[i].slow_ms != 0) {
            g->blamed |= (group_set)(1U << i);
        }
    }
    if (set == 0 && g->standing != 0) {
        (void)group_emit(out, GROUP_STOP_VOTE);
    }
    if (set != g->standing) {
        g->standing = set;
        g->vote_ms = g->now_ms;
        g->news = true;
    }
    /* Who may not stand, or not yet, asks what the others have decided; who was named tells the voters by asking. */
    if ((set != 0 || since_ms != UINT64_MAX || (forced && !g->agreed)) && g->now_ms >= g->vote_ms) {
        ask(g, set, out);
    }
}
