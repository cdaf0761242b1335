/* The kernel reads ahead of a sequential reader by 128 KiB unless it is told otherwise. Whole
 * requests of a mebibyte cost less; root may say so. */
#include "client/fuse/mount_fuse.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void mount_raise_read_ahead(const char *mountpoint)
{
    char path[64], value[16];
    struct statx st;
    int fd;

    /* Without asking the file system for anything: that would be us. */
    if (statx(AT_FDCWD, mountpoint, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st) != 0) {
        return;
    }
    (void)snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", st.stx_dev_major,
                   st.stx_dev_minor);
    (void)snprintf(value, sizeof(value), "%u", MOUNT_REQUEST_BYTES_MAX >> 10);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, value, strlen(value)); /* An ordinary user may not: then it stays. */
        (void)close(fd);
    }
}
