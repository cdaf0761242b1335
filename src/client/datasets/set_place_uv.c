/* Where open morsels go: a stretch asked for ahead, or others for one that somebody did not take (set_parts_uv.h). */
#include "client/datasets/set_parts_uv.h"

#include "common/base/status.h"

#include <stdlib.h>

/* For all that wait in set->placing, or ahead of them. */
struct place_ask
{
    struct meta_call call;
    struct data_set *set;
    struct set_question question;
};

static void ask_ahead(struct data_set *set, uint32_t number);

static int ask_places(struct meta_call *call, struct data_set *set, uint32_t first, uint32_t count,
                      meta_call_cb done)
{
    Morsel__SetPlaceRequest request = MORSEL__SET_PLACE_REQUEST__INIT;
    donor_id failed[SET_FAILED_MAX];

    request.inode = set->inode;
    request.set = set->number;
    request.first = first;
    request.count = count;
    request.n_failed = set_places_list_failed(&set->places, uv_now(set->client->loop), failed);
    request.failed = failed;
    set->client->counters.set_places_asked++;
    return meta_call_start(call, set->client, MSG_SET_PLACE, &request.base,
                           &morsel__set_place_reply__descriptor, done);
}

/* Nobody has room but perhaps those who have failed: they get another chance. When room is being made those do who had none, for it
 * may be made with them; who refused for another reason would do so again. True: at once. */
static bool forgive(struct data_set *set, int status)
{
    bool some = set->places.failed_count > 0;

    if (status == MORSEL_NOSPC) {
        set->places.failed_count = 0;
    } else if (status == MORSEL_AGAIN) {
        set_places_forgive_full(&set->places);
    }
    return status == MORSEL_NOSPC && some;
}

static bool take_place(struct open_morsel *o)
{
    donor_id donors[REPLICAS_MAX];
    uint32_t count = set_places_get(&o->set->places, o->number, donors);

    if (count == 0) {
        return false;
    }
    o->copies_count = 0;
    o->wanted = count;
    for (uint32_t i = 0; i < count; i++) {
        o->copies[o->copies_count++] = (struct open_copy){ .donor = donors[i] };
    }
    return true;
}

/* Those that wait have a place, or ask (again); those for which the question failed end. */
static void go_on(struct data_set *set, const struct set_question *question, int status)
{
    struct list due, *node;

    list_init(&due);
    while ((node = list_pop_front(&set->placing)) != NULL) {
        list_push_back(&due, node);
    }
    while ((node = list_pop_front(&due)) != NULL) {
        struct open_morsel *o = LIST_ENTRY(node, struct open_morsel, node);

        if (take_place(o)) {
            open_morsel_placed(o, MORSEL_OK);
        } else if (status != 0 && set_question_ends(question, status, o->number)) {
            open_morsel_placed(o, status);
        } else {
            list_push_back(&set->placing, node);
        }
    }
    if ((node = list_front(&set->placing)) != NULL) {
        ask_ahead(set, LIST_ENTRY(node, struct open_morsel, node)->number);
    }
}

static void on_placed(struct meta_call *call, int status, void *message)
{
    struct place_ask *ask = CONTAINER_OF(call, struct place_ask, call);
    const Morsel__SetPlaceReply *reply = message;
    struct data_set *set = ask->set;

    set->asking_places = false;
    if (status == 0) {
        donors_learn(set->client, reply->places, reply->n_places);
        if (reply->n_donors == 0) {
            status = MORSEL_NOSPC;
        } else if (reply->n_donors / (reply->copies > 0 ? reply->copies : 1) >
                       ask->question.count ||
                   !set_places_learn(&set->places, ask->question.first, reply->copies,
                                     reply->donors, reply->n_donors)) {
            status = MORSEL_MALFORMED;
        }
    }
    go_on(set, &ask->question, forgive(set, status) ? MORSEL_OK : status);
    free(ask);
    set_unref(set);
}

static bool waits_for(struct data_set *set, uint32_t number)
{
    LIST_FOREACH(node, &set->placing)
    {
        if (LIST_ENTRY(node, struct open_morsel, node)->number == number) {
            return true;
        }
    }
    return false;
}

/* Something is to be asked for, for who has come to this morsel; one question at a time. */
static void ask_ahead(struct data_set *set, uint32_t number)
{
    struct place_ask *ask;
    struct set_question question;
    int rv = MORSEL_NOMEM;

    if (set->asking_places ||
        !set_places_wants(&set->places, number, &question.first, &question.count)) {
        return;
    }
    question.ahead = !waits_for(set, question.first);
    ask = calloc(1, sizeof(*ask));
    if (ask != NULL) {
        ask->set = set;
        ask->question = question;
        rv = ask_places(&ask->call, set, question.first, question.count, on_placed);
    }
    if (rv != 0) {
        free(ask);
        go_on(set, &question, rv);
        return;
    }
    set->asking_places = true;
    (void)set_ref(set);
}

/* ---- Others for one ---- */

static bool has(const struct open_morsel *o, donor_id donor)
{
    for (uint32_t i = 0; i < o->copies_count; i++) {
        if (o->copies[i].donor == donor) {
            return true;
        }
    }
    return false;
}

/* Who gets it once more has no part of it that is left over. */
static void not_left(struct open_morsel *o, donor_id donor)
{
    for (uint32_t i = o->left_count; i-- > 0;) {
        if (o->left[i] == donor) {
            o->left[i] = o->left[--o->left_count];
        }
    }
}

static void on_placed_alone(struct meta_call *call, int status, void *message)
{
    struct open_morsel *o = CONTAINER_OF(call, struct open_morsel, place);
    const Morsel__SetPlaceReply *reply = message;
    struct data_set *set = set_ref(o->set);

    if (status == 0 && (reply->copies > REPLICAS_MAX || reply->n_donors > reply->copies)) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0) {
        donors_learn(set->client, reply->places, reply->n_places);
        o->wanted = reply->copies;
        for (size_t i = 0; i < reply->n_donors && o->copies_count < o->wanted; i++) {
            if (!has(o, reply->donors[i])) {
                o->copies[o->copies_count++] = (struct open_copy){ .donor = reply->donors[i] };
                not_left(o, reply->donors[i]);
            }
        }
    }
    (void)forgive(set, status); /* For the next. */
    open_morsel_placed(o, status);
    set_unref(set);
}

bool open_morsel_place(struct open_morsel *o)
{
    struct data_set *set = o->set;
    bool placed;

    if (o->copies_count > 0 || o->left_count > 0) {
        o->placed_alone = true;
        o->state = OPEN_PLACING;
        if (ask_places(&o->place, set, o->number, 1, on_placed_alone) == 0) {
            return false;
        }
        o->placed_alone = false;
        o->state = OPEN_PAUSED;
        o->retry_ms = uv_now(set->client->loop) + SET_PAUSE_MS;
        list_push_back(&set->paused, &o->node);
        return false;
    }
    placed = take_place(o);
    if (!placed) {
        o->state = OPEN_PLACING;
        list_push_back(&set->placing, &o->node);
    }
    ask_ahead(set, o->number);
    return placed;
}
