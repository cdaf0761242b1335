/* Who may do what. */
#include "suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void owned_file(const char *path, uid_t uid, gid_t gid, mode_t mode)
{
    make_file(path, "x");
    OK(chown(path, uid, gid));
    OK(chmod(path, mode));
}

static bool opens(const char *path, int flags)
{
    int fd = open(path, flags);

    if (fd < 0) {
        EQ(errno, EACCES);
        return false;
    }
    OK(close(fd));
    return true;
}

static void reading_and_writing(void)
{
    need_root();
    owned_file("f", ALICE, STAFF, 0640);
    TRUE(opens("f", O_RDWR)); /* Root. */
    become(ALICE, ALICE);
    TRUE(opens("f", O_RDWR));
    become(BOB, BOB);
    TRUE(!opens("f", O_RDONLY));
    become(BOB, STAFF);
    TRUE(opens("f", O_RDONLY));
    TRUE(!opens("f", O_WRONLY));
    TRUE(!opens("f", O_RDONLY | O_TRUNC));
    FAILS(truncate("f", 0), EACCES);
    become_member(BOB, BOB, STAFF);
    TRUE(opens("f", O_RDONLY));
    TRUE(!opens("f", O_RDWR));
}

/* The first class that fits decides, even if a later one would allow more. */
static void the_first_class_decides(void)
{
    need_root();
    owned_file("f", ALICE, STAFF, 0077);
    owned_file("g", ALICE, STAFF, 0707);
    become_member(ALICE, ALICE, STAFF);
    TRUE(!opens("f", O_RDONLY));
    TRUE(opens("g", O_RDWR));
    become(BOB, STAFF);
    TRUE(opens("f", O_RDWR));
    TRUE(!opens("g", O_RDONLY));
    become(BOB, BOB);
    TRUE(opens("f", O_RDWR));
}

static void searching_directories(void)
{
    struct stat st;

    need_root();
    OK(mkdir("d", 0711));
    OK(mkdir("d/e", 0755));
    make_file("d/e/f", "x");
    OK(mkdir("closed", 0744));
    make_file("closed/f", "x");
    become(ALICE, ALICE);
    expect_text("d/e/f", "x"); /* x without r: known names work, listing does not. */
    TRUE(opendir("d") == NULL && errno == EACCES);
    TRUE(opendir("closed") != NULL); /* r without x: the other way round. */
    FAILS(stat("closed/f", &st), EACCES);
    FAILS(open("closed/missing", O_RDONLY), EACCES);
    FAILS(chdir("closed"), EACCES);
    FAILS(stat("closed/f/g", &st), EACCES);
}

static void changing_directories(void)
{
    need_root();
    OK(mkdir("d", 0755));
    make_file("d/f", "x");
    OK(mkdir("d/e", 0777));
    OK(chmod("d/e", 0777));
    make_file("mine", "x");
    OK(chown("mine", ALICE, ALICE));
    become(ALICE, ALICE);
    FAILS(open("d/new", O_WRONLY | O_CREAT, 0644), EACCES);
    FAILS(mkdir("d/new", 0755), EACCES);
    FAILS(symlink("x", "d/new"), EACCES);
    FAILS(mknod("d/new", S_IFIFO | 0644, 0), EACCES);
    FAILS(link("mine", "d/new"), EACCES);
    FAILS(unlink("d/f"), EACCES);
    FAILS(rmdir("d/e"), EACCES);
    FAILS(rename("d/f", "d/g"), EACCES);
    FAILS(rename("mine", "d/g"), EACCES);
    FAILS(rename("d/f", "mine"), EACCES);
    FAILS(renameat2(AT_FDCWD, "mine", AT_FDCWD, "d/f", RENAME_EXCHANGE), EACCES);
    OK(rename("mine", "d/e/mine"));
    TRUE(opens("d/f", O_RDONLY | O_CREAT)); /* Nothing is made. */
    FAILS(mkdir("d/f", 0755), EEXIST);
}

static void sticky_directories(void)
{
    need_root();
    OK(mkdir("t", 01777));
    OK(chmod("t", 01777));
    owned_file("t/alice", ALICE, ALICE, 0666);
    owned_file("t/bob", BOB, BOB, 0666);
    OK(mkdir("t/d", 0755));
    OK(chown("t/d", ALICE, ALICE));
    become(BOB, BOB);
    FAILS(unlink("t/alice"), EPERM);
    FAILS(rmdir("t/d"), EPERM);
    FAILS(rename("t/alice", "t/x"), EPERM);
    FAILS(rename("t/alice", "x"), EPERM);
    FAILS(rename("t/bob", "t/alice"), EPERM);
    FAILS(renameat2(AT_FDCWD, "t/bob", AT_FDCWD, "t/alice", RENAME_EXCHANGE), EPERM);
    OK(rename("t/bob", "t/bob2"));
    OK(unlink("t/bob2"));
    become(ALICE, ALICE);
    OK(unlink("t/alice"));
    become_root();
    OK(chown("t", BOB, BOB)); /* The owner of the directory may. */
    become(BOB, BOB);
    OK(rmdir("t/d"));
}

static void moving_a_directory_needs_its_own_permission(void)
{
    need_root();
    OK(mkdir("a", 0777));
    OK(chmod("a", 0777));
    OK(mkdir("b", 0777));
    OK(chmod("b", 0777));
    OK(mkdir("a/d", 0755)); /* Root's: its ".." would change. */
    become(ALICE, ALICE);
    FAILS(rename("a/d", "b/d"), EACCES);
    OK(rename("a/d", "a/e")); /* In place it does not. */
}

static void running(void)
{
    need_root();
    owned_file("f", ALICE, ALICE, 0640);
    FAILS(access("f", X_OK), EACCES); /* Root needs one x at least. */
    OK(chmod("f", 0641));
    OK(access("f", X_OK));
    OK(access("f", R_OK | W_OK | F_OK));
    FAILS(access("missing", F_OK), ENOENT);
}

static void handles_keep_their_rights(void)
{
    int fd;

    need_root();
    make_file("f", "x");
    OK(chmod("f", 0666));
    become(ALICE, ALICE);
    fd = (int)OK(open("f", O_RDWR));
    become_root();
    OK(chmod("f", 0600));
    become(ALICE, ALICE);
    EQ(pwrite(fd, "y", 1, 0), 1);
    expect_bytes(fd, "y", 1, 0);
    OK(ftruncate(fd, 0));
    TRUE(!opens("f", O_RDONLY));
}

static void rights_change_at_once(void)
{
    need_root();
    make_file("f", "x");
    OK(mkdir("d", 0755));
    make_file("d/f", "x");
    for (int i = 0; i < 5; i++) {
        become_root();
        OK(chmod("f", 0644));
        OK(chmod("d", 0755));
        become(ALICE, ALICE);
        TRUE(opens("f", O_RDONLY));
        TRUE(opens("d/f", O_RDONLY));
        become_root();
        OK(chmod("f", 0600));
        OK(chmod("d", 0700));
        become(ALICE, ALICE);
        TRUE(!opens("f", O_RDONLY));
        TRUE(!opens("d/f", O_RDONLY));
    }
}

static void new_files_belong_to_their_maker(void)
{
    need_root();
    become(ALICE, STAFF);
    make_file("f", "");
    OK(mkdir("d", 0755));
    OK(symlink("x", "s"));
    become_root();
    EQ(stat_of("f").st_uid, ALICE);
    EQ(stat_of("f").st_gid, STAFF);
    EQ(stat_of("d").st_uid, ALICE);
    EQ(stat_of("s").st_uid, ALICE);
}

static const struct suite_case permission_cases[] = {
    SUITE_CASE(reading_and_writing),
    SUITE_CASE(the_first_class_decides),
    SUITE_CASE(searching_directories),
    SUITE_CASE(changing_directories),
    SUITE_CASE(sticky_directories),
    SUITE_CASE(moving_a_directory_needs_its_own_permission),
    SUITE_CASE(running),
    SUITE_CASE(handles_keep_their_rights),
    SUITE_CASE(rights_change_at_once),
    SUITE_CASE(new_files_belong_to_their_maker),
};
SUITE_GROUP(permission);
