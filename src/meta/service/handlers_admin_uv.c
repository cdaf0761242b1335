/* Health, space and statistics: what the morsel command and df(1) ask for. */
#include "common.pb-c.h"
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "common/rpc/address.h"
#include "meta/cluster/groups_uv.h"
#include "meta/cluster/removal_uv.h"
#include "meta/cluster/voters_uv.h"
#include "meta/service/handlers_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void answer_status(void *data, struct rpc_request *request)
{
    struct meta *meta = data;
    Morsel__StatusReply reply = MORSEL__STATUS_REPLY__INIT;
    Morsel__Member messages[SERVERS_MAX], *pointers[SERVERS_MAX];
    Morsel__VoterStatus voters[VOTER_ROLL_MAX], *voter_pointers[VOTER_ROLL_MAX];
    Morsel__VotersStatus voters_status;
    const struct counters *counters = ns_counters(meta->ns);
    struct cluster_id cluster = ns_super(meta->ns)->cluster;
    struct groups_status *groups = groups_status_new(meta, &reply);
    struct member_scrub_message *scrubs;
    struct distrusted_list distrusted;
    char host[256] = "";

    reply.n_members = members_fill(meta, messages, pointers);
    scrubs = member_scrubs_fill(&meta->members, messages);
    groups_members_fill(meta, messages);
    voters_status_fill(meta, &voters_status, voters, voter_pointers);
    reply.voters = &voters_status;
    reply.cluster_id.data = cluster.bytes;
    reply.cluster_id.len = sizeof(cluster.bytes);
    reply.version = (char *)(uintptr_t) "morsel-meta " MORSELFS_VERSION;
    reply.uptime_ms = uv_now(meta->loop) - meta->started_ms;
    reply.sequence = counters->sequence;
    reply.inodes = counters->inodes;
    reply.sessions = session_count(meta->sessions);
    reply.garbage = counters->garbage;
    reply.resident_bytes = counters_resident_bytes();
    (void)gethostname(host, sizeof(host) - 1);
    reply.host = host;
    reply.members = pointers;
    reply.donors = meta->donors.count;
    reply.donors_here = meta->donors.here;
    reply.donated = meta->donors.donated;
    reply.donated_used = meta->donors.used;
    reply.morsels_short = meta->repair.morsels_short;
    reply.morsels_away = meta->repair.morsels_away;
    reply.morsels_fetching = meta->repair.task_count;
    reply.morsels_repaired = meta->repair.added;
    reply.bytes_repaired = meta->repair.added_bytes;
    reply.sets_unfinished = meta->unfinished.core.told;
    reply.n_distrusted = donors_distrusted_fill(meta, &distrusted);
    reply.distrusted = distrusted.pointers;
    groups_default_now(meta, &reply.new_copies, &reply.new_copies_rule);
    rpc_reply(request, &reply.base, NULL);
    free(scrubs);
    groups_status_free(groups);
}

void handle_status(struct meta *meta, struct rpc_request *request)
{
    capacity_ask(&meta->capacity, meta->server, request, answer_status, meta);
}

/* ---- Who writes to a file ---- */

enum { WRITERS_NAMED_MAX = 8 };

int serve_writers(struct request *r)
{
    const Morsel__WritersRequest *m = r->message;
    Morsel__WritersReply reply = MORSEL__WRITERS_REPLY__INIT;
    char texts[WRITERS_NAMED_MAX][ADDRESS_TEXT_MAX], *pointers[WRITERS_NAMED_MAX];
    client_id clients[WRITERS_NAMED_MAX];
    uint32_t count = session_writers(r->meta->sessions, m->inode, clients, WRITERS_NAMED_MAX);

    reply.n_address = count < WRITERS_NAMED_MAX ? count : WRITERS_NAMED_MAX;
    reply.address = pointers;
    reply.more = count - (uint32_t)reply.n_address;
    for (size_t i = 0; i < reply.n_address; i++) {
        pointers[i] = texts[i];
        if (!rpc_node_address(r->meta->server, ROLE_CLIENT, clients[i], texts[i])) {
            (void)snprintf(texts[i], ADDRESS_TEXT_MAX, "client %016" PRIx64 ", which is away",
                           clients[i]);
        }
    }
    rpc_reply(r->rpc, &reply.base, NULL);
    return 0;
}

/* ---- Servers that are replaced ---- */

static void answer_recover(struct meta *meta, struct rpc_request *request, server_id server,
                           server_id to)
{
    const struct member *m = members_find(&meta->members, server);
    Morsel__RecoverReply reply = MORSEL__RECOVER_REPLY__INIT;

    reply.places = groups_places(meta, server, to, &reply.elsewhere);
    reply.objects = m != NULL ? m->objects : 0;
    rpc_reply(request, &reply.base, NULL);
}

/* Both servers in one number. */
enum { RECOVER_TO_SHIFT = 32 };

static void answer_recovered(void *data, struct rpc_request *request, uint64_t servers)
{
    answer_recover(data, request, (server_id)servers, (server_id)(servers >> RECOVER_TO_SHIFT));
}

/* Nothing of it is kept. */
static int compare(struct request *r, const Morsel__RecoverRequest *m)
{
    Morsel__RecoverReply reply = MORSEL__RECOVER_REPLY__INIT;
    int rv = groups_verify(r->meta, m->group, &reply.run, &reply.groups, &r->err);

    if (rv == 0) {
        rpc_reply(r->rpc, &reply.base, NULL);
    }
    return rv;
}

/* Both numbers in one: of the group, and of the server. */
static void answer_force(struct meta *meta, struct rpc_request *request, group_number group,
                         server_id server, bool done)
{
    const struct member *m = members_find(&meta->members, server);
    Morsel__RecoverReply reply = MORSEL__RECOVER_REPLY__INIT;
    struct force_shown shown;

    groups_force_fill(meta, group, &reply, &shown);
    reply.objects = m != NULL ? m->objects : 0;
    reply.done = done;
    rpc_reply(request, &reply.base, NULL);
}

static void answer_forced(void *data, struct rpc_request *request, uint64_t both)
{
    answer_force(data, request, (group_number)(both >> RECOVER_TO_SHIFT), (server_id)both, true);
}

static int serve_force(struct request *r, const Morsel__RecoverRequest *m)
{
    int rv = groups_force(r->meta, m->group, m->server, m->version, &r->err);

    if (rv == 0 && m->version == 0) {
        answer_force(r->meta, r->rpc, m->group, m->server, false);
    } else if (rv == 0) {
        meta_reply_durable(r->meta, r->rpc, answer_forced,
                           (uint64_t)m->group << RECOVER_TO_SHIFT | m->server);
    }
    return rv;
}

static void answer_plan(struct meta *meta, struct rpc_request *request, bool done)
{
    Morsel__RecoverReply reply = MORSEL__RECOVER_REPLY__INIT;
    struct rebalance_told *told = groups_rebalance_told(meta, &reply);

    if (told == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    reply.done = done;
    rpc_reply(request, &reply.base, NULL);
    groups_rebalance_told_free(told);
}

static void answer_planned(void *data, struct rpc_request *request, uint64_t done)
{
    answer_plan(data, request, done != 0);
}

static void answer_stopped(void *data, struct rpc_request *request, uint64_t left)
{
    Morsel__RecoverReply reply = MORSEL__RECOVER_REPLY__INIT;

    (void)data;
    reply.moves_left = (uint32_t)left;
    rpc_reply(request, &reply.base, NULL);
}

static int serve_rebalance(struct request *r, const Morsel__RecoverRequest *m)
{
    int rv = groups_rebalance(r->meta, m, &r->err);

    if (rv == 0 && m->look == 0) {
        answer_plan(r->meta, r->rpc, false);
    } else if (rv == 0) {
        meta_reply_durable(r->meta, r->rpc, answer_planned, true);
    }
    return rv;
}

static int serve_rebalance_stop(struct request *r)
{
    int rv = groups_rebalance_stop(r->meta, &r->err);

    if (rv == 0) {
        meta_reply_durable(r->meta, r->rpc, answer_stopped, groups_moves_left(r->meta));
    }
    return rv;
}

int serve_recover(struct request *r)
{
    const Morsel__RecoverRequest *m = r->message;
    int rv = MORSEL_NOTSUP;

    if (m->what == RECOVER_VERIFY) {
        return compare(r, m);
    }
    if (m->what == RECOVER_REMOVE) {
        return removal_serve(r->meta, r->rpc, m, &r->err);
    }

    loads_begin(&r->meta->loads);
    switch (m->what) {
    case RECOVER_PAUSE:
    case RECOVER_START:
        rv = groups_pause(r->meta, m->what == RECOVER_PAUSE, &r->err);
        break;
    case RECOVER_LEAVE:
        rv = groups_leave(r->meta, m->server, m->to, &r->err);
        break;
    case RECOVER_STAY:
        rv = groups_stay(r->meta, m->server, &r->err);
        break;
    case RECOVER_ADMIT:
        rv = meta_admit(r->meta, m->server, &r->err);
        break;
    case RECOVER_FORCE:
        return serve_force(r, m);
    case RECOVER_REBALANCE:
        return serve_rebalance(r, m);
    case RECOVER_REBALANCE_STOP:
        return serve_rebalance_stop(r);
    default:
        errmsg_set(&r->err, "this manager knows no such thing to do about servers");
    }
    if (rv == 0) {
        meta_reply_durable(r->meta, r->rpc, answer_recovered,
                           (uint64_t)m->to << RECOVER_TO_SHIFT | m->server);
    }
    return rv;
}

static void answer_statfs(void *data, struct rpc_request *request)
{
    struct meta *meta = data;
    Morsel__StatfsReply reply = MORSEL__STATFS_REPLY__INIT;

    members_space(&meta->members, &reply.bytes_total, &reply.bytes_free);
    reply.inodes = ns_counters(meta->ns)->inodes;
    rpc_reply(request, &reply.base, NULL);
}

void handle_statfs(struct meta *meta, struct rpc_request *request)
{
    capacity_ask(&meta->capacity, meta->server, request, answer_statfs, meta);
}

/* ---- Statistics ---- */

/* NULL: no memory. To be freed. */
static struct counter_list *count(struct meta *meta)
{
    const struct counters *counters = ns_counters(meta->ns);
    struct counter_list *list = calloc(1, sizeof(*list));
    struct lock_counters locks;
    struct lease_counters leases;

    if (list == NULL) {
        return NULL;
    }
    counters_add_program(list, meta->rpc);
    counters_add_server(list, meta->server);
    counters_add(list, NULL, "sequence", counters->sequence);
    counters_add(list, NULL, "inodes", counters->inodes);
    counters_add(list, NULL, "garbage", counters->garbage);
    counters_add(list, NULL, "orphans", counters->orphans);
    counters_add(list, NULL, "sessions", session_count(meta->sessions));
    counters_add(list, NULL, "sessions_expected", session_expected(meta->sessions));
    counters_add(list, NULL, "benefactors", meta->donors.count);
    counters_add(list, NULL, "benefactors_here", meta->donors.here);
    counters_add(list, NULL, "benefactors_looked_at", meta->donors.looks);
    counters_add(list, NULL, "morsels_short", meta->repair.morsels_short);
    counters_add(list, NULL, "morsels_away", meta->repair.morsels_away);
    counters_add(list, NULL, "morsels_fetching", meta->repair.task_count);
    counters_add(list, NULL, "morsels_repaired", meta->repair.added);
    counters_add(list, NULL, "bytes_repaired", meta->repair.added_bytes);
    counters_add(list, NULL, "repairs_failed", meta->repair.failed);
    counters_add(list, NULL, "copies_looked_at", meta->damage.named);
    counters_add(list, NULL, "copies_bad", meta->damage.bad);
    counters_add(list, NULL, "copies_lied", meta->damage.lied);
    counters_add(list, NULL, "copies_right", meta->damage.right);
    counters_add(list, NULL, "surplus_dropped", meta->repair.dropped);
    counters_add(list, NULL, "sets_unfinished", meta->unfinished.core.told);
    counters_add(list, NULL, "open_files", session_opens(meta->sessions));
    counters_add(list, NULL, "syncs", meta->sync.syncs);
    counters_add(list, NULL, "disk_waits", meta->loads.loads);
    counters_add(list, NULL, "disk_waits_for_room", meta->loads.rooms);
    counters_add(list, NULL, "disk_waits_on_loop", meta->loads.impatient);
    counters_add(list, NULL, "stood_still_ms", meta->presence.away_ms);
    lease_count(meta->leases, &leases);
    counters_add(list, NULL, "leases", leases.leases);
    counters_add(list, NULL, "leases_recalled", leases.recalled);
    counters_add(list, NULL, "leases_slow", leases.busy);
    counters_add(list, NULL, "leases_expired", leases.expired);
    counters_add(list, NULL, "clients_fenced", leases.fenced);
    counters_add(list, NULL, "requests_held_up", leases.tickets);
    lock_table_count(meta->locks, &locks);
    counters_add(list, NULL, "locks", locks.held);
    counters_add(list, NULL, "locks_waiting", locks.waiting);
    counters_add(list, NULL, "lock_circles", locks.deadlocks);
    return list;
}

void handle_statistics(struct meta *meta, struct rpc_request *request)
{
    struct counter_list *list = count(meta);

    if (list == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    counters_reply(request, list);
    free(list);
}

void meta_log_statistics(struct meta *meta)
{
    struct counter_list *list = count(meta);

    if (list != NULL) {
        counters_log(meta->log, list);
    }
    free(list);
}
