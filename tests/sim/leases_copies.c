/* The clients' copies in the leases scenario: what they hold, hold back and give back.
 *
 * The states are src/client/coherence/lease_holder.c's, and what is held is meta_cache.c's: a
 * register is an inode there, and its value a time, which replies leave alone while it is dirty.
 * Here is their host, which does what lease_uv.c, recall_uv.c and behind_uv.c do: sends, waits, and
 * tells them what has happened. */
#include "common/base/check.h"
#include "tests/sim/leases.h"

#include <stdlib.h>

enum {
    SLOW_MS_MAX = 2000, /* A flush, or the kernel, takes so long, at times. */
    SOON_MS_MAX = 4,
    CACHED_MIN = 2 /* Registers for which a table has room, at least. */
};

/* As struct recall_work. */
struct returning
{
    struct lease_return back;
    uint64_t number;
    bool flushing; /* It waits for the manager to have what is dirty. */
};

static struct returning *returning_of(struct lease_return *back)
{
    return CONTAINER_OF(back, struct returning, back);
}

static uint32_t reg_of(const struct lease_return *back)
{
    return (uint32_t)(back->inode - REGISTER_INODE_FIRST);
}

/* NULL: it has been returned. */
static struct returning *find_returning(const struct client *c, uint64_t number)
{
    LIST_FOREACH(node, &c->holder.returns)
    {
        struct returning *r = returning_of(LIST_ENTRY(node, struct lease_return, node));

        if (r->number == number) {
            return r;
        }
    }
    return NULL;
}

static struct returning *returning_new(struct client *c)
{
    struct returning *r = calloc(1, sizeof(*r));

    CHECK(r != NULL);
    r->number = ++c->returns_begun;
    return r;
}

bool copy_is_relied_on(struct sim *s, uint32_t node, uint32_t reg, enum lease_mode mode)
{
    const struct client *c = &world_of(s)->clients[node];

    return s->nodes[node].up && lease_holder_left_ns(&c->holder, holder_clock_ns(s, node)) > 0 &&
           meta_cache_mode(c->cache, inode_of(reg)) >= mode;
}

/* ---- What is dirty ---- */

/* What may still have to be written, or may land, does not make room for others. */
static void pin(struct client *c, uint32_t reg)
{
    struct copy *copy = &c->copies[reg];
    bool pinned = copy->dirty || copy->reporting || copy->unsure || store_is_written(c, reg);

    if (pinned != copy->pinned) {
        copy->pinned = pinned;
        (pinned ? meta_cache_pin : meta_cache_unpin)(c->cache, inode_of(reg));
    }
}

static void set_dirty(struct client *c, uint32_t reg, bool dirty, bool reporting)
{
    struct copy *copy = &c->copies[reg];
    bool was = copy->dirty || copy->reporting, is = dirty || reporting;

    copy->dirty = dirty;
    copy->reporting = reporting;
    if (was != is) {
        meta_cache_dirty(c->cache, inode_of(reg), is ? 1 : -1);
    }
    pin(c, reg);
}

void copy_report(struct sim *s, uint32_t node, uint32_t reg)
{
    struct client *c = &world_of(s)->clients[node];
    struct lease_message m = { .word = WORD_REPORT, .reg = reg, .value = c->copies[reg].value };

    if (c->copies[reg].dirty && !c->copies[reg].reporting && c->conn != 0) {
        set_dirty(c, reg, false, true);
        client_send(s, node, &m);
    }
}

/* A write of its own that has happened, but was not answered yet: before or after, both are right.
 */
static bool is_own_write(const struct client *c, uint32_t reg, uint64_t value)
{
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        const struct lease_message *m = &c->pending[i].message;

        if (c->pending[i].active && m->word == WORD_WRITE && m->reg == reg && m->value == value) {
            return true;
        }
    }
    return false;
}

static void check_copy(struct sim *s, uint32_t node, uint32_t reg, uint64_t value)
{
    const struct world *w = world_of(s);
    const struct copy *copy = &w->clients[node].copies[reg];

    if (!copy->dirty && !copy->reporting && value != w->values[reg] &&
        !is_own_write(&w->clients[node], reg, w->values[reg])) {
        (void)sim_fail(s, "%s reads %llu from its copy of register %u; it is %llu",
                       s->nodes[node].name, (unsigned long long)value, reg,
                       (unsigned long long)w->values[reg]);
    }
}

static void write_copy(struct sim *s, uint32_t node, uint32_t reg, Morsel__Attr *attr)
{
    struct client *c = &world_of(s)->clients[node];

    attr->mtime_ns = c->copies[reg].value = ++world_of(s)->last_value;
    set_dirty(c, reg, true, c->copies[reg].reporting);
    sim_worth(s, WORTH_HELD_BACK);
    store_write_begin(s, node, reg);
}

bool copy_use(struct sim *s, uint32_t node, uint32_t reg, bool write)
{
    struct client *c = &world_of(s)->clients[node];
    const Morsel__Attr *attr = meta_cache_attr(c->cache, inode_of(reg));

    if (!copy_is_relied_on(s, node, reg, write ? LEASE_W : LEASE_R) || attr == NULL) {
        return false;
    }
    if (write) {
        write_copy(s, node, reg, meta_cache_attr_mut(c->cache, inode_of(reg)));
    } else {
        check_copy(s, node, reg, attr->mtime_ns);
        sim_worth(s, WORTH_CACHED_READ);
    }
    return true;
}

/* ---- Events of a lease on its way back ---- */

static void feed_back(struct sim *s, uint32_t node, struct returning *r,
                      struct lease_holder_event event)
{
    event.back = &r->back;
    event.may_land = store_is_written(&world_of(s)->clients[node], reg_of(&r->back));
    holder_step(s, node, event);
}

static void feed_each(struct sim *s, uint32_t node, enum lease_holder_event_type type)
{
    LIST_FOREACH_SAFE(at, &world_of(s)->clients[node].holder.returns)
    {
        feed_back(s, node, returning_of(LIST_ENTRY(at, struct lease_return, node)),
                  (struct lease_holder_event){ .type = type });
    }
}

void copies_recall(struct sim *s, uint32_t node, const struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];
    struct lease_holder_event event = { .type = HOLDER_RECALL, .inode = inode_of(m->reg) };

    event.recall = m->recall;
    event.keeps = m->mode;
    event.granted = meta_cache_mode(c->cache, event.inode);
    event.written = prng_below(&s->prng, 2) == 0;
    if (lease_holder_returning(&c->holder, event.inode) == NULL &&
        (!s->faulty || world_of(s)->calm || prng_below(&s->prng, 100) > 0)) {
        event.room = &returning_new(c)->back;
    }
    holder_step(s, node, event);
}

static void give_back_evicted(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];
    struct meta_cache_evicted evicted;

    while (meta_cache_pop_evicted(c->cache, &evicted)) {
        sim_worth(s, WORTH_EVICTED);
        holder_step(s, node,
                    (struct lease_holder_event){ .type = HOLDER_EVICTED,
                                                 .inode = evicted.inode,
                                                 .room = &returning_new(c)->back });
    }
}

/* Those that wait for the manager to have the register's value. */
static void flush_on(struct sim *s, uint32_t node, uint32_t reg)
{
    const struct client *c = &world_of(s)->clients[node];

    LIST_FOREACH_SAFE(at, &c->holder.returns)
    {
        struct returning *r = returning_of(LIST_ENTRY(at, struct lease_return, node));

        if (!r->flushing || reg_of(&r->back) != reg) {
            continue;
        }
        copy_report(s, node, reg);
        if (!c->copies[reg].dirty && !c->copies[reg].reporting) {
            r->flushing = false;
            feed_back(s, node, r,
                      (struct lease_holder_event){ .type = HOLDER_FLUSHED,
                                                   .no_memory = prng_below(&s->prng, 16) == 0 });
        }
    }
}

static void run_flush(struct sim *s, uint32_t node, uint64_t number)
{
    struct returning *r = find_returning(&world_of(s)->clients[node], number);

    r->flushing = true;
    flush_on(s, node, reg_of(&r->back));
}

static void run_dropped(struct sim *s, uint32_t node, uint64_t number)
{
    feed_back(s, node, find_returning(&world_of(s)->clients[node], number),
              (struct lease_holder_event){ .type = HOLDER_KERNEL_DROPPED });
}

/* At once, soon, or rather late: for a canary that wants holders who are fenced, later than that. */
static void soon(struct sim *s, uint32_t node, sim_run run, uint64_t number)
{
    uint64_t dice = prng_below(&s->prng, 8);

    if (dice < 2) {
        run(s, node, number);
    } else {
        uint64_t slow_ms = sim_canary(s, "frees_before_told") ? 3 * LEASE_MS : SLOW_MS_MAX;

        sim_after(s, node, prng_below(&s->prng, dice == 2 ? slow_ms : SOON_MS_MAX), run, number);
    }
}

/* ---- What the core says ---- */

static void send_word(struct sim *s, uint32_t node, const struct lease_return *back, enum word word)
{
    struct lease_message m = { .word = word, .reg = reg_of(back), .recall = back->recall };

    m.mode = word == WORD_RETURN ? back->keeps : LEASE_NONE;
    client_send(s, node, &m);
}

static void end_return(struct sim *s, uint32_t node, struct returning *r)
{
    sim_trace(s, node, "gives register %u back (%llu), keeps %d", reg_of(&r->back),
              (unsigned long long)r->back.recall, (int)r->back.keeps);
    meta_cache_set_recalling(world_of(s)->clients[node].cache, r->back.inode, false);
    send_word(s, node, &r->back, WORD_RETURN);
    free(r);
}

void copies_carry_out(struct sim *s, uint32_t node, const struct lease_holder_action *action)
{
    struct meta_cache *cache = world_of(s)->clients[node].cache;
    struct returning *r = returning_of(action->back);

    switch (action->type) {
    case HOLDER_FORGET:
        sim_trace(s, node, "forgets register %u (%llu) but for %d", reg_of(&r->back),
                  (unsigned long long)r->back.recall, (int)r->back.keeps);
        meta_cache_set_recalling(cache, r->back.inode, true);
        meta_cache_drop(cache, r->back.inode, r->back.keeps);
        break;
    case HOLDER_FLUSH:
        soon(s, node, run_flush, r->number);
        break;
    case HOLDER_DROP:
        soon(s, node, run_dropped, r->number);
        break;
    case HOLDER_RETURN:
        end_return(s, node, r);
        break;
    default:
        CHECK(action->type == HOLDER_BUSY);
        if (!sim_canary(s, "never_busy") && !sim_canary(s, "frees_before_told")) {
            send_word(s, node, &r->back, WORD_BUSY);
        }
    }
}

/* ---- What the manager says ---- */

void copies_learn(struct sim *s, uint32_t node, const struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];
    Morsel__Attr attr = MORSEL__ATTR__INIT;

    attr.inode = inode_of(m->reg);
    attr.mtime_ns = m->value;
    meta_cache_learn(c->cache, &attr,
                     lease_holder_learned(&c->holder, attr.inode,
                                          meta_cache_mode(c->cache, attr.inode), m->mode),
                     NULL);
    give_back_evicted(s, node);
}

void copies_reported(struct sim *s, uint32_t node, const struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];

    if (c->copies[m->reg].reporting) {
        set_dirty(c, m->reg, c->copies[m->reg].dirty, false);
        copies_learn(s, node, m);
        flush_on(s, node, m->reg);
    }
}

struct naming
{
    const struct client *client;
    struct lease_message *message;
};

static void name_one(void *data, inode_id inode, enum lease_mode mode)
{
    struct naming *naming = data;

    naming->message->held[inode - REGISTER_INODE_FIRST] =
        lease_holder_named(&naming->client->holder, inode, mode);
}

void copies_fill_join(struct sim *s, uint32_t node, struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];
    struct naming naming = { c, m };

    meta_cache_each(c->cache, name_one, &naming);
    LIST_FOREACH(at, &c->holder.returns)
    {
        const struct lease_return *back = LIST_ENTRY(at, struct lease_return, node);

        if (lease_return_is_named_alone(back)) {
            name_one(&naming, back->inode, back->granted);
        }
    }
}

/* What was dirty under a lease that is gone must not be written any more. */
static void lose_dirty(struct sim *s, uint32_t node, uint32_t reg)
{
    struct client *c = &world_of(s)->clients[node];
    enum lease_mode mode = meta_cache_mode(c->cache, inode_of(reg));

    if (lease_holder_named(&c->holder, inode_of(reg), mode) != LEASE_W) {
        store_lose(s, node, reg);
        set_dirty(c, reg, false, false);
        flush_on(s, node, reg);
    }
}

void copies_joined(struct sim *s, uint32_t node, const struct lease_message *m)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t reg = 0; reg < REGISTERS; reg++) {
        if (m->lost[reg]) {
            holder_step(s, node,
                        (struct lease_holder_event){ .type = HOLDER_LOST, .inode = inode_of(reg) });
            meta_cache_drop(c->cache, inode_of(reg), LEASE_NONE);
        }
    }
    for (uint32_t reg = 0; reg < REGISTERS; reg++) {
        lose_dirty(s, node, reg);
    }
}

/* ---- Life ---- */

void copies_settle(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t reg = 0; reg < REGISTERS; reg++) {
        c->copies[reg].unsure &= !lease_holder_is_sure(&c->holder, holder_clock_ns(s, node));
        pin(c, reg);
    }
    feed_each(s, node, HOLDER_LOOKED);
}

void copies_tick(struct sim *s, uint32_t node)
{
    copies_settle(s, node);
    feed_each(s, node, HOLDER_BACK_TICK);
}

void copies_client_down(struct client *c)
{
    for (uint32_t reg = 0; reg < REGISTERS; reg++) {
        set_dirty(c, reg, c->copies[reg].dirty || c->copies[reg].reporting, false);
    }
}

void copies_client_up(struct sim *s, uint32_t node)
{
    for (uint32_t reg = 0; reg < REGISTERS; reg++) {
        flush_on(s, node, reg);
    }
}

void copies_client_start(struct sim *s, uint32_t node)
{
    struct client *c = &world_of(s)->clients[node];

    c->cache = meta_cache_new(CACHED_MIN + (uint32_t)prng_below(&s->prng, REGISTERS), 1);
    CHECK(c->cache != NULL);
}

void copies_client_free(struct client *c)
{
    if (c->cache != NULL) {
        LIST_FOREACH_SAFE(at, &c->holder.returns)
        {
            free(returning_of(LIST_ENTRY(at, struct lease_return, node)));
        }
        meta_cache_free(c->cache);
    }
}
