/* The table of groups: what is written comes back, whatever else lies there is refused with words, and it
 * counts from its commit on; and files on groups. */
#include "meta/namespace/groups_record.h"
#include "common/base/status.h"
#include "meta/namespace/record.h"
#include "tests/lib/groups.h"
#include "tests/lib/ns_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct world
{
    struct ns_fixture f;
    struct groups_record record, back, third;
    struct buf bytes;
};

static int setup(void **state)
{
    struct world *w = test_calloc(1, sizeof(*w));

    ns_fixture_open(&w->f, 1);
    buf_init(&w->bytes);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    buf_free(&w->bytes);
    ns_fixture_close(&w->f);
    test_free(w);
    return 0;
}

/* (1, 2) and (2, 1) of two, and (3, 1, 2), which is not told yet. */
static void sample(struct world *w)
{
    memset(&w->record, 0, sizeof(w->record));
    w->record.version = 5;
    w->record.wanted = 1 << 2 | 1 << 3;
    w->record.count = 3;
    w->record.items[0] = test_group(1, 3, true, 2, 1, 2, 0);
    w->record.items[1] = test_group(4, 3, true, 2, 2, 1, 0);
    w->record.items[2] = test_group(9, 5, false, 3, 3, 1, 2);
}

/* In group 4 server 1 is to leave and 7 has its place, whose copy is not complete yet; 5 had it before. */
static void sample_changed(struct world *w)
{
    struct group_made *g = &w->record.items[1];

    sample(w);
    w->record.version = 12;
    w->record.paused = true;
    w->record.leavers_count = 2;
    w->record.leavers[0] = (struct group_leaver){ 1, 0 };
    w->record.leavers[1] = (struct group_leaver){ 5, 7 };
    g->formers_count = 2;
    g->formers[0] = (struct group_former){ 1, 1, { 2, { 2, 1 }, { 3, 3 }, 2 } };
    g->formers[1] = (struct group_former){ 5, 1, { 3, { 2, 5, 0 }, { 3, 8, 4 }, 0 } };
    g->now = (struct group_holders){ 3, { 2, 7, 0 }, { 3, 11, 4 }, 1 };
    g->restored[0] = 10;
    g->changed = 12;
    g->forced = 9;
    g->forced_place = 1;
    g->forced_s = 1764000000;
    w->record.items[0].moves_from = 2;
    w->record.items[0].moves_to = 9;
    w->record.items[0].moves_bytes = UINT64_C(5) << 40;
    g->moves_from = 5;
    g->moves_to = 7;
    w->record.rebalance = (struct groups_rebalance){ 1764000001, 4, UINT64_C(7) << 40, 1, 3 };
}

static struct slice encoded(struct world *w)
{
    buf_clear(&w->bytes);
    groups_record_encode(&w->record, &w->bytes);
    return buf_slice(&w->bytes);
}

static void refuse(struct world *w)
{
    static const struct groups_record none;

    assert_int_equal(groups_record_decode(encoded(w), &w->back), MORSEL_CORRUPT);
    assert_memory_equal(&w->back, &none, sizeof(none));
    sample(w);
}

static void comes_back(void **state)
{
    struct world *w = *state;

    sample(w);
    assert_int_equal(groups_record_decode(encoded(w), &w->back), 0);
    assert_memory_equal(&w->record, &w->back, sizeof(w->record));
    assert_int_equal(groups_record_find(&w->back, 4)->now.servers[0], 2);
    assert_null(groups_record_find(&w->back, 0));
    assert_null(groups_record_find(&w->back, 5));
    assert_null(groups_record_find(&w->back, 10));
    assert_int_equal(group_place(&w->back.items[2], 2), 2);
    assert_int_equal(group_place(&w->back.items[1], 3), 2);
    sample_changed(w);
    assert_int_equal(groups_record_decode(encoded(w), &w->back), 0);
    assert_memory_equal(&w->record, &w->back, sizeof(w->record));
    assert_int_equal(group_former_find(&w->back.items[1], 5)->was.since[1], 8);
    assert_null(group_former_find(&w->back.items[1], 2));
    assert_true(group_concerns(&w->back.items[1], 1) && group_concerns(&w->back.items[1], 7));
    assert_false(group_concerns(&w->back.items[1], 3));
    assert_int_equal(groups_leaver_find(&w->back, 5)->to, 7);
    assert_null(groups_leaver_find(&w->back, 4));
    assert_true(group_move_waits(&w->back.items[0]));
    assert_false(group_move_waits(&w->back.items[1]) || group_move_waits(&w->back.items[2]));
    w->back.items[0].now.leaving = 2; /* Server 2 is let go. */
    assert_false(group_move_waits(&w->back.items[0]));
    w->back.items[0].now.leaving = 0;
    w->back.items[0].moves_to = 1; /* It is there. */
    assert_false(group_move_waits(&w->back.items[0]));
    w->back.items[1].now.servers[0] = 0;
    assert_int_equal(group_first_held(&w->back.items[1]), 7);
    sample(w);
    w->record.count = GROUPS_KEPT_MAX;
    for (uint32_t i = 0; i < GROUPS_KEPT_MAX; i++) {
        w->record.items[i] = test_group(i + 1, 1, i % 2 == 0, 2, i + 2, i + 1, 0);
    }
    w->record.leavers_count = SERVERS_MAX;
    for (uint32_t i = 0; i < SERVERS_MAX; i++) {
        w->record.leavers[i] = (struct group_leaver){ i + 1, 0 };
    }
    assert_int_equal(groups_record_decode(encoded(w), &w->back), 0);
    assert_memory_equal(&w->record, &w->back, sizeof(w->record));
}

/* What an older manager wrote. */
static void a_table_without_changes_is_read(void **state)
{
    static const uint8_t old[] = {
        1,                                        /* Format */
        5, 0, 0, 0, 0, 0, 0, 0,                   /* Version */
        4, 0, 0, 0, 2, 0, 0, 0,                   /* Wanted, count */
        1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 2, /* Group 1, of version 3, told, */
        1, 0, 0, 0, 2, 0, 0, 0,                   /* servers 1 and 2 */
        9, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 3, /* Group 9, of version 5, */
        3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0        /* servers 3, 1 and 2 */
    };
    struct world *w = *state;

    w->record.version = 5;
    w->record.wanted = 1 << 2;
    w->record.count = 2;
    w->record.items[0] = test_group(1, 3, true, 2, 1, 2, 0);
    w->record.items[1] = test_group(9, 5, false, 3, 3, 1, 2);
    assert_int_equal(groups_record_decode((struct slice){ old, sizeof(old) }, &w->back), 0);
    assert_memory_equal(&w->record, &w->back, sizeof(w->record));
    for (size_t cut = 0; cut < sizeof(old); cut++) {
        assert_int_equal(groups_record_decode((struct slice){ old, cut }, &w->back),
                         MORSEL_CORRUPT);
    }
}

static void take_out(struct world *w, size_t at, size_t count)
{
    memmove(w->bytes.data + at, w->bytes.data + at + count, w->bytes.count - at - count);
    w->bytes.count -= count;
}

/* What managers wrote that knew of no copy that was named (17 bytes less for each group, behind `restored`), and of none
 * that moves (16 bytes behind them, and 32 behind those who leave). */
static void an_older_table_is_read(void **state)
{
    enum { HEAD = 1 + 8 + 4 + 1 + 4, GROUP = 4 + 4 + 8 + 8 + 1 + 1 + 1 + 1 + 2 * 12 + 2 * 8 };
    struct world *w = *state;

    sample(w);
    w->record.count = 1;
    memset(&w->record.items[1], 0, 2 * sizeof(w->record.items[0]));
    for (uint8_t format = 2; format <= 3; format++) {
        (void)encoded(w);
        w->bytes.data[0] = format;
        take_out(w, HEAD, 32);
        take_out(w, HEAD + GROUP + (format == 2 ? 0 : 17), format == 2 ? 17 + 16 : 16);
        assert_int_equal(groups_record_decode(buf_slice(&w->bytes), &w->back), 0);
        assert_memory_equal(&w->record, &w->back, sizeof(w->record));
    }
}

static void what_is_no_table_is_refused(void **state)
{
    struct world *w = *state;

    sample(w);
    w->record.version = 0;
    refuse(w);
    w->record.version = 4; /* A group came in a later one. */
    refuse(w);
    w->record.wanted = 1 << 1;
    refuse(w);
    w->record.items[1].number = 1; /* Twice. */
    refuse(w);
    w->record.items[0].number = 0;
    refuse(w);
    w->record.items[2].number = PLACING_GROUPS_MAX;
    refuse(w);
    w->record.items[2].now.servers[2] = 3; /* Twice. */
    refuse(w);
    w->record.items[0].now.since[1] = 0; /* Since never. */
    refuse(w);
    w->record.items[0].now.count = 1;
    refuse(w);
    w->record.items[0].copies = 3; /* More than places. */
    refuse(w);
    w->record.items[0].version = 0;
    refuse(w);
    assert_int_equal(groups_record_decode(encoded(w), &w->back), 0);
}

static void refuse_changed(struct world *w)
{
    refuse(w);
    sample_changed(w);
}

static void what_is_no_change_is_refused(void **state)
{
    struct world *w = *state;
    struct group_made *g = &w->record.items[1];

    sample_changed(w);
    g->restored[2] = 5; /* Nobody is there. */
    refuse_changed(w);
    g->forced = 13; /* It is not changed since. */
    refuse_changed(w);
    g->forced_place = 3;
    refuse_changed(w);
    g->forced = 0; /* Nobody was named, at some time. */
    refuse_changed(w);
    g->now.servers[0] = g->now.servers[1] = 0; /* Nobody is left. */
    g->restored[0] = 0;
    g->now.leaving = 0;
    refuse_changed(w);
    g->now.since[1] = 2; /* Before the group. */
    refuse_changed(w);
    g->now.since[1] = 13;
    refuse_changed(w);
    g->changed = 10; /* Before a place was given away. */
    refuse_changed(w);
    g->changed = 13;
    refuse_changed(w);
    g->restored[0] = 13;
    refuse_changed(w);
    g->now.leaving = 4; /* Nobody is there. */
    refuse_changed(w);
    g->now.servers[0] = 5; /* Former, and there again. */
    refuse_changed(w);
    g->formers[0].place = 2;
    refuse_changed(w);
    g->formers[1].place = 2; /* Nobody was there. */
    refuse_changed(w);
    g->formers[1] = g->formers[0];
    refuse_changed(w);
    g->moves_from = 3; /* It has nothing of it. */
    refuse_changed(w);
    g->moves_to = 5; /* To itself. */
    refuse_changed(w);
    w->record.items[0].moves_from = 0; /* From nobody. */
    refuse_changed(w);
    w->record.rebalance.given_up = 5; /* More than there were. */
    refuse_changed(w);
    w->record.leavers[0].to = 1;
    refuse_changed(w);
    w->record.leavers[1].server = 1;
    refuse_changed(w);
    assert_int_equal(groups_record_decode(encoded(w), &w->back), 0);
}

/* Each cut, and each bit changed: refused, or another sound table. */
static void damage_is_refused(void **state)
{
    struct world *w = *state;
    struct slice whole;

    sample_changed(w);
    whole = encoded(w);
    for (size_t cut = 0; cut < whole.count; cut++) {
        assert_int_equal(groups_record_decode((struct slice){ whole.data, cut }, &w->back),
                         MORSEL_CORRUPT);
    }
    for (size_t at = 1; at < whole.count; at++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            sample_changed(w);
            (void)encoded(w);
            w->bytes.data[at] ^= (uint8_t)(1 << bit);
            if (groups_record_decode(buf_slice(&w->bytes), &w->back) == 0) {
                w->record = w->back;
                assert_int_equal(groups_record_decode(encoded(w), &w->third), 0);
                assert_memory_equal(&w->back, &w->third, sizeof(w->back));
            }
        }
    }
    sample(w);
    (void)encoded(w);
    w->bytes.data[0] = GROUPS_RECORD_VERSION + 1;
    assert_int_equal(groups_record_decode(buf_slice(&w->bytes), &w->back), MORSEL_VERSION);
    w->bytes.data[0] = GROUPS_RECORD_VERSION;
    buf_put_u8(&w->bytes, 0);
    assert_int_equal(groups_record_decode(buf_slice(&w->bytes), &w->back), MORSEL_CORRUPT);
}

/* ---- In the store ---- */

static int keep(struct world *w)
{
    struct meta_op op = { .kind = OP_GROUPS };

    op.groups.record = encoded(w);
    return ns_fixture_run(&w->f, &op);
}

static void the_store_keeps_the_newest(void **state)
{
    struct world *w = *state;

    sample(w);
    assert_int_equal(ns_groups(w->f.ns)->version, 0);
    assert_int_equal(keep(w), 0);
    assert_memory_equal(ns_groups(w->f.ns), &w->record, sizeof(w->record));
    w->record.items[2].told = true;
    assert_int_equal(keep(w), 0); /* A version of its own is for what servers are told. */
    w->record.version = 4;
    w->record.count = 2;
    assert_int_equal(keep(w), MORSEL_INVAL); /* Back it does not go. */
    assert_int_equal(ns_fixture_reopen(&w->f), 0);
    sample(w);
    w->record.items[2].told = true;
    assert_memory_equal(ns_groups(w->f.ns), &w->record, sizeof(w->record));
}

/* And is not kept waiting for room. */
static void it_counts_when_it_is_committed(void **state)
{
    struct kv_wanted wanted = { .room = false };
    struct world *w = *state;

    sample(w);
    assert_int_equal(keep(w), 0);
    w->record.version++;
    kv_forgetful_full(w->f.kv, 1);
    w->f.kv->wanted = &wanted;
    assert_int_equal(keep(w), 0);
    assert_false(wanted.room);
    w->f.kv->wanted = NULL;
    kv_forgetful_full(w->f.kv, 0);
    w->record.version++;
    kv_forgetful_fail(w->f.kv, MORSEL_IO);
    assert_int_equal(keep(w), MORSEL_IO);
    assert_int_equal(ns_groups(w->f.ns)->version, 6);
    kv_forgetful_fail(w->f.kv, 0);
    assert_int_equal(ns_fixture_reopen(&w->f), 0);
    assert_int_equal(ns_groups(w->f.ns)->version, 6);
}

/* An older program would take groups for servers. */
static void a_database_with_groups_is_a_newer_one(void **state)
{
    struct world *w = *state;

    assert_int_equal(ns_super(w->f.ns)->store_version, STORE_VERSION_FIRST);
    sample(w);
    assert_int_equal(keep(w), 0);
    assert_int_equal(ns_super(w->f.ns)->store_version, STORE_VERSION_GROUPS);
    assert_int_equal(ns_fixture_reopen(&w->f), 0);
    assert_int_equal(ns_super(w->f.ns)->store_version, STORE_VERSION_GROUPS);
}

static void put_raw(struct world *w, const void *bytes, size_t count)
{
    struct record_key key = key_groups();
    struct kv_batch batch;

    kv_batch_init(&batch);
    kv_batch_put(&batch, record_key_slice(&key), (struct slice){ bytes, count });
    assert_int_equal(w->f.kv->commit(w->f.kv, &batch, false, &w->f.err), 0);
    kv_batch_free(&batch);
}

static void assert_not_opened(struct world *w, int status, const char *words)
{
    struct ns_hooks hooks = { .data = NULL };
    struct ns *ns = NULL;

    assert_int_equal(ns_open(w->f.kv, &hooks, &ns, &w->f.err), status);
    assert_null(ns);
    assert_non_null(strstr(w->f.err.text, words));
}

static void damage_in_the_store_is_said(void **state)
{
    struct world *w = *state;

    put_raw(w, "\1nonsense", 9);
    assert_not_opened(w, MORSEL_CORRUPT, "record of the groups is damaged");
    put_raw(w, (const uint8_t[]){ GROUPS_RECORD_VERSION + 1 }, 1);
    assert_not_opened(w, MORSEL_VERSION, "newer version");
}

/* ---- Files ---- */

/* Two columns, on groups 4 and 9. */
static struct meta_op op_make_on_groups(const char *name)
{
    struct meta_op op = op_make(INODE_ROOT, name, 0100644);

    op.make.layout.replicas = 2;
    op.make.layout.groups[0] = 4;
    op.make.layout.groups[1] = 9;
    return op;
}

static bool is_garbage(struct world *w, server_id server, inode_id inode, uint32_t column)
{
    bool garbage;

    assert_int_equal(
        ns_is_garbage(w->f.ns, server, (struct object_id){ inode, column }, &garbage, &w->f.err),
        0);
    return garbage;
}

static void a_file_keeps_its_groups(void **state)
{
    struct world *w = *state;
    struct meta_op op = op_make_on_groups("f"), move = { .kind = OP_SET_LAYOUT };
    struct inode inode;

    sample(w);
    assert_int_equal(keep(w), 0);
    ns_must(&w->f, op);
    assert_int_equal(ns_fixture_reopen(&w->f), 0);
    inode = ns_must_inode(&w->f, 2);
    assert_int_equal(inode.layout.replicas, 2);
    assert_int_equal(inode.layout.groups[0], 4);
    assert_int_equal(inode.layout.groups[1], 9);
    move.set_layout.inode = 2;
    move.set_layout.layout = inode.layout;
    move.set_layout.layout.replicas = 1;
    assert_int_equal(ns_fixture_run(&w->f, &move), MORSEL_INVAL);
    move.set_layout.layout.replicas = 2;
    move.set_layout.layout.groups[1] = 1;
    ns_must(&w->f, move);
    assert_int_equal(ns_fixture_reopen(&w->f), 0);
    inode = ns_must_inode(&w->f, 2);
    assert_int_equal(inode.layout.groups[1], 1);
}

/* A group number in a layout that cannot be is no file. */
static void a_layout_without_its_groups_is_damaged(void **state)
{
    struct world *w = *state;
    struct inode inode = { .id = 2, .mode = 0100644, .nlink = 1 }, back;

    inode.layout = op_make_on_groups("f").make.layout;
    inode_encode(&inode, &w->bytes);
    assert_int_equal(inode_decode(2, buf_slice(&w->bytes), &back), 0);
    assert_int_equal(back.layout.groups[1], 9);
    assert_int_equal(back.layout.servers[1], 0);
    for (int i = 0; i < 2; i++) {
        inode.layout.groups[1] = i == 0 ? 0 : PLACING_GROUPS_MAX;
        buf_clear(&w->bytes);
        inode_encode(&inode, &w->bytes);
        assert_int_equal(inode_decode(2, buf_slice(&w->bytes), &back), MORSEL_CORRUPT);
    }
}

static void what_is_removed_is_queued_for_each_member(void **state)
{
    struct meta_op wrote = { .kind = OP_SIZE_REPORT };
    struct world *w = *state;
    uint64_t before;

    sample(w);
    assert_int_equal(keep(w), 0);
    ns_must(&w->f, op_make_on_groups("f"));
    wrote.size_report.inode = 2;
    wrote.size_report.size = MORSEL_BYTES_DEFAULT + 1;
    ns_must(&w->f, wrote);
    before = ns_counters(w->f.ns)->garbage;
    ns_must(&w->f, op_unlink(INODE_ROOT, "f", false));
    assert_int_equal(ns_counters(w->f.ns)->garbage - before, 2 + 3);
    for (server_id server = 1; server <= 3; server++) {
        assert_int_equal(is_garbage(w, server, 2, placing_object(4, 0)), server <= 2);
        assert_true(is_garbage(w, server, 2, placing_object(9, 1)));
        assert_false(is_garbage(w, server, 2, placing_object(9, 0)));
        assert_false(is_garbage(w, server, 2, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back, setup, teardown),
        cmocka_unit_test_setup_teardown(a_table_without_changes_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_table_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_table_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_change_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(the_store_keeps_the_newest, setup, teardown),
        cmocka_unit_test_setup_teardown(it_counts_when_it_is_committed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_database_with_groups_is_a_newer_one, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_in_the_store_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_keeps_its_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(a_layout_without_its_groups_is_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_removed_is_queued_for_each_member, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
