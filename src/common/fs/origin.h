/* Where the bytes of a data set come from, and by what one sees whether they are still the same there.
 *
 * Pure. The manager keeps an origin with the set (namespace_origins.c), the mount passes it as the extended attribute
 * user.morsel.origin, and `morsel stage` makes it of what a server says: one place for all of these, and for what may stand in it.
 *
 *   url=https://example.org/genbank.tar     printable ASCII without spaces; no password
 *   size=1234                               missing: it does not say
 *   etag="abc"                              missing: there is none, or one that is no printable ASCII
 *   modified=1700000000                     Unix time; missing: it does not say
 *
 * As text it has one line each, in that order. Decoding and parsing trust nothing.
 *
 * Source: RFC 9110, 8.8 (validators) and 13.1.5 (If-Range).
 */
#ifndef MORSEL_COMMON_FS_ORIGIN_H
#define MORSEL_COMMON_FS_ORIGIN_H

#include "common/base/buf.h"
#include "common/base/limits.h"
#include "common/base/types.h"

/* A file of class durable of the same cluster: its inode, whose number no other one ever gets, and behind it where it lay when it was
 * staged, with %XX: morsel://4711/data/genbank.tar. Its ETag is its version, in quotes. */
#define ORIGIN_INSIDE "morsel://"

/* "CLUSTER VERSION" of whatever lies on a MorselFS: which cluster it is of, in 32 hexadecimal digits, and a number that has grown when its
 * bytes have changed and that was reported. */
#define SOURCE_XATTR "user.morsel.source"

#define ORIGIN_XATTR  "user.morsel.origin"
#define MISSING_XATTR "user.morsel.missing"

#define ORIGIN_SIZE_UNKNOWN UINT64_MAX
#define ORIGIN_TIME_UNKNOWN INT64_MIN

enum {
    ORIGIN_URL_MAX = 2048,
    ORIGIN_ETAG_MAX = 256,
    ORIGIN_SHOWN_MAX = 200,                                   /* With its final zero. */
    ORIGIN_TEXT_MAX = ORIGIN_URL_MAX + ORIGIN_ETAG_MAX + 128, /* With its final zero. */
    MISSING_RANGES_MAX = 64,                                  /* Of user.morsel.missing. */
    MISSING_TEXT_MAX = MISSING_RANGES_MAX * 48
};

struct origin
{
    char url[ORIGIN_URL_MAX + 1];
    char etag[ORIGIN_ETAG_MAX + 1]; /* With its quotes, and W/ if it is a weak one. Empty: none. */
    uint64_t size;                  /* Bytes, at most INT64_MAX; ORIGIN_SIZE_UNKNOWN. */
    int64_t modified_s;             /* Since 1970; ORIGIN_TIME_UNKNOWN. */
    bool
        proven; /* Who staged it has had its last byte without any rights and by its range, as mounts ask. */
};

/* Nothing is known. */
void origin_init(struct origin *origin);

/* Is the text a URL of a scheme that is known, with a host (but for file:) and a path, and without a password? NULL: it is;
 * otherwise what is wrong with it, as words behind the URL. */
const char *origin_url_wrong(const char *url);

/* The URL in a line for people: of one that is longer the middle is left out, so that the words behind it are not cut off. */
const char *origin_url_shown(const char *url, char text[ORIGIN_SHOWN_MAX]);

/* Each field is one that may be. */
bool origin_sound(const struct origin *origin);

/* Does nothing of what both of them say differ? The URL included, and not whether it is proven. */
bool origin_same(const struct origin *a, const struct origin *b);

/* Would one notice, if the bytes became others: can a download that was interrupted go on? */
bool origin_is_dated(const struct origin *origin);

/* A strong ETag, byte for byte; weak ones do not say that bytes are the same. */
bool origin_has_strong_etag(const struct origin *origin);

/* Is it one that mounts fetch from for whoever reads (http and https: neither files of their machine nor what takes somebody's key)? */
bool origin_is_visited(const struct origin *origin);

/* Is it a file of the cluster, which mounts read themselves? */
bool origin_is_inside(const struct origin *origin);

/* Of one that is: which file, and the path at which it was staged, still with its %XX. */
inode_id origin_source(const struct origin *origin, const char **path);

/* The name that such a path begins with, behind its "/", with its %XX read; returns what follows: "/" and more names, or nothing. NULL: it begins
 * with none, or with one that no file has. */
const char *origin_take_name(const char *path, char name[NAME_BYTES_MAX], size_t *count);

/* And could one say of all of it that it is the same? Then it is worth a proof, */
bool origin_may_be_proven(const struct origin *origin);

/* and when it has that, copies of its bytes are a cache. */
bool origin_stands_in(const struct origin *origin);

/* The record of the manager. MORSEL_CORRUPT, MORSEL_VERSION. */
void origin_encode(const struct origin *origin, struct buf *out);
int origin_decode(struct slice bytes, struct origin *origin);

/* The text of user.morsel.origin, and back: MORSEL_MALFORMED. */
void origin_format(const struct origin *origin, char text[ORIGIN_TEXT_MAX]);
int origin_parse(struct slice text, struct origin *origin);

#endif
