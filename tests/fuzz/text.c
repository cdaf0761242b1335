/* Text that users and files hand in: addresses, mount options, policies, layouts, single settings,
 * names of object files, and the heads of object files. What is accepted says the same when it is
 * written and read again.
 *
 * Input: one byte picks the parser, the rest is the text. */
#include "client/fuse/options.h"
#include "common/base/check.h"
#include "common/base/slice.h"
#include "common/base/status.h"
#include "common/fs/origin.h"
#include "common/fs/policy_text.h"
#include "common/rpc/address.h"
#include "common/store/store_format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_policy(const char *text)
{
    struct policy_values values, again;
    char out[POLICY_TEXT_MAX];

    if (policy_parse(text, &values) == MORSEL_OK) {
        policy_format(&values, out);
        CHECK(policy_parse(out, &again) == MORSEL_OK);
        CHECK(memcmp(&values, &again, sizeof(again)) == 0);
    }
}

static void try_policy_value(const char *text)
{
    for (unsigned key = 0; key < POLICY_KEYS; key++) {
        char out[POLICY_VALUE_TEXT_MAX];
        uint32_t value, again;

        if (policy_value_parse(key, text, strlen(text), &value, NULL) == MORSEL_OK) {
            policy_value_format(key, value, out);
            CHECK(policy_value_parse(key, out, strlen(out), &again, NULL) == MORSEL_OK);
            CHECK(value == again);
        }
    }
}

static void try_layout(const char *text)
{
    struct layout_text layout, again;
    char out[LAYOUT_TEXT_MAX];

    if (layout_parse(text, &layout) == MORSEL_OK) {
        CHECK(layout.width <= STRIPE_WIDTH_MAX);
        layout_format(&layout, out);
        CHECK(layout_parse(out, &again) == MORSEL_OK);
        CHECK(layout.width == again.width && layout.morsel_bytes == again.morsel_bytes);
        CHECK(memcmp(layout.groups, again.groups, sizeof(layout.groups)) == 0);
    }
}

static void try_mount_options(const char *text)
{
    struct mount_settings *settings = calloc(1, sizeof(*settings));
    char kernel[MOUNT_KERNEL_OPTIONS_MAX];
    struct errmsg err = { "" };
    int rv;

    CHECK(settings != NULL);
    config_defaults(mount_command_table(), settings);
    config_defaults(mount_option_table(), settings);
    if (strlen(text) < sizeof(settings->options)) {
        memcpy(settings->options, text, strlen(text) + 1);
        rv = mount_options_parse(settings, kernel, &err);
        CHECK(rv != MORSEL_OK ? err.text[0] != '\0' : strlen(kernel) < sizeof(kernel));
        CHECK(rv != MORSEL_OK || !(settings->soft && settings->hard));
    }
    free(settings);
}

static void try_address(const char *text)
{
    struct errmsg err = { "" };
    struct address address;

    if (address_parse(text, &address, &err) == MORSEL_OK) {
        CHECK(strlen(address.host) < sizeof(address.host) &&
              strlen(address.port) < sizeof(address.port));
        CHECK(atoi(address.port) == address.port_number);
    } else {
        CHECK(err.text[0] != '\0');
    }
}

static void try_object_name(const char *text)
{
    char name[STORE_NAME_BYTES];
    struct object_id id;

    if (store_name_parse(text, &id)) {
        store_name(id, name);
        CHECK(strcmp(strchr(name, '/') + 1, text) == 0);
    }
}

static void try_names(const struct origin *origin)
{
    char name[NAME_BYTES_MAX];
    size_t count;
    const char *path;

    CHECK(origin_source(origin, &path) != INODE_NONE && *path == '/');
    while (path != NULL && *path == '/') {
        path = origin_take_name(path + 1, name, &count);
        CHECK(path == NULL || (count > 0 && memchr(name, 0, count) == NULL));
    }
}

static void try_origin(const char *text)
{
    struct origin origin, again;
    char out[ORIGIN_TEXT_MAX];

    if (origin_parse(slice_text(text), &origin) == MORSEL_OK) {
        origin_format(&origin, out);
        CHECK(origin_parse(slice_text(out), &again) == MORSEL_OK);
        CHECK(origin_same(&origin, &again) && origin.size == again.size);
        if (origin_is_inside(&origin)) {
            try_names(&origin);
        }
    }
}

static void try_object_head(const uint8_t *data, size_t size)
{
    uint8_t bytes[STORE_HEADER_BYTES], again[STORE_HEADER_BYTES];
    struct store_header header;

    if (size >= sizeof(bytes)) {
        memcpy(bytes, data, sizeof(bytes));
        if (store_header_decode(bytes, &header) == MORSEL_OK) {
            store_header_encode(&header, again);
            CHECK(memcmp(bytes, again, sizeof(bytes)) == 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parsers[])(
        const char *) = { try_policy,  try_policy_value, try_layout, try_mount_options,
                          try_address, try_object_name,  NULL,       try_origin };
    char *text;

    if (size == 0) {
        return 0;
    }
    if (data[0] % 8 == 6) {
        try_object_head(data + 1, size - 1);
        return 0;
    }
    text = calloc(1, size); /* Exact, so that the sanitizer sees a step too far. */
    CHECK(text != NULL);
    memcpy(text, data + 1, size - 1);
    parsers[data[0] % 8](text);
    free(text);
    return 0;
}
