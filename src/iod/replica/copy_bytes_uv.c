/* Pieces of objects: read for a member that takes them, and carried out here. What is given or taken while others
 * go on serving waits at the gate (recovery_gate.h); where a whole set waits for it, it does not. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "iod/replica/copy_inner_uv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Who gives ---- */

struct giving
{
    struct copy_gated gated;
    struct job *job;
    struct copy *copy;
    struct replica_action action;
    struct ticket *piece;
    struct span span; /* As much of it as one message carries. */
    bool damage_too;  /* Who takes it can be told of damage, */
    bool compares;    /* and what the blocks are to be. */
};

static struct span span_of(const struct change *piece)
{
    return piece->whole ? (struct span){ 0, OBJECT_BYTES_MAX } : piece->span;
}

/* A hole at the beginning goes as one, however long it is; bytes end before the next hole, or with what
 * one message carries. */
static int end_at_hole(struct store *store, struct object_id id, struct giving *g, bool *hole,
                       struct errmsg *err)
{
    uint64_t at, end = span_of(&g->action.message.changes[0]).end;
    bool found;
    int rv = store_seek(store, id, g->span.start, false, &found, &at, err);

    *hole = rv == MORSEL_OK && (!found || at > g->span.start);
    if (rv == MORSEL_OK && !*hole) {
        rv = store_seek(store, id, g->span.start, true, &found, &at, err);
        end = g->span.end;
    } else if (!found) {
        at = end;
    }
    g->span.end = at > g->span.start && at < end ? at : end;
    return rv;
}

static int read_span(struct giving *g, struct errmsg *err)
{
    struct ticket *t = g->piece;

    return store_read(object_store_of(g->job), g->action.message.changes[0].object, g->span.start,
                      t->job->payload->data, (size_t)(g->span.end - g->span.start), &t->job->count,
                      t->job->crcs, err);
}

/* Damage in place of bytes, with what these are to be (replica.h). */
static int say_what_is_wanted(struct giving *g, struct errmsg *err)
{
    struct ticket *t = g->piece;

    t->damage = g->span.end - g->span.start;
    t->job->count = 0;
    t->compares = g->compares;
    return g->compares ? store_sums(object_store_of(g->job), g->action.message.changes[0].object,
                                    g->span.start, t->damage, t->job->crcs, err)
                       : MORSEL_OK;
}

/* What is damaged here nobody else in sync may have: who takes it gets what there is up to there, and then that damage.
 * The rest of a group is not left with one copy, and no set waits, for the sake of a block; and where another server has it, all
 * get it from there when somebody reads, or the scrub does. */
static int read_up_to_damage(struct giving *g, struct errmsg *err)
{
    struct store_damage found;
    int rv = store_find_damage(object_store_of(g->job), g->action.message.changes[0].object,
                               g->span.start, g->span.end - g->span.start, &found, err);

    if (rv != MORSEL_OK || found.blocks == 0) {
        return rv != MORSEL_OK ? rv : read_span(g, err);
    }
    if (found.start > g->span.start) {
        g->span.end = found.start;
        return read_span(g, err);
    }
    g->span.end = found.end < g->span.end ? found.end : g->span.end;
    return say_what_is_wanted(g, err);
}

/* The object as it is, and what it has in the stretch. */
static void run_give(struct job *job)
{
    struct giving *g = job->data;
    struct ticket *t = g->piece;
    struct object_id id = g->action.message.changes[0].object;
    struct store *store = object_store_of(job);
    struct store_stat stat;
    bool hole = false;

    job->status = store_stat(store, id, &stat, &job->err);
    if (job->status != MORSEL_OK) {
        return;
    }
    t->exists = stat.exists;
    t->size = stat.size;
    t->offset = g->span.start;
    if (stat.exists && g->span.start < g->span.end) {
        job->status = end_at_hole(store, id, g, &hole, &job->err);
    }
    if (job->status == MORSEL_OK && stat.exists && !hole && g->span.start < g->span.end) {
        job->status = read_span(g, &job->err);
        if (job->status == MORSEL_CHECKSUM && g->damage_too) {
            job->status = read_up_to_damage(g, &job->err);
        }
    }
}

/* Behind the end of the object there is nothing: its length says so, however long the piece is. */
static bool says_all(const struct giving *g)
{
    return span_of(&g->action.message.changes[0]).end <= g->span.end || !g->piece->exists ||
           g->piece->size <= g->span.end;
}

/* It is asked for again and again, by a member that cannot be in the set without it. */
void copy_give_failed(struct copy *copy, const struct errmsg *err)
{
    uint64_t now_ms = copy_now_ms();

    if (copy->give_failed_ms == 0 || now_ms >= copy->give_failed_ms + COPY_GIVE_FAILED_MS) {
        log_error(copy->setup.server->log,
                  "group %u: another server cannot get what is here, and stays outside: %s; trying "
                  "again",
                  copy->setup.number, err->text);
        copy->give_failed_ms = now_ms;
    }
}

static void say_damage(const struct giving *g)
{
    struct copy *copy = g->copy;
    struct object_id id = g->action.message.changes[0].object;

    if (g->piece->damage > 0) {
        log_error(
            copy->setup.server->log,
            "group %u: object %" PRIu64 ".%u, bytes %" PRIu64 " to %" PRIu64
            " do not match their checksums here or cannot be read, and are given as damaged to "
            "the server at place %u: what no copy has is to be written anew",
            copy->setup.number, id.inode, id.column, g->span.start, g->span.end, g->action.member);
    }
}

/* What was read goes out, if it is wanted still. */
static void give(struct giving *g)
{
    struct replica *replica = g->copy->replica;
    struct replica_message *m = &g->action.message;

    say_damage(g);
    if (says_all(g) || replica_cut_piece(replica, g->action.member, m, g->span.end)) {
        replica_gave(replica, g->action.member, m, g->piece->job->count);
        copy_send(g->copy, &g->action, g->piece);
    }
}

static void on_given(struct job *job)
{
    struct giving *g = job->data;
    struct copy *copy = g->copy;

    copy->giving &= (group_set) ~(1U << g->action.member);
    copy_gate_used(copy, &g->gated, g->piece->job->count);
    if (job->status != MORSEL_OK && job->status != MORSEL_SHUTDOWN) {
        copy_give_failed(copy, &job->err);
    }
    if (!copy->ending && copy_trouble(copy) == NULL) {
        if (job->status == MORSEL_OK) {
            give(g);
        } else {
            replica_not_given(copy->replica, g->action.member, &g->action.message);
        }
    }
    ticket_drop(g->piece);
    free(g);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

/* Does the same recovery go on? */
static bool still_gives(struct copy_gated *gated)
{
    const struct giving *g = CONTAINER_OF(gated, struct giving, gated);
    const struct replica_giving *v = &g->copy->replica->giving[g->action.member];

    return v->session == g->action.message.session && v->pass == g->action.message.pass;
}

static void start_giving(struct copy_gated *gated)
{
    struct giving *g = CONTAINER_OF(gated, struct giving, gated);

    if (job_start(g->job, run_give, on_given, false) != MORSEL_OK) {
        g->job->status = MORSEL_SHUTDOWN;
        on_given(g->job);
    }
}

static void giving_free(struct giving *g)
{
    if (g->piece != NULL) {
        ticket_drop(g->piece);
    }
    if (g->job != NULL) {
        job_free(g->job);
    }
    free(g);
}

/* NULL: out of memory. */
static struct giving *giving_new(struct copy *copy, const struct replica_action *a, uint32_t way)
{
    struct object_server *server = copy->setup.server;
    struct giving *g = calloc(1, sizeof(*g));
    uint64_t most = recovery_piece_bytes(a->message.recovering ? copy->setup.gate : NULL);

    if (g == NULL) {
        return NULL;
    }
    most = way < most ? way : most;
    g->copy = copy;
    g->action = *a;
    g->span = span_of(&a->message.changes[0]);
    g->compares = (copy->compares_damage >> a->member & 1U) != 0;
    g->damage_too =
        g->compares || (a->message.recovering && (copy->knows_damage >> a->member & 1U) != 0);
    if (g->span.end - g->span.start > most) {
        g->span.end = g->span.start + most;
    }
    g->job = job_new(&server->jobs, server);
    g->piece = ticket_new(copy, NULL);
    if (g->piece != NULL && (g->piece->job = job_new(&server->jobs, server)) != NULL) {
        g->piece->job->payload =
            payload_new(rpc_payloads(server->rpc), (size_t)(g->span.end - g->span.start) + 1);
    }
    if (g->job == NULL || g->piece == NULL || g->piece->job == NULL ||
        g->piece->job->payload == NULL) {
        giving_free(g);
        return NULL;
    }
    g->job->data = g;
    return g;
}

/* Without memory, while one is being read for the member, and while the link to it has enough to carry, nothing: it
 * is asked for again. */
void copy_give(struct copy *copy, const struct replica_action *a)
{
    bool at_work = (copy->giving >> a->member & 1U) != 0;
    uint32_t way = at_work ? 0 : copy->setup.hooks->way(copy->setup.data, copy, a->member);
    struct giving *g = way == 0 ? NULL : giving_new(copy, a, way);

    if (g == NULL) {
        replica_not_given(copy->replica, a->member, &a->message);
        return;
    }
    copy->working++;
    copy->giving |= (group_set)(1U << a->member);
    g->gated = (struct copy_gated){ .start = start_giving, .still = still_gives };
    copy_gate_enter(copy, &g->gated, a->message.recovering, g->span.end - g->span.start);
}

/* ---- Who takes ---- */

struct taking
{
    struct copy_gated gated;
    struct job *job;
    struct copy *copy;
    struct ticket *t;
    struct change piece;
    uint64_t
        kept; /* Of what is damaged where it comes from, blocks that are here as they are to be. */
};

/* Damaged blocks of the stretch become zeros. */
static int clear_stretch(struct store *store, struct object_id id, uint64_t from, uint64_t to,
                         struct errmsg *err)
{
    struct store_damage found = { .blocks = 1 };
    int rv = MORSEL_OK;

    while (rv == MORSEL_OK && found.blocks > 0 && from < to) {
        rv = store_find_damage(store, id, from, to - from, &found, err);
        if (rv == MORSEL_OK && found.blocks > 0) {
            rv = store_punch(store, id, found.start, found.end - found.start, NULL, err);
            from = found.end;
        }
    }
    return rv;
}

/* What comes is of whole blocks (changed.h), so what is damaged of them here goes first. So does the block in which the
 * object is to end, if it is cut off here: its bytes come, too, for what was cut off is in the log. */
static int clear_damage(struct store *store, const struct taking *k, struct errmsg *err)
{
    struct object_id id = k->piece.object;
    struct store_stat stat;
    int rv = store_stat(store, id, &stat, err);

    if (rv == MORSEL_OK) {
        rv = clear_stretch(store, id, k->t->offset, span_of(&k->piece).end, err);
    }
    if (rv == MORSEL_OK && stat.size > k->t->size) {
        rv = clear_stretch(store, id, k->t->size, k->t->size + 1, err);
    }
    return rv;
}

/* What the giver has damaged, and this server perhaps not. */
static int take_damage(struct store *store, struct taking *k, struct errmsg *err)
{
    const struct ticket *t = k->t;
    int rv = store_truncate(store, k->piece.object, t->size, NULL, err);

    return rv == MORSEL_OK ? store_spoil_others(store, k->piece.object, t->offset, t->damage,
                                                t->job->crcs, &k->kept, err)
                           : rv;
}

/* The object is to be as it is there: its length, and its bytes in the stretch. */
static int take_object(struct store *store, struct taking *k, struct errmsg *err)
{
    const struct ticket *t = k->t;
    struct object_id id = k->piece.object;
    uint64_t end = k->piece.whole ? OBJECT_BYTES_MAX : k->piece.span.end;
    uint64_t has = t->offset + t->job->count;
    const struct store_gate gate = { .reserve_too = true };
    int rv = MORSEL_OK;

    if (!t->exists) {
        return store_delete(store, id, err);
    }
    if (t->compares) {
        return take_damage(store, k, err);
    }
    if (t->job->count > 0) {
        rv = store_write(store, id, t->offset, t->job->payload->data, t->job->count, t->job->crcs,
                         false, &gate, err);
    }
    end = end < t->size ? end : t->size;
    if (rv == MORSEL_OK && has < end) {
        rv = store_punch(store, id, has, end - has, NULL, err);
    }
    if (rv == MORSEL_OK) {
        rv = store_truncate(store, id, t->size, NULL, err);
    }
    return rv == MORSEL_OK && t->damage > 0 ? store_spoil(store, id, t->offset, t->damage, err)
                                            : rv;
}

static void run_take(struct job *job)
{
    struct taking *k = job->data;
    struct store *store = object_store_of(job);

    job->status = take_object(store, k, &job->err);
    if (job->status == MORSEL_CHECKSUM) {
        job->status = clear_damage(store, k, &job->err);
        job->status = job->status == MORSEL_OK ? take_object(store, k, &job->err) : job->status;
    }
}

void copy_taken(struct copy *copy, int status, const struct errmsg *err)
{
    struct errmsg words;

    if (status != MORSEL_OK) {
        errmsg_set(&words, "take over what another server has: %s", err->text);
        copy_fail(copy, &words);
    }
    if (!copy->ending && copy_trouble(copy) == NULL) {
        replica_taken(copy->replica);
    }
}

static void say_kept(const struct taking *k)
{
    const struct copy *copy = k->copy;
    uint64_t blocks = (k->t->damage + BLOCK_BYTES - 1) / BLOCK_BYTES;

    if (k->t->damage > 0) {
        log_error(copy->setup.server->log,
                  "group %u: object %" PRIu64 ".%u: blocks %" PRIu64 " to %" PRIu64
                  " are damaged on the server that this one is made equal to: %" PRIu64
                  " of them are here as they are to be there, and stay; %" PRIu64
                  " are damaged here from now on, too: what no copy has is to be written anew",
                  copy->setup.number, k->piece.object.inode, k->piece.object.column,
                  k->t->offset / BLOCK_BYTES, k->t->offset / BLOCK_BYTES + blocks - 1, k->kept,
                  blocks - k->kept);
    }
}

static void on_taken(struct job *job)
{
    struct taking *k = job->data;
    struct copy *copy = k->copy;

    copy_gate_used(copy, &k->gated, k->t->job->count);
    copy_touch(copy, k->piece.object);
    if (job->status == MORSEL_OK) {
        say_kept(k);
    }
    copy_taken(copy, job->status, &job->err);
    ticket_drop(k->t);
    free(k);
    job_free(job);
    copy_drain(copy);
    copy_worked(copy);
}

static bool still_takes(struct copy_gated *gated)
{
    const struct taking *k = CONTAINER_OF(gated, struct taking, gated);
    const struct replica_fetch *f = &k->copy->replica->fetch;

    return f->state == FETCH_TAKING && f->recovering;
}

static void start_taking(struct copy_gated *gated)
{
    struct taking *k = CONTAINER_OF(gated, struct taking, gated);

    if (job_start(k->job, run_take, on_taken, false) != MORSEL_OK) {
        errmsg_set(&k->job->err, "this server is ending");
        k->job->status = MORSEL_SHUTDOWN;
        on_taken(k->job);
    }
}

void copy_take(struct copy *copy, const struct replica_action *a)
{
    struct ticket *t = ticket_of(a->token);
    struct taking *k = calloc(1, sizeof(*k));
    struct job *job = k == NULL ? NULL : copy_job(copy, k);
    struct errmsg err;

    if (job == NULL) {
        errmsg_set(&err, "out of memory");
        copy_fail(copy, &err);
        ticket_drop(t);
        free(k);
        return;
    }
    *k = (struct taking){ .job = job, .copy = copy, .t = t, .piece = a->piece };
    copy->working++;
    k->gated = (struct copy_gated){ .start = start_taking, .still = still_takes };
    copy_gate_enter(copy, &k->gated, copy->replica->fetch.recovering, t->job->count);
}
