/* morsel put: a local file becomes a data set; morsel get: a data set becomes a local file. Both are seen under their name when they are
 * complete, and not before; who is interrupted leaves nothing. */
#include "client/admin/admin.h"
#include "client/admin/hidden_file.h"
#include "client/admin/mount_file.h"
#include "client/admin/print_file.h"
#include "client/admin/stage_dest_file.h"
#include "client/admin/stage_progress_file.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/fs/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

struct transfer
{
    const struct admin_settings *settings;
    const char *source; /* "-": standard input. */
    int from;           /* Its descriptor. */
    uint64_t size, got; /* What it has, ORIGIN_SIZE_UNKNOWN; and what came of it. */
    bool streams;       /* It goes to standard output. */
    struct stage_progress progress;
    struct errmsg why;
};

static bool is_dash(const char *name)
{
    return strcmp(name, "-") == 0;
}

/* The last part of a path, or NULL, if it names no file in a directory: "..", "dir/". */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;

    return name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_dash(path)
               ? NULL
               : name;
}

static int failed(struct transfer *t, const char *what)
{
    int code = errno;

    errmsg_set(&t->why, "%s: %s", what, strerror(code));
    return status_from_errno(code);
}

/* ---- What is read ---- */

/* Only what is left counts of a file that is standard input. */
static int measure(struct transfer *t)
{
    struct stat st;
    off_t at = lseek(t->from, 0, SEEK_CUR);

    if (fstat(t->from, &st) != 0) {
        return failed(t, t->source);
    }
    if (S_ISDIR(st.st_mode)) {
        errmsg_set(&t->why, "%s: is a directory; one file at a time", t->source);
        return MORSEL_INVAL;
    }
    t->size = !S_ISREG(st.st_mode) || at < 0 ? ORIGIN_SIZE_UNKNOWN
              : st.st_size > at              ? (uint64_t)(st.st_size - at)
                                             : 0;
    return 0;
}

static int open_source(struct transfer *t)
{
    t->from = is_dash(t->source) ? STDIN_FILENO : open(t->source, O_RDONLY | O_CLOEXEC);
    return t->from < 0 ? failed(t, t->source) : measure(t);
}

static const char *named(const struct transfer *t)
{
    return is_dash(t->source) ? "standard input" : t->source;
}

/* All of it, piece by piece. */
static int pump(struct transfer *t, int (*take)(void *data, const void *bytes, size_t count),
                void *data)
{
    uint8_t *piece = malloc(PIECE);
    char bytes[PRINT_TEXT_MAX];
    int rv = 0;

    if (piece == NULL) {
        errmsg_set(
            &t->why,
            "%s: there is no memory for a MiB of it, so none of it was copied; end something "
            "else, and say it again",
            named(t));
        return MORSEL_NOMEM;
    }
    stage_progress_begin(&t->progress, 0, t->size);
    while (rv == 0) {
        ssize_t count;

        if (hidden_interrupted()) {
            errmsg_set(&t->why, "%s: interrupted behind %s; %s", named(t),
                       print_bytes(t->got, bytes),
                       is_dash(t->source) ? "nothing is left of that: say it again with all of it"
                       : t->streams       ? "so much is written to standard output"
                                          : "nothing is left of that, and the same command begins "
                                            "again");
            rv = MORSEL_CANCELED;
            break;
        }
        count = read(t->from, piece, PIECE);

        if (count == 0 || (count < 0 && errno != EINTR)) {
            rv = count < 0 ? failed(t, t->source) : 0;
            break;
        }
        if (count > 0 && (rv = take(data, piece, (size_t)count)) == 0) {
            t->got += (uint64_t)count;
            stage_progress_show(&t->progress, t->got);
        }
    }
    free(piece);
    stage_progress_end(&t->progress);
    return rv;
}

static int check_length(struct transfer *t)
{
    if (t->size == ORIGIN_SIZE_UNKNOWN || t->got == t->size) {
        return 0;
    }
    errmsg_set(&t->why,
               "%s: had %" PRIu64 " bytes, and %" PRIu64
               " could be read: somebody writes to it. Try again when it is complete",
               t->source, t->size, t->got);
    return MORSEL_IO;
}

/* ---- The result ---- */

static int report(const struct transfer *t, const char *to)
{
    char bytes[PRINT_TEXT_MAX];

    if (t->settings->json) {
        return print_json(json_pack("{s:s, s:s, s:o}", "source", t->source, "file", to, "size",
                                    print_json_number(t->got)))
                   ? ADMIN_OK
                   : ADMIN_PROBLEM;
    }
    if (!t->settings->quiet) {
        (void)printf("%s: %s\n", to, print_bytes(t->got, bytes));
    }
    return ADMIN_OK;
}

static int give_up(const struct transfer *t, int status)
{
    return admin_failed(status == MORSEL_INVAL ? ADMIN_USAGE : ADMIN_PROBLEM, "%s", t->why.text);
}

static void begin(struct transfer *t, const struct admin_arguments *arguments)
{
    *t = (struct transfer){ .settings = &arguments->settings,
                            .source = arguments->operands[0],
                            .from = -1,
                            .size = ORIGIN_SIZE_UNKNOWN };
    stage_progress_init(&t->progress, !t->settings->quiet && !t->settings->json);
}

/* ---- put ---- */

struct put
{
    struct transfer t;
    struct stage_dest dest;
};

static int put_bytes(void *data, const void *bytes, size_t count)
{
    struct put *p = data;

    return stage_dest_write(&p->dest, bytes, count, &p->t.why);
}

static int check_free(struct put *p)
{
    struct stat st;

    if (p->t.settings->force || lstat(p->dest.path, &st) != 0) {
        return 0;
    }
    errmsg_set(&p->t.why, "%s: is there already; remove it, or say --force to replace it",
               p->dest.path);
    return MORSEL_EXIST;
}

/* Before it takes the place of what has its name, and before its source is deleted: a file of the same is. */
static int sync_all(struct put *p)
{
    return fsync(p->dest.write_fd) != 0 ? failed(&p->t, p->dest.path) : 0;
}

static int put(struct put *p, const char *to)
{
    struct transfer *t = &p->t;
    int rv = stage_dest_find(&p->dest, to, last_part(t->source), &t->why);

    if (rv != 0 || (rv = open_source(t)) != 0 || (rv = check_free(p)) != 0 ||
        (rv = stage_dest_hide(&p->dest, t->size, &t->why)) != 0 ||
        (rv = pump(t, put_bytes, p)) != 0 || (rv = check_length(t)) != 0 ||
        (rv = sync_all(p)) != 0 || (rv = stage_dest_seal(&p->dest, t->got, &t->why)) != 0) {
        return rv;
    }
    return stage_dest_show(&p->dest, t->settings->force, &t->why);
}

int command_put(const struct admin_arguments *arguments)
{
    struct put p;
    int rv;

    begin(&p.t, arguments);
    rv = put(&p, arguments->operands[1]);
    stage_dest_leave(&p.dest, false);
    return rv == 0 ? report(&p.t, p.dest.path) : give_up(&p.t, rv);
}

/* ---- get ---- */

struct get
{
    struct transfer t;
    char path[HIDDEN_PATH_MAX];
    int to;
    struct hidden_file hidden;
};

static int get_bytes(void *data, const void *bytes, size_t count)
{
    struct get *g = data;
    const uint8_t *at = bytes;

    while (count > 0) {
        ssize_t written = write(g->to, at, count);

        if (written < 0 && errno != EINTR) {
            return failed(&g->t, g->path);
        }
        if (written > 0) {
            at += written;
            count -= (size_t)written;
        }
    }
    return 0;
}

/* What it is to be called here. */
static int find_path(struct get *g, const char *to)
{
    const char *name = last_part(g->t.source);
    struct stat st;
    bool there = stat(to, &st) == 0;
    int count = snprintf(g->path, sizeof(g->path), "%s", to);

    if (there && S_ISDIR(st.st_mode)) {
        if (name == NULL) {
            errmsg_set(&g->t.why, "%s names no file: say what it is to be called in %s",
                       g->t.source, to);
            return MORSEL_INVAL;
        }
        count = snprintf(g->path, sizeof(g->path), "%s/%s", to, name);
        there = stat(g->path, &st) == 0;
    }
    if (count >= (int)sizeof(g->path)) {
        errmsg_set(&g->t.why, "%s: the path is too long", to);
        return MORSEL_INVAL;
    }
    if (there && (!S_ISREG(st.st_mode) || !g->t.settings->force)) {
        errmsg_set(&g->t.why, "%s: is there already%s", g->path,
                   S_ISREG(st.st_mode) ? "; remove it, or say --force to replace it"
                                       : ", and is no regular file; \"-\" is standard output");
        return MORSEL_EXIST;
    }
    return 0;
}

/* One that is being stored, or was left, has holes where its bytes are to come. */
static int check_complete(struct get *g)
{
    char text[MISSING_TEXT_MAX];
    ssize_t count = fgetxattr(g->t.from, MISSING_XATTR, text, sizeof(text) - 1);

    if (count < 0) {
        return errno == ENODATA || errno == EOPNOTSUPP ? 0 : failed(&g->t, g->t.source);
    }
    text[count] = '\0';
    if (strncmp(text, "sealed=0", 8) != 0) {
        return 0;
    }
    errmsg_set(
        &g->t.why,
        "%s: is not complete: it is being stored, or that was interrupted; store all of it first",
        g->t.source);
    return MORSEL_INVAL;
}

static int open_set(struct get *g)
{
    struct mount_info mount;
    int rv = mount_find_morsel(g->t.source, &mount, &g->t.why);

    if (rv != 0 || (rv = open_source(&g->t)) != 0) {
        return rv;
    }
    if (g->t.size == ORIGIN_SIZE_UNKNOWN) {
        errmsg_set(&g->t.why, "%s: is no regular file", g->t.source);
        return MORSEL_INVAL;
    }
    return check_complete(g);
}

static int read_all(struct get *g)
{
    int rv = pump(&g->t, get_bytes, g);
    char bytes[PRINT_TEXT_MAX];

    if (rv == MORSEL_IO && g->t.got < g->t.size) {
        errmsg_set(&g->t.why,
                   "%s: behind %s nothing can be read: it was evicted, or benefactors that have it "
                   "are not here (\"morsel "
                   "datasets\" tells)",
                   g->t.source, print_bytes(g->t.got, bytes));
    }
    return rv != 0 ? rv : check_length(&g->t);
}

static int get_file(struct get *g)
{
    char directory[HIDDEN_PATH_MAX];
    int rv;

    hidden_directory_of(g->path, directory);
    if ((g->to = hidden_make(&g->hidden, directory)) < 0) {
        return failed(&g->t, directory);
    }
    rv = read_all(g);
    if (rv == 0 &&
        (fsync(g->to) != 0 || hidden_name(&g->hidden, g->to, g->path, g->t.settings->force) != 0)) {
        rv = failed(&g->t, g->path);
    }
    hidden_drop(&g->hidden);
    return close(g->to) != 0 && rv == 0 ? failed(&g->t, g->path) : rv;
}

int command_get(const struct admin_arguments *arguments)
{
    bool streams = is_dash(arguments->operands[1]);
    struct get g = { .to = STDOUT_FILENO };
    int rv;

    begin(&g.t, arguments);
    g.t.streams = streams;
    if (streams && g.t.settings->json) {
        return admin_failed(ADMIN_USAGE,
                            "with \"-\" standard output is the data's: leave out --json");
    }
    if (is_dash(g.t.source)) {
        return admin_failed(ADMIN_USAGE, "say which data set is wanted: \"-\" is none");
    }
    if ((rv = open_set(&g)) == 0) {
        if (streams) {
            (void)snprintf(g.path, sizeof(g.path), "standard output");
            rv = read_all(&g);
        } else if ((rv = find_path(&g, arguments->operands[1])) == 0) {
            rv = get_file(&g);
        }
    }
    if (g.t.from >= 0) {
        (void)close(g.t.from);
    }
    return rv != 0 ? give_up(&g.t, rv) : streams ? ADMIN_OK : report(&g.t, g.path);
}
