/* A VoterSet in a file of its own. */
#include "iod/voters_kept_file.h"

#include "common/vote/vote_words.h"
#include "iod/kept_file.h"

static bool is_sound(const ProtobufCMessage *message)
{
    struct voter_set set;

    return voter_set_read((const Morsel__VoterSet *)message, &set);
}

static const struct kept_kind voters = { .name = "voters",
                                         .magic = { 'M', 'O', 'R', 'S', 'V', 'S', 'E', 'T' },
                                         .descriptor = &morsel__voter_set__descriptor,
                                         .sound = is_sound };

int voters_kept_read(const char *dir, Morsel__VoterSet **set, struct errmsg *err)
{
    return kept_read(&voters, dir, (ProtobufCMessage **)set, err);
}

bool voters_kept_fill(const Morsel__VoterSet *set, struct buf *bytes)
{
    return kept_fill(&voters, &set->base, bytes);
}

int voters_kept_write(const char *dir, const struct buf *bytes, struct errmsg *err)
{
    return kept_write(&voters, dir, bytes, err);
}
