/* Bytes of a member of the group scenario: written, copied from one place to another, taken from another member, shown. */
#include "common/base/check.h"
#include "tests/sim/group.h"

static void write_cell(struct member *m, uint32_t object, uint64_t cell, uint64_t value)
{
    CHECK(object < OBJECTS && cell < CELLS);
    m->bytes.cells[object][cell] = (struct cell){ .value = value, .stamp = ++m->stamp };
}

/* What the change puts into a cell: of a copy, what is here where it comes from. */
static uint64_t value_for(const struct member *m, const struct work *w, uint64_t cell)
{
    const struct order_change *change = &w->change;
    uint64_t value = m->tickets[w->token - 1].call.value;
    uint64_t from = cell + change->reads.start / CELL_BYTES - change->span.start / CELL_BYTES;

    return act_copies(change) ? m->bytes.cells[change->source.inode - 1][from].value << 32 | value
                              : value;
}

void bytes_apply(struct sim *s, uint32_t node, const struct work *w, bool all)
{
    struct member *m = &world_of(s)->member[node];
    uint32_t object = (uint32_t)w->change.object.inode - 1;

    for (uint64_t c = w->change.span.start / CELL_BYTES; c < w->change.span.end / CELL_BYTES; c++) {
        if (all || prng_below(&s->prng, 2) == 0) {
            write_cell(m, object, c, value_for(m, w, c));
        }
    }
}

void bytes_note_copy(struct sim *s, uint32_t node, const struct work *w)
{
    const struct member *m = &world_of(s)->member[node];
    const struct order_change *change = &w->change;
    uint64_t cell = change->span.start / CELL_BYTES;

    if (act_copies(change)) {
        sim_worth(s, WORTH_COPIED);
        if (m->bytes.cells[change->object.inode - 1][cell].value == value_for(m, w, cell)) {
            sim_worth(s, WORTH_COPIED_AGAIN);
        }
    }
}

static bool is_in(const struct change *piece, uint32_t object, uint64_t cell)
{
    uint64_t start = cell * CELL_BYTES, end = start + CELL_BYTES;

    return !piece->everything && piece->object.inode == object + 1 &&
           (piece->whole || (piece->span.start < end && start < piece->span.end));
}

void bytes_take(struct sim *s, uint32_t node, const struct work *w)
{
    struct member *m = &world_of(s)->member[node];
    const struct ticket *t = w->token != 0 ? &m->tickets[w->token - 1] : NULL;

    for (uint32_t o = 0; o < OBJECTS; o++) {
        for (uint32_t c = 0; c < CELLS; c++) {
            if (t != NULL && is_in(&w->piece, o, c) &&
                !(sim_canary(s, "keeps_its_own") && m->disk.record.whole)) {
                write_cell(m, o, c, t->values[o][c]);
            }
        }
    }
}

void bytes_show(const struct member *m, uint64_t values[OBJECTS][CELLS])
{
    for (uint32_t o = 0; o < OBJECTS; o++) {
        for (uint32_t c = 0; c < CELLS; c++) {
            values[o][c] = m->bytes.cells[o][c].value;
        }
    }
}
