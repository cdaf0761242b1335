/* Spelling and reading of policies and layouts. */
#include "common/fs/policy_text.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/rpc/messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct key_row
{
    const char *name;
    uint32_t min, max;
    bool power_of_two;
    const char *words; /* What is right. */
};

static const struct key_row key_rows[POLICY_KEYS] = {
    [POLICY_CLASS] = { "class", CLASS_DURABLE, CLASS_SCAVENGED, false, "durable or scavenged" },
    [POLICY_REPLICAS] = { "replicas", 1, REPLICAS_MAX, false, "1 to 3" },
    [POLICY_MORSEL_SIZE] = { "morsel_size", MORSEL_BYTES_MIN, MORSEL_BYTES_MAX, true,
                             "a power of two from 64K to 16M" },
    [POLICY_STRIPE_SIZE] = { "stripe_size", 1, STRIPE_MORSELS_MAX, false, "1 to 1024 morsels" },
    [POLICY_STRIPE_WIDTH] = { "stripe_width", 1, STRIPE_WIDTH_MAX, false, "1 to 64 servers" },
    [POLICY_SCRATCH] = { "scratch", POLICY_NO, POLICY_YES, false, "yes or no" },
};

static_assert(REPLICAS_MAX == 3 && STRIPE_MORSELS_MAX == 1024 && STRIPE_WIDTH_MAX == 64 &&
                  MORSEL_BYTES_MIN == 64 << 10 && MORSEL_BYTES_MAX == 16 << 20,
              "the words above name these limits");

static const char *const class_names[] = { "inherit", "durable", "scavenged" };
static const char *const answer_names[] = { "inherit", "no", "yes" };
static const char *const source_names[] = { "directory", "cluster", "auto" };

static_assert(ARRAY_COUNT(source_names) == POLICY_AUTO + 1, "each has a name");

const char *policy_key_name(enum policy_key key)
{
    CHECK(key < POLICY_KEYS);
    return key_rows[key].name;
}

bool policy_key_find(const char *name, enum policy_key *key_out)
{
    size_t prefix = strlen(POLICY_XATTR_PREFIX);

    if (strncmp(name, POLICY_XATTR_PREFIX, prefix) == 0) {
        name += prefix;
    }
    for (unsigned key = 0; key < POLICY_KEYS; key++) {
        if (strcmp(key_rows[key].name, name) == 0) {
            *key_out = (enum policy_key)key;
            return true;
        }
    }
    return false;
}

/* The names of the values of a key whose values are words; NULL: they are numbers. All have three. */
static const char *const *words_of(enum policy_key key)
{
    static_assert(ARRAY_COUNT(class_names) == 3 && ARRAY_COUNT(answer_names) == 3, "all have");
    return key == POLICY_CLASS ? class_names : key == POLICY_SCRATCH ? answer_names : NULL;
}

static bool parse_word(const char *const names[3], const char *text, size_t count,
                       uint32_t *value_out)
{
    for (uint32_t i = 0; i < 3; i++) {
        if (strlen(names[i]) == count && memcmp(names[i], text, count) == 0) {
            *value_out = i;
            return true;
        }
    }
    return false;
}

/* Digits, and K or M behind them. */
static bool parse_size(const char *text, size_t count, uint32_t *value_out)
{
    uint64_t value = 0;
    size_t i = 0;

    for (; i < count && text[i] >= '0' && text[i] <= '9'; i++) {
        value = value * 10 + (uint64_t)(text[i] - '0');
        if (value > UINT32_MAX) {
            return false;
        }
    }
    if (i == 0 || count - i > 1) {
        return false;
    }
    if (i < count && (text[i] == 'K' || text[i] == 'k')) {
        value <<= 10;
    } else if (i < count && text[i] == 'M') {
        value <<= 20;
    } else if (i < count) {
        return false;
    }
    *value_out = (uint32_t)value;
    return value <= UINT32_MAX;
}

int policy_value_parse(enum policy_key key, const char *text, size_t count, uint32_t *value_out,
                       struct errmsg *err)
{
    const struct key_row *row = &key_rows[key];
    const char *const *names = words_of(key);
    uint32_t value = 0;
    bool read =
        names != NULL ? parse_word(names, text, count, &value) : parse_size(text, count, &value);
    bool fits = value >= row->min && value <= row->max &&
                (!row->power_of_two || (value & (value - 1)) == 0);

    CHECK(key < POLICY_KEYS);
    if (!read || (value != 0 && !fits)) {
        errmsg_set(err, "%s \"%.*s\" is not valid; give %s", row->name,
                   (int)(count < 64 ? count : 64), text, row->words);
        return MORSEL_INVAL;
    }
    *value_out = value;
    return 0;
}

void policy_value_format(enum policy_key key, uint32_t value, char text[POLICY_VALUE_TEXT_MAX])
{
    const char *const *names = words_of(key);

    if (names != NULL) {
        (void)snprintf(text, POLICY_VALUE_TEXT_MAX, "%s", value < 3 ? names[value] : "unknown");
    } else {
        (void)snprintf(text, POLICY_VALUE_TEXT_MAX, "%u", value);
    }
}

const char *policy_source_name(enum policy_source source)
{
    CHECK(source < ARRAY_COUNT(source_names));
    return source_names[source];
}

void policy_format(const struct policy_values *policy, char text[POLICY_TEXT_MAX])
{
    size_t used = 0;

    for (unsigned key = 0; key < POLICY_KEYS; key++) {
        char value[POLICY_VALUE_TEXT_MAX];

        if (key == POLICY_SCRATCH && policy->values[key] == POLICY_UNSAID) {
            continue;
        }
        policy_value_format((enum policy_key)key, policy->values[key], value);
        used += (size_t)snprintf(text + used, POLICY_TEXT_MAX - used, "%s%s=%s",
                                 key == 0 ? "" : " ", key_rows[key].name, value);
        CHECK(used < POLICY_TEXT_MAX);
    }
    if (policy->copies_from != POLICY_OF_DIRECTORY) {
        used += (size_t)snprintf(text + used, POLICY_TEXT_MAX - used, " copies_from=%s",
                                 policy_source_name(policy->copies_from));
        CHECK(used < POLICY_TEXT_MAX);
    }
}

/* The next "name=value" of the text: where they lie. False: no more, or something else. */
struct pair
{
    const char *name, *value;
    size_t name_count, value_count;
};

static bool next_pair(const char **at, struct pair *pair)
{
    const char *equals;

    *at += strspn(*at, " ");
    equals = strchr(*at, '=');
    if (equals == NULL) {
        return false;
    }
    pair->name = *at;
    pair->name_count = (size_t)(equals - *at);
    pair->value = equals + 1;
    pair->value_count = strcspn(pair->value, " ");
    *at = pair->value + pair->value_count;
    return true;
}

static bool pair_is(const struct pair *pair, const char *name)
{
    return strlen(name) == pair->name_count && memcmp(pair->name, name, pair->name_count) == 0;
}

/* A word that is not known is one of a newer manager's. */
static void take_source(const struct pair *pair, struct policy_values *policy)
{
    for (unsigned i = 0; i < ARRAY_COUNT(source_names); i++) {
        if (strlen(source_names[i]) == pair->value_count &&
            memcmp(source_names[i], pair->value, pair->value_count) == 0) {
            policy->copies_from = (enum policy_source)i;
        }
    }
}

/* Take the pair into the values if it is one of the policy's keys. */
static bool take_policy_pair(const struct pair *pair, struct policy_values *policy)
{
    for (unsigned key = 0; key < POLICY_KEYS; key++) {
        if (pair_is(pair, key_rows[key].name)) {
            return policy_value_parse((enum policy_key)key, pair->value, pair->value_count,
                                      &policy->values[key], NULL) == 0;
        }
    }
    if (pair_is(pair, "copies_from")) {
        take_source(pair, policy);
    }
    return true; /* A newer mount may say more. */
}

int policy_parse(const char *text, struct policy_values *policy_out)
{
    struct pair pair;

    memset(policy_out, 0, sizeof(*policy_out));
    while (next_pair(&text, &pair)) {
        if (!take_policy_pair(&pair, policy_out)) {
            return MORSEL_MALFORMED;
        }
    }
    return *text == '\0' ? 0 : MORSEL_MALFORMED;
}

/* "7:1/2/3" */
static size_t format_group(const struct layout_text_group *group, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, "%u:", group->number);

    for (uint32_t i = 0; i < group->count && used < capacity; i++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%u", i == 0 ? "" : "/",
                                 group->servers[i]);
    }
    return used;
}

void layout_format(const struct layout_text *layout, char text[LAYOUT_TEXT_MAX])
{
    size_t used;

    CHECK(layout->width <= STRIPE_WIDTH_MAX);
    used = (size_t)snprintf(
        text, LAYOUT_TEXT_MAX, "class=%s replicas=%u morsel_size=%u stripe_size=%u ",
        layout->layout_class < ARRAY_COUNT(class_names) ? class_names[layout->layout_class]
                                                        : "unknown",
        layout->replicas, layout->morsel_bytes, layout->stripe_morsels);
    if (layout->layout_class == CLASS_SCAVENGED) {
        (void)snprintf(text + used, LAYOUT_TEXT_MAX - used, "stripe_width=%u set=%" PRIu64,
                       layout->width, layout->set);
        return;
    }
    for (uint32_t i = 0; i < layout->width; i++) {
        used += (size_t)snprintf(text + used, LAYOUT_TEXT_MAX - used, "%s%u",
                                 i == 0 ? "servers=" : ",", layout->servers[i]);
        CHECK(used < LAYOUT_TEXT_MAX);
    }
    for (uint32_t i = 0; i < layout->width && layout->groups[0].count > 0; i++) {
        used +=
            (size_t)snprintf(text + used, LAYOUT_TEXT_MAX - used, "%s", i == 0 ? " groups=" : ",");
        CHECK(used < LAYOUT_TEXT_MAX);
        used += format_group(&layout->groups[i], text + used, LAYOUT_TEXT_MAX - used);
        CHECK(used < LAYOUT_TEXT_MAX);
    }
}

/* The next of a list with such separators; false: there is none. */
static bool next_item(const char **text, const char *end, char separator, struct pair *item)
{
    const char *stop;

    if (*text >= end) {
        return false;
    }
    stop = memchr(*text, separator, (size_t)(end - *text));
    item->value = *text;
    item->value_count = (size_t)((stop == NULL ? end : stop) - *text);
    *text += item->value_count + (stop == NULL ? 0 : 1);
    return true;
}

/* "1,2,3,4" */
static bool parse_servers(const char *text, size_t count, struct layout_text *layout)
{
    const char *end = text + count;
    struct pair item;

    while (next_item(&text, end, ',', &item)) {
        if (layout->width == STRIPE_WIDTH_MAX ||
            !parse_size(item.value, item.value_count, &layout->servers[layout->width])) {
            return false;
        }
        layout->width++;
    }
    return layout->width > 0;
}

static bool parse_group(const char *text, size_t count, struct layout_text_group *group)
{
    const char *end = text + count, *colon = memchr(text, ':', count);
    struct pair item;

    if (colon == NULL || !parse_size(text, (size_t)(colon - text), &group->number)) {
        return false;
    }
    text = colon + 1;
    while (next_item(&text, end, '/', &item)) {
        if (group->count == REPLICAS_MAX ||
            !parse_size(item.value, item.value_count, &group->servers[group->count])) {
            return false;
        }
        group->count++;
    }
    return group->count > 0;
}

/* As many as there are columns: "7:1/2,9:2/3". */
static bool parse_groups(const char *text, size_t count, struct layout_text *layout)
{
    const char *end = text + count;
    struct pair item;
    uint32_t groups = 0;

    while (next_item(&text, end, ',', &item)) {
        if (groups == layout->width || layout->groups[groups].count > 0 ||
            !parse_group(item.value, item.value_count, &layout->groups[groups])) {
            return false;
        }
        groups++;
    }
    return groups > 0 && groups == layout->width;
}

static bool parse_set(const char *text, size_t count, uint64_t *set)
{
    *set = 0;
    for (size_t i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9' || *set > (UINT64_MAX - 9) / 10) {
            return false;
        }
        *set = *set * 10 + (uint64_t)(text[i] - '0');
    }
    return *set != 0;
}

static bool take_layout_pair(const struct pair *pair, struct layout_text *layout,
                             struct policy_values *policy)
{
    if (pair_is(pair, "servers")) {
        return parse_servers(pair->value, pair->value_count, layout);
    }
    if (pair_is(pair, "groups")) {
        return parse_groups(pair->value, pair->value_count, layout);
    }
    if (pair_is(pair, "set")) {
        return parse_set(pair->value, pair->value_count, &layout->set);
    }
    return take_policy_pair(pair, policy);
}

int layout_parse(const char *text, struct layout_text *layout_out)
{
    struct policy_values policy = { .copies_from = POLICY_OF_DIRECTORY };
    struct pair pair;

    memset(layout_out, 0, sizeof(*layout_out));
    while (next_pair(&text, &pair)) {
        if (!take_layout_pair(&pair, layout_out, &policy)) {
            return MORSEL_MALFORMED;
        }
    }
    layout_out->layout_class = policy.values[POLICY_CLASS];
    layout_out->replicas = policy.values[POLICY_REPLICAS];
    layout_out->morsel_bytes = policy.values[POLICY_MORSEL_SIZE];
    layout_out->stripe_morsels = policy.values[POLICY_STRIPE_SIZE];
    if (layout_out->layout_class == CLASS_SCAVENGED) {
        layout_out->width = layout_out->set != 0 ? policy.values[POLICY_STRIPE_WIDTH] : 0;
    }
    if (*text != '\0' || layout_out->width == 0 || layout_out->morsel_bytes == 0 ||
        layout_out->stripe_morsels == 0 ||
        (layout_out->groups[0].count > 0 && layout_out->groups[layout_out->width - 1].count == 0)) {
        return MORSEL_MALFORMED;
    }
    return 0;
}
