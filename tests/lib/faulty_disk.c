#include "tests/lib/faulty_disk.h"

#include "common/base/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct faulty_disk disk;

void disk_reset(void)
{
    memset(&disk, 0, sizeof(disk));
}

void disk_fail(enum call call, int code)
{
    atomic_store(&disk.fails[call], code);
}

/* Take note; true when the call is to fail, with errno. */
static bool disk_says_no(enum call call)
{
    int code = atomic_load(&disk.fails[call]);

    atomic_fetch_add(&disk.calls[call], 1);
    if (code == 0 || atomic_fetch_sub(&disk.fails_after[call], 1) > 0) {
        return false;
    }
    errno = code;
    return true;
}

static bool path_of(int fd, char path[512])
{
    char link[64];
    ssize_t count;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    count = readlink(link, path, 511);
    path[count > 0 ? count : 0] = 0;
    return count > 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);

    return a >= b && strcmp(text + a - b, end) == 0;
}

static void note_path(int fd)
{
    if (disk.synced_count < PATHS_MAX && path_of(fd, disk.synced[disk.synced_count])) {
        disk.synced_count++;
    }
}

bool disk_was_synced(const char *end)
{
    for (unsigned i = 0; i < disk.synced_count; i++) {
        if (ends_with(disk.synced[i], end)) {
            return true;
        }
    }
    return false;
}

unsigned disk_waits(void)
{
    return disk.calls[CALL_FDATASYNC] + disk.calls[CALL_FSYNC] + disk.calls[CALL_SYNCFS];
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_syncfs(int fd);
int __wrap_syncfs(int fd);
int __real_fallocate(int fd, int mode, off_t place, off_t length);
int __wrap_fallocate(int fd, int mode, off_t place, off_t length);
int __real_ftruncate(int fd, off_t length);
int __wrap_ftruncate(int fd, off_t length);
ssize_t __real_pwritev(int fd, const struct iovec *vectors, int count, off_t place);
ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int count, off_t place);

int __wrap_fdatasync(int fd)
{
    note_path(fd);
    if (atomic_load(&disk.hold)) {
        atomic_fetch_add(&disk.held, 1);
        while (atomic_load(&disk.hold)) {
            usleep(100);
        }
    }
    if (disk_says_no(CALL_FDATASYNC)) {
        atomic_store(&disk.fails[CALL_FDATASYNC], 0);
        return -1;
    }
    return __real_fdatasync(fd);
}

int __wrap_fsync(int fd)
{
    char path[512] = "";

    note_path(fd);
    if ((disk.only[0] == 0 || (path_of(fd, path) && ends_with(path, disk.only))) &&
        disk_says_no(CALL_FSYNC)) {
        return -1;
    }
    return __real_fsync(fd);
}

int __wrap_syncfs(int fd)
{
    if (disk_says_no(CALL_SYNCFS)) {
        atomic_store(&disk.fails[CALL_SYNCFS], 0);
        return -1;
    }
    return __real_syncfs(fd);
}

int __wrap_fallocate(int fd, int mode, off_t place, off_t length)
{
    return disk_says_no(CALL_FALLOCATE) ? -1 : __real_fallocate(fd, mode, place, length);
}

int __wrap_ftruncate(int fd, off_t length)
{
    return disk_says_no(CALL_FTRUNCATE) ? -1 : __real_ftruncate(fd, length);
}

ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int count, off_t place)
{
    if (atomic_load(&disk.hold_writes)) {
        atomic_fetch_add(&disk.held_writes, 1);
        while (atomic_load(&disk.hold_writes)) {
            usleep(100);
        }
    }
    return disk_says_no(CALL_PWRITEV) ? -1 : __real_pwritev(fd, vectors, count, place);
}

/* ---- A store on it ---- */

struct object_id faulty_id(uint64_t inode)
{
    return (struct object_id){ .inode = inode, .column = 0 };
}

void faulty_fill(uint8_t *bytes, size_t count, uint8_t seed)
{
    for (size_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(seed + i * 7 + i / 251);
    }
}

void faulty_write(struct store_fixture *f, uint64_t inode, uint8_t seed)
{
    uint8_t bytes[FAULTY_BYTES];

    faulty_fill(bytes, sizeof(bytes), seed);
    CHECK(fixture_write(f, faulty_id(inode), 0, bytes, sizeof(bytes)) == 0);
}

int faulty_set_up(void **state)
{
    static struct store_fixture f;

    disk_reset();
    fixture_init(&f);
    f.options.open_files_max = 16;
    fixture_open(&f);
    *state = &f;
    return 0;
}

int faulty_tear_down(void **state)
{
    disk_reset();
    fixture_free(*state);
    return 0;
}
