/* How groups are, for `morsel status` and `morsel recover status`. */
#include "common/base/check.h"
#include "meta/cluster/groups_inner_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* So many bytes of what servers say in words fit into an answer; behind them there are none. */
enum { STATUS_WORDS_MAX = 128 << 10, WAITS_MAX = 192, MS_PER_S = 1000 };

struct groups_status
{
    size_t words;
    size_t count;
    Morsel__GroupStatus *items, **pointers;
    Morsel__Group *groups;
    struct group_holders *holders;
    Morsel__CopyState (*copies)[REPLICAS_MAX], *(*copy_pointers)[REPLICAS_MAX];
    uint32_t (*places)[REPLICAS_MAX];
    char (*waits)[WAITS_MAX];
    Morsel__VerifyState *verifies;
    Morsel__RebalanceMove *moves;
    Morsel__RebalanceStatus rebalance;
};

/* ---- What is done about a group ---- */

/* With one number: of a server. */
static const char *const step_words[MEND_STEPS] = {
    [MEND_FORGET] = "all copies are complete: the old one is about to be deleted",
    [MEND_RESTORE] = "server %u has come back in time, and keeps its place",
    [MEND_VACATE] = "server %u is about to lose its place",
    [MEND_ASSIGN] = "server %u is about to get a place",
    [MEND_SPARE] = "another copy is about to be made before server %u gives up its own",
    [MEND_LEAVE] = "server %u is about to leave",
    [MEND_STAY] = "server %u is to stay",
    [MEND_GIVE_UP] = "the copy of server %u is not to move any more",
    [MEND_REST] = "",
    [MEND_LEARNS] = "waits until its servers know who holds its places",
    [MEND_REBUILDS] = "server %u is being brought up to date",
    [MEND_LEAVES] = "server %u is being let go",
    [MEND_PAUSED] = "server %u is away, and rebuilding is paused: `morsel recover start`",
    [MEND_NO_SERVER] = "no other server with space can take the place of server %u: start one more",
    [MEND_BUSY] = "the servers that could take the place of server %u are receiving other groups",
    [MEND_NOT_SERVED] = "no copy serves: nothing is replaced before one does",
    [MEND_TAKER] = "waits for server %u, to which a copy is to move",
    [MEND_WORN] = "too many servers lost a place of it: bring one back before the last one fails",
};

static server_id subject_of(const struct group_made *g, const struct mend_move *move)
{
    server_id server = move->place < g->now.count ? g->now.servers[move->place] : 0;

    if (move->step == MEND_ASSIGN) {
        return move->to;
    }
    if (move->step == MEND_TAKER) {
        return g->moves_to;
    }
    for (uint32_t i = g->formers_count; server == 0 && i > 0; i--) {
        server = g->formers[i - 1].place == move->place ? g->formers[i - 1].server : 0;
    }
    for (uint32_t i = 0; server == 0 && i < g->now.count; i++) {
        server = g->now.servers[i]; /* A place that nobody had: of somebody who is to leave. */
    }
    return server;
}

static void waits_fill(const struct groups_host *h, const struct group_made *g,
                       char words[WAITS_MAX])
{
    uint64_t after_s = h->meta->settings->rebuild_after_ms / MS_PER_S;
    struct mend_move move = mend_next(&h->mend, g);
    server_id server = subject_of(g, &move);

    words[0] = '\0';
    if (move.step == MEND_AWAY && after_s == 0) {
        (void)snprintf(words, WAITS_MAX,
                       "server %u is away, and nothing is replaced by itself: `morsel recover "
                       "replace %u auto`, if it does not come back",
                       server, server);
    } else if (move.step == MEND_AWAY) {
        (void)snprintf(words, WAITS_MAX,
                       "server %u is away, and is replaced when it has been for %" PRIu64 " s",
                       server, after_s);
    } else if (strstr(step_words[move.step], "%u") != NULL) {
        const char *at = strstr(step_words[move.step], "%u");

        (void)snprintf(words, WAITS_MAX, "%.*s%u%s", (int)(at - step_words[move.step]),
                       step_words[move.step], server, at + 2);
    } else {
        (void)snprintf(words, WAITS_MAX, "%s", step_words[move.step]);
    }
}

/* ---- Copies ---- */

/* A server that is down is not well either, whatever it has said before, and of one that has not said
 * anything nobody knows. NULL: what it says counts. */
static const char *why_unknown(const struct groups_host *h, server_id server)
{
    const struct member *m = members_find(&h->meta->members, server);

    if (m == NULL || !m->up) {
        return "its server is down";
    }
    if (h->ahead_of_us[m - h->meta->members.items]) {
        return "its server knows of newer groups than the manager: see the manager's log";
    }
    return h->roll.said[m - h->meta->members.items].heard ? NULL
                                                          : "its server has not said yet how it is";
}

/* How its rebuilding began. */
static void begin_fill(const struct groups_host *h, Morsel__CopyState *to, size_t place, size_t at)
{
    const struct rebuild_begin *b = &h->begins[place][at];

    to->bytes_begun = b->bytes_left;
    to->begun_ms = b->bytes_left == 0 ? 0 : meta_now_ms(h->meta) - b->since_ms;
}

void groups_copy_say(Morsel__CopyState *to, const struct copy_said *from)
{
    morsel__copy_state__init(to);
    to->group = from->group;
    to->state = from->state;
    to->serves = from->serves;
    to->epoch = from->epoch;
    to->set = from->set;
    to->bytes_left = from->bytes_left;
    to->objects_left = from->objects_left;
    to->rate_limit = from->rate_limit;
    to->begun = from->begun;
    to->whole = from->whole;
    to->closed = from->closed;
    to->opening = from->opening;
    to->reaches = from->reaches;
    to->doubt_bytes = from->doubt_bytes;
    to->bytes_given = from->bytes_given;
}

/* False: it is well. */
static bool copy_fill(const struct groups_host *h, Morsel__CopyState *to, group_number group,
                      server_id server, size_t *words)
{
    const struct member *m = members_find(&h->meta->members, server);
    size_t place = m == NULL ? 0 : (size_t)(m - h->meta->members.items);
    const struct copy_said *from = group_roll_said(&h->roll.said[place], group);
    const char *unknown = why_unknown(h, server);

    morsel__copy_state__init(to);
    to->group = group;
    if (unknown != NULL) {
        to->state = GROUP_STATE_UNKNOWN;
        to->trouble = (char *)(uintptr_t)unknown;
        return true;
    }
    if (from != NULL) {
        groups_copy_say(to, from);
        begin_fill(h, to, place, (size_t)(from - h->roll.said[place].copies));
        *words += strlen(from->trouble);
        to->trouble = (char *)(uintptr_t)(*words <= STATUS_WORDS_MAX ? from->trouble : "");
    }
    return from != NULL;
}

static void status_fill(const struct groups_host *h, struct groups_status *s, size_t at,
                        const struct group_made *g)
{
    Morsel__GroupStatus *to = &s->items[at];

    morsel__group_status__init(to);
    s->holders[at] = g->now;
    groups_fill(&s->groups[at], g, &s->holders[at]);
    to->group = &s->groups[at];
    to->told = g->told;
    to->complete = mend_is_complete(&h->mend, g);
    to->unwell_ms = groups_unwell_ms(h, (uint32_t)at);
    to->forced_s = g->forced_s;
    to->forced = g->forced_s != 0 ? g->now.servers[g->forced_place] : 0;
    waits_fill(h, g, s->waits[at]);
    to->waits = s->waits[at];
    to->verify = groups_verify_fill(h, g->number, &s->verifies[at]) ? &s->verifies[at] : NULL;
    if (g->moves_from != 0) {
        groups_move_say(&s->moves[at], g->number, g->moves_from, g->moves_to, g->moves_bytes);
        to->move = &s->moves[at];
    }
    for (uint32_t i = 0; i < g->now.count; i++) {
        size_t n = to->n_copies;

        if (g->now.servers[i] != 0 &&
            copy_fill(h, &s->copies[at][n], g->number, g->now.servers[i], &s->words)) {
            s->copy_pointers[at][n] = &s->copies[at][n];
            s->places[at][n] = i;
            to->n_copies++;
        }
    }
    to->copies = s->copy_pointers[at];
    to->n_places = to->n_copies;
    to->places = s->places[at];
    s->pointers[at] = to;
}

void groups_status_free(struct groups_status *s)
{
    if (s != NULL) {
        free(s->items);
        free(s->pointers);
        free(s->groups);
        free(s->holders);
        free(s->copies);
        free(s->copy_pointers);
        free(s->places);
        free(s->waits);
        free(s->verifies);
        free(s->moves);
        free(s);
    }
}

struct groups_status *groups_status_new(struct meta *meta, Morsel__StatusReply *reply)
{
    const struct groups_record *record = groups_record_now(meta);
    struct groups_status *s = record->count == 0 ? NULL : calloc(1, sizeof(*s));
    size_t count = record->count;

    reply->rebuild_after_ms = meta->settings->rebuild_after_ms;
    reply->rebuild_paused = record->paused;
    if (s == NULL) {
        return NULL;
    }
    s->items = calloc(count, sizeof(*s->items));
    s->pointers = calloc(count, sizeof(void *));
    s->groups = calloc(count, sizeof(*s->groups));
    s->holders = calloc(count, sizeof(*s->holders));
    s->copies = calloc(count, sizeof(*s->copies));
    s->copy_pointers = calloc(count, sizeof(*s->copy_pointers));
    s->places = calloc(count, sizeof(*s->places));
    s->waits = calloc(count, sizeof(*s->waits));
    s->verifies = calloc(count, sizeof(*s->verifies));
    s->moves = calloc(count, sizeof(*s->moves));
    if (s->items == NULL || s->pointers == NULL || s->groups == NULL || s->holders == NULL ||
        s->copies == NULL || s->copy_pointers == NULL || s->places == NULL || s->waits == NULL ||
        s->verifies == NULL || s->moves == NULL) {
        groups_status_free(s);
        return NULL;
    }
    mend_count(groups_look(meta->groups));
    for (uint32_t i = 0; i < record->count; i++) {
        status_fill(meta->groups, s, i, &record->items[i]);
    }
    reply->n_groups = count;
    reply->groups = s->pointers;
    reply->rebalance = groups_rebalance_status(meta, &s->rebalance) ? &s->rebalance : NULL;
    return s;
}

/* ---- Members ---- */

uint32_t groups_places(const struct meta *meta, server_id server, server_id other, uint32_t *both)
{
    const struct groups_record *record = groups_record_now(meta);
    uint32_t places = 0;

    *both = 0;
    for (uint32_t i = 0; i < record->count; i++) {
        const struct group_made *g = &record->items[i];

        if (group_concerns(g, server)) {
            places++;
            *both += other != 0 && group_concerns(g, other);
        }
    }
    return places;
}

void groups_members_fill(struct meta *meta, Morsel__Member *messages)
{
    const struct groups_record *record = groups_record_now(meta);

    for (uint32_t i = 0; i < meta->members.count; i++) {
        const struct group_leaver *leaver =
            groups_leaver_find(record, meta->members.items[i].record.id);

        messages[i].leaves = leaver != NULL;
        messages[i].leaves_to = leaver != NULL ? leaver->to : 0;
        if (leaver != NULL) {
            messages[i].looked = meta->members.items[i].left.known;
            messages[i].files = meta->members.items[i].left.files;
            messages[i].files_bytes = meta->members.items[i].left.bytes;
        }
    }
    for (uint32_t i = 0; i < record->count; i++) {
        const struct group_made *g = &record->items[i];

        for (uint32_t p = 0; p < g->now.count + g->formers_count; p++) {
            server_id id =
                p < g->now.count ? g->now.servers[p] : g->formers[p - g->now.count].server;
            const struct member *m = members_find(&meta->members, id);

            if (m != NULL) {
                messages[m - meta->members.items].places++;
            }
        }
    }
}

/* ---- For mounts ---- */

struct groups_changed
{
    size_t count;
    struct group_holders *holders;
    Morsel__Group *items, **pointers;
};

void groups_changed_free(struct groups_changed *c)
{
    if (c != NULL) {
        free(c->holders);
        free(c->items);
        free(c->pointers);
        free(c);
    }
}

struct groups_changed *groups_changed_new(struct meta *meta, Morsel__MembersReply *reply)
{
    const struct groups_record *record = groups_record_now(meta);
    struct groups_changed *c;
    size_t count = 0;

    for (uint32_t i = 0; i < record->count; i++) {
        count += record->items[i].changed > record->items[i].version;
    }
    if (count == 0 || (c = calloc(1, sizeof(*c))) == NULL) {
        return NULL;
    }
    c->holders = calloc(count, sizeof(*c->holders));
    c->items = calloc(count, sizeof(*c->items));
    c->pointers = calloc(count, sizeof(void *));
    if (c->holders == NULL || c->items == NULL || c->pointers == NULL) {
        groups_changed_free(c);
        return NULL;
    }
    for (uint32_t i = 0; i < record->count; i++) {
        const struct group_made *g = &record->items[i];

        if (g->changed > g->version) {
            c->holders[c->count] = g->now;
            groups_fill(&c->items[c->count], g, &c->holders[c->count]);
            c->items[c->count].n_since = 0;
            c->pointers[c->count] = &c->items[c->count];
            c->count++;
        }
    }
    reply->n_groups = c->count;
    reply->groups = c->pointers;
    return c;
}
