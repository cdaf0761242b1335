/* The list of the database's files: nothing is listed that a loss of power could take away. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "meta/storage/inventory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct
{
    char order[256];   /* Base names of what was synced, each behind a space. */
    const char *grows; /* Appended to while it is synced: LevelDB writes on. */
    bool fails;
} disk;

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_syncfs(int fd);

static void append(const char *path, const char *text)
{
    FILE *file = fopen(path, "ae");

    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

int __wrap_fsync(int fd)
{
    char link[64], path[512] = "";
    size_t used = strlen(disk.order);

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    CHECK(readlink(link, path, sizeof(path) - 1) > 0);
    snprintf(disk.order + used, sizeof(disk.order) - used, " %s", strrchr(path, '/') + 1);
    if (disk.grows != NULL && strstr(path, "MANIFEST") != NULL) {
        append(disk.grows, "more");
    }
    if (disk.fails && strstr(path, "INVENTORY") == NULL) {
        errno = EIO;
        return -1;
    }
    return __real_fsync(fd);
}

int __wrap_syncfs(int fd)
{
    size_t used = strlen(disk.order);

    (void)fd;
    snprintf(disk.order + used, sizeof(disk.order) - used, " everything");
    if (disk.fails) {
        errno = EIO;
        return -1;
    }
    return 0;
}

struct fixture
{
    char dir[64];
    char manifest[96];
    int fd;
};

static int set_up(void **state)
{
    static struct fixture f;
    char path[96];

    memset(&disk, 0, sizeof(disk));
    snprintf(f.dir, sizeof(f.dir), "/tmp/morsel-inventory-XXXXXX");
    CHECK(mkdtemp(f.dir) != NULL);
    f.fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(f.fd >= 0);
    snprintf(path, sizeof(path), "%s/CURRENT", f.dir);
    append(path, "MANIFEST-000002\n");
    snprintf(f.manifest, sizeof(f.manifest), "%s/MANIFEST-000002", f.dir);
    append(f.manifest, "twelve bytes");
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char command[96];

    close(f->fd);
    snprintf(command, sizeof(command), "rm -r '%s'", f->dir);
    return system(command);
}

static void test_the_manifest_is_synced_before_it_is_listed(void **state)
{
    struct fixture *f = *state;
    struct errmsg err = { "" };

    disk.grows = f->manifest;
    assert_int_equal(inventory_write(f->fd, f->dir, false, &err), 0);
    assert_string_equal(strtok(disk.order, " "), "MANIFEST-000002");
    assert_string_equal(strtok(NULL, " "), "INVENTORY.tmp");
    disk.grows = NULL;
    CHECK(truncate(f->manifest, 12) == 0); /* What came while it was synced is lost. */
    assert_int_equal(inventory_check(f->fd, f->dir, &err), 0);
    CHECK(truncate(f->manifest, 11) == 0);
    assert_int_equal(inventory_check(f->fd, f->dir, &err), MORSEL_CORRUPT);
}

static void test_everything_is_synced_before_all_of_it_is_listed(void **state)
{
    struct fixture *f = *state;
    struct errmsg err = { "" };

    assert_int_equal(inventory_write(f->fd, f->dir, true, &err), 0);
    assert_string_equal(strtok(disk.order, " "), "everything");
    assert_string_equal(strtok(NULL, " "), "INVENTORY.tmp");
}

static void test_what_cannot_be_synced_is_not_listed(void **state)
{
    struct fixture *f = *state;
    struct errmsg err = { "" };

    disk.fails = true;
    assert_int_equal(inventory_write(f->fd, f->dir, false, &err), MORSEL_IO);
    assert_int_equal(inventory_write(f->fd, f->dir, true, &err), MORSEL_IO);
    assert_int_not_equal(faccessat(f->fd, "INVENTORY", F_OK, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_manifest_is_synced_before_it_is_listed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_everything_is_synced_before_all_of_it_is_listed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_synced_is_not_listed, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
