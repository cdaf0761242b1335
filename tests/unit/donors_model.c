/* Benefactors: long histories beside a model that keeps a row for each of a few directories and looks at all of them at
 * every step. */
#include "common/base/check.h"
#include "common/base/prng.h"
#include "common/base/status.h"
#include "meta/cluster/donors.h"
#include "tests/lib/seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LOOK_MS = 60000, DIRECTORIES = 9, INSTANCES = 4, STEPS = 20000, SEEDS = 12 };

/* What has become of a directory; its number is its token. */
struct row
{
    bool known, durable, written; /* By the manager that lives now; on the disk. */
    donor_id id;
    enum donor_state state;
    bool connected, heard;
    uint64_t instance, tag, due_ms, heard_ms, since_ms;
    uint64_t donated, used;
};

struct model
{
    struct donors d;
    struct donors_actions out;
    uint64_t now_ms;
    struct prng prng;
    struct row rows[DIRECTORIES];
    donor_id next;
    uint64_t tags;
    struct donors_actions expected;
    uint32_t counts[8]; /* Of each action: a history without some proves little. */
};

static struct donor_record record_of(uint32_t directory, donor_id id)
{
    struct donor_record record = { .id = id };

    memcpy(record.token, &directory, sizeof(directory));
    return record;
}

static void expect(struct model *m, int type, uint64_t tag, donor_id id, int status)
{
    m->expected.items[m->expected.count++] =
        (struct donors_action){ .type = type, .tag = tag, .id = id, .status = status };
}

static void set_state(struct model *m, struct row *row, enum donor_state state_)
{
    if (row->state != state_) {
        row->since_ms = m->now_ms;
    }
    row->state = state_;
    row->connected = row->connected && state_ != DONOR_AWAY;
}

static void is_heard(struct model *m, struct row *row)
{
    if (!row->heard || row->state == DONOR_AWAY) {
        expect(m, DONORS_CAME, 0, row->id, 0);
    }
    row->heard = true;
    set_state(m, row, DONOR_HERE);
    row->connected = true;
    row->heard_ms = m->now_ms;
    row->due_ms = m->now_ms + LOOK_MS;
}

static struct row *draw_row(struct model *m)
{
    return &m->rows[prng_below(&m->prng, DIRECTORIES)];
}

/* Mostly the right one. */
static donor_id draw_id(struct model *m, const struct row *row)
{
    uint64_t draw = prng_below(&m->prng, 20);

    return draw < 8 ? 0 : draw < 18 ? row->id : (donor_id)prng_below(&m->prng, m->next + 2);
}

static uint64_t draw_instance(struct model *m, const struct row *row)
{
    return prng_below(&m->prng, 3) > 0 && row->instance != 0 ? row->instance
                                                             : 1 + prng_below(&m->prng, INSTANCES);
}

/* Given once, and nobody's now. */
static bool is_forgotten(const struct model *m, donor_id id)
{
    bool taken = false;

    for (uint32_t i = 0; i < DIRECTORIES; i++) {
        taken |= m->rows[i].known && m->rows[i].id == id;
    }
    return id < m->next && !taken;
}

static int verdict_on_join(const struct model *m, const struct row *row, donor_id id,
                           uint64_t instance)
{
    if (!row->known) {
        return id == 0 || is_forgotten(m, id) ? 0 : MORSEL_INVAL;
    }
    if (id != 0 && id != row->id && !is_forgotten(m, id)) {
        return MORSEL_INVAL;
    }
    return (row->connected || !row->durable) && row->instance != instance ? MORSEL_BUSY : 0;
}

static void model_join(struct model *m, struct donors_event *event)
{
    struct row *row = draw_row(m);
    uint32_t directory = (uint32_t)(row - m->rows);
    donor_id id = draw_id(m, row);
    int verdict;

    event->type = DONORS_JOIN;
    event->join.tag = ++m->tags;
    event->join.record = record_of(directory, id);
    event->join.instance = draw_instance(m, row);
    event->join.report.donated = prng_below(&m->prng, 100);
    event->join.report.used = prng_below(&m->prng, 100);
    verdict = verdict_on_join(m, row, id, event->join.instance);
    if (verdict != 0) {
        expect(m, DONORS_REFUSE, m->tags, 0, verdict);
        return;
    }
    row->instance = event->join.instance;
    row->donated = event->join.report.donated;
    row->used = event->join.report.used;
    if (row->durable) {
        expect(m, DONORS_WELCOME, m->tags, row->id, 0);
        is_heard(m, row);
        return;
    }
    if (row->known) {
        expect(m, DONORS_REFUSE, row->tag, 0, MORSEL_AGAIN);
    } else {
        row->known = true;
        row->id = m->next++;
        expect(m, DONORS_PERSIST, 0, row->id, 0);
    }
    row->tag = m->tags;
}

/* The disk answers for one that waits, if there is one. */
static void model_persisted(struct model *m, struct donors_event *event)
{
    struct row *row = draw_row(m);

    if (!row->known || row->durable) {
        return;
    }
    event->type = DONORS_PERSISTED;
    event->persisted.id = row->id;
    event->persisted.status = prng_below(&m->prng, 10) == 0 ? MORSEL_IO : 0;
    if (event->persisted.status != 0) {
        expect(m, DONORS_REFUSE, row->tag, 0, MORSEL_IO);
        *row = (struct row){ .known = false };
        return;
    }
    row->durable = row->written = true;
    expect(m, DONORS_WELCOME, row->tag, row->id, 0);
    is_heard(m, row);
}

static void model_report(struct model *m, struct donors_event *event)
{
    struct row *row = draw_row(m);

    event->type = DONORS_REPORT;
    event->report.tag = ++m->tags;
    event->report.id = row->known ? row->id : m->next;
    event->report.instance = draw_instance(m, row);
    event->report.leaves = prng_below(&m->prng, 8) == 0;
    event->report.report.donated = prng_below(&m->prng, 100);
    event->report.report.used = prng_below(&m->prng, 100);
    if (!row->known || !row->connected || row->instance != event->report.instance) {
        expect(m, DONORS_REFUSE, m->tags, 0, MORSEL_NO_SESSION);
        return;
    }
    row->donated = event->report.report.donated;
    row->used = event->report.report.used;
    expect(m, DONORS_ALIVE, m->tags, row->id, 0);
    if (event->report.leaves) {
        row->heard_ms = m->now_ms;
        set_state(m, row, DONOR_AWAY);
        expect(m, DONORS_WENT, 0, row->id, 0);
    } else {
        is_heard(m, row);
    }
}

static void model_gone(struct model *m, struct donors_event *event)
{
    struct row *row = draw_row(m);

    event->type = DONORS_GONE;
    event->gone.id = row->id;
    event->gone.instance = draw_instance(m, row);
    if (row->known && row->connected && row->instance == event->gone.instance) {
        row->connected = false;
        set_state(m, row, DONOR_DOUBTED);
        row->due_ms = m->now_ms + DONORS_ANSWER_MS;
    }
}

static void model_tick(struct model *m, struct donors_event *event)
{
    event->type = DONORS_TICK;
    for (uint32_t i = 0; i < DIRECTORIES; i++) {
        struct row *row = &m->rows[i];

        if (row->state == DONOR_AWAY || row->due_ms > m->now_ms) {
            continue;
        }
        if (row->state == DONOR_HERE) {
            expect(m, DONORS_ASK, 0, row->id, 0);
            set_state(m, row, DONOR_DOUBTED);
            row->due_ms = m->now_ms + DONORS_ANSWER_MS;
            continue;
        }
        if (row->connected) {
            expect(m, DONORS_HANG_UP, 0, row->id, 0);
        }
        if (row->heard) {
            expect(m, DONORS_WENT, 0, row->id, 0);
        }
        set_state(m, row, DONOR_AWAY);
    }
}

/* Who was not on the disk yet never was; its number may be given again, for nobody has heard it. */
static void restart(struct model *m)
{
    struct donors *d = &m->d;
    donor_id last = 0;

    donors_free(d);
    donors_init(d, LOOK_MS);
    for (uint32_t i = 0; i < DIRECTORIES; i++) {
        struct row *row = &m->rows[i];
        const struct donor_record record = record_of(i, row->id);

        if (!row->written) {
            *row = (struct row){ .known = false };
            continue;
        }
        last = row->id > last ? row->id : last;
        *row = (struct row){ .known = true,
                             .durable = true,
                             .written = true,
                             .id = row->id,
                             .state = DONOR_DOUBTED,
                             .heard_ms = m->now_ms,
                             .since_ms = m->now_ms,
                             .due_ms = m->now_ms + LOOK_MS };
        assert_int_equal(donors_add(d, &record, m->now_ms), 0);
    }
    m->next = last + 1;
    donors_check(d);
}

/* Those of one moment come in any order. */
static int compare_actions(const void *a, const void *b)
{
    const struct donors_action *x = a, *y = b;

    return x->id != y->id ? (x->id < y->id ? -1 : 1) : (int)x->type - (int)y->type;
}

static void agree_on_actions(struct model *m, bool sorted)
{
    struct donors_actions *out = &m->out;

    if (sorted) {
        qsort(out->items, out->count, sizeof(out->items[0]), compare_actions);
        qsort(m->expected.items, m->expected.count, sizeof(out->items[0]), compare_actions);
    }
    assert_int_equal(out->count, m->expected.count);
    for (uint32_t i = 0; i < out->count; i++) {
        const struct donors_action *is = &out->items[i], *due = &m->expected.items[i];

        assert_int_equal(is->type, due->type);
        assert_int_equal(is->tag, due->tag);
        assert_int_equal(is->id, due->id);
        assert_int_equal(is->status, due->status);
        m->counts[is->type]++;
    }
}

static void agree_on_rows(const struct model *m)
{
    uint64_t donated = 0, used = 0, due_ms = UINT64_MAX;
    uint32_t count = 0, here = 0;

    for (uint32_t i = 0; i < DIRECTORIES; i++) {
        const struct row *row = &m->rows[i];
        const struct donor *donor = row->known ? donors_find(&m->d, row->id) : NULL;

        if (!row->known) {
            continue;
        }
        count++;
        assert_non_null(donor);
        assert_int_equal(donor->state, row->state);
        assert_int_equal(donor->connected, row->connected);
        if (row->durable) {
            assert_int_equal(donor->since_ms, row->since_ms);
            assert_int_equal(donor->heard_ms, row->heard_ms);
        }
        here += row->state == DONOR_HERE;
        donated += row->state == DONOR_HERE ? row->donated : 0;
        used += row->state == DONOR_HERE ? row->used : 0;
        due_ms = row->state != DONOR_AWAY && row->due_ms < due_ms ? row->due_ms : due_ms;
    }
    assert_int_equal(m->d.count, count);
    assert_int_equal(m->d.here, here);
    assert_int_equal(m->d.donated, donated);
    assert_int_equal(m->d.used, used);
    assert_true(donors_deadline_ms(&m->d) == due_ms);
}

static void draw_step(struct model *m)
{
    static void (*const draws[])(struct model *, struct donors_event *) = {
        model_join,   model_join,   model_join,   model_persisted, model_persisted, model_report,
        model_report, model_report, model_report, model_gone,      model_tick,      model_tick
    };
    void (*draw)(struct model *, struct donors_event *) =
        draws[prng_below(&m->prng, ARRAY_COUNT(draws))];
    struct donors_event event = { .type = DONORS_TICK };

    m->expected.count = 0;
    m->now_ms += prng_below(&m->prng, 4) == 0 ? prng_below(&m->prng, 20000) : 0;
    draw(m, &event);
    if (event.type == DONORS_TICK && draw != model_tick) {
        return; /* There was nothing to do. */
    }
    event.now_ms = m->now_ms;
    m->out.count = 0;
    donors_step(&m->d, &event, &m->out);
    donors_check(&m->d);
    agree_on_actions(m, draw == model_tick);
    agree_on_rows(m);
}

static void donors_agree_with_a_model(void **s)
{
    const uint64_t first = test_seed_first();

    (void)s;
    for (uint64_t seed = first; seed < first + SEEDS; seed++) {
        struct model m = { .now_ms = 1000, .next = 1 };

        donors_init(&m.d, LOOK_MS);
        prng_seed(&m.prng, seed);
        for (uint32_t i = 0; i < STEPS; i++) {
            draw_step(&m);
            if (prng_below(&m.prng, 400) == 0) {
                restart(&m);
                agree_on_rows(&m);
            }
            if (prng_below(&m.prng, 2000) == 0) { /* Another cluster. */
                donors_free(&m.d);
                donors_init(&m.d, LOOK_MS);
                memset(m.rows, 0, sizeof(m.rows));
                m.next = 1;
            }
        }
        for (int type = DONORS_PERSIST; type <= DONORS_WENT; type++) {
            assert_true(m.counts[type] > 20);
        }
        donors_free(&m.d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(donors_agree_with_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
