/* Flush and sync of a file: what is dirty drains; then, in parallel, the manager hears of the new
 * size and, if the flush is to be durable, each server that got data syncs its object. */
#include "client/data/file_uv.h"

#include "client/coherence/data_versions.h"
#include "client/coherence/lease_uv.h"
#include "client/coherence/meta_cache.h"
#include "client/coherence/size_lock_uv.h"
#include "client/data/durable_uv.h"
#include "client/data/size_uv.h"
#include "client/manager/behind_uv.h"

#include "common/base/status.h"
#include "data.pb-c.h"

#include <stdlib.h>

/* Does it lie elsewhere than where it was asked for until now, as the manager says with `place`? Then that is all that this
 * answer tells of its bytes: what is recorded of them is of other servers. */
static bool is_elsewhere(struct file *file, uint32_t place)
{
    bool elsewhere = place != PLACE_UNKNOWN && place != file_place(file);

    if (elsewhere && file_astray(file) == 0) {
        log_info(file->client->options.log,
                 "inode %lu: its bytes were moved (morsel recopy), and are synced where they are",
                 (unsigned long)file->inode);
        file_lose_place(file);
    }
    return elsewhere;
}

static void flush_fail(struct file_flush *flush, int status)
{
    if (flush->status == 0) {
        flush->status = status;
    }
}

static void flush_end(struct file_flush *flush)
{
    struct file *file = flush->file;

    /* Who was interrupted is told that, and asks again. */
    if (flush->handle != NULL && flush->durable && flush->status != MORSEL_CANCELED) {
        flush_fail(flush, file_take_sync_error(flush->handle));
        flush_fail(flush, durable_take_loss(flush->handle));
    }
    free(flush->syncs);
    if (flush->done != NULL) {
        flush->done(flush, flush->status);
    } else {
        free(flush); /* The tick's own. */
    }
    file_unpin(file);
}

static int begin(struct file_flush *flush);

struct flush_look
{
    struct size_ask ask;
    struct file_flush *flush;
};

static void on_found(struct size_ask *ask, int status)
{
    struct flush_look *look = CONTAINER_OF(ask, struct flush_look, ask);
    struct file_flush *flush = look->flush;

    free(look);
    flush->look = NULL;
    flush->found = true;
    if (status == 0) {
        status = begin(flush);
    }
    if (status != 0) {
        file_pin(flush->file);
        flush_fail(flush, status);
        flush_end(flush);
    }
}

/* What was synced is what the file had before it moved. A handle that waits keeps the file, which must not be pinned
 * while it is looked for. */
static bool look(struct file_flush *flush)
{
    flush->look = calloc(1, sizeof(*flush->look));
    if (flush->look == NULL) {
        return false;
    }
    free(flush->syncs);
    flush->syncs = NULL;
    flush->look->flush = flush;
    file_unpin(flush->file);
    size_ask_start(&flush->look->ask, flush->file, on_found);
    return true;
}

static void flush_part_done(struct file_flush *flush)
{
    CHECK(flush->waiting > 0);
    if (--flush->waiting > 0) {
        return;
    }
    if (flush->elsewhere) {
        durable_unlisted(flush);
    }
    if (flush->elsewhere && flush->status == 0 && flush->handle != NULL && !flush->found &&
        look(flush)) {
        return;
    }
    flush_fail(flush, flush->elsewhere ? MORSEL_STALE : flush->sync_status);
    if (flush->durable) {
        durable_compare(flush);
    }
    flush_end(flush);
}

/* The manager has on its disk what was asked of it; has the file changed its shape since? */
static void note_shape_synced(struct file_flush *flush)
{
    flush->file->durable.shape_synced =
        flush->file->shape.size <= flush->synced_size && !flush->file->shape.report.news.sparse;
}

void file_note_unreported(struct file *file)
{
    report_note(&file->shape.report, uv_now(file->client->loop));
    file_note_dirty(file);
}

static void tell_manager(struct file_flush *flush);

/* Those who waited for the end of a report: it said all that they wanted said, unless there is more
 * news (which the first of them may be reporting now), or they want it durable. */
static void report_waits_end(struct file_flush *reported, int status)
{
    struct file *file = reported->file;
    struct list ended;

    list_init(&ended);
    while (!list_empty(&file->shape.report_waits)) {
        list_push_back(&ended, list_pop_front(&file->shape.report_waits));
    }
    while (!list_empty(&ended)) {
        struct file_flush *flush =
            LIST_ENTRY(list_pop_front(&ended), struct file_flush, report_wait);

        if (status != 0 && status != MORSEL_CANCELED) {
            flush_fail(flush, status);
        } else if (status == 0 && file_astray(file) != 0) {
            flush_fail(flush, file_astray(file));
        } else if (file->shape.report.state != REPORT_CLEAN ||
                   (flush->durable && !reported->durable)) {
            tell_manager(flush);
        } else if (flush->durable) {
            durable_listed_too(flush, reported);
        }
        flush_part_done(flush);
    }
}

/* Of a deleted file nobody wants to know. What those are told who wait for it: why it is refused for good is no matter of
 * theirs, some may only have read. */
static int report_refused(struct file_flush *flush, int status)
{
    struct file *file = flush->file;
    bool again = behind_is_passing(status) || status == MORSEL_CANCELED;
    bool deleted = status == MORSEL_NOENT || status == MORSEL_STALE;

    if (!file->shape.report.complained && !deleted && status != MORSEL_CANCELED) {
        log_warning(file->client->options.log,
                    "inode %lu: manager %s did not take its new size of %lu bytes: %s%s",
                    (unsigned long)file->inode, rpc_peer_address(file->client->manager),
                    (unsigned long)file->shape.size, status_words(status),
                    again ? "; trying again" : "; whoever has it open is told EIO");
        file->shape.report.complained = true;
    }
    if (again) {
        /* It is still news; the next flush or tick tries again. */
        report_again(&file->shape.report, &flush->said, uv_now(file->client->loop));
        file_note_dirty(file);
    } else if (!deleted && (status != MORSEL_TOO_LATE || file->shape.write_back)) {
        file_fail(file, MORSEL_IO); /* Otherwise file_lose() has. */
        file->shape.write_back = false;
        status = status == MORSEL_TOO_LATE ? status : MORSEL_IO;
    }
    flush_fail(flush, status);
    return status;
}

/* It was closed again while its size was on its way. */
static void report_next(struct file *file)
{
    bool due = file->shape.report.due;

    file->shape.report.due = false;
    if (due && report_has_news(&file->shape.report) && !file->shape.report.complained) {
        file_report(file);
    }
}

/* A time that was set by hand since the report was made may have overtaken it, for attributes go
 * before what waits for its turn. Then the report has undone it. */
static void set_mtime_again(const struct file_flush *flush, const Morsel__Attr *attr)
{
    struct file *file = flush->file;
    struct attr_change change = { .valid = SETATTR_MTIME, .mtime_ns = file->shape.mtime_ns };

    if (flush->mtime_sets == file->shape.mtime_sets || report_has_news(&file->shape.report) ||
        !lease_is_for_writing(file->client, file->inode)) {
        return;
    }
    change.set_ns = attr->ctime_ns;
    change.lease_epoch = lease_epoch(file->client);
    if (!behind_set(file->client, file->inode, &change)) {
        file_note_unreported(file);
    }
}

/* What it tells of went to where nobody looks, or may have been written there behind the copy. */
static void went_astray(struct file_flush *flush)
{
    struct file *file = flush->file;

    flush_fail(flush, file_astray(file));
    if (flush->named) {
        durable_lost(file, "the file was moved (morsel recopy) while this mount was not heard");
    }
}

static void on_reported(struct meta_call *call, int status, void *message)
{
    struct file_flush *flush = call->data;
    struct file *file = flush->file;
    Morsel__Node *node = message;

    if (status == 0 && node->attr == NULL) {
        status = MORSEL_MALFORMED;
    }
    report_end(&file->shape.report);
    if (status == 0 && !file_is_dirty(file)) {
        file->shape.write_back = false;
    }
    if (status == 0 && flush->durable && !is_elsewhere(file, node->attr->place)) {
        note_shape_synced(flush);
        durable_listed(flush, node->unsynced, node->n_unsynced);
    }
    if (status == 0) {
        file->shape.report.complained = false;
        behind_note_progress(file->client);
        data_version_advance(file->client->data.versions, file->inode, node->attr->data_version);
        file_refresh(file, node->attr);
        size_lock_note_size(file->client, file->inode, node->attr->size);
        meta_cache_wrote(file->client->cache, file->inode, file->shape.mtime_ns,
                         file->shape.ctime_ns);
        set_mtime_again(flush, node->attr);
        if (file_astray(file) != 0) {
            went_astray(flush);
        }
    } else {
        status = report_refused(flush, status);
    }
    if (flush->done == NULL) {
        behind_note_report(file->client, -1);
    }
    report_waits_end(flush, status);
    report_next(file);
    flush_part_done(flush);
}

enum { OWN_MAX = STRIPE_WIDTH_MAX * UNSYNCED_OWN_MAX };

/* Under which verifiers the bytes were written that are not synced: whoever else syncs the file
 * must know. */
static size_t list_unsynced(struct file *file, Morsel__Unsynced *columns,
                            Morsel__Unsynced **pointers)
{
    size_t count = 0;

    for (uint32_t i = 0; i < file_stripe(file)->width; i++) {
        uint64_t verifiers[UNSYNCED_OWN_MAX];
        uint32_t own = unsynced_verifiers(file->durable.unsynced, i, verifiers);

        for (uint32_t j = 0; j < own; j++) {
            morsel__unsynced__init(&columns[count]);
            columns[count].column = i;
            columns[count].verifier = verifiers[j];
            pointers[count] = &columns[count];
            count++;
        }
        unsynced_listed(file->durable.unsynced, i);
    }
    return count;
}

/* Attributes that were set behind are part of what is synced, unless only the data is wanted. */
static inode_id covered_by(const struct file_flush *flush)
{
    return flush->durable && !flush->data_only ? flush->file->inode : INODE_NONE;
}

static void start_report(struct file_flush *flush)
{
    Morsel__SizeReportRequest request = MORSEL__SIZE_REPORT_REQUEST__INIT;
    Morsel__Unsynced columns[OWN_MAX], *pointers[OWN_MAX];
    struct file *file = flush->file;
    /* Beyond a truncation that is not made yet there is only news for the next report. */
    uint64_t limit = file_truncate_limit(file);
    int rv;

    flush->said = report_say(&file->shape.report, limit);
    flush->synced_size = limit == UINT64_MAX ? file->shape.size : 0;
    flush->mtime_sets = file->shape.mtime_sets;
    request.inode = file->inode;
    request.size = flush->said.end;
    request.truncates = flush->said.truncated;
    request.truncate_size = flush->said.truncate_size;
    request.tail_clean = flush->said.tail_clean;
    request.mtime_ns = file->shape.mtime_ns;
    request.durable = flush->durable;
    request.sparse = flush->said.sparse;
    request.reach = file->shape.reach;
    request.strips_ids = flush->said.strips_ids;
    request.place = file_place(file);
    if (!flush->durable) {
        request.n_unsynced = list_unsynced(file, columns, pointers);
        request.unsynced = pointers;
        file->durable.listed |= request.n_unsynced > 0;
    }
    flush->named = request.n_unsynced > 0;
    flush->report.data = flush;
    flush->report.bounded = true;
    flush->report.covers = covered_by(flush);
    flush->waiting++;
    rv = meta_change_start(&flush->report, file->client, MSG_SIZE_REPORT, &request.base,
                           &request.op, &morsel__node__descriptor, on_reported);
    if (rv != 0) {
        flush_fail(flush, rv);
        flush->waiting--;
        return;
    }
    report_sent(&file->shape.report, &flush->said, limit, uv_now(file->client->loop));
    if (flush->done == NULL) {
        behind_note_report(file->client, 1);
    }
}

static void on_meta_synced(struct meta_call *call, int status, void *message)
{
    struct file_flush *flush = call->data;
    const Morsel__FsyncReply *reply = message;

    if (status != 0) {
        flush_fail(flush, status);
    } else if (is_elsewhere(flush->file, reply->place)) {
        flush->elsewhere = true;
    } else {
        note_shape_synced(flush);
        durable_listed(flush, reply->unsynced, reply->n_unsynced);
    }
    flush_part_done(flush);
}

/* Nothing to report, but the file's existence must be durable too. */
static void start_meta_sync(struct file_flush *flush)
{
    Morsel__FsyncRequest request = MORSEL__FSYNC_REQUEST__INIT;
    int rv;

    request.inode = flush->file->inode;
    flush->report.data = flush;
    flush->report.covers = covered_by(flush);
    flush->synced_size = flush->file->shape.size;
    flush->waiting++;
    rv = meta_call_start(&flush->report, flush->file->client, MSG_FSYNC, &request.base,
                         &morsel__fsync_reply__descriptor, on_meta_synced);
    if (rv != 0) {
        flush_fail(flush, rv);
        flush->waiting--;
    }
}

static void on_synced(struct column_call *call, int status, struct rpc_reply *reply)
{
    struct file_flush *flush = call->data;
    struct file *file = flush->file;

    if (status != 0) {
        log_error(file->client->options.log, "inode %lu: server %u (%s) did not sync: %s",
                  (unsigned long)file->inode, file_server(file, call->column), column_address(call),
                  column_why(status, reply));
        flush->sync_status = status;
    }
    flush_part_done(flush);
}

static void start_sync(struct file_flush *flush, uint32_t column)
{
    Morsel__SyncRequest request = MORSEL__SYNC_REQUEST__INIT;
    Morsel__ObjectId object = column_object(&flush->file->columns, column);
    struct column_call *sync = &flush->syncs[column];
    int rv;

    request.object = &object;
    *sync =
        (struct column_call){ .columns = &flush->file->columns, .column = column, .data = flush };
    flush->waiting++;
    rv = column_start(sync, COLUMN_SYNC, MSG_SYNC, &request.base, NULL, on_synced);
    if (rv == MORSEL_STALE && file_astray(flush->file) == MORSEL_STALE) {
        flush->elsewhere = true;
        flush->waiting--;
    } else if (rv != 0) {
        flush_fail(flush, rv);
        flush->waiting--;
    }
}

static void on_set_synced(struct set_sync *sync, int status)
{
    struct file_flush *flush = CONTAINER_OF(sync, struct file_flush, set_sync);

    if (status != 0) {
        flush_fail(flush, status);
    }
    flush_part_done(flush);
}

static void start_set_sync(struct file_flush *flush)
{
    int rv = set_sync_start(&flush->set_sync, flush->file->set, on_set_synced);

    if (rv == MORSEL_AGAIN) {
        flush->waiting++;
    } else if (rv != 0) {
        flush_fail(flush, rv);
    }
}

/* What the manager is to hear, once the bytes are with the servers. */
static void tell_manager(struct file_flush *flush)
{
    struct file *file = flush->file;
    bool behind = flush->behind;

    if (flush->reported) {
        return; /* What is news since the beginning is not what was asked for. */
    }
    if (!flush->durable && !report_has_news(&file->shape.report) &&
        unsynced_is_unlisted(file->durable.unsynced)) {
        /* A server has acknowledged bytes behind the report that had their size. No close waits for
         * that; a recall does. */
        file_note_unreported(file);
        behind |= flush->handle != NULL;
    }
    if (behind && file->shape.report.state == REPORT_BOTH) {
        file->shape.report.due = true;
    } else if (behind && file->shape.report.state == REPORT_NEWS) {
        file_report(file);
    } else if (!behind && report_is_busy(&file->shape.report)) {
        flush->waiting++;
        list_push_back(&file->shape.report_waits, &flush->report_wait);
    } else if (file->shape.report.state == REPORT_NEWS) {
        start_report(flush);
    } else if (flush->durable) {
        start_meta_sync(flush);
    }
}

/* What has gone wrong with the bytes that the flush stands for. A sync takes it at its end. Another
 * flush of the same handle may have taken it. */
static int failure_of(struct file_flush *flush)
{
    struct file *file = flush->file;
    int error = 0;

    if (flush->handle == NULL) {
        return 0;
    }
    error = flush->durable  ? flush->handle->error
            : flush->closes ? file_take_close_error(flush->handle)
                            : file_take_error(flush->handle);
    return error == 0 && file_failures(file) != flush->failures ? file_last_failure(file) : error;
}

static void on_drained(struct file_drain *drain)
{
    struct file_flush *flush = CONTAINER_OF(drain, struct file_flush, drain);
    struct file *file = flush->file;

    flush_fail(flush, failure_of(flush));
    if (flush->status != 0) {
        /* Whoever waits is told now, and not after another time-out; what is news the tick tells.
         */
        flush_part_done(flush);
        return;
    }
    tell_manager(flush);
    if (file_is_shared(file)) {
        unsynced_forget(file->durable.unsynced);
    }
    if (flush->durable && file_is_scavenged(file)) {
        start_set_sync(flush);
    }
    for (uint32_t i = 0; flush->durable && !file_is_scavenged(file) && i < file_stripe(file)->width;
         i++) {
        if (unsynced_is(file->durable.unsynced, i)) {
            start_sync(flush, i);
        }
    }
    flush_part_done(flush);
}

static int begin(struct file_flush *flush)
{
    struct file *file = flush->file;
    bool durable = flush->durable;

    flush->status = flush->sync_status = 0;
    flush->named = flush->elsewhere = false;
    flush->waiting = 1; /* Let go in on_drained(). */
    /* Times may stay behind: nobody needs them to read the data (fdatasync(2)). */
    flush->reported = durable && flush->data_only && file->durable.shape_synced &&
                      !file->durable.listed && !file_is_shared(file) && !file_is_scavenged(file);
    flush->syncs = NULL;
    flush->set_sync.running = false;
    flush->listed = NULL;
    flush->listed_count = 0;
    flush->failures = file_failures(file);
    if (durable) {
        flush->syncs = calloc(file_stripe(file)->width, sizeof(flush->syncs[0]));
        if (flush->syncs == NULL) {
            return MORSEL_NOMEM;
        }
    }
    flush->drain.done = on_drained;
    list_init(&flush->drain.node);
    list_init(&flush->report_wait);
    file_pin(file);
    if (durable && !flush->reported && file->shape.report.state == REPORT_NEWS &&
        file_has_chunks(file) && file_truncate_limit(file) == UINT64_MAX && !file_is_shared(file) &&
        !file_is_scavenged(file)) {
        /* At the same time as the bytes: a crash in between shows zeros where a write that nobody
         * was told of was going to be. Nobody else may look before they are there. */
        flush->reported = true;
        start_report(flush);
    }
    if (file_drain(file, &flush->drain, durable)) {
        on_drained(&flush->drain);
    }
    return MORSEL_OK;
}

int file_flush_start(struct file_flush *flush, struct file *file, struct handle *handle,
                     bool durable, void (*done)(struct file_flush *flush, int status))
{
    flush->file = file;
    flush->handle = handle;
    flush->durable = durable;
    flush->done = done;
    flush->found = false;
    flush->look = NULL;
    return begin(flush);
}

void file_flush_cancel(struct file_flush *flush)
{
    struct file *file = flush->file;
    unsigned left = 0;

    if (flush->look != NULL) {
        size_ask_cancel(&flush->look->ask);
        return;
    }
    if (flush->waiting == 0) {
        return;
    }
    flush_fail(flush, MORSEL_CANCELED);
    for (uint32_t i = 0; flush->syncs != NULL && i < file_stripe(file)->width; i++) {
        column_cancel(&flush->syncs[i]);
    }
    meta_call_cancel(&flush->report);
    if (!list_empty(&flush->drain.node)) {
        list_remove(&flush->drain.node);
        left++;
    }
    if (!list_empty(&flush->report_wait)) {
        list_remove(&flush->report_wait);
        left++;
    }
    left += set_sync_leave(&flush->set_sync);
    while (left-- > 0) {
        flush_part_done(flush); /* The last may free it. */
    }
}

void file_report(struct file *file)
{
    struct file_flush *flush = calloc(1, sizeof(*flush));

    if (flush != NULL && file_flush_start(flush, file, NULL, false, NULL) != 0) {
        free(flush); /* The next tick tries again. */
    }
}
