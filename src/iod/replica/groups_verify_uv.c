/* Which groups' copies are compared: those that the manager wants, one at a time, to its end. */
#include "iod/replica/groups_inner_uv.h"

/* It orders, and is not done. */
static bool is_to_verify(const struct group_entry *e)
{
    const struct replica *r = e->copy != NULL ? copy_replica(e->copy) : NULL;

    return r != NULL && e->verify_run != 0 && order_orders(&r->order) && copy_is_well(e->copy) &&
           !(r->verify.verify.run == e->verify_run && r->verify.verify.done);
}

static bool is_verifying(const struct group_entry *e)
{
    const struct verify *v = &copy_replica(e->copy)->verify.verify;

    return v->running && v->run == e->verify_run;
}

void groups_verify_next(struct groups *g)
{
    struct group_entry *e, *next, *chosen = NULL;

    HASH_ITER(hh, g->table, e, next)
    {
        if (is_to_verify(e) && (chosen == NULL || is_verifying(e))) {
            chosen = e;
        }
    }
    HASH_ITER(hh, g->table, e, next)
    {
        uint64_t run = e == chosen ? e->verify_run : 0;

        if (e->copy != NULL && copy_replica(e->copy)->verify.wanted != run) {
            copy_verify(e->copy, run);
        }
    }
}

void groups_set_verify(struct groups *g, const uint32_t *numbers, const uint64_t *runs,
                       size_t count)
{
    struct group_entry *e, *next;

    HASH_ITER(hh, g->table, e, next)
    {
        e->verify_run = 0;
        for (size_t i = 0; i < count && e->verify_run == 0; i++) {
            e->verify_run = numbers[i] == e->number ? runs[i] : 0;
        }
    }
}

size_t groups_verify_states(const struct groups *g, Morsel__VerifyState *states, size_t max)
{
    struct group_entry *e, *next;
    size_t count = 0;

    HASH_ITER(hh, g->table, e, next)
    {
        const struct verify *v = e->copy != NULL ? &copy_replica(e->copy)->verify.verify : NULL;
        Morsel__VerifyState *s = &states[count];

        if (v == NULL || e->verify_run == 0 || v->run != e->verify_run || count == max ||
            !(v->done || order_orders(&copy_replica(e->copy)->order))) {
            continue;
        }
        morsel__verify_state__init(s);
        s->group = e->number;
        s->run = v->run;
        s->done = v->done;
        s->objects = v->counts.objects;
        s->bytes = v->counts.bytes;
        s->damaged = v->counts.damaged;
        s->differing = v->counts.differing;
        s->repaired = v->counts.repaired;
        s->broken = v->counts.broken;
        s->part = verify_part(v);
        count++;
    }
    return count;
}
