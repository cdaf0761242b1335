/* A table of groups as bytes. */
#include "meta/namespace/groups_record.h"

#include "common/base/status.h"
#include "meta/namespace/record.h"

#include <string.h>

enum {
    WANTED_KNOWN = 1 << 2 | 1 << 3,
    COPIES_MIN = 2,
    VERSION_WITHOUT_CHANGES = 1,
    VERSION_WITHOUT_FORCE = 2,
    VERSION_WITHOUT_MOVES = 3
};

/* ---- Looking ---- */

const struct group_made *groups_record_find(const struct groups_record *record, group_number number)
{
    uint32_t low = 0, high = record->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (record->items[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < record->count && record->items[low].number == number ? &record->items[low] : NULL;
}

static uint32_t holder_place(const struct group_holders *holders, server_id server)
{
    uint32_t place = 0;

    while (place < holders->count && holders->servers[place] != server) {
        place++;
    }
    return place;
}

uint32_t group_place(const struct group_made *group, server_id server)
{
    return holder_place(&group->now, server);
}

const struct group_former *group_former_find(const struct group_made *group, server_id server)
{
    for (uint32_t i = 0; i < group->formers_count; i++) {
        if (group->formers[i].server == server) {
            return &group->formers[i];
        }
    }
    return NULL;
}

bool group_concerns(const struct group_made *group, server_id server)
{
    return group_place(group, server) < group->now.count ||
           group_former_find(group, server) != NULL;
}

bool group_move_waits(const struct group_made *group)
{
    uint32_t place = group_place(group, group->moves_from);

    return group->moves_from != 0 && place < group->now.count &&
           (group->now.leaving >> place & 1) == 0 &&
           group_place(group, group->moves_to) == group->now.count;
}

void group_move_end(struct group_made *group)
{
    group->moves_from = group->moves_to = 0;
    group->moves_bytes = 0;
}

server_id group_first_held(const struct group_made *group)
{
    uint32_t place = 0;

    while (place + 1 < group->now.count && group->now.servers[place] == 0) {
        place++;
    }
    return group->now.servers[place];
}

const struct group_leaver *groups_leaver_find(const struct groups_record *record, server_id server)
{
    uint32_t low = 0, high = record->leavers_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (record->leavers[middle].server < server) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < record->leavers_count && record->leavers[low].server == server
               ? &record->leavers[low]
               : NULL;
}

/* ---- Encoding ---- */

static void holders_encode(const struct group_holders *holders, struct buf *out)
{
    buf_put_u8(out, (uint8_t)holders->count);
    buf_put_u8(out, (uint8_t)holders->leaving);
    for (uint32_t i = 0; i < holders->count; i++) {
        buf_put_u32(out, holders->servers[i]);
        buf_put_u64(out, holders->since[i]);
    }
}

static void group_encode(const struct group_made *g, struct buf *out)
{
    buf_put_u32(out, g->number);
    buf_put_u64(out, g->version);
    buf_put_u64(out, g->changed);
    buf_put_u8(out, g->told);
    buf_put_u8(out, (uint8_t)g->copies);
    holders_encode(&g->now, out);
    for (uint32_t i = 0; i < g->now.count; i++) {
        buf_put_u64(out, g->restored[i]);
    }
    buf_put_u64(out, g->forced);
    buf_put_u8(out, (uint8_t)g->forced_place);
    buf_put_u64(out, g->forced_s);
    buf_put_u32(out, g->moves_from);
    buf_put_u32(out, g->moves_to);
    buf_put_u64(out, g->moves_bytes);
    buf_put_u8(out, (uint8_t)g->formers_count);
    for (uint32_t i = 0; i < g->formers_count; i++) {
        buf_put_u8(out, (uint8_t)g->formers[i].place);
        holders_encode(&g->formers[i].was, out);
    }
}

static void rebalance_encode(const struct groups_rebalance *r, struct buf *out)
{
    buf_put_u64(out, r->began_s);
    buf_put_u32(out, r->moves);
    buf_put_u64(out, r->bytes);
    buf_put_u32(out, r->given_up);
    buf_put_u64(out, r->given_up_bytes);
}

void groups_record_encode(const struct groups_record *record, struct buf *out)
{
    buf_put_u8(out, GROUPS_RECORD_VERSION);
    buf_put_u64(out, record->version);
    buf_put_u32(out, record->wanted);
    buf_put_u8(out, record->paused);
    buf_put_u32(out, record->leavers_count);
    for (uint32_t i = 0; i < record->leavers_count; i++) {
        buf_put_u32(out, record->leavers[i].server);
        buf_put_u32(out, record->leavers[i].to);
    }
    rebalance_encode(&record->rebalance, out);
    buf_put_u32(out, record->count);
    for (uint32_t i = 0; i < record->count; i++) {
        group_encode(&record->items[i], out);
    }
}

/* ---- Decoding ---- */

static bool reader_bool(struct reader *r)
{
    uint8_t value = reader_u8(r);

    r->failed |= value > 1;
    return value != 0;
}

/* Of a group that came with `came`; all versions are at most `last`. Somebody is there. */
static bool holders_decode(struct reader *r, struct group_holders *h, uint64_t came, uint64_t last)
{
    uint32_t held = 0;

    h->count = reader_u8(r);
    h->leaving = reader_u8(r);
    if (r->failed || h->count < COPIES_MIN || h->count > REPLICAS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        server_id server = reader_u32(r);
        uint64_t since = reader_u64(r);

        if (since < came || since > last) {
            return false;
        }
        if (server != 0 && holder_place(h, server) < i) {
            return false;
        }
        held |= server != 0 ? 1U << i : 0;
        h->servers[i] = server;
        h->since[i] = since;
    }
    return !r->failed && held != 0 && (h->leaving & ~held) == 0;
}

static bool restored_decode(struct reader *r, struct group_made *g)
{
    for (uint32_t i = 0; i < g->now.count; i++) {
        g->restored[i] = reader_u64(r);
        if (g->restored[i] > g->changed || (g->restored[i] != 0 && g->now.servers[i] == 0)) {
            return false;
        }
    }
    return !r->failed;
}

static bool forced_decode(struct reader *r, struct group_made *g, uint8_t format)
{
    if (format <= VERSION_WITHOUT_FORCE) {
        return true;
    }
    g->forced = reader_u64(r);
    g->forced_place = reader_u8(r);
    g->forced_s = reader_u64(r);
    return !r->failed && g->forced <= g->changed && g->forced_place < g->now.count &&
           (g->forced != 0 || (g->forced_place == 0 && g->forced_s == 0));
}

/* Who gives its copy away is known to the group by then: moves_check(). */
static bool moves_decode(struct reader *r, struct group_made *g, uint8_t format)
{
    if (format <= VERSION_WITHOUT_MOVES) {
        return true;
    }
    g->moves_from = reader_u32(r);
    g->moves_to = reader_u32(r);
    g->moves_bytes = reader_u64(r);
    return !r->failed;
}

static bool moves_check(const struct group_made *g)
{
    if (g->moves_from == 0) {
        return g->moves_to == 0 && g->moves_bytes == 0;
    }
    return g->moves_to != 0 && g->moves_to != g->moves_from && group_concerns(g, g->moves_from);
}

static bool formers_decode(struct reader *r, struct group_made *g)
{
    uint32_t count = reader_u8(r);

    if (count > GROUP_FORMERS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct group_former *f = &g->formers[i];

        f->place = reader_u8(r);
        if (!holders_decode(r, &f->was, g->version, g->changed) || f->place >= f->was.count) {
            return false;
        }
        f->server = f->was.servers[f->place];
        if (f->server == 0 || group_concerns(g, f->server)) {
            return false;
        }
        g->formers_count++;
    }
    return !r->failed;
}

/* As it was before anything could change: by place one server each, and all since the beginning. */
static bool old_group_decode(struct reader *r, struct group_made *g)
{
    g->changed = g->version;
    g->copies = g->now.count = reader_u8(r);
    if (r->failed || g->copies < COPIES_MIN || g->copies > REPLICAS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < g->copies; i++) {
        server_id server = reader_u32(r);

        if (server == 0 || group_place(g, server) < i) {
            return false;
        }
        g->now.servers[i] = server;
        g->now.since[i] = g->version;
    }
    return !r->failed;
}

static bool new_group_decode(struct reader *r, struct group_made *g, uint8_t format,
                             uint64_t version)
{
    g->copies = reader_u8(r);
    return !r->failed && g->changed >= g->version && g->changed <= version &&
           g->copies >= COPIES_MIN && holders_decode(r, &g->now, g->version, g->changed) &&
           g->copies <= g->now.count && restored_decode(r, g) && forced_decode(r, g, format) &&
           moves_decode(r, g, format) && formers_decode(r, g) && moves_check(g);
}

static bool group_decode(struct reader *r, struct group_made *g, uint8_t format, uint32_t above,
                         uint64_t version)
{
    g->number = reader_u32(r);
    g->version = reader_u64(r);
    g->changed = format == VERSION_WITHOUT_CHANGES ? g->version : reader_u64(r);
    g->told = reader_bool(r);
    if (r->failed || g->number <= above || g->number >= PLACING_GROUPS_MAX || g->version == 0 ||
        g->version > version) {
        return false;
    }
    return format == VERSION_WITHOUT_CHANGES ? old_group_decode(r, g)
                                             : new_group_decode(r, g, format, version);
}

/* `record` NULL: they are only looked at. */
static bool leavers_decode(struct reader *r, struct groups_record *record)
{
    uint32_t count = reader_u32(r);
    server_id above = 0;

    if (r->failed || count > SERVERS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct group_leaver leaver = { .server = reader_u32(r) };

        leaver.to = reader_u32(r);
        if (r->failed || leaver.server <= above || leaver.to == leaver.server) {
            return false;
        }
        above = leaver.server;
        if (record != NULL) {
            record->leavers[i] = leaver;
        }
    }
    if (record != NULL) {
        record->leavers_count = count;
    }
    return true;
}

/* Likewise. */
static bool items_decode(struct reader *r, uint8_t format, uint64_t version,
                         struct groups_record *record)
{
    uint32_t above = 0, count = reader_u32(r);

    if (r->failed || count > GROUPS_KEPT_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct group_made g = { .number = 0 };

        if (!group_decode(r, &g, format, above, version)) {
            return false;
        }
        above = g.number;
        if (record != NULL) {
            record->items[i] = g;
        }
    }
    if (record != NULL) {
        record->count = count;
    }
    return true;
}

static bool rebalance_decode(struct reader *r, struct groups_record *record)
{
    struct groups_rebalance b = { .began_s = reader_u64(r) };

    b.moves = reader_u32(r);
    b.bytes = reader_u64(r);
    b.given_up = reader_u32(r);
    b.given_up_bytes = reader_u64(r);
    if (record != NULL) {
        record->rebalance = b;
    }
    return !r->failed && b.moves <= GROUPS_KEPT_MAX && b.given_up <= b.moves &&
           b.given_up_bytes <= b.bytes;
}

/* `record` NULL: it is only looked at. */
static int table_decode(struct slice bytes, struct groups_record *record)
{
    bool sound, paused = false;
    struct reader r;
    uint64_t version;
    uint32_t wanted;
    uint8_t format;

    reader_init(&r, bytes.data, bytes.count);
    format = reader_u8(&r);
    if (format > GROUPS_RECORD_VERSION) {
        return MORSEL_VERSION;
    }
    version = reader_u64(&r);
    wanted = reader_u32(&r);
    sound = format != 0 && !r.failed && version != 0 && (wanted & ~(uint32_t)WANTED_KNOWN) == 0;
    if (sound && format > VERSION_WITHOUT_CHANGES) {
        paused = reader_bool(&r);
        sound = !r.failed && leavers_decode(&r, record);
    }
    if (sound && format > VERSION_WITHOUT_MOVES) {
        sound = rebalance_decode(&r, record);
    }
    if (!sound || !items_decode(&r, format, version, record) || !reader_done(&r)) {
        return MORSEL_CORRUPT;
    }
    if (record != NULL) {
        record->version = version;
        record->wanted = wanted;
        record->paused = paused;
    }
    return MORSEL_OK;
}

int groups_record_check(struct slice bytes)
{
    return table_decode(bytes, NULL);
}

int groups_record_decode(struct slice bytes, struct groups_record *record)
{
    int rv;

    memset(record, 0, sizeof(*record));
    if ((rv = table_decode(bytes, record)) != 0) {
        memset(record, 0, sizeof(*record));
    }
    return rv;
}
