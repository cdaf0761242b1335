/* Directories: making, removing, listing while they change, and what their handles see. */
#include "suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void make_and_remove(void)
{
    OK(mkdir("d", 0755));
    EQ(stat_of("d").st_mode, S_IFDIR | 0755);
    FAILS(mkdir("d", 0755), EEXIST);
    FAILS(mkdir("missing/d", 0755), ENOENT);
    make_file("f", "");
    FAILS(mkdir("f", 0755), EEXIST);
    FAILS(mkdir("f/d", 0755), ENOTDIR);
    FAILS(rmdir("f"), ENOTDIR);
    FAILS(rmdir("missing"), ENOENT);
    OK(symlink("d", "s"));
    FAILS(rmdir("s"), ENOTDIR);
    FAILS(mkdir("s", 0755), EEXIST);
    FAILS(rmdir("d/."), EINVAL);
    OK(mkdir("d/e", 0755));
    FAILS(rmdir("d/e/.."), ENOTEMPTY);
    FAILS(rmdir("d"), ENOTEMPTY);
    FAILS(unlink("d"), EISDIR);
    OK(rmdir("d/e"));
    OK(rmdir("d/"));
    TRUE(!exists("d"));
}

static void umask_counts(void)
{
    (void)umask(0027);
    OK(mkdir("d", 0777));
    EQ(stat_of("d").st_mode & 07777, 0750);
    OK(close((int)OK(open("f", O_WRONLY | O_CREAT, 0666))));
    EQ(stat_of("f").st_mode & 07777, 0640);
    OK(mkfifo("p", 0666));
    EQ(stat_of("p").st_mode & 07777, 0640);
    (void)umask(0);
    OK(mkdir("t", 01777));
    EQ(stat_of("t").st_mode & 07777, 01777);
}

static void link_counts(void)
{
    nlink_t before = stat_of(".").st_nlink;

    if (before < 2) {
        SKIP("directories here do not count their subdirectories");
    }
    OK(mkdir("d", 0755));
    EQ(stat_of("d").st_nlink, 2);
    EQ(stat_of(".").st_nlink, before + 1);
    OK(mkdir("d/a", 0755));
    OK(mkdir("d/b", 0755));
    make_file("d/f", "");
    EQ(stat_of("d").st_nlink, 4);
    OK(mkdir("e", 0755));
    OK(rename("d/a", "e/a"));
    EQ(stat_of("d").st_nlink, 3);
    EQ(stat_of("e").st_nlink, 3);
    OK(mkdir("d/a", 0755));
    OK(rename("e/a", "d/a")); /* Replaces an empty one. */
    EQ(stat_of("d").st_nlink, 4);
    EQ(stat_of("e").st_nlink, 2);
    OK(rmdir("d/a"));
    OK(rmdir("d/b"));
    EQ(stat_of("d").st_nlink, 2);
}

static unsigned type_of(mode_t mode)
{
    return IFTODT(mode);
}

static void listing_tells_types_and_numbers(void)
{
    unsigned seen = 0;
    struct dirent *entry;
    DIR *dir;

    make_file("file", "");
    OK(mkdir("directory", 0755));
    OK(symlink("file", "link"));
    OK(mkfifo("fifo", 0644));
    dir = opendir(".");
    TRUE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        struct stat st;

        OK(lstat(entry->d_name, &st));
        if (strcmp(entry->d_name, "..") != 0) {
            EQ(entry->d_ino, st.st_ino);
        }
        TRUE(entry->d_type == DT_UNKNOWN || entry->d_type == type_of(st.st_mode));
        seen++;
    }
    EQ(seen, 6); /* With . and .. */
}

static void names(char *name, unsigned i)
{
    (void)snprintf(name, 64, "entry-%05u-%.*s", i, (int)(i * 7 % 30),
                   "abcdefghijklmnopqrstuvwxyz0123456789");
}

/* Read all of `dir`, counting how often each entry of names() was seen. */
static unsigned collect(DIR *dir, uint8_t *seen, unsigned count)
{
    struct dirent *entry;
    unsigned total = 0;

    memset(seen, 0, count);
    errno = 0;
    while ((entry = readdir(dir)) != NULL) {
        unsigned i;

        if (sscanf(entry->d_name, "entry-%u-", &i) == 1 && i < count) {
            seen[i]++;
        }
        total++;
    }
    EQ(errno, 0);
    return total;
}

/* Look for `count` entries more; false at the end of the directory. */
static bool look_for(DIR *dir, uint8_t *seen, unsigned seen_count, unsigned count)
{
    const struct dirent *entry = NULL;
    unsigned i;

    while (count-- > 0 && (entry = readdir(dir)) != NULL) {
        if (sscanf(entry->d_name, "entry-%u-", &i) == 1 && i < seen_count) {
            seen[i]++;
        }
    }
    return entry != NULL;
}

static void a_large_directory(void)
{
    enum { COUNT = 10000, FIRST = 7000, GO = 1000 };
    static uint8_t seen[COUNT], gone[COUNT];
    unsigned left = GO;
    char name[64];
    DIR *dir;

    for (unsigned i = 0; i < COUNT; i++) {
        names(name, i);
        OK(mknod(name, S_IFREG | 0644, 0));
    }
    dir = opendir(".");
    TRUE(dir != NULL);
    EQ(collect(dir, seen, COUNT), COUNT + 2);
    for (unsigned i = 0; i < COUNT; i++) {
        EQ(seen[i], 1);
    }
    /* Of those that were listed some go, which the list goes on behind. */
    rewinddir(dir);
    memset(seen, 0, sizeof(seen));
    TRUE(look_for(dir, seen, COUNT, FIRST));
    for (unsigned i = 0; i < COUNT && left > 0; i++) {
        names(name, i);
        if (seen[i] > 0) {
            OK(unlink(name));
            gone[i] = 1;
            left--;
        }
    }
    TRUE(!look_for(dir, seen, COUNT, COUNT));
    for (unsigned i = 0; i < COUNT; i++) {
        EQ(seen[i], 1);
    }
    rewinddir(dir);
    EQ(collect(dir, seen, COUNT), COUNT - GO + 2);
    for (unsigned i = 0; i < COUNT; i++) {
        names(name, i);
        OK(gone[i] != 0 ? 0 : unlink(name));
    }
    rewinddir(dir);
    EQ(collect(dir, seen, COUNT), 2);
}

/* Entries that stay are seen exactly once, whatever happens to the others. */
static void listing_while_the_directory_changes(void)
{
    enum { COUNT = 4000 };
    static uint8_t seen[COUNT];
    char name[64], other[64];
    unsigned step = 0;
    struct dirent *entry;
    DIR *dir;

    for (unsigned i = 0; i < COUNT; i++) {
        names(name, i);
        OK(mknod(name, S_IFREG | 0644, 0));
    }
    dir = opendir(".");
    TRUE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        unsigned i;

        if (sscanf(entry->d_name, "entry-%u-", &i) == 1 && i < COUNT) {
            seen[i]++;
        }
        /* Odd ones go, new ones come, and some are renamed while we read. */
        names(name, (step * 2 + 1) % COUNT);
        (void)unlink(name);
        (void)snprintf(other, sizeof(other), "new-%u", step);
        if (step % 3 == 0) {
            OK(mknod(other, S_IFREG | 0644, 0));
        } else if (step % 3 == 1 && step > 3) {
            (void)snprintf(name, sizeof(name), "new-%u", step - 1);
            OK(rename(name, other));
        }
        step++;
    }
    for (unsigned i = 0; i < COUNT; i += 2) {
        EQ(seen[i], 1);
    }
    for (unsigned i = 1; i < COUNT; i += 2) {
        TRUE(seen[i] <= 1);
    }
}

/* What rm -r does. */
static void removing_while_listing(void)
{
    enum { COUNT = 3000 };
    char name[64];
    struct dirent *entry;
    unsigned removed = 0;
    DIR *dir;

    OK(mkdir("d", 0755));
    OK(chdir("d"));
    for (unsigned i = 0; i < COUNT; i++) {
        names(name, i);
        OK(mknod(name, S_IFREG | 0644, 0));
    }
    dir = opendir(".");
    TRUE(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            OK(unlink(entry->d_name));
            removed++;
        }
    }
    EQ(removed, COUNT);
    OK(chdir(".."));
    OK(rmdir("d"));
}

static void positions_can_be_returned_to(void)
{
    enum { COUNT = 1000 };
    static char order[COUNT + 2][64];
    static long positions[COUNT + 3];
    struct dirent *entry;
    unsigned count = 0;
    char name[64];
    DIR *dir;

    for (unsigned i = 0; i < COUNT; i++) {
        names(name, i);
        OK(mknod(name, S_IFREG | 0644, 0));
    }
    dir = opendir(".");
    TRUE(dir != NULL);
    positions[0] = telldir(dir);
    while ((entry = readdir(dir)) != NULL) {
        TRUE(count < COUNT + 2);
        (void)snprintf(order[count++], 64, "%.63s", entry->d_name);
        positions[count] = telldir(dir);
    }
    EQ(count, COUNT + 2);
    for (unsigned i = 0; i < 200; i++) {
        unsigned at = i * 7919 % count;

        seekdir(dir, positions[at]);
        entry = readdir(dir);
        TRUE(entry != NULL && strcmp(entry->d_name, order[at]) == 0);
    }
    seekdir(dir, positions[count]);
    TRUE(readdir(dir) == NULL);
}

static void rewinding_shows_what_is_new(void)
{
    uint8_t seen[3];
    char name[64];
    DIR *dir = opendir(".");

    TRUE(dir != NULL);
    EQ(collect(dir, seen, 3), 2);
    names(name, 1);
    make_file(name, "");
    rewinddir(dir);
    EQ(collect(dir, seen, 3), 3);
    EQ(seen[1], 1);
}

static void a_removed_directory_that_is_open(void)
{
    struct stat st;
    struct dirent *entry;
    int fd;
    DIR *dir;

    OK(mkdir("d", 0755));
    fd = (int)OK(open("d", O_RDONLY | O_DIRECTORY));
    dir = opendir("d");
    TRUE(dir != NULL);
    OK(rmdir("d"));
    OK(fstat(fd, &st));
    EQ(st.st_nlink, 0);
    FAILS(openat(fd, "f", O_WRONLY | O_CREAT, 0644), ENOENT);
    FAILS(mkdirat(fd, "e", 0755), ENOENT);
    FAILS(fstatat(fd, "f", &st, 0), ENOENT);
    while ((entry = readdir(dir)) != NULL) {
        TRUE(entry->d_name[0] == '.');
    }
    OK(mkdir("d", 0755)); /* Another one of that name. */
    FAILS(openat(fd, "f", O_WRONLY | O_CREAT, 0644), ENOENT);
    TRUE(stat_of("d").st_ino != st.st_ino);
}

static void deep_trees(void)
{
    enum { DEPTH = 120 };
    char *path;

    for (int i = 0; i < DEPTH; i++) {
        OK(mkdir("a-directory-with-quite-a-long-name", 0755));
        OK(chdir("a-directory-with-quite-a-long-name"));
    }
    make_file("bottom", "deep");
    expect_text("bottom", "deep");
    for (int i = 0; i < DEPTH; i++) {
        OK(chdir(".."));
    }
    path = calloc(1, 8192); /* Beyond PATH_MAX in one go. */
    TRUE(path != NULL);
    for (int i = 0; i < DEPTH; i++) {
        memcpy(path + (size_t)35 * (size_t)i, "a-directory-with-quite-a-long-name/", 36);
    }
    FAILS(open(path, O_RDONLY), ENAMETOOLONG);
    path[35 * 100] = '\0';
    OK(close((int)OK(open(path, O_RDONLY))));
    free(path);
    for (int i = 0; i < DEPTH; i++) { /* Too deep for those who clean up by path. */
        OK(chdir("a-directory-with-quite-a-long-name"));
    }
    OK(unlink("bottom"));
    for (int i = 0; i < DEPTH; i++) {
        OK(chdir(".."));
        OK(rmdir("a-directory-with-quite-a-long-name"));
    }
}

static void dot_dot_leads_back(void)
{
    struct stat here = stat_of("."), st;

    OK(mkdir("a", 0755));
    OK(mkdir("b", 0755));
    OK(mkdir("a/c", 0755));
    EQ(stat_of("a/..").st_ino, here.st_ino);
    OK(chdir("a/c"));
    OK(rename("../../a/c", "../../b/c"));
    OK(stat("..", &st));
    OK(chdir("../.."));
    EQ(st.st_ino, stat_of("b").st_ino);
    EQ(stat_of("b/c/..").st_ino, st.st_ino);
}

static void entries_change_the_times_of_the_directory(void)
{
    struct timespec before;

#define CHANGES(call)                                                                              \
    do {                                                                                           \
        before = stat_of(".").st_mtim;                                                             \
        let_clock_tick();                                                                          \
        OK(call);                                                                                  \
        TRUE(later(stat_of(".").st_mtim, before));                                                 \
        TRUE(later(stat_of(".").st_ctim, before));                                                 \
    } while (0)
    CHANGES(close((int)OK(open("f", O_WRONLY | O_CREAT, 0644))));
    CHANGES(link("f", "g"));
    CHANGES(symlink("f", "s"));
    CHANGES(mkdir("d", 0755));
    CHANGES(mknod("n", S_IFREG | 0644, 0));
    CHANGES(rename("f", "h"));
    CHANGES(rename("g", "d/g"));
    CHANGES(rename("d/g", "g"));
    CHANGES(unlink("g"));
    CHANGES(unlink("s"));
    CHANGES(rmdir("d"));
#undef CHANGES
    before = stat_of(".").st_mtim;
    let_clock_tick();
    make_file("h", "only the file changes");
    OK(chmod("h", 0600));
    TRUE(!later(stat_of(".").st_mtim, before));
}

static const struct suite_case directory_cases[] = {
    SUITE_CASE(make_and_remove),
    SUITE_CASE(umask_counts),
    SUITE_CASE(link_counts),
    SUITE_CASE(listing_tells_types_and_numbers),
    SUITE_CASE(a_large_directory),
    SUITE_CASE(listing_while_the_directory_changes),
    SUITE_CASE(removing_while_listing),
    SUITE_CASE(positions_can_be_returned_to),
    SUITE_CASE(rewinding_shows_what_is_new),
    SUITE_CASE(a_removed_directory_that_is_open),
    SUITE_CASE(deep_trees),
    SUITE_CASE(dot_dot_leads_back),
    SUITE_CASE(entries_change_the_times_of_the_directory),
};
SUITE_GROUP(directory);
