/* A voter on a simulated machine: syncs take time, a batch of them at a time, as in production. A
 * process that is killed keeps what was written; a machine loses what was not synced. Behind either the
 * file of votes may be gone. */
#include "common/base/check.h"
#include "tests/sim/votes.h"

static struct voter_host *host_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->nodes[node].voter;
}

static void perform(struct sim *s, uint32_t node, const struct voter_actions *out);

/* ---- The disk ---- */

static void disk_put(struct votes_disk *disk, const struct vote_record *record)
{
    uint32_t at = 0;

    while (at < disk->count &&
           memcmp(&disk->records[at].subject, &record->subject, sizeof(record->subject)) != 0) {
        at++;
    }
    CHECK(at < SUBJECTS);
    disk->records[at] = *record;
    disk->count += at == disk->count;
}

/* Of a batch whose sync did not end any part may be there. */
static void batch_lands(struct sim *s, struct voter_host *h, bool whole)
{
    if (whole || prng_below(&s->prng, 2) == 0) {
        h->disk.version = h->batch.version;
    }
    for (uint32_t i = 0; i < h->batch.count; i++) {
        if (whole || prng_below(&s->prng, 2) == 0) {
            disk_put(&h->disk, &h->batch.records[i]);
        }
    }
}

static void begin_sync(struct sim *s, uint32_t node);

static void feed_persisted(struct sim *s, uint32_t node, uint64_t number, bool failed)
{
    struct voter_event event = { .type = VOTER_PERSISTED };
    struct voter_actions out;

    event.persisted.number = number;
    event.persisted.failed = failed;
    out.count = 0;
    voter_step(host_of(s, node)->voter, &event, &out);
    perform(s, node, &out);
}

static void run_synced(struct sim *s, uint32_t node, uint64_t number)
{
    struct voter_host *h = host_of(s, node);
    bool full = s->faulty && prng_below(&s->prng, 1000) < world_of(s)->full_permille;

    CHECK(h->syncing && h->batch_number == number);
    h->syncing = false;
    batch_lands(s, h, !full);
    if (full) {
        sim_worth(s, WORTH_FULL);
        sim_trace(s, node, "votes up to %llu are not written: full", (unsigned long long)number);
    }
    if (!sim_canary(s, "persist")) {
        feed_persisted(s, node, number, full);
    }
    if (h->asked_number > number && !h->syncing) {
        begin_sync(s, node);
    }
}

static void begin_sync(struct sim *s, uint32_t node)
{
    struct voter_host *h = host_of(s, node);
    struct vote_record record;

    h->syncing = true;
    h->batch = (struct votes_disk){ .version = voter_set_version(h->voter) };
    while (voter_pop(h->voter, &record)) {
        disk_put(&h->batch, &record);
    }
    h->batch_number = h->asked_number;
    sim_after(s, node, 1 + prng_below(&s->prng, SYNC_MS_MAX), run_synced, h->batch_number);
}

/* ---- Questions ---- */

static void send_answer(struct sim *s, uint32_t node, const struct voter_action *action)
{
    struct voter_host *h = host_of(s, node);
    struct question *q = &h->questions[action->tag];
    struct vote_message m = { .word = WORD_ANSWER, .subject = q->message.subject };

    CHECK(q->used);
    q->used = false;
    if (q->message.word == WORD_REQUEST) {
        m.answer = action->answer;
        judge_answer(s, &q->message, &m.answer);
    } else {
        m.word = WORD_CHANGED;
        m.change = q->message.change;
        m.change.answer = action->answer.type;
        m.change.set_version = action->answer.set_version;
        if (!m.change.carry && action->answer.type == VOTE_ACCEPTED) {
            m.change.count = voter_page(h->voter, &m.change.after, PAGE_MAX, m.change.records);
        }
    }
    sim_send_datagram(s, node, q->from, &m, sizeof(m));
}

static void perform(struct sim *s, uint32_t node, const struct voter_actions *out)
{
    struct voter_host *h = host_of(s, node);

    for (uint32_t i = 0; i < out->count; i++) {
        const struct voter_action *action = &out->items[i];

        if (action->type == VOTER_ANSWER) {
            send_answer(s, node, action);
            continue;
        }
        h->asked_number = action->number;
        if (!h->syncing) {
            begin_sync(s, node);
        }
        if (sim_canary(s, "persist")) {
            feed_persisted(s, node, action->number, false);
        }
    }
}

/* The canaries of a voter are in what it is told: the core is that of production. */
static void disturb(struct sim *s, struct voter_host *h, struct vote_message *m)
{
    uint64_t version = voter_set_version(h->voter);

    if (m->word == WORD_REQUEST && sim_canary(s, "version") && m->request.set_version < version) {
        m->request.set_version = version;
    }
    if (m->word == WORD_CHANGE && sim_canary(s, "seal")) {
        m->change.version = version > 0 ? version : 1;
    }
}

void voter_host_ask(struct sim *s, uint32_t node, uint32_t from, const struct vote_message *m)
{
    struct voter_host *h = host_of(s, node);
    struct vote_message told = *m;
    struct voter_event event = { .type = VOTER_ASKED };
    struct voter_actions out;
    uint64_t tag = 0;

    while (h->questions[tag].used) {
        tag++;
        CHECK(tag < QUESTIONS_MAX);
    }
    h->questions[tag] = (struct question){ true, from, *m };
    disturb(s, h, &told);
    event.tag = tag;
    if (m->word == WORD_REQUEST) {
        event.request = &told.request;
    } else {
        event.type = m->change.carry ? VOTER_CARRY : VOTER_READ;
        event.change.voter = told.change.voter;
        event.change.version = told.change.version;
        event.change.records = told.change.records;
        event.change.count = told.change.count;
    }
    out.count = 0;
    voter_step(h->voter, &event, &out);
    perform(s, node, &out);
}

/* ---- Life ---- */

void voter_host_start(struct sim *s, uint32_t node)
{
    struct voter_host *h = host_of(s, node);

    h->voter = voter_new(h->id, h->disk.version);
    CHECK(h->voter != NULL);
    h->asked_number = 0;
    for (uint32_t i = 0; i < h->disk.count; i++) {
        bool loaded = voter_load(h->voter, &h->disk.records[i]);

        CHECK(loaded);
    }
}

/* One lost voter at a time, of three at least: more are more than can be borne. */
static bool may_lose(struct sim *s)
{
    const struct voters_record *record = &world_of(s)->manager.disk;

    if (record->set.count < 3 || record->next.version != 0 || world_of(s)->manager.is_writing ||
        !s->faulty || prng_below(&s->prng, 1000) >= world_of(s)->lost_permille) {
        return false;
    }
    for (uint32_t i = 0; i < record->set.count; i++) {
        if (host_of(s, node_of_id(record->set.ids[i]))->id != record->set.ids[i]) {
            return false;
        }
    }
    return true;
}

void voter_host_stop(struct sim *s, uint32_t node, bool machine)
{
    struct voter_host *h = host_of(s, node);

    if (h->syncing) {
        batch_lands(s, h, !machine);
    }
    h->syncing = false;
    voter_free(h->voter);
    h->voter = NULL;
    memset(h->questions, 0, sizeof(h->questions));
    if (may_lose(s)) {
        sim_worth(s, WORTH_LOST);
        h->disk = (struct votes_disk){ 0 };
        if (!sim_canary(s, "revote")) {
            h->id = draw_id(s, node);
        }
        sim_trace(s, node, "** votes are lost");
    }
}
