/* Orders to look go out, and what is wrong leaves the maps. */
#include "meta/datasets/damages_uv.h"

#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"

enum { LINE_MS = 1000 /* Between two lines of the log about single copies. */ };

void damages_open(struct meta *meta)
{
    damage_init(&meta->damage, ns_sets(meta->ns), &meta->donors);
}

/* ---- A copy leaves the map ---- */

static int change(struct meta *meta, const struct damage_copy *copy, enum op_copy change)
{
    struct meta_op op = { .kind = OP_SET_COPY, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };

    op.set_copy.set = copy->set;
    op.set_copy.morsel = copy->morsel;
    op.set_copy.length = copy->length;
    op.set_copy.digest = copy->digest;
    op.set_copy.change = change;
    op.set_copy.donor = copy->donor;
    return meta_execute(meta, &op, &err);
}

/* The last one that the map names, of what mounts fetch again from elsewhere: they do so as soon as the map names none. */
static int lose_last(struct meta *meta, const struct damage_copy *copy)
{
    struct meta_op op = { .kind = OP_SET_LOST, .time_ns = meta_clock_ns() };
    struct buf runs;
    struct errmsg err = { "" };
    int rv;

    buf_init(&runs);
    op_run_put(&runs, (struct op_run){ copy->set, copy->morsel, 1 });
    op.set_runs.donor = copy->donor;
    op.set_runs.runs = buf_slice(&runs);
    rv = runs.failed ? MORSEL_NOMEM : meta_execute(meta, &op, &err);
    buf_free(&runs);
    return rv != 0 ? rv : change(meta, copy, OP_COPY_FORGET);
}

/* What becomes of it, for the log. What cannot be written down now is found again by the next reader. The last copy of what can be
 * had nowhere else stays: a disk may come to read it right again. */
static const char *lose(struct meta *meta, const struct damage_copy *copy)
{
    const struct data_set *set = sets_find(ns_sets(meta->ns), copy->set);
    struct set_morsel m;
    bool is_last = set == NULL || !set_get(set, copy->morsel, &m) || m.donor_count <= 1;
    int rv;

    if (is_last && (set == NULL || !set->head.has_origin || !set->head.fetched)) {
        damage_keep(&meta->damage, copy, meta_now_ms(meta));
        return "it is the last one that there is, and stays: whoever reads it hears EIO; "
               "`morsel status --unavailable` lists the file";
    }
    rv = is_last ? lose_last(meta, copy) : change(meta, copy, OP_COPY_YIELD);
    return rv != 0   ? "it stays for now, for that cannot be written down"
           : is_last ? "it is deleted, and comes from its origin again"
                     : "it is deleted, and another one is made";
}

/* ---- What the core says ---- */

/* False: nothing can be told on its connection. */
static bool order(struct meta *meta, const struct damage_action *action)
{
    const struct donor *has = donors_find(&meta->donors, action->copy.donor);
    const struct donor *looker = donors_find(&meta->donors, action->looker);
    Morsel__DonorFetch fetch = MORSEL__DONOR_FETCH__INIT;
    Morsel__DonorPlace place = MORSEL__DONOR_PLACE__INIT;

    place.id = action->copy.donor;
    place.address = (char *)(uintptr_t)has->address;
    place.instance = has->instance;
    fetch.order = action->order;
    fetch.set = action->copy.set;
    fetch.morsel = action->copy.morsel;
    fetch.length = action->copy.length;
    fetch.digest = action->copy.digest;
    fetch.source = &place;
    return rpc_push(meta->server, ROLE_BENEFACTOR, donors_peer(action->looker, looker->instance),
                    MSG_DONOR_CHECK, &fetch.base);
}

/* May a line about a single copy be written? Thousands may be found at once: `morsel donors` counts them. */
static bool take_line(struct meta *meta)
{
    uint64_t now_ms = meta_now_ms(meta);

    if (meta->damage_logged_ms != 0 && now_ms - meta->damage_logged_ms < LINE_MS) {
        return false;
    }
    meta->damage_logged_ms = now_ms;
    return true;
}

static void blame(struct meta *meta, donor_id id, enum blame_kind kind)
{
    const struct donor *donor = donors_find(&meta->donors, id);

    if (!donors_blame(&meta->donors, id, kind, meta_now_ms(meta))) {
        return;
    }
    log_error(meta->log,
              "benefactor %u (%s, %s) is not trusted any more: %s; it gets nothing new, and what "
              "it has is copied to others. Check its disk, memory and network; `morsel donors "
              "trust %u` makes it count again",
              id, donor->record.name, donor->address,
              kind == BLAME_LIED ? "it says that its copies are right, and gives out something else"
                                 : "morsels there are found damaged again and again",
              id);
}

static void on_bad(struct meta *meta, const struct damage_copy *copy)
{
    const char *what = lose(meta, copy);

    if (take_line(meta)) {
        log_warning(meta->log,
                    "benefactor %u has found its copy of morsel %u of data set %llu damaged or "
                    "missing: %s",
                    copy->donor, copy->morsel, (unsigned long long)copy->set, what);
    }
    blame(meta, copy->donor, BLAME_DAMAGED);
}

static void on_lied(struct meta *meta, const struct damage_action *action)
{
    const struct damage_copy *copy = &action->copy;

    if (take_line(meta)) {
        log_warning(meta->log,
                    "benefactor %u says that its copy of morsel %u of data set %llu is right, and "
                    "benefactor %u, like a mount, has got something else from it",
                    copy->donor, copy->morsel, (unsigned long long)copy->set, action->looker);
    }
    blame(meta, copy->donor, BLAME_LIED);
}

static void step(struct meta *meta, const struct damage_event *event);

static void perform(struct meta *meta, const struct damage_action *action)
{
    switch (action->type) {
    case DAMAGE_LOOK:
        if (!order(meta, action)) {
            damages_looked(meta, action->looker, action->order, REPAIR_FAILED);
        }
        break;
    case DAMAGE_BAD:
        on_bad(meta, &action->copy);
        break;
    case DAMAGE_LIED:
        on_lied(meta, action);
        break;
    case DAMAGE_RIGHT:
        if (take_line(meta)) {
            log_info(meta->log,
                     "a reader found the copy of morsel %u of data set %llu at benefactor %u "
                     "wrong; two benefactors have looked, and it is right",
                     action->copy.morsel, (unsigned long long)action->copy.set, action->copy.donor);
        }
        break;
    }
}

static void step(struct meta *meta, const struct damage_event *event)
{
    struct damage_actions out;

    out.count = 0;
    damage_step(&meta->damage, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform(meta, &out.items[i]);
    }
}

/* ---- The face ---- */

void damages_named(struct meta *meta, uint64_t reader, const struct damage_copy *copy)
{
    const struct damage_event event = {
        .now_ms = meta_now_ms(meta), .type = DAMAGE_NAMED, .reader = reader, .copy = *copy
    };

    step(meta, &event);
    meta_arm(meta);
}

void damages_looked(struct meta *meta, donor_id looker, uint64_t order, enum repair_outcome outcome)
{
    const struct damage_event event = { .now_ms = meta_now_ms(meta),
                                        .type = DAMAGE_LOOKED,
                                        .order = order,
                                        .looker = looker,
                                        .found = outcome == REPAIR_DONE ? DAMAGE_FOUND_RIGHT
                                                 : outcome == REPAIR_DAMAGED
                                                     ? DAMAGE_FOUND_WRONG
                                                     : DAMAGE_FOUND_NOTHING };

    step(meta, &event);
    meta_arm(meta);
}

void damages_tick(struct meta *meta, uint64_t now_ms)
{
    const struct damage_event event = { .now_ms = now_ms, .type = DAMAGE_TICK };

    if (damage_deadline_ms(&meta->damage) <= now_ms) {
        step(meta, &event);
    }
}
