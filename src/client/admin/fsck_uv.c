/* morsel fsck: metadata against itself, then the objects of each server against the metadata.
 *
 * The manager checks a page of its records at each MSG_FSCK. Then each server that is up lists its
 * objects, a page at a time, and the manager names those that belong to no file. An object is
 * listed before its file is looked for, so a file that is made or deleted meanwhile is no false
 * alarm.
 */
#include "client/admin/print_file.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/status.h"

#include "data.pb-c.h"
#include "meta.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OBJECTS_PAGE = 4096, PROBLEMS_SHOWN = 1000, STEP_MS_MIN = 60000 };

struct fsck
{
    struct admin admin;
    bool repair;
    json_t *problems; /* NULL: printed as they come. */
    uint64_t records;
    uint64_t objects;
    uint64_t problems_count;
    uint64_t repaired;
    uint64_t orphans;
    uint64_t servers_checked;
    uint64_t servers_skipped;
    struct errmsg err;
};

static void add_problem(struct fsck *f, const char *text)
{
    f->problems_count++;
    if (f->problems_count > PROBLEMS_SHOWN) {
        return;
    }
    if (f->problems != NULL) {
        (void)json_array_append_new(f->problems, json_string(text));
    } else {
        (void)printf("%s\n", text);
    }
}

/* ---- The metadata ---- */

/* One step; `cursor` is replaced by the next. */
static int check_records_step(struct fsck *f, ProtobufCBinaryData *cursor)
{
    Morsel__FsckRequest request = MORSEL__FSCK_REQUEST__INIT;
    Morsel__OpId op = MORSEL__OP_ID__INIT;
    Morsel__FsckReply *reply;
    void *unpacked;
    int rv;

    op.client = f->admin.id;
    op.answered = f->admin.sequence;
    op.sequence = ++f->admin.sequence;
    request.cursor = *cursor;
    request.repair = f->repair;
    request.op = f->repair ? &op : NULL;
    rv = admin_call(&f->admin, f->admin.manager, MSG_FSCK, &request.base,
                    &morsel__fsck_reply__descriptor, &unpacked, &f->err);
    free(cursor->data);
    *cursor = (ProtobufCBinaryData){ 0, NULL };
    if (rv != 0) {
        return rv;
    }
    reply = unpacked;
    f->records += reply->checked;
    f->repaired += reply->repaired;
    for (size_t i = 0; i < reply->n_problems; i++) {
        add_problem(f, reply->problems[i]);
    }
    *cursor = reply->cursor; /* Its memory changes hands. */
    reply->cursor = (ProtobufCBinaryData){ 0, NULL };
    morsel__fsck_reply__free_unpacked(reply, NULL);
    return 0;
}

static int check_records(struct fsck *f)
{
    ProtobufCBinaryData cursor = { 0, NULL };
    int rv;

    do {
        rv = check_records_step(f, &cursor);
    } while (rv == 0 && cursor.len > 0);
    free(cursor.data);
    return rv;
}

/* ---- The objects ---- */

static void report_orphan(struct fsck *f, server_id server, uint64_t inode, uint32_t column)
{
    char text[160];

    (void)snprintf(text, sizeof(text),
                   "server %" PRIu32 ": object %016" PRIx64 ".%" PRIu32 " belongs to no file%s",
                   server, inode, column, f->repair ? "; will be collected" : "");
    f->orphans++;
    f->repaired += f->repair;
    add_problem(f, text);
}

/* A page of the server's objects. */
static int list_page(struct fsck *f, struct rpc_peer *peer, ProtobufCBinaryData cursor,
                     Morsel__ObjectListReply **page_out)
{
    Morsel__ObjectListRequest request = MORSEL__OBJECT_LIST_REQUEST__INIT;
    void *unpacked = NULL;
    int rv;

    request.cursor = cursor;
    request.count_max = OBJECTS_PAGE;
    rv = admin_call(&f->admin, peer, MSG_OBJECT_LIST, &request.base,
                    &morsel__object_list_reply__descriptor, &unpacked, &f->err);
    *page_out = unpacked;
    return rv;
}

static bool is_listed(const Morsel__ObjectListReply *page, uint64_t inode, uint32_t column)
{
    for (size_t i = 0; i < page->n_objects; i++) {
        if (page->objects[i]->inode == inode && page->objects[i]->column == column) {
            return true;
        }
    }
    return false;
}

/* Ask the manager which of the objects in `request` belong to no file, or with request->repair to
 * have them collected. */
static int ask_objects(struct fsck *f, const Morsel__FsckObjects *request,
                       Morsel__FsckObjects **orphans_out)
{
    void *unpacked = NULL;
    int rv = admin_call(&f->admin, f->admin.manager, MSG_FSCK_OBJECTS, &request->base,
                        &morsel__fsck_objects__descriptor, &unpacked, &f->err);

    *orphans_out = unpacked;
    return rv;
}

/* Report those of `orphans` that are still listed in `again`, and have them collected if that is wanted. The
 * lists are shortened to them. */
static int confirm_orphans(struct fsck *f, const Morsel__ObjectListReply *again,
                           Morsel__FsckObjects *orphans)
{
    size_t suspects = orphans->n_inode < orphans->n_column ? orphans->n_inode : orphans->n_column;
    Morsel__FsckObjects *ignored = NULL;
    size_t kept = 0;
    int rv = 0;

    for (size_t i = 0; i < suspects; i++) {
        if (is_listed(again, orphans->inode[i], orphans->column[i])) {
            report_orphan(f, orphans->server, orphans->inode[i], orphans->column[i]);
            orphans->inode[kept] = orphans->inode[i];
            orphans->column[kept++] = orphans->column[i];
        }
    }
    orphans->n_inode = orphans->n_column = kept;
    orphans->repair = true;
    if (f->repair && kept > 0) {
        rv = ask_objects(f, orphans, &ignored);
    }
    if (ignored != NULL) {
        morsel__fsck_objects__free_unpacked(ignored, NULL);
    }
    return rv;
}

/* An object that belonged to a deleted file may have been collected between the server's list and
 * the manager's answer: only what is in the list once more is a problem. */
static int look_again(struct fsck *f, struct rpc_peer *peer, ProtobufCBinaryData cursor,
                      Morsel__FsckObjects *orphans)
{
    Morsel__ObjectListReply *again;
    int rv = list_page(f, peer, cursor, &again);

    if (rv != 0) {
        return rv;
    }
    rv = confirm_orphans(f, again, orphans);
    morsel__object_list_reply__free_unpacked(again, NULL);
    return rv;
}

/* Those of the page that begins at `cursor`. */
static int check_objects(struct fsck *f, struct rpc_peer *peer, server_id server,
                         ProtobufCBinaryData cursor, const Morsel__ObjectListReply *page)
{
    Morsel__FsckObjects request = MORSEL__FSCK_OBJECTS__INIT;
    uint64_t *inodes = calloc(page->n_objects, sizeof(*inodes));
    uint32_t *columns = calloc(page->n_objects, sizeof(*columns));
    Morsel__FsckObjects *orphans = NULL;
    int rv = MORSEL_NOMEM;

    if (inodes == NULL || columns == NULL) {
        errmsg_set(&f->err, "%s", status_words(rv));
        goto out;
    }
    for (size_t i = 0; i < page->n_objects; i++) {
        inodes[i] = page->objects[i]->inode;
        columns[i] = page->objects[i]->column;
    }
    request.server = server;
    request.inode = inodes;
    request.column = columns;
    request.n_inode = page->n_objects;
    request.n_column = page->n_objects;
    rv = ask_objects(f, &request, &orphans);
    if (rv == 0 && orphans->n_inode > 0) {
        orphans->server = server;
        rv = look_again(f, peer, cursor, orphans);
    }
out:
    if (orphans != NULL) {
        morsel__fsck_objects__free_unpacked(orphans, NULL);
    }
    free(inodes);
    free(columns);
    return rv;
}

/* One page of the server's objects; `cursor` is replaced by the next. */
static int check_server_step(struct fsck *f, struct rpc_peer *peer, server_id server,
                             ProtobufCBinaryData *cursor)
{
    Morsel__ObjectListReply *page;
    int rv = list_page(f, peer, *cursor, &page);

    if (rv != 0) {
        return rv;
    }
    f->objects += page->n_objects;
    rv = page->n_objects == 0 ? 0 : check_objects(f, peer, server, *cursor, page);
    free(cursor->data);
    *cursor = page->cursor; /* Its memory changes hands. */
    page->cursor = (ProtobufCBinaryData){ 0, NULL };
    morsel__object_list_reply__free_unpacked(page, NULL);
    return rv;
}

static int check_server(struct fsck *f, const Morsel__Member *member)
{
    ProtobufCBinaryData cursor = { 0, NULL };
    struct rpc_peer *peer;
    int rv = admin_peer(&f->admin, member->address, &peer, &f->err);

    if (rv != 0) {
        return rv;
    }
    do {
        rv = check_server_step(f, peer, member->id, &cursor);
    } while (rv == 0 && cursor.len > 0);
    free(cursor.data);
    f->servers_checked += rv == 0;
    return rv;
}

static int check_servers(struct fsck *f, const Morsel__MembersReply *members)
{
    for (size_t i = 0; i < members->n_members; i++) {
        const Morsel__Member *member = members->members[i];
        char text[160];

        if (member->up) {
            int rv = check_server(f, member);

            if (rv != 0) {
                return rv;
            }
            continue;
        }
        (void)snprintf(text, sizeof(text),
                       "server %" PRIu32 " (%.80s) is down; its objects were not checked",
                       member->id, member->address);
        f->servers_skipped++;
        add_problem(f, text);
    }
    return 0;
}

/* The members come first: that tells quickly whether the manager is there. A page of records may
 * take it longer than an interactive command should wait. */
static int check_all(struct fsck *f)
{
    Morsel__MembersRequest request = MORSEL__MEMBERS_REQUEST__INIT;
    void *members;
    int rv = admin_call(&f->admin, f->admin.manager, MSG_MEMBERS, &request.base,
                        &morsel__members_reply__descriptor, &members, &f->err);

    if (rv != 0) {
        return rv;
    }
    if (f->admin.timeout_ms < STEP_MS_MIN) {
        f->admin.timeout_ms = STEP_MS_MIN;
    }
    rv = check_records(f);
    if (rv == 0) {
        rv = check_servers(f, members);
    }
    morsel__members_reply__free_unpacked(members, NULL);
    return rv;
}

/* ---- The result ---- */

static int verdict(const struct fsck *f)
{
    if (f->problems_count == 0) {
        return ADMIN_OK;
    }
    return f->repair && f->repaired >= f->problems_count ? ADMIN_REPAIRED : ADMIN_PROBLEM;
}

static const char *verdict_words(const struct fsck *f)
{
    switch (verdict(f)) {
    case ADMIN_OK:
        return "clean";
    case ADMIN_REPAIRED:
        return "repaired";
    default:
        return "problems";
    }
}

static bool print_result(struct fsck *f)
{
    json_t *problems = f->problems;

    if (problems == NULL) {
        if (f->problems_count > PROBLEMS_SHOWN) {
            (void)printf("... and %" PRIu64 " more\n", f->problems_count - PROBLEMS_SHOWN);
        }
        (void)printf("fsck: %s: %" PRIu64 " records and %" PRIu64 " objects on %" PRIu64
                     " servers checked, %" PRIu64 " problems, %" PRIu64 " repaired\n",
                     verdict_words(f), f->records, f->objects, f->servers_checked,
                     f->problems_count, f->repaired);
        return true;
    }
    f->problems = NULL;
    return print_json(json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "result", verdict_words(f), "records",
        print_json_number(f->records), "objects", print_json_number(f->objects), "servers_checked",
        print_json_number(f->servers_checked), "servers_skipped",
        print_json_number(f->servers_skipped), "problems_count",
        print_json_number(f->problems_count), "orphans", print_json_number(f->orphans), "repaired",
        print_json_number(f->repaired), "problems", problems));
}

int command_fsck(const struct admin_arguments *arguments)
{
    struct fsck f = { .repair = arguments->settings.repair };
    int code = admin_open_manager(&f.admin, &arguments->settings);
    int rv;

    if (code != ADMIN_OK) {
        return code;
    }
    f.problems = arguments->settings.json ? json_array() : NULL;
    rv = check_all(&f);
    admin_close(&f.admin);
    if (rv != 0) {
        json_decref(f.problems);
        return admin_failed(admin_exit_code(rv), "check stopped: %s", f.err.text);
    }
    return print_result(&f) ? verdict(&f) : ADMIN_PROBLEM;
}
