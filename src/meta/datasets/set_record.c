/* Encodes and decodes what is kept of data sets. */
#include "meta/datasets/set_record.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/stripe.h"

#include <string.h>

enum { SET_RECORD_VERSION = 1, HEAD_VERSION_EVICTION = 2 };

/* Of a head of that version. */
enum {
    HEAD_SCRATCH = 1,
    HEAD_PINNED = 2,
    HEAD_EVICTED = 4,
    HEAD_FETCHED = 8,
    HEAD_FLAGS_KNOWN = HEAD_SCRATCH | HEAD_PINNED | HEAD_EVICTED | HEAD_FETCHED
};

/* With the number of copies, in one byte. */
enum { COPIES_MASK = 0x0f, FLAG_REWRITING = 0x10, FLAGS_KNOWN = COPIES_MASK | FLAG_REWRITING };

/* Of a head, in its last byte. */
enum { HEAD_SEALED = 1, HEAD_ORIGIN = 2, HEAD_RESERVED = 4 };

static int version_check(struct reader *r)
{
    uint8_t version = reader_u8(r);

    return version == 0 ? MORSEL_CORRUPT : version > SET_RECORD_VERSION ? MORSEL_VERSION : 0;
}

bool set_may_go(const struct set_head *head)
{
    return head->scratch || head->fetched;
}

bool set_has_evicted(const struct set_head *head, const struct set_morsel *morsel)
{
    return head->evicted && morsel->number >= head->kept && morsel->donor_count == 0;
}

bool set_is_spared(const struct set_head *head, const struct set_morsel *morsel)
{
    return set_has_evicted(head, morsel) ||
           (morsel->donor_count == 0 && head->sealed && head->has_origin && head->fetched);
}

/* ---- Uses ---- */

bool set_uses_sound(const struct lru_k_uses *uses)
{
    if (uses->count > LRU_K_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < uses->count; i++) {
        if (uses->times_ns[i] > (i == 0 ? uses->last_ns : uses->times_ns[i - 1])) {
            return false;
        }
    }
    return true;
}

void set_uses_encode(const struct lru_k_uses *uses, struct buf *out)
{
    CHECK(uses->count <= LRU_K_MAX);
    buf_put_u64(out, (uint64_t)uses->last_ns);
    buf_put_u8(out, (uint8_t)uses->count);
    for (uint32_t i = 0; i < uses->count; i++) {
        buf_put_u64(out, (uint64_t)uses->times_ns[i]);
    }
}

void set_uses_decode(struct reader *r, struct lru_k_uses *uses)
{
    memset(uses, 0, sizeof(*uses));
    uses->last_ns = (int64_t)reader_u64(r);
    uses->count = reader_u8(r);
    if (uses->count > LRU_K_MAX) {
        r->failed = true;
        uses->count = 0;
    }
    for (uint32_t i = 0; i < uses->count; i++) {
        uses->times_ns[i] = (int64_t)reader_u64(r);
    }
    r->failed |= !set_uses_sound(uses);
}

/* ---- Heads ---- */

bool set_head_is_new(const struct set_head *head)
{
    return head->scratch || head->fetched || head->pinned || head->evicted ||
           head->stored_ns != 0 || head->first_ns != 0 || head->uses.count > 0 ||
           head->uses.last_ns != 0;
}

void set_head_encode(const struct set_head *head, struct buf *out)
{
    bool is_new = set_head_is_new(head);

    buf_put_u8(out, is_new ? HEAD_VERSION_EVICTION : SET_RECORD_VERSION);
    buf_put_u64(out, head->inode);
    buf_put_u64(out, head->writer);
    buf_put_u64(out, (uint64_t)head->made_ns);
    buf_put_u8(out, (uint8_t)head->copies);
    buf_put_u32(out, head->morsel_bytes);
    buf_put_u8(out,
               (uint8_t)((head->sealed ? HEAD_SEALED : 0) | (head->has_origin ? HEAD_ORIGIN : 0) |
                         (head->reserved != 0 ? HEAD_RESERVED : 0)));
    if (is_new) {
        buf_put_u8(out,
                   (uint8_t)((head->scratch ? HEAD_SCRATCH : 0) | (head->pinned ? HEAD_PINNED : 0) |
                             (head->evicted ? HEAD_EVICTED : 0) |
                             (head->fetched ? HEAD_FETCHED : 0)));
        buf_put_u32(out, head->kept);
        buf_put_u64(out, (uint64_t)head->stored_ns);
        buf_put_u64(out, (uint64_t)head->first_ns);
        set_uses_encode(&head->uses, out);
    }
    if (head->reserved != 0) {
        buf_put_u64(out, head->reserved);
    }
}

static void head_decode_eviction(struct reader *r, struct set_head *head)
{
    uint8_t flags = reader_u8(r);

    head->scratch = (flags & HEAD_SCRATCH) != 0;
    head->pinned = (flags & HEAD_PINNED) != 0;
    head->evicted = (flags & HEAD_EVICTED) != 0;
    head->fetched = (flags & HEAD_FETCHED) != 0;
    head->kept = reader_u32(r);
    head->stored_ns = (int64_t)reader_u64(r);
    head->first_ns = (int64_t)reader_u64(r);
    set_uses_decode(r, &head->uses);
    r->failed |=
        (flags & ~HEAD_FLAGS_KNOWN) != 0 || head->kept >= (head->evicted ? SET_MORSELS_MAX : 1);
}

int set_head_decode(uint64_t number, struct slice bytes, struct set_head *head)
{
    struct reader r;
    uint8_t version, flags;

    reader_init(&r, bytes.data, bytes.count);
    version = reader_u8(&r);
    if (version == 0 || version > HEAD_VERSION_EVICTION) {
        return version == 0 ? MORSEL_CORRUPT : MORSEL_VERSION;
    }
    *head = (struct set_head){ .number = number };
    head->inode = reader_u64(&r);
    head->writer = reader_u64(&r);
    head->made_ns = (int64_t)reader_u64(&r);
    head->copies = reader_u8(&r);
    head->morsel_bytes = reader_u32(&r);
    flags = reader_u8(&r);
    head->sealed = (flags & HEAD_SEALED) != 0;
    head->has_origin = (flags & HEAD_ORIGIN) != 0;
    if (version == HEAD_VERSION_EVICTION) {
        head_decode_eviction(&r, head);
    }
    if ((flags & HEAD_RESERVED) != 0) {
        head->reserved = reader_u64(&r);
        r.failed |= head->reserved == 0 || head->reserved > INT64_MAX || head->sealed;
    }
    if (!reader_done(&r) || number == 0 || head->inode == INODE_NONE ||
        (flags & ~(HEAD_SEALED | HEAD_ORIGIN | HEAD_RESERVED)) != 0 || head->copies < 1 ||
        head->copies > REPLICAS_MAX ||
        !stripe_valid(&(struct stripe){ head->morsel_bytes, 1, 1 })) {
        return MORSEL_CORRUPT;
    }
    return 0;
}

void set_page_begin(struct buf *out)
{
    buf_put_u8(out, SET_RECORD_VERSION);
}

void set_page_put(const struct set_morsel *morsel, struct buf *out)
{
    CHECK(morsel->donor_count <= SET_DONORS_MAX);
    buf_put_u8(out, (uint8_t)(morsel->number % SET_PAGE_MORSELS));
    buf_put_u8(out, (uint8_t)(morsel->donor_count | (morsel->rewriting ? FLAG_REWRITING : 0)));
    buf_put_u32(out, morsel->length);
    buf_put_u32(out, morsel->digest);
    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        buf_put_u32(out, morsel->donors[i]);
    }
}

int set_page_open(struct set_page_reader *p, uint32_t page, struct slice bytes)
{
    p->page = page;
    p->last = -1;
    reader_init(&p->r, bytes.data, bytes.count);
    if (page > UINT32_MAX / SET_PAGE_MORSELS) {
        return MORSEL_CORRUPT;
    }
    return version_check(&p->r);
}

int set_page_next(struct set_page_reader *p, struct set_morsel *morsel)
{
    uint8_t place, flags;

    if (reader_done(&p->r)) {
        return 0;
    }
    place = reader_u8(&p->r);
    flags = reader_u8(&p->r);
    memset(morsel, 0, sizeof(*morsel));
    morsel->number = p->page * SET_PAGE_MORSELS + place;
    morsel->rewriting = (flags & FLAG_REWRITING) != 0;
    morsel->donor_count = flags & COPIES_MASK;
    morsel->length = reader_u32(&p->r);
    morsel->digest = reader_u32(&p->r);
    if ((flags & ~FLAGS_KNOWN) != 0 || morsel->donor_count > SET_DONORS_MAX || place <= p->last) {
        return MORSEL_CORRUPT;
    }
    p->last = place;
    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        morsel->donors[i] = reader_u32(&p->r);
    }
    return p->r.failed ? MORSEL_CORRUPT : 1;
}

bool set_morsel_sound(const struct set_head *head, const struct set_morsel *morsel)
{
    uint64_t begin = (uint64_t)morsel->number * head->morsel_bytes;

    if (morsel->length > head->morsel_bytes || begin + morsel->length > INT64_MAX ||
        morsel->donor_count > head->copies + SET_SURPLUS || morsel->donor_count > SET_DONORS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (morsel->donors[j] == morsel->donors[i]) {
                return false;
            }
        }
        if (morsel->donors[i] == 0) {
            return false;
        }
    }
    return true;
}

void waste_encode(uint32_t count, struct buf *out)
{
    buf_put_u8(out, SET_RECORD_VERSION);
    buf_put_u32(out, count);
}

int waste_decode(struct slice bytes, uint32_t *count)
{
    struct reader r;
    int rv;

    reader_init(&r, bytes.data, bytes.count);
    if ((rv = version_check(&r)) != 0) {
        return rv;
    }
    *count = reader_u32(&r);
    return reader_done(&r) && *count > 0 ? 0 : MORSEL_CORRUPT;
}
