/* A table of voters by id. */
#include "meta/cluster/voter_roll.h"

#include "common/base/check.h"

static bool is_in(const struct voter_set *set, voter_id id)
{
    return voter_set_find(set, id) < set->count;
}

static bool is_in_record(const struct voters_record *record, voter_id id)
{
    return is_in(&record->set, id) || is_in(&record->next, id);
}

/* The place of `id`, or where it belongs. */
static uint32_t place_of(const struct voter_roll *roll, voter_id id)
{
    uint32_t low = 0, high = roll->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (roll->items[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct voter_roll_item *find(struct voter_roll *roll, voter_id id)
{
    uint32_t at = place_of(roll, id);

    return at < roll->count && roll->items[at].id == id ? &roll->items[at] : NULL;
}

/* As whom the server votes; NULL: as nobody. */
static struct voter_roll_item *find_server(struct voter_roll *roll, server_id server)
{
    for (uint32_t i = 0; i < roll->count; i++) {
        if (roll->items[i].server == server && !roll->items[i].lost) {
            return &roll->items[i];
        }
    }
    return NULL;
}

static void add(struct voter_roll *roll, struct voter_roll_item item)
{
    uint32_t at = place_of(roll, item.id);

    CHECK(roll->count < VOTER_ROLL_MAX);
    memmove(&roll->items[at + 1], &roll->items[at], (roll->count - at) * sizeof(roll->items[0]));
    roll->items[at] = item;
    roll->count++;
}

/* Of two voters of one server the one is lost that the change which is under way has not in it; of
 * two that are in both, which only a damaged record can have, either. */
void voter_roll_init(struct voter_roll *roll, const struct voters_record *record,
                     const struct voter_seats *seats)
{
    const struct voter_set *newest = record->next.version != 0 ? &record->next : &record->set;

    roll->count = 0;
    for (uint32_t i = 0; i < seats->count; i++) {
        const struct voter_seat *seat = &seats->items[i];
        struct voter_roll_item *other = find_server(roll, seat->server);
        bool comes = is_in(newest, seat->id) && !is_in(&record->set, seat->id);
        bool lost = !is_in(newest, seat->id) || (other != NULL && !comes);

        if (other != NULL && comes) {
            other->lost = true;
        }
        add(roll, (struct voter_roll_item){ seat->id, seat->server, lost });
    }
}

static uint32_t count_servers(const struct voter_roll *roll)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < roll->count; i++) {
        count += !roll->items[i].lost;
    }
    return count;
}

enum voter_news voter_roll_hear(struct voter_roll *roll, const struct voters_record *record,
                                server_id server, voter_id id)
{
    struct voter_roll_item *item = find(roll, id), *before;

    CHECK(id != 0);
    if (item != NULL && item->server == server && !item->lost) {
        return VOTER_SAME;
    }
    before = find_server(roll, server);
    if ((item != NULL && item->server != server) ||
        (before == NULL && count_servers(roll) == VOTERS_MAX)) {
        return VOTER_REFUSED;
    }
    if (before != NULL) {
        before->lost = true;
    }
    if (item != NULL) {
        item->lost = false;
        return before != NULL ? VOTER_CHANGED : VOTER_NEW;
    }
    voter_roll_prune(roll, record);
    add(roll, (struct voter_roll_item){ id, server, false });
    return before != NULL ? VOTER_CHANGED : VOTER_NEW;
}

bool voter_roll_remove(struct voter_roll *roll, const struct voters_record *record,
                       server_id server)
{
    struct voter_roll_item *item = find_server(roll, server);

    if (item == NULL) {
        return false;
    }
    item->lost = true;
    voter_roll_prune(roll, record);
    return true;
}

void voter_roll_wanted(const struct voter_roll *roll, const struct voter_set *now,
                       struct voter_set *wanted, voter_id *gone)
{
    wanted->version = 0;
    wanted->count = 0;
    *gone = 0;
    for (uint32_t i = 0; i < roll->count; i++) {
        const struct voter_roll_item *item = &roll->items[i];

        if (!item->lost) {
            CHECK(wanted->count < VOTERS_MAX);
            wanted->ids[wanted->count++] = item->id;
        } else if (*gone == 0 && is_in(now, item->id)) {
            *gone = item->id;
        }
    }
}

bool voter_roll_server(const struct voter_roll *roll, voter_id id, server_id *server)
{
    uint32_t at = place_of(roll, id);

    if (at == roll->count || roll->items[at].id != id) {
        return false;
    }
    *server = roll->items[at].server;
    return true;
}

void voter_roll_seats(const struct voter_roll *roll, const struct voters_record *record,
                      struct voter_seats *seats)
{
    seats->count = 0;
    for (uint32_t i = 0; i < roll->count; i++) {
        if (is_in_record(record, roll->items[i].id)) {
            CHECK(seats->count < VOTER_SEATS_MAX);
            seats->items[seats->count++] =
                (struct voter_seat){ roll->items[i].id, roll->items[i].server };
        }
    }
}

void voter_roll_prune(struct voter_roll *roll, const struct voters_record *record)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < roll->count; i++) {
        if (!roll->items[i].lost || is_in_record(record, roll->items[i].id)) {
            roll->items[kept++] = roll->items[i];
        }
    }
    roll->count = kept;
}

enum voter_state voter_roll_state(const struct voter_roll_item *item, const struct voter_set *set)
{
    if (!is_in(set, item->id)) {
        return VOTER_JOINS;
    }
    return item->lost ? VOTER_LOST : VOTER_VOTES;
}
