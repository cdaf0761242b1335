/* rename, with its flags and its many ways to fail. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int swap(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

static int move_without_replacing(const char *a, const char *b)
{
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_NOREPLACE);
}

static void to_a_new_name(void)
{
    struct stat before;

    make_file("a", "aaa");
    before = stat_of("a");
    OK(rename("a", "b"));
    TRUE(!exists("a"));
    EQ(stat_of("b").st_ino, before.st_ino);
    expect_text("b", "aaa");
    OK(mkdir("d", 0755));
    OK(rename("b", "d/c"));
    TRUE(!exists("b"));
    expect_text("d/c", "aaa");
    OK(rename("d", "e"));
    expect_text("e/c", "aaa");
}

static void over_another_file(void)
{
    ino_t a;

    make_file("a", "aaa");
    make_file("b", "bbb");
    OK(link("b", "b2"));
    a = stat_of("a").st_ino;
    OK(rename("a", "b"));
    TRUE(!exists("a"));
    EQ(stat_of("b").st_ino, a);
    expect_text("b", "aaa");
    expect_text("b2", "bbb");
    EQ(stat_of("b2").st_nlink, 1);
}

static void over_itself(void)
{
    make_file("a", "aaa");
    OK(rename("a", "a"));
    OK(link("a", "b"));
    OK(rename("a", "b")); /* Two names of one file: nothing happens. */
    TRUE(exists("a") && exists("b"));
    EQ(stat_of("a").st_nlink, 2);
    OK(mkdir("d", 0755));
    OK(rename("d", "d"));
}

static void files_and_directories_do_not_mix(void)
{
    make_file("f", "x");
    OK(mkdir("d", 0755));
    FAILS(rename("f", "d"), EISDIR);
    FAILS(rename("d", "f"), ENOTDIR);
    FAILS(rename("f/", "g"), ENOTDIR);
    FAILS(rename("f", "g/"), ENOTDIR);
    OK(rename("d/", "e/"));
    OK(symlink("e", "s"));
    FAILS(rename("e", "s"), ENOTDIR);
    OK(rename("s", "t")); /* The link itself. */
    TRUE(S_ISLNK(stat_of("t").st_mode));
    OK(rename("f", "t"));
    expect_text("t", "x");
    TRUE(exists("e"));
}

static void over_directories(void)
{
    OK(mkdir("a", 0755));
    OK(mkdir("b", 0755));
    make_file("a/f", "x");
    OK(rename("a", "b"));
    expect_text("b/f", "x");
    OK(mkdir("c", 0755));
    FAILS(rename("c", "b"), ENOTEMPTY);
    TRUE(exists("c"));
}

static void into_its_own_descendant(void)
{
    OK(mkdir("a", 0755));
    OK(mkdir("a/b", 0755));
    OK(mkdir("a/b/c", 0755));
    FAILS(rename("a", "a/x"), EINVAL);
    FAILS(rename("a", "a/b/x"), EINVAL);
    FAILS(rename("a", "a/b"), EINVAL);
    FAILS(rename("a", "a/b/c"), EINVAL);
    FAILS(rename("a/b", "a"), ENOTEMPTY);
    FAILS(rename("a/b/c", "a"), ENOTEMPTY);
    FAILS(swap("a", "a/b"), EINVAL);
    FAILS(swap("a/b/c", "a"), EINVAL);
    OK(rename("a/b/c", "c"));
}

static void missing_things(void)
{
    make_file("f", "x");
    OK(mkdir("d", 0755));
    FAILS(rename("missing", "g"), ENOENT);
    FAILS(rename("missing", "f"), ENOENT);
    FAILS(rename("f", "missing/g"), ENOENT);
    FAILS(rename("f", ""), ENOENT);
    FAILS(rename("", "g"), ENOENT);
    FAILS(rename("f", "f/g"), ENOTDIR);
    FAILS(rename("f/g", "h"), ENOTDIR);
    FAILS(rename("d/.", "e"), EBUSY);
    FAILS(rename("d", "d/.."), EBUSY);
    FAILS(rename("f", "d/."), EBUSY);
    expect_text("f", "x");
}

static void without_replacing(void)
{
    make_file("a", "aaa");
    make_file("b", "bbb");
    FAILS(move_without_replacing("a", "b"), EEXIST);
    FAILS(move_without_replacing("a", "a"), EEXIST);
    expect_text("b", "bbb");
    OK(move_without_replacing("a", "c"));
    expect_text("c", "aaa");
    OK(symlink("nowhere", "s"));
    FAILS(move_without_replacing("c", "s"), EEXIST);
    OK(mkdir("d", 0755));
    OK(mkdir("e", 0755));
    FAILS(move_without_replacing("d", "e"), EEXIST);
    FAILS(move_without_replacing("missing", "x"), ENOENT);
}

static void exchanging(void)
{
    ino_t a, d;

    make_file("a", "aaa");
    make_file("b", "bbb");
    OK(swap("a", "b"));
    expect_text("a", "bbb");
    expect_text("b", "aaa");
    OK(mkdir("d", 0755));
    make_file("d/f", "inside");
    a = stat_of("a").st_ino;
    d = stat_of("d").st_ino;
    OK(swap("a", "d"));
    EQ(stat_of("a").st_ino, d);
    EQ(stat_of("d").st_ino, a);
    expect_text("a/f", "inside");
    expect_text("d", "bbb");
    FAILS(swap("a", "missing"), ENOENT);
    FAILS(swap("missing", "a"), ENOENT);
    FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE | RENAME_NOREPLACE), EINVAL);
    FAILS(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", 1U << 20), EINVAL);
    OK(swap("b", "b"));
}

static void exchanging_across_directories(void)
{
    nlink_t base;

    OK(mkdir("p", 0755));
    OK(mkdir("q", 0755));
    base = stat_of("p").st_nlink;
    OK(mkdir("p/d", 0755));
    make_file("p/d/f", "in d");
    make_file("q/f", "file");
    OK(swap("p/d", "q/f"));
    expect_text("p/d", "file");
    expect_text("q/f/f", "in d");
    EQ(stat_of("q/f/..").st_ino, stat_of("q").st_ino);
    if (base == 2) {
        EQ(stat_of("p").st_nlink, 2);
        EQ(stat_of("q").st_nlink, 3);
    }
    OK(mkdir("p/e", 0755));
    OK(swap("p/e", "q/f"));
    EQ(stat_of("p/e/..").st_ino, stat_of("p").st_ino);
    EQ(stat_of("q/f/..").st_ino, stat_of("q").st_ino);
    expect_text("p/e/f", "in d");
}

static void the_change_time_moves(void)
{
    struct timespec before;

    make_file("a", "x");
    before = stat_of("a").st_ctim;
    let_clock_tick();
    OK(rename("a", "b"));
    TRUE(later(stat_of("b").st_ctim, before));
    TRUE(!later(stat_of("b").st_mtim, before));
}

static void a_replaced_directory_that_is_open(void)
{
    int fd;

    OK(mkdir("a", 0755));
    OK(mkdir("b", 0755));
    fd = (int)OK(open("b", O_RDONLY | O_DIRECTORY));
    OK(rename("a", "b"));
    FAILS(openat(fd, "f", O_WRONLY | O_CREAT, 0644), ENOENT);
    make_file("b/f", "x");
}

/* A reader always finds one of the two, never nothing: what editors rely on. */
static void replacing_is_atomic(void)
{
    pid_t child;

    make_file("f", "content");
    child = (pid_t)OK(fork());
    if (child == 0) {
        for (int i = 0; i < 300; i++) {
            make_file("f.new", "content");
            OK(rename("f.new", "f"));
        }
        _exit(0);
    }
    for (int i = 0; i < 1000; i++) {
        int fd = (int)OK(open("f", O_RDONLY));

        expect_bytes(fd, "content", 7, 0);
        OK(close(fd));
    }
    EQ(finish(child), 0);
}

static const struct suite_case rename_cases[] = {
    SUITE_CASE(to_a_new_name),
    SUITE_CASE(over_another_file),
    SUITE_CASE(over_itself),
    SUITE_CASE(files_and_directories_do_not_mix),
    SUITE_CASE(over_directories),
    SUITE_CASE(into_its_own_descendant),
    SUITE_CASE(missing_things),
    SUITE_CASE(without_replacing),
    SUITE_CASE(exchanging),
    SUITE_CASE(exchanging_across_directories),
    SUITE_CASE(the_change_time_moves),
    SUITE_CASE(a_replaced_directory_that_is_open),
    SUITE_CASE(replacing_is_atomic),
};
SUITE_GROUP(rename);
