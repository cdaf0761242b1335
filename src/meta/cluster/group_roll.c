/* A ring of servers, and walks around it. */
#include "meta/cluster/group_roll.h"

#include "common/rpc/address.h"
#include "meta/cluster/placement.h"

#include <string.h>

/* ---- The ring ---- */

/* Places among the members, by id. */
struct ring
{
    uint32_t count;
    uint32_t places[SERVERS_MAX];
};

static bool same_host(const struct member_record *a, const struct member_record *b)
{
    const char *end = strrchr(a->address, ':');
    size_t count = end == NULL ? strlen(a->address) : (size_t)(end - a->address);

    return (a->name[0] != '\0' && strcmp(a->name, b->name) == 0) ||
           (strncmp(a->address, b->address, count) == 0 &&
            (b->address[count] == ':' || b->address[count] == '\0'));
}

enum sharing group_roll_sharing(const struct member *a, const struct member *b)
{
    if (a->disk.device != 0 && a->disk.device == b->disk.device) {
        return SHARE_DISK;
    }
    return same_host(&a->record, &b->record) ? SHARE_HOST : SHARE_NOTHING;
}

static bool fits(const struct members *members, const struct group_made *group,
                 const struct member *candidate, enum sharing most)
{
    for (uint32_t i = 0; i < group->now.count; i++) {
        const struct member *m = members_find(members, group->now.servers[i]);

        if (m == candidate || group_roll_sharing(m, candidate) > most) {
            return false;
        }
    }
    return true;
}

/* The servers of the group that begins at this place of the ring. */
static void chain(const struct members *members, const struct ring *ring, uint32_t first,
                  uint32_t copies, struct group_made *group)
{
    *group = (struct group_made){ .copies = copies };
    for (int most = SHARE_NOTHING; most < SHARINGS && group->now.count < copies; most++) {
        for (uint32_t i = 0; i < ring->count && group->now.count < copies; i++) {
            const struct member *m = &members->items[ring->places[(first + i) % ring->count]];

            if (fits(members, group, m, (enum sharing)most)) {
                group->now.servers[group->now.count++] = m->record.id;
            }
        }
    }
}

/* Who holds a place, in order; the rest is zero. */
static uint32_t holders_list(const struct group_made *group, server_id held[REPLICAS_MAX])
{
    uint32_t count = 0;

    memset(held, 0, REPLICAS_MAX * sizeof(*held));
    for (uint32_t i = 0; i < group->now.count; i++) {
        if (group->now.servers[i] != 0) {
            held[count++] = group->now.servers[i];
        }
    }
    return count;
}

static bool same_servers(const struct group_made *a, const struct group_made *b)
{
    server_id of_a[REPLICAS_MAX], of_b[REPLICAS_MAX];

    (void)holders_list(a, of_a);
    (void)holders_list(b, of_b);
    return a->copies == b->copies && memcmp(of_a, of_b, sizeof(of_a)) == 0;
}

/* ---- Planning ---- */

static bool is_there(const struct groups_record *record, const struct group_made *group)
{
    for (uint32_t i = 0; i < record->count; i++) {
        if (same_servers(&record->items[i], group)) {
            return true;
        }
    }
    return false;
}

static bool is_first(const struct groups_record *record, server_id server, uint32_t copies)
{
    for (uint32_t i = 0; i < record->count; i++) {
        if (record->items[i].copies == copies && group_first_held(&record->items[i]) == server) {
            return true;
        }
    }
    return false;
}

/* Does it hold a place? */
static bool holds_any(const struct groups_record *record, server_id server)
{
    for (uint32_t i = 0; i < record->count; i++) {
        if (group_place(&record->items[i], server) < record->items[i].now.count) {
            return true;
        }
    }
    return false;
}

/* A server that is away for a while makes no ring of its own of those that are left: rings come with
 * servers that have no group yet, and when all are there but those whose places others have. */
static bool ring_make(const struct groups_record *now, const struct members *members,
                      uint32_t copies, struct ring *ring)
{
    bool whole = true, homeless = false;

    ring->count = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct member *m = &members->items[i];

        if (m->presumed && member_gets_new(m)) {
            return false;
        }
        whole &= m->up || !member_gets_new(m) || !holds_any(now, m->record.id);
        if (m->up && member_gets_new(m)) {
            ring->places[ring->count++] = i;
            homeless |= !is_first(now, m->record.id, copies);
        }
    }
    return ring->count >= copies && (whole || homeless);
}

static bool has_room(const struct groups_record *record, const struct group_made *group)
{
    uint32_t groups[REPLICAS_MAX] = { 0 }; /* Of each of its servers. */

    for (uint32_t i = 0; i < record->count; i++) {
        for (uint32_t j = 0; j < group->now.count; j++) {
            groups[j] += group_concerns(&record->items[i], group->now.servers[j]);
        }
    }
    for (uint32_t j = 0; j < group->now.count; j++) {
        if (groups[j] >= SERVER_GROUPS_MAX) {
            return false;
        }
    }
    return record->count < GROUPS_KEPT_MAX &&
           (record->count == 0 || record->items[record->count - 1].number + 1 < PLACING_GROUPS_MAX);
}

bool group_roll_plan(const struct groups_record *now, const struct members *members,
                     uint32_t copies, struct groups_record *next)
{
    struct ring ring;
    bool news = false;

    *next = *now;
    if (!ring_make(now, members, copies, &ring)) {
        return false;
    }
    next->version++;
    next->wanted |= 1U << copies;
    for (uint32_t i = 0; i < ring.count; i++) {
        struct group_made group;

        chain(members, &ring, i, copies, &group);
        if (!is_there(next, &group) && has_room(next, &group)) {
            group.number = next->count == 0 ? 1 : next->items[next->count - 1].number + 1;
            group.version = group.changed = next->version;
            for (uint32_t j = 0; j < group.now.count; j++) {
                group.now.since[j] = next->version;
            }
            next->items[next->count++] = group;
            news = true;
        }
    }
    if (!news) {
        *next = *now;
    }
    return news;
}

const struct copy_said *group_roll_said(const struct group_said *said, group_number group)
{
    for (size_t i = 0; i < said->count; i++) {
        if (said->copies[i].group == group) {
            return &said->copies[i];
        }
    }
    return NULL;
}

bool group_roll_told(const struct group_roll *roll, const struct members *members,
                     const struct group_made *group)
{
    for (uint32_t i = 0; i < group->now.count; i++) {
        const struct member *m = members_find(members, group->now.servers[i]);

        if (group->now.servers[i] != 0 &&
            (m == NULL || roll->said[m - members->items].has < group->changed)) {
            return false;
        }
    }
    return true;
}

/* ---- Choosing ---- */

bool group_roll_has_space(const struct member *m)
{
    uint64_t reserve = m->bytes_total >> PLACEMENT_RESERVE_SHIFT;

    return m->bytes_free > (reserve > PLACEMENT_RESERVE_BYTES ? reserve : PLACEMENT_RESERVE_BYTES);
}

/* Servers that a new file may lie on, as members_place() sees it. */
struct living
{
    struct ring ring;
    uint32_t at[SERVERS_MAX]; /* By place among the members: in the ring; UINT32_MAX: not there. */
};

static void living_make(const struct members *members, struct living *living)
{
    bool any_connected = false, any_stays = false;

    for (uint32_t i = 0; i < members->count; i++) {
        any_connected |= members->items[i].up && members->items[i].connected;
        any_stays |= members->items[i].up && member_gets_new(&members->items[i]);
    }
    living->ring.count = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        const struct member *m = &members->items[i];

        living->at[i] = UINT32_MAX;
        if ((m->presumed || (m->up && (m->connected || !any_connected))) &&
            (member_gets_new(m) || !any_stays) && !m->record.waits) {
            living->at[i] = living->ring.count;
            living->ring.places[living->ring.count++] = i;
        }
    }
}

/* Is it what would be planned for those that live? */
static bool of_ring(const struct members *members, const struct living *living,
                    const struct group_made *group)
{
    const struct member *first = members_find(members, group_first_held(group));
    struct group_made planned;

    chain(members, &living->ring, living->at[first - members->items], group->copies, &planned);
    return same_servers(&planned, group);
}

enum { WORTH_LIVING = REPLICAS_MAX, WORTH_SPACE, WORTH_RING };

/* How well a file would lie there: so many of its servers live, where some do not or are missing; all
 * live; with space besides; and in the present ring. 0: not at all. */
static uint8_t worth(const struct members *members, const struct living *living,
                     const struct group_made *group)
{
    server_id held[REPLICAS_MAX];
    uint32_t count = holders_list(group, held), live = 0;
    bool space = true;

    if (!group->told) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct member *m = members_find(members, held[i]);

        live += m != NULL && living->at[m - members->items] != UINT32_MAX;
        space &= m != NULL && group_roll_has_space(m);
    }
    if (live < count || live < group->copies) {
        return (uint8_t)(live < WORTH_LIVING ? live : WORTH_LIVING - 1);
    }
    return !space ? WORTH_LIVING : of_ring(members, living, group) ? WORTH_RING : WORTH_SPACE;
}

uint32_t group_roll_choose(const struct groups_record *record, const struct members *members,
                           inode_id inode, uint32_t copies, uint32_t width,
                           group_number chosen[STRIPE_WIDTH_MAX])
{
    uint8_t worths[GROUPS_KEPT_MAX];
    struct living living;
    uint8_t best = 1;
    uint32_t have = 0, count = 0;

    living_make(members, &living);
    for (uint32_t i = 0; i < record->count; i++) {
        const struct group_made *g = &record->items[i];

        worths[i] = g->copies == copies ? worth(members, &living, g) : 0;
        if (worths[i] >= best) {
            have = worths[i] > best ? 1 : have + 1;
            best = worths[i];
        }
    }
    width = width < have ? width : have;
    for (uint32_t i = 0, seen = 0; count < width; i = (i + 1) % record->count) {
        if (worths[i] == best && seen++ >= inode % have) {
            chosen[count++] = record->items[i].number;
        }
    }
    return count;
}
