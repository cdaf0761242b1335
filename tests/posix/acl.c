/* POSIX access control lists, through their extended attributes (acl(5)). */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ACCESS  "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

/* Tags of Linux. */
enum { USER_OBJ = 1, USER = 2, GROUP_OBJ = 4, GROUP = 8, MASK = 16, OTHER = 32 };

struct entry
{
    uint16_t tag, rights;
    uint32_t id;
};

struct list
{
    uint32_t version;
    struct entry entries[8];
};

enum { NOBODY = 0xffffffff };

static int set_list(const char *path, const char *which, const struct entry *entries, size_t count)
{
    struct list list = { .version = 2 };

    memcpy(list.entries, entries, count * sizeof(*entries));
    return setxattr(path, which, &list, 4 + count * sizeof(*entries), 0);
}

#define SET(path, which, ...)                                                                      \
    set_list(path, which, (const struct entry[]){ __VA_ARGS__ },                                   \
             sizeof((const struct entry[]){ __VA_ARGS__ }) / sizeof(struct entry))

static int rights_of(const char *path, const char *which, unsigned tag, uint32_t id)
{
    struct list list;
    ssize_t size = OK(getxattr(path, which, &list, sizeof(list)));

    EQ(list.version, 2);
    for (size_t i = 0; i < ((size_t)size - 4) / sizeof(struct entry); i++) {
        if (list.entries[i].tag == tag &&
            (list.entries[i].id == id || (tag & (USER | GROUP)) == 0)) {
            return list.entries[i].rights;
        }
    }
    return -1;
}

static void need_lists(const char *path)
{
    if (SET(path, ACCESS, { USER_OBJ, 6, NOBODY }, { GROUP_OBJ, 4, NOBODY },
            { OTHER, 4, NOBODY }) != 0 &&
        errno == EOPNOTSUPP) {
        SKIP("no access control lists here");
    }
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

static void a_minimal_list_is_the_mode(void)
{
    make_file("f", "");
    need_lists("f");
    OK(SET("f", ACCESS, { USER_OBJ, 7, NOBODY }, { GROUP_OBJ, 5, NOBODY }, { OTHER, 1, NOBODY }));
    EQ(stat_of("f").st_mode & 07777, 0751);
    FAILS(getxattr("f", ACCESS, NULL, 0), ENODATA);
    EQ(listxattr("f", NULL, 0), 0);
    FAILS(getxattr("f", DEFAULT, NULL, 0), ENODATA);
}

static void named_users_and_the_mask(void)
{
    need_root();
    make_file("f", "x");
    need_lists("f");
    OK(SET("f", ACCESS, { USER_OBJ, 6, NOBODY }, { USER, 6, ALICE }, { GROUP_OBJ, 4, NOBODY },
           { GROUP, 4, STAFF }, { MASK, 6, NOBODY }, { OTHER, 0, NOBODY }));
    EQ(stat_of("f").st_mode & 07777, 0660); /* The mask stands in the place of the group. */
    EQ(rights_of("f", ACCESS, GROUP_OBJ, 0), 4);
    become(ALICE, ALICE);
    TRUE(opens("f", O_RDWR));
    become(BOB, BOB);
    TRUE(!opens("f", O_RDONLY));
    become_member(BOB, BOB, STAFF);
    TRUE(opens("f", O_RDONLY));
    TRUE(!opens("f", O_WRONLY));
    become_root();
    OK(chmod("f", 0640)); /* chmod changes the mask. */
    EQ(rights_of("f", ACCESS, MASK, 0), 4);
    EQ(rights_of("f", ACCESS, USER, ALICE), 6);
    become(ALICE, ALICE);
    TRUE(opens("f", O_RDONLY));
    TRUE(!opens("f", O_WRONLY));
    become_root();
    OK(removexattr("f", ACCESS));
    become(ALICE, ALICE);
    TRUE(!opens("f", O_RDONLY));
}

static void directories_pass_on_their_default(void)
{
    OK(mkdir("d", 0755));
    need_lists("d");
    OK(chmod("d", 0755));
    OK(SET("d", DEFAULT, { USER_OBJ, 7, NOBODY }, { USER, 7, ALICE }, { GROUP_OBJ, 5, NOBODY },
           { MASK, 7, NOBODY }, { OTHER, 0, NOBODY }));
    (void)umask(0077); /* Does not count where a default list is. */
    OK(close((int)OK(open("d/f", O_WRONLY | O_CREAT, 0666))));
    EQ(stat_of("d/f").st_mode & 07777, 0660);
    EQ(rights_of("d/f", ACCESS, USER, ALICE), 7);
    EQ(rights_of("d/f", ACCESS, MASK, 0), 6);
    EQ(rights_of("d/f", ACCESS, GROUP_OBJ, 0), 5);
    FAILS(getxattr("d/f", DEFAULT, NULL, 0), ENODATA);
    OK(mkdir("d/e", 0750));
    EQ(stat_of("d/e").st_mode & 07777, 0750);
    EQ(rights_of("d/e", ACCESS, MASK, 0), 5);
    EQ(rights_of("d/e", DEFAULT, USER, ALICE), 7);
    EQ(rights_of("d/e", DEFAULT, MASK, 0), 7);
    OK(mkfifo("d/p", 0600));
    EQ(stat_of("d/p").st_mode & 07777, 0600);
    OK(symlink("x", "d/s"));
    OK(removexattr("d", DEFAULT));
    OK(close((int)OK(open("d/g", O_WRONLY | O_CREAT, 0666))));
    EQ(stat_of("d/g").st_mode & 07777, 0600);
    FAILS(getxattr("d/g", ACCESS, NULL, 0), ENODATA);
}

static void a_default_without_names(void)
{
    OK(mkdir("d", 0755));
    need_lists("d");
    OK(SET("d", DEFAULT, { USER_OBJ, 7, NOBODY }, { GROUP_OBJ, 5, NOBODY }, { OTHER, 5, NOBODY }));
    (void)umask(0077);
    OK(close((int)OK(open("d/f", O_WRONLY | O_CREAT, 0666))));
    EQ(stat_of("d/f").st_mode & 07777, 0644);
    FAILS(getxattr("d/f", ACCESS, NULL, 0), ENODATA);
}

static void lists_that_cannot_be(void)
{
    make_file("f", "");
    need_lists("f");
    OK(chmod("f", 0644));
    FAILS(setxattr("f", ACCESS, "nonsense", 8, 0), EOPNOTSUPP);
    FAILS(setxattr("f", ACCESS, "\x02\0\0\0\x01", 5, 0), EINVAL);
    FAILS(SET("f", ACCESS, { USER_OBJ, 6, NOBODY }, { OTHER, 4, NOBODY }), EINVAL);
    FAILS(SET("f", ACCESS, { USER_OBJ, 6, NOBODY }, { USER, 6, 5 }, { GROUP_OBJ, 4, NOBODY },
              { OTHER, 4, NOBODY }),
          EINVAL); /* A name without a mask. */
    FAILS(SET("f", ACCESS, { USER_OBJ, 9, NOBODY }, { GROUP_OBJ, 4, NOBODY }, { OTHER, 4, NOBODY }),
          EINVAL);
    FAILS(
        SET("f", DEFAULT, { USER_OBJ, 6, NOBODY }, { GROUP_OBJ, 4, NOBODY }, { OTHER, 4, NOBODY }),
        EACCES); /* A file has no default. */
    EQ(stat_of("f").st_mode & 07777, 0644);
}

static void only_the_owner_may_change_them(void)
{
    need_root();
    make_file("f", "");
    need_lists("f");
    OK(chmod("f", 0666));
    become(ALICE, ALICE);
    FAILS(SET("f", ACCESS, { USER_OBJ, 6, NOBODY }, { GROUP_OBJ, 4, NOBODY }, { OTHER, 4, NOBODY }),
          EPERM);
    FAILS(removexattr("f", ACCESS), EPERM);
}

static const struct suite_case acl_cases[] = {
    SUITE_CASE(a_minimal_list_is_the_mode),
    SUITE_CASE(named_users_and_the_mask),
    SUITE_CASE(directories_pass_on_their_default),
    SUITE_CASE(a_default_without_names),
    SUITE_CASE(lists_that_cannot_be),
    SUITE_CASE(only_the_owner_may_change_them),
};
SUITE_GROUP(acl);
