/* How a write goes: into the buffer, or under the size lock and through it (write_uv.h). */
#include "client/data/write_uv.h"

#include "client/coherence/kernel_drop_uv.h"

#include "common/base/status.h"

static struct file *file_of(const struct file_write *write)
{
    return write->handle->file;
}

static void write_end(struct file_write *write, int status)
{
    write->state = FILE_WRITE_ENDS;
    if (status == 0 && write->append && write->more) {
        append_keep(write->kept, file_of(write), &write->next, &write->size_lock);
    } else {
        size_lock_end(&write->size_lock);
        append_end(write->kept);
    }
    write->done(write, status);
}

static void on_written_through(struct file_flush *flush, int status)
{
    write_end(CONTAINER_OF(flush, struct file_write, flush), status);
}

/* Others may read as soon as we have answered: then the bytes are at the servers and the manager
 * knows the size. */
static void write_through(struct file_write *write)
{
    int rv;

    write->state = FILE_WRITE_ENDS;
    rv = file_flush_start(&write->flush, file_of(write), write->handle, false, on_written_through);
    if (rv != 0) {
        write_end(write, rv);
    }
}

static void write_under_size_lock(struct file_write *write);
static void write_now(struct file_write *write);

static void on_placed(struct size_ask *ask, int status)
{
    struct file_write *write = CONTAINER_OF(ask, struct file_write, ask);

    if (status == 0) {
        write_now(write);
    } else {
        write_end(write, status);
    }
}

/* Nobody has asked the manager about the file since it gave us up; or it has said that it has moved. */
static void ask_place(struct file_write *write)
{
    write->state = FILE_WRITE_SIZE;
    write->placed = true;
    size_ask_start(&write->ask, file_of(write), on_placed);
}

/* It has all that it needs but room in the buffer. */
static void write_now(struct file_write *write)
{
    struct file *file = file_of(write);
    int rv;

    if (file_astray(file) == MORSEL_STALE && !write->placed) {
        ask_place(write);
        return;
    }
    if (file_astray(file) != 0) {
        write_end(write, file_astray(file));
        return;
    }
    if (file_is_scavenged(file) && scavenged_may_change(file) != 0) {
        write_end(write, scavenged_may_change(file));
        return;
    }
    if (file_is_shared(file) && !write->size_lock.granted) {
        write_under_size_lock(write);
        return;
    }
    if (write->size_lock.granted && !size_lock_is_good(&write->size_lock)) {
        write_end(write, MORSEL_TOO_LATE);
        return;
    }
    write->state = FILE_WRITE_ROOM;
    rv = file_buffer(write->handle, write->offset, write->bytes, write->length, write->holder,
                     &write->wait);
    if (rv == 0 && file_is_shared(file)) {
        write_through(write);
    } else if (rv != MORSEL_AGAIN) {
        write_end(write, rv);
    }
}

static void on_room(struct file_write_wait *wait)
{
    write_now(CONTAINER_OF(wait, struct file_write, wait));
}

/* Nobody else writes: the end is where the manager says. */
static void on_size(struct size_ask *ask, int status)
{
    struct file_write *write = CONTAINER_OF(ask, struct file_write, ask);
    struct file *file = file_of(write);

    if (status == 0 && write->append) {
        write->offset = file_size(file);
    } else if (status == 0 && write->offset > file_size(file) && !file_clean_tail(file)) {
        status = MORSEL_NOMEM;
    }
    if (status == 0) {
        write_now(write);
    } else {
        write_end(write, status);
    }
}

static void ask_size(struct file_write *write)
{
    write->state = FILE_WRITE_SIZE;
    size_ask_start(&write->ask, file_of(write), on_size);
}

static void on_size_lock(struct size_lock *size_lock, int status)
{
    struct file_write *write = CONTAINER_OF(size_lock, struct file_write, size_lock);

    if (status != 0) {
        write_end(write, status);
    } else if (write->append || write->reaches) {
        ask_size(write);
    } else if (file_is_place_doubted(file_of(write))) {
        ask_place(write);
    } else {
        write_now(write);
    }
}

/* The caller's idea of where the file ends may be old, and others append too: one after the other, so
 * that appends never overlap, and leave no hole when somebody dies in the middle. Other writes go
 * on side by side, but not beside an append, which would not know of them, nor beside a
 * truncation. */
static void write_under_size_lock(struct file_write *write)
{
    struct file *file = file_of(write);

    write->state = FILE_WRITE_TURN;
    write->reaches = file_is_tail_unsure(file) && write->offset > file_size(file);
    size_lock_take(&write->size_lock, file->client, file->inode,
                   write->append || write->reaches ? LOCK_EXCLUSIVE : LOCK_SHARED, on_size_lock);
}

/* Does it go on with the append of the piece before? True: that one's size lock is ours, and it is under
 * way. */
static bool go_on(struct file_write *write)
{
    struct append_who who = { write->handle, write->thread, write->offset };
    struct file *file = file_of(write);

    write->next = who;
    write->next.offset += write->length;
    write->kept = append_take(file, &who);
    if (write->kept == NULL || !write->kept->size_lock.granted || !file_is_shared(file)) {
        return false;
    }
    size_lock_move(&write->size_lock, &write->kept->size_lock);
    ask_size(write);
    return true;
}

void file_write_start(struct file_write *write, void (*done)(struct file_write *write, int status))
{
    struct file *file = file_of(write);

    write->done = done;
    write->wait.go = on_room;
    if (write->strips_ids) {
        file_strip_ids(file);
    }
    if (!write->written_back && go_on(write)) {
        return;
    }
    if (!file_is_shared(file) && write->append && write->offset != file_size(file)) {
        /* The file is ours alone again, and the kernel has not heard yet how long it has become:
         * the bytes go behind those of others, and its pages are wrong. */
        write->offset = file_size(file);
        kernel_drop_inode(file->client, file->inode);
    }
    write_now(write);
}

void file_write_cancel(struct file_write *write)
{
    switch (write->state) {
    case FILE_WRITE_ENDS:
        break;
    case FILE_WRITE_TURN:
        size_lock_cancel(&write->size_lock);
        break;
    case FILE_WRITE_SIZE:
        size_ask_cancel(&write->ask);
        break;
    case FILE_WRITE_ROOM:
        list_remove(&write->wait.node);
        write_end(write, MORSEL_CANCELED);
        break;
    }
}
