/* Benefactors that come, report and go. */
#include "meta/cluster/donors_uv.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "meta/cluster/hours_uv.h"

#include <stdio.h>

enum { LINES_MS = 1000, PEER_INSTANCE_SHIFT = 32, HOUR_S = 3600 };

uint64_t donors_peer(donor_id id, uint64_t instance)
{
    return instance << PEER_INSTANCE_SHIFT | id;
}

/* The donor whose connection has the number; NULL: it is nobody's, or that of a process before. */
static const struct donor *donor_of(const struct meta *meta, uint64_t peer)
{
    const struct donor *donor = donors_find(&meta->donors, (donor_id)peer);

    return donor != NULL && donors_peer(donor->record.id, donor->instance) == peer ? donor : NULL;
}

/* ---- The log ---- */

static void log_left_out(struct meta *meta)
{
    struct donors_lines *l = &meta->donors_lines;

    if (l->came + l->went + l->refused + l->doors > 0) {
        log_info(
            meta->log,
            "%u more benefactors came, %u more went away, %u more were refused, and of %u more it "
            "was found whether clients reach them, in the same second: `morsel donors` lists them",
            l->came, l->went, l->refused, l->doors);
    }
    l->came = l->went = l->refused = l->doors = l->written = 0;
}

void donors_host_pulse(struct meta *meta, uint64_t now_ms)
{
    if (now_ms - meta->donors_lines.began_ms >= LINES_MS) {
        log_left_out(meta);
    }
}

/* May one more line be written? Otherwise it is counted in `left_out`. */
static bool take_line(struct meta *meta, uint32_t *left_out)
{
    struct donors_lines *l = &meta->donors_lines;
    uint64_t now_ms = meta_now_ms(meta);

    donors_host_pulse(meta, now_ms);
    if (l->written == 0) {
        l->began_ms = now_ms;
    }
    if (l->written == DONORS_LINES_MAX) {
        (*left_out)++;
        return false;
    }
    l->written++;
    return true;
}

static void log_came(struct meta *meta, const struct donor *donor)
{
    if (take_line(meta, &meta->donors_lines.came)) {
        log_info(meta->log, "benefactor %u (%s, %s) is here and donates %llu MiB", donor->record.id,
                 donor->record.name, donor->address,
                 (unsigned long long)(donor->report.donated >> 20));
    }
}

static void log_went(struct meta *meta, const struct donor *donor, const char *reason)
{
    int64_t back_s = hours_back_in(&meta->hours, donor->record.id);
    char back[64] = "";

    if (back_s > 0 && back_s < INT64_MAX) {
        (void)snprintf(back, sizeof(back), "; it is usually back in %lld h",
                       (long long)(back_s / HOUR_S));
    }
    if (take_line(meta, &meta->donors_lines.went)) {
        log_info(meta->log, "benefactor %u (%s, %s) is away: %s%s", donor->record.id,
                 donor->record.name, donor->address, reason, back);
    }
}

void donors_host_log_door(struct meta *meta, const struct donor *donor, bool shut)
{
    if (!take_line(meta, &meta->donors_lines.doors)) {
        return;
    }
    if (shut) {
        log_warning(
            meta->log,
            "benefactor %u (%s) is here, but nobody opens at %s, where clients are to find "
            "it: nothing new is placed there; let a firewall of that machine pass the port, "
            "or name another address to its benefactor (--advertise)",
            donor->record.id, donor->record.name, donor->address);
    } else {
        log_info(meta->log, "benefactor %u (%s) can be reached at %s now", donor->record.id,
                 donor->record.name, donor->address);
    }
}

/* ---- What the core says ---- */

static void persist(struct meta *meta, const struct donor *donor)
{
    struct donors_event event = { .now_ms = meta_now_ms(meta), .type = DONORS_PERSISTED };
    struct meta_op op = { .kind = OP_DONOR, .time_ns = meta_clock_ns() };
    struct errmsg err = { "" };

    op.donor = donor->record;
    event.persisted.id = donor->record.id;
    event.persisted.status = meta_execute(meta, &op, &err);
    donors_host_step(meta, &event);
}

/* The number of a new one is durable before it hears it. */
static void on_durable(void *data, struct rpc_request *request, uint64_t id)
{
    struct meta *meta = data;
    Morsel__DonorJoinReply reply = MORSEL__DONOR_JOIN_REPLY__INIT;
    struct cluster_id cluster = ns_super(meta->ns)->cluster;

    reply.id = (uint32_t)id;
    reply.cluster_id.data = cluster.bytes;
    reply.cluster_id.len = sizeof(cluster.bytes);
    reply.report_ms = (uint32_t)meta->settings->donor_report_ms;
    rpc_reply(request, &reply.base, NULL);
}

/* While it waited, for room in the database, its connection may have ended: nobody would hear of that any more. */
static void welcome(struct meta *meta, struct rpc_request *request, const struct donor *donor)
{
    uint64_t peer = donors_peer(donor->record.id, donor->instance);
    char address[ADDRESS_TEXT_MAX];

    rpc_request_name_peer(request, peer);
    meta_reply_durable(meta, request, on_durable, donor->record.id);
    if (!rpc_node_address(meta->server, ROLE_BENEFACTOR, peer, address)) {
        donors_host_gone(meta, peer);
    }
}

static void refuse(struct meta *meta, struct rpc_request *request,
                   const struct donors_action *action)
{
    if (action->status != MORSEL_NO_SESSION && action->status != MORSEL_AGAIN &&
        take_line(meta, &meta->donors_lines.refused)) {
        log_warning(meta->log, "benefactor at %s refused: %s", rpc_request_peer(request),
                    action->reason);
    }
    rpc_reply_failure(request, action->status, action->reason);
}

void donors_host_ask(struct meta *meta, const struct donor *donor)
{
    const Morsel__DonorWanted wanted = MORSEL__DONOR_WANTED__INIT;

    (void)rpc_push(meta->server, ROLE_BENEFACTOR, donors_peer(donor->record.id, donor->instance),
                   MSG_DONOR_WANTED, &wanted.base);
}

bool donors_host_recount(struct meta *meta, const struct donor *donor, uint64_t bytes)
{
    enum donor_recount recount =
        doors_may_get(&meta->donors, donor)
            ? donors_recount(&meta->donors, donor->record.id, bytes, meta_now_ms(meta))
            : DONOR_COUNTED;

    if (recount == DONOR_ASK) {
        donors_host_ask(meta, donor);
    }
    return recount != DONOR_COUNTED;
}

static void perform(struct meta *meta, const struct donors_action *action)
{
    struct rpc_request *request = (struct rpc_request *)(uintptr_t)action->tag;
    const struct donor *donor = donors_find(&meta->donors, action->id);

    if (action->type == DONORS_REFUSE) {
        refuse(meta, request, action); /* It may be nobody's. */
        return;
    }
    CHECK(donor != NULL);
    switch (action->type) {
    case DONORS_REFUSE:
        break;
    case DONORS_PERSIST:
        persist(meta, donor);
        break;
    case DONORS_WELCOME:
        welcome(meta, request, donor);
        break;
    case DONORS_ALIVE:
        donor_report_answer(meta, request, action->id);
        break;
    case DONORS_ASK:
        donors_host_ask(meta, donor);
        break;
    case DONORS_HANG_UP:
        rpc_disconnect(meta->server, ROLE_BENEFACTOR, donors_peer(action->id, donor->instance),
                       "a benefactor that does not answer");
        break;
    case DONORS_CAME:
        log_came(meta, donor);
        hours_came(meta, action->id);
        break;
    case DONORS_WENT:
        log_went(meta, donor, action->reason);
        hours_went(meta, action->id);
        break;
    }
}

void donors_host_step(struct meta *meta, const struct donors_event *event)
{
    struct donors_actions out;

    out.count = 0;
    donors_step(&meta->donors, event, &out);
    for (uint32_t i = 0; i < out.count; i++) {
        perform(meta, &out.items[i]);
    }
    meta_arm(meta);
}

/* ---- Beginning, and connections ---- */

struct loading
{
    struct donors *donors;
    uint64_t now_ms;
};

static int load(void *data, const struct donor_record *record)
{
    struct loading *l = data;

    return donors_add(l->donors, record, l->now_ms);
}

int donors_host_open(struct meta *meta, struct errmsg *err)
{
    struct loading l = { &meta->donors, meta_now_ms(meta) };

    donor_id given = 0;
    int rv;

    donors_init(&meta->donors, (uint32_t)meta->settings->donor_look_ms);
    if ((rv = ns_donors(meta->ns, load, &l, err)) == 0 &&
        (rv = ns_donor_floor(meta->ns, &given, err)) == 0) {
        donors_given(&meta->donors, given);
    }
    return rv;
}

void donors_host_gone(struct meta *meta, uint64_t peer)
{
    struct donors_event event = { .now_ms = meta_now_ms(meta), .type = DONORS_GONE };
    const struct donor *donor = donor_of(meta, peer);

    if (donor != NULL) {
        event.gone.id = donor->record.id;
        event.gone.instance = donor->instance;
        donors_host_step(meta, &event);
    }
}

bool donors_host_values(const struct meta *meta, uint64_t peer)
{
    const struct donor *donor = donor_of(meta, peer);

    return donor != NULL && donor->connected;
}
