/* Claims by morsel, and by who holds them (claims.h). */
#include "meta/datasets/claims.h"

#include "common/base/check.h"

#include <stdlib.h>
#include <string.h>

void claims_init(struct claims *c)
{
    *c = (struct claims){ .count = 0 };
    list_init(&c->order);
}

static struct claim_holder *holder_find(const struct claims *c, client_id client, uint64_t set)
{
    const struct claim_holder_key key = { client, set };
    struct claim_holder *holder;

    HASH_FIND(hh, c->holders, &key, sizeof(key), holder);
    return holder;
}

static struct claim *find(const struct claims *c, uint64_t set, uint32_t morsel)
{
    const struct claim_key key = { set, morsel };
    struct claim *claim;

    HASH_FIND(hh, c->by_morsel, &key, sizeof(key), claim);
    return claim;
}

const struct claim *claims_find(const struct claims *c, uint64_t set, uint32_t morsel)
{
    return find(c, set, morsel);
}

client_id claim_client(const struct claim *claim)
{
    return claim->holder->key.client;
}

static void holder_free(struct claims *c, struct claim_holder *holder)
{
    CHECK(holder->count == 0 && c->holders != NULL); /* It is in there. */
    HASH_DEL(c->holders, holder);
    list_remove(&holder->node);
    free(holder);
}

/* NULL: no memory. */
static struct claim_holder *holder_make(struct claims *c, client_id client, uint64_t set)
{
    struct claim_holder *holder = holder_find(c, client, set);

    if (holder != NULL || (holder = calloc(1, sizeof(*holder))) == NULL) {
        return holder;
    }
    holder->key = (struct claim_holder_key){ client, set };
    list_init(&holder->node);
    list_init(&holder->claims);
    HASH_ADD(hh, c->holders, key, sizeof(holder->key), holder);
    if (!TABLE_ADDED(holder)) {
        free(holder);
        return NULL;
    }
    list_push_back(&c->order, &holder->node);
    return holder;
}

/* All live equally long, and the last one that was heard of is the last. */
static void renew(struct claims *c, struct claim_holder *holder, uint64_t now_ms)
{
    holder->until_ms = now_ms + CLAIM_MS;
    list_remove(&holder->node);
    list_push_back(&c->order, &holder->node);
}

static struct claim *claim_make(struct claims *c, struct claim_holder *holder, uint64_t set,
                                uint32_t morsel)
{
    struct claim *claim =
        c->count < CLAIMS_MAX && holder->count < CLAIMS_HELD_MAX ? calloc(1, sizeof(*claim)) : NULL;

    if (claim == NULL) {
        return NULL;
    }
    claim->key = (struct claim_key){ set, morsel };
    claim->holder = holder;
    list_init(&claim->node);
    HASH_ADD(hh, c->by_morsel, key, sizeof(claim->key), claim);
    if (!TABLE_ADDED(claim)) {
        free(claim);
        return NULL;
    }
    list_push_back(&holder->claims, &claim->node);
    holder->count++;
    c->count++;
    return claim;
}

/* Its holder stays. */
static void claim_free(struct claims *c, struct claim *claim)
{
    CHECK(c->by_morsel != NULL); /* It is in there. */
    HASH_DEL(c->by_morsel, claim);
    list_remove(&claim->node);
    claim->holder->count--;
    c->count--;
    free(claim);
}

bool claims_put(struct claims *c, client_id client, uint64_t set, uint32_t morsel,
                const donor_id *donors, uint32_t copies, uint64_t now_ms)
{
    struct claim *claim = find(c, set, morsel);
    struct claim_holder *holder;

    CHECK(copies <= REPLICAS_MAX);
    if (claim != NULL && claim_client(claim) != client) {
        return false;
    }
    if ((holder = holder_make(c, client, set)) == NULL) {
        return false;
    }
    if (claim == NULL && (claim = claim_make(c, holder, set, morsel)) == NULL) {
        if (holder->count == 0) {
            holder_free(c, holder);
        }
        return false;
    }
    claim->copies = copies;
    memcpy(claim->donors, donors, copies * sizeof(donors[0]));
    renew(c, holder, now_ms);
    return true;
}

void claims_renew(struct claims *c, client_id client, uint64_t set, uint64_t now_ms)
{
    struct claim_holder *holder = holder_find(c, client, set);

    if (holder != NULL) {
        renew(c, holder, now_ms);
    }
}

bool claims_end(struct claims *c, client_id client, uint64_t set, uint32_t morsel)
{
    struct claim *claim = find(c, set, morsel);
    struct claim_holder *holder;

    if (claim == NULL || claim_client(claim) != client) {
        return false;
    }
    holder = claim->holder;
    claim_free(c, claim);
    if (holder->count == 0) {
        holder_free(c, holder);
    }
    return true;
}

const struct claim *claims_first_over(const struct claims *c, uint64_t now_ms)
{
    const struct claim_holder *holder;

    if (list_empty(&c->order)) {
        return NULL;
    }
    holder = LIST_ENTRY(list_front(&c->order), struct claim_holder, node);
    return now_ms < holder->until_ms ? NULL
                                     : LIST_ENTRY(list_front(&holder->claims), struct claim, node);
}

void claims_drop_last(struct claims *c, uint64_t set, uint32_t morsel)
{
    struct claim *claim = find(c, set, morsel);

    CHECK(claim != NULL && claim->copies > 0);
    claim->copies--;
}

bool claims_over(struct claims *c, uint64_t now_ms, struct claim *out)
{
    const struct claim *claim = claims_first_over(c, now_ms);

    if (claim == NULL) {
        return false;
    }
    *out = *claim;
    out->holder = NULL;
    (void)claims_end(c, claim_client(claim), claim->key.set, (uint32_t)claim->key.morsel);
    return true;
}

void claims_free(struct claims *c)
{
    struct claim over;

    while (c->count > 0) {
        CHECK(claims_over(c, UINT64_MAX, &over));
    }
    CHECK(c->count == 0 && c->by_morsel == NULL && c->holders == NULL);
}

void claims_check(const struct claims *c)
{
    uint64_t until_ms = 0;
    uint32_t count = 0;

    LIST_FOREACH(node, &c->order)
    {
        const struct claim_holder *holder = LIST_ENTRY(node, struct claim_holder, node);
        uint32_t held = 0;

        CHECK(holder->until_ms >= until_ms);
        CHECK(holder_find(c, holder->key.client, holder->key.set) == holder);
        until_ms = holder->until_ms;
        LIST_FOREACH(inner, &holder->claims)
        {
            const struct claim *claim = LIST_ENTRY(inner, struct claim, node);

            CHECK(claim->holder == holder && claim->key.set == holder->key.set);
            CHECK(claims_find(c, claim->key.set, (uint32_t)claim->key.morsel) == claim);
            held++;
        }
        CHECK(held == holder->count && held > 0 && held <= CLAIMS_HELD_MAX);
        count += held;
    }
    CHECK(count == c->count && count <= CLAIMS_MAX);
    CHECK(HASH_COUNT(c->by_morsel) == count);
}
