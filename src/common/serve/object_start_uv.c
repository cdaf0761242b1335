/* Start and end of an object server, and its counters. */
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "common/rpc/address.h"
#include "common/serve/object_handler_uv.h"

#include <string.h>

/* The store speaks of damage and repairs: from any thread. */
static void on_store_line(void *data, const char *line)
{
    struct object_server *server = data;

    log_warning(server->log, "%s", line);
}

/* What the manager tells clients must lead to us. */
static int check_address(const struct object_server *server, struct errmsg *err)
{
    const char *listens = rpc_server_address(server->listener);
    struct address address;
    int rv;

    if (server->options.advertise[0] != 0) {
        rv = address_parse(server->options.advertise, &address, err);
        if (rv != 0) {
            errmsg_wrap(err, "advertise");
        }
        return rv;
    }
    if (server->options.finds_address) {
        return 0;
    }
    if (strncmp(listens, "0.0.0.0:", 8) == 0 || strncmp(listens, "[::]:", 5) == 0) {
        errmsg_set(err,
                   "listening on %s tells clients nothing: set advertise to the address of this "
                   "machine that they know",
                   listens);
        return MORSEL_INVAL;
    }
    return 0;
}

static int start_listening(struct object_server *server, struct errmsg *err)
{
    struct rpc_options options = { .role = server->options.role,
                                   .payload_idle_bytes_max = server->options.buffers_bytes,
                                   .program = server->options.program };
    struct rpc_server_hooks hooks = { .handle = object_handle, .data = server };
    int rv = rpc_new(server->loop, &options, &server->rpc);

    if (rv != 0) {
        errmsg_set(err, "%s", status_words(rv));
        return rv;
    }
    if (server->front != NULL) {
        hooks = (struct rpc_server_hooks){ .handle = server->front, .data = server->front_data };
    }
    rv = rpc_peer_new(server->rpc, server->options.manager, &server->manager, err);
    if (rv == 0) {
        rv = rpc_listen(server->rpc, server->options.listen, &hooks, &server->listener, err);
    }
    return rv != 0 ? rv : check_address(server, err);
}

static int open_store(struct object_server *server, struct errmsg *err)
{
    struct store_options options = { .open_files_max = server->options.open_files,
                                     .reserve_bytes = server->options.reserve_bytes,
                                     .shared_disk = server->options.shared_disk,
                                     .object_bytes_max = server->options.object_bytes_max,
                                     .boot_id = boot_id(),
                                     .log = on_store_line,
                                     .log_data = server };
    int rv = datadir_open(&server->datadir, server->options.data_dir, server->options.kind, err);

    if (rv != 0) {
        return rv;
    }
    rpc_set_node_id(server->rpc, server->datadir.node);
    rpc_set_cluster_id(server->rpc, &server->datadir.cluster);
    return store_open(server->datadir.path, &options, &server->store, err);
}

int object_server_start(struct object_server *server, struct errmsg *err)
{
    int rv;

    server->datadir.lock_fd = -1;
    jobs_init(&server->jobs, server->loop, server->options.threads, server->options.queue);
    rv = once_init(&server->once);
    if (rv != 0) {
        errmsg_set(err, "%s", status_words(rv));
        return rv;
    }
    rv = start_listening(server, err);
    return rv != 0 ? rv : open_store(server, err);
}

void object_server_stop(struct object_server *server)
{
    if (server->rpc != NULL) {
        rpc_close(server->rpc, NULL, NULL);
    }
    jobs_stop(&server->jobs);
}

void object_server_release(struct object_server *server)
{
    jobs_free(&server->jobs);
    once_free(&server->once);
    store_close(server->store);
    datadir_close(&server->datadir);
}

const char *object_server_address(const struct object_server *server)
{
    return server->options.advertise[0] != 0 ? server->options.advertise
                                             : rpc_server_address(server->listener);
}

void object_server_count(const struct object_server *server, const struct store_space *space,
                         struct counter_list *list)
{
    struct repeats_counts repeats;

    counters_add_program(list, server->rpc);
    counters_add_server(list, server->listener);
    counters_add(list, NULL, "reads_cached", server->reads_cached);
    counters_add(list, NULL, "reads_beside", server->reads_beside);
    counters_add(list, NULL, "blocks_mended", server->blocks_mended);
    counters_add(list, NULL, "blocks_lost", server->blocks_lost);
    counters_add(list, NULL, "scrub_bytes", server->scrub_bytes);
    counters_add(list, NULL, "scrub_passes", server->scrub_passes);
    counters_add(list, NULL, "scrub_damaged", server->scrub_damaged);
    counters_add(list, NULL, "scrub_damaged_blocks", server->scrub_damaged_blocks);
    counters_add(list, NULL, "jobs_running", server->jobs.running);
    counters_add(list, NULL, "jobs_waiting", server->jobs.waiting_count);
    repeats_count(server->once.repeats, &repeats);
    counters_add(list, NULL, "repeats_answered", server->once.answered);
    counters_add(list, NULL, "repeats_refused", server->once.refused);
    counters_add(list, NULL, "changes_remembered", repeats.slots);
    counters_add(list, NULL, "clients_remembered", repeats.clients);
    counters_add(list, NULL, "clients_forgotten", repeats.forgotten);
    counters_add(list, NULL, "buffers_bytes", payload_pool_bytes(rpc_payloads(server->rpc)));
    counters_add(list, NULL, "store_bytes_total", space->bytes_total);
    counters_add(list, NULL, "store_bytes_free", space->bytes_free);
    counters_add(list, NULL, "store_objects", space->objects);
}
