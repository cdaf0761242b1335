/* Files of the cluster, as what is staged (stage_inside_file.h).
 *
 * open -> look: it is of version V -> its bytes, but for the last ones -> look again -> the last ones
 *
 * What was read is of one version when nobody has changed the file between the two looks. That is asked as `morsel recopy` asks it
 * (common/fs/exchange.h): this mount has held a lease on the file without a gap, and so no other one can have written, nor have had
 * anything on its way; and nothing was written through this one. The version alone would not do: it grows when a write is reported, which is
 * behind its bytes. And a data set is sealed with its last byte: so that is written behind the second look, whoever is killed when. */
#include "client/admin/stage_inside_file.h"

#include "client/admin/hidden_file.h"
#include "client/admin/pause_file.h"
#include "common/base/status.h"
#include "common/fs/policy_text.h"
#include "common/rpc/messages.h"

#include <curl/curl.h>

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
    READ_BYTES = 1 << 20,
    SOURCE_TEXT_MAX = 64,
    CLUSTER_DIGITS = 32,
    CALM_MS_MAX =
        5000, /* Who has closed it elsewhere may still write, and the manager hears of it later. */
    CALM_LOOK_MS = 50
};

bool stage_path_url(const char *scheme, const char *path, char url[ORIGIN_URL_MAX + 1])
{
    size_t count = (size_t)snprintf(url, ORIGIN_URL_MAX + 1, "%s", scheme);

    for (; *path != '\0'; path++) {
        bool plain = isalnum((unsigned char)*path) || strchr("/-._~", *path) != NULL;

        if (count + 3 > ORIGIN_URL_MAX) {
            return false;
        }
        count += (size_t)snprintf(url + count, ORIGIN_URL_MAX + 1 - count, plain ? "%c" : "%%%02X",
                                  (unsigned char)*path);
    }
    return true;
}

static int failed(struct errmsg *why, const char *path)
{
    int code = errno;

    errmsg_set(why, "%s: %s", path, strerror(code));
    return code == ENOENT ? MORSEL_NOENT : MORSEL_IO;
}

static bool is_file_url(const char *given)
{
    return strncmp(given, "file://", 7) == 0;
}

/* ---- Where it lies ---- */

/* "CLUSTER VERSION"; false: it lies on no MorselFS. */
static bool source_text(const char *path, char text[SOURCE_TEXT_MAX])
{
    ssize_t count = getxattr(path, SOURCE_XATTR, text, SOURCE_TEXT_MAX - 1);

    if (count <= CLUSTER_DIGITS || text[CLUSTER_DIGITS] != ' ') {
        return false;
    }
    text[count] = '\0';
    return true;
}

static bool is_of_cluster(const char *path, const char *dest)
{
    char ours[SOURCE_TEXT_MAX], theirs[SOURCE_TEXT_MAX], directory[HIDDEN_PATH_MAX];
    struct stat st;

    if (stat(dest, &st) != 0 || !S_ISDIR(st.st_mode)) {
        hidden_directory_of(dest, directory);
        dest = directory;
    }
    return source_text(path, theirs) && source_text(dest, ours) &&
           memcmp(ours, theirs, CLUSTER_DIGITS) == 0;
}

static int check_class(const char *path, struct errmsg *why)
{
    char text[LAYOUT_TEXT_MAX + 1];
    struct layout_text layout;
    ssize_t count = getxattr(path, POLICY_XATTR_LAYOUT, text, LAYOUT_TEXT_MAX);

    if (count < 0) {
        return failed(why, path);
    }
    text[count] = '\0';
    if (layout_parse(text, &layout) != 0 || layout.layout_class == CLASS_SCAVENGED) {
        errmsg_set(why,
                   "%s: lies on benefactors itself; a data set is made of a file of class durable, "
                   "or of one that lies elsewhere",
                   path);
        return MORSEL_INVAL;
    }
    return 0;
}

/* By the number that it has and the path that it has within the cluster. */
static int name_inside(struct stage_inside *inside, char url[ORIGIN_URL_MAX + 1],
                       struct errmsg *why)
{
    char scheme[64], path[2 * MOUNT_TEXT_MAX];
    struct mount_info mount;
    int rv = mount_find(inside->path, &mount, why);
    size_t skip;

    if (rv != 0) {
        return rv;
    }
    skip = strcmp(mount.point, "/") == 0 ? 0 : strlen(mount.point);
    (void)snprintf(path, sizeof(path), "%s%s", strcmp(mount.root, "/") == 0 ? "" : mount.root,
                   inside->path + skip);
    (void)snprintf(scheme, sizeof(scheme), ORIGIN_INSIDE "%" PRIu64, inside->inode);
    if (!stage_path_url(scheme, path, url)) {
        errmsg_set(why, "%s: the path is too long for an origin", inside->path);
        return MORSEL_INVAL;
    }
    inside->is_inside = true;
    return 0;
}

/* Where it lies, if it may be read. */
static int find_path(struct stage_inside *inside, const char *given, struct stat *st,
                     struct errmsg *why)
{
    char *plain = is_file_url(given) ? curl_easy_unescape(NULL, given + 7, 0, NULL) : NULL;
    bool there = realpath(plain != NULL ? plain : given, inside->path) != NULL &&
                 stat(inside->path, st) == 0 &&
                 faccessat(AT_FDCWD, inside->path, R_OK, AT_EACCESS) == 0;

    curl_free(plain);
    return there ? 0 : failed(why, given);
}

int stage_inside_find(struct stage_inside *inside, const char *given, const char *dest,
                      char url[ORIGIN_URL_MAX + 1], struct errmsg *why)
{
    bool is_path = strstr(given, "://") == NULL;
    struct stat st;
    int rv;

    *inside = (struct stage_inside){ .fd = -1 };
    url[0] = '\0';
    if (!is_path && !is_file_url(given)) {
        return 0;
    }
    if ((rv = find_path(inside, given, &st, why)) != 0) {
        return is_path ? rv : 0; /* Whoever fetches file: says it. */
    }
    if (S_ISREG(st.st_mode) && is_of_cluster(inside->path, dest)) {
        inside->inode = st.st_ino;
        rv = check_class(inside->path, why);
        return rv != 0 ? rv : name_inside(inside, url, why);
    }
    if (is_path && !S_ISREG(st.st_mode)) {
        errmsg_set(why, "%s: is no regular file%s", given,
                   S_ISDIR(st.st_mode) ? "; \"morsel stage -r\" stages those of a directory" : "");
        return MORSEL_INVAL;
    }
    if (is_path && !stage_path_url("file://", inside->path, url)) {
        errmsg_set(why, "%s: the path is too long for an origin", given);
        return MORSEL_INVAL;
    }
    return 0;
}

/* ---- Looking ---- */

static bool said(struct errmsg *why, int code)
{
    switch (code) {
    case EBUSY:
        errmsg_set(why, "another mount has it open for writing; stage it when it is closed there");
        break;
    case EAGAIN:
        errmsg_set(why, "it is written all the time; stage it when it is at rest");
        break;
    case EOPNOTSUPP:
        errmsg_set(why, "a mount that keeps nothing (-o nocache) cannot tell whether it is written "
                        "meanwhile; stage it through another one");
        break;
    default:
        errmsg_set(why, "%s", strerror(code));
    }
    return false;
}

/* Everything that was written here is at the manager, and we have it for ourselves as long as the state is that. */
static bool hold(const struct stage_inside *inside, int calm_ms, struct exchange_state *state,
                 struct errmsg *why)
{
    for (int waited = 0; fsync(inside->fd) != 0 || ioctl(inside->fd, EXCHANGE_BEGIN, state) != 0;
         waited += CALM_LOOK_MS) {
        if ((errno != EBUSY && errno != EAGAIN) || waited >= calm_ms) {
            return said(why, errno);
        }
        pause_ms(CALM_LOOK_MS);
    }
    return true;
}

static bool look(const struct stage_inside *inside, int calm_ms, struct exchange_state *state,
                 struct origin *now, struct errmsg *why)
{
    char text[SOURCE_TEXT_MAX];
    struct stat st;
    ssize_t count;

    if (!hold(inside, calm_ms, state, why)) {
        return false;
    }
    if (fstat(inside->fd, &st) != 0 ||
        (count = fgetxattr(inside->fd, SOURCE_XATTR, text, sizeof(text) - 1)) < 0) {
        return said(why, errno);
    }
    text[count] = '\0';
    if (st.st_ino != inside->inode || count <= CLUSTER_DIGITS + 1) {
        errmsg_set(why, "another file lies there by now; stage it again");
        return false;
    }
    (void)snprintf(now->etag, sizeof(now->etag), "\"%s\"", text + CLUSTER_DIGITS + 1);
    now->size = (uint64_t)st.st_size;
    return true;
}

/* ---- Reading ---- */

struct reading
{
    struct stage_inside *inside;
    struct download *d;
    struct origin origin; /* As it was when it began, */
    struct exchange_state state;
    char *bytes;
};

static bool is_unchanged(const struct reading *r)
{
    struct origin now = r->origin;
    struct exchange_state state;
    struct errmsg why;

    return look(r->inside, 0, &state, &now, &why) && origin_same(&now, &r->origin) &&
           state.lease == r->state.lease && state.changes == r->state.changes;
}

static enum download_end read_all(struct reading *r, uint64_t at, struct errmsg *why)
{
    while (at < r->origin.size) {
        size_t most = r->origin.size - at < READ_BYTES ? (size_t)(r->origin.size - at) : READ_BYTES;
        ssize_t count = pread(r->inside->fd, r->bytes, most, (off_t)at);

        if (count < 0) {
            errmsg_set(why, "%s", strerror(errno));
            return DOWNLOAD_BROKEN;
        }
        at += (uint64_t)count;
        if (count == 0 || (at == r->origin.size && !is_unchanged(r))) {
            r->inside->has_changed = true;
            errmsg_set(why,
                       "was written, or opened for writing elsewhere, while it was read; stage it "
                       "again");
            return DOWNLOAD_REFUSED;
        }
        if (!r->d->take(r->d->data, r->bytes, (size_t)count)) {
            return DOWNLOAD_STOPPED;
        }
    }
    return DOWNLOAD_DONE;
}

static enum download_end read_open(struct reading *r, struct errmsg *why)
{
    const struct download *d = r->d;
    uint64_t at;

    origin_init(&r->origin);
    memcpy(r->origin.url, d->known.url, sizeof(r->origin.url));
    if (!look(r->inside, CALM_MS_MAX, &r->state, &r->origin, why)) {
        return DOWNLOAD_REFUSED;
    }
    at = d->from <= r->origin.size ? d->from : 0;
    return d->begin(d->data, &r->origin, at) ? read_all(r, at, why) : DOWNLOAD_STOPPED;
}

enum download_end stage_inside_run(struct stage_inside *inside, struct download *d,
                                   struct errmsg *why)
{
    struct reading reading = { .inside = inside, .d = d, .bytes = malloc(READ_BYTES) };
    enum download_end end = DOWNLOAD_REFUSED;

    inside->has_changed = false;
    inside->fd = open(inside->path, O_RDONLY | O_CLOEXEC);
    if (reading.bytes != NULL && inside->fd >= 0) {
        end = read_open(&reading, why);
    } else {
        (void)said(why, inside->fd < 0 ? errno : ENOMEM);
    }
    if (inside->fd >= 0) {
        (void)close(inside->fd);
    }
    free(reading.bytes);
    return end;
}
