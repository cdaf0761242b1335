/* The owner's hand on a benefactor: a server that the test plays around control_uv, and a client that asks as the owner, or as somebody else. */
#include "benefactor/control_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "donate.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

enum { CALL_MS = 10000, MIB = 1 << 20 };

struct bench
{
    uv_loop_t loop;
    char dir[64], path[96];
    struct datadir datadir;
    struct rpc *rpc, *client;
    struct rpc_server *server;
    struct rpc_peer *peer, *manager;
    struct joining joining;
    struct donation donation;
    struct donation_disk disk;
    struct governor_uv governor;
    struct control control;
    unsigned spoken, leaves;
    uint64_t used;

    struct rpc_call call;
    Morsel__DonateReply *reply; /* Of the last call; NULL: it failed. */
    char text[256];
    bool answered;
    int status;
    unsigned closed;
};

static void handle(void *data, struct rpc_request *request)
{
    control_handle(&((struct bench *)data)->control, request);
}

static void on_spoken(void *data)
{
    struct bench *b = data;
    struct donation_wish wish;

    b->spoken++;
    control_wish(&b->control, &wish);
    donation_change(&b->donation, &wish);
    (void)donation_look(&b->donation, &b->disk, 1);
}

static void on_leave(void *data)
{
    ((struct bench *)data)->leaves++;
}

static uint64_t on_used(void *data)
{
    return ((struct bench *)data)->used;
}

static int open_control(struct bench *b, struct errmsg *err)
{
    struct donation_wish wish;
    int rv;

    memset(&b->control, 0, sizeof(b->control));
    b->control.loop = &b->loop;
    b->control.datadir = &b->datadir;
    b->control.joining = &b->joining;
    b->control.donation = &b->donation;
    b->control.disk = &b->disk;
    b->control.governor = &b->governor;
    b->control.settings = (struct donation_wish){ { false, 100 * MIB }, { true, 10 } };
    b->control.spoken = on_spoken;
    b->control.leave = on_leave;
    b->control.used = on_used;
    b->control.data = b;
    rv = control_open(&b->control, rpc_server_address(b->server), err);
    control_wish(&b->control, &wish);
    donation_init(&b->donation, &wish, 0);
    (void)donation_look(&b->donation, &b->disk, 0);
    return rv;
}

static void bench_init(struct bench *b)
{
    struct rpc_options options = { .role = ROLE_BENEFACTOR, .program = "test" };
    struct rpc_options asks = { .role = ROLE_ADMIN, .node_id = 1, .program = "test" };
    struct rpc_server_hooks hooks = { .handle = handle, .data = b };
    struct errmsg err = { "" };

    memset(b, 0, sizeof(*b));
    CHECK(uv_loop_init(&b->loop) == 0);
    snprintf(b->dir, sizeof(b->dir), "/tmp/morsel-control-XXXXXX");
    CHECK(mkdtemp(b->dir) != NULL);
    snprintf(b->path, sizeof(b->path), "%s/data", b->dir);
    assert_int_equal(datadir_open(&b->datadir, b->path, "benefactor", &err), 0);
    b->disk = (struct donation_disk){ .total = 1000 * MIB, .free = 900 * MIB };
    assert_int_equal(rpc_new(&b->loop, &options, &b->rpc), 0);
    assert_int_equal(rpc_listen(b->rpc, "0.0.0.0:0", &hooks, &b->server, &err), 0);
    assert_int_equal(rpc_peer_new(b->rpc, "127.0.0.1:1", &b->manager, &err), 0);
    b->joining.manager = b->manager;
    assert_int_equal(open_control(b, &err), 0);
    assert_int_equal(rpc_new(&b->loop, &asks, &b->client), 0);
    assert_int_equal(rpc_peer_new(b->client, b->control.key.address, &b->peer, &err), 0);
}

static void on_closed(void *data)
{
    ((struct bench *)data)->closed++;
}

static void forget_reply(struct bench *b)
{
    if (b->reply != NULL) {
        morsel__donate_reply__free_unpacked(b->reply, NULL);
        b->reply = NULL;
    }
}

static void bench_end(struct bench *b)
{
    char command[128];

    forget_reply(b);
    control_stop(&b->control);
    control_stop(&b->control);
    rpc_close(b->client, on_closed, b);
    rpc_close(b->rpc, on_closed, b);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(b->closed, 2);
    datadir_close(&b->datadir);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    snprintf(command, sizeof(command), "rm -rf '%s'", b->dir);
    assert_int_equal(system(command), 0);
}

/* The process ends, and another one begins. */
static int restart(struct bench *b, struct errmsg *err)
{
    control_stop(&b->control);
    uv_run(&b->loop, UV_RUN_NOWAIT);
    return open_control(b, err);
}

static void on_answer(struct rpc_call *call, int status, struct rpc_reply *reply)
{
    struct bench *b = call->data;

    b->answered = true;
    b->status = status;
    snprintf(b->text, sizeof(b->text), "%s", reply->text);
    b->reply = status == 0
                   ? rpc_unpack(&morsel__donate_reply__descriptor, reply->body, reply->body_count)
                   : NULL;
}

static int say(struct bench *b, Morsel__DonateRequest *request)
{
    forget_reply(b);
    b->answered = false;
    b->call.data = b;
    CHECK(rpc_call_start(&b->call, b->peer, MSG_DONATE, &request->base, NULL, 0, CALL_MS,
                         on_answer) == 0);
    while (!b->answered) {
        uv_run(&b->loop, UV_RUN_ONCE);
    }
    return b->status;
}

/* As the owner does. */
static int ask(struct bench *b, enum donate_what what, const char *donate, const char *keep_free,
               uint64_t pause_ms)
{
    Morsel__DonateRequest request = MORSEL__DONATE_REQUEST__INIT;

    request.secret.data = b->control.key.secret;
    request.secret.len = OWNER_SECRET_BYTES;
    request.what = what;
    request.donate = (char *)(uintptr_t)donate;
    request.keep_free = (char *)(uintptr_t)keep_free;
    request.pause_ms = pause_ms;
    return say(b, &request);
}

static void the_owner_is_told_how_it_is(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(ask(&b, DONATE_STATUS, "", "", 0), 0);
    assert_string_equal(b.reply->path, b.path);
    assert_string_equal(b.reply->state, "gives");
    assert_string_equal(b.reply->words, "gives 100.0 MiB");
    assert_true(b.reply->donated == 100 * MIB && b.reply->said == 100 * MIB);
    assert_true(b.reply->kept_free == 100 * MIB && b.reply->disk_free == 900 * MIB);
    assert_string_equal(b.reply->kept_free_as, "10%");
    assert_false(b.reply->said_here || b.reply->kept_free_here || b.reply->paused);
    assert_string_equal(b.reply->manager, "127.0.0.1:1");
    assert_true(!b.reply->joined && b.reply->memory > MIB);
    assert_non_null(strstr(b.reply->pace, "nobody else"));
    assert_true(b.reply->pace_rate == GOVERNOR_RATE_MIN);
    assert_int_equal(b.spoken, 0);
    bench_end(&b);
}

static void what_it_costs_is_measured(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    control_tick(&b.control, 1000, 0);
    b.control.cost.at_ms -= 10000; /* That was a while ago. */
    control_tick(&b.control, 11000, 50000);
    assert_int_equal(ask(&b, DONATE_STATUS, "", "", 0), 0);
    assert_in_range(b.reply->receive_rate, 900, 1000);
    assert_in_range(b.reply->send_rate, 4900, 5000);
    bench_end(&b);
}

static void a_stranger_is_refused(void **state)
{
    static const size_t lengths[] = { OWNER_SECRET_BYTES, 0, 1, OWNER_SECRET_BYTES + 1, 4000 };
    static uint8_t secret[4000];
    struct bench b;

    (void)state;
    bench_init(&b);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (enum donate_what what = DONATE_STATUS; what <= DONATE_LEAVE; what++) {
            Morsel__DonateRequest request = MORSEL__DONATE_REQUEST__INIT;

            memcpy(secret, b.control.key.secret, OWNER_SECRET_BYTES);
            secret[OWNER_SECRET_BYTES - 1] ^=
                i == 0; /* Almost; others are too short or too long. */
            request.secret.data = secret;
            request.secret.len = lengths[i];
            request.what = what;
            request.donate = (char *)(uintptr_t) "0";
            assert_int_equal(say(&b, &request), MORSEL_ACCES);
            assert_non_null(strstr(b.text, "read the donated directory"));
        }
    }
    assert_int_equal(b.spoken, 0);
    assert_int_equal(b.leaves, 0);
    assert_int_equal(ask(&b, DONATE_STATUS, "", "", 0), 0);
    assert_true(b.reply->said == 100 * MIB);
    bench_end(&b);
}

static void his_word_holds_at_once_and_behind_a_restart(void **state)
{
    struct donation_wish wish;
    struct bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(ask(&b, DONATE_SET, "50M", "", 0), 0);
    assert_int_equal(b.spoken, 1);
    assert_true(b.reply->donated == 50 * MIB && b.reply->said_here && !b.reply->kept_free_here);
    assert_string_equal(b.reply->not_kept, "");
    assert_int_equal(ask(&b, DONATE_SET, "", "95%", 0), 0);
    assert_string_equal(b.reply->state, "nothing"); /* There is no room any more. */
    assert_int_equal(restart(&b, NULL), 0);
    control_wish(&b.control, &wish);
    assert_true(wish.donate.value == 50 * MIB && wish.keep_free.value == 95);
    assert_int_equal(ask(&b, DONATE_STATUS, "", "", 0), 0);
    assert_true(b.reply->said_here && b.reply->kept_free_here);
    bench_end(&b);
}

static void nonsense_changes_nothing(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(ask(&b, DONATE_SET, "lots", "", 0), MORSEL_INVAL);
    assert_non_null(strstr(b.text, "\"lots\""));
    assert_int_equal(ask(&b, DONATE_SET, "5M", "101%", 0), MORSEL_INVAL);
    assert_non_null(strstr(b.text, "keep-free"));
    assert_int_equal(ask(&b, DONATE_SET, "", "", 0), MORSEL_INVAL);
    assert_int_equal(ask(&b, DONATE_PAUSE, "", "", UINT64_MAX), MORSEL_INVAL);
    assert_int_equal(ask(&b, (enum donate_what)99, "", "", 0), MORSEL_UNKNOWN_TYPE);
    assert_int_equal(ask(&b, DONATE_STATUS, "", "", 0), 0);
    assert_true(b.reply->said == 100 * MIB && !b.reply->paused && b.spoken == 0);
    bench_end(&b);
}

static void a_pause_ends_by_itself_or_by_word(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(ask(&b, DONATE_PAUSE, "", "", 600000), 0);
    assert_true(b.reply->paused && b.spoken == 1 && control_is_paused(&b.control));
    assert_in_range(b.reply->paused_left_ms, 590000, 600000);
    assert_int_equal(restart(&b, NULL), 0);
    assert_true(control_is_paused(&b.control));
    b.control.owner.pause_end_ms = rpc_boot_ms() + 3600000;
    control_tick(&b.control, 0, 0);
    assert_true(control_is_paused(&b.control) && b.spoken == 1);
    b.control.owner.pause_end_ms = rpc_boot_ms();
    control_tick(&b.control, 0, 0);
    assert_true(!control_is_paused(&b.control) && b.spoken == 2);
    assert_int_equal(restart(&b, NULL), 0);
    assert_false(control_is_paused(&b.control)); /* That it is over was kept. */
    assert_int_equal(ask(&b, DONATE_PAUSE, "", "", 0), 0);
    assert_true(b.reply->paused && b.reply->paused_left_ms == 0);
    assert_int_equal(ask(&b, DONATE_RESUME, "", "", 0), 0);
    assert_true(!b.reply->paused && b.spoken == 4);
    bench_end(&b);
}

static void what_cannot_be_kept_holds_all_the_same(void **state)
{
    struct bench b;
    char path[128];

    (void)state;
    bench_init(&b);
    snprintf(path, sizeof(path), "%s/owner.tmp", b.path);
    assert_int_equal(mkdir(path, 0700), 0); /* In the way of the new file. */
    assert_int_equal(ask(&b, DONATE_SET, "0", "", 0), 0);
    assert_true(b.reply->donated == 0 && b.spoken == 1);
    assert_non_null(strstr(b.reply->not_kept, "/owner: "));
    bench_end(&b);
}

static void a_damaged_file_is_said(void **state)
{
    struct errmsg err = { "" };
    struct bench b;
    char command[160];

    (void)state;
    bench_init(&b);
    assert_int_equal(ask(&b, DONATE_SET, "5M", "", 0), 0);
    snprintf(command, sizeof(command), "echo nonsense >>'%s/owner'", b.path);
    assert_int_equal(system(command), 0);
    assert_int_equal(restart(&b, &err), MORSEL_CORRUPT);
    assert_non_null(strstr(err.text, "delete the file"));
    snprintf(command, sizeof(command), "rm '%s/owner'", b.path);
    assert_int_equal(system(command), 0);
    assert_int_equal(restart(&b, &err), 0);
    bench_end(&b);
}

static void it_leaves_behind_its_answer(void **state)
{
    struct bench b;

    (void)state;
    bench_init(&b);
    assert_int_equal(ask(&b, DONATE_LEAVE, "", "", 0), 0);
    while (b.leaves == 0) {
        uv_run(&b.loop, UV_RUN_ONCE);
    }
    bench_end(&b);
}

/* It waits for what the manager says, and to be asked how it was. */
static void it_leaves_when_others_have_all(void **state)
{
    Morsel__DonateRequest request = MORSEL__DONATE_REQUEST__INIT;
    Morsel__DonorLeft left = MORSEL__DONOR_LEFT__INIT;
    struct bench b;

    (void)state;
    bench_init(&b);
    b.used = 5 * MIB;
    request.secret.data = b.control.key.secret;
    request.secret.len = OWNER_SECRET_BYTES;
    request.what = DONATE_LEAVE;
    request.leave_ms = 86400001;
    assert_int_equal(say(&b, &request), MORSEL_INVAL);
    request.leave_ms = 3600000;
    assert_int_equal(say(&b, &request), 0);
    assert_true(b.reply->leaving && control_is_leaving(&b.control) && b.spoken == 1);
    assert_in_range(b.reply->leave_left_ms, 3590000, 3600000);
    assert_int_equal(ask(&b, DONATE_RESUME, "", "", 0), 0);
    assert_true(!b.reply->leaving && !control_is_leaving(&b.control) && b.spoken == 2);
    assert_int_equal(say(&b, &request), 0);
    left.counted = true;
    left.wanted = 3;
    left.stuck = 2;
    left.moved = 7;
    control_told_left(&b.control, &left);
    assert_int_equal(ask(&b, DONATE_STATUS, "", "", 0), 0);
    assert_true(b.reply->leaving && b.reply->left_wanted == 3 && b.reply->moved == 7);
    assert_string_equal(b.reply->leave_end, "");
    left.wanted = 2;
    control_told_left(&b.control, &left);
    while (b.control.leaving.state != LEAVING_OVER) {
        uv_run(&b.loop, UV_RUN_ONCE);
    }
    assert_int_equal(ask(&b, DONATE_RESUME, "", "", 0), MORSEL_BUSY);
    assert_int_equal(b.leaves, 0);
    assert_int_equal(ask(&b, DONATE_STATUS, "", "", 0), 0);
    assert_string_equal(b.reply->leave_end, "stuck");
    while (b.leaves == 0) {
        uv_run(&b.loop, UV_RUN_ONCE);
    }
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_is_told_how_it_is),
        cmocka_unit_test(what_it_costs_is_measured),
        cmocka_unit_test(a_stranger_is_refused),
        cmocka_unit_test(his_word_holds_at_once_and_behind_a_restart),
        cmocka_unit_test(nonsense_changes_nothing),
        cmocka_unit_test(a_pause_ends_by_itself_or_by_word),
        cmocka_unit_test(what_cannot_be_kept_holds_all_the_same),
        cmocka_unit_test(a_damaged_file_is_said),
        cmocka_unit_test(it_leaves_behind_its_answer),
        cmocka_unit_test(it_leaves_when_others_have_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
