/* The host of a voter: what it answers is on its disk, and what asks by the rules of nobody is refused. */
#include "common/vote/voter_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/vote/vote_words.h"
#include "tests/lib/faulty_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { CALL_MS = 20000, CALLS_MAX = 8 };

struct bench;

struct asked
{
    struct rpc_call call;
    struct bench *bench;
    bool answered;
    int status;
    struct vote_answer answer;
    uint32_t count; /* Of VOTES_READ. */
    struct vote_record records[VOTE_PAGE_MAX];
};

struct bench
{
    uint32_t call_ms; /* How long a question waits for its answer. */
    uv_loop_t loop;
    char dir[64];
    struct voter_uv voter;
    struct rpc *server, *iod, *manager; /* The last two are who asks. */
    struct rpc_server *listener;
    struct rpc_peer *from_iod, *from_manager;
    struct asked asked[CALLS_MAX];
    unsigned closed;
};

static void serve(void *data, struct rpc_request *request)
{
    voter_uv_handle(&((struct bench *)data)->voter, request);
}

static void caller_new(struct bench *b, enum rpc_role role, struct rpc **rpc,
                       struct rpc_peer **peer)
{
    struct rpc_options options = { .role = role, .node_id = 1, .program = "test" };

    CHECK(rpc_new(&b->loop, &options, rpc) == 0);
    CHECK(rpc_peer_new(*rpc, rpc_server_address(b->listener), peer, NULL) == 0);
}

static void open_voter(struct bench *b)
{
    struct errmsg err = { "" };

    memset(&b->voter, 0, sizeof(b->voter));
    if (voter_uv_open(&b->voter, b->dir, &b->loop, NULL, &err) != 0) {
        fail_msg("%s", err.text);
    }
}

static int bench_begin(void **state)
{
    struct rpc_options options = { .role = ROLE_IOD, .node_id = 7, .program = "test" };
    struct bench *b = calloc(1, sizeof(*b));
    struct rpc_server_hooks hooks = { .handle = serve, .data = b };

    CHECK(b != NULL && uv_loop_init(&b->loop) == 0);
    b->call_ms = CALL_MS;
    disk_reset();
    snprintf(b->dir, sizeof(b->dir), "/tmp/morsel-voter-XXXXXX");
    CHECK(mkdtemp(b->dir) != NULL);
    open_voter(b);
    CHECK(rpc_new(&b->loop, &options, &b->server) == 0);
    CHECK(rpc_listen(b->server, "127.0.0.1:0", &hooks, &b->listener, NULL) == 0);
    caller_new(b, ROLE_IOD, &b->iod, &b->from_iod);
    caller_new(b, ROLE_MANAGER, &b->manager, &b->from_manager);
    *state = b;
    return 0;
}

static int bench_end(void **state)
{
    struct bench *b = *state;
    char command[128];

    disk_reset();
    rpc_close(b->iod, NULL, NULL);
    rpc_close(b->manager, NULL, NULL);
    rpc_close(b->server, NULL, NULL);
    voter_uv_stop(&b->voter, NULL, NULL);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    voter_uv_free(&b->voter);
    CHECK(uv_loop_close(&b->loop) == 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
    CHECK(system(command) == 0);
    free(b);
    return 0;
}

/* ---- Asking ---- */

static void on_voted(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct asked *a = call->data;
    Morsel__VoteReply *m = NULL;

    a->answered = true;
    a->status = status;
    if (status == 0) {
        m = rpc_unpack(&morsel__vote_reply__descriptor, reply->body, reply->body_count);
        CHECK(m != NULL && vote_answer_read(m, &a->answer));
        morsel__vote_reply__free_unpacked(m, NULL);
    }
}

static void on_changed(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct asked *a = call->data;
    Morsel__VotesReply *m = NULL;

    a->answered = true;
    a->status = status;
    if (status == 0) {
        m = rpc_unpack(&morsel__votes_reply__descriptor, reply->body, reply->body_count);
        CHECK(m != NULL && vote_page_read(m->records, m->n_records, true, a->records));
        a->answer = (struct vote_answer){ .type = m->type,
                                          .voter = m->voter,
                                          .set_version = m->set_version };
        a->count = (uint32_t)m->n_records;
        morsel__votes_reply__free_unpacked(m, NULL);
    }
}

static void start(struct bench *b, unsigned at, struct rpc_peer *peer, enum message_type type,
                  const ProtobufCMessage *message)
{
    struct asked *a = &b->asked[at];

    memset(a, 0, sizeof(*a));
    a->call.data = a;
    a->bench = b;
    CHECK(rpc_call_start(&a->call, peer, type, message, NULL, 0, b->call_ms,
                         type == MSG_VOTE ? on_voted : on_changed) == 0);
}

/* PREPARE for the group `group`, in round `round`. */
static void start_prepare(struct bench *b, unsigned at, struct rpc_peer *peer, uint32_t group,
                          uint64_t round)
{
    Morsel__VoteRequest m = MORSEL__VOTE_REQUEST__INIT;
    Morsel__VoteBallot ballot = MORSEL__VOTE_BALLOT__INIT;
    uint32_t subject[2] = { group, group + 1 };

    ballot.round = round;
    ballot.candidate = 9;
    m.voter = voter_name(b->voter.voter);
    m.set_version = 1;
    m.type = VOTE_PREPARE;
    m.subject = subject;
    m.n_subject = 2;
    m.epoch = 1;
    m.ballot = &ballot;
    start(b, at, peer, MSG_VOTE, &m.base);
}

static struct asked *wait_for(struct bench *b, unsigned at)
{
    while (!b->asked[at].answered) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    return &b->asked[at];
}

static enum vote_answer_type prepare(struct bench *b, uint32_t group, uint64_t round)
{
    struct asked *a;

    start_prepare(b, 0, b->from_iod, group, round);
    a = wait_for(b, 0);
    assert_int_equal(a->status, 0);
    return a->answer.type;
}

static struct asked *read_page(struct bench *b, voter_id voter, uint64_t version)
{
    Morsel__VotesReadRequest m = MORSEL__VOTES_READ_REQUEST__INIT;

    m.voter = voter;
    m.version = version;
    m.count_max = VOTE_PAGE_MAX;
    start(b, 0, b->from_manager, MSG_VOTES_READ, &m.base);
    return wait_for(b, 0);
}

/* As after kill -9. */
static void restart(struct bench *b)
{
    CHECK(!b->voter.writing);
    voter_uv_free(&b->voter);
    open_voter(b);
}

/* ---- Tests ---- */

static void a_vote_is_kept(void **state)
{
    struct bench *b = *state;
    voter_id id = voter_name(b->voter.voter);

    assert_int_equal(prepare(b, 1, 5), VOTE_PROMISED);
    assert_int_equal(prepare(b, 3, 5), VOTE_PROMISED);
    restart(b);
    assert_int_equal(voter_name(b->voter.voter), id);
    assert_int_equal(voter_count(b->voter.voter), 2);
    assert_int_equal(prepare(b, 1, 5), VOTE_OUTBID);
    assert_int_equal(b->asked[0].answer.voted.round, 5);
    assert_int_equal(prepare(b, 1, 6), VOTE_PROMISED);
}

/* The disk takes its time: nobody hears of what is not there, and what comes meanwhile goes together. */
static void answers_wait_for_the_disk(void **state)
{
    struct bench *b = *state;
    unsigned before;

    assert_int_equal(prepare(b, 9, 1), VOTE_PROMISED);
    before = disk.calls[CALL_FDATASYNC];
    disk.hold = true;
    start_prepare(b, 0, b->from_iod, 1, 1);
    while (disk.held == 0) {
        uv_run(&b->loop, UV_RUN_NOWAIT);
    }
    for (unsigned i = 1; i < 4; i++) {
        start_prepare(b, i, b->from_iod, 1 + 2 * i, 1);
    }
    while (voter_count(b->voter.voter) < 5) {
        uv_run(&b->loop, UV_RUN_NOWAIT);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_false(b->asked[i].answered);
    }
    disk.hold = false;
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(wait_for(b, i)->answer.type, VOTE_PROMISED);
    }
    assert_int_equal(disk.calls[CALL_FDATASYNC] - before, 2);
}

static void a_disk_that_fails_gives_no_vote(void **state)
{
    struct bench *b = *state;

    assert_int_equal(prepare(b, 1, 1), VOTE_PROMISED);
    disk_fail(CALL_FDATASYNC, EIO);
    disk_fail(CALL_FSYNC, EIO);
    assert_int_equal(prepare(b, 1, 2), VOTE_NO_ROOM);
    assert_int_equal(prepare(b, 3, 2), VOTE_NO_ROOM);
    disk_reset();
    assert_int_equal(prepare(b, 5, 2), VOTE_PROMISED);
    restart(b);
    assert_int_equal(voter_count(b->voter.voter), 3); /* All was written anew. */
}

/* A change of the set: what was voted is read by the manager and given to another voter. */
static void votes_are_carried(void **state)
{
    struct bench *b = *state;
    Morsel__VotesCarryRequest m = MORSEL__VOTES_CARRY_REQUEST__INIT;
    struct vote_record record = {
        .subject = { { 5, 6 } }, .promised = { 3, 9 }, .ballot = { 3, 9 }, .value = { 1, { 42 } }
    };
    struct vote_page page;
    struct asked *a;

    assert_int_equal(prepare(b, 1, 1), VOTE_PROMISED);
    vote_page_fill(&page, &record, 1);
    m.voter = voter_name(b->voter.voter);
    m.version = 7;
    m.records = page.pointers;
    m.n_records = 1;
    start(b, 0, b->from_manager, MSG_VOTES_CARRY, &m.base);
    assert_int_equal(wait_for(b, 0)->answer.type, VOTE_ACCEPTED);
    restart(b);
    assert_int_equal(voter_set_version(b->voter.voter), 7);
    assert_int_equal(prepare(b, 1, 9), VOTE_OLD_SET); /* It is sealed. */
    a = read_page(b, voter_name(b->voter.voter), 8);
    assert_int_equal(a->answer.type, VOTE_ACCEPTED);
    assert_int_equal(a->count, 2);
    assert_int_equal(a->records[1].value.bytes[0], 42);
    a = read_page(b, voter_name(b->voter.voter) + 1, 9);
    assert_int_equal(a->answer.type, VOTE_NOT_ME);
    assert_int_equal(a->count, 0);
    a = read_page(b, voter_name(b->voter.voter), VOTE_VERSION_END);
    assert_int_equal(a->answer.type, VOTE_NONSENSE);
}

static void who_may_not_ask_is_refused(void **state)
{
    struct bench *b = *state;
    Morsel__VotesReadRequest m = MORSEL__VOTES_READ_REQUEST__INIT;

    start_prepare(b, 0, b->from_manager, 1, 1);
    assert_int_equal(wait_for(b, 0)->status, MORSEL_PERM);
    m.voter = voter_name(b->voter.voter);
    m.version = 2;
    m.count_max = 1;
    start(b, 0, b->from_iod, MSG_VOTES_READ, &m.base);
    assert_int_equal(wait_for(b, 0)->status, MORSEL_PERM);
    m.count_max = VOTE_PAGE_MAX + 1;
    start(b, 0, b->from_manager, MSG_VOTES_READ, &m.base);
    assert_int_equal(wait_for(b, 0)->answer.type, VOTE_NONSENSE);
    assert_int_equal(prepare(b, 0, 1), VOTE_NONSENSE);
    assert_int_equal(voter_count(b->voter.voter), 0);
    assert_int_equal(voter_set_version(b->voter.voter), 0);
}

/* Damage may have taken votes: the old id is not used again, and the file is there to be looked at. */
static void a_damaged_file_is_put_aside(void **state)
{
    struct bench *b = *state;
    voter_id id = voter_name(b->voter.voter);
    char path[128];
    FILE *file;

    assert_int_equal(prepare(b, 1, 1), VOTE_PROMISED);
    snprintf(path, sizeof(path), "%s/votes", b->dir);
    file = fopen(path, "r+");
    CHECK(file != NULL && fseek(file, 30, SEEK_SET) == 0 && fputc(0x55, file) == 0x55);
    CHECK(fclose(file) == 0);
    restart(b);
    assert_int_not_equal(voter_name(b->voter.voter), id);
    assert_int_equal(voter_count(b->voter.voter), 0);
    snprintf(path, sizeof(path), "%s/votes.damaged", b->dir);
    assert_int_equal(access(path, F_OK), 0);
}

/* It is stopped with questions that wait for the disk: they end, and the loop runs empty. */
static void stops_in_mid_work(void **state)
{
    struct bench *b = *state;

    assert_int_equal(prepare(b, 9, 1), VOTE_PROMISED);
    disk.hold = true;
    start_prepare(b, 0, b->from_iod, 1, 1);
    while (disk.held == 0) {
        uv_run(&b->loop, UV_RUN_NOWAIT);
    }
    start_prepare(b, 1, b->from_iod, 3, 1);
    while (voter_count(b->voter.voter) < 3) {
        uv_run(&b->loop, UV_RUN_NOWAIT);
    }
    voter_uv_stop(&b->voter, NULL, NULL);
    disk.hold = false;
    assert_int_equal(wait_for(b, 0)->answer.type, VOTE_PROMISED);
    assert_int_equal(wait_for(b, 1)->answer.type, VOTE_NO_ROOM);
    b->call_ms = 200; /* Who is told of the end asks the daemon's next life. */
    start_prepare(b, 0, b->from_iod, 1, 2);
    assert_int_equal(wait_for(b, 0)->status, MORSEL_TIMEDOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_vote_is_kept, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(answers_wait_for_the_disk, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(a_disk_that_fails_gives_no_vote, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(votes_are_carried, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(who_may_not_ask_is_refused, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_put_aside, bench_begin, bench_end),
        cmocka_unit_test_setup_teardown(stops_in_mid_work, bench_begin, bench_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
