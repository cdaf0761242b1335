/* How a data set is kept in the store: its head (Z), and the pages of its map (P).
 *
 * Pure. A page has SET_PAGE_MORSELS morsels, of which only those are written that were ever stored: 10 bytes, and 4 for each
 * copy. Decoding trusts nothing, as in record.h.
 */
#ifndef MORSEL_META_DATASETS_SET_RECORD_H
#define MORSEL_META_DATASETS_SET_RECORD_H

#include "common/base/buf.h"
#include "common/base/limits.h"
#include "common/base/types.h"
#include "meta/datasets/lru_k.h"

enum {
    SET_PAGE_MORSELS = 256,
    SET_SURPLUS = 1, /* A morsel may have one copy more than is wanted: repair.h says why. */
    SET_DONORS_MAX = REPLICAS_MAX + SET_SURPLUS
};

/* What does not change with each morsel. */
struct set_head
{
    uint64_t number;  /* Never recurs; of the count of inodes. */
    inode_id inode;   /* The file whose bytes these are. */
    client_id writer; /* Who stores it, or has. */
    int64_t made_ns;  /* The manager's clock, signed since 1970. */
    uint32_t copies;  /* That are wanted. */
    uint32_t morsel_bytes;
    bool sealed;
    uint64_t
        reserved; /* So many bytes it is to have, and is not sealed before; 0: nobody has said. */
    bool has_origin; /* There is a record of where its bytes come from. */
    bool scratch;    /* Its morsels may be evicted: its maker can do without them. */
    bool fetched;    /* Or mounts fetch them again from its origin, which is one that they visit. */
    bool pinned;     /* Not for now, says a user. */
    bool evicted;    /* Its end was: */
    uint32_t kept;   /* those from this one on that nobody has. 0 when it was not. */
    int64_t stored_ns;      /* When it was sealed; 0: it is not, or need not be known. */
    int64_t first_ns;       /* When it was first read; 0: it was not, or need not be known. */
    struct lru_k_uses uses; /* As last written down (namespace_evict.c). */
};

struct set_morsel
{
    uint32_t number;
    uint32_t length; /* Its bytes end here: what is behind it, within the file, reads as zeros. */
    uint32_t digest; /* As in dataset.proto. */
    bool rewriting;  /* There is no digest. */
    uint32_t donor_count;            /* 0: it is lost for now. */
    donor_id donors[SET_DONORS_MAX]; /* In the order in which they got it. */
};

/* May its morsels be evicted, as far as what it is decides that? The one place where that stands. */
bool set_may_go(const struct set_head *head);

/* Was that morsel of the set evicted, and has not come back (namespace_copies.c)? */
bool set_has_evicted(const struct set_head *head, const struct set_morsel *morsel);

/* Has nobody that morsel, and is it no loss: was it evicted, or does whoever reads it fetch it from its origin again? */
bool set_is_spared(const struct set_head *head, const struct set_morsel *morsel);

/* As lru_k.h wants them. */
bool set_uses_sound(const struct lru_k_uses *uses);
void set_uses_encode(const struct lru_k_uses *uses, struct buf *out);
void set_uses_decode(struct reader *r, struct lru_k_uses *uses);

/* Is there more to be written than programs understand that know nothing of eviction? */
bool set_head_is_new(const struct set_head *head);

void set_head_encode(const struct set_head *head, struct buf *out);
int set_head_decode(uint64_t number, struct slice bytes, struct set_head *head);

/* The next morsel of a page, in ascending order of numbers. The first call begins the page. */
void set_page_begin(struct buf *out);
void set_page_put(const struct set_morsel *morsel, struct buf *out);

/* Begin to read a page, and read one morsel after the other: 1, 0 at the end; MORSEL_CORRUPT, MORSEL_VERSION. */
struct set_page_reader
{
    struct reader r;
    uint32_t page;
    int64_t last; /* Number within the page of the one before; -1: none. */
};
int set_page_open(struct set_page_reader *p, uint32_t page, struct slice bytes);
int set_page_next(struct set_page_reader *p, struct set_morsel *morsel);

/* Is it one that a set like this may have: lengths, donors that differ, not too many? */
bool set_morsel_sound(const struct set_head *head, const struct set_morsel *morsel);

/* K: so many morsels. */
void waste_encode(uint32_t count, struct buf *out);
int waste_decode(struct slice bytes, uint32_t *count);

#endif
