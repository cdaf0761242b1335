/* Read as a whole, replaced as a whole. */
#include "iod/voters_kept_file.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/replace_file.h"
#include "common/base/status.h"
#include "common/vote/vote_words.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_name[] = "voters";
static const char magic[8] = "MORSVSET";

enum { KEPT_FORMAT = 1, HEADER_BYTES = 16, FILE_BYTES_MAX = FRAME_BODY_BYTES_MAX + HEADER_BYTES };

static int fail(const char *what, const char *dir, struct errmsg *err)
{
    int code = errno;

    errmsg_set(err, "%s %s/%s: %s", what, dir, file_name, strerror(code));
    return status_from_errno(code);
}

bool voters_kept_fill(const Morsel__VoterSet *set, struct buf *bytes)
{
    size_t count = morsel__voter_set__get_packed_size(set);
    struct voter_set sound;

    if (!voter_set_read(set, &sound) || count > FRAME_BODY_BYTES_MAX ||
        !buf_reserve(bytes, HEADER_BYTES + count)) {
        return false;
    }
    (void)morsel__voter_set__pack(set, bytes->data + HEADER_BYTES);
    memcpy(bytes->data, magic, sizeof(magic));
    put_le32(bytes->data + 8, KEPT_FORMAT);
    put_le32(bytes->data + 12, crc32c(0, bytes->data + HEADER_BYTES, count));
    bytes->count = HEADER_BYTES + count;
    return true;
}

static int parse(const struct buf *b, Morsel__VoterSet **set)
{
    struct voter_set sound;

    if (b->count < HEADER_BYTES || memcmp(b->data, magic, sizeof(magic)) != 0) {
        return MORSEL_CORRUPT;
    }
    if (get_le32(b->data + 8) > KEPT_FORMAT) {
        return MORSEL_VERSION;
    }
    if (get_le32(b->data + 12) != crc32c(0, b->data + HEADER_BYTES, b->count - HEADER_BYTES)) {
        return MORSEL_CORRUPT;
    }
    *set = morsel__voter_set__unpack(NULL, b->count - HEADER_BYTES, b->data + HEADER_BYTES);
    if (*set == NULL || !voter_set_read(*set, &sound)) {
        morsel__voter_set__free_unpacked(*set, NULL);
        *set = NULL;
        return MORSEL_CORRUPT;
    }
    return MORSEL_OK;
}

static int read_bytes(int fd, const char *dir, struct buf *b, struct errmsg *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return fail("read", dir, err);
    }
    if (st.st_size > FILE_BYTES_MAX) {
        return MORSEL_CORRUPT;
    }
    if (!buf_reserve(b, (size_t)st.st_size + 1)) {
        errmsg_set(err, "no memory to read %s/%s", dir, file_name);
        return MORSEL_NOMEM;
    }
    for (;;) {
        ssize_t part = read(fd, b->data + b->count, (size_t)st.st_size - b->count);

        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            return part == 0 ? MORSEL_OK : fail("read", dir, err);
        }
        b->count += (size_t)part;
    }
}

int voters_kept_read(const char *dir, Morsel__VoterSet **set, struct errmsg *err)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd, rv;
    struct buf bytes;

    *set = NULL;
    if (dir_fd < 0) {
        return fail("open", dir, err);
    }
    fd = openat(dir_fd, file_name, O_RDONLY | O_CLOEXEC);
    rv = fd < 0 && errno != ENOENT ? fail("open", dir, err) : MORSEL_OK;
    (void)close(dir_fd);
    if (fd < 0) {
        return rv;
    }
    buf_init(&bytes);
    rv = read_bytes(fd, dir, &bytes, err);
    rv = rv == MORSEL_OK ? parse(&bytes, set) : rv;
    buf_free(&bytes);
    (void)close(fd);
    if (rv == MORSEL_CORRUPT) {
        errmsg_set(err, "%s/%s is damaged", dir, file_name);
    } else if (rv == MORSEL_VERSION) {
        errmsg_set(err, "%s/%s is of a newer format than %d", dir, file_name, KEPT_FORMAT);
    }
    return rv;
}

int voters_kept_write(const char *dir, const struct buf *bytes, struct errmsg *err)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv = MORSEL_OK;

    if (dir_fd < 0) {
        return fail("open", dir, err);
    }
    if (replace_file(dir_fd, file_name, bytes->data, bytes->count, false) != 0) {
        rv = fail("write", dir, err);
    }
    (void)close(dir_fd);
    return rv;
}
