/* morsel rebalance: the plan is shown, done when somebody says so, looked at and stopped. */
#include "client/admin/rebalance_uv.h"
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 500, BAR_WIDE = 20 };

/* ---- The plan, as text ---- */

static void print_disk(const Morsel__RebalanceDisk *d)
{
    char total[PRINT_TEXT_MAX], used[PRINT_TEXT_MAX], then[PRINT_TEXT_MAX];

    if (d->shares != 0) {
        (void)printf("%4" PRIu32 "  on the disk of server %" PRIu32 "\n", d->server, d->shares);
        return;
    }
    (void)printf("%4" PRIu32 "  %10s  %10s %4u%%  %10s %4u%%\n", d->server,
                 print_bytes(d->total, total), print_bytes(d->used, used),
                 print_percent(d->used, d->total), print_bytes(d->used_then, then),
                 print_percent(d->used_then, d->total));
}

static uint64_t sum_moves(const Morsel__RecoverReply *plan)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < plan->n_moves; i++) {
        bytes += plan->moves[i]->bytes;
    }
    return bytes;
}

/* What stays where it is, and what can be done about it. */
static void print_left(const Morsel__RecoverReply *plan, const struct rebalance_sizes *sizes)
{
    char bytes[PRINT_TEXT_MAX];

    if (plan->groups_busy > 0) {
        (void)printf("Left out: %" PRIu32 " groups whose copies are not all complete, or about "
                     "which something is done (`morsel recover status`); look again behind that\n",
                     plan->groups_busy);
    }
    if (plan->groups_unknown > 0) {
        (void)printf("Left out: %" PRIu32 " groups that could not be measured\n",
                     plan->groups_unknown);
    }
    for (size_t i = 0; i < sizes->alone_count; i++) {
        (void)printf("%s%s on server %" PRIu32,
                     i == 0 ? "Cannot be moved, files with one copy: " : ", ",
                     print_bytes(sizes->alone[i].bytes, bytes), sizes->alone[i].server);
    }
    if (sizes->alone_count > 0) {
        (void)printf(
            "; `morsel recopy DIR` gives them as many copies as new files in DIR get, and what has "
            "two or more can be moved\n");
    }
}

static void print_plan(const Morsel__RecoverReply *plan, const struct rebalance_sizes *sizes)
{
    char bytes[PRINT_TEXT_MAX];

    (void)printf("  ID  %10s  %10s       %10s\n", "SIZE", "USED", "THEN");
    for (size_t i = 0; i < plan->n_disks; i++) {
        print_disk(plan->disks[i]);
    }
    for (size_t i = 0; i < plan->n_moves; i++) {
        const Morsel__RebalanceMove *m = plan->moves[i];

        (void)printf("group %" PRIu32 ": %s from server %" PRIu32 " to server %" PRIu32 "\n",
                     m->group, print_bytes(m->bytes, bytes), m->from, m->to);
    }
    print_left(plan, sizes);
    if (plan->n_moves == 0) {
        (void)printf("Nothing is to move: there is no copy of a group whose move would make the "
                     "disks more equally full\n");
    } else {
        (void)printf("%zu copies are to move, %s in all. Each is kept until its new one is "
                     "complete; a server receives two at a time\n",
                     (size_t)plan->n_moves, print_bytes(sum_moves(plan), bytes));
    }
}

/* ---- The plan, as JSON ---- */

static json_t *moves_json(const Morsel__RecoverReply *plan)
{
    json_t *list = json_array();

    for (size_t i = 0; i < plan->n_moves; i++) {
        const Morsel__RebalanceMove *m = plan->moves[i];

        (void)json_array_append_new(list,
                                    json_pack("{s:I, s:I, s:I, s:o}", "group", (json_int_t)m->group,
                                              "from", (json_int_t)m->from, "to", (json_int_t)m->to,
                                              "bytes", print_json_number(m->bytes)));
    }
    return list;
}

static json_t *disks_json(const Morsel__RecoverReply *plan)
{
    json_t *list = json_array();

    for (size_t i = 0; i < plan->n_disks; i++) {
        const Morsel__RebalanceDisk *d = plan->disks[i];

        (void)json_array_append_new(
            list, json_pack("{s:I, s:I, s:o, s:o, s:o}", "server", (json_int_t)d->server, "disk_of",
                            (json_int_t)(d->shares != 0 ? d->shares : d->server), "total",
                            print_json_number(d->total), "used", print_json_number(d->used),
                            "used_then", print_json_number(d->used_then)));
    }
    return list;
}

static bool print_plan_json(const Morsel__RecoverReply *plan, const struct rebalance_sizes *sizes,
                            bool done)
{
    json_t *alone = json_array();

    for (size_t i = 0; i < sizes->alone_count; i++) {
        (void)json_array_append_new(alone, json_pack("{s:I, s:o}", "server",
                                                     (json_int_t)sizes->alone[i].server, "bytes",
                                                     print_json_number(sizes->alone[i].bytes)));
    }
    return print_json(json_pack("{s:b, s:o, s:o, s:o, s:I, s:I, s:o}", "begun", (int)done, "moves",
                                moves_json(plan), "bytes", print_json_number(sum_moves(plan)),
                                "servers", disks_json(plan), "groups_busy",
                                (json_int_t)plan->groups_busy, "groups_unknown",
                                (json_int_t)plan->groups_unknown, "one_copy", alone));
}

/* ---- How far it is ---- */

struct progress
{
    uint32_t moves, left, given_up;
    uint64_t bytes, bytes_left; /* Without what was given up. */
    uint64_t passed_ms;
};

static bool holds(const Morsel__Group *group, uint32_t server, size_t *place)
{
    for (*place = 0; group != NULL && *place < group->n_servers; (*place)++) {
        if (group->servers[*place] == server) {
            return true;
        }
    }
    return false;
}

/* How much of it is still to be copied: without what the server that gives has given. */
static uint64_t left_of(const Morsel__GroupStatus *g)
{
    uint64_t given = 0, all = g->move->bytes;
    bool complete = true;
    size_t place;

    if (!holds(g->group, g->move->to, &place)) {
        return all;
    }
    for (size_t i = 0; i < g->n_copies && i < g->n_places; i++) {
        complete &= g->places[i] != place;
        given = g->copies[i]->bytes_given > given ? g->copies[i]->bytes_given : given;
    }
    return complete || given >= all ? 0 : all - given;
}

static struct progress look_at(const Morsel__StatusReply *status)
{
    const Morsel__RebalanceStatus *r = status->rebalance;
    struct progress p = { .moves = 0 };

    if (r == NULL) {
        return p;
    }
    p.moves = r->moves;
    p.given_up = r->given_up;
    p.bytes = r->bytes > r->given_up_bytes ? r->bytes - r->given_up_bytes : 0;
    p.passed_ms = r->began_ms;
    for (size_t i = 0; i < status->n_groups; i++) {
        if (status->groups[i]->move != NULL) {
            p.left++;
            p.bytes_left += left_of(status->groups[i]);
        }
    }
    p.bytes_left = p.bytes_left < p.bytes ? p.bytes_left : p.bytes;
    return p;
}

static uint32_t moved(const struct progress *p)
{
    return p->moves > p->left + p->given_up ? p->moves - p->left - p->given_up : 0;
}

/* 0: it is not known yet. */
static uint64_t time_left_ms(const struct progress *p)
{
    uint64_t done = p->bytes - p->bytes_left;

    return done == 0 ? 0 : (uint64_t)((double)p->passed_ms * (double)p->bytes_left / (double)done);
}

/* "[#####...............] 27%, 3 of 8 copies, 1.2 GiB to go, about 2 min" */
static void print_progress(FILE *to, const struct progress *p)
{
    uint64_t done = p->bytes - p->bytes_left;
    unsigned wide = p->bytes == 0 ? 0 : (unsigned)((double)done / (double)p->bytes * BAR_WIDE);
    char bytes[PRINT_TEXT_MAX], time[PRINT_TEXT_MAX];

    (void)fprintf(to, "[%.*s%.*s] %u%%, %" PRIu32 " of %" PRIu32 " copies, %s to go", (int)wide,
                  "####################", (int)(BAR_WIDE - wide), "....................",
                  done == 0 ? 0 : print_percent(done, p->bytes), moved(p), p->moves - p->given_up,
                  print_bytes(p->bytes_left, bytes));
    if (p->left > 0 && time_left_ms(p) > 0) {
        (void)fprintf(to, ", about %s", print_duration_ms(time_left_ms(p), time));
    }
}

static json_t *progress_json(const struct progress *p)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "running", (int)(p->left > 0),
                     "moves", (json_int_t)p->moves, "moved", (json_int_t)moved(p), "left",
                     (json_int_t)p->left, "given_up", (json_int_t)p->given_up, "bytes",
                     print_json_number(p->bytes), "bytes_left", print_json_number(p->bytes_left),
                     "passed_ms", print_json_number(p->passed_ms), "left_ms",
                     print_json_number(time_left_ms(p)));
}

static int print_state(const struct admin_arguments *arguments, const struct progress *p)
{
    if (arguments->settings.json) {
        return print_json(progress_json(p)) ? ADMIN_OK : ADMIN_PROBLEM;
    }
    if (p->moves == 0) {
        (void)printf("Space has never been evened out here\n");
    } else if (p->left > 0) {
        print_progress(stdout, p);
        (void)printf("; `morsel recover status` shows each group\n");
    } else {
        (void)printf("%" PRIu32 " of %" PRIu32 " copies have moved\n", moved(p), p->moves);
    }
    if (p->given_up > 0) {
        (void)printf("%" PRIu32 " copies were to move and stayed: stopped, or their new server "
                     "could not take them; `morsel rebalance` makes another plan\n",
                     p->given_up);
    }
    return ADMIN_OK;
}

static int show_status(const struct admin_arguments *arguments)
{
    char address[CONFIG_STRING_MAX];
    Morsel__StatusReply *status;
    struct progress p;
    int code = admin_fetch_status(arguments, &status, address);

    if (status == NULL) {
        return code;
    }
    p = look_at(status);
    morsel__status_reply__free_unpacked(status, NULL);
    return print_state(arguments, &p);
}

/* A manager that is being restarted is waited for: what it does goes on then. */
static int wait_for_end(const struct admin_arguments *arguments)
{
    bool shows = isatty(STDERR_FILENO) && !arguments->settings.json;
    char address[CONFIG_STRING_MAX];
    Morsel__StatusReply *status;
    struct progress p;

    for (;;) {
        int code = admin_fetch_status(arguments, &status, address);

        if (status == NULL && code == ADMIN_UNREACHABLE) {
            uv_sleep(LOOK_MS);
            continue;
        }
        if (status == NULL) {
            return code;
        }
        p = look_at(status);
        morsel__status_reply__free_unpacked(status, NULL);
        if (shows) {
            (void)fprintf(stderr, "\r\033[K");
        }
        if (p.left == 0) {
            code = print_state(arguments, &p);
            return p.given_up > 0 ? ADMIN_PROBLEM : code;
        }
        if (shows) {
            print_progress(stderr, &p);
        }
        uv_sleep(LOOK_MS);
    }
}

/* ---- To stop it ---- */

static int stop(const struct admin_arguments *arguments)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    int code = ADMIN_OK;

    request.what = RECOVER_REBALANCE_STOP;
    if ((code = admin_recover(arguments, &request, &reply)) != ADMIN_OK) {
        return code;
    }
    if (arguments->settings.json) {
        code = print_json(json_pack("{s:I}", "left", (json_int_t)reply->moves_left))
                   ? ADMIN_OK
                   : ADMIN_PROBLEM;
    } else {
        (void)printf(
            "No other copy begins to move; those that have begun are brought to their end: "
            "%" PRIu32 "\n",
            reply->moves_left);
    }
    morsel__recover_reply__free_unpacked(reply, NULL);
    return code;
}

/* ---- To do it ---- */

/* The sizes go into `request`, in memory that is to be freed. False: there is none. */
static bool sizes_put(const struct rebalance_sizes *sizes, const Morsel__StatusReply *status,
                      Morsel__RecoverRequest *request)
{
    size_t count = 0;

    request->sized_groups = calloc(status->n_groups + 1, sizeof(*request->sized_groups));
    request->sizes = calloc(status->n_groups + 1, sizeof(*request->sizes));
    if (request->sized_groups == NULL || request->sizes == NULL) {
        return false;
    }
    for (uint32_t i = 1; i < PLACING_GROUPS_MAX && count < status->n_groups; i++) {
        if (sizes->known[i]) {
            request->sized_groups[count] = i;
            request->sizes[count++] = sizes->bytes[i];
        }
    }
    request->n_sized_groups = request->n_sizes = count;
    return true;
}

static int ask_plan(const struct admin_arguments *arguments, struct rebalance_sizes *sizes,
                    Morsel__RecoverReply **plan)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    char address[CONFIG_STRING_MAX];
    Morsel__StatusReply *status;
    int code = admin_fetch_status(arguments, &status, address);

    *plan = NULL;
    if (status == NULL) {
        return code;
    }
    request.what = RECOVER_REBALANCE;
    code = rebalance_measure(arguments, status, sizes);
    if (code == ADMIN_OK) {
        code = sizes_put(sizes, status, &request) ? admin_recover(arguments, &request, plan)
                                                  : admin_failed(ADMIN_PROBLEM, "out of memory");
    }
    morsel__status_reply__free_unpacked(status, NULL);
    free(request.sized_groups);
    free(request.sizes);
    return code;
}

static bool is_confirmed(void)
{
    char line[PRINT_TEXT_MAX] = "";

    (void)printf("Type yes to do it, anything else to leave it: ");
    (void)fflush(stdout);
    if (fgets(line, sizeof(line), stdin) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, "yes") == 0;
}

static int begin(const struct admin_arguments *arguments, uint64_t look)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    int code;

    request.what = RECOVER_REBALANCE;
    request.look = look;
    code = admin_recover(arguments, &request, &reply);
    if (reply != NULL) {
        morsel__recover_reply__free_unpacked(reply, NULL);
    }
    return code;
}

static int go(const struct admin_arguments *arguments, const Morsel__RecoverReply *plan,
              const struct rebalance_sizes *sizes)
{
    const struct admin_settings *settings = &arguments->settings;
    bool does = !settings->dry_run && plan->n_moves > 0;
    int code = ADMIN_OK;

    if (!settings->json) {
        print_plan(plan, sizes);
        does = does && (settings->yes || is_confirmed());
    } else {
        does = does && settings->yes;
    }
    if (does && (code = begin(arguments, plan->look)) != ADMIN_OK) {
        return code;
    }
    if (settings->json && !(does && settings->wait) && !print_plan_json(plan, sizes, does)) {
        return ADMIN_PROBLEM;
    }
    if (!does) {
        return settings->dry_run || plan->n_moves == 0
                   ? ADMIN_OK
                   : admin_failed(ADMIN_PROBLEM, "nothing was changed%s",
                                  settings->json ? ": --yes does it" : "");
    }
    if (settings->wait) {
        return wait_for_end(arguments);
    }
    if (!settings->json) {
        (void)printf("It has begun; `morsel rebalance --status` shows how far it is, --stop ends "
                     "it\n");
    }
    return ADMIN_OK;
}

int command_rebalance(const struct admin_arguments *arguments)
{
    const struct admin_settings *settings = &arguments->settings;
    struct rebalance_sizes *sizes;
    Morsel__RecoverReply *plan;
    int code;

    if (settings->stop + settings->show_status + settings->dry_run > 1) {
        return admin_failed(ADMIN_USAGE, "--dry-run, --status and --stop exclude each other");
    }
    if (settings->stop) {
        return stop(arguments);
    }
    if (settings->show_status) {
        return settings->wait ? wait_for_end(arguments) : show_status(arguments);
    }
    sizes = calloc(1, sizeof(*sizes));
    if (sizes == NULL) {
        return admin_failed(ADMIN_PROBLEM, "out of memory");
    }
    code = ask_plan(arguments, sizes, &plan);
    if (plan != NULL) {
        code = go(arguments, plan, sizes);
        morsel__recover_reply__free_unpacked(plan, NULL);
    }
    free(sizes);
    return code;
}
