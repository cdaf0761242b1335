/* A set from its end backwards. */
#include "meta/datasets/evict.h"

#include "common/base/check.h"

enum { DISK_BLOCK = 4096, YOUNG_TIMES = 2 };

uint64_t evict_up_to(uint64_t donated, uint64_t room, bool high)
{
    uint64_t mark = donated / (high ? EVICT_HIGH_PARTS : EVICT_LOW_PARTS);

    return room < mark ? mark - room : 0;
}

uint64_t evict_low(uint64_t donated, uint64_t room)
{
    return room < donated / EVICT_LOW_PARTS ? evict_up_to(donated, room, true) : 0;
}

uint64_t evict_room_wanted(uint64_t donated, uint64_t used)
{
    uint64_t mark = donated / EVICT_HIGH_PARTS, room = donated > used ? donated - used : 0;

    return room < mark ? room : mark;
}

uint64_t evict_for_morsels(uint64_t donated, uint64_t room, uint32_t morsel_bytes)
{
    uint64_t wanted = (uint64_t)morsel_bytes * EVICT_FOR_MORSELS;
    uint64_t part = donated / EVICT_LOW_PARTS;

    if (room >= morsel_bytes) {
        return 0;
    }
    wanted = wanted > part ? wanted : part;
    wanted = wanted < donated ? wanted : donated;
    return wanted > room ? wanted - room : 0;
}

uint64_t evict_room_left(uint64_t donated, uint64_t room, uint32_t morsel_bytes)
{
    uint64_t little = donated / EVICT_HIGH_PARTS + (uint64_t)morsel_bytes * EVICT_FOR_MORSELS;

    return room < little ? 0 : room;
}

uint64_t evict_bytes(const struct set_morsel *morsel)
{
    return ((uint64_t)morsel->length + DISK_BLOCK - 1) / DISK_BLOCK * DISK_BLOCK;
}

/* Its index; count: none is wanted there. */
static uint32_t find(const struct evict_want *wants, uint32_t count, donor_id donor)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (wants[middle].donor < donor) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && wants[low].donor == donor && wants[low].bytes > 0 ? low : count;
}

/* At how many benefactors of the set room is wanted; from `enough` on it does not matter. The shorter one of both lists is walked through. */
static uint32_t helped(const struct data_set *set, const struct evict_want *wants, uint32_t count,
                       uint32_t enough)
{
    uint32_t found = 0;

    if (set->donor_count < count) {
        for (uint32_t i = 0; i < set->donor_count && found < enough; i++) {
            found += set->donors[i].morsels > 0 && find(wants, count, set->donors[i].id) < count;
        }
        return found;
    }
    for (uint32_t i = 0; i < count && found < enough; i++) {
        found += wants[i].bytes > 0 && set_morsels_at(set, wants[i].donor) > 0;
    }
    return found;
}

bool evict_helps(const struct data_set *set, const struct evict_want *wants, uint32_t count)
{
    return helped(set, wants, count, 1) > 0;
}

/* Off what is wanted where it was. At how many there is enough now. */
static uint32_t take_off(const struct set_morsel *m, struct evict_want *wants, uint32_t count)
{
    uint64_t bytes = evict_bytes(m);
    uint32_t enough = 0;

    for (uint32_t i = 0; i < m->donor_count; i++) {
        uint32_t at = find(wants, count, m->donors[i]);

        if (at < count) {
            wants[at].bytes -= bytes < wants[at].bytes ? bytes : wants[at].bytes;
            enough += wants[at].bytes == 0;
        }
    }
    return enough;
}

/* The last morsel below `end` that somebody has. */
static bool last_below(const struct data_set *set, uint32_t end, struct set_morsel *m)
{
    uint64_t room = (uint64_t)set->pages_room * SET_PAGE_MORSELS;

    end = end < room ? end : (uint32_t)room;
    while (end > 0) {
        uint32_t page = (end - 1) / SET_PAGE_MORSELS;

        if (set->pages[page] == NULL) {
            end = page * SET_PAGE_MORSELS;
        } else if (set_get(set, --end, m) && m->donor_count > 0) {
            return true;
        }
    }
    return false;
}

bool evict_has_copies(const struct data_set *set)
{
    for (uint32_t i = 0; i < set->donor_count; i++) {
        if (set->donors[i].morsels > 0) {
            return true;
        }
    }
    return false;
}

uint32_t evict_end(const struct data_set *set)
{
    struct set_morsel m;

    return evict_has_copies(set) && last_below(set, SET_MORSELS_MAX, &m) ? m.number + 1 : 0;
}

uint32_t evict_choose(const struct data_set *set, struct evict_want *wants, uint32_t count,
                      uint32_t morsels_max)
{
    uint32_t kept = SET_MORSELS_MAX, waste = set->waste_count;
    uint32_t wanting = helped(set, wants, count, UINT32_MAX);
    struct set_morsel m;

    while (morsels_max > 0 && wanting > 0 && last_below(set, kept, &m) &&
           waste + m.donor_count <= SET_WASTE_MAX) {
        wanting -= take_off(&m, wants, count);
        waste += m.donor_count;
        kept = m.number;
        morsels_max--;
    }
    return kept;
}

uint32_t evict_down_to(const struct data_set *set, uint32_t kept, uint32_t morsels_max)
{
    uint32_t end = SET_MORSELS_MAX, waste = set->waste_count;
    struct set_morsel m;

    while (last_below(set, end, &m) && m.number >= kept) {
        if (morsels_max == 0 || waste + m.donor_count > SET_WASTE_MAX) {
            return end;
        }
        waste += m.donor_count;
        end = m.number;
        morsels_max--;
    }
    return kept;
}

int64_t evict_young_until(int64_t stored_ns, int64_t average_ns)
{
    CHECK(average_ns >= 0);
    return stored_ns == 0 ? 0
           : average_ns > (INT64_MAX - stored_ns) / YOUNG_TIMES
               ? INT64_MAX
               : stored_ns + YOUNG_TIMES * average_ns;
}
