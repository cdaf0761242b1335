/* What a group's write intent and logs of changes look like in a file. Pure.
 *
 *   header: "MORSDIRT", format, checksum, id of the group
 *   entry:  length and checksum of the body, number, checksum of these; body: records
 *   entry ...
 *
 * Entries are numbered from 1; each is written as one. The file only ever says more, until it is
 * replaced as a whole. An entry that the file ends within, or of which only zeros came to the disk,
 * is *torn*, and left out: nothing that it speaks of was done yet. Everything else that is not what
 * we wrote is damage: then everything counts as changed, for everybody, and as in doubt.
 *
 * Numbers are little-endian. A newer format keeps the header, and is refused with a line that says
 * so. */
#ifndef MORSEL_IOD_REPLICA_DIRTY_FORMAT_H
#define MORSEL_IOD_REPLICA_DIRTY_FORMAT_H

#include "common/base/buf.h"
#include "iod/replica/changed.h"
#include "iod/replica/mirror_lease.h"

enum {
    DIRTY_FORMAT = 1,
    DIRTY_HEADER_BYTES = 24,
    DIRTY_ENTRY_HEADER_BYTES = 20,
    DIRTY_RECORD_BYTES = 40,
    DIRTY_RECORDS_MAX = 16384, /* Of an entry. */
    DIRTY_ENTRY_BYTES_MAX = DIRTY_ENTRY_HEADER_BYTES + DIRTY_RECORDS_MAX * DIRTY_RECORD_BYTES
};

enum dirty_kind {
    DIRTY_INTENT = 1, /* `change` is about to be made. */
    DIRTY_CHANGED,    /* It was, while `members` were outside. */
    DIRTY_SETTLED     /* The logs of `members` are empty. */
};

struct dirty_record
{
    enum dirty_kind kind;
    uint8_t members;      /* Bits by their place in the group; 0 with DIRTY_INTENT. */
    struct change change; /* Zero with DIRTY_SETTLED. */
};

void dirty_header_put(struct buf *b, group_id group);

/* One entry, of 1 to DIRTY_RECORDS_MAX records. */
void dirty_entry_put(struct buf *b, uint64_t number, const struct dirty_record *records,
                     uint32_t count);

/* MORSEL_CORRUPT, MORSEL_VERSION: `group` is 0. */
int dirty_header_parse(struct slice bytes, group_id *group);

enum dirty_piece { DIRTY_END, DIRTY_ENTRY, DIRTY_TORN, DIRTY_DAMAGED };

struct dirty_entry
{
    uint32_t count;        /* Of records, */
    struct reader records; /* each of which dirty_record_get() gives. */
    size_t bytes;          /* Of the whole entry. */
};

/* What is at the beginning of `bytes`, which go on to the end of the file; `number` is that of the
 * entry which must follow. Of an ENTRY every record is valid. */
enum dirty_piece dirty_entry_parse(struct slice bytes, uint64_t number, struct dirty_entry *entry);

/* The next record; false: there is none, or it is not valid. */
bool dirty_record_get(struct reader *r, struct dirty_record *record);

#endif
