/* Flushes of the power scenario's clients: what src/client/data/flush_uv.c, durable_uv.c and
 * file_uv.c do, around src/client/data/unsynced.c. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/power.h"

#include <string.h>

static struct flush *flush_of(struct sim *s, uint32_t node, int flush)
{
    struct flush *f = &world_of(s)->clients[node].flushes[flush];

    CHECK(f->active);
    return f;
}

static struct file *file_of(struct sim *s, uint32_t node, uint32_t file)
{
    return &world_of(s)->clients[node].files[file];
}

/* Who began when `until` was the newest value waits for what was written by then, or for what has
 * taken its place since. */
static bool has_dirty(const struct file *file, uint64_t until)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if ((file->dirty[i] != 0 && file->since[i] <= until) ||
            (file->sent[i] != 0 && file->sent_since[i] <= until)) {
            return true;
        }
    }
    return false;
}

void file_free_if_done(struct sim *s, uint32_t node, uint32_t number)
{
    struct file *file = file_of(s, node, number);

    if (!file->there || file->pins > 0 || file->handle_count > 0 || file->unreported) {
        return;
    }
    CHECK(!has_dirty(file, UINT64_MAX));
    judge_let_go(s, node, number, file->reported);
    unsynced_free(file->unsynced);
    memset(file, 0, sizeof(*file));
    world_of(s)->holders[number] = 0;
    sim_trace(s, node, "lets go of file %u", number);
}

/* ---- The record of the manager ---- */

static void unlist(struct sim *s, uint32_t node, uint32_t file, uint64_t data_version,
                   const struct unsynced_column *columns, uint32_t count)
{
    struct power_message m = { .word = WORD_SYNCED, .file = file, .data_version = data_version };

    m.column_count = count;
    memcpy(m.columns, columns, count * sizeof(columns[0]));
    (void)client_change(s, node, -1, &m);
}

static void settle(struct sim *s, uint32_t node, struct flush *f)
{
    struct file *file = file_of(s, node, f->file);
    struct unsynced_column synced[LISTED_MAX], gone[LISTED_MAX];
    uint32_t synced_count = 0, gone_count = 0;
    bool news = false;

    for (uint32_t i = 0; i < f->listed_count; i++) {
        struct unsynced_column c = f->listed[i];
        enum unsynced_fate fate =
            unsynced_fate(file->unsynced, c.column, c.verifier, f->verifiers[c.column],
                          world_of(s)->clients[node].verifiers[c.column]);

        news |= c.verifier == VERIFIER_ANY;
        if (fate == UNSYNCED_SYNCED) {
            synced[synced_count++] = c;
        } else if (fate == UNSYNCED_GONE) {
            gone[gone_count++] = c;
            news |=
                unsynced_gone(file->unsynced, c.column, c.verifier) || sim_canary(s, "tells_twice");
        }
    }
    if (synced_count > 0) {
        unlist(s, node, f->file, file->data_version, synced, synced_count);
    }
    if (gone_count > 0) {
        unlist(s, node, f->file, 0, gone, gone_count);
    }
    if (news) {
        sim_worth(s, WORTH_LISTED_EIO);
        file_lost(s, node, f->file, "the manager has an older verifier");
    }
    if (f->listed_count > 0) {
        file->listed = synced_count + gone_count < f->listed_count;
    }
    f->listed_count = 0;
}

static void take_listed(struct sim *s, uint32_t node, struct flush *f,
                        const struct power_message *m)
{
    f->listed_count = sim_canary(s, "ignores_the_record") ? 0 : m->column_count;
    memcpy(f->listed, m->columns, f->listed_count * sizeof(f->listed[0]));
    file_of(s, node, f->file)->listed = f->listed_count > 0;
}

/* ---- The parts of a flush ---- */

static int take_loss(struct sim *s, uint32_t node, struct handle *handle)
{
    struct client *c = &world_of(s)->clients[node];
    bool lost = handle->lost;

    handle->lost = false;
    if (lost) {
        c->files[handle->file].loss_untold = false;
        unsynced_told(c->files[handle->file].unsynced);
        changes_told(&c->changes, world_of(s)->files[handle->file]);
    }
    return lost ? MORSEL_IO : 0;
}

static void close_handle(struct sim *s, uint32_t node, struct handle *handle)
{
    struct file *file = file_of(s, node, handle->file);

    *handle = (struct handle){ .open = false };
    file->handle_count--;
}

static void part_done(struct sim *s, uint32_t node, struct flush *f)
{
    struct handle *handle = f->handle >= 0 ? &world_of(s)->clients[node].handles[f->handle] : NULL;
    uint32_t file = f->file;

    CHECK(f->waiting > 0);
    if (--f->waiting > 0) {
        return;
    }
    if (f->durable) {
        settle(s, node, f);
    }
    f->active = false;
    if (handle != NULL) {
        handle->busy = false;
    }
    if (handle != NULL && f->durable) {
        judge_fsync(s, node, f, take_loss(s, node, handle));
    } else if (handle != NULL) {
        close_handle(s, node, handle);
    }
    file_of(s, node, file)->pins--;
    file_free_if_done(s, node, file);
}

static void note_settled(struct sim *s, uint32_t node, const struct flush *f)
{
    struct file *file = file_of(s, node, f->file);

    file->settled = file->size <= f->settled_size;
}

static int number_of(struct sim *s, uint32_t node, const struct flush *f)
{
    return (int)(f - world_of(s)->clients[node].flushes);
}

static void list_unsynced(struct sim *s, struct file *file, struct power_message *m)
{
    for (uint32_t i = 0; i < STORES; i++) {
        uint64_t verifiers[UNSYNCED_OWN_MAX];
        uint32_t own = unsynced_verifiers(file->unsynced, i, verifiers);

        for (uint32_t j = 0; j < own && !sim_canary(s, "forgotten_at_close"); j++) {
            m->columns[m->column_count++] = (struct unsynced_column){ i, verifiers[j] };
        }
        unsynced_listed(file->unsynced, i);
    }
    file->listed |= m->column_count > 0;
}

static void start_report(struct sim *s, uint32_t node, struct flush *f)
{
    struct file *file = file_of(s, node, f->file);
    struct power_message m = { .word = WORD_WROTE, .file = f->file, .durable = f->durable };
    struct pending *p;

    m.dir = NO_DIR;
    m.size = f->reported_end = file->written_end;
    if (!f->durable) {
        list_unsynced(s, file, &m);
    }
    f->settled_size = file->size;
    sim_trace(s, node, "reports a size of %llu of file %u%s", (unsigned long long)m.size, f->file,
              f->durable ? ", durably" : "");
    p = client_change(s, node, number_of(s, node, f), &m);
    CHECK(p != NULL);
    f->waiting++;
    file->reported = p->message.sequence;
    file->written_end = 0;
    file->unreported = false;
    file->reporting = true;
}

static void start_meta_sync(struct sim *s, uint32_t node, struct flush *f)
{
    struct power_message m = { .word = WORD_FSYNC, .file = f->file, .dir = NO_DIR };

    f->settled_size = file_of(s, node, f->file)->size;
    f->waiting++;
    (void)client_ask(s, node, MANAGER, number_of(s, node, f), -1, &m);
}

static void report_behind(struct sim *s, uint32_t node, uint32_t file)
{
    const struct flush kind = { .handle = -1 };

    (void)flush_start(s, node, file, -1, &kind);
}

static void tell_manager(struct sim *s, uint32_t node, struct flush *f)
{
    struct file *file = file_of(s, node, f->file);

    if (f->told) {
        return;
    }
    if (!f->durable && unsynced_is_unlisted(file->unsynced)) {
        file->unreported = true;
    }
    if (file->unreported && f->behind && file->reporting) {
        file->report_due = true;
    } else if (file->unreported && f->behind) {
        report_behind(s, node, f->file);
    } else if (file->reporting && !f->behind) {
        f->waiting++;
        f->waits_for_report = true;
    } else if (file->unreported) {
        start_report(s, node, f);
    } else if (f->durable && !sim_canary(s, "skips_the_manager")) {
        start_meta_sync(s, node, f);
    }
}

static void start_sync(struct sim *s, uint32_t node, struct flush *f, uint32_t column)
{
    struct file *file = file_of(s, node, f->file);
    struct power_message m = { .word = WORD_SYNC, .file = f->file, .block = column };

    f->marks[column] = unsynced_mark(file->unsynced, column);
    if (sim_canary(s, "clears_when_sent")) {
        (void)unsynced_synced(file->unsynced, column, f->marks[column],
                              world_of(s)->clients[node].verifiers[column]);
    }
    f->waiting++;
    (void)client_ask(s, node, STORE_FIRST + column, number_of(s, node, f), -1, &m);
}

static void on_drained(struct sim *s, uint32_t node, struct flush *f)
{
    struct file *file = file_of(s, node, f->file);

    f->draining = false;
    tell_manager(s, node, f);
    for (uint32_t i = 0; f->durable && i < STORES; i++) {
        if (unsynced_is(file->unsynced, i)) {
            start_sync(s, node, f, i);
        }
    }
    part_done(s, node, f);
}

void flush_acked(struct sim *s, uint32_t node, uint32_t number)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t i = 0; i < FLUSHES && c->files[number].there; i++) {
        struct flush *f = &c->flushes[i];

        if (f->active && f->draining && f->file == number &&
            !has_dirty(&c->files[number], f->drain_until)) {
            on_drained(s, node, f);
        }
    }
}

int flush_start(struct sim *s, uint32_t node, uint32_t number, int handle, const struct flush *kind)
{
    struct world *w = world_of(s);
    struct file *file = file_of(s, node, number);
    struct flush *f;
    int place = 0;

    while (place < FLUSHES && w->clients[node].flushes[place].active) {
        place++;
    }
    CHECK(place < FLUSHES);
    f = &w->clients[node].flushes[place];
    *f = *kind;
    f->active = f->draining = true;
    f->file = number;
    f->handle = handle;
    f->waiting = 1;
    f->drain_until = w->values;
    f->begun = judge_now(s);
    memcpy(f->want, w->want[number], sizeof(f->want));
    f->told = f->durable && f->data_only && file->settled && !file->listed;
    file->pins++;
    if (f->durable && !f->told && file->unreported && !file->reporting &&
        has_dirty(file, UINT64_MAX)) {
        f->told = true;
        start_report(s, node, f);
    }
    if (!has_dirty(file, f->drain_until)) {
        on_drained(s, node, f);
    }
    return place;
}

/* ---- Answers ---- */

static void report_waits_end(struct sim *s, uint32_t node, const struct flush *reported)
{
    struct client *c = &world_of(s)->clients[node];
    uint32_t number = reported->file;

    for (uint32_t i = 0; i < FLUSHES; i++) {
        struct flush *f = &c->flushes[i];

        if (f->active && f->waits_for_report && f->file == number) {
            f->waits_for_report = false;
            if (c->files[number].unreported ||
                (c->files[number].reporting && !sim_canary(s, "believes_the_next_report")) ||
                (f->durable && !reported->durable)) {
                tell_manager(s, node, f);
            } else if (f->durable && !sim_canary(s, "keeps_the_record_to_itself")) {
                f->listed_count = reported->listed_count;
                memcpy(f->listed, reported->listed, sizeof(f->listed));
            }
            part_done(s, node, f);
        }
    }
}

static void note_version(struct file *file, uint64_t version)
{
    if (version > file->data_version) {
        if (version > file->data_version + 1) {
            unsynced_forget(file->unsynced);
            file->settled = false;
        }
        file->data_version = version;
    }
}

void flush_reported(struct sim *s, uint32_t node, int flush, const struct power_message *m)
{
    struct flush *f = flush_of(s, node, flush);
    struct file *file = file_of(s, node, f->file);
    uint32_t number = f->file;

    file->reporting = false;
    if (f->durable) {
        note_settled(s, node, f);
        take_listed(s, node, f, m);
    }
    note_version(file, m->data_version);
    report_waits_end(s, node, f);
    if (file->report_due && file->unreported) {
        report_behind(s, node, number);
    }
    file->report_due = false;
    part_done(s, node, f);
}

void flush_meta_synced(struct sim *s, uint32_t node, int flush, const struct power_message *m)
{
    struct flush *f = flush_of(s, node, flush);

    note_settled(s, node, f);
    take_listed(s, node, f, m);
    part_done(s, node, f);
}

/* ---- Verifiers ---- */

/* As server_lost(). */
static void server_lost(struct sim *s, uint32_t node, uint32_t column)
{
    struct client *c = &world_of(s)->clients[node];

    for (uint32_t i = 0; i < FILES; i++) {
        if (c->files[i].there &&
            unsynced_acked(c->files[i].unsynced, column, c->verifiers[column], true)) {
            file_lost(s, node, i, "a store has another verifier");
        }
    }
}

void note_verifier(struct sim *s, uint32_t node, uint32_t column, uint64_t verifier)
{
    struct client *c = &world_of(s)->clients[node];
    bool known = c->verifiers[column] != 0;

    if (c->verifiers[column] != verifier) {
        c->verifiers[column] = verifier;
        if (known && !sim_canary(s, "believes_every_sync")) {
            server_lost(s, node, column);
        }
    }
}

void flush_synced(struct sim *s, uint32_t node, int flush, const struct power_message *m)
{
    struct flush *f = flush_of(s, node, flush);
    struct file *file = file_of(s, node, f->file);
    uint32_t column = m->block;

    note_verifier(s, node, column, m->verifier);
    (void)unsynced_synced(file->unsynced, column, f->marks[column], m->verifier);
    f->verifiers[column] = m->verifier;
    part_done(s, node, f);
}
