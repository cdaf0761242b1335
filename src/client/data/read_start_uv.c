/* How a read goes: at once, or when the manager has answered and under the size lock (read_uv.h). */
#include "client/data/read_uv.h"

#include "client/coherence/lease_uv.h"
#include "common/base/status.h"

#include <string.h>

static void read_fail(struct file_read *read, int status)
{
    size_lock_end(&read->size_lock);
    read->done(read, status);
}

static void read_from_servers(struct file_read *read, uint64_t size)
{
    read->state = FILE_READ_BYTES;
    read->shared = true;
    read->size = size;
    read_bytes_start(read);
}

static void on_size(struct size_ask *ask, int status)
{
    struct file_read *read = CONTAINER_OF(ask, struct file_read, ask);

    if (status == 0) {
        read_from_servers(read, ask->size);
    } else {
        read_fail(read, status);
    }
}

static void ask_size(struct file_read *read)
{
    read->state = FILE_READ_SIZE;
    size_ask_start(&read->ask, read->handle->file, on_size);
}

static void on_size_lock(struct size_lock *size_lock, int status)
{
    struct file_read *read = CONTAINER_OF(size_lock, struct file_read, size_lock);

    if (status == 0) {
        ask_size(read);
    } else {
        read_fail(read, status);
    }
}

/* Bytes are missing within the size that we were told: a hole, or somebody is about to truncate the
 * file. Nobody does while we have the size lock. */
static void read_under_size_lock(struct file_read *read)
{
    struct file *file = read->handle->file;

    read_bytes_end(read);
    size_lock_end(&read->size_lock); /* It was lost. */
    read->state = FILE_READ_TURN;
    size_lock_take(&read->size_lock, file->client, file->inode, LOCK_SHARED, on_size_lock);
}

/* May others have cut the file, or had it moved, since? Under one lease all that time, or the size lock, nobody has. */
static bool others_may_have_cut(const struct file_read *read)
{
    const struct file *file = read->file;

    if (read->size_lock.granted) {
        return !client_lease_valid(file->client) || !size_lock_is_good(&read->size_lock);
    }
    return read->shared || read->lease != client_lease_since(file->client, file->inode);
}

void read_bytes_done(struct file_read *read, int status)
{
    if (status == MORSEL_STALE && file_astray(read->file) == MORSEL_STALE) {
        read_bytes_end(read);
        ask_size(read); /* Which finds it. */
    } else if (status != 0) {
        read_bytes_end(read);
        read_fail(read, status);
    } else if (others_may_have_cut(read) && read_bytes_are_short(read)) {
        read_under_size_lock(read);
    } else {
        read->done(read, MORSEL_OK);
    }
}

void file_read_start(struct file_read *read, struct handle *handle, uint64_t offset,
                     uint32_t length, void (*done)(struct file_read *read, int status))
{
    struct file *file = handle->file;
    uint64_t size;

    CHECK(length <= FILE_READ_BYTES_MAX);
    memset(read, 0, offsetof(struct file_read, parts));
    read->handle = handle;
    read->offset = offset;
    read->wanted = length;
    read->done = done;
    read->lease = client_lease_since(file->client, file->inode);
    if (!file_is_shared(file)) {
        read_bytes_start(read);
    } else if (size_lock_join(&read->size_lock, file->client, file->inode, offset + length,
                              &size)) {
        read_from_servers(read, size);
    } else {
        ask_size(read);
    }
}

void file_read_cancel(struct file_read *read)
{
    switch (read->state) {
    case FILE_READ_BYTES:
        read_bytes_cancel(read);
        break;
    case FILE_READ_SIZE:
        size_ask_cancel(&read->ask);
        break;
    case FILE_READ_TURN:
        size_lock_cancel(&read->size_lock);
        break;
    }
}

void file_read_end(struct file_read *read)
{
    read_bytes_end(read);
    size_lock_end(&read->size_lock);
}
