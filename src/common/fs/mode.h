/* The mode of an inode: its type (S_IFMT) and twelve permission bits, as stat(2) has them, on the
 * wire and on disk. Pure. The names of the bits are those of <sys/stat.h>. */
#ifndef MORSEL_COMMON_FS_MODE_H
#define MORSEL_COMMON_FS_MODE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

enum {
    MODE_BITS = 07777,    /* All that chmod sets, */
    MODE_SET_IDS = 06000, /* of which these change who a program runs as, */
    MODE_ANY_EXECUTE = 0111
};

static_assert(S_IFMT == 0170000 && S_IFREG == 0100000 && S_IFDIR == 0040000 && S_IFLNK == 0120000,
              "modes lie on disk, and go to other machines");

static inline uint32_t mode_type(uint32_t mode)
{
    return mode & S_IFMT;
}

static inline bool mode_is_directory(uint32_t mode)
{
    return S_ISDIR(mode);
}

static inline bool mode_is_regular(uint32_t mode)
{
    return S_ISREG(mode);
}

static inline bool mode_is_symlink(uint32_t mode)
{
    return S_ISLNK(mode);
}

/* What chmod(2) to `bits` makes of it. */
static inline uint32_t mode_with_bits(uint32_t mode, uint32_t bits)
{
    return mode_type(mode) | (bits & MODE_BITS);
}

/* What a write or chown leaves of it: set-user-id goes, and set-group-id where the group may
 * execute. Elsewhere that means something else and stays, as in Linux. */
static inline uint32_t mode_without_set_ids(uint32_t mode)
{
    return mode & ~(uint32_t)(S_ISUID | ((mode & S_IXGRP) != 0 ? S_ISGID : 0));
}

#endif
