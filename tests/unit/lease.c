/* Leases: grants, recalls, returns, tickets, lease periods, fencing, joining and the grace period; and
 * lives by chance against the two rules that everything rests on. */
#include "meta/coherence/lease.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { A = 101, B = 102, C = 103, FILE_1 = 11, FILE_2 = 12, DIR = 20 };

struct world
{
    struct lease_table *t;
    struct lease_actions out;
    uint64_t now_ms;
    bool forgets; /* LEASE_FORGET is answered at once. */
};

static struct world *world_new(const uint64_t *expected, size_t expected_count)
{
    struct world *w = calloc(1, sizeof(*w));
    struct lease_epoch_kept kept[2];
    struct lease_options options = { 1000, 0, kept, expected_count, 5000 };

    assert_non_null(w);
    assert_true(expected_count <= 2);
    for (size_t i = 0; i < expected_count; i++) {
        kept[i] = (struct lease_epoch_kept){ expected[i], LEASE_MS };
    }
    w->now_ms = 1000;
    w->forgets = true;
    w->t = lease_table_new(&options);
    assert_non_null(w->t);
    lease_actions_init(&w->out);
    return w;
}

static void world_free(struct world *w)
{
    lease_actions_free(&w->out);
    lease_table_free(w->t);
    free(w);
}

static void clear(struct world *w)
{
    lease_actions_free(&w->out);
}

static void feed(struct world *w, struct lease_event event)
{
    event.now_ms = w->now_ms;
    clear(w);
    lease_step(w->t, &event, &w->out);
    /* The disk is quick. */
    for (size_t i = 0; i < w->out.count; i++) {
        if (w->out.items[i].type == LEASE_FORGET && w->forgets) {
            struct lease_event forgotten = { .now_ms = w->now_ms, .type = LEASE_FORGOTTEN };

            forgotten.client = w->out.items[i].client;
            forgotten.lease_epoch = w->out.items[i].lease_epoch;
            lease_step(w->t, &forgotten, &w->out);
        }
    }
}

static void tick(struct world *w)
{
    feed(w, (struct lease_event){ .type = LEASE_TICK });
}

static void join_holding(struct world *w, client_id client, const struct lease_held *held,
                         size_t count)
{
    feed(w, (struct lease_event){ .type = LEASE_JOIN,
                                  .client = client,
                                  .lease_epoch = lease_epoch_of(w->t, client),
                                  .caches = true,
                                  .held = held,
                                  .held_count = count });
}

/* Joined, and durable as a holder. */
static void join(struct world *w, client_id client)
{
    join_holding(w, client, NULL, 0);
    feed(w, (struct lease_event){ .type = LEASE_PERSISTED,
                                  .client = client,
                                  .lease_epoch = lease_epoch_of(w->t, client) });
}

static const struct lease_action *find(const struct world *w, int type, client_id client)
{
    for (size_t i = 0; i < w->out.count; i++) {
        if ((int)w->out.items[i].type == type &&
            (client == 0 || w->out.items[i].client == client)) {
            return &w->out.items[i];
        }
    }
    return NULL;
}

static enum lease_mode grant(struct world *w, client_id client, inode_id inode,
                             enum lease_mode wanted)
{
    return lease_grant(w->t, w->now_ms, client, inode, wanted, true, false, false);
}

static enum lease_verdict acquire(struct world *w, client_id client, inode_id inode,
                                  enum lease_access access, uint64_t *ticket)
{
    struct lease_touch touched = { inode, access };

    clear(w);
    return lease_acquire(w->t, w->now_ms, client, &touched, 1, ticket, &w->out);
}

/* `recall` 0: unasked, and the recall that follows is answered at once. */
static void give_back(struct world *w, client_id client, uint64_t recall, inode_id inode,
                      enum lease_mode keeps)
{
    if (recall == 0) {
        feed(w, (struct lease_event){
                    .type = LEASE_RETURN, .client = client, .inode = inode, .keeps = keeps });
        if (find(w, LEASE_RECALL, client) == NULL) {
            return;
        }
        recall = find(w, LEASE_RECALL, client)->recall;
    }
    feed(w, (struct lease_event){ .type = LEASE_RETURN,
                                  .client = client,
                                  .recall = recall,
                                  .inode = inode,
                                  .keeps = keeps });
}

/* ---- Grants ---- */

static void nothing_is_granted_before_it_is_durable_who_holds(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    assert_int_equal(grant(w, A, FILE_1, LEASE_R), LEASE_NONE); /* Never joined. */
    join_holding(w, A, NULL, 0);
    assert_non_null(find(w, LEASE_PERSIST, A));
    assert_int_equal(grant(w, A, FILE_1, LEASE_R), LEASE_NONE);
    feed(w, (struct lease_event){
                .type = LEASE_PERSISTED, .client = A, .lease_epoch = lease_epoch_of(w->t, A) });
    assert_int_equal(grant(w, A, FILE_1, LEASE_R), LEASE_R);
    feed(w, (struct lease_event){ .type = LEASE_JOIN, .client = B, .caches = false });
    assert_int_equal(grant(w, B, FILE_1, LEASE_R), LEASE_NONE);
    world_free(w);
}

static void many_may_read_and_one_may_write_alone(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    join(w, A);
    join(w, B);
    assert_int_equal(grant(w, A, FILE_1, LEASE_R), LEASE_R);
    assert_int_equal(grant(w, B, FILE_1, LEASE_R), LEASE_R);
    assert_int_equal(grant(w, A, FILE_1, LEASE_W), LEASE_R); /* It keeps what it has. */
    assert_int_equal(grant(w, A, FILE_2, LEASE_W), LEASE_W);
    assert_int_equal(grant(w, A, FILE_2, LEASE_R), LEASE_W);
    assert_int_equal(grant(w, B, FILE_2, LEASE_R), LEASE_NONE);
    assert_true(lease_written_elsewhere(w->t, B, FILE_2));
    assert_false(lease_written_elsewhere(w->t, A, FILE_2));
    world_free(w);
}

static void open_files_of_others_are_in_the_way(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    join(w, A);
    assert_int_equal(lease_grant(w->t, 0, A, FILE_1, LEASE_R, true, true, true), LEASE_NONE);
    assert_int_equal(lease_grant(w->t, 0, A, FILE_1, LEASE_W, true, true, false), LEASE_NONE);
    assert_int_equal(lease_grant(w->t, 0, A, FILE_1, LEASE_R, true, true, false), LEASE_R);
    world_free(w);
}

/* ---- Recalls ---- */

static void a_change_waits_for_every_other_holder(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t ticket = 0, other = 0, first, second;

    (void)state;
    join(w, A);
    join(w, B);
    join(w, C);
    (void)grant(w, A, FILE_1, LEASE_R);
    (void)grant(w, B, FILE_1, LEASE_R);
    (void)grant(w, C, FILE_1, LEASE_R);
    assert_int_equal(acquire(w, C, FILE_1, ACCESS_READ, &ticket), LEASE_GO);
    assert_int_equal(acquire(w, C, FILE_1, ACCESS_CHANGE, &ticket), LEASE_WAIT);
    first = find(w, LEASE_RECALL, A)->recall;
    second = find(w, LEASE_RECALL, B)->recall;
    assert_null(find(w, LEASE_RECALL, C)); /* Its own lease is in nobody's way. */
    assert_int_equal(acquire(w, 0, FILE_1, ACCESS_CHANGE, &other), LEASE_WAIT);
    assert_null(find(w, LEASE_RECALL, A)); /* It is under way. */
    assert_non_null(find(w, LEASE_RECALL, C));
    lease_ticket_drop(w->t, other);
    assert_int_equal(lease_told(w->t, A, FILE_1), LEASE_NONE); /* What a reply may say. */
    assert_int_equal(lease_held_by(w->t, A, FILE_1), LEASE_R);
    give_back(w, A, first, FILE_1, LEASE_NONE);
    assert_null(find(w, LEASE_READY, 0));
    give_back(w, B, second, FILE_1, LEASE_NONE);
    assert_int_equal(find(w, LEASE_READY, 0)->ticket, ticket);
    assert_int_equal(acquire(w, C, FILE_1, ACCESS_CHANGE, &ticket), LEASE_GO);
    world_free(w);
}

static void a_reader_leaves_the_writer_what_it_can(void **state)
{
    struct world *w = world_new(NULL, 0);
    const struct lease_action *recall;
    uint64_t ticket;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_W);
    assert_int_equal(acquire(w, B, FILE_1, ACCESS_READ, &ticket), LEASE_WAIT);
    recall = find(w, LEASE_RECALL, A);
    assert_int_equal(recall->keeps, LEASE_R);
    give_back(w, A, recall->recall, FILE_1, LEASE_W); /* More than it may. */
    assert_non_null(find(w, LEASE_READY, 0));
    assert_int_equal(lease_held_by(w->t, A, FILE_1), LEASE_R);
    world_free(w);
}

static void an_answer_to_an_old_recall_is_none(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t ticket, recall;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_R);
    (void)acquire(w, B, FILE_1, ACCESS_CHANGE, &ticket);
    recall = find(w, LEASE_RECALL, A)->recall;
    give_back(w, A, 0, FILE_1, LEASE_NONE); /* It is being recalled already. */
    assert_int_equal(w->out.count, 0);
    give_back(w, A, recall, FILE_1, LEASE_NONE);
    assert_non_null(find(w, LEASE_READY, 0));
    assert_int_equal(grant(w, A, FILE_1, LEASE_R), LEASE_R);
    give_back(w, A, recall, FILE_1,
              LEASE_NONE); /* Was on its way when the lease was granted anew. */
    assert_int_equal(lease_held_by(w->t, A, FILE_1), LEASE_R);
    world_free(w);
}

static void a_stronger_recall_replaces_a_weaker_one(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t reader, changer, weak, strong;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_W);
    (void)acquire(w, B, FILE_1, ACCESS_READ, &reader);
    weak = find(w, LEASE_RECALL, A)->recall;
    (void)acquire(w, C, FILE_1, ACCESS_CHANGE, &changer);
    strong = find(w, LEASE_RECALL, A)->recall;
    assert_int_equal(find(w, LEASE_RECALL, A)->keeps, LEASE_NONE);
    give_back(w, A, weak, FILE_1, LEASE_R);
    assert_null(find(w, LEASE_READY, 0));
    give_back(w, A, strong, FILE_1, LEASE_NONE);
    assert_int_equal(w->out.count, 2); /* Both may go. */
    world_free(w);
}

static void while_somebody_waits_and_for_a_while_after_nothing_is_granted(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t ticket;

    (void)state;
    join(w, A);
    join(w, B);
    (void)grant(w, A, DIR, LEASE_R);
    (void)acquire(w, B, DIR, ACCESS_CHANGE, &ticket);
    assert_int_equal(grant(w, B, DIR, LEASE_R), LEASE_NONE);
    give_back(w, A, find(w, LEASE_RECALL, A)->recall, DIR, LEASE_NONE);
    assert_int_equal(lease_grant(w->t, w->now_ms, A, DIR, LEASE_R, false, false, false),
                     LEASE_NONE);                         /* Quiet. */
    assert_int_equal(grant(w, A, DIR, LEASE_R), LEASE_R); /* But OPEN gets it. */
    give_back(w, A, 0, DIR, LEASE_NONE);
    w->now_ms += LEASE_QUIET_MS;
    assert_int_equal(lease_grant(w->t, w->now_ms, A, DIR, LEASE_R, false, false, false), LEASE_R);
    world_free(w);
}

static void a_request_may_wait_for_several_inodes(void **state)
{
    struct lease_touch touched[] = { { DIR, ACCESS_CHANGE },
                                     { FILE_1, ACCESS_CHANGE },
                                     { FILE_2, ACCESS_READ },
                                     { FILE_1, ACCESS_CHANGE } };
    struct world *w = world_new(NULL, 0);
    struct lease_action first, second;
    uint64_t ticket;

    (void)state;
    join(w, A);
    (void)grant(w, A, DIR, LEASE_R);
    (void)grant(w, A, FILE_1, LEASE_R);
    (void)grant(w, A, FILE_2, LEASE_R);
    clear(w);
    assert_int_equal(lease_acquire(w->t, w->now_ms, B, touched, 4, &ticket, &w->out), LEASE_WAIT);
    assert_int_equal(w->out.count, 2); /* Reading beside a reader needs nothing. */
    first = w->out.items[0];
    second = w->out.items[1];
    give_back(w, A, second.recall, second.inode, LEASE_NONE);
    assert_null(find(w, LEASE_READY, 0));
    give_back(w, A, first.recall, first.inode, LEASE_NONE);
    assert_non_null(find(w, LEASE_READY, 0));
    world_free(w);
}

static void what_is_gone_is_in_nobodys_way(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t ticket;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_R);
    (void)acquire(w, B, FILE_1, ACCESS_CHANGE, &ticket);
    clear(w);
    lease_forget_inode(w->t, FILE_1, &w->out);
    assert_non_null(find(w, LEASE_READY, 0));
    assert_int_equal(lease_held_by(w->t, A, FILE_1), LEASE_NONE);
    world_free(w);
}

/* ---- Lease periods ---- */

static void a_silent_holder_is_waited_out(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t ticket;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_W);
    w->now_ms += 3000;
    assert_true(lease_heard(w->t, A, w->now_ms));
    feed(w, (struct lease_event){ .type = LEASE_GONE, .client = A });
    w->now_ms += 1000;
    (void)acquire(w, B, FILE_1, ACCESS_READ, &ticket);
    w->now_ms = 1000 + 3000 + LEASE_MS - 1;
    tick(w);
    assert_null(find(w, LEASE_READY, 0));
    assert_int_equal(lease_deadline_ms(w->t), 1000 + 3000 + LEASE_MS);
    w->now_ms++;
    tick(w);
    assert_int_equal(find(w, LEASE_EXPIRED, A)->count, 1);
    assert_non_null(find(w, LEASE_READY, 0));
    assert_non_null(find(w, LEASE_FORGET, A));
    assert_int_equal(grant(w, A, FILE_1, LEASE_R), LEASE_NONE); /* Before it has joined anew. */
    assert_false(lease_heard(w->t, A, w->now_ms));
    world_free(w);
}

static void who_talks_but_does_not_give_back_is_fenced(void **state)
{
    struct lease_held held = { FILE_1, LEASE_W };
    struct world *w = world_new(NULL, 0);
    uint64_t ticket;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_W);
    (void)acquire(w, B, FILE_1, ACCESS_CHANGE, &ticket);
    for (int i = 0; i < 5; i++) {
        w->now_ms += LEASE_MS / 5;
        assert_true(lease_heard(w->t, A, w->now_ms));
        tick(w);
    }
    assert_non_null(find(w, LEASE_FENCE, A));
    assert_null(find(w, LEASE_READY, 0)); /* Its lease period goes on. */
    w->now_ms += 100;
    assert_false(lease_heard(w->t, A, w->now_ms));
    give_back(w, A, 0, FILE_1, LEASE_NONE); /* Too late: it does not know yet what it has lost. */
    assert_null(find(w, LEASE_READY, 0));
    join_holding(w, A, &held, 1);
    assert_int_equal(find(w, LEASE_LOST, A)->inode, FILE_1);
    assert_true(lease_heard(w->t, A, w->now_ms));
    assert_int_equal(grant(w, A, FILE_2, LEASE_R), LEASE_NONE);
    w->now_ms += LEASE_MS - 100;
    tick(w);
    assert_non_null(find(w, LEASE_READY, 0));
    assert_int_equal(grant(w, A, FILE_2, LEASE_R),
                     LEASE_NONE); /* Its new lease epoch is not durable. */
    feed(w, (struct lease_event){
                .type = LEASE_PERSISTED, .client = A, .lease_epoch = lease_epoch_of(w->t, A) });
    assert_int_equal(grant(w, A, FILE_2, LEASE_R), LEASE_R); /* A holder like others again. */
    world_free(w);
}

static void who_leaves_holds_nothing(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t ticket;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_W);
    (void)acquire(w, B, FILE_1, ACCESS_READ, &ticket);
    feed(w, (struct lease_event){ .type = LEASE_LEAVE, .client = A });
    assert_non_null(find(w, LEASE_READY, 0));
    assert_non_null(find(w, LEASE_FORGET, A));
    assert_int_equal(lease_deadline_ms(w->t), UINT64_MAX); /* Nobody is looked after any more. */
    world_free(w);
}

/* ---- Joining ---- */

static void a_new_connection_says_what_is_still_used(void **state)
{
    struct lease_held held[] = { { FILE_1, LEASE_R }, { 99, LEASE_R } };
    struct world *w = world_new(NULL, 0);
    uint64_t ticket, recall;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_R);
    (void)grant(w, A, FILE_2, LEASE_R);
    (void)acquire(w, B, FILE_1, ACCESS_CHANGE, &ticket);
    recall = find(w, LEASE_RECALL, A)->recall;
    feed(w, (struct lease_event){ .type = LEASE_GONE, .client = A });
    join_holding(w, A, held, 2);
    assert_int_equal(find(w, LEASE_LOST, A)->inode, 99);
    assert_int_equal(lease_held_by(w->t, A, FILE_2), LEASE_NONE);
    assert_true(find(w, LEASE_RECALL, A)->recall > recall); /* The first may not have arrived. */
    give_back(w, A, find(w, LEASE_RECALL, A)->recall, FILE_1, LEASE_NONE);
    assert_non_null(find(w, LEASE_READY, 0));
    world_free(w);
}

static void a_join_that_comes_late_is_passed_over(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    join(w, A);
    feed(w, (struct lease_event){ .type = LEASE_JOIN,
                                  .client = A,
                                  .lease_epoch = lease_epoch_of(w->t, A),
                                  .number = 8,
                                  .caches = true });
    (void)grant(w, A, FILE_1, LEASE_R);
    /* Sent before, over a connection that was given up; it does not name what was granted since. */
    feed(w, (struct lease_event){ .type = LEASE_JOIN,
                                  .client = A,
                                  .lease_epoch = lease_epoch_of(w->t, A),
                                  .number = 7,
                                  .caches = true });
    assert_int_equal(lease_held_by(w->t, A, FILE_1), LEASE_R);
    world_free(w);
}

/* Joins under this lease epoch, whatever the core thinks. */
static void join_under(struct world *w, client_id client, uint64_t lease_epoch,
                       const struct lease_held *held, size_t count)
{
    feed(w, (struct lease_event){ .type = LEASE_JOIN,
                                  .client = client,
                                  .lease_epoch = lease_epoch,
                                  .caches = true,
                                  .held = held,
                                  .held_count = count });
}

static void after_a_restart_all_wait_for_the_holders(void **state)
{
    const uint64_t expected[] = { 71, 72 };
    struct lease_held by_a = { FILE_1, LEASE_W },
                      by_b[] = { { FILE_1, LEASE_R }, { FILE_2, LEASE_R } };
    struct world *w = world_new(expected, 2);
    uint64_t ticket, late;

    (void)state;
    assert_true(lease_in_grace(w->t));
    /* Also what a lease is in the way of that will be asserted meanwhile: the simulator saw it wait
     * for ever. */
    assert_int_equal(acquire(w, C, FILE_1, ACCESS_CHANGE, &ticket), LEASE_WAIT);
    join_under(w, A, 71, &by_a, 1);
    assert_null(find(w, LEASE_LOST, A));
    assert_null(find(w, LEASE_READY, 0));
    assert_int_equal(lease_epoch_of(w->t, A), 71);
    join_under(w, B, 72, by_b, 2);
    assert_int_equal(find(w, LEASE_LOST, B)->inode, FILE_1); /* Both cannot be. */
    assert_non_null(find(w, LEASE_GRACE_OVER, 0));
    assert_non_null(find(w, LEASE_READY, 0));
    assert_int_equal(lease_held_by(w->t, A, FILE_1), LEASE_W);
    assert_int_equal(acquire(w, C, FILE_2, ACCESS_CHANGE, &late), LEASE_WAIT);
    world_free(w);
}

static void after_a_restart_the_dead_are_waited_out(void **state)
{
    const uint64_t expected[] = { 71 };
    struct lease_held held = { FILE_1, LEASE_W };
    struct world *w = world_new(expected, 1);
    uint64_t ticket;

    (void)state;
    w->forgets = false;
    (void)acquire(w, C, FILE_1, ACCESS_CHANGE, &ticket);
    assert_int_equal(lease_deadline_ms(w->t), 1000 + LEASE_MS);
    w->now_ms += LEASE_MS;
    tick(w);
    assert_int_equal(find(w, LEASE_FORGET, 0)->lease_epoch, 71);
    assert_null(find(w, LEASE_READY, 0)); /* Another restart could bring it back. */
    join_under(w, A, 71, &held, 1);       /* Too late. */
    assert_non_null(find(w, LEASE_LOST, A));
    feed(w, (struct lease_event){ .type = LEASE_FORGOTTEN, .lease_epoch = 71 });
    assert_non_null(find(w, LEASE_READY, 0));
    world_free(w);
}

/* Who did not hear that it has lost its leases names them to the next run of the manager. */
static void a_lease_epoch_that_was_taken_counts_nowhere(void **state)
{
    const uint64_t expected[] = { 72 };
    struct lease_held held = { FILE_1, LEASE_W };
    struct world *w = world_new(NULL, 0);
    uint64_t lease_epoch, ticket;

    (void)state;
    join(w, A);
    lease_epoch = lease_epoch_of(w->t, A);
    (void)grant(w, A, FILE_1, LEASE_W);
    (void)acquire(w, B, FILE_1, ACCESS_CHANGE, &ticket);
    w->forgets = false;
    w->now_ms += LEASE_MS;
    tick(w);
    assert_int_equal(find(w, LEASE_FORGET, A)->lease_epoch, lease_epoch);
    assert_null(find(w, LEASE_READY, 0)); /* Not before the old lease epoch is off the disk. */
    assert_true(lease_epoch_of(w->t, A) != lease_epoch);
    join_under(w, A, lease_epoch, &held, 1);
    assert_non_null(find(w, LEASE_LOST, A));
    tick(w);
    assert_null(find(w, LEASE_FORGET, A));
    w->now_ms = lease_deadline_ms(w->t); /* The host had no memory, say: it is asked again. */
    tick(w);
    assert_int_equal(find(w, LEASE_FORGET, A)->lease_epoch, lease_epoch);
    feed(w,
         (struct lease_event){ .type = LEASE_FORGOTTEN, .client = A, .lease_epoch = lease_epoch });
    assert_non_null(find(w, LEASE_READY, 0));
    world_free(w);

    w = world_new(expected, 1);
    join_under(w, A, lease_epoch, &held, 1);
    assert_non_null(find(w, LEASE_LOST, A));
    assert_int_equal(lease_held_by(w->t, A, FILE_1), LEASE_NONE);
    world_free(w);
}

static void there_is_an_end_to_waiting_requests(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t ticket, first = 0, recall = 0;

    (void)state;
    join(w, A);
    (void)grant(w, A, FILE_1, LEASE_R);
    for (int i = 0; i < LEASE_TICKETS_MAX; i++) {
        assert_int_equal(acquire(w, B, FILE_1, ACCESS_CHANGE, &ticket), LEASE_WAIT);
        first = i == 0 ? ticket : first;
        recall = i == 0 ? find(w, LEASE_RECALL, A)->recall : recall;
    }
    assert_int_equal(acquire(w, B, FILE_1, ACCESS_CHANGE, &ticket), LEASE_FULL);
    lease_ticket_drop(w->t, first);
    assert_int_equal(acquire(w, B, FILE_1, ACCESS_CHANGE, &ticket), LEASE_WAIT);
    give_back(w, A, recall, FILE_1, LEASE_NONE);
    assert_int_equal(w->out.count, LEASE_TICKETS_MAX);
    world_free(w);
}

/* ---- By chance ---- */

enum { CLIENTS = 4, INODES = 5, STEPS = 3000, SEEDS = 40 };

/* What clients believe: they learn of grants and recalls at once, and answer when they like. */
struct life
{
    struct world *w;
    struct prng prng;
    enum lease_mode believes[CLIENTS][INODES];
    uint64_t recall[CLIENTS][INODES];
    uint64_t heard_ms[CLIENTS];
    bool joined[CLIENTS];
    struct
    {
        uint64_t ticket, since_ms;
    } waiting[64];
    size_t waiting_count;
    uint64_t granted, waited;
};

static client_id client_of(int index)
{
    return (client_id)A + (client_id)index;
}

static inode_id inode_of(int index)
{
    return (inode_id)FILE_1 + (inode_id)index;
}

static bool believes(const struct life *l, int client, int inode, enum lease_mode mode)
{
    return l->joined[client] && l->w->now_ms < l->heard_ms[client] + LEASE_MS - LEASE_MARGIN_MS &&
           l->believes[client][inode] >= mode;
}

static void forget_all(struct life *l, int client)
{
    memset(l->believes[client], 0, sizeof(l->believes[client]));
    memset(l->recall[client], 0, sizeof(l->recall[client]));
}

static void take_actions(struct life *l)
{
    for (size_t i = 0; i < l->w->out.count; i++) {
        const struct lease_action *a = &l->w->out.items[i];
        int client = (int)(a->client - A), inode = (int)(a->inode - FILE_1);

        if (a->type == LEASE_RECALL) {
            l->recall[client][inode] = a->recall;
        } else if (a->type == LEASE_FENCE || a->type == LEASE_EXPIRED) {
            l->joined[client] = l->joined[client] && a->type == LEASE_FENCE;
        } else if (a->type == LEASE_LOST) {
            l->believes[client][inode] = LEASE_NONE;
        }
        for (size_t j = 0; a->type == LEASE_READY && j < l->waiting_count; j++) {
            if (l->waiting[j].ticket == a->ticket) {
                l->waiting[j--] = l->waiting[--l->waiting_count];
            }
        }
    }
    clear(l->w);
}

static void life_join(struct life *l, int client)
{
    struct lease_held held[INODES];
    size_t count = 0;

    for (int i = 0; i < INODES; i++) {
        if (l->believes[client][i] != LEASE_NONE) {
            held[count++] = (struct lease_held){ inode_of(i), l->believes[client][i] };
        }
    }
    memset(l->recall[client], 0, sizeof(l->recall[client]));
    join_holding(l->w, client_of(client), held, count);
    take_actions(l);
    feed(l->w, (struct lease_event){ .type = LEASE_PERSISTED,
                                     .client = client_of(client),
                                     .lease_epoch = lease_epoch_of(l->w->t, client_of(client)) });
    take_actions(l);
    l->joined[client] = true;
    l->heard_ms[client] = l->w->now_ms;
}

static void life_request(struct life *l, int client)
{
    int inode = (int)prng_below(&l->prng, INODES);
    enum lease_access access = prng_below(&l->prng, 2) == 0 ? ACCESS_READ : ACCESS_CHANGE;
    enum lease_mode wanted = access == ACCESS_READ ? LEASE_R : LEASE_W;
    uint64_t ticket;

    if (!lease_heard(l->w->t, client_of(client), l->w->now_ms)) {
        forget_all(l, client);
        life_join(l, client);
        return;
    }
    l->heard_ms[client] = l->w->now_ms;
    if (acquire(l->w, client_of(client), inode_of(inode), access, &ticket) != LEASE_GO) {
        assert_true(l->waiting_count < 64);
        l->waiting[l->waiting_count].ticket = ticket;
        l->waiting[l->waiting_count++].since_ms = l->w->now_ms;
        l->waited++;
        take_actions(l);
        return;
    }
    take_actions(l);
    for (int other = 0; other < CLIENTS; other++) { /* The rules. */
        assert_true(other == client ||
                    !believes(l, other, inode, access == ACCESS_READ ? LEASE_W : LEASE_R));
    }
    l->believes[client][inode] = lease_grant(l->w->t, l->w->now_ms, client_of(client),
                                             inode_of(inode), wanted, true, false, false);
    l->granted += l->believes[client][inode] != LEASE_NONE;
}

static void life_answer(struct life *l, int client)
{
    for (int i = 0; i < INODES; i++) {
        uint64_t recall = l->recall[client][i];

        if (recall != 0 && prng_below(&l->prng, 2) == 0) {
            l->recall[client][i] = 0;
            l->believes[client][i] = LEASE_NONE;
            give_back(l->w, client_of(client), recall, inode_of(i), LEASE_NONE);
            take_actions(l);
        }
    }
}

static void life_step(struct life *l)
{
    int client = (int)prng_below(&l->prng, CLIENTS);
    uint64_t dice = prng_below(&l->prng, 100);

    l->w->now_ms += prng_below(&l->prng, 8) == 0 ? prng_below(&l->prng, 900) : 0;
    tick(l->w);
    take_actions(l);
    if (dice < 2) {
        feed(l->w, (struct lease_event){ .type = LEASE_GONE, .client = client_of(client) });
        take_actions(l);
        life_join(l, client);
    } else if (dice < 60 && l->waiting_count < 64) {
        if (!l->joined[client]) {
            forget_all(l, client);
            life_join(l, client);
        }
        life_request(l, client);
    } else if (client != 0 || l->w->now_ms % 7 != 0) { /* One of them is slow to answer. */
        life_answer(l, client);
    }
    for (size_t i = 0; i < l->waiting_count; i++) {
        assert_true(l->w->now_ms < l->waiting[i].since_ms + 3 * LEASE_MS);
    }
}

static void lives_by_chance_keep_the_rules(void **state)
{
    uint64_t granted = 0, waited = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct life *l = calloc(1, sizeof(*l));

        assert_non_null(l);
        l->w = world_new(NULL, 0);
        prng_seed(&l->prng, seed);
        for (int i = 0; i < STEPS; i++) {
            life_step(l);
        }
        granted += l->granted;
        waited += l->waited;
        world_free(l->w);
        free(l);
    }
    assert_true(granted > 10000 && waited > 5000); /* The test tests something. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_granted_before_it_is_durable_who_holds),
        cmocka_unit_test(many_may_read_and_one_may_write_alone),
        cmocka_unit_test(open_files_of_others_are_in_the_way),
        cmocka_unit_test(a_change_waits_for_every_other_holder),
        cmocka_unit_test(a_reader_leaves_the_writer_what_it_can),
        cmocka_unit_test(an_answer_to_an_old_recall_is_none),
        cmocka_unit_test(a_stronger_recall_replaces_a_weaker_one),
        cmocka_unit_test(while_somebody_waits_and_for_a_while_after_nothing_is_granted),
        cmocka_unit_test(a_request_may_wait_for_several_inodes),
        cmocka_unit_test(what_is_gone_is_in_nobodys_way),
        cmocka_unit_test(a_silent_holder_is_waited_out),
        cmocka_unit_test(who_talks_but_does_not_give_back_is_fenced),
        cmocka_unit_test(who_leaves_holds_nothing),
        cmocka_unit_test(a_new_connection_says_what_is_still_used),
        cmocka_unit_test(a_join_that_comes_late_is_passed_over),
        cmocka_unit_test(after_a_restart_all_wait_for_the_holders),
        cmocka_unit_test(after_a_restart_the_dead_are_waited_out),
        cmocka_unit_test(a_lease_epoch_that_was_taken_counts_nowhere),
        cmocka_unit_test(there_is_an_end_to_waiting_requests),
        cmocka_unit_test(lives_by_chance_keep_the_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
