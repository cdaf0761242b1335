/* The identity of a data directory: any bytes are refused, or are exactly the text of what was
 * read. */
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/datadir_format.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct identity none;
    char text[IDENTITY_TEXT_BYTES_MAX];
    struct errmsg err = { "" };
    struct identity identity;
    int rv = identity_parse((struct slice){ data, size }, "/srv/data", &identity, &err);

    if (rv != MORSEL_OK) {
        CHECK(rv == MORSEL_CORRUPT || rv == MORSEL_VERSION);
        CHECK(strstr(err.text, "/srv/data") != NULL);
        CHECK(memcmp(&identity, &none, sizeof(none)) == 0);
        return 0;
    }
    CHECK(err.text[0] == '\0');
    CHECK(identity.format >= 1 && identity.format <= DATADIR_FORMAT);
    CHECK(memchr(identity.role, '\0', sizeof(identity.role)) != NULL);
    CHECK(identity_format(&identity, text) == size && memcmp(text, data, size) == 0);
    return 0;
}
