/* Compares verifiers, and remembers which handles have yet to be told of a loss. */
#include "client/data/durable_uv.h"

#include "client/coherence/data_versions.h"
#include "client/coherence/kernel_drop_uv.h"
#include "client/manager/changes.h"
#include "client/manager/servers_uv.h"
#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t verifier_of(const struct rpc_reply *reply)
{
    struct rpc_room room;
    Morsel__Done *done;
    uint64_t verifier = 0;

    if (rpc_unpack_in(&room, &morsel__done__descriptor, reply->body, reply->body_count,
                      (void **)&done) == 0) {
        verifier = done->verifier;
        rpc_room_free(&room, done);
    }
    return verifier;
}

void durable_change_lost(struct client *client, inode_id inode)
{
    struct file *file = file_find(client, inode);

    changes_lose(client->data.changes, inode);
    if (file != NULL) {
        file_note_loss(file);
    }
}

void durable_lost(struct file *file, const char *why)
{
    struct client *client = file->client;

    log_error(client->options.log,
              "inode %lu: bytes that were written and not synced may be lost: %s; whoever has it "
              "open is told EIO",
              (unsigned long)file->inode, why);
    file_note_loss(file);
    file_forget(file, 0, UINT64_MAX);
    kernel_drop_inode(client, file->inode);
}

/* Every file that has acknowledged bytes on the server, and not on its disk. */
static void server_lost(struct client *client, server_id id, uint64_t verifier)
{
    char why[96];

    (void)snprintf(why, sizeof(why), "server %u (%s) lost its power, or its disk failed", id,
                   servers_address(client, id));
    data_version_forget_all(client->data.versions); /* What the kernel kept of closed files. */
    FILES_FOREACH(file, client)
    {
        bool lost = false;

        for (uint32_t i = 0; i < file_stripe(file)->width; i++) {
            lost |= file_server(file, i) == id &&
                    unsynced_acked(file->durable.unsynced, i, verifier, true);
        }
        if (lost) {
            durable_lost(file, why);
        }
    }
}

/* The same of a group: bytes that were acknowledged may be on none of its servers. */
static void group_lost(struct client *client, group_number group, uint64_t verifier)
{
    char why[96];

    (void)snprintf(why, sizeof(why),
                   "all servers of group %u lost their power, or their disks failed", group);
    data_version_forget_all(client->data.versions);
    FILES_FOREACH(file, client)
    {
        bool lost = false;

        for (uint32_t i = 0; i < file_stripe(file)->width; i++) {
            lost |= file_group(file, i) == group &&
                    unsynced_acked(file->durable.unsynced, i, verifier, true);
        }
        if (lost) {
            durable_lost(file, why);
        }
    }
}

static struct client_group *group_of(const struct file *file, uint32_t column)
{
    group_number number = file_group(file, column);

    return number != 0 ? client_groups_find(file->client, number) : NULL;
}

static uint64_t note_verifier(struct file *file, uint32_t column, const struct rpc_reply *reply)
{
    uint64_t verifier = verifier_of(reply);
    server_id id = file_server(file, column);
    struct client_group *group = group_of(file, column);

    if (group != NULL) {
        if (group_note_verifier(group, verifier)) {
            group_lost(file->client, file_group(file, column), verifier);
        }
        return verifier;
    }
    if (servers_note_verifier(file->client, id, verifier)) {
        server_lost(file->client, id, verifier);
    }
    return verifier;
}

/* ---- What the answers of servers teach (column_uv.h) ---- */

static struct file *file_of(struct columns *columns)
{
    return CONTAINER_OF(columns, struct file, columns);
}

static void on_change_ended(struct columns *columns, int status)
{
    file_note_end(file_of(columns), status);
}

/* Was it answered before all servers of the group lost their power, and comes behind an answer of since? Those files that had
 * something to lose were told then. */
static bool is_of_before(const struct file *file, uint32_t column, uint64_t verifier)
{
    const struct client_group *group = group_of(file, column);

    return group != NULL && verifier != 0 && verifier < group_verifier(group);
}

static void on_changed(struct columns *columns, uint32_t column, const struct rpc_reply *reply,
                       bool durable)
{
    struct file *file = file_of(columns);
    uint64_t verifier = note_verifier(file, column, reply);
    bool late = is_of_before(file, column, verifier);

    /* Whoever loses what was acknowledged before has been told already. */
    if (!late) {
        (void)unsynced_acked(file->durable.unsynced, column, verifier, durable);
    } else if (!durable) {
        durable_lost(file, "all servers of their group lost their power behind the answer");
    }
}

static uint64_t before_sync(struct columns *columns, uint32_t column)
{
    return unsynced_mark(file_of(columns)->durable.unsynced, column);
}

static uint64_t on_synced(struct columns *columns, uint32_t column, uint64_t mark,
                          const struct rpc_reply *reply)
{
    struct file *file = file_of(columns);
    uint64_t verifier = note_verifier(file, column, reply);

    if (!is_of_before(file, column, verifier)) {
        (void)unsynced_synced(file->durable.unsynced, column, mark, verifier);
    }
    return verifier;
}

const struct column_hooks durable_column_hooks = { on_change_ended, on_changed, before_sync,
                                                   on_synced };

/* ---- The manager's record ---- */

void durable_listed(struct file_flush *flush, Morsel__Unsynced **columns, size_t count)
{
    free(flush->listed);
    flush->listed_count = 0;
    flush->listed = count > 0 ? calloc(count, sizeof(flush->listed[0])) : NULL;
    if (count > 0 && flush->listed == NULL) {
        flush->status = flush->status == 0 ? MORSEL_NOMEM : flush->status;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (columns[i]->column < file_stripe(flush->file)->width) {
            flush->listed[flush->listed_count++] =
                (struct file_listed){ columns[i]->column, columns[i]->verifier };
        }
    }
    flush->file->durable.listed = flush->listed_count > 0;
}

void durable_listed_too(struct file_flush *flush, const struct file_flush *reported)
{
    if (reported->listed_count == 0) {
        return;
    }
    free(flush->listed);
    flush->listed = calloc(reported->listed_count, sizeof(flush->listed[0]));
    flush->listed_count = flush->listed != NULL ? reported->listed_count : 0;
    if (flush->listed == NULL) {
        flush->status = flush->status == 0 ? MORSEL_NOMEM : flush->status;
        return;
    }
    memcpy(flush->listed, reported->listed, reported->listed_count * sizeof(flush->listed[0]));
}

/* What the server of the column, or its group, has told last. 0: nothing. */
static uint64_t last_verifier(const struct file *file, uint32_t column)
{
    const struct client_group *group = group_of(file, column);

    return group != NULL ? group_verifier(group)
                         : servers_verifier(file->client, file_server(file, column));
}

/* What the manager's record says of a file. */
enum { LISTED_MAX = STRIPE_WIDTH_MAX * UNSYNCED_VERIFIERS_MAX };

static void on_unlisted(struct meta_call *call, int status, void *message)
{
    (void)status; /* The next fsync finds it still there. */
    (void)message;
    free(call);
}

static void unlist(struct file *file, uint64_t data_version, const struct file_listed *columns,
                   uint32_t count)
{
    Morsel__SyncedRequest request = MORSEL__SYNCED_REQUEST__INIT;
    Morsel__Unsynced messages[LISTED_MAX], *pointers[LISTED_MAX];
    struct meta_call *call = calloc(1, sizeof(*call));

    for (uint32_t i = 0; i < count; i++) {
        morsel__unsynced__init(&messages[i]);
        messages[i].column = columns[i].column;
        messages[i].verifier = columns[i].verifier;
        pointers[i] = &messages[i];
    }
    request.inode = file->inode;
    request.data_version = data_version;
    request.n_synced = count;
    request.synced = pointers;
    if (call != NULL && meta_change_start(call, file->client, MSG_SYNCED, &request.base,
                                          &request.op, NULL, on_unlisted) != 0) {
        free(call);
    }
}

void durable_unlisted(struct file_flush *flush)
{
    free(flush->listed);
    flush->listed = NULL;
    flush->listed_count = 0;
}

void durable_compare(struct file_flush *flush)
{
    struct file_listed synced[LISTED_MAX], gone[LISTED_MAX];
    uint32_t synced_count = 0, gone_count = 0;
    struct file *file = flush->file;
    bool news = false;

    for (uint32_t i = 0; i < flush->listed_count && i < LISTED_MAX; i++) {
        struct file_listed c = flush->listed[i];
        enum unsynced_fate fate =
            unsynced_fate(file->durable.unsynced, c.column, c.verifier,
                          flush->syncs[c.column].verifier, last_verifier(file, c.column));

        news |= c.verifier ==
                VERIFIER_ANY; /* And again, until a sync has covered whatever they were. */
        if (fate == UNSYNCED_SYNCED) {
            synced[synced_count++] = c;
        } else if (fate == UNSYNCED_GONE) {
            gone[gone_count++] = c;
            news |= unsynced_gone(file->durable.unsynced, c.column, c.verifier);
        }
    }
    if (synced_count > 0) {
        unlist(file, file->durable.data_version, synced, synced_count);
    }
    if (gone_count > 0) {
        unlist(file, 0, gone, gone_count);
    }
    if (news) {
        durable_lost(file, "a server lost its power, or its disk failed, after they were written");
    }
    if (flush->listed_count > 0) {
        file->durable.listed = synced_count + gone_count < flush->listed_count;
    }
    durable_unlisted(flush);
}

bool durable_is_unsynced(const struct file *file)
{
    for (uint32_t i = 0; i < file_stripe(file)->width; i++) {
        uint64_t verifiers[UNSYNCED_OWN_MAX];

        if (unsynced_verifiers(file->durable.unsynced, i, verifiers) > 0) {
            return true;
        }
    }
    return false;
}

int durable_take_loss(struct handle *handle)
{
    bool lost = handle->lost;

    handle->lost = false;
    if (lost) {
        handle->file->durable.loss_unreported = false;
        unsynced_told(handle->file->durable.unsynced);
        changes_told(handle->file->client->data.changes, handle->file->inode);
    }
    return lost ? MORSEL_IO : 0;
}

/* ---- The manager ---- */

static void on_change_lost(void *data, inode_id inode)
{
    struct client *client = data;
    FILES_FOREACH(file, client)
    {
        if (inode == INODE_NONE || file->inode == inode) {
            durable_lost(file, "the manager lost its power, and with it changes of names, "
                               "attributes or sizes");
        }
    }
    kernel_dir_lost(client, inode);
}

enum { HELD_MAX = 64 };

void durable_heard(struct client *client, const Morsel__Durable *durable)
{
    struct changes_held held[HELD_MAX];
    size_t count = 1;

    if (durable == NULL || durable->run == 0) {
        return;
    }
    held[0] = (struct changes_held){ durable->run, durable->number };
    for (size_t i = 0; i < durable->n_before && count < HELD_MAX; i++) {
        held[count++] =
            (struct changes_held){ durable->before[i]->run, durable->before[i]->number };
    }
    changes_heard(client->data.changes, held, count, on_change_lost, client);
}

static void note(struct client *client, const Morsel__Changed *changed, const Morsel__Attr *attr)
{
    if (attr != NULL) {
        changes_note(client->data.changes, attr->inode, changed->run, changed->number);
    }
}

void durable_learn(struct client *client, const ProtobufCMessageDescriptor *type,
                   const void *message)
{
    if (type == &morsel__node__descriptor) {
        const Morsel__Node *node = message;

        if (node->changed != NULL) {
            changes_durable(client->data.changes, node->changed->run, node->changed->durable);
            note(client, node->changed, node->attr);
            note(client, node->changed, node->parent);
        }
        durable_heard(client, node->durable);
    } else if (type == &morsel__removed__descriptor) {
        const Morsel__Removed *removed = message;

        if (removed->changed != NULL) {
            changes_durable(client->data.changes, removed->changed->run, removed->changed->durable);
            note(client, removed->changed, removed->parent);
            note(client, removed->changed, removed->new_parent);
            note(client, removed->changed, removed->moved);
            note(client, removed->changed, removed->other);
        }
    } else if (type == &morsel__changed__descriptor) {
        const Morsel__Changed *changed = message;

        changes_note(client->data.changes, changed->inode, changed->run, changed->number);
    } else if (type == &morsel__fsync_reply__descriptor) {
        durable_heard(client, ((const Morsel__FsyncReply *)message)->durable);
    }
}
