/* Reads /proc/self/mountinfo: the longest mount point that begins a path is the one it lies on. */
#include "client/admin/mount_file.h"

#include "common/base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* proc(5): blanks, tabs, newlines and backslashes stand as \040 and so on. */
static void unescape(const char *from, char *to, size_t to_max)
{
    size_t used = 0;

    while (*from != '\0' && used + 1 < to_max) {
        unsigned code;

        if (from[0] == '\\' && sscanf(from + 1, "%3o", &code) == 1) {
            to[used++] = (char)code;
            from += 4;
        } else {
            to[used++] = *from++;
        }
    }
    to[used] = '\0';
}

/* "36 35 98:0 /root /point options [tags] - type source super": the fields that we want. */
static bool parse_line(char *line, unsigned long *id_out, struct mount_info *mount)
{
    char *dash = strstr(line, " - ");
    char *fields[5];
    char *rest = line;
    char *type;
    char *source;

    if (dash == NULL) {
        return false;
    }
    for (size_t i = 0; i < 5; i++) {
        fields[i] = strsep(&rest, " ");
        if (fields[i] == NULL || rest == NULL) {
            return false;
        }
    }
    rest = dash + 3;
    type = strsep(&rest, " ");
    source = strsep(&rest, " \n");
    if (type == NULL || source == NULL) {
        return false;
    }
    *id_out = strtoul(fields[0], NULL, 10);
    (void)snprintf(mount->type, sizeof(mount->type), "%s", type);
    unescape(source, mount->source, sizeof(mount->source));
    unescape(fields[3], mount->root, sizeof(mount->root));
    unescape(fields[4], mount->point, sizeof(mount->point));
    return true;
}

static void each_line(void (*visit)(void *data, unsigned long id, const struct mount_info *mount),
                      void *data)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    struct mount_info mount;
    unsigned long id;
    char *line = NULL;
    size_t line_max = 0;

    if (file == NULL) {
        return;
    }
    while (getline(&line, &line_max, file) > 0) {
        if (parse_line(line, &id, &mount)) {
            visit(data, id, &mount);
        }
    }
    free(line);
    (void)fclose(file);
}

struct visit
{
    void (*visit)(void *data, const struct mount_info *mount);
    void *data;
};

static void visit_any(void *data, unsigned long id, const struct mount_info *mount)
{
    const struct visit *v = data;

    (void)id;
    v->visit(v->data, mount);
}

void mount_each(void (*visit)(void *data, const struct mount_info *mount), void *data)
{
    struct visit v = { visit, data };

    each_line(visit_any, &v);
}

struct search
{
    const unsigned long *id; /* NULL: any. */
    const char *point;       /* NULL: any. */
    struct mount_info *mount_out;
    bool found;
};

/* The last mount that fits: a later one at the same point hides the earlier. */
static void compare(void *data, unsigned long id, const struct mount_info *mount)
{
    struct search *s = data;

    if ((s->id == NULL || id == *s->id) &&
        (s->point == NULL || strcmp(mount->point, s->point) == 0)) {
        *s->mount_out = *mount;
        s->found = true;
    }
}

static bool find_line(const unsigned long *id, const char *point, struct mount_info *mount_out)
{
    struct search s = { id, point, mount_out, false };

    each_line(compare, &s);
    return s.found;
}

bool mount_at(const char *point, struct mount_info *mount_out)
{
    return find_line(NULL, point, mount_out);
}

int mount_find(const char *path, struct mount_info *mount_out, struct errmsg *err)
{
    unsigned long id;
    struct statx st;

    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &st) != 0) {
        int rv = status_from_errno(errno);

        errmsg_set(err, "%s: %s", path, strerror(errno));
        return rv;
    }
    id = (unsigned long)st.stx_mnt_id;
    if ((st.stx_mask & STATX_MNT_ID) == 0 || !find_line(&id, NULL, mount_out)) {
        errmsg_set(err, "%s: cannot find out where it is mounted (is /proc mounted?)", path);
        return MORSEL_NOTSUP;
    }
    return 0;
}

int mount_find_morsel(const char *path, struct mount_info *mount_out, struct errmsg *err)
{
    int rv = mount_find(path, mount_out, err);

    if (rv != 0) {
        return rv;
    }
    if (strcmp(mount_out->type, "fuse.morsel") != 0) {
        errmsg_set(err, "%s: lies on %s (%s), not on a mounted MorselFS", path, mount_out->point,
                   mount_out->type);
        return MORSEL_INVAL;
    }
    return 0;
}
