/* Changes, when they are on disk, and the clocks. */
#include "meta/meta_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/storage/run_file.h"

#include <stdlib.h>
#include <time.h>

int64_t meta_clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t meta_now_ms(struct meta *meta)
{
    return presence_now_ms(&meta->presence, uv_now(meta->loop));
}

/* ---- Changes ---- */

/* Operations that need room go no further when the disk is nearly full; those that free some do. */
static bool needs_space(const struct meta_op *op)
{
    return op->kind == OP_CREATE || op->kind == OP_LINK || op->kind == OP_RENAME ||
           op->kind == OP_SET_STORED || (op->kind == OP_XATTR && !op->xattr.remove);
}

/* Once: a stranger may ask for the same again and again. */
static void log_unreadable(struct meta *meta, const struct meta_op *op, const struct errmsg *err)
{
    if (ns_unreadable(meta->ns) > 0 && !meta->unreadable_logged) {
        meta->unreadable_logged = true;
        log_error(meta->log, "internal error, please report: %s; client %016llx was refused",
                  err->text, (unsigned long long)op->client);
    }
}

int meta_execute(struct meta *meta, struct meta_op *op, struct errmsg *err)
{
    int rv;

    if (meta->space_low && needs_space(op)) {
        errmsg_set(err, "the disk of the manager's database is nearly full");
        return MORSEL_NOSPC;
    }
    rv = ns_execute(meta->ns, op, err);
    if (ns_broken(meta->ns) != 0 && !meta->broken_logged) {
        meta->broken_logged = true;
        log_error(meta->log,
                  "cannot write the database in %s: %s; every change is refused until the disk is "
                  "in order and morsel-meta was started again",
                  meta->settings->data_dir, err->text);
    }
    log_unreadable(meta, op, err);
    if (rv == 0) {
        sync_changed(&meta->sync);
    }
    return rv;
}

void meta_sync_failed(void *data, int status, const struct errmsg *err)
{
    struct meta *meta = data;

    ns_fail(meta->ns, status);
    run_fail(&meta->runs, meta->run_dir);
    if (!meta->broken_logged) {
        meta->broken_logged = true;
        log_error(meta->log,
                  "cannot make changes durable: %s; every change is refused until the disk is in "
                  "order and morsel-meta was started again",
                  err->text);
    }
}

struct durable_wait
{
    struct sync_waiter waiter;
    struct meta *meta;
    struct rpc_request *request;
    load_again reply;
    uint64_t subject;
};

static void on_durable(struct sync_waiter *waiter, int status)
{
    struct durable_wait *d = CONTAINER_OF(waiter, struct durable_wait, waiter);

    if (status != 0) {
        rpc_reply_failure(d->request, status, "the manager's database could not be synced");
    } else {
        loads_begin(&d->meta->loads);
        d->reply(d->meta, d->request, d->subject);
    }
    free(d);
}

void meta_reply_durable(struct meta *meta, struct rpc_request *request, load_again reply,
                        uint64_t subject)
{
    struct durable_wait *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    if (ns_broken(meta->ns) != 0) {
        rpc_reply_failure(request, ns_broken(meta->ns), "the manager's database is damaged");
        free(d);
        return;
    }
    d->meta = meta;
    d->request = request;
    d->reply = reply;
    d->subject = subject;
    list_init(&d->waiter.node);
    sync_wait(&meta->sync, &d->waiter, on_durable);
}
