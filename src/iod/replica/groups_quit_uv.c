/* A planned stop: every copy asks the others to go on without it (group_quit()), until they do. */
#include "iod/replica/groups_inner_uv.h"

#include "common/base/check.h"

/* Groups that are named in the log; of more only how many there are. */
enum { NAMED_MAX = 8 };

/* Does the end of this daemon end the service of that copy's files? */
static bool is_needed(const struct copy *copy)
{
    return copy_trouble(copy) == NULL && group_is_alone(&copy_replica(copy)->group);
}

static void say_how_far(const struct groups *g)
{
    uint32_t alone = 0, late = 0;
    struct group_entry *e, *next;

    HASH_ITER(hh, g->table, e, next)
    {
        bool needed = e->copy != NULL && is_needed(e->copy);

        if (needed && alone++ < NAMED_MAX) {
            log_warning(g->server->log,
                        "group %u: no other server has everything: its files wait until this "
                        "server is started again",
                        e->number);
        }
        late += e->copy != NULL && !needed && !copy_may_end(e->copy);
    }
    if (alone > NAMED_MAX) {
        log_warning(g->server->log, "the files of %u groups in all wait for this server", alone);
    }
    if (late > 0) {
        log_warning(g->server->log,
                    "%u groups have not gone on without this server within %d s: they will when "
                    "they notice that it is gone",
                    late, GROUPS_LEAVE_MS / 1000);
    }
}

void groups_look_leave(struct groups *g)
{
    void (*left)(void *data) = g->left;
    struct group_entry *e, *next;
    bool may = true;

    if (left == NULL) {
        return;
    }
    HASH_ITER(hh, g->table, e, next)
    {
        if (e->copy != NULL) {
            copy_send_away(e->copy);
            may = copy_may_end(e->copy) && may;
        }
    }
    if (may || rpc_boot_ms() >= g->leave_ms) {
        say_how_far(g);
        g->left = NULL;
        left(g->left_data);
    }
}

void groups_quit(struct groups *g, void (*left)(void *data), void *data)
{
    struct group_entry *e, *next;

    CHECK(g->leave_ms == 0 && !g->closing);
    g->leave_ms = rpc_boot_ms() + GROUPS_LEAVE_MS;
    if (!g->timer_open) {
        left(data);
        return;
    }
    g->left = left;
    g->left_data = data;
    g->ticking = true; /* What all copies have to say goes out together. */
    HASH_ITER(hh, g->table, e, next)
    {
        if (e->copy != NULL) {
            copy_quit(e->copy);
        }
    }
    g->ticking = false;
    peers_flush(&g->peers);
    groups_rearm(g);
}
