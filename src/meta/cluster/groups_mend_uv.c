/* Servers that are lost or are to leave: what is known, the steps that follow, and what is asked for. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "meta/cluster/groups_inner_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Steps ---- */

uint64_t groups_away_ms(struct meta *meta, const struct member *m)
{
    uint64_t now_ms = meta_now_ms(meta);

    return m->registered ? now_ms - m->heard_ms : now_ms - meta->started_ms;
}

struct mend_world *groups_look(struct groups_host *h)
{
    uint64_t after_ms = h->meta->settings->rebuild_after_ms;
    const struct members *members = &h->meta->members;

    h->mend.members = members;
    h->mend.roll = &h->roll;
    h->mend.record = groups_record_now(h->meta);
    for (uint32_t i = 0; i < members->count; i++) {
        const struct member *m = &members->items[i];

        h->mend.gone[i] =
            after_ms != 0 && !m->up && !m->presumed && groups_away_ms(h->meta, m) >= after_ms;
    }
    return &h->mend;
}

void groups_mark_leavers(struct groups_host *h)
{
    struct members *members = &h->meta->members;

    for (uint32_t i = 0; i < members->count; i++) {
        struct member *m = &members->items[i];
        bool leaves = groups_leaver_find(groups_record_now(h->meta), m->record.id) != NULL;

        if (leaves != m->leaves) {
            m->left = (struct member_left){ .known = false };
        }
        m->leaves = leaves;
    }
}

/* What a plan is about to do, line by line. */
static void log_group(struct log *log, const struct group_made *a, const struct group_made *b)
{
    for (uint32_t p = 0; p < b->now.count; p++) {
        server_id before = p < a->now.count ? a->now.servers[p] : 0, now = b->now.servers[p];

        if (p == a->now.count) {
            log_info(log, "group %u gets one place more, for the time of a change", b->number);
        } else if (before != 0 && now == 0) {
            log_info(log, "group %u: server %u loses its place", b->number, before);
        } else if (before == 0 && now != 0 && b->now.since[p] == b->changed) {
            log_info(log, "group %u: server %u gets a place, and is brought up to date", b->number,
                     now);
        } else if (before == 0 && now != 0) {
            log_info(log, "group %u: server %u was back in time, and keeps its place", b->number,
                     now);
        }
        if (((b->now.leaving & ~a->now.leaving) >> p & 1) != 0) {
            log_info(log, "group %u: server %u is to leave", b->number, now);
        }
    }
    if (a->moves_from != 0 && b->moves_from == 0) {
        log_info(log, "group %u: the copy of server %u %s server %u", b->number, a->moves_from,
                 group_place(b, a->moves_from) == b->now.count &&
                         group_place(b, a->moves_to) < b->now.count
                     ? "has moved to"
                     : "is not to move any more to",
                 a->moves_to);
    }
    if (a->forced_s != 0 && b->forced_s == 0) {
        log_info(
            log,
            "group %u: all copies are complete again, with what server %u had when it was named",
            b->number, b->now.servers[b->forced_place]);
    }
    if (a->formers_count > 0 && b->formers_count == 0) {
        log_info(log, "group %u: all copies are complete; those that lost their place are deleted",
                 b->number);
    }
}

static void log_plan(struct groups_host *h)
{
    const struct groups_record *now = groups_record_now(h->meta);

    for (uint32_t i = 0; i < now->count; i++) {
        if (h->next->items[i].changed != now->items[i].changed ||
            h->next->items[i].moves_from != now->items[i].moves_from) {
            log_group(h->meta->log, &now->items[i], &h->next->items[i]);
        }
    }
}

/* One plan at a time: the next one begins when this one is on the disk. */
void groups_mend_tick(uv_timer_t *timer)
{
    struct groups_host *h = timer->data;
    struct errmsg err = { "" };

    if (!h->meta->closing) {
        groups_note_unwell(h);
        groups_teach(h);
    }
    if (h->meta->closing || h->persisting != 0 || groups_record_now(h->meta)->count == 0 ||
        !mend_plan(groups_look(h), h->next)) {
        return;
    }
    log_plan(h);
    loads_begin(&h->meta->loads);
    if (groups_keep(h, h->next, &err) != 0) {
        log_warning(h->meta->log, "keep who holds the places of groups: %s: trying again",
                    err.text);
        return;
    }
    groups_plan(h);
}

/* ---- What is asked for ---- */

/* `next` is as it is now, and has a version: without one there is no record. */
static struct groups_record *copy_now(struct groups_host *h)
{
    *h->next = *groups_record_now(h->meta);
    h->next->version += h->next->version == 0;
    return h->next;
}

int groups_pause(struct meta *meta, bool paused, struct errmsg *err)
{
    struct groups_host *h = meta->groups;

    if (groups_record_now(meta)->paused == paused) {
        return 0;
    }
    copy_now(h)->paused = paused;
    return groups_keep(h, h->next, err);
}

static int find_server(const struct meta *meta, server_id server, const struct member **m,
                       struct errmsg *err)
{
    if ((*m = members_find(&meta->members, server)) == NULL || !member_stays(*m)) {
        errmsg_set(err, "there is no storage server %u: `morsel status` lists them", server);
        return MORSEL_INVAL;
    }
    return 0;
}

/* Can it take over from the server at all? */
static int may_take_over(const struct meta *meta, server_id server, server_id to,
                         struct errmsg *err)
{
    const struct member *m;
    int rv;

    if (to == 0) {
        return 0;
    }
    if ((rv = find_server(meta, to, &m, err)) != 0) {
        return rv;
    }
    if (to == server) {
        errmsg_set(err, "server %u cannot be replaced by itself", server);
    } else if (!m->up) {
        errmsg_set(err, "server %u is down: start it first, or name another one, or \"auto\"", to);
    } else if (m->record.waits) {
        errmsg_set(err, "server %u waits to be admitted: `morsel iod admit %u` first", to, to);
    } else if (m->leaves) {
        errmsg_set(err, "server %u is to leave the cluster itself: name another one, or \"auto\"",
                   to);
    } else {
        return 0;
    }
    return MORSEL_INVAL;
}

/* Is there somebody to take over, and something to take over from? */
static int check_group(const struct meta *meta, const struct group_made *g, const struct member *m,
                       uint32_t others, struct errmsg *err)
{
    uint32_t place = group_place(g, m->record.id);

    if (place == g->now.count) {
        return 0;
    }
    if (others < g->copies) {
        errmsg_set(err,
                   "group %u has %u copies, and %u other storage server%s up that may hold one: "
                   "start more first",
                   g->number, g->copies, others, others == 1 ? " is" : "s are");
        return MORSEL_INVAL;
    }
    if (!m->up && g->told && (mend_in_sync(&meta->groups->mend, g) & ~(1U << place)) == 0) {
        errmsg_set(
            err,
            "group %u has no other copy that is complete and serves: bring server %u back, or "
            "wait until another one serves (`morsel recover status`)",
            g->number, m->record.id);
        return MORSEL_INVAL;
    }
    return 0;
}

static int check_leave(struct meta *meta, const struct member *m, struct errmsg *err)
{
    const struct groups_record *record = groups_record_now(meta);
    uint32_t others = 0;
    int rv = 0;

    for (uint32_t i = 0; i < meta->members.count; i++) {
        const struct member *o = &meta->members.items[i];

        others += o != m && o->up && member_gets_new(o);
    }
    (void)groups_look(meta->groups);
    for (uint32_t i = 0; i < record->count && rv == 0; i++) {
        rv = check_group(meta, &record->items[i], m, others, err);
    }
    return rv;
}

/* Where it stands among those who leave, or would. */
static uint32_t leaver_at(const struct groups_record *record, server_id server)
{
    uint32_t at = 0;

    while (at < record->leavers_count && record->leavers[at].server < server) {
        at++;
    }
    return at;
}

int groups_leave(struct meta *meta, server_id server, server_id to, struct errmsg *err)
{
    struct groups_host *h = meta->groups;
    const struct group_leaver *known = groups_leaver_find(groups_record_now(meta), server);
    const struct member *m;
    struct groups_record *next;
    uint32_t at;
    int rv;

    if ((rv = find_server(meta, server, &m, err)) != 0 ||
        (rv = may_take_over(meta, server, to, err)) != 0) {
        return rv;
    }
    if (known != NULL && known->to == to) {
        return 0;
    }
    if (known == NULL && (rv = check_leave(meta, m, err)) != 0) {
        return rv;
    }
    next = copy_now(h);
    at = leaver_at(next, server);
    if (known == NULL) {
        CHECK(next->leavers_count < SERVERS_MAX); /* Each is a member. */
        memmove(&next->leavers[at + 1], &next->leavers[at],
                (next->leavers_count++ - at) * sizeof(next->leavers[0]));
    }
    next->leavers[at] = (struct group_leaver){ server, to };
    rv = groups_keep(h, next, err);
    groups_mark_leavers(h);
    return rv;
}

static void leaver_take_out(struct groups_record *next, server_id server)
{
    uint32_t at = leaver_at(next, server);

    memmove(&next->leavers[at], &next->leavers[at + 1],
            (--next->leavers_count - at) * sizeof(next->leavers[0]));
    next->leavers[next->leavers_count] = (struct group_leaver){ 0, 0 };
}

int groups_stay(struct meta *meta, server_id server, struct errmsg *err)
{
    struct groups_host *h = meta->groups;
    const struct member *m;
    struct groups_record *next;
    int rv;

    if ((rv = find_server(meta, server, &m, err)) != 0) {
        return rv;
    }
    if (groups_leaver_find(groups_record_now(meta), server) == NULL) {
        errmsg_set(err, "server %u is not to leave: there is nothing to cancel", server);
        return MORSEL_INVAL;
    }
    next = copy_now(h);
    leaver_take_out(next, server);
    rv = groups_keep(h, next, err);
    groups_mark_leavers(h);
    if (rv == 0) {
        groups_members_changed(meta); /* It may get groups. */
    }
    return rv;
}

/* ---- Servers that are gone for good ---- */

enum { GROUPS_NAMED_MAX = 5 };

int groups_may_remove(const struct meta *meta, server_id server, struct errmsg *err)
{
    const struct groups_record *record = groups_record_now(meta);
    char names[GROUPS_NAMED_MAX * 12 + 1] = "";
    uint32_t count = 0;
    size_t used = 0;

    for (uint32_t i = 0; i < record->count; i++) {
        if (group_concerns(&record->items[i], server) && count++ < GROUPS_NAMED_MAX) {
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%u",
                                     count == 1 ? "" : ", ", record->items[i].number);
        }
    }
    if (count == 0) {
        return 0;
    }
    errmsg_set(err,
               "server %u has a place in %u group%s (%s%s), or their copies are not complete "
               "without it: %s",
               server, count, count == 1 ? "" : "s", names, count > GROUPS_NAMED_MAX ? " ..." : "",
               groups_leaver_find(record, server) != NULL
                   ? "wait until `morsel recover status` says that it has left"
                   : "give them to others first, with `morsel recover replace`");
    return MORSEL_INVAL;
}

int groups_remove(struct meta *meta, server_id server, struct errmsg *err)
{
    struct groups_host *h = meta->groups;
    struct groups_record *next = copy_now(h);
    bool changed = groups_leaver_find(next, server) != NULL;
    int rv;

    if (changed) {
        leaver_take_out(next, server);
    }
    for (uint32_t i = 0; i < next->leavers_count; i++) {
        changed |= next->leavers[i].to == server;
        next->leavers[i].to = next->leavers[i].to == server ? 0 : next->leavers[i].to;
    }
    rv = changed ? groups_keep(h, next, err) : 0;
    groups_mark_leavers(h);
    return rv;
}
