/* What the product asks of the system without libuv, or of libuv without a loop: clocks, chance,
 * logs, and what the disk of this machine is not to be asked. Linked with --wrap (CMakeLists.txt).
 */
#include "tests/sim/world/world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>

/* ---- Clocks and chance ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *now);
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags);
time_t __wrap_time(time_t *now);
uint64_t __wrap_boot_id(void);

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    const struct world_process *p = the_world->current;
    int64_t ns;

    the_world->now_ns += 500;
    ns = (int64_t)(p == NULL ? the_world->now_ns : world_host_passed_ns(p->host));
    if (id == CLOCK_REALTIME) {
        ns += INT64_C(1800000000) * 1000000000 + (p == NULL ? 0 : p->host->wall_offset_ns);
    } else if (p != NULL) {
        ns += (int64_t)p->host->boot_offset_ns;
    }
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}

time_t __wrap_time(time_t *now)
{
    struct timespec t;

    (void)__wrap_clock_gettime(CLOCK_REALTIME, &t);
    if (now != NULL) {
        *now = t.tv_sec;
    }
    return t.tv_sec;
}

static void draw_bytes(void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)prng_next(&the_world->prng);
    }
}

ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
    (void)flags;
    draw_bytes(bytes, count);
    return (ssize_t)count;
}

int uv_random(uv_loop_t *loop, uv_random_t *req, void *bytes, size_t count, unsigned flags,
              uv_random_cb cb)
{
    (void)loop;
    (void)flags;
    CHECK(req == NULL && cb == NULL);
    draw_bytes(bytes, count);
    return 0;
}

uint64_t __wrap_boot_id(void)
{
    CHECK(the_world->current != NULL);
    return the_world->current->host->boot_id;
}

/* ---- The disk (and world_disk.c): how much room there is, nothing in the page cache
 * sometimes ---- */

enum {
    DISK_BLOCKS = 1 << 24,
    DISK_LEFT_BLOCKS = 300 /* Of one that is full: what daemons keep in reserve, and a little. */
};

int __wrap_fstatvfs(int fd, struct statvfs *fs);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

int __wrap_fstatvfs(int fd, struct statvfs *fs)
{
    const struct world_process *p = the_world->current;

    (void)fd;
    memset(fs, 0, sizeof(*fs));
    fs->f_bsize = fs->f_frsize = 4096;
    fs->f_blocks = DISK_BLOCKS;
    fs->f_bfree = fs->f_bavail = world_disk_refuses(WORLD_DISK_FULL)
                                     ? DISK_LEFT_BLOCKS
                                     : fs->f_blocks - (p == NULL ? 0 : p->host->disk_others_blocks);
    fs->f_files = fs->f_ffree = fs->f_favail = 1 << 24;
    fs->f_namemax = 255;
    return 0;
}

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
    if ((flags & RWF_NOWAIT) != 0 && world_chance(4)) {
        errno = EAGAIN;
        return -1;
    }
    if ((flags & RWF_NOWAIT) == 0 && world_disk_refuses(WORLD_DISK_READS)) {
        errno = EIO;
        return -1;
    }
    return preadv(fd, iov, count, offset);
}

/* ---- How large we are is no part of a history, nor are processes of this machine ---- */

FILE *__wrap_fopen(const char *path, const char *how);
FILE *__real_fopen(const char *path, const char *how);

FILE *__wrap_fopen(const char *path, const char *how)
{
    static char status[] = "Name:\tprogram\nGroups:\t100 200\n";
    const char *base = strrchr(path, '/');

    if (strcmp(path, "/proc/self/statm") == 0 || strcmp(path, "/proc/stat") == 0) {
        errno = ENOENT;
        return NULL;
    }
    if (strncmp(path, "/proc/", 6) == 0 && strcmp(base, "/status") == 0) {
        return fmemopen(status, sizeof(status) - 1, "r"); /* Of whichever program. */
    }
    return __real_fopen(path, how);
}

/* ---- Logs are part of the history ---- */

struct log
{
    const char *program;
};

struct log *log_open(const char *program, const char *path, enum log_level level)
{
    struct log *log = calloc(1, sizeof(*log));

    (void)path;
    (void)level;
    CHECK(log != NULL);
    log->program = program;
    return log;
}

void log_close(struct log *log)
{
    free(log);
}

void log_write(struct log *log, enum log_level level, const char *format, ...)
{
    va_list args;
    char line[512];

    if (log == NULL || level == LOG_LEVEL_DEBUG) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    world_trace(log->program, "%s", line);
    if (the_world->heard != NULL) {
        the_world->heard(the_world->heard_data, log->program, line);
    }
}

/* ---- libuv without a loop ---- */

uv_buf_t uv_buf_init(char *base, unsigned count)
{
    return (uv_buf_t){ .base = base, .len = count };
}

const char *uv_strerror(int error)
{
    return error == UV_EOF ? "end of file" : error == UV_ECANCELED ? "canceled" : strerror(-error);
}

int uv_ip4_addr(const char *ip, int port, struct sockaddr_in *address)
{
    memset(address, 0, sizeof(*address));
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, ip, &address->sin_addr) == 1 ? 0 : UV_EINVAL;
}

int uv_ip6_addr(const char *ip, int port, struct sockaddr_in6 *address)
{
    memset(address, 0, sizeof(*address));
    address->sin6_family = AF_INET6;
    address->sin6_port = htons((uint16_t)port);
    return inet_pton(AF_INET6, ip, &address->sin6_addr) == 1 ? 0 : UV_EINVAL;
}

int uv_ip_name(const struct sockaddr *address, char *text, size_t size)
{
    const void *bytes = address->sa_family == AF_INET6
                            ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)address)->sin_addr;

    return inet_ntop(address->sa_family, bytes, text, (socklen_t)size) != NULL ? 0 : UV_ENOSPC;
}

int uv_inet_pton(int family, const char *text, void *bytes)
{
    return inet_pton(family, text, bytes) == 1 ? 0 : UV_EINVAL;
}

int uv_getrusage(uv_rusage_t *usage)
{
    memset(usage, 0, sizeof(*usage));
    return 0;
}
