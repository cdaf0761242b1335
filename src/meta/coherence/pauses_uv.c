/* Requests that begin a pause, and those that wait for the end of one (pauses_uv.h). */
#include "meta/coherence/pauses_uv.h"

#include "common/base/status.h"
#include "common/fs/mode.h"
#include "common/fs/permission.h"
#include "common/rpc/address.h"
#include "meta/coherence/leases_uv.h"
#include "meta/service/handlers_uv.h"
#include "meta/service/identify_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A request that waits: until all hold still, or until they need not any more. */
struct pausing_request
{
    struct list node; /* In meta.pausing. */
    inode_id inode;
    uint64_t number; /* Of the pause. */
    bool asks;       /* PAUSE; else PAUSED. */
    struct rpc_request *request;
};

enum { WRITERS_MAX = PAUSE_MEMBERS_MAX + 1 /* And who asks. */ };

/* ---- Who holds still ---- */

static bool is_whole(const struct meta *meta, const struct pause *pause)
{
    client_id writers[WRITERS_MAX];
    uint32_t count = session_writers(meta->sessions, pause->inode, writers, WRITERS_MAX);

    return count <= WRITERS_MAX && pause_is_whole(pause, writers, count);
}

bool pauses_others_write(struct meta *meta, inode_id inode, client_id client)
{
    struct pause *pause = pauses_find(&meta->pauses, inode);
    bool others_open = false, others_write = false;

    session_open_elsewhere(meta->sessions, inode, client, &others_open, &others_write);
    return others_write && (pause == NULL || pause->owner != client || !is_whole(meta, pause));
}

void pauses_over(struct meta *meta, inode_id inode)
{
    struct pause *pause = pauses_find(&meta->pauses, inode);

    if (pause != NULL) {
        pauses_end(&meta->pauses, pause);
    }
}

void pauses_opened(struct meta *meta, const struct session_event *event)
{
    for (size_t i = 0; meta->pauses.count > 0 && i < event->write_inodes_count; i++) {
        pauses_note_opened(&meta->pauses, event->write_inodes[i], event->client);
    }
}

/* ---- Waiting ---- */

static int park(struct meta *meta, struct rpc_request *request, const struct pause *pause,
                bool asks)
{
    struct pausing_request *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return MORSEL_NOMEM;
    }
    w->inode = pause->inode;
    w->number = pause->number;
    w->asks = asks;
    w->request = request;
    list_init(&w->node);
    list_push_back(&meta->pausing, &w->node);
    return MORSEL_OK;
}

static struct rpc_request *take(struct pausing_request *w)
{
    struct rpc_request *request = w->request;

    list_remove(&w->node);
    free(w);
    return request;
}

/* Whom it waited for in vain. */
static void log_late(struct meta *meta, const struct pause *pause)
{
    for (uint32_t i = 0; i < pause->count && !pause->held; i++) {
        char address[ADDRESS_TEXT_MAX];

        if (pause->members[i].paused) {
            continue;
        }
        if (!rpc_node_address(meta->server, ROLE_CLIENT, pause->members[i].client, address)) {
            (void)snprintf(address, sizeof(address), "client %016" PRIx64 ", which is away",
                           pause->members[i].client);
        }
        log_info(meta->log,
                 "inode %" PRIu64
                 " is not moved: the mount at %s has it open for writing and did not hold it "
                 "still within %u ms; is one of its storage servers slow?",
                 pause->inode, address, (unsigned)PAUSE_GATHER_MS);
    }
}

static void end_what_is_over(struct meta *meta)
{
    uint64_t now_ms = meta_now_ms(meta);

    for (unsigned i = 0; meta->pauses.count > 0 && i < PAUSES_MAX; i++) {
        struct pause *pause = &meta->pauses.items[i];

        if (pause->inode != INODE_NONE &&
            (pause_is_late(pause, now_ms) || (pause->held && !is_whole(meta, pause)) ||
             !session_has_open(meta->sessions, pause->inode, pause->owner, false))) {
            if (pause_is_late(pause, now_ms)) {
                log_late(meta, pause);
            }
            pauses_end(&meta->pauses, pause);
        }
    }
}

/* One that need not wait any more. NULL: none. */
static struct pausing_request *next_due(struct meta *meta, bool *refused)
{
    LIST_FOREACH(node, &meta->pausing)
    {
        struct pausing_request *w = LIST_ENTRY(node, struct pausing_request, node);
        const struct pause *pause = pauses_numbered(&meta->pauses, w->inode, w->number);

        *refused = pause == NULL && w->asks;
        if (pause == NULL || (w->asks && is_whole(meta, pause))) {
            return w;
        }
    }
    return NULL;
}

void pauses_look(struct meta *meta)
{
    struct pausing_request *w;
    bool refused = false;

    if (meta->pauses.count == 0 && list_empty(&meta->pausing)) {
        return;
    }
    end_what_is_over(meta);
    while ((w = next_due(meta, &refused)) != NULL) {
        struct rpc_request *request = take(w);

        if (refused) {
            rpc_reply_failure(request, MORSEL_BUSY, "another mount goes on writing to the file");
        } else {
            meta_dispatch(meta, request);
        }
    }
}

/* ---- PAUSE ---- */

static int may_pause(struct request *r)
{
    const Morsel__PauseRequest *m = r->message;
    struct credentials who = identify(r->meta, r->rpc, m->who);
    struct inode inode;
    int rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    if (!mode_is_regular(inode.mode) ||
        !session_has_open(r->meta->sessions, m->inode, r->rpc->node_id, false)) {
        errmsg_set(&r->err, "a file is held still for who has it open");
        return MORSEL_INVAL;
    }
    return who.uid == UID_ROOT || who.uid == inode.uid ? 0 : MORSEL_PERM;
}

/* All are told at once: a mount that must be waited for in vain costs the others the more. */
static int begin(struct request *r, struct pause **pause_out)
{
    const Morsel__PauseRequest *m = r->message;
    Morsel__PauseNotice notice = MORSEL__PAUSE_NOTICE__INIT;
    struct meta *meta = r->meta;
    client_id writers[WRITERS_MAX];
    uint32_t count = session_writers(meta->sessions, m->inode, writers, WRITERS_MAX);
    struct pause *pause;

    for (uint32_t i = 0; i < count && i < WRITERS_MAX; i++) {
        if (writers[i] != r->rpc->node_id && !session_pauses(meta->sessions, writers[i])) {
            errmsg_set(&r->err, "a mount that is away, or of an older version, has it open");
            return MORSEL_BUSY;
        }
    }
    pause = count > WRITERS_MAX ? NULL
                                : pauses_begin(&meta->pauses, meta_now_ms(meta), m->inode,
                                               r->rpc->node_id, writers, count);
    if (pause == NULL) {
        errmsg_set(&r->err, "too many mounts write to it, or too many files are moved just now");
        return MORSEL_BUSY;
    }
    notice.inode = m->inode;
    notice.number = pause->number;
    for (uint32_t i = 0; i < pause->count; i++) {
        if (!rpc_push(meta->server, ROLE_CLIENT, pause->members[i].client, MSG_PAUSE,
                      &notice.base)) {
            pauses_end(&meta->pauses, pause);
            errmsg_set(&r->err, "a mount that is away has it open");
            return MORSEL_BUSY;
        }
    }
    *pause_out = pause;
    return MORSEL_OK;
}

/* Nobody changes the file, so who asks may hold a lease on it. */
static int reply_held(struct request *r, struct pause *pause)
{
    const Morsel__PauseRequest *m = r->message;
    struct node_reply reply;
    struct inode inode;
    int rv = ns_inode(r->meta->ns, m->inode, &inode, &r->err);

    if (rv != 0) {
        return rv;
    }
    pause_hold(pause, meta_now_ms(r->meta));
    node_fill(r->meta, &reply, &inode, true, leases_grant_held(r->meta, r->rpc, m->inode));
    rpc_reply(r->rpc, &reply.node.base, NULL);
    return 0;
}

/* Two at one file: the first one's lease would be taken back for the second. */
static int may_pause_now(struct request *r)
{
    const Morsel__PauseRequest *m = r->message;
    const struct pause *pause = pauses_find(&r->meta->pauses, m->inode);
    int rv = may_pause(r);

    if (rv == 0 && pause != NULL && pause->owner != r->rpc->node_id) {
        errmsg_set(&r->err, "another mount is about to have that file moved");
        rv = MORSEL_BUSY;
    }
    return rv;
}

/* Who is to hold still could not give a lease back meanwhile; leases_grant() gives none either. */
int look_pause(struct request *r)
{
    const Morsel__PauseRequest *m = r->message;
    int rv = may_pause_now(r);

    if (rv == 0 && !m->over) {
        request_touch(r, m->inode, ACCESS_CHANGE);
    }
    return rv;
}

int serve_pause(struct request *r)
{
    const Morsel__PauseRequest *m = r->message;
    struct meta *meta = r->meta;
    struct pause *pause = pauses_find(&meta->pauses, m->inode);
    int rv;

    if ((rv = may_pause_now(r)) !=
        0) { /* Somebody may have begun one while leases were given back. */
        return rv;
    }
    if (m->over) {
        pauses_over(meta, m->inode);
        return reply_empty(r);
    }
    if (pause == NULL && (rv = begin(r, &pause)) != 0) {
        return rv;
    }
    return is_whole(meta, pause) ? reply_held(r, pause) : park(meta, r->rpc, pause, true);
}

/* ---- PAUSED ---- */

/* In which the client takes part. */
static struct pause *pause_of(struct request *r)
{
    const Morsel__PausedRequest *m = r->message;
    struct pause *pause = pauses_numbered(&r->meta->pauses, m->inode, m->number);

    return pause != NULL && pause_has_member(pause, r->rpc->node_id) ? pause : NULL;
}

/* Who goes on changes the file: before it does, nobody may hold a lease on it, and least of all who had it moved. */
int look_paused(struct request *r)
{
    const Morsel__PausedRequest *m = r->message;

    if (!m->refused && pause_of(r) == NULL) {
        request_touch(r, m->inode, ACCESS_CHANGE);
    }
    return 0;
}

static void answer_paused(void *data, struct rpc_request *request, uint64_t id)
{
    struct meta *meta = data;
    struct node_reply reply;
    struct errmsg err = { "" };
    struct inode inode;
    int rv = ns_inode(meta->ns, id, &inode, &err);

    if (rv != 0) {
        meta_not_answered(meta, request, rv, &err, answer_paused, id);
        return;
    }
    node_fill(meta, &reply, &inode, true, leases_held(meta, request, id));
    rpc_reply(request, &reply.node.base, NULL);
}

int serve_paused(struct request *r)
{
    const Morsel__PausedRequest *m = r->message;
    struct pause *pause = pause_of(r);

    if (m->refused) {
        if (pause != NULL) {
            pauses_end(&r->meta->pauses, pause);
        }
        return reply_empty(r);
    }
    if (pause != NULL) {
        int rv = park(r->meta, r->rpc, pause, false);

        if (rv == 0) {
            pause_note_paused(pause, r->rpc->node_id);
        }
        return rv;
    }
    /* It writes to where it is told that the file lies, so nothing may bring back where it lay. */
    meta_reply_durable(r->meta, r->rpc, answer_paused, m->inode);
    return 0;
}

/* ---- Coming and going ---- */

void pauses_gone(struct meta *meta, client_id client)
{
    for (unsigned i = 0; i < PAUSES_MAX; i++) {
        struct pause *pause = &meta->pauses.items[i];

        if (pause->inode != INODE_NONE && pause->owner == client) {
            pauses_end(&meta->pauses, pause);
        }
    }
    LIST_FOREACH_SAFE(node, &meta->pausing)
    {
        struct pausing_request *w = LIST_ENTRY(node, struct pausing_request, node);

        if (w->request->node_id == client) {
            rpc_reply_failure(take(w), MORSEL_NO_SESSION, NULL);
        }
    }
    pauses_look(meta);
}

void pauses_refuse_waiting(struct meta *meta, int status)
{
    struct list *node;

    while ((node = list_front(&meta->pausing)) != NULL) {
        rpc_reply_failure(take(LIST_ENTRY(node, struct pausing_request, node)), status, NULL);
    }
}

void pauses_open(struct meta *meta)
{
    uint64_t number;

    random_bytes(&number, sizeof(number));
    pauses_init(&meta->pauses, number);
    list_init(&meta->pausing);
}
