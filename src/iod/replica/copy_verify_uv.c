/* What a copy has of an object, for a comparison with others: read, verified and, where it is damaged, repaired;
 * and what is said of copies that differ. */
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "iod/replica/copy_inner_uv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_over(const struct copy *copy)
{
    return copy->ending || copy_trouble(copy) != NULL;
}

/* ---- A stretch ---- */

struct copy_seeing
{
    struct copy *copy;
    uint64_t id;
    struct verify_step step;
    struct ticket *t; /* With the memory for the bytes. */
    struct span part; /* Being read. */
    bool lost[VERIFY_BLOCKS];
    uint64_t mended; /* Blocks of the copy, before. */
    struct verify_seen seen;
};

static uint32_t block_of(const struct copy_seeing *l, uint64_t at)
{
    return (uint32_t)((at - l->step.span.start) / BLOCK_BYTES);
}

/* Blocks from the start of the part on; what is not there is zero. */
static void put_sums(struct copy_seeing *l, const struct job *bytes)
{
    uint32_t first = block_of(l, l->part.start), count = block_of(l, l->part.end) - first;
    uint8_t block[BLOCK_BYTES];

    for (uint32_t i = 0; i < count; i++) {
        size_t from = (size_t)i * BLOCK_BYTES;
        size_t has = bytes->count <= from ? 0 : bytes->count - from;

        if (has >= BLOCK_BYTES) {
            l->seen.sums[first + i] = bytes->crcs[i];
            continue;
        }
        memset(block, 0, sizeof(block));
        if (has > 0) {
            memcpy(block, bytes->payload->data + from, has);
        }
        l->seen.sums[first + i] = crc32c(0, block, sizeof(block));
    }
}

/* The next blocks that are not known to be lost. False: there are none. */
static bool next_part(struct copy_seeing *l, uint64_t from)
{
    uint32_t first = block_of(l, from), count = block_of(l, l->step.span.end), end;

    while (first < count && l->lost[first]) {
        first++;
    }
    end = first;
    while (end < count && !l->lost[end]) {
        end++;
    }
    l->part.start = l->step.span.start + (uint64_t)first * BLOCK_BYTES;
    l->part.end = l->step.span.start + (uint64_t)end * BLOCK_BYTES;
    return first < count;
}

static void read_part(struct job *job, struct copy_seeing *l)
{
    struct job *bytes = l->t->job;

    bytes->count = 0;
    job->status =
        store_read(object_store_of(job), l->step.object, l->part.start, bytes->payload->data,
                   (size_t)(l->part.end - l->part.start), &bytes->count, bytes->crcs, &job->err);
    if (job->status == MORSEL_OK) {
        put_sums(l, bytes);
    }
}

static void run_see(struct job *job)
{
    struct copy_seeing *l = job->data;
    struct store *store = object_store_of(job);
    struct store_stat stat;
    uint64_t from = l->step.span.start;
    bool found = false;

    job->status = store_stat(store, l->step.object, &stat, &job->err);
    if (job->status != MORSEL_OK) {
        return;
    }
    l->seen.exists = stat.exists;
    l->seen.size = stat.size;
    while (job->status == MORSEL_OK && next_part(l, from)) {
        read_part(job, l);
        from = l->part.end;
    }
    if (job->status == MORSEL_OK && l->step.span.start < l->step.span.end) {
        job->status = store_seek(store, l->step.object, l->step.span.end, false, &found,
                                 &l->seen.next, &job->err);
    }
    l->seen.next = found ? l->seen.next : UINT64_MAX;
}

static void end_see(struct copy_seeing *l, struct job *job)
{
    struct copy *copy = l->copy;

    if (!is_over(copy) && (job->status == MORSEL_IO || job->status == MORSEL_CORRUPT)) {
        copy_fail(copy, &job->err); /* As when a client reads; others have it. */
    }
    l->seen.mended = (uint32_t)(copy->mended - l->mended);
    if (!is_over(copy) && job->status == MORSEL_OK) {
        replica_saw(copy->replica, l->id, &l->seen);
    } else if (!is_over(copy)) {
        replica_saw_nothing(copy->replica, l->id);
    }
    ticket_drop(l->t);
    free(l);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

static void see(struct copy_seeing *l, struct job *job);

/* Blocks that nobody has, or that cannot be repaired here, are passed over. */
static void on_mended(struct ticket *t, struct job *job, enum mend_end end)
{
    struct copy_seeing *l = job->data;

    if ((end == MEND_LOST || end == MEND_FAILED) && t->found.blocks > 0 &&
        t->found.start >= l->part.start && t->found.end <= l->part.end) {
        for (uint64_t at = t->found.start; at < t->found.end; at += BLOCK_BYTES) {
            l->lost[block_of(l, at)] = true;
        }
        l->seen.lost += (uint32_t)t->found.blocks;
        end = MEND_AGAIN;
    }
    if (end == MEND_AGAIN) {
        see(l, job);
    } else {
        end_see(l, job);
    }
}

static void on_seen(struct job *job)
{
    struct copy_seeing *l = job->data;

    l->t->change.object = l->step.object;
    l->t->change.span = l->part;
    if (job->status == MORSEL_CHECKSUM && copy_mend(l->t, job, on_mended)) {
        return;
    }
    end_see(l, job);
}

static void see(struct copy_seeing *l, struct job *job)
{
    job->status = MORSEL_OK;
    if (job_start(job, run_see, on_seen, true) != MORSEL_OK) {
        errmsg_set(&job->err, "this server is ending");
        job->status = MORSEL_SHUTDOWN;
        end_see(l, job);
    }
}

/* Without memory it is asked for again. */
static void look(struct copy *copy, const struct replica_action *a)
{
    struct object_server *server = copy->setup.server;
    struct copy_seeing *l = calloc(1, sizeof(*l));
    struct job *job = l == NULL ? NULL : job_new(&server->jobs, server);
    const struct span whole = { 0, VERIFY_BYTES };

    if (job != NULL) {
        *l = (struct copy_seeing){ .copy = copy, .id = a->id, .step = a->step };
        l->mended = copy->mended;
        l->t = copy_bytes_ticket(copy, &whole);
    }
    if (job == NULL || l->t == NULL) {
        if (job != NULL) {
            job_free(job);
        }
        free(l);
        replica_saw_nothing(copy->replica, a->id);
        return;
    }
    job->data = l;
    copy->working++;
    see(l, job);
}

void copy_look(struct copy *copy, const struct replica_action *a)
{
    if (a->step.type == VERIFY_LIST) {
        copy_list(copy, a);
    } else {
        look(copy, a);
    }
}

/* ---- What is found ---- */

void copy_found(struct copy *copy, const struct replica_action *a)
{
    const struct verify_step *s = &a->found.step;
    server_id wrong = copy->setup.servers[(uint32_t)__builtin_ctz(s->to)];
    server_id right = copy->setup.servers[s->source];
    char what[96];

    if (s->span.start == s->span.end) {
        snprintf(what, sizeof(what), "its length, or whether it is there, differs");
    } else {
        snprintf(what, sizeof(what), "blocks %" PRIu64 " to %" PRIu64 " differ",
                 s->span.start / BLOCK_BYTES, s->span.end / BLOCK_BYTES - 1);
    }
    log_error(copy->setup.server->log,
              "object %" PRIu64
              ".%u: %s on server %u from what server %u has, although all checksums are right: "
              "this should never happen; %s",
              s->object.inode, s->object.column, what, wrong, right,
              a->found.repaired ? "it has got what the other one has"
                                : "it could not be repaired: see the log of that server");
}

void copy_verify(struct copy *copy, uint64_t run)
{
    copy->verify_run = run;
    if (!is_over(copy)) {
        replica_set_verify(copy->replica, run, copy_is_well(copy));
        copy_drain(copy);
    }
}
