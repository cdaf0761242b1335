/* Files of the cluster, read for data sets (source_uv.h). */
#include "client/data/source_uv.h"

#include "client/data/closes_uv.h"
#include "client/data/file_uv.h"
#include "client/data/read_uv.h"
#include "client/datasets/origin_power.h"
#include "client/manager/servers_uv.h"
#include "common/base/status.h"

#include <stdlib.h>
#include <string.h>

struct sources
{
    struct origin_power power;
    struct list list; /* struct source */
};

struct source
{
    struct list node;
    struct client *client;
    struct origin_part *part; /* NULL: nobody waits for it any more. */
    inode_id inode;
    bool let_go;
    bool busy; /* Something is under way, behind which it goes on, or is freed. */
    struct meta_call call;
    struct client_opening opening;
    struct servers_wait wait;
    bool reading;
    bool waits;            /* Nothing is under way: the file is being moved (file_hold()). */
    struct handle *handle; /* NULL: not open. */
    uint64_t done;         /* Bytes */
    uint8_t *to;
    uint32_t wanted;
    struct iovec iov[FILE_READ_IOV_MAX];
    struct file_read read;
};

static struct sources *sources_of(struct client *client)
{
    return CONTAINER_OF(client->data.inside, struct sources, power);
}

/* ---- The end ---- */

static void close_handle(struct source *s)
{
    if (s->handle != NULL) {
        file_close(s->handle);
        s->handle = NULL;
    }
}

static void source_free(struct source *s)
{
    close_handle(s);
    list_remove(&s->node);
    free(s);
}

/* Nothing is under way. True: nobody waits for more. */
static bool is_over(struct source *s)
{
    s->busy = false;
    if (s->part == NULL) {
        source_free(s);
        return true;
    }
    if (s->let_go) {
        close_handle(s);
    }
    return s->let_go;
}

static void end(struct source *s, enum origin_end what, const char *words)
{
    struct origin_part *part = s->part;

    source_free(s);
    part->ended(part->data, what, words);
}

/* ---- Its bytes ---- */

static void read_next(struct source *s);

static void take(struct source *s)
{
    unsigned count = file_read_gather(&s->read, s->iov);
    size_t at = 0;

    for (unsigned i = 0; i < count && at < s->wanted; i++) {
        size_t bytes = s->iov[i].iov_len < s->wanted - at ? s->iov[i].iov_len : s->wanted - at;

        memcpy(s->to + at, s->iov[i].iov_base, bytes);
        at += bytes;
    }
    CHECK(at == s->wanted);
}

static void on_read(struct file_read *read, int status)
{
    struct source *s = CONTAINER_OF(read, struct source, read);
    bool wanted = s->part != NULL && !s->let_go, all = status == 0 && read->length == s->wanted;

    s->reading = false;
    if (wanted && all) {
        take(s);
    }
    if (status == 0) {
        file_read_end(read);
    }
    if (wanted && all) {
        s->done += s->wanted;
        s->part->came(s->part->data, s->wanted); /* It may be stopped within. */
    }
    if (is_over(s)) {
        return;
    }
    if (status != 0) {
        end(s, ORIGIN_FAILED, status_words(status));
    } else if (!all) {
        end(s, ORIGIN_CHANGED, "it is shorter than it was");
    } else {
        read_next(s);
    }
}

static void read_next(struct source *s)
{
    uint64_t left = s->part->length - s->done;
    size_t room = 0;

    if (left == 0) {
        end(s, ORIGIN_DONE, "");
        return;
    }
    if (file_is_held(s->handle->file)) {
        s->waits = true;
        return;
    }
    s->to = s->part->room(s->part->data, &room);
    if (room == 0) {
        end(s, ORIGIN_FAILED, status_words(MORSEL_NOMEM));
        return;
    }
    left = left < room ? left : room;
    s->wanted = left < FILE_READ_BYTES_MAX ? (uint32_t)left : FILE_READ_BYTES_MAX;
    s->busy = s->reading = true;
    file_read_start(&s->read, s->handle, s->part->from + s->done, s->wanted, on_read);
}

void sources_tick(struct client *client)
{
    LIST_FOREACH_SAFE(node, &sources_of(client)->list)
    {
        struct source *s = LIST_ENTRY(node, struct source, node);

        if (s->waits && !s->let_go && !file_is_held(s->handle->file)) {
            s->waits = false;
            read_next(s);
        }
    }
}

/* ---- Opening ---- */

static void on_servers(struct servers_wait *wait)
{
    struct source *s = CONTAINER_OF(wait, struct source, wait);

    if (!is_over(s)) {
        read_next(s);
    }
}

static void refused(struct source *s, int status)
{
    switch (status) {
    case MORSEL_STALE:
        end(s, ORIGIN_CHANGED, "it was written, replaced or deleted since it was staged");
        return;
    case MORSEL_ACCES:
        end(s, ORIGIN_FAILED, "the owner of the data set may not read it");
        return;
    default:
        end(s, ORIGIN_FAILED, status_words(status));
    }
}

static void on_opened(struct meta_call *call, int status, void *message)
{
    struct source *s = CONTAINER_OF(call, struct source, call);
    const Morsel__Node *node = message;

    client_opening_end(&s->opening);
    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0 && s->part != NULL && !s->let_go) {
        status = file_open(s->client, node->attr, node->layout, false, true, &s->handle);
    }
    if (s->handle == NULL) {
        client_close_inode(s->client, s->inode); /* The manager may count it as open. */
        if (!is_over(s)) {
            refused(s, status);
        }
        return;
    }
    s->handle->internal = true;
    s->wait.done = on_servers;
    if (file_know_servers(s->handle->file, &s->wait)) {
        on_servers(&s->wait);
    }
}

static int start(void *data, struct origin_part *part)
{
    Morsel__OpenRequest request = MORSEL__OPEN_REQUEST__INIT;
    struct client *client = data;
    struct source *s = calloc(1, sizeof(*s));
    const char *path;

    if (s == NULL) {
        return MORSEL_NOMEM;
    }
    s->client = client;
    s->part = part;
    s->inode = origin_source(part->origin, &path);
    request.inode = s->inode;
    request.read = true;
    request.for_set = part->inode;
    list_init(&s->node);
    client_opening_begin(client, &s->opening, s->inode);
    if (meta_call_start(&s->call, client, MSG_OPEN, &request.base, &morsel__node__descriptor,
                        on_opened) != 0) {
        client_opening_end(&s->opening);
        free(s);
        return MORSEL_NOMEM;
    }
    s->busy = true;
    list_push_back(&sources_of(client)->list, &s->node);
    part->visit = s;
    return 0;
}

/* ---- Stopping ---- */

/* What is read is read no more; its end may have freed it. An OPEN is waited for, for only its answer says what is to be closed. */
static void cancel(struct source *s)
{
    if (!s->busy) {
        if (s->part == NULL) {
            source_free(s);
        } else {
            close_handle(s);
        }
    } else if (s->reading) {
        file_read_cancel(&s->read);
    }
}

static void stop(struct origin_part *part)
{
    struct source *s = part->visit;

    s->part = NULL;
    cancel(s);
}

void sources_let_go(struct client *client)
{
    LIST_FOREACH_SAFE(node, &sources_of(client)->list)
    {
        struct source *s = LIST_ENTRY(node, struct source, node);

        s->let_go = true;
        cancel(s);
    }
}

int sources_open(struct client *client)
{
    struct sources *sources = calloc(1, sizeof(*sources));

    if (sources == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&sources->list);
    sources->power = (struct origin_power){ .data = client, .start = start, .stop = stop };
    client->data.inside = &sources->power;
    return 0;
}

void sources_close(struct client *client)
{
    if (client->data.inside != NULL) {
        free(sources_of(client));
    }
}
