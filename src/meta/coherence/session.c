/* Tables of clients and of what each holds open; the heap of their deadlines. */
#include "meta/coherence/session.h"

#include "common/base/check.h"
#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/base/status.h"

#include <stdlib.h>

enum { OPEN_BUCKETS = 1 << 15, CLIENT_BUCKETS = 1 << 12 };

struct session
{
    struct list in_bucket;
    struct list in_all;
    client_id id;
    enum session_state state;
    uint64_t heard_ms;
    struct heap_node silence; /* Key: when it ended if nothing had been heard since it was set. */
    struct list opens;
};

/* An inode that is open: by how many sessions, and by how many for writing. */
struct open_inode
{
    struct list in_bucket;
    inode_id inode;
    uint32_t opens, writers;
};

/* One session holds one inode open. */
struct session_open
{
    struct list in_bucket;
    struct list in_session; /* Or in the table's list of released inodes. */
    inode_id inode;
    bool write;
    bool named, named_write; /* In the list that a client brings along: see settle_named(). */
    struct session *session;
};

struct session_table
{
    uint32_t session_ms;
    uint64_t grace_until_ms;
    bool in_grace;
    uint32_t count;
    uint64_t opens;
    struct list all;
    struct heap
        silences; /* What is heard does not move a session; its turn comes, and it is put back. */
    struct list released;
    struct list clients[CLIENT_BUCKETS];
    struct list inodes[OPEN_BUCKETS];    /* struct open_inode */
    struct list by_holder[OPEN_BUCKETS]; /* struct session_open, by inode and session */
};

static void emit(struct session_actions *out, struct session_action action)
{
    CHECK(out->count < SESSION_ACTIONS_MAX);
    out->items[out->count++] = action;
}

static uint64_t hash(uint64_t id)
{
    return (id * 0x9e3779b97f4a7c15U) >> 40;
}

static void check_invariants(const struct session_table *s)
{
    CHECK(s->count <= SESSIONS_MAX && s->opens <= SESSION_OPENS_MAX);
    CHECK_IMPLIES(s->count == 0, s->opens == 0);
}

struct session_table *session_table_new(const struct session_options *options)
{
    struct session_table *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return NULL;
    }
    s->session_ms = options->session_ms;
    s->in_grace = !options->fresh;
    s->grace_until_ms = options->now_ms + options->session_ms;
    list_init(&s->all);
    heap_init(&s->silences);
    list_init(&s->released);
    for (uint32_t i = 0; i < CLIENT_BUCKETS; i++) {
        list_init(&s->clients[i]);
    }
    for (uint32_t i = 0; i < OPEN_BUCKETS; i++) {
        list_init(&s->inodes[i]);
        list_init(&s->by_holder[i]);
    }
    return s;
}

static struct session *find(const struct session_table *s, client_id id)
{
    const struct list *bucket = &s->clients[hash(id) % CLIENT_BUCKETS];

    LIST_FOREACH(node, bucket)
    {
        struct session *session = LIST_ENTRY(node, struct session, in_bucket);

        if (session->id == id) {
            return session;
        }
    }
    return NULL;
}

/* ---- Open files ---- */

static struct open_inode *find_inode(const struct session_table *s, inode_id inode)
{
    const struct list *bucket = &s->inodes[hash(inode) % OPEN_BUCKETS];

    LIST_FOREACH(node, bucket)
    {
        struct open_inode *open = LIST_ENTRY(node, struct open_inode, in_bucket);

        if (open->inode == inode) {
            return open;
        }
    }
    return NULL;
}

static uint64_t holder_bucket(inode_id inode, client_id client)
{
    return hash(inode ^ hash(client)) % OPEN_BUCKETS;
}

static struct session_open *find_open(const struct session_table *s, inode_id inode,
                                      const struct session *session)
{
    const struct list *bucket = &s->by_holder[holder_bucket(inode, session->id)];

    LIST_FOREACH(node, bucket)
    {
        struct session_open *open = LIST_ENTRY(node, struct session_open, in_bucket);

        if (open->inode == inode && open->session == session) {
            return open;
        }
    }
    return NULL;
}

/* The inode's counts, made if need be. NULL: out of memory. */
static struct open_inode *inode_of(struct session_table *s, inode_id inode)
{
    struct open_inode *counts = find_inode(s, inode);

    if (counts == NULL && (counts = calloc(1, sizeof(*counts))) != NULL) {
        counts->inode = inode;
        list_init(&counts->in_bucket);
        list_push_front(&s->inodes[hash(inode) % OPEN_BUCKETS], &counts->in_bucket);
    }
    return counts;
}

static void inode_drop(struct open_inode *counts)
{
    list_remove(&counts->in_bucket);
    free(counts);
}

/* Harmless when it is there already. False: at the limit, or out of memory. */
static bool add_open(struct session_table *s, struct session *session, inode_id inode, bool write)
{
    struct session_open *open = find_open(s, inode, session);
    struct open_inode *counts;

    if (open != NULL) {
        open->named = true;
        open->named_write |= write;
        if (write && !open->write) {
            open->write = true;
            find_inode(s, inode)->writers++;
        }
        return true;
    }
    if (s->opens == SESSION_OPENS_MAX || (counts = inode_of(s, inode)) == NULL) {
        return false;
    }
    if ((open = calloc(1, sizeof(*open))) == NULL) {
        if (counts->opens == 0) {
            inode_drop(counts);
        }
        return false;
    }
    open->inode = inode;
    open->write = open->named_write = write;
    open->named = true;
    open->session = session;
    list_init(&open->in_bucket);
    list_init(&open->in_session);
    list_push_front(&s->by_holder[holder_bucket(inode, session->id)], &open->in_bucket);
    list_push_back(&session->opens, &open->in_session);
    counts->opens++;
    counts->writers += write;
    s->opens++;
    return true;
}

static void remove_open(struct session_table *s, struct session_open *open)
{
    struct open_inode *counts = find_inode(s, open->inode);

    CHECK(counts != NULL && counts->opens > 0 && counts->writers >= open->write);
    list_remove(&open->in_bucket);
    list_remove(&open->in_session);
    s->opens--;
    counts->writers -= open->write;
    if (--counts->opens > 0) {
        free(open); /* Somebody else holds it too. */
        return;
    }
    inode_drop(counts);
    open->session = NULL;
    list_push_back(&s->released, &open->in_session);
}

static void remove_all_opens(struct session_table *s, struct session *session)
{
    LIST_FOREACH_SAFE(node, &session->opens)
    {
        remove_open(s, LIST_ENTRY(node, struct session_open, in_session));
    }
}

bool session_pop_released(struct session_table *s, inode_id *inode)
{
    struct list *node = list_pop_front(&s->released);
    struct session_open *open;

    if (node == NULL) {
        return false;
    }
    open = LIST_ENTRY(node, struct session_open, in_session);
    *inode = open->inode;
    free(open);
    return true;
}

bool session_holds(const struct session_table *s, inode_id inode)
{
    return s->in_grace || find_inode(s, inode) != NULL;
}

/* ---- Coming and going ---- */

static struct session *add(struct session_table *s, client_id id, uint64_t now_ms)
{
    struct session *session = calloc(1, sizeof(*session));

    if (session == NULL) {
        return NULL;
    }
    if (!heap_push(&s->silences, &session->silence, now_ms + s->session_ms)) {
        free(session);
        return NULL;
    }
    session->id = id;
    session->state = SESSION_AWAY;
    list_init(&session->in_bucket);
    list_init(&session->in_all);
    list_init(&session->opens);
    list_push_front(&s->clients[hash(id) % CLIENT_BUCKETS], &session->in_bucket);
    list_push_back(&s->all, &session->in_all);
    s->count++;
    return session;
}

static void end(struct session_table *s, struct session *session)
{
    remove_all_opens(s, session);
    heap_remove(&s->silences, &session->silence);
    list_remove(&session->in_bucket);
    list_remove(&session->in_all);
    free(session);
    s->count--;
}

static void opens_free(struct list *opens)
{
    LIST_FOREACH_SAFE(node, opens)
    {
        free(LIST_ENTRY(node, struct session_open, in_session));
    }
}

void session_table_free(struct session_table *s)
{
    if (s == NULL) {
        return;
    }
    LIST_FOREACH_SAFE(node, &s->all)
    {
        end(s, LIST_ENTRY(node, struct session, in_all));
    }
    opens_free(&s->released);
    heap_free(&s->silences);
    free(s);
}

/* Nothing that it has open by its own word is taken away before all of that is noted: what nobody
 * has open may be collected. */
static void begin_naming(struct session *session)
{
    LIST_FOREACH(node, &session->opens)
    {
        struct session_open *open = LIST_ENTRY(node, struct session_open, in_session);

        open->named = open->named_write = false;
    }
}

static void settle_named(struct session_table *s, struct session *session)
{
    LIST_FOREACH_SAFE(node, &session->opens)
    {
        struct session_open *open = LIST_ENTRY(node, struct session_open, in_session);

        if (!open->named) {
            remove_open(s, open);
        } else if (open->write && !open->named_write) {
            open->write = false;
            find_inode(s, open->inode)->writers--;
        }
    }
}

static bool add_opens(struct session_table *s, struct session *session,
                      const struct session_event *event)
{
    bool fits = true;

    for (size_t i = 0; i < event->inodes_count; i++) {
        fits &= add_open(s, session, event->inodes[i], false);
    }
    for (size_t i = 0; i < event->write_inodes_count; i++) {
        fits &= add_open(s, session, event->write_inodes[i], true);
    }
    return fits;
}

static void on_ask(struct session_table *s, const struct session_event *event,
                   struct session_actions *out)
{
    struct session *session = find(s, event->client);
    bool away;

    if (session == NULL &&
        (s->count == SESSIONS_MAX || (session = add(s, event->client, event->now_ms)) == NULL)) {
        emit(out, (struct session_action){ SESSION_REFUSE, event->client, MORSEL_OVERLOAD });
        return;
    }
    session->heard_ms = event->now_ms;
    away = session->state == SESSION_AWAY;
    if (away) {
        /* A new connection: what its list does not name was closed while it was away. Otherwise
         * only additions: a file that is being opened right now is not in the list yet. */
        session->state = SESSION_JOINED;
        begin_naming(session);
    }
    if (add_opens(s, session, event)) {
        if (away) {
            settle_named(s, session);
        }
        emit(out, (struct session_action){ .type = SESSION_ADMIT, .client = session->id });
    } else {
        if (away) {
            session->state = SESSION_AWAY; /* Nobody is served whose open files are not known. */
        }
        emit(out, (struct session_action){ SESSION_REFUSE, event->client, MORSEL_OVERLOAD });
    }
}

static void on_opened(struct session_table *s, const struct session_event *event,
                      struct session_actions *out)
{
    struct session *session = find(s, event->client);

    if (session != NULL && !add_opens(s, session, event)) {
        emit(out, (struct session_action){ SESSION_REFUSE, event->client, MORSEL_OVERLOAD });
    }
}

static void on_closed(struct session_table *s, const struct session_event *event)
{
    struct session *session = find(s, event->client);

    for (size_t i = 0; session != NULL && i < event->inodes_count; i++) {
        struct session_open *open = find_open(s, event->inodes[i], session);

        if (open != NULL) {
            remove_open(s, open);
        }
    }
}

static void on_tick(struct session_table *s, uint64_t now_ms, struct session_actions *out)
{
    struct heap_node *first;

    while (out->count < SESSION_ENDS_MAX && (first = heap_min(&s->silences)) != NULL &&
           first->key <= now_ms) {
        struct session *session = CONTAINER_OF(first, struct session, silence);

        if (now_ms >= session->heard_ms + s->session_ms) {
            emit(out, (struct session_action){ SESSION_END, session->id, MORSEL_TIMEDOUT });
            end(s, session);
        } else {
            heap_remove(&s->silences, first);
            CHECK(heap_push(&s->silences, first, session->heard_ms + s->session_ms)); /* Its room */
        }
    }
    if (s->in_grace && now_ms >= s->grace_until_ms) {
        s->in_grace = false;
        emit(out, (struct session_action){ .type = SESSION_GRACE_OVER });
    }
}

void session_step(struct session_table *s, const struct session_event *event,
                  struct session_actions *out)
{
    struct session *session = find(s, event->client);

    check_invariants(s);
    switch (event->type) {
    case SESSION_ASK:
        on_ask(s, event, out);
        break;
    case SESSION_LEAVE:
        if (session != NULL) {
            emit(out, (struct session_action){ .type = SESSION_END, .client = session->id });
            end(s, session);
        }
        break;
    case SESSION_GONE:
        if (session != NULL) {
            session->state = SESSION_AWAY;
        }
        break;
    case SESSION_OPENED:
        on_opened(s, event, out);
        break;
    case SESSION_CLOSED:
        on_closed(s, event);
        break;
    case SESSION_TICK:
        on_tick(s, event->now_ms, out);
        break;
    }
    check_invariants(s);
}

/* ---- Questions ---- */

uint64_t session_deadline_ms(const struct session_table *s)
{
    uint64_t due_ms = s->in_grace ? s->grace_until_ms : UINT64_MAX;
    const struct heap_node *first = heap_min(&s->silences);

    return first != NULL && first->key < due_ms ? first->key : due_ms;
}

bool session_known(const struct session_table *s, client_id client)
{
    return find(s, client) != NULL;
}

bool session_joined(struct session_table *s, client_id client, uint64_t now_ms)
{
    struct session *session = find(s, client);

    if (session == NULL || session->state != SESSION_JOINED) {
        return false;
    }
    session->heard_ms = now_ms;
    return true;
}

bool session_has_open(const struct session_table *s, inode_id inode, client_id client, bool write)
{
    const struct session *session = find(s, client);
    const struct session_open *open = session != NULL ? find_open(s, inode, session) : NULL;

    return open != NULL && (open->write || !write);
}

void session_open_elsewhere(const struct session_table *s, inode_id inode, client_id client,
                            bool *open, bool *write)
{
    const struct open_inode *counts = find_inode(s, inode);
    const struct session *session = find(s, client);
    const struct session_open *own = session != NULL ? find_open(s, inode, session) : NULL;

    *open = counts != NULL && counts->opens > (own != NULL ? 1U : 0U);
    *write = counts != NULL && counts->writers > (own != NULL && own->write ? 1U : 0U);
}

uint32_t session_count(const struct session_table *s)
{
    return s->count;
}

uint64_t session_opens(const struct session_table *s)
{
    return s->opens;
}

bool session_in_grace(const struct session_table *s)
{
    return s->in_grace;
}
