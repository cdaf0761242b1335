/* Sets in the order of their numbers, pages of words, donors in the order of theirs. */
#include "meta/datasets/sets.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

/* A morsel is HEAD_WORDS + copies + SET_SURPLUS words: length with two flags, digest, donors (0: none). */
enum { WORD_LENGTH, WORD_DIGEST, HEAD_WORDS };

#define WORD_PRESENT     ((uint32_t)1 << 30)
#define WORD_REWRITING   ((uint32_t)1 << 31)
#define WORD_LENGTH_MASK (WORD_PRESENT - 1)

static_assert(MORSEL_BYTES_MAX < (1 << 30), "a length leaves two bits");

struct set_page
{
    uint32_t room; /* Morsels. */
    uint32_t words[];
};

static uint32_t morsel_words(const struct data_set *set)
{
    return HEAD_WORDS + set->head.copies + SET_SURPLUS;
}

/* ---- Memory ---- */

void sets_init(struct sets *s)
{
    memset(s, 0, sizeof(*s));
}

static void set_free(struct data_set *set)
{
    if (set == NULL) {
        return;
    }
    for (uint32_t i = 0; i < set->pages_room; i++) {
        free(set->pages[i]);
    }
    free(set->pages);
    free(set->donors);
    free(set->waste);
    free(set);
}

void sets_free(struct sets *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        set_free(s->items[i]);
    }
    for (uint32_t i = 0; i < s->donor_count; i++) {
        free(s->donors[i].sets);
    }
    set_free(s->pending);
    free(s->items);
    free(s->donors);
    sets_init(s);
}

enum { ROOM_MIN = 4 };

/* The items, with room for `wanted` (not 0) of `bytes` each; there was some for *room. NULL: no memory, and they are as they
 * were. */
static void *grow(void *items, uint32_t *room, uint32_t wanted, size_t bytes)
{
    uint32_t more = *room < ROOM_MIN ? ROOM_MIN : *room;
    void *grown;

    if (wanted <= *room) {
        return items;
    }
    while (more < wanted) {
        more *= 2;
    }
    if ((grown = realloc(items, (size_t)more * bytes)) != NULL) {
        *room = more;
    }
    return grown;
}

/* ---- Looking ---- */

uint32_t sets_from(const struct sets *s, uint64_t number)
{
    uint32_t low = 0, high = s->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (s->items[middle]->head.number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct data_set *find(const struct sets *s, uint64_t number)
{
    uint32_t at = sets_from(s, number);

    return at < s->count && s->items[at]->head.number == number ? s->items[at] : NULL;
}

const struct data_set *sets_find(const struct sets *s, uint64_t number)
{
    return find(s, number);
}

/* NULL: no such morsel was stored. */
static uint32_t *words_of(const struct data_set *set, uint32_t number)
{
    uint32_t page = number / SET_PAGE_MORSELS, place = number % SET_PAGE_MORSELS;
    uint32_t *words;

    if (page >= set->pages_room || set->pages[page] == NULL || place >= set->pages[page]->room) {
        return NULL;
    }
    words = set->pages[page]->words + (size_t)place * morsel_words(set);
    return (words[WORD_LENGTH] & WORD_PRESENT) != 0 ? words : NULL;
}

bool set_get(const struct data_set *set, uint32_t number, struct set_morsel *morsel)
{
    const uint32_t *words = words_of(set, number);

    if (words == NULL) {
        return false;
    }
    memset(morsel, 0, sizeof(*morsel));
    morsel->number = number;
    morsel->length = words[WORD_LENGTH] & WORD_LENGTH_MASK;
    morsel->rewriting = (words[WORD_LENGTH] & WORD_REWRITING) != 0;
    morsel->digest = words[WORD_DIGEST];
    for (uint32_t i = HEAD_WORDS; i < morsel_words(set) && words[i] != 0; i++) {
        morsel->donors[morsel->donor_count++] = words[i];
    }
    return true;
}

bool set_next(const struct data_set *set, uint32_t from, struct set_morsel *morsel)
{
    uint32_t place = from % SET_PAGE_MORSELS;

    for (uint32_t page = from / SET_PAGE_MORSELS; page < set->pages_room; page++) {
        uint32_t room = set->pages[page] != NULL ? set->pages[page]->room : 0;

        for (; place < room; place++) {
            if (set_get(set, page * SET_PAGE_MORSELS + place, morsel)) {
                return true;
            }
        }
        place = 0;
    }
    return false;
}

bool set_is_waste(const struct data_set *set, donor_id donor, uint32_t morsel)
{
    for (uint32_t i = 0; i < set->waste_count; i++) {
        if (set->waste[i].donor == donor && set->waste[i].morsel == morsel) {
            return true;
        }
    }
    return false;
}

bool set_morsel_has(const struct set_morsel *morsel, donor_id donor)
{
    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        if (morsel->donors[i] == donor) {
            return true;
        }
    }
    return false;
}

/* ---- Donors of a set, sets of a donor ---- */

/* Its place among the donors of the set, or where it would be. */
static uint32_t donor_place(const struct data_set *set, donor_id id)
{
    uint32_t low = 0, high = set->donor_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (set->donors[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t set_morsels_at(const struct data_set *set, donor_id donor)
{
    uint32_t at = donor_place(set, donor);

    return at < set->donor_count && set->donors[at].id == donor ? set->donors[at].morsels : 0;
}

static uint32_t index_place(const struct sets *s, donor_id id)
{
    uint32_t low = 0, high = s->donor_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (s->donors[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct donor_sets *find_donor(const struct sets *s, donor_id id)
{
    uint32_t at = index_place(s, id);

    return at < s->donor_count && s->donors[at].id == id ? &s->donors[at] : NULL;
}

const struct donor_sets *sets_of_donor(const struct sets *s, donor_id donor)
{
    return find_donor(s, donor);
}

int sets_reserve_donor(struct sets *s, donor_id donor)
{
    uint32_t at = index_place(s, donor);
    struct donor_sets *donors;

    if (at < s->donor_count && s->donors[at].id == donor) {
        return 0;
    }
    donors = grow(s->donors, &s->donors_room, s->donor_count + 1, sizeof(*donors));
    if (donors == NULL) {
        return MORSEL_NOMEM;
    }
    s->donors = donors;
    memmove(&s->donors[at + 1], &s->donors[at], (s->donor_count - at) * sizeof(s->donors[0]));
    s->donors[at] = (struct donor_sets){ .id = donor };
    s->donor_count++;
    return 0;
}

uint32_t donor_sets_from(const struct donor_sets *d, uint64_t number)
{
    uint32_t low = 0, high = d->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (d->sets[middle] < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int list_set(struct sets *s, donor_id donor, uint64_t number)
{
    struct donor_sets *d;
    uint64_t *sets;
    uint32_t at;
    int rv = sets_reserve_donor(s, donor);

    if (rv != 0) {
        return rv;
    }
    d = find_donor(s, donor);
    at = donor_sets_from(d, number);
    if (at < d->count && d->sets[at] == number) {
        return 0;
    }
    if ((sets = grow(d->sets, &d->room, d->count + 1, sizeof(*sets))) == NULL) {
        return MORSEL_NOMEM;
    }
    d->sets = sets;
    memmove(&d->sets[at + 1], &d->sets[at], (d->count - at) * sizeof(d->sets[0]));
    d->sets[at] = number;
    d->count++;
    return 0;
}

static void unlist_set(struct sets *s, donor_id donor, uint64_t number)
{
    struct donor_sets *d = find_donor(s, donor);
    uint32_t at = d != NULL ? donor_sets_from(d, number) : 0;

    if (d != NULL && at < d->count && d->sets[at] == number) {
        memmove(&d->sets[at], &d->sets[at + 1], (d->count - at - 1) * sizeof(d->sets[0]));
        d->count--;
    }
}

/* With nothing yet: that a change may find it. */
static int list_donor(struct sets *s, struct data_set *set, donor_id donor)
{
    uint32_t at = donor_place(set, donor);
    struct set_donor *donors;
    int rv;

    if (at < set->donor_count && set->donors[at].id == donor) {
        return 0;
    }
    if ((rv = list_set(s, donor, set->head.number)) != 0) {
        return rv;
    }
    donors = grow(set->donors, &set->donors_room, set->donor_count + 1, sizeof(*donors));
    if (donors == NULL) {
        return MORSEL_NOMEM;
    }
    set->donors = donors;
    memmove(&set->donors[at + 1], &set->donors[at],
            (set->donor_count - at) * sizeof(set->donors[0]));
    set->donors[at] = (struct set_donor){ .id = donor };
    set->donor_count++;
    return 0;
}

/* ---- Room ---- */

static int reserve_page(struct data_set *set, uint32_t page)
{
    uint32_t before = set->pages_room;
    struct set_page **pages =
        grow(set->pages, &set->pages_room, page + 1, sizeof(struct set_page *));

    if (pages == NULL) {
        return MORSEL_NOMEM;
    }
    set->pages = pages;
    for (uint32_t i = before; i < set->pages_room; i++) {
        set->pages[i] = NULL;
    }
    return 0;
}

static int reserve_morsel(struct data_set *set, uint32_t number)
{
    uint32_t page = number / SET_PAGE_MORSELS, place = number % SET_PAGE_MORSELS;
    uint32_t before, room = 4;
    size_t each = morsel_words(set) * sizeof(uint32_t);
    struct set_page *grown;
    int rv = reserve_page(set, page);

    if (rv != 0) {
        return rv;
    }
    before = set->pages[page] != NULL ? set->pages[page]->room : 0;
    if (place < before) {
        return 0;
    }
    while (room <= place) {
        room *= 2;
    }
    if ((grown = realloc(set->pages[page], sizeof(*grown) + room * each)) == NULL) {
        return MORSEL_NOMEM;
    }
    memset((char *)grown->words + before * each, 0, (room - before) * each);
    grown->room = room;
    set->pages[page] = grown;
    return 0;
}

static void drop_pending(struct sets *s)
{
    if (s->pending != NULL) {
        for (uint32_t i = 0; i < s->pending->donor_count; i++) {
            unlist_set(s, s->pending->donors[i].id, s->pending->head.number);
        }
        set_free(s->pending);
        s->pending = NULL;
    }
}

/* NULL: no memory. */
static struct data_set *set_for(struct sets *s, const struct set_head *head)
{
    struct data_set *set = find(s, head->number);
    struct data_set **items;

    if (set != NULL) {
        return set;
    }
    drop_pending(s);
    if ((items = grow(s->items, &s->room, s->count + 1, sizeof(struct data_set *))) == NULL) {
        return NULL;
    }
    s->items = items;
    if ((s->pending = calloc(1, sizeof(*s->pending))) != NULL) {
        s->pending->head = *head;
    }
    return s->pending;
}

static int reserve_waste(struct data_set *set, uint32_t more)
{
    uint32_t wanted = set->waste_count + (more <= SET_WASTE_MAX ? more : SET_WASTE_MAX);
    struct set_waste *waste;

    wanted = wanted <= SET_WASTE_MAX ? wanted : SET_WASTE_MAX;
    if (wanted == 0) {
        return 0;
    }
    if ((waste = grow(set->waste, &set->waste_room, wanted, sizeof(*waste))) == NULL) {
        return MORSEL_NOMEM;
    }
    set->waste = waste;
    return 0;
}

int sets_reserve(struct sets *s, const struct set_head *head, const struct set_change *changes,
                 uint32_t count, uint32_t waste)
{
    struct data_set *set = set_for(s, head);
    int rv = 0;

    if (set == NULL) {
        return MORSEL_NOMEM;
    }
    if (set == s->pending && s->count == DATA_SETS_MAX) {
        return MORSEL_TOO_LARGE;
    }
    for (uint32_t i = 0; rv == 0 && i < count; i++) {
        const struct set_morsel *m = &changes[i].morsel;

        rv = reserve_morsel(set, m->number);
        for (uint32_t j = 0; rv == 0 && j < m->donor_count; j++) {
            rv = list_donor(s, set, m->donors[j]);
        }
    }
    return rv != 0 ? rv : reserve_waste(set, waste);
}

/* ---- Changing ---- */

void set_page_encode(const struct data_set *set, uint32_t page, const struct set_change *changes,
                     uint32_t count, struct buf *out)
{
    uint32_t first = page * SET_PAGE_MORSELS, at = 0;

    set_page_begin(out);
    while (at < count && changes[at].morsel.number < first) {
        at++;
    }
    for (uint32_t i = 0; i < SET_PAGE_MORSELS; i++) {
        struct set_morsel morsel;

        if (at < count && changes[at].morsel.number == first + i) {
            set_page_put(&changes[at++].morsel, out);
        } else if (set != NULL && set_get(set, first + i, &morsel)) {
            set_page_put(&morsel, out);
        }
    }
}

static bool is_whole(const struct set_morsel *m, uint32_t morsel_bytes, uint64_t end)
{
    uint64_t left = end - (uint64_t)m->number * morsel_bytes;

    return !m->rewriting && m->donor_count > 0 &&
           m->length >= (left < morsel_bytes ? left : morsel_bytes);
}

bool set_missing(const struct data_set *set, uint32_t morsel_bytes, uint64_t from, uint64_t end,
                 struct set_range *range)
{
    uint64_t number = from / morsel_bytes;
    uint64_t count = end / morsel_bytes + (end % morsel_bytes != 0);
    struct set_morsel m;

    count = count < SET_MORSELS_MAX ? count : SET_MORSELS_MAX;
    while (set != NULL && number < count && set_get(set, (uint32_t)number, &m) &&
           is_whole(&m, morsel_bytes, end)) {
        number++;
    }
    if (number >= count) {
        return false;
    }
    range->offset = number * morsel_bytes;
    number++;
    while (number < count && set != NULL) {
        if (!set_next(set, (uint32_t)number, &m) || m.number >= count) {
            number = count;
        } else if (is_whole(&m, morsel_bytes, end)) {
            number = m.number;
            break;
        } else {
            number = (uint64_t)m.number + 1;
        }
    }
    number = set != NULL ? number : count;
    range->length = (number == count ? end : number * morsel_bytes) - range->offset;
    return true;
}

void sets_made(struct sets *s, const struct set_head *head)
{
    uint32_t at = sets_from(s, head->number);

    CHECK(s->pending != NULL && s->pending->head.number == head->number && s->count < s->room);
    memmove(&s->items[at + 1], &s->items[at], (s->count - at) * sizeof(struct data_set *));
    s->items[at] = s->pending;
    s->items[at]->head = *head;
    s->count++;
    s->pending = NULL;
}

static void count_donors(struct data_set *set, const struct set_morsel *morsel, uint32_t by)
{
    for (uint32_t i = 0; i < morsel->donor_count; i++) {
        uint32_t at = donor_place(set, morsel->donors[i]);

        CHECK(at < set->donor_count && set->donors[at].id == morsel->donors[i]);
        set->donors[at].morsels += by;
    }
}

/* Of all sets: one has come (1), or is gone (UINT64_MAX), that has more copies than are wanted. */
static void count_fat(struct sets *s, struct data_set *set, const struct set_morsel *m, uint64_t by)
{
    if (m->donor_count > set->head.copies) {
        set->fat += (uint32_t)by;
        s->fat += by;
    }
}

static void put(struct sets *s, struct data_set *set, const struct set_morsel *m)
{
    struct set_page *page = set->pages[m->number / SET_PAGE_MORSELS];
    uint32_t *words = page->words + (size_t)(m->number % SET_PAGE_MORSELS) * morsel_words(set);
    struct set_morsel before;

    if (set_get(set, m->number, &before)) {
        count_donors(set, &before, UINT32_MAX); /* One less. */
        count_fat(s, set, &before, UINT64_MAX);
        set->thin -= before.donor_count < set->head.copies;
        set->rewriting -= before.rewriting;
    } else {
        set->morsels++;
    }
    words[WORD_LENGTH] = m->length | WORD_PRESENT | (m->rewriting ? WORD_REWRITING : 0);
    words[WORD_DIGEST] = m->digest;
    for (uint32_t i = 0; i < set->head.copies + SET_SURPLUS; i++) {
        words[HEAD_WORDS + i] = i < m->donor_count ? m->donors[i] : 0;
    }
    count_donors(set, m, 1);
    count_fat(s, set, m, 1);
    set->thin += m->donor_count < set->head.copies;
    set->rewriting += m->rewriting;
}

void sets_apply(struct sets *s, const struct set_change *changes, uint32_t count)
{
    struct data_set *set = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (set == NULL || set->head.number != changes[i].set) {
            set = find(s, changes[i].set);
        }
        CHECK(set != NULL);
        put(s, set, &changes[i].morsel);
    }
}

void sets_change_head(struct sets *s, const struct set_head *head)
{
    struct data_set *set = find(s, head->number);

    CHECK(set != NULL && set->head.copies == head->copies && set->head.inode == head->inode &&
          set->head.morsel_bytes == head->morsel_bytes);
    set->head = *head;
}

void sets_remove(struct sets *s, uint64_t number)
{
    uint32_t at = sets_from(s, number);
    struct data_set *set = find(s, number);

    CHECK(set != NULL);
    for (uint32_t i = 0; i < set->donor_count; i++) {
        unlist_set(s, set->donors[i].id, number);
    }
    s->fat -= set->fat;
    memmove(&s->items[at], &s->items[at + 1], (s->count - at - 1) * sizeof(struct data_set *));
    s->count--;
    set_free(set);
}

/* ---- Waste ---- */

static bool is_below(const struct donor_sets *d, uint64_t set, uint32_t first)
{
    return set < d->floor_set || (set == d->floor_set && first < d->floor_first);
}

void sets_wasted(struct sets *s, donor_id donor, uint64_t number, uint32_t first, uint32_t count,
                 bool fresh)
{
    struct donor_sets *d = find_donor(s, donor);
    struct data_set *set = find(s, number);

    CHECK(d != NULL);
    d->waste += fresh;
    if (is_below(d, number, first)) {
        d->floor_set = number;
        d->floor_first = first;
    }
    if (set != NULL && count == 1 && fresh && set->waste_count < set->waste_room) {
        set->waste[set->waste_count++] = (struct set_waste){ donor, first };
    }
}

void sets_collected(struct sets *s, donor_id donor, uint64_t number, uint32_t first)
{
    struct donor_sets *d = find_donor(s, donor);
    struct data_set *set = find(s, number);

    CHECK(d != NULL && d->waste > 0);
    d->waste--;
    for (uint32_t i = 0; set != NULL && i < set->waste_count; i++) {
        if (set->waste[i].donor == donor && set->waste[i].morsel == first) {
            set->waste[i] = set->waste[--set->waste_count];
            return;
        }
    }
}

void sets_floor_found(struct sets *s, donor_id donor, uint64_t set, uint32_t first)
{
    struct donor_sets *d = find_donor(s, donor);

    if (d != NULL) {
        d->floor_set = set;
        d->floor_first = first;
    }
}

/* ---- Invariants ---- */

static void check_set(const struct sets *s, const struct data_set *set)
{
    uint32_t morsels = 0, thin = 0, fat = 0, rewriting = 0;
    uint64_t copies = 0, listed = 0;
    struct set_morsel m;

    for (bool more = set_next(set, 0, &m); more;
         more = m.number < UINT32_MAX && set_next(set, m.number + 1, &m)) {
        CHECK(set_morsel_sound(&set->head, &m));
        morsels++;
        thin += m.donor_count < set->head.copies;
        fat += m.donor_count > set->head.copies;
        rewriting += m.rewriting;
        copies += m.donor_count;
    }
    for (uint32_t i = 0; i < set->donor_count; i++) {
        const struct donor_sets *d = find_donor(s, set->donors[i].id);
        uint32_t at = d != NULL ? donor_sets_from(d, set->head.number) : 0;

        CHECK(i == 0 || set->donors[i - 1].id < set->donors[i].id);
        CHECK(d != NULL && at < d->count && d->sets[at] == set->head.number);
        listed += set->donors[i].morsels;
    }
    CHECK(morsels == set->morsels && thin == set->thin && copies == listed);
    CHECK(rewriting == set->rewriting && fat == set->fat);
}

void sets_check(const struct sets *s)
{
    uint64_t fat = 0;

    for (uint32_t i = 0; i < s->count; i++) {
        CHECK(i == 0 || s->items[i - 1]->head.number < s->items[i]->head.number);
        check_set(s, s->items[i]);
        fat += s->items[i]->fat;
    }
    CHECK(fat == s->fat);
    for (uint32_t i = 0; i < s->donor_count; i++) {
        CHECK(i == 0 || s->donors[i - 1].id < s->donors[i].id);
    }
}
