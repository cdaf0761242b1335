/* What is known of a group, and the step that follows from it. */
#include "meta/cluster/group_mend.h"

#include "common/base/check.h"

#include <string.h>

enum { MOVES_MAX = REPLICAS_MAX * 2 }; /* Of a group in one plan. */

/* ---- What is known ---- */

/* A group, and what those who hold its places say of it. Sets of places are bits. */
struct look
{
    const struct group_made *group;
    uint32_t held, vacant;
    uint32_t up;      /* Their servers are, and have said how they are. */
    uint32_t current; /* They have the group as it is. */
    uint32_t serving; /* They say that they are in sync, and serve. */
    uint32_t claimed; /* Some member that serves says that they are in sync; */
    uint32_t denied;  /* some says that they are not. */
    uint32_t synced;  /* In sync by the word of all. */
    uint32_t unmoved; /* Vacant, and whoever lost it says that it is in sync and serves. */
    uint32_t leaving; /* Their servers are to leave this group, or all of them; */
    uint32_t moving;  /* of these who is to leave for one that was named. */
    uint32_t gone;    /* Away for too long. */
};

static uint32_t bits(uint32_t set)
{
    uint32_t count = 0;

    for (; set != 0; set &= set - 1) {
        count++;
    }
    return count;
}

/* The last place of a set; none: REPLICAS_MAX. */
static uint32_t last_of(uint32_t set)
{
    return set == 0 ? REPLICAS_MAX : 31 - (uint32_t)__builtin_clz(set);
}

static const struct group_said *said_of(const struct mend_world *w, const struct member *m)
{
    return &w->roll->said[m - w->members->items];
}

/* Who lost that place last, if it was vacated; a place that was never held has nobody. */
static const struct group_former *former_of(const struct group_made *g, uint32_t place)
{
    for (uint32_t i = g->formers_count; i > 0; i--) {
        if (g->formers[i - 1].place == place) {
            return &g->formers[i - 1];
        }
    }
    return NULL;
}

/* Which places are in sync, says who holds this one since that version; 0: it does not serve, has not said,
 * or does not know yet that it holds it. */
static uint32_t claim(const struct mend_world *w, const struct group_made *g, uint32_t place,
                      const struct member *m, uint64_t since)
{
    const struct group_said *said = said_of(w, m);
    const struct copy_said *copy = group_roll_said(said, g->number);

    if (!m->up || !said->heard || said->has < since) {
        return 0;
    }
    if (copy == NULL) {
        return said->partial ? 0 : (1U << g->now.count) - 1;
    }
    if (!copy->serves || (copy->state != COPY_CONSISTENT && copy->state != COPY_STANDALONE) ||
        (copy->set >> place & 1) == 0) {
        return 0;
    }
    return copy->set & ((1U << g->now.count) - 1);
}

static void look_at_holder(const struct mend_world *w, struct look *l, uint32_t place,
                           const struct member *m)
{
    const struct group_said *said = said_of(w, m);
    uint32_t bit = 1U << place, set;

    l->leaving |= m->leaves || m->record.id == l->group->moves_from ? bit : 0;
    l->moving |= !m->leaves && m->record.id == l->group->moves_from ? bit : 0;
    l->gone |= w->gone[m - w->members->items] ? bit : 0;
    l->current |= said->heard && said->has >= l->group->changed ? bit : 0;
    if (!m->up || !said->heard) {
        return;
    }
    l->up |= bit;
    if ((set = claim(w, l->group, place, m, l->group->now.since[place])) != 0) {
        l->serving |= bit;
        l->claimed |= set;
        l->denied |= ~set;
    }
}

/* Who lost that place may be the one who is right. */
static void look_at_former(const struct mend_world *w, struct look *l, uint32_t place)
{
    const struct group_former *f = former_of(l->group, place);
    const struct member *m = f == NULL ? NULL : members_find(w->members, f->server);
    uint32_t set = m == NULL ? 0 : claim(w, l->group, place, m, f->was.since[place]);

    if (set != 0) {
        l->unmoved |= 1U << place;
        l->claimed |= set;
        l->denied |= ~set;
    }
}

static void look_at(const struct mend_world *w, const struct group_made *g, struct look *l)
{
    *l = (struct look){ .group = g };
    for (uint32_t i = 0; i < g->now.count; i++) {
        const struct member *m = members_find(w->members, g->now.servers[i]);

        l->held |= g->now.servers[i] != 0 ? 1U << i : 0;
        if (m != NULL) {
            look_at_holder(w, l, i, m);
        } else if (g->now.servers[i] == 0) {
            look_at_former(w, l, i);
        }
    }
    l->vacant = ((1U << g->now.count) - 1) & ~l->held;
    l->synced = l->serving & ~l->denied;
}

uint32_t mend_in_sync(const struct mend_world *world, const struct group_made *group)
{
    struct look l;

    look_at(world, group, &l);
    return l.synced;
}

bool mend_is_complete(const struct mend_world *world, const struct group_made *group)
{
    struct look l;

    look_at(world, group, &l);
    return l.synced == l.held && bits(l.held) >= group->copies;
}

static bool is_well(const struct look *l)
{
    return l->synced == l->held && l->current == l->held && bits(l->held) >= l->group->copies;
}

bool mend_is_quiet(const struct mend_world *world, const struct group_made *group)
{
    struct look l;

    look_at(world, group, &l);
    return is_well(&l) && group->told && group->formers_count == 0 && group->forced_s == 0 &&
           group->now.leaving == 0 && l.leaving == 0 && group->moves_from == 0 &&
           bits(l.held) == group->copies;
}

/* Does the table of that version name the vacancy to the holder? */
static bool names_vacancy(const struct group_made *g, uint32_t holder, uint32_t vacant,
                          uint64_t version)
{
    return version >= g->now.since[vacant] && version >= g->restored[holder];
}

/* Places whose servers are outside of the in-sync set, by the word of all who serve. */
static uint32_t outside(const struct look *l)
{
    return l->held & l->denied & ~l->claimed & ~l->serving;
}

/* Has nobody in the set the vacancy of that place on its disk, for sure, and is nobody about to? Whoever is
 * outside comes back without a byte of its own that counts. */
static bool nobody_knows(const struct mend_world *w, const struct look *l, uint32_t vacant)
{
    uint32_t inside = l->held & ~outside(l);

    for (uint32_t i = 0; i < l->group->now.count; i++) {
        const struct member *m = members_find(w->members, l->group->now.servers[i]);
        const struct group_said *said = m == NULL ? NULL : said_of(w, m);

        if ((inside >> i & 1) != 0 &&
            (said == NULL || !said->heard || names_vacancy(l->group, i, vacant, said->has) ||
             names_vacancy(l->group, i, vacant, said->sent))) {
            return false;
        }
    }
    return true;
}

/* Has somebody in the set the vacancy of that place on its disk? */
static bool somebody_knows(const struct mend_world *w, const struct look *l, uint32_t vacant)
{
    uint32_t inside = l->held & ~outside(l);

    for (uint32_t i = 0; i < l->group->now.count; i++) {
        const struct member *m = members_find(w->members, l->group->now.servers[i]);

        if ((inside >> i & 1) != 0 && m != NULL &&
            names_vacancy(l->group, i, vacant, said_of(w, m)->has)) {
            return true;
        }
    }
    return false;
}

/* Places that were vacated, and some member has not taken that and says that their servers are in sync, or
 * they say so themselves. */
static uint32_t contested(const struct mend_world *w, const struct look *l)
{
    uint32_t places = l->unmoved;

    for (uint32_t i = 0; i < l->group->now.count; i++) {
        const struct member *m = members_find(w->members, l->group->now.servers[i]);

        for (uint32_t p = 0; p < l->group->now.count && m != NULL; p++) {
            if ((l->vacant >> p & 1) != 0 && (l->up >> i & 1) != 0 &&
                former_of(l->group, p) != NULL &&
                !names_vacancy(l->group, i, p, said_of(w, m)->has) &&
                (claim(w, l->group, i, m, l->group->now.since[i]) >> p & 1) != 0) {
                places |= 1U << p;
            }
        }
    }
    return places;
}

/* ---- Who gets a place ---- */

bool mend_may_join(const struct mend_world *w, const struct group_made *group,
                   const struct member *m)
{
    size_t at = (size_t)(m - w->members->items);

    return m->up && m->connected && member_gets_new(m) && !w->gone[at] &&
           m->disk.failure[0] == '\0' && !group_concerns(group, m->record.id) &&
           w->groups[at] < SERVER_GROUPS_MAX && group_roll_has_space(m);
}

/* Is it the move alone for which somebody is to get that place? No copy is missing otherwise. */
static bool is_for_move(const struct look *l, uint32_t place)
{
    if (l->moving == 0 || bits(l->held) < l->group->copies) {
        return false;
    }
    return (l->moving >> place & 1) != 0
               ? (l->gone >> place & 1) == 0
               : l->group->now.servers[place] == 0 && former_of(l->group, place) == NULL;
}

/* The most that it shares with one of those who stay. */
static enum sharing shares(const struct mend_world *w, const struct look *l, uint32_t place,
                           const struct member *m)
{
    uint32_t stay = l->held & ~l->leaving & ~(1U << place);
    enum sharing most = SHARE_NOTHING;

    for (uint32_t i = 0; i < l->group->now.count; i++) {
        const struct member *o = members_find(w->members, l->group->now.servers[i]);
        enum sharing s =
            (stay >> i & 1) != 0 && o != NULL ? group_roll_sharing(o, m) : SHARE_NOTHING;

        most = s > most ? s : most;
    }
    return most;
}

/* Is `a` rather to get it than `b`? By what they share already. */
static bool is_better(const struct mend_world *w, const struct member *a, const struct member *b)
{
    uint32_t groups_a = w->groups[a - w->members->items];
    uint32_t groups_b = w->groups[b - w->members->items];

    return groups_a != groups_b ? groups_a < groups_b : a->bytes_free > b->bytes_free;
}

/* Who is wanted there by name: by whoever said that the server of that place is to leave, or, of a spare
 * place, one of the others. */
static server_id wanted(const struct mend_world *w, const struct look *l, uint32_t place)
{
    const struct group_former *former = former_of(l->group, place);
    server_id server = l->group->now.servers[place];
    const struct group_leaver *leaver =
        groups_leaver_find(w->record, server == 0 && former != NULL ? former->server : server);

    for (uint32_t i = 0; server == 0 && former == NULL && i < l->group->now.count; i++) {
        leaver = leaver != NULL ? leaver : groups_leaver_find(w->record, l->group->now.servers[i]);
    }
    if (leaver != NULL && leaver->to != 0) {
        return leaver->to;
    }
    server = server == 0 && former != NULL ? former->server : server;
    return server == 0 || server == l->group->moves_from ? l->group->moves_to : 0;
}

static bool receives_enough(const struct mend_world *w, const struct member *m)
{
    return w->receives[m - w->members->items] >= MEND_REBUILDS_MAX;
}

/* The best of those who share least; those who share more do not stand in for one that is busy. */
static const struct member *best_of(const struct mend_world *w, const struct look *l,
                                    uint32_t place, bool *any)
{
    const struct member *best = NULL;
    enum sharing least = SHARINGS;

    for (uint32_t i = 0; i < w->members->count; i++) {
        const struct member *m = &w->members->items[i];
        enum sharing s = mend_may_join(w, l->group, m) ? shares(w, l, place, m) : SHARINGS;

        if (s < least) {
            least = s;
            best = NULL;
            *any = true;
        }
        if (s != SHARINGS && s == least && !receives_enough(w, m) &&
            (best == NULL || is_better(w, m, best))) {
            best = m;
        }
    }
    return best;
}

/* True: `move` names who is to get the place; false: why nobody is. */
static bool find_taker(const struct mend_world *w, const struct look *l, uint32_t place,
                       struct mend_move *move)
{
    const struct member *taker = members_find(w->members, wanted(w, l, place));
    bool any = taker != NULL && mend_may_join(w, l->group, taker);

    if (!any && is_for_move(l, place)) {
        move->step = MEND_TAKER;
        return false;
    }
    if (!any) {
        taker = best_of(w, l, place, &any);
    } else if (receives_enough(w, taker)) {
        taker = NULL;
    }
    move->step = any ? MEND_BUSY : MEND_NO_SERVER;
    move->to = taker != NULL ? taker->record.id : 0;
    return taker != NULL;
}

/* ---- Steps ---- */

static struct mend_move move_of(enum mend_step step, uint32_t place)
{
    return (struct mend_move){ .step = step, .place = place };
}

/* Places outside of the set whose servers are to be replaced. */
static uint32_t lost(const struct mend_world *w, const struct look *l)
{
    return l->serving == 0 ? 0
                           : outside(l) & (l->leaving | l->group->now.leaving |
                                           (w->record->paused ? 0 : l->gone));
}

/* True: `move` is the next step. A group with enough other copies needs nobody for the place. */
static bool vacate(const struct mend_world *w, const struct look *l, struct mend_move *move)
{
    uint32_t places = lost(w, l);

    if (places == 0) {
        return false;
    }
    *move = move_of(MEND_VACATE, last_of(places));
    if (l->group->formers_count == GROUP_FORMERS_MAX) {
        move->step = MEND_WORN;
        return true;
    }
    if (bits(l->held) > l->group->copies) {
        return true;
    }
    if (find_taker(w, l, move->place, move)) {
        move->step = MEND_VACATE;
    }
    return true;
}

/* So many places are to be held: one more than copies for a server that leaves, where it fits in. A move
 * can wait until nothing else is amiss. */
static uint32_t places_wanted(const struct look *l)
{
    bool complete = l->synced == l->held && bits(l->held) >= l->group->copies;
    uint32_t leave = complete ? l->leaving : l->leaving & ~l->moving;
    uint32_t copies = l->group->copies + ((leave & l->held) != 0 ? 1 : 0);

    return copies < l->group->now.count ? copies : l->group->now.count;
}

static bool assign(const struct mend_world *w, const struct look *l, struct mend_move *move)
{
    if (l->vacant == 0 || bits(l->held) >= places_wanted(l)) {
        return false;
    }
    *move = move_of(MEND_ASSIGN, last_of(l->vacant));
    if (find_taker(w, l, move->place, move)) {
        move->step = l->current == l->held ? MEND_ASSIGN : MEND_LEARNS;
    }
    return true;
}

/* Who got its place last. */
static uint32_t newest(const struct look *l)
{
    uint32_t place = last_of(l->held);

    for (uint32_t i = 0; i < l->group->now.count; i++) {
        if ((l->held >> i & 1) != 0 && l->group->now.since[i] > l->group->now.since[place]) {
            place = i;
        }
    }
    return place;
}

/* Who takes over from it counts from now on: others wait for the same server. Where there is a copy more than needed
 * nobody does; nor does anybody else where that was planned, and has it. */
static struct mend_move leaves_move(const struct mend_world *w, const struct look *l)
{
    struct mend_move move = move_of(MEND_LEAVES, last_of(l->group->now.leaving));

    if ((l->moving >> move.place & 1) != 0) {
        bool holds = group_place(l->group, l->group->moves_to) < l->group->now.count;

        move.to = holds ? 0 : l->group->moves_to;
    } else if (bits(l->held) <= l->group->copies) {
        (void)find_taker(w, l, move.place, &move);
        move.step = MEND_LEAVES;
    }
    return move;
}

/* It is well: somebody is to leave. A copy too many is left of one who was to, and need not any more. */
static bool let_go(const struct mend_world *w, const struct look *l, struct mend_move *move)
{
    uint32_t places = l->leaving & l->held, count = l->group->now.count;

    if (places == 0 && bits(l->held) > l->group->copies) {
        places = 1U << newest(l);
    }
    if (places == 0) {
        return false;
    }
    if (l->group->now.leaving != 0) {
        *move = leaves_move(w, l);
        return true;
    }
    *move = move_of(MEND_LEAVE, last_of(places));
    if (bits(l->held) > l->group->copies) {
        return true;
    }
    if (find_taker(w, l, move->place, move)) {
        move->to = (l->moving >> move->place & 1) != 0 ? move->to : 0;
        move->step = count < REPLICAS_MAX ? MEND_SPARE : MEND_LEAVE;
        move->place = count < REPLICAS_MAX ? count : move->place;
    }
    return true;
}

/* A place that is to be left and need not, or must not now: another one is down. */
static uint32_t stays(const struct look *l)
{
    uint32_t down = l->held & ~l->up;
    uint32_t needed = bits(l->held) > l->group->copies ? 0 : ~l->leaving;

    return l->group->now.leaving & (needed | (down != 0 ? l->synced & ~down : 0));
}

/* A copy is to move, has not yet begun to be made, and will not be; or who was to get it has got the place of
 * another one that was lost. A manager that has just begun does not know yet who is there. */
static bool cannot_move(const struct mend_world *w, const struct look *l)
{
    const struct group_made *g = l->group;
    const struct member *to = members_find(w->members, g->moves_to);
    uint32_t place = group_place(g, g->moves_from);
    size_t at = to != NULL ? (size_t)(to - w->members->items) : 0;

    if (place == g->now.count) {
        return false;
    }
    if (group_place(g, g->moves_to) < g->now.count) {
        return bits(l->held) <= g->copies;
    }
    if (to == NULL || !member_stays(to) || to->leaves || w->gone[at] ||
        group_former_find(g, g->moves_to) != NULL) {
        return true;
    }
    if (!to->up) { /* Who leaves before there is another one waits for nobody. */
        return !to->presumed && (g->now.leaving >> place & 1) != 0 && bits(l->held) <= g->copies;
    }
    return to->disk.failure[0] != '\0' || w->groups[at] >= SERVER_GROUPS_MAX ||
           (to->bytes_total != 0 && (to->bytes_free < g->moves_bytes || !group_roll_has_space(to)));
}

/* Nothing can be done now. */
static struct mend_move rest(const struct mend_world *w, const struct look *l)
{
    uint32_t away = l->held & ~l->up;
    struct mend_move move;

    if (l->serving == 0) {
        return move_of(MEND_NOT_SERVED, 0);
    }
    if (away != 0) {
        return move_of((away & l->gone) != 0 && w->record->paused ? MEND_PAUSED : MEND_AWAY,
                       last_of(away));
    }
    if (l->synced != l->held && (l->group->now.leaving & ~l->synced) != 0) {
        return leaves_move(w, l);
    }
    if (l->synced != l->held) {
        return move_of(MEND_REBUILDS, last_of(l->held & ~l->synced));
    }
    move = move_of(l->current != l->held ? MEND_LEARNS : MEND_REST, last_of(l->held & ~l->current));
    move.to = l->group->now.leaving != 0 ? leaves_move(w, l).to : 0;
    return move;
}

struct mend_move mend_next(const struct mend_world *world, const struct group_made *group)
{
    struct mend_move move = { .step = MEND_REST };
    uint32_t places;
    struct look l;
    bool due;

    look_at(world, group, &l);
    if (group->moves_from != 0 && cannot_move(world, &l)) {
        return move_of(MEND_GIVE_UP, group_place(group, group->moves_from));
    }
    due = vacate(world, &l, &move);
    if (due && move.step == MEND_VACATE) {
        return move;
    }
    if ((places = stays(&l)) != 0) {
        return move_of(MEND_STAY, last_of(places));
    }
    if ((places = contested(world, &l)) != 0) {
        return move_of(nobody_knows(world, &l, last_of(places)) ? MEND_RESTORE : MEND_LEARNS,
                       last_of(places));
    }
    if (due || assign(world, &l, &move)) {
        return move;
    }
    if (is_well(&l)) {
        if (group->formers_count > 0 || group->forced_s != 0) {
            return move_of(MEND_FORGET, 0);
        }
        if (let_go(world, &l, &move)) {
            return move;
        }
    }
    return rest(world, &l);
}

/* Others hear that a copy was named when its server has it: they have nothing any more then. */
static bool waits_for_named(const struct mend_world *w, const struct group_made *g,
                            server_id server)
{
    server_id named = g->forced != 0 ? g->now.servers[g->forced_place] : 0;
    const struct member *m = members_find(w->members, named);

    return named != 0 && named != server && group_concerns(g, server) && m != NULL &&
           g->now.since[g->forced_place] <= g->forced && said_of(w, m)->has < g->forced;
}

bool mend_may_tell(const struct mend_world *world, server_id server)
{
    for (uint32_t i = 0; i < world->record->count; i++) {
        const struct group_made *g = &world->record->items[i];
        uint32_t places;
        struct look l;

        if (waits_for_named(world, g, server)) {
            return false;
        }
        if (g->formers_count == 0 || group_place(g, server) == g->now.count) {
            continue;
        }
        look_at(world, g, &l);
        places = contested(world, &l);
        if (places != 0 && !somebody_knows(world, &l, last_of(places))) {
            return false;
        }
    }
    return true;
}

/* ---- Plans ---- */

void mend_count(struct mend_world *w)
{
    memset(w->groups, 0, sizeof(w->groups));
    memset(w->receives, 0, sizeof(w->receives));
    for (uint32_t i = 0; i < w->record->count; i++) {
        const struct group_made *g = &w->record->items[i];
        uint32_t synced = mend_in_sync(w, g);

        for (uint32_t p = 0; p < g->now.count; p++) {
            const struct member *m = members_find(w->members, g->now.servers[p]);

            if (m != NULL) {
                w->groups[m - w->members->items]++;
                w->receives[m - w->members->items] +=
                    g->now.since[p] > g->version && (synced >> p & 1) == 0;
            }
        }
    }
}

/* It is about to get a place. */
static void expect(struct mend_world *w, server_id server)
{
    const struct member *m = members_find(w->members, server);

    if (m != NULL) {
        w->groups[m - w->members->items]++;
        w->receives[m - w->members->items]++;
    }
}

static void vacate_place(struct group_made *g, uint32_t place, uint64_t version)
{
    struct group_former *f = &g->formers[g->formers_count++];

    CHECK(g->formers_count <= GROUP_FORMERS_MAX && g->now.servers[place] != 0);
    *f = (struct group_former){ g->now.servers[place], place, g->now };
    g->now.servers[place] = 0;
    g->now.since[place] = version;
    g->restored[place] = 0;
    g->now.leaving &= ~(1U << place);
}

static void restore_place(struct group_made *g, uint32_t place, uint64_t version)
{
    const struct group_former *f = former_of(g, place);
    uint32_t at = (uint32_t)(f - g->formers);

    g->now.servers[place] = f->server;
    g->now.since[place] = f->was.since[place];
    g->restored[place] = version;
    memmove(&g->formers[at], &g->formers[at + 1], (g->formers_count - at - 1) * sizeof(*f));
    memset(&g->formers[--g->formers_count], 0, sizeof(*f));
}

static void forget(struct group_made *g)
{
    if (group_place(g, g->moves_from) == g->now.count) {
        group_move_end(g);
    }
    memset(g->formers, 0, sizeof(g->formers));
    g->formers_count = 0;
    g->forced_s = 0;
}

static void make(struct group_made *g, const struct mend_move *move, uint64_t version)
{
    switch (move->step) {
    case MEND_FORGET:
        forget(g);
        break;
    case MEND_RESTORE:
        restore_place(g, move->place, version);
        break;
    case MEND_VACATE:
        vacate_place(g, move->place, version);
        break;
    case MEND_ASSIGN:
        g->now.servers[move->place] = move->to;
        g->now.since[move->place] = version;
        break;
    case MEND_SPARE:
        g->now.since[g->now.count++] = version;
        break;
    case MEND_LEAVE:
        g->now.leaving |= 1U << move->place;
        break;
    case MEND_STAY:
        g->now.leaving &= ~(1U << move->place);
        break;
    case MEND_GIVE_UP:
        group_move_end(g);
        return; /* No server has to hear of it. */
    default:
        CHECK(false);
    }
    g->changed = version;
}

/* All steps of one group. Who is named for a place counts from now on. */
static bool mend_group(struct mend_world *w, struct group_made *g, uint64_t version)
{
    server_id expected = 0;
    bool news = false;

    for (uint32_t i = 0; i < MOVES_MAX; i++) {
        struct mend_move move = mend_next(w, g);

        if (move.to != 0 && move.to != expected && move.step != MEND_VACATE) {
            expect(w, move.to); /* Behind a vacancy comes what it is vacated for. */
            expected = move.to;
        }
        if (move.step >= MEND_REST) {
            break;
        }
        make(g, &move, version);
        news = true;
    }
    return news;
}

/* What has come of its move, if it ends here. */
static void note_move(struct groups_rebalance *r, const struct group_made *before,
                      const struct group_made *after)
{
    if (before->moves_from != 0 && after->moves_from == 0 &&
        (group_place(after, before->moves_to) == after->now.count ||
         group_place(after, before->moves_from) < after->now.count)) {
        r->given_up++;
        r->given_up_bytes += before->moves_bytes;
    }
}

/* Those with a place to give come first: it is for them that others must wait. */
bool mend_plan(struct mend_world *w, struct groups_record *next)
{
    const struct groups_record *now = w->record;
    struct group_made g;
    bool news = false;

    mend_count(w);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < now->count; i++) {
            bool open = group_place(&now->items[i], 0) < now->items[i].now.count ||
                        now->items[i].now.leaving != 0;

            if (open != (turn == 0)) {
                continue;
            }
            g = now->items[i];
            if (!mend_group(w, &g, now->version + 1)) {
                continue;
            }
            if (!news) {
                *next = *now;
                next->version++;
            }
            next->items[i] = g;
            note_move(&next->rebalance, &now->items[i], &g);
            news = true;
        }
    }
    return news;
}
