/* The text of a data directory's identity file. Pure; datadir_file.c reads and writes the file.
 *
 *   format = 2
 *   role = iod
 *   cluster = <32 hex digits>
 *   node = 3
 *   token = <32 hex digits>
 *   confirmed = <16 hex digits>
 *   pending = <16 hex digits>
 *   start = 7
 *
 * The last three are what starts.h keeps; format 1 had none of them, and is taken over when the file
 * is written the next time.
 *
 * Each line is there once, in this order, and nothing else: what we did not write is not ours.
 */
#ifndef MORSEL_COMMON_DAEMON_DATADIR_FORMAT_H
#define MORSEL_COMMON_DAEMON_DATADIR_FORMAT_H

#include "common/base/errmsg.h"
#include "common/base/types.h"
#include "common/daemon/starts.h"

enum {
    DATADIR_FORMAT = 2,            /* Written; 1 is read. */
    DATADIR_ROLE_BYTES = 32,       /* With the zero at the end. */
    IDENTITY_TEXT_BYTES_MAX = 1024 /* With the zero at the end. */
};

struct identity
{
    uint32_t format;
    char role[DATADIR_ROLE_BYTES]; /* "iod", "meta" */
    struct cluster_id cluster;     /* Zero: not known yet. */
    uint32_t node;                 /* 0: not known yet. */
    uint8_t token[16];             /* Random, made with the directory. */
    struct starts_kept starts;     /* All 0 in format 1. */
};

/* The text of `identity` in its format, terminated. Returns its length without the zero. */
size_t identity_format(const struct identity *identity, char text[IDENTITY_TEXT_BYTES_MAX]);

/* Read the bytes of an identity file; `path` is the data directory, for the words. MORSEL_CORRUPT:
 * identity_format() does not write this. MORSEL_VERSION: a newer format. In both cases `identity`
 * is zero. */
int identity_parse(struct slice bytes, const char *path, struct identity *identity,
                   struct errmsg *err);

/* 32 hex digits and a zero. */
void hex16(const uint8_t bytes[16], char text[33]);

/* What hex16() made; false for everything else. */
bool hex16_parse(const char *text, uint8_t bytes[16]);

#endif
