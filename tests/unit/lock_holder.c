/* The client's half of the locks: what a request does in each state, and that no more is named than
 * the manager once knew, whatever comes. */
#include "client/coherence/lock_holder.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { CLIENT = 77, FILE_1 = 11, RANGES = 8, CELLS = 10, STEPS = 4000, OWNER = 3 };

/* A host that carries out nothing but the sending, unless that is to fail. */
struct host
{
    struct lock_holder holder;
    struct lock_holder_action last;
    int send_fails;
    char text[256]; /* The actions of the last event, and of those that follow from it. */
};

static const char *const words[] = {
    [LOCKER_SEND] = "send",       [LOCKER_SEND_AGAIN] = "again", [LOCKER_SEND_CANCEL] = "cancel",
    [LOCKER_GIVE_UP] = "give-up", [LOCKER_REJOIN] = "rejoin",    [LOCKER_REFUSE] = "refuse",
    [LOCKER_END] = "end",
};

static void step(struct host *host, struct lock_holder_event event)
{
    struct lock_holder_actions out = { .count = 0 };

    lock_holder_step(&host->holder, &event, &out);
    lock_holder_check(&host->holder);
    for (uint32_t i = 0; i < out.count; i++) {
        const struct lock_holder_action *action = &out.items[i];
        size_t used = strlen(host->text);

        (void)snprintf(host->text + used, sizeof(host->text) - used, "%s%s", used > 0 ? " " : "",
                       words[action->type]);
        host->last = *action;
        if (action->type == LOCKER_SEND) {
            step(host, (struct lock_holder_event){ .type = host->send_fails != 0 ? LOCKER_UNSENT
                                                                                 : LOCKER_SENT,
                                                   .request = action->request,
                                                   .status = host->send_fails });
        }
    }
}

static const char *feed(struct host *host, struct lock_holder_event event)
{
    host->text[0] = '\0';
    step(host, event);
    return host->text;
}

static struct byte_lock range(enum lock_type type, uint64_t start, uint64_t end)
{
    return (struct byte_lock){
        .inode = FILE_1, .owner = { 0, OWNER }, .start = start, .end = end, .type = type
    };
}

static struct byte_lock flocked(enum lock_type type)
{
    struct byte_lock lock = range(type, 0, INT64_MAX);

    lock.kind = LOCK_FLOCK;
    return lock;
}

static const char *start(struct host *host, struct lock_request *request, struct byte_lock lock,
                         enum lock_how how)
{
    return feed(host, (struct lock_holder_event){
                          .type = LOCKER_START, .request = request, .lock = lock, .how = how });
}

static const char *answered(struct host *host, struct lock_request *request,
                            enum lock_answer answer)
{
    return feed(host, (struct lock_holder_event){
                          .type = LOCKER_ANSWERED, .request = request, .answer = answer });
}

static const char *failed(struct host *host, struct lock_request *request, int status)
{
    return feed(host, (struct lock_holder_event){
                          .type = LOCKER_FAILED, .request = request, .status = status });
}

static void take(struct host *host, struct byte_lock lock)
{
    struct lock_request request;

    assert_string_equal(start(host, &request, lock, LOCK_TRY), "send");
    assert_string_equal(answered(host, &request, LOCK_GRANTED), "end");
    assert_int_equal(host->last.answer, LOCK_GRANTED);
}

static void init(struct host *host)
{
    memset(host, 0, sizeof(*host));
    assert_int_equal(lock_holder_init(&host->holder, CLIENT, RANGES), 0);
}

static bool exclusive(const struct host *host, struct byte_lock lock)
{
    lock.owner.client = CLIENT;
    return byte_locks_exclusive(host->holder.locks, &lock);
}

static bool covers(const struct host *host, struct byte_lock lock)
{
    lock.owner.client = CLIENT;
    return byte_locks_covers(host->holder.locks, &lock);
}

/* ---- Each state ---- */

static void to_state(struct host *host, struct lock_request *request, enum lock_request_state state)
{
    init(host);
    if (state == LOCKING_TEST) {
        (void)start(host, request, range(LOCK_EXCLUSIVE, 0, 9), LOCK_TEST);
    } else if (state == LOCKING_FREE) {
        take(host, range(LOCK_EXCLUSIVE, 0, 9));
        (void)start(host, request, range(LOCK_NONE, 0, 4), LOCK_TRY);
    } else if (state == LOCKING_CONVERT) {
        take(host, flocked(LOCK_SHARED));
        (void)start(host, request, flocked(LOCK_EXCLUSIVE), LOCK_WAIT);
    } else if (state == LOCKING_ASK) {
        (void)start(host, request, range(LOCK_EXCLUSIVE, 0, 9), LOCK_WAIT);
    } else {
        take(host, range(LOCK_EXCLUSIVE, 0, 9));
        (void)start(host, request, range(LOCK_SHARED, 0, 9), LOCK_TRY);
    }
    assert_string_equal(lock_request_state_name(request->state), lock_request_state_name(state));
    assert_string_equal(host->text, "send");
}

/* From each state: what comes of it, and what the caller is told. */
static void each_state_and_each_event(void **state)
{
    static const struct
    {
        struct lock_holder_event event;
        const char *from[LOCKING_STATES]; /* TEST, FREE, CONVERT, ASK, STEP_DOWN */
    } moves[] = {
        { { .type = LOCKER_ANSWERED, .answer = LOCK_GRANTED },
          { "", "end 0 0", "end 0 0", "send", "end 0 0", "end 0 0" } },
        { { .type = LOCKER_ANSWERED, .answer = LOCK_GRANTED, .joining = true },
          { "", "end 0 0", "end 0 0", "send", "again", "again" } },
        { { .type = LOCKER_ANSWERED, .answer = LOCK_HELD_BY_OTHERS },
          { "", "end 0 1", "rejoin end 0 1", "rejoin end 0 1", "end 0 1", "end 0 0" } },
        { { .type = LOCKER_ANSWERED, .answer = LOCK_ASK_AGAIN },
          { "", "again", "rejoin again", "rejoin again", "again", "again" } },
        { { .type = LOCKER_FAILED, .status = MORSEL_NO_SESSION },
          { "", "rejoin again", "rejoin again", "rejoin again", "rejoin again", "rejoin again" } },
        { { .type = LOCKER_FAILED, .status = MORSEL_TIMEDOUT },
          { "", "rejoin end T", "rejoin end T", "rejoin end T", "rejoin end T",
            "rejoin end 0 0" } },
        { { .type = LOCKER_FAILED, .status = MORSEL_INVAL },
          { "", "end I", "rejoin end I", "rejoin end I", "end I", "rejoin end 0 0" } },
        { { .type = LOCKER_FAILED, .status = MORSEL_NO_SESSION, .ending = true },
          { "", "end S", "rejoin end S", "rejoin end S", "end S", "end S" } },
        { { .type = LOCKER_CANCEL, .connected = true },
          { "", "cancel", "cancel", "cancel", "cancel", "cancel" } },
        { { .type = LOCKER_CANCEL },
          { "", "give-up", "give-up", "give-up", "give-up", "give-up" } },
        { { .type = LOCKER_CONNECTED }, { "", "", "", "", "", "" } },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(moves); i++) {
        for (enum lock_request_state from = LOCKING_TEST; from < LOCKING_ENDED; from++) {
            struct host host;
            struct lock_request request;
            struct lock_holder_event event = moves[i].event;
            char said[300];

            to_state(&host, &request, from);
            event.request = &request;
            (void)snprintf(said, sizeof(said), "%s", feed(&host, event));
            if (host.last.type == LOCKER_END && host.last.status == 0) {
                (void)snprintf(said, sizeof(said), "%s 0 %d", host.text, (int)host.last.answer);
            } else if (host.last.type == LOCKER_END) {
                (void)snprintf(said, sizeof(said), "%s %c", host.text,
                               host.last.status == MORSEL_TIMEDOUT ? 'T'
                               : host.last.status == MORSEL_INVAL  ? 'I'
                                                                   : 'S');
            }
            assert_string_equal(said, moves[i].from[from]);
            lock_holder_free(&host.holder);
        }
    }
}

/* Who is canceled: refused, the answer of a JOIN that did not name it, a new connection. */
static void a_canceled_one_is_not_asked_again(void **state)
{
    for (enum lock_request_state from = LOCKING_TEST; from < LOCKING_ENDED; from++) {
        struct host host;
        struct lock_request request;
        struct lock_holder_event cancel = { .type = LOCKER_CANCEL,
                                            .request = &request,
                                            .connected = true };
        bool steps = from == LOCKING_STEP_DOWN;

        (void)state;
        to_state(&host, &request, from);
        assert_string_equal(feed(&host, cancel), "cancel");
        assert_string_equal(feed(&host, cancel), "give-up"); /* The manager does not answer. */
        assert_string_equal(feed(&host, (struct lock_holder_event){ .type = LOCKER_CONNECTED,
                                                                    .request = &request }),
                            "give-up");
        assert_string_equal(failed(&host, &request, MORSEL_CANCELED), "rejoin end");
        assert_int_equal(host.last.status, steps ? 0 : MORSEL_CANCELED);
        lock_holder_free(&host.holder);

        to_state(&host, &request, from);
        (void)feed(&host, cancel);
        (void)answered(&host, &request, LOCK_ASK_AGAIN);
        assert_int_equal(host.last.type, LOCKER_END);
        assert_int_equal(host.last.answer, steps ? LOCK_GRANTED : LOCK_ASK_AGAIN);
        lock_holder_free(&host.holder);

        to_state(&host, &request, from);
        (void)feed(&host, cancel);
        (void)failed(&host, &request, MORSEL_NO_SESSION);
        assert_int_equal(host.last.type, LOCKER_END);
        lock_holder_free(&host.holder);
    }
}

static void a_grant_that_overtakes_a_join_is_not_believed(void **state)
{
    struct host host;
    struct lock_request request;
    struct lock_holder_event event = {
        .type = LOCKER_ANSWERED, .request = &request, .answer = LOCK_GRANTED, .joining = true
    };

    (void)state;
    to_state(&host, &request, LOCKING_ASK);
    assert_string_equal(feed(&host, event), "again");
    assert_int_equal(byte_locks_count(host.holder.locks), 0);
    request.canceled = true;
    assert_string_equal(feed(&host, event), "end");
    assert_int_equal(host.last.answer, LOCK_CANCELED);
    assert_int_equal(byte_locks_count(host.holder.locks), 0);
    lock_holder_free(&host.holder);
}

/* ---- What is held when ---- */

static void it_is_free_from_its_sending_and_ours_from_the_answer(void **state)
{
    struct host host;
    struct lock_request request;

    (void)state;
    to_state(&host, &request, LOCKING_ASK);
    assert_false(covers(&host, range(LOCK_NONE, 0, 0)));
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "end");
    assert_true(exclusive(&host, range(LOCK_NONE, 0, 9)));
    assert_string_equal(start(&host, &request, range(LOCK_NONE, 0, 4), LOCK_TRY), "send");
    assert_false(exclusive(&host, range(LOCK_NONE, 0, 4)));
    assert_true(covers(&host, range(LOCK_NONE, 5, 9)));
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "end");

    host.send_fails = MORSEL_NOMEM; /* Then nothing has happened. */
    assert_string_equal(start(&host, &request, range(LOCK_NONE, 5, 9), LOCK_TRY), "send refuse");
    assert_int_equal(host.last.status, MORSEL_NOMEM);
    assert_true(covers(&host, range(LOCK_NONE, 5, 9)));
    lock_holder_free(&host.holder);
}

static void a_step_down_takes_nothing_away_before_it_cannot_fail(void **state)
{
    struct host host;
    struct lock_request request;

    (void)state;
    init(&host);
    take(&host, range(LOCK_EXCLUSIVE, 0, 4));
    assert_string_equal(start(&host, &request, range(LOCK_SHARED, 0, 9), LOCK_TRY), "send");
    assert_int_equal(request.lock.part, LOCK_TAKE);
    assert_true(exclusive(&host, range(LOCK_NONE, 0, 4)));
    assert_string_equal(answered(&host, &request, LOCK_HELD_BY_OTHERS), "end");
    assert_true(exclusive(&host, range(LOCK_NONE, 0, 4)));

    assert_string_equal(start(&host, &request, range(LOCK_SHARED, 0, 9), LOCK_TRY), "send");
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "send");
    assert_int_equal(request.lock.part, LOCK_STEP_DOWN);
    assert_true(covers(&host, range(LOCK_NONE, 0, 9)));
    assert_false(exclusive(&host, range(LOCK_NONE, 0, 9)));
    assert_string_equal(failed(&host, &request, MORSEL_TIMEDOUT), "rejoin end");
    assert_int_equal(host.last.status, 0);
    assert_int_equal(host.last.answer, LOCK_GRANTED);
    lock_holder_free(&host.holder);
}

static void a_step_down_that_cannot_be_said_is_named(void **state)
{
    struct host host;
    struct lock_request request;

    (void)state;
    init(&host);
    take(&host, range(LOCK_EXCLUSIVE, 0, 4));
    assert_string_equal(start(&host, &request, range(LOCK_SHARED, 0, 9), LOCK_TRY), "send");
    host.send_fails = MORSEL_NOMEM;
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "send rejoin end");
    assert_int_equal(host.last.answer, LOCK_GRANTED);
    assert_false(exclusive(&host, range(LOCK_NONE, 0, 9)));
    lock_holder_free(&host.holder);
}

static void a_flock_is_given_up_and_asked_for_anew(void **state)
{
    struct host host;
    struct lock_request request;

    (void)state;
    to_state(&host, &request, LOCKING_CONVERT);
    assert_int_equal(request.lock.type, LOCK_NONE);
    assert_false(covers(&host, flocked(LOCK_NONE)));
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "send");
    assert_int_equal(request.state, LOCKING_ASK);
    assert_int_equal(request.lock.type, LOCK_EXCLUSIVE);
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "end");
    assert_true(exclusive(&host, flocked(LOCK_NONE)));

    /* Down: what is asked for is the whole of it, for the old one is gone. */
    assert_string_equal(start(&host, &request, flocked(LOCK_SHARED), LOCK_WAIT), "send");
    assert_int_equal(request.state, LOCKING_CONVERT);
    (void)feed(&host, (struct lock_holder_event){
                          .type = LOCKER_CANCEL, .request = &request, .connected = true });
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "end");
    assert_int_equal(host.last.answer, LOCK_CANCELED);
    assert_false(covers(&host, flocked(LOCK_NONE)));

    take(&host, flocked(LOCK_SHARED)); /* Of the same type: nothing is given up. */
    assert_string_equal(start(&host, &request, flocked(LOCK_SHARED), LOCK_TRY), "send");
    assert_int_equal(request.state, LOCKING_ASK);
    assert_true(covers(&host, flocked(LOCK_NONE)));
    lock_holder_free(&host.holder);
}

/* Its answer may have been made before the other one came to the manager, or behind it. */
static void what_another_thread_gives_up_stays_given_up(void **state)
{
    struct host host;
    struct lock_request asks, frees;

    (void)state;
    init(&host);
    assert_string_equal(start(&host, &asks, range(LOCK_EXCLUSIVE, 0, 9), LOCK_WAIT), "send");
    assert_string_equal(start(&host, &frees, range(LOCK_NONE, 3, 5), LOCK_TRY), "send");
    assert_string_equal(answered(&host, &asks, LOCK_GRANTED), "end");
    assert_true(exclusive(&host, range(LOCK_NONE, 0, 2)));
    assert_false(exclusive(&host, range(LOCK_NONE, 3, 5)));
    assert_true(exclusive(&host, range(LOCK_NONE, 6, 9)));
    lock_holder_free(&host.holder);
}

static void there_is_an_end_to_what_is_held(void **state)
{
    struct host host;
    struct lock_request request;

    (void)state;
    init(&host);
    for (uint64_t at = 0; at + 1 < RANGES; at++) {
        take(&host, range(LOCK_EXCLUSIVE, 10 * at, 10 * at + 8));
    }
    assert_string_equal(start(&host, &request, range(LOCK_SHARED, 999, 999), LOCK_TRY), "refuse");
    assert_int_equal(host.last.status, MORSEL_NOLCK);
    assert_string_equal(start(&host, &request, range(LOCK_NONE, 3, 4), LOCK_TRY), "refuse");
    assert_int_equal(host.last.status, MORSEL_NOLCK); /* Two pieces would come of one. */
    assert_string_equal(start(&host, &request, range(LOCK_SHARED, 999, 999), LOCK_TEST), "send");
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "end");
    assert_string_equal(start(&host, &request, range(LOCK_NONE, 6, 13), LOCK_TRY), "send");
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "end"); /* Of two, the ends. */
    assert_string_equal(start(&host, &request, range(LOCK_NONE, 20, 28), LOCK_TRY), "send");
    assert_string_equal(answered(&host, &request, LOCK_GRANTED), "end");
    assert_int_equal(byte_locks_count(host.holder.locks), RANGES - 2);
    assert_string_equal(start(&host, &request, range(LOCK_NONE, 0, INT64_MAX), LOCK_TRY), "send");
    assert_int_equal(byte_locks_count(host.holder.locks), 0);
    lock_holder_free(&host.holder);
}

/* Granted, and there is no room to note it: it is not named, so it is free. */
static void what_cannot_be_noted_is_not_had(void **state)
{
    struct host host;
    struct lock_request requests[RANGES + 1];

    (void)state;
    init(&host);
    for (uint64_t at = 0; at <= RANGES; at++) {
        assert_string_equal(
            start(&host, &requests[at], range(LOCK_EXCLUSIVE, 10 * at, 10 * at + 8), LOCK_TRY),
            "send");
    }
    for (uint64_t at = 0; at < RANGES; at++) {
        assert_string_equal(answered(&host, &requests[at], LOCK_GRANTED), "end");
    }
    assert_string_equal(answered(&host, &requests[RANGES], LOCK_GRANTED), "rejoin end");
    assert_int_equal(host.last.answer, LOCK_LIMIT);
    lock_holder_free(&host.holder);
}

static void what_is_lost_or_let_go_is_not_named(void **state)
{
    struct host host;

    (void)state;
    init(&host);
    take(&host, range(LOCK_EXCLUSIVE, 0, 9));
    take(&host, flocked(LOCK_SHARED));
    assert_string_equal(
        feed(&host, (struct lock_holder_event){ .type = LOCKER_LET_GO,
                                                .lock = range(LOCK_SHARED, 0, INT64_MAX) }),
        "rejoin");
    assert_false(lock_holder_has(&host.holder, FILE_1, LOCK_RANGE, OWNER));
    assert_true(lock_holder_has(&host.holder, FILE_1, LOCK_FLOCK, OWNER));
    assert_string_equal(feed(&host, (struct lock_holder_event){ .type = LOCKER_LOST }), "rejoin");
    assert_int_equal(byte_locks_count(host.holder.locks), 0);
    lock_holder_free(&host.holder);
}

/* ---- Handles ---- */

static void an_open_file_ends_what_was_locked_through_it(void **state)
{
    const struct handle *first = (const void *)&words[0], *second = (const void *)&words[1];
    struct host host;
    struct lock_request request;
    struct byte_lock lock;
    struct lock_holder_event event = {
        .type = LOCKER_START, .request = &request, .handle = first, .lock = flocked(LOCK_SHARED)
    };

    (void)state;
    init(&host);
    (void)feed(&host, event);
    assert_false(lock_holder_of_handle(&host.holder, first, &lock));
    (void)answered(&host, &request, LOCK_GRANTED);
    assert_true(lock_holder_of_handle(&host.holder, first, &lock));
    assert_int_equal(lock.inode, FILE_1);
    assert_int_equal(lock.kind, LOCK_FLOCK);
    assert_int_equal(lock.owner.id, OWNER);
    assert_int_equal(lock.end, INT64_MAX);
    event.handle = second; /* The last one counts. */
    (void)feed(&host, event);
    (void)answered(&host, &request, LOCK_GRANTED);
    assert_false(lock_holder_of_handle(&host.holder, first, &lock));
    assert_true(lock_holder_of_handle(&host.holder, second, &lock));
    (void)start(&host, &request, lock, LOCK_TRY);
    assert_false(lock_holder_of_handle(&host.holder, second, &lock));
    (void)answered(&host, &request, LOCK_GRANTED);
    (void)feed(&host, event);
    (void)answered(&host, &request, LOCK_GRANTED);
    lock_holder_forget_handle(&host.holder, second);
    assert_false(lock_holder_of_handle(&host.holder, second, &lock));
    (void)feed(&host, event);
    (void)answered(&host, &request, LOCK_GRANTED);
    (void)feed(&host, (struct lock_holder_event){ .type = LOCKER_LOST });
    assert_false(lock_holder_of_handle(&host.holder, second, &lock));
    lock_holder_free(&host.holder);
}

/* ---- Whatever comes ---- */

/* A manager that decides at once, and whose answers come late, or never. It gives locks to another
 * client as soon as it may: the model is who has each byte. */
struct walk
{
    struct host host;
    struct prng prng;
    struct lock_request request;
    bool active;
    uint8_t known[CELLS]; /* What the manager has for us at most, as enum lock_type. */
    unsigned granted, stepped, lost;
};

static void note_known(struct walk *w, const struct byte_lock *lock)
{
    for (uint64_t at = lock->start; at <= lock->end && at < CELLS; at++) {
        if (lock->part != LOCK_STEP_DOWN || w->known[at] != LOCK_NONE) {
            w->known[at] = (uint8_t)lock->type;
        }
    }
}

static void not_more_than_known(void *data, const struct byte_lock *held)
{
    const struct walk *w = data;

    for (uint64_t at = held->start; at <= held->end && at < CELLS; at++) {
        assert_true(held->type <= (enum lock_type)w->known[at]);
    }
}

/* The owner's requests come one at a time (threads of one process are a matter of the simulator). */
static void walk_one(struct walk *w)
{
    struct lock_request *request = &w->request;
    uint64_t dice = prng_below(&w->prng, 100);
    uint64_t first = prng_below(&w->prng, CELLS),
             last = first + prng_below(&w->prng, CELLS - first);

    if (!w->active) {
        (void)start(&w->host, request,
                    range((enum lock_type)prng_below(&w->prng, LOCK_TYPES), first, last),
                    prng_below(&w->prng, 2) == 0 ? LOCK_WAIT : LOCK_TRY);
        w->active = w->host.last.type != LOCKER_REFUSE;
    } else if (dice < 50) {
        enum lock_request_state was = request->state;
        struct byte_lock lock = request->lock;

        if (lock.part != LOCK_TAKE) {
            note_known(w, &lock);
        } else { /* What is exclusive stays so. */
            for (uint64_t at = lock.start; at <= lock.end; at++) {
                w->known[at] = w->known[at] == LOCK_NONE ? LOCK_SHARED : w->known[at];
            }
        }
        (void)answered(&w->host, request, LOCK_GRANTED);
        w->granted += was == LOCKING_ASK;
        w->stepped += was == LOCKING_ASK && request->state == LOCKING_STEP_DOWN;
    } else if (dice < 60 && request->state == LOCKING_ASK) {
        (void)answered(&w->host, request, LOCK_HELD_BY_OTHERS);
    } else if (dice < 70) {
        (void)failed(&w->host, request, MORSEL_TIMEDOUT);
    } else if (dice < 75) {
        (void)feed(&w->host, (struct lock_holder_event){ .type = LOCKER_LOST });
        memset(w->known, 0, sizeof(w->known));
        w->lost++;
    } else {
        (void)feed(&w->host, (struct lock_holder_event){
                                 .type = LOCKER_CANCEL, .request = request, .connected = true });
    }
    if (w->active) {
        w->active = request->state != LOCKING_ENDED;
    }
    byte_locks_each(w->host.holder.locks, not_more_than_known, w);
}

static void whatever_comes(void **state)
{
    uint64_t first = test_seed_first();
    unsigned granted = 0, stepped = 0, lost = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + 20; seed++) {
        struct walk w = { .granted = 0 };

        init(&w.host);
        prng_seed(&w.prng, seed);
        for (unsigned i = 0; i < STEPS; i++) {
            walk_one(&w);
        }
        granted += w.granted;
        stepped += w.stepped;
        lost += w.lost;
        lock_holder_free(&w.host.holder);
    }
    assert_true(granted > 1000);
    assert_true(stepped > 100);
    assert_true(lost > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_state_and_each_event),
        cmocka_unit_test(a_canceled_one_is_not_asked_again),
        cmocka_unit_test(a_grant_that_overtakes_a_join_is_not_believed),
        cmocka_unit_test(it_is_free_from_its_sending_and_ours_from_the_answer),
        cmocka_unit_test(a_step_down_takes_nothing_away_before_it_cannot_fail),
        cmocka_unit_test(a_step_down_that_cannot_be_said_is_named),
        cmocka_unit_test(a_flock_is_given_up_and_asked_for_anew),
        cmocka_unit_test(what_another_thread_gives_up_stays_given_up),
        cmocka_unit_test(there_is_an_end_to_what_is_held),
        cmocka_unit_test(what_cannot_be_noted_is_not_had),
        cmocka_unit_test(what_is_lost_or_let_go_is_not_named),
        cmocka_unit_test(an_open_file_ends_what_was_locked_through_it),
        cmocka_unit_test(whatever_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
