/* Whose time has come is looked at: is it open, and when was its file changed last? Then it is let go, or told of.
 *
 * When a file was changed is in the store, so that a restart of the manager begins nothing anew. Time is that of the wall at the manager's
 * start, and what has passed since: a clock that is set meanwhile lets nothing go. */
#include "meta/datasets/unfinished_uv.h"

#include "common/base/status.h"
#include "meta/coherence/leases_uv.h"
#include "meta/datasets/evictions_uv.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    LOOKS = 1024,      /* Sets are looked at in a step, */
    JUDGED_MAX = 16,   /* and so many whose time has come. */
    AGAIN_MS = 1000,   /* Mounts have been asked for their leases; or it could not be written. */
    SETTLE_MS = 60000, /* So long nothing is let go behind a start. */
    TOLD_MS = 60000,   /* Those that are told of are looked at so often. */
    NS_PER_MS = 1000000,
    MS_PER_HOUR = 3600000
};

static int64_t patience_ns(const struct meta *meta)
{
    return (int64_t)meta->settings->unfinished_expiry_ms * NS_PER_MS;
}

/* That, but no longer than anybody's patience. */
static int64_t at_most(const struct meta *meta, int64_t ms)
{
    int64_t ns = ms * NS_PER_MS;

    return ns < patience_ns(meta) ? ns : patience_ns(meta);
}

static int64_t clock_ns(const struct meta *meta, uint64_t now_ms)
{
    const struct unfinished_host *u = &meta->unfinished;
    int64_t wall_ns = meta_clock_ns();
    int64_t counted_ns = u->started_ns + (int64_t)(now_ms - u->started_ms) * NS_PER_MS;

    return wall_ns < counted_ns ? wall_ns : counted_ns;
}

void unfinished_open(struct meta *meta)
{
    unfinished_init(&meta->unfinished.core);
    meta->unfinished.started_ns = meta_clock_ns();
    meta->unfinished.started_ms = meta_now_ms(meta);
}

void unfinished_close(struct meta *meta)
{
    unfinished_free(&meta->unfinished.core);
}

/* ---- What becomes of one ---- */

static void log_let_go(const struct meta *meta, uint64_t number, inode_id inode,
                       enum unfinished_fate fate)
{
    static const char *const what[] = {
        [UNFINISHED_CANCEL] =
            "its reservation is taken back; reserve it anew if it is to be stored",
        [UNFINISHED_RESTART] =
            "what had been staged of it is gone; `morsel stage` of the same URL begins anew",
        [UNFINISHED_EMPTY] = "its bytes are gone, for it was scratch; the file is empty now"
    };

    log_info(meta->log,
             "data set %" PRIu64 " of inode %" PRIu64
             " was never complete, and nothing was done to it for too long: %s (to keep such sets "
             "for longer: morsel-meta --unfinished-expiry)",
             number, inode, what[fate]);
}

static void on_loaded(void *data, struct rpc_request *request, uint64_t subject)
{
    struct meta *meta = data;

    (void)request;
    (void)subject;
    meta->unfinished.loading = false;
}

static void wait_for_disk(struct meta *meta)
{
    meta->unfinished.loading = loads_wait(&meta->loads, NULL, on_loaded, 0);
}

/* False: it could not be written down now; what it wants of the disk is waited for. */
static bool let_go(struct meta *meta, const struct data_set *set, enum unfinished_fate fate)
{
    struct meta_op op = { .kind = OP_SET_LET_GO, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };
    uint64_t number = set->head.number;
    inode_id inode = set->head.inode;
    uint32_t count = set->donor_count;
    donor_id *had = calloc(count + 1, sizeof(*had)); /* Without memory nobody is hurried. */
    int rv;

    for (uint32_t i = 0; had != NULL && i < count; i++) {
        had[i] = set->donors[i].id;
    }
    op.set_let_go.set = number;
    rv = meta_execute(meta, &op, &err); /* The set is gone by that. */
    if (rv == 0) {
        log_let_go(meta, number, inode, fate);
        evictions_hurry_all(meta, had, had != NULL ? count : 0);
    } else if (rv == MORSEL_AGAIN) {
        wait_for_disk(meta);
    } else {
        log_warning(meta->log, "data set %" PRIu64 " stays for now: %s; it is tried again", number,
                    err.text[0] != 0 ? err.text : status_words(rv));
    }
    free(had);
    return rv == 0;
}

static void tell(struct meta *meta, const struct data_set *set, int64_t quiet_ns, int64_t now_ns)
{
    if (unfinished_quiet_ns(&meta->unfinished.core, set->head.number) == 0) {
        log_warning(meta->log,
                    "data set %" PRIu64 " of inode %" PRIu64
                    " is not complete, and nothing was done to it for %" PRIu64
                    " h: it is kept, for nobody else has its bytes (`morsel datasets`). Store "
                    "the rest of it, or remove the file",
                    set->head.number, set->head.inode,
                    (uint64_t)(now_ns - quiet_ns) / NS_PER_MS / MS_PER_HOUR);
    }
    unfinished_tell(&meta->unfinished.core, set->head.number, quiet_ns,
                    now_ns + at_most(meta, TOLD_MS));
}

/* Nobody has it open, and this is its file. */
static void judge_quiet(struct meta *meta, const struct data_set *set, const struct inode *inode,
                        int64_t now_ns)
{
    struct unfinished *core = &meta->unfinished.core;
    enum unfinished_fate fate = unfinished_fate(set, inode->size);
    int64_t quiet_ns = inode->ctime_ns > set->head.made_ns ? inode->ctime_ns : set->head.made_ns;
    uint64_t number = set->head.number;

    if (now_ns - quiet_ns < patience_ns(meta)) {
        unfinished_again(core, number, quiet_ns + patience_ns(meta));
    } else if (fate == UNFINISHED_NOTHING) {
        unfinished_again(core, number, now_ns + patience_ns(meta));
    } else if (fate == UNFINISHED_STAYS) {
        tell(meta, set, quiet_ns, now_ns);
    } else if (leases_recall_all(meta, inode->id) && let_go(meta, set, fate)) {
        unfinished_forget(core, number);
    } else if (!meta->unfinished.loading) { /* Otherwise it is looked at again at once. */
        unfinished_again(core, number, now_ns + at_most(meta, AGAIN_MS));
    }
}

/* The one whose time has come. False: the disk is waited for. */
static bool judge(struct meta *meta, uint64_t number, int64_t now_ns)
{
    const struct data_set *set = sets_find(ns_sets(meta->ns), number);
    struct unfinished *core = &meta->unfinished.core;
    struct errmsg err = { "" };
    struct inode inode;
    int rv;

    if (set == NULL || set->head.sealed) {
        unfinished_forget(core, number);
        return true;
    }
    if (session_holds(meta->sessions, set->head.inode)) {
        int64_t wait_ms = session_in_grace(meta->sessions) ? AGAIN_MS : INT64_MAX / NS_PER_MS;

        unfinished_again(core, number, now_ns + at_most(meta, wait_ms));
        return true;
    }
    loads_begin(&meta->loads);
    rv = ns_inode(meta->ns, set->head.inode, &inode, &err);
    if (rv == MORSEL_AGAIN) {
        wait_for_disk(meta);
        return false;
    }
    if (rv == 0) {
        judge_quiet(meta, set, &inode, now_ns);
    } else { /* `morsel fsck` finds a set without a file. */
        unfinished_again(core, number, now_ns + patience_ns(meta));
    }
    return !meta->unfinished.loading;
}

void unfinished_pulse(struct meta *meta, uint64_t now_ms)
{
    struct unfinished_host *u = &meta->unfinished;
    int64_t now_ns = clock_ns(meta, now_ms);
    uint64_t number;

    if (meta->settings->unfinished_expiry_ms == 0 || u->loading) {
        return;
    }
    unfinished_learn(&u->core, ns_sets(meta->ns), LOOKS, patience_ns(meta),
                     u->started_ns + at_most(meta, SETTLE_MS));
    for (int i = 0; i < JUDGED_MAX && (number = unfinished_next(&u->core, now_ns)) != 0; i++) {
        if (!judge(meta, number, now_ns)) {
            break;
        }
    }
    loads_begin(&meta->loads);
}
