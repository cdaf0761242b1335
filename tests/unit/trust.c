/* Which mounts are believed, and what becomes of the users of others. */
#include "meta/service/trust_uv.h"

#include "common/base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct trust trust_of(const char *networks)
{
    struct trust trust = { .squash = SQUASH_ROOT, .uid = 99, .gid = 98 };
    struct errmsg err = { "" };

    assert_int_equal(trust_parse(networks, &trust, &err), 0);
    return trust;
}

static void networks_hold_their_addresses(void **state)
{
    struct trust trust = trust_of("10.1.0.0/16, 192.168.7.9,fd00:1::/32 ::1 172.16.0.0/12");

    (void)state;
    assert_int_equal(trust.count, 5);
    assert_true(trust_holds(&trust, "10.1.255.3:9000"));
    assert_false(trust_holds(&trust, "10.2.0.1:9000"));
    assert_true(trust_holds(&trust, "192.168.7.9:1"));
    assert_false(trust_holds(&trust, "192.168.7.8:1"));
    assert_true(trust_holds(&trust, "[fd00:1:2::7]:1"));
    assert_false(trust_holds(&trust, "[fd00:2::7]:1"));
    assert_true(trust_holds(&trust, "[::1]:1"));
    assert_true(trust_holds(&trust, "172.31.255.255:1"));
    assert_false(trust_holds(&trust, "172.32.0.0:1"));
    assert_true(trust_holds(&trust, "[::ffff:10.1.2.3]:1")); /* On a socket for both families. */
    assert_false(trust_holds(&trust, "nonsense"));
    trust = trust_of("");
    assert_false(trust_holds(&trust, "127.0.0.1:1"));
    trust = trust_of("0.0.0.0/0");
    assert_true(trust_holds(&trust, "8.8.8.8:1"));
    assert_false(trust_holds(&trust, "[fd00::1]:1"));
    trust.squash = SQUASH_NONE;
    assert_true(trust_holds(&trust, "[fd00::1]:1"));
}

static void nonsense_is_refused(void **state)
{
    static const char *const bad[] = { "10.1.0.0/33", "10.1.0/16",  "fd00::/129", "10.0.0.1/",
                                       "10.0.0.1/-1", "10.0.0.1/x", "host",       "10.0.0.1/8x" };
    struct trust trust;
    struct errmsg err = { "" };
    enum squash squash;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(trust_parse(bad[i], &trust, &err), MORSEL_INVAL);
        assert_non_null(strstr(err.text, bad[i]));
    }
    assert_int_equal(squash_parse("some", &squash, &err), MORSEL_INVAL);
    assert_int_equal(squash_parse("all", &squash, &err), 0);
    assert_int_equal(squash, SQUASH_ALL);
}

static void users_are_squashed(void **state)
{
    static const uint32_t groups[] = { 0 };
    struct trust trust = trust_of("");
    struct credentials root = { 0, 0, groups, 1, true }, alice = { 7, 7, groups, 1, true };

    (void)state;
    trust_squash(&trust, &root);
    assert_int_equal(root.uid, 99);
    assert_int_equal(root.gid, 98);
    assert_int_equal(root.groups_count, 0);
    trust_squash(&trust, &alice);
    assert_int_equal(alice.uid, 7);
    trust.squash = SQUASH_ALL;
    trust_squash(&trust, &alice);
    assert_int_equal(alice.uid, 99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_hold_their_addresses),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(users_are_squashed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
