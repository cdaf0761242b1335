/* Writes batches over the old ones in place, and reads at the start what the last run has left. */
#include "meta/storage/journal_file.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/datadir_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL_NEW_NAME JOURNAL_NAME ".new"

static int fail(const struct journal *j, const char *what, struct errmsg *err)
{
    int rv = status_from_errno(errno);

    errmsg_set(err, "%s %s/" JOURNAL_NAME ": %s", what, j->dir, strerror(errno));
    return rv;
}

/* All of it, after short writes and signals too. */
static bool write_at(int fd, const uint8_t *bytes, size_t count, size_t offset)
{
    while (count > 0) {
        ssize_t done = pwrite(fd, bytes, count, (off_t)offset);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        bytes += done;
        count -= (size_t)done;
        offset += (size_t)done;
    }
    return true;
}

static bool read_whole(int fd, struct buf *content)
{
    while (content->count < JOURNAL_BYTES) {
        ssize_t done = pread(fd, content->data + content->count, JOURNAL_BYTES - content->count,
                             (off_t)content->count);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        content->count += (size_t)done;
    }
    return true;
}

/* Zeros that are written, not only reserved: the first write to a reserved block is one for the
 * file system's own journal too. Under another name until it is whole. */
static int make(struct journal *j, struct buf *content, struct errmsg *err)
{
    int fd = openat(j->dir_fd, JOURNAL_NEW_NAME, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0) {
        return fail(j, "make", err);
    }
    memset(content->data, 0, JOURNAL_BYTES);
    content->count = JOURNAL_BYTES;
    j->fd = fd;
    if (!write_at(fd, content->data, JOURNAL_BYTES, 0) || fsync(fd) != 0 ||
        renameat(j->dir_fd, JOURNAL_NEW_NAME, j->dir_fd, JOURNAL_NAME) != 0 ||
        fsync(j->dir_fd) != 0) {
        return fail(j, "make", err);
    }
    return MORSEL_OK;
}

static int open_existing(struct journal *j, struct buf *content, struct errmsg *err)
{
    struct stat st;

    if (fstat(j->fd, &st) != 0) {
        return fail(j, "look at", err);
    }
    if (st.st_size != JOURNAL_BYTES) {
        errmsg_set(err,
                   "%s/" JOURNAL_NAME " is %lld bytes long and was %d: the database is damaged; "
                   "restore it from a backup",
                   j->dir, (long long)st.st_size, (int)JOURNAL_BYTES);
        return MORSEL_CORRUPT;
    }
    return read_whole(j->fd, content) ? MORSEL_OK : fail(j, "read", err);
}

int journal_open(struct journal *j, const char *dir, int dir_fd, struct buf *content,
                 struct errmsg *err)
{
    j->dir = dir;
    j->dir_fd = dir_fd;
    j->offset = 0;
    j->failed = j->skipped = false;
    j->first = j->noted = 0;
    buf_init(&j->writing);
    buf_init(&j->entry);
    buf_init(&j->pending);
    (void)pthread_mutex_init(&j->lock, NULL); /* Cannot fail without attributes (glibc). */
    random_bytes(&j->generation, sizeof(j->generation));
    j->generation |= 1; /* Not 0. */
    j->fd = openat(dir_fd, JOURNAL_NAME, O_RDWR | O_CLOEXEC);
    if (j->fd < 0 && errno != ENOENT) {
        return fail(j, "open", err);
    }
    if (!buf_reserve(content, JOURNAL_BYTES)) {
        return MORSEL_NOMEM;
    }
    return j->fd < 0 ? make(j, content, err) : open_existing(j, content, err);
}

void journal_close(struct journal *j)
{
    if (j->fd >= 0) {
        (void)close(j->fd);
        j->fd = -1;
    }
    buf_free(&j->writing);
    buf_free(&j->entry);
    buf_free(&j->pending);
    (void)pthread_mutex_destroy(&j->lock);
}

void journal_begin(struct journal *j, uint64_t number)
{
    CHECK(j->noted == 0);
    j->noted = number;
    j->first = number + 1;
}

void journal_note(struct journal *j, struct slice batch)
{
    (void)pthread_mutex_lock(&j->lock);
    j->noted++;
    if (!j->skipped && j->pending.count + batch.count <= JOURNAL_SYNC_BYTES_MAX) {
        buf_put_blob(&j->pending, batch.data, batch.count);
        j->skipped = j->pending.failed;
    } else {
        j->skipped = true;
    }
    (void)pthread_mutex_unlock(&j->lock);
}

/* Take what was noted; false when it is not all there. */
static bool take(struct journal *j, struct journal_entry *entry)
{
    struct buf taken;
    bool whole;

    (void)pthread_mutex_lock(&j->lock);
    buf_clear(&j->writing);
    taken = j->pending;
    j->pending = j->writing;
    j->writing = taken;
    whole = !j->skipped;
    j->skipped = false;
    *entry = (struct journal_entry){ j->generation, j->first, j->noted, buf_slice(&taken) };
    j->first = j->noted + 1;
    (void)pthread_mutex_unlock(&j->lock);
    return whole;
}

int journal_sync(struct journal *j, struct errmsg *err)
{
    struct journal_entry entry;

    if (!take(j, &entry) || j->failed) {
        return MORSEL_AGAIN;
    }
    if (entry.last < entry.first) {
        return MORSEL_OK;
    }
    buf_clear(&j->entry);
    journal_entry_encode(&j->entry, &entry);
    if (j->entry.failed || j->entry.count > JOURNAL_BYTES - j->offset) {
        return MORSEL_AGAIN;
    }
    if (!write_at(j->fd, j->entry.data, j->entry.count, j->offset) || fdatasync(j->fd) != 0) {
        j->failed = true;
        return fail(j, "write", err);
    }
    j->offset += j->entry.count;
    return MORSEL_OK;
}

void journal_restart(struct journal *j, int rv)
{
    if (rv != 0) {
        /* The batches that were taken are in neither: what is noted from here on does not continue
         * what the journal holds. */
        j->failed = true;
    }
    j->offset = 0; /* What stays behind the next entries has smaller numbers. */
}
