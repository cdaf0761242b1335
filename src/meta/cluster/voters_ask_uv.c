/* What the core asks of the daemons that vote: one question at a time to each. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/vote/vote_words.h"
#include "meta/cluster/voters_inner_uv.h"

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
        voters_advance(h, &event); /* It may be given up then. */
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

void voters_ask(struct voters_host *h, server_id server, const struct voters_action *action)
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

void voters_ask_end(struct voters_host *h)
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
