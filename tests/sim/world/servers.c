/* An administrator sees to the storage servers, while programs use what lies there: has copies compared, moves them
 * for even disks, has servers leave their groups and stay after all, and asks for what must be refused. Nobody may
 * notice any of it, and what is kept is kept on other servers then. */
#include "common/base/status.h"
#include "data.pb-c.h"
#include "meta.pb-c.h"
#include "tests/sim/world/fiber.h"
#include "tests/sim/world/programs.h"

#include <string.h>

enum {
    REST_MS_MAX = 1500,
    ADMIN_GROUPS_MAX = 64,
    OBJECTS_MAX = 200,
    GIB_SHIFT = 30,
    GROUP_GIB_MAX = 12, /* As large is a group said to be; disks have 64. */
};

struct caretaker
{
    struct history *history;
    char manager[64];
    Morsel__StatusReply *status; /* As it was told last; NULL: not yet. */
    uint32_t leaving;            /* Is to leave, perhaps; 0: nobody is. */
    bool paused;                 /* Perhaps. */
    uint64_t run,
        counted; /* Of the comparisons the one that was asked for last, and seen to its end. */
};

/* ---- What is asked ---- */

static int ask(struct caretaker *k, const char *address, enum message_type type,
               const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply_type,
               void **reply)
{
    int rv = host_admin_call(k->history->admin, address, type, request, reply_type, reply);

    k->history->counts.admin_calls += rv == 0;
    return rv;
}

static void drop(void *reply)
{
    if (reply != NULL) {
        protobuf_c_message_free_unpacked(reply, NULL);
    }
}

static int ask_recover(struct caretaker *k, const Morsel__RecoverRequest *request,
                       Morsel__RecoverReply **reply)
{
    void *unpacked;
    int rv = ask(k, k->manager, MSG_RECOVER, &request->base, &morsel__recover_reply__descriptor,
                 &unpacked);

    world_trace("servers", "recover %u of server %u, group %u: %s", request->what, request->server,
                request->group, status_words(rv));
    k->history->counts.recover_refused += rv == MORSEL_INVAL || rv == MORSEL_STALE;
    *reply = unpacked;
    return rv;
}

/* About one server; 0: about none. */
static int ask_about(struct caretaker *k, enum recover_what what, uint32_t server, uint32_t to)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    int rv;

    request.what = what;
    request.server = server;
    request.to = to;
    rv = ask_recover(k, &request, &reply);
    drop(reply);
    return rv;
}

/* True: it is told. */
static bool look(struct caretaker *k)
{
    Morsel__StatusRequest request = MORSEL__STATUS_REQUEST__INIT;
    void *reply;
    int rv =
        ask(k, k->manager, MSG_STATUS, &request.base, &morsel__status_reply__descriptor, &reply);

    if (rv == 0) {
        drop(k->status);
        k->status = reply;
    }
    return rv == 0 && k->status->n_members > 0;
}

static const Morsel__Member *any_server(const struct caretaker *k)
{
    return k->status->members[world_draw(k->status->n_members)];
}

/* 0: there is none yet. */
static uint32_t any_group(const struct caretaker *k)
{
    return k->status->n_groups == 0
               ? 0
               : k->status->groups[world_draw(k->status->n_groups)]->group->number;
}

/* ---- Copies are compared ---- */

static void compare(struct caretaker *k)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;

    request.what = RECOVER_VERIFY;
    request.group = world_chance(3) ? any_group(k) : 0;
    if (ask_recover(k, &request, &reply) == 0) {
        k->run = reply->run;
    }
    drop(reply);
}

/* Nobody has changed a copy behind the servers' backs, so they differ nowhere. */
static void judge_compared(struct caretaker *k)
{
    size_t groups = 0, done = 0;

    for (size_t i = 0; i < k->status->n_groups; i++) {
        const Morsel__VerifyState *v = k->status->groups[i]->verify;

        if (v == NULL) {
            continue;
        }
        if (v->differing + v->damaged + v->broken > 0 && !k->history->world->bytes_refused) {
            world_fail("verify: group %u has %llu blocks that differ, %llu damaged, and %llu that "
                       "cannot be repaired",
                       k->status->groups[i]->group->number, (unsigned long long)v->differing,
                       (unsigned long long)v->damaged, (unsigned long long)v->broken);
        }
        groups += v->run == k->run;
        done += v->run == k->run && v->done;
        if (v->run == k->run && v->done && k->counted != k->run) {
            k->history->counts.compared += v->objects;
        }
    }
    if (groups > 0 && done == groups) {
        k->counted = k->run;
    }
}

/* ---- Space is evened out ---- */

/* What the objects of a server take, as the command measures it; it adds up no more than we do. */
static int measure(struct caretaker *k, const Morsel__Member *server)
{
    Morsel__ObjectListRequest request = MORSEL__OBJECT_LIST_REQUEST__INIT;
    Morsel__ObjectListReply *page;
    void *reply;
    int rv;

    request.count_max = OBJECTS_MAX;
    request.with_bytes = true;
    rv = ask(k, server->address, MSG_OBJECT_LIST, &request.base,
             &morsel__object_list_reply__descriptor, &reply);
    page = reply;
    if (rv == 0 && page->n_bytes != page->n_objects) {
        world_fail("%s tells what %zu of %zu objects take", server->address, page->n_bytes,
                   page->n_objects);
    }
    drop(reply);
    return rv;
}

static void carry_out(struct caretaker *k, uint64_t look)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;

    request.what = RECOVER_REBALANCE;
    request.look = look;
    k->history->moved_ns = k->history->world->now_ns;
    if (ask_recover(k, &request, &reply) == 0) {
        k->history->counts.moves += reply->n_moves;
    }
    drop(reply);
}

/* Our groups take a few MiB, of disks that are large: sizes are said to be what makes a difference there. */
static void even_out(struct caretaker *k)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;
    uint32_t groups[ADMIN_GROUPS_MAX];
    uint64_t sizes[ADMIN_GROUPS_MAX];

    (void)measure(k, any_server(k));
    request.what = RECOVER_REBALANCE;
    request.sized_groups = groups;
    request.sizes = sizes;
    for (size_t i = 0; i < k->status->n_groups && i < ADMIN_GROUPS_MAX; i++) {
        groups[i] = k->status->groups[i]->group->number;
        sizes[i] = (1 + world_draw(GROUP_GIB_MAX)) << GIB_SHIFT;
        request.n_sized_groups = request.n_sizes = i + 1;
    }
    if (ask_recover(k, &request, &reply) == 0 && reply->look != 0) {
        carry_out(k, reply->look);
    }
    drop(reply);
    if (world_chance(3)) {
        fiber_sleep(world_draw(100 * WORLD_MS));
        (void)ask_about(k, RECOVER_REBALANCE_STOP, 0, 0);
    }
}

/* ---- Servers leave their groups ---- */

/* Where there is a server more than there are copies, or files have one. */
static void drain(struct caretaker *k)
{
    const Morsel__Member *server = any_server(k), *to = any_server(k);
    struct history *h = k->history;
    int rv;

    if (k->leaving != 0 || h->iods_count <= h->copies) {
        return;
    }
    h->moved_ns = h->world->now_ns;
    k->leaving = server->id;
    rv = ask_about(k, RECOVER_LEAVE, server->id, world_chance(2) ? to->id : 0);
    h->counts.drains += rv == 0;
    if (rv == MORSEL_INVAL) {
        k->leaving = 0; /* It was refused. */
    }
}

static void stay(struct caretaker *k)
{
    int rv;

    if (k->leaving == 0) {
        (void)ask_about(k, RECOVER_STAY, any_server(k)->id, 0);
        return;
    }
    k->history->moved_ns = k->history->world->now_ns;
    rv = ask_about(k, RECOVER_STAY, k->leaving, 0);
    if (rv == 0 || rv == MORSEL_INVAL) {
        k->leaving = 0;
    }
}

static void pause_or_start(struct caretaker *k)
{
    int rv = ask_about(k, k->paused ? RECOVER_START : RECOVER_PAUSE, 0, 0);

    k->paused = !(k->paused && rv == 0);
}

/* ---- What is refused ---- */

/* What would be lost is shown. It is not done: it would be lost. */
static void look_at_force(struct caretaker *k)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    Morsel__RecoverReply *reply;

    request.what = RECOVER_FORCE;
    request.group = any_group(k);
    request.server = any_server(k)->id;
    if (ask_recover(k, &request, &reply) == 0 && reply->n_copies == 0) {
        world_fail("recover force of group %u shows no copy", request.group);
    }
    drop(reply);
}

/* A server that has groups, or files that lie nowhere else, is not removed. */
static void remove_one(struct caretaker *k)
{
    Morsel__RecoverRequest request = MORSEL__RECOVER_REQUEST__INIT;
    const Morsel__Member *server = any_server(k);
    Morsel__RecoverReply *reply;
    int rv;

    if (k->history->copies > 1 && (server->places == 0 || server->leaves)) {
        return;
    }
    request.what = RECOVER_REMOVE;
    request.server = server->id;
    do {
        rv = ask_recover(k, &request, &reply);
        if (rv == 0 && reply->done) {
            world_fail("server %u is removed, and files need it", server->id);
        }
        request.look = rv == 0 ? reply->look : 0;
        k->history->counts.removals += rv == 0 && reply->files > 0;
        drop(reply);
    } while (request.look != 0);
}

static void admit(struct caretaker *k)
{
    (void)ask_about(k, RECOVER_ADMIT, any_server(k)->id, 0);
}

/* ---- The program ---- */

/* Nobody is to leave in the end. */
static void leave_it(struct caretaker *k)
{
    uint64_t until_ns = k->history->world->now_ns + HISTORY_CALL_S * WORLD_S;

    while ((k->leaving != 0 || k->paused) && k->history->world->now_ns < until_ns) {
        if (k->leaving != 0) {
            stay(k);
        }
        if (k->paused) {
            pause_or_start(k);
        }
        fiber_sleep(10 * WORLD_MS);
    }
    if (k->leaving != 0 || k->paused) {
        world_fail("server %u is still to leave in the end", k->leaving);
    }
    drop(k->status);
}

void servers_run(void *data)
{
    static void (*const acts[])(struct caretaker * k) = { compare,       compare,    even_out,
                                                          even_out,      drain,      drain,
                                                          stay,          stay,       pause_or_start,
                                                          look_at_force, remove_one, admit };
    struct program *p = data;
    struct caretaker k = { .history = p->history };

    host_address_of(p->history->meta_host, META_PORT, k.manager, sizeof(k.manager));
    while (!p->history->ended) {
        if (look(&k)) {
            judge_compared(&k);
            acts[world_draw(sizeof(acts) / sizeof(acts[0]))](&k);
        }
        fiber_sleep(world_draw(REST_MS_MAX * WORLD_MS));
    }
    leave_it(&k);
    p->history->programs_running--;
}
