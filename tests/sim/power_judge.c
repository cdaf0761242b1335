/* The judge of the power scenario. It knows what programs were told, what the servers really have,
 * and what each loss of power took, and shares nothing with the cores.
 *
 * A yes of fsync means: of everything that had been written before it began, each byte is on its
 * disk and the file is that long, or it was lost and this handle has been told (or somebody, before
 * this handle was opened). What the manager knows of is told to every client; what it has forgotten
 * itself, to who was answered. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/lib/kv_forgetful.h"
#include "tests/sim/power.h"

#include <string.h>

uint64_t judge_now(struct sim *s)
{
    return ++world_of(s)->serial;
}

static uint32_t bit(uint32_t node)
{
    return UINT32_C(1) << node;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- What happens ---- */

void judge_wrote(struct sim *s, uint32_t node, uint32_t file, uint32_t block, uint64_t value)
{
    struct world *w = world_of(s);

    w->want[file][block] = value;
    w->writers[file][block] = node;
}

void judge_acked(struct sim *s, uint32_t node, uint32_t file, uint32_t block, uint64_t value)
{
    struct world *w = world_of(s);

    (void)node;
    (void)judge_now(s);
    if (w->stores[block % STORES].memory[file][block] >= value) { /* Not lost meanwhile. */
        w->delivered[file][block] = value;
    }
}

/* What it held of a file nobody promises, nor that anybody else is told of it. */
void judge_client_died(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);

    for (uint32_t file = 0; file < FILES; file++) {
        for (uint32_t block = 0; block < BLOCKS; block++) {
            if (w->clients[node].files[file].there) {
                w->exempt[file][block] = w->want[file][block];
            }
            if (w->writers[file][block] == node) {
                w->writers[file][block] = 0;
            }
        }
    }
    for (uint32_t i = 0; i < w->loss_count; i++) {
        w->losses[i].clients &= ~bit(node);
    }
}

/* Has the manager a record of the column? */
static bool is_listed(struct sim *s, uint32_t file, uint32_t column)
{
    struct world *w = world_of(s);
    struct errmsg err = { "" };
    struct inode inode;
    struct buf columns;
    struct ns *ns = w->db.ns;
    bool found = false;

    if (ns == NULL && ns_open(w->db.kv, NULL, &ns, &err) != 0) {
        return sim_fail(s, "the manager's store: %s", err.text);
    }
    buf_init(&columns);
    if (ns_inode(ns, w->files[file], &inode, &err) == 0 &&
        ns_unsynced(ns, &inode, &columns, &err) == 0) {
        for (size_t i = 0; i < op_unsynced_count(buf_slice(&columns)); i++) {
            found |= op_unsynced_at(buf_slice(&columns), i).column == column;
        }
    }
    buf_free(&columns);
    if (ns != w->db.ns) {
        ns_close(ns);
    }
    return found;
}

static struct loss *add_loss(struct sim *s)
{
    struct world *w = world_of(s);
    struct loss *loss = &w->losses[w->loss_count++];

    CHECK(w->loss_count <= LOSSES_MAX);
    *loss = (struct loss){ .serial = judge_now(s), .file = -1, .dir = -1 };
    loss->values = w->values;
    return loss;
}

static void lose_column(struct sim *s, uint32_t column, uint32_t file)
{
    struct world *w = world_of(s);
    const struct store *store = &w->stores[column];
    struct loss loss = { .column = column, .file = (int)file, .dir = -1 };
    bool any = false;

    for (uint32_t block = column; block < BLOCKS; block += STORES) {
        loss.from[block] = store->disk[file][block];
        loss.to[block] = store->memory[file][block];
        loss.sure[block] = w->delivered[file][block];
        w->delivered[file][block] = 0;
        any |= loss.to[block] > loss.from[block];
        if (w->promised[file][block] > loss.from[block]) {
            (void)sim_fail(s, "block %u of file %u is lost although fsync has covered it", block,
                           file);
        }
        if (w->promised[file][block] > 0) {
            sim_worth(s, WORTH_KEPT);
        }
        if (loss.sure[block] > loss.from[block]) {
            loss.clients |= w->writers[file][block] != 0 ? bit(w->writers[file][block]) : 0;
            sim_worth(s, WORTH_BYTES_LOST);
        }
    }
    if (any) {
        loss.serial = judge_now(s);
        loss.values = w->values;
        loss.listed = (w->handed_over[file] && !w->forgotten[file]) || is_listed(s, file, column);
        *add_loss(s) = loss;
    }
}

void judge_store_lost(struct sim *s, uint32_t column)
{
    world_of(s)->power_losses++;
    for (uint32_t file = 0; file < FILES; file++) {
        lose_column(s, column, file);
    }
}

/* ---- The manager's log ---- */

void judge_logged(struct sim *s, const struct power_message *m)
{
    struct world *w = world_of(s);
    struct logged *l = &w->log[++w->count];

    CHECK(w->count <= LOG_MAX);
    if (ns_counters(w->db.ns)->sequence != w->count) {
        (void)sim_fail(s, "the log counts %llu operations, %llu were applied",
                       (unsigned long long)ns_counters(w->db.ns)->sequence,
                       (unsigned long long)w->count);
    }
    *l = (struct logged){ .client = m->client, .sequence = m->sequence, .file = -1 };
    if (m->word == WORD_NAME) {
        l->dirs = bit(m->dir) | (m->kind == NAME_RENAME ? bit(m->new_dir) : 0);
    } else if (m->word == WORD_WROTE) {
        l->file = (int)m->file;
        l->size = m->size;
    }
}

/* 0: who has died since, and has nobody to be told. */
static uint32_t node_of(struct sim *s, client_id client)
{
    for (uint32_t node = CLIENT_FIRST; node < NODES; node++) {
        if (client != 0 && s->nodes[node].up && world_of(s)->clients[node].id == client) {
            return node;
        }
    }
    return 0;
}

static void lose_names(struct sim *s, const struct logged *l, uint64_t delivered)
{
    uint32_t node = node_of(s, l->client);

    for (int dir = 0; dir < DIRS && node != 0; dir++) {
        if ((l->dirs & bit((uint32_t)dir)) != 0) {
            struct loss *loss = add_loss(s);

            loss->dir = dir;
            loss->delivered = delivered;
            loss->clients = bit(node);
        }
    }
    sim_worth(s, WORTH_CHANGES_LOST);
}

static uint64_t size_at(const struct world *w, uint32_t file, uint64_t number)
{
    uint64_t size = 0;

    for (uint64_t i = 1; i <= number; i++) {
        if (w->log[i].file == (int)file) {
            size = max_u64(size, w->log[i].size);
        }
    }
    return size;
}

static void lose_size(struct sim *s, uint32_t file, uint64_t left)
{
    struct world *w = world_of(s);
    uint64_t from = size_at(w, file, left), to = size_at(w, file, w->count), sure = 0;
    uint32_t clients = 0;
    struct loss *loss;

    for (uint64_t i = left + 1; i <= w->count; i++) {
        const struct logged *l = &w->log[i];
        uint32_t node = node_of(s, l->client);

        w->forgotten[file] |= l->file == (int)file;
        if (l->file == (int)file && l->delivered != 0 && l->size > from) {
            sure = max_u64(sure, l->size);
            clients |= node != 0 ? bit(node) : 0;
        }
    }
    if (w->promised_size[file] > from) {
        (void)sim_fail(s, "file %u is shorter than when fsync covered it", file);
    }
    if (to > from) {
        loss = add_loss(s);
        loss->file = (int)file;
        loss->of_size = true;
        loss->from[0] = from;
        loss->to[0] = to;
        loss->sure[0] = sure;
        loss->clients = clients;
    }
}

void judge_manager_lost(struct sim *s, uint64_t left)
{
    struct world *w = world_of(s);

    w->power_losses++;
    for (uint32_t file = 0; file < FILES; file++) {
        lose_size(s, file, left);
    }
    for (uint64_t i = left + 1; i <= w->count; i++) {
        if (w->log[i].delivered != 0 && w->log[i].dirs != 0) {
            lose_names(s, &w->log[i], w->log[i].delivered);
        }
    }
    w->count = left;
    memset(w->handed_over, 0, sizeof(w->handed_over));
    for (uint32_t i = 0; i < w->loss_count; i++) {
        struct loss *loss = &w->losses[i];

        if (loss->listed && !loss->told && !is_listed(s, (uint32_t)loss->file, loss->column)) {
            loss->listed = false; /* It has forgotten that too. */
        }
    }
}

void judge_answered(struct sim *s, uint32_t node, const struct power_message *m)
{
    struct world *w = world_of(s);
    struct logged lost = { .client = m->client };

    (void)node;
    for (uint64_t i = w->count; i > 0 && m->status == 0; i--) {
        if (w->log[i].client == m->client && w->log[i].sequence == m->sequence) {
            w->log[i].delivered = judge_now(s);
            return;
        }
    }
    if (m->status == 0 && m->word == WORD_NAME) { /* On its way when the power went. */
        lost.dirs = bit(m->dir) | (m->kind == NAME_RENAME ? bit(m->new_dir) : 0);
        lose_names(s, &lost, judge_now(s));
    }
}

void judge_let_go(struct sim *s, uint32_t node, uint32_t file, op_sequence reported)
{
    struct world *w = world_of(s);
    bool there = reported == 0 && w->handed_over[file];

    for (uint64_t i = w->count; i > 0 && reported != 0 && !there; i--) {
        there = w->log[i].client == w->clients[node].id && w->log[i].sequence == reported;
    }
    w->handed_over[file] = there; /* Not when the manager has forgotten the report. */
}

/* ---- What fsync says ---- */

static uint64_t durable_number(const struct world *w)
{
    return w->count - kv_forgetful_unsynced(w->db.kv);
}

static bool was_told(const struct loss *loss, uint64_t opened, uint64_t told)
{
    return told > loss->serial || (opened > loss->serial && loss->told);
}

/* Nobody need tell this handle. */
static bool is_excused(const struct loss *loss, uint32_t node, const struct handle *h)
{
    return was_told(loss, h->opened, h->told) ||
           (!loss->listed && (loss->clients & bit(node)) == 0);
}

/* The value (a size, for `block` == BLOCKS) was lost, and that is not to be told here. */
static bool loss_explains(struct world *w, uint32_t node, const struct handle *h, uint32_t file,
                          uint32_t block, uint64_t want)
{
    for (uint32_t i = 0; i < w->loss_count; i++) {
        const struct loss *l = &w->losses[i];
        uint32_t at = block == BLOCKS ? 0 : block;

        if (l->file == (int)file && l->of_size == (block == BLOCKS) && l->from[at] < want &&
            l->to[at] >= want && is_excused(l, node, h)) {
            return true;
        }
    }
    return false;
}

/* The manager has forgotten a size under which the block lay, and that it was written at all. */
static bool end_explains(struct world *w, uint32_t node, const struct handle *h, uint32_t file,
                         uint32_t block, uint64_t want)
{
    for (uint32_t i = 0; i < w->loss_count; i++) {
        const struct loss *l = &w->losses[i];

        if (l->file == (int)file && l->of_size && l->from[0] <= block && l->to[0] > block &&
            want <= l->values && is_excused(l, node, h)) {
            return true;
        }
    }
    return false;
}

static void judge_block(struct sim *s, uint32_t node, const struct handle *h, const struct flush *f,
                        uint32_t block)
{
    struct world *w = world_of(s);
    uint64_t disk = w->stores[block % STORES].disk[f->file][block], want = f->want[block];

    if (want <= w->exempt[f->file][block]) {
        return;
    }
    if (disk >= want) {
        w->promised[f->file][block] = max_u64(w->promised[f->file][block], want);
        sim_worth(s, WORTH_FSYNCS);
    } else if (!loss_explains(w, node, h, f->file, block, want) &&
               !end_explains(w, node, h, f->file, block, want)) {
        (void)sim_fail(s, "fsync of file %u by %s says yes, and block %u is not on disk", f->file,
                       s->nodes[node].name, block);
    }
}

static void judge_size(struct sim *s, uint32_t node, const struct handle *h, const struct flush *f)
{
    struct world *w = world_of(s);
    uint64_t size = size_at(w, f->file, durable_number(w)), want = 0;

    for (uint32_t block = 0; block < BLOCKS; block++) {
        if (f->want[block] > w->exempt[f->file][block]) {
            want = block + 1;
        }
    }
    if (size >= want) {
        w->promised_size[f->file] = max_u64(w->promised_size[f->file], want);
    } else if (!loss_explains(w, node, h, f->file, BLOCKS, want)) {
        (void)sim_fail(s, "fsync of file %u by %s says yes, and its size on disk is %llu", f->file,
                       s->nodes[node].name, (unsigned long long)size);
    }
}

/* A loss that must be told has not been. */
static void judge_losses(struct sim *s, uint32_t node, const struct handle *h,
                         const struct flush *f)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->loss_count; i++) {
        const struct loss *l = &w->losses[i];

        if (l->file != (int)f->file || l->of_size || is_excused(l, node, h)) {
            continue;
        }
        for (uint32_t block = l->column; block < BLOCKS; block += STORES) {
            if (l->from[block] < l->sure[block] && l->sure[block] <= f->want[block] &&
                l->sure[block] > w->exempt[f->file][block] &&
                !end_explains(w, node, h, f->file, block, l->sure[block])) {
                (void)sim_fail(s,
                               "fsync of file %u by %s says yes, and lost block %u was never "
                               "told",
                               f->file, s->nodes[node].name, block);
            }
        }
    }
}

static void note_told(struct sim *s, int file, int dir, uint32_t node)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->loss_count; i++) {
        struct loss *l = &w->losses[i];

        if (l->file == file && l->dir == dir &&
            (l->listed || l->dir < 0 || (l->clients & bit(node)) != 0)) {
            l->told = true;
        }
    }
}

static void judge_eio(struct sim *s, uint32_t node, const char *what, uint32_t number,
                      uint32_t eios)
{
    if (eios > world_of(s)->power_losses) {
        (void)sim_fail(s,
                       "fsync of %s %u by %s says EIO for the %u. time, after %u losses of power",
                       what, number, s->nodes[node].name, eios, world_of(s)->power_losses);
    }
}

void judge_fsync(struct sim *s, uint32_t node, const struct flush *f, int status)
{
    struct handle *h = &world_of(s)->clients[node].handles[f->handle];

    sim_trace(s, node, "has synced file %u: %s", f->file, status == 0 ? "yes" : "EIO");
    if (status != 0) {
        h->eios++;
        h->told = judge_now(s);
        judge_eio(s, node, "file", f->file, h->eios);
        note_told(s, (int)f->file, -1, node);
        sim_worth(s, WORTH_FILE_EIO);
        return;
    }
    for (uint32_t block = 0; block < BLOCKS; block++) {
        judge_block(s, node, h, f, block);
    }
    judge_size(s, node, h, f);
    judge_losses(s, node, h, f);
}

void judge_fsync_dir(struct sim *s, uint32_t node, struct dir_handle *h, int status)
{
    struct world *w = world_of(s);

    sim_trace(s, node, "has synced directory %u: %s", h->dir, status == 0 ? "yes" : "EIO");
    if (status != 0) {
        h->eios++;
        h->told = judge_now(s);
        judge_eio(s, node, "directory", h->dir, h->eios);
        note_told(s, -1, (int)h->dir, node);
        sim_worth(s, WORTH_DIR_EIO);
        return;
    }
    for (uint64_t i = durable_number(w) + 1; i <= w->count; i++) {
        const struct logged *l = &w->log[i];

        if ((l->dirs & bit(h->dir)) != 0 && l->delivered != 0 && l->delivered < h->begun) {
            (void)sim_fail(s,
                           "fsync of directory %u by %s says yes, and change %llu is not on disk",
                           h->dir, s->nodes[node].name, (unsigned long long)i);
        }
    }
    for (uint32_t i = 0; i < w->loss_count; i++) {
        const struct loss *l = &w->losses[i];

        if (l->dir == (int)h->dir && (l->clients & bit(node)) != 0 && l->delivered < h->begun &&
            !was_told(l, h->opened, h->told)) {
            (void)sim_fail(s,
                           "fsync of directory %u by %s says yes, and a lost change was never "
                           "told",
                           h->dir, s->nodes[node].name);
        }
    }
}

/* All is well again: nobody waits, and what fsync has covered is there. */
void judge_end(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < FILES * BLOCKS; i++) {
        uint32_t file = i / BLOCKS, block = i % BLOCKS;

        if (w->stores[block % STORES].disk[file][block] < w->promised[file][block]) {
            (void)sim_fail(s, "block %u of file %u is not what fsync covered", block, file);
        }
    }
}
