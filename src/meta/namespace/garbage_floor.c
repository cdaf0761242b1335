/* One number for each server that has had garbage. */
#include "meta/namespace/garbage_floor.h"

#include <string.h>

/* The place of the server, or where it would be. */
static uint32_t place_of(const struct garbage_floors *f, server_id server)
{
    uint32_t low = 0, high = f->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (f->items[middle].server < server) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_at(const struct garbage_floors *f, uint32_t place, server_id server)
{
    return place < f->count && f->items[place].server == server;
}

bool garbage_floor_from(const struct garbage_floors *f, server_id server, struct object_id *from)
{
    uint32_t place = place_of(f, server);

    *from = (struct object_id){ 0, 0 };
    if (!is_at(f, place, server)) {
        return true;
    }
    *from = f->items[place].object;
    return !f->items[place].none;
}

static bool is_below(struct object_id a, struct object_id b)
{
    return a.inode < b.inode || (a.inode == b.inode && a.column < b.column);
}

void garbage_floor_lower(struct garbage_floors *f, server_id server, struct object_id object)
{
    uint32_t place = place_of(f, server);
    struct garbage_floor *floor = &f->items[place];

    if (is_at(f, place, server) && (floor->none || is_below(object, floor->object))) {
        floor->none = false;
        floor->object = object;
    }
}

void garbage_floor_found(struct garbage_floors *f, server_id server, const struct object_id *first)
{
    uint32_t place = place_of(f, server);

    if (!is_at(f, place, server)) {
        if (f->count == SERVERS_MAX) {
            return; /* Who is not in the table is looked for from the start. */
        }
        memmove(f->items + place + 1, f->items + place, (f->count - place) * sizeof(f->items[0]));
        f->count++;
        f->items[place] = (struct garbage_floor){ .server = server };
    }
    f->items[place].none = first == NULL;
    f->items[place].object = first == NULL ? (struct object_id){ 0, 0 } : *first;
}
