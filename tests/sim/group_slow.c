/* Members of the group scenario that are alive, answer, and do what they do ten to a hundred times too slowly, or
 * not at all: their disks hang. In some histories nothing else goes wrong: there no call waits for long, and
 * nobody leaves the set who was not slow. */
#include "common/base/check.h"
#include "tests/sim/group.h"

enum { SLOW_MS_MAX = 5000, FACTOR_MAX = 100 };

uint64_t disk_delay_ms(struct sim *s, uint32_t node, uint64_t ms_max)
{
    struct world *w = world_of(s);
    uint64_t delay_ms = prng_below(&s->prng, ms_max);
    const struct member *m = node < w->members ? &w->member[node] : NULL;

    if (m == NULL || m->slow_until_ms <= s->now_ms) {
        return delay_ms;
    }
    return m->slow_factor == 0 ? m->slow_until_ms - s->now_ms + delay_ms
                               : (delay_ms + 1) * m->slow_factor;
}

void slow_draw(struct sim *s)
{
    struct world *w = world_of(s);
    bool nobody = sim_canary(s, "blames_nobody"), at_once = sim_canary(s, "blames_at_once");

    if (s->scripted || (s->canary != NULL && !nobody && !at_once)) {
        return; /* Other faults are looked for where other things go wrong. */
    }
    w->slow = prng_below(&s->prng, 2) == 0 || s->canary != NULL;
    w->only_slow = w->slow && w->members > 1 && (prng_below(&s->prng, 2) == 0 || s->canary != NULL);
    w->slow_limit_ms = nobody ? 0 : at_once ? 10 : 400 + prng_below(&s->prng, 1600);
    if (w->only_slow) {
        w->cuts = w->storms = false;
        s->options.crash_permille = s->options.power_permille = 0;
        s->options.partition_permille = s->options.loss_permille = 0;
        s->options.delay_ms_max = s->options.delay_ms_max % 30;
        sim_worth(s, WORTH_BORNE);
    }
}

/* What waited for the last slow member is over. */
static bool anybody_waits(struct sim *s)
{
    const struct world *w = world_of(s);

    for (uint32_t i = 0; i < CLIENTS; i++) {
        const struct client *c = &w->clients[i];

        if (c->call.act != ACT_NONE && s->now_ms > c->begun_ms + 2 * CLIENT_RETRY_MS) {
            return true;
        }
    }
    return false;
}

/* All are in the set, and joined. */
static bool all_are_there(struct sim *s)
{
    const struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->members; i++) {
        const struct replica *r = w->member[i].replica;

        if (r == NULL || r->group.joined == 0 || r->group.record.epoch != w->newest ||
            r->group.record.state != GROUP_CONSISTENT) {
            return false;
        }
    }
    return true;
}

/* Until what began while it was slow has ended. */
static uint64_t at_work_until_ms(const struct member *m)
{
    return m->slow_until_ms == 0 ? 0 : m->slow_until_ms + m->slow_factor * DISK_MS_MAX;
}

static bool anybody_is_slow(struct sim *s)
{
    const struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->members; i++) {
        if (at_work_until_ms(&w->member[i]) > s->now_ms) {
            return true;
        }
    }
    return false;
}

void slow_trouble(struct sim *s)
{
    struct world *w = world_of(s);
    uint32_t node;
    struct member *m;

    if (!w->slow || prng_below(&s->prng, 100) >= 10 ||
        (w->only_slow && (anybody_is_slow(s) || anybody_waits(s) || !all_are_there(s)))) {
        return;
    }
    node = (uint32_t)prng_below(&s->prng, w->members);
    m = &w->member[node];
    m->slow_until_ms = s->now_ms + 200 + prng_below(&s->prng, SLOW_MS_MAX);
    m->slow_until_ms = m->slow_until_ms < FAULTS_MS ? m->slow_until_ms : FAULTS_MS;
    m->slow_factor = prng_below(&s->prng, 2) == 0 ? 0 : 10 + prng_below(&s->prng, FACTOR_MAX - 9);
    sim_trace(s, node, "** its disk is slow, %llu times, until %llu",
              (unsigned long long)m->slow_factor, (unsigned long long)m->slow_until_ms);
    if (*decided_in(w, w->newest) == (group_set)(1U << node)) {
        sim_worth(s, WORTH_SLOW_ALONE);
    }
}

static bool was_slow(struct sim *s, const struct member *m)
{
    const struct world *w = world_of(s);
    uint64_t until_ms = at_work_until_ms(m) + w->slow_limit_ms + 1000;

    return m->slow_until_ms != 0 && (s->now_ms <= until_ms || w->decided_ms <= until_ms);
}

bool slow_decided(struct sim *s, group_set before, group_set set)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->members; i++) {
        struct member *m = &w->member[i];
        bool was = (before >> i & 1) != 0, is = (set >> i & 1) != 0;

        if (was && !is && was_slow(s, m)) {
            m->left_slow = true;
            sim_worth(s, WORTH_SLOW);
        } else if (was && !is && w->only_slow) {
            return sim_fail(s, "%s is left behind, and was not slow", s->nodes[i].name);
        }
        if (!was && is && m->left_slow) {
            m->left_slow = false;
            sim_worth(s, WORTH_SLOW_BACK);
        }
    }
    w->decided_ms = s->now_ms;
    return true;
}

bool slow_waits(struct sim *s, uint32_t node, uint64_t begun_ms)
{
    const struct world *w = world_of(s);
    uint64_t waited_ms = s->now_ms - begun_ms;
    uint64_t sweep_ms = w->swept_ms > begun_ms ? SWEEP_MS : 0;

    if (w->only_slow && waited_ms > w->slow_limit_ms + BEAR_MS + sweep_ms) {
        return sim_fail(s, "%s waits for %llu ms, and only one member at a time was slow",
                        s->nodes[node].name, (unsigned long long)waited_ms);
    }
    return true;
}
