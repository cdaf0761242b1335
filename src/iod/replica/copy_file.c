/* State, dirty file and memory of operations of one copy: made, read, appended to, replaced. */
#include "iod/replica/copy_file.h"

#include "common/base/check.h"
#include "common/base/replace_file.h"
#include "common/base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_NAME_BYTES = 48,
    FILE_BYTES_MAX = 256 << 20, /* More than bounded logs and memories come to. */
    GENERATIONS_MAX = 1024,     /* At a time: each start adds one, and a sync leaves one. */
    RENEWAL_OPERATIONS_MIN = 16384
};

struct copy_file
{
    pthread_mutex_t memory;  /* Which generations are there; held while one is begun and filled. */
    pthread_mutex_t syncing; /* One sync of the memory at a time. */
    char *dir;
    struct copy_name name;
    int dir_fd, dirty_fd, ops_fd;
    uint64_t dirty_end, dirty_number;
    uint64_t ops_end;
    uint64_t oldest, generation; /* Of the memory of operations: those that are there. */
    uint64_t syncs_asked;        /* With `memory`, */
    uint64_t syncs_done;         /* and, of these, with `syncing`: */
    bool sync_failed;            /* what the disk has of the memory nobody knows. */
    uint64_t boot;               /* Of the kernel, as the state on the disk says. */
};

static void file_name(const struct copy_file *f, const char *what, char name[FILE_NAME_BYTES])
{
    (void)snprintf(name, FILE_NAME_BYTES, "%u.%s", f->name.group, what);
}

static void ops_name(const struct copy_file *f, uint64_t generation, char name[FILE_NAME_BYTES])
{
    (void)snprintf(name, FILE_NAME_BYTES, "%u.ops-%" PRIu64, f->name.group, generation);
}

static int fail(const struct copy_file *f, const char *what, const char *name, struct errmsg *err)
{
    int code = errno;

    errmsg_set(err, "%s %s/copies/%s: %s", what, f->dir, name, strerror(code));
    return status_from_errno(code);
}

void copy_file_close(struct copy_file *f)
{
    if (f == NULL) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        int fd = (int[]){ f->dirty_fd, f->ops_fd, f->dir_fd }[i];

        if (fd >= 0) {
            close(fd);
        }
    }
    pthread_mutex_destroy(&f->syncing);
    pthread_mutex_destroy(&f->memory);
    free(f->dir);
    free(f);
}

/* ---- Reading ---- */

static bool read_whole(int fd, uint8_t *bytes, size_t count)
{
    for (size_t done = 0; done < count;) {
        ssize_t part = pread(fd, bytes + done, count - done, (off_t)done);

        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            errno = part < 0 ? errno : EIO;
            return false;
        }
        done += (size_t)part;
    }
    return true;
}

/* `*bytes_out` is NULL where there is no such file. */
static int read_file(const struct copy_file *f, const char *name, uint8_t **bytes_out,
                     size_t *count_out, struct errmsg *err)
{
    int fd = openat(f->dir_fd, name, O_RDONLY | O_CLOEXEC);
    struct stat st;
    int rv = MORSEL_OK;

    *bytes_out = NULL;
    *count_out = 0;
    if (fd < 0) {
        return errno == ENOENT ? MORSEL_OK : fail(f, "open", name, err);
    }
    if (fstat(fd, &st) != 0) {
        rv = fail(f, "look at", name, err);
    } else if (st.st_size > FILE_BYTES_MAX) {
        errmsg_set(err, "%s/copies/%s is larger than such a file can be", f->dir, name);
        rv = MORSEL_CORRUPT;
    } else if ((*bytes_out = malloc((size_t)st.st_size + 1)) == NULL) {
        rv = MORSEL_NOMEM;
    } else if (!read_whole(fd, *bytes_out, (size_t)st.st_size)) {
        rv = fail(f, "read", name, err);
    } else {
        *count_out = (size_t)st.st_size;
    }
    close(fd);
    if (rv != MORSEL_OK) {
        free(*bytes_out);
        *bytes_out = NULL;
    }
    return rv;
}

static int bad(const struct copy_file *f, const char *name, int status, struct errmsg *err)
{
    if (status == MORSEL_VERSION) {
        errmsg_set(err, "%s/copies/%s was written by a newer version", f->dir, name);
    } else {
        errmsg_set(err, "%s/copies/%s is damaged", f->dir, name);
    }
    return status;
}

/* The others may hold other places than before, and there may be one more. */
static bool same_place(const struct copy_name *was, const struct copy_name *is)
{
    return was->group == is->group && was->me == is->me && was->count <= is->count &&
           was->servers[was->me] == is->servers[is->me] && was->since == is->since;
}

/* MORSEL_CORRUPT: it is of no use. */
static int read_state(struct copy_file *f, bool known, struct copy_file_found *found,
                      struct errmsg *err)
{
    char name[FILE_NAME_BYTES];
    struct copy_name said;
    uint8_t *bytes;
    size_t count;
    int rv;

    file_name(f, "state", name);
    rv = read_file(f, name, &bytes, &count, err);
    if (rv == MORSEL_OK && bytes == NULL && known) {
        errmsg_set(err, "%s/copies/%s is missing", f->dir, name);
        rv = MORSEL_CORRUPT;
    } else if (rv == MORSEL_OK && bytes != NULL) {
        rv = copy_state_parse((struct slice){ bytes, count }, &said, &found->record);
        if (rv != MORSEL_OK) {
            rv = bad(f, name, rv, err);
        } else if (!same_place(&said, &f->name)) {
            errmsg_set(err, "%s/copies/%s is of another place in the group, or of an earlier time",
                       f->dir, name);
            rv = MORSEL_CORRUPT;
        }
        found->state = rv == MORSEL_OK;
    }
    free(bytes);
    return rv;
}

static int each_dirty(struct copy_file *f, struct slice bytes, const char *name,
                      struct copy_file_found *found, struct errmsg *err)
{
    struct dirty_entry entry;
    struct dirty_record record;
    enum dirty_piece piece;
    group_id group;
    int rv = dirty_header_parse(bytes, &group);

    if (rv != MORSEL_OK || group != f->name.group) {
        return bad(f, name, rv == MORSEL_VERSION ? rv : MORSEL_CORRUPT, err);
    }
    f->dirty_end = DIRTY_HEADER_BYTES;
    for (;;) {
        struct slice rest = { bytes.data + f->dirty_end, bytes.count - f->dirty_end };

        piece = dirty_entry_parse(rest, f->dirty_number + 1, &entry);
        if (piece != DIRTY_ENTRY) {
            return piece == DIRTY_DAMAGED ? bad(f, name, MORSEL_CORRUPT, err) : MORSEL_OK;
        }
        while (dirty_record_get(&entry.records, &record)) {
            if (!found->dirty(found->data, &record)) {
                return MORSEL_NOMEM;
            }
        }
        f->dirty_number++;
        f->dirty_end += entry.bytes;
    }
}

static int read_dirty(struct copy_file *f, struct copy_file_found *found, struct errmsg *err)
{
    char name[FILE_NAME_BYTES];
    uint8_t *bytes;
    size_t count;
    int rv;

    file_name(f, "dirty", name);
    rv = read_file(f, name, &bytes, &count, err);
    if (rv == MORSEL_OK && bytes == NULL && found->state) {
        errmsg_set(err, "%s/copies/%s is missing", f->dir, name);
        rv = MORSEL_CORRUPT;
    } else if (rv == MORSEL_OK && bytes != NULL) {
        rv = each_dirty(f, (struct slice){ bytes, count }, name, found, err);
    }
    free(bytes);
    return rv;
}

/* Which generations of the memory are there? */
static int find_generations(struct copy_file *f, struct errmsg *err)
{
    char wanted[FILE_NAME_BYTES];
    int fd = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int length;

    if (dir == NULL) {
        return fail(f, "list", "", err);
    }
    length = snprintf(wanted, sizeof(wanted), "%u.ops-", f->name.group);
    while ((entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, wanted, (size_t)length) == 0) {
            uint64_t number = strtoull(entry->d_name + length, NULL, 10);

            f->oldest = f->oldest == 0 || number < f->oldest ? number : f->oldest;
            f->generation = number > f->generation ? number : f->generation;
        }
    }
    closedir(dir);
    if (f->generation - f->oldest >= GENERATIONS_MAX) {
        errmsg_set(err, "%s/copies has files of operations of group %u that are not ours", f->dir,
                   f->name.group);
        return MORSEL_CORRUPT;
    }
    return MORSEL_OK;
}

/* What was not synced may be missing when the kernel is another one; else nothing may, but for a last
 * entry that is not whole: nothing was done for it yet. */
static int each_operation(struct copy_file *f, struct slice bytes, const char *name, uint64_t boot,
                          struct copy_file_found *found, struct errmsg *err)
{
    size_t count = (bytes.count - COPY_MEMORY_HEADER_BYTES) / COPY_OPERATION_BYTES;
    bool whole = true;

    for (size_t i = count; i > 0; i--) {
        struct copy_operation op;
        const uint8_t *at = bytes.data + COPY_MEMORY_HEADER_BYTES + (i - 1) * COPY_OPERATION_BYTES;

        if (!copy_operation_parse(at, &op)) {
            whole = false;
        } else if (!found->operation(found->data, &op)) {
            return MORSEL_NOMEM;
        }
    }
    if (!whole && found->state && found->record.boot == boot) {
        return bad(f, name, MORSEL_CORRUPT, err);
    }
    return MORSEL_OK;
}

static int read_generation(struct copy_file *f, uint64_t generation, uint64_t boot,
                           struct copy_file_found *found, struct errmsg *err)
{
    bool lost = generation > f->oldest && found->record.boot != boot; /* It may be. */
    char name[FILE_NAME_BYTES];
    group_number group = 0;
    uint8_t *bytes;
    size_t count;
    int rv;

    ops_name(f, generation, name);
    rv = read_file(f, name, &bytes, &count, err);
    if (rv == MORSEL_OK) {
        rv = copy_memory_header_parse((struct slice){ bytes, count }, &group);
        if (rv == MORSEL_OK && group == f->name.group) {
            rv = each_operation(f, (struct slice){ bytes, count }, name, boot, found, err);
        } else if (rv != MORSEL_VERSION && lost) {
            rv = MORSEL_OK;
        } else {
            rv = bad(f, name, rv == MORSEL_VERSION ? rv : MORSEL_CORRUPT, err);
        }
    }
    free(bytes);
    return rv;
}

/* Nobody else may know what was carried out here, so it is as behind a loss of power: the set goes on under another
 * verifier, under which nothing that was sent before is carried out any more (rule `sentbefore`). */
static void forget_operations(struct copy_file_found *found, const struct errmsg *err)
{
    errmsg_set(&found->trouble,
               "%s: what clients have sent before and ask for again is refused, and they are told "
               "that what they wrote may be lost",
               err->text);
    found->forgot = true;
    found->record.whole = false;
}

static int read_operations(struct copy_file *f, uint64_t boot, struct copy_file_found *found,
                           struct errmsg *err)
{
    int rv = f->generation == 0 ? MORSEL_CORRUPT : MORSEL_OK;

    if (rv != MORSEL_OK) {
        errmsg_set(err, "%s/copies/%u.ops-* is missing", f->dir, f->name.group);
    }
    for (uint64_t g = f->generation; rv == MORSEL_OK && g >= f->oldest; g--) {
        rv = read_generation(f, g, boot, found, err);
    }
    if (rv == MORSEL_CORRUPT && found->record.state == GROUP_STANDALONE) {
        forget_operations(found, err);
        rv = MORSEL_OK;
    }
    return rv;
}

/* ---- Writing ---- */

static bool append_bytes(int fd, const void *bytes, size_t count, uint64_t at)
{
    for (size_t done = 0; done < count;) {
        ssize_t part = pwrite(fd, (const uint8_t *)bytes + done, count - done, (off_t)(at + done));

        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            errno = part < 0 ? errno : ENOSPC;
            return false;
        }
        done += (size_t)part;
    }
    return true;
}

/* A loss of power is told from damage by the boot that the state names. What such a loss has left of the
 * memory is gone before the state names the next one: else it would be damage at the start behind this. */
int copy_file_state(struct copy_file *f, const struct group_record *record, struct errmsg *err)
{
    char name[FILE_NAME_BYTES];
    struct buf b;
    int rv = record->boot != f->boot ? copy_file_sync(f, err) : MORSEL_OK;

    if (rv != MORSEL_OK) {
        return rv;
    }
    buf_init(&b);
    copy_state_put(&b, &f->name, record);
    file_name(f, "state", name);
    if (b.failed) {
        rv = MORSEL_NOMEM;
    } else if (replace_file(f->dir_fd, name, b.data, b.count, false) != 0) {
        rv = fail(f, "write", name, err);
    } else {
        f->boot = record->boot;
    }
    buf_free(&b);
    return rv;
}

int copy_file_rewrite(struct copy_file *f, const struct buf *all, uint64_t last, struct errmsg *err)
{
    char name[FILE_NAME_BYTES];

    file_name(f, "dirty", name);
    if (replace_file(f->dir_fd, name, all->data, all->count, false) != 0) {
        return fail(f, "write", name, err);
    }
    if (f->dirty_fd >= 0) {
        close(f->dirty_fd);
    }
    f->dirty_fd = openat(f->dir_fd, name, O_RDWR | O_CLOEXEC);
    f->dirty_end = all->count;
    f->dirty_number = last;
    return f->dirty_fd >= 0 ? MORSEL_OK : fail(f, "open", name, err);
}

int copy_file_note(struct copy_file *f, const struct dirty_record *records, uint32_t count,
                   struct errmsg *err)
{
    char name[FILE_NAME_BYTES];
    struct buf b;
    int rv = MORSEL_OK;

    buf_init(&b);
    dirty_entry_put(&b, f->dirty_number + 1, records, count);
    file_name(f, "dirty", name);
    if (b.failed) {
        rv = MORSEL_NOMEM;
    } else if (!append_bytes(f->dirty_fd, b.data, b.count, f->dirty_end) ||
               fdatasync(f->dirty_fd) != 0) {
        rv = fail(f, "write", name, err);
    } else {
        f->dirty_number++;
        f->dirty_end += b.count;
    }
    buf_free(&b);
    return rv;
}

int copy_file_operation(struct copy_file *f, const struct copy_operation *op, struct errmsg *err)
{
    uint8_t bytes[COPY_OPERATION_BYTES];
    char name[FILE_NAME_BYTES];

    copy_operation_put(bytes, op);
    if (append_bytes(f->ops_fd, bytes, sizeof(bytes), f->ops_end)) {
        f->ops_end += sizeof(bytes);
        return MORSEL_OK;
    }
    ops_name(f, f->generation, name);
    return fail(f, "write", name, err);
}

bool copy_file_wants_renewal(const struct copy_file *f, uint32_t count)
{
    uint64_t have = f->ops_end / COPY_OPERATION_BYTES;

    return f->oldest == f->generation && have > RENEWAL_OPERATIONS_MIN + 4 * (uint64_t)count;
}

static int begin_generation(struct copy_file *f, struct errmsg *err)
{
    char name[FILE_NAME_BYTES];
    struct buf b;
    int fd, rv = MORSEL_OK;

    ops_name(f, f->generation + 1, name);
    buf_init(&b);
    copy_memory_header_put(&b, f->name.group);
    fd = openat(f->dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (b.failed) {
        rv = MORSEL_NOMEM;
    } else if (fd < 0 || !append_bytes(fd, b.data, b.count, 0)) {
        rv = fail(f, "make", name, err);
    }
    if (rv != MORSEL_OK && fd >= 0) {
        close(fd);
    }
    if (rv == MORSEL_OK) {
        if (f->ops_fd >= 0) {
            close(f->ops_fd);
        }
        f->ops_fd = fd;
        f->generation++;
        f->oldest = f->oldest == 0 ? f->generation : f->oldest;
        f->ops_end = b.count;
    }
    buf_free(&b);
    return rv;
}

int copy_file_renew(struct copy_file *f, bool (*keep)(void *data), void *data, struct errmsg *err)
{
    int rv;

    pthread_mutex_lock(&f->memory);
    rv = begin_generation(f, err);
    if (rv == MORSEL_OK && keep != NULL && !keep(data)) {
        errmsg_set(err, "what is known of operations could not be kept");
        rv = MORSEL_IO;
    }
    pthread_mutex_unlock(&f->memory);
    return rv;
}

/* Generations before `newest` go, for good: an operation that was undone is not known again. */
static int delete_older(struct copy_file *f, uint64_t oldest, uint64_t newest, struct errmsg *err)
{
    char name[FILE_NAME_BYTES];

    for (; oldest < newest; oldest++) {
        ops_name(f, oldest, name);
        if (unlinkat(f->dir_fd, name, 0) != 0 && errno != ENOENT) {
            return fail(f, "delete", name, err);
        }
    }
    return fsync(f->dir_fd) != 0 ? fail(f, "sync", "", err) : MORSEL_OK;
}

/* Without the lock: the loop must not wait for the disk. */
static int sync_generation(struct copy_file *f, int fd, uint64_t oldest, uint64_t newest,
                           struct errmsg *err)
{
    char name[FILE_NAME_BYTES];

    ops_name(f, newest, name);
    if (fd < 0 || fdatasync(fd) != 0) {
        return fail(f, "sync", name, err);
    }
    if (oldest < newest && fsync(f->dir_fd) != 0) {
        return fail(f, "sync", "", err);
    }
    return oldest < newest ? delete_older(f, oldest, newest, err) : MORSEL_OK;
}

/* With `syncing`. */
static int sync_memory(struct copy_file *f, struct errmsg *err)
{
    uint64_t oldest, newest, asked;
    int fd, rv;

    pthread_mutex_lock(&f->memory);
    fd = fcntl(f->ops_fd, F_DUPFD_CLOEXEC, 0);
    oldest = f->oldest;
    newest = f->generation;
    asked = f->syncs_asked;
    pthread_mutex_unlock(&f->memory);
    rv = sync_generation(f, fd, oldest, newest, err);
    if (fd >= 0) {
        close(fd);
    }
    pthread_mutex_lock(&f->memory);
    if (rv == MORSEL_OK && f->oldest < newest) {
        f->oldest = newest;
    }
    pthread_mutex_unlock(&f->memory);
    f->sync_failed = rv != MORSEL_OK;
    f->syncs_done = asked;
    return rv;
}

/* The kernel tells one of two syncs that it could not write something, and takes that for written: so they come one
 * behind the other, and behind one that failed none says that all is well. Older generations, which the disk has, stay
 * then. */
int copy_file_sync(struct copy_file *f, struct errmsg *err)
{
    uint64_t mine;
    int rv = MORSEL_OK;

    pthread_mutex_lock(&f->memory);
    mine = ++f->syncs_asked;
    pthread_mutex_unlock(&f->memory);
    pthread_mutex_lock(&f->syncing);
    if (f->sync_failed) {
        errmsg_set(err, "%s/copies/%u.ops-*: the disk has failed a sync and may have lost them",
                   f->dir, f->name.group);
        rv = MORSEL_IO;
    } else if (f->syncs_done < mine) { /* Not by one that began while we waited. */
        rv = sync_memory(f, err);
    }
    pthread_mutex_unlock(&f->syncing);
    return rv;
}

/* ---- Start ---- */

/* The dirty file anew: without anything, or with everything in doubt and, for the others, changed. */
static int make_dirty(struct copy_file *f, bool everything, struct errmsg *err)
{
    const struct change all = { .everything = true };
    const struct dirty_record records[2] = { { .kind = DIRTY_INTENT, .change = all },
                                             { .kind = DIRTY_CHANGED,
                                               .members = (uint8_t)(((1U << f->name.count) - 1) &
                                                                    ~(1U << f->name.me)),
                                               .change = all } };
    struct buf b;
    int rv;

    buf_init(&b);
    dirty_header_put(&b, f->name.group);
    if (everything) {
        dirty_entry_put(&b, 1, records, f->name.count > 1 ? 2 : 1);
    }
    rv = b.failed ? MORSEL_NOMEM : copy_file_rewrite(f, &b, everything, err);
    buf_free(&b);
    return rv;
}

/* A new copy: its state comes last, so that what is there without one was never used. */
static int make(struct copy_file *f, bool everything, const struct group_record *record,
                struct errmsg *err)
{
    int rv = make_dirty(f, everything, err);

    rv = rv != MORSEL_OK ? rv : find_generations(f, err);
    rv = rv != MORSEL_OK ? rv : begin_generation(f, err);
    rv = rv != MORSEL_OK ? rv : copy_file_sync(f, err);
    return rv == MORSEL_OK ? copy_file_state(f, record, err) : rv;
}

static bool everything_is_dirty(const struct copy_file *f, struct copy_file_found *found)
{
    struct dirty_record record = { .kind = DIRTY_INTENT, .change.everything = true };

    if (!found->dirty(found->data, &record)) {
        return false;
    }
    record.kind = DIRTY_CHANGED;
    record.members = (uint8_t)(((1U << f->name.count) - 1) & ~(1U << f->name.me));
    return f->name.count == 1 || found->dirty(found->data, &record);
}

/* It has nothing that it knows of, and asks the others for all. */
static int make_newcomer(struct copy_file *f, uint64_t boot, struct copy_file_found *found,
                         struct errmsg *err)
{
    found->state = false;
    f->oldest = f->generation = 0;
    f->boot = boot;
    group_record_newcomer(&found->record, f->name.count, f->name.me, boot);
    return everything_is_dirty(f, found) ? make(f, true, &found->record, err) : MORSEL_NOMEM;
}

static int open_dir(struct copy_file *f, struct errmsg *err)
{
    int fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rv = MORSEL_OK;

    if (fd < 0 || (mkdirat(fd, "copies", 0700) != 0 && errno != EEXIST) || fsync(fd) != 0) {
        rv = fail(f, "make", "", err);
    } else if ((f->dir_fd = openat(fd, "copies", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        rv = fail(f, "open", "", err);
    }
    if (fd >= 0) {
        close(fd);
    }
    return rv;
}

int copy_file_remove(const char *dir, group_number group, struct errmsg *err)
{
    struct copy_file f = { .dir = (char *)(uintptr_t)dir, .name.group = group };
    char name[FILE_NAME_BYTES];
    int rv;

    f.dir_fd = f.dirty_fd = f.ops_fd = -1;
    rv = open_dir(&f, err);
    rv = rv != MORSEL_OK ? rv : find_generations(&f, err);
    if (rv == MORSEL_OK) {
        file_name(&f, "state", name); /* First: what is there without it was never used. */
        (void)unlinkat(f.dir_fd, name, 0);
        file_name(&f, "dirty", name);
        (void)unlinkat(f.dir_fd, name, 0);
        for (uint64_t g = f.oldest; f.generation != 0 && g <= f.generation; g++) {
            ops_name(&f, g, name);
            (void)unlinkat(f.dir_fd, name, 0);
        }
        rv = fsync(f.dir_fd) == 0 ? MORSEL_OK : fail(&f, "sync", "", err);
    }
    if (f.dir_fd >= 0) {
        close(f.dir_fd);
    }
    return rv;
}

static int open_dirty(struct copy_file *f, struct errmsg *err)
{
    char name[FILE_NAME_BYTES];

    file_name(f, "dirty", name);
    f->dirty_fd = openat(f->dir_fd, name, O_RDWR | O_CLOEXEC);
    /* What is torn at its end was never acted on, and is written over. */
    if (f->dirty_fd < 0 || ftruncate(f->dirty_fd, (off_t)f->dirty_end) != 0) {
        return fail(f, "open", name, err);
    }
    return MORSEL_OK;
}

/* `err` says what is wrong. */
static int make_up(struct copy_file *f, uint64_t boot, struct copy_file_found *found,
                   struct errmsg *err)
{
    errmsg_set(&found->trouble,
               "%s: this server is brought up to date by the others as if it were new", err->text);
    return make_newcomer(f, boot, found, err);
}

/* Beside a sound state. */
static int read_rest(struct copy_file *f, uint64_t boot, struct copy_file_found *found,
                     struct errmsg *err)
{
    int rv;

    f->boot = found->record.boot;
    rv = read_dirty(f, found, err);
    if (rv == MORSEL_CORRUPT) {
        errmsg_set(&found->trouble, "%s: everything is compared with the others", err->text);
        f->dirty_number = 0;
        rv = everything_is_dirty(f, found) ? make_dirty(f, true, err) : MORSEL_NOMEM;
    } else if (rv == MORSEL_OK) {
        rv = open_dirty(f, err);
    }
    if (rv != MORSEL_OK) {
        return rv;
    }
    rv = find_generations(f, err);
    rv = rv == MORSEL_OK ? read_operations(f, boot, found, err) : rv;
    return rv == MORSEL_CORRUPT && found->record.state != GROUP_STANDALONE
               ? make_up(f, boot, found, err)
               : rv;
}

static int read_all(struct copy_file *f, enum copy_file_kind kind, uint64_t boot,
                    struct copy_file_found *found, struct errmsg *err)
{
    int rv = open_dir(f, err);

    rv = rv != MORSEL_OK ? rv : read_state(f, kind == COPY_FILE_KNOWN, found, err);
    if (rv == MORSEL_CORRUPT) {
        return make_up(f, boot, found, err);
    }
    if (rv != MORSEL_OK || found->state) {
        return rv != MORSEL_OK ? rv : read_rest(f, boot, found, err);
    }
    if (kind == COPY_FILE_NEWCOMER) {
        return make_newcomer(f, boot, found, err);
    }
    group_record_new(&found->record, f->name.count, boot);
    f->boot = boot;
    return make(f, false, &found->record, err);
}

int copy_file_open(const char *dir, const struct copy_name *name, enum copy_file_kind kind,
                   uint64_t boot, struct copy_file_found *found, struct copy_file **file_out,
                   struct errmsg *err)
{
    struct copy_file *f = calloc(1, sizeof(*f));
    int rv;

    *file_out = NULL;
    if (f == NULL || (f->dir = strdup(dir)) == NULL) {
        free(f);
        return MORSEL_NOMEM;
    }
    pthread_mutex_init(&f->memory, NULL);
    pthread_mutex_init(&f->syncing, NULL);
    f->name = *name;
    f->dir_fd = f->dirty_fd = f->ops_fd = -1;
    rv = read_all(f, kind, boot, found, err);
    if (rv != MORSEL_OK) {
        copy_file_close(f);
        return rv;
    }
    *file_out = f;
    return MORSEL_OK;
}
