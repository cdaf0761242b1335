/* A disk that has lost sectors, by --wrap of the linker (preadv2, pread, pwritev, fallocate): reading any of one is an
 * error until it has been written as a whole, or a hole is in its place. Of a part that is written the kernel reads the
 * rest first, so that is an error, too. */
#ifndef MORSEL_TESTS_BAD_SECTORS_H
#define MORSEL_TESTS_BAD_SECTORS_H

#include <stdbool.h>
#include <stdint.h>

enum { SECTOR_BYTES = 4096, BAD_SECTORS_MAX = 64 };

/* `place`: of the file, at a multiple of SECTOR_BYTES. */
void sector_lose(const char *path, uint64_t place);

/* How many are lost by now. */
uint32_t sectors_lost(void);
void sectors_forget(void);

/* The disk takes no more writes in place of those, either. */
extern bool sectors_stay;

#endif
