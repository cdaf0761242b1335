/* Which groups there are: against a look at all servers at once, in worlds of any hosts and disks that grow
 * and fall silent; and where new files lie. */
#include "meta/cluster/group_roll.h"
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

enum { WORLDS = 300, STEPS = 12 };

struct world
{
    struct prng prng;
    struct members members;
    struct group_roll roll;
    struct groups_record now, next;
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

static void empty(struct world *w)
{
    memset(&w->members, 0, sizeof(w->members));
    memset(&w->roll, 0, sizeof(w->roll));
    memset(&w->now, 0, sizeof(w->now));
}

/* A server on host `host` and disk `disk` of it; 0: it does not say. */
static struct member *add(struct world *w, unsigned host, unsigned disk)
{
    struct member *m = &w->members.items[w->members.count++];

    m->record.id = w->members.count;
    (void)snprintf(m->record.address, sizeof(m->record.address), "10.0.0.%u:%u", host,
                   7000 + m->record.id);
    m->up = m->connected = true;
    m->bytes_total = 100 * GIB;
    m->bytes_free = 50 * GIB;
    m->disk.device = disk == 0 ? 0 : host * 100 + disk;
    return m;
}

/* All that is planned is told. */
static bool plan(struct world *w, uint32_t copies)
{
    bool news = group_roll_plan(&w->now, &w->members, copies, &w->next);

    w->now = w->next;
    for (uint32_t i = 0; i < w->now.count; i++) {
        w->now.items[i].told = true;
    }
    return news;
}

static struct member *member(struct world *w, server_id id)
{
    return &w->members.items[id - 1];
}

static unsigned host_of(struct world *w, server_id id)
{
    unsigned host = 0;

    assert_int_equal(sscanf(member(w, id)->record.address, "10.0.0.%u:", &host), 1);
    return host;
}

/* How many hosts have servers that are up; and disks, where those that do not say have one each. */
static void count_places(struct world *w, uint32_t *hosts, uint32_t *disks)
{
    *hosts = *disks = 0;
    for (uint32_t i = 0; i < w->members.count; i++) {
        const struct member *m = &w->members.items[i];
        bool new_host = true, new_disk = true;

        for (uint32_t j = 0; j < i; j++) {
            const struct member *o = &w->members.items[j];

            new_host &= !o->up || host_of(w, o->record.id) != host_of(w, m->record.id);
            new_disk &= !o->up || m->disk.device == 0 || o->disk.device != m->disk.device;
        }
        *hosts += m->up && new_host;
        *disks += m->up && new_disk;
    }
}

static void check_apart(struct world *w, const struct group_made *g)
{
    uint32_t hosts, disks;

    count_places(w, &hosts, &disks);
    for (uint32_t i = 0; i < g->copies; i++) {
        assert_true(member(w, g->now.servers[i])->up);
        for (uint32_t j = 0; j < i; j++) {
            const struct member *a = member(w, g->now.servers[i]),
                                *b = member(w, g->now.servers[j]);

            assert_int_not_equal(a->record.id, b->record.id);
            if (hosts >= g->copies) {
                assert_int_not_equal(host_of(w, a->record.id), host_of(w, b->record.id));
            }
            if (disks >= g->copies) {
                assert_true(a->disk.device == 0 || a->disk.device != b->disk.device);
            }
        }
    }
}

/* Of the groups of `copies` that came behind the first `before`: each is sound, none came twice, and each
 * server that is up is the first of one. */
static void check_plan(struct world *w, uint32_t copies, uint32_t before)
{
    uint32_t firsts[SERVERS_MAX + 1] = { 0 };

    for (uint32_t i = 0; i < w->now.count; i++) {
        const struct group_made *g = &w->now.items[i];

        assert_int_equal(g->number, i + 1);
        for (uint32_t j = 0; j < i; j++) {
            assert_true(
                g->copies != w->now.items[j].copies ||
                memcmp(g->now.servers, w->now.items[j].now.servers, sizeof(g->now.servers)) != 0);
        }
        if (i >= before) {
            assert_int_equal(g->copies, copies);
            assert_int_equal(g->version, w->now.version);
            check_apart(w, g);
        }
        firsts[g->now.servers[0]] += g->copies == copies;
    }
    for (uint32_t i = 0; i < w->members.count; i++) {
        assert_true(!w->members.items[i].up || firsts[i + 1] >= 1);
        assert_true(before > 0 || firsts[i + 1] == w->members.items[i].up);
    }
}

static uint32_t count_up(const struct world *w)
{
    uint32_t up = 0;

    for (uint32_t i = 0; i < w->members.count; i++) {
        up += w->members.items[i].up;
    }
    return up;
}

static void plans_of_any_world_are_sound(void **state)
{
    struct world *w = *state;

    prng_seed(&w->prng, test_seed_first());
    for (int world = 0; world < WORLDS; world++) {
        uint32_t copies = 2 + (uint32_t)prng_below(&w->prng, 2);
        uint32_t hosts = 1 + (uint32_t)prng_below(&w->prng, 6);

        empty(w);
        for (int step = 0; step < STEPS; step++) {
            uint32_t before = w->now.count;
            bool news;

            for (uint64_t more = prng_below(&w->prng, 3); more > 0; more--) {
                add(w, 1 + (unsigned)prng_below(&w->prng, hosts),
                    (unsigned)prng_below(&w->prng, 3));
            }
            for (uint32_t i = 0; i < w->members.count; i++) {
                w->members.items[i].up = prng_below(&w->prng, 5) != 0;
            }
            news = plan(w, copies);
            assert_true(count_up(w) >= copies || !news);
            if (count_up(w) >= copies) {
                check_plan(w, copies, before);
            }
            assert_int_equal(news, w->now.count > before);
            assert_false(plan(w, copies)); /* Nothing is planned twice. */
        }
    }
}

/* Behind server i comes the next one: four groups, and each is a member of two. */
static void a_ring_of_servers_that_share_nothing(void **state)
{
    struct world *w = *state;

    empty(w);
    for (unsigned i = 1; i <= 4; i++) {
        add(w, i, 0);
    }
    assert_true(plan(w, 2));
    assert_int_equal(w->now.count, 4);
    assert_int_equal(w->now.wanted, 1 << 2);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(w->now.items[i].now.servers[0], i + 1);
        assert_int_equal(w->now.items[i].now.servers[1], (i + 1) % 4 + 1);
    }
    assert_true(plan(w, 3));
    assert_int_equal(w->now.count, 8);
    assert_int_equal(w->now.items[7].now.servers[2], 2);
    assert_int_equal(w->now.wanted, 1 << 2 | 1 << 3);
}

/* Two hosts with two disks each, two servers to a disk; then one host. Hosts with one name are one. */
static void hosts_are_apart_and_else_disks(void **state)
{
    struct world *w = *state;

    empty(w);
    add(w, 1, 1);
    add(w, 1, 1);
    add(w, 1, 2);
    add(w, 2, 1);
    assert_true(plan(w, 2));
    assert_int_equal(w->now.items[0].now.servers[1], 4);
    assert_int_equal(w->now.items[3].now.servers[1], 1);
    empty(w);
    add(w, 1, 1);
    add(w, 1, 1);
    add(w, 1, 2);
    assert_true(plan(w, 2));
    assert_int_equal(w->now.items[0].now.servers[1], 3);
    assert_int_equal(w->now.items[1].now.servers[1], 3);
    empty(w);
    for (unsigned i = 1; i <= 3; i++) {
        struct member *m = add(w, i, 0);

        (void)snprintf(m->record.name, sizeof(m->record.name), "%s", i < 3 ? "alpha" : "beta");
    }
    assert_true(plan(w, 2));
    assert_int_equal(w->now.items[0].now.servers[1], 3);
}

/* After a restart of the manager, and while a server is away. */
static void those_that_happen_to_be_there_make_no_ring(void **state)
{
    struct world *w = *state;

    empty(w);
    for (unsigned i = 1; i <= 4; i++) {
        add(w, i, 0);
    }
    assert_true(plan(w, 2));
    member(w, 3)->up = false;
    assert_false(plan(w, 2));
    add(w, 5, 0);
    member(w, 3)->presumed = true;
    assert_false(plan(w, 2));
    member(w, 3)->presumed = false;
    assert_true(plan(w, 2)); /* Server 5 has no group. */
    for (uint32_t i = 4; i < w->now.count; i++) {
        assert_true(w->now.items[i].now.servers[0] != 3 && w->now.items[i].now.servers[1] != 3);
    }
}

static void bounds_hold(void **state)
{
    struct world *w = *state;

    empty(w);
    for (unsigned i = 1; i <= 3; i++) {
        add(w, i, 0);
    }
    assert_false(group_roll_plan(&w->now, &w->members, 3 + 1, &w->next)); /* Fewer than copies. */
    w->now.version = 1;
    w->now.count = 1;
    w->now.items[0] = test_group(PLACING_GROUPS_MAX - 2, 1, true, 2, 1, 3, 0);
    assert_true(plan(w, 2));
    assert_int_equal(w->now.count, 2); /* And no number is left. */
    assert_int_equal(w->now.items[1].number, PLACING_GROUPS_MAX - 1);
    assert_false(plan(w, 2));

    empty(w);
    for (unsigned i = 1; i <= 3; i++) {
        add(w, i, 0);
    }
    w->now.version = 1;
    for (uint32_t i = 0; i < SERVER_GROUPS_MAX; i++) {
        w->now.items[w->now.count++] = test_group(i + 1, 1, true, 2, 1, 1000 + i, 0);
    }
    assert_true(plan(w, 2));
    assert_int_equal(w->now.count, SERVER_GROUPS_MAX + 1); /* (2, 3): server 1 has enough. */
    assert_int_equal(w->now.items[SERVER_GROUPS_MAX].now.servers[0], 2);

    empty(w);
    for (unsigned i = 1; i <= 3; i++) {
        add(w, i, 0);
    }
    w->now.version = 1;
    for (uint32_t i = 0; i < GROUPS_KEPT_MAX; i++) {
        w->now.items[w->now.count++] = test_group(i + 1, 1, true, 2, 2000 + i, 9000 + i, 0);
    }
    assert_false(plan(w, 2));
    assert_int_equal(w->now.count, GROUPS_KEPT_MAX);
}

static void told_is_what_all_have(void **state)
{
    struct world *w = *state;
    const struct group_made *g = &w->now.items[0];

    empty(w);
    add(w, 1, 0);
    add(w, 2, 0);
    w->now.version = 6;
    assert_true(plan(w, 2));
    assert_int_equal(g->version, 7);
    w->roll.said[0].has = 7;
    w->roll.said[1].has = 6;
    assert_false(group_roll_told(&w->roll, &w->members, g));
    w->roll.said[1].has = 8;
    assert_true(group_roll_told(&w->roll, &w->members, g));
}

/* ---- Files ---- */

static const struct group_made *chosen_group(struct world *w, group_number number)
{
    const struct group_made *g = groups_record_find(&w->now, number);

    assert_non_null(g);
    return g;
}

/* Of 600 files the groups of the columns; `counts` by server. */
static void deal(struct world *w, uint32_t copies, uint32_t width, uint32_t columns,
                 uint32_t counts[])
{
    group_number chosen[STRIPE_WIDTH_MAX];

    memset(counts, 0, (w->members.count + 1) * sizeof(counts[0]));
    for (inode_id inode = 1; inode <= 600; inode++) {
        assert_int_equal(group_roll_choose(&w->now, &w->members, inode, copies, width, chosen),
                         columns);
        for (uint32_t i = 0; i < columns; i++) {
            const struct group_made *g = chosen_group(w, chosen[i]);

            assert_int_equal(g->copies, copies);
            for (uint32_t j = 0; j < i; j++) {
                assert_int_not_equal(chosen[i], chosen[j]);
            }
            for (uint32_t j = 0; j < g->copies; j++) {
                counts[g->now.servers[j]]++;
            }
        }
    }
}

/* Servers join one by one, and the groups that were made on the way stay; new files are even. */
static void files_are_dealt_out_evenly(void **state)
{
    struct world *w = *state;
    uint32_t counts[13];

    empty(w);
    for (unsigned i = 1; i <= 12; i++) {
        add(w, i, 0);
        (void)plan(w, 2);
    }
    assert_true(w->now.count > 12);
    deal(w, 2, 1, 1, counts);
    for (uint32_t i = 1; i <= 12; i++) {
        assert_int_equal(counts[i], 100);
    }
    deal(w, 2, 40, 12, counts); /* No wider than the ring. */
    for (uint32_t i = 1; i <= 12; i++) {
        assert_int_equal(counts[i], 1200);
    }
}

static void the_best_there_is_is_taken(void **state)
{
    struct world *w = *state;
    group_number chosen[STRIPE_WIDTH_MAX];
    uint32_t counts[5];

    empty(w);
    for (unsigned i = 1; i <= 4; i++) {
        add(w, i, 0);
    }
    assert_int_equal(group_roll_choose(&w->now, &w->members, 5, 2, 4, chosen), 0);
    assert_true(plan(w, 3));
    assert_int_equal(group_roll_choose(&w->now, &w->members, 5, 2, 4, chosen), 0);
    member(w, 4)->bytes_free = 1 << 20;
    deal(w, 3, 4, 1, counts); /* (1, 2, 3) */
    assert_true(counts[1] == 600 && counts[4] == 0);
    member(w, 3)->connected = false;
    deal(w, 3, 4, 1, counts); /* (4, 1, 2): rather full than one copy less. */
    assert_true(counts[4] == 600 && counts[3] == 0);
    member(w, 4)->up = false;
    deal(w, 3, 4, 2, counts); /* Those that have both of the others. */
    assert_true(counts[1] == 1200 && counts[2] == 1200);
    member(w, 3)->presumed = true;
    deal(w, 3, 4, 1, counts);
    assert_true(counts[3] == 600 && counts[4] == 0);
    for (uint32_t i = 0; i < w->now.count; i++) {
        w->now.items[i].told = i == 1;
    }
    deal(w, 3, 4, 1, counts); /* (2, 3, 4): nothing else is told. */
    assert_int_equal(counts[4], 600);
    for (server_id id = 1; id <= 4; id++) {
        member(w, id)->up = member(w, id)->presumed = false;
    }
    assert_int_equal(group_roll_choose(&w->now, &w->members, 5, 3, 4, chosen), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(plans_of_any_world_are_sound, setup, teardown),
        cmocka_unit_test_setup_teardown(a_ring_of_servers_that_share_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(hosts_are_apart_and_else_disks, setup, teardown),
        cmocka_unit_test_setup_teardown(those_that_happen_to_be_there_make_no_ring, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(bounds_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(told_is_what_all_have, setup, teardown),
        cmocka_unit_test_setup_teardown(files_are_dealt_out_evenly, setup, teardown),
        cmocka_unit_test_setup_teardown(the_best_there_is_is_taken, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
