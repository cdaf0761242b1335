/* The clients of the power scenario: hosts for src/client/data/unsynced.c, changes.c and
 * op_numbers.c, and what programs do there. Files have one user at a time, as under leases: a
 * client has a file to itself until its last handle is closed and its news is with the manager, or
 * until it dies. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/power.h"

#include <string.h>

static struct client *client_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->clients[node];
}

/* ---- Requests ---- */

void client_send(struct sim *s, uint32_t node, struct pending *p)
{
    uint32_t conn = client_of(s, node)->conns[p->to];

    if (conn != 0) {
        sim_send(s, node, conn, &p->message, sizeof(p->message));
    }
}

static struct pending *place_in(struct pending *all, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!all[i].active) {
            return &all[i];
        }
    }
    return NULL;
}

struct pending *client_ask(struct sim *s, uint32_t node, uint32_t to, int flush, int dir_handle,
                           const struct power_message *m)
{
    struct client *c = client_of(s, node);
    struct pending *p = to == MANAGER ? place_in(c->pending, PENDING_MAX)
                                      : place_in(c->store_calls, STORE_CALLS_MAX);

    CHECK(p != NULL);
    *p = (struct pending){ true, to, flush, dir_handle, *m };
    p->message.call = ++c->calls;
    p->message.life = s->nodes[node].life;
    p->message.client = c->id;
    client_send(s, node, p);
    return p;
}

struct pending *client_change(struct sim *s, uint32_t node, int flush, struct power_message *m)
{
    struct client *c = client_of(s, node);

    m->sequence = op_numbers_take(&c->numbers, 0);
    m->answered = c->numbers.answered;
    if (m->sequence == 0) {
        return NULL;
    }
    return client_ask(s, node, MANAGER, flush, -1, m);
}

static void run_connect(struct sim *s, uint32_t node, uint64_t to)
{
    struct client *c = client_of(s, node);
    struct power_message join = { .word = WORD_JOIN };
    struct pending *all = to == MANAGER ? c->pending : c->store_calls;
    uint32_t count = to == MANAGER ? PENDING_MAX : STORE_CALLS_MAX;

    c->conns[to] = sim_connect(s, node, (uint32_t)to);
    if (c->conns[to] == 0) {
        sim_after(s, node, RECONNECT_MS, run_connect, to);
        return;
    }
    if (to == MANAGER) {
        sim_send(s, node, c->conns[to], &join, sizeof(join));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].active && all[i].to == to) {
            client_send(s, node, &all[i]);
        }
    }
}

static void client_down(struct sim *s, uint32_t node, uint32_t conn)
{
    struct client *c = client_of(s, node);

    for (uint32_t to = 0; to < CLIENT_FIRST; to++) {
        if (c->conns[to] == conn) {
            c->conns[to] = 0;
            sim_after(s, node, s->scripted ? RECONNECT_MS : prng_below(&s->prng, RECONNECT_MS),
                      run_connect, to);
        }
    }
}

/* ---- What may be lost ---- */

/* As durable_lost(). */
void file_lost(struct sim *s, uint32_t node, uint32_t file, const char *why)
{
    struct client *c = client_of(s, node);

    sim_trace(s, node, "may have lost bytes of file %u: %s", file, why);
    for (uint32_t i = 0; i < HANDLES; i++) {
        if (c->handles[i].open && c->handles[i].file == file) {
            c->handles[i].lost = true;
            if (sim_canary(s, "tells_one_handle")) {
                break;
            }
        }
    }
    c->files[file].loss_untold = true;
}

struct teller
{
    struct sim *s;
    uint32_t node;
};

/* As on_change_lost() and mount_dir_lost(). */
static void on_change_lost(void *data, inode_id inode)
{
    const struct teller *t = data;
    struct world *w = world_of(t->s);
    struct client *c = client_of(t->s, t->node);

    for (uint32_t i = 0; i < FILES; i++) {
        if (c->files[i].there && (inode == INODE_NONE || inode == w->files[i])) {
            file_lost(t->s, t->node, i, "the manager lost changes");
        }
    }
    for (uint32_t i = 0; i < DIR_HANDLES; i++) {
        struct dir_handle *dir = &c->dirs[i];

        dir->lost |= dir->open && (inode == INODE_NONE || inode == w->dirs[dir->dir]);
    }
}

void heard(struct sim *s, uint32_t node, const struct power_message *m)
{
    struct teller t = { s, node };

    if (!sim_canary(s, "ignores_the_run")) {
        changes_heard(&client_of(s, node)->changes, m->held, m->held_count, on_change_lost, &t);
    }
}

/* ---- A program's calls ---- */

void open_file(struct sim *s, uint32_t node, struct handle *handle, uint32_t number)
{
    struct world *w = world_of(s);
    struct client *c = client_of(s, node);
    struct file *file = &c->files[number];
    struct errmsg err = { "" };
    struct inode inode;

    if ((w->holders[number] != 0 && w->holders[number] != node) || w->db.ns == NULL ||
        c->conns[MANAGER] == 0 || ns_inode(w->db.ns, w->files[number], &inode, &err) != 0) {
        return;
    }
    if (!file->there) {
        *file = (struct file){ .there = true, .size = inode.size };
        file->data_version = inode.data_version;
        file->unsynced = unsynced_new(STORES, inode.data_version == 0);
        CHECK(file->unsynced != NULL);
        w->holders[number] = node;
    }
    file->handle_count++;
    *handle = (struct handle){ .open = true, .file = number, .opened = judge_now(s) };
    handle->lost = file->loss_untold || changes_lost(&c->changes, w->files[number]);
    sim_trace(s, node, "opens file %u", number);
}

static void send_block(struct sim *s, uint32_t node, uint32_t number, uint32_t block)
{
    struct file *file = &client_of(s, node)->files[number];
    struct power_message m = { .word = WORD_WRITE, .file = number, .block = block };

    m.value = file->sent[block] = file->dirty[block];
    file->sent_since[block] = file->since[block];
    file->dirty[block] = 0;
    (void)client_ask(s, node, STORE_FIRST + block % STORES, -1, -1, &m);
}

void write_block(struct sim *s, uint32_t node, const struct handle *handle, uint32_t block)
{
    struct file *file = &client_of(s, node)->files[handle->file];
    uint64_t end = block + 1;

    file->unreported = true;
    file->settled = file->settled && end <= file->size;
    file->size = end > file->size ? end : file->size;
    file->written_end = end > file->written_end ? end : file->written_end;
    if (file->dirty[block] == 0) {
        file->since[block] = world_of(s)->values + 1;
    }
    file->dirty[block] = ++world_of(s)->values;
    judge_wrote(s, node, handle->file, block, file->dirty[block]);
    sim_trace(s, node, "writes block %u of file %u", block, handle->file);
    if (file->sent[block] == 0) {
        send_block(s, node, handle->file, block);
    }
}

void fsync_file(struct sim *s, uint32_t node, uint32_t number, bool data_only)
{
    struct handle *handle = &client_of(s, node)->handles[number];
    const struct flush kind = { .durable = true, .data_only = data_only };

    handle->busy = true;
    sim_trace(s, node, "begins to sync file %u", handle->file);
    (void)flush_start(s, node, handle->file, (int)number, &kind);
}

void close_file(struct sim *s, uint32_t node, uint32_t number)
{
    struct handle *handle = &client_of(s, node)->handles[number];
    const struct flush kind = { .behind = true };

    handle->busy = true;
    sim_trace(s, node, "closes file %u", handle->file);
    (void)flush_start(s, node, handle->file, (int)number, &kind);
}

void fsync_dir(struct sim *s, uint32_t node, uint32_t number)
{
    struct dir_handle *handle = &client_of(s, node)->dirs[number];
    struct power_message m = { .word = WORD_FSYNC, .dir = handle->dir };

    handle->busy = true;
    handle->begun = judge_now(s);
    sim_trace(s, node, "begins to sync directory %u", handle->dir);
    (void)client_ask(s, node, MANAGER, -1, (int)number, &m);
}

void open_dir(struct sim *s, uint32_t node, uint32_t number, uint32_t dir)
{
    struct client *c = client_of(s, node);

    c->dirs[number] = (struct dir_handle){ .open = true, .dir = dir, .opened = judge_now(s) };
    c->dirs[number].lost = changes_lost(&c->changes, world_of(s)->dirs[dir]);
}

static char draw_name(struct sim *s)
{
    return (char)('a' + prng_below(&s->prng, 8));
}

void change_name(struct sim *s, uint32_t node, enum name_kind kind, uint32_t dir, char name)
{
    struct power_message m = { .word = WORD_NAME, .kind = kind, .dir = dir, .name = name };

    m.new_dir = dir;
    m.new_name = name;
    if (kind == NAME_RENAME && !s->scripted) {
        m.new_dir = (uint32_t)prng_below(&s->prng, DIRS);
        m.new_name = draw_name(s);
    }
    (void)client_change(s, node, -1, &m);
}

/* ---- What programs do ---- */

static void think_of_file(struct sim *s, uint32_t node)
{
    uint32_t number = (uint32_t)prng_below(&s->prng, HANDLES);
    struct handle *handle = &client_of(s, node)->handles[number];
    uint64_t dice = prng_below(&s->prng, 100);

    if (!handle->open) {
        open_file(s, node, handle, (uint32_t)prng_below(&s->prng, FILES));
    } else if (handle->busy) {
        return;
    } else if (dice < 55) {
        write_block(s, node, handle, (uint32_t)prng_below(&s->prng, BLOCKS));
    } else if (dice < 55 + world_of(s)->sync_percent) {
        fsync_file(s, node, number, prng_below(&s->prng, 3) == 0);
    } else if (dice < 92) {
        close_file(s, node, number);
    }
}

static void think_of_names(struct sim *s, uint32_t node)
{
    struct client *c = client_of(s, node);
    uint32_t number = (uint32_t)prng_below(&s->prng, DIR_HANDLES);
    struct dir_handle *handle = &c->dirs[number];
    uint64_t dice = prng_below(&s->prng, 100);

    if (!handle->open) {
        open_dir(s, node, number, (uint32_t)prng_below(&s->prng, DIRS));
    } else if (dice < 60 && c->numbers.count < PENDING_MAX / 4) {
        change_name(s, node, (enum name_kind)prng_below(&s->prng, NAME_RENAME + 1), handle->dir,
                    draw_name(s));
    } else if (dice < 60 + world_of(s)->sync_percent && !handle->busy) {
        fsync_dir(s, node, number);
    } else if (dice < 90 && !handle->busy) {
        handle->open = false;
    }
}

static void run_think(struct sim *s, uint32_t node, uint64_t number)
{
    (void)number;
    if (s->scripted) {
        return;
    }
    if (prng_below(&s->prng, 3) == 0) {
        think_of_names(s, node);
    } else {
        think_of_file(s, node);
    }
    sim_after(s, node, prng_below(&s->prng, THINK_MS_MAX), run_think, 0);
}

/* As file_tick(): what is news goes to the manager. */
static void run_tick(struct sim *s, uint32_t node, uint64_t number)
{
    struct client *c = client_of(s, node);
    const struct flush kind = { .handle = -1 };

    for (uint32_t i = 0; i < FILES; i++) {
        if (c->files[i].there && c->files[i].unreported && !c->files[i].reporting &&
            c->files[i].pins == 0) {
            (void)flush_start(s, node, i, -1, &kind);
        }
    }
    sim_after(s, node, TICK_MS, run_tick, number);
}

/* ---- Its life ---- */

static void client_start(struct sim *s, uint32_t node)
{
    struct client *c = client_of(s, node);

    memset(c, 0, sizeof(*c));
    c->id = prng_next(&s->prng) | 1;
    op_numbers_init(&c->numbers, c->numbers_out, CLIENT_OPS_PENDING_MAX);
    changes_init(&c->changes);
    for (uint32_t to = 0; to < CLIENT_FIRST; to++) {
        run_connect(s, node, to);
    }
    run_think(s, node, 0);
    run_tick(s, node, 0);
}

static void client_stop(struct sim *s, uint32_t node, bool machine)
{
    struct world *w = world_of(s);
    struct client *c = client_of(s, node);

    (void)machine;
    judge_client_died(s, node);
    for (uint32_t i = 0; i < FILES; i++) {
        unsynced_free(c->files[i].unsynced);
        c->files[i].unsynced = NULL;
        w->holders[i] = w->holders[i] == node ? 0 : w->holders[i];
    }
}

static void take_written(struct sim *s, uint32_t node, const struct power_message *m)
{
    struct file *file = &client_of(s, node)->files[m->file];

    note_verifier(s, node, m->block % STORES, m->verifier);
    (void)unsynced_acked(file->unsynced, m->block % STORES, m->verifier, false);
    judge_acked(s, node, m->file, m->block, m->value);
    file->sent[m->block] = 0;
    if (file->dirty[m->block] != 0) {
        send_block(s, node, m->file, m->block);
    }
    flush_acked(s, node, m->file);
}

static void take_dir_synced(struct sim *s, uint32_t node, uint32_t number)
{
    struct client *c = client_of(s, node);
    struct dir_handle *handle = &c->dirs[number];
    int status = 0;

    handle->busy = false;
    if (handle->lost) {
        handle->lost = false;
        changes_told(&c->changes, world_of(s)->dirs[handle->dir]);
        status = MORSEL_IO;
    }
    judge_fsync_dir(s, node, handle, status);
}

/* As durable_learn(). */
static void learn(struct sim *s, uint32_t node, const struct power_message *m)
{
    struct world *w = world_of(s);
    struct client *c = client_of(s, node);

    if (m->held_count > 0) {
        heard(s, node, m);
    }
    if (m->status != 0 || m->word == WORD_SYNCED || m->run == 0) {
        return;
    }
    changes_durable(&c->changes, m->run, m->durable_number);
    if (m->word == WORD_WROTE) {
        changes_note(&c->changes, w->files[m->file], m->run, m->number);
    } else if (m->word == WORD_NAME) {
        changes_note(&c->changes, w->dirs[m->dir], m->run, m->number);
        if (m->kind == NAME_RENAME) {
            changes_note(&c->changes, w->dirs[m->new_dir], m->run, m->number);
        }
    }
}

static void take_answer(struct sim *s, uint32_t node, const struct pending *p,
                        const struct power_message *m)
{
    if (m->sequence != 0) {
        op_numbers_return(&client_of(s, node)->numbers, m->sequence);
        judge_answered(s, node, m);
    }
    learn(s, node, m);
    switch (m->word) {
    case WORD_WROTE:
        CHECK(m->status == 0);
        flush_reported(s, node, p->flush, m);
        break;
    case WORD_FSYNC:
        if (p->dir_handle >= 0) {
            take_dir_synced(s, node, (uint32_t)p->dir_handle);
        } else {
            flush_meta_synced(s, node, p->flush, m);
        }
        break;
    case WORD_WRITE:
        take_written(s, node, m);
        break;
    case WORD_SYNC:
        flush_synced(s, node, p->flush, m);
        break;
    default:
        break;
    }
}

static void client_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct client *c = client_of(s, node);
    struct pending *all = message->from == MANAGER ? c->pending : c->store_calls;
    uint32_t count = message->from == MANAGER ? PENDING_MAX : STORE_CALLS_MAX;
    struct power_message m;

    memcpy(&m, message->data, sizeof(m));
    if (message->conn != c->conns[message->from]) {
        return;
    }
    if (m.word == WORD_JOIN) {
        heard(s, node, &m);
    }
    for (uint32_t i = 0; m.word != WORD_JOIN && i < count; i++) {
        if (all[i].active && all[i].message.call == m.call) {
            struct pending p = all[i];

            all[i].active = false;
            take_answer(s, node, &p, &m);
            return;
        }
    }
}

const struct sim_actor power_client = { client_start, client_stop, client_receive, client_down };
