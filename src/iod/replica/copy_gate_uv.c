/* The gate in front of what is given and taken for recovery. Where a set waits for bytes before it serves, they
 * do not wait here. And in front of who writes, while recovery would not end otherwise (write_pace.h): where the
 * administrator has set a limit it is on him that it ends. */
#include "iod/replica/copy_inner_uv.h"

static void start(struct copy_gated *gated)
{
    list_remove(&gated->node);
    gated->start(gated);
}

static void on_turn(struct recovery_wait *wait)
{
    start(CONTAINER_OF(wait, struct copy_gated, wait));
}

void copy_gate_enter(struct copy *copy, struct copy_gated *gated, bool limited, uint64_t bytes)
{
    list_init(&gated->wait.node);
    list_init(&gated->node);
    gated->wait.bytes = bytes;
    gated->wait.go = on_turn;
    gated->counted = limited && copy->setup.gate != NULL;
    if (!gated->counted || recovery_enter(copy->setup.gate, &gated->wait, uv_hrtime() / 1000)) {
        gated->start(gated);
        return;
    }
    list_push_back(&copy->gated, &gated->node);
    copy->setup.hooks->gated(copy->setup.data, copy);
}

void copy_gate_used(struct copy *copy, struct copy_gated *gated, uint64_t bytes)
{
    if (gated->counted && bytes < gated->wait.bytes) {
        recovery_unused(copy->setup.gate, gated->wait.bytes - bytes);
    }
}

/* The first that need not wait any more; NULL: there is none. */
static struct copy_gated *find_free(const struct copy *copy)
{
    LIST_FOREACH(node, &copy->gated)
    {
        struct copy_gated *gated = LIST_ENTRY(node, struct copy_gated, node);

        if (copy->ending || copy_trouble(copy) != NULL || !gated->still(gated)) {
            return gated;
        }
    }
    return NULL;
}

void copy_gate_open(struct copy *copy)
{
    struct copy_gated *gated;

    while ((gated = find_free(copy)) != NULL) {
        recovery_leave(&gated->wait);
        gated->counted = false;
        start(gated);
    }
}

/* ---- Who writes ---- */

static uint64_t now_us(void)
{
    return copy_now_ms() * 1000;
}

bool copy_may_write(struct copy *copy, struct ticket *t, uint64_t bytes)
{
    return write_pace_enter(&copy->writes, &t->wait, t->change.op.client, bytes, now_us());
}

static bool has_limit(const struct copy *copy)
{
    return copy->setup.gate != NULL && copy->setup.gate->rate != 0;
}

void copy_write_tick(struct copy *copy)
{
    struct replica_progress progress;
    struct write_wait *wait;

    if (copy->ending || copy_trouble(copy) != NULL || has_limit(copy) ||
        !replica_progress(copy->replica, &progress)) {
        write_pace_stop(&copy->writes);
    } else {
        write_pace_look(&copy->writes, &progress, now_us());
    }
    while ((wait = write_pace_next(&copy->writes, now_us())) != NULL) {
        copy_ordered(copy, CONTAINER_OF(wait, struct ticket, wait));
    }
}

uint64_t copy_write_due_ms(const struct copy *copy)
{
    uint64_t due_us = write_pace_due_us(&copy->writes);
    struct replica_progress progress;
    bool looks = !has_limit(copy) && replica_progress(copy->replica, &progress);
    uint64_t look_us = looks ? copy->writes.looked_us + WRITE_LOOK_US : UINT64_MAX;

    due_us = look_us < due_us ? look_us : due_us;
    return due_us == UINT64_MAX ? UINT64_MAX : (due_us + 999) / 1000;
}

uint64_t copy_write_rate(const struct copy *copy, uint32_t *clients)
{
    *clients = HASH_COUNT(copy->writes.clients);
    return copy->writes.rate;
}
