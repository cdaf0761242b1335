/* What an owner has said, and the key with which he is let in: any bytes are refused, or are exactly the text of what was read.
 *
 * Input: the first byte picks one of the two, the rest is the file. */
#include "benefactor/owner.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/daemon/owner_key.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refused(int rv, const struct errmsg *err, const void *out, const void *none,
                    size_t count)
{
    CHECK(rv == MORSEL_CORRUPT || rv == MORSEL_VERSION);
    CHECK(strstr(err->text, "/srv/data/") != NULL);
    CHECK(memcmp(out, none, count) == 0);
}

static void read_owner(struct slice bytes)
{
    static const struct owner_kept none;
    char text[OWNER_TEXT_BYTES_MAX];
    struct errmsg err = { "" };
    struct owner_kept kept;
    int rv = owner_parse(bytes, "/srv/data", &kept, &err);

    if (rv != 0) {
        refused(rv, &err, &kept, &none, sizeof(none));
        return;
    }
    CHECK(owner_format(&kept, text) == bytes.count && memcmp(text, bytes.data, bytes.count) == 0);
    CHECK(!kept.donate.share.percent || kept.donate.share.value <= 100);
}

static void read_key(struct slice bytes)
{
    static const struct owner_key none;
    char text[OWNER_KEY_TEXT_BYTES_MAX];
    struct errmsg err = { "" };
    struct owner_key key;
    int rv = owner_key_parse(bytes, "/srv/data", &key, &err);

    if (rv != 0) {
        refused(rv, &err, &key, &none, sizeof(none));
        return;
    }
    CHECK(owner_key_format(&key, text) == bytes.count &&
          memcmp(text, bytes.data, bytes.count) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 'k') {
        read_key((struct slice){ data + 1, size - 1 });
    } else if (size > 0) {
        read_owner((struct slice){ data + 1, size - 1 });
    }
    return 0;
}
