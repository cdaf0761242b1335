/* The client's half of the lease protocol: what it does in each state, and that it keeps its word
 * whatever comes. client_lease.c has its count of the lease period beside the manager's. */
#include "client/coherence/lease_holder.h"
#include "common/base/prng.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { NS_PER_MS = 1000000, START_MS = 100000, FILE_1 = 11, WALKERS = 6, STEPS = 3000 };

/* A host that carries out nothing. */
struct host
{
    struct lease_holder holder;
    struct lease_holder_actions out;
    uint64_t now_ms;
    char text[256]; /* The actions of the last event (both of a tick). */
};

static const char *const words[] = {
    [HOLDER_JOIN] = "join",        [HOLDER_RENEW] = "renew",
    [HOLDER_PERIOD_OVER] = "over", [HOLDER_FORGET_ALL] = "forget-all",
    [HOLDER_BREAK] = "break",      [HOLDER_FORGET] = "forget",
    [HOLDER_FLUSH] = "flush",      [HOLDER_DROP] = "drop",
    [HOLDER_RETURN] = "return",    [HOLDER_BUSY] = "busy",
};

/* What it does is said in words. */
static void step(struct host *host, struct lease_holder_event event)
{
    host->out.count = 0;
    event.now_ms = host->now_ms;
    event.now_ns = host->now_ms * NS_PER_MS;
    lease_holder_step(&host->holder, &event, &host->out);
    lease_holder_check(&host->holder);
    for (uint32_t i = 0; i < host->out.count; i++) {
        size_t used = strlen(host->text);

        (void)snprintf(host->text + used, sizeof(host->text) - used, "%s%s", used > 0 ? " " : "",
                       words[host->out.items[i].type]);
    }
}

static const char *feed(struct host *host, struct lease_holder_event event)
{
    host->text[0] = '\0';
    step(host, event);
    return host->text;
}

/* Both looks of a tick. */
static const char *tick(struct host *host)
{
    host->text[0] = '\0';
    step(host, (struct lease_holder_event){ .type = HOLDER_TICK });
    step(host, (struct lease_holder_event){ .type = HOLDER_ASK_TICK });
    return host->text;
}

static void asked(struct host *host, bool join)
{
    assert_string_equal(
        feed(host, (struct lease_holder_event){ .type = HOLDER_ASKED, .join = join }), "");
}

static struct lease_holder_event session(enum lease_holder_event_type type, bool join)
{
    return (struct lease_holder_event){
        .type = type, .join = join, .lease_epoch = 7, .lease_ms = LEASE_MS
    };
}

/* The answer to a question that was sent then. */
static const char *answered(struct host *host, bool join, uint64_t sent_ms)
{
    struct lease_holder_event event = session(HOLDER_SESSION_ANSWERED, join);

    event.sent_ns = sent_ms * NS_PER_MS;
    return feed(host, event);
}

static void init(struct host *host)
{
    memset(host, 0, sizeof(*host));
    lease_holder_init(&host->holder);
    host->now_ms = START_MS;
}

static void init_joined(struct host *host)
{
    init(host);
    assert_string_equal(tick(host), "join");
    asked(host, true);
    assert_string_equal(answered(host, true, host->now_ms), "");
}

/* ---- The holder as such ---- */

/* Standings, from each of them, and what is asked then. */
static void to_standing(struct host *host, enum lease_holder_standing standing)
{
    init(host);
    if (standing != HOLDER_APART) {
        init_joined(host);
        assert_string_equal(feed(host, (struct lease_holder_event){ .type = HOLDER_UNSURE }), "");
    }
    if (standing == HOLDER_LATE) {
        host->now_ms += LEASE_MS;
        assert_string_equal(tick(host), "renew");
        asked(host, false);
    } else {
        asked(host, standing == HOLDER_APART);
    }
    assert_int_equal(host->holder.standing, standing);
}

static void each_standing_and_each_event(void **state)
{
    static const struct
    {
        struct lease_holder_event event;
        struct
        {
            enum lease_holder_standing then;
            const char *actions;
        } from[HOLDER_STANDINGS];
    } moves[] = {
        { { .type = HOLDER_CONNECTED },
          { { HOLDER_APART, "join" }, { HOLDER_JOINED, "join" }, { HOLDER_LATE, "join" } } },
        { { .type = HOLDER_REFUSED },
          { { HOLDER_APART, "" },
            { HOLDER_APART, "forget-all" },
            { HOLDER_APART, "forget-all" } } },
        /* A JOIN that is under way is enough. */
        { { .type = HOLDER_IN_DOUBT },
          { { HOLDER_APART, "" },
            { HOLDER_APART, "forget-all join" },
            { HOLDER_APART, "forget-all join" } } },
        { { .type = HOLDER_UNSURE },
          { { HOLDER_APART, "" }, { HOLDER_JOINED, "" }, { HOLDER_LATE, "" } } },
        { { .type = HOLDER_TICK },
          { { HOLDER_APART, "" }, { HOLDER_JOINED, "" }, { HOLDER_APART, "over forget-all" } } },
        { { .type = HOLDER_ASK_TICK },
          { { HOLDER_APART, "" }, { HOLDER_JOINED, "" }, { HOLDER_LATE, "" } } },
        { { .type = HOLDER_LOST, .inode = FILE_1 },
          { { HOLDER_APART, "" }, { HOLDER_JOINED, "" }, { HOLDER_LATE, "" } } },
        { { .type = HOLDER_SESSION_ANSWERED, .lease_epoch = 8 },
          { { HOLDER_APART, "" }, { HOLDER_JOINED, "" }, { HOLDER_LATE, "" } } },
        { { .type = HOLDER_SESSION_ANSWERED, .join = true, .lease_epoch = 8 },
          { { HOLDER_JOINED, "" }, { HOLDER_JOINED, "" }, { HOLDER_JOINED, "" } } },
        { { .type = HOLDER_SESSION_REFUSED },
          { { HOLDER_APART, "" },
            { HOLDER_APART, "forget-all join" },
            { HOLDER_APART, "forget-all join" } } },
        { { .type = HOLDER_SESSION_REFUSED, .join = true },
          { { HOLDER_APART, "" }, { HOLDER_JOINED, "" }, { HOLDER_LATE, "" } } },
        { { .type = HOLDER_SESSION_FAILED },
          { { HOLDER_APART, "" }, { HOLDER_JOINED, "" }, { HOLDER_LATE, "" } } },
        { { .type = HOLDER_SESSION_FAILED, .join = true },
          { { HOLDER_APART, "" }, { HOLDER_JOINED, "" }, { HOLDER_LATE, "" } } },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(moves); i++) {
        for (enum lease_holder_standing from = HOLDER_APART; from < HOLDER_STANDINGS; from++) {
            struct host host;
            const struct lease_holder_event *event = &moves[i].event;
            unsigned answers =
                event->type >= HOLDER_SESSION_ANSWERED && event->type <= HOLDER_SESSION_FAILED;

            to_standing(&host, from);
            if (answers > 0) {
                asked(&host, event->join);
            }
            assert_string_equal(feed(&host, *event), moves[i].from[from].actions);
            assert_string_equal(lease_holder_standing_name(host.holder.standing),
                                lease_holder_standing_name(moves[i].from[from].then));
            assert_true(lease_holder_is_joined(&host.holder) || host.holder.until_ns == 0);
        }
    }
}

static void it_joins_first_and_asks_again(void **state)
{
    struct host host;

    (void)state;
    init(&host);
    assert_string_equal(tick(&host), "join");
    assert_int_equal(host.out.items[0].number, 1);
    host.now_ms += 999; /* There was no memory to send it. */
    assert_string_equal(tick(&host), "");
    host.now_ms += 1;
    assert_string_equal(tick(&host), "join");
    assert_int_equal(host.out.items[0].number, 2);
    asked(&host, true);
    host.now_ms += 5000; /* One at a time. */
    assert_string_equal(tick(&host), "");
    assert_string_equal(feed(&host, session(HOLDER_SESSION_FAILED, true)), "");
    assert_string_equal(tick(&host), "");
    host.now_ms += 1000;
    assert_string_equal(tick(&host), "join");
    asked(&host, true);
    assert_string_equal(answered(&host, true, host.now_ms), "");
    assert_int_equal(lease_holder_epoch(&host.holder), 7);
}

static void a_joined_one_renews_in_time(void **state)
{
    struct host host;

    (void)state;
    init_joined(&host);
    host.now_ms += LEASE_RENEW_MS - 1;
    assert_string_equal(tick(&host), "");
    host.now_ms += 1;
    assert_string_equal(tick(&host), "renew");
    asked(&host, false);
    host.now_ms += 1000;
    assert_string_equal(tick(&host), "");
    assert_string_equal(answered(&host, false, host.now_ms - 1000), "");
    host.now_ms += LEASE_RENEW_MS - 1;
    /* Another answer does as well as a renewal. */
    lease_holder_answered(&host.holder, host.now_ms * NS_PER_MS, host.now_ms);
    host.now_ms += LEASE_RENEW_MS - 1;
    assert_string_equal(tick(&host), "");
    host.now_ms += 1;
    assert_string_equal(tick(&host), "renew");
}

static uint64_t left_ms(const struct host *host)
{
    return lease_holder_left_ns(&host->holder, host->now_ms * NS_PER_MS) / NS_PER_MS;
}

static void a_lease_period_counts_from_the_question(void **state)
{
    struct host host;

    (void)state;
    init(&host);
    assert_string_equal(tick(&host), "join");
    asked(&host, true);
    assert_int_equal(left_ms(&host), 0);
    host.now_ms += 400;
    assert_string_equal(answered(&host, true, host.now_ms - 400), "");
    assert_int_equal(left_ms(&host), LEASE_MS - LEASE_MARGIN_MS - 400);
    /* An older question changes nothing. */
    lease_holder_answered(&host.holder, (host.now_ms - 600) * NS_PER_MS, host.now_ms);
    assert_int_equal(left_ms(&host), LEASE_MS - LEASE_MARGIN_MS - 400);
    lease_holder_answered(&host.holder, (host.now_ms - 100) * NS_PER_MS, host.now_ms);
    assert_int_equal(left_ms(&host), LEASE_MS - LEASE_MARGIN_MS - 100);
    host.now_ms += LEASE_MS - LEASE_MARGIN_MS - 100;
    assert_int_equal(left_ms(&host), 0);
}

static void another_lease_period_is_the_managers_word(void **state)
{
    struct lease_holder_event event = session(HOLDER_SESSION_ANSWERED, true);
    struct host host;

    (void)state;
    init_joined(&host);
    assert_string_equal(feed(&host, (struct lease_holder_event){ .type = HOLDER_UNSURE }), "");
    asked(&host, true);
    event.lease_ms = 1000; /* A shorter one cuts what we thought we had. */
    event.sent_ns = host.now_ms * NS_PER_MS;
    assert_string_equal(feed(&host, event), "");
    assert_int_equal(left_ms(&host), 900);
    /* What was sent before has the old bound. */
    assert_int_equal(host.holder.longest_ns,
                     (uint64_t)(START_MS + LEASE_MS - LEASE_MARGIN_MS) * NS_PER_MS);
    assert_false(lease_holder_is_sure(&host.holder, host.holder.longest_ns - 1));
    assert_true(lease_holder_is_sure(&host.holder, host.holder.longest_ns));
    asked(&host, true);
    event.lease_ms = UINT32_MAX; /* No longer than we know how to wait. */
    assert_string_equal(feed(&host, event), "");
    assert_int_equal(lease_holder_lease_ms(&host.holder), LEASE_MS_MAX);
    asked(&host, true);
    event.lease_ms = 0;
    assert_string_equal(feed(&host, event), "");
    assert_int_equal(lease_holder_lease_ms(&host.holder), LEASE_MS);
}

static void a_late_answer_saves_what_is_held(void **state)
{
    struct host host;

    (void)state;
    to_standing(&host, HOLDER_LATE);
    assert_int_equal(left_ms(&host), 0);
    assert_string_equal(answered(&host, false, host.now_ms - 100), "");
    assert_true(left_ms(&host) > 0);
    assert_string_equal(tick(&host), "");
    assert_int_equal(host.holder.standing, HOLDER_JOINED);
    assert_int_equal(lease_holder_epoch(&host.holder), 7);
    host.now_ms += LEASE_MS; /* And from there as ever. */
    asked(&host, false);
    assert_string_equal(tick(&host), "");
    assert_int_equal(host.holder.standing, HOLDER_LATE);
}

/* ---- A lease on its way back ---- */

static struct lease_holder_event recall(uint64_t number, enum lease_mode had, enum lease_mode keeps)
{
    return (struct lease_holder_event){
        .type = HOLDER_RECALL, .inode = FILE_1, .recall = number, .granted = had, .keeps = keeps
    };
}

static const char *of(struct host *host, enum lease_holder_event_type type,
                      struct lease_return *back)
{
    return feed(host, (struct lease_holder_event){ .type = type, .back = back });
}

static const char *not_yet(struct host *host, enum lease_holder_event_type type,
                           struct lease_return *back)
{
    return feed(host, (struct lease_holder_event){ .type = type, .back = back, .may_land = true });
}

static const char *no_memory(struct host *host, struct lease_return *back)
{
    return feed(host, (struct lease_holder_event){
                          .type = HOLDER_FLUSHED, .back = back, .no_memory = true });
}

/* A lease of mode W that is recalled in full, in the state. */
static void to_state(struct host *host, struct lease_return *back, enum lease_return_state state)
{
    struct lease_holder_event event = recall(5, LEASE_W, LEASE_R);

    init_joined(host);
    event.room = back;
    assert_string_equal(feed(host, event), "forget flush");
    if (state == RETURN_UNFLUSHED) {
        assert_string_equal(no_memory(host, back), "");
    } else if (state == RETURN_SETTLING) {
        assert_string_equal(not_yet(host, HOLDER_FLUSHED, back), "");
    } else if (state > RETURN_SETTLING) {
        assert_string_equal(of(host, HOLDER_FLUSHED, back), "drop");
    }
    if (state == RETURN_LOWERED) {
        assert_string_equal(feed(host, recall(6, LEASE_NONE, LEASE_NONE)), "forget");
    }
    assert_string_equal(lease_return_state_name(back->state), lease_return_state_name(state));
}

static void each_state_and_each_event(void **state)
{
    static const struct
    {
        enum lease_return_state from, then;
        struct lease_holder_event event;
        const char *actions;
    } moves[] = {
        { RETURN_FLUSHING, RETURN_DROPPING, { .type = HOLDER_FLUSHED }, "drop" },
        { RETURN_FLUSHING, RETURN_SETTLING, { .type = HOLDER_FLUSHED, .may_land = true }, "" },
        { RETURN_FLUSHING, RETURN_UNFLUSHED, { .type = HOLDER_FLUSHED, .no_memory = true }, "" },
        { RETURN_FLUSHING, RETURN_FLUSHING, { .type = HOLDER_LOOKED }, "" },
        { RETURN_UNFLUSHED, RETURN_FLUSHING, { .type = HOLDER_LOOKED }, "flush" },
        { RETURN_SETTLING, RETURN_DROPPING, { .type = HOLDER_LOOKED }, "drop" },
        { RETURN_SETTLING, RETURN_SETTLING, { .type = HOLDER_LOOKED, .may_land = true }, "" },
        { RETURN_DROPPING, RETURN_DROPPING, { .type = HOLDER_LOOKED }, "" },
        { RETURN_DROPPING, RETURN_RETURNED, { .type = HOLDER_KERNEL_DROPPED }, "return" },
        { RETURN_LOWERED, RETURN_LOWERED, { .type = HOLDER_LOOKED }, "" },
        { RETURN_LOWERED, RETURN_DROPPING, { .type = HOLDER_KERNEL_DROPPED }, "drop" },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(moves); i++) {
        struct lease_holder_event event = moves[i].event;
        struct lease_return back;
        struct host host;

        to_state(&host, &back, moves[i].from);
        event.back = &back;
        assert_string_equal(feed(&host, event), moves[i].actions);
        assert_string_equal(lease_return_state_name(back.state),
                            lease_return_state_name(moves[i].then));
    }
}

/* A recall of the rest, and one of no more than was asked for, in each state. */
static void the_manager_asks_again(void **state)
{
    (void)state;
    for (enum lease_return_state at = RETURN_FLUSHING; at < RETURN_LOWERED; at++) {
        struct lease_return back, second;
        struct lease_holder_event event = recall(8, LEASE_R, LEASE_R);
        struct host host;

        to_state(&host, &back, at);
        event.room = &second;
        assert_string_equal(feed(&host, event), "");
        assert_int_equal(back.recall, 8);
        assert_int_equal(back.keeps, LEASE_R);
        assert_string_equal(feed(&host, recall(9, LEASE_R, LEASE_NONE)), "forget");
        assert_int_equal(back.recall, 9);
        assert_int_equal(back.keeps, LEASE_NONE);
        assert_int_equal(back.granted, LEASE_W);
        assert_int_equal(back.state, at == RETURN_DROPPING ? RETURN_LOWERED : at);
    }
}

static void what_is_kept(void **state)
{
    static const struct
    {
        enum lease_mode had;
        uint32_t keep;
        bool written;
        enum lease_mode keeps;
    } cases[] = {
        { LEASE_W, LEASE_NONE, false, LEASE_NONE },
        { LEASE_W, LEASE_R, false, LEASE_R },
        /* Writes go through from then on; reads must ask too. */
        { LEASE_W, LEASE_R, true, LEASE_NONE },
        { LEASE_R, LEASE_NONE, false, LEASE_NONE },
        { LEASE_R, LEASE_R, false, LEASE_R },
        { LEASE_NONE, LEASE_R, false, LEASE_NONE },
        { LEASE_W, 1000, false, LEASE_W },
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct lease_holder_event event = recall(5, cases[i].had, LEASE_NONE);
        struct lease_return back;
        struct host host;

        init_joined(&host);
        event.keeps = cases[i].keep;
        event.written = cases[i].written;
        event.room = &back;
        assert_string_equal(feed(&host, event), "forget flush");
        assert_int_equal(back.keeps, cases[i].keeps);
        assert_int_equal(back.granted, cases[i].had);
        assert_ptr_equal(lease_holder_returning(&host.holder, FILE_1), &back);
    }
}

static void without_memory_the_manager_is_to_ask_again(void **state)
{
    struct host host;

    (void)state;
    init_joined(&host);
    assert_string_equal(feed(&host, recall(5, LEASE_W, LEASE_NONE)), "break");
    assert_null(lease_holder_returning(&host.holder, FILE_1));
}

static void what_may_land_is_waited_for(void **state)
{
    struct lease_return back;
    struct host host;

    (void)state;
    to_state(&host, &back, RETURN_FLUSHING);
    assert_string_equal(feed(&host, (struct lease_holder_event){ .type = HOLDER_UNSURE }), "");
    assert_string_equal(of(&host, HOLDER_FLUSHED, &back), "");
    host.now_ms = START_MS + LEASE_MS - LEASE_MARGIN_MS - 1;
    assert_string_equal(of(&host, HOLDER_LOOKED, &back), "");
    host.now_ms++;
    assert_string_equal(of(&host, HOLDER_LOOKED, &back), "drop");
}

/* Nobody counts on what is lost, so nothing is waited for but what uses the file; and nothing is
 * flushed for want of memory any more. */
static void what_is_lost_is_not_waited_for(void **state)
{
    struct lease_return back;
    struct host host;

    (void)state;
    to_state(&host, &back, RETURN_UNFLUSHED);
    assert_int_equal(lease_holder_named(&host.holder, FILE_1, LEASE_NONE), LEASE_W);
    assert_string_equal(feed(&host, (struct lease_holder_event){ .type = HOLDER_UNSURE }), "");
    assert_string_equal(
        feed(&host, (struct lease_holder_event){ .type = HOLDER_LOST, .inode = FILE_1 }), "");
    assert_int_equal(lease_holder_named(&host.holder, FILE_1, LEASE_NONE), LEASE_NONE);
    assert_false(lease_return_is_named_alone(&back));
    assert_string_equal(of(&host, HOLDER_LOOKED, &back), "flush");
    assert_string_equal(not_yet(&host, HOLDER_FLUSHED, &back), "");
    assert_string_equal(of(&host, HOLDER_LOOKED, &back), "drop");
    assert_string_equal(of(&host, HOLDER_KERNEL_DROPPED, &back), "return");
}

static void it_is_ours_until_it_is_returned(void **state)
{
    struct lease_return back;
    struct host host;

    (void)state;
    to_state(&host, &back, RETURN_LOWERED);
    assert_int_equal(lease_holder_named(&host.holder, FILE_1, LEASE_R), LEASE_W);
    assert_true(lease_return_is_named_alone(&back));
    assert_string_equal(of(&host, HOLDER_KERNEL_DROPPED, &back), "drop");
    assert_int_equal(lease_holder_named(&host.holder, FILE_1, LEASE_NONE), LEASE_W);
    assert_string_equal(of(&host, HOLDER_KERNEL_DROPPED, &back), "return");
    assert_int_equal(back.recall, 6);
    assert_int_equal(back.keeps, LEASE_NONE);
    assert_int_equal(lease_holder_named(&host.holder, FILE_1, LEASE_NONE), LEASE_NONE);
    to_state(&host, &back, RETURN_SETTLING);
    assert_false(lease_return_is_named_alone(&back)); /* The table has the R that is kept. */
}

/* Recalled twice: a reply grants it before we have said for the second time what we keep. */
static void nothing_is_learned_of_what_is_given_back(void **state)
{
    struct lease_return back;
    struct host host;
    const struct lease_holder *h = &host.holder;

    (void)state;
    for (enum lease_return_state at = RETURN_FLUSHING; at < RETURN_RETURNED; at++) {
        to_state(&host, &back, at);
        assert_int_equal(lease_holder_learned(h, FILE_1, LEASE_NONE, LEASE_R), LEASE_NONE);
        assert_int_equal(lease_holder_learned(h, FILE_1 + 1, LEASE_NONE, LEASE_R), LEASE_R);
    }
    to_standing(&host, HOLDER_APART); /* JOIN has not named it. */
    assert_int_equal(lease_holder_learned(h, FILE_1, LEASE_R, LEASE_W), LEASE_R);
}

static void it_says_that_it_is_at_it(void **state)
{
    struct lease_return back;
    struct host host;

    (void)state;
    to_state(&host, &back, RETURN_SETTLING);
    host.now_ms += LEASE_RENEW_MS / 2 - 1;
    assert_string_equal(of(&host, HOLDER_BACK_TICK, &back), "");
    host.now_ms++;
    assert_string_equal(of(&host, HOLDER_BACK_TICK, &back), "busy");
    host.now_ms += LEASE_RENEW_MS - 1;
    assert_string_equal(of(&host, HOLDER_BACK_TICK, &back), "");
    host.now_ms++;
    assert_string_equal(of(&host, HOLDER_BACK_TICK, &back), "busy");
}

static void what_has_no_room_is_given_back_unasked(void **state)
{
    struct lease_return back;
    struct host host;

    (void)state;
    init_joined(&host);
    assert_string_equal(
        feed(&host,
             (struct lease_holder_event){ .type = HOLDER_EVICTED, .inode = FILE_1, .room = &back }),
        "forget flush");
    assert_string_equal(not_yet(&host, HOLDER_FLUSHED, &back), "");
    host.now_ms += LEASE_MS; /* Nobody waits. */
    assert_string_equal(of(&host, HOLDER_BACK_TICK, &back), "");
    assert_int_equal(lease_holder_named(&host.holder, FILE_1, LEASE_NONE), LEASE_NONE);
    assert_string_equal(feed(&host, recall(4, LEASE_NONE, LEASE_NONE)), "");
    assert_string_equal(of(&host, HOLDER_LOOKED, &back), "drop");
    assert_string_equal(of(&host, HOLDER_KERNEL_DROPPED, &back), "return");
    assert_int_equal(back.recall, 4);
}

static void the_end_waits_for_what_is_under_way_only(void **state)
{
    struct lease_return back;
    struct host host;

    (void)state;
    to_state(&host, &back, RETURN_SETTLING);
    lease_holder_abandon(&host.holder, &back);
    to_state(&host, &back, RETURN_UNFLUSHED);
    lease_holder_abandon(&host.holder, &back);
    assert_true(list_empty(&host.holder.returns));
}

/* ---- A walk ---- */

/* A model that is too simple to be wrong: what the manager was promised. */
struct walk
{
    struct host host;
    struct prng prng;
    struct lease_return backs[WALKERS];
    struct promise
    {
        bool under_way, may_land, settled;
        unsigned drops;            /* The kernel was told. */
        enum lease_mode kept_most; /* That any recall allowed. */
        uint64_t recall, dirty_until_ns;
    } promises[WALKERS];
    unsigned asked, joins_asked, returned, overs;
};

static void perform(struct walk *w);

static void walk_feed(struct walk *w, struct lease_holder_event event)
{
    (void)feed(&w->host, event);
    perform(w);
}

static void carry_out(struct walk *w, const struct lease_holder_action *action)
{
    const struct lease_return *back = action->back == NULL ? w->backs : action->back;
    size_t at = (size_t)(back - w->backs);
    struct promise *promise = &w->promises[at];

    assert_true(at < WALKERS);
    switch (action->type) {
    case HOLDER_JOIN:
    case HOLDER_RENEW:
        if (prng_below(&w->prng, 4) > 0) {
            w->asked++;
            w->joins_asked += action->type == HOLDER_JOIN;
            walk_feed(w, (struct lease_holder_event){ .type = HOLDER_ASKED,
                                                      .join = action->type == HOLDER_JOIN });
        }
        break;
    case HOLDER_PERIOD_OVER:
        w->overs++;
        break;
    case HOLDER_DROP:
        assert_true(promise->under_way && !promise->may_land);
        assert_true(back->granted != LEASE_W || promise->settled ||
                    w->host.now_ms * NS_PER_MS >= w->host.holder.unsure_until_ns);
        promise->settled = true; /* The rest, which is asked for later, is no more than that. */
        promise->drops++;
        break;
    case HOLDER_RETURN:
        assert_true(promise->under_way && promise->drops > 0);
        assert_true(back->keeps <= promise->kept_most);
        assert_int_equal(back->recall, promise->recall);
        promise->under_way = false;
        w->returned++;
        break;
    case HOLDER_FORGET_ALL:
    case HOLDER_BREAK:
    case HOLDER_FORGET:
    case HOLDER_FLUSH:
    case HOLDER_BUSY:
        break;
    }
}

static void perform(struct walk *w)
{
    struct lease_holder_actions out = w->host.out;

    for (uint32_t i = 0; i < out.count; i++) {
        carry_out(w, &out.items[i]);
    }
}

static void walk_recall(struct walk *w, size_t at)
{
    struct promise *promise = &w->promises[at];
    struct lease_holder_event event = { .type = HOLDER_RECALL,
                                        .inode = FILE_1 + at,
                                        .recall = prng_next(&w->prng) | 1,
                                        .granted = (enum lease_mode)prng_below(&w->prng, 3),
                                        .keeps = (uint32_t)prng_below(&w->prng, 2),
                                        .written = prng_below(&w->prng, 4) == 0 };

    if (!promise->under_way) {
        *promise = (struct promise){ .under_way = true,
                                     .may_land = prng_below(&w->prng, 2) == 0,
                                     .kept_most = LEASE_W };
        event.room = &w->backs[at];
    } else if (event.keeps < promise->kept_most && w->backs[at].keeps > event.keeps) {
        promise->drops = 0; /* What the kernel has dropped was not all. */
    }
    promise->recall = event.recall;
    if (event.keeps < promise->kept_most) {
        promise->kept_most = (enum lease_mode)event.keeps;
    }
    walk_feed(w, event);
}

static void walk_session(struct walk *w)
{
    static const enum lease_holder_event_type ends[] = { HOLDER_SESSION_ANSWERED,
                                                         HOLDER_SESSION_ANSWERED,
                                                         HOLDER_SESSION_REFUSED,
                                                         HOLDER_SESSION_FAILED };
    struct lease_holder_event event = session(ends[prng_below(&w->prng, 4)], false);

    if (w->asked == 0) {
        return;
    }
    event.join = w->joins_asked > 0 && (w->joins_asked == w->asked || prng_below(&w->prng, 2) == 0);
    event.sent_ns = (w->host.now_ms - prng_below(&w->prng, LEASE_MS / 2)) * NS_PER_MS;
    event.lease_ms = LEASE_MS_MIN << prng_below(&w->prng, 4);
    w->asked--;
    w->joins_asked -= event.join;
    walk_feed(w, event);
}

static void walk_back(struct walk *w, size_t at)
{
    struct lease_return *back = &w->backs[at];
    struct promise *promise = &w->promises[at];
    struct lease_holder_event event = { .back = back, .may_land = promise->may_land };

    if (!promise->under_way) {
        return;
    }
    if (prng_below(&w->prng, 3) == 0) {
        event.type = prng_below(&w->prng, 2) == 0 ? HOLDER_BACK_TICK : HOLDER_LOOKED;
    } else if (back->state == RETURN_FLUSHING) {
        event.type = HOLDER_FLUSHED;
        event.no_memory = prng_below(&w->prng, 4) == 0;
    } else if (back->state == RETURN_DROPPING || back->state == RETURN_LOWERED) {
        event.type = HOLDER_KERNEL_DROPPED;
    } else {
        promise->may_land = false;
        return;
    }
    walk_feed(w, event);
}

static void walk_step(struct walk *w)
{
    static const enum lease_holder_event_type plain[] = { HOLDER_CONNECTED, HOLDER_REFUSED,
                                                          HOLDER_IN_DOUBT, HOLDER_UNSURE,
                                                          HOLDER_LOSSES_TAKEN };
    size_t at = prng_below(&w->prng, WALKERS);
    uint64_t dice = prng_below(&w->prng, 100);

    w->host.now_ms += prng_below(&w->prng, 8) == 0 ? prng_below(&w->prng, LEASE_MS) : 50;
    if (dice < 2) {
        walk_feed(w, (struct lease_holder_event){ .type = plain[prng_below(&w->prng, 5)] });
    } else if (dice < 10) {
        walk_recall(w, at);
    } else if (dice < 12) {
        walk_feed(w, (struct lease_holder_event){ .type = HOLDER_LOST, .inode = FILE_1 + at });
    } else if (dice < 30) {
        walk_session(w);
    } else if (dice < 40) {
        walk_feed(w, (struct lease_holder_event){ .type = HOLDER_TICK });
    } else if (dice < 50) {
        walk_feed(w, (struct lease_holder_event){ .type = HOLDER_ASK_TICK });
    } else {
        walk_back(w, at);
    }
}

static void whatever_comes(void **state)
{
    uint64_t first = test_seed_first();
    unsigned returned = 0, overs = 0;

    (void)state;
    for (uint64_t seed = first; seed < first + 100; seed++) {
        struct walk w = { .returned = 0 };

        init(&w.host);
        prng_seed(&w.prng, seed);
        for (unsigned i = 0; i < STEPS; i++) {
            walk_step(&w);
        }
        returned += w.returned;
        overs += w.overs;
    }
    assert_true(returned > 100);
    assert_true(overs > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_standing_and_each_event),
        cmocka_unit_test(it_joins_first_and_asks_again),
        cmocka_unit_test(a_joined_one_renews_in_time),
        cmocka_unit_test(a_lease_period_counts_from_the_question),
        cmocka_unit_test(another_lease_period_is_the_managers_word),
        cmocka_unit_test(a_late_answer_saves_what_is_held),
        cmocka_unit_test(each_state_and_each_event),
        cmocka_unit_test(the_manager_asks_again),
        cmocka_unit_test(what_is_kept),
        cmocka_unit_test(without_memory_the_manager_is_to_ask_again),
        cmocka_unit_test(what_may_land_is_waited_for),
        cmocka_unit_test(what_is_lost_is_not_waited_for),
        cmocka_unit_test(it_is_ours_until_it_is_returned),
        cmocka_unit_test(nothing_is_learned_of_what_is_given_back),
        cmocka_unit_test(it_says_that_it_is_at_it),
        cmocka_unit_test(what_has_no_room_is_given_back_unasked),
        cmocka_unit_test(the_end_waits_for_what_is_under_way_only),
        cmocka_unit_test(whatever_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
