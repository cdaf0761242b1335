/* write, fsync, rename, fsync: in this order, and the first error is the one that is told. */
#include "common/base/replace_file.h"

#include "common/base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool write_whole_file(int fd, const void *bytes, size_t count)
{
    size_t done = 0;

    while (done < count) {
        ssize_t part = pwrite(fd, (const uint8_t *)bytes + done, count - done, (off_t)done);

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

int replace_file(int dir_fd, const char *name, const void *bytes, size_t count, bool anyway)
{
    char beside[REPLACE_NAME_BYTES_MAX + sizeof(".tmp")];
    bool written, synced, moved;
    int fd, code;

    CHECK(strlen(name) <= REPLACE_NAME_BYTES_MAX);
    (void)snprintf(beside, sizeof(beside), "%s.tmp", name);
    fd = openat(dir_fd, beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -1;
    }
    written = write_whole_file(fd, bytes, count);
    synced = written && fsync(fd) == 0;
    code = errno;
    if (close(fd) != 0 && synced) {
        synced = false;
        code = errno;
    }
    moved = (synced || (written && anyway)) && renameat(dir_fd, beside, dir_fd, name) == 0 &&
            fsync(dir_fd) == 0;
    if (synced && moved) {
        return 0;
    }
    errno = synced ? errno : code;
    return -1;
}
