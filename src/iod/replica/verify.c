/* The steps of a comparison (verify.h). */
#include "iod/replica/verify.h"

#include "common/base/check.h"

#include <string.h>

enum { WHOLE_MILLIONTHS = 1000000 };

static bool has(group_set set, uint32_t member)
{
    return (set >> member & 1U) != 0;
}

/* ---- Steps ---- */

static void ask(struct verify *v, const struct verify_step *step)
{
    v->step = *step;
    v->steps++;
    v->have = 0;
}

static void ask_list(struct verify *v)
{
    const struct verify_step step = { .type = VERIFY_LIST, .to = v->set, .after = v->after };

    ask(v, &step);
}

static void ask_look(struct verify *v, bool hold, bool length)
{
    struct verify_step step = { .type = VERIFY_LOOK, .to = v->set, .hold = hold };

    step.object = v->objects[v->at];
    step.span.start = v->offset;
    step.span.end = v->offset + (length ? 0 : VERIFY_BYTES);
    ask(v, &step);
}

static void next_object(struct verify *v)
{
    if (v->at < v->objects_count) {
        v->offset = 0;
        v->sized = false;
        memset(v->grown, 0xff, sizeof(v->grown)); /* None has. */
        ask_look(v, false, false);
        return;
    }
    v->after = v->upto;
    v->objects_count = v->at = 0;
    if (v->after != UINT64_MAX) {
        ask_list(v);
        return;
    }
    v->running = false;
    v->done = true;
    v->step = (struct verify_step){ .type = VERIFY_NOTHING };
    v->steps++;
}

void verify_begin(struct verify *v, uint64_t run)
{
    memset(v, 0, sizeof(*v));
    v->run = run;
    v->running = true;
}

void verify_round(struct verify *v, group_set set, uint32_t me)
{
    CHECK(v->running && has(set, me));
    v->set = set;
    v->me = me;
    if (v->at < v->objects_count) {
        ask_look(v, false, false);
    } else {
        ask_list(v);
    }
}

/* Another answer to the step. False: it is none, or was here before. */
static bool answers(struct verify *v, uint32_t member, enum verify_step_type type)
{
    if (v->step.type != type || !has(v->step.to, member) || has(v->have, member)) {
        return false;
    }
    v->have |= (group_set)(1U << member);
    return true;
}

static bool all_answered(const struct verify *v)
{
    return v->have == v->step.to;
}

/* ---- Which objects there are ---- */

static void add_object(struct verify *v, struct object_id object)
{
    for (uint32_t i = 0; i < v->objects_count; i++) {
        if (v->objects[i].inode == object.inode && v->objects[i].column == object.column) {
            return;
        }
    }
    v->objects[v->objects_count++] = object;
}

static void merge_lists(struct verify *v)
{
    v->upto = UINT64_MAX;
    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        if (has(v->have, m) && v->lists[m].upto < v->upto) {
            v->upto = v->lists[m].upto;
        }
    }
    v->upto = v->upto > v->after ? v->upto : v->after + 1; /* It goes on whatever they say. */
    v->objects_count = v->at = 0;
    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        for (uint32_t i = 0; has(v->have, m) && i < v->lists[m].count; i++) {
            if (v->lists[m].items[i].place <= v->upto) {
                add_object(v, v->lists[m].items[i].object);
            }
        }
    }
    next_object(v);
}

void verify_listed(struct verify *v, uint32_t member, const struct verify_list *list)
{
    CHECK(list->count <= VERIFY_LIST_MAX);
    if (answers(v, member, VERIFY_LIST)) {
        v->lists[member] = *list;
        if (all_answered(v)) {
            merge_lists(v);
        }
    }
}

/* ---- What is the same, and who is right ---- */

/* An object that is empty and one that is not there read the same. */
static bool same_lengths(const struct verify *v)
{
    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        if (has(v->set, m) && v->seen[m].size != v->seen[v->me].size) {
            return false;
        }
    }
    return true;
}

static bool same_sums(const struct verify *v)
{
    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        if (has(v->set, m) &&
            memcmp(v->seen[m].sums, v->seen[v->me].sums, sizeof(v->seen[m].sums)) != 0) {
            return false;
        }
    }
    return true;
}

/* Did the member lack that block before it got another one's length? */
static bool lacked(const struct verify *v, uint32_t member, uint32_t block)
{
    return v->offset / BLOCK_BYTES + block >= v->grown[member] / BLOCK_BYTES;
}

/* Whose block is right: of those that had one what two have, or ours. */
static uint32_t right_block(const struct verify *v, uint32_t block)
{
    uint32_t right = REPLICAS_MAX;

    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        if (!has(v->set, m) || lacked(v, m, block)) {
            continue;
        }
        for (uint32_t k = 0; k < m; k++) {
            if (has(v->set, k) && !lacked(v, k, block) &&
                v->seen[k].sums[block] == v->seen[m].sums[block]) {
                return v->seen[v->me].sums[block] == v->seen[m].sums[block] ? v->me : k;
            }
        }
        right = right == REPLICAS_MAX || m == v->me ? m : right;
    }
    return right == REPLICAS_MAX ? v->me : right;
}

/* Of those that have the object: the length that two of them have, or the longest one. */
static uint32_t right_length(const struct verify *v)
{
    uint32_t best = REPLICAS_MAX;

    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        if (!has(v->set, m) || !v->seen[m].exists) {
            continue;
        }
        for (uint32_t k = 0; k < m; k++) {
            if (has(v->set, k) && v->seen[k].exists && v->seen[k].size == v->seen[m].size) {
                return k;
            }
        }
        if (best == REPLICAS_MAX || v->seen[m].size > v->seen[best].size) {
            best = m;
        }
    }
    CHECK(best < REPLICAS_MAX); /* They differ: one of them has it. */
    return best;
}

/* ---- What follows ---- */

static uint64_t longest(const struct verify *v)
{
    uint64_t size = 0;

    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        size = has(v->set, m) && v->seen[m].size > size ? v->seen[m].size : size;
    }
    return size;
}

static uint32_t most_lost(const struct verify *v)
{
    uint32_t lost = 0;

    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        lost = has(v->set, m) && v->seen[m].lost > lost ? v->seen[m].lost : lost;
    }
    return lost;
}

/* The stretch is done. */
static void pass(struct verify *v)
{
    uint64_t next = UINT64_MAX, end = v->offset + VERIFY_BYTES, size = longest(v);
    bool exists = false;

    v->counts.bytes += size <= v->offset ? 0 : (size < end ? size : end) - v->offset;
    v->counts.damaged += most_lost(v);
    v->counts.broken += most_lost(v);
    for (uint32_t m = 0; m < REPLICAS_MAX; m++) {
        if (has(v->set, m)) {
            next = v->seen[m].next < next ? v->seen[m].next : next;
            exists = exists || v->seen[m].exists;
        }
    }
    if (next >= OBJECT_BYTES_MAX) {
        v->counts.objects += exists;
        v->at++;
        next_object(v);
        return;
    }
    v->offset = next > end ? next - next % VERIFY_BYTES : end;
    ask_look(v, false, false);
}

static void ask_take(struct verify *v, uint32_t source, struct span span)
{
    struct verify_step step = { .type = VERIFY_TAKE, .hold = true, .span = span, .source = source };

    step.to = (group_set)(1U << v->taker);
    step.object = v->objects[v->at];
    step.size = v->seen[source].size;
    ask(v, &step);
}

/* The next member whose length is wrong. */
static void next_length(struct verify *v)
{
    uint32_t right = right_length(v);

    for (; v->taker < REPLICAS_MAX; v->taker++) {
        if (has(v->set, v->taker) && v->seen[v->taker].size != v->seen[right].size) {
            ask_take(v, right, (struct span){ 0, 0 });
            return;
        }
    }
    v->sized = true; /* What it lacks is zero now, and found below. */
    ask_look(v, false, false);
}

static bool is_wrong(const struct verify *v, uint32_t block, uint32_t right)
{
    return v->seen[v->taker].sums[block] != v->seen[right].sums[block];
}

/* The next blocks that are wrong, in one piece, of which one member has the right ones. */
static void next_blocks(struct verify *v)
{
    for (; v->taker < REPLICAS_MAX; v->taker++, v->block = 0) {
        for (; has(v->set, v->taker) && v->block < VERIFY_BLOCKS; v->block++) {
            uint32_t first = v->block, right = right_block(v, first);

            if (!is_wrong(v, first, right)) {
                continue;
            }
            do {
                v->block++;
            } while (v->block < VERIFY_BLOCKS && right_block(v, v->block) == right &&
                     is_wrong(v, v->block, right));
            ask_take(v, right,
                     (struct span){ v->offset + (uint64_t)first * BLOCK_BYTES,
                                    v->offset + (uint64_t)v->block * BLOCK_BYTES });
            return;
        }
    }
    pass(v);
}

static void compare_lengths(struct verify *v)
{
    bool length = v->step.span.start == v->step.span.end;

    if (same_lengths(v)) {
        v->sized = true;
        ask_look(v, false, false);
    } else if (!length) {
        ask_look(v, true, true);
    } else {
        v->taker = 0;
        next_length(v);
    }
}

static void compare(struct verify *v)
{
    if (!v->sized && (!same_lengths(v) || v->step.span.start == v->step.span.end)) {
        compare_lengths(v);
    } else if (most_lost(v) > 0 || same_sums(v)) {
        v->sized = true;
        pass(v);
    } else if (!v->step.hold) {
        v->sized = true;
        ask_look(v, true, false);
    } else {
        v->taker = v->block = 0;
        next_blocks(v);
    }
}

void verify_saw(struct verify *v, uint32_t member, const struct verify_seen *seen)
{
    if (!answers(v, member, VERIFY_LOOK)) {
        return;
    }
    v->seen[member] = *seen;
    v->counts.damaged += seen->mended;
    v->counts.repaired += seen->mended;
    if (all_answered(v)) {
        compare(v);
    }
}

void verify_took(struct verify *v, uint32_t member, bool repaired)
{
    const struct span span = v->step.span;
    bool length = span.start == span.end;
    uint64_t count = length ? 1 : (span.end - span.start) / BLOCK_BYTES;

    if (!answers(v, member, VERIFY_TAKE)) {
        return;
    }
    v->counts.differing += count;
    v->counts.repaired += repaired ? count : 0;
    v->counts.broken += repaired ? 0 : count;
    v->found = (struct verify_found){ v->step, repaired };
    v->has_found = true;
    if (length) {
        if (repaired && v->seen[member].size < v->step.size) {
            v->grown[member] = v->seen[member].size;
        }
        v->taker++;
        next_length(v);
    } else {
        next_blocks(v);
    }
}

uint32_t verify_part(const struct verify *v)
{
    if (v->done) {
        return WHOLE_MILLIONTHS;
    }
    return (uint32_t)((double)v->after / (double)UINT64_MAX * WHOLE_MILLIONTHS);
}
