/* A server loses its place in a group, deletes its copy, and is named for that group again meanwhile: what it is
 * given then is not deleted with what it had. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "iod/replica/groups_inner_uv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { US = 11, OTHER = 12, THIRD = 13, GROUP = 5, OBJECTS = 6000, PATIENCE_MS = 60000 };

struct world
{
    uv_loop_t loop;
    char dir[64];
    struct object_server server;
    struct groups groups;
    bool closed, down;
};

#define UNTIL(w, condition)                                                                        \
    do {                                                                                           \
        uint64_t until_ms = rpc_boot_ms() + PATIENCE_MS;                                           \
                                                                                                   \
        while (!(condition)) {                                                                     \
            if (rpc_boot_ms() > until_ms) {                                                        \
                fail_msg("this did not come: %s", #condition);                                     \
            }                                                                                      \
            uv_run(&(w)->loop, UV_RUN_ONCE);                                                       \
        }                                                                                          \
    } while (0)

static const Morsel__VoterSet *no_voters(void *data)
{
    (void)data;
    return NULL;
}

static void on_news(void *data)
{
    (void)data;
}

static int begin(void **state)
{
    struct world *w = calloc(1, sizeof(*w));
    struct errmsg err = { "" };

    CHECK(w != NULL && uv_loop_init(&w->loop) == 0);
    snprintf(w->dir, sizeof(w->dir), "/tmp/morsel-groups-XXXXXX");
    CHECK(mkdtemp(w->dir) != NULL);
    w->server.options = (struct object_server_options){ .kind = "iod",
                                                        .program = "test",
                                                        .role = ROLE_IOD,
                                                        .data_dir = w->dir,
                                                        .listen = "127.0.0.1:0",
                                                        .manager = "127.0.0.1:1",
                                                        .advertise = "",
                                                        .open_files = 64,
                                                        .threads = 2,
                                                        .queue = 64 };
    w->server.loop = &w->loop;
    if (object_server_start(&w->server, &err) != 0) {
        fail_msg("%s", err.text);
    }
    w->server.datadir.node = US;
    w->groups.server = &w->server;
    w->groups.voters = no_voters;
    w->groups.news = on_news;
    assert_int_equal(groups_open(&w->groups, &err), 0);
    *state = w;
    return 0;
}

static void on_true(void *data)
{
    *(bool *)data = true;
}

static int end(void **state)
{
    struct world *w = *state;
    char command[128];

    groups_close(&w->groups, on_true, &w->closed);
    UNTIL(w, w->closed);
    rpc_close(w->server.rpc, on_true, &w->down);
    w->server.rpc = NULL;
    UNTIL(w, w->down);
    object_server_stop(&w->server);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    groups_free(&w->groups);
    object_server_release(&w->server);
    CHECK(uv_loop_close(&w->loop) == 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", w->dir);
    CHECK(system(command) == 0);
    free(w);
    return 0;
}

/* Of a group of three, with another one at its second place. */
static Morsel__GroupSet *told_of(uint64_t version, uint64_t since, server_id second,
                                 server_id third)
{
    Morsel__GroupSet set = MORSEL__GROUP_SET__INIT, *out;
    Morsel__Group group = MORSEL__GROUP__INIT, *groups = &group;
    Morsel__Member other = MORSEL__MEMBER__INIT, last = MORSEL__MEMBER__INIT;
    Morsel__Member *members[] = { &other, &last };
    uint32_t servers[] = { US, second, third };
    uint64_t sinces[] = { since, 1, 1 };
    uint8_t bytes[512];

    set.version = version;
    other.id = OTHER;
    last.id = THIRD;
    other.address = last.address = (char *)(uintptr_t) "127.0.0.1:1";
    group.number = GROUP;
    group.servers = servers;
    group.n_servers = third == 0 ? 2 : 3;
    group.since = sinces;
    group.n_since = group.n_servers;
    set.groups = &groups;
    set.n_groups = since != 0;
    set.servers = members;
    set.n_servers = since != 0 ? 2 : 0;
    CHECK(morsel__group_set__get_packed_size(&set) <= sizeof(bytes));
    out = morsel__group_set__unpack(NULL, morsel__group_set__pack(&set, bytes), bytes);
    CHECK(out != NULL);
    return out;
}

/* What the manager tells; since 0: the group is not ours. */
static Morsel__GroupSet *told(uint64_t version, uint64_t since)
{
    return told_of(version, since, OTHER, 0);
}

static void make(struct world *w, inode_id from)
{
    struct errmsg err;

    for (inode_id i = 0; i < OBJECTS; i++) {
        struct object_id id = { from + i, placing_object(GROUP, 0) };

        assert_int_equal(store_truncate(w->server.store, id, 1000, NULL, &err), 0);
    }
}

static size_t count(struct world *w)
{
    struct object_id ids[256];
    uint64_t cursor = 0;
    struct errmsg err;
    size_t all = 0;

    while (cursor != UINT64_MAX) {
        size_t some;

        assert_int_equal(store_list(w->server.store, &cursor, ids, ARRAY_COUNT(ids), &some, &err),
                         0);
        all += some;
    }
    return all;
}

static bool has_state(const struct world *w)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/copies/%d.state", w->dir, GROUP);
    return access(path, F_OK) == 0;
}

static void take_over(struct world *w, Morsel__GroupSet *set)
{
    struct errmsg err = { "" };

    assert_true(groups_may_take_over(&w->groups, set));
    assert_int_equal(groups_begin(&w->groups, &err), 0);
    groups_take_over(&w->groups, set);
}

static void what_is_not_ours_any_more_is_deleted(void **state)
{
    struct world *w = *state;

    take_over(w, told(1, 1));
    make(w, 1000);
    take_over(w, told(2, 0));
    UNTIL(w, count(w) == 0 && !has_state(w));
}

/* It was outside when the manager took its place from it, and came back in: others hear nothing from it. */
static void who_has_lost_its_place_and_is_in_the_set_leaves(void **state)
{
    struct world *w = *state;
    Morsel__GroupSet *without = told_of(2, 1, 0, THIRD), *as_before = told_of(3, 1, OTHER, THIRD);
    const struct group *group;

    take_over(w, told_of(1, 1, OTHER, THIRD));
    group = &copy_replica(groups_find(&w->groups, GROUP)->copy)->group;
    assert_int_equal(group->record.set, 7);
    assert_int_equal(group->displaced, 0);
    assert_false(groups_may_take_over(&w->groups, without));
    assert_int_equal(group->displaced, 2);
    /* It has left; the table may have to wait, for another group. */
    *(group_set *)(uintptr_t)&group->record.set = 5;
    assert_true(groups_may_take_over(&w->groups, without));
    assert_int_equal(group->displaced, 2);
    assert_true(groups_may_take_over(&w->groups, as_before)); /* It has it back. */
    assert_int_equal(group->displaced, 0);
    morsel__group_set__free_unpacked(without, NULL);
    morsel__group_set__free_unpacked(as_before, NULL);
}

/* A disk that refuses that: it is tried again, and no group is kept before it is done. */
static void a_start_counts_when_it_is_on_the_disk(void **state)
{
    struct world *w = *state;
    struct errmsg err = { "" };
    char path[128];

    snprintf(path, sizeof(path), "%s/starts", w->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(groups_begin(&w->groups, &err), 0);
        assert_non_null(strstr(err.text, "starts"));
        assert_int_equal(w->groups.start, 0);
    }
    assert_int_equal(rmdir(path), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(groups_begin(&w->groups, &err), 0);
        assert_int_equal(w->groups.start, 1);
        assert_int_equal(w->groups.peers.start, 1);
    }
}

static void what_is_given_anew_stays(void **state)
{
    struct world *w = *state;
    Morsel__GroupSet *again = told(3, 3);
    size_t before;

    take_over(w, told(1, 1));
    make(w, 1000);
    take_over(w, told(2, 0));
    UNTIL(w, count(w) < OBJECTS);
    assert_true(count(w) > 0);
    UNTIL(w, groups_may_take_over(&w->groups, again)); /* It is told again and again. */
    before = count(w);
    assert_true(before > 0); /* It need not wait until all of it is gone. */
    groups_take_over(&w->groups, again);
    make(w, 100000);
    for (uint32_t i = 0; i < 20; i++) {
        uv_run(&w->loop, UV_RUN_ONCE);
    }
    assert_int_equal(count(w), before + OBJECTS);
    assert_true(has_state(w));
}

/* The next table may come before the copy is closed, which waits for its disk. */
static void tables_come_while_a_copy_is_closed(void **state)
{
    struct world *w = *state;

    take_over(w, told(1, 1));
    take_over(w, told(2, 0));
    take_over(w, told(3, 0));
    UNTIL(w, w->groups.table == NULL && w->groups.dropping == NULL);
    assert_false(has_state(w));
    take_over(w, told(4, 4));
    take_over(w, told(5, 5)); /* It is to be opened again, */
    take_over(w, told(6, 0)); /* and is not. */
    UNTIL(w, w->groups.table == NULL && w->groups.dropping == NULL);
    assert_false(has_state(w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_not_ours_any_more_is_deleted, begin, end),
        cmocka_unit_test_setup_teardown(who_has_lost_its_place_and_is_in_the_set_leaves, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_start_counts_when_it_is_on_the_disk, begin, end),
        cmocka_unit_test_setup_teardown(what_is_given_anew_stays, begin, end),
        cmocka_unit_test_setup_teardown(tables_come_while_a_copy_is_closed, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
