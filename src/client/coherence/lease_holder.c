/* The client's half of the lease protocol (lease_holder.h). */
#include "client/coherence/lease_holder.h"

#include "common/base/check.h"

enum {
    NS_PER_MS = 1000000,
    ASK_AGAIN_MS = 1000 /* A question about the session that is not answered is asked again. */
};

#define TO(state) (1U << (state))

static const struct
{
    const char *name;
    unsigned may_become;
} standings[HOLDER_STANDINGS] = {
    [HOLDER_APART] = { "apart", TO(HOLDER_JOINED) },
    [HOLDER_JOINED] = { "joined", TO(HOLDER_LATE) | TO(HOLDER_APART) },
    [HOLDER_LATE] = { "late", TO(HOLDER_JOINED) | TO(HOLDER_APART) },
}, return_states[RETURN_STATES] = {
    [RETURN_NEW] = { "new", TO(RETURN_FLUSHING) },
    [RETURN_FLUSHING] = { "flushing", TO(RETURN_UNFLUSHED) | TO(RETURN_SETTLING) },
    [RETURN_UNFLUSHED] = { "unflushed", TO(RETURN_FLUSHING) },
    [RETURN_SETTLING] = { "settling", TO(RETURN_DROPPING) },
    [RETURN_DROPPING] = { "dropping", TO(RETURN_LOWERED) | TO(RETURN_RETURNED) },
    [RETURN_LOWERED] = { "lowered", TO(RETURN_DROPPING) },
    [RETURN_RETURNED] = { "returned", 0 },
};

const char *lease_holder_standing_name(enum lease_holder_standing standing)
{
    CHECK(standing < HOLDER_STANDINGS);
    return standings[standing].name;
}

const char *lease_return_state_name(enum lease_return_state state)
{
    CHECK(state < RETURN_STATES);
    return return_states[state].name;
}

/* ---- Invariants ---- */

static void check_holder(const struct lease_holder *h)
{
    CHECK(h->standing < HOLDER_STANDINGS);
    CHECK(h->until_ns <= h->longest_ns);
    CHECK(h->unsure_until_ns <= h->longest_ns);
    CHECK(h->joins_asked <= h->asked);
    CHECK(h->lease_ms > 0 && h->lease_ms <= LEASE_MS_MAX);
}

static void check_return(const struct lease_return *back)
{
    CHECK(back->state > RETURN_NEW && back->state < RETURN_RETURNED);
    CHECK(!list_empty(&back->node));
    CHECK(back->keeps <= back->granted || back->granted == LEASE_NONE);
    CHECK_IMPLIES(back->state == RETURN_LOWERED, back->keeps == LEASE_NONE);
}

void lease_holder_check(const struct lease_holder *h)
{
    check_holder(h);
    LIST_FOREACH(node, &h->returns)
    {
        const struct lease_return *back = LIST_ENTRY(node, struct lease_return, node);

        check_return(back);
        for (struct list *other = node->next; other != &h->returns; other = other->next) {
            const struct lease_return *second = LIST_ENTRY(other, struct lease_return, node);

            CHECK(second->inode != back->inode || second->recall == 0 || back->recall == 0);
        }
    }
}

/* ---- What is asked of it ---- */

void lease_holder_init(struct lease_holder *h)
{
    *h = (struct lease_holder){ .standing = HOLDER_APART, .lease_ms = LEASE_MS };
    list_init(&h->returns);
}

uint32_t lease_holder_lease_period_ms(const struct lease_holder *h)
{
    return h->lease_ms - lease_margin_ms(h->lease_ms);
}

struct lease_return *lease_holder_returning(const struct lease_holder *h, inode_id inode)
{
    LIST_FOREACH(node, &h->returns)
    {
        struct lease_return *back = LIST_ENTRY(node, struct lease_return, node);

        if (back->inode == inode) {
            return back;
        }
    }
    return NULL;
}

void lease_holder_each_return(struct lease_holder *h,
                              void (*each)(void *data, struct lease_return *back), void *data)
{
    LIST_FOREACH_SAFE(node, &h->returns)
    {
        each(data, LIST_ENTRY(node, struct lease_return, node));
    }
}

enum lease_mode lease_holder_named(const struct lease_holder *h, inode_id inode,
                                   enum lease_mode held)
{
    const struct lease_return *back = lease_holder_returning(h, inode);

    return back != NULL && back->granted > held ? back->granted : held;
}

enum lease_mode lease_holder_learned(const struct lease_holder *h, inode_id inode,
                                     enum lease_mode held, enum lease_mode said)
{
    return said <= held || !lease_holder_is_joined(h) || lease_holder_returning(h, inode) != NULL
               ? held
               : said;
}

bool lease_return_is_named_alone(const struct lease_return *back)
{
    return back->granted != LEASE_NONE && back->keeps == LEASE_NONE;
}

/* ---- The holder as such ---- */

static struct lease_holder_action *act(struct lease_holder_actions *out,
                                       enum lease_holder_action_type type)
{
    struct lease_holder_action *action = &out->items[out->count];

    CHECK(out->count < HOLDER_ACTIONS_MAX);
    out->count++;
    *action = (struct lease_holder_action){ .type = type };
    return action;
}

static void become(struct lease_holder *h, enum lease_holder_standing standing)
{
    if (h->standing != standing) {
        CHECK((standings[h->standing].may_become & TO(standing)) != 0);
        h->standing = standing;
    }
}

/* Well within the lease period. */
static uint32_t ask_again_ms(const struct lease_holder *h)
{
    uint32_t renew_ms = lease_renew_ms(h->lease_ms);

    return renew_ms < ASK_AGAIN_MS ? renew_ms : ASK_AGAIN_MS;
}

static void ask(struct lease_holder *h, bool join, uint64_t now_ms,
                struct lease_holder_actions *out)
{
    h->due_ms = now_ms + ask_again_ms(h);
    if (join) {
        act(out, HOLDER_JOIN)->number = ++h->joins_number;
    } else {
        (void)act(out, HOLDER_RENEW);
    }
}

static void part(struct lease_holder *h, struct lease_holder_actions *out)
{
    if (lease_holder_is_joined(h)) {
        (void)act(out, HOLDER_FORGET_ALL);
    }
    become(h, HOLDER_APART);
    h->until_ns = 0;
}

void lease_holder_answered(struct lease_holder *h, uint64_t sent_ns, uint64_t now_ms)
{
    uint64_t until_ns = sent_ns + (uint64_t)lease_holder_lease_period_ms(h) * NS_PER_MS;

    if (until_ns <= h->until_ns) {
        return;
    }
    h->until_ns = until_ns;
    if (until_ns > h->longest_ns) {
        h->longest_ns = until_ns;
    }
    h->due_ms = now_ms + lease_renew_ms(h->lease_ms);
}

/* Under a new lease epoch a longer lease period of before is over: it held nothing that we still hold. */
static void join(struct lease_holder *h, const struct lease_holder_event *event)
{
    uint32_t ms = event->lease_ms != 0 ? event->lease_ms : LEASE_MS;
    uint64_t until_ns;

    h->lease_ms = ms > LEASE_MS_MAX ? LEASE_MS_MAX : ms;
    until_ns = event->sent_ns + (uint64_t)lease_holder_lease_period_ms(h) * NS_PER_MS;
    if (h->until_ns > until_ns) {
        h->until_ns = until_ns;
    }
    h->lease_epoch = event->lease_epoch;
    become(h, HOLDER_JOINED);
}

/* A JOIN that is under way was sent before what the doubt is about, perhaps: another one follows. */
static void on_in_doubt(struct lease_holder *h, const struct lease_holder_event *event,
                        struct lease_holder_actions *out)
{
    part(h, out);
    h->doubted = h->joins_asked > 0;
    if (!h->doubted) {
        ask(h, true, event->now_ms, out);
    }
}

static void ask_in_doubt(struct lease_holder *h, const struct lease_holder_event *event,
                         struct lease_holder_actions *out)
{
    if (h->doubted && h->joins_asked == 0) {
        on_in_doubt(h, event, out);
    }
}

static void on_session(struct lease_holder *h, const struct lease_holder_event *event,
                       struct lease_holder_actions *out)
{
    CHECK(h->asked > 0 && (!event->join || h->joins_asked > 0));
    h->asked--;
    h->joins_asked -= event->join;
    if (!event->join && !lease_holder_is_joined(h)) {
        return; /* What was asked while we were joined is no answer to a holder that is not any
                   more. */
    }
    h->due_ms = event->now_ms + ask_again_ms(h);
    if (event->type == HOLDER_SESSION_ANSWERED) {
        if (event->join) {
            join(h, event);
        }
        lease_holder_answered(h, event->sent_ns, event->now_ms);
        h->due_ms = event->now_ms + lease_renew_ms(h->lease_ms);
    } else if (event->type == HOLDER_SESSION_REFUSED && !event->join) {
        part(h, out);
        ask(h, true, event->now_ms, out);
    }
    if (event->type != HOLDER_SESSION_ANSWERED) {
        ask_in_doubt(h, event, out);
    }
}

static void on_tick(struct lease_holder *h, const struct lease_holder_event *event,
                    struct lease_holder_actions *out)
{
    bool over = lease_holder_is_joined(h) && lease_holder_left_ns(h, event->now_ns) == 0;

    if (over && h->standing == HOLDER_LATE) {
        (void)act(out, HOLDER_PERIOD_OVER);
        part(h, out);
        h->due_ms = 0; /* Join again. */
    } else if (lease_holder_is_joined(h)) {
        become(h, over ? HOLDER_LATE : HOLDER_JOINED);
    }
}

static void on_ask_tick(struct lease_holder *h, const struct lease_holder_event *event,
                        struct lease_holder_actions *out)
{
    bool joined = lease_holder_is_joined(h);

    if (event->now_ms >= h->due_ms && (joined ? h->asked : h->joins_asked) == 0) {
        ask(h, !joined, event->now_ms, out);
    }
}

/* ---- A lease on its way back ---- */

static void back_becomes(struct lease_return *back, enum lease_return_state state)
{
    CHECK((return_states[back->state].may_become & TO(state)) != 0);
    back->state = state;
}

static void back_act(struct lease_holder_actions *out, enum lease_holder_action_type type,
                     struct lease_return *back)
{
    act(out, type)->back = back;
}

static void flush(struct lease_return *back, struct lease_holder_actions *out)
{
    back_becomes(back, RETURN_FLUSHING);
    back_act(out, HOLDER_FLUSH, back);
}

static void begin(struct lease_holder *h, const struct lease_return *how, struct lease_return *back,
                  struct lease_holder_actions *out)
{
    *back = *how;
    list_init(&back->node);
    list_push_back(&h->returns, &back->node);
    back_act(out, HOLDER_FORGET, back);
    flush(back, out);
}

/* Asked again: the newest number is the one that counts. */
static void recall_again(struct lease_return *back, const struct lease_holder_event *event,
                         struct lease_holder_actions *out)
{
    back->recall = event->recall;
    if (back->keeps > event->keeps) {
        back->keeps = LEASE_NONE;
        if (back->state == RETURN_DROPPING) { /* Else the drop is still to come. */
            back_becomes(back, RETURN_LOWERED);
        }
        back_act(out, HOLDER_FORGET, back);
    }
}

static void on_recall(struct lease_holder *h, const struct lease_holder_event *event,
                      struct lease_holder_actions *out)
{
    struct lease_return *back = lease_holder_returning(h, event->inode);
    struct lease_return how = { .inode = event->inode,
                                .recall = event->recall,
                                .granted = event->granted,
                                .busy_due_ms = event->now_ms + lease_renew_ms(h->lease_ms) / 2 };

    if (back != NULL) {
        recall_again(back, event, out);
        return;
    }
    if (event->room == NULL) {
        (void)act(out, HOLDER_BREAK);
        return;
    }
    how.keeps = event->keeps < event->granted ? (enum lease_mode)event->keeps : event->granted;
    if (how.keeps == LEASE_R && event->written) {
        how.keeps = LEASE_NONE; /* Its writes go through from now on; reads must ask too. */
    }
    begin(h, &how, event->room, out);
}

static void on_evicted(struct lease_holder *h, const struct lease_holder_event *event,
                       struct lease_holder_actions *out)
{
    struct lease_return how = { .inode = event->inode };

    begin(h, &how, event->room, out);
}

static void on_lost(struct lease_holder *h, inode_id inode)
{
    struct lease_return *back = lease_holder_returning(h, inode);

    if (back != NULL) {
        back->granted = LEASE_NONE;
    }
}

/* Everything has come to its end, or may still land; then it cannot be given back yet. */
static void drop_when_sure(const struct lease_holder *h, const struct lease_holder_event *event,
                           struct lease_holder_actions *out)
{
    struct lease_return *back = event->back;

    if (!event->may_land && (back->granted != LEASE_W || lease_holder_is_sure(h, event->now_ns))) {
        back_becomes(back, RETURN_DROPPING);
        back_act(out, HOLDER_DROP, back);
    }
}

static void on_flushed(const struct lease_holder *h, const struct lease_holder_event *event,
                       struct lease_holder_actions *out)
{
    if (event->no_memory) {
        back_becomes(event->back, RETURN_UNFLUSHED);
    } else {
        back_becomes(event->back, RETURN_SETTLING);
        drop_when_sure(h, event, out);
    }
}

static void on_looked(const struct lease_holder *h, const struct lease_holder_event *event,
                      struct lease_holder_actions *out)
{
    if (event->back->state == RETURN_UNFLUSHED) {
        flush(event->back, out);
    } else if (event->back->state == RETURN_SETTLING) {
        drop_when_sure(h, event, out);
    }
}

static void on_kernel_dropped(struct lease_return *back, struct lease_holder_actions *out)
{
    if (back->state == RETURN_LOWERED) {
        back_becomes(back, RETURN_DROPPING);
        back_act(out, HOLDER_DROP, back);
        return;
    }
    back_becomes(back, RETURN_RETURNED);
    list_remove(&back->node);
    back_act(out, HOLDER_RETURN, back);
}

static void on_back_tick(const struct lease_holder *h, struct lease_return *back, uint64_t now_ms,
                         struct lease_holder_actions *out)
{
    if (back->recall != 0 && now_ms >= back->busy_due_ms) {
        back->busy_due_ms = now_ms + lease_renew_ms(h->lease_ms);
        back_act(out, HOLDER_BUSY, back);
    }
}

void lease_holder_abandon(struct lease_holder *h, struct lease_return *back)
{
    check_holder(h);
    CHECK(back->state == RETURN_SETTLING || back->state == RETURN_UNFLUSHED);
    list_remove(&back->node);
}

/* ---- Events ---- */

static void step_back(struct lease_holder *h, const struct lease_holder_event *event,
                      struct lease_holder_actions *out)
{
    check_return(event->back);
    if (event->type == HOLDER_FLUSHED) {
        on_flushed(h, event, out);
    } else if (event->type == HOLDER_LOOKED) {
        on_looked(h, event, out);
    } else if (event->type == HOLDER_KERNEL_DROPPED) {
        on_kernel_dropped(event->back, out);
    } else {
        on_back_tick(h, event->back, event->now_ms, out);
    }
}

void lease_holder_step(struct lease_holder *h, const struct lease_holder_event *event,
                       struct lease_holder_actions *out)
{
    check_holder(h);
    CHECK(out->count == 0);
    switch (event->type) {
    case HOLDER_TICK:
        on_tick(h, event, out);
        break;
    case HOLDER_ASK_TICK:
        on_ask_tick(h, event, out);
        break;
    case HOLDER_CONNECTED:
        ask(h, true, event->now_ms, out);
        break;
    case HOLDER_ASKED:
        h->asked++;
        h->joins_asked += event->join;
        break;
    case HOLDER_SESSION_ANSWERED:
    case HOLDER_SESSION_REFUSED:
    case HOLDER_SESSION_FAILED:
        on_session(h, event, out);
        break;
    case HOLDER_LOSSES_TAKEN:
        ask_in_doubt(h, event, out);
        break;
    case HOLDER_REFUSED:
        part(h, out);
        break;
    case HOLDER_IN_DOUBT:
        on_in_doubt(h, event, out);
        break;
    case HOLDER_UNSURE:
        h->unsure_until_ns = h->longest_ns;
        break;
    case HOLDER_RECALL:
        on_recall(h, event, out);
        break;
    case HOLDER_EVICTED:
        on_evicted(h, event, out);
        break;
    case HOLDER_LOST:
        on_lost(h, event->inode);
        break;
    case HOLDER_FLUSHED:
    case HOLDER_LOOKED:
    case HOLDER_KERNEL_DROPPED:
    case HOLDER_BACK_TICK:
        step_back(h, event, out);
        break;
    }
    check_holder(h);
}
