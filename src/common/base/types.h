/* Identifiers that appear in more than one room. */
#ifndef MORSEL_COMMON_BASE_TYPES_H
#define MORSEL_COMMON_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t inode_id; /* Never reused within a cluster. 0 is none, 1 is the root. */
typedef uint32_t
    server_id; /* A storage server, given by the manager at first registration; 0 is none. */
typedef uint32_t donor_id; /* A benefactor, likewise; of another count. 0 is none. */
typedef uint64_t
    client_id; /* A mount or a run of the admin command, random at its start; 0 is none. */
typedef uint64_t op_sequence; /* Numbers a client's changing operations from 1, one by one. */

enum { INODE_NONE = 0, INODE_ROOT = 1 };

/* No file: a lease on it is the right to hold locks (docs/locks.md). */
#define INODE_LOCKS ((inode_id)INT64_MAX)

/* No server's verifier (docs/store.md), but in a record of what is not synced: there were more than
 * the record can name, so that bytes must count as lost. */
#define VERIFIER_ANY UINT64_C(0)

/* A column of a file on one storage server. */
struct object_id
{
    inode_id inode;
    uint32_t column;
};

/* 128 random bits that tell clusters apart; all zero means "not known yet". */
struct cluster_id
{
    uint8_t bytes[16];
};

/* A stretch of memory that somebody else owns. */
struct slice
{
    const uint8_t *data;
    size_t count;
};

#endif
