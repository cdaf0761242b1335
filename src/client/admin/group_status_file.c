/* What is wrong with groups, in words. */
#include "client/admin/group_status_file.h"

#include "common/base/check.h"

#include <inttypes.h>
#include <stdio.h>

/* enum group_state of a storage server, which this program does not include. */
enum { CONSISTENT, STANDALONE };

enum { PROGRESS_WIDE = 10 };

static const char *state_name(const Morsel__CopyState *copy)
{
    static const char *const names[] = { "consistent", "standalone", "stale", "recovering" };

    if (copy->opening) {
        return "opening";
    }
    return copy->state < ARRAY_COUNT(names) ? names[copy->state] : "unknown";
}

/* Behind "server 4 ". */
static const char *state_words(const Morsel__CopyState *copy)
{
    static const char *const words[] = { "is complete and about to take part again",
                                         "goes on without the others",
                                         "waits to be brought up to date",
                                         "is being brought up to date" };

    if (copy->state == STANDALONE && !copy->serves) {
        return "has gone on without the others, and does not serve yet";
    }
    return copy->state < ARRAY_COUNT(words) ? words[copy->state] : "is in a state unknown here";
}

/* The copy of that place, if it is not well. */
static const Morsel__CopyState *find_copy(const Morsel__GroupStatus *group, uint32_t place)
{
    for (size_t i = 0; i < group->n_copies && i < group->n_places; i++) {
        if (group->places[i] == place) {
            return group->copies[i];
        }
    }
    return NULL;
}

/* Has it all that was acknowledged, by its own word? */
static bool in_sync(const Morsel__CopyState *copy)
{
    return copy != NULL && copy->serves && (copy->state == CONSISTENT || copy->state == STANDALONE);
}

/* Who goes on without others knows it before they do: the places that are in sync, as bits. */
static uint32_t newest_set(const Morsel__GroupStatus *group)
{
    uint32_t set = UINT32_MAX;
    uint64_t epoch = 0;

    for (size_t i = 0; i < group->n_copies; i++) {
        const Morsel__CopyState *c = group->copies[i];

        if (in_sync(c) && c->epoch >= epoch) {
            epoch = c->epoch;
            set = c->set;
        }
    }
    return set;
}

static bool has_all(const Morsel__GroupStatus *group, uint32_t place)
{
    const Morsel__CopyState *copy = find_copy(group, place);

    return place < 32 && group->group->servers[place] != 0 &&
           (newest_set(group) >> place & 1) != 0 && (copy == NULL || in_sync(copy));
}

/* How many copies have everything that was acknowledged, and answer. */
static size_t count_serving(const Morsel__GroupStatus *group)
{
    size_t count = 0;

    for (uint32_t i = 0; group->group != NULL && i < group->group->n_servers; i++) {
        count += has_all(group, i);
    }
    return count;
}

bool group_is_well(const Morsel__GroupStatus *group)
{
    return group->told && group->complete;
}

size_t groups_unwell(const Morsel__StatusReply *status)
{
    size_t unwell = 0;

    for (size_t i = 0; i < status->n_groups; i++) {
        unwell += !group_is_well(status->groups[i]);
    }
    return unwell;
}

/* ---- JSON ---- */

static uint32_t server_at(const Morsel__GroupStatus *g, uint32_t place)
{
    return g->group != NULL && place < g->group->n_servers ? g->group->servers[place] : 0;
}

static json_t *copies_json(const Morsel__GroupStatus *group)
{
    json_t *copies = json_array();

    for (size_t i = 0; i < group->n_copies && i < group->n_places; i++) {
        const Morsel__CopyState *c = group->copies[i];

        (void)json_array_append_new(
            copies,
            json_pack("{s:I, s:I, s:s, s:b, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:s}", "place",
                      (json_int_t)group->places[i], "server",
                      (json_int_t)server_at(group, group->places[i]), "state", state_name(c),
                      "serves", (int)c->serves, "epoch", print_json_number(c->epoch), "set",
                      (json_int_t)c->set, "bytes_left", print_json_number(c->bytes_left),
                      "objects_left", print_json_number(c->objects_left), "bytes_begun",
                      print_json_number(c->bytes_begun), "begun_ms", print_json_number(c->begun_ms),
                      "rate_limit", print_json_number(c->rate_limit), "trouble", c->trouble));
    }
    return copies;
}

static json_t *servers_json(const Morsel__Group *group)
{
    json_t *servers = json_array();

    for (size_t i = 0; group != NULL && i < group->n_servers; i++) {
        (void)json_array_append_new(servers, json_integer((json_int_t)group->servers[i]));
    }
    return servers;
}

/* The copy that is to go to another server. */
static json_t *move_json(const Morsel__RebalanceMove *move)
{
    return move == NULL ? json_null()
                        : json_pack("{s:I, s:I, s:o}", "from", (json_int_t)move->from, "to",
                                    (json_int_t)move->to, "bytes", print_json_number(move->bytes));
}

json_t *group_status_json_one(const Morsel__GroupStatus *g)
{
    return json_pack("{s:I, s:o, s:I, s:b, s:b, s:s, s:I, s:o, s:o, s:I, s:o, s:o}", "number",
                     (json_int_t)(g->group != NULL ? g->group->number : 0), "servers",
                     servers_json(g->group), "copies_wanted",
                     (json_int_t)(g->group != NULL ? g->group->copies : 0), "told", (int)g->told,
                     "well", (int)group_is_well(g), "waits", g->waits, "complete_copies",
                     (json_int_t)count_serving(g), "unwell_ms", print_json_number(g->unwell_ms),
                     "forced_s", print_json_number(g->forced_s), "forced", (json_int_t)g->forced,
                     "copies", copies_json(g), "move", move_json(g->move));
}

json_t *group_status_json(const Morsel__StatusReply *status)
{
    json_t *groups = json_array();

    for (size_t i = 0; i < status->n_groups; i++) {
        (void)json_array_append_new(groups, group_status_json_one(status->groups[i]));
    }
    return groups;
}

/* ---- Text ---- */

/* "[######....] 61%, 1.2 GiB in 340 objects to come, about 2 min". */
static void print_progress(const Morsel__CopyState *c)
{
    uint64_t done = c->bytes_begun > c->bytes_left ? c->bytes_begun - c->bytes_left : 0;
    char left[PRINT_TEXT_MAX], time[PRINT_TEXT_MAX], limit[PRINT_TEXT_MAX];

    if (c->bytes_begun > 0) {
        unsigned tenths = (unsigned)((double)done / (double)c->bytes_begun * PROGRESS_WIDE);

        (void)printf(" [%.*s%.*s] %u%%", (int)tenths, "##########", (int)(PROGRESS_WIDE - tenths),
                     "..........", done == 0 ? 0 : print_percent(done, c->bytes_begun));
    }
    if (c->bytes_left > 0) {
        (void)printf(", %s in %" PRIu64 " objects to come", print_bytes(c->bytes_left, left),
                     c->objects_left);
    } else { /* It is not known yet how long they are. */
        (void)printf(", %" PRIu64 " objects to come", c->objects_left);
    }
    if (done > 0 && c->begun_ms > 0) {
        double ms = (double)c->begun_ms * (double)c->bytes_left / (double)done;

        (void)printf(", about %s", print_duration_ms((uint64_t)ms, time));
    }
    if (c->rate_limit > 0) {
        (void)printf(", at most %s a second", print_bytes(c->rate_limit, limit));
    }
}

static void print_copy(const Morsel__CopyState *c, uint32_t server)
{
    if (c->trouble[0] != '\0') {
        (void)printf("; server %" PRIu32 ": %s", server, c->trouble);
        return;
    }
    (void)printf("; server %" PRIu32 " %s", server, state_words(c));
    if (c->bytes_left > 0 || c->objects_left > 0) {
        print_progress(c);
    }
}

/* What is at risk. */
static void print_risk(const Morsel__GroupStatus *g)
{
    size_t serving = count_serving(g);

    if (!g->told) {
        (void)printf(": not known to all of its servers yet, so no new file lies there");
    } else if (serving == 0) {
        (void)printf(": no copy can be read or written until a server that has all of it is back");
    } else if (serving == 1) {
        (void)printf(": only one copy has all of it");
    } else {
        (void)printf(": %zu copies have all of it", serving);
    }
}

/* Those who hold its places. */
static void print_servers(const Morsel__Group *group)
{
    bool first = true;

    for (size_t i = 0; group != NULL && i < group->n_servers; i++) {
        if (group->servers[i] != 0) {
            (void)printf("%s%" PRIu32, first ? " " : ", ", group->servers[i]);
            first = false;
        }
    }
}

void group_status_print_one(const Morsel__GroupStatus *g)
{
    (void)printf("group %" PRIu32 " (servers", g->group != NULL ? g->group->number : 0);
    print_servers(g->group);
    (void)printf(")");
    print_risk(g);
    for (uint32_t i = 0; g->group != NULL && i < g->group->n_servers; i++) {
        const Morsel__CopyState *copy = find_copy(g, i);

        if (g->group->servers[i] == 0) {
            continue;
        }
        if (copy != NULL) {
            print_copy(copy, g->group->servers[i]);
        } else if (!has_all(g, i)) {
            (void)printf("; server %" PRIu32 " is left behind", g->group->servers[i]);
        }
    }
    (void)printf("\n");
    if (g->forced != 0) {
        (void)printf("            FORCED: the copy on server %" PRIu32
                     " was named as the one that counts; what it had not is lost\n",
                     g->forced);
    }
    if (g->waits[0] != '\0') {
        (void)printf("            %s\n", g->waits);
    }
}

bool leaver_has_left(const Morsel__Member *member)
{
    return member->leaves && member->places == 0 && member->objects == 0 && member->looked &&
           member->files == 0;
}

const char *leaver_words(const Morsel__Member *member, char text[LEAVER_TEXT_MAX])
{
    if (leaver_has_left(member)) {
        (void)snprintf(text, LEAVER_TEXT_MAX, "HAS LEFT: can be stopped for good");
    } else if (member->places == 0 && member->files > 0) {
        (void)snprintf(text, LEAVER_TEXT_MAX,
                       "leaves: %" PRIu64 " files with one copy need it (`morsel recover status`)",
                       member->files);
    } else {
        (void)snprintf(text, LEAVER_TEXT_MAX, "leaves");
    }
    return text;
}

/* ---- What is at risk ---- */

static void print_missing(const Morsel__GroupStatus *g)
{
    for (uint32_t i = 0; i < g->group->n_servers; i++) {
        const Morsel__CopyState *copy = find_copy(g, i);

        if (g->group->servers[i] == 0) {
            (void)printf("            one place is vacant\n");
        } else if (!has_all(g, i)) {
            (void)printf("            missing: server %" PRIu32 ", %s\n", g->group->servers[i],
                         copy == NULL               ? "left behind"
                         : copy->trouble[0] != '\0' ? copy->trouble
                                                    : state_name(copy));
        }
    }
}

static void print_loss_of(const Morsel__GroupStatus *g)
{
    size_t serving = count_serving(g);
    char since[PRINT_TEXT_MAX];

    (void)printf("          group %" PRIu32 ": not complete for %s, or longer; %zu of %" PRIu32
                 " copies have all of it\n",
                 g->group->number, print_duration_ms(g->unwell_ms, since), serving,
                 g->group->copies);
    print_missing(g);
    if (serving == 0) {
        (void)printf(
            "            its files wait. If who is missing never comes back, `morsel recover "
            "force %" PRIu32 " SERVER` shows what would be lost with each copy that is left\n",
            g->group->number);
    }
    for (uint32_t i = 0; i < g->group->n_servers && serving == 1; i++) {
        if (has_all(g, i)) {
            (void)printf("            if server %" PRIu32
                         " is lost now, so is what was written since then\n",
                         g->group->servers[i]);
        }
    }
}

void group_status_print_loss(const Morsel__StatusReply *status)
{
    bool any = false;

    (void)printf("at risk\n");
    for (size_t i = 0; i < status->n_groups; i++) {
        if (!group_is_well(status->groups[i]) && status->groups[i]->group != NULL) {
            print_loss_of(status->groups[i]);
            any = true;
        }
    }
    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *m = status->members[i];

        if (!m->up && m->objects > 0) {
            (void)printf(
                "          server %" PRIu32 " is down, with %" PRIu64
                " objects when it was heard last: those of files with one copy are nowhere else\n",
                m->id, m->objects);
            any = true;
        }
    }
    if (!any) {
        (void)printf("          nothing: all copies are complete, and all servers are there\n");
    }
}

void group_status_print(const Morsel__StatusReply *status)
{
    size_t unwell = groups_unwell(status);

    if (status->n_groups == 0) {
        return;
    }
    if (unwell == 0) {
        (void)printf("copies    %zu groups of servers, all copies are complete\n",
                     (size_t)status->n_groups);
        return;
    }
    (void)printf("copies    %zu of %zu groups of servers are not well; what only one copy has is "
                 "lost with its server\n",
                 unwell, (size_t)status->n_groups);
    for (size_t i = 0; i < status->n_groups; i++) {
        if (!group_is_well(status->groups[i])) {
            (void)printf("          ");
            group_status_print_one(status->groups[i]);
        }
    }
}
