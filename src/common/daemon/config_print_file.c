/* What --help, --print-man and --print-sample print of a table, and the line about a bad one. */
#include "common/daemon/config.h"

#include <stdio.h>
#include <string.h>

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
    char section[CONFIG_SECTION_MAX];

    config_section(table, section);
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
