/* Times: set by hand, and moved by what happens to a file. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void set_to_the_nanosecond(void)
{
    struct timespec times[2] = { { 1234567890, 123456789 }, { 987654321, 987654321 } };
    struct stat st;
    int fd;

    make_file("f", "");
    OK(utimensat(AT_FDCWD, "f", times, 0));
    st = stat_of("f");
    EQ(st.st_atim.tv_sec, 1234567890);
    EQ(st.st_atim.tv_nsec, 123456789);
    EQ(st.st_mtim.tv_sec, 987654321);
    EQ(st.st_mtim.tv_nsec, 987654321);
    times[1].tv_nsec = 1;
    fd = (int)OK(open("f", O_RDONLY));
    OK(futimens(fd, times));
    EQ(stat_of("f").st_mtim.tv_nsec, 1);
    OK(mkdir("d", 0755));
    OK(utimensat(AT_FDCWD, "d", times, 0));
    EQ(stat_of("d").st_mtim.tv_sec, 987654321);
}

static void omitted_and_now(void)
{
    struct timespec times[2] = { { 1000, 5 }, { 2000, 6 } }, clock;

    make_file("f", "");
    OK(utimensat(AT_FDCWD, "f", times, 0));
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 3000;
    OK(utimensat(AT_FDCWD, "f", times, 0));
    EQ(stat_of("f").st_atim.tv_sec, 1000);
    EQ(stat_of("f").st_atim.tv_nsec, 5);
    EQ(stat_of("f").st_mtim.tv_sec, 3000);
    OK(clock_gettime(CLOCK_REALTIME_COARSE, &clock));
    times[1].tv_nsec = UTIME_NOW;
    OK(utimensat(AT_FDCWD, "f", times, 0));
    EQ(stat_of("f").st_atim.tv_sec, 1000);
    TRUE(stat_of("f").st_mtim.tv_sec >= clock.tv_sec - 1);
    OK(utimensat(AT_FDCWD, "f", NULL, 0));
    TRUE(stat_of("f").st_atim.tv_sec >= clock.tv_sec - 1);
    times[0].tv_nsec = times[1].tv_nsec = UTIME_OMIT;
    OK(utimensat(AT_FDCWD, "f", times, 0));
    times[0].tv_nsec = 1000000000;
    FAILS(utimensat(AT_FDCWD, "f", times, 0), EINVAL);
}

static void old_and_far_times(void)
{
    struct timespec times[2] = { { -1000, 500 }, { 4102444800, 1 } }; /* 1969 and 2100 */

    make_file("f", "");
    OK(utimensat(AT_FDCWD, "f", times, 0));
    EQ(stat_of("f").st_atim.tv_sec, -1000);
    EQ(stat_of("f").st_atim.tv_nsec, 500);
    EQ(stat_of("f").st_mtim.tv_sec, 4102444800);
}

static void of_a_link_itself(void)
{
    struct timespec times[2] = { { 1000, 0 }, { 2000, 0 } };

    make_file("f", "");
    OK(symlink("f", "s"));
    OK(utimensat(AT_FDCWD, "s", times, AT_SYMLINK_NOFOLLOW));
    EQ(stat_of("s").st_mtim.tv_sec, 2000);
    TRUE(stat_of("f").st_mtim.tv_sec != 2000);
    OK(utimensat(AT_FDCWD, "s", times, 0));
    EQ(stat_of("f").st_mtim.tv_sec, 2000);
}

static void setting_moves_the_change_time(void)
{
    struct timespec times[2] = { { 1000, 0 }, { 2000, 0 } }, before;

    make_file("f", "");
    before = stat_of("f").st_ctim;
    let_clock_tick();
    OK(utimensat(AT_FDCWD, "f", times, 0));
    TRUE(later(stat_of("f").st_ctim, before));
}

static void who_may_set_them(void)
{
    struct timespec times[2] = { { 1000, 0 }, { 2000, 0 } };
    struct timespec now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };

    need_root();
    make_file("f", "");
    OK(chown("f", ALICE, ALICE));
    OK(chmod("f", 0646));
    become(BOB, BOB);
    OK(utimensat(AT_FDCWD, "f", NULL, 0)); /* Whoever may write may say now, */
    OK(utimensat(AT_FDCWD, "f", now, 0));
    FAILS(utimensat(AT_FDCWD, "f", times, 0), EPERM); /* but nothing else. */
    now[0].tv_nsec = UTIME_OMIT;
    FAILS(utimensat(AT_FDCWD, "f", now, 0), EPERM);
    become_root();
    OK(chmod("f", 0644));
    become(BOB, BOB);
    FAILS(utimensat(AT_FDCWD, "f", NULL, 0), EACCES);
    become(ALICE, ALICE);
    OK(utimensat(AT_FDCWD, "f", times, 0));
}

static void writing_moves_modification_and_change(void)
{
    struct stat before, after;
    char byte;
    int fd;

    make_file("f", "0123456789");
    fd = (int)OK(open("f", O_RDWR));
    before = stat_of("f");
    let_clock_tick();
    EQ(pwrite(fd, "x", 1, 0), 1);
    after = stat_of("f");
    TRUE(later(after.st_mtim, before.st_mtim));
    TRUE(later(after.st_ctim, before.st_ctim));
    before = after;
    let_clock_tick();
    OK(ftruncate(fd, 5));
    after = stat_of("f");
    TRUE(later(after.st_mtim, before.st_mtim));
    before = after;
    let_clock_tick();
    EQ(pread(fd, &byte, 1, 0), 1);
    after = stat_of("f");
    TRUE(!later(after.st_mtim, before.st_mtim));
    TRUE(!later(after.st_ctim, before.st_ctim));
}

/* What was set by hand must not be overwritten by a write that was still on its way. */
static void times_set_after_a_write_stay(void)
{
    struct timespec times[2] = { { 1000, 7 }, { 2000, 8 } };
    static uint8_t bytes[1 << 20];
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    write_at(fd, bytes, sizeof(bytes), 0);
    OK(futimens(fd, times));
    EQ(stat_of("f").st_mtim.tv_sec, 2000);
    OK(fsync(fd));
    OK(close(fd));
    EQ(stat_of("f").st_mtim.tv_sec, 2000);
    EQ(stat_of("f").st_mtim.tv_nsec, 8);
}

static void closing_does_not_move_them(void)
{
    struct timespec before;
    int fd = (int)OK(open("f", O_RDWR | O_CREAT, 0644));

    EQ(write(fd, "x", 1), 1);
    before = stat_of("f").st_mtim;
    let_clock_tick();
    OK(close(fd));
    TRUE(!later(stat_of("f").st_mtim, before));
}

static void new_files_are_of_now(void)
{
    struct timespec before, after;
    struct stat st;

    OK(clock_gettime(CLOCK_REALTIME_COARSE, &before));
    let_clock_tick();
    make_file("f", "");
    let_clock_tick();
    OK(clock_gettime(CLOCK_REALTIME, &after));
    st = stat_of("f");
    TRUE(!later(before, st.st_mtim) && !later(st.st_mtim, after));
    TRUE(!later(before, st.st_atim) && !later(st.st_atim, after));
    TRUE(!later(before, st.st_ctim) && !later(st.st_ctim, after));
}

static const struct suite_case time_cases[] = {
    SUITE_CASE(set_to_the_nanosecond),
    SUITE_CASE(omitted_and_now),
    SUITE_CASE(old_and_far_times),
    SUITE_CASE(of_a_link_itself),
    SUITE_CASE(setting_moves_the_change_time),
    SUITE_CASE(who_may_set_them),
    SUITE_CASE(writing_moves_modification_and_change),
    SUITE_CASE(times_set_after_a_write_stay),
    SUITE_CASE(closing_does_not_move_them),
    SUITE_CASE(new_files_are_of_now),
};
SUITE_GROUP(time);
