/* What two mounts of one file system see of each other.
 *
 *   coherence DIR DIR2                      the same directory through two mounts: directed
 *                                           meetings, each many times
 *   coherence --storm SECONDS DIR DIR2      two processes as fast as they can
 *   coherence --names SECONDS DIR DIR2 DIR3 three, with the same few names
 *
 * Exit status 1 with one line at the first thing that one local file system would not do; also when
 * the median time of a meeting is more than MEDIAN_MS_MAX.
 */
#include "common/base/check.h"
#include "common/base/prng.h"
#include "difference.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum {
    MAP_MS_MAX = 1500,
    NET_MS = 60000,
    ROUNDS = 150,
    PATH_BYTES = 4096,
    MEDIAN_MS_MAX = 40,
    ALONE_TIMES_MAX = 20,
    HELD_UP =
        3, /* Exit status of a storm in which one waited for too long, and all else is well. */
    STALL_MS_MAX = 4000,
    STEPS_A_SECOND_MIN = 5, /* Of a storm; a calm shows nothing. */
    TURNS = 50,
    NAMES = 4,
    NAMES_STALL_MS_MAX = 2500
};

static char roots[3][PATH_BYTES];

/* A path below one of the mounts; four may be in use at once. */
static const char *at(int mount, const char *name)
{
    static char paths[4][PATH_BYTES * 2];
    static unsigned turn;
    char *path = paths[turn++ % 4];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", roots[mount], name);
    return path;
}

static void put(int mount, const char *name, const char *text)
{
    int fd = open(at(mount, name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0, name);
}

static void expect_text(int mount, const char *name, const char *text)
{
    char got[256] = "";
    int fd = open(at(mount, name), O_RDONLY);
    ssize_t n;

    must(fd >= 0, name);
    n = read(fd, got, sizeof(got) - 1);
    must(n >= 0 && close(fd) == 0, name);
    if (strcmp(got, text) != 0) {
        fail("%s reads \"%s\"; \"%s\" was written", at(mount, name), got, text);
    }
}

static void expect_there(int mount, const char *name, bool there)
{
    struct stat st;

    if ((lstat(at(mount, name), &st) == 0) != there) {
        fail("%s %s", at(mount, name), there ? "is missing" : "is still there");
    }
}

/* ---- Meetings: round i, from one mount to the other ---- */

static void meet_mode(int from, int to, int i)
{
    mode_t mode = i % 3 == 0 ? 0600 : i % 3 == 1 ? 0640 : 0644;
    struct stat st;

    must(chmod(at(from, "file"), mode) == 0, "chmod");
    must(stat(at(to, "file"), &st) == 0, "stat");
    if ((st.st_mode & 07777) != mode) {
        fail("%s has mode %o; %o was set", at(to, "file"), st.st_mode & 07777, mode);
    }
}

static void meet_name(int from, int to, int i)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "name%d", i % 7);
    expect_there(to, name, false); /* Remembers the absence. */
    put(from, name, "x");
    expect_there(to, name, true);
    must(unlink(at(to, name)) == 0, "unlink");
    expect_there(from, name, false);
}

static void meet_bytes(int from, int to, int i)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "%d of %d to %d", i, from, to);
    put(from, "file", text);
    expect_text(to, "file", text);
    expect_text(from, "file", text);
}

static void meet_rename(int from, int to, int i)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "renamed %d", i);
    put(from, "new", text);
    must(rename(at(from, "new"), at(from, "old")) == 0, "rename");
    expect_text(to, "old", text);
    expect_there(to, "new", false);
}

/* What the kernel knows of a name goes along when the name goes to another directory. */
static void meet_move(int from, int to, int i)
{
    char name[32], moved[32];

    (void)snprintf(name, sizeof(name), "mover%d", i % 3);
    (void)snprintf(moved, sizeof(moved), "dir/mover%d", i % 3);
    put(from, name, "x");
    expect_there(from, name, true);
    must(rename(at(from, name), at(from, moved)) == 0, "rename");
    expect_there(to, name, false);
    must(unlink(at(to, moved)) == 0, "unlink");
    expect_there(from, moved, false);
}

static void meet_append(int from, int to, int i)
{
    int fd = open(at(from, "growing"), O_WRONLY | O_CREAT | O_APPEND, 0644);
    struct stat before, after;

    (void)i;
    must(fd >= 0 && stat(at(to, "growing"), &before) == 0, "growing");
    must(write(fd, "1234567", 7) == 7, "append");
    must(stat(at(to, "growing"), &after) == 0,
         "stat"); /* Still open, and nothing was closed or synced. */
    if (after.st_size != before.st_size + 7) {
        fail("%s has %lld bytes; %lld were written", at(to, "growing"), (long long)after.st_size,
             (long long)before.st_size + 7);
    }
    must(close(fd) == 0, "close");
}

static void meet_truncate(int from, int to, int i)
{
    struct stat st;

    must(truncate(at(from, "sized"), 1000 + i) == 0 && stat(at(to, "sized"), &st) == 0, "truncate");
    if (st.st_size != 1000 + i) {
        fail("%s has %lld bytes after truncation to %d", at(to, "sized"), (long long)st.st_size,
             1000 + i);
    }
}

static void meet_directory(int from, int to, int i)
{
    char name[32];

    (void)snprintf(name, sizeof(name), "dir/sub%d", i % 3);
    must(mkdir(at(from, name), 0755) == 0, "mkdir");
    must(rmdir(at(to, name)) == 0, "rmdir of what the other has made");
    expect_there(from, name, false);
}

/* Both have the file open, and go on using the same handles. */
static void meet_open_handles(int from, int to, int i)
{
    static int fds[2] = { -1, -1 };
    char text[16] = "", got[16] = "";

    if (fds[0] < 0) {
        put(0, "register", "0000000000000000");
        fds[0] = open(at(0, "register"), O_RDWR);
        fds[1] = open(at(1, "register"), O_RDWR);
        must(fds[0] >= 0 && fds[1] >= 0, "register");
    }
    (void)snprintf(text, sizeof(text), "value %9d", i);
    must(pwrite(fds[from], text, sizeof(text), 0) == sizeof(text), "pwrite");
    must(pread(fds[to], got, sizeof(got), 0) == sizeof(got), "pread");
    if (memcmp(text, got, sizeof(text)) != 0) {
        fail("an open handle reads \"%.15s\"; \"%.15s\" was written", got, text);
    }
}

enum { SPAN = 10000, SPAN_AT = 3000, MAPPED = 16384 }; /* Not aligned to anything */

static void expect_span(int fd, const char *span, const char *who)
{
    char got[SPAN];

    must(pread(fd, got, SPAN, SPAN_AT) == SPAN, "pread");
    if (memcmp(got, span, SPAN) != 0) {
        fail("%s reads '%c'; '%c' was written", who, got[0], span[0]);
    }
}

/* Handles that were opened while the file was shared already, one of which is used on when it is
 * shared no more: read, written and mapped. */
static void meet_late_handles(int from, int to, int i)
{
    int first = open(at(from, "late"), O_RDWR | O_CREAT, 0644);
    int late = open(at(to, "late"), O_RDWR), again;
    char span[SPAN], *map;
    struct stat st;

    must(first >= 0 && late >= 0 && ftruncate(first, MAPPED) == 0, "late");
    memset(span, 'a' + i % 26, SPAN);
    must(pwrite(first, span, SPAN, SPAN_AT) == SPAN, "pwrite");
    expect_span(late, span, "a handle that was opened late");
    must(fstat(late, &st) == 0 && st.st_size == MAPPED, "fstat");
    map = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_SHARED, late, 0);
    must(map != MAP_FAILED, "mmap");
    must(memcmp(map + SPAN_AT, span, SPAN) == 0, "what is mapped");
    memset(map + SPAN_AT, 'A' + i % 26, SPAN);
    must(msync(map, MAPPED, MS_SYNC) == 0, "msync");
    memset(span, 'A' + i % 26, SPAN);
    expect_span(first, span, "a handle beside a mapping elsewhere");
    must(munmap(map, MAPPED) == 0 && ftruncate(first, 0) == 0 && close(first) == 0, "close");
    again = open(at(to, "late"), O_RDONLY);
    must(again >= 0, "late again");
    for (int j = 0; j < 3; j++) {
        memset(span, '0' + (i + j) % 10, SPAN);
        must(pwrite(late, span, SPAN, SPAN_AT) == SPAN, "pwrite");
        expect_span(again, span, "a handle beside one that was opened late");
    }
    must(close(late) == 0 && close(again) == 0, "close");
}

/* Each append is one step, whatever it crosses and however the handle was opened. */
static void meet_appends(int from, int to, int i)
{
    int mine = open(at(from, "appends"), O_RDWR | O_CREAT | O_APPEND, 0644);
    int theirs = open(at(to, "appends"), O_RDWR | O_APPEND);
    char span[SPAN], got[SPAN];
    struct stat st;

    must(mine >= 0 && theirs >= 0 && ftruncate(mine, SPAN_AT) == 0, "appends");
    memset(span, 'a' + i % 26, SPAN);
    must(write(mine, span, SPAN) == SPAN && write(theirs, span, SPAN) == SPAN, "append");
    must(fstat(mine, &st) == 0 && st.st_size == SPAN_AT + 2 * SPAN, "the size after two appends");
    must(pread(mine, got, SPAN, SPAN_AT + SPAN) == SPAN, "pread");
    must(memcmp(span, got, SPAN) == 0, "the second append");
    must(close(mine) == 0 && close(theirs) == 0, "close");
}

/* Set-id bits do not survive the write of somebody else, on whatever handle. */
static void meet_set_id(int from, int to, int i)
{
    int first, late;
    struct stat st;

    (void)i;
    put(from, "tool", "x");
    first = open(at(from, "tool"), O_RDWR);
    late = open(at(to, "tool"), O_RDWR);
    must(first >= 0 && late >= 0 && fchmod(first, 06755) == 0, "chmod");
    must(seteuid(1000) == 0 && pwrite(late, "y", 1, 0) == 1 && seteuid(0) == 0, "write");
    must(fstat(first, &st) == 0, "fstat");
    if ((st.st_mode & 07777) != 0755) {
        fail("mode %o after a write by somebody else", st.st_mode & 07777);
    }
    must(close(first) == 0 && close(late) == 0, "close");
}

/* Nor do a program's capabilities, though the writer's kernel has looked for them before and found
 * none. (vfs_cap_data of revision 2, linux/capability.h.) */
static void meet_capabilities(int from, int to, int i)
{
    static const uint8_t capability[20] = { 1, 0, 0, 2, 0, 4 };
    char value[64];
    int first, late;

    (void)i;
    put(from, "program", "x");
    first = open(at(from, "program"), O_RDWR);
    late = open(at(to, "program"), O_RDWR);
    must(first >= 0 && late >= 0 && pwrite(late, "y", 1, 0) == 1, "write");
    must(fsetxattr(first, "security.capability", capability, sizeof(capability), 0) == 0, "setcap");
    must(pwrite(late, "z", 1, 0) == 1, "write");
    if (fgetxattr(first, "security.capability", value, sizeof(value)) != -1 || errno != ENODATA) {
        fail("capabilities are there after a write by another mount");
    }
    must(close(first) == 0 && close(late) == 0, "close");
}

/* The working directory of a process stays what it is when names below its mount are dropped. */
static void meet_working_directory(int from, int to, int i)
{
    char cwd[PATH_BYTES * 2];

    must(chdir(at(to, "dir")) == 0, "chdir");
    put(from, "dir/seen", i % 2 == 0 ? "even" : "odd");
    must(access("seen", F_OK) == 0 && unlink("seen") == 0, "a name in the working directory");
    expect_there(from, "dir/seen", false);
    must(getcwd(cwd, sizeof(cwd)) != NULL && strcmp(cwd, at(to, "dir")) == 0, "getcwd");
    must(chdir("/") == 0, "chdir");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median_ms_max = MEDIAN_MS_MAX;

/* On a slow machine a meeting may take longer: ALONE_TIMES_MAX times as long as one mount alone
 * makes a file and removes it. */
static void measure_alone(void)
{
    double times[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        double began = now_ms();

        put(0, "alone", "x");
        must(unlink(at(0, "alone")) == 0, "alone");
        times[i] = now_ms() - began;
    }
    qsort(times, ROUNDS, sizeof(times[0]), by_value);
    printf("%-22s median %6.2f ms\n", "alone", times[ROUNDS / 2]);
    if (times[ROUNDS / 2] * ALONE_TIMES_MAX > median_ms_max) {
        median_ms_max = times[ROUNDS / 2] * ALONE_TIMES_MAX;
    }
}

static void meet(const char *what, void (*meeting)(int from, int to, int i))
{
    double times[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        double began = now_ms();

        meeting(i % 2, 1 - i % 2, i);
        times[i] = now_ms() - began;
    }
    qsort(times, ROUNDS, sizeof(times[0]), by_value);
    printf("%-22s median %6.2f ms, longest %6.2f ms\n", what, times[ROUNDS / 2], times[ROUNDS - 1]);
    if (times[ROUNDS / 2] > median_ms_max) {
        fail("%s: a meeting takes %.1f ms", what, times[ROUNDS / 2]);
    }
}

/* What is mapped while another mount writes and lengthens the file: for how long it is old, in
 * milliseconds. */
static double old_map_ms(void)
{
    int writer, reader;
    double began;
    char *map;

    put(0, "mapped", "old");
    writer = open(at(0, "mapped"), O_RDWR);
    reader = open(at(1, "mapped"), O_RDONLY);
    must(writer >= 0 && reader >= 0, "mapped");
    map = mmap(NULL, MAPPED, PROT_READ, MAP_SHARED, reader, 0);
    must(map != MAP_FAILED && memcmp(map, "old", 3) == 0, "mmap");
    must(pwrite(writer, "new", 3, 0) == 3 && pwrite(writer, "far", 3, MAPPED - 3) == 3, "pwrite");
    began = now_ms();
    /* A fault beyond the end would be a signal; here it is an error. */
    while (*(volatile char *)map != 'n' || madvise(map, MAPPED, MADV_POPULATE_READ) != 0) {
        must(now_ms() - began < NET_MS, "a mapping that stays old");
    }
    began = now_ms() - began;
    must(memcmp(map + MAPPED - 3, "far", 3) == 0, "what the file was lengthened by");
    printf("a mapping was old for %.0f ms\n", began);
    must(munmap(map, MAPPED) == 0 && close(writer) == 0 && close(reader) == 0, "close");
    must(unlink(at(0, "mapped")) == 0, "unlink");
    return began;
}

/* At most a second, and some; a busy machine may be late, but not three times. */
static void mapped_elsewhere(void)
{
    double ms = MAP_MS_MAX;

    for (int try = 0; try < 3 && ms >= MAP_MS_MAX; try++) {
        ms = old_map_ms();
    }
    must(ms < MAP_MS_MAX, "a mapping stays old for too long");
}

/* Who writes without a pause lets others append, cut and write. */
static void turns_of_others(void)
{
    int fd = open(at(1, "turns"), O_RDWR | O_CREAT | O_APPEND, 0644);
    pid_t writer = fork();
    double longest = 0;
    struct stat st;
    int status;

    must(fd >= 0 && writer >= 0, "turns");
    if (writer == 0) {
        int busy = open(at(0, "turns"), O_RDWR);

        for (uint64_t i = 0; busy >= 0 && pwrite(busy, &i, sizeof(i), 0) == sizeof(i); i++) {
        }
        _exit(1);
    }
    while (fstat(fd, &st) == 0 && st.st_size == 0) { /* Until it has begun. */
    }
    for (int i = 0; i < TURNS; i++) {
        double began = now_ms();

        must(write(fd, "append", 6) == 6 && ftruncate(fd, SPAN) == 0, "beside a busy writer");
        longest = now_ms() - began > longest ? now_ms() - began : longest;
    }
    must(kill(writer, 0) == 0 && waitpid(writer, &status, WNOHANG) == 0, "the busy writer");
    must(kill(writer, SIGKILL) == 0 && waitpid(writer, &status, 0) == writer, "its end");
    must(close(fd) == 0, "close");
    printf("an append and a cut beside a busy writer took %.0f ms at most\n", longest);
    if (longest > STALL_MS_MAX) {
        fail("a busy writer held up an append or a cut for %.0f ms", longest);
    }
}

static void meetings(void)
{
    measure_alone();
    put(0, "file", "x");
    put(0, "sized", "x");
    put(0, "growing", "");
    must(mkdir(at(0, "dir"), 0755) == 0, "mkdir");
    meet("mode", meet_mode);
    meet("name", meet_name);
    meet("bytes", meet_bytes);
    meet("rename", meet_rename);
    meet("move", meet_move);
    meet("append", meet_append);
    meet("truncate", meet_truncate);
    meet("directory", meet_directory);
    meet("open handles", meet_open_handles);
    meet("late handles", meet_late_handles);
    meet("appends", meet_appends);
    meet("set-id bits", meet_set_id);
    meet("capabilities", meet_capabilities);
    meet("working directory", meet_working_directory);
    mapped_elsewhere();
    turns_of_others();
}

/* ---- The storm ---- */

struct storm
{
    uint64_t steps[2];
    double longest_ms[2];
    uint64_t value[2]; /* What each has written to its register, at least. */
};

/* Own names made, renamed over common ones and removed; the register of the other never goes back.
 */
static void storm_step(struct storm *s, int me, int *fd, uint64_t *seen, uint64_t step)
{
    uint64_t mine = step + 1, floor = __atomic_load_n(&s->value[1 - me], __ATOMIC_SEQ_CST), theirs;
    char name[32];

    (void)snprintf(name, sizeof(name), "storm/own%d", me);
    if (step % 16 == 0) { /* Leases come and go with handles. */
        must(close(*fd) == 0 && (*fd = open(at(me, "storm/registers"), O_RDWR)) >= 0, "reopen");
    }
    put(me, name, "x");
    must(rename(at(me, name), at(me, step % 2 == 0 ? "storm/left" : "storm/right")) == 0, "rename");
    (void)unlink(at(me, step % 3 == 0 ? "storm/left" : "storm/right"));
    must(pwrite(*fd, &mine, sizeof(mine), me * 8) == sizeof(mine), "pwrite");
    __atomic_store_n(&s->value[me], mine, __ATOMIC_SEQ_CST);
    must(pread(*fd, &theirs, sizeof(theirs), (1 - me) * 8) == sizeof(theirs), "pread");
    if (theirs < *seen || theirs < floor) {
        fail("a register went back: %llu after %llu and %llu", (unsigned long long)theirs,
             (unsigned long long)*seen, (unsigned long long)floor);
    }
    *seen = theirs;
}

static void storm_run(struct storm *s, int me, double until_ms)
{
    int fd = open(at(me, "storm/registers"), O_RDWR);
    uint64_t seen = 0;

    must(fd >= 0, "registers");
    for (uint64_t step = 0; now_ms() < until_ms; step++) {
        double began = now_ms(), took;

        storm_step(s, me, &fd, &seen, step);
        took = now_ms() - began;
        s->longest_ms[me] = took > s->longest_ms[me] ? took : s->longest_ms[me];
        s->steps[me] = step + 1;
    }
    _exit(0);
}

static int storm(int seconds)
{
    struct storm *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t zeros[2] = { 0, 0 };
    pid_t children[2];
    int fd, status, code = 0;

    must(s != MAP_FAILED && mkdir(at(0, "storm"), 0755) == 0, "storm");
    fd = open(at(0, "storm/registers"), O_RDWR | O_CREAT, 0644);
    must(fd >= 0 && write(fd, zeros, sizeof(zeros)) == sizeof(zeros) && close(fd) == 0,
         "registers");
    for (int me = 0; me < 2; me++) {
        children[me] = fork();
        must(children[me] >= 0, "fork");
        if (children[me] == 0) {
            storm_run(s, me, now_ms() + seconds * 1e3);
        }
    }
    for (int me = 0; me < 2; me++) {
        must(waitpid(children[me], &status, 0) == children[me] && status == 0, "a storm's child");
        printf("storm on mount %d: %llu steps, the longest took %.1f ms\n", me,
               (unsigned long long)s->steps[me], s->longest_ms[me]);
        if (s->steps[me] < (uint64_t)seconds * STEPS_A_SECOND_MIN ||
            s->longest_ms[me] > STALL_MS_MAX) {
            printf("mount %d was held up\n", me);
            code = HELD_UP;
        }
    }
    return code;
}

/* ---- The storm on names ---- */

static void expect_one_of(int rv, int allowed, int allowed2, const char *what)
{
    if (rv != 0 && errno != allowed && errno != allowed2) {
        fail("%s", what);
    }
}

/* Each of these may succeed, or meet what another has done; nothing else. */
static void names_step(int me, struct prng *p)
{
    char one[32], other[32];
    unsigned from = (unsigned)prng_below(p, NAMES);
    struct stat st;
    int fd;

    (void)snprintf(one, sizeof(one), "names/%u", from);
    (void)snprintf(other, sizeof(other), "names/%u",
                   (unsigned)((from + 1 + prng_below(p, NAMES - 1)) % NAMES));
    switch (prng_below(p, 5)) {
    case 0:
        fd = open(at(me, one), O_WRONLY | O_CREAT | O_EXCL, 0644);
        expect_one_of(fd < 0 ? -1 : close(fd), EEXIST, EEXIST, "create");
        break;
    case 1:
        expect_one_of(link(at(me, one), at(me, other)), EEXIST, ENOENT, "link");
        break;
    case 2:
        expect_one_of(rename(at(me, one), at(me, other)), ENOENT, ENOENT, "rename");
        break;
    case 3:
        expect_one_of(unlink(at(me, one)), ENOENT, ENOENT, "unlink");
        break;
    default:
        expect_one_of(stat(at(me, one), &st), ENOENT, ENOENT, "stat");
        break;
    }
}

static void names_run(double *longest_ms, uint64_t *steps, int me, double until_ms)
{
    struct prng p;

    prng_seed(&p, 77 + (uint64_t)me);
    while (now_ms() < until_ms) {
        double began = now_ms(), took;

        names_step(me, &p);
        took = now_ms() - began;
        *longest_ms = took > *longest_ms ? took : *longest_ms;
        ++*steps;
    }
    _exit(0);
}

static int names(int seconds)
{
    struct
    {
        double longest_ms[3];
        uint64_t steps[3];
    } *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[3];
    int status, code = 0;

    must(s != MAP_FAILED && mkdir(at(0, "names"), 0755) == 0, "names");
    for (int me = 0; me < 3; me++) {
        children[me] = fork();
        must(children[me] >= 0, "fork");
        if (children[me] == 0) {
            names_run(&s->longest_ms[me], &s->steps[me], me, now_ms() + seconds * 1e3);
        }
    }
    for (int me = 0; me < 3; me++) {
        must(waitpid(children[me], &status, 0) == children[me] && status == 0, "a storm's child");
        printf("names on mount %d: %llu steps, the longest took %.1f ms\n", me,
               (unsigned long long)s->steps[me], s->longest_ms[me]);
        if (s->steps[me] < (uint64_t)seconds * STEPS_A_SECOND_MIN ||
            s->longest_ms[me] > NAMES_STALL_MS_MAX) {
            printf("mount %d was held up\n", me);
            code = HELD_UP;
        }
    }
    return code;
}

int main(int argc, char **argv)
{
    bool stormy = argc == 5 && strcmp(argv[1], "--storm") == 0;
    bool named = argc == 6 && strcmp(argv[1], "--names") == 0;
    int count = named ? 3 : 2;

    if (argc != 3 && !stormy && !named) {
        fputs("usage: coherence [--storm SECONDS] DIR DIR2\n"
              "       coherence --names SECONDS DIR DIR2 DIR3\n",
              stderr);
        return 2;
    }
    for (int i = 0; i < count; i++) {
        (void)snprintf(roots[i], sizeof(roots[i]), "%s", argv[argc - count + i]);
    }
    if (named) {
        return names(atoi(argv[2]));
    }
    if (stormy) {
        return storm(atoi(argv[2]));
    }
    meetings();
    return 0;
}
