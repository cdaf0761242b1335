/* Which morsels that nobody has this mount fetches from their origin, and not another one at the same time: the manager says (set_parts_uv.h). */
#include "client/datasets/origin_pace.h"
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

enum {
    ANSWER_MS = 2000, /* A manager that does not say for so long is not waited for. */
    STATE_OURS = 1,   /* Numbers of the wire. */
    STATE_OTHERS = 2,
    STATE_THERE = 3
};

static_assert((int)ORIGIN_PART_BYTES_MAX / (int)MORSEL_BYTES_MIN <= (int)SET_CLAIM_MAX,
              "a stretch is claimed with one question");

static bool take_donors(struct set_claim *claim, const Morsel__SetClaimReply *reply)
{
    if (reply->n_donors == 0) {
        return false;
    }
    claim->donors = malloc(reply->n_donors * sizeof(claim->donors[0]));
    if (claim->donors == NULL) {
        return false;
    }
    memcpy(claim->donors, reply->donors, reply->n_donors * sizeof(claim->donors[0]));
    claim->copies = reply->copies;
    donors_learn(claim->set->client, reply->places, reply->n_places);
    return true;
}

static bool is_sound(const struct set_claim *claim, const Morsel__SetClaimReply *reply)
{
    return reply->count > 0 && reply->count <= claim->count && reply->copies <= REPLICAS_MAX &&
           (reply->n_donors == 0 || reply->n_donors == (size_t)reply->count * reply->copies);
}

static void learn(struct set_claim *claim, const Morsel__SetClaimReply *reply)
{
    claim->count = reply->count;
    claim->wait_ms = reply->wait_ms;
    if (reply->state == STATE_OURS) {
        claim->what = take_donors(claim, reply) ? SET_CLAIM_OURS : SET_CLAIM_NONE;
    } else if (reply->state == STATE_OTHERS) {
        claim->what = SET_CLAIM_OTHERS;
    } else if (reply->state == STATE_THERE) {
        claim->what = SET_CLAIM_THERE;
    }
}

/* Has the manager noted that we fetch them, though we do not know where they are to be put? */
static bool may_be_ours(int status, const Morsel__SetClaimReply *reply)
{
    return status == 0 ? reply->n_donors > 0
                       : status == MORSEL_CANCELED || status == MORSEL_TIMEDOUT ||
                             status == MORSEL_UNREACHABLE;
}

static void on_claim(struct meta_call *call, int status, void *message)
{
    struct set_claim *claim = CONTAINER_OF(call, struct set_claim, call);
    uint32_t asked = claim->count;

    claim->asking = false;
    if (status == 0 && is_sound(claim, message)) {
        learn(claim, message);
    }
    if (claim->what == SET_CLAIM_NONE && may_be_ours(status, message)) {
        set_claim_end(claim->set, claim->first, asked); /* Others need not wait for that. */
    }
    claim->done(claim);
}

static int start(struct meta_call *call, const struct data_set *set, uint32_t first, uint32_t count,
                 bool ends, meta_call_cb done)
{
    Morsel__SetClaimRequest request = MORSEL__SET_CLAIM_REQUEST__INIT;

    request.inode = set->inode;
    request.set = set->number;
    request.first = first;
    request.count = count;
    request.ends = ends;
    return meta_call_start(call, set->client, MSG_SET_CLAIM, &request.base,
                           &morsel__set_claim_reply__descriptor, done);
}

int set_claim_start(struct set_claim *claim, struct data_set *set, uint32_t first, uint32_t count,
                    void (*done)(struct set_claim *claim))
{
    int rv;

    claim->set = set;
    claim->first = first;
    claim->count = count;
    claim->done = done;
    claim->asked_ms = uv_now(set->client->loop);
    rv = start(&claim->call, set, first, count, false, on_claim);
    claim->asking = rv == 0;
    return rv;
}

void set_claim_tick(struct set_claim *claim, uint64_t now_ms)
{
    if (claim->asking && now_ms >= claim->asked_ms + ANSWER_MS) {
        meta_call_cancel(&claim->call);
    }
}

void set_claim_cancel(struct set_claim *claim)
{
    if (claim->asking) {
        meta_call_cancel(&claim->call);
    }
}

/* ---- What needs no answer ---- */

struct claim_word
{
    struct meta_call call;
    struct data_set *set;
};

static void on_word(struct meta_call *call, int status, void *message)
{
    struct claim_word *word = CONTAINER_OF(call, struct claim_word, call);

    (void)status;
    (void)message;
    word->set->client->data.sets->claim_ends--;
    set_unref(word->set);
    free(word);
}

/* Without memory it is not said, nor where too many wait for the manager. */
static void say_end(struct data_set *set, uint32_t first, uint32_t count)
{
    struct data_sets *sets = set->client->data.sets;
    struct claim_word *word =
        client_is_ending(set->client) || sets->claim_ends >= SET_CLAIM_ENDS_MAX
            ? NULL
            : calloc(1, sizeof(*word));

    if (word == NULL) {
        return;
    }
    sets->claim_ends++;
    word->set = set_ref(set);
    if (start(&word->call, set, first, count, true, on_word) != 0) {
        on_word(&word->call, MORSEL_NOMEM, NULL);
    }
}

void set_claim_end(struct data_set *set, uint32_t first, uint32_t count)
{
    if (count > 0) {
        say_end(set, first, count);
    }
}

/* ---- What is under way ---- */

static void on_renewed(struct meta_call *call, int status, void *message)
{
    struct set_renewal *renewal = CONTAINER_OF(call, struct set_renewal, call);
    struct data_set *set = renewal->set;

    (void)status;
    (void)message;
    renewal->running = false;
    set_unref(set);
}

void set_claim_renew(struct set_renewal *renewal, struct data_set *set)
{
    if (renewal->running || client_is_ending(set->client)) {
        return;
    }
    renewal->set = set;
    renewal->running = start(&renewal->call, set, 0, 0, false, on_renewed) == 0;
    if (renewal->running) {
        (void)set_ref(set);
    }
}
