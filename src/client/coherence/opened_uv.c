/* Tells the manager what is open, and looks after what is shared (opened_uv.h). */
#include "client/coherence/opened_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/lease_uv.h"
#include "client/data/file_uv.h"

#include <stdlib.h>

enum {
    REOPENS_MAX = 64, /* In one go. */
    TOLD_MAX = 256    /* Local opens, in one message */
};

void opened_report(struct client *client)
{
    Morsel__ReturnRequest request = MORSEL__RETURN_REQUEST__INIT;
    uint64_t inodes[TOLD_MAX];
    struct file *file = files_pop_unreported(client);

    while (file != NULL) {
        request.opened = inodes;
        for (request.n_opened = 0; file != NULL && request.n_opened < TOLD_MAX;
             file = files_pop_unreported(client)) {
            inodes[request.n_opened++] = file->inode;
        }
        rpc_send_oneway(client->manager, MSG_RETURN, &request.base);
    }
}

bool opened_session_fill(struct client *client, Morsel__SessionRequest *request)
{
    size_t room = files_count(client) + 1;

    request->open_inodes = malloc(room * sizeof(uint64_t));
    request->open_write = malloc(room * sizeof(uint64_t));
    if (request->open_inodes == NULL || request->open_write == NULL) {
        return false;
    }
    FILES_FOREACH(file, client)
    {
        if (file_is_written(file)) {
            request->open_write[request->n_open_write++] = file->inode;
        } else {
            request->open_inodes[request->n_open_inodes++] = file->inode;
        }
        file_note_open_reported(file);
    }
    return true;
}

/* ---- Those that others have open too ---- */

struct reopen
{
    struct meta_call call;
    struct client *client;
    struct file *file;
};

struct freshening
{
    struct kernel_wait wait;
    struct file *file;
};

static void on_caught_up(struct kernel_wait *wait)
{
    struct freshening *freshening = CONTAINER_OF(wait, struct freshening, wait);
    struct file *file = freshening->file;

    free(freshening);
    file->opened.freshening = false;
    if (kernel_view_may_freshen(&file->kernel, uv_now(file->client->loop))) {
        kernel_view_freshened(&file->kernel, file_is_shared(file));
        kernel_drop_quietly(file->client, file->inode, false, file_size(file));
    }
    file_unpin(file);
}

/* Reads of a shared file come to us; what is mapped of it is to be fresh within a second or so. First what the
 * kernel has asked for is read, which may be a while ago where we did not run. Without memory the next look does it. */
static void freshen_pages(struct file *file)
{
    struct freshening *freshening = file->opened.freshening ? NULL : calloc(1, sizeof(*freshening));

    if (freshening != NULL) {
        file->opened.freshening = true;
        file_pin(file);
        freshening->file = file;
        freshening->wait.done = on_caught_up;
        kernel_catch_up(file->client, &freshening->wait);
    }
}

static void on_reopened(struct meta_call *call, int status, void *message)
{
    struct reopen *reopen = CONTAINER_OF(call, struct reopen, call);
    const Morsel__Node *node = message;
    struct file *file = reopen->file;

    file->opened.reopening = false;
    if (status == 0 && node->attr != NULL) {
        file_refresh(file, node->attr); /* The lease is in the table already. */
        file_find_place(file, node->layout);
    }
    freshen_pages(file);
    file_unpin(file);
    free(reopen);
}

static bool reopen(struct client *client, struct file *file)
{
    Morsel__OpenRequest request = MORSEL__OPEN_REQUEST__INIT;
    struct reopen *reopen = calloc(1, sizeof(*reopen));

    if (reopen == NULL) {
        return false;
    }
    request.inode = file->inode;
    request.write = file_has_writer(file);
    reopen->client = client;
    reopen->file = file;
    if (meta_call_start(&reopen->call, client, MSG_OPEN, &request.base, &morsel__node__descriptor,
                        on_reopened) != 0) {
        free(reopen);
        return false;
    }
    file->opened.reopening = true;
    file_note_open_reported(file);
    file_pin(file);
    return true;
}

/* Who holds it finds out by himself. */
static bool is_astray(const struct file *file)
{
    return file_astray(file) != 0 && !file_is_held(file);
}

/* Is it worth asking for its lease, or to be asked where it lies? */
static bool may_reopen(const struct client *client, const struct file *file)
{
    return (is_astray(file) || (file_is_shared(file) && client->options.cache)) &&
           !file_is_held(file) && !lease_is_returning(client, file->inode) &&
           client_lease_valid(client);
}

/* Files that are shared: perhaps they are not any more. */
static void look_after_shared(struct client *client)
{
    unsigned count = 0;

    FILES_FOREACH(file, client)
    {
        bool old = kernel_view_grows_old(&file->kernel, file_is_shared(file));

        if (!file_has_handle(file) || (!old && !is_astray(file)) || file->opened.reopening ||
            file_is_held(file)) { /* Its pages may be locked by what waits. */
            continue;
        }
        if (!may_reopen(client, file) || ++count > REOPENS_MAX || !reopen(client, file)) {
            freshen_pages(file);
        }
    }
}

void opened_tick(struct client *client)
{
    look_after_shared(client);
    opened_report(client);
}
