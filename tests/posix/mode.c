/* chmod and chown, set-id bits, inheritance of groups. */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/statvfs.h>
#include <unistd.h>

static mode_t mode_of(const char *path)
{
    return stat_of(path).st_mode & 07777;
}

static void all_bits(void)
{
    int fd;

    make_file("f", "");
    for (mode_t mode = 0; mode <= 07777; mode += 0111 + 1) {
        OK(chmod("f", mode));
        EQ(mode_of("f"), mode);
    }
    OK(mkdir("d", 0755));
    OK(chmod("d", 07777));
    EQ(mode_of("d"), 07777);
    OK(chmod("f", 0644));
    fd = (int)OK(open("f", O_RDONLY));
    OK(fchmod(fd, 0600));
    EQ(mode_of("f"), 0600);
    FAILS(chmod("missing", 0644), ENOENT);
    FAILS(chmod("f/x", 0644), ENOTDIR);
}

static void the_change_time_moves(void)
{
    struct stat before;

    make_file("f", "x");
    before = stat_of("f");
    let_clock_tick();
    OK(chmod("f", 0600));
    TRUE(later(stat_of("f").st_ctim, before.st_ctim));
    before = stat_of("f");
    let_clock_tick();
    OK(chown("f", geteuid(), getegid()));
    TRUE(later(stat_of("f").st_ctim, before.st_ctim));
    TRUE(!later(stat_of("f").st_mtim, before.st_mtim));
}

static void owners(void)
{
    need_root();
    make_file("f", "");
    OK(chown("f", ALICE, STAFF));
    EQ(stat_of("f").st_uid, ALICE);
    EQ(stat_of("f").st_gid, STAFF);
    OK(chown("f", (uid_t)-1, BOB));
    EQ(stat_of("f").st_uid, ALICE);
    EQ(stat_of("f").st_gid, BOB);
    OK(chown("f", BOB, (gid_t)-1));
    EQ(stat_of("f").st_uid, BOB);
    OK(chown("f", 4000000000U, 4000000001U));
    EQ(stat_of("f").st_uid, 4000000000U);
    EQ(stat_of("f").st_gid, 4000000001U);
    OK(fchown((int)OK(open("f", O_RDONLY)), 0, 0));
    EQ(stat_of("f").st_uid, 0);
}

static void owners_may_give_to_their_groups_only(void)
{
    need_root();
    make_file("f", "");
    OK(chown("f", ALICE, ALICE));
    become_member(ALICE, ALICE, STAFF);
    OK(chown("f", (uid_t)-1, STAFF));
    EQ(stat_of("f").st_gid, STAFF);
    FAILS(chown("f", (uid_t)-1, BOB), EPERM);
    FAILS(chown("f", BOB, (gid_t)-1), EPERM);
    OK(chown("f", ALICE, ALICE));
    become(BOB, BOB);
    FAILS(chown("f", BOB, (gid_t)-1), EPERM);
    FAILS(chown("f", (uid_t)-1, BOB), EPERM);
    FAILS(chmod("f", 0777), EPERM);
}

static void chown_clears_set_id_bits(void)
{
    need_root();
    make_file("f", "");
    OK(chown("f", ALICE, ALICE));
    OK(chmod("f", 06755));
    become_member(ALICE, ALICE, STAFF);
    OK(chown("f", (uid_t)-1, STAFF));
    EQ(mode_of("f"), 0755);
    OK(chmod("f", 06755));
    become_root();
    OK(chown("f", BOB, BOB)); /* Linux: root as well. */
    EQ(mode_of("f"), 0755);
    OK(chmod("f", 02644)); /* No group execution: mandatory locking once, and kept. */
    OK(chown("f", ALICE, ALICE));
    EQ(mode_of("f"), 02644);
    OK(mkdir("d", 0755));
    OK(chmod("d", 06755));
    OK(chown("d", ALICE, ALICE)); /* Directories keep them. */
    EQ(mode_of("d"), 06755);
}

static void prepare_set_id(const char *path)
{
    become_root();
    OK(chown(path, ALICE, ALICE));
    OK(chmod(path, 06777));
    become(BOB, BOB);
}

static void writing_clears_set_id_bits(void)
{
    int fd;

    need_root();
    make_file("f", "0123456789");
    prepare_set_id("f");
    fd = (int)OK(open("f", O_RDWR));
    EQ(mode_of("f"), 06777); /* Opening alone does nothing. */
    EQ(write(fd, "x", 1), 1);
    EQ(mode_of("f"), 0777);
    prepare_set_id("f");
    OK(truncate("f", 5));
    EQ(mode_of("f"), 0777);
    prepare_set_id("f");
    OK(close((int)OK(open("f", O_WRONLY | O_TRUNC))));
    EQ(mode_of("f"), 0777);
    prepare_set_id("f");
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0) {
        EQ(mode_of("f"), 0777);
    }
    prepare_set_id("f");
    EQ(write((int)OK(open("f", O_WRONLY | O_APPEND)), "x", 1), 1);
    EQ(mode_of("f"), 0777);
    become_root();
    OK(chmod("f", 06755));
    EQ(pwrite((int)OK(open("f", O_WRONLY)), "r", 1, 0), 1); /* Root may. */
    EQ(mode_of("f"), 06755);
}

static void groups_are_inherited_from_a_set_group_directory(void)
{
    need_root();
    OK(mkdir("d", 0777));
    OK(chown("d", 0, STAFF));
    OK(chmod("d", 02777));
    become(ALICE, ALICE);
    make_file("d/f", "");
    EQ(stat_of("d/f").st_gid, STAFF);
    OK(mkdir("d/e", 0755));
    EQ(stat_of("d/e").st_gid, STAFF);
    EQ(mode_of("d/e"), 02755);
    OK(symlink("x", "d/s"));
    EQ(stat_of("d/s").st_gid, STAFF);
    OK(mkfifo("d/p", 0644));
    EQ(stat_of("d/p").st_gid, STAFF);
    make_file("f", "");
    EQ(stat_of("f").st_gid, ALICE);
}

static void set_group_needs_membership(void)
{
    need_root();
    make_file("f", "");
    OK(chown("f", ALICE, STAFF));
    become(ALICE, ALICE);
    OK(chmod("f", 02755));
    EQ(mode_of("f"), 0755);
    OK(chmod("f", 04755));
    EQ(mode_of("f"), 04755);
    become_member(ALICE, ALICE, STAFF);
    OK(chmod("f", 02755));
    EQ(mode_of("f"), 02755);
}

static void statistics_of_the_file_system(void)
{
    struct statvfs s;
    int fd;

    OK(statvfs(".", &s));
    TRUE(s.f_blocks > 0 && s.f_bfree <= s.f_blocks && s.f_bavail <= s.f_bfree);
    TRUE(s.f_bsize >= 512 && s.f_frsize >= 512);
    EQ(s.f_namemax, 255);
    fd = (int)OK(open(".", O_RDONLY));
    OK(fstatvfs(fd, &s));
}

static const struct suite_case mode_cases[] = {
    SUITE_CASE(all_bits),
    SUITE_CASE(the_change_time_moves),
    SUITE_CASE(owners),
    SUITE_CASE(owners_may_give_to_their_groups_only),
    SUITE_CASE(chown_clears_set_id_bits),
    SUITE_CASE(writing_clears_set_id_bits),
    SUITE_CASE(groups_are_inherited_from_a_set_group_directory),
    SUITE_CASE(set_group_needs_membership),
    SUITE_CASE(statistics_of_the_file_system),
};
SUITE_GROUP(mode);
