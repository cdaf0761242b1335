/* Morsels that nobody has and that come from an origin: which mount fetches them, and where it has put them. */
#include "common/base/status.h"
#include "meta/cluster/donors_uv.h"
#include "meta/datasets/claims_uv.h"
#include "meta/datasets/sets_uv.h"
#include "meta/service/handlers_uv.h"

#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 200 /* For who asks for what another one fetches. */ };

/* Numbers of the wire. */
enum claim_state { CLAIM_YOURS = 1, CLAIM_OTHERS, CLAIM_THERE };

/* NULL: nothing is claimed of it, for it is not there, not complete, or comes from nowhere. */
static const struct data_set *find_set(const struct request *r, inode_id inode, uint64_t number)
{
    const struct data_set *set = sets_find(ns_sets(r->meta->ns), number);

    return set != NULL && set->head.inode == inode && set->head.sealed && set->head.has_origin
               ? set
               : NULL;
}

/* ---- Whose they are ---- */

static enum claim_state state_of(const struct request *r, const struct data_set *set,
                                 uint32_t number)
{
    const struct claim *claim = claims_find(&r->meta->claims, set->head.number, number);
    struct set_morsel m;

    if (set_get(set, number, &m) && m.donor_count > 0) {
        return CLAIM_THERE;
    }
    return claim != NULL && claim_client(claim) != r->rpc->node_id ? CLAIM_OTHERS : CLAIM_YOURS;
}

/* So many of them are as the first one. */
static uint32_t alike(const struct request *r, const struct data_set *set, uint32_t first,
                      uint32_t count, enum claim_state state)
{
    uint32_t n = 1;

    while (n < count && state_of(r, set, first + n) == state) {
        n++;
    }
    return n;
}

/* Who asks once more for what he has claimed may have it on its way already: it goes where it was to go, if that is there still. */
static void keep_places(const struct request *r, uint64_t set, uint32_t morsel, donor_id *donors,
                        uint32_t copies)
{
    const struct claim *claim = claims_find(&r->meta->claims, set, morsel);

    if (claim == NULL || claim->copies != copies || claim_client(claim) != r->rpc->node_id) {
        return;
    }
    for (uint32_t i = 0; i < copies; i++) {
        const struct donor *donor = donors_find(&r->meta->donors, claim->donors[i]);

        if (donor == NULL || !donor_takes(donor)) {
            return;
        }
    }
    memcpy(donors, claim->donors, copies * sizeof(donors[0]));
}

/* As many as there are places for are claimed; those are what is left of *placed. */
static void claim_placed(struct request *r, uint64_t set, uint32_t first, struct placed *placed)
{
    uint32_t n = 0;

    while (n < placed->count) {
        donor_id *donors = placed->donors + (size_t)n * placed->copies;

        keep_places(r, set, first + n, donors, placed->copies);
        if (!claims_put(&r->meta->claims, r->rpc->node_id, set, first + n, donors, placed->copies,
                        meta_now_ms(r->meta))) {
            break;
        }
        n++;
    }
    placed->count = n;
}

static int claim_some(struct request *r, const struct data_set *set, uint32_t first, uint32_t count,
                      struct placed *placed)
{
    struct inode inode;
    int rv = ns_inode(r->meta->ns, set->head.inode, &inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    if (inode_body(&inode) != set->head.number) {
        errmsg_set(&r->err, "the bytes of the file have begun anew since");
        return MORSEL_STALE;
    }
    rv = sets_place_back(r->meta, &inode, first, count, placed);
    if (rv == 0) {
        claim_placed(r, set->head.number, first, placed);
    }
    return rv;
}

/* ---- The answer ---- */

struct claim_answer
{
    struct placed placed;
    Morsel__DonorPlace items[SET_CLAIM_MAX * REPLICAS_MAX];
    Morsel__DonorPlace *pointers[SET_CLAIM_MAX * REPLICAS_MAX];
    size_t count;
};

static void answer_place(const struct request *r, struct claim_answer *answer, donor_id id)
{
    const struct donor *donor = donors_find(&r->meta->donors, id);
    Morsel__DonorPlace *place = &answer->items[answer->count];

    for (size_t i = answer->count; i-- > 0;) {
        if (answer->items[i].id == id) {
            return;
        }
    }
    morsel__donor_place__init(place);
    place->id = id;
    place->address = (char *)(uintptr_t)donor->address;
    place->instance = donor->instance;
    answer->pointers[answer->count++] = place;
}

static int answer_yours(struct request *r, const struct data_set *set, uint32_t first,
                        Morsel__SetClaimReply *reply)
{
    struct claim_answer *answer = calloc(1, sizeof(*answer));
    int rv =
        answer == NULL ? MORSEL_NOMEM : claim_some(r, set, first, reply->count, &answer->placed);

    if (rv == 0) {
        const struct placed *placed = &answer->placed;

        reply->count = placed->count > 0 ? placed->count : reply->count;
        reply->copies = placed->copies;
        reply->n_donors = (size_t)placed->count * placed->copies;
        reply->donors = answer->placed.donors;
        for (size_t i = 0; i < reply->n_donors; i++) {
            answer_place(r, answer, reply->donors[i]);
        }
        reply->n_places = answer->count;
        reply->places = answer->pointers;
        rpc_reply(r->rpc, &reply->base, NULL);
    }
    free(answer);
    return rv;
}

static void end_claims(struct request *r, const Morsel__SetClaimRequest *m)
{
    for (uint32_t i = 0; i < m->count; i++) {
        (void)claims_end(&r->meta->claims, r->rpc->node_id, m->set, m->first + i);
    }
}

int serve_set_claim(struct request *r)
{
    const Morsel__SetClaimRequest *m = r->message;
    const struct data_set *set;
    Morsel__SetClaimReply reply = MORSEL__SET_CLAIM_REPLY__INIT;

    if (m->count > SET_CLAIM_MAX || m->first >= SET_MORSELS_MAX ||
        m->count > SET_MORSELS_MAX - m->first) {
        return MORSEL_MALFORMED;
    }
    claims_renew(&r->meta->claims, r->rpc->node_id, m->set, meta_now_ms(r->meta));
    if (m->ends || m->count == 0) {
        end_claims(r, m);
        rpc_reply(r->rpc, &reply.base, NULL);
        return 0;
    }
    if ((set = find_set(r, m->inode, m->set)) == NULL) {
        errmsg_set(&r->err, "that is not a complete data set that comes from an origin");
        return MORSEL_STALE;
    }
    reply.state = state_of(r, set, m->first);
    reply.count = alike(r, set, m->first, m->count, (enum claim_state)reply.state);
    if (reply.state == CLAIM_YOURS) {
        return answer_yours(r, set, m->first, &reply);
    }
    reply.wait_ms = reply.state == CLAIM_OTHERS ? WAIT_MS : 0;
    rpc_reply(r->rpc, &reply.base, NULL);
    return 0;
}

/* ---- What was put back ---- */

/* Is it to be put there, by whoever says that it was, or by another one? */
static bool is_claimed(const struct request *r, const Morsel__SetReturnedRequest *m, donor_id id,
                       bool by_him)
{
    const struct claim *claim = claims_find(&r->meta->claims, m->set, m->morsel->number);
    bool found = false;

    if (claim == NULL || (claim_client(claim) == r->rpc->node_id) != by_him) {
        return false;
    }
    for (uint32_t i = 0; i < claim->copies; i++) {
        found = found || claim->donors[i] == id;
    }
    return found;
}

/* It is to be deleted there, unless another one puts it there meanwhile: it would be his that goes. */
static int take_off(struct request *r, const Morsel__SetReturnedRequest *m, donor_id id)
{
    return is_claimed(r, m, id, false) ? 0 : claims_forget(r->meta, m->set, m->morsel->number, id);
}

/* The process that has acknowledged it is the one that serves, and what is on its way there is no other copy. */
static bool counts(const struct request *r, const Morsel__SetReturnedRequest *m, donor_id id)
{
    const struct donor *donor = donors_find(&r->meta->donors, id);
    uint64_t instance = 0;

    for (size_t i = 0; i < m->n_places; i++) {
        instance = m->places[i]->id == id ? m->places[i]->instance : instance;
    }
    return donor != NULL && donor->told_held && donor->instance == instance &&
           is_claimed(r, m, id, true) &&
           !repair_is_fetching(&r->meta->repair, m->set, m->morsel->number, id) &&
           find_set(r, m->inode, m->set) != NULL;
}

int serve_set_returned(struct request *r)
{
    const Morsel__SetReturnedRequest *m = r->message;
    const Morsel__SetMorsel *morsel = m->morsel;
    struct set_morsel came;
    int rv = 0;

    if (morsel == NULL || m->set == 0 || morsel->number >= SET_MORSELS_MAX ||
        morsel->n_donors + morsel->n_left > REPLICAS_MAX || m->n_places > REPLICAS_MAX) {
        return MORSEL_MALFORMED;
    }
    came = (struct set_morsel){ .number = morsel->number,
                                .length = morsel->length,
                                .digest = morsel->digest };
    for (size_t i = 0; rv == 0 && i < morsel->n_donors; i++) {
        rv = counts(r, m, morsel->donors[i])
                 ? claims_returned(r->meta, m->set, &came, morsel->donors[i])
                 : take_off(r, m, morsel->donors[i]);
    }
    for (size_t i = 0; rv == 0 && i < morsel->n_left; i++) {
        rv = take_off(r, m, morsel->left[i]);
    }
    if (rv != 0) {
        return rv;
    }
    (void)claims_end(&r->meta->claims, r->rpc->node_id, m->set, came.number);
    rpc_reply(r->rpc, NULL, NULL);
    return 0;
}
