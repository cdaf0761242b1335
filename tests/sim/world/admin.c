/* Somebody asks for the health of the cluster all the time, and checks it as `morsel fsck` does:
 * the manager's records against themselves, and the objects of each server against them. What is
 * made and deleted meanwhile is no false alarm. An object that belongs to no file may be left where
 * a machine has lost its power, with a file that nobody had synced or with the deletion of one: there
 * it is given to be collected. */
#include "common.pb-c.h"
#include "common/base/status.h"
#include "common/fs/placing.h"
#include "data.pb-c.h"
#include "meta.pb-c.h"
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <stdlib.h>

enum { OBJECTS_PAGE = 50, ADMIN_SILENT_MS_MAX = 3000 };

struct check
{
    struct history *history;
    char manager[64];
    op_sequence sequence;
    unsigned mended;
    bool last;         /* Everything is there, and nobody changes anything; */
    uint64_t until_ns; /* then all is answered by this time. */
};

static int ask(struct check *c, const char *address, enum message_type type,
               const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
               void **reply)
{
    int rv;

    /* A connection of before may be gone without a word, which takes longer to notice than a call. */
    do {
        rv = host_admin_call(c->history->admin, address, type, request, reply_type, reply);
    } while (c->last && (rv == MORSEL_UNREACHABLE || rv == MORSEL_TIMEDOUT) &&
             c->history->world->now_ns < c->until_ns);
    c->history->counts.admin_calls += rv == 0;
    if (rv != 0 && rv != MORSEL_NOT_HERE && c->last) {
        world_fail("request %u to %s says \"%s\" in the end", (unsigned)type, address,
                   status_words(rv));
    }
    return rv;
}

static void drop(void *reply)
{
    if (reply != NULL) {
        protobuf_c_message_free_unpacked(reply, NULL);
    }
}

/* ---- The manager's records ---- */

static int check_page(struct check *c, uint8_t *cursor, size_t *size)
{
    Morsel__FsckRequest request = MORSEL__FSCK_REQUEST__INIT;
    void *reply;
    Morsel__FsckReply *page;
    int rv;

    request.cursor = (ProtobufCBinaryData){ *size, cursor };
    rv = ask(c, c->manager, MSG_FSCK, &request.base, &morsel__fsck_reply__descriptor, &reply);
    page = reply;
    *size = 0;
    if (rv == 0 && page->n_problems > 0) {
        world_fail("fsck: %s", page->problems[0]);
    }
    if (rv == 0 && page->cursor.len > 0 && page->cursor.len <= 64) {
        memcpy(cursor, page->cursor.data, page->cursor.len);
        *size = page->cursor.len;
    }
    drop(reply);
    return rv;
}

static int check_records(struct check *c)
{
    uint8_t cursor[64];
    size_t size = 0;
    int rv;

    do {
        rv = check_page(c, cursor, &size);
    } while (rv == 0 && size > 0);
    c->history->counts.checks += rv == 0;
    return rv;
}

/* ---- Objects ---- */

static int still_exists(struct check *c, const char *address, uint64_t inode, uint32_t column,
                        bool *exists)
{
    Morsel__ObjectStatRequest request = MORSEL__OBJECT_STAT_REQUEST__INIT;
    Morsel__ObjectId object = MORSEL__OBJECT_ID__INIT;
    void *reply;
    int rv;

    object.inode = inode;
    object.column = column;
    request.object = &object;
    rv = ask(c, address, MSG_OBJECT_STAT, &request.base, &morsel__object_stat_reply__descriptor,
             &reply);
    if (rv == MORSEL_NOT_HERE && placing_group(column) != 0) {
        *exists = false; /* Who orders in its group answers for it. */
        return 0;
    }
    *exists = rv == 0 && ((Morsel__ObjectStatReply *)reply)->exists;
    drop(reply);
    return rv;
}

/* Of what the manager does not know: is it there still? Where a mount has lost a lease before it could say how far its file has
 * bytes, the manager knows of no object that it would have to delete with the file. */
static int confirm(struct check *c, const char *address, Morsel__FsckObjects *orphans)
{
    size_t kept = 0;
    void *reply = NULL;
    int rv = 0;

    for (size_t i = 0; rv == 0 && i < orphans->n_inode; i++) {
        bool exists;

        rv = still_exists(c, address, orphans->inode[i], orphans->column[i], &exists);
        if (exists && c->history->counts.losses == 0 && !c->history->size_lost) {
            world_fail("fsck: object %llx.%u of %s belongs to no file",
                       (unsigned long long)orphans->inode[i], orphans->column[i], address);
        }
        if (exists) {
            orphans->inode[kept] = orphans->inode[i];
            orphans->column[kept++] = orphans->column[i];
        }
    }
    orphans->n_inode = orphans->n_column = kept;
    orphans->repair = true;
    if (rv == 0 && kept > 0) {
        rv = ask(c, c->manager, MSG_FSCK_OBJECTS, &orphans->base, &morsel__fsck_objects__descriptor,
                 &reply);
        c->mended += rv == 0;
        drop(reply);
    }
    return rv;
}

static int check_objects(struct check *c, const Morsel__Member *server,
                         const Morsel__ObjectListReply *page)
{
    Morsel__FsckObjects request = MORSEL__FSCK_OBJECTS__INIT, *orphans;
    uint64_t inodes[OBJECTS_PAGE];
    uint32_t columns[OBJECTS_PAGE];
    void *reply;
    int rv;

    for (size_t i = 0; i < page->n_objects && i < OBJECTS_PAGE; i++) {
        inodes[i] = page->objects[i]->inode;
        columns[i] = page->objects[i]->column;
    }
    request.server = server->id;
    request.inode = inodes;
    request.column = columns;
    request.n_inode = request.n_column = page->n_objects;
    rv = ask(c, c->manager, MSG_FSCK_OBJECTS, &request.base, &morsel__fsck_objects__descriptor,
             &reply);
    orphans = reply;
    if (rv == 0) {
        orphans->server = server->id;
        rv = confirm(c, server->address, orphans);
    }
    drop(reply);
    return rv;
}

static int check_server(struct check *c, const Morsel__Member *server)
{
    Morsel__ObjectListRequest request = MORSEL__OBJECT_LIST_REQUEST__INIT;
    uint8_t cursor[64];
    void *reply;
    int rv;

    request.count_max = OBJECTS_PAGE;
    do {
        Morsel__ObjectListReply *page;

        rv = ask(c, server->address, MSG_OBJECT_LIST, &request.base,
                 &morsel__object_list_reply__descriptor, &reply);
        page = reply;
        request.cursor = (ProtobufCBinaryData){ 0, cursor };
        if (rv == 0) {
            rv = page->n_objects == 0 ? 0 : check_objects(c, server, page);
            CHECK(page->cursor.len <= sizeof(cursor));
            for (; request.cursor.len < page->cursor.len; request.cursor.len++) {
                cursor[request.cursor.len] = page->cursor.data[request.cursor.len];
            }
        }
        drop(reply);
    } while (rv == 0 && request.cursor.len > 0);
    return rv;
}

static int check_servers(struct check *c)
{
    Morsel__MembersRequest request = MORSEL__MEMBERS_REQUEST__INIT;
    Morsel__MembersReply *members;
    void *reply;
    int rv =
        ask(c, c->manager, MSG_MEMBERS, &request.base, &morsel__members_reply__descriptor, &reply);

    members = reply;
    for (size_t i = 0; rv == 0 && i < members->n_members; i++) {
        if (members->members[i]->up) {
            rv = check_server(c, members->members[i]);
        } else {
            rv = MORSEL_UNREACHABLE;
        }
    }
    drop(reply);
    return rv;
}

/* ---- The program ---- */

static int ask_status(struct check *c)
{
    Morsel__Empty request = MORSEL__EMPTY__INIT;
    void *reply;
    int rv =
        ask(c, c->manager, MSG_STATUS, &request.base, &morsel__status_reply__descriptor, &reply);

    drop(reply);
    return rv;
}

static int ask_statistics(struct check *c)
{
    Morsel__Empty request = MORSEL__EMPTY__INIT;
    char server[64];
    void *reply;
    int rv =
        ask(c, c->manager, MSG_STATISTICS, &request.base, &morsel__statistics__descriptor, &reply);

    drop(reply);
    host_address_of(c->history->iod_hosts[world_draw(c->history->iods_count)], IOD_PORT, server,
                    sizeof(server));
    rv = rv != 0 ? rv
                 : ask(c, server, MSG_STATISTICS, &request.base, &morsel__statistics__descriptor,
                       &reply);
    drop(reply);
    return rv;
}

/* Do all servers and the manager vote, and is nothing of it to change any more? No vote gets lost
 * here: what a voter says is on its disk. */
static bool all_vote(const Morsel__VotersStatus *voters, unsigned iods)
{
    if (voters->next != 0 || voters->n_voters != iods + 1) {
        return false;
    }
    for (size_t i = 0; i < voters->n_voters; i++) {
        if (voters->voters[i]->state != 0) {
            return false;
        }
    }
    return true;
}

static bool voters_are_complete(struct check *c)
{
    Morsel__Empty request = MORSEL__EMPTY__INIT;
    void *reply;
    bool complete = ask(c, c->manager, MSG_STATUS, &request.base, &morsel__status_reply__descriptor,
                        &reply) == 0 &&
                    all_vote(((Morsel__StatusReply *)reply)->voters, c->history->iods_count);

    drop(reply);
    return complete;
}

void admin_run(void *data)
{
    static int (*const kinds[])(struct check * c) = { ask_status, ask_statistics, check_records,
                                                      check_servers };
    struct program *p = data;
    struct check c = { .history = p->history };

    host_address_of(p->history->meta_host, META_PORT, c.manager, sizeof(c.manager));
    while (!p->history->ended) {
        (void)kinds[world_draw(sizeof(kinds) / sizeof(kinds[0]))](&c);
        fiber_sleep(world_draw(ADMIN_SILENT_MS_MAX * WORLD_MS));
    }
    p->history->programs_running--;
}

void admin_check(void *data)
{
    struct program *p = data;
    struct check c = { .history = p->history, .last = true };

    c.until_ns = p->history->world->now_ns + HISTORY_CALL_S * WORLD_S;
    host_address_of(p->history->meta_host, META_PORT, c.manager, sizeof(c.manager));
    (void)check_records(&c);
    while (check_servers(&c) != 0) { /* One is down yet. */
        if (p->history->world->now_ns > c.until_ns) {
            world_fail("a server is down in the end");
        }
        fiber_sleep(100 * WORLD_MS);
    }
    (void)ask_statistics(&c);
    while (!voters_are_complete(&c)) {
        if (p->history->world->now_ns > c.until_ns) {
            world_fail("not all servers vote in the end");
        }
        fiber_sleep(100 * WORLD_MS);
    }
    p->history->programs_running--;
}
