/* Each field where it belongs, and a look whether all of it is valid. */
#include "common/vote/vote_words.h"

static struct vote_ballot ballot_read(const Morsel__VoteBallot *from)
{
    struct vote_ballot none = { 0, 0 };

    return from == NULL ? none : (struct vote_ballot){ from->round, from->candidate };
}

static bool value_read(ProtobufCBinaryData from, struct vote_value *to)
{
    if (from.len > VOTE_VALUE_BYTES_MAX) {
        return false;
    }
    to->count = (uint32_t)from.len;
    if (from.len > 0) {
        memcpy(to->bytes, from.data, from.len);
    }
    return true;
}

static bool subject_read(const uint32_t *servers, size_t count, struct vote_subject *to)
{
    if (count > REPLICAS_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        to->servers[i] = servers[i];
    }
    return true;
}

bool vote_request_read(const Morsel__VoteRequest *from, struct vote_request *to)
{
    memset(to, 0, sizeof(*to));
    to->voter = from->voter;
    to->set_version = from->set_version;
    to->epoch = from->epoch;
    to->ballot = ballot_read(from->ballot);
    if (from->type > VOTE_LEARN || from->voter == 0 ||
        !subject_read(from->subject, from->n_subject, &to->subject) ||
        !value_read(from->before, &to->before) || !value_read(from->value, &to->value)) {
        return false;
    }
    to->type = (enum vote_request_type)from->type;
    return vote_request_valid(to);
}

bool vote_answer_read(const Morsel__VoteReply *from, struct vote_answer *to)
{
    memset(to, 0, sizeof(*to));
    to->voter = from->voter;
    to->ballot = ballot_read(from->ballot);
    to->voted = ballot_read(from->voted);
    to->epoch = from->epoch;
    to->set_version = from->set_version;
    if (from->type > VOTE_NONSENSE || !value_read(from->value, &to->value)) {
        return false;
    }
    to->type = (enum vote_answer_type)from->type;
    return to->epoch < VOTE_EPOCH_END && to->set_version < VOTE_VERSION_END &&
           to->ballot.round < VOTE_ROUND_END && to->voted.round < VOTE_ROUND_END;
}

bool vote_after_read(const uint32_t *servers, size_t count, struct vote_subject *to)
{
    memset(to, 0, sizeof(*to));
    return count == 0 || (subject_read(servers, count, to) && vote_subject_valid(to));
}

static bool record_read(const Morsel__VoteRecord *from, struct vote_record *to)
{
    memset(to, 0, sizeof(*to));
    to->decided_epoch = from->decided_epoch;
    to->promised = ballot_read(from->promised);
    to->ballot = ballot_read(from->ballot);
    return subject_read(from->subject, from->n_subject, &to->subject) &&
           value_read(from->decided, &to->decided) && value_read(from->value, &to->value) &&
           vote_record_valid(to);
}

bool voter_set_read(const Morsel__VoterSet *from, struct voter_set *to)
{
    if (from->mark == 0 || from->n_voters > VOTERS_MAX) {
        return false;
    }
    memset(to, 0, sizeof(*to));
    to->version = from->version;
    to->count = (uint32_t)from->n_voters;
    for (uint32_t i = 0; i < to->count; i++) {
        to->ids[i] = from->voters[i]->id;
    }
    return voter_set_valid(to);
}

bool vote_page_read(Morsel__VoteRecord *const *from, size_t count, bool ascending,
                    struct vote_record *to)
{
    if (count > VOTE_PAGE_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!record_read(from[i], &to[i]) ||
            (ascending && i > 0 && vote_subject_compare(&to[i - 1].subject, &to[i].subject) >= 0)) {
            return false;
        }
    }
    return true;
}
