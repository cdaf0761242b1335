/* Life of the store, and what concerns an object as a whole. */
#include "common/store/store_file.h"

#include "common/base/crc32c.h"
#include "common/base/prng.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { ROOM_SEEN_MS_MAX = 1000 };

void store_log(const struct store *store, const char *format, ...)
{
    char line[512];
    va_list args;

    if (store->options.log == NULL) {
        return;
    }
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    store->options.log(store->options.log_data, line);
}

uint64_t store_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* `*fresh_out`: there was no objects directory, or it was empty. */
static int store_open_dirs(struct store *store, const char *dir, bool *fresh_out,
                           struct errmsg *err)
{
    uint64_t objects = 0;
    int rv;

    *fresh_out = false;
    store->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->dir_fd < 0) {
        rv = status_from_errno(errno);
        errmsg_set(err, "open directory %s: %s", dir, strerror(errno));
        return rv;
    }
    *fresh_out = mkdirat(store->dir_fd, "objects", 0700) == 0;
    if (!*fresh_out && errno != EEXIST) {
        rv = status_from_errno(errno);
        errmsg_set(err, "make directory %s/objects: %s", dir, strerror(errno));
        return rv;
    }
    store->objects_fd = openat(store->dir_fd, "objects", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->objects_fd >= 0) {
        rv = store_subdirs(store, err);
        if (rv != 0) {
            return rv;
        }
    }
    if (store->objects_fd < 0 || fsync(store->dir_fd) != 0 || fsync(store->objects_fd) != 0) {
        rv = status_from_errno(errno);
        errmsg_set(err, "open directory %s/objects: %s", dir, strerror(errno));
        return rv;
    }
    if (!*fresh_out && faccessat(store->dir_fd, "epochs", F_OK, 0) != 0) {
        rv = store_count(store, &objects, err);
        *fresh_out = objects == 0;
        return rv;
    }
    return 0;
}

static void store_free(struct store *store)
{
    table_free(store);
    checksums_free(store);
    watches_free(&store->watches);
    if (store->objects_fd >= 0) {
        close(store->objects_fd);
    }
    if (store->dir_fd >= 0) {
        close(store->dir_fd);
    }
    pthread_mutex_destroy(&store->table_lock);
    pthread_mutex_destroy(&store->checkpoint_lock);
    pthread_mutex_destroy(&store->failure_lock);
    pthread_mutex_destroy(&store->watches_lock);
    pthread_cond_destroy(&store->table_room);
    free(store);
}

static struct store *store_new(const struct store_options *options)
{
    struct store *store = calloc(1, sizeof(*store));

    if (store == NULL) {
        return NULL;
    }
    store->options = *options;
    store->dir_fd = -1;
    store->objects_fd = -1;
    pthread_mutex_init(&store->table_lock, NULL);
    pthread_mutex_init(&store->checkpoint_lock, NULL);
    pthread_mutex_init(&store->failure_lock, NULL);
    pthread_mutex_init(&store->watches_lock, NULL);
    pthread_cond_init(&store->table_room, NULL);
    store->checkpoint_began_ms = store_now_ms();
    atomic_init(&store->limit, UINT64_MAX);
    return store;
}

static void room_seen(struct store *store, const struct statvfs *vfs)
{
    atomic_store(&store->room_bytes, (int64_t)((uint64_t)vfs->f_bavail * vfs->f_frsize));
}

/* How much space is there now? Without an answer it stays as it was seen last. */
static void room_look(struct store *store)
{
    struct statvfs vfs;

    atomic_store(&store->room_seen_ms, store_now_ms());
    if (fstatvfs(store->objects_fd, &vfs) == 0) {
        room_seen(store, &vfs);
    }
}

uint64_t store_room_left(const struct store *store)
{
    int64_t left = atomic_load(&store->room_bytes) - (int64_t)store->options.reserve_bytes;

    return left > 0 ? (uint64_t)left : 0;
}

int store_open(const char *dir, const struct store_options *options, struct store **store_out,
               struct errmsg *err)
{
    struct store *store;
    bool fresh;
    int rv;

    CHECK(options->open_files_max >= 16 && options->open_files_max <= 16384);
    *store_out = NULL;
    store = store_new(options);
    if (store == NULL) {
        return MORSEL_NOMEM;
    }
    rv = table_init(store);
    if (rv == 0) {
        rv = checksums_init(store);
    }
    if (rv == 0) {
        rv = store_open_dirs(store, dir, &fresh, err);
    }
    if (rv == 0) {
        rv = checkpoints_open(&store->checkpoints, store->dir_fd, options->boot_id, fresh,
                              (uint64_t)time(NULL), err);
    }
    if (rv != 0) {
        errmsg_wrap(err, "object store in %s", dir);
        store_free(store);
        return rv;
    }
    room_look(store);
    atomic_store(&store->objects, store->checkpoints.record.objects);
    atomic_store(&store->left_before, !fresh);
    store->counted = fresh || store->checkpoints.record.ranges_count == 0;
    *store_out = store;
    return 0;
}

void store_close(struct store *store)
{
    struct errmsg err = { "" };
    bool clean;

    if (store == NULL) {
        return;
    }
    clean = store_failure_save(store, &err) == 0 && !store->options.shared_disk &&
            store_flush(store, store->objects_fd, FLUSH_TREE,
                        "the file system of the object store at its end", &err) == 0;
    if (checkpoints_close(&store->checkpoints, clean, atomic_load(&store->objects), &err) != 0) {
        store_log(store, "close the object store: %s", err.text);
    }
    store_free(store);
}

static bool room_take(struct store *store, uint64_t bytes, bool reserve_too)
{
    int64_t reserve = reserve_too ? 0 : (int64_t)store->options.reserve_bytes;
    int64_t left = atomic_fetch_sub(&store->room_bytes, (int64_t)bytes) - (int64_t)bytes;

    if (left >= reserve) {
        return true;
    }
    atomic_fetch_add(&store->room_bytes, (int64_t)bytes);
    return false;
}

/* Nobody is refused by a number that is not of his own look: what was seen before may be from before
 * something was deleted, or another thread may be looking just now. */
int store_room(struct store *store, uint64_t bytes, bool reserve_too, struct errmsg *err)
{
    if (store_now_ms() - atomic_load(&store->room_seen_ms) > ROOM_SEEN_MS_MAX) {
        room_look(store);
    }
    if (room_take(store, bytes, reserve_too)) {
        return 0;
    }
    room_look(store);
    if (room_take(store, bytes, reserve_too)) {
        return 0;
    }
    errmsg_set(err, reserve_too ? "the disk of the object store is full"
                                : "the disk of the object store is full up to its reserve");
    return MORSEL_NOSPC;
}

/* One whose header cannot be read: there is nothing to lock. */
static int store_delete_damaged(struct store *store, struct object_id id, struct errmsg *err)
{
    char name[STORE_NAME_BYTES];
    struct stat st;
    bool known;

    store_name(id, name);
    object_unwatch(store, id);
    known = fstatat(store->objects_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (unlinkat(store->objects_fd, name, 0) == 0) {
        atomic_fetch_sub(&store->used, known ? (int64_t)store_file_bytes((uint64_t)st.st_size) : 0);
    } else if (errno != ENOENT) {
        int rv = status_from_errno(errno);

        errmsg_set(err, "delete %s: %s", name, strerror(errno));
        return rv;
    }
    store_note_left(store, id);
    return 0;
}

int store_delete(struct store *store, struct object_id id, struct errmsg *err)
{
    struct object *object;
    int rv = object_lock(store, id, OBJECT_EXCLUSIVE, &object, err);

    if (rv == MORSEL_CORRUPT || rv == MORSEL_VERSION) {
        return store_delete_damaged(store, id, err);
    }
    if (rv == 0) {
        if (object->exists) {
            rv = object_remove(store, object, err);
        }
        object_unlock(store, object);
    }
    return rv;
}

/* Without the pages of checksums: right for an object without holes, a little too much for one with
 * holes. */
static uint64_t data_blocks(uint64_t file_blocks)
{
    const uint64_t page = CHECKSUMS_PAGE_BYTES / 512;
    uint64_t pages = (file_blocks * 512 + GROUP_SPAN - 1) / GROUP_SPAN;

    return file_blocks > pages * page ? file_blocks - pages * page : 0;
}

int store_stat(struct store *store, struct object_id id, struct store_stat *stat,
               struct errmsg *err)
{
    struct object *object;
    struct stat st;
    int rv = object_lock(store, id, OBJECT_SHARED, &object, err);

    memset(stat, 0, sizeof(*stat));
    if (rv != 0) {
        return rv;
    }
    if (object->exists && fstat(object->fd, &st) != 0) {
        rv = object_failed(object, "fstat", err);
    } else if (object->exists) {
        stat->exists = true;
        stat->size = object->size;
        stat->blocks = data_blocks((uint64_t)st.st_blocks);
    }
    object_unlock(store, object);
    return rv;
}

bool store_write_failed(const struct store *store)
{
    return atomic_load(&store->write_failed);
}

int store_try_writing(struct store *store, struct errmsg *err)
{
    static const char name[] = "trial";
    int fd = openat(store->dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int rv = fd >= 0 && write(fd, name, sizeof(name)) == (ssize_t)sizeof(name)
                 ? 0
                 : status_from_errno(errno);

    if (fd >= 0) {
        close(fd);
        (void)unlinkat(store->dir_fd, name, 0);
    }
    if (rv != 0 && rv != MORSEL_NOSPC) {
        errmsg_set(err, "it cannot be written to: %s", status_words(rv));
        return rv;
    }
    atomic_store(&store->write_failed, false);
    return 0;
}

int store_space(struct store *store, struct store_space *space, struct errmsg *err)
{
    struct statvfs vfs;
    struct prng prng;
    struct stat st;
    uint64_t room;

    memset(space, 0, sizeof(*space));
    if (fstatvfs(store->objects_fd, &vfs) != 0 || fstat(store->objects_fd, &st) != 0) {
        int rv = status_from_errno(errno);

        errmsg_set(err, "object store: statvfs: %s", strerror(errno));
        return rv;
    }
    room_seen(store, &vfs);
    room = (uint64_t)vfs.f_bavail * vfs.f_frsize;
    space->bytes_total = (uint64_t)vfs.f_blocks * vfs.f_frsize;
    space->bytes_free =
        room > store->options.reserve_bytes ? room - store->options.reserve_bytes : 0;
    space->objects = atomic_load(&store->objects);
    prng_seed(&prng, store->options.boot_id ^ (uint64_t)st.st_dev * 0x9e3779b97f4a7c15U);
    space->device = prng_next(&prng) | 1;
    return 0;
}

/* With checkpoint_lock. */
static int store_advance(struct store *store, struct errmsg *err)
{
    int rv;

    checkpoints_advance(&store->checkpoints);
    store->checkpoint_began_ms = store_now_ms();
    rv = store_flush(store, store->objects_fd, FLUSH_TREE, "the file system of the object store",
                     err);
    return rv != 0 ? rv : store_complete_checkpoint(store, err);
}

int store_checkpoint(struct store *store, uint64_t idle_ms, struct errmsg *err)
{
    uint64_t objects;
    int rv = 0;

    if (pthread_mutex_trylock(&store->checkpoint_lock) != 0) {
        return 0; /* Somebody is at it. */
    }
    if (!store->counted && store_count(store, &objects, NULL) == 0) {
        atomic_store(&store->objects, objects);
        store->counted = true;
    }
    rv = store_failure_save(store, err);
    if (rv == 0) {
        rv = store_recover(store, err);
    }
    if (rv == 0 && !atomic_load(&store->checkpoints.failed) &&
        store_now_ms() - store->checkpoint_began_ms >= idle_ms &&
        checkpoints_pending(&store->checkpoints)) {
        rv = store_advance(store, err);
    }
    pthread_mutex_unlock(&store->checkpoint_lock);
    return rv;
}
