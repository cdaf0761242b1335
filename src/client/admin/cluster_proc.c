/* morsel cluster start|unmount|stop|status. */
#include "client/admin/cluster_proc.h"

#include "client/admin/cluster_owner_uv.h"
#include "client/admin/cluster_wait_uv.h"
#include "client/admin/print_file.h"
#include "client/admin/process_proc.h"
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SERVERS_DEFAULT = 4, COPIES_WAIT_MS = 5000, OPTIONS_MAX = 4 };

static const char iod[] = "iod", benefactor[] = "benefactor";

#define DONATE_DEFAULT "1G"

/* ---- Paths ---- */

void cluster_path(const struct cluster *c, const char *subdir, const char *name, const char *suffix,
                  char path[CLUSTER_PATH_MAX])
{
    (void)snprintf(path, CLUSTER_PATH_MAX, "%s/%s/%.32s.%s", c->dir, subdir, name, suffix);
}

bool cluster_read_line(const char *path, char *line, size_t line_max)
{
    FILE *file = fopen(path, "re");
    bool good;

    line[0] = '\0';
    if (file == NULL) {
        return false;
    }
    good = fgets(line, (int)line_max, file) != NULL;
    (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return good && line[0] != '\0';
}

bool cluster_write_line(const char *path, const char *line)
{
    FILE *file = fopen(path, "we");
    bool good;

    if (file == NULL) {
        return false;
    }
    good = fprintf(file, "%s\n", line) > 0;
    return fclose(file) == 0 && good;
}

void cluster_address(const struct cluster *c, const char *name, char address[CONFIG_STRING_MAX])
{
    char path[CLUSTER_PATH_MAX];

    cluster_path(c, "run", name, "address", path);
    (void)cluster_read_line(path, address, CONFIG_STRING_MAX);
}

static pid_t node_pid(const struct cluster *c, const char *name)
{
    char path[CLUSTER_PATH_MAX];

    cluster_path(c, "run", name, "pid", path);
    return process_running(path);
}

static void node_name(const char *kind, uint32_t number, char name[CLUSTER_NAME_MAX])
{
    (void)snprintf(name, CLUSTER_NAME_MAX, "%s-%" PRIu32, kind, number);
}

static uint32_t count_nodes(const struct cluster *c, const char *kind)
{
    uint32_t count = 0;

    for (uint32_t i = 1; i <= CLUSTER_NODES_MAX; i++) {
        char path[CLUSTER_PATH_MAX];

        (void)snprintf(path, sizeof(path), "%s/%s-%" PRIu32, c->dir, kind, i);
        count = access(path, F_OK) == 0 ? i : count;
    }
    return count;
}

/* The directory of the command line, or ~/.local/state/morselfs. */
static int open_cluster(const char *given, struct cluster *c, struct errmsg *err)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    char cwd[PATH_MAX] = "";
    int count;

    c->lock_fd = -1;
    if (given != NULL && given[0] == '/') {
        count = snprintf(c->dir, sizeof(c->dir), "%s", given);
    } else if (given != NULL && getcwd(cwd, sizeof(cwd)) != NULL) {
        count = snprintf(c->dir, sizeof(c->dir), "%s/%s", cwd, given);
    } else if (given == NULL && state != NULL && state[0] == '/') {
        count = snprintf(c->dir, sizeof(c->dir), "%s/morselfs", state);
    } else if (given == NULL && home != NULL && home[0] == '/') {
        count = snprintf(c->dir, sizeof(c->dir), "%s/.local/state/morselfs", home);
    } else {
        errmsg_set(err, "no directory is known for the cluster; name one");
        return MORSEL_INVAL;
    }
    if (count >= (int)sizeof(c->dir)) {
        errmsg_set(err, "name of the directory is too long");
        return MORSEL_NAMETOOLONG;
    }
    c->servers = count_nodes(c, iod);
    c->benefactors = count_nodes(c, benefactor);
    return 0;
}

bool cluster_default_manager(char address[CONFIG_STRING_MAX])
{
    struct cluster c;

    if (open_cluster(NULL, &c, NULL) != 0 || node_pid(&c, "meta") == 0) {
        return false;
    }
    cluster_address(&c, "meta", address);
    return address[0] != '\0';
}

/* mkdir -p */
static int make_directories(const char *path, struct errmsg *err)
{
    char part[CLUSTER_PATH_MAX];

    (void)snprintf(part, sizeof(part), "%s", path);
    for (char *at = part + 1;; at++) {
        char kept = *at;

        if (kept != '/' && kept != '\0') {
            continue;
        }
        *at = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST) {
            int rv = status_from_errno(errno);

            errmsg_set(err, "cannot make the directory %s: %s", part, strerror(errno));
            return rv;
        }
        *at = kept;
        if (kept == '\0') {
            return 0;
        }
    }
}

static int lock_cluster(struct cluster *c, struct errmsg *err)
{
    char path[CLUSTER_PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/run/lock", c->dir);
    c->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (c->lock_fd < 0 || flock(c->lock_fd, LOCK_EX) != 0) {
        int rv = status_from_errno(errno);

        errmsg_set(err, "%s: %s", path, strerror(errno));
        return rv;
    }
    return 0;
}

static void unlock_cluster(struct cluster *c)
{
    if (c->lock_fd >= 0) {
        (void)close(c->lock_fd);
        c->lock_fd = -1;
    }
}

/* ---- Start ---- */

struct starting
{
    struct cluster *c;
    const struct admin_settings *settings;
    char names[2 * CLUSTER_NODES_MAX + 1][CLUSTER_NAME_MAX]; /* What this run has started. */
    uint32_t names_count;
    struct errmsg err;
};

/* A daemon, and what it is started with beside where it listens and what it has. */
struct node
{
    char name[CLUSTER_NAME_MAX];
    const char *program;
    char options[OPTIONS_MAX][CONFIG_STRING_MAX + 16];
    unsigned options_count;
};

static void add_option(struct node *node, const char *option, const char *value)
{
    CHECK(node->options_count < OPTIONS_MAX);
    (void)snprintf(node->options[node->options_count++], sizeof(node->options[0]), "--%s%s%s",
                   option, value[0] != '\0' ? "=" : "", value);
}

/* Start it so that it listens at `listen`; its real address is noted. */
static int run_node(struct starting *s, struct node *node, const char *listen)
{
    char path[CLUSTER_PATH_MAX];
    char data_dir[CLUSTER_PATH_MAX + 16];
    char listen_at[CONFIG_STRING_MAX + 16];
    char log[CLUSTER_PATH_MAX];
    char pid_file[CLUSTER_PATH_MAX];
    char *argv[OPTIONS_MAX + 4] = { path, data_dir, listen_at };
    struct process_start start = {
        .argv = argv, .log = log, .pid_file = pid_file, .timeout_ms = CLUSTER_WAIT_MS
    };
    char ready[PROCESS_LINE_MAX];
    char address_path[CLUSTER_PATH_MAX];
    int rv;

    process_find_program(node->program, path, sizeof(path));
    (void)snprintf(data_dir, sizeof(data_dir), "--data-dir=%s/%s", s->c->dir, node->name);
    (void)snprintf(listen_at, sizeof(listen_at), "--listen=%s", listen);
    for (unsigned i = 0; i < node->options_count; i++) {
        argv[3 + i] = node->options[i];
    }
    cluster_path(s->c, "log", node->name, "log", log);
    cluster_path(s->c, "run", node->name, "pid", pid_file);
    rv = process_start(&start, ready, &s->err);
    if (rv != 0) {
        return rv;
    }
    (void)snprintf(s->names[s->names_count++], CLUSTER_NAME_MAX, "%s", node->name);
    cluster_path(s->c, "run", node->name, "address", address_path);
    if (!cluster_write_line(address_path, ready)) {
        errmsg_set(&s->err, "%s: cannot be written: %s", address_path, strerror(errno));
        return MORSEL_IO;
    }
    return 0;
}

/* At its old address, so that mounts which are still there find it again; if that is taken, at any.
 */
static int start_node(struct starting *s, struct node *node)
{
    char address[CONFIG_STRING_MAX];

    if (node_pid(s->c, node->name) != 0) {
        return 0;
    }
    cluster_address(s->c, node->name, address);
    if (address[0] != '\0' && run_node(s, node, address) == 0) {
        return 0;
    }
    return run_node(s, node, "127.0.0.1:0");
}

static int start_manager(struct starting *s)
{
    struct node node = { .name = "meta", .program = "morsel-meta" };

    if (s->settings->replicas[0] != '\0') {
        add_option(&node, "replicas", s->settings->replicas);
    }
    return start_node(s, &node);
}

static int start_servers(struct starting *s, const char *manager, uint32_t count)
{
    int rv = 0;

    for (uint32_t i = 1; rv == 0 && i <= count; i++) {
        struct node node = { .program = "morsel-iod" };

        node_name(iod, i, node.name);
        add_option(&node, "manager", manager);
        rv = start_node(s, &node);
        errmsg_wrap(&s->err, "%s", rv == 0 ? "" : node.name);
    }
    return rv;
}

/* What each of them gives: as it was said, now or at an earlier start. */
static void remember_donate(const struct starting *s, char donate[CONFIG_STRING_MAX])
{
    char path[CLUSTER_PATH_MAX];

    cluster_path(s->c, "run", benefactor, "donate", path);
    if (s->settings->donate[0] != '\0') {
        (void)snprintf(donate, CONFIG_STRING_MAX, "%s", s->settings->donate);
        (void)cluster_write_line(path, donate);
    } else if (!cluster_read_line(path, donate, CONFIG_STRING_MAX)) {
        (void)snprintf(donate, CONFIG_STRING_MAX, "%s", DONATE_DEFAULT);
    }
}

/* All on this machine, of which nobody is the owner: they do not look whether somebody works here, and what they may have
 * was said. */
static int start_benefactors(struct starting *s, const char *manager)
{
    uint32_t count = (uint32_t)s->settings->benefactors;
    char donate[CONFIG_STRING_MAX];
    int rv = 0;

    remember_donate(s, donate);
    count = count < s->c->benefactors ? s->c->benefactors : count;
    for (uint32_t i = 1; rv == 0 && i <= count; i++) {
        struct node node = { .program = "morsel-benefactor" };

        node_name(benefactor, i, node.name);
        add_option(&node, "manager", manager);
        add_option(&node, "donate", donate);
        add_option(&node, "keep-free", "0");
        add_option(&node, "no-gentle", "");
        rv = start_node(s, &node);
        errmsg_wrap(&s->err, "%s", rv == 0 ? "" : node.name);
    }
    return rv;
}

static int start_all(struct starting *s)
{
    char manager[CONFIG_STRING_MAX];
    uint32_t servers = (uint32_t)s->settings->servers;
    bool mounted;
    int rv = start_manager(s);

    cluster_address(s->c, "meta", manager);
    servers = servers == 0 && s->c->servers == 0 ? SERVERS_DEFAULT : servers;
    servers = servers < s->c->servers ? s->c->servers : servers;
    if (rv == 0 && (rv = start_servers(s, manager, servers)) == 0) {
        rv = cluster_wait_servers(manager, servers, CLUSTER_WAIT_MS, &s->err);
    }
    if (rv == 0) {
        rv = cluster_wait_copies(manager, COPIES_WAIT_MS, &s->err);
    }
    if (rv == 0) {
        rv = cluster_own_root(manager, geteuid(), getegid(), &s->err);
    }
    if (rv == 0) {
        rv = start_benefactors(s, manager);
    }
    if (rv == 0 && s->settings->mount[0] != '\0') {
        rv = cluster_mount(s->c, s->settings->mount, s->settings->options, &mounted, &s->err);
    }
    return rv;
}

/* Take down what this run has started: a failed start leaves no half cluster behind. */
static void take_back(struct starting *s)
{
    while (s->names_count > 0) {
        char pid_file[CLUSTER_PATH_MAX];

        cluster_path(s->c, "run", s->names[--s->names_count], "pid", pid_file);
        (void)process_stop(pid_file, CLUSTER_WAIT_MS, NULL);
    }
}

static int cluster_start(struct cluster *c, const struct admin_settings *settings)
{
    char path[CLUSTER_PATH_MAX];
    struct starting s = { .c = c, .settings = settings };
    int rv = 0;

    if (settings->servers != 0 && settings->servers < c->servers) {
        return admin_failed(ADMIN_USAGE,
                            "%s holds the data of %" PRIu32 " servers; a cluster cannot shrink yet",
                            c->dir, c->servers);
    }
    (void)snprintf(path, sizeof(path), "%s/run", c->dir);
    rv = make_directories(path, &s.err);
    (void)snprintf(path, sizeof(path), "%s/log", c->dir);
    if (rv == 0 && (rv = make_directories(path, &s.err)) == 0 &&
        (rv = lock_cluster(c, &s.err)) == 0) {
        rv = start_all(&s);
        if (rv != 0) {
            take_back(&s);
        }
    }
    unlock_cluster(c);
    c->servers = count_nodes(c, iod);
    c->benefactors = count_nodes(c, benefactor);
    return rv == 0 ? ADMIN_OK : admin_failed(ADMIN_PROBLEM, "%s", s.err.text);
}

/* ---- Stop ---- */

static int stop_node(const struct cluster *c, const char *name, struct errmsg *err)
{
    char pid_file[CLUSTER_PATH_MAX];
    int rv;

    cluster_path(c, "run", name, "pid", pid_file);
    rv = process_stop(pid_file, CLUSTER_WAIT_MS, err);
    if (rv != 0) {
        errmsg_wrap(err, "%s", name);
    }
    return rv;
}

static int stop_nodes(const struct cluster *c, const char *kind, uint32_t count, struct errmsg *err)
{
    int rv = 0;

    for (uint32_t i = count; rv == 0 && i > 0; i--) {
        char name[CLUSTER_NAME_MAX];

        node_name(kind, i, name);
        rv = stop_node(c, name, err);
    }
    return rv;
}

/* The mount first, which flushes into the servers, which report to the manager. */
static int stop_all(struct cluster *c, bool force, struct errmsg *err)
{
    int rv = cluster_unmount(c, force, err);

    if (rv == 0) {
        rv = stop_nodes(c, benefactor, c->benefactors, err);
    }
    if (rv == 0) {
        rv = stop_nodes(c, iod, c->servers, err);
    }
    return rv == 0 ? stop_node(c, "meta", err) : rv;
}

static int cluster_stop(struct cluster *c, const struct admin_settings *settings, bool mount_only)
{
    char path[CLUSTER_PATH_MAX];
    struct errmsg err;
    int rv;

    (void)snprintf(path, sizeof(path), "%s/run", c->dir);
    if (access(path, F_OK) != 0) {
        return ADMIN_OK; /* There never was one. */
    }
    rv = lock_cluster(c, &err);
    if (rv == 0) {
        rv = mount_only ? cluster_unmount(c, settings->force, &err)
                        : stop_all(c, settings->force, &err);
    }
    unlock_cluster(c);
    return rv == 0 ? ADMIN_OK : admin_failed(ADMIN_PROBLEM, "%s", err.text);
}

/* ---- Status ---- */

static bool show_node(const struct cluster *c, const char *name, json_t *nodes)
{
    char address[CONFIG_STRING_MAX];
    pid_t pid = node_pid(c, name);

    cluster_address(c, name, address);
    if (nodes != NULL) {
        (void)json_array_append_new(nodes,
                                    json_pack("{s:s, s:b, s:i, s:s}", "name", name, "running",
                                              pid != 0, "pid", (int)pid, "address", address));
    } else if (pid != 0) {
        (void)printf("  %-13s  %-22s  pid %d\n", name, address, (int)pid);
    } else {
        (void)printf("  %-13s  not running\n", name);
    }
    return pid != 0;
}

static bool show_kind(const struct cluster *c, const char *kind, uint32_t count, json_t *nodes)
{
    bool all = true;

    for (uint32_t i = 1; i <= count; i++) {
        char name[CLUSTER_NAME_MAX];

        node_name(kind, i, name);
        all = show_node(c, name, nodes) && all;
    }
    return all;
}

/* A benefactor that does not run is none that is missed: desktops go and come. */
static bool show_nodes(const struct cluster *c, json_t *nodes)
{
    bool all = show_node(c, "meta", nodes);

    all = show_kind(c, iod, c->servers, nodes) && all;
    (void)show_kind(c, benefactor, c->benefactors, nodes);
    return all && c->servers > 0;
}

/* `running_out`: manager and all servers run. */
static bool cluster_show(const struct cluster *c, bool json, bool *running_out)
{
    json_t *nodes = json ? json_array() : NULL;
    char manager[CONFIG_STRING_MAX];
    char point[CLUSTER_PATH_MAX];
    pid_t pid;
    bool mounted = cluster_mounted(c, point, &pid);

    cluster_address(c, "meta", manager);
    if (!json) {
        (void)printf("cluster in %s\n", c->dir);
    }
    *running_out = show_nodes(c, nodes);
    if (json) {
        return print_json(json_pack(
            "{s:s, s:b, s:s, s:o, s:o}", "directory", c->dir, "running", *running_out, "manager",
            manager, "mount", mounted ? json_string(point) : json_null(), "processes", nodes));
    }
    if (mounted) {
        (void)printf("  %-13s  %-22s  pid %d\n", "mount", point, (int)pid);
    }
    return true;
}

int command_cluster(const struct admin_arguments *arguments)
{
    const struct admin_settings *settings = &arguments->settings;
    const char *verb = arguments->operands[0];
    struct cluster c;
    struct errmsg err;
    bool running;
    int code = ADMIN_OK;

    if (open_cluster(arguments->operands_count > 1 ? arguments->operands[1] : NULL, &c, &err) !=
        0) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    if (strcmp(verb, "start") == 0) {
        code = cluster_start(&c, settings);
    } else if (strcmp(verb, "stop") == 0) {
        return cluster_stop(&c, settings, false);
    } else if (strcmp(verb, "unmount") == 0) {
        return cluster_stop(&c, settings, true);
    } else if (strcmp(verb, "status") != 0) {
        return admin_failed(ADMIN_USAGE,
                            "unknown cluster command \"%s\"; there are start, unmount, "
                            "stop and status",
                            verb);
    }
    if (code != ADMIN_OK) {
        return code;
    }
    return cluster_show(&c, settings->json, &running) && running ? ADMIN_OK : ADMIN_PROBLEM;
}
