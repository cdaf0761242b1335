/* Policies and layouts as text: spelling, bounds, and back again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/fs/policy_text.h"
#include "common/rpc/messages.h"

#include <string.h>

static int parse(enum policy_key key, const char *text, uint32_t *value)
{
    return policy_value_parse(key, text, strlen(text), value, NULL);
}

static void keys_have_two_names(void **state)
{
    enum policy_key key;

    (void)state;
    assert_true(policy_key_find("stripe_width", &key));
    assert_int_equal(key, POLICY_STRIPE_WIDTH);
    assert_true(policy_key_find("user.morsel.class", &key));
    assert_int_equal(key, POLICY_CLASS);
    assert_false(policy_key_find("user.morsel.layout", &key));
    assert_false(policy_key_find("", &key));
    assert_string_equal(policy_key_name(POLICY_MORSEL_SIZE), "morsel_size");
}

static void values_are_bounded(void **state)
{
    uint32_t value = 7;

    (void)state;
    assert_int_equal(parse(POLICY_CLASS, "scavenged", &value), 0);
    assert_int_equal(value, CLASS_SCAVENGED);
    assert_int_equal(parse(POLICY_CLASS, "inherit", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(parse(POLICY_CLASS, "2", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_MORSEL_SIZE, "64K", &value), 0);
    assert_int_equal(value, 65536);
    assert_int_equal(parse(POLICY_MORSEL_SIZE, "16M", &value), 0);
    assert_int_equal(parse(POLICY_MORSEL_SIZE, "16777216", &value), 0);
    assert_int_equal(parse(POLICY_MORSEL_SIZE, "17M", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_MORSEL_SIZE, "3M", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_MORSEL_SIZE, "32K", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_MORSEL_SIZE, "4294967295M", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_REPLICAS, "3", &value), 0);
    assert_int_equal(parse(POLICY_REPLICAS, "4", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_STRIPE_SIZE, "1024", &value), 0);
    assert_int_equal(parse(POLICY_STRIPE_SIZE, "1025", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_STRIPE_WIDTH, "64", &value), 0);
    assert_int_equal(parse(POLICY_STRIPE_WIDTH, "65", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_STRIPE_WIDTH, "", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_STRIPE_WIDTH, "-1", &value), MORSEL_INVAL);
    assert_int_equal(parse(POLICY_STRIPE_WIDTH, "4x", &value), MORSEL_INVAL);
    assert_int_equal(value, 64);
}

static void errors_say_what_is_right(void **state)
{
    struct errmsg err;
    uint32_t value;

    (void)state;
    assert_int_equal(policy_value_parse(POLICY_MORSEL_SIZE, "3Mxx", 2, &value, &err), MORSEL_INVAL);
    assert_string_equal(err.text,
                        "morsel_size \"3M\" is not valid; give a power of two from 64K to 16M");
}

static void a_policy_survives_its_text(void **state)
{
    struct policy_values policy = { { CLASS_DURABLE, 1, 1 << 20, 0, 4 }, POLICY_OF_DIRECTORY };
    struct policy_values again;
    char text[POLICY_TEXT_MAX];

    (void)state;
    policy_format(&policy, text);
    assert_string_equal(text, "class=durable replicas=1 morsel_size=1048576 stripe_size=0 "
                              "stripe_width=4");
    assert_int_equal(policy_parse(text, &again), 0);
    assert_memory_equal(&again, &policy, sizeof(policy));
    policy.copies_from = POLICY_AUTO;
    policy_format(&policy, text);
    assert_string_equal(text, "class=durable replicas=1 morsel_size=1048576 stripe_size=0 "
                              "stripe_width=4 copies_from=auto");
    assert_int_equal(policy_parse(text, &again), 0);
    assert_memory_equal(&again, &policy, sizeof(policy));
    assert_int_equal(policy_parse("replicas=2 copies_from=cluster", &again), 0);
    assert_int_equal(again.copies_from, POLICY_OF_CLUSTER);
    assert_int_equal(policy_parse("replicas=2 copies_from=elsewhere", &again), 0);
    assert_int_equal(again.copies_from, POLICY_OF_DIRECTORY);
    assert_int_equal(policy_parse("class=durable replicas=4", &again), MORSEL_MALFORMED);
    assert_int_equal(policy_parse("class=durable replicas", &again), MORSEL_MALFORMED);
}

static void a_layout_survives_its_text(void **state)
{
    struct layout_text layout = { .layout_class = CLASS_DURABLE,
                                  .replicas = 1,
                                  .morsel_bytes = MORSEL_BYTES_MAX,
                                  .stripe_morsels = STRIPE_MORSELS_MAX,
                                  .width = STRIPE_WIDTH_MAX };
    struct layout_text again;
    char text[LAYOUT_TEXT_MAX];

    (void)state;
    for (uint32_t i = 0; i < STRIPE_WIDTH_MAX; i++) {
        layout.servers[i] = UINT32_MAX - i;
    }
    layout_format(&layout, text);
    assert_int_equal(layout_parse(text, &again), 0);
    assert_memory_equal(&again, &layout, sizeof(layout));
}

static void groups_survive_their_text(void **state)
{
    struct layout_text layout = { .layout_class = CLASS_DURABLE,
                                  .replicas = REPLICAS_MAX,
                                  .morsel_bytes = MORSEL_BYTES_MAX,
                                  .stripe_morsels = STRIPE_MORSELS_MAX,
                                  .width = STRIPE_WIDTH_MAX };
    struct layout_text again;
    char text[LAYOUT_TEXT_MAX];

    (void)state;
    for (uint32_t i = 0; i < STRIPE_WIDTH_MAX; i++) {
        layout.servers[i] = UINT32_MAX - i;
        layout.groups[i] = (struct layout_text_group){
            UINT32_MAX - i, i == 1 ? 2 : 3, { UINT32_MAX - i, UINT32_MAX, i == 1 ? 0 : UINT32_MAX }
        };
    }
    layout_format(&layout, text);
    assert_int_equal(layout_parse(text, &again), 0);
    assert_memory_equal(&again, &layout, sizeof(layout));
    assert_int_equal(layout_parse("class=durable replicas=2 morsel_size=65536 stripe_size=1 "
                                  "servers=3,4 groups=7:3/4,8:4/1",
                                  &again),
                     0);
    assert_int_equal(again.groups[1].number, 8);
    assert_int_equal(again.groups[1].servers[1], 1);
}

static void damaged_layouts_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "class=durable",
        "class=durable replicas=1 morsel_size=1048576 stripe_size=1",
        "class=durable replicas=1 morsel_size=1048576 stripe_size=1 servers=",
        "class=durable replicas=1 morsel_size=1048576 stripe_size=1 servers=1,,2",
        "class=durable replicas=1 morsel_size=1048577 stripe_size=1 servers=1,2",
        "class=durable replicas=1 stripe_size=1 servers=1,2",
        "class=durable replicas=1 morsel_size=1048576 stripe_size=1 servers=1 x",
        "class=durable replicas=2 morsel_size=65536 stripe_size=1 servers=3,4 groups=7:3/4",
        "class=durable replicas=2 morsel_size=65536 stripe_size=1 servers=3,4 "
        "groups=7:3/4,8:4/1,9:1/2",
        "class=durable replicas=2 morsel_size=65536 stripe_size=1 servers=3,4 groups=7:3/4,8",
        "class=durable replicas=2 morsel_size=65536 stripe_size=1 servers=3,4 groups=7:3/4,:4/1",
        "class=durable replicas=2 morsel_size=65536 stripe_size=1 servers=3,4 groups=7:3/4,8:",
        "class=durable replicas=2 morsel_size=65536 stripe_size=1 servers=3,4 "
        "groups=7:3/4,8:1/2/3/4",
        "class=durable replicas=2 morsel_size=65536 stripe_size=1 servers=3,4 groups=7:3/4,8:4/1 "
        "groups=7:3/4,8:4/1",
        "class=durable replicas=2 morsel_size=65536 stripe_size=1 servers=3,4 groups=7:3/4,8:4/1 "
        "servers=5",
    };
    struct layout_text layout;

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(layout_parse(bad[i], &layout), MORSEL_MALFORMED);
    }
    assert_int_equal(layout_parse("class=durable replicas=1 morsel_size=1048576 stripe_size=2 "
                                  "servers=3,1 epoch=4",
                                  &layout),
                     0);
    assert_int_equal(layout.width, 2);
    assert_int_equal(layout.servers[0], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_have_two_names),         cmocka_unit_test(values_are_bounded),
        cmocka_unit_test(errors_say_what_is_right),    cmocka_unit_test(a_policy_survives_its_text),
        cmocka_unit_test(a_layout_survives_its_text),  cmocka_unit_test(groups_survive_their_text),
        cmocka_unit_test(damaged_layouts_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
