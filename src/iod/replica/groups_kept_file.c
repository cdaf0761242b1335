/* A GroupSet in a file of its own; and a number beside it. */
#include "iod/replica/groups_kept_file.h"

#include "common/base/replace_file.h"
#include "common/base/status.h"
#include "common/fs/placing.h"
#include "iod/kept_file.h"
#include "iod/replica/group.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool group_sound(const Morsel__Group *g, uint32_t above)
{
    size_t held = 0;

    if (g->number <= above || g->number >= PLACING_GROUPS_MAX || g->n_servers < 1 ||
        g->n_servers > REPLICAS_MAX) {
        return false;
    }
    for (size_t i = 0; i < g->n_servers; i++) {
        for (size_t j = 0; j < i; j++) {
            if (g->servers[i] != 0 && g->servers[i] == g->servers[j]) {
                return false;
            }
        }
        held += g->servers[i] != 0; /* 0: vacant. */
    }
    return held > 0 && (g->n_since == 0 || g->n_since == g->n_servers) &&
           g->leaving >> g->n_servers == 0 && g->forced_place < g->n_servers &&
           g->forced < GROUP_FORCED_VERSION_END;
}

static bool is_sound(const ProtobufCMessage *message)
{
    const Morsel__GroupSet *set = (const Morsel__GroupSet *)message;
    uint32_t above = 0;

    if (set->version == 0 || set->n_groups > SERVER_GROUPS_MAX || set->n_servers > SERVERS_MAX) {
        return false;
    }
    for (size_t i = 0; i < set->n_groups; i++) {
        if (!group_sound(set->groups[i], above)) {
            return false;
        }
        above = set->groups[i]->number;
    }
    return true;
}

static const struct kept_kind groups = { .name = "groups",
                                         .magic = { 'M', 'O', 'R', 'S', 'G', 'S', 'E', 'T' },
                                         .descriptor = &morsel__group_set__descriptor,
                                         .sound = is_sound };

int groups_kept_read(const char *dir, Morsel__GroupSet **set, struct errmsg *err)
{
    return kept_read(&groups, dir, (ProtobufCMessage **)set, err);
}

bool groups_kept_fill(const Morsel__GroupSet *set, struct buf *bytes)
{
    return kept_fill(&groups, &set->base, bytes);
}

int groups_kept_write(const char *dir, const struct buf *bytes, struct errmsg *err)
{
    return kept_write(&groups, dir, bytes, err);
}

/* ---- Starts ---- */

static int fail(const char *what, const char *dir, struct errmsg *err)
{
    int code = errno;

    errmsg_set(err, "%s %s/starts: %s", what, dir, strerror(code));
    return status_from_errno(code);
}

/* 0: none yet. */
static int read_starts(int dir_fd, const char *dir, uint64_t *starts, struct errmsg *err)
{
    int fd = openat(dir_fd, "starts", O_RDONLY | O_CLOEXEC);
    char text[32] = "", *end;
    ssize_t count;

    *starts = 0;
    if (fd < 0) {
        return errno == ENOENT ? MORSEL_OK : fail("open", dir, err);
    }
    count = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (count < 0) {
        return fail("read", dir, err);
    }
    errno = 0;
    *starts = strtoull(text, &end, 10);
    if (count == 0 || *end != '\n' || end == text || errno != 0 || *starts == 0 ||
        *starts >= UINT64_C(1) << 40) {
        errmsg_set(err, "%s/starts is damaged: it should be the number of starts of this server",
                   dir);
        return MORSEL_CORRUPT;
    }
    return MORSEL_OK;
}

int groups_count_start(const char *dir, uint64_t *start, struct errmsg *err)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rv, length;
    uint64_t before;
    char text[32];

    *start = 0;
    if (dir_fd < 0) {
        return fail("open", dir, err);
    }
    rv = read_starts(dir_fd, dir, &before, err);
    if (rv == MORSEL_OK) {
        length = snprintf(text, sizeof(text), "%" PRIu64 "\n", before + 1);
        if (replace_file(dir_fd, "starts", text, (size_t)length, false) != 0) {
            rv = fail("write", dir, err);
        } else {
            *start = before + 1;
        }
    }
    (void)close(dir_fd);
    return rv;
}
