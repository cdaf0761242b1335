/* The manager's voter set behind its wire: who is asked what, which answers count, and who is told. */
#include "meta/cluster/voters_uv.h"
#include "tests/lib/meta_fixture.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/vote/vote_words.h"
#include "vote.pb-c.h"

#include <stdlib.h>

enum { RECORDS = VOTE_PAGE_MAX + 3 };

enum answer {
    ANSWER_WELL,
    ANSWER_FAILURE,
    ANSWER_NOTHING, /* An empty message. */
    ANSWER_OTHER_VOTER,
    ANSWER_UNKNOWN_TYPE,
    ANSWER_DESCENDING,
    ANSWER_BEFORE, /* Records that were not asked for. */
    ANSWER_OLD_SET,
    ANSWERS_END
};

/* A storage server that votes. */
struct server
{
    struct client c; /* Its way to the manager. */
    struct rpc *rpc; /* Where it is asked. */
    struct rpc_server *listener;
    server_id id;
    voter_id voter;
    uint64_t mark; /* Of the set that it has on its disk. */
    enum answer answer;
    unsigned asked, read, carried; /* Questions; and records. */
    uint64_t version;              /* Of the last question. */
};

/* ---- Its voter ---- */

static struct vote_record record_of(uint32_t number)
{
    struct vote_record record = { .decided_epoch = 1, .decided = { .count = 1, .bytes = { 7 } } };

    record.subject.servers[0] = number;
    record.subject.servers[1] = 1000;
    return record;
}

/* The page behind `after`, or one that nobody who follows the rules gives. */
static uint32_t page_behind(const struct server *s, uint32_t after, struct vote_record *records)
{
    uint32_t first = s->answer == ANSWER_BEFORE ? 1 : after + 1, count = 0;

    while (count < VOTE_PAGE_MAX && first + count <= RECORDS) {
        records[count] = record_of(first + count);
        count++;
    }
    if (s->answer == ANSWER_DESCENDING && count > 1) {
        records[1] = records[0];
    }
    return count;
}

static void reply_with(struct server *s, struct rpc_request *request, voter_id voter,
                       const struct vote_record *records, uint32_t count)
{
    Morsel__VotesReply reply = MORSEL__VOTES_REPLY__INIT;
    struct vote_page page;

    vote_page_fill(&page, records, count);
    reply.type = s->answer == ANSWER_UNKNOWN_TYPE ? 99
                 : s->answer == ANSWER_OLD_SET    ? VOTE_OLD_SET
                                                  : VOTE_ACCEPTED;
    reply.voter = s->answer == ANSWER_OTHER_VOTER ? voter + 1 : voter;
    reply.set_version = s->answer == ANSWER_OLD_SET ? 500 : s->version;
    reply.records = page.pointers;
    reply.n_records = count;
    rpc_reply(request, &reply.base, NULL);
}

static void on_read(struct server *s, struct rpc_request *request)
{
    Morsel__VotesReadRequest *m =
        rpc_request_unpack(request, &morsel__votes_read_request__descriptor);
    struct vote_record records[VOTE_PAGE_MAX];
    struct vote_subject after;

    assert_non_null(m);
    assert_int_equal(m->count_max, VOTE_PAGE_MAX);
    assert_true(vote_after_read(m->after, m->n_after, &after));
    s->version = m->version;
    reply_with(s, request, m->voter, records, page_behind(s, after.servers[0], records));
    s->read++;
    morsel__votes_read_request__free_unpacked(m, NULL);
}

static void on_carry(struct server *s, struct rpc_request *request)
{
    Morsel__VotesCarryRequest *m =
        rpc_request_unpack(request, &morsel__votes_carry_request__descriptor);

    assert_non_null(m);
    s->version = m->version;
    s->carried += (unsigned)m->n_records;
    reply_with(s, request, m->voter, NULL, 0);
    morsel__votes_carry_request__free_unpacked(m, NULL);
}

static void on_asked(void *data, struct rpc_request *request)
{
    struct server *s = data;

    assert_int_equal(request->role, ROLE_MANAGER);
    s->asked++;
    if (s->answer == ANSWER_FAILURE) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
    } else if (s->answer == ANSWER_NOTHING) {
        rpc_reply(request, NULL, NULL);
    } else if (request->type == MSG_VOTES_READ) {
        on_read(s, request);
    } else {
        assert_int_equal(request->type, MSG_VOTES_CARRY);
        on_carry(s, request);
    }
}

/* ---- The server ---- */

static void do_register(struct server *s, uint8_t number)
{
    Morsel__RegisterRequest request = MORSEL__REGISTER_REQUEST__INIT;
    Morsel__RegisterReply *reply;
    uint8_t token[16] = { number };

    request.token = (ProtobufCBinaryData){ sizeof(token), token };
    request.address = (char *)(uintptr_t)rpc_server_address(s->listener);
    request.bytes_total = request.bytes_free = UINT64_C(1) << 40;
    assert_int_equal(
        call(&s->c, MSG_REGISTER, &request.base, &morsel__register_reply__descriptor, &reply), 0);
    s->id = reply->id;
    rpc_set_node_id(s->rpc, s->id);
    morsel__register_reply__free_unpacked(reply, NULL);
}

static void server_open(struct server *s, struct fixture *f, uint8_t number)
{
    struct rpc_options options = { .role = ROLE_IOD, .program = "test" };
    struct rpc_server_hooks hooks = { .handle = on_asked, .data = s };
    struct errmsg err;

    memset(s, 0, sizeof(*s));
    s->voter = 1000 + number;
    options.cluster_id = *rpc_cluster_id(f->meta->rpc);
    assert_int_equal(rpc_new(&f->loop, &options, &s->rpc), 0);
    assert_int_equal(rpc_listen(s->rpc, "127.0.0.1:0", &hooks, &s->listener, &err), 0);
    client_open(&s->c, f, ROLE_IOD, 0);
    do_register(s, number);
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static void server_close(struct server *s)
{
    bool closed = false;

    client_close(&s->c);
    rpc_close(s->rpc, on_closed, &closed);
    while (!closed) {
        uv_run(&s->c.f->loop, UV_RUN_ONCE);
    }
}

/* One heartbeat. Was it told a set? */
static bool heartbeat(struct server *s)
{
    Morsel__HeartbeatRequest request = MORSEL__HEARTBEAT_REQUEST__INIT;
    Morsel__HeartbeatReply *reply;
    struct voter_set set;
    bool told;

    request.id = s->id;
    request.voter = s->voter;
    request.voters_mark = s->mark;
    assert_int_equal(
        call(&s->c, MSG_HEARTBEAT, &request.base, &morsel__heartbeat_reply__descriptor, &reply), 0);
    told = reply->voters != NULL;
    if (told) {
        assert_true(voter_set_read(reply->voters, &set));
        s->mark = reply->voters->mark;
    }
    morsel__heartbeat_reply__free_unpacked(reply, NULL);
    return told;
}

static Morsel__StatusReply *status_of(struct server *s)
{
    Morsel__StatusReply *reply;

    assert_int_equal(call(&s->c, MSG_STATUS, NULL, &morsel__status_reply__descriptor, &reply), 0);
    return reply;
}

static uint64_t version(struct server *s)
{
    Morsel__StatusReply *status = status_of(s);
    uint64_t version = status->voters->version;

    morsel__status_reply__free_unpacked(status, NULL);
    return version;
}

/* Fails when what is waited for takes so long. */
static void wait_a_moment(struct server *s, uint64_t begun_ms)
{
    uv_loop_t *loop = &s->c.f->loop;

    if (uv_now(loop) > begun_ms + CALL_MS) {
        fail_msg("the set is of version %lu, and server %u was asked %u times",
                 (unsigned long)version(s), s->id, s->asked);
    }
    uv_run(loop, UV_RUN_ONCE);
}

/* It is in effect, and on disk. */
static void wait_for_version(struct server *s, uint64_t wanted)
{
    uint64_t begun_ms = uv_now(&s->c.f->loop);

    for (;;) {
        Morsel__StatusReply *status = status_of(s);
        bool is_so = status->voters->version == wanted && status->voters->next == 0;

        morsel__status_reply__free_unpacked(status, NULL);
        if (is_so) {
            return;
        }
        wait_a_moment(s, begun_ms);
    }
}

static void wait_until_asked(struct server *s, unsigned more)
{
    uint64_t begun_ms = uv_now(&s->c.f->loop);
    unsigned asked = s->asked;

    while (s->asked < asked + more) {
        wait_a_moment(s, begun_ms);
    }
}

/* ---- Tests ---- */

static void a_server_that_says_its_voter_is_admitted(void **state)
{
    struct fixture *f = *state;
    Morsel__StatusReply *status;
    struct server s;
    uint64_t mark;

    server_open(&s, f, 1);
    assert_int_equal(version(&s), 1);
    assert_true(heartbeat(&s)); /* Of the manager alone. */
    wait_for_version(&s, 2);
    assert_int_equal(s.version, 2);
    status = status_of(&s);
    assert_int_equal(status->voters->next, 0);
    assert_int_equal(status->voters->n_voters, 2);
    assert_int_equal(status->voters->voters[1]->id, s.voter);
    assert_int_equal(status->voters->voters[1]->server, s.id);
    morsel__status_reply__free_unpacked(status, NULL);
    mark = s.mark;
    assert_true(heartbeat(&s));
    assert_true(s.mark != mark);
    assert_false(heartbeat(&s));
    server_close(&s);
}

static void an_older_server_has_no_voter(void **state)
{
    struct server s;

    server_open(&s, *state, 1);
    s.voter = 0;
    (void)heartbeat(&s);
    assert_int_equal(version(&s), 1);
    assert_int_equal(s.asked, 0);
    server_close(&s);
}

/* Whatever else is said, the set is in effect when a voter has said yes, and not before. */
static void only_sound_answers_count(void **state)
{
    static const enum answer wrong[] = { ANSWER_FAILURE, ANSWER_NOTHING, ANSWER_OTHER_VOTER,
                                         ANSWER_UNKNOWN_TYPE };
    struct server s;

    server_open(&s, *state, 1);
    s.answer = wrong[0];
    (void)heartbeat(&s);
    for (unsigned i = 0; i < ARRAY_COUNT(wrong); i++) {
        s.answer = wrong[i];
        wait_until_asked(&s, 1);
        assert_int_equal(version(&s), 1);
    }
    s.answer = ANSWER_WELL;
    wait_for_version(&s, 2);
    server_close(&s);
}

/* What is read goes to the new voter and to the manager's own, all pages of it; what is no page is
 * asked for again. */
static void votes_are_carried_over(void **state)
{
    static const enum answer wrong[] = { ANSWER_DESCENDING, ANSWER_BEFORE };
    struct fixture *f = *state;
    struct server s, new;

    server_open(&s, f, 1);
    (void)heartbeat(&s);
    wait_for_version(&s, 2);
    s.answer = wrong[0];
    server_open(&new, f, 2);
    (void)heartbeat(&new);
    wait_until_asked(&s, 1);
    assert_int_equal(version(&s), 2);
    s.answer = wrong[1]; /* The first page is right then, and all that follow are not. */
    wait_until_asked(&s, 2);
    assert_int_equal(version(&s), 2);
    s.answer = ANSWER_WELL;
    wait_for_version(&s, 3);
    assert_true(voter_count(f->meta->voter.voter) == RECORDS ||
                (new.carried >= RECORDS &&s.carried >= RECORDS));
    server_close(&new);
    server_close(&s);
}

/* The database was put back: a voter knows better. */
static void an_old_database_is_noticed(void **state)
{
    Morsel__StatusReply *status;
    struct server s;

    server_open(&s, *state, 1);
    s.answer = ANSWER_OLD_SET;
    (void)heartbeat(&s);
    while ((status = status_of(&s))->voters->version_known == 0) {
        morsel__status_reply__free_unpacked(status, NULL);
        uv_run(&s.c.f->loop, UV_RUN_ONCE);
    }
    assert_int_equal(status->voters->version, 1);
    assert_int_equal(status->voters->next, 2);
    assert_int_equal(status->voters->version_known, 500);
    morsel__status_reply__free_unpacked(status, NULL);
    server_close(&s);
}

/* The change that is under way when the manager ends is found, and goes on under another version. */
static void a_change_outlives_the_manager(void **state)
{
    struct fixture *f = *state;
    struct server s;

    server_open(&s, f, 1);
    s.answer = ANSWER_FAILURE;
    (void)heartbeat(&s);
    wait_until_asked(&s, 1);
    meta_down(f);
    meta_up(f);
    s.answer = ANSWER_WELL;
    assert_int_equal(version(&s), 1);
    do_register(&s, 1);
    (void)heartbeat(&s);
    wait_for_version(&s, 3);
    server_close(&s);
}

/* A server is removed, and the manager ends before it has planned the set without it. */
static void a_removal_outlives_the_manager(void **state)
{
    struct fixture *f = *state;
    struct meta_op op = { .kind = OP_MEMBER };
    Morsel__StatusReply *status;
    struct server s, lost;
    struct errmsg err;

    server_open(&s, f, 1);
    (void)heartbeat(&s);
    wait_for_version(&s, 2);
    server_open(&lost, f, 2);
    (void)heartbeat(&lost);
    wait_for_version(&s, 3);
    op.member = members_find(&f->meta->members, lost.id)->record;
    op.member.removed = true;
    assert_int_equal(meta_execute(f->meta, &op, &err), 0);
    server_close(&lost);
    meta_down(f);
    meta_up(f);
    status = status_of(&s);
    assert_int_equal(status->n_members, 1);
    assert_int_equal(status->voters->next, 4);
    morsel__status_reply__free_unpacked(status, NULL);
    do_register(&s, 1);
    (void)heartbeat(&s);
    wait_for_version(&s, 4);
    status = status_of(&s);
    assert_int_equal(status->voters->n_voters, 2);
    morsel__status_reply__free_unpacked(status, NULL);
    server_close(&s);
}

/* It is up, and votes as somebody else: what it has voted is gone, and counts for no majority. */
static void who_has_lost_its_votes_is_not_there(void **state)
{
    struct fixture *f = *state;
    struct server s, lost;
    struct errmsg err;

    server_open(&s, f, 1);
    (void)heartbeat(&s);
    wait_for_version(&s, 2);
    server_open(&lost, f, 2);
    (void)heartbeat(&lost);
    wait_for_version(&s, 3);
    assert_int_equal(voters_may_lose(f->meta, s.id, &err), 0);
    s.answer = lost.answer = ANSWER_FAILURE; /* The set stays as it is. */
    lost.voter = 77;
    (void)heartbeat(&lost);
    assert_true(voters_can_decide(f->meta)); /* The manager, and `s`. */
    assert_int_equal(voters_may_lose(f->meta, s.id, &err), MORSEL_INVAL);
    assert_int_equal(voters_may_lose(f->meta, lost.id, &err), 0);
    server_close(&lost);
    server_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_server_that_says_its_voter_is_admitted),
        TEST(an_older_server_has_no_voter),
        TEST(only_sound_answers_count),
        TEST(votes_are_carried_over),
        TEST(an_old_database_is_noticed),
        TEST(a_change_outlives_the_manager),
        TEST(a_removal_outlives_the_manager),
        TEST(who_has_lost_its_votes_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
