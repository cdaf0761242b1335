/* Spelling, reading and comparing of origins. */
#include "common/fs/origin.h"

#include "common/base/slice.h"
#include "common/base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RECORD_PLAIN = 1, RECORD_PROVEN = 2, DIGITS_MAX = 20 };

void origin_init(struct origin *origin)
{
    *origin = (struct origin){ .size = ORIGIN_SIZE_UNKNOWN, .modified_s = ORIGIN_TIME_UNKNOWN };
}

/* ---- What may be ---- */

static bool is_printable(const char *text, size_t max)
{
    size_t count = strnlen(text, max + 1);

    for (size_t i = 0; i < count; i++) {
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] > '~') {
            return false;
        }
    }
    return count <= max;
}

/* Where the authority of the URL begins; NULL: its scheme is none that we know. */
static const char *behind_scheme(const char *url)
{
    static const char *const schemes[] = { "http://", "https://", "ftp://",
                                           "sftp://", "file://",  ORIGIN_INSIDE };

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0) {
            return url + strlen(schemes[i]);
        }
    }
    return NULL;
}

/* INODE_NONE: it is no number that may be one. */
static inode_id inode_of(const char *authority)
{
    size_t count = strcspn(authority, "/?");
    inode_id inode = INODE_NONE;

    if (count == 0 || count >= DIGITS_MAX || authority[0] == '0' || authority[count] == '?') {
        return INODE_NONE;
    }
    for (size_t i = 0; i < count; i++) {
        if (authority[i] < '0' || authority[i] > '9') {
            return INODE_NONE;
        }
        inode = inode * 10 + (inode_id)(authority[i] - '0');
    }
    return inode;
}

const char *origin_url_wrong(const char *url)
{
    const char *authority = behind_scheme(url);
    size_t count;
    const char *at, *colon;

    if (authority == NULL) {
        return "is no URL that can be staged: http://, https://, ftp://, sftp://, file:// or s3://";
    }
    if (strnlen(url, ORIGIN_URL_MAX + 1) > ORIGIN_URL_MAX) {
        return "is too long";
    }
    if (!is_printable(url, ORIGIN_URL_MAX) || strchr(url, '#') != NULL) {
        return "has characters that a URL has not: write them as %XX";
    }
    count = strcspn(authority, "/?");
    at = memchr(authority, '@', count);
    colon = memchr(authority, ':', count);
    if (at != NULL && colon != NULL && colon < at) {
        return "has a password in it, which everybody would see: put it into ~/.netrc, or use a "
               "key";
    }
    if (strncmp(url, ORIGIN_INSIDE, strlen(ORIGIN_INSIDE)) == 0 &&
        inode_of(authority) == INODE_NONE) {
        return "names no file of this cluster: say the path of one";
    }
    if (strncmp(url, "file:", 5) == 0 ? count != 0 : count == 0) {
        return count == 0 ? "names no host" : "names a host: it is file:///PATH";
    }
    return authority[count] != '\0' ? NULL : "names no file";
}

const char *origin_url_shown(const char *url, char text[ORIGIN_SHOWN_MAX])
{
    size_t count = strlen(url), part = (ORIGIN_SHOWN_MAX - sizeof("...")) / 2;

    if (count < ORIGIN_SHOWN_MAX) {
        memcpy(text, url, count + 1);
    } else {
        (void)snprintf(text, ORIGIN_SHOWN_MAX, "%.*s...%s", (int)part, url, url + count - part);
    }
    return text;
}

bool origin_sound(const struct origin *origin)
{
    return origin_url_wrong(origin->url) == NULL && is_printable(origin->etag, ORIGIN_ETAG_MAX) &&
           (origin->size <= INT64_MAX || origin->size == ORIGIN_SIZE_UNKNOWN);
}

/* ---- Comparing ---- */

bool origin_same(const struct origin *a, const struct origin *b)
{
    return strcmp(a->url, b->url) == 0 &&
           (a->etag[0] == '\0' || b->etag[0] == '\0' || strcmp(a->etag, b->etag) == 0) &&
           (a->size == ORIGIN_SIZE_UNKNOWN || b->size == ORIGIN_SIZE_UNKNOWN ||
            a->size == b->size) &&
           (a->modified_s == ORIGIN_TIME_UNKNOWN || b->modified_s == ORIGIN_TIME_UNKNOWN ||
            a->modified_s == b->modified_s);
}

bool origin_has_strong_etag(const struct origin *origin)
{
    return origin->etag[0] == '"';
}

bool origin_is_dated(const struct origin *origin)
{
    return origin_has_strong_etag(origin) || origin->modified_s != ORIGIN_TIME_UNKNOWN;
}

bool origin_is_visited(const struct origin *origin)
{
    return strncmp(origin->url, "http://", 7) == 0 || strncmp(origin->url, "https://", 8) == 0;
}

bool origin_is_inside(const struct origin *origin)
{
    return strncmp(origin->url, ORIGIN_INSIDE, strlen(ORIGIN_INSIDE)) == 0;
}

inode_id origin_source(const struct origin *origin, const char **path)
{
    const char *authority = origin->url + strlen(ORIGIN_INSIDE);

    *path = authority + strcspn(authority, "/");
    return inode_of(authority);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

const char *origin_take_name(const char *path, char name[NAME_BYTES_MAX], size_t *count)
{
    for (*count = 0; *path != '\0' && *path != '/'; (*count)++) {
        char c = *path++;

        if (*count == NAME_BYTES_MAX) {
            return NULL;
        }
        if (c == '%') {
            int high = digit_of(path[0]), low = high < 0 ? -1 : digit_of(path[1]);

            if (low < 0 || high + low == 0) {
                return NULL;
            }
            c = (char)(high * 16 + low);
            path += 2;
        }
        name[*count] = c;
    }
    return *count > 0 ? path : NULL;
}

bool origin_may_be_proven(const struct origin *origin)
{
    return (origin_is_visited(origin) || origin_is_inside(origin)) && origin_is_dated(origin) &&
           origin->size != ORIGIN_SIZE_UNKNOWN && origin->size > 0;
}

bool origin_stands_in(const struct origin *origin)
{
    return origin->proven && origin_may_be_proven(origin);
}

/* ---- The record ---- */

void origin_encode(const struct origin *origin, struct buf *out)
{
    buf_put_u8(out, origin->proven ? RECORD_PROVEN : RECORD_PLAIN);
    buf_put_blob(out, origin->url, strlen(origin->url));
    buf_put_blob(out, origin->etag, strlen(origin->etag));
    buf_put_u64(out, origin->size);
    buf_put_u64(out, (uint64_t)origin->modified_s);
}

/* False: it does not fit, or has a zero within. */
static bool take(struct slice text, char *out, size_t max)
{
    if (text.count > max || (text.count > 0 && memchr(text.data, 0, text.count) != NULL)) {
        return false;
    }
    if (text.count > 0) {
        memcpy(out, text.data, text.count);
    }
    out[text.count] = '\0';
    return true;
}

int origin_decode(struct slice bytes, struct origin *origin)
{
    struct slice url, etag;
    struct reader r;
    uint8_t version;

    reader_init(&r, bytes.data, bytes.count);
    version = reader_u8(&r);
    if (version > RECORD_PROVEN) {
        return MORSEL_VERSION;
    }
    origin_init(origin);
    origin->proven = version == RECORD_PROVEN;
    url = reader_blob(&r);
    etag = reader_blob(&r);
    origin->size = reader_u64(&r);
    origin->modified_s = (int64_t)reader_u64(&r);
    if (!reader_done(&r) || version == 0 || !take(url, origin->url, ORIGIN_URL_MAX) ||
        !take(etag, origin->etag, ORIGIN_ETAG_MAX) || !origin_sound(origin)) {
        return MORSEL_CORRUPT;
    }
    return 0;
}

/* ---- The text ---- */

void origin_format(const struct origin *origin, char text[ORIGIN_TEXT_MAX])
{
    int at = snprintf(text, ORIGIN_TEXT_MAX, "url=%s\n", origin->url);

    if (origin->size != ORIGIN_SIZE_UNKNOWN) {
        at +=
            snprintf(text + at, (size_t)(ORIGIN_TEXT_MAX - at), "size=%" PRIu64 "\n", origin->size);
    }
    if (origin->etag[0] != '\0') {
        at += snprintf(text + at, (size_t)(ORIGIN_TEXT_MAX - at), "etag=%s\n", origin->etag);
    }
    if (origin->modified_s != ORIGIN_TIME_UNKNOWN) {
        at += snprintf(text + at, (size_t)(ORIGIN_TEXT_MAX - at), "modified=%" PRId64 "\n",
                       origin->modified_s);
    }
    if (origin->proven) {
        (void)snprintf(text + at, (size_t)(ORIGIN_TEXT_MAX - at), "proven=yes\n");
    }
}

/* The value of the next line, if it begins with that; it is taken off the text. */
static bool next_line(struct slice *text, const char *key, struct slice *value)
{
    const uint8_t *end = text->count > 0 ? memchr(text->data, '\n', text->count) : NULL;

    if (end == NULL || !slice_starts_with(*text, slice_text(key))) {
        return false;
    }
    *value = (struct slice){ text->data + strlen(key), (size_t)(end - text->data) - strlen(key) };
    text->count -= (size_t)(end - text->data) + 1;
    text->data = end + 1;
    return true;
}

/* Digits, and nothing else, up to INT64_MAX. */
static bool take_number(struct slice text, uint64_t *value)
{
    *value = 0;
    if (text.count == 0 || text.count >= DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.count; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        *value = *value * 10 + (uint64_t)(text.data[i] - '0');
    }
    return *value <= INT64_MAX;
}

static bool take_time(struct slice text, int64_t *value)
{
    bool before = text.count > 0 && text.data[0] == '-';
    uint64_t seconds;

    if (!take_number((struct slice){ text.data + before, text.count - before }, &seconds)) {
        return false;
    }
    *value = before ? -(int64_t)seconds : (int64_t)seconds;
    return true;
}

int origin_parse(struct slice text, struct origin *origin)
{
    struct slice value;
    bool good;

    origin_init(origin);
    good = next_line(&text, "url=", &value) && take(value, origin->url, ORIGIN_URL_MAX);
    if (good && next_line(&text, "size=", &value)) {
        good = take_number(value, &origin->size);
    }
    if (good && next_line(&text, "etag=", &value)) {
        good = take(value, origin->etag, ORIGIN_ETAG_MAX);
    }
    if (good && next_line(&text, "modified=", &value)) {
        good = take_time(value, &origin->modified_s);
    }
    if (good && next_line(&text, "proven=", &value)) {
        origin->proven = good = slice_equal(value, slice_text("yes"));
    }
    return good && text.count == 0 && origin_sound(origin) ? 0 : MORSEL_MALFORMED;
}
