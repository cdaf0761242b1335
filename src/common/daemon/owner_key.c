/* Lines "key = value" of the key of a donated directory, in both directions. */
#include "common/daemon/owner_key.h"

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/datadir_format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void owner_key_address(const char *listens, char address[OWNER_ADDRESS_BYTES_MAX])
{
    static const struct
    {
        const char *everywhere, *here;
    } hosts[] = { { "0.0.0.0:", "127.0.0.1:" }, { "[::]:", "[::1]:" } };

    (void)snprintf(address, OWNER_ADDRESS_BYTES_MAX, "%s", listens);
    for (size_t i = 0; i < ARRAY_COUNT(hosts); i++) {
        size_t count = strlen(hosts[i].everywhere);

        if (strncmp(listens, hosts[i].everywhere, count) == 0) {
            (void)snprintf(address, OWNER_ADDRESS_BYTES_MAX, "%s%s", hosts[i].here,
                           listens + count);
        }
    }
}

size_t owner_key_format(const struct owner_key *key, char text[OWNER_KEY_TEXT_BYTES_MAX])
{
    char secret[33];
    int count;

    hex16(key->secret, secret);
    count = snprintf(text, OWNER_KEY_TEXT_BYTES_MAX,
                     "format = %d\nlock = %" PRIu64 "\nsecret = %s\naddress = %s\n",
                     OWNER_KEY_FORMAT, key->lock, secret, key->address);
    CHECK(count > 0 && count < OWNER_KEY_TEXT_BYTES_MAX);
    return (size_t)count;
}

/* sscanf() takes blanks and numbers that we do not write: what was read is written again, and compared. */
static bool fields_parse(const char *text, struct owner_key *key)
{
    char secret[33], again[OWNER_KEY_TEXT_BYTES_MAX];
    int fields = sscanf(text, "format = 1 lock = %20" SCNu64 " secret = %32s address = %271s",
                        &key->lock, secret, key->address);

    return fields == 3 && hex16_parse(secret, key->secret) &&
           owner_key_format(key, again) == strlen(text) && strcmp(text, again) == 0;
}

int owner_key_parse(struct slice bytes, const char *path, struct owner_key *key, struct errmsg *err)
{
    char text[OWNER_KEY_TEXT_BYTES_MAX] = "";
    unsigned format = 0;

    memset(key, 0, sizeof(*key));
    if (bytes.count < sizeof(text) && memchr(bytes.data, '\0', bytes.count) == NULL) {
        memcpy(text, bytes.data, bytes.count);
    }
    if (sscanf(text, "format = %9u", &format) == 1 && format > OWNER_KEY_FORMAT) {
        errmsg_set(err, "%s/key is of a newer benefactor: use the command of that version", path);
        return MORSEL_VERSION;
    }
    if (!fields_parse(text, key)) {
        memset(key, 0, sizeof(*key));
        errmsg_set(err, "%s/key is damaged: start morsel-benefactor again, which makes it anew",
                   path);
        return MORSEL_CORRUPT;
    }
    return 0;
}

bool owner_secret_equal(const uint8_t a[OWNER_SECRET_BYTES], const uint8_t b[OWNER_SECRET_BYTES])
{
    unsigned differs = 0;

    for (size_t i = 0; i < OWNER_SECRET_BYTES; i++) {
        differs |= (unsigned)(a[i] ^ b[i]);
    }
    return differs == 0;
}
