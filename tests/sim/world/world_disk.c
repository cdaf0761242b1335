/* The disks of the hosts. What a program writes is there at once, and stays when the program is
 * killed. When the machine loses its power, what was not synced is lost or kept, page by page, some
 * pages in part, sector by sector; likewise lengths, and names of which the directory was not
 * synced. Of a page's versions any may be found that the kernel may have written: it writes when it
 * likes. A name that was renamed away does not come back.
 *
 * Done by remembering: before a page changes, what is on the disk is put aside (struct page); who
 * loses a name, in a directory beside the disks. A sync forgets what was put aside, a loss of power
 * brings some of it back. Linked with --wrap (CMakeLists.txt). */
#include "tests/sim/world/world.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, SECTOR_BYTES = 512, BASE_NAME_MAX = 64 };

struct page
{
    uint64_t index;
    bool
        missed; /* The disk refused it, and the kernel takes it for written: no sync writes it any more. */
    uint8_t disk[PAGE_BYTES];
};

/* One that differs from what is on the disk. */
struct file
{
    struct list node;
    struct world_host *host;
    ino_t inode;
    int fd;
    uint64_t size;  /* On the disk. */
    uint64_t least; /* The shortest that it was since. */
    bool refused;   /* The last sync was: its size is not on the disk. */
    bool untold;    /* It was one of everything: the next sync of the file says so, too. */
    struct page **pages;
    size_t count, capacity;
};

/* A name that leads elsewhere on the disk. */
struct name
{
    struct list node;
    struct world_host *host;
    ino_t dir;
    int dir_fd;
    char base[BASE_NAME_MAX];
    unsigned gone; /* Who had it, in "gone"; 0: nobody. */
};

static struct
{
    struct list files, names;
    unsigned gone;
} disks = { { &disks.files, &disks.files }, { &disks.names, &disks.names }, 0 };

int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_mkdirat(int dir, const char *path, mode_t mode);
int __wrap_unlinkat(int dir, const char *path, int flags);
int __wrap_renameat(int dir, const char *path, int to_dir, const char *to);
ssize_t __wrap_write(int fd, const void *bytes, size_t count);
ssize_t __wrap_writev(int fd, const struct iovec *iov, int count);
ssize_t __real_writev(int fd, const struct iovec *iov, int count);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int count, off_t offset);
int __wrap_ftruncate(int fd, off_t size);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_syncfs(int fd);
int __real_openat(int dir, const char *path, int flags, ...);
int __real_mkdirat(int dir, const char *path, mode_t mode);
int __real_unlinkat(int dir, const char *path, int flags);
int __real_renameat(int dir, const char *path, int to_dir, const char *to);
ssize_t __real_write(int fd, const void *bytes, size_t count);
ssize_t __real_pwrite(int fd, const void *bytes, size_t count, off_t offset);
ssize_t __real_pwritev(int fd, const struct iovec *iov, int count, off_t offset);
int __real_ftruncate(int fd, off_t size);
int __real_fallocate(int fd, int mode, off_t offset, off_t length);

static struct world_host *host_now(void)
{
    return the_world == NULL || the_world->current == NULL ? NULL : the_world->current->host;
}

/* ---- Pages ---- */

static uint64_t size_of(int fd)
{
    struct stat st;

    CHECK(fstat(fd, &st) == 0);
    return (uint64_t)st.st_size;
}

/* NULL: not a file, or nobody's. */
static struct file *file_of(int fd)
{
    struct stat st;
    char path[32];
    struct file *f;

    if (host_now() == NULL || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return NULL;
    }
    LIST_FOREACH(node, &disks.files)
    {
        f = LIST_ENTRY(node, struct file, node);
        if (f->inode == st.st_ino) {
            return f;
        }
    }
    f = calloc(1, sizeof(*f));
    CHECK(f != NULL);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    f->host = host_now();
    f->inode = st.st_ino;
    f->fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(f->fd >= 0);
    f->size = f->least = (uint64_t)st.st_size;
    list_init(&f->node);
    list_push_back(&disks.files, &f->node);
    return f;
}

/* It is on the disk as it is. */
static void file_free(struct file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->pages[i]);
    }
    free(f->pages);
    (void)close(f->fd);
    list_remove(&f->node);
    free(f);
}

/* Where the page is, or would be. */
static size_t page_at(const struct file *f, uint64_t index)
{
    size_t low = 0, high = f->count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (f->pages[middle]->index < index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void page_put_aside(struct file *f, uint64_t index)
{
    size_t at = page_at(f, index);
    struct page *page;

    if (at < f->count && f->pages[at]->index == index) {
        f->pages[at]->missed = false;
        return;
    }
    if (f->count == f->capacity) {
        f->capacity = f->capacity * 2 + 16;
        f->pages = realloc(f->pages, f->capacity * sizeof(void *));
        CHECK(f->pages != NULL);
    }
    page = calloc(1, sizeof(*page));
    CHECK(page != NULL);
    page->index = index;
    CHECK(pread(f->fd, page->disk, PAGE_BYTES, (off_t)(index * PAGE_BYTES)) >= 0);
    memmove(&f->pages[at + 1], &f->pages[at], (f->count - at) * sizeof(void *));
    f->pages[at] = page;
    f->count++;
}

/* All of [from, to) that is no hole. */
static void put_aside(struct file *f, uint64_t from, uint64_t to, bool holes)
{
    while (from < to) {
        off_t data = holes ? (off_t)from : lseek(f->fd, (off_t)from, SEEK_DATA);

        if (data < 0 || (uint64_t)data >= to) {
            return;
        }
        page_put_aside(f, (uint64_t)data / PAGE_BYTES);
        from = ((uint64_t)data / PAGE_BYTES + 1) * PAGE_BYTES;
    }
}

static void put_aside_write(int fd, uint64_t offset, size_t count)
{
    struct file *f = file_of(fd);

    if (f != NULL) {
        put_aside(f, offset, offset + count, true);
    }
}

static void put_aside_cut(int fd, uint64_t size)
{
    struct file *f = file_of(fd);

    if (f != NULL) {
        put_aside(f, size, size_of(fd), false);
        f->least = size < f->least ? size : f->least;
    }
}

/* That it was cut is on the disk: what was cut off does not come back. */
static void cut_is_there(struct file *f)
{
    for (size_t i = page_at(f, f->least / PAGE_BYTES); i < f->count; i++) {
        uint64_t start = f->pages[i]->index * PAGE_BYTES;
        uint64_t kept = f->least > start ? f->least - start : 0;

        memset(f->pages[i]->disk + kept, 0, PAGE_BYTES - kept);
    }
    f->size = f->size < f->least ? f->size : f->least;
}

/* Its size is on the disk, and one of so many of its pages. */
static void write_back(struct file *f, uint64_t one_of)
{
    size_t kept = 0;

    cut_is_there(f);
    f->size = f->least = size_of(f->fd);
    f->refused = false;
    for (size_t i = 0; i < f->count; i++) {
        if (!f->pages[i]->missed && world_chance(one_of)) {
            free(f->pages[i]);
        } else {
            f->pages[kept++] = f->pages[i];
        }
    }
    f->count = kept;
}

/* The kernel writes some of it, unasked. */
static void write_back_some(int fd)
{
    struct file *f = host_now() != NULL && world_chance(6) ? file_of(fd) : NULL;

    if (f != NULL && !f->refused) {
        write_back(f, 2);
    }
}

static void synced(struct file *f)
{
    write_back(f, 1);
    if (f->count == 0) {
        file_free(f);
    }
}

/* Some of it is written, its size is not; of the rest the kernel tells once, and forgets that it is not. */
static void sync_refused(struct file *f)
{
    size_t kept = 0;

    f->refused = true;
    for (size_t i = 0; i < f->count; i++) {
        if (f->least >= f->size && !f->pages[i]->missed && world_chance(2)) {
            free(f->pages[i]);
        } else {
            f->pages[i]->missed = true;
            f->pages[kept++] = f->pages[i];
        }
    }
    f->count = kept;
}

/* Not two writes in a row: what takes a change back that was refused is taken, or there would be damage by right. */
bool world_disk_refuses(enum world_disk_fault fault)
{
    struct world_host *host = host_now();
    bool refuses = host != NULL && host->disk_fault == fault &&
                   host->disk_fails_until_ns > the_world->now_ns &&
                   (fault == WORLD_DISK_FULL || world_chance(2));

    if (fault == WORLD_DISK_WRITES && host != NULL) {
        refuses = refuses && !host->disk_spares;
        host->disk_spares = refuses;
    }
    if (refuses) {
        the_world->counts.disk_refusals++;
        host->disk_refused =
            host->disk_refused || fault == WORLD_DISK_SYNCS || fault == WORLD_DISK_WRITES;
        the_world->bytes_refused = the_world->bytes_refused || fault == WORLD_DISK_READS;
        errno = fault == WORLD_DISK_FULL ? ENOSPC : EIO;
    }
    return refuses;
}

/* ---- Names ---- */

static void gone_path(unsigned number, char *path, size_t size)
{
    (void)snprintf(path, size, "gone/%u", number);
}

static void name_free(struct name *n)
{
    (void)close(n->dir_fd);
    list_remove(&n->node);
    free(n);
}

/* `path` leads elsewhere from now on: to nobody, when `gone` is to take who has it. */
static void name_changes(int dir, const char *path, bool had)
{
    const char *slash = strrchr(path, '/');
    struct name *n = calloc(1, sizeof(*n));
    char parent[BASE_NAME_MAX] = ".", gone[32];
    struct stat st;
    bool known = false;

    CHECK(n != NULL && strlen(path) < BASE_NAME_MAX);
    if (slash != NULL) {
        (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
    }
    (void)snprintf(n->base, sizeof(n->base), "%s", slash == NULL ? path : slash + 1);
    n->host = host_now();
    n->dir_fd = __real_openat(dir, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(n->dir_fd >= 0 && fstat(n->dir_fd, &st) == 0);
    n->dir = st.st_ino;
    list_init(&n->node);
    if (had) {
        (void)mkdir("gone", 0700);
        n->gone = ++disks.gone;
        gone_path(n->gone, gone, sizeof(gone));
        CHECK(__real_renameat(dir, path, AT_FDCWD, gone) == 0);
    }
    LIST_FOREACH(node, &disks.names)
    {
        struct name *other = LIST_ENTRY(node, struct name, node);

        known = known || (other->dir == n->dir && strcmp(other->base, n->base) == 0);
    }
    list_push_back(&disks.names, &n->node);
    if (known) { /* The disk has what it had. */
        name_free(n);
    }
}

/* What they lead to now, they lead to on the disk. */
static void names_are_there(const struct world_host *host, ino_t dir, uint64_t one_of)
{
    LIST_FOREACH_SAFE(node, &disks.names)
    {
        struct name *n = LIST_ENTRY(node, struct name, node);

        if (n->host == host && (dir == 0 || n->dir == dir) && world_chance(one_of)) {
            name_free(n);
        }
    }
}

/* ---- System calls ---- */

int __wrap_openat(int dir, const char *path, int flags, ...)
{
    bool changes = host_now() != NULL && (flags & (O_CREAT | O_TRUNC)) != 0;
    bool had = changes && faccessat(dir, path, F_OK, 0) == 0;
    mode_t mode = 0;
    va_list args;
    int fd;

    if ((flags & O_CREAT) != 0) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    fd = __real_openat(dir, path, changes ? flags & ~O_TRUNC : flags, mode);
    if (fd >= 0 && changes && had && (flags & O_TRUNC) != 0) {
        if (__wrap_ftruncate(fd, 0) != 0) {
            (void)close(fd);
            errno = EIO;
            return -1;
        }
    } else if (fd >= 0 && changes && !had) {
        name_changes(dir, path, false);
    }
    return fd;
}

int __wrap_mkdirat(int dir, const char *path, mode_t mode)
{
    int rv = __real_mkdirat(dir, path, mode);

    if (rv == 0 && host_now() != NULL) {
        name_changes(dir, path, false);
    }
    return rv;
}

int __wrap_unlinkat(int dir, const char *path, int flags)
{
    if (host_now() == NULL || faccessat(dir, path, F_OK, 0) != 0) {
        return __real_unlinkat(dir, path, flags);
    }
    name_changes(dir, path, true);
    return 0;
}

int __wrap_renameat(int dir, const char *path, int to_dir, const char *to)
{
    if (host_now() != NULL) {
        name_changes(to_dir, to, faccessat(to_dir, to, F_OK, 0) == 0);
        names_are_there(host_now(), 0, 8);
    }
    return __real_renameat(dir, path, to_dir, to);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
    struct iovec iov = { (void *)(uintptr_t)bytes, count };
    off_t at;
    ssize_t rv;

    if (kernel_device_write(fd, &iov, 1, &rv)) {
        return rv;
    }
    at = host_now() == NULL ? -1 : lseek(fd, 0, SEEK_CUR);
    if (at >= 0) {
        put_aside_write(fd, (uint64_t)at, count);
    }
    return __real_write(fd, bytes, count);
}

ssize_t __wrap_writev(int fd, const struct iovec *iov, int count)
{
    ssize_t rv;

    return kernel_device_write(fd, iov, count, &rv) ? rv : __real_writev(fd, iov, count);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t count, off_t offset)
{
    ssize_t rv;

    if (world_disk_refuses(WORLD_DISK_WRITES)) {
        return -1;
    }
    put_aside_write(fd, (uint64_t)offset, count);
    rv = __real_pwrite(fd, bytes, count, offset);
    write_back_some(fd);
    return rv;
}

ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
    size_t total = 0;
    ssize_t rv;

    if (world_disk_refuses(WORLD_DISK_WRITES)) {
        return -1;
    }
    for (int i = 0; i < count; i++) {
        total += iov[i].iov_len;
    }
    put_aside_write(fd, (uint64_t)offset, total);
    rv = __real_pwritev(fd, iov, count, offset);
    write_back_some(fd);
    return rv;
}

int __wrap_ftruncate(int fd, off_t size)
{
    if (world_disk_refuses(WORLD_DISK_WRITES)) {
        return -1;
    }
    put_aside_cut(fd, (uint64_t)size);
    return __real_ftruncate(fd, size);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
    struct file *f;

    if (world_disk_refuses(WORLD_DISK_WRITES)) {
        return -1;
    }
    f = file_of(fd);
    if (f != NULL) {
        put_aside(f, (uint64_t)offset, (uint64_t)(offset + length), false);
    }
    return __real_fallocate(fd, mode, offset, length);
}

static bool sync_file(struct file *f, bool refused)
{
    bool told = f->untold;

    f->untold = false;
    refused ? sync_refused(f) : synced(f);
    return !refused && !told;
}

int __wrap_fsync(int fd)
{
    struct stat st;
    struct file *f;
    bool good;

    if (host_now() == NULL || fstat(fd, &st) != 0) {
        return 0;
    }
    good = !world_disk_refuses(WORLD_DISK_SYNCS);
    if (S_ISDIR(st.st_mode)) {
        names_are_there(host_now(), st.st_ino, good ? 1 : 2);
    } else if ((f = file_of(fd)) != NULL) {
        good = sync_file(f, !good);
    }
    errno = good ? errno : EIO;
    return good ? 0 : -1;
}

int __wrap_fdatasync(int fd)
{
    return __wrap_fsync(fd);
}

/* The kernel tells everybody who has it open of what it could not write, whoever asked for that; of one that nobody has
 * open it may forget it. By the program, that is: one of the descriptors is ours. */
static bool is_open(const struct file *f)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    struct stat ours, st;
    unsigned count = 0;

    CHECK(dir != NULL && fstat(f->fd, &ours) == 0);
    while ((entry = readdir(dir)) != NULL) {
        count += fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && st.st_ino == ours.st_ino &&
                 st.st_dev == ours.st_dev;
    }
    (void)closedir(dir);
    return count > 1;
}

int __wrap_syncfs(int fd)
{
    bool refused = world_disk_refuses(WORLD_DISK_SYNCS);

    (void)fd;
    LIST_FOREACH_SAFE(node, &disks.files)
    {
        struct file *f = LIST_ENTRY(node, struct file, node);

        if (f->host == host_now() && refused) {
            sync_refused(f);
            f->untold = f->untold || (f->count > 0 && is_open(f));
        } else if (f->host == host_now()) {
            synced(f);
        }
    }
    names_are_there(host_now(), 0, refused ? 2 : 1);
    return refused ? -1 : 0;
}

/* ---- Loss of power ---- */

static bool page_comes_back(const struct file *f, const struct page *page, bool torn)
{
    uint8_t now[PAGE_BYTES] = { 0 };
    bool changed = false;

    CHECK(pread(f->fd, now, PAGE_BYTES, (off_t)(page->index * PAGE_BYTES)) >= 0);
    for (size_t at = 0; at < PAGE_BYTES; at += SECTOR_BYTES) {
        if (!torn || world_chance(2)) {
            changed = changed || memcmp(now + at, page->disk + at, SECTOR_BYTES) != 0;
            memcpy(now + at, page->disk + at, SECTOR_BYTES);
        }
    }
    CHECK(__real_pwrite(f->fd, now, PAGE_BYTES, (off_t)(page->index * PAGE_BYTES)) == PAGE_BYTES);
    return changed;
}

/* A cut of which the disk knows nothing took nothing; of the rest each page for itself. */
static unsigned file_loses(struct file *f)
{
    uint64_t now = size_of(f->fd), size = now;
    bool uncut = f->least < f->size && (f->refused || world_chance(2));
    unsigned how = f->refused ? 0 : (unsigned)world_draw(3), lost = 0;

    if (!uncut) {
        cut_is_there(f);
    }
    if (uncut || how == 0) {
        size = f->size;
    } else if (now > f->size && how == 1) {
        size = f->size + world_draw(now - f->size);
    }
    for (size_t i = 0; i < f->count; i++) {
        bool torn = !uncut && how != 0 && world_chance(4);

        if (f->pages[i]->missed || uncut || how == 0 || torn || world_chance(2)) {
            lost += page_comes_back(f, f->pages[i], torn && !f->pages[i]->missed);
        }
    }
    CHECK(__real_ftruncate(f->fd, (off_t)size) == 0);
    file_free(f);
    return lost;
}

static void name_loses(struct name *n)
{
    char path[32];

    if (faccessat(n->dir_fd, n->base, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)mkdir("gone", 0700);
        gone_path(++disks.gone, path, sizeof(path));
        CHECK(__real_renameat(n->dir_fd, n->base, AT_FDCWD, path) == 0);
    }
    if (n->gone != 0) {
        gone_path(n->gone, path, sizeof(path));
        CHECK(__real_renameat(AT_FDCWD, path, n->dir_fd, n->base) == 0);
    }
}

void world_disk_forgets(struct world_host *host)
{
    unsigned pages = 0, names = 0;

    LIST_FOREACH_SAFE(node, &disks.files)
    {
        struct file *f = LIST_ENTRY(node, struct file, node);

        pages += f->host == host ? file_loses(f) : 0;
    }
    LIST_FOREACH_SAFE(node, &disks.names)
    {
        struct name *n = LIST_ENTRY(node, struct name, node);

        if (n->host != host) {
            continue;
        }
        if (world_chance(2)) {
            name_loses(n);
            names++;
        }
        name_free(n);
    }
    the_world->counts.pages_lost += pages;
    the_world->counts.names_lost += names;
    world_trace(host->name, "** the disk has forgotten %u pages and %u names", pages, names);
}

bool world_disk_differs(const struct world_host *host)
{
    LIST_FOREACH(node, &disks.files)
    {
        const struct file *f = LIST_ENTRY(node, struct file, node);

        if (f->host == host && f->count > 0) {
            return true;
        }
    }
    return false;
}
