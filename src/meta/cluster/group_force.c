/* Who is there, and what they say of their copies. */
#include "meta/cluster/group_force.h"

#include "common/base/check.h"

#include <string.h>

const struct copy_said *group_force_said(const struct mend_world *world,
                                         const struct group_made *group, server_id server)
{
    const struct member *m = members_find(world->members, server);

    return m == NULL
               ? NULL
               : group_roll_said(&world->roll->said[m - world->members->items], group->number);
}

static bool is_heard(const struct mend_world *w, const struct member *m)
{
    return m != NULL && m->up && w->roll->said[m - w->members->items].heard;
}

static bool in_sync(const struct copy_said *c)
{
    return c != NULL && !c->closed && (c->state == COPY_CONSISTENT || c->state == COPY_STANDALONE);
}

/* A copy that is well is not named, and serves. */
static bool serves(const struct mend_world *w, const struct group_made *g, server_id server)
{
    const struct copy_said *copy = group_force_said(w, g, server);

    return copy == NULL
               ? !w->roll->said[members_find(w->members, server) - w->members->items].partial
               : copy->serves;
}

static struct force_answer no(enum force_no why, server_id about)
{
    return (struct force_answer){ .no = why, .about = about };
}

/* Does one that is there reach this one, which the manager does not hear? */
static bool is_reached(const struct mend_world *w, const struct group_made *g, uint32_t place)
{
    for (uint32_t i = 0; i < g->now.count; i++) {
        const struct copy_said *copy = group_force_said(w, g, g->now.servers[i]);

        if (is_heard(w, members_find(w->members, g->now.servers[i])) && copy != NULL &&
            (copy->reaches >> place & 1) != 0) {
            return true;
        }
    }
    return false;
}

/* Of one of the others, by the place that it holds. */
static struct force_answer ask_other(const struct mend_world *w, const struct group_made *g,
                                     uint32_t place, const struct copy_said *named)
{
    server_id server = g->now.servers[place];
    const struct member *m = members_find(w->members, server);
    const struct copy_said *copy = group_force_said(w, g, server);

    if (m == NULL || (!m->up && !m->presumed)) {
        return is_reached(w, g, place) ? no(FORCE_REACHED, server) : no(FORCE_YES, 0);
    }
    if (!is_heard(w, m)) {
        return no(FORCE_UNHEARD, server);
    }
    if (serves(w, g, server)) {
        return no(FORCE_SERVED, server);
    }
    return in_sync(copy) && copy->whole && !(in_sync(named) && named->whole)
               ? no(FORCE_BETTER, server)
               : no(FORCE_YES, 0);
}

/* The copy at that place, if its server is there and it is in sync in that epoch (0: in any). */
static const struct copy_said *synced_at(const struct mend_world *w, const struct group_made *g,
                                         uint32_t place, uint64_t epoch)
{
    const struct copy_said *copy = group_force_said(w, g, g->now.servers[place]);

    return is_heard(w, members_find(w->members, g->now.servers[place])) && in_sync(copy) &&
                   (epoch == 0 || copy->epoch == epoch)
               ? copy
               : NULL;
}

/* Is the newest set there, as far as it is known, with a source (group.h); or somebody in it who may stand? */
static bool goes_on_itself(const struct mend_world *w, const struct group_made *g, bool majority)
{
    const struct copy_said *newest = NULL;
    bool whole = false, source = false, all = true, everybody = true;

    for (uint32_t i = 0; i < g->now.count; i++) {
        const struct copy_said *copy = synced_at(w, g, i, 0);

        newest = copy != NULL && (newest == NULL || copy->epoch > newest->epoch) ? copy : newest;
    }
    for (uint32_t i = 0; newest != NULL && i < g->now.count; i++) {
        const struct copy_said *copy = synced_at(w, g, i, newest->epoch);

        everybody = everybody && is_heard(w, members_find(w->members, g->now.servers[i]));
        all = all && ((newest->set >> i & 1) == 0 || copy != NULL);
        whole = whole || (copy != NULL && copy->whole);
        source = source || (copy != NULL && copy->begun == newest->epoch);
    }
    return newest != NULL && ((all && (whole || source || everybody)) || (whole && majority));
}

struct force_answer group_force_ask(const struct mend_world *w, const struct group_made *g,
                                    server_id server, bool majority)
{
    const struct copy_said *named = group_force_said(w, g, server);
    const struct group_former *former = group_former_find(g, server);
    struct force_answer answer;

    if (!group_concerns(g, server)) {
        return no(FORCE_NOT_HELD, server);
    }
    if (former != NULL && g->now.servers[former->place] != 0) {
        return no(FORCE_GIVEN_AWAY, g->now.servers[former->place]);
    }
    if (!is_heard(w, members_find(w->members, server))) {
        return no(FORCE_DOWN, server);
    }
    if (serves(w, g, server)) {
        return no(FORCE_SERVED, server);
    }
    if (named == NULL || named->closed) {
        return no(named == NULL ? FORCE_DOWN : FORCE_CLOSED, server);
    }
    for (uint32_t i = 0; i < g->now.count; i++) {
        if (g->now.servers[i] != 0 && g->now.servers[i] != server &&
            (answer = ask_other(w, g, i, named)).no != FORCE_YES) {
            return answer;
        }
    }
    return goes_on_itself(w, g, majority) ? no(FORCE_WAITS, 0) : no(FORCE_YES, 0);
}

/* Its place is as it was when it lost it. */
static void put_back(struct group_made *g, const struct group_former *former, uint64_t version)
{
    uint32_t at = (uint32_t)(former - g->formers);

    g->now.servers[former->place] = former->server;
    g->now.since[former->place] = former->was.since[former->place];
    g->restored[former->place] = version;
    memmove(&g->formers[at], &g->formers[at + 1], (g->formers_count - at - 1) * sizeof(*former));
    memset(&g->formers[--g->formers_count], 0, sizeof(*former));
}

void group_force_make(struct group_made *g, server_id server, uint64_t version, uint64_t now_s)
{
    const struct group_former *former = group_former_find(g, server);

    if (former != NULL) {
        put_back(g, former, version);
    }
    g->forced_place = group_place(g, server);
    CHECK(g->forced_place < g->now.count);
    for (uint32_t i = 0; i < g->now.count; i++) {
        if (i != g->forced_place && g->now.servers[i] != 0) {
            g->now.since[i] = version;
            g->restored[i] = 0;
        }
    }
    g->now.leaving = 0;
    g->forced = g->changed = version;
    g->forced_s = now_s;
}
