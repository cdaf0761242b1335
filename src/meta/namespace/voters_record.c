/* Two sets, each with its version, and with each id the server. */
#include "meta/namespace/voters_record.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/record.h"

/* The place of `id`, or where it belongs. */
static uint32_t seat_at(const struct voter_seats *seats, voter_id id)
{
    uint32_t low = 0, high = seats->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (seats->items[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct voter_seat *voter_seats_find(const struct voter_seats *seats, voter_id id)
{
    uint32_t at = seat_at(seats, id);

    return at < seats->count && seats->items[at].id == id ? &seats->items[at] : NULL;
}

/* ---- Encoding ---- */

static void set_encode(const struct voter_set *set, const struct voter_seats *seats,
                       struct buf *out)
{
    buf_put_u32(out, set->count);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct voter_seat *seat = voter_seats_find(seats, set->ids[i]);

        CHECK(seat != NULL);
        buf_put_u64(out, seat->id);
        buf_put_u32(out, seat->server);
    }
}

void voters_record_encode(const struct voters_record *record, const struct voter_seats *seats,
                          struct buf *out)
{
    buf_put_u8(out, RECORD_VERSION);
    buf_put_u64(out, record->version_last);
    buf_put_u64(out, record->set.version);
    set_encode(&record->set, seats, out);
    buf_put_u64(out, record->next.version);
    if (record->next.version != 0) {
        set_encode(&record->next, seats, out);
    }
}

/* ---- Decoding ---- */

/* False: somebody else's, or too many. */
static bool seat_add(struct voter_seats *seats, struct voter_seat seat)
{
    uint32_t at = seat_at(seats, seat.id);

    if (at < seats->count && seats->items[at].id == seat.id) {
        return seats->items[at].server == seat.server;
    }
    if (seats->count == VOTER_SEATS_MAX) {
        return false;
    }
    memmove(&seats->items[at + 1], &seats->items[at],
            (seats->count - at) * sizeof(seats->items[0]));
    seats->items[at] = seat;
    seats->count++;
    return true;
}

static bool set_decode(struct reader *r, struct voter_set *set, struct voter_seats *seats)
{
    set->count = reader_u32(r);
    if (r->failed || set->count > VOTERS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        struct voter_seat seat = { reader_u64(r), 0 };

        seat.server = reader_u32(r);
        set->ids[i] = seat.id;
        if (r->failed || !seat_add(seats, seat)) {
            return false;
        }
    }
    return voter_set_valid(set);
}

/* One voter is gone, or has come, or all are as before. */
static bool is_one_step(const struct voter_set *a, const struct voter_set *b)
{
    const struct voter_set *small = a->count < b->count ? a : b;
    const struct voter_set *large = a->count < b->count ? b : a;

    if (large->count - small->count > 1) {
        return false;
    }
    for (uint32_t i = 0; i < small->count; i++) {
        if (voter_set_find(large, small->ids[i]) == large->count) {
            return false;
        }
    }
    return true;
}

static bool next_decode(struct reader *r, struct voters_record *record, struct voter_seats *seats)
{
    record->next.version = reader_u64(r);
    if (r->failed || record->next.version == 0) {
        return !r->failed;
    }
    return set_decode(r, &record->next, seats) && record->next.version > record->set.version &&
           record->next.version <= record->version_last && is_one_step(&record->set, &record->next);
}

int voters_record_decode(struct slice bytes, struct voters_record *record,
                         struct voter_seats *seats)
{
    struct reader r;
    uint8_t version;

    memset(record, 0, sizeof(*record));
    memset(seats, 0, sizeof(*seats));
    reader_init(&r, bytes.data, bytes.count);
    version = reader_u8(&r);
    if (version > RECORD_VERSION) {
        return MORSEL_VERSION;
    }
    record->version_last = reader_u64(&r);
    record->set.version = reader_u64(&r);
    if (version == 0 || !set_decode(&r, &record->set, seats) ||
        record->version_last < record->set.version ||
        record->version_last >= VOTE_VERSION_END / 2 || !next_decode(&r, record, seats)) {
        return MORSEL_CORRUPT;
    }
    return reader_done(&r) ? 0 : MORSEL_CORRUPT;
}
