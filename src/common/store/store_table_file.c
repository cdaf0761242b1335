/* Finds, opens, locks, stamps and closes objects; the least recently used one makes room. */
#include "common/store/store_file.h"

#include "common/base/status.h"
#include "common/fs/placing.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool object_has_copies(const struct store *store, const struct object *object)
{
    return !store->options.shared_disk && placing_group(object->id.column) != 0;
}

int object_failed(const struct object *object, const char *what, struct errmsg *err)
{
    int code = errno;

    errmsg_set(err, "object %" PRIu64 ".%u: %s: %s", object->id.inode, object->id.column, what,
               strerror(code));
    return status_from_errno(code);
}

int object_unread(const struct object *object, struct errmsg *err)
{
    bool damage = errno == EIO;
    int rv = object_failed(object, "read", err);

    return damage ? MORSEL_CHECKSUM : rv;
}

int table_init(struct store *store)
{
    uint32_t buckets = 64;

    while (buckets < store->options.open_files_max) {
        buckets *= 2;
    }
    store->buckets = calloc(buckets, sizeof(struct object *));
    store->buckets_mask = buckets - 1;
    list_init(&store->idle);
    list_init(&store->unverified);
    return store->buckets == NULL ? MORSEL_NOMEM : 0;
}

static struct object *object_new(struct object_id id)
{
    struct object *object = calloc(1, sizeof(*object));
    pthread_rwlockattr_t fair;

    if (object == NULL) {
        return NULL;
    }
    object->id = id;
    object->fd = -1;
    list_init(&object->idle);
    list_init(&object->unverified);
    pthread_rwlockattr_init(&fair);
    pthread_rwlockattr_setkind_np(&fair, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&object->lock, &fair);
    pthread_rwlockattr_destroy(&fair);
    pthread_mutex_init(&object->sync_lock, NULL);
    return object;
}

static void object_free(struct object *object)
{
    if (object->fd >= 0) {
        close(object->fd);
    }
    pthread_mutex_destroy(&object->sync_lock);
    pthread_rwlock_destroy(&object->lock);
    free(object);
}

void table_free(struct store *store)
{
    if (store->buckets == NULL) {
        return;
    }
    for (uint32_t i = 0; i <= store->buckets_mask; i++) {
        while (store->buckets[i] != NULL) {
            struct object *object = store->buckets[i];

            CHECK(object->references == 0);
            store->buckets[i] = object->chain;
            object_free(object);
        }
    }
    free(store->buckets);
    store->buckets = NULL;
}

static struct object **bucket_of(struct store *store, struct object_id id)
{
    return &store->buckets[store_hash(id) & store->buckets_mask];
}

/* With table_lock. */
static struct object *table_find(struct store *store, struct object_id id)
{
    struct object *object = *bucket_of(store, id);

    while (object != NULL && (object->id.inode != id.inode || object->id.column != id.column)) {
        object = object->chain;
    }
    return object;
}

/* With table_lock. The object is the caller's afterwards. */
static void table_take_out(struct store *store, struct object *object)
{
    struct object **at = bucket_of(store, object->id);

    while (*at != object) {
        at = &(*at)->chain;
    }
    *at = object->chain;
    list_remove(&object->idle);
    list_remove(&object->unverified);
    store->open_count--;
}

static void table_refer(struct object *object)
{
    object->references++;
    list_remove(&object->idle);
}

/* With table_lock: find or add, with a reference. What had to leave for it is returned through
 * `evicted`. */
static struct object *table_add(struct store *store, struct object_id id, struct object **evicted)
{
    struct object *object;

    while ((object = table_find(store, id)) == NULL &&
           store->open_count >= store->options.open_files_max && list_empty(&store->idle)) {
        pthread_cond_wait(&store->table_room, &store->table_lock);
    }
    if (object != NULL) {
        table_refer(object);
        return object;
    }
    object = object_new(id);
    if (object == NULL) {
        return NULL;
    }
    if (store->open_count >= store->options.open_files_max) {
        *evicted = LIST_ENTRY(list_front(&store->idle), struct object, idle);
        table_take_out(store, *evicted);
    }
    object->chain = *bucket_of(store, id);
    *bucket_of(store, id) = object;
    object->references = 1;
    store->open_count++;
    return object;
}

static struct object *table_get(struct store *store, struct object_id id)
{
    struct object *evicted = NULL;
    struct object *object;

    pthread_mutex_lock(&store->table_lock);
    object = table_add(store, id, &evicted);
    pthread_mutex_unlock(&store->table_lock);
    if (evicted != NULL) {
        object_free(evicted);
    }
    return object;
}

void object_release(struct store *store, struct object *object)
{
    bool last;

    pthread_mutex_lock(&store->table_lock);
    CHECK(object->references > 0);
    last = --object->references == 0;
    if (last && !object->dead) {
        list_push_back(&store->idle, &object->idle);
        last = false;
        if (store->open_count >= store->options.open_files_max) {
            pthread_cond_signal(&store->table_room);
        }
    }
    pthread_mutex_unlock(&store->table_lock);
    if (last) {
        object_free(object);
    }
}

bool table_has(struct store *store, struct object_id id)
{
    bool has;

    pthread_mutex_lock(&store->table_lock);
    has = table_find(store, id) != NULL;
    pthread_mutex_unlock(&store->table_lock);
    return has;
}

void table_need_least(struct store *store, struct object_id id)
{
    struct object *object;

    pthread_mutex_lock(&store->table_lock);
    object = table_find(store, id);
    if (object != NULL && object->references == 0) {
        list_remove(&object->idle);
        list_push_front(&store->idle, &object->idle);
    }
    pthread_mutex_unlock(&store->table_lock);
}

struct object *table_unverified(struct store *store)
{
    struct object *object = NULL;

    pthread_mutex_lock(&store->table_lock);
    if (!list_empty(&store->unverified)) {
        object = LIST_ENTRY(list_front(&store->unverified), struct object, unverified);
        table_refer(object);
    }
    pthread_mutex_unlock(&store->table_lock);
    return object;
}

void object_proven(struct store *store, struct object *object)
{
    object->trust = TRUSTED;
    object->proven = 0;
    pthread_mutex_lock(&store->table_lock);
    list_remove(&object->unverified);
    pthread_mutex_unlock(&store->table_lock);
}

static void object_doubt(struct store *store, struct object *object, enum store_trust trust)
{
    object->trust = trust;
    if (trust == TRUSTED) {
        return;
    }
    pthread_mutex_lock(&store->table_lock);
    list_push_back(&store->unverified, &object->unverified);
    pthread_mutex_unlock(&store->table_lock);
}

/* On a shared disk a run never ends in order, and nothing tells what of it was lost with the power: so only what a killed
 * process explains is put right, and all else is damage. There is another copy. */
static enum store_trust trust_of(const struct store *store, uint64_t checkpoint)
{
    enum store_trust trust = checkpoints_trust(&store->checkpoints, checkpoint);

    return trust == LOST && store->options.shared_disk ? SUSPECT : trust;
}

/* Take what the header says. */
static int object_load_header(struct store *store, struct object *object, struct errmsg *err)
{
    uint8_t bytes[STORE_HEADER_BYTES] = { 0 };
    struct store_header header;
    int rv;

    if (pread(object->fd, bytes, sizeof(bytes), 0) < 0) {
        return object_failed(object, "read header", err);
    }
    rv = store_header_decode(bytes, &header);
    /* Made, and then the machine died, and its length is one in between: a sync covers all of the header, so nothing was
     * synced. A part of a header would be a damaged one as soon as the file is longer. */
    if (object->end > 0 && object->end < STORE_HEADER_BYTES) {
        if (ftruncate(object->fd, 0) != 0) {
            return object_failed(object, "take away a part of a header", err);
        }
        object_set_end(store, object, 0);
    }
    if (rv == MORSEL_NODATA && object->end > 0 && store->options.shared_disk) {
        rv = MORSEL_CORRUPT;
    }
    /* Made, and then the process or the machine died. */
    if (rv == MORSEL_NODATA || object->end == 0) {
        object->stamped = false;
        object->lacks = store->options.shared_disk; /* Its length may be what was lost. */
        object_doubt(store, object, object->end == 0 ? TRUSTED : LOST);
        return 0;
    }
    if (rv == 0 && (header.id.inode != object->id.inode || header.id.column != object->id.column)) {
        rv = MORSEL_CORRUPT;
    }
    if (rv != 0) {
        errmsg_set(err, "object %" PRIu64 ".%u: header %s: %s", object->id.inode, object->id.column,
                   rv == MORSEL_VERSION ? "is of a newer version" : "is damaged",
                   store->options.shared_disk ? "it is read where there is another copy"
                                              : "restore the file from a copy or delete it");
        return rv;
    }
    object->stamped = true;
    object->checkpoint = header.checkpoint;
    object->lacks =
        store->options.shared_disk &&
        (header.lacks || checkpoints_trust(&store->checkpoints, header.checkpoint) == LOST);
    object_doubt(store, object, trust_of(store, header.checkpoint));
    return 0;
}

bool object_is_covered(const struct store *store, const struct object *object)
{
    return object->trust == TRUSTED && object->stamped &&
           checkpoints_cover(&store->checkpoints, object->checkpoint);
}

/* What was changed lately, by this run or one before, may not be on disk; and if a sync has failed
 * since, it may be among what was lost. */
static void object_load_syncs(struct store *store, struct object *object)
{
    bool covered = object_is_covered(store, object);

    atomic_store(&object->changes, 1);
    atomic_store(&object->synced, covered ? 1 : 0);
    atomic_store(&object->name_synced, covered);
    object->tree_needed = covered ? 0 : atomic_load(&store->tree_begun) + 1;
    atomic_store(&object->sync_failed, !covered && atomic_load(&store->checkpoints.failed));
}

/* Locked exclusively. */
static int object_load(struct store *store, struct object *object, struct errmsg *err)
{
    char name[STORE_NAME_BYTES];
    struct stat st;
    int rv;

    store_name(object->id, name);
    object->fd = openat(store->objects_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (object->fd < 0) {
        object->loaded = errno == ENOENT;
        return errno == ENOENT ? 0 : object_failed(object, "open", err);
    }
    rv = fstat(object->fd, &st) == 0 ? 0 : object_failed(object, "fstat", err);
    if (rv == 0) {
        object->end = (uint64_t)st.st_size; /* Counted when stock was taken. */
        object->counted = store_file_bytes(object->end);
        object->size = byte_at_place(object->end);
        object->serial = atomic_fetch_add(&store->serial, 1) + 1;
        rv = object_load_header(store, object, err);
    }
    if (rv != 0) {
        close(object->fd);
        object->fd = -1;
        return rv;
    }
    object->exists = true;
    object->loaded = true;
    object_load_syncs(store, object);
    return 0;
}

int object_lock(struct store *store, struct object_id id, enum object_mode mode,
                struct object **object_out, struct errmsg *err)
{
    *object_out = NULL;
    for (;;) {
        struct object *object = table_get(store, id);
        int rv;

        if (object == NULL) {
            return MORSEL_NOMEM;
        }
        if (mode == OBJECT_SHARED) {
            pthread_rwlock_rdlock(&object->lock);
            if (object->loaded && !object->dead) {
                *object_out = object;
                return 0;
            }
            pthread_rwlock_unlock(&object->lock);
        }
        pthread_rwlock_wrlock(&object->lock);
        rv = object->loaded || object->dead ? 0 : object_load(store, object, err);
        if (rv == 0 && !object->dead) {
            *object_out = object;
            return 0;
        }
        object_unlock(store, object);
        if (rv != 0) {
            return rv;
        }
    }
}

int object_lock_gated(struct store *store, struct object_id id, const struct store_gate *gate,
                      struct object **object_out, struct errmsg *err)
{
    int rv = object_lock(store, id, OBJECT_EXCLUSIVE, object_out, err);

    if (rv != 0) {
        return rv;
    }
    if (gate != NULL && gate->ask != NULL) {
        rv = gate->ask(gate->data, err);
    }
    if (rv == 0) {
        rv = object_lengthen(store, *object_out, err);
    }
    if (rv != 0) {
        object_unlock(store, *object_out);
        *object_out = NULL;
    }
    return rv;
}

struct object *object_try_lock(struct store *store, struct object_id id)
{
    struct object *object;

    if (pthread_mutex_trylock(&store->table_lock) != 0) {
        return NULL;
    }
    object = table_find(store, id);
    if (object != NULL && pthread_rwlock_tryrdlock(&object->lock) != 0) {
        object = NULL;
    }
    if (object != NULL) {
        table_refer(object);
    }
    pthread_mutex_unlock(&store->table_lock);
    if (object != NULL && (!object->loaded || object->dead)) {
        object_unlock(store, object);
        return NULL;
    }
    return object;
}

void object_unlock(struct store *store, struct object *object)
{
    pthread_rwlock_unlock(&object->lock);
    object_release(store, object);
}

static int object_open_new(struct store *store, const char *name)
{
    char subdir[4] = { name[0], name[1], name[2], 0 };
    int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd;

    atomic_store(&store->subdir_there[strtoul(subdir, NULL, 16)], true);
    fd = openat(store->objects_fd, name, flags, 0600);
    if (fd >= 0 || errno != ENOENT) {
        return fd;
    }
    if (mkdirat(store->objects_fd, subdir, 0700) != 0 && errno != EEXIST) {
        return -1;
    }
    return openat(store->objects_fd, name, flags, 0600);
}

int object_create(struct store *store, struct object *object, struct errmsg *err)
{
    char name[STORE_NAME_BYTES];

    CHECK(!object->exists);
    store_name(object->id, name);
    object->fd = object_open_new(store, name);
    if (object->fd < 0) {
        return object_failed(object, "create", err);
    }
    object->serial = atomic_fetch_add(&store->serial, 1) + 1;
    object->exists = true;
    object->stamped = false;
    object->trust = TRUSTED;
    object->lacks = false;
    object->checkpoint = 0;
    object->size = 0;
    object->end = 0; /* What was claimed for it stays. */
    atomic_fetch_add(&object->changes, 1);
    atomic_store(&object->name_synced, false);
    object->tree_needed = 0;
    atomic_fetch_add(&store->objects, 1);
    return 0;
}

int object_remove(struct store *store, struct object *object, struct errmsg *err)
{
    char name[STORE_NAME_BYTES];

    store_name(object->id, name);
    if (unlinkat(store->objects_fd, name, 0) != 0 && errno != ENOENT) {
        return object_failed(object, "delete", err);
    }
    store_note_left(store, object->id);
    object_unwatch(store, object->id);
    if (object->exists && atomic_load(&store->objects) > 0) {
        atomic_fetch_sub(&store->objects, 1);
    }
    object->exists = false;
    object_set_end(store, object, 0);
    pthread_mutex_lock(&store->table_lock);
    table_take_out(store, object);
    object->dead = true;
    pthread_cond_signal(&store->table_room);
    pthread_mutex_unlock(&store->table_lock);
    return 0;
}

void object_header(const struct object *object, uint8_t bytes[STORE_HEADER_BYTES])
{
    store_header_encode(&(struct store_header){ .id = object->id,
                                                .lacks = object->lacks,
                                                .checkpoint = object->checkpoint },
                        bytes);
}

int object_stamp(struct store *store, struct object *object, uint64_t checkpoint,
                 bool header_follows, struct errmsg *err)
{
    bool covered = object->stamped && object->checkpoint + 1 < checkpoint;
    uint8_t bytes[STORE_HEADER_BYTES];

    atomic_fetch_add(&object->changes, 1);
    if (object->trust != TRUSTED || (object->stamped && object->checkpoint == checkpoint)) {
        return 0;
    }
    object->checkpoint = checkpoint;
    if (!object->stamped && header_follows) {
        return 0;
    }
    object_header(object, bytes);
    object->stamped = pwrite(object->fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes);
    if (!object->stamped) {
        return object_failed(object, "write header", err);
    }
    object_grow_to(store, object, sizeof(bytes));
    if (covered) {
        int rv = object_flush(store, object, "its header before a change", err);

        object->stamped = rv == 0;
        return rv;
    }
    return 0;
}
