/* Requests of the morsel command: health and statistics. */
#include "common.pb-c.h"
#include "common/check.h"
#include "common/status.h"
#include "meta/reply_uv.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* Of this process; 0 when the kernel does not say. */
static uint64_t resident_bytes(void)
{
    unsigned long long total, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%llu %llu", &total, &resident) != 2) {
        resident = 0;
    }
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

void handle_status(struct meta *meta, struct rpc_request *request)
{
    Morsel__StatusReply reply = MORSEL__STATUS_REPLY__INIT;
    Morsel__Member messages[SERVERS_MAX], *pointers[SERVERS_MAX];
    const struct counters *counters = ns_counters(meta->ns);
    struct cluster_id cluster = ns_super(meta->ns)->cluster;

    members_fill(meta, messages, pointers);
    reply.cluster_id.data = cluster.bytes;
    reply.cluster_id.len = sizeof(cluster.bytes);
    reply.version = (char *)(uintptr_t) "morsel-meta " MORSELFS_VERSION;
    reply.uptime_ms = uv_now(meta->loop) - meta->started_ms;
    reply.sequence = counters->sequence;
    reply.inodes = counters->inodes;
    reply.sessions = session_count(meta->sessions);
    reply.garbage = counters->garbage;
    reply.resident_bytes = resident_bytes();
    reply.n_members = meta->members.count;
    reply.members = pointers;
    rpc_reply(request, &reply.base, NULL);
}

/* ---- Statistics --------------------------------------------------------------------------- */

enum { COUNTERS_MAX = MESSAGE_TYPES_MAX * 3 + 16, COUNTER_NAME_BYTES = 48 };

struct counter_list
{
    size_t count;
    char names[COUNTERS_MAX][COUNTER_NAME_BYTES];
    Morsel__Counter counters[COUNTERS_MAX];
    Morsel__Counter *pointers[COUNTERS_MAX];
};

static void add(struct counter_list *list, const char *name, const char *what, uint64_t value)
{
    Morsel__Counter *counter = &list->counters[list->count];

    CHECK(list->count < COUNTERS_MAX);
    (void)snprintf(list->names[list->count], COUNTER_NAME_BYTES, "%s%s", name, what);
    morsel__counter__init(counter);
    counter->name = list->names[list->count];
    counter->value = value;
    list->pointers[list->count++] = counter;
}

static void fill(struct meta *meta, struct counter_list *list)
{
    const struct rpc_statistics *rpc = rpc_statistics(meta->rpc);
    const struct counters *counters = ns_counters(meta->ns);

    list->count = 0;
    for (unsigned type = 0; type < MESSAGE_TYPES_MAX; type++) {
        if (rpc->types[type].served > 0) {
            add(list, message_name(type), ".served", rpc->types[type].served);
            add(list, message_name(type), ".failed", rpc->types[type].failed);
            add(list, message_name(type), ".served_ns", rpc->types[type].served_ns);
        }
    }
    add(list, "bytes_in", "", rpc->bytes_in);
    add(list, "bytes_out", "", rpc->bytes_out);
    add(list, "connections_accepted", "", rpc->connections_accepted);
    add(list, "frames_malformed", "", rpc->frames_malformed);
    add(list, "sequence", "", counters->sequence);
    add(list, "inodes", "", counters->inodes);
    add(list, "garbage", "", counters->garbage);
    add(list, "orphans", "", counters->orphans);
    add(list, "sessions", "", session_count(meta->sessions));
    add(list, "open_files", "", session_opens(meta->sessions));
    add(list, "syncs", "", meta->sync.syncs);
    add(list, "resident_bytes", "", resident_bytes());
}

void handle_statistics(struct meta *meta, struct rpc_request *request)
{
    Morsel__Statistics reply = MORSEL__STATISTICS__INIT;
    struct counter_list list;

    fill(meta, &list);
    reply.n_counters = list.count;
    reply.counters = list.pointers;
    rpc_reply(request, &reply.base, NULL);
}

void meta_log_statistics(struct meta *meta)
{
    struct counter_list list;

    fill(meta, &list);
    for (size_t i = 0; i < list.count; i++) {
        log_info(meta->log, "statistics: %s %" PRIu64, list.names[i], list.counters[i].value);
    }
}
