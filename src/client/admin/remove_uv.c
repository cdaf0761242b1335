/* morsel iod remove: a storage server that is gone for good. What only it had is looked for first. */
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/status.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- What is said ---- */

static void print_holding(const Morsel__RecoverReply *reply)
{
    char bytes[PRINT_TEXT_MAX];

    if (reply->files_holding > 0) {
        (void)printf("files with one copy of which a part lies there and nowhere else: %" PRIu64
                     " (%s, holes among it); inode",
                     reply->files_holding, print_bytes(reply->bytes_holding, bytes));
        for (size_t i = 0; i < reply->n_holding; i++) {
            (void)printf(" %" PRIu64, reply->holding[i]);
        }
        (void)printf("%s\n", reply->files_holding > reply->n_holding ? " ..." : "");
    }
    if (reply->files > reply->files_holding) {
        (void)printf(
            "files with one copy that have nothing there yet, and would write there when they "
            "grow: %" PRIu64 "\n",
            reply->files - reply->files_holding);
    }
}

static bool print_reply_json(const Morsel__RecoverReply *reply, uint32_t server)
{
    json_t *inodes = json_array();

    for (size_t i = 0; i < reply->n_holding; i++) {
        (void)json_array_append_new(inodes, print_json_number(reply->holding[i]));
    }
    return print_json(json_pack("{s:I, s:b, s:o, s:o, s:o, s:o}", "server", (json_int_t)server,
                                "removed", (int)reply->done, "files",
                                print_json_number(reply->files), "files_holding",
                                print_json_number(reply->files_holding), "bytes_holding",
                                print_json_number(reply->bytes_holding), "inodes", inodes));
}

static int say(const struct admin_arguments *arguments, uint32_t server,
               const Morsel__RecoverReply *reply)
{
    if (!arguments->settings.json) {
        print_holding(reply);
    } else if (!print_reply_json(reply, server)) {
        return ADMIN_PROBLEM;
    }
    if (!reply->done) {
        return admin_failed(
            ADMIN_PROBLEM,
            "server %" PRIu32
            " was not removed: files need it. Bring it back, drain it (`morsel iod "
            "drain`) and move them (`morsel recopy MOUNTPOINT`); or delete them (find "
            "MOUNTPOINT -inum INODE); or --lost gives up what is there: reading or "
            "writing these parts "
            "fails with EIO then, for ever",
            server);
    }
    if (!arguments->settings.json) {
        (void)printf("server %" PRIu32
                     " is removed; `morsel status` shows the voters without it soon. "
                     "Its data directory is never let in again\n",
                     server);
    }
    return ADMIN_OK;
}

/* ---- The command ---- */

/* One request after the other, until there is nothing more to be looked at; the last reply is to be freed. */
static int walk(struct admin *admin, Morsel__RecoverRequest *request,
                Morsel__RecoverReply **reply_out, struct errmsg *err)
{
    void *unpacked;
    int rv;

    *reply_out = NULL;
    do {
        if (*reply_out != NULL) {
            morsel__recover_reply__free_unpacked(*reply_out, NULL);
        }
        rv = admin_call(admin, admin->manager, MSG_RECOVER, &request->base,
                        &morsel__recover_reply__descriptor, &unpacked, err);
        *reply_out = unpacked;
        request->look = rv == 0 ? (*reply_out)->look : 0;
    } while (request->look != 0);
    return rv;
}

int iod_remove(const struct admin_arguments *arguments)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    struct admin admin;
    struct errmsg err;
    int code, rv;

    if (arguments->operands_count != 2) {
        return admin_failed(ADMIN_USAGE, "iod remove needs one storage server");
    }
    request.what = RECOVER_REMOVE;
    request.server = admin_server_number(arguments->operands[1]);
    request.lost = arguments->settings.lost;
    if (request.server == 0) {
        return ADMIN_USAGE;
    }
    code = admin_open_manager(&admin, &arguments->settings);
    if (code != ADMIN_OK) {
        return code;
    }
    rv = walk(&admin, &request, &reply, &err);
    admin_close(&admin);
    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "%s", err.text);
    }
    code = say(arguments, request.server, reply);
    morsel__recover_reply__free_unpacked(reply, NULL);
    return code;
}
