/* Sources of settings: the file (inih), the command line; and what --help and the man page print. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/config.h"

#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The file ---- */

enum { OPTIONS_MAX = 128 }; /* Of one table, for noticing keys given twice. */

struct config_reading
{
    const struct config_table *table;
    void *settings;
    FILE *file;
    unsigned line;                 /* Of what was handed to inih last. */
    char section[64];              /* The one that is ours. */
    unsigned seen_at[OPTIONS_MAX]; /* Line of each option; 0: not seen. */
    int status;                    /* The first error. */
    unsigned error_line;           /* 0: concerns the whole file. */
    struct errmsg *err;
};

/* Programs whose sections may stand in one file. */
static bool is_program(const char *section)
{
    static const char *const programs[] = { "morsel", "morsel-meta", "morsel-iod", "morsel-mount" };

    for (size_t i = 0; i < ARRAY_COUNT(programs); i++) {
        if (strcmp(programs[i], section) == 0) {
            return true;
        }
    }
    return false;
}

static void reading_failed(struct config_reading *r, int status)
{
    r->status = status;
    r->error_line = r->line;
}

/* inih joins an indented line to the value above it and cuts long lines silently; neither is what a
 * reader of the file expects, so lines are taken and looked at here. */
static char *take_line(char *line, int line_max, void *data)
{
    struct config_reading *r = data;
    char *text = NULL;
    size_t text_max = 0;
    char *start;
    ssize_t count;

    if (r->status != 0 || (count = getline(&text, &text_max, r->file)) < 0) {
        free(text);
        return NULL;
    }
    r->line++;
    start = text + strspn(text, " \t");
    if (strlen(text) != (size_t)count) {
        errmsg_set(r->err, "not a text file");
        reading_failed(r, MORSEL_INVAL);
    } else if (strlen(start) >= (size_t)line_max) {
        errmsg_set(r->err, "line is longer than %d characters; give the value as an option instead",
                   line_max - 1);
        reading_failed(r, MORSEL_INVAL);
    }
    (void)snprintf(line, (size_t)line_max, "%s", r->status == 0 ? start : "");
    free(text);
    return r->status == 0 ? line : NULL;
}

/* "morsel status" is a command of "morsel" and reads its section. */
static void section_name(const struct config_table *table, char section[64])
{
    (void)snprintf(section, 64, "%.*s", (int)strcspn(table->program, " "), table->program);
}

static void check_section(struct config_reading *r, const char *section)
{
    const char *program = r->section;

    if (section[0] == '\0') {
        errmsg_set(r->err, "key stands before any section; put [%s] above it", program);
    } else {
        errmsg_set(r->err, "unknown section [%s]; settings of this program stand under [%s]",
                   section, program);
    }
    reading_failed(r, MORSEL_INVAL);
}

/* inih calls this with each key; 1 goes on, and errors are kept in the reading. */
static int take_key(void *data, const char *section, const char *name, const char *value)
{
    struct config_reading *r = data;
    const struct config_option *option;
    int status;

    if (r->status != 0) {
        return 1;
    }
    if (strcmp(section, r->section) != 0) {
        if (!is_program(section)) {
            check_section(r, section);
        }
        return 1;
    }
    option = config_find(r->table, name);
    if (option != NULL) {
        unsigned *seen_at = &r->seen_at[option - r->table->options];

        if (*seen_at != 0) {
            errmsg_set(r->err, "\"%s\" is given twice; line %u has it already", name, *seen_at);
            reading_failed(r, MORSEL_INVAL);
            return 1;
        }
        *seen_at = r->line;
    }
    status = config_set(r->table, r->settings, name, value, r->err);
    if (status != 0) {
        reading_failed(r, status);
    }
    return 1;
}

int config_read_file(const struct config_table *table, void *settings, const char *path,
                     struct errmsg *err)
{
    struct config_reading r = { .table = table, .settings = settings, .err = err };
    int bad_line;

    CHECK(table->options_count <= OPTIONS_MAX);
    section_name(table, r.section);
    r.file = fopen(path, "re");
    if (r.file == NULL) {
        int status = status_from_errno(errno);

        errmsg_set(err, "%s: cannot read the configuration file: %s", path, strerror(errno));
        return status;
    }
    bad_line = ini_parse_stream(take_line, &r, take_key, &r);
    if (r.status == 0 && ferror(r.file)) {
        errmsg_set(err, "cannot read the configuration file: %s", strerror(errno));
        r.status = status_from_errno(errno);
    } else if (r.status == 0 && bad_line != 0) {
        errmsg_set(err, "neither \"key = value\" nor \"[section]\"");
        r.status = MORSEL_INVAL;
        r.error_line = (unsigned)bad_line;
    }
    (void)fclose(r.file);
    if (r.status != 0 && r.error_line != 0) {
        errmsg_wrap(err, "%s:%u", path, r.error_line);
    } else if (r.status != 0) {
        errmsg_wrap(err, "%s", path);
    }
    return r.status;
}

/* ---- The command line ---- */

/* One walk over argv. The first looks for --config, --help and the like and checks nothing else;
 * the second sets the options, over what the file said. */
struct config_walk
{
    const struct config_table *table;
    void *settings; /* NULL in the first walk. */
    int argc;
    char **argv;
    int at;
    const char *config_path; /* NULL: no --config. */
    const char **operands;
    size_t operands_max, operands_count;
    struct errmsg *err;
};

static void unknown_option(struct config_walk *w, const char *name)
{
    const char *close = config_suggest(w->table, name);

    if (close != NULL && close[1] != '\0') {
        errmsg_set(w->err,
                   "unknown option \"--%s\"; did you mean \"--%s\"? (\"%s --help\" lists all)",
                   name, close, w->table->program);
    } else {
        errmsg_set(w->err, "unknown option \"--%s\" (\"%s --help\" lists all)", name,
                   w->table->program);
    }
}

/* The option's value: what stood behind "=", or the next word. NULL: there is none. */
static const char *take_value(struct config_walk *w, const char *name, const char *attached,
                              const char *value_name)
{
    if (attached != NULL) {
        return attached;
    }
    if (w->at + 1 < w->argc) {
        return w->argv[++w->at];
    }
    errmsg_set(w->err, "option \"%s%s\" needs a value (%s)", name[1] == '\0' ? "-" : "--", name,
               value_name);
    return NULL;
}

static enum config_verdict set_found(struct config_walk *w, const struct config_option *option,
                                     const char *attached)
{
    const char *value;

    if (option->type == CONFIG_BOOL) {
        value = attached == NULL ? "yes" : attached;
    } else {
        value = take_value(w, option->name, attached, option->value_name);
    }
    if (value == NULL) {
        return CONFIG_BAD;
    }
    if (w->settings == NULL) {
        return CONFIG_RUN;
    }
    return config_set(w->table, w->settings, option->name, value, w->err) == 0 ? CONFIG_RUN
                                                                               : CONFIG_BAD;
}

/* --help and its like, which every program has. CONFIG_RUN: it was something else. */
static enum config_verdict take_common(const char *name)
{
    static const struct
    {
        const char *name;
        enum config_verdict verdict;
    } common[] = {
        { "help", CONFIG_HELP },
        { "version", CONFIG_VERSION },
        { "print-man", CONFIG_MAN },
        { "print-sample", CONFIG_SAMPLE },
    };

    for (size_t i = 0; i < ARRAY_COUNT(common); i++) {
        if (strcmp(common[i].name, name) == 0) {
            return common[i].verdict;
        }
    }
    return CONFIG_RUN;
}

static enum config_verdict take_long(struct config_walk *w, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t count = equals == NULL ? strlen(word) : (size_t)(equals - word);
    const char *attached = equals == NULL ? NULL : equals + 1;
    const struct config_option *option;
    enum config_verdict verdict;
    char name[128];

    (void)snprintf(name, sizeof(name), "%.*s", (int)count, word);
    verdict = attached == NULL ? take_common(name) : CONFIG_RUN;
    if (verdict != CONFIG_RUN) {
        return verdict;
    }
    if (strcmp(name, "config") == 0) {
        w->config_path = take_value(w, name, attached, "FILE");
        return w->config_path == NULL ? CONFIG_BAD : CONFIG_RUN;
    }
    option = config_find(w->table, name);
    if (option != NULL) {
        return set_found(w, option, attached);
    }
    option = strncmp(name, "no-", 3) == 0 ? config_find(w->table, name + 3) : NULL;
    if (option != NULL && option->type == CONFIG_BOOL && attached == NULL) {
        return set_found(w, option, "no");
    }
    unknown_option(w, name);
    return CONFIG_BAD;
}

static enum config_verdict take_short(struct config_walk *w, const char *word)
{
    const char name[2] = { word[0], '\0' };
    const char *attached = word[1] == '\0' ? NULL : word + 1;
    const struct config_option *option = config_find(w->table, name);

    if (strcmp(word, "h") == 0) {
        return CONFIG_HELP;
    }
    if (option == NULL || (option->type == CONFIG_BOOL && attached != NULL)) {
        errmsg_set(w->err, "unknown option \"-%s\" (\"%s --help\" lists all)", word,
                   w->table->program);
        return CONFIG_BAD;
    }
    return set_found(w, option, attached);
}

static enum config_verdict take_operand(struct config_walk *w, const char *word)
{
    if (w->operands_count == w->operands_max) {
        errmsg_set(w->err, "unexpected argument \"%s\" (\"%s --help\" shows the usage)", word,
                   w->table->program);
        return CONFIG_BAD;
    }
    w->operands[w->operands_count++] = word;
    return CONFIG_RUN;
}

static enum config_verdict walk(struct config_walk *w)
{
    bool options_ended = false;

    w->operands_count = 0;
    for (w->at = 1; w->at < w->argc; w->at++) {
        const char *word = w->argv[w->at];
        enum config_verdict verdict;

        if (!options_ended && strcmp(word, "--") == 0) {
            options_ended = true;
            continue;
        }
        if (options_ended || word[0] != '-' || word[1] == '\0') {
            verdict = take_operand(w, word);
        } else if (word[1] == '-') {
            verdict = take_long(w, word + 2);
        } else {
            verdict = take_short(w, word + 1);
        }
        if (verdict != CONFIG_RUN) {
            return verdict;
        }
    }
    return CONFIG_RUN;
}

enum config_verdict config_command_line(const struct config_table *table, void *settings, int argc,
                                        char **argv, const char **operands_out, size_t operands_max,
                                        size_t *operands_count, struct errmsg *err)
{
    struct config_walk w = { .table = table,
                             .argc = argc,
                             .argv = argv,
                             .operands = operands_out,
                             .operands_max = operands_max,
                             .err = err };
    enum config_verdict verdict = walk(&w);

    *operands_count = 0;
    config_defaults(table, settings);
    if (verdict != CONFIG_RUN) {
        return verdict;
    }
    if (w.config_path != NULL && config_read_file(table, settings, w.config_path, err) != 0) {
        return CONFIG_BAD;
    }
    w.settings = settings;
    verdict = walk(&w);
    *operands_count = w.operands_count;
    return verdict;
}

/* ---- Printing ---- */

/* "--data-dir=DIR", "--[no-]sync", "-o OPTIONS". */
static void option_usage(const struct config_option *option, char *text, size_t text_max)
{
    bool letter = option->name[1] == '\0';

    if (option->type == CONFIG_BOOL) {
        (void)snprintf(text, text_max, letter ? "-%s" : "--[no-]%s", option->name);
    } else {
        (void)snprintf(text, text_max, letter ? "-%s %s" : "--%s=%s", option->name,
                       option->value_name);
    }
}

static void print_usage_line(const struct config_table *table)
{
    const char *space = table->operands[0] == '\0' ? "" : " ";

    (void)printf("Usage: %s [OPTION...]%s%s\n%s\n\n", table->program, space, table->operands,
                 table->summary);
}

void config_print_help(const struct config_table *table)
{
    print_usage_line(table);
    for (size_t i = 0; i < table->options_count; i++) {
        const struct config_option *option = &table->options[i];
        char usage[128];

        option_usage(option, usage, sizeof(usage));
        (void)printf("  %-28s %s%s", usage,
                     strlen(usage) > 28 ? "\n                               " : "", option->help);
        if (option->default_value[0] != '\0') {
            (void)printf(" Default: %s.", option->default_value);
        }
        (void)printf("\n");
    }
    (void)printf("  %-28s %s\n", "--config=FILE",
                 "Read settings from FILE first; the command line wins.");
    (void)printf("  %-28s %s\n", "--print-sample", "Print a commented configuration file.");
    (void)printf("  %-28s %s\n", "-h, --help", "Print this text.");
    (void)printf("  %-28s %s\n", "--version", "Print the version.");
}

/* scdoc reads "_", "*", "\\" and "<" as markup. */
static void print_scdoc(const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("_*\\<>#[]", *text) != NULL) {
            (void)putchar('\\');
        }
        (void)putchar(*text);
    }
}

void config_print_man(const struct config_table *table)
{
    for (size_t i = 0; i < table->options_count; i++) {
        const struct config_option *option = &table->options[i];
        char usage[128];

        option_usage(option, usage, sizeof(usage));
        (void)printf("*");
        print_scdoc(usage);
        (void)printf("*\n\t");
        print_scdoc(option->help);
        if (option->default_value[0] != '\0') {
            (void)printf(" Default: ");
            print_scdoc(option->default_value);
            (void)printf(".");
        }
        (void)printf("\n\n");
    }
    (void)printf("*--config=FILE*\n\tRead settings from FILE first; the command line wins.\n\n"
                 "*--print-sample*\n\tPrint a commented configuration file.\n\n"
                 "*-h, --help*\n\tPrint the options.\n\n"
                 "*--version*\n\tPrint the version.\n");
}

void config_print_sample(const struct config_table *table)
{
    char section[64];

    section_name(table, section);
    (void)printf("# Settings of %s. A line that begins with \"#\" or \";\" is a comment.\n"
                 "# Every setting can also be given on the command line: --name=value.\n\n[%s]\n",
                 section, section);
    for (size_t i = 0; i < table->options_count; i++) {
        const struct config_option *option = &table->options[i];

        if (option->name[1] != '\0') {
            (void)printf("\n# %s\n#%s = %s\n", option->help, option->name, option->default_value);
        }
    }
}

int config_answer(const struct config_table *table, enum config_verdict verdict,
                  const struct errmsg *err)
{
    switch (verdict) {
    case CONFIG_HELP:
        config_print_help(table);
        break;
    case CONFIG_VERSION:
        (void)printf("%s %s\n", table->program, MORSELFS_VERSION);
        break;
    case CONFIG_MAN:
        config_print_man(table);
        break;
    case CONFIG_SAMPLE:
        config_print_sample(table);
        break;
    case CONFIG_RUN:
        break;
    case CONFIG_BAD:
        (void)fprintf(stderr, "%s: %s\n", table->program, err->text);
        return 2;
    }
    return 0;
}
