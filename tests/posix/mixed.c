/* What a random mix of writes, truncations and mapped writes on one file costs.
 *
 *   mixed FILE SEED OPERATIONS
 *
 * The same seed does the same operations. Prints microseconds by the clock for each operation,
 * without the fsync at the end, whose errors count. scripts/bench-ops runs it, and counts that,
 * too; fsfuzz says whether the bytes are right. */
#include "common/base/prng.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 4 << 20, PIECE_BYTES_MAX = 16 << 10, PAGE = 4096 };

struct mix
{
    struct prng prng;
    int fd;
    uint64_t size;
};

static void must(int condition, const char *what)
{
    if (!condition) {
        perror(what);
        exit(1);
    }
}

static void do_write(struct mix *m)
{
    static uint8_t bytes[PIECE_BYTES_MAX];
    uint64_t count = 1 + prng_below(&m->prng, PIECE_BYTES_MAX);
    uint64_t offset = prng_below(&m->prng, FILE_BYTES_MAX - count);

    memset(bytes, (int)offset, count);
    must(pwrite(m->fd, bytes, count, (off_t)offset) == (ssize_t)count, "write");
    m->size = offset + count > m->size ? offset + count : m->size;
}

static void do_truncate(struct mix *m)
{
    m->size = prng_below(&m->prng, FILE_BYTES_MAX);
    must(ftruncate(m->fd, (off_t)m->size) == 0, "truncate");
}

static void do_map(struct mix *m)
{
    uint64_t offset = prng_below(&m->prng, m->size + 1) / PAGE * PAGE;
    uint64_t count = 1 + prng_below(&m->prng, PIECE_BYTES_MAX);
    uint8_t *mapped;

    count = count < m->size - offset ? count : m->size - offset;
    if (count == 0) {
        return;
    }
    mapped = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, (off_t)offset);
    must(mapped != MAP_FAILED, "mmap");
    memset(mapped, (int)offset, count);
    must(munmap(mapped, count) == 0, "munmap");
}

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
    static void (*const operations[])(struct mix * m) = { do_write, do_truncate, do_map };
    unsigned long count = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    struct mix m = { .size = 0 };
    double began_us;

    if (count == 0) {
        (void)fprintf(stderr, "usage: mixed FILE SEED OPERATIONS\n");
        return 2;
    }
    prng_seed(&m.prng, strtoull(argv[2], NULL, 10));
    m.fd = open(argv[1], O_CREAT | O_RDWR | O_TRUNC, 0644);
    must(m.fd >= 0, "open");
    began_us = now_us();
    for (unsigned long i = 0; i < count; i++) {
        operations[prng_below(&m.prng, 3)](&m);
    }
    printf("%.2f\n", (now_us() - began_us) / (double)count);
    must(fsync(m.fd) == 0, "fsync");
    return close(m.fd) == 0 ? 0 : 1;
}
