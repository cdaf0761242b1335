/* Who holds up changes (replica.h). */
#include "iod/replica/group_inner.h"
#include "iod/replica/replica_inner.h"

void replica_moved(struct replica *r)
{
    r->watch.done++;
}

/* What so many bytes may take. */
static uint64_t excuse_ms(uint64_t bytes, uint64_t bytes_ms)
{
    uint64_t ms = bytes / bytes_ms;

    return ms < SLOW_EXCUSE_MS_MAX ? ms : SLOW_EXCUSE_MS_MAX;
}

/* ---- Others, where we order ---- */

/* Who carries nothing out has no excuse. */
static void see_moves(struct replica *r, uint64_t clock_ms)
{
    struct replica_watch *w = &r->watch;

    for (uint32_t i = 0; i < r->group.count; i++) {
        if (w->acked[i] != r->order.acked[i]) {
            w->acked[i] = r->order.acked[i];
            w->moved_ms[i] = clock_ms;
        }
    }
}

static group_set late_with_change(struct replica *r, struct order_item *i, uint64_t ahead,
                                  uint64_t clock_ms)
{
    group_set missing = r->order.set & (group_set)~i->have, late = 0;

    if (i->have == 0) {
        return 0;
    }
    if (i->had_ms == 0) {
        i->had_ms = clock_ms;
        i->ahead = ahead;
    }
    if (clock_ms - i->had_ms > r->watch.lag_ms) {
        r->watch.lag_ms = clock_ms - i->had_ms;
    }
    for (uint32_t m = 0; m < r->group.count; m++) {
        bool moves = clock_ms < r->watch.moved_ms[m] + r->slow_limit_ms;
        uint64_t limit_ms =
            r->slow_limit_ms + (moves ? excuse_ms(i->ahead, SLOW_QUEUE_BYTES_MS) : 0);

        if (group_has(missing, m) && clock_ms >= i->had_ms + limit_ms) {
            late |= (group_set)(1U << m);
        }
    }
    return i->put_off ? late & (group_set) ~(1U << r->group.me) : late;
}

static group_set late_with_changes(struct replica *r, uint64_t clock_ms)
{
    uint64_t ahead = 0;
    group_set late = 0;

    LIST_FOREACH(node, &r->order.all)
    {
        struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        if (i->state == ORDER_UNDER_WAY) {
            late |= late_with_change(r, i, ahead, clock_ms);
            ahead += order_bytes(&i->change);
        }
    }
    return late;
}

static group_set late_with_syncs(struct replica *r, uint64_t clock_ms)
{
    group_set late = 0;

    for (uint32_t k = 0; k < REPLICA_SYNCS_MAX && r->sync_count > 0; k++) {
        struct replica_sync *s = &r->syncs[k];

        if (s->state == SYNC_FREE || !s->ours || s->over || !s->has_token || s->have == 0) {
            continue;
        }
        s->had_ms = s->had_ms == 0 ? clock_ms : s->had_ms;
        if (clock_ms >= s->had_ms + r->slow_limit_ms + excuse_ms(s->bytes, SLOW_BYTES_MS)) {
            late |= r->group.record.set & (group_set)~s->have;
        }
    }
    return late;
}

/* ---- Ourselves ---- */

/* A stretch that is locked for a comparison is one to the order, but may wait for another member's disk. */
static uint32_t reads_at_work(const struct replica *r)
{
    uint32_t count = 0;

    LIST_FOREACH(node, &r->order.all)
    {
        const struct order_item *i = LIST_ENTRY(node, struct order_item, all);

        count += i->state == ORDER_READING && i->kind != ORDER_HOLD;
    }
    return count;
}

/* Syncs that are on the disk here: of an object, or of everything. */
static uint32_t syncs_at_work(const struct replica *r, bool everything)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < REPLICA_SYNCS_MAX && r->sync_count > 0; k++) {
        const struct replica_sync *s = &r->syncs[k];

        count += s->state == SYNC_AT_WORK && s->everything == everything;
    }
    return count;
}

/* What waits for another member's bytes does not wait for the disk. */
static bool is_at_work(const struct replica *r)
{
    return (r->applying > 0 && r->repair.state == REPAIR_NONE) || r->filing ||
           reads_at_work(r) > 0 || syncs_at_work(r, false) > 0;
}

static bool is_stuck(struct replica *r, uint64_t clock_ms)
{
    struct replica_watch *w = &r->watch;
    bool moved = w->seen != w->done;
    bool bulk = syncs_at_work(r, true) > 0 || r->fetch.state == FETCH_SYNCING;
    uint64_t more_ms = excuse_ms(r->order.bytes - w->synced_bytes, SLOW_BYTES_MS);

    w->seen = w->done;
    w->small_ms = moved || !is_at_work(r) ? clock_ms : w->small_ms;
    w->bulk_ms = moved || !bulk ? clock_ms : w->bulk_ms;
    return clock_ms >= w->small_ms + r->slow_limit_ms + more_ms ||
           clock_ms >= w->bulk_ms + SLOW_BULK * r->slow_limit_ms + more_ms;
}

/* ---- Both ---- */

uint64_t replica_lag_ms(const struct replica *r)
{
    return replica_look_ms(r) == UINT64_MAX ? 0 : r->watch.lag_ms;
}

uint64_t replica_look_ms(const struct replica *r)
{
    bool idle = list_empty(&r->order.all) && r->sync_count == 0 && r->applying == 0 && !r->filing &&
                r->fetch.state == FETCH_NONE && r->group.slow == 0;

    return r->slow_limit_ms == 0 || !r->group.started || idle ? UINT64_MAX : r->watch.look_ms;
}

/* Looks are not much farther apart than that, while there is something to see and somebody runs here. */
static uint64_t look_at_clock(struct replica_watch *w, uint64_t now_ms)
{
    uint64_t passed_ms = now_ms - w->looked_ms;
    const uint64_t at_most_ms = 2 * REPLICA_LOOK_MS;

    w->clock_ms += w->looked_ms == 0 ? 1 : passed_ms < at_most_ms ? passed_ms : at_most_ms;
    w->looked_ms = now_ms;
    return w->clock_ms;
}

void replica_look(struct replica *r, uint64_t now_ms)
{
    group_set me = (group_set)(1U << r->group.me), slow = 0;
    struct replica_watch *w = &r->watch;
    uint64_t clock_ms;

    if (r->slow_limit_ms == 0 || now_ms < w->look_ms) {
        return;
    }
    w->look_ms = now_ms + REPLICA_LOOK_MS;
    clock_ms = look_at_clock(w, now_ms);
    see_moves(r, clock_ms);
    slow = is_stuck(r, clock_ms) ? me : 0;
    w->lag_ms = 0;
    if (order_orders(&r->order)) {
        slow |= late_with_changes(r, clock_ms) | late_with_syncs(r, clock_ms);
    }
    if ((slow & me) != 0) {
        w->own_ms = clock_ms;
    }
    if (w->own_ms != 0 && clock_ms < w->own_ms + r->slow_limit_ms) {
        slow &= me;
    }
    group_set_slow(&r->group, slow);
}
