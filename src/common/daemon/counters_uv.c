/* Counters of the RPC layer and of the process, and the timer that writes them to the log. */
#include "common/daemon/counters_uv.h"

#include "common.pb-c.h"
#include "common/base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t counters_resident_bytes(void)
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

static uint64_t cpu_ns(void)
{
    uv_rusage_t usage;

    if (uv_getrusage(&usage) != 0) {
        return 0;
    }
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000U +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000U;
}

static void add_kind(struct counter_list *c, const char *kind, const struct rpc_type_statistics *t)
{
    if (t->served > 0) {
        counters_add(c, kind, "served", t->served);
        counters_add(c, kind, "failed", t->failed);
        counters_add(c, kind, "served_ns", t->served_ns);
        counters_add(c, kind, "queued_ns", t->queued_ns);
        counters_add(c, kind, "busy_ns", t->busy_ns);
        counters_add(c, kind, "served_bytes", t->served_bytes);
    }
    if (t->called > 0) {
        counters_add(c, kind, "called", t->called);
        counters_add(c, kind, "called_ns", t->called_ns);
        counters_add(c, kind, "called_bytes", t->called_bytes);
    }
}

void counters_add_program(struct counter_list *c, const struct rpc *rpc)
{
    const struct rpc_statistics *s = rpc_statistics(rpc);

    for (unsigned type = 0; type < MESSAGE_TYPES_MAX; type++) {
        add_kind(c, message_name(type), &s->types[type]);
    }
    counters_add(c, NULL, "bytes_in", s->bytes_in);
    counters_add(c, NULL, "bytes_out", s->bytes_out);
    counters_add(c, NULL, "connections_accepted", s->connections_accepted);
    counters_add(c, NULL, "connections_shed", s->connections_shed);
    counters_add(c, NULL, "strangers_closed", s->strangers_closed);
    counters_add(c, NULL, "frames_malformed", s->frames_malformed);
    counters_add(c, NULL, "cpu_ns", cpu_ns());
    counters_add(c, NULL, "resident_bytes", counters_resident_bytes());
}

void counters_add_server(struct counter_list *c, const struct rpc_server *server)
{
    struct rpc_server_statistics s;

    rpc_server_statistics(server, &s);
    counters_add(c, NULL, "connections", s.connections);
    counters_add(c, NULL, "strangers", s.strangers);
    counters_add(c, NULL, "queued_bytes", s.queued_bytes);
}

void counters_reply(struct rpc_request *request, const struct counter_list *c)
{
    Morsel__Statistics reply = MORSEL__STATISTICS__INIT;
    Morsel__Counter *items = calloc(c->count + 1, sizeof(items[0]));
    Morsel__Counter **pointers = calloc(c->count + 1, sizeof(void *));

    if (items == NULL || pointers == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
    } else {
        for (size_t i = 0; i < c->count; i++) {
            morsel__counter__init(&items[i]);
            items[i].name = (char *)(uintptr_t)c->items[i].name;
            items[i].value = c->items[i].value;
            pointers[i] = &items[i];
        }
        reply.counters = pointers;
        reply.n_counters = c->count;
        rpc_reply(request, &reply.base, NULL);
    }
    free(items);
    free(pointers);
}

void counters_log(struct log *log, const struct counter_list *c)
{
    for (size_t i = 0; i < c->count; i++) {
        log_info(log, "statistics: %s %llu", c->items[i].name,
                 (unsigned long long)c->items[i].value);
    }
}
