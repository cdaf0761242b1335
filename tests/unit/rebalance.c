/* Plans that even out space: small ones by name; and in many worlds of 1 to 1024 servers what rebalance.h says of each,
 * against a search through all moves. */
#include "meta/cluster/rebalance.h"
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

enum { WORLDS = 400, LARGE_WORLDS = 6, SEARCHED_MAX = 40, ROUNDS_MAX = 60 };

struct world
{
    struct prng prng;
    struct members members;
    struct group_roll roll;
    struct groups_record record;
    struct mend_world mend;
    uint64_t sizes[GROUPS_KEPT_MAX];
    struct rebalance_plan plan;
    char text[1024];
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

/* ---- Worlds ---- */

static void begin(struct world *w)
{
    memset(&w->members, 0, sizeof(*w) - offsetof(struct world, members));
    w->mend = (struct mend_world){ .members = &w->members, .roll = &w->roll, .record = &w->record };
    w->record.version = 1;
}

/* On that host; with a disk of its own, of that size, of which so much is used. */
static struct member *add_server(struct world *w, uint32_t host, uint64_t total, uint64_t used)
{
    struct member *m = &w->members.items[w->members.count++];

    m->record.id = w->members.count;
    (void)snprintf(m->record.address, sizeof(m->record.address), "10.%u.%u.1:%u", host >> 8,
                   host & 255, w->members.count);
    m->up = m->connected = true;
    m->bytes_total = total;
    m->bytes_free = total - used;
    m->disk.device = w->members.count;
    w->roll.said[m - w->members.items] = (struct group_said){ .heard = true, .has = 1 };
    return m;
}

static bool same_disk(const struct member *a, const struct member *b)
{
    return a->disk.device == b->disk.device;
}

static struct member *server_of(struct world *w, server_id id)
{
    return &w->members.items[id - 1];
}

/* What the disk of that server has, all who share it say. */
static void use(struct world *w, server_id id, uint64_t more, uint64_t less)
{
    for (uint32_t i = 0; i < w->members.count; i++) {
        if (same_disk(&w->members.items[i], server_of(w, id))) {
            w->members.items[i].bytes_free = w->members.items[i].bytes_free - more + less;
        }
    }
}

/* Of two; its bytes are used at both. */
static struct group_made *add_group(struct world *w, server_id first, server_id second,
                                    server_id third, uint64_t bytes)
{
    uint32_t at = w->record.count++;

    w->record.items[at] = test_group(at + 1, 1, true, third == 0 ? 2 : 3, first, second, third);
    w->sizes[at] = bytes;
    return &w->record.items[at];
}

/* What is planned, group by group. */
static const char *planned(struct world *w)
{
    size_t used = 0;

    rebalance_plan(&w->mend, w->sizes, &w->plan);
    w->text[0] = '\0';
    for (uint32_t i = 0; i < w->plan.count; i++) {
        const struct rebalance_move *m = &w->plan.moves[i];

        used += (size_t)snprintf(w->text + used, sizeof(w->text) - used, "%sgroup %u: %u to %u",
                                 i == 0 ? "" : "; ", m->group, m->from, m->to);
    }
    return w->text;
}

/* ---- Small ones ---- */

static void a_new_server_gets_its_share(void **state)
{
    struct world *w = *state;

    begin(w);
    for (uint32_t i = 0; i < 3; i++) {
        add_server(w, i, 1000 * GIB, 600 * GIB);
    }
    add_server(w, 3, 1000 * GIB, GIB);
    for (uint32_t i = 0; i < 6; i++) {
        add_group(w, 1 + i % 3, 1 + (i + 1) % 3, 0, 150 * GIB);
    }
    assert_string_equal(planned(w), "group 6: 1 to 4; group 5: 2 to 4; group 3: 3 to 4");
    assert_int_equal(w->plan.bytes, 450 * GIB);
    assert_int_equal(w->plan.disks[3].before, GIB);
    assert_int_equal(w->plan.disks[3].used, 451 * GIB);
    assert_int_equal(w->plan.disks[0].used, 450 * GIB);
}

static void what_is_even_stays(void **state)
{
    struct world *w = *state;

    begin(w);
    assert_string_equal(planned(w), ""); /* Nobody is there, */
    add_server(w, 0, 1000 * GIB, 600 * GIB);
    assert_string_equal(planned(w), ""); /* or one alone. */
    add_server(w, 1, 1000 * GIB, 600 * GIB);
    add_server(w, 2, 1000 * GIB, 555 * GIB);
    add_group(w, 1, 2, 0, 10 * GIB);
    assert_string_equal(planned(w), ""); /* Less than the spread. */
    use(w, 3, 0, 500 * GIB);
    assert_string_equal(planned(w), "group 1: 1 to 3");
    w->sizes[0] = 500 * GIB;
    assert_string_equal(planned(w),
                        ""); /* The new one would be nearly as full as the old one is. */
    w->sizes[0] = 0;
    assert_string_equal(planned(w), "");
    w->sizes[0] = REBALANCE_UNKNOWN;
    assert_string_equal(planned(w), "");
    assert_int_equal(w->plan.unknown, 1);
}

static void servers_on_one_disk_are_one(void **state)
{
    struct world *w = *state;

    begin(w);
    for (uint32_t i = 0; i < 4; i++) {
        add_server(w, 0, 1000 * GIB, i < 3 ? 800 * GIB : 100 * GIB)->disk.device = i < 3 ? 7 : 8;
    }
    add_group(w, 1, 2, 0, 100 * GIB);
    assert_string_equal(planned(w), "group 1: 2 to 4");
    assert_int_equal(w->plan.disks[2].first, 0);
    assert_int_equal(w->plan.disks[0].used, 700 * GIB);
    server_of(w, 4)->disk.device = 7;
    assert_string_equal(planned(w), "");
}

static void hosts_stay_apart(void **state)
{
    struct world *w = *state;

    begin(w);
    add_server(w, 0, 1000 * GIB, 800 * GIB);
    add_server(w, 1, 1000 * GIB, 800 * GIB);
    add_server(w, 1, 1000 * GIB, 100 * GIB); /* On the host of server 2. */
    add_group(w, 1, 2, 0, 200 * GIB);
    assert_string_equal(planned(w), "group 1: 2 to 3");
    server_of(w, 2)->bytes_free = 900 * GIB;
    assert_string_equal(planned(w), ""); /* The other copy is on that host. */
    add_server(w, 0, 1000 * GIB, 300 * GIB);
    assert_string_equal(planned(w), "group 1: 1 to 4");
    w->record.items[0].now.servers[0] = 3; /* They share a host by now, and may go on doing so. */
    use(w, 3, 700 * GIB, 0);
    server_of(w, 4)->up = false;
    assert_string_equal(planned(w), "");
    server_of(w, 4)->up = true;
    assert_string_equal(planned(w), "group 1: 3 to 4");
}

static void only_quiet_groups_move(void **state)
{
    struct world *w = *state;
    struct copy_said behind = { .group = 1, .state = COPY_RECOVERING };

    begin(w);
    add_server(w, 0, 1000 * GIB, 800 * GIB);
    add_server(w, 1, 1000 * GIB, 800 * GIB);
    add_server(w, 2, 1000 * GIB, 100 * GIB);
    add_group(w, 1, 2, 0, 200 * GIB);
    assert_string_equal(planned(w), "group 1: 1 to 3");
    w->roll.said[0].copies = &behind;
    w->roll.said[0].count = 1;
    assert_string_equal(planned(w), "");
    assert_int_equal(w->plan.unquiet, 1);
    w->roll.said[0].count = 0;
    w->record.items[0].told = false;
    assert_string_equal(planned(w), "");
    w->record.items[0].told = true;
    server_of(w, 1)->leaves = true;
    assert_string_equal(planned(w), "");
    server_of(w, 1)->leaves = false;
    w->record.items[0].moves_from = 1;
    assert_string_equal(planned(w), "");
    w->record.items[0].moves_from = 0;
    server_of(w, 3)->leaves = true;
    assert_string_equal(planned(w), "");
    server_of(w, 3)->leaves = false;
    (void)snprintf(server_of(w, 3)->disk.failure, 4, "bad");
    assert_string_equal(planned(w), "");
}

/* ---- Any worlds ---- */

static uint64_t below(struct world *w, uint64_t bound)
{
    return prng_below(&w->prng, (uint32_t)bound);
}

/* A host has 1 to 4 servers; in some worlds some share a disk. Of some sizes. */
static void any_servers(struct world *w, uint32_t count)
{
    uint32_t a_host = 1 + (uint32_t)below(w, 4), shared = below(w, 3) == 0 ? 3 : 0;
    bool alike = below(w, 2) == 0;

    for (uint32_t i = 0; i < count; i++) {
        struct member *m =
            add_server(w, i / a_host, alike ? 4096 * GIB : (1024 + below(w, 8192)) * GIB, 0);

        if (i > 0 && shared != 0 && below(w, shared) == 0) {
            m->disk.device = m[-1].disk.device;
            m->bytes_total = m->bytes_free = m[-1].bytes_total;
        }
        m->up = below(w, 30) != 0;
        m->leaves = below(w, 30) == 0;
    }
}

static void any_groups(struct world *w)
{
    uint32_t count = w->members.count * (1 + (uint32_t)below(w, 4));
    uint32_t used_by = 1 + (uint32_t)below(w, w->members.count); /* Others came later. */

    used_by = used_by < 3 && w->members.count >= 3 ? 3 : used_by;
    for (uint32_t i = 0; i < count && w->record.count < GROUPS_KEPT_MAX && used_by >= 2; i++) {
        server_id a = 1 + i % used_by, b = 1 + (i + 1 + (uint32_t)below(w, 2)) % used_by;
        server_id c = used_by >= 4 && below(w, 4) == 0 ? 1 + (i + 3) % used_by : 0;
        uint64_t bytes = below(w, 10) == 0 ? 0 : (1 + below(w, 400)) * GIB;

        if (a != b && a != c && b != c) {
            struct group_made *g = add_group(w, a, b, c, bytes);

            for (uint32_t p = 0; p < g->copies; p++) {
                if (server_of(w, g->now.servers[p])->bytes_free <
                    g->copies * bytes + 64 * GIB) { /* They may share a disk. */
                    w->sizes[w->record.count - 1] = bytes = 0;
                }
            }
            for (uint32_t p = 0; p < g->copies; p++) {
                use(w, g->now.servers[p], bytes, 0);
            }
            g->told = below(w, 20) != 0;
        }
        if (below(w, 25) == 0) {
            w->sizes[w->record.count > 0 ? w->record.count - 1 : 0] = REBALANCE_UNKNOWN;
        }
    }
}

static void any_world(struct world *w, uint64_t seed, uint32_t servers)
{
    begin(w);
    prng_seed(&w->prng, seed);
    any_servers(w, servers);
    any_groups(w);
    for (uint32_t i = 0; i < servers; i++) { /* What is of no group. */
        use(w, i + 1, below(w, 1 + server_of(w, i + 1)->bytes_free / GIB / 4) * GIB, 0);
    }
}

/* ---- What holds ---- */

static bool counts(const struct member *m)
{
    return m->up && m->connected && !m->leaves;
}

/* The sum of total * fill^2, with so many bytes more or less on the disks of two servers. */
static double unevenness(struct world *w)
{
    double sum = 0;

    for (uint32_t i = 0; i < w->members.count; i++) {
        const struct member *m = &w->members.items[i];
        bool first = counts(m);

        for (uint32_t o = 0; o < i; o++) {
            first &= !counts(&w->members.items[o]) || !same_disk(&w->members.items[o], m);
        }
        if (first) {
            double used = (double)(m->bytes_total - m->bytes_free) / (double)GIB;

            sum += used * used / ((double)m->bytes_total / (double)GIB);
        }
    }
    return sum;
}

static double fill_of(const struct member *m)
{
    return (double)(m->bytes_total - m->bytes_free) / (double)m->bytes_total;
}

static void extremes(struct world *w, double *low, double *high)
{
    *low = 1;
    *high = 0;
    for (uint32_t i = 0; i < w->members.count; i++) {
        const struct member *m = &w->members.items[i];

        if (counts(m)) {
            *low = fill_of(m) < *low ? fill_of(m) : *low;
            *high = fill_of(m) > *high ? fill_of(m) : *high;
        }
    }
}

static enum sharing most_shared(struct world *w, const struct group_made *g, uint32_t place,
                                const struct member *m)
{
    enum sharing most = SHARE_NOTHING;

    for (uint32_t i = 0; i < g->copies; i++) {
        enum sharing s =
            i == place ? SHARE_NOTHING : group_roll_sharing(server_of(w, g->now.servers[i]), m);

        most = s > most ? s : most;
    }
    return most;
}

static void check_move(struct world *w, const struct rebalance_move *move, bool seen[])
{
    const struct group_made *g = &w->record.items[move->group - 1];
    uint32_t place = group_place(g, move->from);

    assert_false(seen[move->group]);
    seen[move->group] = true;
    assert_true(mend_is_quiet(&w->mend, g));
    assert_true(place < g->copies);
    assert_true(group_place(g, move->to) == g->copies);
    assert_int_equal(move->bytes, w->sizes[move->group - 1]);
    assert_true(counts(server_of(w, move->from)) && counts(server_of(w, move->to)));
    assert_true(most_shared(w, g, place, server_of(w, move->to)) <=
                most_shared(w, g, place, server_of(w, move->from)));
}

/* Nobody gives after he took, or takes after he gave. */
static void check_sides(struct world *w)
{
    for (uint32_t i = 0; i < w->plan.count; i++) {
        for (uint32_t j = 0; j < w->plan.count; j++) {
            assert_false(
                same_disk(server_of(w, w->plan.moves[i].from), server_of(w, w->plan.moves[j].to)));
        }
    }
}

static void apply(struct world *w, const struct rebalance_move *move)
{
    use(w, move->to, move->bytes, 0);
    use(w, move->from, 0, move->bytes);
}

static void undo(struct world *w, const struct rebalance_move *move)
{
    use(w, move->from, move->bytes, 0);
    use(w, move->to, 0, move->bytes);
}

static void check_needed(struct world *w)
{
    double now = unevenness(w);

    for (uint32_t i = 0; i < w->plan.count; i++) {
        undo(w, &w->plan.moves[i]);
        assert_true(unevenness(w) >= now - 1e-6 * now);
        apply(w, &w->plan.moves[i]);
    }
}

static bool has_given(struct world *w, const struct member *m)
{
    for (uint32_t i = 0; i < w->plan.count; i++) {
        if (same_disk(server_of(w, w->plan.moves[i].from), m)) {
            return true;
        }
    }
    return false;
}

/* Would that copy help there, by the words of rebalance.h? */
static bool would_help(struct world *w, const struct group_made *g, uint32_t place,
                       const struct member *to)
{
    const struct member *from = server_of(w, g->now.servers[place]);
    double bytes = (double)w->sizes[g->number - 1];
    double f = fill_of(from), t = fill_of(to);

    return f > w->plan.mean && t < w->plan.mean && f - t > REBALANCE_SPREAD &&
           t + bytes / (double)to->bytes_total < f - (f - t) / 4 &&
           f - bytes / (double)from->bytes_total > t + (f - t) / 4 &&
           most_shared(w, g, place, to) <= most_shared(w, g, place, from) &&
           mend_may_join(&w->mend, g, to) &&
           to->bytes_free > w->sizes[g->number - 1] + (to->bytes_total >> 7) &&
           !w->plan.disks[w->plan.disks[from - w->members.items].first].took;
}

/* No copy of a group that may move, and does not, is left that would help. */
static void check_nothing_left(struct world *w)
{
    for (uint32_t i = 0; i < w->record.count; i++) {
        const struct group_made *g = &w->record.items[i];

        for (uint32_t p = 0; p < g->copies && !w->plan.moved[i]; p++) {
            for (uint32_t to = 0; to < w->members.count; to++) {
                const struct member *m = &w->members.items[to];

                assert_false(counts(server_of(w, g->now.servers[p])) && counts(m) &&
                             !has_given(w, m) && would_help(w, g, p, m));
            }
        }
    }
}

static void check_plan(struct world *w)
{
    double before = unevenness(w), low, high, low_then, high_then;
    bool seen[GROUPS_KEPT_MAX + 1] = { false };
    uint64_t bytes = 0;

    extremes(w, &low, &high);
    rebalance_plan(&w->mend, w->sizes, &w->plan);
    for (uint32_t i = 0; i < w->plan.count; i++) {
        check_move(w, &w->plan.moves[i], seen);
        bytes += w->plan.moves[i].bytes;
    }
    assert_int_equal(w->plan.bytes, bytes);
    if (w->members.count <= SEARCHED_MAX) {
        check_sides(w);
    }
    for (uint32_t i = 0; i < w->plan.count; i++) {
        apply(w, &w->plan.moves[i]);
    }
    extremes(w, &low_then, &high_then);
    assert_true(low_then >= low && high_then <= high);
    assert_true(w->plan.count == 0 || unevenness(w) < before);
    for (uint32_t i = 0; i < w->members.count; i++) {
        const struct rebalance_disk *d = &w->plan.disks[i];

        assert_true(!d->counts || d->first != i ||
                    d->used == w->members.items[i].bytes_total - w->members.items[i].bytes_free);
    }
    if (w->members.count <= SEARCHED_MAX) {
        check_needed(w);
        check_nothing_left(w);
    }
}

/* The copies have moved. */
static void carry_out(struct world *w)
{
    for (uint32_t i = 0; i < w->plan.count; i++) {
        struct group_made *g = &w->record.items[w->plan.moves[i].group - 1];

        g->now.servers[group_place(g, w->plan.moves[i].from)] = w->plan.moves[i].to;
    }
}

static uint32_t until_even(struct world *w)
{
    uint32_t rounds = 0, moves = 0;

    do {
        assert_true(rounds++ < ROUNDS_MAX);
        check_plan(w);
        carry_out(w);
        moves += w->plan.count;
    } while (w->plan.count > 0);
    return moves;
}

static void any_world_gets_even(void **state)
{
    struct world *w = *state;
    uint64_t first = test_seed_first();
    uint32_t moves = 0;

    for (uint64_t seed = first; seed < first + WORLDS; seed++) {
        any_world(w, seed, 1 + (uint32_t)(seed % SEARCHED_MAX));
        moves += until_even(w);
    }
    assert_true(moves > WORLDS); /* It is not about nothing. */
}

static void a_large_world_gets_even(void **state)
{
    struct world *w = *state;
    uint64_t first = test_seed_first();
    uint32_t moves = 0;

    for (uint64_t seed = first; seed < first + LARGE_WORLDS; seed++) {
        any_world(w, seed, seed % 2 == 0 ? SERVERS_MAX : 200 + (uint32_t)(seed % 500));
        moves += until_even(w);
    }
    assert_true(moves > LARGE_WORLDS * 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_server_gets_its_share, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_even_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(servers_on_one_disk_are_one, setup, teardown),
        cmocka_unit_test_setup_teardown(hosts_stay_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(only_quiet_groups_move, setup, teardown),
        cmocka_unit_test_setup_teardown(any_world_gets_even, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_world_gets_even, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
