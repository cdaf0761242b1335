/* Copies that were found wrong: the manager hears of them, a few at a time, and has them looked at.
 *
 * What is read over and over is wrong over and over: each copy is told once in TOLD_MS. What finds no room is told when it is found
 * again. Nobody waits for any of this. */
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

enum {
    TOLD_MAX = 256, /* Are remembered; older ones are told again. */
    TOLD_MS = 60000,
    PAUSE_MS = 1000 /* Between two messages. */
};

struct found_copy
{
    struct set_load_key key;
    uint32_t length, digest;
    donor_id donor;
    uint64_t until_ms; /* So long it is not told again. */
};

struct set_damages
{
    struct client *client;
    struct meta_call call;
    bool telling;
    uint64_t next_ms;
    struct found_copy waiting[SET_DAMAGED_MAX];
    uint32_t waiting_count;
    struct found_copy told[TOLD_MAX]; /* A ring; those that wait are in it, too. */
    uint32_t told_next;
};

static bool is_known(const struct set_damages *d, const struct found_copy *copy, uint64_t now_ms)
{
    for (uint32_t i = 0; i < TOLD_MAX; i++) {
        const struct found_copy *t = &d->told[i];

        if (t->until_ms > now_ms && t->donor == copy->donor && t->key.set == copy->key.set &&
            t->key.morsel == copy->key.morsel) {
            return true;
        }
    }
    return false;
}

static void on_told(struct meta_call *call, int status, void *message)
{
    struct set_damages *d = CONTAINER_OF(call, struct set_damages, call);

    (void)message;
    d->telling = false;
    if (status != 0 && status != MORSEL_CANCELED) {
        log_debug(d->client->options.log, "manager %s was not told of copies that are wrong: %s",
                  rpc_peer_address(d->client->manager), status_words(status));
    }
}

static void tell(struct set_damages *d)
{
    Morsel__SetDamagedRequest request = MORSEL__SET_DAMAGED_REQUEST__INIT;
    Morsel__SetDamaged items[SET_DAMAGED_MAX], *pointers[SET_DAMAGED_MAX];

    for (uint32_t i = 0; i < d->waiting_count; i++) {
        const struct found_copy *copy = &d->waiting[i];

        pointers[i] = &items[i];
        morsel__set_damaged__init(&items[i]);
        items[i].set = copy->key.set;
        items[i].morsel = (uint32_t)copy->key.morsel;
        items[i].length = copy->length;
        items[i].digest = copy->digest;
        items[i].donor = copy->donor;
    }
    request.copies = pointers;
    request.n_copies = d->waiting_count;
    d->waiting_count = 0;
    d->telling =
        meta_call_start(&d->call, d->client, MSG_SET_DAMAGED, &request.base, NULL, on_told) == 0;
}

void set_damage_tick(struct client *client, uint64_t now_ms)
{
    struct set_damages *d = client->data.sets->damages;

    if (d != NULL && d->waiting_count > 0 && !d->telling && now_ms >= d->next_ms) {
        d->next_ms = now_ms + PAUSE_MS;
        tell(d);
    }
}

void set_damage_note(const struct set_load *load, donor_id donor)
{
    struct data_sets *sets = load->client->data.sets;
    uint64_t now_ms = uv_now(load->client->loop);
    const struct found_copy copy = { load->key, load->entry.length, load->entry.digest, donor,
                                     now_ms + TOLD_MS };
    struct set_damages *d = sets->damages;

    if (load->entry.rewriting || load->entry.length == 0) {
        return; /* Nobody knows what it is to be. */
    }
    if (d == NULL) {
        if ((d = calloc(1, sizeof(*d))) == NULL) {
            return;
        }
        d->client = load->client;
        sets->damages = d;
    }
    if (d->waiting_count < SET_DAMAGED_MAX && !is_known(d, &copy, now_ms)) {
        d->waiting[d->waiting_count++] = copy;
        d->told[d->told_next] = copy;
        d->told_next = (d->told_next + 1) % TOLD_MAX;
    }
}

void set_damage_free(struct data_sets *sets)
{
    free(sets->damages);
    sets->damages = NULL;
}
