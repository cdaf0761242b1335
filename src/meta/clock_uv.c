/* Deadlines of the cores, and the pulse by which the manager sees that it stood still. */
#include "meta/cluster/donors_uv.h"
#include "meta/cluster/doors_uv.h"
#include "meta/cluster/forgets_uv.h"
#include "meta/cluster/hours_uv.h"
#include "meta/coherence/leases_uv.h"
#include "meta/coherence/locks_uv.h"
#include "meta/coherence/pauses_uv.h"
#include "meta/datasets/claims_uv.h"
#include "meta/datasets/damages_uv.h"
#include "meta/datasets/evictions_uv.h"
#include "meta/datasets/relocate.h"
#include "meta/datasets/repairs_uv.h"
#include "meta/datasets/unfinished_uv.h"

static void on_timer(uv_timer_t *timer);

/* One timer for all cores: its next run is the earliest of their deadlines. */
void meta_arm(struct meta *meta)
{
    uint64_t sessions_ms = session_deadline_ms(meta->sessions);
    uint64_t members_ms = members_deadline_ms(&meta->members);
    uint64_t leases_ms = lease_deadline_ms(meta->leases);
    uint64_t donors_ms = donors_deadline_ms(&meta->donors);
    uint64_t repair_ms = relocate_deadline_ms(&meta->repair);
    uint64_t damage_ms = damage_deadline_ms(&meta->damage);
    uint64_t due_ms = sessions_ms < members_ms ? sessions_ms : members_ms;
    uint64_t now_ms = meta_now_ms(meta);

    due_ms = leases_ms < due_ms ? leases_ms : due_ms;
    due_ms = donors_ms < due_ms ? donors_ms : due_ms;
    due_ms = repair_ms < due_ms ? repair_ms : due_ms;
    due_ms = damage_ms < due_ms ? damage_ms : due_ms;
    if (meta->closing || due_ms == meta->timer_due_ms ||
        uv_is_active((uv_handle_t *)&meta->behind_poll)) {
        return;
    }
    meta->timer_due_ms = due_ms;
    if (due_ms == UINT64_MAX) {
        uv_timer_stop(&meta->timer);
    } else {
        uv_timer_start(&meta->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

/* Everything that had arrived when the deadline passed has been read since: who is silent now was
 * silent then. */
static void on_behind_poll(uv_check_t *check)
{
    struct meta *meta = check->data;
    struct session_event session = { .now_ms = meta->tick_ms, .type = SESSION_TICK };
    struct members_event member = { .now_ms = meta->tick_ms, .type = MEMBERS_TICK };
    struct donors_event donor = { .now_ms = meta->tick_ms, .type = DONORS_TICK };

    uv_check_stop(check);
    (void)meta_session_step(meta, &session);
    leases_tick(meta, meta->tick_ms);
    locks_tick(meta);
    meta_members_step(meta, &member);
    donors_host_step(meta, &donor);
    repairs_tick(meta, meta->tick_ms);
    damages_tick(meta, meta->tick_ms);
    meta_arm(meta);
}

static void on_timer(uv_timer_t *timer)
{
    struct meta *meta = timer->data;

    meta->timer_due_ms = 0;
    meta->tick_ms = meta_now_ms(meta);
    uv_check_start(&meta->behind_poll, on_behind_poll);
}

static void on_pulse(uv_timer_t *timer)
{
    struct meta *meta = timer->data;
    uint64_t away_ms;

    locks_pulse(meta, meta_now_ms(meta));
    pauses_look(meta);
    meta_departed_pulse(meta, meta_now_ms(meta));
    donors_host_pulse(meta, meta_now_ms(meta));
    doors_pulse(meta, meta_now_ms(meta));
    hours_pulse(meta, meta_now_ms(meta));
    evictions_pulse(meta, meta_now_ms(meta));
    claims_pulse(meta, meta_now_ms(meta));
    unfinished_pulse(meta, meta_now_ms(meta));
    forgets_pulse(meta, meta_now_ms(meta));
    away_ms = meta->presence.away_ms - meta->away_logged_ms;
    meta->away_logged_ms = meta->presence.away_ms;
    if (away_ms >= LEASE_MARGIN_MS) {
        log_warning(meta->log,
                    "morsel-meta stood still for %llu ms (stopped, swapped out, or waiting for its "
                    "disk); the time is not counted against clients and servers",
                    (unsigned long long)away_ms);
    }
}

void meta_clock_start(struct meta *meta)
{
    (void)uv_timer_init(meta->loop, &meta->timer);
    (void)uv_timer_init(meta->loop, &meta->pulse);
    (void)uv_check_init(meta->loop, &meta->behind_poll);
    meta->timer.data = meta->pulse.data = meta->behind_poll.data = meta;
    uv_timer_start(&meta->pulse, on_pulse, PRESENCE_PULSE_MS, PRESENCE_PULSE_MS);
}
