/* "morsel origin-part ORIGIN FROM LENGTH SILENT_MS [RANGE]": bytes of an origin on standard output, for a mount that starts it
 * (fuse/origin_child_proc.c) and looks at what comes; with RANGE nothing where the origin gives no ranges (stage_prove_proc.c). No command for users: the mount speaks for whoever reads, and the URL is the word of
 * whoever stored, so neither one's rights are used. Root becomes nobody before it looks at anything.
 *
 * Exit code 0: all came; ORIGIN_PART_CHANGED: it is another origin by now; others: it failed. Words are one line on standard error. */
#include "client/admin/admin.h"
#include "client/admin/stage_curl.h"
#include "client/datasets/origin_power.h"
#include "common/base/slice.h"

#include <curl/curl.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    NOBODY = 65534,
    CONNECT_MS_MAX = 15000,
    WHOLE_MS = 280000 /* Less than what the mount waits (set_origin_uv.c). */
};

struct part
{
    struct download download;
    uint64_t skip, left; /* Bytes that come and are not wanted; that are wanted still. */
    bool changed;
    bool range, no_range; /* It must begin where it was asked to; it does not. */
    int write_error;
};

static bool on_begin(void *data, const struct origin *now, uint64_t at)
{
    struct part *p = data;

    p->changed = !origin_same(&p->download.known, now);
    p->skip = p->download.from - at;
    p->no_range = p->range && p->skip > 0;
    return !p->changed && !p->no_range;
}

static bool on_bytes(void *data, const void *bytes, size_t count)
{
    struct part *p = data;
    size_t skip = p->skip < count ? (size_t)p->skip : count;
    const char *from = (const char *)bytes + skip;
    size_t left = count - skip < p->left ? count - skip : (size_t)p->left;

    p->skip -= skip;
    p->left -= left;
    while (left > 0) {
        ssize_t done = write(STDOUT_FILENO, from, left);

        if (done < 0 && errno != EINTR) {
            p->write_error = errno;
            return false;
        }
        from += done > 0 ? done : 0;
        left -= done > 0 ? (size_t)done : 0;
    }
    return p->left > 0 || p->skip > 0;
}

static bool take_number(const char *text, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

/* What the mount has open is none of our business, either. */
static bool drop_rights(void)
{
    (void)close_range(STDERR_FILENO + 1, ~0U, 0);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return geteuid() != 0 ||
           (setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static int fetch(struct part *p)
{
    struct errmsg why = { "" };
    enum download_end end;

    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    end = download_run(&p->download, &why);
    curl_global_cleanup();
    if (p->changed || end == DOWNLOAD_NO_RANGE) {
        (void)fprintf(stderr, "it has changed since it was staged\n");
        return ORIGIN_PART_CHANGED;
    }
    if (p->left == 0 && p->download.begun) {
        return ADMIN_OK;
    }
    (void)fprintf(stderr, "%s\n",
                  p->no_range            ? "it gives no ranges"
                  : p->write_error != 0  ? strerror(p->write_error)
                  : end == DOWNLOAD_DONE ? "it has fewer bytes than it had"
                                         : why.text);
    return ADMIN_PROBLEM;
}

int command_origin_part(int count, char *const *words)
{
    struct part p = { .range = count == 5 };
    struct download *d = &p.download;

    *d = (struct download){
        .data = &p, .begin = on_begin, .take = on_bytes, .on_behalf = true, .whole_ms = WHOLE_MS
    };
    count -= p.range;
    if (count != 4 || origin_parse(slice_text(words[0]), &d->known) != 0 ||
        !origin_is_visited(&d->known) || !take_number(words[1], &d->from) ||
        !take_number(words[2], &d->length) || d->length == 0 || d->from > INT64_MAX ||
        d->length > INT64_MAX || !take_number(words[3], &d->silent_ms) || d->silent_ms == 0 ||
        d->silent_ms > WHOLE_MS) {
        return admin_failed(ADMIN_USAGE, "origin-part is for mounts; users have \"morsel stage\"");
    }
    d->timeout_ms = d->silent_ms < CONNECT_MS_MAX ? d->silent_ms : CONNECT_MS_MAX;
    p.left = d->length;
    if (!drop_rights()) {
        return admin_failed(ADMIN_PROBLEM, "cannot give up root's rights: %s", strerror(errno));
    }
    return fetch(&p);
}
