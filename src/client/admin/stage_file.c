/* morsel stage: what lies at a URL becomes a data set.
 *
 *   find DEST -> lock it (or wait for who has it) -> ask the origin for what is missing -> with its first byte: begin, go on, or
 *   begin anew -> write -> close, which seals
 *
 * Nothing is made or changed before the origin has answered. What is there of an earlier, interrupted download counts if the origin
 * still is the same, by its ETag, size and date; otherwise the data set begins anew. */
#include "client/admin/stage_file.h"

#include "client/admin/print_file.h"
#include "client/admin/stage_curl.h"
#include "client/admin/stage_inside_file.h"
#include "client/admin/stage_progress_file.h"
#include "client/admin/stage_prove_proc.h"
#include "client/admin/stage_source_file.h"
#include "common/base/limits.h"
#include "common/base/status.h"

#include <curl/curl.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { TRIES_MAX = 4 }; /* Of downloads that found that they must begin elsewhere. */

enum verdict {
    VERDICT_NONE,
    VERDICT_FAILED,  /* `why` says it. */
    VERDICT_AGAIN,   /* From `again_from` on, or behind another look at DEST. */
    VERDICT_COMPLETE /* It was all there. */
};

struct stage
{
    const struct admin_settings *settings;
    char given[ORIGIN_SHOWN_MAX]; /* The URL or the path, as the user says it. */
    struct stage_source source;
    struct stage_inside inside;
    struct stage_dest dest;
    struct stage_progress progress;
    struct stat before; /* A local file when its bytes began to be read; st_ino is 0: it is none. */
    struct origin origin;   /* As it is. */
    uint64_t begun_at, got; /* Bytes: what was there, and what came. */
    bool waited;            /* For somebody else. */
    enum verdict verdict;
    bool from_start;           /* VERDICT_AGAIN: nothing of what is there counts. */
    int status;                /* VERDICT_FAILED */
    struct errmsg unfetchable; /* Why mounts cannot fetch it, if that was tried. */
    struct errmsg why;
};

static bool give_up(struct stage *s, int status)
{
    s->verdict = status == MORSEL_AGAIN ? VERDICT_AGAIN : VERDICT_FAILED;
    s->status = status;
    return false;
}

/* It was complete. Has it lost something since, or the origin something else by now? */
static bool judge_complete(struct stage *s, const struct origin *now)
{
    /* What is missing mounts fetch again while it is read. */
    if (!s->dest.whole &&
        !(origin_stands_in(&s->dest.origin) && origin_same(&s->dest.origin, now))) {
        errmsg_set(
            &s->why,
            "%s: parts of it were evicted to make room, or are lost on all benefactors that had "
            "them (\"morsel datasets\" tells); \"morsel stage --fresh\" fetches all of it again",
            s->dest.path);
        return give_up(s, MORSEL_IO);
    }
    if (origin_same(&s->dest.origin, now)) {
        s->verdict = VERDICT_COMPLETE;
        return false;
    }
    errmsg_set(&s->why,
               "%s: is complete, and its origin has changed since; \"morsel stage --fresh\" begins "
               "it anew",
               s->dest.path);
    return give_up(s, MORSEL_EXIST);
}

/* The origin has answered, and nothing is written yet. */
static bool on_begin(void *data, const struct origin *now, uint64_t at)
{
    struct stage *s = data;
    struct stage_dest *d = &s->dest;
    bool goes_on = d->has_origin && !s->settings->fresh && strcmp(d->origin.url, now->url) == 0;
    int rv = 0;

    s->origin = *now;
    if (goes_on && d->sealed) {
        return judge_complete(s, now);
    }
    if (at > 0 && !(goes_on && origin_same(&d->origin, now))) {
        s->from_start = true; /* Somebody has changed it: these are not its bytes. */
        return give_up(s, MORSEL_AGAIN);
    }
    if (d->lock_fd < 0) {
        rv = stage_dest_make(d, &s->why);
    } else if (at == 0 && (d->has_origin || d->size > 0)) {
        rv = stage_dest_empty(d, &s->why);
    }
    if (rv == 0) {
        struct origin anew = *now;

        /* Of files of the cluster the manager says it. */
        anew.proven = at == 0 && !s->inside.is_inside && stage_prove(now, &s->unfetchable);
        rv = stage_dest_begin(d, at > 0 ? &d->origin : &anew, at, &s->why);
    }
    if (rv != 0) {
        return give_up(s, rv);
    }
    s->begun_at = at;
    s->got = 0;
    stage_progress_begin(&s->progress, at, now->size);
    return true;
}

static bool on_bytes(void *data, const void *bytes, size_t count)
{
    struct stage *s = data;
    int rv = stage_dest_write(&s->dest, bytes, count, &s->why);

    if (rv != 0) {
        return give_up(s, rv);
    }
    s->got += count;
    stage_progress_show(&s->progress, s->begun_at + s->got);
    return true;
}

static void on_wait(void *data, uint64_t size, uint64_t whole)
{
    struct stage *s = data;

    s->waited = true;
    stage_progress_wait(&s->progress, size, whole);
}

/* Are the bytes of the file ours to go on with, or to replace? */
static int check_there(struct stage *s)
{
    struct stage_dest *d = &s->dest;
    char shown[ORIGIN_SHOWN_MAX];

    if (d->lock_fd < 0 || s->settings->fresh) {
        return 0;
    }
    if (!d->has_origin && d->size > 0) {
        errmsg_set(
            &s->why,
            "%s: is there already, and was not staged; remove it, or say --fresh to replace it",
            d->path);
        return MORSEL_EXIST;
    }
    if (d->has_origin && strcmp(d->origin.url, s->source.url) != 0) {
        errmsg_set(&s->why, "%s: comes from %s; remove it, or say --fresh to replace it", d->path,
                   origin_url_shown(d->origin.url, shown));
        return MORSEL_EXIST;
    }
    return 0;
}

/* ---- From the beginning to the end ---- */

static bool nothing(void *data, const void *bytes, size_t count)
{
    (void)data, (void)bytes, (void)count;
    return false;
}

static bool note_origin(void *data, const struct origin *now, uint64_t at)
{
    (void)at;
    *(struct origin *)data = *now;
    return false;
}

/* What is known of a local file, to the nanosecond, which no origin is. */
static void look_at_file(const struct stage *s, struct stat *found)
{
    bool is_file = strncmp(s->source.url, "file://", 7) == 0;
    char *path = is_file ? curl_easy_unescape(NULL, s->source.url + 7, 0, NULL) : NULL;

    if (path == NULL || stat(path, found) != 0) {
        memset(found, 0, sizeof(*found));
    }
    curl_free(path);
}

static bool is_same_file(const struct stage *s)
{
    struct stat now;

    look_at_file(s, &now);
    return now.st_ino == s->before.st_ino && now.st_size == s->before.st_size &&
           now.st_mtim.tv_sec == s->before.st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == s->before.st_mtim.tv_nsec;
}

/* HTTP has told with one answer what all of its bytes are of, and of a file of the cluster that is known. A file, and those of the others,
 * may have been written meanwhile. */
static int check_unchanged(struct stage *s)
{
    struct origin now = s->origin;
    struct download d = {
        .timeout_ms = s->settings->timeout_ms, .data = &now, .begin = note_origin, .take = nothing
    };
    struct errmsg why;

    if (strncmp(s->source.url, "http", 4) == 0 || s->inside.is_inside) {
        return 0;
    }
    d.known = s->origin;
    origin_init(&now);
    memcpy(now.url, s->origin.url, sizeof(now.url));
    if (download_run(&d, &why) != DOWNLOAD_STOPPED || !origin_same(&now, &s->origin) ||
        !is_same_file(s)) {
        errmsg_set(&s->why, "%s: has changed while it was read; stage it again", s->given);
        return MORSEL_IO;
    }
    return 0;
}

static int finish(struct stage *s)
{
    struct errmsg why;
    int rv = check_unchanged(s);

    if (rv != 0) {
        (void)stage_dest_empty(&s->dest, &why); /* Nobody is to read what may be of both. */
        return rv;
    }
    return stage_dest_finish(&s->dest, &s->dest.origin, s->begun_at + s->got, &s->why);
}

static int broken(struct stage *s, enum download_end end, const struct errmsg *why)
{
    char bytes[PRINT_TEXT_MAX];

    if (end == DOWNLOAD_BROKEN) {
        errmsg_set(&s->why, "%s: %s, behind %s; the same command goes on from there", s->given,
                   why->text, print_bytes(s->begun_at + s->got, bytes));
    } else {
        errmsg_set(&s->why, "%s: %s", s->given, why->text);
    }
    return end == DOWNLOAD_UNREACHABLE ? MORSEL_UNREACHABLE : MORSEL_IO;
}

/* One download. MORSEL_AGAIN: it has to begin elsewhere. */
static int try_once(struct stage *s)
{
    struct download d = {
        .timeout_ms = s->settings->timeout_ms, .data = s, .begin = on_begin, .take = on_bytes
    };
    struct errmsg why = { "" };
    enum download_end end;
    int rv = stage_dest_lock(&s->dest, on_wait, s, &s->why);

    if (rv != 0 || (rv = check_there(s)) != 0) {
        return rv;
    }
    s->verdict = VERDICT_NONE;
    d.s3 = s->source.is_s3 ? &s->source.s3 : NULL;
    d.known = s->dest.origin;
    (void)snprintf(d.known.url, sizeof(d.known.url), "%s", s->source.url);
    if (s->dest.lock_fd >= 0 && s->dest.has_origin && !s->settings->fresh && !s->from_start &&
        !s->dest.sealed && origin_is_dated(&s->dest.origin)) {
        d.from = s->dest.resume;
    }
    look_at_file(s, &s->before);
    end = s->inside.is_inside ? stage_inside_run(&s->inside, &d, &why) : download_run(&d, &why);
    if (s->inside.has_changed) {
        (void)stage_dest_empty(&s->dest, &s->why); /* Nothing of what came counts. */
    }
    switch (s->verdict) {
    case VERDICT_FAILED:
    case VERDICT_AGAIN:
        return s->status;
    case VERDICT_COMPLETE:
        return 0;
    case VERDICT_NONE:
        break;
    }
    if (end == DOWNLOAD_NO_RANGE) {
        s->from_start = true;
        return MORSEL_AGAIN;
    }
    return end == DOWNLOAD_DONE ? finish(s) : broken(s, end, &why);
}

static int stage(struct stage *s)
{
    int rv = MORSEL_AGAIN;

    for (int i = 0; rv == MORSEL_AGAIN && i < TRIES_MAX; i++) {
        rv = try_once(s);
    }
    if (rv == MORSEL_AGAIN) {
        errmsg_set(&s->why, "%s: changes again and again while it is read", s->given);
        rv = MORSEL_IO;
    }
    /* What does not fit is of no use; what was interrupted is. */
    stage_dest_leave(&s->dest, rv == MORSEL_NOSPC || rv == MORSEL_DQUOT);
    stage_progress_end(&s->progress);
    return rv;
}

/* ---- The command ---- */

json_t *staged_json(const struct staged *s)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:b, s:b, s:s}", "url", s->url, "file",
                     s->path, "size", print_json_number(s->size), "fetched",
                     print_json_number(s->got), "resumed_at", print_json_number(s->begun_at),
                     "was_complete", (int)s->was_complete, "waited", (int)s->waited, "fetchable",
                     (int)s->fetchable, "why_not_fetchable", s->unfetchable.text);
}

void staged_print(const struct staged *s)
{
    char bytes[PRINT_TEXT_MAX], got[PRINT_TEXT_MAX];

    if (s->was_complete) {
        (void)printf("%s: all of it is there (%s)\n", s->path, print_bytes(s->size, bytes));
    } else if (s->begun_at > 0) {
        (void)printf("%s: %s, of which %s were there\n", s->path, print_bytes(s->size, bytes),
                     print_bytes(s->begun_at, got));
    } else {
        (void)printf("%s: %s\n", s->path, print_bytes(s->size, bytes));
    }
    if (!s->fetchable && s->size > 0) {
        (void)printf(
            "%s: counts as data, and is not evicted to make room unless it is scratch, for "
            "mounts cannot fetch it again: %s\n",
            s->path, s->unfetchable.text);
    }
}

/* When it was begun it was tried, and when it goes on that holds. */
static void tell_fetchable(const struct stage *s, struct staged *staged)
{
    const char *unfit = stage_unfit(&s->dest.origin);

    staged->fetchable = origin_stands_in(&s->dest.origin);
    staged->unfetchable = s->unfetchable;
    if (!staged->fetchable && s->unfetchable.text[0] == '\0') {
        errmsg_set(&staged->unfetchable, "%s",
                   unfit != NULL ? unfit
                   : s->inside.is_inside
                       ? "whoever owns the data set may not read it by himself or its group"
                       : "they could not when its staging began; \"morsel stage "
                         "--fresh\" tries again");
    }
}

int stage_url(const struct admin_settings *settings, const char *url, const char *dest,
              struct staged *staged, struct errmsg *why)
{
    struct stage s = { .settings = settings };
    char name[NAME_BYTES_MAX + 1];
    int rv = stage_inside_find(&s.inside, url, dest, s.source.url, why);
    bool named;

    if (rv == 0 && s.source.url[0] == '\0') {
        rv = stage_source_read(&s.source, url, why);
    }
    if (rv != 0) {
        return rv;
    }
    named = download_name(s.source.url, name, sizeof(name));
    (void)origin_url_shown(url, s.given);
    stage_progress_init(&s.progress, !settings->quiet && !settings->json);
    rv = stage_dest_find(&s.dest, dest, named ? name : NULL, &s.why);
    if (rv == 0) {
        rv = stage(&s);
    }
    *why = s.why;
    memcpy(staged->url, s.source.url, sizeof(staged->url));
    memcpy(staged->path, s.dest.path, sizeof(staged->path));
    staged->was_complete = s.verdict == VERDICT_COMPLETE;
    staged->size = staged->was_complete ? s.dest.size : s.begun_at + s.got;
    staged->got = staged->was_complete ? 0 : s.got;
    staged->begun_at = staged->was_complete ? 0 : s.begun_at;
    staged->waited = s.waited;
    tell_fetchable(&s, staged);
    return rv;
}

static enum admin_exit exit_of(int status)
{
    return status == MORSEL_INVAL         ? ADMIN_USAGE
           : status == MORSEL_UNREACHABLE ? ADMIN_UNREACHABLE
                                          : ADMIN_PROBLEM;
}

static int stage_single(const struct admin_settings *settings, const char *url, const char *dest)
{
    struct staged staged;
    struct errmsg why;
    int rv = stage_url(settings, url, dest, &staged, &why);

    if (rv != 0) {
        return admin_failed(exit_of(rv), "%s", why.text);
    }
    if (settings->json) {
        return print_json(staged_json(&staged)) ? ADMIN_OK : ADMIN_PROBLEM;
    }
    if (!settings->quiet) {
        staged_print(&staged);
    }
    return ADMIN_OK;
}

int command_stage(const struct admin_arguments *arguments)
{
    const struct admin_settings *settings = &arguments->settings;
    bool lists = settings->list[0] != '\0';
    int code;

    if (arguments->operands_count != (lists ? 1 : 2) || (lists && settings->recursive)) {
        return admin_failed(ADMIN_USAGE,
                            "say \"morsel stage URL|PATH FILE|DIR\", \"morsel stage -r "
                            "DIR DEST\" or \"morsel stage --list FILE DEST\"");
    }
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    code = lists ? stage_list(settings, arguments->operands[0])
           : settings->recursive
               ? stage_tree(settings, arguments->operands[0], arguments->operands[1])
               : stage_single(settings, arguments->operands[0], arguments->operands[1]);
    curl_global_cleanup();
    return code;
}
