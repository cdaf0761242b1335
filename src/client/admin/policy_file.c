/* morsel setpolicy, morsel getpolicy: the attributes user.morsel.* of directories on a mount. */
#include "client/admin/admin.h"
#include "client/admin/mount_file.h"
#include "client/admin/print_file.h"
#include "common/base/status.h"
#include "common/fs/policy_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

enum { ATTRIBUTE_NAME_MAX = 64 };

static void attribute_name(enum policy_key key, char name[ATTRIBUTE_NAME_MAX])
{
    (void)snprintf(name, ATTRIBUTE_NAME_MAX, POLICY_XATTR_PREFIX "%s", policy_key_name(key));
}

/* A directory on a MorselFS: only there do these attributes mean anything. */
static int check_directory(const char *path)
{
    struct mount_info mount;
    struct errmsg err;
    struct stat st;
    int rv;

    rv = mount_find_morsel(path, &mount, &err);
    if (rv != 0) {
        return admin_failed(rv == MORSEL_INVAL ? ADMIN_USAGE : ADMIN_PROBLEM, "%s", err.text);
    }
    if (stat(path, &st) != 0) {
        return admin_failed(ADMIN_PROBLEM, "%s: %s", path, strerror(errno));
    }
    if (!S_ISDIR(st.st_mode)) {
        return admin_failed(ADMIN_USAGE,
                            "%s: is not a directory; policies belong to directories, and "
                            "\"morsel layout\" shows that of a file",
                            path);
    }
    return ADMIN_OK;
}

/* ---- setpolicy ---- */

struct setting
{
    enum policy_key key;
    uint32_t value;
};

/* "stripe_width=4"; "stripe-width" is understood too. */
static int parse_setting(const char *word, struct setting *setting)
{
    const char *equals = strchr(word, '=');
    char name[ATTRIBUTE_NAME_MAX];
    struct errmsg err;

    if (equals == NULL || (size_t)(equals - word) >= sizeof(name)) {
        return admin_failed(ADMIN_USAGE, "\"%s\" is not of the form KEY=VALUE", word);
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
    for (char *at = name; *at != '\0'; at++) {
        *at = *at == '-' ? '_' : *at;
    }
    if (!policy_key_find(name, &setting->key)) {
        return admin_failed(ADMIN_USAGE,
                            "unknown policy \"%s\"; there are class, replicas, morsel_size, "
                            "stripe_size, stripe_width and scratch",
                            name);
    }
    if (strcmp(equals + 1, "inherit") == 0) {
        setting->value = 0;
        return ADMIN_OK;
    }
    if (policy_value_parse(setting->key, equals + 1, strlen(equals + 1), &setting->value, &err) !=
        0) {
        return admin_failed(ADMIN_USAGE, "%s", err.text);
    }
    return ADMIN_OK;
}

static int apply_setting(const char *path, const struct setting *setting)
{
    char value[POLICY_VALUE_TEXT_MAX];
    char name[ATTRIBUTE_NAME_MAX];
    int rv;

    attribute_name(setting->key, name);
    policy_value_format(setting->key, setting->value, value);
    if (setting->value == 0) {
        rv = removexattr(path, name);
        rv = rv != 0 && errno == ENODATA ? 0 : rv; /* It inherits already. */
    } else {
        rv = setxattr(path, name, value, strlen(value), 0);
    }
    if (rv != 0 && errno == EOPNOTSUPP) {
        return admin_failed(ADMIN_PROBLEM, "%s: %s=%s is not supported by the cluster's version",
                            path, policy_key_name(setting->key), value);
    }
    if (rv != 0 && errno == ENOSPC && setting->key == POLICY_REPLICAS) {
        return admin_failed(ADMIN_PROBLEM,
                            "%s: %s copies need %s storage servers that are up and have taken over "
                            "their groups; \"morsel status\" shows them: start more, try again, or "
                            "use fewer replicas",
                            path, value, value);
    }
    if (rv != 0) {
        return admin_failed(ADMIN_PROBLEM, "%s: cannot set %s to %s: %s", path,
                            policy_key_name(setting->key), value, strerror(errno));
    }
    return ADMIN_OK;
}

int command_setpolicy(const struct admin_arguments *arguments)
{
    struct setting settings[ADMIN_OPERANDS_MAX] = { { POLICY_CLASS, 0 } };
    const char *path = arguments->operands[0];
    int code;

    /* All words are read before anything is changed. */
    for (size_t i = 1; i < arguments->operands_count; i++) {
        code = parse_setting(arguments->operands[i], &settings[i]);
        if (code != ADMIN_OK) {
            return code;
        }
    }
    code = check_directory(path);
    for (size_t i = 1; code == ADMIN_OK && i < arguments->operands_count; i++) {
        code = apply_setting(path, &settings[i]);
    }
    return code;
}

/* ---- pin, unpin ---- */

static int set_pinned(const struct admin_arguments *arguments, bool pinned)
{
    const char *value = pinned ? "yes" : "no";

    for (size_t i = 0; i < arguments->operands_count; i++) {
        const char *path = arguments->operands[i];
        struct mount_info mount;
        struct errmsg err;
        int rv = mount_find_morsel(path, &mount, &err);

        if (rv != 0) {
            return admin_failed(rv == MORSEL_INVAL ? ADMIN_USAGE : ADMIN_PROBLEM, "%s", err.text);
        }
        if (setxattr(path, POLICY_XATTR_PINNED, value, strlen(value), 0) == 0) {
            continue;
        }
        return errno == EINVAL
                   ? admin_failed(ADMIN_USAGE,
                                  "%s: is not a data set on benefactors (class scavenged), or "
                                  "nothing of it was stored: there is nothing to pin",
                                  path)
                   : admin_failed(ADMIN_PROBLEM, "%s: cannot set %s to %s: %s", path,
                                  POLICY_XATTR_PINNED, value, strerror(errno));
    }
    return ADMIN_OK;
}

int command_pin(const struct admin_arguments *arguments)
{
    return set_pinned(arguments, true);
}

int command_unpin(const struct admin_arguments *arguments)
{
    return set_pinned(arguments, false);
}

/* ---- getpolicy ---- */

/* What was set here (0: inherited) and what holds. */
struct policies
{
    struct policy_values own;
    struct policy_values effective;
};

static int fetch_own(const char *path, enum policy_key key, uint32_t *value_out)
{
    char text[POLICY_VALUE_TEXT_MAX];
    char name[ATTRIBUTE_NAME_MAX];
    ssize_t count;

    *value_out = 0;
    attribute_name(key, name);
    count = getxattr(path, name, text, sizeof(text));
    if (count < 0 && errno == ENODATA) {
        return ADMIN_OK;
    }
    if (count < 0) {
        return admin_failed(ADMIN_PROBLEM, "%s: cannot read %s: %s", path, name, strerror(errno));
    }
    if (policy_value_parse(key, text, (size_t)count, value_out, NULL) != 0) {
        return admin_failed(ADMIN_PROBLEM, "%s: %s holds \"%.*s\", which this version cannot read",
                            path, name, (int)count, text);
    }
    return ADMIN_OK;
}

static int fetch_policies(const char *path, struct policies *policies)
{
    char text[POLICY_TEXT_MAX];
    int code = ADMIN_OK;
    ssize_t count;

    for (unsigned key = 0; code == ADMIN_OK && key < POLICY_KEYS; key++) {
        code = fetch_own(path, (enum policy_key)key, &policies->own.values[key]);
    }
    if (code != ADMIN_OK) {
        return code;
    }
    count = getxattr(path, POLICY_XATTR_EFFECTIVE, text, sizeof(text) - 1);
    if (count < 0) {
        return admin_failed(ADMIN_PROBLEM, "%s: cannot read " POLICY_XATTR_EFFECTIVE ": %s", path,
                            strerror(errno));
    }
    text[count] = '\0';
    if (policy_parse(text, &policies->effective) != 0) {
        return admin_failed(ADMIN_PROBLEM,
                            "%s: " POLICY_XATTR_EFFECTIVE " holds \"%s\", which this "
                            "version cannot read",
                            path, text);
    }
    return ADMIN_OK;
}

static json_t *values_json(const struct policy_values *values)
{
    json_t *object = json_object();

    for (unsigned key = 0; key < POLICY_KEYS; key++) {
        char text[POLICY_VALUE_TEXT_MAX];

        policy_value_format((enum policy_key)key, values->values[key], text);
        (void)json_object_set_new(object, policy_key_name((enum policy_key)key),
                                  values->values[key] == 0 ? json_null()
                                  : key == POLICY_CLASS    ? json_string(text)
                                                           : json_integer(values->values[key]));
    }
    return object;
}

static const char *source_words(const struct policies *policies, enum policy_key key)
{
    enum policy_source from = policies->effective.copies_from;

    if (policies->own.values[key] != 0) {
        return "set here";
    }
    if (key != POLICY_REPLICAS || from == POLICY_OF_DIRECTORY) {
        return "inherited";
    }
    if (from == POLICY_OF_CLUSTER) {
        return "default of the cluster";
    }
    return policies->effective.values[key] > 1
               ? "default of the cluster (auto)"
               : "default of the cluster (auto: 2 once two I/O daemons have taken over groups)";
}

static void print_policies(const char *path, const struct policies *policies)
{
    (void)printf("%s: new files get\n", path);
    for (unsigned key = 0; key < POLICY_KEYS; key++) {
        char text[POLICY_VALUE_TEXT_MAX];

        policy_value_format((enum policy_key)key, policies->effective.values[key], text);
        (void)printf("  %-13s %-12s %s\n", policy_key_name((enum policy_key)key), text,
                     source_words(policies, (enum policy_key)key));
    }
}

int command_getpolicy(const struct admin_arguments *arguments)
{
    const char *path = arguments->operands[0];
    struct policies policies;
    int code = check_directory(path);

    if (code == ADMIN_OK) {
        code = fetch_policies(path, &policies);
    }
    if (code != ADMIN_OK) {
        return code;
    }
    if (!arguments->settings.json) {
        print_policies(path, &policies);
        return ADMIN_OK;
    }
    return print_json(json_pack("{s:s, s:o, s:o, s:s}", "directory", path, "own",
                                values_json(&policies.own), "effective",
                                values_json(&policies.effective), "replicas_from",
                                policy_source_name(policies.effective.copies_from)))
               ? ADMIN_OK
               : ADMIN_PROBLEM;
}
