/* The way of a request of a client to the store, and what is refused. */
#include "benefactor/morsels_uv.h"

#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "common/serve/object_handler_uv.h"
#include "data.pb-c.h"

enum {
    THREADS = 2,  /* So many morsels are read or written at a time, */
    QUEUE = 1024, /* and so many requests wait for that. */
    BUFFERS_BYTES = 4 << 20
};

/* What was written now would be taken for what lay here before. */
static void handle_write(struct morsels *m, struct rpc_request *request)
{
    if (m->holdings.state != HOLDINGS_TOLD) {
        m->writes_early++;
        rpc_reply_failure(
            request, MORSEL_BUSY,
            "this benefactor has just started, and the manager does not know yet what "
            "is there");
        return;
    }
    object_handle(&m->server, request);
}

void morsels_pause(struct morsels *m, bool paused)
{
    m->paused = paused;
}

static bool refuse_paused(struct morsels *m, struct rpc_request *request)
{
    if (!m->paused || (request->type != MSG_READ && request->type != MSG_WRITE)) {
        return false;
    }
    m->refused_paused++;
    rpc_reply_failure(request, MORSEL_BUSY, "the owner of this benefactor has paused it");
    return true;
}

/* A morsel is read from its beginning on, in as many requests as it takes. What another benefactor fetches is nobody's use of it. */
static void count_read(struct morsels *m, const struct rpc_request *request)
{
    struct rpc_room room;
    Morsel__ReadRequest *read;

    if (request->role != ROLE_BENEFACTOR &&
        rpc_unpack_in(&room, &morsel__read_request__descriptor, request->body, request->body_count,
                      (void **)&read) == 0) {
        if (read->object != NULL && read->offset == 0) {
            hottest_read(&m->hottest, read->object->inode, read->object->column);
        }
        rpc_room_free(&room, read);
    }
}

/* The governor lets it go. */
static void serve(void *data, struct rpc_request *request)
{
    struct morsels *m = data;

    if (refuse_paused(m, request)) {
        return;
    }
    if (request->type == MSG_WRITE) {
        handle_write(m, request);
    } else {
        count_read(m, request);
        object_handle(&m->server, request);
    }
}

static void on_pace(void *data)
{
    struct morsels *m = data;

    m->server.jobs.running_max = governor_jobs(&m->governor.governor, THREADS);
}

/* Bytes that go to or from the disk and the network for it. What is not bounded is not counted. */
static uint64_t bytes_of(const struct morsels *m, const struct rpc_request *request)
{
    struct rpc_room room;
    Morsel__ReadRequest *read;
    uint64_t bytes = 0;

    if (request->type == MSG_WRITE) {
        return request->payload != NULL ? request->payload->count : 0;
    }
    if (governor_rate(&m->governor.governor) != UINT64_MAX &&
        rpc_unpack_in(&room, &morsel__read_request__descriptor, request->body, request->body_count,
                      (void **)&read) == 0) {
        bytes = read->length;
        rpc_room_free(&room, read);
    }
    return bytes;
}

void morsels_handle(void *data, struct rpc_request *request)
{
    struct morsels *m = data;

    switch (request->type) {
    case MSG_READ:
    case MSG_WRITE:
        if (!refuse_paused(m, request) &&
            governor_ask(&m->governor, request, bytes_of(m, request))) {
            serve(m, request);
        }
        break;
    case MSG_SYNC:
    case MSG_OBJECT_STAT:
    case MSG_OBJECT_LIST:
    case MSG_CLOCK:
        object_handle(&m->server, request);
        break;
    case MSG_DELETE:
    case MSG_TRUNCATE:
    case MSG_PUNCH:
    case MSG_ALLOCATE:
    case MSG_COPY:
    case MSG_SEEK:
    case MSG_WATCH:
        rpc_reply_failure(request, MORSEL_NOTSUP,
                          "morsels are read and written; a benefactor does nothing else with them "
                          "for a client");
        break;
    default:
        m->other(m->other_data, request);
        break;
    }
}

static void start_governor(struct morsels *m)
{
    m->governor.loop = m->loop;
    m->governor.log = m->log;
    m->governor.gentle = m->gentle;
    m->governor.fd = m->server.datadir.lock_fd;
    m->governor.pass = serve;
    m->governor.changed = on_pace;
    m->governor.data = m;
    governor_start(&m->governor);
    on_pace(m);
}

int morsels_start(struct morsels *m, const char *data_dir, const char *listen, const char *manager,
                  const char *advertise, struct errmsg *err)
{
    int rv;

    m->server.log = m->log;
    m->server.loop = m->loop;
    m->server.plain = true;
    m->server.front = morsels_handle;
    m->server.front_data = m;
    m->server.options =
        (struct object_server_options){ .kind = "benefactor",
                                        .program = "morsel-benefactor " MORSELFS_VERSION,
                                        .role = ROLE_BENEFACTOR,
                                        .data_dir = data_dir,
                                        .listen = listen,
                                        .manager = manager,
                                        .advertise = advertise,
                                        .finds_address = true,
                                        .open_files = MORSELS_OPEN_FILES,
                                        .shared_disk = true,
                                        .object_bytes_max = MORSEL_BYTES_MAX,
                                        .threads = THREADS,
                                        .queue = QUEUE,
                                        .buffers_bytes = BUFFERS_BYTES };
    m->started = true;
    rv = object_server_start(&m->server, err);
    if (rv == 0) {
        m->holdings.server = &m->server;
        m->holdings.counted = m->counted;
        m->holdings.news = m->news;
        m->holdings.data = m->data;
        holdings_start(&m->holdings);
        start_governor(m);
    }
    return rv;
}

void morsels_count(const struct morsels *m, struct counter_list *list)
{
    const struct object_server *server = &m->server;

    counters_add_program(list, server->rpc);
    counters_add_server(list, server->listener);
    counters_add(list, NULL, "reads_cached", server->reads_cached);
    counters_add(list, NULL, "jobs_running", server->jobs.running);
    counters_add(list, NULL, "jobs_waiting", server->jobs.waiting_count);
    counters_add(list, NULL, "writes_early", m->writes_early);
    counters_add(list, NULL, "refused_paused", m->refused_paused);
    counters_add(list, NULL, "governor_level", m->governor.governor.level);
    counters_add(list, NULL, "governor_held", m->governor.held_total);
    counters_add(list, NULL, "morsels_deleted", m->holdings.collector.deleted);
    counters_add(list, NULL, "repeats_answered", server->once.answered);
    counters_add(list, NULL, "buffers_bytes", payload_pool_bytes(rpc_payloads(server->rpc)));
}

void morsels_stop(struct morsels *m)
{
    if (m->started && !m->stopped) {
        m->stopped = true;
        governor_stop(&m->governor);
        holdings_stop(&m->holdings);
        object_server_stop(&m->server);
    }
}

void morsels_release(struct morsels *m)
{
    if (m->started) {
        object_server_release(&m->server);
        holdings_free(&m->holdings);
    }
}
