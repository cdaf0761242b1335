/* Keeps what makes the place of a long append its own until the write has ended. */
#include "client/data/append_uv.h"

#include "client/coherence/lease_uv.h"
#include "common/base/status.h"

#include <stdlib.h>

struct appends
{
    struct list kept; /* struct append: between two WRITEs of one write(2). */
};

void append_end(struct append *a)
{
    struct client *client;

    if (a == NULL) {
        return;
    }
    client = a->file->client;
    list_remove(&a->node);
    size_lock_end(&a->size_lock);
    file_unpin_lease(a->file);
    file_unpin(a->file);
    free(a);
    lease_unpinned(client);
}

static struct append *find(const struct file *file)
{
    LIST_FOREACH(node, &file->client->data.appends->kept)
    {
        struct append *a = LIST_ENTRY(node, struct append, node);

        if (a->file == file) {
            return a;
        }
    }
    return NULL;
}

static bool is_for(const struct append *a, const struct append_who *who)
{
    return a->next.handle == who->handle && a->next.thread == who->thread &&
           a->next.offset == who->offset;
}

bool append_goes_on(const struct file *file, const struct append_who *who)
{
    const struct append *a = find(file);

    return a != NULL && is_for(a, who);
}

struct append *append_take(struct file *file, const struct append_who *who)
{
    struct append *a = find(file);

    if (a == NULL) {
        return NULL;
    }
    if (!is_for(a, who) || (a->size_lock.granted && !size_lock_is_good(&a->size_lock))) {
        append_end(a);
        return NULL;
    }
    list_remove(&a->node);
    list_init(&a->node);
    return a;
}

static struct append *append_new(struct file *file)
{
    struct append *a = calloc(1, sizeof(*a));

    if (a != NULL) {
        a->file = file;
        file_pin(file);
        file_pin_lease(file);
        list_init(&a->node);
    }
    return a;
}

void append_keep(struct append *a, struct file *file, const struct append_who *next,
                 struct size_lock *size_lock)
{
    if (a == NULL) {
        a = append_new(file);
    }
    if (a == NULL || ++a->pieces > APPEND_PIECES_MAX) {
        append_end(a);
        size_lock_end(size_lock);
        return;
    }
    if (size_lock->granted) {
        size_lock_move(&a->size_lock, size_lock);
    }
    a->next = *next;
    a->until_ms = uv_now(file->client->loop) + APPEND_KEPT_MS;
    list_push_back(&file->client->data.appends->kept, &a->node);
}

void append_end_of(const struct handle *handle)
{
    struct append *a = find(handle->file);

    if (a != NULL && a->next.handle == handle) {
        append_end(a);
    }
}

void append_end_all(struct file *file)
{
    append_end(find(file));
}

void append_tick(struct client *client, uint64_t now_ms)
{
    LIST_FOREACH_SAFE(node, &client->data.appends->kept)
    {
        struct append *a = LIST_ENTRY(node, struct append, node);

        if (now_ms >= a->until_ms) {
            append_end(a);
        }
    }
}

int appends_open(struct client *client)
{
    client->data.appends = calloc(1, sizeof(*client->data.appends));
    if (client->data.appends == NULL) {
        return MORSEL_NOMEM;
    }
    list_init(&client->data.appends->kept);
    return MORSEL_OK;
}

void appends_close(struct client *client)
{
    free(client->data.appends);
}
