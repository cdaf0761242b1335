/* Starts of a data directory and of its copy: the rules of tests/model/starts_model.py in
 * common/daemon/starts.c, one by one, and in histories drawn at random. */
#include "common/daemon/starts.h"

#include "common/base/check.h"
#include "common/base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ORIGINAL, COPY, PLACES, MAIL_MAX = 32, HISTORIES = 20000, STEPS = 60 };

/* One process, and the directory under it. */
struct place
{
    bool there, runs, refused, served;
    struct starts_kept kept;
    struct start start;
};

struct mail
{
    unsigned place;
    struct starts_word word;
};

struct world
{
    struct place places[PLACES];
    struct starts_known known, saved;
    bool put_back;
    uint64_t drawn;
    uint32_t mail_count;
    struct mail mail[MAIL_MAX];
};

static void world_init(struct world *w)
{
    memset(w, 0, sizeof(*w));
    w->places[ORIGINAL].there = true;
}

static void begin(struct world *w, unsigned place)
{
    struct place *p = &w->places[place];

    CHECK(p->there && !p->runs);
    p->start = (struct start){ .step = START_ASKS, .mark = ++w->drawn };
    p->runs = true;
    p->refused = false;
}

static void copy(struct world *w)
{
    w->places[COPY] = (struct place){ .there = true, .kept = w->places[ORIGINAL].kept };
    w->places[ORIGINAL].served = false; /* Since then. */
}

static struct starts_word say(const struct world *w, unsigned place)
{
    return start_word(&w->places[place].start, &w->places[place].kept);
}

/* The manager hears a word; `answered`: the process hears the answer, and `written`: keeps it. */
static enum starts_verdict hear(struct world *w, unsigned place, const struct starts_word *word,
                                bool answered, bool written)
{
    struct place *p = &w->places[place];
    struct starts_word now = say(w, place);
    struct start start = p->start;
    struct starts_kept kept = p->kept;
    bool by_pending;
    enum starts_verdict verdict = starts_hear(&w->known, word, &by_pending);

    if (verdict == STARTS_TAKEN_OVER) {
        assert_true(w->put_back);
        w->places[!place].served = false; /* Before: it is the one that is refused from now on. */
    }
    if (!answered || !p->runs || now.mark != word->mark || now.confirms != word->confirms) {
        return verdict;
    }
    if (verdict == STARTS_OLD) {
        p->refused = true;
        p->runs = false;
    } else if (verdict == STARTS_AGAIN) {
        start_again(&p->start);
    } else if (start_taken(&p->start, &p->kept, by_pending) && !written) {
        p->start = start;
        p->kept = kept;
    }
    p->served = p->served || (p->start.step == START_LET_IN &&
                              (verdict == STARTS_TAKEN || verdict == STARTS_TAKEN_OVER));
    return verdict;
}

static enum starts_verdict step(struct world *w, unsigned place)
{
    struct starts_word word = say(w, place);

    return hear(w, place, &word, true, true);
}

static void let_in(struct world *w, unsigned place)
{
    begin(w, place);
    assert_int_equal(step(w, place), STARTS_TAKEN);
    assert_int_equal(w->places[place].start.step, START_CONFIRMS);
    assert_int_equal(step(w, place), STARTS_TAKEN);
    assert_int_equal(w->places[place].start.step, START_LET_IN);
}

static void end(struct world *w, unsigned place)
{
    w->places[place].runs = false;
}

/* The manager's database, to the state that was saved; with the manager all words on their way end. */
static void put_back(struct world *w)
{
    w->known = w->saved;
    w->put_back = true;
    w->mail_count = 0;
    w->places[ORIGINAL].served = w->places[COPY].served = false; /* Nobody knows of it. */
}

static void a_start_is_counted_when_it_is_let_in(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    for (uint64_t i = 1; i <= 3; i++) {
        begin(&w, ORIGINAL);
        assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
        assert_int_equal(w.places[ORIGINAL].kept.count, i - 1);
        end(&w, ORIGINAL); /* Not yet. */
        let_in(&w, ORIGINAL);
        assert_int_equal(w.places[ORIGINAL].kept.count, i);
        assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN); /* A new connection. */
        assert_int_equal(w.places[ORIGINAL].kept.count, i);
        end(&w, ORIGINAL);
    }
}

static void an_old_copy_is_refused_for_ever(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    let_in(&w, ORIGINAL);
    end(&w, ORIGINAL);
    copy(&w);
    let_in(&w, ORIGINAL);
    for (unsigned i = 0; i < 2; i++) {
        begin(&w, COPY);
        assert_int_equal(step(&w, COPY), STARTS_OLD);
        assert_int_equal(w.places[COPY].kept.count, 1);
        assert_true(w.places[COPY].refused);
    }
    end(&w, ORIGINAL);
    let_in(&w, ORIGINAL);
}

/* Whoever is confirmed first goes on, whichever of the two it is. */
static void of_two_that_start_together_one_goes_on(void **state)
{
    struct world w;

    (void)state;
    for (unsigned last = ORIGINAL; last <= COPY; last++) {
        unsigned first = last == ORIGINAL ? COPY : ORIGINAL;

        world_init(&w);
        let_in(&w, ORIGINAL);
        end(&w, ORIGINAL);
        copy(&w);
        begin(&w, ORIGINAL);
        begin(&w, COPY);
        assert_int_equal(step(&w, first), STARTS_TAKEN);
        assert_int_equal(step(&w, last), STARTS_TAKEN);
        assert_int_equal(step(&w, first), STARTS_AGAIN); /* Not the last to be proposed. */
        assert_int_equal(step(&w, last), STARTS_TAKEN);
        assert_true(w.places[last].served);
        assert_int_equal(step(&w, first), STARTS_OLD);
        assert_false(w.places[first].served);
    }
}

/* The one that has overtaken us ends before it is confirmed: we propose again, and are let in. */
static void who_was_overtaken_proposes_again(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    copy(&w);
    begin(&w, ORIGINAL);
    begin(&w, COPY);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
    assert_int_equal(step(&w, COPY), STARTS_TAKEN);
    end(&w, COPY);
    assert_int_equal(step(&w, ORIGINAL), STARTS_AGAIN);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
    assert_int_equal(w.places[ORIGINAL].kept.count, 1);
}

/* Killed behind each step of the manager, with and without its answer. */
static void who_was_killed_is_let_in_again(void **state)
{
    struct world w;

    (void)state;
    for (unsigned at = 0; at < 4; at++) {
        struct starts_word word;

        world_init(&w);
        let_in(&w, ORIGINAL);
        end(&w, ORIGINAL);
        begin(&w, ORIGINAL);
        if (at >= 2) {
            assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
        }
        word = say(&w, ORIGINAL);
        assert_int_equal(hear(&w, ORIGINAL, &word, at % 2 == 1, true), STARTS_TAKEN);
        end(&w, ORIGINAL);
        let_in(&w, ORIGINAL);
    }
}

/* The answer to the second step is lost, and so is that of the start behind it: the pending mark is
 * the one that the manager knows, and it is not used again. */
static void a_pending_mark_is_known_and_not_used_again(void **state)
{
    struct starts_word word;
    struct world w;

    (void)state;
    world_init(&w);
    begin(&w, ORIGINAL);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
    word = say(&w, ORIGINAL);
    assert_int_equal(hear(&w, ORIGINAL, &word, false, false), STARTS_TAKEN);
    end(&w, ORIGINAL);
    copy(&w); /* Of a directory that is pending. */
    begin(&w, COPY);
    assert_int_equal(step(&w, COPY), STARTS_TAKEN);
    assert_int_equal(w.places[COPY].kept.confirmed, word.mark);
    assert_int_not_equal(w.places[COPY].kept.pending, word.mark);
    assert_int_equal(step(&w, COPY), STARTS_TAKEN);
    begin(&w, ORIGINAL);
    assert_int_equal(step(&w, ORIGINAL), STARTS_OLD);
}

/* The database is older than what its servers have: they are taken over, at each step at which they
 * can meet it, and go on from there. */
static void a_manager_that_was_put_back_takes_its_servers_over(void **state)
{
    struct world w;

    (void)state;
    for (unsigned at = 0; at < 3; at++) {
        world_init(&w);
        let_in(&w, ORIGINAL);
        w.saved = w.known;
        end(&w, ORIGINAL);
        let_in(&w, ORIGINAL);
        if (at < 2) {
            end(&w, ORIGINAL);
            begin(&w, ORIGINAL);
        }
        if (at == 1) {
            assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
        }
        put_back(&w);
        if (at == 1) {
            assert_int_equal(step(&w, ORIGINAL), STARTS_AGAIN);
        }
        assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN_OVER);
        assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
        assert_true(w.places[ORIGINAL].served);
        assert_int_equal(w.places[ORIGINAL].kept.count, at == 2 ? 2 : 3);
        assert_int_equal(w.known.count, w.places[ORIGINAL].kept.count);
        assert_int_equal(w.known.confirmed, w.places[ORIGINAL].kept.confirmed);
    }
}

/* What the manager has left behind is old, whatever was put back before: its count is not greater. */
static void after_a_take_over_an_old_copy_is_refused(void **state)
{
    struct world w;

    (void)state;
    world_init(&w);
    let_in(&w, ORIGINAL);
    w.saved = w.known;
    end(&w, ORIGINAL);
    let_in(&w, ORIGINAL);
    end(&w, ORIGINAL);
    copy(&w);
    let_in(&w, ORIGINAL);
    end(&w, ORIGINAL);
    put_back(&w);
    begin(&w, ORIGINAL);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN_OVER);
    begin(&w, COPY);
    assert_int_equal(step(&w, COPY), STARTS_OLD);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
    begin(&w, COPY);
    assert_int_equal(step(&w, COPY), STARTS_OLD);

    put_back(&w); /* The copy comes first: nobody can know. It is left behind by the original. */
    end(&w, ORIGINAL);
    begin(&w, COPY);
    assert_int_equal(step(&w, COPY), STARTS_TAKEN_OVER);
    assert_int_equal(step(&w, COPY), STARTS_TAKEN);
    begin(&w, ORIGINAL);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN_OVER);
    assert_int_equal(step(&w, COPY), STARTS_OLD);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
}

/* The answer to the second step is lost: both sides have one count for one mark all the same. */
static void a_start_that_could_not_count_itself_is_counted_by_the_next(void **state)
{
    struct starts_word word;
    struct world w;

    (void)state;
    world_init(&w);
    begin(&w, ORIGINAL);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN);
    word = say(&w, ORIGINAL);
    assert_int_equal(hear(&w, ORIGINAL, &word, false, false), STARTS_TAKEN);
    assert_int_equal(w.known.count, 1);
    assert_int_equal(w.places[ORIGINAL].kept.count, 0);
    end(&w, ORIGINAL);
    w.saved = w.known;
    let_in(&w, ORIGINAL);
    assert_int_equal(w.known.count, 2);
    assert_int_equal(w.places[ORIGINAL].kept.count, 2);
    end(&w, ORIGINAL);
    put_back(&w);
    begin(&w, ORIGINAL);
    assert_int_equal(step(&w, ORIGINAL), STARTS_TAKEN_OVER);
}

/* A manager's record, or a server's program, from before the count was told. */
static void counts_that_are_not_known(void **state)
{
    struct starts_known known = { .confirmed = 5 };
    struct starts_word word = { .mark = 9, .confirmed = 8, .count = 7 };
    bool by_pending;

    (void)state;
    assert_int_equal(starts_hear(&known, &word, &by_pending), STARTS_OLD);
    word.confirmed = 5;
    assert_int_equal(starts_hear(&known, &word, &by_pending), STARTS_TAKEN);
    word.confirms = true;
    assert_int_equal(starts_hear(&known, &word, &by_pending), STARTS_TAKEN);
    assert_int_equal(known.count, 8);
    word = (struct starts_word){ .mark = 10, .confirmed = 9 }; /* An older program. */
    assert_int_equal(starts_hear(&known, &word, &by_pending), STARTS_TAKEN);
    word.confirms = true;
    assert_int_equal(starts_hear(&known, &word, &by_pending), STARTS_TAKEN);
    assert_int_equal(known.count, 0);
    word = (struct starts_word){ .mark = 12, .confirmed = 11 };
    assert_int_equal(starts_hear(&known, &word, &by_pending), STARTS_OLD);
}

/* Programs from before show nothing: they are taken until a mark is confirmed. */
static void programs_from_before(void **state)
{
    const struct starts_word none = { 0 };
    struct starts_known known = { 0 };
    bool by_pending;
    struct world w;

    (void)state;
    assert_int_equal(starts_hear(&known, &none, &by_pending), STARTS_TAKEN);
    assert_int_equal(known.confirmed + known.tentative, 0);
    world_init(&w);
    let_in(&w, ORIGINAL);
    assert_int_equal(starts_hear(&w.known, &none, &by_pending), STARTS_OLD);
}

static void check_world(const struct world *w)
{
    assert_false(w->places[ORIGINAL].served && w->places[COPY].served && w->places[COPY].there);
    assert_false(!w->places[COPY].there && w->places[ORIGINAL].refused);
}

/* Saved, or put back, now and then. */
static void random_database(struct world *w, struct prng *prng)
{
    switch (prng_below(prng, 8)) {
    case 0:
        put_back(w);
        break;
    case 1:
    case 2:
        w->saved = w->known.count != 0 ? w->known : w->saved;
        break;
    default:
        break;
    }
}

static void random_step(struct world *w, struct prng *prng)
{
    unsigned place = (unsigned)prng_below(prng, PLACES);
    struct place *p = &w->places[place];
    uint32_t at = w->mail_count == 0 ? 0 : (uint32_t)prng_below(prng, w->mail_count);
    struct mail mail = w->mail[at];

    switch (prng_below(prng, 9)) {
    case 0:
        if (!w->places[COPY].there && !w->places[ORIGINAL].runs) {
            copy(w);
        }
        break;
    case 1:
        end(w, place);
        break;
    case 2:
    case 3:
        if (p->there && !p->runs) {
            begin(w, place);
        }
        break;
    case 4:
    case 5:
        if (p->runs && w->mail_count < MAIL_MAX) {
            w->mail[w->mail_count++] = (struct mail){ place, say(w, place) };
        }
        break;
    case 8:
        random_database(w, prng);
        break;
    default:
        if (w->mail_count > 0) {
            bool answered = prng_below(prng, 4) != 0;

            w->mail[at] = w->mail[--w->mail_count];
            (void)hear(w, mail.place, &mail.word, answered, prng_below(prng, 8) != 0);
        }
        break;
    }
}

/* Words arrive in any order, late and more than once; answers are lost, and not written; the
 * manager's database is put back. */
static void histories(void **state)
{
    unsigned served[PLACES] = { 0 };
    struct prng prng;

    (void)state;
    prng_seed(&prng, 1);
    for (unsigned history = 0; history < HISTORIES; history++) {
        struct world w;

        world_init(&w);
        let_in(&w, ORIGINAL); /* A state from before that has no count, and takes nobody over. */
        end(&w, ORIGINAL);
        w.saved = w.known;
        for (unsigned i = 0; i < STEPS; i++) {
            random_step(&w, &prng);
            check_world(&w);
        }
        served[ORIGINAL] += w.places[ORIGINAL].served;
        served[COPY] += w.places[COPY].served;
    }
    assert_true(served[ORIGINAL] > HISTORIES / 50 && served[COPY] > HISTORIES / 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_is_counted_when_it_is_let_in),
        cmocka_unit_test(an_old_copy_is_refused_for_ever),
        cmocka_unit_test(of_two_that_start_together_one_goes_on),
        cmocka_unit_test(who_was_overtaken_proposes_again),
        cmocka_unit_test(who_was_killed_is_let_in_again),
        cmocka_unit_test(a_pending_mark_is_known_and_not_used_again),
        cmocka_unit_test(a_manager_that_was_put_back_takes_its_servers_over),
        cmocka_unit_test(after_a_take_over_an_old_copy_is_refused),
        cmocka_unit_test(a_start_that_could_not_count_itself_is_counted_by_the_next),
        cmocka_unit_test(counts_that_are_not_known),
        cmocka_unit_test(programs_from_before),
        cmocka_unit_test(histories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
