/* Puts the parts together, begins and ends the daemon, looks at the disk now and then. */
#include "benefactor/benefactor_uv.h"

#include "common.pb-c.h"
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "common/rpc/address.h"

#include <stdlib.h>

enum {
    LOOK_MS = 2000, /* How often the disk is looked at: a disk of 500 MB/s gets 1 GB fuller. */
    BUFFERS_BYTES = 1 << 20 /* Kept for the bytes of requests. */
};

/* ---- The disk ---- */

/* In the pool: the disk may be slow to answer. */
struct benefactor_look
{
    int fd;
    struct donation_disk disk;
    int status;
    struct errmsg err;
};

static void log_donation(struct benefactor *b)
{
    char words[DONATION_TEXT_MAX];

    donation_words(&b->donation, words);
    log_info(b->log, "%s %s", b->datadir.path, words);
}

static void take_disk(struct benefactor *b)
{
    const enum donation_state before = b->donation.state;

    if (donation_look(&b->donation, &b->disk, rpc_boot_ms())) {
        if (b->donation.state != before) {
            log_donation(b);
        }
        joining_hurry(&b->joining);
    }
}

static void directory_is_gone(struct benefactor *b)
{
    log_error(
        b->log,
        "%s was deleted: nothing is donated any more; start morsel-benefactor again to donate "
        "a new directory",
        b->datadir.path);
    b->deleted = true;
    b->failed(b->data);
}

static void run_look(uv_work_t *work)
{
    struct benefactor_look *look = work->data;

    look->status = host_disk(look->fd, &look->disk, &look->err);
}

static void on_looked(uv_work_t *work, int canceled)
{
    struct benefactor_look *look = work->data;
    struct benefactor *b = CONTAINER_OF(work, struct benefactor, look_work);

    b->look = NULL;
    if (canceled == 0 && !b->stopping && look->status == MORSEL_NOENT) {
        directory_is_gone(b);
    } else if (canceled == 0 && !b->stopping && look->status != 0 && !b->look_failed_said) {
        b->look_failed_said = true;
        log_error(b->log, "%s: %s: what was donated before still is", b->datadir.path,
                  look->err.text);
    } else if (canceled == 0 && !b->stopping && look->status == 0) {
        b->look_failed_said = false;
        b->disk = look->disk;
        take_disk(b);
    }
    free(look);
}

static void on_look_timer(uv_timer_t *timer)
{
    struct benefactor *b = CONTAINER_OF(timer, struct benefactor, look_timer);
    struct benefactor_look *look;

    if (b->look != NULL || (look = calloc(1, sizeof(*look))) == NULL) {
        return;
    }
    look->fd = b->datadir.lock_fd;
    look->disk = b->disk;
    b->look_work.data = look;
    if (uv_queue_work(b->loop, &b->look_work, run_look, on_looked) != 0) {
        free(look);
        return;
    }
    b->look = look;
}

/* ---- What is asked of us ---- */

static void count(const struct benefactor *b, struct counter_list *list)
{
    counters_add_program(list, b->rpc);
    counters_add_server(list, b->listener);
    counters_add(list, NULL, "donated_bytes", b->donation.donated);
    counters_add(list, NULL, "donation_said_bytes", b->donation.said);
    counters_add(list, NULL, "donation_kept_free_bytes", b->donation.keep);
    counters_add(list, NULL, "donation_excess_bytes", b->donation.excess);
    counters_add(list, NULL, "used_bytes", b->donation.used);
    counters_add(list, NULL, "disk_bytes_total", b->disk.total);
    counters_add(list, NULL, "disk_bytes_free", b->disk.free);
}

static void answer_statistics(const struct benefactor *b, struct rpc_request *request)
{
    struct counter_list *list = calloc(1, sizeof(*list));

    if (list == NULL) {
        rpc_reply_failure(request, MORSEL_NOMEM, NULL);
        return;
    }
    count(b, list);
    counters_reply(request, list);
    free(list);
}

static void handle(void *data, struct rpc_request *request)
{
    Morsel__Clock clock = MORSEL__CLOCK__INIT;

    switch (request->type) {
    case MSG_STATISTICS:
        answer_statistics(data, request);
        break;
    case MSG_CLOCK:
        clock.boot_ms = rpc_boot_ms();
        rpc_reply(request, &clock.base, NULL);
        break;
    default:
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE, "a benefactor does not know this request");
        break;
    }
}

static void on_figures(void *data, struct joining_figures *figures)
{
    struct benefactor *b = data;

    figures->donated = b->donation.donated;
    figures->used = b->donation.used;
    figures->load = host_load(&b->work);
    figures->up_s = rpc_boot_ms() / 1000;
}

static void on_joined(void *data)
{
    struct benefactor *b = data;

    b->ready(b->data);
}

static void on_refused(void *data)
{
    struct benefactor *b = data;

    b->failed(b->data);
}

/* ---- Start and end ---- */

static int start_listening(struct benefactor *b, struct errmsg *err)
{
    const struct benefactor_settings *s = b->settings;
    struct rpc_options options = { .role = ROLE_BENEFACTOR,
                                   .payload_idle_bytes_max = BUFFERS_BYTES,
                                   .program = "morsel-benefactor " MORSELFS_VERSION };
    struct rpc_server_hooks hooks = { .handle = handle, .data = b };
    struct address address;
    int rv = rpc_new(b->loop, &options, &b->rpc);

    if (rv != 0) {
        errmsg_set(err, "%s", status_words(rv));
        return rv;
    }
    rv = rpc_peer_new(b->rpc, s->manager, &b->manager, err);
    if (rv == 0 && s->advertise[0] != 0 && (rv = address_parse(s->advertise, &address, err)) != 0) {
        errmsg_wrap(err, "advertise");
    }
    return rv != 0 ? rv : rpc_listen(b->rpc, s->listen, &hooks, &b->listener, err);
}

static int open_directory(struct benefactor *b, struct errmsg *err)
{
    char path[CONFIG_STRING_MAX];
    int rv = 0;

    (void)snprintf(path, sizeof(path), "%s", b->settings->data_dir);
    if (path[0] == 0) {
        rv = host_data_dir(path, err);
    }
    if (rv == 0) {
        rv = datadir_open(&b->datadir, path, "benefactor", err);
    }
    if (rv == 0 && (rv = host_disk(b->datadir.lock_fd, &b->disk, err)) != 0) {
        errmsg_wrap(err, "%s", path);
    }
    return rv;
}

int benefactor_start(struct benefactor *b, struct errmsg *err)
{
    int rv;

    b->datadir.lock_fd = -1;
    rv = start_listening(b, err);
    if (rv == 0) {
        rv = open_directory(b, err);
    }
    if (rv != 0) {
        return rv;
    }
    rpc_set_node_id(b->rpc, b->datadir.node);
    rpc_set_cluster_id(b->rpc, &b->datadir.cluster);
    donation_init(&b->donation, &b->wish, b->settings->calm_ms);
    (void)donation_look(&b->donation, &b->disk, rpc_boot_ms());
    log_donation(b);
    log_info(b->log, "listening on %s", rpc_server_address(b->listener));
    b->joining.loop = b->loop;
    b->joining.log = b->log;
    b->joining.datadir = &b->datadir;
    b->joining.rpc = b->rpc;
    b->joining.manager = b->manager;
    b->joining.listens = rpc_server_address(b->listener);
    b->joining.advertise = b->settings->advertise;
    b->joining.joined = on_joined;
    b->joining.refused = on_refused;
    b->joining.figures = on_figures;
    b->joining.data = b;
    joining_start(&b->joining);
    b->timed = true;
    uv_timer_init(b->loop, &b->look_timer);
    uv_timer_start(&b->look_timer, on_look_timer, LOOK_MS, LOOK_MS);
    if (cluster_id_known(&b->datadir.cluster)) {
        b->ready(b->data);
    }
    return 0;
}

static void on_left(void *data)
{
    struct benefactor *b = data;

    b->left(b->data);
}

void benefactor_leave(struct benefactor *b, void (*left)(void *data))
{
    b->left = left;
    joining_leave(&b->joining, on_left);
}

void benefactor_stop(struct benefactor *b)
{
    if (b->stopping) {
        return;
    }
    b->stopping = true;
    joining_stop(&b->joining);
    if (b->timed) {
        uv_close((uv_handle_t *)&b->look_timer, NULL);
    }
    if (b->look != NULL) {
        (void)uv_cancel((uv_req_t *)&b->look_work);
    }
    if (b->rpc != NULL) {
        rpc_close(b->rpc, NULL, NULL);
        b->rpc = NULL;
    }
}

void benefactor_release(struct benefactor *b)
{
    datadir_close(&b->datadir);
}

void benefactor_log_statistics(struct benefactor *b)
{
    struct counter_list *list = calloc(1, sizeof(*list));

    if (list != NULL && b->rpc != NULL) {
        count(b, list);
        counters_log(b->log, list);
    }
    free(list);
}
