/* Copies that mounts have put back, or perhaps have not, by operations. */
#include "meta/datasets/claims_uv.h"

#include "common/base/status.h"

enum { OVER_MAX = 64 /* Claims of one pulse: nobody waits for longer than for that. */ };

static int execute(struct meta *meta, struct meta_op *op)
{
    struct errmsg err = { "" };
    int rv;

    op->time_ns = meta_clock_ns();
    if ((rv = meta_execute(meta, op, &err)) != 0) {
        log_debug(meta->log, "morsel %u of data set %llu at benefactor %u: not written down: %s",
                  op->set_copy.morsel, (unsigned long long)op->set_copy.set, op->set_copy.donor,
                  status_words(rv));
    }
    return rv;
}

int claims_forget(struct meta *meta, uint64_t set, uint32_t morsel, donor_id donor)
{
    struct meta_op op = { .kind = OP_SET_COPY };

    if (donors_find(&meta->donors, donor) == NULL) {
        return 0; /* It is forgotten, or never was one: nobody would ever delete it there. */
    }
    op.set_copy.set = set;
    op.set_copy.morsel = morsel;
    op.set_copy.change = OP_COPY_FORGET;
    op.set_copy.donor = donor;
    return execute(meta, &op);
}

int claims_returned(struct meta *meta, uint64_t set, const struct set_morsel *morsel,
                    donor_id donor)
{
    struct meta_op op = { .kind = OP_SET_COPY };

    op.set_copy.set = set;
    op.set_copy.morsel = morsel->number;
    op.set_copy.length = morsel->length;
    op.set_copy.digest = morsel->digest;
    op.set_copy.change = OP_COPY_ADD;
    op.set_copy.donor = donor;
    op.set_copy.instead = OP_COPY_BACK;
    return execute(meta, &op);
}

static void on_loaded(void *data, struct rpc_request *request, uint64_t subject)
{
    struct meta *meta = data;

    (void)request;
    (void)subject;
    meta->claims_loading = false;
}

/* What it may have put somewhere is to be deleted. False: the disk is waited for, and the rest of its donors are claimed until then. */
static bool end_one(struct meta *meta, const struct claim *over)
{
    uint64_t set = over->key.set;
    uint32_t morsel = (uint32_t)over->key.morsel;

    for (uint32_t left = over->copies; left > 0; left--) {
        loads_begin(&meta->loads); /* What is noted of another one's question keeps nothing. */
        if (claims_forget(meta, set, morsel, over->donors[left - 1]) == MORSEL_AGAIN) {
            meta->claims_loading = loads_wait(&meta->loads, NULL, on_loaded, 0);
            return false;
        }
        claims_drop_last(&meta->claims, set, morsel);
    }
    (void)claims_end(&meta->claims, claim_client(over), set, morsel);
    return true;
}

void claims_pulse(struct meta *meta, uint64_t now_ms)
{
    const struct claim *over;

    for (unsigned i = 0; i < OVER_MAX && !meta->claims_loading &&
                         (over = claims_first_over(&meta->claims, now_ms)) != NULL;
         i++) {
        log_debug(meta->log, "morsel %llu of data set %llu: who was to put it back is silent",
                  (unsigned long long)over->key.morsel, (unsigned long long)over->key.set);
        if (!end_one(meta, over)) {
            break;
        }
    }
    loads_begin(&meta->loads);
}
