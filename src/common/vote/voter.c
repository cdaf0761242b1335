/* Records in a sorted array, and a ring of answers that wait for the disk. */
#include "common/vote/voter.h"

#include "common/base/check.h"

#include <stdlib.h>

struct entry
{
    struct vote_record record;
    struct entry *next_changed;
    bool changed; /* It waits to be popped. */
};

struct pending
{
    uint64_t tag;
    struct vote_answer answer;
};

struct voter
{
    voter_id id;
    uint64_t set_version;
    uint32_t count, capacity;
    struct entry **entries; /* Ascending by subject. */
    struct entry *changed;
    uint64_t first, last; /* Numbers of the answers that wait; none if last < first. */
    struct pending pending[VOTER_PENDING_MAX]; /* At number modulo their count. */
};

struct voter *voter_new(voter_id id, uint64_t set_version)
{
    struct voter *v = calloc(1, sizeof(*v));

    CHECK(id != 0);
    if (v != NULL) {
        v->id = id;
        v->set_version = set_version;
        v->first = 1;
    }
    return v;
}

void voter_free(struct voter *v)
{
    if (v == NULL) {
        return;
    }
    for (uint32_t i = 0; i < v->count; i++) {
        free(v->entries[i]);
    }
    free(v->entries);
    free(v);
}

/* ---- Records ---- */

/* Where `subject` is, or belongs. */
static uint32_t place_of(const struct voter *v, const struct vote_subject *subject)
{
    uint32_t low = 0, high = v->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (vote_subject_compare(&v->entries[middle]->record.subject, subject) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool voter_grow(struct voter *v)
{
    uint32_t capacity = v->capacity == 0 ? 16 : 2 * v->capacity;
    struct entry **entries;

    if (v->count < v->capacity) {
        return true;
    }
    entries = realloc(v->entries, capacity * sizeof(struct entry *));
    if (entries == NULL) {
        return false;
    }
    v->entries = entries;
    v->capacity = capacity;
    return true;
}

/* The record of `subject`, which is made if there is none. NULL: no room. */
static struct entry *entry_of(struct voter *v, const struct vote_subject *subject)
{
    uint32_t at = place_of(v, subject);
    struct entry *entry;

    if (at < v->count && vote_subject_compare(&v->entries[at]->record.subject, subject) == 0) {
        return v->entries[at];
    }
    if (v->count >= VOTE_SUBJECTS_MAX || !voter_grow(v)) {
        return NULL;
    }
    entry = calloc(1, sizeof(*entry));
    if (entry == NULL) {
        return NULL;
    }
    entry->record.subject = *subject;
    memmove(&v->entries[at + 1], &v->entries[at], (v->count - at) * sizeof(struct entry *));
    v->entries[at] = entry;
    v->count++;
    return entry;
}

bool voter_load(struct voter *v, const struct vote_record *record)
{
    struct entry *entry = entry_of(v, &record->subject);

    if (entry == NULL) {
        return false;
    }
    entry->record = *record;
    return true;
}

bool voter_gather(struct voter *v, const struct vote_record *record)
{
    struct entry *entry = entry_of(v, &record->subject);

    if (entry == NULL) {
        return false;
    }
    (void)vote_record_merge(&entry->record, record);
    return true;
}

static void entry_change(struct voter *v, struct entry *entry)
{
    if (!entry->changed) {
        entry->changed = true;
        entry->next_changed = v->changed;
        v->changed = entry;
    }
}

bool voter_pop(struct voter *v, struct vote_record *record)
{
    struct entry *entry = v->changed;

    if (entry == NULL) {
        return false;
    }
    v->changed = entry->next_changed;
    entry->changed = false;
    entry->next_changed = NULL;
    *record = entry->record;
    return true;
}

uint32_t voter_page(const struct voter *v, const struct vote_subject *after, uint32_t limit,
                    struct vote_record *records)
{
    uint32_t at = place_of(v, after), count = 0;

    if (at < v->count && vote_subject_compare(&v->entries[at]->record.subject, after) == 0) {
        at++;
    }
    while (at < v->count && count < limit) {
        records[count++] = v->entries[at++]->record;
    }
    return count;
}

voter_id voter_name(const struct voter *v)
{
    return v->id;
}

uint64_t voter_set_version(const struct voter *v)
{
    return v->set_version;
}

uint32_t voter_count(const struct voter *v)
{
    return v->count;
}

/* ---- Answers ---- */

static struct voter_action *emit(struct voter_actions *out)
{
    CHECK(out->count < VOTER_ACTIONS_MAX);
    return &out->items[out->count++];
}

static void answer_now(uint64_t tag, const struct vote_answer *answer, struct voter_actions *out)
{
    *emit(out) = (struct voter_action){ .type = VOTER_ANSWER, .tag = tag, .answer = *answer };
}

static bool is_full(const struct voter *v)
{
    return v->last + 1 - v->first >= VOTER_PENDING_MAX;
}

/* It is said when everything as it is now is on disk. */
static void answer_when_durable(struct voter *v, uint64_t tag, const struct vote_answer *answer,
                                struct voter_actions *out)
{
    CHECK(!is_full(v));
    v->last++;
    v->pending[v->last % VOTER_PENDING_MAX] = (struct pending){ tag, *answer };
    *emit(out) = (struct voter_action){ .type = VOTER_PERSIST, .number = v->last };
}

static void on_persisted(struct voter *v, uint64_t number, bool failed, struct voter_actions *out)
{
    CHECK(number <= v->last);
    for (; v->first <= number; v->first++) {
        struct pending *p = &v->pending[v->first % VOTER_PENDING_MAX];

        if (failed) {
            p->answer.type = VOTE_NO_ROOM;
            p->answer.value.count = 0;
        }
        answer_now(p->tag, &p->answer, out);
    }
}

/* ---- Ballots ---- */

/* The vote for the request's epoch is the one that is open. False: it is decided. */
static bool open_epoch(struct vote_record *record, const struct vote_request *request)
{
    if (request->epoch <= record->decided_epoch) {
        return false;
    }
    if (request->epoch > record->decided_epoch + 1) {
        *record = (struct vote_record){ .subject = record->subject,
                                        .decided_epoch = request->epoch - 1,
                                        .decided = request->before };
    }
    return true;
}

static void on_prepare(struct vote_record *record, const struct vote_request *request,
                       struct vote_answer *answer)
{
    if (vote_ballot_compare(request->ballot, record->promised) <= 0) {
        answer->type = VOTE_OUTBID;
        answer->voted = record->promised;
        return;
    }
    record->promised = request->ballot;
    answer->type = VOTE_PROMISED;
    answer->voted = record->ballot;
    answer->value = record->value;
}

static void on_accept(struct vote_record *record, const struct vote_request *request,
                      struct vote_answer *answer)
{
    if (vote_ballot_compare(request->ballot, record->promised) < 0) {
        answer->type = VOTE_OUTBID;
        answer->voted = record->promised;
        return;
    }
    record->promised = record->ballot = request->ballot;
    record->value = request->value;
    answer->type = VOTE_ACCEPTED;
}

static void tell_known(const struct vote_record *record, struct vote_answer *answer)
{
    answer->type = VOTE_KNOWN;
    answer->epoch = record->decided_epoch;
    answer->value = record->decided;
}

static void on_learn(struct vote_record *record, const struct vote_request *request,
                     struct vote_answer *answer)
{
    *record = (struct vote_record){ .subject = record->subject,
                                    .decided_epoch = request->epoch,
                                    .decided = request->value };
    tell_known(record, answer);
}

/* Of a voter set that is the newest known, or of what is decided. What is granted has to be on disk,
 * also what was granted before: it may not have been written. A refusal, and what is decided, is
 * true without that. */
static void on_ballot(struct voter *v, const struct voter_event *event, struct vote_answer *answer,
                      struct voter_actions *out)
{
    const struct vote_request *request = event->request;
    struct entry *entry = entry_of(v, &request->subject);

    if (entry == NULL) {
        answer->type = VOTE_NO_ROOM;
        answer_now(event->tag, answer, out);
        return;
    }
    if (request->set_version > v->set_version) {
        v->set_version = request->set_version;
    }
    answer->set_version = v->set_version;
    if (!open_epoch(&entry->record, request)) {
        tell_known(&entry->record, answer);
        answer_now(event->tag, answer, out);
        return;
    }
    if (request->type == VOTE_PREPARE) {
        on_prepare(&entry->record, request, answer);
    } else if (request->type == VOTE_ACCEPT) {
        on_accept(&entry->record, request, answer);
    } else {
        on_learn(&entry->record, request, answer);
    }
    if (answer->type == VOTE_OUTBID) {
        answer_now(event->tag, answer, out);
        return;
    }
    entry_change(v, entry);
    answer_when_durable(v, event->tag, answer, out);
}

static void on_asked(struct voter *v, const struct voter_event *event, struct voter_actions *out)
{
    const struct vote_request *request = event->request;
    struct vote_answer answer = { .voter = request->voter,
                                  .ballot = request->ballot,
                                  .epoch = request->epoch,
                                  .set_version = v->set_version };

    CHECK(vote_request_valid(request));
    if (request->voter != v->id) {
        answer.type = VOTE_NOT_ME;
    } else if (request->type != VOTE_LEARN && request->set_version < v->set_version) {
        answer.type = VOTE_OLD_SET;
    } else if (is_full(v)) {
        answer.type = VOTE_NO_ROOM;
    } else {
        on_ballot(v, event, &answer, out);
        return;
    }
    answer_now(event->tag, &answer, out);
}

/* ---- Changes of the voter set ---- */

/* False: no room for all of them. Those that were taken over stay: they are votes of the old set,
 * whether or not this voter counts for the new one. */
static bool on_records(struct voter *v, const struct vote_record *records, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct entry *entry = entry_of(v, &records[i].subject);

        CHECK(vote_record_valid(&records[i]));
        if (entry == NULL) {
            return false;
        }
        (void)vote_record_merge(&entry->record, &records[i]);
        entry_change(v, entry); /* Also what is not new: it may not have been written. */
    }
    return true;
}

static void on_change(struct voter *v, const struct voter_event *event, struct voter_actions *out)
{
    bool is_carry = event->type == VOTER_CARRY;
    struct vote_answer answer = { .type = VOTE_ACCEPTED, .voter = event->change.voter };

    if (event->change.voter != v->id) {
        answer.type = VOTE_NOT_ME;
    } else if (event->change.version == 0 || event->change.version >= VOTE_VERSION_END) {
        answer.type = VOTE_NONSENSE;
    } else if (event->change.version < v->set_version) {
        answer.type = VOTE_OLD_SET;
    } else if (is_full(v)) {
        answer.type = VOTE_NO_ROOM;
    } else {
        v->set_version = event->change.version;
        if (is_carry && !on_records(v, event->change.records, event->change.count)) {
            answer.type = VOTE_NO_ROOM;
        }
    }
    answer.set_version = v->set_version;
    if (answer.type == VOTE_ACCEPTED) {
        answer_when_durable(v, event->tag, &answer, out);
    } else {
        answer_now(event->tag, &answer, out);
    }
}

void voter_step(struct voter *v, const struct voter_event *event, struct voter_actions *out)
{
    switch (event->type) {
    case VOTER_ASKED:
        on_asked(v, event, out);
        break;
    case VOTER_READ:
    case VOTER_CARRY:
        on_change(v, event, out);
        break;
    case VOTER_PERSISTED:
        on_persisted(v, event->persisted.number, event->persisted.failed, out);
        break;
    }
}
