/* What changed while a member was outside reaches it, whatever breaks off meanwhile; and what is in
 * doubt stays so until all have it on their disks. */
#include "common/base/prng.h"
#include "iod/replica/intent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GRAIN = BLOCK_BYTES, OBJECTS = 4 };

static struct change stretch(inode_id inode, uint64_t generation, uint64_t start, uint64_t end)
{
    return (struct change){ .object = { inode, 0 },
                            .generation = generation,
                            .span = { start * GRAIN, end * GRAIN } };
}

static void open_log(struct dirty_log *l)
{
    assert_true(dirty_log_init(l, 16, 64));
}

static void add(struct dirty_log *l, inode_id inode, uint64_t start, uint64_t end)
{
    struct change change = stretch(inode, 1, start, end);

    dirty_log_add(l, &change);
    dirty_log_check(l);
}

static void a_piece_is_given_when_it_is_answered(void **state)
{
    struct dirty_log l;
    struct change piece;

    (void)state;
    open_log(&l);
    add(&l, 1, 0, 2);
    add(&l, 2, 5, 5);
    assert_false(dirty_log_take(&l, &piece)); /* Nobody recovers. */
    dirty_log_begin(&l, 70);
    assert_true(dirty_log_take(&l, &piece));
    assert_int_equal(l.number, 1);
    assert_int_equal(piece.object.inode, 1);
    dirty_log_answered(&l, 69, 1);
    dirty_log_answered(&l, 70, 2);
    assert_int_equal(l.under_way, 1);
    dirty_log_answered(&l, 70, 1);
    dirty_log_check(&l);
    assert_int_equal(l.under_way, 0);
    assert_true(dirty_log_take(&l, &piece));
    assert_int_equal(piece.object.inode, 2);
    assert_false(dirty_log_all_given(&l, 70));
    dirty_log_answered(&l, 70, 2);
    assert_true(dirty_log_all_given(&l, 70));
    assert_false(dirty_log_all_given(&l, 69));
    dirty_log_settle(&l);
    dirty_log_check(&l);
    dirty_log_begin(&l, 71);
    assert_false(dirty_log_take(&l, &piece));
    assert_true(dirty_log_all_given(&l, 71));
    dirty_log_free(&l);
}

/* Rule `answered`: who loses what it was given, before it is in the set, is given it again. */
static void another_session_begins_over(void **state)
{
    struct dirty_log l;
    struct change piece;

    (void)state;
    open_log(&l);
    add(&l, 1, 0, 1);
    add(&l, 2, 0, 1);
    dirty_log_begin(&l, 5);
    assert_true(dirty_log_take(&l, &piece));
    dirty_log_answered(&l, 5, 1);
    assert_true(dirty_log_take(&l, &piece));
    dirty_log_begin(&l, 5); /* The same again: nothing changes. */
    dirty_log_answered(&l, 5, 2);
    assert_true(dirty_log_all_given(&l, 5));
    dirty_log_begin(&l, 6);
    dirty_log_check(&l);
    assert_false(dirty_log_all_given(&l, 6));
    assert_true(dirty_log_take(&l, &piece));
    dirty_log_answered(&l, 6, 1);
    assert_true(dirty_log_take(&l, &piece));
    dirty_log_answered(&l, 5, 2); /* Late. */
    assert_false(dirty_log_all_given(&l, 6));
    dirty_log_stop(&l);
    dirty_log_check(&l);
    dirty_log_begin(&l, 7);
    assert_false(dirty_log_all_given(&l, 7));
    dirty_log_free(&l);
}

/* Rule `lock`, in our way. */
static void what_changes_while_it_is_sent_is_sent_again(void **state)
{
    struct dirty_log l;
    struct change piece;

    (void)state;
    open_log(&l);
    add(&l, 1, 0, 4);
    dirty_log_begin(&l, 5);
    assert_true(dirty_log_take(&l, &piece));
    add(&l, 1, 2, 3);
    dirty_log_answered(&l, 5, 1);
    assert_false(dirty_log_all_given(&l, 5));
    assert_true(dirty_log_take(&l, &piece));
    assert_int_equal(piece.span.start, 2 * GRAIN);
    assert_int_equal(piece.span.end, 3 * GRAIN);
    dirty_log_free(&l);
}

static void everything_is_one_piece(void **state)
{
    struct dirty_log l;
    struct change piece, everything = { .everything = true };

    (void)state;
    open_log(&l);
    dirty_log_add(&l, &everything);
    add(&l, 1, 0, 1);
    dirty_log_begin(&l, 5);
    assert_true(dirty_log_take(&l, &piece));
    assert_true(piece.everything);
    add(&l, 2, 0, 1); /* Behind it. */
    dirty_log_answered(&l, 5, 1);
    assert_true(dirty_log_take(&l, &piece));
    assert_false(piece.everything);
    dirty_log_begin(&l, 6);
    assert_true(dirty_log_take(&l, &piece));
    assert_true(piece.everything);
    dirty_log_free(&l);
}

/* What is on its way to the member, or was. */
struct sent
{
    uint64_t session, number, object, value;
};

enum { SENT_MAX = 2 * RECOVERY_PIECES_MAX };

/* Objects that sessions break off and changes meet: in the end the member has what is here. */
static void run_history(struct prng *prng)
{
    uint64_t here[OBJECTS] = { 0 }, there[OBJECTS] = { 0 }, change_number = 0, session = 1;
    struct sent sent[SENT_MAX] = { { 0 } };
    uint64_t count = 0;
    struct dirty_intake in = { .session = 1 };
    struct dirty_log l;
    struct change piece = { .whole = false };

    open_log(&l);
    dirty_log_begin(&l, session);
    for (int step = 0; step < 800; step++) {
        uint64_t drawn = prng_below(prng, 20), object = prng_below(prng, OBJECTS);

        dirty_log_check(&l);
        if (drawn < 4 && step < 400) {
            here[object] = ++change_number;
            add(&l, object + 1, 0, 1 + prng_below(prng, 3));
        } else if (drawn == 4 && step < 400) { /* It loses what is not settled, and begins again. */
            memset(there, 0, sizeof(there));
            in = (struct dirty_intake){ .session = ++session };
            dirty_log_begin(&l, session);
        } else if (drawn < 12 && dirty_log_take(&l, &piece)) {
            object = piece.object.inode - 1;
            sent[count++ % SENT_MAX] = (struct sent){ session, l.number, object, here[object] };
        } else if (count > 0) { /* Any of them: perhaps twice, perhaps late. */
            const struct sent *s = &sent[prng_below(prng, count < SENT_MAX ? count : SENT_MAX)];
            enum dirty_verdict verdict = dirty_intake_judge(&in, s->session, s->number);

            if (verdict == DIRTY_TAKE) {
                there[s->object] = s->value;
            }
            if (verdict != DIRTY_STALE) {
                dirty_log_answered(&l, s->session, s->number);
            }
        }
    }
    assert_true(dirty_log_all_given(&l, session));
    assert_memory_equal(here, there, sizeof(here));
    dirty_log_free(&l);
}

static void the_member_has_what_is_here(void **state)
{
    struct prng prng;

    (void)state;
    prng_seed(&prng, 8);
    for (int i = 0; i < 500; i++) {
        run_history(&prng);
    }
}

static void sessions_are_told_apart(void **state)
{
    struct dirty_intake in = { .session = 4 };

    (void)state;
    assert_int_equal(dirty_intake_judge(&in, 3, 1), DIRTY_STALE);
    assert_int_equal(dirty_intake_judge(&in, 4, 0), DIRTY_STALE);
    assert_int_equal(dirty_intake_judge(&in, 4, 2), DIRTY_STALE);
    assert_int_equal(dirty_intake_judge(&in, 4, 1), DIRTY_TAKE);
    assert_int_equal(dirty_intake_judge(&in, 4, 1), DIRTY_AGAIN);
    assert_int_equal(dirty_intake_judge(&in, 4, 2), DIRTY_TAKE);
    assert_int_equal(dirty_intake_judge(&in, 4, 1), DIRTY_STALE);
    in = (struct dirty_intake){ .session = 0 };
    assert_int_equal(dirty_intake_judge(&in, 0, 1), DIRTY_STALE);
}

/* Rules `generation` and `older`. */
static void generations_are_judged(void **state)
{
    (void)state;
    assert_int_equal(generation_judge(0, 1, false), GENERATION_DO);
    assert_int_equal(generation_judge(1, 1, false), GENERATION_DO);
    assert_int_equal(generation_judge(1, 2, false), GENERATION_RENEW);
    assert_int_equal(generation_judge(2, 1, false), GENERATION_REFUSE);
    assert_int_equal(generation_judge(0, 1, true), GENERATION_NOTHING);
    assert_int_equal(generation_judge(1, 1, true), GENERATION_DELETE);
    assert_int_equal(generation_judge(1, 2, true), GENERATION_DELETE);
    assert_int_equal(generation_judge(2, 1, true), GENERATION_NOTHING);
}

/* ---- Write intent ---- */

static void intend(struct intent *n, inode_id inode, uint64_t start, bool known)
{
    struct change change = stretch(inode, 1, start, start + 1);

    assert_int_equal(intent_add(n, &change), known);
    if (!known) {
        intent_written(n, &change);
        assert_true(intent_add(n, &change));
    }
    intent_check(n);
}

static bool in_doubt(const struct intent *n, inode_id inode)
{
    struct change change = stretch(inode, 1, 0, 1);

    return changed_covers(n->open, &change) || changed_covers(n->syncing, &change);
}

static void doubt_ends_with_a_sync_of_all(void **state)
{
    struct dirty_log log, *outside = &log;
    struct changed *copy = changed_new(4, 4, GRAIN);
    struct intent n;

    (void)state;
    open_log(&log);
    assert_true(intent_init(&n, 16, 16));
    assert_true(intent_empty(&n));
    intend(&n, 1, 0, false);
    intend(&n, 1, 7, true); /* Of the same region. */
    intent_begin_sync(&n);
    intend(&n, 2, 0, false);
    intent_end_sync(&n, false, &outside, 1); /* Somebody is not vouched for. */
    intent_check(&n);
    dirty_log_copy(&log, copy);
    assert_true(changed_empty(copy));
    assert_true(in_doubt(&n, 1) && in_doubt(&n, 2));
    intent_begin_sync(&n);
    intend(&n, 2, 0, true);
    assert_true(in_doubt(&n, 1));
    intent_end_sync(&n, true, &outside, 1);
    assert_false(in_doubt(&n, 1));
    assert_true(in_doubt(&n, 2)); /* It was changed behind the beginning. */
    dirty_log_copy(&log, copy);
    assert_false(changed_empty(copy));
    assert_false(intent_empty(&n));
    changed_free(copy);
    intent_free(&n);
    dirty_log_free(&log);
}

/* What does not fit into a message stays open, and is given later. */
static void a_piece_that_is_cut_leaves_the_rest_open(void **state)
{
    struct change whole = { .object = { 7, 0 }, .generation = 1, .whole = true };
    struct dirty_log l;
    struct change piece;

    (void)state;
    open_log(&l);
    add(&l, 1, 2, 10);
    dirty_log_begin(&l, 5);
    assert_true(dirty_log_take(&l, &piece));
    dirty_log_cut(&l, 1, 6 * GRAIN);
    dirty_log_check(&l);
    assert_int_equal(dirty_log_piece(&l, 1)->span.start, 2 * GRAIN);
    assert_int_equal(dirty_log_piece(&l, 1)->span.end, 6 * GRAIN);
    assert_false(dirty_log_all_given(&l, 5));
    add(&l, 9, 0, 1); /* Later: the rest comes before it. */
    dirty_log_answered(&l, 5, 1);
    assert_true(dirty_log_take(&l, &piece));
    assert_int_equal(piece.object.inode, 1);
    assert_int_equal(piece.span.start, 6 * GRAIN);
    assert_int_equal(piece.span.end, 10 * GRAIN);
    dirty_log_answered(&l, 5, 2);
    assert_true(dirty_log_take(&l, &piece));
    assert_int_equal(piece.object.inode, 9);
    dirty_log_answered(&l, 5, 3);
    assert_true(dirty_log_all_given(&l, 5));
    dirty_log_add(&l, &whole);
    assert_true(dirty_log_take(&l, &piece));
    assert_true(piece.whole);
    dirty_log_cut(&l, 4, 4 * GRAIN);
    dirty_log_check(&l);
    assert_false(dirty_log_piece(&l, 4)->whole);
    assert_int_equal(dirty_log_piece(&l, 4)->span.start, 0);
    assert_int_equal(dirty_log_piece(&l, 4)->span.end, 4 * GRAIN);
    dirty_log_answered(&l, 5, 4);
    assert_true(dirty_log_take(&l, &piece)); /* As one, however long. */
    assert_int_equal(piece.object.inode, 7);
    assert_int_equal(piece.span.start, 4 * GRAIN);
    assert_int_equal(piece.span.end, OBJECT_BYTES_MAX);
    dirty_log_answered(&l, 5, 5);
    assert_true(dirty_log_all_given(&l, 5));
    dirty_log_free(&l);
}

/* A few, answered in order; what is not answered is open again. */
static void several_are_under_way(void **state)
{
    struct dirty_log l;
    struct change piece, everything = { .everything = true };
    struct changed *all = changed_new(16, 64, GRAIN);

    (void)state;
    assert_non_null(all);
    open_log(&l);
    for (uint64_t inode = 1; inode <= RECOVERY_PIECES_MAX + 2; inode++) {
        add(&l, inode, 0, 4);
    }
    dirty_log_begin(&l, 5);
    for (uint64_t n = 1; n <= RECOVERY_PIECES_MAX; n++) {
        assert_true(dirty_log_take(&l, &piece));
        assert_int_equal(piece.object.inode, n);
        assert_int_equal(l.number, n);
        dirty_log_check(&l);
    }
    assert_false(dirty_log_take(&l, &piece)); /* No more at a time. */
    assert_null(dirty_log_piece(&l, 0));
    assert_null(dirty_log_piece(&l, RECOVERY_PIECES_MAX + 1));
    dirty_log_answered(&l, 5, 3);
    assert_int_equal(l.under_way, RECOVERY_PIECES_MAX - 3);
    assert_null(dirty_log_piece(&l, 3));
    assert_int_equal(dirty_log_piece(&l, 4)->object.inode, 4);
    dirty_log_cut(&l, 4, GRAIN);
    dirty_log_cut(&l, 5, GRAIN); /* A second rest is open, in its turn. */
    dirty_log_copy(&l, all);
    for (uint64_t inode = 1; inode <= RECOVERY_PIECES_MAX + 2; inode++) {
        struct change each = stretch(inode, 1, 0, 4);

        assert_true(changed_covers(all, &each));
    }
    dirty_log_drop(&l);
    dirty_log_check(&l);
    assert_int_equal(l.under_way, 0);
    for (uint64_t inode = 4; inode <= RECOVERY_PIECES_MAX + 2; inode++) {
        struct change each = stretch(inode, 1, 0, 4);

        assert_true(changed_covers(l.open, &each));
    }
    assert_true(dirty_log_take(&l, &piece));
    dirty_log_add(&l, &everything);
    assert_false(dirty_log_take(&l, &piece)); /* It is not answered with what came before it. */
    dirty_log_answered(&l, 5, l.number);
    assert_true(dirty_log_take(&l, &piece));
    assert_true(piece.everything);
    dirty_log_free(&l);
    changed_free(all);
}

static void what_the_disk_says_follows(void **state)
{
    struct changed *disk = changed_new(16, 16, INTENT_REGION_BYTES);
    struct intent n;

    (void)state;
    assert_true(intent_init(&n, 16, 16));
    intend(&n, 1, 0, false);
    intent_begin_sync(&n);
    intent_end_sync(&n, true, NULL, 0);
    intent_begin_rewrite(&n);
    changed_add_all(disk, intent_next(&n));
    assert_true(changed_empty(disk));
    intend(&n, 1, 0, false); /* The disk has it still, and is about to have it no more. */
    intent_end_rewrite(&n, true);
    intend(&n, 1, 0, true);
    intent_begin_sync(&n);
    intent_end_sync(&n, true, NULL, 0);
    intent_begin_rewrite(&n);
    intent_end_rewrite(&n, false);
    assert_false(intent_empty(&n));
    intent_begin_rewrite(&n);
    intent_end_rewrite(&n, true);
    intent_check(&n);
    assert_true(intent_empty(&n));
    intend(&n, 3, 0, false);
    changed_add_all(disk, n.disk);
    intent_free(&n);
    assert_true(intent_init(&n, 16, 16)); /* A start: all of it is in doubt. */
    intent_load(&n, disk);
    assert_true(in_doubt(&n, 3));
    intend(&n, 3, 0, false); /* Is it on the disk? It was read, and may not have been synced. */
    changed_free(disk);
    intent_free(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_is_given_when_it_is_answered),
        cmocka_unit_test(another_session_begins_over),
        cmocka_unit_test(what_changes_while_it_is_sent_is_sent_again),
        cmocka_unit_test(everything_is_one_piece),
        cmocka_unit_test(the_member_has_what_is_here),
        cmocka_unit_test(a_piece_that_is_cut_leaves_the_rest_open),
        cmocka_unit_test(several_are_under_way),
        cmocka_unit_test(sessions_are_told_apart),
        cmocka_unit_test(generations_are_judged),
        cmocka_unit_test(doubt_ends_with_a_sync_of_all),
        cmocka_unit_test(what_the_disk_says_follows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
