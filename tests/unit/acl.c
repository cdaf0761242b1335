/* Access lists: the format, what is valid, and what they do to modes. */
#include "meta/namespace/acl.h"
#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { NO_ID = -1 };

static void put_entry(struct buf *b, uint16_t tag, uint16_t perm, int id)
{
    buf_put_u16(b, tag);
    buf_put_u16(b, perm);
    buf_put_u32(b, (uint32_t)id);
}

/* u::rwx u:5:r-x g::rw- m::rwx o::r-- */
static void put_sample(struct buf *b)
{
    buf_init(b);
    buf_put_u32(b, 2);
    put_entry(b, ACL_TAG_USER_OBJ, 7, NO_ID);
    put_entry(b, ACL_TAG_USER, 5, 5);
    put_entry(b, ACL_TAG_GROUP_OBJ, 6, NO_ID);
    put_entry(b, ACL_TAG_MASK, 7, NO_ID);
    put_entry(b, ACL_TAG_OTHER, 4, NO_ID);
}

static void the_format_comes_back(void **state)
{
    struct acl acl;
    struct buf b, again;

    (void)state;
    put_sample(&b);
    buf_init(&again);
    assert_int_equal(acl_parse(buf_slice(&b), &acl), 0);
    acl_format(&acl, &again);
    assert_int_equal(b.count, again.count);
    assert_memory_equal(b.data, again.data, b.count);
    assert_int_equal(acl_mode(&acl), 0774);
    assert_false(acl_is_mode(&acl));
    buf_free(&b);
    buf_free(&again);
}

static int parse_changed(size_t at, uint8_t value)
{
    struct acl acl;
    struct buf b;
    int rv;

    put_sample(&b);
    b.data[at] = value;
    rv = acl_parse(buf_slice(&b), &acl);
    buf_free(&b);
    return rv;
}

static void what_is_invalid_is_refused(void **state)
{
    struct acl acl;
    struct buf b;

    (void)state;
    assert_int_equal(parse_changed(0, 3), MORSEL_NOTSUP);                 /* Version. */
    assert_int_equal(parse_changed(4, ACL_TAG_OTHER), MORSEL_INVAL);      /* Order. */
    assert_int_equal(parse_changed(6, 8), MORSEL_INVAL);                  /* More than rwx. */
    assert_int_equal(parse_changed(4 + 24, ACL_TAG_OTHER), MORSEL_INVAL); /* Named user, no mask. */
    assert_int_equal(parse_changed(4 + 24, 0x40), MORSEL_INVAL);          /* Unknown tag. */
    put_sample(&b);
    assert_int_equal(acl_parse((struct slice){ b.data, b.count - 1 }, &acl), MORSEL_INVAL);
    assert_int_equal(acl_parse((struct slice){ b.data, b.count - 8 }, &acl), MORSEL_INVAL);
    assert_int_equal(acl_parse((struct slice){ b.data, 3 }, &acl), MORSEL_INVAL);
    assert_int_equal(acl_parse((struct slice){ b.data, 4 }, &acl), MORSEL_INVAL);
    buf_free(&b);
}

static void the_same_id_twice_is_refused(void **state)
{
    struct acl acl;
    struct buf b;

    (void)state;
    buf_init(&b);
    buf_put_u32(&b, 2);
    put_entry(&b, ACL_TAG_USER_OBJ, 7, NO_ID);
    put_entry(&b, ACL_TAG_USER, 5, 5);
    put_entry(&b, ACL_TAG_USER, 6, 5);
    put_entry(&b, ACL_TAG_GROUP_OBJ, 6, NO_ID);
    put_entry(&b, ACL_TAG_MASK, 7, NO_ID);
    put_entry(&b, ACL_TAG_OTHER, 4, NO_ID);
    assert_int_equal(acl_parse(buf_slice(&b), &acl), MORSEL_INVAL);
    buf_free(&b);
}

static void chmod_changes_the_mask_and_not_the_group(void **state)
{
    struct acl acl;
    struct buf b;

    (void)state;
    put_sample(&b);
    assert_int_equal(acl_parse(buf_slice(&b), &acl), 0);
    acl_chmod(&acl, 0640);
    assert_int_equal(acl_mode(&acl), 0640);
    assert_int_equal(acl.entries[2].perm, 6); /* GROUP_OBJ */
    assert_int_equal(acl.entries[3].perm, 4); /* MASK */
    buf_free(&b);
}

static void inheriting_keeps_what_both_grant(void **state)
{
    struct acl acl;
    struct buf b;

    (void)state;
    put_sample(&b);
    assert_int_equal(acl_parse(buf_slice(&b), &acl), 0);
    assert_int_equal(acl_inherit(&acl, 0100666), 0100664);
    assert_int_equal(acl_mode(&acl), 0664);
    assert_int_equal(acl.entries[1].perm, 5); /* The named user is limited by the mask alone. */
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_format_comes_back),
        cmocka_unit_test(what_is_invalid_is_refused),
        cmocka_unit_test(the_same_id_twice_is_refused),
        cmocka_unit_test(chmod_changes_the_mask_and_not_the_group),
        cmocka_unit_test(inheriting_keeps_what_both_grant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
