/* Copying on the servers: where the bytes of two files lie on the same servers, column by column,
 * they need not come here. */
#include "client/data/durable_uv.h"
#include "client/data/file_uv.h"

#include "common/base/status.h"
#include "data.pb-c.h"

#include <string.h>

static uint64_t stripe_bytes(const struct file *file)
{
    return (uint64_t)file_stripe(file)->morsel_bytes * file_stripe(file)->stripe_morsels;
}

static bool same_stripes(const struct file *from, const struct file *to, uint64_t from_offset,
                         uint64_t to_offset)
{
    return memcmp(file_stripe(from), file_stripe(to), sizeof(*file_stripe(from))) == 0 &&
           from_offset % stripe_bytes(from) == to_offset % stripe_bytes(to);
}

/* On one server, or on one group: each server of it copies the same. */
static bool same_place(const struct file *from, uint32_t column, const struct file *to,
                       uint32_t to_column)
{
    group_number group = file_group(from, column);

    return group == file_group(to, to_column) &&
           (group != 0 || file_server(from, column) == file_server(to, to_column));
}

bool file_copy_fits(const struct file *from, const struct file *to, uint64_t from_offset,
                    uint64_t to_offset)
{
    uint32_t width = file_stripe(from)->width;
    uint32_t first, other;

    if (file_is_scavenged(from) || file_is_scavenged(to) ||
        !same_stripes(from, to, from_offset, to_offset)) {
        return false;
    }
    first = (uint32_t)(from_offset / stripe_bytes(from) % width);
    other = (uint32_t)(to_offset / stripe_bytes(to) % width);
    for (uint32_t i = 0; i < width; i++) {
        if (!same_place(from, (first + i) % width, to, (other + i) % width)) {
            return false;
        }
    }
    return true;
}

bool file_may_align(const struct file *from, const struct file *to, uint64_t from_offset,
                    uint64_t to_offset)
{
    uint64_t size_lock = stripe_bytes(to) * file_stripe(to)->width;

    return !file_is_scavenged(from) && !file_is_scavenged(to) &&
           same_stripes(from, to, from_offset, to_offset) &&
           file_has_copies(from) == file_has_copies(to) &&
           file_layout_class(from) == file_layout_class(to) &&
           from_offset % size_lock == to_offset % size_lock && file_is_blank(to) &&
           !durable_is_unsynced(to);
}

static void send_more(struct file_copy *copy);

static void copy_part_done(struct file_copy *copy, int status)
{
    if (status != 0 && copy->status == 0) {
        copy->status = status;
    }
    send_more(copy);
    if (--copy->waiting > 0) {
        return;
    }
    copy->done(copy, copy->status);
}

static void on_copied(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct file_copy_piece *piece = call->data;
    struct file *to = piece->copy->to;

    piece->active = false;
    if (status != 0 && status != MORSEL_CANCELED) {
        log_error(to->client->options.log, "inode %lu: server at %s did not copy: %s",
                  (unsigned long)to->inode, column_address(call), column_why(status, reply));
    }
    copy_part_done(piece->copy, status);
}

/* The next stretch within one stripe. */
static int send_piece(struct file_copy_piece *piece)
{
    struct file_copy *copy = piece->copy;
    struct file *to = copy->to;
    uint64_t left = copy->length - copy->sent;
    struct stripe_run source =
        stripe_run_at(file_stripe(copy->from), copy->from_offset + copy->sent,
                      left < FRAME_PAYLOAD_BYTES_MAX ? left : FRAME_PAYLOAD_BYTES_MAX);
    struct stripe_run target =
        stripe_run_at(file_stripe(to), copy->to_offset + copy->sent, source.length);
    Morsel__CopyRequest request = MORSEL__COPY_REQUEST__INIT;
    Morsel__ObjectId from = column_object(&copy->from->columns, source.column);
    Morsel__ObjectId into = column_object(&to->columns, target.column);

    request.from = &from;
    request.from_offset = source.object_offset;
    request.to = &into;
    request.to_offset = target.object_offset;
    request.length = (uint32_t)target.length;
    copy->sent += target.length;
    piece->call.columns = &to->columns;
    piece->call.column = target.column;
    piece->call.data = piece;
    piece->call.exclusive = true; /* Of a shared file nothing is copied here. */
    return column_start(&piece->call, COLUMN_CHANGE, MSG_COPY, &request.base, NULL, on_copied);
}

static void send_more(struct file_copy *copy)
{
    for (unsigned i = 0; i < FILE_COPY_PIECES_MAX; i++) {
        struct file_copy_piece *piece = &copy->pieces[i];

        if (copy->status != 0 || copy->sent == copy->length) {
            return;
        }
        if (!piece->active) {
            int rv;

            piece->copy = copy;
            rv = send_piece(piece);
            piece->active = rv == 0;
            copy->waiting += rv == 0;
            copy->status = rv;
        }
    }
}

void file_copy_start(struct file_copy *copy, void (*done)(struct file_copy *copy, int status))
{
    copy->done = done;
    copy->sent = 0;
    copy->status = 0;
    copy->waiting = 1;
    copy_part_done(copy, 0);
}

void file_copy_cancel(struct file_copy *copy)
{
    for (unsigned i = 0; i < FILE_COPY_PIECES_MAX; i++) {
        if (copy->pieces[i].active) {
            column_cancel(&copy->pieces[i].call);
        }
    }
}
