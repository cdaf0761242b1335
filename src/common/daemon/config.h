/* Settings of a program from one table: it drives the parser of the configuration file, the command
 * line, --help, and the list in the man page.
 *
 * Later sources win: defaults, then the file (INI, one section named after the program), then the
 * command line. Unknown keys, values out of range and keys given twice in a file are errors with
 * file and line. A file may hold sections of other MorselFS programs beside ours; they are skipped.
 * Empty text sets a string to "", which stands for "not given".
 *
 * config.c is pure: values, names, defaults. config_file.c reads files and argv, config_print_file.c
 * prints.
 */
#ifndef MORSEL_COMMON_DAEMON_CONFIG_H
#define MORSEL_COMMON_DAEMON_CONFIG_H

#include "common/base/errmsg.h"
#include "common/base/types.h"

enum config_type {
    CONFIG_STRING,  /* char[CONFIG_STRING_MAX] */
    CONFIG_NUMBER,  /* uint64_t, min to max */
    CONFIG_BYTES,   /* uint64_t; 64K, 1M, 10G: powers of 1024 */
    CONFIG_TIME_MS, /* uint64_t; 500ms, 30s, 5m, bare numbers are seconds */
    CONFIG_BOOL     /* bool; yes/no, true/false, on/off, 1/0 */
};

enum { CONFIG_STRING_MAX = 1024, CONFIG_SECTION_MAX = 64 };

struct config_option
{
    const char *name; /* "data-dir": --data-dir=..., and data-dir = ... in the file. */
    enum config_type type;
    size_t offset;             /* Of the field in the settings struct. */
    const char *default_value; /* As it would stand in a file. */
    uint64_t min, max;         /* Numbers, bytes and times, both included. max 0: no limit. */
    const char *value_name;    /* "DIR" in --help. */
    const char *help;          /* One sentence. */
};

struct config_table
{
    const char *program;  /* Section of the file; first word of --help. */
    const char *summary;  /* One line under the usage line. */
    const char *operands; /* "HOST:PORT MOUNTPOINT" or "" */
    const struct config_option *options;
    size_t options_count;
};

enum config_verdict {
    CONFIG_RUN,
    CONFIG_HELP,
    CONFIG_VERSION,
    CONFIG_BAD,
    CONFIG_MAN,   /* --print-man, for the build. */
    CONFIG_SAMPLE /* --print-sample. */
};

/* Fill `settings` with the defaults. A default that does not parse is our bug. */
void config_defaults(const struct config_table *table, void *settings);

/* Set one option from text. MORSEL_INVAL with a sentence. */
int config_set(const struct config_table *table, void *settings, const char *name,
               const char *value, struct errmsg *err);

/* A size as CONFIG_BYTES has it: "64K", "10G". False: it is none. */
bool config_bytes_parse(const char *text, uint64_t *bytes);

/* Read an INI file over `settings`. MORSEL_NOENT, MORSEL_INVAL with file, line and what to do. */
int config_read_file(const struct config_table *table, void *settings, const char *path,
                     struct errmsg *err);

/* The option called `name`, or NULL. */
const struct config_option *config_find(const struct config_table *table, const char *name);

/* The section of the file that is the program's: "morsel status" is a command of "morsel". */
void config_section(const struct config_table *table, char section[CONFIG_SECTION_MAX]);

/* The name closest to a misspelt one, or NULL when none is close. */
const char *config_suggest(const struct config_table *table, const char *name);

/* The whole start: defaults, --config FILE, options (--name=value, --name value; a bool also as
 * --name and --no-name; a name of one letter as -n, -n value and -nvalue, and several bools in one
 * word, as mount(8) has it: -fn). Names are given in full. "--" ends the options.
 * `operands_out` points into argv; its count is returned through `operands_count`, at most
 * `operands_max`. With CONFIG_BAD `err` says why. */
enum config_verdict config_command_line(const struct config_table *table, void *settings, int argc,
                                        char **argv, const char **operands_out, size_t operands_max,
                                        size_t *operands_count, struct errmsg *err);

/* What a main function does with every verdict but CONFIG_RUN: print what was asked for, or the
 * error as one line on standard error. Returns the exit code, 0 or 2. */
int config_answer(const struct config_table *table, enum config_verdict verdict,
                  const struct errmsg *err);

/* Text of --help, of man page options (scdoc), and of a commented sample file, on standard output.
 */
void config_print_help(const struct config_table *table);
void config_print_man(const struct config_table *table);
void config_print_sample(const struct config_table *table);

#endif
