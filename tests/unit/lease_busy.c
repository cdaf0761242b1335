/* Leases: holders that say that they are writing back, deadlines, and what cannot be told for want
 * of memory. */
#include "meta/coherence/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { A = 101, B = 102, C = 103, FILE_1 = 11 };

/* ---- Memory that is not there ---- */

static bool no_memory;

void *__real_realloc(void *pointer, size_t size);
void *__wrap_realloc(void *pointer, size_t size);

void *__wrap_realloc(void *pointer, size_t size)
{
    return no_memory ? NULL : __real_realloc(pointer, size);
}

/* ---- A manager ---- */

struct world
{
    struct lease_table *t;
    struct lease_actions out;
    uint64_t now_ms;
};

static void feed(struct world *w, struct lease_event event)
{
    event.now_ms = w->now_ms;
    lease_actions_free(&w->out);
    lease_step(w->t, &event, &w->out);
    lease_check(w->t);
}

static void tick_at(struct world *w, uint64_t now_ms)
{
    w->now_ms = now_ms;
    feed(w, (struct lease_event){ .type = LEASE_TICK });
}

static void join(struct world *w, client_id client)
{
    feed(w, (struct lease_event){ .type = LEASE_JOIN, .client = client, .caches = true });
    feed(w, (struct lease_event){ .type = LEASE_PERSISTED,
                                  .client = client,
                                  .lease_epoch = lease_epoch_of(w->t, client) });
}

static struct world *world_born(uint64_t last_lease_epoch)
{
    struct world *w = calloc(1, sizeof(*w));
    struct lease_options options = { .now_ms = 1000, .last_lease_epoch = last_lease_epoch };

    assert_non_null(w);
    w->now_ms = 1000;
    w->t = lease_table_new(&options);
    assert_non_null(w->t);
    join(w, A);
    join(w, B);
    join(w, C);
    return w;
}

static struct world *world_new(void)
{
    return world_born(5000);
}

static void world_free(struct world *w)
{
    lease_actions_free(&w->out);
    lease_table_free(w->t);
    free(w);
}

static unsigned count_of(const struct world *w, int type, client_id client)
{
    unsigned count = 0;

    for (size_t i = 0; i < w->out.count; i++) {
        count += (int)w->out.items[i].type == type && w->out.items[i].client == client;
    }
    return count;
}

/* A holds W, and `client` wants to read. The number of the recall. */
static uint64_t wait_for(struct world *w, client_id client)
{
    struct lease_touch touched = { FILE_1, ACCESS_READ };
    uint64_t ticket;

    lease_actions_free(&w->out);
    assert_int_equal(lease_acquire(w->t, w->now_ms, client, &touched, 1, &ticket, &w->out),
                     LEASE_WAIT);
    return w->out.count > 0 ? w->out.items[0].recall : 0;
}

static uint64_t recall(struct world *w)
{
    assert_int_equal(lease_grant(w->t, w->now_ms, A, FILE_1, LEASE_W, true, false, false), LEASE_W);
    return wait_for(w, B);
}

static void say_busy(struct world *w, uint64_t number, uint64_t landed)
{
    (void)lease_heard(w->t, A, w->now_ms);
    feed(
        w,
        (struct lease_event){
            .type = LEASE_BUSY, .client = A, .recall = number, .inode = FILE_1, .landed = landed });
}

static bool is_fenced_at(struct world *w, uint64_t now_ms)
{
    (void)lease_heard(w->t, A, now_ms);
    tick_at(w, now_ms);
    return lease_is_fenced(w->t, A);
}

/* ---- Tests ---- */

/* The manager restarts, and what A gives back for the one before comes to the one behind it, which has granted A the
 * same and recalls it: A holds that by an answer, and believes it. */
static void a_return_for_the_manager_before_takes_nothing(void **state)
{
    struct world *before = world_new(), *behind = world_born(9000);
    uint64_t number = recall(before);

    (void)state;
    assert_int_not_equal(recall(behind), 0);
    feed(behind, (struct lease_event){
                     .type = LEASE_RETURN, .client = A, .recall = number, .inode = FILE_1 });
    assert_int_equal(lease_held_by(behind->t, A, FILE_1), LEASE_W);
    say_busy(behind, number, 1);
    assert_true(is_fenced_at(behind, 1000 + LEASE_MS)); /* Nor was it said for this recall. */
    world_free(before);
    world_free(behind);
}

static void a_holder_that_says_nothing_is_fenced(void **state)
{
    struct world *w = world_new();

    (void)state;
    (void)recall(w);
    assert_false(is_fenced_at(w, 1000 + LEASE_MS - 1));
    assert_true(is_fenced_at(w, 1000 + LEASE_MS));
    world_free(w);
}

static void a_holder_that_is_busy_has_time_while_bytes_land(void **state)
{
    struct world *w = world_new();
    uint64_t number = recall(w), landed = 0;

    (void)state;
    for (w->now_ms = 2000; w->now_ms < 10U * LEASE_FLUSH_MS; w->now_ms += LEASE_RENEW_MS) {
        say_busy(w, number, ++landed);
        assert_false(is_fenced_at(w, w->now_ms));
    }
    assert_false(is_fenced_at(w, w->now_ms + LEASE_MS - LEASE_RENEW_MS - 1));
    assert_true(is_fenced_at(w, w->now_ms + LEASE_MS)); /* It has gone silent about it. */
    world_free(w);
}

static void words_without_bytes_are_not_believed_for_ever(void **state)
{
    struct world *w = world_new();
    uint64_t number = recall(w);

    (void)state;
    for (w->now_ms = 2000; w->now_ms < 1000 + LEASE_FLUSH_MS; w->now_ms += LEASE_RENEW_MS) {
        say_busy(w, number, 0);
        assert_false(is_fenced_at(w, w->now_ms));
    }
    assert_true(is_fenced_at(w, 1000 + LEASE_FLUSH_MS));
    say_busy(w, number, 1); /* Too late. */
    assert_true(lease_is_fenced(w->t, A));
    world_free(w);
}

static void busy_about_another_recall_counts_for_nothing(void **state)
{
    struct world *w = world_new();
    uint64_t number = recall(w);

    (void)state;
    w->now_ms = 4000;
    say_busy(w, number + 1, 1);
    say_busy(w, 0, 1);
    assert_int_equal(w->out.count, 0);
    assert_true(is_fenced_at(w, 1000 + LEASE_MS));
    world_free(w);
}

static void who_waits_is_told_for_whom_once(void **state)
{
    struct world *w = world_new();
    uint64_t number = recall(w);

    (void)state;
    assert_int_equal(wait_for(w, B), 0); /* Asked for already. */
    say_busy(w, number, 7);
    assert_int_equal(count_of(w, LEASE_HELD_UP, 0), 1); /* For the log. */
    assert_int_equal(count_of(w, LEASE_HELD_UP, B), 1);
    assert_int_equal(w->out.items[0].holder, A);
    assert_int_equal(w->out.items[0].count, 7);
    say_busy(w, number, 8);
    assert_int_equal(w->out.count, 0);
    assert_int_equal(wait_for(w, C), 0);
    say_busy(w, number, 9);
    assert_int_equal(count_of(w, LEASE_HELD_UP, C), 1);
    assert_int_equal(w->out.count, 1);
    feed(w, (struct lease_event){
                .type = LEASE_RETURN, .client = A, .recall = number, .inode = FILE_1 });
    assert_int_equal(count_of(w, LEASE_READY, 0), 3);
    say_busy(w, number, 10); /* Came late. */
    assert_int_equal(w->out.count, 0);
    world_free(w);
}

/* A word costs nothing but its note; the deadline is put right when it comes up. */
static void deadlines_are_looked_at_when_they_come_up(void **state)
{
    struct world *w = world_new();

    (void)state;
    assert_int_equal(lease_deadline_ms(w->t), 1000 + LEASE_MS);
    assert_true(lease_heard(w->t, A, 4000));
    assert_true(lease_heard(w->t, B, 4500));
    assert_int_equal(lease_deadline_ms(w->t), 1000 + LEASE_MS);
    tick_at(w, 1000 + LEASE_MS);
    assert_int_equal(count_of(w, LEASE_FORGET, C), 1);
    assert_int_equal(lease_deadline_ms(w->t), 4000 + LEASE_MS);
    tick_at(w, 4000 + LEASE_MS);
    assert_int_equal(count_of(w, LEASE_FORGET, A), 1);
    assert_int_equal(lease_deadline_ms(w->t), 4500 + LEASE_MS);
    world_free(w);
}

static void the_end_of_locks_is_told_when_there_is_memory(void **state)
{
    struct world *w = world_new();

    (void)state;
    assert_int_equal(lease_grant(w->t, w->now_ms, A, INODE_LOCKS, LEASE_R, true, false, false),
                     LEASE_R);
    no_memory = true;
    feed(w, (struct lease_event){ .type = LEASE_LEAVE, .client = A });
    assert_true(w->out.failed);
    assert_int_equal(w->out.count, 0);
    no_memory = false;
    join(w, A); /* Not before its old locks are over. */
    assert_int_equal(lease_grant(w->t, w->now_ms, A, INODE_LOCKS, LEASE_R, true, false, false),
                     LEASE_NONE);
    assert_true(lease_deadline_ms(w->t) < 2000);
    tick_at(w, lease_deadline_ms(w->t));
    assert_int_equal(count_of(w, LEASE_LOCKS_OVER, A), 1);
    join(w, A);
    assert_int_equal(lease_grant(w->t, w->now_ms, A, INODE_LOCKS, LEASE_R, true, false, false),
                     LEASE_R);
    tick_at(w, w->now_ms + 1000);
    assert_int_equal(count_of(w, LEASE_LOCKS_OVER, A), 0);
    world_free(w);
}

/* The host answers such a JOIN with a failure, and the client says again what it holds. */
static void a_loss_that_cannot_be_told_is_told_at_the_next_join(void **state)
{
    struct lease_held held = { FILE_1, LEASE_R };
    struct lease_event again = { .type = LEASE_JOIN, .client = A, .caches = true };
    struct world *w = world_new();

    (void)state;
    again.held = &held;
    again.held_count = 1;
    again.lease_epoch = lease_epoch_of(w->t, A);
    no_memory = true;
    feed(w, again);
    assert_true(w->out.failed);
    assert_int_equal(count_of(w, LEASE_LOST, A), 0);
    no_memory = false;
    feed(w, again);
    assert_int_equal(count_of(w, LEASE_LOST, A), 1);
    world_free(w);
}

/* One that were begun would end with its deadline, and its holder would lose what it holds. */
static void a_recall_that_cannot_be_told_is_not_begun(void **state)
{
    struct lease_touch touched = { FILE_1, ACCESS_READ };
    struct world *w = world_new();
    uint64_t ticket;

    (void)state;
    assert_int_equal(lease_grant(w->t, w->now_ms, A, FILE_1, LEASE_W, true, false, false), LEASE_W);
    lease_actions_free(&w->out);
    no_memory = true;
    assert_int_equal(lease_acquire(w->t, w->now_ms, B, &touched, 1, &ticket, &w->out), LEASE_FULL);
    feed(w, (struct lease_event){ .type = LEASE_RETURN, .client = A, .inode = FILE_1 });
    no_memory = false;
    assert_false(is_fenced_at(w, 1000 + LEASE_MS));
    assert_int_not_equal(wait_for(w, B), 0);
    world_free(w);
}

/* Whoever is not on the disk is granted nothing: it must get there with some later JOIN. */
static void a_lease_epoch_that_was_not_kept_is_asked_for_again(void **state)
{
    struct world *w = world_new();
    struct lease_event event = { .type = LEASE_JOIN, .client = 104, .caches = true };

    (void)state;
    feed(w, event);
    assert_int_equal(count_of(w, LEASE_PERSIST, 104), 1);
    event.lease_epoch = lease_epoch_of(w->t, 104);
    event.number = 1;
    feed(w, event);
    assert_int_equal(count_of(w, LEASE_PERSIST, 104), 0); /* It is under way. */
    lease_not_persisted(w->t, 104, event.lease_epoch);
    event.number = 2;
    feed(w, event);
    assert_int_equal(count_of(w, LEASE_PERSIST, 104), 1);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_return_for_the_manager_before_takes_nothing),
        cmocka_unit_test(a_holder_that_says_nothing_is_fenced),
        cmocka_unit_test(a_holder_that_is_busy_has_time_while_bytes_land),
        cmocka_unit_test(words_without_bytes_are_not_believed_for_ever),
        cmocka_unit_test(busy_about_another_recall_counts_for_nothing),
        cmocka_unit_test(who_waits_is_told_for_whom_once),
        cmocka_unit_test(deadlines_are_looked_at_when_they_come_up),
        cmocka_unit_test(the_end_of_locks_is_told_when_there_is_memory),
        cmocka_unit_test(a_loss_that_cannot_be_told_is_told_at_the_next_join),
        cmocka_unit_test(a_recall_that_cannot_be_told_is_not_begun),
        cmocka_unit_test(a_lease_epoch_that_was_not_kept_is_asked_for_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
