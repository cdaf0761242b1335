/* Space is evened out (rebalance.h): a plan is shown, carried out as it was shown, stopped; and how far it is. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/cluster/groups_inner_uv.h"
#include "meta/cluster/rebalance.h"

#include <inttypes.h>
#include <stdlib.h>

enum { NS_PER_S = 1000000000, MS_PER_S = 1000 };

/* A plan as it was shown last. */
struct rebalance_shown
{
    uint64_t look;    /* Its number; 0: it has no moves. */
    uint64_t version; /* Of the table for which it was made. */
    struct rebalance_plan plan;
    uint64_t sizes[GROUPS_KEPT_MAX];
};

/* How many moves are to come, and of these how many have not begun. */
static uint32_t count_moves(const struct groups_record *record, uint32_t *waiting)
{
    uint32_t count = 0;

    *waiting = 0;
    for (uint32_t i = 0; i < record->count; i++) {
        count += record->items[i].moves_from != 0;
        *waiting += group_move_waits(&record->items[i]);
    }
    return count;
}

/* ---- A plan ---- */

static void sizes_take(const struct groups_record *record, const Morsel__RecoverRequest *m,
                       uint64_t sizes[GROUPS_KEPT_MAX])
{
    size_t at = 0;

    for (uint32_t i = 0; i < record->count; i++) {
        while (at < m->n_sized_groups && m->sized_groups[at] < record->items[i].number) {
            at++;
        }
        sizes[i] = at < m->n_sized_groups && m->sized_groups[at] == record->items[i].number
                       ? m->sizes[at]
                       : REBALANCE_UNKNOWN;
    }
}

static int show(struct groups_host *h, const Morsel__RecoverRequest *m, struct errmsg *err)
{
    const struct groups_record *record = groups_record_now(h->meta);
    uint32_t waiting, under_way = count_moves(record, &waiting);
    struct rebalance_shown *s = h->shown;

    if (under_way > 0) {
        errmsg_set(err,
                   "%u groups are being moved already: wait for them (`morsel rebalance "
                   "--status`), or stop that (--stop)",
                   under_way);
        return MORSEL_INVAL;
    }
    if (m->n_sizes != m->n_sized_groups || m->n_sizes > GROUPS_KEPT_MAX) {
        errmsg_set(
            err,
            "the request names %zu groups and %zu sizes of groups, and at most %u of both can "
            "be: is the morsel command of another version?",
            m->n_sized_groups, m->n_sizes, (unsigned)GROUPS_KEPT_MAX);
        return MORSEL_INVAL;
    }
    if (s == NULL && (h->shown = s = calloc(1, sizeof(*s))) == NULL) {
        return MORSEL_NOMEM;
    }
    sizes_take(record, m, s->sizes);
    rebalance_plan(groups_look(h), s->sizes, &s->plan);
    s->version = record->version;
    s->look = s->plan.count == 0 ? 0 : (uint64_t)meta_clock_ns();
    return 0;
}

static int begin(struct groups_host *h, uint64_t look, struct errmsg *err)
{
    const struct rebalance_shown *s = h->shown;
    struct groups_record *next = h->next;
    int rv;

    if (s == NULL || s->look != look || s->version != groups_record_now(h->meta)->version) {
        errmsg_set(err, "the groups have changed since that plan was shown, or another one was, or "
                        "the manager was started again: look again");
        return MORSEL_STALE;
    }
    *next = *groups_record_now(h->meta);
    for (uint32_t i = 0; i < s->plan.count; i++) {
        const struct rebalance_move *move = &s->plan.moves[i];
        struct group_made *g = &next->items[groups_record_find(next, move->group) - next->items];

        g->moves_from = move->from;
        g->moves_to = move->to;
        g->moves_bytes = move->bytes;
    }
    next->rebalance = (struct groups_rebalance){ .began_s = (uint64_t)meta_clock_ns() / NS_PER_S,
                                                 .moves = s->plan.count,
                                                 .bytes = s->plan.bytes };
    if ((rv = groups_keep(h, next, err)) == 0) {
        log_info(h->meta->log,
                 "space is evened out: a copy of %u groups moves to another server, %" PRIu64
                 " bytes in all",
                 s->plan.count, s->plan.bytes);
        h->shown->look = 0;
    }
    return rv;
}

int groups_rebalance(struct meta *meta, const Morsel__RecoverRequest *message, struct errmsg *err)
{
    return message->look == 0 ? show(meta->groups, message, err)
                              : begin(meta->groups, message->look, err);
}

int groups_rebalance_stop(struct meta *meta, struct errmsg *err)
{
    struct groups_host *h = meta->groups;
    uint32_t waiting, left = count_moves(groups_record_now(meta), &waiting);
    struct groups_record *next = h->next;
    int rv;

    if (left == 0) {
        errmsg_set(err, "no group is being moved: there is nothing to stop");
        return MORSEL_INVAL;
    }
    *next = *groups_record_now(meta);
    for (uint32_t i = 0; i < next->count; i++) {
        struct group_made *g = &next->items[i];

        if (group_move_waits(g)) {
            next->rebalance.given_up++;
            next->rebalance.given_up_bytes += g->moves_bytes;
            group_move_end(g);
        }
    }
    if ((rv = groups_keep(h, next, err)) == 0) {
        log_info(meta->log, "by command %u groups are not moved any more; %u have begun to, and do",
                 waiting, left - waiting);
    }
    return rv;
}

/* ---- What is told ---- */

struct rebalance_told
{
    Morsel__RebalanceMove moves[GROUPS_KEPT_MAX], *move_pointers[GROUPS_KEPT_MAX];
    Morsel__RebalanceDisk disks[SERVERS_MAX], *disk_pointers[SERVERS_MAX];
};

void groups_move_say(Morsel__RebalanceMove *to, group_number group, server_id from, server_id taker,
                     uint64_t bytes)
{
    morsel__rebalance_move__init(to);
    to->group = group;
    to->from = from;
    to->to = taker;
    to->bytes = bytes;
}

static void disks_fill(const struct groups_host *h, struct rebalance_told *t,
                       Morsel__RecoverReply *reply)
{
    const struct members *members = &h->meta->members;

    for (uint32_t i = 0; i < members->count; i++) {
        const struct rebalance_disk *d = &h->shown->plan.disks[i];
        Morsel__RebalanceDisk *to = &t->disks[reply->n_disks];

        if (!d->counts) {
            continue;
        }
        morsel__rebalance_disk__init(to);
        to->server = members->items[i].record.id;
        to->shares = d->first != i ? members->items[d->first].record.id : 0;
        to->total = d->total;
        to->used = d->before;
        to->used_then = d->used;
        t->disk_pointers[reply->n_disks++] = to;
    }
}

struct rebalance_told *groups_rebalance_told(struct meta *meta, Morsel__RecoverReply *reply)
{
    const struct rebalance_shown *s = meta->groups->shown;
    struct rebalance_told *t = s == NULL ? NULL : calloc(1, sizeof(*t));

    if (t == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < s->plan.count; i++) {
        const struct rebalance_move *move = &s->plan.moves[i];

        groups_move_say(&t->moves[i], move->group, move->from, move->to, move->bytes);
        t->move_pointers[i] = &t->moves[i];
    }
    reply->look = s->look;
    reply->n_moves = s->plan.count;
    reply->moves = t->move_pointers;
    disks_fill(meta->groups, t, reply);
    reply->disks = t->disk_pointers;
    reply->groups_busy = s->plan.unquiet;
    reply->groups_unknown = s->plan.unknown;
    return t;
}

void groups_rebalance_told_free(struct rebalance_told *told)
{
    free(told);
}

uint32_t groups_moves_left(const struct meta *meta)
{
    uint32_t waiting;

    return count_moves(groups_record_now(meta), &waiting);
}

bool groups_rebalance_status(const struct meta *meta, Morsel__RebalanceStatus *to)
{
    const struct groups_rebalance *r = &groups_record_now(meta)->rebalance;
    uint64_t now_s = (uint64_t)meta_clock_ns() / NS_PER_S;

    if (r->began_s == 0) {
        return false;
    }
    morsel__rebalance_status__init(to);
    to->began_ms = now_s > r->began_s ? (now_s - r->began_s) * MS_PER_S : 0;
    to->moves = r->moves;
    to->bytes = r->bytes;
    to->given_up = r->given_up;
    to->given_up_bytes = r->given_up_bytes;
    return true;
}

void groups_rebalance_free(struct groups_host *h)
{
    free(h->shown);
    h->shown = NULL;
}
