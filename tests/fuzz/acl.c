/* POSIX access control lists as users set them: what is accepted is a sound list and stays one
 * through chmod and inheritance. */
#include "meta/namespace/acl.h"
#include "common/base/buf.h"
#include "common/base/check.h"
#include "common/base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_sound(const struct acl *acl)
{
    struct acl again;
    struct buf text;

    buf_init(&text);
    acl_format(acl, &text);
    CHECK(acl_parse(buf_slice(&text), &again) == MORSEL_OK);
    CHECK(again.count == acl->count);
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t mode = size > 0 ? data[size - 1] * 3U : 0;
    struct acl acl;
    struct buf text;
    int rv = acl_parse((struct slice){ data, size }, &acl);

    if (rv != MORSEL_OK) {
        CHECK(rv == MORSEL_INVAL || rv == MORSEL_NOTSUP || rv == MORSEL_2BIG);
        return 0;
    }
    CHECK(acl.count >= 3 && acl.count <= ACL_ENTRIES_MAX);
    CHECK((acl_mode(&acl) & ~0777U) == 0);
    buf_init(&text);
    acl_format(&acl, &text);
    CHECK(text.count == size); /* Ids where none belong are not kept. */
    buf_free(&text);
    acl_chmod(&acl, mode);
    must_be_sound(&acl);
    CHECK(acl_mode(&acl) == (mode & 0777));
    CHECK((acl_inherit(&acl, 0666) & ~0666U) == 0);
    must_be_sound(&acl);
    return 0;
}
