/* What the cores say is done: the database, the questions, what is told. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/vote/vote_words.h"
#include "meta/cluster/voters_inner_uv.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- Durable ---- */

static void on_durable(struct sync_waiter *waiter, int status)
{
    struct voters_host *h = CONTAINER_OF(waiter, struct voters_host, waiter);
    struct voters_event event = { .type = VOTERS_PERSISTED, .failed = status != 0 };

    voters_advance(h, &event);
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
        voters_advance(h, NULL);
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
            voters_ask(h, server, action);
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

    voters_advance(CONTAINER_OF(timer, struct voters_host, timer), &event);
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
void voters_advance(struct voters_host *h, struct voters_event *event)
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
        voters_ask_end(h);
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
    voters_advance(h, &event);
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
    const struct member *member = members_find(&meta->members, server);
    enum voter_news news;

    if (voter == 0 || member == NULL || member->record.waits) {
        return;
    }
    news = voter_roll_hear(&h->roll, &h->voters.now, server, voter);
    log_news(h, server, voter, news);
    if (news == VOTER_NEW || news == VOTER_CHANGED) {
        want(h);
    }
}

/* ---- Servers that are gone for good ---- */

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
    voters_advance(h, &event);
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
    voters_ask_end(h);
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
