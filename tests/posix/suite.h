/* A POSIX suite: named cases, each a process of its own in an empty directory of its own.
 *
 * The expectation is what a local Linux file system does: run the suite there first. A case ends at
 * its first failed expectation. What it leaves behind (locks, credentials, umask, files) does not
 * reach the next one.
 */
#ifndef TESTS_POSIX_SUITE_H
#define TESTS_POSIX_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct suite_case
{
    const char *name;
    void (*run)(void); /* The current directory is the case's own. */
};

struct suite_group
{
    const char *name;
    const struct suite_case *cases;
    size_t cases_count;
};

#define SUITE_CASE(function)                                                                       \
    {                                                                                              \
#function, function                                                                        \
    }
#define SUITE_GROUP(name)                                                                          \
    const struct suite_group name##_group = { #name, name##_cases,                                 \
                                              sizeof(name##_cases) / sizeof(name##_cases[0]) }

extern const struct suite_group open_group, data_group, sparse_group, map_group, directory_group,
    rename_group, link_group, special_group, mode_group, permission_group, time_group, xattr_group,
    acl_group, lock_group, limit_group;

/* The call succeeds (not negative); its value. */
#define OK(call) suite_ok((long)(call), #call, __FILE__, __LINE__)
/* The call fails (negative) with this errno. */
#define FAILS(call, error) suite_fails((long)(call), error, #call, #error, __FILE__, __LINE__)
#define EQ(a, b)           suite_equal((long)(a), (long)(b), #a, #b, __FILE__, __LINE__)
#define TRUE(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            suite_false(#condition, __FILE__, __LINE__);                                           \
        }                                                                                          \
    } while (0)
#define SKIP(reason) suite_skip(reason)

long suite_ok(long value, const char *call, const char *file, int line);
void suite_fails(long value, int error, const char *call, const char *error_name, const char *file,
                 int line);
void suite_equal(long a, long b, const char *a_text, const char *b_text, const char *file,
                 int line);
_Noreturn void suite_false(const char *text, const char *file, int line);
_Noreturn void suite_skip(const char *reason);

/* ---- Help for cases; each ends the case when it fails ---- */

/* Recognisable bytes: two places or two seeds hardly ever look alike. */
void fill(void *bytes, size_t count, uint64_t seed);

void write_at(int fd, const void *bytes, size_t count, off_t offset); /* All of it. */
void read_at(int fd, void *bytes, size_t count, off_t offset);        /* All of it. */
void make_file(const char *path, const char *text);
void make_pattern_file(const char *path, size_t size, uint64_t seed);
void expect_text(const char *path, const char *text); /* The whole content. */
void expect_bytes(int fd, const void *bytes, size_t count, off_t offset);
void expect_zeros(int fd, size_t count, off_t offset);
struct stat stat_of(const char *path); /* lstat */
off_t size_of(const char *path);
bool exists(const char *path); /* Of itself, not of what it points to. */

/* Drop the kernel's pages of this file, so that the next read asks the file system. */
void forget_pages(int fd);

/* Other people; skips the case for an ordinary user. The directory of the case is open to
 * everybody. */
enum { ALICE = 61001, BOB = 61002, STAFF = 61003 };
void need_root(void);
void become(uid_t uid, gid_t gid);                    /* Effective ids, no other groups. */
void become_member(uid_t uid, gid_t gid, gid_t also); /* With one supplementary group. */
void become_root(void);

/* Run `function` in a child as well; wait for it: 0 when its expectations held. */
pid_t start(void (*function)(void));
int finish(pid_t child);

/* Strictly later than `a`? */
bool later(struct timespec b, struct timespec a);
void let_clock_tick(void); /* Until the coarse clock that stamps files has moved. */

#endif
