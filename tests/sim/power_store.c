/* The storage servers of the power scenario. They stand for src/iod and the object store: a write
 * is answered from memory, a sync when the disk has what was there when it began, and each answer
 * names the verifier (src/common/store/store_checkpoint_file.h): a new one after each loss of
 * power. */
#include "common/base/check.h"
#include "tests/sim/power.h"

#include <string.h>

enum { DISK_MS_MAX = 30, SETTLE_MS_MAX = 400 };

static struct store *store_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->stores[node - STORE_FIRST];
}

/* The kernel writes something back by itself. */
static void run_checkpoint(struct sim *s, uint32_t node, uint64_t number)
{
    struct store *store = store_of(s, node);
    uint64_t file = prng_below(&s->prng, FILES), block = prng_below(&s->prng, BLOCKS);

    (void)number;
    if (s->scripted) {
        return;
    }
    store->disk[file][block] = store->memory[file][block];
    sim_after(s, node, prng_below(&s->prng, SETTLE_MS_MAX), run_checkpoint, 0);
}

static void store_start(struct sim *s, uint32_t node)
{
    struct store *store = store_of(s, node);

    if (store->verifier == 0 || (store->lost_power && !sim_canary(s, "same_verifier"))) {
        store->verifier = prng_next(&s->prng) | 1;
    }
    store->lost_power = false;
    memset(store->jobs, 0, sizeof(store->jobs));
    memset(store->lives, 0, sizeof(store->lives));
    sim_trace(s, node, "start");
    run_checkpoint(s, node, 0);
}

/* Of what was not synced the disk has some of the blocks. */
static void store_stop(struct sim *s, uint32_t node, bool machine)
{
    struct store *store = store_of(s, node);

    if (!machine) {
        return;
    }
    for (uint32_t i = 0; i < FILES * BLOCKS; i++) {
        if (!s->scripted && prng_below(&s->prng, 3) == 0) {
            store->disk[i / BLOCKS][i % BLOCKS] = store->memory[i / BLOCKS][i % BLOCKS];
        }
    }
    judge_store_lost(s, node - STORE_FIRST);
    memcpy(store->memory, store->disk, sizeof(store->memory));
    store->lost_power = true;
}

static void answer(struct sim *s, uint32_t node, uint32_t conn, struct power_message m)
{
    m.status = 0;
    m.verifier = store_of(s, node)->verifier;
    sim_send(s, node, conn, &m, sizeof(m));
}

static void run_synced(struct sim *s, uint32_t node, uint64_t number)
{
    struct store_job *job = &store_of(s, node)->jobs[number];
    struct store *store = store_of(s, node);

    for (uint32_t block = 0; block < BLOCKS; block++) {
        uint64_t *disk = &store->disk[job->message.file][block];

        *disk = job->memory[block] > *disk ? job->memory[block] : *disk;
    }
    job->active = false;
    sim_trace(s, node, "has synced file %u", job->message.file);
    answer(s, node, job->conn, job->message);
}

static void begin_sync(struct sim *s, uint32_t node, uint32_t conn, const struct power_message *m)
{
    struct store *store = store_of(s, node);
    uint64_t number = 0;

    while (number < STORE_JOBS_MAX && store->jobs[number].active) {
        number++;
    }
    CHECK(number < STORE_JOBS_MAX);
    store->jobs[number] = (struct store_job){ .active = true, .conn = conn, .message = *m };
    memcpy(store->jobs[number].memory, store->memory[m->file], sizeof(store->memory[m->file]));
    sim_after(s, node, s->scripted ? DISK_MS_MAX : prng_below(&s->prng, DISK_MS_MAX), run_synced,
              number);
}

/* Of a client that has died nothing lands any more once its successor writes (fencing), and of one
 * that connects again nothing that it sent over an older connection. */
static bool is_too_late(struct sim *s, uint32_t node, const struct sim_message *message,
                        const struct power_message *m)
{
    for (uint32_t i = 1; i < message->conn; i++) {
        const struct sim_conn *c = &s->conns[i - 1];

        if (c->ends[0] == message->from && c->ends[1] == node && c->open[1]) {
            sim_hang_up(s, node, i);
        }
    }
    return m->life != s->nodes[message->from].life || !s->nodes[message->from].up;
}

static void store_receive(struct sim *s, uint32_t node, const struct sim_message *message)
{
    struct store *store = store_of(s, node);
    struct power_message m;

    memcpy(&m, message->data, sizeof(m));
    if (is_too_late(s, node, message, &m)) {
        return;
    }
    if (m.word == WORD_SYNC) {
        begin_sync(s, node, message->conn, &m);
        return;
    }
    CHECK(m.word == WORD_WRITE && m.block % STORES == node - STORE_FIRST);
    store->memory[m.file][m.block] = m.value;
    sim_trace(s, node, "has block %u of file %u", m.block, m.file);
    answer(s, node, message->conn, m);
}

static void store_down(struct sim *s, uint32_t node, uint32_t conn)
{
    (void)s;
    (void)node;
    (void)conn;
}

const struct sim_actor power_store = { store_start, store_stop, store_receive, store_down };
