/* fallocate in all its modes, SEEK_DATA and SEEK_HOLE. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 9 << 20 };

static uint8_t bytes[SIZE];

static int full_file(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    fill(bytes, SIZE, 20);
    write_at(fd, bytes, SIZE, 0);
    return fd;
}

static void need(int fd, int mode)
{
    if (fallocate(fd, mode, 0, 4096) != 0 && errno == EOPNOTSUPP) {
        SKIP("this mode of fallocate is not supported here");
    }
}

static void allocate_extends(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    write_at(fd, "abc", 3, 0);
    OK(fallocate(fd, 0, 100, 3 << 20));
    EQ(size_of("f"), (3 << 20) + 100);
    expect_bytes(fd, "abc", 3, 0);
    expect_zeros(fd, (3 << 20) + 97, 3);
    OK(fallocate(fd, 0, 0, 10)); /* Inside: nothing changes. */
    EQ(size_of("f"), (3 << 20) + 100);
    OK(-posix_fallocate(fd, 4 << 20, 1));
    EQ(size_of("f"), (4 << 20) + 1);
}

static void allocate_and_keep_the_size(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    write_at(fd, "abc", 3, 0);
    OK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 3 << 20));
    EQ(size_of("f"), 3);
    EQ(pread(fd, bytes, 10, 0), 3);
    OK(ftruncate(fd, 2 << 20));
    expect_zeros(fd, (2 << 20) - 3, 3);
}

static void punch(off_t offset, off_t length)
{
    int fd = full_file();
    off_t end = offset + length < SIZE ? offset + length : SIZE;

    need(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    write_at(fd, bytes, 4096, 0);
    OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length));
    EQ(size_of("f"), SIZE);
    for (int round = 0; round < 2; round++) {
        expect_bytes(fd, bytes, (size_t)offset, 0);
        expect_zeros(fd, (size_t)(end - offset), offset);
        expect_bytes(fd, bytes + end, (size_t)(SIZE - end), end);
        forget_pages(fd);
    }
}

static void punch_within_a_block(void)
{
    punch(5000, 100);
}

static void punch_across_blocks(void)
{
    punch(5000, 10000);
}

static void punch_across_morsels(void)
{
    punch((1 << 20) - 3, 6);
    punch((1 << 20) - 5000, (2 << 20) + 9999);
}

static void punch_whole_stripes(void)
{
    punch(0, 8 << 20);
}

static void punch_beyond_the_end(void)
{
    punch(SIZE - 5000, 100000);
}

static void punch_is_seen_through_mapped_pages(void)
{
    int fd = full_file(), other = (int)OK(open("f", O_RDONLY));

    need(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    expect_bytes(other, bytes + 8192, 8192, 8192); /* Now they are cached. */
    OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 8192));
    expect_zeros(other, 8192, 8192);
}

static void zero_range(void)
{
    int fd = full_file();

    need(fd, FALLOC_FL_ZERO_RANGE);
    write_at(fd, bytes, 4096, 0);
    OK(fallocate(fd, FALLOC_FL_ZERO_RANGE, (1 << 20) - 777, 3000000));
    for (int round = 0; round < 2; round++) {
        expect_bytes(fd, bytes, (1 << 20) - 777, 0);
        expect_zeros(fd, 3000000, (1 << 20) - 777);
        expect_bytes(fd, bytes + (1 << 20) - 777 + 3000000, 4096, (1 << 20) - 777 + 3000000);
        forget_pages(fd);
    }
    OK(fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, SIZE - 10, 5000));
    EQ(size_of("f"), SIZE);
    OK(fallocate(fd, FALLOC_FL_ZERO_RANGE, SIZE - 10, 5000));
    EQ(size_of("f"), SIZE + 4990);
    expect_zeros(fd, 5000, SIZE - 10);
}

static void wrong_arguments(void)
{
    int fd = full_file();

    FAILS(fallocate(fd, 0, 0, 0), EINVAL);
    FAILS(fallocate(fd, 0, -1, 10), EINVAL);
    FAILS(fallocate(fd, 0, 0, -10), EINVAL);
    FAILS(fallocate(fd, 0, INT64_MAX - 5, 10), EFBIG);
    FAILS(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10), EOPNOTSUPP);
    FAILS(fallocate((int)OK(open("f", O_RDONLY)), 0, 0, 10), EBADF);
    OK(mkdir("d", 0755));
    FAILS(fallocate((int)OK(open("d", O_RDONLY)), 0, 0, 10), EBADF);
    EQ(size_of("f"), SIZE);
}

static void used_space_is_reported(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    EQ(stat_of("f").st_blocks, 0);
    fill(bytes, 1 << 20, 21);
    write_at(fd, bytes, 1 << 20, 64 << 20);
    OK(fsync(fd));
    TRUE(stat_of("f").st_blocks >= 2048);
    TRUE(stat_of("f").st_blocks < 2048 * 3); /* The hole takes nothing. */
    TRUE(stat_of("f").st_blksize >= 512);
    need(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 65 << 20));
    OK(fsync(fd));
    TRUE(stat_of("f").st_blocks < 256);
}

static void space_is_given_back(void)
{
    int fd = full_file();
    off_t blocks;

    OK(fsync(fd));
    blocks = stat_of("f").st_blocks;
    TRUE(blocks >= SIZE / 512);
    OK(ftruncate(fd, 1 << 20));
    OK(fsync(fd));
    TRUE(stat_of("f").st_blocks <= blocks / 4);
}

static void seek_in_a_file_without_holes(void)
{
    int fd = full_file();

    EQ(lseek(fd, 0, SEEK_DATA), 0);
    EQ(lseek(fd, 12345, SEEK_DATA), 12345);
    EQ(lseek(fd, 0, SEEK_HOLE), SIZE);
    EQ(lseek(fd, SIZE - 1, SEEK_HOLE), SIZE);
    FAILS(lseek(fd, SIZE, SEEK_DATA), ENXIO);
    FAILS(lseek(fd, SIZE, SEEK_HOLE), ENXIO);
    FAILS(lseek(fd, -1, SEEK_DATA), ENXIO);
}

/* Data at the given places of a sparse file, far apart; the reports may be rounded to blocks, never
 * more than a morsel's worth. */
static void seek_over_holes(void)
{
    static const off_t places[] = { 3 << 20, 17 << 20, (40 << 20) + 4096 };
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));
    off_t at = 0;

    for (int i = 0; i < 3; i++) {
        fill(bytes, 65536, (uint64_t)i);
        write_at(fd, bytes, 65536, places[i]);
    }
    OK(ftruncate(fd, 64 << 20));
    OK(fsync(fd));
    for (int i = 0; i < 3; i++) {
        off_t data = OK(lseek(fd, at, SEEK_DATA)), hole;

        TRUE(data <= places[i] && data > places[i] - (1 << 20));
        hole = OK(lseek(fd, data, SEEK_HOLE));
        TRUE(hole >= places[i] + 65536 && hole <= places[i] + 65536 + (1 << 20));
        expect_zeros(fd, 4096, hole);
        EQ(lseek(fd, 0, SEEK_CUR), hole);
        at = hole;
    }
    FAILS(lseek(fd, at, SEEK_DATA), ENXIO);
    EQ(lseek(fd, at, SEEK_HOLE), at);
    EQ(lseek(fd, 0, SEEK_HOLE), 0);
}

/* Data that was written and not synced must be found too. */
static void seek_sees_what_was_just_written(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    OK(ftruncate(fd, 32 << 20));
    fill(bytes, 4096, 1);
    write_at(fd, bytes, 4096, 20 << 20);
    TRUE(OK(lseek(fd, 0, SEEK_DATA)) > 18 << 20);
    TRUE(OK(lseek(fd, 20 << 20, SEEK_HOLE)) < 22 << 20);
}

static void seek_in_an_empty_file(void)
{
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    FAILS(lseek(fd, 0, SEEK_DATA), ENXIO);
    FAILS(lseek(fd, 0, SEEK_HOLE), ENXIO);
    OK(ftruncate(fd, 5 << 20));
    FAILS(lseek(fd, 0, SEEK_DATA), ENXIO);
    EQ(lseek(fd, 0, SEEK_HOLE), 0);
    EQ(lseek(fd, 12345, SEEK_HOLE), 12345);
}

static const struct suite_case sparse_cases[] = {
    SUITE_CASE(allocate_extends),
    SUITE_CASE(allocate_and_keep_the_size),
    SUITE_CASE(punch_within_a_block),
    SUITE_CASE(punch_across_blocks),
    SUITE_CASE(punch_across_morsels),
    SUITE_CASE(punch_whole_stripes),
    SUITE_CASE(punch_beyond_the_end),
    SUITE_CASE(punch_is_seen_through_mapped_pages),
    SUITE_CASE(zero_range),
    SUITE_CASE(wrong_arguments),
    SUITE_CASE(used_space_is_reported),
    SUITE_CASE(space_is_given_back),
    SUITE_CASE(seek_in_a_file_without_holes),
    SUITE_CASE(seek_over_holes),
    SUITE_CASE(seek_sees_what_was_just_written),
    SUITE_CASE(seek_in_an_empty_file),
};
SUITE_GROUP(sparse);
