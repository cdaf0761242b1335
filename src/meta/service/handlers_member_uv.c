/* Requests of storage servers, and who they are. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "meta/cluster/groups_uv.h"
#include "meta/cluster/voters_uv.h"
#include "meta/service/handlers_uv.h"

#include <stdlib.h>
#include <string.h>

bool take_address(char *to, size_t capacity, const char *from, struct errmsg *err)
{
    struct address address;

    members_take_words(to, capacity, from);
    return strcmp(to, from) == 0 && address_parse(to, &address, err) == 0;
}

static void take_disk(struct member_disk *disk, uint64_t verifier, uint64_t device,
                      const char *failure)
{
    disk->device = device;
    disk->verifier = verifier;
    members_take_words(disk->failure, sizeof(disk->failure), failure);
}

/* What is more than SCRUB_TOLD_MAX is left out. */
static void take_scrub(struct member_scrub *scrub, const Morsel__Scrub *message)
{
    *scrub = (struct member_scrub){ .rate = 0 };
    if (message == NULL) {
        return;
    }
    scrub->rate = message->rate;
    scrub->running = message->running;
    scrub->began_s = message->began_s;
    scrub->ended_s = message->ended_s;
    scrub->part = message->part;
    scrub->objects = message->objects;
    scrub->bytes = message->bytes;
    scrub->damaged = message->damaged;
    scrub->damaged_blocks = message->damaged_blocks;
    for (size_t i = 0; i < message->n_findings && i < SCRUB_TOLD_MAX; i++) {
        const Morsel__ScrubFinding *f = message->findings[i];

        scrub->named[scrub->named_count++] =
            (struct member_damage){ .object = { .inode = f->inode, .column = f->column },
                                    .start = f->start,
                                    .end = f->end,
                                    .blocks = f->blocks,
                                    .unreadable = f->unreadable };
    }
}

/* Whose they are. The number of an object need not be that of its file. */
static int find_damaged(struct request *r, struct member_scrub *scrub)
{
    for (uint32_t i = 0; i < scrub->named_count; i++) {
        struct inode inode;
        int rv = ns_object_file(r->meta->ns, scrub->named[i].object.inode, &inode, &r->err);

        if (rv == MORSEL_AGAIN) {
            return rv;
        }
        scrub->named[i].file = rv == 0 ? inode.id : INODE_NONE;
    }
    r->err.text[0] = '\0';
    return 0;
}

int serve_register(struct request *r)
{
    const Morsel__RegisterRequest *m = r->message;
    struct members_event event = { .now_ms = meta_now_ms(r->meta), .type = MEMBERS_REGISTER };
    struct member_record *record = &event.registration.record;

    event.registration.tag = (uintptr_t)r->rpc;
    record->id = m->id;
    record->bytes_total = m->bytes_total;
    record->bytes_free = m->bytes_free;
    members_take_words(record->name, sizeof(record->name), m->name);
    take_disk(&event.registration.disk, m->verifier, m->device, m->disk_failure);
    event.registration.start = (struct starts_word){ .mark = m->mark,
                                                     .confirmed = m->mark_confirmed,
                                                     .pending = m->mark_pending,
                                                     .count = m->mark_count,
                                                     .confirms = m->confirms };
    if (r->rpc->role != ROLE_IOD || m->token.len != sizeof(record->token) ||
        !take_address(record->address, sizeof(record->address), m->address, &r->err)) {
        if (r->err.text[0] == '\0') {
            errmsg_set(&r->err, "a registration needs a token of 16 bytes and an address");
        }
        return MORSEL_MALFORMED;
    }
    memcpy(record->token, m->token.data, sizeof(record->token));
    meta_members_step(r->meta, &event); /* It answers, now or when the id is on disk. */
    return 0;
}

/* The objects that the server reports as deleted leave the queue. */
static int take_collected(struct meta *meta, const Morsel__HeartbeatRequest *m, struct errmsg *err)
{
    struct meta_op op = { .kind = OP_COLLECTED, .time_ns = meta_clock_ns() };
    struct buf objects;
    int rv;

    if (m->n_collected_inode == 0) {
        return 0;
    }
    if (m->n_collected_inode != m->n_collected_column || m->n_collected_inode > OP_OBJECTS_MAX) {
        return MORSEL_MALFORMED;
    }
    buf_init(&objects);
    for (size_t i = 0; i < m->n_collected_inode; i++) {
        op_objects_put(&objects,
                       (struct object_id){ m->collected_inode[i], m->collected_column[i] });
    }
    op_objects_sort(&objects);
    op.objects.server = m->id;
    op.objects.objects = buf_slice(&objects);
    rv = objects.failed ? MORSEL_NOMEM : meta_execute(meta, &op, err);
    buf_free(&objects);
    return rv;
}

/* A page of the queue on its way to the server. */
struct collecting
{
    struct sync_waiter waiter;
    struct meta *meta;
    server_id server;
    struct rpc_request *request;
    uint32_t count;
    uint64_t inodes[NS_GARBAGE_PAGE_MAX];
    uint32_t columns[NS_GARBAGE_PAGE_MAX];
};

/* The voter set goes to whoever has another one. */
static void reply_heartbeat(struct meta *meta, struct rpc_request *request, server_id server,
                            Morsel__HeartbeatReply *reply)
{
    const struct member *member = members_find(&meta->members, server);
    bool knows = member != NULL && member->voters_mark == voters_mark(meta);

    reply->voters = knows ? NULL : voters_told(meta);
    reply->groups = groups_told(meta, server);
    (void)groups_verify_told(meta, server, reply); /* Without memory with the next one. */
    reply->groups_version = ns_groups(meta->ns)->version;
    meta_member_answered(meta, request, server);
    rpc_reply(request, &reply->base, NULL);
    free(reply->verify_group);
    free(reply->verify_run);
    voters_told_free(reply->voters);
    groups_told_free(reply->groups);
}

static void collecting_reply(struct collecting *c)
{
    Morsel__HeartbeatReply reply = MORSEL__HEARTBEAT_REPLY__INIT;

    reply.n_collect_inode = reply.n_collect_column = c->count;
    reply.collect_inode = c->inodes;
    reply.collect_column = c->columns;
    reply.more = c->count == NS_GARBAGE_PAGE_MAX;
    reply_heartbeat(c->meta, c->request, c->server, &reply);
    free(c);
}

static void on_collecting_durable(struct sync_waiter *waiter, int status)
{
    struct collecting *c = CONTAINER_OF(waiter, struct collecting, waiter);

    if (status != 0) {
        c->count = 0; /* What the disk has is not known: nothing is deleted any more. */
    }
    collecting_reply(c);
}

/* Would the server have it deleted by all of a group, although a file has it there? MORSEL_AGAIN: something must be
 * read first. */
static int is_needed(const struct meta *meta, server_id id, struct object_id object, bool *needed,
                     struct errmsg *err)
{
    const struct group_made *group =
        groups_record_find(ns_groups(meta->ns), placing_group(object.column));
    uint32_t column = placing_column(object.column);
    struct inode inode;
    int rv;

    *needed = false;
    if (group == NULL || !group_concerns(group, id)) {
        return 0;
    }
    rv = ns_object_file(meta->ns, object.inode, &inode, err);
    if (rv == 0) {
        *needed = column < inode.layout.stripe.width && inode.layout.replicas > 1 &&
                  inode.layout.groups[column] == group->number;
    }
    if (rv == MORSEL_CORRUPT || rv == MORSEL_VERSION) {
        *needed = true; /* Not knowing is no reason to delete. */
        return 0;
    }
    return rv == MORSEL_STALE ? 0 : rv;
}

/* fsck has queued what a server had left of an old copy, whose file is there; and that server has a place in the group
 * again by now. Such objects leave the queue, now or with another page, and are not named. */
static int leave_needed(struct meta *meta, server_id id, struct object_id *objects, uint32_t *count,
                        struct errmsg *err)
{
    struct meta_op op = { .kind = OP_COLLECTED, .time_ns = meta_clock_ns() };
    uint32_t kept = 0, all = *count;
    struct buf list;
    int rv = 0;

    buf_init(&list);
    for (uint32_t i = 0; i < all && rv == 0; i++) {
        bool needed;

        rv = is_needed(meta, id, objects[i], &needed, err);
        if (rv == MORSEL_AGAIN && !kv_wants_enough(meta->kv)) {
            rv = 0; /* All that must be read is read together. */
        } else if (rv == 0 && needed) {
            op_objects_put(&list, objects[i]);
        } else {
            objects[kept++] = objects[i];
        }
    }
    rv = kv_wants(meta->kv) ? MORSEL_AGAIN : rv;
    *count = kept;
    if (rv == 0 && kept < all) {
        op_objects_sort(&list);
        op.objects.server = id;
        op.objects.objects = buf_slice(&list);
        rv = list.failed ? MORSEL_NOMEM : meta_execute(meta, &op, err);
        rv = kv_wants(meta->kv) ? rv : 0;
    }
    buf_free(&list);
    return rv;
}

/* NULL: *rv says why. */
static struct collecting *collecting_new(struct meta *meta, server_id id, int *rv,
                                         struct errmsg *err)
{
    struct collecting *c = calloc(1, sizeof(*c));
    struct object_id objects[NS_GARBAGE_PAGE_MAX];

    *rv = MORSEL_NOMEM;
    if (c == NULL ||
        (*rv = ns_garbage(meta->ns, id, objects, NS_GARBAGE_PAGE_MAX, &c->count, err)) != 0 ||
        (*rv = leave_needed(meta, id, objects, &c->count, err)) != 0) {
        free(c);
        return NULL;
    }
    list_init(&c->waiter.node);
    c->meta = meta;
    c->server = id;
    for (uint32_t i = 0; i < c->count; i++) {
        c->inodes[i] = objects[i].inode;
        c->columns[i] = objects[i].column;
    }
    return c;
}

/* Nothing leaves the queue before what put it there is on disk: after a loss of power a name might
 * lead to the objects again. */
static void answer_heartbeat(void *data, struct rpc_request *request, uint64_t id)
{
    struct meta *meta = data;
    struct errmsg err = { "" };
    struct collecting *c;
    int rv;

    loads_begin(&meta->loads);
    if ((c = collecting_new(meta, (server_id)id, &rv, &err)) == NULL) {
        meta_not_answered(meta, request, rv, &err, answer_heartbeat, id);
        return;
    }
    c->request = request;
    if (ns_broken(meta->ns) != 0) {
        c->count = 0;
    }
    if (c->count == 0 || sync_is_done(&meta->sync)) {
        collecting_reply(c);
    } else {
        sync_wait(&meta->sync, &c->waiter, on_collecting_durable);
    }
}

/* There is no room to write down what the server has deleted. It is not to count as silent for that,
 * so it has its answer, and nothing to do: what is still in the queue it will be told again. */
static void answer_later(struct request *r, server_id server)
{
    Morsel__HeartbeatReply reply = MORSEL__HEARTBEAT_REPLY__INIT;

    loads_begin(&r->meta->loads);
    reply_heartbeat(r->meta, r->rpc, server, &reply);
}

int serve_heartbeat(struct request *r)
{
    const Morsel__HeartbeatRequest *m = r->message;
    struct members_event event = { .now_ms = meta_now_ms(r->meta), .type = MEMBERS_HEARTBEAT };
    struct members_event asks = { .now_ms = meta_now_ms(r->meta), .type = MEMBERS_ASKS };
    const struct member *member = members_find(&r->meta->members, m->id);
    int rv;

    if (r->rpc->role != ROLE_IOD || member == NULL || !member->registered || member->removing) {
        errmsg_set(&r->err, "register first");
        return MORSEL_NO_SESSION;
    }
    asks.asks.tag = (uintptr_t)r->rpc;
    asks.asks.id = m->id;
    meta_members_step(r->meta, &asks);
    event.heartbeat.tag = (uintptr_t)r->rpc;
    event.heartbeat.id = m->id;
    event.heartbeat.bytes_total = m->bytes_total;
    event.heartbeat.bytes_free = m->bytes_free;
    event.heartbeat.objects = m->objects;
    event.heartbeat.measured = m->measured;
    event.heartbeat.voters_mark = m->voters_mark;
    take_disk(&event.heartbeat.disk, m->verifier, m->device, m->disk_failure);
    event.heartbeat.disk.blocks_mended = m->blocks_mended;
    event.heartbeat.disk.blocks_lost = m->blocks_lost;
    take_scrub(&event.heartbeat.disk.scrub, m->scrub);
    if ((rv = find_damaged(r, &event.heartbeat.disk.scrub)) != 0) {
        return rv;
    }
    meta_members_step(r->meta, &event);
    capacity_told(&r->meta->capacity);
    voters_heard(r->meta, m->id, m->voter);
    groups_heard(r->meta, m->id, m->groups_version, m->copies, m->n_copies);
    groups_verified(r->meta, m->id, m->verified, m->n_verified);
    rv = take_collected(r->meta, m, &r->err);
    if (rv == MORSEL_AGAIN && r->meta->loads.wanted.room) {
        answer_later(r, m->id);
        return 0;
    }
    if (rv == 0) {
        answer_heartbeat(r->meta, r->rpc, m->id);
    }
    return rv;
}

void handle_probe(struct meta *meta, struct rpc_request *request)
{
    probe_handle(&meta->prober, meta->loop, request);
}

void handle_vote(struct meta *meta, struct rpc_request *request)
{
    voter_uv_handle(&meta->voter, request);
}

/* ---- Who is there ---- */

uint32_t members_fill(struct meta *meta, Morsel__Member *messages, Morsel__Member **pointers)
{
    uint64_t now_ms = meta_now_ms(meta);
    uint32_t count = 0;

    for (uint32_t i = 0; i < meta->members.count; i++) {
        struct member *member = &meta->members.items[i];
        Morsel__Member *message = &messages[i];

        morsel__member__init(message);
        message->id = member->record.id;
        message->address = member->record.address;
        message->name = member->record.name;
        message->up = member->up;
        message->waits = member->record.waits;
        message->bytes_total = member->bytes_total;
        message->bytes_free = member->bytes_free;
        message->objects = member->objects;
        message->verifier = member->disk.verifier;
        message->device = member->disk.device;
        message->disk_failure = member->disk.failure;
        message->blocks_mended = member->disk.blocks_mended;
        message->blocks_lost = member->disk.blocks_lost;
        message->silent_ms =
            member->registered ? now_ms - member->heard_ms : now_ms - meta->started_ms;
        if (member_stays(member)) {
            pointers[count++] = message;
        }
    }
    return count;
}

/* Mounts that know of one need not wait for it. */
static uint32_t removed_fill(const struct meta *meta, uint32_t ids[SERVERS_MAX])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < meta->members.count; i++) {
        if (!member_stays(&meta->members.items[i])) {
            ids[count++] = meta->members.items[i].record.id;
        }
    }
    return count;
}

static void scrub_fill(const struct member_scrub *scrub, struct member_scrub_message *m)
{
    morsel__scrub__init(&m->scrub);
    m->scrub.rate = scrub->rate;
    m->scrub.running = scrub->running;
    m->scrub.began_s = scrub->began_s;
    m->scrub.ended_s = scrub->ended_s;
    m->scrub.part = scrub->part;
    m->scrub.objects = scrub->objects;
    m->scrub.bytes = scrub->bytes;
    m->scrub.damaged = scrub->damaged;
    m->scrub.damaged_blocks = scrub->damaged_blocks;
    m->scrub.findings = m->pointers;
    m->scrub.n_findings = scrub->named_count;
    for (uint32_t i = 0; i < scrub->named_count; i++) {
        const struct member_damage *named = &scrub->named[i];
        Morsel__ScrubFinding *f = m->pointers[i] = &m->findings[i];

        morsel__scrub_finding__init(f);
        f->inode = named->object.inode;
        f->column = named->object.column;
        f->file = named->file;
        f->start = named->start;
        f->end = named->end;
        f->blocks = named->blocks;
        f->unreadable = named->unreadable;
    }
}

struct member_scrub_message *member_scrubs_fill(const struct members *members,
                                                Morsel__Member *messages)
{
    struct member_scrub_message *scrubs = calloc(members->count + 1, sizeof(*scrubs));

    for (uint32_t i = 0; scrubs != NULL && i < members->count; i++) {
        if (members->items[i].disk.scrub.rate > 0) {
            scrub_fill(&members->items[i].disk.scrub, &scrubs[i]);
            messages[i].scrub = &scrubs[i].scrub;
        }
    }
    return scrubs;
}

void handle_members(struct meta *meta, struct rpc_request *request)
{
    Morsel__MembersReply reply = MORSEL__MEMBERS_REPLY__INIT;
    Morsel__Member messages[SERVERS_MAX], *pointers[SERVERS_MAX];
    struct groups_changed *groups = groups_changed_new(meta, &reply);
    uint32_t removed[SERVERS_MAX];

    reply.n_members = members_fill(meta, messages, pointers);
    reply.members = pointers;
    reply.n_removed = removed_fill(meta, removed);
    reply.removed = removed;
    reply.version = meta->members.version;
    rpc_reply(request, &reply.base, NULL);
    groups_changed_free(groups);
}
