/* Members: who gets an id, who is refused, who is up. */
#include "meta/cluster/members.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct world
{
    struct members m;
    struct members_actions out;
    uint64_t now_ms;
};

static struct world *world_new(const struct member_record *records, uint32_t count)
{
    struct world *w = test_calloc(1, sizeof(*w));

    w->now_ms = 1000;
    members_init(&w->m, MEMBERS_HEARTBEAT_MS, records, count);
    return w;
}

static void feed(struct world *w, struct members_event event)
{
    event.now_ms = w->now_ms;
    w->out.count = 0;
    members_step(&w->m, &event, &w->out);
}

static void do_register(struct world *w, uint64_t tag, uint8_t token, server_id id,
                        const char *address)
{
    struct members_event event = { .type = MEMBERS_REGISTER };

    event.registration.tag = tag;
    event.registration.record.id = id;
    event.registration.record.token[0] = token;
    event.registration.record.bytes_total = event.registration.record.bytes_free = UINT64_C(1)
                                                                                   << 40;
    (void)snprintf(event.registration.record.address, sizeof(event.registration.record.address),
                   "%s", address);
    feed(w, event);
}

/* With the marks of a start; common/daemon/starts.h. */
static void do_start(struct world *w, server_id id, const char *address, struct starts_word word)
{
    struct members_event event = { .type = MEMBERS_REGISTER };

    event.registration.tag = word.mark;
    event.registration.record.id = id;
    event.registration.record.token[0] = 1;
    event.registration.start = word;
    (void)snprintf(event.registration.record.address, sizeof(event.registration.record.address),
                   "%s", address);
    feed(w, event);
}

static void persisted(struct world *w, server_id id, int status)
{
    struct members_event event = { .type = MEMBERS_PERSISTED };

    event.persisted.id = id;
    event.persisted.status = status;
    feed(w, event);
}

static void tick(struct world *w)
{
    feed(w, (struct members_event){ .type = MEMBERS_TICK });
}

static void heartbeat(struct world *w, server_id id)
{
    struct members_event event = { .type = MEMBERS_HEARTBEAT };

    event.heartbeat.tag = 9;
    event.heartbeat.id = id;
    event.heartbeat.bytes_total = event.heartbeat.bytes_free = UINT64_C(1) << 40;
    feed(w, event);
}

static void gone(struct world *w, server_id id)
{
    struct members_event event = { .type = MEMBERS_GONE };

    event.gone = id;
    feed(w, event);
}

static void asks(struct world *w, server_id id, uint64_t tag)
{
    feed(w, (struct members_event){ .type = MEMBERS_ASKS, .asks = { tag, id } });
}

static void answered(struct world *w, server_id id, uint64_t tag)
{
    feed(w, (struct members_event){ .type = MEMBERS_ANSWERED, .answered = { tag, id } });
}

/* The only action, of this type. */
static const struct members_action *only(const struct world *w, int type)
{
    assert_int_equal(w->out.count, 1);
    assert_int_equal(w->out.items[0].type, type);
    return &w->out.items[0];
}

static void join(struct world *w, uint8_t token, const char *address)
{
    server_id id;

    do_register(w, 1, token, 0, address);
    id = only(w, MEMBERS_PERSIST)->id;
    persisted(w, id, 0);
    assert_int_equal(w->out.count, 2);
    answered(w, id, 1);
}

static void an_id_is_durable_before_it_is_told(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    do_register(w, 77, 1, 0, "a:1");
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    assert_false(members_find(&w->m, 1)->up);
    persisted(w, 1, 0);
    assert_int_equal(w->out.count, 2);
    assert_int_equal(w->out.items[0].type, MEMBERS_UP);
    assert_int_equal(w->out.items[1].type, MEMBERS_WELCOME);
    assert_int_equal(w->out.items[1].tag, 77);
    join(w, 2, "b:1");
    assert_non_null(members_find(&w->m, 2));
    test_free(w);
}

static void a_failed_write_refuses(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    do_register(w, 77, 1, 0, "a:1");
    persisted(w, 1, MORSEL_NOSPC);
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_NOSPC);
    assert_false(members_find(&w->m, 1)->up);
    do_register(w, 78, 1, 0, "a:1"); /* The same again is no more durable than before. */
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    persisted(w, 1, 0);
    assert_int_equal(w->out.items[1].type, MEMBERS_WELCOME);
    gone(w, 1);
    do_register(w, 79, 1, 1, "a:2"); /* From elsewhere. */
    persisted(w, 1, MORSEL_NOSPC);
    do_register(w, 80, 1, 1, "a:2");
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    test_free(w);
}

static void silence_takes_a_server_down_and_a_word_brings_it_back(void **state)
{
    struct world *w = world_new(NULL, 0);
    uint64_t version;

    (void)state;
    join(w, 1, "a:1");
    assert_int_equal(members_deadline_ms(&w->m), 4000);
    w->now_ms = 3999;
    tick(w);
    assert_int_equal(w->out.count, 0);
    w->now_ms = 4000;
    version = w->m.version;
    tick(w);
    assert_int_equal(only(w, MEMBERS_DOWN)->id, 1);
    assert_true(w->m.version > version);
    assert_int_equal(members_deadline_ms(&w->m), UINT64_MAX);
    heartbeat(w, 1);
    assert_int_equal(w->out.count, 2);
    assert_int_equal(w->out.items[0].type, MEMBERS_UP);
    assert_int_equal(w->out.items[1].type, MEMBERS_ALIVE);
    test_free(w);
}

/* The server is down at `due_ms`, and not before. */
static void is_down_at(struct world *w, uint64_t due_ms)
{
    w->now_ms = due_ms - 1;
    tick(w);
    assert_int_equal(w->out.count, 0);
    assert_int_equal(members_deadline_ms(&w->m), due_ms);
    w->now_ms = due_ms;
    tick(w);
    assert_int_equal(only(w, MEMBERS_DOWN)->id, 1);
}

/* An answer may need the manager's own disk; the server says nothing until it has it. */
static void who_waits_for_our_answer_is_not_silent(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    join(w, 1, "a:1");
    w->now_ms = 2000;
    asks(w, 1, 5);
    w->now_ms = 8000; /* Behind three heartbeats. */
    tick(w);
    assert_int_equal(w->out.count, 0);
    asks(w, 1, 5); /* What it needs is there; or not all of it. */
    w->now_ms = 13000;
    answered(w, 1, 4); /* Of before. */
    answered(w, 1, 5);
    is_down_at(w, 16000);

    heartbeat(w, 1);
    asks(w, 1, 6); /* It waits no longer than that. */
    is_down_at(w, 16000 + MEMBERS_ANSWER_MS + 3000);

    heartbeat(w, 1);
    asks(w, 1, 7);
    w->now_ms += 4000;
    gone(w, 1); /* Nobody waits any more. */
    is_down_at(w, w->now_ms + 3000);
    gone(w, 1); /* No word. */
    assert_int_equal(members_find(&w->m, 1)->heard_ms, w->now_ms - 3000);
    test_free(w);
}

/* Nor who waits for the answer to its registration. */
static void who_registers_is_not_silent(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    do_register(w, 9, 1, 0, "a:1");
    persisted(w, 1, 0);
    w->now_ms = 5000;
    tick(w);
    assert_int_equal(w->out.count, 0);
    answered(w, 1, 9);
    is_down_at(w, 8000);
    test_free(w);
}

static void a_second_process_is_refused_while_the_first_is_there(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    join(w, 1, "a:1");
    do_register(w, 2, 1, 1, "b:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_EXISTS_LOCKED);
    gone(w, 1);
    do_register(w, 3, 1, 1, "b:1");
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    persisted(w, 1, 0);
    assert_string_equal(members_find(&w->m, 1)->record.address, "b:1");
    w->now_ms += 10000;
    tick(w); /* Silent, though its connection stands. */
    do_register(w, 4, 1, 1, "c:1");
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    test_free(w);
}

static void ids_and_tokens_stay_together(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    join(w, 1, "a:1");
    join(w, 2, "b:1");
    do_register(w, 5, 1, 2, "a:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_INVAL);
    do_register(w, 6, 3, 2, "c:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_INVAL);
    do_register(w, 7, 1, 1, "a:1"); /* A restart on the same place: nothing to write. */
    assert_int_equal(only(w, MEMBERS_WELCOME)->id, 1);
    test_free(w);
}

/* Whoever is not known has no id that we gave: with the last number of all the next one was 0. */
static void nobody_chooses_his_id(void **state)
{
    struct member_record last = { .id = UINT32_MAX, .token = { 9 }, .address = "z:1" };
    struct world *w = world_new(NULL, 0);

    (void)state;
    do_register(w, 5, 1, UINT32_MAX, "a:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_INVAL);
    do_register(w, 6, 1, 1, "a:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_INVAL);
    join(w, 1, "a:1");
    assert_int_equal(w->m.items[0].record.id, 1);
    test_free(w);

    w = world_new(&last, 1); /* A database in which it has happened. */
    join(w, 1, "a:1");
    join(w, 2, "b:1");
    assert_int_equal(w->m.items[0].record.id, 1);
    assert_int_equal(w->m.items[1].record.id, 2);
    assert_int_equal(w->m.items[2].record.id, UINT32_MAX);
    test_free(w);
}

static void after_a_restart_servers_are_known_but_down(void **state)
{
    struct member_record records[2] = { { .id = 3, .token = { 3 }, .address = "a:1" },
                                        { .id = 8, .token = { 8 }, .address = "b:1" } };
    struct world *w = world_new(records, 2);
    server_id chosen[STRIPE_WIDTH_MAX];

    (void)state;
    heartbeat(w, 3);
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_NO_SESSION);
    assert_int_equal(members_place(&w->m, 1, 4, chosen), 0);
    do_register(w, 1, 3, 3, "a:1");
    assert_int_equal(w->out.count, 2);
    assert_int_equal(w->out.items[1].type, MEMBERS_WELCOME);
    assert_int_equal(members_place(&w->m, 1, 4, chosen), 1);
    do_register(w, 1, 99, 0, "z:1");
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 9);
    test_free(w);
}

static void known_servers_are_presumed_there_for_a_while(void **state)
{
    struct member_record records[2] = {
        { .id = 3, .token = { 3 }, .address = "a:1", .bytes_total = 10, .bytes_free = 5 },
        { .id = 8, .token = { 8 }, .address = "b:1", .bytes_total = 10, .bytes_free = 5 }
    };
    struct world *w = world_new(records, 2);
    server_id chosen[STRIPE_WIDTH_MAX];
    uint64_t total, space;

    (void)state;
    members_presume(&w->m, w->now_ms);
    assert_int_equal(members_place(&w->m, 1, 4, chosen), 2);
    members_space(&w->m, &total, &space);
    assert_int_equal(total, 20);
    do_register(w, 1, 3, 3, "a:1");
    answered(w, 3, 1);
    assert_int_equal(members_place(&w->m, 1, 4, chosen), 2); /* Not on the first to return alone. */
    w->now_ms = members_deadline_ms(&w->m);
    heartbeat(w, 3);
    tick(w);
    assert_int_equal(only(w, MEMBERS_DOWN)->id, 8); /* It was not up, but is missed. */
    tick(w);
    assert_int_equal(w->out.count, 0);
    assert_int_equal(members_place(&w->m, 1, 4, chosen), 1);
    assert_int_equal(members_deadline_ms(&w->m), w->now_ms + 3000);
    test_free(w);
}

static void files_keep_away_from_a_broken_connection(void **state)
{
    struct world *w = world_new(NULL, 0);
    server_id chosen[STRIPE_WIDTH_MAX];

    (void)state;
    join(w, 1, "a:1");
    join(w, 2, "b:1");
    assert_int_equal(members_place(&w->m, 1, 4, chosen), 2);
    gone(w, 1);
    assert_int_equal(members_place(&w->m, 1, 4, chosen), 1);
    assert_int_equal(chosen[0], 2);
    gone(w, 2); /* All broke at once: that was the network. */
    assert_int_equal(members_place(&w->m, 1, 4, chosen), 2);
    test_free(w);
}

static void the_table_has_an_end(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    for (uint32_t i = 0; i < SERVERS_MAX; i++) {
        struct members_event event = { .type = MEMBERS_REGISTER };

        event.registration.record.token[0] = (uint8_t)i;
        event.registration.record.token[1] = (uint8_t)(1 + i / 256);
        feed(w, event);
        persisted(w, i + 1, 0);
    }
    do_register(w, 1, 200, 0, "z:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_TOO_LARGE);
    w->now_ms += 60000;
    tick(w);
    assert_int_equal(w->out.count, SERVERS_MAX);
    test_free(w);
}

static struct starts_word proposal(uint64_t confirmed, uint64_t pending, uint64_t mark)
{
    return (struct starts_word){ .mark = mark, .confirmed = confirmed, .pending = pending };
}

static struct starts_word confirmation(uint64_t confirmed, uint64_t mark)
{
    return (struct starts_word){
        .mark = mark, .confirmed = confirmed, .pending = mark, .confirms = true
    };
}

/* Server 1 at a:1, with mark 10 confirmed. */
static void start_first(struct world *w)
{
    do_start(w, 0, "a:1", proposal(0, 0, 10));
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    persisted(w, 1, 0);
    assert_int_equal(only(w, MEMBERS_PROPOSED)->tag, 10);
    assert_false(members_find(&w->m, 1)->registered);
    do_start(w, 1, "a:1", confirmation(0, 10));
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    persisted(w, 1, 0);
    assert_int_equal(w->out.items[1].type, MEMBERS_WELCOME);
}

static void a_server_registers_in_two_steps(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    start_first(w);
    assert_int_equal(members_find(&w->m, 1)->record.starts.confirmed, 10);
    assert_int_equal(members_find(&w->m, 1)->record.starts.tentative, 0);
    do_start(w, 1, "a:1", confirmation(0, 10)); /* A new connection: nothing to write. */
    assert_int_equal(only(w, MEMBERS_WELCOME)->id, 1);
    gone(w, 1);
    do_start(w, 1, "a:2", proposal(5, 10, 11)); /* The answer was lost to it. */
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    assert_string_equal(members_find(&w->m, 1)->record.address, "a:1"); /* Not let in yet. */
    persisted(w, 1, 0);
    assert_true(only(w, MEMBERS_PROPOSED)->by_pending);
    do_start(w, 1, "a:2", proposal(5, 10, 11)); /* Again: it is durable. */
    assert_true(only(w, MEMBERS_PROPOSED)->by_pending);
    do_start(w, 1, "a:2", confirmation(10, 11));
    persisted(w, 1, 0);
    assert_string_equal(members_find(&w->m, 1)->record.address, "a:2");
    test_free(w);
}

/* No answer, and no life, from a mark that may be lost with the power. */
static void a_mark_that_was_not_written_is_not_answered(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    start_first(w);
    gone(w, 1);
    do_start(w, 1, "a:1", proposal(10, 0, 11));
    persisted(w, 1, MORSEL_NOSPC);
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_NOSPC);
    do_start(w, 1, "a:1", proposal(10, 0, 11));
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    persisted(w, 1, 0);
    do_start(w, 1, "a:1", confirmation(10, 11));
    persisted(w, 1, MORSEL_NOSPC);
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_NOSPC);
    do_start(w, 1, "a:1", confirmation(10, 11));
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    test_free(w);
}

/* While the other one is up, and when it has gone: it says what it is, and its words change nothing. */
static void an_old_copy_is_refused_for_ever(void **state)
{
    struct world *w = world_new(NULL, 0);
    struct member before;

    (void)state;
    start_first(w);
    for (unsigned i = 0; i < 2; i++) {
        before = *members_find(&w->m, 1);
        do_start(w, 1, "b:1", proposal(0, 0, 20));
        assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_LEFT_BEHIND);
        assert_int_equal(w->out.items[0].id, 1);
        do_start(w, 1, "b:1", confirmation(0, 20));
        assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_LEFT_BEHIND);
        do_register(w, 3, 1, 1, "b:1"); /* Of a program that knows of no marks. */
        assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_LEFT_BEHIND);
        assert_memory_equal(&before, members_find(&w->m, 1), sizeof(before));
        gone(w, 1);
    }
    test_free(w);
}

/* The server was let in twice since the state that the database was put back to. */
static void a_server_from_after_a_backup_is_taken_over(void **state)
{
    struct member_record record = { .id = 1, .token = { 1 }, .address = "a:1" };
    struct starts_word word = proposal(12, 0, 13);
    struct world *w;

    (void)state;
    record.starts = (struct starts_known){ .confirmed = 10, .tentative = 11, .count = 1 };
    w = world_new(&record, 1);
    word.count = 1; /* No more than what is known: it is an old copy. */
    do_start(w, 1, "b:1", word);
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_LEFT_BEHIND);
    word.count = 3;
    do_start(w, 1, "a:1", word);
    assert_int_equal(w->out.count, 2);
    assert_int_equal(w->out.items[0].type, MEMBERS_PUT_BACK);
    assert_int_equal(w->out.items[0].id, 1);
    assert_int_equal(w->out.items[1].type, MEMBERS_PERSIST); /* Before it is answered. */
    persisted(w, 1, 0);
    assert_false(only(w, MEMBERS_PROPOSED)->by_pending);
    assert_int_equal(members_find(&w->m, 1)->record.starts.confirmed, 12);
    assert_int_equal(members_find(&w->m, 1)->record.starts.count, 3);
    word = confirmation(12, 13);
    word.count = 3;
    do_start(w, 1, "a:1", word);
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 1);
    persisted(w, 1, 0);
    assert_int_equal(w->out.items[1].type, MEMBERS_WELCOME);
    assert_int_equal(members_find(&w->m, 1)->record.starts.confirmed, 13);
    assert_int_equal(members_find(&w->m, 1)->record.starts.count, 4);
    test_free(w);

    w = world_new(&record, 1); /* It has run on, and comes again on a new connection. */
    word = confirmation(12, 12);
    word.count = 3;
    do_start(w, 1, "a:1", word);
    assert_int_equal(w->out.items[0].type, MEMBERS_PUT_BACK);
    assert_int_equal(w->out.items[1].type, MEMBERS_PERSIST);
    persisted(w, 1, 0);
    assert_int_equal(w->out.items[1].type, MEMBERS_WELCOME);
    do_start(w, 1, "a:1", word); /* Said once. */
    assert_int_equal(only(w, MEMBERS_WELCOME)->id, 1);
    test_free(w);
}

/* Records from before have no marks: the first one that registers in two steps is taken over. */
static void a_record_from_before_is_taken_over(void **state)
{
    struct member_record record = { .id = 3, .token = { 1 }, .address = "a:1" };
    struct world *w = world_new(&record, 1);

    (void)state;
    do_register(w, 1, 1, 3, "a:1");
    assert_int_equal(w->out.items[1].type, MEMBERS_WELCOME);
    gone(w, 3);
    do_start(w, 3, "a:1", proposal(0, 0, 10));
    persisted(w, 3, 0);
    do_start(w, 3, "b:1", proposal(0, 0, 20)); /* And a copy at the same moment. */
    persisted(w, 3, 0);
    do_start(w, 3, "a:1", confirmation(0, 10));
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_AGAIN);
    do_start(w, 3, "b:1", confirmation(0, 20));
    persisted(w, 3, 0);
    do_start(w, 3, "a:1", proposal(0, 10, 10));
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_LEFT_BEHIND);
    test_free(w);
}

static void do_remove(struct world *w, server_id id)
{
    struct members_event event = { .type = MEMBERS_REMOVE, .remove = id };

    assert_null(members_may_remove(&w->m, id));
    feed(w, event);
    assert_int_equal(w->out.count, 0);
}

static void removed(struct world *w, server_id id, int status)
{
    struct members_event event = { .type = MEMBERS_REMOVED };

    event.removed.id = id;
    event.removed.status = status;
    feed(w, event);
    assert_int_equal(w->out.count, 0);
}

static void silence(struct world *w)
{
    w->now_ms += 2 * MEMBERS_MISSED_MAX * MEMBERS_HEARTBEAT_MS;
    tick(w);
}

static void who_is_there_is_not_removed(void **state)
{
    struct member_record record = { .id = 3, .token = { 1 }, .address = "a:1" };
    struct world *w = world_new(&record, 1);

    (void)state;
    members_presume(&w->m, w->now_ms);
    assert_non_null(members_may_remove(&w->m, 3)); /* It may be there. */
    do_register(w, 1, 1, 3, "b:1");
    assert_non_null(members_may_remove(&w->m, 3));
    persisted(w, 3, 0);
    assert_non_null(members_may_remove(&w->m, 3));
    gone(w, 3);
    assert_non_null(members_may_remove(&w->m, 3)); /* Its connection may have broken. */
    silence(w);
    assert_null(members_may_remove(&w->m, 3));
    assert_null(members_may_remove(&w->m, 4));
    do_register(w, 1, 1, 3, "c:1"); /* On its way to the disk. */
    assert_non_null(members_may_remove(&w->m, 3));
    test_free(w);
}

static void a_removed_server_is_never_let_in_again(void **state)
{
    struct world *w = world_new(NULL, 0);
    struct member_record records[2];
    uint64_t version;

    (void)state;
    join(w, 1, "a:1");
    join(w, 2, "b:1");
    silence(w);
    version = w->m.version;
    do_remove(w, 2);
    assert_non_null(members_may_remove(&w->m, 2));
    assert_true(
        member_stays(members_find(&w->m, 2))); /* Nobody is told before it is durable, ... */
    do_register(w, 5, 2, 2, "b:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_AGAIN); /* ... nor let in. */
    heartbeat(w, 2);
    (void)only(w, MEMBERS_REFUSE);
    removed(w, 2, 0);
    assert_false(member_stays(members_find(&w->m, 2)));
    assert_true(w->m.version > version);
    assert_null(members_may_remove(&w->m, 2)); /* It is done. */
    do_register(w, 5, 2, 2, "b:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_REMOVED);
    assert_int_equal(w->out.items[0].id, 2);
    heartbeat(w, 2);
    (void)only(w, MEMBERS_REFUSE);

    /* Its id is not given again, also behind a restart. */
    join(w, 3, "c:1");
    assert_non_null(members_find(&w->m, 3));
    records[0] = members_find(&w->m, 1)->record;
    records[1] = members_find(&w->m, 2)->record;
    test_free(w);
    w = world_new(records, 2);
    members_presume(&w->m, w->now_ms);
    assert_false(members_find(&w->m, 2)->presumed);
    do_register(w, 5, 2, 2, "b:1");
    assert_int_equal(only(w, MEMBERS_REFUSE)->status, MORSEL_REMOVED);
    do_register(w, 5, 3, 0, "c:1");
    assert_int_equal(only(w, MEMBERS_PERSIST)->id, 3);
    test_free(w);
}

static void a_removal_that_was_not_written_did_not_happen(void **state)
{
    struct world *w = world_new(NULL, 0);

    (void)state;
    join(w, 1, "a:1");
    silence(w);
    do_remove(w, 1);
    removed(w, 1, MORSEL_NOMEM);
    assert_true(member_stays(members_find(&w->m, 1)));
    do_register(w, 5, 1, 1, "a:1");
    assert_int_equal(w->out.items[1].type, MEMBERS_WELCOME);
    test_free(w);
}

static void admit(struct world *w, server_id id)
{
    struct members_event event = { .type = MEMBERS_ADMIT };

    event.admit = id;
    feed(w, event);
}

/* How many servers a file of two columns would lie on. */
static uint32_t placed(const struct world *w, server_id chosen[STRIPE_WIDTH_MAX])
{
    return members_place(&w->m, 7, 2, chosen);
}

/* Who was known before is not asked, and who waits does so behind a restart of his as well. */
static void who_is_new_waits_until_it_is_admitted(void **state)
{
    const struct member_record known = { .id = 3, .token = { 3 }, .address = "k:1" };
    struct world *w = world_new(&known, 1);
    server_id chosen[STRIPE_WIDTH_MAX];
    uint64_t total, free_bytes, version;

    (void)state;
    w->m.manual = true;
    join(w, 1, "a:1");
    assert_true(members_find(&w->m, 4)->record.waits && members_find(&w->m, 4)->up);
    assert_false(member_gets_new(members_find(&w->m, 4)));
    assert_int_equal(placed(w, chosen), 0); /* Although nobody else is there. */
    members_space(&w->m, &total, &free_bytes);
    assert_int_equal(total, 0);
    do_register(w, 2, 3, 3, "k:1");
    assert_int_equal(w->out.items[w->out.count - 1].type, MEMBERS_WELCOME);
    assert_true(member_gets_new(members_find(&w->m, 3)));
    assert_int_equal(placed(w, chosen), 1);
    assert_int_equal(chosen[0], 3);
    w->m.manual = false; /* Who was taken for one that waits does. */
    gone(w, 4);
    do_register(w, 5, 1, 4, "a:2");
    persisted(w, 4, 0);
    assert_true(members_find(&w->m, 4)->record.waits);
    version = w->m.version;
    admit(w, 4);
    assert_int_equal(w->out.count, 0);
    assert_true(w->m.version > version);
    assert_true(member_gets_new(members_find(&w->m, 4)));
    assert_int_equal(placed(w, chosen), 2);
    gone(w, 4);
    do_register(w, 6, 1, 4, "a:3");
    assert_false(members_find(&w->m, 4)->record.waits);
    persisted(w, 4, 0);
    join(w, 9, "b:1"); /* New, and nobody wants it to wait. */
    assert_true(member_gets_new(members_find(&w->m, 5)));
    test_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_durable_before_it_is_told),
        cmocka_unit_test(a_failed_write_refuses),
        cmocka_unit_test(silence_takes_a_server_down_and_a_word_brings_it_back),
        cmocka_unit_test(who_waits_for_our_answer_is_not_silent),
        cmocka_unit_test(who_registers_is_not_silent),
        cmocka_unit_test(a_second_process_is_refused_while_the_first_is_there),
        cmocka_unit_test(ids_and_tokens_stay_together),
        cmocka_unit_test(nobody_chooses_his_id),
        cmocka_unit_test(after_a_restart_servers_are_known_but_down),
        cmocka_unit_test(known_servers_are_presumed_there_for_a_while),
        cmocka_unit_test(files_keep_away_from_a_broken_connection),
        cmocka_unit_test(the_table_has_an_end),
        cmocka_unit_test(a_server_registers_in_two_steps),
        cmocka_unit_test(a_mark_that_was_not_written_is_not_answered),
        cmocka_unit_test(an_old_copy_is_refused_for_ever),
        cmocka_unit_test(a_server_from_after_a_backup_is_taken_over),
        cmocka_unit_test(a_record_from_before_is_taken_over),
        cmocka_unit_test(who_is_new_waits_until_it_is_admitted),
        cmocka_unit_test(who_is_there_is_not_removed),
        cmocka_unit_test(a_removed_server_is_never_let_in_again),
        cmocka_unit_test(a_removal_that_was_not_written_did_not_happen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
