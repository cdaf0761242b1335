/* What of an object was changed since somebody began to watch it, for who copies it meanwhile (common/fs/exchange.h, "Copied
 * beforehand").
 *
 * Pure. A *watch* is of one object, under a number that whoever watches has drawn. It has a bit for each *grain* of the object,
 * and never says less than what was noted since it began. A grain is WATCH_GRAIN_BYTES, and twice as much as often as the object
 * turns out to be too long for WATCH_BITS of them: the bits of two neighbours become one.
 *
 * There are WATCHES_MAX at most, each of 16 KiB: a new one takes the place of the one that was looked at least recently (of the same
 * object, where that has WATCHES_OBJECT_MAX), and none outlives the process, nor its object. So whoever asks is told that a watch is not known, and then has to take all of the
 * object for changed. */
#ifndef MORSEL_COMMON_STORE_WATCHES_H
#define MORSEL_COMMON_STORE_WATCHES_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum {
    WATCHES_MAX = 64,
    WATCHES_OBJECT_MAX = 4, /* Of one object: whoever copies it in rounds needs two. */
    WATCH_BITS = 1 << 17,
    WATCH_GRAIN_BYTES = 64 << 10 /* At first: of objects up to 8 GiB. */
};

struct watch
{
    struct object_id id;
    uint64_t number;
    uint64_t looked; /* Of the clock below. */
    uint32_t shift;  /* A grain has so many times been doubled. */
    uint64_t bits[WATCH_BITS / 64];
};

struct watches
{
    struct watch *all[WATCHES_MAX]; /* The first `count`. */
    uint32_t count;
    uint64_t clock; /* Counts begins and looks. */
};

/* Is the object perhaps among those with that mark? All marks of watched objects together say for most others that they are not
 * watched. */
uint64_t watches_mark(struct object_id id);
uint64_t watches_marks(const struct watches *w);

/* A stretch of an object: bytes from `start` up to, without, `end`. */
struct watch_stretch
{
    uint64_t start, end;
};

/* Watch the object under that number, which is not 0; whoever does already goes on. False: out of memory. */
bool watches_begin(struct watches *w, struct object_id id, uint64_t number);

/* Bytes of the object from `start` up to `end` are about to be changed. */
void watches_note(struct watches *w, struct object_id id, uint64_t start, uint64_t end);

/* It is gone. */
void watches_drop(struct watches *w, struct object_id id);

/* Stretches that were noted since, in their order, from the grain in which `from` lies on, `stretches_max` at most. `next`: where to
 * go on; UINT64_MAX: that was all. False: the watch is not known. */
bool watches_changed(struct watches *w, struct object_id id, uint64_t number, uint64_t from,
                     struct watch_stretch *stretches, uint32_t stretches_max, uint32_t *count,
                     uint64_t *next);

void watches_free(struct watches *w);

#endif
