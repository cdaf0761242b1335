/* Between files and their data sets: what the class of a file decides (file_uv.h). */
#include "client/data/chunk_uv.h"
#include "client/data/fetch_uv.h"

#include "common/base/status.h"
#include "common/fs/placing.h"

#include <string.h>

enum { SCAVENGED_AHEAD_BYTES_MAX = 160 << 20 };

/* As the manager tells it with attributes (Attr.place). */
static uint32_t place_of(const struct columns *columns, const Morsel__Layout *layout)
{
    static const uint32_t nowhere[STRIPE_WIDTH_MAX];
    const struct placing placing = { .body = columns->body,
                                     .layout_class = columns->layout_class,
                                     .replicas = layout->replicas,
                                     .stripe = { .morsel_bytes = layout->morsel_bytes,
                                                 .stripe_morsels = layout->stripe_morsels,
                                                 .width = layout->width },
                                     .columns = nowhere };

    return placing_place(&placing);
}

int scavenged_take_layout(struct file *file, const Morsel__Layout *layout, bool blank)
{
    struct stripe stripe = { layout->morsel_bytes, layout->stripe_morsels, layout->width };
    uint64_t number = layout->body != INODE_NONE ? layout->body : file->inode;
    struct data_set *set = file->set;

    if (!stripe_valid(&stripe) || layout->n_servers > 0 || layout->n_groups > 0) {
        return MORSEL_CORRUPT;
    }
    if (set == NULL || data_set_number(set) != number) {
        int rv = data_set_new(file->client, file->inode, number, layout->morsel_bytes, blank, &set);

        if (rv != 0) {
            return rv;
        }
        data_set_drop(file->set);
        file->set = set;
    }
    if (layout->sealed) {
        data_set_note_sealed(set);
    }
    file->columns.body = number;
    file->columns.layout_class = layout->class_;
    file->columns.stripe =
        (struct stripe){ layout->morsel_bytes, 1, 1 }; /* A chunk is in one morsel. */
    memset(file->columns.servers, 0, sizeof(file->columns.servers));
    memset(file->columns.groups, 0, sizeof(file->columns.groups));
    file->dealt = stripe;
    file->place = place_of(&file->columns, layout);
    file->columns.astray = 0;
    return MORSEL_OK;
}

/* A stripe of each benefactor to which stripes are dealt, and a morsel more: all of them have something to do. */
static uint64_t dealt_bytes(const struct file *file, uint32_t more_morsels)
{
    const struct stripe *dealt = &file->dealt;

    return ((uint64_t)dealt->width * dealt->stripe_morsels + more_morsels) * dealt->morsel_bytes;
}

uint32_t file_ahead_bytes(const struct file *file)
{
    uint32_t bytes = file->client->options.read_ahead_bytes;
    uint64_t wanted = file_is_scavenged(file) ? dealt_bytes(file, file->dealt.width) : 0;

    if (bytes == 0 || wanted <= bytes) {
        return bytes; /* 0: nothing is to be fetched ahead. */
    }
    return wanted < SCAVENGED_AHEAD_BYTES_MAX ? (uint32_t)wanted : SCAVENGED_AHEAD_BYTES_MAX;
}

/* One of the morsels more is its own; the others are heads of stripes (stripe_heads.h). */
uint32_t file_window(const struct file *file)
{
    uint32_t bytes = file_ahead_bytes(file), least = file->client->options.read_ahead_bytes;
    uint64_t wanted = file_is_scavenged(file) ? dealt_bytes(file, 1) : 0;

    if (wanted >= bytes || bytes == SCAVENGED_AHEAD_BYTES_MAX) {
        return bytes;
    }
    return wanted > least ? (uint32_t)wanted : least;
}

/* ---- Writing ---- */

bool scavenged_has_room(const struct file *file)
{
    return file->buffer.sending < SCAVENGED_SENDING_MAX;
}

static const char *words_of(int status)
{
    switch (status) {
    case MORSEL_NOSPC:
        return "no benefactor has room; \"morsel donors\" says what they give";
    case MORSEL_DQUOT:
        return "a data set may have a third of what all benefactors give (\"morsel donors\")";
    case MORSEL_BUSY:
        return "another mount stores the file";
    case MORSEL_PERM:
        return "it is sealed, or the mount that stored it is gone; truncated to zero it begins "
               "anew";
    default:
        return status_words(status);
    }
}

static void on_written(struct set_write *write, int status)
{
    struct chunk *chunk = CONTAINER_OF(write, struct chunk, set_write);
    struct file *file = chunk->file;

    if (status == 0) {
        chunk_landed(chunk);
    } else {
        log_error(file->client->options.log,
                  "inode %lu: %lu bytes at %lu were not stored on benefactors: %s",
                  (unsigned long)file->inode, (unsigned long)chunk->length,
                  (unsigned long)chunk->offset, words_of(status));
        chunk_lost(chunk, status);
    }
    chunk_end(chunk);
}

int scavenged_write(struct chunk *chunk)
{
    if (file_astray(chunk->file) != 0) {
        return file_astray(chunk->file);
    }
    chunk->set_write = (struct set_write){ .payload = chunk->payload,
                                           .payload_offset = chunk->payload_offset,
                                           .offset = chunk->offset,
                                           .length = (uint32_t)chunk->length };
    return set_write_start(&chunk->set_write, chunk->file->set, on_written);
}

int scavenged_may_change(const struct file *file)
{
    return data_set_is_sealed(file->set) ? MORSEL_PERM : MORSEL_OK;
}

int scavenged_may_range(const struct file *file, enum range_kind kind)
{
    if (kind == RANGE_TRUNCATE) {
        return MORSEL_OK; /* The manager cuts its map, or says that it may not be. */
    }
    return scavenged_may_change(file) != 0 ? MORSEL_PERM : MORSEL_NOTSUP;
}

int scavenged_hold(struct file *file, struct set_hold *hold,
                   void (*done)(struct set_hold *hold, int status))
{
    return set_hold_start(hold, file->set, done);
}

void scavenged_resized(struct file *file, uint64_t size, const Morsel__Layout *layout)
{
    file_forget(file, 0, UINT64_MAX); /* What was fetched meanwhile is of before. */
    data_set_cut(file->set, size);
    file_pin(file);
    file_find_place(file, layout);
    file_unpin_and_leave(file);
}

void scavenged_may_be_cut(struct file *file)
{
    file_forget(file, 0, UINT64_MAX);
    data_set_forget(file->set);
}

bool scavenged_seal(struct handle *handle, void (*done)(void *data, int status), void *data)
{
    struct file *file = handle->file;

    if (!file_is_scavenged(file) || !handle->writable || data_set_is_sealed(file->set) ||
        !data_set_is_stored_here(file->set) || !file_is_last_writer(handle)) {
        return false;
    }
    if (file_has_chunks(file) || file_failures(file) > 0) {
        log_warning(
            file->client->options.log,
            "inode %lu: it is not sealed, for bytes of it were not stored; write them again, or "
            "truncate it to zero",
            (unsigned long)file->inode);
        return false;
    }
    return set_seal_start(file->set, file_size(file), done, data) == 0;
}

/* ---- Reading ---- */

int scavenged_fetch(struct fetch *fetch, void (*done)(struct set_read *read, int status))
{
    if (file_astray(fetch->file) != 0) {
        return file_astray(fetch->file); /* It has another set by now. */
    }
    fetch->set_read = (struct set_read){ .set = fetch->file->set,
                                         .offset = fetch->offset,
                                         .length = (uint32_t)fetch->length,
                                         .fresh = fetch->kind == COLUMN_READ_PRIMARY };
    return set_read_start(&fetch->set_read, done);
}
