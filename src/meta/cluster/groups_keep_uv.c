/* Planning, keeping, telling; who waits for groups. */
#include "meta/cluster/groups_inner_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/namespace/namespace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parked
{
    struct list node;
    struct rpc_request *request;
    load_again again;
    uint64_t subject;
};

const struct groups_record *groups_record_now(const struct meta *meta)
{
    return ns_groups(meta->ns);
}

/* ---- Keeping ---- */

static void on_durable(struct sync_waiter *waiter, int status);

static void persist(struct groups_host *h)
{
    h->persisting = groups_record_now(h->meta)->version;
    list_init(&h->waiter.node);
    sync_wait(&h->meta->sync, &h->waiter, on_durable);
}

/* What was kept meanwhile may not be in this sync. */
static void on_durable(struct sync_waiter *waiter, int status)
{
    struct groups_host *h = CONTAINER_OF(waiter, struct groups_host, waiter);

    if (status == 0) {
        h->durable = h->persisting;
    }
    h->persisting = 0;
    if (status == 0 && h->durable != groups_record_now(h->meta)->version) {
        persist(h);
    }
}

/* 0: it is in effect, and told when it is on disk. */
int groups_keep(struct groups_host *h, const struct groups_record *record, struct errmsg *err)
{
    struct meta_op op = { .kind = OP_GROUPS, .time_ns = meta_clock_ns() };
    struct buf bytes;
    int rv = MORSEL_NOMEM;

    buf_init(&bytes);
    groups_record_encode(record, &bytes);
    if (!bytes.failed) {
        op.groups.record = buf_slice(&bytes);
        rv = meta_execute(h->meta, &op, err);
    }
    buf_free(&bytes);
    if (rv == 0 && h->persisting == 0) {
        persist(h);
    }
    return rv;
}

/* Bit k: there are to be groups of k servers, because somebody has set a policy, or by default. */
static uint32_t wanted(const struct groups_host *h)
{
    uint32_t copies = copies_rule_wanted(h->rule);

    return groups_record_now(h->meta)->wanted | (copies > 1 ? 1U << copies : 0);
}

/* All that are wanted, for the servers that are up. */
void groups_plan(struct groups_host *h)
{
    struct errmsg err = { "" };

    loads_begin(&h->meta->loads);
    for (uint32_t copies = 2; copies <= REPLICAS_MAX; copies++) {
        uint32_t before = groups_record_now(h->meta)->count;

        if ((wanted(h) & 1U << copies) == 0 ||
            !group_roll_plan(groups_record_now(h->meta), &h->meta->members, copies, h->next)) {
            continue;
        }
        if (groups_keep(h, h->next, &err) != 0) {
            log_warning(h->meta->log,
                        "make groups of %u servers: %s: trying again with the next "
                        "server that comes up",
                        copies, err.text);
            return;
        }
        /* What is kept is another record than before. */
        log_info(h->meta->log, "%u groups of %u servers are made; %u in all",
                 groups_record_now(h->meta)->count - before, copies,
                 groups_record_now(h->meta)->count);
    }
}

/* ---- Who waits ---- */

static void release(struct groups_host *h)
{
    struct list waiting;
    struct list *node;

    list_init(&waiting);
    while ((node = list_pop_front(&h->parked)) != NULL) {
        list_push_back(&waiting, node);
    }
    while ((node = list_pop_front(&waiting)) != NULL) {
        struct parked *p = LIST_ENTRY(node, struct parked, node);

        p->again(h->meta, p->request, p->subject);
        free(p);
    }
    loads_begin(&h->meta->loads);
    if (list_empty(&h->parked)) {
        (void)uv_timer_stop(&h->timer);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct groups_host *h = timer->data;

    h->patient = true;
    h->waited = groups_record_now(h->meta)->version;
    release(h);
    h->patient = false;
}

void groups_members_changed(struct meta *meta)
{
    struct groups_host *h = meta->groups;

    if (h == NULL || meta->closing) {
        return;
    }
    groups_plan(h);
    release(h);
}

void groups_moved(struct meta *meta, server_id server)
{
    const struct groups_record *now = groups_record_now(meta);
    const struct member *m = members_find(&meta->members, server);
    struct groups_host *h = meta->groups;
    struct errmsg err = { "" };
    bool has = false;
    char *known;

    CHECK(m != NULL);
    known = h->addresses[m - meta->members.items];
    if (strcmp(known, m->record.address) == 0) {
        return; /* Something else of it is new. */
    }
    for (uint32_t i = 0; i < now->count && !has; i++) {
        has = group_concerns(&now->items[i], server);
    }
    if (has) {
        *h->next = *now;
        h->next->version++;
        loads_begin(&meta->loads);
        if (groups_keep(h, h->next, &err) != 0) {
            log_warning(meta->log,
                        "tell the groups of storage server %u its new address: %s: restart it to "
                        "have this tried again",
                        server, err.text);
            return;
        }
    }
    (void)snprintf(known, sizeof(*h->addresses), "%s", m->record.address);
}

bool groups_park(struct meta *meta, struct rpc_request *request, load_again again, uint64_t subject)
{
    struct groups_host *h = meta->groups;
    struct parked *p = h != NULL && h->parking ? calloc(1, sizeof(*p)) : NULL;

    if (p == NULL) {
        return false;
    }
    h->parking = false;
    list_init(&p->node);
    p->request = request;
    p->again = again;
    p->subject = subject;
    /* Who comes back from a release waits as long as from the beginning. */
    if (!uv_is_active((uv_handle_t *)&h->timer)) {
        (void)uv_timer_start(&h->timer, on_timer,
                             (uint64_t)meta->members.heartbeat_ms * GROUPS_WAIT_HEARTBEATS, 0);
    }
    list_push_back(&h->parked, &p->node);
    return true;
}

/* Groups of so many servers: */
struct standing
{
    bool told;  /* there are some that files may lie on, ... */
    bool to_be; /* and some that are yet to be told, and whose servers are up. */
};

static struct standing look(const struct meta *meta, uint32_t copies)
{
    const struct groups_record *record = groups_record_now(meta);
    struct standing s = { false, false };

    for (uint32_t i = 0; i < record->count; i++) {
        const struct group_made *g = &record->items[i];
        uint32_t up = 0;

        for (uint32_t j = 0; j < g->now.count; j++) {
            const struct member *m = members_find(&meta->members, g->now.servers[j]);

            up += m != NULL && m->up;
        }
        s.told |= g->copies == copies && g->told;
        s.to_be |= g->copies == copies && !g->told && up == copies;
    }
    return s;
}

static uint32_t servers_there(const struct meta *meta)
{
    uint32_t there = 0;

    for (uint32_t i = 0; i < meta->members.count; i++) {
        const struct member *m = &meta->members.items[i];

        there += (m->up || m->presumed) && member_gets_new(m);
    }
    return there;
}

static int too_few(const struct meta *meta, uint32_t copies, struct errmsg *err)
{
    uint32_t there = servers_there(meta);

    if (there >= copies) {
        return 0;
    }
    errmsg_set(err,
               "%u copies need %u storage servers, and %u %s up: start more, or use fewer replicas",
               copies, copies, there, there == 1 ? "is" : "are");
    return MORSEL_NO_SERVERS;
}

int groups_want(struct meta *meta, uint32_t copies, struct errmsg *err)
{
    struct groups_host *h = meta->groups;
    const struct groups_record *now = groups_record_now(meta);
    struct standing standing = look(meta, copies);
    int rv;

    h->parking = false;
    if (standing.told && (h->patient || !standing.to_be)) {
        return 0;
    }
    if (!standing.told && (rv = too_few(meta, copies, err)) != 0) {
        return rv;
    }
    if (h->patient) {
        errmsg_set(err,
                   "the storage servers have not taken over their groups yet: try again, and see "
                   "`morsel status`");
        return MORSEL_NO_SERVERS;
    }
    if ((now->wanted & 1U << copies) == 0 &&
        group_roll_plan(now, &meta->members, copies, h->next) &&
        (rv = groups_keep(h, h->next, err)) != 0) {
        return rv;
    }
    h->parking = true;
    return MORSEL_AGAIN;
}

/* ---- What nobody has asked for ---- */

/* Asked for each file that is made: mostly the first group is one. */
static bool any_told(const struct groups_record *record, uint32_t copies)
{
    for (uint32_t i = 0; i < record->count; i++) {
        if (record->items[i].copies == copies && record->items[i].told) {
            return true;
        }
    }
    return false;
}

static uint32_t choose(const struct meta *meta)
{
    const struct groups_host *h = meta->groups;
    const struct groups_record *now = groups_record_now(meta);
    uint64_t wait_ms = (uint64_t)meta->members.heartbeat_ms * GROUPS_WAIT_HEARTBEATS;
    struct copies_around around = { .servers = servers_there(meta),
                                    .told = any_told(now, copies_rule_wanted(h->rule)),
                                    .waited =
                                        h->waited == now->version || wait_ms > COPIES_WAIT_MS_MAX };

    return copies_rule_choose(h->rule, &around);
}

int groups_default(struct meta *meta, uint32_t *copies_out)
{
    struct groups_host *h = meta->groups;

    *copies_out = choose(meta);
    h->parking = *copies_out == 0;
    return h->parking ? MORSEL_AGAIN : 0;
}

void groups_default_now(const struct meta *meta, uint32_t *copies_out, uint32_t *rule_out)
{
    uint32_t copies = choose(meta);

    *rule_out = meta->groups->rule;
    *copies_out = copies != 0 ? copies : copies_rule_wanted(*rule_out);
}

static void log_rule(const struct groups_host *h, uint32_t set)
{
    if (h->rule == COPIES_AUTO) {
        log_info(h->meta->log, "new files have two copies once two storage servers are there, "
                               "where their directory does not say otherwise");
        return;
    }
    log_info(h->meta->log, "new files have %u %s where their directory does not say otherwise%s",
             h->rule, h->rule == 1 ? "copy" : "copies",
             set != COPIES_RULE_OF_DATABASE
                 ? ""
                 : ", for the database is of an older version; with --replicas=auto they get two");
}

/* ---- What servers say ---- */

/* What is left is an estimate, and clients write meanwhile: what was to come is what has been given since, and that. Of a server
 * that does not say what it gives, the most that was ever left. */
static uint64_t to_come(const struct rebuild_begin *b, const struct copy_said *copy)
{
    uint64_t given = copy->bytes_given - b->given;

    if (given > 0) {
        return copy->bytes_left + given;
    }
    return copy->bytes_left > b->bytes_left ? copy->bytes_left : b->bytes_left;
}

/* When the copy began to be brought up to date, by its server's first word of what is left. Who has given less than before has begun
 * again. */
static struct rebuild_begin begin_of(const struct groups_host *h, size_t place,
                                     const struct copy_said *copy)
{
    const struct group_said *before = &h->roll.said[place];

    for (size_t i = 0; i < before->count; i++) {
        const struct rebuild_begin *b = &h->begins[place][i];

        if (b->group == copy->group && b->bytes_left > 0 && copy->bytes_left > 0 &&
            copy->bytes_given >= b->given) {
            return (struct rebuild_begin){ b->group, b->since_ms, to_come(b, copy), b->given };
        }
    }
    return (struct rebuild_begin){ copy->group, meta_now_ms(h->meta), copy->bytes_left,
                                   copy->bytes_given };
}

static void copy_take(struct copy_said *to, const Morsel__CopyState *from)
{
    to->group = from->group;
    to->state = from->state;
    to->set = from->set;
    to->serves = from->serves != 0;
    to->epoch = from->epoch;
    to->bytes_left = from->bytes_left;
    to->objects_left = from->objects_left;
    to->rate_limit = from->rate_limit;
    to->begun = from->begun;
    to->whole = from->whole != 0;
    to->closed = from->closed != 0;
    to->opening = from->opening != 0;
    to->reaches = from->reaches;
    to->doubt_bytes = from->doubt_bytes;
    to->bytes_given = from->bytes_given;
    members_take_words(to->trouble, sizeof(to->trouble), from->trouble);
}

/* Without memory for them nothing is known of any copy. */
static void hear_copies(struct groups_host *h, size_t place, Morsel__CopyState *const *copies,
                        size_t count)
{
    struct group_said *said = &h->roll.said[place];
    struct rebuild_begin *begins = NULL;
    struct copy_said *items = NULL;

    said->partial = count >= SERVER_STATES_MAX;
    count = count < GROUP_COPIES_TOLD_MAX ? count : GROUP_COPIES_TOLD_MAX;
    if (count > 0) {
        items = calloc(count, sizeof(*items));
        begins = calloc(count, sizeof(*begins));
        if (items == NULL || begins == NULL) {
            free(items);
            free(begins);
            said->heard = false;
            return;
        }
    }
    for (size_t i = 0; i < count; i++) {
        copy_take(&items[i], copies[i]);
        begins[i] = begin_of(h, place, &items[i]);
    }
    free(said->copies);
    free(h->begins[place]);
    said->copies = items;
    said->count = count;
    h->begins[place] = begins;
}

/* What all its servers have is told from now on, also behind a restart. */
static void note_told(struct groups_host *h)
{
    const struct groups_record *now = groups_record_now(h->meta);
    struct errmsg err = { "" };
    bool news = false;

    for (uint32_t i = 0; i < now->count; i++) {
        const struct group_made *g = &now->items[i];

        if (!g->told && group_roll_told(&h->roll, &h->meta->members, g)) {
            if (!news) {
                *h->next = *now;
            }
            h->next->items[i].told = news = true;
        }
    }
    loads_begin(&h->meta->loads);
    if (news && groups_keep(h, h->next, &err) == 0) {
        release(h);
    }
}

/* Once: nothing changes it but another database. What it knows of is not ours: it has none. */
static bool is_ahead(struct groups_host *h, server_id server, uint64_t version)
{
    uint64_t ours = groups_record_now(h->meta)->version;

    if (version <= ours) {
        return false;
    }
    if (h->ahead != server) {
        h->ahead = server;
        log_error(
            h->meta->log,
            "storage server %u knows of the groups of version %" PRIu64
            ", and the database of none behind %" PRIu64
            ": was the database put back to an older state? Its groups are told nothing until "
            "the newer database is back in place",
            server, version, ours);
    }
    return true;
}

void groups_forget(struct meta *meta, server_id server)
{
    const struct member *m = members_find(&meta->members, server);

    if (m != NULL) {
        meta->groups->roll.said[m - meta->members.items].heard = false;
    }
}

void groups_heard(struct meta *meta, server_id server, uint64_t version,
                  Morsel__CopyState *const *copies, size_t count)
{
    struct groups_host *h = meta->groups;
    const struct member *m = members_find(&meta->members, server);
    size_t place = m == NULL ? 0 : (size_t)(m - meta->members.items);
    uint64_t before;

    if (m == NULL) {
        return;
    }
    h->ahead_of_us[place] = is_ahead(h, server, version);
    version = h->ahead_of_us[place] ? 0 : version;
    before = h->roll.said[place].has;
    h->roll.said[place].heard = true;
    h->roll.said[place].has = version;
    h->roll.said[place].sent = 0;
    hear_copies(h, place, copies, count);
    if (version > before) {
        note_told(h);
    }
}

/* ---- What servers are told ---- */

struct told
{
    Morsel__GroupSet set;
    Morsel__Group groups[SERVER_GROUPS_MAX], *group_pointers[SERVER_GROUPS_MAX];
    struct group_holders holders[SERVER_GROUPS_MAX]; /* As that server is told them. */
    Morsel__Member servers[SERVERS_MAX], *server_pointers[SERVERS_MAX];
};

static void add_server(struct told *t, const struct meta *meta, server_id id)
{
    const struct member *m = members_find(&meta->members, id);
    size_t at = t->set.n_servers;

    for (size_t i = 0; i < at; i++) {
        if (t->servers[i].id == id) {
            return;
        }
    }
    if (m == NULL || at == SERVERS_MAX) {
        return;
    }
    morsel__member__init(&t->servers[at]);
    t->servers[at].id = id;
    t->servers[at].address = (char *)(uintptr_t)m->record.address;
    t->server_pointers[at] = &t->servers[at];
    t->set.n_servers++;
}

/* Who was named holds its place as it did then. */
static bool groups_names(const struct group_made *g, const struct group_holders *holders)
{
    uint32_t place = g->forced_place;

    return g->forced != 0 && place < holders->count &&
           holders->servers[place] == g->now.servers[place] && holders->since[place] < g->forced;
}

/* `holders` are borrowed. */
void groups_fill(Morsel__Group *to, const struct group_made *from, struct group_holders *holders)
{
    morsel__group__init(to);
    to->number = from->number;
    to->copies = from->copies;
    to->n_servers = to->n_since = holders->count;
    to->servers = holders->servers;
    to->since = holders->since;
    to->leaving = holders->leaving;
    if (groups_names(from, holders)) {
        to->forced = from->forced;
        to->forced_place = from->forced_place;
    }
}

/* Who has lost its place is told the group as it was, until the group is well. */
static void add_group(struct told *t, const struct meta *meta, const struct group_made *g,
                      server_id server)
{
    const struct group_former *former = group_former_find(g, server);
    size_t at = t->set.n_groups++;

    t->holders[at] = former != NULL ? former->was : g->now;
    groups_fill(&t->groups[at], g, &t->holders[at]);
    t->group_pointers[at] = &t->groups[at];
    for (uint32_t i = 0; i < t->holders[at].count; i++) {
        add_server(t, meta, t->holders[at].servers[i]);
    }
}

Morsel__GroupSet *groups_told(struct meta *meta, server_id server)
{
    const struct groups_record *record = groups_record_now(meta);
    struct groups_host *h = meta->groups;
    const struct member *m = members_find(&meta->members, server);
    size_t place = m == NULL ? 0 : (size_t)(m - meta->members.items);
    struct told *t;

    if (m == NULL || record->version == 0 || h->durable != record->version ||
        h->ahead_of_us[place] || h->roll.said[place].has == record->version ||
        !mend_may_tell(groups_look(h), server) || !groups_force_known(h, server) ||
        (t = calloc(1, sizeof(*t))) == NULL) {
        return NULL;
    }
    h->roll.said[place].sent = record->version;
    morsel__group_set__init(&t->set);
    t->set.version = record->version;
    for (uint32_t i = 0; i < record->count && t->set.n_groups < SERVER_GROUPS_MAX; i++) {
        const struct group_made *g = &record->items[i];

        if (group_concerns(g, server)) {
            add_group(t, meta, g, server);
        }
    }
    t->set.groups = t->group_pointers;
    t->set.servers = t->server_pointers;
    return &t->set;
}

void groups_told_free(Morsel__GroupSet *set)
{
    if (set != NULL) {
        free(CONTAINER_OF(set, struct told, set));
    }
}

/* ---- Files ---- */

int groups_place(struct meta *meta, inode_id inode, uint32_t copies, uint32_t width,
                 struct file_layout *layout, struct errmsg *err)
{
    const struct groups_record *record = groups_record_now(meta);
    uint32_t count =
        group_roll_choose(record, &meta->members, inode, copies, width, layout->groups);

    if (count == 0) {
        errmsg_set(err, "no group of %u storage servers is up, for %u copies; see `morsel status`",
                   copies, copies);
        return MORSEL_NO_SERVERS;
    }
    for (uint32_t i = 0; i < count; i++) {
        layout->servers[i] = group_first_held(groups_record_find(record, layout->groups[i]));
    }
    layout->stripe.width = count;
    return 0;
}

/* ---- Beginning and end ---- */

int groups_host_open(struct meta *meta, struct errmsg *err)
{
    struct groups_host *h = calloc(1, sizeof(*h));
    uint32_t set;
    int rv = copies_rule_parse(meta->settings->replicas, &set, err);

    if (rv != 0) {
        free(h);
        return rv;
    }
    if (h == NULL || (h->next = malloc(sizeof(*h->next))) == NULL ||
        (h->addresses = calloc(SERVERS_MAX, sizeof(*h->addresses))) == NULL) {
        free(h == NULL ? NULL : h->next);
        free(h);
        return MORSEL_NOMEM;
    }
    for (uint32_t i = 0; i < meta->members.count; i++) {
        (void)snprintf(h->addresses[i], sizeof(*h->addresses), "%s",
                       meta->members.items[i].record.address);
    }
    meta->groups = h;
    h->meta = meta;
    h->durable = groups_record_now(meta)->version;
    h->waited = UINT64_MAX;
    h->rule = copies_rule_of(set, ns_super(meta->ns)->auto_copies);
    list_init(&h->parked);
    groups_mark_leavers(h);
    log_rule(h, set);
    return 0;
}

void groups_host_start(struct meta *meta)
{
    struct groups_host *h = meta->groups;

    (void)uv_timer_init(meta->loop, &h->timer);
    (void)uv_timer_init(meta->loop, &h->mend_timer);
    h->timer.data = h->mend_timer.data = h;
    h->handles = 2;
    (void)uv_timer_start(&h->mend_timer, groups_mend_tick, GROUPS_MEND_MS, GROUPS_MEND_MS);
}

static void on_closed(uv_handle_t *handle)
{
    struct groups_host *h = handle->data;

    if (--h->handles == 0) {
        h->closed(h->meta);
    }
}

void groups_refuse_waiting(struct meta *meta, int status)
{
    struct list *node;

    while ((node = list_pop_front(&meta->groups->parked)) != NULL) {
        struct parked *p = LIST_ENTRY(node, struct parked, node);

        rpc_reply_failure(p->request, status, NULL);
        free(p);
    }
}

void groups_host_close(struct meta *meta, void (*closed)(struct meta *meta))
{
    struct groups_host *h = meta->groups;

    h->closed = closed;
    uv_close((uv_handle_t *)&h->timer, on_closed);
    uv_close((uv_handle_t *)&h->mend_timer, on_closed);
}

void groups_host_free(struct meta *meta)
{
    struct groups_host *h = meta->groups;

    if (h == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SERVERS_MAX; i++) {
        free(h->roll.said[i].copies);
        free(h->begins[i]);
    }
    groups_rebalance_free(h);
    free(h->verifies);
    free(h->addresses);
    free(h->next);
    free(h);
    meta->groups = NULL;
}
