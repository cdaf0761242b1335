/* The disk of a member of the group scenario: it forgets what was not synced. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "tests/sim/group.h"

#include <string.h>

static struct member *member_of(struct sim *s, uint32_t node)
{
    return &world_of(s)->member[node];
}

void member_format(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);

    m->disk.formatted = true;
    group_record_new(&m->disk.record, world_of(s)->members, 1);
    m->disk.boots = 1;
}

/* Another disk: nothing of what was there, and it knows that. */
void member_renew(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);
    struct dirty_record all = { .kind = DIRTY_INTENT, .change.everything = true };

    memset(&m->bytes, 0, sizeof(m->bytes));
    m->disk.bytes = m->bytes;
    m->disk.operation_count = m->operation_count = 0;
    m->disk.dirty[0] = all;
    m->disk.dirty_count = 1;
    group_record_newcomer(&m->disk.record, world_of(s)->members, node, ++m->disk.boots);
    m->lost = true;
}

void member_force(struct sim *s, uint32_t node)
{
    struct group_record *r = &member_of(s, node)->disk.record;
    struct group_record was = *r;

    group_record_force(r, node, world_of(s)->forced);
    if (sim_canary(s, "names_without_jump")) {
        r->epoch = was.epoch + 1;
    }
    if (sim_canary(s, "names_under_old_verifier")) {
        r->verifier = was.verifier;
    }
}

/* ---- Start and end ---- */

static bool is_skipped(struct sim *s, const struct dirty_record *r)
{
    return (r->kind == DIRTY_CHANGED && sim_canary(s, "forgets_logs")) ||
           (r->kind == DIRTY_INTENT && sim_canary(s, "forgets_intent"));
}

void disk_load(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);

    for (uint32_t i = 0; i < m->disk.dirty_count; i++) {
        if (!is_skipped(s, &m->disk.dirty[i])) {
            replica_load_dirty(m->replica, &m->disk.dirty[i]);
        }
    }
    for (uint32_t i = 0; i < m->operation_count; i++) {
        struct op_known known = m->operations[i];

        known.until_ms = clock_of_true(s, node, known.until_ms);
        if (!sim_canary(s, "forgets_operations")) {
            CHECK(replica_load_operation(m->replica, &known));
        }
    }
}

static void add_operation(struct member *m, const struct op_known *known)
{
    CHECK(m->operation_count < OPERATIONS_MAX);
    m->operations[m->operation_count++] = *known;
}

static bool add_known(void *data, const struct op_known *known)
{
    add_operation(data, known);
    return true;
}

/* The file with the memory of operations, as the machine has it: what was begun and not done is
 * known by that alone. */
static void note_operations(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);

    m->operation_count = 0;
    (void)op_memory_each(m->replica->order.memory, add_known, m);
    for (uint32_t i = 0; i < TOKENS_MAX; i++) {
        const struct work *w = &m->works[i];

        if (w->type == REPLICA_APPLY) {
            struct op_known begun = { .op = w->change.op, .until_ms = w->change.not_after_ms };

            begun.answer.status = MORSEL_UNSURE;
            begun.answer.verifier = m->replica->order.verifier;
            add_operation(m, &begun);
        }
    }
    for (uint32_t i = 0; i < m->operation_count; i++) {
        m->operations[i].until_ms = true_of_clock(s, node, m->operations[i].until_ms);
    }
}

static void keep_operations(struct member *m)
{
    memcpy(m->disk.operations, m->operations, sizeof(m->operations));
    m->disk.operation_count = m->operation_count;
}

bool disk_stop(struct sim *s, uint32_t node, bool machine)
{
    struct member *m = member_of(s, node);
    bool anything = m->disk.dirty_count > 0;

    note_operations(s, node);
    if (!machine) {
        return false;
    }
    for (uint32_t o = 0; o < OBJECTS; o++) {
        for (uint32_t c = 0; c < CELLS; c++) {
            anything = anything || m->bytes.cells[o][c].stamp != m->disk.bytes.cells[o][c].stamp;
        }
    }
    m->bytes = m->disk.bytes;
    memcpy(m->operations, m->disk.operations, sizeof(m->operations));
    m->operation_count = m->disk.operation_count;
    m->disk.boots++;
    return anything;
}

/* ---- The record ---- */

static void run_written(struct sim *s, uint32_t node, uint64_t number)
{
    struct member *m = member_of(s, node);
    struct group_record *r = &m->disk.record;

    (void)number;
    if (sim_canary(s, "whole_in_memory") && !r->whole) {
        *r = m->record;
        r->whole = false;
        return;
    }
    *r = m->record;
    if (r->state == GROUP_RECOVERING) {
        m->lost = true;
    }
}

static void run_recorded(struct sim *s, uint32_t node, uint64_t number)
{
    if (!sim_canary(s, "speaks_before_durable")) {
        run_written(s, node, number);
    }
    replica_recorded(member_of(s, node)->replica, sim_clock_ms(s, node));
}

void disk_record(struct sim *s, uint32_t node, const struct group_record *record)
{
    uint64_t delay_ms = disk_delay_ms(s, node, DISK_MS_MAX);

    member_of(s, node)->record = *record;
    if (sim_canary(s, "speaks_before_durable")) {
        sim_after(s, node, 300, run_written, 0);
        delay_ms = 0;
    }
    sim_after(s, node, delay_ms, run_recorded, 0);
}

/* ---- The dirty file ---- */

static bool add_dirty(void *data, const struct dirty_record *record)
{
    struct member *m = data;

    CHECK(m->dirty_count < DIRTY_MAX);
    m->dirty[m->dirty_count++] = *record;
    return true;
}

static void run_noted(struct sim *s, uint32_t node, uint64_t number)
{
    struct member *m = member_of(s, node);

    (void)number;
    for (uint32_t i = 0; i < m->dirty_count && !sim_canary(s, "intent_in_memory"); i++) {
        CHECK(m->disk.dirty_count < DIRTY_MAX);
        m->disk.dirty[m->disk.dirty_count++] = m->dirty[i];
    }
    replica_noted(m->replica);
}

void disk_note(struct sim *s, uint32_t node, const struct replica_action *action)
{
    struct member *m = member_of(s, node);

    m->dirty_count = 0;
    for (uint32_t i = 0; i < action->count; i++) {
        (void)add_dirty(m, &action->notes[i]);
    }
    sim_after(s, node, disk_delay_ms(s, node, DISK_MS_MAX), run_noted, 0);
}

static void run_rewritten(struct sim *s, uint32_t node, uint64_t number)
{
    struct member *m = member_of(s, node);

    (void)number;
    memcpy(m->disk.dirty, m->dirty, sizeof(m->dirty));
    m->disk.dirty_count = m->dirty_count;
    if (m->dirty_count == 0) {
        sim_worth(s, WORTH_CLEARED);
    }
    replica_rewritten(m->replica, sim_clock_ms(s, node));
}

void disk_rewrite(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);

    m->dirty_count = 0;
    CHECK(replica_dirty(m->replica, add_dirty, m));
    sim_after(s, node, disk_delay_ms(s, node, DISK_MS_MAX), run_rewritten, 0);
}

/* ---- Bytes ---- */

static void keep_cell(struct member *m, const struct bytes *from, uint32_t object, uint32_t cell)
{
    const struct cell *c = &from->cells[object][cell];

    if (c->stamp > m->disk.bytes.cells[object][cell].stamp) {
        m->disk.bytes.cells[object][cell] = *c;
    }
}

/* The kernel writes back when it likes. */
void disk_write_back(struct sim *s, uint32_t node)
{
    struct member *m = member_of(s, node);

    keep_cell(m, &m->bytes, (uint32_t)prng_below(&s->prng, OBJECTS),
              (uint32_t)prng_below(&s->prng, CELLS));
    if (sim_canary(s, "clears_intent_alone") && m->disk.dirty_count > 0) {
        m->disk.dirty_count--;
    }
}

void disk_synced(struct sim *s, uint32_t node, const struct work *work)
{
    struct member *m = member_of(s, node);

    if (work->everything && sim_canary(s, "counts_before_flush")) {
        return;
    }
    for (uint32_t o = 0; o < OBJECTS; o++) {
        for (uint32_t c = 0; c < CELLS; c++) {
            if (work->everything || o == work->object.inode - 1) {
                keep_cell(m, &work->bytes, o, c);
            }
        }
    }
    if (work->everything && !sim_canary(s, "memory_behind")) {
        note_operations(s, node);
        keep_operations(m);
    }
}
