/* The size lock: what a hold does in each state, and whatever comes: nobody is forgotten, nobody has
 * it who must not, and what is not wanted any more goes. */
#include "client/coherence/size_lock.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FILE_1 = 11, FILES = 3, USERS = 8, CALLS = 1024, STEPS = 4000, START_MS = 1000 };

/* A host whose manager answers when the test says so. */
struct host
{
    struct size_locks locks;
    uint64_t now_ms;
    bool sure, no_memory;
    char text[256];
    struct call
    {
        struct size_hold *hold;
        bool releasing;
    } calls[CALLS]; /* Under way. */
    size_t calls_count;
    unsigned told; /* Users, in all; and the last one so: */
    int status;
};

static const char *const words[] = {
    [SIZE_NEED] = "need", [SIZE_ASK] = "ask",   [SIZE_GIVE_UP] = "give-up",
    [SIZE_TELL] = "tell", [SIZE_DONE] = "done", [SIZE_RELEASE] = "release",
    [SIZE_FREE] = "free",
};

static void step(struct host *host, struct size_lock_event event);

static void tell(struct host *host, struct size_lock *user, int status)
{
    host->told++;
    host->status = status;
    user->done(user, status);
}

static void call(struct host *host, struct size_hold *hold, bool releasing)
{
    assert_true(host->calls_count < CALLS);
    host->calls[host->calls_count++] = (struct call){ hold, releasing };
    if (releasing) {
        step(host, (struct size_lock_event){ .type = SIZE_SAID, .hold = hold });
    }
}

static void carry_out(struct host *host, const struct size_lock_event *event,
                      const struct size_lock_action *action)
{
    struct size_lock_event next = *event;
    struct size_lock *user;

    if (action->type == SIZE_NEED) {
        next.type = SIZE_ROOM;
        next.hold = calloc(1, sizeof(*next.hold));
        step(host, next);
    } else if (action->type == SIZE_ASK && host->no_memory) {
        step(host, (struct size_lock_event){
                       .type = SIZE_UNASKED, .hold = action->hold, .status = MORSEL_NOMEM });
    } else if (action->type == SIZE_ASK || (action->type == SIZE_RELEASE && !host->no_memory)) {
        call(host, action->hold, action->type == SIZE_RELEASE);
    } else if (action->type == SIZE_TELL) {
        while ((user = size_locks_next(action->hold)) != NULL) {
            tell(host, user, action->hold->status);
        }
        step(host, (struct size_lock_event){ .type = SIZE_TOLD, .hold = action->hold });
    } else if (action->type == SIZE_DONE) {
        tell(host, action->user, action->status);
    } else if (action->type == SIZE_FREE) {
        free(action->hold);
    }
}

static void step(struct host *host, struct size_lock_event event)
{
    struct size_lock_actions out = { .count = 0 };

    event.now_ms = host->now_ms;
    event.sure = host->sure;
    size_locks_step(&host->locks, &event, &out);
    size_locks_check(&host->locks);
    for (uint32_t i = 0; i < out.count; i++) {
        size_t used = strlen(host->text);

        (void)snprintf(host->text + used, sizeof(host->text) - used, "%s%s", used > 0 ? " " : "",
                       words[out.items[i].type]);
        carry_out(host, &event, &out.items[i]);
        size_locks_check(&host->locks);
    }
}

static const char *feed(struct host *host, struct size_lock_event event)
{
    host->text[0] = '\0';
    step(host, event);
    return host->text;
}

static void nothing(struct size_lock *user, int status)
{
    (void)user;
    (void)status;
}

static const char *take(struct host *host, struct size_lock *user, enum lock_type type)
{
    user->done = nothing;
    return feed(
        host,
        (struct size_lock_event){
            .type = SIZE_TAKE, .user = user, .inode = FILE_1, .lock_type = type, .valid = true });
}

/* The manager's answer to the oldest call. */
static const char *answer(struct host *host, int status, bool waited)
{
    struct call first = host->calls[0];

    assert_true(host->calls_count > 0);
    memmove(host->calls, host->calls + 1, --host->calls_count * sizeof(first));
    return feed(host,
                (struct size_lock_event){ .type = first.releasing ? SIZE_RELEASED : SIZE_ANSWERED,
                                          .hold = first.hold,
                                          .status = status,
                                          .waited = waited });
}

static const char *of(struct host *host, enum size_lock_event_type type, struct size_lock *user)
{
    return feed(host, (struct size_lock_event){ .type = type, .user = user, .inode = FILE_1 });
}

static const char *of_hold(struct host *host, enum size_lock_event_type type)
{
    return feed(host, (struct size_lock_event){ .type = type,
                                                .hold = LIST_ENTRY(list_front(&host->locks.holds),
                                                                   struct size_hold, node) });
}

static void init(struct host *host)
{
    memset(host, 0, sizeof(*host));
    size_locks_init(&host->locks);
    host->now_ms = START_MS;
    host->sure = true;
}

static void finish(struct host *host)
{
    LIST_FOREACH_SAFE(node, &host->locks.holds)
    {
        struct size_hold *hold = LIST_ENTRY(node, struct size_hold, node);

        size_locks_abandon(&host->locks, hold);
        free(hold);
    }
    assert_null(host->locks.joinable);
}

/* One has it shared. */
static void init_had(struct host *host, struct size_lock *user)
{
    init(host);
    assert_string_equal(take(host, user, LOCK_SHARED), "need ask");
    assert_string_equal(answer(host, 0, false), "tell");
    assert_true(size_lock_is_good(user));
}

/* ---- One after the other ---- */

static void those_who_come_meanwhile_have_it_together(void **state)
{
    struct host host;
    struct size_lock users[3] = { { .granted = false } };

    (void)state;
    init(&host);
    assert_string_equal(take(&host, &users[0], LOCK_SHARED), "need ask");
    assert_string_equal(take(&host, &users[1], LOCK_SHARED), "");
    assert_int_equal(host.told, 0);
    assert_string_equal(answer(&host, 0, false), "tell");
    assert_int_equal(host.told, 2);
    assert_string_equal(take(&host, &users[2], LOCK_SHARED), "done");
    assert_int_equal(users[0].hold->users, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_true(size_lock_is_good(&users[i]));
        assert_string_equal(of(&host, SIZE_END, &users[i]), "");
    }
    assert_string_equal(of(&host, SIZE_END, &users[0]), ""); /* It has none. */
    finish(&host);
}

static void it_is_kept_for_a_moment(void **state)
{
    struct host host;
    struct size_lock user = { .granted = false };

    (void)state;
    init_had(&host, &user);
    host.now_ms += 10 * SIZE_LOCK_KEPT_MS;
    assert_string_equal(of_hold(&host, SIZE_TICK), ""); /* In use. */
    assert_string_equal(of(&host, SIZE_END, &user), "");
    host.now_ms += SIZE_LOCK_KEPT_MS - 1;
    assert_string_equal(of_hold(&host, SIZE_TICK), "");
    assert_string_equal(take(&host, &user, LOCK_SHARED), "done");
    assert_string_equal(of(&host, SIZE_END, &user), "");
    host.now_ms += SIZE_LOCK_KEPT_MS;
    assert_string_equal(of_hold(&host, SIZE_TICK), "release");
    assert_string_equal(of_hold(&host, SIZE_TICK), "");
    assert_string_equal(take(&host, &user, LOCK_SHARED), "need ask"); /* Anew, behind that. */
    assert_string_equal(answer(&host, 0, false), "free");
    assert_string_equal(answer(&host, 0, false), "tell");
    finish(&host);
}

static void nobody_joins_what_somebody_waits_for(void **state)
{
    struct host host;
    struct size_lock user = { .granted = false }, other = { .granted = false };

    (void)state;
    init_had(&host, &user);
    assert_string_equal(of(&host, SIZE_LET_GO, NULL), "");
    assert_true(size_lock_is_good(&user)); /* What has begun ends first. */
    assert_string_equal(take(&host, &other, LOCK_SHARED), "need ask");
    assert_string_equal(of(&host, SIZE_END, &user), "release");
    assert_string_equal(answer(&host, 0, true), "tell"); /* We waited: others wait behind us. */
    assert_string_equal(take(&host, &user, LOCK_SHARED), "need ask");
    assert_string_equal(of(&host, SIZE_END, &other), "release");
    finish(&host);
}

static void an_exclusive_one_is_its_users_alone(void **state)
{
    struct host host;
    struct size_lock user = { .granted = false }, other = { .granted = false },
                     third = { .granted = false };

    (void)state;
    init_had(&host, &user);
    assert_string_equal(of(&host, SIZE_END, &user), "");
    assert_string_equal(take(&host, &user, LOCK_EXCLUSIVE), "release need ask");
    assert_string_equal(answer(&host, 0, false), "free");
    assert_string_equal(answer(&host, 0, false), "tell");
    assert_string_equal(take(&host, &other, LOCK_EXCLUSIVE), "need ask");
    assert_string_equal(take(&host, &third, LOCK_SHARED), "need ask");
    assert_string_equal(of(&host, SIZE_END, &user), "release");
    finish(&host);
}

static void what_is_refused_is_told(void **state)
{
    struct host host;
    struct size_lock users[2] = { { .granted = false } };

    (void)state;
    init(&host);
    (void)take(&host, &users[0], LOCK_SHARED);
    (void)take(&host, &users[1], LOCK_SHARED);
    assert_string_equal(answer(&host, MORSEL_NOLCK, false), "tell free");
    assert_int_equal(host.told, 2);
    assert_int_equal(host.status, MORSEL_NOLCK);
    assert_false(users[0].granted || users[1].granted);
    assert_null(users[0].hold);
    host.no_memory = true;
    assert_string_equal(take(&host, &users[0], LOCK_SHARED), "need ask free done");
    assert_int_equal(host.status, MORSEL_NOMEM);
    finish(&host);
}

static void who_does_not_want_to_wait_is_told_at_once(void **state)
{
    struct host host;
    struct size_lock users[3] = { { .granted = false } };

    (void)state;
    init(&host);
    (void)take(&host, &users[0], LOCK_SHARED);
    (void)take(&host, &users[1], LOCK_SHARED);
    assert_string_equal(of(&host, SIZE_CANCEL, &users[0]), "done");
    assert_int_equal(host.status, MORSEL_CANCELED);
    assert_string_equal(of(&host, SIZE_CANCEL, &users[0]), "");
    assert_string_equal(of(&host, SIZE_CANCEL, &users[1]), "give-up done");
    assert_string_equal(take(&host, &users[2], LOCK_SHARED), "need ask"); /* A new one. */
    assert_string_equal(answer(&host, 0, false), "tell release"); /* Granted all the same. */
    assert_string_equal(answer(&host, 0, false), "tell");
    assert_string_equal(of(&host, SIZE_CANCEL, &users[2]), ""); /* It has it. */
    assert_true(size_lock_is_good(&users[2]));
    finish(&host);
}

static void what_may_land_is_waited_for(void **state)
{
    struct host host;
    struct size_lock user = { .granted = false };

    (void)state;
    init_had(&host, &user);
    assert_string_equal(of_hold(&host, SIZE_LET_GO_OF), "");
    host.sure = false;
    assert_string_equal(of(&host, SIZE_END, &user), "");
    assert_string_equal(of_hold(&host, SIZE_TICK), "");
    host.sure = true;
    host.no_memory = true;
    assert_string_equal(of_hold(&host, SIZE_TICK), "release");
    host.no_memory = false; /* It could not be said: once more. */
    assert_string_equal(of_hold(&host, SIZE_TICK), "release");
    assert_string_equal(answer(&host, 0, false), "free");
    finish(&host);
}

static void what_is_lost_is_good_for_nothing(void **state)
{
    struct host host;
    struct size_lock user = { .granted = false }, other = { .granted = false };

    (void)state;
    init_had(&host, &user);
    host.sure = false;
    assert_string_equal(of_hold(&host, SIZE_LOSE), "");
    assert_false(size_lock_is_good(&user));
    assert_string_equal(take(&host, &other, LOCK_SHARED), "need ask");
    assert_string_equal(of(&host, SIZE_END, &user), "release"); /* What may land is fenced. */
    assert_string_equal(answer(&host, 0, false), "tell");       /* It was asked for behind. */
    finish(&host);
}

static void without_a_lease_period_nobody_joins(void **state)
{
    struct host host;
    struct size_lock user = { .granted = false }, other = { .done = nothing };
    struct size_lock_event event = { .type = SIZE_JOIN, .user = &other, .inode = FILE_1 };

    (void)state;
    init_had(&host, &user);
    size_locks_note_size(&host.locks, FILE_1, 100);
    size_locks_note_size(&host.locks, FILE_1, 60); /* It is not cut meanwhile. */
    event.valid = true;
    event.end = 101;
    assert_string_equal(feed(&host, event), "");
    assert_false(other.granted); /* Perhaps it is not so long. */
    event.end = 100;
    assert_string_equal(feed(&host, event), "");
    assert_true(other.granted);
    assert_int_equal(other.hold->size, 100);
    assert_string_equal(of(&host, SIZE_END, &other), "");
    assert_string_equal(of(&host, SIZE_END, &user), "");
    event.valid = false;
    assert_string_equal(feed(&host, event), "release");
    assert_false(other.granted);
    finish(&host);
}

static void a_size_lock_moves_on(void **state)
{
    struct host host;
    struct size_lock user = { .granted = false }, other = { .granted = false };

    (void)state;
    init_had(&host, &user);
    size_lock_move(&other, &user);
    assert_true(size_lock_is_good(&other));
    assert_false(user.granted);
    assert_string_equal(of(&host, SIZE_LET_GO, NULL), "");
    assert_string_equal(of(&host, SIZE_END, &other), "release");
    finish(&host);
}

static void only_so_many_are_kept(void **state)
{
    static struct size_lock users[SIZE_LOCKS_JOINABLE_MAX + 1];
    struct host host;

    (void)state;
    init(&host);
    for (uint64_t i = 0; i <= SIZE_LOCKS_JOINABLE_MAX; i++) {
        users[i].done = nothing;
        assert_string_equal(feed(&host, (struct size_lock_event){ .type = SIZE_TAKE,
                                                                  .user = &users[i],
                                                                  .inode = FILE_1 + i,
                                                                  .lock_type = LOCK_SHARED,
                                                                  .valid = true }),
                            "need ask");
        (void)answer(&host, 0, false);
        assert_string_equal(of(&host, SIZE_END, &users[i]),
                            i < SIZE_LOCKS_JOINABLE_MAX ? "" : "release");
    }
    finish(&host);
}

/* One who ends, or takes another one back, as soon as it is told. */
struct hasty
{
    struct size_lock lock;
    struct host *host;
    enum size_lock_event_type then;
    struct size_lock *whose;
};

static void on_hasty(struct size_lock *lock, int status)
{
    struct hasty *hasty = CONTAINER_OF(lock, struct hasty, lock);

    (void)status;
    step(hasty->host, (struct size_lock_event){ .type = hasty->then, .user = hasty->whose });
}

static void init_hasty(struct host *host, struct hasty *hasty, enum size_lock_event_type then,
                       struct size_lock *whose, struct size_lock *other)
{
    init(host);
    *hasty = (struct hasty){ .host = host, .then = then, .whose = whose };
    (void)take(host, &hasty->lock, LOCK_SHARED);
    hasty->lock.done = on_hasty;
    (void)take(host, other, LOCK_SHARED);
}

static void all_are_told_before_it_is_let_go(void **state)
{
    struct host host;
    struct hasty hasty;
    struct size_lock other = { .granted = false };

    (void)state;
    init_hasty(&host, &hasty, SIZE_END, &hasty.lock, &other);
    assert_string_equal(answer(&host, 0, true), "tell");
    assert_false(hasty.lock.granted);
    assert_true(size_lock_is_good(&other));
    assert_string_equal(of(&host, SIZE_END, &other), "release");
    finish(&host);

    init_hasty(&host, &hasty, SIZE_CANCEL, &other, &other);
    assert_string_equal(answer(&host, MORSEL_NOLCK, false), "tell done free");
    assert_int_equal(host.told, 2);
    assert_int_equal(host.status, MORSEL_CANCELED);
    finish(&host);
}

/* ---- Whatever comes ---- */

struct walker
{
    struct size_lock lock;
    enum { IDLE, WAITS, HAS } is;
    unsigned told;
};

struct walk
{
    struct host host;
    struct prng prng;
    struct walker walkers[USERS];
    unsigned had, shared_had;
};

static void on_done(struct size_lock *lock, int status)
{
    struct walker *walker = CONTAINER_OF(lock, struct walker, lock);

    assert_int_equal(walker->is, WAITS);
    assert_int_equal(lock->granted, status == 0);
    walker->is = status == 0 ? HAS : IDLE;
    walker->told++;
}

static void walk_user(struct walk *w)
{
    struct walker *walker = &w->walkers[prng_below(&w->prng, USERS)];

    if (walker->is == IDLE) {
        walker->is = WAITS;
        walker->lock.done = on_done;
        (void)feed(&w->host,
                   (struct size_lock_event){
                       .type = SIZE_TAKE,
                       .user = &walker->lock,
                       .inode = FILE_1 + prng_below(&w->prng, FILES),
                       .lock_type = prng_below(&w->prng, 4) == 0 ? LOCK_EXCLUSIVE : LOCK_SHARED,
                       .valid = prng_below(&w->prng, 16) != 0 });
    } else if (walker->is == HAS) {
        w->had++;
        w->shared_had += walker->lock.hold->users > 1;
        walker->is = IDLE;
        (void)of(&w->host, SIZE_END, &walker->lock);
    } else if (prng_below(&w->prng, 8) == 0) {
        (void)of(&w->host, SIZE_CANCEL, &walker->lock);
        assert_int_equal(walker->is, IDLE);
    }
}

static void walk_step(struct walk *w)
{
    static const enum size_lock_event_type each[] = { SIZE_TICK, SIZE_TICK, SIZE_TICK,
                                                      SIZE_LET_GO_OF, SIZE_LOSE };
    uint64_t dice = prng_below(&w->prng, 100);

    w->host.now_ms += prng_below(&w->prng, 30);
    w->host.sure = prng_below(&w->prng, 4) != 0;
    w->host.no_memory = prng_below(&w->prng, 16) == 0;
    if (dice < 60) {
        walk_user(w);
    } else if (dice < 90 && w->host.calls_count > 0) {
        (void)answer(&w->host, prng_below(&w->prng, 16) == 0 ? MORSEL_CANCELED : 0,
                     prng_below(&w->prng, 4) == 0);
    } else if (dice >= 90) {
        enum size_lock_event_type type = each[prng_below(&w->prng, ARRAY_COUNT(each))];

        LIST_FOREACH_SAFE(node, &w->host.locks.holds)
        {
            (void)feed(&w->host,
                       (struct size_lock_event){
                           .type = type, .hold = LIST_ENTRY(node, struct size_hold, node) });
        }
    }
}

/* When nobody wants it any more, nothing is left. */
static void walk_to_the_end(struct walk *w)
{
    w->host.sure = true;
    w->host.no_memory = false;
    while (w->host.calls_count > 0) {
        (void)answer(&w->host, 0, false);
    }
    for (size_t i = 0; i < USERS; i++) {
        assert_int_not_equal(w->walkers[i].is, WAITS);
        (void)of(&w->host, SIZE_END, &w->walkers[i].lock);
    }
    w->host.now_ms += SIZE_LOCK_KEPT_MS;
    LIST_FOREACH_SAFE(node, &w->host.locks.holds)
    {
        (void)feed(&w->host,
                   (struct size_lock_event){ .type = SIZE_TICK,
                                             .hold = LIST_ENTRY(node, struct size_hold, node) });
    }
    while (w->host.calls_count > 0) {
        (void)answer(&w->host, 0, false);
    }
    assert_true(list_empty(&w->host.locks.holds));
}

static void whatever_comes(void **state)
{
    uint64_t first = test_seed_first();
    unsigned had = 0, shared = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + 40; seed++) {
        struct walk w = { .had = 0 };

        init(&w.host);
        prng_seed(&w.prng, seed);
        for (unsigned i = 0; i < STEPS; i++) {
            walk_step(&w);
        }
        walk_to_the_end(&w);
        had += w.had;
        shared += w.shared_had;
    }
    assert_true(had > 1000);
    assert_true(shared > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_who_come_meanwhile_have_it_together),
        cmocka_unit_test(it_is_kept_for_a_moment),
        cmocka_unit_test(nobody_joins_what_somebody_waits_for),
        cmocka_unit_test(an_exclusive_one_is_its_users_alone),
        cmocka_unit_test(what_is_refused_is_told),
        cmocka_unit_test(who_does_not_want_to_wait_is_told_at_once),
        cmocka_unit_test(what_may_land_is_waited_for),
        cmocka_unit_test(what_is_lost_is_good_for_nothing),
        cmocka_unit_test(without_a_lease_period_nobody_joins),
        cmocka_unit_test(a_size_lock_moves_on),
        cmocka_unit_test(only_so_many_are_kept),
        cmocka_unit_test(all_are_told_before_it_is_let_go),
        cmocka_unit_test(whatever_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
