/* Appending, replacing, and reading it all at the start. */
#include "common/vote/votes_file.h"

#include "common/base/check.h"
#include "common/base/replace_file.h"
#include "common/base/status.h"
#include "common/vote/votes_format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_name[] = "votes";

struct votes_file
{
    char *dir;
    int dir_fd, fd;
    voter_id id;
    uint64_t number;      /* Of the last entry. */
    uint64_t end;         /* Of what is sound. */
    uint64_t whole_bytes; /* When it was written as a whole. */
    bool is_sound;        /* Nothing is behind `end`, and all of it was synced. */
};

static int fail(const char *what, const char *dir, struct errmsg *err)
{
    int code = errno;

    errmsg_set(err, "%s %s/%s: %s", what, dir, file_name, strerror(code));
    return status_from_errno(code);
}

void votes_file_close(struct votes_file *f)
{
    if (f == NULL) {
        return;
    }
    if (f->fd >= 0) {
        close(f->fd);
    }
    if (f->dir_fd >= 0) {
        close(f->dir_fd);
    }
    free(f->dir);
    free(f);
}

bool votes_file_wants_all(const struct votes_file *f)
{
    return !f->is_sound || f->end > 2 * f->whole_bytes + VOTES_APPENDED_BYTES_MAX;
}

/* ---- Writing ---- */

static int reopen(struct votes_file *f, struct errmsg *err)
{
    if (f->fd >= 0) {
        close(f->fd);
    }
    f->fd = openat(f->dir_fd, file_name, O_RDWR | O_CLOEXEC);
    return f->fd >= 0 ? MORSEL_OK : fail("open", f->dir, err);
}

/* The new file may be there although it could not be synced: so it is not sound until all went
 * well. */
static int write_all(struct votes_file *f, const struct buf *b, struct errmsg *err)
{
    int rv;

    f->is_sound = false;
    if (replace_file(f->dir_fd, file_name, b->data, b->count, false) != 0) {
        return fail("write", f->dir, err);
    }
    rv = reopen(f, err);
    if (rv == MORSEL_OK) {
        f->number = 1;
        f->end = f->whole_bytes = b->count;
        f->is_sound = true;
    }
    return rv;
}

static bool append_bytes(int fd, const struct buf *b, uint64_t end)
{
    size_t done = 0;

    while (done < b->count) {
        ssize_t part = pwrite(fd, b->data + done, b->count - done, (off_t)(end + done));

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

/* A disk that has failed a sync may have dropped the bytes and say so only once; and what is left of
 * an entry would be taken for damage. So nothing is appended behind a failure. */
static int append(struct votes_file *f, const struct buf *b, struct errmsg *err)
{
    int rv;

    if (append_bytes(f->fd, b, f->end) && fdatasync(f->fd) == 0) {
        f->number++;
        f->end += b->count;
        return MORSEL_OK;
    }
    rv = fail("write", f->dir, err);
    f->is_sound = false;
    (void)!ftruncate(f->fd, (off_t)f->end); /* What this leaves, the next write replaces. */
    return rv;
}

int votes_file_write(struct votes_file *f, bool all, uint64_t set_version,
                     const struct vote_record *records, uint32_t count, struct errmsg *err)
{
    struct buf b;
    int rv = MORSEL_NOMEM;

    CHECK(all || !votes_file_wants_all(f));
    buf_init(&b);
    if (all) {
        votes_header_put(&b, f->id);
    }
    votes_entry_put(&b, all ? 1 : f->number + 1, set_version, records, count);
    if (b.failed) {
        errmsg_set(err, "no memory to write %s/%s", f->dir, file_name);
        f->is_sound = false; /* What it should have said is in no entry that follows. */
    } else {
        rv = all ? write_all(f, &b, err) : append(f, &b, err);
    }
    buf_free(&b);
    return rv;
}

/* ---- Reading ---- */

static int read_bytes(struct votes_file *f, struct buf *b, struct errmsg *err)
{
    struct stat st;

    if (fstat(f->fd, &st) != 0) {
        return fail("read", f->dir, err);
    }
    if (st.st_size > (off_t)8 * VOTES_ENTRY_BYTES_MAX || !buf_reserve(b, (size_t)st.st_size)) {
        errmsg_set(err, "%s/%s is too large: %lld bytes", f->dir, file_name, (long long)st.st_size);
        return MORSEL_NOMEM;
    }
    while (b->count < (size_t)st.st_size) {
        ssize_t part =
            pread(f->fd, b->data + b->count, (size_t)st.st_size - b->count, (off_t)b->count);

        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return fail("read", f->dir, err);
        }
        if (part == 0) {
            break;
        }
        b->count += (size_t)part;
    }
    return MORSEL_OK;
}

static int damaged(const struct votes_file *f, uint64_t at, struct errmsg *err)
{
    errmsg_set(err, "%s/%s is damaged at byte %llu: votes may be lost", f->dir, file_name,
               (unsigned long long)at);
    return MORSEL_CORRUPT;
}

/* How far the file is sound, and the newest voter set, with which the voter is made. */
static int scan(struct votes_file *f, struct slice bytes, uint64_t *set_version, struct errmsg *err)
{
    f->end = VOTES_HEADER_BYTES;
    for (;;) {
        struct slice rest = { bytes.data + f->end, bytes.count - f->end };
        struct votes_entry entry;
        enum votes_piece piece = votes_entry_parse(rest, f->number + 1, &entry);

        if (piece == VOTES_DAMAGED || (piece != VOTES_ENTRY && f->number == 0)) {
            return damaged(f, f->end, err); /* The first came with the header, in one. */
        }
        if (piece != VOTES_ENTRY) {
            f->is_sound = piece == VOTES_END;
            return MORSEL_OK;
        }
        f->whole_bytes = f->number == 0 ? VOTES_HEADER_BYTES + entry.bytes : f->whole_bytes;
        f->number++;
        f->end += entry.bytes;
        *set_version = entry.set_version;
    }
}

static bool load(struct slice bytes, uint64_t entries, struct voter *voter)
{
    size_t at = VOTES_HEADER_BYTES;

    for (uint64_t number = 1; number <= entries; number++) {
        struct votes_entry entry;
        enum votes_piece piece =
            votes_entry_parse((struct slice){ bytes.data + at, bytes.count - at }, number, &entry);

        CHECK(piece == VOTES_ENTRY);
        for (uint32_t i = 0; i < entry.count; i++) {
            struct vote_record record = votes_record_get(&entry.records);

            if (!voter_load(voter, &record)) {
                return false;
            }
        }
        at += entry.bytes;
    }
    return true;
}

static int read_file(struct votes_file *f, struct slice bytes, struct voter **voter,
                     struct errmsg *err)
{
    uint64_t set_version = 0;
    int rv = votes_header_parse(bytes, &f->id);

    if (rv == MORSEL_VERSION) {
        errmsg_set(err, "%s/%s is of a newer format than %d: use a newer version", f->dir,
                   file_name, VOTES_FORMAT);
        return rv;
    }
    if (rv != MORSEL_OK) {
        return damaged(f, 0, err);
    }
    rv = scan(f, bytes, &set_version, err);
    if (rv != MORSEL_OK) {
        return rv;
    }
    *voter = voter_new(f->id, set_version);
    if (*voter == NULL || !load(bytes, f->number, *voter)) {
        errmsg_set(err, "no memory for the votes in %s/%s", f->dir, file_name);
        return MORSEL_NOMEM;
    }
    return MORSEL_OK;
}

static int read_or_make(struct votes_file *f, voter_id fresh, struct voter **voter,
                        struct errmsg *err)
{
    struct buf bytes;
    int rv;

    f->fd = openat(f->dir_fd, file_name, O_RDWR | O_CLOEXEC);
    if (f->fd < 0 && errno != ENOENT) {
        return fail("open", f->dir, err);
    }
    if (f->fd < 0) {
        f->id = fresh;
        *voter = voter_new(fresh, 0);
        if (*voter == NULL) {
            errmsg_set(err, "no memory for the votes in %s/%s", f->dir, file_name);
            return MORSEL_NOMEM;
        }
        return votes_file_write(f, true, 0, NULL, 0, err);
    }
    buf_init(&bytes);
    rv = read_bytes(f, &bytes, err);
    if (rv == MORSEL_OK) {
        rv = read_file(f, buf_slice(&bytes), voter, err);
    }
    buf_free(&bytes);
    return rv;
}

int votes_file_open(const char *dir, voter_id fresh, struct votes_file **file, struct voter **voter,
                    struct errmsg *err)
{
    struct votes_file *f = calloc(1, sizeof(*f));
    int rv = MORSEL_NOMEM;

    CHECK(fresh != 0);
    *file = NULL;
    *voter = NULL;
    if (f == NULL || (f->dir = strdup(dir)) == NULL) {
        errmsg_set(err, "no memory to open %s/%s", dir, file_name);
        free(f);
        return rv;
    }
    f->fd = -1;
    f->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rv = f->dir_fd < 0 ? fail("open", dir, err) : read_or_make(f, fresh, voter, err);
    if (rv != MORSEL_OK) {
        voter_free(*voter);
        *voter = NULL;
        votes_file_close(f);
        return rv;
    }
    *file = f;
    return MORSEL_OK;
}

int votes_file_renew(const char *dir, struct errmsg *err)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv = MORSEL_OK;

    if (dir_fd < 0) {
        return fail("open", dir, err);
    }
    if (renameat(dir_fd, file_name, dir_fd, "votes.damaged") != 0 || fsync(dir_fd) != 0) {
        rv = fail("put aside", dir, err);
    }
    close(dir_fd);
    return rv;
}
