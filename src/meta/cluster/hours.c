/* Hours in which benefactors are here, counted one by one; and what follows from them. */
#include "meta/cluster/hours.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

/* Shares of all of them, each times the seconds of an hour, by what one of them has missed. */
static_assert((uint64_t)DONORS_MAX * HOURS_SHARE_MAX * 3600 <=
                  UINT64_MAX / ((uint64_t)3600 * HOURS_SHARE_MAX * 1000),
              "what is missed fits");

enum {
    HOUR_S = 3600,
    JUMP_S = 60,             /* The local clock may be adjusted by so much at once. */
    SEEN_MIN_S = HOUR_S / 2, /* Of an hour that counts. */
    ABSENCES_FULL = 60000,
    MISSED_UNIT = 1000,
    MISSED_MIN = MISSED_UNIT / 2,
    PERMILLE = 1000,
    ONE = 65536
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static uint32_t slot_of(int64_t hour)
{
    return (uint32_t)(hour - floor_div(hour, HOURS_WEEK) * HOURS_WEEK);
}

/* ---- The table ---- */

void hours_init(struct hours *h)
{
    memset(h, 0, sizeof(*h));
}

void hours_free(struct hours *h)
{
    free(h->items);
    hours_init(h);
}

static uint32_t from(const struct hours *h, donor_id id)
{
    uint32_t low = 0, high = h->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (h->items[middle].record.id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct hours_donor *find(const struct hours *h, donor_id id)
{
    uint32_t at = from(h, id);

    return at < h->count && h->items[at].record.id == id ? &h->items[at] : NULL;
}

/* NULL: out of memory, or there are too many. */
static struct hours_donor *insert(struct hours *h, donor_id id)
{
    uint32_t at = from(h, id), room = h->room == 0 ? 16 : h->room * 2;
    struct hours_donor *items;

    if (h->count == DONORS_MAX) {
        return NULL;
    }
    if (h->count == h->room) {
        if ((items = realloc(h->items, room * sizeof(*items))) == NULL) {
            return NULL;
        }
        h->items = items;
        h->room = room;
    }
    memmove(&h->items[at + 1], &h->items[at], (h->count - at) * sizeof(*items));
    h->count++;
    memset(&h->items[at], 0, sizeof(*items));
    h->items[at].record.id = id;
    memset(h->items[at].record.share, HOURS_SHARE_NONE, HOURS_WEEK);
    return &h->items[at];
}

void hours_forget(struct hours *h, donor_id id)
{
    uint32_t at = from(h, id);

    if (at < h->count && h->items[at].record.id == id) {
        h->count--;
        memmove(&h->items[at], &h->items[at + 1], (h->count - at) * sizeof(*h->items));
    }
}

int64_t hours_away_s(const struct hours *h, donor_id id, const struct hours_time *now)
{
    const struct hours_donor *d = find(h, id);

    return d != NULL && !d->here && d->record.left_local_s != 0 &&
                   now->local_s > d->record.left_local_s
               ? now->local_s - d->record.left_local_s
               : 0;
}

/* ---- Shares ---- */

static bool is_known(const struct hours_donor *d)
{
    return d != NULL && d->known >= HOURS_KNOWN_MIN;
}

/* 0 where there is none. */
static uint32_t share_at(const struct hours_donor *d, int64_t hour)
{
    uint8_t share = d->record.share[slot_of(hour)];

    return share != HOURS_SHARE_NONE ? share : 0;
}

static void set_share(struct hours_donor *d, uint32_t slot, uint32_t share)
{
    d->known += d->record.share[slot] == HOURS_SHARE_NONE;
    d->record.share[slot] = (uint8_t)share;
    if (share > HOURS_SHARE_MAX / 2) {
        d->awake[slot / 64] |= (uint64_t)1 << slot % 64;
    } else {
        d->awake[slot / 64] &= ~((uint64_t)1 << slot % 64);
    }
}

static void learn(struct hours_donor *d, uint32_t slot)
{
    uint32_t share, old = d->record.share[slot];

    if (d->seen_s < SEEN_MIN_S) {
        return;
    }
    share = (d->here_s * HOURS_SHARE_MAX + d->seen_s / 2) / d->seen_s;
    set_share(d, slot, old == HOURS_SHARE_NONE ? share : (3 * old + share + 2) / 4);
    d->changed = true;
}

/* ---- Turnout, and what is missed ---- */

static void count_usual(struct hours *h)
{
    h->usual = h->present = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        uint32_t share = is_known(&h->items[i]) ? share_at(&h->items[i], h->hour) : 0;

        h->usual += share;
        h->present += h->items[i].here ? share : 0;
    }
}

static void count_present(struct hours *h, const struct hours_donor *d)
{
    uint32_t share = is_known(d) ? share_at(d, h->hour) : 0;

    h->present = d->here ? h->present + share : h->present - share;
}

/* What one that is away has missed in so many seconds of that hour. Of `usual` and `present`, in whatever unit, the ratio counts. */
static uint32_t missed_in(const struct hours_donor *d, int64_t hour, int64_t away_s, uint64_t usual,
                          uint64_t present)
{
    if (usual == 0 || present * 2 < usual || away_s <= 0) {
        return 0;
    }
    return (uint32_t)((uint64_t)away_s * share_at(d, hour) * MISSED_UNIT * present /
                      ((uint64_t)HOUR_S * HOURS_SHARE_MAX * usual));
}

/* ---- Hours go by ---- */

static void account(struct hours_donor *d, int64_t until_s)
{
    uint32_t passed_s = until_s > d->from_s ? (uint32_t)(until_s - d->from_s) : 0;

    d->seen_s += passed_s;
    d->here_s += d->here ? passed_s : 0;
    d->from_s = until_s;
}

/* Nothing of this hour has been seen yet. */
static void begin_hour(struct hours *h, int64_t hour, int64_t from_s)
{
    h->hour = hour;
    for (uint32_t i = 0; i < h->count; i++) {
        struct hours_donor *d = &h->items[i];

        d->seen_s = d->here_s = 0;
        d->from_s = from_s;
    }
    count_usual(h);
}

static void decay(struct hours_donor *d)
{
    for (uint32_t i = 0; i < HOURS_ABSENCES; i++) {
        d->record.absences[i] = (uint16_t)(d->record.absences[i] * 3 / 4);
    }
}

static void end_hour(struct hours *h, int64_t end_s)
{
    uint64_t usual = 0, present = 0;

    for (uint32_t i = 0; i < h->count; i++) {
        struct hours_donor *d = &h->items[i];
        uint32_t share = is_known(d) ? share_at(d, h->hour) : 0;

        account(d, end_s);
        usual += (uint64_t)share * d->seen_s;
        present += (uint64_t)share * d->here_s;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        struct hours_donor *d = &h->items[i];
        int64_t away_s = end_s - d->since_s < d->seen_s ? end_s - d->since_s : d->seen_s;

        if (!d->here && d->record.missed < HOURS_MISSED_MAX / 2) {
            d->record.missed += missed_in(d, h->hour, away_s, usual, present);
        }
        learn(d, slot_of(h->hour));
        if (slot_of(h->hour) == HOURS_WEEK - 1) {
            decay(d);
        }
    }
}

/* Behind a jump all begins anew: what lies before it in this hour is nobody's. */
static void advance(struct hours *h, const struct hours_time *now)
{
    int64_t offset_s = now->local_s - now->s, hour = floor_div(now->local_s, HOUR_S);
    int64_t by_s = offset_s - h->offset_s;
    bool jumped =
        !h->begun || by_s > JUMP_S || by_s < -JUMP_S || hour < h->hour || hour > h->hour + 1;

    h->begun = true;
    h->offset_s = offset_s;
    if (jumped) {
        begin_hour(h, hour, now->s);
    } else if (hour == h->hour + 1) {
        int64_t end_s = hour * HOUR_S - offset_s;

        end_hour(h, end_s);
        begin_hour(h, hour, end_s);
    }
}

void hours_tick(struct hours *h, const struct hours_time *now)
{
    advance(h, now);
}

int64_t hours_deadline_s(const struct hours *h)
{
    return h->begun ? (h->hour + 1) * HOUR_S - h->offset_s : INT64_MIN;
}

/* ---- Coming and going ---- */

static uint32_t absence_of(int64_t away_s)
{
    uint32_t i = 0;

    while (i < HOURS_ABSENCES - 1 && away_s > (int64_t)HOURS_ABSENCE_S << i) {
        i++;
    }
    return i;
}

static void note_absence(struct hours_donor *d, int64_t away_s)
{
    uint16_t *count = &d->record.absences[absence_of(away_s)];

    if (d->sure && *count < ABSENCES_FULL) {
        *count += HOURS_ABSENCE_WEIGHT;
    }
}

static struct hours_donor *meet(struct hours *h, donor_id id, const struct hours_time *now)
{
    struct hours_donor *d;

    advance(h, now);
    if ((d = find(h, id)) == NULL && (d = insert(h, id)) != NULL) {
        d->from_s = d->since_s = d->kept_s = now->s;
        d->record.left_local_s = now->local_s;
    }
    return d;
}

void hours_come(struct hours *h, donor_id id, const struct hours_time *now)
{
    struct hours_donor *d = meet(h, id, now);

    if (d == NULL || d->here) {
        return;
    }
    account(d, now->s);
    note_absence(d, now->s - d->since_s);
    d->here = d->sure = d->changed = true;
    d->since_s = now->s;
    d->record.left_local_s = 0;
    d->record.missed = 0;
    count_present(h, d);
}

void hours_go(struct hours *h, donor_id id, const struct hours_time *now)
{
    struct hours_donor *d = meet(h, id, now);

    if (d == NULL || !d->here) {
        return;
    }
    account(d, now->s);
    d->here = false;
    d->changed = true;
    d->since_s = now->s;
    d->record.left_local_s = now->local_s;
    d->record.missed = 0;
    count_present(h, d);
}

/* A clock that was put back since then has it that it has just left. */
int hours_load(struct hours *h, const struct hours_record *record, const struct hours_time *now)
{
    bool away = record->left_local_s != 0 && record->left_local_s <= now->local_s;
    struct hours_donor *d;

    advance(h, now);
    if (find(h, record->id) != NULL || h->count == DONORS_MAX) {
        return MORSEL_CORRUPT;
    }
    if ((d = insert(h, record->id)) == NULL) {
        return MORSEL_NOMEM;
    }
    d->record = *record;
    d->sure = away;
    d->since_s = now->s - (away ? now->local_s - record->left_local_s : 0);
    d->record.left_local_s = away ? record->left_local_s : now->local_s;
    d->from_s = d->kept_s = now->s;
    for (uint32_t i = 0; i < HOURS_WEEK; i++) {
        if (record->share[i] != HOURS_SHARE_NONE) {
            d->known++;
            set_share(d, i, record->share[i]);
        }
    }
    h->usual += is_known(d) ? share_at(d, h->hour) : 0;
    return 0;
}

/* ---- Answers ---- */

bool hours_known(const struct hours *h, donor_id id)
{
    return is_known(find(h, id));
}

uint32_t hours_usual(const struct hours *h, donor_id id, int64_t local_s)
{
    const struct hours_donor *d = find(h, id);

    return is_known(d) ? share_at(d, floor_div(local_s, HOUR_S)) * PERMILLE / HOURS_SHARE_MAX : 0;
}

int64_t hours_back_in(const struct hours *h, donor_id id)
{
    const struct hours_donor *d = find(h, id);

    for (int64_t i = 0; is_known(d) && i < HOURS_WEEK; i++) {
        if (share_at(d, h->hour + i) > HOURS_SHARE_MAX / 2) {
            return i * HOUR_S;
        }
    }
    return INT64_MAX;
}

/* In 1/ONE. */
static uint32_t stays_of(const struct hours_donor *d, int64_t away_s)
{
    uint32_t all = HOURS_ABSENCE_WEIGHT, longer = HOURS_ABSENCE_WEIGHT / 4, at = absence_of(away_s);

    for (uint32_t i = 0; i < HOURS_ABSENCES; i++) {
        all += d->record.absences[i];
        longer += i >= at ? d->record.absences[i] : 0;
    }
    return (uint32_t)((uint64_t)longer * ONE / all);
}

/* Of the current hour, too, as far as it was seen: since it left, the hour began, or the clock jumped. */
static uint32_t missed_of(const struct hours *h, const struct hours_donor *d, int64_t now_s)
{
    int64_t away_s = now_s - d->from_s < HOUR_S ? now_s - d->from_s : HOUR_S;

    return d->record.missed + missed_in(d, h->hour, away_s, h->usual, h->present);
}

uint32_t hours_gone(const struct hours *h, donor_id id, int64_t now_s)
{
    const struct hours_donor *d = find(h, id);
    uint32_t missed, whole, stays, gone = ONE / HOURS_GONE_PART;

    if (!is_known(d) || d->here) {
        return 0;
    }
    if (now_s - d->since_s > HOURS_AWAY_MAX_S) {
        return PERMILLE;
    }
    if ((missed = missed_of(h, d, now_s)) < MISSED_MIN) {
        return 0;
    }
    whole = missed / MISSED_UNIT < 31 ? missed / MISSED_UNIT : 31;
    stays = stays_of(d, now_s - d->since_s) >> whole;
    stays -= (uint32_t)((uint64_t)stays * (missed % MISSED_UNIT) / (2 * (uint64_t)MISSED_UNIT));
    return gone * PERMILLE / (gone + stays);
}

const uint64_t *hours_awake(const struct hours *h, donor_id id)
{
    const struct hours_donor *d = find(h, id);

    return is_known(d) ? d->awake : NULL;
}

/* ---- Keeping ---- */

uint32_t hours_keep(struct hours *h, int64_t now_s, struct hours_record *out, uint32_t max)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < h->count && kept < max; i++) {
        struct hours_donor *d = &h->items[h->keep_at % h->count];

        h->keep_at = (h->keep_at + 1) % h->count;
        if (d->changed && now_s - d->kept_s >= HOURS_KEEP_S) {
            d->changed = false;
            d->kept_s = now_s;
            out[kept++] = d->record;
        }
    }
    return kept;
}

void hours_check(const struct hours *h)
{
    uint64_t usual = 0, present = 0;

    CHECK(h->count <= DONORS_MAX);
    for (uint32_t i = 0; i < h->count; i++) {
        const struct hours_donor *d = &h->items[i];
        uint32_t known = 0, share = is_known(d) ? share_at(d, h->hour) : 0;

        for (uint32_t j = 0; j < HOURS_WEEK; j++) {
            bool bit = (d->awake[j / 64] >> j % 64 & 1) != 0;

            known += d->record.share[j] != HOURS_SHARE_NONE;
            CHECK(bit == (d->record.share[j] != HOURS_SHARE_NONE &&
                          d->record.share[j] > HOURS_SHARE_MAX / 2));
        }
        CHECK(d->record.id != 0 && (i == 0 || h->items[i - 1].record.id < d->record.id));
        CHECK(known == d->known && d->here_s <= d->seen_s);
        CHECK((d->record.left_local_s == 0) == d->here);
        usual += share;
        present += d->here ? share : 0;
    }
    CHECK(usual == h->usual && present == h->present);
}
