/* Parses and prints single values; knows no file and no command line. */
#include "common/daemon/config.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <stdio.h>
#include <string.h>

static void *field(const struct config_option *option, void *settings)
{
    return (char *)settings + option->offset;
}

const struct config_option *config_find(const struct config_table *table, const char *name)
{
    for (size_t i = 0; i < table->options_count; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    return NULL;
}

void config_section(const struct config_table *table, char section[CONFIG_SECTION_MAX])
{
    (void)snprintf(section, CONFIG_SECTION_MAX, "%.*s", (int)strcspn(table->program, " "),
                   table->program);
}

/* Levenshtein distance, for names of options; `b` is shorter than the row. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LENGTH_MAX = 64 };
    size_t row[LENGTH_MAX + 1];
    size_t b_count = strlen(b);

    if (b_count > LENGTH_MAX || strlen(a) > LENGTH_MAX) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= b_count; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_count; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[b_count];
}

const char *config_suggest(const struct config_table *table, const char *name)
{
    size_t best = strlen(name) / 3 + 1; /* A third of the letters may be wrong. */
    const char *found = NULL;

    for (size_t i = 0; i < table->options_count; i++) {
        size_t distance = edit_distance(name, table->options[i].name);

        if (distance <= best && distance < strlen(table->options[i].name)) {
            found = table->options[i].name;
            best = distance == 0 ? 0 : distance - 1;
        }
    }
    return found;
}

/* Decimal digits at the start of `text`; what follows them is left in `rest_out`. */
static bool parse_digits(const char *text, uint64_t *value_out, const char **rest_out)
{
    uint64_t value = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value)) {
            return false;
        }
    }
    *value_out = value;
    *rest_out = at;
    return at != text;
}

struct unit
{
    const char *suffix;
    uint64_t factor;
};

static const struct unit byte_units[] = {
    { "", 1 },
    { "K", UINT64_C(1) << 10 },
    { "M", UINT64_C(1) << 20 },
    { "G", UINT64_C(1) << 30 },
    { "T", UINT64_C(1) << 40 },
    { "k", UINT64_C(1) << 10 },
    { "KiB", UINT64_C(1) << 10 },
    { "MiB", UINT64_C(1) << 20 },
    { "GiB", UINT64_C(1) << 30 },
    { "TiB", UINT64_C(1) << 40 },
};

static const struct unit time_units[] = {
    { "", 1000 }, { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
};

static const struct unit plain_units[] = { { "", 1 } };

static bool parse_with_unit(const char *text, const struct unit *units, size_t units_count,
                            uint64_t *value_out)
{
    const char *rest;
    uint64_t value;

    if (!parse_digits(text, &value, &rest)) {
        return false;
    }
    for (size_t i = 0; i < units_count; i++) {
        if (strcmp(rest, units[i].suffix) == 0) {
            return !__builtin_mul_overflow(value, units[i].factor, value_out);
        }
    }
    return false;
}

bool config_bytes_parse(const char *text, uint64_t *bytes)
{
    return parse_with_unit(text, byte_units, ARRAY_COUNT(byte_units), bytes);
}

static bool parse_number(enum config_type type, const char *text, uint64_t *value_out)
{
    switch (type) {
    case CONFIG_BYTES:
        return config_bytes_parse(text, value_out);
    case CONFIG_TIME_MS:
        return parse_with_unit(text, time_units, ARRAY_COUNT(time_units), value_out);
    default:
        return parse_with_unit(text, plain_units, ARRAY_COUNT(plain_units), value_out);
    }
}

static bool parse_bool(const char *text, bool *value_out)
{
    static const char *const yes[] = { "yes", "true", "on", "1" };
    static const char *const no[] = { "no", "false", "off", "0" };

    for (size_t i = 0; i < ARRAY_COUNT(yes); i++) {
        if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
            *value_out = strcmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

/* A number as a person would write it, for messages: the largest unit that divides it. */
static void format_number(enum config_type type, uint64_t value, char text[32])
{
    static const struct unit bytes_down[] = {
        { "T", UINT64_C(1) << 40 },
        { "G", UINT64_C(1) << 30 },
        { "M", UINT64_C(1) << 20 },
        { "K", UINT64_C(1) << 10 },
        { "", 1 },
    };
    static const struct unit times_down[] = {
        { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 }
    };
    static const struct unit plain[] = { { "", 1 } };
    const struct unit *unit = type == CONFIG_BYTES     ? bytes_down
                              : type == CONFIG_TIME_MS ? times_down
                                                       : plain;

    while (unit->factor > 1 && (value == 0 || value % unit->factor != 0)) {
        unit++;
    }
    (void)snprintf(text, 32, "%llu%s", (unsigned long long)(value / unit->factor), unit->suffix);
}

/* What a value of this type looks like. */
static const char *type_words(enum config_type type)
{
    switch (type) {
    case CONFIG_STRING:
        return "text";
    case CONFIG_NUMBER:
        return "a whole number";
    case CONFIG_BYTES:
        return "a size such as 64K, 1M or 10G";
    case CONFIG_TIME_MS:
        return "a time such as 500ms, 30s or 5m";
    case CONFIG_BOOL:
        return "yes or no";
    }
    return "";
}

static int set_number(const struct config_option *option, uint64_t *field_out, const char *value,
                      struct errmsg *err)
{
    uint64_t max = option->max == 0 ? UINT64_MAX : option->max;
    char low[32];
    char high[32];
    uint64_t number;

    if (!parse_number(option->type, value, &number)) {
        errmsg_set(err, "value \"%s\" of \"%s\" is not %s", value, option->name,
                   type_words(option->type));
        return MORSEL_INVAL;
    }
    if (number >= option->min && number <= max) {
        *field_out = number;
        return 0;
    }
    format_number(option->type, option->min, low);
    format_number(option->type, max, high);
    if (max == UINT64_MAX) {
        errmsg_set(err, "value \"%s\" of \"%s\" is too small; give at least %s", value,
                   option->name, low);
    } else {
        errmsg_set(err, "value \"%s\" of \"%s\" is out of range; give %s to %s", value,
                   option->name, low, high);
    }
    return MORSEL_INVAL;
}

static int set_string(const struct config_option *option, char *field_out, const char *value,
                      struct errmsg *err)
{
    size_t count = strlen(value);

    if (count >= CONFIG_STRING_MAX) {
        errmsg_set(err, "value of \"%s\" is %zu bytes long; %d are the most", option->name, count,
                   CONFIG_STRING_MAX - 1);
        return MORSEL_INVAL;
    }
    memcpy(field_out, value, count + 1);
    return 0;
}

static int set_option(const struct config_option *option, void *settings, const char *value,
                      struct errmsg *err)
{
    switch (option->type) {
    case CONFIG_STRING:
        return set_string(option, field(option, settings), value, err);
    case CONFIG_NUMBER:
    case CONFIG_BYTES:
    case CONFIG_TIME_MS:
        return set_number(option, field(option, settings), value, err);
    case CONFIG_BOOL:
        if (parse_bool(value, field(option, settings))) {
            return 0;
        }
        errmsg_set(err, "value \"%s\" of \"%s\" is not %s", value, option->name,
                   type_words(option->type));
        return MORSEL_INVAL;
    }
    return MORSEL_INVAL;
}

int config_set(const struct config_table *table, void *settings, const char *name,
               const char *value, struct errmsg *err)
{
    const struct config_option *option = config_find(table, name);
    const char *close;

    if (option != NULL) {
        return set_option(option, settings, value, err);
    }
    close = config_suggest(table, name);
    if (close != NULL) {
        errmsg_set(err, "unknown key \"%s\"; did you mean \"%s\"? (\"%s --help\" lists all)", name,
                   close, table->program);
    } else {
        errmsg_set(err, "unknown key \"%s\" (\"%s --help\" lists all)", name, table->program);
    }
    return MORSEL_INVAL;
}

void config_defaults(const struct config_table *table, void *settings)
{
    for (size_t i = 0; i < table->options_count; i++) {
        const struct config_option *option = &table->options[i];

        CHECK(option->default_value != NULL);
        CHECK(set_option(option, settings, option->default_value, NULL) == 0);
    }
}
