/* A file that is not seen before it is complete, in whose way a signal comes: it has its name, or there is nothing. */
#include "client/admin/hidden_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"

int __real_rename(const char *from, const char *to); /* NOLINT(bugprone-reserved-identifier) */
int __wrap_rename(const char *from, const char *to); /* NOLINT(bugprone-reserved-identifier) */

static int signal_before, fails_with;

/* The user says Ctrl-C just then. */
int __wrap_rename(const char *from, const char *to) /* NOLINT(bugprone-reserved-identifier) */
{
    if (signal_before != 0) {
        CHECK(raise(signal_before) == 0);
    }
    if (fails_with != 0) {
        errno = fails_with;
        return -1;
    }
    return __real_rename(from, to);
}

struct place
{
    char directory[64], path[96];
};

static void begin(struct place *p)
{
    (void)snprintf(p->directory, sizeof(p->directory), "/tmp/morsel-hidden-XXXXXX");
    CHECK(mkdtemp(p->directory) != NULL);
    (void)snprintf(p->path, sizeof(p->path), "%s/file", p->directory);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The file has that text, and there is nothing beside it. */
static void assert_alone(const struct place *p, const char *text)
{
    DIR *directory = opendir(p->directory);
    const struct dirent *entry;
    char read[16] = "";
    FILE *file = fopen(p->path, "r");

    CHECK(directory != NULL && file != NULL);
    assert_non_null(fgets(read, sizeof(read), file));
    assert_string_equal(read, text);
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2) {
            assert_string_equal(entry->d_name, "file");
        }
    }
    (void)fclose(file);
    (void)closedir(directory);
}

static void end(const struct place *p)
{
    CHECK(unlink(p->path) == 0 && rmdir(p->directory) == 0);
}

/* As a command does it, which is ended by the signal as soon as it may be. */
static void replace_in_child(const struct place *p)
{
    struct hidden_file h;
    int fd = hidden_make(&h, p->directory);

    CHECK(fd >= 0 && write(fd, "new", 3) == 3);
    (void)hidden_name(&h, fd, p->path, true);
    _exit(0);
}

static void who_is_interrupted_leaves_the_new_one_alone(void **state)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
    struct place p;
    int status;
    pid_t child;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        begin(&p);
        write_text(p.path, "old");
        signal_before = signals[i];
        CHECK((child = fork()) >= 0);
        if (child == 0) {
            replace_in_child(&p);
        }
        CHECK(waitpid(child, &status, 0) == child);
        signal_before = 0;
        assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        assert_alone(&p, "new");
        end(&p);
    }
}

static void what_cannot_be_replaced_stays_alone(void **state)
{
    struct hidden_file h;
    struct place p;
    int fd;

    (void)state;
    begin(&p);
    write_text(p.path, "old");
    fd = hidden_make(&h, p.directory);
    CHECK(fd >= 0);
    fails_with = EPERM;
    assert_int_equal(hidden_name(&h, fd, p.path, true), -1);
    assert_int_equal(errno, EPERM);
    fails_with = 0;
    assert_alone(&p, "old");
    hidden_drop(&h);
    CHECK(close(fd) == 0);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_interrupted_leaves_the_new_one_alone),
        cmocka_unit_test(what_cannot_be_replaced_stays_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
