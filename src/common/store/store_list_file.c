/* Walks through the directories of objects: to list them, to count them. */
#include "common/store/store_file.h"

#include "common/base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STAT_BLOCK_BYTES = 512 };

static bool listing_add(struct object_list *l, struct object_id id)
{
    if (l->count == l->capacity) {
        size_t capacity = l->capacity == 0 ? 256 : l->capacity * 2;
        struct object_id *ids = realloc(l->ids, capacity * sizeof(*ids));

        if (ids == NULL) {
            return false;
        }
        l->ids = ids;
        l->capacity = capacity;
    }
    l->ids[l->count++] = id;
    return true;
}

static int compare_hash(const void *a, const void *b)
{
    uint64_t x = store_hash(*(const struct object_id *)a);
    uint64_t y = store_hash(*(const struct object_id *)b);

    return (x > y) - (x < y);
}

/* NULL: the subdirectory does not exist, or an error (`*rv`). */
static DIR *subdir_open(const struct store *store, uint32_t number, int *rv, struct errmsg *err)
{
    char name[4];
    DIR *dir = NULL;
    int fd;

    *rv = 0;
    if (!atomic_load(&store->subdir_there[number])) {
        return NULL;
    }
    snprintf(name, sizeof(name), "%03x", number & 0xfff);
    fd = openat(store->objects_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && (dir = fdopendir(fd)) == NULL) {
        close(fd);
    }
    if (dir == NULL && errno != ENOENT) {
        *rv = status_from_errno(errno);
        errmsg_set(err, "list objects/%s: %s", name, strerror(errno));
    }
    return dir;
}

/* NULL: there is no more, or an error (`*rv`): what the disk does not give is not nothing. */
static struct dirent *next_entry(DIR *dir, uint32_t number, int *rv, struct errmsg *err)
{
    struct dirent *entry;

    errno = 0;
    entry = readdir(dir);
    if (entry == NULL && errno != 0) {
        *rv = status_from_errno(errno);
        errmsg_set(err, "list objects/%03x: %s", number, strerror(errno));
    }
    return entry;
}

static int listing_read(struct object_list *l, const struct store *store, uint32_t number,
                        uint64_t above, struct errmsg *err)
{
    struct dirent *entry;
    int rv;
    DIR *dir = subdir_open(store, number, &rv, err);

    l->count = 0;
    if (dir == NULL) {
        return rv;
    }
    while (rv == 0 && (entry = next_entry(dir, number, &rv, err)) != NULL) {
        struct object_id id;

        if (store_name_parse(entry->d_name, &id) && store_hash(id) > above && !listing_add(l, id)) {
            rv = MORSEL_NOMEM;
        }
    }
    closedir(dir);
    if (l->count > 0) {
        qsort(l->ids, l->count, sizeof(*l->ids), compare_hash);
    }
    return rv;
}

int store_list(struct store *store, uint64_t *cursor, struct object_id *ids, size_t ids_max,
               size_t *count_out, struct errmsg *err)
{
    struct object_list l = { .ids = NULL };
    uint32_t number = (uint32_t)(*cursor >> 52);
    int rv = 0;

    *count_out = 0;
    for (; rv == 0 && number < STORE_SUBDIRS && *count_out < ids_max; number++) {
        rv = listing_read(&l, store, number, *cursor, err);
        for (size_t i = 0; rv == 0 && i < l.count && *count_out < ids_max; i++) {
            ids[(*count_out)++] = l.ids[i];
            *cursor = store_hash(l.ids[i]);
        }
        if (l.count > 0 && *count_out == ids_max) {
            break; /* There may be more in this one. */
        }
    }
    if (rv == 0 && *count_out < ids_max) {
        *cursor = UINT64_MAX;
    }
    free(l.ids);
    return rv;
}

int store_disk_bytes(struct store *store, struct object_id id, uint64_t *bytes_out,
                     struct errmsg *err)
{
    char name[STORE_NAME_BYTES];
    struct stat st;

    *bytes_out = 0;
    store_name(id, name);
    if (fstatat(store->objects_fd, name, &st, 0) == 0) {
        *bytes_out = (uint64_t)st.st_blocks * STAT_BLOCK_BYTES;
    } else if (errno != ENOENT) {
        int rv = status_from_errno(errno);

        errmsg_set(err, "stat objects/%s: %s", name, strerror(errno));
        return rv;
    }
    return 0;
}

/* One file of a subdirectory. What holds no byte was made by a write that did not come about, and goes to `empty`. */
static int stock_entry(struct store *store, int dir, const char *name, uint32_t step,
                       struct object_list *list, struct object_list *empty, struct errmsg *err)
{
    struct object_id id;
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        int rv = errno == ENOENT ? 0 : status_from_errno(errno);

        errmsg_set(err, "stat objects/%03x/%s: %s", step, name, strerror(errno));
        return rv;
    }
    if (!S_ISREG(st.st_mode)) {
        return 0;
    }
    atomic_fetch_add(&store->used, (int64_t)store_file_bytes((uint64_t)st.st_size));
    if (!store_name_parse(name, &id) || store_hash(id) >> 52 != step) {
        return 0;
    }
    return listing_add(st.st_size <= CHECKSUMS_PAGE_BYTES ? empty : list, id) ? 0 : MORSEL_NOMEM;
}

int store_take_stock(struct store *store, uint32_t step, struct object_list *list,
                     struct errmsg *err)
{
    struct object_list empty = { .ids = NULL };
    struct dirent *entry;
    int rv;
    DIR *dir = subdir_open(store, step, &rv, err);

    while (dir != NULL && rv == 0 && (entry = next_entry(dir, step, &rv, err)) != NULL) {
        rv = stock_entry(store, dirfd(dir), entry->d_name, step, list, &empty, err);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    for (size_t i = 0; rv == 0 && i < empty.count; i++) {
        (void)store_delete(store, empty.ids[i], NULL); /* If it stays it is not named either. */
    }
    free(empty.ids);
    return rv;
}

uint64_t store_place(struct object_id id)
{
    return store_hash(id);
}

bool store_is_gone(const struct store *store)
{
    struct stat st;

    return fstat(store->objects_fd, &st) == 0 && st.st_nlink == 0;
}

int store_subdirs(struct store *store, struct errmsg *err)
{
    int fd = openat(store->objects_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int rv = 0;

    if (dir == NULL) {
        rv = status_from_errno(errno);
        errmsg_set(err, "list objects: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return rv;
    }
    for (errno = 0; (entry = readdir(dir)) != NULL; errno = 0) {
        char *end;
        unsigned long number = strtoul(entry->d_name, &end, 16);

        if (end == entry->d_name + 3 && *end == 0 && number < STORE_SUBDIRS) {
            atomic_store(&store->subdir_there[number], true);
            atomic_store(&store->subdir_synced[number], true);
        }
    }
    if (errno != 0) {
        rv = status_from_errno(errno);
        errmsg_set(err, "list objects: %s", strerror(errno));
    }
    closedir(dir);
    return rv;
}

int store_count(struct store *store, uint64_t *objects_out, struct errmsg *err)
{
    uint64_t objects = 0;
    int rv = 0;

    for (uint32_t number = 0; rv == 0 && number < STORE_SUBDIRS; number++) {
        DIR *dir = subdir_open(store, number, &rv, err);
        struct dirent *entry;

        while (dir != NULL && rv == 0 && (entry = next_entry(dir, number, &rv, err)) != NULL) {
            objects += entry->d_name[0] != '.';
        }
        if (dir != NULL) {
            closedir(dir);
        }
    }
    *objects_out = objects;
    return rv;
}
