/* What is valid, and what a record takes over from another. */
#include "common/vote/vote.h"

#include "common/base/check.h"

static bool value_valid(const struct vote_value *value)
{
    return value->count <= VOTE_VALUE_BYTES_MAX;
}

static bool ballot_valid(struct vote_ballot ballot)
{
    return ballot.round > 0 && ballot.round < VOTE_ROUND_END && ballot.candidate != 0;
}

static bool ballot_none(struct vote_ballot ballot)
{
    return ballot.round == 0 && ballot.candidate == 0;
}

bool vote_subject_valid(const struct vote_subject *subject)
{
    for (uint32_t i = 1; i < REPLICAS_MAX; i++) {
        bool follows =
            subject->servers[i - 1] != 0 && subject->servers[i] > subject->servers[i - 1];

        if (subject->servers[i] != 0 && !follows) {
            return false;
        }
    }
    return subject->servers[0] != 0;
}

bool vote_record_valid(const struct vote_record *record)
{
    return vote_subject_valid(&record->subject) && record->decided_epoch < VOTE_EPOCH_END &&
           value_valid(&record->decided) && value_valid(&record->value) &&
           (record->decided_epoch > 0) == (record->decided.count > 0) &&
           (ballot_none(record->promised) || ballot_valid(record->promised)) &&
           (ballot_none(record->ballot) || ballot_valid(record->ballot)) &&
           vote_ballot_compare(record->ballot, record->promised) <= 0 &&
           (record->ballot.round > 0) == (record->value.count > 0);
}

bool vote_request_valid(const struct vote_request *request)
{
    if (!vote_subject_valid(&request->subject) || request->epoch == 0 ||
        request->epoch >= VOTE_EPOCH_END || request->set_version == 0 ||
        request->set_version >= VOTE_VERSION_END || !value_valid(&request->before) ||
        !value_valid(&request->value) || (request->epoch > 1) != (request->before.count > 0)) {
        return false;
    }
    switch (request->type) {
    case VOTE_PREPARE:
        return ballot_valid(request->ballot);
    case VOTE_ACCEPT:
        return ballot_valid(request->ballot) && request->value.count > 0;
    case VOTE_LEARN:
        return request->value.count > 0;
    }
    return false;
}

bool voter_set_valid(const struct voter_set *set)
{
    if (set->version == 0 || set->version >= VOTE_VERSION_END || set->count == 0 ||
        set->count > VOTERS_MAX || set->ids[0] == 0) {
        return false;
    }
    for (uint32_t i = 1; i < set->count; i++) {
        if (set->ids[i] <= set->ids[i - 1]) {
            return false;
        }
    }
    return true;
}

uint32_t voter_set_find(const struct voter_set *set, voter_id id)
{
    uint32_t low = 0, high = set->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (set->ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < set->count && set->ids[low] == id ? low : set->count;
}

bool vote_record_merge(struct vote_record *record, const struct vote_record *from)
{
    CHECK(vote_subject_compare(&record->subject, &from->subject) == 0);
    if (from->decided_epoch > record->decided_epoch) {
        *record = *from;
        return true;
    }
    if (from->decided_epoch < record->decided_epoch ||
        vote_ballot_compare(from->ballot, record->ballot) <= 0) {
        return false;
    }
    if (vote_ballot_compare(from->ballot, record->promised) > 0) {
        record->promised = from->ballot;
    }
    record->ballot = from->ballot;
    record->value = from->value;
    return true;
}
