/* Comparing the copies of a group (docs/replication.md, Verify): which stretches of which objects in which order, what
 * counts as a difference, and who is to get whose bytes.
 *
 * Pure. Who orders has one of these and drives it: the *step* says what is to be asked of which members of the set,
 * their answers come in by verify_listed(), verify_saw() and verify_took(), and when all of them are here there is another step.
 *
 *   LIST  each names its next objects; those of all of them together up to where the shortest list ends
 *    |
 *    +--> LOOK  of each object existence, length, and the checksums of one stretch of VERIFY_BYTES after another;
 *          |    holes that all have are passed over
 *          | something differs: perhaps because a change is under way
 *          v
 *         LOOK, hold  again while nothing is under way there: of a stretch, or of existence and length (the whole object)
 *          | it differs still
 *          v
 *         TAKE, hold  each that is wrong gets the stretch, or the length, from the member that is right
 *
 * Whoever reads a stretch for LOOK verifies it, and repairs what does not match its checksums as when a client reads it; so
 * damage is found on each member by itself. What nobody has is counted, and not compared.
 *
 * Which is right: of three what two of them have. Else of bytes what the member has that orders, for that is
 * what readers were given; of lengths the longer one, also of an object that is not there at all, with the bytes that the other lacked: nothing
 * is taken from anybody that nobody else has. (An object that ought to be gone belongs to no file, and fsck finds it.)
 *
 * A round that is over takes what was asked with it: verify_round() asks again from the stretch that was under way. Another
 * member that orders begins from the first object. */
#ifndef MORSEL_IOD_REPLICA_VERIFY_H
#define MORSEL_IOD_REPLICA_VERIFY_H

#include "common/base/limits.h"
#include "iod/replica/changed.h"
#include "iod/replica/group.h"

enum {
    VERIFY_BYTES = 1 << 20,
    VERIFY_BLOCKS = VERIFY_BYTES / BLOCK_BYTES,
    VERIFY_LIST_MAX = 16 /* Objects that one member names at a time. */
};

/* What a member has there. */
struct verify_seen
{
    bool exists;
    uint64_t size;
    uint64_t next; /* The next byte with data behind the stretch; UINT64_MAX: there is none. */
    uint32_t mended,
        lost; /* Blocks that did not match their checksums: repaired, and of nobody to be had. */
    uint32_t sums[VERIFY_BLOCKS]; /* Of blocks filled up with zeros; behind the end of zeros. */
};

struct verify_item
{
    struct object_id object;
    uint64_t place; /* In the order of stores. */
};

struct verify_list
{
    uint32_t count;
    uint64_t upto; /* All up to there; UINT64_MAX: to the end. */
    struct verify_item items[VERIFY_LIST_MAX];
};

enum verify_step_type { VERIFY_NOTHING, VERIFY_LIST, VERIFY_LOOK, VERIFY_TAKE };

struct verify_step
{
    enum verify_step_type type;
    group_set to;
    bool
        hold; /* Nothing is under way on the stretch, or the object where it is empty, until the next step. */
    struct object_id object;
    struct span span; /* Empty: existence and length alone. */
    uint64_t after;   /* LIST: objects behind that place. */
    uint32_t source;  /* TAKE: whose. */
    uint64_t size;    /* TAKE of a length. */
};

struct verify_counts
{
    uint64_t objects, bytes;
    uint64_t damaged;   /* Blocks that did not match their checksums. */
    uint64_t differing; /* Blocks and lengths that differed although their checksums were right. */
    uint64_t repaired, broken; /* Of both: and those that could not be. */
};

/* What came of a TAKE. */
struct verify_found
{
    struct verify_step step;
    bool repaired;
};

struct verify
{
    uint64_t run; /* 0: none yet. */
    bool running, done;
    group_set set, have;
    uint32_t me;
    struct verify_step step;
    uint64_t steps; /* How many there were. */
    struct verify_counts counts;
    bool has_found;
    struct verify_found found;
    uint64_t after, upto; /* All objects up to `after` are done; `upto`: those of this page. */
    uint32_t objects_count, at;
    struct object_id objects[REPLICAS_MAX * VERIFY_LIST_MAX];
    uint64_t offset; /* In the object. */
    bool sized;      /* Its length is the same at all, */
    uint64_t
        grown[REPLICAS_MAX]; /* but what this member has from there on is no bytes of its own. */
    uint32_t taker, block;
    union {
        struct verify_list lists[REPLICAS_MAX];
        struct verify_seen seen[REPLICAS_MAX];
    };
};

/* From the first object on; behind it comes verify_round(). */
void verify_begin(struct verify *v, uint64_t run);

/* These members are asked from here on, all that is not answered anew. */
void verify_round(struct verify *v, group_set set, uint32_t me);

/* What a member answers to the step; twice the same does no harm. */
void verify_listed(struct verify *v, uint32_t member, const struct verify_list *list);
void verify_saw(struct verify *v, uint32_t member, const struct verify_seen *seen);
void verify_took(struct verify *v, uint32_t member, bool repaired);

/* Which part of all objects is done, in millionths: objects lie in the order of stores as if they were drawn. */
uint32_t verify_part(const struct verify *v);

#endif
