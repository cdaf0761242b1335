/* Hard links and symbolic links. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void hard_links_are_one_file(void)
{
    struct stat a, b;
    int fd;

    make_file("a", "text");
    OK(mkdir("d", 0755));
    OK(link("a", "d/b"));
    a = stat_of("a");
    b = stat_of("d/b");
    EQ(a.st_ino, b.st_ino);
    EQ(a.st_nlink, 2);
    EQ(b.st_nlink, 2);
    fd = (int)OK(open("a", O_WRONLY | O_APPEND));
    EQ(write(fd, " more", 5), 5);
    expect_text("d/b", "text more");
    OK(chmod("d/b", 0600));
    EQ(stat_of("a").st_mode & 07777, 0600);
    OK(truncate("a", 2));
    expect_text("d/b", "te");
    OK(unlink("a"));
    EQ(stat_of("d/b").st_nlink, 1);
    expect_text("d/b", "te");
}

static void many_hard_links(void)
{
    enum { COUNT = 500 };
    char name[32];

    make_file("f", "x");
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof(name), "l%d", i);
        OK(link("f", name));
    }
    EQ(stat_of("l7").st_nlink, COUNT + 1);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof(name), "l%d", i);
        OK(unlink(name));
    }
    EQ(stat_of("f").st_nlink, 1);
}

static void hard_links_that_cannot_be(void)
{
    char path[64];
    int fd;

    make_file("a", "x");
    make_file("b", "y");
    OK(mkdir("d", 0755));
    FAILS(link("a", "b"), EEXIST);
    FAILS(link("a", "d"), EEXIST);
    FAILS(link("missing", "c"), ENOENT);
    FAILS(link("a", "missing/c"), ENOENT);
    FAILS(link("a", "b/c"), ENOTDIR);
    FAILS(link("d", "e"), EPERM);
    fd = (int)OK(open("a", O_RDWR));
    OK(unlink("a"));
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    FAILS(linkat(AT_FDCWD, path, AT_FDCWD, "a", AT_SYMLINK_FOLLOW), ENOENT);
}

static void hard_link_of_a_symbolic_link(void)
{
    make_file("f", "x");
    OK(symlink("f", "s"));
    OK(linkat(AT_FDCWD, "s", AT_FDCWD, "s2", 0));
    TRUE(S_ISLNK(stat_of("s2").st_mode));
    EQ(stat_of("s").st_nlink, 2);
    OK(linkat(AT_FDCWD, "s", AT_FDCWD, "f2", AT_SYMLINK_FOLLOW));
    EQ(stat_of("f2").st_ino, stat_of("f").st_ino);
}

static void linking_moves_the_change_time(void)
{
    struct timespec changed, modified;

    make_file("f", "x");
    changed = stat_of("f").st_ctim;
    modified = stat_of("f").st_mtim;
    let_clock_tick();
    OK(link("f", "g"));
    TRUE(later(stat_of("f").st_ctim, changed));
    changed = stat_of("f").st_ctim;
    let_clock_tick();
    OK(unlink("g"));
    TRUE(later(stat_of("f").st_ctim, changed));
    TRUE(!later(stat_of("f").st_mtim, modified));
}

static void symbolic_links_keep_their_text(void)
{
    char text[64];

    OK(symlink("any text/../at all", "s"));
    EQ(readlink("s", text, sizeof(text)), 18);
    TRUE(memcmp(text, "any text/../at all", 18) == 0);
    EQ(size_of("s"), 18);
    EQ(readlink("s", text, 5), 5);
    TRUE(memcmp(text, "any tp", 5) == 0);
    EQ(stat_of("s").st_mode, S_IFLNK | 0777);
    FAILS(symlink("x", "s"), EEXIST);
    FAILS(symlink("x", "missing/s"), ENOENT);
    FAILS(symlink("", "e"), ENOENT);
    make_file("f", "");
    FAILS(readlink("f", text, sizeof(text)), EINVAL);
    FAILS(readlink("missing", text, sizeof(text)), ENOENT);
    FAILS(readlink("s", text, 0), EINVAL);
}

static void long_symbolic_links(void)
{
    char target[PATH_MAX + 2], got[PATH_MAX + 2];

    memset(target, 'x', sizeof(target));
    target[59] = target[60] = '\0';
    OK(symlink(target, "short"));
    target[59] = 'x';
    target[60] = 'x';
    target[PATH_MAX - 1] = '\0';
    if (symlink(target, "long") == 0) {
        EQ(readlink("long", got, sizeof(got)), PATH_MAX - 1);
        TRUE(memcmp(target, got, PATH_MAX - 1) == 0);
    } else {
        EQ(errno, ENAMETOOLONG); /* ext4 keeps a block at most, with its end. */
    }
    target[PATH_MAX - 1] = 'x';
    target[PATH_MAX] = '\0';
    FAILS(symlink(target, "longer"), ENAMETOOLONG);
}

static void following(void)
{
    struct stat st;

    OK(mkdir("d", 0755));
    make_file("d/f", "x");
    OK(symlink("d", "to_d"));
    OK(symlink("to_d/f", "to_f"));
    expect_text("to_d/f", "x");
    expect_text("to_f", "x");
    OK(stat("to_f", &st));
    EQ(st.st_ino, stat_of("d/f").st_ino);
    make_file("to_d/g", "made through the link");
    expect_text("d/g", "made through the link");
    OK(unlink("to_d/g"));
    OK(unlink("to_f")); /* The link, not the file. */
    expect_text("d/f", "x");
    OK(symlink("missing", "dangling"));
    FAILS(stat("dangling", &st), ENOENT);
    OK(lstat("dangling", &st));
    FAILS(open("dangling", O_RDONLY), ENOENT);
    OK(chmod("to_d", 0700)); /* Reaches the directory. */
    EQ(stat_of("d").st_mode & 07777, 0700);
}

static void loops(void)
{
    char name[16], before[16];
    struct stat st;

    OK(symlink("b", "a"));
    OK(symlink("a", "b"));
    OK(symlink("self", "self"));
    FAILS(stat("a", &st), ELOOP);
    FAILS(open("self", O_RDONLY), ELOOP);
    FAILS(open("self/x", O_RDONLY), ELOOP);
    make_file("l0", "end");
    for (int i = 1; i <= 41; i++) {
        (void)snprintf(before, sizeof(before), "l%d", i - 1);
        (void)snprintf(name, sizeof(name), "l%d", i);
        OK(symlink(before, name));
    }
    expect_text("l40", "end");
    FAILS(open("l41", O_RDONLY), ELOOP);
}

static void owner_of_a_link(void)
{
    need_root();
    make_file("f", "x");
    OK(symlink("f", "s"));
    OK(lchown("s", ALICE, BOB));
    EQ(stat_of("s").st_uid, ALICE);
    EQ(stat_of("s").st_gid, BOB);
    EQ(stat_of("f").st_uid, 0);
}

static const struct suite_case link_cases[] = {
    SUITE_CASE(hard_links_are_one_file),
    SUITE_CASE(many_hard_links),
    SUITE_CASE(hard_links_that_cannot_be),
    SUITE_CASE(hard_link_of_a_symbolic_link),
    SUITE_CASE(linking_moves_the_change_time),
    SUITE_CASE(symbolic_links_keep_their_text),
    SUITE_CASE(long_symbolic_links),
    SUITE_CASE(following),
    SUITE_CASE(loops),
    SUITE_CASE(owner_of_a_link),
};
SUITE_GROUP(link);
