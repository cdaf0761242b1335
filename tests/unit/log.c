/* Log lines: shape, level, one line whatever the message holds, whole lines from many threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/daemon/log.h"

#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture
{
    char path[64];
    struct log *log;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    int fd;

    assert_non_null(f);
    (void)snprintf(f->path, sizeof(f->path), "/tmp/morsel-log-XXXXXX");
    fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    f->log = log_open("morsel-test", f->path, LOG_LEVEL_INFO);
    assert_non_null(f->log);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    log_close(f->log);
    assert_int_equal(unlink(f->path), 0);
    free(f);
    return 0;
}

/* The whole file; the caller frees. */
static char *contents(const struct fixture *f)
{
    FILE *file = fopen(f->path, "r");
    struct stat st;
    char *text;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &st), 0);
    text = calloc(1, (size_t)st.st_size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)st.st_size, file), st.st_size);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t regex;

    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&regex, text, 0, NULL, 0) != 0) {
        fail_msg("\"%s\" does not match %s", text, pattern);
    }
    regfree(&regex);
}

static void a_line_has_time_program_and_level(void **state)
{
    struct fixture *f = *state;
    char *text;

    log_warning(f->log, "disk %s is full", "/srv");
    text = contents(f);
    assert_matches(text, "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z morsel-test warning: "
                         "disk /srv is full\n$");
    free(text);
}

static void lower_levels_are_dropped(void **state)
{
    struct fixture *f = *state;
    char *text;

    log_debug(f->log, "hidden");
    log_set_level(f->log, LOG_LEVEL_DEBUG);
    log_debug(f->log, "shown");
    log_set_level(f->log, LOG_LEVEL_ERROR);
    log_warning(f->log, "hidden");
    log_error(NULL, "hidden");
    text = contents(f);
    assert_null(strstr(text, "hidden"));
    assert_non_null(strstr(text, "debug: shown\n"));
    free(text);
}

static void control_characters_do_not_forge_lines(void **state)
{
    struct fixture *f = *state;
    char *text;

    log_info(f->log, "file \"%s\"", "a\nb\x1b[31m");
    text = contents(f);
    assert_non_null(strstr(text, "file \"a?b?[31m\"\n"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    free(text);
}

static void long_lines_are_cut(void **state)
{
    struct fixture *f = *state;
    char *text;

    log_info(f->log, "%09000d", 1);
    text = contents(f);
    assert_int_equal(strlen(text), 4095);
    assert_int_equal(text[4094], '\n');
    free(text);
}

static void *write_many(void *data)
{
    for (int i = 0; i < 500; i++) {
        log_info(data, "begin %0200d end", i);
    }
    return NULL;
}

static void threads_write_whole_lines(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[4];
    unsigned lines = 0;
    char *text;
    char *rest;

    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, f->log), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    text = contents(f);
    rest = text;
    for (char *line = strsep(&rest, "\n"); rest != NULL; line = strsep(&rest, "\n")) {
        assert_non_null(strstr(line, "info: begin 0"));
        assert_string_equal(line + strlen(line) - 4, " end");
        lines++;
    }
    assert_int_equal(lines, 2000);
    free(text);
}

/* Standard error goes to a file that JOURNAL_STREAM names, as under systemd. */
static void the_journal_gets_level_prefixes(void **state)
{
    struct fixture *f = *state;
    int kept = dup(STDERR_FILENO);
    struct log *log;
    struct stat st;
    char stream[64];
    char *text;

    assert_non_null(freopen(f->path, "w", stderr));
    assert_int_equal(fstat(STDERR_FILENO, &st), 0);
    (void)snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
    log = log_open("morsel-test", NULL, LOG_LEVEL_INFO);
    assert_non_null(log);
    log_error(log, "it broke");
    log_close(log);
    assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    assert_int_equal(close(kept), 0);
    text = contents(f);
    assert_string_equal(text, "<3>it broke\n");
    free(text);
}

static void a_missing_directory_is_an_error(void **state)
{
    (void)state;
    assert_null(log_open("morsel-test", "/nonexistent/log", LOG_LEVEL_INFO));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_has_time_program_and_level, setup, teardown),
        cmocka_unit_test_setup_teardown(lower_levels_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(control_characters_do_not_forge_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(long_lines_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_write_whole_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(the_journal_gets_level_prefixes, setup, teardown),
        cmocka_unit_test(a_missing_directory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
