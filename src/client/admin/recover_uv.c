/* morsel recover, morsel iod: servers that are lost, or are to leave, and who takes their place. */
#include "client/admin/group_status_file.h"
#include "client/admin/print_file.h"
#include "client/admin/recover_verify_uv.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LOOK_AGAIN_MS = 100, NS_PER_MS = 1000000 };

/* ---- What is done ---- */

static int print_done(const Morsel__RecoverReply *reply, uint32_t server)
{
    return print_json(json_pack("{s:I, s:o, s:o, s:o}", "server", (json_int_t)server, "places",
                                print_json_number(reply->places), "elsewhere",
                                print_json_number(reply->elsewhere), "objects",
                                print_json_number(reply->objects)))
               ? ADMIN_OK
               : ADMIN_PROBLEM;
}

/* ---- recover status ---- */

static bool is_busy(const Morsel__GroupStatus *group)
{
    return !group_is_well(group) || group->waits[0] != '\0';
}

static json_t *status_json(const Morsel__StatusReply *status)
{
    json_t *groups = json_array(), *leavers = json_array();

    for (size_t i = 0; i < status->n_groups; i++) {
        if (is_busy(status->groups[i])) {
            (void)json_array_append_new(groups, group_status_json_one(status->groups[i]));
        }
    }
    for (size_t i = 0; i < status->n_members; i++) {
        const Morsel__Member *m = status->members[i];

        if (m->leaves) {
            (void)json_array_append_new(
                leavers,
                json_pack("{s:I, s:I, s:I, s:o, s:b, s:o, s:o, s:b}", "server", (json_int_t)m->id,
                          "to", (json_int_t)m->leaves_to, "places", (json_int_t)m->places,
                          "objects", print_json_number(m->objects), "files_known", (int)m->looked,
                          "files", print_json_number(m->files), "files_bytes",
                          print_json_number(m->files_bytes), "has_left", (int)leaver_has_left(m)));
        }
    }
    return json_pack("{s:b, s:o, s:I, s:o, s:o, s:o}", "paused", (int)status->rebuild_paused,
                     "rebuild_after_ms", print_json_number(status->rebuild_after_ms),
                     "groups_count", (json_int_t)status->n_groups, "groups", groups, "leaving",
                     leavers, "verify", verify_status_json(status));
}

/* What no group has, and does not move by itself. */
static void print_leaver_files(const Morsel__Member *m)
{
    char bytes[PRINT_TEXT_MAX];

    if (!m->looked) {
        (void)printf("; files with one copy that need it are still being looked for");
    } else if (m->files > 0) {
        (void)printf("; %" PRIu64 " files with one copy need it still (%s, holes among it): ",
                     m->files, print_bytes(m->files_bytes, bytes));
        (void)printf(m->up ? "`morsel recopy MOUNTPOINT` moves them"
                           : "start it, then `morsel recopy MOUNTPOINT` moves them");
    } else if (m->places == 0) {
        (void)printf("; %" PRIu64 " objects that no file needs are about to be deleted there",
                     m->objects);
    }
}

static void print_leaver(const Morsel__Member *m)
{
    (void)printf("server    %" PRIu32 " (%s, %s) ", m->id, m->address, m->name);
    if (leaver_has_left(m)) {
        (void)printf("has left: it holds nothing any more, and can be stopped for good\n");
        return;
    }
    if (m->places > 0) {
        (void)printf("leaves: %" PRIu32 " groups have a copy there still", m->places);
    } else {
        (void)printf("has left its groups");
    }
    print_leaver_files(m);
    (void)printf("\n");
}

static void print_status(const Morsel__StatusReply *status)
{
    char after[PRINT_TEXT_MAX];
    size_t busy = 0;

    if (status->rebuild_paused) {
        (void)printf(
            "rebuild   paused: servers that are away are not replaced until `morsel recover "
            "start`\n");
    } else if (status->rebuild_after_ms == 0) {
        (void)printf("rebuild   never by itself (rebuild-after=0)\n");
    } else {
        (void)printf("rebuild   of servers that are away for %s\n",
                     print_duration_ms(status->rebuild_after_ms, after));
    }
    for (size_t i = 0; i < status->n_members; i++) {
        if (status->members[i]->leaves) {
            print_leaver(status->members[i]);
        }
    }
    for (size_t i = 0; i < status->n_groups; i++) {
        if (is_busy(status->groups[i])) {
            group_status_print_one(status->groups[i]);
            busy++;
        }
    }
    if (busy == 0) {
        (void)printf("groups    %zu, all copies are complete\n", (size_t)status->n_groups);
    }
    verify_status_print(status);
}

/* As admin_fetch_status(); with --wait when all copies are complete, or its time is over. */
static int fetch_status(const struct admin_arguments *arguments, Morsel__StatusReply **status_out)
{
    uint64_t until_ns = uv_hrtime() + arguments->settings.timeout_ms * NS_PER_MS;
    char address[CONFIG_STRING_MAX];
    int code = admin_fetch_status(arguments, status_out, address);

    while (*status_out != NULL && arguments->settings.wait && groups_unwell(*status_out) > 0 &&
           uv_hrtime() < until_ns) {
        morsel__status_reply__free_unpacked(*status_out, NULL);
        uv_sleep(LOOK_AGAIN_MS); /* Nobody tells us. */
        code = admin_fetch_status(arguments, status_out, address);
    }
    return code;
}

static int recover_status(const struct admin_arguments *arguments)
{
    Morsel__StatusReply *status;
    int code = fetch_status(arguments, &status);

    if (status == NULL) {
        return code;
    }
    if (!arguments->settings.json) {
        print_status(status);
        if (arguments->settings.show_loss) {
            group_status_print_loss(status);
        }
    } else if (!print_json(status_json(status))) {
        code = ADMIN_PROBLEM;
    }
    code = groups_unwell(status) > 0 ? ADMIN_PROBLEM : code;
    morsel__status_reply__free_unpacked(status, NULL);
    return code;
}

/* ---- recover replace, pause, start ---- */

static int recover_replace(const struct admin_arguments *arguments)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    int code;

    if (arguments->operands_count != 3) {
        return admin_failed(ADMIN_USAGE,
                            "recover replace needs the server that is to be replaced, and "
                            "who takes its place: another server, or \"auto\"");
    }
    request.what = RECOVER_LEAVE;
    request.server = admin_server_number(arguments->operands[1]);
    if (request.server == 0) {
        return ADMIN_USAGE;
    }
    if (strcmp(arguments->operands[2], "auto") != 0 &&
        (request.to = admin_server_number(arguments->operands[2])) == 0) {
        return ADMIN_USAGE;
    }
    code = admin_recover(arguments, &request, &reply);
    if (reply == NULL) {
        return code;
    }
    if (arguments->settings.json) {
        code = print_done(reply, request.server);
    } else {
        (void)printf("server %" PRIu32 " is being replaced in %" PRIu32
                     " groups; `morsel recover status` shows how far it is\n",
                     request.server, reply->places);
        if (reply->elsewhere > 0) {
            (void)printf("server %" PRIu32 " has a copy of %" PRIu32
                         " of them already: these go to others\n",
                         request.to, reply->elsewhere);
        }
    }
    morsel__recover_reply__free_unpacked(reply, NULL);
    return code;
}

static int recover_pause(const struct admin_arguments *arguments, bool paused)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    int code;

    request.what = paused ? RECOVER_PAUSE : RECOVER_START;
    code = admin_recover(arguments, &request, &reply);
    if (reply == NULL) {
        return code;
    }
    morsel__recover_reply__free_unpacked(reply, NULL);
    if (arguments->settings.json) {
        return print_json(json_pack("{s:b}", "paused", (int)paused)) ? ADMIN_OK : ADMIN_PROBLEM;
    }
    (void)printf(
        paused ? "servers that are away are not replaced any more; what is under way, and what "
                 "was asked for, goes on\n"
               : "servers that are away for too long are replaced again\n");
    return ADMIN_OK;
}

int command_recover(const struct admin_arguments *arguments)
{
    const char *what = arguments->operands[0];

    if (strcmp(what, "replace") == 0) {
        return recover_replace(arguments);
    }
    if (strcmp(what, "verify") == 0) {
        return recover_verify(arguments);
    }
    if (strcmp(what, "force") == 0) {
        return recover_force(arguments);
    }
    if (arguments->operands_count > 1) {
        return admin_failed(ADMIN_USAGE, "recover %s takes nothing more", what);
    }
    if (strcmp(what, "status") == 0) {
        return recover_status(arguments);
    }
    if (strcmp(what, "pause") == 0 || strcmp(what, "start") == 0) {
        return recover_pause(arguments, what[0] == 'p');
    }
    return admin_failed(
        ADMIN_USAGE, "unknown \"recover %s\": it is status, replace, pause, start, verify or force",
        what);
}

/* ---- iod ---- */

/* About the one server that is named. `reply` is NULL if there is none: the exit code says why. */
static int ask_about_server(const struct admin_arguments *arguments, enum recover_what what,
                            uint32_t *server, Morsel__RecoverReply **reply)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;

    *reply = NULL;
    if (arguments->operands_count != 2) {
        return admin_failed(ADMIN_USAGE, "iod %s needs one storage server", arguments->operands[0]);
    }
    request.what = what;
    request.server = *server = admin_server_number(arguments->operands[1]);
    return *server == 0 ? ADMIN_USAGE : admin_recover(arguments, &request, reply);
}

static int iod_drain(const struct admin_arguments *arguments)
{
    bool cancel = arguments->settings.cancel;
    Morsel__RecoverReply *reply;
    uint32_t server;
    int code = ask_about_server(arguments, cancel ? RECOVER_STAY : RECOVER_LEAVE, &server, &reply);

    if (reply == NULL) {
        return code;
    }
    if (arguments->settings.json) {
        code = print_done(reply, server);
    } else if (cancel) {
        (void)printf("server %" PRIu32
                     " stays; places that others have by now it does not get back\n",
                     server);
    } else {
        (void)printf("server %" PRIu32 " gets nothing new, and leaves %" PRIu32
                     " groups when others have their copies; `morsel recover status` shows how far "
                     "it is\n",
                     server, reply->places);
        (void)printf(
            "files with one copy do not move by themselves: `morsel recopy MOUNTPOINT` moves "
            "them, and `morsel recover status` counts those that are left\n");
    }
    morsel__recover_reply__free_unpacked(reply, NULL);
    return code;
}

static int iod_admit(const struct admin_arguments *arguments)
{
    Morsel__RecoverReply *reply;
    uint32_t server;
    int code = ask_about_server(arguments, RECOVER_ADMIT, &server, &reply);

    if (reply == NULL) {
        return code;
    }
    if (arguments->settings.json) {
        code = print_done(reply, server);
    } else {
        (void)printf("server %" PRIu32 " is admitted: it votes, and gets groups and new files; "
                     "`morsel rebalance` gives it a share of what is there\n",
                     server);
    }
    morsel__recover_reply__free_unpacked(reply, NULL);
    return code;
}

static json_t *listed_json(const Morsel__Member *m)
{
    return json_pack("{s:I, s:s, s:s, s:b, s:b, s:b, s:b, s:I}", "id", (json_int_t)m->id, "address",
                     m->address, "name", m->name, "up", (int)m->up, "waits", (int)m->waits,
                     "leaves", (int)m->leaves, "has_left", (int)leaver_has_left(m), "places",
                     (json_int_t)m->places);
}

static void print_listed(const Morsel__Member *m)
{
    char leaver[LEAVER_TEXT_MAX];

    (void)printf("%4" PRIu32 "  %-22s %-16s %6" PRIu32 "  %s%s%s\n", m->id, m->address, m->name,
                 m->places, m->up ? "up" : "down",
                 m->waits    ? ", waits to be admitted"
                 : m->leaves ? ", "
                             : "",
                 m->leaves && !m->waits ? leaver_words(m, leaver) : "");
}

static int iod_list(const struct admin_arguments *arguments)
{
    char address[CONFIG_STRING_MAX];
    Morsel__StatusReply *status;
    int code = admin_fetch_status(arguments, &status, address);
    json_t *list = json_array();

    if (status == NULL) {
        json_decref(list);
        return code;
    }
    if (!arguments->settings.json) {
        (void)printf("  ID  %-22s %-16s %6s  STATE\n", "ADDRESS", "HOST", "GROUPS");
    }
    for (size_t i = 0; i < status->n_members; i++) {
        if (arguments->settings.json) {
            (void)json_array_append_new(list, listed_json(status->members[i]));
        } else {
            print_listed(status->members[i]);
        }
    }
    morsel__status_reply__free_unpacked(status, NULL);
    if (!arguments->settings.json) {
        json_decref(list);
        return ADMIN_OK;
    }
    return print_json(json_pack("{s:o}", "servers", list)) ? ADMIN_OK : ADMIN_PROBLEM;
}

int command_iod(const struct admin_arguments *arguments)
{
    const char *what = arguments->operands[0];

    if (strcmp(what, "drain") == 0) {
        return iod_drain(arguments);
    }
    if (strcmp(what, "remove") == 0) {
        return iod_remove(arguments);
    }
    if (strcmp(what, "admit") == 0) {
        return iod_admit(arguments);
    }
    if (strcmp(what, "list") == 0 && arguments->operands_count == 1) {
        return iod_list(arguments);
    }
    return admin_failed(
        ADMIN_USAGE, "unknown \"iod %s\": it is list, admit SERVER, drain SERVER or remove SERVER",
        what);
}
