/* What the cores say is done: the database, the questions, what is told. */
#include "meta/cluster/voters_uv.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/vote/vote_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_MS_MAX = 2000 }; /* So long a question may take; others ask again. */

/* A daemon that is asked: one question at a time. */
struct asked
{
    struct list node; /* voters_host.asked; of one that is being given up: in none. */
    struct voters_host *host;
    server_id server;
    struct rpc_peer *peer;
    struct rpc_call call;
    struct voters_action question; /* Under way, if the call is. */
    struct voters_action next;     /* Behind it; `voter` 0: none. */
    bool given_up;
};

struct voters_host
{
    struct meta *meta;
    struct voters voters;
    struct voter_roll roll;
    struct list asked;
    uv_timer_t timer;
    bool stepping;
    bool old_logged;
    server_id refused; /* The last that named the voter of another one, ... */
    voter_id refused_voter;
    void (*closed)(struct meta *meta);

    /* PERSIST. */
    struct sync_waiter waiter;
    bool not_written; /* To be said behind the step that is under way. */

    /* The manager's own voter. */
    struct voter_question own;
    struct voters_action own_question;
    bool own_asked, own_answered;
    struct vote_answer own_answer;

    /* What is told. */
    uint64_t mark, mark_set, mark_members; /* Of this version, and that of the members. */
};

static void step(struct voters_host *h, struct voters_event *event);

/* ---- Durable ---- */

static void on_durable(struct sync_waiter *waiter, int status)
{
    struct voters_host *h = CONTAINER_OF(waiter, struct voters_host, waiter);
    struct voters_event event = { .type = VOTERS_PERSISTED, .failed = status != 0 };

    step(h, &event);
}

/* False: no memory. */
static bool encode_record(const struct voters_host *h, struct buf *out)
{
    struct voter_seats *seats = calloc(1, sizeof(*seats));

    if (seats == NULL) {
        return false;
    }
    voter_roll_seats(&h->roll, &h->voters.now, seats);
    voters_record_encode(&h->voters.now, seats, out);
    free(seats);
    return !out->failed;
}

static void persist(struct voters_host *h)
{
    struct meta_op op = { .kind = OP_VOTERS, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    struct buf record;

    buf_init(&record);
    loads_begin(&h->meta->loads);
    h->not_written = !encode_record(h, &record);
    if (!h->not_written) {
        op.voters.record = buf_slice(&record);
        h->not_written = meta_execute(h->meta, &op, &err) != 0;
    }
    buf_free(&record);
    if (!h->not_written) {
        list_init(&h->waiter.node);
        sync_wait(&h->meta->sync, &h->waiter, on_durable);
    }
}

/* ---- The manager's own voter ---- */

/* Also at once, in the middle of a step. */
static void on_own_answer(struct voter_question *q, const struct vote_answer *answer)
{
    struct voters_host *h = CONTAINER_OF(q, struct voters_host, own);

    h->own_asked = false;
    h->own_answered = true;
    h->own_answer = *answer;
    if (!h->stepping) {
        step(h, NULL);
    }
}

static void ask_own(struct voters_host *h, const struct voters_action *action)
{
    struct voter_event event = { .type = action->type == VOTERS_CARRY ? VOTER_CARRY : VOTER_READ };
    struct vote_record records[VOTE_PAGE_MAX];

    if (h->own_asked || h->own_answered) {
        return; /* It is asked again. */
    }
    h->own_question = *action;
    h->own_asked = true;
    h->own.answered = on_own_answer;
    event.change.voter = action->voter;
    event.change.version = action->version;
    if (action->type == VOTERS_CARRY) {
        event.change.count = voter_page(h->voters.gathered, &action->after, VOTE_PAGE_MAX, records);
        event.change.records = records;
    }
    voter_uv_ask(&h->meta->voter, &event, &h->own);
}

/* ---- Daemons ---- */

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply);

static void send_question(struct asked *a, const struct voters_action *action)
{
    Morsel__VotesReadRequest read = MORSEL__VOTES_READ_REQUEST__INIT;
    Morsel__VotesCarryRequest carry = MORSEL__VOTES_CARRY_REQUEST__INIT;
    bool reads = action->type == VOTERS_READ;
    struct vote_record records[VOTE_PAGE_MAX];
    struct vote_page page;

    a->question = *action;
    read.voter = carry.voter = action->voter;
    read.version = carry.version = action->version;
    read.after = a->question.after.servers;
    read.n_after = vote_subject_count(&a->question.after);
    read.count_max = VOTE_PAGE_MAX;
    if (!reads) {
        carry.n_records =
            voter_page(a->host->voters.gathered, &action->after, VOTE_PAGE_MAX, records);
        vote_page_fill(&page, records, (uint32_t)carry.n_records);
        carry.records = page.pointers;
    }
    /* What cannot be started is asked again. */
    (void)rpc_call_start(&a->call, a->peer, reads ? MSG_VOTES_READ : MSG_VOTES_CARRY,
                         reads ? &read.base : &carry.base, NULL, 0, ASK_MS_MAX, on_answer);
}

/* Is it a question of what is under way still? */
static bool is_current(const struct voters_host *h, const struct voters_action *action)
{
    const struct voters *v = &h->voters;

    return action->voter != 0 && v->gathered != NULL && action->version == v->now.next.version &&
           v->state == (action->type == VOTERS_READ ? VOTERS_READING : VOTERS_WRITING);
}

/* What was said, unless it is not what voters say. False: nothing. */
static bool read_answer(const struct asked *a, const struct rpc_reply *reply,
                        struct vote_record *records, struct voters_event *event)
{
    const struct voters_action *q = &a->question;
    Morsel__VotesReply *message =
        rpc_unpack(&morsel__votes_reply__descriptor, reply->body, reply->body_count);
    bool sound =
        message != NULL && message->type <= VOTE_NONSENSE && message->voter == q->voter &&
        message->set_version < VOTE_VERSION_END &&
        vote_page_read(message->records, message->n_records, true, records) &&
        (message->n_records == 0 || vote_subject_compare(&records[0].subject, &q->after) > 0);

    if (sound) {
        event->answered.answer.type = (enum vote_answer_type)message->type;
        event->answered.answer.voter = message->voter;
        event->answered.answer.set_version = message->set_version;
        event->answered.count = (uint32_t)message->n_records;
        event->answered.version = q->version;
        event->answered.carry = q->type == VOTERS_CARRY;
        event->answered.after = q->after;
        event->answered.records = records;
    }
    morsel__votes_reply__free_unpacked(message, NULL);
    return sound;
}

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct asked *a = CONTAINER_OF(call, struct asked, call);
    struct voters_host *h = a->host;
    struct voters_event event = { .type = VOTERS_ANSWERED };
    struct vote_record records[VOTE_PAGE_MAX];
    bool heard;

    if (a->given_up) {
        free(a);
        return;
    }
    heard = status == 0 && read_answer(a, reply, records, &event);
    if (is_current(h, &a->next)) {
        send_question(a, &a->next);
    }
    a->next.voter = 0;
    if (heard) {
        step(h, &event); /* It may be given up then. */
    }
}

static struct asked *find_asked(struct voters_host *h, server_id server)
{
    LIST_FOREACH_SAFE(node, &h->asked)
    {
        struct asked *a = LIST_ENTRY(node, struct asked, node);

        if (a->server == server) {
            return a;
        }
    }
    return NULL;
}

/* NULL: no memory, or an address that is none. */
static struct asked *make_asked(struct voters_host *h, const struct member *member)
{
    struct asked *a = calloc(1, sizeof(*a));
    struct errmsg err = { "" };

    if (a == NULL || rpc_peer_new(h->meta->rpc, member->record.address, &a->peer, &err) != 0) {
        free(a);
        return NULL;
    }
    rpc_peer_expect(a->peer, member->record.id);
    a->host = h;
    a->server = member->record.id;
    list_init(&a->node);
    list_push_back(&h->asked, &a->node);
    return a;
}

static void ask_server(struct voters_host *h, server_id server, const struct voters_action *action)
{
    const struct member *member = members_find(&h->meta->members, server);
    struct asked *a = find_asked(h, server);
    struct errmsg err = { "" };

    if (member == NULL || !member->up || !member->connected) {
        return; /* It is asked again when it is here. */
    }
    a = a != NULL ? a : make_asked(h, member);
    if (a == NULL) {
        return;
    }
    if (rpc_call_active(&a->call)) {
        a->next = *action;
        return;
    }
    if (strcmp(rpc_peer_address(a->peer), member->record.address) == 0 ||
        rpc_peer_set_address(a->peer, member->record.address, &err) == 0) {
        send_question(a, action);
    }
}

/* Nobody is asked anything any more. */
static void give_up_asking(struct voters_host *h)
{
    struct list *node;

    while ((node = list_pop_front(&h->asked)) != NULL) {
        struct asked *a = LIST_ENTRY(node, struct asked, node);

        a->given_up = true;
        rpc_peer_close(a->peer); /* Its call ends, later. */
        if (!rpc_call_active(&a->call)) {
            free(a);
        }
    }
}

/* ---- What the core says is done ---- */

static void log_changed(struct voters_host *h)
{
    log_info(h->meta->log, "voter set %" PRIu64 " is in effect: %" PRIu32 " voters",
             h->voters.now.set.version, h->voters.now.set.count);
}

static void perform(struct voters_host *h, const struct voters_action *action)
{
    server_id server;

    switch (action->type) {
    case VOTERS_PERSIST:
        persist(h);
        break;
    case VOTERS_READ:
    case VOTERS_CARRY:
        if (!voter_roll_server(&h->roll, action->voter, &server)) {
            break;
        }
        if (server == 0) {
            ask_own(h, action);
        } else {
            ask_server(h, server, action);
        }
        break;
    case VOTERS_CHANGED:
        voter_roll_prune(&h->roll, &h->voters.now);
        log_changed(h);
        break;
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct voters_event event = { .type = VOTERS_TICK };

    step(CONTAINER_OF(timer, struct voters_host, timer), &event);
}

static void arm(struct voters_host *h)
{
    uint64_t due_ms = voters_deadline_ms(&h->voters), now_ms = uv_now(h->meta->loop);

    if (due_ms == UINT64_MAX) {
        (void)uv_timer_stop(&h->timer);
    } else {
        (void)uv_timer_start(&h->timer, on_timer, due_ms > now_ms ? due_ms - now_ms : 0, 0);
    }
}

/* Once: nothing changes it but another database. */
static void look_for_old_record(struct voters_host *h)
{
    const struct voters *v = &h->voters;

    if (!h->old_logged && v->version_seen > v->now.version_last) {
        h->old_logged = true;
        log_error(
            h->meta->log,
            "a voter knows of voter set %" PRIu64 ", and the database of none behind %" PRIu64
            ": was the database put back to an older state? The voter set stays as it is until "
            "the newer database is back in place",
            v->version_seen, v->now.version_last);
    }
}

static void step_once(struct voters_host *h, struct voters_event *event)
{
    struct voters_actions out;

    event->now_ms = uv_now(h->meta->loop);
    out.count = 0;
    voters_step(&h->voters, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform(h, &out.items[i]);
    }
}

static void step_own_answer(struct voters_host *h)
{
    const struct voters_action *q = &h->own_question;
    struct voters_event event = { .type = VOTERS_ANSWERED };
    struct vote_record records[VOTE_PAGE_MAX];

    h->own_answered = false;
    event.answered.answer = h->own_answer;
    event.answered.version = q->version;
    event.answered.carry = q->type == VOTERS_CARRY;
    event.answered.after = q->after;
    event.answered.records = records;
    if (q->type == VOTERS_READ && h->own_answer.type == VOTE_ACCEPTED) {
        event.answered.count = voter_page(h->meta->voter.voter, &q->after, VOTE_PAGE_MAX, records);
    }
    step_once(h, &event);
}

/* `event`, and what came of it at once. NULL: only that. */
static void step(struct voters_host *h, struct voters_event *event)
{
    struct voters_event not_written = { .type = VOTERS_PERSISTED, .failed = true };

    if (h->meta->closing) {
        return;
    }
    CHECK(!h->stepping);
    h->stepping = true;
    if (event != NULL) {
        step_once(h, event);
    }
    while (h->own_answered || h->not_written) {
        if (h->not_written) {
            h->not_written = false;
            step_once(h, &not_written);
        } else {
            step_own_answer(h);
        }
    }
    h->stepping = false;
    look_for_old_record(h);
    if (h->voters.state == VOTERS_IDLE) {
        give_up_asking(h);
    }
    arm(h);
}

/* ---- Who votes ---- */

static void want(struct voters_host *h)
{
    struct voters_event event = { .type = VOTERS_WANT };
    struct voter_set wanted;

    voter_roll_wanted(&h->roll, &h->voters.now.set, &wanted, &event.want.gone);
    event.want.set = &wanted;
    step(h, &event);
}

/* Once, for it says so with each heartbeat. */
static void log_refused(struct voters_host *h, server_id server, voter_id voter)
{
    server_id owner = server;

    if (h->refused == server && h->refused_voter == voter) {
        return;
    }
    h->refused = server;
    h->refused_voter = voter;
    (void)voter_roll_server(&h->roll, voter, &owner);
    log_error(h->meta->log,
              "storage server %" PRIu32 " votes as %016" PRIx64
              ", which is the voter of %s %" PRIu32
              ": its file of votes is a copy, and it is not taken into the voter set; stop it, "
              "remove the file votes from its data directory, and start it again",
              server, voter, owner == 0 ? "the manager, server" : "storage server", owner);
}

static void log_news(struct voters_host *h, server_id server, voter_id voter, enum voter_news news)
{
    struct log *log = h->meta->log;

    if (news == VOTER_REFUSED) {
        log_refused(h, server, voter);
    } else if (news == VOTER_NEW) {
        log_info(log, "storage server %" PRIu32 " is to vote, as %016" PRIx64, server, voter);
    } else if (news == VOTER_CHANGED) {
        log_warning(log,
                    "storage server %" PRIu32 " has lost its votes and votes as %016" PRIx64
                    " now: its old vote is to be replaced",
                    server, voter);
    }
}

void voters_heard(struct meta *meta, server_id server, voter_id voter)
{
    struct voters_host *h = meta->voters;
    enum voter_news news;

    if (voter == 0) {
        return;
    }
    news = voter_roll_hear(&h->roll, &h->voters.now, server, voter);
    log_news(h, server, voter, news);
    if (news == VOTER_NEW || news == VOTER_CHANGED) {
        want(h);
    }
}

/* ---- Servers that are gone for good ---- */

/* Does that voter answer? The manager's own is the one that it has now, not one that it has lost. */
static bool is_there(const struct voters_host *h, voter_id id, server_id server)
{
    const struct member *member = members_find(&h->meta->members, server);

    return server == 0 ? id == voter_name(h->meta->voter.voter) : member != NULL && member->up;
}

int voters_may_lose(const struct meta *meta, server_id server, struct errmsg *err)
{
    const struct voters_host *h = meta->voters;
    const struct voter_set *set = &h->voters.now.set;
    uint32_t there = 0, needed = voter_majority(set->count);
    bool votes = false;

    for (uint32_t i = 0; i < set->count; i++) {
        server_id owner = 0;
        bool known = voter_roll_server(&h->roll, set->ids[i], &owner);

        votes |= known && owner == server;
        there += known && owner != server && is_there(h, set->ids[i], owner);
    }
    if (!votes || there >= needed) {
        return 0;
    }
    errmsg_set(err,
               "server %u votes, and its vote can be taken away only when %u of the %u voters "
               "answer: %u %s without it; bring others back first",
               server, needed, set->count, there, there == 1 ? "does" : "do");
    return MORSEL_INVAL;
}

void voters_removed(struct meta *meta, server_id server)
{
    struct voters_host *h = meta->voters;

    if (voter_roll_remove(&h->roll, &h->voters.now, server)) {
        want(h);
    }
}

/* The manager may have ended between the removal and the change of the set. */
static void forget_removed(struct voters_host *h)
{
    const struct members *members = &h->meta->members;

    for (uint32_t i = 0; i < members->count; i++) {
        if (!member_stays(&members->items[i])) {
            (void)voter_roll_remove(&h->roll, &h->voters.now, members->items[i].record.id);
        }
    }
}

/* ---- Beginning and end ---- */

/* The manager alone. */
static int make_first(struct voters_host *h, struct errmsg *err)
{
    struct meta *meta = h->meta;
    struct meta_op op = { .kind = OP_VOTERS, .time_ns = meta_clock_ns() };
    struct voters_record first = { .set = { .version = 1, .count = 1 }, .version_last = 1 };
    struct buf record;
    int rv = MORSEL_NOMEM;

    first.set.ids[0] = voter_name(meta->voter.voter);
    (void)voter_roll_hear(&h->roll, &first, 0, first.set.ids[0]);
    voters_init(&h->voters, &first, VOTE_PAGE_MAX);
    buf_init(&record);
    if (encode_record(h, &record)) {
        op.voters.record = buf_slice(&record);
        rv = ns_execute(meta->ns, &op, err);
    }
    buf_free(&record);
    return rv != 0 ? rv : meta->kv->sync(meta->kv, err);
}

static int read_or_make(struct voters_host *h, struct errmsg *err)
{
    struct voters_record record;
    struct voter_seats seats;
    int rv = ns_voters(h->meta->ns, &record, &seats, err);

    if (rv == MORSEL_NOENT) {
        return make_first(h, err);
    }
    if (rv != 0) {
        return rv;
    }
    voter_roll_init(&h->roll, &record, &seats);
    voters_init(&h->voters, &record, VOTE_PAGE_MAX);
    return 0;
}

int voters_host_open(struct meta *meta, struct errmsg *err)
{
    struct voters_host *h = calloc(1, sizeof(*h));

    if (h == NULL) {
        return MORSEL_NOMEM;
    }
    meta->voters = h;
    h->meta = meta;
    list_init(&h->asked);
    return read_or_make(h, err);
}

void voters_host_start(struct meta *meta)
{
    struct voters_host *h = meta->voters;
    voter_id own = voter_name(meta->voter.voter);
    struct voters_event event = { .type = VOTERS_TICK };
    enum voter_news news = voter_roll_hear(&h->roll, &h->voters.now, 0, own);

    (void)uv_timer_init(meta->loop, &h->timer);
    if (news == VOTER_CHANGED) {
        log_warning(meta->log,
                    "the manager has lost its votes and votes as %016" PRIx64
                    " now: its old vote is to be replaced",
                    own);
    }
    step(h, &event);
    forget_removed(h);
    want(h);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct voters_host *h = CONTAINER_OF((uv_timer_t *)handle, struct voters_host, timer);

    h->closed(h->meta);
}

void voters_host_close(struct meta *meta, void (*closed)(struct meta *meta))
{
    struct voters_host *h = meta->voters;

    h->closed = closed;
    give_up_asking(h);
    uv_close((uv_handle_t *)&h->timer, on_timer_closed);
}

void voters_host_free(struct meta *meta)
{
    if (meta->voters != NULL) {
        voters_free(&meta->voters->voters);
        free(meta->voters);
        meta->voters = NULL;
    }
}

/* ---- What is told ---- */

static const char *address_of(const struct meta *meta, server_id server)
{
    const struct member *member = server != 0 ? members_find(&meta->members, server) : NULL;

    return member != NULL ? member->record.address : "";
}

uint64_t voters_mark(struct meta *meta)
{
    struct voters_host *h = meta->voters;
    const struct voter_set *set = &h->voters.now.set;
    uint32_t crc = 0;

    if (h->voters.state == VOTERS_COMMITTING) {
        return 0;
    }
    if (h->mark_set == set->version && h->mark_members == meta->members.version) {
        return h->mark;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        const char *address;
        server_id server = 0;

        (void)voter_roll_server(&h->roll, set->ids[i], &server);
        address = address_of(meta, server);
        crc = crc32c(crc, &set->ids[i], sizeof(set->ids[i]));
        crc = crc32c(crc, &server, sizeof(server));
        crc = crc32c(crc, address, strlen(address) + 1);
    }
    h->mark_set = set->version;
    h->mark_members = meta->members.version;
    h->mark = set->version << 32 | crc;
    return h->mark;
}

/* One piece of memory. */
struct told
{
    Morsel__VoterSet set;
    Morsel__Voter *pointers[VOTERS_MAX];
    Morsel__Voter voters[VOTERS_MAX];
};

Morsel__VoterSet *voters_told(struct meta *meta)
{
    const struct voters_host *h = meta->voters;
    const struct voter_set *set = &h->voters.now.set;
    uint64_t mark = voters_mark(meta);
    struct told *t = mark != 0 ? malloc(sizeof(*t)) : NULL;

    if (t == NULL) {
        return NULL;
    }
    morsel__voter_set__init(&t->set);
    t->set.mark = mark;
    t->set.version = set->version;
    t->set.n_voters = set->count;
    t->set.voters = t->pointers;
    for (uint32_t i = 0; i < set->count; i++) {
        Morsel__Voter *voter = t->pointers[i] = &t->voters[i];

        morsel__voter__init(voter);
        voter->id = set->ids[i];
        (void)voter_roll_server(&h->roll, voter->id, &voter->server);
        voter->address = (char *)(uintptr_t)address_of(meta, voter->server);
    }
    return &t->set;
}

void voters_told_free(Morsel__VoterSet *told)
{
    free(told);
}

/* Has it been asked, and not answered to the end? */
static bool is_awaited(const struct voters *v, voter_id id)
{
    const struct voter_set *asked = v->state == VOTERS_READING ? &v->now.set : &v->now.next;
    uint32_t at = voter_set_find(asked, id);

    return (v->state == VOTERS_READING || v->state == VOTERS_WRITING) && at < asked->count &&
           !v->places[at].done;
}

static int compare_servers(const void *a, const void *b)
{
    const Morsel__VoterStatus *x = a, *y = b;

    return x->server < y->server ? -1 : x->server > y->server;
}

void voters_status_fill(struct meta *meta, Morsel__VotersStatus *status,
                        Morsel__VoterStatus *voters, Morsel__VoterStatus **pointers)
{
    const struct voters_host *h = meta->voters;
    const struct voters *v = &h->voters;

    morsel__voters_status__init(status);
    status->version = v->now.set.version;
    /* On its way to the disk it is no more than a change that is under way. */
    status->next = v->state == VOTERS_COMMITTING ? v->now.set.version : v->now.next.version;
    status->step = v->state;
    status->version_known = v->version_seen > v->now.version_last ? v->version_seen : 0;
    status->voters = pointers;
    status->n_voters = h->roll.count;
    for (uint32_t i = 0; i < h->roll.count; i++) {
        const struct voter_roll_item *item = &h->roll.items[i];
        Morsel__VoterStatus *voter = &voters[i];

        morsel__voter_status__init(voter);
        voter->id = item->id;
        voter->server = item->server;
        voter->state = voter_roll_state(item, &v->now.set);
        voter->awaited = is_awaited(v, item->id);
    }
    qsort(voters, h->roll.count, sizeof(voters[0]), compare_servers);
    for (uint32_t i = 0; i < h->roll.count; i++) {
        pointers[i] = &voters[i];
    }
}
