/* Spelling of URLs of objects, and reading of what is said of keys and refusals. */
#include "client/admin/s3.h"

#include "common/base/status.h"

#include <stdio.h>
#include <string.h>

enum { GIVEN_SHOWN_MAX = 300 };

static const char scheme[] = "s3://";

bool s3_is(const char *given)
{
    return strncmp(given, scheme, sizeof(scheme) - 1) == 0;
}

/* ---- What may be (ASCII alone, whatever the locale) ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c);
}

static bool is_unreserved(char c)
{
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

static bool is_all(const char *text, size_t count, const char *also)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_lower_or_digit(text[i]) && strchr(also, text[i]) == NULL) {
            return false;
        }
    }
    return true;
}

static bool looks_like_ipv4(const char *bucket, size_t count)
{
    return strspn(bucket, "0123456789.") >= count;
}

/* NULL: it is one. */
static const char *bucket_wrong(const char *bucket, size_t count)
{
    if (count < S3_BUCKET_MIN || count > S3_BUCKET_MAX) {
        return "names no bucket: one has 3 to 63 characters";
    }
    if (!is_all(bucket, count, ".-")) {
        return "names no bucket: one has small letters, digits, dots and hyphens";
    }
    if (!is_lower_or_digit(bucket[0]) || !is_lower_or_digit(bucket[count - 1])) {
        return "names no bucket: one begins and ends with a letter or digit";
    }
    for (size_t i = 1; i < count; i++) {
        if (bucket[i] == '.' && bucket[i - 1] == '.') {
            return "names no bucket: one has no two dots together";
        }
    }
    return looks_like_ipv4(bucket, count) ? "names no bucket: one does not look like an address"
                                          : NULL;
}

/* Between slashes; on the way such parts would be taken for steps in directories. */
static bool has_dots_alone(const char *key)
{
    for (;;) {
        size_t count = strcspn(key, "/");

        if ((count == 1 && key[0] == '.') || (count == 2 && key[0] == '.' && key[1] == '.')) {
            return true;
        }
        if (key[count] == '\0') {
            return false;
        }
        key += count + 1;
    }
}

static const char *key_wrong(const char *key)
{
    if (key[0] == '\0') {
        return "names no object: it is s3://BUCKET/KEY";
    }
    if (strnlen(key, S3_KEY_MAX + 1) > S3_KEY_MAX) {
        return "has a key of more than 1024 bytes";
    }
    for (const char *c = key; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            return "has control characters in its key, which no URL carries safely";
        }
    }
    return has_dots_alone(key) ? "has \".\" or \"..\" as a part of its key, which no URL can carry"
                               : NULL;
}

static const char *endpoint_wrong(const char *endpoint)
{
    bool is_http = strncmp(endpoint, "http://", 7) == 0 || strncmp(endpoint, "https://", 8) == 0;
    const char *host = is_http ? strstr(endpoint, "://") + 3 : endpoint;

    for (const char *c = endpoint; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~' || strchr("?#@", *c) != NULL) {
            return "has characters that the URL of an endpoint has not";
        }
    }
    return !is_http                          ? "is not http://HOST or https://HOST"
           : host[0] == '/' || *host == '\0' ? "names no host"
                                             : NULL;
}

/* ---- The URL ---- */

static const char *domain_of(const char *region)
{
    return strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
}

/* All before the key. Of a certificate for *.s3.REGION... the star stands for no dot, so a bucket that has one is named in the path. */
static size_t put_place(char url[ORIGIN_URL_MAX + 1], const struct s3_access *access,
                        const char *bucket, size_t count)
{
    size_t end = strlen(access->endpoint);

    while (end > 0 && access->endpoint[end - 1] == '/') {
        end--;
    }
    if (end > 0) {
        return (size_t)snprintf(url, ORIGIN_URL_MAX + 1, "%.*s/%.*s/", (int)end, access->endpoint,
                                (int)count, bucket);
    }
    if (memchr(bucket, '.', count) != NULL) {
        return (size_t)snprintf(url, ORIGIN_URL_MAX + 1, "https://s3.%s.%s/%.*s/", access->region,
                                domain_of(access->region), (int)count, bucket);
    }
    return (size_t)snprintf(url, ORIGIN_URL_MAX + 1, "https://%.*s.s3.%s.%s/", (int)count, bucket,
                            access->region, domain_of(access->region));
}

/* False: it does not fit. */
static bool put_key(char url[ORIGIN_URL_MAX + 1], size_t at, const char *key)
{
    for (; *key != '\0'; key++) {
        bool plain = is_unreserved(*key) || *key == '/';

        if (at + 3 > ORIGIN_URL_MAX) {
            return false;
        }
        at += (size_t)snprintf(url + at, ORIGIN_URL_MAX + 1 - at, plain ? "%c" : "%%%02X",
                               (unsigned char)*key);
    }
    return true;
}

/* However long it is, there is room for what is wrong with it. */
static void say_wrong(struct errmsg *why, const char *given, const char *wrong)
{
    errmsg_set(why, "%.*s%s %s", GIVEN_SHOWN_MAX, given,
               strlen(given) > GIVEN_SHOWN_MAX ? "..." : "", wrong);
}

bool s3_url(const char *given, const struct s3_access *access, char url[ORIGIN_URL_MAX + 1],
            struct errmsg *why)
{
    const char *bucket = given + sizeof(scheme) - 1;
    size_t count = strcspn(bucket, "/");
    const char *key = bucket + count + (bucket[count] == '/');
    const char *wrong = bucket_wrong(bucket, count);

    wrong = wrong != NULL ? wrong : key_wrong(key);
    if (wrong != NULL) {
        say_wrong(why, given, wrong);
        return false;
    }
    if (access->endpoint[0] != '\0' && (wrong = endpoint_wrong(access->endpoint)) != NULL) {
        errmsg_set(why, "the endpoint %s %s", access->endpoint, wrong);
        return false;
    }
    if (access->region[0] == '\0' || !is_all(access->region, strlen(access->region), "-")) {
        errmsg_set(why, "\"%s\" is no region: one is as eu-central-1", access->region);
        return false;
    }
    if (!put_key(url, put_place(url, access, bucket, count), key)) {
        say_wrong(why, given, "is too long as a URL");
        return false;
    }
    return true;
}

/* ---- Keys, and files of them ---- */

static bool is_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}

bool s3_keys_sound(const struct s3_access *access)
{
    return is_printable(access->id) && is_printable(access->secret) && is_printable(access->token);
}

static struct slice trim(struct slice text)
{
    while (text.count > 0 && strchr(" \t\r", text.data[text.count - 1]) != NULL) {
        text.count--;
    }
    while (text.count > 0 && strchr(" \t", text.data[0]) != NULL) {
        text.data++;
        text.count--;
    }
    return text;
}

static struct slice next_line(struct slice *file)
{
    const uint8_t *end = memchr(file->data, '\n', file->count);
    size_t count = end != NULL ? (size_t)(end - file->data) : file->count;
    struct slice line = { file->data, count };

    count += end != NULL;
    file->data += count;
    file->count -= count;
    return line;
}

/* The text between the brackets of [NAME]. */
static bool is_section(struct slice line, struct slice *name)
{
    line = trim(line);
    if (line.count < 2 || line.data[0] != '[' || line.data[line.count - 1] != ']') {
        return false;
    }
    *name = trim((struct slice){ line.data + 1, line.count - 2 });
    return true;
}

/* What is indented belongs to the setting before it. */
static bool is_setting(struct slice line, const char *name, struct slice *value)
{
    const uint8_t *sign = line.count > 0 ? memchr(line.data, '=', line.count) : NULL;
    size_t before;

    if (sign == NULL || strchr(" \t#;", line.data[0]) != NULL) {
        return false;
    }
    before = (size_t)(sign - line.data);
    *value = trim((struct slice){ sign + 1, line.count - before - 1 });
    return slice_equal(trim((struct slice){ line.data, before }), slice_text(name));
}

int s3_setting(struct slice file, const char *section, const char *name, char *value, size_t max)
{
    bool within = false;
    struct slice found;

    while (file.count > 0) {
        struct slice line = next_line(&file);

        if (is_section(line, &found)) {
            within = slice_equal(found, slice_text(section));
        } else if (within && is_setting(line, name, &found)) {
            if (found.count > max) {
                return MORSEL_TOO_LARGE;
            }
            if (found.count == 0 || memchr(found.data, 0, found.count) != NULL) {
                return MORSEL_NOENT;
            }
            memcpy(value, found.data, found.count);
            value[found.count] = '\0';
            return 0;
        }
    }
    return MORSEL_NOENT;
}

/* ---- Refusals ---- */

static const struct
{
    const char *code, *words;
} meanings[] = {
    { "InvalidAccessKeyId", "the server does not know the key ID" },
    { "SignatureDoesNotMatch", "the secret key is not the one of the key ID" },
    { "ExpiredToken", "the session token has expired; get a new one, with its keys" },
    { "InvalidToken", "the session token is not the one of these keys" },
    { "RequestTimeTooSkewed", "the clock of this machine is wrong" },
    { "NoSuchBucket", "there is no such bucket" },
    { "NoSuchKey", "there is no such object" },
    { "InvalidObjectState", "the object is archived; restore it first" },
    { "SlowDown", "the server has too much to do; try again later" },
};

/* What stands between <NAME> and the next tag, if it is a word that may be shown. */
static void find_element(const char *body, const char *name, char *text, size_t room)
{
    char tag[32];
    const char *at;
    size_t count = 0;

    (void)snprintf(tag, sizeof(tag), "<%s>", name);
    at = strstr(body, tag);
    if (at != NULL) {
        at += strlen(tag);
        while (is_unreserved(at[count])) {
            count++;
        }
    }
    if (at == NULL || at[count] != '<' || count >= room) {
        count = 0;
    }
    if (count > 0) {
        memcpy(text, at, count);
    }
    text[count] = '\0';
}

static const char *meaning_of(int answer, const char *code, bool has_keys)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (strcmp(code, meanings[i].code) == 0) {
            return meanings[i].words;
        }
    }
    if (answer == 404) {
        return "there is no such object";
    }
    if (answer != 401 && answer != 403) {
        return answer < 400 ? "the server sends us elsewhere, where the signature does not hold"
                            : "the server refuses";
    }
    return has_keys ? "the keys have no right to read it"
                    : "not everybody may read it, and there are no keys: set AWS_ACCESS_KEY_ID and "
                      "AWS_SECRET_ACCESS_KEY, or write them into ~/.aws/credentials";
}

void s3_refused(int answer, const char *body, const char *region, const struct s3_access *access,
                struct errmsg *why)
{
    char code[S3_CODE_MAX + 1], there[S3_REGION_MAX + 1];

    find_element(body, "Code", code, sizeof(code));
    find_element(body, "Region", there, sizeof(there));
    if (region[0] != '\0' && strlen(region) <= S3_REGION_MAX &&
        is_all(region, strlen(region), "-")) {
        memcpy(there, region, strlen(region) + 1);
    }
    if (there[0] != '\0' && strcmp(there, access->region) != 0 && answer != 404) {
        errmsg_set(why,
                   "the bucket is in the region %s, and %s was asked: set AWS_REGION=%s (%d%s%s)",
                   there, access->region, there, answer, code[0] != '\0' ? " " : "", code);
        return;
    }
    errmsg_set(why, "%s (%d%s%s)", meaning_of(answer, code, access->id[0] != '\0'), answer,
               code[0] != '\0' ? " " : "", code);
}
