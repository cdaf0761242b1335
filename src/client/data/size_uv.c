/* Asking the manager how long a file is (size_uv.h). */
#include "client/data/size_uv.h"

#include "client/coherence/size_lock_uv.h"
#include "client/data/file_uv.h"

#include "common/base/status.h"

static void on_size(struct meta_call *call, int status, void *message)
{
    struct size_ask *ask = call->data;
    const Morsel__Node *node = message;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    if (status == 0) {
        file_refresh(ask->file, node->attr);
        ask->size = file_size_of(ask->file, node->attr);
        size_lock_note_size(ask->file->client, ask->file->inode, node->attr->size);
    }
    ask->done(ask, status);
}

void size_ask_start(struct size_ask *ask, struct file *file,
                    void (*done)(struct size_ask *ask, int status))
{
    Morsel__GetattrRequest request = MORSEL__GETATTR_REQUEST__INIT;
    int rv;

    ask->file = file;
    ask->done = done;
    ask->call.data = ask;
    request.inode = file->inode;
    rv = meta_call_start(&ask->call, file->client, MSG_GETATTR, &request.base,
                         &morsel__node__descriptor, on_size);
    if (rv != 0) {
        done(ask, rv);
    }
}

void size_ask_cancel(struct size_ask *ask)
{
    meta_call_cancel(&ask->call);
}
