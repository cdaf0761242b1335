/* Random file operations against a model in memory.
 *
 *   fsfuzz DIR SEED OPERATIONS [-v] [--second DIR]
 *
 * With a second directory, which is the same one through another mount, each operation goes through
 * one of the two by chance, with pauses of random length in between, and handles stay open on
 * either. What maps or splices pages is left out then: a mount may be a second behind there.
 *
 * The same seed does the same operations. At the first difference the operations on the file
 * concerned and the last of all are printed, and the exit status is 1. DIR must be empty or not
 * exist; it is emptied at a good end.
 */
#include "common/base/prng.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILES = 10,
    HANDLES = 8,
    NAMES = 12, /* The second half lies in a directory of its own. */
    SIZE_MAX_BYTES = 7 << 20,
    TRACE_LINES = 4000,
    TRACE_LINE_BYTES = 120
};

struct file
{
    bool used;
    uint8_t *bytes; /* SIZE_MAX_BYTES, zero behind the end. */
    off_t size;
    unsigned links, handles;
};

struct handle
{
    int fd; /* -1: free */
    int file;
    bool append;
};

struct fuzz
{
    struct prng prng;
    struct file files[FILES];
    struct handle handles[HANDLES];
    int names[NAMES]; /* File of each name, -1: none. */
    uint8_t scratch[SIZE_MAX_BYTES];
    char (*trace)[TRACE_LINE_BYTES];
    unsigned long step;
    unsigned long acts; /* Operations that found something to do. */
    bool verbose;
    int roots[2]; /* Of the two mounts; -1: there is only the first. */
    int via;      /* Which of them it is now. */
};

static void trace(struct fuzz *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static _Noreturn void fail(struct fuzz *f, int file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void trace(struct fuzz *f, const char *format, ...)
{
    char *line = f->trace[f->step % TRACE_LINES];
    int used = snprintf(line, TRACE_LINE_BYTES, "%lu, mount %d: ", f->step, f->via + 1);
    va_list args;

    f->acts++;
    va_start(args, format);
    (void)vsnprintf(line + used, TRACE_LINE_BYTES - (size_t)used, format, args);
    va_end(args);
    if (f->verbose) {
        puts(line);
    }
}

static _Noreturn void fail(struct fuzz *f, int file, const char *format, ...)
{
    unsigned long first = f->step >= TRACE_LINES ? f->step - TRACE_LINES + 1 : 0;
    char mark[16], what[TRACE_LINE_BYTES], name[TRACE_LINE_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    (void)snprintf(mark, sizeof(mark), "file %d", file);
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(what, " :"), what);
    for (unsigned long i = first; i <= f->step; i++) {
        const char *line = f->trace[i % TRACE_LINES];

        if (line[0] != '\0' && (f->step - i < 20 || (file >= 0 && strstr(line, mark) != NULL) ||
                                strstr(line, name) != NULL)) {
            puts(line);
        }
    }
    printf("DIFFERENCE: %s\n", what);
    (void)fflush(stdout);
    _exit(1);
}

static void must(struct fuzz *f, int file, bool condition, const char *what)
{
    if (!condition) {
        fail(f, file, "%s: %s", what, strerror(errno));
    }
}

static const char *name_path(int name)
{
    static const char *const paths[NAMES] = { "n0",   "n1",   "n2",   "n3",   "n4",    "n5",
                                              "d/n6", "d/n7", "d/n8", "d/n9", "d/n10", "d/n11" };

    return paths[name];
}

/* ---- What to do next ---- */

static uint64_t draw(struct fuzz *f, uint64_t bound)
{
    return prng_below(&f->prng, bound);
}

/* A place in a file, with a liking for borders of blocks, morsels, stripes, and its end. */
static off_t draw_offset(struct fuzz *f, const struct file *file)
{
    static const off_t units[] = { 4096, 65536, 1 << 20, 4 << 20 };
    off_t offset;

    switch (draw(f, 8)) {
    case 0:
        return 0;
    case 1:
        offset = file->size;
        break;
    case 2:
        return (off_t)draw(f, SIZE_MAX_BYTES);
    case 3:
        return (off_t)draw(f, (uint64_t)file->size + 1);
    default:
        offset = units[draw(f, 4)];
        offset *= (off_t)draw(f, (uint64_t)(SIZE_MAX_BYTES / offset + 1));
    }
    offset += (off_t)draw(f, 3) - 1;
    return offset < 0 ? 0 : offset >= SIZE_MAX_BYTES ? SIZE_MAX_BYTES - 1 : offset;
}

static size_t draw_length(struct fuzz *f, off_t offset)
{
    static const size_t kinds[] = { 2, 100, 4097, 20000, 140000, 140000, 1100000, 3000000 };
    size_t length = 1 + draw(f, kinds[draw(f, draw(f, 4) == 0 ? 8 : 5)]);

    length = draw(f, 4) == 0 ? (length + 4095) / 4096 * 4096 : length;
    return length < (size_t)(SIZE_MAX_BYTES - offset) ? length : (size_t)(SIZE_MAX_BYTES - offset);
}

static void draw_bytes(struct fuzz *f, uint8_t *bytes, size_t count)
{
    uint64_t x = prng_next(&f->prng) | 1;

    for (size_t i = 0; i < count; i++) {
        if (i % 8 == 0) {
            x = x * 6364136223846793005U + 1442695040888963407U;
        }
        bytes[i] = (uint8_t)(x >> (8 * (i % 8)));
    }
}

static struct handle *draw_handle(struct fuzz *f)
{
    struct handle *h = &f->handles[draw(f, HANDLES)];

    return h->fd >= 0 ? h : NULL;
}

/* ---- The model ---- */

static void model_resize(struct file *file, off_t size)
{
    if (size < file->size) {
        memset(file->bytes + size, 0, (size_t)(file->size - size));
    }
    file->size = size;
}

static void model_write(struct file *file, off_t offset, const uint8_t *bytes, size_t count)
{
    memcpy(file->bytes + offset, bytes, count);
    if (offset + (off_t)count > file->size) {
        file->size = offset + (off_t)count;
    }
}

static void model_drop_unused(struct file *file)
{
    if (file->used && file->links == 0 && file->handles == 0) {
        model_resize(file, 0);
        file->used = false;
    }
}

static void compare(struct fuzz *f, int file, off_t offset, const uint8_t *got, size_t count,
                    const char *how)
{
    const uint8_t *expected = f->files[file].bytes + offset;

    for (size_t i = 0; i < count; i++) {
        if (got[i] != expected[i]) {
            size_t j = i;

            while (j < count && got[j] != expected[j]) {
                j++;
            }
            fail(f, file,
                 "%s of file %d (%lld bytes long): bytes %lld to %lld differ: %02x for %02x", how,
                 file, (long long)f->files[file].size, (long long)offset + (long long)i,
                 (long long)offset + (long long)j - 1, got[i], expected[i]);
        }
    }
}

/* ---- Operations ---- */

static void do_open(struct fuzz *f)
{
    struct handle *h = &f->handles[draw(f, HANDLES)];
    int name = (int)draw(f, NAMES), flags = O_RDWR, file = f->names[name];

    if (h->fd >= 0) {
        return;
    }
    h->append = draw(f, 4) == 0;
    flags |= h->append ? O_APPEND : 0;
    flags |= draw(f, 10) == 0 ? O_TRUNC : 0;
    flags |= draw(f, 20) == 0 ? O_SYNC : 0;
    if (file < 0) {
        for (file = 0; file < FILES && f->files[file].used; file++) {
        }
        if (file == FILES) {
            return;
        }
        flags |= O_CREAT | (draw(f, 2) == 0 ? O_EXCL : 0);
        f->files[file].used = true;
        f->files[file].links = 1;
        f->names[name] = file;
    }
    trace(f, "open %s flags %x: file %d", name_path(name), (unsigned)flags, file);
    if ((flags & O_TRUNC) != 0) {
        model_resize(&f->files[file], 0);
    }
    h->fd = open(name_path(name), flags, 0644);
    must(f, file, h->fd >= 0, "open");
    h->file = file;
    f->files[file].handles++;
}

static void close_handle(struct fuzz *f, struct handle *h)
{
    must(f, h->file, close(h->fd) == 0, "close");
    h->fd = -1;
    f->files[h->file].handles--;
    model_drop_unused(&f->files[h->file]);
}

static void do_close(struct fuzz *f)
{
    struct handle *h = draw_handle(f);

    if (h != NULL) {
        trace(f, "close file %d", h->file);
        close_handle(f, h);
    }
}

static void do_write(struct fuzz *f)
{
    struct handle *h = draw_handle(f);
    struct file *file;
    off_t offset;
    size_t count, done = 0;

    if (h == NULL) {
        return;
    }
    file = &f->files[h->file];
    offset = h->append ? file->size : draw_offset(f, file);
    if (offset >= SIZE_MAX_BYTES) {
        return;
    }
    count = draw_length(f, offset);
    draw_bytes(f, f->scratch, count);
    trace(f, "%s file %d at %lld, %zu bytes", h->append ? "append" : "write", h->file,
          (long long)offset, count);
    while (done < count) {
        ssize_t n = h->append
                        ? write(h->fd, f->scratch + done, count - done)
                        : pwrite(h->fd, f->scratch + done, count - done, offset + (off_t)done);

        must(f, h->file, n > 0, "write");
        done += (size_t)n;
    }
    model_write(file, offset, f->scratch, count);
}

static void do_read(struct fuzz *f)
{
    struct handle *h = draw_handle(f);
    off_t offset;
    size_t count, expected;
    ssize_t n;

    if (h == NULL) {
        return;
    }
    offset = draw_offset(f, &f->files[h->file]);
    count = draw_length(f, offset);
    expected = offset >= f->files[h->file].size ? 0
               : offset + (off_t)count > f->files[h->file].size
                   ? (size_t)(f->files[h->file].size - offset)
                   : count;
    trace(f, "read file %d at %lld, %zu bytes", h->file, (long long)offset, count);
    n = pread(h->fd, f->scratch, count, offset);
    must(f, h->file, n >= 0, "read");
    if ((size_t)n != expected) {
        fail(f, h->file, "read of file %d gave %zd bytes; %zu are there", h->file, n, expected);
    }
    compare(f, h->file, offset, f->scratch, expected, "read");
}

static void do_truncate(struct fuzz *f)
{
    struct handle *h = draw_handle(f);
    off_t size;

    if (h == NULL) {
        return;
    }
    size = draw_offset(f, &f->files[h->file]);
    trace(f, "truncate file %d to %lld", h->file, (long long)size);
    must(f, h->file, ftruncate(h->fd, size) == 0, "truncate");
    model_resize(&f->files[h->file], size);
}

static void do_fallocate(struct fuzz *f)
{
    static const int modes[] = { FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
                                 FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0,
                                 FALLOC_FL_KEEP_SIZE };
    struct handle *h = draw_handle(f);
    int mode = modes[draw(f, 5)];
    struct file *file;
    off_t offset, end;
    size_t count;

    if (h == NULL) {
        return;
    }
    file = &f->files[h->file];
    offset = draw_offset(f, file);
    count = draw_length(f, offset);
    end = offset + (off_t)count;
    trace(f, "fallocate mode %d file %d at %lld, %zu bytes", mode, h->file, (long long)offset,
          count);
    if (fallocate(h->fd, mode, offset, (off_t)count) != 0) {
        must(f, h->file, errno == EOPNOTSUPP, "fallocate"); /* tmpfs has no zero range. */
        return;
    }
    if ((mode & FALLOC_FL_KEEP_SIZE) == 0 && end > file->size) {
        file->size = end;
    }
    if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0 && offset < file->size) {
        memset(file->bytes + offset, 0, (size_t)((end < file->size ? end : file->size) - offset));
    }
}

static void do_map(struct fuzz *f)
{
    struct handle *h = draw_handle(f);
    struct file *file;
    off_t offset, start;
    uint8_t *mapped;
    size_t count;

    if (h == NULL || f->files[h->file].size == 0) {
        return;
    }
    file = &f->files[h->file];
    offset = (off_t)draw(f, (uint64_t)file->size);
    count = draw_length(f, offset);
    count = count < (size_t)(file->size - offset) ? count : (size_t)(file->size - offset);
    start = offset / 4096 * 4096;
    mapped = mmap(NULL, count + (size_t)(offset - start), PROT_READ | PROT_WRITE, MAP_SHARED, h->fd,
                  start);
    must(f, h->file, mapped != MAP_FAILED, "mmap");
    if (draw(f, 2) == 0) {
        trace(f, "map file %d at %lld, %zu bytes: read", h->file, (long long)offset, count);
        compare(f, h->file, offset, mapped + (offset - start), count, "mapping");
    } else {
        trace(f, "map file %d at %lld, %zu bytes: write", h->file, (long long)offset, count);
        draw_bytes(f, mapped + (offset - start), count);
        memcpy(file->bytes + offset, mapped + (offset - start), count);
        if (draw(f, 3) == 0) {
            must(f, h->file, msync(mapped, count + (size_t)(offset - start), MS_SYNC) == 0,
                 "msync");
        }
    }
    must(f, h->file, munmap(mapped, count + (size_t)(offset - start)) == 0, "munmap");
}

static void do_sync(struct fuzz *f)
{
    struct handle *h = draw_handle(f);

    if (h == NULL) {
        return;
    }
    trace(f, "fsync file %d", h->file);
    must(f, h->file, (draw(f, 2) == 0 ? fsync(h->fd) : fdatasync(h->fd)) == 0, "fsync");
    if (draw(f, 2) == 0) { /* The next reads ask the file system. */
        (void)posix_fadvise(h->fd, 0, 0, POSIX_FADV_DONTNEED);
    }
}

static void do_seek(struct fuzz *f)
{
    struct handle *h = draw_handle(f);
    struct file *file;
    off_t offset, data;

    if (h == NULL || f->files[h->file].size == 0) {
        return;
    }
    file = &f->files[h->file];
    offset = (off_t)draw(f, (uint64_t)file->size);
    trace(f, "seek data file %d from %lld", h->file, (long long)offset);
    data = lseek(h->fd, offset, SEEK_DATA);
    if (data < 0) {
        must(f, h->file, errno == ENXIO, "SEEK_DATA");
        data = file->size;
    }
    if (data < offset || data > file->size) {
        fail(f, h->file, "SEEK_DATA of file %d from %lld gave %lld", h->file, (long long)offset,
             (long long)data);
    }
    for (off_t at = offset; at < data; at++) {
        if (file->bytes[at] != 0) {
            fail(f, h->file, "SEEK_DATA of file %d from %lld gave %lld, but there is data at %lld",
                 h->file, (long long)offset, (long long)data, (long long)at);
        }
    }
}

static void do_copy(struct fuzz *f)
{
    struct handle *from = draw_handle(f), *to = draw_handle(f);
    off_t from_at, to_at;
    ssize_t n;

    if (from == NULL || to == NULL || from->file == to->file || to->append) {
        return;
    }
    from_at = draw_offset(f, &f->files[from->file]);
    to_at = draw_offset(f, &f->files[to->file]);
    trace(f, "copy file %d at %lld to file %d at %lld", from->file, (long long)from_at, to->file,
          (long long)to_at);
    n = copy_file_range(from->fd, &(off_t){ from_at }, to->fd, &(off_t){ to_at },
                        draw_length(f, to_at), 0);
    must(f, to->file, n >= 0, "copy_file_range");
    if (from_at + n > f->files[from->file].size && n > 0) {
        fail(f, from->file, "copy of file %d gave %zd bytes from behind its end", from->file, n);
    }
    if (n > 0) {
        model_write(&f->files[to->file], to_at, f->files[from->file].bytes + from_at, (size_t)n);
    }
}

static void drop_name(struct fuzz *f, int name)
{
    int file = f->names[name];

    f->names[name] = -1;
    f->files[file].links--;
    model_drop_unused(&f->files[file]);
}

static void do_rename(struct fuzz *f)
{
    int a = (int)draw(f, NAMES), b = (int)draw(f, NAMES), swap = f->names[a];
    bool exchange = draw(f, 4) == 0 && f->names[b] >= 0;

    if (f->names[a] < 0) {
        return;
    }
    trace(f, "%s %s (file %d) and %s (file %d)", exchange ? "exchange" : "rename", name_path(a),
          f->names[a], name_path(b), f->names[b]);
    must(f, f->names[a],
         renameat2(AT_FDCWD, name_path(a), AT_FDCWD, name_path(b),
                   exchange ? RENAME_EXCHANGE : 0) == 0,
         "rename");
    if (exchange) {
        f->names[a] = f->names[b];
        f->names[b] = swap;
    } else if (f->names[a] != f->names[b]) { /* Two names of one file: nothing happens. */
        if (f->names[b] >= 0) {
            drop_name(f, b);
        }
        f->names[b] = swap;
        f->names[a] = -1;
    }
}

static void do_unlink(struct fuzz *f)
{
    int name = (int)draw(f, NAMES);

    if (f->names[name] >= 0) {
        trace(f, "unlink %s: file %d", name_path(name), f->names[name]);
        must(f, f->names[name], unlink(name_path(name)) == 0, "unlink");
        drop_name(f, name);
    }
}

static void do_link(struct fuzz *f)
{
    int from = (int)draw(f, NAMES), to = (int)draw(f, NAMES);

    if (f->names[from] >= 0 && f->names[to] < 0) {
        trace(f, "link %s to %s: file %d", name_path(from), name_path(to), f->names[from]);
        must(f, f->names[from], link(name_path(from), name_path(to)) == 0, "link");
        f->names[to] = f->names[from];
        f->files[f->names[to]].links++;
    }
}

static void check_stat(struct fuzz *f, int file, const struct stat *st)
{
    if (st->st_size != f->files[file].size || st->st_nlink != f->files[file].links) {
        fail(f, file, "stat of file %d: size %lld, %lu links; expected %lld, %u", file,
             (long long)st->st_size, (unsigned long)st->st_nlink, (long long)f->files[file].size,
             f->files[file].links);
    }
}

static void do_stat(struct fuzz *f)
{
    struct handle *h = draw_handle(f);
    int name = (int)draw(f, NAMES);
    struct stat st;

    trace(f, "stat %s", name_path(name));
    if (lstat(name_path(name), &st) == 0) {
        if (f->names[name] < 0) {
            fail(f, -1, "%s exists", name_path(name));
        }
        check_stat(f, f->names[name], &st);
    } else {
        must(f, f->names[name], errno == ENOENT, "stat");
        if (f->names[name] >= 0) {
            fail(f, f->names[name], "%s is missing", name_path(name));
        }
    }
    if (h != NULL) {
        must(f, h->file, fstat(h->fd, &st) == 0, "fstat");
        check_stat(f, h->file, &st);
    }
}

static void do_list(struct fuzz *f)
{
    static const char *const prefixes[] = { "", "d/" };
    bool seen[NAMES] = { false };

    trace(f, "list");
    for (int d = 0; d < 2; d++) {
        DIR *dir = opendir(d == 0 ? "." : "d");
        struct dirent *entry;

        must(f, -1, dir != NULL, "opendir");
        while ((entry = readdir(dir)) != NULL) {
            char path[300];

            (void)snprintf(path, sizeof(path), "%s%s", prefixes[d], entry->d_name);
            for (int i = 0; i < NAMES; i++) {
                if (strcmp(path, name_path(i)) == 0) {
                    if (seen[i] || f->names[i] < 0) {
                        fail(f, f->names[i], "%s is listed %s", path,
                             seen[i] ? "twice" : "and does not exist");
                    }
                    seen[i] = true;
                }
            }
        }
        (void)closedir(dir);
    }
    for (int i = 0; i < NAMES; i++) {
        if (f->names[i] >= 0 && !seen[i]) {
            fail(f, f->names[i], "%s is not listed", name_path(i));
        }
    }
}

typedef void (*operation)(struct fuzz *f);

/* Mostly none, sometimes as long as a recall may take, rarely longer than what is remembered. */
static void change_mount(struct fuzz *f)
{
    uint64_t dice = draw(f, 2000);

    if (f->roots[1] < 0) {
        return;
    }
    if (dice < 20) {
        (void)usleep((useconds_t)draw(f, dice == 0 ? 1500000 : 20000));
    }
    f->via = (int)draw(f, 2);
    must(f, -1, fchdir(f->roots[f->via]) == 0, "fchdir");
}

static void step(struct fuzz *f)
{
    static const operation operations[] = {
        do_open,   do_open, do_open, do_close, do_write, do_write,    do_write,
        do_write,  do_read, do_read, do_read,  do_read,  do_truncate, do_fallocate,
        do_map,    do_map,  do_sync, do_sync,  do_seek,  do_copy,     do_rename,
        do_unlink, do_link, do_stat, do_stat,  do_list,
    };

    operation next = operations[draw(f, sizeof(operations) / sizeof(operations[0]))];

    f->trace[f->step % TRACE_LINES][0] = '\0';
    change_mount(f);
    if (f->roots[1] < 0 || (next != do_map && next != do_copy)) {
        next(f);
    }
}

/* Everything that has a name, read through a fresh handle. */
static void verify_all(struct fuzz *f)
{
    for (int i = 0; i < HANDLES; i++) {
        if (f->handles[i].fd >= 0) {
            close_handle(f, &f->handles[i]);
        }
    }
    do_list(f);
    for (int i = 0; i < NAMES; i++) {
        struct stat st;
        off_t at = 0;
        int fd;

        if (f->names[i] < 0) {
            continue;
        }
        fd = open(name_path(i), O_RDONLY);
        must(f, f->names[i], fd >= 0 && fstat(fd, &st) == 0, "open at the end");
        check_stat(f, f->names[i], &st);
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        while (at < st.st_size) {
            ssize_t n = pread(fd, f->scratch, SIZE_MAX_BYTES, at);

            must(f, f->names[i], n > 0, "read at the end");
            compare(f, f->names[i], at, f->scratch, (size_t)n, "last read");
            at += n;
        }
        (void)close(fd);
    }
}

/* False: the arguments make no sense. */
static bool parse_rest(struct fuzz *f, int argc, char **argv, const char **second)
{
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) {
            f->verbose = true;
        } else if (strcmp(argv[i], "--second") == 0 && i + 1 < argc) {
            *second = argv[++i];
        } else {
            return false;
        }
    }
    return argc >= 4;
}

int main(int argc, char **argv)
{
    struct fuzz *f = calloc(1, sizeof(*f));
    const char *second = NULL;
    unsigned long operations, acts;

    if (f == NULL || !parse_rest(f, argc, argv, &second)) {
        fputs("usage: fsfuzz DIR SEED OPERATIONS [-v] [--second DIR]\n", stderr);
        free(f);
        return 2;
    }
    f->trace = calloc(TRACE_LINES, TRACE_LINE_BYTES);
    prng_seed(&f->prng, strtoull(argv[2], NULL, 10));
    operations = strtoul(argv[3], NULL, 10);
    (void)mkdir(argv[1], 0755);
    must(f, -1, f->trace != NULL && chdir(argv[1]) == 0 && mkdir("d", 0755) == 0, argv[1]);
    f->roots[0] = open(".", O_RDONLY | O_DIRECTORY);
    f->roots[1] = second == NULL ? -1 : open(second, O_RDONLY | O_DIRECTORY);
    must(f, -1, f->roots[0] >= 0 && (second == NULL || f->roots[1] >= 0), "open of the roots");
    for (int i = 0; i < NAMES; i++) {
        f->names[i] = -1;
    }
    for (int i = 0; i < HANDLES; i++) {
        f->handles[i].fd = -1;
    }
    for (int i = 0; i < FILES; i++) {
        f->files[i].bytes = calloc(1, SIZE_MAX_BYTES);
        must(f, -1, f->files[i].bytes != NULL, "memory");
    }
    for (; f->step < operations; f->step++) {
        step(f);
    }
    acts = f->acts;
    verify_all(f);
    for (int i = 0; i < NAMES; i++) {
        (void)unlink(name_path(i));
    }
    must(f, -1, rmdir("d") == 0, "rmdir at the end");
    for (int i = 0; i < FILES; i++) {
        free(f->files[i].bytes);
    }
    free(f->trace);
    free(f);
    printf("fsfuzz: seed %s, %lu operations, of which %lu had something to do, no difference\n",
           argv[2], operations, acts);
    return acts < operations / 3; /* Otherwise it shows little. */
}
