/* Syncs of a group: of an object, for a client; of everything, so that write intent can leave
 * (replica.h). */
#include "iod/replica/group_inner.h"
#include "iod/replica/replica_inner.h"

#include "common/base/check.h"
#include "common/base/status.h"

/* NULL: too many. */
static struct replica_sync *add(struct replica *r, bool ours)
{
    struct replica_sync *unused = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < REPLICA_SYNCS_MAX; i++) {
        struct replica_sync *s = &r->syncs[i];

        if (s->state == SYNC_FREE) {
            unused = s;
        }
        count += s->state != SYNC_FREE && s->ours == ours;
    }
    if (unused == NULL || count >= REPLICA_SYNCS_MAX / 2) {
        return NULL;
    }
    *unused = (struct replica_sync){ .ours = ours, .state = SYNC_WANTED };
    r->sync_count++;
    unused->epoch = r->group.record.epoch;
    unused->round = r->group.joined;
    unused->bytes = r->order.bytes - r->watch.synced_bytes;
    return unused;
}

static void release(struct replica *r, struct replica_sync *s)
{
    s->state = SYNC_FREE;
    r->sync_count--;
}

static group_set others(const struct replica *r)
{
    return r->group.record.set & (group_set) ~(1U << r->group.me);
}

/* Who orders begins one; it has a number of its own in this process. */
static struct replica_sync *add_ours(struct replica *r)
{
    struct replica_sync *s = group_orders(&r->group) ? add(r, true) : NULL;

    if (s != NULL) {
        s->number = ++r->sync_number;
        s->send = others(r);
    }
    return s;
}

enum order_verdict replica_sync(struct replica *r, struct object_id object, uint64_t token)
{
    struct replica_sync *s = add_ours(r);

    if (s == NULL) {
        return group_orders(&r->group) ? ORDER_FULL : ORDER_NO;
    }
    s->object = object;
    s->token = token;
    s->has_token = true;
    return ORDER_YES;
}

/* ---- Of everything ---- */

void replica_cut(struct replica *r, uint64_t cut)
{
    if (cut <= r->cut) {
        return;
    }
    if (r->intent.is_syncing) {
        intent_end_sync(&r->intent, false, NULL, 0);
    }
    intent_begin_sync(&r->intent);
    r->cut = cut;
    r->watch.cut_bytes = r->order.bytes;
}

void replica_flush_all(struct replica *r)
{
    struct replica_sync *s;

    for (uint32_t i = 0; i < REPLICA_SYNCS_MAX; i++) {
        if (r->syncs[i].state != SYNC_FREE && r->syncs[i].ours && r->syncs[i].everything) {
            return;
        }
    }
    s = add_ours(r);
    if (s != NULL) {
        s->state = SYNC_WAITING;
        s->everything = true;
        replica_cut(r, r->cut + 1);
        r->clear = 0;
        r->cut_sequence = r->order.sequence;
    }
}

void replica_flush(struct replica *r)
{
    if (!intent_empty(&r->intent)) {
        replica_flush_all(r);
    }
}

/* What was changed before the cut is on the disks of all: who is outside may have missed it. */
static void clear_intent(struct replica *r)
{
    struct dirty_log *outside[REPLICAS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->group.count; i++) {
        if (i != r->group.me && !group_has(r->group.record.set, i)) {
            outside[count++] = &r->logs[i];
        }
    }
    intent_end_sync(&r->intent, true, outside, count);
    r->watch.synced_bytes = r->watch.cut_bytes;
    r->rewrite_wanted = true;
}

static void finish_everything(struct replica *r)
{
    if (!group_all_joined(&r->group)) {
        intent_end_sync(&r->intent, false, NULL, 0);
        return;
    }
    clear_intent(r);
    r->clear = r->cut;
    r->clear_send = others(r);
}

static void finish_if_all(struct replica *r, struct replica_sync *s)
{
    if (s->state != SYNC_DONE || (s->have & r->group.record.set) != r->group.record.set) {
        return;
    }
    if (s->everything) {
        finish_everything(r);
        release(r, s);
    } else {
        s->over = true; /* Answered with next. */
    }
}

/* ---- Rounds ---- */

void replica_drop_syncs(struct replica *r)
{
    if (r->intent.is_syncing) {
        intent_end_sync(&r->intent, false, NULL, 0);
    }
    r->clear = 0;
    for (uint32_t i = 0; i < REPLICA_SYNCS_MAX; i++) {
        struct replica_sync *s = &r->syncs[i];

        if (s->state != SYNC_FREE) {
            s->over = true;
            s->have = s->send = 0;
            if (s->state != SYNC_AT_WORK && !s->has_token) {
                release(r, s);
            }
        }
    }
}

void replica_resend_syncs(struct replica *r)
{
    r->clear_send = r->clear == 0 ? 0 : others(r);
    for (uint32_t i = 0; i < REPLICA_SYNCS_MAX; i++) {
        struct replica_sync *s = &r->syncs[i];

        if (s->ours && !s->over && (s->state == SYNC_AT_WORK || s->state == SYNC_DONE)) {
            s->send = others(r) & (group_set)~s->have;
        }
    }
}

/* ---- What has happened ---- */

void replica_synced(struct replica *r, uint64_t id, uint64_t now_ms)
{
    replica_moved(r);
    for (uint32_t i = 0; i < REPLICA_SYNCS_MAX; i++) {
        struct replica_sync *s = &r->syncs[i];

        if (s->state != SYNC_AT_WORK || id != (s->ours ? s->number : s->token)) {
            continue;
        }
        if (s->over && !s->has_token) {
            release(r, s);
            return;
        }
        s->state = SYNC_DONE;
        if (s->ours && !s->over) {
            s->have |= (group_set)(1U << r->group.me);
            finish_if_all(r, s);
        }
        return;
    }
    replica_fetch_synced(r, id, now_ms);
}

static void on_asked(struct replica *r, const struct replica_message *m)
{
    struct replica_sync *s;

    for (uint32_t i = 0; i < REPLICA_SYNCS_MAX; i++) {
        s = &r->syncs[i];
        if (s->state != SYNC_FREE && !s->ours && s->from == m->from && s->number == m->number &&
            s->round == m->round) {
            return;
        }
    }
    s = add(r, false);
    if (s == NULL) {
        return; /* It is asked again. */
    }
    if (m->everything) {
        replica_cut(r, m->cut);
    }
    s->from = m->from;
    s->number = m->number;
    s->token = ++r->sync_number; /* Under which it is done here. */
    s->object = m->object;
    s->everything = m->everything;
}

static void on_done(struct replica *r, const struct replica_message *m)
{
    for (uint32_t i = 0; i < REPLICA_SYNCS_MAX; i++) {
        struct replica_sync *s = &r->syncs[i];

        if (s->state != SYNC_FREE && s->ours && !s->over && s->number == m->number) {
            s->have |= (group_set)(1U << m->from);
            s->send &= (group_set) ~(1U << m->from);
            finish_if_all(r, s);
            return;
        }
    }
}

void replica_receive_sync(struct replica *r, const struct replica_message *m)
{
    bool leads = m->from == group_first(r->group.record.set);

    if (!group_takes(&r->group, m->epoch, m->round)) {
        return;
    }
    if (m->type == REPLICA_SYNCED && group_orders(&r->group)) {
        on_done(r, m);
    } else if (m->type == REPLICA_SYNC && leads) {
        on_asked(r, m);
    } else if (m->type == REPLICA_CLEAR && leads && r->intent.is_syncing && r->cut == m->cut) {
        clear_intent(r);
    }
}

/* ---- What is to be done ---- */

static bool answer(struct replica *r, struct replica_sync *s, struct replica_action *out)
{
    group_set set = r->group.record.set;
    bool done = s->state == SYNC_DONE && s->have != 0 && (s->have & set) == set;

    out->type = REPLICA_ANSWER;
    out->token = s->token;
    out->answer.status = done ? MORSEL_OK : MORSEL_AGAIN;
    out->answer.verifier = r->order.verifier;
    s->has_token = false;
    if (s->state != SYNC_AT_WORK) {
        release(r, s);
    }
    return true;
}

static bool ask(struct replica *r, struct replica_sync *s, struct replica_action *out)
{
    uint32_t to = (uint32_t)__builtin_ctz(s->send);
    struct replica_message *m = replica_say(r, out, REPLICA_SYNC, to);

    s->send &= (group_set)(s->send - 1);
    m->number = s->number;
    m->cut = r->cut;
    m->everything = s->everything;
    m->object = s->object;
    return true;
}

static bool next_of(struct replica *r, struct replica_sync *s, struct replica_action *out)
{
    if (s->over && s->ours && s->has_token) {
        return answer(r, s, out);
    }
    if (s->state == SYNC_WAITING && !order_is_under_way(&r->order, r->cut_sequence)) {
        s->state = SYNC_WANTED;
    }
    if (s->state == SYNC_WANTED) {
        s->state = SYNC_AT_WORK;
        out->type = REPLICA_SYNC_HERE;
        out->id = s->ours ? s->number : s->token;
        out->object = s->object;
        out->everything = s->everything;
        return true;
    }
    if (s->state != SYNC_FREE && s->state != SYNC_WAITING && s->send != 0) {
        return ask(r, s, out);
    }
    if (s->state == SYNC_DONE && !s->ours) {
        replica_say(r, out, REPLICA_SYNCED, s->from)->number = s->number;
        release(r, s);
        return true;
    }
    return false;
}

bool replica_next_sync(struct replica *r, struct replica_action *out)
{
    for (uint32_t i = 0; i < REPLICA_SYNCS_MAX && r->sync_count > 0; i++) {
        if (r->syncs[i].state != SYNC_FREE && next_of(r, &r->syncs[i], out)) {
            return true;
        }
    }
    if (r->clear != 0 && r->clear_send != 0) {
        struct replica_message *m =
            replica_say(r, out, REPLICA_CLEAR, (uint32_t)__builtin_ctz(r->clear_send));

        r->clear_send &= (group_set)(r->clear_send - 1);
        m->cut = r->clear;
        return true;
    }
    return false;
}
