/* The ordered store on LevelDB.
 *
 * Durability. A commit is a LevelDB write without `sync`: LevelDB hands each batch to the kernel
 * with write(2) before it returns, which survives the end of the process. sync() makes it survive a
 * loss of power. Where it covers little, as when somebody waits for one change, the batches go into
 * a journal beside the logs (journal_file.h); opening the database puts those that its logs have
 * lost behind what they kept. Otherwise the logs are synced. That does not use LevelDB's own
 * synchronous write, because other writers queue behind that one inside LevelDB, and ours is the
 * event loop. Instead fdatasync(2) is called on every live NNNNNN.log of the directory, oldest
 * first, and fsync(2) on the directory when there is a new one (log_watch_file.h). That is enough:
 *  - a batch lies either in a live log or, once its memory table was written out, in a table;
 *    LevelDB syncs a table and then the MANIFEST before it deletes the log;
 *  - a log that vanishes while we look for it is of the second kind;
 *  - a log that appears while we look holds only batches that were committed after the sync began.
 * Oldest first, so that what a loss of power leaves in the middle of a sync is a prefix of the
 * batches. LevelDB closes a full log without syncing it; the manager syncs within 100 ms of every
 * change, long before the kernel writes back pages on its own accord, and checks at start that no
 * operation is missing from the log. Opening makes a synced table of what the logs of the process
 * before hold, and syncs the MANIFEST that names it, before it returns.
 *
 * Memory is bounded: two write buffers, the block cache, and the tables that are kept open.
 */
#ifndef MORSEL_META_STORAGE_KV_LEVELDB_H
#define MORSEL_META_STORAGE_KV_LEVELDB_H

#include "meta/storage/kv.h"

/* Open the database in directory `dir`. `create`: it must not exist and is made; otherwise it must
 * exist. MORSEL_NOENT, MORSEL_CORRUPT, MORSEL_IO, MORSEL_NOMEM, with one sentence. */
int kv_leveldb_open(const char *dir, bool create, struct kv **kv_out, struct errmsg *err);

#endif
