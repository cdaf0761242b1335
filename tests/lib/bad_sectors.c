#include "tests/lib/bad_sectors.h"

#include "common/base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct sector
{
    dev_t device;
    ino_t inode;
    uint64_t place;
};

bool sectors_stay;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sector sectors[BAD_SECTORS_MAX];
static uint32_t count;

void sector_lose(const char *path, uint64_t place)
{
    struct stat st;

    CHECK(place % SECTOR_BYTES == 0 && stat(path, &st) == 0);
    pthread_mutex_lock(&lock);
    CHECK(count < BAD_SECTORS_MAX);
    sectors[count++] = (struct sector){ st.st_dev, st.st_ino, place };
    pthread_mutex_unlock(&lock);
}

uint32_t sectors_lost(void)
{
    uint32_t lost;

    pthread_mutex_lock(&lock);
    lost = count;
    pthread_mutex_unlock(&lock);
    return lost;
}

void sectors_forget(void)
{
    pthread_mutex_lock(&lock);
    count = 0;
    sectors_stay = false;
    pthread_mutex_unlock(&lock);
}

/* Does it touch one that is lost? With `writes` those that it covers are none any more. */
static bool is_refused(int fd, uint64_t place, uint64_t bytes, bool writes)
{
    bool refused = false;
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return false;
    }
    pthread_mutex_lock(&lock);
    for (uint32_t i = count; i-- > 0;) {
        const struct sector *s = &sectors[i];
        bool covers = place <= s->place && s->place + SECTOR_BYTES <= place + bytes;

        if (s->device != st.st_dev || s->inode != st.st_ino || s->place >= place + bytes ||
            place >= s->place + SECTOR_BYTES) {
            continue;
        }
        if (writes && covers && !sectors_stay) {
            sectors[i] = sectors[--count];
        } else {
            refused = true;
        }
    }
    pthread_mutex_unlock(&lock);
    errno = refused ? EIO : errno;
    return refused;
}

static uint64_t bytes_of(const struct iovec *vectors, int vectors_count)
{
    uint64_t bytes = 0;

    for (int i = 0; i < vectors_count; i++) {
        bytes += vectors[i].iov_len;
    }
    return bytes;
}

ssize_t __real_pread(int fd, void *bytes, size_t length, off_t place);
ssize_t __wrap_pread(int fd, void *bytes, size_t length, off_t place);
ssize_t __real_preadv2(int fd, const struct iovec *vectors, int number, off_t place, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *vectors, int number, off_t place, int flags);
ssize_t __real_pwritev(int fd, const struct iovec *vectors, int number, off_t place);
ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int number, off_t place);
int __real_fallocate(int fd, int mode, off_t place, off_t length);
int __wrap_fallocate(int fd, int mode, off_t place, off_t length);

ssize_t __wrap_pread(int fd, void *bytes, size_t length, off_t place)
{
    return is_refused(fd, (uint64_t)place, length, false) ? -1
                                                          : __real_pread(fd, bytes, length, place);
}

ssize_t __wrap_preadv2(int fd, const struct iovec *vectors, int number, off_t place, int flags)
{
    return is_refused(fd, (uint64_t)place, bytes_of(vectors, number), false)
               ? -1
               : __real_preadv2(fd, vectors, number, place, flags);
}

ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int number, off_t place)
{
    return is_refused(fd, (uint64_t)place, bytes_of(vectors, number), true)
               ? -1
               : __real_pwritev(fd, vectors, number, place);
}

int __wrap_fallocate(int fd, int mode, off_t place, off_t length)
{
    if ((mode & FALLOC_FL_PUNCH_HOLE) != 0 &&
        is_refused(fd, (uint64_t)place, (uint64_t)length, true)) {
        return -1;
    }
    return __real_fallocate(fd, mode, place, length);
}
