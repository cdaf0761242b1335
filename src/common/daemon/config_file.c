/* Sources of settings: the file (inih) and the command line (getopt_long()). */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/config.h"

#include <getopt.h>
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
    unsigned line;                    /* Of what was handed to inih last. */
    char section[CONFIG_SECTION_MAX]; /* The one that is ours. */
    unsigned seen_at[OPTIONS_MAX];    /* Line of each option; 0: not seen. */
    int status;                       /* The first error. */
    unsigned error_line;              /* 0: concerns the whole file. */
    struct errmsg *err;
};

/* Programs whose sections may stand in one file. */
static bool is_program(const char *section)
{
    static const char *const programs[] = { "morsel", "morsel-meta", "morsel-iod",
                                            "morsel-benefactor", "morsel-mount" };

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
    config_section(table, r.section);
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

/* What getopt_long() answers: the letter of an option, or one of these, with the place of the option
 * in the table added. */
enum {
    WORD_OPTION = 256,
    WORD_NO_OPTION = WORD_OPTION + OPTIONS_MAX,
    WORD_COMMON = WORD_NO_OPTION + OPTIONS_MAX, /* And a verdict. */
    WORD_CONFIG = WORD_COMMON + OPTIONS_MAX
};

/* The table as getopt_long() wants it. */
struct config_words
{
    struct option words[2 * OPTIONS_MAX + 8];
    size_t words_count;
    char letters[3 * OPTIONS_MAX]; /* "-": operands come as 1, in their place. ":": no messages. */
    char no_names[OPTIONS_MAX][64];
};

/* One walk over argv. The first looks for --config, --help and the like and checks nothing else;
 * the second sets the options, over what the file said. */
struct config_walk
{
    const struct config_table *table;
    const struct config_words *words;
    void *settings; /* NULL in the first walk. */
    int argc;
    char **argv;
    const char *config_path; /* NULL: no --config. */
    const char **operands;
    size_t operands_max, operands_count;
    struct errmsg *err;
};

static void add_word(struct config_words *w, const char *name, int argument, int value)
{
    w->words[w->words_count++] = (struct option){ name, argument, NULL, value };
}

static void list_words(const struct config_table *table, struct config_words *w)
{
    char *letter = stpcpy(w->letters, "-:h");

    CHECK(table->options_count <= OPTIONS_MAX);
    for (size_t i = 0; i < table->options_count; i++) {
        const struct config_option *option = &table->options[i];
        bool is_bool = option->type == CONFIG_BOOL;

        if (option->name[1] == '\0') {
            *letter++ = option->name[0];
            *letter++ = ':';
            letter -= is_bool;
        } else if (is_bool) {
            (void)snprintf(w->no_names[i], sizeof(w->no_names[i]), "no-%s", option->name);
            add_word(w, option->name, optional_argument, WORD_OPTION + (int)i);
            add_word(w, w->no_names[i], no_argument, WORD_NO_OPTION + (int)i);
        } else {
            add_word(w, option->name, required_argument, WORD_OPTION + (int)i);
        }
    }
    *letter = '\0';
    add_word(w, "help", no_argument, WORD_COMMON + CONFIG_HELP);
    add_word(w, "version", no_argument, WORD_COMMON + CONFIG_VERSION);
    add_word(w, "print-man", no_argument, WORD_COMMON + CONFIG_MAN);
    add_word(w, "print-sample", no_argument, WORD_COMMON + CONFIG_SAMPLE);
    add_word(w, "config", required_argument, WORD_CONFIG);
    add_word(w, NULL, 0, 0);
}

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

/* `word` stood where getopt_long() found something that is no option (`code` '?'), or an option
 * without its value (':'); in a word of letters `letter` says which. */
static enum config_verdict refuse(struct config_walk *w, const char *word, int code, int letter)
{
    const char text[2] = { (char)letter, '\0' };
    bool is_long = word[1] == '-';
    const char *name = is_long ? word + 2 : text;
    const struct config_option *option = config_find(w->table, name);

    if (code == ':') {
        errmsg_set(w->err, "option \"%s%s\" needs a value (%s)", is_long ? "--" : "-", name,
                   option == NULL ? "FILE" : option->value_name);
    } else if (is_long) {
        char given[128];

        (void)snprintf(given, sizeof(given), "%.*s", (int)strcspn(name, "="), name);
        unknown_option(w, given);
    } else {
        errmsg_set(w->err, "unknown option \"-%s\" (\"%s --help\" lists all)", name,
                   w->table->program);
    }
    return CONFIG_BAD;
}

/* `value` NULL: a yes or no that stands alone. */
static enum config_verdict take_option(struct config_walk *w, const struct config_option *option,
                                       const char *value)
{
    if (w->settings == NULL) {
        return CONFIG_RUN;
    }
    return config_set(w->table, w->settings, option->name, value == NULL ? "yes" : value, w->err) ==
                   0
               ? CONFIG_RUN
               : CONFIG_BAD;
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

/* getopt_long() takes the beginning of a name for the name, which would end with the next option
 * that begins alike. */
static bool is_whole(const char *word, const char *name)
{
    return strncmp(word, "--", 2) == 0 && strlen(name) == strcspn(word + 2, "=");
}

/* `code` is what getopt_long() says of argv[at], or of a letter in it. */
static enum config_verdict take_word(struct config_walk *w, int at, int code, int index)
{
    const struct config_option *options = w->table->options;
    const char *word = w->argv[at];
    char letter[2] = { (char)code, '\0' };

    if (code == 1) {
        return take_operand(w, optarg);
    }
    if (code == '?' || code == ':') {
        return refuse(w, word, code, optopt);
    }
    if (code < WORD_OPTION) {
        const struct config_option *option = config_find(w->table, letter);

        return option == NULL ? CONFIG_HELP : take_option(w, option, optarg);
    }
    if (!is_whole(word, w->words->words[index].name)) {
        return refuse(w, word, '?', 0);
    }
    if (code < WORD_NO_OPTION) {
        return take_option(w, &options[code - WORD_OPTION], optarg);
    }
    if (code < WORD_COMMON) {
        return take_option(w, &options[code - WORD_NO_OPTION], "no");
    }
    if (code < WORD_CONFIG) {
        return (enum config_verdict)(code - WORD_COMMON);
    }
    w->config_path = optarg;
    return CONFIG_RUN;
}

static enum config_verdict walk(struct config_walk *w)
{
    enum config_verdict verdict = CONFIG_RUN;

    w->operands_count = 0;
    optind = 0; /* From the beginning, also of another argv. */
    while (verdict == CONFIG_RUN) {
        int at = optind == 0 ? 1 : optind;
        int index = 0;
        int code = getopt_long(w->argc, w->argv, w->words->letters, w->words->words, &index);

        if (code == -1) {
            break;
        }
        verdict = take_word(w, at, code, index);
    }
    while (verdict == CONFIG_RUN && optind < w->argc) { /* What stands behind "--". */
        verdict = take_operand(w, w->argv[optind++]);
    }
    return verdict;
}

enum config_verdict config_command_line(const struct config_table *table, void *settings, int argc,
                                        char **argv, const char **operands_out, size_t operands_max,
                                        size_t *operands_count, struct errmsg *err)
{
    struct config_words words = { .words_count = 0 };
    struct config_walk w = { .table = table,
                             .words = &words,
                             .argc = argc,
                             .argv = argv,
                             .operands = operands_out,
                             .operands_max = operands_max,
                             .err = err };
    enum config_verdict verdict;

    list_words(table, &words);
    verdict = walk(&w);
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
