/* Copies a file's bytes into another one, and again what was changed meanwhile (common/fs/exchange.h, "Copied beforehand"). */
#ifndef MORSEL_CLIENT_ADMIN_RECOPY_BYTES_FILE_H
#define MORSEL_CLIENT_ADMIN_RECOPY_BYTES_FILE_H

#include "common/base/errmsg.h"

#include <stdbool.h>
#include <stdint.h>

/* Asked before each piece of bytes, and told how many were copied: false ends it. */
typedef bool (*recopy_go_on)(void *data, uint64_t bytes);

enum recopy_outcome {
    RECOPY_DONE,
    RECOPY_BUSY,    /* It is open on another mount, or was written meanwhile: later, perhaps. */
    RECOPY_OUTRUN,  /* The same, and all of it was copied for that: much later. */
    RECOPY_GONE,    /* Nobody has it any more. */
    RECOPY_STOPPED, /* go_on() said so. */
    RECOPY_FAILED
};

enum {
    RECOPY_PIECE_BYTES = 1 << 20,
    RECOPY_WATCHED_BYTES = 16 << 20 /* What is longer is watched while it is copied in any case. */
};

/* The two files while one is copied into the other. */
struct recopy
{
    const char *directory;
    int from, to;   /* -1: not open. */
    uint8_t *bytes; /* RECOPY_PIECE_BYTES */
    uint64_t size;
    recopy_go_on go_on;
    void *data;
    /* The copy is as the file was, but for what was changed since that watch began; 0: it is not. */
    uint64_t watch;
    /* And but for what lies behind this offset, where the file had ended when it was read. Bytes may have been written there before
     * the watch began, of whom nobody had heard yet how long the file is with them. */
    uint64_t known;
    uint64_t changed; /* So many bytes were copied again, the last time. */
    bool anew;        /* And that was all of it, for nobody knew what was changed. */
    bool ended;       /* The file ended before the size that it had. */
    bool begun; /* Nobody changes it, but programs of this mount, of which EXCHANGE_COMMIT hears. */
    uint64_t paused_ms; /* Others hold still for us since then (recopy_now_ms()); 0: they do not. */
    uint64_t copied;    /* Meanwhile. */
    uint64_t *paused_bytes;
    bool written; /* Somebody wrote: the copy came to nothing, or has to be made once more. */
    struct errmsg *why;
};

uint64_t recopy_now_ms(void);

/* errno in words; RECOPY_BUSY or RECOPY_FAILED. */
enum recopy_outcome recopy_failed(struct recopy *r, const char *what);

/* RECOPY_BUSY, for that reason. */
enum recopy_outcome recopy_busy(struct recopy *r, const char *why);

/* Is it worth to be watched, or longer than what others may hold still for? */
bool recopy_is_long(const struct recopy *r);

/* Begin to watch it, before the first byte is copied. False: it is short, or a server of it cannot. */
bool recopy_watch(struct recopy *r);

/* All of the file, which stays as it is meanwhile, or is watched. */
enum recopy_outcome recopy_all(struct recopy *r);

/* What was changed since r->watch began; the next watch has begun before. Where nobody knows what was, all of it: that is RECOPY_BUSY
 * while others hold still, or where it cannot be watched. */
enum recopy_outcome recopy_changes(struct recopy *r);

#endif
