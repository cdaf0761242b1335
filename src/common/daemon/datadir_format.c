/* Lines "key = value" of the identity file, in both directions. */
#include "common/daemon/datadir_format.h"

#include "common/base/check.h"
#include "common/base/status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void hex16(const uint8_t bytes[16], char text[33])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < 16; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[32] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex16_parse(const char *text, uint8_t bytes[16])
{
    if (strlen(text) != 32) {
        return false;
    }
    for (size_t i = 0; i < 16; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

size_t identity_format(const struct identity *identity, char text[IDENTITY_TEXT_BYTES_MAX])
{
    char cluster[33], token[33];
    int count;

    hex16(identity->cluster.bytes, cluster);
    hex16(identity->token, token);
    count = snprintf(text, IDENTITY_TEXT_BYTES_MAX,
                     "format = %u\nrole = %s\ncluster = %s\nnode = %u\ntoken = %s\n",
                     identity->format, identity->role, cluster, identity->node, token);
    CHECK(count > 0 && count < IDENTITY_TEXT_BYTES_MAX);
    if (identity->format >= 2) {
        count +=
            snprintf(text + count, IDENTITY_TEXT_BYTES_MAX - (size_t)count,
                     "confirmed = %016" PRIx64 "\npending = %016" PRIx64 "\nstart = %" PRIu64 "\n",
                     identity->starts.confirmed, identity->starts.pending, identity->starts.count);
        CHECK(count < IDENTITY_TEXT_BYTES_MAX);
    }
    return (size_t)count;
}

/* The fields of a text of our format. sscanf() takes blanks and numbers that we do not write, so
 * the text is compared with what the fields would be written as. */
static bool fields_parse(const char *text, struct identity *identity)
{
    char cluster[33], token[33], again[IDENTITY_TEXT_BYTES_MAX];

    int fields =
        sscanf(text,
               "format = %9u role = %31s cluster = %32s node = %10u token = %32s "
               "confirmed = %16" SCNx64 " pending = %16" SCNx64 " start = %20" SCNu64,
               &identity->format, identity->role, cluster, &identity->node, token,
               &identity->starts.confirmed, &identity->starts.pending, &identity->starts.count);

    return fields == (identity->format == 1 ? 5 : 8) &&
           hex16_parse(cluster, identity->cluster.bytes) && hex16_parse(token, identity->token) &&
           identity_format(identity, again) == strlen(text) && strcmp(text, again) == 0;
}

int identity_parse(struct slice bytes, const char *path, struct identity *identity,
                   struct errmsg *err)
{
    char text[IDENTITY_TEXT_BYTES_MAX] = "";
    unsigned format = 0;

    memset(identity, 0, sizeof(*identity));
    if (bytes.count < sizeof(text) && memchr(bytes.data, '\0', bytes.count) == NULL) {
        memcpy(text, bytes.data, bytes.count); /* Else it is no text of ours. */
    }
    if (sscanf(text, "format = %9u", &format) == 1 && format > DATADIR_FORMAT) {
        errmsg_set(err,
                   "%s is of format %u, and this program knows only up to %d: use a newer version",
                   path, format, DATADIR_FORMAT);
        return MORSEL_VERSION;
    }
    if (format == 0 || !fields_parse(text, identity)) {
        memset(identity, 0, sizeof(*identity));
        errmsg_set(err, "%s/identity is damaged: restore the file from a backup", path);
        return MORSEL_CORRUPT;
    }
    return MORSEL_OK;
}
