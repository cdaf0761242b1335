/* The manager of the votes scenario: a host of meta/cluster/voters.h. Who is to vote changes, and
 * servers come back under another id. */
#include "common/base/check.h"
#include "tests/sim/votes.h"

#include <stdlib.h>

static struct manager *manager_of(struct sim *s)
{
    return &world_of(s)->manager;
}

static void step(struct sim *s, struct voters_event event);

/* ---- Who is to vote ---- */

static bool is_in(const struct voter_set *set, voter_id id)
{
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* The id of a node as far as the manager knows: what it has told, or under which it votes. */
static voter_id known_id(struct sim *s, uint32_t node)
{
    const struct manager *m = manager_of(s);
    const struct voter_set *set = &m->voters.now.set;

    for (uint32_t i = 0; m->heard[node] == 0 && i < set->count; i++) {
        if (node_of_id(set->ids[i]) == node) {
            return set->ids[i];
        }
    }
    return m->heard[node];
}

static void want(struct sim *s)
{
    struct manager *m = manager_of(s);
    struct voter_set wanted = { .version = 1 };
    struct voters_event event = { .type = VOTERS_WANT };

    for (uint32_t node = 0; node < world_of(s)->node_count; node++) {
        voter_id id = known_id(s, node);

        if ((world_of(s)->wanted >> node & 1) != 0 && id != 0) {
            wanted.ids[wanted.count++] = id; /* Ids ascend with their nodes. */
        }
    }
    for (uint32_t i = 0; i < m->voters.now.set.count; i++) {
        voter_id id = m->voters.now.set.ids[i];

        if (m->heard[node_of_id(id)] != 0 && m->heard[node_of_id(id)] != id) {
            event.want.gone = id;
        }
    }
    event.want.set = &wanted;
    step(s, event);
}

static void run_want(struct sim *s, uint32_t node, uint64_t number)
{
    struct world *w = world_of(s);

    (void)number;
    if (s->faulty) {
        w->wanted ^= 2U << prng_below(&s->prng, w->node_count - 1);
        sim_after(s, node, 1 + prng_below(&s->prng, 1500), run_want, 0);
        want(s);
    }
}

void manager_heartbeat(struct sim *s, uint32_t from, voter_id id)
{
    struct manager *m = manager_of(s);
    struct vote_message answer = { .word = WORD_SET };

    /* A late one of an earlier id says nothing: ids are drawn ascending. */
    if (m->heard[from] < id) {
        m->heard[from] = id;
        want(s);
    }
    answer.version = m->voters.now.set.version;
    if (m->voters.state != VOTERS_COMMITTING) { /* Then it is not on disk yet. */
        sim_send_datagram(s, MANAGER, from, &answer, sizeof(answer));
    }
}

/* ---- The change ---- */

static void run_written(struct sim *s, uint32_t node, uint64_t number)
{
    struct manager *m = manager_of(s);
    struct voters_event event = { .type = VOTERS_PERSISTED };

    (void)node;
    (void)number;
    m->is_writing = false;
    event.failed = s->faulty && prng_below(&s->prng, 1000) < world_of(s)->full_permille;
    if (!event.failed) {
        m->disk = m->writing;
    }
    step(s, event);
}

static void publish(struct sim *s)
{
    struct world *w = world_of(s);
    const struct voter_set *set = &manager_of(s)->voters.now.set;

    CHECK(set->version < SETS_MAX && w->sets[set->version] == NULL);
    w->sets[set->version] = malloc(sizeof(*set));
    CHECK(w->sets[set->version] != NULL);
    *w->sets[set->version] = *set;
    sim_trace(s, MANAGER, "voter set %llu of %u is in effect", (unsigned long long)set->version,
              set->count);
}

static void send_page(struct sim *s, const struct voters_action *action)
{
    struct vote_message m = { .word = WORD_CHANGE };

    m.change.voter = action->voter;
    m.change.version = action->version;
    m.change.after = action->after;
    m.change.carry = action->type == VOTERS_CARRY;
    if (m.change.carry) {
        m.change.count =
            voter_page(manager_of(s)->voters.gathered, &action->after, PAGE_MAX, m.change.records);
        for (uint32_t i = 0; i < m.change.count; i++) {
            if (m.change.records[i].ballot.round > 0) {
                sim_worth(s, WORTH_CARRIED);
            }
        }
    }
    sim_send_datagram(s, MANAGER, node_of_id(action->voter), &m, sizeof(m));
}

static void perform(struct sim *s, const struct voters_action *action)
{
    struct manager *m = manager_of(s);

    switch (action->type) {
    case VOTERS_PERSIST:
        CHECK(!m->is_writing);
        m->is_writing = true;
        m->writing = m->voters.now;
        sim_after(s, MANAGER, 1 + prng_below(&s->prng, SYNC_MS_MAX), run_written, 0);
        break;
    case VOTERS_READ:
    case VOTERS_CARRY:
        send_page(s, action);
        break;
    case VOTERS_CHANGED:
        sim_worth(s, WORTH_CHANGED);
        publish(s);
        break;
    }
}

static void run_tick(struct sim *s, uint32_t node, uint64_t number)
{
    (void)node;
    (void)number;
    manager_of(s)->armed_ms = UINT64_MAX;
    step(s, (struct voters_event){ .type = VOTERS_TICK });
}

static void step(struct sim *s, struct voters_event event)
{
    struct manager *m = manager_of(s);
    enum voters_state before = m->voters.state;
    struct voters_actions out;
    uint64_t due_ms;

    event.now_ms = sim_clock_ms(s, MANAGER);
    out.count = 0;
    voters_step(&m->voters, &event, &out);
    if (before == VOTERS_READING && m->voters.state == VOTERS_PLANNING) {
        sim_worth(s, WORTH_GIVEN_UP_PLAN);
    }
    for (uint32_t i = 0; i < out.count; i++) {
        perform(s, &out.items[i]);
    }
    due_ms = voters_deadline_ms(&m->voters);
    if (due_ms < m->armed_ms) {
        m->armed_ms = due_ms;
        sim_after(s, MANAGER, due_ms > event.now_ms ? due_ms - event.now_ms : 0, run_tick, 0);
    }
}

void manager_answer(struct sim *s, const struct vote_message *m)
{
    const struct change_message *change = &m->change;
    struct voters_event event = { .type = VOTERS_ANSWERED };

    event.answered.answer.type = change->answer;
    event.answered.answer.voter = change->voter;
    event.answered.answer.set_version = change->set_version;
    event.answered.version = change->version;
    event.answered.carry = change->carry;
    event.answered.after = change->after;
    event.answered.records = change->records;
    event.answered.count = sim_canary(s, "carryover") ? 0 : change->count;
    if (is_in(&manager_of(s)->voters.now.set, change->voter) ||
        is_in(&manager_of(s)->voters.now.next, change->voter)) {
        step(s, event);
    }
}

/* ---- Life ---- */

void manager_start(struct sim *s)
{
    struct manager *m = manager_of(s);

    voters_init(&m->voters, &m->disk, PAGE_MAX);
    m->heard[MANAGER] = world_of(s)->nodes[MANAGER].voter.id;
    if (world_of(s)->sets[m->disk.set.version] == NULL) {
        publish(s); /* On disk it was, and nobody had heard of it. */
    }
    m->ready = true;
    m->armed_ms = UINT64_MAX;
    step(s, (struct voters_event){ .type = VOTERS_TICK });
    sim_after(s, MANAGER, 1 + prng_below(&s->prng, 1500), run_want, 0);
}

void manager_stop(struct sim *s)
{
    struct manager *m = manager_of(s);

    if (m->is_writing && prng_below(&s->prng, 2) == 0) {
        m->disk = m->writing;
    }
    m->is_writing = m->ready = false;
    memset(m->heard, 0, sizeof(m->heard));
    voters_free(&m->voters);
}
