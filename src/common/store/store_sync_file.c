/* The one place that waits for the disk, and what a failure there means. */
#include "common/base/status.h"
#include "common/store/store_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEFT_SUBDIRS_MAX = 8 }; /* Of more, the whole tree is synced. */

/* After a failed sync the kernel counts what it could not write as written: a later sync says that
 * all is well, and a read may find the old bytes or the new ones (Rebello et al., "Can applications
 * recover from fsync failures?", ATC 2020). So the first failure is the last word of this run: the
 * verifier changes, no checkpoint is completed any more, and what was not on disk before is judged
 * at the next start as after a crash. */
void store_note_failure(struct store *store, const char *words)
{
    struct errmsg err = { "" };
    bool first;

    pthread_mutex_lock(&store->failure_lock);
    first = store->failure.text[0] == 0;
    if (first) {
        errmsg_set(&store->failure, "%s", words);
    }
    pthread_mutex_unlock(&store->failure_lock);
    if (first) {
        store_log(store,
                  "the disk failed: %s: nothing that was not on disk before counts as safe; check "
                  "the disk, then restart this daemon",
                  words);
    }
    if (checkpoints_fail(&store->checkpoints, false, &err) != 0) {
        store_log(store, "note that the disk failed: %s: refusing to sync, trying again", err.text);
    }
}

int store_failure_save(struct store *store, struct errmsg *err)
{
    if (!atomic_load(&store->checkpoints.failure_unsaved)) {
        return 0;
    }
    if (checkpoints_fail(&store->checkpoints, true, err) != 0) {
        errmsg_wrap(err, "the disk failed before, and that cannot be noted");
        return MORSEL_IO;
    }
    return 0;
}

uint64_t store_verifier(const struct store *store)
{
    return atomic_load(&store->checkpoints.verifier);
}

uint64_t store_loss(const struct store *store)
{
    return store->checkpoints.record.boot_id + store->checkpoints.record.failures;
}

bool store_disk_failed(struct store *store, struct errmsg *words)
{
    if (!atomic_load(&store->checkpoints.failed)) {
        return false;
    }
    pthread_mutex_lock(&store->failure_lock);
    *words = store->failure;
    pthread_mutex_unlock(&store->failure_lock);
    return true;
}

static int flush_call(int fd, enum flush_what how)
{
    int rv;

    do {
        rv = how == FLUSH_DATA ? fdatasync(fd) : how == FLUSH_FILE ? fsync(fd) : syncfs(fd);
    } while (rv != 0 && errno == EINTR);
    return rv;
}

int store_flush(struct store *store, int fd, enum flush_what how, const char *what,
                struct errmsg *err)
{
    struct errmsg words = { "" };
    uint64_t number = how == FLUSH_TREE ? atomic_fetch_add(&store->tree_begun, 1) + 1 : 0;
    int rv;

    if (flush_call(fd, how) == 0) {
        uint64_t done = atomic_load(&store->tree_done);

        while (done < number && !atomic_compare_exchange_weak(&store->tree_done, &done, number)) {
        }
        return 0;
    }
    rv = status_from_errno(errno);
    errmsg_set(&words, "sync %s: %s", what, strerror(errno));
    store_note_failure(store, words.text);
    errmsg_set(err, "%s", words.text);
    return rv;
}

int store_complete_checkpoint(struct store *store, struct errmsg *err)
{
    struct errmsg words = { "" };
    int rv = checkpoints_complete(&store->checkpoints, atomic_load(&store->objects), &words);

    if (rv == MORSEL_IO) {
        store_note_failure(store, words.text);
    }
    if (rv != 0) {
        errmsg_set(err, "%s", words.text);
    }
    return rv;
}

static int refuse(const struct object *object, struct errmsg *err)
{
    errmsg_set(err,
               "object %" PRIu64 ".%u: the disk has failed a sync and may have lost changes: check "
               "it, then restart this daemon",
               object->id.inode, object->id.column);
    return MORSEL_IO;
}

/* With sync_lock. One whose changes nobody watched until now, because it was not open when the
 * kernel may have failed to write them and forgotten the file, takes the flush that cannot have
 * missed it. */
static int object_flush_locked(struct store *store, struct object *object, const char *what,
                               struct errmsg *err)
{
    char words[128];
    bool watched = store->options.shared_disk || /* object_look_again() */
                   object->tree_needed <= atomic_load(&store->tree_done);
    int rv;

    if (atomic_load(&object->sync_failed)) {
        return refuse(object, err);
    }
    (void)snprintf(words, sizeof(words), "object %" PRIu64 ".%u, %s", object->id.inode,
                   object->id.column, what);
    rv = store_flush(store, watched ? object->fd : store->objects_fd,
                     watched ? FLUSH_DATA : FLUSH_TREE, words, err);
    if (rv != 0) {
        atomic_store(&object->sync_failed, true);
        return rv;
    }
    if (!watched) {
        atomic_store(&object->name_synced, true);
    }
    return 0;
}

int object_flush(struct store *store, struct object *object, const char *what, struct errmsg *err)
{
    int rv;

    pthread_mutex_lock(&object->sync_lock);
    rv = object_flush_locked(store, object, what, err);
    pthread_mutex_unlock(&object->sync_lock);
    return rv;
}

static unsigned subdir_of(struct object_id id)
{
    char name[STORE_NAME_BYTES];

    store_name(id, name);
    name[3] = 0;
    return (unsigned)strtoul(name, NULL, 16);
}

/* Negative: errno is set. */
static int subdir_open(const struct store *store, unsigned number)
{
    char name[8];

    (void)snprintf(name, sizeof(name), "%03x", number);
    return openat(store->objects_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The names of a new object and of its subdirectory. */
static int store_sync_name(struct store *store, struct object *object, struct errmsg *err)
{
    unsigned number = subdir_of(object->id);
    int fd = subdir_open(store, number);
    int rv;

    if (fd < 0) {
        return errno == ENOENT ? 0 : object_failed(object, "open its directory", err);
    }
    rv = store_flush(store, fd, FLUSH_FILE, "a directory of objects", err);
    close(fd);
    if (rv == 0 && !atomic_load(&store->subdir_synced[number])) {
        rv = store_flush(store, store->objects_fd, FLUSH_FILE, "the objects directory", err);
        atomic_store(&store->subdir_synced[number], rv == 0);
    }
    if (rv != 0) {
        atomic_store(&object->sync_failed, true);
    }
    return rv;
}

/* With sync_lock. */
static int object_sync(struct store *store, struct object *object, uint64_t changes,
                       struct errmsg *err)
{
    uint64_t covered;
    int rv = 0;

    if (atomic_load(&object->sync_failed)) {
        return refuse(object, err);
    }
    if (atomic_load(&object->synced) >= changes && atomic_load(&object->name_synced)) {
        return 0; /* By one that we waited for. */
    }
    covered = atomic_load(&object->sync_wanted);
    if (atomic_load(&object->synced) < changes) {
        rv = object_flush_locked(store, object, "its bytes", err);
    }
    if (rv == 0 && !atomic_load(&object->name_synced)) {
        rv = store_sync_name(store, object, err);
        atomic_store(&object->name_synced, rv == 0);
    }
    if (rv == 0) {
        rv = store_failure_save(store, err);
    }
    if (rv == 0) {
        atomic_store(&object->synced, covered);
    }
    return rv;
}

/* Locked in any way. Nothing of it needs a sync. */
static bool object_is_clean(const struct store *store, struct object *object)
{
    if (!object->exists) {
        return true;
    }
    if (store->options.shared_disk && object->tree_needed != 0) {
        return false; /* object_look_again() */
    }
    return !atomic_load(&object->sync_failed) &&
           (object_is_covered(store, object) ||
            (atomic_load(&object->synced) == atomic_load(&object->changes) &&
             atomic_load(&object->name_synced)));
}

/* On a shared disk, of an object whose changes nobody watched for a while (object_flush_locked()): it was synced now, but the
 * kernel may have failed to write a part of it before, and have forgotten that with the file. So the disk is asked. */
static int object_look_again(struct store *store, struct object *object, struct errmsg *err)
{
    uint64_t bad = 0;
    int rv;

    pthread_rwlock_wrlock(&object->lock);
    object->serial = atomic_fetch_add(&store->serial, 1) + 1; /* Forget the checksums in memory. */
    if (object->exists) {
        (void)posix_fadvise(object->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
    pthread_rwlock_unlock(&object->lock);
    rv = store_verify(store, object->id, &bad, err);
    if (rv == 0 && bad > 0) {
        errmsg_set(err, "object %" PRIu64 ".%u: the disk has lost a part of it", object->id.inode,
                   object->id.column);
        rv = MORSEL_IO;
    }
    if (rv != 0) {
        atomic_store(&object->sync_failed, true);
        return rv;
    }
    pthread_rwlock_wrlock(&object->lock);
    object->tree_needed = 0;
    pthread_rwlock_unlock(&object->lock);
    return 0;
}

int store_sync(struct store *store, struct object_id id, struct errmsg *err)
{
    struct object *object;
    uint64_t changes;
    bool clean, unwatched;
    int rv = object_lock(store, id, OBJECT_SHARED, &object, err);

    if (rv != 0) {
        return rv;
    }
    if (store->options.shared_disk && !object->exists) {
        object_unlock(store, object);
        errmsg_set(err, "object %" PRIu64 ".%u is not here", id.inode, id.column);
        return MORSEL_NOENT;
    }
    clean = object_is_clean(store, object);
    unwatched = !clean && store->options.shared_disk && object->tree_needed != 0;
    changes = atomic_load(&object->changes);
    if (!clean) {
        uint64_t wanted = atomic_load(&object->sync_wanted);

        while (wanted < changes &&
               !atomic_compare_exchange_weak(&object->sync_wanted, &wanted, changes)) {
        }
    }
    /* The disk may take long: without the lock, so that others can go on. */
    pthread_rwlock_unlock(&object->lock);
    if (!clean) {
        pthread_mutex_lock(&object->sync_lock);
        rv = object_sync(store, object, changes, err);
        pthread_mutex_unlock(&object->sync_lock);
    }
    if (rv == 0 && unwatched) {
        rv = object_look_again(store, object, err);
    }
    object_release(store, object);
    return rv;
}

/* ---- Deletions ---- */

void store_note_left(struct store *store, struct object_id id)
{
    atomic_store(&store->subdir_left[subdir_of(id)], true);
}

/* Taken before the disk is asked: what leaves meanwhile is for the next one. */
static unsigned take_left(struct store *store, unsigned subdirs[LEFT_SUBDIRS_MAX])
{
    unsigned count = atomic_exchange(&store->left_before, false) ? LEFT_SUBDIRS_MAX + 1 : 0;

    for (unsigned i = 0; i < STORE_SUBDIRS; i++) {
        if (!atomic_exchange(&store->subdir_left[i], false)) {
            continue;
        }
        if (count < LEFT_SUBDIRS_MAX) {
            subdirs[count] = i;
        }
        count++;
    }
    return count;
}

static int sync_left(struct store *store, unsigned number, struct errmsg *err)
{
    int fd = subdir_open(store, number);
    int rv;

    if (fd < 0) {
        rv = status_from_errno(errno);
        errmsg_set(err, "open directory %03x of the objects: %s", number, strerror(errno));
        return rv;
    }
    rv = store_flush(store, fd, FLUSH_FILE, "a directory of objects", err);
    close(fd);
    return rv;
}

int store_sync_deletions(struct store *store, struct errmsg *err)
{
    unsigned subdirs[LEFT_SUBDIRS_MAX];
    unsigned count = take_left(store, subdirs);
    int rv = 0;

    if (count > LEFT_SUBDIRS_MAX) {
        rv = store_flush(store, store->objects_fd, FLUSH_TREE, "the objects", err);
    }
    for (unsigned i = 0; rv == 0 && count <= LEFT_SUBDIRS_MAX && i < count; i++) {
        rv = sync_left(store, subdirs[i], err);
    }
    if (rv != 0) {
        atomic_store(&store->left_before, true); /* Which ones does not matter any more. */
    }
    return rv;
}
