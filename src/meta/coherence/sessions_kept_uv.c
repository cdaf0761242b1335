/* Writing sessions down, and reading them at the start. */
#include "meta/coherence/sessions_kept_uv.h"

#include "common/base/status.h"
#include "common/fs/lease_mode.h"

#include <stdlib.h>

enum {
    KEPT_MAX = SESSIONS_MAX + 1, /* And SESSION_UNTOLD */
    RECONNECT_MS = 1000          /* A client whose question is due tries so often at least. */
};

static struct meta_op sessions_op(const struct meta *meta, const struct buf *clients,
                                  bool tells_run)
{
    struct meta_op op = { .kind = OP_SESSIONS, .time_ns = meta_clock_ns() };

    op.sessions.run = tells_run ? meta->runs.run : 0;
    op.sessions.clients = buf_slice(clients);
    return op;
}

/* One operation; `clients` is used up. */
static int write_down(struct meta *meta, struct buf *clients, bool tells_run)
{
    struct meta_op op = sessions_op(meta, clients, tells_run);
    struct errmsg err = { "" };
    int rv = clients->failed ? MORSEL_NOMEM : meta_execute(meta, &op, &err);

    buf_clear(clients);
    return rv;
}

int sessions_keep(struct meta *meta, client_id client)
{
    struct buf clients;
    int rv;

    loads_begin(&meta->loads);
    buf_init(&clients);
    op_session_put(&clients, client, 0);
    rv = write_down(meta, &clients, false);
    buf_free(&clients);
    return rv;
}

void sessions_strike_out(struct meta *meta, const struct session_actions *actions)
{
    struct buf clients;
    bool untold = false;

    buf_init(&clients);
    for (uint32_t i = 0; i < actions->count; i++) {
        if (actions->items[i].type == SESSION_END) {
            op_session_put(&clients, actions->items[i].client, SESSION_STRUCK_OUT);
            untold |= actions->items[i].client == SESSION_UNTOLD;
        }
    }
    if (clients.count > 0) {
        loads_begin(&meta->loads);
        (void)write_down(meta, &clients, untold);
    }
    buf_free(&clients);
}

void sessions_note_waiting(struct meta *meta)
{
    uint32_t count = session_expected(meta->sessions);
    struct session_kept *waiting = calloc(count + 1, sizeof(*waiting));
    struct buf clients;
    bool untold = false;
    int rv = 0;

    if (waiting == NULL || !meta->kv->has_room(meta->kv)) {
        free(waiting);
        return;
    }
    loads_begin(&meta->loads);
    buf_init(&clients);
    count = session_waiting(meta->sessions, meta_now_ms(meta), waiting);
    for (uint32_t i = 0; i < count && rv == 0; i++) {
        op_session_put(&clients, waiting[i].client, waiting[i].waited_ms);
        untold |= waiting[i].client == SESSION_UNTOLD;
        if (i + 1 == count || op_sessions_count(buf_slice(&clients)) == OP_SESSIONS_MAX) {
            rv = write_down(meta, &clients, untold);
            untold = false;
        }
    }
    buf_free(&clients);
    free(waiting);
}

/* Of this run nobody is left out from now on, and of those before it SESSION_UNTOLD stands for who may
 * have been. */
static int name_run(struct meta *meta, bool untold, struct errmsg *err)
{
    struct buf clients;
    struct meta_op op;
    int rv;

    buf_init(&clients);
    op_session_put(&clients, SESSION_UNTOLD, untold ? 0 : SESSION_STRUCK_OUT);
    op = sessions_op(meta, &clients, true);
    rv = clients.failed ? MORSEL_NOMEM : ns_execute(meta->ns, &op, err);
    buf_free(&clients);
    return rv;
}

/* As the records have it; under another run SESSION_UNTOLD is waited for anew. */
static int load(struct meta *meta, bool fresh, struct session_kept *kept, uint32_t *count,
                struct errmsg *err)
{
    uint64_t run;
    int rv = ns_sessions(meta->ns, kept, KEPT_MAX, count, &run, err);

    if (rv != 0 || run == meta->runs.run) {
        return rv;
    }
    if (!fresh) {
        if (*count > 0 && kept[0].client == SESSION_UNTOLD) {
            kept[0] = kept[--*count];
        }
        *count -= *count == KEPT_MAX;
        kept[(*count)++] = (struct session_kept){ SESSION_UNTOLD, 0 };
    }
    return name_run(meta, !fresh, err);
}

int sessions_kept_open(struct meta *meta, bool fresh, struct errmsg *err)
{
    struct session_options options = { .session_ms = (uint32_t)meta->settings->session_ms,
                                       .now_ms = meta_now_ms(meta),
                                       .fresh = fresh,
                                       .settle_ms = DEPARTED_MS };
    struct session_kept *kept = calloc(KEPT_MAX, sizeof(*kept));
    uint32_t count;
    int rv = kept != NULL ? load(meta, fresh, kept, &count, err) : MORSEL_NOMEM;

    if (rv == 0) {
        options.patience_ms = lease_renew_ms((uint32_t)meta->settings->lease_ms) + RECONNECT_MS;
        options.kept = kept;
        options.kept_count = count;
        meta->sessions = session_table_new(&options);
        rv = meta->sessions == NULL ? MORSEL_NOMEM : 0;
    }
    free(kept);
    return rv;
}
