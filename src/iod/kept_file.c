/* Read as a whole, replaced as a whole. */
#include "iod/kept_file.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/replace_file.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT_FORMAT = 1, HEADER_BYTES = 16, FILE_BYTES_MAX = FRAME_BODY_BYTES_MAX + HEADER_BYTES };

static int fail(const struct kept_kind *kind, const char *what, const char *dir, struct errmsg *err)
{
    int code = errno;

    errmsg_set(err, "%s %s/%s: %s", what, dir, kind->name, strerror(code));
    return status_from_errno(code);
}

bool kept_fill(const struct kept_kind *kind, const ProtobufCMessage *message, struct buf *bytes)
{
    size_t count = protobuf_c_message_get_packed_size(message);

    if (!kind->sound(message) || count > FRAME_BODY_BYTES_MAX ||
        !buf_reserve(bytes, HEADER_BYTES + count)) {
        return false;
    }
    (void)protobuf_c_message_pack(message, bytes->data + HEADER_BYTES);
    memcpy(bytes->data, kind->magic, sizeof(kind->magic));
    put_le32(bytes->data + 8, KEPT_FORMAT);
    put_le32(bytes->data + 12, crc32c(0, bytes->data + HEADER_BYTES, count));
    bytes->count = HEADER_BYTES + count;
    return true;
}

static int parse(const struct kept_kind *kind, const struct buf *b, ProtobufCMessage **message)
{
    if (b->count < HEADER_BYTES || memcmp(b->data, kind->magic, sizeof(kind->magic)) != 0) {
        return MORSEL_CORRUPT;
    }
    if (get_le32(b->data + 8) > KEPT_FORMAT) {
        return MORSEL_VERSION;
    }
    if (get_le32(b->data + 12) != crc32c(0, b->data + HEADER_BYTES, b->count - HEADER_BYTES)) {
        return MORSEL_CORRUPT;
    }
    *message = protobuf_c_message_unpack(kind->descriptor, NULL, b->count - HEADER_BYTES,
                                         b->data + HEADER_BYTES);
    if (*message == NULL || !kind->sound(*message)) {
        protobuf_c_message_free_unpacked(*message, NULL);
        *message = NULL;
        return MORSEL_CORRUPT;
    }
    return MORSEL_OK;
}

static int read_bytes(const struct kept_kind *kind, int fd, const char *dir, struct buf *b,
                      struct errmsg *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return fail(kind, "read", dir, err);
    }
    if (st.st_size > FILE_BYTES_MAX) {
        return MORSEL_CORRUPT;
    }
    if (!buf_reserve(b, (size_t)st.st_size + 1)) {
        errmsg_set(err, "no memory to read %s/%s", dir, kind->name);
        return MORSEL_NOMEM;
    }
    for (;;) {
        ssize_t part = read(fd, b->data + b->count, (size_t)st.st_size - b->count);

        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            return part == 0 ? MORSEL_OK : fail(kind, "read", dir, err);
        }
        b->count += (size_t)part;
    }
}

int kept_read(const struct kept_kind *kind, const char *dir, ProtobufCMessage **message,
              struct errmsg *err)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd, rv;
    struct buf bytes;

    *message = NULL;
    if (dir_fd < 0) {
        return fail(kind, "open", dir, err);
    }
    fd = openat(dir_fd, kind->name, O_RDONLY | O_CLOEXEC);
    rv = fd < 0 && errno != ENOENT ? fail(kind, "open", dir, err) : MORSEL_OK;
    (void)close(dir_fd);
    if (fd < 0) {
        return rv;
    }
    buf_init(&bytes);
    rv = read_bytes(kind, fd, dir, &bytes, err);
    rv = rv == MORSEL_OK ? parse(kind, &bytes, message) : rv;
    buf_free(&bytes);
    (void)close(fd);
    if (rv == MORSEL_CORRUPT) {
        errmsg_set(err, "%s/%s is damaged", dir, kind->name);
    } else if (rv == MORSEL_VERSION) {
        errmsg_set(err, "%s/%s is of a newer format than %d", dir, kind->name, KEPT_FORMAT);
    }
    return rv;
}

int kept_write(const struct kept_kind *kind, const char *dir, const struct buf *bytes,
               struct errmsg *err)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv = MORSEL_OK;

    if (dir_fd < 0) {
        return fail(kind, "open", dir, err);
    }
    if (replace_file(dir_fd, kind->name, bytes->data, bytes->count, false) != 0) {
        rv = fail(kind, "write", dir, err);
    }
    (void)close(dir_fd);
    return rv;
}
