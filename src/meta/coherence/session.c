/* Tables of clients and of what each holds open; the heap of their deadlines. */
#include "meta/coherence/session.h"

#include "common/base/check.h"
#include "common/base/heap.h"
#include "common/base/list.h"
#include "common/base/status.h"
#include "common/base/table.h"

#include <stdlib.h>

struct session
{
    UT_hash_handle hh; /* In sessions, by id. */
    client_id id;
    enum session_state state;
    uint64_t until_ms;        /* When it ends, if nothing is heard from it. */
    struct heap_node silence; /* Key: that, as it was when it was set. */
    uint32_t waited_ms;       /* EXPECTED: before this start. */
    bool kept;                /* It is written down, and that it was not waited for. */
    bool pauses;              /* It knows how to hold a file still. */
    struct list opens;
};

/* An inode that is open: by how many sessions, and by how many for writing. */
struct open_inode
{
    UT_hash_handle hh; /* In inodes. */
    inode_id inode;
    uint32_t opens, writers;
};

/* One session holds one inode open. */
struct session_open
{
    UT_hash_handle hh;      /* In opens. */
    struct list in_session; /* Or in the table's list of released inodes. */
    struct open_key
    {
        inode_id inode;
        client_id client;
    } key;
    bool write;
    bool named, named_write; /* In the list that a client brings along: see settle_named(). */
};

struct session_table
{
    uint32_t session_ms, settle_ms;
    uint64_t counts_from_ms; /* Waiting for who is expected. */
    uint64_t note_ms;        /* When that is to be written down again. */
    uint32_t expected;
    bool in_grace;
    uint64_t grace_until_ms; /* UINT64_MAX while somebody is expected. */
    struct session *sessions;
    struct open_inode *inodes;
    struct session_open *opens;
    /* What is heard does not move a session; its turn comes, and it is put back. */
    struct heap silences;
    struct list released;
};

static void emit(struct session_actions *out, struct session_action action)
{
    CHECK(out->count < SESSION_ACTIONS_MAX);
    out->items[out->count++] = action;
}

static void check_invariants(const struct session_table *s)
{
    CHECK(HASH_COUNT(s->sessions) <= SESSIONS_MAX + 1 && HASH_COUNT(s->opens) <= SESSION_OPENS_MAX);
    CHECK(s->expected <= HASH_COUNT(s->sessions));
    CHECK_IMPLIES(s->expected > 0, s->in_grace && s->grace_until_ms == UINT64_MAX);
    CHECK(HASH_COUNT(s->inodes) <= HASH_COUNT(s->opens));
    CHECK_IMPLIES(s->sessions == NULL, s->opens == NULL);
}

static struct session *find(const struct session_table *s, client_id id)
{
    struct session *session;

    HASH_FIND(hh, s->sessions, &id, sizeof(id), session);
    return session;
}

/* ---- Open files ---- */

static struct open_inode *find_inode(const struct session_table *s, inode_id inode)
{
    struct open_inode *open;

    HASH_FIND(hh, s->inodes, &inode, sizeof(inode), open);
    return open;
}

static struct session_open *find_open(const struct session_table *s, inode_id inode,
                                      const struct session *session)
{
    struct open_key key = { inode, session->id };
    struct session_open *open;

    HASH_FIND(hh, s->opens, &key, sizeof(key), open);
    return open;
}

/* The inode's counts, made if need be. NULL: out of memory. */
static struct open_inode *inode_of(struct session_table *s, inode_id inode)
{
    struct open_inode *counts = find_inode(s, inode);

    if (counts == NULL && (counts = calloc(1, sizeof(*counts))) != NULL) {
        counts->inode = inode;
        HASH_ADD(hh, s->inodes, inode, sizeof(inode), counts);
        if (!TABLE_ADDED(counts)) {
            free(counts);
            counts = NULL;
        }
    }
    return counts;
}

static void inode_drop(struct session_table *s, struct open_inode *counts)
{
    HASH_DEL(s->inodes, counts);
    free(counts);
}

/* NULL: out of memory. */
static struct session_open *open_new(struct session_table *s, struct session *session,
                                     inode_id inode)
{
    struct session_open *open = calloc(1, sizeof(*open));

    if (open == NULL) {
        return NULL;
    }
    open->key = (struct open_key){ inode, session->id };
    HASH_ADD(hh, s->opens, key, sizeof(open->key), open);
    if (!TABLE_ADDED(open)) {
        free(open);
        return NULL;
    }
    list_init(&open->in_session);
    list_push_back(&session->opens, &open->in_session);
    return open;
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
    if (HASH_COUNT(s->opens) == SESSION_OPENS_MAX || (counts = inode_of(s, inode)) == NULL) {
        return false;
    }
    if ((open = open_new(s, session, inode)) == NULL) {
        if (counts->opens == 0) {
            inode_drop(s, counts);
        }
        return false;
    }
    open->write = open->named_write = write;
    open->named = true;
    counts->opens++;
    counts->writers += write;
    return true;
}

static void remove_open(struct session_table *s, struct session_open *open)
{
    struct open_inode *counts = find_inode(s, open->key.inode);

    CHECK(s->opens != NULL && counts != NULL && counts->opens > 0 &&
          counts->writers >= open->write);
    HASH_DEL(s->opens, open);
    list_remove(&open->in_session);
    counts->writers -= open->write;
    if (--counts->opens > 0) {
        free(open); /* Somebody else holds it too. */
        return;
    }
    inode_drop(s, counts);
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
    *inode = open->key.inode;
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
    session->id = id;
    HASH_ADD(hh, s->sessions, id, sizeof(id), session);
    if (!TABLE_ADDED(session)) {
        free(session);
        return NULL;
    }
    session->until_ms = now_ms + s->session_ms;
    if (!heap_push(&s->silences, &session->silence, session->until_ms)) {
        HASH_DEL(s->sessions, session);
        free(session);
        return NULL;
    }
    session->state = SESSION_AWAY;
    list_init(&session->opens);
    return session;
}

/* It has asked, or has ended. */
static void expect_no_more(struct session_table *s, struct session *session)
{
    if (session->state == SESSION_EXPECTED) {
        CHECK(s->expected > 0);
        session->state = SESSION_AWAY;
        s->expected--;
    }
}

static void end(struct session_table *s, struct session *session)
{
    expect_no_more(s, session);
    remove_all_opens(s, session);
    heap_remove(&s->silences, &session->silence);
    HASH_DEL(s->sessions, session);
    free(session);
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
    struct session *session, *next;

    if (s == NULL) {
        return;
    }
    HASH_ITER(hh, s->sessions, session, next)
    {
        end(s, session);
    }
    opens_free(&s->released);
    heap_free(&s->silences);
    free(s);
}

/* ---- After a start ---- */

static bool expect(struct session_table *s, const struct session_kept *kept, uint64_t now_ms)
{
    uint32_t waited_ms = kept->waited_ms < s->session_ms ? kept->waited_ms : s->session_ms;
    struct session *session = add(s, kept->client, now_ms);
    uint64_t counted_until_ms = s->counts_from_ms + s->session_ms - waited_ms;

    if (session == NULL) {
        return false;
    }
    session->state = SESSION_EXPECTED;
    s->expected++;
    session->kept = kept->waited_ms == 0;
    session->waited_ms = waited_ms;
    if (counted_until_ms < session->until_ms) {
        session->until_ms = counted_until_ms;
        heap_move(&s->silences, &session->silence, counted_until_ms);
    }
    return true;
}

/* From now on for a moment, when nobody is expected any more. */
static void settle(struct session_table *s, uint64_t now_ms)
{
    if (s->in_grace && s->expected == 0 && s->grace_until_ms == UINT64_MAX) {
        s->grace_until_ms = now_ms + s->settle_ms;
    }
}

static void note_later(struct session_table *s, uint64_t from_ms)
{
    s->note_ms = from_ms + s->session_ms / SESSION_NOTES + 1;
}

struct session_table *session_table_new(const struct session_options *options)
{
    struct session_table *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        return NULL;
    }
    s->session_ms = options->session_ms;
    s->settle_ms = options->settle_ms;
    s->counts_from_ms = options->now_ms + options->patience_ms;
    s->in_grace = !options->fresh;
    s->grace_until_ms = UINT64_MAX;
    heap_init(&s->silences);
    list_init(&s->released);
    note_later(s, s->counts_from_ms);
    for (size_t i = 0; i < options->kept_count && !options->fresh; i++) {
        if (!expect(s, &options->kept[i], options->now_ms)) {
            session_table_free(s);
            return NULL;
        }
    }
    settle(s, options->now_ms);
    return s;
}

uint32_t session_expected(const struct session_table *s)
{
    return s->expected;
}

uint32_t session_waiting(struct session_table *s, uint64_t now_ms, struct session_kept *out)
{
    uint64_t here_ms = now_ms > s->counts_from_ms ? now_ms - s->counts_from_ms : 0;
    struct session *session, *next;
    uint32_t count = 0;

    HASH_ITER(hh, s->sessions, session, next)
    {
        uint64_t waited_ms = session->waited_ms + here_ms;

        if (session->state == SESSION_EXPECTED) {
            session->kept = false;
            out[count++] =
                (struct session_kept){ session->id, waited_ms < s->session_ms ? (uint32_t)waited_ms
                                                                              : s->session_ms };
        }
    }
    return count;
}

/* ---- Coming ---- */

/* Nothing that it says it has open is taken away before all of that is noted: what nobody
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
            find_inode(s, open->key.inode)->writers--;
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

static void admit(struct session *session, struct session_actions *out)
{
    if (!session->kept) {
        session->kept = true;
        emit(out, (struct session_action){ .type = SESSION_KEEP, .client = session->id });
    }
    emit(out, (struct session_action){ .type = SESSION_ADMIT, .client = session->id });
}

void session_not_kept(struct session_table *s, client_id client)
{
    struct session *session = find(s, client);

    if (session != NULL) {
        session->kept = false;
        session->state = SESSION_AWAY; /* With its next connection it says what it has open. */
    }
}

static void on_ask(struct session_table *s, const struct session_event *event,
                   struct session_actions *out)
{
    struct session *session = find(s, event->client);
    bool away;

    if (session == NULL && (HASH_COUNT(s->sessions) >= SESSIONS_MAX ||
                            (session = add(s, event->client, event->now_ms)) == NULL)) {
        emit(out, (struct session_action){ SESSION_REFUSE, event->client, MORSEL_OVERLOAD });
        return;
    }
    session->until_ms = event->now_ms + s->session_ms;
    session->pauses = event->pauses;
    expect_no_more(s, session);
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
        admit(session, out);
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

        if (now_ms >= session->until_ms) {
            emit(out, (struct session_action){ SESSION_END, session->id, MORSEL_TIMEDOUT });
            end(s, session);
        } else {
            heap_move(&s->silences, first, session->until_ms);
        }
    }
    if (s->expected > 0 && now_ms >= s->note_ms) {
        note_later(s, now_ms);
        emit(out, (struct session_action){ .type = SESSION_WAITING });
    }
    settle(s, now_ms);
    if (s->in_grace && now_ms >= s->grace_until_ms) {
        s->in_grace = false;
        emit(out, (struct session_action){ .type = SESSION_GRACE_OVER });
    }
}

void session_step(struct session_table *s, const struct session_event *event,
                  struct session_actions *out)
{
    struct session *session = event->client != SESSION_UNTOLD ? find(s, event->client) : NULL;

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
        if (session != NULL && session->state == SESSION_JOINED) {
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
    settle(s, event->now_ms);
    check_invariants(s);
}

/* ---- Questions ---- */

uint64_t session_deadline_ms(const struct session_table *s)
{
    uint64_t due_ms = s->in_grace ? s->grace_until_ms : UINT64_MAX;
    const struct heap_node *first = heap_min(&s->silences);

    due_ms = s->expected > 0 && s->note_ms < due_ms ? s->note_ms : due_ms;
    return first != NULL && first->key < due_ms ? first->key : due_ms;
}

bool session_known(const struct session_table *s, client_id client)
{
    return client != SESSION_UNTOLD && find(s, client) != NULL;
}

bool session_joined(struct session_table *s, client_id client, uint64_t now_ms)
{
    struct session *session = find(s, client);

    if (session == NULL || session->state != SESSION_JOINED) {
        return false;
    }
    session->until_ms = now_ms + s->session_ms;
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

uint32_t session_writers(const struct session_table *s, inode_id inode, client_id *clients,
                         uint32_t max)
{
    const struct open_inode *counts = find_inode(s, inode);
    uint32_t writers = counts != NULL ? counts->writers : 0, found = 0;

    for (const struct session *session = s->sessions;
         session != NULL && found < writers && found < max; session = session->hh.next) {
        const struct session_open *open = find_open(s, inode, session);

        if (open != NULL && open->write) {
            clients[found++] = session->id;
        }
    }
    return writers;
}

bool session_pauses(const struct session_table *s, client_id client)
{
    const struct session *session = find(s, client);

    return session != NULL && session->pauses;
}

uint32_t session_count(const struct session_table *s)
{
    return HASH_COUNT(s->sessions) - s->expected;
}

uint64_t session_opens(const struct session_table *s)
{
    return HASH_COUNT(s->opens);
}

bool session_in_grace(const struct session_table *s)
{
    return s->in_grace;
}
