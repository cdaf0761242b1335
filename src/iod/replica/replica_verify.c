/* A comparison of copies carried out: the steps of verify.h between the members (replica.h). */
#include "iod/replica/group_inner.h"
#include "iod/replica/replica_inner.h"

#include "common/base/check.h"

static bool of_our_round(const struct replica *r, uint64_t epoch, uint64_t round)
{
    return group_takes(&r->group, epoch, round);
}

static group_set self(const struct replica *r)
{
    return (group_set)(1U << r->group.me);
}

/* ---- The lock ---- */

/* To the others, and to ourselves. */
static void send_out(struct replica *r)
{
    struct replica_verify *c = &r->verify;
    struct replica_look *own = &c->looks[LOOK_OWN];

    c->asking = ASKING_MEMBERS;
    c->number++;
    c->send = c->verify.step.to & (group_set)~self(r);
    if ((c->verify.step.to & self(r)) != 0) {
        *own = (struct replica_look){ .state = LOOK_WANTED, .from = r->group.me };
        own->epoch = c->epoch;
        own->round = c->round;
        own->number = c->number;
        own->step = c->verify.step;
    }
}

static void let_go(struct replica *r)
{
    struct replica_verify *c = &r->verify;

    if (c->held) {
        c->held = false;
        order_applied(&r->order, c->hold);
    }
}

void replica_verify_held(struct replica *r, uint64_t hold, uint64_t now_ms)
{
    struct replica_verify *c = &r->verify;

    c->hold = hold;
    c->held = true;
    c->begun_ms = now_ms;
    if (c->asking == ASKING_HOLD && of_our_round(r, c->epoch, c->round)) {
        send_out(r);
    } else {
        let_go(r);
    }
}

void replica_verify_unheld(struct replica *r)
{
    if (r->verify.asking == ASKING_HOLD) {
        r->verify.asking = ASKING_NOTHING;
    }
}

void replica_verify_left(struct replica *r)
{
    struct replica_verify *c = &r->verify;

    let_go(r);
    c->asking = ASKING_NOTHING;
    for (uint32_t i = 0; i < LOOKS; i++) {
        c->looks[i].say = false;
        c->looks[i].state = c->looks[i].state == LOOK_AT_WORK ? LOOK_AT_WORK : LOOK_NONE;
    }
}

/* ---- Who orders ---- */

void replica_set_verify(struct replica *r, uint64_t run, bool allowed)
{
    r->verify.wanted = run;
    r->verify.allowed = allowed;
}

/* Is there a run that this member is to drive now? */
static bool drives(const struct replica *r)
{
    const struct replica_verify *c = &r->verify;

    return c->wanted != 0 && c->allowed && order_orders(&r->order) &&
           (c->verify.run != c->wanted || c->verify.running);
}

uint64_t replica_verify_due_ms(const struct replica *r)
{
    return drives(r) && r->verify.asking == ASKING_NOTHING ? r->verify.due_ms : UINT64_MAX;
}

static struct span held_span(const struct verify_step *step)
{
    struct span whole = { 0, OBJECT_BYTES_MAX }, span = step->span;

    span.end = span.end < OBJECT_BYTES_MAX ? span.end : OBJECT_BYTES_MAX;
    return span.start < span.end ? span : whole;
}

/* The step that is to be asked; what is at work here of an earlier one ends first. */
static void begin_step(struct replica *r, uint64_t now_ms)
{
    struct replica_verify *c = &r->verify;
    const struct verify_step *step = &c->verify.step;

    if (c->looks[LOOK_OWN].state == LOOK_AT_WORK) {
        return;
    }
    c->epoch = r->group.record.epoch;
    c->round = r->group.joined;
    c->begun_ms = now_ms;
    if (!step->hold || c->held) {
        send_out(r);
    } else if (order_hold(&r->order, step->object, held_span(step)) == ORDER_YES) {
        c->asking = ASKING_HOLD;
    } else {
        c->due_ms = now_ms + VERIFY_REST_MS_MAX; /* Too much waits there. */
    }
}

/* A run, or a round, begins; or the step before is over. */
static void drive(struct replica *r, uint64_t now_ms)
{
    struct replica_verify *c = &r->verify;
    bool again = c->epoch != r->group.record.epoch || c->round != r->group.joined;

    if (c->verify.run != c->wanted) {
        verify_begin(&c->verify, c->wanted);
        again = true;
    }
    if (again) {
        let_go(r);
        verify_round(&c->verify, r->group.record.set, r->group.me);
    }
    begin_step(r, now_ms);
}

/* It rests as long as it took; not with a lock in hand. */
static void answered(struct replica *r, uint64_t now_ms)
{
    struct replica_verify *c = &r->verify;
    uint64_t took_ms = now_ms > c->begun_ms ? now_ms - c->begun_ms : 0;

    c->asking = ASKING_NOTHING;
    c->due_ms = now_ms;
    if (c->verify.done && c->verify.counts.repaired > 0) {
        replica_flush_all(r); /* Write intent for what was repaired leaves, at whomever. */
    }
    if (!c->verify.step.hold) {
        let_go(r);
        c->due_ms += took_ms < VERIFY_REST_MS_MAX ? took_ms : VERIFY_REST_MS_MAX;
    }
}

static bool waits_for(const struct replica *r, const struct replica_look *l)
{
    const struct replica_verify *c = &r->verify;

    return c->asking == ASKING_MEMBERS && l->number == c->number && l->epoch == c->epoch &&
           l->round == c->round && of_our_round(r, c->epoch, c->round);
}

/* Of a member, or our own. */
static void take_answer(struct replica *r, uint32_t member, const struct replica_look *l)
{
    struct replica_verify *c = &r->verify;
    uint64_t steps = c->verify.steps;

    if (!waits_for(r, l) || l->step.type != c->verify.step.type) {
        return;
    }
    c->send &= (group_set) ~(1U << member);
    if (l->step.type == VERIFY_LIST) {
        verify_listed(&c->verify, member, &l->list);
    } else if (l->step.type == VERIFY_LOOK) {
        verify_saw(&c->verify, member, &l->seen);
    } else {
        verify_took(&c->verify, member, l->done);
    }
    if (c->verify.steps != steps) {
        c->asking = ASKING_ANSWERED;
    }
}

bool replica_verify_asks(const struct replica *r)
{
    const struct replica_verify *c = &r->verify;

    return c->asking == ASKING_MEMBERS &&
           (c->verify.step.to & (group_set) ~(c->verify.have | self(r))) != 0;
}

void replica_verify_ask_again(struct replica *r)
{
    struct replica_verify *c = &r->verify;

    if (c->asking == ASKING_MEMBERS) {
        c->send = c->verify.step.to & (group_set) ~(c->verify.have | self(r));
    }
}

/* ---- Who is asked ---- */

static void done(struct replica *r, struct replica_look *l)
{
    l->state = LOOK_DONE;
    if (!of_our_round(r, l->epoch, l->round)) {
        l->state = LOOK_NONE;
    } else if (l == &r->verify.looks[LOOK_OWN]) {
        take_answer(r, r->group.me, l);
    } else {
        l->say = true;
    }
}

void replica_saw(struct replica *r, uint64_t id, const struct verify_seen *seen)
{
    struct replica_look *l = &r->verify.looks[id];

    CHECK(id < LOOKS && l->state == LOOK_AT_WORK && l->step.type == VERIFY_LOOK);
    l->seen = *seen;
    done(r, l);
}

void replica_saw_list(struct replica *r, uint64_t id, const struct verify_list *list)
{
    struct replica_look *l = &r->verify.looks[id];

    CHECK(id < LOOKS && l->state == LOOK_AT_WORK && l->step.type == VERIFY_LIST);
    l->list = *list;
    done(r, l);
}

/* Others ask again; we ask ourselves with the next step, which is this one. */
void replica_saw_nothing(struct replica *r, uint64_t id)
{
    struct replica_look *l = &r->verify.looks[id];

    CHECK(id < LOOKS && l->state == LOOK_AT_WORK);
    l->state = LOOK_NONE;
    if (id == LOOK_OWN && waits_for(r, l)) {
        let_go(r);
        r->verify.asking = ASKING_NOTHING;
        r->verify.round = 0;
        r->verify.due_ms = r->verify.begun_ms + VERIFY_REST_MS_MAX;
    }
}

void replica_verify_taken(struct replica *r, bool taken)
{
    struct replica_look *l = &r->verify.looks[r->verify.taking];

    CHECK(l->state == LOOK_AT_WORK && l->step.type == VERIFY_TAKE);
    l->done = taken;
    done(r, l);
}

static bool is_sound(const struct replica *r, const struct verify_step *s)
{
    bool names = s->object.inode != 0 && s->span.start <= s->span.end &&
                 s->span.end <= OBJECT_BYTES_MAX + VERIFY_BYTES &&
                 s->span.end - s->span.start <= VERIFY_BYTES && s->span.start % BLOCK_BYTES == 0 &&
                 s->span.end % BLOCK_BYTES == 0;
    bool gives = s->source < r->group.count && s->source != r->group.me &&
                 s->size <= OBJECT_BYTES_MAX && group_has(r->group.record.set, s->source);

    return s->type == VERIFY_LIST || (s->type == VERIFY_LOOK && names) ||
           (s->type == VERIFY_TAKE && names && gives);
}

/* Numbers of a round grow: what is late, or at work, is left; what was done is said again. */
static void on_look(struct replica *r, const struct replica_message *m)
{
    struct replica_look *l = &r->verify.looks[LOOK_ASKED];
    bool same_round = l->state != LOOK_NONE && l->epoch == m->epoch && l->round == m->round;

    if (!of_our_round(r, m->epoch, m->round) || m->from != group_first(r->group.record.set) ||
        !is_sound(r, &m->step) || l->state == LOOK_AT_WORK ||
        (same_round && m->number < l->number)) {
        return;
    }
    if (same_round && m->number == l->number) {
        l->say = l->state == LOOK_DONE;
        return;
    }
    *l = (struct replica_look){ .state = LOOK_WANTED, .from = m->from };
    l->epoch = m->epoch;
    l->round = m->round;
    l->number = m->number;
    l->step = m->step;
}

static void on_seen(struct replica *r, const struct replica_message *m)
{
    struct replica_look l = { .epoch = m->epoch, .round = m->round, .number = m->number };

    l.step.type = m->step.type;
    l.done = m->last;
    if (m->step.type == VERIFY_LIST) {
        l.list = m->list;
        if (l.list.count > VERIFY_LIST_MAX) {
            return;
        }
    } else {
        l.seen = m->seen;
    }
    take_answer(r, m->from, &l);
}

void replica_receive_verify(struct replica *r, const struct replica_message *m)
{
    if (m->type == REPLICA_LOOK) {
        on_look(r, m);
    } else {
        on_seen(r, m);
    }
}

/* ---- What is to be done ---- */

/* True: it is shown to the host. */
static bool begin_look(struct replica *r, uint32_t id, struct replica_action *out)
{
    struct replica_look *l = &r->verify.looks[id];

    if (l->step.type == VERIFY_TAKE) {
        if (r->forced.state != REPAIR_NONE) {
            return false; /* Of an earlier round: it ends. */
        }
        l->state = LOOK_AT_WORK;
        r->verify.taking = id;
        replica_repair_begin(r, &l->step);
        return false;
    }
    l->state = LOOK_AT_WORK;
    out->type = REPLICA_LOOK_HERE;
    out->id = id;
    out->step = l->step;
    return true;
}

static void say_seen(struct replica *r, struct replica_action *out)
{
    struct replica_look *l = &r->verify.looks[LOOK_ASKED];
    struct replica_message *m = replica_say(r, out, REPLICA_SEEN, l->from);

    l->say = false;
    m->epoch = l->epoch;
    m->round = l->round;
    m->number = l->number;
    m->step = l->step;
    m->last = l->done;
    if (l->step.type == VERIFY_LIST) {
        m->list = l->list;
    } else {
        m->seen = l->seen;
    }
}

static void say_look(struct replica *r, struct replica_action *out)
{
    struct replica_verify *c = &r->verify;
    uint32_t to = group_first(c->send);
    struct replica_message *m = replica_say(r, out, REPLICA_LOOK, to);

    c->send &= (group_set) ~(1U << to);
    m->epoch = c->epoch;
    m->round = c->round;
    m->number = c->number;
    m->step = c->verify.step;
}

bool replica_next_verify(struct replica *r, uint64_t now_ms, struct replica_action *out)
{
    struct replica_verify *c = &r->verify;

    if (c->asking == ASKING_ANSWERED) {
        answered(r, now_ms);
    }
    if (c->held && c->asking == ASKING_MEMBERS && c->verify.step.type == VERIFY_LOOK &&
        now_ms > c->begun_ms + VERIFY_HOLD_MS_MAX) {
        let_go(r); /* Clients wait for it; looking changes nothing, and is begun again. */
        c->asking = ASKING_NOTHING;
        c->round = 0;
        c->due_ms = now_ms + VERIFY_REST_MS_MAX;
    }
    if (c->held && c->asking == ASKING_NOTHING && !drives(r)) {
        let_go(r); /* It is to stop: what had the lock is asked again. */
        c->round = 0;
    }
    if (c->verify.has_found) {
        c->verify.has_found = false;
        out->type = REPLICA_FOUND;
        out->found = c->verify.found;
        return true;
    }
    if (c->asking == ASKING_NOTHING && drives(r) && now_ms >= c->due_ms) {
        drive(r, now_ms);
    }
    for (uint32_t i = 0; i < LOOKS; i++) {
        if (c->looks[i].state == LOOK_WANTED && begin_look(r, i, out)) {
            return true;
        }
    }
    if (c->looks[LOOK_ASKED].say) {
        say_seen(r, out);
        return true;
    }
    if (c->send != 0 && c->asking == ASKING_MEMBERS) {
        say_look(r, out);
        return true;
    }
    return false;
}
