/* Which parts of which objects: a bounded set that never says less than what was put into it.
 *
 * Pure. What a group's members have to compare when one of them returns (dirty_log.h), and what is
 * about to change (intent.h), are such sets. Bytes are counted in grains, a power of two. A *change*
 * names an object, the generation of its placing, and a stretch of bytes; one without bytes is a
 * new length, a creation or a deletion: whoever comes across the object compares all that is not
 * bytes anyway.
 *
 * What does not fit makes the set coarser, and never smaller, whether it is a bound that is reached
 * or memory that is missing:
 *
 *   stretches ---> stretches with the     ---> the whole object ---> everything
 *                  smallest gaps joined
 *                  (CHANGED_SPANS_MAX an      (no room for its      (no room for the object)
 *                  object, `spans_max` all)    first stretch)
 *
 * Finer it gets only by being taken apart (changed_take()) or cleared.
 *
 * Invariants (changed_check()): stretches of an object are sorted, apart from each other, of whole
 * grains, not empty; a whole object has none; with everything there are no objects. */
#ifndef MORSEL_IOD_REPLICA_CHANGED_H
#define MORSEL_IOD_REPLICA_CHANGED_H

#include "common/base/limits.h"
#include "common/base/types.h"

enum { CHANGED_SPANS_MAX = 32 /* Of one object. */ };

/* Bytes from `start` up to, without, `end`. */
struct span
{
    uint64_t start, end;
};

struct change
{
    struct object_id object;
    uint64_t generation; /* Of the placing, from 1 (tests/model/object_model.py). */
    struct span span;    /* Empty: a length, a creation, a deletion. */
    bool whole;          /* The whole object, however long. */
    bool everything;     /* All objects; nothing else is set. */
};

struct changed;

struct changed_counts
{
    uint32_t objects, whole, spans;
    uint32_t entries; /* As changed_each() shows them. */
    bool everything;
};

/* `grain` is a power of two, BLOCK_BYTES at least. NULL: out of memory. */
struct changed *changed_new(uint32_t objects_max, uint32_t spans_max, uint64_t grain);
void changed_free(struct changed *c); /* NULL is allowed. */
void changed_clear(struct changed *c);

/* The bytes lie below OBJECT_BYTES_MAX. */
void changed_add(struct changed *c, const struct change *change);
void changed_add_all(struct changed *c, const struct changed *from);

bool changed_empty(const struct changed *c);
bool changed_covers(const struct changed *c, const struct change *change);

/* How many bytes the stretches of that object have; UINT64_MAX: it is in it as a whole. */
uint64_t changed_bytes(const struct changed *c, struct object_id id);

/* Takes the next piece out: of stretches `bytes_max` at most (a grain at least), the oldest object
 * first. False: it is empty. */
bool changed_take(struct changed *c, uint64_t bytes_max, struct change *piece);

/* All that was put into it, as coarse as it has become; in no order. False: `visit` said so, which
 * ended it. */
bool changed_each(const struct changed *c, bool (*visit)(void *data, const struct change *change),
                  void *data);
void changed_count(const struct changed *c, struct changed_counts *counts);
void changed_check(const struct changed *c);

#endif
