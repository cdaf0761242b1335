/* Objects of S3, and of what speaks as S3 does: s3://BUCKET/KEY as the URL at which every web client asks for it, what files of keys
 * say, and what a refusal means.
 *
 * Pure. The key is taken byte for byte as it is written, also "?", "%" and "+"; what a URL has not becomes %XX, as S3 has it signed.
 *
 * Source: Amazon S3 User Guide ("General purpose bucket naming rules", "Virtual hosting of general purpose buckets", "Naming Amazon S3
 * objects"), API Reference ("Error responses"), and AWS SDKs and Tools Reference Guide ("Shared config and credentials files").
 */
#ifndef MORSEL_CLIENT_ADMIN_S3_H
#define MORSEL_CLIENT_ADMIN_S3_H

#include "common/base/errmsg.h"
#include "common/base/slice.h"
#include "common/fs/origin.h"

enum {
    S3_BUCKET_MIN = 3,
    S3_BUCKET_MAX = 63,
    S3_KEY_MAX = 1024, /* Bytes, before they are spelled. */
    S3_REGION_MAX = 32,
    S3_ENDPOINT_MAX = 512,
    S3_ID_MAX = 128,
    S3_SECRET_MAX = 256,
    S3_TOKEN_MAX = 8192,
    S3_CODE_MAX = 63 /* Of an error. */
};

/* Where objects lie, and as whom they are asked for. */
struct s3_access
{
    char endpoint
        [S3_ENDPOINT_MAX +
         1]; /* http or https, without a path of the bucket; empty: Amazon's own of the region. */
    char region[S3_REGION_MAX + 1];
    char id[S3_ID_MAX + 1]; /* Empty: there are no keys, and nothing is signed. */
    char secret[S3_SECRET_MAX + 1];
    char token[S3_TOKEN_MAX + 1]; /* Of a session; empty: none. */
};

/* Is it s3://, whatever follows? */
bool s3_is(const char *given);

/* The URL of the object. False: it is none, with words. */
bool s3_url(const char *given, const struct s3_access *access, char url[ORIGIN_URL_MAX + 1],
            struct errmsg *why);

/* Are they of characters that may stand in the header of a request? */
bool s3_keys_sound(const struct s3_access *access);

/* The value of a setting in a section of a file as ~/.aws/credentials is one. 0; MORSEL_NOENT: it has none, or an empty one;
 * MORSEL_TOO_LARGE: not of `max` bytes. `value` has room for `max` and a zero. */
int s3_setting(struct slice file, const char *section, const char *name, char *value, size_t max);

/* What a server says that does not give the object: `answer` its status, `body` (XML) and `region` (x-amz-bucket-region) as text, empty
 * where it says nothing. Words of one line: what is the matter, and what to do. */
void s3_refused(int answer, const char *body, const char *region, const struct s3_access *access,
                struct errmsg *why);

#endif
