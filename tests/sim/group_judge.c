/* What must hold of a group of members, judged by what went in and out of them. */
#include "common/base/check.h"
#include "tests/sim/group.h"

#include <stdlib.h>
#include <string.h>

/* Behind each command its epochs have room of their own, and before it there is one that nobody is in. */
group_set *decided_in(struct world *w, uint64_t epoch)
{
    uint64_t command = (epoch + 1) >> GROUP_FORCED_SHIFT;
    uint64_t behind = epoch + 1 - (command << GROUP_FORCED_SHIFT);

    CHECK(command <= FORCED_MAX && behind < FORCED_EPOCHS_MAX);
    return &w->decided[command * FORCED_EPOCHS_MAX + behind];
}

bool judge_decided(struct sim *s, uint64_t epoch, group_set set)
{
    struct world *w = world_of(s);
    group_set *decided = decided_in(w, epoch);

    CHECK(set != 0);
    if (*decided != 0 && *decided != set) {
        return sim_fail(s, "epoch %llu is decided twice", (unsigned long long)epoch);
    }
    if (*decided == 0) {
        sim_worth(s, (set & ~*decided_in(w, epoch - 1)) != 0 ? WORTH_GROWN : WORTH_VOTE);
        if (!slow_decided(s, *decided_in(w, epoch - 1), set)) {
            return false;
        }
    }
    *decided = set;
    w->newest = epoch > w->newest ? epoch : w->newest;
    return true;
}

/* ---- Calls ---- */

enum { DEEDS_MAX = 65536, VALUES_MAX = DEEDS_MAX };

/* A call, in the order in which they began. Moments are counted, not timed: no two are the same. */
struct deed
{
    enum act act;
    uint32_t client, object, first, end_cell; /* Cells. */
    uint64_t begun, ended;                    /* 0: not, or nobody knows. */
    bool done;
    uint64_t value, verifier, answered; /* answered: the verifier of the answer. */
    bool claimed;                       /* A sync has said that it is on the disks. */
    uint64_t values[CELLS];
    /* Of a copy: where it copies from, and by its cells what it has copied, as far as anybody has read it: in the
     * stretch that is looked at, and in any. */
    uint32_t source, source_first;
    bool known[CELLS], ever_known[CELLS];
    uint64_t copied[CELLS], ever_copied[CELLS];
};

struct judge
{
    struct deed deeds[DEEDS_MAX];
    uint32_t count;
    uint64_t moment;
    uint64_t losses[LOSSES_MAX]; /* Moments at which acknowledged bytes may have been lost. */
    uint32_t loss_count;
    uint64_t
        given_up; /* When a copy was named that need not have what was synced: what was asked for before counts no more. */
};

void judge_open(struct sim *s)
{
    world_of(s)->judge = calloc(1, sizeof(struct judge));
    CHECK(world_of(s)->judge != NULL);
}

void judge_close(struct sim *s)
{
    free(world_of(s)->judge);
}

uint32_t judge_begin(struct sim *s, const struct call *call)
{
    struct judge *j = world_of(s)->judge;
    struct deed *d = &j->deeds[j->count];

    CHECK(j->count < DEEDS_MAX);
    d->act = call->act;
    d->client = call->client;
    d->object = (uint32_t)call->change.object.inode - 1;
    d->first = (uint32_t)(call->change.span.start / CELL_BYTES);
    d->end_cell = (uint32_t)(call->change.span.end / CELL_BYTES);
    d->source = (uint32_t)call->change.source.inode - 1;
    d->source_first = (uint32_t)(call->change.reads.start / CELL_BYTES);
    d->value = call->value;
    d->verifier = call->change.verifier;
    d->begun = ++j->moment;
    return j->count++;
}

/* What the client wrote, was answered before it asked for the sync, and under the verifier of the
 * sync: it is told that this is on the disks. */
static void claim(struct judge *j, const struct deed *sync)
{
    for (struct deed *w = j->deeds; w < sync && sync->begun > j->given_up; w++) {
        if (act_changes(w->act) && w->client == sync->client && w->object == sync->object &&
            w->done && w->answered == sync->answered) {
            w->claimed = true;
        }
    }
}

void judge_end(struct sim *s, uint32_t deed, const struct answer *answer, bool done)
{
    struct judge *j = world_of(s)->judge;
    struct deed *d = &j->deeds[deed];

    d->done = done;
    d->ended = ++j->moment;
    d->answered = answer->verifier;
    memcpy(d->values, answer->values, sizeof(d->values));
    if (d->act == ACT_FSYNC && done) {
        claim(j, d);
    }
}

/* ---- Is there an order in which it can have happened? ---- */

/* A value of a cell in a stretch of the history in which nothing was lost: its write and its reads.
 * Gibbons and Korach, "Testing shared memories", SIAM J. Comput. 1997: with values that are written
 * once there is such an order exactly when no two *zones* of two values are both forward and
 * overlap, and none that is backward lies within one that is forward. */
struct zone
{
    const struct deed *write; /* NULL: what was there before anybody wrote. */
    bool is_read;
    uint64_t first_end, last_begin, first_read_end;
    uint64_t verifier; /* The smallest of the reads of it. */
};

/* One cell between two losses. */
struct stretch
{
    const struct judge *j;
    uint32_t object, cell;
    uint64_t from, to; /* Moments. */
    struct zone *zones;
    uint32_t count;
};

static bool touches(const struct deed *d, uint32_t object, uint32_t cell)
{
    return d->object == object && d->first <= cell && cell < d->end_cell;
}

static struct zone *zone_of(struct stretch *t, uint64_t value)
{
    for (uint32_t i = 0; i < t->count; i++) {
        const struct deed *w = t->zones[i].write;

        if ((w == NULL ? 0 : w->value) == value) {
            return &t->zones[i];
        }
    }
    return NULL;
}

static void add_zone(struct stretch *t, const struct deed *write)
{
    struct zone *z = &t->zones[t->count++];
    bool before = write == NULL || write->begun < t->from;
    bool done = write == NULL || (write->done && write->ended < t->to);

    *z = (struct zone){ .write = write, .first_end = UINT64_MAX, .first_read_end = UINT64_MAX };
    z->last_begin = before ? t->from : write->begun;
    z->verifier = UINT64_MAX;
    if (done) {
        z->first_end = write == NULL || write->ended < t->from ? t->from : write->ended;
    }
}

static bool add_read(struct sim *s, struct stretch *t, const struct deed *d)
{
    uint64_t value = (uint32_t)d->values[t->cell];
    struct zone *z = zone_of(t, value);

    if (z == NULL) {
        return sim_fail(s, "object %u, cell %u: read %llx, which nobody wrote", t->object + 1,
                        t->cell, (unsigned long long)value);
    }
    z->is_read = true;
    z->first_end = d->ended < z->first_end ? d->ended : z->first_end;
    z->last_begin = d->begun > z->last_begin ? d->begun : z->last_begin;
    z->first_read_end = d->ended < z->first_read_end ? d->ended : z->first_read_end;
    z->verifier = d->answered < z->verifier ? d->answered : z->verifier;
    return true;
}

/* What a copy has taken from the cell was there at some moment while it was under way: as if read then. */
static bool add_copy(struct sim *s, struct stretch *t, const struct deed *d)
{
    uint32_t cell = t->cell - d->source_first; /* Of what is copied. */
    uint64_t ended = d->done ? d->ended : UINT64_MAX;
    struct zone *z;

    if (d->source != t->object || t->cell < d->source_first || cell >= d->end_cell - d->first ||
        !d->known[cell] || d->begun < t->from || (d->done ? ended >= t->to : t->to != UINT64_MAX)) {
        return true;
    }
    z = zone_of(t, d->copied[cell]);
    if (z == NULL) {
        return sim_fail(s, "object %u, cell %u: copied %llx, which nobody wrote", t->object + 1,
                        t->cell, (unsigned long long)d->copied[cell]);
    }
    z->first_end = ended < z->first_end ? ended : z->first_end;
    z->last_begin = d->begun > z->last_begin ? d->begun : z->last_begin;
    z->first_read_end = ended < z->first_read_end ? ended : z->first_read_end;
    return true;
}

/* Was something given up while it was under way? What a member had carried out of it may be lost, and it is carried
 * out again where its source is another one by then. */
static bool spans_loss(const struct judge *j, const struct deed *d)
{
    for (uint32_t i = 0; i < j->loss_count; i++) {
        if (d->begun < j->losses[i] && (!d->done || j->losses[i] < d->ended)) {
            return true;
        }
    }
    return false;
}

static bool learn(struct sim *s, const struct judge *j, const struct deed *read, uint32_t cell,
                  struct deed *d)
{
    uint64_t from = read->values[cell] >> 32;
    uint32_t at = cell - d->first;
    bool new_here = !d->known[at] || d->copied[at] == from;
    bool new_ever = !d->ever_known[at] || d->ever_copied[at] == from;

    if (!spans_loss(j, d) && (!new_here || (!new_ever && d->claimed))) {
        return sim_fail(s, "object %u, cell %u: %llx has copied both %llx and %llx",
                        read->object + 1, cell, (unsigned long long)d->value,
                        (unsigned long long)d->ever_copied[at], (unsigned long long)from);
    }
    d->known[at] = d->ever_known[at] = true;
    d->copied[at] = d->ever_copied[at] = from;
    return true;
}

/* A cell that was read, and holds what a copy has put there: everybody reads the same of it, until a loss. Who has
 * carried it out may be gone then, and it is carried out once more, unless a sync has said that it is on the disks. */
static bool learn_copy(struct sim *s, struct judge *j, const struct deed *read, uint32_t cell)
{
    uint64_t value = (uint32_t)read->values[cell];
    struct deed *d = j->deeds;

    while (d < j->deeds + j->count && !(act_changes(d->act) && d->value == value)) {
        d++;
    }
    if (value == 0 || d == j->deeds + j->count || !touches(d, read->object, cell)) {
        return true; /* add_read() says what is wrong with it. */
    }
    if (d->act == ACT_WRITE) {
        return read->values[cell] >> 32 == 0 ||
               sim_fail(s, "object %u, cell %u: %llx is no copy", read->object + 1, cell,
                        (unsigned long long)value);
    }
    return learn(s, j, read, cell, d);
}

static bool learn_copies(struct sim *s, uint64_t from, uint64_t to)
{
    struct judge *j = world_of(s)->judge;

    for (uint32_t i = 0; i < j->count; i++) {
        memset(j->deeds[i].known, 0, sizeof(j->deeds[i].known));
    }
    for (uint32_t i = 0; i < j->count; i++) {
        const struct deed *d = &j->deeds[i];
        bool here = d->act == ACT_READ && d->done && d->begun >= from && d->ended < to;

        for (uint32_t cell = 0; here && cell < CELLS; cell++) {
            if (!learn_copy(s, j, d, cell)) {
                return false;
            }
        }
    }
    return true;
}

static bool collect(struct sim *s, struct stretch *t)
{
    add_zone(t, NULL);
    for (uint32_t i = 0; i < t->j->count && t->j->deeds[i].begun < t->to; i++) {
        const struct deed *d = &t->j->deeds[i];

        if (act_changes(d->act) && touches(d, t->object, t->cell)) {
            add_zone(t, d);
        }
    }
    for (uint32_t i = 0; i < t->j->count; i++) {
        const struct deed *d = &t->j->deeds[i];

        if (d->act == ACT_READ && d->done && d->object == t->object && d->begun >= t->from &&
            d->ended < t->to && !add_read(s, t, d)) {
            return false;
        }
        if (d->act == ACT_COPY && !add_copy(s, t, d)) {
            return false;
        }
    }
    return true;
}

static unsigned long long name_of(const struct zone *z)
{
    return z->write == NULL ? 0 : z->write->value;
}

static bool excludes(const struct zone *a, const struct zone *b)
{
    bool a_forward = a->first_end < a->last_begin, b_forward = b->first_end < b->last_begin;

    if (a_forward && b_forward) {
        uint64_t start = a->first_end > b->first_end ? a->first_end : b->first_end;
        uint64_t end = a->last_begin < b->last_begin ? a->last_begin : b->last_begin;

        return start < end;
    }
    return b_forward && !a_forward && b->first_end < a->last_begin && a->first_end < b->last_begin;
}

/* Of two losses only one thing is left. What is read of before was it, or came later: then under a
 * verifier that was known when it was sent. */
static bool check_survivors(struct sim *s, const struct stretch *t)
{
    const struct zone *left = NULL;

    for (uint32_t i = 0; i < t->count && t->from > 0; i++) {
        const struct zone *z = &t->zones[i];
        bool known = z->write == NULL || z->write->verifier < z->verifier;

        if (!z->is_read || (z->write != NULL && z->write->begun >= t->from) || !known) {
            continue;
        }
        if (left != NULL) {
            return sim_fail(s, "object %u, cell %u: both %llx and %llx are read after a loss",
                            t->object + 1, t->cell, name_of(left), name_of(z));
        }
        left = z;
    }
    return true;
}

/* What a sync has said is on the disks is not replaced by what is older. */
static bool check_durable(struct sim *s, const struct stretch *t, const struct zone *z)
{
    for (uint32_t i = 0; i < t->j->count && z->is_read; i++) {
        const struct deed *w = &t->j->deeds[i];

        if (act_changes(w->act) && w->claimed && touches(w, t->object, t->cell) &&
            w->ended < t->from &&
            (z->write == NULL || (z->write->done && z->write->ended < w->begun))) {
            return sim_fail(s, "object %u, cell %u: %llx is read, and %llx was on the disks",
                            t->object + 1, t->cell, name_of(z), (unsigned long long)w->value);
        }
    }
    return true;
}

static bool check_zones(struct sim *s, const struct stretch *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        const struct zone *z = &t->zones[i];

        if (z->write != NULL && z->write->begun >= t->from && z->first_read_end < z->write->begun) {
            return sim_fail(s, "object %u, cell %u: %llx is read before it is written",
                            t->object + 1, t->cell, name_of(z));
        }
        for (uint32_t k = 0; k < t->count; k++) {
            if (k != i && excludes(z, &t->zones[k])) {
                return sim_fail(s, "object %u, cell %u: %llx and %llx, in which order?",
                                t->object + 1, t->cell, name_of(z), name_of(&t->zones[k]));
            }
        }
        if (!check_durable(s, t, z)) {
            return false;
        }
    }
    return check_survivors(s, t);
}

static bool check_stretch(struct sim *s, struct stretch *t)
{
    if (!learn_copies(s, t->from, t->to)) {
        return false;
    }
    for (t->object = 0; t->object < USED; t->object++) {
        for (t->cell = 0; t->cell < CELLS; t->cell++) {
            t->count = 0;
            if (!collect(s, t) || !check_zones(s, t)) {
                return false;
            }
        }
    }
    return true;
}

static bool check_history(struct sim *s)
{
    const struct judge *j = world_of(s)->judge;
    struct stretch t = { .j = j, .zones = calloc(j->count + 1, sizeof(*t.zones)) };
    bool good = true;

    CHECK(t.zones != NULL);
    for (uint32_t i = 0; i <= j->loss_count && good; i++) {
        t.from = i == 0 ? 0 : j->losses[i - 1];
        t.to = i == j->loss_count ? UINT64_MAX : j->losses[i];
        good = check_stretch(s, &t);
    }
    free(t.zones);
    return good;
}

/* ---- What a loss of power may take ---- */

static bool has_begun(struct world *w, uint64_t epoch)
{
    for (uint32_t i = 0; i < w->members; i++) {
        if ((*decided_in(w, epoch) >> i & 1) != 0 && w->member[i].disk.record.begun >= epoch) {
            return true;
        }
    }
    return epoch == 1;
}

/* Does the member have everything that was acknowledged, and can the others know it? */
static bool keeps(struct world *w, uint32_t i)
{
    const struct member *m = &w->member[i];
    uint64_t newest = w->newest;

    if (m->lost || m->disk.record.state == GROUP_RECOVERING) {
        return false;
    }
    if ((*decided_in(w, newest) >> i & 1) != 0 && m->disk.record.epoch + 1 >= newest) {
        return true;
    }
    while (*decided_in(w, newest) != 0 && !has_begun(w, newest) && newest > m->disk.record.epoch) {
        newest--; /* Nothing was acknowledged there. */
    }
    return m->disk.record.epoch == newest && (*decided_in(w, newest) >> i & 1) != 0;
}

void judge_loss(struct sim *s, uint32_t node, bool anything)
{
    struct world *w = world_of(s);

    if (!anything) {
        return;
    }
    w->member[node].lost = true;
    for (uint32_t i = 0; i < w->members; i++) {
        if (keeps(w, i)) {
            sim_worth(s, WORTH_SURVIVED);
            return;
        }
    }
    CHECK(w->judge->loss_count < LOSSES_MAX);
    w->judge->losses[w->judge->loss_count++] = ++w->judge->moment;
    sim_worth(s, WORTH_LOSS);
    sim_trace(s, node, "** nobody has everything for sure");
}

/* Was it joined in the newest set that ever was? Then it has what was synced. */
static bool has_synced(const struct world *w, uint32_t i)
{
    const struct group_record *r = &w->member[i].disk.record;

    for (uint32_t k = 0; k < w->members; k++) {
        if (w->member[k].disk.record.begun > r->begun) {
            return false;
        }
    }
    return group_in_sync(r->state) && r->begun == r->epoch && r->epoch == w->newest;
}

void judge_force(struct sim *s, uint32_t node)
{
    struct world *w = world_of(s);
    uint64_t epoch = group_forced_epoch(++w->forced);

    for (uint32_t i = 0; i < w->judge->count && !has_synced(w, node); i++) {
        w->judge->deeds[i].claimed = false;
    }
    if (!has_synced(w, node)) {
        w->judge->given_up = w->judge->moment;
    }
    sim_worth(s, has_synced(w, node) ? WORTH_FORCED : WORTH_FORCED_STALE);
    w->newest = epoch;
    *decided_in(w, epoch) = (group_set)(1U << node);
    CHECK(w->judge->loss_count < LOSSES_MAX);
    w->judge->losses[w->judge->loss_count++] = ++w->judge->moment;
}

/* ---- After every event ---- */

static bool check_pair(struct sim *s, uint32_t i, uint32_t j)
{
    const struct group *a = &world_of(s)->member[i].replica->group;
    const struct group *b = &world_of(s)->member[j].replica->group;

    if (a->joined == 0 || b->joined == 0) {
        return true;
    }
    if (a->record.epoch == b->record.epoch && a->record.set != b->record.set) {
        return sim_fail(s, "two sets act in epoch %llu", (unsigned long long)a->record.epoch);
    }
    if (a->record.epoch < b->record.epoch && group_serves(a, sim_clock_ms(s, i))) {
        return sim_fail(s, "%s serves in epoch %llu while %s has begun epoch %llu",
                        s->nodes[i].name, (unsigned long long)a->record.epoch, s->nodes[j].name,
                        (unsigned long long)b->record.epoch);
    }
    return true;
}

bool group_judge_check(struct sim *s)
{
    struct world *w = world_of(s);

    for (uint32_t i = 0; i < w->members; i++) {
        const struct replica *r = w->member[i].replica;

        if (r == NULL) {
            continue;
        }
        if (r->group.joined != 0 && *decided_in(w, r->group.record.epoch) != r->group.record.set) {
            return sim_fail(s, "%s acts in epoch %llu with a set that no vote has given",
                            s->nodes[i].name, (unsigned long long)r->group.record.epoch);
        }
        for (uint32_t j = 0; j < w->members; j++) {
            if (j != i && w->member[j].replica != NULL && !check_pair(s, i, j)) {
                return false;
            }
        }
    }
    return !s->failed;
}

/* Everybody serves, and all copies are equal. */
static bool check_member(struct sim *s, uint32_t i)
{
    const struct world *w = world_of(s);
    const struct group *g = &w->member[i].replica->group;

    if (g->joined == 0 || g->record.state != GROUP_CONSISTENT) {
        return sim_fail(s, "%s is %s in epoch %llu although all is well again", s->nodes[i].name,
                        group_state_name(g->record.state), (unsigned long long)g->record.epoch);
    }
    for (uint32_t o = 0; o < OBJECTS; o++) {
        for (uint32_t c = 0; c < CELLS; c++) {
            uint64_t here = w->member[i].bytes.cells[o][c].value;
            uint64_t there = w->member[0].bytes.cells[o][c].value;

            if (here != there) {
                return sim_fail(s, "object %u, cell %u: the copies differ: %llx here, %llx at %s",
                                o + 1, c, (unsigned long long)there, (unsigned long long)here,
                                s->nodes[i].name);
            }
        }
    }
    return true;
}

bool group_judge_finish(struct sim *s)
{
    const struct world *w = world_of(s);

    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (w->clients[i].call.act != ACT_NONE) {
            return sim_fail(s, "%s still waits for call %llu, begun at %llu",
                            s->nodes[w->first_client + i].name,
                            (unsigned long long)w->clients[i].call.number,
                            (unsigned long long)w->clients[i].begun_ms);
        }
    }
    for (uint32_t i = 0; i < w->members; i++) {
        if (!check_member(s, i)) {
            return false;
        }
    }
    return check_history(s);
}
