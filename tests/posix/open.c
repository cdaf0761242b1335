/* open, close, the file offset, append, and files that outlive their name. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void create_write_read(void)
{
    char text[6] = "";
    int fd = (int)OK(open("f", O_RDWR | O_CREAT | O_EXCL, 0640));

    EQ(write(fd, "hello", 5), 5);
    EQ(lseek(fd, 0, SEEK_CUR), 5);
    EQ(read(fd, text, 5), 0);
    EQ(lseek(fd, 0, SEEK_SET), 0);
    EQ(read(fd, text, 6), 5);
    TRUE(strcmp(text, "hello") == 0);
    OK(close(fd));
    EQ(stat_of("f").st_mode, S_IFREG | 0640);
    expect_text("f", "hello");
}

static void exclusive(void)
{
    make_file("f", "x");
    FAILS(open("f", O_WRONLY | O_CREAT | O_EXCL, 0644), EEXIST);
    OK(mkdir("d", 0755));
    FAILS(open("d", O_WRONLY | O_CREAT | O_EXCL, 0644), EEXIST);
    OK(symlink("nowhere", "s"));
    FAILS(open("s", O_WRONLY | O_CREAT | O_EXCL, 0644), EEXIST);
    expect_text("f", "x");
    TRUE(!exists("nowhere"));
}

static void create_through_a_dangling_link(void)
{
    OK(symlink("target", "s"));
    OK(close((int)OK(open("s", O_WRONLY | O_CREAT, 0644))));
    TRUE(S_ISREG(stat_of("target").st_mode));
    TRUE(S_ISLNK(stat_of("s").st_mode));
}

static void create_keeps_an_existing_file(void)
{
    make_file("f", "content");
    OK(chmod("f", 0600));
    OK(close((int)OK(open("f", O_RDWR | O_CREAT, 0777))));
    EQ(stat_of("f").st_mode & 07777, 0600);
    expect_text("f", "content");
}

/* Everything that a mount holds back or sends behind meets here. */
static void reopened_at_once(void)
{
    for (int i = 0; i < 300; i++) {
        char text[24];

        (void)snprintf(text, sizeof(text), "content %d", i);
        make_file("f", text);
        OK(chmod("f", i % 2 == 0 ? 0600 : 0644));
        OK(close((int)OK(open("f", O_RDWR))));
        EQ(size_of("f"), strlen(text));
        expect_text("f", text);
        OK(unlink("f"));
    }
}

static void truncating_open(void)
{
    struct stat before;

    make_file("f", "content");
    before = stat_of("f");
    let_clock_tick();
    OK(close((int)OK(open("f", O_WRONLY | O_TRUNC))));
    EQ(size_of("f"), 0);
    EQ(stat_of("f").st_ino, before.st_ino);
    TRUE(later(stat_of("f").st_mtim, before.st_mtim));
    make_pattern_file("big", 5 << 20, 1);
    OK(close((int)OK(open("big", O_WRONLY | O_TRUNC))));
    EQ(size_of("big"), 0);
    OK(truncate("big", 4096));
    expect_zeros((int)OK(open("big", O_RDONLY)), 4096, 0);
}

static void wrong_kinds(void)
{
    make_file("f", "x");
    OK(mkdir("d", 0755));
    OK(symlink("f", "s"));
    FAILS(open("missing", O_RDONLY), ENOENT);
    FAILS(open("missing/f", O_RDWR | O_CREAT, 0644), ENOENT);
    FAILS(open("f/g", O_RDONLY), ENOTDIR);
    FAILS(open("f/", O_RDONLY), ENOTDIR);
    FAILS(open("f", O_RDONLY | O_DIRECTORY), ENOTDIR);
    FAILS(open("d", O_WRONLY), EISDIR);
    FAILS(open("d", O_RDWR), EISDIR);
    FAILS(open("d", O_RDONLY | O_CREAT, 0644), EISDIR);
    FAILS(open("s", O_RDONLY | O_NOFOLLOW), ELOOP);
    FAILS(open("new/", O_RDWR | O_CREAT, 0644), EISDIR);
    FAILS(open("", O_RDONLY), ENOENT);
}

static void wrong_direction(void)
{
    char byte = 0;
    int fd;

    make_file("f", "x");
    fd = (int)OK(open("f", O_RDONLY));
    FAILS(write(fd, "y", 1), EBADF);
    FAILS(ftruncate(fd, 0), EINVAL);
    fd = (int)OK(open("f", O_WRONLY));
    FAILS(read(fd, &byte, 1), EBADF);
    OK(mkdir("d", 0755));
    FAILS(read((int)OK(open("d", O_RDONLY)), &byte, 1), EISDIR);
    OK(close(fd));
    FAILS(close(fd), EBADF);
    FAILS(write(fd, "y", 1), EBADF);
}

static void append(void)
{
    int a, b;

    make_file("f", "start ");
    a = (int)OK(open("f", O_WRONLY | O_APPEND));
    b = (int)OK(open("f", O_WRONLY | O_APPEND));
    for (int i = 0; i < 3; i++) {
        EQ(write(a, "aa", 2), 2);
        EQ(write(b, "b", 1), 1);
    }
    EQ(lseek(a, 0, SEEK_SET), 0);
    EQ(write(a, "!", 1), 1);
    EQ(lseek(a, 0, SEEK_CUR), 16);
    EQ(pwrite(b, "?", 1, 0), 1); /* Linux appends here too. */
    expect_text("f", "start aabaabaab!?");
}

static void append_switched_on_later(void)
{
    int fd;

    make_file("f", "0123456789");
    fd = (int)OK(open("f", O_RDWR));
    EQ(write(fd, "ab", 2), 2);
    OK(fcntl(fd, F_SETFL, O_APPEND));
    TRUE((fcntl(fd, F_GETFL) & O_APPEND) != 0);
    EQ(write(fd, "cd", 2), 2);
    OK(fcntl(fd, F_SETFL, 0));
    EQ(lseek(fd, 2, SEEK_SET), 2);
    EQ(write(fd, "ef", 2), 2);
    expect_text("f", "abef456789cd");
}

enum { APPEND_RECORDS = 300 };

static void append_records(int writer)
{
    int fd = (int)OK(open("f", O_WRONLY | O_CREAT | O_APPEND, 0644));
    char line[64];

    for (int i = 0; i < APPEND_RECORDS; i++) {
        int n = snprintf(line, sizeof(line), "%d %d %.*s\n", writer, i, 1 + (i * 7 + writer) % 30,
                         "abcdefghijklmnopqrstuvwxyzabcdefgh");

        EQ(write(fd, line, (size_t)n), n);
    }
}

static void append_records_a(void)
{
    append_records(0);
}

static void append_records_b(void)
{
    append_records(1);
}

/* Two processes append records of unlike length: none may overlap, none may tear, each writer's
 * stay in order. */
static void append_from_two_processes(void)
{
    pid_t a = start(append_records_a), b = start(append_records_b);
    int next[2] = { 0 };
    char line[64];
    FILE *file;

    EQ(finish(a), 0);
    EQ(finish(b), 0);
    file = fopen("f", "r");
    TRUE(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        int writer = -1, i = -1, used = 0;

        EQ(sscanf(line, "%d %d %n", &writer, &i, &used), 2);
        TRUE(writer == 0 || writer == 1);
        EQ(i, next[writer]);
        EQ(strlen(line + used), (size_t)(1 + (i * 7 + writer) % 30) + 1);
        next[writer]++;
    }
    EQ(next[0], APPEND_RECORDS);
    EQ(next[1], APPEND_RECORDS);
}

static void offsets(void)
{
    int fd, twin, other;

    make_file("f", "0123456789");
    fd = (int)OK(open("f", O_RDWR));
    twin = (int)OK(dup(fd));
    other = (int)OK(open("f", O_RDWR));
    EQ(lseek(fd, 4, SEEK_SET), 4);
    EQ(lseek(twin, 0, SEEK_CUR), 4);  /* One offset for both, */
    EQ(lseek(other, 0, SEEK_CUR), 0); /* but not for a second open. */
    EQ(lseek(fd, -2, SEEK_END), 8);
    EQ(lseek(fd, 100, SEEK_END), 110);
    FAILS(lseek(fd, -1, SEEK_SET), EINVAL);
    FAILS(lseek(fd, -200, SEEK_CUR), EINVAL);
    FAILS(lseek(fd, 0, 99), EINVAL);
    FAILS(pread(fd, &other, 1, -1), EINVAL);
    FAILS(pwrite(fd, "x", 1, -1), EINVAL);
    EQ(size_of("f"), 10); /* Seeking beyond the end writes nothing. */
    OK(close(fd));
    EQ(write(twin, "x", 1), 1); /* The other descriptor lives on. */
    EQ(size_of("f"), 111);
}

static void vectors(void)
{
    char a[3], b[4];
    struct iovec out[] = { { (void *)(uintptr_t) "abc", 3 },
                           { NULL, 0 },
                           { (void *)(uintptr_t) "defg", 4 } };
    struct iovec in[] = { { a, 3 }, { b, 4 } };
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    EQ(writev(fd, out, 3), 7);
    EQ(preadv(fd, in, 2, 0), 7);
    TRUE(memcmp(a, "abc", 3) == 0 && memcmp(b, "defg", 4) == 0);
    EQ(pwritev(fd, out, 3, 2), 7);
    expect_text("f", "ababcdefg");
}

static void writing_nothing(void)
{
    struct stat before;
    int fd;

    make_file("f", "x");
    before = stat_of("f");
    let_clock_tick();
    fd = (int)OK(open("f", O_RDWR));
    EQ(write(fd, "", 0), 0);
    EQ(pwrite(fd, "", 0, 100), 0);
    EQ(read(fd, &before, 0), 0);
    EQ(size_of("f"), 1);
}

static void mode_counts_for_the_next_open_only(void)
{
    int fd;

    need_root();
    become(ALICE, ALICE);
    fd = (int)OK(open("f", O_RDWR | O_CREAT, 0));
    EQ(write(fd, "x", 1), 1);
    EQ(stat_of("f").st_mode & 07777, 0);
    FAILS(open("f", O_RDONLY), EACCES);
    expect_bytes(fd, "x", 1, 0);
}

static void unlinked_file_lives_until_closed(void)
{
    enum { COUNT = 3 << 20 };
    static uint8_t bytes[COUNT];
    struct stat st;
    int fd;

    fill(bytes, COUNT, 2);
    fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));
    write_at(fd, bytes, COUNT / 2, 0);
    OK(unlink("f"));
    TRUE(!exists("f"));
    OK(fstat(fd, &st));
    EQ(st.st_nlink, 0);
    write_at(fd, bytes + COUNT / 2, COUNT / 2, COUNT / 2);
    expect_bytes(fd, bytes, COUNT, 0);
    OK(fchmod(fd, 0600));
    OK(ftruncate(fd, 100));
    OK(fsync(fd));
    expect_bytes(fd, bytes, 100, 0);
    /* A new file of the same name is another one. */
    make_file("f", "new");
    OK(fstat(fd, &st));
    EQ(st.st_size, 100);
    TRUE(st.st_ino != stat_of("f").st_ino);
    OK(close(fd));
    expect_text("f", "new");
}

static void renamed_and_replaced_files_keep_their_handles(void)
{
    int a, b;

    make_file("a", "aaa");
    make_file("b", "bbbb");
    a = (int)OK(open("a", O_RDWR));
    b = (int)OK(open("b", O_RDWR));
    OK(rename("a", "b"));
    expect_bytes(a, "aaa", 3, 0);
    expect_bytes(b, "bbbb", 4, 0);
    EQ(pwrite(b, "BB", 2, 0), 2);
    EQ(pwrite(a, "A", 1, 0), 1);
    expect_bytes(b, "BBbb", 4, 0);
    OK(close(b));
    OK(close(a));
    expect_text("b", "Aaa");
}

static void reopened_through_proc(void)
{
    char path[64];
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644)), again;

    EQ(write(fd, "abc", 3), 3);
    OK(unlink("f"));
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    again = (int)OK(open(path, O_RDWR));
    expect_bytes(again, "abc", 3, 0);
    OK(close(fd));
    EQ(pwrite(again, "x", 1, 3), 1);
    expect_bytes(again, "abcx", 4, 0);
}

static void path_only_handles(void)
{
    struct stat st;
    char byte;
    int fd;

    make_file("f", "abc");
    fd = (int)OK(open("f", O_PATH));
    OK(fstat(fd, &st));
    EQ(st.st_size, 3);
    FAILS(read(fd, &byte, 1), EBADF);
    OK(symlink("f", "s"));
    fd = (int)OK(open("s", O_PATH | O_NOFOLLOW));
    OK(fstat(fd, &st));
    TRUE(S_ISLNK(st.st_mode));
}

static void relative_to_a_directory(void)
{
    int dir, fd;

    OK(mkdir("d", 0755));
    dir = (int)OK(open("d", O_RDONLY | O_DIRECTORY));
    fd = (int)OK(openat(dir, "f", O_RDWR | O_CREAT | O_EXCL, 0644));
    EQ(write(fd, "x", 1), 1);
    OK(mkdirat(dir, "e", 0755));
    OK(renameat(dir, "f", dir, "g"));
    OK(linkat(dir, "g", dir, "e/h", 0));
    expect_text("d/e/h", "x");
    OK(unlinkat(dir, "g", 0));
    OK(rename("d", "moved")); /* The handle goes with it. */
    OK(unlinkat(dir, "e/h", 0));
    OK(unlinkat(dir, "e", AT_REMOVEDIR));
    FAILS(unlinkat(dir, "e", AT_REMOVEDIR), ENOENT);
    FAILS(openat(fd, "x", O_RDONLY), ENOTDIR);
}

static void temporary_file_without_a_name(void)
{
    char path[64];
    int fd = open(".", O_RDWR | O_TMPFILE, 0640);
    struct stat st;

    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOSYS)) {
        SKIP("no O_TMPFILE here");
    }
    OK(fd);
    EQ(write(fd, "hidden", 6), 6);
    OK(fstat(fd, &st));
    EQ(st.st_nlink, 0);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    OK(linkat(AT_FDCWD, path, AT_FDCWD, "f", AT_SYMLINK_FOLLOW));
    expect_text("f", "hidden");
    EQ(stat_of("f").st_mode & 07777, 0640);
    EQ(stat_of("f").st_nlink, 1);
    fd = (int)OK(open(".", O_RDWR | O_TMPFILE | O_EXCL, 0600));
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    FAILS(linkat(AT_FDCWD, path, AT_FDCWD, "g", AT_SYMLINK_FOLLOW), ENOENT);
}

static void synchronous_writes(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT | O_SYNC, 0644));

    EQ(write(fd, "sync", 4), 4);
    OK(close(fd));
    fd = (int)OK(open("f", O_RDWR | O_DSYNC));
    EQ(pwrite(fd, "S", 1, 0), 1);
    expect_text("f", "Sync");
    OK(fsync(fd));
    OK(fdatasync(fd));
    OK(syncfs(fd));
    fd = (int)OK(open("f", O_RDONLY));
    OK(fsync(fd)); /* A reader may ask for it as well. */
    OK(mkdir("d", 0755));
    OK(fsync((int)OK(open("d", O_RDONLY))));
}

static void direct_io(void)
{
    enum { COUNT = 2 << 20 };
    uint8_t *bytes = aligned_alloc(4096, COUNT), *got = aligned_alloc(4096, COUNT);
    int fd = open("f", O_RDWR | O_CREAT | O_DIRECT, 0644), buffered;

    TRUE(bytes != NULL && got != NULL);
    if (fd < 0 && errno == EINVAL) {
        SKIP("no O_DIRECT here");
    }
    OK(fd);
    fill(bytes, COUNT, 3);
    EQ(pwrite(fd, bytes, COUNT, 0), COUNT);
    EQ(pwrite(fd, bytes, 4096, 3 * 4096), 4096);
    memcpy(bytes + (size_t)3 * 4096, bytes, 4096);
    EQ(pread(fd, got, COUNT, 0), COUNT);
    TRUE(memcmp(bytes, got, COUNT) == 0);
    EQ(pread(fd, got, 4096, COUNT), 0);
    /* Cached and direct handles see each other. */
    buffered = (int)OK(open("f", O_RDWR));
    expect_bytes(buffered, bytes, COUNT, 0);
    EQ(pwrite(buffered, "buffered", 8, 4096), 8);
    EQ(pread(fd, got, 4096, 4096), 4096);
    TRUE(memcmp(got, "buffered", 8) == 0);
    EQ(pwrite(fd, bytes, 4096, 4096), 4096);
    expect_bytes(buffered, bytes, 4096, 4096);
    OK(ftruncate(buffered, COUNT - 100)); /* The last block is not whole. */
    EQ(pread(fd, got, 4096, COUNT - 4096), 3996);
}

static void many_handles_of_one_file(void)
{
    enum { HANDLES = 200 };
    int fds[HANDLES];

    make_file("f", "");
    for (int i = 0; i < HANDLES; i++) {
        fds[i] = (int)OK(open("f", O_RDWR));
    }
    for (int i = 0; i < HANDLES; i++) {
        uint8_t byte = (uint8_t)i;

        EQ(pwrite(fds[i], &byte, 1, (off_t)i * 1000), 1);
    }
    for (int i = 0; i < HANDLES; i++) {
        uint8_t byte = (uint8_t)(HANDLES - 1 - i);

        expect_bytes(fds[i], &byte, 1, (off_t)byte * 1000);
        OK(close(fds[i]));
    }
}

static const struct suite_case open_cases[] = {
    SUITE_CASE(create_write_read),
    SUITE_CASE(exclusive),
    SUITE_CASE(create_through_a_dangling_link),
    SUITE_CASE(create_keeps_an_existing_file),
    SUITE_CASE(reopened_at_once),
    SUITE_CASE(truncating_open),
    SUITE_CASE(wrong_kinds),
    SUITE_CASE(wrong_direction),
    SUITE_CASE(append),
    SUITE_CASE(append_switched_on_later),
    SUITE_CASE(append_from_two_processes),
    SUITE_CASE(offsets),
    SUITE_CASE(vectors),
    SUITE_CASE(writing_nothing),
    SUITE_CASE(mode_counts_for_the_next_open_only),
    SUITE_CASE(unlinked_file_lives_until_closed),
    SUITE_CASE(renamed_and_replaced_files_keep_their_handles),
    SUITE_CASE(reopened_through_proc),
    SUITE_CASE(path_only_handles),
    SUITE_CASE(relative_to_a_directory),
    SUITE_CASE(temporary_file_without_a_name),
    SUITE_CASE(synchronous_writes),
    SUITE_CASE(direct_io),
    SUITE_CASE(many_handles_of_one_file),
};
SUITE_GROUP(open);
