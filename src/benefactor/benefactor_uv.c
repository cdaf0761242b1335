/* Puts the parts together, begins and ends the daemon, looks at the disk now and then. */
#include "benefactor/benefactor_uv.h"

#include "common.pb-c.h"
#include "common/base/status.h"
#include "common/daemon/counters_uv.h"
#include "common/rpc/address.h"

#include <stdlib.h>

enum {
    LOOK_MS = 2000 /* How often the disk is looked at: a disk of 500 MB/s gets 1 GB fuller. */
};

/* ---- The disk ---- */

/* In the pool: the disk may be slow to answer. */
struct benefactor_look
{
    int fd;
    struct store *store;
    struct donation_disk disk;
    int status;
    bool takes_nothing; /* `err` says why. */
    struct errmsg err;
};

static void log_donation(struct benefactor *b)
{
    char words[DONATION_TEXT_MAX];

    donation_words(&b->donation, words);
    log_info(b->log, "%s %s", b->path, words);
}

/* What is used is not known before all was counted: until then what is given is too little, and nothing is taken. */
static void take_disk(struct benefactor *b)
{
    const enum donation_state before = b->donation.state;
    struct errmsg words; /* The store has said them. */
    bool news;

    if (b->morsels.holdings.state == HOLDINGS_COUNTING) {
        return;
    }
    if (store_disk_failed(b->morsels.server.store, &words)) {
        b->disk.free = 0; /* Nothing more comes to a disk that has lost something. */
        b->disk.sick = true;
    }
    b->disk.used = store_used(b->morsels.server.store);
    news = donation_look(&b->donation, &b->disk, rpc_boot_ms());
    store_set_limit(b->morsels.server.store,
                    control_is_leaving(&b->control) ? 0 : b->donation.donated);
    if (!b->donation_said || b->donation.state != before) {
        b->donation_said = true;
        log_donation(b);
    }
    if (news) {
        joining_hurry(&b->joining);
    }
}

static void directory_is_gone(struct benefactor *b)
{
    log_error(
        b->log,
        "%s was deleted: nothing is donated any more; start morsel-benefactor again to donate "
        "a new directory",
        b->path);
    b->deleted = true;
    b->failed(b->data);
}

static void run_look(uv_work_t *work)
{
    struct benefactor_look *look = work->data;

    look->status = host_disk(look->fd, &look->disk, &look->err);
    look->takes_nothing =
        look->status == MORSEL_ROFS ||
        (store_write_failed(look->store) && store_try_writing(look->store, &look->err) != 0);
    if (look->takes_nothing) {
        look->status = 0;
        look->disk.free = 0;
    }
    look->disk.sick = look->takes_nothing;
    if (store_is_gone(look->store)) {
        look->status = MORSEL_NOENT;
    }
}

/* What is read-only takes nothing, and can be read. Of a disk that says nothing what was donated before still is. */
static void say_failure(struct benefactor *b, const struct benefactor_look *look)
{
    bool failed = look->status != 0 || look->takes_nothing;

    if (failed && !b->look_failed_said) {
        log_error(
            b->log, "%s: %s: %s", b->path, look->err.text,
            look->takes_nothing
                ? "morsels that are here can be read, and nothing more is taken until that is "
                  "over; check the disk"
                : "what was donated before still is");
    } else if (!failed && b->look_failed_said) {
        log_info(b->log, "%s: the disk is well again", b->path);
    }
    b->look_failed_said = failed;
}

static void on_looked(uv_work_t *work, int canceled)
{
    struct benefactor_look *look = work->data;
    struct benefactor *b = CONTAINER_OF(work, struct benefactor, look_work);

    b->look = NULL;
    if (canceled != 0 || b->stopping) {
        free(look);
        return;
    }
    if (look->status == MORSEL_NOENT) {
        directory_is_gone(b);
    } else {
        say_failure(b, look);
    }
    if (look->status == 0) {
        b->disk = look->disk;
        take_disk(b);
    }
    free(look);
}

static void on_look_timer(uv_timer_t *timer)
{
    struct benefactor *b = CONTAINER_OF(timer, struct benefactor, look_timer);
    const struct rpc_statistics *statistics = rpc_statistics(b->morsels.server.rpc);
    struct benefactor_look *look;

    control_tick(&b->control, statistics->bytes_in, statistics->bytes_out);
    holdings_look(&b->morsels.holdings);
    fetching_look(&b->fetching);
    if (b->look != NULL || (look = calloc(1, sizeof(*look))) == NULL) {
        return;
    }
    look->fd = b->morsels.server.datadir.lock_fd;
    look->store = b->morsels.server.store;
    look->disk = b->disk;
    b->look_work.data = look;
    if (uv_queue_work(b->loop, &b->look_work, run_look, on_looked) != 0) {
        free(look);
        return;
    }
    b->look = look;
}

/* ---- The owner ---- */

/* He has said something: it holds at once, and the manager hears it. */
static void on_spoken(void *data)
{
    struct benefactor *b = data;
    struct donation_wish wish;

    control_wish(&b->control, &wish);
    donation_change(&b->donation, &wish);
    morsels_pause(&b->morsels, control_is_paused(&b->control));
    if (b->morsels.holdings.state == HOLDINGS_COUNTING) {
        (void)donation_look(&b->donation, &b->disk, rpc_boot_ms()); /* At least he sees it. */
    }
    take_disk(b);
    joining_hurry(&b->joining);
}

static void on_unwanted(void *data)
{
    struct benefactor *b = data;

    b->unwanted(b->data);
}

/* Before all was counted there may be anything. */
static uint64_t on_used(void *data)
{
    struct benefactor *b = data;

    return b->morsels.holdings.state == HOLDINGS_COUNTING ? UINT64_MAX
                                                          : store_used(b->morsels.server.store);
}

static int start_control(struct benefactor *b, struct errmsg *err)
{
    b->control.loop = b->loop;
    b->control.log = b->log;
    b->control.datadir = &b->morsels.server.datadir;
    b->control.joining = &b->joining;
    b->control.donation = &b->donation;
    b->control.disk = &b->disk;
    b->control.governor = &b->morsels.governor;
    b->control.settings = b->wish;
    b->control.spoken = on_spoken;
    b->control.leave = on_unwanted;
    b->control.used = on_used;
    b->control.data = b;
    return control_open(&b->control, rpc_server_address(b->morsels.server.listener), err);
}

/* ---- What is asked of us ---- */

static void count(const struct benefactor *b, struct counter_list *list)
{
    morsels_count(&b->morsels, list);
    counters_add(list, NULL, "morsels_fetched", b->fetching.fetched);
    counters_add(list, NULL, "bytes_fetched", b->fetching.fetched_bytes);
    counters_add(list, NULL, "fetches_failed", b->fetching.failed);
    counters_add(list, NULL, "copies_looked_at", b->fetching.checked);
    counters_add(list, NULL, "donated_bytes", b->donation.donated);
    counters_add(list, NULL, "donation_said_bytes", b->donation.said);
    counters_add(list, NULL, "donation_kept_free_bytes", b->donation.keep);
    counters_add(list, NULL, "donation_excess_bytes", b->donation.excess);
    counters_add(list, NULL, "donation_paused", control_is_paused(&b->control));
    counters_add(list, NULL, "used_bytes", store_used(b->morsels.server.store));
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

/* What is not for morsels. */
static void handle(void *data, struct rpc_request *request)
{
    if (request->type == MSG_STATISTICS) {
        answer_statistics(data, request);
    } else if (request->type == MSG_DONATE) {
        control_handle(&((struct benefactor *)data)->control, request);
    } else {
        rpc_reply_failure(request, MORSEL_UNKNOWN_TYPE, "a benefactor does not know this request");
    }
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* As it was at the last look, less what was deleted since: what is said to be deleted is not to go once more. */
static void fill_excess(const struct benefactor *b, struct joining_figures *figures)
{
    const struct donation *d = &b->donation;
    uint64_t deleted = beyond(d->used, store_used(b->morsels.server.store));

    figures->excess = beyond(d->excess, deleted);
    figures->pressed = beyond(d->pressed, deleted);
}

static void on_told_left(void *data, const Morsel__DonorLeft *left)
{
    control_told_left(&((struct benefactor *)data)->control, left);
}

static void on_figures(void *data, struct joining_figures *figures)
{
    struct benefactor *b = data;

    fill_excess(b, figures);
    figures->paused = control_is_paused(&b->control);
    figures->leaving = control_is_leaving(&b->control);
    figures->used = store_used(b->morsels.server.store);
    figures->donated = b->donation.donated;
    if ((figures->paused || figures->leaving) && figures->donated > figures->used) {
        figures->donated = figures->used; /* There is room for nothing. */
    }
    figures->load = host_load(&b->work);
    figures->up_s = rpc_boot_ms() / 1000;
}

/* It is as if the owner spoke now: what was given before is no measure. */
static void on_counted(void *data)
{
    struct benefactor *b = data;
    struct donation_wish wish;

    control_wish(&b->control, &wish);
    donation_change(&b->donation, &wish);
    take_disk(b);
}

static void on_news(void *data)
{
    struct benefactor *b = data;

    joining_hurry(&b->joining);
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

/* Where morsels lie. */
static int find_directory(struct benefactor *b, struct errmsg *err)
{
    if (b->settings->data_dir[0] == 0) {
        return host_data_dir(b->path, err);
    }
    (void)snprintf(b->path, sizeof(b->path), "%s", b->settings->data_dir);
    return 0;
}

static int start_serving(struct benefactor *b, struct errmsg *err)
{
    const struct benefactor_settings *s = b->settings;
    int rv = find_directory(b, err);

    if (rv != 0) {
        return rv;
    }
    b->morsels.log = b->log;
    b->morsels.loop = b->loop;
    b->morsels.gentle = s->gentle;
    b->morsels.other = handle;
    b->morsels.other_data = b;
    b->morsels.counted = on_counted;
    b->morsels.news = on_news;
    b->morsels.data = b;
    rv = morsels_start(&b->morsels, b->path, s->listen, s->manager, s->advertise, err);
    if (rv == 0 && (rv = host_disk(b->morsels.server.datadir.lock_fd, &b->disk, err)) != 0) {
        errmsg_wrap(err, "%s", b->path);
    }
    return rv;
}

static int start_fetching(struct benefactor *b, struct errmsg *err)
{
    const struct object_server *server = &b->morsels.server;

    b->fetching.log = b->log;
    b->fetching.rpc = server->rpc;
    b->fetching.manager = server->manager;
    b->fetching.id = &b->morsels.server.datadir.node;
    b->fetching.instance = &b->joining.instance;
    b->fetching.listens = rpc_server_address(server->listener);
    return fetching_start(&b->fetching, err);
}

int benefactor_start(struct benefactor *b, struct errmsg *err)
{
    const struct object_server *server = &b->morsels.server;
    struct donation_wish wish;
    int rv = start_serving(b, err);

    if (rv == 0) {
        rv = start_control(b, err);
    }
    rv = rv != 0 ? rv : start_fetching(b, err);
    if (rv != 0) {
        return rv;
    }
    control_wish(&b->control, &wish);
    morsels_pause(&b->morsels, control_is_paused(&b->control));
    donation_init(&b->donation, &wish, b->settings->calm_ms);
    (void)donation_look(&b->donation, &b->disk, rpc_boot_ms());
    log_info(b->log, "listening on %s", rpc_server_address(server->listener));
    b->joining.loop = b->loop;
    b->joining.log = b->log;
    b->joining.datadir = &b->morsels.server.datadir;
    b->joining.rpc = server->rpc;
    b->joining.manager = server->manager;
    b->joining.holdings = &b->morsels.holdings;
    b->joining.fetching = &b->fetching;
    b->joining.hottest = &b->morsels.hottest;
    b->joining.listens = rpc_server_address(server->listener);
    b->joining.advertise = b->settings->advertise;
    b->joining.joined = on_joined;
    b->joining.refused = on_refused;
    b->joining.figures = on_figures;
    b->joining.told_left = on_told_left;
    b->joining.data = b;
    joining_start(&b->joining);
    b->timed = true;
    uv_timer_init(b->loop, &b->look_timer);
    uv_timer_start(&b->look_timer, on_look_timer, LOOK_MS, LOOK_MS);
    if (cluster_id_known(&server->datadir.cluster)) {
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
    control_stop(&b->control);
    fetching_stop(&b->fetching);
    if (b->timed) {
        uv_close((uv_handle_t *)&b->look_timer, NULL);
    }
    if (b->look != NULL) {
        (void)uv_cancel((uv_req_t *)&b->look_work);
    }
    morsels_stop(&b->morsels);
}

void benefactor_release(struct benefactor *b)
{
    morsels_release(&b->morsels);
}

void benefactor_log_statistics(struct benefactor *b)
{
    struct counter_list *list = calloc(1, sizeof(*list));

    if (list != NULL && !b->stopping) {
        count(b, list);
        counters_log(b->log, list);
    }
    free(list);
}
