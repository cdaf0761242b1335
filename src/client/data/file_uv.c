/* The table of open files: opening, closing, sizes, what was lost. */
#include "client/data/file_uv.h"

#include "client/coherence/kernel_drop_uv.h"
#include "client/coherence/lease_uv.h"
#include "client/coherence/meta_cache.h"
#include "client/coherence/size_lock_uv.h"
#include "client/data/closes_uv.h"
#include "client/manager/changes.h"
#include "client/manager/servers_uv.h"

#include "common/base/status.h"
#include "common/fs/mode.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct files
{
    struct file *table; /* By inode. */
    const struct column_hooks *column_hooks;
    struct list dirty;
    struct list unsure;     /* Changed by calls whose end we do not know: file_note_end(). */
    struct list unreported; /* Opened without asking, and the manager does not know yet. */
};

struct file *file_find(struct client *client, inode_id inode)
{
    struct file *file;

    HASH_FIND(hh, client->data.files->table, &inode, sizeof(inode), file);
    return file;
}

/* A file with copies names a group for each column. */
static int layout_take_groups(struct file *file, const Morsel__Layout *layout)
{
    if (layout->replicas <= 1) {
        return layout->n_groups == 0 ? MORSEL_OK : MORSEL_CORRUPT;
    }
    if (layout->n_groups != file->columns.stripe.width) {
        return MORSEL_CORRUPT;
    }
    for (uint32_t i = 0; i < file->columns.stripe.width; i++) {
        int rv = client_groups_learn(file->client, layout->groups[i]);

        if (rv != MORSEL_OK) {
            return rv;
        }
        file->columns.groups[i] = layout->groups[i]->number;
    }
    return MORSEL_OK;
}

/* As the manager tells it with attributes (Attr.place). */
static uint32_t place_of(const struct columns *columns, uint32_t replicas)
{
    const struct placing placing = { .body = columns->body,
                                     .layout_class = columns->layout_class,
                                     .replicas = replicas,
                                     .stripe = columns->stripe,
                                     .columns = columns->groups[0] != 0 ? columns->groups
                                                                        : columns->servers };

    return placing_place(&placing);
}

static int layout_take(struct file *file, const Morsel__Layout *layout, bool blank)
{
    int rv;

    if (layout == NULL || (file->set != NULL && layout->class_ != CLASS_SCAVENGED)) {
        return MORSEL_CORRUPT; /* A file keeps its class. */
    }
    if (layout->class_ == CLASS_SCAVENGED) {
        return scavenged_take_layout(file, layout, blank);
    }
    file->columns.body = layout->body != INODE_NONE ? layout->body : file->inode;
    file->columns.layout_class = layout->class_;
    file->columns.stripe.morsel_bytes = layout->morsel_bytes;
    file->columns.stripe.stripe_morsels = layout->stripe_morsels;
    file->columns.stripe.width =
        layout->n_servers > STRIPE_WIDTH_MAX ? 0 : (uint32_t)layout->n_servers;
    if (!stripe_valid(&file->columns.stripe)) {
        return MORSEL_CORRUPT;
    }
    for (uint32_t i = 0; i < file->columns.stripe.width; i++) {
        file->columns.servers[i] = layout->servers[i];
        file->columns.groups[i] = 0;
    }
    rv = layout_take_groups(file, layout);
    if (rv == MORSEL_OK) {
        file->place = place_of(&file->columns, layout->replicas);
        file->columns.astray = 0;
    }
    return rv;
}

static int file_new(struct client *client, const Morsel__Attr *attr, const Morsel__Layout *layout,
                    struct file **file_out)
{
    struct files *files = client->data.files;
    struct file *file = calloc(1, sizeof(*file));
    int rv;

    *file_out = NULL;
    if (file == NULL) {
        return MORSEL_NOMEM;
    }
    file->client = client; /* Who knows the groups. */
    file->inode = file->columns.inode = attr->inode;
    rv = layout_take(file, layout, attr->size == 0 && attr->data_version == 0);
    if (rv != 0) {
        log_error(client->options.log,
                  "inode %lu has a layout that makes no sense; run \"morsel fsck\"",
                  (unsigned long)attr->inode);
        free(file);
        return rv;
    }
    file->durable.unsynced = unsynced_new(file->columns.stripe.width, attr->data_version == 0);
    if (file->durable.unsynced == NULL) {
        data_set_drop(file->set);
        free(file);
        return MORSEL_NOMEM;
    }
    file->columns.client = client;
    file->columns.hooks = files->column_hooks;
    file->shape.size = attr->size;
    file->shape.tail_unsure = attr->tail_unsure;
    file->durable.data_version = attr->data_version;
    list_init(&file->handles);
    list_init(&file->buffer.chunks);
    list_init(&file->lists.dirty);
    list_init(&file->buffer.room_node);
    list_init(&file->buffer.writers);
    list_init(&file->buffer.drains);
    list_init(&file->shape.report_waits);
    list_init(&file->fetched.slots);
    list_init(&file->lists.unreported);
    list_init(&file->lists.unsure);
    kernel_view_init(&file->kernel);
    HASH_ADD(hh, files->table, inode, sizeof(file->inode), file);
    if (!TABLE_ADDED(file)) {
        unsynced_free(file->durable.unsynced);
        data_set_drop(file->set);
        free(file);
        return MORSEL_NOMEM;
    }
    meta_cache_pin(client->cache, file->inode);
    *file_out = file;
    return MORSEL_OK;
}

static void file_free_if_done(struct file *file)
{
    struct client *client = file->client;

    if (file->pins > 0 || !list_empty(&file->handles) || report_has_news(&file->shape.report)) {
        return; /* What it has become goes to the manager first, however long that takes. */
    }
    CHECK(list_empty(&file->buffer.chunks) && list_empty(&file->buffer.writers) &&
          list_empty(&file->buffer.drains) && list_empty(&file->shape.report_waits));
    kernel_view_end(&file->kernel);
    file_forget(file, 0, UINT64_MAX);
    size_lock_let_go(client, file->inode);
    list_remove(&file->lists.dirty);
    list_remove(&file->buffer.room_node);
    HASH_DEL(client->data.files->table, file);
    list_remove(&file->lists.unreported);
    meta_cache_unpin(client->cache, file->inode);
    if (file->opened.reported || file->opened.counted) {
        client_close_inode(client, file->inode);
    }
    unsynced_free(file->durable.unsynced);
    data_set_drop(file->set);
    free(file);
}

void file_note_open_reported(struct file *file)
{
    file->opened.reported = true;
    list_remove(&file->lists.unreported);
}

void file_note_counted(struct file *file)
{
    file->opened.counted = true;
}

static void tell(struct file *file, bool told)
{
    if (told) {
        file_note_open_reported(file);
    } else if (!file->opened.reported && list_empty(&file->lists.unreported)) {
        list_push_back(&file->client->data.files->unreported, &file->lists.unreported);
        file->client->counters.opens_local++;
    }
}

struct file *files_pop_unreported(struct client *client)
{
    struct list *node = list_front(&client->data.files->unreported);
    struct file *file = node == NULL ? NULL : LIST_ENTRY(node, struct file, lists.unreported);

    if (file != NULL) {
        file_note_open_reported(file);
    }
    return file;
}

bool file_has_handle(const struct file *file)
{
    return !list_empty(&file->handles);
}

struct handle *file_writer(const struct file *file)
{
    LIST_FOREACH(node, &file->handles)
    {
        struct handle *handle = LIST_ENTRY(node, struct handle, node);

        if (handle->writable) {
            return handle;
        }
    }
    return NULL;
}

bool file_is_last_writer(const struct handle *handle)
{
    LIST_FOREACH(node, &handle->file->handles)
    {
        const struct handle *other = LIST_ENTRY(node, struct handle, node);

        if (other != handle && other->writable) {
            return false;
        }
    }
    return handle->writable;
}

bool file_has_writer(const struct file *file)
{
    return file_writer(file) != NULL;
}

bool file_know_servers(struct file *file, struct servers_wait *wait)
{
    server_id ids[STRIPE_WIDTH_MAX * REPLICAS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; file->set == NULL && i < file->columns.stripe.width; i++) {
        if (file->columns.groups[i] != 0) {
            count += group_servers(client_groups_find(file->client, file->columns.groups[i]),
                                   ids + count);
        } else {
            ids[count++] = file->columns.servers[i];
        }
    }
    return client_know_servers(file->client, ids, count, wait);
}

bool file_is_dirty(const struct file *file)
{
    return file_is_unreported(file) || !list_empty(&file->buffer.chunks);
}

void file_note_landed(struct file *file)
{
    file->shape.write_back = file->shape.write_back && file_is_dirty(file);
}

bool file_is_blank(const struct file *file)
{
    return file->shape.size == 0 && file->shape.reach == 0 && !file_is_dirty(file);
}

bool file_is_written(const struct file *file)
{
    return file_has_writer(file) || file_is_dirty(file) || !list_empty(&file->lists.unsure);
}

bool file_is_shared(const struct file *file)
{
    enum lease_mode needed = file_has_writer(file) ? LEASE_W : LEASE_R;

    return client_lease(file->client, file->inode) < needed;
}

uint64_t file_own_lease(const struct file *file)
{
    return file_is_shared(file) ? 0 : meta_cache_since(file->client->cache, file->inode);
}

int file_open(struct client *client, const Morsel__Attr *attr, const Morsel__Layout *layout,
              bool writable, bool told, struct handle **handle_out)
{
    struct handle *handle = calloc(1, sizeof(*handle));
    struct file *file = file_find(client, attr->inode);
    int rv;

    *handle_out = NULL;
    if (handle == NULL) {
        return MORSEL_NOMEM;
    }
    if (file == NULL && (rv = file_new(client, attr, layout, &file)) != 0) {
        free(handle);
        return rv;
    }
    file_refresh(file, attr);
    file_pin(file);
    file_find_place(file, layout);
    file_unpin_and_leave(file);
    if (client_lease(client, file->inode) == LEASE_NONE) {
        file_forget(file, 0, UINT64_MAX); /* What was fetched before may be old. */
    }
    tell(file, told);
    handle->file = file;
    handle->lost = file->durable.loss_unreported || changes_lost(client->data.changes, file->inode);
    handle->writable = writable;
    read_ahead_init(&handle->ahead, file_window(file));
    list_init(&handle->node);
    list_init(&handle->room_node);
    list_push_back(&file->handles, &handle->node);
    *handle_out = handle;
    return MORSEL_OK;
}

void file_close(struct handle *handle)
{
    struct file *file = handle->file;

    list_remove(&handle->node);
    list_remove(&handle->room_node);
    free(handle);
    if (list_empty(&file->handles)) {
        file_forget(file, 0, UINT64_MAX); /* Nobody is left to read it. */
    }
    file_free_if_done(file);
}

void file_pin(struct file *file)
{
    file->pins++;
}

void file_unpin_and_leave(struct file *file)
{
    CHECK(file->pins > 0);
    file->pins--;
}

void file_unpin(struct file *file)
{
    file_unpin_and_leave(file);
    file_free_if_done(file);
}

bool file_is_pinned(const struct file *file)
{
    return file->pins > 0;
}

void file_pin_lease(struct file *file)
{
    file->lease_pins++;
}

void file_unpin_lease(struct file *file)
{
    CHECK(file->lease_pins > 0);
    file->lease_pins--;
}

bool file_is_lease_pinned(const struct file *file)
{
    return file->lease_pins > 0;
}

/* The first one is told. */
static void note_error(int *error, int status)
{
    *error = *error != 0 ? *error : status;
}

void file_fail(struct file *file, int status)
{
    file->failures.count++;
    file->failures.last = status;
    LIST_FOREACH(node, &file->handles)
    {
        struct handle *handle = LIST_ENTRY(node, struct handle, node);

        if (handle->writable) {
            note_error(&handle->error, status);
            note_error(&handle->close_error, status);
            note_error(&handle->sync_error, status);
        }
    }
}

unsigned file_failures(const struct file *file)
{
    return file->failures.count;
}

int file_last_failure(const struct file *file)
{
    return file->failures.last;
}

void file_note_loss(struct file *file)
{
    LIST_FOREACH(node, &file->handles)
    {
        LIST_ENTRY(node, struct handle, node)->lost = true;
    }
    file->durable.loss_unreported = true;
}

void file_note_end(struct file *file, int status)
{
    struct client *client = file->client;

    if (status != MORSEL_TIMEDOUT && status != MORSEL_UNREACHABLE && status != MORSEL_CANCELED &&
        status != MORSEL_UNSURE) {
        return;
    }
    lease_unsure(client);
    if (list_empty(&file->lists.unsure)) {
        file_pin(file);
        list_push_back(&client->data.files->unsure, &file->lists.unsure);
    }
}

void files_let_go_sure(struct client *client)
{
    struct list *node;

    while (lease_is_sure(client) && (node = list_pop_front(&client->data.files->unsure)) != NULL) {
        file_unpin(LIST_ENTRY(node, struct file, lists.unsure));
    }
}

/* Somebody else has changed the bytes since: how much of them is on disk we do not know. */
static void note_version(struct file *file, uint64_t version)
{
    if (version > file->durable.data_version) {
        if (!report_is_busy(&file->shape.report) || version > file->durable.data_version + 1) {
            unsynced_forget(file->durable.unsynced);
            file->durable.shape_synced = false;
        }
        file->durable.data_version = version;
    }
}

/* Who holds it asks where it lies, and takes that over (file_move()). Until then nothing tells, for what was asked
 * may yet be done. */
static void note_place(struct file *file, uint32_t place)
{
    bool elsewhere = place != file->place;

    if (file->held) {
        return;
    }
    file->place_doubted = false;
    if (place == PLACE_UNKNOWN) {
        return; /* Of an older manager. */
    }
    if (elsewhere && file->columns.astray == 0) {
        log_info(file->client->options.log,
                 "inode %lu: its bytes were moved (morsel recopy); it is looked for where they are",
                 (unsigned long)file->inode);
    }
    file->columns.astray = elsewhere ? MORSEL_STALE : 0;
}

void file_refresh(struct file *file, const Morsel__Attr *attr)
{
    note_place(file, attr->place);
    note_version(file, attr->data_version);
    file->shape.tail_unsure = attr->tail_unsure && !file->shape.report.news.tail_clean;
    if (file->shape.report.state == REPORT_CLEAN) {
        file->shape.size = attr->size;
    } else if (attr->size > file->shape.size && !report_has_truncation(&file->shape.report)) {
        file->shape.size = attr->size;
    }
}

/* Others are asked about a shared file too, and must not hear less than we say: so what nobody was
 * answered yet is not there yet. */
static bool may_tell(const struct file *file)
{
    return file->shape.report.state != REPORT_CLEAN &&
           (file->shape.write_back || !file_is_shared(file));
}

uint64_t file_size_of(const struct file *file, const Morsel__Attr *attr)
{
    bool shorter = report_has_truncation(&file->shape.report);

    return may_tell(file) && (shorter || file->shape.size > attr->size) ? file->shape.size
                                                                        : attr->size;
}

void file_strip_ids(struct file *file)
{
    struct client *client = file->client;
    Morsel__Attr *attr = meta_cache_attr_mut(client->cache, file->inode);

    if (attr != NULL && (attr->mode & MODE_SET_IDS) == 0) {
        return;
    }
    file->shape.report.news.strips_ids = true;
    if (attr != NULL) {
        attr->mode = mode_without_set_ids(attr->mode);
        kernel_drop_inode(client, file->inode); /* It would go on believing in them. */
    }
}

void file_note_reach(struct file *file, uint64_t end)
{
    if (end > file->shape.reach) {
        file->shape.reach = end;
    }
}

void file_doubt_tail(struct file *file)
{
    file->shape.tail_unsure = true;
}

void file_drop_news(struct file *file)
{
    file_doubt_tail(file);
    file->shape.write_back = false;
    file_note_reach(file, file->shape.report.news.end);
    report_lose(&file->shape.report);
}

void file_note_resized(struct file *file, uint64_t size)
{
    file->shape.size = size;
    file->durable.shape_synced = false;
}

void file_note_mtime(struct file *file, uint64_t mtime_ns)
{
    file->shape.mtime_ns = mtime_ns;
    file->shape.mtime_sets++;
}

void file_note_kernel_changed(struct file *file)
{
    kernel_view_changed(&file->kernel, uv_now(file->client->loop));
}

void file_overlay(const struct file *file, Morsel__Attr *attr)
{
    if (file->shape.report.news.strips_ids) {
        attr->mode = mode_without_set_ids(attr->mode);
    }
    if (may_tell(file)) {
        attr->size = file->shape.size;
        if ((int64_t)file->shape.mtime_ns > (int64_t)attr->mtime_ns) {
            attr->mtime_ns = file->shape.mtime_ns;
        }
        if ((int64_t)file->shape.ctime_ns > (int64_t)attr->ctime_ns) {
            attr->ctime_ns = file->shape.ctime_ns;
        }
    }
}

int file_align(struct file *file, const Morsel__Layout *layout)
{
    struct columns before = file->columns;
    int rv = MORSEL_CORRUPT;

    if (layout != NULL && layout->n_servers == file->columns.stripe.width) {
        rv = layout_take(file, layout, false);
    }
    if (rv != MORSEL_OK) {
        file->columns = before;
    }
    return rv;
}

/* ---- Moving ---- */

void file_hold(struct file *file)
{
    CHECK(!file->held);
    file_pin(file);
    file_pin_lease(file);
    file->held = true;
    file_forget(file, 0, UINT64_MAX);
}

void file_let_go(struct file *file)
{
    CHECK(file->held);
    file->held = false;
    if (file->columns.astray != 0) {
        file_lose_place(file);
    }
    file_unpin_lease(file);
    file_unpin(file);
}

bool file_is_held(const struct file *file)
{
    return file->held;
}

bool file_is_quiet(const struct file *file)
{
    return file->held && file->pins == 1 && file->lease_pins == 1 && !file_is_dirty(file) &&
           file->columns.changing == 0;
}

bool file_is_changing(const struct file *file)
{
    return file->columns.changing != 0;
}

bool file_is_unsure(const struct file *file)
{
    return !list_empty(&file->lists.unsure);
}

uint64_t file_changes(const struct file *file)
{
    return file->columns.stirs;
}

inode_id file_body(const struct file *file)
{
    return file->columns.body;
}

static int move(struct file *file, const Morsel__Layout *layout)
{
    struct columns before = file->columns;
    uint32_t place = file->place;
    struct unsynced *unsynced;
    int rv = layout_take(file, layout, false);

    file->place_doubted = file->place_doubted && rv != MORSEL_OK;
    if (rv == MORSEL_OK && file->place == place) {
        return MORSEL_OK; /* It lies where it lay. */
    }
    unsynced = rv == MORSEL_OK ? unsynced_new(file->columns.stripe.width, false) : NULL;
    if (unsynced == NULL) {
        file->columns = before;
        file->place = place;
        return rv != MORSEL_OK ? rv : MORSEL_NOMEM;
    }
    unsynced_free(file->durable.unsynced);
    file->durable.unsynced = unsynced;
    file->columns.lease = file->columns.reads = file->columns.settled = 0;
    file->durable.shape_synced = false; /* Where it lies is a part of it. */
    return MORSEL_OK;
}

int file_move(struct file *file, const Morsel__Layout *layout)
{
    CHECK(file->held && file->columns.changing == 0 && file->columns.settling == 0);
    return move(file, layout);
}

/* ---- Astray ---- */

void file_doubt_place(struct file *file)
{
    file->place_doubted = true;
}

bool file_is_place_doubted(const struct file *file)
{
    return file->place_doubted;
}

void file_lose_place(struct file *file)
{
    file->columns.astray = MORSEL_STALE;
}

void file_give_up_place(struct file *file)
{
    CHECK(file->held);
    file->columns.astray = MORSEL_TIMEDOUT;
}

uint32_t file_place(const struct file *file)
{
    return file->place;
}

int file_astray(const struct file *file)
{
    return file->columns.astray;
}

void file_find_place(struct file *file, const Morsel__Layout *layout)
{
    bool quiet = file->pins == 1 && file->lease_pins == 0 && !file_is_dirty(file) &&
                 file->columns.changing == 0 && file->columns.settling == 0;

    if (file->columns.astray != 0 && !file->held && quiet && layout != NULL) {
        file_forget(file, 0, UINT64_MAX);
        (void)move(file, layout); /* Without memory the next time. */
    }
}

int file_take_error(struct handle *handle)
{
    int error = handle->error;

    handle->error = 0;
    return error;
}

int file_take_close_error(struct handle *handle)
{
    int error = handle->close_error;

    handle->error = handle->close_error = 0;
    return error;
}

int file_take_sync_error(struct handle *handle)
{
    int error = handle->sync_error;

    handle->error = handle->close_error = handle->sync_error = 0;
    return error;
}

void file_note_dirty(struct file *file)
{
    if (list_empty(&file->lists.dirty)) {
        list_push_back(&file->client->data.files->dirty, &file->lists.dirty);
    }
}

void file_note_clean(struct file *file)
{
    list_remove(&file->lists.dirty);
}

/* ---- All of them ---- */

uint32_t files_count(const struct client *client)
{
    return HASH_COUNT(client->data.files->table);
}

struct file *files_first(const struct client *client)
{
    return client->data.files->table;
}

struct file *files_next(const struct file *file)
{
    return file == NULL ? NULL : file->hh.next;
}

void files_age(struct client *client, uint64_t now_ms)
{
    LIST_FOREACH_SAFE(node, &client->data.files->dirty)
    {
        file_age(LIST_ENTRY(node, struct file, lists.dirty), now_ms);
    }
}

int files_open(struct client *client, const struct column_hooks *hooks)
{
    struct files *files = calloc(1, sizeof(*files));

    client->data.files = files;
    if (files == NULL) {
        return MORSEL_NOMEM;
    }
    files->column_hooks = hooks;
    list_init(&files->dirty);
    list_init(&files->unsure);
    list_init(&files->unreported);
    return MORSEL_OK;
}

void files_close(struct client *client)
{
    CHECK(client->data.files == NULL || list_empty(&client->data.files->unreported));
    free(client->data.files);
}
