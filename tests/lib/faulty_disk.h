/* A store on a disk whose calls can be watched, held up and made to fail, by --wrap of the linker.
 */
#ifndef MORSEL_TESTS_FAULTY_DISK_H
#define MORSEL_TESTS_FAULTY_DISK_H

#include "common/base/limits.h"
#include "tests/lib/store_fixture.h"

#include <stdatomic.h>

enum call { CALL_FDATASYNC, CALL_FSYNC, CALL_SYNCFS, CALL_FALLOCATE, CALL_FTRUNCATE, CALL_PWRITEV };
enum { CALLS = 6, PATHS_MAX = 16 };

/* As the kernel does it, an error of fdatasync and syncfs is told once. */
struct faulty_disk
{
    _Atomic int fails[CALLS];       /* errno of such calls; 0: none. */
    _Atomic int fails_after[CALLS]; /* That many succeed before. */
    _Atomic unsigned calls[CALLS];
    char synced[PATHS_MAX][512]; /* Paths of fsync and fdatasync, in order. */
    unsigned synced_count;
    char only[64]; /* fsync fails only on paths that end so. */
    atomic_bool hold;
    _Atomic unsigned held; /* Calls of fdatasync that wait for `hold` to end. */
    atomic_bool hold_writes;
    _Atomic unsigned held_writes; /* Likewise of pwritev. */
};

extern struct faulty_disk disk;

void disk_reset(void);
void disk_fail(enum call call, int code);
bool disk_was_synced(const char *end);
unsigned disk_waits(void);

enum { FAULTY_BYTES = 3 * BLOCK_BYTES };

struct object_id faulty_id(uint64_t inode);
void faulty_fill(uint8_t *bytes, size_t count, uint8_t seed);

/* FAULTY_BYTES of them at 0; must succeed. */
void faulty_write(struct store_fixture *f, uint64_t inode, uint8_t seed);

/* For cmocka: `*state` is a store_fixture with 16 open files. */
int faulty_set_up(void **state);
int faulty_tear_down(void **state);

#endif
