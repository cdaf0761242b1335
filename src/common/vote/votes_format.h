/* What a file of votes looks like. Pure; votes_file.c reads and writes it.
 *
 *   header: "MORSVOTE", format, checksum, id of the voter
 *   entry:  length and checksum of the body, number, checksum of these; body: the newest voter set
 *           that is known, and records
 *   entry ...
 *
 * Entries are numbered from 1. Of a subject the last record counts. Each entry is written and synced
 * as one, before anything that is in it is said. So an entry that the file ends within, or of which
 * only zeros came to the disk, was never spoken of: it is *torn*, and left out. Everything else that
 * is not what we wrote is damage: a vote may be forgotten, and the voter must not go on under its id.
 *
 * Numbers are little-endian. A newer format keeps the header, and is refused with a line that says
 * so. */
#ifndef MORSEL_COMMON_VOTE_VOTES_FORMAT_H
#define MORSEL_COMMON_VOTE_VOTES_FORMAT_H

#include "common/base/buf.h"
#include "common/vote/vote.h"

enum {
    VOTES_FORMAT = 1,
    VOTES_HEADER_BYTES = 24,
    VOTES_ENTRY_HEADER_BYTES = 20,
    VOTES_RECORD_BYTES_MAX = 12 + 8 + 2 * 16 + 2 * (1 + VOTE_VALUE_BYTES_MAX),
    VOTES_ENTRY_BYTES_MAX =
        VOTES_ENTRY_HEADER_BYTES + 12 + VOTE_SUBJECTS_MAX * VOTES_RECORD_BYTES_MAX
};

void votes_header_put(struct buf *b, voter_id id);

/* One entry. */
void votes_entry_put(struct buf *b, uint64_t number, uint64_t set_version,
                     const struct vote_record *records, uint32_t count);

/* The header. MORSEL_CORRUPT, MORSEL_VERSION: `id` is 0. */
int votes_header_parse(struct slice bytes, voter_id *id);

enum votes_piece { VOTES_END, VOTES_ENTRY, VOTES_TORN, VOTES_DAMAGED };

struct votes_entry
{
    uint64_t set_version;
    uint32_t count;        /* Of records, */
    struct reader records; /* each of which votes_record_get() gives. */
    size_t bytes;          /* Of the whole entry. */
};

/* What is at the beginning of `bytes`, which go on to the end of the file; `number` is that of the
 * entry which must follow. Of an ENTRY every record is valid. */
enum votes_piece votes_entry_parse(struct slice bytes, uint64_t number, struct votes_entry *entry);

/* The next record; the reader has failed when there was none. */
struct vote_record votes_record_get(struct reader *r);

#endif
