/* Places of groups change hands: one step at a time in calm worlds; and in any order of crashes, losses,
 * heartbeats that are late, drains, and restarts of the manager, against members that keep their side. */
#include "meta/cluster/group_mend.h"
#include "common/base/prng.h"
#include "tests/lib/groups.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB (UINT64_C(1) << 30)

enum { SERVERS = 6, WORLDS = 2000, EVENTS = 150, QUIET = 120, LOST_MAX = 2 };

/* A server, and its copy of the one group. */
struct server
{
    bool up, lost;
    bool knows; /* Its table names the group: */
    uint64_t version;
    struct group_holders table;
    bool told; /* A table is under way to its disk; until then it says nothing. */
    bool told_knows;
    uint64_t told_version;
    struct group_holders told_table;
    bool copy;
    uint64_t since; /* The place for which the copy was made. */
    uint64_t seq;   /* The last write that it has. */
    bool stale;
    uint32_t set; /* In sync, as it has learned. */
    uint64_t epoch;
};

struct world
{
    struct prng prng;
    struct members members;
    struct group_roll roll;
    struct groups_record record, next;
    struct mend_world mend;
    struct copy_said words[SERVERS];
    struct server servers[SERVERS];
    uint32_t set; /* In sync, as it was decided last, */
    server_id in_set[REPLICAS_MAX];
    uint64_t epoch, seq;
    uint32_t lost;
    bool trace;
};

static int setup(void **state)
{
    *state = calloc(1, sizeof(struct world));
    return *state == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static uint32_t bits(uint32_t set)
{
    return (uint32_t)__builtin_popcount(set);
}

static struct group_made *group(struct world *w)
{
    return &w->record.items[0];
}

static bool chance(struct world *w, unsigned one_in)
{
    return prng_below(&w->prng, one_in) == 0;
}

static struct server *server_of(struct world *w, server_id id)
{
    return &w->servers[id - 1];
}

/* ---- The members' side ---- */

static uint32_t place_of(const struct group_holders *h, server_id id)
{
    uint32_t place = 0;

    while (place < h->count && h->servers[place] != id) {
        place++;
    }
    return place;
}

/* Its table has the same server at that place as the other's. */
static bool agree(const struct server *a, const struct server *b, uint32_t place)
{
    return place < a->table.count && place < b->table.count &&
           a->table.servers[place] == b->table.servers[place] &&
           a->table.since[place] == b->table.since[place];
}

/* A member takes no table in which a place of its set has lost its server. */
static bool refuses(const struct server *s)
{
    for (uint32_t p = 0; s->copy && s->told_knows && p < s->table.count; p++) {
        if ((s->set >> p & 1) != 0 && s->table.servers[p] != 0 &&
            (s->told_table.servers[p] != s->table.servers[p] ||
             s->told_table.since[p] != s->table.since[p])) {
            return true;
        }
    }
    return false;
}

static void take(struct world *w, server_id id)
{
    struct server *s = server_of(w, id);
    uint32_t place;

    s->told = false;
    if (s->knows && refuses(s)) {
        return;
    }
    if (!s->told_knows) {
        s->knows = s->copy = false;
        s->version = s->told_version;
        return;
    }
    place = place_of(&s->told_table, id);
    assert_true(place < s->told_table.count);
    if (!s->copy || s->since != s->told_table.since[place]) {
        assert_false(s->copy); /* Nobody's copy is thrown away by another tenure. */
        s->copy = s->stale = true;
        s->since = s->told_table.since[place];
        s->seq = s->epoch = 0;
        s->set = 0;
    }
    s->knows = true;
    s->version = s->told_version;
    s->table = s->told_table;
}

static void crash(struct world *w, server_id id)
{
    struct server *s = server_of(w, id);

    if (s->told && chance(w, 2)) {
        take(w, id);
    }
    s->told = false;
    s->up = false;
}

static bool is_in_set(const struct world *w, server_id id, uint32_t *place)
{
    for (*place = 0; *place < REPLICAS_MAX; (*place)++) {
        if ((w->set >> *place & 1) != 0 && w->in_set[*place] == id) {
            return true;
        }
    }
    return false;
}

/* It hears what was decided last. */
static void learn(struct world *w, server_id id)
{
    struct server *s = server_of(w, id);
    uint32_t place;

    if (s->up && s->copy) {
        s->stale = !is_in_set(w, id, &place) || s->since != s->table.since[place];
        s->set = w->set;
        s->epoch = w->epoch;
    }
}

/* May it lead a change: it is in the set, and knows it? */
static bool leads(struct world *w, server_id id, uint32_t *place)
{
    const struct server *s = server_of(w, id);

    return s->up && s->copy && !s->stale && s->epoch == w->epoch && is_in_set(w, id, place);
}

static void decide(struct world *w, uint32_t set)
{
    w->set = set;
    w->epoch++;
}

/* Some that are down are voted out, or one that is up and just cut off, or one that is to leave. */
static void shrink(struct world *w, server_id id, bool quiet)
{
    const struct server *s = server_of(w, id);
    uint32_t me, set = w->set;

    if (!leads(w, id, &me)) {
        return;
    }
    for (uint32_t p = 0; p < REPLICAS_MAX; p++) {
        if (p != me && (set >> p & 1) != 0 &&
            (!server_of(w, w->in_set[p])->up || (!quiet && chance(w, 8)))) {
            set &= ~(1U << p);
        }
    }
    for (uint32_t p = 0; p < REPLICAS_MAX; p++) {
        if (p != me && (set & s->table.leaving) >> p != 0 && (set >> p & 1) != 0 &&
            (bits(set) > group(w)->copies || (group(w)->copies == 3 && bits(set) == 3)) &&
            (s->table.leaving >> p & 1) != 0) {
            set &= ~(1U << p);
        }
    }
    if (set != w->set) {
        decide(w, set);
        learn(w, id);
    }
}

/* All of the set are here, and take the one who joins for its holder, and it takes them for theirs. */
static bool all_here(struct world *w, const struct server *leader, const struct server *newcomer,
                     uint32_t joins)
{
    for (uint32_t p = 0; p < REPLICAS_MAX; p++) {
        const struct server *m;

        if ((w->set >> p & 1) == 0) {
            continue;
        }
        m = server_of(w, w->in_set[p]);
        if (!m->up || m->epoch != w->epoch || !agree(m, leader, joins) || !agree(m, leader, p) ||
            !agree(newcomer, leader, p)) {
            return false;
        }
    }
    return true;
}

static void grow(struct world *w, server_id id)
{
    const struct server *s = server_of(w, id);
    uint32_t me;

    if (!leads(w, id, &me)) {
        return;
    }
    for (uint32_t p = 0; p < s->table.count; p++) {
        struct server *x = s->table.servers[p] == 0 ? NULL : server_of(w, s->table.servers[p]);

        if (x == NULL || (w->set >> p & 1) != 0 || (s->table.leaving >> p & 1) != 0 || !x->up ||
            !x->copy || !agree(x, s, p) || x->since != s->table.since[p] || !all_here(w, s, x, p)) {
            continue;
        }
        x->seq = w->seq;
        w->in_set[p] = s->table.servers[p];
        decide(w, w->set | 1U << p);
        for (uint32_t i = 0; i < REPLICAS_MAX; i++) { /* It serves when all have agreed. */
            if ((w->set >> i & 1) != 0) {
                learn(w, w->in_set[i]);
            }
        }
        return;
    }
}

static void write_once(struct world *w, server_id id)
{
    uint32_t me;

    if (!leads(w, id, &me)) {
        return;
    }
    for (uint32_t p = 0; p < REPLICAS_MAX; p++) {
        if ((w->set >> p & 1) != 0 && !server_of(w, w->in_set[p])->up) {
            return;
        }
    }
    w->seq++;
    for (uint32_t p = 0; p < REPLICAS_MAX; p++) {
        if ((w->set >> p & 1) != 0) {
            server_of(w, w->in_set[p])->seq = w->seq;
        }
    }
}

/* ---- The manager's side, as the host does it ---- */

static void say(struct world *w, server_id id)
{
    struct server *s = server_of(w, id);
    struct group_said *said = &w->roll.said[id - 1];
    uint32_t place = place_of(&s->table, id);
    bool well;

    *said = (struct group_said){ .heard = true, .has = s->version, .copies = &w->words[id - 1] };
    if (!s->knows) {
        return;
    }
    well = !s->stale && s->set == (1U << s->table.count) - 1;
    said->count = !well;
    w->words[id - 1] =
        (struct copy_said){ .group = 1,
                            .state = s->stale ? COPY_STALE : COPY_STANDALONE,
                            .set = s->set,
                            .serves = s->copy && !s->stale && (s->set >> place & 1) != 0,
                            .epoch = s->epoch };
}

static void answer(struct world *w, server_id id)
{
    struct server *s = server_of(w, id);
    const struct group_former *f = group_former_find(group(w), id);

    if (s->version == w->record.version || !mend_may_tell(&w->mend, id)) {
        return;
    }
    w->roll.said[id - 1].sent = w->record.version;
    if (chance(w, 5)) {
        return; /* It does not come through. */
    }
    s->told = true;
    s->told_version = w->record.version;
    s->told_knows = group_concerns(group(w), id);
    s->told_table = f != NULL ? f->was : group(w)->now;
}

static void heartbeat(struct world *w, server_id id)
{
    const struct server *s = server_of(w, id);

    if (s->up && !s->told) {
        w->members.items[id - 1].up = true;
        w->mend.gone[id - 1] = false;
        say(w, id);
        answer(w, id);
    }
}

static void check_assigned(struct world *w, const struct group_made *before, uint32_t place)
{
    for (uint32_t i = 0; i < before->now.count; i++) {
        const struct server *s;

        if (i == place || before->now.servers[i] == 0) {
            continue;
        }
        s = server_of(w, before->now.servers[i]);
        assert_true(s->knows && s->table.count > place && s->table.servers[place] == 0);
        assert_true((s->set >> place & 1) == 0);
    }
    assert_null(group_former_find(before, w->next.items[0].now.servers[place]));
}

/* What a plan may do to the group. */
static void check_step(struct world *w)
{
    const struct group_made *a = group(w), *b = &w->next.items[0];
    uint32_t held = 0;

    assert_int_equal(w->next.version, w->record.version + 1);
    for (uint32_t i = 0; i < b->now.count; i++) {
        server_id before = i < a->now.count ? a->now.servers[i] : 0;

        if (before == 0 && b->now.servers[i] != 0 &&
            group_former_find(a, b->now.servers[i]) == NULL) {
            check_assigned(w, a, i);
        }
        assert_true(before == 0 || b->now.servers[i] == 0 || b->now.servers[i] == before);
        held += b->now.servers[i] != 0;
    }
    assert_true(held >= 1);
    if (a->formers_count > 0 && b->formers_count == 0 && a->now.servers[0] == b->now.servers[0] &&
        a->now.servers[1] == b->now.servers[1] && a->now.servers[2] == b->now.servers[2]) {
        assert_true(bits(w->set) >= a->copies);
    }
}

static bool tick(struct world *w)
{
    for (uint32_t i = 0; i < SERVERS; i++) {
        w->members.items[i].leaves = groups_leaver_find(&w->record, i + 1) != NULL;
    }
    if (!mend_plan(&w->mend, &w->next)) {
        return false;
    }
    check_step(w);
    w->record = w->next;
    return true;
}

/* ---- Worlds ---- */

static void begin(struct world *w, uint32_t copies)
{
    memset(&w->members, 0, sizeof(*w) - offsetof(struct world, members));
    w->mend = (struct mend_world){ .members = &w->members, .roll = &w->roll, .record = &w->record };
    w->members.count = SERVERS;
    w->record.version = w->record.count = 1;
    w->record.items[0] = test_group(1, 1, true, copies, 1, 2, 3);
    for (uint32_t i = 0; i < SERVERS; i++) {
        struct member *m = &w->members.items[i];
        struct server *s = &w->servers[i];

        m->record.id = i + 1;
        (void)snprintf(m->record.address, sizeof(m->record.address), "10.0.0.%u:1", i + 1);
        m->up = m->connected = true;
        m->bytes_total = m->bytes_free = 100 * GIB;
        s->up = true;
        s->knows = s->copy = i < copies;
        s->since = s->version = s->epoch = 1;
        s->table = group(w)->now;
        s->set = (1U << copies) - 1;
    }
    w->set = (1U << copies) - 1;
    for (uint32_t i = 0; i < copies; i++) {
        w->in_set[i] = i + 1;
    }
    w->epoch = 1;
}

static void set_leaves(struct world *w, server_id id, bool leaves)
{
    struct groups_record *r = &w->record;
    uint32_t at = 0;

    while (at < r->leavers_count && r->leavers[at].server < id) {
        at++;
    }
    if (at < r->leavers_count && r->leavers[at].server == id) {
        memmove(&r->leavers[at], &r->leavers[at + 1],
                (--r->leavers_count - at) * sizeof(r->leavers[0]));
    }
    if (leaves) {
        memmove(&r->leavers[at + 1], &r->leavers[at],
                (r->leavers_count++ - at) * sizeof(r->leavers[0]));
        r->leavers[at] = (struct group_leaver){ id, 0 };
    }
}

/* For good, unless nobody else has everything. */
static void lose(struct world *w, server_id id)
{
    uint32_t others = 0;

    for (uint32_t p = 0; p < REPLICAS_MAX; p++) {
        others += (w->set >> p & 1) != 0 && w->in_set[p] != id && !server_of(w, w->in_set[p])->lost;
    }
    if (others > 0 && w->lost < LOST_MAX && !server_of(w, id)->lost) {
        crash(w, id);
        server_of(w, id)->lost = true;
        w->lost++;
    }
}

static void notice(struct world *w, server_id id)
{
    if (!server_of(w, id)->up) {
        w->mend.gone[id - 1] = !w->members.items[id - 1].up && chance(w, 2);
        w->members.items[id - 1].up = false;
    }
}

/* Space is evened out: one of the group's servers is to give its copy to one that has none. Or that is stopped, as
 * groups_rebalance_uv.c does it. */
static void want_move(struct world *w)
{
    server_id from = 1 + (server_id)prng_below(&w->prng, SERVERS);
    server_id to = 1 + (server_id)prng_below(&w->prng, SERVERS);
    struct group_made *g = group(w);

    if (group_move_waits(g) && chance(w, 4)) {
        group_move_end(g);
        w->record.rebalance.given_up++;
    } else if (mend_is_quiet(&w->mend, g) && group_place(g, from) < g->now.count &&
               !group_concerns(g, to)) {
        g->moves_from = from;
        g->moves_to = to;
        g->moves_bytes = GIB;
        w->record.rebalance.moves++;
    }
}

static void something_happens(struct world *w)
{
    server_id id = 1 + (server_id)prng_below(&w->prng, SERVERS);
    struct server *s = server_of(w, id);

    switch (prng_below(&w->prng, 17)) {
    case 16:
        want_move(w);
        break;
    case 0:
        crash(w, id);
        break;
    case 1:
    case 2:
        s->up = !s->lost;
        break;
    case 3:
        if (chance(w, 4)) {
            lose(w, id);
        }
        break;
    case 4:
        notice(w, id);
        break;
    case 5:
        shrink(w, id, false);
        break;
    case 6:
        grow(w, id);
        break;
    case 7:
        learn(w, id);
        break;
    case 8:
        if (s->told) {
            take(w, id);
        }
        break;
    case 9:
        if (chance(w, 6)) {
            memset(&w->roll, 0, sizeof(w->roll)); /* The manager starts again. */
        }
        break;
    case 10:
        if (chance(w, 3)) {
            set_leaves(w, id, chance(w, 2));
        }
        w->record.paused = chance(w, 10);
        break;
    case 11:
    case 12:
        (void)tick(w);
        break;
    case 13:
        write_once(w, id);
        break;
    default:
        heartbeat(w, id);
        break;
    }
}

/* Whoever is in sync has everything, and one of them is there, or comes back. */
static void check(struct world *w)
{
    uint32_t complete = 0;

    for (uint32_t p = 0; p < REPLICAS_MAX; p++) {
        if ((w->set >> p & 1) != 0) {
            const struct server *s = server_of(w, w->in_set[p]);

            assert_true(s->lost || (s->copy && s->seq == w->seq));
            complete += !s->lost;
        }
    }
    assert_true(complete > 0);
}

/* Nobody fails any more: how does it end? Somebody may be away for a while. */
static void settle_without(struct world *w, server_id away)
{
    w->record.paused = false;
    for (int round = 0; round < QUIET; round++) {
        for (server_id id = 1; id <= SERVERS; id++) {
            struct server *s = server_of(w, id);

            s->up = !s->lost && id != away;
            if (s->told) {
                take(w, id);
            }
            learn(w, id);
            shrink(w, id, true);
            grow(w, id);
            heartbeat(w, id);
            w->members.items[id - 1].up = s->up;
            w->mend.gone[id - 1] = s->lost;
        }
        (void)tick(w);
        check(w);
    }
}

static void settle(struct world *w)
{
    settle_without(w, 0);
}

/* Could anybody take a place of the group? */
static bool any_taker(struct world *w)
{
    for (server_id id = 1; id <= SERVERS; id++) {
        if (server_of(w, id)->up && groups_leaver_find(&w->record, id) == NULL &&
            !group_concerns(group(w), id)) {
            return true;
        }
    }
    return false;
}

static void check_settled(struct world *w, uint64_t seed)
{
    struct mend_move move = mend_next(&w->mend, group(w));
    uint32_t held = 0;

    if ((move.step == MEND_NO_SERVER && !any_taker(w)) || move.step == MEND_WORN) {
        return;
    }
    if (move.step != MEND_REST) {
        fail_msg("seed %" PRIu64 ": it ends with step %d of place %u", seed, (int)move.step,
                 move.place);
    }
    for (uint32_t i = 0; i < group(w)->now.count; i++) {
        server_id id = group(w)->now.servers[i];

        held += id != 0;
        assert_true(id == 0 || (w->set >> i & 1) != 0);
        assert_true(id == 0 || groups_leaver_find(&w->record, id) == NULL);
        assert_true(id == 0 || !server_of(w, id)->lost);
    }
    assert_int_equal(held, group(w)->copies);
    assert_int_equal(group(w)->formers_count, 0);
    assert_int_equal(group(w)->moves_from, 0);
    for (server_id id = 1; id <= SERVERS; id++) {
        if (!server_of(w, id)->lost) {
            assert_int_equal(server_of(w, id)->copy,
                             group_place(group(w), id) < group(w)->now.count);
        }
    }
}

static void any_order_of_events(void **state)
{
    struct world *w = *state;
    uint64_t first = test_seed_first();

    for (uint64_t seed = first; seed < first + WORLDS; seed++) {
        prng_seed(&w->prng, seed);
        begin(w, 2 + (uint32_t)(seed % 2));
        for (int i = 0; i < EVENTS; i++) {
            something_happens(w);
            check(w);
        }
        while (w->record.leavers_count > 2) {
            set_leaves(w, w->record.leavers[0].server, false);
        }
        settle(w);
        check_settled(w, seed);
    }
}

static uint32_t groups_with_a_copy_less(const struct groups_record *r)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->count; i++) {
        count += r->items[i].now.leaving != 0 || group_place(&r->items[i], 0) < 3;
    }
    return count;
}

/* A server of many groups of three is to leave: no group gives up its copy before there is somebody who takes the
 * place at once, also when nobody has told yet how far that is. */
static void a_drain_begins_with_no_more_than_can_be_taken(void **state)
{
    enum { GROUPS = 12, TAKERS = SERVERS - 3 };
    struct world *w = *state;

    begin(w, 3);
    w->record.count = GROUPS;
    for (uint32_t i = 1; i < GROUPS; i++) {
        w->record.items[i] = test_group(i + 1, 1, true, 3, 1, 2, 3);
    }
    for (server_id id = 1; id <= SERVERS; id++) {
        w->roll.said[id - 1] = (struct group_said){ .heard = true, .has = 1 };
    }
    set_leaves(w, 1, true);
    w->members.items[0].leaves = true;
    for (int plan = 0; plan < 3; plan++) {
        if (mend_plan(&w->mend, &w->next)) {
            w->record = w->next;
        }
        assert_int_equal(groups_with_a_copy_less(&w->record), TAKERS * MEND_REBUILDS_MAX);
    }
}

/* Nothing fails: it goes where it was to go, without a copy less, and everything else stays. */
static void a_move_goes_where_it_is_to(void **state)
{
    struct world *w = *state;

    for (uint32_t copies = 2; copies <= 3; copies++) {
        for (uint64_t seed = 1; seed <= 20; seed++) {
            server_id from = 1 + (server_id)(seed % copies), to = 4 + (server_id)(seed % 3);

            prng_seed(&w->prng, seed);
            begin(w, copies);
            group(w)->moves_from = from;
            group(w)->moves_to = to;
            w->record.rebalance.moves = 1;
            settle(w);
            check_settled(w, seed);
            assert_true(group_place(group(w), to) < group(w)->now.count);
            assert_true(group_place(group(w), from) == group(w)->now.count);
            assert_int_equal(w->record.rebalance.given_up, 0);
        }
    }
}

/* Who is to get it is away for a while: nobody else gets it, and nobody gives up his own. */
static void a_move_waits_for_its_server(void **state)
{
    struct world *w = *state;

    for (uint32_t copies = 2; copies <= 3; copies++) {
        for (int when = 0; when < 8; when++) {
            prng_seed(&w->prng, (uint64_t)when);
            begin(w, copies);
            group(w)->moves_from = 1;
            group(w)->moves_to = 5;
            for (int i = 0; i < when && copies == 2; i++) {
                (void)tick(w);
                heartbeat(w, 1 + (server_id)i % copies);
            }
            if (group_place(group(w), 5) < group(w)->now.count) {
                continue;
            }
            settle_without(w, 5);
            assert_int_equal(mend_next(&w->mend, group(w)).step, MEND_TAKER);
            assert_int_equal(group(w)->moves_to, 5);
            assert_int_equal(bits(w->set), copies);
            for (server_id id = 1; id <= copies; id++) {
                assert_true(group_place(group(w), id) < group(w)->now.count);
            }
            settle(w);
            check_settled(w, (uint64_t)when);
            assert_true(group_place(group(w), 5) < group(w)->now.count);
        }
    }
}

/* Who was to get it fails before it has it: nobody else gets it, and nothing is left of that. */
static void a_move_that_cannot_be_is_given_up(void **state)
{
    struct world *w = *state;

    for (uint32_t copies = 2; copies <= 3; copies++) {
        for (int when = 0; when < 6; when++) {
            prng_seed(&w->prng, 1);
            begin(w, copies);
            group(w)->moves_from = 1;
            group(w)->moves_to = 5;
            group(w)->moves_bytes = GIB;
            w->record.rebalance.moves = 1;
            for (int i = 0; i < when; i++) {
                (void)tick(w);
                heartbeat(w, 1 + (server_id)i % copies);
            }
            lose(w, 5);
            if (when == 5) {
                server_of(w, 5)->lost = false;
                w->lost = 0;
                w->members.items[4].bytes_free = GIB / 2;
            }
            settle(w);
            check_settled(w, (uint64_t)when);
            assert_true(group_place(group(w), 1) < group(w)->now.count);
            assert_int_equal(w->record.rebalance.given_up, 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_drain_begins_with_no_more_than_can_be_taken, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_move_goes_where_it_is_to, setup, teardown),
        cmocka_unit_test_setup_teardown(a_move_waits_for_its_server, setup, teardown),
        cmocka_unit_test_setup_teardown(a_move_that_cannot_be_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(any_order_of_events, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
