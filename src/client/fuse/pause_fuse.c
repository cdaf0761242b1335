/* A file holds still here while another mount has it moved (common/fs/exchange.h; the manager's half is meta/coherence/pauses.h).
 *
 *   SETTLING --> FLUSHING --> SETTLING --> PAUSED --> end
 *       |            |            |          |  ^
 *       '------------+------------'          '--' no answer: again
 *                    v
 *                   end: the manager is told that nobody holds still here
 *
 *   SETTLING   until all has come to its end that was begun: writes, with their size locks, truncations, copies
 *   FLUSHING   everything that was written here goes to the disks of its servers: so nothing has to be known of these any
 *              more, and what is lost is told to whoever wrote it
 *   PAUSED     the manager knows that nothing is under way here, and answers when the pause is over, with where the file lies
 *
 * The file is held from the beginning, and what the kernel asks about it kept (kept_fuse.c). Until PAUSED this mount may
 * end it, and does when it takes too long. From then on only the manager's answer ends it, for without that nobody knows where
 * the file lies; whoever asked for something waits as long as a pause may last, and io_timeout, and is told EIO. */
#include "client/fuse/mount_fuse.h"

#include "client/coherence/size_lock_uv.h"
#include "common/base/status.h"
#include "common/fs/exchange.h"

#include <stdlib.h>

enum {
    SETTLE_MS = 2500, /* The manager waits a little longer. */
    SETTLE_POLL_MS = 1,
    ASK_AGAIN_MS = 100,
    PAUSES_HERE_MAX = 64
};

struct mount_pause
{
    struct list node; /* In mount.pauses. */
    struct mount *mount;
    struct file *file; /* Held. */
    uint64_t number;   /* The manager's. */
    enum { PAUSE_SETTLING, PAUSE_FLUSHING, PAUSE_PAUSED } step;
    struct mount_hold hold;
    struct file_flush flush;
    bool flushed;
    unsigned failures; /* Of the file, when it was flushed. */
    struct meta_call call;
    bool asks, due;
    bool older;          /* The manager is one that knows of no pauses. */
    uint64_t until_ms;   /* SETTLING */
    uint64_t give_up_ms; /* PAUSED */
};

static void wake(struct mount *m, uint64_t after_ms);

/* ---- The end ---- */

static void pause_end(struct mount_pause *p)
{
    struct mount *m = p->mount;

    list_remove(&p->node);
    mount_hold_end(&p->hold);
    file_let_go(p->file);
    free(p);
    lease_unpinned(m->client);
    mount_take_up_kept(m);
}

static void tell_refused(struct client *client, inode_id inode, uint64_t number)
{
    Morsel__PausedRequest request = MORSEL__PAUSED_REQUEST__INIT;

    request.inode = inode;
    request.number = number;
    request.refused = true;
    rpc_send_oneway(client->manager, MSG_PAUSED, &request.base);
}

static void refuse(struct mount_pause *p)
{
    tell_refused(p->mount->client, p->file->inode, p->number);
    pause_end(p);
}

/* ---- Paused ---- */

static bool is_quiet(const struct mount_pause *p)
{
    return file_is_quiet(p->file) && !mount_is_at(p->mount, p->file->inode);
}

static int take_place(struct mount_pause *p, const Morsel__Node *node)
{
    int rv = MORSEL_OK;

    if (node->attr == NULL) {
        return MORSEL_MALFORMED;
    }
    if (p->hold.given_up && !is_quiet(p)) {
        file_lose_place(p->file); /* Something is just being refused: it is found behind that. */
    } else if ((rv = file_move(p->file, node->layout)) == 0) {
        file_refresh(p->file, node->attr);
    }
    return rv;
}

static void on_over(struct meta_call *call, int status, void *message)
{
    struct mount_pause *p = CONTAINER_OF(call, struct mount_pause, call);

    p->asks = false;
    p->older |= status == MORSEL_UNKNOWN_TYPE;
    if (status == 0) {
        status = take_place(p, message);
    }
    if (status == 0 || status == MORSEL_STALE || status == MORSEL_NOENT) {
        pause_end(p);
    } else {
        wake(p->mount, ASK_AGAIN_MS);
    }
}

static void ask(struct mount_pause *p)
{
    Morsel__PausedRequest paused = MORSEL__PAUSED_REQUEST__INIT;
    Morsel__GetattrRequest older = MORSEL__GETATTR_REQUEST__INIT;
    struct client *client = p->mount->client;

    paused.inode = older.inode = p->file->inode;
    paused.number = p->number;
    older.layout = true;
    p->call.patient = true;
    p->asks = meta_call_start(&p->call, client, p->older ? MSG_GETATTR : MSG_PAUSED,
                              p->older ? &older.base : &paused.base, &morsel__node__descriptor,
                              on_over) == 0;
    if (!p->asks) {
        wake(p->mount, ASK_AGAIN_MS);
    }
}

static void give_up(struct mount_pause *p)
{
    log_warning(
        p->mount->client->options.log,
        "inode %lu: the manager has not said within io_timeout whether its bytes lie "
        "elsewhere now; what is asked of it says EIO until it has: see whether the manager runs",
        (unsigned long)p->file->inode);
    file_give_up_place(p->file);
    mount_hold_give_up(p->mount, &p->hold);
}

/* ---- Until then ---- */

static void on_flushed(struct file_flush *flush, int status)
{
    struct mount_pause *p = CONTAINER_OF(flush, struct mount_pause, flush);

    if (status != 0 || file_failures(p->file) != p->failures) {
        refuse(p);
        return;
    }
    p->step = PAUSE_SETTLING; /* The flush holds its file until this returns. */
    p->flushed = true;
    wake(p->mount, 0);
}

static void settled(struct mount_pause *p)
{
    struct client *client = p->mount->client;

    if (p->flushed) {
        p->hold.settles = false;
        p->step = PAUSE_PAUSED;
        p->give_up_ms =
            client->options.io_timeout_ms == RPC_NO_DEADLINE
                ? UINT64_MAX
                : uv_now(client->loop) + EXCHANGE_PAUSED_MS + client->options.io_timeout_ms;
        size_lock_let_go(client, p->file->inode);
        ask(p);
        wake(p->mount, ASK_AGAIN_MS);
        return;
    }
    p->step = PAUSE_FLUSHING;
    p->failures = file_failures(p->file);
    if (file_flush_start(&p->flush, p->file, NULL, true, on_flushed) != 0) {
        refuse(p);
    }
}

static void look(struct mount_pause *p)
{
    uint64_t now = uv_now(p->mount->client->loop);

    if (p->step == PAUSE_SETTLING) {
        if (is_quiet(p)) {
            settled(p);
        } else if (now >= p->until_ms) {
            refuse(p);
        } else {
            wake(p->mount, SETTLE_POLL_MS);
        }
    } else if (p->step == PAUSE_PAUSED) {
        wake(p->mount, ASK_AGAIN_MS);
        if (now >= p->give_up_ms && !p->hold.given_up) {
            give_up(p);
        } else if (!p->asks) {
            ask(p);
        }
    }
}

static struct mount_pause *next_due(const struct mount *m)
{
    LIST_FOREACH(node, &m->pauses)
    {
        struct mount_pause *p = LIST_ENTRY(node, struct mount_pause, node);

        if (p->due) {
            return p;
        }
    }
    return NULL;
}

static void on_wake(uv_timer_t *timer)
{
    struct mount *m = timer->data;
    struct mount_pause *p;

    LIST_FOREACH(node, &m->pauses)
    {
        LIST_ENTRY(node, struct mount_pause, node)->due = true;
    }
    while ((p = next_due(m)) != NULL) {
        p->due = false;
        look(p);
    }
}

static void wake(struct mount *m, uint64_t after_ms)
{
    if (!uv_is_active((uv_handle_t *)&m->pause_timer) ||
        uv_timer_get_due_in(&m->pause_timer) > after_ms) {
        (void)uv_timer_start(&m->pause_timer, on_wake, after_ms, 0);
    }
}

/* ---- The beginning ---- */

static unsigned count_pauses(const struct mount *m)
{
    unsigned count = 0;

    LIST_FOREACH(node, &m->pauses)
    {
        count++;
    }
    return count;
}

/* What is not open here any more the manager is about to hear of. */
void mount_pause(void *mount, inode_id inode, uint64_t number)
{
    struct mount *m = mount;
    struct file *file = file_find(m->client, inode);
    struct mount_pause *p = NULL;

    if (file == NULL) {
        return;
    }
    if (m->mounted && !file_is_held(file) && count_pauses(m) < PAUSES_HERE_MAX) {
        p = calloc(1, sizeof(*p));
    }
    if (p == NULL) {
        tell_refused(m->client, inode, number);
        return;
    }
    p->mount = m;
    p->file = file;
    p->number = number;
    p->until_ms = uv_now(m->client->loop) + SETTLE_MS;
    list_init(&p->node);
    list_push_back(&m->pauses, &p->node);
    p->hold.settles = true;
    mount_hold_begin(m, &p->hold, inode, inode);
    file_hold(file);
    wake(m, 0);
}

void mount_pauses_start(struct mount *m)
{
    list_init(&m->pauses);
    (void)uv_timer_init(m->client->loop, &m->pause_timer);
    m->pause_timer.data = m;
}

void mount_pauses_stop(struct mount *m)
{
    uv_close((uv_handle_t *)&m->pause_timer, NULL);
}
