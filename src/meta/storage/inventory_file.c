/* Writes the list beside the database, and compares it with what is there at the next start. */
#include "meta/storage/inventory_file.h"

#include "common/base/replace_file.h"
#include "common/base/status.h"
#include "meta/storage/journal_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 255 };

#define INVENTORY_NAME "INVENTORY"

static int fail(const char *what, const char *dir, struct errmsg *err)
{
    int rv = status_from_errno(errno);

    errmsg_set(err, "%s %s/" INVENTORY_NAME ": %s", what, dir, strerror(errno));
    return rv;
}

/* Is the file there, and long enough? */
static int check_file(int dir_fd, const char *dir, const char *name, unsigned long long bytes,
                      struct errmsg *err)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        errmsg_set(err, "%s/%s is missing: the database is damaged; restore it from a backup", dir,
                   name);
        return MORSEL_CORRUPT;
    }
    if ((unsigned long long)st.st_size < bytes) {
        errmsg_set(err,
                   "%s/%s is %lld bytes long and was %llu: the database is damaged; restore it "
                   "from a backup",
                   dir, name, (long long)st.st_size, bytes);
        return MORSEL_CORRUPT;
    }
    return 0;
}

int inventory_check(int dir_fd, const char *dir, struct errmsg *err)
{
    int fd = openat(dir_fd, INVENTORY_NAME, O_RDONLY | O_CLOEXEC);
    unsigned long long bytes;
    char name[NAME_MAX_BYTES + 1];
    int fields, rv = 0;
    FILE *file;

    if (fd < 0) {
        return errno == ENOENT ? 0 : fail("open", dir, err);
    }
    if ((file = fdopen(fd, "r")) == NULL) {
        close(fd);
        return MORSEL_NOMEM;
    }
    while (rv == 0 && (fields = fscanf(file, "%255s %llu", name, &bytes)) == 2) {
        rv = strchr(name, '/') != NULL ? MORSEL_CORRUPT : check_file(dir_fd, dir, name, bytes, err);
    }
    if (rv == 0 && fields != EOF) {
        errmsg_set(err, "%s/" INVENTORY_NAME " is damaged", dir);
        rv = MORSEL_CORRUPT;
    }
    (void)fclose(file);
    return rv;
}

int inventory_remove(int dir_fd, const char *dir, struct errmsg *err)
{
    if (unlinkat(dir_fd, INVENTORY_NAME, 0) != 0 && errno != ENOENT) {
        return fail("remove", dir, err);
    }
    return 0;
}

/* Name and length of the MANIFEST that CURRENT points to. */
static bool find_manifest(int dir_fd, char name[NAME_MAX_BYTES + 1], struct stat *st)
{
    int fd = openat(dir_fd, "CURRENT", O_RDONLY | O_CLOEXEC);
    ssize_t count;

    if (fd < 0) {
        return false;
    }
    count = read(fd, name, NAME_MAX_BYTES);
    close(fd);
    if (count <= 0) {
        return false;
    }
    name[count] = 0;
    name[strcspn(name, "\n/")] = 0;
    return fstatat(dir_fd, name, st, AT_SYMLINK_NOFOLLOW) == 0;
}

uint64_t inventory_manifest_bytes(int dir_fd)
{
    char name[NAME_MAX_BYTES + 1];
    struct stat st;

    return find_manifest(dir_fd, name, &st) ? (uint64_t)st.st_size : 0;
}

/* LevelDB's log for people and its lock say nothing about the data. */
static bool counts(const char *name)
{
    return name[0] != '.' && strncmp(name, "LO", 2) != 0 && strncmp(name, "INVENTORY", 9) != 0;
}

/* What is listed must be on disk first: after a loss of power the list would call the database
 * damaged for bytes that LevelDB had not synced yet. */
static int write_all(int dir_fd, const char *dir, FILE *file)
{
    DIR *d = opendir(dir);
    const struct dirent *entry;
    struct stat st;

    if (d == NULL || syncfs(dir_fd) != 0) {
        if (d != NULL) {
            closedir(d);
        }
        return -1;
    }
    while ((entry = readdir(d)) != NULL) {
        if (counts(entry->d_name) &&
            fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            (void)fprintf(file, "%s %lld\n", entry->d_name, (long long)st.st_size);
        }
    }
    closedir(d);
    return 0;
}

/* The length first, then the sync: LevelDB may be writing on. The journal has one length, and is on
 * disk since it was made. */
static int write_manifest(int dir_fd, FILE *file)
{
    char name[NAME_MAX_BYTES + 1];
    struct stat st;
    int fd, rv;

    if (fstatat(dir_fd, JOURNAL_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)fprintf(file, "%s %lld\n", JOURNAL_NAME, (long long)st.st_size);
    }
    if (!find_manifest(dir_fd, name, &st)) {
        return 0;
    }
    fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    (void)fprintf(file, "%s %lld\n", name, (long long)st.st_size);
    rv = fsync(fd);
    close(fd);
    return rv;
}

int inventory_write(int dir_fd, const char *dir, bool all, struct errmsg *err)
{
    char *text = NULL;
    size_t count = 0;
    FILE *file = open_memstream(&text, &count);
    bool good;

    if (file == NULL) {
        return fail("write", dir, err);
    }
    good = (all ? write_all(dir_fd, dir, file) : write_manifest(dir_fd, file)) == 0;
    good = fclose(file) == 0 && good;
    good = good && replace_file(dir_fd, INVENTORY_NAME, text, count, false) == 0;
    if (!good) {
        int rv = fail("write", dir, err);

        free(text);
        return rv;
    }
    free(text);
    return 0;
}
