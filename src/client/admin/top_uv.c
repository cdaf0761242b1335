/* morsel top: what every daemon, and every mount on this machine, does per second, live.
 *
 * A round reads all counters and shows what has grown since the round before. A program that does
 * not answer in time is shown as such and left behind: mounts are asked from threads, because
 * nothing can be done for a thread that asks a mount that is stopped.
 */
#include "client/admin/gather_uv.h"
#include "client/admin/mount_file.h"
#include "client/admin/print_file.h"
#include "client/admin/rates.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/check.h"
#include "common/base/status.h"

#include "meta.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MOUNTS_MAX = 4 }; /* That are asked at once: threads of the pool. */

/* A daemon or a mount. */
struct program
{
    struct program *next;
    const char *sort; /* "manager", "server", "mount" */
    char name[MOUNT_TEXT_MAX];
    struct rpc_peer *peer;             /* NULL: a mount. */
    struct counter_list before, after; /* Of the last round, and of this one. */
    uint64_t before_ns, after_ns;      /* 0: it did not answer. */
    uv_work_t work;                    /* Of a mount. */
    struct counter_list asked;
    int status;
    bool asking;
};

struct top
{
    struct admin admin;
    struct program *programs;
    size_t servers_up, servers;
    struct kind_table kinds;
};

/* ---- Who there is ---- */

static struct program *add_program(struct top *top, const char *sort, const char *name)
{
    struct program **last = &top->programs;
    struct program *p;

    for (; *last != NULL; last = &(*last)->next) {
        if (strcmp((*last)->sort, sort) == 0 && strcmp((*last)->name, name) == 0) {
            return *last;
        }
    }
    p = calloc(1, sizeof(*p));
    if (p != NULL) {
        p->sort = sort;
        (void)snprintf(p->name, sizeof(p->name), "%s", name);
        *last = p;
    }
    return p;
}

static int find_servers(struct top *top, struct errmsg *err)
{
    Morsel__StatusRequest request = MORSEL__STATUS_REQUEST__INIT;
    Morsel__StatusReply *status;
    void *reply;
    int rv = admin_call(&top->admin, top->admin.manager, MSG_STATUS, &request.base,
                        &morsel__status_reply__descriptor, &reply, err);

    if (rv != 0) {
        return rv;
    }
    status = reply;
    top->servers = status->n_members;
    top->servers_up = 0;
    for (size_t i = 0; i < status->n_members; i++) {
        struct program *p = add_program(top, "server", status->members[i]->address);

        top->servers_up += status->members[i]->up;
        if (p != NULL && p->peer == NULL) {
            (void)admin_peer(&top->admin, p->name, &p->peer, err);
        }
    }
    morsel__status_reply__free_unpacked(status, NULL);
    return MORSEL_OK;
}

static void find_mount(void *data, const struct mount_info *mount)
{
    struct top *top = data;

    if (strcmp(mount->type, "fuse.morsel") == 0 &&
        strcmp(mount->source, rpc_peer_address(top->admin.manager)) == 0) {
        (void)add_program(top, "mount", mount->point);
    }
}

/* ---- A round ---- */

static void on_ask_mount(uv_work_t *work)
{
    struct program *p = CONTAINER_OF(work, struct program, work);
    struct errmsg err;

    p->status = gather_mount(p->name, &p->asked, &err);
}

static void on_mount_answered(uv_work_t *work, int status)
{
    struct program *p = CONTAINER_OF(work, struct program, work);

    p->asking = false;
    if (status == 0 && p->status == 0) {
        p->after = p->asked;
        p->after_ns = uv_hrtime();
    }
}

static size_t mounts_asking(const struct top *top)
{
    size_t count = 0;

    for (const struct program *p = top->programs; p != NULL; p = p->next) {
        count += p->asking;
    }
    return count;
}

static void on_time(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Run the loop until the time is over, or (`for_mounts`) all mounts have answered. */
static void wait_ms(struct top *top, uint64_t ms, bool for_mounts)
{
    bool over = false;
    uv_timer_t timer;

    (void)uv_timer_init(&top->admin.loop, &timer);
    timer.data = &over;
    (void)uv_timer_start(&timer, on_time, ms, 0);
    while (!over && !(for_mounts && mounts_asking(top) == 0)) {
        (void)uv_run(&top->admin.loop, UV_RUN_ONCE);
    }
    over = false;
    uv_close((uv_handle_t *)&timer, (uv_close_cb)on_time);
    while (!over) {
        (void)uv_run(&top->admin.loop, UV_RUN_ONCE);
    }
}

static void ask_all(struct top *top)
{
    for (struct program *p = top->programs; p != NULL; p = p->next) {
        struct errmsg err;

        p->before = p->after;
        p->before_ns = p->after_ns;
        p->after_ns = 0;
        if (strcmp(p->sort, "mount") == 0) {
            if (!p->asking && mounts_asking(top) < MOUNTS_MAX) {
                p->asking =
                    uv_queue_work(&top->admin.loop, &p->work, on_ask_mount, on_mount_answered) == 0;
            }
        } else if (p->peer != NULL && gather_daemon(&top->admin, p->peer, &p->after, &err) == 0) {
            p->after_ns = uv_hrtime();
        }
    }
    wait_ms(top, top->admin.timeout_ms, true);
}

static bool rates_known(const struct program *p)
{
    return p->before_ns != 0 && p->after_ns > p->before_ns;
}

static double seconds_of(const struct program *p)
{
    return (double)(p->after_ns - p->before_ns) / 1e9;
}

static void add_up_kinds(struct top *top)
{
    top->kinds.count = 0;
    for (const struct program *p = top->programs; p != NULL; p = p->next) {
        if (rates_known(p)) {
            rates_add_kinds(&top->kinds, p->sort,
                            strcmp(p->sort, "mount") == 0 ? "mount asks" : "asks", &p->before,
                            &p->after);
        }
    }
    rates_sort_kinds(&top->kinds);
}

/* ---- What is shown ---- */

static double mean_us(uint64_t ns, uint64_t count)
{
    return count == 0 ? 0 : (double)ns / (double)count / 1000;
}

static json_t *program_json(const struct program *p)
{
    struct daemon_rates r;

    if (!rates_known(p)) {
        return json_pack("{s:s, s:s, s:b}", "sort", p->sort, "name", p->name, "answers",
                         (int)(p->after_ns != 0));
    }
    rates_of_daemon(&p->before, &p->after, seconds_of(p), &r);
    return json_pack("{s:s, s:s, s:b, s:f, s:f, s:f, s:f, s:o}", "sort", p->sort, "name", p->name,
                     "answers", 1, "cpu_percent", r.cpu_percent, "requests_per_s", r.requests,
                     "bytes_in_per_s", r.bytes_in, "bytes_out_per_s", r.bytes_out, "resident_bytes",
                     print_json_number(r.resident_bytes));
}

static json_t *kind_json(const struct kind_rates *k, double seconds)
{
    return json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f}", "where", k->where, "kind", k->name,
                     "per_s", (double)k->count / seconds, "failed_per_s",
                     (double)k->failed / seconds, "bytes_per_s", (double)k->bytes / seconds,
                     "mean_us", mean_us(k->ns, k->count), "queued_us",
                     mean_us(k->queued_ns, k->count), "busy_us", mean_us(k->busy_ns, k->count));
}

static bool show_json(const struct top *top, double seconds)
{
    json_t *programs = json_array(), *kinds = json_array();

    for (const struct program *p = top->programs; p != NULL; p = p->next) {
        (void)json_array_append_new(programs, program_json(p));
    }
    for (size_t i = 0; i < top->kinds.count; i++) {
        (void)json_array_append_new(kinds, kind_json(&top->kinds.items[i], seconds));
    }
    return print_json(
        json_pack("{s:f, s:o, s:o}", "seconds", seconds, "programs", programs, "kinds", kinds));
}

static void show_program(const struct program *p)
{
    char in[PRINT_TEXT_MAX], out[PRINT_TEXT_MAX], memory[PRINT_TEXT_MAX];
    struct daemon_rates r;

    (void)printf("%-8s %-28s ", p->sort, p->name);
    if (!rates_known(p)) {
        (void)printf("%s\n", p->after_ns == 0 ? "does not answer" : "has just come");
        return;
    }
    rates_of_daemon(&p->before, &p->after, seconds_of(p), &r);
    (void)printf("%6.1f%% %10s %11.0f %10s %10s\n", r.cpu_percent,
                 print_bytes(r.resident_bytes, memory), r.requests,
                 print_bytes((uint64_t)r.bytes_in, in), print_bytes((uint64_t)r.bytes_out, out));
}

static void show_kind(const struct kind_rates *k, double seconds)
{
    char bytes[PRINT_TEXT_MAX];

    (void)printf("%-10s %-14s %10.1f %9.1f %12s %10.0f %10.0f %10.0f\n", k->where, k->name,
                 (double)k->count / seconds, (double)k->failed / seconds,
                 print_bytes((uint64_t)((double)k->bytes / seconds), bytes),
                 mean_us(k->ns, k->count), mean_us(k->queued_ns, k->count),
                 mean_us(k->busy_ns, k->count));
}

/* Rows of the terminal; 0: no terminal, all may be shown. */
static size_t terminal_rows(void)
{
    struct winsize size;

    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

static void show_text(const struct top *top, double seconds)
{
    size_t rows = terminal_rows(), used = 4;

    if (rows > 0) {
        (void)printf("\033[H\033[J"); /* To the corner, and clear. */
    }
    (void)printf("manager %s, %zu of %zu servers up; per second, over %.1f s\n\n",
                 rpc_peer_address(top->admin.manager), top->servers_up, top->servers, seconds);
    (void)printf("%-8s %-28s %7s %10s %11s %10s %10s\n", "PROGRAM", "", "CPU", "MEMORY", "REQUESTS",
                 "IN", "OUT");
    for (const struct program *p = top->programs; p != NULL; p = p->next, used++) {
        show_program(p);
    }
    (void)printf("\n%-10s %-14s %10s %9s %12s %10s %10s %10s\n", "WHERE", "REQUEST", "PER S",
                 "FAILED", "BYTES", "MEAN us", "QUEUED us", "BUSY us");
    for (size_t i = 0; i < top->kinds.count && (rows == 0 || used + 2 + i < rows); i++) {
        show_kind(&top->kinds.items[i], seconds);
    }
    if (rows == 0) {
        (void)printf("\n");
    }
    (void)fflush(stdout);
}

static int run_round(struct top *top, const struct admin_settings *settings, bool show)
{
    struct program *manager = top->programs;
    struct errmsg err;
    int rv = find_servers(top, &err);

    if (rv != 0) {
        return admin_failed(admin_exit_code(rv), "%s", err.text);
    }
    mount_each(find_mount, top);
    ask_all(top);
    if (!show || !rates_known(manager)) {
        return ADMIN_OK;
    }
    add_up_kinds(top);
    if (!settings->json) {
        show_text(top, seconds_of(manager));
        return ferror(stdout) ? ADMIN_PROBLEM : ADMIN_OK;
    }
    return show_json(top, seconds_of(manager)) && fflush(stdout) == 0 ? ADMIN_OK : ADMIN_PROBLEM;
}

static void top_free(struct top *top)
{
    struct program *p;

    while ((p = top->programs) != NULL) {
        top->programs = p->next;
        free(p);
    }
    free(top);
}

int command_top(const struct admin_arguments *arguments)
{
    const struct admin_settings *settings = &arguments->settings;
    struct top *top = calloc(1, sizeof(*top));
    struct program *manager;
    int code;

    if (top == NULL) {
        return admin_failed(ADMIN_PROBLEM, "out of memory");
    }
    code = admin_open_manager(&top->admin, settings);
    if (code != ADMIN_OK) {
        free(top);
        return code;
    }
    manager = add_program(top, "manager", rpc_peer_address(top->admin.manager));
    if (manager == NULL) {
        code = admin_failed(ADMIN_PROBLEM, "out of memory");
    } else {
        manager->peer = top->admin.manager;
        code = run_round(top, settings, false);
    }
    for (uint64_t i = 0; code == ADMIN_OK && (settings->rounds == 0 || i < settings->rounds); i++) {
        wait_ms(top, settings->interval_ms, false);
        code = run_round(top, settings, true);
    }
    if (mounts_asking(top) > 0) {
        (void)fflush(stdout);
        _exit(code); /* A mount that is stopped holds a thread of ours; only so are we rid of it. */
    }
    admin_close(&top->admin);
    top_free(top);
    return code;
}
