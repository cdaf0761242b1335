#include "meta/session.h"

#include "common/check.h"
#include "common/list.h"
#include "common/status.h"

#include <stdlib.h>

enum { OPEN_BUCKETS = 1 << 16, CLIENT_BUCKETS = 1 << 10 };

struct session
{
    struct list in_bucket;
    struct list in_all;
    client_id id;
    enum session_state state;
    uint64_t heard_ms;
    struct list opens;
};

/* One session holds one inode open. */
struct session_open
{
    struct list in_bucket;
    struct list in_session; /* Or in the table's list of released inodes. */
    inode_id inode;
    bool write;
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
    struct list released;
    struct list clients[CLIENT_BUCKETS];
    struct list inodes[OPEN_BUCKETS];
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
    list_init(&s->released);
    for (uint32_t i = 0; i < CLIENT_BUCKETS; i++) {
        list_init(&s->clients[i]);
    }
    for (uint32_t i = 0; i < OPEN_BUCKETS; i++) {
        list_init(&s->inodes[i]);
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

/* ---- Open files --------------------------------------------------------------------------- */

static struct session_open *find_open(const struct session_table *s, inode_id inode,
                                      const struct session *session)
{
    const struct list *bucket = &s->inodes[hash(inode) % OPEN_BUCKETS];

    LIST_FOREACH(node, bucket)
    {
        struct session_open *open = LIST_ENTRY(node, struct session_open, in_bucket);

        if (open->inode == inode && (session == NULL || open->session == session)) {
            return open;
        }
    }
    return NULL;
}

/* Harmless when it is there already. False: at the limit, or out of memory. */
static bool add_open(struct session_table *s, struct session *session, inode_id inode, bool write)
{
    struct session_open *open = find_open(s, inode, session);

    if (open != NULL) {
        open->write |= write;
        return true;
    }
    if (s->opens == SESSION_OPENS_MAX || (open = calloc(1, sizeof(*open))) == NULL) {
        return false;
    }
    open->inode = inode;
    open->write = write;
    open->session = session;
    list_init(&open->in_bucket);
    list_init(&open->in_session);
    list_push_front(&s->inodes[hash(inode) % OPEN_BUCKETS], &open->in_bucket);
    list_push_back(&session->opens, &open->in_session);
    s->opens++;
    return true;
}

static void remove_open(struct session_table *s, struct session_open *open)
{
    list_remove(&open->in_bucket);
    list_remove(&open->in_session);
    s->opens--;
    if (find_open(s, open->inode, NULL) != NULL) {
        free(open); /* Somebody else holds it too. */
        return;
    }
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
    return s->in_grace || find_open(s, inode, NULL) != NULL;
}

/* ---- Coming and going --------------------------------------------------------------------- */

static struct session *add(struct session_table *s, client_id id)
{
    struct session *session = calloc(1, sizeof(*session));

    if (session == NULL) {
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
        struct session *session = LIST_ENTRY(node, struct session, in_all);

        opens_free(&session->opens);
        free(session);
    }
    opens_free(&s->released);
    free(s);
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

    if (session == NULL &&
        (s->count == SESSIONS_MAX || (session = add(s, event->client)) == NULL)) {
        emit(out, (struct session_action){ SESSION_REFUSE, event->client, MORSEL_OVERLOAD });
        return;
    }
    session->heard_ms = event->now_ms;
    if (session->state == SESSION_AWAY) {
        /* A new connection: what its list does not name was closed while it was away. Otherwise
         * only additions: a file that is being opened right now is not in the list yet. */
        session->state = SESSION_JOINED;
        remove_all_opens(s, session);
    }
    if (add_opens(s, session, event)) {
        emit(out, (struct session_action){ .type = SESSION_ADMIT, .client = session->id });
    } else {
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
    LIST_FOREACH_SAFE(node, &s->all)
    {
        struct session *session = LIST_ENTRY(node, struct session, in_all);

        if (now_ms >= session->heard_ms + s->session_ms) {
            emit(out, (struct session_action){ SESSION_END, session->id, MORSEL_TIMEDOUT });
            end(s, session);
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

/* ---- Questions ---------------------------------------------------------------------------- */

uint64_t session_deadline_ms(const struct session_table *s)
{
    uint64_t due_ms = s->in_grace ? s->grace_until_ms : UINT64_MAX;

    LIST_FOREACH(node, &s->all)
    {
        const struct session *session = LIST_ENTRY(node, struct session, in_all);
        uint64_t expires_ms = session->heard_ms + s->session_ms;

        due_ms = expires_ms < due_ms ? expires_ms : due_ms;
    }
    return due_ms;
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
    const struct list *bucket = &s->inodes[hash(inode) % OPEN_BUCKETS];

    *open = *write = false;
    LIST_FOREACH(node, bucket)
    {
        const struct session_open *one = LIST_ENTRY(node, struct session_open, in_bucket);

        if (one->inode == inode && one->session->id != client) {
            *open = true;
            *write |= one->write;
        }
    }
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
