/* When a copy may be named as the one that counts, and what the table says then. */
#include "meta/cluster/group_force.h"
#include "tests/lib/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SERVERS = 3 };

struct world
{
    struct members members;
    struct group_roll roll;
    struct groups_record record;
    struct mend_world mend;
    struct copy_said words[SERVERS];
};

/* A pair on servers 1 and 2; 3 has nothing. All are up, and have said that their copies are well. */
static int setup(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return -1;
    }
    w->record.version = 7;
    w->record.count = 1;
    w->record.items[0] = test_group(1, 3, true, 2, 1, 2, 0);
    w->members.count = SERVERS;
    for (uint32_t i = 0; i < SERVERS; i++) {
        w->members.items[i].record.id = i + 1;
        w->members.items[i].up = true;
        w->roll.said[i] = (struct group_said){ .heard = true, .has = 7, .copies = &w->words[i] };
        w->words[i] = (struct copy_said){ .group = 1, .set = 3, .epoch = 4, .begun = 4 };
    }
    w->mend.members = &w->members;
    w->mend.roll = &w->roll;
    w->mend.record = &w->record;
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* The copy there is not well, and that is told. */
static struct copy_said *unwell(struct world *w, server_id server, enum copy_state what)
{
    w->roll.said[server - 1].count = 1;
    w->words[server - 1].state = what;
    return &w->words[server - 1];
}

static void expect(struct world *w, server_id server, enum force_no no, server_id about)
{
    struct force_answer answer = group_force_ask(&w->mend, &w->record.items[0], server, true);

    assert_int_equal(answer.no, no);
    if (about != 0) {
        assert_int_equal(answer.about, about);
    }
}

/* Both lost their power, one is gone. */
static void one_of_two_is_left(void **state)
{
    struct world *w = *state;
    struct copy_said *said = unwell(w, 1, COPY_CONSISTENT);

    w->members.items[1].up = false;
    expect(w, 1, FORCE_YES, 0);
    expect(w, 2, FORCE_DOWN, 2);
    expect(w, 3, FORCE_NOT_HELD, 3);
    said->reaches = 2;
    expect(w, 1, FORCE_REACHED, 2);
    said->reaches = 1;
    said->closed = true;
    expect(w, 1, FORCE_CLOSED, 1);
    said->closed = false;
    said->serves = true;
    expect(w, 1, FORCE_SERVED, 1);
    said->serves = false;
    w->members.items[1].presumed = true; /* Behind a restart of the manager it may be there. */
    expect(w, 1, FORCE_UNHEARD, 2);
}

/* It lost nothing, and may stand: only without a majority it needs a command. */
static void a_vote_would_do(void **state)
{
    struct world *w = *state;

    unwell(w, 1, COPY_CONSISTENT)->whole = true;
    w->members.items[1].up = false;
    expect(w, 1, FORCE_WAITS, 0);
    assert_int_equal(group_force_ask(&w->mend, &w->record.items[0], 1, false).no, FORCE_YES);
}

static void the_others_are_there(void **state)
{
    struct world *w = *state;
    struct copy_said *other;

    expect(w, 1, FORCE_SERVED, 1);
    (void)unwell(w, 1, COPY_CONSISTENT);
    expect(w, 1, FORCE_SERVED, 2); /* The other one is well. */
    other = unwell(w, 2, COPY_CONSISTENT);
    expect(w, 1, FORCE_WAITS, 0); /* Both are there, and have begun this set. */
    w->words[0].state = COPY_STALE;
    other->state = COPY_STANDALONE;
    other->set = 2;
    other->epoch = other->begun = 5;
    expect(w, 1, FORCE_WAITS, 0);
    other->whole = true;
    expect(w, 1, FORCE_BETTER, 2);
    other->closed = true;
    expect(w, 1, FORCE_YES, 0);
    other->closed = false;
    other->state = COPY_STALE; /* It lost its disk, and is a newcomer. */
    expect(w, 1, FORCE_YES, 0);
    w->roll.said[1].heard = false;
    expect(w, 1, FORCE_UNHEARD, 2);
}

/* The others are newcomers; they are told when the named one has the table. */
static void the_table_says_so(void **state)
{
    struct world *w = *state;
    struct group_made *g = &w->record.items[0];

    w->record.version = 8;
    group_force_make(g, 2, 8, 99);
    assert_int_equal(g->forced, 8);
    assert_int_equal(g->forced_place, 1);
    assert_int_equal(g->forced_s, 99);
    assert_int_equal(g->changed, 8);
    assert_int_equal(g->now.since[0], 8);
    assert_int_equal(g->now.since[1], 3);
    assert_true(mend_may_tell(&w->mend, 2));
    assert_false(mend_may_tell(&w->mend, 1));
    assert_true(mend_may_tell(&w->mend, 3));
    w->roll.said[1].has = 8;
    assert_true(mend_may_tell(&w->mend, 1));
    assert_false(mend_is_complete(&w->mend, g)); /* Server 1 does not know that it is a newcomer. */
    w->roll.said[0].has = 8;
    assert_int_equal(mend_next(&w->mend, g).step, MEND_FORGET);
    assert_true(mend_plan(&w->mend, &w->record));
    assert_int_equal(g->forced_s, 0);
    assert_int_equal(g->forced, 8);
}

/* It lost its place while nobody could take that, and gets it back as it was. */
static void who_lost_its_place_gets_it_back(void **state)
{
    struct world *w = *state;
    struct group_made *g = &w->record.items[0];

    g->formers[g->formers_count++] = (struct group_former){ 2, 1, g->now };
    g->now.servers[1] = 0;
    g->now.since[1] = g->changed = 7;
    w->members.items[0].up = false;
    (void)unwell(w, 2, COPY_STALE);
    expect(w, 2, FORCE_YES, 0);
    group_force_make(g, 2, 8, 99);
    assert_int_equal(g->now.servers[1], 2);
    assert_int_equal(g->now.since[1], 3);
    assert_int_equal(g->now.since[0], 8);
    assert_int_equal(g->formers_count, 0);
    assert_int_equal(g->restored[1], 8);

    g->formers[g->formers_count++] = (struct group_former){ 2, 1, g->now };
    g->now.servers[1] = 3;
    expect(w, 2, FORCE_GIVEN_AWAY, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_of_two_is_left, setup, teardown),
        cmocka_unit_test_setup_teardown(a_vote_would_do, setup, teardown),
        cmocka_unit_test_setup_teardown(the_others_are_there, setup, teardown),
        cmocka_unit_test_setup_teardown(the_table_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(who_lost_its_place_gets_it_back, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
