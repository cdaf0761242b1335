/* Every message of the wire: unpacking survives any bytes, and what was unpacked packs into as many
 * bytes as were counted for it.
 *
 * Input: one byte picks the message, the rest is its body. */
#include "common/base/check.h"

#include "common.pb-c.h"
#include "common/vote/vote_words.h"
#include "data.pb-c.h"
#include "dataset.pb-c.h"
#include "donate.pb-c.h"
#include "meta.pb-c.h"
#include "replica.pb-c.h"
#include "vote.pb-c.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is read from a message of the vote is valid. */
static void read_vote(const ProtobufCMessage *m)
{
    struct vote_record page[VOTE_PAGE_MAX];
    struct vote_subject after;
    struct voter_set set;
    struct vote_request asked;
    struct vote_answer answer;

    if (m->descriptor == &morsel__vote_request__descriptor) {
        CHECK(!vote_request_read((const Morsel__VoteRequest *)m, &asked) ||
              vote_request_valid(&asked));
    } else if (m->descriptor == &morsel__vote_reply__descriptor) {
        CHECK(!vote_answer_read((const Morsel__VoteReply *)m, &answer) ||
              answer.value.count <= VOTE_VALUE_BYTES_MAX);
    } else if (m->descriptor == &morsel__votes_read_request__descriptor) {
        const Morsel__VotesReadRequest *r = (const Morsel__VotesReadRequest *)m;

        CHECK(!vote_after_read(r->after, r->n_after, &after) || after.servers[0] == 0 ||
              vote_subject_valid(&after));
    } else if (m->descriptor == &morsel__votes_carry_request__descriptor) {
        const Morsel__VotesCarryRequest *r = (const Morsel__VotesCarryRequest *)m;

        if (vote_page_read(r->records, r->n_records, false, page)) {
            for (size_t i = 0; i < r->n_records; i++) {
                CHECK(vote_record_valid(&page[i]));
            }
        }
    } else if (m->descriptor == &morsel__voter_set__descriptor) {
        CHECK(!voter_set_read((const Morsel__VoterSet *)m, &set) || voter_set_valid(&set));
    }
}

static const ProtobufCMessageDescriptor *const types[] = {
    &morsel__hello__descriptor,
    &morsel__hello_reply__descriptor,
    &morsel__failure__descriptor,
    &morsel__empty__descriptor,
    &morsel__counter__descriptor,
    &morsel__statistics__descriptor,
    &morsel__clock__descriptor,
    &morsel__object_id__descriptor,
    &morsel__read_request__descriptor,
    &morsel__read_reply__descriptor,
    &morsel__write_request__descriptor,
    &morsel__truncate_request__descriptor,
    &morsel__punch_request__descriptor,
    &morsel__seek_request__descriptor,
    &morsel__seek_reply__descriptor,
    &morsel__sync_request__descriptor,
    &morsel__delete_request__descriptor,
    &morsel__object_stat_request__descriptor,
    &morsel__object_stat_reply__descriptor,
    &morsel__object_list_request__descriptor,
    &morsel__watch_request__descriptor,
    &morsel__watch_reply__descriptor,
    &morsel__object_list_reply__descriptor,
    &morsel__allocate_request__descriptor,
    &morsel__layout__descriptor,
    &morsel__policy__descriptor,
    &morsel__attr__descriptor,
    &morsel__credentials__descriptor,
    &morsel__op_id__descriptor,
    &morsel__changed__descriptor,
    &morsel__durable__descriptor,
    &morsel__fsync_reply__descriptor,
    &morsel__unsynced__descriptor,
    &morsel__synced_request__descriptor,
    &morsel__node__descriptor,
    &morsel__lookup_request__descriptor,
    &morsel__getattr_request__descriptor,
    &morsel__setattr_request__descriptor,
    &morsel__create_request__descriptor,
    &morsel__unlink_request__descriptor,
    &morsel__removed__descriptor,
    &morsel__rename_request__descriptor,
    &morsel__link_request__descriptor,
    &morsel__readlink_request__descriptor,
    &morsel__readdir_request__descriptor,
    &morsel__directory_entry__descriptor,
    &morsel__readdir_reply__descriptor,
    &morsel__open_request__descriptor,
    &morsel__close_request__descriptor,
    &morsel__size_report_request__descriptor,
    &morsel__xattr_get_request__descriptor,
    &morsel__xattr_set_request__descriptor,
    &morsel__xattr_list_request__descriptor,
    &morsel__xattr_reply__descriptor,
    &morsel__statfs_request__descriptor,
    &morsel__statfs_reply__descriptor,
    &morsel__fsync_request__descriptor,
    &morsel__session_request__descriptor,
    &morsel__lock__descriptor,
    &morsel__lock_request__descriptor,
    &morsel__lock_reply__descriptor,
    &morsel__lock_cancel__descriptor,
    &morsel__session_reply__descriptor,
    &morsel__member__descriptor,
    &morsel__members_request__descriptor,
    &morsel__members_reply__descriptor,
    &morsel__register_request__descriptor,
    &morsel__register_reply__descriptor,
    &morsel__heartbeat_request__descriptor,
    &morsel__space_wanted__descriptor,
    &morsel__heartbeat_reply__descriptor,
    &morsel__policy_request__descriptor,
    &morsel__policy_reply__descriptor,
    &morsel__status_request__descriptor,
    &morsel__status_reply__descriptor,
    &morsel__fsck_request__descriptor,
    &morsel__fsck_reply__descriptor,
    &morsel__fsck_objects__descriptor,
    &morsel__writers_request__descriptor,
    &morsel__writers_reply__descriptor,
    &morsel__copy_request__descriptor,
    &morsel__set_layout_request__descriptor,
    &morsel__exchange_request__descriptor,
    &morsel__pause_request__descriptor,
    &morsel__pause_notice__descriptor,
    &morsel__paused_request__descriptor,
    &morsel__squash__descriptor,
    &morsel__lock_revoke__descriptor,
    &morsel__lock_check__descriptor,
    &morsel__lock_checked__descriptor,
    &morsel__held_up__descriptor,
    &morsel__busy__descriptor,
    &morsel__recall__descriptor,
    &morsel__recall_notice__descriptor,
    &morsel__return__descriptor,
    &morsel__return_request__descriptor,
    &morsel__done__descriptor,
    &morsel__vote_ballot__descriptor,
    &morsel__vote_request__descriptor,
    &morsel__vote_reply__descriptor,
    &morsel__vote_record__descriptor,
    &morsel__votes_read_request__descriptor,
    &morsel__votes_carry_request__descriptor,
    &morsel__votes_reply__descriptor,
    &morsel__voter__descriptor,
    &morsel__voter_set__descriptor,
    &morsel__voter_status__descriptor,
    &morsel__voters_status__descriptor,
    &morsel__group__descriptor,
    &morsel__group_set__descriptor,
    &morsel__copy_state__descriptor,
    &morsel__scrub__descriptor,
    &morsel__scrub_finding__descriptor,
    &morsel__scrub_kept__descriptor,
    &morsel__verify_state__descriptor,
    &morsel__group_status__descriptor,
    &morsel__recover_reply__descriptor,
    &morsel__force_copy__descriptor,
    &morsel__rebalance_move__descriptor,
    &morsel__rebalance_disk__descriptor,
    &morsel__rebalance_status__descriptor,
    &morsel__recover_request__descriptor,
    &morsel__group_word__descriptor,
    &morsel__group_words__descriptor,
    &morsel__mirror_lease_request__descriptor,
    &morsel__mirror_lease_reply__descriptor,
    &morsel__replica_stretch__descriptor,
    &morsel__replica_operation__descriptor,
    &morsel__replica_message__descriptor,
    &morsel__probe_request__descriptor,
    &morsel__probe_reply__descriptor,
    &morsel__hand_on_request__descriptor,
    &morsel__donor_report__descriptor,
    &morsel__donor_left__descriptor,
    &morsel__donor_blame__descriptor,
    &morsel__donor_read__descriptor,
    &morsel__donor_join_request__descriptor,
    &morsel__donor_join_reply__descriptor,
    &morsel__donor_report_request__descriptor,
    &morsel__donor_report_reply__descriptor,
    &morsel__donor_wanted__descriptor,
    &morsel__donor_forget_request__descriptor,
    &morsel__donor_forget_reply__descriptor,
    &morsel__donor_list_request__descriptor,
    &morsel__donor__descriptor,
    &morsel__donor_list_reply__descriptor,
    &morsel__set_run__descriptor,
    &morsel__donor_place__descriptor,
    &morsel__set_place_request__descriptor,
    &morsel__set_place_reply__descriptor,
    &morsel__set_stored_request__descriptor,
    &morsel__set_morsel__descriptor,
    &morsel__set_seal_request__descriptor,
    &morsel__set_map_request__descriptor,
    &morsel__set_map_reply__descriptor,
    &morsel__set_claim_request__descriptor,
    &morsel__set_claim_reply__descriptor,
    &morsel__set_returned_request__descriptor,
    &morsel__set_list_request__descriptor,
    &morsel__set_info__descriptor,
    &morsel__set_list_reply__descriptor,
    &morsel__donor_held_request__descriptor,
    &morsel__donor_held_reply__descriptor,
    &morsel__donate_request__descriptor,
    &morsel__donate_reply__descriptor,
    &morsel__donor_fetch__descriptor,
    &morsel__donor_fetched_request__descriptor,
    &morsel__set_damaged_request__descriptor,
    &morsel__set_damaged__descriptor,
    &morsel__donor_trust_request__descriptor,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ProtobufCMessage *message;
    size_t packed_size;
    uint8_t *packed;

    if (size == 0) {
        return 0;
    }
    message =
        protobuf_c_message_unpack(types[data[0] % ARRAY_COUNT(types)], NULL, size - 1, data + 1);
    if (message == NULL) {
        return 0;
    }
    read_vote(message);
    packed_size = protobuf_c_message_get_packed_size(message);
    packed = malloc(packed_size + 1);
    CHECK(packed != NULL);
    CHECK(protobuf_c_message_pack(message, packed) == packed_size);
    protobuf_c_message_free_unpacked(message, NULL);
    free(packed);
    return 0;
}
