/* What lies in the journal of a store: batches that are on disk here before they are on disk in the
 * store's own log. Pure; journal_file.h keeps the file.
 *
 * The file has one length from the day it is made, and entries are written over what it held, so
 * that syncing one is a sync of blocks and not of a new length as well: that is what makes it
 * cheaper than the log (ARIES and its heirs preallocate their logs for the same reason). An entry
 * begins on a sector of its own, so a torn write damages no other. It holds the batches of one
 * sync. Batches are numbered from 1 without gaps for as long as the store lives.
 *
 *   magic u32, crc32c of the rest u32, generation u64, first u64, last u64, bytes u32, 0 u32,
 *   then each batch as u32 length and bytes; zeros up to the next sector
 *
 * The entries of one generation follow each other from the file's beginning; the first that is not
 * whole, of another generation, or does not continue the numbers of the one before ends them.
 * Each process that writes has a generation of its own: without it, entries of one before could
 * continue its own after numbers recurred.
 */
#ifndef MORSEL_META_STORAGE_JOURNAL_FORMAT_H
#define MORSEL_META_STORAGE_JOURNAL_FORMAT_H

#include "common/base/buf.h"

enum {
    JOURNAL_BYTES = 1 << 20,
    JOURNAL_SECTOR_BYTES = 512,
    JOURNAL_HEADER_BYTES = 40,
};

struct journal_entry
{
    uint64_t generation; /* Never 0. */
    uint64_t first;      /* Numbers of the batches, from 1. */
    uint64_t last;
    struct slice batches; /* last - first + 1 of them, each as a blob (buf_put_blob()). */
};

/* Append the entry, padded to whole sectors. Out of memory as buf.h says. */
void journal_entry_encode(struct buf *out, const struct journal_entry *entry);

/* Walk the entries of the newest generation: begin with a zeroed `entry` and *offset == 0; false at
 * the end. `entry->batches` points into `file`. */
bool journal_entry_next(struct slice file, size_t *offset, struct journal_entry *entry);

#endif
