/* Source: AWS SDKs and Tools Reference Guide, "Environment variables" and "Shared config and credentials files". */
#include "client/admin/stage_source_file.h"

#include "common/base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 256 << 10, PATH_ROOM = 4096 };

/* NULL: it is not set, or empty, which counts as that. */
static const char *from_environment(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* 0, MORSEL_NOENT, MORSEL_TOO_LARGE. */
static int take_variable(const char *name, char *value, size_t max)
{
    const char *found = from_environment(name);

    if (found == NULL) {
        return MORSEL_NOENT;
    }
    if (strlen(found) > max) {
        return MORSEL_TOO_LARGE;
    }
    memcpy(value, found, strlen(found) + 1);
    return 0;
}

/* ---- Files ---- */

struct aws_file
{
    char path[PATH_ROOM];
    char *bytes; /* NULL: it is not there. */
    size_t count;
};

static void aws_file_free(struct aws_file *file)
{
    free(file->bytes);
}

/* Where the variable says, or ~/.aws/NAME. 0, also where there is none; MORSEL_INVAL with words. */
static int aws_file_read(struct aws_file *file, const char *variable, const char *name,
                         struct errmsg *why)
{
    const char *said = from_environment(variable), *home = from_environment("HOME");
    int count = said != NULL
                    ? snprintf(file->path, PATH_ROOM, "%s", said)
                    : snprintf(file->path, PATH_ROOM, "%s/.aws/%s", home != NULL ? home : "", name);
    FILE *stream = count < PATH_ROOM ? fopen(file->path, "re") : NULL;
    bool good;

    file->bytes = NULL;
    file->count = 0;
    if (stream == NULL) {
        if (count < PATH_ROOM && (errno == ENOENT || errno == ENOTDIR)) {
            return 0;
        }
        errmsg_set(why, "%s: %s", file->path, strerror(count < PATH_ROOM ? errno : ENAMETOOLONG));
        return MORSEL_INVAL;
    }
    file->bytes = malloc(FILE_MAX + 1);
    file->count = file->bytes != NULL ? fread(file->bytes, 1, FILE_MAX + 1, stream) : 0;
    good = file->bytes != NULL && ferror(stream) == 0 && file->count <= FILE_MAX;
    (void)fclose(stream);
    if (!good) {
        errmsg_set(why, "%s: cannot be read, or is larger than 256 KiB", file->path);
        return MORSEL_INVAL;
    }
    return 0;
}

static struct slice bytes_of(const struct aws_file *file)
{
    return (struct slice){ (const uint8_t *)file->bytes, file->count };
}

static int too_large(const char *where, struct errmsg *why)
{
    errmsg_set(why, "%s: a key, a session token or a region is longer than those of S3 are", where);
    return MORSEL_INVAL;
}

static int profile_keys(struct s3_access *s3, const struct aws_file *file, const char *said,
                        struct errmsg *why)
{
    const char *profile = said != NULL ? said : "default";
    struct slice bytes = bytes_of(file);
    int id = s3_setting(bytes, profile, "aws_access_key_id", s3->id, S3_ID_MAX);
    int secret = s3_setting(bytes, profile, "aws_secret_access_key", s3->secret, S3_SECRET_MAX);
    int token = s3_setting(bytes, profile, "aws_session_token", s3->token, S3_TOKEN_MAX);

    if (id == MORSEL_TOO_LARGE || secret == MORSEL_TOO_LARGE || token == MORSEL_TOO_LARGE) {
        return too_large(file->path, why);
    }
    if (id != secret || (id != 0 && said != NULL)) {
        errmsg_set(why,
                   "%s: has not both aws_access_key_id and aws_secret_access_key of the profile %s",
                   file->path, profile);
        return MORSEL_INVAL;
    }
    if (id != 0) {
        s3->token[0] = '\0';
    }
    return 0;
}

/* ---- All of it ---- */

static int find_keys(struct s3_access *s3, struct errmsg *why)
{
    int id = take_variable("AWS_ACCESS_KEY_ID", s3->id, S3_ID_MAX);
    int secret = take_variable("AWS_SECRET_ACCESS_KEY", s3->secret, S3_SECRET_MAX);
    struct aws_file file;
    int rv;

    if (id == MORSEL_TOO_LARGE || secret == MORSEL_TOO_LARGE ||
        (id == 0 &&
         take_variable("AWS_SESSION_TOKEN", s3->token, S3_TOKEN_MAX) == MORSEL_TOO_LARGE)) {
        return too_large("the environment", why);
    }
    if (id != secret) {
        errmsg_set(why, "of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set; set both, "
                        "or none to ask without keys");
        return MORSEL_INVAL;
    }
    if (id == 0) {
        return 0;
    }
    rv = aws_file_read(&file, "AWS_SHARED_CREDENTIALS_FILE", "credentials", why);
    rv = rv != 0 ? rv : profile_keys(s3, &file, from_environment("AWS_PROFILE"), why);
    aws_file_free(&file);
    return rv;
}

/* Where nothing is said it is the one that S3 began with, which every endpoint knows. */
static int find_region(struct s3_access *s3, struct errmsg *why)
{
    const char *profile = from_environment("AWS_PROFILE");
    bool is_default = profile == NULL || strcmp(profile, "default") == 0;
    char section[512];
    struct aws_file file;
    int rv = take_variable("AWS_REGION", s3->region, S3_REGION_MAX);

    rv = rv == MORSEL_NOENT ? take_variable("AWS_DEFAULT_REGION", s3->region, S3_REGION_MAX) : rv;
    if (rv != MORSEL_NOENT) {
        return rv == 0 ? 0 : too_large("the environment", why);
    }
    rv = aws_file_read(&file, "AWS_CONFIG_FILE", "config", why);
    if (rv == 0) {
        (void)snprintf(section, sizeof(section), "%s%s", is_default ? "" : "profile ",
                       is_default ? "default" : profile);
        rv = s3_setting(bytes_of(&file), section, "region", s3->region, S3_REGION_MAX);
        rv = rv == MORSEL_TOO_LARGE ? too_large(file.path, why) : rv;
    }
    aws_file_free(&file);
    if (rv == MORSEL_NOENT) {
        (void)snprintf(s3->region, sizeof(s3->region), "us-east-1");
        rv = 0;
    }
    return rv;
}

static int find_endpoint(struct s3_access *s3, struct errmsg *why)
{
    int rv = take_variable("AWS_ENDPOINT_URL_S3", s3->endpoint, S3_ENDPOINT_MAX);

    rv = rv == MORSEL_NOENT ? take_variable("AWS_ENDPOINT_URL", s3->endpoint, S3_ENDPOINT_MAX) : rv;
    if (rv == MORSEL_TOO_LARGE) {
        errmsg_set(why, "the endpoint that the environment says is too long");
        return MORSEL_INVAL;
    }
    return 0;
}

int stage_source_read(struct stage_source *source, const char *given, struct errmsg *why)
{
    char shown[ORIGIN_SHOWN_MAX];
    const char *wrong;
    int rv;

    *source = (struct stage_source){ .is_s3 = s3_is(given) };
    if (!source->is_s3) {
        if (strncmp(given, ORIGIN_INSIDE, strlen(ORIGIN_INSIDE)) == 0) {
            errmsg_set(why, "%s: is a file of the cluster; say the path of it", given);
            return MORSEL_INVAL;
        }
        if ((wrong = origin_url_wrong(given)) != NULL) {
            errmsg_set(why, "%s %s", origin_url_shown(given, shown), wrong);
            return MORSEL_INVAL;
        }
        (void)snprintf(source->url, sizeof(source->url), "%s", given);
        return 0;
    }
    if ((rv = find_endpoint(&source->s3, why)) != 0 || (rv = find_region(&source->s3, why)) != 0 ||
        (rv = find_keys(&source->s3, why)) != 0) {
        return rv;
    }
    if (!s3_keys_sound(&source->s3)) {
        errmsg_set(why,
                   "the key ID, the secret key or the session token for S3 has a character that "
                   "none has: a space, or the end of a line");
        return MORSEL_INVAL;
    }
    return s3_url(given, &source->s3, source->url, why) ? 0 : MORSEL_INVAL;
}
