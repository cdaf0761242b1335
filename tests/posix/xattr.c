/* Extended attributes. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

static void need_attributes(const char *path)
{
    if (setxattr(path, "user.probe", "", 0, 0) != 0 && errno == EOPNOTSUPP) {
        SKIP("no extended attributes here");
    }
    OK(removexattr(path, "user.probe"));
}

static void set_get_list_remove(void)
{
    char value[64], list[64];

    make_file("f", "");
    need_attributes("f");
    OK(setxattr("f", "user.one", "1", 1, 0));
    OK(setxattr("f", "user.two", "a\0b\xff", 4, 0));
    OK(setxattr("f", "user.empty", "", 0, 0));
    EQ(getxattr("f", "user.one", value, sizeof(value)), 1);
    EQ(getxattr("f", "user.two", value, sizeof(value)), 4);
    TRUE(memcmp(value, "a\0b\xff", 4) == 0);
    EQ(getxattr("f", "user.empty", value, sizeof(value)), 0);
    EQ(getxattr("f", "user.two", NULL, 0), 4);
    FAILS(getxattr("f", "user.two", value, 3), ERANGE);
    FAILS(getxattr("f", "user.none", value, sizeof(value)), ENODATA);
    EQ(listxattr("f", list, sizeof(list)), 9 + 9 + 11);
    TRUE(memmem(list, 29, "user.one", 9) != NULL && memmem(list, 29, "user.empty", 11) != NULL);
    EQ(listxattr("f", NULL, 0), 29);
    FAILS(listxattr("f", list, 28), ERANGE);
    OK(removexattr("f", "user.one"));
    FAILS(removexattr("f", "user.one"), ENODATA);
    EQ(listxattr("f", list, sizeof(list)), 20);
    OK(setxattr("f", "user.two", "shorter", 7, 0));
    EQ(getxattr("f", "user.two", value, sizeof(value)), 7);
}

static void create_and_replace(void)
{
    make_file("f", "");
    need_attributes("f");
    FAILS(setxattr("f", "user.a", "1", 1, XATTR_REPLACE), ENODATA);
    OK(setxattr("f", "user.a", "1", 1, XATTR_CREATE));
    FAILS(setxattr("f", "user.a", "2", 1, XATTR_CREATE), EEXIST);
    OK(setxattr("f", "user.a", "22", 2, XATTR_REPLACE));
    EQ(getxattr("f", "user.a", NULL, 0), 2);
    FAILS(setxattr("f", "user.a", "1", 1, 64), EINVAL);
}

static void names_and_sizes(void)
{
    static char name[300], value[70000], got[70000];

    make_file("f", "");
    need_attributes("f");
    memset(name, 'n', sizeof(name));
    memcpy(name, "user.", 5);
    name[255] = '\0';
    OK(setxattr("f", name, "x", 1, 0));
    EQ(getxattr("f", name, got, sizeof(got)), 1);
    name[255] = 'n';
    name[256] = '\0';
    FAILS(setxattr("f", name, "x", 1, 0), ERANGE);
    FAILS(setxattr("f", "user.", "x", 1, 0), EINVAL);
    FAILS(setxattr("f", "", "x", 1, 0), ERANGE);
    FAILS(setxattr("f", "nonsense", "x", 1, 0), EOPNOTSUPP);
    FAILS(setxattr("f", "nonsense.x", "x", 1, 0), EOPNOTSUPP);
    FAILS(setxattr("missing", "user.x", "x", 1, 0), ENOENT);
    fill(value, sizeof(value), 40);
    FAILS(setxattr("f", "user.big", value, 65537, 0), E2BIG);
    if (setxattr("f", "user.big", value, 65536, 0) == 0) {
        EQ(getxattr("f", "user.big", got, sizeof(got)), 65536);
        TRUE(memcmp(value, got, 65536) == 0);
        EQ(getxattr("f", "user.big", got, 65536), 65536);
    } else {
        EQ(errno, ENOSPC); /* Some keep them in one block. */
    }
    OK(setxattr("f", "user.mid", value, 2000, 0));
    EQ(getxattr("f", "user.mid", got, sizeof(got)), 2000);
    TRUE(memcmp(value, got, 2000) == 0);
}

static void many_attributes(void)
{
    enum { COUNT = 60 };
    char name[32], list[4096], value[16];
    ssize_t length;

    make_file("f", "");
    need_attributes("f");
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof(name), "user.attribute-%02d", i);
        OK(setxattr("f", name, name + 15, 2, 0));
    }
    length = OK(listxattr("f", list, sizeof(list)));
    EQ(length, COUNT * 18);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof(name), "user.attribute-%02d", i);
        TRUE(memmem(list, (size_t)length, name, 18) != NULL);
        EQ(getxattr("f", name, value, sizeof(value)), 2);
        TRUE(memcmp(value, name + 15, 2) == 0);
        OK(removexattr("f", name));
    }
    EQ(listxattr("f", list, sizeof(list)), 0);
}

static void on_everything(void)
{
    int fd;

    OK(mkdir("d", 0755));
    need_attributes("d");
    OK(setxattr("d", "user.a", "1", 1, 0));
    EQ(getxattr("d", "user.a", NULL, 0), 1);
    make_file("f", "");
    fd = (int)OK(open("f", O_RDWR));
    OK(fsetxattr(fd, "user.a", "22", 2, 0));
    OK(rename("f", "g"));
    OK(link("g", "h"));
    EQ(getxattr("h", "user.a", NULL, 0), 2);
    OK(unlink("g"));
    OK(unlink("h"));
    EQ(fgetxattr(fd, "user.a", NULL, 0), 2);
    OK(symlink("d", "s"));
    EQ(getxattr("s", "user.a", NULL, 0), 1);
    FAILS(lsetxattr("s", "user.b", "x", 1, 0), EPERM);
    FAILS(lgetxattr("s", "user.a", NULL, 0), ENODATA);
    OK(mkfifo("p", 0644));
    FAILS(setxattr("p", "user.b", "x", 1, 0), EPERM);
    make_file("f", ""); /* A new file of an old name has none. */
    EQ(listxattr("f", NULL, 0), 0);
}

static void the_change_time_moves(void)
{
    struct stat before;

    make_file("f", "");
    need_attributes("f");
    before = stat_of("f");
    let_clock_tick();
    OK(setxattr("f", "user.a", "1", 1, 0));
    TRUE(later(stat_of("f").st_ctim, before.st_ctim));
    TRUE(!later(stat_of("f").st_mtim, before.st_mtim));
    before = stat_of("f");
    let_clock_tick();
    OK(removexattr("f", "user.a"));
    TRUE(later(stat_of("f").st_ctim, before.st_ctim));
}

static void who_may(void)
{
    char value[8];

    need_root();
    make_file("f", "");
    need_attributes("f");
    OK(setxattr("f", "user.a", "1", 1, 0));
    OK(setxattr("f", "trusted.a", "1", 1, 0));
    OK(chmod("f", 0600));
    become(ALICE, ALICE);
    FAILS(getxattr("f", "user.a", value, sizeof(value)), EACCES);
    FAILS(setxattr("f", "user.a", "2", 1, 0), EACCES);
    become_root();
    OK(chmod("f", 0644));
    become(ALICE, ALICE);
    EQ(getxattr("f", "user.a", value, sizeof(value)), 1);
    FAILS(setxattr("f", "user.a", "2", 1, 0), EACCES);
    FAILS(removexattr("f", "user.a"), EACCES);
    FAILS(getxattr("f", "trusted.a", value, sizeof(value)), ENODATA);
    FAILS(setxattr("f", "trusted.b", "1", 1, 0), EPERM);
    EQ(listxattr("f", NULL, 0), 7); /* trusted is not shown. */
    become_root();
    EQ(getxattr("f", "trusted.a", value, sizeof(value)), 1);
    EQ(listxattr("f", NULL, 0), 7 + 10);
    OK(mkdir("t", 01777));
    OK(chmod("t", 01777));
    become(ALICE, ALICE);
    FAILS(setxattr("t", "user.a", "1", 1, 0), EPERM); /* Sticky: only its owner. */
}

static const struct suite_case xattr_cases[] = {
    SUITE_CASE(set_get_list_remove),
    SUITE_CASE(create_and_replace),
    SUITE_CASE(names_and_sizes),
    SUITE_CASE(many_attributes),
    SUITE_CASE(on_everything),
    SUITE_CASE(the_change_time_moves),
    SUITE_CASE(who_may),
};
SUITE_GROUP(xattr);
