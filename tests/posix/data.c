/* Bytes: borders of blocks, morsels and stripes, truncation, sizes near the limits, copies inside
 * the kernel. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

/* Where something changes hands: a block, the smallest morsel, the default morsel, a whole stripe
 * of four, the largest morsel. */
static const off_t borders[] = { 4096, 64 << 10, 1 << 20, 2 << 20, 4 << 20, 5 << 20, 16 << 20 };

#define FOREACH_BORDER(i) for (size_t i = 0; i < sizeof(borders) / sizeof(borders[0]); i++)

static void writes_across_borders(void)
{
    static uint8_t bytes[9000];
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    FOREACH_BORDER(i)
    {
        for (off_t before = 1; before < 9000 && before <= borders[i]; before += 2999) {
            fill(bytes, sizeof(bytes), (uint64_t)before + i);
            write_at(fd, bytes, sizeof(bytes), borders[i] - before);
            expect_bytes(fd, bytes, sizeof(bytes), borders[i] - before);
        }
    }
    forget_pages(fd);
    FOREACH_BORDER(i)
    {
        if (borders[i] > 9000) { /* The last write there. */
            fill(bytes, sizeof(bytes), 8998 + i);
            expect_bytes(fd, bytes, sizeof(bytes), borders[i] - 8998);
        }
    }
}

static void single_bytes_at_borders(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    FOREACH_BORDER(i)
    {
        write_at(fd, "LR", 1, borders[i] - 1);
        EQ(size_of("f"), borders[i]);
        write_at(fd, "R", 1, borders[i]);
        EQ(size_of("f"), borders[i] + 1);
        forget_pages(fd);
        expect_bytes(fd, "LR", 2, borders[i] - 1);
        expect_zeros(fd, 1000, borders[i] - 1001);
    }
}

static void a_large_file_reads_back(void)
{
    enum { COUNT = (20 << 20) + 12345 };
    uint8_t *bytes = malloc(COUNT);
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    TRUE(bytes != NULL);
    fill(bytes, COUNT, 4);
    write_at(fd, bytes, COUNT, 0);
    EQ(size_of("f"), COUNT);
    expect_bytes(fd, bytes, COUNT, 0);
    OK(close(fd));
    fd = (int)OK(open("f", O_RDONLY));
    forget_pages(fd);
    expect_bytes(fd, bytes, COUNT, 0);
    for (off_t at = COUNT - 1; at > 0; at -= 777777) { /* Backwards, in odd pieces. */
        expect_bytes(fd, bytes + at, at + 5000 < COUNT ? 5000 : (size_t)(COUNT - at), at);
    }
    free(bytes);
}

static void small_appends(void)
{
    enum { COUNT = 300000 };
    static uint8_t bytes[COUNT];
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));
    size_t at = 0;

    fill(bytes, COUNT, 5);
    for (size_t i = 1; at < COUNT; i++) {
        size_t n = i * 37 % 701 + 1;

        n = n < COUNT - at ? n : COUNT - at;
        EQ(write(fd, bytes + at, n), n);
        at += n;
    }
    expect_bytes(fd, bytes, COUNT, 0);
    forget_pages(fd);
    expect_bytes(fd, bytes, COUNT, 0);
}

static void overwriting(void)
{
    enum { COUNT = 3 << 20 };
    static uint8_t bytes[COUNT];
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    fill(bytes, COUNT, 6);
    write_at(fd, bytes, COUNT, 0);
    for (size_t i = 0; i < 60; i++) {
        size_t at = i * 104729 % (COUNT - 70000), n = i * 7919 % 70000;

        fill(bytes + at, n, 100 + i);
        write_at(fd, bytes + at, n, (off_t)at);
        if (i % 7 == 0) {
            forget_pages(fd);
        }
    }
    expect_bytes(fd, bytes, COUNT, 0);
    EQ(size_of("f"), COUNT);
}

static void truncate_down_and_up_gives_zeros(void)
{
    static uint8_t bytes[10000];

    fill(bytes, sizeof(bytes), 7);
    FOREACH_BORDER(i)
    {
        for (off_t cut = -1; cut <= 1; cut++) {
            int fd = (int)OK(open("f", O_RDWR | O_CREAT | O_TRUNC, 0644));
            off_t size = borders[i] + cut, start_at = borders[i] > 5000 ? borders[i] - 5000 : 0;

            write_at(fd, bytes, sizeof(bytes), start_at);
            OK(ftruncate(fd, size));
            EQ(size_of("f"), size);
            EQ(pread(fd, bytes, 1, size), 0);
            OK(ftruncate(fd, borders[i] + 8192));
            fill(bytes, sizeof(bytes), 7);
            expect_bytes(fd, bytes, (size_t)(size - start_at), start_at);
            expect_zeros(fd, (size_t)(borders[i] + 8192 - size), size);
            forget_pages(fd);
            expect_bytes(fd, bytes, (size_t)(size - start_at), start_at);
            expect_zeros(fd, (size_t)(borders[i] + 8192 - size), size);
            OK(close(fd));
        }
    }
}

static void truncate_by_name(void)
{
    make_pattern_file("f", 3 << 20, 8);
    OK(truncate("f", 12345));
    EQ(size_of("f"), 12345);
    OK(truncate("f", 0));
    EQ(stat_of("f").st_blocks, 0);
    OK(truncate("f", 5000000));
    expect_zeros((int)OK(open("f", O_RDONLY)), 5000000, 0);
    FAILS(truncate("f", -1), EINVAL);
    FAILS(truncate("missing", 0), ENOENT);
    OK(mkdir("d", 0755));
    FAILS(truncate("d", 0), EISDIR);
    FAILS(truncate("f/g", 0), ENOTDIR);
}

static void truncate_is_seen_by_other_handles(void)
{
    int a, b;
    char byte;

    make_pattern_file("f", 2 << 20, 9);
    a = (int)OK(open("f", O_RDWR));
    b = (int)OK(open("f", O_RDWR));
    EQ(pread(b, &byte, 1, (2 << 20) - 1), 1);
    OK(ftruncate(a, 1000));
    EQ(pread(b, &byte, 1, 1000), 0);
    EQ(lseek(b, 0, SEEK_END), 1000);
    write_at(b, "x", 1, 2000);
    EQ(size_of("f"), 2001);
    expect_zeros(a, 1000, 1000);
}

static void reads_at_and_behind_the_end(void)
{
    char bytes[100];
    int fd;

    make_file("f", "0123456789");
    fd = (int)OK(open("f", O_RDONLY));
    EQ(pread(fd, bytes, 100, 0), 10);
    EQ(pread(fd, bytes, 100, 9), 1);
    EQ(pread(fd, bytes, 100, 10), 0);
    EQ(pread(fd, bytes, 100, 1 << 20), 0);
    EQ(pread(fd, bytes, 100, INT64_MAX - 200), 0);
    make_file("empty", "");
    EQ(pread((int)OK(open("empty", O_RDONLY)), bytes, 100, 0), 0);
}

static void writing_sees_itself_through_another_handle(void)
{
    int writer = (int)OK(open("f", O_WRONLY | O_CREAT, 0644));
    int reader = (int)OK(open("f", O_RDONLY));
    uint8_t bytes[5000];

    for (int i = 0; i < 300; i++) {
        fill(bytes, sizeof(bytes), (uint64_t)i);
        EQ(write(writer, bytes, sizeof(bytes)), sizeof(bytes));
        EQ(size_of("f"), (i + 1) * (long)sizeof(bytes));
        expect_bytes(reader, bytes, sizeof(bytes), i * (off_t)sizeof(bytes));
    }
}

static void far_out(off_t offset)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));
    ssize_t n = pwrite(fd, "far", 3, offset);

    if (n < 0 && errno == EFBIG) {
        SKIP("files of this size are too large for this file system");
    }
    EQ(n, 3);
    EQ(size_of("f"), offset + 3);
    expect_bytes(fd, "far", 3, offset);
    expect_zeros(fd, 10000, offset - 10000);
    expect_zeros(fd, 10000, 0);
    forget_pages(fd);
    expect_bytes(fd, "far", 3, offset);
    EQ(lseek(fd, 0, SEEK_END), offset + 3);
    OK(ftruncate(fd, offset + 1));
    expect_bytes(fd, "f", 1, offset);
    OK(ftruncate(fd, 5));
    expect_zeros(fd, 5, 0);
}

static void a_tebibyte_out(void)
{
    far_out((off_t)1 << 40);
}

static void four_exbibytes_out(void)
{
    far_out((off_t)1 << 62);
}

static void the_last_possible_byte(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    if (ftruncate(fd, INT64_MAX) != 0) {
        EQ(errno, EFBIG);
        SKIP("files of this size are too large for this file system");
    }
    EQ(size_of("f"), INT64_MAX);
    expect_zeros(fd, 10, INT64_MAX - 10);
    FAILS(pwrite(fd, "ab", 2, INT64_MAX), EINVAL);
}

static void file_size_limit(void)
{
    struct rlimit limit = { 10000, RLIM_INFINITY };
    static char bytes[20000];
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    OK(setrlimit(RLIMIT_FSIZE, &limit));
    TRUE(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    EQ(pwrite(fd, bytes, sizeof(bytes), 0), 10000);
    FAILS(pwrite(fd, bytes, 1, 10000), EFBIG);
    FAILS(ftruncate(fd, 10001), EFBIG);
    EQ(size_of("f"), 10000);
}

static void copy_inside(void)
{
    enum { COUNT = (3 << 20) + 999 };
    static uint8_t bytes[COUNT];
    off_t from_at = 1000, to_at = 70000;
    int from, to;

    make_pattern_file("from", COUNT, 10);
    fill(bytes, COUNT, 10);
    from = (int)OK(open("from", O_RDONLY));
    to = (int)OK(open("to", O_RDWR | O_CREAT, 0644));
    while (from_at < COUNT) {
        TRUE(OK(copy_file_range(from, &from_at, to, &to_at, (size_t)(COUNT - from_at), 0)) > 0);
    }
    EQ(to_at, 70000 + COUNT - 1000);
    EQ(size_of("to"), to_at);
    expect_zeros(to, 70000, 0);
    expect_bytes(to, bytes + 1000, COUNT - 1000, 70000);
    EQ(copy_file_range(from, &from_at, to, &to_at, 10, 0), 0);
    from_at = to_at = 0;
    EQ(sendfile(to, from, &from_at, 100000), 100000);
    expect_bytes(to, bytes, 70000, 0);
    /* Within one file: apart works, overlapping is refused. */
    from = (int)OK(open("from", O_RDWR));
    from_at = 0;
    to_at = 2 << 20;
    EQ(copy_file_range(from, &from_at, from, &to_at, 5000, 0), 5000);
    expect_bytes(from, bytes, 5000, 2 << 20);
    from_at = 0;
    to_at = 10;
    FAILS(copy_file_range(from, &from_at, from, &to_at, 100, 0), EINVAL);
}

static void two_writers_of_neighbours(void)
{
    enum { PIECES = 400, PIECE = 3000 };
    static uint8_t bytes[PIECE];
    pid_t child = (pid_t)OK(fork());
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    for (int i = child == 0 ? 0 : 1; i < PIECES; i += 2) {
        fill(bytes, PIECE, (uint64_t)i);
        write_at(fd, bytes, PIECE, (off_t)i * PIECE);
    }
    if (child == 0) {
        _exit(0);
    }
    EQ(finish(child), 0);
    EQ(size_of("f"), PIECES * PIECE);
    for (int i = 0; i < PIECES; i++) {
        fill(bytes, PIECE, (uint64_t)i);
        expect_bytes(fd, bytes, PIECE, (off_t)i * PIECE);
    }
}

static const struct suite_case data_cases[] = {
    SUITE_CASE(writes_across_borders),
    SUITE_CASE(single_bytes_at_borders),
    SUITE_CASE(a_large_file_reads_back),
    SUITE_CASE(small_appends),
    SUITE_CASE(overwriting),
    SUITE_CASE(truncate_down_and_up_gives_zeros),
    SUITE_CASE(truncate_by_name),
    SUITE_CASE(truncate_is_seen_by_other_handles),
    SUITE_CASE(reads_at_and_behind_the_end),
    SUITE_CASE(writing_sees_itself_through_another_handle),
    SUITE_CASE(a_tebibyte_out),
    SUITE_CASE(four_exbibytes_out),
    SUITE_CASE(the_last_possible_byte),
    SUITE_CASE(file_size_limit),
    SUITE_CASE(copy_inside),
    SUITE_CASE(two_writers_of_neighbours),
};
SUITE_GROUP(data);
