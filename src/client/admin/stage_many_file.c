/* morsel stage -r and --list: many files, one after the other, each as `morsel stage` does one.
 *
 * What does not come is said, and the others are staged all the same; the same command again skips what is complete and goes on with
 * what is not. A directory is walked where its entries are known for sure: on this machine. What a web server shows of one is a page
 * for people, so its files are to be named in a list. */
#include "client/admin/mount_file.h"
#include "client/admin/stage_curl.h"
#include "client/admin/stage_file.h"
#include "client/admin/stage_inside_file.h"
#include "client/admin/stage_source_file.h"
#include "common/base/limits.h"
#include "common/base/status.h"

#include <curl/curl.h>

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    DEPTH_MAX = 64,
    FILES_MAX = 1000000, /* Of a directory and below. */
    LIST_MAX = 65536     /* Lines of a list, of ORIGIN_URL_MAX bytes at most. */
};

struct many
{
    const struct admin_settings *settings;
    json_t *files; /* NULL: text. */
    uint64_t came, complete, failed, left_out;
};

static void begin(struct many *m, const struct admin_settings *settings)
{
    *m = (struct many){ .settings = settings, .files = settings->json ? json_array() : NULL };
}

static void fail(struct many *m, const char *what, const char *why)
{
    m->failed++;
    (void)admin_failed(ADMIN_PROBLEM, "%s%s%s", what, why[0] != '\0' ? ": " : "", why);
}

static void one(struct many *m, const char *url, const char *dest)
{
    struct staged staged;
    struct errmsg why;

    if (stage_url(m->settings, url, dest, &staged, &why) != 0) {
        fail(m, why.text, "");
        return;
    }
    m->came += !staged.was_complete;
    m->complete += staged.was_complete;
    if (m->files != NULL) {
        (void)json_array_append_new(m->files, staged_json(&staged));
    } else if (!m->settings->quiet) {
        staged_print(&staged);
    }
}

static int end(struct many *m)
{
    bool printed = true;

    if (m->files != NULL) {
        printed = print_json(json_pack(
            "{s:o, s:o, s:o, s:o, s:o}", "files", m->files, "fetched", print_json_number(m->came),
            "were_complete", print_json_number(m->complete), "failed", print_json_number(m->failed),
            "left_out", print_json_number(m->left_out)));
    } else if (!m->settings->quiet) {
        (void)printf("%" PRIu64 " files were fetched, %" PRIu64 " were complete, %" PRIu64
                     " did not come",
                     m->came, m->complete, m->failed);
        if (m->left_out > 0) {
            (void)printf("; %" PRIu64 " that are no regular files were left out", m->left_out);
        }
        (void)printf("\n");
    }
    return printed && m->failed == 0 ? ADMIN_OK : ADMIN_PROBLEM;
}

static int check_dest(const char *dest)
{
    struct mount_info mount;
    struct errmsg err;
    struct stat st;
    int rv = mount_find_morsel(dest, &mount, &err);

    if (rv != 0) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    if (stat(dest, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return admin_failed(ADMIN_USAGE, "%s: is no directory; make it first", dest);
    }
    return ADMIN_OK;
}

/* ---- A directory ---- */

/* The directory that a path or a file: URL means, absolute and without symbolic links. */
static int find_source(const char *source, char path[PATH_MAX])
{
    bool is_url = strncmp(source, "file://", 7) == 0;
    char *plain = is_url ? curl_easy_unescape(NULL, source + 7, 0, NULL) : NULL;
    struct stat st;
    bool good;

    if (!is_url && strstr(source, "://") != NULL) {
        return admin_failed(
            ADMIN_USAGE,
            "%s: a server does not say for sure which files a directory has. Write "
            "their URLs into a file, one on a line: \"morsel stage --list FILE DEST\"",
            source);
    }
    good = realpath(is_url && plain != NULL ? plain : source, path) != NULL && stat(path, &st) == 0;
    curl_free(plain);
    if (!good) {
        return admin_failed(ADMIN_USAGE, "%s: %s", source, strerror(errno));
    }
    return S_ISDIR(st.st_mode)
               ? ADMIN_OK
               : admin_failed(ADMIN_USAGE, "%s: is no directory; leave out -r", source);
}

/* What is made there must not come up in the walk. */
static int check_apart(const char *root, const char *dest)
{
    size_t count = strcmp(root, "/") == 0 ? 0 : strlen(root);
    char path[PATH_MAX];

    if (realpath(dest, path) == NULL) {
        return admin_failed(ADMIN_PROBLEM, "%s: %s", dest, strerror(errno));
    }
    return strncmp(path, root, count) == 0 && (path[count] == '/' || path[count] == '\0')
               ? admin_failed(ADMIN_USAGE, "%s: lies in %s, which is to be staged", dest, root)
               : ADMIN_OK;
}

static void make_directory(struct many *m, FTS *fts, FTSENT *entry, const char *to)
{
    if (entry->fts_level > DEPTH_MAX) {
        fail(m, entry->fts_path, "lies too deep; stage it by itself");
        (void)fts_set(fts, entry, FTS_SKIP);
    } else if (entry->fts_level > 0 && mkdir(to, 0777) != 0 && errno != EEXIST) {
        fail(m, to, strerror(errno));
        (void)fts_set(fts, entry, FTS_SKIP);
    }
}

static void stage_entry(struct many *m, const FTSENT *entry, const char *to)
{
    char url[ORIGIN_URL_MAX + 1];
    struct stat st;

    if (!stage_path_url("file://", entry->fts_path, url)) {
        fail(m, entry->fts_path, "its path is too long for a URL");
    } else if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
        fail(m, to, "is a directory, and is to be a file");
    } else {
        one(m, url, to);
    }
}

static void visit(struct many *m, FTS *fts, FTSENT *entry, size_t root_count, const char *dest)
{
    char to[STAGE_PATH_MAX];
    int count = snprintf(to, sizeof(to), "%s%s", dest, entry->fts_path + root_count);

    if (count >= (int)sizeof(to)) {
        fail(m, entry->fts_path, "the path is too long");
        return;
    }
    switch (entry->fts_info) {
    case FTS_D:
        make_directory(m, fts, entry, to);
        break;
    case FTS_F:
        stage_entry(m, entry, to);
        break;
    case FTS_DP:
        break;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        fail(m, entry->fts_path, strerror(entry->fts_errno));
        break;
    default:
        m->left_out++;
    }
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

int stage_tree(const struct admin_settings *settings, const char *source, const char *dest)
{
    char root[PATH_MAX], *paths[] = { root, NULL };
    struct many m;
    FTSENT *entry;
    FTS *fts;
    int code = find_source(source, root);

    if (code != ADMIN_OK || (code = check_dest(dest)) != ADMIN_OK ||
        (code = check_apart(root, dest)) != ADMIN_OK) {
        return code;
    }
    if ((fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, by_name)) == NULL) {
        return admin_failed(ADMIN_PROBLEM, "%s: %s", root, strerror(errno));
    }
    begin(&m, settings);
    for (errno = 0; (entry = fts_read(fts)) != NULL; errno = 0) {
        if (m.came + m.complete + m.failed == FILES_MAX) {
            fail(&m, source, "has more than a million files; stage its directories one by one");
            break;
        }
        visit(&m, fts, entry, strcmp(root, "/") == 0 ? 0 : strlen(root), dest);
    }
    if (entry == NULL && errno != 0) {
        fail(&m, root, strerror(errno));
    }
    (void)fts_close(fts);
    return end(&m);
}

/* ---- A list ---- */

struct list
{
    char *urls[LIST_MAX], *names[LIST_MAX]; /* The names sorted, in the end. */
    size_t count;
};

static void list_free(struct list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->urls[i]);
        free(list->names[i]);
    }
    free(list);
}

/* A URL ends with the first space; a key of S3 may have some, and its line is all of it. */
static void cut_line(char *line)
{
    line[strcspn(line, s3_is(line) ? "\r\n" : " \t\r\n")] = '\0';
}

/* Empty lines, and those that begin with #, are for people. False, said. */
static bool add_line(struct list *list, char *line, size_t number)
{
    struct stage_source source;
    char name[NAME_BYTES_MAX + 1];
    struct errmsg why;

    cut_line(line);
    if (line[0] == '\0' || line[0] == '#') {
        return true;
    }
    if (stage_source_read(&source, line, &why) != 0) {
        (void)admin_failed(ADMIN_USAGE, "line %zu of the list: %s", number, why.text);
        return false;
    }
    if (!download_name(source.url, name, sizeof(name))) {
        (void)admin_failed(ADMIN_USAGE, "line %zu of the list: %s names no file", number, line);
        return false;
    }
    if (list->count == LIST_MAX) {
        (void)admin_failed(ADMIN_USAGE, "the list has more than %d URLs; divide it", LIST_MAX);
        return false;
    }
    list->urls[list->count] = strdup(line);
    list->names[list->count] = strdup(name);
    list->count++;
    if (list->urls[list->count - 1] == NULL || list->names[list->count - 1] == NULL) {
        (void)admin_failed(ADMIN_PROBLEM, "out of memory");
        return false;
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Two that are called the same would be one data set, of which the second one replaces the first. */
static bool check_names(struct list *list)
{
    qsort(list->names, list->count, sizeof(list->names[0]), compare_names);
    for (size_t i = 1; i < list->count; i++) {
        if (strcmp(list->names[i - 1], list->names[i]) == 0) {
            (void)admin_failed(ADMIN_USAGE,
                               "two URLs of the list are called %s: stage one of them by itself",
                               list->names[i]);
            return false;
        }
    }
    return true;
}

static int read_list(const char *path, struct list *list)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    char line[ORIGIN_URL_MAX + 3];
    bool good = true;

    if (file == NULL) {
        return admin_failed(ADMIN_USAGE, "%s: %s", path, strerror(errno));
    }
    for (size_t number = 1; good && fgets(line, sizeof(line), file) != NULL; number++) {
        good = add_line(list, line, number);
    }
    if (good && ferror(file) != 0) {
        (void)admin_failed(ADMIN_USAGE, "%s: cannot be read", path);
        good = false;
    }
    if (file != stdin) {
        (void)fclose(file);
    }
    return good && check_names(list) ? ADMIN_OK : ADMIN_USAGE;
}

int stage_list(const struct admin_settings *settings, const char *dest)
{
    int code = check_dest(dest);
    struct list *list;
    struct many m;

    if (code != ADMIN_OK) {
        return code;
    }
    if ((list = calloc(1, sizeof(*list))) == NULL) {
        return admin_failed(ADMIN_PROBLEM, "out of memory");
    }
    if ((code = read_list(settings->list, list)) == ADMIN_OK) {
        begin(&m, settings);
        for (size_t i = 0; i < list->count; i++) {
            one(&m, list->urls[i], dest);
        }
        code = end(&m);
    }
    list_free(list);
    return code;
}
