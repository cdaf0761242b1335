/* LevelDB through its C interface, with the journal beside it. */
#include "meta/storage/kv_leveldb.h"

#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "meta/storage/inventory_file.h"
#include "meta/storage/journal_file.h"
#include "meta/storage/log_watch_file.h"
#include "meta/storage/memtable_size.h"
#include "meta/storage/table_env_leveldb.h"

#include <errno.h>
#include <fcntl.h>
#include <leveldb/c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    WRITE_BUFFER_BYTES = 16 << 20,
    BLOCK_CACHE_BYTES = 64 << 20,
    TABLE_BYTES = 16 << 20,
    OPEN_FILES_MAX =
        2000, /* 32 GiB, some 150 million files, before look-ups open tables again. Each
                              open one keeps its index and filter in memory, about 1/50 of it. */
    BLOOM_BITS_PER_KEY = 10,

    /* For what does not ask for room, while the rest waits. */
    ROOM_RESERVE_BYTES = 1 << 20,

    /* Tables at the lowest level: from so many on a change a millisecond, with so many no new memory
     * table. As LevelDB has it (kL0_SlowdownWritesTrigger, kL0_StopWritesTrigger). */
    TABLES_SLOW = 8,
    TABLES_STOP = 12,

    /* Nothing was written to any table for so long: LevelDB has given up, and the next commit will
     * hear of it. */
    ROOM_PATIENCE_MS = 30000
};

struct kv_leveldb
{
    struct kv kv;
    leveldb_t *db;
    leveldb_env_t *env;
    leveldb_options_t *options;
    leveldb_cache_t *cache;
    leveldb_filterpolicy_t *bloom;
    leveldb_readoptions_t *read_options;
    leveldb_readoptions_t *scan_options;
    leveldb_writeoptions_t *write_options;
    leveldb_writeoptions_t *sync_options;
    leveldb_writebatch_t *batch;
    int dir_fd;
    struct log_watch logs;
    struct journal journal;
    struct memtable_size memtable;
    uint64_t memtable_logs;    /* table_env_logs() when that was begun. */
    uint64_t tables_flushes;   /* table_env_flushes() when ... */
    int tables;                /* ... there were so many at the lowest level. */
    atomic_bool memtable_full; /* It is what there is no room in. */
    atomic_bool allowed;       /* make_room() says so, for one commit. */
    bool opened;               /* Nothing is wrong so far: closing leaves a full inventory. */
    uint64_t manifest_bytes;   /* As listed in the inventory. */
    char dir[1024];
};

/* Under it lies the number of the newest batch, for the replay of the journal. Behind every key of
 * our users (record.h: letters), who do not see it. */
static const char NUMBER_KEY[] = { (char)0xff };

static struct kv_leveldb *leveldb_of(struct kv *kv)
{
    return CONTAINER_OF(kv, struct kv_leveldb, kv);
}

/* LevelDB tells what went wrong in words only. Takes over `text`. */
static int status_from_text(char *text, struct errmsg *err)
{
    int status = MORSEL_IO;

    if (strstr(text, "Corruption") != NULL || strstr(text, "missing files") != NULL) {
        status = MORSEL_CORRUPT;
    } else if (strstr(text, "No space left") != NULL) {
        status = MORSEL_NOSPC;
    } else if (strstr(text, "does not exist") != NULL) {
        status = MORSEL_NOENT;
    }
    errmsg_set(err, "%s", text);
    leveldb_free(text);
    return status;
}

static int on_get(struct kv *kv, struct slice key, struct buf *value, struct errmsg *err)
{
    struct kv_leveldb *l = leveldb_of(kv);
    char *text = NULL, *bytes;
    size_t count = 0;

    if (kv->wanted != NULL) {
        table_env_begin_haste(l->env, false);
    }
    bytes = leveldb_get(l->db, l->read_options, (const char *)key.data, key.count, &count, &text);
    if (kv->wanted != NULL && table_env_end_haste(l->env)) {
        leveldb_free(text);
        leveldb_free(bytes);
        return kv_want(kv, key);
    }
    if (text != NULL) {
        return status_from_text(text, err);
    }
    if (bytes == NULL) {
        return MORSEL_NOENT;
    }
    buf_clear(value);
    buf_put(value, bytes, count);
    leveldb_free(bytes);
    return value->failed ? MORSEL_NOMEM : 0;
}

/* ---- Room for writes ---- */

/* LevelDB has begun a new memory table, and a log for it, before it wrote this batch. */
static struct memtable_size begun_with(const struct kv_batch *batch)
{
    struct memtable_size size;
    struct kv_change change;
    size_t offset = 0;

    memtable_size_init(&size);
    memtable_size_add(&size, sizeof(NUMBER_KEY), 8);
    while (kv_batch_next(batch, &offset, &change)) {
        memtable_size_add(&size, change.key.count, change.put ? change.value.count : 0);
    }
    return size;
}

/* `grown`: the memory table, if the batch is in the one of the batch before. */
static void note_written(struct kv_leveldb *l, const struct kv_batch *batch,
                         const struct memtable_size *grown)
{
    uint64_t logs = table_env_logs(l->env);

    l->memtable = logs == l->memtable_logs ? *grown : begun_with(batch);
    l->memtable_logs = logs;
    atomic_store(&l->allowed, false);
}

/* Any thread. */
static int count_tables(struct kv_leveldb *l)
{
    char *text = leveldb_property_value(l->db, "leveldb.num-files-at-level0");
    int count = text == NULL ? 0 : (int)strtol(text, NULL, 10);

    leveldb_free(text);
    return count;
}

/* It only grows when a memory table was written out. */
static int tables_now(struct kv_leveldb *l)
{
    uint64_t flushes = table_env_flushes(l->env);

    if (flushes != l->tables_flushes || l->tables >= TABLES_SLOW) {
        l->tables_flushes = flushes;
        l->tables = count_tables(l);
    }
    return l->tables;
}

static bool on_has_room(struct kv *kv)
{
    struct kv_leveldb *l = leveldb_of(kv);
    int tables = tables_now(l);
    bool full = l->memtable.bytes > WRITE_BUFFER_BYTES - ROOM_RESERVE_BYTES &&
                (table_env_is_flushing(l->env) || tables >= TABLES_STOP);

    if ((!full && tables < TABLES_SLOW) || atomic_load(&l->allowed) || table_env_failed(l->env)) {
        return true;
    }
    atomic_store(&l->memtable_full, full);
    return false;
}

static void on_make_room(struct kv *kv)
{
    const struct timespec pause = { 0, 1000000 };
    struct kv_leveldb *l = leveldb_of(kv);
    uint64_t progress = 0;
    int silent_ms = 0;

    do { /* LevelDB tells nobody. */
        uint64_t now = table_env_progress(l->env);

        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
        silent_ms = now == progress ? silent_ms + 1 : 0;
        progress = now;
    } while (atomic_load(&l->memtable_full) && !table_env_failed(l->env) &&
             silent_ms < ROOM_PATIENCE_MS &&
             (table_env_is_flushing(l->env) || count_tables(l) >= TABLES_STOP));
    atomic_store(&l->allowed, true);
}

/* ---- Writing ---- */

/* The batch and its number, in one step. */
static int write_numbered(struct kv_leveldb *l, const struct kv_batch *batch, uint64_t number,
                          bool sync, struct errmsg *err)
{
    struct memtable_size grown = l->memtable;
    struct kv_change change;
    size_t offset = 0;
    uint8_t value[8];
    char *text = NULL;

    leveldb_writebatch_clear(l->batch);
    put_le64(value, number);
    leveldb_writebatch_put(l->batch, NUMBER_KEY, sizeof(NUMBER_KEY), (const char *)value,
                           sizeof(value));
    memtable_size_add(&grown, sizeof(NUMBER_KEY), sizeof(value));
    while (kv_batch_next(batch, &offset, &change)) {
        const char *key = (const char *)change.key.data;

        memtable_size_add(&grown, change.key.count, change.put ? change.value.count : 0);
        if (change.put) {
            leveldb_writebatch_put(l->batch, key, change.key.count, (const char *)change.value.data,
                                   change.value.count);
        } else {
            leveldb_writebatch_delete(l->batch, key, change.key.count);
        }
    }
    leveldb_write(l->db, sync ? l->sync_options : l->write_options, l->batch, &text);
    note_written(l, batch, &grown);
    return text == NULL ? 0 : status_from_text(text, err);
}

static int on_commit(struct kv *kv, const struct kv_batch *batch, bool sync, struct errmsg *err)
{
    struct kv_leveldb *l = leveldb_of(kv);
    int rv;

    if (batch->bytes.failed) {
        return MORSEL_NOMEM;
    }
    rv = write_numbered(l, batch, l->journal.noted + 1, sync, err);
    if (rv == 0) {
        journal_note(&l->journal, buf_slice(&batch->bytes));
    }
    return rv;
}

/* The record that the iterator is at; false: there is none of our users any more. */
static bool record_at(const leveldb_iterator_t *it, struct slice *key, struct slice *value)
{
    if (!leveldb_iter_valid(it)) {
        return false;
    }
    key->data = (const uint8_t *)leveldb_iter_key(it, &key->count);
    value->data = (const uint8_t *)leveldb_iter_value(it, &value->count);
    return !slice_starts_with(*key, (struct slice){ (const uint8_t *)NUMBER_KEY, 1 });
}

static void seek(leveldb_iterator_t *it, struct slice from)
{
    leveldb_iter_seek(it, from.count == 0 ? "" : (const char *)from.data, from.count);
}

/* To the next record, or to `from`. False: in haste, and where the iterator stands is not known. */
static bool step(struct kv_leveldb *l, leveldb_iterator_t *it, const struct slice *from)
{
    bool hasty = l->kv.wanted != NULL;

    if (hasty) {
        table_env_begin_haste(l->env, true);
    }
    if (from != NULL) {
        seek(it, *from);
    } else {
        leveldb_iter_next(it);
    }
    return !hasty || !table_env_end_haste(l->env);
}

static int on_scan(struct kv *kv, struct slice from, kv_visit visit, void *data, struct errmsg *err)
{
    struct kv_leveldb *l = leveldb_of(kv);
    leveldb_iterator_t *it = leveldb_create_iterator(l->db, l->scan_options);
    bool known = step(l, it, &from);
    struct slice key, value;
    uint32_t visited = 0;
    char *text = NULL;

    while (known && record_at(it, &key, &value)) {
        visited++;
        if (!visit(data, key, value)) {
            break;
        }
        known = step(l, it, NULL);
    }
    if (known) {
        leveldb_iter_get_error(it, &text);
    }
    leveldb_iter_destroy(it);
    table_env_forget_stand_ins(l->env);
    if (!known) {
        return kv_want_range(kv, from, visited);
    }
    return text == NULL ? 0 : status_from_text(text, err);
}

/* ---- Loading, on another thread ---- */

static void load_key(struct kv_leveldb *l, struct slice key)
{
    char *text = NULL;
    size_t count;

    leveldb_free(
        leveldb_get(l->db, l->read_options, (const char *)key.data, key.count, &count, &text));
    leveldb_free(text);
}

static void load_range(struct kv_leveldb *l, struct slice from, uint32_t records)
{
    leveldb_iterator_t *it = leveldb_create_iterator(l->db, l->scan_options);
    struct slice key, value;
    uint32_t count = 0;

    for (seek(it, from); count < records && record_at(it, &key, &value); leveldb_iter_next(it)) {
        count++;
    }
    leveldb_iter_destroy(it);
}

static void on_load(struct kv *kv, const struct kv_wanted *wanted)
{
    struct kv_leveldb *l = leveldb_of(kv);
    uint32_t records;
    size_t offset = 0;
    struct slice key;

    while (kv_wanted_next(wanted, &offset, &key, &records)) {
        if (records == 0) {
            load_key(l, key);
        } else {
            load_range(l, key, records);
        }
    }
}

/* ---- Syncing ---- */

static int on_sync(struct kv *kv, struct errmsg *err)
{
    struct kv_leveldb *l = leveldb_of(kv);
    int rv = journal_sync(&l->journal, err);

    if (rv == MORSEL_AGAIN) {
        rv = log_watch_sync(&l->logs, err);
        journal_restart(&l->journal, rv);
    }
    if (rv != 0) {
        return rv;
    }
    if (inventory_manifest_bytes(l->dir_fd) != l->manifest_bytes) {
        l->manifest_bytes = inventory_manifest_bytes(l->dir_fd);
        rv = inventory_write(l->dir_fd, l->dir, false, err);
    }
    return rv;
}

/* ---- The journal's replay ---- */

/* Number of the newest batch that the database holds; 0: none was numbered yet. */
static int read_number(struct kv_leveldb *l, uint64_t *number, struct errmsg *err)
{
    struct buf value;
    int rv;

    buf_init(&value);
    rv = on_get(&l->kv, (struct slice){ (const uint8_t *)NUMBER_KEY, sizeof(NUMBER_KEY) }, &value,
                err);
    *number = rv == 0 && value.count == 8 ? get_le64(value.data) : 0;
    if (rv == 0 && value.count != 8) {
        errmsg_set(err, "the number of the newest change in %s is damaged", l->dir);
        rv = MORSEL_CORRUPT;
    }
    buf_free(&value);
    return rv == MORSEL_NOENT ? MORSEL_OK : rv;
}

/* The bytes of a batch as kv_batch_next() walks them. */
static int write_bytes(struct kv_leveldb *l, struct slice bytes, uint64_t number,
                       struct errmsg *err)
{
    struct kv_batch batch;
    int rv;

    kv_batch_init(&batch);
    buf_put(&batch.bytes, bytes.data, bytes.count);
    rv = batch.bytes.failed ? MORSEL_NOMEM : write_numbered(l, &batch, number, false, err);
    kv_batch_free(&batch);
    return rv;
}

/* Those batches of an entry that the database does not hold. */
static int replay_entry(struct kv_leveldb *l, const struct journal_entry *entry, uint64_t *held,
                        struct errmsg *err)
{
    struct reader r;
    int rv = MORSEL_OK;

    if (entry->first > *held + 1) {
        errmsg_set(err,
                   "%s/" JOURNAL_NAME " begins at change %llu and the database ends at %llu: it is "
                   "damaged; restore it from a backup",
                   l->dir, (unsigned long long)entry->first, (unsigned long long)*held);
        return MORSEL_CORRUPT;
    }
    reader_init(&r, entry->batches.data, entry->batches.count);
    for (uint64_t number = entry->first; number <= entry->last && rv == 0; number++) {
        struct slice bytes = reader_blob(&r);

        if (r.failed || !kv_batch_is_sound(bytes)) {
            errmsg_set(err, "%s/" JOURNAL_NAME " is damaged; restore the database from a backup",
                       l->dir);
            rv = MORSEL_CORRUPT;
        } else if (number > *held && (rv = write_bytes(l, bytes, number, err)) == 0) {
            *held = number;
        }
    }
    return rv;
}

/* What the journal has and the database lost with the power. It is in the logs, durably, before the
 * journal is written over. */
static int replay(struct kv_leveldb *l, struct slice content, struct errmsg *err)
{
    struct journal_entry entry = { 0 };
    uint64_t before = 0, held = 0;
    size_t offset = 0;
    int rv = read_number(l, &held, err);

    before = held;
    while (rv == 0 && journal_entry_next(content, &offset, &entry)) {
        rv = replay_entry(l, &entry, &held, err);
    }
    if (rv == 0 && held != before) {
        rv = log_watch_sync(&l->logs, err);
    }
    journal_begin(&l->journal, held);
    return rv;
}

static int open_journal(struct kv_leveldb *l, struct errmsg *err)
{
    struct buf content;
    int rv;

    buf_init(&content);
    rv = journal_open(&l->journal, l->dir, l->dir_fd, &content, err);
    if (rv == 0) {
        rv = replay(l, buf_slice(&content), err);
    }
    buf_free(&content);
    return rv;
}

/* ---- Opening ---- */

static void on_close(struct kv *kv)
{
    struct kv_leveldb *l = leveldb_of(kv);

    if (l->db != NULL) {
        leveldb_close(l->db);
    }
    if (l->opened) {
        /* Without the list the next start only checks less. */
        (void)inventory_write(l->dir_fd, l->dir, true, NULL);
    }
    leveldb_writebatch_destroy(l->batch);
    leveldb_writeoptions_destroy(l->sync_options);
    leveldb_writeoptions_destroy(l->write_options);
    leveldb_readoptions_destroy(l->scan_options);
    leveldb_readoptions_destroy(l->read_options);
    leveldb_options_destroy(l->options);
    leveldb_filterpolicy_destroy(l->bloom);
    leveldb_cache_destroy(l->cache);
    table_env_close(l->env);
    if (l->dir_fd >= 0) {
        log_watch_close(&l->logs);
        if (l->journal.dir != NULL) {
            journal_close(&l->journal);
        }
        close(l->dir_fd);
    }
    free(l);
}

static struct kv_leveldb *leveldb_new(const char *dir, bool create)
{
    struct kv_leveldb *l = calloc(1, sizeof(*l));

    if (l == NULL || (l->env = table_env_open()) == NULL) {
        free(l);
        return NULL;
    }
    l->kv = (struct kv){ on_get,      on_commit,    on_scan,  on_sync, on_load,
                         on_has_room, on_make_room, on_close, NULL };
    l->dir_fd = -1;
    (void)snprintf(l->dir, sizeof(l->dir), "%s", dir);
    l->cache = leveldb_cache_create_lru(BLOCK_CACHE_BYTES);
    l->bloom = leveldb_filterpolicy_create_bloom(BLOOM_BITS_PER_KEY);
    l->options = leveldb_options_create();
    leveldb_options_set_env(l->options, l->env);
    leveldb_options_set_create_if_missing(l->options, create);
    leveldb_options_set_paranoid_checks(l->options, 1);
    leveldb_options_set_write_buffer_size(l->options, WRITE_BUFFER_BYTES);
    leveldb_options_set_cache(l->options, l->cache);
    leveldb_options_set_max_file_size(l->options, TABLE_BYTES);
    leveldb_options_set_max_open_files(l->options, OPEN_FILES_MAX);
    leveldb_options_set_filter_policy(l->options, l->bloom);
    leveldb_options_set_compression(l->options, leveldb_snappy_compression);
    l->read_options = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(l->read_options, 1);
    l->scan_options = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(l->scan_options, 1);
    l->write_options = leveldb_writeoptions_create();
    l->sync_options = leveldb_writeoptions_create();
    leveldb_writeoptions_set_sync(l->sync_options, 1);
    l->batch = leveldb_writebatch_create();
    return l;
}

static bool table_is_whole(const struct kv_leveldb *l, const char *name, unsigned long long bytes)
{
    struct stat st;

    return fstatat(l->dir_fd, name, &st, 0) == 0 && (unsigned long long)st.st_size == bytes;
}

/* Is it still named? LevelDB compacts from its opening on, and deletes what it does not name any more. */
static bool table_is_live(struct kv_leveldb *l, unsigned long long number, unsigned long long bytes)
{
    char *tables = leveldb_property_value(l->db, "leveldb.sstables");
    char line[64];
    bool live;

    (void)snprintf(line, sizeof(line), "\n %llu:%llu[", number, bytes);
    live = tables != NULL && strstr(tables, line) != NULL;
    leveldb_free(tables);
    return live;
}

/* What LevelDB finds out only when a table is read, and by then clients would depend on it: a table
 * that is not as long as it should be. Lines of the property read " NUMBER:BYTES['first key' ..
 * 'last key']", behind a title for each level. */
static int check_tables(struct kv_leveldb *l, struct errmsg *err)
{
    char *tables = leveldb_property_value(l->db, "leveldb.sstables");
    char *rest = NULL;
    int rv = 0;

    for (char *line = tables == NULL ? NULL : strtok_r(tables, "\n", &rest);
         line != NULL && rv == 0; line = strtok_r(NULL, "\n", &rest)) {
        unsigned long long number, bytes;
        char name[32];

        if (sscanf(line, " %llu:%llu[", &number, &bytes) != 2) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%06llu.ldb", number);
        if (!table_is_whole(l, name, bytes) && table_is_live(l, number, bytes)) {
            errmsg_set(err, "table %s/%s is missing or not %llu bytes long", l->dir, name, bytes);
            rv = MORSEL_CORRUPT;
        }
    }
    leveldb_free(tables);
    return rv;
}

/* What can be checked before LevelDB touches the directory. */
static int check_directory(struct kv_leveldb *l, bool create, struct errmsg *err)
{
    int rv;

    l->dir_fd = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->dir_fd < 0 && errno == ENOENT && create && mkdir(l->dir, 0700) == 0) {
        l->dir_fd = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (l->dir_fd < 0) {
        rv = status_from_errno(errno);
        errmsg_set(err, "cannot open the database directory %s: %s", l->dir, strerror(errno));
        return rv;
    }
    log_watch_open(&l->logs, l->dir, l->dir_fd);
    if (!create && faccessat(l->dir_fd, "CURRENT", R_OK, 0) != 0) {
        errmsg_set(err, "%s/CURRENT: %s; the database is damaged, restore it from a backup", l->dir,
                   strerror(errno));
        return MORSEL_CORRUPT;
    }
    if ((rv = inventory_check(l->dir_fd, l->dir, err)) != 0) {
        return rv;
    }
    return inventory_remove(l->dir_fd, l->dir, err);
}

int kv_leveldb_open(const char *dir, bool create, struct kv **kv_out, struct errmsg *err)
{
    struct kv_leveldb *l = leveldb_new(dir, create);
    char *text = NULL;
    int rv;

    *kv_out = NULL;
    if (l == NULL) {
        return MORSEL_NOMEM;
    }
    if ((rv = check_directory(l, create, err)) != 0) {
        goto out;
    }
    l->db = leveldb_open(l->options, dir, &text);
    if (l->db == NULL || text != NULL) {
        rv = status_from_text(text, err);
        errmsg_wrap(err, "cannot open the database in %s", dir);
        goto out;
    }
    if ((rv = check_tables(l, err)) != 0 || (rv = open_journal(l, err)) != 0) {
        goto out;
    }
    l->tables = count_tables(l);
    l->tables_flushes = table_env_flushes(l->env);
    l->opened = true;
    *kv_out = &l->kv;
    return 0;
out:
    on_close(&l->kv);
    return rv;
}
