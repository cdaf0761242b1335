/* How LevelDB reads its tables: as its own environment does it, but for a thread that must not wait
 * for the disk it can be made to answer at once.
 *
 * LevelDB finds most of what is asked for in memory: in its memory tables, in the blocks that it
 * keeps, and with its filters it knows that a key is not there. It does not tell when it is going to
 * read; but all that it reads goes through here. What the kernel has in memory is read even in
 * haste (RWF_NOWAIT), where the file system can tell.
 *
 * It also sees which files LevelDB begins, writes and removes, and so what a write would have to wait
 * for. LevelDB slows down whoever writes faster than tables are merged, by a sleep of 1 ms before each
 * write; here nobody sleeps: kv_leveldb.c does that, elsewhere.
 *
 * C++, as LevelDB's interface for this is. */
#ifndef MORSEL_META_STORAGE_TABLE_ENV_LEVELDB_H
#define MORSEL_META_STORAGE_TABLE_ENV_LEVELDB_H

#include <leveldb/c.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: out of memory. To be closed when its databases are. */
leveldb_env_t *table_env_open(void);
void table_env_close(leveldb_env_t *env);

/* Until table_env_end_haste(), what this thread reads is in memory, or the reading is refused. One
 * thread at a time, and not once more in between.
 *
 * To a `get` a refusal is a failure. To an iterator it must not be one: an iterator that cannot read a
 * block looks for one that it can, and runs through all tables behind. It is given a stand-in for the
 * block, whose one key is behind all others, and there it stops. */
void table_env_begin_haste(leveldb_env_t *env, bool iterator);

/* Was anything refused? An iterator to which that happened stands nowhere, and must be destroyed. */
bool table_env_end_haste(leveldb_env_t *env);

/* Behind the end of such an iterator: of its memory. */
void table_env_forget_stand_ins(leveldb_env_t *env);

/* What LevelDB is at, as its files show; any thread may ask.
 *
 * Logs that it has begun: one with each memory table. */
uint64_t table_env_logs(leveldb_env_t *env);

/* Is the memory table of the log before the newest being written out? */
bool table_env_is_flushing(leveldb_env_t *env);

/* So many were written out; only then is there one more table at the lowest level. */
uint64_t table_env_flushes(leveldb_env_t *env);

/* It moves with each piece that is written to a table. */
uint64_t table_env_progress(leveldb_env_t *env);

/* Has any file but a log failed to be written? LevelDB refuses all writes then. */
bool table_env_failed(leveldb_env_t *env);

#ifdef __cplusplus
}
#endif

#endif
