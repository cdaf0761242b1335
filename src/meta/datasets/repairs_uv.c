/* Orders of the repair go out, and its copies into the maps. */
#include "meta/datasets/repairs_uv.h"

#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/datasets/damages_uv.h"
#include "meta/datasets/relocate.h"

void repairs_open(struct meta *meta)
{
    repair_init(&meta->repair, ns_sets(meta->ns), &meta->donors, meta->settings->repair_after_ms,
                meta_now_ms(meta));
    meta->repair.hours = &meta->hours;
    heat_init(&meta->heat, meta_now_ms(meta));
    meta->repair.heat = &meta->heat;
}

/* False: its connection has just ended. */
static bool order(struct meta *meta, const struct repair_task *task)
{
    const struct donor *source = donors_find(&meta->donors, task->source);
    Morsel__DonorFetch fetch = MORSEL__DONOR_FETCH__INIT;
    Morsel__DonorPlace place = MORSEL__DONOR_PLACE__INIT;

    place.id = task->source;
    place.address = (char *)(uintptr_t)source->address;
    place.instance = source->instance;
    fetch.order = task->order;
    fetch.set = task->set;
    fetch.morsel = task->morsel;
    fetch.length = task->length;
    fetch.digest = task->digest;
    fetch.source = &place;
    return rpc_push(meta->server, ROLE_BENEFACTOR, donors_peer(task->target, task->target_instance),
                    MSG_DONOR_FETCH, &fetch.base);
}

/* What a full disk of the manager, or a want of memory, keeps from being written comes up again: the morsel is still short, or
 * still has one copy too many. */
static void write_down(struct meta *meta, const struct repair_action *action, enum op_copy change)
{
    const struct repair_task *task = &action->task;
    struct meta_op op = { .kind = OP_SET_COPY, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    int rv;

    op.set_copy.set = task->set;
    op.set_copy.morsel = task->morsel;
    op.set_copy.length = task->length;
    op.set_copy.digest = task->digest;
    op.set_copy.change = change;
    op.set_copy.donor = task->target;
    op.set_copy.instead = action->instead;
    if ((rv = meta_execute(meta, &op, &err)) != 0) {
        log_debug(meta->log, "morsel %u of data set %llu at benefactor %u: not written down: %s",
                  task->morsel, (unsigned long long)task->set, task->target, status_words(rv));
    }
}

/* The source is looked at, as where a mount says so. */
static void note_failure(struct meta *meta, const struct repair_action *action)
{
    const struct repair_task *task = &action->task;
    const struct damage_copy copy = { task->set, task->morsel, task->length, task->digest,
                                      task->source };

    if (action->outcome == REPAIR_DAMAGED && task->source != 0) {
        log_warning(
            meta->log,
            "benefactor %u says that the copy of morsel %u of data set %llu at benefactor %u "
            "is not what was stored",
            task->target, task->morsel, (unsigned long long)task->set, task->source);
        damages_named(meta, task->target, &copy);
    }
}

/* A target writes when all of it is read and right: behind these nothing is there that was not before. */
static bool wrote_nothing(const struct repair_action *action)
{
    return action->outcome == REPAIR_UNREACHABLE || action->outcome == REPAIR_DAMAGED;
}

static void perform(struct meta *meta, const struct repair_action *action)
{
    switch (action->type) {
    case REPAIR_FETCH:
        if (!order(meta, &action->task)) {
            repairs_fetched(meta, &action->task, REPAIR_FAILED);
        }
        break;
    case REPAIR_ADD:
        write_down(meta, action, OP_COPY_ADD);
        break;
    case REPAIR_FORGET:
        note_failure(meta, action);
        if (!wrote_nothing(action) && donors_find(&meta->donors, action->task.target) != NULL) {
            write_down(meta, action, OP_COPY_FORGET);
        }
        break;
    case REPAIR_DROP:
        write_down(meta, action, OP_COPY_DROP);
        break;
    case REPAIR_YIELD:
        write_down(meta, action, OP_COPY_YIELD);
        break;
    }
}

/* At the first count that finds some, and at the first that finds none again. */
static void log_short(struct meta *meta)
{
    const struct repair *r = &meta->repair;

    if ((r->morsels_short > 0) == meta->repair_said) {
        return;
    }
    meta->repair_said = r->morsels_short > 0;
    if (meta->repair_said) {
        log_info(meta->log,
                 "%llu morsels have fewer copies here than wanted, %llu of them none: they are "
                 "copied when those who have them stay away",
                 (unsigned long long)r->morsels_short, (unsigned long long)r->morsels_away);
    } else {
        log_info(meta->log, "all morsels have their copies here again");
    }
}

static void step(struct meta *meta, const struct repair_event *event)
{
    struct repair_actions out;

    out.count = 0;
    relocate_step(&meta->repair, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform(meta, &out.items[i]);
    }
    log_short(meta);
}

void repairs_tick(struct meta *meta, uint64_t now_ms)
{
    const struct repair_event event = { .now_ms = now_ms, .type = REPAIR_TICK };

    if (relocate_deadline_ms(&meta->repair) <= now_ms) {
        step(meta, &event);
    }
}

void repairs_fetched(struct meta *meta, const struct repair_task *fetched,
                     enum repair_outcome outcome)
{
    const struct repair_event event = {
        .now_ms = meta_now_ms(meta), .type = REPAIR_FETCHED, .fetched = *fetched, .outcome = outcome
    };

    step(meta, &event);
    meta_arm(meta);
}
