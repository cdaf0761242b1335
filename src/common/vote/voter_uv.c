/* Questions in, what the voter says is done, answers out. */
#include "common/vote/voter_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/datadir_file.h"
#include "common/vote/vote_words.h"

#include <stdlib.h>

/* ---- Beginning and end ---- */

static int open_file(struct voter_uv *v, const char *dir, struct errmsg *err)
{
    voter_id fresh = 0;

    while (fresh == 0) {
        random_bytes(&fresh, sizeof(fresh));
    }
    return votes_file_open(dir, fresh, &v->file, &v->voter, err);
}

int voter_uv_open(struct voter_uv *v, const char *dir, uv_loop_t *loop, struct log *log,
                  struct errmsg *err)
{
    int rv = open_file(v, dir, err);

    v->loop = loop;
    v->log = log;
    if (rv != MORSEL_CORRUPT) {
        return rv;
    }
    log_error(log,
              "%s: the file is put aside as votes.damaged, and this server votes under a new id",
              err->text);
    rv = votes_file_renew(dir, err);
    return rv != 0 ? rv : open_file(v, dir, err);
}

void voter_uv_free(struct voter_uv *v)
{
    voter_free(v->voter);
    votes_file_close(v->file);
    v->voter = NULL;
    v->file = NULL;
}

/* ---- What the voter says is done ---- */

static void write_wanted(struct voter_uv *v);

static void step(struct voter_uv *v, const struct voter_event *event)
{
    struct voter_actions out;

    out.count = 0;
    voter_step(v->voter, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        const struct voter_action *action = &out.items[i];

        if (action->type == VOTER_PERSIST) {
            v->wanted = action->number > v->wanted ? action->number : v->wanted;
        } else {
            struct voter_question *q = (struct voter_question *)(uintptr_t)action->tag;

            q->answered(q, &action->answer);
        }
    }
    write_wanted(v);
}

static void persisted(struct voter_uv *v, uint64_t number, bool failed)
{
    struct voter_event event = { .type = VOTER_PERSISTED };

    event.persisted.number = number;
    event.persisted.failed = failed;
    step(v, &event);
}

/* None of those that wait can be served. */
static void fail_wanted(struct voter_uv *v)
{
    uint64_t number = v->wanted;

    v->wanted = 0;
    persisted(v, number, true);
}

static void run_write(uv_work_t *work)
{
    struct voter_uv *v = CONTAINER_OF(work, struct voter_uv, work);

    v->status = votes_file_write(v->file, v->all, v->set_version, v->records, v->count, &v->err);
}

static void on_written(uv_work_t *work, int cancelled)
{
    struct voter_uv *v = CONTAINER_OF(work, struct voter_uv, work);
    bool failed = cancelled != 0 || v->status != 0;

    free(v->records);
    v->records = NULL;
    v->writing = false;
    if (failed && !v->failed) {
        log_error(v->log, "%s: this server gives no vote until that succeeds", v->err.text);
    }
    v->failed = failed;
    persisted(v, v->number, failed);
    if (v->stopping && v->stopped != NULL) {
        v->stopped(v->stopped_data);
    }
}

/* All records, in place of the file, or those that have changed: these count as written either way.
 */
static void take_records(struct voter_uv *v)
{
    const struct vote_subject first = { { 0 } };

    v->count = 0;
    while (voter_pop(v->voter, &v->records[v->count])) {
        v->count++;
    }
    if (v->all) {
        v->count = voter_page(v->voter, &first, UINT32_MAX, v->records);
    }
}

/* Without memory nobody is served; what has changed goes with the next write. */
static void write_wanted(struct voter_uv *v)
{
    if (v->wanted == 0 || v->writing) {
        return;
    }
    v->records = v->stopping ? NULL : calloc(voter_count(v->voter) + 1, sizeof(*v->records));
    if (v->records == NULL) {
        fail_wanted(v);
        return;
    }
    v->all = votes_file_wants_all(v->file);
    v->number = v->wanted;
    v->set_version = voter_set_version(v->voter);
    v->wanted = 0;
    v->writing = true;
    v->err.text[0] = '\0';
    take_records(v);
    CHECK(uv_queue_work(v->loop, &v->work, run_write, on_written) == 0);
}

void voter_uv_ask(struct voter_uv *v, struct voter_event *event, struct voter_question *q)
{
    event->tag = (uintptr_t)q;
    step(v, event);
}

void voter_uv_stop(struct voter_uv *v, void (*stopped)(void *data), void *data)
{
    v->stopping = true;
    v->stopped = stopped;
    v->stopped_data = data;
    if (v->voter != NULL) {
        write_wanted(v);
    }
}

/* ---- The wire: what is said ---- */

size_t vote_subject_count(const struct vote_subject *subject)
{
    size_t count = 0;

    while (count < REPLICAS_MAX && subject->servers[count] != 0) {
        count++;
    }
    return count;
}

static void ballot_fill(Morsel__VoteBallot *to, struct vote_ballot from)
{
    morsel__vote_ballot__init(to);
    to->round = from.round;
    to->candidate = from.candidate;
}

static ProtobufCBinaryData value_bytes(const struct vote_value *value)
{
    return (ProtobufCBinaryData){ .len = value->count, .data = (uint8_t *)(uintptr_t)value->bytes };
}

void vote_page_fill(struct vote_page *page, const struct vote_record *records, uint32_t count)
{
    CHECK(count <= VOTE_PAGE_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct vote_record *from = &records[i];
        Morsel__VoteRecord *to = &page->items[i];

        morsel__vote_record__init(to);
        ballot_fill(&page->promised[i], from->promised);
        ballot_fill(&page->ballots[i], from->ballot);
        to->subject = (uint32_t *)(uintptr_t)from->subject.servers;
        to->n_subject = vote_subject_count(&from->subject);
        to->decided_epoch = from->decided_epoch;
        to->decided = value_bytes(&from->decided);
        to->promised = &page->promised[i];
        to->ballot = &page->ballots[i];
        to->value = value_bytes(&from->value);
        page->pointers[i] = to;
    }
}

/* ---- The wire: questions ---- */

struct wire_question
{
    struct voter_question question;
    struct voter_uv *voter;
    struct rpc_request *request;
    struct vote_subject after; /* Of VOTES_READ. */
    uint32_t limit;            /* Likewise; 0: another one. */
};

static void reply_vote(struct rpc_request *request, const struct vote_answer *answer)
{
    Morsel__VoteReply reply = MORSEL__VOTE_REPLY__INIT;
    Morsel__VoteBallot ballot, voted;

    ballot_fill(&ballot, answer->ballot);
    ballot_fill(&voted, answer->voted);
    reply.type = answer->type;
    reply.voter = answer->voter;
    reply.ballot = &ballot;
    reply.voted = &voted;
    reply.epoch = answer->epoch;
    reply.value = value_bytes(&answer->value);
    reply.set_version = answer->set_version;
    rpc_reply(request, &reply.base, NULL);
}

static void reply_votes(const struct wire_question *w, const struct vote_answer *answer)
{
    Morsel__VotesReply reply = MORSEL__VOTES_REPLY__INIT;
    struct vote_record records[VOTE_PAGE_MAX];
    struct vote_page page;
    uint32_t count = 0;

    if (w->limit > 0 && answer->type == VOTE_ACCEPTED) {
        count = voter_page(w->voter->voter, &w->after, w->limit, records);
    }
    vote_page_fill(&page, records, count);
    reply.type = answer->type;
    reply.voter = answer->voter;
    reply.set_version = answer->set_version;
    reply.records = page.pointers;
    reply.n_records = count;
    rpc_reply(w->request, &reply.base, NULL);
}

static void on_vote(struct voter_question *q, const struct vote_answer *answer)
{
    struct wire_question *w = CONTAINER_OF(q, struct wire_question, question);

    reply_vote(w->request, answer);
    free(w);
}

static void on_votes(struct voter_question *q, const struct vote_answer *answer)
{
    struct wire_question *w = CONTAINER_OF(q, struct wire_question, question);

    reply_votes(w, answer);
    free(w);
}

static void handle_vote(struct wire_question *w)
{
    Morsel__VoteRequest *m = rpc_request_unpack(w->request, &morsel__vote_request__descriptor);
    struct vote_request asked;
    struct voter_event event = { .type = VOTER_ASKED };

    if (m == NULL) {
        free(w);
        return;
    }
    w->question.answered = on_vote;
    event.request = &asked;
    if (vote_request_read(m, &asked)) {
        voter_uv_ask(w->voter, &event, &w->question);
    } else {
        on_vote(&w->question, &(struct vote_answer){ .type = VOTE_NONSENSE, .voter = m->voter });
    }
    morsel__vote_request__free_unpacked(m, NULL);
}

static void handle_read(struct wire_question *w)
{
    Morsel__VotesReadRequest *m =
        rpc_request_unpack(w->request, &morsel__votes_read_request__descriptor);
    struct voter_event event = { .type = VOTER_READ };

    if (m == NULL) {
        free(w);
        return;
    }
    event.change.voter = m->voter;
    event.change.version = m->version;
    w->limit = m->count_max;
    if (m->count_max > 0 && m->count_max <= VOTE_PAGE_MAX &&
        vote_after_read(m->after, m->n_after, &w->after)) {
        voter_uv_ask(w->voter, &event, &w->question);
    } else {
        on_votes(&w->question, &(struct vote_answer){ .type = VOTE_NONSENSE, .voter = m->voter });
    }
    morsel__votes_read_request__free_unpacked(m, NULL);
}

static void handle_carry(struct wire_question *w)
{
    Morsel__VotesCarryRequest *m =
        rpc_request_unpack(w->request, &morsel__votes_carry_request__descriptor);
    struct vote_record records[VOTE_PAGE_MAX];
    struct voter_event event = { .type = VOTER_CARRY };

    if (m == NULL) {
        free(w);
        return;
    }
    event.change.voter = m->voter;
    event.change.version = m->version;
    event.change.records = records;
    event.change.count = (uint32_t)m->n_records;
    if (vote_page_read(m->records, m->n_records, false, records)) {
        voter_uv_ask(w->voter, &event, &w->question);
    } else {
        on_votes(&w->question, &(struct vote_answer){ .type = VOTE_NONSENSE, .voter = m->voter });
    }
    morsel__votes_carry_request__free_unpacked(m, NULL);
}

void voter_uv_handle(struct voter_uv *v, struct rpc_request *request)
{
    bool may = request->role == (request->type == MSG_VOTE ? ROLE_IOD : ROLE_MANAGER);
    struct wire_question *w;

    if (!may || v->stopping || v->voter == NULL) {
        rpc_reply_failure(request, may ? MORSEL_SHUTDOWN : MORSEL_PERM, NULL);
        return;
    }
    w = calloc(1, sizeof(*w));
    if (w == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    w->voter = v;
    w->request = request;
    w->question.answered = on_votes;
    if (request->type == MSG_VOTE) {
        handle_vote(w);
    } else if (request->type == MSG_VOTES_READ) {
        handle_read(w);
    } else {
        handle_carry(w);
    }
}
