/* morsel evict: the end of data sets goes now, because its owner says so; through the extended attributes of eviction.h. */
#include "client/admin/admin.h"
#include "client/admin/mount_file.h"
#include "client/admin/pause_file.h"
#include "client/admin/print_file.h"
#include "common/base/status.h"
#include "common/fs/eviction.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

enum { LOOK_MS = 50 };

struct evicted
{
    uint64_t before, kept; /* Bytes of its beginning that were not evicted. */
};

/* 0, or what getxattr(2) says. */
static int read_kept(const char *path, uint64_t *kept)
{
    char text[EVICTION_TEXT_MAX];
    ssize_t count = getxattr(path, KEPT_XATTR, text, sizeof(text) - 1);

    if (count < 0) {
        return errno;
    }
    text[count] = '\0';
    *kept = strtoull(text, NULL, 10);
    return 0;
}

static enum eviction_state read_state(const char *path)
{
    char word[EVICTION_TEXT_MAX];
    ssize_t count = getxattr(path, EVICTION_XATTR, word, sizeof(word));

    return count < 0 ? EVICTION_UNKNOWN : eviction_find(word, (size_t)count);
}

/* Why it does not go, and what its user can do. */
static int refused(const char *path, int code)
{
    switch (read_state(path)) {
    case EVICTION_DATA:
        return admin_failed(ADMIN_PROBLEM,
                            "%s: is data: it is not scratch, so nothing of it is thrown away. "
                            "Delete it to have its "
                            "space; or, if it can be had again, copy it into a directory with "
                            "\"morsel setpolicy DIR "
                            "class=scavenged scratch=yes\", and delete it here",
                            path);
    case EVICTION_STORING:
        return admin_failed(ADMIN_PROBLEM,
                            "%s: was not stored to its end. Store it to its end (\"morsel stage\" "
                            "goes on), or delete it",
                            path);
    case EVICTION_PINNED:
        return admin_failed(ADMIN_PROBLEM, "%s: is pinned; \"morsel unpin %s\" takes that back",
                            path, path);
    case EVICTION_OPEN:
        return admin_failed(ADMIN_PROBLEM, "%s: is in use on a mount; evict it when it is closed",
                            path);
    default:
        break;
    }
    if (code == EPERM || code == EACCES) {
        return admin_failed(ADMIN_PROBLEM,
                            "%s: only its owner, if he may write to it, and root may evict it",
                            path);
    }
    if (code == EBUSY) {
        return admin_failed(
            ADMIN_PROBLEM,
            "%s: benefactors have not deleted yet what went before; try again in a minute", path);
    }
    return admin_failed(ADMIN_PROBLEM, "%s: cannot be evicted: %s", path, strerror(code));
}

/* Is that a matter of moments? Who has just closed it, and benefactors that still delete what went before, are waited for. */
static bool passes(const char *path, int code)
{
    enum eviction_state state = code == EBUSY ? read_state(path) : EVICTION_PINNED;

    return state != EVICTION_PINNED && state != EVICTION_STORING;
}

/* One step after the other, for a large set does not go in one, until nothing more of it can (EINVAL). */
static int evict_down_to(const char *path, uint64_t wanted, uint64_t wait_ms, uint64_t *kept)
{
    char text[EVICTION_TEXT_MAX];
    uint64_t waited_ms = 0;

    (void)snprintf(text, sizeof(text), "%" PRIu64, wanted);
    for (;;) {
        int code = setxattr(path, KEPT_XATTR, text, strlen(text), 0) == 0 ? 0 : errno;

        if (code == 0) {
            waited_ms = 0;
        } else if (waited_ms < wait_ms && passes(path, code)) {
            pause_ms(LOOK_MS);
            waited_ms += LOOK_MS;
        } else {
            return code == EINVAL ? read_kept(path, kept) : code;
        }
    }
}

static int report(const char *path, const struct evicted *e, bool json, json_t *list)
{
    char gone[PRINT_TEXT_MAX], kept[PRINT_TEXT_MAX];

    if (json) {
        return json_array_append_new(list, json_pack("{s:s, s:o, s:o}", "file", path, "evicted",
                                                     print_json_number(e->before - e->kept), "kept",
                                                     print_json_number(e->kept))) == 0
                   ? ADMIN_OK
                   : admin_failed(ADMIN_PROBLEM, "out of memory");
    }
    if (e->before > e->kept) {
        (void)printf("%s: gives back %s of each copy, %s are left\n", path,
                     print_bytes(e->before - e->kept, gone), print_bytes(e->kept, kept));
    } else {
        (void)printf("%s: has no more than %s\n", path, print_bytes(e->kept, kept));
    }
    return ADMIN_OK;
}

static int evict_one(const char *path, const struct eviction_keep *keep,
                     const struct admin_settings *settings, json_t *list)
{
    struct mount_info mount;
    struct evicted e = { 0 };
    struct errmsg err;
    struct stat st;
    int rv = mount_find_morsel(path, &mount, &err);

    if (rv != 0) {
        return admin_failed(rv == MORSEL_INVAL ? ADMIN_USAGE : ADMIN_PROBLEM, "%s", err.text);
    }
    if ((rv = read_kept(path, &e.before)) == ENODATA) {
        return admin_failed(ADMIN_USAGE,
                            "%s: is not a data set on benefactors (class scavenged), or nothing of "
                            "it was stored: there "
                            "is nothing to evict",
                            path);
    }
    if (rv != 0 || stat(path, &st) != 0) {
        return admin_failed(ADMIN_PROBLEM, "%s: %s", path, strerror(rv != 0 ? rv : errno));
    }
    e.kept = e.before;
    rv = evict_down_to(path, eviction_keep_of(keep, (uint64_t)st.st_size), settings->timeout_ms,
                       &e.kept);
    return rv != 0 ? refused(path, rv) : report(path, &e, settings->json, list);
}

/* Of several each is tried; the exit code is that of the first that failed. */
int command_evict(const struct admin_arguments *arguments)
{
    const struct admin_settings *settings = &arguments->settings;
    json_t *list = json_array();
    struct eviction_keep keep;
    int code = ADMIN_OK;

    if (!eviction_keep_parse(settings->keep, &keep)) {
        json_decref(list);
        return admin_failed(ADMIN_USAGE,
                            "--keep: give a size such as 50G, or a part such as 30%%, not \"%s\"",
                            settings->keep);
    }
    for (size_t i = 0; i < arguments->operands_count; i++) {
        int rv = evict_one(arguments->operands[i], &keep, settings, list);

        code = code == ADMIN_OK ? rv : code;
    }
    if (settings->json && !print_json(json_pack("{s:O}", "files", list)) && code == ADMIN_OK) {
        code = ADMIN_PROBLEM;
    }
    json_decref(list);
    return code;
}
