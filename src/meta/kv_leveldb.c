#include "meta/kv_leveldb.h"

#include "common/check.h"
#include "common/status.h"
#include "meta/inventory_file.h"
#include "meta/log_watch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WRITE_BUFFER_BYTES = 16 << 20,
    BLOCK_CACHE_BYTES = 64 << 20,
    TABLE_BYTES = 16 << 20,
    OPEN_FILES_MAX = 2000, /* 32 GiB, some 150 million files, before look-ups open tables anew. Each
                              open one keeps its index and filter in memory, about 1/50 of it. */
    BLOOM_BITS_PER_KEY = 10
};

struct kv_leveldb
{
    struct kv kv;
    leveldb_t *db;
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
    bool opened;             /* Nothing is wrong so far: closing leaves a full inventory. */
    uint64_t manifest_bytes; /* As listed in the inventory. */
    char dir[1024];
};

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
    char *text = NULL;
    size_t count = 0;
    char *bytes =
        leveldb_get(l->db, l->read_options, (const char *)key.data, key.count, &count, &text);

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

static int on_commit(struct kv *kv, const struct kv_batch *batch, bool sync, struct errmsg *err)
{
    struct kv_leveldb *l = leveldb_of(kv);
    struct kv_change change;
    size_t offset = 0;
    char *text = NULL;

    leveldb_writebatch_clear(l->batch);
    while (kv_batch_next(batch, &offset, &change)) {
        const char *key = (const char *)change.key.data;

        if (change.put) {
            leveldb_writebatch_put(l->batch, key, change.key.count, (const char *)change.value.data,
                                   change.value.count);
        } else {
            leveldb_writebatch_delete(l->batch, key, change.key.count);
        }
    }
    leveldb_write(l->db, sync ? l->sync_options : l->write_options, l->batch, &text);
    return text == NULL ? 0 : status_from_text(text, err);
}

static int on_scan(struct kv *kv, struct slice from, kv_visit visit, void *data, struct errmsg *err)
{
    struct kv_leveldb *l = leveldb_of(kv);
    leveldb_iterator_t *it = leveldb_create_iterator(l->db, l->scan_options);
    char *text = NULL;

    leveldb_iter_seek(it, from.count == 0 ? "" : (const char *)from.data, from.count);
    while (leveldb_iter_valid(it)) {
        struct slice key, value;

        key.data = (const uint8_t *)leveldb_iter_key(it, &key.count);
        value.data = (const uint8_t *)leveldb_iter_value(it, &value.count);
        if (!visit(data, key, value)) {
            break;
        }
        leveldb_iter_next(it);
    }
    leveldb_iter_get_error(it, &text);
    leveldb_iter_destroy(it);
    return text == NULL ? 0 : status_from_text(text, err);
}

/* ---- Syncing ------------------------------------------------------------------------------ */

static int on_sync(struct kv *kv, struct errmsg *err)
{
    struct kv_leveldb *l = leveldb_of(kv);
    int rv = log_watch_sync(&l->logs, err);

    if (rv != 0) {
        return rv;
    }
    if (inventory_manifest_bytes(l->dir_fd) != l->manifest_bytes) {
        l->manifest_bytes = inventory_manifest_bytes(l->dir_fd);
        rv = inventory_write(l->dir_fd, l->dir, false, err);
    }
    return rv;
}

/* ---- Opening ------------------------------------------------------------------------------ */

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
    if (l->dir_fd >= 0) {
        log_watch_close(&l->logs);
        close(l->dir_fd);
    }
    free(l);
}

static struct kv_leveldb *leveldb_new(const char *dir, bool create)
{
    struct kv_leveldb *l = calloc(1, sizeof(*l));

    if (l == NULL) {
        return NULL;
    }
    l->kv = (struct kv){ on_get, on_commit, on_scan, on_sync, on_close };
    l->dir_fd = -1;
    (void)snprintf(l->dir, sizeof(l->dir), "%s", dir);
    l->cache = leveldb_cache_create_lru(BLOCK_CACHE_BYTES);
    l->bloom = leveldb_filterpolicy_create_bloom(BLOOM_BITS_PER_KEY);
    l->options = leveldb_options_create();
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

/* What LevelDB finds out only when a table is read, and by then clients would depend on it: a table
 * that is not as long as it should be. Lines of the property read " NUMBER:BYTES['first key' ..
 * 'last key']". */
static int check_tables(struct kv_leveldb *l, struct errmsg *err)
{
    char *tables = leveldb_property_value(l->db, "leveldb.sstables");
    char *rest = NULL;
    int rv = 0;

    for (char *line = tables == NULL ? NULL : strtok_r(tables, "\n", &rest);
         line != NULL && rv == 0; line = strtok_r(NULL, "\n", &rest)) {
        unsigned long long number, bytes;
        char name[32];
        struct stat st;

        if (sscanf(line, " %llu:%llu[", &number, &bytes) != 2) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%06llu.ldb", number);
        if (fstatat(l->dir_fd, name, &st, 0) != 0 || (unsigned long long)st.st_size != bytes) {
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
    if ((rv = check_tables(l, err)) != 0) {
        goto out;
    }
    l->opened = true;
    *kv_out = &l->kv;
    return 0;
out:
    on_close(&l->kv);
    return rv;
}
