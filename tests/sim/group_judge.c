/* What must hold of a group of members, judged by what went in and out of them. */
#include "common/base/check.h"
#include "tests/sim/group.h"

bool judge_decided(struct sim *s, uint64_t epoch, group_set set)
{
    struct world *w = world_of(s);

    CHECK(epoch < EPOCHS_MAX && set != 0);
    if (w->decided[epoch] != 0 && w->decided[epoch] != set) {
        return sim_fail(s, "epoch %llu is decided twice", (unsigned long long)epoch);
    }
    if (w->decided[epoch] == 0) {
        sim_worth(s, (set & ~w->decided[epoch - 1]) != 0 ? WORTH_GROWN : WORTH_VOTE);
    }
    w->decided[epoch] = set;
    w->newest = epoch > w->newest ? epoch : w->newest;
    return true;
}

/* ---- What a loss of power may take ---- */

static bool has_begun(const struct world *w, uint64_t epoch)
{
    for (uint32_t i = 0; i < w->members; i++) {
        if ((w->decided[epoch] >> i & 1) != 0 && w->member[i].disk.record.begun >= epoch) {
            return true;
        }
    }
    return epoch == 1;
}

/* Does the member have everything that was acknowledged, and can the others know it? */
static bool keeps(const struct world *w, uint32_t i)
{
    const struct member *m = &w->member[i];
    uint64_t newest = w->newest;

    if (m->lost || m->disk.record.state == GROUP_RECOVERING) {
        return false;
    }
    if ((w->decided[newest] >> i & 1) != 0) {
        return m->disk.record.epoch + 1 >= newest;
    }
    return !has_begun(w, newest) && (w->decided[newest - 1] >> i & 1) != 0 &&
           m->disk.record.epoch == newest - 1;
}

void judge_loss(struct sim *s, uint32_t node, bool anything)
{
    struct world *w = world_of(s);

    if (!anything) {
        return;
    }
    w->member[node].lost = true;
    w->losses++;
    for (uint32_t r = 0; r < REGIONS; r++) {
        struct region *region = &w->regions[r];
        uint64_t kept = region->durable;

        for (uint32_t i = 0; i < w->members; i++) {
            if (keeps(w, i) && w->member[i].versions[r] > kept) {
                kept = w->member[i].versions[r];
            }
        }
        if (kept < region->acked || kept < region->seen) {
            sim_worth(s, WORTH_LOSS);
            sim_trace(s, node, "** region %u: nobody has %llu for sure, %llu remains", r,
                      (unsigned long long)region->acked, (unsigned long long)kept);
        } else if (region->acked > 0) {
            sim_worth(s, WORTH_SURVIVED);
        }
        region->acked = kept < region->acked ? kept : region->acked;
        region->seen = kept < region->seen ? kept : region->seen;
    }
}

/* ---- After every event ---- */

static bool check_pair(struct sim *s, uint32_t i, uint32_t j)
{
    const struct group *a = &world_of(s)->member[i].group;
    const struct group *b = &world_of(s)->member[j].group;

    if (a->joined == 0 || b->joined == 0) {
        return true;
    }
    if (a->record.epoch == b->record.epoch && a->record.set != b->record.set) {
        return sim_fail(s, "two sets act in epoch %llu", (unsigned long long)a->record.epoch);
    }
    if (a->record.epoch < b->record.epoch && group_serves(a, sim_clock_ms(s, i))) {
        return sim_fail(s, "%s serves in epoch %llu while %s has begun epoch %llu",
                        s->nodes[i].name, (unsigned long long)a->record.epoch, s->nodes[j].name,
                        (unsigned long long)b->record.epoch);
    }
    return true;
}

bool group_judge_check(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->members; i++) {
        const struct member *m = &w->member[i];

        if (!s->nodes[i].up) {
            continue;
        }
        if (m->group.joined != 0 && w->decided[m->group.record.epoch] != m->group.record.set) {
            return sim_fail(s, "%s acts in epoch %llu with a set that no vote has given",
                            s->nodes[i].name, (unsigned long long)m->group.record.epoch);
        }
        for (uint32_t j = 0; j < w->members; j++) {
            if (j != i && s->nodes[j].up && !check_pair(s, i, j)) {
                return false;
            }
        }
    }
    return !s->failed;
}

bool group_judge_finish(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < REGIONS; i++) {
        if (w->clients[i].act != ACT_NONE) {
            return sim_fail(s, "%s still waits for call %llu, begun at %llu",
                            s->nodes[w->first_client + i].name,
                            (unsigned long long)w->clients[i].call,
                            (unsigned long long)w->clients[i].begun_ms);
        }
    }
    for (uint32_t i = 0; i < w->members; i++) {
        const struct member *m = &w->member[i];

        if (m->group.joined == 0 || m->group.record.state != GROUP_CONSISTENT) {
            return sim_fail(s, "%s is %s in epoch %llu although all is well again",
                            s->nodes[i].name, group_state_name(m->group.record.state),
                            (unsigned long long)m->group.record.epoch);
        }
        for (uint32_t r = 0; r < REGIONS; r++) {
            if (m->versions[r] != w->member[0].versions[r]) {
                return sim_fail(s, "the copies of region %u differ: %llu here, %llu at %s", r,
                                (unsigned long long)w->member[0].versions[r],
                                (unsigned long long)m->versions[r], s->nodes[i].name);
            }
        }
    }
    return true;
}
