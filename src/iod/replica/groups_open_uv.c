/* Which copies there are: opened, opened again when others hold the group's places, dropped. */
#include "iod/replica/groups_inner_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "iod/replica/groups_kept_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    STARTS_BITS = 24, /* Of a server; above them stands when it was given its place ... */
    SINCE_BITS = 20,  /* ... since numbers of sessions and rounds need the rest of 64. */
    DROP_IDS = 1024
};

/* A copy that is not needed any more: its objects, and then its files. */
struct dropping
{
    struct dropping *next; /* groups->dropping */
    struct groups *groups;
    group_number number;
    bool wanted; /* The group is to be ours again: no more of its objects is deleted. */
    uint64_t cursor;
    struct object_id ids[DROP_IDS];
};

static const char *address_of(const Morsel__GroupSet *set, server_id id)
{
    for (size_t i = 0; i < set->n_servers; i++) {
        if (set->servers[i]->id == id) {
            return set->servers[i]->address;
        }
    }
    return NULL;
}

static uint64_t since_of(const Morsel__Group *said, size_t place)
{
    return place < said->n_since ? said->since[place] : 0;
}

/* In which table our copy was named as the one that counts; 0: it was not, or a holder of the place before. */
static uint64_t forced_of(const Morsel__Group *said, uint32_t me)
{
    return said->forced_place == me && since_of(said, me) < said->forced ? said->forced : 0;
}

/* False: no address is known. */
static bool fill_place(struct groups *g, struct group_entry *e, uint32_t i,
                       const Morsel__GroupSet *set)
{
    struct errmsg err = { "" };
    const char *address;

    if (e->servers[i] == g->server->datadir.node) {
        e->me = i;
        return true;
    }
    e->leases[i] = &e->none;
    if (e->servers[i] == 0) {
        return true;
    }
    address = address_of(set, e->servers[i]);
    e->peers[i] = address == NULL ? NULL : peers_add(&g->peers, e->servers[i], address, &err);
    if (e->peers[i] == NULL) {
        log_error(g->server->log, "group %u: storage server %u cannot be reached: %s", e->number,
                  e->servers[i], address == NULL ? "the manager tells no address" : err.text);
        return false;
    }
    e->leases[i] = &e->peers[i]->lease;
    return true;
}

/* False: it is not of us, or a server has no address that we know. */
static bool fill_entry(struct groups *g, struct group_entry *e, const Morsel__GroupSet *set,
                       const Morsel__Group *said)
{
    e->groups = g;
    e->number = said->number;
    e->count = (uint32_t)said->n_servers;
    e->me = e->count;
    memset(e->peers, 0, sizeof(e->peers));
    memset(e->leases, 0, sizeof(e->leases));
    for (uint32_t i = 0; i < e->count; i++) {
        e->servers[i] = said->servers[i];
        e->since[i] = since_of(said, i);
        if (!fill_place(g, e, i, set)) {
            return false;
        }
    }
    e->forced = e->me < e->count ? forced_of(said, e->me) : 0;
    return e->me < e->count;
}

/* A newcomer's place is younger than one of the others. */
static enum copy_file_kind kind_of(const struct group_entry *e, bool known)
{
    for (uint32_t i = 0; i < e->count && !known; i++) {
        if (e->servers[i] != 0 && e->since[i] < e->since[e->me]) {
            return COPY_FILE_NEWCOMER;
        }
    }
    return known ? COPY_FILE_KNOWN : COPY_FILE_NEW;
}

/* Starts are told apart also when the place had another holder before. */
static int open_copy(struct groups *g, struct group_entry *e, uint64_t start, bool known,
                     struct errmsg *err)
{
    struct copy_setup setup = { .number = e->number,
                                .count = e->count,
                                .me = e->me,
                                .since = e->since[e->me],
                                .start = e->since[e->me] << STARTS_BITS | start,
                                .kind = kind_of(e, known),
                                .forced = e->forced,
                                .leases = e->leases,
                                .slow_limit_ms = g->slow_limit_ms,
                                .slow_pause_ms = g->slow_pause_ms,
                                .server = g->server,
                                .gate = &g->gate,
                                .hooks = &groups_copy_hooks,
                                .data = e };

    memcpy(setup.servers, e->servers, sizeof(setup.servers));
    if (e->since[e->me] >> SINCE_BITS != 0 || start >> STARTS_BITS != 0) {
        errmsg_set(err,
                   "version %" PRIu64 " of the groups, or start %" PRIu64
                   " of this server, is more than can be counted",
                   e->since[e->me], start);
        return MORSEL_CORRUPT;
    }
    return copy_open(&setup, &e->copy, err);
}

static void say_not_opened(const struct groups *g, group_number number, int status,
                           const struct errmsg *err)
{
    log_error(g->server->log,
              "group %u cannot be opened: %s; the other servers of the group go on without this "
              "one, start it again when that is mended",
              number, err->text[0] != '\0' ? err->text : status_words(status));
}

static bool stood_alone(const struct group_entry *e)
{
    return e->copy != NULL && e->count > 1 &&
           copy_replica(e->copy)->group.record.set == (group_set)(1U << e->me);
}

static void open_group(struct groups *g, const Morsel__GroupSet *set, const Morsel__Group *said,
                       bool known)
{
    struct group_entry *e = calloc(1, sizeof(*e));
    struct errmsg err = { "" };
    int rv = MORSEL_NOMEM;

    if (e != NULL && !fill_entry(g, e, set, said)) {
        free(e);
        return;
    }
    if (e != NULL) {
        HASH_ADD(hh, g->table, number, sizeof(e->number), e);
        rv = open_copy(g, e, g->start, known, &err);
        e->unsure_ms = stood_alone(e) ? rpc_boot_ms() + GROUPS_UNSURE_MS : 0;
    }
    if (rv != MORSEL_OK) {
        say_not_opened(g, said->number, rv, &err);
        return;
    }
    copy_set_leaving(e->copy, (group_set)said->leaving);
    g->open++;
}

static const Morsel__Group *group_in(const Morsel__GroupSet *set, group_number number)
{
    for (size_t i = 0; set != NULL && i < set->n_groups; i++) {
        if (set->groups[i]->number == number) {
            return set->groups[i];
        }
    }
    return NULL;
}

/* ---- Others hold its places ---- */

static bool is_changed(const struct group_entry *e, const Morsel__Group *said)
{
    bool changed = e->count != said->n_servers ||
                   (e->me < said->n_servers && e->forced != forced_of(said, e->me));

    for (uint32_t i = 0; i < e->count && !changed; i++) {
        changed = e->servers[i] != said->servers[i] || e->since[i] != since_of(said, i);
    }
    return changed;
}

/* Places that others are to have, or nobody. */
static group_set places_lost(const struct group_entry *e, const Morsel__Group *said)
{
    group_set lost = 0;

    for (uint32_t i = 0; i < e->count; i++) {
        if (e->servers[i] != 0 && (i >= said->n_servers || said->servers[i] != e->servers[i])) {
            lost |= (group_set)(1U << i);
        }
    }
    return lost;
}

static group_set set_loses(const struct group_entry *e, const Morsel__Group *said)
{
    const struct group_record *r = &copy_replica(e->copy)->group.record;

    return group_in_sync(r->state) ? r->set & places_lost(e, said) : 0;
}

/* Whoever is in the set does not lose its place: it may have what others have not. But where a copy was named
 * what they have does not count. */
static bool may_change(const struct group_entry *e, const Morsel__Group *said)
{
    if (e->copy == NULL || !is_changed(e, said)) {
        return !e->closing;
    }
    if (said->forced != 0 && e->me < said->n_servers && e->forced != forced_of(said, e->me)) {
        return !e->closing;
    }
    return set_loses(e, said) == 0;
}

/* What is left of it stays, for a newcomer is given everything; but no deletion is at work when that begins. */
static bool is_dropped(const struct groups *g, group_number number)
{
    for (struct dropping *d = g->dropping; d != NULL; d = d->next) {
        if (d->number == number) {
            d->wanted = true;
            return true;
        }
    }
    return false;
}

/* The manager may have taken a place from a server that was outside of the set, and came back in before we were told.
 * Another member that was told first hears nothing from it, and each would have the other voted out, for ever. Who has left
 * so is not taken in again while another group keeps the table from being taken over. */
bool groups_may_take_over(struct groups *g, const Morsel__GroupSet *set)
{
    bool may = true;

    for (size_t i = 0; i < set->n_groups; i++) {
        struct group_entry *e = groups_find(g, set->groups[i]->number);

        if (e == NULL) {
            may = !is_dropped(g, set->groups[i]->number) && may;
        } else if (!may_change(e, set->groups[i])) {
            may = false;
        }
        if (e != NULL && e->copy != NULL && !e->closing) {
            copy_set_displaced(e->copy, places_lost(e, set->groups[i]));
        }
    }
    return may;
}

static void drop_objects(void *data);

/* It starts anew, as a copy of a server that starts does, but with the leases that it has given; if the group is
 * still ours. */
static void open_again(void *data)
{
    struct group_entry *e = data;
    struct groups *g = e->groups;
    const Morsel__Group *said = group_in(g->kept, e->number);
    struct errmsg err = { "" };
    uint64_t start = 0;
    int rv = MORSEL_CORRUPT;

    e->closing = false;
    if (g->closing) {
        groups_copy_closed(g);
        return;
    }
    if (said == NULL) {
        ballots_end(&g->ballots, e->number);
        drop_objects(e);
        return;
    }
    if (fill_entry(g, e, g->kept, said)) {
        rv = groups_count_start(g->server->datadir.path, &start, &err);
        rv = rv == MORSEL_OK ? open_copy(g, e, start, true, &err) : rv;
    }
    if (rv != MORSEL_OK) {
        say_not_opened(g, e->number, rv, &err);
        groups_copy_closed(g);
        return;
    }
    copy_set_leaving(e->copy, (group_set)said->leaving);
    peers_flush(&g->peers);
    groups_rearm(g);
}

static void change_group(struct group_entry *e, const Morsel__Group *said)
{
    struct copy *copy = e->copy;

    if (!is_changed(e, said)) {
        if (copy != NULL) {
            copy_set_leaving(copy, (group_set)said->leaving);
        }
        return;
    }
    log_info(e->groups->server->log, "group %u: other servers hold its places", e->number);
    e->copy = NULL;
    if (copy == NULL) { /* It could not be opened as it was. */
        e->groups->open++;
        open_again(e);
        return;
    }
    e->closing = true;
    copy_close(copy, open_again, e);
}

/* ---- It is not ours any more ---- */

static void run_drop(struct job *job)
{
    struct dropping *d = job->data;
    struct store *store = object_store_of(job);
    size_t count = 0;

    if (d->cursor != UINT64_MAX) {
        job->status = store_list(store, &d->cursor, d->ids, DROP_IDS, &count, &job->err);
    }
    for (size_t i = 0; i < count && job->status == MORSEL_OK; i++) {
        if (placing_group(d->ids[i].column) == d->number) {
            job->status = store_delete(store, d->ids[i], &job->err);
        }
    }
    if (job->status == MORSEL_OK && d->cursor == UINT64_MAX) {
        job->status = copy_file_remove(d->groups->server->datadir.path, d->number, &job->err);
    }
}

static void drop_go_on(struct dropping *d);

static void drop_end(struct dropping *d)
{
    struct dropping **at = &d->groups->dropping;

    while (*at != d) {
        at = &(*at)->next;
    }
    *at = d->next;
    groups_copy_closed(d->groups);
    free(d);
}

static void on_dropped(struct job *job)
{
    struct dropping *d = job->data;
    struct log *log = d->groups->server->log;
    bool over = job->status != MORSEL_OK || d->cursor == UINT64_MAX;

    if (job->status != MORSEL_OK && job->status != MORSEL_SHUTDOWN) {
        log_error(log,
                  "group %u: its copy here is not needed any more, and could not be deleted: %s; "
                  "\"morsel fsck --repair\" frees its space",
                  d->number, job->err.text);
    } else if (over && job->status == MORSEL_OK) {
        log_info(log, "group %u: its copy here is not needed any more, and is deleted%s", d->number,
                 d->wanted ? "; but for what is left, as this server gets a new one" : "");
    }
    job_free(job);
    if (over || d->groups->closing) {
        drop_end(d);
    } else {
        drop_go_on(d);
    }
}

static void drop_go_on(struct dropping *d)
{
    struct job *job = job_new(&d->groups->server->jobs, d->groups->server);

    d->cursor = d->wanted ? UINT64_MAX : d->cursor;
    if (job != NULL) {
        job->data = d;
        if (job_start(job, run_drop, on_dropped, false) == MORSEL_OK) {
            return;
        }
        job_free(job);
    }
    drop_end(d); /* What is left is not ours: fsck finds it. */
}

static void drop_objects(void *data)
{
    struct group_entry *e = data;
    struct groups *g = e->groups;
    struct dropping *d = g->closing ? NULL : calloc(1, sizeof(*d));
    group_number number = e->number;

    HASH_DEL(g->table, e);
    free(e);
    if (d == NULL) {
        groups_copy_closed(g);
        return;
    }
    d->groups = g;
    d->number = number;
    d->next = g->dropping;
    g->dropping = d;
    drop_go_on(d);
}

static void drop_group(struct groups *g, struct group_entry *e)
{
    struct copy *copy = e->copy;

    ballots_end(&g->ballots, e->number);
    e->copy = NULL;
    if (copy == NULL) {
        g->open++;
        drop_objects(e);
        return;
    }
    e->closing = true;
    copy_close(copy, drop_objects, e);
}

/* ---- What the manager has told ---- */

/* We held the same place before. */
static bool was_ours(const struct groups *g, const Morsel__GroupSet *before,
                     const Morsel__Group *said)
{
    const Morsel__Group *was = group_in(before, said->number);

    for (size_t i = 0; was != NULL && i < was->n_servers && i < said->n_servers; i++) {
        if (said->servers[i] == g->server->datadir.node) {
            return was->servers[i] == said->servers[i] && since_of(was, i) == since_of(said, i);
        }
    }
    return false;
}

static void take_over(struct groups *g, const Morsel__GroupSet *set, const Morsel__GroupSet *before)
{
    struct group_entry *e, *next;
    struct errmsg err;

    for (size_t i = 0; i < set->n_servers; i++) {
        if (peers_find(&g->peers, set->servers[i]->id) != NULL) {
            (void)peers_add(&g->peers, set->servers[i]->id, set->servers[i]->address, &err);
        }
    }
    for (size_t i = 0; i < set->n_groups; i++) {
        e = groups_find(g, set->groups[i]->number);
        if (e == NULL) {
            open_group(g, set, set->groups[i], was_ours(g, before, set->groups[i]));
        } else {
            change_group(e, set->groups[i]);
        }
    }
    HASH_ITER(hh, g->table, e, next)
    {
        if (group_in(set, e->number) == NULL && !e->closing) { /* Otherwise when it is closed. */
            drop_group(g, e);
        }
    }
    if (!g->timer_open && g->table != NULL) {
        (void)uv_timer_init(g->server->loop, &g->timer);
        g->timer.data = g;
        g->timer_open = true;
    }
    peers_flush(&g->peers);
    groups_rearm(g);
}

int groups_begin(struct groups *g, struct errmsg *err)
{
    int rv = MORSEL_OK;

    if (g->start == 0) {
        rv = groups_count_start(g->server->datadir.path, &g->start, err);
        g->peers.start = g->start;
    }
    return rv;
}

/* Beforehand none of ours was on the disk, so what is new there is new. */
void groups_take_over(struct groups *g, Morsel__GroupSet *set)
{
    Morsel__GroupSet *before = g->kept;

    CHECK(g->start != 0);
    if (g->closing || g->leave_ms != 0) {
        morsel__group_set__free_unpacked(set, NULL);
        return;
    }
    g->kept = set;
    take_over(g, set, before);
    morsel__group_set__free_unpacked(before, NULL);
}

int groups_open(struct groups *g, struct errmsg *err)
{
    struct object_server *server = g->server;
    int rv = groups_kept_read(server->datadir.path, &g->kept, err);

    g->peers.rpc = g->ballots.rpc = server->rpc;
    recovery_gate_init(&g->gate, g->recovery_rate);
    g->peers.hooks = &groups_peers_hooks;
    g->peers.data = g->ballots.data = g;
    g->ballots.log = server->log;
    g->ballots.voter = g->voter;
    g->ballots.manager = server->manager;
    g->ballots.voters = g->voters;
    g->ballots.voters_data = g->voters_data;
    g->ballots.decided = groups_decided;
    groups_hand_ons_begin(g);
    g->probes.ballots = &g->ballots;
    g->probes.dead = groups_dead;
    g->probes.data = g;
    server->route_data = g;
    server->route = groups_route;
    if (rv == MORSEL_CORRUPT) {
        log_warning(server->log, "%s: the manager is asked for the groups again", err->text);
        return MORSEL_OK;
    }
    if (rv != MORSEL_OK || g->kept == NULL) {
        return rv;
    }
    rv = groups_count_start(server->datadir.path, &g->start, err);
    if (rv == MORSEL_OK && g->start == 1) {
        errmsg_set(err,
                   "%s/starts is missing: this server cannot tell its starts apart; put the file "
                   "back from where "
                   "it went, or register with an empty directory",
                   server->datadir.path);
        rv = MORSEL_CORRUPT;
    }
    if (rv == MORSEL_OK) {
        g->peers.start = g->start;
        take_over(g, g->kept, g->kept);
    }
    return rv;
}
