/* The vote's messages (vote.proto), read: from what came over the wire to what the cores know.
 *
 * Pure. False, or a type that nobody knows: it is not what honest candidates, voters and managers
 * say; what came out is not to be used then. */
#ifndef MORSEL_COMMON_VOTE_VOTE_WORDS_H
#define MORSEL_COMMON_VOTE_VOTE_WORDS_H

#include "common/vote/vote.h"
#include "vote.pb-c.h"

/* `to` is valid. */
bool vote_request_read(const Morsel__VoteRequest *from, struct vote_request *to);

/* Valid numbers and a type that there is; what it means is for whoever asked to see. */
bool vote_answer_read(const Morsel__VoteReply *from, struct vote_answer *to);

/* The subject behind which a page begins: valid, or none. */
bool vote_after_read(const uint32_t *servers, size_t count, struct vote_subject *to);

/* At most VOTE_PAGE_MAX records, each valid; ascending if they must be (those of an answer). */
bool vote_page_read(Morsel__VoteRecord *const *from, size_t count, bool ascending,
                    struct vote_record *to);

/* The set in effect. Valid; addresses and servers are for whoever asks. */
bool voter_set_read(const Morsel__VoterSet *from, struct voter_set *to);

#endif
