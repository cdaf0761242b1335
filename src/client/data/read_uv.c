/* Reading: what programs ask for is put together from fetches (fetch_uv.h). */
#include "client/data/read_uv.h"

#include "common/base/status.h"

#include <string.h>
#include <sys/uio.h>

static const uint8_t zeros[FETCH_BYTES_MAX];

static void part_done(struct file_read *read, int status)
{
    if (status != 0 && read->status == 0) {
        read->status = status;
    }
    CHECK(read->missing > 0);
    if (--read->missing == 0) {
        read_bytes_done(read, read->status);
    }
}

static void on_fetched(struct fetch_wait *wait, int status)
{
    part_done(CONTAINER_OF(wait, struct file_read_part, wait)->read, status);
}

/* `fetch` NULL: nothing of it is needed. */
static void add_part(struct file_read *read, struct fetch *fetch, uint64_t offset, uint32_t length)
{
    struct file_read_part *part = &read->parts[read->parts_count++];

    part->read = read;
    part->fetch = fetch;
    part->length = length;
    part->wait.done = on_fetched;
    list_init(&part->wait.node);
    if (fetch == NULL) {
        return;
    }
    fetch->references++;
    part->skip = offset - fetch->offset;
    if (!fetch->done) {
        list_push_back(&fetch->waiters, &part->wait.node);
        read->missing++;
    }
}

/* Cut the request into parts that each lie in one fetch. */
static int make_parts(struct file_read *read, bool sequential)
{
    struct file *file = read->file;
    uint64_t offset = read->offset, end = read->offset + read->length;
    int status = MORSEL_OK;

    while (offset < end && read->parts_count < FILE_READ_PARTS_MAX) {
        struct fetch *fetch = fetch_find(file, offset);
        uint64_t part_end = read_over_until(read, offset);
        bool own = false;

        if (part_end > offset) {
            add_part(read, NULL, offset, (uint32_t)(part_end - offset));
            offset = part_end;
            continue;
        }
        if (fetch == NULL && sequential) {
            fetch = fetch_get(file, offset, false, &status);
        }
        if (fetch == NULL && (!sequential || status == MORSEL_AGAIN)) {
            part_end = fetch_end(file, offset, end);
            fetch = fetch_new(file, read->shared ? COLUMN_READ_PRIMARY : COLUMN_READ_ANY, offset,
                              part_end - offset, &status);
            own = true;
        }
        if (fetch == NULL) {
            return status;
        }
        part_end = fetch->offset + fetch->length < end ? fetch->offset + fetch->length : end;
        add_part(read, fetch, offset, (uint32_t)(part_end - offset));
        if (own) {
            fetch_drop(fetch); /* The part's reference is enough. */
        }
        offset = part_end;
    }
    return status;
}

static void clip(struct file_read *read)
{
    if (!read->shared) {
        read->size = file_size(read->file);
    }
    if (read->offset >= read->size) {
        read->length = 0;
    } else if (read->length > read->size - read->offset) {
        read->length = (uint32_t)(read->size - read->offset);
    }
}

static void read_go(struct file_read *read)
{
    struct file *file = read->file;
    struct read_ahead_advice advice = { .sequential = false };
    struct read_ahead_clock clock;
    int rv;

    clip(read);
    read->missing = 1; /* Let go below, so that `done` does not run in the middle. */
    if (read->length > 0) {
        if (read->shared) {
            file_forget(file, 0, UINT64_MAX);
        } else {
            clock.now_us = uv_hrtime() / 1000;
            /* Of a set the window is what keeps all of its benefactors at work. */
            clock.fetch_us =
                file_is_scavenged(file) ? 0 : (uint32_t)(fetches_time_ns(file->client) / 1000);
            advice = read_ahead_step(&read->handle->ahead, &clock, read->offset, read->length);
        }
        rv = make_parts(read, advice.sequential);
        if (rv != 0) {
            read->status = rv;
        } else {
            fetch_ahead(read->handle, &advice, read->length);
        }
    }
    part_done(read, 0);
}

static void on_drained(struct file_drain *drain)
{
    read_go(CONTAINER_OF(drain, struct file_read, drain));
}

/* Of a file that is ours alone; the servers know better about others. */
static bool take_dirty(struct file_read *read)
{
    clip(read);
    return !read->shared && (read->length == 0 || read_over_take(read));
}

void read_bytes_start(struct file_read *read)
{
    struct file *file = read->handle->file;

    read->file = file;
    read->length = read->wanted;
    read->parts_count = 0;
    read->status = MORSEL_OK;
    read->over = NULL;
    file_pin(file);
    file->client->counters.reads++;
    read->drain.done = on_drained;
    list_init(&read->drain.node);
    if (file_range_is_dirty(file, read->offset, read->length) && !take_dirty(read) &&
        !file_drain(file, &read->drain, false)) {
        return; /* What was written here must be there first. */
    }
    read_go(read);
}

/* A fetch for which nobody waits is given up; who comes now begins another one. */
static void leave_fetch(struct file_read_part *part)
{
    struct fetch *fetch = part->fetch;

    list_remove(&part->wait.node);
    if (list_empty(&fetch->waiters)) {
        fetch_cancel(fetch);
        fetch_unlist(fetch); /* The part keeps it. */
    }
}

void read_bytes_cancel(struct file_read *read)
{
    unsigned left = 0;

    if (!list_empty(&read->drain.node)) {
        list_remove(&read->drain.node);
        read->missing = left = 1;
        read->length = 0;
    }
    for (unsigned i = 0; i < read->parts_count; i++) {
        if (!list_empty(&read->parts[i].wait.node)) {
            leave_fetch(&read->parts[i]);
            left++;
        }
    }
    while (left-- > 0) {
        part_done(read, MORSEL_CANCELED); /* The last may free it. */
    }
}

/* How many bytes of the part the server had. */
static uint64_t part_has(const struct file_read_part *part)
{
    uint64_t count = part->fetch == NULL ? 0 : part->fetch->bytes_count;
    uint64_t have = count <= part->skip ? 0 : count - part->skip;

    return have > part->length ? part->length : have;
}

bool read_bytes_are_short(const struct file_read *read)
{
    for (unsigned i = 0; i < read->parts_count; i++) {
        if (part_has(&read->parts[i]) < read->parts[i].length) {
            return true;
        }
    }
    return false;
}

static unsigned gather_part(const struct file_read_part *part, struct iovec *iov)
{
    uint64_t have = part_has(part);
    unsigned count = 0;

    if (have > 0) {
        iov[count++] =
            (struct iovec){ (uint8_t *)(uintptr_t)part->fetch->bytes + part->skip, have };
    }
    if (have < part->length) {
        iov[count++] = (struct iovec){ (uint8_t *)(uintptr_t)zeros, part->length - have };
    }
    return count;
}

unsigned file_read_gather(const struct file_read *read, struct iovec *iov)
{
    unsigned count = 0;

    for (unsigned i = 0; i < read->parts_count; i++) {
        count += gather_part(&read->parts[i], iov + count);
    }
    return read->over != NULL ? read_over_gather(read, zeros, iov, count) : count;
}

void read_bytes_end(struct file_read *read)
{
    struct file *file = read->file;

    file->client->counters.read_bytes += read->length;
    for (unsigned i = 0; i < read->parts_count; i++) {
        struct file_read_part *part = &read->parts[i];

        list_remove(&part->wait.node);
        if (part->fetch == NULL) {
            continue;
        }
        part->fetch->used += part->length;
        /* A sequential reader has been through it: make room for what comes. */
        if (part->fetch->used >= part->fetch->length) {
            fetch_unlist(part->fetch);
        }
        fetch_drop(part->fetch);
    }
    read_over_free(read);
    file_unpin(file);
}
