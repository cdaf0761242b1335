/* Settings from one table: values, bounds, files, command lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct settings
{
    char dir[CONFIG_STRING_MAX];
    uint64_t count;
    uint64_t size;
    uint64_t wait_ms;
    bool sync;
    bool foreground;
    char mount_options[CONFIG_STRING_MAX];
};

#define FIELD(name) offsetof(struct settings, name)

static const struct config_option options[] = {
    { "data-dir", CONFIG_STRING, FIELD(dir), "/var/lib/x", 0, 0, "DIR", "Where data lies." },
    { "count", CONFIG_NUMBER, FIELD(count), "4", 1, 64, "N", "How many." },
    { "cache-size", CONFIG_BYTES, FIELD(size), "1M", 65536, 16 << 20, "SIZE", "Cache." },
    { "wait", CONFIG_TIME_MS, FIELD(wait_ms), "30s", 0, 0, "TIME", "How long to wait." },
    { "sync", CONFIG_BOOL, FIELD(sync), "yes", 0, 0, NULL, "Write through." },
    { "f", CONFIG_BOOL, FIELD(foreground), "no", 0, 0, NULL, "Stay in the foreground." },
    { "o", CONFIG_STRING, FIELD(mount_options), "", 0, 0, "OPTIONS", "Mount options." },
};

static const struct config_table table = { "morsel-iod", "A test.", "[FILE]", options,
                                           ARRAY_COUNT(options) };

static void expect_set(const char *name, const char *value, int status, const char *words)
{
    struct settings s;
    struct errmsg err = { "" };

    config_defaults(&table, &s);
    assert_int_equal(config_set(&table, &s, name, value, &err), status);
    assert_string_equal(err.text, words);
}

static void defaults_are_set(void **state)
{
    struct settings s;

    (void)state;
    memset(&s, 0xee, sizeof(s));
    config_defaults(&table, &s);
    assert_string_equal(s.dir, "/var/lib/x");
    assert_int_equal(s.count, 4);
    assert_int_equal(s.size, 1 << 20);
    assert_int_equal(s.wait_ms, 30000);
    assert_true(s.sync);
    assert_false(s.foreground);
    assert_string_equal(s.mount_options, "");
}

static void sizes_and_times_know_units(void **state)
{
    static const struct
    {
        const char *text;
        uint64_t value;
    } sizes[] = { { "64K", 65536 },    { "64k", 65536 },   { "1M", 1048576 },
                  { "2MiB", 2097152 }, { "65536", 65536 }, { "16384KiB", 16777216 } },
      times[] = { { "500ms", 500 }, { "30", 30000 },   { "30s", 30000 },
                  { "5m", 300000 }, { "2h", 7200000 }, { "0", 0 } };
    struct settings s;

    (void)state;
    config_defaults(&table, &s);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        assert_int_equal(config_set(&table, &s, "cache-size", sizes[i].text, NULL), 0);
        assert_int_equal(s.size, sizes[i].value);
    }
    for (size_t i = 0; i < ARRAY_COUNT(times); i++) {
        assert_int_equal(config_set(&table, &s, "wait", times[i].text, NULL), 0);
        assert_int_equal(s.wait_ms, times[i].value);
    }
}

static void bools_have_four_spellings(void **state)
{
    static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };
    struct settings s;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        assert_int_equal(config_set(&table, &s, "sync", words[i], NULL), 0);
        assert_int_equal(s.sync, i % 2 == 1);
    }
    expect_set("sync", "perhaps", MORSEL_INVAL, "value \"perhaps\" of \"sync\" is not yes or no");
}

static void numbers_are_bounded(void **state)
{
    (void)state;
    expect_set("count", "1", 0, "");
    expect_set("count", "64", 0, "");
    expect_set("count", "0", MORSEL_INVAL,
               "value \"0\" of \"count\" is out of range; give 1 to 64");
    expect_set("count", "65", MORSEL_INVAL,
               "value \"65\" of \"count\" is out of range; give 1 to 64");
    expect_set("cache-size", "63K", MORSEL_INVAL,
               "value \"63K\" of \"cache-size\" is out of range; give 64K to 16M");
    expect_set("cache-size", "17M", MORSEL_INVAL,
               "value \"17M\" of \"cache-size\" is out of range; give 64K to 16M");
}

static void nonsense_is_no_number(void **state)
{
    static const char *const bad[] = { "",
                                       "x",
                                       "-1",
                                       "1x",
                                       "1 ",
                                       " 1",
                                       "1.5",
                                       "0x10",
                                       "K",
                                       "1KK",
                                       "99999999999999999999",
                                       "99999999999999T" };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct settings s;

        config_defaults(&table, &s);
        assert_int_equal(config_set(&table, &s, "count", bad[i], NULL), MORSEL_INVAL);
        assert_int_equal(config_set(&table, &s, "cache-size", bad[i], NULL), MORSEL_INVAL);
        assert_int_equal(config_set(&table, &s, "wait", bad[i], NULL), MORSEL_INVAL);
        assert_int_equal(s.count, 4);
        assert_int_equal(s.wait_ms, 30000);
    }
    expect_set("cache-size", "big", MORSEL_INVAL,
               "value \"big\" of \"cache-size\" is not a size such as 64K, 1M or 10G");
}

static void long_text_is_refused(void **state)
{
    char text[CONFIG_STRING_MAX + 1];

    (void)state;
    memset(text, 'a', sizeof(text));
    text[CONFIG_STRING_MAX] = '\0';
    expect_set("data-dir", text, MORSEL_INVAL,
               "value of \"data-dir\" is 1024 bytes long; 1023 are the most");
    text[CONFIG_STRING_MAX - 1] = '\0';
    expect_set("data-dir", text, 0, "");
}

static void unknown_keys_get_a_hint(void **state)
{
    (void)state;
    expect_set(
        "dta-dir", "x", MORSEL_INVAL,
        "unknown key \"dta-dir\"; did you mean \"data-dir\"? (\"morsel-iod --help\" lists all)");
    expect_set("colour", "x", MORSEL_INVAL,
               "unknown key \"colour\" (\"morsel-iod --help\" lists all)");
}

/* A file with this text, in a directory of its own. */
static int read_text(const char *text, size_t count, struct settings *s, char words[512])
{
    char dir[] = "/tmp/morsel-config-XXXXXX";
    char path[64];
    struct errmsg err = { "" };
    FILE *file;
    int status;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/c", dir);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
    config_defaults(&table, s);
    status = config_read_file(&table, s, path, &err);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    if (strncmp(err.text, path, strlen(path)) == 0) {
        (void)snprintf(words, 512, "c%s", err.text + strlen(path));
    } else {
        (void)snprintf(words, 512, "%s", err.text);
    }
    return status;
}

static void expect_file(const char *text, const char *words)
{
    struct settings s;
    char found[512];
    int status = read_text(text, strlen(text), &s, found);

    assert_string_equal(found, words);
    assert_int_equal(status, words[0] == '\0' ? 0 : MORSEL_INVAL);
}

static void a_good_file_is_read(void **state)
{
    static const char text[] = "# comment\n"
                               "[morsel-meta]\n"
                               "unknown-there = 1\n"
                               "\n"
                               "[morsel-iod]\n"
                               "  data-dir = /srv/a b  \n"
                               "\tcount = 7 ; and why\n"
                               "cache-size=2M\n"
                               "wait : 5m\n"
                               "sync = no";
    struct settings s;
    char words[512];

    (void)state;
    assert_int_equal(read_text(text, strlen(text), &s, words), 0);
    assert_string_equal(s.dir, "/srv/a b");
    assert_int_equal(s.count, 7);
    assert_int_equal(s.size, 2 << 20);
    assert_int_equal(s.wait_ms, 300000);
    assert_false(s.sync);
}

static void bad_files_name_the_line(void **state)
{
    struct settings s;
    char long_line[600];
    char words[512];

    (void)state;
    expect_file("", "");
    expect_file("[morsel-iod]\n\n# x\ndta-dir = /x\n",
                "c:4: unknown key \"dta-dir\"; did you mean \"data-dir\"? (\"morsel-iod --help\" "
                "lists all)");
    expect_file("[morsel-iod]\ncount = 99\ncount = 1\n",
                "c:2: value \"99\" of \"count\" is out of range; give 1 to 64");
    expect_file("[morsel-iod]\ncount = 9\nsync = no\ncount = 9\n",
                "c:4: \"count\" is given twice; line 2 has it already");
    expect_file("count = 9\n", "c:1: key stands before any section; put [morsel-iod] above it");
    expect_file("[iod]\ncount = 9\n",
                "c:2: unknown section [iod]; settings of this program stand under [morsel-iod]");
    expect_file("[morsel-iod]\ncount\n", "c:2: neither \"key = value\" nor \"[section]\"");
    expect_file("[morsel-iod\n", "c:1: neither \"key = value\" nor \"[section]\"");
    assert_int_equal(read_text("[morsel-iod]\na\0b\n", 17, &s, words), MORSEL_INVAL);
    assert_string_equal(words, "c:2: not a text file");
    (void)snprintf(long_line, sizeof(long_line), "[morsel-iod]\ndata-dir = %0500d\n", 0);
    assert_int_equal(read_text(long_line, strlen(long_line), &s, words), MORSEL_INVAL);
    assert_non_null(strstr(words, "c:2: line is longer than"));
}

static void missing_files_and_directories_are_errors(void **state)
{
    struct settings s;
    struct errmsg err;

    (void)state;
    assert_int_equal(config_read_file(&table, &s, "/nonexistent/c", &err), MORSEL_NOENT);
    assert_string_equal(
        err.text, "/nonexistent/c: cannot read the configuration file: No such file or directory");
    assert_int_equal(config_read_file(&table, &s, "/tmp", &err), MORSEL_ISDIR);
    assert_string_equal(err.text, "/tmp: cannot read the configuration file: Is a directory");
}

/* argv from words; the verdict, settings and operands come back. */
struct line
{
    struct settings s;
    const char *operands[2];
    size_t operands_count;
    struct errmsg err;
};

static enum config_verdict run(struct line *l, char **words)
{
    int argc = 0;

    memset(l, 0, sizeof(*l));
    while (words[argc] != NULL) {
        argc++;
    }
    return config_command_line(&table, &l->s, argc, words, l->operands, ARRAY_COUNT(l->operands),
                               &l->operands_count, &l->err);
}

#define ARGV(...)                                                                                  \
    (char *[])                                                                                     \
    {                                                                                              \
        (char[]){ "p" }, __VA_ARGS__, NULL                                                         \
    }
#define W(text) ((char[]){ text })

static void options_have_many_shapes(void **state)
{
    struct line l;

    (void)state;
    assert_int_equal(run(&l, ARGV(W("--data-dir=/a"), W("--count"), W("9"), W("--no-sync"), W("-f"),
                                  W("-oro,soft"), W("x"), W("--"), W("--y"))),
                     CONFIG_RUN);
    assert_string_equal(l.s.dir, "/a");
    assert_int_equal(l.s.count, 9);
    assert_false(l.s.sync);
    assert_true(l.s.foreground);
    assert_string_equal(l.s.mount_options, "ro,soft");
    assert_int_equal(l.operands_count, 2);
    assert_string_equal(l.operands[0], "x");
    assert_string_equal(l.operands[1], "--y");
    assert_int_equal(run(&l, ARGV(W("-o"), W("ro"), W("--sync=no"), W("-"))), CONFIG_RUN);
    assert_string_equal(l.s.mount_options, "ro");
    assert_false(l.s.sync);
    assert_string_equal(l.operands[0], "-");
    assert_int_equal(
        run(&l, ARGV(W("x"), W("-fo"), W("-ro"), W("--data-dir"), W("--sync"), W("y"))),
        CONFIG_RUN);
    assert_true(l.s.foreground);
    assert_string_equal(l.s.mount_options, "-ro");
    assert_string_equal(l.s.dir, "--sync");
    assert_string_equal(l.operands[0], "x");
    assert_string_equal(l.operands[1], "y");
}

static void expect_bad(char **words, const char *text)
{
    struct line l;

    assert_int_equal(run(&l, words), CONFIG_BAD);
    assert_string_equal(l.err.text, text);
}

static void bad_options_say_what_to_do(void **state)
{
    (void)state;
    expect_bad(ARGV(W("--dta-dir=x")),
               "unknown option \"--dta-dir\"; did you mean \"--data-dir\"? (\"morsel-iod --help\" "
               "lists all)");
    expect_bad(ARGV(W("-z")), "unknown option \"-z\" (\"morsel-iod --help\" lists all)");
    expect_bad(ARGV(W("-fz")), "unknown option \"-z\" (\"morsel-iod --help\" lists all)");
    expect_bad(ARGV(W("-fo")), "option \"-o\" needs a value (OPTIONS)");
    expect_bad(ARGV(W("--data=x")), "unknown option \"--data\" (\"morsel-iod --help\" lists all)");
    expect_bad(ARGV(W("--no-sync=x")),
               "unknown option \"--no-sync\"; did you mean \"--sync\"? (\"morsel-iod --help\" "
               "lists all)");
    expect_bad(ARGV(W("--help=x")), "unknown option \"--help\" (\"morsel-iod --help\" lists all)");
    expect_bad(ARGV(W("--no-count")),
               "unknown option \"--no-count\"; did you mean \"--count\"? (\"morsel-iod --help\" "
               "lists all)");
    expect_bad(ARGV(W("--count")), "option \"--count\" needs a value (N)");
    expect_bad(ARGV(W("--config")), "option \"--config\" needs a value (FILE)");
    expect_bad(ARGV(W("--count=0")), "value \"0\" of \"count\" is out of range; give 1 to 64");
    expect_bad(ARGV(W("a"), W("b"), W("c")),
               "unexpected argument \"c\" (\"morsel-iod --help\" shows the usage)");
    expect_bad(ARGV(W("--config=/nonexistent")),
               "/nonexistent: cannot read the configuration file: No such file or directory");
}

static void help_and_version_are_verdicts(void **state)
{
    struct line l;

    (void)state;
    assert_int_equal(run(&l, ARGV(W("-h"))), CONFIG_HELP);
    assert_int_equal(run(&l, ARGV(W("--count=0"), W("--help"))), CONFIG_HELP);
    assert_int_equal(run(&l, ARGV(W("--version"))), CONFIG_VERSION);
    assert_int_equal(run(&l, ARGV(W("--print-man"))), CONFIG_MAN);
    assert_int_equal(run(&l, ARGV(W("--print-sample"))), CONFIG_SAMPLE);
    assert_int_equal(run(&l, ARGV(W("--"), W("--help"))), CONFIG_RUN);
}

static void the_command_line_wins_over_the_file(void **state)
{
    char path[] = "/tmp/morsel-config-XXXXXX";
    char option[64];
    struct line l;
    int fd = mkstemp(path);
    static const char text[] = "[morsel-iod]\ncount = 5\nwait = 1s\n";

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    (void)snprintf(option, sizeof(option), "--config=%s", path);
    assert_int_equal(run(&l, ARGV(W("--count=6"), option)), CONFIG_RUN);
    assert_int_equal(l.s.count, 6);
    assert_int_equal(l.s.wait_ms, 1000);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_set),
        cmocka_unit_test(sizes_and_times_know_units),
        cmocka_unit_test(bools_have_four_spellings),
        cmocka_unit_test(numbers_are_bounded),
        cmocka_unit_test(nonsense_is_no_number),
        cmocka_unit_test(long_text_is_refused),
        cmocka_unit_test(unknown_keys_get_a_hint),
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(bad_files_name_the_line),
        cmocka_unit_test(missing_files_and_directories_are_errors),
        cmocka_unit_test(options_have_many_shapes),
        cmocka_unit_test(bad_options_say_what_to_do),
        cmocka_unit_test(help_and_version_are_verdicts),
        cmocka_unit_test(the_command_line_wins_over_the_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
