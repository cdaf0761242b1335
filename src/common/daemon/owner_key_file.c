/* Makes and reads the key of a donated directory. */
#include "common/daemon/owner_key_file.h"

#include "common/base/replace_file.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int owner_data_dir(char path[CONFIG_STRING_MAX], struct errmsg *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int count;

    if (geteuid() == 0) {
        (void)snprintf(path, CONFIG_STRING_MAX, "/var/lib/morselfs/benefactor");
        return 0;
    }
    if (data != NULL && data[0] == '/') { /* Others are to be ignored, says the specification. */
        count = snprintf(path, CONFIG_STRING_MAX, "%s/morselfs", data);
    } else if (home != NULL && home[0] == '/') {
        count = snprintf(path, CONFIG_STRING_MAX, "%s/.local/share/morselfs", home);
    } else {
        errmsg_set(err, "neither HOME nor XDG_DATA_HOME says where your files lie: name the "
                        "directory that is donated with data-dir");
        return MORSEL_INVAL;
    }
    if (count >= CONFIG_STRING_MAX) {
        errmsg_set(err,
                   "the path of your home is too long: name the directory that is donated with "
                   "data-dir");
        return MORSEL_INVAL;
    }
    return 0;
}

int owner_key_make(const struct datadir *datadir, const char *listens, struct owner_key *key,
                   struct errmsg *err)
{
    char text[OWNER_KEY_TEXT_BYTES_MAX];
    struct stat st;
    int dir_fd = open(datadir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;

    *key = (struct owner_key){ .lock = 0 };
    random_bytes(key->secret, sizeof(key->secret));
    owner_key_address(listens, key->address);
    if (dir_fd < 0 || fstat(datadir->lock_fd, &st) != 0) {
        code = errno;
    } else {
        key->lock = st.st_ino;
        if (replace_file(dir_fd, "key", text, owner_key_format(key, text), false) != 0) {
            code = errno;
        }
    }
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    if (code != 0) {
        errmsg_set(err, "write %s/key, with which `morsel donate` is let in: %s", datadir->path,
                   strerror(code));
        return status_from_errno(code);
    }
    return 0;
}

void owner_key_remove(const struct datadir *datadir)
{
    int dir_fd = open(datadir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (dir_fd >= 0) {
        (void)unlinkat(dir_fd, "key", 0);
        close(dir_fd);
    }
}

static int not_running(const char *path, struct errmsg *err)
{
    errmsg_set(err,
               "no benefactor runs with %s: start morsel-benefactor, or name the directory with "
               "which it runs by --data-dir",
               path);
    return MORSEL_NOENT;
}

static int cannot_read(const char *path, struct errmsg *err)
{
    const int code = errno;

    if (code == ENOENT || code == ENOTDIR) {
        return not_running(path, err);
    }
    if (code == EACCES || code == EPERM) {
        errmsg_set(err,
                   "%s is another user's: ask its benefactor as that user or as root, or name "
                   "yours with --data-dir",
                   path);
        return MORSEL_ACCES;
    }
    errmsg_set(err, "read %s/key: %s", path, strerror(code));
    return MORSEL_IO;
}

/* Whose files these are is unknown here: nothing is waited for, and no more is read than a key has. */
static int read_key(int dir_fd, const char *path, struct owner_key *key, struct errmsg *err)
{
    uint8_t bytes[OWNER_KEY_TEXT_BYTES_MAX];
    struct stat lock;
    ssize_t count = -1;
    int fd = openat(dir_fd, "key", O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC), rv;

    if (fd < 0) {
        return cannot_read(path, err);
    }
    count = read(fd, bytes, sizeof(bytes));
    rv = count < 0 ? cannot_read(path, err) : 0;
    close(fd);
    if (rv == 0) {
        rv = owner_key_parse((struct slice){ bytes, (size_t)count }, path, key, err);
    }
    if (rv == 0 &&
        (fstatat(dir_fd, "lock", &lock, AT_SYMLINK_NOFOLLOW) != 0 || lock.st_ino != key->lock)) {
        return not_running(path, err); /* It was copied from where one runs. */
    }
    return rv;
}

int owner_key_read(const char *path, struct owner_key *key, struct errmsg *err)
{
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv;

    if (dir_fd < 0) {
        return cannot_read(path, err);
    }
    rv = read_key(dir_fd, path, key, err);
    close(dir_fd);
    return rv;
}
