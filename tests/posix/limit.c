/* Names and paths at their limits. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void the_longest_name(void)
{
    char name[NAME_MAX + 2], other[NAME_MAX + 1];
    struct stat st;

    memset(name, 'n', sizeof(name));
    name[NAME_MAX] = '\0';
    memset(other, 'o', sizeof(other));
    other[NAME_MAX] = '\0';
    make_file(name, "x");
    OK(rename(name, other));
    OK(link(other, name));
    OK(unlink(other));
    OK(symlink(name, other));
    expect_text(other, "x");
    OK(unlink(other));
    OK(mkdir(other, 0755));
    name[NAME_MAX] = 'n';
    name[NAME_MAX + 1] = '\0';
    FAILS(open(name, O_WRONLY | O_CREAT, 0644), ENAMETOOLONG);
    FAILS(stat(name, &st), ENAMETOOLONG);
    FAILS(mkdir(name, 0755), ENAMETOOLONG);
    FAILS(mknod(name, S_IFIFO | 0644, 0), ENAMETOOLONG);
    FAILS(symlink("x", name), ENAMETOOLONG);
    FAILS(unlink(name), ENAMETOOLONG);
    FAILS(rmdir(name), ENAMETOOLONG);
    FAILS(rename(other, name), ENAMETOOLONG);
    FAILS(rename(name, other), ENAMETOOLONG);
    make_file("f", "");
    FAILS(link("f", name), ENAMETOOLONG);
}

static void the_longest_path(void)
{
    char path[PATH_MAX + 1];
    struct stat st;

    for (size_t i = 0; i < PATH_MAX; i++) {
        path[i] = i % 2 == 0 ? '.' : '/';
    }
    path[PATH_MAX - 1] = '\0';
    OK(stat(path, &st));
    path[PATH_MAX - 1] = '/';
    path[PATH_MAX] = '\0';
    FAILS(stat(path, &st), ENAMETOOLONG);
}

/* Every byte but '/' and the end of a string may stand in a name. */
static void every_byte_in_a_name(void)
{
    for (int c = 1; c < 256; c++) {
        char name[3] = { 'a', (char)c, '\0' }, text[16];

        if (c == '/') {
            continue;
        }
        (void)snprintf(text, sizeof(text), "%d", c);
        make_file(name, text);
    }
    for (int c = 1; c < 256; c++) {
        char name[3] = { 'a', (char)c, '\0' }, text[16];

        if (c == '/') {
            continue;
        }
        (void)snprintf(text, sizeof(text), "%d", c);
        expect_text(name, text);
        OK(unlink(name));
    }
}

static void names_are_bytes(void)
{
    static const char *const names[] = { "gr\xc3\xbc\xc3\x9f",
                                         "gru\xcc\x88\xc3\x9f",
                                         "\xe6\x97\xa5\xe6\x9c\xac",
                                         "\xf0\x9f\x93\x81",
                                         "case",
                                         "CASE",
                                         " leading",
                                         "trailing ",
                                         "...",
                                         "-rf",
                                         "new\nline",
                                         "\xff\xfe",
                                         "a.b.c",
                                         "*?[",
                                         ".x" };
    const size_t count = sizeof(names) / sizeof(names[0]);

    for (size_t i = 0; i < count; i++) {
        make_file(names[i], names[i]);
    }
    for (size_t i = 0; i < count; i++) {
        expect_text(names[i], names[i]); /* Nothing was folded into something else. */
    }
}

static void components(void)
{
    struct stat st;

    make_file("f", "x");
    OK(mkdir("d", 0755));
    FAILS(stat("f/", &st), ENOTDIR);
    FAILS(stat("f/.", &st), ENOTDIR);
    FAILS(stat("f/..", &st), ENOTDIR);
    FAILS(stat("missing/..", &st), ENOENT);
    FAILS(stat("", &st), ENOENT);
    OK(stat("d//.//../d/./", &st));
    EQ(st.st_ino, stat_of("d").st_ino);
    FAILS(unlink("f/"), ENOTDIR);
    FAILS(mkdir("d/.", 0755), EEXIST);
    FAILS(mkdir("d/..", 0755), EEXIST);
    OK(mkdir("e/", 0755));
    FAILS(rmdir("."), EINVAL);
    FAILS(unlink("d/."), EISDIR);
}

static void absence_is_not_remembered_too_long(void)
{
    struct stat st;
    char name[16];

    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        FAILS(stat(name, &st), ENOENT);
        make_file(name, "x");
        OK(stat(name, &st));
        OK(unlink(name));
        FAILS(stat(name, &st), ENOENT);
    }
}

static const struct suite_case limit_cases[] = {
    SUITE_CASE(the_longest_name),     SUITE_CASE(the_longest_path),
    SUITE_CASE(every_byte_in_a_name), SUITE_CASE(names_are_bytes),
    SUITE_CASE(components),           SUITE_CASE(absence_is_not_remembered_too_long),
};
SUITE_GROUP(limit);
