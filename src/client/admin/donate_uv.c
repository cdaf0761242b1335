/* morsel donate: the owner of a desktop and the benefactor that runs on it. */
#include "client/admin/admin_uv.h"
#include "client/admin/print_file.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/owner_key_file.h"
#include "donate.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct verb
{
    const char *name;
    enum donate_what what;
    size_t operands_max; /* Behind its name. */
};

static const struct verb verbs[] = { { "status", DONATE_STATUS, 0 },
                                     { "set", DONATE_SET, 1 },
                                     { "pause", DONATE_PAUSE, 1 },
                                     { "resume", DONATE_RESUME, 0 },
                                     { "leave", DONATE_LEAVE, 0 } };

enum {
    LEAVE_MS = 60000, /* Until the benefactor leaves, unless --deadline says otherwise. */
    LOOK_MS = 200
};

/* The benefactor, and whether it is there. */
struct asked
{
    struct admin admin;
    struct rpc_peer *peer;
    uv_timer_t timer;
    char path[CONFIG_STRING_MAX]; /* The donated directory. */
    bool gone, late;
};

/* ---- The question ---- */

static int wrong_verb(const char *name)
{
    return admin_failed(ADMIN_USAGE,
                        "\"donate %s\" is nothing: give status, set, pause, resume or leave", name);
}

/* "30m", as options of that kind are written. */
static bool parse_time(const char *text, uint64_t *time_ms)
{
    static const struct config_option option = { "time", CONFIG_TIME_MS, 0, "0", 0, 0, "TIME", "" };
    static const struct config_table one = { .program = "morsel donate",
                                             .options = &option,
                                             .options_count = 1 };

    return config_set(&one, time_ms, "time", text, NULL) == 0 && *time_ms > 0;
}

static int set_request(const struct admin_arguments *arguments, const char *operand,
                       Morsel__DonateRequest *request)
{
    const char *keep_free = arguments->settings.keep_free;

    if (operand == NULL && keep_free[0] == '\0') {
        return admin_failed(ADMIN_USAGE, "say how much: `morsel donate set 50G`, or 30%%, or 0 for "
                                         "nothing; or how much stays free, with --keep-free=20%%");
    }
    request->donate = (char *)(uintptr_t)(operand != NULL ? operand : "");
    request->keep_free = (char *)(uintptr_t)keep_free;
    return ADMIN_OK;
}

static int leave_request(const struct admin_settings *settings, Morsel__DonateRequest *request)
{
    if (settings->now && settings->deadline[0] != '\0') {
        return admin_failed(ADMIN_USAGE,
                            "--now waits for nothing, so --deadline=%s says nothing beside it: "
                            "give one of them",
                            settings->deadline);
    }
    request->leave_ms = settings->now ? 0 : LEAVE_MS;
    if (settings->deadline[0] != '\0' && !parse_time(settings->deadline, &request->leave_ms)) {
        return admin_failed(ADMIN_USAGE,
                            "\"%s\" is no deadline: give 60s or 10m, or --now to wait for nothing",
                            settings->deadline);
    }
    return ADMIN_OK;
}

/* What is asked, without the secret. Otherwise the mistake was said, and this is the exit code. */
static int make_request(const struct admin_arguments *arguments, Morsel__DonateRequest *request)
{
    const char *name = arguments->operands[0];
    const char *operand = arguments->operands_count > 1 ? arguments->operands[1] : NULL;
    const struct verb *verb = NULL;

    for (size_t i = 0; i < ARRAY_COUNT(verbs); i++) {
        verb = strcmp(name, verbs[i].name) == 0 ? &verbs[i] : verb;
    }
    if (verb == NULL) {
        return wrong_verb(name);
    }
    if (operand != NULL && verb->operands_max == 0) {
        return admin_failed(ADMIN_USAGE, "donate %s takes no \"%s\"", name, operand);
    }
    if (verb->what != DONATE_SET && arguments->settings.keep_free[0] != '\0') {
        return admin_failed(ADMIN_USAGE, "--keep-free belongs to donate set");
    }
    if (verb->what != DONATE_LEAVE &&
        (arguments->settings.deadline[0] != '\0' || arguments->settings.now)) {
        return admin_failed(ADMIN_USAGE, "--deadline and --now belong to donate leave");
    }
    request->what = verb->what;
    if (verb->what == DONATE_LEAVE) {
        return leave_request(&arguments->settings, request);
    }
    if (verb->what == DONATE_SET) {
        return set_request(arguments, operand, request);
    }
    if (verb->what == DONATE_PAUSE && operand != NULL && !parse_time(operand, &request->pause_ms)) {
        return admin_failed(ADMIN_USAGE,
                            "\"%s\" is no time: give 30m or 2h, or nothing to pause "
                            "until `morsel donate resume`",
                            operand);
    }
    return ADMIN_OK;
}

/* ---- The call ---- */

static void on_down(void *data, const char *why)
{
    (void)why;
    ((struct asked *)data)->gone = true;
}

/* Its process does not run: it was killed, and has left its key. */
static void on_refused(void *data)
{
    struct asked *asked = data;

    asked->gone = true;
    rpc_peer_give_up(asked->peer, MORSEL_UNREACHABLE);
}

/* Who is to be asked, and the secret. */
static int find(const struct admin_settings *settings, struct asked *asked, struct owner_key *key)
{
    struct errmsg err;
    int rv = 0;

    *asked = (struct asked){ .gone = false };
    (void)snprintf(asked->path, sizeof(asked->path), "%s", settings->data_dir);
    if (asked->path[0] == '\0' && owner_data_dir(asked->path, &err) != 0) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    rv = owner_key_read(asked->path, key, &err);
    if (rv == 0) {
        rv = admin_open(&asked->admin, key->address, settings->timeout_ms, &err);
    }
    if (rv != 0) {
        return admin_failed(rv == MORSEL_NOENT ? ADMIN_UNREACHABLE : ADMIN_PROBLEM, "%s", err.text);
    }
    asked->peer = asked->admin.manager;
    asked->admin.manager = NULL; /* Messages are not to call it so. */
    rpc_peer_watch(asked->peer, NULL, on_down, asked);
    rpc_peer_on_refused(asked->peer, on_refused);
    return ADMIN_OK;
}

static int call_failed(const struct asked *asked, int rv, const struct errmsg *err)
{
    if (asked->gone && rv == MORSEL_UNREACHABLE) {
        return admin_failed(ADMIN_UNREACHABLE,
                            "no benefactor runs with %s: the last one ended without a word; start "
                            "morsel-benefactor again",
                            asked->path);
    }
    return admin_failed(rv == MORSEL_INVAL ? ADMIN_USAGE : admin_exit_code(rv), "%s", err->text);
}

static void on_late(uv_timer_t *timer)
{
    ((struct asked *)timer->data)->late = true;
}

/* It has said that it leaves: until its connection has ended. */
static int wait_gone(struct asked *asked)
{
    asked->timer.data = asked;
    uv_timer_init(&asked->admin.loop, &asked->timer);
    uv_timer_start(&asked->timer, on_late, asked->admin.timeout_ms, 0);
    while (!asked->gone && !asked->late) {
        (void)uv_run(&asked->admin.loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&asked->timer, NULL);
    return asked->gone ? ADMIN_OK
                       : admin_failed(ADMIN_PROBLEM,
                                      "the benefactor of %s is about to leave, but has not ended "
                                      "within the time limit",
                                      asked->path);
}

/* "12 of 120 morsels, 108 MiB to go, for another 43 s at most" */
static void show_leaving(const Morsel__DonateReply *r)
{
    uint64_t to_go = r->left_wanted > r->left_stuck ? r->left_wanted - r->left_stuck : 0;
    char bytes[PRINT_TEXT_MAX], time[PRINT_TEXT_MAX];

    (void)fprintf(stderr, "\r\033[K");
    if (r->leave_end[0] != '\0') {
        return;
    }
    if (r->left_counted) {
        (void)fprintf(stderr, "%" PRIu64 " of %" PRIu64 " morsels are elsewhere, %s to go, for ",
                      r->moved, r->moved + to_go, print_bytes(r->left_wanted_bytes, bytes));
    } else {
        (void)fprintf(stderr, "Waiting for the manager, for ");
    }
    (void)fprintf(stderr, "another %s at most; Ctrl-C leaves it to it",
                  print_duration_ms(r->leave_left_ms + 999, time));
}

/* Until it is over; `*reply` becomes how it is then. What is interrupted goes on without us. */
static int follow(struct asked *asked, bool shows, Morsel__DonateRequest *request,
                  Morsel__DonateReply **reply, struct errmsg *err)
{
    int rv = 0;

    request->what = DONATE_STATUS;
    while (rv == 0 && (*reply)->leave_end[0] == '\0' && (*reply)->leaving) {
        void *next = NULL;

        if (shows) {
            show_leaving(*reply);
        }
        uv_sleep(LOOK_MS);
        rv = admin_call(&asked->admin, asked->peer, MSG_DONATE, &request->base,
                        &morsel__donate_reply__descriptor, &next, err);
        if (rv == 0) {
            morsel__donate_reply__free_unpacked(*reply, NULL);
            *reply = next;
        }
    }
    if (shows) {
        (void)fprintf(stderr, "\r\033[K");
    }
    request->what = DONATE_LEAVE;
    return rv;
}

static int leave(const struct admin_settings *settings, struct asked *asked,
                 Morsel__DonateRequest *request, Morsel__DonateReply **reply)
{
    bool shows = isatty(STDERR_FILENO) && !settings->json;
    struct errmsg err = { "" };
    int rv = follow(asked, shows, request, reply, &err);

    if (rv != 0) {
        return asked->gone ? admin_failed(ADMIN_PROBLEM,
                                          "the benefactor of %s has ended before it said what "
                                          "was moved: its log may say more",
                                          asked->path)
                           : call_failed(asked, rv, &err);
    }
    if (!(*reply)->leaving) {
        return admin_failed(ADMIN_PROBLEM,
                            "the benefactor of %s stays: `morsel donate resume` was said meanwhile",
                            asked->path);
    }
    return wait_gone(asked);
}

static int ask(const struct admin_settings *settings, Morsel__DonateRequest *request,
               Morsel__DonateReply **reply_out)
{
    struct owner_key key;
    struct asked asked;
    struct errmsg err;
    void *reply = NULL;
    int code = find(settings, &asked, &key), rv;

    if (code != ADMIN_OK) {
        return code;
    }
    request->secret.data = key.secret;
    request->secret.len = sizeof(key.secret);
    rv = admin_call(&asked.admin, asked.peer, MSG_DONATE, &request->base,
                    &morsel__donate_reply__descriptor, &reply, &err);
    if (rv != 0) {
        code = call_failed(&asked, rv, &err);
    } else {
        *reply_out = reply;
        code =
            request->what == DONATE_LEAVE ? leave(settings, &asked, request, reply_out) : ADMIN_OK;
    }
    admin_close(&asked.admin);
    return code;
}

/* ---- The answer ---- */

static const char *by_whom(bool here)
{
    return here ? "morsel donate set" : "its settings";
}

static json_t *state_json(const Morsel__DonateReply *r)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "path", r->path, "state",
                     r->state, "words", r->words, "state_ms", print_json_number(r->state_ms),
                     "donated", print_json_number(r->donated), "used", print_json_number(r->used),
                     "paused", r->paused, "paused_left_ms", print_json_number(r->paused_left_ms),
                     "excess", print_json_number(r->excess), "kept_free",
                     print_json_number(r->kept_free));
}

static json_t *said_json(const Morsel__DonateReply *r)
{
    return json_pack("{s:o, s:s, s:s, s:s, s:s}", "bytes", print_json_number(r->said), "donate",
                     r->said_as, "donate_by", by_whom(r->said_here), "keep_free", r->kept_free_as,
                     "keep_free_by", by_whom(r->kept_free_here));
}

static json_t *costs_json(const Morsel__DonateReply *r)
{
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o}", "cpu_permille", (json_int_t)r->cpu_permille, "memory",
        print_json_number(r->memory), "read_rate", print_json_number(r->read_rate), "write_rate",
        print_json_number(r->write_rate), "receive_rate", print_json_number(r->receive_rate),
        "send_rate", print_json_number(r->send_rate));
}

static json_t *pace_json(const Morsel__DonateReply *r)
{
    return json_pack("{s:s, s:o, s:o, s:I}", "why", r->pace, "why_ms",
                     print_json_number(r->pace_ms), "rate_most", print_json_number(r->pace_rate),
                     "held", (json_int_t)r->held);
}

static json_t *leaving_json(const Morsel__DonateReply *r)
{
    return json_pack(
        "{s:b, s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "leaving", r->leaving, "left_ms",
        print_json_number(r->leave_left_ms), "end", r->leave_end, "counted", r->left_counted,
        "wanted", print_json_number(r->left_wanted), "wanted_bytes",
        print_json_number(r->left_wanted_bytes), "only", print_json_number(r->left_only), "stuck",
        print_json_number(r->left_stuck), "stuck_bytes", print_json_number(r->left_stuck_bytes),
        "moved", print_json_number(r->moved), "moved_bytes", print_json_number(r->moved_bytes));
}

static bool print_answer_json(const Morsel__DonateReply *r)
{
    json_t *document = state_json(r);

    (void)json_object_set_new(document, "said", said_json(r));
    (void)json_object_set_new(document, "costs", costs_json(r));
    (void)json_object_set_new(document, "pace", pace_json(r));
    (void)json_object_set_new(document, "moving", leaving_json(r));
    (void)json_object_set_new(document, "disk",
                              json_pack("{s:o, s:o}", "total", print_json_number(r->disk_total),
                                        "free", print_json_number(r->disk_free)));
    (void)json_object_set_new(document, "cluster",
                              json_pack("{s:s, s:b, s:I, s:s, s:b}", "manager", r->manager,
                                        "joined", r->joined, "id", (json_int_t)r->id, "address",
                                        r->door, "shut", r->shut));
    return print_json(document);
}

/* "10.0 GiB (30%)", or the size alone when it was said as one. */
static const char *share_words(uint64_t bytes, const char *said_as, char text[2 * PRINT_TEXT_MAX])
{
    char size[PRINT_TEXT_MAX];

    (void)print_bytes(bytes, size);
    if (strchr(said_as, '%') == NULL) {
        (void)snprintf(text, 2 * PRINT_TEXT_MAX, "%s", size);
    } else {
        (void)snprintf(text, 2 * PRINT_TEXT_MAX, "%s (%.8s)", size, said_as);
    }
    return text;
}

/* What it is doing, and what it would do otherwise. */
static void print_state(const Morsel__DonateReply *r)
{
    char time[PRINT_TEXT_MAX], until[2 * PRINT_TEXT_MAX] = "until `morsel donate resume`";

    if (r->paused && r->paused_left_ms > 0) {
        (void)snprintf(until, sizeof(until), "for another %s",
                       print_duration_ms(r->paused_left_ms + 999, time));
    }
    if (r->paused) {
        (void)printf("%s is paused %s: nothing is taken, and nothing is given out\n  otherwise  ",
                     r->path, until);
    } else {
        (void)printf("%s ", r->path);
    }
    (void)printf("%s; so for %s\n", r->words, print_duration_ms(r->state_ms, time));
}

static void print_costs(const Morsel__DonateReply *r)
{
    char memory[PRINT_TEXT_MAX], in[PRINT_TEXT_MAX], out[PRINT_TEXT_MAX];

    (void)printf("  costs      %" PRIu32 ".%" PRIu32 "%% of a processor, %s of memory\n",
                 r->cpu_permille / 10, r->cpu_permille % 10, print_bytes(r->memory, memory));
    (void)printf("  disk       reads %s/s, writes %s/s\n", print_bytes(r->read_rate, in),
                 print_bytes(r->write_rate, out));
    (void)printf("  network    receives %s/s, sends %s/s\n", print_bytes(r->receive_rate, in),
                 print_bytes(r->send_rate, out));
}

static void print_pace(const Morsel__DonateReply *r)
{
    char rate[PRINT_TEXT_MAX], since[PRINT_TEXT_MAX];

    if (r->pace_rate == 0) {
        (void)printf("  pace       without limit");
    } else {
        (void)printf("  pace       at most %s/s", print_bytes(r->pace_rate, rate));
    }
    (void)printf(", for %s; so for %s\n", r->pace, print_duration_ms(r->pace_ms, since));
}

/* What is on its way to others, because it leaves or gives less. */
static void print_moving(const Morsel__DonateReply *r)
{
    char size[PRINT_TEXT_MAX], time[PRINT_TEXT_MAX];

    if (r->leaving) {
        (void)printf("  leaves     in %s at the latest: %" PRIu64 " morsels were copied to others, "
                     "%" PRIu64 " more have too few copies elsewhere; `morsel donate resume` keeps "
                     "it here\n",
                     print_duration_ms(r->leave_left_ms + 999, time), r->moved, r->left_wanted);
    } else if (r->excess > 0 && r->left_stuck_bytes > 0) {
        (void)printf("  has to go  %s, which stay: no other benefactor has room for them\n",
                     print_bytes(r->excess, size));
    } else if (r->excess > 0) {
        (void)printf("  has to go  %s: others get them now\n", print_bytes(r->excess, size));
    }
}

/* How many were moved, and what has fewer copies now. */
static void print_left(const Morsel__DonateReply *r)
{
    char moved[PRINT_TEXT_MAX];

    (void)printf("%s: %" PRIu64 " morsels (%s) were copied to other benefactors\n", r->path,
                 r->moved, print_bytes(r->moved_bytes, moved));
    if (strcmp(r->leave_end, "now") == 0) {
        return;
    }
    if (!r->left_counted && r->used > 0) {
        (void)printf("what has fewer copies now is not known: the manager has not said it in "
                     "time; `morsel datasets` shows it\n");
    } else if (r->left_wanted > 0) {
        (void)printf("%" PRIu64 " morsels have fewer copies now than wanted, %" PRIu64
                     " of them none until this benefactor is back: %s\n",
                     r->left_wanted, r->left_only,
                     strcmp(r->leave_end, "stuck") == 0 ? "no other benefactor has room for them"
                                                        : "the deadline was over");
    }
}

static void print_answer_text(const Morsel__DonateReply *r)
{
    char share[2 * PRINT_TEXT_MAX], size[PRINT_TEXT_MAX], total[PRINT_TEXT_MAX];

    print_state(r);
    (void)printf("  gives      at most %s, says %s\n", share_words(r->said, r->said_as, share),
                 by_whom(r->said_here));
    (void)printf("  used       %s of it\n", print_bytes(r->used, size));
    (void)printf("  keeps      %s free, says %s; the disk has %s free of %s\n",
                 share_words(r->kept_free, r->kept_free_as, share), by_whom(r->kept_free_here),
                 print_bytes(r->disk_free, size), print_bytes(r->disk_total, total));
    print_moving(r);
    print_costs(r);
    print_pace(r);
    if (r->joined) {
        (void)printf("  cluster    benefactor %" PRIu32 " of the manager at %s\n", r->id,
                     r->manager);
        if (r->shut) {
            (void)printf(
                "             clients cannot reach this machine at %s: let its firewall pass "
                "that port, or start the benefactor with --advertise\n",
                r->door);
        }
    } else {
        (void)printf("  cluster    the manager at %s does not answer: it is tried again\n",
                     r->manager);
    }
}

static int print_answer(const struct admin_arguments *arguments, enum donate_what what,
                        const Morsel__DonateReply *reply)
{
    if (arguments->settings.json) {
        if (!print_answer_json(reply)) {
            return ADMIN_PROBLEM;
        }
    } else if (what == DONATE_LEAVE) {
        print_left(reply);
        (void)printf("%s: nothing is given any more, the benefactor has ended; it begins again "
                     "when it is started, as systemd does with the machine or the session unless "
                     "its unit is disabled\n",
                     reply->path);
    } else {
        print_answer_text(reply);
    }
    return reply->not_kept[0] == '\0'
               ? ADMIN_OK
               : admin_failed(ADMIN_PROBLEM, "it holds, but only until the benefactor ends: %s",
                              reply->not_kept);
}

int command_donate(const struct admin_arguments *arguments)
{
    Morsel__DonateRequest request = MORSEL__DONATE_REQUEST__INIT;
    Morsel__DonateReply *reply = NULL;
    int code = make_request(arguments, &request);

    if (code == ADMIN_OK) {
        code = ask(&arguments->settings, &request, &reply);
    }
    if (code == ADMIN_OK) {
        CHECK(reply != NULL);
        code = print_answer(arguments, request.what, reply);
    }
    if (reply != NULL) {
        morsel__donate_reply__free_unpacked(reply, NULL);
    }
    return code;
}
