/* Copies compared in the group scenario: what a member has there, differences that are planted, and that
 * none is found where nobody planted one. */
#include "common/base/check.h"
#include "tests/sim/group.h"

#include <string.h>

static struct member *member_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->member[node];
}

void member_plant(struct sim *s, uint32_t node, uint32_t cell, uint64_t value)
{
    struct member *m = member_of(s, node);

    sim_trace(s, node, "** cell %u of object %u becomes another one", cell, OBJECTS);
    m->bytes.cells[OBJECTS - 1][cell] = (struct cell){ .value = value << 32, .stamp = ++m->stamp };
}

/* One or two objects a page. */
static void see_list(struct sim *s, uint32_t node, const struct work *w)
{
    struct verify_list list = { .upto = w->step.after + 1 + prng_below(&s->prng, 2) };

    for (uint64_t o = w->step.after + 1; o <= list.upto && o <= OBJECTS; o++) {
        list.items[list.count++] = (struct verify_item){ { o, 0 }, o };
    }
    list.upto = list.upto >= OBJECTS ? UINT64_MAX : list.upto;
    replica_saw_list(member_of(s, node)->replica, w->id, &list);
}

/* A cell is read at any moment between begin and end. */
static void see_bytes(struct sim *s, uint32_t node, const struct work *w)
{
    struct member *m = member_of(s, node);
    uint64_t o = w->step.object.inode - 1, start = w->step.span.start, end = w->step.span.end;
    struct verify_seen seen = { .exists = true, .size = CELLS * CELL_BYTES, .next = UINT64_MAX };

    CHECK(o < OBJECTS);
    if (w->step.hold) {
        sim_worth(s, WORTH_HELD);
    }
    seen.next = end < seen.size ? end : UINT64_MAX;
    for (uint32_t b = 0; b < (end - start) / BLOCK_BYTES; b++) {
        uint64_t cell = (start + (uint64_t)b * BLOCK_BYTES) / CELL_BYTES;
        bool early = b % (CELL_BYTES / BLOCK_BYTES) == 0 && prng_below(&s->prng, 2) == 0;
        const struct bytes *from = sim_canary(s, "looks_at_old_bytes") ? &m->disk.bytes
                                   : early                             ? &w->bytes
                                                                       : &m->bytes;

        seen.sums[b] =
            cell < CELLS ? (uint32_t)(from->cells[o][cell].value ^ from->cells[o][cell].value >> 32)
                         : 0;
    }
    if (sim_canary(s, "overlooks_differences")) {
        memset(seen.sums, 0, sizeof(seen.sums));
    }
    replica_saw(m->replica, w->id, &seen);
}

void verify_see(struct sim *s, uint32_t node, const struct work *w)
{
    if (prng_below(&s->prng, 50) == 0) {
        replica_saw_nothing(member_of(s, node)->replica, w->id);
    } else if (w->step.type == VERIFY_LIST) {
        see_list(s, node, w);
    } else {
        see_bytes(s, node, w);
    }
}

void verify_found(struct sim *s, uint32_t node, const struct verify_found *found)
{
    sim_trace(s, node, "finds that object %llu differs: %u gets what %u has%s",
              (unsigned long long)found->step.object.inode, (unsigned)__builtin_ctz(found->step.to),
              found->step.source, found->repaired ? "" : ", in vain");
    sim_worth(s, WORTH_FOUND);
    if (!world_of(s)->plants || found->step.object.inode != OBJECTS) {
        (void)sim_fail(s, "a difference is found in object %llu, where nobody has made one",
                       (unsigned long long)found->step.object.inode);
    }
}

void verify_run(struct sim *s, uint32_t node)
{
    struct replica *r = member_of(s, node)->replica;
    const struct verify *v = &r->verify.verify;
    group_set everybody = (group_set)((1U << world_of(s)->members) - 1);

    if (v->done && v->run == r->verify.wanted) {
        sim_worth(s, WORTH_VERIFIED);
    }
    replica_set_verify(r, v->running && !v->done ? v->run : world_of(s)->verify_run,
                       r->group.joined != 0 && r->group.record.set == everybody);
}
