/* Damaged blocks, mended with what another member has (replica.h). */
#include "iod/replica/group_inner.h"
#include "iod/replica/replica_inner.h"

#include "common/base/check.h"
#include "common/base/status.h"

/* ---- Who has the damage ---- */

static bool of_our_round(const struct replica *r, const struct replica_repair *p)
{
    return group_takes(&r->group, p->epoch, p->round);
}

static void over(struct replica_repair *p, int status)
{
    p->state = REPAIR_OVER;
    p->status = status;
    p->say = false;
}

/* Those of the set that were not asked yet, one at a time. */
static void ask_next(struct replica *r)
{
    struct replica_repair *p = &r->repair;
    group_set left = r->group.record.set & (group_set) ~(p->tried | 1U << r->group.me);

    if (left == 0) {
        over(p, MORSEL_CHECKSUM);
        return;
    }
    p->member = group_first(left);
    p->tried |= (group_set)(1U << p->member);
    p->say = true;
}

enum repair_verdict replica_repair(struct replica *r, struct object_id object, struct span span)
{
    struct replica_repair *p = &r->repair;

    CHECK(p->state == REPAIR_NONE && span.start < span.end);
    if (r->group.joined == 0) {
        return REPAIR_LEFT;
    }
    if (r->group.record.set == (group_set)(1U << r->group.me)) {
        return REPAIR_NOBODY;
    }
    *p = (struct replica_repair){ .state = REPAIR_ASKING, .number = p->number + 2 };
    p->stretch = (struct change){ .object = object, .generation = 1, .span = span };
    p->epoch = r->group.record.epoch;
    p->round = r->group.joined;
    ask_next(r);
    return REPAIR_BEGUN;
}

/* Nothing is under way on the stretch, at any member: who orders has it locked. */
void replica_repair_begin(struct replica *r, const struct verify_step *step)
{
    struct replica_repair *p = &r->forced;

    CHECK(p->state == REPAIR_NONE && r->group.joined != 0);
    *p = (struct replica_repair){ .forced = true, .number = p->number + 2 };
    p->epoch = r->group.record.epoch;
    p->round = r->group.joined;
    p->member = step->source;
    p->size = step->size;
    p->length = step->span.start == step->span.end;
    p->stretch = (struct change){ .object = step->object, .generation = 1, .whole = p->length };
    if (!p->length) {
        p->stretch.span = step->span;
        p->state = REPAIR_ASKING;
        p->say = true;
        return;
    }
    p->state = REPAIR_TAKING;
    r->applying++;
    p->take_wanted = replica_intend(r, REPLICA_ID_FORCED, 0, &p->stretch);
}

void replica_repair_left(struct replica *r)
{
    if (r->repair.state == REPAIR_ASKING) {
        over(&r->repair, MORSEL_AGAIN);
    }
    if (r->forced.state == REPAIR_ASKING) {
        over(&r->forced, MORSEL_AGAIN);
    }
}

void replica_repair_meets(struct replica *r, const struct order_change *change)
{
    const struct replica_repair *p = &r->repair;

    if (p->state == REPAIR_ASKING && change->object.inode == p->stretch.object.inode &&
        change->object.column == p->stretch.object.column &&
        change->span.start < p->stretch.span.end && p->stretch.span.start < change->span.end) {
        over(&r->repair, MORSEL_AGAIN);
    }
}

/* True: the bytes are kept, and put in place with next. */
static bool on_blocks(struct replica *r, const struct replica_message *m, uint64_t token)
{
    struct replica_repair *p = m->number % 2 != 0 ? &r->forced : &r->repair;

    if (p->state != REPAIR_ASKING || m->number != p->number || m->from != p->member ||
        m->epoch != p->epoch || m->round != p->round || !of_our_round(r, p)) {
        return false;
    }
    if (m->last && p->forced) {
        over(p, MORSEL_CHECKSUM);
        return false;
    }
    if (m->last) {
        ask_next(r);
        return false;
    }
    p->state = REPAIR_TAKING;
    p->say = false;
    p->token = token;
    r->applying++;
    p->take_wanted =
        replica_intend(r, p->forced ? REPLICA_ID_FORCED : REPLICA_ID_REPAIR, token, &p->stretch);
    return true;
}

void replica_mended(struct replica *r, uint64_t id, int status)
{
    struct replica_repair *p = id == REPLICA_ID_FORCED ? &r->forced : &r->repair;

    CHECK(p->state == REPAIR_TAKING && r->applying > 0);
    r->applying--;
    if (p->forced) {
        replica_log(r, &p->stretch);
    }
    over(p, status);
}

/* ---- Who has the bytes ---- */

static void on_wanted(struct replica *r, const struct replica_message *m)
{
    const struct change *c = &m->changes[0];

    if (m->count == 1 && !c->whole && !c->everything && c->span.start < c->span.end &&
        group_takes(&r->group, m->epoch, m->round)) {
        r->lending[m->from] = (struct replica_lending){
            .say = true, .number = m->number, .epoch = m->epoch, .round = m->round, .stretch = *c
        };
    }
}

bool replica_lends(const struct replica *r, const struct replica_message *m)
{
    return group_takes(&r->group, m->epoch, m->round);
}

/* ---- Both ---- */

bool replica_receive_repair(struct replica *r, const struct replica_message *m, uint64_t token)
{
    if (m->type == REPLICA_BLOCKS) {
        return on_blocks(r, m, token);
    }
    on_wanted(r, m);
    return false;
}

static struct replica_message *say(const struct replica *r, struct replica_action *out,
                                   enum replica_message_type type, uint32_t to,
                                   const struct change *stretch)
{
    struct replica_message *m = replica_say(r, out, type, to);

    m->changes[0] = *stretch;
    m->count = 1;
    return m;
}

static bool next_lending(struct replica *r, struct replica_action *out)
{
    for (uint32_t i = 0; i < r->group.count; i++) {
        struct replica_lending *l = &r->lending[i];

        if (l->say) {
            struct replica_message *m = say(r, out, REPLICA_BLOCKS, i, &l->stretch);

            l->say = false;
            m->number = l->number;
            m->epoch = l->epoch;
            m->round = l->round;
            return true;
        }
    }
    return false;
}

/* Whose write intent is on the disk by now; the round may be over. */
static bool next_taking(struct replica *r, struct replica_repair *p, struct replica_action *out)
{
    p->take_wanted = false;
    out->id = p->forced ? REPLICA_ID_FORCED : REPLICA_ID_REPAIR;
    out->token = p->token;
    out->member = p->member;
    out->piece = p->stretch;
    out->forced = p->forced;
    out->size = p->size;
    out->type = REPLICA_MEND;
    if (!of_our_round(r, p)) {
        out->type = REPLICA_RELEASE;
        r->applying--;
        over(p, MORSEL_AGAIN);
        return !p->length; /* It has no bytes. */
    }
    return true;
}

static void say_wanted(struct replica *r, struct replica_repair *p, struct replica_action *out)
{
    struct replica_message *m = say(r, out, REPLICA_WANTED, p->member, &p->stretch);

    p->say = false;
    m->number = p->number;
    m->epoch = p->epoch;
    m->round = p->round;
}

/* What is forced is over: nobody but the comparison is told. */
static bool next_forced(struct replica *r, struct replica_action *out)
{
    struct replica_repair *p = &r->forced;

    if (p->take_wanted && next_taking(r, p, out)) {
        return true;
    }
    if (p->state == REPAIR_OVER) {
        p->state = REPAIR_NONE;
        replica_verify_taken(r, p->status == MORSEL_OK);
    }
    if (p->say) {
        say_wanted(r, p, out);
        return true;
    }
    return false;
}

bool replica_next_repair(struct replica *r, struct replica_action *out)
{
    struct replica_repair *p = &r->repair;

    if (p->take_wanted) {
        return next_taking(r, p, out);
    }
    if (p->state == REPAIR_OVER) {
        p->state = REPAIR_NONE;
        out->type = REPLICA_REPAIRED;
        out->answer.status = p->status;
        out->member = p->member;
        return true;
    }
    if (p->say) {
        say_wanted(r, p, out);
        return true;
    }
    return next_forced(r, out) || next_lending(r, out);
}
