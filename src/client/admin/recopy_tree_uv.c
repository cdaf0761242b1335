/* morsel recopy: files that are there get what their directories' policies say now.
 *
 * Nothing is kept of how far it came: what has been done lies right, and is passed over by the next run. So
 * it may be stopped at any moment, and that is its pause.
 *
 * Files that are in use are tried again behind all others, in rounds, ROUNDS_MAX of them at least and, with --wait, until its
 * time is over. Each try costs whoever writes there the lease on the file for a moment (it is opened here as well), so
 * the rounds get rarer. */
#include "client/admin/admin.h"
#include "client/admin/mount_file.h"
#include "client/admin/print_file.h"
#include "client/admin/recopy_file.h"
#include "client/admin/recopy_writers_uv.h"
#include "client/admin/to_manager_uv.h"
#include "common/base/check.h"
#include "common/base/status.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum {
    ASKED_MAX = 100,      /* Of so many files that are in use it is said who uses them. */
    LEFT_MAX = 1000,      /* So many files are tried again one by one, and named. */
    ROUNDS_MAX = 3,       /* Of trying again, without --wait. */
    ROUND_MS = 1000,      /* Between two of them at first, */
    ROUND_MS_MAX = 10000, /* and at most. */
    PROGRESS_MS = 1000,
    NS_MS = 1000000
};

/* A file that could not be done. */
struct left
{
    char *path;
    struct errmsg why;
    bool busy;
    bool outrun;    /* Busy, and no better in a moment. */
    size_t operand; /* Below which it was found. */
    uint64_t inode;
    char *writers; /* Mounts that have it open for writing, in the end; NULL: nobody said so. */
};

struct recopy_run
{
    const struct admin_settings *settings;
    uint64_t files_found, files_wanted, bytes_wanted; /* By the first walk. */
    uint64_t files_done, bytes_done;
    uint64_t bytes_copied;            /* Also of copies that came to nothing. */
    uint64_t here_bytes, here_copied; /* Of the file that is just being copied: has, and were. */
    uint64_t paused_bytes;            /* Of recopy_one() */
    uint64_t began_ms, shown_ms;
    bool shows;  /* Progress, to a terminal. */
    bool broken; /* The walk met an error, which was told. */
    sigset_t signals;
    bool stopped, asked;            /* By signals: to end; how far it is. */
    char directory[MOUNT_TEXT_MAX]; /* Whose policy is: */
    struct policy_values policy;
    size_t operand; /* Below which files are looked at just now. */
    struct recopy_drained drained[ADMIN_OPERANDS_MAX];    /* By operand: of its cluster, */
    char managers[ADMIN_OPERANDS_MAX][CONFIG_STRING_MAX]; /* whose manager this is. */
    struct left left[LEFT_MAX];
    uint32_t left_count;
    uint64_t left_more; /* Beyond those, */
    bool more_busy;     /* and some of these were busy. */
    uint64_t waits_for; /* So many that are in use, between two rounds. */
};

static uint64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / NS_MS;
}

/* ---- Signals ---- */

/* They wait until somebody looks. */
static void signals_begin(struct recopy_run *run)
{
    (void)sigemptyset(&run->signals);
    (void)sigaddset(&run->signals, SIGINT);
    (void)sigaddset(&run->signals, SIGTERM);
    (void)sigaddset(&run->signals, SIGUSR1);
    (void)sigprocmask(SIG_BLOCK, &run->signals, NULL);
}

/* For so long, or until one comes. */
static void signals_wait(struct recopy_run *run, uint64_t ms)
{
    struct timespec time = { (time_t)(ms / 1000), (long)(ms % 1000) * NS_MS };
    int number = sigtimedwait(&run->signals, NULL, &time);

    run->asked |= number == SIGUSR1;
    run->stopped |= number == SIGINT || number == SIGTERM;
}

/* ---- Progress ---- */

static void show(const struct recopy_run *run, const char *end)
{
    char done[PRINT_TEXT_MAX], wanted[PRINT_TEXT_MAX], rate[PRINT_TEXT_MAX], left[PRINT_TEXT_MAX];
    uint64_t passed_ms = now_ms() - run->began_ms;
    /* What is changed meanwhile is copied again. */
    uint64_t here = run->here_copied < run->here_bytes ? run->here_copied : run->here_bytes;
    uint64_t bytes_done = run->bytes_done + here;
    /* Files may have grown since they were counted. */
    uint64_t to_do = run->bytes_wanted > bytes_done ? run->bytes_wanted - bytes_done : 0;

    (void)fprintf(stderr, "%s%" PRIu64 " of %" PRIu64 " files, %s of %s, %s/s",
                  run->shows ? "\r\033[K" : "", run->files_done, run->files_wanted,
                  print_bytes(bytes_done, done), print_bytes(run->bytes_wanted, wanted),
                  print_bytes(passed_ms > 0 ? run->bytes_copied * 1000 / passed_ms : 0, rate));
    if (bytes_done > 0 && run->waits_for == 0) {
        (void)fprintf(
            stderr, ", %s left",
            print_duration_ms((uint64_t)((double)passed_ms * (double)to_do / (double)bytes_done),
                              left));
    }
    if (run->waits_for > 0) {
        (void)fprintf(stderr, ", waiting for %" PRIu64 " that are in use", run->waits_for);
    }
    (void)fprintf(stderr, "%s", end);
    (void)fflush(stderr);
}

static void look_up(struct recopy_run *run)
{
    uint64_t now = now_ms();

    signals_wait(run, 0);
    if (run->asked) {
        run->asked = false;
        show(run, "\n");
    } else if (run->shows && now >= run->shown_ms + PROGRESS_MS) {
        run->shown_ms = now;
        show(run, "");
    }
}

/* Until then, or a signal that ends it. */
static void rest(struct recopy_run *run, uint64_t due_ms)
{
    for (uint64_t now = now_ms(); now < due_ms && !run->stopped; now = now_ms()) {
        signals_wait(run, due_ms - now < PROGRESS_MS ? due_ms - now : PROGRESS_MS);
        look_up(run);
    }
}

/* Behind the rate that was asked for by what has been copied. */
static bool go_on(void *data, uint64_t bytes)
{
    struct recopy_run *run = data;
    uint64_t rate = run->settings->rate, due_ms = run->began_ms;

    run->bytes_copied += bytes;
    run->here_copied += bytes;
    look_up(run);
    if (rate > 0) {
        due_ms += run->bytes_copied / rate * 1000 + run->bytes_copied % rate * 1000 / rate;
    }
    rest(run, due_ms);
    return !run->stopped;
}

/* ---- One file ---- */

static void note_left(struct recopy_run *run, const char *path, const struct stat *st,
                      const struct errmsg *why, enum recopy_outcome outcome)
{
    bool outrun = outcome == RECOPY_OUTRUN, busy = outrun || outcome == RECOPY_BUSY;
    char *copy = run->left_count < LEFT_MAX ? strdup(path) : NULL;

    if (copy == NULL) {
        run->left_more++;
        run->more_busy |= busy && (!outrun || run->settings->wait_ms > 0);
        return;
    }
    run->left[run->left_count++] =
        (struct left){ copy, *why, busy, outrun, run->operand, (uint64_t)st->st_ino, NULL };
}

/* The text of a path's attribute; false: it has none, and errno says why. */
static bool attribute(const char *path, const char *name, char *text, size_t bytes)
{
    ssize_t count = lgetxattr(path, name, text, bytes - 1);

    if (count >= 0) {
        text[count] = '\0';
    }
    return count >= 0;
}

static bool directory_of(const char *path, char directory[MOUNT_TEXT_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t count = slash == NULL ? 0 : (size_t)(slash - path);

    if (count >= MOUNT_TEXT_MAX) {
        return false;
    }
    (void)snprintf(directory, MOUNT_TEXT_MAX, "%.*s", (int)count, path);
    if (count == 0) {
        (void)snprintf(directory, MOUNT_TEXT_MAX, slash == NULL ? "." : "/");
    }
    return true;
}

/* What new files beside it get. Files of a directory come one behind the other. */
static bool learn_policy(struct recopy_run *run, const char *directory)
{
    char text[POLICY_TEXT_MAX];

    if (strcmp(directory, run->directory) == 0) {
        return true;
    }
    run->directory[0] = '\0';
    if (!attribute(directory, POLICY_XATTR_EFFECTIVE, text, sizeof(text)) ||
        policy_parse(text, &run->policy) != 0) {
        return false;
    }
    (void)snprintf(run->directory, sizeof(run->directory), "%s", directory);
    return true;
}

enum look { LOOK_RIGHT, LOOK_WRONG, LOOK_UNKNOWN };

/* Does it lie as its directory's policy says? */
static enum look look_at(struct recopy_run *run, const char *path, const struct stat *st,
                         char directory[MOUNT_TEXT_MAX])
{
    char text[LAYOUT_TEXT_MAX];
    struct layout_text layout;

    if (!directory_of(path, directory) || !learn_policy(run, directory)) {
        return LOOK_UNKNOWN;
    }
    if (!attribute(path, POLICY_XATTR_LAYOUT, text, sizeof(text)) ||
        layout_parse(text, &layout) != 0) {
        return LOOK_UNKNOWN;
    }
    return recopy_differs(&layout, &run->policy, st->st_nlink, &run->drained[run->operand])
               ? LOOK_WRONG
               : LOOK_RIGHT;
}

static void count_file(struct recopy_run *run, const char *path, const struct stat *st)
{
    char directory[MOUNT_TEXT_MAX];

    run->files_found++;
    if (look_at(run, path, st, directory) == LOOK_WRONG) {
        run->files_wanted++;
        run->bytes_wanted += (uint64_t)st->st_size;
    }
}

static void do_file(struct recopy_run *run, const char *path, const struct stat *st)
{
    char directory[MOUNT_TEXT_MAX];
    struct errmsg why = { "" };
    enum recopy_outcome outcome;

    switch (look_at(run, path, st, directory)) {
    case LOOK_RIGHT:
        return;
    case LOOK_UNKNOWN:
        if (errno != ENOENT && errno != ESTALE) {
            errmsg_set(&why, "cannot read where it is to lie: %s", strerror(errno));
            note_left(run, path, st, &why, RECOPY_FAILED);
        }
        return;
    case LOOK_WRONG:
        break;
    }
    run->here_bytes = (uint64_t)st->st_size;
    run->here_copied = 0;
    outcome = recopy_one(directory, path, st, &run->paused_bytes, go_on, run, &why);
    run->here_bytes = 0;
    if (outcome == RECOPY_DONE) {
        run->files_done++;
        run->bytes_done += (uint64_t)st->st_size;
    } else if (outcome != RECOPY_GONE && outcome != RECOPY_STOPPED) {
        note_left(run, path, st, &why, outcome);
    }
    look_up(run);
}

/* ---- All of them ---- */

typedef void (*visit_file)(struct recopy_run *run, const char *path, const struct stat *st);

static int walk_one(struct recopy_run *run, char *path, visit_file visit)
{
    char *const paths[] = { path, NULL };
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
    FTSENT *entry;

    if (fts == NULL) {
        return admin_failed(ADMIN_PROBLEM, "cannot walk the tree: %s", strerror(errno));
    }
    while (!run->stopped && (entry = fts_read(fts)) != NULL) {
        if (entry->fts_info == FTS_F) {
            visit(run, entry->fts_path, entry->fts_statp);
        } else if ((entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR ||
                    entry->fts_info == FTS_NS) &&
                   entry->fts_errno != ENOENT && visit == do_file) {
            run->broken = true;
            (void)admin_failed(ADMIN_PROBLEM, "%s: %s", entry->fts_path,
                               strerror(entry->fts_errno));
        }
        look_up(run);
    }
    (void)fts_close(fts);
    return ADMIN_OK;
}

static int walk(struct recopy_run *run, char *const *paths, visit_file visit)
{
    int code = ADMIN_OK;

    for (run->operand = 0; paths[run->operand] != NULL && code == ADMIN_OK; run->operand++) {
        code = walk_one(run, paths[run->operand], visit);
    }
    return code;
}

/* ---- Those that are in use ---- */

/* What is changed faster than it can be copied is only tried again where there is time. */
static bool is_to_be_tried(const struct recopy_run *run, const struct left *left)
{
    return left->busy && (!left->outrun || run->settings->wait_ms > 0);
}

static bool is_one_in_use(const struct recopy_run *run)
{
    for (uint32_t i = 0; i < run->left_count; i++) {
        if (run->left[i].busy) {
            return true;
        }
    }
    return false;
}

static bool is_one_busy(const struct recopy_run *run)
{
    for (uint32_t i = 0; i < run->left_count; i++) {
        if (is_to_be_tried(run, &run->left[i])) {
            return true;
        }
    }
    return false;
}

/* Those that were busy once more. */
static void do_busy_again(struct recopy_run *run)
{
    uint32_t count = run->left_count;
    struct left *left = calloc(count > 0 ? count : 1, sizeof(*left));

    if (left == NULL) {
        return;
    }
    memcpy(left, run->left, count * sizeof(*left));
    run->left_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct stat st;

        if (!is_to_be_tried(run, &left[i]) || run->stopped) {
            run->left[run->left_count++] = left[i];
            continue;
        }
        run->operand = left[i].operand;
        if (lstat(left[i].path, &st) == 0 && S_ISREG(st.st_mode)) {
            do_file(run, left[i].path, &st);
        }
        free(left[i].path);
    }
    free(left);
}

static void forget_left(struct recopy_run *run)
{
    while (run->left_count > 0) {
        struct left *left = &run->left[--run->left_count];

        free(left->path);
        free(left->writers);
    }
    run->left_more = 0;
    run->more_busy = false;
}

/* Those beyond the first ones have to be looked for, when none of these waits any more, or for a last time. */
static int do_round(struct recopy_run *run, char *const *paths, bool last)
{
    if (run->more_busy && (last || !is_one_busy(run))) {
        forget_left(run);
        return walk(run, paths, do_file);
    }
    do_busy_again(run);
    return ADMIN_OK;
}

static int try_again(struct recopy_run *run, char *const *paths)
{
    uint64_t now = now_ms(), until_ms = now + run->settings->wait_ms, pause_ms = ROUND_MS;
    int code = ADMIN_OK;
    bool last = false;

    for (unsigned i = 1; code == ADMIN_OK && !last && (run->more_busy || is_one_busy(run)); i++) {
        uint64_t due_ms = now + pause_ms;

        if (i > ROUNDS_MAX && due_ms > until_ms) {
            due_ms = until_ms;
        }
        run->waits_for = run->left_count + run->left_more;
        rest(run, due_ms);
        run->waits_for = 0;
        if (run->stopped) {
            break;
        }
        last = i >= ROUNDS_MAX && due_ms >= until_ms;
        code = do_round(run, paths, last);
        now = now_ms();
        if (i >= ROUNDS_MAX && pause_ms < ROUND_MS_MAX) {
            pause_ms = pause_ms * 2 < ROUND_MS_MAX ? pause_ms * 2 : ROUND_MS_MAX;
        }
    }
    return code;
}

/* ---- Who uses what is left ---- */

/* All that is known without it was said already: what is not answered is left out. */
static void ask_writers_below(struct recopy_run *run, size_t operand, unsigned *asked)
{
    struct admin_settings settings = *run->settings;
    char text[RECOPY_WRITERS_BYTES];
    struct admin admin;

    memcpy(settings.manager, run->managers[operand], sizeof(settings.manager));
    if (admin_open_manager(&admin, &settings) != ADMIN_OK) {
        return;
    }
    for (uint32_t i = 0; i < run->left_count && *asked < ASKED_MAX; i++) {
        struct left *left = &run->left[i];

        if (!left->busy || left->operand != operand) {
            continue;
        }
        if (!recopy_writers(&admin, left->inode, text)) {
            break;
        }
        left->writers = text[0] != '\0' ? strdup(text) : NULL;
        (*asked)++;
    }
    admin_close(&admin);
}

static void ask_writers(struct recopy_run *run)
{
    unsigned asked = 0;

    for (size_t operand = 0; operand < ADMIN_OPERANDS_MAX; operand++) {
        bool busy = false;

        for (uint32_t i = 0; i < run->left_count; i++) {
            busy |= run->left[i].busy && run->left[i].operand == operand;
        }
        if (busy) {
            ask_writers_below(run, operand, &asked);
        }
    }
}

/* ---- What it came to ---- */

static int print_result_json(const struct recopy_run *run)
{
    json_t *left = json_array();

    for (uint32_t i = 0; i < run->left_count; i++) {
        (void)json_array_append_new(left,
                                    json_pack("{s:s, s:s, s:b, s:s*}", "path", run->left[i].path,
                                              "why", run->left[i].why.text, "busy",
                                              run->left[i].busy, "writers", run->left[i].writers));
    }
    return print_json(json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "files",
                                print_json_number(run->files_found), "files_wanted",
                                print_json_number(run->files_wanted), "bytes_wanted",
                                print_json_number(run->bytes_wanted), "files_done",
                                print_json_number(run->files_done), "bytes_done",
                                print_json_number(run->bytes_done), "stopped", run->stopped, "left",
                                left, "left_more", print_json_number(run->left_more)))
               ? ADMIN_OK
               : ADMIN_PROBLEM;
}

static void print_result(const struct recopy_run *run)
{
    char bytes[PRINT_TEXT_MAX];

    if (run->settings->dry_run) {
        (void)printf("%" PRIu64 " of %" PRIu64 " files (%s) lie otherwise than new ones would.\n",
                     run->files_wanted, run->files_found, print_bytes(run->bytes_wanted, bytes));
        return;
    }
    (void)printf("%" PRIu64 " of %" PRIu64 " files (%s) lie now as new ones would.\n",
                 run->files_done, run->files_wanted, print_bytes(run->bytes_done, bytes));
    for (uint32_t i = 0; i < run->left_count; i++) {
        (void)printf("left: %s: %s", run->left[i].path, run->left[i].why.text);
        if (run->left[i].writers != NULL) {
            (void)printf(" (mounts that have it open for writing: %s)", run->left[i].writers);
        }
        (void)printf("\n");
    }
    if (run->left_more > 0) {
        (void)printf("left: %" PRIu64 " more\n", run->left_more);
    }
    if (run->stopped) {
        (void)printf("Stopped: the same command goes on from here.\n");
    } else if (run->left_count + run->left_more > 0) {
        (void)printf("What is left can be tried again with the same command%s.\n",
                     run->more_busy || is_one_in_use(run)
                         ? "; with --wait=TIME it waits for what is in use"
                         : "");
    }
}

static int report(const struct recopy_run *run)
{
    bool bad = run->broken || run->stopped || run->left_count + run->left_more > 0;
    int code = ADMIN_OK;

    if (run->shows) {
        (void)fprintf(stderr, "\r\033[K");
    }
    if (run->settings->json) {
        code = print_result_json(run);
    } else {
        print_result(run);
    }
    return bad ? ADMIN_PROBLEM : code;
}

/* ---- The command ---- */

/* Which servers of the path's cluster are drained. All else can be done without: false, and why was printed. */
static bool learn_drained(const struct admin_arguments *arguments, const struct mount_info *mount,
                          const char manager[CONFIG_STRING_MAX], struct recopy_drained *drained)
{
    struct admin_arguments asked = *arguments;
    char address[CONFIG_STRING_MAX];
    Morsel__StatusReply *status;

    memcpy(asked.settings.manager, manager, CONFIG_STRING_MAX);
    (void)admin_fetch_status(&asked, &status, address);
    if (status == NULL) {
        (void)admin_failed(ADMIN_PROBLEM,
                           "%s: which servers are drained is not known: files with one copy "
                           "are not moved off them",
                           mount->point);
        return false;
    }
    for (size_t i = 0; i < status->n_members && drained->count < SERVERS_MAX; i++) {
        if (status->members[i]->leaves && status->members[i]->up) {
            drained->servers[drained->count++] = status->members[i]->id;
        }
    }
    morsel__status_reply__free_unpacked(status, NULL);
    return true;
}

static int check_paths(const struct admin_arguments *arguments, struct recopy_run *run,
                       char **paths)
{
    for (size_t i = 0; i < arguments->operands_count; i++) {
        struct mount_info mount;
        struct errmsg err;
        int rv = mount_find_morsel(arguments->operands[i], &mount, &err);

        if (rv != 0) {
            return admin_failed(rv == MORSEL_INVAL ? ADMIN_USAGE : ADMIN_PROBLEM, "%s", err.text);
        }
        paths[i] = (char *)(uintptr_t)arguments->operands[i];
        (void)snprintf(run->managers[i], CONFIG_STRING_MAX, "%.*s", CONFIG_STRING_MAX - 1,
                       arguments->settings.manager[0] != '\0' ? arguments->settings.manager
                                                              : mount.source);
        run->broken |= !learn_drained(arguments, &mount, run->managers[i], &run->drained[i]);
    }
    return ADMIN_OK;
}

int command_recopy(const struct admin_arguments *arguments)
{
    char *paths[ADMIN_OPERANDS_MAX + 1] = { NULL };
    struct recopy_run *run = calloc(1, sizeof(*run));
    int code;

    if (run == NULL) {
        return admin_failed(ADMIN_PROBLEM, "out of memory");
    }
    code = check_paths(arguments, run, paths);
    if (code != ADMIN_OK) {
        free(run);
        return code;
    }
    run->settings = &arguments->settings;
    run->paused_bytes = run->settings->pause ? RECOPY_PAUSED_BYTES : 0;
    run->shows = isatty(STDERR_FILENO) && !arguments->settings.json;
    signals_begin(run);
    run->began_ms = now_ms();
    code = walk(run, paths, count_file);
    if (code == ADMIN_OK && !arguments->settings.dry_run) {
        run->began_ms = now_ms();
        code = walk(run, paths, do_file);
        code = code == ADMIN_OK ? try_again(run, paths) : code;
    }
    if (code == ADMIN_OK) {
        ask_writers(run);
        code = report(run);
    }
    forget_left(run);
    free(run);
    return code;
}
