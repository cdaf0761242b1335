/* morsel recover force: the copy that counts, when no vote can say which. First what may be lost is shown. */
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* enum group_state of a storage server, which this program does not include. */
enum { CONSISTENT, STANDALONE, STALE, RECOVERING, STATES };

static const char *const state_names[STATES] = { "consistent", "standalone", "stale",
                                                 "recovering" };

static bool in_sync(const Morsel__CopyState *copy)
{
    return copy != NULL && copy->state <= STANDALONE;
}

static const Morsel__ForceCopy *find(const Morsel__RecoverReply *reply, uint32_t server)
{
    for (size_t i = 0; i < reply->n_copies; i++) {
        if (reply->copies[i]->server == server) {
            return reply->copies[i];
        }
    }
    return NULL;
}

/* ---- Text ---- */

static void print_copy(const Morsel__ForceCopy *c, bool named)
{
    char away[PRINT_TEXT_MAX];

    (void)printf("  server %" PRIu32 "  ", c->server);
    if (!c->up) {
        (void)printf("has not been heard for %s, or longer\n", print_duration_ms(c->away_ms, away));
    } else if (c->copy == NULL) {
        (void)printf("is up, and has told nothing of its copy\n");
    } else {
        (void)printf("is %s in epoch %" PRIu64 "%s%s\n",
                     c->copy->state < STATES ? state_names[c->copy->state] : "in an unknown state",
                     c->copy->epoch, c->copy->begun == 0 ? ", and has never been complete" : "",
                     named ? ": its copy is to count" : "");
    }
}

static void print_loss(const Morsel__RecoverReply *reply, const Morsel__CopyState *copy)
{
    char text[PRINT_TEXT_MAX];

    (void)printf("What may be lost:\n");
    if (in_sync(copy)) {
        (void)printf("  What was written and not yet synced (fsync) when the servers stopped, and "
                     "what others wrote "
                     "if they went on without it.\n  What was synced while it took part is there.");
        if (copy->doubt_bytes > 0) {
            (void)printf(" Up to %s were being changed.", print_bytes(copy->doubt_bytes, text));
        }
        (void)printf("\n");
    } else {
        (void)printf("  Everything that was written while it was left behind, synced or not: the "
                     "group has not been "
                     "complete for %s, or longer.\n",
                     print_duration_ms(reply->unwell_ms, text));
        if (copy != NULL && (copy->state == RECOVERING || copy->begun == 0)) {
            (void)printf("  It was being brought up to date: a part of its files is older than the "
                         "rest, or not there "
                         "at all.\n");
        }
    }
    (void)printf("  Who wrote that is told by fsync (EIO). The other servers begin without a byte "
                 "when they are back, "
                 "whatever they have.\n");
}

/* Who is down may not be dead. */
static void print_warning(const Morsel__RecoverReply *reply, uint32_t server)
{
    for (size_t i = 0; i < reply->n_copies; i++) {
        const Morsel__ForceCopy *c = reply->copies[i];

        if (c->server != server && !c->up) {
            (void)printf("If server %" PRIu32
                         " runs somewhere and only cannot be reached from here,\n"
                         "  it may serve those who reach it until it hears of this, and what they\n"
                         "  write there is lost: make sure that it is stopped.\n",
                         c->server);
        }
    }
}

static void print_look(const Morsel__RecoverReply *reply, uint32_t group, uint32_t server)
{
    const Morsel__ForceCopy *named = find(reply, server);

    (void)printf("group %" PRIu32 ": from now on the copy on server %" PRIu32 " is to count\n",
                 group, server);
    for (size_t i = 0; i < reply->n_copies; i++) {
        print_copy(reply->copies[i], reply->copies[i] == named);
    }
    print_loss(reply, named != NULL ? named->copy : NULL);
    print_warning(reply, server);
}

/* ---- JSON ---- */

static json_t *look_json(const Morsel__RecoverReply *reply, uint32_t group, uint32_t server,
                         bool done)
{
    json_t *copies = json_array();

    for (size_t i = 0; i < reply->n_copies; i++) {
        const Morsel__ForceCopy *c = reply->copies[i];
        json_t *copy = json_pack("{s:I, s:b, s:o}", "server", (json_int_t)c->server, "up",
                                 (int)c->up, "away_ms", print_json_number(c->away_ms));

        if (copy != NULL && c->copy != NULL) {
            (void)json_object_update_new(
                copy, json_pack("{s:s, s:o, s:o, s:b, s:o}", "state",
                                c->copy->state < STATES ? state_names[c->copy->state] : "unknown",
                                "epoch", print_json_number(c->copy->epoch), "begun",
                                print_json_number(c->copy->begun), "whole", (int)c->copy->whole,
                                "doubt_bytes", print_json_number(c->copy->doubt_bytes)));
        }
        (void)json_array_append_new(copies, copy);
    }
    return json_pack("{s:b, s:I, s:I, s:o, s:o}", "done", (int)done, "group", (json_int_t)group,
                     "server", (json_int_t)server, "unwell_ms", print_json_number(reply->unwell_ms),
                     "copies", copies);
}

/* ---- The command ---- */

/* Somebody types the number of the server. */
static bool is_confirmed(uint32_t server)
{
    char line[PRINT_TEXT_MAX] = "", wanted[PRINT_TEXT_MAX];

    (void)printf("Type the number of that server to do it, anything else to leave it: ");
    (void)fflush(stdout);
    (void)snprintf(wanted, sizeof(wanted), "%" PRIu32, server);
    if (fgets(line, sizeof(line), stdin) == NULL) {
        line[0] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, wanted) == 0;
}

static int force(const struct admin_arguments *arguments, uint32_t group, uint32_t server,
                 uint64_t version)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    int code;

    request.what = RECOVER_FORCE;
    request.group = group;
    request.server = server;
    request.version = version;
    code = admin_recover(arguments, &request, &reply);
    if (reply == NULL) {
        return code;
    }
    if (!arguments->settings.json) {
        (void)printf("the copy of group %" PRIu32 " on server %" PRIu32
                     " counts from now on; `morsel status` says so until all copies are complete\n",
                     group, server);
    } else if (!print_json(look_json(reply, group, server, true))) {
        code = ADMIN_PROBLEM;
    }
    morsel__recover_reply__free_unpacked(reply, NULL);
    return code;
}

int recover_force(const struct admin_arguments *arguments)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    const struct admin_settings *settings = &arguments->settings;
    Morsel__RecoverReply *reply;
    uint64_t version;
    int code;

    if (arguments->operands_count != 3) {
        return admin_failed(ADMIN_USAGE,
                            "recover force needs the group, and the server whose copy is to count");
    }
    request.what = RECOVER_FORCE;
    if ((request.group = admin_group_number(arguments->operands[1])) == 0 ||
        (request.server = admin_server_number(arguments->operands[2])) == 0) {
        return ADMIN_USAGE;
    }
    code = admin_recover(arguments, &request, &reply);
    if (reply == NULL) {
        return code;
    }
    version = reply->version;
    if (!settings->json) {
        print_look(reply, request.group, request.server);
    } else if (!settings->yes) {
        (void)print_json(look_json(reply, request.group, request.server, false));
    }
    morsel__recover_reply__free_unpacked(reply, NULL);
    if (settings->yes || (!settings->json && is_confirmed(request.server))) {
        return force(arguments, request.group, request.server, version);
    }
    return admin_failed(ADMIN_PROBLEM, "nothing was changed%s",
                        settings->json ? ": --yes does it" : "");
}
