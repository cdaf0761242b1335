/* Donors in the order of their ids, a table of their tokens, a heap of their deadlines. */
#include "meta/cluster/donors.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

static void emit(struct donors_actions *out, struct donors_action action)
{
    CHECK(out->count < DONORS_ACTIONS_MAX);
    out->items[out->count++] = action;
}

static void refuse(struct donors_actions *out, uint64_t tag, int status, const char *reason)
{
    emit(out, (struct donors_action){
                  .type = DONORS_REFUSE, .tag = tag, .status = status, .reason = reason });
}

/* ---- Tables ---- */

void donors_init(struct donors *d, uint32_t look_ms)
{
    memset(d, 0, sizeof(*d));
    d->look_ms = look_ms;
    d->next = 1;
    heap_init(&d->deadlines);
}

void donors_free(struct donors *d)
{
    HASH_CLEAR(hh, d->by_token);
    for (uint32_t i = 0; i < d->count; i++) {
        free(d->items[i]);
    }
    free(d->items);
    heap_free(&d->deadlines);
    donors_init(d, d->look_ms);
}

uint32_t donors_from(const struct donors *d, donor_id from)
{
    uint32_t low = 0, high = d->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (d->items[middle]->record.id < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct donor *find(const struct donors *d, donor_id id)
{
    uint32_t at = donors_from(d, id);

    return at < d->count && d->items[at]->record.id == id ? d->items[at] : NULL;
}

const struct donor *donors_find(const struct donors *d, donor_id id)
{
    return find(d, id);
}

static struct donor *find_token(const struct donors *d, const uint8_t token[16])
{
    struct donor *donor;

    HASH_FIND(hh, d->by_token, token, sizeof(donor->record.token), donor);
    return donor;
}

bool donors_is_new(const struct donors *d, const uint8_t token[16])
{
    return find_token(d, token) == NULL;
}

/* Room for one more: nothing else that is done with it can fail. */
static bool reserve(struct donors *d)
{
    uint32_t room = d->room == 0 ? 16 : d->room * 2;
    struct donor **items;

    if (!heap_reserve(&d->deadlines, d->count + 1)) {
        return false;
    }
    if (d->count < d->room) {
        return true;
    }
    if ((items = realloc(d->items, room * sizeof(struct donor *))) == NULL) {
        return false;
    }
    d->items = items;
    d->room = room;
    return true;
}

/* The record's id and token are nobody's. NULL: out of memory. */
static struct donor *insert(struct donors *d, const struct donor_record *record)
{
    uint32_t at = donors_from(d, record->id);
    struct donor *donor;

    if (!reserve(d) || (donor = calloc(1, sizeof(*donor))) == NULL) {
        return NULL;
    }
    donor->record = *record;
    HASH_ADD(hh, d->by_token, record.token, sizeof(donor->record.token), donor);
    if (!TABLE_ADDED(donor)) {
        free(donor);
        return NULL;
    }
    memmove(&d->items[at + 1], &d->items[at], (d->count - at) * sizeof(struct donor *));
    d->items[at] = donor;
    d->count++;
    if (d->next != 0 && record->id >= d->next) {
        d->next = record->id + 1; /* 0 behind the last that there is. */
    }
    return donor;
}

static void drop(struct donors *d, struct donor *donor)
{
    uint32_t at = donors_from(d, donor->record.id);

    CHECK(!donor->durable && donor->deadline.place == 0);
    memmove(&d->items[at], &d->items[at + 1], (d->count - at - 1) * sizeof(struct donor *));
    d->count--;
    HASH_DEL(d->by_token, donor);
    free(donor);
}

void donors_given(struct donors *d, donor_id next)
{
    if (d->next != 0 && next > d->next) {
        d->next = next;
    }
}

void donors_forget(struct donors *d, donor_id id)
{
    struct donor *donor = find(d, id);

    CHECK(donor != NULL && donor->state == DONOR_AWAY);
    donor->durable = false;
    drop(d, donor);
}

void donors_keep(struct donors *d, donor_id id, uint64_t until_ms)
{
    struct donor *donor = find(d, id);

    CHECK(donor != NULL);
    donor->kept_until_ms = until_ms;
}

/* ---- States ---- */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Add what it says to the sums of those that are here, or take it off again. */
static void sum(struct donors *d, const struct donor_report *report, bool off)
{
    d->donated += off ? -report->donated : report->donated;
    d->used += off ? -report->used : report->used;
    d->leaving += off ? -(uint32_t)report->leaving : (uint32_t)report->leaving;
    d->giving_way += off ? -(uint32_t)(report->excess > 0) : (uint32_t)(report->excess > 0);
}

/* It begins to leave: what was counted before is nothing to that. */
static void note_leaving(struct donor *donor, uint64_t now_ms)
{
    donor->leaving_ms = now_ms;
    donor->repair.left = (struct donor_left){ .counted = false };
}

static void take_report(struct donors *d, struct donor *donor, const struct donor_report *report,
                        uint64_t now_ms)
{
    struct donor_report taken = *report;

    taken.donated = lesser(taken.donated, DONOR_BYTES_MAX);
    taken.used = lesser(taken.used, DONOR_BYTES_MAX);
    taken.excess = lesser(taken.excess, taken.used);
    taken.pressed = lesser(taken.pressed, taken.excess);
    donor->says_leaving = taken.leaving;
    taken.leaving = taken.leaving || donor->blame.distrusted != BLAME_NONE;
    if (donor->state == DONOR_HERE) {
        sum(d, &donor->report, true);
        sum(d, &taken, false);
    }
    if (taken.leaving && !donor->report.leaving) {
        note_leaving(donor, now_ms);
    }
    donor->report = taken;
    donor->promised = 0;
    donor->awaited_ms = 0;
}

static void become(struct donors *d, struct donor *donor, enum donor_state state, uint64_t now_ms)
{
    if (donor->state == DONOR_HERE) {
        d->here--;
        sum(d, &donor->report, true);
    }
    if (state == DONOR_HERE) {
        d->here++;
        sum(d, &donor->report, false);
    }
    if (state == DONOR_AWAY) {
        donor->connected = false;
        heap_remove(&d->deadlines, &donor->deadline);
    }
    if (state != donor->state) {
        donor->state = state;
        donor->since_ms = now_ms;
    }
}

static void doubt(struct donors *d, struct donor *donor, uint64_t now_ms, uint32_t for_ms)
{
    become(d, donor, DONOR_DOUBTED, now_ms);
    heap_move(&d->deadlines, &donor->deadline, now_ms + for_ms);
}

/* It has just said something, and its record is durable. */
static void heard(struct donors *d, struct donor *donor, uint64_t now_ms,
                  struct donors_actions *out)
{
    bool came = donor->state == DONOR_AWAY || !donor->heard;

    donor->heard = true;
    donor->heard_ms = now_ms;
    donor->connected = true;
    become(d, donor, DONOR_HERE, now_ms);
    heap_move(&d->deadlines, &donor->deadline, now_ms + d->look_ms);
    if (came) {
        emit(out, (struct donors_action){ .type = DONORS_CAME, .id = donor->record.id });
    }
}

static void went(struct donors *d, struct donor *donor, uint64_t now_ms, const char *reason,
                 struct donors_actions *out)
{
    become(d, donor, DONOR_AWAY, now_ms);
    if (donor->heard) {
        emit(out, (struct donors_action){
                      .type = DONORS_WENT, .id = donor->record.id, .reason = reason });
    }
}

int donors_add(struct donors *d, const struct donor_record *record, uint64_t now_ms)
{
    struct donor *donor;

    if (record->id == 0 || d->count == DONORS_MAX || find(d, record->id) != NULL ||
        find_token(d, record->token) != NULL) {
        return MORSEL_CORRUPT;
    }
    if ((donor = insert(d, record)) == NULL) {
        return MORSEL_NOMEM;
    }
    donor->durable = true;
    donor->heard_ms = now_ms;
    doubt(d, donor, now_ms, d->look_ms);
    return 0;
}

/* ---- Joining ---- */

/* Given once, and nobody's now. */
static bool is_forgotten(const struct donors *d, donor_id id)
{
    return id != 0 && find(d, id) == NULL && (d->next == 0 || id < d->next);
}

/* What a process told of one that was forgotten counts no more. */
static void refuse_forgotten(struct donors_actions *out, uint64_t tag)
{
    refuse(out, tag, MORSEL_INVAL,
           "this benefactor was forgotten while it was away; start it again, and it joins as a new "
           "one, without what it had");
}

/* Is the donor that is known by the token the one that joins? Refuses. It may name the number that it had before it was forgotten: the new one
 * did not reach it, or its disk did not keep it. */
static bool admit_known(const struct donors *d, const struct donor *known,
                        const struct donors_event *event, struct donors_actions *out)
{
    bool busy = known->connected || !known->durable;
    bool forgotten = is_forgotten(d, event->join.record.id);

    if (forgotten && event->join.told_held) {
        refuse_forgotten(out, event->join.tag);
        return false;
    }
    if (event->join.record.id != 0 && event->join.record.id != known->record.id && !forgotten) {
        refuse(out, event->join.tag, MORSEL_INVAL,
               "the token of this directory belongs to another benefactor; was the directory put "
               "together from two?");
        return false;
    }
    if (busy && known->instance != event->join.instance) {
        refuse(out, event->join.tag, MORSEL_BUSY,
               "another process serves this directory, or a copy of it, or did a moment ago");
        return false;
    }
    return true;
}

/* A donor that nobody has seen before; NULL after a refusal. */
static struct donor *admit_new(struct donors *d, const struct donors_event *event,
                               struct donors_actions *out)
{
    struct donor_record record = event->join.record;
    uint64_t tag = event->join.tag;
    struct donor *donor = NULL;
    bool forgotten = is_forgotten(d, record.id);

    if (forgotten && event->join.told_held) {
        refuse_forgotten(out, tag);
        return NULL;
    }
    if (record.id != 0 && !forgotten) {
        refuse(out, tag, MORSEL_INVAL,
               find(d, record.id) != NULL
                   ? "the number of this benefactor belongs to another directory"
                   : "this cluster has never given the number of this benefactor; was the "
                     "manager's database put back to an older state?");
        return NULL;
    }
    if (d->count == DONORS_MAX || d->next == 0) {
        refuse(
            out, tag, MORSEL_TOO_LARGE,
            "the cluster knows as many benefactors as it can: forget those that do not come back "
            "(`morsel donors forget`)");
        return NULL;
    }
    record.id = d->next;
    if ((donor = insert(d, &record)) == NULL) {
        refuse(out, tag, MORSEL_NOMEM, "the manager is out of memory");
    }
    return donor;
}

static void on_join(struct donors *d, const struct donors_event *event, struct donors_actions *out)
{
    struct donor *donor = find_token(d, event->join.record.token);
    bool known = donor != NULL;

    CHECK(event->join.instance != 0);
    if (known ? !admit_known(d, donor, event, out) : (donor = admit_new(d, event, out)) == NULL) {
        return;
    }
    if (known && !donor->durable) {
        refuse(out, donor->pending_tag, MORSEL_AGAIN, "it has joined again meanwhile");
    }
    if (!donor->told_held || donor->instance != event->join.instance) {
        donor->told_held = event->join.told_held;
        donor->told_ms = event->now_ms;
    }
    donor->instance = event->join.instance;
    memcpy(donor->record.name, event->join.record.name, sizeof(donor->record.name));
    memcpy(donor->address, event->join.address, sizeof(donor->address));
    donor->door.due_ms = 0; /* It may have come back because its owner has opened it. */
    donor->door.failures = 0;
    take_report(d, donor, &event->join.report, event->now_ms);
    if (donor->durable) {
        emit(out, (struct donors_action){
                      .type = DONORS_WELCOME, .tag = event->join.tag, .id = donor->record.id });
        heard(d, donor, event->now_ms, out);
        return;
    }
    donor->pending_tag = event->join.tag;
    if (!known) {
        emit(out, (struct donors_action){ .type = DONORS_PERSIST, .id = donor->record.id });
    }
}

static void on_persisted(struct donors *d, const struct donors_event *event,
                         struct donors_actions *out)
{
    struct donor *donor = find(d, event->persisted.id);

    CHECK(donor != NULL && !donor->durable);
    if (event->persisted.status != 0) {
        refuse(out, donor->pending_tag, event->persisted.status,
               "the manager could not write down who this benefactor is");
        drop(d, donor);
        return;
    }
    donor->durable = true;
    emit(out, (struct donors_action){
                  .type = DONORS_WELCOME, .tag = donor->pending_tag, .id = donor->record.id });
    heard(d, donor, event->now_ms, out);
}

/* ---- Life ---- */

static void on_report(struct donors *d, const struct donors_event *event,
                      struct donors_actions *out)
{
    struct donor *donor = find(d, event->report.id);

    if (donor == NULL || !donor->connected || donor->instance != event->report.instance) {
        refuse(out, event->report.tag, MORSEL_NO_SESSION, "join first");
        return;
    }
    take_report(d, donor, &event->report.report, event->now_ms);
    emit(out, (struct donors_action){
                  .type = DONORS_ALIVE, .tag = event->report.tag, .id = donor->record.id });
    if (event->report.leaves) {
        donor->heard_ms = event->now_ms;
        went(d, donor, event->now_ms, "it has left", out);
    } else {
        heard(d, donor, event->now_ms, out);
    }
}

static void on_gone(struct donors *d, const struct donors_event *event)
{
    struct donor *donor = find(d, event->gone.id);

    if (donor != NULL && donor->connected && donor->instance == event->gone.instance) {
        donor->connected = false;
        doubt(d, donor, event->now_ms, DONORS_ANSWER_MS);
    }
}

static void on_told(struct donors *d, const struct donors_event *event)
{
    struct donor *donor = find(d, event->told.id);

    if (donor != NULL && donor->instance == event->told.instance && !donor->told_held) {
        donor->told_held = true;
        donor->told_ms = event->now_ms;
    }
}

bool donor_is_awaited(const struct donor *donor)
{
    return donor->state == DONOR_DOUBTED || (donor->state == DONOR_HERE && !donor->told_held);
}

bool donor_gives(const struct donor *donor)
{
    return donor->state == DONOR_HERE && donor->told_held;
}

bool donor_takes(const struct donor *donor)
{
    return donor_gives(donor) && !donor->report.leaving;
}

uint64_t donor_room(const struct donor *donor)
{
    uint64_t taken = donor->report.used + donor->promised;

    return donor->report.donated > taken ? donor->report.donated - taken : 0;
}

/* What it has said last means something else now. */
static void take_again(struct donors *d, struct donor *donor, uint64_t now_ms)
{
    struct donor_report report = donor->report;
    uint64_t promised = donor->promised;

    report.leaving = donor->says_leaving;
    take_report(d, donor, &report, now_ms);
    donor->promised = promised;
}

bool donors_blame(struct donors *d, donor_id id, enum blame_kind kind, uint64_t now_ms)
{
    struct donor *donor = find(d, id);

    if (donor == NULL || !blame_note(&donor->blame, kind, now_ms)) {
        return false;
    }
    take_again(d, donor, now_ms);
    return true;
}

bool donors_trust(struct donors *d, donor_id id, uint64_t now_ms)
{
    struct donor *donor = find(d, id);

    if (donor == NULL) {
        return false;
    }
    blame_forgive(&donor->blame);
    take_again(d, donor, now_ms);
    return true;
}

void donors_promise(struct donors *d, donor_id id, uint64_t bytes)
{
    struct donor *donor = find(d, id);

    if (donor != NULL && donor->promised < DONOR_BYTES_MAX) {
        donor->promised += bytes;
    }
}

enum donor_recount donors_recount(struct donors *d, donor_id id, uint64_t bytes, uint64_t now_ms)
{
    struct donor *donor = find(d, id);

    if (donor == NULL || !donor_takes(donor) || donor->report.paused || donor->promised == 0 ||
        donor_room(donor) >= bytes || donor->report.donated < donor->report.used ||
        donor->report.donated - donor->report.used < bytes) {
        return DONOR_COUNTED;
    }
    if (donor->awaited_ms == 0) {
        donor->awaited_ms = now_ms;
        return DONOR_ASK;
    }
    return now_ms - donor->awaited_ms < DONORS_RECOUNT_MS ? DONOR_AWAITED : DONOR_COUNTED;
}

/* Its deadline has come: it is asked, or was, in vain. */
static void look(struct donors *d, struct donor *donor, uint64_t now_ms, struct donors_actions *out)
{
    d->looks++;
    if (donor->state == DONOR_HERE) {
        doubt(d, donor, now_ms, DONORS_ANSWER_MS);
        emit(out, (struct donors_action){ .type = DONORS_ASK, .id = donor->record.id });
        return;
    }
    if (donor->connected) {
        emit(out, (struct donors_action){ .type = DONORS_HANG_UP, .id = donor->record.id });
        went(d, donor, now_ms, "it does not answer", out);
    } else {
        went(d, donor, now_ms, "its connection ended", out);
    }
}

static void on_tick(struct donors *d, uint64_t now_ms, struct donors_actions *out)
{
    for (uint32_t i = 0; i < DONORS_ACTIONS_MAX / 2; i++) {
        struct heap_node *node = heap_min(&d->deadlines);

        if (node == NULL || node->key > now_ms) {
            return;
        }
        look(d, CONTAINER_OF(node, struct donor, deadline), now_ms, out);
    }
}

void donors_step(struct donors *d, const struct donors_event *event, struct donors_actions *out)
{
    switch (event->type) {
    case DONORS_JOIN:
        on_join(d, event, out);
        break;
    case DONORS_PERSISTED:
        on_persisted(d, event, out);
        break;
    case DONORS_REPORT:
        on_report(d, event, out);
        break;
    case DONORS_GONE:
        on_gone(d, event);
        break;
    case DONORS_TOLD:
        on_told(d, event);
        break;
    case DONORS_TICK:
        on_tick(d, event->now_ms, out);
        break;
    }
}

uint64_t donors_deadline_ms(const struct donors *d)
{
    const struct heap_node *node = heap_min(&d->deadlines);

    return node == NULL ? UINT64_MAX : node->key;
}

void donors_check(const struct donors *d)
{
    uint64_t donated = 0, used = 0;
    uint32_t here = 0, due = 0, leaving = 0, giving_way = 0;

    CHECK(d->count <= DONORS_MAX && HASH_COUNT(d->by_token) == d->count);
    for (uint32_t i = 0; i < d->count; i++) {
        const struct donor *donor = d->items[i];

        CHECK(donor->record.id != 0 && (d->next == 0 || donor->record.id < d->next));
        CHECK(i == 0 || d->items[i - 1]->record.id < donor->record.id);
        CHECK(find_token(d, donor->record.token) == donor);
        CHECK_IMPLIES(donor->state != DONOR_AWAY, donor->durable);
        CHECK_IMPLIES(donor->state == DONOR_HERE, donor->connected);
        CHECK_IMPLIES(donor->state == DONOR_AWAY, !donor->connected);
        CHECK((donor->state != DONOR_AWAY) == (donor->deadline.place != 0));
        due += donor->deadline.place != 0;
        if (donor->state == DONOR_HERE) {
            here++;
            donated += donor->report.donated;
            used += donor->report.used;
            leaving += donor->report.leaving;
            giving_way += donor->report.excess > 0;
        }
    }
    CHECK(leaving == d->leaving && giving_way == d->giving_way);
    CHECK(here == d->here && donated == d->donated && used == d->used && due == d->deadlines.count);
}
